//! Desugaring of configs: dims and numbers of a checkpoint that definitions name without taking them.
//!
//! Before checking, every definition that names one, or speaks of a definition that does, gets it: a dim as
//! a further generic, a number as a further parameter whose default is the caller's of that name. So
//! nothing behind here knows of configs but the binding of a call, which gives a generic marked
//! ([`is_config`]) the caller's dim of that name. What a config asserts becomes a condition of each
//! definition that has all its names. A dim that it defines by others (`head = hidden / heads`) is a dim like
//! those, with the equation as such a condition: shapes name it, and nobody is asked for it. Other definitions,
//! numbers and constants, are written out where they are named. A test says its values: `#[config(hidden = 8)]`
//! becomes statements at its start.
//!
//! A file sees the config of its own and of the modules it uses, and gives its names no second meaning. The
//! names of all configs of a program differ.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ir::Setting;
use ir::ast::*;
use ir::diag::{Diagnostic, nearest};
use ir::origin::{Origin, Term};
use ir::source::{SourceId, Span};
use shape::Sym;
use tensor::DType;

use crate::defs::{Defs, name_of};
use crate::env::Env;
use crate::visit::{self, Occurrence};
use crate::{Checker, Files};

/// The bound that marks a generic as a config's; no text can write it.
const MARK: &str = "config";

/// True for a generic that stands for a dim of a config.
pub(crate) fn is_config(g: &Generic) -> bool {
    g.bounds.iter().any(|b| b.name.name() == MARK)
}

/// A name of a config.
enum Meaning {
    Dim,
    /// A dim that those before it tell.
    Equation(Expr),
    Number(TypeExpr),
    /// Written out: only dims and numbers are named in it.
    Derived(Expr),
}

struct Name {
    ident: Ident,
    meaning: Meaning,
}

/// The configs of a program.
#[derive(Default)]
struct Configs {
    /// In the order of the text, modules first.
    names: Vec<Name>,
    index: BTreeMap<Sym, usize>,
    asserts: Vec<Expr>,
    /// The names each file sees.
    visible: BTreeMap<SourceId, BTreeSet<Sym>>,
    /// The names (dims and numbers, by index) that each definition needs, by the place of its name.
    needs: BTreeMap<Span, BTreeSet<usize>>,
}

/// What a definition says.
#[derive(Default)]
struct Mentions {
    /// The names of configs.
    names: BTreeSet<usize>,
    /// Other definitions.
    defs: BTreeSet<Span>,
    /// The names it binds itself.
    bound: Vec<Ident>,
}

/// The program with its configs written out.
pub(crate) fn desugar_configs<'f>(
    library: &'f [File],
    files: &'f Files,
) -> (Cow<'f, Files>, Vec<Setting>, Vec<Diagnostic>) {
    let has_config = |f: &File| f.items.iter().any(|i| matches!(i.kind, ItemKind::Config(_)));
    let needs_none = |f: &File| !f.items.iter().any(|i| i.attrs.iter().any(|a| a.name.name.name() == MARK));
    if !files.modules.iter().chain(&files.own).any(|f| has_config(f) || !needs_none(f)) {
        return (Cow::Borrowed(files), vec![], vec![]);
    }
    let mut said = Vec::new();
    let mut configs = Configs::default();
    for file in files.modules.iter().chain(&files.own) {
        for item in &file.items {
            if let ItemKind::Config(fields) = &item.kind {
                fields.iter().for_each(|f| configs.field(f, &mut said));
            }
        }
    }
    let settings = configs.settings(files);
    configs.see(files);
    // What names mean is asked of the definitions as written.
    let mut checker = Checker::new(library, files);
    checker.diagnostics.clear();
    let mut out = files.clone();
    configs.spread(&mut out, &checker.defs, &mut said);
    for file in out.modules.iter_mut().chain(&mut out.own) {
        for item in &mut file.items {
            configs.rewrite(item, &checker.defs, &mut said);
        }
    }
    (Cow::Owned(out), settings, said)
}

