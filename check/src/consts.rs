//! `const NAME: T = e`: numbers and lists known when compiling, and tensors that functions share.
//!
//! A constant that is a number, a bool or a list of integers is known when compiling: it may be a dim, an
//! attribute, a block's size. Any other is an expression, evaluated in each function that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::ast::{Expr, File, Ident, ItemKind, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::Func;
use ir::source::Span;
use shape::Sym;
use tensor::DType;

use crate::bind::names_in;
use crate::env::{Const, Env};
use crate::graph::{Body, Value};
use crate::{Checker, Maybe};

/// A constant as written.
#[derive(Clone, Copy)]
struct ConstDef<'a> {
    name: Ident,
    ty: Option<&'a TypeExpr>,
    value: &'a Expr,
}

/// A constant known when compiling.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) value: Const,
    /// The element type said; none: its use decides.
    pub(crate) dtype: Option<DType>,
}

/// The constants of a program. Those of the program stand before those of the library.
#[derive(Default)]
pub(crate) struct Consts<'a> {
    written: BTreeMap<Sym, ConstDef<'a>>,
    known: Rc<BTreeMap<Sym, Constant>>,
    /// Those being evaluated, the innermost last.
    open: Vec<Sym>,
    /// Those that are wrong, which was said: their uses say nothing more.
    wrong: Rc<BTreeSet<Sym>>,
}

impl<'a> Consts<'a> {
    pub(crate) fn declare(&mut self, file: &'a File) {
        for item in &file.items {
            if let ItemKind::Const(name, ty, value) = &item.kind {
                self.written.insert(name.name, ConstDef { name: *name, ty: ty.as_ref(), value });
            }
        }
    }

    pub(crate) fn has(&self, name: Sym) -> bool {
        self.written.contains_key(&name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.written.keys().map(|s| s.name())
    }
}

impl<'a> Checker<'a> {
    /// An environment that knows the program's constants.
    pub(crate) fn env(&self) -> Env {
        Env { globals: Rc::clone(&self.consts.known), wrong: Rc::clone(&self.consts.wrong), ..Env::default() }
    }

    /// Finds the constants that are known when compiling. One may use others, in any order.
    pub(crate) fn evaluate_consts(&mut self) {
        let mut left: Vec<ConstDef<'a>> = self.consts.written.values().copied().collect();
        left.sort_by_key(|w| w.name.span);
        loop {
            let before = left.len();
            let mut wrong = Vec::new();
            let mut known = (*self.consts.known).clone();
            left.retain(|w| {
                let env = Env { globals: Rc::new(std::mem::take(&mut known)), ..Env::default() };
                let value = env.constant(w.value);
                known = Rc::unwrap_or_clone(env.globals);
                let dtype = w.ty.and_then(|t| match &t.kind {
                    TypeKind::Named { name, .. } => name.name.name().parse::<DType>().ok(),
                    _ => None,
                });
                let fits = |v: &Const| match (v, dtype) {
                    (Const::Int(_), Some(d)) => !d.is_float() && d != DType::Bool,
                    _ => true,
                };
                match value {
                    Ok(value) if fits(&value) => {
                        known.insert(w.name.name, Constant { value, dtype }).is_some()
                    }
                    // An integer of a type of floats is a float.
                    Ok(Const::Int(i)) => {
                        known.insert(w.name.name, Constant { value: Const::float(i as f64), dtype }).is_some()
                    }
                    // Its numbers are all known, and it has no value.
                    Err(d) if d.code == "E0310" => {
                        wrong.push((w.name, *d));
                        false
                    }
                    _ => true,
                }
            });
            self.consts.known = Rc::new(known);
            for (name, mut d) in wrong {
                let why =
                    if d.message.contains("zero") { "it divides by zero" } else { "it overflows 64 bits" };
                d.message = format!("the constant `{}` has no value: {why}", name.name);
                self.report(d);
                self.fault(&[name.name]);
            }
            if left.is_empty() || left.len() == before {
                return self.circles(&left);
            }
        }
    }

