//! Write coverage: whether statements are sure to write all of a buffer.
//!
//! In: a primitive and a buffer. Out: the regions that are sure to be written, and what stands in the way of others.
//! What is answered with yes leaves no hole, for any dims that the primitive's facts allow; "no" only means "not
//! proved".
//!
//! A region has a [`Band`] for each axis. Going out through a loop over `v`, a band that moves by `k` with each step
//! and is `k` wide tiles `[lo at the first v, lo at the end)`: plain indices (`i`: 1 wide, moves by 1) and tiles
//! (`8*io + ii`) alike. One that is less wide leaves gaps, which its neighbours may fill: `y[2*i]` and `y[2*i + 1]`.
//! `(i + 1) % n` is the remainders of what `i + 1` is. Where two axes move with `v`, as below a diagonal, the region
//! stays one *over* `v` until a neighbour completes it: `j in 0..i` and `j in i..n`. What a condition on the position
//! leaves is what is between two [`guard`]s of it.

mod guard;

use std::collections::{HashMap, HashSet};

use ir::Intrinsic;
use ir::diag::Diagnostic;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::overflow::Size;
use ir::source::Span;
use shape::{Expr as Dim, Facts, Pred, Sym};

pub(super) use self::guard::inside;
use self::guard::{Limits, limited};
use crate::{Checker, Maybe};
use ir::depend::enter;

/// Positions of an axis: `lo` to before `hi`.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Band {
    lo: Dim,
    hi: Dim,
    /// With gaps: `width` positions of every `period` from `lo` on, where `hi` ends a whole number of periods.
    gaps: Option<(Dim, Dim)>,
    /// The remainders of these after division by it.
    modulus: Option<Dim>,
    /// What conditions leave of them.
    limits: Limits,
}

/// Bands of each axis; none: somewhere on it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Region {
    axes: Vec<Option<Band>>,
    /// For each value of these, from one dim to before another: what is inside comes first.
    over: Vec<(Sym, Dim, Dim)>,
}

/// What statements write.
#[derive(Default)]
struct WrittenRegions {
    regions: Vec<Region>,
    /// What is written and not counted on, and why.
    missed: Vec<(Span, String)>,
}

impl Band {
    fn dims(&self) -> impl Iterator<Item = &Dim> {
        let gaps = self.gaps.iter().flat_map(|(a, b)| [a, b]);
        [&self.lo, &self.hi].into_iter().chain(gaps).chain(&self.modulus).chain(self.limits.dims())
    }

    fn map(&self, f: impl Fn(&Dim) -> Dim) -> Band {
        Band {
            lo: f(&self.lo),
            hi: f(&self.hi),
            gaps: self.gaps.as_ref().map(|(a, b)| (f(a), f(b))),
            modulus: self.modulus.as_ref().map(&f),
            limits: self.limits.map(&f),
        }
    }

    fn mentions(&self, v: Sym) -> bool {
        self.dims().any(|d| speaks(d, v))
    }

    fn text(&self) -> String {
        let range = match &self.gaps {
            None => format!("{}..{}", self.lo, self.hi),
            Some((p, w)) if w.as_int() == Some(1) => format!("{}..{} by {p}", self.lo, self.hi),
            Some((p, w)) => format!("{}..{}, {w} of every {p}", self.lo, self.hi),
        };
        match &self.modulus {
            Some(m) => format!("({range}) % {m}"),
            None => range,
        }
    }
}

fn speaks(d: &Dim, v: Sym) -> bool {
    d.syms().into_iter().any(|s| s == v)
}

fn at(d: &Dim, v: Sym, value: &Dim) -> Dim {
    d.subst(&|s| (s == v).then(|| value.clone()))
}

fn proves(facts: &Facts, a: &Dim, b: &Dim) -> bool {
    a == b || facts.prove(&Pred::Le(a.clone(), b.clone())).is_proved()
}

