//! Peak memory, the most that a call of a function holds at once, as an expression of its dims: a run with so
//! much passes.
//!
//! What is held is the function's arena and what it took from the pool, and while it calls something, what that needs:
//! a kernel its scratch (that of one thread: more threads are used where there is more memory), a function its own
//! need.
//!
//! - The arena is held from the first moment to the last, and counts as its regions at the worst moment, to which any
//!   placement comes close.
//! - A *site* is a statement that takes from the pool: a buffer without a region, the result of a call, a copy of what
//!   others hold. Sites are taken by families (variables that may hold the same buffer): those that are alive together
//!   need the sum of their sizes, and a family never holds more buffers than it has variables that are alive. The
//!   latter says what a loop holds, where one site is many buffers.
//!
//! Every buffer is a number of whole lines. What only running tells has no size here, and is counted ([`Peak::open`]).

use std::collections::{BTreeMap, BTreeSet};

use ir::Module;
use ir::steps::value;
use shape::{Expr as Dim, Facts, Sym, Verdict};
use tensor::LINE;
use vm::Type;

use crate::alias_sets::AliasSets;
use crate::graph::GATE;
use crate::liveness::Liveness;
use crate::rt::{self, Func, Kind, Stmt, Value, Var};
use crate::{Peak, arena};

/// More sums than this are not compared with each other.
const MOST: usize = 64;

/// What the functions of a program need, those before gates only.
pub(crate) fn all(module: &Module, rt: &rt::Module, kernels: &[vm::Kernel]) -> Vec<Peak> {
    let mut needs: Vec<Option<Need>> = vec![None; rt.funcs.len()];
    let entries: BTreeSet<_> = rt.entries.keys().copied().collect();
    let mut begun = vec![false; rt.funcs.len()];
    for root in 0..rt.funcs.len() {
        let mut stack = vec![root];
        while let Some(&at) = stack.last() {
            begun[at] = true;
            let mut next = None;
            rt.funcs[at].each(&mut |kind| {
                if let Kind::Call(f, ..) = kind
                    && !begun[*f as usize]
                {
                    next = Some(*f as usize);
                }
            });
            if let (Some(next), None) = (next, &needs[at]) {
                stack.push(next);
                continue;
            }
            if needs[at].is_none() {
                let need = Frame::new(module, rt, kernels, &rt.funcs[at]).need(&needs);
                needs[at] = Some(need);
            }
            stack.pop();
        }
    }
    let own = rt.funcs.iter().zip(needs).filter(|(f, _)| !f.name.ends_with(GATE));
    let peak = |(f, need): (&Func, Option<Need>)| {
        let need = need?;
        // From outside, what it takes counts as well, and results are handed over.
        let bytes = if entries.contains(&f.of) { need.outside } else { need.bytes };
        let peak = Peak { func: f.of, bytes, open: need.open };
        (peak.open > 0 || peak.bytes.as_int() != Some(0)).then_some(peak)
    };
    own.filter_map(peak).collect()
}

/// What a call of a function needs.
#[derive(Clone)]
struct Need {
    bytes: Dim,
    /// The same for a call by the host.
    outside: Dim,
    open: usize,
    /// By result, whether it may be memory that is not the caller's already.
    fresh: Vec<bool>,
}

/// A statement that takes from the pool.
struct Site {
    family: u32,
    from: usize,
    to: usize,
    bytes: Dim,
    /// True if rounds of a loop each have their own.
    many: bool,
    /// Those of them that lie in the arena.
    placed: usize,
}

/// A function that is looked at.
struct Frame<'a> {
    module: &'a Module,
    rt: &'a rt::Module,
    kernels: &'a [vm::Kernel],
    func: &'a Func,
    facts: &'a Facts,
    liveness: Liveness,
    aliases: AliasSets,
    spans: BTreeMap<u32, (usize, usize)>,
    ints: BTreeMap<Var, Dim>,
    /// The symbols that its call tells.
    told: BTreeSet<Sym>,
    /// Families with memory that is lent to the function, or is a constant.
    lent: BTreeSet<u32>,
    /// By family the variables that hold buffers of their own.
    holders: BTreeMap<u32, Vec<Var>>,
    /// From when to when a variable is empty within its life: let go of, and filled again in the same block.
    gaps: BTreeMap<Var, Vec<(usize, usize)>>,
    sites: Vec<Site>,
    open: usize,
}

