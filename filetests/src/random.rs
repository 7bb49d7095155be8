//! Random whole programs, for the differential test: every engine must give the same.
//!
//! A program is text, made from a seed: graph functions over two symbolic dims with element-wise chains,
//! broadcasting, products, reductions, branches, loops and an owned value, and a primitive of its own.
//! Data are small integers and magnitudes are kept below 2^22, so that every order of summation gives
//! the same bits in f32 and results are compared exactly.

use std::fmt::Write as _;

use tensor::generate::Rng;

/// Magnitudes up to here stay exact in f32, with room for one more operation.
const EXACT: f64 = 4_194_304.0;

/// The extent used to bound the magnitude of a sum along a symbolic dim.
const WIDEST: f64 = 17.0;

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
        match self.pick(14) {
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
    text.push_str(PRIMS);
    let runs = [(1, 1), (2, 3), (5, 16), (17, 9)].map(|(n, m)| {
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

/// Runs the program of a seed in every engine; what differs, with the program.
pub fn differential(seed: u64) -> Result<(), String> {
    let program = program(seed);
    crate::stages::agree("main", &program.text, &program.runs)
        .map_err(|e| format!("seed {seed}: {e}\n{}", program.text))
}