fn proves_equal(facts: &Facts, a: &Dim, b: &Dim) -> bool {
    a == b || facts.prove(&Pred::Eq(a.clone(), b.clone())).is_proved()
}

/// What the variables of a primitive are.
#[derive(Default)]
pub(super) struct Names {
    /// The symbols whose value changes: those of variables that are set in several places.
    changing: HashSet<Sym>,
    /// Variables that come out of memory: they may be any number, and arithmetic with them may wrap.
    any: HashSet<VarId>,
}

impl Names {
    pub(super) fn new(prim: &Prim) -> Names {
        let mut names = Names::default();
        let mut once = HashSet::new();
        prim.body.iter().for_each(|s| {
            s.walk(&mut |s| match s {
                Stmt::Set(v, value) => {
                    if !names.is_position(prim, value) {
                        names.any.insert(*v);
                    }
                    if !once.insert(*v) {
                        names.changing.insert(prim.var(*v).name);
                    }
                }
                Stmt::For { var, lo, hi, .. } if [lo, hi].iter().any(|e| !names.is_position(prim, e)) => {
                    names.any.insert(*var);
                }
                Stmt::For { .. } | Stmt::Store { .. } | Stmt::If(..) | Stmt::While(..) | Stmt::Alloc(_) => {}
            });
        });
        names
    }

    /// Whether an expression is made of dims and positions alone.
    fn is_position(&self, prim: &Prim, s: &Scalar) -> bool {
        let mut known = prim.as_dim(s).is_some();
        s.walk(&mut |s| known &= !matches!(&s.kind, ScalarKind::Var(v) if self.any.contains(v)));
        known
    }
}

/// A position as a dim that means the same wherever it stands.
pub(super) fn stable_dim(prim: &Prim, s: &Scalar, names: &Names) -> Option<Dim> {
    prim.as_dim(s).filter(|d| d.syms().iter().all(|s| !names.changing.contains(s)) && divides(prim, d))
}

/// Whether what a dim divides by is never 0: where it is, nothing is known of it.
fn divides(prim: &Prim, d: &Dim) -> bool {
    d.divisors().iter().all(|by| proves(&prim.facts, &Dim::int(1), by))
}

/// The same of what is compared or counted by, in which nothing may wrap.
fn steady(prim: &Prim, s: &Scalar, names: &Names) -> Option<Dim> {
    let size = |v: VarId| if names.any.contains(&v) { Size::ANY } else { Size::POSITION };
    let d = prim.exact(s, &size, &prim.facts)?.dim;
    (d.syms().iter().all(|s| !names.changing.contains(s)) && divides(prim, &d)).then_some(d)
}

/// The positions of one element.
fn point(prim: &Prim, index: &Scalar, names: &Names) -> Option<Band> {
    let one = |d: Dim, modulus| Band {
        hi: &d + &Dim::int(1),
        lo: d,
        gaps: None,
        modulus,
        limits: Limits::default(),
    };
    if let ScalarKind::Op(Intrinsic::Rem, args) = &index.kind
        && let [a, m] = args.as_slice()
        && let (Some(a), Some(m)) = (stable_dim(prim, a, names), stable_dim(prim, m, names))
    {
        return Some(one(a, Some(m)));
    }
    stable_dim(prim, index, names).map(|d| one(d, None))
}

/// How far a band moves when `v` grows by one; none where it moves unevenly, or changes its form.
fn stride(band: &Band, v: Sym) -> Option<Dim> {
    let next = |d: &Dim| at(d, v, &(Dim::sym(v) + Dim::int(1)));
    let (a, b) = (&next(&band.lo) - &band.lo, &next(&band.hi) - &band.hi);
    let form = band.gaps.iter().flat_map(|(a, b)| [a, b]).chain(&band.modulus).chain(band.limits.dims());
    (a == b && !speaks(&a, v) && form.into_iter().all(|d| !speaks(d, v))).then_some(a)
}