impl<'a> Frame<'a> {
    fn new(module: &'a Module, rt: &'a rt::Module, kernels: &'a [vm::Kernel], func: &'a Func) -> Frame<'a> {
        let of = module.func(func.of);
        let liveness = Liveness::new(func);
        let aliases = arena::alias_sets(func);
        let spans = arena::spans(&liveness, &aliases);
        let mut frame = Frame {
            module,
            rt,
            kernels,
            func,
            facts: &of.facts,
            liveness,
            aliases,
            spans,
            ints: BTreeMap::new(),
            told: of.dims.iter().chain(func.known.keys()).copied().collect(),
            lent: BTreeSet::new(),
            holders: BTreeMap::new(),
            gaps: BTreeMap::new(),
            sites: Vec::new(),
            open: 0,
        };
        frame.numbers();
        frame.hold();
        let mut moments = frame.liveness.moments.clone().into_iter();
        frame.empty(&func.body, &mut moments);
        frame
    }

    /// The integers that are expressions of what the call tells.
    fn numbers(&mut self) {
        let of = self.module.func(self.func.of);
        let ints: Vec<Var> =
            self.func.params.iter().map(|p| p.0).filter(|v| self.func.ty(*v) == Type::Int).collect();
        let known = self.func.known.iter().filter_map(|(s, i)| Some((*ints.get(*i as usize)?, *s)));
        let dims = ints.iter().copied().zip(of.dims.iter().copied());
        for (v, sym) in known.chain(dims) {
            self.ints.insert(v, Dim::sym(sym));
        }
        let mut assigned: BTreeMap<Var, usize> = BTreeMap::new();
        self.func.each(&mut |kind| {
            if let Kind::Let(v, _) = kind {
                *assigned.entry(*v).or_default() += 1;
            }
        });
        let found = &mut self.ints;
        self.func.each(&mut |kind| {
            let Kind::Let(v, value) = kind else { return };
            let value = match value {
                Value::Int(i) => Some(Dim::int(*i)),
                Value::Copy(a) => found.get(a).cloned(),
                Value::Dim(op, a, b) => found.get(a).zip(found.get(b)).map(|(a, b)| Dim::of(*op, a, b)),
                Value::Float(_)
                | Value::Extent(..)
                | Value::Scalar { .. }
                | Value::Cast { .. }
                | Value::Load(_) => None,
            };
            if let Some(value) = value.filter(|_| assigned.get(v) == Some(&1)) {
                found.insert(*v, value);
            }
        });
    }

    /// Which variables hold buffers of their own, and which families what is not the function's.
    fn hold(&mut self) {
        let mut assigned: BTreeMap<Var, usize> = BTreeMap::new();
        let mut shown: BTreeMap<Var, Var> = BTreeMap::new();
        let mut none: BTreeSet<Var> = self.func.params.iter().map(|p| p.0).collect();
        self.func.each(&mut |kind| match kind {
            Kind::Share(v, from) | Kind::View(v, from, _) | Kind::Slice(v, from, ..) => {
                *assigned.entry(*v).or_default() += 1;
                shown.insert(*v, *from);
            }
            Kind::Const(v, _) => {
                self.lent.insert(self.aliases.find(v.0));
                none.insert(*v);
            }
            Kind::Let(..)
            | Kind::Alloc(..)
            | Kind::Place(..)
            | Kind::Own(..)
            | Kind::Release(_)
            | Kind::Store(..)
            | Kind::Check(..)
            | Kind::Fail(..)
            | Kind::Kernel(..)
            | Kind::Call(..)
            | Kind::If(..)
            | Kind::While { .. } => {}
        });
        for (v, own) in &self.func.params {
            if !own {
                self.lent.insert(self.aliases.find(v.0));
            }
        }
        for i in 0..self.func.vars.len() as u32 {
            let v = Var(i);
            let Some((from, to)) = self.liveness.vars[i as usize] else { continue };
            // What is shown by another for all its life is that one's.
            let within = |w: &Var| {
                assigned.get(w).is_none_or(|n| *n == 1)
                    && self.liveness.vars[w.0 as usize].is_some_and(|l| l.0 <= from && to <= l.1)
            };
            let same = assigned.get(&v) == Some(&1) && shown.get(&v).is_some_and(within);
            if matches!(self.func.ty(v), Type::Tensor(_)) && !none.contains(&v) && !same {
                self.holders.entry(self.aliases.find(i)).or_default().push(v);
            }
        }
    }

    /// Finds the gaps of variables.
    fn empty(&mut self, stmts: &[Stmt], moments: &mut std::vec::IntoIter<usize>) {
        let mut gone: BTreeMap<Var, usize> = BTreeMap::new();
        for s in stmts {
            let Some(at) = moments.next() else { return };
            match &s.kind {
                Kind::Release(v) => {
                    gone.insert(*v, at);
                }
                Kind::Share(v, _) => {
                    if let Some(from) = gone.remove(v) {
                        self.gaps.entry(*v).or_default().push((from, at));
                    }
                }
                Kind::Own(_, from) => {
                    gone.insert(*from, at);
                }
                Kind::Call(f, args, _) => {
                    let params = &self.rt.funcs[*f as usize].params;
                    let taken = args.iter().zip(params).filter(|(_, p)| p.1);
                    gone.extend(taken.map(|(a, _)| (*a, at)));
                }
                Kind::If(_, then, other) => {
                    self.empty(then, moments);
                    self.empty(other, moments);
                }
                Kind::While { head, body, .. } => {
                    self.empty(head, moments);
                    self.empty(body, moments);
                }
                Kind::Let(..)
                | Kind::Alloc(..)
                | Kind::Place(..)
                | Kind::Const(..)
                | Kind::View(..)
                | Kind::Slice(..)
                | Kind::Store(..)
                | Kind::Check(..)
                | Kind::Fail(..)
                | Kind::Kernel(..) => {}
            }
        }
    }

    /// Whether a variable may hold a buffer at a moment.
    fn is_full(&self, v: Var, at: usize) -> bool {
        let gaps = self.gaps.get(&v).into_iter().flatten();
        self.liveness.vars[v.0 as usize].is_some_and(|(from, to)| (from..=to).contains(&at))
            && !gaps.into_iter().any(|g| g.0 < at && at < g.1)
    }

    /// Whether an expression's value is told by the call.
    fn is_told(&self, e: &Dim) -> bool {
        !e.is_poison() && e.syms().iter().all(|s| self.told.contains(s))
    }

    /// The bytes of a variable's buffer.
    fn size(&self, v: Var) -> Option<Dim> {
        let Type::Tensor(ty) = self.func.ty(v) else { return None };
        let shape = &self.func.vars[v.0 as usize].shape;
        if shape.len() != usize::from(ty.rank) {
            return None;
        }
        let bytes = shape.iter().fold(Dim::int(ty.dtype.size() as i64), |all, e| &all * e);
        self.is_told(&bytes).then(|| lines(&bytes))
    }

    fn take(&mut self, v: Var, moment: usize, placed: Option<(bool, Dim)>) {
        let family = self.aliases.find(v.0);
        let span = self.spans.get(&family).copied().unwrap_or((moment, moment));
        let through = arena::through(&self.liveness, span, moment);
        let (from, to) = through.map_or((moment, span.1), |(start, end)| (start, span.1.max(end)));
        let many = through.is_some();
        let (bytes, placed) = match placed {
            Some((twin, bytes)) => (Some(bytes), 1 + usize::from(twin)),
            None => (self.size(v), 0),
        };
        match bytes {
            Some(bytes) => self.sites.push(Site { family, from, to, bytes, many, placed }),
            None => self.open += 1,
        }
    }

    /// Whether something else may hold a variable's buffer just after a moment.
    fn is_shared(&self, v: Var, moment: usize) -> bool {
        let family = self.aliases.find(v.0);
        let others = self.holders.get(&family).into_iter().flatten();
        let alive =
            |w: &Var| self.liveness.vars[w.0 as usize].is_some_and(|(from, to)| from < moment && to > moment);
        self.lent.contains(&family) || others.into_iter().any(|w| *w != v && alive(w))
    }

    fn need(mut self, needs: &[Option<Need>]) -> Need {
        let func = self.func;
        let mut moments = self.liveness.moments.clone().into_iter();
        // What calls need, and when.
        let mut calls: Vec<(usize, Option<Dim>)> = Vec::new();
        func.each(&mut |kind| {
            let Some(at) = moments.next() else { return };
            match kind {
                Kind::Alloc(v, ..) => self.take(*v, at + 1, None),
                Kind::Place(v, _, region) => {
                    let region = &func.regions[*region as usize];
                    self.take(*v, at + 1, Some((region.twin, lines(&region.bytes))));
                }
                Kind::Own(to, from) if self.is_shared(*from, at) => self.take(*to, at + 1, None),
                Kind::Kernel(k, scalars, _) => {
                    let ints: Vec<Option<&Dim>> = scalars.iter().map(|v| self.ints.get(v)).collect();
                    let sizes = self.kernels.get(*k).map(|k| [&k.abi.scratch, &k.abi.shared]);
                    let mut sizes = sizes.into_iter().flatten().filter(|s| !s.is_empty()).map(|steps| {
                        let bytes = value(steps, &ints).filter(|b| self.is_told(b));
                        bytes.map(|b| lines(&b))
                    });
                    if let Some(first) = sizes.next() {
                        let all = sizes.fold(first, |a, b| a.zip(b).map(|(a, b)| &a + &b));
                        calls.push((at, all));
                    }
                }
                Kind::Call(f, args, results) => {
                    let of = &self.rt.funcs[*f as usize];
                    let need = needs[*f as usize].as_ref();
                    let mut bytes = need.and_then(|n| self.outer(of, args, &n.bytes));
                    let mut copied = false;
                    for (arg, _) in args.iter().zip(&of.params).filter(|(_, p)| p.1) {
                        if self.is_shared(*arg, at) {
                            copied = true;
                            bytes = bytes.zip(self.size(*arg)).map(|(a, b)| &a + &b);
                        }
                    }
                    calls.push((at, bytes));
                    self.open += need.map_or(0, |n| n.open);
                    for (i, r) in results.iter().enumerate() {
                        let fresh = need.is_none_or(|n| n.fresh.get(i).is_none_or(|f| *f));
                        if matches!(func.ty(*r), Type::Tensor(_)) && (fresh || copied) {
                            self.take(*r, at + 1, None);
                        }
                    }
                }
                Kind::Own(..)
                | Kind::Let(..)
                | Kind::Const(..)
                | Kind::Share(..)
                | Kind::View(..)
                | Kind::Slice(..)
                | Kind::Release(_)
                | Kind::Store(..)
                | Kind::Check(..)
                | Kind::Fail(..)
                | Kind::If(..)
                | Kind::While { .. } => {}
            }
        });
        // A family whose buffers all have regions takes nothing from the pool.
        let pooled: BTreeSet<u32> =
            self.sites.iter().filter(|s| s.placed == 0 || s.many).map(|s| s.family).collect();
        self.sites.retain(|s| pooled.contains(&s.family));
        let mut sums = vec![Dim::int(0)];
        let starts: Vec<usize> = self.sites.iter().map(|s| s.from).collect();
        for at in starts {
            sums.push(self.pool(at));
        }
        for (at, bytes) in calls {
            match bytes {
                Some(bytes) => sums.push(&self.pool(at) + &bytes),
                None => self.open += 1,
            }
        }
        let bytes = &self.largest(self.regions()) + &self.largest(sums);
        let end = self.liveness.now;
        // Copies are made one after the other, and are the host's at once.
        let mut copies = Vec::new();
        let mut fresh = Vec::new();
        for (i, r) in func.results.iter().enumerate() {
            let family = self.aliases.find(r.0);
            fresh.push(
                self.lent.contains(&family) || self.sites.iter().any(|s| s.family == family) || self.open > 0,
            );
            let twice =
                func.results.iter().enumerate().any(|(j, o)| j != i && self.aliases.find(o.0) == family);
            let copied = self.lent.contains(&family) || twice || self.is_cut(family);
            copies.extend(self.size(*r).filter(|_| copied));
        }
        let params = func.params.iter().filter(|p| p.1).filter_map(|p| self.size(p.0));
        let given = params.fold(Dim::int(0), |all, p| &all + &p);
        let over = &self.pool(end) + &self.largest(copies);
        let outside = &self.largest(vec![bytes.clone(), over]) + &given;
        Need { bytes, outside, open: self.open, fresh }
    }

    /// Whether a family has parts of buffers in it.
    fn is_cut(&self, family: u32) -> bool {
        let mut cut = false;
        self.func.each(&mut |kind| {
            if let Kind::Slice(v, ..) = kind {
                cut |= self.aliases.find(v.0) == family;
            }
        });
        cut
    }

    /// A callee's expression over the dims of this function.
    fn outer(&self, callee: &Func, args: &[Var], e: &Dim) -> Option<Dim> {
        let of = self.module.func(callee.of);
        let ints: Vec<Var> = args
            .iter()
            .zip(&callee.params)
            .filter(|(_, p)| callee.ty(p.0) == Type::Int)
            .map(|(a, _)| *a)
            .collect();
        let place = |s: Sym| {
            let dim = of.dims.iter().position(|d| *d == s);
            dim.or_else(|| callee.known.get(&s).map(|i| *i as usize))
        };
        let map = |s: Sym| place(s).and_then(|i| self.ints.get(ints.get(i)?));
        if e.syms().iter().any(|s| map(*s).is_none()) {
            return None;
        }
        Some(e.subst(&|s| map(s).cloned())).filter(|e| self.is_told(e))
    }

    /// What is held of the pool at a moment.
    fn pool(&self, at: usize) -> Dim {
        let mut aliases: BTreeMap<u32, Vec<&Site>> = BTreeMap::new();
        for site in self.sites.iter().filter(|s| (s.from..=s.to).contains(&at)) {
            aliases.entry(site.family).or_default().push(site);
        }
        let mut sum = Dim::int(0);
        for (family, sites) in aliases {
            let holders = self.holders.get(&family).into_iter().flatten();
            let holders = holders.filter(|v| self.is_full(**v, at)).count();
            let placed: usize = sites.iter().map(|s| s.placed).sum();
            let least = holders.saturating_sub(placed) as i64;
            sum = if sites.iter().all(|s| !s.many) && sites.len() <= holders {
                sites.iter().filter(|s| s.placed == 0).fold(sum, |sum, s| &sum + &s.bytes)
            } else {
                let sizes = sites.iter().map(|s| s.bytes.clone()).collect();
                &sum + &(&self.largest(sizes) * &Dim::int(least))
            };
        }
        sum
    }

    /// The sums of regions that are alive at once, before something dies.
    fn regions(&self) -> Vec<Dim> {
        let regions = &self.func.regions;
        let mut moments: Vec<u32> = regions.iter().map(|r| r.from).collect();
        moments.sort_unstable();
        moments.dedup();
        let mut ends: Vec<u32> = regions.iter().map(|r| r.to).collect();
        ends.sort_unstable();
        let mut sums: Vec<Dim> = vec![Dim::int(0)];
        for (i, &at) in moments.iter().enumerate() {
            // If nothing dies before the next birth, the sum there is larger.
            let first_end = ends[ends.partition_point(|e| *e < at)..].first();
            if moments.get(i + 1).is_some_and(|next| first_end.is_some_and(|end| end >= next)) {
                continue;
            }
            let alive = regions.iter().filter(|r| (r.from..=r.to).contains(&at));
            sums.push(alive.fold(Dim::int(0), |sum, r| &sum + &lines(&r.bytes)));
        }
        sums
    }

    /// The largest of some sizes, without those that are proved to be no more than another.
    fn largest(&self, mut sums: Vec<Dim>) -> Dim {
        let mut seen = BTreeSet::new();
        sums.retain(|s| seen.insert(s.to_string()));
        let mut kept: Vec<Dim> = Vec::new();
        for (i, sum) in sums.iter().enumerate() {
            let less = |other: &Dim| matches!(self.facts.prove_le(sum, other), Verdict::Proved);
            let later = sums[i + 1..].iter().take(MOST).any(less);
            if !later && !kept.iter().take(MOST).any(less) {
                kept.push(sum.clone());
            }
        }
        kept.into_iter().reduce(|a, b| Dim::max(&a, &b)).unwrap_or_else(|| Dim::int(0))
    }
}

/// Bytes as whole lines, at most.
fn lines(bytes: &Dim) -> Dim {
    let line = LINE as i64;
    match bytes.as_int() {
        Some(b) => Dim::int(b.saturating_add(line - 1) / line * line),
        None if bytes.modulo(&Dim::int(line)).as_int() == Some(0) => bytes.clone(),
        None => bytes + &Dim::int(line - 1),
    }
}
