//! Operations on doubles that the oracle and the machine's scalar registers must round alike.

/// What is left of `a` after division by `b` rounded down: exact, with the sign of `b`.
pub fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r == 0.0 {
        0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

/// The inverse of `cosh`, by `log1p`, so that it is exact near 1; a large argument is not squared.
pub fn acosh(a: f64) -> f64 {
    let t = a - 1.0;
    if a < 1.0 {
        f64::NAN
    } else if a > 1e150 {
        a.ln() + std::f64::consts::LN_2
    } else {
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }
}

/// 1 / (1 + e^-x), or e^x / (1 + e^x) where x is negative, so that the exponential never leaves the range.
pub fn sigmoid(a: f64) -> f64 {
    let e = (-a.abs()).exp();
    if a < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}
