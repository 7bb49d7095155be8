//! Encodings: how numbers are stored in blocks, as a program declares it.
//!
//! An encoded tensor is the fields of its blocks, one tensor each. Inside a primitive an element of it is the
//! expression of `decode`, over the fields of its block; in a function a primitive that does nothing else
//! makes the tensor of numbers, which fusion takes into its reader.
//!
//! The last axis holds whole blocks. Where a signature names that axis, the instance counts blocks instead
//! (`k` is `32*k.blocks`), so that the extents of the fields are plain and nothing is left to prove. A block may be the
//! whole axis, `encoding e<n> { block n { .. } }`: then there is one, of any extent, and nothing is counted.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::ast::{
    Arg, EncodingDef, Expr, ExprKind, Generic, GenericKind, Ident, IndexArg, Mode, Param, Signature, TypeKind,
};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::loops::{Scalar, ScalarKind, Stmt};
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::bind::Actual;
use crate::env::Env;
use crate::graph::{Body, Value};
use crate::prim;
use crate::types::{Encoded, EncodingId, Ty, name_expr};
use crate::{Checker, Maybe};

/// How a block of an encoding lies in memory: one tensor a field.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Elements a block.
    pub(crate) block: Block,
    /// The fields, each with its extents in one block.
    pub(crate) fields: Vec<(Sym, Type)>,
}

/// How many elements a block has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block {
    /// So many.
    Of(i64),
    /// All of the last axis, whose extent fields call so.
    Row(Sym),
}

impl Block {
    /// How many blocks an axis has.
    fn count(self, axis: &Dim) -> Dim {
        match self {
            Block::Of(n) => axis.floor_div(&Dim::int(n)),
            Block::Row(_) => Dim::int(1),
        }
    }

    /// A field's type in the blocks of an axis.
    fn field(self, ty: &Type, axis: &Dim) -> Type {
        match self {
            Block::Of(_) => ty.clone(),
            Block::Row(n) => ty.subst(&|s| (s == n).then(|| axis.clone())),
        }
    }
}

impl<'a> Checker<'a> {
    /// The layout of an encoding; none where its declaration has errors, said once.
    pub(crate) fn layout(&mut self, id: EncodingId) -> Maybe<Rc<Layout>> {
        if let Some(known) = self.instances.layouts.get(&id) {
            return known.clone();
        }
        let made = self.make_layout(id).map(Rc::new);
        self.instances.layouts.insert(id, made.clone());
        made
    }

