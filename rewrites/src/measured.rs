//! The tuning database: what kernels were measured to take, a text file, a line a kernel at some dims, sorted.
//!
//! ```text
//! laptop-2  fused_matmul_relu#9c31f0a2d4b85e17  cold b  m=1,k=784,n=128  11.37
//! ```
//!
//! A kernel is named by its primitive and a hash of its loops, so that an entry never speaks of other loops; a name
//! without a hash, as one writes by hand, is any kernel of the name. `cold` are the operands that came from main
//! memory, as weights do; `*`: whichever. Where a kernel was measured at the dims asked for, that is the answer;
//! between measured dims the model is trusted for the form of the curve and the measurements for its height: the
//! logarithm of measured over modelled is interpolated, dim by dim, in the logarithms of the dims. Beyond the outermost
//! measured dims that ratio stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Error;

/// Where a cost comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Basis {
    /// Measured at these dims.
    Measured,
    /// Between measured dims.
    Interpolated,
    /// Beyond measured dims.
    Extrapolated,
    /// By the model of the machine.
    Modelled,
    /// By the model, for a number of rounds that depends on data.
    Guessed,
}

impl Basis {
    /// The name reports show.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Interpolated => "interpolated",
            Basis::Extrapolated => "extrapolated",
            Basis::Modelled => "modelled",
            Basis::Guessed => "guessed",
        }
    }
}

/// What is measured: a kernel, some of whose operands are cold, at some dims.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The kernel: `matmul#9c31f0a2d4b85e17`.
    pub kernel: String,
    /// The cold operands: `-`, `*` or names with commas.
    pub cold: String,
    /// Its dims.
    pub dims: Vec<(String, i64)>,
}

/// The measurements of one kernel, by its dims.
#[derive(Clone, PartialEq, Debug, Default)]
struct Table {
    names: Vec<String>,
    points: BTreeMap<Vec<i64>, f64>,
}

/// Measurements.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Database {
    tables: BTreeMap<(String, String, String), Table>,
}

impl Database {
    /// Reads a database.
    pub fn parse(text: &str) -> Result<Database, Error> {
        let mut found = Database::default();
        for (number, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default();
            // A `#` with something before it belongs to a name.
            if said.trim().is_empty() {
                continue;
            }
            found.line(line).map_err(|what| Error::Database { line: number + 1, what })?;
        }
        Ok(found)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[machine, kernel, "cold", cold, dims, us] = words.as_slice() else {
            return Err("a line is MACHINE KERNEL cold OPERANDS DIMS MICROSECONDS".to_owned());
        };
        let pair = |text: &str| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.parse::<i64>().ok().filter(|n| *n >= 0)?))
        };
        let list: Vec<&str> = if dims == "-" { Vec::new() } else { dims.split(',').collect() };
        let dims = list.iter().map(|d| pair(d).ok_or(format!("`{d}` is not DIM=N")));
        let key = Key { kernel: kernel.into(), cold: cold.into(), dims: dims.collect::<Result<_, _>>()? };
        let us = us.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0);
        self.insert(machine, &key, us.ok_or("the microseconds are not a number above 0")?)
    }

    /// Keeps a measurement in the place of an older one.
    pub fn insert(&mut self, machine: &str, key: &Key, us: f64) -> Result<(), String> {
        let (names, values): (Vec<String>, Vec<i64>) = key.dims.iter().cloned().unzip();
        let at = (machine.to_owned(), key.kernel.clone(), key.cold.clone());
        let table =
            self.tables.entry(at).or_insert_with(|| Table { names: names.clone(), ..Table::default() });
        if table.names != names {
            let (old, new) = (table.names.join(", "), names.join(", "));
            return Err(format!("{} has the dims {old} and here {new}", key.kernel));
        }
        table.points.insert(values, us);
        Ok(())
    }

    /// True if this was measured itself.
    pub fn has(&self, machine: &str, key: &Key) -> bool {
        let at = (machine.to_owned(), key.kernel.clone(), key.cold.clone());
        let values: Vec<i64> = key.dims.iter().map(|d| d.1).collect();
        self.tables.get(&at).is_some_and(|t| t.points.contains_key(&values))
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// How many measurements it holds.
    pub fn len(&self) -> usize {
        self.tables.values().map(|t| t.points.len()).sum()
    }

    /// The file, sorted.
    pub fn to_text(&self) -> String {
        let mut out =
            String::from("# machine, kernel, cold operands, dims, microseconds; written by `tenon tune`\n");
        for ((machine, kernel, cold), table) in &self.tables {
            for (values, us) in &table.points {
                let dims = table.names.iter().zip(values).map(|(n, v)| format!("{n}={v}"));
                let dims = dims.collect::<Vec<_>>().join(",");
                let dims = if dims.is_empty() { "-" } else { &dims };
                let _ = writeln!(out, "{machine}  {kernel}  cold {cold}  {dims}  {us:.3}");
            }
        }
        out
    }

    /// Microseconds of a kernel, whose model is given; none if nothing was measured of it.
    pub(crate) fn us(
        &self,
        machine: &str,
        (kernel, cold): (&str, &str),
        dims: &[i64],
        model: &dyn Fn(&[i64]) -> f64,
    ) -> Option<(f64, Basis)> {
        let by = |kernel: &str, cold: &str| {
            let table = self.tables.get(&(machine.to_owned(), kernel.to_owned(), cold.to_owned()))?;
            Some(table).filter(|t| t.names.len() == dims.len())
        };
        let plain = kernel.split('#').next().unwrap_or(kernel);
        let table = by(kernel, cold).or_else(|| by(plain, cold)).or_else(|| by(plain, "*"))?;
        if let Some(us) = table.points.get(dims) {
            return Some((*us, Basis::Measured));
        }
        let points: Vec<(&[i64], f64)> = table.points.iter().map(|(at, us)| (at.as_slice(), *us)).collect();
        let (ratio, within) = blend(&points, dims, 0, model)?;
        let basis = if within { Basis::Interpolated } else { Basis::Extrapolated };
        Some((model(dims) * ratio.exp(), basis))
    }
}

