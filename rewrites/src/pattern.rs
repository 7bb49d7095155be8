//! Pattern matching (e-matching): rules of the module as patterns, and matching them against classes.
//!
//! A rule is read from left to right, and from right to left too if it is an equation. A pattern's dims are renamed
//! apart from every function's (`?m`), its parameters stand for classes. A match is structural first: the same
//! primitive, scalar operation or constant at each place; every pair of dims that must be equal is collected on the
//! way. [`solve_dims`] then gives the pattern's dims their values and proves what is left. Matching sees through
//! nothing but the order of the operands of sums and products: a broadcast is an operator like any other.

use egg::Id;
use ir::graph::{Func, Op, Type, ValId};
use ir::loops::BufId;
use ir::source::Span;
use ir::{Intrinsic, Module, RuleId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Pred, Sym, System};

use crate::egraph::{Source, substitution};
use crate::lang::{Ctx, Graph, Head, Ir, OpKey};

/// A value of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PVal {
    Param(usize),
    /// A result of a node.
    Node(usize, usize),
}

/// An operation of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct PNode {
    pub(crate) op: Op,
    pub(crate) args: Vec<PVal>,
    pub(crate) types: Vec<Type>,
    /// Its two operands may stand in either order.
    pub(crate) commutes: bool,
    pub(crate) head: Head,
}

/// The classes of a graph by the operations in them, each list in the order of classes.
pub(crate) struct Heads {
    classes: Vec<Id>,
    by_head: FxHashMap<Head, Vec<Id>>,
}

impl Heads {
    pub(crate) fn new(graph: &Graph, classes: Vec<Id>) -> Heads {
        let mut by_head: FxHashMap<Head, Vec<Id>> = FxHashMap::default();
        for &class in &classes {
            for node in &graph[class].nodes {
                let Ir::Op(op, _) = node else { continue };
                let list = by_head.entry(Head::from_key(graph.analysis.table.key(*op))).or_default();
                if list.last() != Some(&class) {
                    list.push(class);
                }
            }
        }
        Heads { classes, by_head }
    }

    /// The classes at which a value of a pattern's left side may stand.
    pub(crate) fn classes(&self, pattern: &Pattern, root: PVal) -> &[Id] {
        let side = &pattern.lhs;
        match root {
            _ if !side.nodes.iter().all(|n| self.by_head.contains_key(&n.head)) => &[],
            PVal::Node(node, _) if side.nodes[node].types.len() == 1 => &self.by_head[&side.nodes[node].head],
            // Of several results, each is a class of its own.
            PVal::Node(..) | PVal::Param(_) => &self.classes,
        }
    }
}

/// One side of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) nodes: Vec<PNode>,
    /// What it gives: one value, or several that stand beside one another.
    pub(crate) roots: Vec<PVal>,
}

/// A rule in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) name: Sym,
    /// What its rule is called together with others, and where that is defined.
    pub(crate) family: Sym,
    pub(crate) rule: Span,
    pub(crate) reverse: bool,
    pub(crate) lhs: Side,
    pub(crate) rhs: Side,
    pub(crate) dims: Vec<Sym>,
    pub(crate) params: Vec<Type>,
    pub(crate) constant: Vec<bool>,
    /// What must be proved: `when`, `where`, extents that are not negative.
    pub(crate) when: Vec<Pred>,
    /// What it loses, if it loses something.
    pub(crate) tolerance: Option<f64>,
    /// Why it may not fire in the function at hand, wherever it matches.
    pub(crate) withheld: Option<String>,
}

/// A partial match.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Match {
    pub(crate) params: Vec<Option<Id>>,
    nodes: Vec<Option<Id>>,
    /// Dims that must be equal: the pattern's, the program's.
    equations: Vec<(Expr, Expr)>,
}

/// The patterns of a module's rules, and why some rules cannot be used.
pub(crate) fn compile(source: &Source<'_>, forbid: &dyn Fn(&str) -> bool) -> (Vec<Pattern>, Vec<String>) {
    let (mut patterns, mut notes) = (Vec::new(), Vec::new());
    for (i, rule) in source.module.rules.iter().enumerate() {
        if forbid(rule.name.name()) {
            notes.push(format!("rule {}: forbidden", rule.name));
            continue;
        }
        // What a library function means is an equation: where the library is missing, it is read backwards.
        let meaning = source.module.externs.iter().any(|e| e.meaning == Some(RuleId(i as u32)));
        for reverse in [false, true] {
            if reverse && !rule.both_ways && !meaning {
                continue;
            }
            match direction(source, i, reverse) {
                Ok(p) => patterns.push(p),
                Err(why) if reverse && !rule.both_ways => drop(why),
                Err(why) => {
                    let way = if reverse { ", right to left" } else { "" };
                    notes.push(format!("rule {}{way}: {why}", rule.name));
                }
            }
        }
    }
    (patterns, notes)
}

