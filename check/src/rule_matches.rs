//! Matches of a rule, what its generics may stand for in a program: what the operators of its left side are called
//! with.
//!
//! In goes a rule, out come environments: an element type for each generic, a rank for each pack, a constant for each
//! attribute. A choice is offered only if each operator of the left side has an instance that takes the rule's own
//! parameters as that choice types them, so that a rule of the library costs nothing in a program that has not its
//! operators, transpositions, casts and slices among them. What the text of the left side does not tell (a function, a
//! type out of another) excludes nothing.

use std::collections::{BTreeSet, HashSet};

use ir::ast::{
    Expr, ExprKind, Generic, GenericKind, IndexArg, Mode, Param, RuleDef, Signature, TypeKind, UnaryOp,
};
use ir::graph::{Block, Op};
use ir::loops::Prim;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::Checker;
use crate::defs::Def;
use crate::env::{Const, Env};

/// The most choices of types and ranks of a rule.
const MOST: usize = 64;
/// The most choices with attributes.
const MOST_ATTRIBUTES: usize = 1024;

/// A call of an operator on the left side of a rule.
struct Called<'a> {
    sig: &'a Signature,
    /// The arguments that are parameters of the rule, with the operator's own name for them.
    args: Vec<(Sym, &'a Param)>,
    /// No argument is anything but a parameter or a literal.
    whole: bool,
    /// Packs of the rule that a list of dims gives it: `reshape[..t]`.
    packs: Vec<Sym>,
    /// The element type that a cast gives.
    to: Option<Sym>,
}

/// An instance of an operator.
struct Instance<'m> {
    prim: &'m Prim,
    ranks: &'m [usize],
    /// By the name of the attribute.
    consts: Vec<(Sym, &'m Const)>,
}

/// What is known of a program's operators: it grows with the module.
#[derive(Default)]
pub(crate) struct UsedOperators {
    prims: usize,
    funcs: usize,
    names: HashSet<Sym>,
    /// Operations on scalars stand in a function without an instance.
    scalars: HashSet<Sym>,
    /// The element types of values.
    dtypes: HashSet<DType>,
    /// The largest rank of a value.
    rank: usize,
}

