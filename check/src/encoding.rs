//! Encodings: how numbers are stored in blocks, as a program declares it.

use std::rc::Rc;

use ir::diag::Diagnostic;
use ir::graph::Type;
use shape::Sym;

use crate::types::EncodingId;
use crate::{Checker, Maybe};

/// How a block of an encoding lies in memory: one tensor a field.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Elements a block.
    pub(crate) block: i64,
    /// The fields, each with its extents in one block.
    pub(crate) fields: Vec<(Sym, Type)>,
}

impl Checker<'_> {
    /// The layout of an encoding; none where its declaration has errors, said once.
    pub(crate) fn layout(&mut self, id: EncodingId) -> Maybe<Rc<Layout>> {
        if let Some(known) = self.instances.layouts.get(&id) {
            return known.clone();
        }
        let made = self.make_layout(id).map(Rc::new);
        self.instances.layouts.insert(id, made.clone());
        made
    }

    pub(crate) fn check_encoding(&mut self, def: &ir::ast::EncodingDef) {
        self.later(def.name.span, "encodings");
    }

    pub(crate) fn decoded_dtype(&mut self, id: EncodingId) -> Maybe<tensor::DType> {
        let _ = id;
        None
    }

    pub(crate) fn decoded(
        &mut self,
        _: &mut crate::graph::Body,
        _: &Rc<crate::types::Ty>,
        _: &[ir::graph::ValId],
        _: ir::source::Span,
    ) -> Maybe<ir::graph::ValId> {
        None
    }

    fn make_layout(&mut self, id: EncodingId) -> Maybe<Layout> {
        let def = self.types.encoding(id);
        let env = self.env();
        let block = match env.dim(&def.block).map(|d| d.as_int()) {
            Ok(Some(n)) if n > 0 => n,
            Ok(_) => {
                let d = Diagnostic::error("E0307", def.block.span, "a block has a number of elements known when compiling");
                return self.fail(d.help("a positive number: `block 32 { .. }`"));
            }
            Err(d) => return self.fail(*d),
        };
        let mut fields: Vec<(Sym, Type)> = Vec::new();
        for f in &def.fields {
            let ty = self.param_type(&env, f)?;
            if let Some(d) = ty.shape.iter().find(|d| d.as_int().is_none_or(|n| n < 1)) {
                let text = format!("the extents of a block's fields are numbers, and `{d}` is none");
                return self.fail(Diagnostic::error("E0307", f.span, text));
            }
            if fields.iter().any(|x| x.0 == f.name.name) {
                let text = format!("`{}` is given twice", f.name.name);
                return self.fail(Diagnostic::error("E0202", f.name.span, text));
            }
            fields.push((f.name.name, ty));
        }
        if fields.is_empty() {
            return self.fail(Diagnostic::error("E0307", def.name.span, "a block without fields holds nothing"));
        }
        Some(Layout { block, fields })
    }
}