/// The logarithm of measured over modelled at some dims, from the measured points whose dims before `axis` are those of
/// the neighbours chosen so far; and whether the dims from there on lie between neighbours.
fn blend(
    points: &[(&[i64], f64)],
    dims: &[i64],
    axis: usize,
    model: &dyn Fn(&[i64]) -> f64,
) -> Option<(f64, bool)> {
    let Some(&at) = dims.get(axis) else {
        let (point, us) = points.first()?;
        return Some(((us / model(point)).ln(), true));
    };
    let below = points.iter().map(|p| p.0[axis]).filter(|&x| x <= at).max();
    let above = points.iter().map(|p| p.0[axis]).filter(|&x| x >= at).min();
    let side = |x: i64| {
        let same: Vec<_> = points.iter().copied().filter(|p| p.0[axis] == x).collect();
        blend(&same, dims, axis + 1, model)
    };
    match (below, above) {
        (Some(lo), Some(hi)) if lo < hi => {
            let log = |x: i64| (x.max(0) as f64 + 1.0).ln();
            let part = (log(at) - log(lo)) / (log(hi) - log(lo));
            let ((a, inside_a), (b, inside_b)) = (side(lo)?, side(hi)?);
            Some((a + part * (b - a), inside_a && inside_b))
        }
        (Some(x), Some(_)) => side(x),
        (Some(x), None) | (None, Some(x)) => side(x).map(|(ratio, _)| (ratio, false)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# machine, kernel, cold operands, dims, microseconds; written by `tenon tune`
here  f#12  cold -  m=1,n=1  2.000
here  f#12  cold -  m=1,n=7  8.000
here  f#12  cold -  m=3,n=1  4.000
here  f#12  cold -  m=3,n=7  32.000
here  g  cold *  -  1.500
";

    fn us(db: &Database, kernel: &str, dims: &[i64]) -> Option<(f64, Basis)> {
        db.us("here", (kernel, "-"), dims, &|_| 1.0)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let db = Database::parse(TEXT).unwrap();
        assert_eq!(db.len(), 5);
        assert_eq!(db.to_text(), TEXT);
    }

    #[test]
    fn a_measured_point_is_itself_and_between_points_the_ratio_to_the_model_is_blended() {
        let db = Database::parse(TEXT).unwrap();
        assert_eq!(us(&db, "f#12", &[3, 7]), Some((32.0, Basis::Measured)));
        // Half-way in the logarithms of 1 + dim: n = 3 lies between 1 and 7.
        let close = |found: Option<(f64, Basis)>, want: f64, basis| {
            let (us, b) = found.unwrap();
            assert!((us - want).abs() < 1e-9 && b == basis, "{us} {b:?}");
        };
        close(us(&db, "f#12", &[1, 3]), 4.0, Basis::Interpolated);
        close(us(&db, "f#12", &[3, 3]), 128f64.sqrt(), Basis::Interpolated);
        close(us(&db, "f#12", &[3, 100]), 32.0, Basis::Extrapolated);
        // The form of the curve is the model's.
        let model = |d: &[i64]| d[1] as f64;
        close(db.us("here", ("f#12", "-"), &[3, 14], &model), 64.0, Basis::Extrapolated);
    }

    #[test]
    fn an_entry_is_of_its_machine_its_loops_and_its_cold_operands() {
        let db = Database::parse(TEXT).unwrap();
        assert_eq!(us(&db, "f#13", &[1, 1]), None);
        assert_eq!(us(&db, "g#99", &[]), Some((1.5, Basis::Measured)));
        assert_eq!(db.us("there", ("f#12", "-"), &[1, 1], &|_| 1.0), None);
        assert_eq!(db.us("here", ("f#12", "a"), &[1, 1], &|_| 1.0), None);
        assert_eq!(db.us("here", ("g#99", "a"), &[], &|_| 1.0), Some((1.5, Basis::Measured)));
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_its_number() {
        for (text, says) in [
            ("\nhere f 1.0\n", "line 2"),
            ("here f cold - m=x 1.0", "not DIM=N"),
            ("here f cold - m=1,n=-1 1.0", "`n=-1` is not DIM=N"),
            ("here f cold - m=1 -1.0", "above 0"),
            ("here f cold - m=1 1.0\nhere f cold - n=1 1.0", "has the dims m and here n"),
        ] {
            let said = Database::parse(text).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }
}