impl<'a> Checker<'a> {
    /// The choices for which the operators of the left side stand somewhere, each with a name: the first where there
    /// are too many.
    pub(crate) fn choices(&mut self, def: &'a RuleDef) -> Vec<(Env, String)> {
        self.collect_operators();
        let mut calls = Vec::new();
        self.called(def, &def.lhs, &mut calls);
        let known = &self.known;
        let stands = |c: &Called<'_>| {
            known.names.contains(&c.sig.name.name) || known.scalars.contains(&c.sig.name.name)
        };
        if !calls.iter().all(stands) {
            return Vec::new();
        }
        let instances: Vec<Vec<Instance<'_>>> = calls.iter().map(|c| self.instances_of(c)).collect();
        let fits = |env: &Env| calls.iter().zip(&instances).all(|(c, all)| self.fits(c, all, env));
        let mut out = vec![(self.env(), String::new())];
        for g in &def.sig.generics {
            let mut next = Vec::new();
            for (env, suffix) in &out {
                match g.kind {
                    GenericKind::Dim => next.push((env.clone(), suffix.clone())),
                    GenericKind::Pack => {
                        for rank in 0..=known.rank {
                            let mut env = env.clone();
                            env.packs.insert(g.name.name, vec![Dim::int(1); rank]);
                            next.push((env, format!("{suffix}_{rank}")));
                        }
                    }
                    GenericKind::DType => {
                        let fits = |d: &DType| known.dtypes.contains(d) && crate::bind::allows(g, *d);
                        for d in DType::all().filter(fits) {
                            let mut env = env.clone();
                            env.dtypes.insert(g.name.name, d);
                            next.push((env, format!("{suffix}_{d}")));
                        }
                    }
                }
            }
            next.retain(|(env, _)| fits(env));
            next.truncate(MOST);
            out = next;
        }
        // A list of one is as good as what is in it.
        let each = |c: &Const| match c {
            Const::Ints(list) => list.iter().map(|i| Const::Int(*i)).chain([c.clone()]).collect(),
            c => vec![c.clone()],
        };
        let given = instances.iter().flatten().flat_map(|i| &i.consts).map(|(_, c)| *c);
        let given: BTreeSet<Const> = given.flat_map(each).collect();
        for p in attributes(&def.sig) {
            let values = fitting(p, given.iter());
            let mut next = Vec::new();
            for (env, suffix) in &out {
                for (k, c) in values.iter().enumerate() {
                    let mut env = env.clone();
                    env.consts.insert(p.name.name, c.clone());
                    let shown = match c {
                        Const::Int(i) if *i >= 0 => i.to_string(),
                        Const::Int(i) => format!("m{}", i.unsigned_abs()),
                        Const::Bool(b) => b.to_string(),
                        Const::Ints(_) | Const::Float(_) | Const::Text(_) => format!("v{k}"),
                    };
                    next.push((env, format!("{suffix}_{shown}")));
                }
            }
            next.retain(|(env, _)| fits(env));
            next.truncate(MOST_ATTRIBUTES);
            out = next;
        }
        out
    }

    /// Learns the operators of what the module has had since.
    fn collect_operators(&mut self) {
        let known = &mut self.known;
        known.names.extend(self.module.prims.iter().skip(known.prims).map(|p| p.def));
        known.prims = self.module.prims.len();
        for f in self.module.funcs.iter().skip(known.funcs) {
            scalars(&f.body, &mut known.scalars);
            known.dtypes.extend(f.vals.iter().map(|v| v.ty.dtype));
            known.rank = f.vals.iter().map(|v| v.ty.shape.len()).fold(known.rank, usize::max);
        }
        known.funcs = self.module.funcs.len();
    }

    /// The operators of the library and the program that an expression over a rule's parameters calls.
    fn called(&self, def: &'a RuleDef, e: &'a Expr, out: &mut Vec<Called<'a>>) {
        let operator = |name: &str| self.defs.operator(Sym::new(name));
        let mut to = None;
        let (callee, args): (Option<Def<'a>>, Vec<(Option<Sym>, &'a Expr)>) = match &e.kind {
            ExprKind::Paren(inner) => return self.called(def, inner, out),
            ExprKind::Tuple(parts) => return parts.iter().for_each(|p| self.called(def, p, out)),
            ExprKind::Field(inner, name) => {
                let callee = if name.name.name() == "T" { operator("transpose") } else { None };
                (callee, vec![(None, &**inner)])
            }
            ExprKind::Unary(op, a) => {
                (operator(if *op == UnaryOp::Neg { "neg" } else { "not" }), vec![(None, &**a)])
            }
            ExprKind::Binary(op, a, b) => (operator(op.callee()), vec![(None, &**a), (None, &**b)]),
            ExprKind::Call(f, args) => {
                let name = match &f.kind {
                    ExprKind::Name(n) => Some(*n),
                    ExprKind::Index(g, _) if let ExprKind::Name(n) = &g.kind => Some(*n),
                    _ => None,
                };
                to = name.filter(|n| is_type(def, *n));
                let callee = match to {
                    Some(_) => operator("cast"),
                    None => name.and_then(|n| self.defs.get(n, f.span)),
                };
                (callee, args.iter().map(|a| (a.name.map(|n| n.name), &a.value)).collect())
            }
            ExprKind::Index(base, parts) => {
                let cuts = parts.iter().any(is_run);
                (operator("slice").filter(|_| cuts), vec![(None, &**base)])
            }
            _ => return,
        };
        args.iter().for_each(|(_, a)| self.called(def, a, out));
        let param = |e: &Expr| match &strip(e).kind {
            ExprKind::Name(n) => def.sig.params.iter().find(|p| p.name.name == *n),
            _ => None,
        };
        // What holds no value is folded, and calls nothing: `axis - 1` of an attribute.
        let value = args.iter().any(|(_, a)| holds_value(def, a));
        let Some(Def::Prim(prim)) = callee.filter(|_| value) else { return };
        let formals = &prim.sig.params;
        let named = args.iter().enumerate().filter_map(|(i, (name, a))| {
            Some((name.or_else(|| formals.get(i).map(|p| p.name.name))?, param(a)?))
        });
        let plain = |a: &Expr| param(a).is_some() || is_literal(a);
        let whole = args.iter().all(|(_, a)| plain(a));
        let spread = |d: &IndexArg| match d {
            IndexArg::Spread(Expr { kind: ExprKind::Name(n), .. }) => Some(*n),
            _ => None,
        };
        let packs = match &e.kind {
            ExprKind::Call(f, _) if let ExprKind::Index(_, dims) = &f.kind => {
                dims.iter().filter_map(spread).filter(|_| dims.len() == 1).collect()
            }
            _ => Vec::new(),
        };
        out.push(Called { sig: &prim.sig, args: named.collect(), whole, packs, to });
    }

    fn instances_of(&self, call: &Called<'a>) -> Vec<Instance<'_>> {
        let forms = self.defs.get(call.sig.name.name, call.sig.name.span).map(|d| self.defs.forms(d));
        let mut out = Vec::new();
        for form in forms.unwrap_or_default() {
            let sig = form.sig();
            let names = || sig.params.iter().filter(|p| p.mode == Mode::Const).map(|p| p.name.name);
            for (key, id) in self.instances.prims_of(sig) {
                let consts = names().zip(key.consts()).collect();
                out.push(Instance { prim: self.module.prim(*id), ranks: key.ranks(), consts });
            }
        }
        out
    }

    /// True if some instance takes the arguments, as far as they are known.
    fn fits(&self, call: &Called<'a>, instances: &[Instance<'_>], env: &Env) -> bool {
        let mut ranks = call.args.iter().filter(|(_, p)| !is_attribute(p)).map(|(_, p)| rank(p, env));
        let scalar = self.known.scalars.contains(&call.sig.name.name);
        if scalar && ranks.all(|r| r.is_none_or(|r| r == 0)) {
            return true;
        }
        let takes = |i: &Instance<'_>| {
            let (mut largest, mut known) = (0, true);
            let mut spread = false;
            let each = call.args.iter().all(|(formal, p)| {
                if is_attribute(p) {
                    let Some(want) = env.consts.get(&p.name.name) else { return true };
                    let have = i.consts.iter().find(|(n, _)| n == formal);
                    return have.is_none_or(|(_, c)| is_like(want, c));
                }
                let Some(buf) = i.prim.params.iter().map(|b| i.prim.buf(*b)).find(|b| b.name == *formal)
                else {
                    return true;
                };
                let broadcasts = call.sig.params.iter().any(|f| f.name.name == *formal && broadcasts(f));
                spread |= broadcasts;
                let rank = rank(p, env);
                known &= rank.is_some();
                largest = largest.max(rank.unwrap_or(0));
                dtype(p, env).is_none_or(|d| d == buf.dtype)
                    && rank.is_none_or(|r| r == buf.shape.len() || broadcasts && r < buf.shape.len())
            });
            let gives = call.to.and_then(|t| dtype_named(t, env));
            let cast = gives.is_none_or(|d| i.prim.outs.iter().all(|b| i.prim.buf(*b).dtype == d));
            let shape = || i.prim.outs.first().map_or(0, |b| i.prim.buf(*b).shape.len());
            let packs = call.packs.iter().filter_map(|p| env.packs.get(p));
            each && cast
                && packs.into_iter().all(|p| i.ranks.contains(&p.len()))
                && (!spread || !call.whole || !known || largest == shape())
        };
        instances.iter().any(takes)
    }
}

