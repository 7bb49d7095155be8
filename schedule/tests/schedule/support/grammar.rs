//! The text of a random typed primitive: nests in any order, reductions, guards, local buffers, scans, scatters, rows
//! whose ends are data, in every element type.
//!
//! What is computed is exact: a bound on each value's magnitude is kept, and what would pass the integers that its
//! type holds exactly is not written. So every order of summation gives the same bits. Integers wrap, and may be wild.

use super::{Numbers, program};

/// Every extent that [`super::sizes`] gives is at most this.
pub const LONGEST: i64 = 130;

const TYPES: [&str; 10] = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "bool"];
const DIMS: [&str; 3] = ["m", "k", "n"];

/// Magnitudes up to here are exact in a float; what an integer holds.
fn most(t: &str) -> f64 {
    match t {
        "bf16" => 256.0,
        "f16" => 2048.0,
        "f32" => 16_777_216.0,
        "f64" => 9e15,
        "i8" => 128.0,
        "u8" => 255.0,
        "i16" => 32768.0,
        "i32" => 2_147_483_648.0,
        _ => 9.3e18,
    }
}

fn float(t: &str) -> bool {
    t.contains('f')
}

/// The largest magnitude in a parameter.
fn given(name: &str, t: &str) -> f64 {
    match t {
        _ if name.starts_with("wild") => most(t),
        "bf16" => 1.0,
        "u8" => 6.0,
        _ => 3.0,
    }
}

#[derive(Clone)]
struct Buffer {
    name: String,
    of: &'static str,
    shape: Vec<String>,
    bound: f64,
}

/// A variable of a loop or sum: below `below`, which is a dim, a number, or in brackets.
#[derive(Clone)]
struct Var {
    name: String,
    below: String,
}

type Value = (String, f64);

struct Maker<'r> {
    r: &'r mut Numbers,
    params: Vec<Buffer>,
    /// Local buffers and results that are written everywhere.
    written: Vec<Buffer>,
    vars: Vec<Var>,
    count: usize,
    lines: Vec<String>,
}

/// The text of a random primitive, with a function that calls it.
pub fn random(r: &mut Numbers) -> String {
    let mut maker = Maker { r, params: vec![], written: vec![], vars: vec![], count: 0, lines: vec![] };
    for _ in 0..maker.r.below(3) {
        let buffer = maker.buffer("t");
        let (name, of, shape) = (&buffer.name, buffer.of, buffer.shape.join(", "));
        maker.lines.push(format!("    var {name}: {of}[{shape}]"));
        maker.fill(buffer);
    }
    let outs: Vec<Buffer> = (0..1 + maker.r.below(4) / 3).map(|_| maker.buffer("y")).collect();
    outs.iter().for_each(|b| maker.fill(b.clone()));
    maker.text(&outs)
}

