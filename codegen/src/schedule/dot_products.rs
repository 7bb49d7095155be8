//! Dot products: sums of products of narrow numbers that one instruction adds up.
//!
//! In: a reduction. Out: its two factors, of which one is kept in panels, as numbers of a byte or halves, and what must
//! be added because the instruction wants one factor with a sign and the other without, or because a factor is a narrow
//! number less a zero: integers wrap, so these sums may be taken apart. `panels` makes these panels, `dot_reductions`
//! is for factors that both lie along the reduction, `emit::dot_products` has the instructions.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use ir::Intrinsic;
use ir::Literal;
use ir::loops::{Run, Scalar, ScalarKind};
use tensor::DType;

use super::{LoopAccess, Order, Planner, Stride};
use crate::Pass;
use ir::Combine;

/// A reduction of such products.
pub(super) struct Product<'s> {
    /// The factor that may differ between rows: an access along the reduction.
    pub(super) a: &'s Scalar,
    /// What is added to it.
    pub(super) a_plus: Option<Scalar>,
    /// The factor that is the same for all rows.
    pub(super) b: &'s Scalar,
    /// What is added to it.
    pub(super) b_plus: Option<Scalar>,
    /// The type that holds `b`.
    pub(super) narrow: DType,
    /// How many products an instruction adds up.
    pub(super) size: i64,
}

/// The product of a reduction, if it can be one of panels.
pub(super) fn product<'s>(
    planner: &Planner<'_>,
    s: &'s Scalar,
    lanes: &LoopAccess<'_>,
    rows: &LoopAccess<'_>,
) -> Option<Product<'s>> {
    let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, body, .. } = &s.kind else {
        return None;
    };
    if !planner.target.runs(Pass::DotProducts) {
        return None;
    }
    let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return None };
    let over = LoopAccess::new(planner.prim, *var, &[]);
    let [x, y] = args.as_slice() else { return None };
    let (a, b) = if lanes.changes(y) { (x, y) } else { (y, x) };
    if lanes.changes(a) || rows.changes(b) || !lanes.changes(b) {
        return None;
    }
    let along = |s: &Scalar| match &s.kind {
        ScalarKind::Load { buf, index, checked: false, .. } => over.stride(*buf, index) == Stride::Unit,
        _ => false,
    };
    let target = planner.target;
    match body.dtype {
        DType::F32 | DType::Bf16 if target.is_bf16_fast() && planner.order == Order::Free => {
            let half = |s: &'s Scalar| match &s.kind {
                ScalarKind::Load { .. } if s.dtype == DType::Bf16 && body.dtype == DType::Bf16 => Some(s),
                ScalarKind::Cast(e) if s.dtype == DType::F32 && e.dtype == DType::Bf16 => Some(&**e),
                _ => None,
            };
            let (a, b) = (half(a)?, half(b)?);
            let plain = matches!(b.kind, ScalarKind::Load { .. });
            (along(a) && plain).then_some(Product {
                a,
                a_plus: None,
                b,
                b_plus: None,
                narrow: DType::Bf16,
                size: 2,
            })
        }
        DType::I32 if target.has_vnni() => {
            // What stays the same in all rounds of the reduction.
            let still = |s: &Scalar| !over.changes(s);
            let (a, a_plus) = offset(a, &still);
            let ScalarKind::Cast(a) = &a.kind else { return None };
            if !(matches!(a.dtype, DType::I8 | DType::U8) && along(a)) {
                return None;
            }
            let (b, b_plus, narrow) = match byte(b) {
                Some(narrow) => (b, None, narrow),
                None => {
                    let (b, plus) = offset(b, &still);
                    (b, plus, byte(b)?)
                }
            };
            Some(Product { a, a_plus, b, b_plus, narrow, size: 4 })
        }
        _ => None,
    }
}

/// `x + c` or `x - c`: the parts, the second as what is added.
pub(super) fn offset<'s>(s: &'s Scalar, still: &dyn Fn(&Scalar) -> bool) -> (&'s Scalar, Option<Scalar>) {
    if let ScalarKind::Op(op @ (Intrinsic::Add | Intrinsic::Sub), args) = &s.kind
        && let [x, c] = args.as_slice()
        && still(c)
    {
        let minus = || Scalar { kind: ScalarKind::Op(Intrinsic::Neg, vec![c.clone()]), dtype: c.dtype };
        return (x, Some(if *op == Intrinsic::Add { c.clone() } else { minus() }));
    }
    (s, None)
}

/// The type of a byte that holds whatever an expression gives.
pub(super) fn byte(s: &Scalar) -> Option<DType> {
    let (lo, hi) = range(s)?;
    let within = |d: DType| limits(d).is_some_and(|(least, most)| least <= lo && hi <= most);
    [DType::I8, DType::U8].into_iter().find(|d| within(*d))
}

fn limits(d: DType) -> Option<(i64, i64)> {
    match d {
        DType::I8 => Some((-128, 127)),
        DType::U8 => Some((0, 255)),
        DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}

/// Between which numbers an integer lies; none where its type says all there is to say and is wide.
pub(super) fn range(s: &Scalar) -> Option<(i64, i64)> {
    let of_type = limits(s.dtype)?;
    let known = match &s.kind {
        ScalarKind::Const(Literal::Int(i)) => Some((*i, *i)),
        ScalarKind::Cast(e) => range(e),
        ScalarKind::Op(op, args) => {
            let of = |at: usize| args.get(at).and_then(range);
            match op {
                Intrinsic::Add => of(0).zip(of(1)).map(|(a, b)| (a.0 + b.0, a.1 + b.1)),
                Intrinsic::Sub => of(0).zip(of(1)).map(|(a, b)| (a.0 - b.1, a.1 - b.0)),
                Intrinsic::BitAnd => {
                    let ends = [of(0), of(1)].into_iter().flatten().filter(|r| r.0 >= 0).map(|r| r.1);
                    ends.min().map(|most| (0, most))
                }
                Intrinsic::Shr => match (of(0), of(1)) {
                    (Some(a), Some((by, same))) if by == same && a.0 >= 0 => {
                        let by = by & (8 * s.dtype.size() as i64 - 1);
                        Some((a.0 >> by, a.1 >> by))
                    }
                    _ => None,
                },
                Intrinsic::Shl => match (of(0), of(1)) {
                    (Some(a), Some((by, same))) if by == same && a.0 >= 0 && (0..8).contains(&by) => {
                        Some((a.0 << by, a.1 << by))
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    };
    // What does not fit its type wraps.
    Some(known.filter(|k| of_type.0 <= k.0 && k.1 <= of_type.1).unwrap_or(of_type))
}