fn scalars(block: &Block, out: &mut HashSet<Sym>) {
    for n in &block.nodes {
        match &n.op {
            Op::Scalar(op) => drop(out.insert(Sym::new(op.name()))),
            Op::Cast => drop(out.insert(Sym::new("cast"))),
            _ => {}
        }
        n.op.blocks().into_iter().for_each(|b| scalars(b, out));
    }
}

fn strip(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Paren(inner) => strip(inner),
        _ => e,
    }
}

/// True if a parameter that is no attribute stands in an expression.
fn holds_value(def: &RuleDef, e: &Expr) -> bool {
    let any = |parts: &[Expr]| parts.iter().any(|p| holds_value(def, p));
    match &e.kind {
        ExprKind::Name(n) => def.sig.params.iter().any(|p| p.name.name == *n && !is_attribute(p)),
        ExprKind::Paren(a) | ExprKind::Unary(_, a) | ExprKind::Field(a, _) | ExprKind::Index(a, _) => {
            holds_value(def, a)
        }
        ExprKind::Binary(_, a, b) => holds_value(def, a) || holds_value(def, b),
        ExprKind::Call(f, args) => holds_value(def, f) || args.iter().any(|a| holds_value(def, &a.value)),
        ExprKind::Tuple(parts) | ExprKind::Array(parts) => any(parts),
        _ => false,
    }
}

