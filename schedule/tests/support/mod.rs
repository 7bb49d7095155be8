//! Random primitives, random transformations of them, and what is asked of both.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

use ir::loops::{BufId, Mark, Prim, ScalarKind, Stmt, VarId};
use ir::source::SourceMap;
use schedule::{Order, Part, Refusal};
use tensor::{DType, Tensor};

/// Numbers that look random and are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// The primitive of a text, checked; the text calls it from a function. The errors where there are any.
pub fn checked(text: &str) -> Result<Prim, String> {
    let mut sources = SourceMap::default();
    let (file, faults) = parser::parse(sources.add("test.tn", text), text);
    if let Some(d) = faults.first() {
        return Err(format!("{}: {}", d.code, d.message));
    }
    let found = check::check(&[], &vec![file].into());
    if let Some(d) = found.diagnostics.iter().find(|d| d.severity == ir::diag::Severity::Error) {
        return Err(format!("{}: {} {:?}", d.code, d.message, d.labels));
    }
    found.module.prims.into_iter().next().ok_or_else(|| "no primitive".to_owned())
}

/// The text of a primitive, with a function that calls it.
pub fn text_of(prim: &Prim) -> String {
    let list = |all: Vec<String>| all.join(", ");
    let ty = |b: &BufId| {
        let b = prim.buf(*b);
        format!(
            "{}[{}]",
            b.dtype,
            list(b.shape.iter().map(|d| parser::print_expr(&ir::raise::dim(d))).collect())
        )
    };
    let dims = list(prim.dims.iter().map(|d| d.name().to_owned()).collect());
    let params = list(prim.params.iter().map(|p| format!("{}: {}", prim.buf(*p).name, ty(p))).collect());
    let args = list(prim.params.iter().map(|p| prim.buf(*p).name.name().to_owned()).collect());
    let outs = list(prim.outs.iter().map(ty).collect());
    // No literal is infinite, and the quotient that says it is read as one.
    let item =
        parser::print_item(&ir::raise::prim(prim)).replace("f64(-f64(1.0)) / 0.0", "f64(-1.0) / f64(0.0)");
    format!("{item}\nfn main<{dims}>({params}) -> {outs} {{ {}({args}) }}\n", prim.name)
}

/// What a primitive says besides its text: which loops are independent, and which accesses are checked.
fn known(prim: &Prim) -> (Vec<Mark>, usize) {
    let mut marks = Vec::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { mark, .. } = s {
                marks.push(*mark);
            }
        });
    });
    (marks, prim.checked().len())
}

/// The text of a transformed primitive must check, to the same loops with the same marks, and prove no less.
pub fn comes_back(prim: &Prim) -> Result<(), String> {
    let text = text_of(prim);
    let again = checked(&text).map_err(|e| format!("{e}\n{text}"))?;
    let twice = text_of(&again);
    if twice != text {
        return Err(format!("read back as\n{twice}\nof\n{text}"));
    }
    let ((marks, checks), (marks_again, checks_again)) = (known(prim), known(&again));
    if marks != marks_again {
        return Err(format!("marks {marks:?}, read back {marks_again:?}\n{text}"));
    }
    if checks < checks_again {
        return Err(format!("{checks} accesses are compared, read back {checks_again}\n{text}"));
    }
    Ok(())
}

/// Arguments for a primitive: small integers; an i64 buffer named `at` holds places that go up.
pub fn arguments(prim: &Prim, dims: &[i64], r: &mut Numbers) -> Vec<Tensor> {
    let env = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
    let tensor = |b: &BufId| {
        let buf = prim.buf(*b);
        let shape: Vec<i64> = buf.shape.iter().map(|d| d.eval(&env).expect("an extent")).collect();
        let mut t = Tensor::zeros(buf.dtype, &shape).expect("a small tensor");
        let n = dims.last().copied().unwrap_or(0);
        let mut place = 0;
        for i in 0..t.len() {
            if buf.name.name() == "at" {
                t.set_i64(i, place);
                place = (place + r.below(4) as i64).min(n);
            } else {
                t.set_i64(i, r.below(7) as i64 - if buf.dtype == DType::U8 { 0 } else { 3 });
            }
        }
        t
    };
    prim.params.iter().map(tensor).collect()
}