impl Configs {
    /// A line of a config.
    fn field(&mut self, field: &ConfigField, said: &mut Vec<Diagnostic>) {
        match field {
            ConfigField::Declare(names, ty, source) => {
                self.origin(source, said);
                let meaning = match &ty.kind {
                    TypeKind::Named { name, args, dims } if args.is_empty() => match (name.name.name(), dims)
                    {
                        ("dim", None) => Some(Meaning::Dim),
                        (other, dims) => other.parse::<DType>().ok().map(|_| {
                            // The extents of a list are dims that stand before it.
                            let extents = dims.iter().flatten().filter_map(|d| match d {
                                IndexArg::Expr(e) => Some(e),
                                _ => None,
                            });
                            extents.for_each(|e| drop(self.write_out(e, said)));
                            Meaning::Number(ty.clone())
                        }),
                    },
                    _ => None,
                };
                let Some(meaning) = meaning else {
                    let d = Diagnostic::error(
                        "E0306",
                        ty.span,
                        "a config holds dims, numbers and lists of numbers",
                    );
                    said.push(d.help("say `dim`, or a type of numbers: `f32`, `bool[layers]`"));
                    // What names it has no more to say.
                    for &ident in names {
                        let nothing = Expr { kind: ExprKind::Error, span: ty.span };
                        self.declare(ident, Meaning::Derived(nothing), said);
                    }
                    return;
                };
                for &ident in names {
                    let meaning = match &meaning {
                        Meaning::Number(t) => Meaning::Number(t.clone()),
                        _ => Meaning::Dim,
                    };
                    self.declare(ident, meaning, said);
                }
            }
            ConfigField::Define(ident, e) => {
                let before = said.len();
                let mut e = self.write_out(e, said);
                if said.len() == before && self.speaks_of_dims(&mut e) {
                    self.declare(*ident, Meaning::Equation(e), said);
                    return;
                }
                if said.len() == before && size(&mut e) > LONGEST {
                    let text = format!("written out, the definition of `{}` is too long", ident.name);
                    let d = Diagnostic::error("E0310", ident.span, text);
                    said.push(
                        d.help("declare it as a number of its own: `from` says where a checkpoint has it"),
                    );
                }
                // What has an error stands for nothing, least of all for itself.
                if said.len() != before {
                    e.kind = ExprKind::Error;
                }
                self.declare(*ident, Meaning::Derived(e), said);
            }
            ConfigField::Assert(e) => {
                let before = said.len();
                let e = self.write_out(e, said);
                if said.len() == before {
                    self.asserts.push(e);
                }
            }
        }
    }

    /// Whether what stands behind `from` and `=` is of the forms that a checkpoint gives.
    fn origin(&self, source: &Source, said: &mut Vec<Diagnostic>) {
        if let Err(d) = Origin::from_source(source) {
            said.push(*d);
            return;
        }
        let mut lambdas: BTreeSet<Sym> = BTreeSet::new();
        if let Some(Expr { kind: ExprKind::Lambda(params, _), .. }) = &source.default {
            lambdas.extend(params.iter().map(|p| p.name.name));
        }
        let mut copies: Vec<Expr> = source.default.iter().cloned().collect();
        for e in &mut copies {
            visit::expr(e, &mut |place| {
                let Occurrence::Expr(e) = place else { return };
                // The place in a list is no name of the config.
                if let ExprKind::Name(n) = e.kind
                    && lambdas.contains(&n)
                {
                    e.kind = ExprKind::Int(0);
                }
            });
            let e = match &e.kind {
                ExprKind::Lambda(_, body) => body,
                _ => &*e,
            };
            self.write_out(e, said);
        }
    }

    fn declare(&mut self, ident: Ident, meaning: Meaning, said: &mut Vec<Diagnostic>) {
        if FUNCTIONS.contains(&ident.name.name()) {
            let d = Diagnostic::error("E0202", ident.span, format!("`{}` is a function of dims", ident.name));
            said.push(d.help("name it otherwise"));
            return;
        }
        if let Some(&first) = self.index.get(&ident.name) {
            let d = Diagnostic::error(
                "E0202",
                ident.span,
                format!("the config's `{}` is defined twice", ident.name),
            );
            let d = d.label(self.names[first].ident.span, "first here");
            said.push(d.help("the configs of a program share one set of names"));
            return;
        }
        self.index.insert(ident.name, self.names.len());
        self.names.push(Name { ident, meaning });
    }

