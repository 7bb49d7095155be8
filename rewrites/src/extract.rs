//! Extraction: one implementation for each class that is needed, the cheapest together.
//!
//! The cost of a plan is that of its steps, each counted once however many read it. A greedy pass gives every
//! class the node whose set of steps is cheapest (sets, so that shared steps count once); a local search then
//! flips one class at a time as long as the whole gets cheaper. Plans with a cycle are never accepted: the
//! greedy pass refuses a node whose steps need its own class, the search checks the whole.
//!
//! The dearest plan and random ones ([`Choose`]) are what the same search finds when it begins with the program's own
//! terms and costs are turned round, or drawn.

use egg::Id;
use ir::graph::{Func, Pin, ValId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};
use tensor::generate::Rng;

use crate::block::{BlockGraph, Merged, Origin, Use, opened};
use crate::classify::bytes_of;
use crate::cost::{BEYOND, Cost, cost};
use crate::lang::{Action, ImplDesc, ImplId, Ir};
use crate::measured::Basis;
use crate::report::rule_name;
use crate::{Choose, Options};

/// One node extraction may choose.
#[derive(Clone, Debug)]
pub(crate) struct Cand {
    pub(crate) node: Ir,
    /// The classes it reads, by their place in the pool.
    pub(crate) kids: Vec<usize>,
    /// None: a leaf or a component of a tuple, which costs nothing.
    pub(crate) imp: Option<ImplId>,
    /// The classes whose operations it covers.
    pub(crate) covers: Vec<usize>,
    /// Which rules led to what it covers.
    pub(crate) why: Vec<String>,
    /// Of a value that is kept from when weights are loaded, its bytes.
    pub(crate) kept: Option<Expr>,
}

/// The choices of one block.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) classes: Vec<Id>,
    pub(crate) at: FxHashMap<Id, usize>,
    pub(crate) cands: Vec<Vec<Cand>>,
    /// Steps that make a class anew from its own value, where a rule found it equal to an operand.
    pub(crate) copies: Vec<Vec<Cand>>,
    pub(crate) roots: Vec<usize>,
    pub(crate) bundles: Vec<Bundle>,
    /// For each class whether it is a kernel of several values that each have others: only [`together`] weighs those.
    late: Vec<bool>,
    /// What was refused, and why, by class.
    pub(crate) refused: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
    /// The names that pins force, by class.
    pinned: Vec<Vec<String>>,
    /// The pins about each class, and what they are.
    about: Vec<Vec<usize>>,
    pins: Pins,
}

impl Pool {
    /// True if a pin asks for what it names.
    pub(crate) fn forces(&self, pin: usize) -> bool {
        self.pins.0[pin].0.force
    }

    /// The pins that name a candidate of a class.
    pub(crate) fn pins_of(&self, b: &BlockGraph, class: usize, c: &Cand) -> Vec<usize> {
        let mut about: Vec<usize> =
            c.covers.iter().chain([&class]).flat_map(|&m| self.about[m].clone()).collect();
        about.sort_unstable();
        about.dedup();
        about.retain(|&k| named(b, c, &self.pins.0[k].0.means));
        about
    }
}

/// What the text asks of a function's plan, by value: [`ir::graph::Pin`]s, of which those with a name are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(pub(crate) Vec<(Pin, Vec<ValId>)>);

impl Pins {
    /// The pins of a function, as it stands in the text.
    pub(crate) fn of(func: &Func) -> Pins {
        let vals = |name: Sym| {
            let all = func.vals.iter().enumerate().filter(move |(_, v)| v.name == name);
            all.map(|(i, _)| ValId(i as u32)).collect()
        };
        Pins(func.pins.iter().map(|p| (p.clone(), p.value.map_or_else(Vec::new, vals))).collect())
    }

    /// The pins about each class of a block.
    fn about(&self, b: &BlockGraph, classes: &[Id]) -> Vec<Vec<usize>> {
        let mut about = vec![Vec::new(); classes.len()];
        for (k, (pin, vals)) in self.0.iter().enumerate() {
            let own: Vec<Id> = vals.iter().filter_map(|v| b.vals.get(v)).map(|&c| b.graph.find(c)).collect();
            for (list, class) in about.iter_mut().zip(classes) {
                if pin.value.is_none() || own.contains(class) {
                    list.push(k);
                }
            }
        }
        about
    }

    /// The names that pins of a verb give for each class.
    fn names(&self, about: &[Vec<usize>], force: bool) -> Vec<Vec<String>> {
        let pins = |list: &Vec<usize>| {
            let all = list.iter().map(|&k| &self.0[k].0).filter(|p| p.force == force);
            all.flat_map(|p| p.means.clone()).collect()
        };
        about.iter().map(pins).collect()
    }
}

