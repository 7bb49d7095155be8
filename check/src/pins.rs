//! Pins: `#[force(sgemm)]` and `#[forbid(h = fused)]` before a function say what its plan uses, as `--force` and
//! `--forbid` do, but of that function alone, or of its values of a name.
//!
//! In: attributes, once the module is whole. Out: [`Pin`]s with the names that they stand for; a name that nothing has
//! is an error, since its author believes that it does something; so are pins of which no plan can hold both, and one
//! about a parameter. Fused kernels are named only by the rewriter, so names of those are taken as they are, and what
//! cannot be held is told with the plan.

use std::collections::BTreeSet;

use ir::ast::{ExprKind, File, Item, ItemKind};
use ir::diag::{Diagnostic, nearest};
use ir::graph::{Pin, ValId};
use ir::source::Span;
use shape::Sym;

use crate::Checker;
use crate::graph::is_template;

/// The kinds of implementations.
const KINDS: [&str; 4] = ["kernel", "fused", "library", "view"];

/// The pins of a function, as written. What is no name is left out: [`Checker::pin_forms`] says so.
pub(crate) fn from_attributes(item: &Item) -> Vec<Pin> {
    let mut pins = Vec::new();
    for (a, force) in item.attrs.iter().filter_map(|a| Some((a, verb(a.name.name)?))) {
        for arg in &a.args {
            let ExprKind::Name(name) = arg.value.kind else { continue };
            let value = arg.name.map(|n| n.name);
            let span = arg.name.map_or(arg.value.span, |n| n.span.to(arg.value.span));
            pins.push(Pin { force, value, name, means: vec![], span });
        }
    }
    pins
}

/// True for `force`, false for `forbid`.
fn verb(name: Sym) -> Option<bool> {
    match name.name() {
        "force" => Some(true),
        "forbid" => Some(false),
        _ => None,
    }
}

impl<'a> Checker<'a> {
    /// What is wrong with the pins of a definition before anything is known of the module.
    pub(crate) fn pin_forms(&mut self, item: &'a Item) {
        for a in item.attrs.iter().filter(|a| verb(a.name.name).is_some()) {
            let name = a.name.name;
            if a.args.is_empty() {
                let d = Diagnostic::error("E0506", a.name.span, format!("`#[{name}]` names nothing"));
                self.report(
                    d.help(format!("name an implementation, a kind of them or a rule: `#[{name}(fused)]`")),
                );
            }
            for arg in a.args.iter().filter(|arg| !matches!(arg.value.kind, ExprKind::Name(_))) {
                let text = format!("`#[{name}(..)]` takes names");
                self.report(Diagnostic::error("E0506", arg.value.span, text).help(format!(
                    "an implementation, a kind of them or a rule: `#[{name}(fused)]`, `#[{name}(h = fused)]` for \
                     the value `h`"
                )));
            }
            if let ItemKind::Fn(def) = &item.kind
                && is_template(&self.types, def)
            {
                let text =
                    format!("`{}` is taken apart where it is called, and has no plan", def.sig.name.name);
                let d = Diagnostic::error("E0506", a.name.span, text);
                self.report(d.help("pin the function that calls it"));
            }
        }
    }