    /// An expression of a config, in dims and numbers only: what stands before it.
    fn write_out(&self, e: &Expr, said: &mut Vec<Diagnostic>) -> Expr {
        let mut out = e.clone();
        let mut callees: BTreeSet<Span> = BTreeSet::new();
        visit::expr(&mut out, &mut |place| {
            let Occurrence::Expr(e) = place else { return };
            if let ExprKind::Call(f, _) = &e.kind {
                callees.insert(f.span);
            }
            let ExprKind::Name(name) = e.kind else { return };
            if callees.contains(&e.span) {
                if !FUNCTIONS.contains(&name.name()) && !is_of_numbers(name) {
                    let text = format!("`{name}` is no function of dims (min, max, ceil_div are) or numbers");
                    let d = Diagnostic::error("E0307", e.span, text);
                    said.push(d.help("numbers have those that a primitive has: `sqrt(f32(head))`"));
                }
                return;
            }
            match self.index.get(&name).map(|i| &self.names[*i].meaning) {
                Some(Meaning::Derived(d)) => *e = parens(d, e.span),
                Some(Meaning::Dim | Meaning::Equation(_) | Meaning::Number(_)) => {}
                None => {
                    let text = format!("the config has no `{name}` before this line");
                    let d = Diagnostic::error("E0201", e.span, text);
                    said.push(match nearest(name.name(), self.index.keys().map(|s| s.name())) {
                        Some(guess) => d.help(format!("did you mean `{guess}`?")),
                        None => d,
                    });
                }
            }
        });
        out
    }

    /// True for what only dims tell.
    fn speaks_of_dims(&self, e: &mut Expr) -> bool {
        let mut named = false;
        let mut others = false;
        visit::expr(e, &mut |place| {
            let Occurrence::Expr(e) = place else { return };
            match e.kind {
                ExprKind::Name(n) => match self.index.get(&n) {
                    Some(&i) if self.is_dim(i) => named = true,
                    Some(_) => others = true,
                    None => others |= !FUNCTIONS.contains(&n.name()),
                },
                ExprKind::Float(..) => others = true,
                _ => {}
            }
        });
        named && !others
    }

    /// What is asked of whoever runs the program, and what that tells.
    fn settings(&self, files: &Files) -> Vec<Setting> {
        let mut from: BTreeMap<Sym, String> = BTreeMap::new();
        for item in files.modules.iter().chain(&files.own).flat_map(|f| &f.items) {
            let ItemKind::Config(fields) = &item.kind else { continue };
            for field in fields {
                if let ConfigField::Declare(names, ty, source) = field
                    && let Ok(mut origin) = Origin::from_source(source)
                    && origin != Origin::default()
                {
                    // The default of a list is one for each of its places.
                    if let (Some(d), TypeKind::Named { dims: Some(dims), .. }) = (&origin.default, &ty.kind)
                        && let [IndexArg::Expr(n)] = dims.as_slice()
                        && let Ok(n) = Term::from_expr(n)
                    {
                        origin.default = Some(Term::Call("each".to_owned(), vec![n, d.clone()]));
                    }
                    for n in names {
                        if origin.tried.is_empty() {
                            origin.tried = Origin::named(n.name.name()).tried;
                        }
                        from.insert(n.name, origin.to_string());
                    }
                }
            }
        }
        let mut dims = Env::default();
        let setting = |n: &Name| {
            let name = n.ident.name;
            let is = match &n.meaning {
                // What is no dim expression is said where it is a condition.
                Meaning::Equation(e) => Some(dims.dim(e).ok()?),
                _ => None,
            };
            let dtype = match &n.meaning {
                Meaning::Dim | Meaning::Equation(_) => {
                    dims.dims.insert(name, shape::Expr::sym(name));
                    None
                }
                Meaning::Number(TypeExpr { kind: TypeKind::Named { name, .. }, .. }) => {
                    name.name.name().parse().ok()
                }
                Meaning::Number(_) | Meaning::Derived(_) => return None,
            };
            Some(Setting { name, dtype, from: from.get(&name).cloned(), is })
        };
        self.names.iter().filter_map(setting).collect()
    }

