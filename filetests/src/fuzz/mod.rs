//! Texts that no one would write, through the front half: nothing may panic, hang or exhaust memory. And questions
//! about dims that no program asks ([`ask`]).
//!
//! A seed decides a text ([`input`]); [`feed`] takes it through lexer, parser, formatter and checker.
//! Tier 1 feeds a few thousand; `cargo xtask fuzz` goes on from there in processes of its own, so that
//! an overflowing stack or a hang costs one of them and is laid at the door of its seed.

mod input;
mod shapes;

#[path = "../../../parser/tests/parser/support/generate.rs"]
#[allow(unreachable_pub, reason = "the parser's own tests include it as a module of theirs")]
mod generate;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use driver::pipeline;
use ir::source::SourceId;

pub use input::{Corpus, input};
pub use shapes::ask;

/// The longest that a thread may compute for one text. What else the machine does is not counted.
pub const SLOWEST: Duration = Duration::from_secs(2);

/// Takes a text through the front half; what is wrong with how that went.
pub fn feed(text: &str) -> Result<(), String> {
    let start = computed();
    let fed = catch_unwind(AssertUnwindSafe(|| through(text)));
    let took = computed().saturating_sub(start);
    match fed {
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Err(format!("panics: {said}"))
        }
        Ok(Err(wrong)) => Err(wrong),
        Ok(Ok(())) if took > SLOWEST => Err(format!("takes {took:?}")),
        Ok(Ok(())) => Ok(()),
    }
}

/// What this thread has computed.
fn computed() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

fn through(text: &str) -> Result<(), String> {
    let (file, faults) = parser::parse(SourceId::default(), text);
    for span in faults.iter().flat_map(|f| &f.labels).map(|l| l.span) {
        if span.lo > span.hi || span.hi as usize > text.len() {
            return Err(format!("a fault at {span:?} of {} bytes", text.len()));
        }
    }
    if faults.is_empty() {
        let once = parser::format(text).map_err(|_| "what parses is not formatted".to_owned())?;
        let (again, faults) = parser::parse(SourceId::default(), &once);
        if let Some(f) = faults.first() {
            return Err(format!("what was printed does not parse: {}\n{once}", f.message));
        }
        if !parser::same_program(&file, &again) {
            return Err(format!("what was printed is another program:\n{once}"));
        }
        if parser::format(&once).as_ref().ok() != Some(&once) {
            return Err(format!("formatting is not idempotent:\n{once}"));
        }
    }
    let mut sources = pipeline::sources();
    let id = sources.add("fuzz.tn", text);
    let (sources, failure) = match pipeline::front(sources, &[id]) {
        Ok(_) => return Ok(()),
        Err(failed) => failed,
    };
    // Every place that a diagnostic speaks of can be shown.
    let shown = failure.render(&sources, false);
    if shown.is_empty() { Err("refused without a word".to_owned()) } else { Ok(()) }
}
