//! The loader, on objects that the C compiler makes. Without one the tests have nothing to load and say so.
#![expect(unsafe_code, reason = "the code that was loaded is called")]

use std::process::Command;

use tensor::abi::{Access, Step};
use vm::loader::{self, Error};
use vm::{Context, Function, KernelCode, Limits, Program, Type};

use crate::build::*;
use crate::programs::x;

/// Compiles C to an object.
fn object(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().ok()?;
    let (c, o) = (folder.path().join("k.c"), folder.path().join("k.o"));
    std::fs::write(&c, source).ok()?;
    let done =
        Command::new("cc").args(["-c", "-O1", "-fno-builtin"]).args(flags).arg(&c).arg("-o").arg(&o).status();
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("skipped: no C compiler");
        return None;
    }
    std::fs::read(o).ok()
}

const KERNEL: &str = "
#include <stdint.h>
float scale(float);
double exp(double);
static const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
static int64_t calls;
int64_t k(void **bufs, const int64_t *ints, void *scratch, int64_t lo, int64_t hi) {
    const float *x = bufs[0]; float *y = bufs[1];
    for (int64_t i = lo; i < hi; i++) y[i] = scale(x[i]) + table[i & 3] + (float)exp(0.0);
    calls++;
    return 0;
}
";
const OTHER: &str =
    "float factor = 2.0f; float *where = &factor; float scale(float x) { return x * *where; }";

fn run(code: KernelCode) -> Vec<f32> {
    let main: Function = function(
        "main",
        &[Type::Int, tensor(F32, 1)],
        &[],
        &[tensor(F32, 1)],
        (1, 0, &[t(F32, 1), t(F32, 1)]),
        "alloc t1, [i0]\nkernel k0, [i0 t0 t1]\nret [t1]",
    );
    let program = Program {
        entries: vec![entry(&[("x", F32, &["n"])], &[(F32, 1)])],
        functions: vec![main],
        kernels: vec![kernel("k", 1, &[Access::In, Access::Out], vec![Step::Int(0)])],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, vec![code]));
    context.run("main", &[&x(5)], &Limits::default()).unwrap()[0].as_f32().unwrap().to_vec()
}

#[test]
fn two_objects_are_linked_with_each_other_and_with_libm() {
    // Every way of reaching a symbol: near, by the table, by absolute addresses.
    for flags in [&["-fPIC"][..], &["-fno-pic", "-fno-plt"], &["-fno-pic", "-mcmodel=large"], &["-fPIE"]] {
        let (Some(a), Some(b)) = (object(KERNEL, flags), object(OTHER, &["-fPIC"])) else { return };
        match loader::load(&[&a, &b], &[]) {
            Ok(code) => {
                assert_eq!(code.functions().collect::<Vec<_>>(), ["k", "scale"]);
                // SAFETY: `k` follows the ABI for the kernel of `run`.
                let k = unsafe { code.kernel("k") }.unwrap();
                drop(code);
                assert_eq!(run(k), [2.0, 5.0, 8.0, 11.0, 10.0], "{flags:?}");
                assert_eq!(run(run_again(&a, &b)), [2.0, 5.0, 8.0, 11.0, 10.0]);
            }
            // Code that is not position independent may want addresses below 2 GiB, which a mapping has not.
            Err(e) => {
                assert!(flags.contains(&"-fno-pic") && e.to_string().contains("too large"), "{flags:?}: {e}")
            }
        }
    }
}

fn run_again(a: &[u8], b: &[u8]) -> KernelCode {
    let code = loader::load(&[b, a], &[]).unwrap();
    // SAFETY: as above.
    unsafe { code.kernel("k") }.unwrap()
}

#[test]
fn what_is_missing_is_named() {
    let Some(a) = object(KERNEL, &["-fPIC"]) else { return };
    assert_eq!(loader::load(&[&a], &[]).unwrap_err(), Error::Undefined("scale".to_owned()));
    let Some(system) = object("int system(const char *); int f(void) { return system(0); }", &["-fPIC"])
    else {
        return;
    };
    // libc is in the process, but an object may call only what the table lists.
    assert_eq!(loader::load(&[&system], &[]).unwrap_err(), Error::Undefined("system".to_owned()));
    let lacking = loader::load(&[&a], &["libm.so.6"]).unwrap_err();
    assert_eq!(lacking.to_string(), "symbol `scale` is not in libm.so.6");
    let missing = loader::load(&[&a], &["libdoes-not-exist.so.1"]).unwrap_err();
    assert!(
        missing.to_string().starts_with("library `libdoes-not-exist.so.1` is not available"),
        "{missing}"
    );
    assert!(!loader::library_available("libdoes-not-exist.so.1"));
    assert!(loader::library_available("libm.so.6"));
    assert!(
        loader::symbol_available("libm.so.6", "tgamma") && !loader::symbol_available("libm.so.6", "nothing")
    );
    let Some(gamma) = object("double tgamma(double); double f(double x) { return tgamma(x); }", &["-fPIC"])
    else {
        return;
    };
    assert!(loader::load(&[&gamma], &[]).is_err());
    assert!(loader::load(&[&gamma], &["libm.so.6"]).is_ok());
    let Some(b) = object(OTHER, &["-fPIC"]) else { return };
    assert!(loader::load(&[&b, &b], &[]).unwrap_err().to_string().contains("is defined twice"));
}

#[test]
fn no_damaged_object_is_more_than_an_error() {
    let Some(whole) = object(OTHER, &["-fPIC"]) else { return };
    for len in 0..whole.len() {
        let _ = loader::load(&[&whole[..len]], &[]);
    }
    // Most flips change code or names and load all the same; none may crash the loader. The code is not run.
    for at in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let _ = loader::load(&[&damaged], &[]);
        }
    }
    assert!(loader::load(&[b"not an object"], &[]).is_err());
}
