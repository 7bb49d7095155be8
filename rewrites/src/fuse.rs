//! Operator fusion, and what else computes a node: for each semantic node the plain way, and groups fused into one
//! kernel.
//!
//! A group is grown from its root towards the inputs, one producer at a time ([`crate::loop_fusion`]). What costs
//! nothing to absorb is always absorbed (a cheap map with one consumer, read once); everything else is a branch, taken
//! and not taken, and extraction decides by cost. Bounds: eight members that compute, or more where each of the others
//! computes no element twice and has no other consumer; one member that reduces (the anchor); a dear value is
//! recomputed only where each element is used once; a value with several consumers only if it is cheap.

use egg::Id;
use indexmap::IndexMap;
use ir::graph::Type;
use ir::loops::{Prim, Scalar, ScalarKind};
use ir::source::Span;
use ir::{ExternId, Intrinsic, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Sym};

use crate::Budget;
use crate::classify::{Class, NumClass, Profile, profile};
use crate::cost::{Identity, Work};
use crate::egraph::{BlockGraph, Source};
use crate::fusible::{each_load, map_form, pointwise_at, writes_once};
use crate::lang::{Action, ImplDesc, Ir, Kids, OpKey, Stage};
use crate::loop_fusion;
use crate::pattern::meaning;

/// Nodes of one class that a group may go on with: the program's and those of rules.
const WAYS: usize = 4;
/// Members of a group that compute something.
const MEMBERS: usize = 8;
/// The same, where what is absorbed is computed once whether it is or not.
const CHAIN: usize = 24;
/// Inputs of a group: kernels with more arguments spill their pointers.
pub(crate) const INPUTS: usize = 16;
/// Stores of a producer that an epilogue is copied to.
const STORES: usize = 4;

/// The fused primitives of a module, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fused {
    /// Beside each where its checks are written.
    prims: IndexMap<(Prim, Vec<Span>), Profile>,
}

impl Fused {
    pub(crate) fn prim(&self, at: usize) -> &Prim {
        self.get(at).0
    }

    pub(crate) fn profile(&self, at: usize) -> &Profile {
        self.get(at).1
    }

    fn get(&self, at: usize) -> (&Prim, &Profile) {
        let ((prim, _), profile) = self.prims.get_index(at).expect("a number that `intern` gave");
        (prim, profile)
    }

    fn intern(&mut self, prim: Prim) -> usize {
        let spans = prim.check_spans();
        let entry = self.prims.entry((prim, spans));
        let at = entry.index();
        entry.or_insert_with_key(|(prim, _)| profile(prim));
        at
    }
}

/// A library function that can be called, and why one cannot.
pub(crate) type Available<'a> = dyn Fn(ExternId) -> Result<(), String> + 'a;

/// Adds the plain implementations of every semantic node.
pub(crate) fn implement(source: &Source<'_>, available: &Available<'_>, b: &mut BlockGraph) {
    for class in b.class_ids() {
        for node in b.graph[class].nodes.clone() {
            let Ir::Op(op, kids) = node else { continue };
            let table = &b.graph.analysis.table;
            let (key, results) = (table.key(op).clone(), table.results(op).to_vec());
            let desc = match key {
                OpKey::Prim(id, dims) => {
                    let prim = source.module.prim(id);
                    let args: &[Expr] = &dims;
                    let p = source.profile(id).subst(&crate::egraph::substitution(&prim.dims, args));
                    ImplDesc {
                        name: prim.name.clone(),
                        covers: vec![prim.name.clone()],
                        num: p.num(),
                        work: Work::generated(&p),
                        identity: None,
                        action: Action::Kernel(id, dims),
                        results,
                    }
                }
                OpKey::Extern(id, dims) => {
                    let name = source.module.extern_(id).name.name().to_owned();
                    if let Err(why) = available(id) {
                        b.refused.push((class, format!("{name}: {why}")));
                        continue;
                    }
                    let p = computed(source, id, &dims);
                    ImplDesc {
                        covers: vec![name.clone()],
                        name,
                        num: NumClass::Library,
                        work: Work::library(&p),
                        identity: None,
                        action: Action::Library(id, dims),
                        results,
                    }
                }
                native @ (OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) | OpKey::Dim(_)) => {
                    let name = match &native {
                        OpKey::Scalar(i) => i.name().to_owned(),
                        OpKey::Cast(d) => d.name().to_owned(),
                        OpKey::Dim(e) => format!("dim {e}"),
                        OpKey::Const(_) | OpKey::Prim(..) | OpKey::Extern(..) => "const".to_owned(),
                    };
                    ImplDesc {
                        covers: vec![name.clone()],
                        name,
                        num: NumClass::Pointwise,
                        work: Work::native(),
                        identity: None,
                        action: Action::Native(native),
                        results,
                    }
                }
            };
            let id = b.graph.analysis.table.implementation(desc);
            let new = b.graph.add(Ir::Impl(id, kids.clone()));
            b.groups.push((Ir::Impl(id, kids.clone()), vec![(class, Ir::Op(op, kids))]));
            b.graph.union(class, new);
        }
    }
    b.graph.rebuild();
}

