//! Horizontal fusion: kernels that read the same, or of which one reads what another makes, as one kernel with several
//! results.
//!
//! Which values a plan makes is known once it is chosen, so siblings are looked for in the cheapest plans of a few
//! points: two sums of one input, a sum and the norm of it, a product and what is done to it where both are needed.
//! Each kernel of such a plan, and what else computes its value and others of the plan besides, stands beside those
//! before it as far as loops allow ([`loop_fusion::horizontal`]). What comes of it is a class of its own whose
//! components are equal to the values, and a bundle, as what a rule of several values makes: the plan is then chosen
//! anew, and takes it where that is cheaper.

use egg::{Id, Language};
use indexmap::IndexMap;
use ir::PrimId;
use ir::loops::Prim;
use rustc_hash::{FxHashMap, FxHashSet};
use shape::Expr;

use crate::candidates::{Choice, Pool, Times};
use crate::classify::{Profile, profile};
use crate::cost::{At, Work};
use crate::egraph::{BlockGraph, Merged, Source};
use crate::extract::order;
use crate::fuse::{Fused, INPUTS, Member, add, words};
use crate::fusible::each_load;
use crate::lang::{Action, Ir, Kids, OpKey};
use crate::loop_fusion::{self, Given};
use crate::machine::Machine;

/// Values that one kernel makes.
const MEMBERS: usize = 6;
/// Ways to compute a value that are tried beside others.
const FACES: usize = 3;
/// Readers of a value that are tried.
const READERS: usize = 16;
/// Classes looked at to see whether a value needs another.
const STEPS: usize = 256;

/// A kernel: the values that it computes, its loops, what it reads, and the operations it covers.
#[derive(Clone)]
struct Face {
    values: Vec<Id>,
    prim: Prim,
    inputs: Vec<Id>,
    members: Vec<Member>,
    /// What the plan pays for the values as it is, or a family for its kernel.
    us: f64,
    span: Span,
    /// It is a product, or has one in it.
    product: bool,
    reduces: bool,
}

/// From where on, and up to where in a block something may run, as [`Times`] counts.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
}

/// Kernels that have become one.
#[derive(Clone)]
struct Family {
    /// What each of them is, in the words of what it covers and those before it do not.
    names: Vec<String>,
    whole: Face,
}

