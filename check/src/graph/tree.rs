//! Aggregates, values that are more than one tensor: fields, elements of arrays, literals of arrays, records made.

use std::rc::Rc;

use ir::ast::{Arg, Expr, Generic, GenericKind, Ident, IndexArg, Mode, Param, RecordDef, Signature};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::source::Span;
use shape::{Expr as Dim, Facts, Sym};
use tensor::{DType, Tensor};

use super::call::positional;
use super::{Body, Lit, Value};
use crate::bind::Actual;
use crate::types::{Arg as Generics, RecordId, Ty};
use crate::{Checker, Maybe};

/// A value of a tree type: its leaves, in order.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) ty: Rc<Ty>,
    pub(crate) leaves: Vec<ValId>,
}

/// An array of literals.
#[derive(Clone, Debug)]
pub(crate) struct Literals {
    shape: Vec<i64>,
    numbers: Vec<Number>,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Literals {
    /// The element type where nothing else decides.
    pub(crate) fn natural(&self) -> DType {
        let has = |f: fn(&Number) -> bool| self.numbers.iter().any(f);
        if has(|n| matches!(n, Number::Float(_))) {
            DType::F32
        } else if has(|n| matches!(n, Number::Bool(_))) {
            DType::Bool
        } else {
            DType::I64
        }
    }

    /// How many axes it has.
    pub(crate) fn shape(&self) -> Vec<Dim> {
        self.shape.iter().map(|d| Dim::int(*d)).collect()
    }

    /// The numbers, where all are integers.
    pub(crate) fn ints(&self) -> Option<Vec<i64>> {
        self.numbers.iter().map(|n| if let Number::Int(i) = n { Some(*i) } else { None }).collect()
    }

    /// Why it is no tensor of integers of an element type, of the first integer that is none.
    pub(crate) fn too_large(&self, dtype: DType) -> Option<String> {
        let beyond = |n: &Number| match n {
            Number::Int(i) if dtype.is_int() && dtype.wrap(*i) != *i => Some(*i),
            _ => None,
        };
        let i = self.numbers.iter().find_map(beyond)?;
        Some(format!("{i} does not fit in `{dtype}`"))
    }

    /// The tensor of an element type, where each literal is one of it.
    pub(crate) fn tensor(&self, dtype: DType) -> Option<Tensor> {
        let mut bytes = Vec::new();
        for n in &self.numbers {
            let one = match *n {
                Number::Int(i) if dtype.is_float() => Tensor::scalar_f(dtype, i as f64),
                Number::Int(i) if dtype.is_int() && dtype.wrap(i) == i => Tensor::scalar_i(dtype, i),
                Number::Float(x) if dtype.is_float() => Tensor::scalar_f(dtype, x),
                Number::Bool(b) if dtype == DType::Bool => Tensor::scalar_i(dtype, i64::from(b)),
                _ => return None,
            };
            bytes.extend_from_slice(one.bytes());
        }
        Tensor::from_bytes(dtype, &self.shape, &bytes).ok()
    }
}

impl Value {
    /// A value of a type from its leaves.
    pub(crate) fn from_leaves(ty: &Ty, leaves: &[ValId]) -> Value {
        match ty {
            Ty::Tensor(_) => Value::Val(leaves[0]),
            Ty::Tuple(parts) => {
                let mut at = 0;
                let part = |t: &Ty| {
                    let from = at;
                    at += t.count();
                    Value::from_leaves(t, &leaves[from..at])
                };
                Value::Tuple(parts.iter().map(part).collect())
            }
            Ty::Record(_) | Ty::Encoded(_) | Ty::Several(_) | Ty::Array(..) | Ty::Fn => {
                Value::Tree(Tree { ty: Rc::new(ty.clone()), leaves: leaves.to_vec() })
            }
        }
    }
}

/// What stands in the place of what tensors of other languages have.
fn no_field_of_a_tensor(d: Diagnostic, name: &str, shape: &[Dim]) -> Diagnostic {
    if matches!(name, "shape" | "size" | "len") && !shape.is_empty() {
        let axes: Vec<String> = shape.iter().enumerate().map(|(i, e)| format!("axis {i} is `{e}`")).collect();
        return d.help(format!("its extents are dims, which are numbers in the body: {}", axes.join(", ")));
    }
    match ir::diag::elsewhere(name) {
        Some(hint) => d.help(hint),
        None => d.help("a tensor has no fields but `T`; operators are called by name: `exp(x)`"),
    }
}

impl<'a> Checker<'a> {
    /// `value.field`
    pub(super) fn field(
        &mut self,
        body: &mut Body,
        value: Value,
        at: Span,
        field: Ident,
        span: Span,
    ) -> Maybe<Value> {
        let name = field.name.name();
        match &value {
            Value::Tree(t) => {
                if let Some((ty, before)) = t.ty.field(name) {
                    return Some(Value::from_leaves(&ty, &t.leaves[before..before + ty.count()]));
                }
                // What is no field may be a generic of the record.
                if let Ty::Record(r) = &*t.ty
                    && let Some(Generics::Dim(d)) = self.types.generic(r, field.name)
                {
                    return Some(Value::Dim(d.clone()));
                }
            }
            Value::Record(r, parts) => {
                if let Some(at) = r.fields.iter().position(|f| f.name == field.name) {
                    return parts.get(at).cloned();
                }
                if let Some(Generics::Dim(d)) = self.types.generic(r, field.name) {
                    return Some(Value::Dim(d.clone()));
                }
            }
            Value::Tuple(parts) => {
                if let Some(v) = name.parse::<usize>().ok().and_then(|i| parts.get(i)) {
                    return Some(v.clone());
                }
            }
            _ => {}
        }
        let tensor = match &value {
            Value::Val(_) | Value::Literals(_) => true,
            Value::Tree(t) => matches!(*t.ty, Ty::Encoded(_) | Ty::Several(_)),
            _ => false,
        };
        if name == "T" && tensor {
            return self.call_named(
                body,
                Sym::new("transpose"),
                span,
                &[],
                vec![positional(value, at)],
                span,
            );
        }
        let text = match &value {
            Value::Tuple(parts) => {
                format!("a tuple of {} has no `{name}`", ir::diag::count(parts.len(), "part"))
            }
            Value::Tree(t) => format!("`{}` has no field `{name}`", t.ty),
            Value::Record(r, _) => format!("`{}` has no field `{name}`", r.name),
            v => format!("{} has no field `{name}`", v.kind()),
        };
        let d = Diagnostic::error("E0201", field.span, text);
        if let Value::Tuple(parts) = &value {
            return self.fail(match parts.len() {
                0 => d,
                2 => d.help("its parts are `.0` and `.1`"),
                n => d.help(format!("its parts are `.0` to `.{}`", n - 1)),
            });
        }
        let names = match &value {
            Value::Tree(t) => Some(t.ty.field_names()),
            Value::Record(r, _) => Some(r.fields.iter().map(|f| f.name.to_string()).collect()),
            _ => None,
        };
        let Some(names) = names else {
            let shape = match &value {
                Value::Val(v) => body.func.ty(*v).shape.clone(),
                _ => vec![],
            };
            return self.fail(no_field_of_a_tensor(d, name, &shape));
        };
        self.fail(match ir::diag::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("its fields are {}", names.join(", "))),
        })
    }

    /// `value[i, j]`: elements of an array, rows of each leaf.
    pub(super) fn index_value(
        &mut self,
        body: &mut Body,
        value: Value,
        args: &[IndexArg],
        span: Span,
    ) -> Maybe<Value> {
        if let Value::Tuple(parts) = &value
            && value.has_function()
        {
            return self.index_functions(body, parts, args, span);
        }
        let Value::Tree(tree) = &value else {
            return self.index_tensor(body, &value, args, span);
        };
        if matches!(&*tree.ty, Ty::Several(s) if s.front.is_empty()) {
            return self.index_tensor(body, &value, args, span);
        }
        // Parts that are not whole rows are parts of the numbers it stands for.
        if let Ty::Encoded(e) = &*tree.ty
            && (args.len() >= e.shape.len() || args.iter().any(|a| !matches!(a, IndexArg::Expr(_))))
        {
            return self.index_tensor(body, &value, args, span);
        }
        let mut ty = (*tree.ty).clone();
        let mut leaves = tree.leaves.clone();
        for arg in args {
            let IndexArg::Expr(e) = arg else {
                return self.fail(Diagnostic::error(
                    "E0403",
                    span,
                    format!("`{ty}` is taken one element at a time"),
                ));
            };
            let index = self.expr(body, e)?;
            let several = match &index {
                Value::Val(v) => !body.func.ty(*v).shape.is_empty(),
                Value::Literals(_) => true,
                _ => false,
            };
            if several && matches!(ty, Ty::Encoded(_)) {
                return self.index_tensor(body, &value, args, span);
            }
            if several {
                let text = format!("`{ty}` is taken one element at a time");
                return self.fail(Diagnostic::error("E0403", e.span, text));
            }
            let Some(inner) = ty.element() else {
                let text = format!("`{ty}` is {} and has no elements", ty.kind());
                return self.fail(Diagnostic::error("E0403", span, text));
            };
            for (leaf, _) in leaves.iter_mut().zip(ty.placed()).filter(|(_, placed)| *placed) {
                *leaf = self.row_of(body, *leaf, &index, e.span)?;
            }
            ty = inner;
        }
        Some(Value::from_leaves(&ty, &leaves))
    }

    /// An element of an array that holds functions: which one must be known here.
    fn index_functions(
        &mut self,
        body: &mut Body,
        parts: &[Value],
        args: &[IndexArg],
        span: Span,
    ) -> Maybe<Value> {
        let Some((IndexArg::Expr(e), rest)) = args.split_first() else {
            let text = "an array of functions is taken one element at a time";
            return self.fail(Diagnostic::error("E0403", span, text));
        };
        let Value::Dim(d) = self.expr(body, e)? else {
            let d = Diagnostic::error("E0307", e.span, "which function this is must be known when compiling");
            return self.fail(d.help("choose it with `if`, or go through all of them: `for f in fs`"));
        };
        let Some(i) = d.as_int() else {
            let text = format!("which function this is must be known when compiling, and `{d}` is not");
            let d = Diagnostic::error("E0307", e.span, text);
            return self.fail(d.help("choose it with `if`, or go through all of them: `for f in fs`"));
        };
        let count = parts.len() as i64;
        let at = if i < 0 { i + count } else { i };
        let Some(part) = usize::try_from(at).ok().and_then(|at| parts.get(at)) else {
            let text = format!("index {i} is out of bounds for {}", ir::diag::count(parts.len(), "element"));
            return self.fail(Diagnostic::error("E0401", e.span, text));
        };
        if rest.is_empty() { Some(part.clone()) } else { self.index_value(body, part.clone(), rest, span) }
    }

    /// The extent of the first axis of what has one: of a tensor, an array, an encoded tensor.
    pub(super) fn first_extent(&mut self, body: &Body, value: &Value, span: Span) -> Maybe<Option<Dim>> {
        match value {
            Value::Tree(t) => match &*t.ty {
                Ty::Array(k, _) => Some(Some(k.clone())),
                Ty::Encoded(e) if e.shape.len() > 1 => Some(e.shape.first().cloned()),
                Ty::Several(s) if !s.front.is_empty() => Some(s.front.first().cloned()),
                other => {
                    let text = format!("`{other}` is {} and has no elements to go through", other.kind());
                    self.fail(Diagnostic::error("E0307", span, text))
                }
            },
            Value::Val(v) => Some(body.func.ty(*v).shape.first().cloned()),
            Value::Literals(list) => Some(list.shape().first().cloned()),
            _ => Some(None),
        }
    }

    /// The element of an array, or the row of a tensor, at an index.
    pub(super) fn element(
        &mut self,
        body: &mut Body,
        value: &Value,
        index: &Value,
        span: Span,
    ) -> Maybe<Value> {
        let Value::Tree(tree) = value else {
            let dtype = self.value_type(body, value, span)?.dtype;
            let val = self.materialize(body, value, dtype, span)?;
            return self.row_of(body, val, index, span).map(Value::Val);
        };
        let ty = tree.ty.element()?;
        let each = tree.leaves.iter().zip(tree.ty.placed());
        let rows = each.map(|(v, placed)| if placed { self.row_of(body, *v, index, span) } else { Some(*v) });
        Some(Value::from_leaves(&ty, &rows.collect::<Maybe<Vec<_>>>()?))
    }

    /// `[a, b, c]`: literals are a constant, other values are stacked along a new first axis.
    pub(super) fn array(&mut self, body: &mut Body, items: &[Expr], span: Span) -> Maybe<Value> {
        if items.is_empty() {
            let d = Diagnostic::error("E0307", span, "an empty array has no element type");
            return self.fail(d.help("write its shape: `zeros[0]`"));
        }
        let values: Vec<Maybe<Value>> = items.iter().map(|e| self.expr(body, e)).collect();
        let values = values.into_iter().collect::<Maybe<Vec<_>>>()?;
        if let Some(list) = literals(&values) {
            return Some(Value::Literals(Rc::new(list)));
        }
        // Functions, and what holds some, stay a list of values.
        if let Some(first) = values.iter().find(|v| v.has_function()) {
            for (v, e) in values.iter().zip(items) {
                if v.kind() != first.kind() {
                    let text = format!("an array holds {}, and this is {}", first.kind(), v.kind());
                    let d = Diagnostic::error("E0309", e.span, text);
                    return self.fail(d.help("its elements are alike; a tuple holds what differs"));
                }
                self.same_kind(body, first, v, e.span, "this array")?;
            }
            return Some(Value::Tuple(values));
        }
        let mut parts = values.iter().zip(items).map(|(v, e)| (v, e.span));
        let (first, _) = parts.next()?;
        let like = values.iter().find(|v| !matches!(v, Value::Lit(_) | Value::Dim(_) | Value::Literals(_)));
        let ty = self.value_ty(body, like.unwrap_or(first), span)?;
        // Leaf by leaf, each as in the first value.
        let mut columns: Vec<Vec<ValId>> = vec![vec![]; ty.count()];
        let mut types: Vec<Type> = Vec::new();
        for (v, e) in values.iter().zip(items) {
            let mut leaves = Vec::new();
            self.leaves_like(body, v, &ty, e.span, "this element of an array", &mut leaves)?;
            for (k, leaf) in leaves.iter().enumerate() {
                let got = body.func.ty(*leaf).clone();
                match types.get(k).cloned() {
                    Some(want) => self.same_type(body, &want, &got, e.span, "this element of an array")?,
                    None => types.push(got),
                }
                columns[k].push(*leaf);
            }
        }
        if ty.placed().contains(&false) {
            let text = format!("`{ty}` holds tensors that are stored in several ways, and makes no array");
            return self.fail(Diagnostic::error("E0307", span, text));
        }
        let count = Dim::int(items.len() as i64);
        let mut stacked = Vec::new();
        for (vals, ty) in columns.into_iter().zip(types) {
            stacked.push(self.stack(body, vals, &ty, span));
        }
        Some(Value::from_leaves(&ty.stacked(count), &stacked))
    }

    /// Values of one type along a new first axis.
    fn stack(&mut self, body: &mut Body, vals: Vec<ValId>, ty: &Type, span: Span) -> ValId {
        let key = (vals.len(), ty.dtype, ty.shape.len());
        let id = match self.instances.stacks.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.add_prim(stack_prim(vals.len(), ty.dtype, ty.shape.len(), span));
                self.instances.stacks.insert(key, id);
                id
            }
        };
        let shape = std::iter::once(Dim::int(vals.len() as i64)).chain(ty.shape.iter().cloned()).collect();
        body.push(Op::Prim(id, ty.shape.clone()), vals, Type { dtype: ty.dtype, shape }, span)
    }

    /// The type of a value.
    pub(crate) fn value_ty(&mut self, body: &Body, value: &Value, span: Span) -> Maybe<Ty> {
        match value {
            Value::Tree(t) => Some((*t.ty).clone()),
            Value::Record(r, _) => Some(Ty::Record((**r).clone())),
            Value::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.value_ty(body, p, span)).collect::<Maybe<Vec<_>>>()?;
                Some(Ty::Tuple(parts))
            }
            value => self.value_type(body, value, span).map(Ty::Tensor),
        }
    }

    /// The leaves of a value that must be of a type, dims aside; literals take theirs from it.
    pub(crate) fn leaves_like(
        &mut self,
        body: &mut Body,
        value: &Value,
        want: &Ty,
        span: Span,
        what: &str,
        out: &mut Vec<ValId>,
    ) -> Maybe<()> {
        match (want, value) {
            (Ty::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                types.iter().zip(parts).try_for_each(|(t, v)| self.leaves_like(body, v, t, span, what, out))
            }
            (Ty::Tensor(want), Value::Val(_) | Value::Dim(_) | Value::Lit(_) | Value::Literals(_)) => {
                out.push(self.materialize(body, value, want.dtype, span)?);
                Some(())
            }
            (Ty::Tensor(want), Value::Tree(t)) if matches!(*t.ty, Ty::Encoded(_) | Ty::Several(_)) => {
                out.push(self.materialize(body, value, want.dtype, span)?);
                Some(())
            }
            (Ty::Record(_) | Ty::Encoded(_) | Ty::Several(_) | Ty::Array(..) | Ty::Fn, value) => {
                out.extend(self.tree_like(body, value, want, span, what)?.leaves);
                Some(())
            }
            (Ty::Tuple(_) | Ty::Tensor(_), value) => self.unlike(body, value, want, span, what),
        }
    }

    /// A value that must be a tree of a type, dims aside; its leaves are in use.
    pub(crate) fn tree_like(
        &mut self,
        body: &mut Body,
        value: &Value,
        want: &Ty,
        span: Span,
        what: &str,
    ) -> Maybe<Tree> {
        match value {
            Value::Tree(t) if t.ty.like(want) => {
                for leaf in &t.leaves {
                    let dtype = body.func.ty(*leaf).dtype;
                    self.materialize(body, &Value::Val(*leaf), dtype, span)?;
                }
                Some(t.clone())
            }
            value => self.unlike(body, value, want, span, what),
        }
    }

    /// Says that a value is of another type.
    pub(crate) fn unlike<T>(
        &mut self,
        body: &Body,
        value: &Value,
        want: &Ty,
        span: Span,
        what: &str,
    ) -> Maybe<T> {
        if matches!(value, Value::Unit) {
            let text = format!("{what}: `{want}` is needed, and this is no value");
            return self.fail(Diagnostic::error("E0311", span, text));
        }
        let got = self.value_ty(body, value, span)?;
        let code =
            if matches!(want, Ty::Encoded(_)) && matches!(got, Ty::Tensor(_)) { "E0303" } else { "E0307" };
        let d = Diagnostic::error(code, span, format!("{what}: `{want}` is needed, got `{got}`"));
        self.fail(match (want, &got) {
            (Ty::Encoded(e), Ty::Tensor(_)) => {
                d.help(format!("encode it: `{}(..)` takes the fields of its blocks", e.name))
            }
            (Ty::Record(_), Ty::Record(_)) => d.help("records are equal by name and by their generics"),
            _ => d,
        })
    }

    /// The arguments of a call, all of them values.
    pub(crate) fn actuals(&mut self, body: &mut Body, args: &[Arg]) -> Maybe<Vec<Actual>> {
        let value = |a: &Arg| {
            let value = self.expr(body, &a.value);
            value.map(|value| Actual { name: a.name, value, expr: None, span: a.value.span })
        };
        let values: Vec<Maybe<Actual>> = args.iter().map(value).collect();
        values.into_iter().collect()
    }

    /// `Layer(norm1=x, q=y)`
    pub(super) fn construct(
        &mut self,
        body: &mut Body,
        id: RecordId,
        dims: &[IndexArg],
        args: &[Arg],
        span: Span,
    ) -> Maybe<Value> {
        let def = self.types.record(id);
        let holds: Vec<bool> = def.fields.iter().map(|f| self.types.holds_function(&f.ty)).collect();
        let fields = def.fields.iter().zip(&holds).filter(|(_, holds)| !**holds).map(|(f, _)| f);
        let params = fields.map(|f| Param {
            mode: Mode::Plain,
            name: f.name,
            ty: Some(f.ty.clone()),
            default: None,
            span: f.name.span,
        });
        // What a record may hold, its maker takes: encodings as well as numbers.
        let any = |g: &Generic| {
            let all = vec![Ident { name: Sym::new("any"), span: g.name.span }];
            let bounds =
                if g.bounds.is_empty() && g.kind == GenericKind::DType { all } else { g.bounds.clone() };
            Generic { bounds, ..g.clone() }
        };
        let sig = Signature {
            name: def.name,
            generics: def.generics.iter().map(any).collect(),
            params: params.collect(),
            wheres: vec![],
        };
        let mut actuals = self.actuals(body, args)?;
        let held = self.held_fields(def, &holds, &mut actuals, span)?;
        let bound = self.bind(body, &sig, dims, actuals, span)?;
        let mut generics = Vec::new();
        for g in &sig.generics {
            generics.push(match g.kind {
                GenericKind::DType => {
                    let e = bound.env.bound_elem(g.name.name)?;
                    Generics::Elem(e, self.elem_name(e))
                }
                GenericKind::Dim | GenericKind::Pack => {
                    Generics::Dim(bound.env.dims.get(&g.name.name)?.clone())
                }
            });
        }
        let ty = self.record_of(id, generics)?;
        let Ty::Record(r) = &ty else { return None };
        if held.is_empty() {
            return Some(Value::from_leaves(&ty, &bound.args));
        }
        let mut leaves = bound.args.iter().copied();
        let mut held = held.into_iter();
        let mut parts = Vec::new();
        for ((f, field), holds) in def.fields.iter().zip(&r.fields).zip(holds) {
            parts.push(match holds {
                true => {
                    let (value, at) = held.next()?;
                    let env = bound.env.clone();
                    let what = format!("{}: `{}`", def.name.name, f.name.name);
                    body.in_own_scope(env, |body| self.annotated(body, value, Some(&f.ty), &what, at))?
                }
                false => {
                    let vals: Vec<ValId> = leaves.by_ref().take(field.ty.count()).collect();
                    Value::from_leaves(&field.ty, &vals)
                }
            });
        }
        Some(Value::Record(Rc::new(r.clone()), parts))
    }

    /// Takes the arguments that are for fields that hold functions, in the order of the fields; the others get the
    /// names of theirs.
    fn held_fields(
        &mut self,
        def: &RecordDef,
        holds: &[bool],
        actuals: &mut Vec<Actual>,
        span: Span,
    ) -> Maybe<Vec<(Value, Span)>> {
        if !holds.contains(&true) {
            return Some(vec![]);
        }
        let mut found: Vec<Option<(Value, Span)>> = vec![None; def.fields.len()];
        let mut plain = Vec::new();
        for (i, mut a) in std::mem::take(actuals).into_iter().enumerate() {
            let at = match a.name {
                Some(name) => def.fields.iter().position(|f| f.name.name == name.name),
                None => Some(i),
            };
            match at {
                Some(at) if holds.get(at) == Some(&true) => {
                    if found[at].replace((a.value, a.span)).is_some() {
                        let text =
                            format!("{}: `{}` is given twice", def.name.name, def.fields[at].name.name);
                        return self.fail(Diagnostic::error("E0304", a.span, text));
                    }
                }
                at => {
                    a.name = a.name.or(at.and_then(|at| def.fields.get(at)).map(|f| f.name));
                    plain.push(a);
                }
            }
        }
        *actuals = plain;
        let mut held = Vec::new();
        for ((f, value), _) in def.fields.iter().zip(found).zip(holds).filter(|(_, holds)| **holds) {
            let Some(value) = value else {
                let text = format!("{}: argument `{}` is missing", def.name.name, f.name.name);
                let d = Diagnostic::error("E0304", span, text);
                return self.fail(d.label(f.name.span, "this field"));
            };
            held.push(value);
        }
        Some(held)
    }
}