    fn make_layout(&mut self, id: EncodingId) -> Maybe<Layout> {
        let def = self.types.encoding(id);
        let mut env = self.env();
        for g in &def.generics {
            env.dims.insert(g.name.name, Dim::sym(g.name.name));
            env.facts.assume_dim(g.name.name);
        }
        let row = match (&def.generics[..], &def.block.kind) {
            ([], _) => None,
            ([g], ExprKind::Name(n)) if g.kind == GenericKind::Dim && g.name.name == *n => Some(*n),
            ([g, ..], _) => {
                let text = "a generic of an encoding is the extent of its block";
                let d = Diagnostic::error("E0307", g.name.span, text);
                return self
                    .fail(d.help("a block that is the whole axis: `encoding e<n> { block n { .. } .. }`"));
            }
        };
        let block = match env.dim(&def.block).map(|d| d.as_int()) {
            _ if let Some(n) = row => Block::Row(n),
            Ok(Some(n)) if n > 0 => Block::Of(n),
            Ok(_) => {
                let text = "a block has a number of elements known when compiling";
                let d = Diagnostic::error("E0307", def.block.span, text);
                return self.fail(d.help("a positive number: `block 32 { .. }`"));
            }
            Err(d) => return self.fail(*d),
        };
        let mut fields: Vec<(Sym, Type)> = Vec::new();
        for f in &def.fields {
            let ty = self.param_type(&env, f)?;
            let of_row = |d: &Dim| row.is_some_and(|n| d.syms().iter().all(|s| *s == n));
            let fits = |d: &&Dim| match d.as_int() {
                Some(n) => n >= 1,
                None => of_row(d) && env.facts.prove_le(&Dim::int(0), d).is_proved(),
            };
            if let Some(d) = ty.shape.iter().find(|d| !fits(d)) {
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
            let d = Diagnostic::error("E0307", def.name.span, "a block without fields holds nothing");
            return self.fail(d);
        }
        Some(Layout { block, fields })
    }

    /// An encoded tensor, as a type writes it.
    pub(crate) fn encoded(&mut self, env: &Env, id: EncodingId, dims: &[IndexArg], span: Span) -> Maybe<Ty> {
        let shape = match env.dims(dims) {
            Ok(shape) => shape,
            Err(d) => return self.fail(*d),
        };
        self.encoded_of(id, shape, span)
    }

    /// An encoded tensor of a shape.
    pub(crate) fn encoded_of(&mut self, id: EncodingId, shape: Vec<Dim>, span: Span) -> Maybe<Ty> {
        let def = self.types.encoding(id);
        let name = def.name.name;
        let Some((last, front)) = shape.split_last() else {
            let d = Diagnostic::error(
                "E0302",
                span,
                format!("`{name}` is cut into blocks, and a scalar has none"),
            );
            return self.fail(d.help(format!("it needs an axis: `{name}[n]`")));
        };
        let layout = self.layout(id)?;
        let mut blocks = front.to_vec();
        blocks.push(layout.block.count(last));
        let field = |(name, ty): &(Sym, Type)| {
            let ty = layout.block.field(ty, last);
            let shape = blocks.iter().chain(&ty.shape).cloned().collect();
            (*name, Type { dtype: ty.dtype, shape })
        };
        let fields = layout.fields.iter().map(field).collect();
        Some(Ty::Encoded(Encoded { id, name, shape, fields }))
    }

    /// Says what is wrong with an encoding itself, used or not.
    pub(crate) fn check_encoding(&mut self, def: &'a EncodingDef) {
        if let Some(crate::types::Named::Encoding(id)) = self.types.get(def.name.name)
            && std::ptr::eq(self.types.encoding(id), def)
        {
            self.distinct([def.decode.0, def.decode.1].into_iter());
            let _ = self.decoded_dtype(id);
        }
    }

    /// The element type of what is decoded.
    pub(crate) fn decoded_dtype(&mut self, id: EncodingId) -> Maybe<DType> {
        if let Some(known) = self.instances.decoded.get(&id) {
            return *known;
        }
        let dtype = self.make_decoder(id, 1, Span::default()).map(|(_, dtype)| dtype);
        self.instances.decoded.insert(id, dtype);
        dtype
    }

    /// The primitive that decodes tensors of a rank.
    fn decoder(&mut self, id: EncodingId, rank: usize, span: Span) -> Maybe<ir::PrimId> {
        if let Some(known) = self.instances.decoders.get(&(id, rank)) {
            return *known;
        }
        // What nothing decodes, no rule of the library is about.
        if self.only_known {
            return None;
        }
        let made = self.make_decoder(id, rank, span).map(|(prim, _)| self.add_prim(prim));
        self.instances.decoders.insert((id, rank), made);
        made
    }

    fn make_decoder(&mut self, id: EncodingId, rank: usize, span: Span) -> Maybe<(ir::loops::Prim, DType)> {
        let def = self.types.encoding(id);
        let layout = self.layout(id)?;
        let mut dims: Vec<Sym> = (1..rank).map(|i| Sym::new(&format!("s{}", i - 1))).collect();
        dims.push(Sym::new("blocks"));
        let mut shape: Vec<Dim> = dims.iter().map(|d| Dim::sym(*d)).collect();
        let mut env = self.env();
        dims.iter().for_each(|d| env.facts.assume_dim(*d));
        if let (Some(last), Block::Of(n)) = (shape.last_mut(), layout.block) {
            *last = Dim::int(n) * last.clone();
        }
        let ty = Rc::new(self.encoded_of(id, shape.clone(), span)?);
        let name = Ident { name: Sym::new(&format!("decode_{}", def.name.name)), span: def.name.span };
        let mut b = prim::Body::new(name, env, dims);
        let bufs = b.buffers(Sym::new("x"), &ty);
        b.prim.params.extend(&bufs);
        let mut loops = Vec::new();
        for (k, extent) in shape.iter().enumerate() {
            let var = b.variable(Sym::new(&format!("i{k}")), DType::I64);
            b.assume_range(var, &Scalar::int(0), &Scalar::dim(extent.clone()));
            loops.push(var);
        }
        let index: Vec<Scalar> = loops.iter().map(|v| b.var(*v)).collect();
        let value = self.decode(&mut b, &ty, 0, index.clone())?;
        let dtype = value.dtype;
        let out = b.buffer(Sym::new("y"), Type { dtype, shape: shape.clone() }, false);
        b.prim.outs.push(out);
        let store = Stmt::Store { buf: out, index, checked: false, combine: None, value, span };
        b.prim.body.push(prim::nest(&loops, shape, store));
        ir::depend::mark_loops(&mut b.prim);
        Some((b.prim, dtype))
    }

    /// An element of an encoded tensor whose fields begin with buffer `first`.
    pub(crate) fn decode(
        &mut self,
        b: &mut prim::Body,
        ty: &Rc<Ty>,
        first: u32,
        mut index: Vec<Scalar>,
    ) -> Maybe<Scalar> {
        let Ty::Encoded(e) = &**ty else { return None };
        let def = self.types.encoding(e.id);
        let layout = self.layout(e.id)?;
        let at = index.pop()?;
        let mut env = self.env();
        let inside = match layout.block {
            Block::Of(n) => {
                let by = |op| {
                    let args = vec![at.clone(), Scalar::int(n)];
                    Scalar { kind: ScalarKind::Op(op, args), dtype: DType::I64 }
                };
                index.push(by(ir::Intrinsic::Div));
                by(ir::Intrinsic::Rem)
            }
            Block::Row(n) => {
                env.dims.extend(e.shape.last().map(|d| (n, d.clone())));
                index.push(Scalar::int(0));
                at
            }
        };
        let block = prim::AccessPath::block(Rc::clone(ty), first, index);
        let facts = b.env.facts.clone();
        let outer = std::mem::replace(&mut b.env, Env { facts, ..env });
        let names = b.only(vec![(def.decode.0.name, block.into()), (def.decode.1.name, inside.into())]);
        let value = self.scalar(b, &def.value, None);
        b.again(names);
        b.env = outer;
        value
    }

    /// An encoded tensor as a tensor of numbers.
    pub(crate) fn decoded(
        &mut self,
        body: &mut Body,
        e: &Encoded,
        leaves: &[ValId],
        span: Span,
    ) -> Maybe<ValId> {
        let layout = self.layout(e.id)?;
        let prim = self.decoder(e.id, e.shape.len(), span)?;
        let dtype = self.decoded_dtype(e.id)?;
        let mut args = Vec::new();
        for leaf in leaves {
            let leaf_type = body.func.ty(*leaf).dtype;
            args.push(self.materialize(body, &Value::Val(*leaf), leaf_type, span)?);
        }
        let mut dims = e.shape.clone();
        if let (Some(last), Block::Of(_)) = (dims.last_mut(), layout.block) {
            *last = layout.block.count(last);
        }
        Some(body.push(Op::Prim(prim, dims), args, Type { dtype, shape: e.shape.clone() }, span))
    }

    /// `q8_0(scale=s, q=q)`: an encoded tensor from the fields of its blocks. `q8_0(x)` is one of numbers, which
    /// `quantize_q8_0` makes.
    pub(crate) fn encode(
        &mut self,
        body: &mut Body,
        id: EncodingId,
        dims: &[IndexArg],
        args: &[Arg],
        span: Span,
    ) -> Maybe<Value> {
        let def = self.types.encoding(id);
        let layout = self.layout(id)?;
        if let ([Arg { name: None, value }], true) = (args, def.fields.len() > 1 && dims.is_empty()) {
            return self.quantize(body, id, value, span);
        }
        let front = Sym::new("front");
        // Of blocks that are the whole axis there is one, and the axis is what their fields say.
        let axis = match layout.block {
            Block::Of(_) => Sym::new("blocks"),
            Block::Row(n) => n,
        };
        let field = |f: &Param| {
            let mut ty = f.ty.clone()?;
            let TypeKind::Named { dims, .. } = &mut ty.kind else { return None };
            let blocks = match layout.block {
                Block::Of(_) => name_expr(axis, f.span),
                Block::Row(_) => Expr { kind: ExprKind::Int(1), span: f.span },
            };
            let mut whole = vec![IndexArg::Spread(name_expr(front, f.span)), IndexArg::Expr(blocks)];
            whole.extend(dims.take().unwrap_or_default());
            *dims = Some(whole);
            Some(Param { mode: Mode::Plain, ty: Some(ty), default: None, ..f.clone() })
        };
        let generic =
            |kind, name| Generic { kind, name: Ident { name, span: def.name.span }, bounds: vec![] };
        let sig = Signature {
            name: def.name,
            generics: vec![generic(GenericKind::Pack, front), generic(GenericKind::Dim, axis)],
            params: def.fields.iter().map(field).collect::<Option<Vec<_>>>()?,
            wheres: vec![],
        };
        let actuals = self.actuals(body, args)?;
        let bound = self.bind(body, &sig, dims, actuals, span)?;
        let mut shape = bound.env.packs.get(&front)?.clone();
        let extent = bound.env.dims.get(&axis)?.clone();
        shape.push(match layout.block {
            Block::Of(n) => Dim::int(n) * extent,
            Block::Row(_) => extent,
        });
        let ty = self.encoded_of(id, shape, span)?;
        Some(Value::from_leaves(&ty, &bound.args))
    }

    /// Numbers brought into an encoding. What is in it already stays as it is.
    fn quantize(&mut self, body: &mut Body, id: EncodingId, e: &Expr, span: Span) -> Maybe<Value> {
        let value = self.expr(body, e)?;
        if let Value::Tree(tree) = &value
            && matches!(&*tree.ty, Ty::Encoded(e) if e.id == id)
        {
            return Some(value);
        }
        let name = self.types.encoding(id).name;
        let quantizer = Sym::new(&format!("quantize_{}", name.name));
        let Some(def) = self.defs.get(quantizer, name.span) else {
            let text =
                format!("numbers are brought into `{}` by `{quantizer}`, which is not there", name.name);
            let d = Diagnostic::error("E0201", span, text).label(name.span, "declared here");
            return self.fail(d.help("define it, or give the fields of the blocks by name"));
        };
        let arg = Actual { name: None, value, expr: None, span: e.span };
        self.call_def(body, def, &[], vec![arg], span)
    }

    /// How many elements are counted as one in the axes that a signature's types block: for each dim that is
    /// by itself the last axis of an encoded tensor.
    pub(crate) fn blocked(&mut self, types: &[Ty]) -> BTreeMap<Sym, i64> {
        fn go(t: &Ty, out: &mut Vec<(EncodingId, Sym)>) {
            match t {
                Ty::Tensor(_) | Ty::Fn => {}
                Ty::Encoded(e) => out.extend(e.shape.last().and_then(Dim::as_sym).map(|s| (e.id, s))),
                Ty::Several(s) => s.stacks.iter().for_each(|t| go(t, out)),
                Ty::Tuple(parts) => parts.iter().for_each(|t| go(t, out)),
                Ty::Record(r) => r.fields.iter().for_each(|f| go(&f.ty, out)),
                Ty::Array(_, of) => go(of, out),
            }
        }
        let mut found = Vec::new();
        types.iter().for_each(|t| go(t, &mut found));
        let mut blocks: BTreeMap<Sym, i64> = BTreeMap::new();
        for (id, sym) in found {
            let Some(Block::Of(of)) = self.layout(id).map(|l| l.block) else { continue };
            let n = blocks.entry(sym).or_insert(1);
            *n = lcm(*n, of);
        }
        blocks
    }
}

fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}
