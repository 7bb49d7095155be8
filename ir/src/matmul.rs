//! Idiom recognition: loops that are a product of matrices (matmul), however they are written, and what they do with
//! it.
//!
//! In: a primitive. Out: the two operands, how their axes lie, and the rest, a primitive over the product; done one
//! after the other they are the primitive. The loops are read as what becomes of one element of the output
//! ([`Reader`]): in which order elements have their turn does not matter, a sum may be added up in a variable or in the
//! output itself, which begins as anything, and whatever else is done to an element is the rest. Loops whose bounds are
//! no dims, what stands under a condition, an element that is read at another place, a sum that does not go over whole
//! axes: those are no such nest.
//!
//! Numbers: a sum is then rounded once, where the loops may round each step; so not in a type of 16 bits. It is rounded
//! before anything is done with it, where the loops may not; so in such a type only if they do too. And it begins with
//! 0, where the loops may begin with -0; so not if something is divided by what comes of that.

use std::collections::{BTreeMap, BTreeSet};

use shape::{Expr as Dim, Facts, Sym};
use tensor::DType;

use crate::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use crate::{Combine, Intrinsic, Literal};

/// A product of matrices that a primitive computes, and what it does with it.
#[derive(Clone, Debug)]
pub struct Product {
    /// The element type; operands of another are converted.
    pub dtype: DType,
    /// `[..batch, ..rows, k]` and `[..batch, k, column]`, or `[..rows, k]` and `[k]`.
    pub operands: [Operand; 2],
    /// What is done with the product; none: it is the output.
    pub rest: Option<Rest>,
}

/// An operand of a product.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Which parameter of the primitive.
    pub param: usize,
    /// For each axis of the operand, which of the parameter's it is.
    pub perm: Vec<usize>,
}

/// What is done with a product.
#[derive(Clone, Debug)]
pub struct Rest {
    /// It; its first parameter is the product.
    pub prim: Prim,
    /// Its others, as parameters of the primitive.
    pub params: Vec<usize>,
}

/// The product stands for its sum under this name.
const PRODUCT: BufId = BufId(u32::MAX);

/// The product that a primitive computes.
pub fn recognize(prim: &Prim) -> Option<Product> {
    let [out] = prim.outs[..] else { return None };
    if prim.in_place(out) || !prim.checked().is_empty() {
        return None;
    }
    let axes = vec![None; prim.buf(out).shape.len()];
    let (loops, vars, of_axis) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut reader = Reader { prim, out, loops, axes, of_axis, vars, element: None, begun: false };
    reader.block(&prim.body)?;
    let axes: Vec<VarId> = reader.axes.into_iter().collect::<Option<_>>()?;
    let mut element = rounded(reader.element?);
    if reader.begun && divides(&element) {
        return None;
    }

    // One sum, wherever a name stands for it.
    let mut sums: Vec<&Scalar> = Vec::new();
    element.walk(&mut |s| {
        if matches!(s.kind, ScalarKind::Reduce { .. }) && !sums.contains(&s) {
            sums.push(s);
        }
    });
    let &[sum] = &sums[..] else { return None };
    let (operands, places) = operands(prim, out, sum, &axes)?;
    let dtype = sum.dtype;
    let index: Vec<Scalar> = places.iter().map(|&v| variable(v)).collect();
    let mut exact = true;
    element.walk_mut(&mut |s| {
        let is_sum = |s: &Scalar| matches!(s.kind, ScalarKind::Reduce { .. });
        let is_rounded = matches!(&s.kind, ScalarKind::Cast(of) if of.dtype == s.dtype && is_sum(of));
        if is_rounded || is_sum(s) {
            exact &= is_rounded || !is_narrow(dtype);
            s.kind = ScalarKind::Load { buf: PRODUCT, index: index.clone(), checked: false, span: prim.span };
        }
    });
    let whole = matches!(element.kind, ScalarKind::Load { buf: PRODUCT, .. }) && places == axes;
    let rest = if whole { None } else { Some(rest(prim, out, &axes, (dtype, &places), element)?) };
    exact.then_some(Product { dtype, operands, rest })
}

