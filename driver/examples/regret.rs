//! How far what is chosen is from the best that was measured: `cargo run --release -p driver --example regret
//! [SECONDS]`.
//!
//! A layer, `relu(x @ w + b)`, in 40 shapes: 1 to 2048 rows, weights square, wide and tall; and attention of 12 heads,
//! written as products and a softmax, at 8 pairs of lengths. For each shape every plan that can be forced (one kernel,
//! the products and the rest, a library) is run, in turns, and timed, with weights that come from main memory; beside
//! the best stands what is chosen by the calibrated model alone, and what is chosen by a database tuned for so many
//! seconds a program.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Failure, Front, Options, calibrate, engine, pipeline, tune};
use ir::FuncId;
use rewrites::Report;
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Limits};

const ROWS: [i64; 10] = [1, 2, 4, 16, 37, 64, 128, 256, 512, 2048];
const WEIGHTS: [(i64, i64); 4] = [(256, 256), (1024, 1024), (128, 2048), (2048, 128)];
/// Queries and keys.
const LENGTHS: [(i64, i64); 8] =
    [(1, 64), (1, 1024), (1, 4096), (16, 512), (37, 37), (128, 128), (512, 512), (1000, 1000)];
/// An alternative that takes so many times the best at its first run is not run again.
const HOPELESS: f64 = 8.0;
const TURNS: usize = 15;

type Fault = Box<dyn std::error::Error>;
type Shapes = Vec<Vec<i64>>;

