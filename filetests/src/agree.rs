//! When two engines agree.

use tensor::Tensor;

/// Relative difference allowed between results on random reals. The oracle computes in double; a sum of
/// a few thousand f32 terms strays by some of their roundings, 6e-8 each.
const BOUND: f64 = 1e-4;

/// Says how two results differ, if they do. `exact`: bit for bit.
pub(crate) fn differ(want: &Tensor, got: &Tensor, exact: bool) -> Option<String> {
    if want.dtype() != got.dtype() || want.shape() != got.shape() {
        return Some(format!("{}{:?} vs {}{:?}", want.dtype(), want.shape(), got.dtype(), got.shape()));
    }
    // Half types round at 2^-11 and 2^-8.
    let coarse = match want.dtype().size() {
        2 => 2e-2,
        _ => BOUND,
    };
    let scale = (0..want.len())
        .map(|i| want.get_f64(i))
        .filter(|x| x.is_finite())
        .fold(0.0, |m: f64, x| m.max(x.abs()));
    for i in 0..want.len() {
        let same = if want.dtype().is_float() {
            let (a, b) = (want.get_f64(i), got.get_f64(i));
            let close = !exact && (a - b).abs() <= coarse * (a.abs() + 1e-2 * scale + 1e-30);
            a == b || (a.is_nan() && b.is_nan()) || close
        } else {
            want.get_i64(i) == got.get_i64(i)
        };
        if !same {
            return Some(format!("element {i}: {} vs {}", want.get_f64(i), got.get_f64(i)));
        }
    }
    None
}
