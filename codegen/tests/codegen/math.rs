//! The functions of f32 against double precision, over bit patterns of the whole range and where it is hard: on each
//! target that runs here, in vectors and in scalars.
//!
//! `cargo run --release -p codegen --example math -- ulps` goes through all 2^32.
#![allow(unsafe_code, clippy::disallowed_methods, reason = "kernels are called by pointer")]

use crate::harness::functions::{Reference, Subject, UNARY, judge};
use crate::harness::{Numbers, targets};
use ir::Intrinsic;

const HARD: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1e-45,
    -1e-45,
    1e-40,
    88.722_84,
    88.722_85,
    -87.3,
    -103.9,
    -104.0,
    3.0,
    -3.0,
    0.625,
    0.927_734_4,
    128.0,
    127.999_99,
    -126.5,
    -149.5,
    -150.1,
    65_536.0,
    -65_535.996,
    16_777_216.0,
];

const STEP: u64 = 8191;

#[test]
fn functions_of_f32_are_within_two_units_in_the_last_place() {
    for f in UNARY.into_iter().chain([Intrinsic::Pow]) {
        let mut subjects: Vec<Subject> =
            targets().iter().flat_map(|t| [true, false].map(|vectors| Subject::new(f, t, vectors))).collect();
        let reference = Reference::new(f);
        let pairs: Vec<(f32, f32)> = HARD.iter().flat_map(|x| HARD.map(|y| (*x, y))).collect();
        let (mut xs, mut ys): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let mut r = Numbers(STEP);
        for bits in (0..1u64 << 32).step_by(STEP as usize) {
            xs.push(f32::from_bits(bits as u32));
            // Powers whose results mostly fit.
            let small = r.float() as f32 * 20.0;
            ys.push(match r.next() % 4 {
                0 => f32::from_bits(r.next() as u32),
                1 => small.round(),
                _ => small,
            });
        }
        judge(f, &reference, &mut subjects, &xs, &ys);
        for s in subjects {
            let w = s.worst;
            println!(
                "{:>6} {:>18}: {:.3} ulp at {:e}, {:e}: {:e}",
                f.name(),
                s.name,
                w.ulps,
                w.at.0,
                w.at.1,
                w.got
            );
            assert!(w.ulps <= 2.0, "{} on {}: {} at {:?}: {:e}", f.name(), s.name, w.ulps, w.at, w.got);
        }
    }
}
