//! Bodies of primitives: statements and scalar expressions to loops.

mod access_path;
mod binder;
mod conditional;
mod index;
mod loop_attributes;
mod scalar;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ir::ast::{self, AssignOp, Expr, ExprKind, Ident, IndexArg, Mode, PrimDef, StmtKind};
use ir::diag::Diagnostic;
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::overflow::{Exact, Size};
use ir::source::Span;
use ir::{Combine, Intrinsic, Literal};
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::DType;

use crate::env::{Const, Env};
use crate::types::Ty;
use crate::{Checker, Maybe};

pub(crate) use access_path::AccessPath;

#[derive(Clone)]
pub(crate) enum Local {
    Buf(BufId),
    /// A record, a tuple, an array or an encoded tensor: its leaves are buffers one after the other.
    Tree(AccessPath),
    Var(VarId),
    /// What a `let` inside a branch of a scalar `if` stands for.
    Value(Scalar),
    /// The variables of `for ..i in ..s`.
    Pack(Vec<VarId>),
    /// Something whose definition failed.
    Broken,
}

/// The state of one primitive's body.
pub(crate) struct Body {
    pub(crate) prim: Prim,
    pub(crate) env: Env,
    scopes: Vec<BTreeMap<Sym, Local>>,
    /// Every name in use, so that variables are unique, with how many were named after it.
    names: HashMap<Sym, usize>,
    /// Variables declared by `var`: their value changes, so no fact may speak of them.
    pub(crate) mutable: BTreeSet<Sym>,
    /// What variables of `let` are in terms of loops and dims: a fact each would be one more for every proof.
    defined: BTreeMap<Sym, Dim>,
    /// How large variables may be; those not named count positions.
    sizes: BTreeMap<VarId, Size>,
    /// Outputs that are only accumulated into begin at their combiner's identity; none: with several combiners, as
    /// zeros.
    starts: BTreeMap<BufId, Option<Combine>>,
    /// Where each output is declared.
    heads: Vec<Span>,
    /// The loops that are told how to run.
    marked_loops: Vec<loop_attributes::MarkedLoop>,
    /// What variables of loops, which are not below 0, stay below.
    counts: BTreeMap<VarId, Vec<Dim>>,
}

/// Loops around a statement, one an axis of a shape.
pub(crate) fn nest(vars: &[VarId], shape: Vec<Dim>, inner: Stmt) -> Stmt {
    vars.iter().zip(shape).rev().fold(inner, |inner, (&var, extent)| Stmt::For {
        var,
        lo: Scalar::int(0),
        hi: Scalar::dim(extent),
        mark: Mark::Serial,
        run: Run::Plain,
        body: vec![inner],
    })
}

impl Body {
    pub(crate) fn new(name: Ident, env: Env, dims: Vec<Sym>) -> Body {
        let prim = Prim {
            name: name.name.name().to_owned(),
            def: name.name,
            dims: dims.clone(),
            facts: env.facts.clone(),
            params: vec![],
            outs: vec![],
            bufs: vec![],
            vars: vec![],
            body: vec![],
            invariant: false,
            span: name.span,
        };
        Body {
            prim,
            env,
            scopes: vec![BTreeMap::new()],
            names: dims.into_iter().map(|d| (d, 1)).collect(),
            mutable: BTreeSet::new(),
            defined: BTreeMap::new(),
            sizes: BTreeMap::new(),
            starts: BTreeMap::new(),
            heads: vec![],
            marked_loops: vec![],
            counts: BTreeMap::new(),
        }
    }

    fn unique(&mut self, near: Sym) -> Sym {
        let mut name = near;
        let mut n = self.names.get(&near).copied().unwrap_or(0);
        while self.names.contains_key(&name) {
            n += 1;
            name = Sym::new(&ir::display_names::mangle(near.name(), n));
        }
        self.names.insert(name, 1);
        self.names.insert(near, n.max(1));
        name
    }

    pub(crate) fn buffer(&mut self, name: Sym, ty: ir::graph::Type, local: bool) -> BufId {
        let unique = self.unique(name);
        self.prim.bufs.push(Buf { name: unique, dtype: ty.dtype, shape: ty.shape, local });
        let id = BufId(self.prim.bufs.len() as u32 - 1);
        self.define(name, Local::Buf(id));
        id
    }

