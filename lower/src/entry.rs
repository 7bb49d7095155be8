//! What the outside sees: entries with the types of their arguments, kernels with the extents of their buffers.

use ir::Module;
use ir::graph::Func;
use ir::loops::{Buf, BufId};
use ir::source::Span;
use shape::{Expr as Dim, Facts, Pred, Sym, System};
use std::collections::BTreeSet;
use tensor::abi::{self, Access};
use tensor::limits::LARGEST_DIM;
use vm::scalar::Compare;
use vm::{Condition, Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Extent, Kernel};

use crate::KernelOf;
use crate::error::Error;

/// An expression as steps, its symbols being numbers.
pub(crate) fn steps(
    e: &Dim,
    span: Span,
    number: &dyn Fn(Sym) -> Option<u32>,
) -> Result<Vec<abi::Step>, Error> {
    if e.is_poison() {
        return Err(Error::no_extent(e, span));
    }
    ir::steps::steps(e, number)
        .map_err(|s| Error::internal(format!("dim {s} is not known where {e} is"), span))
}

/// A number that a kernel's dims tell, as steps over its ints; none where it has no value in 64 bits.
pub fn count(e: &Dim, dims: &[Sym]) -> Option<Vec<abi::Step>> {
    steps(e, Span::default(), &position_in(dims)).ok()
}

fn position_in(syms: &[Sym]) -> impl Fn(Sym) -> Option<u32> + '_ {
    move |s| syms.iter().position(|d| *d == s).map(|i| i as u32)
}

/// The entry of a function that became function `number` of the program.
pub(crate) fn entry(func: &Func, number: u32) -> Result<Entry, Error> {
    let types: Vec<_> = func.body.params.iter().map(|p| func.ty(*p)).collect();
    let axes: Vec<Dim> = types.iter().flat_map(|t| t.shape.iter().cloned()).collect();
    let extents: Vec<Sym> = (0..axes.len()).map(|i| Sym::new(&format!("#{i}"))).collect();
    let solved = solve(func, &axes, &extents)?;
    let mut dims = Vec::new();
    for (dim, value) in func.dims.iter().zip(&solved) {
        dims.push(EntryDim {
            name: dim.name().to_owned(),
            steps: steps(value, func.span, &position_in(&extents))?,
        });
    }
    let mut params = Vec::new();
    for (param, ty) in func.params.iter().zip(&types) {
        let mut shape = Vec::new();
        for e in &ty.shape {
            let steps = steps(e, func.span, &position_in(&func.dims))?;
            shape.push(EntryExtent { text: e.to_string(), steps });
        }
        let own = param.own && !shape.is_empty();
        let (name, from) = (param.name.name().to_owned(), param.from.clone());
        params.push(EntryParam { name, dtype: ty.dtype, shape, own, from });
    }
    let results = func
        .result_types
        .iter()
        .enumerate()
        .map(|(i, ty)| EntryResult {
            name: func.results.get(i).copied().flatten().map(|s| s.name().to_owned()),
            dtype: ty.dtype,
            shape: ty.shape.iter().map(Dim::to_string).collect(),
        })
        .collect();
    Ok(Entry { name: func.name.clone(), function: number, dims, params, results, load_split: None })
}

/// The dims of a function as expressions over the extents of its arguments. Whether all extents agree is compared
/// when the entry is called.
fn solve(func: &Func, axes: &[Dim], extents: &[Sym]) -> Result<Vec<Dim>, Error> {
    let unknown: BTreeSet<Sym> = axes.iter().flat_map(Dim::syms).collect();
    let equations = axes.iter().cloned().zip(extents.iter().map(|s| Dim::sym(*s)));
    let system = System::solve(unknown, equations);
    let value = |d: &Sym| {
        system.value(*d).cloned().ok_or_else(|| {
            let what = format!("an entry whose dim {d} is not determined by its parameters ({})", func.name);
            Error::unsupported(what, func.span)
        })
    };
    func.dims.iter().map(value).collect()
}

