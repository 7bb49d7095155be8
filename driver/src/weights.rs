//! Weights by name: the tensors of a checkpoint, bound to the parts of a record.
//!
//! A part says where it is read from (`from`), or else is read by its path below the record. Where arrays put axes at
//! its front, a name has a `{..}` for each, and the tensors of all counts are stacked; in it stands the count, or a
//! number made of it: `{i + first}`, `{full_layers[i]}`. Of alternatives the first is taken whose tensors are all
//! there. What verbs make of a tensor is in [`verbs`]. Types of floats are converted where nothing is lost. All that is
//! missing or does not fit is said at once.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a term is one of many, and a verb is about a few of them"
)]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use import::Checkpoint;
use ir::origin::{At, Meaning, Origin, Term, Value};
use shape::Sym;
use tensor::Tensor;

use crate::Failure;
use crate::data::Wanted;
use crate::progress::{Step, Watch};
use crate::settings::Values;

mod convert;
mod kept;
mod quant;
mod verbs;

pub use kept::Kept;
pub(crate) use quant::Coder;
use verbs::Raw;

/// A checkpoint, with what names in origins mean.
pub(crate) struct Weights<'c> {
    checkpoint: &'c Checkpoint,
    /// Values of the config.
    values: &'c Values,
    /// The tensors that were read.
    used: RefCell<BTreeSet<String>>,
    /// The bytes that were made, and all that will be.
    made: Cell<(u64, u64)>,
    watch: Watch,
    /// What matrices are stored in another way by, and the paths of those that are.
    coder: Option<Coder>,
    converted: RefCell<BTreeSet<String>>,
}

/// Why a tensor is not made: it is not there, which an alternative or a default may make good, or something is wrong.
pub(crate) enum Fault {
    Absent(String),
    Wrong(String),
}

type Made<T> = Result<T, Fault>;

pub(crate) fn wrong<T>(text: impl Into<String>) -> Made<T> {
    Err(Fault::Wrong(text.into()))
}

/// Opens a checkpoint that `-i NAME=PATH` or a caller names.
pub(crate) fn open(path: &str) -> Result<Checkpoint, Failure> {
    let known = path.ends_with(".safetensors") || path.ends_with(".gguf");
    if !known && !std::path::Path::new(path).is_dir() {
        let text = format!(
            "-i: `{path}` gives no record: say FILE.safetensors, FILE.gguf, a folder, random@SEED, zeros or ones"
        );
        return Err(Failure::Usage(text));
    }
    Checkpoint::open(path).map_err(|e| Failure::data(e.to_string()))
}

/// So many parts that do not fit are named.
const FAULTS: usize = 20;

/// Ends of the names of tensors that older versions of transformers wrote beside weights: what they are follows from
/// the config.
const DERIVED: [&str; 2] = ["position_ids", "rotary_emb.inv_freq"];

