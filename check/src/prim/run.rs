//! How loops run: the attributes of binders.
//!
//! In: `#[lanes(16, 4)]`, `#[rows(6, 2, 1)]`, `#[unroll]`, `#[ahead(8)]`, `#[dot]` before a binder of a primitive. Out: the [`Run`] of
//! the loop or reduction. An attribute that the loop cannot follow is an error: whether it can is read from the finished
//! body, where it is known which rounds are independent.

use ir::ast::{Attr, Binder};
use ir::diag::{Diagnostic, nearest};
use ir::loops::{Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::{Combine, Intrinsic};
use tensor::DType;

use super::Body;
use crate::access::Carried;
use crate::env::Const;
use crate::{Checker, Maybe};

/// The attributes, with what each says.
const RUNS: &[(&str, &str)] = &[
    ("lanes", "`#[lanes(16, 4)]`: lanes of a vector, vectors at once"),
    ("rows", "`#[rows(6, 2, 1)]`: so many rounds at once, the last is 1"),
    ("unroll", "`#[unroll]`: each round is written out"),
    ("ahead", "`#[ahead(8)]`: what the round so many later reads is asked for"),
    ("dot", "`#[dot]`: one instruction adds up the products"),
];

/// Lanes of a vector.
const LANES: std::ops::RangeInclusive<u32> = 2..=64;
/// Vectors done at once.
const VECTORS: std::ops::RangeInclusive<u32> = 1..=8;
/// Rounds ahead.
const AHEAD: std::ops::RangeInclusive<u32> = 1..=1024;
/// Rounds done at once.
const ROWS: u32 = 16;
/// The most rounds that are written out.
const UNROLLED: i64 = 64;

/// A loop that is told how to run.
pub(super) struct Told {
    var: VarId,
    /// The attribute.
    span: Span,
}

impl<'a> Checker<'a> {
    /// How the loops of a binder run.
    pub(super) fn run_of(&mut self, b: &mut Body, x: &Binder, vars: &[VarId], statement: bool) -> Maybe<Run> {
        let [attr, more @ ..] = x.attrs.as_slice() else { return Some(Run::Plain) };
        if let Some(second) = more.first() {
            let text = format!("`{}` cannot run in two ways", x.name.name);
            return self.misrun(second, text, "one attribute says how a loop runs");
        }
        let run = self.run(b, attr, statement)?;
        b.told.extend(vars.iter().map(|&var| Told { var, span: attr.name.span }));
        Some(run)
    }

    fn run(&mut self, b: &Body, attr: &Attr, statement: bool) -> Maybe<Run> {
        let name = attr.name.name.name();
        let Some((_, form)) = RUNS.iter().find(|r| r.0 == name) else {
            let text = format!("no loop runs as `#[{name}]`");
            let help = match nearest(name, RUNS.iter().map(|r| r.0)) {
                Some(guess) => format!("did you mean `#[{guess}]`?"),
                None => format!("say {}", RUNS.iter().map(|r| r.1).collect::<Vec<_>>().join("; ")),
            };
            return self.misrun(attr, text, &help);
        };
        let mut numbers = Vec::new();
        for arg in &attr.args {
            let number = match (arg.name, b.env.constant(&arg.value)) {
                (None, Ok(Const::Int(n))) => u32::try_from(n).ok(),
                _ => None,
            };
            let Some(number) = number else {
                let d = Diagnostic::error("E0407", arg.value.span, format!("`#[{name}]` takes numbers"));
                return self.fail(d.help(*form));
            };
            numbers.push(number);
        }
        match (name, numbers.as_slice()) {
            ("lanes", &[lanes, vectors]) => {
                if !lanes.is_power_of_two() || !LANES.contains(&lanes) {
                    let help = "the lanes of a vector are 2, 4, 8, 16, 32 or 64";
                    return self.misrun(attr, format!("no vector has {lanes} lanes"), help);
                }
                if !VECTORS.contains(&vectors) {
                    let help = "1 to 8 vectors are done at once";
                    return self.misrun(attr, format!("{vectors} vectors are not done at once"), help);
                }
                Some(Run::Lanes { lanes, vectors })
            }
            ("rows", _) if !statement => {
                let help = "rounds of a reduction are lanes: `sum(#[lanes(16, 1)] k in n)`";
                self.misrun(attr, "a reduction has no statements to do at once".into(), help)
            }
            ("rows", rows) => {
                let down = rows.windows(2).all(|w| w[0] > w[1]) && rows.last() == Some(&1);
                if !down || rows[0] > ROWS {
                    let help = "they go down from at most 16 to 1: `#[rows(6, 2, 1)]`";
                    return self.misrun(attr, "these numbers of rounds do not go down to 1".into(), help);
                }
                Some(Run::Rows(numbers))
            }
            ("unroll", []) => Some(Run::Unrolled),
            ("ahead", &[rounds]) => {
                if !AHEAD.contains(&rounds) {
                    let help = "it is 1 to 1024 rounds";
                    return self.misrun(attr, format!("nothing is asked for {rounds} rounds ahead"), help);
                }
                Some(Run::Ahead(rounds))
            }
            ("dot", []) if statement => {
                let help = "it stands in a reduction: `sum(#[dot] t in 4) i32(a[t]) * i32(b[t])`";
                self.misrun(attr, "a loop of statements is no dot product".into(), help)
            }
            ("dot", []) => Some(Run::Dot),
            _ => self.misrun(attr, format!("`#[{name}]` has other arguments"), form),
        }
    }

    fn misrun<T>(&mut self, attr: &Attr, text: String, help: &str) -> Maybe<T> {
        self.fail(Diagnostic::error("E0407", attr.name.span, text).help(help))
    }

    /// Refuses attributes on loops of functions, which are no loops over elements.
    pub(crate) fn no_runs(&mut self, binders: &[Binder]) {
        for a in binders.iter().flat_map(|x| &x.attrs) {
            let text = format!("`#[{}]` stands in no primitive", a.name.name);
            let d = Diagnostic::error("E0407", a.name.span, text);
            self.report(d.help("how a loop runs is said where its body is scalar: in a `prim`"));
        }
    }

    /// Asks of each loop that was told how to run whether it can.
    pub(super) fn runs(&mut self, b: &Body, carried: &[(VarId, Carried)]) -> Maybe<()> {
        let mut wrong = Vec::new();
        for s in &b.prim.body {
            s.walk(&mut |s| {
                if let Stmt::For { var, lo, hi, run, .. } = s {
                    let carries = carried.iter().find(|c| c.0 == *var).map(|c| &c.1);
                    let what = match run {
                        Run::Plain | Run::Ahead(_) => None,
                        Run::Unrolled => written_out(b, *var, lo, hi),
                        Run::Lanes { .. } | Run::Rows(_) => carries.map(|c| dependent(b, *var, c)),
                        Run::Dot => Some(no_dot()),
                    };
                    wrong.extend(what.map(|w| (*var, w)));
                }
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Reduce { combine, run, var, lo, hi, body } = &e.kind {
                            let what = match run {
                                Run::Plain | Run::Ahead(_) | Run::Lanes { .. } | Run::Rows(_) => None,
                                Run::Unrolled => written_out(b, *var, lo, hi),
                                Run::Dot => {
                                    let fits = *combine == Combine::Add && is_dot(extent(b, lo, hi), body);
                                    (!fits).then(no_dot)
                                }
                            };
                            wrong.extend(what.map(|w| (*var, w)));
                        }
                    });
                }
            });
        }
        for (var, (text, help)) in &wrong {
            let at = b.told.iter().find(|t| t.var == *var).map_or(b.prim.span, |t| t.span);
            self.report(Diagnostic::error("E0407", at, text.clone()).help(help.clone()));
        }
        wrong.is_empty().then_some(())
    }
}

