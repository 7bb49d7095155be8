//! Bodies of functions: statements and expressions to blocks of operations.
//!
//! Here stand the state of a body, and expressions. In files of their own: [`stmt`] statements, [`results`] what a body
//! gives, [`call`] calls, [`operator`] operators, [`branches`] branches and loops with [`loop_carried`] for what they
//! change, [`closure`] functions as values with [`contract`] for their types and [`inline_call`] for what takes them
//! and [`infer_from_functions`] for what they tell, [`tree`] records and arrays, [`index`] elements and slices,
//! [`lvalue`] those assigned, [`runtime_dims`] dims that are known only when running. What a name holds while checking
//! is a [`Value`]: a tensor, but also a dim, a literal whose type its use decides, a tuple. A `var` is a name that may
//! be given another value; what an `if` assigns becomes a result of it, what a loop assigns is carried.

mod branches;
mod call;
mod closure;
mod contract;
mod fields;
mod index;
mod infer_from_functions;
mod inline_call;
mod loop_carried;
mod lvalue;
mod mentions;
mod operator;
mod results;
mod runtime_dims;
mod several;
mod stmt;
mod tree;
mod value;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ir::ast::{Expr, ExprKind, Ident};
use ir::diag::Diagnostic;
use ir::graph::{Block, Func, Node, Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use crate::env::{Const, Env};
use crate::types::{MOST_LEAVES, Ty};
use crate::{Checker, Maybe};
pub(crate) use closure::Closure;
pub(crate) use inline_call::{is_template, is_value_generic};
pub(crate) use several::Storage;
pub use several::ways;
pub(crate) use tree::{Literals, Tree};
pub(crate) use value::Value;

/// A literal whose element type its use decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lit {
    Float(f64),
    Bool(bool),
}

