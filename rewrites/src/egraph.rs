//! The e-graph of a block of a function, with the nodes that stay where they are.
//!
//! *Pinned* nodes keep their order: in-place updates, calls, branches and loops, checks and assertions, and every
//! primitive that can end the run, since what fails first is part of what a program means. The values they
//! read are roots of the e-graph, what they make are leaves of it. Blocks inside them are graphs of their own, in
//! which the values of the blocks around are leaves.
//!
//! A `Check` is moved up to where its symbols are all known: the run fails on the same data, earlier. What it
//! says is then a fact of that level ([`crate::lang::Ctx`]). An operation whose types do not match by what is known
//! when its symbols are (it relies on something this module does not see) is pinned too, not guessed at.

use egg::Id;
use indexmap::IndexMap;
use ir::graph::{Block, Func, Node, Op, Tolerance, Type, ValId};
use ir::loops::{Buf, BufId};
use ir::source::Span;
use ir::{Intrinsic, Module, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Sym, Verdict};

use crate::alpha_equal::{Canon, alpha_equal};
use crate::classify::{Profile, profile};
use crate::lang::{Ctx, Graph, Head, Ir, Kids, OpKey, Stage, Table};

/// What comes of using a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Use {
    /// It is as it was.
    Read,
    /// It may be gone: updated in place, or handed on to someone who owns it.
    Consume,
}

/// A node that stays where it is.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) node: Node,
    /// The values it and the blocks inside use, in order of appearance.
    pub(crate) uses: IndexMap<ValId, Use>,
    /// Of a loop that counts, its trip count.
    pub(crate) rounds: Option<Expr>,
    pub(crate) nested: Vec<BlockGraph>,
}

/// Where an e-node came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It stands in the program.
    Program,
    /// A rule of that name, read in that direction.
    Rule { name: Sym, reverse: bool },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Program => f.write_str("the program"),
            Origin::Rule { name, reverse: false } => write!(f, "rule {name}"),
            Origin::Rule { name, reverse: true } => write!(f, "rule {name}, right to left"),
        }
    }
}

/// A block as an e-graph.
#[derive(Clone, Debug)]
pub(crate) struct BlockGraph {
    pub(crate) graph: Graph,
    /// The class of each value the block mentions.
    pub(crate) vals: IndexMap<ValId, Id>,
    /// The values that pure nodes of this block define.
    pub(crate) pure: FxHashSet<ValId>,
    pub(crate) pinned: Vec<Pinned>,
    pub(crate) params: Vec<ValId>,
    pub(crate) results: Vec<ValId>,
    /// Where nodes came from that rules or the program added, in that order.
    pub(crate) origins: Vec<(Ir, Origin)>,
    /// The names of pure values.
    pub(crate) names: FxHashMap<ValId, Sym>,
    /// Where each pure value is written.
    pub(crate) spans: FxHashMap<ValId, Span>,
    /// For each implementation, the semantic nodes it covers and their classes.
    pub(crate) groups: Vec<(Ir, Vec<(Id, Ir)>)>,
    /// Implementations that could not be offered, and why, by class.
    pub(crate) refused: Vec<(Id, String)>,
    /// Values that a rule makes together.
    pub(crate) merged: Vec<Merged>,
    /// Classes of which rules may lose another part than the function says.
    pub(crate) tolerances: Vec<(Id, Tolerance)>,
    /// Classes that may be kept from when weights are loaded, and what then stands for them.
    pub(crate) at_load: Vec<(Id, ValId)>,
}

/// Values that stand beside one another and that a rule makes together.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    /// The operations of the pattern: of rules that look for the same, one has them.
    pub(crate) family: Vec<Head>,
    pub(crate) values: Vec<Id>,
    /// What several of them need and only the rule brought, operands first.
    pub(crate) shared: Vec<Id>,
}

