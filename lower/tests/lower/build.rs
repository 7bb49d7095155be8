//! Modules written by hand, and Rust functions in place of compiled primitives.
#![expect(unsafe_code, reason = "the stand-ins follow the C ABI of kernels")]

use std::sync::Arc;

use ir::graph::{Block, Func, Node, Op, Param, Type, ValId};
use ir::loops::{Buf, BufId, Prim};
use ir::source::{SourceMap, Span};
use ir::{FuncId, Module, PrimId};
use lower::{Error, KernelOf, Lowered};
use shape::{Expr as Dim, Facts, Sym};
use tensor::abi::{self, Access};
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Executable, KernelCode, Limits};

pub(crate) const F32: DType = DType::F32;
pub(crate) const I64: DType = DType::I64;

pub(crate) fn dim(text: &str) -> Dim {
    text.parse().unwrap()
}

pub(crate) fn ty(dtype: DType, shape: &[&str]) -> Type {
    Type { dtype, shape: shape.iter().map(|e| dim(e)).collect() }
}

/// A function under construction; blocks are built innermost last.
pub(crate) struct Build {
    pub(crate) func: Func,
    blocks: Vec<Block>,
}

impl Build {
    pub(crate) fn new(name: &str, dims: &[&str]) -> Build {
        Build {
            func: Func {
                dims: dims.iter().map(|d| Sym::new(d)).collect(),
                ..Func::named(name, Span::default())
            },
            blocks: vec![Block::default()],
        }
    }

    pub(crate) fn param(&mut self, name: &str, ty: Type, own: bool) -> ValId {
        let v = self.func.add_val(Sym::new(name), ty);
        self.func.params.push(Param { name: Sym::new(name), own, from: None });
        self.blocks[0].params.push(v);
        v
    }

    pub(crate) fn open(&mut self, params: &[Type]) -> Vec<ValId> {
        let vals: Vec<ValId> = params.iter().map(|t| self.func.add_val(Sym::new("p"), t.clone())).collect();
        self.blocks.push(Block { params: vals.clone(), ..Block::default() });
        vals
    }

    pub(crate) fn close(&mut self, results: &[ValId]) -> Block {
        let block = self.blocks.pop().unwrap();
        Block { results: results.to_vec(), ..block }
    }

    pub(crate) fn node(&mut self, op: Op, args: &[ValId], results: &[Type]) -> Vec<ValId> {
        self.opening(op, args, results, &[])
    }

    pub(crate) fn opening(&mut self, op: Op, args: &[ValId], results: &[Type], opens: &[&str]) -> Vec<ValId> {
        let results: Vec<ValId> =
            results.iter().map(|t| self.func.add_val(Sym::new("v"), t.clone())).collect();
        let node = Node {
            op,
            args: args.to_vec(),
            results: results.clone(),
            opens: opens.iter().map(|s| Sym::new(s)).collect(),
            span: Span::default(),
        };
        self.blocks.last_mut().unwrap().nodes.push(node);
        results
    }

    /// A node with one result.
    pub(crate) fn one(&mut self, op: Op, args: &[ValId], result: Type) -> ValId {
        self.node(op, args, &[result])[0]
    }

    pub(crate) fn int(&mut self, i: i64) -> ValId {
        self.one(Op::Const(Tensor::scalar_i(I64, i)), &[], Type::scalar(I64))
    }

    /// The function, giving `results`.
    pub(crate) fn done(mut self, results: &[ValId]) -> Func {
        self.func.body = self.close(results);
        if self.func.result_types.is_empty() {
            self.func.result_types = results.iter().map(|r| self.func.ty(*r).clone()).collect();
        }
        self.func.results = vec![None; results.len()];
        self.func
    }
}

/// Primitives whose code is in this file, by number.
pub(crate) const ADD_ONE: PrimId = PrimId(0);
pub(crate) const DOUBLE: PrimId = PrimId(1);
pub(crate) const SUM: PrimId = PrimId(2);
pub(crate) const FILL: PrimId = PrimId(3);
pub(crate) const BUMP: PrimId = PrimId(4);
pub(crate) const ADD: PrimId = PrimId(5);

pub(crate) fn module(funcs: Vec<Func>) -> Module {
    let buf = |name: &str, dtype, shape: &[&str]| Buf {
        name: Sym::new(name),
        dtype,
        shape: shape.iter().map(|e| dim(e)).collect(),
        local: false,
    };
    let prim = |name: &str, params: &[u32], outs: &[u32], bufs: Vec<Buf>| Prim {
        name: name.to_owned(),
        def: Sym::new(name),
        dims: if name == "bump" { vec![] } else { vec![Sym::new("m")] },
        facts: Facts::new(),
        params: params.iter().map(|i| BufId(*i)).collect(),
        outs: outs.iter().map(|i| BufId(*i)).collect(),
        bufs,
        vars: Vec::new(),
        body: Vec::new(),
        invariant: false,
        span: Span::default(),
    };
    let (x, y) = (|| buf("x", F32, &["m"]), || buf("y", F32, &["m"]));
    let prims = vec![
        prim("add_one", &[0], &[1], vec![x(), y()]),
        prim("double", &[0], &[0], vec![x()]),
        prim("sum", &[0], &[1], vec![x(), buf("s", F32, &[])]),
        prim("fill", &[0], &[1], vec![buf("v", F32, &[]), y()]),
        prim("bump", &[0], &[0], vec![buf("c", I64, &[])]),
        prim("add", &[0, 1], &[2], vec![x(), y(), buf("z", F32, &["m"])]),
    ];
    Module { funcs, prims, ..Module::default() }
}

