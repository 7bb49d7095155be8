//! Programs made by rule, as long as is asked, for measuring the front half.

#![allow(dead_code, reason = "each test and benchmark uses a part")]
#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]

use std::fmt::Write as _;
use std::path::Path;

use check::Checked;
use ir::ast::File;
use ir::source::{SourceId, SourceMap};

/// The operator library, as parsed.
pub(crate) struct Library {
    pub(crate) sources: SourceMap,
    pub(crate) texts: Vec<(SourceId, String)>,
    pub(crate) files: Vec<File>,
}

impl Library {
    /// Reads `std/*.tn`.
    pub(crate) fn read() -> Library {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std");
        let entries = std::fs::read_dir(folder).expect("the library's folder");
        let mut paths: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "tn"));
        paths.sort();
        let mut library = Library { sources: SourceMap::default(), texts: vec![], files: vec![] };
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("a text");
            let id = library.sources.add(path.display().to_string(), text.clone());
            let (file, faults) = parser::parse(id, &text);
            assert!(faults.is_empty(), "{}: {faults:?}", path.display());
            library.texts.push((id, text));
            library.files.push(file);
        }
        library
    }

    /// Text to a checked module; syntax errors are a panic, the texts here have none.
    pub(crate) fn check(&self, text: &str) -> Checked {
        let (file, faults) = parser::parse(SourceId(self.sources.len() as u32), text);
        assert!(faults.is_empty(), "{}", faults[0].message);
        check::check(&self.files, &vec![file].into())
    }
}

/// A module of about so many lines: layers of a model over symbolic dims, primitives of every kind,
/// functions that call them and each other, tests. Each part has names of its own, as a file that
/// people wrote would have.
pub(crate) fn module(lines: usize) -> String {
    let mut out = String::new();
    let mut written = 0;
    let mut k = 0;
    while written < lines {
        let part = part(k);
        written += part.lines().count();
        out.push_str(&part);
        k += 1;
    }
    out
}

/// About forty lines.
fn part(k: usize) -> String {
    let width = 64 * (1 + k % 7);
    let before = k.checked_sub(1).map_or("relu".to_owned(), |k| format!("mix_{k}"));
    format!(
        r#"/// A layer of two products with a residual path.
fn layer_{k}<n, d, f>(x: f32[n, d], norm: f32[d], up: f32[d, f], gate: f32[d, f], down: f32[f, d]) -> f32[n, d]
where n >= 1, f % 16 == 0
{{
    let h = rms_norm(x, norm, 0.00001)
    let a = silu(h @ gate) * (h @ up)
    let b = a @ down
    x + b * 0.5
}}

/// A classifier for inputs of {width}.
fn head_{k}<n>(x: f32[n, {width}], w: f32[{width}, 10], b: f32[10]) -> f32[n, 10] {{
    let logits = x @ w + b
    let scaled = logits - mean(logits, axis=1).max(0.0).sum_to(n)
    softmax(scaled)
}}

prim mix_{k}<n, d>(x: f32[n, d]) -> y: f32[n, d] {{
    for i in n {{
        let total = sum(j in d) x[i, j] * x[i, j]
        for j in d {{
            if j + 1 < d {{
                y[i, j] = x[i, j] * total + x[i, j + 1]
            }} else {{
                y[i, j] = x[i, j] / (1.0 + total)
            }}
        }}
    }}
}}

prim window_{k}<n, w>(x: f32[n + w], taps: f32[w + 1]) -> y: f32[n] {{
    for i in n {{ y[i] = sum(t in w + 1) x[i + t] * taps[t] }}
}}

/// Both paths, and a loop over steps.
fn both_{k}<n, d>(x: f32[n, d], w: f32[d, d], steps: i64) -> f32[n, d] {{
    var state = {before}(x)
    var at = 0
    while at < steps {{
        let next = tanh(state @ w) + mix_{k}(state)
        state = if n <= 16 {{ next }} else {{ relu(next) }}
        at = at + 1
    }}
    state - exp(-abs(x))
}}

test "part {k} keeps its shape" {{
    let y = both_{k}(ones[3, 4], zeros[4, 4], 2)
    assert same(y, y)
}}

"#
    )
    .replace("    let scaled = logits - mean(logits, axis=1).max(0.0).sum_to(n)\n    softmax(scaled)\n", "    softmax(logits - max(logits, 0.0) * 0.5)\n")
}

/// One expression of `n` operators, in a primitive.
pub(crate) fn long_scalar(n: usize) -> String {
    format!("prim f<n>(x: f32[n]) -> y: f32[n] {{ for i in n {{ y[i] = x[i]{} }} }}\n", " + x[i]".repeat(n))
}

/// One index of `n` operators, in a primitive.
pub(crate) fn long_index(n: usize) -> String {
    format!(
        "prim f<n>(x: f32[n]) -> y: f32[n] {{ for i in n {{ y[i] = x[i{}] }} }}\n",
        " + i - i".repeat(n / 2)
    )
}

/// One expression of `n` operators, in a function.
pub(crate) fn long_chain(n: usize) -> String {
    format!("fn f<n>(x: f32[n]) -> f32[n] {{ x{} }}\n", " + x".repeat(n))
}

