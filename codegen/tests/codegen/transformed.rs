//! Random primitives under random transformations, compiled: whatever is legal must come out of code generation, and
//! compute what the interpreter does.
#![allow(clippy::disallowed_methods, reason = "a campaign is told its length by the environment")]

use crate::harness::load::Loaded;
use crate::harness::{Near, compare, targets};
use crate::support::{Numbers, arguments, checked, random, sizes, step, text_of};
use codegen::{Compiler, Pass, Target};

fn round(seed: u64) -> Result<(), String> {
    let mut r = Numbers(seed);
    let text = random(&mut r);
    let mut prim = checked(&text)?;
    let cases: Vec<_> = (0..4)
        .map(|_| {
            let dims = sizes(&prim, &mut r);
            let args = arguments(&prim, &dims, &mut r);
            (dims, args)
        })
        .collect();
    // Some stay as they are written: then what is found for them is tested.
    for _ in 0..r.pick(&[0, 1, 8]) {
        if let (_, Ok(made)) = step(&prim, &mut r) {
            prim = made;
        }
    }
    prim.invariant = r.below(3) > 0;
    let targets = targets();
    // The host's code is what most run; every other target is met in turn.
    let other = targets[1 + r.below(targets.len() - 1)].clone();
    // Half of them with some passes turned off.
    let off: Vec<Pass> = if r.below(2) == 0 { Vec::new() } else { Pass::ALL.to_vec() };
    let other = off.into_iter().filter(|_| r.below(3) == 0).fold(other, Target::without);
    let kernels: Vec<_> =
        [&targets[0], &other].map(|t| (t, Compiler::new(t.clone()).compile_prim(&prim))).into();
    let mut loaded = Vec::new();
    for (target, compiled) in kernels {
        let compiled = compiled.map_err(|e| format!("{target}: {e}\n{}", text_of(&prim)))?;
        loaded.push((target, Loaded::new(&compiled)));
    }
    for (dims, args) in &cases {
        let want = interp::run_prim(&prim, dims, args, &interp::Limits::default());
        for ((target, kernel), pieces) in loaded.iter().flat_map(|k| [(k, 1), (k, 3)]) {
            let got = kernel.run(&prim, dims, args, pieces);
            let what = format!("seed {seed} {dims:?} in {pieces} for {target}\n{}", text_of(&prim));
            match (&want, &got) {
                (Ok(want), Ok(got)) => {
                    want.iter().zip(got).for_each(|(w, g)| compare(w, g, Near::Exact, &what))
                }
                (Err(_), Err(_)) => {}
                (want, got) => return Err(format!("{what}: {got:?}, not {want:?}")),
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_transformed_compiles_to_what_it_means() {
    let rounds: u64 = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(70);
    let from: u64 = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut wrong = Vec::new();
    for seed in from..from + rounds {
        let done = std::panic::catch_unwind(|| round(seed));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(e)) => wrong.push(format!("seed {seed}: {e}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into());
                wrong.push(format!("seed {seed}: {text}"));
            }
        }
    }
    wrong.sort_by_key(String::len);
    assert!(wrong.is_empty(), "{} of {rounds} wrong, the first:\n{}", wrong.len(), wrong[0]);
}
