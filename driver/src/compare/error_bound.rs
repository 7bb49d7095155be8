//! Error bounds: how far the machine code of one kernel may be from what its loops say, on the same arguments.
//!
//! `C·k·(u·(|result| + what it adds constants to) + s)`: u is the unit roundoff of the coarsest type the kernel stores,
//! k the number of terms of its longest reduction, and s how far the result moves when each argument moves by its own
//! u, which the oracle tells by running the kernel on arguments so moved: further where the kernel rounds them to a
//! narrower type, by as much less in the end. The last term stands for sum|a||b| and for functions in the kernel that
//! amplify. It is asked for only where the others do not suffice. In those runs each product moves as well: the machine
//! need not round what it adds to something.

use ir::loops::{Prim, Scalar, ScalarKind, Stmt};
use ir::{Extern, Intrinsic, Literal};
use shape::Sym;
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::difference::TINY;

/// For operations in a row: functions of vectors are within 2 units, and a kernel has a few of them.
const C: f64 = 16.0;
/// Runs on moved arguments. Two readers of a value differ only where one has it as it is and the other its twin
/// ([`super::literal_rounding`]), in half of the runs: of four runs that would be none once in sixteen times.
pub(super) const TRIALS: u64 = 12;
/// What is small beside the largest movement may be small by accident.
const BESIDE: f64 = 0.05;

/// What the bound of a kernel depends on.
pub(super) struct Kernel {
    pub(super) name: String,
    /// Terms of the longest reduction.
    terms: f64,
    /// The unit roundoff of the coarsest of its types.
    unit: f64,
    /// The unit roundoff of the coarsest type that it rounds to on the way: what moves by less comes to nothing.
    rounds_to: f64,
    /// The largest constant that it adds.
    added: f64,
}

/// The unit roundoff of a type.
pub(crate) fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => (-53f64).exp2(),
        DType::F32 => (-24f64).exp2(),
        DType::F16 => (-11f64).exp2(),
        DType::Bf16 => (-8f64).exp2(),
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => 0.0,
    }
}

impl Kernel {
    pub(super) fn of_prim(prim: &Prim, dims: &[i64]) -> Kernel {
        let loops = Loops { prim, dims };
        let (mut added, mut rounds_to) = (0.0, 0.0f64);
        let mut look = |e: &Scalar| {
            constant(e, &mut added);
            if matches!(e.kind, ScalarKind::Cast(_)) {
                rounds_to = rounds_to.max(unit(e.dtype));
            }
        };
        for s in &prim.body {
            s.walk(&mut |s| s.scalars().into_iter().for_each(|e| e.walk(&mut look)));
        }
        let types = prim.bufs.iter().map(|b| b.dtype).chain(prim.vars.iter().map(|v| v.dtype));
        Kernel {
            name: prim.name.clone(),
            terms: loops.block(&prim.body),
            unit: types.map(unit).fold(0.0, f64::max),
            rounds_to,
            added,
        }
    }

    pub(super) fn of_extern(e: &Extern, dims: &[i64]) -> Kernel {
        let terms = dims.iter().copied().max().unwrap_or(1).max(1) as f64;
        let unit = e.bufs.iter().map(|b| unit(b.dtype)).fold(0.0, f64::max);
        Kernel { name: e.name.to_string(), terms, unit, rounds_to: 0.0, added: 0.0 }
    }

    /// What is allowed where the oracle has `x`, and moved arguments move it by `spread`.
    pub(super) fn allowed(&self, dtype: DType, x: f64, spread: f64) -> f64 {
        let own = if dtype.is_float() { self.unit * (x.abs() + self.added) + TINY } else { 0.0 };
        C * self.terms * (own + spread)
    }
}

/// Runs a kernel on arguments, with its products moved by no less than some unit ([`move_products`]).
pub(super) type Run<'a> = dyn Fn(Vec<Tensor>, f64, &mut Rng) -> Option<Vec<Tensor>> + 'a;