/// What building needs to know of the module.
pub(crate) struct Source<'m> {
    pub(crate) module: &'m Module,
    pub(crate) profiles: Vec<Profile>,
    /// For each primitive the first that is the same but for its names.
    pub(crate) canon: Vec<Canon>,
}

impl<'m> Source<'m> {
    /// `products`: those of the same loops are one, whatever their names.
    pub(crate) fn new(module: &'m Module, products: bool) -> Source<'m> {
        let profiles: Vec<Profile> = module.prims.iter().map(profile).collect();
        Source { module, canon: alpha_equal(&module.prims, &profiles, products), profiles }
    }

    pub(crate) fn profile(&self, id: PrimId) -> &Profile {
        &self.profiles[id.0 as usize]
    }

    /// The semantic key of a pure operation, with its dims replaced.
    pub(crate) fn key(
        &self,
        op: &Op,
        table: &mut Table,
        results: &[Type],
        dims: &dyn Fn(&Expr) -> Expr,
    ) -> Option<OpKey> {
        let all = |args: &[Expr]| args.iter().map(dims).collect::<Vec<_>>();
        Some(match op {
            Op::Const(t) => OpKey::Const(table.constant(t)),
            Op::Dim(e) => OpKey::Dim(dims(e)),
            Op::Scalar(i) => OpKey::Scalar(*i),
            Op::Cast => OpKey::Cast(results.first()?.dtype),
            Op::Prim(id, args) => {
                let p = self.profile(*id);
                if p.fallible || p.in_place {
                    return None;
                }
                let canon = &self.canon[id.0 as usize];
                OpKey::Prim(canon.id, all(&canon.dims(args)))
            }
            Op::Extern(id, args) => {
                let e = self.module.extern_(*id);
                if e.outs.iter().any(|o| e.params.contains(o)) {
                    return None;
                }
                OpKey::Extern(*id, all(args))
            }
            Op::Call(..) | Op::If(..) | Op::While { .. } | Op::Switch(_) => return None,
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => return None,
        })
    }

    /// The types of the parameters and results of a primitive or library function at some dims.
    pub(crate) fn signature(&self, key: &OpKey) -> Option<(Vec<Type>, Vec<Type>)> {
        let (names, args, bufs, params, outs) = match key {
            OpKey::Prim(id, args) => {
                let p = self.module.prim(*id);
                (&p.dims, args, &p.bufs, &p.params, &p.outs)
            }
            OpKey::Extern(id, args) => {
                let e = self.module.extern_(*id);
                (&e.dims, args, &e.bufs, &e.params, &e.outs)
            }
            OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) | OpKey::Dim(_) => return None,
        };
        let map = substitution(names, args);
        let ty = |b: &BufId| {
            let Buf { dtype, shape, .. } = &bufs[b.0 as usize];
            Type { dtype: *dtype, shape: shape.iter().map(|d| d.subst(&map)).collect() }
        };
        Some((params.iter().map(ty).collect(), outs.iter().map(ty).collect()))
    }

    /// True if the operands fit and what the callee's `where` says is proved.
    pub(crate) fn fits(&self, ctx: &Ctx, key: &OpKey, args: &[Type]) -> bool {
        let (names, dims, facts) = match key {
            OpKey::Prim(id, dims) => {
                let p = self.module.prim(*id);
                (&p.dims, dims, &p.facts)
            }
            OpKey::Extern(id, dims) => {
                let e = self.module.extern_(*id);
                (&e.dims, dims, &e.facts)
            }
            OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) | OpKey::Dim(_) => return true,
        };
        let map = substitution(names, dims);
        let params = self.signature(key).map(|(p, _)| p).unwrap_or_default();
        params.len() == args.len()
            && params.iter().zip(args).all(|(p, a)| ctx.same_type(p, a))
            && facts.iter().all(|f| ctx.prove(&f.subst(&map)) == Verdict::Proved)
    }
}