    /// The buffers of a parameter or an output.
    pub(crate) fn buffers(&mut self, name: Sym, ty: &Ty) -> Vec<BufId> {
        let leaves = ty.leaves(name.name()).into_iter();
        let bufs: Vec<BufId> = leaves.map(|l| self.buffer(Sym::new(&l.path), l.ty, false)).collect();
        if !matches!(ty, Ty::Tensor(_)) {
            let first = bufs.first().map_or(0, |b| b.0);
            self.define(name, Local::Tree(AccessPath::new(Rc::new(ty.clone()), first)));
        }
        bufs
    }

    pub(crate) fn variable(&mut self, name: Sym, dtype: DType) -> VarId {
        let unique = self.unique(name);
        self.prim.vars.push(Var { name: unique, dtype });
        VarId(self.prim.vars.len() as u32 - 1)
    }

    fn define(&mut self, name: Sym, local: Local) {
        self.scopes.last_mut().expect("a body has a scope").insert(name, local);
    }

    /// Leaves only these names to be seen; gives back those hidden, for [`Body::again`].
    pub(crate) fn only(&mut self, names: Vec<(Sym, Local)>) -> Vec<BTreeMap<Sym, Local>> {
        std::mem::replace(&mut self.scopes, vec![names.into_iter().collect()])
    }

    pub(crate) fn again(&mut self, hidden: Vec<BTreeMap<Sym, Local>>) {
        self.scopes = hidden;
    }

    fn find(&self, name: Sym) -> Option<Local> {
        self.scopes.iter().rev().find_map(|s| s.get(&name)).cloned()
    }

    /// The answer of a condition on attributes and ranks, which are no variables of the body.
    fn decided(&self, e: &Expr) -> Option<bool> {
        let shadowed = crate::bind::names_in(e).into_iter().any(|n| self.find(n).is_some());
        if shadowed { None } else { self.env.decided(e) }
    }

    /// The value of a name that is an attribute.
    fn attribute(&self, name: Sym) -> Option<&Const> {
        if self.find(name).is_some() { None } else { self.env.consts.get(&name) }
    }

    pub(crate) fn var(&self, id: VarId) -> Scalar {
        Scalar { kind: ScalarKind::Var(id), dtype: self.prim.var(id).dtype }
    }

    /// Loops that store a value everywhere in a buffer.
    fn fill(&mut self, buf: BufId, value: Scalar, span: Span) -> Stmt {
        let shape = self.prim.buf(buf).shape.clone();
        let vars: Vec<VarId> = shape.iter().map(|_| self.variable(Sym::new("z"), DType::I64)).collect();
        let index = vars.iter().map(|v| self.var(*v)).collect();
        let store = Stmt::Store { buf, index, checked: false, combine: None, value, span };
        nest(&vars, shape, store)
    }

    /// Puts loops in front that store a value everywhere in a buffer.
    fn initialize(&mut self, buf: BufId, value: Scalar) {
        let nest = self.fill(buf, value, self.prim.span);
        self.prim.body.insert(0, nest);
    }

    /// The expression as a dim, if no variable in it changes.
    pub(crate) fn steady(&self, s: &Scalar) -> Option<Dim> {
        self.dim(s).filter(|d| d.syms().into_iter().all(|s| !self.mutable.contains(&s)))
    }

    /// The expression as a dim, with what its variables were defined as in their place.
    fn dim(&self, s: &Scalar) -> Option<Dim> {
        let d = self.here(s)?.dim;
        Some(d.subst(&|s| self.defined.get(&s).cloned())).filter(|d| !d.is_poison())
    }

    /// The expression as a dim, and how large it may be, wherever in the body it may come to stand.
    pub(crate) fn exact(&self, s: &Scalar) -> Option<Exact> {
        self.exact_under(s, &self.prim.facts)
    }

    /// The same where it stands: inside a loop over `n`, `n` is not 0.
    fn here(&self, s: &Scalar) -> Option<Exact> {
        self.exact_under(s, &self.env.facts)
    }

