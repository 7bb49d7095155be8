//! Places in records, arrays and encoded tensors: `at.table[s, p]`, `w.layers[i].q[j, k]`.

use std::rc::Rc;

use ir::ast::{Expr, ExprKind, IndexArg};
use ir::diag::Diagnostic;
use ir::loops::BufId;
use ir::source::Span;

use super::{Body, Local};
use crate::types::Ty;
use crate::{Checker, Maybe};

/// Part of a parameter or an output.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) ty: Rc<Ty>,
    /// The first of its buffers.
    pub(super) first: u32,
    /// What was given of the index so far.
    pub(super) index: Vec<IndexArg>,
}

impl Checker<'_> {
    /// The place an expression means; none where it means none.
    pub(super) fn place(&mut self, b: &Body, e: &Expr) -> Option<Maybe<Place>> {
        match &e.kind {
            ExprKind::Paren(e) => self.place(b, e),
            ExprKind::Name(name) => match b.find(*name)? {
                Local::Tree(p) => Some(Some(p)),
                Local::Buf(_) | Local::Var(_) | Local::Value(_) | Local::Pack(_) | Local::Broken => None,
            },
            ExprKind::Field(base, field) => {
                let Some(p) = self.place(b, base)? else { return Some(None) };
                // An index of an array takes elements before the field is taken.
                let (ty, given) = after(&p.ty, p.index.len());
                let name = field.name.name();
                let Some((of, before)) = given.then(|| ty.field(name)).flatten() else {
                    let d = Diagnostic::error("E0201", field.span, format!("`{ty}` has no field `{name}`"));
                    let names = ty.field_names();
                    return Some(self.fail(match ir::diag::nearest(name, names.iter().map(String::as_str)) {
                        Some(near) => d.help(format!("did you mean `{near}`?")),
                        None => d.help(format!("its fields are {}", names.join(", "))),
                    }));
                };
                // The axes that arrays put in front are still there: those given and those to come.
                let fronts = fronts(&p.ty, p.index.len());
                let ty = fronts.into_iter().rev().fold(of, |ty, k| ty.stacked(k));
                Some(Some(Place { ty: Rc::new(ty), first: p.first + before as u32, index: p.index }))
            }
            ExprKind::Index(base, args) => {
                let Some(mut p) = self.place(b, base)? else { return Some(None) };
                p.index.extend(args.iter().cloned());
                Some(Some(p))
            }
            _ => None,
        }
    }

    /// The buffer and the whole index of a place that must be an element of one.
    pub(super) fn leaf(&mut self, b: &Body, p: Place, span: Span) -> Maybe<(BufId, Vec<IndexArg>)> {
        let _ = b;
        match &*p.ty {
            Ty::Tensor(_) => Some((BufId(p.first), p.index)),
            ty => {
                let names = ty.field_names();
                let text = format!("`{ty}` is {}, and an element is needed", ty.kind());
                let d = Diagnostic::error("E0405", span, text);
                self.fail(d.help(format!("name a field: {}", names.join(", "))))
            }
        }
    }
}

/// What is left of a type after some indices, and whether all of them took elements of arrays.
fn after(ty: &Ty, given: usize) -> (&Ty, bool) {
    match ty {
        Ty::Array(_, of) if given > 0 => after(of, given - 1),
        ty => (ty, given == 0),
    }
}

/// The extents of the arrays that some indices took elements of.
fn fronts(ty: &Ty, given: usize) -> Vec<shape::Expr> {
    match ty {
        Ty::Array(k, of) if given > 0 => {
            let mut list = vec![k.clone()];
            list.extend(fronts(of, given - 1));
            list
        }
        _ => vec![],
    }
}
