//! `#[invariant]`: before a function, that the bits of a row of its results depend on what that row is computed from
//! alone; before a primitive, that it is compiled so; `#[invariant(p)]` before a function, that where it must be so, it
//! is its call of `p` that serves all dims, of the choices that its text makes by speed.
//!
//! In: attributes, and the module once it is whole. Out: marks in the module ([`ir::invariant`]), and what is wrong
//! with them.

use ir::ast::{ExprKind, File, Item, ItemKind};
use ir::diag::Diagnostic;
use ir::graph::Invariant;
use ir::source::Span;
use shape::Sym;

use crate::Checker;
use crate::graph::is_template;

const NAME: &str = "invariant";

/// What the text says of a function.
pub(crate) fn from_attributes(item: &Item) -> Invariant {
    let Some(attr) = item.attrs.iter().find(|a| a.name.name.name() == NAME) else { return Invariant::No };
    match &attr.args[..] {
        [] => Invariant::Yes,
        [arg, ..] => named(&arg.value.kind).map_or(Invariant::No, Invariant::By),
    }
}

fn named(e: &ExprKind) -> Option<Sym> {
    if let ExprKind::Name(name) = e { Some(*name) } else { None }
}

impl<'a> Checker<'a> {
    /// What is wrong with the mark of a definition before anything is known of the module.
    pub(crate) fn invariant_form(&mut self, item: &'a Item) {
        for a in item.attrs.iter().filter(|a| a.name.name.name() == NAME) {
            let d = if let ItemKind::Fn(def) = &item.kind {
                let prim = |e: &ExprKind| {
                    let item = named(e).and_then(|n| self.defs.item(n, def.sig.name.span));
                    item.is_some_and(|i| matches!(i.kind, ItemKind::Prim(_)))
                };
                match &a.args[..] {
                    _ if is_template(&self.types, def) => {
                        let name = def.sig.name.name;
                        let text = format!("`{name}` is taken apart where it is called, and has no plan");
                        Diagnostic::error("E0508", a.name.span, text).help("mark the function that calls it")
                    }
                    [] => continue,
                    [arg] if arg.name.is_none() && prim(&arg.value.kind) => continue,
                    [arg] => {
                        let text = "`#[invariant(..)]` names a primitive that the function calls";
                        Diagnostic::error("E0508", arg.value.span, text)
                            .help("that whose call serves all dims; `#[invariant]` alone marks the function")
                    }
                    [_, more, ..] => {
                        let text = "`#[invariant(..)]` names one primitive";
                        Diagnostic::error("E0508", more.value.span, text)
                            .help("that whose call serves all dims")
                    }
                }
            } else if let (ItemKind::Prim(_), [arg, ..]) = (&item.kind, &a.args[..]) {
                let text = "`#[invariant]` of a primitive takes nothing";
                Diagnostic::error("E0508", arg.value.span, text)
            } else {
                continue;
            };
            self.report(d);
        }
    }

    /// Whether the definition of a name is marked.
    pub(crate) fn is_invariant(&self, name: Sym, at: Span) -> bool {
        self.defs.item(name, at).is_some_and(|i| i.attrs.iter().any(|a| a.name.name.name() == NAME))
    }

    /// Marks the instances of primitives, and asks of the functions that are marked what they cannot keep.
    pub(crate) fn invariants(&mut self, files: &[&File]) {
        for item in files.iter().flat_map(|f| &f.items) {
            if let ItemKind::Prim(def) = &item.kind
                && item.attrs.iter().any(|a| a.name.name.name() == NAME)
            {
                let own = self.module.prims.iter_mut().filter(|p| p.span == def.sig.name.span);
                own.for_each(|p| p.invariant = true);
            }
        }
        let mut lost = Vec::new();
        for f in &self.module.funcs {
            // What is no primitive was said.
            let is_prim = |n| self.defs.item(n, f.span).is_some_and(|i| matches!(i.kind, ItemKind::Prim(_)));
            let Invariant::By(def) = f.invariant else { continue };
            // One that only a rule names has no body where it was not asked for.
            let bare = f.body.nodes.is_empty() && f.body.results.is_empty();
            if bare || !is_prim(def) {
                continue;
            }
            let (text, help) = if ir::invariant::called(&self.module, &f.body, def).is_none() {
                let text =
                    format!("`#[invariant({def})]` stands before `{}`, which does not call `{def}`", f.def);
                (text, "name the primitive whose call serves all dims")
            } else if ir::invariant::opens(&self.module, &f.body, def) {
                let text =
                    format!("the arm of `{def}` cannot stand for a choice whose extents only running tells");
                (text, "choose between values of known extents")
            } else {
                continue;
            };
            lost.push(Diagnostic::error("E0508", f.span, text).help(help));
        }
        lost.into_iter().for_each(|d| self.report(d));
        ir::invariant::faults(&self.module, false).into_iter().for_each(|d| self.report(d));
    }
}
