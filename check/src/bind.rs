//! Arguments against parameters: what the generics of a callee stand for at one call.
//!
//! In this order: brackets give generics that no parameter tells; element types; dims and packs that
//! stand alone in the type of a parameter; shapes that broadcast (`~s`), joined; attributes that were not
//! given, whose defaults may speak of all these; then what is left of the parameter types is solved or
//! compared, and a `_` in brackets is solved from the equations of the `where`. What must be equal is
//! proved, refuted with a diagnostic that names both places, or checked when running.

use std::collections::BTreeMap;

use ir::ast::{
    self, Expr, ExprKind, Generic, GenericKind, Ident, IndexArg, Mode, Param, Signature, TypeExpr, TypeKind,
};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym, Verdict};
use tensor::DType;

use crate::config::is_config;
use crate::defs::Def;
use crate::env::{Const, Env};
use crate::graph::{Body, Tree, Value};
use crate::types::{Arg, Elem, Named, Ty, name_expr};
use crate::{Checker, Maybe};

/// A given argument.
#[derive(Clone)]
pub(crate) struct Actual {
    pub(crate) name: Option<Ident>,
    pub(crate) value: Value,
    /// The expression, for attributes.
    pub(crate) expr: Option<Expr>,
    pub(crate) span: Span,
}

/// The generics bound, in the caller's dims, and the tensor arguments in the order of the parameters.
pub(crate) struct Bound {
    pub(crate) env: Env,
    pub(crate) args: Vec<ValId>,
}

/// True if a generic's bounds allow an encoding. Where there are none, `open` says.
pub(crate) fn allows_encoding(g: &Generic, open: bool) -> bool {
    if g.bounds.is_empty() {
        open
    } else {
        g.bounds.iter().any(|b| matches!(b.name.name(), "any" | "encoding"))
    }
}

/// Where a generic got its value, for the message when another place disagrees.
#[derive(Clone)]
struct Origin {
    span: Span,
    what: String,
    /// The whole type of what is there, for a person to compare.
    shown: String,
}

impl Origin {
    /// `axis 0 of `a` is 3, in f32[3, 4]`
    fn is(&self, d: &Dim) -> String {
        if self.shown.is_empty() {
            return format!("{} is {d}", self.what);
        }
        format!("{} is {d}, in `{}`", self.what, self.shown)
    }
}

/// A shape to compare once more is known: its pattern, the extents given, where.
struct Later {
    pattern: Expr,
    spread: bool,
    actual: Vec<Dim>,
    origin: Origin,
}

/// True if a generic's bounds allow a type.
pub(crate) fn allows(g: &Generic, d: DType) -> bool {
    g.bounds.is_empty()
        || g.bounds.iter().any(|b| match b.name.name() {
            "any" => true,
            "encoding" => false,
            "float" => d.is_float(),
            "int" => d.is_int(),
            "num" => d.is_float() || d.is_int(),
            name => d.name() == name,
        })
}

/// One binding in the making.
struct Binder<'b> {
    callee: &'b str,
    sig: &'b Signature,
    env: Env,
    origins: BTreeMap<Sym, Origin>,
    later: Vec<Later>,
    /// What stands for each `_` in brackets.
    holes: Vec<(Sym, Span)>,
    span: Span,
}

/// A tensor of an argument beside the type that the signature gives it.
struct Part<'b> {
    param: &'b Param,
    /// Its path from the parameter.
    what: String,
    /// The name of its element type.
    elem: Ident,
    /// `wide<T>` has arguments.
    args: &'b [TypeExpr],
    pattern: Vec<Pattern<'b>>,
    /// A tensor, a literal, a dim, or an encoded tensor.
    value: Value,
    span: Span,
}

/// A dim, or dims, of a type as written.
#[derive(Clone, Copy)]
enum Pattern<'b> {
    One(&'b Expr),
    Spread(&'b Expr),
    Broadcast(Ident),
}

/// A generic of a record: what the signature says, and what the argument has.
struct Generics<'b> {
    what: String,
    said: &'b TypeExpr,
    has: Arg,
    span: Span,
}

/// The arguments taken apart: what is compared with what, in the order of the parameters.
#[derive(Default)]
struct Parts<'b> {
    tensors: Vec<Part<'b>>,
    generics: Vec<Generics<'b>>,
    /// Extents of arrays of records.
    extents: Vec<(&'b Expr, Dim, Origin)>,
    /// The leaves in the order of the parameters: one of `tensors`, or a leaf of a record, which is as it is.
    order: Vec<Slot>,
}

enum Slot {
    Part(usize),
    Leaf(ValId, Mode, Span),
}