/// Values that a rule makes together: none of them pays for what all of them need.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    /// How many they are.
    pub(crate) values: usize,
    /// The classes that several of them need, operands first.
    pub(crate) shared: Vec<usize>,
    /// Of one kernel for all of them, each value and the candidate that takes it from there.
    pub(crate) taken: Vec<(usize, usize)>,
}

/// For each class of a pool the candidate chosen; none where the class cannot be computed.
pub(crate) type Choice = Vec<Option<usize>>;

/// Gathers the candidates of a block, less what the options forbid or others are forced over.
pub(crate) fn pool(b: &BlockGraph, options: &Options, pins: &Pins) -> Pool {
    let classes = b.class_ids();
    let about = pins.about(b, &classes);
    let [pinned, barred] = [true, false].map(|force| pins.names(&about, force));
    let at: FxHashMap<Id, usize> = classes.iter().enumerate().map(|(i, &c)| (c, i)).collect();
    let origins = b.origin_of();
    let canon = |node: &Ir| {
        let mut node = node.clone();
        egg::Language::children_mut(&mut node).iter_mut().for_each(|k| *k = b.graph.find(*k));
        node
    };
    let mut groups: FxHashMap<Ir, Vec<(usize, Origin)>> = FxHashMap::default();
    for (node, members) in &b.groups {
        let members = members.iter().map(|(class, op)| {
            let origin = origins.get(&canon(op)).cloned().unwrap_or(Origin::Program);
            (at[&b.graph.find(*class)], origin)
        });
        groups.entry(canon(node)).or_insert_with(|| members.collect());
    }
    let mut refused: Vec<Vec<String>> = vec![Vec::new(); classes.len()];
    for (class, why) in &b.refused {
        let list = &mut refused[at[&b.graph.find(*class)]];
        if !list.contains(why) {
            list.push(why.clone());
        }
    }
    let mut notes = Vec::new();
    let (mut cands, mut copies): (Vec<Vec<Cand>>, Vec<Vec<Cand>>) = Default::default();
    for (i, &class) in classes.iter().enumerate() {
        let (mut list, mut again) = (Vec::new(), Vec::new());
        for node in &b.graph[class].nodes {
            let imp = match node {
                Ir::Op(..) => continue,
                Ir::Leaf(_) | Ir::Proj(..) => None,
                Ir::Impl(id, _) => Some(*id),
            };
            let kids: Vec<usize> =
                egg::Language::children(node).iter().map(|&k| at[&b.graph.find(k)]).collect();
            let members = groups.get(node).cloned().unwrap_or_default();
            let mut why: Vec<String> = Vec::new();
            for (_, origin) in &members {
                let text = origin.to_string();
                if *origin != Origin::Program && !why.contains(&text) {
                    why.push(text);
                }
            }
            let covers = members.iter().map(|m| m.0).collect();
            let loops = kids.contains(&i);
            let cand = Cand { node: node.clone(), kids, imp, covers, why, kept: None };
            if loops { again.push(cand) } else { list.push(cand) }
        }
        cands.push(list);
        copies.push(again);
    }
    // What values are taken from that one kernel makes beside others goes with that kernel.
    let (offered, rest): (Vec<usize>, Vec<usize>) =
        (0..classes.len()).partition(|&i| only_offered(b, classes[i]));
    for i in offered.iter().copied().chain(rest) {
        let gone = |c: &Cand| {
            matches!(c.node, Ir::Proj(..))
                && cands[c.kids[0]].is_empty()
                && only_offered(b, classes[c.kids[0]])
        };
        let forbidden = |c: &Cand| {
            let members = c.covers.iter().chain([&i]);
            named(b, c, &options.forbid) || members.into_iter().any(|&m| named(b, c, &barred[m])) || gone(c)
        };
        let mut lost: Vec<bool> = cands[i].iter().map(forbidden).collect();
        if !lost.contains(&true) {
            continue;
        }
        if !lost.contains(&false) && !only_offered(b, classes[i]) {
            notes.push("forbidding would leave a value without an implementation; kept".to_owned());
            lost = cands[i].iter().map(gone).collect();
        }
        for (c, _) in cands[i].iter().zip(&lost).filter(|(_, lost)| **lost) {
            let new = match c.imp {
                Some(_) => vec![format!("{}: forbidden", title(b, c))],
                None => refused[c.kids[0]].clone(),
            };
            refused[i].extend(new);
        }
        let mut lost = lost.into_iter();
        cands[i].retain(|_| !lost.next().unwrap_or(false));
    }
    for &(class, val) in &b.kept {
        let class = b.graph.find(class);
        let kept = b.graph[class].data.types.first().map(bytes_of);
        let node = Ir::Leaf(val);
        cands[at[&class]].push(Cand { node, kids: vec![], imp: None, covers: vec![], why: vec![], kept });
    }
    let roots = b.roots().iter().map(|r| at[r]).collect();
    let mut pool = Pool {
        classes,
        at,
        cands,
        copies,
        roots,
        bundles: Vec::new(),
        late: Vec::new(),
        refused,
        notes,
        pinned,
        about,
        pins: pins.clone(),
    };
    in_time(b, &mut pool);
    force(b, &mut pool, &options.force);
    pool.bundles = bundles(b, &pool);
    pool.late = vec![false; pool.classes.len()];
    for bundle in &pool.bundles {
        if let [several] = bundle.shared[..] {
            let others = |&(value, _): &(usize, usize)| pool.cands[value].iter().any(|c| c.imp.is_some());
            pool.late[several] = !bundle.taken.is_empty() && bundle.taken.iter().all(others);
        }
    }
    pool
}

