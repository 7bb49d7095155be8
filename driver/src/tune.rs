//! Measuring what plans are chosen from: the kernels and library calls that a program's functions may use, at sample
//! dims of each regime, on the threads of the run, with weights that come from memory.
//!
//! In: a checked program and a database of measurements. Out: the database with more of them, saved after each batch,
//! so that a run that is stopped is gone on with by the next. What is chosen is measured first, then what comes closest
//! to it by what is known so far; measuring may change the choice, so that is asked anew until nothing is missing or
//! the time is over. What is then so close that the machine's moods decide is measured again, some passes later each
//! time: the middle counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codegen::Compiler;
use ir::graph::Type;
use ir::{FuncId, Module};
use rewrites::{Callee, Database, Key, Machine, Offer};
use shape::Sym;
use tensor::{DType, Tensor};
use vm::Context;
use vm::threads::Pool;
use vm::verify::Verified;

use crate::kernel_timer::{copy, filled, kernels};
use crate::pipeline::{self, Options};
use crate::progress::Watch;
use crate::{Failure, Front, entry};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tuned {
    /// Measured now.
    pub measured: usize,
    /// Measured before, of what was asked for at first.
    pub known: usize,
    /// Not measured, for want of time.
    pub left: usize,
    /// Kernels that could not be run by themselves, and why.
    pub failed: Vec<String>,
}

/// For each kernel at some dims.
const BUDGET: Duration = Duration::from_millis(12);
/// Kernels that are compiled together, each for all dims at which it is measured.
const BATCH: usize = 8;
/// How often the choice is asked anew.
const ROUNDS: usize = 4;
/// What would take so many times as long as a step does not stand in its place because the model is somewhat wrong,
const FAR: f64 = 3.0;
/// and because measurements are, not what would take so many times as long.
const CLOSE: f64 = 1.15;
/// How often what is close is measured again.
const PASSES: usize = 4;

/// Measures what some functions may call, for so many seconds at most. `save` is called after each batch.
pub fn tune(
    front: &Front,
    entries: &[FuncId],
    options: &Options,
    pool: &Arc<Pool>,
    seconds: f64,
    save: &mut dyn FnMut(&Database) -> Result<(), Failure>,
) -> Result<Tuned, Failure> {
    let begun = Instant::now();
    let limit = Duration::from_secs_f64(seconds.clamp(0.0, 1e6));
    let machine = &options.plan.machine;
    let mut known = options.plan.measured.as_deref().cloned().unwrap_or_default();
    let mut tuned = Tuned::default();
    // What was measured now, as often as it was; nothing, where it failed.
    let mut taken: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut wanted = offers(front, entries, &known, FAR, options)?;
        if round == 0 {
            tuned.known = wanted.iter().filter(|o| known.has(&machine.name, &o.key)).count();
        }
        wanted.retain(|o| !known.has(&machine.name, &o.key) && !taken.contains_key(&o.key));
        tuned.left = wanted.len();
        if wanted.is_empty() {
            break;
        }
        for batch in batches(&wanted) {
            if begun.elapsed() >= limit {
                return Ok(tuned);
            }
            for (offer, us) in batch.iter().zip(measure(front, batch, options, pool)) {
                let times = taken.entry(offer.key.clone()).or_default();
                tuned.left -= 1;
                let kept = us.and_then(|us| {
                    known.insert(&machine.name, &offer.key, us).map_err(Failure::data)?;
                    Ok(us)
                });
                match kept {
                    Ok(us) => {
                        times.push(us);
                        tuned.measured += 1;
                    }
                    Err(f) => {
                        let said = f.render(&front.sources, false);
                        let first = said.lines().next().unwrap_or_default().to_owned();
                        tuned.failed.push(format!("{}: {first}", offer.key.kernel));
                    }
                }
            }
            save(&known)?;
        }
    }
    for _ in 0..PASSES {
        let mut close = offers(front, entries, &known, CLOSE, options)?;
        close.retain(|o| taken.get(&o.key).is_some_and(|times| !times.is_empty()));
        for batch in batches(&close) {
            if begun.elapsed() >= limit {
                return Ok(tuned);
            }
            for (offer, us) in batch.iter().zip(measure(front, batch, options, pool)) {
                if let (Ok(us), Some(times)) = (us, taken.get_mut(&offer.key)) {
                    times.push(us);
                    known.insert(&machine.name, &offer.key, middle(times)).map_err(Failure::data)?;
                }
            }
            save(&known)?;
        }
    }
    Ok(tuned)
}

