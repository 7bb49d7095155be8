//! Programs for the tests: functions from assembler text, kernels from Rust functions.
#![expect(unsafe_code, reason = "stub kernels follow the C ABI")]

use std::sync::Arc;

use tensor::DType;
use tensor::abi::{self, Access, Buf, Step, StepOp};
use vm::threads::Pool;
use vm::{
    Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Executable, Extent, Function, Kernel, KernelCode,
    Param, Program, TensorType, Type, asm,
};

pub(crate) const F32: DType = DType::F32;
pub(crate) const I64: DType = DType::I64;

pub(crate) fn t(dtype: DType, rank: u8) -> TensorType {
    TensorType { dtype, rank }
}

pub(crate) fn tensor(dtype: DType, rank: u8) -> Type {
    Type::Tensor(t(dtype, rank))
}

/// A function; `own` lists the parameters that are taken.
pub(crate) fn function(
    name: &str,
    params: &[Type],
    own: &[usize],
    results: &[Type],
    regs: (u16, u16, &[TensorType]),
    text: &str,
) -> Function {
    let (code, pool) = asm::code(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    Function {
        name: name.to_owned(),
        params: params.iter().enumerate().map(|(i, &ty)| Param { ty, own: own.contains(&i) }).collect(),
        results: results.to_vec(),
        ints: regs.0,
        floats: regs.1,
        tensors: regs.2.to_vec(),
        code,
        pool,
        ..Function::default()
    }
}

/// An entry for function 0 whose parameters are `(name, dtype, extents)`: an extent is a number or the name of a
/// dim, which is an int parameter of the function in order of appearance.
pub(crate) fn entry(params: &[(&str, DType, &[&str])], results: &[(DType, usize)]) -> Entry {
    let mut dims: Vec<EntryDim> = Vec::new();
    let mut at = 0;
    let mut out = Vec::new();
    for (name, dtype, extents) in params {
        let mut shape = Vec::new();
        for text in *extents {
            let step = match text.parse() {
                Ok(n) => Step::Const(n),
                Err(_) => {
                    let known = dims.iter().position(|d| d.name == *text);
                    let i = known.unwrap_or_else(|| {
                        dims.push(EntryDim { name: (*text).to_owned(), steps: vec![Step::Int(at)] });
                        dims.len() - 1
                    });
                    Step::Int(i as u32)
                }
            };
            shape.push(EntryExtent { text: (*text).to_owned(), steps: vec![step] });
            at += 1;
        }
        out.push(EntryParam { name: (*name).to_owned(), dtype: *dtype, shape, own: false, from: None });
    }
    Entry {
        name: "main".to_owned(),
        function: 0,
        dims,
        params: out,
        results: results
            .iter()
            .map(|&(dtype, rank)| EntryResult { name: None, dtype, shape: vec!["?".to_owned(); rank] })
            .collect(),
        load_split: None,
    }
}

pub(crate) fn kernel(name: &str, ints: u32, bufs: &[Access], grid: Vec<Step>) -> Kernel {
    Kernel {
        name: name.to_owned(),
        abi: abi::Kernel {
            symbol: name.to_owned(),
            bufs: bufs.iter().map(|&access| Buf { dtype: F32, rank: 1, access }).collect(),
            ints,
            grid,
            stops: Vec::new(),
            shared: Vec::new(),
            scratch: Vec::new(),
            checks: vec!["the index is outside".to_owned()],
            libraries: Vec::new(),
        },
        floats: Vec::new(),
        shapes: bufs.iter().map(|_| vec![Extent::Int(0)]).collect(),
        places: Vec::new(),
        work: None,
    }
}

/// `y[i] = x[i] + 1`, one block an element.
pub(crate) fn add_one() -> (Kernel, KernelCode) {
    unsafe extern "C" fn code(bufs: *const *mut u8, _: *const i64, _: *mut u8, lo: i64, hi: i64) -> i64 {
        for i in lo..hi {
            // SAFETY: both buffers have a block for each element.
            unsafe {
                let (x, y) = ((*bufs).cast::<f32>(), (*bufs.add(1)).cast::<f32>());
                *y.add(i as usize) = *x.add(i as usize) + 1.0;
            }
        }
        0
    }
    // SAFETY: it follows the ABI for this kernel.
    (kernel("add_one", 1, &[Access::In, Access::Out], vec![Step::Int(0)]), unsafe {
        KernelCode::new(code, Arc::new(()))
    })
}

/// `x[i] *= 2` in place, one block for all.
pub(crate) fn double() -> (Kernel, KernelCode) {
    unsafe extern "C" fn code(bufs: *const *mut u8, ints: *const i64, _: *mut u8, _: i64, _: i64) -> i64 {
        // SAFETY: the buffer has as many elements as the int says.
        unsafe {
            let x = (*bufs).cast::<f32>();
            for i in 0..*ints {
                *x.add(i as usize) *= 2.0;
            }
        }
        0
    }
    // SAFETY: it follows the ABI for this kernel.
    (kernel("double", 1, &[Access::InOut], vec![Step::Const(1)]), unsafe {
        KernelCode::new(code, Arc::new(()))
    })
}

/// `y[i] = x[n - 1 - i]` in two parts, which share what the first has read.
pub(crate) fn backwards() -> (Kernel, KernelCode) {
    unsafe extern "C" fn code(bufs: *const *mut u8, ints: *const i64, _: *mut u8, lo: i64, hi: i64) -> i64 {
        // SAFETY: both buffers and what is shared have an element for each of the first blocks.
        unsafe {
            let n = *ints;
            let [x, y, shared] = [0, 1, 4].map(|i| (*bufs.add(i)).cast::<f32>());
            for i in lo..hi.min(n) {
                *shared.add(i as usize) = *x.add(i as usize);
            }
            for i in lo.max(n)..hi {
                *y.add((i - n) as usize) = *shared.add((2 * n - 1 - i) as usize);
            }
        }
        0
    }
    let (n, two) = (Step::Int(0), Step::Const(2));
    let mut k =
        kernel("backwards", 1, &[Access::In, Access::Out], vec![n, two, Step::Bin(StepOp::Mul, 0, 1)]);
    k.abi.stops = vec![vec![n]];
    k.abi.shared = vec![n, Step::Const(4), Step::Bin(StepOp::Mul, 0, 1)];
    // SAFETY: it follows the ABI for this kernel.
    (k, unsafe { KernelCode::new(code, Arc::new(())) })
}

/// Fails its first check.
pub(crate) fn failing() -> (Kernel, KernelCode) {
    unsafe extern "C" fn code(_: *const *mut u8, _: *const i64, _: *mut u8, _: i64, _: i64) -> i64 {
        1
    }
    // SAFETY: it touches nothing.
    (kernel("failing", 1, &[Access::In], vec![Step::Const(1)]), unsafe {
        KernelCode::new(code, Arc::new(()))
    })
}

/// Blocks of a millisecond.
pub(crate) fn slow() -> (Kernel, KernelCode) {
    unsafe extern "C" fn code(_: *const *mut u8, _: *const i64, _: *mut u8, lo: i64, hi: i64) -> i64 {
        std::thread::sleep(std::time::Duration::from_millis((hi - lo) as u64));
        0
    }
    // SAFETY: it touches nothing.
    (kernel("slow", 1, &[Access::In], vec![Step::Const(100_000)]), unsafe {
        KernelCode::new(code, Arc::new(()))
    })
}

pub(crate) fn executable(program: Program, code: Vec<KernelCode>) -> Arc<Executable> {
    Executable::new(program, code, Pool::new(2)).unwrap_or_else(|e| panic!("{e}"))
}
