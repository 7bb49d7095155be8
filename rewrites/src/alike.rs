//! Primitives that are the same loops under other names: a program's own product of matrices is what the library calls `matmul`,
//! so that rules about the one see the other.
//!
//! Of products only: elsewhere two definitions stay what their authors called them, as nothing is won.

use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::{Combine, Intrinsic, Literal, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};
use tensor::DType;

use crate::classify::{Profile, as_var};

/// The primitive that stands for one, and which of the dims of the one each of its own is.
#[derive(Clone, Debug)]
pub(crate) struct Canon {
    pub(crate) id: PrimId,
    dims: Vec<usize>,
}

impl Canon {
    /// The dims of a call of the one, as the other takes them.
    pub(crate) fn dims(&self, of: &[Expr]) -> Vec<Expr> {
        self.dims.iter().map(|&i| of[i].clone()).collect()
    }
}

/// What a primitive says, whatever its author calls its parts.
struct Form {
    text: String,
    /// Its dims, in the order in which the text names them.
    order: Vec<usize>,
    /// True if the text has a sum where the primitive adds step by step.
    by_steps: bool,
}

/// For each primitive the first that is the same, sums before what adds to an output step by step.
pub(crate) fn canon(prims: &[Prim], profiles: &[Profile]) -> Vec<Canon> {
    let forms: Vec<Form> = prims
        .iter()
        .zip(profiles)
        .map(|(p, profile)| match &profile.contraction {
            Some(_) => form(p),
            None => Form {
                text: format!("{} {:?}", p.def, (&p.dims, said(p))),
                order: (0..p.dims.len()).collect(),
                by_steps: false,
            },
        })
        .collect();
    let mut first: FxHashMap<&str, usize> = FxHashMap::default();
    let (steps, sums): (Vec<usize>, Vec<usize>) = (0..prims.len()).partition(|&i| forms[i].by_steps);
    for i in sums.into_iter().chain(steps) {
        first.entry(forms[i].text.as_str()).or_insert(i);
    }
    let each = forms.iter().map(|form| {
        let id = first[form.text.as_str()];
        // A place in the form is another dim of each of the two.
        let mut dims = vec![0; form.order.len()];
        forms[id].order.iter().zip(&form.order).for_each(|(&theirs, &own)| dims[theirs] = own);
        Canon { id: PrimId(id as u32), dims }
    });
    each.collect()
}

/// All there is to a primitive but what it is called.
fn said(p: &Prim) -> String {
    let facts: Vec<_> = p.facts.iter().collect();
    format!("{:?}", (facts, &p.params, &p.outs, &p.bufs, &p.vars, &p.body))
}

fn form(p: &Prim) -> Form {
    let place = |s: Sym| p.dims.iter().position(|d| *d == s);
    let extents = p.params.iter().flat_map(|&b| &p.buf(b).shape);
    let mut order: Vec<usize> = extents.filter_map(|e| e.as_sym().and_then(place)).collect();
    order.extend(0..p.dims.len());
    let mut met = FxHashSet::default();
    order.retain(|&i| met.insert(i));

    let mut names: FxHashMap<Sym, Expr> = FxHashMap::default();
    names.extend(order.iter().enumerate().map(|(k, &i)| (p.dims[i], Expr::sym(Sym::new(&format!("d{k}"))))));
    names.extend(p.vars.iter().enumerate().map(|(k, v)| (v.name, Expr::sym(Sym::new(&format!("v{k}"))))));
    let rename = |s: Sym| names.get(&s).cloned();
    let mut facts: Vec<String> = p.facts.iter().map(|f| format!("{:?}", f.subst(&rename))).collect();
    facts.sort_unstable();
    let bufs: Vec<_> = p
        .bufs
        .iter()
        .map(|b| (b.dtype, b.shape.iter().map(|e| e.subst(&rename)).collect::<Vec<_>>(), b.local))
        .collect();
    let sum = as_sum(p);
    let by_steps = sum.is_some();
    let mut body = sum.unwrap_or_else(|| p.body.clone());
    let mut numbers: FxHashMap<VarId, VarId> = FxHashMap::default();
    for s in &mut body {
        s.walk_mut(&mut |s| {
            match s {
                Stmt::For { var, .. } | Stmt::Set(var, _) => *var = number(&mut numbers, *var),
                Stmt::Store { span, .. } => *span = Span::default(),
                Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {}
            }
            s.scalars_mut().into_iter().for_each(|e| unnamed(e, &rename, &mut numbers));
        });
    }
    let mut vars: Vec<_> = numbers.iter().map(|(old, new)| (*new, p.var(*old).dtype)).collect();
    vars.sort_unstable_by_key(|v| v.0);
    let ends: (&[BufId], &[BufId]) = (&p.params, &p.outs);
    Form { text: format!("{:?}", (facts, ends, bufs, vars, body)), order, by_steps }
}

/// Variables are numbered as they are met.
fn number(numbers: &mut FxHashMap<VarId, VarId>, var: VarId) -> VarId {
    let next = VarId(numbers.len() as u32);
    *numbers.entry(var).or_insert(next)
}