fn bundles(b: &BlockGraph, pool: &Pool) -> Vec<Bundle> {
    let place = |&c: &Id| pool.at.get(&b.graph.find(c)).copied();
    let bundle = |m: &Merged| {
        let shared: Vec<usize> = m.shared.iter().filter_map(place).collect();
        let takes = |c: &Cand| matches!(c.node, Ir::Proj(..)) && shared.contains(&c.kids[0]);
        let taken = m.values.iter().filter_map(place);
        let taken = taken.filter_map(|v| Some((v, pool.cands[v].iter().position(takes)?))).collect();
        Bundle { values: m.values.len(), shared, taken }
    };
    b.merged.iter().map(bundle).collect()
}

/// When values are there, as positions in a block: 0 before the first pinned node, `i + 1` after the `i`-th.
pub(crate) struct Times {
    /// From where on a value that a pinned node makes is there,
    from: FxHashMap<ValId, usize>,
    /// up to where one is that a pinned node consumes,
    until: FxHashMap<ValId, usize>,
    /// and from where on a symbol means something.
    opened: FxHashMap<Sym, usize>,
}

impl Times {
    pub(crate) fn of(b: &BlockGraph) -> Times {
        let mut times =
            Times { from: Default::default(), until: Default::default(), opened: Default::default() };
        for (i, p) in b.pinned.iter().enumerate() {
            times.from.extend(p.node.results.iter().map(|&r| (r, i + 1)));
            let gone = p.uses.iter().filter(|(_, u)| **u == Use::Consume);
            times.until.extend(gone.map(|(&v, _)| (v, i)));
            times.opened.extend(opened(&p.node).map(|s| (s, i + 1)));
        }
        times
    }

    /// From where on a node may run whose operands are there.
    pub(crate) fn earliest(&self, b: &BlockGraph, node: &Ir) -> usize {
        match node {
            Ir::Leaf(v) => self.from.get(v).copied().unwrap_or(0),
            Ir::Impl(id, _) => {
                let types = &b.graph.analysis.table.desc(*id).results;
                let syms = types.iter().flat_map(|t| t.shape.iter().flat_map(shape::Expr::syms));
                syms.filter_map(|s| self.opened.get(&s).copied()).max().unwrap_or(0)
            }
            Ir::Op(..) | Ir::Proj(..) => 0,
        }
    }

    /// Up to where what a node stands for may be read.
    pub(crate) fn latest(&self, node: &Ir) -> Option<usize> {
        if let Ir::Leaf(v) = node { self.until.get(v).copied() } else { None }
    }
}