impl<'c> Weights<'c> {
    /// Those of a checkpoint, of which nothing was read.
    pub(crate) fn new(checkpoint: &'c Checkpoint, values: &'c Values) -> Weights<'c> {
        let (used, made, watch) = (RefCell::default(), Cell::default(), Watch::default());
        Weights { checkpoint, values, used, made, watch, coder: None, converted: RefCell::default() }
    }

    /// The same, told to who watches how many bytes were read of all.
    pub(crate) fn watched(self, watch: &Watch, all: u64) -> Weights<'c> {
        Weights { watch: watch.clone(), made: Cell::new((0, all)), ..self }
    }

    /// The same, with matrices in another way of storage, if there is one.
    pub(crate) fn stored_by(self, coder: Option<Coder>) -> Weights<'c> {
        Weights { coder, ..self }
    }

    /// The tensors that were read.
    pub(crate) fn those_read(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }

    /// The tensors that nothing has read, and that are weights.
    pub(crate) fn unread(&self) -> Vec<String> {
        let used = self.used.borrow();
        let lacking = |n: &&String| !used.contains(*n) && !DERIVED.iter().any(|end| n.ends_with(end));
        self.checkpoint.tensors().keys().filter(lacking).cloned().collect()
    }

    /// The tensors for the parts of the record `name`. `dims` are those known; others are counted.
    pub(crate) fn read(
        &self,
        name: &str,
        parts: &[&Wanted],
        dims: &BTreeMap<Sym, i64>,
    ) -> Result<Vec<Tensor>, Failure> {
        let mut faults = Vec::new();
        let mut out = Vec::new();
        let before = self.made.get().0;
        let names = Names { values: self.values, dims };
        let mut left = parts;
        while let Some((w, others)) = left.split_first() {
            let group = self.group(name, left);
            let made = match self.encoded(name, group, &names) {
                Ok(Some(fields)) => {
                    left = &left[group.len()..];
                    Ok(fields)
                }
                Ok(None) => {
                    left = others;
                    self.part(name, w, dims).map(|t| vec![t])
                }
                Err(Fault::Wrong(text) | Fault::Absent(text)) => {
                    left = &left[group.len()..];
                    Err(text)
                }
            };
            match made {
                Ok(made) => {
                    out.extend(made);
                    // Defaults are not counted while they are made.
                    let all: u64 = out.iter().map(|t| t.bytes().len() as u64).sum();
                    self.count(before + all);
                }
                Err(text) => faults.push(text),
            }
        }
        if faults.is_empty() {
            return Ok(out);
        }
        let path = self.checkpoint.path().display();
        let more = faults.len().saturating_sub(FAULTS);
        faults.truncate(FAULTS);
        let more = if more == 0 { String::new() } else { format!("\n  and {more} parts more") };
        Err(Failure::data(format!("{path} does not fit {name}:\n  {}{more}", faults.join("\n  "))))
    }

    /// Says that so many bytes were made.
    fn count(&self, done: u64) {
        let (before, total) = self.made.get();
        let (done, total) = (done.max(before), total.max(done));
        self.made.set((done, total));
        self.watch.tell(Step::Load, done, total);
    }

    /// Notes which tensors parts of the record `name` are read from, without reading any; false if some are not there.
    pub(crate) fn touch(&self, name: &str, parts: &[&Wanted], dims: &BTreeMap<Sym, i64>) -> bool {
        let names = Names { values: self.values, dims };
        let mut whole = true;
        for w in parts {
            let Ok(origin) = self.origin(name, w) else { continue };
            let found = origin.tried.iter().find_map(|t| self.tensors_of(t, w, &names));
            whole &= found.is_some() || origin.default.is_some();
            self.used.borrow_mut().extend(found.into_iter().flatten());
        }
        whole
    }

    /// The checkpoint's path.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.checkpoint.path()
    }

    /// The first tensor of this kind that a part is read from.
    pub(crate) fn stored_so(&self, name: &str, w: &Wanted, kind: &str) -> Option<String> {
        let dims = BTreeMap::new();
        let names = Names { values: self.values, dims: &dims };
        let all = self.origin(name, w).ok()?.tried;
        let all = all.iter().find_map(|t| self.tensors_of(t, w, &names))?;
        all.into_iter().find(|n| self.checkpoint.tensors().get(n).is_some_and(|t| t.kind() == kind))
    }

    /// The parts that no default stands for.
    pub(crate) fn needed<'p>(&self, name: &str, parts: &[&'p Wanted]) -> Vec<&'p Wanted> {
        let needed = |w: &&Wanted| self.origin(name, w).map_or(true, |o| o.default.is_none());
        parts.iter().copied().filter(needed).collect()
    }

    /// Of the dims that are counts of tensors one that is greater than what the checkpoint has: its name, how many
    /// there are, and the first tensor that is missing. `parts` are those of the record `name` that are needed.
    pub(crate) fn fewer(
        &self,
        name: &str,
        parts: &[&Wanted],
        dims: &BTreeMap<Sym, i64>,
    ) -> Option<(String, i64, String)> {
        let names = Names { values: self.values, dims };
        let of_term = |w: &Wanted, term: &Term| {
            let holes = holes(term);
            let missing = |axis: usize| {
                let sym = w.extents.get(axis)?.as_sym()?;
                let said = names.number(sym.name())?;
                let at = |n: i64| (0..holes).map(|a| if a == axis { n } else { 0 }).collect::<Vec<i64>>();
                let count =
                    (0..said).take_while(|n| self.stored_as(term, &at(*n), &names).is_ok()).count() as i64;
                let Err(Fault::Absent(tensor)) = self.stored_as(term, &at(count), &names) else {
                    return None;
                };
                (0 < count && count < said).then(|| (sym.name().to_owned(), count, tensor))
            };
            (0..holes).find_map(missing)
        };
        parts.iter().find_map(|w| {
            let origin = self.origin(name, w).ok()?;
            let found = origin.tried.iter().any(|t| self.tensors_of(t, w, &names).is_some());
            if found { None } else { origin.tried.iter().find_map(|t| of_term(w, t)) }
        })
    }

    /// The names of the tensors that a term means; none where one is not there.
    fn tensors_of(&self, term: &Term, w: &Wanted, names: &Names<'_>) -> Option<Vec<String>> {
        let (term, counts) = match term {
            Term::Call(verb, args) if verb == "stored" => (&args[0], numbers(&args[2..], names)?),
            _ => {
                let exists = |at: &[i64]| self.stored_as(term, at, names).is_ok();
                (term, counts(w, holes(term), names, &exists))
            }
        };
        let template = innermost(term)?;
        let is_there = |n: &String| self.checkpoint.tensors().contains_key(n);
        let name = |at: Vec<i64>| Place { at: &at, names }.filled_in(template).ok().filter(is_there);
        places(&counts).map(name).collect()
    }

    /// The element types, or encodings, of the tensors that parts of the record `name` are read from, by path. Of one
    /// that is nowhere nothing is said.
    pub(crate) fn kinds(&self, name: &str, parts: &[&Wanted]) -> BTreeMap<String, String> {
        let dims = BTreeMap::new();
        let names = Names { values: self.values, dims: &dims };
        let mut out = BTreeMap::new();
        for w in parts {
            let Ok(origin) = self.origin(name, w) else { continue };
            let found = origin.tried.iter().find_map(|t| self.kind(t, w, &names));
            out.extend(found.map(|kind| (w.name.clone(), kind)));
        }
        out
    }

    /// The kind of the tensors that a term names. Of several floats it is the one that holds the others; else there
    /// are several ways of storage ([`check::ways`]).
    fn kind(&self, term: &Term, w: &Wanted, names: &Names<'_>) -> Option<String> {
        let kinds = self.stored_kinds(term, w, names)?;
        if kinds.len() > 1 && kinds.iter().any(|(k, _)| rank(k) == 0) {
            return Some(check::ways(&kinds).to_string());
        }
        kinds.into_iter().max_by_key(|(k, _)| rank(k)).map(|(k, _)| k)
    }

    /// The kinds of the tensors that a term names, each with how many there are of it; none where one is nowhere.
    fn stored_kinds(&self, term: &Term, w: &Wanted, names: &Names<'_>) -> Option<Vec<(String, i64)>> {
        let exists = |at: &[i64]| self.stored_as(term, at, names).is_ok();
        let counts = counts(w, holes(term), names, &exists);
        let mut kinds: Vec<(String, i64)> = Vec::new();
        for at in places(&counts) {
            let kind = self.stored_as(term, &at, names).ok()?;
            match kinds.iter_mut().find(|(k, _)| k == kind) {
                Some((_, n)) => *n += 1,
                None => kinds.push((kind.to_owned(), 1)),
            }
        }
        (!kinds.is_empty()).then_some(kinds)
    }

    /// The kind of the tensor that a term names at a place of the arrays.
    fn stored_as(&self, term: &Term, at: &[i64], names: &Names<'_>) -> Made<&str> {
        let Some(template) = innermost(term) else { return wrong(format!("`{term}` names no tensor")) };
        let name = Place { at, names }.filled_in(template)?;
        self.checkpoint.tensors().get(&name).map(import::Tensor::kind).ok_or(Fault::Absent(name))
    }

    /// Where a part is read from.
    fn origin(&self, record: &str, w: &Wanted) -> Result<Origin, String> {
        let path = w.name.strip_prefix(record).map_or(w.name.as_str(), |p| p.trim_start_matches('.'));
        match &w.from {
            Some(text) => text.parse().map_err(|e| format!("{}: {e}", w.name)),
            None => Ok(Origin::named(path)),
        }
    }

    fn part(&self, record: &str, w: &Wanted, dims: &BTreeMap<Sym, i64>) -> Result<Tensor, String> {
        let origin = self.origin(record, w)?;
        let names = Names { values: self.values, dims };
        let mut absent: Vec<String> = Vec::new();
        for term in &origin.tried {
            match self.stacked(term, w, &names) {
                Ok(t) => return Ok(t),
                Err(Fault::Absent(name)) if absent.contains(&name) => {}
                Err(Fault::Absent(name)) => absent.push(name),
                Err(Fault::Wrong(text)) => return Err(text),
            }
        }
        if let Some(default) = &origin.default {
            return filled(w, default, &names);
        }
        let known = || self.checkpoint.tensors().keys().map(String::as_str);
        let near = absent.iter().find_map(|n| ir::diag::nearest(n, known()));
        let hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        let listed: Vec<String> = absent.iter().map(|n| format!("`{n}`")).collect();
        Err(format!("{}: {} is not there: {}{hint}", w.name, w.ty, listed.join(", nor ")))
    }

    /// What a term gives for each place of the arrays around the part, one behind the other.
    fn stacked(&self, term: &Term, w: &Wanted, names: &Names<'_>) -> Made<Tensor> {
        match term {
            Term::Call(verb, args) if matches!(verb.as_str(), "way" | "place") => {
                return self.ways(verb, args, w, names);
            }
            Term::Call(verb, args) if verb == "stored" => return self.stored(args, w, names),
            _ => {}
        }
        let holes = holes(term);
        if holes > w.extents.len() {
            return wrong(format!("{}: {} has fewer axes than `{term}` has counts", w.name, w.ty));
        }
        let exists = |at: &[i64]| self.raw(term, &mut Place { at, names }).is_ok();
        let counts = counts(w, holes, names, &exists);
        let these = self.those_there(term, &counts, names)?;
        self.each(term, w, (&counts, &these), names)
    }

    /// All places of arrays, if there is a tensor at each.
    fn those_there(&self, term: &Term, counts: &[i64], names: &Names<'_>) -> Made<Vec<Vec<i64>>> {
        places(counts).map(|at| self.stored_as(term, &at, names).map(|_| at)).collect()
    }

    /// Those of the places of the arrays that are stored in one way: `stored(term, kind, counts ..)`.
    fn stored(&self, args: &[Term], w: &Wanted, names: &Names<'_>) -> Made<Tensor> {
        let [term, Term::Text(kind), counts @ ..] = args else {
            return wrong("`stored` is of a tensor and a kind");
        };
        let Some(counts) = numbers(counts, names) else {
            return wrong(format!("{}: how many places there are is not known", w.name));
        };
        let mut these = Vec::new();
        for at in places(&counts) {
            if self.stored_as(term, &at, names)? == kind {
                these.push(at);
            }
        }
        self.each(term, w, (&[these.len() as i64], &these), names)
    }

    /// Which way each place of the arrays is stored in, or where it is among those of its way.
    fn ways(&self, verb: &str, args: &[Term], w: &Wanted, names: &Names<'_>) -> Made<Tensor> {
        let [term, kinds @ ..] = args else { return wrong(format!("`{verb}` is of a tensor")) };
        let exists = |at: &[i64]| self.stored_as(term, at, names).is_ok();
        let counts = counts(w, w.extents.len(), names, &exists);
        let mut before = vec![0; kinds.len()];
        let these = self.those_there(term, &counts, names)?;
        let made = Tensor::zeros(w.ty.dtype, &counts);
        let mut out = made.map_err(|e| Fault::Wrong(format!("{}: {e}", w.name)))?;
        for (k, at) in these.iter().enumerate() {
            let kind = self.stored_as(term, at, names)?;
            let way = kinds.iter().position(|t| matches!(t, Term::Text(name) if name == kind));
            let Some(way) = way else {
                return wrong(format!("{}: `{kind}` is no way of storage here", w.name));
            };
            out.set_i64(k, if verb == "way" { way as i64 } else { before[way] });
            before[way] += 1;
        }
        Ok(out)
    }

    /// What a term gives for some places of arrays, one behind the other, with so many of each axis.
    fn each(
        &self,
        term: &Term,
        w: &Wanted,
        (counts, places): (&[i64], &[Vec<i64>]),
        names: &Names<'_>,
    ) -> Made<Tensor> {
        let inner = &w.extents[counts.len()..];
        let total = places.len();
        let mut whole: Option<Tensor> = None;
        let mut shape: Vec<i64> = Vec::new();
        for (k, at) in places.iter().enumerate() {
            let raw = self.raw(term, &mut Place { at, names })?;
            let fits = raw.shape.len() == inner.len()
                && raw.shape.iter().zip(inner).all(|(n, d)| names.extent(d).is_none_or(|want| want == *n))
                && (k == 0 || shape == raw.shape);
            if !fits {
                let text = format!(
                    "{}: {} is needed, and `{}` is {}{:?}",
                    w.name,
                    w.ty,
                    raw.name(),
                    raw.kind,
                    raw.shape
                );
                return wrong(text);
            }
            shape.clone_from(&raw.shape);
            let to = match &mut whole {
                Some(t) => t,
                None => {
                    let extents: Vec<i64> = counts.iter().chain(&raw.shape).copied().collect();
                    let made = Tensor::zeros(w.ty.dtype, &extents);
                    whole.insert(made.map_err(|e| Fault::Wrong(format!("{}: {e}", w.name)))?)
                }
            };
            let each = to.bytes().len() / total;
            let into = &mut to.bytes_mut()[each * k..each * (k + 1)];
            let made = self.converted(w, &raw, into);
            if let Err(why) = made.unwrap_or_else(|| convert::into(&raw, w.ty.dtype, into)) {
                return wrong(format!("{}: {} is needed, and `{}` is {why}", w.name, w.ty.dtype, raw.name()));
            }
            self.count(self.made.get().0 + each as u64);
            // A checkpoint is not in memory beside what is made of it.
            raw.of.forget();
        }
        match whole {
            Some(t) => Ok(t),
            None => {
                let inner = inner.iter().map(|d| names.extent(d)).collect::<Option<Vec<i64>>>();
                let Some(inner) = inner else { return Err(Fault::Absent(term.to_string())) };
                let extents: Vec<i64> = counts.iter().copied().chain(inner).collect();
                Tensor::zeros(w.ty.dtype, &extents).map_err(|e| Fault::Wrong(format!("{}: {e}", w.name)))
            }
        }
    }

    /// The bytes that a term names, at a place of the arrays.
    fn raw(&self, term: &Term, at: &mut Place<'_>) -> Made<Raw<'_>> {
        let raw = self.as_stored(term, at)?;
        if raw.turned {
            return wrong(format!("`{}` is stored with its axes exchanged, and `{term}` is not", raw.name()));
        }
        Ok(raw)
    }

    /// The same, with its axes as they are stored.
    fn as_stored(&self, term: &Term, at: &mut Place<'_>) -> Made<Raw<'_>> {
        match term {
            Term::Text(name) => {
                let name = at.filled_in(name)?;
                let Some(t) = self.checkpoint.tensors().get(&name) else { return Err(Fault::Absent(name)) };
                self.used.borrow_mut().insert(name);
                Raw::of(t)
            }
            Term::Call(verb, args) => {
                let [first, rest @ ..] = args.as_slice() else {
                    return wrong(format!("`{verb}` is of a tensor: `{verb}(\"name\", ..)`"));
                };
                let raw = self.as_stored(first, at)?;
                let value = |t: &Term| match t.eval(at.names) {
                    Ok(Some(v)) => Ok(v),
                    Ok(None) => wrong(format!("`{term}`: `{t}` has no value")),
                    Err(e) => wrong(format!("`{term}`: {e}")),
                };
                let rest = rest.iter().map(value).collect::<Made<Vec<Value>>>()?;
                verbs::apply(verb, raw, &rest)
            }
            _ => wrong(format!("`{term}` names no tensor")),
        }
    }
}

/// How many places each of the arrays around a part has: said by the shape, or else as many as the checkpoint has.
fn counts(w: &Wanted, holes: usize, names: &Names<'_>, exists: &dyn Fn(&[i64]) -> bool) -> Vec<i64> {
    let one = |axis: usize| {
        let at = |n: i64| (0..holes).map(|a| if a == axis { n } else { 0 }).collect::<Vec<i64>>();
        let said = w.extents.get(axis).and_then(|d| names.extent(d));
        said.unwrap_or_else(|| (0..).take_while(|n| exists(&at(*n))).count() as i64)
    };
    (0..holes).map(one).collect()
}

/// The numbers that terms are.
fn numbers(terms: &[Term], names: &Names<'_>) -> Option<Vec<i64>> {
    terms.iter().map(|t| t.eval(names).ok().flatten().and_then(|v| v.as_i64())).collect()
}

/// How many counts a term's name has.
fn holes(term: &Term) -> usize {
    match term {
        Term::Text(name) => name.matches('{').count(),
        Term::Call(_, args) => args.first().map_or(0, holes),
        _ => 0,
    }
}

/// The name that a term is about.
fn innermost(term: &Term) -> Option<&str> {
    match term {
        Term::Text(name) => Some(name),
        Term::Call(_, args) => innermost(args.first()?),
        _ => None,
    }
}

/// Of two kinds in one stack the greater is taken: of floats it holds the other.
fn rank(kind: &str) -> i32 {
    match kind {
        "f16" | "bf16" => 1,
        "f32" => 2,
        "f64" => 3,
        _ => 0,
    }
}

/// The places of arrays in arrays, in order. A config may say that there are more than anyone can list: who goes
/// through them ends with the first that is not there.
fn places(counts: &[i64]) -> impl Iterator<Item = Vec<i64>> {
    let first = counts.iter().all(|n| *n > 0).then(|| vec![0; counts.len()]);
    std::iter::successors(first, |at| {
        let mut next = at.clone();
        let axis = (0..next.len()).rfind(|&a| next[a] + 1 < counts[a])?;
        next[axis] += 1;
        next[axis + 1..].fill(0);
        Some(next)
    })
}

/// The default of a part that is not there: a number everywhere.
fn filled(w: &Wanted, default: &Term, names: &Names<'_>) -> Result<Tensor, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", w.name);
    let number = default.eval(names).map_err(|e| wrong(&e))?.and_then(|v| v.as_f64());
    let Some(number) = number else { return Err(wrong(&format!("`{default}` is no number"))) };
    let extents: Option<Vec<i64>> = w.extents.iter().map(|d| names.extent(d)).collect();
    let Some(extents) = extents else {
        return Err(wrong(&format!("the extents of {} are not known, and no tensor tells them", w.ty)));
    };
    let mut t = Tensor::zeros(w.ty.dtype, &extents).map_err(|e| wrong(&e))?;
    if number != 0.0 {
        (0..t.len()).for_each(|i| t.set_f64(i, number));
    }
    Ok(t)
}

/// What names in origins mean: values of the config, and dims.
struct Names<'n> {
    values: &'n Values,
    dims: &'n BTreeMap<Sym, i64>,
}

