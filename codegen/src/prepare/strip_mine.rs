//! Strip-mining: a loop or reduction whose variable is divided by a constant becomes two, over blocks and within one.
//!
//! In: a primitive in which every loop has a variable of its own. Out: one of the same meaning, in which what is read
//! by blocks (weights with a scale for 32 of them) is read at places that move evenly with a loop: `w[q / 32]`,
//! `w[q % 32]` become `w[b]`, `w[t]`.

use ir::loops::{Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::DType;

/// The largest block.
const LARGEST: i64 = 1 << 12;
/// So few blocks are written out.
const UNROLLED: i64 = 4;

pub(crate) fn strip_mine(prim: &mut Prim) {
    let mut body = std::mem::take(&mut prim.body);
    body.iter_mut().for_each(|s| split_loops(prim, s, true));
    body.iter_mut().for_each(|s| {
        s.walk_mut(&mut |s| {
            for e in s.scalars_mut() {
                e.walk_mut(&mut |e| split(prim, e));
            }
        });
    });
    prim.body = body;
}

/// Loops within the outermost, which may be the kernel's grid.
fn split_loops(prim: &mut Prim, s: &mut Stmt, outermost: bool) {
    if let Stmt::For { var, lo, hi, mark, run: Run::Plain, body } = s
        && !outermost
    {
        let mut parts: Vec<&mut Scalar> = Vec::new();
        for s in body.iter_mut() {
            scalars_of(s, &mut parts);
        }
        if let Some(two) = Split::new(prim, *var, lo, hi, &mut parts) {
            let inner = Stmt::For {
                var: two.within,
                lo: Scalar::int(0),
                hi: Scalar::int(two.size),
                mark: *mark,
                run: Run::Plain,
                body: std::mem::take(body),
            };
            let (blocks, count) = (two.block, Scalar::dim(two.count));
            (*var, *lo, *hi, *body) = (blocks, Scalar::int(0), count, vec![inner]);
        }
    }
    match s {
        Stmt::For { body, .. } | Stmt::While(_, body) => {
            body.iter_mut().for_each(|s| split_loops(prim, s, false));
        }
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| split_loops(prim, s, false)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

fn scalars_of<'s>(s: &'s mut Stmt, list: &mut Vec<&'s mut Scalar>) {
    match s {
        Stmt::For { lo, hi, body, .. } => {
            list.extend([lo, hi]);
            body.iter_mut().for_each(|s| scalars_of(s, list));
        }
        Stmt::While(c, body) => {
            list.push(c);
            body.iter_mut().for_each(|s| scalars_of(s, list));
        }
        Stmt::If(c, a, b) => {
            list.push(c);
            a.iter_mut().chain(b).for_each(|s| scalars_of(s, list));
        }
        Stmt::Set(_, e) => list.push(e),
        Stmt::Alloc(_) => {}
        Stmt::Store { index, value, .. } => {
            list.extend(index);
            list.push(value);
        }
    }
}

fn split(prim: &mut Prim, s: &mut Scalar) {
    let dtype = s.dtype;
    let ScalarKind::Reduce { combine, run: run @ Run::Plain, var, lo, hi, body } = &mut s.kind else {
        return;
    };
    let Some(two) = Split::new(prim, *var, lo, hi, &mut [body]) else { return };
    let zero = || Box::new(Scalar::int(0));
    let value = Box::new(std::mem::replace(&mut **body, Scalar::int(0)));
    let size = Box::new(Scalar::int(two.size));
    let inner = ScalarKind::Reduce {
        combine: *combine,
        run: Run::Plain,
        var: two.within,
        lo: zero(),
        hi: size,
        body: value,
    };
    if two.count.as_int().is_some_and(|n| n <= UNROLLED) {
        *run = Run::Unrolled;
    }
    (*var, *lo, *hi) = (two.block, zero(), Box::new(Scalar::dim(two.count)));
    **body = Scalar { kind: inner, dtype };
}

/// A variable in two: which block, and where in it.
struct Split {
    block: VarId,
    within: VarId,
    size: i64,
    count: Dim,
}

impl Split {
    /// Takes a variable apart in everything that speaks of it, if that rids it of a division.
    fn new(
        prim: &mut Prim,
        var: VarId,
        lo: &Scalar,
        hi: &Scalar,
        parts: &mut [&mut Scalar],
    ) -> Option<Split> {
        let name = prim.var(var).name;
        let hi = prim.as_dim(hi).filter(|_| prim.as_dim(lo) == Some(Dim::int(0)))?;
        let mut sizes: Vec<i64> = Vec::new();
        for e in parts.iter() {
            e.walk(&mut |e| {
                if e.dtype == DType::I64
                    && let Some(d) = prim.as_dim(e).filter(|d| d.syms().contains(&name))
                {
                    sizes.extend(d.block_sizes());
                }
            });
        }
        let whole = |size: i64| {
            let count = hi.floor_div(&Dim::int(size));
            (&count * size == hi).then_some(count)
        };
        let fits = sizes.into_iter().filter(|s| (2..=LARGEST).contains(s) && whole(*s).is_some());
        let size = fits.max()?;
        let count = whole(size)?;
        if count.as_int().is_some_and(|n| n < 2) {
            return None;
        }
        let vars = prim.vars.len();
        let [block, within] = ["b", "t"].map(|part| {
            let id = VarId(prim.vars.len() as u32);
            let name = Sym::new(&format!("{name}.{part}{}", id.0));
            prim.vars.push(Var { name, dtype: DType::I64 });
            id
        });
        let [b, t] = [block, within].map(|v| Dim::sym(prim.var(v).name));
        let mut facts: Facts = prim.facts.clone();
        for fact in [
            Pred::Le(Dim::int(0), t.clone()),
            Pred::Lt(t.clone(), Dim::int(size)),
            Pred::Le(Dim::int(0), b.clone()),
            Pred::Lt(b.clone(), count.clone()),
        ] {
            facts.assume(fact);
        }
        let value = &(&b * size) + &t;
        let mut made: Vec<Scalar> = parts.iter().map(|e| (**e).clone()).collect();
        let mut fits = true;
        for e in &mut made {
            e.walk_mut(&mut |e| {
                if e.dtype == DType::I64
                    && let Some(d) = prim.as_dim(e).filter(|d| d.syms().contains(&name))
                {
                    let d = facts.simplify(&d.subst(&|s| (s == name).then(|| value.clone())));
                    fits &= !d.is_poison() && !d.block_sizes().contains(&size);
                    *e = Scalar::dim(d);
                }
            });
            // What is no dim may still speak of it.
            e.walk(&mut |e| {
                fits &= match &e.kind {
                    ScalarKind::Var(v) => *v != var,
                    ScalarKind::Dim(d) => !d.syms().contains(&name),
                    ScalarKind::Const(_)
                    | ScalarKind::Load { .. }
                    | ScalarKind::Op(..)
                    | ScalarKind::Choose(_)
                    | ScalarKind::Cast(_)
                    | ScalarKind::Reduce { .. } => true,
                }
            });
        }
        if !fits {
            prim.vars.truncate(vars);
            return None;
        }
        parts.iter_mut().zip(made).for_each(|(e, new)| **e = new);
        Some(Split { block, within, size, count })
    }
}