/// What a primitive does to one element of its output, read statement by statement. An element that several nests go
/// over has its turn in each, in their order, as nothing is read of the others.
struct Reader<'a> {
    prim: &'a Prim,
    out: BufId,
    /// The loops around.
    loops: Vec<Loop<'a>>,
    /// By the axes of the output: the variable that stands for the place there.
    axes: Vec<Option<VarId>>,
    /// For the loops around stores: which axis they go along; none: they go over all of a sum.
    of_axis: BTreeMap<VarId, Option<usize>>,
    /// What variables are, and how many loops stood around where they began.
    vars: BTreeMap<VarId, (usize, Scalar)>,
    /// What the element is.
    element: Option<Scalar>,
    /// Whether a sum begins as something else than 0.
    begun: bool,
}

#[derive(Clone, Copy)]
struct Loop<'a> {
    var: VarId,
    lo: &'a Scalar,
    hi: &'a Scalar,
    body: &'a [Stmt],
}

impl<'a> Reader<'a> {
    fn block(&mut self, body: &'a [Stmt]) -> Option<()> {
        for s in body {
            match s {
                Stmt::For { var, lo, hi, run: Run::Plain, body, .. } => {
                    self.loops.push(Loop { var: *var, lo, hi, body });
                    self.block(body)?;
                    self.loops.pop();
                    let around = self.loops.len();
                    self.vars.retain(|_, (began, _)| *began <= around);
                }
                Stmt::Set(v, value) => self.set(*v, value)?,
                Stmt::Store { buf, index, combine, value, .. } if *buf == self.out => {
                    self.store(index, *combine, value)?;
                }
                Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) => return None,
                Stmt::Alloc(_) | Stmt::Store { .. } => return None,
            }
        }
        Some(())
    }

    fn set(&mut self, v: VarId, value: &Scalar) -> Option<()> {
        let around = self.loops.len();
        let Some((began, old)) = self.vars.get(&v).cloned() else {
            let value = self.value(value)?;
            self.vars.insert(v, (around, value));
            return Some(());
        };
        let new = match added(value, &|s| matches!(s.kind, ScalarKind::Var(w) if w == v)) {
            Some(more) => {
                let over: Vec<Loop<'_>> = self.loops[began..].to_vec();
                self.sum(rounded(old), self.value(more)?, &over)?
            }
            None if began == around => self.value(value)?,
            None => return None,
        };
        self.vars.insert(v, (began, new));
        Some(())
    }

    fn store(&mut self, index: &[Scalar], combine: Option<Combine>, value: &Scalar) -> Option<()> {
        let places: Vec<VarId> = index.iter().map(Scalar::as_var).collect::<Option<_>>()?;
        let here = |s: &Scalar| {
            matches!(&s.kind, ScalarKind::Load { buf, index, .. } if *buf == self.out
                && index.iter().map(Scalar::as_var).eq(places.iter().map(|v| Some(*v))))
        };
        let more = match combine {
            None => added(value, &here),
            Some(Combine::Add) => Some(value),
            Some(Combine::Mul | Combine::Min | Combine::Max | Combine::And | Combine::Or) => return None,
        };
        let axis = |v: VarId| places.iter().position(|p| *p == v);
        let over: Vec<Loop<'_>> = self.loops.iter().copied().filter(|l| axis(l.var).is_none()).collect();
        // Each place once: a loop for each axis, and all of it.
        if over.len() + places.len() != self.loops.len() {
            return None;
        }
        for l in self.loops.clone() {
            let along = axis(l.var);
            if *self.of_axis.entry(l.var).or_insert(along) != along {
                return None;
            }
            if let Some(axis) = along {
                self.goes_over(&l, &self.prim.buf(self.out).shape[axis])?;
            }
        }
        let old = self.element.clone().map(rounded);
        let mut value = self.value(more.unwrap_or(value))?;
        let mut known = true;
        let axes: Vec<VarId> = places.iter().zip(&mut self.axes).map(|(v, a)| *a.get_or_insert(*v)).collect();
        value.walk_mut(&mut |s| {
            if here(s) {
                // What is added each round must not be made of what was.
                match &old {
                    Some(old) if over.is_empty() => *s = old.clone(),
                    Some(_) | None => known = false,
                }
            } else if let ScalarKind::Var(v) = &mut s.kind
                && let Some(axis) = places.iter().position(|p| p == v)
            {
                *v = axes[axis];
            }
        });
        let new = match more {
            Some(_) => self.sum(old?, value, &over)?,
            None if over.is_empty() => value,
            None => return None,
        };
        self.element = Some(new).filter(|_| known);
        self.element.as_ref().map(drop)
    }

    /// `old` and what some loops add to it.
    fn sum(&mut self, old: Scalar, more: Scalar, over: &[Loop<'_>]) -> Option<Scalar> {
        let dtype = old.dtype;
        // What a bound speaks of is what it was when the loop began.
        let vars: Vec<VarId> = self.vars.keys().copied().collect();
        let spoken = over.iter().flat_map(|l| [l.lo, l.hi]).any(|e| self.prim.mentions(e, &vars));
        if more.dtype != dtype || spoken || !over.is_empty() && is_narrow(dtype) {
            return None;
        }
        let more = over.iter().rev().fold(more, |body, l| {
            let (lo, hi, body) = (Box::new(l.lo.clone()), Box::new(l.hi.clone()), Box::new(body));
            let kind =
                ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var: l.var, lo, hi, body };
            Scalar { kind, dtype }
        });
        let nothing = matches!(&old.kind, ScalarKind::Const(Literal::Int(0)))
            || matches!(&old.kind, ScalarKind::Const(Literal::Float(x)) if x.to_bits() == 0);
        if nothing {
            return Some(more);
        }
        self.begun |= !over.is_empty();
        Some(Scalar { kind: ScalarKind::Op(Intrinsic::Add, vec![old, more]), dtype })
    }

    /// Whether a loop goes over a whole axis.
    fn goes_over(&self, l: &Loop<'_>, extent: &Dim) -> Option<()> {
        let whole = self.prim.as_dim(l.lo)? == Dim::int(0) && self.prim.as_dim(l.hi)? == *extent;
        whole.then_some(())
    }

    /// An expression with what variables are; none where one changes from round to round.
    fn value(&self, e: &Scalar) -> Option<Scalar> {
        let mut made = e.clone();
        let mut steady = true;
        made.walk_mut(&mut |s| {
            if let Some(v) = s.as_var()
                && let Some((began, value)) = self.vars.get(&v)
            {
                steady &= !self.loops.get(*began).is_some_and(|l| sets(l.body, v));
                *s = rounded(value.clone());
            }
        });
        steady.then_some(made)
    }
}

