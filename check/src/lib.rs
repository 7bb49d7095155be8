//! AST → checked [`Module`]: names, element types, ranks, symbolic shapes, bounds, ownership.
//!
//! Definitions are templates. A function or primitive is generic over dims, packs of dims, element
//! types, compile-time attributes and functions; all but the dims are fixed at each call, and every
//! distinct choice is checked once as an *instance* ([`instance`]). Dims stay symbolic: a call binds
//! them by matching parameter types against argument types ([`bind`]), and whatever must be equal is
//! asked of the prover. Proved: nothing is left to do. Refuted: a diagnostic. Unknown: one check at
//! run time, at the function's entry where its dims are known there.
//!
//! The files: [`defs`] what names mean, with [`modules`] for types and constants of other files; [`config`] what
//! definitions take without saying so; [`types`] records, tuples, arrays and encoded tensors as trees of
//! tensors, with [`generics`] that signatures leave out, [`encoding`] and [`consts`]; [`env`] dims, packs and
//! attributes as values while checking, with [`conditions`] on them and [`existential`] for those that only running
//! tells, [`packs`] and [`einsum`] for what is said about ranks, and [`shape_hints`] for what would make a shape fit;
//! [`bind`] arguments against parameters; [`instance`] templates made concrete, [`standalone`] templates checked alone;
//! [`graph`] bodies of functions; [`prim`] bodies of primitives, with [`access`] for bounds, coverage and independence
//! of loops; [`rule`] rules and bindings, with [`rule_matches`] for what their generics stand for and [`matmul_rules`]
//! for those that loops are told by; [`schedule`] schedules; [`mod@attributes`] attributes, [`pins`] and [`tolerance`]
//! those that steer plans, [`mod@invariant`] that of functions whose rows are to be the same in every batch,
//! [`mod@pipeline`] what plans functions. Start at [`check`].
//!
//! Invariant: every error is a diagnostic, and checking goes on after it, so that one run reports all.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "checking asks whether a form is one of a few; every other is an error it reports"
)]

mod access;
mod attributes;
mod bind;
mod conditions;
mod config;
mod consts;
mod defs;
mod einsum;
mod encoding;
mod entry_instance;
mod env;
mod existential;
mod generics;
mod graph;
mod instance;
mod invariant;
mod matmul_rules;
mod modules;
mod packs;
mod pins;
mod pipeline;
mod prim;
mod repl_line;
mod rule;
mod rule_matches;
mod rule_variants;
mod schedule;
mod shape_hints;
mod standalone;
mod tolerance;
mod types;
mod visit;

use std::collections::{BTreeMap, HashSet};

use ir::Module;
use ir::ast::{File, Item, Stmt};
use ir::diag::{Diagnostic, Severity};
use ir::source::{SourceId, Span};
use shape::Sym;

pub use entry_instance::{Choice, EntryInstance, Instance, KnownArg, Request};
pub use graph::ways;
pub use repl_line::{Form, Input};

/// What checking gives.
#[derive(Debug)]
pub struct Checked {
    /// The program; complete only if there is no error.
    pub module: Module,
    /// Errors and warnings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// A body that could not be checked: the module is not complete, whether or not an error says why.
    pub lost: Option<Span>,
}

impl Checked {
    /// True if the module can be compiled and run.
    pub fn ok(&self) -> bool {
        self.diagnostics.iter().all(|d| d.severity != Severity::Error)
    }
}

/// The files of a program.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The program's own: they share one scope. A file; in a session, what was loaded and said.
    pub own: Vec<File>,
    /// The files that `use` brings, each a module; those used by others come first.
    pub modules: Vec<File>,
    /// What each `use` found, by the place of the last name of its path. Where nothing was found there is
    /// no link, and whoever looked has said so.
    pub links: BTreeMap<Span, Link>,
    /// The library's rules that lose digits have instances although no function of the program tolerates any: whoever
    /// plans it may say so, or ask why they do not fire.
    pub lossy: bool,
    /// What was made of the program for the library to have: it is read as a part of that.
    pub derived: Vec<File>,
}

