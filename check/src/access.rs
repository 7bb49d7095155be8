//! Definite assignment of outputs: which elements are read before they are written. Whether an output is written
//! everywhere is [`cover`]'s to say; what rounds of loops share, [`ir::depend`]'s.

mod cover;

use std::collections::HashSet;

use ir::depend::{Region, enter, point};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Facts, Pred};

/// True for an output that is accumulated into and never replaced: it begins at its combiner's identity.
pub(crate) fn is_only_combined(prim: &Prim, buf: BufId) -> bool {
    let mut replaced = false;
    for s in &prim.body {
        s.walk(&mut |s| replaced |= matches!(s, Stmt::Store { buf: b, combine: None, .. } if *b == buf));
    }
    !replaced && prim.outs.contains(&buf) && !prim.in_place(buf)
}

/// The outputs of which something may be read before it is written.
pub(crate) fn read_early(prim: &Prim) -> Vec<BufId> {
    let names = cover::Names::new(prim);
    let early = |&&buf: &&BufId| {
        if prim.in_place(buf) {
            return false;
        }
        let mut known = WrittenSoFar::default();
        let mut stmts = prim.body.iter().map(std::slice::from_ref);
        let first = stmts.position(|s| reads_early((prim, &names), s, buf, &mut known, &prim.facts));
        // Behind statements that write all of it, everything may be read.
        first.is_some_and(|first| {
            let before = ir::depend::untiled(&Prim { body: prim.body[..first].to_vec(), ..prim.clone() });
            !cover::is_written(&before, &before.body, buf)
        })
    };
    prim.outs.iter().filter(early).copied().collect()
}

/// Elements written so far, in this iteration of the loops around, and in which order they came; rows, by loops that
/// are through; and rows of the rounds before.
#[derive(Default)]
struct WrittenSoFar {
    regions: HashSet<Region>,
    order: Vec<Region>,
    rows: Vec<Row>,
    before: Vec<Before>,
}

/// Rows that are remembered at most: each read looks through them.
const ROWS: usize = 64;

/// For each axis the position; none: all of it.
type Row = Vec<Option<Dim>>;

/// What each round of a loop around writes, so that those before have.
struct Before {
    row: Row,
    /// The axis along which rounds go, each a position further,
    axis: usize,
    /// and where on it the first round is.
    first: Dim,
}

impl WrittenSoFar {
    fn insert(&mut self, region: Region) {
        if self.regions.insert(region.clone()) {
            self.order.push(region);
        }
    }

    /// Forgets all but the first elements and rows.
    fn forget(&mut self, elements: usize, rows: usize) {
        for region in self.order.drain(elements..) {
            self.regions.remove(&region);
        }
        self.rows.truncate(rows);
    }

    fn holds(&self, prim: &Prim, index: &[Scalar], facts: &Facts) -> bool {
        let at = point(prim, index);
        let element = at.iter().all(Option::is_some) && self.regions.contains(&at);
        let at: Row = at.into_iter().map(|i| i.map(|(from, _)| from)).collect();
        let on = |row: &Row| lies(row, &at, None);
        element || self.rows.iter().any(on) || self.before.iter().any(|b| self.came_before(b, &at, facts))
    }

    /// Whether an element is of a round before, or of a row that those begin after.
    fn came_before(&self, Before { row, axis, first }: &Before, at: &Row, facts: &Facts) -> bool {
        let (Some(this), Some(there)) = (&row[*axis], &at[*axis]) else { return false };
        let proved = |facts: &Facts, p| facts.prove(&p).is_proved();
        if !lies(row, at, Some(*axis)) || !proved(facts, Pred::Lt(there.clone(), this.clone())) {
            return false;
        }
        let mut outside = facts.clone();
        outside.assume(Pred::Lt(there.clone(), first.clone()));
        let is_there = |row: &Row| {
            let there = row[*axis].as_ref().map(|p| Pred::Eq(p.clone(), there.clone()));
            lies(row, at, Some(*axis)) && there.is_none_or(|p| proved(&outside, p))
        };
        proved(facts, Pred::Le(first.clone(), there.clone())) || self.rows.iter().any(is_there)
    }
}

