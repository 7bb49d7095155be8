//! Modules to optimised text, assembly and object bytes: the one path for running now and for later.
//!
//! The object needs nothing but relocations within itself and the symbols it names: position independent,
//! small code model, no unwind tables, constants in `.rodata`. What has lanes has them by the schedule;
//! of LLVM's own vectorisers the one of loops runs behind it ([`PASSES`]).

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use inkwell::values::{CallSiteValue, FunctionValue, InstructionOpcode, InstructionValue, Operand};

use crate::Error;
use crate::ll::Ll;

/// Gives a function attributes by name, and the target's.
pub(crate) fn plain(ll: &Ll<'_>, f: FunctionValue<'_>, names: &[&str]) {
    for name in names {
        let kind = Attribute::get_named_enum_kind_id(name);
        f.add_attribute(AttributeLoc::Function, ll.ctx.create_enum_attribute(kind, 0));
    }
    let bits = ll.target.vector_bits().to_string();
    // Where lanes are not the schedule's LLVM may make some: one by one is faster than what puts each lane at a place
    // of its own.
    let mut features = ll.target.features.clone();
    if ll.target.has_masks() {
        let comma = if features.is_empty() { "" } else { "," };
        features.push_str(&format!("{comma}+prefer-no-scatter"));
    }
    let strings = [
        ("target-cpu", ll.target.base.as_str()),
        ("tune-cpu", ll.target.cpu.as_str()),
        ("target-features", features.as_str()),
        ("prefer-vector-width", &bits),
        // With less than this LLVM splits wide vectors where the processor prefers narrow ones.
        ("min-legal-vector-width", &bits),
    ];
    for (key, value) in strings.into_iter().filter(|s| !s.1.is_empty()) {
        f.add_attribute(AttributeLoc::Function, ll.ctx.create_string_attribute(key, value));
    }
}

/// Gives a parameter an attribute.
pub(crate) fn mark_param(ll: &Ll<'_>, f: FunctionValue<'_>, param: u32, name: &str) {
    let kind = Attribute::get_named_enum_kind_id(name);
    f.add_attribute(AttributeLoc::Param(param), ll.ctx.create_enum_attribute(kind, 0));
}

/// What is done to a module. Schedules have decided what is a vector and what is written out, and one function holds
/// all, so this is what is left of LLVM's own `default<O2>`: it takes half the time, and the code is as fast. Loops
/// that are no lanes here, as those that add to rows found by an index, may yet be vectors there; what a round stores
/// and the next reads stays in a register.
const PASSES: &str = "always-inline,function(\
    sroa<modify-cfg>,early-cse<memssa>,simplifycfg,jump-threading,instcombine<no-verify-fixpoint>,\
    loop-mssa(loop-rotate,licm,simple-loop-unswitch),gvn,loop(loop-idiom,indvars,loop-deletion),simplifycfg,\
    loop-vectorize<interleave-forced-only;no-vectorize-forced-only>,loop-load-elim,\
    instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),dse,adce)";

/// The same where nothing is to be improved.
const PLAIN: &str = "always-inline";

/// Verifies and optimises.
pub(crate) fn optimise(ll: &Ll<'_>, machine: &TargetMachine) -> Result<(), Error> {
    ll.module.set_triple(&machine.get_triple());
    ll.module.set_data_layout(&machine.get_target_data().get_data_layout());
    ll.module.verify().map_err(|e| Error::Llvm(e.to_string()))?;
    ll.module
        .run_passes(if ll.target.is_plain() { PLAIN } else { PASSES }, machine, PassBuilderOptions::create())
        .map_err(|e| Error::Llvm(e.to_string()))?;
    store_single_lanes(ll);
    Ok(())
}

/// Stores one lane by a store of one element, where that is what a mask turned out to leave.
///
/// LLVM 22 does the same later, and wrongly where the lanes were made narrower just before: it stores the element as it
/// was before, and so writes over the next ones.
fn store_single_lanes(ll: &Ll<'_>) {
    let blocks = ll.module.get_functions().flat_map(FunctionValue::get_basic_blocks);
    let stores: Vec<InstructionValue<'_>> = blocks
        .flat_map(BasicBlock::get_instructions)
        .filter(|i| i.get_opcode() == InstructionOpcode::Call)
        .filter(|i| CallSiteValue::try_from(*i).is_ok_and(|call| is_masked_store(&call)))
        .collect();
    for store in stores {
        let operands = [0, 1, 2].map(|i| store.get_operand(i).and_then(Operand::value));
        let [Some(value), Some(to), Some(mask)] = operands else { continue };
        let Some(lane) = ll.single_lane(mask) else { continue };
        ll.b.position_before(&store);
        ll.store_lane(to.into_pointer_value(), value, lane);
        store.erase_from_basic_block();
    }
}

fn is_masked_store(call: &CallSiteValue<'_>) -> bool {
    let name = |f: FunctionValue<'_>| f.get_name().to_bytes().starts_with(b"llvm.masked.store.");
    call.get_called_fn_value().is_some_and(name)
}

/// The bytes of the object, or the text of the assembly.
pub(crate) fn write(ll: &Ll<'_>, machine: &TargetMachine, kind: FileType) -> Result<Vec<u8>, Error> {
    let buffer = machine.write_to_memory_buffer(&ll.module, kind).map_err(|e| Error::Llvm(e.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}
