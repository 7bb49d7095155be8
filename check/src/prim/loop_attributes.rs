//! Loop attributes: how the loop of a binder runs.
//!
//! In: `#[lanes(16, 4)]`, `#[stream(16, 4, 16384)]`, `#[rows(6, 2, 1)]`, `#[unroll]`, `#[ahead(8)]`, `#[dot]` before a
//! binder of a primitive. Out: the [`Run`] of the loop or reduction. An attribute that the loop cannot follow is an
//! error: whether it can is read from the finished body, where it is known which rounds are independent.

use ir::ast::{Attr, Binder};
use ir::depend::Carried;
use ir::diag::{Diagnostic, nearest};
use ir::legality::Misfit;
use ir::loops::{Run, VarId};
use ir::source::Span;

use super::Body;
use crate::env::Const;
use crate::{Checker, Maybe};

/// The attributes, with what each says.
const RUNS: &[(&str, &str)] = &[
    ("lanes", "`#[lanes(16, 4)]`: lanes of a vector, vectors at once"),
    (
        "stream",
        "`#[stream(16, 4, 16384)]`: lanes whose stores go past the caches, to what has so many KiB or more",
    ),
    ("rows", "`#[rows(6, 2, 1)]`: so many rounds at once, the last is 1; a reduction goes by so many sums"),
    ("unroll", "`#[unroll]`: each round is written out"),
    ("ahead", "`#[ahead(8)]`: what the round so many later reads is asked for"),
    ("dot", "`#[dot]`: one instruction adds up the products"),
];

/// A loop that is told how to run.
pub(super) struct MarkedLoop {
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
            return self.bad_loop_attribute(second, text, "one attribute says how a loop runs");
        }
        let run = self.loop_attribute(b, attr)?;
        let place = if statement { run.in_loop() } else { run.in_reduction() };
        if let Err(m) = run.in_range().and(place) {
            return self.bad_loop_attribute(attr, m.what, &m.help);
        }
        b.marked_loops.extend(vars.iter().map(|&var| MarkedLoop { var, span: attr.name.span }));
        Some(run)
    }

    fn loop_attribute(&mut self, b: &Body, attr: &Attr) -> Maybe<Run> {
        let name = attr.name.name.name();
        let Some((_, form)) = RUNS.iter().find(|r| r.0 == name) else {
            let text = format!("no loop runs as `#[{name}]`");
            let help = match nearest(name, RUNS.iter().map(|r| r.0)) {
                Some(guess) => format!("did you mean `#[{guess}]`?"),
                None => format!("say {}", RUNS.iter().map(|r| r.1).collect::<Vec<_>>().join("; ")),
            };
            return self.bad_loop_attribute(attr, text, &help);
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
            ("lanes", &[lanes, vectors]) => Some(Run::Lanes { lanes, vectors }),
            ("stream", &[lanes, vectors, from]) => Some(Run::Stream { lanes, vectors, from }),
            ("rows", [_, ..]) => Some(Run::Rows(numbers)),
            ("unroll", []) => Some(Run::Unrolled),
            ("ahead", &[rounds]) => Some(Run::Ahead(rounds)),
            ("dot", []) => Some(Run::Dot),
            _ => self.bad_loop_attribute(attr, format!("`#[{name}]` has other arguments"), form),
        }
    }

    fn bad_loop_attribute<T>(&mut self, attr: &Attr, text: String, help: &str) -> Maybe<T> {
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
        let wrong = b.prim.misfits(carried);
        for (var, Misfit { what, help }) in &wrong {
            let at = b.marked_loops.iter().find(|t| t.var == *var).map_or(b.prim.span, |t| t.span);
            self.report(Diagnostic::error("E0407", at, what.clone()).help(help.clone()));
        }
        wrong.is_empty().then_some(())
    }
}