/// Drops candidates that read a value that is consumed before another of their operands, or one of their
/// dims, can be there. What is left may still be refused when it is emitted; this keeps that rare.
fn in_time(b: &BlockGraph, pool: &mut Pool) {
    let times = Times::of(b);
    if times.until.is_empty() && times.opened.is_empty() {
        return;
    }
    let n = pool.classes.len();
    let mut earliest: Vec<Option<usize>> = vec![None; n];
    let position = |c: &Cand, earliest: &[Option<usize>]| {
        c.kids.iter().try_fold(times.earliest(b, &c.node), |at, &k| Some(at.max(earliest[k]?)))
    };
    for _ in 0..n + 1 {
        let before = earliest.clone();
        for (at, cands) in earliest.iter_mut().zip(&pool.cands) {
            *at = cands.iter().filter_map(|c| position(c, &before)).min();
        }
        if earliest == before {
            break;
        }
    }
    let leaf_until = |k: usize| pool.cands[k].iter().filter_map(|c| times.latest(&c.node)).min();
    let limit: Vec<Option<usize>> = (0..n).map(leaf_until).collect();
    for class in 0..n {
        let late = |c: &Cand| {
            position(c, &earliest).is_none_or(|at| c.kids.iter().any(|&k| limit[k].is_some_and(|l| at > l)))
        };
        let lost: Vec<String> = pool.cands[class]
            .iter()
            .filter(|c| c.imp.is_some() && late(c))
            .map(|c| format!("{}: reads a value that is consumed before it can run", title(b, c)))
            .collect();
        pool.refused[class].extend(lost);
        pool.cands[class].retain(|c| !late(c));
    }
}

/// True for what a plan can do without: several values at once that kernels of each make too.
fn only_offered(b: &BlockGraph, class: Id) -> bool {
    b.graph[class].nodes.iter().all(|n| matches!(n, Ir::Impl(..)))
}

/// What options call a candidate.
fn title(b: &BlockGraph, c: &Cand) -> String {
    c.imp.map_or_else(String::new, |id| b.graph.analysis.table.desc(id).name.clone())
}

/// True if one of the names is the candidate's, its kind's or that of a rule behind it.
pub(crate) fn named(b: &BlockGraph, c: &Cand, names: &[String]) -> bool {
    let Some(id) = c.imp else { return false };
    let desc = b.graph.analysis.table.desc(id);
    let kind = kind(desc);
    names
        .iter()
        .any(|n| *n == desc.name || *n == kind && kind != "native" || c.why.iter().any(|w| rule_name(w) == n))
}

/// The kind of an implementation, as reports and options call it.
pub(crate) fn kind(desc: &ImplDesc) -> &'static str {
    match desc.action {
        Action::Kernel(..) | Action::Fused(_) if desc.work.is_native() => "view",
        Action::Native(_) => "native",
        Action::Kernel(..) => "kernel",
        Action::Fused(_) => "fused",
        Action::Library(..) => "library",
    }
}

/// Where a forced implementation can compute a class, nothing else may cover that class.
fn force(b: &BlockGraph, pool: &mut Pool, names: &[String]) {
    if names.is_empty() && pool.pinned.iter().all(Vec::is_empty) {
        return;
    }
    let free = (pool.cands.clone(), pool.refused.clone());
    // What a value is taken from that one kernel makes beside others is asked for where that kernel is.
    let classes = pool.classes.clone();
    let offered = |c: &Cand| match c.node {
        Ir::Proj(..) => Some(c.kids[0]).filter(|&several| only_offered(b, classes[several])),
        Ir::Leaf(_) | Ir::Op(..) | Ir::Impl(..) => None,
    };
    let own = |i: usize, c: &Cand| named(b, c, names) || named(b, c, &pool.pinned[i]);
    let asked = |i: usize, c: &Cand| {
        own(i, c) || offered(c).is_some_and(|several| pool.cands[several].iter().any(|c| own(several, c)))
    };
    let any = |i: &usize| pool.cands[*i].iter().any(|c| asked(*i, c));
    let forced: FxHashSet<usize> = (0..pool.cands.len()).filter(any).collect();
    let keeps = |i: usize, c: &Cand| {
        let mut members = c.covers.iter().chain([&i]).filter(|m| forced.contains(m));
        let given = c.imp.is_none() && offered(c).is_none();
        given || named(b, c, names) || members.all(|&m| asked(m, c))
    };
    let each = pool.cands.iter().enumerate();
    let kept: Vec<Vec<bool>> = each.map(|(i, list)| list.iter().map(|c| keeps(i, c)).collect()).collect();
    for (i, kept) in kept.into_iter().enumerate() {
        let titled = |c: &Cand| free.0[c.kids[0]].first().map_or_else(String::new, |of| title(b, of));
        let titles = pool.cands[i].iter().map(|c| if offered(c).is_some() { titled(c) } else { title(b, c) });
        let titles: Vec<String> = titles.collect();
        if kept.contains(&true) || only_offered(b, pool.classes[i]) {
            let lost = titles.iter().zip(&kept).filter(|(title, kept)| !**kept && !title.is_empty());
            pool.refused[i].extend(lost.map(|(title, _)| format!("{title}: another is forced")));
            let mut kept = kept.into_iter();
            pool.cands[i].retain(|_| kept.next().unwrap_or(true));
        }
    }
    let plain = baseline(b, pool);
    if pool.roots.iter().any(|&root| plain[root].is_none()) {
        (pool.cands, pool.refused) = free;
        pool.notes.push("forcing would leave a value without an implementation; not forced".to_owned());
    }
}

