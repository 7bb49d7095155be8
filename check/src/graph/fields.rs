//! Primitives that only move elements, of tensors in blocks.
//!
//! A generic with the bound `stored` stands for elements that a primitive takes from one place to another and does
//! nothing else with. Of encoded tensors it moves each field of the blocks: a call is one for each of them, and what
//! the calls give is the fields of an encoded tensor again. So the axes of the blocks are a pack in its text, `..s`,
//! which each field has its own of.

use ir::ast::{IndexArg, Param, Signature, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::ValId;
use ir::source::Span;

use super::{Body, Value};
use crate::bind::{Actual, is_stored};
use crate::defs::Def;
use crate::types::{Encoded, Ty};
use crate::{Checker, Maybe};

/// An encoded tensor as it is given: its type, and its fields.
type Given = (Encoded, Vec<ValId>);

impl<'a> Checker<'a> {
    /// A call that moves encoded tensors; none where it is none.
    pub(super) fn each_field(
        &mut self,
        body: &mut Body,
        def: Def<'a>,
        dims: &[IndexArg],
        args: &[Actual],
        span: Span,
    ) -> Option<Maybe<Value>> {
        let Def::Prim(prim) = def else { return None };
        if !prim.sig.generics.iter().any(is_stored) {
            return None;
        }
        let params = &prim.sig.params;
        let moves = |(i, a): (usize, &Actual)| {
            let param = match a.name {
                Some(n) => params.iter().find(|p| p.name.name == n.name),
                None => params.get(i),
            };
            param.is_some_and(|p| is_moved(&prim.sig, p))
        };
        let moved: Vec<bool> = args.iter().enumerate().map(moves).collect();
        let encoded = |(a, moved): (&Actual, &bool)| match &a.value {
            Value::Tree(t) if let Ty::Encoded(e) = &*t.ty => moved.then(|| (e.clone(), t.leaves.clone())),
            _ => None,
        };
        let given: Vec<Option<Given>> = args.iter().zip(&moved).map(encoded).collect();
        let (first, _) = given.iter().flatten().next()?;
        let [out] = &prim.outs[..] else { return None };
        // What is moved beside it must be encoded in the same way.
        for ((a, given), _) in args.iter().zip(&given).zip(&moved).filter(|(_, moved)| **moved) {
            if given.as_ref().is_none_or(|(e, _)| e.id != first.id) {
                let other = match given {
                    Some((e, _)) => e.name.name().to_owned(),
                    None => self.value_type(body, &a.value, a.span)?.dtype.name().to_owned(),
                };
                let name = prim.sig.name.name;
                let text = format!("{name}: element types differ: {} vs {other}", first.name);
                let d = Diagnostic::error("E0303", a.span, text).here(other);
                return Some(self.fail(d.help(format!("encode it: `quantize_{}(..)`", first.name))));
            }
        }
        Some(self.moved_fields(body, (def, out), dims, (args, &given, first), span))
    }

    fn moved_fields(
        &mut self,
        body: &mut Body,
        (def, out): (Def<'a>, &Param),
        dims: &[IndexArg],
        (args, given, first): (&[Actual], &[Option<Given>], &Encoded),
        span: Span,
    ) -> Maybe<Value> {
        let sig = def.sig();
        // An output that is updated in place is declared where it is a parameter.
        let own = sig.params.iter().find(|p| p.name.name == out.name.name);
        if !is_moved(sig, own.unwrap_or(out)) {
            let text = format!("{}: what moves the fields of blocks gives them", sig.name.name);
            return self.fail(Diagnostic::error("E0303", span, text));
        }
        let mut leaves = Vec::new();
        let mut fields = Vec::new();
        for (k, (name, _)) in first.fields.iter().enumerate() {
            let field = |(a, e): (&Actual, &Option<Given>)| match e {
                Some((_, leaves)) => Actual { value: Value::Val(leaves[k]), ..a.clone() },
                None => a.clone(),
            };
            let args = args.iter().zip(given).map(field).collect();
            let Value::Val(v) = self.call_def(body, def, dims, args, span)? else { return None };
            leaves.push(v);
            fields.push((*name, body.func.ty(v).clone()));
        }
        // Before the axes of a field's own and that of the blocks stand those of the numbers.
        let own = first.fields.first().map_or(0, |f| f.1.shape.len() - first.shape.len());
        let mut shape = fields.first().map_or_else(Vec::new, |f| f.1.shape.clone());
        shape.truncate(shape.len().saturating_sub(own + 1));
        shape.extend(first.shape.last().cloned());
        Some(Value::from_leaves(&Ty::Encoded(Encoded { shape, fields, ..*first }), &leaves))
    }
}

/// True for a parameter whose elements are only moved.
fn is_moved(sig: &Signature, p: &Param) -> bool {
    let Some(TypeKind::Named { name, .. }) = p.ty.as_ref().map(|t| &t.kind) else { return false };
    sig.generics.iter().any(|g| g.name.name == name.name && is_stored(g))
}