    fn exact_under(&self, s: &Scalar, facts: &Facts) -> Option<Exact> {
        self.prim.exact(s, &|v| self.sizes.get(&v).copied().unwrap_or(Size::POSITION), facts)
    }

    /// Dims that an expression does not exceed, or does not fall below: of what it is the least or the greatest.
    fn ends(&self, e: &Scalar, of: Intrinsic) -> Vec<Dim> {
        match &e.kind {
            ScalarKind::Op(op, args) if *op == of => args.iter().flat_map(|a| self.ends(a, of)).collect(),
            _ => self.steady(e).into_iter().collect(),
        }
    }

    /// What `v / n` or `v % n` stays below where `v` stays below `m * n`: two loops in one.
    fn part_below(&self, value: &Scalar) -> Option<Dim> {
        let ScalarKind::Op(op, args) = &value.kind else { return None };
        let [Scalar { kind: ScalarKind::Var(v), .. }, by] = args.as_slice() else { return None };
        let (counts, by) = (self.counts.get(v)?, self.exact(by)?.dim);
        let mut some = self.env.facts.clone();
        // No round runs where either is 0.
        some.assume(Pred::Le(Dim::int(1), by.clone()));
        let mut rounds = counts.iter().map(|n| (some.simplify(&n.floor_div(&by)), n));
        let (rounds, _) = rounds.find(|(rounds, n)| rounds * &by == **n)?;
        let two = self.env.facts.prove(&Pred::Le(Dim::int(0), by.clone())).is_proved();
        match op {
            Intrinsic::Div if two => Some(rounds),
            Intrinsic::Rem if two => Some(by),
            _ => None,
        }
    }

    /// What holds inside a loop over `lo..hi`.
    pub(crate) fn assume_range(&mut self, var: VarId, lo: &Scalar, hi: &Scalar) {
        let v = Dim::sym(self.prim.var(var).name);
        let first = self.steady(lo);
        if first.is_some_and(|lo| self.env.facts.prove(&Pred::Le(Dim::int(0), lo)).is_proved()) {
            self.counts.insert(var, self.ends(hi, Intrinsic::Min));
        }
        let all = |e: &Scalar, of| self.steady(e).map_or_else(|| self.ends(e, of), |d| vec![d]);
        let (from, until) = (all(lo, Intrinsic::Max), all(hi, Intrinsic::Min));
        from.into_iter().for_each(|lo| self.env.facts.assume(Pred::Le(lo, v.clone())));
        until.into_iter().for_each(|hi| self.env.facts.assume(Pred::Lt(v.clone(), hi)));
    }
}

impl<'a> Checker<'a> {
    /// The body of an instance.
    pub(crate) fn prim_body(&mut self, def: &'a PrimDef, bound: &Env) -> Maybe<(Prim, Ty)> {
        let (env, dims) = self.inside(&def.sig, bound);
        let mut b = Body::new(def.sig.name, env, dims);
        let mut own = BTreeMap::new();
        for p in def.sig.params.iter().filter(|p| p.mode != Mode::Const) {
            let ty = self.param_ty(&b.env, p)?;
            let bufs = b.buffers(p.name.name, &ty);
            b.prim.params.extend(&bufs);
            if p.mode == Mode::Own {
                own.insert(p.name.name, (bufs, ty));
            }
        }
        let mut gives = Vec::new();
        for out in &def.outs {
            if let Some(e) = &out.default {
                let d =
                    Diagnostic::error("E0402", e.span, "an output of a primitive begins as its body says");
                return self.fail(d.help("store it first: `for i in n { y[i] = x[i] }`"));
            }
            if let Some((bufs, ty)) = own.get(&out.name.name) {
                b.prim.outs.extend(bufs);
                gives.push(ty.clone());
                b.heads.extend(bufs.iter().map(|_| out.span));
                continue;
            }
            let ty = self.param_ty(&b.env, out)?;
            let bufs = b.buffers(out.name.name, &ty);
            b.heads.extend(bufs.iter().map(|_| out.span));
            b.prim.outs.extend(bufs);
            gives.push(ty);
        }
        if def.outs.is_empty() {
            return self.fail(Diagnostic::error(
                "E0402",
                def.sig.name.span,
                "a primitive needs an output: `-> y: f32[n]`",
            ));
        }
        let stmts = self.prim_block(&mut b, &def.body);
        b.prim.body = stmts?;
        let zero = |d: DType| if d.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
        let starts = std::mem::take(&mut b.starts);
        for (buf, combine) in starts {
            if crate::access::is_only_combined(&b.prim, buf) {
                let dtype = b.prim.buf(buf).dtype;
                let start = combine.map_or(zero(dtype), |c| c.identity(dtype));
                b.initialize(buf, Scalar::constant(start, dtype));
            }
        }
        let prim =
            ir::inline_lets::inline_lets(&ir::depend::writes_alone(&b.prim), &ir::inline_lets::positions);
        let prim = ir::depend::unfused(&ir::depend::untiled(&prim));
        self.coverage(&ir::depend::untiled(&prim), &b.heads)?;
        // What is read of an output before it is written is zero, in every engine.
        for buf in crate::access::read_early(&ir::depend::unfused(&b.prim)) {
            let dtype = b.prim.buf(buf).dtype;
            b.initialize(buf, Scalar::constant(zero(dtype), dtype));
        }
        let carried = ir::depend::mark_loops(&mut b.prim);
        self.runs(&b, &carried)?;
        let gives = if gives.len() == 1 { gives.remove(0) } else { Ty::Tuple(gives) };
        Some((b.prim, gives))
    }

