//! Whether the results of both sides of a rule are equal.
//!
//! In: what each side gives in double ([`crate::compare::widen`]), where only casts round. Equality is that of the
//! reals, within what literals and casts of the type of a result round, and what is made of the literals' rounding;
//! integers are equal or not. Three things are no reason against a rule: an infinity or NaN made of one, something that
//! grew beyond the range of a double, and, where arguments are far from 1, what the rounding of a double explains: how
//! far a side moves when its arguments move by their own rounding.

use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::unravel_index;
use crate::compare::error_bound::{nudge, unit};
use crate::compare::widen;

/// What is smaller than the largest element of a result by this came of terms that cancelled.
const BESIDE: f64 = 1e-2;
/// Numbers up to which nothing grows beyond the range of a double but at a pole.
const NEAR: f64 = 64.0;
/// What a few operations in double round, by what they are rounded beside.
const ROUNDED: f64 = 1e-13;
/// For operations in a row, of moved arguments.
const MOVED: f64 = 16.0;
/// Runs with moved arguments,
const ARGS: u64 = 3;
/// and with moved literals, of which each reader may take one or its twin.
const LITERALS: u64 = 12;

/// What a case is about.
pub(super) struct Case<'a> {
    /// The arguments, in their own types.
    pub(super) args: &'a [(String, Tensor)],
    /// The element types of the results.
    pub(super) types: &'a [DType],
    /// Far from 1, where the rounding of a double is felt: integers made of such numbers say nothing.
    pub(super) far: bool,
    /// Whether results may be moved by the arguments' rounding: not where they were chosen to stand at a step.
    pub(super) moves: bool,
    /// What small arguments are rounded beside.
    pub(super) beside: f64,
    /// What the rule says that it loses, and a library's function rounds.
    pub(super) tolerated: Option<Tolerated>,
}

/// By what a lossy rule, or a library's function, may be off.
pub(super) struct Tolerated {
    /// As a part of the sizes.
    pub(super) part: f64,
    /// Of what each element of each result is computed from.
    pub(super) sizes: Vec<Tensor>,
    /// Whether the rule says so: else a library's function rounds.
    pub(super) said: bool,
}

impl Tolerated {
    /// The size of an element of a result, which is never less than the element itself: what is divided by the size of
    /// a sum, or falls as its argument grows, comes out too small where sizes stand for numbers.
    fn size(&self, k: usize, at: usize, result: &Tensor) -> f64 {
        let size = self.sizes.get(k).filter(|t| at < t.len()).map_or(0.0, |t| t.get_f64(at).abs());
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        finite(size).max(finite(result.get_f64(at).abs()))
    }

    /// By what part of the sizes results are off, at most.
    pub(super) fn lost(&self, want: &[Tensor], got: &[Tensor]) -> f64 {
        let mut most = 0.0f64;
        for (k, (a, b)) in want.iter().zip(got).enumerate() {
            for at in 0..a.len().min(b.len()) {
                let (off, size) = ((a.get_f64(at) - b.get_f64(at)).abs(), self.size(k, at, a));
                if off.is_finite() && size > 0.0 {
                    most = most.max(off / size);
                }
            }
        }
        most
    }
}

/// What a side is run again with, to tell how far it moves.
pub(super) enum Moved {
    /// Other arguments, in double.
    Args(Vec<Tensor>),
    /// Its literals moved by two units of their types, by this seed.
    Literals(u64),
}

/// Runs a side again: the left one, or the right.
pub(super) type Again<'a> = dyn Fn(bool, Moved) -> Option<Vec<Tensor>> + 'a;

/// How far elements of a result move, on both sides together: nothing is known of what is not there.
#[derive(Default)]
struct Strays {
    /// With the arguments' own rounding.
    args: Vec<f64>,
    /// With the rounding of literals.
    literals: Vec<f64>,
}

/// What a case says.
pub(super) enum Said {
    Agreed,
    /// Neither side has a value in the reals where they differ, and arguments are plain.
    Pole(String),
    /// They differ in what is not finite alone, and need not agree there.
    Beyond(String),
    Against(String),
}

/// The difference allowed for results of a type, by their size: casts to it, and literals of it, round so.
fn bound(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        // Between one step of the type and the rounding of bf16.
        DType::F16 => 1.5e-3,
        DType::Bf16 => 1e-2,
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => 0.0,
    }
}

/// Half of the distance of the smallest numbers of a type, and of those next to them.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 6e-8,
        DType::F32 => 2e-45,
        DType::Bf16 => 1e-40,
        DType::F64 | DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => 0.0,
    }
}

