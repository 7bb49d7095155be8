//! Name resolution: what the names of definitions mean, file by file.
//!
//! A file is a module and has a scope: its own definitions, then what its `use`s bring; below every scope
//! lies the library. A definition's body is read where it was written, so the file of a name's span says
//! which scope it is looked up in, and no state is kept while checking. The files of a session share one
//! scope, and so do those of the library.
//!
//! A name with a dot, `b.f`, is the definition `f` of the module that is `b` here ([`Defs::qualified`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ir::ast::{
    Expr, ExprKind, ExternDef, File, FnDef, Ident, IndexArg, Item, ItemKind, Mode, Param, PrimDef, Signature,
    TypeKind,
};
use ir::diag::{Diagnostic, nearest};
use ir::source::{SourceId, Span};
use shape::Sym;
use tensor::DType;

use crate::{Checker, Files, Link};

/// A definition that can be called.
#[derive(Clone, Copy)]
pub(crate) enum Def<'a> {
    Fn(&'a FnDef, &'a Item),
    Prim(&'a PrimDef),
    Extern(&'a ExternDef),
}

impl<'a> Def<'a> {
    pub(crate) fn sig(self) -> &'a Signature {
        match self {
            Def::Fn(d, _) => &d.sig,
            Def::Prim(d) => &d.sig,
            Def::Extern(d) => &d.sig,
        }
    }

    /// The definition of an item, if it can be called.
    pub(crate) fn from_item(item: &'a Item) -> Option<Def<'a>> {
        match &item.kind {
            ItemKind::Fn(d) => Some(Def::Fn(d, item)),
            ItemKind::Prim(d) => Some(Def::Prim(d)),
            ItemKind::Extern(d) => Some(Def::Extern(d)),
            _ => None,
        }
    }
}

/// What a `use` makes of a name.
#[derive(Clone, Copy)]
enum Used<'a> {
    /// A definition of another file.
    Item(&'a Item),
    /// Another file: its scope.
    Module(usize),
    /// Nothing was found, which has been said.
    Missing,
}

/// The names of a file, or of files that share them.
#[derive(Default)]
struct Scope<'a> {
    /// What a module is called where it was first used.
    name: Option<Sym>,
    items: BTreeMap<Sym, &'a Item>,
    /// What `use` brings, with the place that brings it.
    used: BTreeMap<Sym, (Used<'a>, Span)>,
    /// What a `use` should have brought and could not, as the name is another's; it was said.
    refused: BTreeSet<Sym>,
}

/// The scope of the library.
const LIBRARY: usize = 0;
/// The scope of the program's own files.
const OWN: usize = 1;

/// Every definition by file and name.
pub(crate) struct Defs<'a> {
    scopes: Vec<Scope<'a>>,
    /// The scope of each file of the library and of each module; every other text is the program's own.
    files: HashMap<SourceId, usize>,
    /// The definitions of one name that differ in how many parameters they have, or of which ranks: by the
    /// place of the first, which stands for all in its scope.
    forms: HashMap<Span, Vec<Def<'a>>>,
    /// Those of two operands that take an array of any number: `#[variadic]`, by the place of their names.
    variadic: HashSet<Span>,
    /// What the rules of files of the library are called together.
    families: HashMap<SourceId, Sym>,
}

impl Default for Defs<'_> {
    fn default() -> Self {
        let scopes = vec![Scope::default(), Scope::default()];
        Defs {
            scopes,
            files: HashMap::new(),
            forms: HashMap::new(),
            variadic: HashSet::new(),
            families: HashMap::new(),
        }
    }
}

/// How many parameters are tensors, and the axes of each: at least so many, and whether there may be more.
fn form(sig: &Signature) -> Vec<(usize, bool)> {
    let axes = |p: &Param| match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { dims, .. }) => {
            let dims = dims.as_deref().unwrap_or(&[]);
            let packs =
                dims.iter().filter(|d| matches!(d, IndexArg::Spread(_) | IndexArg::Broadcast(_))).count();
            (dims.len() - packs, packs > 0)
        }
        // Of any rank: a tuple or a function is not told apart here.
        _ => (0, true),
    };
    sig.params.iter().filter(|p| p.mode != Mode::Const).map(axes).collect()
}

/// An argument, as far as it decides between forms.
pub(crate) struct Shown {
    /// `name=`
    pub(crate) name: Option<Sym>,
    /// The axes, where it is known to be a tensor or number.
    pub(crate) rank: Option<usize>,
}

