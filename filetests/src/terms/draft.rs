//! Programs that grow line by line: a line is kept if the program still checks, and what it makes is tame.
//!
//! A line is a [`Form`] whose parameters are values that are there already, or new arguments of the program. What it
//! makes has the type that the checker says. Tame is what every order of computing can make: finite numbers that are
//! not large, on each of the program's data. So nothing here knows what an operator takes or where it is defined.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use driver::{Front, data, engine, pipeline};
use ir::FuncId;
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::forms::{Axis, Form, Forms, Kind};

/// Dims of the runs of which two are drawn: `n` and `m`.
const DIMS: [(i64, i64); 9] = [(1, 3), (2, 1), (4, 4), (5, 3), (7, 16), (3, 2), (17, 5), (1, 1), (3, 32)];
/// What new arguments have on their axes.
const AXES: [&str; 9] = ["n", "m", "n", "m", "1", "2", "3", "4", "32"];
/// What new arguments have on an axis of whole blocks of 32.
const BLOCKS: [&str; 2] = ["32", "64"];
/// Of so many programs one tolerates what lossy rules lose.
const TOLERANT: u64 = 3;
/// As much as any of the library's.
const TOLERANCE: f64 = 0.02;
/// Lines that are tried, for one that is kept.
const TRIES: usize = 6;

/// A value of the program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    name: String,
    /// Its element type, or the encoding in which it lies.
    element: String,
    dims: Vec<String>,
    /// Made of weights alone; of an argument that it is one.
    weight: bool,
}

impl Value {
    fn ty(&self) -> String {
        if self.dims.is_empty() {
            self.element.clone()
        } else {
            format!("{}[{}]", self.element, self.dims.join(", "))
        }
    }
}

/// A line: `let (v1, v2) = ..`.
#[derive(Debug, Clone)]
struct Line {
    values: Vec<Value>,
    text: String,
}

impl Line {
    fn reads(&self, name: &str) -> bool {
        let mut words = self.text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
        words.any(|w| w.trim_end_matches('.') == name || w.split("..").any(|w| w == name))
    }
}

/// A program and its data.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    seed: u64,
    args: Vec<Value>,
    lines: Vec<Line>,
    results: Vec<Value>,
    runs: Vec<(i64, i64)>,
}

impl Draft {
    /// The program of a seed.
    pub(super) fn new(forms: &Forms, seed: u64) -> Draft {
        let mut rng = Rng::new(seed);
        let first = |name: &str, weight| Value {
            name: name.to_owned(),
            element: DType::F32.to_string(),
            dims: vec!["n".to_owned(), "m".to_owned()],
            weight,
        };
        let runs = (0..2).map(|_| DIMS[below(&mut rng, DIMS.len())]).collect();
        let args = vec![first("p0", false), first("w.p1", true)];
        let mut draft = Draft { seed, args, lines: Vec::new(), results: Vec::new(), runs };
        let lines = 3 + below(&mut rng, 5);
        for _ in 0..lines {
            for _ in 0..TRIES {
                // A pattern as often as not.
                let list = if below(&mut rng, 2) == 0 { &forms.patterns } else { &forms.operators };
                let before = draft.clone();
                if draft.add(&list[below(&mut rng, list.len())], &mut rng).is_some() {
                    break;
                }
                draft = before;
            }
        }
        let made = draft.lines.iter().flat_map(|l| &l.values);
        draft.results = made.filter(|v| !draft.lines.iter().any(|l| l.reads(&v.name))).cloned().collect();
        draft
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.args.iter().chain(self.lines.iter().flat_map(|l| &l.values))
    }