/// Says under what measurements of each implementation are kept; `invariant`: in a function that is.
pub(crate) fn identify(source: &Source<'_>, fused: &Fused, invariant: bool, b: &mut BlockGraph) {
    let marked = |prim: &Prim| Prim { invariant: prim.invariant || invariant, ..prim.clone() };
    for desc in b.graph.analysis.table.descs_mut() {
        desc.identity = match &desc.action {
            Action::Native(_) => None,
            Action::Kernel(..) | Action::Fused(_) | Action::Library(..) if desc.work.is_native() => None,
            Action::Kernel(id, dims) => {
                let own = Work::generated(source.profile(*id));
                Some(Identity::prim(&marked(source.module.prim(*id)), dims.clone(), own))
            }
            Action::Fused(at) => {
                let prim = marked(fused.prim(*at));
                let dims = prim.dims.iter().map(|s| Expr::sym(*s)).collect();
                Some(Identity::prim(&prim, dims, desc.work.clone()))
            }
            Action::Library(id, dims) => {
                let ext = source.module.extern_(*id);
                let own: Vec<Expr> = ext.dims.iter().map(|s| Expr::sym(*s)).collect();
                let own = Work::library(&computed(source, *id, &own));
                Some(Identity::library(ext, dims.clone(), own))
            }
        };
    }
}

/// What a library function computes.
fn computed(source: &Source<'_>, id: ExternId, dims: &[Expr]) -> Profile {
    meaning(&|p| source.profile(p).clone(), source.module, id, dims)
        .unwrap_or_else(|| unknown(source, id, dims))
}

/// A library function without a meaning: as many operations as elements move, which is a guess.
fn unknown(source: &Source<'_>, id: ExternId, dims: &[Expr]) -> Profile {
    let (params, outs) = source.signature(&OpKey::Extern(id, dims.to_vec())).unwrap_or_default();
    let size = |types: &[Type]| types.iter().map(crate::classify::bytes_of).sum::<Expr>();
    let (read_bytes, write_bytes) = (size(&params), size(&outs));
    Profile {
        class: Class::Other,
        flops: (&read_bytes + &write_bytes).floor_div(&Expr::int(4)),
        slow: Expr::int(0),
        folds: Expr::int(0),
        read_bytes,
        write_bytes,
        parallel: Expr::int(1),
        contraction: None,
        reduces: true,
        guessed: true,
        fallible: false,
        in_place: false,
    }
}

/// An operation that a kernel covers: its class, its node, its primitive.
pub(crate) type Member = (Id, Ir, PrimId);

/// A group under construction.
#[derive(Clone)]
struct Group {
    prim: Prim,
    inputs: Vec<Id>,
    /// Producers first; the root is the last.
    members: Vec<Member>,
    anchors: usize,
}

/// What it costs to absorb a producer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Price {
    Free,
    /// Work is done again for each read of an element.
    Again,
    /// Anything else that costs something.
    Dear,
}

struct Grow<'a> {
    source: &'a Source<'a>,
    b: &'a BlockGraph,
    consumers: FxHashMap<Id, FxHashSet<Id>>,
    kept: Vec<Id>,
    found: Vec<Group>,
}

/// A block of fewer operators may have as many groups as one of so many.
const FEW: usize = 500;

