//! What the names of definitions mean.

use std::collections::{HashMap, HashSet};

use ir::ast::{
    ExternDef, File, FnDef, IndexArg, Item, ItemKind, Mode, Param, PrimDef, RuleDef, Signature, TestDef,
    TypeKind,
};
use ir::diag::{Diagnostic, nearest};
use ir::source::Span;
use shape::Sym;

use crate::Checker;

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
}

/// Every definition by name. Those of the program stand before those of the library.
#[derive(Default)]
pub(crate) struct Defs<'a> {
    by_name: HashMap<Sym, Def<'a>>,
    /// The library's, which the program may define anew.
    library: HashMap<Sym, Def<'a>>,
    /// The definitions of one name that differ in how many parameters they have, or of which ranks: by the
    /// place of the first, which stands for all in the maps above.
    forms: HashMap<Span, Vec<Def<'a>>>,
    /// Those of two operands that take an array of any number: `#[variadic]`, by the place of their names.
    variadic: HashSet<Span>,
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
    /// What was declared so far becomes the library.
    pub(crate) fn shadow(&mut self) {
        self.library = std::mem::take(&mut self.by_name);
    }

    /// True for `#[variadic]`: a call with an array of operands is calls of two, from the left.
    pub(crate) fn is_variadic(&self, def: Def<'a>) -> bool {
        self.variadic.contains(&def.sig().name.span)
    }

    pub(crate) fn get(&self, name: Sym) -> Option<Def<'a>> {
        self.by_name.get(&name).or_else(|| self.library.get(&name)).copied()
    }

    /// The library's definition, even where the program has one of that name: operators and
    /// broadcasts mean what the library says.
    pub(crate) fn operator(&self, name: Sym) -> Option<Def<'a>> {
        self.library.get(&name).or_else(|| self.by_name.get(&name)).copied()
    }

    /// Every form of a definition.
    pub(crate) fn forms(&self, def: Def<'a>) -> Vec<Def<'a>> {
        self.forms.get(&def.sig().name.span).cloned().unwrap_or_else(|| vec![def])
    }

    /// The first form that can take such arguments; where none does, the first of all, which says why.
    pub(crate) fn fitting(&self, def: Def<'a>, args: &[Shown]) -> Def<'a> {
        self.forms(def).into_iter().find(|d| takes(d.sig(), args)).unwrap_or(def)
    }

    /// True for a definition of the library, as opposed to one of the program under the same name.
    pub(crate) fn is_library(&self, def: Def<'a>) -> bool {
        let first = self.library.get(&def.sig().name.name);
        first.is_some_and(|d| self.forms(*d).iter().any(|d| std::ptr::eq(d.sig(), def.sig())))
    }

    /// A guess at what a misspelt name meant.
    pub(crate) fn guess<'b>(&'b self, name: Sym, near: impl Iterator<Item = &'b str>) -> Option<String> {
        let mut names: Vec<&str> = self.by_name.keys().chain(self.library.keys()).map(|s| s.name()).collect();
        names.sort_unstable();
        nearest(name.name(), near.chain(names)).map(str::to_owned)
    }
}

impl<'a> Checker<'a> {
    /// Enters the definitions of a file.
    pub(crate) fn declare(&mut self, file: &'a File) {
        let mut places: HashMap<Sym, Span> = HashMap::new();
        self.types.declare(file);
        self.consts.declare(file);
        for item in &file.items {
            let (name, def) = match &item.kind {
                ItemKind::Fn(d) => (d.sig.name, Some(Def::Fn(d, item))),
                ItemKind::Prim(d) => (d.sig.name, Some(Def::Prim(d))),
                ItemKind::Extern(d) => (d.sig.name, Some(Def::Extern(d))),
                ItemKind::Const(name, ..) => (*name, None),
                ItemKind::Encoding(d) => (d.name, None),
                ItemKind::Record(d) => (d.name, None),
                ItemKind::Use(_)
                | ItemKind::Rule(_)
                | ItemKind::Schedule(_)
                | ItemKind::Config(_)
                | ItemKind::Test(_) => continue,
            };
            if let (Some(def), Some(first)) = (def, self.defs.by_name.get(&name.name).copied())
                && (places.contains_key(&name.name) || self.defs.library.is_empty())
            {
                let forms = self.defs.forms.entry(first.sig().name.span).or_insert_with(|| vec![first]);
                if forms.iter().all(|d| form(d.sig()) != form(def.sig())) {
                    forms.push(def);
                    continue;
                }
            }
            if let Some(first) = places.insert(name.name, name.span) {
                self.report(
                    Diagnostic::error("E0202", name.span, format!("`{}` is defined twice", name.name))
                        .label(first, "first here")
                        .help("rename one of them; two of one name must differ in the number or the ranks of their parameters"),
                );
                continue;
            }
            if let Some(def) = def {
                self.defs.by_name.insert(name.name, def);
                if item.attrs.iter().any(|a| a.name.name.name() == "variadic") {
                    self.defs.variadic.insert(name.span);
                }
            }
        }
    }

    /// Checks every definition of a file, used or not.
    pub(crate) fn file(&mut self, file: &'a File) {
        // Rules come after what they speak of; tests last.
        let mut rules: Vec<&'a RuleDef> = Vec::new();
        let mut tests: Vec<&'a TestDef> = Vec::new();
        for item in &file.items {
            match &item.kind {
                ItemKind::Fn(d) => self.sample_fn(d, item),
                ItemKind::Prim(d) => self.sample_prim(d),
                ItemKind::Extern(d) => {
                    self.extern_instance(d);
                }
                ItemKind::Rule(d) => rules.push(d),
                ItemKind::Test(d) => tests.push(d),
                ItemKind::Const(name, ..) => self.check_const(*name),
                ItemKind::Use(path) => self.later(path.first().map_or(item.span, |i| i.span), "modules"),
                ItemKind::Encoding(d) => self.check_encoding(d),
                ItemKind::Record(d) => self.check_record(d),
                ItemKind::Config(_) => self.later(item.span, "configs"),
                ItemKind::Schedule(d) => self.later(d.prim.span, "schedules"),
            }
        }
        rules.into_iter().for_each(|d| self.rule(d));
        tests.into_iter().for_each(|d| self.test(d));
    }

    /// Says honestly that something parses and is not checked yet.
    pub(crate) fn later(&mut self, span: Span, what: &str) {
        self.report(Diagnostic::error(
            "E0702",
            span,
            format!("{what} are parsed and formatted, but not compiled yet"),
        ));
    }
}
