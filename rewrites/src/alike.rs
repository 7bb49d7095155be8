//! Primitives that are the same loops under other names: a program's own product of matrices is what the library calls `matmul`,
//! so that rules about the one see the other. Other loops than the library's that compute a product have rules that say so
//! ([`ir::matmul`]).
//!
//! Of products only: elsewhere two definitions stay what their authors called them, as nothing is won.

use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::{Intrinsic, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};

use crate::classify::Profile;

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
}

/// For each primitive the first that is the same.
pub(crate) fn canon(prims: &[Prim], profiles: &[Profile]) -> Vec<Canon> {
    let forms: Vec<Form> = prims
        .iter()
        .zip(profiles)
        .map(|(p, profile)| match &profile.contraction {
            Some(_) => form(p),
            None => Form {
                text: format!("{} {:?}", p.def, (&p.dims, said(p))),
                order: (0..p.dims.len()).collect(),
            },
        })
        .collect();
    let mut first: FxHashMap<&str, usize> = FxHashMap::default();
    for (i, form) in forms.iter().enumerate() {
        first.entry(form.text.as_str()).or_insert(i);
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
    format!("{:?}", (facts, &p.params, &p.outs, &p.bufs, &p.vars, &p.body, p.invariant))
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
    let mut body = p.body.clone();
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
    Form { text: format!("{:?}", (facts, ends, bufs, vars, body, p.invariant)), order }
}

/// Variables are numbered as they are met.
fn number(numbers: &mut FxHashMap<VarId, VarId>, var: VarId) -> VarId {
    let next = VarId(numbers.len() as u32);
    *numbers.entry(var).or_insert(next)
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
