//! AST → checked [`Module`]: names, element types, ranks, symbolic shapes, bounds, ownership.
//!
//! Definitions are templates. A function or primitive is generic over dims, packs of dims, element
//! types, compile-time attributes and functions; all but the dims are fixed at each call, and every
//! distinct choice is checked once as an *instance* ([`instance`]). Dims stay symbolic: a call binds
//! them by matching parameter types against argument types ([`bind`]), and whatever must be equal is
//! asked of the prover. Proved: nothing is left to do. Refuted: a diagnostic. Unknown: one check at
//! run time, at the function's entry where its dims are known there.
//!
//! The files: [`defs`] what names mean; [`types`] records, tuples, arrays and encoded tensors as trees of
//! tensors, with [`generics`] that signatures leave out, [`encoding`] and [`consts`]; [`env`] dims, packs and attributes as values while checking,
//! with [`lists`] and [`labels`] for what is said about ranks;
//! [`bind`] arguments against parameters; [`instance`] templates made concrete; [`graph`] bodies of
//! functions; [`prim`] bodies of primitives, with [`access`] for bounds, coverage and independence of
//! loops; [`rule`] rules and bindings. Start at [`check`].
//!
//! Invariant: every error is a diagnostic, and checking goes on after it, so that one run reports all.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "checking asks whether a form is one of a few; every other is an error it reports"
)]

mod access;
mod bind;
mod consts;
mod defs;
mod encoding;
mod env;
mod generics;
mod graph;
mod instance;
mod labels;
mod lists;
mod prim;
mod rule;
mod types;

use std::borrow::Cow;
use std::collections::HashSet;

use ir::Module;
use ir::ast::{File, Stmt};
use ir::diag::{Diagnostic, Severity};
use ir::graph::Type;
use ir::source::{SourceId, Span};
use shape::Sym;

/// What checking gives.
#[derive(Debug)]
pub struct Checked {
    /// The program; complete only if there is no error.
    pub module: Module,
    /// Errors and warnings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// True if the module can be compiled and run.
    pub fn ok(&self) -> bool {
        self.diagnostics.iter().all(|d| d.severity != Severity::Error)
    }
}

/// Checks a program. `library` is the standard library: its definitions are checked where they are
/// used, and those of `files` stand before them.
pub fn check(library: &[File], files: &[File]) -> Checked {
    let (library, files) = generics::written_out(library, files);
    let mut checker = Checker::new(&library, &files);
    for file in &files {
        checker.file(file);
    }
    checker.finish()
}

/// Checks statements against a program, as the body of a function of `inputs` that gives the value of
/// the last one. The function, where there is no error, is the module's last.
pub fn check_line(library: &[File], files: &[File], inputs: &[(Sym, Type)], stmts: &[Stmt]) -> Checked {
    let (library, files) = generics::written_out(library, files);
    let mut checker = Checker::new(&library, &files);
    for file in &files {
        checker.file(file);
    }
    checker.line(inputs, stmts);
    checker.finish()
}

/// The state of one run.
struct Checker<'a> {
    defs: defs::Defs<'a>,
    types: types::Types<'a>,
    consts: consts::Consts<'a>,
    module: Module,
    instances: instance::Instances<'a>,
    diagnostics: Vec<Diagnostic>,
    /// What has been said: an instance repeats the faults of its template.
    said: HashSet<(&'static str, Span, String)>,
}

/// The answer of a step that may have reported an error.
type Maybe<T> = Option<T>;

impl<'a> Checker<'a> {
    fn new(library: &'a [Cow<'a, File>], files: &'a [Cow<'a, File>]) -> Checker<'a> {
        let mut checker = Checker {
            defs: defs::Defs::default(),
            types: types::Types::default(),
            consts: consts::Consts::default(),
            module: Module::default(),
            instances: instance::Instances::default(),
            diagnostics: Vec::new(),
            said: HashSet::new(),
        };
        for file in library {
            checker.declare(file);
        }
        checker.defs.shadow();
        for file in files {
            checker.declare(file);
        }
        checker.evaluate_consts();
        checker.check_recursion();
        checker
    }

    fn report(&mut self, d: Diagnostic) {
        if self.said.insert((d.code, d.span(), d.message.clone())) {
            self.diagnostics.push(d);
        }
    }

    /// Reports and gives nothing: `return self.fail(..)`.
    fn fail<T>(&mut self, d: Diagnostic) -> Maybe<T> {
        self.report(d);
        None
    }

    fn finish(mut self) -> Checked {
        self.bodies();
        let at = |d: &Diagnostic| (d.span().file != SourceId::default(), d.span());
        self.diagnostics.sort_by_key(|d| at(d));
        Checked { module: self.module, diagnostics: self.diagnostics }
    }
}