fn direction(source: &Source<'_>, rule: usize, reverse: bool) -> Result<Pattern, String> {
    let rule = &source.module.rules[rule];
    let apart: Vec<Expr> = rule.lhs.dims.iter().map(|d| Expr::sym(Sym::new(&format!("?{d}")))).collect();
    let (from, to) = if reverse { (&rule.rhs, &rule.lhs) } else { (&rule.lhs, &rule.rhs) };
    let lhs = side(source, from, &apart)?;
    let rhs = side(source, to, &apart)?;
    if lhs.roots.iter().any(|r| matches!(r, PVal::Param(_))) {
        return Err("its pattern is a parameter, which would match everything".into());
    }
    let map = substitution(&rule.lhs.dims, &apart);
    let given = rule.when.iter().chain(rule.lhs.facts.iter());
    let mut when: Vec<Pred> = Vec::new();
    for p in given.map(|p| p.subst(&map)) {
        if !when.contains(&p) {
            when.push(p);
        }
    }
    let params: Vec<Type> = rule.lhs.body.params.iter().map(|&p| rule.lhs.ty(p).subst(&map)).collect();
    let mut bound = FxHashSet::default();
    let mut seen = lhs.roots.clone();
    lhs.nodes.iter().for_each(|n| seen.extend(&n.args));
    bound.extend(seen.iter().filter_map(|v| if let PVal::Param(i) = v { Some(*i) } else { None }));
    let mut needed = rhs.roots.clone();
    rhs.nodes.iter().for_each(|n| needed.extend(&n.args));
    if needed.iter().any(|v| matches!(v, PVal::Param(i) if !bound.contains(i))) {
        return Err("the other side uses a parameter that its pattern does not bind".into());
    }
    Ok(Pattern {
        name: rule.name,
        family: rule.family,
        rule: rule.span,
        reverse,
        lhs,
        rhs,
        dims: apart.iter().filter_map(Expr::as_sym).collect(),
        params,
        constant: rule.constant.clone(),
        when,
        tolerance: rule.tolerance,
        withheld: None,
    })
}

fn side(source: &Source<'_>, func: &Func, dims: &[Expr]) -> Result<Side, String> {
    let map = substitution(&func.dims, dims);
    let mut vals: FxHashMap<ValId, PVal> = FxHashMap::default();
    vals.extend(func.body.params.iter().enumerate().map(|(i, &p)| (p, PVal::Param(i))));
    let mut nodes = Vec::new();
    for node in &func.body.nodes {
        let all = |args: &[Expr]| args.iter().map(|e| e.subst(&map)).collect::<Vec<_>>();
        let op = match &node.op {
            Op::Prim(id, args) => {
                let p = source.profile(*id);
                if p.fallible || p.in_place {
                    return Err(format!(
                        "{} may end the run or writes in place",
                        source.module.prim(*id).name
                    ));
                }
                let canon = &source.canon[id.0 as usize];
                Op::Prim(canon.id, all(&canon.dims(args)))
            }
            Op::Extern(id, args) => {
                let ext = source.module.extern_(*id);
                if ext.outs.iter().any(|o| ext.params.contains(o)) {
                    return Err(format!("{} writes in place", ext.name));
                }
                Op::Extern(*id, all(args))
            }
            Op::Dim(e) => Op::Dim(e.subst(&map)),
            Op::Const(_) | Op::Scalar(_) | Op::Cast => node.op.clone(),
            Op::Call(..) | Op::If(..) | Op::While { .. } | Op::Switch(_) | Op::BindDim(..) => {
                return Err("a side with calls of functions or control flow is not matched".into());
            }
            Op::Check(..) | Op::Assert(_) => {
                return Err("a side holds a check that its condition does not prove".into());
            }
        };
        for (i, &r) in node.results.iter().enumerate() {
            vals.insert(r, PVal::Node(nodes.len(), i));
        }
        let commutes = if let Op::Prim(id, _) = &op {
            crate::fusible::commutes(source.module.prim(*id))
        } else {
            matches!(op, Op::Scalar(Intrinsic::Add | Intrinsic::Mul))
        };
        let args = node.args.iter().map(|a| vals[a]).collect();
        let types: Vec<Type> = node.results.iter().map(|&r| func.ty(r).subst(&map)).collect();
        let head = match (&op, types.first()) {
            (Op::Prim(id, _), _) => Head::Prim(*id),
            (Op::Extern(id, _), _) => Head::Extern(*id),
            (Op::Scalar(i), _) => Head::Scalar(*i),
            (Op::Cast, Some(ty)) => Head::Cast(ty.dtype),
            (Op::Const(_), _) => Head::Const,
            (Op::Dim(_), _) => Head::Dim,
            _ => return Err("a side holds what has no result".into()),
        };
        nodes.push(PNode { op, args, types, commutes, head });
    }
    Ok(Side { nodes, roots: func.body.results.iter().map(|r| vals[r]).collect() })
}

