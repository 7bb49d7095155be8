//! Unification of element types: parameter types are taken apart into tensors and generics, arguments tell the rest.

use ir::ast::{self, GenericKind, Ident, IndexArg, Mode, Param, Signature, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::Sym;
use tensor::DType;

use super::{Actual, Binder, Generics, Origin, Part, Parts, Pattern, Slot, allows, allows_encoding, refused};
use crate::defs::Def;
use crate::env::Env;
use crate::graph::{Body, Tree, Value};
use crate::types::{Arg, Elem, Named, Ty, no_type};
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// Walks each argument beside the type its parameter is declared with.
    pub(super) fn take_apart<'b>(
        &mut self,
        body: &mut Body,
        b: &Binder<'b>,
        slots: &[Option<Actual>],
    ) -> Maybe<Parts<'b>> {
        let mut parts = Parts::default();
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let Some(a) = slot.as_ref().filter(|_| p.mode != Mode::Const) else { continue };
            let Some(ty) = &p.ty else { continue };
            let what = p.name.name.to_string();
            self.take_part(body, b, (p, ty), Vec::new(), &a.value, what, a.span, &mut parts)?;
        }
        Some(parts)
    }

    #[expect(clippy::too_many_arguments, reason = "a type and a value, each with its place")]
    pub(super) fn take_part<'b>(
        &mut self,
        body: &mut Body,
        b: &Binder<'b>,
        (param, ty): (&'b Param, &'b TypeExpr),
        mut front: Vec<Pattern<'b>>,
        value: &Value,
        what: String,
        span: Span,
        out: &mut Parts<'b>,
    ) -> Maybe<()> {
        match &ty.kind {
            TypeKind::Array(of, k) => {
                front.push(Pattern::One(k));
                self.take_part(body, b, (param, of), front, value, what, span, out)
            }
            TypeKind::Tuple(types) => {
                let parts = match value {
                    Value::Tuple(parts) if front.is_empty() && parts.len() == types.len() => parts.clone(),
                    // An array of tuples: each part is an array.
                    Value::Tree(t) if !front.is_empty() && t.ty.field_names().len() == types.len() => (0
                        ..types.len())
                        .filter_map(|i| t.ty.field(&i.to_string()))
                        .map(|(ty, at)| Value::from_leaves(&ty, &t.leaves[at..at + ty.count()]))
                        .collect(),
                    _ => {
                        let want = format!("a tuple of {}", types.len());
                        return self.not_a(body, b, param, &want, value, &what, span);
                    }
                };
                for (i, (t, v)) in types.iter().zip(&parts).enumerate() {
                    let what = format!("{what}.{i}");
                    self.take_part(body, b, (param, t), front.clone(), v, what, span, out)?;
                }
                Some(())
            }
            TypeKind::Named { name, args, dims } => {
                let generic = b.sig.generics.iter().any(|g| g.name.name == name.name);
                match self.types.get(name.name) {
                    Some(Named::Record(id)) if !generic => {
                        let Value::Tree(tree) = value else {
                            let record = format!("a `{}`", name.name);
                            return self.not_a(body, b, param, &record, value, &what, span);
                        };
                        let mut at = &*tree.ty;
                        for (i, pattern) in front.iter().enumerate() {
                            let (Ty::Array(k, of), Pattern::One(e)) = (at, pattern) else {
                                return self.not_a(body, b, param, "an array of records", value, &what, span);
                            };
                            let origin = Origin { span, what: format!("axis {i} of `{what}`"), shown: None };
                            out.extents.push((e, k.clone(), origin));
                            at = of;
                        }
                        let Ty::Record(r) = at else {
                            let record = format!("a `{}`", name.name);
                            return self.not_a(body, b, param, &record, value, &what, span);
                        };
                        if r.id != id || args.len() != r.args.len() {
                            let record = format!("a `{}`", name.name);
                            return self.not_a(body, b, param, &record, value, &what, span);
                        }
                        for (said, has) in args.iter().zip(&r.args) {
                            out.generics.push(Generics {
                                what: what.clone(),
                                declared: said,
                                has: has.clone(),
                                span,
                            });
                        }
                        let leaf = |v: &ValId| Slot::Leaf(*v, param.mode, span);
                        out.order.extend(tree.leaves.iter().map(leaf));
                        Some(())
                    }
                    _ => {
                        for d in dims.iter().flatten() {
                            front.push(match d {
                                IndexArg::Expr(e) => Pattern::One(e),
                                IndexArg::Spread(e) => Pattern::Spread(e),
                                IndexArg::Broadcast(name) => Pattern::Broadcast(*name),
                                IndexArg::Range(ast::Range { span, .. }) | IndexArg::Full(span) => {
                                    return self.fail(Diagnostic::error(
                                        "E0306",
                                        *span,
                                        "a range is not a dim",
                                    ));
                                }
                            });
                        }
                        let encoded = |t: &Tree| matches!(*t.ty, Ty::Encoded(_));
                        match value {
                            Value::Tree(t) if !encoded(t) => {
                                return self.not_a(body, b, param, "a tensor", value, &what, span);
                            }
                            Value::Tuple(_) => {
                                return self.not_a(body, b, param, "a tensor", value, &what, span);
                            }
                            _ => {}
                        }
                        out.order.push(Slot::Part(out.tensors.len()));
                        let value = value.clone();
                        out.tensors.push(Part {
                            param,
                            what,
                            elem: *name,
                            args,
                            pattern: front,
                            value,
                            span,
                        });
                        Some(())
                    }
                }
            }
            TypeKind::Fn(..) => {
                let text = format!("`{what}` is a function, and this takes tensors");
                self.fail(Diagnostic::error("E0306", param.span, text).help("a `fn` takes functions"))
            }
            TypeKind::Dim(_) => self.fail(no_type(ty.span)),
            TypeKind::Exists(..) => self.fail(Diagnostic::error(
                "E0306",
                ty.span,
                "`exists` stands only around the result of a function",
            )),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what is needed, what is given, and where")]
    pub(super) fn not_a<T>(
        &mut self,
        body: &Body,
        b: &Binder<'_>,
        param: &Param,
        want: &str,
        value: &Value,
        what: &str,
        span: Span,
    ) -> Maybe<T> {
        let got = match value {
            Value::Unit => "no value".to_owned(),
            value => match self.value_ty(body, value, span) {
                Some(ty) => format!("`{ty}`"),
                None => return None,
            },
        };
        let text = format!("{}: `{what}` is {want}, got {got}", b.callee);
        let d = Diagnostic::error("E0307", span, text).here(format!("this is {}", value.kind()));
        self.fail(d.label(param.span, "the parameter"))
    }

    /// The generics of records: what the signature says against what the arguments have.
    pub(super) fn generics(&mut self, b: &mut Binder<'_>, parts: &Parts<'_>) -> Maybe<()> {
        for g in &parts.generics {
            let (Arg::Elem(has, shown), TypeKind::Named { name, .. }) = (&g.has, &g.declared.kind) else {
                continue;
            };
            let generic = b.sig.generics.iter().find(|x| x.name.name == name.name);
            let known = match generic {
                Some(_) => b.env.bound_elem(name.name),
                None => self.elem(&b.env, name.name),
            };
            match (known, generic) {
                (Some(known), _) if known == *has => {}
                (Some(known), _) => {
                    let known = self.elem_name(known);
                    let text =
                        format!("{}: element types differ: {known} vs {shown} (in `{}`)", b.callee, g.what);
                    let d = Diagnostic::error("E0303", g.span, text).here(shown.name());
                    let first = b.origins.get(&name.name).map(|o| o.span);
                    return self.fail(match first {
                        Some(first) => d.label(first, known.name()),
                        None => d.label(name.span, format!("{known} is declared")),
                    });
                }
                (None, Some(x)) => {
                    let fits = match has {
                        Elem::Plain(d) => allows(x, *d),
                        // What only passes through may be stored in any way.
                        Elem::Encoded(_) | Elem::Several(_) => allows_encoding(x, true),
                    };
                    if !fits {
                        return self.fail(refused(b.callee, shown.name(), x, g.span));
                    }
                    b.env.bind_elem(name.name, *has);
                    b.origins.insert(
                        name.name,
                        Origin { span: g.span, what: format!("`{}`", g.what), shown: None },
                    );
                }
                (None, None) => {
                    let text = format!("unknown type `{}`", name.name);
                    return self.fail(Diagnostic::error("E0306", name.span, text));
                }
            }
        }
        Some(())
    }

    pub(super) fn element_types(
        &mut self,
        body: &mut Body,
        b: &mut Binder<'_>,
        parts: &mut [Part<'_>],
    ) -> Maybe<()> {
        let mut literals: Vec<(Sym, DType)> = Vec::new();
        for part in parts {
            let generic = b.sig.generics.iter().find(|g| g.name.name == part.elem.name);
            // An encoded tensor is decoded where numbers are wanted.
            if let Value::Tree(Tree { ty, .. }) = &part.value
                && let Ty::Encoded(e) = &**ty
            {
                let takes = match generic {
                    Some(g) => allows_encoding(g, self.keeps_encodings(b.sig)),
                    None => self.encoding_named(&b.env, part.elem.name).is_some(),
                };
                let takes = takes && !part.pattern.iter().any(|p| matches!(p, Pattern::Broadcast(_)));
                if takes && generic.is_none() {
                    if self.encoding_named(&b.env, part.elem.name) == Some(e.id) {
                        continue;
                    }
                    let text = format!(
                        "{}: `{}` is encoded as {}, got {}",
                        b.callee, part.what, part.elem.name, e.name
                    );
                    let d = Diagnostic::error("E0303", part.span, text).here(ty.to_string());
                    return self.fail(d.label(part.param.span, "the parameter"));
                }
                if !takes {
                    let v = self.materialize(body, &part.value, DType::F32, part.span)?;
                    part.value = Value::Val(v);
                    if generic.is_none() {
                        continue;
                    }
                }
            }
            let Some(g) = generic else {
                // Numbers are not encoded by themselves: how is a choice.
                if self.encoding_named(&b.env, part.elem.name).is_some() {
                    let got = self.value_ty(body, &part.value, part.span)?;
                    let text = format!(
                        "{}: `{}` is encoded as {}, got `{got}`",
                        b.callee, part.what, part.elem.name
                    );
                    let d = Diagnostic::error("E0303", part.span, text).here(got.to_string());
                    let d = d.label(part.param.span, "the parameter");
                    return self.fail(d.help(format!("encode it: `quantize_{}(..)`", part.elem.name)));
                }
                continue;
            };
            let got = match &part.value {
                Value::Lit(lit) => {
                    literals.push((g.name.name, lit.natural()));
                    continue;
                }
                Value::Literals(list) => {
                    literals.push((g.name.name, list.natural()));
                    continue;
                }
                // An integer literal takes the type of its neighbours, as a float one does.
                Value::Dim(d) if d.as_int().is_some() => {
                    literals.push((g.name.name, DType::I64));
                    continue;
                }
                Value::Tree(Tree { ty, .. }) if let Ty::Encoded(e) = &**ty => Elem::Encoded(e.id),
                value => Elem::Plain(self.value_type(body, value, part.span)?.dtype),
            };
            let shown = self.elem_name(got);
            if let Some(known) = b.env.bound_elem(g.name.name) {
                if known != got {
                    let known = self.elem_name(known);
                    let first = b.origins.get(&g.name.name).map_or(b.span, |o| o.span);
                    let text = format!("{}: element types differ: {known} vs {shown}", b.callee);
                    let d = Diagnostic::error("E0303", part.span, text)
                        .here(shown.name())
                        .label(first, known.name());
                    return self.fail(d.help(format!("convert one of them: `{known}(..)`")));
                }
                continue;
            }
            if let Elem::Plain(d) = got
                && !allows(g, d)
            {
                let said = refused(b.callee, d.name(), g, part.span)
                    .here(format!("the elements of `{}` are {d}", part.what));
                let fits = [DType::F32, DType::I64].into_iter().find(|&d| allows(g, d));
                return self.fail(match fits {
                    Some(d) => said.help(format!("convert it: `{d}(..)`")),
                    None => said,
                });
            }
            b.env.bind_elem(g.name.name, got);
            b.origins.insert(g.name.name, Origin { span: part.span, what: String::new(), shown: None });
        }
        for (name, natural) in literals {
            let g = b.sig.generics.iter().find(|g| g.name.name == name).expect("found above");
            let known = match b.env.bound_elem(name) {
                Some(Elem::Plain(d)) => d,
                Some(other @ (Elem::Encoded(_) | Elem::Several(_))) => {
                    let shown = self.elem_name(other);
                    let text = format!("{}: `{shown}` is needed, and this is a literal", b.callee);
                    return self.fail(Diagnostic::error("E0303", b.span, text));
                }
                None => {
                    b.env.dtypes.insert(name, natural);
                    natural
                }
            };
            if !allows(g, known) {
                return self.fail(refused(b.callee, known.name(), g, b.span));
            }
        }
        for g in b.sig.generics.iter().filter(|g| g.kind == GenericKind::DType) {
            // Nothing said which: `zeros[3]` is f32.
            let first = std::iter::once(DType::F32).chain(DType::all()).find(|&d| allows(g, d));
            if let Some(first) = first
                && b.env.bound_elem(g.name.name).is_none()
            {
                b.env.dtypes.insert(g.name.name, first);
            }
        }
        Some(())
    }

    /// True for a callee that only passes on what it is given: a function or a record. A primitive computes
    /// with elements, so it takes encodings only where it says so.
    pub(super) fn keeps_encodings(&self, sig: &Signature) -> bool {
        match self.defs.get(sig.name.name, sig.name.span) {
            Some(Def::Prim(d)) => !std::ptr::eq(&d.sig, sig),
            Some(Def::Extern(_) | Def::Fn(..)) | None => true,
        }
    }

    /// The element type of a parameter once the generics are known.
    pub(super) fn part_dtype(&mut self, env: &Env, name: Ident, args: &[TypeExpr]) -> Maybe<DType> {
        match env.element(name.name, args) {
            Some(d) => Some(d),
            None if self.defs.is_missing(name.name, name.span) => None,
            None => self.fail(Diagnostic::error("E0306", name.span, format!("unknown type `{}`", name.name))),
        }
    }

    /// The type of an argument.
    pub(crate) fn value_type(&mut self, body: &Body, value: &Value, span: Span) -> Maybe<Type> {
        match value {
            Value::Val(v) => Some(body.func.ty(*v).clone()),
            Value::Dim(_) => Some(Type::scalar(DType::I64)),
            Value::Lit(lit) => Some(Type::scalar(lit.natural())),
            Value::Literals(list) => Some(Type { dtype: list.natural(), shape: list.shape() }),
            Value::Tree(Tree { ty, .. }) if let Ty::Encoded(e) = &**ty => {
                let dtype = self.decoded_dtype(e.id)?;
                Some(Type { dtype, shape: e.shape.clone() })
            }
            Value::Tree(Tree { ty, .. }) if let Ty::Several(s) = &**ty => {
                Some(Type { dtype: DType::F32, shape: s.front.iter().chain(&s.shape).cloned().collect() })
            }
            Value::Fn(_) => self.not_a_tensor(value, span),
            other => {
                let text = format!("a tensor is needed, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
        }
    }
}