/// How far each element of each result moves when the floats of the arguments move by their own rounding.
pub(super) fn spread(
    kernel: &Kernel,
    args: &[Tensor],
    want: &[Tensor],
    run: &Run<'_>,
) -> Option<Vec<Vec<f64>>> {
    let by = kernel.unit.max(kernel.rounds_to);
    let trial = |seed| {
        let mut rng = Rng::new(seed);
        let mut args = args.to_vec();
        for t in args.iter_mut().filter(|t| t.dtype().is_float()) {
            nudge(t, by, &mut rng);
        }
        run(args, by, &mut rng)
    };
    let mut moved = movement(want, TRIALS, &trial);
    if kernel.unit < by {
        moved.iter_mut().flatten().for_each(|m| *m *= kernel.unit / by);
    }
    Some(moved)
}

/// Moves each product of floats up or down by two units, and by no less than two of its type.
pub(super) fn move_products(prim: &mut Prim, least: f64, rng: &mut Rng) {
    let mut move_one = |e: &mut Scalar| {
        let ScalarKind::Op(Intrinsic::Mul, args) = &mut e.kind else { return };
        let by = 2.0 * unit(e.dtype).max(least);
        let [_, b] = &mut args[..] else { return };
        // It is called on what it puts there too.
        let is_moved =
            matches!(b.kind, ScalarKind::Const(Literal::Float(x)) if x != 1.0 && (x - 1.0).abs() == by);
        if e.dtype.is_float() && !is_moved {
            let by = if rng.below(2) == 0 { 1.0 + by } else { 1.0 - by };
            let by = Scalar::constant(Literal::Float(by), e.dtype);
            let kind = ScalarKind::Op(Intrinsic::Mul, vec![b.clone(), by]);
            *b = Scalar { kind, dtype: e.dtype };
        }
    };
    for s in &mut prim.body {
        s.walk_mut(&mut |s| s.scalars_mut().into_iter().for_each(|e| e.walk_mut(&mut move_one)));
    }
}

/// Moves each element up or down by two units, so that it moves in a type of that unit.
pub(crate) fn nudge(t: &mut Tensor, unit: f64, rng: &mut Rng) {
    for i in 0..t.len() {
        let up = rng.below(2) == 0;
        let x = t.get_f64(i);
        t.set_f64(i, x * if up { 1.0 + 2.0 * unit } else { 1.0 - 2.0 * unit });
    }
}

/// How far each element moves in so many trials, each by its own seed. Where a trial is refused, nothing is known of
/// its movement.
pub(super) fn movement(
    want: &[Tensor],
    trials: u64,
    trial: &dyn Fn(u64) -> Option<Vec<Tensor>>,
) -> Vec<Vec<f64>> {
    let mut moved: Vec<Vec<f64>> = want.iter().map(|t| vec![0.0; t.len()]).collect();
    for results in (1..=trials).filter_map(trial) {
        for ((moved, a), b) in moved.iter_mut().zip(want).zip(&results) {
            if a.shape() == b.shape() {
                for (i, m) in moved.iter_mut().enumerate() {
                    let d = (a.get_f64(i) - b.get_f64(i)).abs();
                    *m = if d.is_nan() { *m } else { m.max(d) };
                }
            }
        }
    }
    for m in &mut moved {
        let most = m.iter().copied().fold(0.0, f64::max);
        m.iter_mut().for_each(|x| *x += BESIDE * most);
    }
    moved
}

/// A constant that is added or subtracted.
fn constant(e: &Scalar, largest: &mut f64) {
    if let ScalarKind::Op(Intrinsic::Add | Intrinsic::Sub, args) = &e.kind {
        for a in args {
            if let ScalarKind::Const(Literal::Float(x)) = a.kind
                && x.is_finite()
            {
                *largest = largest.max(x.abs());
            }
        }
    }
}

/// The loops of a kernel, for given dims.
struct Loops<'a> {
    prim: &'a Prim,
    dims: &'a [i64],
}

