//! Reductions: into loops that add to a local buffer, into partial results, into dot products.

use std::collections::BTreeSet;

use ir::legality::dot_width;
use ir::loops::{BufId, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::{Combine, Intrinsic};
use shape::{Expr as Dim, Facts, Pred};
use tensor::DType;

use crate::arith::{extent, minus, op, tiles, var};
use crate::nest::{both, copy_sum, from_on, may_reorder, plain, reduce, tile_range, whole_tiles};
use crate::stage::{load, over, store};
use crate::tree::{at_stmt, at_sum, copy, edit_scalar, name, new_buf, new_var, speaks};
use crate::{Order, Refusal, Step};

/// A reduction taken out of its expression.
struct Sum {
    combine: Combine,
    lo: Scalar,
    hi: Scalar,
    run: Run,
    body: Scalar,
}

/// True if the reduction over `at` stands in the expression where it is sure to be computed once.
fn is_plain(e: &Scalar, at: VarId) -> bool {
    match &e.kind {
        ScalarKind::Reduce { var, .. } => *var == at,
        ScalarKind::Op(_, args) => args.iter().any(|a| is_plain(a, at)),
        ScalarKind::Cast(a) => is_plain(a, at),
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Choose(_) => false,
    }
}

/// Puts something else in the place of the reduction over `at`.
fn take(e: &mut Scalar, at: VarId, with: &Scalar) -> Option<Sum> {
    let mut found = None;
    edit_scalar(e, &mut |e| {
        if let ScalarKind::Reduce { combine, run, var, lo, hi, body } = &e.kind
            && *var == at
        {
            let (lo, hi, body) = ((**lo).clone(), (**hi).clone(), (**body).clone());
            found = Some(Sum { combine: *combine, lo, hi, run: run.clone(), body });
            *e = with.clone();
        }
    });
    found
}

/// Converts to the type in which values of a type are added up.
fn widened(e: Scalar, dtype: DType) -> Scalar {
    if e.dtype == dtype { e } else { Scalar { kind: ScalarKind::Cast(Box::new(e)), dtype } }
}

fn combining(prim: &Prim, buf: BufId, index: Vec<Scalar>, combine: Combine, value: Scalar) -> Stmt {
    // What is no dim is not seen to be in bounds by whoever reads the text.
    let checked = index.iter().any(|i| prim.as_dim(i).is_none());
    Stmt::Store { buf, index, checked, combine: Some(combine), value, span: Span::default() }
}

/// The statements that make a local buffer full of a combiner's identity.
fn begin(prim: &mut Prim, buf: BufId, combine: Combine) -> Vec<Stmt> {
    let (dtype, shape) = (prim.buf(buf).dtype, prim.buf(buf).shape.clone());
    let start = combine.identity(dtype);
    if combine == Combine::Add || matches!(combine, Combine::Or) {
        return vec![Stmt::Alloc(buf)];
    }
    let region: Vec<_> = shape.into_iter().map(|d| ((Dim::int(0), d.clone()), d)).collect();
    let fill =
        over(prim, &region, "z", &mut |_, index| store(buf, index.to_vec(), Scalar::constant(start, dtype)));
    vec![Stmt::Alloc(buf), fill]
}

/// `y[i, j] = f(sum(k in n) e)` under the loops from `under` in: a local buffer that begins empty, a loop over `k`
/// outside of those loops that adds `e` to it, and the loops that write `y` from it. The loops around the sum keep
/// their variables.
pub fn accumulate(prim: &Prim, at: VarId, under: VarId) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "accumulate", at: &label };
    let wanted = |s: &Stmt| matches!(s, Stmt::For { var, .. } if *var == under);
    let done = at_stmt(prim, &wanted, &mut |prim, facts, s| accumulated(prim, facts, s, at, &step))?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop around it"))?)
}

