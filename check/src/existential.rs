//! Existential types, what `exists k, k <= n, k % 2 == 0. f32[k]` says: dims that only running tells, and what holds of
//! them.
//!
//! Whoever is given such a value assumes it; whoever gives one proves it, or checks it where the value is given.

use std::collections::BTreeSet;

use ir::ast::{Exist, Expr, Signature, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Func, Type};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym, System};

use crate::env::Env;
use crate::graph::Body;
use crate::{Checker, Maybe};

/// The conditions of an `exists`.
pub(crate) fn facts(vars: &[Exist]) -> impl Iterator<Item = &Expr> {
    vars.iter().filter_map(|e| e.fact.as_ref())
}

/// `p is 3, q is n`: what the dims that a condition speaks of are.
pub(crate) fn extents(fact: &Pred, found: &dyn Fn(Sym) -> Option<Dim>) -> String {
    let is = fact.syms().into_iter().filter_map(|s| Some(format!("{s} is {}", found(s)?)));
    is.collect::<Vec<_>>().join(", ")
}

impl Checker<'_> {
    /// Says which dims an `exists` names twice.
    pub(crate) fn distinct_exists(&mut self, vars: &[Exist]) {
        self.distinct(vars.iter().filter(|e| e.fact.is_none()).filter_map(|e| e.name));
    }

    /// The result type of a function without its `exists`, whose dims become symbols of `env` and of the function.
    pub(crate) fn opened<'t>(
        &mut self,
        sig: &Signature,
        ret: &'t TypeExpr,
        env: &mut Env,
        func: &mut Func,
    ) -> &'t TypeExpr {
        let TypeKind::Exists(vars, inner) = &ret.kind else { return ret };
        self.distinct_exists(vars);
        for name in Exist::names(vars) {
            if let Some(g) = sig.generics.iter().find(|g| g.name.name == name.name) {
                let text = format!("`{}` is a dim of its own here, and a generic of the function", name.name);
                let d = Diagnostic::error("E0202", name.span, text).label(g.name.span, "the generic");
                self.report(d.help(
                    "name it otherwise; a condition begins with a dim that the `exists` names: `k >= n`",
                ));
            }
            env.dims.insert(name.name, Dim::sym(name.name));
            func.exists.push((name.name, vec![Pred::Le(Dim::int(0), Dim::sym(name.name))]));
        }
        for pred in self.exist_facts(env, vars).unwrap_or_default() {
            let last = func.exists.iter_mut().rev().find(|(s, _)| pred.syms().contains(s));
            if let Some((_, preds)) = last {
                preds.push(pred);
            }
        }
        inner
    }

    /// What an `exists` says of its dims, which `env` knows.
    pub(crate) fn exist_facts(&mut self, env: &Env, vars: &[Exist]) -> Maybe<Vec<Pred>> {
        let mut preds = Vec::new();
        for fact in facts(vars) {
            if let Err(d) = env.preds(fact, &mut preds) {
                return self.fail(*d);
            }
        }
        Some(preds)
    }

    /// A declared result with the dims that its `exists` opens as a value has them: those that stand alone, then what
    /// is linear in one that is not known yet.
    pub(crate) fn as_found(&mut self, body: &mut Body, want: &Type, got: &Type, span: Span) -> Maybe<Type> {
        let exists: BTreeSet<Sym> = body.func.exists.iter().map(|e| e.0).collect();
        let mut found = want.clone();
        if want.shape.len() != got.shape.len() {
            return Some(found);
        }
        let mut others = Vec::new();
        for (w, g) in found.shape.iter_mut().zip(&got.shape) {
            match w.as_sym() {
                Some(s) if exists.contains(&s) => {
                    body.promised.entry(s).or_insert(g.clone());
                    w.clone_from(g);
                }
                _ => others.push((w, g)),
            }
        }
        let open = exists.into_iter().filter(|s| !body.promised.contains_key(s));
        let written = |w: &Dim| w.subst(&|s| body.promised.get(&s).cloned());
        let system = System::solve(open, others.iter().map(|(w, g)| (written(w), (*g).clone())));
        for f in system.found {
            let (w, g) = &others[f.equation];
            let text = format!("{}: no {} gives the result's extent {w} the value {g}", body.func.def, f.sym);
            for p in f.requires {
                let d = Diagnostic::error("E0301", span, text.clone());
                self.require(body, p, span, &text, d)?;
            }
            body.promised.insert(f.sym, f.value);
        }
        for ((w, _), (whole, _)) in others.into_iter().zip(system.equations) {
            *w = whole;
        }
        Some(found)
    }

    /// Asks of the results of a body what its function says of the dims that they open.
    pub(crate) fn as_promised(&mut self, body: &mut Body, results: &[Type], span: Span) -> Maybe<()> {
        let exists = body.func.exists.clone();
        let declared = body.func.result_types.clone();
        let callee = body.func.def;
        let mut found = body.promised.clone();
        for (want, got) in declared.iter().zip(results) {
            for (w, g) in want.shape.iter().zip(&got.shape) {
                let Some(s) = w.as_sym().filter(|s| exists.iter().any(|e| e.0 == *s)) else { continue };
                let first = found.entry(s).or_insert(g.clone()).clone();
                if first != *g {
                    let text = format!("{callee}: the result's dim {s} is {first}, and {g}");
                    let d = Diagnostic::error("E0301", span, text.clone());
                    self.require(body, Pred::Eq(first, g.clone()), span, &text, d)?;
                }
            }
        }
        for fact in exists.iter().flat_map(|e| &e.1) {
            let now = fact.subst(&|s| found.get(&s).cloned());
            let is = extents(fact, &|s| found.get(&s).cloned());
            let text = format!("{callee}: the result's dim {is}: `{fact}` does not hold");
            let d = Diagnostic::error("E0301", span, text.clone());
            self.require(body, now, span, &text, d)?;
        }
        Some(())
    }
}
