//! Loop transformations: what is decided, carried out.
//!
//! In: a prepared primitive and what was decided for its nests and reductions. Out: a primitive of the same meaning
//! whose loops stand as they are to run. Lanes and rows are marks; tiles, panels and blocked sums are loops and local
//! buffers like any other, so that `emit` knows nothing of them.
//!
//! Parallelization: a nest that is the whole body becomes blocks, one loop over tiles of all its loops, collapsed,
//! which is the kernel's grid. So do loops around much work that stand in one another, so that there are blocks enough
//! where the outermost has few rounds.

use ir::Intrinsic;
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::BTreeMap;
use tensor::DType;

use super::cost::holds_heavy;
use super::outer_product::STREAM;
use super::panels::Lane;
use super::{Decisions, LoopAccess, Nest, Order, VectorShape, Version};
use crate::target::facts;
use crate::{Pass, Target};

/// Rows of a block whose lanes are a panel: as many as make the copy cheap, few enough to leave blocks for threads.
pub(super) const ROWS: i64 = 480;
/// The same where tiles of 32 rows are multiplied at once. With 64, 128, 256 and 512 rows a product of 1024 in bf16
/// takes 5.1, 3.9, 3.2 and 3.0 ms, and one of 512 by 4096 by 4096 the same.
const TILED_ROWS: i64 = 512;
/// A loop of a nest.
#[derive(Clone)]
pub(super) struct Loop {
    pub(super) var: VarId,
    pub(super) lo: Scalar,
    pub(super) hi: Scalar,
}

/// A loop cut into tiles: the loop over one tile, how many tiles there are, the variable that is a tile's number, and
/// where the tile of that number begins.
pub(super) struct Tiles {
    pub(super) inner: Loop,
    count: Dim,
    number: VarId,
    pub(super) begin: Dim,
}

/// The trip count of a loop whose ends are expressions of the dims too: it is known where the loop does not stand.
pub(crate) fn extent(prim: &Prim, lo: &Scalar, hi: &Scalar) -> Option<Dim> {
    let of_dims = |e: &Scalar| prim.as_dim(e).is_some_and(|e| prim.is_of_dims(&e));
    if of_dims(lo) && of_dims(hi) { prim.trip_count(lo, hi) } else { None }
}

impl Tiles {
    /// The loop over their numbers.
    pub(super) fn numbers(&self) -> Loop {
        Loop { var: self.number, lo: Scalar::int(0), hi: Scalar::dim(self.count.clone()) }
    }
}

pub(super) fn apply(prim: &Prim, target: &Target, order: Order, decisions: &Decisions, blocks: bool) -> Prim {
    let mut prim = prim.clone();
    let body = std::mem::take(&mut prim.body);
    let mut apply = Apply { prim, target, order, decisions };
    let last = body.len().saturating_sub(1);
    let alone = blocks && body.iter().take(last).all(|s| matches!(s, Stmt::Set(..)));
    let mut body: Vec<Stmt> = body.into_iter().flat_map(|s| apply.stmt(s, alone)).collect();
    if alone
        && target.runs(Pass::Collapse)
        && let Some(s) = body.pop()
    {
        body.extend(apply.collapse(s));
    }
    Prim { body, ..apply.prim }
}

pub(super) struct Apply<'a> {
    pub(super) prim: Prim,
    pub(super) target: &'a Target,
    pub(super) order: Order,
    pub(super) decisions: &'a Decisions,
}

pub(super) fn for_(l: &Loop, run: Run, body: Vec<Stmt>) -> Stmt {
    let (lo, hi) = (l.lo.clone(), l.hi.clone());
    Stmt::For { var: l.var, lo, hi, mark: Mark::Independent, run, body }
}

pub(super) fn lanes(wide: VectorShape) -> Run {
    Run::Lanes { lanes: wide.lanes, vectors: wide.vectors }
}

