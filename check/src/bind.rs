//! Arguments against parameters: what the generics of a callee stand for at one call.
//!
//! In this order: brackets give generics that no parameter tells; element types; dims and packs that
//! stand alone in the type of a parameter; shapes that broadcast (`~s`), joined; then all that is left
//! of the parameter types is solved or compared. What must be equal is proved, refuted with a
//! diagnostic that names both places, or checked when running.

use std::collections::BTreeMap;

use ir::ast::{Expr, ExprKind, Generic, GenericKind, Ident, IndexArg, Mode, Signature, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym, Verdict};
use tensor::DType;

use crate::env::Env;
use crate::graph::{Body, Value};
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

/// Where a generic got its value, for the message when another place disagrees.
#[derive(Clone)]
struct Origin {
    span: Span,
    what: String,
}

/// A shape to compare once more is known: its pattern, the extents given, where.
struct Later<'a> {
    pattern: &'a Expr,
    spread: bool,
    actual: Vec<Dim>,
    origin: Origin,
}

/// True if a generic's bounds allow a type.
pub(crate) fn allows(g: &Generic, d: DType) -> bool {
    g.bounds.is_empty()
        || g.bounds.iter().any(|b| match b.name.name() {
            "any" => true,
            "float" => d.is_float(),
            "int" => d.is_int(),
            "num" => d.is_float() || d.is_int(),
            name => d.name() == name,
        })
}

/// One binding in the making.
struct Binder<'b, 'a> {
    callee: &'b str,
    sig: &'a Signature,
    env: Env,
    origins: BTreeMap<Sym, Origin>,
    later: Vec<Later<'a>>,
    span: Span,
}

