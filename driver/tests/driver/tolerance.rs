//! What plans may lose where something is tolerated, whichever plan it is.

use driver::compare::Planned;
use driver::{Options, PlanOptions, pipeline};
use rewrites::Choose;
use tensor::{DType, Tensor, generate};

/// The rows of `v` are equal, so nothing is left of what they differ by; unless one reader has them of a product that
/// is rounded, and another of one that is not.
const CANCELS: &str = "#[tolerance(0.02)]
fn f<n, m>(x: f32[n, m], y: f32[m, 4], z: f32[4, m]) -> f32[m] {
    let v = softmax((x - x) @ y, axis=-1) @ z
    mean((v - mean(v, axis=[0], keepdims=true)) * (v - mean(v, axis=[0], keepdims=true)), axis=[0])
}
";

#[test]
fn a_value_may_be_rounded_for_one_reader_alone() {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", CANCELS);
    let mut front =
        pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)));
    let entry = pipeline::entry(&mut front, Some("f")).expect("it is there");
    let random = |shape: &[i64], seed| generate::random(DType::F32, shape, seed).expect("memory");
    let data: Vec<Tensor> = vec![random(&[3, 32], 1), random(&[32, 4], 2), random(&[4, 32], 3)];
    let mut lossy = false;
    for choose in [Choose::Cheapest, Choose::Dearest].into_iter().chain((0..30).map(Choose::Random)) {
        let options = Options::from(PlanOptions { choose, ..PlanOptions::default() });
        let planned = Planned::new(&front, entry, &options);
        let fired = planned.report.functions.iter().flat_map(|f| &f.rules);
        lossy |= fired.filter(|r| r.fired > 0).any(|r| r.rule.contains("bf16"));
        planned.judge(std::slice::from_ref(&data)).unwrap_or_else(|e| panic!("{choose:?}: {e}"));
    }
    assert!(lossy, "no rule that loses digits fired");
}
