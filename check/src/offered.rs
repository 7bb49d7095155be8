//! What a rule's generics may stand for in a program: what the operators of its left side are called with.
//!
//! In goes a rule, out come environments: an element type for each generic, a rank for each pack, a constant for each attribute.
//! A choice is offered only if each operator of the left side has an instance that takes the rule's own
//! parameters as that choice types them, so that a rule of the library costs nothing in a program that has not its
//! operators. What the text of the left side does not tell (a slice, a function, a type out of another) excludes nothing.

use std::collections::{BTreeSet, HashSet};

use ir::ast::{Expr, ExprKind, GenericKind, IndexArg, Mode, Param, RuleDef, Signature, TypeKind, UnaryOp};
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
pub(crate) struct Known {
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
    /// The choices for which the operators of the left side stand somewhere, each with a name: the first where there are too many.
    pub(crate) fn choices(&mut self, def: &'a RuleDef) -> Vec<(Env, String)> {
        self.know();
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
    fn know(&mut self) {
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
        let (callee, args): (Option<Def<'a>>, Vec<(Option<Sym>, &'a Expr)>) = match &e.kind {
            ExprKind::Paren(inner) | ExprKind::Field(inner, _) => return self.called(def, inner, out),
            ExprKind::Unary(op, a) => {
                let name = if *op == UnaryOp::Neg { "neg" } else { "not" };
                (self.defs.operator(Sym::new(name)), vec![(None, &**a)])
            }
            ExprKind::Binary(op, a, b) => {
                (self.defs.operator(Sym::new(op.callee())), vec![(None, &**a), (None, &**b)])
            }
            ExprKind::Call(f, args) => {
                let name = match &f.kind {
                    ExprKind::Name(n) => Some(*n),
                    ExprKind::Index(g, _) if let ExprKind::Name(n) = &g.kind => Some(*n),
                    _ => None,
                };
                let callee = name.and_then(|n| self.defs.get(n, f.span));
                (callee, args.iter().map(|a| (a.name.map(|n| n.name), &a.value)).collect())
            }
            ExprKind::Index(base, _) => return self.called(def, base, out),
            _ => return,
        };
        let before = out.len();
        args.iter().for_each(|(_, a)| self.called(def, a, out));
        let param = |e: &Expr| match &strip(e).kind {
            ExprKind::Name(n) => def.sig.params.iter().find(|p| p.name.name == *n),
            _ => None,
        };
        // What holds no value is folded, and calls nothing.
        let holds = out.len() > before || args.iter().any(|(_, a)| param(a).is_some());
        let Some(Def::Prim(prim)) = callee.filter(|_| holds) else { return };
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
        out.push(Called { sig: &prim.sig, args: named.collect(), whole, packs });
    }

    fn instances_of(&self, call: &Called<'a>) -> Vec<Instance<'_>> {
        let forms = self.defs.get(call.sig.name.name, call.sig.name.span).map(|d| self.defs.forms(d));
        let forms = forms.unwrap_or_default();
        let mut out = Vec::new();
        for (key, id) in &self.instances.prims {
            let Some(form) = forms.iter().find(|d| key.is_of(d.sig())) else { continue };
            let Some(id) = id else { continue };
            let names = form.sig().params.iter().filter(|p| p.mode == Mode::Const).map(|p| p.name.name);
            let consts = names.zip(key.consts()).collect();
            out.push(Instance { prim: self.module.prim(*id), ranks: key.ranks(), consts });
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
            let shape = || i.prim.outs.first().map_or(0, |b| i.prim.buf(*b).shape.len());
            let packs = call.packs.iter().filter_map(|p| env.packs.get(p));
            each && packs.into_iter().all(|p| i.ranks.contains(&p.len()))
                && (!spread || !call.whole || !known || largest == shape())
        };
        instances.iter().any(takes)
    }
}

fn scalars(block: &Block, out: &mut HashSet<Sym>) {
    for n in &block.nodes {
        if let Op::Scalar(op) = &n.op {
            out.insert(Sym::new(op.name()));
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
        Some(TypeKind::Named { name, args, .. }) if args.is_empty() => {
            env.dtypes.get(&name.name).copied().or_else(|| name.name.name().parse().ok())
        }
        _ => None,
    }
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
