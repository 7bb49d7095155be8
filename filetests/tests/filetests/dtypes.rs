//! The table of element types in `docs/operators.md`, held against what happens: each operator of `std/*.tn` with each
//! element type that its signature claims gives the same in the interpreter and in the machine, and each type that it
//! does not claim is refused.
//!
//! A call is made from the signature: dims are 2, packs `[2, 3]`, and each generic element type goes through all types
//! while the others stay. What cannot be guessed (attributes, conditions, brackets) is a row of `dtypes/calls.txt`.

#![expect(clippy::disallowed_methods, reason = "tests read the library")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a form is one of a few that a call can be made of, or is not"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use driver::engine;
use driver::{Failure, pipeline};
use ir::ast::{
    BinaryOp, Expr, ExprKind, Generic, GenericKind, IndexArg, ItemKind, Mode, Param, Signature, TypeExpr,
    TypeKind,
};
use ir::source::SourceId;
use tensor::{DType, Tensor};
use vm::Limits;

/// An operator with a way to call it.
struct Operator {
    /// Its name, and which form it is where it has several: `matmul 2`.
    name: String,
    /// Its generic element types: name, and the types claimed.
    generics: Vec<(String, Vec<DType>)>,
    params: Vec<Argument>,
    call: String,
    /// How many values it gives.
    results: usize,
}

/// A parameter of the function that calls: `own x: T[2, 3] = 0 1 2`.
#[derive(Clone)]
struct Argument {
    name: String,
    own: bool,
    elem: String,
    shape: Vec<i64>,
    values: Vec<i64>,
}

/// One operator at one choice of element types.
struct Case<'o> {
    op: &'o Operator,
    types: BTreeMap<&'o str, DType>,
    name: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn allowed(g: &Generic) -> Vec<DType> {
    let fits = |d: DType, bound: &str| match bound {
        "any" | "stored" => true,
        "float" => d.is_float(),
        "int" => d.is_int(),
        "num" => d.is_float() || d.is_int(),
        name => d.name() == name,
    };
    DType::all().filter(|&d| g.bounds.is_empty() || g.bounds.iter().any(|b| fits(d, b.name.name()))).collect()
}

/// The type of a parameter at the usual extents; none where it says more than names, sums and products.
fn argument(p: &Param) -> Option<Argument> {
    let TypeKind::Named { name, args, dims } = &p.ty.as_ref()?.kind else { return None };
    let elem = match args.as_slice() {
        [] => name.name.name().to_owned(),
        [TypeExpr { kind: TypeKind::Named { name: inner, .. }, .. }] if name.name.name() == "wide" => {
            format!("wide<{}>", inner.name)
        }
        _ => return None,
    };
    let mut shape = Vec::new();
    for d in dims.iter().flatten() {
        match d {
            IndexArg::Expr(e) => shape.push(extent(e)?),
            IndexArg::Spread(Expr { kind: ExprKind::Name(_), .. }) | IndexArg::Broadcast(_) => {
                shape.extend([2, 3]);
            }
            IndexArg::Spread(_) | IndexArg::Range(_) | IndexArg::Full(_) => return None,
        }
    }
    let own = p.mode == Mode::Own;
    Some(Argument { name: p.name.name.name().to_owned(), own, elem, shape, values: vec![] })
}

fn extent(e: &Expr) -> Option<i64> {
    match &e.kind {
        ExprKind::Int(i) => Some(*i),
        ExprKind::Name(_) => Some(2),
        ExprKind::Binary(BinaryOp::Add, a, b) => Some(extent(a)? + extent(b)?),
        ExprKind::Binary(BinaryOp::Mul, a, b) => Some(extent(a)? * extent(b)?),
        _ => None,
    }
}