    /// Which names each file sees: its own, and those of the modules it uses.
    fn see(&mut self, files: &Files) {
        let mut defined: BTreeMap<SourceId, BTreeSet<Sym>> = BTreeMap::new();
        for n in &self.names {
            defined.entry(n.ident.span.file).or_default().insert(n.ident.name);
        }
        let own: BTreeSet<Sym> =
            files.own.iter().filter_map(|f| defined.get(&f.source)).flatten().copied().collect();
        let mut sees = |file: &File, mut names: BTreeSet<Sym>| {
            for item in &file.items {
                let ItemKind::Use(path) = &item.kind else { continue };
                let link = path.last().and_then(|n| files.links.get(&n.span));
                names.extend(link.and_then(|l| defined.get(&l.file)).into_iter().flatten());
            }
            self.visible.entry(file.source).or_default().extend(names);
        };
        files.modules.iter().for_each(|f| sees(f, defined.get(&f.source).cloned().unwrap_or_default()));
        files.own.iter().for_each(|f| sees(f, own.clone()));
    }

    fn sees(&self, file: SourceId, name: Sym) -> Option<usize> {
        self.visible.get(&file).filter(|v| v.contains(&name)).and_then(|_| self.index.get(&name).copied())
    }

    /// What each definition needs: what it names, and what those need that it speaks of.
    fn spread(&mut self, files: &mut Files, defs: &Defs<'_>, said: &mut Vec<Diagnostic>) {
        let mut all: Vec<(Span, Mentions)> = Vec::new();
        for item in files.modules.iter_mut().chain(&mut files.own).flat_map(|f| &mut f.items) {
            if matches!(
                item.kind,
                ItemKind::Use(_) | ItemKind::Config(_) | ItemKind::Schedule(_) | ItemKind::Pipeline(_)
            ) {
                continue;
            }
            let found = self.mentions_of(&mut item.kind, defs);
            all.push((definition_span(item), found));
        }
        let mut users: BTreeMap<Span, Vec<Span>> = BTreeMap::new();
        let mut work = Vec::new();
        for (at, found) in &all {
            found.defs.iter().for_each(|d| users.entry(*d).or_default().push(*at));
            if !found.names.is_empty() {
                self.needs.insert(*at, found.names.clone());
                work.push(*at);
            }
        }
        while let Some(at) = work.pop() {
            let needs = self.needs[&at].clone();
            for user in users.get(&at).into_iter().flatten() {
                let theirs = self.needs.entry(*user).or_default();
                let before = theirs.len();
                theirs.extend(&needs);
                if theirs.len() > before {
                    work.push(*user);
                }
            }
        }
        for (at, found) in &all {
            for b in &found.bound {
                let needed =
                    self.index.get(&b.name).filter(|i| self.needs.get(at).is_some_and(|n| n.contains(i)));
                let Some(&known) = needed.or(self.sees(b.span.file, b.name).as_ref()) else { continue };
                said.push(self.second_meaning(*b, known));
            }
        }
        // What a file defines or uses has no name that a config gives to a definition of it.
        let mut taken: BTreeMap<SourceId, BTreeSet<usize>> = BTreeMap::new();
        for (at, needs) in &self.needs {
            taken.entry(at.file).or_default().extend(needs);
        }
        for item in files.modules.iter().chain(&files.own).flat_map(|f| &f.items) {
            let brought = || match &item.kind {
                ItemKind::Use(path) => path.last().copied(),
                _ => None,
            };
            let Some(name) = name_of(item).or_else(brought) else { continue };
            let in_file = |i: &&usize| taken.get(&name.span.file).is_some_and(|t| t.contains(i));
            let needed = self.index.get(&name.name).filter(in_file);
            if let Some(&known) = needed.or(self.sees(name.span.file, name.name).as_ref()) {
                said.push(self.second_meaning(name, known));
            }
        }
    }

    /// What is wrong with a name that a config has given a meaning.
    fn second_meaning(&self, name: Ident, known: usize) -> Diagnostic {
        let text = format!("`{}` is a name of the config, and is given another meaning", name.name);
        let d = Diagnostic::error("E0202", name.span, text);
        d.label(self.names[known].ident.span, "the config's").help("rename this one")
    }

