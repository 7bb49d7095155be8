//! `#[tolerance(0.01)]`: before a rule by how much its right side may be off, before a function which such rules may
//! fire in it, `#[tolerance(0.01, lossy)]` those of a family alone.
//!
//! In: attributes. Out: a positive number each; what is none is an error, as is one before a rule that is read both
//! ways (the side that lost digits does not tell them) and before a function that has no plan of its own. What it is a
//! part of is said where it is judged: `driver/src/admit/` for a rule, `driver/src/compare/` for a plan.

use ir::ast::{Attr, Expr, ExprKind, File, Item, ItemKind, UnaryOp};
use ir::diag::Diagnostic;
use ir::graph::Tolerance;
use shape::Sym;

use crate::Checker;
use crate::graph::is_template;

/// What a rule loses, where it says so. What is wrong with it [`Checker::tolerance_forms`] says.
pub(crate) fn from_attributes(item: &Item) -> Option<f64> {
    item.attrs.iter().find(|a| is(a)).and_then(|a| number(a).ok())
}

/// What a function tolerates, where it says so.
pub(crate) fn of_function(item: &Item) -> Option<Tolerance> {
    let attr = item.attrs.iter().find(|a| is(a))?;
    let families = attr.args.iter().skip(1).filter_map(|a| name(&a.value)).collect();
    number(attr).ok().map(|by| Tolerance { by, families })
}

fn name(e: &Expr) -> Option<Sym> {
    if let ExprKind::Name(name) = e.kind { Some(name) } else { None }
}

/// True if some function of a file says that it tolerates something.
pub(crate) fn is_declared(file: &File) -> bool {
    file.items.iter().any(|item| matches!(item.kind, ItemKind::Fn(_)) && from_attributes(item).is_some())
}

fn is(attr: &Attr) -> bool {
    attr.name.name.name() == "tolerance"
}

/// The number of an attribute, or what is wrong with it.
fn number(attr: &Attr) -> Result<f64, String> {
    let Some(arg) = attr.args.first() else {
        return Err("`#[tolerance(..)]` takes one number, and this has 0".to_owned());
    };
    let value = match &arg.value.kind {
        ExprKind::Int(i) => Some(*i as f64),
        ExprKind::Float(x, _) => Some(*x),
        ExprKind::Unary(UnaryOp::Neg, inner) => match inner.kind {
            ExprKind::Int(i) => Some(-(i as f64)),
            ExprKind::Float(x, _) => Some(-x),
            _ => None,
        },
        _ => None,
    };
    match value.filter(|_| arg.name.is_none()) {
        Some(x) if x > 0.0 && x.is_finite() => Ok(x),
        Some(x) => Err(format!("a tolerance is a positive number, and this is {x}")),
        None => Err("a tolerance is a number".to_owned()),
    }
}

impl<'a> Checker<'a> {
    /// What is wrong with the tolerance of a definition. On what it may stand is said with the other attributes.
    pub(crate) fn tolerance_forms(&mut self, item: &'a Item) {
        let mut said = item.attrs.iter().filter(|a| is(a));
        let Some(attr) = said.next() else { return };
        let span = attr.args.first().map_or(attr.name.span, |a| a.value.span);
        if let Err(text) = number(attr) {
            let help = "write the part of its size by which a result may be off: `#[tolerance(0.01)]`";
            self.report(Diagnostic::error("E0509", span, text).help(help));
        }
        for arg in attr.args.iter().skip(1) {
            let family = name(&arg.value).filter(|_| matches!(item.kind, ItemKind::Fn(_)));
            if family.is_some_and(|f| self.defs.is_family(f)) {
                continue;
            }
            let text = match (&item.kind, family) {
                (ItemKind::Fn(_), Some(f)) => format!("no family of rules is called `{f}`"),
                (ItemKind::Fn(_), None) => "behind its number a tolerance has families of rules".to_owned(),
                _ => format!("`#[tolerance(..)]` takes one number, and this has {}", attr.args.len()),
            };
            let d = Diagnostic::error("E0509", arg.value.span, text);
            self.report(d.help(
                "behind the number of a function stand names of families: `#[tolerance(0.01, panels)]`",
            ));
        }
        if let Some(second) = said.next() {
            let text = "`#[tolerance(..)]` stands here twice";
            let d = Diagnostic::error("E0509", second.name.span, text).label(attr.name.span, "first here");
            self.report(d.help("keep one of them"));
        }
        match &item.kind {
            ItemKind::Fn(def) if is_template(&self.types, def) => {
                let text =
                    format!("`{}` is taken apart where it is called, and has no plan", def.sig.name.name);
                let d = Diagnostic::error("E0509", attr.name.span, text);
                self.report(d.help("say it of the function that calls it"));
            }
            ItemKind::Rule(def) if def.both_ways => {
                let text = format!("the rule `{}` loses something, and is read both ways", def.sig.name.name);
                let d = Diagnostic::error("E0509", attr.name.span, text);
                self.report(d.help("write it one way, `=>`: a lossy rule is no equation"));
            }
            _ => {}
        }
    }
}
