//! `#[invariant]`: before a function, that the bits of a row of its results depend on what that row is computed from alone; before a
//! primitive, that it is compiled so; `#[invariant(p)]` before a function, that where it must be so, it is its call of `p` that serves
//! all dims, of the choices that its text makes by speed.
//!
//! In: attributes, and the module once it is whole. Out: marks in the module ([`ir::invariant`]), and what is wrong with them.

use ir::ast::{ExprKind, File, Item, ItemKind};
use ir::diag::Diagnostic;
use ir::graph::Invariant;
use shape::Sym;

use crate::Checker;
use crate::graph::is_template;

const NAME: &str = "invariant";

/// What the text says of a function.
pub(crate) fn of(item: &Item) -> Invariant {
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
            match &item.kind {
                ItemKind::Fn(def) if is_template(&self.types, def) => {
                    let name = def.sig.name.name;
                    let text = format!("`{name}` is taken apart where it is called, and has no plan");
                    let d = Diagnostic::error("E0508", a.name.span, text);
                    self.report(d.help("mark the function that calls it"));
                }
                ItemKind::Fn(def) if !a.args.is_empty() => {
                    let [arg] = &a.args[..] else {
                        let d = Diagnostic::error(
                            "E0508",
                            a.args[1].value.span,
                            "`#[invariant(..)]` names one primitive",
                        );
                        self.report(d.help("that whose call serves all dims"));
                        continue;
                    };
                    let prim = named(&arg.value.kind).filter(|n| {
                        let item = self.defs.item(*n, def.sig.name.span);
                        arg.name.is_none() && item.is_some_and(|i| matches!(i.kind, ItemKind::Prim(_)))
                    });
                    if prim.is_none() {
                        let text = "`#[invariant(..)]` names a primitive that the function calls";
                        let d = Diagnostic::error("E0508", arg.value.span, text);
                        self.report(d.help(
                            "that whose call serves all dims; `#[invariant]` alone marks the function",
                        ));
                    }
                }
                ItemKind::Prim(_) if !a.args.is_empty() => {
                    let text = "`#[invariant]` of a primitive takes nothing";
                    self.report(Diagnostic::error("E0508", a.args[0].value.span, text));
                }
                _ => {}
            }
        }
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
        ir::invariant::faults(&self.module, false).into_iter().for_each(|d| self.report(d));
    }
}