/// The parameters that a checkpoint gives.
pub(crate) fn weights(func: &Func) -> Vec<ValId> {
    let all = func.body.params.iter().zip(&func.params);
    all.filter(|(_, p)| p.from.is_some() && !p.own).map(|(&v, _)| v).collect()
}

/// The substitution of dims by arguments.
pub(crate) fn substitution<'a>(names: &'a [Sym], args: &'a [Expr]) -> impl Fn(Sym) -> Option<Expr> + 'a {
    move |s| names.iter().position(|&n| n == s).and_then(|i| args.get(i).cloned())
}

/// Builds the graph of a function's body and of the blocks inside it. `facts` is what is known when it begins.
pub(crate) fn build(source: &Source<'_>, func: &Func, facts: &Facts) -> BlockGraph {
    let loaded: FxHashMap<ValId, Stage> = weights(func).into_iter().map(|v| (v, Stage::Load)).collect();
    let extents = loaded.keys().flat_map(|&v| &func.ty(v).shape);
    let entry_dims = extents.filter_map(Expr::as_sym).collect();
    let outer = Outer { loaded, entry_dims, parts: FxHashMap::default() };
    inside(source, func, &func.body, facts, &FxHashMap::default(), outer)
}

/// What a block knows of those around it.
struct Outer {
    /// The values that are known before the run, and the dims that tell so.
    loaded: FxHashMap<ValId, Stage>,
    entry_dims: FxHashSet<Sym>,
    /// What makes those that are parts of such ([`Stage::Part`]): the block may take parts of other things in their
    /// place, of the same weights laid out.
    parts: FxHashMap<ValId, Node>,
}

/// What a loop counts up: values of its body, and what they are below wherever it runs.
fn counted(func: &Func, op: &Op) -> FxHashMap<ValId, Expr> {
    let Op::While { cond, body } = op else { return FxHashMap::default() };
    let test = cond.nodes.iter().find(|n| n.results == cond.results);
    let Some(Node { op: Op::Scalar(Intrinsic::Lt), args, .. }) = test else { return FxHashMap::default() };
    let place = cond.params.iter().position(|p| *p == args[0]);
    let end = func.val(args[1]).dim.clone();
    place.and_then(|i| Some((*body.params.get(i)?, end?))).into_iter().collect()
}

/// The trip count of a loop that counts up by one.
fn rounds(func: &Func, node: &Node) -> Option<Expr> {
    let Op::While { body, .. } = &node.op else { return None };
    let (counter, end) = counted(func, &node.op).into_iter().next()?;
    let place = body.params.iter().position(|p| *p == counter)?;
    let next = body.nodes.iter().find(|n| n.results.first() == body.results.get(place))?;
    let Op::Scalar(Intrinsic::Add) = next.op else { return None };
    let known = |v: &ValId| func.val(*v).dim.clone();
    let by_one = next.args.contains(&counter) && next.args.iter().any(|v| known(v) == Some(Expr::int(1)));
    let start = known(node.args.get(place)?)?;
    by_one.then(|| end - start)
}

