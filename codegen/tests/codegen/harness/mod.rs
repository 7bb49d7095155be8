//! What the tests of kernels stand on: primitives built by hand, a loader for tests only, buffers that end at a
//! page no one may touch, and the comparison with the interpreter.
#![allow(
    clippy::disallowed_methods,
    dead_code,
    improper_ctypes_definitions,
    unreachable_pub,
    unsafe_code,
    missing_docs,
    reason = "each test file uses its own part; kernels are called by pointer"
)]

pub mod build;
pub mod functions;
pub mod load;

use codegen::{Compiler, Target};
use ir::loops::Prim;
use tensor::{DType, Tensor};

use load::Loaded;

/// The instructions between labels.
pub fn blocks(asm: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in asm.lines().map(str::trim) {
        if line.ends_with(':') {
            blocks.push(Vec::new());
        } else if !line.starts_with(['.', '#']) {
            blocks.last_mut().expect("never empty").push(line);
        }
    }
    blocks
}

/// The basic block with the most instructions that begin so.
pub fn hottest<'a>(asm: &'a str, of: &str) -> Vec<&'a str> {
    let count = |b: &Vec<&str>| b.iter().filter(|l| l.starts_with(of)).count();
    blocks(asm).into_iter().max_by_key(count).expect("never empty")
}

/// Tensors of integers for the parameters of a primitive at some dims.
pub fn arguments(prim: &Prim, dims: &[i64], element: &mut dyn FnMut(DType) -> i64) -> Vec<Tensor> {
    let env = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
    let tensor = |b: &ir::loops::BufId| {
        let buf = prim.buf(*b);
        let shape: Vec<i64> = buf.shape.iter().map(|d| d.eval(&env).expect("an extent")).collect();
        let mut t = Tensor::zeros(buf.dtype, &shape).expect("a small tensor");
        (0..t.len()).for_each(|i| t.set_i64(i, element(buf.dtype)));
        t
    };
    prim.params.iter().map(tensor).collect()
}

/// Numbers that look random and are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 4.0 - 2.0
    }

    pub fn tensor(&mut self, dtype: DType, shape: &[i64]) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape).expect("a small tensor");
        for i in 0..t.len() {
            if dtype.is_float() {
                t.set_f64(i, self.float());
            } else {
                t.set_i64(i, self.next() as i64 >> (self.next() % 64));
            }
        }
        t
    }

    /// Integers of a range, which every order of summation adds to the same bits.
    pub fn small(&mut self, dtype: DType, shape: &[i64], lo: i64, hi: i64) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape).expect("a small tensor");
        for i in 0..t.len() {
            t.set_i64(i, lo + (self.next() % (hi - lo) as u64) as i64);
        }
        t
    }
}

/// The targets that this machine can run and whose code differs: each width of vectors, and what LLVM does not improve.
pub fn targets() -> Vec<Target> {
    let mut list = vec![Target::host(), Target::host().plain()];
    for name in ["x86-64", "x86-64-v3", "x86-64-v4"] {
        let t = Target::named(name).expect("a known target");
        if t.check_host().is_ok() {
            list.push(t);
        }
    }
    list
}

/// How near results must be.
#[derive(Clone, Copy, PartialEq)]
pub enum Near {
    Exact,
    /// Difference by the larger of 1 and the magnitude.
    Within(f64),
}

/// A primitive compiled for every target that runs here.
pub struct Case {
    pub prim: Prim,
    pub kernels: Vec<(String, Loaded)>,
}

impl Case {
    pub fn new(prim: Prim) -> Case {
        Case::of(Prim { invariant: true, ..prim })
    }

    pub fn of(prim: Prim) -> Case {
        let kernels = targets()
            .into_iter()
            .map(|t| {
                let compiler = Compiler::new(t.clone());
                let compiled = compiler.compile_prim(&prim).unwrap_or_else(|e| panic!("{}: {e}", prim.name));
                (t.to_string(), Loaded::new(&compiled))
            })
            .collect();
        Case { prim, kernels }
    }

    /// Runs each kernel whole and in slices, and compares with the interpreter.
    pub fn check(&self, dims: &[i64], args: &[Tensor], near: Near) {
        let limits = interp::Limits::default();
        let want = interp::run_prim(&self.prim, dims, args, &limits);
        for (target, kernel) in &self.kernels {
            for pieces in [1, 3] {
                let got = kernel.run(&self.prim, dims, args, pieces);
                let what = format!("{} {dims:?} on {target} in {pieces}", self.prim.name);
                match (&want, &got) {
                    (Ok(want), Ok(got)) => {
                        assert_eq!(want.len(), got.len(), "{what}");
                        want.iter().zip(got).for_each(|(w, g)| compare(w, g, near, &what));
                    }
                    (Err(want), Err(got)) => {
                        let said = want.diagnostic(ir::source::Span::default());
                        assert!(
                            said.labels.iter().any(|l| got.ends_with(&l.text)),
                            "{what}: {got}, not {want}"
                        );
                    }
                    (Ok(_), Err(e)) => panic!("{what}: failed the check `{e}`"),
                    (Err(e), Ok(_)) => panic!("{what}: the interpreter fails: {e}"),
                }
            }
        }
    }
}

pub fn compare(want: &Tensor, got: &Tensor, near: Near, what: &str) {
    assert_eq!((want.dtype(), want.shape()), (got.dtype(), got.shape()), "{what}");
    for i in 0..want.len() {
        if !want.dtype().is_float() {
            assert_eq!(want.get_i64(i), got.get_i64(i), "{what}: element {i}");
            continue;
        }
        let (w, g) = (want.get_f64(i), got.get_f64(i));
        let fine = (w.is_nan() && g.is_nan())
            || w == g
            || matches!(near, Near::Within(d) if (w - g).abs() <= d * w.abs().max(1.0));
        assert!(fine, "{what}: element {i}: want {w:e}, got {g:e}");
    }
}