impl<'a> Checker<'a> {
    /// Binds the generics of `sig` at a call, and gives the arguments as values.
    pub(crate) fn bind(
        &mut self,
        body: &mut Body,
        sig: &'a Signature,
        explicit: &[IndexArg],
        actuals: Vec<Actual>,
        span: Span,
    ) -> Maybe<Bound> {
        let callee = sig.name.name.name();
        let slots = self.slots(body, sig, actuals, span)?;
        let mut b =
            Binder { callee, sig, env: Env::default(), origins: BTreeMap::new(), later: vec![], span };
        self.attributes(body, &mut b, &slots)?;
        self.explicit(body, &mut b, explicit)?;
        self.element_types(body, &mut b, &slots)?;
        let joined = self.shapes(body, &mut b, &slots)?;
        self.solve_rest(body, &mut b)?;
        self.all_bound(&b)?;
        for pred in self.wheres(sig, &b.env) {
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
        for (p, slot) in sig.params.iter().zip(slots) {
            let Some(a) = slot.filter(|_| p.mode != Mode::Const) else { continue };
            let dtype = self.param_dtype(&b.env, p)?;
            let mut val = self.materialize(body, &a.value, dtype, a.span)?;
            if let Some(pack) = joined.get(&p.name.name) {
                let target = b.env.packs[pack].clone();
                val = self.stretch(body, val, &target, a.span)?;
            }
            if p.mode == Mode::Own {
                self.consume(body, val, a.span, callee)?;
            }
            args.push(val);
        }
        Some(Bound { env: b.env, args })
    }

    /// Arguments in the order of the parameters, defaults filled in.
    fn slots(
        &mut self,
        body: &mut Body,
        sig: &'a Signature,
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
                        format!("{callee}: takes {want} arguments, got {given}"),
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
                Some(e) if p.mode == Mode::Const => {
                    *slot =
                        Some(Actual { name: None, value: Value::Unit, expr: Some(e.clone()), span: e.span });
                }
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

    fn attributes(&mut self, body: &Body, b: &mut Binder<'_, 'a>, slots: &[Option<Actual>]) -> Maybe<()> {
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let (Mode::Const, Some(a)) = (p.mode, slot) else { continue };
            let Some(e) = &a.expr else { continue };
            match body.env.constant(e) {
                Ok(c) => b.env.consts.insert(p.name.name, c),
                Err(d) => return self.fail(*d),
            };
        }
        Some(())
    }

    /// `f[..](..)`: element types by name, then the generics that no parameter's type tells, in order.
    fn explicit(&mut self, body: &Body, b: &mut Binder<'_, 'a>, given: &[IndexArg]) -> Maybe<()> {
        let mut given = given.iter().peekable();
        let dtypes = b.sig.generics.iter().filter(|g| g.kind == GenericKind::DType);
        // A definition with an element type in its result only, `cast[f16]`, has that one given first.
        let mut wanted: Vec<&Generic> = dtypes.filter(|g| !told(b.sig, g.name.name)).collect();
        wanted.reverse();
        while let Some(IndexArg::Expr(Expr { kind: ExprKind::Name(name), span })) = given.peek() {
            let (Some(d), Some(g)) = (body.env.dtype(*name), wanted.last()) else { break };
            if !allows(g, d) {
                return self.fail(dtype_refused(b.callee, d, g, *span));
            }
            b.env.dtypes.insert(g.name.name, d);
            wanted.pop();
            given.next();
        }
        let rest: Vec<IndexArg> = given.cloned().collect();
        if rest.is_empty() {
            return Some(());
        }
        let dims = match body.env.dims(&rest) {
            Ok(dims) => dims,
            Err(d) => return self.fail(*d),
        };
        let free: Vec<&Generic> = b
            .sig
            .generics
            .iter()
            .filter(|g| g.kind != GenericKind::DType && !told(b.sig, g.name.name))
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

    fn element_types(&mut self, body: &Body, b: &mut Binder<'_, 'a>, slots: &[Option<Actual>]) -> Maybe<()> {
        let mut literals: Vec<(Sym, DType)> = Vec::new();
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let Some(a) = slot.as_ref().filter(|_| p.mode != Mode::Const) else { continue };
            let Some(TypeKind::Named { name, .. }) = p.ty.as_ref().map(|t| &t.kind) else { continue };
            let Some(g) = b.sig.generics.iter().find(|g| g.name.name == name.name) else { continue };
            let got = match &a.value {
                Value::Lit(lit) => {
                    literals.push((g.name.name, lit.natural()));
                    continue;
                }
                // An integer literal takes the type of its neighbours, as a float one does.
                Value::Dim(d) if d.as_int().is_some() => {
                    literals.push((g.name.name, DType::I64));
                    continue;
                }
                value => match self.value_type(body, value, a.span) {
                    Some(t) => t.dtype,
                    None => return None,
                },
            };
            if let Some(known) = b.env.dtypes.get(&g.name.name) {
                if *known != got {
                    let first = b.origins.get(&g.name.name).map_or(b.span, |o| o.span);
                    let text = format!("{}: element types differ: {known} vs {got}", b.callee);
                    let d =
                        Diagnostic::error("E0303", a.span, text).here(got.name()).label(first, known.name());
                    return self.fail(d.help(format!("convert one of them: `{known}(..)`")));
                }
                continue;
            }
            if !allows(g, got) {
                return self.fail(dtype_refused(b.callee, got, g, a.span));
            }
            b.env.dtypes.insert(g.name.name, got);
            b.origins.insert(g.name.name, Origin { span: a.span, what: String::new() });
        }
        for (name, natural) in literals {
            let g = b.sig.generics.iter().find(|g| g.name.name == name).expect("found above");
            let known = *b.env.dtypes.entry(name).or_insert(natural);
            if !allows(g, known) {
                return self.fail(dtype_refused(b.callee, known, g, b.span));
            }
        }
        for g in b.sig.generics.iter().filter(|g| g.kind == GenericKind::DType) {
            // Nothing said which: `zeros[3]` is f32.
            let first = std::iter::once(DType::F32).chain(DType::all()).find(|&d| allows(g, d));
            if let Some(first) = first {
                b.env.dtypes.entry(g.name.name).or_insert(first);
            }
        }
        Some(())
    }

    /// Dims and packs that stand alone; gives, by parameter, the pack it is stretched to.
    fn shapes(
        &mut self,
        body: &mut Body,
        b: &mut Binder<'_, 'a>,
        slots: &[Option<Actual>],
    ) -> Maybe<BTreeMap<Sym, Sym>> {
        let mut stretched: BTreeMap<Sym, Sym> = BTreeMap::new();
        let mut to_join: BTreeMap<Sym, Vec<(Vec<Dim>, Origin)>> = BTreeMap::new();
        for (p, slot) in b.sig.params.iter().zip(slots) {
            let Some(a) = slot.as_ref().filter(|_| p.mode != Mode::Const) else { continue };
            let Some(TypeKind::Named { dims, .. }) = p.ty.as_ref().map(|t| &t.kind) else {
                self.later(p.span, "parameters that are tuples, arrays or functions");
                return None;
            };
            let pattern: &'a [IndexArg] = dims.as_deref().unwrap_or(&[]);
            let actual = match &a.value {
                Value::Lit(_) => vec![],
                value => self.value_type(body, value, a.span)?.shape,
            };
            let origin = |what: String| Origin { span: a.span, what };
            let packs =
                pattern.iter().filter(|d| matches!(d, IndexArg::Spread(_) | IndexArg::Broadcast(_))).count();
            let singles = pattern.len() - packs;
            if (packs == 0 && actual.len() != singles) || actual.len() < singles || packs > 1 {
                let least = if packs == 0 { "" } else { "at least " };
                let text = format!(
                    "{}: `{}` needs {least}{singles} axes, got {}",
                    b.callee,
                    p.name.name,
                    actual.len()
                );
                let shown = self.value_type(body, &a.value, a.span).map_or(String::new(), |t| t.to_string());
                return self.fail(
                    Diagnostic::error("E0302", a.span, text).here(shown).label(p.span, "the parameter"),
                );
            }
            let spread = actual.len() - singles;
            let mut axis = 0;
            for pat in pattern {
                match pat {
                    IndexArg::Expr(e) => {
                        let o = origin(format!("axis {axis} of `{}`", p.name.name));
                        self.match_dim(body, b, e, actual[axis].clone(), o)?;
                        axis += 1;
                    }
                    IndexArg::Spread(e) => {
                        let part = actual[axis..axis + spread].to_vec();
                        axis += spread;
                        let o = origin(format!("`{}`", p.name.name));
                        match &e.kind {
                            ExprKind::Name(name)
                                if is_generic(b.sig, *name) && !b.env.packs.contains_key(name) =>
                            {
                                b.env.packs.insert(*name, part);
                                b.origins.insert(*name, o);
                            }
                            _ => b.later.push(Later { pattern: e, spread: true, actual: part, origin: o }),
                        }
                    }
                    IndexArg::Broadcast(name) => {
                        let part = actual[axis..axis + spread].to_vec();
                        axis += spread;
                        stretched.insert(p.name.name, name.name);
                        to_join
                            .entry(name.name)
                            .or_default()
                            .push((part, origin(format!("`{}`", p.name.name))));
                    }
                    IndexArg::Range(_) | IndexArg::Full(_) => {
                        return self.fail(Diagnostic::error("E0306", p.span, "a range is not a dim"));
                    }
                }
            }
        }
        for (pack, parts) in to_join {
            let known = b.env.packs.get(&pack).cloned();
            let joined = self.join(body, b.callee, known, &parts)?;
            b.env.packs.insert(pack, joined);
        }
        Some(stretched)
    }

    /// A dim of a parameter's type against an extent.
    fn match_dim(
        &mut self,
        body: &mut Body,
        b: &mut Binder<'_, 'a>,
        e: &'a Expr,
        got: Dim,
        o: Origin,
    ) -> Maybe<()> {
        let ExprKind::Name(name) = &e.kind else {
            b.later.push(Later { pattern: e, spread: false, actual: vec![got], origin: o });
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
            b.later.push(Later { pattern: e, spread: false, actual: vec![got], origin: o });
        }
        Some(())
    }

    /// What is left of the parameter types: solved for a dim still unknown, or compared.
    fn solve_rest(&mut self, body: &mut Body, b: &mut Binder<'_, 'a>) -> Maybe<()> {
        let mut rest = std::mem::take(&mut b.later);
        while !rest.is_empty() {
            let before = rest.len();
            let mut still = Vec::new();
            for l in rest {
                let pattern =
                    if l.spread { b.env.pack(l.pattern) } else { b.env.dim(l.pattern).map(|d| vec![d]) };
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
                        let unknown: Vec<Sym> = names_in(l.pattern)
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
                            open.dim(l.pattern).ok().and_then(|p| shape::solve(&p, &l.actual[0], sought));
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
                                ast_text(l.pattern)
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

    fn all_bound(&mut self, b: &Binder<'_, 'a>) -> Maybe<()> {
        for g in &b.sig.generics {
            let name = g.name.name;
            let (bound, form) = match g.kind {
                GenericKind::Dim => (b.env.dims.contains_key(&name), format!("{}[{name}](..)", b.callee)),
                GenericKind::Pack => (b.env.packs.contains_key(&name), format!("{}[..{name}](..)", b.callee)),
                GenericKind::DType => (b.env.dtypes.contains_key(&name), format!("{}[{name}](..)", b.callee)),
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
        d = d.here(format!("{} is {got}", o.what));
        if let Some(f) = first {
            d = d.label(f.span, format!("{} is {known}", f.what));
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
                let mut d = wrong.note(format!("`{pred}` is false here"));
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

fn dtype_refused(callee: &str, d: DType, g: &Generic, span: Span) -> Diagnostic {
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

/// True if the type of some parameter tells this generic: it stands alone in it, or linearly.
fn told(sig: &Signature, name: Sym) -> bool {
    sig.params.iter().filter(|p| p.mode != Mode::Const).any(|p| match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { name: n, dims, .. }) => {
            n.name == name
                || dims.iter().flatten().any(|d| match d {
                    IndexArg::Broadcast(n) => n.name == name,
                    IndexArg::Spread(e) => matches!(&e.kind, ExprKind::Name(n) if *n == name),
                    IndexArg::Expr(e) => names_in(e).contains(&name),
                    IndexArg::Range(_) | IndexArg::Full(_) => false,
                })
        }
        _ => false,
    })
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
    pub(crate) fn param_dtype(&mut self, env: &Env, p: &ir::ast::Param) -> Maybe<DType> {
        match p.ty.as_ref().map(|t| &t.kind) {
            Some(TypeKind::Named { name, args, .. }) => match env.element(name.name, args) {
                Some(d) => Some(d),
                None => {
                    self.fail(Diagnostic::error("E0306", name.span, format!("unknown type `{}`", name.name)))
                }
            },
            _ => None,
        }
    }

    /// The type of an argument.
    pub(crate) fn value_type(&mut self, body: &Body, value: &Value, span: Span) -> Maybe<Type> {
        match value {
            Value::Val(v) => Some(body.func.ty(*v).clone()),
            Value::Dim(_) => Some(Type::scalar(DType::I64)),
            Value::Lit(lit) => Some(Type::scalar(lit.natural())),
            other => {
                let text = format!("a tensor is needed, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
        }
    }
}
