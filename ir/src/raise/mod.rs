//! Raising (decompilation): typed IR back to the program as written, so that the printer of `parser` can show it as
//! text.
//!
//! In: a checked [`Module`] or a part of it. Out: [`ast`] without places (every span is the default),
//! which prints as a program that checks to the same module: `tenon opt -o plan.tn` and `tenon dis`
//! are made of it.
//!
//! What is not kept: which names the definitions had (`add.f32.2` becomes `add_f32_2`), packs and
//! element types as parameters (an instance has none), and marks on loops, which the checker finds again.
//!
//! Entry points: [`module`], [`func`], [`prim`], [`dim`], [`pred`]. `term` builds syntax with the
//! parentheses it needs, `names` keeps names readable and apart, `scalars` and `stmts` do primitives,
//! `graph` does functions.
//!
//! Invariants: every name is one the lexer takes, and means one thing where it stands; a literal stands
//! only where its neighbours or its context give it the type it has in the IR; the same module gives the
//! same tree.

mod graph;
mod names;
mod scalars;
mod stmts;
mod term;

use std::collections::BTreeSet;

use shape::{Expr as Dim, Op, Pred, Step, Sym};

use crate::ast::{
    self, BinaryOp, Expr, ExprKind, ExternDef, File, FnDef, Item, ItemKind, Mode, RuleDef, Signature, TestDef,
};
use crate::graph::{Func, Invariant, Tolerance};
use crate::intrinsic::Literal;
use crate::loops::{Prim, Scalar, ScalarKind};
use crate::module::{CArg, CType, Extern, Module, PrimId, Rule};
pub use names::Meaning;
use names::{Callees, Names};
use term::{binary, call, ident, int, item, name, negate};

/// A file that holds every definition: bindings, primitives, functions, rules, tests. Primitives that nothing calls
/// are left out, but for those of the program's own files.
pub fn module(m: &Module, meaning: Meaning<'_>) -> File {
    let callees = Callees::new(m, meaning);
    let called = called(m);
    let kept = |i: usize, p: &Prim| {
        called.contains(&PrimId(i as u32)) || meaning.own.is_some_and(|own| own.contains(p.name.as_str()))
    };
    let is_test = |i: usize| m.tests.iter().any(|t| t.func.0 as usize == i);
    let externs = m.externs.iter().enumerate().map(|(i, e)| extern_(e, callees.externs[i]));
    let prims = m.prims.iter().enumerate().filter(|(i, p)| kept(*i, p));
    let prims = prims.map(|(i, p)| stmts::prim(p, callees.prims[i]));
    let funcs = m.funcs.iter().enumerate().filter(|(i, _)| !is_test(*i));
    let inner = called_funcs(m);
    let funcs = funcs.flat_map(|(i, f)| {
        let mut def = fn_def(m, &callees, f, callees.funcs[i]);
        let record = if inner.contains(&i) { None } else { named_results(&callees, f, &mut def) };
        let record = record.map(|r| item(ItemKind::Record(r), vec![]));
        record.into_iter().chain([item(ItemKind::Fn(def), attrs(m, &callees, f))])
    });
    let rules = m.rules.iter().map(|r| rule(m, &callees, r));
    let tests = m.tests.iter().map(|t| {
        let (_, body) = graph::body(m, &callees, m.func(t.func));
        item(ItemKind::Test(TestDef { name: t.name.clone(), body }), vec![])
    });
    File { items: externs.chain(prims).chain(funcs).chain(rules).chain(tests).collect(), ..File::default() }
}

/// The primitives that functions and rules call.
fn called(m: &Module) -> BTreeSet<PrimId> {
    let mut called = BTreeSet::new();
    for f in m.funcs.iter().chain(m.rules.iter().flat_map(|r| [&r.lhs, &r.rhs])) {
        f.body.walk(&mut |node| {
            if let crate::graph::Op::Prim(p, _) = &node.op {
                called.insert(*p);
            }
        });
    }
    called
}