/// The middle of some times, the lower one of two.
fn middle(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// What measurements would choose between by what is known, each once: the kernel on which most time hangs first, at
/// all its dims.
fn offers(
    front: &Front,
    entries: &[FuncId],
    known: &Database,
    far: f64,
    options: &Options,
) -> Result<Vec<Offer>, Failure> {
    let measured = Some(Arc::new(known.clone()));
    let options = options.with_plan(|p| (p.offers, p.measured) = (Some(far), measured));
    let (_, report) = pipeline::plan_of(&front.module, entries, &options);
    pipeline::sound(front, &report, &options)?;
    let mut each: BTreeMap<Key, Offer> = BTreeMap::new();
    let mut stakes: BTreeMap<String, f64> = BTreeMap::new();
    for offer in report.functions.into_iter().flat_map(|f| f.offers) {
        let stake = stakes.entry(offer.key.kernel.clone()).or_default();
        *stake = stake.max(offer.stake);
        each.entry(offer.key.clone()).or_insert(offer);
    }
    let mut list: Vec<Offer> = each.into_values().collect();
    list.sort_by(|a, b| {
        stakes[&b.key.kernel].total_cmp(&stakes[&a.key.kernel]).then_with(|| a.key.cmp(&b.key))
    });
    Ok(list)
}

/// Of offers with those of a kernel side by side, those of a few kernels at a time.
fn batches(offers: &[Offer]) -> Vec<&[Offer]> {
    let kernels: Vec<&[Offer]> = offers.chunk_by(|a, b| a.key.kernel == b.key.kernel).collect();
    let (mut rest, mut batches) = (offers, Vec::new());
    for few in kernels.chunks(BATCH) {
        let (batch, others) = rest.split_at(few.iter().map(|k| k.len()).sum());
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Measures some kernels, each at its dims.
fn measure(front: &Front, batch: &[Offer], options: &Options, pool: &Arc<Pool>) -> Vec<Result<f64, Failure>> {
    match together(front, batch, options, pool) {
        Ok(all) => all,
        // One that does not compile stops all.
        Err(f) if batch.len() == 1 => vec![Err(f)],
        Err(_) => batch.chunks(1).flat_map(|one| measure(front, one, options, pool)).collect(),
    }
}

fn together(
    front: &Front,
    batch: &[Offer],
    options: &Options,
    pool: &Arc<Pool>,
) -> Result<Vec<Result<f64, Failure>>, Failure> {
    let mut module = front.module.clone();
    let calls: Vec<Call> = batch.iter().map(|o| Call::new(&mut module, o)).collect();
    let entries: Vec<FuncId> = calls.iter().map(|c| c.entry).collect();
    let compiler = Compiler::new(options.target.clone()).storing(options.store.clone());
    let (lowered, code) =
        crate::kernels::lower(&module, &entries, &front.sources, &compiler, &Watch::default())?;
    let program = Verified::new(lowered.program)
        .map_err(|e| crate::kernels::ours("the verifier refuses what lowering made", &e))?;
    let code = crate::kernels::link(&program, &code)?;
    let exe = vm::Executable::from_verified(program, code, pool.clone())
        .map_err(|e| crate::kernels::ours("a compiled program does not load", &e))?;
    let one = |call: &Call| {
        let name = &module.func(call.entry).name;
        let sets = call.sets(&options.plan.machine)?;
        let taken = kernels(&mut Context::new(exe.clone()), name, &sets, BUDGET, &front.sources)?;
        Ok(taken.us)
    };
    Ok(calls.iter().map(one).collect())
}

/// A call of a kernel by a function of its own.
struct Call {
    entry: FuncId,
    /// The arguments' names and types, at the dims of the measurement; then the numbers that are asked for.
    args: Vec<(String, DType, Vec<i64>)>,
    asked: Vec<i64>,
    cold: Vec<String>,
}

impl Call {
    fn new(module: &mut Module, offer: &Offer) -> Call {
        let inner = match &offer.call {
            Callee::Prim(prim) => {
                let id = module.add_prim((**prim).clone());
                entry::wrap(module, id)
            }
            Callee::Extern(id) => entry::wrap_extern(module, *id),
        };
        // Another function may have the name.
        module.funcs[inner.0 as usize].name = format!("measured_{}", inner.0);
        let func = module.func(inner);
        let at = |s: Sym| offer.key.dims.iter().find(|d| d.0 == s.name()).map(|d| d.1);
        let extents = |t: &Type| t.shape.iter().map(|e| e.eval(&at).unwrap_or(0)).collect();
        let named = func.body.params.iter().map(|v| (func.val(*v).name.name().to_owned(), func.ty(*v)));
        let args: Vec<_> = named.map(|(name, ty)| (name, ty.dtype, extents(ty))).collect();
        let entry = entry::callable(module, inner);
        let more = module.func(entry).params.iter().skip(args.len());
        let asked = more.map(|p| at(p.name).unwrap_or(0)).collect();
        let cold = offer.key.cold.split(',').map(str::to_owned).collect();
        Call { entry, args, asked, cold }
    }

    /// Sets of arguments. The cold ones of all sets together are more than the caches hold, and each set has its own,
    /// so that what a run reads is gone from the caches when its turn comes again.
    fn sets(&self, machine: &Machine) -> Result<Vec<Vec<Tensor>>, Failure> {
        const MOST: usize = 64;
        let is_cold = |name: &str| self.cold.iter().any(|c| c == name);
        let first = self.args.iter().map(|(_, dtype, shape)| filled(*dtype, shape));
        let first = first.collect::<Result<Vec<_>, _>>()?;
        let tensors = || self.args.iter().zip(&first);
        let bytes: usize = tensors().filter(|(a, _)| is_cold(&a.0)).map(|(_, t)| t.bytes().len()).sum();
        let sets = (2.0 * machine.cache_bytes() / bytes.max(1) as f64).ceil() as usize;
        let sets = if bytes == 0 { 1 } else { sets.clamp(1, MOST) };
        let set = |i: usize| {
            let own = |(a, t): (&(String, DType, Vec<i64>), &Tensor)| {
                if i > 0 && is_cold(&a.0) { copy(t) } else { Ok(t.clone()) }
            };
            let asked = self.asked.iter().map(|n| Ok(Tensor::scalar_i(DType::I64, *n)));
            tensors().map(own).chain(asked).collect::<Result<Vec<_>, _>>()
        };
        (0..sets).map(set).collect()
    }
}