/// `own x: T[2, 3] = 0 1 2`
fn written(text: &str) -> Argument {
    let (name, rest) = text.split_once(':').unwrap_or_else(|| panic!("`{text}` is not NAME: TYPE"));
    let (ty, values) = rest.split_once('=').unwrap_or((rest, ""));
    let (elem, dims) = ty.trim().split_once('[').unwrap_or((ty.trim(), "]"));
    let number = |t: &str| t.trim().parse::<i64>().unwrap_or_else(|e| panic!("`{text}`: {e}"));
    let dims = dims.trim_end_matches(']');
    let own = name.trim().starts_with("own ");
    Argument {
        name: name.trim().trim_start_matches("own ").to_owned(),
        own,
        elem: elem.to_owned(),
        shape: dims.split(',').filter(|d| !d.is_empty()).map(number).collect(),
        values: values.split_whitespace().map(number).collect(),
    }
}

/// The operators of the library that have a generic element type, by file; or why there is no call of one.
fn library() -> Vec<(String, Vec<Operator>)> {
    let text = read(&folder().join("tests/filetests/dtypes/calls.txt"));
    let mut calls: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (name, rest) = line.split_once(" |").unwrap_or_else(|| panic!("calls.txt: {line}"));
        calls.insert(name.trim(), rest.trim_start());
    }
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder().join("../std"))
        .expect("std")
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "tn"))
        .collect();
    paths.sort();
    let (mut out, mut unknown) = (Vec::new(), Vec::new());
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        let source = read(&path);
        let (file, _) = parser::parse(SourceId(0), &source);
        let mut ops = Vec::new();
        for item in &file.items {
            let (sig, results) = match &item.kind {
                ItemKind::Prim(d) => (&d.sig, d.outs.len().max(1)),
                ItemKind::Fn(d) => (&d.sig, results_of(d.ret.as_ref())),
                _ => continue,
            };
            let form = forms.entry(sig.name.name.name().to_owned()).or_default();
            *form += 1;
            let base = sig.name.name.name().to_owned();
            let name = if *form == 1 { base } else { format!("{base} {form}") };
            let generics: Vec<(String, Vec<DType>)> = sig
                .generics
                .iter()
                .filter(|g| g.kind == GenericKind::DType)
                .map(|g| (g.name.name.name().to_owned(), allowed(g)))
                // A generic of values has no element types of its own.
                .filter(|g| !g.1.is_empty())
                .collect();
            if generics.is_empty() {
                continue;
            }
            match calls.remove(name.as_str()) {
                Some(reason) if reason.starts_with('-') => {}
                Some(row) => {
                    let (params, call) = row.split_once("| ").unwrap_or_else(|| panic!("calls.txt: {name}"));
                    let params = params.split(';').filter(|p| !p.trim().is_empty()).map(written).collect();
                    // `.0` behind a call takes one of its results.
                    let results = if call.contains(").") { 1 } else { results };
                    ops.push(Operator { name, generics, params, call: call.to_owned(), results });
                }
                None => match guessed(sig, &source) {
                    Some((params, call)) => ops.push(Operator { name, generics, params, call, results }),
                    None => unknown.push(name),
                },
            }
        }
        out.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), ops));
    }
    unknown.extend(calls.keys().map(|n| format!("{n}, which the library lacks")));
    assert!(
        unknown.is_empty(),
        "give these a row in filetests/tests/filetests/dtypes/calls.txt: {unknown:#?}"
    );
    out
}

fn results_of(ret: Option<&TypeExpr>) -> usize {
    match ret.map(|t| &t.kind) {
        Some(TypeKind::Tuple(parts)) => parts.len(),
        Some(TypeKind::Exists(_, inner)) => results_of(Some(inner)),
        _ => 1,
    }
}