/// True if a definition can take such arguments.
fn takes(sig: &Signature, args: &[Shown]) -> bool {
    let mut taken = vec![false; sig.params.len()];
    let mut next = 0;
    for a in args {
        let at = match a.name {
            Some(name) => sig.params.iter().position(|p| p.name.name == name),
            None => {
                next += 1;
                Some(next - 1).filter(|&at| at < sig.params.len())
            }
        };
        let Some(at) = at.filter(|&at| !taken[at]) else { return false };
        taken[at] = true;
        let p = &sig.params[at];
        if let Some(rank) = a.rank {
            if p.mode == Mode::Const {
                return false;
            }
            let plain = sig.params[..at].iter().filter(|p| p.mode != Mode::Const).count();
            let (least, more) = form(sig)[plain];
            if rank < least || (rank > least && !more) {
                return false;
            }
        }
    }
    sig.params.iter().zip(taken).all(|(p, taken)| taken || p.default.is_some())
}

impl<'a> Defs<'a> {
    fn scope(&self, at: Span) -> usize {
        self.files.get(&at.file).copied().unwrap_or(OWN)
    }

    /// True for `#[variadic]`: a call with an array of operands is calls of two, from the left.
    pub(crate) fn is_variadic(&self, def: Def<'a>) -> bool {
        self.variadic.contains(&def.sig().name.span)
    }

