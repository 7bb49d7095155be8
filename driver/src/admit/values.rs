//! Values to try a rule at.
//!
//! Where the sides of a rule meet corners of their operations: small integers, normal numbers, zeros of both signs,
//! halves, infinities, NaN; numbers as large and as small as their type has, in cases of their own, so that nothing is
//! lost beside something else; integers from all of their range, about the roots of it and at its ends; what the rule
//! itself names and its neighbours, what the primitives that it comes to name, and what lies between; and all small
//! integers in a row. Each is drawn by a seed: the same values every time.

use std::collections::BTreeMap;

use ir::graph::Func;
use shape::Sym;
use tensor::generate::{self, Rng};
use tensor::{DType, Tensor};

use super::numbers::Numbers;

/// What the arguments of a case are made of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Values {
    /// Small integers.
    Small,
    /// Normal floats.
    Normal,
    /// Corners of operations among normal floats, the small and finite ones of them.
    Corners,
    /// Corners among normal floats, and ends of types among small integers; by a number of its own.
    Special(u64),
    /// What the rule names.
    Named,
    /// What its primitives name.
    Inner,
    /// Integers about 0, one after the other.
    Row,
    /// The largest integer of a type everywhere: a sum may leave a type that is not wide enough.
    Most,
    /// Integers from all of their range.
    Spread,
    /// Floats of a magnitude, as far as their type has it.
    About(f64),
}

impl Values {
    /// Those that have no corners.
    pub(super) const PLAIN: [Values; 2] = [Values::Small, Values::Normal];
}

/// Magnitudes.
const MAGNITUDES: [f64; 8] = [1e2, 1e6, 1e20, f64::MAX, 1e-3, 1e-6, 1e-20, 1e-100];

/// Those at which a rule that loses something is tried: within the range of all types, far from its ends.
const MODERATE: [f64; 5] = [1e2, 1e6, 1e10, 1e-3, 1e-10];

/// The kinds that a rule over such types is tried at; one that loses something at numbers of like size.
pub(super) fn kinds(types: &[DType], numbers: &Numbers, lossy: bool) -> Vec<Values> {
    let floats = types.iter().any(|t| t.is_float());
    let mut kinds = vec![Values::Small];
    if floats {
        kinds.extend([Values::Normal, Values::Corners]);
    }
    if !lossy {
        kinds.extend([1, 2, 3].map(Values::Special));
    }
    if !numbers.own.is_empty() {
        kinds.push(Values::Named);
    }
    if numbers.inside() && !lossy {
        kinds.push(Values::Inner);
    }
    if types.iter().any(|t| t.is_int()) {
        kinds.push(Values::Spread);
    }
    if floats && lossy {
        kinds.extend(MODERATE.map(Values::About));
    } else if floats {
        kinds.extend(MAGNITUDES.map(Values::About));
    }
    kinds
}

/// Those that it is tried at where a dim is long: what goes wrong at a length does so for plain numbers, for all
/// numbers in a row (`row`: as many as it takes), or for the largest.
pub(super) fn long(types: &[DType], numbers: &Numbers, lossy: bool, row: bool) -> Vec<Values> {
    let plain = kinds(types, numbers, lossy).into_iter().filter(|k| Values::PLAIN.contains(k));
    let row = Some(Values::Row).filter(|_| row && numbers.any() && !lossy);
    let most = Some(Values::Most).filter(|_| types.iter().any(|t| t.is_int() && t.size() <= 2));
    plain.chain(row).chain(most).collect()
}

/// The arguments of a case.
pub(super) fn arguments(
    func: &Func,
    dims: &BTreeMap<Sym, i64>,
    kind: Values,
    round: u64,
    numbers: &Numbers,
) -> Option<Vec<(String, Tensor)>> {
    let mut args = Vec::new();
    for (k, (p, v)) in func.params.iter().zip(&func.body.params).enumerate() {
        let ty = func.ty(*v);
        let shape: Vec<i64> =
            ty.shape.iter().map(|e| e.eval(&|s| dims.get(&s).copied()).ok()).collect::<Option<_>>()?;
        let seed = k as u64 + 1 + 1000 * round;
        let (dtype, shape) = (ty.dtype, shape.as_slice());
        let normal = || generate::random(dtype, shape, seed);
        let drawn = |of: &mut dyn FnMut(&mut Rng, &mut Tensor, usize)| {
            normal().map(|mut t| {
                let mut rng = Rng::new(seed ^ 0x5eed);
                (0..t.len()).for_each(|i| of(&mut rng, &mut t, i));
                t
            })
        };
        let t = match kind {
            Values::Small => generate::random_exact(dtype, shape, seed),
            Values::Normal => normal(),
            Values::Special(draw) => special(dtype, shape, seed + 100 * draw, &CORNERS),
            Values::Corners => special(dtype, shape, seed, &CORNERS[..NEAR]),
            Values::Named => drawn(&mut |rng, t, i| named(rng, t, i, &numbers.own, &numbers.integers)),
            Values::Inner => drawn(&mut |rng, t, i| {
                if rng.below(3) == 0 {
                    between(rng, t, i, &numbers.inner)
                } else {
                    named(rng, t, i, &numbers.inner, &numbers.inner_integers)
                }
            }),
            Values::Row if dtype != DType::Bool => drawn(&mut |_, t, i| {
                let n = i as i64 - t.len() as i64 / 2;
                if dtype.is_float() { t.set_f64(i, n as f64) } else { t.set_i64(i, dtype.wrap(n)) }
            }),
            Values::Spread if dtype.is_int() => drawn(&mut |rng, t, i| {
                let high = rng.below(1 << 32) as i64;
                t.set_i64(i, dtype.wrap((high << 32) | rng.below(1 << 32) as i64));
            }),
            Values::About(size) if dtype.is_float() => drawn(&mut |rng, t, i| {
                let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
                t.set_f64(i, sign * within(dtype, size) * (1.0 + rng.uniform()) / 2.0);
            }),
            Values::Most if dtype.is_int() => drawn(&mut |_, t, i| {
                let bits = 8 * dtype.size() as u32 - u32::from(dtype != DType::U8);
                t.set_i64(i, 1i64.wrapping_shl(bits).wrapping_sub(1));
            }),
            Values::Row | Values::Most | Values::Spread | Values::About(_) => normal(),
        };
        args.push((p.name.name().to_owned(), t.ok()?));
    }
    Some(args)
}

