//! Elaboration: from a choice in the e-graph back to a block, pinned nodes in their order, and before each the steps it
//! needs.
//!
//! # Ownership
//!
//! An in-place update consumes its operand: whoever reads that buffer afterwards reads something else. In the
//! program every read of an owned value stands before what consumes it (the checker saw to that), but the
//! e-graph forgets where reads stood, makes one class of equal values, and lets one value stand for
//! another. Four rules restore the order; a choice that cannot keep them is refused and a plainer one taken.
//!
//! 1. Steps are emitted as late as possible, on demand, so that an operation never moves above the check or
//!    the loop that it stood after unless something above needs its value.
//! 2. Before a pinned node consumes a leaf, every step of the plan that reads that leaf is emitted. If one of
//!    them needs what only comes later, the choice is refused. A read of a consumed leaf is refused.
//! 3. A pure value that is consumed, or that a block inside gives back (its new owner may update it), must be a
//!    buffer of its own. Where several such values are one class, its step is emitted once for each, all at the same
//!    place, where the operands still are; the last owner takes the buffer that everyone reads, and before it is
//!    consumed rule 2 holds for it too. Equal values are merged for reading, never for owning.
//! 4. A pure value handed over is never a leaf, even where a rule found it equal to one: the program made a
//!    new buffer there, so the plan does too, while the leaf is still what it was.
//! 5. What a function gives back is only read: as in a program, a result may be an argument, and two results one
//!    buffer. The machine copies what several hold before one of them updates it, so no caller sees the difference.
//!
//! Scalars are registers, not buffers; none of this concerns them.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use ir::graph::{Block, Func, Node, Op, Type, Val, ValId};
use ir::{Module, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};

use crate::candidates::{Cand, Plan, Unit};
use crate::egraph::Use;
use crate::extract::order;
use crate::fuse::Fused;
use crate::lang::{Action, ImplId, Ir, OpKey};

/// One emitted step, for the report.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    /// The path of its block.
    pub(crate) path: Vec<(usize, usize)>,
    pub(crate) class: usize,
    /// The values it defines.
    pub(crate) values: Vec<ValId>,
    pub(crate) imp: ImplId,
    /// True if the choice has no such step: it makes a buffer of its own for a value that is there already, or what
    /// that needs.
    pub(crate) again: bool,
}

/// Emits a function's body by a plan. Fused primitives are named by numbers past the module's own.
pub(crate) fn elaborate(
    module: &Module,
    fused: &Fused,
    func: &Func,
    unit: &Unit,
    plan: &Plan,
) -> Result<(Func, Vec<Traced>), String> {
    let out = Func { vals: Vec::new(), body: Block::default(), ..func.clone() };
    let mut emitter = Emitter { module, fused, func, out, trace: Vec::new() };
    let body = emitter.block(unit, plan, &FxHashMap::default(), &[])?;
    emitter.out.body = body;
    Ok((emitter.out, emitter.trace))
}

struct Emitter<'a> {
    module: &'a Module,
    fused: &'a Fused,
    func: &'a Func,
    out: Func,
    trace: Vec<Traced>,
}

/// A block being emitted.
struct State<'a> {
    unit: &'a Unit,
    plan: &'a Plan,
    path: &'a [(usize, usize)],
    /// The classes of the plan, each after what it reads.
    order: Vec<usize>,
    rank: FxHashMap<usize, usize>,
    /// The values of the program by class.
    names: FxHashMap<usize, Vec<ValId>>,
    /// Values from outside, block parameters and results of pinned nodes.
    env: FxHashMap<ValId, ValId>,
    made: FxHashMap<usize, Vec<ValId>>,
    /// The values of a class that must have a buffer of their own besides the shared one.
    copies: IndexMap<usize, Vec<ValId>>,
    owned: FxHashMap<ValId, ValId>,
    consumed: FxHashSet<ValId>,
    /// Symbols that a node of the block has yet to open.
    closed: FxHashSet<Sym>,
    nodes: Vec<Node>,
    /// The pinned node at hand; their number: the end of the block.
    now: usize,
}