/// The union of a band over `v` in `lo..hi`; none where it has no such form.
fn sweep_band(band: &Band, v: Sym, lo: &Dim, hi: &Dim, facts: &Facts) -> Option<Band> {
    let zero = Dim::int(0);
    let rounds = hi - lo;
    let Some(k) = stride(band, v) else { return touching(band, v, lo, hi, facts) };
    // From the end to the beginning, it moves up.
    let (k, first) = match proves(facts, &zero, &k) {
        true => (k, lo.clone()),
        false => (-k, hi - &Dim::int(1)),
    };
    if !proves(facts, &zero, &k) {
        return None;
    }
    let start = at(&band.lo, v, &first);
    let length = &band.hi - &band.lo;
    let end = |length: Dim| &start + &length;
    match &band.gaps {
        None if proves_equal(facts, &length, &k) => {
            Some(Band { hi: end(&k * &rounds), lo: start, ..band.clone() })
        }
        None => touching(band, v, lo, hi, facts).or_else(|| {
            let gaps = Some((k.clone(), length));
            Some(Band { hi: end(&k * &rounds), lo: start.clone(), gaps, ..band.clone() })
        }),
        // Each time the next of every period, or the next periods.
        Some((period, width)) if proves_equal(facts, &k, width) => {
            let width = width * &rounds;
            let gaps = (!proves_equal(facts, &width, period)).then(|| (period.clone(), width));
            Some(Band { hi: end(length), lo: start, gaps, ..band.clone() })
        }
        Some(_) if proves_equal(facts, &k, &length) => {
            Some(Band { hi: end(&k * &rounds), lo: start, ..band.clone() })
        }
        Some(_) => None,
    }
}

/// The union over `v` in `lo..hi` of bands each of which begins in the one before or where it ends, as the tiles of
/// an extent do of which the last is cut off.
fn touching(band: &Band, v: Sym, lo: &Dim, hi: &Dim, facts: &Facts) -> Option<Band> {
    if band.gaps.is_some() || band.modulus.iter().chain(band.limits.dims()).any(|d| speaks(d, v)) {
        return None;
    }
    let here = Dim::sym(v);
    let next = &here + &Dim::int(1);
    let mut inside = facts.clone();
    inside.assume(Pred::Le(lo.clone(), here));
    inside.assume(Pred::Lt(next.clone(), hi.clone()));
    let begins = at(&band.lo, v, &next);
    let follows = || proves(&inside, &begins, &band.hi) && proves(&inside, &band.lo, &begins);
    // Of one round, none follows.
    if !inside.is_contradictory() && !follows() {
        return None;
    }
    let swept = Band { lo: at(&band.lo, v, lo), hi: at(&band.hi, v, &(hi - &Dim::int(1))), ..band.clone() };
    // Without a round nothing is written: then the union must be empty.
    let mut none = facts.clone();
    none.assume(Pred::Le(hi.clone(), lo.clone()));
    (none.is_contradictory() || proves(&none, &swept.hi, &swept.lo)).then_some(swept)
}

