//! Packing: what makes products with an encoding fast, derived from the encoding's text.
//!
//! In: a declared encoding. Out: definitions and rules, as text: how weights are laid out in panels of 32 columns,
//! once, where they are loaded, and two products with them: by what they decode to, exactly, and by rows that are
//! rounded to 8 bits, with integers ([`text`]). Plans name the rules, whose status is `derived`.
//!
//! What an encoding must be like: an element is `scale * number + offset`, where the number is an integer of at most 8
//! bits, and scale and offset stay the same in a group of neighbours ([`affine`]). How large groups are, between which
//! bounds a number lies and what stays the same is found by asking `decode` of each element of a block ([`expand`]).
//! Numbers are stored in planes of 4, 2 and 1 bits, as many as they have, whatever the order of bits in the published
//! block. An encoding that is not like that is decoded element by element, as any can be.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "packing asks whether a form is one of a few; of any other it knows nothing"
)]

mod affine;
mod expand;
mod text;

use ir::ast::{EncodingDef, ExprKind, TypeKind};
use shape::Sym;
use tensor::DType;

/// An encoding, as far as packing knows it.
struct Encoding<'a> {
    name: Sym,
    /// Elements a block.
    block: i64,
    fields: Vec<(Sym, DType)>,
    def: &'a EncodingDef,
}

impl<'a> Encoding<'a> {
    fn new(def: &'a EncodingDef) -> Option<Encoding<'a>> {
        let ExprKind::Int(block) = def.block.kind else { return None };
        let field = |f: &ir::ast::Param| match f.ty.as_ref().map(|t| &t.kind) {
            Some(TypeKind::Named { name, args, .. }) if args.is_empty() => {
                Some((f.name.name, name.name.name().parse().ok()?))
            }
            _ => None,
        };
        let fields = def.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
        (1..=MOST_ELEMENTS).contains(&block).then_some(Encoding { name: def.name.name, block, fields, def })
    }

    fn field(&self, name: Sym) -> Option<DType> {
        self.fields.iter().find(|f| f.0 == name).map(|f| f.1)
    }
}

/// Blocks of more elements are not asked about.
const MOST_ELEMENTS: i64 = 1024;

/// The text for an encoding; none where it is not of the kind that can be packed.
pub(crate) fn derived(def: &EncodingDef) -> Option<String> {
    let encoding = Encoding::new(def)?;
    let parts = affine::parts(&encoding)?;
    text::written(&encoding, &parts)
}