impl Apply<'_> {
    /// A loop that fetches what it reads so many rounds later.
    pub(super) fn prefetching(&self, rounds: u32) -> Run {
        if self.target.runs(Pass::Prefetch) { Run::Ahead(rounds) } else { Run::Plain }
    }

    fn block(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        stmts.into_iter().flat_map(|s| self.stmt(s, false)).collect()
    }

    /// `whole`: it is all of the primitive, so its rounds may be blocks of the grid.
    fn stmt(&mut self, mut s: Stmt, whole: bool) -> Vec<Stmt> {
        if let Stmt::For { var, .. } = &s
            && let Some(nest) = self.decisions.nests.get(var)
        {
            return self.nest(nest, s, whole);
        }
        if let Stmt::For { var, run, .. } = &mut s
            && let Some(wide) = self.decisions.in_turn.get(var)
        {
            *run = lanes(*wide);
            return vec![s];
        }
        self.dot_reductions(&mut s, None);
        self.mark(&mut s, None);
        match &mut s {
            Stmt::For { body, .. } | Stmt::While(_, body) => *body = self.block(std::mem::take(body)),
            Stmt::If(_, a, b) => {
                *a = self.block(std::mem::take(a));
                *b = self.block(std::mem::take(b));
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        vec![s]
    }

    /// Lanes of the reductions that stand in a statement itself and are the same in all lanes around it.
    fn mark(&self, s: &mut Stmt, around: Option<&LoopAccess<'_>>) {
        for e in s.scalars_mut() {
            e.walk_mut(&mut |e| {
                if around.is_some_and(|along| along.changes(e)) {
                    return;
                }
                if let ScalarKind::Reduce { var, run, .. } = &mut e.kind
                    && let Some(wide) = self.decisions.reductions.get(var)
                {
                    *run = lanes(*wide);
                }
            });
        }
    }

    fn nest(&mut self, nest: &Nest, s: Stmt, whole: bool) -> Vec<Stmt> {
        let (mut loops, mut body) = (Vec::new(), vec![s]);
        for _ in &nest.chain {
            let Some(Stmt::For { var, lo, hi, body: inner, .. }) = body.pop() else { break };
            loops.push(Loop { var, lo, hi });
            body = inner;
        }
        self.choose(nest, loops, body, whole)
    }

    fn choose(&mut self, nest: &Nest, loops: Vec<Loop>, body: Vec<Stmt>, whole: bool) -> Vec<Stmt> {
        self.choose_of(&nest.versions, nest, loops, body, whole)
    }

    /// Of a nest what is done where none of the cases before applies.
    fn choose_of(
        &mut self,
        versions: &[Version],
        nest: &Nest,
        loops: Vec<Loop>,
        body: Vec<Stmt>,
        whole: bool,
    ) -> Vec<Stmt> {
        let Some((version, others)) = versions.split_first() else {
            return self.form(nest, loops, body, whole);
        };
        if let Some(n) = version.of.as_int() {
            let is_few = n < version.below;
            return if is_few {
                self.choose(&version.nest, loops, body, whole)
            } else {
                self.choose_of(others, nest, loops, body, whole)
            };
        }
        let is_few = Scalar {
            kind: ScalarKind::Op(
                Intrinsic::Lt,
                vec![Scalar::dim(version.of.clone()), Scalar::int(version.below)],
            ),
            dtype: DType::Bool,
        };
        let less = self.choose(&version.nest, loops.clone(), body.clone(), whole);
        let many = self.choose_of(others, nest, loops, body, whole);
        vec![Stmt::If(is_few, less, many)]
    }

    fn form(&mut self, nest: &Nest, mut loops: Vec<Loop>, mut body: Vec<Stmt>, whole: bool) -> Vec<Stmt> {
        if nest.lanes.is_none() && nest.rows.is_none() && !nest.row_by_row {
            let body = self.block(body);
            return self.around(loops, whole, vec![], |_| body);
        }
        // Inside, loops stay as they are: something around them has lanes or rows.
        let prim = self.prim.clone();
        let around = nest.lanes.map(|l| LoopAccess::new(&prim, l.0, &body));
        if around.is_none() {
            body.iter_mut()
                .for_each(|s| s.walk_mut(&mut |s| self.dot_reductions(s, nest.rows.as_ref().map(|r| r.0))));
        }
        body.iter_mut().for_each(|s| s.walk_mut(&mut |s| self.mark(s, around.as_ref())));
        if nest.row_by_row {
            return self.row_by_row(nest, loops, body, whole);
        }
        let mut take = |var: VarId| loops.iter().position(|l| l.var == var).map(|at| loops.remove(at));
        let wide = nest.lanes.and_then(|l| Some((take(l.0)?, l.1)));
        let rows = nest.rows.as_ref().and_then(|r| Some((take(r.0)?, r.1.clone())));
        match (wide, rows) {
            (None, None) => self.around(loops, whole, vec![], |_| body),
            (Some((lane, w)), None) => {
                if let Some(how) = nest.prepacked {
                    self.terms_in_order(how, &mut body, lane.var);
                    body = self.pairs(how, &mut loops, body);
                }
                // A single loop of lanes is its own grid.
                if whole && loops.is_empty() {
                    return vec![for_(&lane, lanes(w), body)];
                }
                self.around(loops, whole, vec![], |_| vec![for_(&lane, lanes(w), body)])
            }
            (None, Some((row, sizes))) => {
                // The rows stay near while the other loop goes by inside of them.
                let other = loops.pop();
                let tiles = self.tiles(&row, 64);
                let others = other.as_ref().and_then(|o| self.tiles(o, 32));
                let inner = |tiles: &Option<Tiles>, l: Loop| tiles.as_ref().map_or(l, |t| t.inner.clone());
                let (row, other) = (inner(&tiles, row), other.map(|o| inner(&others, o)));
                let body =
                    other.into_iter().fold(body, |body, o| vec![for_(&o, Run::Rows(vec![4, 2, 1]), body)]);
                let rows = self.rows_ahead(&row, tiles.as_ref().map(|_| Dim::int(64)), sizes, body);
                self.around(loops, whole, others.into_iter().chain(tiles).collect(), |_| vec![rows])
            }
            (Some((lane, w)), Some((row, sizes))) => {
                if let Some(how) = nest.prepacked {
                    return self.prepacked(how, loops, (lane, w), (row, sizes), body, whole);
                }
                self.tile(nest, loops, (lane, w), (row, sizes), body, whole)
            }
        }
    }

    /// The rounds of the last loop one by one, in the order of memory, and what they read asked for ahead; what few
    /// rows of another loop share of it is read once.
    fn row_by_row(
        &mut self,
        nest: &Nest,
        mut loops: Vec<Loop>,
        mut body: Vec<Stmt>,
        whole: bool,
    ) -> Vec<Stmt> {
        let vectors = if self.target.has_many_registers() { 4 } else { 2 };
        let prim = self.prim.clone();
        for s in &mut body {
            for e in s.scalars_mut() {
                e.walk_mut(&mut |e| {
                    if let ScalarKind::Reduce { run: Run::Lanes { lanes, vectors: n }, lo, hi, body, .. } =
                        &mut e.kind
                        && prim.constant_trip_count(lo, hi).is_none_or(|r| r >= i64::from(*lanes * vectors))
                        && !holds_heavy(body)
                    {
                        *n = vectors;
                    }
                });
            }
        }
        let Some(row) = loops.pop() else { return body };
        if let Some((other, sizes)) = &nest.rows
            && let Some(at) = loops.iter().position(|l| l.var == *other)
        {
            body = vec![for_(&loops.remove(at), Run::Rows(sizes.clone()), body)];
        }
        let ahead = self.prefetching(facts::ROWS_AHEAD);
        let Some(tiles) = self.tiles(&row, 64) else {
            return self.around(loops, whole, vec![], |_| vec![for_(&row, ahead, body)]);
        };
        let row = tiles.inner.clone();
        self.around(loops, whole, vec![tiles], |_| vec![for_(&row, ahead, body)])
    }

    /// Rows that each read memory of their own, group by group: while one goes by, the next is asked for.
    /// There are so many rows at most.
    fn rows_ahead(&mut self, row: &Loop, most: Option<Dim>, sizes: Vec<u32>, body: Vec<Stmt>) -> Stmt {
        let size = sizes.first().map_or(1, |s| i64::from(*s));
        let lo = self.prim.as_dim(&row.lo).filter(|_| size > 1);
        let Some((lo, most)) = lo.zip(most) else { return for_(row, Run::Rows(sizes), body) };
        let group = self.variable(self.prim.var(row.var).name.name(), DType::I64);
        let count = most.ceil_div(&Dim::int(size));
        let begin = &lo + &(self.name(group) * size);
        let end = vec![Scalar::dim(&begin + &Dim::int(size)), row.hi.clone()];
        let hi = Scalar { kind: ScalarKind::Op(Intrinsic::Min, end), dtype: DType::I64 };
        let rows = for_(&Loop { var: row.var, lo: Scalar::dim(begin), hi }, Run::Rows(sizes), body);
        let groups = Loop { var: group, lo: Scalar::int(0), hi: Scalar::dim(count) };
        for_(&groups, self.prefetching(1), vec![rows])
    }

    /// Rows of a block.
    pub(super) fn rows_of(&self, nest: &Nest) -> i64 {
        let words = nest.panels.iter().any(|p| p.dots.is_some());
        if words && self.target.has_tiles_of(DType::Bf16) { TILED_ROWS } else { ROWS }
    }

    /// A register tile of rows by lanes.
    fn tile(
        &mut self,
        nest: &Nest,
        loops: Vec<Loop>,
        (lane, wide): (Loop, VectorShape),
        (row, sizes): (Loop, Vec<u32>),
        body: Vec<Stmt>,
        whole: bool,
    ) -> Vec<Stmt> {
        let width = i64::from(wide.lanes * wide.vectors);
        let size = match (nest.outer_product, nest.panels.is_empty()) {
            (true, _) => STREAM,
            (false, true) => width.max(64),
            // A panel is as wide as the tile.
            (false, false) => width,
        };
        let tiles = self.tiles(&lane, size).zip(self.tiles(&row, self.rows_of(nest)));
        let Some((columns, chunk)) = tiles else {
            return self.around(loops, whole, vec![], |_| {
                vec![for_(&lane, lanes(wide), vec![for_(&row, Run::Rows(sizes), body)])]
            });
        };
        let (lane, row) = (columns.inner.clone(), chunk.inner.clone());
        let (first_lane, first_row) = (columns.begin.clone(), chunk.begin.clone());
        let pieces = self.pieces(nest, width, &body).filter(|_| !nest.outer_product);
        let run = if nest.panels.is_empty() || nest.outer_product || pieces.is_some() {
            Run::Plain
        } else {
            self.prefetching(1)
        };
        self.around_as(run, loops, whole, vec![chunk, columns], |this| {
            if nest.outer_product {
                return this.outer_product((&lane, wide, &first_lane), (&row, &first_row), body);
            }
            let panel = Lane { lane: &lane, wide, begin: &first_lane };
            if let Some(pieces) = pieces {
                return this.by_pieces(nest, &panel, (&row, &first_row, sizes), body, &pieces);
            }
            let (mut before, mut body) = (Vec::new(), body);
            this.panels(nest, row.var, &panel, None, &mut body, &mut before);
            before.push(for_(&lane, lanes(wide), vec![for_(&row, Run::Rows(sizes), body)]));
            before
        })
    }

    /// What is inside, under loops and over tiles: one loop over all of them where they are the whole primitive.
    pub(super) fn around(
        &mut self,
        loops: Vec<Loop>,
        whole: bool,
        tiles: Vec<Tiles>,
        inside: impl FnOnce(&mut Self) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        self.around_as(Run::Plain, loops, whole, tiles, inside)
    }

    /// The same, where the innermost loop over tiles, or the one over all, runs as is told.
    fn around_as(
        &mut self,
        run: Run,
        loops: Vec<Loop>,
        whole: bool,
        tiles: Vec<Tiles>,
        inside: impl FnOnce(&mut Self) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let counts: Option<Vec<Dim>> = loops.iter().map(|l| self.extent(l)).collect();
        let single = loops.len() + tiles.len() <= 1;
        let fused = counts.filter(|_| whole && !single);
        let inside = inside(self);
        let once = |t: &Tiles| t.count.as_int() == Some(1);
        let tiles: Vec<Tiles> = tiles.into_iter().filter(|t| single || !once(t)).collect();
        let Some(counts) = fused else {
            let mut run = Some(run);
            let body = tiles
                .iter()
                .rev()
                .fold(inside, |body, t| vec![for_(&t.numbers(), run.take().unwrap_or_default(), body)]);
            return loops.iter().rev().fold(body, |body, l| vec![for_(l, Run::Plain, body)]);
        };
        let mut numbers = Vec::new();
        let mut sets = Vec::new();
        for l in &loops {
            let lo = self.prim.as_dim(&l.lo).unwrap_or_else(|| Dim::int(0));
            if lo.as_int() == Some(0) {
                numbers.push(l.var);
                continue;
            }
            let number = self.variable("t", DType::I64);
            sets.push(Stmt::Set(l.var, Scalar::dim(&lo + &Dim::sym(self.prim.var(number).name))));
            numbers.push(number);
        }
        numbers.extend(tiles.iter().map(|t| t.number));
        let counts = counts.into_iter().chain(tiles.iter().map(|t| t.count.clone()));
        // What goes round once has one number.
        let (once, all): (Vec<_>, Vec<_>) =
            numbers.into_iter().zip(counts).partition(|n| n.1.as_int() == Some(1));
        sets.splice(0..0, once.into_iter().map(|(number, _)| Stmt::Set(number, Scalar::int(0))));
        let total = all.iter().fold(Dim::int(1), |n, (_, c)| &n * c);
        let var = match &all[..] {
            [(number, _)] => *number,
            _ => self.variable("t", DType::I64),
        };
        // From the innermost outwards: the rest of the division is this one's number, the quotient the others'.
        let mut divided = Vec::new();
        let mut rest = var;
        for (at, (number, count)) in all.iter().enumerate().skip(1).rev() {
            let quotient = if at == 1 { all[0].0 } else { self.variable("t", DType::I64) };
            let of = |op: Intrinsic| {
                let rest = Scalar { kind: ScalarKind::Var(rest), dtype: DType::I64 };
                let args = vec![rest, Scalar::dim(count.clone())];
                Scalar { kind: ScalarKind::Op(op, args), dtype: DType::I64 }
            };
            divided.push(Stmt::Set(quotient, of(Intrinsic::Div)));
            divided.push(Stmt::Set(*number, of(Intrinsic::Rem)));
            rest = quotient;
        }
        let l = Loop { var, lo: Scalar::int(0), hi: Scalar::dim(total) };
        vec![for_(&l, run, [divided, sets, inside].concat())]
    }

    /// A loop in tiles, if its bounds are expressions of the dims.
    pub(super) fn tiles(&mut self, l: &Loop, size: i64) -> Option<Tiles> {
        let count = self.extent(l)?.ceil_div(&Dim::int(size));
        let (lo, hi) = (self.prim.as_dim(&l.lo)?, self.prim.as_dim(&l.hi)?);
        let number = self.variable(self.prim.var(l.var).name.name(), DType::I64);
        if count.as_int() == Some(1) {
            return Some(Tiles { inner: l.clone(), count, number, begin: lo });
        }
        let begin = &lo + &(Dim::sym(self.prim.var(number).name) * size);
        let end = vec![Scalar::dim(&begin + &Dim::int(size)), Scalar::dim(hi)];
        let hi = Scalar { kind: ScalarKind::Op(Intrinsic::Min, end), dtype: DType::I64 };
        let inner = Loop { var: l.var, lo: Scalar::dim(begin.clone()), hi };
        Some(Tiles { inner, count, number, begin })
    }

    /// The rounds of a loop, where they are an expression of the dims.
    pub(super) fn extent(&self, l: &Loop) -> Option<Dim> {
        extent(&self.prim, &l.lo, &l.hi)
    }

    pub(super) fn variable(&mut self, name: &str, dtype: DType) -> VarId {
        variable(&mut self.prim, name, dtype)
    }

    pub(super) fn name(&self, v: VarId) -> Dim {
        Dim::sym(self.prim.var(v).name)
    }

    pub(super) fn renamed(&self, s: &Scalar, renames: &BTreeMap<VarId, VarId>) -> Scalar {
        self.substituted(s, &renames.iter().map(|(v, to)| (*v, self.name(*to))).collect())
    }

    pub(super) fn substituted(&self, s: &Scalar, values: &BTreeMap<VarId, Dim>) -> Scalar {
        substituted(&self.prim, s, values)
    }
}

/// A new variable.
pub(crate) fn variable(prim: &mut Prim, name: &str, dtype: DType) -> VarId {
    let id = VarId(prim.vars.len() as u32);
    prim.vars.push(Var { name: Sym::new(&format!("{name}.{}", id.0)), dtype });
    id
}

/// A new local buffer.
pub(crate) fn local(prim: &mut Prim, name: &str, dtype: DType, shape: Vec<Dim>) -> BufId {
    let id = BufId(prim.bufs.len() as u32);
    let name = Sym::new(&format!("{name}{}", id.0));
    prim.bufs.push(Buf { name, dtype, shape, local: true });
    id
}

/// An expression with dims in the place of variables.
pub(crate) fn substituted(prim: &Prim, s: &Scalar, values: &BTreeMap<VarId, Dim>) -> Scalar {
    let mut s = s.clone();
    let of = |sym: Sym| {
        let (_, value) = values.iter().find(|v| prim.var(*v.0).name == sym)?;
        Some(value.clone())
    };
    s.walk_mut(&mut |s| match &mut s.kind {
        ScalarKind::Var(v) => {
            if let Some(value) = values.get(v) {
                *s = Scalar::dim(value.clone());
            }
        }
        ScalarKind::Dim(d) => *d = d.subst(&of),
        ScalarKind::Const(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Op(..)
        | ScalarKind::Choose(_)
        | ScalarKind::Cast(_)
        | ScalarKind::Reduce { .. } => {}
    });
    s
}

/// The bounds of the reduction over a variable.
pub(super) fn range(body: &[Stmt], over: VarId) -> Option<(Scalar, Scalar)> {
    let mut found = None;
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Reduce { var, lo, hi, .. } = &e.kind
                        && *var == over
                    {
                        found = Some(((**lo).clone(), (**hi).clone()));
                    }
                });
            }
        });
    });
    found
}

/// Writes a value in the place of the one reduction.
pub(super) fn put_reduction(body: &mut [Stmt], value: &Scalar) {
    for s in body {
        for e in s.scalars_mut() {
            e.walk_mut(&mut |e| {
                if matches!(e.kind, ScalarKind::Reduce { .. }) {
                    *e = value.clone();
                }
            });
        }
    }
}
