//! What is not a value: memory, blocks and branches.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::intrinsics::Intrinsic;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, BasicValue, FunctionValue, PointerValue};

use super::{Ll, OK, Ty, V};

impl<'c> Ll<'c> {
    // Memory.

    pub(crate) fn load(&self, ty: BasicTypeEnum<'c>, p: PointerValue<'c>, align: u32) -> V<'c> {
        let v = self.b.build_load(ty, p, "").expect(OK);
        let load = v.as_instruction_value().expect("a load is an instruction");
        load.set_alignment(align).expect("a power of two");
        v
    }

    /// A load of what others change meanwhile.
    pub(crate) fn load_volatile(&self, ty: BasicTypeEnum<'c>, p: PointerValue<'c>, align: u32) -> V<'c> {
        let v = self.load(ty, p, align);
        let load = v.as_instruction_value().expect("a load is an instruction");
        load.set_volatile(true).expect("a load can be volatile");
        v
    }

    pub(crate) fn store(&self, p: PointerValue<'c>, v: V<'c>, align: u32) {
        self.b.build_store(p, v).expect(OK).set_alignment(align).expect("a power of two");
    }

    /// A store past the caches, which needs a vector that is so aligned.
    pub(crate) fn store_nontemporal(&self, p: PointerValue<'c>, v: V<'c>, align: u32) {
        let store = self.b.build_store(p, v).expect(OK);
        store.set_alignment(align).expect("a power of two");
        let one = self.ctx.i32_type().const_int(1, false);
        let node = self.ctx.metadata_node(&[one.into()]);
        store.set_metadata(node, self.ctx.get_kind_id("nontemporal")).expect("a store can have metadata");
    }

    /// Waits until what was stored past the caches is there for other threads.
    pub(crate) fn store_fence(&self) {
        self.intrinsic("llvm.x86.sse.sfence", &[], &[]);
    }

    /// An address as a number.
    pub(crate) fn number_of(&self, p: PointerValue<'c>) -> V<'c> {
        self.b.build_ptr_to_int(p, self.ctx.i64_type(), "").expect(OK).into()
    }

    /// Copies bytes between places that do not overlap.
    pub(crate) fn copy(&self, to: PointerValue<'c>, from: PointerValue<'c>, bytes: V<'c>, align: u32) {
        self.b.build_memcpy(to, align, from, align, bytes.into_int_value()).expect(OK);
    }

    /// The address of element `offset`, which exists.
    #[expect(unsafe_code, reason = "inkwell marks address arithmetic as unsafe")]
    pub(crate) fn element(&self, ty: Ty, p: PointerValue<'c>, offset: V<'c>) -> PointerValue<'c> {
        // SAFETY: this only emits an instruction; the offset is that of an element of the buffer, by the
        // invariants of checked primitives or by a check emitted before.
        unsafe { self.b.build_in_bounds_gep(self.ty(ty), p, &[offset.into_int_value()], "").expect(OK) }
    }

    /// The address so many elements from another, which may lie outside of the buffer: only lanes that are masked out
    /// are there.
    #[expect(unsafe_code, reason = "inkwell marks address arithmetic as unsafe")]
    pub(crate) fn beside(&self, ty: Ty, p: PointerValue<'c>, by: i64) -> PointerValue<'c> {
        // SAFETY: this only emits an instruction, which without `inbounds` is arithmetic on numbers.
        unsafe { self.b.build_gep(self.ty(ty), p, &[self.i64(by).into_int_value()], "").expect(OK) }
    }

    /// What a cell holds.
    pub(crate) fn read(&self, ty: BasicTypeEnum<'c>, p: PointerValue<'c>) -> V<'c> {
        self.b.build_load(ty, p, "").expect(OK)
    }

    /// Gives a cell its value.
    pub(crate) fn write(&self, p: PointerValue<'c>, v: V<'c>) {
        self.b.build_store(p, v).expect(OK);
    }

    fn aligned_call(
        &self,
        f: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[V<'c>],
        at: u32,
        align: u32,
    ) -> Option<V<'c>> {
        let f = Intrinsic::find(f).and_then(|i| i.get_declaration(&self.module, types)).expect("llvm has it");
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|&a| a.into()).collect();
        let call = self.b.build_call(f, &args, "").expect(OK);
        let kind = Attribute::get_named_enum_kind_id("align");
        call.add_attribute(AttributeLoc::Param(at), self.ctx.create_enum_attribute(kind, u64::from(align)));
        call.try_as_basic_value().basic()
    }

    /// The lanes of a vector that a mask names; zeros elsewhere.
    pub(crate) fn load_masked(
        &self,
        ty: BasicTypeEnum<'c>,
        p: PointerValue<'c>,
        mask: V<'c>,
        align: u32,
    ) -> V<'c> {
        let zero: V<'c> = ty.into_vector_type().const_zero().into();
        let types = [ty, self.ptr_ty().into()];
        self.aligned_call("llvm.masked.load", &types, &[p.into(), mask, zero], 0, align).expect("a value")
    }

    pub(crate) fn store_masked(&self, p: PointerValue<'c>, v: V<'c>, mask: V<'c>, align: u32) {
        let types = [v.get_type(), self.ptr_ty().into()];
        self.aligned_call("llvm.masked.store", &types, &[v, p.into(), mask], 1, align);
    }

    /// The lane that a mask names, where it is known to name one only.
    pub(crate) fn single_lane(&self, mask: V<'c>) -> Option<u32> {
        let mask = mask.into_vector_value();
        if !mask.is_const() {
            return None;
        }
        let named = |lane: u32| {
            let at = self.ctx.i32_type().const_int(u64::from(lane), false);
            // Of a constant this is a constant, not an instruction.
            self.b
                .build_extract_element(mask, at, "")
                .expect(OK)
                .into_int_value()
                .get_zero_extended_constant()
        };
        let lanes: Option<Vec<u64>> = (0..mask.get_type().get_size()).map(named).collect();
        let lanes = lanes?;
        let lane = lanes.iter().position(|&l| l == 1)?;
        (lanes.iter().sum::<u64>() == 1).then_some(lane as u32)
    }

    /// Stores a lane of a vector where a store of the whole at `p` would.
    #[expect(unsafe_code, reason = "inkwell marks address arithmetic as unsafe")]
    pub(crate) fn store_lane(&self, p: PointerValue<'c>, v: V<'c>, lane: u32) {
        let v = v.into_vector_value();
        let at = self.ctx.i32_type().const_int(u64::from(lane), false);
        let element = self.b.build_extract_element(v, at, "").expect(OK);
        // SAFETY: this only emits an instruction, with the address that the store of the whole would write to.
        let to = unsafe { self.b.build_in_bounds_gep(v.get_type().get_element_type(), p, &[at], "") };
        // A lane of something aligned need not be: one byte is always true, and costs nothing.
        self.b.build_store(to.expect(OK), element).expect(OK).set_alignment(1).expect("a power of two");
    }

    /// Elements at so many elements from `p`; zeros in the lanes that `mask` leaves out.
    pub(crate) fn gather(
        &self,
        ty: Ty,
        p: PointerValue<'c>,
        offsets: V<'c>,
        mask: V<'c>,
        align: u32,
    ) -> V<'c> {
        let lanes = self.lanes(offsets);
        // inkwell has no address arithmetic on vectors; on numbers it is the same.
        let base = self.number_of(p);
        let at = self.add(base, self.mul(offsets, self.i64(i64::from(ty.size())))).into_vector_value();
        let at = self.b.build_int_to_ptr(at, self.ptr_ty().vec_type(lanes), "").expect(OK);
        let result: BasicTypeEnum<'c> = self.vec_ty(ty, lanes).into();
        let types = [result, at.get_type().into()];
        let none: V<'c> = self.vec_ty(ty, lanes).const_zero().into();
        self.aligned_call("llvm.masked.gather", &types, &[at.into(), mask, none], 0, align).expect("a value")
    }

    /// Asks for the line of an address, which need not exist, to be brought near.
    /// It goes into the second level, since much else is read before it.
    pub(crate) fn prefetch(&self, p: PointerValue<'c>) {
        self.prefetch_with(p, 2);
    }

    /// The same for what is read soon, into the first level.
    pub(crate) fn prefetch_near(&self, p: PointerValue<'c>) {
        self.prefetch_with(p, 3);
    }

    fn prefetch_with(&self, p: PointerValue<'c>, locality: u64) {
        let number = |n: u64| self.ctx.i32_type().const_int(n, false).into();
        // To be read; data.
        let args = [p.into(), number(0), number(locality), number(1)];
        self.intrinsic("llvm.prefetch", &[self.ptr_ty().into()], &args);
    }

    // Control.

    pub(crate) fn block(&self, f: FunctionValue<'c>, name: &str) -> BasicBlock<'c> {
        self.ctx.append_basic_block(f, name)
    }

    pub(crate) fn here(&self) -> BasicBlock<'c> {
        self.b.get_insert_block().expect(OK)
    }

    pub(crate) fn at(&self, block: BasicBlock<'c>) {
        self.b.position_at_end(block);
    }

    pub(crate) fn jump(&self, to: BasicBlock<'c>) {
        self.b.build_unconditional_branch(to).expect(OK);
    }

    pub(crate) fn branch(&self, c: V<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        self.b.build_conditional_branch(c.into_int_value(), yes, no).expect(OK);
    }

    /// A branch of which the second block is hardly ever taken, so that LLVM leaves it out of the way of the first.
    pub(crate) fn branch_likely(&self, c: V<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        let branch = self.b.build_conditional_branch(c.into_int_value(), yes, no).expect(OK);
        let weights = [1 << 20, 1].map(|w| self.ctx.i32_type().const_int(w, false).into());
        let name = self.ctx.metadata_string("branch_weights").into();
        let node = self.ctx.metadata_node(&[name, weights[0], weights[1]]);
        branch.set_metadata(node, self.ctx.get_kind_id("prof")).expect("a branch can have metadata");
    }

    pub(crate) fn ret(&self, v: V<'c>) {
        self.b.build_return(Some(&v)).expect(OK);
    }

    pub(crate) fn phi(&self, ty: BasicTypeEnum<'c>) -> inkwell::values::PhiValue<'c> {
        self.b.build_phi(ty, "").expect(OK)
    }

    /// The zero of a type of numbers or vectors of numbers.
    pub(crate) fn zero(&self, ty: BasicTypeEnum<'c>) -> V<'c> {
        ty.const_zero()
    }

    /// An array of stack memory, `bytes` long.
    pub(crate) fn stack(&self, bytes: u32) -> PointerValue<'c> {
        let p = self.b.build_alloca(self.ctx.i8_type().array_type(bytes), "").expect(OK);
        p.as_instruction().expect("an alloca").set_alignment(64).expect("a power of two");
        p
    }

    /// A cell of stack memory for one value.
    pub(crate) fn cell(&self, ty: BasicTypeEnum<'c>) -> PointerValue<'c> {
        self.b.build_alloca(ty, "").expect(OK)
    }
}