/// Values that are all literals, or arrays of literals of one shape, as one.
fn literals(values: &[Value]) -> Option<Literals> {
    let mut shape: Option<Vec<i64>> = None;
    let mut numbers = Vec::new();
    for v in values {
        let (inner, new) = match v {
            Value::Dim(d) => (vec![], vec![Number::Int(d.as_int()?)]),
            Value::Lit(Lit::Float(x)) => (vec![], vec![Number::Float(*x)]),
            Value::Lit(Lit::Bool(b)) => (vec![], vec![Number::Bool(*b)]),
            Value::Literals(list) => (list.shape.clone(), list.numbers.clone()),
            _ => return None,
        };
        if *shape.get_or_insert_with(|| inner.clone()) != inner {
            return None;
        }
        numbers.extend(new);
    }
    let mut shape = shape?;
    shape.insert(0, values.len() as i64);
    Some(Literals { shape, numbers })
}

/// A primitive that puts `count` tensors of a rank one after the other along a new first axis.
fn stack_prim(count: usize, dtype: DType, rank: usize, span: Span) -> Prim {
    let dims: Vec<Sym> = (0..rank).map(|i| Sym::new(&format!("s{i}"))).collect();
    let shape: Vec<Dim> = dims.iter().map(|d| Dim::sym(*d)).collect();
    let buf = |name: String, shape: Vec<Dim>| Buf { name: Sym::new(&name), dtype, shape, local: false };
    let mut bufs: Vec<Buf> = (0..count).map(|i| buf(format!("x{i}"), shape.clone())).collect();
    let out = std::iter::once(Dim::int(count as i64)).chain(shape.iter().cloned()).collect();
    bufs.push(buf("y".to_owned(), out));
    let mut facts = Facts::default();
    dims.iter().for_each(|d| facts.assume_dim(*d));
    let mut prim = Prim {
        name: format!("stack_{count}"),
        def: Sym::new("stack"),
        dims,
        facts,
        params: (0..count as u32).map(BufId).collect(),
        outs: vec![BufId(count as u32)],
        bufs,
        vars: vec![],
        body: vec![],
        invariant: false,
        span,
    };
    for i in 0..count {
        let first = prim.vars.len() as u32;
        for k in 0..rank {
            prim.vars.push(Var { name: Sym::new(&format!("i{k}_{i}")), dtype: DType::I64 });
        }
        let vars: Vec<VarId> = (0..rank as u32).map(|k| VarId(first + k)).collect();
        let at: Vec<Scalar> =
            vars.iter().map(|v| Scalar { kind: ScalarKind::Var(*v), dtype: DType::I64 }).collect();
        let load = ScalarKind::Load { buf: BufId(i as u32), index: at.clone(), checked: false, span };
        let store = Stmt::Store {
            buf: BufId(count as u32),
            index: std::iter::once(Scalar::int(i as i64)).chain(at).collect(),
            checked: false,
            combine: None,
            value: Scalar { kind: load, dtype },
            span,
        };
        let nest = vars.iter().zip(&shape).rev().fold(store, |inner, (&var, extent)| Stmt::For {
            var,
            lo: Scalar::int(0),
            hi: Scalar::dim(extent.clone()),
            mark: Mark::Serial,
            run: Run::Plain,
            body: vec![inner],
        });
        prim.body.push(nest);
    }
    ir::depend::mark_loops(&mut prim);
    prim
}