impl Emitter<'_> {
    fn block(
        &mut self,
        unit: &Unit,
        plan: &Plan,
        env: &FxHashMap<ValId, ValId>,
        path: &[(usize, usize)],
    ) -> Result<Block, String> {
        let b = &unit.b;
        let order = order(&unit.pool, &plan.choice, &unit.pool.roots).ok_or("the choice has a cycle")?;
        let mut names: FxHashMap<usize, Vec<ValId>> = FxHashMap::default();
        for (&v, &class) in &b.vals {
            if b.pure.contains(&v) {
                names.entry(unit.pool.at[&b.graph.find(class)]).or_default().push(v);
            }
        }
        let mut st = State {
            unit,
            plan,
            path,
            rank: order.iter().enumerate().map(|(i, &c)| (c, i)).collect(),
            order,
            names,
            env: env.clone(),
            made: FxHashMap::default(),
            copies: copies(self.func, unit, handed(path)),
            owned: FxHashMap::default(),
            consumed: FxHashSet::default(),
            closed: b.graph.analysis.level_of.keys().copied().collect(),
            nodes: Vec::new(),
            now: 0,
        };
        let mut params = Vec::new();
        for &p in &b.params {
            let new = self.copy_val(p);
            st.env.insert(p, new);
            params.push(new);
        }
        for (i, pinned) in b.pinned.iter().enumerate() {
            st.now = i;
            let mut given: FxHashMap<ValId, ValId> = FxHashMap::default();
            for (&v, &u) in &pinned.uses {
                let new = match u {
                    Use::Read => self.read_val(&mut st, v)?,
                    Use::Consume => self.own(&mut st, v)?,
                };
                given.insert(v, new);
            }
            for (&v, &u) in &pinned.uses {
                // A name for a buffer that is about to go: everyone who reads it goes first.
                if u == Use::Consume && !self.func.ty(v).shape.is_empty() {
                    let new = given[&v];
                    self.let_go(&mut st, v, new)?;
                    st.consumed.insert(new);
                }
            }
            let mut inner = st.env.clone();
            inner.extend(given.iter().map(|(&k, &v)| (k, v)));
            let mut blocks = Vec::new();
            for (j, nested) in unit.nested[i].iter().enumerate() {
                let mut path = path.to_vec();
                path.push((i, j));
                blocks.push(self.block(nested, &plan.nested[i][j], &inner, &path)?);
            }
            let args = pinned.node.args.iter().map(|v| given[v]).collect();
            let op = with_blocks(&pinned.node.op, blocks);
            let results: Vec<ValId> = pinned.node.results.iter().map(|&r| self.copy_val(r)).collect();
            for (&old, &new) in pinned.node.results.iter().zip(&results) {
                st.env.insert(old, new);
            }
            for s in &pinned.node.opens {
                st.closed.remove(s);
            }
            if let Op::BindDim(s, _) = &op {
                st.closed.remove(s);
            }
            st.nodes.push(Node {
                op,
                args,
                results,
                opens: pinned.node.opens.clone(),
                span: pinned.node.span,
            });
        }
        st.now = b.pinned.len();
        let mut results = Vec::new();
        for &r in &b.results {
            let new = handed(st.path) == Use::Consume || loaded(&st, r)?;
            results.push(if new && b.pure.contains(&r) {
                self.own(&mut st, r)?
            } else {
                self.read_val(&mut st, r)?
            });
        }
        Ok(Block { params, nodes: st.nodes, results })
    }

    fn copy_val(&mut self, v: ValId) -> ValId {
        self.out.vals.push(self.func.val(v).clone());
        ValId(self.out.vals.len() as u32 - 1)
    }

    /// A value of the program, to be read.
    fn read_val(&mut self, st: &mut State<'_>, v: ValId) -> Result<ValId, String> {
        let class = class_of(st.unit, v);
        if st.unit.b.pure.contains(&v) { self.read(st, class) } else { leaf(st, v) }
    }

    /// The shared value of a class, made now if it has not been.
    fn read(&mut self, st: &mut State<'_>, class: usize) -> Result<ValId, String> {
        self.need(st, class)?;
        let v = st.made.get(&class).and_then(|vals| vals.first().copied()).ok_or("a tuple is no value")?;
        if st.consumed.contains(&v) { Err("a value is read after it was consumed".into()) } else { Ok(v) }
    }

    /// Emits what a class needs and has not been emitted, in the order of the plan.
    fn need(&mut self, st: &mut State<'_>, class: usize) -> Result<(), String> {
        if st.made.contains_key(&class) {
            return Ok(());
        }
        let mut missing: Vec<usize> = if st.rank.contains_key(&class) {
            let mut ranks: BTreeSet<usize> = BTreeSet::new();
            let mut stack = vec![class];
            while let Some(c) = stack.pop() {
                if !st.made.contains_key(&c) && ranks.insert(st.rank[&c]) {
                    stack.extend(&chosen(st, c)?.kids);
                }
            }
            ranks.into_iter().map(|r| st.order[r]).collect()
        } else {
            // An operand of a copy that the plan itself does not need.
            order(&st.unit.pool, &st.plan.choice, &[class]).ok_or("a copy needs a cycle")?
        };
        missing.retain(|c| !st.made.contains_key(c));
        for class in missing {
            let at = st.plan.choice[class].ok_or("a class without a choice")?;
            let vals = self.step(st, class, &st.unit.pool.cands[class][at])?;
            st.made.insert(class, vals);
            if !is_leaf(st, class)? {
                for owner in st.copies.swap_remove(&class).unwrap_or_default() {
                    let copy = self.fresh(st, class)?;
                    st.owned.insert(owner, copy);
                }
            }
        }
        Ok(())
    }

    /// Emits one step; its operands have been made.
    fn step(&mut self, st: &mut State<'_>, class: usize, cand: &Cand) -> Result<Vec<ValId>, String> {
        let unit = st.unit;
        let id = match &cand.node {
            Ir::Leaf(v) => return Ok(vec![leaf(st, *v)?]),
            Ir::Proj(i, _) => {
                let tuple = st.made.get(&cand.kids[0]).ok_or("a component before its tuple")?;
                return Ok(vec![*tuple.get(*i as usize).ok_or("a tuple with too few components")?]);
            }
            Ir::Impl(id, _) => *id,
            Ir::Op(..) => return Err("a semantic node was chosen".into()),
        };
        let args = cand.kids.iter().map(|&k| self.read(st, k)).collect::<Result<Vec<_>, _>>()?;
        let desc = unit.b.graph.analysis.table.desc(id);
        let (op, dims): (Op, Vec<Expr>) = match &desc.action {
            Action::Kernel(p, dims) => (Op::Prim(*p, dims.clone()), dims.clone()),
            Action::Fused(i) => {
                let dims: Vec<Expr> = self.fused.prim(*i).dims.iter().map(|&d| Expr::sym(d)).collect();
                (Op::Prim(PrimId((self.module.prims.len() + i) as u32), dims.clone()), dims)
            }
            Action::Library(e, dims) => (Op::Extern(*e, dims.clone()), dims.clone()),
            Action::Native(key) => match key {
                OpKey::Scalar(i) => (Op::Scalar(*i), Vec::new()),
                OpKey::Cast(_) => (Op::Cast, Vec::new()),
                OpKey::Const(i) => (Op::Const(unit.b.graph.analysis.table.consts[*i].clone()), Vec::new()),
                OpKey::Dim(e) => (Op::Dim(e.clone()), vec![e.clone()]),
                OpKey::Prim(..) | OpKey::Extern(..) => return Err("a primitive is no instruction".into()),
            },
        };
        let closed = st.closed.clone();
        let early = |syms: Vec<Sym>| syms.iter().any(|s| closed.contains(s));
        if early(dims.iter().flat_map(Expr::syms).collect()) {
            return Err("a step needs a dim that is not known yet".into());
        }
        let mut results = Vec::new();
        let mut span = self.func.span;
        for (i, ty) in desc.results.iter().enumerate() {
            // The program's own name for the value, if it has one.
            let name = if desc.results.len() == 1 {
                st.names.get(&class).and_then(|names| names.first().copied())
            } else {
                component(unit, class, i).and_then(|c| st.names.get(&c)?.first().copied())
            };
            let mut val = Val { name: Sym::new("t"), ty: ty.clone(), dim: None, tolerance: None };
            if let Some(v) = name {
                span = unit.b.spans.get(&v).copied().unwrap_or(span);
                let original = self.func.val(v);
                val.name = original.name;
                val.dim.clone_from(&original.dim);
                if !early(syms(&original.ty)) {
                    val.ty = original.ty.clone();
                }
            }
            if let Op::Dim(e) = &op {
                val.dim = Some(e.clone());
            }
            if early(syms(&val.ty)) {
                return Err("a step's result has a dim that is not known yet".into());
            }
            self.out.vals.push(val);
            results.push(ValId(self.out.vals.len() as u32 - 1));
        }
        if !results.is_empty() {
            let (path, values) = (st.path.to_vec(), results.clone());
            let planned = st.rank.contains_key(&class) && chosen(st, class)?.imp == Some(id);
            let again = !planned || st.made.contains_key(&class);
            self.trace.push(Traced { path, class, values, imp: id, again });
        }
        st.nodes.push(Node { op, args, results: results.clone(), opens: Vec::new(), span });
        Ok(results)
    }

    /// A value that someone else will own: see the rules above.
    fn own(&mut self, st: &mut State<'_>, v: ValId) -> Result<ValId, String> {
        if !st.unit.b.pure.contains(&v) {
            return leaf(st, v);
        }
        let class = class_of(st.unit, v);
        if self.func.ty(v).shape.is_empty() {
            return self.read(st, class);
        }
        if !is_leaf(st, class)? {
            self.need(st, class)?;
        }
        if let Some(&owned) = st.owned.get(&v) {
            return if st.consumed.contains(&owned) {
                Err("a value is owned twice".into())
            } else {
                Ok(owned)
            };
        }
        let shared = !is_leaf(st, class)? && !st.copies.contains_key(&class) && readers_ready(st, class)?;
        let new = if shared { self.read(st, class)? } else { self.fresh(st, class)? };
        st.owned.insert(v, new);
        Ok(new)
    }

    /// A buffer of its own with the value of a class.
    fn fresh(&mut self, st: &mut State<'_>, class: usize) -> Result<ValId, String> {
        let unit = st.unit;
        let pool = &unit.pool;
        let new = |c: &&Cand| !matches!(c.node, Ir::Leaf(_));
        let preferred = st.plan.choice[class].map(|i| &pool.cands[class][i]);
        let ways = preferred.into_iter().chain(&pool.cands[class]).chain(&pool.copies[class]);
        let makes =
            |c: &&Cand| c.kids.iter().all(|&k| k == class || order(pool, &st.plan.choice, &[k]).is_some());
        let cand = ways.filter(new).find(makes).ok_or("a value that must be new has only an old buffer")?;
        if let Ir::Proj(i, _) = &cand.node {
            let tuple = cand.kids[0];
            let choice = st.plan.choice[tuple].ok_or("a class without a choice")?;
            let again = &pool.cands[tuple][choice];
            again.kids.iter().try_for_each(|&k| self.need(st, k))?;
            let vals = self.step(st, tuple, again)?;
            return vals.get(*i as usize).copied().ok_or_else(|| "a tuple with too few components".into());
        }
        cand.kids.iter().try_for_each(|&k| self.need(st, k))?;
        let vals = self.step(st, class, cand)?;
        vals.first().copied().ok_or_else(|| "a step without a result".into())
    }

    /// Does what must be done with a buffer before it is consumed: rules 2 and 4.
    fn let_go(&mut self, st: &mut State<'_>, v: ValId, buffer: ValId) -> Result<(), String> {
        let b = &st.unit.b;
        let class = class_of(st.unit, v);
        let holds = match st.made.get(&class) {
            Some(vals) => vals.contains(&buffer),
            None => matches!(&chosen(st, class)?.node, Ir::Leaf(w) if st.env.get(w) == Some(&buffer)),
        };
        if !holds {
            return Ok(());
        }
        let mut copy = false;
        if !b.pure.contains(&v) {
            // Values the program made anew and a rule found equal to this one.
            let twin = |w: &ValId| b.pure.contains(w) && class_of(st.unit, *w) == class;
            let later = b.pinned[st.now..].iter().flat_map(|p| p.uses.iter().map(|(&w, &u)| (w, u)));
            let given = handed(st.path);
            let later = later.chain(b.results.iter().map(|&w| (w, given)));
            let twins: Vec<(ValId, Use)> = later.filter(|(w, _)| twin(w)).collect();
            for &(w, u) in &twins {
                if u == Use::Consume && !st.owned.contains_key(&w) {
                    self.own(st, w)?;
                }
                copy |= u == Use::Read;
            }
            copy |= !readers_ready(st, class)?;
        }
        if copy {
            let copy = self.fresh(st, class)?;
            st.made.insert(class, vec![copy]);
            return Ok(());
        }
        let mut readers = Vec::new();
        for &c in &st.order {
            if !st.made.contains_key(&c) && chosen(st, c)?.kids.contains(&class) {
                readers.push(c);
            }
        }
        readers.into_iter().try_for_each(|c| self.need(st, c))
    }
}