    fn prim_block(&mut self, b: &mut Body, block: &ast::Block) -> Maybe<Vec<Stmt>> {
        b.scopes.push(BTreeMap::new());
        let mut out = Some(Vec::new());
        for s in &block.stmts {
            let mut made = Vec::new();
            let ok = self.prim_stmt(b, s, &mut made);
            out = match (out, ok) {
                (Some(mut list), Some(())) => {
                    list.extend(made);
                    Some(list)
                }
                _ => None,
            };
        }
        b.scopes.pop();
        out
    }

    fn prim_stmt(&mut self, b: &mut Body, stmt: &ast::Stmt, out: &mut Vec<Stmt>) -> Maybe<()> {
        match &stmt.kind {
            StmtKind::Var(name, Some(ty), Some(e)) if has_axes(ty) => {
                self.filled(b, *name, ty, e, out)?;
            }
            StmtKind::Let(ast::Pattern::Name(name), ty, e) | StmtKind::Var(name, ty, Some(e)) => {
                let mutable = matches!(stmt.kind, StmtKind::Var(..));
                if !mutable
                    && ty.is_none()
                    && let Some(place) = self.access_path(b, e)
                {
                    let part = place.as_ref().is_none_or(AccessPath::is_part);
                    if part {
                        let local = place.and_then(|p| self.fixed(b, p, out));
                        let ok = local.as_ref().map(|_| ());
                        b.define(name.name, local.unwrap_or(Local::Broken));
                        return ok;
                    }
                }
                let value = self.annotation(b, ty.as_ref(), e);
                let Some(value) = value else {
                    b.define(name.name, Local::Broken);
                    return None;
                };
                let var = b.variable(name.name, value.dtype);
                let sym = b.prim.var(var).name;
                // What assignments add up to is not looked at.
                let narrow =
                    matches!(&value.kind, ScalarKind::Cast(e) if e.dtype.is_int() && e.dtype.size() <= 4);
                let known = if narrow { Some(Size::POSITION) } else { b.here(&value).map(|e| e.size) };
                let size = known.filter(|_| !mutable).unwrap_or(Size::ANY);
                b.sizes.insert(var, size);
                if mutable {
                    b.mutable.insert(sym);
                } else if let Some(end) = b.part_below(&value) {
                    b.sizes.insert(var, Size::POSITION);
                    b.env.facts.assume(Pred::Le(Dim::int(0), Dim::sym(sym)));
                    b.env.facts.assume(Pred::Lt(Dim::sym(sym), end));
                } else if let Some(d) = b.steady(&value) {
                    b.defined.insert(sym, d);
                } else if matches!(value.kind, ScalarKind::Op(Intrinsic::Min | Intrinsic::Max, _)) {
                    let this = Dim::sym(sym);
                    for end in b.ends(&value, Intrinsic::Min) {
                        b.env.facts.assume(Pred::Le(this.clone(), end));
                    }
                    for end in b.ends(&value, Intrinsic::Max) {
                        b.env.facts.assume(Pred::Le(end, this.clone()));
                    }
                }
                b.define(name.name, Local::Var(var));
                out.push(Stmt::Set(var, value));
            }
            StmtKind::Let(ast::Pattern::Tuple(_, span), ..) => {
                return self.fail(Diagnostic::error("E0405", *span, "primitives have no tuples"));
            }
            StmtKind::Var(name, Some(ty), None) => {
                let env = b.env.clone();
                let ty = self.tensor_type(&env, ty)?;
                let id = b.buffer(name.name, ty, true);
                out.push(Stmt::Alloc(id));
            }
            StmtKind::Var(name, None, None) => {
                return self.fail(Diagnostic::error(
                    "E0306",
                    name.span,
                    format!("`{}` needs a type", name.name),
                ));
            }
            StmtKind::Assign(place, op, e) => self.prim_assign(b, place, *op, e, stmt.span, out)?,
            StmtKind::For(binders, block) => {
                let facts = b.env.facts.clone();
                b.scopes.push(BTreeMap::new());
                self.distinct(binders.iter().map(|x| x.name));
                let loops = binders.iter().map(|x| self.binder(b, x, true)).collect::<Vec<_>>();
                let ok = loops.iter().all(Option::is_some);
                let inner = self.prim_block(b, block);
                b.scopes.pop();
                b.env.facts = facts;
                if !ok {
                    return None;
                }
                let mut body = inner?;
                for l in loops.into_iter().flatten().flatten().collect::<Vec<_>>().into_iter().rev() {
                    let (var, lo, hi) = l.range;
                    let nest = Stmt::For { var, lo, hi, mark: Mark::Serial, run: l.run, body };
                    body = l.before.into_iter().chain([nest]).collect();
                }
                out.extend(body);
            }
            StmtKind::While(cond, block) => {
                let cond = self.scalar(b, cond, Some(DType::Bool))?;
                self.bool(&cond, stmt.span)?;
                let facts = b.env.facts.clone();
                b.assume_condition(&cond, true);
                let inner = self.prim_block(b, block);
                b.env.facts = facts;
                out.push(Stmt::While(cond, inner?));
            }
            StmtKind::Expr(Expr { kind: ExprKind::If(cond, then, otherwise), .. })
                if b.decided(cond).is_some() =>
            {
                let taken = if b.decided(cond) == Some(true) { Some(then) } else { otherwise.as_ref() };
                if let Some(block) = taken {
                    out.extend(self.prim_block(b, block)?);
                }
            }
            StmtKind::Expr(Expr { kind: ExprKind::If(cond, then, otherwise), span }) => {
                let cond = self.scalar(b, cond, Some(DType::Bool))?;
                self.bool(&cond, *span)?;
                let facts = b.env.facts.clone();
                b.assume_condition(&cond, true);
                let then = self.prim_block(b, then);
                b.env.facts = facts.clone();
                b.assume_condition(&cond, false);
                let otherwise = match otherwise {
                    Some(block) => self.prim_block(b, block),
                    None => Some(vec![]),
                };
                b.env.facts = facts;
                out.push(Stmt::If(cond, then?, otherwise?));
            }
            StmtKind::Expr(Expr { kind: ExprKind::Error, .. }) => return None,
            StmtKind::Expr(e) => {
                let d = Diagnostic::error("E0405", e.span, "an expression alone does nothing in a primitive");
                return self.fail(d.help("write its value to an output: `y[i] = ..`"));
            }
            StmtKind::Dim(name, ..) => {
                return self.fail(Diagnostic::error("E0405", name.span, "a primitive declares no dims"));
            }
            StmtKind::Assert(e, _) => {
                return self.fail(Diagnostic::error("E0405", e.span, "a primitive does not assert"));
            }
        }
        Some(())
    }

