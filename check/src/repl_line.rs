//! A line of the REPL: statements as the body of a function of what earlier lines bound.
//!
//! The module that comes of it holds tensors only, so what a line gives has a [`Form`] beside them, with which a later
//! line takes them up again: `let a = (x, 1.0)`, then `a.0`.

use std::collections::BTreeSet;

use ir::ast::{self, ExprKind, Stmt, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Func, Param, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Sym};

use crate::Checker;
use crate::graph::{Body, Value};
use crate::types::{Arg, Ty};

/// What a value is made of.
#[derive(Clone, Debug)]
pub enum Form {
    /// One tensor.
    Tensor,
    /// Several values.
    Tuple(Vec<Form>),
    /// A record, an array of those or an encoded tensor: its type, and the names of its tensors.
    Tree(TypeExpr, Vec<String>),
}

impl Form {
    /// The names of its tensors under a name, in order.
    pub fn paths(&self, name: &str) -> Vec<String> {
        match self {
            Form::Tensor => vec![name.to_owned()],
            Form::Tuple(parts) => {
                parts.iter().enumerate().flat_map(|(i, p)| p.paths(&format!("{name}.{i}"))).collect()
            }
            Form::Tree(_, paths) => paths.iter().map(|p| format!("{name}.{p}")).collect(),
        }
    }
}

/// What an earlier line bound: a name, its form, and the types of its tensors.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name.
    pub name: Sym,
    /// What it is.
    pub form: Form,
    /// Of each of its tensors.
    pub types: Vec<Type>,
}

impl Checker<'_> {
    /// Statements as a function of some inputs; the form of what they give, none where they give nothing.
    pub(crate) fn line(&mut self, inputs: &[Input], stmts: &[Stmt]) -> Option<Form> {
        let span = stmts.last().map_or(Span::default(), |s| s.span);
        let mut func = Func::named("line", span);
        let mut names = Vec::new();
        for input in inputs {
            let mut leaves = Vec::new();
            for (path, ty) in input.form.paths(input.name.name()).iter().zip(&input.types) {
                let name = Sym::new(path);
                let val = func.add_val(name, ty.clone());
                func.body.params.push(val);
                // A line may give its inputs away: whoever runs it keeps the values.
                func.params.push(Param { name, own: true, from: None });
                leaves.push(val);
            }
            names.push((input.name, self.taken_up(&input.form, &mut leaves.into_iter())?));
        }
        let mut body = Body::new(func, self.env(), names);
        let block = ast::Block { stmts: stmts.to_vec(), span };
        let value = self.statements(&mut body, &block)?;
        if value.has_function() {
            return self.fail(Diagnostic::error("E0307", span, "a function is no result of a line"));
        }
        let mut results = Vec::new();
        let form = match value {
            Value::Unit => None,
            value => {
                self.flatten(&mut body, &value, span, &mut results)?;
                Some(self.form_of(&value))
            }
        };
        let mut func = body.finish(results.clone());
        func.result_types = results.iter().map(|v| func.ty(*v).clone()).collect();
        func.results = vec![None; results.len()];
        let open: BTreeSet<Sym> =
            func.result_types.iter().flat_map(|t| &t.shape).flat_map(Dim::syms).collect();
        func.exists = open.into_iter().map(|s| (s, vec![])).collect();
        // What it calls stands before it.
        self.bodies();
        self.module.funcs.push(func);
        form
    }

    fn taken_up(&mut self, form: &Form, leaves: &mut impl Iterator<Item = ValId>) -> Option<Value> {
        match form {
            Form::Tensor => leaves.next().map(Value::Val),
            Form::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.taken_up(p, leaves));
                parts.collect::<Option<Vec<_>>>().map(Value::Tuple)
            }
            Form::Tree(ty, paths) => {
                let leaves: Vec<ValId> = leaves.by_ref().take(paths.len()).collect();
                let env = self.env();
                // What its record became since may have other fields.
                match self.ty(&env, ty).filter(|t| t.count() == leaves.len()) {
                    Some(ty) => Some(Value::from_leaves(&ty, &leaves)),
                    None => Some(Value::Tuple(leaves.into_iter().map(Value::Val).collect())),
                }
            }
        }
    }

    fn form_of(&self, value: &Value) -> Form {
        match value {
            Value::Tuple(parts) | Value::Record(_, parts) => {
                Form::Tuple(parts.iter().map(|p| self.form_of(p)).collect())
            }
            Value::Tree(t) => match written(&t.ty) {
                Some(ty) => Form::Tree(ty, t.ty.leaves("").into_iter().map(|l| l.path).collect()),
                // Extents that only the run told: what is left are its tensors.
                None => Form::Tuple(vec![Form::Tensor; t.leaves.len()]),
            },
            Value::Val(_)
            | Value::Dim(_)
            | Value::Lit(_)
            | Value::Literals(_)
            | Value::Fn(_)
            | Value::Unit => Form::Tensor,
        }
    }
}

/// A type as text would have it, where its extents are numbers.
fn written(ty: &Ty) -> Option<TypeExpr> {
    let span = Span::default();
    let named = |name: Sym, args: Vec<TypeExpr>, dims| {
        let name = ast::Ident { name, span };
        TypeExpr { kind: TypeKind::Named { name, args, dims }, span }
    };
    let number = |d: &Dim| Some(ast::Expr { kind: ExprKind::Int(d.as_int()?), span });
    let brackets = |shape: &[Dim]| -> Option<Option<Vec<ast::IndexArg>>> {
        let dims = shape.iter().map(|d| number(d).map(ast::IndexArg::Expr)).collect::<Option<Vec<_>>>()?;
        Some((!dims.is_empty()).then_some(dims))
    };
    match ty {
        Ty::Tensor(t) => Some(named(Sym::new(t.dtype.name()), vec![], brackets(&t.shape)?)),
        Ty::Encoded(e) => Some(named(e.name, vec![], brackets(&e.shape)?)),
        Ty::Tuple(parts) => {
            let parts = parts.iter().map(written).collect::<Option<Vec<_>>>()?;
            Some(TypeExpr { kind: TypeKind::Tuple(parts), span })
        }
        Ty::Record(r) => {
            let arg = |a: &Arg| match a {
                Arg::Dim(d) => Some(TypeExpr { kind: TypeKind::Dim(Box::new(number(d)?)), span }),
                Arg::Elem(_, name) => Some(named(*name, vec![], None)),
            };
            Some(named(r.name, r.args.iter().map(arg).collect::<Option<Vec<_>>>()?, None))
        }
        Ty::Array(k, of) => {
            Some(TypeExpr { kind: TypeKind::Array(Box::new(written(of)?), Box::new(number(k)?)), span })
        }
        Ty::Several(_) | Ty::Fn => None,
    }
}
