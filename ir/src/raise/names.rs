//! Names that can be printed: taken from the IR's, made unique, never a keyword.

use std::collections::{BTreeMap, BTreeSet};

use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::{dim_as, pred_as, term};
use crate::ast;
use crate::graph::{Type, ValId};
use crate::module::Module;

/// Words that are no names, or would be read as something else at the start of a statement or a call.
const RESERVED: [&str; 22] = [
    "assert", "by", "const", "dim", "else", "exists", "extern", "false", "fn", "for", "if", "in", "let",
    "own", "prim", "true", "use", "var", "when", "where", "while", "_",
];

/// A name the lexer takes, near the given one: `add.f32.2` becomes `add_f32_2`.
pub(super) fn printable(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.starts_with(|c: char| c.is_ascii_digit()) || out.is_empty() {
        out.insert(0, 'v');
    }
    if RESERVED.contains(&out.as_str()) || out.parse::<DType>().is_ok() {
        out.push('_');
    }
    out
}

/// The names in scope of one definition.
#[derive(Clone, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// How far each stem has been counted.
    counts: BTreeMap<String, u32>,
    dims: BTreeMap<Sym, Sym>,
    vals: BTreeMap<ValId, Sym>,
}

impl Names {
    /// A new name near the given one.
    pub(super) fn fresh(&mut self, near: &str) -> Sym {
        let mut name = printable(near);
        if !self.taken.contains(&name) {
            self.taken.insert(name.clone());
            return Sym::new(&name);
        }
        // `v_2` taken again is counted on to `v_3`, not to `v_2_2`: what is raised twice reads the same.
        if let Some((stem, digits)) = name.rsplit_once('_')
            && !stem.is_empty()
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
        {
            name.truncate(stem.len());
        }
        let next = self.counts.entry(name.clone()).or_insert(1);
        loop {
            *next += 1;
            let counted = format!("{name}_{next}");
            if self.taken.insert(counted.clone()) {
                return Sym::new(&counted);
            }
        }
    }

    /// Gives a dim a name; one that has a name keeps it.
    pub(super) fn add_dim(&mut self, sym: Sym) -> Sym {
        if let Some(&known) = self.dims.get(&sym) {
            return known;
        }
        let name = self.fresh(sym.name());
        self.dims.insert(sym, name);
        name
    }

    /// Gives a variable a name of its own, under which dims speak of it too.
    pub(super) fn add_var(&mut self, sym: Sym) -> Sym {
        let name = self.fresh(sym.name());
        self.dims.entry(sym).or_insert(name);
        name
    }

    /// Gives a value a name of its own.
    pub(super) fn add_val(&mut self, id: ValId, near: &str) -> Sym {
        let name = self.fresh(near);
        self.vals.insert(id, name);
        name
    }

    /// Lets a value go by a name that is there already: the `var` that carries it.
    pub(super) fn alias(&mut self, id: ValId, name: Sym) {
        self.vals.insert(id, name);
    }

    /// The name of a value; one that was never made shows as what it is.
    pub(super) fn val(&self, id: ValId) -> Sym {
        self.vals.get(&id).copied().unwrap_or_else(|| Sym::new(&format!("undefined_{}", id.0)))
    }

    /// The name of a dim.
    pub(super) fn dim(&self, sym: Sym) -> Sym {
        self.dims.get(&sym).copied().unwrap_or_else(|| Sym::new(&printable(sym.name())))
    }

    /// A dim expression under these names.
    pub(super) fn dim_expr(&self, e: &Dim) -> ast::Expr {
        dim_as(e, &|s| self.dim(s))
    }

    /// A condition under these names.
    pub(super) fn pred(&self, p: &Pred) -> ast::Expr {
        pred_as(p, &|s| self.dim(s))
    }

    /// A type under these names.
    pub(super) fn ty(&self, ty: &Type) -> ast::TypeExpr {
        self.tensor_type(ty.dtype, &ty.shape)
    }

    /// `f32[n, 4]`
    pub(super) fn tensor_type(&self, dtype: DType, shape: &[Dim]) -> ast::TypeExpr {
        let dims = shape.iter().map(|d| ast::IndexArg::Expr(self.dim_expr(d)));
        let dims = if shape.is_empty() { None } else { Some(dims.collect()) };
        term::ty(ast::TypeKind::Named { name: term::ident(Sym::new(dtype.name())), args: vec![], dims })
    }
}

/// What names mean to whoever reads the text.
#[derive(Clone, Copy, Default, Debug)]
pub struct Meaning<'a> {
    /// The names that the program's own files define: their definitions keep them.
    pub own: Option<&'a BTreeSet<&'a str>>,
    /// The names that the library defines: no other definition takes one, so that the text can say them.
    pub library: Option<&'a BTreeSet<&'a str>>,
}

/// The names of a module's definitions.
pub(super) struct Callees {
    pub(super) funcs: Vec<Sym>,
    pub(super) prims: Vec<Sym>,
    pub(super) externs: Vec<Sym>,
    /// Names of the library that a definition of the program hides.
    hidden: BTreeSet<String>,
}

impl Callees {
    /// True if a definition has the name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.funcs.iter().chain(&self.prims).chain(&self.externs).any(|s| s.name() == name)
    }

    pub(super) fn new(m: &Module, meaning: Meaning<'_>) -> Callees {
        let mut names = Names::default();
        // Those of bindings are written in the text and come first.
        let externs = m.externs.iter().map(|e| names.fresh(e.name.name())).collect();
        let own = |name: &str| meaning.own.is_some_and(|own| own.contains(name));
        let mut funcs: Vec<Option<Sym>> =
            m.funcs.iter().map(|f| own(&f.name).then(|| names.fresh(&f.name))).collect();
        let mut prims: Vec<Option<Sym>> =
            m.prims.iter().map(|p| own(&p.name).then(|| names.fresh(&p.name))).collect();
        let mut hidden = BTreeSet::new();
        for &name in meaning.library.into_iter().flatten() {
            if !names.taken.insert(name.to_owned()) {
                hidden.insert(name.to_owned());
            }
        }
        for (p, name) in m.prims.iter().zip(&mut prims) {
            name.get_or_insert_with(|| names.fresh(&p.name));
        }
        for (f, name) in m.funcs.iter().zip(&mut funcs) {
            name.get_or_insert_with(|| names.fresh(&f.name));
        }
        let named = |all: Vec<Option<Sym>>| all.into_iter().flatten().collect();
        Callees { funcs: named(funcs), prims: named(prims), externs, hidden }
    }

    /// An operator of the library, by a name that means it even where the program has one of that name.
    pub(super) fn library(&self, operator: &str) -> ast::Expr {
        let name = term::ident(Sym::new(operator));
        if !self.hidden.contains(operator) {
            return term::name(name.name);
        }
        term::expr(ast::ExprKind::Field(Box::new(term::name(Sym::new("std"))), name))
    }
}