impl Checker<'_> {
    /// Binds the generics of `sig` at a call, and gives the arguments as values.
    pub(crate) fn bind(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        explicit: &[IndexArg],
        actuals: Vec<Actual>,
        span: Span,
    ) -> Maybe<Bound> {
        let callee = sig.name.name.name();
        let slots = self.slots(body, sig, actuals, span)?;
        let env = self.env();
        let mut b = Binder { callee, sig, env, origins: BTreeMap::new(), later: vec![], holes: vec![], span };
        self.configured(body, &mut b)?;
        self.attributes(body, &mut b, &slots)?;
        self.explicit(body, &mut b, explicit)?;
        let mut parts = self.take_apart(body, &b, &slots)?;
        self.generics(&mut b, &parts)?;
        self.element_types(body, &mut b, &mut parts.tensors)?;
        let joined = self.shapes(body, &mut b, &parts)?;
        self.defaults(&mut b)?;
        self.solve_rest(body, &mut b)?;
        self.all_bound(&b)?;
        self.fill_holes(body, &mut b)?;
        let said = self.diagnostics.len();
        let wheres = self.wheres(sig, &b.env);
        if self.diagnostics.len() > said {
            return None;
        }
        for pred in wheres {
            let d =
                Diagnostic::error("E0308", span, format!("{callee}: the condition `{pred}` does not hold"))
                    .label(sig.name.span, "required by this definition");
            self.require(
                body,
                pred,
                span,
                &format!("{callee}: the condition of its `where` does not hold"),
                d,
            )?;
        }
        // The arguments themselves: literals and dims become values, and shapes are stretched.
        let mut args = Vec::new();
        for slot in &parts.order {
            let (val, mode, at) = match slot {
                Slot::Leaf(v, mode, at) => {
                    let dtype = body.func.ty(*v).dtype;
                    (self.materialize(body, &Value::Val(*v), dtype, *at)?, *mode, *at)
                }
                Slot::Part(i) => {
                    let part = &parts.tensors[*i];
                    if let (Value::Tree(t), Some(_)) =
                        (&part.value, self.encoding_named(&b.env, part.elem.name))
                    {
                        for leaf in &t.leaves {
                            let dtype = body.func.ty(*leaf).dtype;
                            args.push(self.materialize(body, &Value::Val(*leaf), dtype, part.span)?);
                            if part.param.mode == Mode::Own {
                                self.consume(body, *leaf, part.span, callee)?;
                            }
                        }
                        continue;
                    }
                    let dtype = self.part_dtype(&b.env, part.elem, part.args)?;
                    let mut val = self.materialize(body, &part.value, dtype, part.span)?;
                    let got = body.func.ty(val).dtype;
                    if got != dtype {
                        let text =
                            format!("{callee}: `{}` needs elements of `{dtype}`, got `{got}`", part.what);
                        let d = Diagnostic::error("E0303", part.span, text)
                            .here(body.func.ty(val).to_string())
                            .label(part.param.span, "the parameter");
                        return self.fail(d.help(format!("convert it: `{dtype}(..)`")));
                    }
                    if joined.contains_key(i) {
                        let mut target = Vec::new();
                        for pattern in &part.pattern {
                            let dims = match pattern {
                                Pattern::One(e) => b.env.dim(e).map(|d| vec![d]),
                                Pattern::Spread(e) => b.env.pack(e),
                                Pattern::Broadcast(name) => Ok(b.env.packs[&name.name].clone()),
                            };
                            match dims {
                                Ok(dims) => target.extend(dims),
                                Err(d) => return self.fail(*d),
                            }
                        }
                        val = self.stretch(body, val, &target, part.span)?;
                    }
                    (val, part.param.mode, part.span)
                }
            };
            if mode == Mode::Own {
                self.consume(body, val, at, callee)?;
            }
            args.push(val);
        }
        Some(Bound { env: b.env, args })
    }

    /// Arguments in the order of the parameters, defaults filled in.
    fn slots(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        actuals: Vec<Actual>,
        span: Span,
    ) -> Maybe<Vec<Option<Actual>>> {
        let callee = sig.name.name;
        let mut slots: Vec<Option<Actual>> = vec![None; sig.params.len()];
        let given = actuals.len();
        let mut next = 0;
        for a in actuals {
            let at = match a.name {
                Some(name) => match sig.params.iter().position(|p| p.name.name == name.name) {
                    Some(at) => at,
                    None => {
                        let d = Diagnostic::error(
                            "E0305",
                            name.span,
                            format!("{callee} has no parameter `{}`", name.name),
                        );
                        let near = ir::diag::nearest(
                            name.name.name(),
                            sig.params.iter().map(|p| p.name.name.name()),
                        );
                        return self.fail(match near {
                            Some(n) => d.help(format!("did you mean `{n}`?")),
                            None => d,
                        });
                    }
                },
                None => {
                    next += 1;
                    next - 1
                }
            };
            match slots.get_mut(at) {
                Some(slot @ None) => *slot = Some(a),
                Some(Some(_)) => {
                    let name = sig.params[at].name.name;
                    return self.fail(Diagnostic::error(
                        "E0304",
                        a.span,
                        format!("{callee}: `{name}` is given twice"),
                    ));
                }
                None => {
                    let want = sig.params.len();
                    let d = Diagnostic::error(
                        "E0304",
                        span,
                        format!("{callee}: takes {}, got {given}", ir::diag::count(want, "argument")),
                    );
                    return self.fail(d.label(sig.name.span, "defined here"));
                }
            }
        }
        for (slot, p) in slots.iter_mut().zip(&sig.params) {
            if slot.is_some() {
                continue;
            }
            match &p.default {
                // Evaluated once the generics are known.
                Some(_) if p.mode == Mode::Const => {}
                Some(e) => {
                    let value = self.expr(body, e)?;
                    *slot = Some(Actual { name: None, value, expr: None, span: e.span });
                }
                None => {
                    let d = Diagnostic::error(
                        "E0304",
                        span,
                        format!("{callee}: argument `{}` is missing", p.name.name),
                    );
                    return self.fail(d.label(p.span, "this parameter"));
                }
            }
        }
        Some(slots)
    }

    /// A dim of a config is the caller's, who has it under the same name.
    fn configured(&mut self, body: &Body, b: &mut Binder<'_>) -> Maybe<()> {
        for g in b.sig.generics.iter().filter(|g| is_config(g)) {
            let name = g.name.name;
            let Some(dim) = body.env.dims.get(&name) else {
                let text = format!("{}: the config's `{name}` is not known here", b.callee);
                let d = Diagnostic::error("E0203", b.span, text).label(g.name.span, "declared here");
                return self.fail(d.help(format!("say it first: `dim {name} = ..`")));
            };
            b.env.dims.insert(name, dim.clone());
            b.origins.insert(
                name,
                Origin { span: g.name.span, what: "the config".to_owned(), shown: String::new() },
            );
        }
        Some(())
    }

    /// The attributes given, as seen by the caller.
    fn attributes(&mut self, body: &Body, b: &mut Binder<'_>, slots: &[Option<Actual>]) -> Maybe<()> {
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let (Mode::Const, Some(a)) = (p.mode, slot) else { continue };
            let Some(e) = &a.expr else { continue };
            match body.env.constant(e) {
                Ok(c) => self.attribute(b, p, c, a.span)?,
                Err(d) => {
                    let value = names_in(e).into_iter().find(|n| body.find(*n).is_some());
                    let Some(value) = value else { return self.fail(*d) };
                    let text = format!(
                        "{}: the attribute `{}` must be known when compiling, and `{value}` is a value",
                        b.callee, p.name.name
                    );
                    let d = Diagnostic::error("E0307", e.span, text).label(p.span, "this attribute");
                    return self
                        .fail(d.help("write a number, or make it an attribute here too: `const axis: int`"));
                }
            }
        }
        Some(())
    }

    /// The attributes not given, as seen by the callee: `const axis: ints = s.axes`.
    fn defaults(&mut self, b: &mut Binder<'_>) -> Maybe<()> {
        for p in b.sig.params.iter().filter(|p| p.mode == Mode::Const) {
            let Some(e) = p.default.as_ref().filter(|_| !b.env.consts.contains_key(&p.name.name)) else {
                continue;
            };
            match b.env.constant(e) {
                Ok(c) => self.attribute(b, p, c, e.span)?,
                Err(d) => return self.fail(*d),
            }
        }
        Some(())
    }

    fn attribute(&mut self, b: &mut Binder<'_>, p: &Param, value: Const, span: Span) -> Maybe<()> {
        let declared = match p.ty.as_ref().map(|t| &t.kind) {
            Some(TypeKind::Named { name, .. }) => name.name.name(),
            _ => "",
        };
        let shown = value.clone();
        match value.fit(declared) {
            Some(c) => {
                b.env.consts.insert(p.name.name, c);
                Some(())
            }
            None => {
                let text =
                    format!("{}: `{}` is {declared}, and this is {}", b.callee, p.name.name, shown.kind());
                self.fail(Diagnostic::error("E0307", span, text).label(p.span, "this attribute"))
            }
        }
    }

    /// Solves for each `_` in brackets: some equation of the `where` tells it.
    fn fill_holes(&mut self, body: &mut Body, b: &mut Binder<'_>) -> Maybe<()> {
        for (hole, at) in std::mem::take(&mut b.holes) {
            let mentions = |d: &Dim| d.syms().contains(&hole);
            let equation = self.wheres(b.sig, &b.env).into_iter().find_map(|p| match p {
                Pred::Eq(x, y) if mentions(&x) && !mentions(&y) => Some((x, y)),
                Pred::Eq(x, y) if mentions(&y) && !mentions(&x) => Some((y, x)),
                _ => None,
            });
            let solved = equation.as_ref().and_then(|(x, y)| shape::solve(x, y, hole));
            let Some(solved) = solved else {
                let d = Diagnostic::error("E0203", at, format!("{}: `_` cannot be inferred", b.callee));
                return self.fail(d.help("a `_` stands for one dim that the others and the argument tell"));
            };
            let total = equation.map_or_else(String::new, |(_, y)| y.to_string());
            for pred in solved.requires {
                let text = format!("{}: {total} is not a multiple of the other dims", b.callee);
                let d = Diagnostic::error("E0301", at, text.clone());
                self.require(body, pred, at, &text, d)?;
            }
            let fill = |d: &mut Dim| *d = d.subst(&|s| (s == hole).then(|| solved.value.clone()));
            b.env.dims.values_mut().for_each(fill);
            b.env.packs.values_mut().flatten().for_each(fill);
        }
        Some(())
    }

    /// `f[..](..)`: element types by name, then the generics that no parameter's type tells, in order.
    fn explicit(&mut self, body: &mut Body, b: &mut Binder<'_>, given: &[IndexArg]) -> Maybe<()> {
        let mut given = given.iter().peekable();
        let dtypes = b.sig.generics.iter().filter(|g| g.kind == GenericKind::DType);
        // A definition with an element type in its result only, `cast[f16]`, has that one given first.
        let mut wanted: Vec<&Generic> = dtypes.filter(|g| !told(b.sig, g.name.name)).collect();
        wanted.reverse();
        while let Some(IndexArg::Expr(Expr { kind: ExprKind::Name(name), span })) = given.peek() {
            let (Some(d), Some(g)) = (body.env.dtype(*name), wanted.last()) else { break };
            if !allows(g, d) {
                return self.fail(refused(b.callee, d.name(), g, *span));
            }
            b.env.dtypes.insert(g.name.name, d);
            wanted.pop();
            given.next();
        }
        let mut rest: Vec<IndexArg> = given.cloned().collect();
        if rest.is_empty() {
            return Some(());
        }
        for arg in &mut rest {
            if let IndexArg::Expr(Expr { kind: ExprKind::Name(name), span }) = arg
                && name.name() == "_"
            {
                let hole = Sym::new(&format!("?_{}", b.holes.len()));
                b.holes.push((hole, *span));
                body.env.dims.insert(hole, Dim::sym(hole));
                *name = hole;
            }
        }
        let dims = self.dims_of_body(body, &rest);
        for (hole, _) in &b.holes {
            body.env.dims.remove(hole);
        }
        let dims = dims?;
        let free: Vec<&Generic> = b
            .sig
            .generics
            .iter()
            .filter(|g| g.kind != GenericKind::DType && !is_config(g) && !told(b.sig, g.name.name))
            .collect();
        let singles = free.iter().filter(|g| g.kind == GenericKind::Dim).count();
        let spread = dims.len().checked_sub(singles);
        if spread.is_none_or(|s| s > 0 && singles == free.len()) {
            let text = format!("{}: {} dims are given in brackets", b.callee, dims.len());
            let names: Vec<&str> = free.iter().map(|g| g.name.name.name()).collect();
            let d = Diagnostic::error("E0304", b.span, text);
            return self.fail(match names.as_slice() {
                [] => d.help("its dims are told by its arguments"),
                names => d.help(format!("brackets give: {}", names.join(", "))),
            });
        }
        let mut dims = dims.into_iter();
        for g in free {
            if g.kind == GenericKind::Pack {
                b.env.packs.insert(g.name.name, dims.by_ref().take(spread.unwrap_or(0)).collect());
            } else if let Some(d) = dims.next() {
                b.env.dims.insert(g.name.name, d);
            }
        }
        Some(())
    }

    /// Walks each argument beside the type its parameter is declared with.
    fn take_apart<'b>(
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
    fn take_part<'b>(
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
                        .map(|(ty, at)| Value::of(&ty, &t.leaves[at..at + ty.count()]))
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
                            let origin =
                                Origin { span, what: format!("axis {i} of `{what}`"), shown: String::new() };
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
                            out.generics.push(Generics { what: what.clone(), said, has: has.clone(), span });
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
                self.later(param.span, "parameters that are functions");
                None
            }
            TypeKind::Exists(..) => self.fail(Diagnostic::error(
                "E0306",
                ty.span,
                "`exists` stands only around the result of a function",
            )),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what is needed, what is given, and where")]
    fn not_a<T>(
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
    fn generics(&mut self, b: &mut Binder<'_>, parts: &Parts<'_>) -> Maybe<()> {
        for g in &parts.generics {
            let (Arg::Elem(has, shown), TypeKind::Named { name, .. }) = (&g.has, &g.said.kind) else {
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
                        Elem::Encoded(_) => allows_encoding(x, true),
                    };
                    if !fits {
                        return self.fail(refused(b.callee, shown.name(), x, g.span));
                    }
                    b.env.bind_elem(name.name, *has);
                    b.origins.insert(
                        name.name,
                        Origin { span: g.span, what: format!("`{}`", g.what), shown: String::new() },
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

    fn element_types(&mut self, body: &mut Body, b: &mut Binder<'_>, parts: &mut [Part<'_>]) -> Maybe<()> {
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
                return self.fail(refused(b.callee, d.name(), g, part.span));
            }
            b.env.bind_elem(g.name.name, got);
            b.origins
                .insert(g.name.name, Origin { span: part.span, what: String::new(), shown: String::new() });
        }
        for (name, natural) in literals {
            let g = b.sig.generics.iter().find(|g| g.name.name == name).expect("found above");
            let known = match b.env.bound_elem(name) {
                Some(Elem::Plain(d)) => d,
                Some(Elem::Encoded(id)) => {
                    let shown = self.elem_name(Elem::Encoded(id));
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
    fn keeps_encodings(&self, sig: &Signature) -> bool {
        match self.defs.get(sig.name.name, sig.name.span) {
            Some(Def::Prim(d)) => !std::ptr::eq(&d.sig, sig),
            Some(Def::Extern(_) | Def::Fn(..)) | None => true,
        }
    }

    /// Dims and packs that stand alone; gives, by part, the pack it is stretched to.
    fn shapes(
        &mut self,
        body: &mut Body,
        b: &mut Binder<'_>,
        parts: &Parts<'_>,
    ) -> Maybe<BTreeMap<usize, Sym>> {
        let mut stretched: BTreeMap<usize, Sym> = BTreeMap::new();
        let mut to_join: BTreeMap<Sym, Vec<(Vec<Dim>, Origin)>> = BTreeMap::new();
        for (i, part) in parts.tensors.iter().enumerate() {
            let actual = match &part.value {
                Value::Lit(_) => vec![],
                value => self.value_type(body, value, part.span)?.shape,
            };
            let shown = match &part.value {
                Value::Val(v) => body.func.ty(*v).to_string(),
                _ => String::new(),
            };
            let origin = |what: String| Origin { span: part.span, what, shown: shown.clone() };
            let single = |p: &&Pattern<'_>| matches!(p, Pattern::One(_));
            let singles = part.pattern.iter().filter(single).count();
            let packs = part.pattern.len() - singles;
            if (packs == 0 && actual.len() != singles) || actual.len() < singles || packs > 1 {
                let least = if packs == 0 { "" } else { "at least " };
                let text = format!(
                    "{}: `{}` needs {least}{singles} axes, got {}",
                    b.callee,
                    part.what,
                    actual.len()
                );
                let shown =
                    self.value_ty(body, &part.value, part.span).map_or(String::new(), |t| t.to_string());
                let d = Diagnostic::error("E0302", part.span, text).here(shown);
                return self.fail(d.label(part.param.span, "the parameter"));
            }
            let spread = actual.len() - singles;
            let mut axis = 0;
            for pat in &part.pattern {
                match pat {
                    Pattern::One(e) => {
                        let o = origin(format!("axis {axis} of `{}`", part.what));
                        self.match_dim(body, b, e, actual[axis].clone(), o)?;
                        axis += 1;
                    }
                    Pattern::Spread(e) => {
                        let list = actual[axis..axis + spread].to_vec();
                        axis += spread;
                        let o = origin(format!("`{}`", part.what));
                        match &e.kind {
                            ExprKind::Name(name)
                                if is_generic(b.sig, *name) && !b.env.packs.contains_key(name) =>
                            {
                                b.env.packs.insert(*name, list);
                                b.origins.insert(*name, o);
                            }
                            _ => {
                                let pattern = (*e).clone();
                                b.later.push(Later { pattern, spread: true, actual: list, origin: o });
                            }
                        }
                    }
                    Pattern::Broadcast(name) => {
                        let list = actual[axis..axis + spread].to_vec();
                        axis += spread;
                        stretched.insert(i, name.name);
                        let o = origin(format!("`{}`", part.what));
                        to_join.entry(name.name).or_default().push((list, o));
                    }
                }
            }
        }
        for (e, got, origin) in &parts.extents {
            self.match_dim(body, b, e, got.clone(), origin.clone())?;
        }
        for g in &parts.generics {
            let (Arg::Dim(has), TypeKind::Named { name, .. }) = (&g.has, &g.said.kind) else { continue };
            let origin = Origin {
                span: g.span,
                what: format!("`{}` of `{}`", name.name, g.what),
                shown: String::new(),
            };
            self.match_dim(body, b, &name_expr(name.name, name.span), has.clone(), origin)?;
        }
        for (pack, lists) in to_join {
            let known = b.env.packs.get(&pack).cloned();
            let joined = self.join(body, b.callee, known, &lists)?;
            b.env.packs.insert(pack, joined);
        }
        Some(stretched)
    }

    /// A dim of a parameter's type against an extent.
    fn match_dim(&mut self, body: &mut Body, b: &mut Binder<'_>, e: &Expr, got: Dim, o: Origin) -> Maybe<()> {
        let ExprKind::Name(name) = &e.kind else {
            b.later.push(Later { pattern: e.clone(), spread: false, actual: vec![got], origin: o });
            return Some(());
        };
        if let Some(known) = b.env.dims.get(name).cloned() {
            let first = b.origins.get(name).cloned();
            return self.equal(body, b.callee, &known, &got, Some(*name), first, &o);
        }
        if is_generic(b.sig, *name) {
            b.env.dims.insert(*name, got);
            b.origins.insert(*name, o);
        } else {
            b.later.push(Later { pattern: e.clone(), spread: false, actual: vec![got], origin: o });
        }
        Some(())
    }

    /// What is left of the parameter types: solved for a dim still unknown, or compared.
    fn solve_rest(&mut self, body: &mut Body, b: &mut Binder<'_>) -> Maybe<()> {
        let mut rest = std::mem::take(&mut b.later);
        while !rest.is_empty() {
            let before = rest.len();
            let mut still = Vec::new();
            for l in rest {
                let pattern =
                    if l.spread { b.env.pack(&l.pattern) } else { b.env.dim(&l.pattern).map(|d| vec![d]) };
                match pattern {
                    Ok(want) if want.len() == l.actual.len() => {
                        for (w, g) in want.iter().zip(&l.actual) {
                            self.equal(body, b.callee, w, g, None, None, &l.origin)?;
                        }
                    }
                    Ok(want) => {
                        let text = format!(
                            "{}: {} needs {} axes, got {}",
                            b.callee,
                            l.origin.what,
                            want.len(),
                            l.actual.len()
                        );
                        return self.fail(Diagnostic::error("E0302", l.origin.span, text));
                    }
                    Err(d) => {
                        let unknown: Vec<Sym> = names_in(&l.pattern)
                            .into_iter()
                            .filter(|n| {
                                is_generic(b.sig, *n)
                                    && !b.env.dims.contains_key(n)
                                    && !b.env.packs.contains_key(n)
                            })
                            .collect();
                        let [unknown] = unknown.as_slice() else {
                            if unknown.is_empty() {
                                return self.fail(*d);
                            }
                            still.push(l);
                            continue;
                        };
                        // A symbol of its own: the caller may have one of the same name in its dims.
                        let sought = Sym::new(&format!("?{unknown}"));
                        let mut open = b.env.clone();
                        open.dims.insert(*unknown, Dim::sym(sought));
                        let solved =
                            open.dim(&l.pattern).ok().and_then(|p| shape::solve(&p, &l.actual[0], sought));
                        let Some(solved) = solved else {
                            still.push(l);
                            continue;
                        };
                        for pred in solved.requires {
                            let text = format!(
                                "{}: {} is {}, which is not `{}` for any {unknown}",
                                b.callee,
                                l.origin.what,
                                l.actual[0],
                                ast_text(&l.pattern)
                            );
                            let d = Diagnostic::error("E0301", l.origin.span, text.clone());
                            self.require(body, pred, l.origin.span, &text, d)?;
                        }
                        b.env.dims.insert(*unknown, solved.value);
                        b.origins.insert(*unknown, l.origin);
                    }
                }
            }
            if still.len() == before {
                // Nothing moved: what is missing is named below.
                return Some(());
            }
            rest = still;
        }
        Some(())
    }

    fn all_bound(&mut self, b: &Binder<'_>) -> Maybe<()> {
        for g in &b.sig.generics {
            let name = g.name.name;
            let (bound, form) = match g.kind {
                GenericKind::Dim => (b.env.dims.contains_key(&name), format!("{}[{name}](..)", b.callee)),
                GenericKind::Pack => (b.env.packs.contains_key(&name), format!("{}[..{name}](..)", b.callee)),
                GenericKind::DType => (b.env.bound_elem(name).is_some(), format!("{}[{name}](..)", b.callee)),
            };
            if !bound {
                let text = format!("{}: the dim `{name}` cannot be inferred from the arguments", b.callee);
                let d = Diagnostic::error("E0203", b.span, text).label(g.name.span, "declared here");
                return self.fail(
                    d.help(format!("give it in brackets: `{form}`, or use it in the type of a parameter")),
                );
            }
        }
        Some(())
    }

    /// Two extents that must be equal.
    #[expect(clippy::too_many_arguments, reason = "the two sides of one message")]
    fn equal(
        &mut self,
        body: &mut Body,
        callee: &str,
        known: &Dim,
        got: &Dim,
        dim: Option<Sym>,
        first: Option<Origin>,
        o: &Origin,
    ) -> Maybe<()> {
        // Mostly they are one, and what would be said of them otherwise need not be put in words.
        if known == got {
            return Some(());
        }
        let text = match (dim, &first) {
            (Some(n), Some(f)) => {
                format!("{callee}: dim {n} differs: {known} ({}) vs {got} ({})", f.what, o.what)
            }
            _ => format!("{callee}: {} is {got}, and {known} is needed", o.what),
        };
        let mut d = Diagnostic::error("E0301", o.span, text.clone());
        d = d.here(o.is(got));
        if let Some(f) = first {
            d = d.label(f.span, f.is(known));
        }
        self.require(body, Pred::Eq(known.clone(), got.clone()), o.span, &text, d)
    }

    /// Joins shapes as element-wise operators do: axes aligned at the right, a literal 1 stretches.
    fn join(
        &mut self,
        body: &mut Body,
        callee: &str,
        known: Option<Vec<Dim>>,
        parts: &[(Vec<Dim>, Origin)],
    ) -> Maybe<Vec<Dim>> {
        let one = Dim::int(1);
        let rank = parts.iter().map(|p| p.0.len()).chain(known.iter().map(Vec::len)).max().unwrap_or(0);
        let mut joined: Vec<(Dim, Option<&Origin>)> = vec![(one.clone(), None); rank];
        for d in known.iter().flat_map(|k| k.iter().enumerate().map(move |(i, d)| (rank - k.len() + i, d))) {
            joined[d.0] = (d.1.clone(), None);
        }
        for (shape, origin) in parts {
            if let Some(known) = known.as_ref().filter(|k| k.len() < shape.len()) {
                let text = format!(
                    "{callee}: [{}] does not broadcast to [{}], which has fewer axes",
                    list(shape),
                    list(known)
                );
                return self.fail(Diagnostic::error("E0312", origin.span, text));
            }
            for (i, d) in shape.iter().enumerate() {
                let at = rank - shape.len() + i;
                let (so_far, first) = &joined[at];
                if *d == one {
                    continue;
                }
                if *so_far == one && (first.is_none() && known.is_none()) {
                    joined[at] = (d.clone(), Some(origin));
                    continue;
                }
                if so_far == d {
                    continue;
                }
                let text =
                    format!("{callee}: shapes do not broadcast: {so_far} vs {d} on axis -{}", rank - at);
                let mut diag = Diagnostic::error("E0312", origin.span, text.clone()).here(format!(
                    "{} is [{}]",
                    origin.what,
                    list(shape)
                ));
                if let Some(f) = first {
                    let other =
                        parts.iter().find(|p| p.1.span == f.span).map_or(String::new(), |p| list(&p.0));
                    diag = diag.label(f.span, format!("{} is [{other}]", f.what));
                }
                let pred = Pred::Eq(so_far.clone(), d.clone());
                self.require(body, pred, origin.span, &text, diag)?;
            }
        }
        Some(joined.into_iter().map(|j| j.0).collect())
    }

    /// Proves a condition, refuses it, or leaves a check behind.
    pub(crate) fn require(
        &mut self,
        body: &mut Body,
        pred: Pred,
        span: Span,
        text: &str,
        wrong: Diagnostic,
    ) -> Maybe<()> {
        match body.env.facts.prove(&pred) {
            Verdict::Proved => Some(()),
            Verdict::Refuted => {
                let mut d = wrong.note(format!("`{pred}` cannot hold"));
                let facts: Vec<String> = body.shown_facts();
                if !facts.is_empty() {
                    d = d.note(format!("known: {}", facts.join(", ")));
                }
                self.fail(d)
            }
            Verdict::Unknown => {
                body.check(pred, text.to_owned(), span);
                Some(())
            }
        }
    }
}

fn refused(callee: &str, d: &str, g: &Generic, span: Span) -> Diagnostic {
    let bounds: Vec<&str> = g.bounds.iter().map(|b| b.name.name()).collect();
    Diagnostic::error("E0303", span, format!("{callee}: not defined for {d}"))
        .label(g.name.span, format!("`{}` is one of: {}", g.name.name, bounds.join(", ")))
}

fn list(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}

fn is_generic(sig: &Signature, name: Sym) -> bool {
    sig.generics.iter().any(|g| g.name.name == name && g.kind != GenericKind::DType)
}

/// True if the type of some parameter tells this generic: it stands alone in it, or linearly. One that may be
/// left out does not, nor does one that only broadcasts to it.
fn told(sig: &Signature, name: Sym) -> bool {
    fn tells(t: &TypeExpr, name: Sym) -> bool {
        match &t.kind {
            TypeKind::Named { name: n, args, dims } => {
                n.name == name
                    || args.iter().any(|a| tells(a, name))
                    || dims.iter().flatten().any(|d| match d {
                        IndexArg::Broadcast(_) => false,
                        IndexArg::Spread(e) => matches!(&e.kind, ExprKind::Name(n) if *n == name),
                        IndexArg::Expr(e) => is_linear(e, name),
                        IndexArg::Range(_) | IndexArg::Full(_) => false,
                    })
            }
            TypeKind::Tuple(parts) => parts.iter().any(|p| tells(p, name)),
            TypeKind::Array(of, k) => tells(of, name) || is_linear(k, name),
            TypeKind::Fn(..) | TypeKind::Exists(..) => false,
        }
    }
    let params = sig.params.iter().filter(|p| p.mode != Mode::Const && p.default.is_none());
    params.filter_map(|p| p.ty.as_ref()).any(|t| tells(t, name))
}

/// True for an extent that tells a dim where the other names in it are known.
fn is_linear(e: &Expr, name: Sym) -> bool {
    let names = names_in(e);
    if !names.contains(&name) {
        return false;
    }
    let mut env = Env::default();
    env.dims.extend(names.into_iter().map(|n| (n, Dim::sym(n))));
    // What is no expression of dims alone speaks of packs or attributes, which are known first.
    env.dim(e).map_or(true, |d| shape::solve(&d, &Dim::sym(Sym::new("?")), name).is_some())
}

/// The names in a dim expression.
pub(crate) fn names_in(e: &Expr) -> Vec<Sym> {
    fn go(e: &Expr, out: &mut Vec<Sym>) {
        match &e.kind {
            ExprKind::Name(n) => out.push(*n),
            ExprKind::Paren(a) | ExprKind::Unary(_, a) | ExprKind::Field(a, _) => go(a, out),
            ExprKind::Binary(_, a, b) => {
                go(a, out);
                go(b, out);
            }
            ExprKind::Call(f, args) => {
                if let ExprKind::Field(base, _) = &f.kind {
                    go(base, out);
                }
                args.iter().for_each(|a| go(&a.value, out));
            }
            ExprKind::Index(base, args) => {
                go(base, out);
                for a in args {
                    if let IndexArg::Expr(e) | IndexArg::Spread(e) = a {
                        go(e, out);
                    }
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(..)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Tuple(_)
            | ExprKind::Array(_)
            | ExprKind::Reduce(..)
            | ExprKind::If(..)
            | ExprKind::Block(_)
            | ExprKind::Lambda(..)
            | ExprKind::Error => {}
        }
    }
    let mut out = Vec::new();
    go(e, &mut out);
    out
}

/// A dim pattern in words, for messages: its names as they stand.
fn ast_text(e: &Expr) -> String {
    let mut env = Env::default();
    for n in names_in(e) {
        env.dims.insert(n, Dim::sym(n));
    }
    env.dim(e).map_or_else(|_| "its type".to_owned(), |d| d.to_string())
}

/// The element type of a parameter once the generics are known.
impl Checker<'_> {
    fn part_dtype(&mut self, env: &Env, name: Ident, args: &[TypeExpr]) -> Maybe<DType> {
        match env.element(name.name, args) {
            Some(d) => Some(d),
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
            Value::Fn(_) => self.not_a_tensor(value, span),
            other => {
                let text = format!("a tensor is needed, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
        }
    }
}
