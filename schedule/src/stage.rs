//! Staging (`cache_read`, `cache_write`): local copies of the part of a buffer that a round of a loop touches.

use ir::Intrinsic;
use ir::depend::{Interval, enter, set_in, stored_in, touched};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use shape::{Expr as Dim, Facts};

use crate::arith::{extent, minus, op, proves, scalar, var};
use crate::nest::plain;
use crate::tree::{at_loop, each_mut, each_scalar, edit, name, new_buf, new_var};
use crate::{Refusal, Step};

/// An axis of a packed copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// An axis of the buffer.
    Whole(usize),
    /// Which tile of so many along an axis.
    Tiles(usize, i64),
    /// Which place in its tile.
    Within(usize, i64),
}

/// The part of a buffer that statements touch: an interval an axis, and an extent over dims that it does not exceed.
/// The facts are those around the statements.
pub(crate) fn part_of(
    prim: &Prim,
    stmts: &[Stmt],
    buf: BufId,
    facts: &Facts,
    step: &Step<'_>,
) -> Result<Vec<(Interval, Dim)>, Refusal> {
    let label = prim.buf(buf).name;
    let regions = touched(prim, stmts, buf, facts);
    if regions.is_empty() {
        return step.no(format!("nothing in the loop touches `{label}`"));
    }
    let set: Vec<_> = set_in(stmts).into_iter().map(|v| prim.var(v).name).collect();
    let mut axes = Vec::new();
    for axis in 0..prim.buf(buf).shape.len() {
        let unknown =
            || step.refuse(format!("which part of axis {axis} of `{label}` is touched is not known"));
        let steady = |i: &&Interval| [&i.0, &i.1].iter().all(|d| !d.syms().iter().any(|s| set.contains(s)));
        let all: Option<Vec<&Interval>> = regions.iter().map(|r| r[axis].as_ref().filter(steady)).collect();
        let all = all.ok_or_else(unknown)?;
        let first = |a: &&&Interval| all.iter().all(|b| proves(facts, &a.0, &b.0));
        let last = |a: &&&Interval| all.iter().all(|b| proves(facts, &b.1, &a.1));
        let (Some(lo), Some(hi)) = (all.iter().find(first), all.iter().find(last)) else {
            return Err(unknown());
        };
        let (lo, hi) = (lo.0.clone(), hi.1.clone());
        let within = proves(facts, &Dim::int(0), &lo) && proves(facts, &hi, &prim.buf(buf).shape[axis]);
        if !within {
            return step
                .no(format!("axis {axis} of `{label}` may be touched out of bounds, from {lo} to {hi}"));
        }
        let extent = extent(prim, facts, &lo, &hi).ok_or_else(|| {
            step.refuse(format!("how much of axis {axis} of `{label}` is touched has no bound"))
        })?;
        axes.push(((lo, hi), extent));
    }
    Ok(axes)
}

/// Where an element of the part lies in the copy.
fn packed(prim: &Prim, index: &[Scalar], region: &[(Interval, Dim)], parts: &[Part]) -> Vec<Scalar> {
    let at = |axis: usize| minus(prim, &index[axis], &region[axis].0.0);
    let is_one = |axis: usize, size: i64| region[axis].1.as_int().is_some_and(|n| n <= size);
    parts
        .iter()
        .map(|p| match *p {
            Part::Whole(axis) => at(axis),
            // All of it lies in the first tile.
            Part::Tiles(axis, size) if is_one(axis, size) => Scalar::int(0),
            Part::Within(axis, size) if is_one(axis, size) => at(axis),
            Part::Tiles(axis, size) => op(Intrinsic::Div, at(axis), Scalar::int(size)),
            Part::Within(axis, size) => op(Intrinsic::Rem, at(axis), Scalar::int(size)),
        })
        .collect()
}

pub(crate) fn load(prim: &Prim, buf: BufId, index: Vec<Scalar>) -> Scalar {
    let kind = ScalarKind::Load { buf, index, checked: false, span: Span::default() };
    Scalar { kind, dtype: prim.buf(buf).dtype }
}

