//! Types, generics and parameters.

use ir::ast::{Generic, GenericKind, Ident, IndexArg, Mode, Param, Range, TypeExpr, TypeKind};

use super::comments::{Printer, Style};
use super::doc::{Doc, docs};

/// A name.
pub(super) fn name(ident: &Ident) -> Doc {
    Doc::Text(ident.name.name().to_string())
}

/// Where a type is.
fn byte_range(ty: &TypeExpr) -> (u32, u32) {
    (ty.span.lo, ty.span.hi)
}

impl Printer<'_> {
    pub(super) fn ty(&mut self, ty: &TypeExpr) -> Doc {
        match &ty.kind {
            TypeKind::Named { name: ident, args, dims } => {
                let mut parts = vec![name(ident)];
                if !args.is_empty() {
                    parts.push(self.list(("<", ">"), args, byte_range, Style::Lines, Self::ty));
                }
                if let Some(dims) = dims {
                    parts.push(self.index_args(dims));
                }
                Doc::Concat(parts)
            }
            TypeKind::Tuple(parts) => match parts.as_slice() {
                [one] => docs!["(", self.ty(one), ",)"],
                _ => self.list(("(", ")"), parts, byte_range, Style::Lines, Self::ty),
            },
            TypeKind::Array(of, length) => docs!["[", self.ty(of), "; ", self.expr(length), "]"],
            TypeKind::Dim(e) => self.expr(e),
            TypeKind::Fn(args, result) => {
                let args = self.list(("(", ")"), args, byte_range, Style::Lines, Self::ty);
                docs!["fn", args, " -> ", self.ty(result)]
            }
            TypeKind::Exists(names, of) => {
                let names = self.series(
                    names,
                    |e| e.fact.as_ref().map(|f| f.span).or(e.name.map(|n| n.span)).unwrap_or_default().lo,
                    |p, e| match (&e.fact, &e.name) {
                        (Some(fact), _) => p.expr(fact),
                        (None, Some(ident)) => name(ident),
                        (None, None) => docs![""],
                    },
                );
                docs!["exists ", names, ". ", self.ty(of)]
            }
        }
    }

    /// `[..]` of an index or a shape.
    pub(super) fn index_args(&mut self, args: &[IndexArg]) -> Doc {
        self.list(("[", "]"), args, index_place, Style::Lines, |p, arg| match arg {
            IndexArg::Expr(e) => p.expr(e),
            IndexArg::Spread(e) => docs!["..", p.expr(e)],
            IndexArg::Broadcast(ident) => docs!["~", name(ident)],
            IndexArg::Full(_) => Doc::Static(":"),
            IndexArg::Range(range) => {
                let lo = range.lo.as_ref().map_or("".into(), |lo| p.expr(lo));
                let hi = range.hi.as_ref().map_or("".into(), |hi| p.expr(hi));
                docs![lo, "..", hi, p.step(range)]
            }
        })
    }

    /// ` by e`
    pub(super) fn step(&mut self, range: &Range) -> Doc {
        range.step.as_ref().map_or("".into(), |step| docs![" by ", self.expr(step)])
    }

    pub(super) fn generics(&mut self, generics: &[Generic]) -> Doc {
        if generics.is_empty() {
            return "".into();
        }
        let at = |g: &Generic| (g.name.span.lo, g.bounds.last().unwrap_or(&g.name).span.hi);
        self.list(("<", ">"), generics, at, Style::Lines, |_, g| {
            let dots = if g.kind == GenericKind::Pack { ".." } else { "" };
            let mut parts = vec![Doc::Static(dots), name(&g.name)];
            for (i, bound) in g.bounds.iter().enumerate() {
                parts.extend([Doc::Static(if i == 0 { ": " } else { " | " }), name(bound)]);
            }
            Doc::Concat(parts)
        })
    }

    pub(super) fn params(&mut self, params: &[Param]) -> Doc {
        self.list(("(", ")"), params, |p| (p.span.lo, p.span.hi), Style::Lines, Self::param)
    }

    pub(super) fn param(&mut self, param: &Param) -> Doc {
        let mode = match param.mode {
            Mode::Plain => "",
            Mode::Own => "own ",
            Mode::Const => "const ",
        };
        let mut parts = vec![Doc::Static(mode), name(&param.name)];
        if let Some(ty) = &param.ty {
            parts.extend([Doc::Static(": "), self.ty(ty)]);
        }
        if let Some(default) = &param.default {
            parts.extend([Doc::Static(" = "), self.expr(default)]);
        }
        Doc::Concat(parts)
    }
}

/// Where an index argument is.
fn index_place(arg: &IndexArg) -> (u32, u32) {
    let span = match arg {
        IndexArg::Expr(e) | IndexArg::Spread(e) => e.span,
        IndexArg::Broadcast(ident) => ident.span,
        IndexArg::Range(range) => range.span,
        IndexArg::Full(span) => *span,
    };
    (span.lo, span.hi)
}
