//! Random whole programs, for the differential test: every engine must give the same.
//!
//! A program is text, made from a seed: graph functions over two symbolic dims with element-wise chains,
//! broadcasting, products, reductions, views of parts and reshapes, branches, loops that sum rows, swap what they carry
//! or update it in place, extents that only data tell, and primitives of its own.
//! Data are small integers and magnitudes are kept below 2^22, so that every order of summation gives
//! the same bits in f32 and results are compared exactly.

use std::fmt::Write as _;

use tensor::generate::Rng;

/// Magnitudes up to here stay exact in f32, with room for one more operation.
const EXACT: f64 = 4_194_304.0;

/// The extent used to bound the magnitude of a sum along a symbolic dim.
const WIDEST: f64 = 130.0;

/// A value of the program: its name, its dims as text, the largest magnitude it can have.
#[derive(Clone)]
struct Value {
    name: String,
    dims: Vec<&'static str>,
    bound: f64,
    /// True where it is memory of its own: an `if` may pass on what is only borrowed.
    owned: bool,
}

/// The primitives of every program.
const PRIMS: &str = "\
prim bump<n, m>(own x: f32[n, m]) -> x {
    for i in n, j in m { x[i, j] = x[i, j] + 1 }
}

prim moved<n, m>(x: f32[n, m], const down: i64, const right: i64) -> y: f32[n, m] {
    for i in n, j in m {
        y[i, j] = if i >= down && i - down < n && !(j < right || j - right >= m) {
            x[i - down, j - right]
        } else if i == j { 2.0 } else { -1.0 }
    }
}

prim window<n, m>(x: f32[n, m], const reach: i64) -> y: f32[n, m] {
    for i in n, j in m {
        y[i, j] = sum(a in 2 * reach + 1, b in 2 * reach + 1)
            if i + a >= reach && i + a < n + reach && j + b >= reach && j + b < m + reach {
                let from = i + a - reach
                x[from, j + b - reach]
            } else { 0.0 }
    }
}
";

/// A function that is no straight line: calls of it stay calls.
const TURNS: &str = "\
fn turns<n, m>(own x: f32[n, m], y: f32[n, m], k: i64) -> f32[n, m] {
    var z = x
    var i = 0
    while i < k {
        z = if i % 2 == 0 { bump(z) } else { z + y }
        i = i + 1
    }
    z
}
";

/// A program and the arguments it is run with.
#[derive(Debug, Clone)]
pub struct Program {
    /// The text.
    pub text: String,
    /// Arguments for each run: different dims.
    pub runs: Vec<Vec<String>>,
}

struct Maker {
    rng: Rng,
    values: Vec<Value>,
    lines: Vec<String>,
    count: usize,
}