/// Whether an element is on a row, whatever it is along one axis.
fn lies(row: &Row, at: &Row, but: Option<usize>) -> bool {
    let mut axes = row.iter().zip(at).enumerate();
    axes.all(|(axis, (p, at))| p.is_none() || Some(axis) == but || p == at)
}

/// The rows that each round of a loop is sure to write, one further than those of the round before.
fn of_a_round(
    (prim, names): (&Prim, &cover::Names),
    (var, lo): (VarId, &Scalar),
    body: &[Stmt],
    buf: BufId,
) -> Vec<Before> {
    let name = prim.var(var).name;
    let Some(lo) = cover::stable_dim(prim, lo, names) else { return Vec::new() };
    let speaks = |p: &Option<Dim>| p.as_ref().is_some_and(|p| p.syms().contains(&name));
    let further = |row: Row| {
        let axis = row.iter().position(speaks).filter(|a| !row[a + 1..].iter().any(speaks))?;
        let ahead = row[axis].as_ref()? - &Dim::sym(name);
        ahead.as_int().map(|n| Before { row, axis, first: &lo + &Dim::int(n) })
    };
    let rows = body.iter().flat_map(|s| cover::rows(prim, s, buf, names));
    rows.take(ROWS).filter_map(further).collect()
}

/// True if statements read an element of `buf` that is not among those they are sure to have written.
fn reads_early(
    of: (&Prim, &cover::Names),
    stmts: &[Stmt],
    buf: BufId,
    known: &mut WrittenSoFar,
    facts: &Facts,
) -> bool {
    let (prim, names) = of;
    let within = |body: &[Stmt], known: &mut WrittenSoFar, facts: &Facts| {
        let (elements, rows) = (known.order.len(), known.rows.len());
        let early = reads_early(of, body, buf, known, facts);
        known.forget(elements, rows);
        early
    };
    for s in stmts {
        if s.scalars().into_iter().any(|e| looks_early(of, e, buf, known, facts)) {
            return true;
        }
        let early = match s {
            Stmt::Store { buf: b, index, combine, .. } if *b == buf => match combine {
                Some(_) => !known.holds(prim, index, facts),
                None => {
                    known.insert(point(prim, index));
                    false
                }
            },
            Stmt::For { var, lo, hi, body, .. } => {
                let before = known.before.len();
                known.before.extend(of_a_round(of, (*var, lo), body, buf));
                let early = within(body, known, &enter(prim, facts, *var, lo, hi));
                known.before.truncate(before);
                let room = ROWS - known.rows.len();
                if !early && room > 0 {
                    known.rows.extend(cover::rows(prim, s, buf, names).into_iter().take(room));
                }
                early
            }
            Stmt::While(_, body) => within(body, known, facts),
            Stmt::If(c, a, b) => {
                let inside = |holds| cover::inside(prim, c, holds, names, facts);
                within(a, known, &inside(true)) || within(b, known, &inside(false))
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => false,
        };
        if early {
            return true;
        }
    }
    false
}

/// The same of an expression.
fn looks_early(
    of: (&Prim, &cover::Names),
    e: &Scalar,
    buf: BufId,
    known: &WrittenSoFar,
    facts: &Facts,
) -> bool {
    let (prim, names) = of;
    let look = |e: &Scalar, facts: &Facts| looks_early(of, e, buf, known, facts);
    match &e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => false,
        ScalarKind::Load { buf: b, index, .. } => {
            *b == buf && !known.holds(prim, index, facts) || index.iter().any(|i| look(i, facts))
        }
        ScalarKind::Op(_, args) => args.iter().any(|a| look(a, facts)),
        ScalarKind::Cast(a) => look(a, facts),
        ScalarKind::Choose(parts) => {
            let [c, yes, no] = &**parts;
            let inside = |holds| cover::inside(prim, c, holds, names, facts);
            look(c, facts) || look(yes, &inside(true)) || look(no, &inside(false))
        }
        ScalarKind::Reduce { var, lo, hi, body, .. } => {
            look(lo, facts) || look(hi, facts) || look(body, &enter(prim, facts, *var, lo, hi))
        }
    }
}