    fn mentions_of(&self, kind: &mut ItemKind, defs: &Defs<'_>) -> Mentions {
        let mut found = Mentions::default();
        let mut names: Vec<(Sym, Span)> = Vec::new();
        let mut bound = Vec::new();
        visit::item(kind, &mut |place| match place {
            Occurrence::Expr(e) => match &e.kind {
                ExprKind::Name(name) => names.push((*name, e.span)),
                _ => names.extend(defs.qualified(e, |_| false).map(|n| (n, e.span))),
            },
            Occurrence::Type(t) => {
                if let TypeKind::Named { name, .. } = &t.kind {
                    names.push((name.name, name.span));
                }
            }
            Occurrence::Bound(name) | Occurrence::Loop(name) => bound.push(name),
        });
        let own: BTreeSet<Sym> = bound.iter().map(|b| b.name).collect();
        for (name, at) in names.into_iter().filter(|n| !own.contains(&n.0)) {
            match self.sees(at.file, name) {
                Some(i) => self.base(i, &mut found.names),
                None => found.defs.extend(defs.item(name, at).map(definition_span)),
            }
        }
        found.bound = bound;
        found
    }

    /// The dims and numbers behind a name.
    fn base(&self, i: usize, out: &mut BTreeSet<usize>) {
        match &self.names[i].meaning {
            Meaning::Dim => {
                out.insert(i);
            }
            Meaning::Number(ty) => {
                out.insert(i);
                // The extents of a list.
                if let TypeKind::Named { dims: Some(dims), .. } = &ty.kind {
                    for d in dims {
                        if let IndexArg::Expr(e) = d {
                            self.named_in(e).into_iter().for_each(|i| self.base(i, out));
                        }
                    }
                }
            }
            Meaning::Equation(e) => {
                out.insert(i);
                self.named_in(e).into_iter().for_each(|i| self.base(i, out));
            }
            Meaning::Derived(e) => self.named_in(e).into_iter().for_each(|i| self.base(i, out)),
        }
    }

    /// The dims and numbers that an expression of a config names.
    fn named_in(&self, e: &Expr) -> BTreeSet<usize> {
        let mut out = BTreeSet::new();
        visit::expr(&mut e.clone(), &mut |place| {
            if let Occurrence::Expr(Expr { kind: ExprKind::Name(n), .. }) = place {
                out.extend(self.index.get(n));
            }
        });
        out
    }

    /// What a config asserts of nothing but these names, and what it defines some of them by.
    fn asserted(&self, needs: &BTreeSet<usize>) -> Vec<Expr> {
        let about = |e: &&Expr| self.named_in(e).is_subset(needs);
        let mut out: Vec<Expr> = self.asserts.iter().filter(about).cloned().collect();
        for &i in needs {
            let Meaning::Equation(e) = &self.names[i].meaning else { continue };
            let Ident { name, span } = self.names[i].ident;
            let name = Box::new(Expr { kind: ExprKind::Name(name), span });
            out.push(Expr { kind: ExprKind::Binary(BinaryOp::Eq, name, Box::new(parens(e, e.span))), span });
        }
        out
    }

    fn is_dim(&self, i: usize) -> bool {
        matches!(self.names[i].meaning, Meaning::Dim | Meaning::Equation(_))
    }

    /// True for what a test says, a checkpoint has, and so on.
    fn is_asked(&self, i: usize) -> bool {
        matches!(self.names[i].meaning, Meaning::Dim | Meaning::Number(_))
    }