    /// What a name, perhaps qualified, means where it stands.
    fn lookup(&self, name: Sym, at: Span) -> Option<Used<'a>> {
        let scope = self.scope(at);
        if let Some((module, inner)) = name.name().rsplit_once('.') {
            return match self.lookup(Sym::new(module), at)? {
                Used::Module(m) => self.scopes[m].items.get(&Sym::new(inner)).map(|i| Used::Item(i)),
                Used::Missing => Some(Used::Missing),
                Used::Item(_) => None,
            };
        }
        let here = &self.scopes[scope];
        let item = here.items.get(&name).map(|i| Used::Item(i));
        let used = || here.used.get(&name).map(|u| u.0);
        let library = || self.scopes[LIBRARY].items.get(&name).map(|i| Used::Item(i));
        // What a program hides of the library goes by the library's name.
        let whole = || (name.name() == "std").then_some(Used::Module(LIBRARY));
        item.or_else(used).or_else(library).or_else(whole)
    }

    /// The definition of a name, whatever its kind.
    pub(crate) fn item(&self, name: Sym, at: Span) -> Option<&'a Item> {
        match self.lookup(name, at)? {
            Used::Item(item) => Some(item),
            Used::Module(_) | Used::Missing => None,
        }
    }

    /// The definition of a name that can be called.
    pub(crate) fn get(&self, name: Sym, at: Span) -> Option<Def<'a>> {
        self.item(name, at).and_then(Def::from_item)
    }

    /// The library's definition, even where the program has one of that name: operators and
    /// broadcasts mean what the library says.
    pub(crate) fn operator(&self, name: Sym) -> Option<Def<'a>> {
        self.scopes[LIBRARY].items.get(&name).and_then(|i| Def::from_item(i))
    }

    /// Every form of a definition.
    pub(crate) fn forms(&self, def: Def<'a>) -> Vec<Def<'a>> {
        self.forms.get(&def.sig().name.span).cloned().unwrap_or_else(|| vec![def])
    }

    /// The first form that can take such arguments; where none does, the first of all, which says why.
    pub(crate) fn fitting(&self, def: Def<'a>, args: &[Shown]) -> Def<'a> {
        self.forms(def).into_iter().find(|d| takes(d.sig(), args)).unwrap_or(def)
    }

    /// True for a place in the library.
    pub(crate) fn in_library(&self, at: Span) -> bool {
        self.scope(at) == LIBRARY
    }

    /// What the library calls the rules of a file together.
    pub(crate) fn family(&self, at: Span) -> Option<Sym> {
        self.families.get(&at.file).copied()
    }

    /// True for the name of a family of rules.
    pub(crate) fn is_family(&self, name: Sym) -> bool {
        name.name() == ir::pipeline::OWN || self.families.values().any(|f| *f == name)
    }

    /// What the program's own files call a definition: by its name where that means it there, by the name that a `use`
    /// gives it, or else behind its module's name.
    pub(crate) fn outer_name(&self, item: &Item, name: Ident) -> Sym {
        let means = |n: Sym| {
            let own = &self.scopes[OWN];
            let used = own.used.get(&n).map(|u| u.0);
            let is = |i: &Item| i.span == item.span;
            match (own.items.get(&n), used) {
                (Some(i), _) => is(i),
                (None, Some(Used::Item(i))) => is(i),
                (None, Some(Used::Module(_) | Used::Missing)) => false,
                (None, None) => self.in_library(name.span),
            }
        };
        let scope = self.scope(name.span);
        let module = if scope == LIBRARY { Some(Sym::new("std")) } else { self.scopes[scope].name };
        match module {
            Some(module) if !means(name.name) => Sym::new(&format!("{module}.{}", name.name)),
            _ => name.name,
        }
    }

    /// True for a definition of the library, as opposed to one of the program under the same name.
    pub(crate) fn is_library(&self, def: Def<'a>) -> bool {
        self.in_library(def.sig().name.span)
    }

    /// The name that a type or constant of a module has in the whole program.
    pub(crate) fn own_name(&self, name: Sym, at: Span) -> Option<Sym> {
        let ident = name_of(self.item(name, at)?)?;
        let kind = &self.item(name, at)?.kind;
        if !matches!(kind, ItemKind::Record(_) | ItemKind::Encoding(_) | ItemKind::Const(..)) {
            return None;
        }
        let module = self.scopes[self.scope(ident.span)].name?;
        Some(Sym::new(&format!("{module}.{}", ident.name)))
    }

    /// True if the name is a module where it stands.
    pub(crate) fn is_module(&self, name: Sym, at: Span) -> bool {
        matches!(self.lookup(name, at), Some(Used::Module(_) | Used::Missing))
    }

    /// True if a `use` should have brought the name and found nothing, which has been said.
    pub(crate) fn is_missing(&self, name: Sym, at: Span) -> bool {
        matches!(self.lookup(name, at), Some(Used::Missing))
    }

    /// True if a `use` should have brought the name, which is another's there.
    pub(crate) fn is_refused(&self, name: Sym, at: Span) -> bool {
        self.scopes[self.scope(at)].refused.contains(&name)
    }

    /// `b.f` as one name, where `b` is a module and not hidden by a local name.
    pub(crate) fn qualified(&self, e: &Expr, local: impl Fn(Sym) -> bool) -> Option<Sym> {
        let ExprKind::Field(base, field) = &e.kind else { return None };
        let ExprKind::Name(module) = base.kind else { return None };
        (!local(module) && self.is_module(module, base.span))
            .then(|| Sym::new(&format!("{module}.{}", field.name)))
    }

    /// The module that a misspelt name is near.
    pub(crate) fn near_module(&self, name: Sym, at: Span) -> Option<&str> {
        let used = &self.scopes[self.scope(at)].used;
        let modules = used.iter().filter(|(_, u)| matches!(u.0, Used::Module(_))).map(|(n, _)| n.name());
        nearest(name.name(), modules.chain(["std"]))
    }

    /// What to say of a name that means nothing where it stands; `near` are the names of the place itself.
    pub(crate) fn unknown<'b>(
        &'b self,
        name: Sym,
        at: Span,
        near: impl Iterator<Item = &'b str>,
    ) -> Diagnostic {
        if let Some((module, inner)) = name.name().rsplit_once('.')
            && let Some(Used::Module(m)) = self.lookup(Sym::new(module), at)
        {
            let scope = &self.scopes[m];
            let d = Diagnostic::error("E0201", at, format!("module `{module}` does not define `{inner}`"));
            if scope.used.contains_key(&Sym::new(inner)) {
                return d.help(format!("it uses `{inner}` of another module; say `use` of that one here"));
            }
            return match nearest(inner, scope.items.keys().map(|s| s.name())) {
                Some(guess) => d.help(format!("did you mean `{module}.{guess}`?")),
                None => d,
            };
        }
        if self.is_module(name, at) {
            let d = Diagnostic::error("E0307", at, format!("`{name}` is a module, not a value"));
            return d.help(format!("name a definition of it: `{name}.f(..)`"));
        }
        let here = &self.scopes[self.scope(at)];
        let mut names: Vec<&str> = here.items.keys().chain(here.used.keys()).map(|s| s.name()).collect();
        names.extend(self.scopes[LIBRARY].items.keys().map(|s| s.name()));
        names.sort_unstable();
        let d = Diagnostic::error("E0201", at, format!("unknown name `{name}`"));
        if let Some(guess) = nearest(name.name(), near.chain(names)) {
            return d.help(format!("did you mean `{guess}`?"));
        }
        let defines =
            |u: &Used<'a>| matches!(u, Used::Module(m) if self.scopes[*m].items.contains_key(&name));
        match here.used.iter().find(|(_, (u, _))| defines(u)) {
            Some((module, _)) => d.help(format!("module `{module}` defines it: `{module}.{name}`")),
            None => d,
        }
    }
}

