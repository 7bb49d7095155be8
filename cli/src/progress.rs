//! How far long work is, on stderr: a bar on a terminal, a plain line for each part of it elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// How many characters the bar has, and what it is about at most.
const WIDTH: u64 = 24;
const NAME: usize = 36;

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(60);

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Pieces,
}

/// A bar, which is about one part of the work after the other.
pub(crate) struct Bar {
    terminal: bool,
    quiet: bool,
    /// The part that it is about.
    part: String,
    /// When it was drawn; none if it is not there.
    drawn: Option<Instant>,
}

impl Bar {
    /// A bar of which nothing is seen yet, or ever.
    pub(crate) fn new(quiet: bool) -> Bar {
        Bar { terminal: std::io::stderr().is_terminal(), quiet, part: String::new(), drawn: None }
    }

    /// Shows how much of a part is done.
    pub(crate) fn show(&mut self, part: &str, done: u64, total: u64, unit: Unit) {
        if self.quiet {
            return;
        }
        let new = self.part != part;
        if new {
            part.clone_into(&mut self.part);
        }
        if self.terminal {
            let early = self.drawn.is_some_and(|at| at.elapsed() < PAUSE);
            if new || done >= total || !early {
                self.drawn = Some(Instant::now());
                eprint!("\r\x1b[K{}", line(part, done, total, unit));
                let _ = std::io::stderr().flush();
            }
        } else if new {
            eprintln!("{}", plain(part, total, unit));
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
        self.part.clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A number of bytes, for who reads it.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} bytes");
    }
    let mut x = n as f64 / 1000.0;
    let mut unit = 0;
    while x >= 999.5 && unit + 1 < UNITS.len() {
        x /= 1000.0;
        unit += 1;
    }
    let digits = if x < 9.995 { 2 } else { usize::from(x < 99.95) };
    format!("{x:.digits$} {}", UNITS[unit])
}

fn amount(n: u64, unit: Unit) -> String {
    if unit == Unit::Bytes { bytes(n) } else { n.to_string() }
}

/// A bar and what is beside it. Where nothing is counted there is none.
fn line(part: &str, done: u64, total: u64, unit: Unit) -> String {
    let mut name: String = part.chars().take(NAME).collect();
    if name.len() < part.len() {
        name.push_str("..");
    }
    if total == 0 {
        return name;
    }
    let done = done.min(total);
    // Bytes of large files do not overflow what they are multiplied in.
    let full = (u128::from(done) * u128::from(WIDTH) / u128::from(total)) as usize;
    let mut out = format!("{name} [");
    (0..WIDTH as usize).for_each(|i| out.push(if i < full { '=' } else { ' ' }));
    let _ = write!(out, "] {} of {}", amount(done, unit), amount(total, unit));
    out
}

/// The line of a part, where there is no terminal.
fn plain(part: &str, total: u64, unit: Unit) -> String {
    if total == 0 { part.to_owned() } else { format!("{part}: {}", amount(total, unit)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let said: Vec<String> =
            [0, 999, 1000, 12_345, 999_499, 999_999, 4_567_890_123].into_iter().map(bytes).collect();
        let want = ["0 bytes", "999 bytes", "1.00 kB", "12.3 kB", "999 kB", "1.00 MB", "4.57 GB"];
        assert_eq!(said, want);
    }

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        let half = format!("reading [{}{}] 1 of 2", "=".repeat(12), " ".repeat(12));
        assert_eq!(line("reading", 1, 2, Unit::Pieces), half);
        assert_eq!(line("reading", 0, 0, Unit::Pieces), "reading");
        assert_eq!(plain("a", 1_500_000, Unit::Bytes), "a: 1.50 MB");
        let long = line(&"x".repeat(50), u64::MAX, u64::MAX, Unit::Bytes);
        assert!(long.starts_with(&format!("{}.. [====", "x".repeat(36))), "{long}");
    }
}