    /// Adds a line made of a form, if that is a program.
    fn add(&mut self, form: &Form, rng: &mut Rng) -> Option<()> {
        let mut types: BTreeMap<&str, DType> = BTreeMap::new();
        for (name, allowed) in &form.types {
            let there = self.values().filter_map(|v| v.element.parse().ok());
            let there: Vec<DType> = there.filter(|d| allowed.contains(d)).collect();
            let list = if there.is_empty() || below(rng, 5) == 0 { allowed } else { &there };
            types.insert(name, *list.get(below(rng, list.len()))?);
        }
        // What stands for each name: the axes of a pack, a dim, an argument.
        let mut axes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut said: BTreeMap<&str, String> = BTreeMap::new();
        let (mut weight, mut rank) = (true, None);
        for p in &form.params {
            let text = match &p.kind {
                Kind::Tensor(element, shape, constant) => {
                    let dtype = types.get(element.as_str()).copied().or_else(|| element.parse().ok());
                    if let Some(dtype) = dtype.filter(|_| shape.is_empty() && below(rng, 3) == 0) {
                        number(dtype, rng).to_owned()
                    } else {
                        let element = dtype.map_or_else(|| element.clone(), |d| d.to_string());
                        let value = self.argument(&element, shape, *constant, &mut axes, rng);
                        rank.get_or_insert(value.dims.len());
                        weight &= value.weight;
                        value.name
                    }
                }
                Kind::Attribute(of) => attribute(of, rank.unwrap_or(0), rng),
            };
            said.insert(&p.name, text);
        }
        for name in &form.untold {
            said.insert(name, below(rng, 4).to_string());
        }
        said.extend(types.iter().map(|(name, d)| (*name, d.to_string())));
        said.extend(axes.iter().filter_map(|(name, list)| Some((*name, list.first()?.clone()))));
        let line =
            substituted(&form.text, &|name| said.get(name).cloned(), &|name| axes.get(name).map(Vec::len));
        let first = self.lines.iter().map(|l| l.values.len()).sum::<usize>();
        let value =
            |k| Value { name: format!("v{}", first + k), element: String::new(), dims: Vec::new(), weight };
        self.lines.push(Line { values: (0..form.values).map(value).collect(), text: line });
        self.checked()
    }

    /// Gives the values of the last line their types; none if that is no program, or its values are not tame.
    fn checked(&mut self) -> Option<()> {
        let (mut front, id) = front(&self.text(false)).ok()?;
        let func = &mut front.module.funcs[id.0 as usize];
        let line = self.lines.last_mut()?;
        for value in &mut line.values {
            let at = func.vals.iter().rposition(|v| v.name.name() == value.name)?;
            let ty = func.vals[at].ty.clone();
            value.element = ty.dtype.to_string();
            value.dims = ty.shape.iter().map(ToString::to_string).collect();
            func.body.results.push(ir::graph::ValId(at as u32));
            func.results.push(None);
            func.result_types.push(ty);
        }
        let tame = |(_, t): &(String, Tensor)| {
            let most = if t.dtype() == DType::F16 { 32.0 } else { 1e3 };
            !t.dtype().is_float() || (0..t.len()).all(|i| t.get_f64(i).abs() <= most)
        };
        for args in self.data(&front, id).ok()? {
            let results = engine::interpret(&front, &front.module, id, args).ok()?;
            results.iter().all(tame).then_some(())?;
        }
        Some(())
    }

