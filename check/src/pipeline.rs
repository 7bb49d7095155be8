//! Pipelines: their verbs, the rules that they name and the order in which passes may stand; and `#[pipeline(NAME)]`,
//! which chooses one for a function.
//!
//! In: `pipeline` definitions. Out: [`Pipeline`]s of the module, before any function is made, as functions say which is
//! theirs. A verb, family or rule that nothing has is an error with a guess, and so is a pass that would find nothing
//! to work on where it stands: each level of [`Level`] is made of the one before it.

use std::collections::{BTreeMap, BTreeSet};

use ir::ast::{Directive, Expr, ExprKind, File, Ident, Item, ItemKind, PipelineDef};
use ir::diag::{Diagnostic, nearest};
use ir::pipeline::{Chosen, Level, OWN, Pass, Pipeline, PipelineId, Rules};
use ir::source::Span;
use shape::Sym;

use crate::graph::is_template;
use crate::{Checker, Files};

/// The verbs, each with what follows it.
const VERBS: &[(&str, &str)] = &[
    ("inline", "nothing"),
    ("outline", "nothing"),
    ("saturate", "families of rules, or rules, and perhaps a number of rounds: `saturate algebra, own, 2`"),
    ("merge", "families of rules, or rules: `merge merges`"),
    ("load_time", "nothing"),
    ("fuse", "nothing"),
    ("library", "nothing"),
    ("regimes", "at most a number of plans: `regimes 2`"),
    ("pass", "the name of a pass: `pass tidy`"),
];

/// The rules that a pipeline may name.
struct RuleNames {
    /// By family: whether each of its rules has several values.
    families: BTreeMap<Sym, Vec<bool>>,
    /// By name: where it is defined, and whether it has several values. The program's hide the library's.
    rules: BTreeMap<Sym, Vec<(Span, bool)>>,
}

impl<'a> Checker<'a> {
    /// The pipelines of the library and the program.
    pub(crate) fn pipelines(&mut self, library: &'a [File], files: &'a Files) {
        let known = self.known_rules(library, files);
        for item in library.iter().chain(&files.modules).chain(&files.own).flat_map(|f| &f.items) {
            if let ItemKind::Pipeline(def) = &item.kind {
                let passes = self.passes(def, &known);
                let name = self.defs.outer_name(item, def.name);
                self.module.pipelines.push(Pipeline { name, passes, span: def.name.span });
            }
        }
    }

    fn known_rules(&self, library: &'a [File], files: &'a Files) -> RuleNames {
        let mut known = RuleNames { families: BTreeMap::new(), rules: BTreeMap::new() };
        known.families.insert(Sym::new(OWN), Vec::new());
        for item in files.own.iter().chain(&files.modules).chain(library).flat_map(|f| &f.items) {
            let ItemKind::Rule(d) = &item.kind else { continue };
            let (name, several) = (d.sig.name, matches!(d.lhs.kind, ExprKind::Tuple(_)));
            known.families.entry(self.family(name.span)).or_default().push(several);
            let same = known.rules.entry(name.name).or_default();
            let library = self.defs.in_library(name.span);
            if !library || same.iter().all(|s| self.defs.in_library(s.0)) {
                same.push((name.span, several));
            }
        }
        known
    }

    /// What the rules of a place are called together.
    pub(crate) fn family(&self, at: Span) -> Sym {
        match self.defs.in_library(at) {
            true => self.defs.family(at).unwrap_or(Sym::new("std")),
            false => Sym::new(OWN),
        }
    }

    fn passes(&mut self, def: &'a PipelineDef, known: &RuleNames) -> Vec<Pass> {
        let mut passes: Vec<(Pass, Span)> = Vec::new();
        let mut now = Level::Functions;
        for step in &def.steps {
            let Some(pass) = self.pass(step, known) else { continue };
            let verb = step.verb.name.name();
            let level = pass.level(now);
            let once = matches!(pass, Pass::LoadTime | Pass::Fuse | Pass::Library | Pass::Regimes(_));
            if let Some((last, at)) = passes.last().filter(|_| level < now) {
                let (last, why) = (last.verb(), too_late(level, now));
                let text = format!("`{verb}` cannot stand behind `{last}`: {why}");
                let d = Diagnostic::error("E0510", step.verb.span, text).label(*at, "this is behind it");
                self.report(d.help(
                    "a pipeline takes functions apart, then works on terms (`saturate`, `merge`, \
                    `load_time`), then on what computes them (`fuse`, `library`, `regimes`)",
                ));
                continue;
            }
            if let Some((_, first)) = passes.iter().find(|(p, _)| once && p.verb() == pass.verb()) {
                let text = format!("`{verb}` stands in a pipeline once: it leaves nothing for a second time");
                let d = Diagnostic::error("E0510", step.verb.span, text).label(*first, "first here");
                self.report(d.help("leave one of them out"));
                continue;
            }
            now = level;
            passes.push((pass, step.verb.span));
        }
        passes.into_iter().map(|p| p.0).collect()
    }

