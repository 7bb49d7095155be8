//! Random primitives, random transformations of them, and what is asked of both.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

mod forms;
mod grammar;

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
    let item = ["f64", "f16", "bf16"].iter().fold(parser::print_item(&ir::raise::prim(prim)), |text, t| {
        text.replace(&format!(" {t}(-{t}(1.0)) / 0.0"), &format!(" {t}(-1.0) / {t}(0.0)"))
    });
    let generic = if dims.is_empty() { dims } else { format!("<{dims}>") };
    format!("{item}\nfn main{generic}({params}) -> ({outs}) {{ {}({args}) }}\n", prim.name)
}

/// The text of a primitive of results and lines of a body, with a function that calls it.
fn program(dims: &[&str], params: &str, outs: &[(String, String)], body: &str) -> String {
    let list = |all: Vec<String>| all.join(", ");
    let args = params.split(", ").filter_map(|p| p.split_once(": ")).map(|p| p.0.to_owned()).collect();
    let results = list(outs.iter().map(|(name, ty)| format!("{name}: {ty}")).collect());
    let types = list(outs.iter().map(|out| out.1.clone()).collect());
    let generic = if dims.is_empty() { String::new() } else { format!("<{}>", dims.join(", ")) };
    format!(
        "prim p{generic}({params}) -> ({results}) {{\n{body}\n}}\nfn main{generic}({params}) -> ({types}) {{ p({}) }}\n",
        list(args)
    )
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

/// Arguments for a primitive: small integers. Names tell what else: `wild3` holds any integers, `to_m` places below `m`
/// and rarely `m`, `len_m` lengths up to `m`, `at_m` places up to `m` that do not go down.
pub fn arguments(prim: &Prim, dims: &[i64], r: &mut Numbers) -> Vec<Tensor> {
    let env = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
    let tensor = |b: &BufId| {
        let buf = prim.buf(*b);
        let shape: Vec<i64> = buf.shape.iter().map(|d| d.eval(&env).expect("an extent")).collect();
        let mut t = Tensor::zeros(buf.dtype, &shape).expect("a small tensor");
        let (kind, dim) = buf.name.name().split_once('_').unwrap_or((buf.name.name(), ""));
        let dim = dim.trim_end_matches(char::is_numeric);
        let end = prim.dims.iter().position(|d| d.name() == dim).map_or(0, |i| dims[i]);
        let (mut place, beyond) = (0, r.below(20) == 0);
        for i in 0..t.len() {
            let value = match kind {
                "at" => place,
                "len" => r.below(end as usize + 1) as i64,
                "to" => r.below(end.max(1) as usize + usize::from(beyond)) as i64,
                _ if kind.starts_with("wild") => r.next() as i64 >> r.below(64),
                _ if buf.dtype == DType::U8 => r.below(7) as i64,
                _ if buf.dtype == DType::Bool => r.below(2) as i64,
                _ if buf.dtype == DType::Bf16 => r.below(3) as i64 - 1,
                _ => r.below(7) as i64 - 3,
            };
            t.set_i64(i, value);
            place = (place + r.below(4) as i64).min(end);
        }
        t
    };
    prim.params.iter().map(tensor).collect()
}

/// Steps of a run, by far more than most take: inlined reductions may make a case as long as all others together.
const STEPS: u64 = 5_000_000;

/// True for a run that was ended, which says nothing about what it computes.
pub fn is_long(run: &Result<Vec<Vec<u64>>, String>) -> bool {
    run.as_ref().is_err_and(|e| e.starts_with("Steps"))
}

pub fn run(prim: &Prim, dims: &[i64], args: &[Tensor]) -> Result<Vec<Vec<u64>>, String> {
    let limits = interp::Limits { steps: Some(STEPS), ..interp::Limits::default() };
    let outs = interp::run_prim(prim, dims, args, &limits).map_err(|e| format!("{e:?}"))?;
    let bits = |t: &Tensor| {
        let float = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
        let one = |i| if t.dtype().is_float() { float(t.get_f64(i)) } else { t.get_i64(i) as u64 };
        (0..t.len()).map(one).collect()
    };
    Ok(outs.iter().map(bits).collect())
}

/// Extents: empty, one, primes, around powers of two, past the widest rounds.
const EXTENTS: &[i64] =
    &[0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 130];

/// Extents for the dims of a primitive, not all of them long.
pub fn sizes(prim: &Prim, r: &mut Numbers) -> Vec<i64> {
    loop {
        let dims: Vec<i64> = prim.dims.iter().map(|_| r.pick(EXTENTS)).collect();
        if dims.iter().product::<i64>() <= 6_000 {
            return dims;
        }
    }
}

/// The text of a random primitive, with a function that calls it.
pub fn random(r: &mut Numbers) -> String {
    if r.below(2) == 0 { forms::random(r) } else { grammar::random(r) }
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
