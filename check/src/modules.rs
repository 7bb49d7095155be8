//! Name qualification: types and constants of other files under names of their own.
//!
//! Functions are found by the file that speaks of them ([`crate::defs`]). Types and constants are kept by
//! name, so those of modules are renamed before checking, where they are defined and wherever they are
//! spoken of: the `Layer` of the module `b` is `b.Layer`, for the module itself too. No text can hide or reach them by
//! accident.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ir::ast::{ExprKind, File, Ident, ItemKind, TypeKind};
use shape::Sym;

use crate::visit::{self, Occurrence};
use crate::{Checker, Files};

/// The program with the types and constants of its modules renamed.
pub(crate) fn qualify_names<'f>(library: &[File], files: Cow<'f, Files>) -> Cow<'f, Files> {
    let named = |f: &File| {
        let types =
            |k: &ItemKind| matches!(k, ItemKind::Record(_) | ItemKind::Encoding(_) | ItemKind::Const(..));
        f.items.iter().any(|i| types(&i.kind))
    };
    if !files.modules.iter().any(named) {
        return files;
    }
    let mut out = files.clone().into_owned();
    let checker = Checker::new(library, &files);
    let defs = &checker.defs;
    for item in out.own.iter_mut().chain(&mut out.modules).flat_map(|f| &mut f.items) {
        let mut bound: BTreeSet<Sym> = BTreeSet::new();
        visit::item(&mut item.kind, &mut |place| {
            if let Occurrence::Bound(name) | Occurrence::Loop(name) = place {
                bound.insert(name.name);
            }
        });
        visit::item(&mut item.kind, &mut |place| match place {
            Occurrence::Type(t) => {
                if let TypeKind::Named { name, .. } = &mut t.kind
                    && !bound.contains(&name.name)
                    && let Some(own) = defs.own_name(name.name, name.span)
                {
                    name.name = own;
                }
            }
            Occurrence::Expr(e) => {
                let name = match &e.kind {
                    ExprKind::Name(name) if !bound.contains(name) => Some(*name),
                    _ => defs.qualified(e, |m| bound.contains(&m)),
                };
                if let Some(own) = name.and_then(|n| defs.own_name(n, e.span)) {
                    e.kind = ExprKind::Name(own);
                }
            }
            Occurrence::Bound(_) | Occurrence::Loop(_) => {}
        });
        let rename = |name: &mut Ident| {
            if let Some(own) = defs.own_name(name.name, name.span) {
                name.name = own;
            }
        };
        match &mut item.kind {
            ItemKind::Record(d) => rename(&mut d.name),
            ItemKind::Encoding(d) => rename(&mut d.name),
            ItemKind::Const(name, ..) => rename(name),
            _ => {}
        }
    }
    Cow::Owned(out)
}