    fn pass(&mut self, step: &Directive, known: &RuleNames) -> Option<Pass> {
        let verb = step.verb.name.name();
        let Some((_, follows)) = VERBS.iter().find(|v| v.0 == verb) else {
            let d = Diagnostic::error("E0510", step.verb.span, format!("pipelines have no verb `{verb}`"));
            let verbs = VERBS.iter().map(|v| v.0);
            self.report(match nearest(verb, verbs.clone()) {
                Some(guess) => d.help(format!("did you mean `{guess}`?")),
                None => d.help(format!("the verbs are {}", verbs.collect::<Vec<_>>().join(", "))),
            });
            return None;
        };
        // Names, and at most one number, which stands by itself.
        let bare: Vec<i64> = step.args.iter().filter(|a| a.0.is_empty()).filter_map(|a| a.1).collect();
        let names: Vec<&[Ident]> =
            step.args.iter().map(|a| a.0.as_slice()).filter(|p| !p.is_empty()).collect();
        let beside = step.args.iter().any(|a| !a.0.is_empty() && a.1.is_some());
        let right = match verb {
            "saturate" => bare.len() <= 1,
            "merge" => bare.is_empty(),
            "regimes" => bare.len() <= 1 && names.is_empty(),
            "pass" => bare.is_empty() && matches!(names[..], [[_]]),
            _ => step.args.is_empty(),
        };
        if beside || !right {
            let text = format!("`{verb}` is followed by {follows}");
            let d = Diagnostic::error("E0510", step.verb.span, text);
            self.report(if beside { d.help("a number stands by itself, behind a comma") } else { d });
            return None;
        }
        let number = match bare.first().map(|&n| usize::try_from(n)) {
            None => None,
            Some(Ok(n)) if n > 0 => Some(n),
            Some(_) => {
                let text = format!("`{verb}`: a number here is at least 1");
                return self.fail(Diagnostic::error("E0510", step.verb.span, text));
            }
        };
        Some(match verb {
            "inline" => Pass::Inline,
            "outline" => Pass::Outline,
            "saturate" => Pass::Saturate { rules: self.chosen(&names, known, false)?, rounds: number },
            "merge" => Pass::Merge(self.chosen(&names, known, true)?),
            "load_time" => Pass::LoadTime,
            "fuse" => Pass::Fuse,
            "library" => Pass::Library,
            "regimes" => Pass::Regimes(number),
            _ => Pass::Own(names.first()?.first()?.name),
        })
    }

    /// The rules of some names. A pass applies rules of one value, or of several: what names none of its own does
    /// nothing.
    fn chosen(&mut self, names: &[&[Ident]], known: &RuleNames, several: bool) -> Option<Rules> {
        if names.is_empty() {
            return Some(Rules::All);
        }
        let mut found = Vec::new();
        for path in names {
            let (first, last) = (path.first()?, path.last()?);
            let span = first.span.to(last.span);
            let text = path.iter().map(|p| p.name.name()).collect::<Vec<_>>().join(".");
            let name = Sym::new(&text);
            let fits = match (known.families.get(&name), known.rules.get(&name)) {
                (Some(rules), _) => {
                    found.push(Chosen { name, rule: None });
                    // A library's pipeline speaks of the rules of programs that may have none.
                    rules.is_empty() || rules.contains(&several)
                }
                (None, Some(rules)) => {
                    found.extend(rules.iter().map(|r| Chosen { name, rule: Some(r.0) }));
                    rules.iter().any(|r| r.1 == several)
                }
                (None, None) => {
                    let d = Diagnostic::error("E0510", span, format!("no family of rules or rule `{text}`"));
                    let names = || known.families.keys().chain(known.rules.keys()).map(|s| s.name());
                    let families = || known.families.keys().map(|s| s.name()).collect::<Vec<_>>().join(", ");
                    return self.fail(match nearest(&text, names()) {
                        Some(guess) => d.help(format!("did you mean `{guess}`?")),
                        None => d.help(format!("the families are {}", families())),
                    });
                }
            };
            if !fits {
                let (what, verb) =
                    if several { ("several values", "saturate") } else { ("one value", "merge") };
                let d = Diagnostic::error("E0510", span, format!("`{text}` has no rule of {what}"));
                return self.fail(d.help(format!("`{verb}` applies it")));
            }
        }
        Some(Rules::Of(found))
    }