impl Names<'_> {
    fn extent(&self, d: &shape::Expr) -> Option<i64> {
        d.eval(&|s| self.number(s.name())).ok()
    }

    fn number(&self, name: &str) -> Option<i64> {
        let dim = self.dims.iter().find(|(s, _)| s.name() == name).map(|(_, n)| *n);
        dim.or_else(|| self.values.get(name).and_then(Value::as_i64))
    }
}

impl Meaning for Names<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        self.values.get(name).cloned().or_else(|| self.number(name).map(Value::Int))
    }

    fn call(&self, verb: &str, _: &[Term]) -> Result<Option<Value>, String> {
        Err(format!("there is no verb `{verb}` of numbers"))
    }
}

/// Names at a place of the arrays around a part.
struct Place<'a> {
    at: &'a [i64],
    names: &'a Names<'a>,
}

impl Place<'_> {
    /// A name with its k-th `{..}` replaced by what it says of the k-th count.
    fn filled_in(&self, template: &str) -> Made<String> {
        let mut out = String::new();
        let mut rest = template;
        for &n in self.at {
            let Some((before, after)) = rest.split_once('{') else { break };
            let Some((hole, after)) = after.split_once('}') else {
                return wrong(format!("`{template}`: a brace is not closed"));
            };
            out.push_str(before);
            out.push_str(&self.number(hole, n)?.to_string());
            rest = after;
        }
        Ok(out + rest)
    }

    /// `i`, `i + first`, `layers[i]`: the name that nothing else has is the count.
    fn number(&self, hole: &str, n: i64) -> Made<i64> {
        let hole = hole.trim();
        let words = hole.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_name = |w: &&str| w.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let counts: Vec<&str> = words.filter(is_name).filter(|w| self.names.name(w).is_none()).collect();
        let Some(count) = counts.first().filter(|c| counts.iter().all(|d| d == *c)) else {
            return wrong(format!("`{{{hole}}}` has no count, or more than one: {}", counts.join(", ")));
        };
        let term: Result<Term, String> = hole.parse();
        let value = term.and_then(|t| t.eval(&At { name: count, at: n, m: self.names }));
        match value {
            Ok(Some(Value::Int(i))) => Ok(i),
            Ok(_) => wrong(format!("`{{{hole}}}` is no number")),
            Err(e) => wrong(format!("`{{{hole}}}`: {e}")),
        }
    }
}