/// The functions that others call.
fn called_funcs(m: &Module) -> BTreeSet<usize> {
    let mut called = BTreeSet::new();
    for f in &m.funcs {
        f.body.walk(&mut |node| {
            if let crate::graph::Op::Call(callee, _) = &node.op {
                called.insert(callee.0 as usize);
            }
        });
    }
    called
}

/// Lets a function give its results by the names they have, as a record of its own; nothing where they have none.
/// Callers would have to take it apart, so it is for what no other function calls.
fn named_results(callees: &Callees, f: &Func, def: &mut FnDef) -> Option<ast::RecordDef> {
    let names: Vec<Sym> = f.results.iter().copied().collect::<Option<_>>()?;
    let unique: BTreeSet<&str> = names.iter().map(|n| n.name()).collect();
    if names.is_empty() || unique.len() < names.len() || !f.exists.is_empty() {
        return None;
    }
    let written: Vec<Sym> = names.iter().map(|n| Sym::new(&names::printable(n.name()))).collect();
    let ret = def.ret.as_ref()?;
    let types = if let ast::TypeKind::Tuple(types) = &ret.kind { types.clone() } else { vec![ret.clone()] };
    let mut name = format!("{}_results", def.sig.name.name);
    while callees.has(&name) {
        name.push('_');
    }
    let name = Sym::new(&name);
    // The dims of the signature in its order, as many as the results speak of.
    let used: BTreeSet<Sym> = f.result_types.iter().flat_map(|t| &t.shape).flat_map(|d| d.syms()).collect();
    let dims = f.dims.iter().zip(&def.sig.generics).filter(|(d, _)| used.contains(d));
    let generics: Vec<ast::Generic> = dims.map(|(_, g)| g.clone()).collect();
    let ast::StmtKind::Expr(value) = def.body.stmts.pop()?.kind else { return None };
    let several = if let ast::ExprKind::Tuple(values) = &value.kind { Some(values.clone()) } else { None };
    let values = several.filter(|_| names.len() > 1).unwrap_or_else(|| vec![value]);
    let args =
        written.iter().zip(values).map(|(n, value)| ast::Arg { name: Some(ident(*n)), value }).collect();
    let dims = generics.iter().map(|g| ast::IndexArg::Expr(term::name(g.name.name))).collect::<Vec<_>>();
    let maker = term::name(name);
    let maker = if dims.is_empty() { maker } else { term::expr(ast::ExprKind::Index(Box::new(maker), dims)) };
    let made = term::expr(ast::ExprKind::Call(Box::new(maker), args));
    def.body.stmts.push(term::stmt(ast::StmtKind::Expr(made)));
    let generic =
        |g: &ast::Generic| term::ty(ast::TypeKind::Named { name: g.name, args: vec![], dims: None });
    def.ret = Some(term::ty(ast::TypeKind::Named {
        name: ident(name),
        args: generics.iter().map(generic).collect(),
        dims: None,
    }));
    let field = |(n, ty): (&Sym, ast::TypeExpr)| ast::RecordField {
        doc: vec![],
        name: ident(*n),
        ty,
        from: ast::Source::default(),
        kept: None,
    };
    Some(ast::RecordDef {
        state: false,
        name: ident(name),
        generics,
        fields: written.iter().zip(types).map(field).collect(),
    })
}

/// A function.
pub fn func(m: &Module, f: &Func) -> Item {
    let callees = Callees::new(m, Meaning::default());
    let name = Sym::new(&names::printable(&f.name));
    item(ItemKind::Fn(fn_def(m, &callees, f, name)), attrs(m, &callees, f))
}

/// A primitive.
pub fn prim(p: &Prim) -> Item {
    stmts::prim(p, Sym::new(&names::printable(&p.name)))
}

/// A dim.
pub fn dim(e: &Dim) -> ast::Expr {
    dim_as(e, &|s| Sym::new(&names::printable(s.name())))
}

/// A condition on dims.
pub fn pred(p: &Pred) -> ast::Expr {
    pred_as(p, &|s| Sym::new(&names::printable(s.name())))
}