/// The class of a component of a tuple.
pub(crate) fn component(unit: &Unit, tuple: usize, i: usize) -> Option<usize> {
    let id = unit.b.graph.lookup(Ir::Proj(i as u32, [unit.pool.classes[tuple]]))?;
    unit.pool.at.get(&unit.b.graph.find(id)).copied()
}

fn class_of(unit: &Unit, v: ValId) -> usize {
    unit.pool.at[&unit.b.graph.find(unit.b.vals[&v])]
}

fn chosen<'s>(st: &State<'s>, class: usize) -> Result<&'s Cand, String> {
    let at = st.plan.choice[class].ok_or("a class without a choice")?;
    Ok(&st.unit.pool.cands[class][at])
}

/// What giving back a value is to its buffer: rule 5.
fn handed(path: &[(usize, usize)]) -> Use {
    if path.is_empty() { Use::Read } else { Use::Consume }
}

/// True if the chosen value is kept from when weights are loaded: that buffer is the next run's too.
fn loaded(st: &State<'_>, v: ValId) -> Result<bool, String> {
    let b = &st.unit.b;
    Ok(b.pure.contains(&v)
        && matches!(chosen(st, class_of(st.unit, v))?.node, Ir::Leaf(w) if b.at_load.iter().any(|k| k.1 == w)))
}