/// Adds fused implementations for every class, what is written before what rules add, until the budget of groups is
/// used up: then it says so.
pub(crate) fn fuse(
    source: &Source<'_>,
    fused: &mut Fused,
    budget: &Budget,
    b: &mut BlockGraph,
) -> Option<String> {
    let groups_per_class = budget.groups;
    let all = budget.members * b.pure.len().max(FEW);
    let mut left = all;
    let mut consumers: FxHashMap<Id, FxHashSet<Id>> = FxHashMap::default();
    for class in b.class_ids() {
        for node in &b.graph[class].nodes {
            if let Ir::Op(_, kids) = node {
                for &k in kids {
                    consumers.entry(b.graph.find(k)).or_default().insert(class);
                }
            }
        }
    }
    for root in b.roots() {
        consumers.entry(root).or_default().insert(outside());
    }
    consumers = at_once(b, &consumers);
    for class in b.class_ids() {
        if left == 0 {
            break;
        }
        let mut grow = Grow {
            source,
            b,
            consumers: std::mem::take(&mut consumers),
            kept: Vec::new(),
            found: Vec::new(),
        };
        let nodes = b.graph[class].nodes.iter().filter(|n| matches!(n, Ir::Op(..)));
        let starts: Vec<Group> = nodes.filter_map(|n| grow.start(class, n)).collect();
        let (mut used, ways) = (0, starts.len());
        for (i, start) in starts.into_iter().enumerate() {
            used += grow.run(start, (groups_per_class - used).div_ceil(ways - i));
        }
        let found = std::mem::take(&mut grow.found);
        consumers = std::mem::take(&mut grow.consumers);
        for group in found {
            // What is put into a body goes through all that is there.
            left = left.saturating_sub(group.members.len().pow(2));
            offer(source, fused, class, group, b);
        }
    }
    b.graph.rebuild();
    (left == 0).then(|| format!("fused no more after {all} members of groups"))
}

/// Whoever needs a root itself: one more consumer, other than any class.
fn outside() -> Id {
    Id::from(usize::MAX >> 40)
}

/// Steps from a consumer to another that are followed.
const STEPS: usize = 3;
/// More consumers are not compared.
const MANY: usize = 64;

/// The consumers of each class that one plan may have at once: one that leads to another of them alone, in a node
/// that reads neither the value itself nor what leads there in another way, is left out, since no plan has both.
fn at_once(b: &BlockGraph, all: &FxHashMap<Id, FxHashSet<Id>>) -> FxHashMap<Id, FxHashSet<Id>> {
    let both = |at: Id, one: Id, other: Id| {
        b.graph[at].nodes.iter().any(|node| {
            let Ir::Op(_, kids) = node else { return false };
            let reads = |x: Id| kids.iter().any(|&k| b.graph.find(k) == x);
            reads(one) && reads(other)
        })
    };
    // The last step of one consumer to another, and that.
    let way = |consumer: Id, of: &FxHashSet<Id>| {
        let mut step = consumer;
        for _ in 0..STEPS {
            let next = *all.get(&step).filter(|c| c.len() == 1)?.iter().next()?;
            if next == outside() || next == consumer {
                return None;
            }
            if of.contains(&next) {
                return Some((step, next));
            }
            step = next;
        }
        None
    };
    let apart = |value: Id, of: &FxHashSet<Id>| {
        let mut ways: Vec<(Id, Id)> = Vec::new();
        let mut left: Vec<Id> = of.iter().copied().collect();
        left.sort_unstable();
        // Of many one would be left out hardly ever, and each is compared with all.
        if left.len() > MANY {
            return of.clone();
        }
        left.retain(|&c| {
            let Some((step, next)) = way(c, of) else { return true };
            let beside = ways.iter().any(|w| w.1 == next && (w.0 == step || both(next, w.0, step)));
            let kept = beside || both(next, value, step);
            ways.push((step, next));
            kept
        });
        left.into_iter().collect()
    };
    all.iter().map(|(&value, of)| (value, apart(value, of))).collect()
}

/// Adds one group as an implementation of its root's class.
fn offer(source: &Source<'_>, fused: &mut Fused, class: Id, group: Group, b: &mut BlockGraph) {
    let results = b.graph[class].data.types.clone();
    let inputs = group.inputs.iter().map(|&i| b.graph.find(i)).collect();
    let prim = Prim { name: format!("fused_{}", words(source, &group.members)), ..group.prim };
    if let Some(new) = add(source, fused, (prim, inputs, group.members), results, b) {
        b.graph.union(class, new);
    }
}

/// Adds a fused primitive with what it reads and the operations it covers as a class of its own; none if it is there.
pub(crate) fn add(
    source: &Source<'_>,
    fused: &mut Fused,
    (prim, inputs, members): (Prim, Kids, Vec<Member>),
    results: Vec<Type>,
    b: &mut BlockGraph,
) -> Option<Id> {
    let mut prim = loop_fusion::close(prim);
    prim.def = Sym::new(&prim.name);
    let level = b.graph.analysis.level(prim.dims.iter().copied());
    let mut facts = Facts::new();
    prim.dims.iter().for_each(|&d| facts.assume_dim(d));
    for known in b.graph.analysis.levels[level].iter() {
        if known.syms().iter().all(|s| prim.dims.contains(s)) {
            facts.assume(known.clone());
        }
    }
    prim.facts = facts;
    let at = fused.intern(prim);
    let (prim, p) = fused.get(at);
    let covers = members.iter().map(|m| source.module.prim(m.2).name.clone()).collect();
    let desc = ImplDesc {
        action: Action::Fused(at),
        name: prim.name.clone(),
        covers,
        num: p.num(),
        work: Work::generated(p),
        identity: None,
        results,
    };
    let id = b.graph.analysis.table.implementation(desc);
    let node = Ir::Impl(id, inputs);
    if b.graph.lookup(node.clone()).is_some() {
        return None;
    }
    let new = b.graph.add(node.clone());
    b.groups.push((node, members.into_iter().map(|m| (m.0, m.1)).collect()));
    Some(new)
}