impl Match {
    pub(crate) fn empty(pattern: &Pattern) -> Match {
        Match {
            params: vec![None; pattern.params.len()],
            nodes: vec![None; pattern.lhs.nodes.len()],
            equations: Vec::new(),
        }
    }
}

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Matches of a value.
    pub(crate) matches: usize,
    /// Operations that are still compared with those of the pattern, which takes long where many classes hold many.
    pub(crate) steps: usize,
}

/// Every structural match of a pattern of one value at a class, as far as is wanted.
pub(crate) fn search(graph: &Graph, pattern: &Pattern, class: Id, reach: &mut Reach) -> Vec<Match> {
    let [root] = pattern.lhs.roots[..] else { return Vec::new() };
    typed(graph, pattern, at(graph, &pattern.lhs, root, class, Match::empty(pattern), reach))
}

/// Those of some whole matches whose parameters have the element types and ranks that the pattern says.
pub(crate) fn typed(graph: &Graph, pattern: &Pattern, mut found: Vec<Match>) -> Vec<Match> {
    for m in &mut found {
        for (p, class) in pattern.params.iter().zip(&m.params) {
            if let Some(class) = class
                && let [ty] = &graph[*class].data.types[..]
            {
                m.equations.extend(p.shape.iter().cloned().zip(ty.shape.iter().cloned()));
            }
        }
    }
    found.retain(|m| {
        pattern.params.iter().zip(&m.params).all(|(p, class)| {
            class.is_none_or(|c| match &graph[c].data.types[..] {
                [ty] => ty.dtype == p.dtype && ty.shape.len() == p.shape.len(),
                _ => false,
            })
        })
    });
    found
}

/// Every way to go on with a match so that a value of a side stands for a class.
pub(crate) fn at(
    graph: &Graph,
    side: &Side,
    val: PVal,
    class: Id,
    mut m: Match,
    reach: &mut Reach,
) -> Vec<Match> {
    let (class, limit) = (graph.find(class), reach.matches);
    let (node, result) = match val {
        PVal::Param(i) => {
            return match m.params[i] {
                Some(bound) if bound != class => Vec::new(),
                _ => {
                    m.params[i] = Some(class);
                    vec![m]
                }
            };
        }
        PVal::Node(node, result) => (node, result),
    };
    let pattern = &side.nodes[node];
    let mut tuples = vec![class];
    if pattern.types.len() > 1 {
        let projected = graph[class].nodes.iter().filter_map(|n| match n {
            Ir::Proj(i, [t]) if *i as usize == result => Some(graph.find(*t)),
            Ir::Leaf(_) | Ir::Op(..) | Ir::Proj(..) | Ir::Impl(..) => None,
        });
        tuples = projected.collect();
    }
    let mut found = Vec::new();
    for tuple in tuples {
        match m.nodes[node] {
            Some(bound) if bound != tuple => continue,
            Some(_) => {
                found.push(m.clone());
                continue;
            }
            None => {}
        }
        for enode in &graph[tuple].nodes {
            let Ir::Op(op, kids) = enode else { continue };
            let Some(left) = reach.steps.checked_sub(1) else { return found };
            reach.steps = left;
            let table = &graph.analysis.table;
            let mut m = m.clone();
            if kids.len() != pattern.args.len()
                || !same_op(&table.consts, pattern, table.key(*op), table.results(*op), &mut m.equations)
            {
                continue;
            }
            m.nodes[node] = Some(tuple);
            let mut partial = Vec::new();
            for swapped in [false, true] {
                if swapped && !(pattern.commutes && kids.len() == 2) {
                    break;
                }
                let mut of_order = vec![m.clone()];
                for (k, arg) in pattern.args.iter().enumerate() {
                    let kid = kids[if swapped { 1 - k } else { k }];
                    of_order = of_order
                        .into_iter()
                        .flat_map(|m| at(graph, side, *arg, kid, m, reach))
                        .take(limit)
                        .collect();
                }
                partial.extend(of_order);
            }
            found.extend(partial);
            if found.len() >= limit {
                found.truncate(limit);
                return found;
            }
        }
    }
    found
}