impl Case<'_> {
    /// Compares results.
    pub(super) fn judge(&self, want: &[Tensor], got: &[Tensor], again: &Again<'_>) -> Said {
        let of = |k| if want.len() > 1 { format!("result {k}: ") } else { String::new() };
        let mut said = Said::Agreed;
        for (k, (a, b)) in want.iter().zip(got).enumerate() {
            if a.dtype() != b.dtype() || a.shape() != b.shape() {
                let text = format!("{}{:?} vs {}{:?}", a.dtype(), a.shape(), b.dtype(), b.shape());
                return Said::Against(of(k) + &text);
            }
            let told = |at| {
                let (place, left, right) = (unravel_index(a.shape(), at), number(a, at), number(b, at));
                let tolerated = self.tolerated.as_ref().filter(|t| t.said && a.dtype().is_float());
                let size = tolerated.map_or_else(String::new, |t| {
                    format!(", and a part of {} of {} is tolerated", t.part, t.size(k, at, a))
                });
                format!("{}at {place:?} the left side gives {left}, the right side {right}{size}", of(k))
            };
            let (worst, outside) = self.result(k, a, b, &Strays::default());
            // Asked for only where it matters.
            let worst = worst.and_then(|_| self.result(k, a, b, &self.strays(k, [a, b], again)).0);
            if let Some(at) = worst {
                return Said::Against(told(at));
            }
            if let Some(at) = outside {
                let plain = self.is_finite() && !self.far && self.largest() <= NEAR;
                if plain && !valueless(a, b, at) {
                    return Said::Against(told(at));
                } else if plain {
                    said = Said::Pole(told(at));
                } else if matches!(said, Said::Agreed) {
                    said = Said::Beyond(told(at));
                }
            }
        }
        said
    }

    /// The element furthest beyond what is allowed, and the first that is not finite on one side, or else on both.
    fn result(&self, k: usize, a: &Tensor, b: &Tensor, strays: &Strays) -> (Option<usize>, Option<usize>) {
        let (mut worst, mut outside): (Option<(f64, usize)>, Option<usize>) = (None, None);
        if !a.dtype().is_float() {
            let differs = (0..a.len()).find(|i| a.get_i64(*i) != b.get_i64(*i));
            return (differs.filter(|_| !self.far), None);
        }
        let scale = (0..a.len()).map(|i| a.get_f64(i).abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let dtype = self.types[k];
        let rounded = ROUNDED * self.beside.max(self.largest()).min(f64::MAX);
        for at in 0..a.len() {
            let (x, y) = (a.get_f64(at), b.get_f64(at));
            if x == y || (x.is_nan() && y.is_nan()) {
                continue;
            }
            if !x.is_finite() || !y.is_finite() {
                if outside.is_none_or(|first| valueless(a, b, first) && !valueless(a, b, at)) {
                    outside = Some(at);
                }
                continue;
            }
            let [moved, literals] =
                [&strays.args, &strays.literals].map(|s| s.get(at).copied().unwrap_or(0.0));
            let lost = self.tolerated.as_ref().map_or(0.0, |t| t.part * t.size(k, at, a));
            // Rounding is by one unit at most.
            let own = (bound(dtype) * (x.abs() + BESIDE * scale)).max(literals / 2.0);
            let allowed = own + rounded + least(dtype) + MOVED * moved + lost;
            // Halves, for what is the largest there is.
            let share = (x / 2.0 - y / 2.0).abs() / (allowed / 2.0);
            if share > 1.0 && worst.is_none_or(|w| share > w.0) {
                worst = Some((share, at));
            }
        }
        (worst.map(|w| w.1), outside)
    }

    /// How far the elements of a result move, which is this on either side.
    fn strays(&self, k: usize, of: [&Tensor; 2], again: &Again<'_>) -> Strays {
        let moved = |trials: u64, other: &dyn Fn(u64) -> Option<Moved>| {
            let mut moved = vec![0.0; of[0].len()];
            for (left, base) in [true, false].into_iter().zip(of) {
                let runs = (1..=trials).filter_map(|seed| again(left, other(seed)?));
                let most = stray(base, runs.filter_map(|mut r| (k < r.len()).then(|| r.swap_remove(k))));
                moved.iter_mut().zip(most).for_each(|(sum, m)| *sum += m);
            }
            moved
        };
        let args = if self.moves { moved(ARGS, &|seed| self.moved(seed)) } else { Vec::new() };
        Strays { args, literals: moved(LITERALS, &|seed| Some(Moved::Literals(seed))) }
    }

    /// The arguments moved by their rounding.
    fn moved(&self, seed: u64) -> Option<Moved> {
        let mut rng = Rng::new(seed);
        let args = self.args.iter().map(|(_, t)| {
            let mut moved = widen::tensor(t)?;
            if t.dtype().is_float() {
                nudge(&mut moved, unit(t.dtype()), &mut rng);
            }
            Some(moved)
        });
        Some(Moved::Args(args.collect::<Option<_>>()?))
    }

    fn floats(&self) -> impl Iterator<Item = f64> {
        let floats = self.args.iter().filter(|a| a.1.dtype().is_float());
        floats.flat_map(|(_, t)| (0..t.len()).map(|i| t.get_f64(i)))
    }

    fn is_finite(&self) -> bool {
        self.floats().all(f64::is_finite)
    }

    /// The largest finite number of the arguments.
    fn largest(&self) -> f64 {
        self.floats().map(f64::abs).filter(|x| x.is_finite()).fold(0.0, f64::max)
    }
}

/// Whether an element has a value in the reals on neither side.
fn valueless(a: &Tensor, b: &Tensor, at: usize) -> bool {
    !a.get_f64(at).is_finite() && !b.get_f64(at).is_finite()
}

/// How far each element is at most from what it is in other runs.
fn stray(base: &Tensor, runs: impl Iterator<Item = Tensor>) -> Vec<f64> {
    let mut moved = vec![0.0f64; base.len()];
    for now in runs.filter(|t| t.shape() == base.shape()) {
        for (i, m) in moved.iter_mut().enumerate() {
            let d = (base.get_f64(i) - now.get_f64(i)).abs();
            *m = if d.is_finite() { m.max(d) } else { *m };
        }
    }
    moved
}

/// An element, exactly.
pub(super) fn number(t: &Tensor, i: usize) -> String {
    let d = t.dtype();
    if d == DType::Bool {
        (t.get_i64(i) != 0).to_string()
    } else if d.is_float() {
        t.get_f64(i).to_string()
    } else {
        t.get_i64(i).to_string()
    }
}
