//! Producers of local buffers (`compute_at`, `inline`): computed where they are read.

use ir::depend::{enter, set_in, stored_in};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use tensor::DType;

use crate::arith::minus;
use crate::nest::copy_sum;
use crate::stage::{load, over, part_of, store};
use crate::tree::{at_loop, each_scalar, edit, name, new_buf, replace};
use crate::{Refusal, Step};

/// The loops that fill a local buffer: each element from its index.
struct Producer {
    /// The loops' variables, one an axis.
    index: Vec<VarId>,
    value: Scalar,
}

/// The producer that a statement is.
fn producer(prim: &Prim, s: &Stmt, buf: BufId) -> Option<Producer> {
    let (mut index, mut at) = (Vec::new(), s);
    loop {
        match at {
            Stmt::For { var, lo, hi, body, .. } => {
                let extent = prim.buf(buf).shape.get(index.len())?;
                let whole = prim.as_dim(lo)? == Dim::int(0) && prim.as_dim(hi)? == *extent;
                let [inner] = &body[..] else { return None };
                if !whole {
                    return None;
                }
                index.push(*var);
                at = inner;
            }
            Stmt::Store { buf: b, index: to, combine: None, value, .. } if *b == buf => {
                let same = to.len() == index.len()
                    && to.iter().zip(&index).all(|(i, v)| matches!(i.kind, ScalarKind::Var(x) if x == *v));
                return same.then(|| Producer { index, value: value.clone() });
            }
            _ => return None,
        }
    }
}

/// Takes the producer of a local buffer, and the buffer, out of the primitive, if what it computes is the same wherever
/// the buffer is read.
fn take(prim: &mut Prim, buf: BufId, step: &Step<'_>) -> Result<Producer, Refusal> {
    if !prim.buf(buf).local {
        return step.no("it is no local buffer");
    }
    let mut body = std::mem::take(&mut prim.body);
    let found = take_from(prim, &mut body, buf, step)?;
    prim.body = body;
    let found = found
        .ok_or_else(|| step.refuse("it is not filled by one nest of loops, each element from its index"))?;
    if stored_in(&prim.body).contains(&buf) {
        return step.no("it is written in more than one place");
    }
    Ok(found)
}