impl Loops<'_> {
    /// Rounds of one after the other, the longest way through.
    fn block(&self, body: &[Stmt]) -> f64 {
        body.iter().map(|s| self.stmt(s)).fold(1.0, f64::max)
    }

    fn stmt(&self, s: &Stmt) -> f64 {
        let own = s.scalars().into_iter().map(|e| self.scalar(e)).fold(1.0, f64::max);
        let inner = match s {
            Stmt::For { lo, hi, mark: ir::loops::Mark::Serial, body, .. } => {
                self.rounds(lo, hi) * self.block(body)
            }
            Stmt::For { body, .. } => self.block(body),
            Stmt::While(_, body) => self.longest() * self.block(body),
            Stmt::If(_, yes, no) => self.block(yes).max(self.block(no)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => 1.0,
        };
        own.max(inner)
    }

    fn scalar(&self, e: &Scalar) -> f64 {
        let of = |list: &mut dyn Iterator<Item = &Scalar>| list.map(|a| self.scalar(a)).fold(1.0, f64::max);
        match &e.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => 1.0,
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => of(&mut args.iter()),
            ScalarKind::Choose(parts) => of(&mut parts.iter()),
            ScalarKind::Cast(a) => self.scalar(a),
            ScalarKind::Reduce { lo, hi, body, .. } => self.rounds(lo, hi) * self.scalar(body),
        }
    }

    /// The trip count of a loop, if the dims tell it.
    fn rounds(&self, lo: &Scalar, hi: &Scalar) -> f64 {
        let dim =
            |s: Sym| self.prim.dims.iter().position(|d| *d == s).and_then(|i| self.dims.get(i).copied());
        let count = self.prim.trip_count(lo, hi).and_then(|n| n.eval(&dim).ok());
        count.map_or_else(|| self.longest(), |n| n.max(1) as f64)
    }

    /// No loop over an axis is longer.
    fn longest(&self) -> f64 {
        self.dims.iter().copied().max().unwrap_or(1).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_may_stray_by_its_terms_and_no_further() {
        let kernel =
            |terms| Kernel { name: "sum".into(), terms, unit: unit(DType::F32), rounds_to: 0.0, added: 0.0 };
        let [one, many] = [kernel(1.0), kernel(1000.0)].map(|k| k.allowed(DType::F32, 1.0, 0.0));
        assert!(one > 9e-7 && one < 1e-6, "{one}");
        assert!((many / one - 1000.0).abs() < 1e-6);
        assert_eq!(kernel(1.0).allowed(DType::I64, 1.0, 0.0), 0.0);
    }

    #[test]
    fn what_amplifies_moves_with_its_arguments() {
        let kernel =
            Kernel { name: "far".into(), terms: 1.0, unit: unit(DType::F32), rounds_to: 0.0, added: 0.0 };
        let x = Tensor::from_f32(&[2], &[1000.0, 1.0]).unwrap();
        let run = |args: Vec<Tensor>, _: f64, _: &mut Rng| {
            let y = args[0].as_f32().unwrap().iter().map(|x| x - 999.0).collect::<Vec<f32>>();
            Some(vec![Tensor::from_f32(&[2], &y).unwrap()])
        };
        let want = run(vec![x.clone()], 0.0, &mut Rng::new(0)).unwrap();
        let spread = spread(&kernel, &[x], &want, &run).unwrap();
        assert!(spread[0][0] > 1e-4 && spread[0][0] < 1e-3, "{spread:?}");
    }

    #[test]
    fn what_is_rounded_on_the_way_moves_as_if_it_were_not() {
        let unit = unit(DType::F32);
        let kernel =
            Kernel { name: "cancels".into(), terms: 1.0, unit, rounds_to: (-8f64).exp2(), added: 0.0 };
        // Two that all but cancel, rounded to as many digits as bf16 has.
        let x = Tensor::from_f32(&[2], &[300.0, -299.0]).unwrap();
        let run = |args: Vec<Tensor>, _: f64, _: &mut Rng| {
            let y: f32 = args[0].as_f32().unwrap().iter().map(|x| (x / 2.0).round() * 2.0).sum();
            Some(vec![Tensor::from_f32(&[1], &[y]).unwrap()])
        };
        let want = run(vec![x.clone()], 0.0, &mut Rng::new(0)).unwrap();
        let spread = spread(&kernel, &[x], &want, &run).unwrap()[0][0];
        assert!(spread > 300.0 * unit && spread < 3000.0 * unit, "{spread}");
    }
}
