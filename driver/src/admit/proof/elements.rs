//! What an element of a value is, read from the graph and the loops: an expression over the elements of the arguments.
//!
//! A primitive is its stores, each with the loops, definitions and conditions around it. To read an element of what it
//! makes is to find the store that writes it and at which round: the indices are solved for the variables of the loops,
//! and whether those are in range is asked of the facts. What they leave open splits the proof in two
//! ([`Stop::Split`]). Then the stored expression is evaluated with positions for variables, and reading on.

use ir::graph::{Block, Func, Node, Op, ValId};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::overflow::Size;
use ir::{Literal, Module};
use shape::{Expr, Facts, Pred, Sym, Verdict};
use tensor::DType;

use super::laws::{Algebra, Scope};
use super::terms::{Binder, Give, Ratio, Stop, Sum, Value};

/// Functions within functions.
const DEPTH: usize = 16;

/// A function that is read, with what it was called with.
pub(super) struct Frame<'a> {
    func: &'a Func,
    dims: Vec<(Sym, Expr)>,
    /// Where it is called, and with what; none: the parameters are those of the rule.
    caller: Option<(&'a Frame<'a>, &'a [ValId])>,
    depth: usize,
}

impl<'a> Frame<'a> {
    pub(super) fn new(side: &'a Func) -> Frame<'a> {
        Frame { func: side, dims: Vec::new(), caller: None, depth: 0 }
    }

    fn meant(&self, e: &Expr) -> Expr {
        e.subst(&|s| self.dims.iter().find(|d| d.0 == s).map(|d| d.1.clone()))
    }
}

/// A store, with what stands around it.
struct Site<'m> {
    around: Vec<Step<'m>>,
    index: &'m [Scalar],
    value: &'m Scalar,
}

#[derive(Clone)]
enum Step<'m> {
    Loop(VarId, &'m Scalar, &'m Scalar),
    Let(VarId, &'m Scalar),
    If(&'m Scalar, bool),
}

/// What a variable stands for.
#[derive(Clone)]
enum Bound<'m> {
    Position(Expr),
    Let(&'m Scalar),
}

/// A call of a primitive that is read.
struct Call<'a, 'm> {
    prim: &'m Prim,
    dims: Vec<Expr>,
    frame: &'a Frame<'a>,
    args: &'a [ValId],
}

/// Variables, the later ones may name the earlier.
type Env<'m> = Vec<(VarId, Bound<'m>)>;

pub(super) struct Reader<'m> {
    pub(super) module: &'m Module,
    pub(super) algebra: Algebra,
}

impl<'m> Reader<'m> {
    /// An element of a value of a function.
    pub(super) fn element(
        &self,
        frame: &Frame<'_>,
        val: ValId,
        index: &[Expr],
        scope: &Scope,
    ) -> Give<Value> {
        self.algebra.make.step()?;
        let ty = frame.func.ty(val);
        // An element is read, so there is one.
        let scope = &self.existing(ty.shape.iter().map(|e| frame.meant(e)), scope);
        if let Some(k) = frame.func.body.params.iter().position(|p| *p == val) {
            return match frame.caller {
                Some((above, args)) => self.element(above, *args.get(k).ok_or(Stop::GiveUp)?, index, scope),
                None => self.algebra.load(k, ty.dtype, index, scope),
            };
        }
        let node = made_by(&frame.func.body, val).ok_or(Stop::GiveUp)?;
        let arg = |k: usize| node.args.get(k).copied().ok_or(Stop::GiveUp);
        match &node.op {
            Op::Const(t) if t.shape().is_empty() => {
                let literal = match t.dtype().is_float() {
                    true => Literal::Float(t.get_f64(0)),
                    false => Literal::Int(t.get_i64(0)),
                };
                self.literal(t.dtype(), literal)
            }
            Op::Dim(e) => self.dim(&frame.meant(e), scope),
            Op::Scalar(op) => {
                let args = (0..node.args.len()).map(|k| self.element(frame, arg(k)?, &[], scope));
                let made = self.algebra.op(*op, args.collect::<Give<_>>()?, scope)?;
                Ok(self.algebra.rounded(ty.dtype, made))
            }
            Op::Cast => self.algebra.cast(ty.dtype, self.element(frame, arg(0)?, &[], scope)?),
            Op::Prim(id, dims) => {
                let prim = self.module.prim(*id);
                let dims = dims.iter().map(|e| frame.meant(e)).collect();
                let call = Call { prim, dims, frame, args: &node.args };
                let out = node.results.iter().position(|r| *r == val).ok_or(Stop::GiveUp)?;
                self.stored(&call, *prim.outs.get(out).ok_or(Stop::GiveUp)?, index, scope)
            }
            Op::Call(id, dims) => {
                let func = self.module.func(*id);
                let out = node.results.iter().position(|r| *r == val).ok_or(Stop::GiveUp)?;
                let fails = |n: &Node| matches!(n.op, Op::Check(..) | Op::Assert(_) | Op::BindDim(..));
                if frame.depth >= DEPTH || !func.exists.is_empty() || func.body.nodes.iter().any(fails) {
                    return Err(Stop::GiveUp);
                }
                let dims = func.dims.iter().copied().zip(dims.iter().map(|e| frame.meant(e))).collect();
                let caller = Some((frame, &node.args[..]));
                let inner = Frame { func, dims, caller, depth: frame.depth + 1 };
                self.element(&inner, *func.body.results.get(out).ok_or(Stop::GiveUp)?, index, scope)
            }
            Op::Const(_) | Op::Extern(..) | Op::If(..) | Op::While { .. } | Op::Switch(_) => {
                Err(Stop::GiveUp)
            }
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => Err(Stop::GiveUp),
        }
    }

