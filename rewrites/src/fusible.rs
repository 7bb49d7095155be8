//! Fusible loop nests: elementwise maps, and what else fusion can take apart.
//!
//! - [`MapForm`]: `for i.. { for j.. { let ..; out[i, j] = e } }`, each loop over a whole axis of the output
//!   and each axis written at its own variable. Such a primitive *is* the expression `e` of `(i, j)`.
//! - [`pointwise_at`]: a map that reads a buffer only at the place it writes.
//! - [`writes_once`]: a primitive of any loops whose output is only stored to, never combined into or read
//!   back, so that what is done with an element can be done where it is stored.

use ir::Intrinsic;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr;

/// A primitive that gives each element of its one output an expression, once.
#[derive(Clone, Debug)]
pub(crate) struct MapForm {
    /// The output.
    pub(crate) out: BufId,
    /// For each axis of the output, the loop variable.
    pub(crate) index: Vec<VarId>,
    /// Definitions before the store, in order.
    pub(crate) lets: Vec<(VarId, Scalar)>,
    /// The element.
    pub(crate) value: Scalar,
}

/// The map that a primitive is, if it is one.
pub(crate) fn map_form(prim: &Prim) -> Option<MapForm> {
    let mut forms = map_forms(prim)?;
    if forms.len() == 1 { forms.pop() } else { None }
}

/// The maps that a primitive is, one an output, all in the same loops.
pub(crate) fn map_forms(prim: &Prim) -> Option<Vec<MapForm>> {
    if prim.outs.iter().any(|&o| prim.in_place(o)) {
        return None;
    }
    let mut extents: Vec<(VarId, Expr)> = Vec::new();
    let mut lets: Vec<(VarId, Scalar)> = Vec::new();
    let mut stores: Vec<(BufId, Vec<VarId>, Scalar)> = Vec::new();
    let mut body = &prim.body[..];
    while let Some((last, before)) = body.split_last() {
        for s in before {
            match s {
                // A `var` given a second value is no definition.
                Stmt::Set(v, e) if lets.iter().all(|(w, _)| w != v) => lets.push((*v, e.clone())),
                Stmt::Store { .. } => stores.push(element(s)?),
                Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => {
                    return None;
                }
            }
        }
        match last {
            Stmt::For { var, lo, hi, body: inner, .. } if stores.is_empty() => {
                if prim.as_dim(lo)? != Expr::int(0) {
                    return None;
                }
                extents.push((*var, prim.as_dim(hi)?));
                body = inner;
            }
            Stmt::Store { .. } => {
                stores.push(element(last)?);
                body = &[];
            }
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => {
                return None;
            }
        }
    }
    let whole = |out: BufId, index: &[VarId]| {
        let axis = |(axis, v): (usize, &VarId)| {
            let extent = extents.iter().find(|(w, _)| w == v);
            !index[..axis].contains(v) && extent.is_some_and(|(_, e)| *e == prim.buf(out).shape[axis])
        };
        index.len() == extents.len() && index.iter().enumerate().all(axis)
    };
    let each = prim.outs.iter().map(|&out| {
        let mut own = stores.iter().filter(|s| s.0 == out);
        let (Some((_, index, value)), None) = (own.next(), own.next()) else { return None };
        let form = MapForm { out, index: index.clone(), lets: lets.clone(), value: value.clone() };
        whole(out, index).then_some(form)
    });
    let forms: Vec<MapForm> = each.collect::<Option<_>>()?;
    (stores.len() == forms.len() && reads_only_params(prim)).then_some(forms)
}

/// What a plain store to a place that variables name stores, and where.
fn element(store: &Stmt) -> Option<(BufId, Vec<VarId>, Scalar)> {
    let Stmt::Store { buf, index, checked: false, combine: None, value, .. } = store else { return None };
    Some((*buf, index.iter().map(Scalar::as_var).collect::<Option<_>>()?, value.clone()))
}

fn reads_only_params(prim: &Prim) -> bool {
    let mut ok = true;
    each_load(&prim.body, &mut |buf, _, _| ok &= prim.params.contains(&buf));
    ok
}