fn accumulated(
    prim: &mut Prim,
    facts: &Facts,
    s: Stmt,
    at: VarId,
    step: &Step<'_>,
) -> Result<Vec<Stmt>, Refusal> {
    let (mut loops, mut inner) = (Vec::new(), s.clone());
    while let Stmt::For { var, lo, hi, run, body, .. } = inner {
        let mut body = body;
        if body.len() != 1 {
            return step.no(format!("`{}` holds more than one statement", prim.var(var).name));
        }
        loops.push((var, lo, hi, run));
        inner = body.remove(0);
    }
    let Stmt::Store { buf, index, checked, combine, mut value, span } = inner else {
        return step.no("it is not stored directly in the loops around it");
    };
    if !is_plain(&value, at) {
        return step.no("it is not computed once for each element");
    }
    let probe = [s];
    let mut read = false;
    crate::tree::each_scalar(&probe, &mut |e| {
        read |= matches!(&e.kind, ScalarKind::Load { buf: b, .. } if *b == buf);
    });
    if read {
        return step.no(format!("`{}` is read in the loops that write it", prim.buf(buf).name));
    }
    // The local buffer: an axis a loop.
    let mut axes = Vec::new();
    for (v, lo, hi, _) in &loops {
        let label = prim.var(*v).name;
        let tied = loops.iter().any(|l| speaks(prim, lo, l.0) || speaks(prim, hi, l.0));
        let range = prim.as_dim(lo).zip(prim.as_dim(hi)).filter(|_| !tied);
        let known = range.and_then(|(lo, hi)| Some((extent(prim, facts, &lo, &hi)?, (lo, hi))));
        let Some((extent, range)) = known else {
            return step.no(format!("how many rounds `{label}` has is not known around it"));
        };
        axes.push((range, extent));
    }
    let place: Vec<Scalar> =
        loops.iter().zip(&axes).map(|(l, a)| minus(prim, &var(prim, l.0), &a.0.0)).collect();
    let Some((_, dtype)) = way_of(&value, at) else { return step.no("there is no such reduction") };
    let near = format!("{}_sum", prim.buf(buf).name);
    let acc = new_buf(prim, &near, dtype.wide(), axes.iter().map(|a| a.1.clone()).collect());
    let result = widened(load(prim, acc, place.clone()), dtype);
    let Some(sum) = take(&mut value, at, &result) else { return step.no("there is no such reduction") };
    if loops.iter().any(|l| speaks(prim, &sum.lo, l.0) || speaks(prim, &sum.hi, l.0)) {
        return step.no("its range depends on the loops around it");
    }
    let around = |body: Stmt| {
        loops.iter().rev().fold(body, |body, (v, lo, hi, run)| {
            let mut s = plain(*v, lo.clone(), hi.clone(), vec![body]);
            if let Stmt::For { run: r, .. } = &mut s {
                *r = run.clone();
            }
            s
        })
    };
    let add = around(combining(prim, acc, place, sum.combine, widened(sum.body, dtype.wide())));
    let write = around(Stmt::Store { buf, index, checked, combine, value, span });
    // The loops that write have variables of their own.
    let write = copy(prim, &[write], &BTreeSet::new());
    let mut made = begin(prim, acc, sum.combine);
    let mut blocks = plain(at, sum.lo, sum.hi, vec![add]);
    if let Stmt::For { run, .. } = &mut blocks {
        *run = if sum.run == Run::Unrolled { Run::Unrolled } else { Run::Plain };
    }
    made.push(blocks);
    made.extend(write);
    Ok(made)
}

/// How the reduction over `at` combines, and its type.
fn way_of(e: &Scalar, at: VarId) -> Option<(Combine, DType)> {
    let mut found = None;
    e.walk(&mut |e| match &e.kind {
        ScalarKind::Reduce { var, combine, .. } if *var == at => found = Some((*combine, e.dtype)),
        _ => {}
    });
    found
}