    fn existing(&self, extents: impl Iterator<Item = Expr>, scope: &Scope) -> Scope {
        let mut scope = scope.clone();
        for extent in extents {
            let some = Pred::Le(Expr::int(1), extent);
            if !scope.proves(&some) {
                scope.facts.assume(some);
            }
        }
        scope
    }

    fn literal(&self, dtype: DType, x: Literal) -> Give<Value> {
        let sum = match x {
            Literal::Float(x) if dtype.is_float() => self.algebra.float(dtype, x)?,
            Literal::Int(i) if dtype.is_float() => self.algebra.float(dtype, i as f64)?,
            Literal::Int(i) => Sum::constant(Ratio::int(i.into())),
            Literal::Float(_) => return Err(Stop::GiveUp),
        };
        Ok(Value { dtype, sum })
    }

    fn dim(&self, e: &Expr, scope: &Scope) -> Give<Value> {
        Ok(Value { dtype: DType::I64, sum: self.algebra.number(e, scope)? })
    }

    /// What stands in an element of an output in the end: what the last store there wrote.
    fn stored(&self, call: &Call<'_, 'm>, out: BufId, index: &[Expr], scope: &Scope) -> Give<Value> {
        let prim = call.prim;
        if prim.in_place(out) {
            return Err(Stop::GiveUp);
        }
        let sites = sites(prim, out)?;
        for site in sites.iter().rev() {
            if let Some(env) = self.covers(call, site, index, scope)? {
                let value = self.scalar(call, &env, site.value, scope)?;
                return Ok(self.algebra.rounded(prim.buf(out).dtype, value));
            }
        }
        Err(Stop::GiveUp)
    }