pub fn run(prim: &Prim, dims: &[i64], args: &[Tensor]) -> Result<Vec<Vec<u64>>, String> {
    let limits = interp::Limits { steps: Some(50_000_000), ..interp::Limits::default() };
    let outs = interp::run_prim(prim, dims, args, &limits).map_err(|e| format!("{e:?}"))?;
    let bits = |t: &Tensor| {
        let one = |i| if t.dtype().is_float() { t.get_f64(i).to_bits() } else { t.get_i64(i) as u64 };
        (0..t.len()).map(one).collect()
    };
    Ok(outs.iter().map(bits).collect())
}

/// Extents: empty, one, primes, around powers of two.
const EXTENTS: &[i64] = &[0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31];

pub fn sizes(prim: &Prim, r: &mut Numbers) -> Vec<i64> {
    prim.dims.iter().map(|_| r.pick(EXTENTS)).collect()
}

/// The text of a random primitive.
pub fn random(r: &mut Numbers) -> String {
    let t = r.pick(&["f32", "f64", "i32", "i64", "i8"]);
    let leaf = |r: &mut Numbers, places: &[&str]| {
        let a = r.pick(places);
        match r.below(6) {
            0 => format!("abs({a})"),
            1 => format!("max({a}, {t}(1))"),
            2 => format!("(if {a} > {t}(0) {{ {a} }} else {{ {t}(2) }})"),
            3 => format!("select({a} < {t}(1), {a}, {t}(-1))"),
            _ => a.to_owned(),
        }
    };
    let two = |r: &mut Numbers, a: &[&str], b: &[&str]| {
        let sign = r.pick(&["+", "*", "-"]);
        format!("{} {sign} {}", leaf(r, a), leaf(r, b))
    };
    let way = r.pick(&["sum", "max", "min"]);
    let (body, params, out) = match r.below(14) {
        0 => {
            let e = two(r, &["x[i, j]", "w[j]"], &["x[i, j]", "v[i]"]);
            (
                format!("for i in m, j in n {{ y[i, j] = {e} }}"),
                format!("x: {t}[m, n], w: {t}[n], v: {t}[m]"),
                "[m, n]",
            )
        }
        1 | 2 => {
            let range = r.pick(&["k", "0..k", "i..k", "0..min(k, 5)", "0..j", "0..12"]);
            let wide = if range == "0..12" || range == "0..j" { "12" } else { "k" };
            let limit = if range == "0..j" { "12" } else { "n" };
            let sum = format!("{way}(p in {range}) a[i, p] * b[p, j]");
            let e = match r.below(3) {
                0 => sum,
                1 => format!("abs({sum}) + {t}(1)"),
                _ => format!("max(c[j], ({sum}))"),
            };
            let (a, b) = if range == "i..k" { ("k".to_owned(), wide) } else { (wide.to_owned(), wide) };
            let body = format!("for i in m, j in {limit} {{ y[i, j] = {e} }}");
            let shape = if limit == "12" { "[m, 12]" } else { "[m, n]" };
            (body, format!("a: {t}[m, {a}], b: {t}[{b}, {limit}], c: {t}[{limit}]"), shape)
        }
        3 | 4 => {
            let order =
                r.pick(&["i in m, p in k, j in n", "p in k, i in m, j in n", "j in n, i in m, p in k"]);
            let by = r.pick(&["+=", "max="]);
            let body = format!("for {order} {{ y[i, j] {by} a[i, p] * b[p, j] }}");
            (body, format!("a: {t}[m, k], b: {t}[k, n]"), "[m, n]")
        }
        5 | 6 => {
            let first = two(r, &["x[u]", "w[u]"], &["x[u]", "w[u]"]);
            let read = r.pick(&["near[j]", "near[min(j + 1, n - 1)]", "near[j] + near[n - 1 - j]"]);
            let second = r.pick(&["i in m, j in n", "j in n, i in m"]);
            let body = format!(
                "var near: {t}[n]\n    for u in n {{ near[u] = {first} }}\n    for {second} {{ y[i, j] = {read} + v[i] }}"
            );
            (body, format!("x: {t}[n], w: {t}[n], v: {t}[m]"), "[m, n]")
        }
        7 => {
            let test = r.pick(&["i >= j", "i < j + 2", "x[i, j] > w[j]"]);
            let other = leaf(r, &["x[i, j]", "w[j]"]);
            let body = format!(
                "for i in m, j in n {{\n        if {test} {{ y[i, j] = x[i, j] }} else {{ y[i, j] = {other} }}\n    }}"
            );
            (body, format!("x: {t}[m, n], w: {t}[n]"), "[m, n]")
        }
        8 => {
            let body = if r.below(2) == 0 {
                format!("for i in m {{ y[i] = {way}(q in at[i]..at[i + 1]) x[q] }}")
            } else {
                "for i in m {\n        for q in at[i]..at[i + 1] { y[i] += x[q] }\n    }".to_owned()
            };
            (body, format!("at: i64[m + 1], x: {t}[n]"), "[m]")
        }
        9 => {
            let body = "for i in m { y[i, 0] = x[i, 0] }\n    for i in m, j in 1..n + 1 { y[i, j] = y[i, j - 1] + x[i, j] }";
            (body.to_owned(), format!("x: {t}[m, n + 1]"), "[m, n + 1]")
        }
        10 => {
            let order = r.pick(&["i in m, j in n, a in 3, b in 2", "a in 3, i in m, b in 2, j in n"]);
            let body = format!("for {order} {{ y[i, j] += x[i + a, j + b] * w[a, b] }}");
            (body, format!("x: {t}[m + 2, n + 1], w: {t}[3, 2]"), "[m, n]")
        }
        11 => {
            let narrow = r.pick(&["i8", "i16"]);
            let k = r.pick(&["k", "4*k", "7"]);
            let body =
                format!("for i in m, j in n {{ y[i, j] = sum(p in {k}) i32(a[i, p]) * i32(b[p, j]) }}");
            return finish(&body, &format!("a: {narrow}[m, {k}], b: {narrow}[{k}, n]"), "i32", "[m, n]");
        }
        12 => {
            let body = format!(
                "for i in m {{\n        var best: {t} = {t}(0)\n        for j in n {{ best = max(best, x[i, j]) }}\n        y[i] = best + {t}(1)\n    }}"
            );
            (body, format!("x: {t}[m, n]"), "[m]")
        }
        _ => {
            let body = format!(
                "for i in n {{\n        for j in 0..i + 1 {{ y[i] += x[j] * w[i] }}\n        y[i] += {way}(q in i..n) x[q]\n    }}"
            );
            let body =
                if way == "sum" { body } else { "for i in n, j in i..n { y[i] += x[j] * w[i] }".to_owned() };
            (body, format!("x: {t}[n], w: {t}[n]"), "[n]")
        }
    };
    finish(&body, &params, t, out)
}