pub(crate) fn store(buf: BufId, index: Vec<Scalar>, value: Scalar) -> Stmt {
    Stmt::Store { buf, index, checked: false, combine: None, value, span: Span::default() }
}

/// Loops over a region around what `body` makes of their variables.
pub(crate) fn over(
    prim: &mut Prim,
    region: &[(Interval, Dim)],
    near: &str,
    body: &mut dyn FnMut(&mut Prim, &[Scalar]) -> Stmt,
) -> Stmt {
    let vars: Vec<VarId> = (0..region.len()).map(|k| new_var(prim, &format!("{near}_{k}"))).collect();
    let index: Vec<Scalar> = vars.iter().map(|v| var(prim, *v)).collect();
    let mut made = body(prim, &index);
    for (v, ((lo, hi), _)) in vars.iter().zip(region).rev() {
        made = plain(*v, scalar(prim, lo), scalar(prim, hi), vec![made]);
    }
    made
}

/// What a round of loop `at` reads of a buffer is copied before, and read from the copy.
pub fn cache_read(prim: &Prim, buf: BufId, at: VarId) -> Result<Prim, Refusal> {
    let parts: Vec<Part> = (0..prim.buf(buf).shape.len()).map(Part::Whole).collect();
    pack_as("cache_read", prim, buf, at, &parts)
}

/// The same with axes of the copy's own: panels are `[Tiles(1, 16), Whole(0), Within(1, 16)]`.
pub fn pack(prim: &Prim, buf: BufId, at: VarId, parts: &[Part]) -> Result<Prim, Refusal> {
    pack_as("pack", prim, buf, at, parts)
}