/// True if a statement among some gives the variable a value.
fn sets(body: &[Stmt], v: VarId) -> bool {
    let mut found = false;
    body.iter().for_each(|s| s.walk(&mut |s| found |= matches!(s, Stmt::Set(w, _) if *w == v)));
    found
}

/// What is added to something: `x` of `old + x` and `x + old`.
fn added<'e>(value: &'e Scalar, old: &dyn Fn(&Scalar) -> bool) -> Option<&'e Scalar> {
    let ScalarKind::Op(Intrinsic::Add, args) = &value.kind else { return None };
    match &args[..] {
        [a, x] if old(a) => Some(x),
        [x, a] if old(a) => Some(x),
        _ => None,
    }
}

/// True if something is divided by what comes of a sum.
fn divides(e: &Scalar) -> bool {
    let mut found = false;
    e.walk(&mut |s| {
        let ScalarKind::Op(op, args) = &s.kind else { return };
        let by = if matches!(op, Intrinsic::Div | Intrinsic::Rem) && s.dtype.is_float() {
            &args[1..]
        } else if matches!(op, Intrinsic::Rsqrt | Intrinsic::Pow) {
            &args[..]
        } else {
            &[]
        };
        by.iter().for_each(|e| e.walk(&mut |s| found |= matches!(s.kind, ScalarKind::Reduce { .. })));
    });
    found
}