impl Maker {
    fn pick(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn any(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let fitting: Vec<Value> = self.values.iter().filter(|v| fits(v)).cloned().collect();
        if fitting.is_empty() { None } else { Some(fitting[self.pick(fitting.len())].clone()) }
    }

    fn push(&mut self, dims: Vec<&'static str>, bound: f64, text: String) {
        let name = format!("v{}", self.count);
        self.count += 1;
        self.lines.push(format!("    let {name} = {text}"));
        let owned = !text.starts_with("if ");
        self.values.push(Value { name, dims, bound, owned });
    }

    /// Adds one operation, if the one drawn fits.
    fn step(&mut self) {
        let Some(a) = self.any(|_| true) else { return };
        let extent = |d: &str| d.parse::<f64>().unwrap_or(WIDEST);
        let matrix = a.dims == ["n", "m"];
        match self.pick(22) {
            0 => self.push(a.dims, a.bound, format!("relu({})", a.name)),
            1 => self.push(a.dims, a.bound, format!("-{}", a.name)),
            2 => self.push(a.dims, a.bound, format!("abs({})", a.name)),
            3 | 4 => {
                // Shapes that are equal, or whose last axes are.
                let Some(b) = self.any(|b| a.dims.ends_with(&b.dims)) else { return };
                let (op, bound) = match self.pick(3) {
                    0 => ("+", a.bound + b.bound),
                    1 => ("-", a.bound + b.bound),
                    _ => ("*", a.bound * b.bound),
                };
                if bound < EXACT {
                    self.push(a.dims, bound, format!("{} {op} {}", a.name, b.name));
                }
            }
            5 => {
                let Some(b) = self.any(|b| a.dims == b.dims) else { return };
                let name = if self.pick(2) == 0 { "min" } else { "max" };
                self.push(a.dims, a.bound.max(b.bound), format!("{name}({}, {})", a.name, b.name));
            }
            6 => {
                let [_, k] = a.dims[..] else { return };
                let Some(b) = self.any(|b| b.dims.len() == 2 && b.dims[0] == k) else { return };
                let bound = a.bound * b.bound * extent(k);
                if bound < EXACT {
                    self.push(vec![a.dims[0], b.dims[1]], bound, format!("{} @ {}", a.name, b.name));
                }
            }
            7 => {
                if a.dims.is_empty() {
                    return;
                }
                let axis = self.pick(a.dims.len());
                let mut dims = a.dims.clone();
                let gone = dims.remove(axis);
                let bound = a.bound * extent(gone);
                if bound < EXACT {
                    self.push(dims, bound, format!("sum({}, axis={axis})", a.name));
                }
            }
            8 => {
                if let [m, n] = a.dims[..] {
                    self.push(vec![n, m], a.bound, format!("{}.T", a.name));
                }
            }
            9 => {
                let Some(b) = self.any(|b| a.dims == b.dims) else { return };
                let dims = a.dims.clone();
                let bound = a.bound.max(b.bound);
                self.push(dims, bound, format!("select({} > {}, {}, {})", a.name, b.name, a.name, b.name));
            }
            10 => {
                // A branch on a dim.
                let Some(b) = self.any(|b| a.dims == b.dims) else { return };
                let limit = 1 + self.pick(6);
                let text = format!("if n <= {limit} {{ {} + {} }} else {{ {} }}", a.name, b.name, a.name);
                if a.bound + b.bound < EXACT {
                    self.push(a.dims, a.bound + b.bound, text);
                }
            }
            11 => {
                // Elements that exist only behind a condition: from elsewhere, or from nowhere.
                if a.dims == ["n", "m"] {
                    let (down, right) = (self.pick(7) as i64 - 3, self.pick(7) as i64 - 3);
                    self.push(a.dims, a.bound, format!("moved({}, down={down}, right={right})", a.name));
                }
            }
            12 => {
                if a.dims == ["n", "m"] {
                    let (reach, bound) = (self.pick(3), a.bound * 25.0);
                    if bound < EXACT {
                        self.push(a.dims, bound, format!("window({}, reach={reach})", a.name));
                    }
                }
            }
            13 => {
                // A part of a larger value; one way or the other of looking at the same elements.
                let Some(b) = self.any(|b| matrix && b.dims == ["n", "m"]) else { return };
                let from = self.pick(2);
                let text = match self.pick(3) {
                    0 => format!("concat({}, {})[{from}..n + {from}]", a.name, b.name),
                    1 => format!("reshape[n, m](relu(reshape[n * m]({})))", a.name),
                    _ => format!(
                        "reshape[n, m](concat(reshape[n * m]({}), flatten({}))[n * m..])",
                        a.name, b.name
                    ),
                };
                self.push(a.dims, a.bound.max(b.bound), text);
            }
            14 => {
                if matrix {
                    let row = ["0", "-1", "n / 2"][self.pick(3)];
                    self.push(vec!["m"], a.bound, format!("{}[{row}]", a.name));
                }
            }
            15 => {
                // Rows, one after the other.
                let bound = a.bound * WIDEST;
                if matrix && bound < EXACT {
                    let name = format!("w{}", self.count);
                    self.lines.push(format!("    var {name} = zeros[m]"));
                    self.lines.push(format!("    for i in n {{ {name} = {name} + {}[i] }}", a.name));
                    self.push(vec!["m"], bound, format!("{name} + 0.0"));
                }
            }
            16 => {
                // Two values that change places, one of them made anew in each round.
                let Some(b) = self.any(|b| b.dims == a.dims) else { return };
                let bound = (a.bound + b.bound) * 4.0;
                if bound < EXACT {
                    let (p, q) = (format!("p{}", self.count), format!("q{}", self.count));
                    self.lines.push(format!("    var {p} = {}\n    var {q} = {}", a.name, b.name));
                    self.lines.push(format!("    for i in 3 {{\n        let t = {p}\n        {p} = {q}\n        {q} = t + {q}\n    }}"));
                    self.push(a.dims, bound * 2.0, format!("{p} - {q}"));
                }
            }
            17 => {
                // As many elements as data tell.
                let bound = a.bound * WIDEST;
                if a.dims.len() == 1 && bound < EXACT {
                    let some = format!("{0}[nonzero({0} > 0.0)]", a.name);
                    self.push(vec![], bound, format!("sum({some} + {some})"));
                }
            }
            18 | 19 => {
                // A call that takes what it is given.
                let Some(b) = self.any(|b| matrix && b.dims == ["n", "m"]) else { return };
                let trips = self.pick(4);
                let bound = a.bound + b.bound * 2.0 + 4.0;
                if bound < EXACT {
                    self.push(a.dims, bound, format!("turns({} + 0.0, {}, {trips})", a.name, b.name));
                }
            }
            20 => {
                // What a branch on data gives.
                let Some(b) = self.any(|b| a.dims == b.dims) else { return };
                let Some(c) = self.any(|c| c.dims.is_empty()) else { return };
                let text = format!("if {} > 0.0 {{ {} - {} }} else {{ {} }}", c.name, a.name, b.name, b.name);
                if a.bound + b.bound < EXACT {
                    self.push(a.dims, a.bound + b.bound, text);
                }
            }
            _ => {
                // A loop that carries a value.
                let trips = 1 + self.pick(3);
                let bound = a.bound * f64::from(1 << trips);
                if bound >= EXACT {
                    return;
                }
                let name = format!("w{}", self.count);
                self.lines.push(format!("    var {name} = {}", a.name));
                let grow =
                    if self.pick(2) == 0 { format!("{name} + {name}") } else { format!("relu({name})") };
                self.lines.push(format!("    for i in {trips} {{ {name} = {grow} }}"));
                self.push(a.dims, bound, format!("{name} - {}", a.name));
            }
        }
    }
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let value = |name: &str, dims: &[&'static str]| Value {
        name: name.to_owned(),
        dims: dims.to_vec(),
        bound: 4.0,
        owned: false,
    };
    let values = vec![
        value("a", &["n", "m"]),
        value("b", &["n", "m"]),
        value("w", &["m", "8"]),
        value("u", &["m"]),
        value("s", &[]),
    ];
    let mut maker = Maker { rng: Rng::new(seed), values, lines: vec![], count: 0 };
    let steps = 3 + maker.pick(9);
    for _ in 0..steps {
        maker.step();
    }
    if maker.pick(3) == 0 {
        // An owned value, updated in place; what was read of it before must not change.
        if let Some(a) = maker.any(|v| v.dims == ["n", "m"] && v.owned) {
            maker.lines.push(format!("    let before = relu({})", a.name));
            maker.lines.push(format!("    let after = bump({})", a.name));
            maker.values.retain(|v| v.name != a.name);
            maker.values.push(Value { name: "before".into(), ..a.clone() });
            maker.values.push(Value { name: "after".into(), bound: a.bound + 1.0, ..a });
        }
    }
    // The last values made, so that everything is used.
    let results: Vec<Value> = maker.values.iter().rev().take(2).cloned().collect();
    let types: Vec<String> = results
        .iter()
        .map(|r| if r.dims.is_empty() { "f32".to_owned() } else { format!("f32[{}]", r.dims.join(", ")) })
        .collect();
    let names: Vec<&str> = results.iter().map(|r| r.name.as_str()).collect();
    let mut text =
        String::from("fn main<n, m>(a: f32[n, m], b: f32[n, m], w: f32[m, 8], u: f32[m], s: f32) -> ");
    let _ = writeln!(text, "({}) {{", types.join(", "));
    for line in &maker.lines {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "    ({})\n}}\n", names.join(", "));
    text.push_str(TURNS);
    text.push_str(PRIMS);
    // One is past the widest rounds of a kernel.
    let wide = [(33, 130), (64, 65), (65, 64), (129, 7), (7, 128)][maker.pick(5)];
    let runs = [(1, 1), (2, 3), (5, 16), (17, 9), wide].map(|(n, m)| {
        let make =
            |name: &str, dims: &str, k: u64| format!("{name}=randint[{dims}]@{}", seed.wrapping_mul(31) + k);
        vec![
            make("a", &format!("{n},{m}"), 1),
            make("b", &format!("{n},{m}"), 2),
            make("w", &format!("{m},8"), 3),
            make("u", &format!("{m}"), 4),
            make("s", "", 5),
        ]
    });
    Program { text, runs: runs.to_vec() }
}

/// Runs the program of a seed in every engine; what differs, with the least program of it that still does.
pub fn differential(seed: u64) -> Result<(), String> {
    let program = program(seed);
    let differ = |p: &Program| crate::stages::agree("main", &p.text, &p.runs).err();
    let Some(found) = differ(&program) else { return Ok(()) };
    let least = shrink(&program, &|p| differ(p).is_some());
    let found = differ(&least).unwrap_or(found);
    Err(format!("seed {seed}: {found}\n{}\n{:?}", least.text, least.runs))
}

/// A program without the runs and lines that a fault does without. `wrong` says whether a program still has it; one
/// that does not check, because a line uses another that is gone, has it not.
fn shrink(program: &Program, wrong: &dyn Fn(&Program) -> bool) -> Program {
    let mut least = program.clone();
    for run in &program.runs {
        let one = Program { runs: vec![run.clone()], ..least.clone() };
        if wrong(&one) {
            least = one;
            break;
        }
    }
    let checks = |text: &str| {
        let mut sources = driver::pipeline::sources();
        let id = sources.add("random.tn", text);
        driver::pipeline::front(sources, &[id]).is_ok()
    };
    let mut lines: Vec<String> = least.text.lines().map(str::to_owned).collect();
    // Longer stretches first: a loop stands on several lines.
    for stretch in [8, 5, 4, 2, 1] {
        let mut at = lines.len();
        while at > 0 {
            at -= 1;
            if at + stretch > lines.len() {
                continue;
            }
            let mut fewer = lines.clone();
            fewer.drain(at..at + stretch);
            let text = fewer.join("\n") + "\n";
            if checks(&text) && wrong(&Program { text, ..least.clone() }) {
                lines = fewer;
            }
        }
    }
    least.text = lines.join("\n") + "\n";
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_shrinks_to_what_its_fault_needs() {
        let found =
            (0..100).map(program).find(|p| p.text.contains("= window(") && p.text.lines().count() > 52);
        let program = found.expect("such a program is not rare");
        let least = shrink(&program, &|p| p.text.contains("= window("));
        assert_eq!(least.runs.len(), 1);
        // The primitive, the function and the line; its results and what they are made of stay.
        assert!(least.text.lines().count() < program.text.lines().count() / 2, "{}", least.text);
        assert!(least.text.contains("= window("));
    }
}
