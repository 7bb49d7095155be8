//! Calls: operators, definitions of every kind, conversions.
//!
//! On scalars an operator is an instruction; otherwise a call binds the callee's generics and becomes an
//! operation of an instance.

use std::collections::BTreeMap;

use ir::Intrinsic;
use ir::ast::{self, Arg, Expr, ExprKind, IndexArg, Signature, TypeKind, UnaryOp};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::loops::{Buf, BufId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::{Body, Lit, Value, is_template};
use crate::bind::{Actual, names_in};
use crate::conditions::condition_text;
use crate::defs::{Def, Shown};
use crate::instance::dims_of;
use crate::types::{Elem, Named, Ty};
use crate::{Checker, Maybe};

impl<'a> Checker<'a> {
    /// A call of a name with arguments as written.
    pub(super) fn call(
        &mut self,
        body: &mut Body,
        name: Sym,
        at: Span,
        dims: &[IndexArg],
        args: &[Arg],
        span: Span,
    ) -> Maybe<Value> {
        if let Some(Value::Fn(f)) = body.find(name).map(|l| l.value.clone()) {
            let args = self.arguments(body, args)?;
            return self.apply(body, &f, args, span);
        }
        if let Some(d) = body.env.dtype(name).filter(|_| dims.is_empty()) {
            return self.cast(body, Some(d), args, span);
        }
        if let Some(Elem::Encoded(id)) = body.env.encodings.get(&name).filter(|_| dims.is_empty()) {
            return self.encode(body, *id, dims, args, span);
        }
        if name.name() == "wide"
            && dims.is_empty()
            && body.find(name).is_none()
            && self.defs.get(name, at).is_none()
        {
            return self.cast(body, None, args, span);
        }
        if self.defs.get(name, at).is_none() && body.find(name).is_none() {
            match self.types.get(name) {
                Some(Named::Record(id)) => return self.construct(body, id, dims, args, span),
                Some(Named::Encoding(id)) => return self.encode(body, id, dims, args, span),
                None => {}
            }
        }
        let Some(def) = self.defs.get(name, at) else {
            let local = body.find(name).map(|l| matches!(l.value, Value::Unit));
            // The arguments have errors of their own to tell.
            for a in args {
                self.expr(body, &a.value);
            }
            // What could not be checked is no news.
            if local == Some(true) {
                return None;
            }
            if local.is_some() {
                let d = Diagnostic::error("E0307", at, format!("`{name}` is not a function"));
                return self.fail(d.help(format!("brackets take elements and parts: `{name}[0]`")));
            }
            return self.unknown(body, name, at);
        };
        // An attribute is no value: it is evaluated when it is bound.
        if self.defs.is_variadic(def)
            && let Some((Arg { name: None, value: Expr { kind: ExprKind::Array(items), .. } }, rest)) =
                args.split_first()
            && !(items.iter().all(is_literal) && self.operand_follows(body, def, rest))
        {
            return self.call_variadic(body, def, dims, (items, rest), span);
        }
        if self.defs.is_variadic(def) {
            self.several(body, def, args, span)?;
        }
        let forms = self.defs.forms(def);
        let is_const = |i: usize, a: &Arg| {
            let mut params = forms.iter().filter_map(|def| match a.name {
                Some(n) => def.sig().params.iter().find(|p| p.name.name == n.name),
                None => def.sig().params.get(i),
            });
            // Where one form has a tensor at this place and another an attribute, the attribute is given by name.
            params.next().is_some_and(|p| p.mode == ast::Mode::Const)
                && params.all(|p| p.mode == ast::Mode::Const)
        };
        let mut actuals: Maybe<Vec<Actual>> = Some(Vec::new());
        for (i, a) in args.iter().enumerate() {
            let actual = if is_const(i, a) {
                Some(Actual {
                    name: a.name,
                    value: Value::Unit,
                    expr: Some(a.value.clone()),
                    span: a.value.span,
                })
            } else {
                let value = self.expr(body, &a.value);
                value.map(|value| Actual { name: a.name, value, expr: None, span: a.value.span })
            };
            actuals = match (actuals, actual) {
                (Some(mut list), Some(a)) => {
                    list.push(a);
                    Some(list)
                }
                _ => None,
            };
        }
        self.call_def(body, def, dims, actuals?, span)
    }

    /// Refuses operands that should stand in an array: `concat(x, y, z, axis=1)`.
    fn several(&mut self, body: &Body, def: Def<'a>, args: &[Arg], span: Span) -> Maybe<()> {
        let sig = def.sig();
        let unnamed = args.iter().take_while(|a| a.name.is_none()).count();
        let is_operand = |a: &Arg| {
            let names = names_in(&a.value);
            names.into_iter().any(|n| body.find(n).is_some()) && body.env.constant(&a.value).is_err()
        };
        let operands = args[..unnamed].iter().skip(2).take_while(|a| is_operand(a)).count();
        if operands == 0 && unnamed <= sig.params.len() {
            return Some(());
        }
        let name = sig.name.name;
        let (list, rest) = args.split_at(if operands == 0 { unnamed } else { operands + 2 });
        let list: Vec<String> = list.iter().map(|a| condition_text(&a.value)).collect();
        let rest = rest.iter().map(|a| match a.name {
            Some(n) => format!(", {}={}", n.name, condition_text(&a.value)),
            None => format!(", {}", condition_text(&a.value)),
        });
        let text = format!("{name}: takes 2 operands, or an array of them, got {}", list.len());
        let form = format!("`{name}([{}]{})`", list.join(", "), rest.collect::<String>());
        let d = Diagnostic::error("E0304", span, text).label(sig.name.span, "defined here");
        self.fail(d.help(format!("several stand in an array: {form}")))
    }

    /// True if what comes behind an array is an operand, `concat([1.0, 2.0], y)`, and not an attribute,
    /// `concat([a, b], 1)`.
    fn operand_follows(&self, body: &Body, def: Def<'a>, rest: &[Arg]) -> bool {
        let [Arg { name: None, value }, ..] = rest else { return false };
        let attribute = def.sig().params.get(2).and_then(|p| p.ty.as_ref()).map(|t| &t.kind);
        match (attribute, body.env.constant(value)) {
            (Some(TypeKind::Named { name, .. }), Ok(c)) => c.fit(name.name.name()).is_none(),
            _ => true,
        }
    }

    /// `concat([a, b, c], axis=0)`: operands of types of their own, two at a time from the left.
    fn call_variadic(
        &mut self,
        body: &mut Body,
        def: Def<'a>,
        dims: &[IndexArg],
        (items, rest): (&[Expr], &[Arg]),
        span: Span,
    ) -> Maybe<Value> {
        let sig = def.sig();
        let [first, more @ ..] = items else {
            let text = format!("{}: an array of nothing", sig.name.name);
            return self.fail(Diagnostic::error("E0304", span, text));
        };
        // What comes after the array comes after the second operand.
        let mut others = Vec::new();
        for (i, a) in rest.iter().enumerate() {
            let p = match a.name {
                Some(n) => sig.params.iter().find(|p| p.name.name == n.name),
                None => sig.params.get(i + 2),
            };
            let is_const = p.is_some_and(|p| p.mode == ast::Mode::Const);
            let value = if is_const { Value::Unit } else { self.expr(body, &a.value)? };
            others.push(Actual { name: a.name, value, expr: Some(a.value.clone()), span: a.value.span });
        }
        let mut value = self.expr(body, first);
        let mut at = first.span;
        for e in more {
            let right = self.expr(body, e);
            let (l, r) = (value?, right?);
            let args = [positional(l, at), positional(r, e.span)]
                .into_iter()
                .chain(others.iter().cloned())
                .collect();
            value = self.call_def(body, def, dims, args, span);
            at = span;
        }
        value
    }

    /// A call of what an expression gives.
    pub(super) fn call_value(&mut self, body: &mut Body, f: &Expr, args: &[Arg], span: Span) -> Maybe<Value> {
        let callee = self.expr(body, f);
        let args = self.arguments(body, args);
        match callee? {
            Value::Fn(f) => self.apply(body, &f, args?, span),
            other => {
                let text = format!("only a function can be called, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", f.span, text))
            }
        }
    }

    /// Arguments as values.
    fn arguments(&mut self, body: &mut Body, args: &[Arg]) -> Maybe<Vec<Actual>> {
        let one = |a: &Arg| {
            let value = self.expr(body, &a.value)?;
            Some(Actual { name: a.name, value, expr: Some(a.value.clone()), span: a.value.span })
        };
        args.iter().map(one).collect::<Vec<_>>().into_iter().collect()
    }

    /// A call of an operator of the library.
    pub(crate) fn call_named(
        &mut self,
        body: &mut Body,
        name: Sym,
        at: Span,
        dims: &[IndexArg],
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        // On scalars an operator is an instruction, not a kernel.
        if let Some(op) = Intrinsic::named(name.name())
            && let Some(value) = self.scalar_op(body, op, &args, span)
        {
            return value;
        }
        let Some(def) = self.defs.operator(name) else { return self.unknown(body, name, at) };
        self.call_def(body, def, dims, args, span)
    }

    /// The operation if all arguments are scalars; the inner answer is none where they do not fit.
    fn scalar_op(
        &mut self,
        body: &mut Body,
        op: Intrinsic,
        args: &[Actual],
        span: Span,
    ) -> Option<Maybe<Value>> {
        let mut dtype = None;
        for a in args {
            match &a.value {
                Value::Val(v) if body.func.ty(*v).shape.is_empty() => {
                    let d = body.func.ty(*v).dtype;
                    if !(op == Intrinsic::Select && dtype.is_none() && d == DType::Bool) {
                        dtype = dtype.or(Some(d));
                    }
                }
                Value::Dim(_) | Value::Lit(_) => {}
                Value::Val(_)
                | Value::Tuple(_)
                | Value::Record(..)
                | Value::Tree(_)
                | Value::Literals(_)
                | Value::Fn(_)
                | Value::Unit => return None,
            }
        }
        let natural = |a: &Actual| if let Value::Lit(l) = &a.value { l.natural() } else { DType::I64 };
        // Dims stay integers beside floats, literals follow.
        let floats = args.iter().any(|a| matches!(a.value, Value::Lit(Lit::Float(_))));
        let dtype = dtype
            .unwrap_or_else(|| if floats { DType::F32 } else { args.first().map_or(DType::I64, natural) });
        let mut vals = Vec::new();
        for (i, a) in args.iter().enumerate() {
            let want = if op == Intrinsic::Select && i == 0 { DType::Bool } else { dtype };
            match self.materialize(body, &a.value, want, a.span) {
                Some(v) => vals.push(v),
                None => return Some(None),
            }
        }
        let types: Vec<DType> = vals.iter().map(|v| body.func.ty(*v).dtype).collect();
        Some(match op.result(&types) {
            Ok(d) => Some(Value::Val(body.push(Op::Scalar(op), vals, Type::scalar(d), span))),
            Err(text) => {
                let d = Diagnostic::error("E0303", span, text);
                let float = types.iter().find(|t| t.is_float());
                let mixed = types.iter().any(|t| t.is_int()) && float.is_some();
                self.fail(match float {
                    Some(t) if mixed => d.help(format!("convert one of them: `{t}(..)`")),
                    None if types.iter().all(|t| t.is_int()) && op.arity() == 1 => {
                        d.help("convert it: `f32(..)`")
                    }
                    _ => d,
                })
            }
        })
    }

    pub(crate) fn call_def(
        &mut self,
        body: &mut Body,
        def: Def<'a>,
        dims: &[IndexArg],
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        // What is stored in several ways is taken in each of them.
        let several = args.iter().enumerate().find_map(|(i, a)| match &a.value {
            Value::Tree(t) => matches!(&*t.ty, Ty::Several(s) if s.front.is_empty()).then(|| (i, t.clone())),
            _ => None,
        });
        if let Some((i, tree)) = several
            && let Ty::Several(s) = &*tree.ty
        {
            return self.each_way(body, (s, &tree.leaves), span, &mut |c, body, value| {
                let mut args = args.clone();
                args[i].value = value;
                c.call_def(body, def, dims, args, span)
            });
        }
        let def = self.fitting(body, def, &args);
        if let Some(moved) = self.each_field(body, def, dims, &args, span) {
            return moved;
        }
        let sig = def.sig();
        let ours = self.defs.is_library(def);
        if ours
            && matches!(def, Def::Prim(_))
            && let Some(op) = Intrinsic::named(sig.name.name.name())
            && args.iter().all(|a| a.name.is_none())
            && args.len() == op.arity()
            && let Some(value) = self.scalar_op(body, op, &args, span)
        {
            return value;
        }
        let said = self.diagnostics.len();
        let value = self.instantiate(body, def, dims, args, span);
        if value.is_none() {
            self.blame(said, span);
        }
        value
    }

    /// The form of a definition that fits some arguments, where it has several.
    fn fitting(&self, body: &Body, def: Def<'a>, args: &[Actual]) -> Def<'a> {
        let shown = |a: &Actual| Shown {
            name: a.name.map(|n| n.name),
            rank: match &a.value {
                Value::Val(v) => Some(body.func.ty(*v).shape.len()),
                Value::Dim(_) | Value::Lit(_) => Some(0),
                _ => None,
            },
        };
        self.defs.fitting(def, &args.iter().map(shown).collect::<Vec<_>>())
    }

    /// What is wrong inside a definition of another file is wrong because of the call. Of the library's, which nobody
    /// is about to mend, the first is enough: the others follow from it.
    pub(crate) fn blame(&mut self, said: usize, call: Span) {
        if let Some(first) = (said..self.diagnostics.len()).find(|&i| {
            let at = self.diagnostics[i].span();
            at.file != call.file && self.defs.in_library(at)
        }) {
            let mut place = 0..;
            let defs = &self.defs;
            self.diagnostics.retain(|d| {
                let i = place.next().expect("endless");
                i <= first || d.span().file == call.file || !defs.in_library(d.span())
            });
        }
        for d in &mut self.diagnostics[said..] {
            if d.span().file != call.file {
                d.labels.insert(0, ir::diag::Label { span: call, text: "in this call".to_owned() });
            }
        }
    }

    fn instantiate(
        &mut self,
        body: &mut Body,
        def: Def<'a>,
        dims: &[IndexArg],
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        let sig = def.sig();
        if let Def::Fn(def, _) = def
            && is_template(&self.types, def)
        {
            return self.expand(body, def, dims, args, span);
        }
        let mut bound = self.bind(body, sig, dims, args, span)?;
        let outs = if let Def::Prim(d) = def { &d.outs[..] } else { &[] };
        self.count_blocks(sig, outs, &mut bound.env);
        for (name, n) in bound.env.blocks.clone() {
            let Some(d) = bound.env.dims.get(&name).cloned() else { continue };
            let text = format!("{}: {name} must be whole blocks of {n}, and is {d}", sig.name.name);
            let wrong = Diagnostic::error("E0301", span, text.clone())
                .label(sig.name.span, "blocks are counted here");
            self.require(body, Pred::Divides(Dim::int(n), d), span, &text, wrong)?;
        }
        let dims = dims_of(sig, &bound.env);
        match def {
            Def::Prim(def) => {
                let said = self.diagnostics.len();
                let Some(id) = self.prim_instance(def, &bound.env) else {
                    self.made_by(said, sig, &bound.env, span);
                    return None;
                };
                let prim = self.module.prim(id);
                let types = output_types(&prim.dims, &dims, &prim.bufs, &prim.outs);
                self.extents(body, sig, &types, span)?;
                let prim = self.module.prim(id);
                let map: BTreeMap<Sym, Dim> = prim.dims.iter().copied().zip(dims.iter().cloned()).collect();
                let ty = self.instances.outs.get(&id).map(|t| t.subst(&|s| map.get(&s).cloned()));
                let vals = body.push_all(Op::Prim(id, dims), bound.args, types, vec![], span);
                Some(ty.map_or_else(|| tuple(vals.clone()), |ty| Value::from_leaves(&ty, &vals)))
            }
            Def::Extern(def) => {
                let id = self.extern_instance(def)?;
                let ext = self.module.extern_(id);
                let types = output_types(&ext.dims, &dims, &ext.bufs, &ext.outs);
                self.extents(body, sig, &types, span)?;
                Some(tuple(body.push_all(Op::Extern(id, dims), bound.args, types, vec![], span)))
            }
            Def::Fn(def, item) => {
                let id = self.func_instance(def, item, &bound.env, Some(span))?;
                let callee = self.module.func(id);
                let mut map: BTreeMap<Sym, Dim> =
                    callee.dims.iter().copied().zip(dims.iter().cloned()).collect();
                let mut opens = Vec::new();
                for (sym, _) in &callee.exists {
                    let fresh = body.fresh_dim(*sym);
                    map.insert(*sym, Dim::sym(fresh));
                    opens.push(fresh);
                }
                for fact in callee.exists.iter().flat_map(|e| &e.1) {
                    body.env.facts.assume(fact.subst(&|s| map.get(&s).cloned()));
                }
                let types = callee.result_types.iter().map(|t| t.subst(&|s| map.get(&s).cloned())).collect();
                let ty = self.instances.results.get(&id).map(|t| t.subst(&|s| map.get(&s).cloned()));
                let vals = body.push_all(Op::Call(id, dims), bound.args, types, opens, span);
                Some(ty.map_or_else(|| tuple(vals.clone()), |ty| Value::from_leaves(&ty, &vals)))
            }
        }
    }

    /// The extents that a call gives are none of them negative.
    fn extents(&mut self, body: &mut Body, sig: &Signature, types: &[Type], span: Span) -> Maybe<()> {
        let what = || format!("{}: an extent of the result", sig.name.name);
        types.iter().flat_map(|t| &t.shape).try_for_each(|d| self.not_negative(body, d, &what, span))
    }

    /// `f32(x)`; without a type `wide(x)`, which gives the type that sums of such values are kept in.
    pub(super) fn cast(
        &mut self,
        body: &mut Body,
        to: Option<DType>,
        args: &[Arg],
        span: Span,
    ) -> Maybe<Value> {
        let [arg] = args else {
            let name = to.map_or("wide", DType::name);
            return self.fail(
                Diagnostic::error("E0304", span, format!("{name}: takes 1 argument, got {}", args.len()))
                    .help("it converts one value; convert each of several"),
            );
        };
        let value = self.expr(body, &arg.value)?;
        let dtype = match to {
            Some(d) => d,
            None => self.value_type(body, &value, arg.value.span)?.dtype.wide(),
        };
        let val = match &value {
            Value::Lit(Lit::Float(_)) if dtype.is_float() => {
                return self.materialize(body, &value, dtype, span).map(Value::Val);
            }
            Value::Dim(d) if d.as_int().is_some() => {
                return self.materialize(body, &value, dtype, span).map(Value::Val);
            }
            Value::Lit(l) => self.materialize(body, &value, l.natural(), span)?,
            Value::Literals(list) => {
                let natural = if list.tensor(dtype).is_some() { dtype } else { list.natural() };
                self.materialize(body, &value, natural, span)?
            }
            value => self.materialize(body, value, DType::I64, span)?,
        };
        self.as_type(body, val, dtype, (arg.value.span, span))
    }

    /// A tensor converted to an element type. `at`: where it is, and where it is converted.
    pub(super) fn as_type(
        &mut self,
        body: &mut Body,
        val: ValId,
        to: DType,
        at: (Span, Span),
    ) -> Maybe<Value> {
        let (arg, span) = at;
        let ty = body.func.ty(val).clone();
        if ty.dtype == to {
            return Some(Value::Val(val));
        }
        if ty.shape.is_empty() {
            return Some(Value::Val(body.push(Op::Cast, vec![val], Type::scalar(to), span)));
        }
        let name = Expr { kind: ExprKind::Name(Sym::new(to.name())), span };
        let Some(def) = self.defs.operator(Sym::new("cast")) else {
            return self.unknown(body, Sym::new("cast"), span);
        };
        self.call_def(body, def, &[IndexArg::Expr(name)], vec![positional(Value::Val(val), arg)], span)
    }
}

/// The types of a callee's outputs where its dims are what a call gives.
fn output_types(syms: &[Sym], dims: &[Dim], bufs: &[Buf], outs: &[BufId]) -> Vec<Type> {
    let given = |s: Sym| syms.iter().position(|x| *x == s).map(|i| dims[i].clone());
    let ty = |b: &Buf| Type { dtype: b.dtype, shape: b.shape.clone() }.subst(&given);
    outs.iter().map(|o| ty(&bufs[o.0 as usize])).collect()
}

/// An argument without a name.
pub(super) fn positional(value: Value, span: Span) -> Actual {
    Actual { name: None, value, expr: None, span }
}

fn tuple(vals: Vec<ValId>) -> Value {
    match vals.as_slice() {
        [v] => Value::Val(*v),
        _ => Value::Tuple(vals.into_iter().map(Value::Val).collect()),
    }
}

/// True for a number as it is written, and an array of them.
fn is_literal(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(..) | ExprKind::Bool(_) => true,
        ExprKind::Paren(e) | ExprKind::Unary(UnaryOp::Neg, e) => is_literal(e),
        ExprKind::Array(items) => items.iter().all(is_literal),
        _ => false,
    }
}