fn inside(
    source: &Source<'_>,
    func: &Func,
    block: &Block,
    facts: &Facts,
    below: &FxHashMap<ValId, Expr>,
    outer: Outer,
) -> BlockGraph {
    let Outer { loaded, entry_dims, parts } = outer;
    let order = raise_checks(block);
    let mut graph = Graph::new(Ctx { levels: vec![facts.clone()], loaded, entry_dims, ..Ctx::default() });
    learn(source.module, &mut graph.analysis, &order, below);
    let mut b = BlockGraph {
        graph,
        vals: IndexMap::new(),
        pure: FxHashSet::default(),
        pinned: Vec::new(),
        params: block.params.clone(),
        results: block.results.clone(),
        origins: Vec::new(),
        names: FxHashMap::default(),
        spans: FxHashMap::default(),
        groups: Vec::new(),
        refused: Vec::new(),
        merged: Vec::new(),
        at_load: Vec::new(),
        tolerances: Vec::new(),
    };
    for &p in &block.params {
        b.leaf(func, p);
    }
    let mut level = 0;
    let last = last_uses(&order, block);
    for (at, node) in order.iter().enumerate() {
        if !b.absorb(source, func, node) {
            let mut uses = IndexMap::new();
            owning_uses(source.module, node, &mut uses);
            // A value that is used again later has not been consumed, whoever might have.
            for (v, u) in &mut uses {
                if last.get(v).is_some_and(|&l| l > at) {
                    *u = Use::Read;
                }
                b.leaf(func, *v);
            }
            level = level.max(b.graph.analysis.level(opened(node)));
            let known = b.graph.analysis.levels[level].clone();
            let mut nested = Vec::new();
            let below = counted(func, &node.op);
            for inner in node.op.blocks() {
                let outer = b.known_before(&parts, &order[..at]);
                nested.push(inside(source, func, inner, &known, &below, outer));
            }
            for &r in &node.results {
                b.leaf(func, r);
            }
            let rounds = rounds(func, node);
            b.pinned.push(Pinned { node: (*node).clone(), uses, rounds, nested });
        }
    }
    for &r in &block.results {
        b.leaf(func, r);
    }
    let said = b.vals.iter().filter_map(|(&v, &class)| Some((class, func.val(v).tolerance.clone()?)));
    b.tolerances = said.collect();
    b.take_parts(source, func, &parts);
    b.graph.rebuild();
    b
}

/// The dims that a node makes known.
pub(crate) fn opened(node: &Node) -> impl Iterator<Item = Sym> {
    let bound = if let Op::BindDim(s, _) = &node.op { Some(*s) } else { None };
    node.opens.iter().copied().chain(bound)
}

/// The nodes of a block with each check directly after what opens the last of its symbols.
fn raise_checks(block: &Block) -> Vec<&Node> {
    let is_check = |n: &&Node| matches!(n.op, Op::Check(..));
    let others: Vec<&Node> = block.nodes.iter().filter(|n| !is_check(n)).collect();
    let opens = |n: &Node, s: Sym| opened(n).any(|o| o == s);
    let mut after: Vec<Vec<&Node>> = vec![Vec::new(); others.len() + 1];
    for check in block.nodes.iter().filter(is_check) {
        let Op::Check(pred, _) = &check.op else { continue };
        let syms = pred.syms();
        let at = others.iter().rposition(|n| syms.iter().any(|&s| opens(n, s))).map_or(0, |i| i + 1);
        after[at].push(check);
    }
    let mut order = std::mem::take(&mut after[0]);
    for (i, node) in others.into_iter().enumerate() {
        order.push(node);
        order.append(&mut after[i + 1]);
    }
    order
}

/// Notes what each node makes known, level by level.
fn learn(module: &Module, ctx: &mut Ctx, order: &[&Node], below: &FxHashMap<ValId, Expr>) {
    for node in order {
        let opened: Vec<Sym> = opened(node).collect();
        let mut facts = ctx.levels.last().cloned().unwrap_or_default();
        if !opened.is_empty() {
            for &s in &opened {
                facts.assume_dim(s);
                ctx.level_of.insert(s, ctx.levels.len());
            }
            if let Op::BindDim(sym, preds) = &node.op {
                preds.iter().for_each(|p| facts.assume(p.clone()));
                if let Some(end) = node.args.first().and_then(|v| below.get(v)) {
                    facts.assume(Pred::Lt(Expr::sym(*sym), end.clone()));
                }
            }
            if let Op::Call(f, args) = &node.op {
                let callee = module.func(*f);
                let dims = substitution(&callee.dims, args);
                let named = |s: Sym| {
                    let at = callee.exists.iter().position(|(e, _)| *e == s);
                    at.and_then(|i| node.opens.get(i)).map(|&o| Expr::sym(o)).or_else(|| dims(s))
                };
                for pred in callee.exists.iter().flat_map(|(_, preds)| preds) {
                    facts.assume(pred.subst(&named));
                }
            }
            ctx.levels.push(facts);
        } else if let Op::Check(pred, _) = &node.op {
            // It stands directly after what opened its symbols: it belongs to the newest level.
            facts.assume(pred.clone());
            if let Some(top) = ctx.levels.last_mut() {
                *top = facts;
            }
        }
    }
}