fn pack_as(step: &'static str, prim: &Prim, buf: BufId, at: VarId, parts: &[Part]) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: step, at: &label };
    if !is_layout(parts, prim.buf(buf).shape.len()) {
        return step.no("the copy has each axis once, whole or as its tiles and the places in them");
    }
    let done = at_loop(prim, at, &mut |prim, facts, mut s| {
        let Stmt::For { var, lo, hi, body, .. } = &mut s else { return Ok(vec![s]) };
        let facts = enter(prim, facts, *var, lo, hi);
        let label = prim.buf(buf).name;
        if stored_in(body).contains(&buf) || made_in(body, buf) {
            return step.no(format!("`{label}` is written in the loop, and a copy would be stale"));
        }
        let region = part_of(prim, body, buf, &facts, &step)?;
        let shape = parts.iter().map(|p| match *p {
            Part::Whole(axis) => region[axis].1.clone(),
            Part::Tiles(axis, size) => region[axis].1.ceil_div(&Dim::int(size)),
            Part::Within(_, size) => Dim::int(size),
        });
        let (shape, dtype) = (shape.collect(), prim.buf(buf).dtype);
        let copy = new_buf(prim, &format!("{label}_part"), dtype, shape);
        let fill = over(prim, &region, label.name(), &mut |prim, index| {
            store(copy, packed(prim, index, &region, parts), load(prim, buf, index.to_vec()))
        });
        edit(body, &mut |e| {
            if let ScalarKind::Load { buf: b, index, .. } = &e.kind
                && *b == buf
            {
                *e = load(prim, copy, packed(prim, index, &region, parts));
            }
        });
        body.splice(0..0, [Stmt::Alloc(copy), fill]);
        Ok(vec![s])
    })?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

fn is_layout(parts: &[Part], rank: usize) -> bool {
    let (mut whole, mut tiles, mut within) = (vec![], vec![], vec![]);
    for p in parts {
        match *p {
            Part::Whole(a) => whole.push(a),
            Part::Tiles(a, n) => tiles.push((a, n)),
            Part::Within(a, n) => within.push((a, n)),
        }
    }
    tiles.sort_unstable();
    within.sort_unstable();
    let mut axes: Vec<usize> = whole.into_iter().chain(tiles.iter().map(|t| t.0)).collect();
    axes.sort_unstable();
    tiles == within && tiles.iter().all(|t| t.1 >= 1) && axes == (0..rank).collect::<Vec<_>>()
}

/// True if statements make the buffer.
pub(crate) fn made_in(stmts: &[Stmt], buf: BufId) -> bool {
    let mut found = false;
    stmts.iter().for_each(|s| s.walk(&mut |s| found |= matches!(s, Stmt::Alloc(b) if *b == buf)));
    found
}

/// What a round of loop `at` writes of a buffer goes to a local one, which is copied out behind it. What it combines
/// with is copied in before.
pub fn cache_write(prim: &Prim, buf: BufId, at: VarId) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "cache_write", at: &label };
    let done = at_loop(prim, at, &mut |prim, facts, mut s| {
        let Stmt::For { var, lo, hi, body, .. } = &mut s else { return Ok(vec![s]) };
        let facts = enter(prim, facts, *var, lo, hi);
        let label = prim.buf(buf).name;
        let (mut combines, mut read) = (Vec::new(), false);
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Store { buf: b, combine, .. } = s
                    && *b == buf
                {
                    combines.push(combine.is_some());
                }
            });
        });
        each_scalar(body, &mut |e| read |= matches!(&e.kind, ScalarKind::Load { buf: b, .. } if *b == buf));
        if combines.is_empty() || made_in(body, buf) {
            return step.no(format!("the loop writes nothing of `{label}`"));
        }
        if read {
            return step.no(format!("the loop reads `{label}` too"));
        }
        let adds = combines.iter().all(|c| *c);
        let whole = combines.len() == 1 && writes_all(prim, body, buf);
        if !adds && !whole {
            return step.no(format!("that every element of a part of `{label}` is written is not known"));
        }
        let region = part_of(prim, body, buf, &facts, &step)?;
        let (shape, dtype) = (region.iter().map(|r| r.1.clone()).collect(), prim.buf(buf).dtype);
        let parts: Vec<Part> = (0..region.len()).map(Part::Whole).collect();
        let copy = new_buf(prim, &format!("{label}_part"), dtype, shape);
        let fill = over(prim, &region, label.name(), &mut |prim, index| {
            store(copy, packed(prim, index, &region, &parts), load(prim, buf, index.to_vec()))
        });
        let out = over(prim, &region, label.name(), &mut |prim, index| {
            store(buf, index.to_vec(), load(prim, copy, packed(prim, index, &region, &parts)))
        });
        each_mut(body, &mut |s| {
            if let Stmt::Store { buf: b, index, checked, .. } = s
                && *b == buf
            {
                *index = packed(prim, index, &region, &parts);
                (*b, *checked) = (copy, false);
            }
        });
        let before = if adds { vec![Stmt::Alloc(copy), fill] } else { vec![Stmt::Alloc(copy)] };
        body.splice(0..0, before);
        body.push(out);
        Ok(vec![s])
    })?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

/// True if the one store to a buffer stands in loops alone, whose ranges do not depend on each other, and each axis of
/// its index is one of their variables or the same for all.
fn writes_all(prim: &Prim, stmts: &[Stmt], buf: BufId) -> bool {
    let mut loops: Vec<(VarId, &Scalar, &Scalar)> = Vec::new();
    let mut block = stmts;
    loop {
        let next = block.iter().find(|s| stored_in(std::slice::from_ref(s)).contains(&buf));
        match next {
            Some(Stmt::For { var, lo, hi, body, .. }) => {
                loops.push((*var, lo, hi));
                block = body;
            }
            Some(Stmt::Store { index, .. }) => {
                let mut used = Vec::new();
                let plain = index.iter().all(|i| match &i.kind {
                    ScalarKind::Var(v) if loops.iter().any(|l| l.0 == *v) => {
                        let fresh = !used.contains(v);
                        used.push(*v);
                        fresh
                    }
                    _ => !loops.iter().any(|l| crate::tree::speaks(prim, i, l.0)),
                });
                let ranges = loops.iter().all(|(_, lo, hi)| {
                    !loops.iter().any(|l| [lo, hi].iter().any(|e| crate::tree::speaks(prim, e, l.0)))
                });
                // A loop that no axis speaks of must have a round.
                return plain && ranges && loops.iter().all(|l| used.contains(&l.0));
            }
            _ => return false,
        }
    }
}
