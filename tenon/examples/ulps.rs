//! How far operators of one f32 are from double precision, over all 2^32 inputs, denormals and infinities among them:
//! `cargo run --release -p tenon --example ulps [OPERATOR..]`, without a name `sigmoid`. The operator is what the
//! library's text says, compiled for f32, beside the same text for f64.

use tenon::{Error, Module, Tensor};

const PART: u32 = 1 << 20;

fn main() -> Result<(), Error> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for name in if names.is_empty() { vec!["sigmoid".to_owned()] } else { names } {
        let [normal, denormal] = furthest(&name)?;
        println!(
            "{name} {:.2} at {:e}, of denormals {:.2} at {:e}",
            normal.0, normal.1, denormal.0, denormal.1
        );
    }
    Ok(())
}

/// The largest distance and where it is, of results that are normal and of those that are not.
fn furthest(name: &str) -> Result<[(f64, f32); 2], Error> {
    let text = format!("fn main<n>(x: f32[n]) -> (f32[n], f64[n]) {{ ({name}(x), {name}(f64(x))) }}");
    let function = Module::from_text("ulps.tn", &text)?.function("main")?;
    let mut most = [(0.0, 0.0); 2];
    for first in (0..=u32::MAX).step_by(PART as usize) {
        let xs: Vec<f32> = (0..PART).map(|i| f32::from_bits(first + i)).collect();
        let results = function.call(&[&Tensor::from_f32(&[i64::from(PART)], &xs)?])?;
        let (got, want) = (&results[0], &results[1]);
        for (i, x) in xs.into_iter().enumerate() {
            let want = want.get_f64(i);
            let off = ulps(got.get_f64(i) as f32, want);
            let most = &mut most[usize::from(want.abs() < f64::from(f32::MIN_POSITIVE))];
            if off > most.0 {
                *most = (off, x);
            }
        }
    }
    Ok(most)
}

/// The distance in units of the last place of the nearest f32; infinite where one is NaN or infinite and the other is
/// not.
fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.to_bits() == near.to_bits() || got.is_nan() && near.is_nan() || got == 0.0 && near == 0.0 {
        return 0.0;
    }
    if !got.is_finite() || !near.is_finite() {
        return f64::INFINITY;
    }
    // A denormal has the unit of the least normal.
    let exponent = (want.to_bits() >> 52 & 0x7ff).max(1023 - 126);
    (f64::from(got) - want).abs() / f64::from_bits((exponent - 23) << 52)
}