    /// The round in which a store writes an element; none where no round does.
    fn covers(
        &self,
        call: &Call<'_, 'm>,
        site: &Site<'m>,
        index: &[Expr],
        scope: &Scope,
    ) -> Give<Option<Env<'m>>> {
        let mut env: Env<'m> = Vec::new();
        let mut unknown: Vec<(Sym, Expr, Expr)> = Vec::new();
        for step in &site.around {
            match step {
                Step::Loop(var, lo, hi) => {
                    let ends = (
                        self.position(call, &env, &call.prim.facts, lo),
                        self.position(call, &env, &call.prim.facts, hi),
                    );
                    let (Some(lo), Some(hi)) = ends else { return Err(Stop::GiveUp) };
                    let name = self.algebra.variable();
                    unknown.push((name, lo, hi));
                    env.push((*var, Bound::Position(Expr::sym(name))));
                }
                Step::Let(var, def) => env.push((*var, Bound::Let(def))),
                Step::If(..) => {}
            }
        }
        let places: Option<Vec<Expr>> =
            site.index.iter().map(|e| self.position(call, &env, &call.prim.facts, e)).collect();
        let places = places.filter(|p| p.len() == index.len()).ok_or(Stop::GiveUp)?;
        let solved = solve(&unknown, &places, index).ok_or(Stop::GiveUp)?;
        let known = |e: &Expr| e.subst(&|s| solved.iter().find(|k| k.0 == s).map(|k| k.1.clone()));
        // It is there if the place is this one and each variable in its range.
        let same = places.iter().zip(index).map(|(p, e)| Pred::Eq(known(p), e.clone()));
        let ranges = unknown.iter().flat_map(|(name, lo, hi)| {
            let at = known(&Expr::sym(*name));
            [Pred::Le(known(lo), at.clone()), Pred::Lt(at, known(hi))]
        });
        let mut open = None;
        for pred in same.chain(ranges) {
            match scope.facts.prove(&pred) {
                Verdict::Proved => {}
                Verdict::Refuted => return Ok(None),
                Verdict::Unknown => open = open.or(Some(pred)),
            }
        }
        if let Some(pred) = open {
            return Err(Stop::Split(pred));
        }
        for (_, bound) in &mut env {
            if let Bound::Position(e) = bound {
                *e = known(e);
            }
        }
        for step in &site.around {
            let Step::If(cond, when) = step else { continue };
            let cond = self.scalar(call, &env, cond, scope)?.sum.as_constant().ok_or(Stop::GiveUp)?;
            if (cond != Ratio::ZERO) != *when {
                return Ok(None);
            }
        }
        Ok(Some(env))
    }

    /// An expression of positions, as one. The facts are of the dims of the primitive, where it stands.
    fn position(
        &self,
        call: &Call<'_, 'm>,
        env: &[(VarId, Bound<'m>)],
        facts: &Facts,
        s: &Scalar,
    ) -> Option<Expr> {
        let prim = call.prim;
        // What reads memory is no position: it is none of a variable that is defined by it either.
        let exact = prim.exact(s, &|_| Size::POSITION, facts)?.dim;
        let failed = std::cell::Cell::new(false);
        let meant = exact.subst(&|sym| {
            if let Some(k) = prim.dims.iter().position(|d| *d == sym) {
                return call.dims.get(k).cloned();
            }
            let at = env.iter().rposition(|(v, _)| prim.var(*v).name == sym);
            let found = at.and_then(|k| match &env[k].1 {
                Bound::Position(e) => Some(e.clone()),
                Bound::Let(def) => self.position(call, &env[..k], facts, def),
            });
            failed.set(failed.get() || found.is_none());
            found
        });
        (!failed.get() && !meant.is_poison()).then_some(meant)
    }

    fn scalar(
        &self,
        call: &Call<'_, 'm>,
        env: &[(VarId, Bound<'m>)],
        s: &Scalar,
        scope: &Scope,
    ) -> Give<Value> {
        self.algebra.make.step()?;
        if s.dtype == DType::I64
            && let Some(e) = self.position(call, env, &call.prim.facts, s)
        {
            return self.dim(&e, scope);
        }
        match &s.kind {
            // Loops compute halves in f32, and their literals are of that.
            ScalarKind::Const(x) => {
                let dtype = if s.dtype.is_float() { s.dtype.wide() } else { s.dtype };
                Ok(Value { dtype: s.dtype, ..self.literal(dtype, *x)? })
            }
            ScalarKind::Dim(_) => Err(Stop::GiveUp),
            ScalarKind::Var(v) => {
                let at = env.iter().rposition(|(w, _)| w == v).ok_or(Stop::GiveUp)?;
                let Bound::Let(def) = &env[at].1 else { return Err(Stop::GiveUp) };
                let value = self.scalar(call, &env[..at], def, scope)?;
                Ok(self.algebra.rounded(s.dtype, value))
            }
            ScalarKind::Load { checked: true, .. } => Err(Stop::GiveUp),
            ScalarKind::Load { buf, index, .. } => {
                let k = call.prim.params.iter().position(|p| p == buf).ok_or(Stop::GiveUp)?;
                // What stands there may have been written by then.
                if call.prim.outs.contains(buf) {
                    return Err(Stop::GiveUp);
                }
                let mut facts = call.prim.facts.clone();
                for extent in &call.prim.buf(*buf).shape {
                    facts.assume(Pred::Le(Expr::int(1), extent.clone()));
                }
                let index: Option<Vec<Expr>> =
                    index.iter().map(|e| self.position(call, env, &facts, e)).collect();
                let val = *call.args.get(k).ok_or(Stop::GiveUp)?;
                self.element(call.frame, val, &index.ok_or(Stop::GiveUp)?, scope)
            }
            ScalarKind::Op(op, args) => {
                let args = args.iter().map(|a| self.scalar(call, env, a, scope));
                self.algebra.op(*op, args.collect::<Give<_>>()?, scope)
            }
            ScalarKind::Choose(parts) => {
                let [cond, yes, no] = &**parts;
                let cond = self.scalar(call, env, cond, scope)?;
                if let Some(c) = cond.sum.as_constant() {
                    return self.scalar(call, env, if c == Ratio::ZERO { no } else { yes }, scope);
                }
                let yes = self.scalar(call, env, yes, scope)?;
                let no = self.scalar(call, env, no, scope)?;
                Ok(self.algebra.choose(cond, yes, no))
            }
            ScalarKind::Cast(a) => self.algebra.cast(s.dtype, self.scalar(call, env, a, scope)?),
            ScalarKind::Reduce { combine, var, lo, hi, body, .. } => {
                let ends = (
                    self.position(call, env, &call.prim.facts, lo),
                    self.position(call, env, &call.prim.facts, hi),
                );
                let (Some(lo), Some(hi)) = ends else { return Err(Stop::GiveUp) };
                let extent = scope.facts.simplify(&(&hi - &lo));
                let mut env = env.to_vec();
                if scope.proves(&Pred::Eq(extent.clone(), Expr::int(1))) {
                    env.push((*var, Bound::Position(lo)));
                    return self.scalar(call, &env, body, scope);
                }
                let binder = Binder { sym: self.algebra.variable(), extent };
                env.push((*var, Bound::Position(Expr::sym(binder.sym) + lo)));
                let body = self.scalar(call, &env, body, &scope.within(&binder))?;
                self.algebra.reduce(*combine, &binder, &body, scope)
            }
        }
    }
}

fn made_by(block: &Block, val: ValId) -> Option<&Node> {
    block.nodes.iter().find(|n| n.results.contains(&val))
}

/// The stores to an output, in order. No two of them share a loop, and no variable is set twice, so the last that
/// writes an element is the one that counts.
fn sites<'m>(prim: &'m Prim, out: BufId) -> Give<Vec<Site<'m>>> {
    let mut set: Vec<VarId> = Vec::new();
    let mut plain = true;
    for s in &prim.body {
        s.walk(&mut |s| match s {
            Stmt::Set(v, _) if set.contains(v) => plain = false,
            Stmt::Set(v, _) => set.push(*v),
            Stmt::Store { buf, combine, checked, .. } if *buf == out => {
                plain &= combine.is_none() && !checked;
            }
            Stmt::While(..) => plain = false,
            Stmt::For { .. } | Stmt::If(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        });
    }
    let mut found = Vec::new();
    collect(&prim.body, out, &mut Vec::new(), &mut found);
    let outermost = |s: &Site<'m>| {
        s.around.iter().find_map(|step| {
            if let Step::Loop(_, lo, _) = step { Some(std::ptr::from_ref(*lo)) } else { None }
        })
    };
    let shared = (0..found.len()).any(|a| {
        (0..a).any(|b| outermost(&found[a]).is_some() && outermost(&found[a]) == outermost(&found[b]))
    });
    if plain && !shared { Ok(found) } else { Err(Stop::GiveUp) }
}

fn collect<'m>(body: &'m [Stmt], out: BufId, around: &mut Vec<Step<'m>>, found: &mut Vec<Site<'m>>) {
    let begun = around.len();
    for s in body {
        match s {
            Stmt::For { var, lo, hi, body, .. } => {
                let before = around.len();
                around.push(Step::Loop(*var, lo, hi));
                collect(body, out, around, found);
                around.truncate(before);
            }
            Stmt::If(cond, yes, no) => {
                let before = around.len();
                for (part, when) in [(yes, true), (no, false)] {
                    around.push(Step::If(cond, when));
                    collect(part, out, around, found);
                    around.truncate(before);
                }
            }
            Stmt::Set(v, def) => around.push(Step::Let(*v, def)),
            Stmt::Store { buf, index, value, .. } if *buf == out => {
                found.push(Site { around: around.clone(), index, value });
            }
            Stmt::Store { .. } | Stmt::Alloc(_) | Stmt::While(..) => {}
        }
    }
    around.truncate(begun);
}

