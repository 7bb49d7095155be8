//! The kernel's outside: which argument is where, what the grid is, how much scratch it needs.
//!
//! In: a scheduled primitive. Out: a [`Layout`], from which both the description for the runtime
//! ([`tensor::abi::Kernel`]) and the entry's code are made.
//!
//! The grid is the outermost loop where the whole body is that loop (scalars set before it are computed again in every
//! call) and its iterations are independent, a choice by the dims between two such loops, or several statements one
//! behind the other, of which such loops are their blocks and any other is one. Where a statement touches what those
//! before it write, its blocks wait for theirs. Otherwise the grid is one block.

use ir::depend::{disjoint, share_variable};
use ir::inline_lets::{inline_lets, positions};
use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::{Intrinsic, Literal};
use shape::Expr as Dim;
use std::collections::{BTreeMap, BTreeSet};
use tensor::abi;

use crate::prepare::written;
use crate::target::facts;
use crate::{Error, Pass, Passes, dead_fill, messages};

/// Local buffers up to this size live on the stack, and all of them together up to four times of it.
const STACK: i64 = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Layout {
    /// The buffer arguments in order.
    pub(crate) bufs: Vec<BufId>,
    /// The inputs that come as numbers, after the dims.
    pub(crate) scalars: Vec<BufId>,
    /// Local buffers on the stack, with their bytes.
    pub(crate) stack: BTreeMap<BufId, u32>,
    /// Local buffers in scratch memory, with their offset in bytes.
    pub(crate) scratch: BTreeMap<BufId, Dim>,
    /// Local buffers in memory that all blocks share, with their offset in bytes.
    pub(crate) shared: BTreeMap<BufId, Dim>,
    shared_bytes: Dim,
    /// Local buffers of which nothing is read but what was written: they need no zeros.
    pub(crate) dead_fills: BTreeSet<BufId>,
    scratch_bytes: Dim,
    /// The loops that are the grid.
    pub(crate) grid: Option<Grid>,
    /// Outputs that must hold a value before the body runs.
    pub(crate) init: Vec<(BufId, Literal)>,
    /// Messages of checks, by number; those of checked accesses come first.
    pub(crate) checks: Vec<String>,
    /// The buffers of the checked accesses and where they are written, by number. Of equal ones the first is the one
    /// that fails: the same is said of each.
    pub(crate) accesses: Vec<(BufId, Span)>,
}

/// What blocks are.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Rounds of one of these loops, which one the dims decide, or of all of them in turn: then with the block that its
    /// first round is.
    pub(crate) loops: Vec<(VarId, Option<Dim>)>,
    /// Statements that are a block each: by their place in the body, with the block's number.
    pub(crate) single: Vec<(usize, Dim)>,
    /// The blocks that wait for all before them.
    pub(crate) stops: Vec<Dim>,
    /// How many there are.
    pub(crate) extent: Dim,
}

impl Grid {
    /// Whether the rounds of a loop are blocks.
    pub(crate) fn has(&self, var: VarId) -> bool {
        self.loops.iter().any(|l| l.0 == var)
    }
}

impl Layout {
    /// What outputs begin with and which checks there are is said of the primitive before it was scheduled: a schedule
    /// may write an access twice, or in another order.
    pub(crate) fn new(before: &Prim, prim: &Prim, passes: Passes) -> Layout {
        // A scalar that is updated in place is memory; any other scalar input is a number.
        let is_buffer = |b: &BufId| !prim.buf(*b).shape.is_empty() || prim.outs.contains(b);
        let mut bufs: Vec<BufId> = prim.params.iter().copied().filter(|b| is_buffer(b)).collect();
        bufs.extend(prim.outs.iter().copied().filter(|o| !prim.in_place(*o)));
        let scalars = prim.params.iter().copied().filter(|b| !is_buffer(b)).collect();
        let (init, checked) = (first_values(before), before.checked());
        // The values of a failed check go to a line of their own, at the front.
        let report = if checked.is_empty() { 0 } else { facts::LINE };
        let mut layout = Layout {
            bufs,
            scalars,
            stack: BTreeMap::new(),
            scratch: BTreeMap::new(),
            shared: BTreeMap::new(),
            shared_bytes: Dim::int(0),
            dead_fills: if passes.runs(Pass::DeadFill) {
                dead_fill::dead_fills(prim)
            } else {
                BTreeSet::new()
            },
            scratch_bytes: Dim::int(report),
            grid: None,
            init,
            checks: checked.iter().map(|a| messages::check_message(prim, a.buf)).collect(),
            accesses: checked.iter().map(|a| (a.buf, a.span)).collect(),
        };
        layout.grid = grid(prim, &layout);
        layout.assign_memory(prim);
        layout
    }

