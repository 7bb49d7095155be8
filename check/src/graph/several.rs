//! Tensors that each place of an array stores in one of several ways.
//!
//! A checkpoint may have a matrix as `q4_k` in some layers and as `q6_k` in the others. Then the instance for it takes
//! an array of matrices apart: those of each way are a stack of their own, and two lists say which way a place is
//! stored in and where it is among those. What is called with such a matrix is called with that of the right stack, in
//! a branch for each way, so that every call is of one way of storage.

use ir::Intrinsic;
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use super::branches::Ways;
use super::{Body, Tree, Value};
use crate::types::{Elem, Several, SeveralId, Ty};
use crate::{Checker, Maybe};

/// Ways of storage, and how many places are stored in each.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Storage {
    /// Their names, for messages.
    pub(crate) name: Sym,
    of: Vec<(Elem, i64)>,
}

/// The name of ways of storage, each with how many places of an array are stored in it, as a request for an instance
/// says them ([`crate::KnownArg`]).
pub fn ways(of: &[(String, i64)]) -> Sym {
    let each: Vec<String> = of.iter().map(|(kind, count)| format!("{kind}*{count}")).collect();
    Sym::new(&each.join("|"))
}

impl Checker<'_> {
    /// The ways that a request names; none where it names one only.
    pub(crate) fn several_ways(&mut self, name: &str) -> Option<SeveralId> {
        let each = |way: &str| {
            let (kind, count) = way.split_once('*')?;
            Some((self.elem(&self.env(), Sym::new(kind))?, count.parse().ok()?))
        };
        let of: Vec<(Elem, i64)> = name.split('|').map(each).collect::<Option<_>>()?;
        let names: Vec<&str> = of.iter().map(|w| self.elem_name(w.0).name()).collect();
        let ways = Storage { name: Sym::new(&names.join(" or ")), of };
        let known = self.types.several.iter().position(|w| *w == ways);
        let at = known.unwrap_or_else(|| {
            self.types.several.push(ways);
            self.types.several.len() - 1
        });
        Some(SeveralId(at as u32))
    }

    /// A tensor of one place of an array whose places are stored in these ways.
    pub(crate) fn several_of(&mut self, id: SeveralId, shape: Vec<Dim>, span: Span) -> Maybe<Ty> {
        let Storage { name, of } = self.types.several[id.0 as usize].clone();
        let mut stacks = Vec::new();
        for (elem, count) in of {
            let whole = std::iter::once(Dim::int(count)).chain(shape.iter().cloned()).collect();
            stacks.push(match elem {
                Elem::Plain(dtype) => Ty::Tensor(Type { dtype, shape: whole }),
                Elem::Encoded(id) => self.encoded_of(id, whole, span)?,
                Elem::Several(_) => return None,
            });
        }
        Some(Ty::Several(Several { id, name, front: vec![], shape, stacks }))
    }

    /// What `then` makes of a tensor that is stored in several ways: in a branch for each of them.
    pub(super) fn each_way(
        &mut self,
        body: &mut Body,
        (s, leaves): (&Several, &[ValId]),
        span: Span,
        then: &mut dyn FnMut(&mut Self, &mut Body, Value) -> Maybe<Value>,
    ) -> Maybe<Value> {
        if !s.front.is_empty() {
            let text = format!(
                "`{}` is an array of tensors that are stored in several ways",
                Ty::Several(s.clone())
            );
            let d = Diagnostic::error("E0307", span, text);
            return self.fail(d.help("take one of them at a time: `w.layers[i].q`"));
        }
        self.way_from(body, 0, (s, leaves), span, then)
    }

    /// [`Checker::each_way`], of the ways from the `k`-th on.
    fn way_from(
        &mut self,
        body: &mut Body,
        k: usize,
        (s, leaves): (&Several, &[ValId]),
        span: Span,
        then: &mut dyn FnMut(&mut Self, &mut Body, Value) -> Maybe<Value>,
    ) -> Maybe<Value> {
        let before: usize = Several::PLACED + s.stacks[..k].iter().map(Ty::count).sum::<usize>();
        let this = |c: &mut Self, body: &mut Body, then: &mut dyn FnMut(&mut Self, &mut Body, Value) -> _| {
            // A dim, so that one of a stack is a view of it.
            let at = c.open_dim(body, leaves[1], span)?;
            let place = Value::Dim(at.clone());
            let stack = &leaves[before..before + s.stacks[k].count()];
            for v in stack {
                let Some(count) = body.func.ty(*v).shape.first().cloned() else { continue };
                let text = format!("a place is {at}, and {count} are stored so");
                let wrong = Diagnostic::error("E0401", span, text.clone());
                c.require(body, Pred::Lt(at.clone(), count), span, &text, wrong)?;
            }
            let rows = stack.iter().map(|v| c.row_of(body, *v, &place, span)).collect::<Maybe<Vec<_>>>()?;
            let value = Value::from_leaves(&s.stacks[k].element()?, &rows);
            then(c, body, value)
        };
        if k + 1 == s.stacks.len() {
            return this(self, body, then);
        }
        let number = body.scalar_const(Tensor::scalar_i(DType::I64, k as i64), span);
        let is = Op::Scalar(Intrinsic::Eq);
        let is = body.push(is, vec![leaves[0], number], Type::scalar(DType::Bool), span);
        let ways = Ways { cond: Some(is), vars: &[], assumed: [vec![], vec![]], ends: [None, None] };
        self.one_of_two(body, ways, span, &mut |c, body, way| match way {
            0 => this(c, body, then),
            _ => c.way_from(body, k + 1, (s, leaves), span, then),
        })
    }

    /// A tensor that is stored in several ways as one of numbers.
    pub(super) fn numbers_of(
        &mut self,
        body: &mut Body,
        tree: &Tree,
        s: &Several,
        span: Span,
    ) -> Maybe<ValId> {
        let made = self.each_way(body, (s, &tree.leaves), span, &mut |c, body, value| {
            let v = c.materialize(body, &value, DType::F32, span)?;
            c.as_type(body, v, DType::F32, (span, span))
        })?;
        match made {
            Value::Val(v) => Some(v),
            _ => None,
        }
    }
}