    /// The pipeline that an attribute of a function names; what names none has been said by
    /// [`Checker::pipeline_forms`].
    pub(crate) fn pipeline_of(&self, item: &Item) -> Option<PipelineId> {
        let attr = item.attrs.iter().find(|a| a.name.name.name() == "pipeline")?;
        let [arg] = &attr.args[..] else { return None };
        let span = self.named_pipeline(&arg.value).and_then(Result::ok)?;
        let at = self.module.pipelines.iter().position(|p| p.span == span)?;
        Some(PipelineId(at as u32))
    }

    /// The definition that an expression names: a pipeline, something else (its name and place), or nothing.
    fn named_pipeline(&self, e: &Expr) -> Option<Result<Span, Sym>> {
        let name = match &e.kind {
            ExprKind::Name(name) => *name,
            _ => self.defs.qualified(e, |_| false)?,
        };
        Some(match self.defs.item(name, e.span).map(|i| &i.kind) {
            Some(ItemKind::Pipeline(d)) => Ok(d.name.span),
            _ => Err(name),
        })
    }

    /// What is wrong with the `#[pipeline(..)]` of a definition.
    pub(crate) fn pipeline_forms(&mut self, item: &'a Item) {
        let ItemKind::Fn(def) = &item.kind else { return };
        let mut seen = None;
        for a in item.attrs.iter().filter(|a| a.name.name.name() == "pipeline") {
            let at = a.name.span;
            if let Some(first) = seen.replace(at) {
                let d = Diagnostic::error("E0510", at, "a function has one pipeline");
                self.report(d.label(first, "first here").help("leave one of them out"));
                continue;
            }
            if is_template(&self.types, def) {
                let text =
                    format!("`{}` is taken apart where it is called, and has no plan", def.sig.name.name);
                let d = Diagnostic::error("E0510", at, text);
                self.report(d.help("say the pipeline of the function that calls it"));
            }
            if item.attrs.iter().any(|a| a.name.name.name() == "plan") {
                let text = format!("`{}` is a plan, which every pipeline leaves as it is", def.sig.name.name);
                self.report(Diagnostic::error("E0510", at, text).help("leave one of the two out"));
            }
            let named = match &a.args[..] {
                [arg] if arg.name.is_none() => self.named_pipeline(&arg.value),
                _ => None,
            };
            match named {
                Some(Ok(_)) => {}
                Some(Err(name)) if self.defs.is_missing(name, at) => {}
                Some(Err(name)) => {
                    let text = format!("there is no pipeline `{name}`");
                    let d = Diagnostic::error("E0510", a.args[0].value.span, text);
                    let known = self.module.pipelines.iter().map(|p| p.name.name());
                    let known: Vec<&str> = known.collect::<BTreeSet<_>>().into_iter().collect();
                    self.report(match nearest(name.name(), known.iter().copied()) {
                        Some(guess) => d.help(format!("did you mean `{guess}`?")),
                        None => d.help(format!("there are {}", known.join(", "))),
                    });
                }
                None => {
                    let d = Diagnostic::error("E0510", at, "`#[pipeline(..)]` takes the name of a pipeline");
                    self.report(d.help("`#[pipeline(usual)]`, or one defined by `pipeline NAME { .. }`"));
                }
            }
        }
    }
}

/// Why a pass of a level finds nothing to work on once there is something of a later one.
fn too_late(pass: Level, now: Level) -> &'static str {
    match (pass, now) {
        (_, Level::Plans) => "a plan is made already, and what it is made of is gone",
        (Level::Functions, _) => "calls are taken apart in functions, and these are a graph of terms by now",
        _ => "what computes each term is known already, and a term that came now would have nothing",
    }
}
