//! What an entry will take, from its plan: loops count as often as they go round, and memory is that of the dims.

use driver::estimate::{Dims, Estimate};
use driver::{Options, PlanOptions, engine, pipeline};
use rewrites::Machine;
use shape::Sym;
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Limits};

const TEXT: &str = "
fn layer<t>(x: f32[t, 64], w: f32[64, 64]) -> f32[t, 64] { tanh(x @ w) }

fn one<t>(x: f32[t, 64], w: f32[64, 64]) -> f32[t, 64] { layer(x, w) }

fn many<t>(x: f32[t, 64], w: f32[64, 64]) -> f32[t, 64] {
    var x = x
    for i in 40 { x = layer(x, w) }
    x
}
";

fn estimated(name: &str) -> Estimate {
    estimated_and_made(name).0
}

/// An estimate, and what runs.
fn estimated_and_made(name: &str) -> (Estimate, Context) {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", TEXT);
    let mut front = pipeline::front(sources, &[id]).expect("it is a program");
    let entry = pipeline::entry(&mut front, Some(name)).expect("it is there");
    let options = Options::from(PlanOptions::new(Machine::reference()));
    let threads = Pool::new(2);
    let made = pipeline::compile(&front, &[entry], &options).expect("it is compiled");
    let made = engine::load(&made, threads.clone()).expect("it is loaded");
    (Estimate::new(&front, entry, &options, threads).expect("it is planned"), Context::new(made))
}

#[test]
fn work_is_counted_by_rounds_and_by_dims() {
    let (one, many) = (estimated("one"), estimated("many"));
    let at = |t: i64| Dims::from([(Sym::new("t"), t)]);
    let machine = Machine::reference();
    let products = 2.0 * 10.0 * 64.0 * 64.0;
    let (once, often) = (one.work(&at(10), &machine), many.work(&at(10), &machine));
    assert!(once.flops >= products && once.flops < 1.5 * products, "{once:?}");
    assert!(once.bytes >= 4.0 * 64.0 * 64.0 && once.us > 0.0, "{once:?}");
    assert!((often.flops / once.flops - 40.0).abs() < 1.0, "{once:?} {often:?}");
    assert_eq!(one.laid_out(&Dims::new()), 0);
}

#[test]
fn the_memory_of_a_run_is_what_a_run_without_kernels_holds() {
    let (many, mut context) = estimated_and_made("many");
    let f32s = |shape: &[i64]| Tensor::zeros(DType::F32, shape).expect("small");
    for t in [1, 10, 1000] {
        let told = many.arena(&Dims::from([(Sym::new("t"), t)]), &[]).expect("it is known");
        let args = [f32s(&[t, 64]), f32s(&[64, 64])];
        context.run("many", &[&args[0], &args[1]], &Limits::default()).expect("it runs");
        let held = context.peak() as u64;
        // It had no more threads than were worth it.
        assert!(held <= told && told <= held + held / 4, "{t}: {held} held, {told} told");
    }
    // Without its dims nothing is known of it.
    assert_eq!(many.arena(&Dims::new(), &[]), None);
}