/// The last place where each value is used, as the program was written.
fn last_uses(order: &[&Node], block: &Block) -> FxHashMap<ValId, usize> {
    let mut last = FxHashMap::default();
    for (at, node) in order.iter().enumerate() {
        each_use(node, &mut |v| {
            last.insert(v, at);
        });
    }
    last.extend(block.results.iter().map(|&v| (v, order.len())));
    last
}

/// Calls `f` on each value that a node reads, in its blocks too.
pub(crate) fn each_use(node: &Node, f: &mut dyn FnMut(ValId)) {
    node.args.iter().for_each(|&v| f(v));
    for b in node.op.blocks() {
        b.nodes.iter().for_each(|n| each_use(n, f));
        b.results.iter().for_each(|&v| f(v));
    }
}

/// The outer values a node uses, and whether it might keep or change them.
fn owning_uses(module: &Module, node: &Node, uses: &mut IndexMap<ValId, Use>) {
    let owned = |i: usize| match &node.op {
        Op::Prim(id, _) => {
            let p = module.prim(*id);
            p.params.get(i).is_some_and(|b| p.outs.contains(b))
        }
        Op::Extern(id, _) => {
            let e = module.extern_(*id);
            e.params.get(i).is_some_and(|b| e.outs.contains(b))
        }
        Op::Call(f, _) => module.func(*f).params.get(i).is_some_and(|p| p.own),
        Op::While { .. } => true,
        Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::If(..) | Op::Switch(_) => false,
        Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => false,
    };
    for (i, &v) in node.args.iter().enumerate() {
        note(uses, v, if owned(i) { Use::Consume } else { Use::Read });
    }
    for b in node.op.blocks() {
        let mut inner = IndexMap::new();
        let mut defined: FxHashSet<ValId> = b.params.iter().copied().collect();
        for n in &b.nodes {
            owning_uses(module, n, &mut inner);
            defined.extend(&n.results);
        }
        // What a block gives back, someone else owns.
        b.results.iter().for_each(|&v| note(&mut inner, v, Use::Consume));
        inner.iter().filter(|(v, _)| !defined.contains(*v)).for_each(|(&v, &u)| note(uses, v, u));
    }
}

fn note(uses: &mut IndexMap<ValId, Use>, v: ValId, u: Use) {
    let known = uses.entry(v).or_insert(u);
    *known = (*known).max(u);
}

impl BlockGraph {
    /// The values that are known before the run, and the dims that tell so.
    fn known_before(&self, parts: &FxHashMap<ValId, Node>, nodes: &[&Node]) -> Outer {
        let ctx = &self.graph.analysis;
        let mut loaded = ctx.loaded.clone();
        let stage = |v: &ValId| self.vals.get(v).map(|&c| self.graph[c].data.stage);
        loaded.extend(self.vals.keys().filter_map(|v| Some((*v, stage(v).filter(|s| *s != Stage::Step)?))));
        let mut parts = parts.clone();
        for node in nodes {
            if let [v] = node.results[..]
                && self.pure.contains(&v)
                && stage(&v) == Some(Stage::Part)
            {
                parts.insert(v, (*node).clone());
            }
        }
        Outer { loaded, entry_dims: ctx.entry_dims.clone(), parts }
    }