/// The name that an item defines in its file, where it is one that expressions and types can say.
pub(crate) fn name_of(item: &Item) -> Option<Ident> {
    let name = written_name(item)?;
    // Types and constants of modules have been given their module's name before their own.
    let plain = name.name.name().rsplit_once('.').map_or(name.name, |(_, own)| Sym::new(own));
    Some(Ident { name: plain, ..name })
}

fn written_name(item: &Item) -> Option<Ident> {
    match &item.kind {
        ItemKind::Fn(d) => Some(d.sig.name),
        ItemKind::Prim(d) => Some(d.sig.name),
        ItemKind::Extern(d) => Some(d.sig.name),
        ItemKind::Const(name, ..) => Some(*name),
        ItemKind::Encoding(d) => Some(d.name),
        ItemKind::Record(d) => Some(d.name),
        ItemKind::Pipeline(d) => Some(d.name),
        ItemKind::Use(_)
        | ItemKind::Rule(_)
        | ItemKind::Schedule(_)
        | ItemKind::Config(_)
        | ItemKind::Test(_) => None,
    }
}

impl<'a> Checker<'a> {
    /// Enters the definitions of every file, then what their `use`s bring.
    pub(crate) fn declare(&mut self, library: &'a [File], files: &'a Files) {
        for file in library {
            self.defs.files.insert(file.source, LIBRARY);
            self.defs.families.extend(file.family.map(|f| (file.source, f)));
            self.declare_file(file, LIBRARY);
        }
        for file in &files.own {
            self.declare_file(file, OWN);
        }
        for (i, file) in files.modules.iter().enumerate() {
            self.defs.scopes.push(Scope::default());
            self.defs.files.insert(file.source, OWN + 1 + i);
            self.declare_file(file, OWN + 1 + i);
        }
        for file in files.own.iter().chain(&files.modules) {
            self.bring(file, files);
        }
    }

    fn declare_file(&mut self, file: &'a File, scope: usize) {
        self.types.declare(file);
        self.consts.declare(file);
        for name in &file.unread {
            self.defs.scopes[scope].used.insert(name.name, (Used::Missing, name.span));
        }
        for item in &file.items {
            let Some(name) = name_of(item) else { continue };
            if name.name.name().parse::<DType>().is_ok() {
                let text = format!("`{}` is the name of an element type", name.name);
                let d = Diagnostic::error("E0202", name.span, text).here("a call would convert to that type");
                self.report(d.help("name it otherwise"));
                continue;
            }
            if item.attrs.iter().any(|a| a.name.name.name() == "variadic") {
                self.defs.variadic.insert(name.span);
            }
            let Some(first) = self.defs.scopes[scope].items.get(&name.name).copied() else {
                self.defs.scopes[scope].items.insert(name.name, item);
                continue;
            };
            if let (Some(def), Some(first)) = (Def::from_item(item), Def::from_item(first)) {
                let forms = self.defs.forms.entry(first.sig().name.span).or_insert_with(|| vec![first]);
                if forms.iter().all(|d| form(d.sig()) != form(def.sig())) {
                    forms.push(def);
                    continue;
                }
            }
            let d = Diagnostic::error("E0202", name.span, format!("`{}` is defined twice", name.name));
            let d = match name_of(first) {
                Some(first) => d.label(first.span, "first here"),
                None => d,
            };
            self.report(d.help(
                "rename one of them; two of one name must differ in the number or the ranks of their parameters",
            ));
        }
    }

    /// The names that the `use`s of a file bring.
    fn bring(&mut self, file: &'a File, files: &'a Files) {
        let here = self.defs.files.get(&file.source).copied().unwrap_or(OWN);
        for item in &file.items {
            let ItemKind::Use(path) = &item.kind else { continue };
            let Some(&last) = path.last() else { continue };
            let used = self.used(files.links.get(&last.span), last);
            let scope = &mut self.defs.scopes[here];
            let twice = match (scope.items.get(&last.name), scope.used.get(&last.name)) {
                (Some(own), _) => name_of(own).map(|n| (n.span, "defined here")),
                (None, Some((first, at))) if !first.same(used) => Some((*at, "first brought here")),
                (None, _) => None,
            };
            match twice {
                Some((first, what)) => {
                    let text = format!("`{}` is brought by a `use`, and is another name already", last.name);
                    let d = Diagnostic::error("E0202", last.span, text).label(first, what);
                    scope.refused.insert(last.name);
                    self.report(d.help("bring one of them under its module's name: `use` the module itself"));
                }
                None => {
                    scope.used.insert(last.name, (used, last.span));
                }
            }
        }
    }

