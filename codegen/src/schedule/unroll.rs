//! Loop unrolling: loops and reductions of a few rounds inside of lanes. Counting them is felt beside a vector of their
//! terms.
//!
//! In: a primitive with its lanes. Out: the same with `#[unroll]` at such loops.

use ir::loops::{Prim, Run, Scalar, ScalarKind, Stmt};

/// So many rounds are written out at most, those of loops inside counted,
const ROUNDS: i64 = 16;
/// with so many accesses in all of them.
const ACCESSES: i64 = 32;

/// Marks such loops.
pub(super) fn unroll(prim: &mut Prim) {
    let mut body = std::mem::take(&mut prim.body);
    in_block(prim, &mut body, false);
    prim.body = body;
}

/// `lanes`: inside of lanes, and of no rows.
fn in_block(prim: &Prim, stmts: &mut [Stmt], lanes: bool) {
    for s in stmts {
        if lanes {
            let all = s.scalars_mut();
            all.into_iter().for_each(|e| in_scalar(prim, e));
        }
        match s {
            Stmt::For { run: Run::Rows(_), .. } => {}
            Stmt::For { run: Run::Lanes { .. } | Run::Stream { .. }, body, .. } => in_block(prim, body, true),
            Stmt::For { body, .. } => in_block(prim, body, lanes),
            Stmt::While(_, body) => in_block(prim, body, lanes),
            Stmt::If(_, yes, no) => [yes, no].into_iter().for_each(|body| in_block(prim, body, lanes)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        if lanes
            && is_small(of_stmt(prim, s))
            && let Stmt::For { run: run @ Run::Plain, .. } = s
        {
            *run = Run::Unrolled;
        }
    }
}

fn in_scalar(prim: &Prim, e: &mut Scalar) {
    e.walk_mut(&mut |e| {
        if is_small(of_scalar(prim, e))
            && let ScalarKind::Reduce { run: run @ Run::Plain, .. } = &mut e.kind
        {
            *run = Run::Unrolled;
        }
    });
}

/// The rounds of all loops in something, 1 where there is none, and its accesses.
type Work = (i64, i64);

const NOTHING: Work = (1, 0);

fn is_small(work: Option<Work>) -> bool {
    work.is_some_and(|(rounds, accesses)| rounds <= ROUNDS && accesses <= ACCESSES)
}

fn and(work: Work, more: Option<Work>) -> Option<Work> {
    more.map(|more| (work.0.max(more.0), work.1 + more.1))
}

fn times(prim: &Prim, (lo, hi): (&Scalar, &Scalar), run: &Run, each: Option<Work>) -> Option<Work> {
    let rounds = prim
        .constant_trip_count(lo, hi)
        .filter(|n| matches!(run, Run::Plain | Run::Unrolled) && *n <= ROUNDS)?;
    each.map(|(inside, accesses)| (rounds * inside, rounds * accesses))
}

/// What a statement does; none where that is not known.
fn of_stmt(prim: &Prim, s: &Stmt) -> Option<Work> {
    let own = s.scalars().into_iter().try_fold(NOTHING, |work, e| and(work, of_scalar(prim, e)))?;
    let block = |stmts: &[Stmt]| stmts.iter().try_fold(own, |work, s| and(work, of_stmt(prim, s)));
    match s {
        Stmt::For { lo, hi, run, body, .. } => times(prim, (lo, hi), run, block(body)),
        Stmt::If(_, yes, no) => and(block(yes)?, block(no)),
        Stmt::Store { .. } => Some((own.0, own.1 + 1)),
        Stmt::Set(..) => Some(own),
        Stmt::While(..) | Stmt::Alloc(_) => None,
    }
}

fn of_scalar(prim: &Prim, e: &Scalar) -> Option<Work> {
    let all = |of: &[Scalar]| of.iter().try_fold(NOTHING, |work, e| and(work, of_scalar(prim, e)));
    match &e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => Some(NOTHING),
        ScalarKind::Load { index, .. } => all(index).map(|work| (work.0, work.1 + 1)),
        ScalarKind::Op(_, args) => all(args),
        ScalarKind::Choose(parts) => all(&**parts),
        ScalarKind::Cast(e) => of_scalar(prim, e),
        ScalarKind::Reduce { run, lo, hi, body, .. } => times(prim, (lo, hi), run, of_scalar(prim, body)),
    }
}
