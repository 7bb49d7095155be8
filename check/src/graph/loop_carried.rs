//! Loop-carried variables: what bodies assign is carried, and its shape may change from round to round.
//!
//! A carried variable begins with the extents it has before the loop. Where a round leaves another extent in it that is
//! not proved to be the same, the axis is *opened*: the loop's blocks see a symbol there, which the loop binds at the
//! head of each round and, for what follows, at its end. Axes that begin alike and change alike share a symbol, so that
//! two caches that grow together stay as long as each other. The body is checked again with what was opened, until
//! nothing more changes: each time at least one axis is opened or one guess is given up, so it ends.
//!
//! Of an opened extent it is known that it is not negative, that it is never below (or above) what it began with, if a
//! round proves that, and what the variable's declared type says: `var kv: exists m <= cap. f32[m, d] = ..`. The axes
//! that a declared type names otherwise are fixed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ir::Intrinsic;
use ir::ast::{self, Expr, Ident};
use ir::diag::Diagnostic;
use ir::graph::{Block, Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::DType;

use super::branches::{assigned_in, instantiate_form};
use super::{Body, Local, Value};
use crate::env::Env;
use crate::{Checker, Maybe};

/// What makes a loop go on.
pub(super) enum Repeat<'b> {
    While(&'b Expr),
    Count(Count),
}

/// A counter, from `lo` by `step` while it is before `hi`.
#[derive(Clone)]
pub(super) struct Count {
    pub(super) name: Ident,
    pub(super) lo: ValId,
    pub(super) hi: ValId,
    pub(super) step: ValId,
    /// True where it counts down.
    pub(super) down: bool,
    /// The tensor or array whose element at the counter the name stands for.
    pub(super) over: Option<Value>,
}

/// An axis of what is carried: the leaf, and the axis of it.
type Axis = (usize, usize);

/// What is opened in a loop: axes by leaf and axis, and the class each belongs to.
#[derive(Clone, Default)]
pub(super) struct Opened {
    axes: BTreeMap<Axis, usize>,
    classes: Vec<Class>,
}

/// Axes that have the same extent in every round.
#[derive(Clone)]
struct Class {
    sym: Sym,
    first: Dim,
    /// Never below what it began with.
    grows: bool,
    /// Never above it.
    shrinks: bool,
}

impl Class {
    fn facts(&self, now: &Dim) -> Vec<Pred> {
        let mut facts = Vec::new();
        if self.grows {
            facts.push(Pred::Le(self.first.clone(), now.clone()));
        }
        if self.shrinks {
            facts.push(Pred::Le(now.clone(), self.first.clone()));
        }
        facts
    }
}

/// How far a body had got.
pub(super) struct Mark {
    env: Env,
    scopes: Vec<BTreeMap<Sym, Local>>,
    vals: usize,
    entry: usize,
    nodes: usize,
    diagnostics: usize,
    integers: super::runtime_dims::Integers,
    consumed: std::collections::HashMap<ValId, Span>,
    aliases: std::collections::HashMap<ValId, Vec<ValId>>,
    dims: BTreeSet<Sym>,
}

impl Body {
    pub(super) fn mark(&mut self, diagnostics: usize) -> Mark {
        Mark {
            env: self.env.clone(),
            scopes: self.scopes.clone(),
            vals: self.func.vals.len(),
            entry: self.entry.len(),
            nodes: self.block().nodes.len(),
            diagnostics,
            integers: self.integers.clone(),
            consumed: self.consumed.clone(),
            aliases: self.aliases.clone(),
            dims: self.dims.clone(),
        }
    }

    /// Takes back what was made since the mark.
    pub(super) fn forget(&mut self, mark: &Mark) {
        self.env = mark.env.clone();
        self.scopes.clone_from(&mark.scopes);
        self.func.vals.truncate(mark.vals);
        self.entry.truncate(mark.entry);
        self.block().nodes.truncate(mark.nodes);
        self.integers = mark.integers.clone();
        self.consumed.clone_from(&mark.consumed);
        self.aliases.clone_from(&mark.aliases);
        self.dims.clone_from(&mark.dims);
        // The dims that inner loops open keep their names.
        self.dims.extend(self.opened.values().flat_map(|o| &o.classes).map(|c| c.sym));
    }
}

/// A loop's body checked once.
struct Round {
    cond: Block,
    body: Block,
    /// The types with which the round began.
    types: Vec<Type>,
    /// What is known at the end of the round.
    facts: Facts,
    failed: bool,
}

impl<'a> Checker<'a> {
    /// Takes back what was checked since the mark. What other definitions were found guilty of stays said.
    pub(super) fn back_to(&mut self, body: &mut Body, mark: &Mark, here: Span) {
        body.forget(mark);
        let later = self.diagnostics.split_off(mark.diagnostics);
        for d in later {
            let at = d.span();
            if at.file == here.file && here.lo <= at.lo && at.hi <= here.hi {
                self.reported.remove(&(d.code, at, d.message.clone()));
            } else {
                self.diagnostics.push(d);
            }
        }
    }

    /// A loop: what its body assigns is carried. A counter, where there is one, is carried first. `inside` checks the
    /// body.
    pub(super) fn repeat(
        &mut self,
        body: &mut Body,
        repeat: &Repeat<'_>,
        block: &ast::Block,
        span: Span,
        inside: &mut dyn FnMut(&mut Self, &mut Body) -> Maybe<()>,
    ) -> Maybe<Value> {
        let vars: Vec<Sym> = assigned_in(std::iter::once(block))
            .into_iter()
            .filter(|n| body.find(*n).is_some_and(|l| l.mutable))
            .collect();
        // What is carried, flat, with the first values.
        let mut first = Vec::new();
        if let Repeat::Count(c) = repeat {
            first.push(c.lo);
        }
        let mut carried: Vec<(Sym, Value)> = Vec::new();
        // The extents that a declared type fixes, by leaf.
        let mut fixed: Vec<Vec<Option<Dim>>> = vec![vec![]; first.len()];
        for name in vars {
            let local = body.find(name).expect("found above").clone();
            // What could not be checked is not carried; the body is checked all the same.
            if local.value.is_unknown() {
                continue;
            }
            let flat = self.flatten(body, &local.value, span, &mut first)?;
            let declared = local.declared.as_ref().map(|d| d.fixed.clone()).unwrap_or_default();
            fixed.extend(declared);
            fixed.resize(first.len(), vec![]);
            // The leaves of a record or an array share their dims with its type.
            if matches!(flat, Value::Tree(_) | Value::Record(..)) {
                let mut places = Vec::new();
                flat.leaves(&mut places);
                for at in places {
                    let at = at.0 as usize;
                    fixed[at] = body.func.ty(first[at]).shape.iter().cloned().map(Some).collect();
                }
            }
            carried.push((name, flat));
        }
        let outside: BTreeSet<ValId> = (0..body.func.vals.len() as u32).map(ValId).collect();
        let mark = body.mark(self.diagnostics.len());
        let key = (body.inlined.clone(), span, body.loops);
        let mut opened = body.opened.get(&key).cloned().unwrap_or_default();
        body.loops += 1;
        let round = loop {
            let types: Vec<Type> = first
                .iter()
                .enumerate()
                .map(|(leaf, v)| {
                    let ty = body.func.ty(*v);
                    let extent = |(axis, d): (usize, &Dim)| {
                        let declared = fixed[leaf].get(axis).cloned().flatten();
                        let class = opened.axes.get(&(leaf, axis)).map(|c| Dim::sym(opened.classes[*c].sym));
                        class.or(declared).unwrap_or_else(|| d.clone())
                    };
                    Type { dtype: ty.dtype, shape: ty.shape.iter().enumerate().map(extent).collect() }
                })
                .collect();
            for c in &opened.classes {
                body.dims.insert(c.sym);
                body.env.facts.assume_dim(c.sym);
                c.facts(&Dim::sym(c.sym)).into_iter().for_each(|f| body.env.facts.assume(f));
            }
            let begun = body.env.clone();
            let round = self.round(body, repeat, &carried, types, span, inside);
            let Some(round) = round else {
                body.loops -= 1;
                (body.env, body.scopes) = (mark.env, mark.scopes);
                return None;
            };
            let Some(more) = self.changes(body, &round, &first, &fixed, &opened) else {
                body.env = begun;
                body.scopes.clone_from(&mark.scopes);
                break round;
            };
            opened = more;
            self.back_to(body, &mark, span);
        };
        body.loops -= 1;
        body.opened.insert(key, opened.clone());
        if body.loops == 0 {
            body.opened.clear();
        }
        body.integers.leave(mark.integers.mark());
        // A round that gives away something of the outside could not be run twice.
        let mut gone: Vec<(ValId, Span)> = body
            .consumed
            .iter()
            .filter(|(v, _)| !mark.consumed.contains_key(v))
            .map(|(v, s)| (*v, *s))
            .collect();
        gone.sort();
        for (v, at) in gone {
            if outside.contains(&v) {
                let name = body.func.val(v).name;
                let text = format!("`{name}` is given away in a loop, and a second round needs it");
                let d = Diagnostic::error("E0501", at, text);
                return self.fail(
                    d.help(format!("carry it: `var {} = ..`, and assign it in the loop", super::root(name))),
                );
            }
        }
        if round.failed {
            return None;
        }
        // A variable that a round gives away takes what it began with, and what a round leaves in it.
        let rounds: Vec<(ValId, ValId, ValId)> =
            (0..first.len()).map(|i| (round.body.params[i], first[i], round.body.results[i])).collect();
        for &(param, begin, next) in &rounds {
            if body.consumed.contains_key(&param) {
                self.consume(body, begin, span, "this loop")?;
                if outside.contains(&next) {
                    self.consume(body, next, span, "this loop")?;
                }
            }
        }
        let opens = opened.classes.iter().map(|c| c.sym).collect();
        let op = Op::While { cond: round.cond, body: round.body };
        let results = body.push_all(op, first, round.types, opens, span);
        body.aliases.extend(results.iter().zip(rounds).map(|(r, (_, begin, next))| (*r, vec![begin, next])));
        for (name, shape) in carried {
            body.set(name, instantiate_form(&shape, &results));
        }
        Some(Value::Unit)
    }

    /// The condition and the body, once.
    fn round(
        &mut self,
        body: &mut Body,
        repeat: &Repeat<'_>,
        carried: &[(Sym, Value)],
        types: Vec<Type>,
        span: Span,
        inside: &mut dyn FnMut(&mut Self, &mut Body) -> Maybe<()>,
    ) -> Maybe<Round> {
        let enter = |body: &mut Body| {
            let params: Vec<ValId> =
                types.iter().map(|t| body.func.add_val(Sym::new("v"), t.clone())).collect();
            for (name, shape) in carried {
                let value = instantiate_form(shape, &params);
                if let Value::Val(v) = value {
                    body.func.vals[v.0 as usize].name = *name;
                }
                body.set(*name, value);
            }
            body.blocks.push(Block { params: params.clone(), ..Block::default() });
            params
        };
        let begun = (body.env.clone(), body.integers.mark());
        let params = enter(body);
        let go_on = match repeat {
            Repeat::Count(c) => {
                let op = if c.down { Intrinsic::Gt } else { Intrinsic::Lt };
                Some(body.push(Op::Scalar(op), vec![params[0], c.hi], Type::scalar(DType::Bool), span))
            }
            Repeat::While(e) => self.condition(body, e),
        };
        let mut cond = body.blocks.pop().expect("pushed above");
        cond.results.extend(go_on);
        body.env = begun.0;
        body.integers.leave(begun.1);

        let params = enter(body);
        let mut next = Vec::new();
        let done = match repeat {
            Repeat::Count(c) => {
                body.scopes.push(BTreeMap::new());
                let row = self.enter_count(body, c, params[0], span);
                let done = inside(self, body);
                body.scopes.pop();
                let ty = Type::scalar(DType::I64);
                next.push(body.push(Op::Scalar(Intrinsic::Add), vec![params[0], c.step], ty, span));
                row.and(done)
            }
            Repeat::While(e) => {
                // A condition on dims holds in every round.
                let mut facts = Vec::new();
                self.facts_of(body, e, &mut facts);
                facts.into_iter().for_each(|p| body.env.facts.assume(p));
                inside(self, body)
            }
        };
        let mut whole = true;
        for (name, begun) in carried {
            let value = body.find(*name).expect("it is carried").value.clone();
            if !value.same_functions(begun) {
                let text = "a function that a loop changes is not known when compiling";
                let d = Diagnostic::error("E0307", span, text);
                self.report(d.help("choose it with `if` where it is called"));
                whole = false;
            }
            whole &= self.flatten(body, &value, span, &mut next).is_some();
        }
        let mut block = body.blocks.pop().expect("pushed above");
        block.results = next;
        if !whole || block.results.len() != types.len() {
            return None;
        }
        let facts = body.env.facts.clone();
        Some(Round { cond, body: block, types, facts, failed: done.is_none() || go_on.is_none() })
    }

    /// Names what a round of a `for` is about: its counter, or the row at it.
    fn enter_count(&mut self, body: &mut Body, c: &Count, at: ValId, span: Span) -> Maybe<()> {
        if let (Some(lo), hi) = (self.known_dim(body, c.lo, span), self.known_dim(body, c.hi, span)) {
            // Down, it is above the end and at most where it began.
            let range = match (c.down, hi) {
                (false, hi) => Some((lo, hi)),
                (true, Some(hi)) => Some((hi + Dim::int(1), Some(lo + Dim::int(1)))),
                (true, None) => None,
            };
            if let Some((lo, hi)) = range
                && body.env.facts.prove(&Pred::Le(Dim::int(0), lo.clone())).is_proved()
            {
                body.integers.counter(at, lo, hi);
            }
        }
        let value = match &c.over {
            Some(over) => self.element(body, over, &Value::Val(at), span),
            None => Some(Value::Val(at)),
        };
        self.bind_pattern(body, &ast::Pattern::Name(c.name), value, false, span)
    }

    /// What must be opened beyond what is; none where the round leaves what it began with.
    fn changes(
        &mut self,
        body: &mut Body,
        round: &Round,
        first: &[ValId],
        fixed: &[Vec<Option<Dim>>],
        opened: &Opened,
    ) -> Option<Opened> {
        let facts = &round.facts;
        let same = |a: &Dim, b: &Dim| a == b || facts.prove(&Pred::Eq(a.clone(), b.clone())).is_proved();
        let mut more = opened.clone();
        let mut changed = false;
        // New axes, together where they begin and end alike.
        let mut new: Vec<(Dim, Dim, usize)> = Vec::new();
        // What each class ends with.
        let mut ends: BTreeMap<usize, Vec<(Axis, Dim)>> = BTreeMap::new();
        for (leaf, (begin, end)) in first.iter().zip(&round.body.results).enumerate() {
            let (begin, end) = (body.func.ty(*begin).clone(), body.func.ty(*end).clone());
            if begin.shape.len() != end.shape.len() {
                continue;
            }
            for (axis, (b, e)) in begin.shape.iter().zip(&end.shape).enumerate() {
                if fixed[leaf].get(axis).is_some_and(Option::is_some) {
                    continue;
                }
                if let Some(class) = opened.axes.get(&(leaf, axis)) {
                    ends.entry(*class).or_default().push(((leaf, axis), e.clone()));
                    continue;
                }
                if same(b, e) {
                    continue;
                }
                changed = true;
                let class = match new.iter().find(|n| n.0 == *b && same(&n.1, e)) {
                    Some(n) => n.2,
                    None => {
                        let near =
                            b.syms().first().copied().unwrap_or(body.func.val(round.body.params[leaf]).name);
                        let near = if near.name() == "v" { Sym::new("k") } else { near };
                        more.classes.push(Class {
                            sym: body.fresh_dim(near),
                            first: b.clone(),
                            grows: facts.prove(&Pred::Le(b.clone(), e.clone())).is_proved(),
                            shrinks: facts.prove(&Pred::Le(e.clone(), b.clone())).is_proved(),
                        });
                        new.push((b.clone(), e.clone(), more.classes.len() - 1));
                        more.classes.len() - 1
                    }
                };
                more.axes.insert((leaf, axis), class);
            }
        }
        for (class, ends) in ends {
            let e = &ends[0].1;
            // Those that end otherwise than the first are a class of their own.
            let apart: HashSet<Axis> =
                ends.iter().filter(|(_, other)| !same(e, other)).map(|(at, _)| *at).collect();
            if !apart.is_empty() {
                changed = true;
                let near = more.classes[class].sym;
                let split = Class { sym: body.fresh_dim(near), ..more.classes[class].clone() };
                more.classes.push(split);
                let number = more.classes.len() - 1;
                more.axes.iter_mut().filter(|(at, _)| apart.contains(at)).for_each(|(_, c)| *c = number);
                continue;
            }
            let known = &mut more.classes[class];
            let holds = |p: Pred| facts.prove(&p).is_proved();
            if known.grows && !holds(Pred::Le(known.first.clone(), e.clone())) {
                (known.grows, changed) = (false, true);
            }
            if known.shrinks && !holds(Pred::Le(e.clone(), known.first.clone())) {
                (known.shrinks, changed) = (false, true);
            }
        }
        changed.then_some(more)
    }
}

/// What a `for` goes through.
enum Rounds {
    Count(Count),
    /// Values that are known when compiling.
    Each(Vec<Value>),
}

/// One step of the heads of a `for`.
enum Head<'b> {
    Range(&'b ast::Binder),
    /// One axis of a pack, under a name of its own.
    Axis(Ident, Dim),
    /// The pack of the axes before.
    Pack(Ident, Vec<Ident>),
}

impl<'a> Checker<'a> {
    /// `for i in a..b by s, ..j in ..s { }`: loops that count, one in the other.
    pub(super) fn for_loop(
        &mut self,
        body: &mut Body,
        binders: &[ast::Binder],
        block: &ast::Block,
        span: Span,
    ) -> Maybe<Value> {
        self.distinct(binders.iter().map(|b| b.name));
        let mut heads = Vec::new();
        for b in binders {
            if !b.pack {
                heads.push(Head::Range(b));
                continue;
            }
            let dims = match b.range.hi.as_deref().map(|e| body.env.pack(e)) {
                Some(Ok(dims)) => dims,
                Some(Err(d)) => return self.fail(*d),
                None => return None,
            };
            let name = |k: usize| Ident { name: Sym::new(&format!("{}{k}", b.name.name)), span: b.name.span };
            let names: Vec<Ident> = (0..dims.len()).map(name).collect();
            heads.extend(names.iter().zip(dims).map(|(n, d)| Head::Axis(*n, d)));
            heads.push(Head::Pack(b.name, names));
        }
        self.heads(body, &heads, block, span)?;
        Some(Value::Unit)
    }

    fn heads(&mut self, body: &mut Body, heads: &[Head<'_>], block: &ast::Block, span: Span) -> Maybe<()> {
        let Some((head, rest)) = heads.split_first() else {
            return self.valueless(body, block);
        };
        let count = match head {
            Head::Pack(name, names) => {
                let part = |n: &Ident| body.find(n.name).map_or(Value::Unit, |l| l.value.clone());
                let value = Value::Tuple(names.iter().map(part).collect());
                body.define(*name, value, false);
                return self.heads(body, rest, block, span);
            }
            Head::Axis(name, d) => {
                let mut int = |d: Dim| self.materialize(body, &Value::Dim(d), DType::I64, name.span);
                let (lo, hi, step) = (int(Dim::int(0))?, int(d.clone())?, int(Dim::int(1))?);
                Count { name: *name, lo, hi, step, down: false, over: None }
            }
            Head::Range(b) => match self.bounds_of(body, b)? {
                Rounds::Count(count) => count,
                Rounds::Each(values) => return self.each(body, b, &values, rest, block, span),
            },
        };
        let mut inside = |c: &mut Self, body: &mut Body| c.heads(body, rest, block, span);
        self.repeat(body, &Repeat::Count(count), block, span, &mut inside).map(|_| ())
    }

    /// `for f in fs` over what holds functions: the body once for each, as no run could tell which it is.
    fn each(
        &mut self,
        body: &mut Body,
        b: &ast::Binder,
        values: &[Value],
        rest: &[Head<'_>],
        block: &ast::Block,
        span: Span,
    ) -> Maybe<()> {
        for (i, value) in values.iter().enumerate() {
            // Each round is a place of its own, for what the loops in it open.
            let round = Span { lo: i as u32, hi: i as u32, ..span };
            let env = body.env.clone();
            let done = self.nested(body, round, span, |c, body| {
                body.scopes.push(BTreeMap::new());
                body.define(b.name, value.clone(), false);
                let done = c.heads(body, rest, block, span);
                body.scopes.pop();
                done
            });
            let facts = std::mem::replace(&mut body.env, env).facts;
            body.env.facts = facts;
            done?;
        }
        Some(())
    }

    /// The bounds of a `for`.
    fn bounds_of(&mut self, body: &mut Body, b: &ast::Binder) -> Maybe<Rounds> {
        let r = &b.range;
        let one =
            |c: &mut Self, body: &mut Body| c.materialize(body, &Value::Dim(Dim::int(1)), DType::I64, r.span);
        let zero =
            |c: &mut Self, body: &mut Body| c.materialize(body, &Value::Dim(Dim::int(0)), DType::I64, r.span);
        let Some(hi) = r.hi.as_deref() else {
            return self.fail(Diagnostic::error("E0307", r.span, "a loop needs an end"));
        };
        let end = self.expr(body, hi)?;
        if let (None, None, Value::Tuple(parts)) = (&r.lo, &r.step, &end)
            && end.has_function()
        {
            return Some(Rounds::Each(parts.clone()));
        }
        // Over an array the variable is each element in turn.
        if let (None, None) = (&r.lo, &r.step)
            && let Some(n) = self.first_extent(body, &end, hi.span)?
        {
            let (lo, step) = (zero(self, body)?, one(self, body)?);
            let hi = self.materialize(body, &Value::Dim(n), DType::I64, r.span)?;
            return Some(Rounds::Count(Count { name: b.name, lo, hi, step, down: false, over: Some(end) }));
        }
        let lo = match &r.lo {
            Some(e) => {
                let value = self.expr(body, e)?;
                self.integer_value(body, &value, e.span)?
            }
            None => zero(self, body)?,
        };
        let hi = self.integer_value(body, &end, hi.span)?;
        let Some(e) = &r.step else {
            let step = one(self, body)?;
            return Some(Rounds::Count(Count { name: b.name, lo, hi, step, down: false, over: None }));
        };
        let d = self.dim_of(body, e)?;
        if d == Dim::int(0) {
            return self.fail(Diagnostic::error("E0307", e.span, "a loop with a step of 0 never ends"));
        }
        let down = d.as_int().is_some_and(|s| s < 0);
        if !down {
            let text = format!("a step must be positive or known when compiling, and this is {d}");
            let wrong = Diagnostic::error("E0308", e.span, text.clone());
            self.require(body, Pred::Le(Dim::int(1), d.clone()), e.span, &text, wrong)?;
        }
        let step = self.materialize(body, &Value::Dim(d), DType::I64, e.span)?;
        Some(Rounds::Count(Count { name: b.name, lo, hi, step, down, over: None }))
    }

    /// An i64 scalar.
    fn integer_value(&mut self, body: &mut Body, value: &Value, span: Span) -> Maybe<ValId> {
        let v = self.materialize(body, value, DType::I64, span)?;
        let ty = body.func.ty(v).clone();
        if ty.shape.is_empty() && ty.dtype.is_int() && ty.dtype != DType::I64 {
            return Some(body.push(Op::Cast, vec![v], Type::scalar(DType::I64), span));
        }
        self.same_type(body, &Type::scalar(DType::I64), &ty, span, "the bound of a loop")?;
        Some(v)
    }
}