/// A dim, its symbols under other names.
fn dim_as(e: &Dim, rename: &dyn Fn(Sym) -> Sym) -> ast::Expr {
    let mut made: Vec<ast::Expr> = Vec::new();
    for step in e.steps() {
        let next = match step {
            Step::Const(c) => int(c),
            Step::Sym(s) => name(rename(s)),
            Step::Bin(op, a, b) => {
                let (a, b) = (made[a as usize].clone(), made[b as usize].clone());
                match op {
                    Op::Add => binary(BinaryOp::Add, a, b),
                    Op::Sub if term::is_zero(&a) => negate(b),
                    Op::Sub => binary(BinaryOp::Sub, a, b),
                    Op::Mul => binary(BinaryOp::Mul, a, b),
                    Op::FloorDiv => binary(BinaryOp::Div, a, b),
                    Op::Mod => binary(BinaryOp::Rem, a, b),
                    Op::CeilDiv => call("ceil_div", vec![a, b]),
                    Op::Min => call("min", vec![a, b]),
                    Op::Max => call("max", vec![a, b]),
                }
            }
        };
        made.push(next);
    }
    made.pop().unwrap_or_else(|| int(0))
}

/// A condition, its symbols under other names.
fn pred_as(p: &Pred, rename: &dyn Fn(Sym) -> Sym) -> ast::Expr {
    // `k >= 1` reads better than `1 <= k`.
    let turned = |a: &Dim, b: &Dim| a.as_int().is_some() && b.as_int().is_none();
    let (op, a, b) = match p {
        Pred::Le(a, b) if turned(a, b) => (BinaryOp::Ge, b, a),
        Pred::Lt(a, b) if turned(a, b) => (BinaryOp::Gt, b, a),
        Pred::Le(a, b) => (BinaryOp::Le, a, b),
        Pred::Lt(a, b) => (BinaryOp::Lt, a, b),
        Pred::Eq(a, b) => (BinaryOp::Eq, a, b),
        Pred::Ne(a, b) => (BinaryOp::Ne, a, b),
        Pred::Divides(k, e) => {
            let rest = binary(BinaryOp::Rem, dim_as(e, rename), dim_as(k, rename));
            return binary(BinaryOp::Eq, rest, int(0));
        }
    };
    binary(op, dim_as(a, rename), dim_as(b, rename))
}

/// True for `0 <= n`, which every dim has by being one.
fn goes_without_saying(p: &Pred) -> bool {
    matches!(p, Pred::Le(zero, n) if zero.as_int() == Some(0) && n.as_sym().is_some())
}

/// `#[tolerance(t, families ..)]` of a rule or function that has one.
fn tolerance(t: Option<&Tolerance>) -> Option<ast::Attr> {
    let arg = |value| ast::Arg { name: None, value };
    t.map(|t| {
        let families = t.families.iter().map(|f| arg(term::name(*f)));
        let by = arg(term::float(t.by, format!("{:?}", t.by)));
        ast::Attr { name: ident(Sym::new("tolerance")), args: std::iter::once(by).chain(families).collect() }
    })
}

/// The attributes of a function. What a plan uses it says itself, and how exact it had to be.
fn attrs(m: &Module, callees: &Callees, f: &Func) -> Vec<ast::Attr> {
    let plain = |name: &str| ast::Attr { name: ident(Sym::new(name)), args: vec![] };
    let invariant = match f.invariant {
        Invariant::No => None,
        Invariant::Yes => Some(plain("invariant")),
        Invariant::By(of) => {
            // Instances of primitives are definitions in the text; the first that stands there decides.
            let called = crate::invariant::called(m, &f.body, of);
            let named = called.map(|p| callees.prims[p.0 as usize]);
            named.map(|n| ast::Attr {
                args: vec![ast::Arg { name: None, value: term::name(n) }],
                ..plain("invariant")
            })
        }
    };
    if f.plan {
        return [Some(plain("plan")), invariant, tolerance(f.tolerance.as_ref())]
            .into_iter()
            .flatten()
            .collect();
    }
    let of = |verb: &str, force: bool| {
        let arg = |pin: &crate::graph::Pin, name: Sym| ast::Arg {
            name: pin.value.map(|v| ident(Sym::new(&names::printable(v.name())))),
            value: term::name(name),
        };
        let mut args = Vec::new();
        for pin in f.pins.iter().filter(|p| p.force == force) {
            // Instances of primitives are definitions in the text.
            let prims = m.prims.iter().filter(|p| pin.means.contains(&p.name));
            let mut named: Vec<Sym> = prims.map(|p| Sym::new(&names::printable(&p.name))).collect();
            if named.is_empty() {
                named.push(pin.name);
            }
            args.extend(named.into_iter().map(|name| arg(pin, name)));
        }
        (!args.is_empty()).then(|| ast::Attr { name: ident(Sym::new(verb)), args })
    };
    let pipeline = f.pipeline.map(|id| {
        let value = term::name(Sym::new(&names::printable(m.pipeline(id).name.name())));
        ast::Attr { name: ident(Sym::new("pipeline")), args: vec![ast::Arg { name: None, value }] }
    });
    let all = [pipeline, of("force", true), of("forbid", false), invariant, tolerance(f.tolerance.as_ref())];
    all.into_iter().flatten().collect()
}