/// The magnitude of a type that is nearest to one.
fn within(dtype: DType, size: f64) -> f64 {
    match dtype {
        DType::F16 => size.clamp(2e-7, 65504.0),
        // The smallest are without their full precision.
        DType::F32 | DType::Bf16 => size.clamp(1e-40, 3.38e38),
        DType::F64 | DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => size,
    }
}

/// One of some numbers, or one next to it.
fn named(rng: &mut Rng, t: &mut Tensor, i: usize, floats: &[f64], integers: &[i64]) {
    let dtype = t.dtype();
    let draw = rng.below(6);
    if dtype.is_float() && !floats.is_empty() {
        let x = floats[rng.below(floats.len() as u64) as usize];
        let step = match dtype {
            DType::F64 => 1e-9,
            DType::F32 => 1e-4,
            DType::F16 | DType::Bf16 => 2e-2,
            DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => 0.0,
        };
        let near = [x, x * (1.0 + step), x * (1.0 - step), -x, x + 1.0, x - 1.0];
        t.set_f64(i, near[draw as usize]);
    } else if dtype.is_int() && !integers.is_empty() {
        let x = integers[rng.below(integers.len() as u64) as usize];
        let near = [x, x.wrapping_add(1), x.wrapping_sub(1), x.wrapping_neg(), x.wrapping_mul(2), x / 2];
        t.set_i64(i, dtype.wrap(near[draw as usize]));
    }
}

/// A number between two neighbours of some, or with its sign changed.
fn between(rng: &mut Rng, t: &mut Tensor, i: usize, floats: &[f64]) {
    if t.dtype().is_float() && floats.len() > 1 {
        let at = rng.below(floats.len() as u64 - 1) as usize;
        let part = 0.25 * (1 + rng.below(3)) as f64;
        let x = floats[at] * (1.0 - part) + floats[at + 1] * part;
        t.set_f64(i, if rng.below(4) == 0 { -x } else { x });
    }
}

/// Values at which operations have their corners, beside ordinary ones.
fn special(dtype: DType, shape: &[i64], seed: u64, corners: &[f64]) -> Result<Tensor, tensor::Error> {
    let mut t = generate::random(dtype, shape, seed)?;
    let mut rng = Rng::new(seed);
    let mut draw = |n: usize| rng.below(n as u64) as usize;
    // A row without a NaN or infinity should occur too.
    let share = if t.len() <= 2 { 2 } else { 4 };
    for i in 0..t.len() {
        if draw(share) > 0 {
            continue;
        }
        if dtype.is_float() {
            t.set_f64(i, corners[draw(corners.len())]);
        } else if dtype.is_int() {
            // The ends of the type and of every other width, and their neighbours: where something wraps, is cut off
            // or is no float any more; half a width is where a square does.
            let own = 8 * dtype.size() as u32 - u32::from(dtype != DType::U8);
            let width = if draw(2) == 0 { own } else { WIDTHS[draw(WIDTHS.len())] };
            let power = 1i64.wrapping_shl(width);
            let near = power.wrapping_add(draw(3) as i64 - 1);
            t.set_i64(i, dtype.wrap(if draw(2) == 0 { near } else { near.wrapping_neg() }));
        }
    }
    Ok(t)
}

/// Zeros, halves of both parities, integers beyond which f16, bf16 and f32 have none, and what is not finite.
const CORNERS: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    257.0,
    2049.0,
    16_777_217.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Those that no operation makes something infinite of but where it has a pole.
const NEAR: usize = 9;

/// Bits of integers, half of them, and of floats without their last place.
const WIDTHS: [u32; 12] = [0, 3, 4, 7, 8, 15, 16, 24, 31, 32, 53, 63];