    /// Says of what the blocks around this one know before the run how it is made, as far as this block speaks of it.
    fn take_parts(&mut self, source: &Source<'_>, func: &Func, parts: &FxHashMap<ValId, Node>) {
        let mut next = 0;
        while let Some((&v, &leaf)) = self.vals.get_index(next) {
            next += 1;
            if self.pure.contains(&v) {
                continue;
            }
            if let Some(made) = parts.get(&v).and_then(|node| self.term(source, func, node)) {
                self.graph.union(leaf, made);
            }
        }
    }

    /// The class of a value; a leaf if nothing in this block defines it by a pure node.
    fn leaf(&mut self, func: &Func, v: ValId) -> Id {
        if let Some(&id) = self.vals.get(&v) {
            return id;
        }
        self.graph.analysis.leaves.insert(v, func.ty(v).clone());
        let id = self.graph.add(Ir::Leaf(v));
        self.vals.insert(v, id);
        id
    }

    /// Takes a pure node into the e-graph; false if it must be pinned.
    fn absorb(&mut self, source: &Source<'_>, func: &Func, node: &Node) -> bool {
        let Some(id) = self.term(source, func, node) else { return false };
        for (i, &r) in node.results.iter().enumerate() {
            let id = if node.results.len() == 1 { id } else { self.graph.add(Ir::Proj(i as u32, [id])) };
            self.vals.insert(r, id);
            self.pure.insert(r);
            self.spans.insert(r, node.span);
            self.names.insert(r, func.val(r).name);
        }
        true
    }

    /// The term of a pure node; none of one that must be pinned.
    fn term(&mut self, source: &Source<'_>, func: &Func, node: &Node) -> Option<Id> {
        if !node.opens.is_empty() {
            return None;
        }
        let types: Vec<Type> = node.results.iter().map(|&r| func.ty(r).clone()).collect();
        let table = &mut self.graph.analysis.table;
        let key = source.key(&node.op, table, &types, &Expr::clone)?;
        let args: Vec<Type> = node.args.iter().map(|&a| func.ty(a).clone()).collect();
        if !source.fits(&self.graph.analysis, &key, &args) {
            return None;
        }
        // The signature writes the result types the same way at every call, so that equal calls are one node.
        let types = match source.signature(&key) {
            None => types,
            Some((_, given)) => {
                let same = given.len() == types.len()
                    && given.iter().zip(&types).all(|(a, b)| self.graph.analysis.same_type(a, b));
                if !same {
                    return None;
                }
                given
            }
        };
        let kids: Kids = node.args.iter().map(|&a| self.leaf(func, a)).collect();
        Some(self.add_op(key, types, kids, &Origin::Program))
    }

    /// Adds a semantic node and notes where it came from.
    pub(crate) fn add_op(&mut self, key: OpKey, results: Vec<Type>, kids: Kids, origin: &Origin) -> Id {
        let op = self.graph.analysis.table.op(key, results);
        let node = Ir::Op(op, kids);
        if self.graph.lookup(node.clone()).is_none() {
            self.origins.push((node.clone(), origin.clone()));
        }
        self.graph.add(node)
    }

    /// Every class, in order.
    pub(crate) fn class_ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.graph.classes().map(|c| c.id).collect();
        ids.sort_unstable();
        ids
    }

    /// The classes that must be computed: what pinned nodes use and the block gives back.
    pub(crate) fn roots(&self) -> Vec<Id> {
        let used = self.pinned.iter().flat_map(|p| p.uses.keys()).chain(&self.results);
        let mut roots: Vec<Id> = used.map(|v| self.graph.find(self.vals[v])).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Where each semantic node came from, by its present form.
    pub(crate) fn origin_of(&self) -> FxHashMap<Ir, Origin> {
        let mut found = FxHashMap::default();
        for (node, origin) in &self.origins {
            let mut node = node.clone();
            node.children_mut().iter_mut().for_each(|k| *k = self.graph.find(*k));
            found.entry(node).or_insert_with(|| origin.clone());
        }
        found
    }
}

use egg::Language as _;
