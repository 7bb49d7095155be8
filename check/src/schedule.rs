//! Schedules: whether they speak of what is there. They never change what a program means, and code
//! generation does not follow them yet: it chooses its own loops.
//!
//! A loop is named by its variable. `tile i 8` cuts it in two, `i.o` over the tiles and `i.i` within one, which may be
//! cut again; the names before are gone.

use std::collections::BTreeSet;

use ir::ast::{Directive, Ident, ItemKind, PrimDef, ScheduleDef};
use ir::diag::{Diagnostic, nearest};
use ir::source::Span;

use crate::Checker;
use crate::defs::Def;
use crate::visit::{self, Occurrence};

/// What a verb is followed by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// One or more loops.
    Loops,
    /// One or more loops, each with a number.
    Tiles,
    /// A loop or a local buffer, with or without a number.
    Names,
}

/// The verbs: what follows, and what it says of the loops.
const VERBS: &[(&str, Takes, &str)] = &[
    ("tile", Takes::Tiles, "cuts each loop into tiles of so many"),
    ("order", Takes::Loops, "nests the loops so, outermost first"),
    ("unroll", Takes::Loops, "writes out each turn of the loop"),
    ("vectorize", Takes::Loops, "turns of the loop become lanes of vectors"),
    ("parallel", Takes::Loops, "turns of the loop run on several threads"),
    ("stage", Takes::Names, "keeps the buffer near, in so many copies"),
];

/// The first name of a target.
const FAMILIES: &[&str] = &["x86", "aarch64", "riscv", "wasm"];

impl<'a> Checker<'a> {
    /// Checks that a schedule's primitive, target, verbs and loops are there.
    pub(crate) fn schedule(&mut self, def: &'a ScheduleDef) {
        let at = def.prim.span;
        if let Some(first) = def.target.first().filter(|t| !FAMILIES.contains(&t.name.name())) {
            let d =
                Diagnostic::error("E0211", first.span, format!("`{}` is no family of targets", first.name));
            self.report(match nearest(first.name.name(), FAMILIES.iter().copied()) {
                Some(guess) => d.help(format!("did you mean `{guess}`?")),
                None => d.help(format!("the families are {}", FAMILIES.join(", "))),
            });
        }
        let prim = match self.defs.get(def.prim.name, at) {
            Some(Def::Prim(prim)) => Some(prim),
            Some(Def::Fn(..) | Def::Extern(_)) => {
                let text = format!("`{}` is no primitive: only those have loops", def.prim.name);
                self.report(Diagnostic::error("E0307", at, text));
                None
            }
            None => {
                if !self.defs.is_missing(def.prim.name, at) {
                    let d = self.defs.unknown(def.prim.name, at, std::iter::empty());
                    self.report(d);
                }
                None
            }
        };
        let mut names = prim.map(names);
        for step in &def.steps {
            self.directive(step, def.prim, names.as_mut());
        }
    }

    fn directive(&mut self, step: &Directive, prim: Ident, names: Option<&mut Names>) {
        let verb = step.verb.name.name();
        let Some(&(_, takes, _)) = VERBS.iter().find(|v| v.0 == verb) else {
            let d = Diagnostic::error("E0211", step.verb.span, format!("schedules have no verb `{verb}`"));
            let known = VERBS.iter().map(|v| v.0);
            self.report(match nearest(verb, known.clone()) {
                Some(guess) => d.help(format!("did you mean `{guess}`?")),
                None => d.help(format!("the verbs are {}", known.collect::<Vec<_>>().join(", "))),
            });
            return;
        };
        let numbers = step.args.iter().filter(|a| a.1.is_some()).count();
        let bare = step.args.iter().filter(|a| a.0.is_empty()).count();
        let right = match takes {
            Takes::Loops => !step.args.is_empty() && numbers == 0 && bare == 0,
            Takes::Tiles => !step.args.is_empty() && numbers == step.args.len() && bare == 0,
            Takes::Names => !step.args.is_empty() && bare == 0,
        };
        if !right {
            let form = match takes {
                Takes::Loops => "loops: `i, j`",
                Takes::Tiles => "loops with extents: `i 8, j 48`",
                Takes::Names => "names of loops or buffers",
            };
            self.report(Diagnostic::error(
                "E0211",
                step.verb.span,
                format!("`{verb}` is followed by {form}"),
            ));
            return;
        }
        if let Some((path, _)) = step.args.iter().find(|a| a.1.is_some_and(|n| n < 1)) {
            let span = path.first().map_or(step.verb.span, |p| p.span);
            self.report(Diagnostic::error("E0211", span, format!("`{verb}`: a number here is at least 1")));
        }
        let Some(names) = names else { return };
        for (path, _) in step.args.iter().filter(|a| !a.0.is_empty()) {
            let text = path.iter().map(|p| p.name.name()).collect::<Vec<_>>().join(".");
            if takes == Takes::Names && names.buffers.contains(&text) {
                continue;
            }
            if !names.loops.contains(&text) {
                let span = path[0].span.to(path[path.len() - 1].span);
                self.unknown_loop(&text, span, prim, names);
                continue;
            }
            if takes == Takes::Tiles {
                names.loops.remove(&text);
                names.loops.insert(format!("{text}.o"));
                names.loops.insert(format!("{text}.i"));
            }
        }
    }

    fn unknown_loop(&mut self, text: &str, span: Span, prim: Ident, names: &Names) {
        let d = Diagnostic::error("E0211", span, format!("`{}` has no loop `{text}` here", prim.name));
        let known: Vec<&str> = names.loops.iter().map(String::as_str).collect();
        let below = format!("{text}.o");
        self.report(match nearest(text, known.iter().copied()) {
            _ if names.loops.contains(&below) => d.help(format!("it was cut into `{text}.o` and `{text}.i`")),
            Some(guess) => d.help(format!("did you mean `{guess}`?")),
            None => d.help(format!("its loops are {}", known.join(", "))),
        });
    }
}

/// What a schedule may name in a primitive.
struct Names {
    loops: BTreeSet<String>,
    buffers: BTreeSet<String>,
}

fn names(prim: &PrimDef) -> Names {
    let mut found = Names { loops: BTreeSet::new(), buffers: BTreeSet::new() };
    visit::item(&mut ItemKind::Prim(prim.clone()), &mut |place| match place {
        Occurrence::Loop(name) => found.loops.extend([name.name.to_string()]),
        Occurrence::Bound(name) => found.buffers.extend([name.name.to_string()]),
        Occurrence::Expr(_) | Occurrence::Type(_) => {}
    });
    found.buffers.retain(|b| !prim.sig.generics.iter().any(|g| g.name.name.name() == b));
    found
}