/// Types in which digits that are kept or not are seen.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// A value as it is where it was kept.
fn rounded(e: Scalar) -> Scalar {
    let made = matches!(e.kind, ScalarKind::Op(..) | ScalarKind::Choose(_) | ScalarKind::Reduce { .. });
    let dtype = e.dtype;
    if made && is_narrow(dtype) { Scalar { kind: ScalarKind::Cast(Box::new(e)), dtype } } else { e }
}

fn variable(v: VarId) -> Scalar {
    Scalar { kind: ScalarKind::Var(v), dtype: DType::I64 }
}

/// A factor: which parameter, and the variables at its axes.
struct Factor {
    param: usize,
    index: Vec<VarId>,
    /// The places of the output that it has alone.
    own: Vec<VarId>,
}

/// The operands of a sum of products, and the places that the axes of their product are.
fn operands(prim: &Prim, out: BufId, sum: &Scalar, axes: &[VarId]) -> Option<([Operand; 2], Vec<VarId>)> {
    let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body } = &sum.kind else {
        return None;
    };
    let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return None };
    let [x, y] = &args[..] else { return None };
    if body.dtype != sum.dtype || prim.as_dim(lo)? != Dim::int(0) {
        return None;
    }
    let extent = |v: VarId| match axes.iter().position(|a| *a == v) {
        Some(axis) => Some(prim.buf(out).shape[axis].clone()),
        None if v == *var => prim.as_dim(hi),
        None => None,
    };
    let factor = |e: &Scalar| {
        let of = if let ScalarKind::Cast(of) = &e.kind { of } else { e };
        let ScalarKind::Load { buf, index, .. } = &of.kind else { return None };
        let index: Vec<VarId> = index.iter().map(Scalar::as_var).collect::<Option<_>>()?;
        let distinct: BTreeSet<&VarId> = index.iter().collect();
        let whole = index.iter().zip(&prim.buf(*buf).shape).all(|(v, n)| extent(*v).as_ref() == Some(n));
        let param = prim.params.iter().position(|p| p == buf)?;
        (e.dtype == sum.dtype && whole && distinct.len() == index.len() && distinct.contains(var))
            .then_some(Factor { param, index, own: Vec::new() })
    };
    let (mut left, mut right) = (factor(x)?, factor(y)?);
    let both = |v: &&VarId| left.index.contains(v) && right.index.contains(v);
    let batch: Vec<VarId> = axes.iter().filter(both).copied().collect();
    for f in [&mut left, &mut right] {
        f.own = axes.iter().filter(|v| f.index.contains(v) && !batch.contains(v)).copied().collect();
    }
    // Columns lie side by side in the output, as far as one axis is enough for them.
    let last = axes.iter().rfind(|v| left.own.contains(v) || right.own.contains(v))?;
    let vector = batch.is_empty() && (left.own.is_empty() || right.own.is_empty());
    let turned = match vector {
        true => left.own.is_empty(),
        false => (left.own.contains(last) || right.own.len() != 1) && left.own.len() == 1,
    };
    if turned {
        std::mem::swap(&mut left, &mut right);
    }
    let rows_fit = if batch.is_empty() { !left.own.is_empty() } else { left.own.len() == 1 };
    if !rows_fit || right.own.len() != usize::from(!vector) {
        return None;
    }
    let operand = |f: &Factor, order: Vec<VarId>| {
        let perm = order.iter().filter_map(|v| f.index.iter().position(|w| w == v)).collect();
        Operand { param: f.param, perm }
    };
    let rows = operand(&left, [&batch[..], &left.own, &[*var]].concat());
    let columns = operand(&right, [&batch[..], &[*var], &right.own].concat());
    Some(([rows, columns], [batch, left.own, right.own].concat()))
}

