//! Access paths in records, arrays and encoded tensors: `at.table[s, p]`, `w.layers[i].q[j, k]`, `w.block[i, b].scale`.

use std::rc::Rc;

use ir::ast::{Expr, ExprKind, IndexArg};
use ir::diag::Diagnostic;
use ir::loops::{BufId, Scalar, Stmt};
use ir::source::Span;

use super::{Body, Local};
use crate::types::Ty;
use crate::{Checker, Maybe};

/// Part of a parameter or an output.
#[derive(Clone)]
pub(crate) struct AccessPath {
    pub(super) ty: Rc<Ty>,
    /// The first of its buffers.
    pub(super) first: u32,
    /// What was given of the index so far: as numbers, then as written.
    done: Vec<Scalar>,
    pub(super) index: Vec<IndexArg>,
    /// One block of an encoded tensor, its place among the blocks in `done`.
    block: bool,
}

impl From<AccessPath> for Local {
    fn from(p: AccessPath) -> Local {
        Local::Tree(p)
    }
}

impl From<Scalar> for Local {
    fn from(s: Scalar) -> Local {
        Local::Value(s)
    }
}

impl AccessPath {
    pub(crate) fn new(ty: Rc<Ty>, first: u32) -> AccessPath {
        AccessPath { ty, first, done: vec![], index: vec![], block: false }
    }

    /// A block of an encoded tensor.
    pub(crate) fn block(ty: Rc<Ty>, first: u32, at: Vec<Scalar>) -> AccessPath {
        AccessPath { ty, first, done: at, index: vec![], block: true }
    }

    fn index_count(&self) -> usize {
        self.done.len() + self.index.len()
    }

    /// True for less than an element: it has a name of its own in a `let`.
    pub(super) fn is_part(&self) -> bool {
        let spread = self.index.iter().any(|i| matches!(i, IndexArg::Spread(_)));
        match &*self.ty {
            Ty::Encoded(_) if self.block => true,
            Ty::Encoded(e) => !spread && self.index_count() < e.shape.len(),
            Ty::Tensor(t) => !spread && self.index_count() < t.shape.len(),
            Ty::Several(_) | Ty::Tuple(_) | Ty::Record(_) | Ty::Array(..) | Ty::Fn => true,
        }
    }
}