/// Adds kernels of several values of some plans; true if there are any.
pub(crate) fn horizontal_fusion(
    source: &Source<'_>,
    fused: &mut Fused,
    pool: &Pool,
    machine: &Machine,
    plans: &[(Choice, Box<At<'_>>)],
    b: &mut BlockGraph,
) -> bool {
    let mut found: Vec<Family> = Vec::new();
    for (choice, at) in plans {
        let Some(order) = order(pool, choice, &pool.roots) else { continue };
        let price = |work: &Work| work.modelled(machine, at).us;
        Plan::new(source, fused, pool, (choice, &price), &order, b).families(&mut found);
    }
    let before = b.merged.len();
    for Family { names, whole } in found {
        let results: Vec<_> = whole.values.iter().flat_map(|&v| b.graph[v].data.types.clone()).collect();
        let inputs: Kids = whole.inputs.iter().map(|&i| b.graph.find(i)).collect();
        let prim = Prim { name: format!("fused_{}", names.join("_and_")), ..whole.prim };
        let Some(tuple) = add(source, fused, (prim, inputs, whole.members), results, b) else { continue };
        for (i, &value) in whole.values.iter().enumerate() {
            let component = b.graph.add(Ir::Proj(i as u32, [tuple]));
            b.graph.union(value, component);
        }
        b.merged.push(Merged { family: Vec::new(), values: whole.values, shared: vec![tuple] });
    }
    b.graph.rebuild();
    b.merged.len() > before
}

/// What work costs at the point of a plan, by the model.
type Price<'a> = dyn Fn(&Work) -> f64 + 'a;

/// What a plan computes, and by which kernels.
struct Plan<'a> {
    source: &'a Source<'a>,
    fused: &'a Fused,
    pool: &'a Pool,
    choice: &'a Choice,
    price: &'a Price<'a>,
    b: &'a BlockGraph,
    /// The place of each class that the plan needs.
    place: FxHashMap<usize, usize>,
    /// How many steps of the plan read each class.
    readers: FxHashMap<usize, usize>,
    /// When the operands of values are there.
    times: Times,
    /// From where on, and up to where, each class may be made.
    span: FxHashMap<usize, Span>,
    /// Each kernel of the plan with others that may stand for it.
    faces: Vec<Vec<Face>>,
}

impl<'a> Plan<'a> {
    fn new(
        source: &'a Source<'a>,
        fused: &'a Fused,
        pool: &'a Pool,
        (choice, price): (&'a Choice, &'a Price<'a>),
        order: &[usize],
        b: &'a BlockGraph,
    ) -> Plan<'a> {
        let canon = |node: &Ir| {
            let mut node = node.clone();
            node.children_mut().iter_mut().for_each(|k| *k = b.graph.find(*k));
            node
        };
        let covered: FxHashMap<Ir, &Vec<(Id, Ir)>> = b.groups.iter().map(|(n, m)| (canon(n), m)).collect();
        let place: FxHashMap<usize, usize> = order.iter().enumerate().map(|(at, &c)| (c, at)).collect();
        let mut readers: FxHashMap<usize, usize> = FxHashMap::default();
        for (&class, at) in order.iter().filter_map(|c| Some((c, choice[*c]?))) {
            let kids: FxHashSet<usize> = pool.cands[class][at].kids.iter().copied().collect();
            kids.into_iter().for_each(|kid| *readers.entry(kid).or_default() += 1);
        }
        let (times, span, faces) = (Times::new(b), FxHashMap::default(), Vec::new());
        let mut plan = Plan { source, fused, pool, choice, price, b, place, readers, times, span, faces };
        plan.span = plan.spans(order);
        for &class in order {
            let Some(chosen) = choice[class] else { continue };
            let cands = &pool.cands[class];
            let face = |at: usize| plan.face(class, &cands[at].node, &covered);
            let Some(own) = face(chosen) else { continue };
            // What computes other values of the plan besides reads what these read.
            let needed = |m: usize| m != class && plan.place.contains_key(&m);
            let again = |at: &usize| *at != chosen && cands[*at].covers.iter().any(|&m| needed(m));
            let mut others: Vec<usize> = (0..cands.len()).filter(again).collect();
            others.sort_by_key(|&at| std::cmp::Reverse(cands[at].covers.len()));
            let others = others.into_iter().filter_map(face).take(FACES);
            plan.faces.push([own].into_iter().chain(others).collect());
        }
        plan
    }

    /// When each class may be made: once what it reads is there, and before what reads it runs.
    fn spans(&self, order: &[usize]) -> FxHashMap<usize, Span> {
        let mut spans: FxHashMap<usize, Span> =
            order.iter().map(|&c| (c, Span { from: 0, to: usize::MAX })).collect();
        let chosen = |c: usize| self.choice[c].map(|at| &self.pool.cands[c][at]);
        for &class in order {
            let Some(cand) = chosen(class) else { continue };
            let kids = cand.kids.iter().map(|k| spans[k].from);
            let from = kids.max().unwrap_or(0).max(self.times.earliest(self.b, &cand.node));
            spans.entry(class).and_modify(|s| s.from = from);
        }
        for (i, pinned) in self.b.pinned.iter().enumerate() {
            for used in pinned.uses.keys().filter_map(|v| self.b.vals.get(v)) {
                let class = self.pool.at[&self.b.graph.find(*used)];
                spans.entry(class).and_modify(|s| s.to = s.to.min(i));
            }
        }
        for &class in order.iter().rev() {
            let Some(cand) = chosen(class) else { continue };
            let mut to = spans[&class].to;
            to = cand.kids.iter().filter_map(|&k| self.times.latest(&chosen(k)?.node)).fold(to, usize::min);
            for kid in cand.kids.iter().chain([&class]) {
                spans.entry(*kid).and_modify(|s| s.to = s.to.min(to));
            }
        }
        spans
    }

    /// The kernel that a node of a class is, if it may stand beside another.
    fn face(&self, class: usize, node: &Ir, covered: &FxHashMap<Ir, &Vec<(Id, Ir)>>) -> Option<Face> {
        let Ir::Impl(id, kids) = node else { return None };
        let desc = self.b.graph.analysis.table.desc(*id);
        if desc.work.is_native() {
            return None;
        }
        let own = self.pool.classes[class];
        let part = |i: usize| self.b.graph.lookup(Ir::Proj(i as u32, [own])).map(|id| self.b.graph.find(id));
        let values = if desc.results.len() == 1 {
            vec![own]
        } else {
            (0..desc.results.len()).map(part).collect::<Option<_>>()?
        };
        let (prim, profile): (Prim, Profile) = match &desc.action {
            Action::Kernel(id, dims) => {
                let prim = self.source.module.prim(*id);
                (loop_fusion::instantiate_dims(prim, dims), self.source.profile(*id).clone())
            }
            Action::Fused(at) => (self.fused.prim(*at).clone(), self.fused.profile(*at).clone()),
            Action::Native(_) | Action::Library(..) => return None,
        };
        // What may end the run ends it only where its value is needed.
        if prim.is_scheduled() || profile.fallible || profile.in_place {
            return None;
        }
        let mut span = *self.span.get(&class)?;
        for kid in kids.iter().map(|&k| self.pool.at[&self.b.graph.find(k)]) {
            span.from = span.from.max(self.span.get(&kid)?.from);
            let leaf = &self.pool.cands[kid][self.choice[kid]?].node;
            span.to = span.to.min(self.times.latest(leaf).unwrap_or(usize::MAX));
        }
        let members = covered.get(node)?.iter();
        let member =
            |(class, op): &(Id, Ir)| Some((self.b.graph.find(*class), op.clone(), self.prim_of(op)?));
        let members: Vec<Member> = members.map(member).collect::<Option<_>>()?;
        let inputs = kids.iter().map(|&k| self.b.graph.find(k)).collect();
        let (product, reduces) = (profile.contraction.is_some(), profile.reduces);
        let chosen = self.pool.cands[class][self.choice[class]?].imp?;
        let us = (self.price)(&self.b.graph.analysis.table.desc(chosen).work);
        Some(Face { values, us, prim, inputs, members, span, product, reduces })
    }

    fn prim_of(&self, op: &Ir) -> Option<PrimId> {
        let Ir::Op(op, _) = op else { return None };
        let OpKey::Prim(id, _) = self.b.graph.analysis.table.key(*op) else { return None };
        Some(*id)
    }

    /// The kernels that stand beside one another, each family as large as it gets.
    fn families(&self, found: &mut Vec<Family>) {
        let mut known: FxHashSet<(Vec<Id>, Vec<Id>)> = FxHashSet::default();
        // For each value the kernel that makes it, and those that read it, in the order of the plan.
        let mut makes: FxHashMap<Id, &Face> = FxHashMap::default();
        let mut reads: IndexMap<Id, Vec<usize>> = IndexMap::new();
        for (at, faces) in self.faces.iter().enumerate() {
            makes.extend(faces[0].values.iter().map(|&v| (v, &faces[0])));
            for &input in faces.iter().flat_map(|f| &f.inputs) {
                let readers = reads.entry(input).or_default();
                if readers.last() != Some(&at) {
                    readers.push(at);
                }
            }
        }
        for (input, readers) in &reads {
            let mut open: Vec<Family> = makes.get(input).map(|face| self.alone(face)).into_iter().collect();
            for &at in readers.iter().take(READERS) {
                let faces = || self.faces[at].iter().filter(|f| f.inputs.contains(input));
                let grown = open.iter_mut().any(|family| self.grow(family, faces()));
                if let (false, Some(face)) = (grown, faces().next()) {
                    open.push(self.alone(face));
                }
            }
            for mut family in open.into_iter().filter(|f| f.names.len() > 1) {
                // What reads what they make.
                let mut next = 0;
                while let Some(made) = family.whole.values.get(next).copied() {
                    next += 1;
                    for &at in reads.get(&made).into_iter().flatten().take(READERS) {
                        let faces = self.faces[at].iter().filter(|f| f.inputs.contains(&made));
                        self.grow(&mut family, faces);
                    }
                }
                if !known.insert((family.whole.values.clone(), family.whole.inputs.clone())) {
                    continue;
                }
                found.push(family);
            }
        }
    }

    /// Adds the first of some kernels that may stand beside the others.
    fn grow<'f>(&self, family: &mut Family, faces: impl IntoIterator<Item = &'f Face>) -> bool {
        let new = faces.into_iter().find_map(|face| self.with(family, face));
        new.map(|new| *family = new).is_some()
    }

    fn alone(&self, face: &Face) -> Family {
        let names = vec![words(self.source, &face.members)];
        Family { names, whole: face.clone() }
    }

    /// A family with one more kernel beside the others.
    fn with(&self, family: &Family, face: &Face) -> Option<Family> {
        let whole = &family.whole;
        let given = |input: &Id| {
            let out = whole.values.iter().position(|v| v == input);
            let param = || whole.inputs.iter().position(|own| own == input);
            out.map(Given::Out).or_else(|| param().map(Given::Param)).unwrap_or(Given::Other)
        };
        let given: Vec<Given> = face.inputs.iter().map(given).collect();
        let made = |g: &Given| matches!(g, Given::Out(_));
        let span = Span { from: whole.span.from.max(face.span.from), to: whole.span.to.min(face.span.to) };
        // A product has tiles of its own: only what is done to each of its elements stands beside it.
        let product = whole.product || face.product;
        let apart = product && (face.product || face.reduces || !given.iter().any(made));
        let full = whole.values.len() + face.values.len() > MEMBERS;
        if full || span.from > span.to || apart || whole.values.iter().any(|v| face.values.contains(v)) {
            return None;
        }
        let others = face.inputs.iter().zip(&given).filter(|(_, g)| !made(g)).map(|(&i, _)| i);
        let others: Vec<Id> = others.collect();
        let needs = whole.values.iter().any(|&v| self.needs(&others, v))
            || face.values.iter().any(|&v| self.needs(&whole.inputs, v));
        if needs || self.is_absorbed(face, &given) {
            return None;
        }
        let same = |a: &Expr, b: &Expr| self.b.graph.analysis.equal(a, b);
        let prim = loop_fusion::horizontal(&whole.prim, &face.prim, &given, &same)?;
        let mut back = false;
        each_load(&prim.body, &mut |buf, _, _| back |= prim.outs.contains(&buf));
        let large = prim.params.len() > INPUTS || loop_fusion::nodes(&prim) > loop_fusion::MAX_NODES;
        if large || product && back {
            return None;
        }
        let new = || face.inputs.iter().zip(&given).filter(|(_, g)| **g == Given::Other).map(|(&i, _)| i);
        // What does not pay beside the others may pay beside fewer.
        let us = (self.price)(&Work::generated(&profile(&prim)));
        if us >= whole.us + face.us {
            return None;
        }
        let mut whole = Face { prim, us, span, product, ..family.whole.clone() };
        whole.inputs.extend(new());
        let more: Vec<Member> =
            face.members.iter().filter(|m| !family.whole.members.contains(m)).cloned().collect();
        let said = if more.is_empty() { &face.members } else { &more };
        let names = [family.names.clone(), vec![words(self.source, said)]].concat();
        whole.members.extend(more);
        whole.values.extend(&face.values);
        Some(Family { names, whole })
    }

    /// True if a kernel of the value alone computes what nothing but it reads.
    fn is_absorbed(&self, face: &Face, given: &[Given]) -> bool {
        let [value] = face.values[..] else { return false };
        let cands = &self.pool.cands[self.pool.at[&value]];
        let made = face.inputs.iter().zip(given).filter(|(_, g)| matches!(g, Given::Out(_)));
        made.map(|(i, _)| self.pool.at[i]).any(|input| {
            let shared = self.readers.get(&input).is_some_and(|&n| n > 1);
            let given_back = self.pool.roots.contains(&input);
            !shared && !given_back && cands.iter().any(|c| c.covers.contains(&input))
        })
    }

    /// True if the plan makes a value of another; also where telling takes too long.
    fn needs(&self, of: &[Id], value: Id) -> bool {
        let at = |id: Id| self.pool.at[&self.b.graph.find(id)];
        let value = at(value);
        let first = self.place.get(&value);
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut stack: Vec<usize> = of.iter().map(|&i| at(i)).collect();
        while let Some(class) = stack.pop() {
            if class == value || seen.len() > STEPS {
                return true;
            }
            // What is made before the value needs nothing of it.
            let before = self.place.get(&class).zip(first).is_some_and(|(here, first)| here < first);
            if before || !seen.insert(class) {
                continue;
            }
            let Some(chosen) = self.choice[class] else { continue };
            stack.extend(&self.pool.cands[class][chosen].kids);
        }
        false
    }
}