/// A call with every parameter that has no default, where the arguments tell all generics.
fn guessed(sig: &Signature, text: &str) -> Option<(Vec<Argument>, String)> {
    if !sig.wheres.is_empty() || sig.params.iter().any(|p| p.mode == Mode::Const && p.default.is_none()) {
        return None;
    }
    let params: Vec<Argument> =
        sig.params.iter().filter(|p| p.default.is_none()).map(argument).collect::<Option<_>>()?;
    let named = |name: &str| {
        sig.params.iter().filter_map(|p| p.ty.as_ref()).any(|t| {
            let written = &text[t.span.lo as usize..t.span.hi as usize];
            written.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
        })
    };
    let told = sig.generics.iter().all(|g| named(g.name.name.name()));
    let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
    told.then(|| (params.clone(), format!("{}({})", sig.name.name, names.join(", "))))
}

impl Case<'_> {
    fn dtype(&self, elem: &str) -> DType {
        if let Some(inner) = elem.strip_prefix("wide<") {
            return self.dtype(inner.trim_end_matches('>')).wide();
        }
        let named = self.types.get(elem).copied();
        named.unwrap_or_else(|| elem.parse().unwrap_or_else(|_| panic!("{}: `{elem}`", self.op.name)))
    }

    /// The function that calls: one number of each result, on which every element weighs.
    fn text(&self) -> String {
        let param = |p: &Argument| {
            let dims: Vec<String> = p.shape.iter().map(i64::to_string).collect();
            let dims = if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(", ")) };
            format!("{}{}: {}{dims}", if p.own { "own " } else { "" }, p.name, self.dtype(&p.elem))
        };
        let params: Vec<String> = self.op.params.iter().map(param).collect();
        let mut call = String::new();
        // Element types in brackets stand by their generic.
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let mut rest = self.op.call.as_str();
        while !rest.is_empty() {
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len()).max(1);
            let (word, after) = rest.split_at(end);
            call.push_str(&self.types.get(word).map_or(word.to_owned(), |d| d.name().to_owned()));
            rest = after;
        }
        let n = self.op.results;
        let part = |i: usize| if n == 1 { "r".to_owned() } else { format!("r.{i}") };
        let weighed: Vec<String> =
            (0..n).map(|i| format!("sum(f64({0}) * f64({0}) + f64({0}))", part(i))).collect();
        let all = weighed.join(", ");
        let (ty, value) = if n == 1 {
            ("f64".to_owned(), all)
        } else {
            (format!("({})", vec!["f64"; n].join(", ")), format!("({all})"))
        };
        format!("fn {}({}) -> {ty} {{\n    let r = {call}\n    {value}\n}}\n", self.name, params.join(", "))
    }

    fn arguments(&self) -> Vec<Tensor> {
        let of = |p: &Argument| {
            let dtype = self.dtype(&p.elem);
            let mut t = Tensor::zeros(dtype, &p.shape).expect("a small tensor");
            for i in 0..t.len() {
                if dtype.is_float() {
                    let usual = [0.5, -1.25, 2.0, 0.25, 3.0, -0.5];
                    t.set_f64(i, p.values.get(i).map_or(usual[i % usual.len()], |v| *v as f64));
                } else {
                    let usual = [1, 2, 3, 0, 5, -1];
                    t.set_i64(i, dtype.wrap(p.values.get(i).copied().unwrap_or(usual[i % usual.len()])));
                }
            }
            t
        };
        self.op.params.iter().map(of).collect()
    }

    /// How far the machine may be from the oracle: half types round at 2^-8.
    fn bound(&self) -> f64 {
        if self.types.values().any(|d| d.size() == 2) { 2e-2 } else { 1e-4 }
    }
}

/// The cases of some operators with claimed types, or with those that are not: one generic varies, the others are f32
/// or the first they may be.
fn cases(ops: &[Operator], claimed: bool) -> Vec<Case<'_>> {
    let mut out = Vec::new();
    for op in ops {
        let usual = |types: &[DType]| if types.contains(&DType::F32) { DType::F32 } else { types[0] };
        for (at, (_, types)) in op.generics.iter().enumerate() {
            for d in DType::all().filter(|d| types.contains(d) == claimed) {
                let types = op.generics.iter().enumerate();
                let types = types
                    .map(|(i, (name, types))| (name.as_str(), if i == at { d } else { usual(types) }))
                    .collect();
                let name = format!("t{}_{}", out.len(), op.name.replace(' ', "_"));
                out.push(Case { op, types, name });
            }
        }
    }
    out
}