fn finish(body: &str, params: &str, t: &str, out: &str) -> String {
    let dims: Vec<&str> = ["m", "k", "n"]
        .into_iter()
        .filter(|d| {
            let word = |c: char| !c.is_alphanumeric() && c != '_';
            format!("{params} {out}").split(word).any(|w| w == *d)
        })
        .collect();
    let dims = dims.join(", ");
    let args: Vec<&str> = params.split(", ").filter_map(|p| p.split_once(": ")).map(|p| p.0).collect();
    let args = args.join(", ");
    format!(
        "prim p<{dims}>({params}) -> y: {t}{out} {{\n    {body}\n}}\nfn main<{dims}>({params}) -> {t}{out} {{ p({args}) }}\n"
    )
}

/// The loops and the reductions of a primitive.
pub fn named(prim: &Prim) -> (Vec<VarId>, Vec<VarId>) {
    let (mut loops, mut sums) = (Vec::new(), Vec::new());
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, .. } = s {
                loops.push(*var);
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Reduce { var, .. } = &e.kind {
                        sums.push(*var);
                    }
                });
            }
        });
    });
    (loops, sums)
}

/// A loop or reduction by its name.
pub fn at(prim: &Prim, name: &str) -> VarId {
    let all = named(prim);
    let found = all.0.into_iter().chain(all.1).find(|v| prim.var(*v).name.name() == name);
    found.unwrap_or_else(|| panic!("no loop `{name}`"))
}