fn signature(
    name: Sym,
    dims: &[Sym],
    params: Vec<ast::Param>,
    wheres: impl Iterator<Item = ast::Expr>,
) -> Signature {
    let generics =
        dims.iter().map(|d| ast::Generic { kind: ast::GenericKind::Dim, name: ident(*d), bounds: vec![] });
    Signature { name: ident(name), generics: generics.collect(), params, wheres: wheres.collect() }
}

fn fn_def(m: &Module, callees: &Callees, f: &Func, name: Sym) -> FnDef {
    let (names, body) = graph::body(m, callees, f);
    let params = f.params.iter().zip(&f.body.params).map(|(p, v)| {
        // Rewriting keeps the order of what happens to buffers; scalars have none, and may be read at any time.
        let own = p.own && !f.ty(*v).shape.is_empty();
        let mode = if own { Mode::Own } else { Mode::Plain };
        term::param(mode, names.val(*v), Some(names.ty(f.ty(*v))))
    });
    let dims: Vec<Sym> = f.dims.iter().map(|d| names.dim(*d)).collect();
    let wheres = f.requires.iter().filter(|p| !goes_without_saying(p)).map(|p| names.pred(p));
    let sig = signature(name, &dims, params.collect(), wheres);
    let types: Vec<ast::TypeExpr> = f.result_types.iter().map(|t| names.ty(t)).collect();
    let mut ret = term::tuple_type(types);
    if !f.exists.is_empty() {
        let exists = existing(&names, f);
        ret = ret.map(|t| term::ty(ast::TypeKind::Exists(exists, Box::new(t))));
    }
    FnDef { sig, ret, body }
}

/// The dims that a function opens, and what holds of them. A condition names the dim that it begins with; one that
/// would begin with another begins with a number.
fn existing(names: &names::Names, f: &Func) -> Vec<ast::Exist> {
    let mut all: Vec<ast::Exist> = Vec::new();
    let is_new = |n: Sym| f.exists.iter().any(|(s, _)| names.dim(*s) == n);
    for (sym, preds) in &f.exists {
        let mut facts: Vec<ast::Exist> = Vec::new();
        for p in preds.iter().filter(|p| !goes_without_saying(p)) {
            let turned = if let Pred::Eq(a, b) = p { Pred::Eq(b.clone(), a.clone()) } else { p.clone() };
            let begins = [p, &turned].into_iter().map(|p| names.pred(p)).find_map(|e| {
                let first = e.first_name().filter(|n| is_new(n.name))?;
                Some(ast::Exist { name: Some(first), fact: Some(e) })
            });
            facts.push(begins.unwrap_or_else(|| {
                let (zero, at_least) =
                    (term::int(0), |a: &Dim, b: &Dim| names.dim_expr(&(b.clone() - a.clone())));
                let (op, right) = match p {
                    Pred::Le(a, b) => (BinaryOp::Le, at_least(a, b)),
                    Pred::Lt(a, b) => (BinaryOp::Lt, at_least(a, b)),
                    Pred::Eq(a, b) => (BinaryOp::Eq, at_least(a, b)),
                    Pred::Ne(a, b) => (BinaryOp::Ne, at_least(a, b)),
                    Pred::Divides(k, e) => (BinaryOp::Eq, names.dim_expr(&e.modulo(k))),
                };
                ast::Exist { name: None, fact: Some(term::binary(op, zero, right)) }
            }));
        }
        let name = ident(names.dim(*sym));
        let named = |e: &ast::Exist| e.name.is_some_and(|n| n.name == name.name);
        if !all.iter().chain(&facts).any(named) {
            all.push(ast::Exist { name: Some(name), fact: None });
        }
        all.extend(facts);
    }
    all
}