/// `n` statements, each from the one before.
pub(crate) fn many_lets(n: usize) -> String {
    let mut out = String::from("fn f<n>(x0: f32[n]) -> f32[n] {\n");
    for i in 0..n {
        let _ = writeln!(out, "    let x{} = relu(x{i})", i + 1);
    }
    let _ = writeln!(out, "    x{n}\n}}");
    out
}

/// `n` statements of one primitive.
pub(crate) fn many_scalars(n: usize) -> String {
    let mut out =
        String::from("prim f<n>(x: f32[n]) -> y: f32[n] {\n    for i in n {\n        let v0 = x[i]\n");
    for i in 0..n {
        let _ = writeln!(out, "        let v{} = v{i} * 0.5 + x[i]", i + 1);
    }
    let _ = writeln!(out, "        y[i] = v{n}\n    }}\n}}");
    out
}

/// `n` integer statements of one primitive: each is a fact.
pub(crate) fn many_facts(n: usize) -> String {
    let mut out = String::from("prim f<n>(x: f32[n]) -> y: f32[n] {\n    for i in n {\n        let v0 = i\n");
    for i in 0..n {
        let _ = writeln!(out, "        let v{} = v{i} + 1", i + 1);
    }
    let _ = writeln!(out, "        y[i] = x[v{n} - {n}]\n    }}\n}}");
    out
}

/// `n` loops of one primitive, one after the other.
pub(crate) fn many_loops(n: usize) -> String {
    let mut out = String::from("prim f<n>(x: f32[n]) -> y: f32[n] {\n");
    for _ in 0..n {
        out.push_str("    for i in n { y[i] = x[i] }\n");
    }
    out.push_str("}\n");
    out
}

/// Calls nested `n` deep.
pub(crate) fn nested_calls(n: usize) -> String {
    format!("fn f<n>(x: f32[n]) -> f32[n] {{ {}x{} }}\n", "relu(".repeat(n), ")".repeat(n))
}

/// `n` functions, each calling the next.
pub(crate) fn call_chain(n: usize) -> String {
    let mut out = String::new();
    for i in 0..n {
        let _ = writeln!(out, "fn step{i}<n>(x: f32[n]) -> f32[n] {{ step{}(x) }}", i + 1);
    }
    let _ = writeln!(out, "fn step{n}<n>(x: f32[n]) -> f32[n] {{ x }}");
    out
}

/// `n` functions, each calling every tenth.
pub(crate) fn call_web(n: usize) -> String {
    let mut out = String::new();
    for i in 0..n {
        let (a, b) = ((i * 7 + 3) % n, (i * 13 + 5) % n);
        let _ = writeln!(out, "fn step{i}<n>(x: f32[n]) -> f32[n] {{ step{a}(x) + step{b}(x) }}");
    }
    out
}

/// `n` owned updates of one value.
pub(crate) fn many_updates(n: usize) -> String {
    let mut out = String::from(
        "prim bump<n>(own x: f32[n]) -> x { for i in n { x[i] = x[i] + 1.0 } }\nfn f<n>(own x0: f32[n]) -> f32[n] {\n",
    );
    for i in 0..n {
        let _ = writeln!(out, "    let x{} = bump(x{i})", i + 1);
    }
    let _ = writeln!(out, "    x{n}\n}}");
    out
}

/// `n` branches, one after the other, over one `var`.
pub(crate) fn many_branches(n: usize) -> String {
    let mut out = String::from("fn f<n>(x: f32[n]) -> f32[n] {\n    var y = x\n");
    for i in 0..n {
        let _ = writeln!(out, "    if n > {i} {{ y = relu(y) }}");
    }
    out.push_str("    y\n}\n");
    out
}

/// `n` dims and `n` conditions between them.
pub(crate) fn many_dims(n: usize) -> String {
    let dims: Vec<String> = (0..n).map(|i| format!("d{i}")).collect();
    let params: Vec<String> = (0..n).map(|i| format!("x{i}: f32[d{i}]")).collect();
    let wheres: Vec<String> = (1..n).map(|i| format!("d{} <= d{i}", i - 1)).collect();
    format!(
        "fn f<{}>({}) -> f32[d0]\nwhere {}\n{{ x0 }}\n",
        dims.join(", "),
        params.join(", "),
        wheres.join(", ")
    )
}

/// A tensor of rank `n` through an operator.
pub(crate) fn high_rank(n: usize) -> String {
    let dims: Vec<String> = (0..n).map(|i| format!("d{i}")).collect();
    let dims = dims.join(", ");
    format!("fn f<{dims}>(x: f32[{dims}]) -> f32[{dims}] {{ relu(x) + x }}\n")
}

/// `n` elements of an output, each written by a statement of its own.
pub(crate) fn many_elements(n: usize) -> String {
    let mut out = format!("prim f(x: f32[{n}]) -> y: f32[{n}] {{\n");
    for i in 0..n {
        let _ = writeln!(out, "    y[{i}] = x[{}]", n - 1 - i);
    }
    out.push_str("}\n");
    out
}