    /// Refuses constants that are made of themselves, before anything uses them.
    fn circles(&mut self, left: &[ConstDef<'a>]) {
        let uses = |w: &ConstDef<'a>| -> Vec<usize> {
            let names = names_in(w.value);
            (0..left.len()).filter(|&i| names.contains(&left[i].name.name)).collect()
        };
        let uses: Vec<Vec<usize>> = left.iter().map(uses).collect();
        for (start, w) in left.iter().enumerate() {
            if self.consts.wrong.contains(&w.name.name) {
                continue;
            }
            // By which constant each was reached first.
            let mut from: Vec<Option<usize>> = vec![None; left.len()];
            let mut work = vec![start];
            while let Some(at) = work.pop() {
                for &next in &uses[at] {
                    if from[next].is_none() {
                        from[next] = Some(at);
                        work.push(next);
                    }
                }
            }
            let Some(mut at) = from[start] else { continue };
            let mut circle = vec![start];
            while at != start {
                circle.push(at);
                at = from[at].unwrap_or(start);
            }
            let names: Vec<Sym> = circle.iter().map(|&i| left[i].name.name).collect();
            self.fault(&names);
            let text = format!("the constant `{}` is made of itself", w.name.name);
            let d = Diagnostic::error("E0315", w.name.span, text);
            self.report(match circle.get(1) {
                Some(&by) => d.label(left[by].name.span, "this uses it"),
                None => d,
            });
        }
        // What uses one of those has no value either, and that was said.
        while let Some(w) = left.iter().enumerate().find_map(|(i, w)| {
            let wrong = |n: Sym| self.consts.wrong.contains(&n);
            let upset = !wrong(w.name.name) && uses[i].iter().any(|&u| wrong(left[u].name.name));
            upset.then_some(w)
        }) {
            self.fault(&[w.name.name]);
        }
    }

    fn fault(&mut self, names: &[Sym]) {
        Rc::make_mut(&mut self.consts.wrong).extend(names);
    }

    /// Says what is wrong with a constant, used or not.
    pub(crate) fn check_const(&mut self, name: Ident) {
        if self.consts.written.get(&name.name).is_some_and(|w| w.name.span == name.span) {
            let mut body = Body::new(Func::named("const", name.span), self.env(), vec![]);
            let _ = self.const_value(&mut body, name.name, name.span);
        }
    }

    /// A constant as a value of a function.
    pub(crate) fn const_value(&mut self, body: &mut Body, name: Sym, span: Span) -> Maybe<Value> {
        let w = *self.consts.written.get(&name)?;
        if self.consts.wrong.contains(&name) {
            return None;
        }
        if let Some(first) = self.consts.open.iter().position(|n| *n == name) {
            let circle = self.consts.open[first..].to_vec();
            self.fault(&circle);
            let d =
                Diagnostic::error("E0315", w.name.span, format!("the constant `{name}` is made of itself"));
            return self.fail(if span == w.name.span { d } else { d.label(span, "used here") });
        }
        self.consts.open.push(name);
        let value = body.in_own_scope(self.env(), |body| {
            let value = self.expr(body, w.value)?;
            self.const_typed(body, value, w, name)
        });
        self.consts.open.pop();
        value
    }

    fn const_typed(&mut self, body: &mut Body, value: Value, w: ConstDef<'a>, name: Sym) -> Maybe<Value> {
        // `int`, `ints`, `bool` and `dim` are the types of attributes: of what is known when compiling.
        if let Some(TypeKind::Named { name: ty, dims: None, .. }) = w.ty.map(|t| &t.kind) {
            let known = self.consts.known.get(&name).map(|k| &k.value);
            let fits = match (ty.name.name(), known) {
                ("int" | "dim", Some(Const::Int(_))) | ("ints", Some(Const::Ints(_))) => true,
                ("int" | "dim" | "ints", _) => {
                    let text = format!("`{name}` is not known when compiling as `{}`", ty.name);
                    return self
                        .fail(Diagnostic::error("E0307", w.value.span, text).label(ty.span, "asked here"));
                }
                _ => false,
            };
            if fits {
                return Some(value);
            }
        }
        self.annotated(body, value, w.ty, &format!("constant `{name}`"), w.value.span)
    }
}
