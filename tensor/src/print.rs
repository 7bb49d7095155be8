//! Printing tensors: `f32[2, 3] [[1, 2, 3], [4, 5, 6]]`, long axes cut in the middle.

use std::fmt;

use crate::{DType, Tensor};

/// Elements kept at each end of an axis that is cut.
const EDGE: usize = 4;

/// Axes up to this extent are printed whole.
const WHOLE: usize = 2 * EDGE + 1;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `f32[12] [1, 2, 3, 4, .., 9, 10, 11, 12]`; a scalar is `f32 1.5`.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.shape().iter().map(i64::to_string).collect();
        match dims.as_slice() {
            [] => write!(f, "{} ", self.dtype())?,
            _ => write!(f, "{}[{}] ", self.dtype(), dims.join(", "))?,
        }
        // A tensor without elements may still have axes too long to print brackets for.
        if self.is_empty() { f.write_str("[]") } else { axis(self, f, 0, 0) }
    }
}

/// Prints the elements from `base` on that share the indices of the first `depth` axes.
fn axis(t: &Tensor, f: &mut fmt::Formatter<'_>, depth: usize, base: usize) -> fmt::Result {
    let Some(&extent) = t.shape().get(depth) else { return element(t, f, base) };
    let n = extent as usize;
    let stride: usize = t.shape()[depth + 1..].iter().map(|&d| d as usize).product();
    let (head, tail) = if n <= WHOLE { (n, n) } else { (EDGE, n - EDGE) };
    f.write_str("[")?;
    for i in (0..head).chain(tail..n) {
        if i == tail && head < tail {
            f.write_str(", ..")?;
        }
        if i > 0 {
            f.write_str(", ")?;
        }
        axis(t, f, depth + 1, base + i * stride)?;
    }
    f.write_str("]")
}

fn element(t: &Tensor, f: &mut fmt::Formatter<'_>, i: usize) -> fmt::Result {
    if t.dtype().is_float() {
        write!(f, "{}", Short(t.get_f64(i)))
    } else if t.dtype() == DType::Bool {
        write!(f, "{}", t.get_i64(i) != 0)
    } else {
        write!(f, "{}", t.get_i64(i))
    }
}

/// A float to about six significant digits, without trailing zeros.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        if !x.is_finite() || x == 0.0 {
            return write!(f, "{x}");
        }
        if !(1e-4..1e7).contains(&x.abs()) {
            let text = format!("{x:.5e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            return write!(f, "{}e{exponent}", trimmed(digits));
        }
        let digits = (5 - x.abs().log10().floor() as i32).max(1) as usize;
        f.write_str(trimmed(&format!("{x:.digits$}")))
    }
}

/// The digits without zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: &[i64], data: &[f32]) -> String {
        Tensor::from_f32(shape, data).unwrap().to_string()
    }

    #[test]
    fn long_axes_are_cut_in_the_middle() {
        let twelve: Vec<i64> = (1..=12).collect();
        let t = Tensor::from_i64(&[12], &twelve).unwrap();
        assert_eq!(t.to_string(), "i64[12] [1, 2, 3, 4, .., 9, 10, 11, 12]");
        let nine = Tensor::from_i64(&[9], &twelve[..9]).unwrap();
        assert_eq!(nine.to_string(), "i64[9] [1, 2, 3, 4, 5, 6, 7, 8, 9]");
        let ten = Tensor::from_i64(&[10], &twelve[..10]).unwrap();
        assert_eq!(ten.to_string(), "i64[10] [1, 2, 3, 4, .., 7, 8, 9, 10]");
        let rows = Tensor::zeros(DType::Bool, &[10, 1]).unwrap().to_string();
        assert!(
            rows.ends_with("[[false], [false], [false], [false], .., [false], [false], [false], [false]]"),
            "{rows}"
        );
    }

    #[test]
    fn axes_nest_and_scalars_and_empty_tensors_have_their_form() {
        assert_eq!(text(&[2, 3], &[1., 2., 3., 4., 5., 6.]), "f32[2, 3] [[1, 2, 3], [4, 5, 6]]");
        assert_eq!(text(&[], &[1.5]), "f32 1.5");
        assert_eq!(text(&[3, 0, 2], &[]), "f32[3, 0, 2] []");
    }

    #[test]
    fn floats_have_six_digits_and_no_trailing_zeros() {
        let x = [0.0, -0.0, 0.1, 1.0 / 3.0, 123456.7, 1e7, 1e-5, 100.0, f32::NAN, f32::INFINITY, 1234567.0];
        assert_eq!(text(&[2], &x[..2]), "f32[2] [0, -0]");
        assert_eq!(text(&[4], &x[2..6]), "f32[4] [0.1, 0.333333, 123456.7, 1e7]");
        assert_eq!(text(&[5], &x[6..]), "f32[5] [1e-5, 100, NaN, inf, 1234567]");
    }
}