fn extern_(e: &Extern, name: Sym) -> Item {
    // The scalar arguments are expressions of a primitive: the same writer serves.
    let as_prim = Prim {
        name: e.name.name().into(),
        def: e.name,
        dims: e.dims.clone(),
        facts: e.facts.clone(),
        params: e.params.clone(),
        outs: e.outs.clone(),
        bufs: e.bufs.clone(),
        vars: vec![],
        body: vec![],
        invariant: false,
        span: e.span,
    };
    let w = scalars::Writer::new(&as_prim);
    let args = e.args.iter().map(|a| match a {
        CArg::Buf(b) => term::name(w.buf(*b)),
        CArg::Number(c, s) => c_number(&w, *c, s),
        CArg::Address(c, s) => call("c_ptr", vec![c_number(&w, *c, s)]),
    });
    let args = args.collect();
    let (sig, mut outs) = w.head(name);
    for (out, id) in outs.iter_mut().zip(&e.outs) {
        let begun = e.begins.iter().find(|(begun, _)| begun == id);
        out.default = begun.map(|(_, from)| term::name(w.buf(*from)));
    }
    let symbol = ident(Sym::new(&e.symbol));
    let success = e.success.map(i64::from);
    item(ItemKind::Extern(ExternDef { library: e.library.clone(), sig, outs, symbol, args, success }), vec![])
}

/// A number with its C type: `c_int(n)`, `c_char("T")`.
fn c_number(w: &scalars::Writer<'_>, c: CType, s: &Scalar) -> Expr {
    let value = match (c, &s.kind) {
        (CType::Char, ScalarKind::Const(Literal::Int(i))) => {
            let one = u8::try_from(*i).map_or('?', char::from);
            term::expr(ExprKind::Str(one.to_string()))
        }
        _ => w.scalar(s, Some(c.value())),
    };
    call(c.name(), vec![value])
}

fn rule(m: &Module, callees: &Callees, r: &Rule) -> Item {
    let mut names = Names::default();
    r.lhs.dims.iter().for_each(|d| {
        names.add_dim(*d);
    });
    let params: Vec<Sym> = r.lhs.params.iter().map(|p| names.fresh(p.name.name())).collect();
    let side = |f: &Func| graph::expression(m, callees, f, &names, &params);
    let (lhs, rhs) = (side(&r.lhs), side(&r.rhs));
    let heads = r.lhs.body.params.iter().zip(&params).enumerate().map(|(i, (v, p))| {
        let own = r.lhs.params.get(i).is_some_and(|p| p.own);
        let mode = match r.constant.get(i) {
            Some(true) => Mode::Const,
            Some(false) | None if own => Mode::Own,
            Some(false) | None => Mode::Plain,
        };
        term::param(mode, *p, Some(names.ty(r.lhs.ty(*v))))
    });
    let dims: Vec<Sym> = r.lhs.dims.iter().map(|d| names.dim(*d)).collect();
    let when = r.when.iter().filter(|p| !goes_without_saying(p)).map(|p| names.pred(p));
    let name = Sym::new(&names::printable(r.name.name()));
    let sig = signature(name, &dims, heads.collect(), when);
    item(
        ItemKind::Rule(RuleDef { sig, lhs, both_ways: r.both_ways, rhs }),
        tolerance(r.tolerance.map(Tolerance::from).as_ref()).into_iter().collect(),
    )
}

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a sketch shows what it does not know as it is")]
mod tests;