impl Lit {
    /// The type it has where nothing else decides.
    pub(crate) fn natural(self) -> DType {
        match self {
            Lit::Float(_) => DType::F32,
            Lit::Bool(_) => DType::Bool,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Local {
    value: Value,
    /// Declared by `var`.
    mutable: bool,
    /// What the type it was declared with says of its extents.
    declared: Option<Rc<Declared>>,
}

/// The declared extents of a variable.
#[derive(Default)]
struct Declared {
    /// By leaf and axis: the extent, where it may not change.
    fixed: Vec<Vec<Option<Dim>>>,
    /// The names of those that may, where they have one: `exists m. f32[m, d]`.
    names: Vec<(Sym, usize, usize)>,
    /// What must hold of them.
    facts: Vec<Pred>,
}

/// The state of one function's body.
pub(crate) struct Body {
    pub(crate) func: Func,
    pub(crate) env: Env,
    scopes: Vec<BTreeMap<Sym, Local>>,
    /// Blocks being filled, the innermost last.
    blocks: Vec<Block>,
    /// What the dims are that the function's `exists` opens, as far as its results have told.
    pub(crate) promised: BTreeMap<Sym, Dim>,
    /// Checks on dims known at entry.
    entry: Vec<Node>,
    /// Values whose memory a callee has taken.
    consumed: HashMap<ValId, Span>,
    /// Where that was no call but an assignment or a loop.
    consumed_by_statement: BTreeSet<Span>,
    /// Parameters that are only read.
    borrowed: BTreeSet<ValId>,
    /// Values that may be the same memory under another name: what an `if` or a loop passed on.
    aliases: HashMap<ValId, Vec<ValId>>,
    /// The names of dims in use, so that new ones differ.
    dims: BTreeSet<Sym>,
    /// What is known of integer scalars.
    integers: runtime_dims::Integers,
    /// How many loops are being checked.
    loops: usize,
    /// What the loops inside them open, so that it is found once.
    opened: BTreeMap<(Vec<Span>, Span, usize), loop_carried::Opened>,
    /// The calls that are being taken apart, the innermost last.
    inlined: Vec<Span>,
    /// How many were.
    calls: usize,
}

impl Body {
    /// `names`: what the parameters are called, and what they are.
    pub(crate) fn new(func: Func, env: Env, names: Vec<(Sym, Value)>) -> Body {
        let scope = names
            .into_iter()
            .map(|(n, value)| (n, Local { value, mutable: false, declared: None }))
            .collect();
        let mut borrowed = BTreeSet::new();
        for (p, &v) in func.params.iter().zip(&func.body.params) {
            if !p.own {
                borrowed.insert(v);
            }
        }
        let dims = func.dims.iter().chain(func.exists.iter().map(|e| &e.0)).copied().collect();
        let first = Block { params: func.body.params.clone(), ..Block::default() };
        Body {
            func,
            env,
            scopes: vec![scope],
            blocks: vec![first],
            entry: vec![],
            consumed: HashMap::new(),
            consumed_by_statement: BTreeSet::new(),
            borrowed,
            aliases: HashMap::new(),
            dims,
            promised: BTreeMap::new(),
            integers: runtime_dims::Integers::default(),
            loops: 0,
            opened: BTreeMap::new(),
            inlined: vec![],
            calls: 0,
        }
    }

    /// The facts in scope that speak of what a condition speaks of, for messages. That an extent is not negative,
    /// and what numbers of the prover's own mean, is not worth a word.
    pub(crate) fn facts_on(&self, pred: &Pred) -> Vec<String> {
        const SHOWN: usize = 6;
        let trivial =
            |p: &&Pred| matches!(p, Pred::Le(a, b) if a.as_int() == Some(0) && b.as_sym().is_some());
        let given: Vec<&Pred> = self.env.facts.iter().filter(|p| !trivial(p)).collect();
        let mut about: BTreeSet<Sym> = pred.syms().into_iter().collect();
        let mut kept = vec![false; given.len()];
        // Facts lead to one another: `n <= m` is of use where `m <= 4` is known.
        while let Some(i) =
            (0..given.len()).find(|&i| !kept[i] && given[i].syms().iter().any(|s| about.contains(s)))
        {
            kept[i] = true;
            about.extend(given[i].syms());
        }
        let mut shown: Vec<String> = Vec::new();
        for (fact, _) in given.iter().zip(&kept).filter(|(_, kept)| **kept) {
            let text = fact.to_string();
            if !shown.contains(&text) && shown.len() < SHOWN {
                shown.push(text);
            }
        }
        shown
    }

    /// Leaves a check behind: at the entry where its dims are known there, here otherwise.
    pub(crate) fn check(&mut self, pred: Pred, text: String, span: Span) {
        self.env.facts.assume(pred.clone());
        let entry = self.blocks.len() == 1 && pred.syms().into_iter().all(|s| self.func.dims.contains(&s));
        let node = Node { op: Op::Check(pred, text), args: vec![], results: vec![], opens: vec![], span };
        if entry { self.entry.push(node) } else { self.block().nodes.push(node) }
    }

    fn block(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("a body has a block")
    }

    /// Adds a node with one result.
    pub(crate) fn push(&mut self, op: Op, args: Vec<ValId>, ty: Type, span: Span) -> ValId {
        self.push_all(op, args, vec![ty], vec![], span)[0]
    }

    pub(crate) fn push_all(
        &mut self,
        op: Op,
        args: Vec<ValId>,
        types: Vec<Type>,
        opens: Vec<Sym>,
        span: Span,
    ) -> Vec<ValId> {
        let name = Sym::new("v");
        let results: Vec<ValId> = types.into_iter().map(|t| self.func.add_val(name, t)).collect();
        if let [result] = results.as_slice() {
            self.note_integer(&op, &args, *result);
        }
        self.block().nodes.push(Node { op, args, results: results.clone(), opens, span });
        results
    }

    fn scalar_const(&mut self, t: Tensor, span: Span) -> ValId {
        let ty = Type::scalar(t.dtype());
        self.push(Op::Const(t), vec![], ty, span)
    }

    /// Runs `f` where no name of this body is seen: what stands elsewhere means the same everywhere.
    pub(crate) fn in_own_scope<T>(&mut self, env: Env, f: impl FnOnce(&mut Body) -> T) -> T {
        let facts = self.env.facts.clone();
        let scopes = std::mem::take(&mut self.scopes);
        let saved = std::mem::replace(&mut self.env, Env { facts, ..env });
        self.scopes.push(BTreeMap::new());
        let answer = f(self);
        self.scopes = scopes;
        let facts = std::mem::take(&mut self.env.facts);
        self.env = Env { facts, ..saved };
        answer
    }

    pub(crate) fn find(&self, name: Sym) -> Option<&Local> {
        self.scopes.iter().rev().find_map(|s| s.get(&name))
    }

    /// What the program calls a value: the name that holds it now, or the one that it was given.
    fn called(&self, v: ValId) -> Option<Sym> {
        let holds = |local: &Local| {
            let mut held = Vec::new();
            local.value.holds(&mut held);
            held.contains(&v)
        };
        let mut scopes = self.scopes.iter().rev().flatten();
        let now = scopes.find(|(n, local)| !n.name().starts_with('#') && holds(local)).map(|(n, _)| *n);
        now.or(Some(self.func.val(v).name).filter(|n| n.name() != "v"))
    }

    fn define(&mut self, name: Ident, value: Value, mutable: bool) {
        if name.name.name() == "_" {
            return;
        }
        if let Value::Val(v) = value
            && self.func.val(v).name.name() == "v"
        {
            self.func.vals[v.0 as usize].name = name.name;
        }
        self.scopes
            .last_mut()
            .expect("a body has a scope")
            .insert(name.name, Local { value, mutable, declared: None });
    }

    /// Gives a variable another value. The names its type has for extents follow.
    fn set(&mut self, name: Sym, value: Value) {
        let local =
            self.scopes.iter_mut().rev().find_map(|s| s.get_mut(&name)).expect("a variable is declared");
        local.value = value;
        if let Some(declared) = local.declared.clone() {
            let mut leaves = Vec::new();
            local.value.leaves(&mut leaves);
            let mut found: BTreeMap<Sym, Dim> = BTreeMap::new();
            for (name, leaf, axis) in &declared.names {
                let extent = leaves.get(*leaf).and_then(|v| self.func.ty(*v).shape.get(*axis).cloned());
                if let Some(extent) = extent {
                    found.entry(*name).or_insert(extent.clone());
                    self.env.dims.insert(*name, extent);
                }
            }
            // Every value that it was given was found to keep to them.
            for fact in &declared.facts {
                self.env.facts.assume(fact.subst(&|s| found.get(&s).cloned()));
            }
        }
    }

    /// A dim symbol not yet in use, named after `near`.
    fn fresh_dim(&mut self, near: Sym) -> Sym {
        let mut name = near;
        let mut n = 1;
        while !self.dims.insert(name) {
            n += 1;
            name = Sym::new(&ir::display_names::mangle(near.name(), n));
        }
        self.env.facts.assume_dim(name);
        name
    }

    pub(crate) fn finish(mut self, results: Vec<ValId>) -> Func {
        let mut block = self.blocks.pop().expect("a body has a block");
        block.nodes.splice(0..0, self.entry);
        block.results = results;
        self.func.body = block;
        self.func
    }
}

impl<'a> Checker<'a> {
    /// Two types that must be equal.
    pub(crate) fn same_type(
        &mut self,
        body: &mut Body,
        want: &Type,
        got: &Type,
        span: Span,
        what: &str,
    ) -> Maybe<()> {
        // Dims that only this body knows cannot stand in the result's type.
        let local = got.shape.iter().flat_map(|d| d.syms()).any(|s| !body.func.dims.contains(&s));
        let declared = if local {
            format!("declare what the body finds: `exists k. ..`, or give `{want}`")
        } else {
            format!("declare the result as `{got}`, or give `{want}`")
        };
        let differ = |code, text: String| {
            let d = Diagnostic::error(code, span, text).here(format!("this is `{got}`"));
            match what {
                "a condition" if !got.shape.is_empty() => d.help(
                    "an `if` takes one way: choose element by element with `select(c, a, b)`, or ask `all(c)` or \
                     `any(c)`",
                ),
                "a condition" if got.dtype.is_int() => d.help("compare it: `k != 0`"),
                "assert" if got.dtype == DType::Bool => {
                    d.help("compare whole tensors with `same(a, b)` or `close(a, b)`")
                }
                "assert" => d.help("assert a comparison: `assert k != 0`"),
                _ if want.dtype != got.dtype => d.help(format!("convert it: `{}(..)`", want.dtype)),
                _ => match (crate::shape_hints::rearranged(&want.shape, &got.shape), what) {
                    (Some(hint), _) => d.help(hint),
                    (None, what)
                        if matches!(what, "this `let`" | "this `var`") || what.starts_with("constant ") =>
                    {
                        d.help(format!("leave the type out, or write `{got}`"))
                    }
                    (None, what) if what.ends_with(": result") => d.help(declared.as_str()),
                    (None, _) => d,
                },
            }
        };
        if want.dtype != got.dtype {
            return self.fail(differ("E0303", format!("{what}: `{want}` is needed, got `{got}`")));
        }
        if want.shape.len() != got.shape.len() {
            return self.fail(differ("E0302", format!("{what}: `{want}` is needed, got `{got}`")));
        }
        for (axis, (w, g)) in want.shape.iter().zip(&got.shape).enumerate().filter(|(_, (w, g))| w != g) {
            let text = format!("{what}: axis {axis} is {g}, and {w} is needed");
            let d = differ("E0301", text.clone()).note(format!("`{want}` is needed, got `{got}`"));
            self.require(body, Pred::Eq(w.clone(), g.clone()), span, &text, d)?;
        }
        Some(())
    }

    /// A value as a tensor of the given type where it is a literal.
    pub(crate) fn materialize(
        &mut self,
        body: &mut Body,
        value: &Value,
        dtype: DType,
        span: Span,
    ) -> Maybe<ValId> {
        let wrong = |c: &mut Self, what: &str| {
            c.fail(Diagnostic::error("E0303", span, format!("`{dtype}` is needed, and this is {what}")))
        };
        match value {
            Value::Val(v) => {
                self.alive(body, value, None, span)?;
                Some(*v)
            }
            Value::Dim(d) => match d.as_int() {
                Some(i) if dtype.is_float() => {
                    Some(body.scalar_const(Tensor::scalar_f(dtype, i as f64), span))
                }
                Some(i) if dtype.is_int() && dtype.wrap(i) == i => {
                    Some(body.scalar_const(Tensor::scalar_i(dtype, i), span))
                }
                None if dtype == DType::I64 => {
                    let v = body.push(Op::Dim(d.clone()), vec![], Type::scalar(DType::I64), span);
                    body.func.vals[v.0 as usize].dim = Some(d.clone());
                    Some(v)
                }
                whole => {
                    let text = format!("`{dtype}` is needed, and this is the integer `{d}`");
                    let d = Diagnostic::error("E0303", span, text);
                    self.fail(match whole {
                        Some(i) if dtype.is_int() => d.note(format!("{i} does not fit in `{dtype}`")),
                        Some(_) if dtype == DType::Bool => d.help("write `true` or `false`, or compare"),
                        _ => d.help(format!("convert it: `{dtype}(..)`")),
                    })
                }
            },
            Value::Lit(Lit::Float(x)) if dtype.is_float() => {
                Some(body.scalar_const(Tensor::scalar_f(dtype, *x), span))
            }
            Value::Lit(Lit::Bool(b)) if dtype == DType::Bool => {
                Some(body.scalar_const(Tensor::scalar_i(dtype, i64::from(*b)), span))
            }
            Value::Literals(list) => match list.tensor(dtype) {
                Some(t) => {
                    let ty = Type { dtype, shape: t.shape().iter().map(|d| Dim::int(*d)).collect() };
                    Some(body.push(Op::Const(t), vec![], ty, span))
                }
                None => {
                    let natural = list.natural();
                    let text = format!("`{dtype}` is needed, and this is an array of literals of {natural}");
                    let d = Diagnostic::error("E0303", span, text);
                    self.fail(list.too_large(dtype).into_iter().fold(d, Diagnostic::note))
                }
            },
            Value::Tree(Tree { ty, leaves }) if let Ty::Encoded(e) = &**ty => {
                self.decoded(body, e, leaves, span)
            }
            Value::Tree(tree) if let Ty::Several(s) = &*tree.ty => self.numbers_of(body, tree, s, span),
            Value::Lit(Lit::Float(_)) => {
                let text = format!("`{dtype}` is needed, and this is a float literal");
                let d = Diagnostic::error("E0303", span, text);
                self.fail(d.help("write a whole number, or convert the other values: `f32(..)`"))
            }
            Value::Lit(Lit::Bool(_)) => wrong(self, "a bool"),
            Value::Fn(_) => self.not_a_tensor(value, span),
            other => {
                let text = format!("a tensor is needed, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
        }
    }

    /// Refuses a value of which a part was given away; `name` is the variable that holds it, where that is known.
    fn alive(&mut self, body: &mut Body, value: &Value, name: Option<Sym>, span: Span) -> Maybe<()> {
        let mut leaves = Vec::new();
        value.holds(&mut leaves);
        let Some((v, &taken)) = leaves.iter().find_map(|v| Some((v, body.consumed.get(v)?))) else {
            return Some(());
        };
        let text = match name.or_else(|| body.called(*v)) {
            Some(name) => format!("`{name}` is used after it was given away"),
            None => "a value is used after it was given away".to_owned(),
        };
        let d = Diagnostic::error("E0501", span, text);
        // Said once of a value: the other uses follow from the same consumption.
        let v = *v;
        body.consumed.remove(&v);
        if taken == span {
            return self.fail(d.here("this runs more than once, and consumes it each time"));
        }
        let d = d.label(taken, "here it was consumed");
        self.fail(d.help(match body.consumed_by_statement.contains(&taken) && taken.file == span.file {
            true => "the variable that is assigned there has its memory: use that one",
            false => "use the value that the call gave back",
        }))
    }

    /// Says that a function stands where a tensor is needed.
    pub(crate) fn not_a_tensor<T>(&mut self, value: &Value, span: Span) -> Maybe<T> {
        let d = match value {
            Value::Fn(f) if let Closure::Named(n, _) = &**f => {
                Diagnostic::error("E0307", span, format!("`{n}` is a definition, not a value"))
                    .help(format!("call it: `{n}(..)`"))
            }
            _ => Diagnostic::error("E0307", span, "a tensor is needed, and this is a function"),
        };
        self.fail(d)
    }

    /// Stretches a value to a shape it broadcasts to.
    pub(crate) fn stretch(
        &mut self,
        body: &mut Body,
        val: ValId,
        target: &[Dim],
        span: Span,
    ) -> Maybe<ValId> {
        let shape = body.func.ty(val).shape.clone();
        let one = Dim::int(1);
        let skip = target.len() - shape.len();
        // Axes that may be compared unequal here were made equal by a check.
        let same = skip == 0 && shape.iter().zip(target).all(|(a, b)| a == b || *a != one);
        if same {
            return Some(val);
        }
        let map =
            |(i, d): (usize, &Dim)| if *d == one && target[skip + i] != one { -1 } else { (skip + i) as i64 };
        let map: Vec<i64> = shape.iter().enumerate().map(map).collect();
        let mut env = self.env();
        env.packs.insert(Sym::new("t"), target.to_vec());
        env.consts.insert(Sym::new("map"), Const::Ints(map));
        self.library(body, "broadcast", env, vec![val], span)
    }

    /// Notes that a callee takes the memory of a value, and so of whatever may be the same memory.
    pub(crate) fn consume(&mut self, body: &mut Body, val: ValId, span: Span, callee: &str) -> Maybe<()> {
        if callee.starts_with("this ") {
            body.consumed_by_statement.insert(span);
        }
        let mut work = vec![val];
        while let Some(v) = work.pop() {
            if body.borrowed.contains(&v) {
                let name = body.func.val(v).name;
                let text = format!("{callee} updates `{name}` in place, and it is not owned here");
                return self.fail(
                    Diagnostic::error("E0502", span, text)
                        .help(format!("declare the parameter `own {}`", root(name))),
                );
            }
            if body.consumed.insert(v, span).is_none() {
                work.extend(body.aliases.get(&v).into_iter().flatten());
            }
        }
        Some(())
    }

    pub(crate) fn unknown<T>(&mut self, body: &Body, name: Sym, span: Span) -> Maybe<T> {
        let mut near: Vec<&str> = body.scopes.iter().flat_map(|s| s.keys()).map(|s| s.name()).collect();
        near.extend(body.env.dims.keys().map(|s| s.name()));
        near.extend(self.consts.names());
        if self.defs.is_missing(name, span) {
            return None;
        }
        if let Some(hint) = ir::diag::elsewhere(name.name()) {
            return self.fail(Diagnostic::error("E0201", span, format!("unknown name `{name}`")).help(hint));
        }
        let d = self.defs.unknown(name, span, near.into_iter());
        self.fail(d)
    }

    /// The name that an expression is: a plain one, or `b.f` of a module.
    fn named(&self, body: &Body, e: &Expr) -> Option<Sym> {
        match &e.kind {
            ExprKind::Name(name) => Some(*name),
            _ => self.defs.qualified(e, |module| body.find(module).is_some()),
        }
    }

    /// An expression.
    pub(crate) fn expr(&mut self, body: &mut Body, e: &Expr) -> Maybe<Value> {
        match &e.kind {
            ExprKind::Int(i) => Some(Value::Dim(Dim::int(*i))),
            ExprKind::Float(x, _) => Some(Value::Lit(Lit::Float(*x))),
            ExprKind::Bool(b) => Some(Value::Lit(Lit::Bool(*b))),
            ExprKind::Paren(e) => self.expr(body, e),
            ExprKind::Tuple(parts) => {
                let parts: Vec<Maybe<Value>> = parts.iter().map(|p| self.expr(body, p)).collect();
                let tuple = Value::Tuple(parts.into_iter().collect::<Maybe<Vec<_>>>()?);
                let size = tuple.size();
                if size > MOST_LEAVES {
                    let text = format!("this tuple is {size} values; {MOST_LEAVES} are the most");
                    return self.fail(Diagnostic::error("E0306", e.span, text));
                }
                Some(tuple)
            }
            ExprKind::Name(name) => match body.find(*name) {
                Some(Local { value: Value::Unit, .. }) => None,
                Some(local) => Some(local.value.clone()),
                None => match (body.env.dims.get(name), body.env.consts.get(name)) {
                    (Some(d), _) => Some(Value::Dim(d.clone())),
                    (None, Some(Const::Int(i))) => Some(Value::Dim(Dim::int(*i))),
                    (None, Some(Const::Bool(b))) => Some(Value::Lit(Lit::Bool(*b))),
                    (None, Some(Const::Float(x))) => Some(Value::Lit(Lit::Float(f64::from_bits(*x)))),
                    (None, None) if self.consts.has(*name) => self.const_value(body, *name, e.span),
                    _ if self.defs.is_missing(*name, e.span) => None,
                    _ if self.defs.get(*name, e.span).is_some() => {
                        Some(Value::Fn(Rc::new(Closure::Named(*name, e.span))))
                    }
                    _ => self.unknown(body, *name, e.span),
                },
            },
            ExprKind::Unary(op, a) => self.unary(body, *op, a, e.span),
            ExprKind::Binary(..) => self.binary(body, e),
            ExprKind::Field(base, _) if self.named(body, e).is_some() => {
                let name = self.named(body, e)?;
                if self.defs.get(name, base.span).is_none() {
                    return self.unknown(body, name, e.span);
                }
                Some(Value::Fn(Rc::new(Closure::Named(name, base.span))))
            }
            // `s.size` of a pack is a dim.
            ExprKind::Field(base, field)
                if matches!(field.name.name(), "size" | "rank") && is_pack(body, base) =>
            {
                self.dim_of(body, e).map(Value::Dim)
            }
            ExprKind::Field(base, field) => {
                let value = self.expr(body, base)?;
                // A part of which nothing is known is no news.
                self.field(body, value, base.span, *field, e.span).filter(|v| !matches!(v, Value::Unit))
            }
            ExprKind::Call(f, args) => {
                let (callee, dims) = match &f.kind {
                    ExprKind::Index(base, dims) => (&**base, dims.as_slice()),
                    _ => (&**f, &[][..]),
                };
                // An element of an array of functions.
                let held = |name| matches!(body.find(name), Some(Local { value: Value::Tuple(_), .. }));
                match self.named(body, callee) {
                    Some(name) if !dims.is_empty() && held(name) => self.call_value(body, f, args, e.span),
                    Some(name) => self.call(body, name, callee.span, dims, args, e.span),
                    None if is_method(body, f) => self.no_callee(f),
                    None => self.call_value(body, f, args, e.span),
                }
            }
            // `ones[3]`: brackets alone call a definition that takes no arguments.
            ExprKind::Index(base, dims) => match self.named(body, base) {
                Some(name) if body.find(name).is_none() && self.defs.get(name, base.span).is_some() => {
                    self.call(body, name, base.span, dims, &[], e.span)
                }
                // `s[0]` of a pack, or of a list of integers, is a dim.
                Some(_) if is_pack(body, base) => self.dim_of(body, e).map(Value::Dim),
                _ => {
                    let value = self.expr(body, base)?;
                    self.index_value(body, value, dims, e.span).filter(|v| !matches!(v, Value::Unit))
                }
            },
            ExprKind::If(cond, then, otherwise) => self.if_expr(body, cond, then, otherwise.as_ref(), e.span),
            ExprKind::Block(block) => self.statements(body, block),
            ExprKind::Reduce(name, ..) => {
                let d =
                    Diagnostic::error("E0307", e.span, "a reduction over an index belongs in a primitive");
                self.fail(d.help(format!("reduce an axis: `{}(x, axis=1)`", name.name)))
            }
            ExprKind::Str(_) => self.fail(Diagnostic::error("E0307", e.span, "a text is no value here")),
            ExprKind::Array(items) => self.array(body, items, e.span),
            ExprKind::Lambda(params, inner) => Some(self.lambda(body, params, inner, e.span)),
            ExprKind::Error => None,
        }
    }

    /// Refuses a call of what is no name: a method, something of a module.
    fn no_callee(&mut self, f: &Expr) -> Maybe<Value> {
        if let ExprKind::Field(base, _) = &f.kind
            && let ExprKind::Name(name) = base.kind
            && self.defs.is_refused(name, base.span)
        {
            return None;
        }
        if let ExprKind::Field(base, m) = &f.kind
            && let ExprKind::Name(name) = base.kind
            && let Some(near) = self.defs.near_module(name, base.span)
        {
            let d = Diagnostic::error("E0201", base.span, format!("unknown name `{name}`"));
            let d = d.help(format!("did you mean `{near}.{}`?", m.name));
            return self.fail(d);
        }
        let d = Diagnostic::error("E0307", f.span, "only a name can be called");
        self.fail(match &f.kind {
            ExprKind::Field(_, m)
                if ir::diag::method(m.name.name()).is_none() && self.defs.get(m.name, m.span).is_some() =>
            {
                d.help(format!("an operator takes its values as arguments: `{}(x, ..)`", m.name))
            }
            ExprKind::Field(_, m) => {
                match ir::diag::method(m.name.name()).or(ir::diag::elsewhere(m.name.name())) {
                    Some(hint) => d.help(hint),
                    None => d.help("there are no methods; a function takes every value as an argument"),
                }
            }
            _ => d,
        })
    }
}

/// The parameter that a leaf is part of: `w` of `w.layers.q`.
fn root(name: Sym) -> &'static str {
    name.name().split('.').next().unwrap_or_default()
}

/// True for a pack or a list of integers, or what its functions make of it: `s`, `s.drop(1)`.
fn is_pack(body: &Body, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Name(name) => {
            let is_list = || matches!(body.env.consts.get(name), Some(Const::Ints(_)));
            body.find(*name).is_none() && (body.env.packs.contains_key(name) || is_list())
        }
        ExprKind::Field(base, _) => is_pack(body, base),
        ExprKind::Call(f, _) => matches!(&f.kind, ExprKind::Field(..)) && is_pack(body, f),
        _ => false,
    }
}

/// True for `x.f`, where `x` is no record that could hold a function.
fn is_method(body: &Body, f: &Expr) -> bool {
    let ExprKind::Field(base, _) = &f.kind else { return false };
    let ExprKind::Name(name) = base.kind else { return false };
    let Some(local) = body.find(name) else { return true };
    !matches!(local.value, Value::Tree(_) | Value::Tuple(_) | Value::Record(..) | Value::Unit)
}
