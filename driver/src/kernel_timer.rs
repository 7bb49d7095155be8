//! Timing of kernels, as the machine calls them: with the buffer they write, on the threads of the program, with
//! operands hot or cold.

use std::time::{Duration, Instant};

use ir::source::SourceMap;
use tensor::{DType, Tensor};
use vm::{Arg, Context, Limits, Profile};

use crate::{Failure, engine};

/// Runs before those that count: the machine learns from them how many threads a kernel is worth.
const WARM: usize = 4;
/// Runs that count, however long they take, unless one takes longer than all together should.
const LEAST: usize = 7;
/// Runs at most.
const MOST: usize = 2000;

/// What the instructions of an entry take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Microseconds of the run in the middle, without taking arguments in and giving results out.
    pub(crate) us: f64,
    /// Operations of a call, as far as they are known.
    pub(crate) flops: f64,
}

/// Times the instructions of an entry. The runs take the sets of arguments in turn.
pub(crate) fn kernels(
    context: &mut Context,
    entry: &str,
    sets: &[Vec<Tensor>],
    budget: Duration,
    sources: &SourceMap,
) -> Result<Taken, Failure> {
    let limits = Limits::default();
    let mut turns = sets.iter().cycle();
    let mut next = || turns.next().map_or_else(Vec::new, |set| set.iter().collect::<Vec<_>>());
    let begun = Instant::now();
    for _ in 0..WARM {
        context.run(entry, &next(), &limits).map_err(|e| engine::vm_failure(&e, sources))?;
        if begun.elapsed() > budget {
            break;
        }
    }
    let exe = context.executable().clone();
    let mut profile = Profile::new(exe.program());
    let begun = Instant::now();
    for run in 0..MOST {
        let spent = begun.elapsed();
        if spent > budget && (run >= LEAST || run > 0 && spent > budget * 8) {
            break;
        }
        let done = context.profile(entry, next().into_iter().map(Arg::Lent), &limits, &mut profile);
        done.map_err(|e| engine::vm_failure(&e, sources))?;
    }
    let clock = profile.clock_ns();
    let (mut ns, mut flops) = (0, 0.0);
    for (_, _, row) in profile.rows() {
        ns += row.median_ns().saturating_sub(clock);
        flops += row.work.map_or(0.0, |w| w.flops as f64 / row.calls as f64);
    }
    Ok(Taken { us: ns.max(1) as f64 / 1e3, flops })
}

/// Some tensor of a type: numbers around 0, but zeros where they are integers, which may be positions.
pub(crate) fn filled(dtype: DType, shape: &[i64]) -> Result<Tensor, Failure> {
    let fail = |e: tensor::Error| Failure::data(e.to_string());
    let mut out = Tensor::zeros(dtype, shape).map_err(fail)?;
    if dtype.is_float() {
        // Making each number anew would take longer than what is measured.
        const PIECE: i64 = 4096;
        let piece = tensor::generate::random(dtype, &[PIECE], 1).map_err(fail)?;
        for part in out.bytes_mut().chunks_mut(piece.bytes().len()) {
            part.copy_from_slice(&piece.bytes()[..part.len()]);
        }
    }
    Ok(out)
}

/// A tensor in memory of its own.
pub(crate) fn copy(t: &Tensor) -> Result<Tensor, Failure> {
    Tensor::from_bytes(t.dtype(), t.shape(), t.bytes()).map_err(|e| Failure::data(e.to_string()))
}