    /// Finds what the pins of all functions stand for.
    pub(crate) fn pins(&mut self, library: &[File], files: &[&File]) {
        if self.module.funcs.iter().all(|f| f.pins.is_empty()) {
            return;
        }
        let items = || files.iter().copied().chain(library).flat_map(|f| &f.items);
        let mut known: BTreeSet<String> = KINDS.map(str::to_owned).into();
        // A rule by its definition stands for its instances.
        let mut rules: Vec<(Sym, Span)> = Vec::new();
        for item in items() {
            match &item.kind {
                ItemKind::Rule(d) => rules.push((d.sig.name.name, d.sig.name.span)),
                ItemKind::Prim(d) => known.extend([d.sig.name.name.to_string()]),
                ItemKind::Extern(d) => known.extend([d.sig.name.name.to_string()]),
                ItemKind::Use(_)
                | ItemKind::Const(..)
                | ItemKind::Fn(_)
                | ItemKind::Encoding(_)
                | ItemKind::Record(_)
                | ItemKind::Config(_)
                | ItemKind::Schedule(_)
                | ItemKind::Pipeline(_)
                | ItemKind::Test(_) => {}
            }
        }
        known.extend(rules.iter().map(|r| r.0.to_string()));
        known.extend(self.module.rules.iter().map(|r| r.name.to_string()));
        known.extend(self.module.prims.iter().map(|p| p.name.clone()));
        let mut funcs = std::mem::take(&mut self.module.funcs);
        for f in &mut funcs {
            let values: BTreeSet<Sym> = f.vals.iter().map(|v| v.name).collect();
            for pin in &mut f.pins {
                let spans: Vec<Span> = rules.iter().filter(|r| r.0 == pin.name).map(|r| r.1).collect();
                let instances = self.module.rules.iter().filter(|r| spans.contains(&r.span));
                pin.means = instances.map(|r| r.name.to_string()).collect();
                let prims = self.module.prims.iter().filter(|p| p.def == pin.name);
                pin.means.extend(prims.map(|p| p.name.clone()));
                pin.means.push(pin.name.to_string());
                let name = pin.name.name();
                if !known.contains(name) && !name.starts_with("fused_") {
                    let text = format!("no implementation or rule `{name}`");
                    let d = Diagnostic::error("E0506", pin.span, text);
                    self.report(match nearest(name, known.iter().map(String::as_str)) {
                        Some(near) => d.help(format!("did you mean `{near}`?")),
                        None => d.help("`tenon opt` lists those that the program has"),
                    });
                }
                // What is given is not made, unless something made later has its name.
                let is_given = |v: &Sym| {
                    let named = |id: &ValId| f.vals[id.0 as usize].name == *v;
                    let mut made = false;
                    f.body.walk(&mut |n| made |= n.results.iter().any(named));
                    f.body.params.iter().any(named) && !made
                };
                if let Some(value) = pin.value.filter(is_given) {
                    let text = format!(
                        "`{value}` is a parameter of `{}`: nothing makes it, so nothing is chosen",
                        f.def
                    );
                    let d = Diagnostic::error("E0506", pin.span, text);
                    self.report(d.help("pin a value that the function makes: `let h = ..`"));
                }
                if let Some(value) = pin.value.filter(|v| !values.contains(v)) {
                    let text = format!("`{}` makes no value `{value}`", f.def);
                    let d = Diagnostic::error("E0506", pin.span, text);
                    self.report(match nearest(value.name(), values.iter().map(|v| v.name())) {
                        Some(near) => d.help(format!("did you mean `{near}`?")),
                        None => d.help("give it a name: `let h = ..`"),
                    });
                }
            }
            for (k, pin) in f.pins.iter().enumerate() {
                if let Some(other) = f.pins[..k].iter().find(|other| self.contradict(pin, other)) {
                    let text = format!("`{pin}` contradicts `{other}`");
                    let d = Diagnostic::error("E0507", pin.span, text).label(other.span, "asked for here");
                    self.report(d.help(match (pin.value, other.value) {
                        (None, None) => {
                            "of one function, a name is forced or forbidden: say of which values each \
                            is, `h = ..`"
                        }
                        _ => "of one value, a name is forced or forbidden, and one kind is forced",
                    }));
                }
            }
        }
        self.module.funcs = funcs;
    }

    /// Whether two pins of a function cannot both be held: of the same values the one forbids all that the other
    /// forces, or each forces a kind of its own.
    fn contradict(&self, a: &Pin, b: &Pin) -> bool {
        let same = a.value.is_none() || b.value.is_none() || a.value == b.value;
        if a.force && b.force {
            let kinds = [a, b].map(|p| KINDS.contains(&p.name.name()));
            return a.value.is_some() && a.value == b.value && kinds == [true, true] && a.name != b.name;
        }
        let (force, forbid) = if a.force { (a, b) } else { (b, a) };
        let library = |p: &Pin| self.module.externs.iter().any(|e| e.name == p.name);
        let within = force.means.iter().all(|m| forbid.means.contains(m))
            || forbid.name.name() == "library" && library(force);
        a.force != b.force && same && within
    }
}