impl From<Vec<File>> for Files {
    /// A program that uses nothing.
    fn from(own: Vec<File>) -> Files {
        Files { own, ..Files::default() }
    }
}

/// What a `use` found.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The file.
    pub file: SourceId,
    /// What the file is called: `b` for `a/b.tn`.
    pub name: Sym,
    /// True if the path names the file itself, false if a definition in it.
    pub whole: bool,
}

/// Checks a program. `library` is the standard library: its definitions are checked where they are
/// used, and those of the program stand before them.
pub fn check(library: &[File], files: &Files) -> Checked {
    run(library, files, |_, _| ())
}

/// Checks a program, and keeps an instance of every rule of its own (without a program, of the library), also of
/// those that nothing in it can match.
pub fn check_rules(library: &[File], files: &Files) -> Checked {
    let every = |checker: &mut Checker<'_>| checker.every_rule = true;
    run_with(library, files, every, |_, _| (), |_, _| ())
}

/// Checks a program, and makes an instance of one of its definitions for a call from outside; none where the definition
/// has but one, or cannot be called so.
pub fn check_entry(library: &[File], files: &Files, request: &Request) -> (Checked, Option<EntryInstance>) {
    let mut entered = None;
    let slot = &mut entered;
    let checked = enter(library, files, |checker, files| {
        let items: Vec<&Item> = files.own.iter().flat_map(|f| &f.items).collect();
        *slot = checker.entry_instance(request, &items);
    });
    (checked, entered)
}

/// Checks statements against a program, as the body of a function of `inputs` that gives the value of
/// the last one. The function, where there is no error, is the module's last; the form of the value comes with it.
pub fn check_line(
    library: &[File],
    files: &Files,
    inputs: &[Input],
    stmts: &[Stmt],
) -> (Checked, Option<Form>) {
    let mut form = None;
    let checked = run(library, files, |checker, _| form = checker.line(inputs, stmts));
    (checked, form)
}

/// Writes out what definitions leave unsaid, checks the program, then what comes after it.
fn run(library: &[File], files: &Files, after: impl for<'a> FnOnce(&mut Checker<'a>, &'a Files)) -> Checked {
    run_with(library, files, |_| (), |_, _| (), after)
}

/// The same, with what comes before the rules: they have instances for it too.
fn enter(
    library: &[File],
    files: &Files,
    entered: impl for<'a> FnOnce(&mut Checker<'a>, &'a Files),
) -> Checked {
    run_with(library, files, |_| (), entered, |_, _| ())
}