/// What [`each_load`] is told of a load: the buffer, the index, the variables of the loops around it.
type OnLoad<'a> = dyn FnMut(BufId, &[Scalar], &[VarId]) + 'a;

/// Calls `f` with each load in some statements.
pub(crate) fn each_load(body: &[Stmt], f: &mut OnLoad<'_>) {
    let mut loops = Vec::new();
    body.iter().for_each(|s| loads_of_stmt(s, &mut loops, f));
}

fn loads_of_stmt(s: &Stmt, loops: &mut Vec<VarId>, f: &mut OnLoad<'_>) {
    s.scalars().into_iter().for_each(|e| loads_of_scalar(e, loops, f));
    match s {
        Stmt::For { var, body, .. } => {
            loops.push(*var);
            body.iter().for_each(|s| loads_of_stmt(s, loops, f));
            loops.pop();
        }
        Stmt::While(_, body) => body.iter().for_each(|s| loads_of_stmt(s, loops, f)),
        Stmt::If(_, a, b) => a.iter().chain(b).for_each(|s| loads_of_stmt(s, loops, f)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

fn loads_of_scalar(e: &Scalar, loops: &mut Vec<VarId>, f: &mut OnLoad<'_>) {
    match &e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { buf, index, .. } => {
            f(*buf, index, loops);
            index.iter().for_each(|a| loads_of_scalar(a, loops, f));
        }
        ScalarKind::Op(_, args) => args.iter().for_each(|a| loads_of_scalar(a, loops, f)),
        ScalarKind::Choose(parts) => parts.iter().for_each(|a| loads_of_scalar(a, loops, f)),
        ScalarKind::Cast(a) => loads_of_scalar(a, loops, f),
        ScalarKind::Reduce { var, lo, hi, body, .. } => {
            loads_of_scalar(lo, loops, f);
            loads_of_scalar(hi, loops, f);
            loops.push(*var);
            loads_of_scalar(body, loops, f);
            loops.pop();
        }
    }
}

/// True if the map reads `buf`, and only at the place it writes.
pub(crate) fn pointwise_at(prim: &Prim, map: &MapForm, buf: BufId) -> bool {
    let (mut any, mut ok) = (false, true);
    each_load(&prim.body, &mut |b, index, _| {
        if b == buf {
            any = true;
            ok &= index.len() == map.index.len()
                && index.iter().zip(&map.index).all(|(i, v)| i.as_var() == Some(*v));
        }
    });
    any && ok
}

/// True for a map that adds or multiplies the elements of its two buffers at the place it writes, read from the
/// loops: it gives the same with its operands exchanged.
pub(crate) fn commutes(prim: &Prim) -> bool {
    let Some(map) = map_form(prim) else { return false };
    let ScalarKind::Op(Intrinsic::Add | Intrinsic::Mul, args) = &map.value.kind else { return false };
    let [x, y] = &args[..] else { return false };
    let plain = |e: &Scalar| {
        let ScalarKind::Load { buf, .. } = &e.kind else { return None };
        pointwise_at(prim, &map, *buf).then_some(*buf)
    };
    let ([a, b], Some(x), Some(y)) = (&prim.params[..], plain(x), plain(y)) else { return false };
    let (l, r) = (prim.buf(*a), prim.buf(*b));
    map.lets.is_empty() && [x, y] == [*a, *b] && l.dtype == r.dtype && l.shape == r.shape
}

/// The number of stores to the one output of a primitive that only ever stores to it.
pub(crate) fn writes_once(prim: &Prim) -> Option<usize> {
    let [out] = prim.outs[..] else { return None };
    if prim.in_place(out) {
        return None;
    }
    let (mut stores, mut plain) = (0, true);
    for s in &prim.body {
        s.walk(&mut |s| {
            if let Stmt::Store { buf, combine, .. } = s
                && *buf == out
            {
                stores += 1;
                plain &= combine.is_none();
            }
        });
    }
    each_load(&prim.body, &mut |b, _, _| plain &= b != out);
    plain.then_some(stores)
}
