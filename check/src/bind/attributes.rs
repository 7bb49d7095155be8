//! Compile-time arguments: attributes, their defaults, the config, and generics given in brackets.

use ir::ast::{Expr, ExprKind, Generic, GenericKind, IndexArg, Mode, Param, Signature, TypeKind};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};

use super::infer::{explicit_generics, is_inferable, names_in};
use super::{Actual, Binder, Origin, allows, refused};
use crate::config::is_config;
use crate::env::Const;
use crate::graph::Body;
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// A dim of a config is the caller's, who has it under the same name.
    pub(super) fn configured(&mut self, body: &Body, b: &mut Binder<'_>) -> Maybe<()> {
        for g in b.sig.generics.iter().filter(|g| is_config(g)) {
            let name = g.name.name;
            let Some(dim) = body.env.dims.get(&name) else {
                let text = format!("{}: the config's `{name}` is not known here", b.callee);
                let d = Diagnostic::error("E0203", b.span, text).label(g.name.span, "declared here");
                return self.fail(d.help(format!("say it first: `dim {name} = ..`")));
            };
            b.env.dims.insert(name, dim.clone());
            b.origins.insert(name, Origin { span: g.name.span, what: "the config".to_owned(), shown: None });
        }
        Some(())
    }

    /// The attributes given, as seen by the caller.
    pub(super) fn attributes(
        &mut self,
        body: &Body,
        b: &mut Binder<'_>,
        slots: &[Option<Actual>],
    ) -> Maybe<()> {
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let (Mode::Const, Some(a)) = (p.mode, slot) else { continue };
            let Some(e) = &a.expr else { continue };
            match body.env.constant(e) {
                Ok(c) => self.attribute(b, p, c, a.span)?,
                Err(d) => {
                    let value = names_in(e).into_iter().find(|n| body.find(*n).is_some());
                    let Some(value) = value else { return self.fail(*d) };
                    let text = format!(
                        "{}: the attribute `{}` must be known when compiling, and `{value}` is a value",
                        b.callee, p.name.name
                    );
                    let d = Diagnostic::error("E0307", e.span, text).label(p.span, "this attribute");
                    return self
                        .fail(d.help("write a number, or make it an attribute here too: `const axis: int`"));
                }
            }
        }
        Some(())
    }

    /// The attributes not given, as seen by the callee: `const axis: ints = s.axes`.
    pub(super) fn defaults(&mut self, b: &mut Binder<'_>) -> Maybe<()> {
        for p in b.sig.params.iter().filter(|p| p.mode == Mode::Const) {
            let Some(e) = p.default.as_ref().filter(|_| !b.env.consts.contains_key(&p.name.name)) else {
                continue;
            };
            match b.env.constant(e) {
                Ok(c) => self.attribute(b, p, c, e.span)?,
                Err(d) => return self.fail(*d),
            }
        }
        Some(())
    }

    pub(super) fn attribute(&mut self, b: &mut Binder<'_>, p: &Param, value: Const, span: Span) -> Maybe<()> {
        let declared = match p.ty.as_ref().map(|t| &t.kind) {
            Some(TypeKind::Named { name, .. }) => name.name.name(),
            _ => "",
        };
        let shown = value.clone();
        match value.fit(declared) {
            Some(c) => {
                b.env.consts.insert(p.name.name, c);
                Some(())
            }
            None => self.fail(misfit(b.sig, p, declared, &shown, span)),
        }
    }

    /// Solves for each `_` in brackets: some equation of the `where` tells it.
    pub(super) fn fill_holes(&mut self, body: &mut Body, b: &mut Binder<'_>) -> Maybe<()> {
        for (hole, at) in std::mem::take(&mut b.holes) {
            let mentions = |d: &Dim| d.syms().contains(&hole);
            let equation = self.wheres(b.sig, &b.env).into_iter().find_map(|p| match p {
                Pred::Eq(x, y) if mentions(&x) && !mentions(&y) => Some((x, y)),
                Pred::Eq(x, y) if mentions(&y) && !mentions(&x) => Some((y, x)),
                _ => None,
            });
            let solved = equation.as_ref().and_then(|(x, y)| shape::solve(x, y, hole));
            let Some(solved) = solved else {
                let d = Diagnostic::error("E0203", at, format!("{}: `_` cannot be inferred", b.callee));
                return self.fail(d.help("a `_` stands for one dim that the others and the argument tell"));
            };
            let total = equation.map_or_else(String::new, |(_, y)| y.to_string());
            for pred in solved.requires {
                let text = format!("{}: {total} is not a multiple of the other dims", b.callee);
                let d = Diagnostic::error("E0301", at, text.clone());
                self.require(body, pred, at, &text, d)?;
            }
            let fill = |d: &mut Dim| *d = d.subst(&|s| (s == hole).then(|| solved.value.clone()));
            b.env.dims.values_mut().for_each(fill);
            b.env.packs.values_mut().flatten().for_each(fill);
        }
        Some(())
    }

    /// `f[..](..)`: element types by name, then the generics that no parameter's type tells, in order.
    pub(super) fn explicit(&mut self, body: &mut Body, b: &mut Binder<'_>, given: &[IndexArg]) -> Maybe<()> {
        let mut given = given.iter().peekable();
        let dtypes = b.sig.generics.iter().filter(|g| g.kind == GenericKind::DType);
        // A definition with an element type in its result only, `cast[f16]`, has that one given first.
        let mut wanted: Vec<&Generic> = dtypes.filter(|g| !is_inferable(b.sig, g.name.name)).collect();
        wanted.reverse();
        while let Some(IndexArg::Expr(Expr { kind: ExprKind::Name(name), span })) = given.peek() {
            let (Some(d), Some(g)) = (body.env.dtype(*name), wanted.last()) else { break };
            if !allows(g, d) {
                return self.fail(refused(b.callee, d.name(), g, *span));
            }
            b.env.dtypes.insert(g.name.name, d);
            wanted.pop();
            given.next();
        }
        let mut rest: Vec<IndexArg> = given.cloned().collect();
        if rest.is_empty() {
            return Some(());
        }
        for arg in &mut rest {
            if let IndexArg::Expr(Expr { kind: ExprKind::Name(name), span }) = arg
                && name.name() == "_"
            {
                let hole = Sym::new(&format!("?_{}", b.holes.len()));
                b.holes.push((hole, *span));
                body.env.dims.insert(hole, Dim::sym(hole));
                *name = hole;
            }
        }
        let dims = self.dims_of_body(body, &rest);
        for (hole, _) in &b.holes {
            body.env.dims.remove(hole);
        }
        let dims = dims?;
        if let Some(d) = dims.iter().find(|d| d.as_int().is_some_and(|d| d < 0)) {
            let text = format!("{}: a dim is given as {d}, and no dim is negative", b.callee);
            return self.fail(Diagnostic::error("E0310", b.span, text));
        }
        // By number: with one pack among them, any from the number of the others.
        let lists = explicit_generics(b.sig);
        let singles = |list: &[&Generic]| list.iter().filter(|g| g.kind == GenericKind::Dim).count();
        let fits = |list: &&Vec<&Generic>| {
            let singles = singles(list);
            dims.len() == singles || (dims.len() > singles && singles < list.len())
        };
        let Some(list) = lists.iter().find(fits) else {
            let text = format!("{}: brackets give {}", b.callee, ir::diag::count(dims.len(), "dim"));
            let d = Diagnostic::error("E0304", b.span, text);
            return self.fail(match lists.as_slice() {
                [least, ..] if least.is_empty() => d.help("its dims are told by its arguments"),
                lists => {
                    let lists: Vec<String> = lists.iter().map(|l| listed(l)).collect();
                    d.help(format!("they give: {}", lists.join("; or ")))
                }
            });
        };
        let spread = dims.len() - singles(list);
        let mut dims = dims.into_iter();
        for g in list {
            if g.kind == GenericKind::Pack {
                b.env.packs.insert(g.name.name, dims.by_ref().take(spread).collect());
            } else if let Some(d) = dims.next() {
                b.env.dims.insert(g.name.name, d);
            }
        }
        Some(())
    }
}

/// What to say of a value that is not of the type of its parameter.
pub(crate) fn misfit(sig: &Signature, p: &Param, declared: &str, value: &Const, span: Span) -> Diagnostic {
    let text = format!("{}: `{}` is {declared}, and this is {}", sig.name.name, p.name.name, value.kind());
    let what = if p.mode == Mode::Const { "this attribute" } else { "this parameter" };
    let d = Diagnostic::error("E0307", span, text).label(p.span, what);
    match (value, declared.parse::<tensor::DType>()) {
        (Const::Int(i), Ok(dtype)) if dtype.is_int() => d.note(format!("{i} does not fit in `{dtype}`")),
        _ => d,
    }
}

/// `h, d`, `..s`: generics as brackets give them.
pub(super) fn listed(list: &[&Generic]) -> String {
    let one = |g: &&Generic| match g.kind {
        GenericKind::Pack => format!("..{}", g.name.name),
        GenericKind::Dim | GenericKind::DType => g.name.name.to_string(),
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}
