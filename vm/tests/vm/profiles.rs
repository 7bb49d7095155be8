//! What the profiler notes of a run, and what of it lies in a file.

use std::sync::Arc;

use crate::build::*;
use crate::programs::{chain, x};
use tensor::Tensor;
use tensor::abi::{Step, StepOp};
use vm::blob::Blob;
use vm::tnx::{self, Package};
use vm::{Arg, Context, Limits, Output, Profile, Program, Work, verify};

/// The chain, whose first kernel says its work: n operations, 8n bytes.
fn loop_program() -> Program {
    let mut program = chain().0;
    let bytes = vec![Step::Int(0), Step::Const(8), Step::Bin(StepOp::Mul, 0, 1)];
    program.kernels[0].work = Some(Work { flops: vec![Step::Int(0)], bytes, guessed: false });
    program
}

#[test]
fn each_instruction_is_counted_and_kernels_say_their_work() {
    let mut context = Context::new(executable(loop_program(), chain().1));
    let mut profile = Profile::new(context.executable().program());
    for n in [3, 5] {
        let watched =
            context.profile("main", vec![Arg::Given(x(n))], &Limits::default(), &mut profile).unwrap();
        let watched: Vec<Tensor> = watched.into_iter().filter_map(Output::into_tensor).collect();
        assert_eq!(watched, context.run("main", &[&x(n)], &Limits::default()).unwrap());
    }
    assert_eq!(profile.runs(), 2);
    let rows: Vec<_> = profile.rows().collect();
    assert_eq!(
        rows.iter().map(|r| (r.0, r.1, r.2.calls)).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4].map(|pc| (0, pc, 2))
    );
    let work = rows[1].2.work.unwrap();
    assert_eq!((work.flops, work.bytes), (3 + 5, 8 * (3 + 5)));
    assert_eq!(rows[3].2.work, None, "the second kernel says nothing");
    assert!(rows.iter().all(|(_, _, r)| r.median_ns() <= r.total_ns));
    // Events are those of the first run, inner ones first.
    let (events, left_out) = profile.events();
    let named: Vec<_> = events.iter().map(|e| (e.name.as_str(), e.kind)).collect();
    let kernels = chain().0.kernels;
    let (first, second) = (kernels[0].name.as_str(), kernels[1].name.as_str());
    let want =
        [("alloc", "memory"), (first, "kernel"), ("own", "memory"), (second, "kernel"), ("main", "function")];
    assert_eq!((named, left_out), (want.to_vec(), 0));
    assert_eq!(events[1].shapes, ["f32[3]", "out f32[3]"]);
    let whole = &events[4];
    assert!(
        events.iter().all(|e| e.start_ns >= whole.start_ns && e.start_ns + e.ns <= whole.start_ns + whole.ns)
    );
}

#[test]
fn a_run_that_fails_is_noted_as_far_as_it_came() {
    let mut context = Context::new(executable(loop_program(), chain().1));
    let mut profile = Profile::new(context.executable().program());
    let limits = Limits { fuel: Some(1), ..Limits::default() };
    context.profile("main", vec![Arg::Given(x(2))], &limits, &mut profile).unwrap_err();
    assert_eq!(profile.rows().map(|r| r.1).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(profile.events().0.last().unwrap().name, "main");
}

#[test]
fn a_file_keeps_the_work_and_one_without_it_is_read() {
    let package = |program| Package { program, ..Package::default() };
    let decode = |bytes: &[u8]| tnx::decode(&Arc::new(Blob::copy(bytes)));
    let with = tnx::encode(&package(loop_program())).unwrap();
    assert_eq!(decode(&with).unwrap().program, loop_program());
    let without = tnx::encode(&package(chain().0)).unwrap();
    assert_eq!(decode(&without).unwrap().program, chain().0);
    let mut wrong = loop_program();
    wrong.kernels[0].work.as_mut().unwrap().flops = vec![Step::Int(7)];
    assert!(verify::verify(&wrong).is_err(), "a step reads an int that the kernel has not");
}