/// The runtime's description of a kernel, compared with what it was made from. Who compiles a file's kernels again
/// compares this with what the file says of them. Places are the file's, and are not given.
pub fn kernel(module: &Module, of: KernelOf, abi: abi::Kernel) -> Result<Kernel, Error> {
    let (name, dims, params, outs, bufs, span) = match of {
        KernelOf::Prim(id) => {
            let p = module.prim(id);
            (p.name.clone(), &p.dims, &p.params, &p.outs, &p.bufs, p.span)
        }
        KernelOf::Extern(id) => {
            let e = module.extern_(id);
            (e.name.name().to_owned(), &e.dims, &e.params, &e.outs, &e.bufs, e.span)
        }
    };
    let buf = |b: &BufId| -> &Buf { &bufs[b.0 as usize] };
    let is_buffer = |b: &BufId| !buf(b).shape.is_empty() || outs.contains(b);
    let scalars: Vec<&BufId> = params.iter().filter(|b| !is_buffer(b)).collect();
    let mut order: Vec<&BufId> = params.iter().filter(|b| is_buffer(b)).collect();
    order.extend(outs.iter().filter(|o| !params.contains(o)));

    let ints = dims.len() + scalars.len();
    let mut same = abi.ints as usize == ints && abi.bufs.len() == order.len();
    for (b, given) in order.iter().zip(&abi.bufs) {
        let access = match (params.contains(b), outs.contains(b)) {
            (true, true) => Access::InOut,
            (true, false) => Access::In,
            (false, _) => Access::Out,
        };
        let (dtype, rank) = (buf(b).dtype, buf(b).shape.len());
        same &= given.dtype == dtype && given.rank as usize == rank && given.access == access;
    }
    if !same {
        return Err(Error::internal(
            format!("the kernel of {name} has another signature than its definition"),
            span,
        ));
    }

    let mut shapes = Vec::new();
    for b in order {
        let mut shape = Vec::new();
        for e in &buf(b).shape {
            let steps = steps(e, span, &position_in(dims))?;
            shape.push(match steps.as_slice() {
                [abi::Step::Const(c)] => Extent::Const(*c),
                [abi::Step::Int(i)] => Extent::Int(*i),
                _ => Extent::Steps(steps),
            });
        }
        shapes.push(shape);
    }
    let floats = scalars
        .iter()
        .enumerate()
        .filter(|(_, b)| buf(b).dtype.is_float())
        .map(|(i, _)| (dims.len() + i) as u32)
        .collect();
    Ok(Kernel { name, abi, floats, shapes, places: Vec::new(), work: None })
}

/// What a kernel takes for granted of its dims, beyond what the extents of its buffers say. Lowering proves it where it
/// calls the kernel; bytecode that comes from elsewhere must be tested for it.
pub fn requires(module: &Module, of: KernelOf) -> Result<Vec<Condition>, Error> {
    let (dims, facts, outer, span) = match of {
        KernelOf::Prim(id) => {
            let p = module.prim(id);
            let outer = p.params.iter().chain(&p.outs).map(|b| p.buf(*b));
            (&p.dims, &p.facts, outer.collect::<Vec<_>>(), p.span)
        }
        KernelOf::Extern(id) => {
            let e = module.extern_(id);
            (&e.dims, &e.facts, e.bufs.iter().collect(), e.span)
        }
    };
    // The machine compares extents with tensors that exist.
    let mut known = Facts::new();
    let extents: Vec<&Dim> = outer.iter().flat_map(|b| &b.shape).collect();
    extents.iter().for_each(|e| known.assume(Pred::Le(Dim::int(0), (*e).clone())));
    let mut asked: Vec<Pred> = facts.iter().filter(|p| !known.prove(p).is_proved()).cloned().collect();
    if let KernelOf::Prim(id) = of {
        let positions = module.prim(id).positions();
        asked.extend(positions.dims.iter().map(|i| Pred::Le(Dim::sym(dims[*i]), Dim::int(LARGEST_DIM))));
        asked.extend(positions.most.into_iter().map(|e| Pred::Le(Dim::int(0), e)));
    }
    let condition = |p: &Pred| {
        let [a, b] = p.exprs();
        let (test, a, b) = match p {
            Pred::Le(..) => (Compare::Le, a.clone(), b.clone()),
            Pred::Lt(..) => (Compare::Lt, a.clone(), b.clone()),
            Pred::Eq(..) => (Compare::Eq, a.clone(), b.clone()),
            Pred::Ne(..) => (Compare::Ne, a.clone(), b.clone()),
            Pred::Divides(..) => (Compare::Eq, b.modulo(a), Dim::int(0)),
        };
        let steps = |e: &Dim| steps(e, span, &position_in(dims));
        Ok(Condition { test, left: steps(&a)?, right: steps(&b)? })
    };
    asked.iter().map(condition).collect()
}