fn take_from(
    prim: &Prim,
    stmts: &mut Vec<Stmt>,
    buf: BufId,
    step: &Step<'_>,
) -> Result<Option<Producer>, Refusal> {
    let at = stmts.iter().enumerate().find_map(|(i, s)| producer(prim, s, buf).map(|p| (i, p)));
    if let Some((i, p)) = at {
        let Some(made) = stmts[..i].iter().position(|s| matches!(s, Stmt::Alloc(b) if *b == buf)) else {
            return Ok(None);
        };
        let (before, after) = (&stmts[made + 1..i], &stmts[i + 1..]);
        if reads(before, buf) > 0 || reads(after, buf) != reads(&[&stmts[..i], after].concat(), buf) {
            return step.no("it is read before it is filled");
        }
        let (stored, set) = (stored_in(after), set_in(after));
        let mut why = None;
        p.value.walk(&mut |e| match &e.kind {
            ScalarKind::Load { checked: true, .. } => why = Some("what fills it may fail".to_owned()),
            ScalarKind::Load { buf: b, .. } if *b == buf => why = Some("it is filled from itself".to_owned()),
            ScalarKind::Load { buf: b, .. } if stored.contains(b) => {
                why = Some(format!("`{}`, which fills it, is written before it is read", prim.buf(*b).name));
            }
            ScalarKind::Var(v) if set.contains(v) => {
                why = Some(format!("`{}`, which fills it, changes before it is read", prim.var(*v).name));
            }
            _ => {}
        });
        if let Some(why) = why {
            return step.no(why);
        }
        stmts.remove(i);
        stmts.remove(made);
        return Ok(Some(p));
    }
    for s in stmts {
        let found = match s {
            Stmt::For { body, .. } | Stmt::While(_, body) => take_from(prim, body, buf, step)?,
            Stmt::If(_, a, b) => match take_from(prim, a, buf, step)? {
                None => take_from(prim, b, buf, step)?,
                found => found,
            },
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => None,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn reads(stmts: &[Stmt], buf: BufId) -> usize {
    let mut n = 0;
    each_scalar(stmts, &mut |e| {
        n += usize::from(matches!(&e.kind, ScalarKind::Load { buf: b, .. } if *b == buf));
    });
    n
}

/// True if a value is what storing it would leave.
fn rounded(e: &Scalar) -> bool {
    match &e.kind {
        ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } | ScalarKind::Cast(_) => true,
        ScalarKind::Choose(parts) => parts[1..].iter().all(rounded),
        ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Reduce { .. } => {
            !e.dtype.is_float() || e.dtype == DType::F64
        }
    }
}

/// Computes the elements of a local buffer where they are read, instead of before.
pub fn inline(prim: &Prim, buf: BufId) -> Result<Prim, Refusal> {
    let label = prim.buf(buf).name;
    let step = Step { name: "inline", at: label.name() };
    let mut prim = crate::tree::distinct(prim);
    let p = take(&mut prim, buf, &step)?;
    let mut body = std::mem::take(&mut prim.body);
    let mut unsure = false;
    edit(&mut body, &mut |e| {
        let ScalarKind::Load { buf: b, index, checked, .. } = &e.kind else { return };
        if *b != buf {
            return;
        }
        unsure |= *checked;
        let mut value = copy_sum(&mut prim, &p.value);
        for (v, i) in p.index.iter().zip(index) {
            replace(&prim, &mut value, *v, i);
        }
        *e = if rounded(&value) {
            value
        } else {
            let dtype = value.dtype;
            Scalar { kind: ScalarKind::Cast(Box::new(value)), dtype }
        };
    });
    if unsure {
        return step.no("it is read where it may be out of bounds");
    }
    prim.body = body;
    step.finish(without(prim, buf))
}

/// Computes a local buffer in each round of loop `at`, only the part that the round reads.
pub fn compute_at(prim: &Prim, buf: BufId, at: VarId) -> Result<Prim, Refusal> {
    let label = prim.buf(buf).name;
    let step = Step { name: "compute_at", at: label.name() };
    let mut prim = crate::tree::distinct(prim);
    let p = take(&mut prim, buf, &step)?;
    let all = reads(&prim.body, buf);
    let target = name(&prim, at);
    let done = at_loop(&prim, at, &mut |prim, facts, mut s| {
        let Stmt::For { var, lo, hi, body, .. } = &mut s else { return Ok(vec![s]) };
        if reads(body, buf) != all {
            return step.no(format!("it is read outside of `{target}` too"));
        }
        let facts = enter(prim, facts, *var, lo, hi);
        let region = part_of(prim, body, buf, &facts, &step)?;
        let (shape, dtype) = (region.iter().map(|r| r.1.clone()).collect(), prim.buf(buf).dtype);
        let part = new_buf(prim, &format!("{label}_part"), dtype, shape);
        let at = |prim: &Prim, index: &[Scalar]| -> Vec<Scalar> {
            index.iter().zip(&region).map(|(i, r)| minus(prim, i, &r.0.0)).collect()
        };
        let fill = over(prim, &region, label.name(), &mut |prim, index| {
            let mut value = p.value.clone();
            for (v, i) in p.index.iter().zip(index) {
                replace(prim, &mut value, *v, i);
            }
            store(part, at(prim, index), value)
        });
        edit(body, &mut |e| {
            if let ScalarKind::Load { buf: b, index, .. } = &e.kind
                && *b == buf
            {
                *e = load(prim, part, at(prim, index));
            }
        });
        body.splice(0..0, [Stmt::Alloc(part), fill]);
        Ok(vec![s])
    })?;
    let done = done.ok_or_else(|| step.refuse(format!("there is no loop `{target}` behind it")))?;
    step.finish(without(done, buf))
}

/// The primitive without a buffer that nothing names.
fn without(mut prim: Prim, buf: BufId) -> Prim {
    let down = |b: &mut BufId| b.0 -= u32::from(b.0 > buf.0);
    prim.bufs.remove(buf.0 as usize);
    prim.params.iter_mut().chain(&mut prim.outs).for_each(down);
    let mut body = std::mem::take(&mut prim.body);
    crate::tree::each_mut(&mut body, &mut |s| {
        if let Stmt::Alloc(b) | Stmt::Store { buf: b, .. } = s {
            down(b);
        }
    });
    edit(&mut body, &mut |e| {
        if let ScalarKind::Load { buf: b, .. } = &mut e.kind {
            down(b);
        }
    });
    prim.body = body;
    prim
}
