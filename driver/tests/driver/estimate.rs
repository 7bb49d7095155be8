//! What an entry will take, from its plan: loops count as often as they go round, and memory is that of the dims.

use driver::estimate::{Dims, Estimate};
use driver::{Options, PlanOptions, pipeline};
use rewrites::Machine;
use shape::Sym;

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
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", TEXT);
    let mut front = pipeline::front(sources, &[id]).expect("it is a program");
    let entry = pipeline::entry(&mut front, Some(name)).expect("it is there");
    let options = Options::from(PlanOptions::new(Machine::reference()));
    Estimate::new(&front, entry, &options).expect("it is planned")
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
    let (small, large) = (many.arena(&at(10)), many.arena(&at(1000)));
    assert!(small.is_some() && large > small, "{small:?} {large:?}");
    // Without its dims nothing is known of it.
    assert_eq!(many.arena(&Dims::new()), None);
    assert_eq!(one.laid_out(&Dims::new()), 0);
}
