//! Reductions in variables: loops that add to scalars, as sums.
//!
//! In: `var s = 0.0  for j in n { if c[j] { s += x[j] } }`. Out: `s = sum(j in n) if c[j] { x[j] } else { 0.0 }`, which
//! lanes and chunks can share. It is done where a loop does nothing else: each of its statements adds to a variable, in
//! one way, what speaks of none of these variables, or names what the others speak of.

use ir::loops::{Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use std::collections::BTreeMap;

use super::{distinct, may_fail};
use crate::schedule::is_heavy;

/// Makes sums of such loops.
pub(crate) fn reductions_in_variables(prim: &mut Prim) {
    let mut body = std::mem::take(&mut prim.body);
    let mut mentions = BTreeMap::new();
    count(prim, &body, &mut mentions);
    block(prim, &mentions, &mut body);
    prim.body = body;
    // The sums that one loop becomes are each scheduled by themselves.
    distinct(prim);
}

/// Rounds that are not worth a sum.
const FEW: i64 = 16;

/// How often each variable is spoken of or set.
type Mentions = BTreeMap<VarId, usize>;

/// What is added to a variable, and how.
type Accumulation = (VarId, Combine, Scalar);

fn count(prim: &Prim, stmts: &[Stmt], mentions: &mut Mentions) {
    let mut visit = |s: &Stmt| {
        if let Stmt::Set(v, _) = s {
            *mentions.entry(*v).or_default() += 1;
        }
        for e in s.scalars() {
            e.walk(&mut |e| match &e.kind {
                ScalarKind::Var(v) => *mentions.entry(*v).or_default() += 1,
                ScalarKind::Dim(d) => {
                    let syms = d.syms();
                    let with_names = (0..prim.vars.len()).filter(|&i| syms.contains(&prim.vars[i].name));
                    with_names.for_each(|i| *mentions.entry(VarId(i as u32)).or_default() += 1);
                }
                ScalarKind::Const(_)
                | ScalarKind::Load { .. }
                | ScalarKind::Op(..)
                | ScalarKind::Choose(_)
                | ScalarKind::Cast(_)
                | ScalarKind::Reduce { .. } => {}
            });
        }
    };
    stmts.iter().for_each(|s| s.walk(&mut |s| visit(s)));
}

fn block(prim: &Prim, mentions: &Mentions, stmts: &mut Vec<Stmt>) {
    for mut s in std::mem::take(stmts) {
        match &mut s {
            Stmt::For { body, .. } | Stmt::While(_, body) => block(prim, mentions, body),
            Stmt::If(_, a, b) => {
                block(prim, mentions, a);
                block(prim, mentions, b);
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        match sums(prim, mentions, &s) {
            Some(sets) => sets.into_iter().for_each(|set| push_sum(stmts, set)),
            None => stmts.push(s),
        }
    }
}

/// Adds a total to a block: what it is added to is left out where that is nothing.
fn push_sum(stmts: &mut Vec<Stmt>, (var, combine, total): Accumulation) {
    let nothing = combine.identity(total.dtype);
    let is_nothing = |e: &Scalar| matches!(&e.kind, ScalarKind::Const(c) if *c == nothing);
    let speaks = |s: &Stmt| {
        let mut found = matches!(s, Stmt::Set(v, _) if *v == var);
        s.scalars().into_iter().for_each(|e| e.walk(&mut |e| found |= e.as_var() == Some(var)));
        found
    };
    let straight = stmts.iter().rev().take_while(|s| matches!(s, Stmt::Set(..)));
    let first = straight.enumerate().find(|(_, s)| speaks(s)).map(|(back, _)| stmts.len() - 1 - back);
    if let Some(first) = first
        && matches!(&stmts[first], Stmt::Set(v, e) if *v == var && is_nothing(e))
    {
        stmts.remove(first);
        stmts.push(Stmt::Set(var, total));
        return;
    }
    let dtype = total.dtype;
    let old = Scalar { kind: ScalarKind::Var(var), dtype };
    let new = Scalar { kind: ScalarKind::Op(combine.intrinsic(), vec![old, total]), dtype };
    stmts.push(Stmt::Set(var, new));
}

/// What a loop adds in all, if that is all it does.
fn sums(prim: &Prim, mentions: &Mentions, s: &Stmt) -> Option<Vec<Accumulation>> {
    let Stmt::For { var, lo, hi, run: Run::Plain, body, .. } = s else { return None };
    // A few rounds are better where they stand.
    if prim.constant_trip_count(lo, hi).is_some_and(|n| n <= FEW) {
        return None;
    }
    let accumulations = accumulations(prim, mentions, s, body)?;
    let vars: Vec<VarId> = accumulations.iter().map(|accumulation| accumulation.0).collect();
    let free = |e: &Scalar| !prim.mentions(e, &vars);
    // Of accesses that fail the first is said: those of one sum come in its order.
    let quiet = vars.len() == 1 || accumulations.iter().all(|accumulation| !may_fail(&accumulation.2));
    let fits = quiet
        && !vars.is_empty()
        && accumulations.iter().map(|accumulation| &accumulation.2).chain([lo, hi]).all(free);
    fits.then(|| {
        let total = |(v, combine, body): Accumulation| {
            let (dtype, lo, hi) = (body.dtype, Box::new(lo.clone()), Box::new(hi.clone()));
            let kind =
                ScalarKind::Reduce { combine, run: Run::Plain, var: *var, lo, hi, body: Box::new(body) };
            (v, combine, Scalar { kind, dtype })
        };
        accumulations.into_iter().map(total).collect()
    })
}

/// The accumulations of the body of a loop.
fn accumulations(prim: &Prim, mentions: &Mentions, whole: &Stmt, body: &[Stmt]) -> Option<Vec<Accumulation>> {
    let mut inside = Mentions::new();
    count(prim, std::slice::from_ref(whole), &mut inside);
    let mut accumulations: Vec<Accumulation> = Vec::new();
    let mut names: BTreeMap<VarId, Scalar> = BTreeMap::new();
    let mut add = |(var, combine, e): Accumulation| {
        let dtype = prim.var(var).dtype;
        // A half is rounded at each accumulation, in a sum at the end.
        let is_float = dtype.is_float();
        // What has become nothing stays so, whatever the other factors are.
        let product = is_float && combine == Combine::Mul;
        let fits = e.dtype == dtype && !product && !(is_float && dtype.size() < 4);
        match accumulations.iter_mut().find(|s| s.0 == var) {
            _ if !fits => return None,
            Some((_, before, all)) if *before == combine => {
                let both = vec![all.clone(), e];
                *all = Scalar { kind: ScalarKind::Op(combine.intrinsic(), both), dtype };
            }
            Some(_) => return None,
            None => accumulations.push((var, combine, e)),
        }
        Some(())
    };
    for s in body {
        match s {
            Stmt::Set(v, value) => {
                let value = with_names(value, &names);
                match accumulation(*v, &value) {
                    Some(accumulation) => add(accumulation)?,
                    // What only this loop speaks of is a name.
                    // Where it is not spoken of, what may fail in it would not.
                    None if inside.get(v) == mentions.get(v)
                        && !prim.mentions(&value, &[*v])
                        && !may_fail(&value) =>
                    {
                        names.insert(*v, value);
                    }
                    None => return None,
                }
            }
            Stmt::If(c, taken, other) if other.is_empty() => {
                let c = with_names(c, &names);
                for s in taken {
                    let Stmt::Set(v, value) = s else { return None };
                    let (v, combine, e) = accumulation(*v, &with_names(value, &names))?;
                    let none = Scalar::constant(combine.identity(e.dtype), e.dtype);
                    add((v, combine, Scalar::choose(c.clone(), e, none)))?;
                }
            }
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {
                return None;
            }
        }
    }
    // A name is not what was added up, nor is one given anew.
    let steps_differ = names.keys().all(|v| !accumulations.iter().any(|s| s.0 == *v));
    // Each sum would compute again what is much work.
    let shared = accumulations.len() > 1 && accumulations.iter().any(|s| is_much(&s.2));
    (steps_differ && !shared).then_some(accumulations)
}

/// An expression with what names stand for.
fn with_names(e: &Scalar, names: &BTreeMap<VarId, Scalar>) -> Scalar {
    let mut e = e.clone();
    e.walk_mut(&mut |e| {
        if let Some(value) = e.as_var().and_then(|v| names.get(&v)) {
            *e = value.clone();
        }
    });
    e
}

/// What an assignment adds to its variable.
fn accumulation(var: VarId, value: &Scalar) -> Option<Accumulation> {
    let is_var = |e: &Scalar| e.as_var() == Some(var);
    match &value.kind {
        ScalarKind::Op(Intrinsic::Sub, args) if let [a, b] = args.as_slice() => {
            let less = Scalar { kind: ScalarKind::Op(Intrinsic::Neg, vec![b.clone()]), dtype: b.dtype };
            is_var(a).then_some((var, Combine::Add, less))
        }
        ScalarKind::Op(op, args) => {
            let combine = Combine::TABLE.iter().find(|row| row.3 == *op)?.0;
            let [a, b] = args.as_slice() else { return None };
            let other = if is_var(a) { b } else { Some(a).filter(|_| is_var(b))? };
            Some((var, combine, other.clone()))
        }
        ScalarKind::Choose(parts) => {
            let [c, yes, no] = &**parts;
            let none = |combine: Combine, e: &Scalar| Scalar::constant(combine.identity(e.dtype), e.dtype);
            if is_var(no) {
                let (var, combine, e) = accumulation(var, yes)?;
                let none = none(combine, &e);
                return Some((var, combine, Scalar::choose(c.clone(), e, none)));
            }
            let (var, combine, e) = accumulation(var, no).filter(|_| is_var(yes))?;
            let none = none(combine, &e);
            Some((var, combine, Scalar::choose(c.clone(), none, e)))
        }
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Cast(_)
        | ScalarKind::Reduce { .. } => None,
    }
}

/// Whether an expression is not worth computing again.
fn is_much(e: &Scalar) -> bool {
    use Intrinsic::{Div, Rem, Rsqrt, Sqrt};
    let mut much = false;
    e.walk(&mut |e| {
        much |=
            matches!(e.kind, ScalarKind::Op(op, _) if is_heavy(op) || matches!(op, Div | Rem | Rsqrt | Sqrt));
    });
    much
}