/// What the variables of loops are where their expressions are the places: each stands by itself in one of them, or as
/// `extent * major + minor` with another.
fn solve(unknown: &[(Sym, Expr, Expr)], places: &[Expr], index: &[Expr]) -> Option<Vec<(Sym, Expr)>> {
    let mut solved: Vec<(Sym, Expr)> = Vec::new();
    while solved.len() < unknown.len() {
        let before = solved.len();
        for (place, at) in places.iter().zip(index) {
            let place = place.subst(&|s| solved.iter().find(|k| k.0 == s).map(|k| k.1.clone()));
            let open: Vec<&(Sym, Expr, Expr)> = unknown
                .iter()
                .filter(|u| !solved.iter().any(|k| k.0 == u.0) && place.syms().contains(&u.0))
                .collect();
            let without = |e: &Expr| !open.iter().any(|u| e.syms().contains(&u.0));
            match open[..] {
                [(v, ..)] => {
                    let (less, more) = (&place - Expr::sym(*v), &place + Expr::sym(*v));
                    if without(&less) {
                        solved.push((*v, at - &less));
                    } else if without(&more) {
                        solved.push((*v, &more - at));
                    }
                }
                [a, b] => {
                    for (major, minor) in [(a, b), (b, a)] {
                        let extent = &minor.2;
                        let rest = &place - Expr::sym(minor.0) - extent * &Expr::sym(major.0);
                        if minor.1.as_int() == Some(0) && without(&rest) && without(extent) {
                            let at = at - &rest;
                            solved.push((major.0, at.floor_div(extent)));
                            solved.push((minor.0, at.modulo(extent)));
                            break;
                        }
                    }
                }
                _ => {}
            }
        }
        if solved.len() == before {
            return None;
        }
    }
    Some(solved)
}