/// The primitive that makes an element of the product at its place, and of others.
fn rest(
    prim: &Prim,
    out: BufId,
    axes: &[VarId],
    (dtype, places): (DType, &[VarId]),
    mut element: Scalar,
) -> Option<Rest> {
    let extent = |v: &VarId| axes.iter().position(|a| a == v).map(|axis| prim.buf(out).shape[axis].clone());
    let shape: Vec<Dim> = places.iter().map(extent).collect::<Option<_>>()?;
    let names: BTreeSet<Sym> =
        prim.bufs.iter().map(|b| b.name).chain(prim.vars.iter().map(|v| v.name)).collect();
    let taken = |n: &Sym| names.contains(n) || prim.dims.contains(n);
    let name = (1..).map(|n| Sym::new(&format!("product{}", "_".repeat(n - 1)))).find(|n| !taken(n))?;

    let mut used = BTreeSet::new();
    element.walk(&mut |s| {
        if let ScalarKind::Load { buf, .. } = s.kind {
            used.insert(buf);
        }
    });
    let params: Vec<usize> = (0..prim.params.len()).filter(|&i| used.contains(&prim.params[i])).collect();
    let mut bufs = vec![Buf { name, dtype, shape, local: false }];
    bufs.extend(params.iter().map(|&i| prim.buf(prim.params[i]).clone()));
    let inputs: Vec<BufId> = (0..bufs.len() as u32).map(BufId).collect();
    let dims: Vec<Sym> = {
        let told: BTreeSet<Sym> = bufs.iter().flat_map(|b| &b.shape).flat_map(Dim::syms).collect();
        prim.dims.iter().filter(|d| told.contains(d)).copied().collect()
    };
    bufs.push(prim.buf(out).clone());
    let result = BufId(inputs.len() as u32);

    // Nothing is left but the place, what the parameters tell, and their elements.
    let mut known = prim.buf(out).shape.iter().flat_map(Dim::syms).all(|s| dims.contains(&s));
    element.walk_mut(&mut |s| match &mut s.kind {
        ScalarKind::Var(v) => match axes.iter().position(|a| a == v) {
            Some(axis) => *v = VarId(axis as u32),
            None => known = false,
        },
        ScalarKind::Dim(d) => known &= d.syms().iter().all(|s| dims.contains(s)),
        ScalarKind::Load { buf, .. } => match params.iter().position(|&i| prim.params[i] == *buf) {
            Some(at) => *buf = BufId(at as u32 + 1),
            None => {
                known &= *buf == PRODUCT;
                *buf = BufId(0);
            }
        },
        ScalarKind::Const(_)
        | ScalarKind::Op(..)
        | ScalarKind::Choose(_)
        | ScalarKind::Cast(_)
        | ScalarKind::Reduce { .. } => {}
    });
    let place = |axis: usize| VarId(axis as u32);
    let index = (0..axes.len()).map(|axis| variable(place(axis))).collect();
    let store =
        Stmt::Store { buf: result, index, checked: false, combine: None, value: element, span: prim.span };
    let body = prim.buf(out).shape.iter().enumerate().rev().fold(store, |body, (axis, n)| {
        let (lo, hi) = (Scalar::int(0), Scalar::dim(n.clone()));
        let (mark, run) = (Mark::Independent, Run::Plain);
        Stmt::For { var: place(axis), lo, hi, mark, run, body: vec![body] }
    });
    let mut facts = Facts::default();
    let of_dims = |f: &&shape::Pred| f.syms().iter().all(|s| dims.contains(s));
    prim.facts.iter().filter(of_dims).for_each(|f| facts.assume(f.clone()));
    let name = format!("{}_rest", prim.name);
    let vars: Vec<Var> = axes.iter().map(|v| prim.var(*v).clone()).collect();
    known.then_some(Rest {
        params,
        prim: Prim {
            def: Sym::new(&name),
            name,
            dims,
            facts,
            params: inputs,
            outs: vec![result],
            bufs,
            vars,
            body: vec![body],
            invariant: false,
            span: prim.span,
        },
    })
}
