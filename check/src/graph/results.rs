//! What a body gives: its value, fitted to the results that its function declares.

use ir::ast::{self, FnDef};
use ir::diag::Diagnostic;
use ir::graph::{Func, Type, ValId};
use ir::source::Span;

use super::{Body, Value};
use crate::env::Env;
use crate::instance::Head;
use crate::types::Ty;
use crate::{Checker, Maybe};

impl<'a> Checker<'a> {
    /// The body of a function whose head is done.
    pub(crate) fn func_body(&mut self, def: &'a FnDef, head: Head, env: Env) -> Maybe<Func> {
        let mut body = Body::new(head.func, env, head.names);
        let value = self.statements(&mut body, &def.body)?;
        let span = def.body.stmts.last().map_or(def.body.span, |s| s.span);
        let mut results = Vec::new();
        match &head.result {
            Some(want) => {
                self.results(&mut body, &value, want, span, &mut results)?;
                let types: Vec<Type> = results.iter().map(|v| body.func.ty(*v).clone()).collect();
                self.as_promised(&mut body, &types, span)?;
            }
            None => self.unwanted(&body, def, &value, span),
        }
        Some(body.finish(results))
    }

    /// Refuses the value of a function that declares no result.
    pub(super) fn unwanted(&mut self, body: &Body, def: &FnDef, value: &Value, span: Span) {
        if matches!(value, Value::Unit) || matches!(value, Value::Tuple(parts) if parts.is_empty()) {
            return;
        }
        let name = def.sig.name;
        let text = format!("{}: the body gives {}, and no result is declared", name.name, value.kind());
        let declared = match value {
            Value::Val(v) => format!("`-> {}`", ir::display_names::demangle(&body.func.ty(*v).to_string())),
            _ => "its type after `->`".to_owned(),
        };
        let d = Diagnostic::error("E0311", span, text).label(name.span, "a function without a result");
        self.report(d.help(format!("declare it: {declared}")));
    }

    /// A test is a function without parameters.
    pub(crate) fn test(&mut self, def: &'a ast::TestDef) {
        let name = format!("test {}", self.module.tests.len());
        let mut body = Body::new(Func::named(&name, def.body.span), self.env(), vec![]);
        if self.valueless(&mut body, &def.body).is_none() {
            self.lost = self.lost.or(Some(def.body.span));
            return;
        }
        self.module.funcs.push(body.finish(vec![]));
        let func = ir::FuncId(self.module.funcs.len() as u32 - 1);
        self.module.tests.push(ir::Test { name: def.name.clone(), func });
    }

    /// Fits the value of a body to the declared results; existential dims take what the value has.
    fn results(
        &mut self,
        body: &mut Body,
        value: &Value,
        want: &Ty,
        span: Span,
        out: &mut Vec<ValId>,
    ) -> Maybe<()> {
        let callee = body.func.def;
        if matches!(value, Value::Unit) {
            // That a branch alone gives one is said here.
            let inside = |d: &Diagnostic| {
                d.code == "E0311"
                    && span.file == d.span().file
                    && span.lo < d.span().lo
                    && d.span().hi <= span.hi
            };
            self.diagnostics.retain(|d| !inside(d));
            let d = Diagnostic::error(
                "E0311",
                span,
                format!("{callee}: the body gives no value, and `{want}` is declared"),
            );
            return self
                .fail(d.help("end the body with an expression; an `if` is one where it has an `else`"));
        }
        match (want, value) {
            (Ty::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                types.iter().zip(parts).try_for_each(|(t, v)| self.results(body, v, t, span, out))
            }
            (Ty::Tuple(types), other) => {
                let got = if let Value::Tuple(parts) = other { parts.len() } else { 1 };
                let text = format!("{callee}: {} values are needed, got {got}", types.len());
                self.fail(Diagnostic::error("E0307", span, text))
            }
            (Ty::Tensor(_), Value::Tuple(_)) => {
                let text = format!("{callee}: gives more values than declared");
                self.fail(Diagnostic::error("E0307", span, text))
            }
            (Ty::Tensor(want), value) => self.result(body, value, want, span, out),
            (Ty::Record(_) | Ty::Encoded(_) | Ty::Several(_) | Ty::Array(..) | Ty::Fn, value) => {
                let tree = self.tree_like(body, value, want, span, &format!("{callee}: result"))?;
                for (leaf, v) in want.leaves("").iter().zip(&tree.leaves) {
                    self.result(body, &Value::Val(*v), &leaf.ty, span, out)?;
                }
                Some(())
            }
        }
    }

    fn result(
        &mut self,
        body: &mut Body,
        value: &Value,
        want: &Type,
        span: Span,
        out: &mut Vec<ValId>,
    ) -> Maybe<()> {
        let callee = body.func.def;
        let val = self.materialize(body, value, want.dtype, span)?;
        let got = body.func.ty(val).clone();
        let want = self.as_found(body, want, &got, span)?;
        self.same_type(body, &want, &got, span, &format!("{callee}: result"))?;
        out.push(val);
        Some(())
    }
}