    fn used(&mut self, link: Option<&Link>, last: Ident) -> Used<'a> {
        // Whoever looked for the file has said that there is none.
        let Some(link) = link else { return Used::Missing };
        let scope = self.defs.files.get(&link.file).copied().unwrap_or(OWN);
        if scope != OWN && self.defs.scopes[scope].name.is_none() {
            // Two modules of one name, in different folders, are told apart.
            let taken = self.defs.scopes.iter().any(|s| s.name == Some(link.name));
            let own = if taken { Sym::new(&format!("{}_{scope}", link.name)) } else { link.name };
            self.defs.scopes[scope].name = Some(own);
        }
        if link.whole {
            return Used::Module(scope);
        }
        let items = &self.defs.scopes[scope].items;
        if let Some(item) = items.get(&last.name) {
            return Used::Item(item);
        }
        let text = format!("the module does not define `{}`", last.name);
        let d = Diagnostic::error("E0201", last.span, text);
        let d = match nearest(last.name.name(), items.keys().map(|s| s.name())) {
            Some(guess) => d.help(format!("did you mean `{guess}`?")),
            None => d,
        };
        self.report(d);
        Used::Missing
    }

    /// Tries the definitions of a file that take attributes or functions.
    pub(crate) fn tries_of(&mut self, file: &'a File) {
        for item in &file.items {
            match &item.kind {
                ItemKind::Fn(d) => self.try_fn(d, item),
                ItemKind::Prim(d) => self.try_prim(d),
                _ => {}
            }
        }
    }

    /// Checks every definition of a file, used or not, but rules and tests.
    pub(crate) fn file(&mut self, file: &'a File) {
        for item in &file.items {
            self.attributes_of_item(item);
            match &item.kind {
                ItemKind::Fn(d) => self.instantiate_sample_fn(d, item),
                ItemKind::Prim(d) => self.instantiate_sample_prim(d),
                ItemKind::Extern(d) => {
                    self.extern_instance(d);
                }
                ItemKind::Rule(_)
                | ItemKind::Test(_)
                | ItemKind::Use(_)
                | ItemKind::Config(_)
                | ItemKind::Pipeline(_) => {}
                ItemKind::Const(name, ..) => self.check_const(*name),
                ItemKind::Encoding(d) => self.check_encoding(d),
                ItemKind::Record(d) => self.check_record(d),
                ItemKind::Schedule(d) => self.schedule(d),
            }
        }
    }

    /// Those rules of a file that are meant: they come after all that they speak of.
    pub(crate) fn rules(&mut self, file: &'a File, meant: fn(&Item) -> bool) {
        let mut seen: BTreeMap<Sym, Span> = BTreeMap::new();
        for item in file.items.iter().filter(|i| meant(i)) {
            let ItemKind::Rule(d) = &item.kind else { continue };
            let name = d.sig.name;
            if let Some(first) = seen.insert(name.name, name.span) {
                let d = Diagnostic::error(
                    "E0202",
                    name.span,
                    format!("the rule `{}` is defined twice", name.name),
                );
                self.report(d.label(first, "first here").help("rename one of them"));
            }
            self.rule(d, crate::tolerance::from_attributes(item));
        }
    }

    /// The tests of a file of the program's own: those of a module are its own business.
    pub(crate) fn tests(&mut self, file: &'a File) {
        for item in &file.items {
            if let ItemKind::Test(d) = &item.kind {
                self.test(d);
            }
        }
    }

    /// The name that an instance of a definition is to have in the compiled module: that of the text, after
    /// its module's. Entries are found by name, so the names of the program's own files are theirs alone.
    pub(crate) fn instance_name(&self, name: Ident) -> String {
        let scope = self.defs.scope(name.span);
        let mut out = match self.defs.scopes[scope].name {
            Some(module) => format!("{module}_{}", name.name),
            None => name.name.name().to_owned(),
        };
        while scope != OWN && self.defs.scopes[OWN].items.contains_key(&Sym::new(&out)) {
            out.push('_');
        }
        out
    }
}

impl Used<'_> {
    fn same(self, other: Used<'_>) -> bool {
        match (self, other) {
            (Used::Item(a), Used::Item(b)) => a.span == b.span,
            (Used::Module(a), Used::Module(b)) => a == b,
            (Used::Missing, _) | (_, Used::Missing) => true,
            (Used::Item(_), Used::Module(_)) | (Used::Module(_), Used::Item(_)) => false,
        }
    }
}
