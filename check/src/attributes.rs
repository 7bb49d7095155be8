//! Attributes before definitions: each says something that some stage follows. One that nothing follows
//! is an error, since its author believes that it does something.

use ir::ast::{Item, ItemKind};
use ir::diag::{Diagnostic, nearest};

use crate::Checker;

/// An attribute, on what it may stand, and whether an item is that.
type AttributeRule = (&'static str, &'static str, fn(&ItemKind) -> bool);

/// Every attribute.
const ATTRIBUTES: &[AttributeRule] = &[
    ("config", "a test", |k| matches!(k, ItemKind::Test(_))),
    ("forbid", "a function", |k| matches!(k, ItemKind::Fn(_))),
    ("force", "a function", |k| matches!(k, ItemKind::Fn(_))),
    ("invariant", "a function or primitive", |k| matches!(k, ItemKind::Fn(_) | ItemKind::Prim(_))),
    ("pipeline", "a function", |k| matches!(k, ItemKind::Fn(_))),
    ("plan", "a function or primitive", |k| matches!(k, ItemKind::Fn(_) | ItemKind::Prim(_))),
    ("serves", "a config", |k| matches!(k, ItemKind::Config(_))),
    ("tolerance", "a function or rule", |k| matches!(k, ItemKind::Fn(_) | ItemKind::Rule(_))),
    ("variadic", "a function or primitive", |k| matches!(k, ItemKind::Fn(_) | ItemKind::Prim(_))),
];

impl<'a> Checker<'a> {
    /// The attributes of a definition.
    pub(crate) fn attributes_of_item(&mut self, item: &'a Item) {
        self.pin_forms(item);
        self.invariant_form(item);
        self.tolerance_forms(item);
        self.pipeline_forms(item);
        for a in &item.attrs {
            let name = a.name.name.name();
            let text = match ATTRIBUTES.iter().find(|m| m.0 == name) {
                Some((_, _, fits)) if fits(&item.kind) => continue,
                // Said where configs are written out.
                Some(("config", ..)) => continue,
                Some((_, what, _)) => format!("`#[{name}]` stands before {what}"),
                None => format!("unknown attribute `{name}`"),
            };
            let d = Diagnostic::error("E0201", a.name.span, text);
            self.report(match nearest(name, ATTRIBUTES.iter().map(|m| m.0)) {
                Some(guess) => d.help(format!("did you mean `#[{guess}]`?")),
                None => d.help(
                    "the attributes are `#[config(..)]` of tests, `#[force(..)]`, `#[forbid(..)]`, `#[invariant]`, \
                     `#[pipeline(..)]`, `#[plan]`, `#[tolerance(..)]` of functions and rules, `#[serves(..)]` of configs, \
                     and `#[variadic]`",
                ),
            });
        }
    }
}
