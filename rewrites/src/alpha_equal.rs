//! Alpha-equivalence of primitives: those that are the same loops under other names are one. A program's own product of
//! matrices is what the library calls `matmul`, so that rules about the one see the other. Other loops than the
//! library's that compute a product have rules that say so ([`ir::matmul`]).
//!
//! Of products only: elsewhere two definitions stay what their authors called them, as nothing is won.

use ir::loops::{Buf, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::{Intrinsic, PrimId};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Sym};
use std::hash::BuildHasher;
use tensor::DType;

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
    /// Without its name, its facts beside it.
    key: (Prim, Vec<Pred>),
    /// Its dims, in the order in which the key names them.
    order: Vec<usize>,
}

/// For each primitive the first that is the same; `products`: a product may have other names.
pub(crate) fn alpha_equal(prims: &[Prim], profiles: &[Profile], products: bool) -> Vec<Canon> {
    let forms: Vec<Form> = prims
        .iter()
        .zip(profiles)
        .map(|(p, profile)| match &profile.contraction {
            Some(_) if products => form(p),
            Some(_) | None => {
                let nameless = Prim { name: String::new(), ..p.clone() };
                Form { key: (nameless, Vec::new()), order: (0..p.dims.len()).collect() }
            }
        })
        .collect();
    let mut first: FxHashMap<&(Prim, Vec<Pred>), usize> = FxHashMap::default();
    for (i, form) in forms.iter().enumerate() {
        first.entry(&form.key).or_insert(i);
    }
    let each = forms.iter().map(|form| {
        let id = first[&form.key];
        // A place in the form is another dim of each of the two.
        let mut dims = vec![0; form.order.len()];
        forms[id].order.iter().zip(&form.order).for_each(|(&theirs, &own)| dims[theirs] = own);
        Canon { id: PrimId(id as u32), dims }
    });
    each.collect()
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
    let mut facts: Vec<Pred> = p.facts.iter().map(|f| f.subst(&rename)).collect();
    facts.sort_unstable();
    let nameless = Sym::new("");
    let shape = |b: &Buf| b.shape.iter().map(|e| e.subst(&rename)).collect();
    let bufs = p.bufs.iter().map(|b| Buf { name: nameless, shape: shape(b), ..*b }).collect();
    let mut body = p.body.clone();
    let mut numbers: FxHashMap<VarId, VarId> = FxHashMap::default();
    for s in &mut body {
        s.walk_mut(&mut |s| {
            match s {
                Stmt::For { var, .. } | Stmt::Set(var, _) => *var = number(&mut numbers, *var),
                Stmt::Store { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {}
            }
            s.scalars_mut().into_iter().for_each(|e| unnamed(e, &rename, &mut numbers));
        });
    }
    let mut vars = vec![Var { name: nameless, dtype: DType::I64 }; numbers.len()];
    numbers.iter().for_each(|(old, new)| vars[new.0 as usize].dtype = p.var(*old).dtype);
    let prim = Prim {
        name: String::new(),
        def: nameless,
        dims: Vec::new(),
        facts: Facts::new(),
        params: p.params.clone(),
        outs: p.outs.clone(),
        bufs,
        vars,
        body,
        ..*p
    };
    Form { key: (prim, facts), order }
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
        ScalarKind::Load { index, .. } => index.iter_mut().for_each(|a| unnamed(a, rename, numbers)),
        ScalarKind::Op(op, args) => {
            args.iter_mut().for_each(|a| unnamed(a, rename, numbers));
            if matches!(op, Intrinsic::Add | Intrinsic::Mul) {
                args.sort_by_cached_key(|a| FxBuildHasher.hash_one(a));
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