/// True if the chosen value of a class is someone else's buffer.
fn is_leaf(st: &State<'_>, class: usize) -> Result<bool, String> {
    Ok(matches!(chosen(st, class)?.node, Ir::Leaf(_)))
}

fn leaf(st: &State<'_>, v: ValId) -> Result<ValId, String> {
    let new = *st.env.get(&v).ok_or("a value is needed before it is there")?;
    if st.consumed.contains(&new) { Err("a value is read after it was consumed".into()) } else { Ok(new) }
}

/// For each class the owners that need a buffer besides the shared one: all but the last, or all if the
/// shared one is read under a name that owns nothing. `given` is what giving back a value is to its buffer.
fn copies(func: &Func, unit: &Unit, given: Use) -> IndexMap<usize, Vec<ValId>> {
    let b = &unit.b;
    let mut owners: IndexMap<usize, Vec<ValId>> = IndexMap::new();
    let mut readers: Vec<ValId> = Vec::new();
    let buffers = |v: &ValId| b.pure.contains(v) && !func.ty(*v).shape.is_empty();
    let uses = b.pinned.iter().flat_map(|p| p.uses.iter().map(|(&v, &u)| (v, u)));
    let uses = uses.chain(b.results.iter().map(|&v| (v, given))).filter(|(v, _)| buffers(v));
    for (v, u) in uses {
        if u == Use::Read {
            readers.push(v);
        } else {
            let list = owners.entry(class_of(unit, v)).or_default();
            list.retain(|w| *w != v);
            list.push(v);
        }
    }
    let owned: FxHashSet<ValId> = b
        .vals
        .keys()
        .copied()
        .filter(|v| buffers(v) && owners.get(&class_of(unit, *v)).is_some_and(|list| list.contains(v)))
        .collect();
    let reserved: FxHashSet<usize> =
        readers.iter().filter(|v| !owned.contains(*v)).map(|&v| class_of(unit, v)).collect();
    for (class, list) in &mut owners {
        if !reserved.contains(class) {
            list.pop();
        }
    }
    owners.retain(|_, list| !list.is_empty());
    owners
}

