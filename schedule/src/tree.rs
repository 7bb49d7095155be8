//! The tree of statements: finding a loop or reduction, putting others in its place, copies with names of their own.

use std::collections::{BTreeMap, BTreeSet};

use ir::depend::enter;
use ir::loops::{Buf, BufId, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::{Expr as Dim, Facts, Sym};
use tensor::DType;

use crate::{Order, Refusal, Step};

/// What is put in place of a loop; the facts are those around it.
pub(crate) type OnLoop<'f> = dyn FnMut(&mut Prim, &Facts, Stmt) -> Result<Vec<Stmt>, Refusal> + 'f;
/// What is put in place of a reduction.
pub(crate) type OnSum<'f> = dyn FnMut(&mut Prim, &Facts, &mut Scalar) -> Result<(), Refusal> + 'f;

/// The primitive with something else in the place of the loop over `at`; none where there is no such loop.
pub(crate) fn at_loop(prim: &Prim, at: VarId, f: &mut OnLoop<'_>) -> Result<Option<Prim>, Refusal> {
    at_stmt(prim, &|s| matches!(s, Stmt::For { var, .. } if *var == at), f)
}

/// The same for the first statement that is the one wanted.
pub(crate) fn at_stmt(
    prim: &Prim,
    wanted: &dyn Fn(&Stmt) -> bool,
    f: &mut OnLoop<'_>,
) -> Result<Option<Prim>, Refusal> {
    let mut prim = distinct(prim);
    let mut body = std::mem::take(&mut prim.body);
    let facts = prim.facts.clone();
    let found = block(&mut prim, &mut body, &facts, wanted, f)?;
    prim.body = body;
    Ok(found.then_some(prim))
}

fn block(
    prim: &mut Prim,
    stmts: &mut Vec<Stmt>,
    facts: &Facts,
    wanted: &dyn Fn(&Stmt) -> bool,
    f: &mut OnLoop<'_>,
) -> Result<bool, Refusal> {
    for i in 0..stmts.len() {
        if wanted(&stmts[i]) {
            let made = f(prim, facts, stmts.remove(i))?;
            stmts.splice(i..i, made);
            return Ok(true);
        }
        let found = match &mut stmts[i] {
            Stmt::For { var, lo, hi, body, .. } => {
                let inside = enter(prim, facts, *var, lo, hi);
                block(prim, body, &inside, wanted, f)?
            }
            Stmt::While(_, body) => block(prim, body, facts, wanted, f)?,
            Stmt::If(_, a, b) => block(prim, a, facts, wanted, f)? || block(prim, b, facts, wanted, f)?,
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => false,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The primitive with the reduction over `at` changed; none where there is no such reduction.
pub(crate) fn at_sum(prim: &Prim, at: VarId, f: &mut OnSum<'_>) -> Result<Option<Prim>, Refusal> {
    let mut prim = distinct(prim);
    let mut body = std::mem::take(&mut prim.body);
    let facts = prim.facts.clone();
    let found = sums(&mut prim, &mut body, &facts, at, f)?;
    prim.body = body;
    Ok(found.then_some(prim))
}

fn sums(
    prim: &mut Prim,
    stmts: &mut [Stmt],
    facts: &Facts,
    at: VarId,
    f: &mut OnSum<'_>,
) -> Result<bool, Refusal> {
    for s in stmts {
        for e in scalars_mut(s) {
            if sum(prim, e, facts, at, f)? {
                return Ok(true);
            }
        }
        let found = match s {
            Stmt::For { var, lo, hi, body, .. } => {
                let inside = enter(prim, facts, *var, lo, hi);
                sums(prim, body, &inside, at, f)?
            }
            Stmt::While(_, body) => sums(prim, body, facts, at, f)?,
            Stmt::If(_, a, b) => sums(prim, a, facts, at, f)? || sums(prim, b, facts, at, f)?,
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => false,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sum(
    prim: &mut Prim,
    e: &mut Scalar,
    facts: &Facts,
    at: VarId,
    f: &mut OnSum<'_>,
) -> Result<bool, Refusal> {
    if matches!(&e.kind, ScalarKind::Reduce { var, .. } if *var == at) {
        f(prim, facts, e)?;
        return Ok(true);
    }
    if let ScalarKind::Reduce { var, lo, hi, body, .. } = &mut e.kind {
        let inside = enter(prim, facts, *var, lo, hi);
        return Ok(sum(prim, lo, facts, at, f)?
            || sum(prim, hi, facts, at, f)?
            || sum(prim, body, &inside, at, f)?);
    }
    for part in parts_mut(e) {
        if sum(prim, part, facts, at, f)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The expressions directly inside one.
fn parts_mut(e: &mut Scalar) -> Vec<&mut Scalar> {
    match &mut e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => vec![],
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => args.iter_mut().collect(),
        ScalarKind::Choose(parts) => parts.iter_mut().collect(),
        ScalarKind::Cast(a) => vec![a],
        ScalarKind::Reduce { lo, hi, body, .. } => vec![lo, hi, body],
    }
}

/// The expressions that stand in a statement itself.
fn scalars_mut(s: &mut Stmt) -> Vec<&mut Scalar> {
    match s {
        Stmt::For { lo, hi, .. } => vec![lo, hi],
        Stmt::While(c, _) | Stmt::If(c, ..) => vec![c],
        Stmt::Set(_, v) => vec![v],
        Stmt::Alloc(_) => vec![],
        Stmt::Store { index, value, .. } => index.iter_mut().chain([value]).collect(),
    }
}

/// Calls `f` on every expression, from the inside out.
pub(crate) fn edit(stmts: &mut [Stmt], f: &mut dyn FnMut(&mut Scalar)) {
    for s in stmts {
        scalars_mut(s).into_iter().for_each(|e| edit_scalar(e, f));
        blocks_mut(s).into_iter().for_each(|b| edit(b, f));
    }
}

pub(crate) fn edit_scalar(e: &mut Scalar, f: &mut dyn FnMut(&mut Scalar)) {
    parts_mut(e).into_iter().for_each(|p| edit_scalar(p, f));
    f(e);
}

fn blocks_mut(s: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
    match s {
        Stmt::For { body, .. } | Stmt::While(_, body) => vec![body],
        Stmt::If(_, a, b) => vec![a, b],
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => vec![],
    }
}

/// Calls `f` on every statement, from the outside in.
pub(crate) fn each_mut(stmts: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    for s in stmts {
        f(s);
        blocks_mut(s).into_iter().for_each(|b| each_mut(b, f));
    }
}

/// Every expression in statements.
pub(crate) fn each_scalar<'a>(stmts: &'a [Stmt], f: &mut dyn FnMut(&'a Scalar)) {
    for s in stmts {
        s.walk(&mut |s| s.scalars().into_iter().for_each(|e| e.walk(f)));
    }
}

/// Puts an expression in place of a variable.
pub(crate) fn replace(prim: &Prim, e: &mut Scalar, v: VarId, with: &Scalar) {
    let (name, dim) = (prim.var(v).name, prim.as_dim(with));
    edit_scalar(e, &mut |e| match &mut e.kind {
        ScalarKind::Var(x) if *x == v => *e = with.clone(),
        ScalarKind::Dim(d) => *d = d.subst(&|s| if s == name { dim.clone() } else { None }),
        _ => {}
    });
}

/// A name that no variable, dim or buffer has.
fn fresh(prim: &Prim, near: &str) -> Sym {
    let taken = |s: Sym| {
        prim.dims.contains(&s)
            || prim.vars.iter().any(|v| v.name == s)
            || prim.bufs.iter().any(|b| b.name == s)
    };
    let first = Sym::new(near);
    if !taken(first) {
        return first;
    }
    (2..).map(|n| Sym::new(&ir::display_names::mangle(near, n))).find(|s| !taken(*s)).unwrap_or(first)
}

pub(crate) fn new_var(prim: &mut Prim, near: &str) -> VarId {
    typed_var(prim, near, DType::I64)
}

fn typed_var(prim: &mut Prim, near: &str, dtype: DType) -> VarId {
    let name = fresh(prim, near);
    prim.vars.push(Var { name, dtype });
    VarId(prim.vars.len() as u32 - 1)
}

pub(crate) fn new_buf(prim: &mut Prim, near: &str, dtype: DType, shape: Vec<Dim>) -> BufId {
    let name = fresh(prim, near);
    prim.bufs.push(Buf { name, dtype, shape, local: true });
    BufId(prim.bufs.len() as u32 - 1)
}

/// The primitive with a variable of its own for each loop and reduction.
pub fn distinct(prim: &Prim) -> Prim {
    let mut prim = prim.clone();
    let mut body = std::mem::take(&mut prim.body);
    let mut seen = BTreeSet::new();
    own(&mut prim, &mut body, &mut seen);
    prim.body = body;
    prim
}

fn own(prim: &mut Prim, stmts: &mut [Stmt], seen: &mut BTreeSet<VarId>) {
    for s in stmts {
        scalars_mut(s).into_iter().for_each(|e| own_scalar(prim, e, seen));
        if let Stmt::For { var, body, .. } = s
            && !seen.insert(*var)
        {
            let new = copy_of(prim, *var);
            seen.insert(new);
            let with = crate::arith::var(prim, new);
            edit_vars(prim, body, *var, &with);
            *var = new;
        }
        blocks_mut(s).into_iter().for_each(|b| own(prim, b, seen));
    }
}

fn own_scalar(prim: &mut Prim, e: &mut Scalar, seen: &mut BTreeSet<VarId>) {
    if let ScalarKind::Reduce { var, body, .. } = &mut e.kind
        && !seen.insert(*var)
    {
        let new = copy_of(prim, *var);
        seen.insert(new);
        let with = crate::arith::var(prim, new);
        replace(prim, body, *var, &with);
        *var = new;
    }
    parts_mut(e).into_iter().for_each(|p| own_scalar(prim, p, seen));
}

fn copy_of(prim: &mut Prim, v: VarId) -> VarId {
    let Var { name, dtype } = prim.var(v).clone();
    typed_var(prim, name.name(), dtype)
}

fn edit_vars(prim: &Prim, stmts: &mut [Stmt], v: VarId, with: &Scalar) {
    for s in stmts {
        scalars_mut(s).into_iter().for_each(|e| replace(prim, e, v, with));
        blocks_mut(s).into_iter().for_each(|b| edit_vars(prim, b, v, with));
    }
}

/// A copy of statements that shares no variable or local buffer with them that is theirs alone. `elsewhere` is the rest
/// of the primitive.
pub(crate) fn copy(prim: &mut Prim, stmts: &[Stmt], elsewhere: &BTreeSet<VarId>) -> Vec<Stmt> {
    let mut made = stmts.to_vec();
    let (mut vars, mut bufs) = (BTreeMap::new(), BTreeMap::new());
    let mut bound: Vec<VarId> = Vec::new();
    let mut allocated: Vec<BufId> = Vec::new();
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| match s {
            Stmt::For { var, .. } => bound.push(*var),
            Stmt::Set(v, _) if !elsewhere.contains(v) => bound.push(*v),
            Stmt::Alloc(b) => allocated.push(*b),
            Stmt::Set(..) | Stmt::While(..) | Stmt::If(..) | Stmt::Store { .. } => {}
        });
    });
    each_scalar(stmts, &mut |e| {
        if let ScalarKind::Reduce { var, .. } = &e.kind {
            bound.push(*var);
        }
    });
    for v in bound {
        vars.entry(v).or_insert_with(|| copy_of(prim, v));
    }
    for b in allocated {
        let Buf { name, dtype, shape, .. } = prim.buf(b).clone();
        let new = new_buf(prim, name.name(), dtype, shape);
        bufs.insert(b, new);
    }
    let to = |v: &mut VarId| *v = vars.get(v).copied().unwrap_or(*v);
    let buf = |b: &mut BufId| *b = bufs.get(b).copied().unwrap_or(*b);
    let names: BTreeMap<Sym, Sym> =
        vars.iter().map(|(a, b)| (prim.var(*a).name, prim.var(*b).name)).collect();
    each_mut(&mut made, &mut |s| match s {
        Stmt::For { var, .. } => to(var),
        Stmt::Set(v, _) => to(v),
        Stmt::Alloc(b) | Stmt::Store { buf: b, .. } => buf(b),
        Stmt::While(..) | Stmt::If(..) => {}
    });
    edit(&mut made, &mut |e| match &mut e.kind {
        ScalarKind::Var(v) | ScalarKind::Reduce { var: v, .. } => to(v),
        ScalarKind::Load { buf: b, .. } => buf(b),
        ScalarKind::Dim(d) => *d = d.subst(&|s| names.get(&s).map(|s| Dim::sym(*s))),
        ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Choose(_) | ScalarKind::Cast(_) => {}
    });
    made
}

/// Variables that statements read, set or bind.
pub(crate) fn vars_of(stmts: &[Stmt]) -> BTreeSet<VarId> {
    let mut found = ir::depend::set_in(stmts);
    each_scalar(stmts, &mut |e| {
        if let ScalarKind::Var(v) = e.kind {
            found.insert(v);
        }
    });
    found
}

/// True if an expression speaks of a variable.
pub(crate) fn speaks(prim: &Prim, e: &Scalar, v: VarId) -> bool {
    let name = prim.var(v).name;
    let mut found = false;
    e.walk(&mut |e| match &e.kind {
        ScalarKind::Var(x) => found |= *x == v,
        ScalarKind::Dim(d) => found |= d.syms().contains(&name),
        _ => {}
    });
    found
}

/// True if statements change nothing that the expression reads.
pub(crate) fn steady(e: &Scalar, stmts: &[Stmt]) -> bool {
    let (set, stored) = (ir::depend::set_in(stmts), ir::depend::stored_in(stmts));
    let mut ok = true;
    e.walk(&mut |e| match &e.kind {
        ScalarKind::Var(v) => ok &= !set.contains(v),
        ScalarKind::Load { buf, .. } => ok &= !stored.contains(buf),
        _ => {}
    });
    ok
}

pub(crate) fn name(prim: &Prim, v: VarId) -> String {
    prim.vars.get(v.0 as usize).map_or_else(|| format!("variable {}", v.0), |v| v.name.name().to_owned())
}

/// Tells a loop or reduction how to run.
pub(crate) fn set_run(
    step: &'static str,
    prim: &Prim,
    at: VarId,
    how: &Run,
    order: Order,
) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: step, at: &label };
    let done = at_loop(prim, at, &mut |_, _, mut s| {
        if let Stmt::For { run, .. } = &mut s {
            *run = how.clone();
        }
        Ok(vec![s])
    })?;
    let done = match done {
        Some(prim) => Some(prim),
        None => at_sum(prim, at, &mut |_, _, e| {
            if e.dtype.is_float() && order == Order::Kept {
                match how {
                    Run::Lanes { .. } => return step.no("lanes add floats in another order"),
                    Run::Rows(_) => return step.no("several sums add floats in another order"),
                    Run::Plain | Run::Unrolled | Run::Stream { .. } | Run::Ahead(_) | Run::Dot => {}
                }
            }
            if let ScalarKind::Reduce { run, .. } = &mut e.kind {
                *run = how.clone();
            }
            Ok(())
        })?,
    };
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}