/// The union over `v` in `lo..hi`; why there is none.
fn sweep(region: Region, v: Sym, lo: &Dim, hi: &Dim, facts: &Facts) -> Result<Region, String> {
    if (hi - lo).as_int() == Some(1) {
        let there = |d: &Dim| at(d, v, lo);
        let axes = region.axes.iter().map(|b| b.as_ref().map(|b| b.map(there))).collect();
        let over = region.over.iter().map(|(s, a, b)| (*s, there(a), there(b))).collect();
        return Ok(Region { axes, over });
    }
    let moving: Vec<usize> =
        (0..region.axes.len()).filter(|&a| region.axes[a].as_ref().is_some_and(|b| b.mentions(v))).collect();
    let within = region.over.iter().any(|(_, a, b)| speaks(a, v) || speaks(b, v));
    match moving.as_slice() {
        // The same elements each time: written if there is a time.
        [] if !within => match facts.prove(&Pred::Lt(lo.clone(), hi.clone())).is_proved() {
            true => Ok(region),
            false => Err(format!("the loop over `{v}` may have no round")),
        },
        [axis] if region.over.is_empty() => {
            let band = region.axes[*axis].as_ref().expect("it moves");
            let Some(swept) = sweep_band(band, v, lo, hi, facts) else {
                // The rounds of `for i in a..b by k` are counted by a variable of their own.
                let v = v.name().trim_end_matches("_round");
                return Err(format!("what the rounds over `{v}` write is not known to lie side by side"));
            };
            let mut axes = region.axes.clone();
            axes[*axis] = Some(swept);
            Ok(Region { axes, over: vec![] })
        }
        _ => {
            // Under a name by its depth, so that other loops can complete it.
            let name = Sym::new(&format!("%{}", region.over.len()));
            let rename = |d: &Dim| at(d, v, &Dim::sym(name));
            let mut over: Vec<_> = region.over.iter().map(|(s, a, b)| (*s, rename(a), rename(b))).collect();
            over.push((name, lo.clone(), hi.clone()));
            let axes = region.axes.iter().map(|b| b.as_ref().map(|b| b.map(rename))).collect();
            Ok(Region { axes, over })
        }
    }
}

/// Adds to regions those that neighbours are together.
fn join(regions: &mut Vec<Region>) {
    let mut known: HashSet<Region> = HashSet::new();
    regions.retain(|r| known.insert(r.clone()));
    let rank = regions.first().map_or(0, |r| r.axes.len());
    for axis in 0..rank {
        // Those that differ on this axis alone, in the order in which they came.
        let mut places: HashMap<Region, usize> = HashMap::new();
        let mut groups: Vec<(Region, Vec<Band>)> = Vec::new();
        for r in regions.iter() {
            let Some(band) = &r.axes[axis] else { continue };
            let mut rest = r.clone();
            rest.axes[axis] = None;
            let place = *places.entry(rest.clone()).or_insert_with(|| {
                groups.push((rest, vec![]));
                groups.len() - 1
            });
            groups[place].1.push(band.clone());
        }
        for (rest, bands) in groups.into_iter().filter(|g| g.1.len() > 1) {
            for band in chains(&bands) {
                let mut joined = rest.clone();
                joined.axes[axis] = Some(band);
                if known.insert(joined.clone()) {
                    regions.push(joined);
                }
            }
        }
    }
}

/// The longest unions of bands one of which begins where the one before ends.
fn chains(bands: &[Band]) -> Vec<Band> {
    let key = |lo: &Dim, b: &Band| {
        (lo.clone(), b.gaps.as_ref().map(|g| g.0.clone()), b.modulus.clone(), b.limits.clone())
    };
    // Where the neighbour of a band begins.
    let after = |b: &Band| match &b.gaps {
        None => b.hi.clone(),
        Some((_, width)) => &b.lo + width,
    };
    let mut begins: HashMap<_, &Band> = HashMap::new();
    for b in bands {
        begins.entry(key(&b.lo, b)).or_insert(b);
    }
    let follows: HashSet<_> = bands.iter().filter(|b| after(b) != b.lo).map(|b| key(&after(b), b)).collect();
    let mut out = Vec::new();
    for first in bands.iter().filter(|b| !follows.contains(&key(&b.lo, b))) {
        let mut all = first.clone();
        for _ in 1..bands.len() {
            let Some(next) = begins.get(&key(&after(&all), &all)) else { break };
            all = match (&all.gaps, &next.gaps) {
                (None, None) => Band { hi: next.hi.clone(), ..all },
                (Some((period, a)), Some((_, b))) if a + b == *period => {
                    // The last period need not be whole: it ends with the one that ends first.
                    Band { hi: Dim::min(&all.hi, &next.hi), gaps: None, ..all }
                }
                (Some((period, a)), Some((_, b))) if &all.hi - &all.lo == &next.hi - &next.lo => {
                    Band { gaps: Some((period.clone(), a + b)), ..all }
                }
                _ => break,
            };
        }
        if all != *first {
            out.push(all);
        }
    }
    out
}