    /// A value of a type, one that is there or a new argument; what its axes are is then known.
    fn argument<'f>(
        &mut self,
        element: &str,
        shape: &'f [Axis],
        constant: bool,
        axes: &mut BTreeMap<&'f str, Vec<String>>,
        rng: &mut Rng,
    ) -> Value {
        let fits = |v: &&Value| v.element == element && (v.weight || !constant);
        let found = self.values().filter(fits).filter_map(|v| Some((v, unified(shape, &v.dims, axes)?)));
        let found: Vec<(&Value, BTreeMap<&str, Vec<String>>)> = found.collect();
        if !found.is_empty() && below(rng, 5) > 0 {
            // The later of two: lines stand on lines.
            let at = below(rng, found.len()).max(below(rng, found.len()));
            let (value, now) = found[at].clone();
            *axes = now;
            return value.clone();
        }
        for axis in shape {
            let (name, n) = match axis {
                Axis::Pack(name) => (name, below(rng, 3)),
                Axis::Dim(name) => (name, 1),
                Axis::Blocks(name) => {
                    axes.entry(name).or_insert_with(|| vec![BLOCKS[below(rng, BLOCKS.len())].to_owned()]);
                    continue;
                }
            };
            let mut new = || AXES[below(rng, AXES.len())].to_owned();
            axes.entry(name).or_insert_with(|| (0..n).map(|_| new()).collect());
        }
        let dims = shape
            .iter()
            .flat_map(|(Axis::Pack(n) | Axis::Dim(n) | Axis::Blocks(n))| axes[n.as_str()].clone())
            .collect();
        let weight = constant || below(rng, 3) == 0;
        let name = format!("{}p{}", if weight { "w." } else { "" }, self.args.len());
        let value = Value { name, element: element.to_owned(), dims, weight };
        self.args.push(value.clone());
        value
    }

    /// Whether lossy rules may fire: in some of the programs in which a float decides nothing.
    fn is_tolerant(&self) -> bool {
        let made = self.lines.iter().flat_map(|l| &l.values);
        let float = |v: &Value| v.element.parse().is_ok_and(|d: DType| d.is_float());
        self.seed.is_multiple_of(TOLERANT) && made.clone().all(float)
    }

    /// The program as text, which gives back its results or nothing.
    pub(super) fn text(&self, whole: bool) -> String {
        let mut out = String::new();
        let (weights, plain): (Vec<&Value>, Vec<&Value>) = self.args.iter().partition(|a| a.weight);
        let _ = writeln!(out, "record W<n, m> {{");
        for v in &weights {
            let name = v.name.trim_start_matches("w.");
            let _ = writeln!(out, "    {name}: {} from \"{name}\"", v.ty());
        }
        let params: Vec<String> = plain.iter().map(|v| format!("{}: {}, ", v.name, v.ty())).collect();
        let types: Vec<String> = self.results.iter().map(Value::ty).collect();
        let names: Vec<&str> = self.results.iter().map(|v| v.name.as_str()).collect();
        let one = |list: String| if names.len() == 1 { list } else { format!("({list})") };
        let ret = if whole { format!("-> {} ", one(types.join(", "))) } else { String::new() };
        let _ = writeln!(out, "}}\n");
        if whole && self.is_tolerant() {
            let _ = writeln!(out, "#[tolerance({TOLERANCE})]");
        }
        let _ = writeln!(out, "fn main<n, m>({}w: W<n, m>) {ret}{{", params.concat());
        for line in &self.lines {
            let made: Vec<&str> = line.values.iter().map(|v| v.name.as_str()).collect();
            let made = if made.len() == 1 { made.concat() } else { format!("({})", made.join(", ")) };
            let _ = writeln!(out, "    let {made} = {}", line.text);
        }
        if whole {
            let _ = writeln!(out, "    {}", one(names.join(", ")));
        }
        out + "}\n"
    }

    /// The arguments of each run as texts.
    pub(super) fn arguments(&self) -> Vec<Vec<String>> {
        let of = |(k, (n, m)): (usize, &(i64, i64))| {
            let seed = self.seed.wrapping_mul(31).wrapping_add(100 * k as u64);
            let plain = self.args.iter().filter(|a| !a.weight).enumerate();
            let plain = plain.map(|(i, a)| format!("{}=random@{}", a.name, seed.wrapping_add(1 + i as u64)));
            [format!("n={n}"), format!("m={m}"), format!("w=random@{seed}")]
                .into_iter()
                .chain(plain)
                .collect()
        };
        self.runs.iter().enumerate().map(of).collect()
    }

    /// The arguments of each run.
    pub(super) fn data(&self, front: &Front, id: FuncId) -> Result<Vec<Vec<Tensor>>, String> {
        let func = front.module.func(id);
        let made = |given: &Vec<String>| {
            data::arguments(&func.name, &data::wanted(func), &front.module.settings, given)
                .map_err(|f| f.render(&front.sources, false))
        };
        self.arguments().iter().map(made).collect()
    }

    /// Smaller programs, each with one thing less: a run, a result, a line whose values are arguments instead.
    pub(super) fn smaller(&self) -> Vec<Draft> {
        let mut out = Vec::new();
        if self.runs.len() > 1 {
            out.extend(self.runs.iter().map(|r| Draft { runs: vec![*r], ..self.clone() }));
        }
        if self.results.len() > 1 {
            out.extend(self.results.iter().map(|r| Draft { results: vec![r.clone()], ..self.clone() }));
        }
        for (at, line) in self.lines.iter().enumerate() {
            let mut less = self.clone();
            less.lines.remove(at);
            let read = |v: &&Value| less.lines.iter().any(|l| l.reads(&v.name));
            let given: Vec<Value> = line.values.iter().filter(read).cloned().collect();
            less.args.extend(given.into_iter().map(|v| Value { weight: false, ..v }));
            less.results.retain(|r| line.values.iter().all(|v| v.name != r.name));
            if !less.results.is_empty() {
                out.push(less);
            }
        }
        for (at, arg) in self.args.iter().enumerate().skip(2) {
            if !self.lines.iter().any(|l| l.reads(&arg.name)) {
                let mut less = self.clone();
                less.args.remove(at);
                out.push(less);
            }
        }
        out
    }
}

