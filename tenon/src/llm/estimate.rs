//! What a model will take, before its weights are read: memory, and tokens a second.

use std::path::Path;

use driver::data::Wanted;
use driver::estimate::{self, Dims, Work};
use driver::pipeline::Options as Compile;
use driver::progress::Watch;
use driver::{Checkpoint, Front};
use shape::Expr;

use super::generate::CHUNK;
use super::model::{self, Load};
use super::state::{PAGE, State};
use super::{encoder, library};
use crate::Error;

/// What a process holds beside a model: itself, the compiler, texts and tokens. Measured, and rounded up.
pub const PROCESS: u64 = 192 << 20;

/// What a model takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Bytes of weights as they are stored.
    pub weights: u64,
    /// Those of them that stay in memory as they are; others are laid out, and forgotten.
    pub stays: u64,
    /// Bytes that are made of the others when they are loaded.
    pub laid_out: u64,
    /// Bytes of what all sequences keep.
    pub state: u64,
    /// Bytes that a step holds at most; none where only running tells.
    pub arena: Option<u64>,
    /// Tokens of a prompt that a second takes, at most.
    pub prefill_tps: f64,
    /// Tokens that all sequences together gain in a second, at most; none of a model that takes whole texts.
    pub decode_tps: Option<f64>,
    /// The most tokens of a sequence.
    pub context: usize,
    /// The matrices that are not stored as was asked ([`Load::quant`]): their rows are no whole blocks.
    pub unencoded: Vec<String>,
}

impl Estimate {
    /// The bytes of weights, of what sequences keep, and of a step: what [`Load::memory`] limits.
    pub fn held(&self) -> u64 {
        estimate::sum([self.stays, self.laid_out, self.state, self.arena.unwrap_or(0)])
    }

    /// All bytes, with those of the process.
    pub fn total(&self) -> u64 {
        estimate::sum([self.held(), PROCESS])
    }
}

/// What a step is given: so many rows, of so many sequences, each with so many tokens.
struct Step {
    rows: usize,
    sequences: usize,
    span: usize,
}

/// Estimates a model for the sequences and the context that `load` says. Nothing of its weights is read, and no kernel
/// is compiled. Of the context each sequence has as much.
pub fn estimate(path: impl AsRef<Path>, load: &Load) -> Result<Estimate, Error> {
    let (checkpoint, load) = &model::opened(path.as_ref(), load)?;
    estimated(checkpoint, load, load.sequences.max(1))
}

/// Refuses a model that needs more memory than it may have ([`Load::memory`]).
pub(crate) fn affordable(checkpoint: &Checkpoint, load: &Load) -> Result<(), Error> {
    let Some(most) = load.memory else { return Ok(()) };
    // Of a model that is loaded all sequences have the context together.
    let e = estimated(checkpoint, load, 1)?;
    let (weights, step) = (estimate::sum([e.stays, e.laid_out]), e.arena.unwrap_or(0));
    let needed = estimate::sum([weights, e.state, step]);
    if needed <= most {
        return Ok(());
    }
    let kept = match e.state {
        0 => String::new(),
        n => format!(", {n} for what sequences keep ({} tokens, {} sequences)", e.context, load.sequences),
    };
    let text = format!(
        "the model needs {needed} bytes, and {most} are allowed: {weights} for weights{kept}, {step} for a step"
    );
    Err(Error::message("E0602", text))
}

/// The same, with so many times the context for all sequences together.
fn estimated(checkpoint: &Checkpoint, load: &Load, contexts: usize) -> Result<Estimate, Error> {
    let front = library::program(checkpoint, load.model.as_deref())?;
    let name = library::entry(&front)?;
    let how = model::binding(&front, load);
    let mut compile = load.options.compile.clone();
    compile.watch = Watch::default();
    let threads = crate::module::pool(&load.options)?;
    crate::module::deep(move || {
        let mut front: Front = front;
        let made = driver::model::bind(&mut front, name, checkpoint, &how).and_then(|bound| {
            let planned = estimate::Estimate::new(&front, bound.entry, &compile, threads)?;
            Ok((bound, planned))
        });
        match made {
            Ok((bound, planned)) => Ok((bound, planned, compile)),
            Err(f) => Err((front.sources, f)),
        }
    })
    .and_then(|(bound, planned, compile)| told(&bound, &planned, (load, contexts), &compile, name == "step"))
}

fn told(
    bound: &driver::model::Bound,
    planned: &estimate::Estimate,
    (load, contexts): (&Load, usize),
    compile: &Compile,
    keeps: bool,
) -> Result<Estimate, Error> {
    let is_open = |i: &usize| bound.given[*i].is_none() && !bound.is_weight(*i);
    let open: Vec<Wanted> =
        (0..bound.wanted.len()).filter(is_open).map(|i| bound.wanted[i].clone()).collect();
    let context = model::context_of(&bound.config, load);
    let sequences = load.sequences.max(1);
    let state = State::declared(&open, &bound.config)?;
    let tokens = context.saturating_mul(contexts);
    let (pages, slots) = super::engine::pools(&state, tokens, sequences)?;
    let pools = state.shapes(&open, &bound.config, pages, slots)?;
    let dims = |step: &Step| {
        let mut dims = Dims::new();
        for (i, w) in open.iter().enumerate() {
            let part =
                |field: &str| state.parts.iter().any(|p| p.places.contains(&i)) && w.name.ends_with(field);
            let extents: Vec<i64> = match w.name.as_str() {
                "last" => vec![step.sequences as i64],
                "spans.first" | "spans.count" => vec![step.sequences as i64],
                _ if part(".table") => vec![step.sequences as i64, step.span as i64],
                _ if part(".from") || part(".to") => vec![step.sequences as i64],
                _ => pools.get(&i).cloned().unwrap_or_else(|| vec![step.rows as i64]),
            };
            for (d, n) in w.ty.shape.iter().zip(extents) {
                dims.extend(Expr::as_sym(d).map(|s| (s, n)));
            }
        }
        dims
    };
    let machine = &compile.plan.machine;
    let span = context.div_ceil(PAGE);
    // As the engine goes through a prompt, and an encoder through texts.
    let rows = if keeps { CHUNK } else { encoder::ROWS };
    let prompt = dims(&Step { rows: rows.min(context), sequences: 1, span });
    let next = dims(&Step { rows: sequences, sequences, span });
    let first = Step { rows: rows.min(context), sequences: 1, span: rows.min(context).div_ceil(PAGE) };
    let arenas = [&prompt, &next].map(|dims| planned.arena(dims, &bound.given));
    let rate = |work: Work, rows: usize| rows as f64 / (work.us / 1e6).max(1e-9);
    let prefill_tps = rate(planned.work(&dims(&first), machine), first.rows);
    let decode_tps = keeps.then(|| rate(planned.work(&next, machine), sequences));
    let none = Dims::new();
    let here = (0..bound.wanted.len()).filter(|&i| bound.is_weight(i) && planned.stays(i));
    let stays = estimate::sum(here.filter_map(|i| estimate::bytes(&bound.wanted[i].ty, &none)));
    Ok(Estimate {
        weights: bound.weights(),
        stays,
        laid_out: planned.laid_out(&none),
        state: u64::try_from(state.bytes_of(pages, slots)).unwrap_or(u64::MAX),
        arena: arenas.into_iter().try_fold(0, |most, a| Some(a?.max(most))),
        prefill_tps,
        decode_tps,
        context,
        unencoded: bound.unencoded.clone(),
    })
}