/// A program, the shapes it is run in, and how its plans are forced.
struct Case {
    text: String,
    dims: &'static [&'static str],
    /// The shapes of the arguments, and the first of those that are weights.
    arguments: fn(&[i64], (i64, i64)) -> Shapes,
    first_weight: usize,
    of: (i64, i64),
    points: Vec<Vec<i64>>,
    /// What to force, and what to forbid.
    forced: &'static [(&'static [&'static str], &'static [&'static str])],
}

impl Case {
    fn at(&self, at: &[i64]) -> Vec<(String, i64)> {
        self.dims.iter().map(|d| (*d).to_owned()).zip(at.iter().copied()).collect()
    }
}

fn layer(k: i64, n: i64) -> Case {
    Case {
        text: format!(
            "fn main<m>(x: f32[m, {k}], w: f32[{k}, {n}], b: f32[{n}]) -> f32[m, {n}] {{ relu(x @ w + b) }}\n\
             extern \"libopenblas.so.0\" sgemm<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n    \
             = cblas_sgemm(c_int(101), c_int(111), c_int(111), c_int(m), c_int(n), c_int(k), f32(1), a, c_int(k), b, c_int(n), f32(0), c, c_int(n))\n\
             rule use_blas<m, k, n>(a: f32[m, k], b: f32[k, n]) when k >= 1, n >= 1 {{ a @ b => sgemm(a, b) }}\n"
        ),
        dims: &["m"],
        arguments: |at, (k, n)| vec![vec![at[0], k], vec![k, n], vec![n]],
        first_weight: 1,
        of: (k, n),
        points: ROWS.map(|m| vec![m]).into(),
        forced: &[
            (&["sgemm"], &[]),
            (&["matmul"], &[]),
            (&["fused_matmul_add_relu"], &[]),
            (&["fused_matmul_add"], &["fused_matmul_add_relu"]),
        ],
    }
}

fn attention() -> Case {
    Case {
        text:
            "fn main<m, n>(q: f32[12, m, 64], k: f32[12, n, 64], v: f32[12, n, 64]) -> f32[12, m, 64] {\n    \
               softmax(q @ transpose(k, perm=[0, 2, 1]) * 0.125, axis=-1) @ v\n}\n"
                .to_owned(),
        dims: &["m", "n"],
        arguments: |at, _| vec![vec![12, at[0], 64], vec![12, at[1], 64], vec![12, at[1], 64]],
        first_weight: 1,
        of: (0, 0),
        points: LENGTHS.map(|(m, n)| vec![m, n]).into(),
        forced: &[
            (&["attention_tiles"], &[]),
            (&["attention_rows"], &[]),
            (&["softmax"], &["attention_tiles", "attention_rows"]),
            (&[], &["attention_tiles", "attention_rows"]),
            (&[], &["attention_tiles", "attention_rows", "softmax"]),
        ],
    }
}

/// The steps of a plan.
fn steps(report: &Report) -> String {
    let main = report.functions.iter().find(|f| f.name == "main");
    let steps = main.into_iter().flat_map(|f| &f.regimes).flat_map(|r| &r.steps);
    steps.map(|s| s.name.as_str()).collect::<Vec<_>>().join(" + ")
}

/// A plan that runs whatever the number of rows, and its times.
struct Way {
    steps: String,
    context: Context,
    times: Vec<f64>,
}

/// What can be forced at a point, and what is chosen there with some options.
fn ways(
    front: &Front,
    entry: FuncId,
    chosen: [&Options; 2],
    pool: &Arc<Pool>,
    case: &Case,
    at: &[i64],
) -> Result<Vec<Way>, Failure> {
    let list = |names: &[&str]| names.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let forced = case
        .forced
        .iter()
        .map(|(force, forbid)| chosen[0].with_plan(|p| (p.force, p.forbid) = (list(force), list(forbid))));
    let mut found: Vec<Way> = Vec::new();
    for options in chosen.into_iter().cloned().chain(forced) {
        let options = options.with_plan(|p| p.at = case.at(at));
        // A library that is not here forces nothing.
        let Ok(compilation) = pipeline::compile(front, &[entry], &options) else { continue };
        let steps = steps(&compilation.report);
        if found.iter().all(|w| w.steps != steps) {
            let context = Context::new(engine::load(&compilation, pool.clone())?);
            found.push(Way { steps, context, times: Vec::new() });
        }
    }
    Ok(found)
}

/// Sets of arguments that take turns, each with weights of its own: more than the caches hold.
fn sets(case: &Case, at: &[i64], cache: f64) -> Result<Vec<Vec<Tensor>>, tensor::Error> {
    let shapes = (case.arguments)(at, case.of);
    let data = shapes.iter().map(|s| tensor::generate::random(DType::F32, s, 1));
    let data: Vec<Tensor> = data.collect::<Result<_, _>>()?;
    let (given, weights) = data.split_at(case.first_weight);
    let bytes: usize = weights.iter().map(|w| w.bytes().len()).sum();
    let count = (2.0 * cache / bytes as f64).ceil().clamp(1.0, 64.0) as usize;
    let own = |w: &Tensor| Tensor::from_bytes(w.dtype(), w.shape(), w.bytes());
    (0..count).map(|_| given.iter().map(|t| Ok(t.clone())).chain(weights.iter().map(own)).collect()).collect()
}

fn run(way: &mut Way, args: &[Tensor]) -> Result<f64, vm::Error> {
    let args: Vec<&Tensor> = args.iter().collect();
    let begun = Instant::now();
    way.context.run("main", &args, &Limits::default())?;
    Ok(begun.elapsed().as_secs_f64() * 1e6)
}

fn main() -> Result<(), Fault> {
    let seconds: f64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(30.0);
    let said = |f: Failure| f.render(&pipeline::sources(), false);
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from));
    let store = Options { store: driver::cache::user(), ..Options::default() };
    let machine = calibrate::calibrate(&store, pool.workers()).map_err(said)?;
    print!("{}", machine.to_text());
    let model = store.with_plan(|p| p.machine = machine);
    println!(
        "{:>18} {:>10}  {:40} {:>6}  {:40} {:>6}  best",
        "shape", "best us", "by the model", "ratio", "tuned", "ratio"
    );
    let (mut by_model, mut by_tuning) = (Vec::new(), Vec::new());
    for case in WEIGHTS.map(|(k, n)| layer(k, n)).into_iter().chain([attention()]) {
        let mut sources = pipeline::sources();
        let id = sources.add("main.tn", case.text.clone());
        let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
        let entry = pipeline::entry(&mut front, Some("main")).map_err(said)?;
        let mut db = None;
        let mut keep = |found: &rewrites::Database| {
            db = Some(Arc::new(found.clone()));
            Ok(())
        };
        tune::tune(&front, &[entry], &model, &pool, seconds, &mut keep).map_err(said)?;
        let tuned = model.with_plan(|p| p.measured = db);
        for at in &case.points {
            let mut ways = ways(&front, entry, [&model, &tuned], &pool, &case, at).map_err(said)?;
            let sets = sets(&case, at, model.plan.machine.cache_bytes())?;
            let mut turns = sets.iter().cycle();
            let mut next = || turns.next().map_or(&[][..], |s| &s[..]);
            let mut first = Vec::new();
            for way in &mut ways {
                first.push(run(way, next())?.min(run(way, next())?));
            }
            let least = first.iter().copied().fold(f64::INFINITY, f64::min);
            let mut order: Vec<usize> = (0..ways.len()).collect();
            let begun = Instant::now();
            for turn in 0_usize.. {
                if turn >= TURNS && begun.elapsed() > Duration::from_millis(60) {
                    break;
                }
                // Each comes after each other one: threads of a library, or of ours, may still be awake.
                order.sort_by_cached_key(|at| (turn + 1) * (at + 1) * 7919 % 104_729);
                for &at in &order {
                    if first[at] < least * HOPELESS {
                        let us = run(&mut ways[at], next())?;
                        ways[at].times.push(us);
                    }
                }
            }
            let median = |w: &Way| {
                let mut t = w.times.clone();
                t.sort_by(f64::total_cmp);
                t.get(t.len() / 2).copied().unwrap_or(f64::INFINITY)
            };
            let best = ways.iter().min_by(|a, b| median(a).total_cmp(&median(b))).ok_or("no plan")?;
            let of = |options: &Options| {
                let steps =
                    steps(&pipeline::plan(&front.module, &options.with_plan(|p| p.at = case.at(at))).1);
                let us = ways.iter().find(|w| w.steps == steps).map_or(f64::NAN, median);
                (steps, us / median(best))
            };
            let ((a, x), (b, y)) = (of(&model), of(&tuned));
            println!(
                "{:>18} {:>10.1}  {a:40} {x:>6.2}  {b:40} {y:>6.2}  {}",
                format!("{at:?} {:?}", case.of),
                median(best),
                best.steps
            );
            by_model.push(x);
            by_tuning.push(y);
        }
    }
    for (name, mut ratios) in [("by the model", by_model), ("tuned", by_tuning)] {
        ratios.sort_by(f64::total_cmp);
        let within = ratios.iter().filter(|r| **r <= 1.05).count();
        println!(
            "{name}: {within} of {} within 5%, the middle {:.2}, the worst {:.2}",
            ratios.len(),
            ratios[ratios.len() / 2],
            ratios[ratios.len() - 1]
        );
    }
    Ok(())
}