/// A loop's variable and its bounds.
type Loop<'a> = (VarId, &'a Scalar, &'a Scalar);

/// Loops around one store, and the store.
fn nest<'a>(p: &Prim, mut body: &'a [Stmt]) -> Option<(Vec<Loop<'a>>, &'a Stmt)> {
    let mut loops = Vec::new();
    while let [Stmt::For { var, lo, hi, run: Run::Plain, body: inner, .. }] = body {
        let bounds = [p.as_dim(lo)?, p.as_dim(hi)?];
        if !bounds.iter().flat_map(Expr::syms).all(|s| p.dims.contains(&s)) {
            return None;
        }
        loops.push((*var, lo, hi));
        body = inner;
    }
    if let [store @ Stmt::Store { .. }] = body { Some((loops, store)) } else { None }
}

/// A nest that adds to each element of the output, which was zero, as one that sums: loops over what the element is named by,
/// the others inside.
fn as_sum(p: &Prim) -> Option<Vec<Stmt>> {
    let [zeros, adds] = &p.body[..] else { return None };
    let (begun, zero) = nest(p, std::slice::from_ref(zeros))?;
    let (loops, add) = nest(p, std::slice::from_ref(adds))?;
    let Stmt::Store { buf: first, index: cleared, checked: false, combine: None, value: nothing, .. } = zero
    else {
        return None;
    };
    let Stmt::Store { buf, index, checked: false, combine: Some(Combine::Add), value, span } = add else {
        return None;
    };
    let is_zero = match &nothing.kind {
        ScalarKind::Const(zero) => {
            matches!(zero, Literal::Int(0)) || matches!(zero, Literal::Float(x) if *x == 0.0)
        }
        ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } | ScalarKind::Op(..) => false,
        ScalarKind::Choose(_) | ScalarKind::Cast(_) | ScalarKind::Reduce { .. } => false,
    };
    // A sum is rounded once, what is added to an element of few bits at each step.
    let rounds = matches!(p.buf(*buf).dtype, DType::F16 | DType::Bf16);
    let named = |index: &[Scalar]| index.iter().map(as_var).collect::<Option<Vec<VarId>>>();
    let (places, cleared) = (named(index)?, named(cleared)?);
    let distinct = places.iter().collect::<FxHashSet<_>>().len() == places.len();
    // Each element that is added to is one that was cleared.
    let range = |loops: &[Loop<'_>], v: VarId| {
        loops.iter().find(|l| l.0 == v).map(|l| [p.as_dim(l.1), p.as_dim(l.2)])
    };
    let alike = |(a, b): (&VarId, &VarId)| range(&loops, *a).is_some_and(|r| Some(r) == range(&begun, *b));
    let whole =
        begun.len() == cleared.len() && cleared.iter().collect::<FxHashSet<_>>().len() == cleared.len();
    if rounds || !is_zero || first != buf || !distinct || !whole || !places.iter().zip(&cleared).all(alike) {
        return None;
    }
    let over = loops.iter().filter(|l| !places.contains(&l.0));
    let value = over.rev().fold(value.clone(), |body, &(var, lo, hi)| {
        let (lo, hi, dtype) = (Box::new(lo.clone()), Box::new(hi.clone()), body.dtype);
        let body = Box::new(body);
        Scalar {
            kind: ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body },
            dtype,
        }
    });
    let store =
        Stmt::Store { buf: *buf, index: index.clone(), checked: false, combine: None, value, span: *span };
    let nest = places.iter().rev().try_fold(store, |body, v| {
        let (lo, hi) = loops.iter().find(|l| l.0 == *v).map(|l| (l.1.clone(), l.2.clone()))?;
        Some(Stmt::For { var: *v, lo, hi, mark: Mark::Independent, run: Run::Plain, body: vec![body] })
    });
    Some(vec![nest?])
}

/// Takes the names from an expression, and puts the operands of what may be done either way in an order.
fn unnamed(e: &mut Scalar, rename: &dyn Fn(Sym) -> Option<Expr>, numbers: &mut FxHashMap<VarId, VarId>) {
    match &mut e.kind {
        ScalarKind::Const(_) => {}
        ScalarKind::Var(v) => *v = number(numbers, *v),
        ScalarKind::Dim(d) => *d = d.subst(rename),
        ScalarKind::Load { index, span, .. } => {
            *span = Span::default();
            index.iter_mut().for_each(|a| unnamed(a, rename, numbers));
        }
        ScalarKind::Op(op, args) => {
            args.iter_mut().for_each(|a| unnamed(a, rename, numbers));
            if matches!(op, Intrinsic::Add | Intrinsic::Mul) {
                args.sort_by_cached_key(|a| format!("{a:?}"));
            }
        }
        ScalarKind::Choose(parts) => parts.iter_mut().for_each(|a| unnamed(a, rename, numbers)),
        ScalarKind::Cast(a) => unnamed(a, rename, numbers),
        ScalarKind::Reduce { var, lo, hi, body, .. } => {
            *var = number(numbers, *var);
            [lo, hi, body].into_iter().for_each(|a| unnamed(a, rename, numbers));
        }
    }
}
