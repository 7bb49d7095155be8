//! Candidates: what extraction may choose from for each class of a block, less what options and pins rule out.

use egg::Id;
use ir::graph::{Func, Pin, ValId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};

use crate::Options;
use crate::classify::bytes_of;
use crate::egraph::{BlockGraph, Merged, Origin, Use, opened};
use crate::lang::{Action, ImplDesc, ImplId, Ir};
use crate::report::rule_name;

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
    /// These operations.
    pub(crate) operations: Vec<Ir>,
    /// Which rules led to what it covers.
    pub(crate) why: Vec<String>,
    /// Of a value that is kept from when weights are loaded, its bytes.
    pub(crate) stored_bytes: Option<Expr>,
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
    pub(crate) late: Vec<bool>,
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

/// For each class of a pool the candidate chosen; none where the class cannot be computed.
pub(crate) type Choice = Vec<Option<usize>>;

/// A block with what may be chosen in it.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) b: BlockGraph,
    pub(crate) pool: Pool,
    /// By pinned node, the blocks inside.
    pub(crate) nested: Vec<Vec<Unit>>,
}

impl Unit {
    /// True if something in it may be what a name says.
    pub(crate) fn could(&self, name: &str) -> bool {
        let name = [name.to_owned()];
        self.pool.cands.iter().flatten().any(|c| named(&self.b, c, &name))
            || self.nested.iter().flatten().any(|unit| unit.could(&name[0]))
    }
}

/// What was chosen in a block and the blocks inside.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    pub(crate) choice: Choice,
    pub(crate) nested: Vec<Vec<Plan>>,
}

/// What the text asks of a function's plan, by value: [`ir::graph::Pin`]s, of which those with a name are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(pub(crate) Vec<(Pin, Vec<ValId>)>);

impl Pins {
    /// The pins of a function, as it stands in the text.
    pub(crate) fn from_func(func: &Func) -> Pins {
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

/// Gathers the candidates of a block, less what the options forbid or others are forced over.
pub(crate) fn candidates(b: &BlockGraph, options: &Options, pins: &Pins) -> Pool {
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
    let mut groups: FxHashMap<Ir, Vec<(usize, Ir, Origin)>> = FxHashMap::default();
    for (node, members) in &b.groups {
        let members = members.iter().map(|(class, op)| {
            let op = canon(op);
            let origin = origins.get(&op).cloned().unwrap_or(Origin::Program);
            (at[&b.graph.find(*class)], op, origin)
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
            for (.., origin) in &members {
                let text = origin.to_string();
                if *origin != Origin::Program && !why.contains(&text) {
                    why.push(text);
                }
            }
            let (covers, operations) = members.into_iter().map(|m| (m.0, m.1)).unzip();
            let loops = kids.contains(&i);
            let cand = Cand { node: node.clone(), kids, imp, covers, operations, why, stored_bytes: None };
            if loops { again.push(cand) } else { list.push(cand) }
        }
        cands.push(list);
        copies.push(again);
    }
    drop_forbidden(b, &options.forbid, &barred, &classes, (&mut cands, &mut refused, &mut notes));
    for &(class, val) in &b.at_load {
        let class = b.graph.find(class);
        let stored_bytes = b.graph[class].data.types.first().map(bytes_of);
        let node = Ir::Leaf(val);
        cands[at[&class]].push(Cand {
            node,
            kids: vec![],
            imp: None,
            covers: vec![],
            operations: vec![],
            why: vec![],
            stored_bytes,
        });
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

/// Takes out what options and pins forbid, each with its reason; what would leave a value without any stays.
fn drop_forbidden(
    b: &BlockGraph,
    forbid: &[String],
    barred: &[Vec<String>],
    classes: &[Id],
    (cands, refused, notes): (&mut [Vec<Cand>], &mut [Vec<String>], &mut Vec<String>),
) {
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
            named(b, c, forbid) || members.into_iter().any(|&m| named(b, c, &barred[m])) || gone(c)
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
    pub(crate) fn new(b: &BlockGraph) -> Times {
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
    let times = Times::new(b);
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

/// The plain choice: each operation of the program by itself, in the program's own terms.
pub(crate) fn baseline(b: &BlockGraph, pool: &Pool) -> Choice {
    let plain = |c: &Cand| match c.imp {
        None if c.stored_bytes.is_some() => usize::MAX,
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
