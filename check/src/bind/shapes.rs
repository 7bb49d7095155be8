//! Unification of shapes: dims and packs that stand alone, shapes that broadcast, and the rest, solved or
//! compared.

use std::collections::BTreeMap;

use ir::ast::{Expr, ExprKind};
use ir::diag::{Diagnostic, count_of};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym, Verdict};

use super::infer::names_in;
use super::{Binder, Later, Origin, Parts, Pattern, is_generic};
use crate::graph::{Body, Value};
use crate::shape_hints::{self, list};
use crate::types::{Arg, dim_said};
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// Dims and packs that stand alone; gives, by part, the pack it is stretched to.
    pub(super) fn shapes(
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
                Value::Val(v) => Some(body.func.ty(*v).clone()),
                _ => None,
            };
            let origin = |what: String, axis: Option<usize>| {
                let shown = shown.clone().map(|ty| (ty, axis));
                Origin { span: part.span, what, shown }
            };
            let single = |p: &&Pattern<'_>| matches!(p, Pattern::One(_));
            let singles = part.pattern.iter().filter(single).count();
            let packs = part.pattern.len() - singles;
            if (packs == 0 && actual.len() != singles) || actual.len() < singles || packs > 1 {
                let least = if packs == 0 { "" } else { "at least " };
                let text = format!(
                    "{}: `{}` needs {least}{}, got {}",
                    b.callee,
                    part.what,
                    count_of(singles, "axis", "axes"),
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
                        let o = origin(format!("axis {axis} of `{}`", part.what), Some(axis));
                        self.match_dim(body, b, e, actual[axis].clone(), o)?;
                        axis += 1;
                    }
                    Pattern::Spread(e) => {
                        let list = actual[axis..axis + spread].to_vec();
                        axis += spread;
                        let o = origin(format!("`{}`", part.what), None);
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
                        let o = origin(format!("`{}`", part.what), None);
                        to_join.entry(name.name).or_default().push((list, o));
                    }
                }
            }
        }
        for (e, got, origin) in &parts.extents {
            self.match_dim(body, b, e, got.clone(), origin.clone())?;
        }
        for g in &parts.generics {
            let (Arg::Dim(has), Some(said)) = (&g.has, dim_said(g.declared)) else { continue };
            let what = match &said.kind {
                ExprKind::Name(name) => format!("`{name}` of `{}`", g.what),
                _ => format!("a generic of `{}`", g.what),
            };
            let origin = Origin { span: g.span, what, shown: None };
            self.match_dim(body, b, &said, has.clone(), origin)?;
        }
        for (pack, lists) in to_join {
            let known = b.env.packs.get(&pack).cloned();
            let joined = self.join(body, b.callee, known, &lists)?;
            b.env.packs.insert(pack, joined);
        }
        Some(stretched)
    }

    /// A dim of a parameter's type against an extent.
    pub(super) fn match_dim(
        &mut self,
        body: &mut Body,
        b: &mut Binder<'_>,
        e: &Expr,
        got: Dim,
        o: Origin,
    ) -> Maybe<()> {
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
    pub(super) fn solve_rest(&mut self, body: &mut Body, b: &mut Binder<'_>) -> Maybe<()> {
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
                            "{}: {} needs {}, got {}",
                            b.callee,
                            l.origin.what,
                            count_of(want.len(), "axis", "axes"),
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
                        // With what is known of the others: `2*d`, where `h * d` is written.
                        open.dims.insert(*unknown, Dim::sym(*unknown));
                        let needed = open.dim(&l.pattern).unwrap_or_else(|_| Dim::sym(*unknown));
                        for pred in solved.requires {
                            let text = format!(
                                "{}: {} is {}, which is not `{needed}` for any {unknown}",
                                b.callee, l.origin.what, l.actual[0],
                            );
                            let d = Diagnostic::error("E0301", l.origin.span, text.clone())
                                .here(l.origin.is(&l.actual[0]))
                                .label(b.sig.name.span, "declared here");
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

    /// Two extents that must be equal.
    #[expect(clippy::too_many_arguments, reason = "the two sides of one message")]
    pub(super) fn equal(
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
        if o.transposed(known) {
            d = d.help(format!("transposed, {} is {known}: `.T`", o.what));
        } else if let Some(f) = first.as_ref().filter(|f| f.transposed(got)) {
            d = d.help(format!("transposed, {} is {got}: `.T`", f.what));
        }
        if let Some(f) = first {
            d = d.label(f.span, f.is(known));
        }
        self.require(body, Pred::Eq(known.clone(), got.clone()), o.span, &text, d)
    }

    /// Joins shapes as element-wise operators do: axes aligned at the right, a literal 1 stretches.
    pub(super) fn join(
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
                if let Some((other, f)) =
                    first.and_then(|f| parts.iter().find(|p| p.1.span == f.span).map(|p| (&p.0, f)))
                {
                    diag = diag.label(f.span, format!("{} is [{}]", f.what, list(other)));
                    let (short, long, of) =
                        if shape.len() < other.len() { (shape, other, origin) } else { (other, shape, f) };
                    if let Some(n) = shape_hints::stretched(short, long) {
                        let axes: Vec<String> = (1..=n).rev().map(|k| format!("-{k}")).collect();
                        let axes = if n == 1 { axes.concat() } else { format!("[{}]", axes.join(", ")) };
                        diag = diag.help(format!(
                            "axes are aligned at the right; {} stretches with an axis more at its end: \
                             `unsqueeze(.., axis={axes})`",
                            of.what
                        ));
                    }
                }
                let pred = Pred::Eq(so_far.clone(), d.clone());
                self.require(body, pred, origin.span, &text, diag)?;
            }
        }
        Some(joined.into_iter().map(|j| j.0).collect())
    }

    /// The same of what an expression divides by: none is 0.
    pub(crate) fn divisible(&mut self, body: &mut Body, d: &Dim, span: Span) -> Maybe<()> {
        d.divisors().into_iter().try_for_each(|by| {
            let text = format!("{d} is divided by {by}, which is 0");
            let wrong = Diagnostic::error("E0310", span, format!("{d} is divided by zero"));
            self.require(body, Pred::Ne(by, Dim::int(0)), span, &text, wrong)
        })
    }

    /// The same of an extent: it can be computed, and is not negative.
    pub(crate) fn not_negative(
        &mut self,
        body: &mut Body,
        d: &Dim,
        what: &dyn Fn() -> String,
        span: Span,
    ) -> Maybe<()> {
        // Of what no number can say it is said where it is needed.
        if d.is_poison() || d.as_sym().is_some() || d.as_int().is_some_and(|i| i >= 0) {
            return Some(());
        }
        self.divisible(body, d, span)?;
        let pred = Pred::Le(Dim::int(0), d.clone());
        if body.env.facts.prove(&pred).is_proved() {
            return Some(());
        }
        let text = format!("{} is {d}, and no dim is negative", what());
        let wrong = Diagnostic::error("E0310", span, text.clone());
        self.require(body, pred, span, &text, wrong)
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
                let facts = body.facts_on(&pred);
                if !facts.is_empty() {
                    d = d.note(format!("known: {}", facts.join(", ")));
                }
                self.fail(d)
            }
            // An extent that no integer is.
            Verdict::Unknown if pred.exprs().iter().any(|e| e.is_poison()) => {
                self.fail(wrong.note("a dim in it is divided by zero, or does not fit in 64 bits"))
            }
            Verdict::Unknown => {
                body.check(pred, text.to_owned(), span);
                Some(())
            }
        }
    }
}