fn run_with(
    library: &[File],
    files: &Files,
    before: impl FnOnce(&mut Checker<'_>),
    entered: impl for<'a> FnOnce(&mut Checker<'a>, &'a Files),
    after: impl for<'a> FnOnce(&mut Checker<'a>, &'a Files),
) -> Checked {
    let more: Vec<File>;
    let library = match files.derived.is_empty() {
        true => library,
        false => {
            // A program's own encoding stands in the place of one of the library.
            let names =
                |f: &File| f.items.iter().filter_map(defs::name_of).map(|n| n.name).collect::<HashSet<Sym>>();
            let own: HashSet<Sym> = files.derived.iter().flat_map(names).collect();
            let stays = |f: &&File| names(f).is_disjoint(&own);
            more = library.iter().filter(stays).chain(&files.derived).cloned().collect();
            &more
        }
    };
    let (files, settings, said) = config::desugar_configs(library, files);
    let (library, files, elided) = generics::spell_generics(library, modules::qualify_names(library, files));
    let mut checker = Checker::new(&library, &files);
    said.into_iter().chain(elided).for_each(|d| checker.report(d));
    checker.module.settings = settings;
    before(&mut checker);
    checker.program(&library, &files, entered);
    after(&mut checker, &files);
    checker.finish()
}

/// The state of one run.
struct Checker<'a> {
    defs: defs::Defs<'a>,
    types: types::Types<'a>,
    consts: consts::Consts<'a>,
    module: Module,
    instances: instance::Instances<'a>,
    /// Where definitions are tried: it is forgotten.
    trial: (Module, instance::Instances<'a>),
    /// Definitions that are wrong whatever they are called with.
    unsound: HashSet<Span>,
    diagnostics: Vec<Diagnostic>,
    /// What has been said: an instance repeats the faults of its template.
    reported: HashSet<(&'static str, Span, String)>,
    /// A body that could not be checked.
    lost: Option<Span>,
    /// Rules whose operators stand in no function have an instance too.
    every_rule: bool,
    /// The operators that rules may find.
    known: rule_matches::UsedOperators,
    /// An instance that is new has no use: a rule's left side looks for what stands somewhere.
    only_known: bool,
}

/// The answer of a step that may have reported an error.
type Maybe<T> = Option<T>;

impl<'a> Checker<'a> {
    fn new(library: &'a [File], files: &'a Files) -> Checker<'a> {
        let mut checker = Checker {
            defs: defs::Defs::default(),
            types: types::Types::default(),
            consts: consts::Consts::default(),
            module: Module::default(),
            instances: instance::Instances::default(),
            trial: Default::default(),
            unsound: HashSet::new(),
            diagnostics: Vec::new(),
            reported: HashSet::new(),
            lost: None,
            every_rule: false,
            known: rule_matches::UsedOperators::default(),
            only_known: false,
        };
        checker.declare(library, files);
        checker.evaluate_consts();
        checker.check_recursion();
        checker
    }

    /// Modules come before what uses them, so that their faults are said where they are.
    fn program(
        &mut self,
        library: &'a [File],
        files: &'a Files,
        entered: impl FnOnce(&mut Checker<'a>, &'a Files),
    ) {
        let all = || files.modules.iter().chain(&files.own);
        self.pipelines(library, files);
        // Before anything calls them: what is wrong with them is said of them.
        all().for_each(|f| self.tries_of(f));
        all().for_each(|f| self.file(f));
        self.bodies();
        // Rules have instances for what stands in it as well.
        entered(self, files);
        self.products();
        all().for_each(|f| self.rules(f, |_| true));
        // Those of the library come last: they may go on with what the program's own give. Whoever asks for every rule
        // of a program asks for its own.
        if !self.every_rule || all().next().is_none() {
            // What lossy rules make narrower others lay out, so they come before them; but a trial looks at each rule
            // by itself.
            let is_lossy: fn(&Item) -> bool = |i| tolerance::from_attributes(i).is_some();
            let is_exact: fn(&Item) -> bool = |i| tolerance::from_attributes(i).is_none();
            let asked = files.lossy || all().any(tolerance::is_declared);
            let order = match (self.every_rule, asked) {
                (true, _) => vec![is_exact, is_lossy],
                (false, true) => vec![is_lossy, is_exact],
                (false, false) => vec![is_exact],
            };
            order.into_iter().for_each(|meant| library.iter().for_each(|f| self.rules(f, meant)));
        }
        files.own.iter().for_each(|f| self.tests(f));
        self.pins(library, &all().collect::<Vec<_>>());
        self.invariants(&all().collect::<Vec<_>>());
    }

    fn report(&mut self, mut d: Diagnostic) {
        let texts = d.labels.iter_mut().map(|l| &mut l.text).chain(&mut d.notes).chain(&mut d.help);
        for text in std::iter::once(&mut d.message).chain(texts) {
            *text = ir::display_names::demangle(text);
        }
        // What follows from something that was said has no message.
        if !d.message.is_empty() && self.reported.insert((d.code, d.span(), d.message.clone())) {
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
        Checked { module: self.module, diagnostics: self.diagnostics, lost: self.lost }
    }
}