impl Checker<'_> {
    /// The place an expression means; none where it means none.
    pub(super) fn access_path(&mut self, b: &mut Body, e: &Expr) -> Option<Maybe<AccessPath>> {
        match &e.kind {
            ExprKind::Paren(e) => self.access_path(b, e),
            ExprKind::Name(name) => match b.find(*name)? {
                Local::Tree(p) => Some(Some(p)),
                Local::Buf(_) | Local::Var(_) | Local::Value(_) | Local::Pack(_) | Local::Broken => None,
            },
            ExprKind::Field(base, field) => {
                let Some(p) = self.access_path(b, base)? else { return Some(None) };
                // An index of an array takes elements before the field is taken.
                let name = field.name.name();
                let (ty, taken) = if p.block { (&*p.ty, true) } else { after(&p.ty, p.index_count()) };
                let found = taken.then(|| ty.field(name)).flatten();
                let found = found.filter(|_| p.block || !matches!(ty, Ty::Encoded(_)));
                let Some((of, before)) = found else {
                    return Some(self.no_field(ty, name, field.span));
                };
                // The axes that arrays put in front are still there: those given and those to come.
                let fronts = if p.block { vec![] } else { fronts(&p.ty, p.index_count()) };
                let ty = fronts.into_iter().rev().fold(of, |ty, k| ty.stacked(k));
                let first = p.first + before as u32;
                Some(Some(AccessPath { ty: Rc::new(ty), first, block: false, ..p }))
            }
            ExprKind::Index(base, args) => {
                if let ExprKind::Field(of, method) = &base.kind
                    && method.name.name() == "block"
                    && let Some(p) = self.access_path(b, of)
                    && p.as_ref().is_none_or(|p| matches!(*p.ty, Ty::Encoded(_)) && !p.block)
                {
                    return Some(p.and_then(|p| self.block(b, p, args, e.span)));
                }
                let Some(mut p) = self.access_path(b, base)? else { return Some(None) };
                p.index.extend(args.iter().cloned());
                Some(Some(p))
            }
            ExprKind::Call(f, _) => {
                let ExprKind::Field(base, method) = &f.kind else { return None };
                let Some(p) = self.access_path(b, base)? else { return Some(None) };
                let text = format!("`{}` has no function `{}`", p.ty, method.name);
                let d = Diagnostic::error("E0405", e.span, text);
                Some(self.fail(match &*p.ty {
                    Ty::Encoded(_) => d.help("brackets hold indices: `w.block[i, b].scale`"),
                    _ => d,
                }))
            }
            _ => None,
        }
    }

    /// `w.block[i, b]`
    fn block(&mut self, b: &mut Body, mut p: AccessPath, args: &[IndexArg], span: Span) -> Maybe<AccessPath> {
        let Ty::Encoded(e) = &*p.ty else { return None };
        let rank = e.shape.len();
        p.index.extend(args.iter().cloned());
        let given = self.whole(b, &mut p)?;
        if given != rank {
            let text = format!(
                "a block of `{}` has {}, got {given}",
                p.ty,
                ir::diag::count_of(rank, "index", "indices")
            );
            return self.fail(Diagnostic::error("E0403", span, text));
        }
        Some(AccessPath { block: true, ..p })
    }

    fn no_field<T>(&mut self, ty: &Ty, name: &str, span: Span) -> Maybe<T> {
        let d = Diagnostic::error("E0201", span, format!("`{ty}` has no field `{name}`"));
        let names = ty.field_names();
        self.fail(match (ty, ir::diag::nearest(name, names.iter().map(String::as_str))) {
            (Ty::Encoded(_), _) => d.help("its blocks have fields: `w.block[i, b].scale`"),
            (_, Some(near)) => d.help(format!("did you mean `{near}`?")),
            _ if names.is_empty() => d,
            _ => d.help(format!("its fields are {}", names.join(", "))),
        })
    }

    /// The whole index of a place as numbers; how many they are.
    fn whole(&mut self, b: &mut Body, p: &mut AccessPath) -> Maybe<usize> {
        let index = std::mem::take(&mut p.index);
        let index = self.indices(b, &index)?;
        p.done.extend(index);
        Some(p.done.len())
    }

    /// A place as what a name stands for: its index is computed here, once.
    pub(super) fn fixed(&mut self, b: &mut Body, mut p: AccessPath, out: &mut Vec<Stmt>) -> Maybe<Local> {
        self.whole(b, &mut p)?;
        for i in &mut p.done {
            if b.steady(i).is_none() {
                let var = b.variable(shape::Sym::new("at"), i.dtype);
                out.push(Stmt::Set(var, i.clone()));
                *i = b.var(var);
            }
        }
        Some(Local::Tree(p))
    }

    /// The buffer and the whole index of a place that must be an element of one.
    pub(super) fn leaf(
        &mut self,
        b: &mut Body,
        mut p: AccessPath,
        span: Span,
    ) -> Maybe<(BufId, Vec<Scalar>)> {
        match &*p.ty {
            Ty::Tensor(_) => {
                self.whole(b, &mut p)?;
                Some((BufId(p.first), p.done))
            }
            ty => {
                let names = ty.field_names();
                let text = format!("`{ty}` is {}, and an element is needed", ty.kind());
                let d = Diagnostic::error("E0405", span, text);
                self.fail(d.help(format!("name a field: {}", names.join(", "))))
            }
        }
    }

    /// The value at a place: an element, decoded where it is encoded.
    pub(super) fn read(&mut self, b: &mut Body, mut p: AccessPath, span: Span) -> Maybe<Scalar> {
        if let Ty::Encoded(e) = &*p.ty
            && !p.block
        {
            let rank = e.shape.len();
            let given = self.whole(b, &mut p)?;
            if given != rank {
                let text = format!(
                    "`{}` has {}, got {}",
                    p.ty,
                    ir::diag::count_of(rank, "axis", "axes"),
                    ir::diag::count_of(given, "index", "indices")
                );
                return self.fail(Diagnostic::error("E0403", span, text));
            }
            let said = self.diagnostics.len();
            let value = self.decode(b, &p.ty, p.first, p.done);
            // What is wrong in the text of `decode` is wrong because of the access.
            for d in &mut self.diagnostics[said..] {
                d.labels.insert(0, ir::diag::Label { span, text: "in this access".to_owned() });
            }
            return value;
        }
        let (buf, index) = self.leaf(b, p, span)?;
        self.load(b, buf, index, span)
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