/// The cost of an implementation at a point.
pub(crate) fn priced(
    b: &BlockGraph,
    id: ImplId,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Cost {
    let desc = b.graph.analysis.table.desc(id);
    cost(options, &desc.work, desc.identity.as_ref(), point)
}

/// The cost of each candidate at a point.
pub(crate) fn costs(
    b: &BlockGraph,
    pool: &Pool,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Vec<Vec<Cost>> {
    let none = Cost { flops: 0.0, bytes: 0.0, us: 0.0, basis: Basis::Modelled };
    let held = |bytes: &Expr| {
        let bytes = bytes.eval(point).map_or(BEYOND, |x| x as f64);
        Cost { us: bytes / 1e6 * options.machine.keep_us_per_mb, ..none }
    };
    let cost = |c: &Cand| match (&c.kept, c.imp) {
        (Some(bytes), _) => held(bytes),
        (None, imp) => imp.map_or(none, |id| priced(b, id, options, point)),
    };
    pool.cands.iter().map(|list| list.iter().map(cost).collect()).collect()
}

/// Chooses a candidate for each class.
pub(crate) fn extract(b: &BlockGraph, pool: &Pool, us: &[Vec<Cost>], options: &Options) -> Choice {
    let flips = options.budget.flips;
    let mut price: Box<dyn FnMut(f64) -> f64> = match options.choose {
        Choose::Cheapest => return cheapest(pool, us, flips),
        Choose::Dearest => Box::new(|us| -us),
        Choose::Random(seed) => {
            let mut rng = Rng::new(seed);
            Box::new(move |_| rng.uniform() - 0.5)
        }
    };
    let mut us = us.to_vec();
    us.iter_mut().flatten().for_each(|c| c.us = price(c.us));
    // Where costs may be negative sets of steps have no least one; a choice without a cycle can still be improved.
    let choice = baseline(b, pool);
    let Some(mut plan) = Priced::new(pool, &us, choice.clone()) else { return choice };
    search(&mut plan, &mut flips.clone());
    plan.choice
}

/// What decides between plans at a point, the least first; `us` is what the plan costs there, infinite if it may not run.
pub(crate) fn rank(choose: Choose, plan: usize, us: f64) -> f64 {
    match choose {
        _ if us.is_infinite() => us,
        Choose::Cheapest => us,
        Choose::Dearest => 1.0 / us,
        Choose::Random(seed) => 1.0 + Rng::new(seed.wrapping_add(plan as u64)).uniform(),
    }
}

/// The candidates that cost least together; `flips` bounds the local search.
pub(crate) fn cheapest(pool: &Pool, us: &[Vec<Cost>], flips: usize) -> Choice {
    let choice = greedy(pool, us);
    let Some(mut plan) = Priced::new(pool, us, choice.clone()) else { return choice };
    let mut left = flips;
    search(&mut plan, &mut left);
    if together(&mut plan) {
        search(&mut plan, &mut left);
    }
    plan.choice
}

/// Flips one class at a time as long as the plan gets cheaper.
fn search(plan: &mut Priced<'_>, left: &mut usize) {
    let pool = plan.pool;
    loop {
        let mut improved = false;
        for class in plan.order.clone() {
            for other in 0..pool.cands[class].len() {
                if Some(other) == plan.choice[class] || plan.uses[class] == 0 || *left == 0 {
                    continue;
                }
                *left -= 1;
                improved |= plan.flip(class, other);
            }
        }
        if !improved || *left == 0 {
            return;
        }
        plan.settle();
    }
}

/// Times that all kernels of several values are looked at: where one takes a value from another, a third may be worth it.
const PASSES: usize = 3;

/// Takes bundles as wholes where that is cheaper; true if one was taken. No flip of one class finds them: each value
/// alone would pay for all. What reads what a rule makes is chosen as if each value paid its part.
fn together(plan: &mut Priced<'_>) -> bool {
    let pool = plan.pool;
    let (kernels, merges): (Vec<&Bundle>, Vec<&Bundle>) =
        pool.bundles.iter().partition(|bundle| !bundle.taken.is_empty());
    let mut taken = false;
    let mut parts = plan.us.to_vec();
    for bundle in &merges {
        for &class in &bundle.shared {
            parts[class].iter_mut().for_each(|c| c.us /= bundle.values as f64);
        }
    }
    let other = if merges.is_empty() { Choice::new() } else { greedy(pool, &parts) };
    for bundle in merges {
        // Its readers, then itself from the last operation on: the first is needed once a reader of it is.
        let reads = |class: &usize| {
            let chosen = other[*class].map(|i| &pool.cands[*class][i]);
            chosen.is_some_and(|cand| cand.kids.iter().any(|k| bundle.shared.contains(k)))
        };
        let readers = (0..pool.cands.len()).filter(|c| !bundle.shared.contains(c)).filter(reads);
        let classes = bundle.shared.iter().rev().copied().chain(readers);
        taken |= take(plan, classes.filter_map(|c| Some((c, other[c]?))).collect());
    }
    for _ in 0..PASSES {
        let before = plan.cost;
        let there = |bundle: &&&Bundle| bundle.shared.iter().all(|&c| !pool.cands[c].is_empty());
        for bundle in kernels.iter().filter(there) {
            let mut changes = bundle.taken.clone();
            changes.retain(|&(value, _)| plan.uses[value] > 0);
            // A kernel of its own does for one.
            if changes.len() > 1 {
                let kernel = bundle.shared.iter().filter(|&&c| pool.late[c]).map(|&c| (c, 0));
                taken |= take(plan, kernel.chain(changes).collect());
            }
        }
        if plan.cost == before {
            break;
        }
    }
    taken
}

/// Makes changes together if the plan gets cheaper.
fn take(plan: &mut Priced<'_>, changes: Vec<(usize, usize)>) -> bool {
    let better = plan.cost_with(&changes).is_some_and(|c| c + 1e-9 * c.abs() < plan.cost);
    if better {
        for (class, to) in changes {
            let _ = plan.change(class, Some(to));
        }
        plan.settle();
    }
    better
}

/// A set of classes.
type Set = Box<[u64]>;

/// For each class the node whose steps, each counted once, cost least.
fn greedy(pool: &Pool, us: &[Vec<Cost>]) -> Choice {
    let n = pool.classes.len();
    let empty = || vec![0u64; n.div_ceil(64)].into_boxed_slice();
    let mut choice: Choice = vec![None; n];
    // The steps of each class, and what each of them costs.
    let mut sets: Vec<Option<(f64, Set)>> = vec![None; n];
    let mut weights = vec![0.0; n];
    let mut set = empty();
    let order = upwards(pool);
    // Costs only fall, so this ends; the bound is for rounding.
    for _ in 0..n + 1 {
        let mut changed = false;
        for &class in &order {
            for (i, cand) in pool.cands[class].iter().enumerate() {
                if cand.kids.iter().any(|&k| pool.late[k]) {
                    continue;
                }
                let Some(kids) = union(&cand.kids, &sets, &weights, &mut set) else { continue };
                if set[class / 64] >> (class % 64) & 1 == 1 {
                    continue;
                }
                let sum = us[class][i].us + kids;
                if sets[class].as_ref().is_none_or(|(old, _)| sum < old - 1e-9 * old.abs()) {
                    let mut own = set.clone();
                    own[class / 64] |= 1 << (class % 64);
                    weights[class] = us[class][i].us;
                    sets[class] = Some((sum, own));
                    choice[class] = Some(i);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    choice
}

/// The steps of some classes, each counted once, into `set`, and what they cost; none where some class has none yet.
/// Those of the dearest are taken as they are, so that little is left to add up.
fn union(kids: &[usize], sets: &[Option<(f64, Set)>], weights: &[f64], set: &mut Set) -> Option<f64> {
    set.fill(0);
    let mut dearest: Option<(usize, f64)> = None;
    for &k in kids {
        let (sum, _) = sets[k].as_ref()?;
        if dearest.is_none_or(|d| d.1 < *sum) {
            dearest = Some((k, *sum));
        }
    }
    let Some((first, mut sum)) = dearest else { return Some(0.0) };
    set.copy_from_slice(&sets[first].as_ref()?.1);
    for &k in kids.iter().filter(|k| **k != first) {
        sum += join(set, &sets[k].as_ref()?.1, weights);
    }
    Some(sum)
}

/// Adds a set to another: what those weigh together that are new in it.
fn join(set: &mut Set, more: &Set, weights: &[f64]) -> f64 {
    let mut sum = 0.0;
    for ((word, more), weights) in set.iter_mut().zip(more).zip(weights.chunks(64)) {
        let mut new = more & !*word;
        *word |= more;
        while new != 0 {
            sum += weights[new.trailing_zeros() as usize];
            new &= new - 1;
        }
    }
    sum
}

/// All classes but late ones, each after those that its candidates read, but for cycles.
fn upwards(pool: &Pool) -> Vec<usize> {
    let n = pool.classes.len();
    let mut seen = vec![false; n];
    let mut order = Vec::with_capacity(n);
    for root in (0..n).filter(|&class| !pool.late[class]) {
        let mut stack = vec![(root, false)];
        while let Some((class, done)) = stack.pop() {
            if done {
                order.push(class);
            } else if !std::mem::replace(&mut seen[class], true) {
                stack.push((class, true));
                let kids = pool.cands[class].iter().flat_map(|c| &c.kids).filter(|&&k| !pool.late[k]);
                stack.extend(kids.map(|&k| (k, false)));
            }
        }
    }
    order
}

/// A plan with what it needs, how often, and what that costs: changing it touches only what differs.
pub(crate) struct Priced<'p> {
    pool: &'p Pool,
    us: &'p [Vec<Cost>],
    choice: Choice,
    /// How many steps of the plan, or roots, read each class; 0: it is not needed.
    uses: Vec<u32>,
    /// The classes needed, each after what it reads, and their places there. Classes that flips have made necessary since
    /// have none.
    order: Vec<usize>,
    place: Vec<Option<usize>>,
    cost: f64,
}

impl<'p> Priced<'p> {
    /// A choice with its counts; none if it is no plan.
    pub(crate) fn new(pool: &'p Pool, us: &'p [Vec<Cost>], choice: Choice) -> Option<Priced<'p>> {
        let order = order(pool, &choice, &pool.roots)?;
        let n = pool.classes.len();
        let (uses, place) = (vec![0; n], vec![None; n]);
        let mut plan = Priced { pool, us, choice, uses, order, place, cost: 0.0 };
        plan.settle();
        Some(plan)
    }

    /// What it costs.
    pub(crate) fn cost(&self) -> f64 {
        self.cost
    }

    /// Whether it computes a class.
    pub(crate) fn is_needed(&self, class: usize) -> bool {
        self.uses[class] > 0
    }

    fn weight(&self, class: usize) -> f64 {
        self.choice[class].map_or(0.0, |i| self.us[class][i].us)
    }

    /// Counts anew, so that neither places nor rounding drift.
    fn settle(&mut self) {
        self.order = order(self.pool, &self.choice, &self.pool.roots).expect("a flip leaves a plan");
        self.uses.fill(0);
        self.place.fill(None);
        self.pool.roots.iter().for_each(|&r| self.uses[r] += 1);
        for (i, &class) in self.order.iter().enumerate() {
            self.place[class] = Some(i);
            self.kids(class).iter().for_each(|&k| self.uses[k] += 1);
        }
        self.cost = self.order.iter().map(|&c| self.weight(c)).sum();
    }

    /// Adds a reader of each of these; false if one cannot be computed.
    fn need(&mut self, kids: &[usize]) -> bool {
        let mut stack = kids.to_vec();
        let mut fit = true;
        while let Some(class) = stack.pop() {
            self.uses[class] += 1;
            if self.uses[class] == 1 {
                self.cost += self.weight(class);
                fit &= self.choice[class].is_some();
                stack.extend(self.kids(class));
            }
        }
        fit
    }

    /// Takes away a reader of each.
    fn drop(&mut self, kids: &[usize]) {
        let mut stack = kids.to_vec();
        while let Some(class) = stack.pop() {
            self.uses[class] -= 1;
            if self.uses[class] == 0 {
                self.cost -= self.weight(class);
                stack.extend(self.kids(class));
            }
        }
    }

    fn kids(&self, class: usize) -> &'p [usize] {
        self.choice[class].map_or(&[], |i| &self.pool.cands[class][i].kids)
    }

    /// Changes what a class is computed by.
    fn change(&mut self, class: usize, to: Option<usize>) -> bool {
        let before = self.kids(class);
        if self.uses[class] == 0 {
            self.choice[class] = to;
            return true;
        }
        self.cost -= self.weight(class);
        self.choice[class] = to;
        self.cost += self.weight(class);
        let fit = self.need(self.kids(class));
        self.drop(before);
        fit
    }

    /// Whether the plan has a cycle, if it had none before these classes were changed: through one of them.
    fn loops(&self, changed: &[usize]) -> bool {
        // What has a place and was not changed reads only earlier ones.
        let first = changed.iter().filter_map(|&c| self.place[c]).min();
        changed.iter().filter(|&&c| self.uses[c] > 0).any(|&class| {
            let mut seen = FxHashSet::default();
            let mut stack = self.kids(class).to_vec();
            while let Some(k) = stack.pop() {
                if k == class {
                    return true;
                }
                let before = self.place[k].is_some_and(|p| first.is_some_and(|first| p < first));
                if !before && seen.insert(k) {
                    stack.extend(self.kids(k));
                }
            }
            false
        })
    }

    /// What the plan would cost with these candidates for these classes, the first of which it must then need; none if
    /// that is no plan.
    pub(crate) fn cost_with(&mut self, changes: &[(usize, usize)]) -> Option<f64> {
        let cost = self.cost;
        let before: Vec<(usize, Option<usize>)> = changes.iter().map(|c| (c.0, self.choice[c.0])).collect();
        let fit = changes.iter().fold(true, |fit, &(class, to)| self.change(class, Some(to)) && fit);
        let classes: Vec<usize> = changes.iter().map(|c| c.0).collect();
        let there = classes.first().is_some_and(|&c| self.uses[c] > 0);
        let answer = (fit && there && !self.loops(&classes)).then_some(self.cost);
        for (class, was) in before.into_iter().rev() {
            let _ = self.change(class, was);
        }
        self.cost = cost;
        answer
    }

    /// Chooses another candidate for a class that is needed, if the plan gets cheaper.
    fn flip(&mut self, class: usize, other: usize) -> bool {
        // A tie keeps what was there, so that the result does not depend on rounding.
        let better = self.cost_with(&[(class, other)]).is_some_and(|c| c + 1e-9 * c.abs() < self.cost);
        if better {
            let _ = self.change(class, Some(other));
            // Places stay right where every class read stands before its reader; others are found anew.
            let place = |c: usize| self.place[c];
            if !self.kids(class).iter().all(|&k| place(k).is_some() && place(k) < place(class)) {
                self.settle();
            }
        }
        better
    }
}

/// The classes a choice needs for some roots, each after what it reads; none if they form a cycle or one has
/// no candidate.
pub(crate) fn order(pool: &Pool, choice: &Choice, roots: &[usize]) -> Option<Vec<usize>> {
    let mut state = vec![0u8; pool.classes.len()];
    let mut order = Vec::new();
    for &root in roots {
        // An explicit stack: graphs may be deep.
        let mut stack = vec![(root, 0usize)];
        while let Some((class, next)) = stack.pop() {
            if next == 0 {
                match state[class] {
                    2 => continue,
                    1 => return None,
                    _ => state[class] = 1,
                }
            }
            let cand = pool.cands[class].get(choice[class]?)?;
            match cand.kids.get(next) {
                Some(&kid) => {
                    stack.push((class, next + 1));
                    if state[kid] == 1 {
                        return None;
                    }
                    if state[kid] == 0 {
                        stack.push((kid, 0));
                    }
                }
                None => {
                    state[class] = 2;
                    order.push(class);
                }
            }
        }
    }
    Some(order)
}

/// The cost of a choice at a point, for which only what is chosen is priced; none if it is no plan.
pub(crate) fn total(
    b: &BlockGraph,
    pool: &Pool,
    choice: &Choice,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Option<f64> {
    let order = order(pool, choice, &pool.roots)?;
    let chosen = |c: usize| choice[c].and_then(|i| pool.cands[c][i].imp);
    let us = |c: usize| chosen(c).map_or(0.0, |id| priced(b, id, options, point).us);
    Some(order.into_iter().map(us).sum())
}

/// The plain choice: each operation of the program by itself, in the program's own terms.
pub(crate) fn baseline(b: &BlockGraph, pool: &Pool) -> Choice {
    let plain = |c: &Cand| match c.imp {
        None if c.kept.is_some() => usize::MAX,
        None => 0,
        Some(id) => match (&b.graph.analysis.table.desc(id).action, c.why.is_empty()) {
            (Action::Native(_) | Action::Kernel(..) | Action::Library(..), true) => 1,
            (Action::Native(_) | Action::Kernel(..), false) => 2,
            (Action::Fused(_), _) => 3,
            (Action::Library(..), false) => 4,
        },
    };
    // Plain nodes first, and of equals the first whose operands are known: what the program wrote has no cycle.
    let n = pool.classes.len();
    let mut choice: Choice = vec![None; n];
    for rank in 0..=4 {
        let mut changed = true;
        while changed {
            changed = false;
            for class in 0..n {
                if choice[class].is_some() {
                    continue;
                }
                let ready = |c: &Cand| plain(c) <= rank && c.kids.iter().all(|&k| choice[k].is_some());
                if let Some(i) = pool.cands[class].iter().position(ready) {
                    choice[class] = Some(i);
                    changed = true;
                }
            }
        }
    }
    choice
}