    /// Gives a definition what it needs.
    fn rewrite(&self, item: &mut Item, defs: &Defs<'_>, said: &mut Vec<Diagnostic>) {
        if matches!(item.kind, ItemKind::Config(_)) {
            return;
        }
        let needs = self.needs.get(&definition_span(item)).cloned().unwrap_or_default();
        if let ItemKind::Test(def) = &mut item.kind {
            self.settle(def, &item.attrs, &needs, said);
        } else if let Some(a) = item.attrs.iter().find(|a| a.name.name.name() == MARK) {
            let d = Diagnostic::error(
                "E0203",
                a.name.span,
                "a test says the values of a config, no other definition does",
            );
            said.push(d.help("definitions take what they name from their callers"));
        }
        visit::item(&mut item.kind, &mut |place| match place {
            Occurrence::Expr(e) => {
                let ExprKind::Name(name) = e.kind else { return };
                if let Some(i) = self.sees(e.span.file, name)
                    && let Meaning::Derived(d) = &self.names[i].meaning
                {
                    *e = parens(d, e.span);
                }
            }
            Occurrence::Type(t) => self.write_record(t, defs),
            Occurrence::Bound(_) | Occurrence::Loop(_) => {}
        });
        let dims = needs.iter().filter(|i| self.is_dim(**i)).map(|&i| self.names[i].ident);
        let generic = |name: Ident| Generic {
            kind: GenericKind::Dim,
            name,
            bounds: vec![Ident { name: Sym::new(MARK), span: name.span }],
        };
        let sig = match &mut item.kind {
            ItemKind::Fn(d) => &mut d.sig,
            ItemKind::Prim(d) => &mut d.sig,
            ItemKind::Extern(d) => &mut d.sig,
            ItemKind::Rule(d) => &mut d.sig,
            ItemKind::Record(d) => {
                // A record has them as generics, which every type that names it gives, and its maker too.
                d.generics.splice(0..0, dims.map(generic));
                return;
            }
            _ => return,
        };
        sig.generics.extend(dims.map(generic));
        for &i in &needs {
            let Meaning::Number(ty) = &self.names[i].meaning else { continue };
            let name = self.names[i].ident;
            let default = Some(Expr { kind: ExprKind::Name(name.name), span: name.span });
            sig.params.push(Param {
                mode: Mode::Plain,
                name,
                ty: Some(ty.clone()),
                default,
                span: name.span,
            });
        }
        sig.wheres.extend(self.asserted(&needs));
    }

    /// `Layer` becomes `Layer<hidden>` where the record names the config's `hidden`.
    fn write_record(&self, t: &mut TypeExpr, defs: &Defs<'_>) {
        let span = t.span;
        let TypeKind::Named { name, args, .. } = &mut t.kind else { return };
        let Some(record) = defs.item(name.name, name.span) else { return };
        if !matches!(record.kind, ItemKind::Record(_)) {
            return;
        }
        let needs = self.needs.get(&definition_span(record)).into_iter().flatten();
        let dims =
            needs.filter(|i| self.is_dim(**i)).map(|&i| Ident { name: self.names[i].ident.name, span });
        // A dim, whatever type has its name: these are looked at as well, and would be given theirs.
        let arg = |name: Ident| {
            let e = Expr { kind: ExprKind::Name(name.name), span };
            TypeExpr { kind: TypeKind::Dim(Box::new(e)), span }
        };
        args.splice(0..0, dims.map(arg).collect::<Vec<_>>());
    }