fn same_op(
    consts: &[tensor::Tensor],
    pattern: &PNode,
    key: &OpKey,
    results: &[Type],
    equations: &mut Vec<(Expr, Expr)>,
) -> bool {
    let mut dims = |p: &[Expr], c: &[Expr]| {
        equations.extend(p.iter().cloned().zip(c.iter().cloned()));
        p.len() == c.len()
    };
    match (&pattern.op, key) {
        (Op::Prim(a, p), OpKey::Prim(b, c)) => a == b && dims(p, c),
        (Op::Extern(a, p), OpKey::Extern(b, c)) => a == b && dims(p, c),
        (Op::Dim(p), OpKey::Dim(c)) => dims(std::slice::from_ref(p), std::slice::from_ref(c)),
        (Op::Scalar(a), OpKey::Scalar(b)) => a == b,
        (Op::Cast, OpKey::Cast(d)) => pattern.types.first().is_some_and(|t| t.dtype == *d),
        (Op::Const(t), OpKey::Const(i)) => {
            let c = &consts[*i];
            let ty = results.first().map(|t| t.dtype);
            ty == Some(t.dtype()) && c.shape() == t.shape() && c.bytes() == t.bytes()
        }
        _ => false,
    }
}

/// The values of a pattern's dims in a match, or why there are none.
pub(crate) fn solve_dims(ctx: &Ctx, dims: &[Sym], m: &Match) -> Result<FxHashMap<Sym, Expr>, String> {
    let system = System::solve(dims.iter().copied(), m.equations.iter().cloned());
    if let Some(d) = system.unknown.first() {
        return Err(format!("nothing says what {} is", d.name().trim_start_matches('?')));
    }
    if let Some((p, c)) = system.equations.iter().find(|(p, c)| !ctx.equal(p, c)) {
        return Err(format!("{p} == {c} is not proved"));
    }
    let mut requires = system.found.iter().flat_map(|f| &f.requires);
    if let Some(p) = requires.find(|p| ctx.prove(p) != shape::Verdict::Proved) {
        return Err(format!("{p} is not proved"));
    }
    Ok(system.found.into_iter().map(|f| (f.sym, f.value)).collect())
}

/// What a library function computes, by the rule that is its meaning: the profile of the rule's left side at
/// the dims of a call.
pub(crate) fn meaning(
    profile: &dyn Fn(ir::PrimId) -> crate::classify::Profile,
    module: &Module,
    id: ir::ExternId,
    dims: &[Expr],
) -> Option<crate::classify::Profile> {
    let rule = module.rule(module.extern_(id).meaning?);
    let call = rule.rhs.body.nodes.iter().find_map(|n| {
        let Op::Extern(e, args) = &n.op else { return None };
        (*e == id).then_some(args)
    })?;
    let mut bound: FxHashMap<Sym, Expr> = FxHashMap::default();
    bound.extend(call.iter().zip(dims).filter_map(|(a, d)| Some((a.as_sym()?, d.clone()))));
    let mut total: Option<crate::classify::Profile> = None;
    for node in &rule.lhs.body.nodes {
        let Op::Prim(p, args) = &node.op else { continue };
        let prim = module.prim(*p);
        let args: Vec<Expr> = args.iter().map(|a| a.subst(&|s| bound.get(&s).cloned())).collect();
        let part = profile(*p).subst(&substitution(&prim.dims, &args));
        total = Some(match total {
            None => part,
            Some(sum) => crate::classify::Profile {
                flops: &sum.flops + &part.flops,
                slow: &sum.slow + &part.slow,
                contraction: sum.contraction.clone().or(part.contraction),
                ..sum
            },
        });
    }
    // What it moves is its own operands and results, whatever the definition reads in between.
    let e = module.extern_(id);
    let map = substitution(&e.dims, dims);
    let size = |b: &BufId| {
        let buf = &e.bufs[b.0 as usize];
        crate::classify::bytes_of(&Type { dtype: buf.dtype, shape: buf.shape.clone() }).subst(&map)
    };
    total.map(|t| crate::classify::Profile {
        read_bytes: e.params.iter().map(size).sum(),
        write_bytes: e.outs.iter().map(size).sum(),
        ..t
    })
}