/// The regions of `buf` that statements are sure to write.
fn written(prim: &Prim, stmts: &[Stmt], buf: BufId, facts: &Facts, names: &Names) -> WrittenRegions {
    let mut out = WrittenRegions::default();
    for s in stmts {
        match s {
            Stmt::Store { buf: b, index, combine: None, span, .. } if *b == buf => {
                let axes: Vec<Option<Band>> = index.iter().map(|i| point(prim, i, names)).collect();
                if axes.iter().any(Option::is_none) {
                    out.missed.push((*span, "where this is written is known only when running".to_owned()));
                }
                out.regions.push(Region { axes, over: vec![] });
            }
            Stmt::For { var, lo, hi, body, .. } => {
                let mut inner = written(prim, body, buf, &enter(prim, facts, *var, lo, hi), names);
                out.missed.append(&mut inner.missed);
                let v = prim.var(*var).name;
                let bounds = steady(prim, lo, names).zip(steady(prim, hi, names));
                let Some((lo, hi)) = bounds else {
                    if let Some(at) = first_store(body, buf) {
                        let text = format!("how often the loop over `{v}` runs is known only when running");
                        out.missed.push((at, text));
                    }
                    continue;
                };
                for r in inner.regions {
                    match sweep(r, v, &lo, &hi, facts) {
                        Ok(r) => out.regions.push(r),
                        Err(why) => out.missed.extend(first_store(body, buf).map(|at| (at, why))),
                    }
                }
            }
            Stmt::If(condition, a, b) => {
                let branch = |s: &[Stmt], holds| {
                    let facts = inside(prim, condition, holds, names, facts);
                    let mut made = written(prim, s, buf, &facts, names);
                    made.regions.iter_mut().for_each(|r| widen(r, &prim.buf(buf).shape, &facts));
                    (first_store(s, buf), made)
                };
                let (a, b) = (branch(a, true), branch(b, false));
                let both: HashSet<Region> = b.1.regions.iter().cloned().collect();
                let (kept, alone): (Vec<Region>, Vec<Region>) =
                    a.1.regions.into_iter().partition(|r| both.contains(r));
                let other = b.1.regions.into_iter().filter(|r| !kept.contains(r));
                let mut whole = true;
                for (region, holds) in alone.into_iter().map(|r| (r, true)).chain(other.map(|r| (r, false))) {
                    let left = limited(prim, condition, holds, names, region);
                    whole &= left.is_some();
                    out.regions.extend(left);
                }
                out.regions.extend(kept);
                out.missed.extend(a.1.missed.into_iter().chain(b.1.missed));
                if !whole && let Some(at) = a.0.or(b.0) {
                    let text = "an `if` guards this by more than its position, and its other branch does not write \
                        the same";
                    out.missed.push((at, text.to_owned()));
                }
            }
            Stmt::While(_, body) => {
                if let Some(at) = first_store(body, buf) {
                    out.missed.push((at, "a `while` may have no round".to_owned()));
                }
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => {}
        }
    }
    join(&mut out.regions);
    if let Some(name) = leave(prim, stmts, facts, names, &mut out.regions) {
        let why = format!("`{name}` may be another number in each round");
        out.missed.extend(first_store(stmts, buf).map(|at| (at, why)));
    }
    out
}

/// As many in a row as there are remainders, wherever they begin, are all of them.
fn whole(band: Band, facts: &Facts) -> Band {
    match &band.modulus {
        Some(m) if band.gaps.is_none() && proves(facts, m, &(&band.hi - &band.lo)) => {
            Band { lo: Dim::int(0), hi: m.clone(), modulus: None, ..band }
        }
        _ => band,
    }
}

/// Regions of statements as they are outside of them, where the variables that these set mean nothing, or have another
/// value each round: those that are a dim are written out, and of what depends on others nothing is known. Gives one of
/// the latter.
fn leave(prim: &Prim, body: &[Stmt], facts: &Facts, names: &Names, regions: &mut Vec<Region>) -> Option<Sym> {
    let mut set: Vec<(Sym, Option<Dim>)> = Vec::new();
    for s in body {
        if let Stmt::Set(v, value) = s {
            set.push((prim.var(*v).name, stable_dim(prim, value, names)));
            continue;
        }
        // Set further inside it may be of what only that knows.
        s.walk(&mut |s| {
            if let Stmt::Set(v, _) = s {
                set.push((prim.var(*v).name, None));
            }
        });
    }
    let mut lost = None;
    // The last one first: its value may speak of those before it.
    for (name, value) in set.into_iter().rev() {
        let out = |d: &Dim| {
            value.as_ref().filter(|v| !speaks(v, name)).map_or_else(|| d.clone(), |v| at(d, name, v))
        };
        let mut named = false;
        regions.retain_mut(|r| {
            for axis in &mut r.axes {
                *axis = axis.take().map(|b| whole(b.map(out), facts));
                named |= axis.take_if(|b| b.mentions(name)).is_some();
            }
            r.over.iter_mut().for_each(|(_, lo, hi)| (*lo, *hi) = (out(lo), out(hi)));
            let keeps = !r.over.iter().any(|(_, lo, hi)| speaks(lo, name) || speaks(hi, name));
            named |= !keeps;
            keeps
        });
        lost = lost.or(named.then_some(name));
    }
    lost
}

/// Where statements first write a buffer.
fn first_store(stmts: &[Stmt], buf: BufId) -> Option<Span> {
    let mut found = None;
    for s in stmts {
        s.walk(&mut |s| {
            if let Stmt::Store { buf: b, span, .. } = s
                && *b == buf
            {
                found = found.or(Some(*span));
            }
        });
    }
    found
}

/// Regions over variables as what they are together; behind them those where that has no form.
fn resolved(regions: Vec<Region>, facts: &Facts) -> (Vec<Region>, Vec<Region>) {
    let mut out = Vec::new();
    let mut left = Vec::new();
    for mut r in regions {
        let first = r.clone();
        while !r.over.is_empty() {
            let (v, lo, hi) = r.over.remove(0);
            let rest = std::mem::take(&mut r.over);
            match sweep(r.clone(), v, &lo, &hi, facts) {
                Ok(swept) if swept.over.is_empty() => r = Region { over: rest, ..swept },
                _ => {
                    r.over = vec![(v, lo, hi)];
                    break;
                }
            }
        }
        if r.over.is_empty() {
            r.axes = r.axes.into_iter().map(|b| b.and_then(Band::cut)).collect();
            out.push(r);
        } else {
            left.push(first);
        }
    }
    join(&mut out);
    (out, left)
}

impl Region {
    /// In words, the variables that it is over under the names that people give them.
    fn text(&self) -> String {
        let names = ["i", "j", "k", "l"];
        let shown = |d: &Dim| {
            d.subst(&|s| {
                let depth = self.over.iter().position(|o| o.0 == s)?;
                names.get(depth).map(|n| Dim::sym(Sym::new(n)))
            })
        };
        let axis = |b: &Option<Band>| b.as_ref().map_or("?".to_owned(), |b| b.map(shown).text());
        let axes: Vec<String> = self.axes.iter().map(axis).collect();
        let mut text = format!("[{}]", axes.join(", "));
        for (depth, (_, lo, hi)) in self.over.iter().enumerate().take(names.len()) {
            text += &format!(" for {} in {}..{}", names[depth], shown(lo), shown(hi));
        }
        text
    }
}

/// Proofs that lining up regions may take: tens do in practice, and thousands of regions are no reason
/// to prove millions of times.
const TRIES: usize = 4096;

/// True for bounds whose difference is a positive number.
fn grows(from: &Dim, to: &Dim) -> bool {
    (to - from).as_int().is_some_and(|d| d > 0)
}

/// Writes what is all of an axis as that, however it is made.
fn widen(region: &mut Region, shape: &[Dim], facts: &Facts) {
    for (band, extent) in region.axes.iter_mut().zip(shape) {
        let cut = band.clone().and_then(Band::cut);
        if is_whole(&cut, extent, facts) {
            let (lo, hi) = (Dim::int(0), extent.clone());
            *band = Some(Band { lo, hi, gaps: None, modulus: None, limits: Limits::default() });
        }
    }
}

/// True if a band is all of an axis.
fn is_whole(band: &Option<Band>, extent: &Dim, facts: &Facts) -> bool {
    let Some(band) = band.as_ref().filter(|b| b.gaps.is_none()) else { return false };
    match &band.modulus {
        None => proves(facts, &band.lo, &Dim::int(0)) && proves(facts, extent, &band.hi),
        // As many in a row as there are remainders are all of them.
        Some(m) => proves(facts, extent, m) && proves(facts, m, &(&band.hi - &band.lo)),
    }
}

/// True if the regions together are the whole buffer: one is, or some line up along one axis.
fn covers(regions: &[Region], shape: &[Dim], facts: &Facts) -> bool {
    let zero = Dim::int(0);
    // Many statements write one region, and each is looked at once.
    let mut seen = HashSet::new();
    let regions: Vec<&Region> = regions.iter().filter(|r| seen.insert(*r)).collect();
    let mut tries = TRIES;
    if shape.is_empty() {
        return !regions.is_empty();
    }
    let along = (0..shape.len()).any(|axis| {
        let candidates: Vec<&Band> = regions
            .iter()
            .filter(|r| (0..shape.len()).all(|a| a == axis || is_whole(&r.axes[a], &shape[a], facts)))
            .filter_map(|r| r.axes[axis].as_ref())
            .filter(|b| b.gaps.is_none())
            .collect();
        let turned = |b: &&&Band| b.modulus.is_some();
        if candidates.iter().filter(turned).any(|b| is_whole(&Some((*b).clone()), &shape[axis], facts)) {
            return true;
        }
        let straight: Vec<&Band> = candidates.iter().copied().filter(|b| b.modulus.is_none()).collect();
        let begins: HashMap<&Dim, &Dim> = straight.iter().map(|b| (&b.lo, &b.hi)).collect();
        let mut reached = zero.clone();
        // Each round moves on by one region, so there are at most as many rounds as regions.
        for _ in 0..=straight.len() {
            // The next one mostly begins where the last ended; what is nearly so has to be proved.
            while let Some(hi) = begins.get(&reached)
                && grows(&reached, hi)
            {
                reached = (*hi).clone();
            }
            if facts.prove(&Pred::Le(shape[axis].clone(), reached.clone())).is_proved() {
                return true;
            }
            let next = straight.iter().find(|b| {
                tries = tries.saturating_sub(1);
                tries > 0
                    && proves(facts, &b.lo, &reached)
                    && b.hi != reached
                    && proves(facts, &reached, &b.hi)
            });
            match next {
                Some(b) => reached = b.hi.clone(),
                None => return false,
            }
        }
        false
    });
    let plain =
        |r: &&Region| r.axes.iter().flatten().filter(|b| b.gaps.is_none() && b.modulus.is_none()).count();
    let boxes: Vec<&Region> = regions.into_iter().filter(|r| plain(r) == shape.len()).take(BOXES).collect();
    along || cover_from(0, &boxes, shape, facts)
}

/// Regions at most that may overlap in any way: each is held against the others along each axis.
const BOXES: usize = 12;

/// Whether plain regions that may overlap leave nothing, all that is said of the axes from one on: along it from each
/// end of a region to the next, those that lie there cover what is behind it.
fn cover_from(axis: usize, regions: &[&Region], shape: &[Dim], facts: &Facts) -> bool {
    let (Some(extent), false) = (shape.get(axis), regions.is_empty()) else { return !regions.is_empty() };
    let band = |r: &Region| r.axes[axis].clone().map(|b| (b.lo, b.hi));
    let ranges: Vec<(&Region, (Dim, Dim))> = regions.iter().filter_map(|r| Some((*r, band(r)?))).collect();
    let mut reached = Dim::int(0);
    for _ in 0..=ranges.len() {
        if proves(facts, extent, &reached) {
            return true;
        }
        let here: Vec<_> = ranges.iter().filter(|(_, (lo, _))| proves(facts, lo, &reached)).collect();
        let next = here.iter().map(|(_, (_, hi))| hi).find(|next| {
            let through = here.iter().filter(|(_, (_, hi))| proves(facts, next, hi)).map(|(r, _)| *r);
            **next != reached
                && proves(facts, &reached, next)
                && cover_from(axis + 1, &through.collect::<Vec<_>>(), shape, facts)
        });
        match next {
            Some(next) => reached = next.clone(),
            None => return false,
        }
    }
    false
}

/// True if statements are sure to write all of a buffer.
pub(super) fn is_written(prim: &Prim, stmts: &[Stmt], buf: BufId) -> bool {
    let found = written(prim, stmts, buf, &prim.facts, &Names::new(prim));
    covers(&resolved(found.regions, &prim.facts).0, &prim.buf(buf).shape, &prim.facts)
}

/// The rows that a statement is sure to write: for each axis the position, or none where it is the whole axis.
pub(super) fn rows(prim: &Prim, stmt: &Stmt, buf: BufId, names: &Names) -> Vec<Vec<Option<Dim>>> {
    let found = written(prim, std::slice::from_ref(stmt), buf, &prim.facts, names);
    let axis = |(band, extent): (&Option<Band>, &Dim)| {
        if is_whole(band, extent, &prim.facts) {
            return Some(None);
        }
        let band = band.as_ref()?;
        let one = *band == Band { hi: &band.lo + 1, gaps: None, modulus: None, ..band.clone() };
        let stays = band.lo.syms().iter().all(|s| !names.changing.contains(s));
        (one && stays && band.limits == Limits::default()).then(|| Some(band.lo.clone()))
    };
    let row = |r: &Region| r.axes.iter().zip(&prim.buf(buf).shape).map(axis).collect();
    resolved(found.regions, &prim.facts).0.iter().filter_map(row).collect()
}

impl Checker<'_> {
    /// Refuses a primitive that leaves elements of an output unwritten.
    /// `heads`: where each is declared.
    pub(crate) fn coverage(&mut self, prim: &Prim, heads: &[Span]) -> Maybe<()> {
        let names = Names::new(prim);
        for (&out, &head) in prim.outs.iter().zip(heads) {
            if prim.in_place(out) {
                continue;
            }
            let buf = prim.buf(out);
            let found = written(prim, &prim.body, out, &prim.facts, &names);
            let (regions, left) = resolved(found.regions, &prim.facts);
            if covers(&regions, &buf.shape, &prim.facts) {
                continue;
            }
            let shape: Vec<String> = buf.shape.iter().map(Dim::to_string).collect();
            let text = format!("`{}` is not proved to be written everywhere", buf.name);
            let mut d = Diagnostic::error("E0402", head, text).here(format!("[{}]", shape.join(", ")));
            let mut said = HashSet::new();
            for (at, why) in found.missed.iter().filter(|m| said.insert(m.0)).take(3) {
                d = d.label(*at, why.clone());
            }
            for r in regions.iter().chain(&left).take(3) {
                d = d.note(format!("written: {}", r.text()));
            }
            if regions.is_empty() && left.is_empty() && found.missed.is_empty() {
                d = d.note("nothing writes it");
            }
            return self.fail(d.help("write each element once, or accumulate with `+=`"));
        }
        Some(())
    }
}