/// What is wrong, and what would be right.
type Wrong = (String, String);

fn dependent(b: &Body, var: VarId, carried: &Carried) -> Wrong {
    let what = match carried {
        Carried::Var(v) => format!("`{}` passes from one to the next", b.prim.var(*v).name),
        Carried::Buf(buf) => format!("one may touch what another writes of `{}`", b.prim.buf(*buf).name),
    };
    let text = format!("the rounds of `{}` are not independent: {what}", b.prim.var(var).name);
    (text, "a loop whose rounds depend on each other runs one after the other, or is a reduction".into())
}

fn extent(b: &Body, lo: &Scalar, hi: &Scalar) -> Option<i64> {
    let (lo, hi) = (b.prim.as_dim(lo)?, b.prim.as_dim(hi)?);
    (&hi - &lo).as_int()
}

fn written_out(b: &Body, var: VarId, lo: &Scalar, hi: &Scalar) -> Option<Wrong> {
    let name = b.prim.var(var).name;
    let text = match extent(b, lo, hi) {
        Some(n) if n <= UNROLLED => return None,
        Some(n) => format!("`{name}` has {n} rounds, too many to write out"),
        None => format!("the number of rounds of `{name}` is not known when compiling"),
    };
    Some((text, format!("a loop over a constant of at most {UNROLLED} is unrolled")))
}

fn no_dot() -> Wrong {
    let text = "this is no sum of products of two narrow numbers";
    let help = "4 products of 8-bit integers (`i32(a[t]) * i32(b[t])`), or 2 of 16-bit integers or of bf16 (`f32(..)`)";
    (text.into(), help.into())
}

/// True for what one instruction adds up.
fn is_dot(extent: Option<i64>, body: &Scalar) -> bool {
    let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return false };
    let narrow = |s: &Scalar| match &s.kind {
        ScalarKind::Cast(a) => Some(a.dtype),
        _ => None,
    };
    let [Some(x), Some(y)] = [&args[0], &args[1]].map(narrow) else { return false };
    let both = |of: &[DType]| of.contains(&x) && of.contains(&y);
    match (extent, body.dtype) {
        (Some(4), DType::I32) => both(&[DType::I8, DType::U8]),
        (Some(2), DType::I32) => both(&[DType::I16]),
        (Some(2), DType::F32) => both(&[DType::Bf16]),
        _ => false,
    }
}