/// A reduction as so many partial results, each of every so-manieth round, which are combined behind it.
pub fn rfactor(prim: &Prim, at: VarId, lanes: i64, order: Order) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "rfactor", at: &label };
    if !(1..=1024).contains(&lanes) {
        return step.no("there are 1 to 1024 partial results");
    }
    let wanted = |s: &Stmt| match s {
        Stmt::Set(_, e) | Stmt::Store { value: e, .. } => is_plain(e, at),
        Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => false,
    };
    let done = at_stmt(prim, &wanted, &mut |prim, facts, mut s| {
        let (Stmt::Set(_, value) | Stmt::Store { value, .. }) = &mut s else { return Ok(vec![s]) };
        let Some((combine, dtype)) = way_of(value, at) else { return step.no("there is no such reduction") };
        let part = new_buf(prim, &format!("{label}_part"), dtype.wide(), vec![Dim::int(lanes)]);
        let lane = new_var(prim, &format!("{label}_lane"));
        let each = load(prim, part, vec![var(prim, lane)]);
        let last = reduce(combine, Run::Plain, lane, (Scalar::int(0), Scalar::int(lanes)), each);
        let Some(sum) = take(value, at, &widened(last, dtype)) else {
            return step.no("there is no such reduction");
        };
        may_reorder(&step, &sum.body, order)?;
        let o = new_var(prim, &format!("{label}_o"));
        let (lo, hi) = tile_range(prim, facts, (&sum.lo, &sum.hi), o, lanes);
        let count = tiles(prim, &sum.lo, &sum.hi, lanes, false);
        let place = match prim.as_dim(&lo) {
            Some(lo) => minus(prim, &var(prim, at), &lo),
            None => op(Intrinsic::Sub, var(prim, at), lo.clone()),
        };
        let add = combining(prim, part, vec![place], sum.combine, widened(sum.body, dtype.wide()));
        let inner = plain(at, lo, hi, vec![add]);
        let mut made = begin(prim, part, sum.combine);
        made.push(plain(o, Scalar::int(0), count, vec![inner]));
        made.push(s);
        Ok(made)
    })?;
    step.finish(done.ok_or_else(|| step.refuse("it is not computed once in a statement"))?)
}

/// A sum of products of narrow numbers as sums of 2 or 4 that one instruction adds up, and the rest.
pub fn tensorize(prim: &Prim, at: VarId, order: Order) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "tensorize", at: &label };
    let done = at_sum(prim, at, &mut |prim, facts, e| {
        let ScalarKind::Reduce { combine, run, lo, hi, body, .. } = e.kind.clone() else {
            return step.no("there is no such reduction");
        };
        let size = dot_width(&body).filter(|_| combine == Combine::Add);
        let Some(size) = size else { return step.no("it is no sum of products of two narrow numbers") };
        if run != Run::Plain {
            return step.no("it is told how to run already");
        }
        may_reorder(&step, e, order)?;
        if prim.constant_trip_count(&lo, &hi) == Some(size) {
            *e = reduce(combine, Run::Dot, at, (*lo, *hi), *body);
            return Ok(());
        }
        let rest = copy_sum(prim, e);
        let (count, end) = whole_tiles(prim, facts, (&lo, &hi), size);
        let o = new_var(prim, &format!("{label}_o"));
        let from = op(Intrinsic::Add, (*lo).clone(), op(Intrinsic::Mul, Scalar::int(size), var(prim, o)));
        let to = op(Intrinsic::Add, from.clone(), Scalar::int(size));
        let whole = reduce(combine, Run::Dot, at, (from, to), *body);
        let whole = reduce(combine, Run::Plain, o, (Scalar::int(0), count), whole);
        let even = match (prim.as_dim(&lo), prim.as_dim(&hi)) {
            (Some(lo), Some(hi)) => {
                let left = (&hi - &lo).modulo(&Dim::int(size));
                facts.prove(&Pred::Eq(left, Dim::int(0))).is_proved()
            }
            _ => false,
        };
        *e = if even { whole } else { both(combine, whole, from_on(rest, end)) };
        Ok(())
    })?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such reduction"))?)
}