/// True if every step that has yet to read a class could run now.
fn readers_ready(st: &State<'_>, class: usize) -> Result<bool, String> {
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    let mut stack: Vec<usize> = Vec::new();
    for &c in &st.order {
        if !st.made.contains_key(&c) && chosen(st, c)?.kids.contains(&class) {
            stack.push(c);
        }
    }
    while let Some(c) = stack.pop() {
        if st.made.contains_key(&c) || !seen.insert(c) {
            continue;
        }
        let cand = chosen(st, c)?;
        let there = match &cand.node {
            Ir::Leaf(v) => st.env.get(v).is_some_and(|new| !st.consumed.contains(new)),
            Ir::Impl(id, _) => {
                let desc = st.unit.b.graph.analysis.table.desc(*id);
                !desc.results.iter().flat_map(syms).any(|s| st.closed.contains(&s))
            }
            Ir::Op(..) | Ir::Proj(..) => true,
        };
        if !there {
            return Ok(false);
        }
        stack.extend(&cand.kids);
    }
    Ok(true)
}

fn syms(ty: &Type) -> Vec<Sym> {
    ty.shape.iter().flat_map(Expr::syms).collect()
}

fn with_blocks(op: &Op, blocks: Vec<Block>) -> Op {
    let mut blocks = blocks.into_iter();
    let mut next = || blocks.next().unwrap_or_default();
    match op {
        Op::If(..) => Op::If(next(), next()),
        Op::While { .. } => Op::While { cond: next(), body: next() },
        Op::Switch(arms) => Op::Switch(arms.iter().map(|(p, _)| (p.clone(), next())).collect()),
        Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => op.clone(),
        Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => op.clone(),
    }
}