fn is_literal(e: &Expr) -> bool {
    match &strip(e).kind {
        ExprKind::Int(_) | ExprKind::Float(..) | ExprKind::Bool(_) => true,
        ExprKind::Unary(_, a) => is_literal(a),
        _ => false,
    }
}

/// True if an attribute that an operator has is the one that a rule speaks of, or a list of it alone.
fn is_like(want: &Const, have: &Const) -> bool {
    match (want, have) {
        (Const::Int(i), Const::Ints(list)) | (Const::Ints(list), Const::Int(i)) => list[..] == [*i],
        _ => want == have,
    }
}

/// The element type of a parameter in a choice, if it is already made.
fn dtype(p: &Param, env: &Env) -> Option<DType> {
    match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { name, args, .. }) if args.is_empty() => dtype_named(name.name, env),
        _ => None,
    }
}

/// The element type that a name stands for in a choice, if it is already made.
fn dtype_named(name: Sym, env: &Env) -> Option<DType> {
    env.dtypes.get(&name).copied().or_else(|| name.name().parse().ok())
}

/// True if a name, called, converts: `f32(x)`, `T(x)`.
fn is_type(def: &RuleDef, name: Sym) -> bool {
    let generic = |g: &Generic| g.kind == GenericKind::DType && g.name.name == name;
    name.name().parse::<DType>().is_ok() || def.sig.generics.iter().any(generic)
}

/// `x[a..b]`, where `x[..]` is all of it and `x[a..b by s]` an operator of its own.
fn is_run(part: &IndexArg) -> bool {
    matches!(part, IndexArg::Range(r) if r.step.is_none() && (r.lo.is_some() || r.hi.is_some()))
}

/// The rank of a parameter in a choice, if it is already made.
fn rank(p: &Param, env: &Env) -> Option<usize> {
    let Some(TypeKind::Named { dims, .. }) = p.ty.as_ref().map(|t| &t.kind) else { return None };
    let one = |d: &IndexArg| match d {
        IndexArg::Expr(_) => Some(1),
        IndexArg::Spread(Expr { kind: ExprKind::Name(n), .. }) => env.packs.get(n).map(Vec::len),
        IndexArg::Spread(_) | IndexArg::Broadcast(_) | IndexArg::Range(_) | IndexArg::Full(_) => None,
    };
    dims.iter().flatten().map(one).sum()
}

fn broadcasts(p: &Param) -> bool {
    let dims = match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { dims, .. }) => dims.iter().flatten(),
        _ => return false,
    };
    dims.into_iter().any(|d| matches!(d, IndexArg::Broadcast(_)))
}

/// True for `const axis: int`, where `const w: f32[k, n]` is a weight.
fn is_attribute(p: &Param) -> bool {
    let kind = match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { name, dims: None, .. }) => name.name.name(),
        _ => return false,
    };
    p.mode == Mode::Const && matches!(kind, "int" | "ints" | "bool" | "float" | "text")
}

pub(crate) fn attributes(sig: &Signature) -> Vec<&Param> {
    sig.params.iter().filter(|p| is_attribute(p)).collect()
}

/// The parameters that stand for values.
pub(crate) fn values(sig: &Signature) -> impl Iterator<Item = &Param> {
    sig.params.iter().filter(|p| !is_attribute(p))
}

pub(crate) fn attributes_known(sig: &Signature, env: &Env) -> bool {
    attributes(sig).iter().all(|p| env.consts.contains_key(&p.name.name))
}

/// Those of some constants that an attribute may be, each once, in order.
pub(crate) fn fitting<'c>(p: &Param, given: impl Iterator<Item = &'c Const>) -> Vec<Const> {
    let declared = match p.ty.as_ref().map(|t| &t.kind) {
        Some(TypeKind::Named { name, .. }) => name.name.name(),
        _ => "",
    };
    let mut out: Vec<Const> = Vec::new();
    for c in given.filter_map(|c| c.clone().fit(declared)) {
        if !out.contains(&c) {
            out.push(c);
        }
    }
    out
}