pub fn buffer(prim: &Prim, name: &str) -> BufId {
    BufId(prim.bufs.iter().position(|b| b.name.name() == name).expect("a buffer") as u32)
}

/// Loops that stand directly in each other, the outer first.
fn pairs(prim: &Prim) -> Vec<(VarId, VarId)> {
    let mut found = Vec::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, body, .. } = s
                && let [Stmt::For { var: inner, .. }] = &body[..]
            {
                found.push((*var, *inner));
            }
        });
    });
    found
}

/// A random transformation, in words, and what it gives.
pub fn step(prim: &Prim, r: &mut Numbers) -> (String, Result<Prim, Refusal>) {
    let (loops, sums) = named(prim);
    let all = [&loops[..], &sums[..]].concat();
    let (mut at, mut other) = (r.pick(&all), r.pick(&all));
    let kind = r.below(19);
    // Steps about two loops mostly get two that stand in each other, and those about sums sums.
    if matches!(kind, 3..=6)
        && r.below(4) > 0
        && let Some((a, b)) = pairs(prim).get(r.below(8))
    {
        (at, other) = if kind == 3 { (*a, *b) } else { (*b, *a) };
    }
    if kind >= 15 && kind != 16 && !sums.is_empty() && r.below(4) > 0 {
        at = r.pick(&sums);
        other = loops.first().copied().unwrap_or(other);
        if r.below(2) == 0 {
            other = r.pick(&loops);
        }
    }
    let size = r.pick(&[1, 2, 3, 4, 7, 8, 16]);
    let mut buf = BufId(r.below(prim.bufs.len()) as u32);
    if matches!(kind, 11 | 12)
        && let Some(i) = prim.bufs.iter().position(|b| b.local)
    {
        buf = BufId(i as u32);
    }
    let rank = prim.buf(buf).shape.len();
    let name = |v: VarId| prim.var(v).name.name().to_owned();
    let (a, b, c) = (name(at), name(other), prim.buf(buf).name);
    let free = Order::Free;
    match kind {
        0 | 1 => (format!("split {a} {size}"), schedule::split(prim, at, size, free)),
        2 => (format!("partition {a} {size}"), schedule::partition(prim, at, size, free)),
        3 => (format!("fuse {a} {b}"), schedule::fuse(prim, at, other)),
        4 | 5 => (format!("reorder {a} {b}"), schedule::reorder(prim, &[at, other], free)),
        6 => (format!("tile {a} {b} {size}"), schedule::tile(prim, &[(at, size), (other, 4)], free)),
        7 => (format!("parallel {a}"), schedule::parallel(prim, at)),
        8 => (
            format!("vectorize {a}"),
            schedule::vectorize(prim, at, r.pick(&[2, 8, 16]), r.pick(&[1, 2, 4]), free),
        ),
        9 => (
            format!("rows {a}"),
            schedule::rows(prim, at, &r.pick(&[vec![2, 1], vec![6, 2, 1], vec![4, 1]]), free),
        ),
        10 => (format!("unroll {a}"), schedule::unroll(prim, at)),
        11 => (format!("compute_at {c} {a}"), schedule::compute_at(prim, buf, at)),
        12 => (format!("inline {c}"), schedule::inline(prim, buf)),
        13 => (format!("cache_read {c} {a}"), schedule::cache_read(prim, buf, at)),
        14 => (format!("cache_write {c} {a}"), schedule::cache_write(prim, buf, at)),
        15 => (format!("accumulate {a} {b}"), schedule::accumulate(prim, at, other)),
        16 => {
            let mut parts: Vec<Part> = (0..rank).rev().map(Part::Whole).collect();
            if let Some(Part::Whole(axis)) = parts.first().copied() {
                parts[0] = Part::Tiles(axis, size);
                parts.push(Part::Within(axis, size));
            }
            (format!("pack {c} {a} {parts:?}"), schedule::pack(prim, buf, at, &parts))
        }
        17 => (format!("rfactor {a} {size}"), schedule::rfactor(prim, at, size, free)),
        _ => (format!("tensorize {a}"), schedule::tensorize(prim, at, free)),
    }
}
