//! Indices of accesses and their bounds checks: what indices are, packs among them, and whether they lie within the
//! extents.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ir::ast::{self, Expr, IndexArg};
use ir::diag::Diagnostic;
use ir::loops::{BufId, Scalar, ScalarKind};
use ir::source::Span;
use ir::{Class, Intrinsic, Literal};
use shape::{Expr as Dim, Pred, Sym, Verdict};
use tensor::DType;

use super::{Body, Local};
use crate::packs::{Item, Scope};
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// An index as numbers, packs spread.
    pub(super) fn indices(&mut self, b: &mut Body, args: &[IndexArg]) -> Maybe<Vec<Scalar>> {
        let mut index = Vec::new();
        for a in args {
            match a {
                IndexArg::Expr(e) => index.push(self.integer(b, e)?),
                IndexArg::Spread(e) => index.extend(self.index_pack(b, e)?),
                IndexArg::Range(ast::Range { span, .. }) | IndexArg::Full(span) => {
                    return self.fail(Diagnostic::error(
                        "E0405",
                        *span,
                        "a primitive reads one element at a time",
                    ));
                }
                IndexArg::Broadcast(n) => {
                    return self.fail(Diagnostic::error("E0405", n.span, "`~` stands only in types"));
                }
            }
        }
        Some(index)
    }

    /// The index of an access, and whether it must be checked when running.
    pub(super) fn bounds(
        &mut self,
        b: &mut Body,
        buf: BufId,
        index: Vec<Scalar>,
        span: Span,
    ) -> Maybe<(Vec<Scalar>, bool)> {
        let (name, shape) = (b.prim.buf(buf).name, b.prim.buf(buf).shape.clone());
        if index.len() != shape.len() {
            let axes = ir::diag::count_of(shape.len(), "axis", "axes");
            let given = ir::diag::count_of(index.len(), "index is", "indices are");
            let text = format!("`{name}` has {axes}, and {given} given");
            let one = ["i", "j", "k", "l"].get(..shape.len()).map_or("..i".to_owned(), |v| v.join(", "));
            let d = Diagnostic::error("E0403", span, text);
            return self.fail(d.help(format!("an element has an index for each axis: `{name}[{one}]`")));
        }
        if b.env.facts.is_contradictory() {
            // Where nothing runs, nothing is accessed.
            return Some((index, false));
        }
        let mut checked = false;
        for (axis, (i, extent)) in index.iter().zip(&shape).enumerate() {
            let Some(d) = b.dim(i) else {
                checked = true;
                continue;
            };
            for pred in [Pred::Le(Dim::int(0), d.clone()), Pred::Lt(d.clone(), extent.clone())] {
                match b.env.facts.prove(&pred) {
                    Verdict::Proved => {}
                    Verdict::Unknown => checked = true,
                    Verdict::Refuted => {
                        let text = format!(
                            "`{name}` is accessed out of bounds: axis {axis} has extent {extent}, the index is {d}"
                        );
                        let facts: Vec<String> = b.env.facts.iter().map(|p| p.to_string()).collect();
                        let d = Diagnostic::error("E0401", span, text)
                            .here(format!("`{pred}` is false for every iteration"))
                            .note(format!("known: {}", facts.join(", ")));
                        return self.fail(d.help("shorten the loop, or shift the index"));
                    }
                }
            }
        }
        Some((index, checked))
    }

    /// A pack of index variables, or a function of one.
    pub(super) fn index_pack(&mut self, b: &mut Body, e: &Expr) -> Maybe<Vec<Scalar>> {
        let env = b.env.clone();
        let packs: BTreeMap<Sym, Vec<Maybe<Scalar>>> = b
            .scopes
            .iter()
            .flat_map(|s| s.iter())
            .filter_map(|(n, l)| match l {
                Local::Pack(vars) => Some((*n, vars.iter().map(|v| Some(b.var(*v))).collect())),
                Local::Buf(_) | Local::Tree(_) | Local::Var(_) | Local::Value(_) | Local::Broken => None,
            })
            .collect();
        let state = RefCell::new((self, b));
        let item = |e: &Expr| {
            let (checker, body) = &mut *state.borrow_mut();
            Ok(checker.integer(body, e))
        };
        let list = env.list(e, &Scope { named: &|n| packs.get(&n).cloned(), item: &item });
        let (checker, _) = state.into_inner();
        match list {
            Ok(list) => list.into_iter().collect(),
            Err(d) => checker.fail(*d),
        }
    }
}

/// An index; none where it had an error, which is said.
impl Item for Maybe<Scalar> {
    fn from_dim(d: Dim) -> Maybe<Scalar> {
        Some(Scalar::dim(d))
    }

    fn operate(op: Intrinsic, a: Maybe<Scalar>, b: Maybe<Scalar>) -> Option<Maybe<Scalar>> {
        if op.class() != Class::Number {
            return None;
        }
        let (Some(a), Some(b)) = (a, b) else { return Some(None) };
        let number = |s: &Scalar| match &s.kind {
            ScalarKind::Const(Literal::Int(i)) => Some(*i),
            ScalarKind::Dim(d) => d.as_int(),
            _ => None,
        };
        Some(Some(match (op, number(&a), number(&b)) {
            // An attribute is often nothing to add or multiply by.
            (Intrinsic::Add | Intrinsic::Sub, _, Some(0)) | (Intrinsic::Mul | Intrinsic::Div, _, Some(1)) => {
                a
            }
            (Intrinsic::Add, Some(0), _) | (Intrinsic::Mul, Some(1), _) => b,
            _ => Scalar { kind: ScalarKind::Op(op, vec![a, b]), dtype: DType::I64 },
        }))
    }

    fn blank() -> Maybe<Scalar> {
        Some(Scalar::int(0))
    }
}