/// A text as a checked program, with its entry.
pub(super) fn front(text: &str) -> Result<(Front, FuncId), String> {
    let mut sources = pipeline::sources();
    let id = sources.add("random.tn", text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
    let id = pipeline::entry(&mut front, Some("main")).map_err(|f| f.render(&front.sources, false))?;
    Ok((front, id))
}

pub(super) fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n.max(1) as u64) as usize
}

fn number(dtype: DType, rng: &mut Rng) -> &'static str {
    if dtype.is_float() {
        ["0.5", "2.0", "1.5", "0.25"][below(rng, 4)]
    } else if dtype.is_int() {
        ["2", "3", "5", "1"][below(rng, 4)]
    } else {
        ["true", "false"][below(rng, 2)]
    }
}

/// Something that an attribute may be, of an operator on so many axes.
fn attribute(of: &str, rank: usize, rng: &mut Rng) -> String {
    let axis = |rng: &mut Rng| below(rng, 2 * rank) as i64 - rank as i64;
    match (of, below(rng, 3)) {
        ("bool", draw) => (draw == 0).to_string(),
        ("int", _) => axis(rng).to_string(),
        (_, 0) => format!("[{}]", axis(rng)),
        (_, 1) => format!("[{}, {}]", below(rng, rank), below(rng, rank)),
        _ => {
            // All axes in any order.
            let mut all: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|i| all.swap(i, below(rng, i + 1)));
            format!("{all:?}")
        }
    }
}

/// What names of axes stand for if a shape is this one; none if it cannot be.
fn unified<'f>(
    shape: &'f [Axis],
    dims: &[String],
    axes: &BTreeMap<&'f str, Vec<String>>,
) -> Option<BTreeMap<&'f str, Vec<String>>> {
    let mut axes = axes.clone();
    let fixed = shape.iter().filter(|a| !matches!(a, Axis::Pack(_))).count();
    let mut rest = dims;
    for axis in shape {
        let (name, n) = match axis {
            Axis::Pack(name) => (name, dims.len().checked_sub(fixed)?),
            Axis::Dim(name) | Axis::Blocks(name) => (name, 1),
        };
        let (here, after) = rest.split_at_checked(n)?;
        rest = after;
        if *axes.entry(name).or_insert_with(|| here.to_vec()) != here {
            return None;
        }
    }
    rest.is_empty().then_some(axes)
}

/// The text of a form with its names replaced, but for those of named arguments and of fields. The axes of a pack are a
/// list.
fn substituted(
    words: &[String],
    of: &dyn Fn(&str) -> Option<String>,
    rank: &dyn Fn(&str) -> Option<usize>,
) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let next = |k: usize| words.get(at + k).map_or("", String::as_str);
        let argument = next(1).starts_with('=') && !next(1).starts_with("==");
        let field = out.ends_with('.') && !out.ends_with("..");
        if let (Some(rank), ".", "axes") = (rank(word), next(1), next(2)) {
            let _ = write!(out, "{:?}", (0..rank).collect::<Vec<_>>());
            at += 3;
            continue;
        }
        match of(word).filter(|_| !argument && !field) {
            Some(text) if text.contains(' ') => {
                let _ = write!(out, "({text})");
            }
            Some(text) => out.push_str(&text),
            None => out.push_str(word),
        }
        at += 1;
    }
    out
}