/// `matmul_add_relu`: the definitions in order; broadcasts are said only where there is nothing else.
pub(crate) fn words(source: &Source<'_>, members: &[Member]) -> String {
    let word = |id: PrimId| -> String {
        source
            .module
            .prim(id)
            .def
            .name()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect()
    };
    let loud = |id: PrimId| !matches!(source.profile(id).class, Class::Broadcast | Class::View);
    let mut words: Vec<String> = members.iter().filter(|m| loud(m.2)).map(|m| word(m.2)).collect();
    if words.is_empty() {
        words = members.iter().map(|m| word(m.2)).collect();
    }
    words.join("_")
}

/// True for a map whose indices are quotients or remainders, as those of a reshape are.
fn divides(prim: &Prim) -> bool {
    let mut found = false;
    each_load(&prim.body, &mut |_, index, _| {
        index.iter().for_each(|i| {
            i.walk(&mut |s| found |= matches!(s.kind, ScalarKind::Op(Intrinsic::Div | Intrinsic::Rem, _)))
        });
    });
    found
}

impl Grow<'_> {
    fn start(&self, class: Id, node: &Ir) -> Option<Group> {
        let (id, prim, kids) = self.placed(node)?;
        let group = Group {
            prim,
            inputs: kids,
            members: vec![(class, node.clone(), id)],
            anchors: usize::from(self.source.profile(id).reduces),
        };
        Some(self.tidy(group))
    }

    fn placed(&self, node: &Ir) -> Option<(PrimId, Prim, Vec<Id>)> {
        let Ir::Op(op, kids) = node else { return None };
        let OpKey::Prim(id, dims) = self.b.graph.analysis.table.key(*op) else { return None };
        let prim = self.source.module.prim(*id);
        // Loops that are told how to run stay as they are. What only renames elements costs nothing where it stands,
        // and where it divides to find them much anywhere else.
        if prim.is_scheduled() || self.source.profile(*id).class == Class::View && divides(prim) {
            return None;
        }
        let prim = loop_fusion::instantiate_dims(prim, dims);
        Some((*id, prim, kids.iter().map(|&k| self.b.graph.find(k)).collect()))
    }

    /// Finds up to `budget` groups that grow from one; says how many. What is open is shared among the ways to go on,
    /// so that none takes it all.
    fn run(&mut self, group: Group, budget: usize) -> usize {
        if budget == 0 {
            return 0;
        }
        let next = group.inputs.iter().enumerate().find_map(|(i, &input)| {
            if self.kept.contains(&input) {
                return None;
            }
            let ways: Vec<(Group, Price)> = self.b.graph[input]
                .nodes
                .iter()
                .filter_map(|node| self.absorb(&group, i, input, node))
                .take(WAYS)
                .collect();
            (!ways.is_empty()).then_some((input, ways))
        });
        let Some((input, ways)) = next else {
            let fused = group.members.len() > 1;
            if fused {
                self.found.push(group);
            }
            return usize::from(fused);
        };
        let free = ways.len() == 1 && ways[0].1 == Price::Free;
        // What weights alone make is at hand most often, as a whole or as a part of such.
        let loaded = match self.b.graph[input].data.stage {
            Stage::Compile | Stage::Step => false,
            Stage::Load => true,
            Stage::Part => self.b.graph[input].nodes.iter().any(|n| self.is_view(n)),
        };
        // Where one of the two is all that is left to try, it is not the one that computes elements again.
        let again = ways.iter().all(|w| w.1 == Price::Again);
        let without = (!free).then_some(group);
        let mut all: Vec<(Group, bool)> = ways.into_iter().map(|(g, _)| (g, false)).collect();
        all.extend(without.map(|g| (g, true)));
        if loaded || again {
            all.rotate_right(1);
        }
        let (mut used, ways) = (0, all.len());
        for (i, (group, keep)) in all.into_iter().enumerate() {
            let share = (budget - used).div_ceil(ways - i);
            self.kept.extend(keep.then_some(input));
            used += self.run(group, share);
            self.kept.truncate(self.kept.len() - usize::from(keep));
        }
        used
    }

    /// True for what only repeats the elements of something smaller.
    fn stretches(&self, id: PrimId) -> bool {
        let (prim, p) = (self.source.module.prim(id), self.source.profile(id));
        let idle = p.flops == Expr::int(0) && p.slow == Expr::int(0);
        match p.class {
            Class::Broadcast => true,
            Class::Elementwise => idle && matches!(&prim.params[..], [p] if prim.buf(*p).shape.is_empty()),
            Class::View | Class::Reduction | Class::Contraction | Class::Other => false,
        }
    }

    /// True for what only renames elements.
    fn is_view(&self, node: &Ir) -> bool {
        let Ir::Op(op, _) = node else { return false };
        let key = self.b.graph.analysis.table.key(*op);
        matches!(key, OpKey::Prim(id, _) if self.source.profile(*id).class == Class::View)
    }

    /// The group with the producer of an input absorbed, and what that costs.
    fn absorb(&self, group: &Group, i: usize, input: Id, node: &Ir) -> Option<(Group, Price)> {
        let (id, producer, kids) = self.placed(node)?;
        let p = self.source.profile(id);
        let stretches = self.stretches(id);
        // What only stretches something from elsewhere is absorbed again for a reader further up.
        let member = |class: &Id| group.members.iter().any(|m| m.0 == *class);
        if member(&input) && (!stretches || kids.iter().any(member)) {
            return None;
        }
        let root = group.members.last()?.0;
        let computing = group.members.iter().filter(|m| !self.stretches(m.2)).count();
        if computing >= CHAIN || producer.outs.len() != 1 || kids.contains(&root) || kids.contains(&input) {
            return None;
        }
        let dear = p.reduces || p.slow != Expr::int(0);
        let single = self.consumers.get(&input).is_none_or(|c| c.len() <= 1);
        if dear && !single || p.reduces && group.anchors > 0 {
            return None;
        }
        let at = group.prim.params[i];
        let (mut loads, mut repeated) = (0, false);
        each_load(&group.prim.body, &mut |buf, index, loops| {
            if buf == at {
                loads += 1;
                let used: Vec<_> = index.iter().filter_map(Scalar::as_var).collect();
                repeated |= loops.iter().any(|v| !used.contains(v));
            }
        });
        let consumer = map_form(&group.prim);
        let source_map = map_form(&producer).filter(|_| !p.reduces && (!dear || loads == 1 && !repeated));
        let rest = |kept: &[Id]| -> Vec<Id> {
            kept.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, &k)| k).collect()
        };
        let again = source_map.is_some() && repeated && p.flops != Expr::int(0);
        let (prim, inputs) = if let Some(map) = source_map {
            (loop_fusion::prologue(&group.prim, at, &producer, &map), [rest(&group.inputs), kids].concat())
        } else if let Some(map) = consumer.filter(|m| pointwise_at(&group.prim, m, at))
            && writes_once(&producer).is_some_and(|n| n <= STORES)
        {
            (loop_fusion::epilogue(&producer, &group.prim, at, &map), [kids, rest(&group.inputs)].concat())
        } else {
            return None;
        };
        let mut members = vec![(input, node.clone(), id)];
        members.extend(group.members.iter().filter(|m| m.0 != input).cloned());
        let anchors = group.anchors + usize::from(p.reduces);
        let grown = self.tidy(Group { prim, inputs, members, anchors });
        // Who reads what is stretched may as well read what it is stretched from.
        let once = !repeated && (stretches || single && loads == 1);
        let free = once && !dear;
        let fits = (once || computing < MEMBERS)
            && grown.inputs.len() <= INPUTS
            && loop_fusion::nodes(&grown.prim) <= loop_fusion::MAX_NODES;
        let price = if again {
            Price::Again
        } else if free {
            Price::Free
        } else {
            Price::Dear
        };
        fits.then_some((grown, price))
    }

    /// One parameter for each input.
    fn tidy(&self, mut group: Group) -> Group {
        let mut i = 0;
        while i < group.inputs.len() {
            let twin = group.inputs[..i].iter().position(|&k| k == group.inputs[i]);
            if let Some(first) = twin {
                group.prim = loop_fusion::merge_params(&group.prim, first, i);
                group.inputs.remove(i);
            } else {
                i += 1;
            }
        }
        group
    }
}