fn front(cases: &[Case<'_>]) -> Result<pipeline::Front, (ir::source::SourceMap, Failure)> {
    let mut sources = pipeline::sources();
    let text: Vec<String> = cases.iter().map(Case::text).collect();
    let id = sources.add("test.tn", text.join("\n"));
    pipeline::front(sources, &[id])
}

fn numbers(results: &engine::Named) -> Vec<f64> {
    results.iter().map(|(_, t)| t.get_f64(0)).collect()
}

#[test]
fn engines_agree_on_every_type_claimed() {
    let mut wrong = String::new();
    for (file, ops) in library() {
        let cases = cases(&ops, true);
        let mut front = match front(&cases) {
            Ok(front) => front,
            Err((s, f)) => {
                let _ = writeln!(wrong, "{file}: {}", f.render(&s, false));
                continue;
            }
        };
        let entries: Vec<_> = cases
            .iter()
            .map(|c| pipeline::entry(&mut front, Some(&c.name)).unwrap_or_else(|_| panic!("{}", c.name)))
            .collect();
        let shown = |f: Failure| f.render(&front.sources, false);
        // What an operator means for a type is asked, not what LLVM makes of it: that takes most of the time.
        let options = driver::Options { target: codegen::Target::host().plain(), ..filetests::usual() };
        let built = pipeline::compile(&front, &entries, &options)
            .and_then(|c| engine::load(&c, driver::kernels::threads()?));
        let exe = built.unwrap_or_else(|f| panic!("{file}: {}", shown(f)));
        for (case, &id) in cases.iter().zip(&entries) {
            let args = case.arguments();
            let oracle = engine::interpret(&front, &front.module, id, args.clone());
            let machine = engine::execute(&exe, &case.name, &args, &Limits::default(), &front.sources);
            let about = format!("{} of {:?}", case.op.name, case.types);
            match (oracle, machine) {
                (Ok(a), Ok(b)) => {
                    let (a, b) = (numbers(&a), numbers(&b));
                    let near = |(x, y): (&f64, &f64)| {
                        x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= case.bound() * (1.0 + x.abs())
                    };
                    if !a.iter().zip(&b).all(near) {
                        let _ = writeln!(wrong, "{about}: {a:?} vs {b:?}");
                    }
                }
                (Err(f), _) => drop(writeln!(wrong, "{about}: interp: {}", shown(f))),
                (_, Err(f)) => drop(writeln!(wrong, "{about}: vm: {}", shown(f))),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_type_that_is_not_claimed_is_refused() {
    let mut wrong = String::new();
    for (file, ops) in library() {
        let cases = cases(&ops, false);
        if cases.is_empty() {
            continue;
        }
        let Err((sources, Failure::Diagnostics(list))) = front(&cases) else {
            let _ = writeln!(wrong, "{file}: nothing is refused");
            continue;
        };
        // A case is four lines and an empty one.
        let mut said = vec![Vec::new(); cases.len()];
        for d in &list {
            let Some(label) = d.labels.iter().find(|l| sources.get(l.span.file).name == "test.tn") else {
                let _ = writeln!(wrong, "{file}: {} without a place in the program", d.message);
                continue;
            };
            said[sources.line_col(label.span).0 / 5].push(format!("[{}] {}", d.code, d.message));
        }
        for (case, said) in cases.iter().zip(said) {
            if !matches!(said.as_slice(), [one] if one.starts_with("[E0303]")) {
                let _ = writeln!(wrong, "{} of {:?}: {said:?}", case.op.name, case.types);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