impl Maker<'_> {
    fn name(&mut self, of: &str) -> String {
        self.count += 1;
        format!("{of}{}", self.count)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.r.below(n) == 0
    }

    fn dim(&mut self) -> String {
        self.r.pick(&DIMS).to_owned()
    }

    fn atom(&mut self) -> String {
        if self.one_in(6) { self.r.pick(&["1", "3", "8", "12"]).to_owned() } else { self.dim() }
    }

    /// A buffer to write.
    fn buffer(&mut self, name: &str) -> Buffer {
        let rank = self.r.pick(&[1, 1, 2, 2, 2, 3]);
        let mut shape: Vec<String> = Vec::new();
        while shape.len() < rank {
            let atom = self.atom();
            if !shape.contains(&atom) {
                shape.push(atom);
            }
        }
        // Half of all numbers are what people mostly compute with.
        let of = if self.one_in(2) { "f32" } else { self.r.pick(&TYPES) };
        Buffer { name: self.name(name), of, shape, bound: 0.0 }
    }

    /// A parameter of a type and shape, an old one where there is one.
    fn param(&mut self, prefix: &str, of: &'static str, shape: Vec<String>) -> Buffer {
        let fits = |b: &&Buffer| {
            b.name.trim_end_matches(char::is_numeric) == prefix && b.of == of && b.shape == shape
        };
        if let Some(found) = self.params.iter().find(fits).cloned()
            && !self.one_in(4)
        {
            return found;
        }
        let name = self.name(prefix);
        let bound = given(&name, of);
        self.params.push(Buffer { name, of, shape, bound });
        self.params[self.params.len() - 1].clone()
    }

    /// A place along some axis, and the extent of one that has it.
    fn element(&mut self) -> (String, String) {
        let Some(var) = self.some_var() else {
            return ("0".into(), "1".into());
        };
        let Var { name: i, below: e } = var;
        match self.r.below(14) {
            0 => (format!("{i} + 2"), format!("{e} + 2")),
            1 => (format!("{e} - 1 - {i}"), e),
            2 => {
                let odd = self.r.below(2);
                (format!("2 * {i} + {odd}"), format!("2 * {e}"))
            }
            3 => (format!("{i} / 2"), e),
            4 => (format!("{i} % 4"), "4".into()),
            5 => {
                let into = self.dim();
                let at = self.param(&format!("to_{into}"), "i64", vec![e]).name;
                (format!("{at}[{i}]"), into)
            }
            _ => (i, e),
        }
    }

    fn read(&mut self, t: &'static str) -> Value {
        let known: Vec<Buffer> = self.written.iter().filter(|b| b.of == t).cloned().collect();
        if !known.is_empty() && !self.one_in(3) {
            let b = self.r.pick(&known);
            if let Some(at) = b.shape.iter().map(|e| self.along(e)).collect::<Option<Vec<_>>>() {
                return (format!("{}[{}]", b.name, at.join(", ")), b.bound);
            }
        }
        let places: Vec<_> = (0..self.r.pick(&[1, 1, 2, 2, 2, 3])).map(|_| self.element()).collect();
        let (at, shape): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        let wild = !float(t) && t != "bool" && self.one_in(4);
        let b = self.param(if wild { "wild" } else { "x" }, t, shape);
        (format!("{}[{}]", b.name, at.join(", ")), b.bound)
    }

    /// A place along an axis of this extent, if a variable reaches along it.
    fn along(&mut self, e: &str) -> Option<String> {
        let fits: Vec<Var> = self.vars.iter().filter(|v| v.below == e).cloned().collect();
        let i = (!fits.is_empty()).then(|| self.r.pick(&fits).name)?;
        Some(match self.r.below(8) {
            0 => format!("{e} - 1 - {i}"),
            1 => format!("min({i} + 1, {e} - 1)"),
            2 => format!("max({i} - 1, 0)"),
            _ => i,
        })
    }

    fn leaf(&mut self, t: &'static str) -> Value {
        match self.r.below(8) {
            0 => (format!("{t}(2)"), 2.0),
            1 if !self.vars.is_empty() => {
                let i = self.r.pick(&self.vars).name;
                (format!("{t}({i} % 3)"), 2.0)
            }
            2 => {
                let u = self.r.pick(&TYPES);
                let (e, bound) = self.read(u);
                let held = if float(t) { bound <= most(t) } else { true };
                if held { (format!("{t}({e})"), bound.min(most(t))) } else { self.read(t) }
            }
            _ => self.read(t),
        }
    }

    /// A range for a loop or a sum, and what its variable is below.
    fn range(&mut self) -> (String, String) {
        let var = self.some_var();
        let Some(Var { name: i, below: e }) = var.filter(|_| self.one_in(3)) else {
            let atom = self.atom();
            return (atom.clone(), atom);
        };
        let into = self.dim();
        match self.r.below(6) {
            0 => (format!("0..{i} + 1"), e),
            1 => (format!("{i}..{e}"), e),
            2 => (format!("max({i} - 2, 0)..min({i} + 3, {e})"), e),
            3 => {
                let ends = self.param(&format!("len_{into}"), "i64", vec![e]).name;
                (format!("0..{ends}[{i}]"), into)
            }
            _ => {
                let at = self.param(&format!("at_{into}"), "i64", vec![format!("{e} + 1")]).name;
                (format!("{at}[{i}]..{at}[{i} + 1]"), into)
            }
        }
    }

    /// An expression of a type.
    fn value(&mut self, t: &'static str, depth: usize) -> Value {
        if t == "bool" {
            return (self.test(depth), 1.0);
        }
        if depth == 0 {
            return self.leaf(t);
        }
        let (text, bound) = match self.r.below(12) {
            0 | 1 => {
                let (a, x) = self.value(t, depth - 1);
                let (b, y) = self.value(t, depth - 1);
                (format!("({a} + {b})"), x + y)
            }
            2 => {
                let (a, x) = self.value(t, depth - 1);
                let (b, y) = self.leaf(t);
                (format!("({a} - {b})"), x + y)
            }
            3 | 4 => {
                let (a, x) = self.value(t, depth - 1);
                let (b, y) = self.leaf(t);
                (format!("{a} * {b}"), x * y)
            }
            5 => {
                let (a, x) = self.value(t, depth - 1);
                let (b, y) = self.leaf(t);
                let way = self.r.pick(&["min", "max"]);
                (format!("{way}({a}, {b})"), x.max(y))
            }
            6 => {
                let c = self.test(depth - 1);
                let (a, x) = self.value(t, depth - 1);
                let (b, y) = self.leaf(t);
                let text = if self.one_in(2) {
                    format!("(if {c} {{ {a} }} else {{ {b} }})")
                } else {
                    format!("select({c}, {a}, {b})")
                };
                (text, x.max(y))
            }
            7 => {
                let (a, x) = self.value(t, depth - 1);
                (self.r.pick(&["abs", "sign", "-"]).to_owned() + &format!("({a})"), x)
            }
            8 if !float(t) => {
                let (a, x) = self.value(t, depth - 1);
                let by = self.r.pick(&["/ {t}(3)", "% {t}(5)"]).replace("{t}", t);
                (format!("({a}) {by}"), x)
            }
            8 | 9 => self.product(t),
            _ => self.reduction(t, depth),
        };
        let held = !float(t) && bound > most(t);
        if held {
            (text, most(t))
        } else if bound <= most(t) {
            (text, bound)
        } else {
            self.leaf(t)
        }
    }

    fn reduction(&mut self, t: &'static str, depth: usize) -> Value {
        let (range, below) = self.range();
        let p = self.name("p");
        self.vars.push(Var { name: p.clone(), below });
        let (e, x) = self.value(t, depth - 1);
        let guard = self.one_in(5).then(|| self.test(0));
        self.vars.pop();
        let body = guard.map_or(e.clone(), |g| format!("if {g} {{ {e} }} else {{ {t}(1) }}"));
        let way = self.r.pick(&["sum", "sum", "sum", "max", "min"]);
        let bound = if way == "sum" { x * LONGEST as f64 } else { x };
        (format!("({way}({p} in {range}) {body})"), bound)
    }

    fn some_var(&mut self) -> Option<Var> {
        (!self.vars.is_empty()).then(|| self.r.pick(&self.vars))
    }

    /// A product of matrices, or as much of one as the variables allow; of narrow numbers too.
    fn product(&mut self, t: &'static str) -> Value {
        let (range, below) = self.range();
        let p = Var { name: self.name("p"), below };
        let (a, x) = self.operand(t, &p);
        let (b, y) = self.operand(t, &p);
        (format!("(sum({} in {range}) {a} * {b})", p.name), x * y * LONGEST as f64)
    }

    fn operand(&mut self, t: &'static str, p: &Var) -> Value {
        let mut at: Vec<Var> = self.some_var().into_iter().chain([p.clone()]).collect();
        if self.one_in(2) {
            at.reverse();
        }
        let u = if self.one_in(2) { t } else { self.r.pick(&TYPES) };
        let (at, shape): (Vec<_>, Vec<_>) = at.into_iter().map(|v| (v.name, v.below)).unzip();
        let b = self.param("x", u, shape);
        let read = format!("{}[{}]", b.name, at.join(", "));
        (if u == t { read } else { format!("{t}({read})") }, b.bound)
    }

    fn test(&mut self, depth: usize) -> String {
        let index = self.some_var().zip(self.some_var());
        match (self.r.below(7), index) {
            (0, Some((i, j))) => format!("{} <= {} + 1", i.name, j.name),
            (1, Some((i, _))) => format!("{} % 3 == 0", i.name),
            (2, Some((i, j))) => format!("{} + 1 < {} && {} >= 2", i.name, i.below, j.name),
            (3, _) => self.read("bool").0,
            (4, _) => format!("!({} || {})", self.read("bool").0, self.test(depth / 2)),
            (5, _) if depth > 0 => {
                let (range, below) = self.range();
                let p = self.name("p");
                self.vars.push(Var { name: p.clone(), below });
                let e = self.test(depth - 1);
                self.vars.pop();
                format!("({}({p} in {range}) {e})", self.r.pick(&["any", "all"]))
            }
            _ => {
                let t = self.r.pick(&["f32", "i32", "i64", "u8", "bf16"]);
                let (a, b) = (self.value(t, depth / 2).0, self.leaf(t).0);
                format!("{a} {} {b}", self.r.pick(&["<", ">=", "==", "!="]))
            }
        }
    }

    /// Loops over these axes, in some order, and others around or in between; `with` writes their body.
    fn nest(
        &mut self,
        shape: &[String],
        more: usize,
        with: &mut dyn FnMut(&mut Self, &[String]) -> Vec<String>,
    ) {
        let mut order: Vec<Option<usize>> =
            (0..shape.len()).map(Some).chain((0..more).map(|_| None)).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.r.below(i + 1));
        }
        let (mut at, mut heads) = (vec![String::new(); shape.len()], Vec::new());
        for axis in order {
            let i = self.name("i");
            let (range, below) = match axis {
                Some(axis) => {
                    at[axis] = i.clone();
                    (shape[axis].clone(), shape[axis].clone())
                }
                None => self.range(),
            };
            heads.push(format!("{i} in {range}"));
            self.vars.push(Var { name: i, below });
        }
        let body = with(self, &at);
        self.vars.clear();
        if body.len() == 1 && self.one_in(2) {
            self.lines.push(format!("    for {} {{ {} }}", heads.join(", "), body[0]));
            return;
        }
        let depth = heads.len();
        for (deep, head) in heads.into_iter().enumerate() {
            self.lines.push(format!("{}for {head} {{", "    ".repeat(deep + 1)));
        }
        let lines = body.into_iter().map(|line| format!("{}{line}", "    ".repeat(depth + 1)));
        self.lines.extend(lines);
        for deep in (0..depth).rev() {
            self.lines.push(format!("{}}}", "    ".repeat(deep + 1)));
        }
    }

    /// Writes a buffer everywhere.
    fn fill(&mut self, mut b: Buffer) {
        let (name, t, shape) = (b.name.clone(), b.of, b.shape.clone());
        let mut bound = 0.0;
        let added = most(t) >= 2.0 * (LONGEST * LONGEST) as f64 || !float(t);
        let way = self.r.below(8);
        let added_up = way < 2 && t != "bool";
        match way {
            // Added up, in whatever order the loops stand.
            0 | 1 if added_up => {
                let more = usize::from(added) * self.r.below(3);
                self.nest(&shape, more, &mut |m, at| {
                    let way = if more > 0 { m.r.pick(&["+=", "+=", "max="]) } else { "+=" };
                    let mut value = m.value(t, 1);
                    if float(t) && value.1 * ((LONGEST * LONGEST) as f64) > most(t) {
                        value = m.param_leaf(t);
                    }
                    bound = (value.1 * ((LONGEST * LONGEST) as f64)).min(most(t));
                    let line = format!("{name}[{}] {way} {}", at.join(", "), value.0);
                    vec![if m.one_in(3) { format!("if {} {{ {line} }}", m.test(1)) } else { line }]
                });
            }
            // A number of each round, made in a loop.
            2 if t != "bool" && added => self.nest(&shape, 0, &mut |m, at| {
                let s = m.name("s");
                let (range, below) = m.range();
                let q = m.name("q");
                m.vars.push(Var { name: q.clone(), below });
                let (e, x) = m.param_leaf(t);
                let step = m.r.pick(&["{s} + {e}", "max({s}, {e})", "if {e} > {s} { {e} } else { {s} }"]);
                m.vars.pop();
                bound = x * LONGEST as f64 + 1.0;
                vec![
                    format!("var {s}: {t} = {t}(1)"),
                    format!("for {q} in {range} {{ {s} = {} }}", step.replace("{s}", &s).replace("{e}", &e)),
                    format!("{name}[{}] = {s}", at.join(", ")),
                ]
            }),
            // Element by element.
            _ => self.nest(&shape, 0, &mut |m, at| {
                let depth = m.r.below(3);
                let (e, x) = m.value(t, depth);
                bound = x;
                let at = at.join(", ");
                if m.one_in(5) {
                    let (other, y) = m.leaf_of(t);
                    bound = bound.max(y);
                    let test = m.test(1);
                    return vec![format!(
                        "if {test} {{ {name}[{at}] = {e} }} else {{ {name}[{at}] = {other} }}"
                    )];
                }
                if m.one_in(4) {
                    let v = m.name("v");
                    return vec![format!("let {v} = {e}"), format!("{name}[{at}] = {v}")];
                }
                vec![format!("{name}[{at}] = {e}")]
            }),
        }
        b.bound = bound.min(most(t));
        if self.one_in(4) {
            self.again(&b, added_up);
        }
        self.written.push(b);
    }

    /// Writes a part of what is written: rounds that need those before them, places that data tell. What is
    /// `added_up` begins at zero only if it is never written otherwise.
    fn again(&mut self, b: &Buffer, added_up: bool) {
        let (name, t, first) = (&b.name, b.of, &b.shape[0]);
        let (i, rest) = (self.name("i"), &b.shape[1..]);
        let inner: Vec<(String, String)> = rest.iter().map(|e| (self.name("i"), e.clone())).collect();
        let behind: String = inner.iter().map(|(j, _)| format!(", {j}")).collect();
        let mut heads: Vec<String> = inner.iter().map(|(j, e)| format!("{j} in {e}")).collect();
        self.vars = inner.into_iter().map(|(name, below)| Var { name, below }).collect();
        self.vars.push(Var { name: i.clone(), below: first.clone() });
        let (e, x) = self.leaf_of(t);
        let keep = x <= b.bound;
        let way = if t == "bool" { self.r.pick(&["or=", "and="]) } else { self.r.pick(&["max=", "min="]) };
        let (range, line) = match self.r.below(4) {
            0 => (format!("1..{first}"), format!("{name}[{i}{behind}] {way} {name}[{i} - 1{behind}]")),
            1 if !added_up => {
                (format!("0..{first} - 1"), format!("{name}[{i}{behind}] = {name}[{i} + 1{behind}]"))
            }
            2 if keep => {
                let to = DIMS
                    .contains(&first.as_str())
                    .then(|| self.param(&format!("to_{first}"), "i64", vec![first.clone()]));
                let at = to.map_or(i.clone(), |to| format!("{}[{i}]", to.name));
                (first.clone(), format!("{name}[{at}{behind}] {way} {e}"))
            }
            _ if keep && !added_up => {
                (first.clone(), format!("if {} {{ {name}[{i}{behind}] = {e} }}", self.test(0)))
            }
            _ => (first.clone(), format!("{name}[{i}{behind}] {way} {name}[{i}{behind}]")),
        };
        self.vars.clear();
        let place = self.r.below(heads.len() + 1);
        heads.insert(place, format!("{i} in {range}"));
        self.lines.push(format!("    for {} {{ {line} }}", heads.join(", ")));
    }

    fn param_leaf(&mut self, t: &'static str) -> Value {
        let known = std::mem::take(&mut self.written);
        let read = self.read(t);
        self.written = known;
        read
    }

    fn leaf_of(&mut self, t: &'static str) -> Value {
        if t == "bool" { self.read(t) } else { self.leaf(t) }
    }

    fn text(mut self, outs: &[Buffer]) -> String {
        for dim in DIMS {
            let is_axis = |b: &Buffer| b.shape.iter().any(|e| e == dim);
            let word = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == dim);
            let used = self.lines.iter().any(|l| word(l))
                || self.params.iter().chain(outs).any(|b| b.shape.iter().any(|e| word(e)));
            if used && !self.params.iter().any(is_axis) {
                self.params.push(Buffer {
                    name: format!("only_{dim}"),
                    of: "bool",
                    shape: vec![dim.to_owned()],
                    bound: 1.0,
                });
            }
        }
        let ty = |b: &Buffer| format!("{}[{}]", b.of, b.shape.join(", "));
        let given = |d: &&str| self.params.iter().any(|b| b.shape.iter().any(|e| e == d));
        let dims: Vec<&str> = DIMS.into_iter().filter(given).collect();
        let params: Vec<String> = self.params.iter().map(|b| format!("{}: {}", b.name, ty(b))).collect();
        let results: Vec<_> = outs.iter().map(|b| (b.name.clone(), ty(b))).collect();
        program(&dims, &params.join(", "), &results, &self.lines.join("\n"))
    }
}