    /// A test begins by saying its values.
    fn settle(&self, def: &mut TestDef, attrs: &[Attr], needs: &BTreeSet<usize>, said: &mut Vec<Diagnostic>) {
        let mut given: BTreeMap<usize, &Expr> = BTreeMap::new();
        let mut attrs = attrs.iter().filter(|a| a.name.name.name() == MARK);
        for a in attrs.clone().flat_map(|a| &a.args) {
            let Some(name) = a.name else {
                said.push(
                    Diagnostic::error("E0304", a.value.span, "a value of a config is given by name")
                        .help("say `hidden = 8`"),
                );
                continue;
            };
            let known = self.index.get(&name.name).filter(|i| self.is_asked(**i));
            let Some(&i) = known else {
                let settable = (0..self.names.len()).filter(|i| self.is_asked(*i)).map(|i| &self.names[i]);
                let d = Diagnostic::error(
                    "E0305",
                    name.span,
                    format!("the config has no `{}` to be given", name.name),
                );
                said.push(match nearest(name.name.name(), settable.map(|n| n.ident.name.name())) {
                    Some(guess) => d.help(format!("did you mean `{guess}`?")),
                    None => d,
                });
                continue;
            };
            if self.is_dim(i) && !matches!(a.value.kind, ExprKind::Int(n) if n >= 0) {
                let text = format!("the config's `{}` is a dim: a number that is 0 or more", name.name);
                said.push(Diagnostic::error("E0310", a.value.span, text));
                continue;
            }
            if given.insert(i, &a.value).is_some() {
                said.push(Diagnostic::error("E0202", name.span, format!("`{}` is given twice", name.name)));
            }
        }
        let lacking: Vec<&Name> = needs
            .iter()
            .filter(|i| self.is_asked(**i) && !given.contains_key(i))
            .map(|&i| &self.names[i])
            .collect();
        if let Some(first) = lacking.first() {
            let names: Vec<String> = lacking.iter().map(|n| format!("`{}`", n.ident.name)).collect();
            let span = attrs.next_back().map_or(def.body.span, |a| a.name.span);
            let span = Span { hi: span.lo + 1, ..span };
            let d = Diagnostic::error(
                "E0203",
                span,
                format!("the test does not say the config's {}", names.join(", ")),
            );
            let d = d.label(first.ident.span, "declared here");
            said.push(d.help(format!("say it before the test: `#[config({} = ..)]`", first.ident.name)));
        }
        // What those tell follows them, and is said by the last of them.
        let said_at = given.values().map(|e| e.span).max();
        let tells = |i: &usize| match &self.names[*i].meaning {
            Meaning::Equation(e) => {
                Some((*i, Expr { kind: e.kind.clone(), span: said_at.unwrap_or(e.span) }))
            }
            _ => None,
        };
        let told: BTreeMap<usize, Expr> = needs.iter().filter_map(tells).collect();
        for (&i, e) in &told {
            if self.named_in(e).iter().all(|i| given.contains_key(i)) {
                given.insert(i, e);
            }
        }
        let known: BTreeSet<usize> = given.keys().copied().collect();
        let mut wheres = self.asserted(&known);
        for (i, e) in &given {
            // Who takes it knows that an extent is not negative.
            if let Meaning::Equation(_) = self.names[*i].meaning {
                let int = |n| Box::new(Expr { kind: ExprKind::Int(n), span: e.span });
                let value = Box::new(parens(e, e.span));
                wheres.push(Expr { kind: ExprKind::Binary(BinaryOp::Le, int(0), value), span: e.span });
            }
        }
        let last = given.keys().copied().rfind(|i| self.is_dim(*i));
        let mut stmts = Vec::new();
        for (&i, &value) in &given {
            let name = Ident { name: self.names[i].ident.name, span: value.span };
            let kind = match &self.names[i].meaning {
                Meaning::Number(ty) => StmtKind::Let(Pattern::Name(name), Some(ty.clone()), value.clone()),
                Meaning::Dim | Meaning::Equation(_) | Meaning::Derived(_) => {
                    let wheres = if Some(i) == last { std::mem::take(&mut wheres) } else { vec![] };
                    StmtKind::Dim(name, value.clone(), wheres)
                }
            };
            stmts.push(Stmt { kind, span: value.span });
        }
        def.body.stmts.splice(0..0, stmts);
    }
}

/// What tells a definition from others: its name's place, or its own where it has none.
fn definition_span(item: &Item) -> Span {
    match &item.kind {
        ItemKind::Fn(d) => d.sig.name.span,
        ItemKind::Prim(d) => d.sig.name.span,
        ItemKind::Extern(d) => d.sig.name.span,
        ItemKind::Rule(d) => d.sig.name.span,
        ItemKind::Record(d) => d.name.span,
        _ => item.span,
    }
}

/// What a definition of a config may call; so nothing in it is a name to be written out once more.
const FUNCTIONS: [&str; 3] = ["min", "max", "ceil_div"];

/// True for a scalar operation or the name of an element type: what a definition that is a number may call besides.
fn is_of_numbers(name: Sym) -> bool {
    ir::Intrinsic::named(name.name()).is_some() || name.name().parse::<DType>().is_ok()
}

/// How many expressions a definition of a config may be, written out: each may name those before it twice.
const LONGEST: usize = 256;

fn size(e: &mut Expr) -> usize {
    let mut n = 0;
    visit::expr(e, &mut |_| n += 1);
    n
}

fn parens(e: &Expr, span: Span) -> Expr {
    Expr { kind: ExprKind::Paren(Box::new(e.clone())), span }
}