    fn assign_memory(&mut self, prim: &Prim) {
        let mut stacked = 0;
        let several = self.grid.as_ref().is_some_and(|g| !g.stops.is_empty());
        let between =
            |id: BufId| several && prim.body.iter().any(|s| matches!(s, Stmt::Alloc(b) if *b == id));
        for (i, buf) in prim.bufs.iter().enumerate().filter(|(_, b)| b.local) {
            let id = BufId(i as u32);
            let bytes = buf.shape.iter().fold(Dim::int(buf.dtype.size() as i64), |n, d| n * d);
            let lines = &bytes.ceil_div(&Dim::int(facts::LINE)) * facts::LINE;
            match bytes.as_int() {
                _ if between(id) => {
                    self.shared.insert(id, self.shared_bytes.clone());
                    self.shared_bytes = &self.shared_bytes + &lines;
                }
                Some(b) if (0..=STACK).contains(&b) && stacked + b <= 4 * STACK => {
                    stacked += b;
                    self.stack.insert(id, b.max(1) as u32);
                }
                _ => {
                    self.scratch.insert(id, self.scratch_bytes.clone());
                    self.scratch_bytes = &self.scratch_bytes + &lines;
                }
            }
        }
    }

    /// Makes room for the values of a failed check.
    pub(crate) fn reports(&mut self) {
        if self.scratch_bytes.as_int() == Some(0) {
            self.scratch_bytes = Dim::int(facts::LINE);
        }
    }

    /// The description for the runtime.
    pub(crate) fn kernel(&self, prim: &Prim, symbol: String) -> Result<abi::Kernel, Error> {
        let bufs = self.bufs.iter().map(|&b| {
            let access = match (prim.params.contains(&b), prim.outs.contains(&b)) {
                (true, true) => abi::Access::InOut,
                (true, false) => abi::Access::In,
                (false, _) => abi::Access::Out,
            };
            abi::Buf { dtype: prim.buf(b).dtype, rank: prim.buf(b).shape.len() as u8, access }
        });
        let one = Dim::int(1);
        let grid = self.grid.as_ref().map_or(&one, |g| &g.extent);
        let memory = |bytes: &Dim| match bytes.as_int() {
            Some(0) => Ok(Vec::new()),
            _ => steps(prim, bytes),
        };
        let stops = self.grid.iter().flat_map(|g| &g.stops).map(|s| steps(prim, s));
        Ok(abi::Kernel {
            symbol,
            bufs: bufs.collect(),
            ints: (prim.dims.len() + self.scalars.len()) as u32,
            grid: steps(prim, grid)?,
            stops: stops.collect::<Result<_, _>>()?,
            shared: memory(&self.shared_bytes)?,
            scratch: memory(&self.scratch_bytes)?,
            checks: self.checks.clone(),
            libraries: Vec::new(),
        })
    }
}

/// An expression of dims as steps over the kernel's `ints`.
fn steps(prim: &Prim, e: &Dim) -> Result<Vec<abi::Step>, Error> {
    let fault = |message: String| Error::Prim { prim: prim.name.clone(), message };
    if e.is_poison() {
        return Err(fault("the size of a buffer or loop overflows".to_string()));
    }
    let number = |s| prim.dims.iter().position(|d| *d == s).map(|at| at as u32);
    ir::steps::steps(e, &number).map_err(|s| fault(format!("{s} is not one of its dims")))
}