    /// `var buf: f32[16] = 1.0`: a local buffer, each element of which begins as the value.
    fn filled(
        &mut self,
        b: &mut Body,
        name: Ident,
        ty: &ast::TypeExpr,
        e: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Maybe<()> {
        let env = b.env.clone();
        let ty = self.tensor_type(&env, ty);
        let value = self.scalar(b, e, ty.as_ref().map(|t| t.dtype));
        let (Some(ty), Some(value)) = (ty, value) else {
            b.define(name.name, Local::Broken);
            return None;
        };
        let dtype = ty.dtype;
        let id = b.buffer(name.name, ty, true);
        if value.dtype != dtype {
            return self.differ(e.span, dtype, value.dtype);
        }
        // It is computed once.
        let first = b.variable(Sym::new(&format!("{}_first", name.name)), dtype);
        out.extend([Stmt::Alloc(id), Stmt::Set(first, value)]);
        let value = b.var(first);
        out.push(b.fill(id, value, e.span));
        Some(())
    }

    fn annotation(&mut self, b: &mut Body, ty: Option<&ast::TypeExpr>, e: &Expr) -> Maybe<Scalar> {
        let want = match ty {
            Some(ty) => {
                let env = b.env.clone();
                let ty = self.tensor_type(&env, ty)?;
                if !ty.shape.is_empty() {
                    let d = Diagnostic::error("E0405", e.span, "a `let` of a primitive is a scalar");
                    return self.fail(d.help("a local buffer is a `var`: `var t: f32[16] = 0.0`"));
                }
                Some(ty.dtype)
            }
            None => None,
        };
        let value = self.scalar(b, e, want)?;
        match want {
            Some(d) if d != value.dtype => self.differ(e.span, d, value.dtype),
            _ => Some(value),
        }
    }

    fn differ<T>(&mut self, span: Span, want: DType, got: DType) -> Maybe<T> {
        let d = Diagnostic::error("E0303", span, format!("`{want}` is needed, and this is `{got}`"));
        self.fail(d.help(format!("convert it: `{want}(..)`")))
    }

    fn bool(&mut self, s: &Scalar, span: Span) -> Maybe<()> {
        if s.dtype == DType::Bool { Some(()) } else { self.differ(span, DType::Bool, s.dtype) }
    }

    /// An i64 expression; other integer types are widened.
    fn integer(&mut self, b: &mut Body, e: &Expr) -> Maybe<Scalar> {
        let s = self.scalar(b, e, Some(DType::I64))?;
        if s.dtype == DType::I64 {
            Some(s)
        } else if s.dtype.is_int() {
            Some(Scalar { kind: ScalarKind::Cast(Box::new(s)), dtype: DType::I64 })
        } else {
            self.differ(e.span, DType::I64, s.dtype)
        }
    }

    fn prim_assign(
        &mut self,
        b: &mut Body,
        place: &Expr,
        op: AssignOp,
        e: &Expr,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Maybe<()> {
        let combine = match op {
            AssignOp::Set => None,
            AssignOp::Combine(c) => match Combine::assignment(c.name.name()) {
                Some(k) => Some(k),
                None => {
                    return self.fail(Diagnostic::error(
                        "E0404",
                        c.span,
                        format!("`{}=` combines nothing", c.name),
                    ));
                }
            },
        };
        let (base, index): (&Expr, &[IndexArg]) = match &place.kind {
            ExprKind::Index(base, index) => (base, index),
            _ => (place, &[]),
        };
        let ExprKind::Name(name) = base.kind else {
            if let Some(found) = self.access_path(b, place) {
                let to = self.leaf(b, found?, place.span)?;
                return self.store(b, to, place, combine, e, span, out);
            }
            return self.fail(Diagnostic::error("E0404", place.span, "only buffers and `var`s are assigned"));
        };
        if index.is_empty() && b.find(name).is_none() {
            self.scalar(b, e, None);
            let said = self.diagnostics.len();
            let _ = self.unknown_scalar::<()>(b, name, place.span);
            if let Some(d) = self.diagnostics.get_mut(said).filter(|d| d.help.is_none()) {
                d.help = Some(format!(
                    "declare it: `let {name} = ..`, or `var {name} = ..` where it is assigned again"
                ));
            }
            // What reads it later says nothing more.
            b.define(name, Local::Broken);
            return None;
        }
        match b.find(name) {
            Some(Local::Var(var)) if index.is_empty() && b.mutable.contains(&b.prim.var(var).name) => {
                let dtype = b.prim.var(var).dtype;
                let mut value = self.scalar(b, e, Some(dtype))?;
                if value.dtype != dtype {
                    return self.differ(e.span, dtype, value.dtype);
                }
                if let Some(c) = combine {
                    self.combines(c, dtype, span)?;
                    value = Scalar { kind: ScalarKind::Op(c.intrinsic(), vec![b.var(var), value]), dtype };
                }
                out.push(Stmt::Set(var, value));
                Some(())
            }
            Some(Local::Buf(buf)) => {
                let index = self.indices(b, index)?;
                self.store(b, (buf, index), place, combine, e, span, out)
            }
            Some(Local::Tree(found)) => {
                let mut found = found;
                found.index.extend(index.iter().cloned());
                if let Ty::Encoded(e) = &*found.ty {
                    let text = format!("an element of `{e}` is not stored by itself", e = found.ty);
                    let d = Diagnostic::error("E0404", place.span, text);
                    let field = e.fields.first().map_or("", |f| f.0.name());
                    return self.fail(
                        d.help(format!("write the fields of its block: `{name}.block[i, b].{field} = ..`")),
                    );
                }
                let to = self.leaf(b, found, place.span)?;
                self.store(b, to, place, combine, e, span, out)
            }
            Some(Local::Broken) => None,
            Some(_) => {
                let d = Diagnostic::error("E0404", place.span, format!("`{name}` is not a `var`"));
                self.fail(d.help(format!("declare it with `var {name} = ..`")))
            }
            None => self.unknown_scalar(b, name, place.span),
        }
    }

    /// Whether values of a type can be combined so.
    fn combines(&mut self, c: Combine, dtype: DType, span: Span) -> Maybe<()> {
        if c.intrinsic().result(&[dtype, dtype]).is_ok() {
            return Some(());
        }
        self.fail(Diagnostic::error("E0303", span, format!("`{}` is not defined for {dtype}", c.token())))
    }

    /// `y[i] = e`
    #[expect(clippy::too_many_arguments, reason = "a place, how, a value")]
    fn store(
        &mut self,
        b: &mut Body,
        (buf, index): (BufId, Vec<Scalar>),
        place: &Expr,
        combine: Option<Combine>,
        e: &Expr,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Maybe<()> {
        if !b.prim.outs.contains(&buf) && !b.prim.buf(buf).local {
            let name = b.prim.buf(buf).name;
            let d = Diagnostic::error("E0404", place.span, format!("`{name}` is an input"));
            return self
                .fail(d.help("an input updated in place is an `own` parameter that is also an output"));
        }
        let dtype = b.prim.buf(buf).dtype;
        let (index, checked) = self.bounds(b, buf, index, place.span)?;
        let value = self.scalar(b, e, Some(dtype))?;
        if value.dtype != dtype {
            return self.differ(e.span, dtype, value.dtype);
        }
        if let Some(c) = combine {
            self.combines(c, dtype, span)?;
            let first = b.starts.entry(buf).or_insert(Some(c));
            if *first != Some(c) {
                *first = None;
            }
        }
        out.push(Stmt::Store { buf, index, checked, combine, value, span });
        Some(())
    }

    fn unknown_scalar<T>(&mut self, b: &Body, name: Sym, span: Span) -> Maybe<T> {
        if self.defs.is_missing(name, span) {
            return None;
        }
        let mut near: Vec<&str> = b.scopes.iter().flat_map(|s| s.keys()).map(|s| s.name()).collect();
        near.extend(b.env.dims.keys().map(|s| s.name()));
        let d = Diagnostic::error("E0201", span, format!("unknown name `{name}`"));
        let guess = ir::diag::nearest(name.name(), near).map(str::to_owned);
        self.fail(match guess {
            Some(g) => d.help(format!("did you mean `{g}`?")),
            None => d,
        })
    }
}

/// True for a type with extents: of a buffer, not of a scalar.
fn has_axes(ty: &ast::TypeExpr) -> bool {
    matches!(&ty.kind, ast::TypeKind::Named { dims: Some(dims), .. } if !dims.is_empty())
}