/// The description of a primitive's kernel, as the compiler gives it.
pub(crate) fn describe(module: &Module, of: KernelOf) -> Result<abi::Kernel, Error> {
    let (name, dims, params, outs, bufs) = match of {
        KernelOf::Prim(id) => {
            let p = module.prim(id);
            (p.name.clone(), p.dims.len(), &p.params, &p.outs, &p.bufs)
        }
        KernelOf::Extern(id) => {
            let e = module.extern_(id);
            (e.symbol.clone(), e.dims.len(), &e.params, &e.outs, &e.bufs)
        }
    };
    let memory = |b: &BufId| !bufs[b.0 as usize].shape.is_empty() || outs.contains(b);
    let fresh = outs.iter().filter(|o| !params.contains(o));
    let order = params.iter().filter(|b| memory(b)).chain(fresh);
    let kind = |b: &BufId| abi::Buf {
        dtype: bufs[b.0 as usize].dtype,
        rank: bufs[b.0 as usize].shape.len() as u8,
        access: match (params.contains(b), outs.contains(b)) {
            (true, true) => Access::InOut,
            (true, false) => Access::In,
            (false, _) => Access::Out,
        },
    };
    Ok(abi::Kernel {
        symbol: name,
        bufs: order.map(kind).collect(),
        ints: (dims + params.iter().filter(|b| !memory(b)).count()) as u32,
        grid: vec![abi::Step::Const(1)],
        stops: vec![],
        shared: vec![],
        scratch: Vec::new(),
        checks: Vec::new(),
        libraries: Vec::new(),
    })
}

/// The code of the stand-ins: `what` over buffers as slices of f32 of the extent in the first int.
macro_rules! kernels {
    ($($name:ident($bufs:ident, $ints:ident) $body:block)*) => {$(
        unsafe extern "C" fn $name(bufs: *const *mut u8, ints: *const i64, _: *mut u8, _: i64, _: i64) -> i64 {
            // SAFETY: as many buffers and ints as the primitive says.
            let $bufs = |i: usize| unsafe { *bufs.add(i) };
            // SAFETY: the same.
            let $ints = |i: usize| unsafe { *ints.add(i) };
            $body
            0
        }
    )*};
}

fn floats<'a>(start: *mut u8, n: i64) -> &'a mut [f32] {
    // SAFETY: the buffer has n elements, and only this kernel uses it now.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), n as usize) }
}

kernels! {
    add_one(bufs, ints) {
        let (x, y) = (floats(bufs(0), ints(0)), floats(bufs(1), ints(0)));
        x.iter().zip(y).for_each(|(x, y)| *y = x + 1.0);
    }
    double(bufs, ints) { floats(bufs(0), ints(0)).iter_mut().for_each(|x| *x *= 2.0); }
    sum(bufs, ints) { floats(bufs(1), 1)[0] = floats(bufs(0), ints(0)).iter().sum(); }
    fill(bufs, ints) { floats(bufs(0), ints(0)).fill(f64::from_bits(ints(1) as u64) as f32); }
    bump(bufs, _ints) {
        // SAFETY: one i64.
        unsafe { *bufs(0).cast::<i64>() += 1 };
    }
    add(bufs, ints) {
        let (x, y, z) = (floats(bufs(0), ints(0)), floats(bufs(1), ints(0)), floats(bufs(2), ints(0)));
        z.iter_mut().zip(x.iter().zip(y)).for_each(|(z, (x, y))| *z = *x + *y);
    }
}

pub(crate) fn lowered(module: &Module, entry: u32) -> Result<Lowered, Error> {
    lower::lower(module, &[FuncId(entry)], &SourceMap::default(), |all| {
        all.iter().map(|of| describe(module, *of)).collect()
    })
}

/// A context for the first function of a module.
pub(crate) fn context(funcs: Vec<Func>) -> Context {
    let module = module(funcs);
    let lowered = lowered(&module, 0).unwrap_or_else(|e| panic!("{e}"));
    let code = lowered.kernels.iter().map(|k| {
        let entry: abi::Entry = match k {
            KernelOf::Prim(id) => [add_one, double, sum, fill, bump, add][id.0 as usize],
            KernelOf::Extern(_) => panic!("no binding has code here"),
        };
        // SAFETY: each follows the ABI for its primitive.
        unsafe { KernelCode::new(entry, Arc::new(())) }
    });
    let code = code.collect();
    let package = vm::tnx::Package { program: lowered.program.clone(), ..vm::tnx::Package::default() };
    let listing = vm::asm::listing(&package);
    let exe = Executable::new(lowered.program, code, Pool::new(1));
    Context::new(exe.unwrap_or_else(|e| panic!("{e}\n{}\n{listing}", lowered.rt)))
}

/// Runs the first function of a module.
pub(crate) fn run(funcs: Vec<Func>, args: &[&Tensor]) -> Result<Vec<Tensor>, vm::Error> {
    let name = funcs[0].name.clone();
    context(funcs).run(&name, args, &Limits { fuel: Some(10_000), ..Limits::default() })
}

pub(crate) fn vector(xs: &[f32]) -> Tensor {
    Tensor::from_f32(&[xs.len() as i64], xs).unwrap()
}