/// Outputs whose first value is not written by the body: those only accumulated into begin as the
/// combiner's identity, those with a write that may not happen as zeros.
pub(crate) fn first_values(prim: &Prim) -> Vec<(BufId, Literal)> {
    let mut list = Vec::new();
    for &out in prim.outs.iter().filter(|o| !prim.in_place(**o)) {
        let mut writes = Vec::new();
        stores(&prim.body, out, false, &mut writes);
        let dtype = prim.buf(out).dtype;
        let zero = if dtype.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
        let combines: Vec<_> = writes.iter().map(|w| w.0).collect();
        match combines.first() {
            Some(Some(c)) if combines.iter().all(|x| x == &Some(*c)) => list.push((out, c.identity(dtype))),
            Some(Some(_)) => list.push((out, zero)),
            Some(None) if writes.iter().all(|w| w.1) => list.push((out, zero)),
            Some(None) => {}
            None => list.push((out, zero)),
        }
    }
    list
}

/// The writes to a buffer: how they combine, and whether they may not happen.
fn stores(stmts: &[Stmt], out: BufId, maybe: bool, list: &mut Vec<(Option<ir::Combine>, bool)>) {
    for s in stmts {
        match s {
            Stmt::For { body, .. } => stores(body, out, maybe, list),
            Stmt::While(_, body) => stores(body, out, true, list),
            Stmt::If(_, a, b) => {
                stores(a, out, true, list);
                stores(b, out, true, list);
            }
            Stmt::Store { buf, combine, checked, .. } if *buf == out => {
                list.push((*combine, maybe || *checked))
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => {}
        }
    }
}

fn grid(prim: &Prim, layout: &Layout) -> Option<Grid> {
    let is_checked = !layout.checks.is_empty();
    let first = prim.body.iter().position(|s| !matches!(s, Stmt::Set(..)))?;
    // Each call sets again what stands outside of its blocks, and others may have written by then what that reads.
    let stored = written(&prim.body);
    let mut again = false;
    let sets = prim.body.iter().filter(|s| matches!(s, Stmt::Set(..)));
    sets.flat_map(Stmt::scalars).for_each(|e| {
        e.walk(&mut |e| again |= matches!(&e.kind, ScalarKind::Load { buf, .. } if stored.contains(buf)));
    });
    if again {
        return None;
    }
    match &prim.body[first..] {
        [one] => grid_of(prim, one, &layout.init, is_checked),
        _ if layout.init.is_empty() => grid_of_statements(prim, &layout.dead_fills, is_checked),
        _ => None,
    }
}

/// So many statements at most are told apart: they are looked at in pairs.
const PARTS: usize = 8;

/// The blocks of several statements one behind the other.
fn grid_of_statements(prim: &Prim, dead_fills: &BTreeSet<BufId>, is_checked: bool) -> Option<Grid> {
    let mut grid = Grid { loops: vec![], single: vec![], stops: vec![], extent: Dim::int(0) };
    let is_in_block =
        |s: &Stmt| !matches!(s, Stmt::Set(..)) && !matches!(s, Stmt::Alloc(b) if dead_fills.contains(b));
    let plain = inline_lets(prim, &positions);
    let mut written_out = plain.body.iter().filter(|s| is_in_block(s));
    // Those since the last stop, and all.
    let (mut beside, mut all): (Vec<&Stmt>, Vec<&Stmt>) = (vec![], vec![]);
    for (i, s) in prim.body.iter().enumerate().filter(|s| is_in_block(s.1)) {
        // What one sets, no other may read: it may be in another call.
        if all.len() == PARTS || all.iter().any(|o| share_variable(prim, o, s)) {
            return None;
        }
        let plainly = written_out.next()?;
        let zeros = |s: &Stmt| matches!(s, Stmt::Alloc(_));
        if beside.iter().any(|o| zeros(o) && !zeros(s) || !disjoint(&plain, o, plainly)) {
            grid.stops.push(grid.extent.clone());
            beside.clear();
        }
        beside.push(plainly);
        all.push(s);
        let one = match grid_of(prim, s, &[], is_checked) {
            Some(blocks) => {
                let first = |(var, _)| (var, Some(grid.extent.clone()));
                grid.loops.extend(blocks.loops.into_iter().map(first));
                blocks.extent
            }
            None => {
                grid.single.push((i, grid.extent.clone()));
                Dim::int(1)
            }
        };
        grid.extent = &grid.extent + &one;
    }
    (!grid.extent.is_poison() && !grid.loops.is_empty()).then_some(grid)
}

/// Whether the whole body is one loop of blocks, nothing having to hold a value first.
pub(crate) fn has_blocks(prim: &Prim) -> bool {
    matches!(prim.body.as_slice(), [s] if grid_of(prim, s, &[], !prim.checked().is_empty()).is_some())
}

fn grid_of(prim: &Prim, s: &Stmt, init: &[(BufId, Literal)], is_checked: bool) -> Option<Grid> {
    if let Stmt::If(c, a, b) = s
        && let (ScalarKind::Op(op @ (Intrinsic::Lt | Intrinsic::Eq), args), [a], [b]) =
            (&c.kind, a.as_slice(), b.as_slice())
        && let [x, y] = args.as_slice()
        && init.is_empty()
    {
        // One where `x < y`, or where they are equal, otherwise nothing, on expressions of dims.
        let more = &prim.as_dim(y)? - &prim.as_dim(x)?;
        let apart = Dim::max(&more, &(Dim::int(0) - &more));
        let less = if *op == Intrinsic::Lt { more } else { Dim::int(1) - &apart };
        let less = Dim::max(&Dim::min(&less, &Dim::int(1)), &Dim::int(0));
        let (a, b) = (grid_of(prim, a, init, is_checked)?, grid_of(prim, b, init, is_checked)?);
        let extent = &(&less * &a.extent) + &(&(Dim::int(1) - &less) * &b.extent);
        let fits = !extent.is_poison() && prim.is_of_dims(&extent);
        let loops = [a.loops, b.loops].concat();
        return fits.then(|| Grid { loops, single: vec![], stops: vec![], extent });
    }
    blocks(prim, s, init, is_checked)
}

/// Whether an expression may end the run.
fn checks(s: &Scalar) -> bool {
    let mut found = false;
    s.walk(&mut |s| found |= matches!(s.kind, ScalarKind::Load { checked: true, .. }));
    found
}

/// The rounds of a loop as blocks.
fn blocks(prim: &Prim, s: &Stmt, init: &[(BufId, Literal)], is_checked: bool) -> Option<Grid> {
    let Stmt::For { var, lo, hi, mark: Mark::Independent, body, .. } = s else { return None };
    let extent = prim.trip_count(lo, hi)?;
    let (lo, hi) = (prim.as_dim(lo)?, prim.as_dim(hi)?);
    // What must hold a value first is given it by the block that owns it, so blocks must own whole rows.
    let own = |out: BufId| {
        let mut rows = lo.as_int() == Some(0) && prim.buf(out).shape.first() == Some(&hi);
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Store { buf, index, .. } = s
                    && *buf == out
                {
                    let first = index.first().and_then(|i| prim.as_dim(i));
                    rows &= first.is_some_and(|d| d.as_sym() == Some(prim.var(*var).name));
                }
            });
        });
        rows
    };
    if !init.iter().all(|(out, _)| own(*out)) {
        return None;
    }
    // Blocks whose loop has no round are not to be counted one by one, and may be more than anyone waits for. (The
    // machine sees that there is no element to be written, but whether that means no check must be said here.)
    let (last, before) = body.split_last()?;
    let silent = |s: &Stmt| matches!(s, Stmt::Set(_, value) if !checks(value));
    let inner = match last {
        Stmt::For { lo, hi, .. } if is_checked && init.is_empty() && before.iter().all(silent) => {
            prim.trip_count(lo, hi).filter(|n| n.as_int().is_none())
        }
        Stmt::For { .. }
        | Stmt::While(..)
        | Stmt::If(..)
        | Stmt::Set(..)
        | Stmt::Alloc(_)
        | Stmt::Store { .. } => None,
    };
    let extent = inner.map_or(extent.clone(), |inner| &extent * &Dim::min(&inner, &Dim::int(1)));
    Some(Grid { loops: vec![(*var, None)], single: vec![], stops: vec![], extent })
}
