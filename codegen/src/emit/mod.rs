//! Loops to LLVM: a scheduled primitive becomes the body of a kernel.
//!
//! In: a scheduled primitive and its layout. Out: two functions in a module. The *entry* has
//! the ABI of `tensor::abi` and only takes its arguments apart; the *body* has each buffer as a parameter
//! that nothing else points to, which is how LLVM learns that they do not overlap.
//!
//! Everything is emitted for a *tile*: so many rows of one loop, so many vectors of another, at once
//! ([`Tile`], [`Values`]). One row without lanes is plain scalar code, so each construct is written once.
//! What is the same in the whole tile is computed once; where in memory an access of the tile begins is
//! computed at a *point* of it, as scalar code ([`Emit::at_point`]).
//!
//! Files: `tile` the values of a tile, `stmt` statements, `vector_loop` loops by lanes and rows, `expr` expressions,
//! `select` those of which one part is evaluated, `reduce` reductions, `memory` addresses, checks, loads and stores,
//! `divergent_while` loops that lanes leave one by one, `poll` safepoints; each other file is a pass.

mod bounds_checks;
mod coalesce;
mod divergent_while;
mod dot_products;
mod expr;
mod hoist_checks;
mod loop_versions;
mod matrix_tiles;
mod memory;
mod merge_strips;
mod narrow_compare;
mod poll;
mod popcount;
mod prefetch;
mod reduce;
mod register_promotion;
mod scatter;
mod select;
mod split_loop;
mod stmt;
mod streaming_stores;
mod strided;
mod tile;
mod tile_products;
mod transpose;
mod vector_loop;

use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{FunctionValue, PointerValue};
use ir::loops::{BufId, Prim, Scalar, Stmt, VarId};
use shape::{Expr as Dim, Op, Step, Sym};
use std::collections::BTreeMap;
use tensor::DType;

use crate::layout::Layout;
use crate::ll::{Ll, Ty, V};
use crate::schedule::{dim_equals_constant, with_constant_dim};
use crate::{Error, Pass, object};
use bounds_checks::Ranges;
pub(crate) use dot_products::side_by_side;
use matrix_tiles::{Configuration, Made};
use merge_strips::Strips;
use prefetch::LaterRound;
use streaming_stores::{SizeVersion, Streamed};
use tile::{Slot, Tile, Values};
pub(crate) use tile_products::rounds_made;

/// A buffer in the body.
#[derive(Clone)]
enum Location<'c> {
    /// A scalar input: its value in a register.
    Number(V<'c>),
    /// In memory, with extents and distances in elements.
    Memory { base: PointerValue<'c>, extents: Vec<V<'c>>, strides: Vec<V<'c>> },
}

/// The state of emitting one body.
pub(crate) struct Emit<'a, 'c> {
    ll: &'a Ll<'c>,
    prim: &'a Prim,
    /// The same where a condition has told a dim: which, and what it is.
    known: &'a [(Sym, i64, Prim)],
    layout: &'a Layout,
    function: FunctionValue<'c>,
    /// Cells are made here, so that they exist once.
    entry: BasicBlock<'c>,
    dims: BTreeMap<Sym, V<'c>>,
    locations: Vec<Location<'c>>,
    slots: Vec<Slot<'c>>,
    tile: Tile<'c>,
    /// In a branch that not every lane takes: for each vector, the lanes that do (those that exist); then there is
    /// one row. Otherwise empty.
    guards: Vec<V<'c>>,
    /// The later round of a loop around whose reads are asked for.
    later: Option<LaterRound<'c>>,
    /// Whether that round is what is evaluated.
    in_later_round: bool,
    /// Whether the lanes are those of a reduction, which are added up in the end.
    folds: bool,
    /// Whether lanes store one after the other, as the rounds of their loop do.
    in_turn: bool,
    /// The stores of the loop around that may go past the caches.
    past: Option<Streamed<'c>>,
    /// The strips that are gone over at once.
    strips: Vec<Strips<'c>>,
    /// Which of the two nests is emitted, in one that stands twice.
    way: Option<SizeVersion>,
    /// Whether the outputs are large that stores past the caches are to.
    large: Vec<V<'c>>,
    /// The indices of the loop around that were checked before it, by where they are.
    hoisted: Vec<*const Scalar>,
    /// Sums that tiles made for the rows at hand.
    made: Vec<Made<'c>>,
    /// What the processor was told of tiles; none: there are no products by tiles.
    configuration: Option<Configuration<'c>>,
    /// What loops count through.
    ranges: Ranges,
    scratch: PointerValue<'c>,
    /// Whether what is emitted is one block alone.
    alone: bool,
    /// The slice of the grid.
    slice: (V<'c>, V<'c>),
    /// The addresses of the buffers, as they came.
    addresses: PointerValue<'c>,
}

/// Emits a primitive under a symbol.
pub(crate) fn emit(ll: &Ll<'_>, prim: &Prim, layout: &Layout, symbol: &str) -> Result<(), Error> {
    emit_with(ll, prim, layout, symbol, |e| e.statements(&prim.body))
}

/// Emits a kernel with the arguments of a primitive and a body of one's own.
pub(crate) fn emit_with<'c>(
    ll: &Ll<'c>,
    prim: &Prim,
    layout: &Layout,
    symbol: &str,
    inside: impl FnOnce(&mut Emit<'_, 'c>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (ptr, i64) = (ll.ptr_ty(), ll.ctx.i64_type());
    let n_ints = prim.dims.len() + layout.scalars.len();
    let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![ptr.into(); layout.bufs.len() + 1];
    params.extend(vec![BasicMetadataTypeEnum::from(i64); n_ints + 2]);
    params.push(ptr.into());
    let body = ll.module.add_function("body", i64.fn_type(&params, false), Some(Linkage::Internal));
    object::plain(ll, body, &["nounwind", "alwaysinline"]);
    for i in 0..=layout.bufs.len() as u32 {
        object::mark_param(ll, body, i, "noalias");
    }

    let entry_ty = i64.fn_type(&[ptr.into(), ptr.into(), ptr.into(), i64.into(), i64.into()], false);
    let entry = ll.module.add_function(symbol, entry_ty, Some(Linkage::External));
    object::plain(ll, entry, &["nounwind"]);
    ll.at(ll.block(entry, "entry"));
    let args = entry.get_params();
    let [bufs, ints, scratch, lo, hi] = args.as_slice() else {
        unreachable!("the entry has five parameters")
    };
    let mut call = Vec::new();
    for i in 0..layout.bufs.len() as i64 {
        let at = ll.element(Ty::I64, bufs.into_pointer_value(), ll.i64(i));
        call.push(ll.load(ptr.into(), at, 8));
    }
    call.push(*scratch);
    for i in 0..n_ints as i64 {
        let at = ll.element(Ty::I64, ints.into_pointer_value(), ll.i64(i));
        call.push(ll.load(i64.into(), at, 8));
    }
    call.extend([*lo, *hi, *bufs]);
    let answer = ll.call(body, &call).expect("the body answers");
    ll.ret(answer);

    let known = known(prim);
    Emit::new(ll, (prim, &known), layout, body).run(inside)
}

/// What is known in the branches of a primitive.
fn known(prim: &Prim) -> Vec<(Sym, i64, Prim)> {
    let mut all: Vec<(Sym, i64, Prim)> = Vec::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::If(c, ..) = s
                && let Some((dim, value)) = dim_equals_constant(c).filter(|t| prim.dims.contains(&t.0))
                && !all.iter().any(|k| (k.0, k.1) == (dim, value))
            {
                all.push((dim, value, with_constant_dim(prim, dim, value)));
            }
        });
    });
    all
}

impl<'a, 'c> Emit<'a, 'c> {
    fn new(
        ll: &'a Ll<'c>,
        (prim, known): (&'a Prim, &'a [(Sym, i64, Prim)]),
        layout: &'a Layout,
        function: FunctionValue<'c>,
    ) -> Emit<'a, 'c> {
        let entry = ll.block(function, "entry");
        let n = function.count_params();
        let last = |back: u32| function.get_nth_param(n - back).expect("the body has its parameters");
        Emit {
            ll,
            prim,
            known,
            layout,
            function,
            entry,
            dims: BTreeMap::new(),
            locations: Vec::new(),
            slots: vec![Slot::Unset; prim.vars.len()],
            tile: Tile::POINT,
            guards: Vec::new(),
            later: None,
            in_later_round: false,
            folds: false,
            in_turn: false,
            past: None,
            strips: Vec::new(),
            way: None,
            large: Vec::new(),
            hoisted: Vec::new(),
            made: Vec::new(),
            configuration: None,
            ranges: Ranges::new(prim),
            scratch: function.get_nth_param(layout.bufs.len() as u32).expect("scratch").into_pointer_value(),
            alone: layout.grid.is_none(),
            slice: (last(3), last(2)),
            addresses: last(1).into_pointer_value(),
        }
    }

    fn run(mut self, inside: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let ll = self.ll;
        ll.at(self.entry);
        let first = self.layout.bufs.len() as u32;
        let param = |i: u32| self.function.get_nth_param(i).expect("the body has its parameters");
        self.dims = self.prim.dims.iter().zip(first + 1..).map(|(d, i)| (*d, param(i))).collect();
        for i in 0..self.prim.bufs.len() {
            let location = self.locate(BufId(i as u32))?;
            self.locations.push(location);
        }
        let start = ll.block(self.function, "start");
        ll.at(start);
        for (buf, literal) in &self.layout.init {
            self.fill_output(*buf, *literal)?;
        }
        inside(&mut self)?;
        self.store_fence();
        self.release_tiles();
        ll.ret(ll.i64(0));
        ll.at(self.entry);
        ll.jump(start);
        Ok(())
    }

    fn locate(&mut self, id: BufId) -> Result<Location<'c>, Error> {
        let ll = self.ll;
        let buf = self.prim.buf(id);
        let argument = |i: usize| self.function.get_nth_param(i as u32).expect("the body has its parameters");
        if let Some(i) = self.layout.scalars.iter().position(|b| *b == id) {
            let bits = argument(self.layout.bufs.len() + 1 + self.prim.dims.len() + i);
            return Ok(Location::Number(number(ll, buf.dtype, bits)));
        }
        let base = if let Some(i) = self.layout.bufs.iter().position(|b| *b == id) {
            argument(i).into_pointer_value()
        } else if let Some(bytes) = self.layout.stack.get(&id) {
            ll.stack(*bytes)
        } else if let Some(offset) = self.layout.scratch.get(&id) {
            let offset = self.dim(&offset.clone())?;
            ll.element(Ty::I8, self.scratch, offset)
        } else if let Some(offset) = self.layout.shared.get(&id) {
            let offset = self.dim(&offset.clone())?;
            // Behind the buffers and the two bytes.
            let at = ll.element(Ty::I64, self.addresses, ll.i64(self.layout.bufs.len() as i64 + 2));
            let base = ll.load(ll.ptr_ty().into(), at, 8).into_pointer_value();
            ll.element(Ty::I8, base, offset)
        } else {
            return Err(self.fault(format!("buffer {} is neither an argument nor local", buf.name)));
        };
        let (extents, strides) = self.distances(id)?;
        Ok(Location::Memory { base, extents, strides })
    }

    /// The extents of a buffer, and how far apart neighbours are along each axis.
    fn distances(&mut self, id: BufId) -> Result<(Vec<V<'c>>, Vec<V<'c>>), Error> {
        let ll = self.ll;
        let prim = self.prim;
        let shape = &prim.buf(id).shape;
        let extents = shape.iter().map(|d| self.dim(d)).collect::<Result<Vec<_>, _>>()?;
        let mut strides = vec![ll.i64(1); extents.len()];
        for d in (1..extents.len()).rev() {
            strides[d - 1] = ll.mul(strides[d], extents[d]);
        }
        Ok((extents, strides))
    }

    /// Emits a branch in which a condition holds, with what that tells of a dim.
    fn block_knowing(&mut self, c: &Scalar, stmts: &[Stmt]) -> Result<(), Error> {
        let is = |k: &&(Sym, i64, Prim)| dim_equals_constant(c) == Some((k.0, k.1));
        let Some((dim, value, known)) = self.known.iter().find(is) else { return self.block(stmts) };
        let outside = (self.prim, self.dims.clone(), self.locations.clone());
        self.prim = known;
        self.dims.insert(*dim, self.ll.i64(*value));
        for i in 0..self.locations.len() {
            let (new, apart) = self.distances(BufId(i as u32))?;
            if let Location::Memory { extents, strides, .. } = &mut self.locations[i] {
                (*extents, *strides) = (new, apart);
            }
        }
        self.block(stmts)?;
        (self.prim, self.dims, self.locations) = outside;
        Ok(())
    }

    /// A dim expression at the current point. It is the size of something that exists, so nothing overflows.
    fn dim(&mut self, e: &Dim) -> Result<V<'c>, Error> {
        Ok(self.dims_of(e)?.one())
    }

    /// The values of a dim expression over the current tile.
    fn dims_of(&mut self, e: &Dim) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        if e.is_poison() {
            return Err(self.fault("the size of a buffer or loop overflows".to_string()));
        }
        let mut values: Vec<Values<'c>> = Vec::new();
        for step in e.steps() {
            let value = match step {
                Step::Const(c) => Values::uniform(ll.i64(c)),
                Step::Sym(sym) => self.symbol(sym)?,
                Step::Bin(op, a, b) => {
                    let args = [&values[a as usize], &values[b as usize]];
                    self.map(&args, |v| match op {
                        Op::Add => ll.add(v[0], v[1]),
                        Op::Sub => ll.sub(v[0], v[1]),
                        Op::Mul => ll.mul(v[0], v[1]),
                        Op::FloorDiv => ll.operation(ir::Intrinsic::Div, DType::I64, v),
                        Op::CeilDiv => {
                            let zero = ll.sub(v[0], v[0]);
                            let minus = ll.sub(zero, v[0]);
                            ll.sub(zero, ll.operation(ir::Intrinsic::Div, DType::I64, &[minus, v[1]]))
                        }
                        Op::Mod => ll.operation(ir::Intrinsic::Rem, DType::I64, v),
                        Op::Min => ll.operation(ir::Intrinsic::Min, DType::I64, v),
                        Op::Max => ll.operation(ir::Intrinsic::Max, DType::I64, v),
                    })
                }
            };
            values.push(value);
        }
        values.pop().ok_or_else(|| self.fault("an empty dim expression".to_string()))
    }

    /// A dim, or a variable by its name.
    fn symbol(&mut self, sym: Sym) -> Result<Values<'c>, Error> {
        if let Some(v) = self.dims.get(&sym) {
            return Ok(Values::uniform(*v));
        }
        let var = self.prim.vars.iter().position(|v| v.name == sym);
        let var = var.ok_or_else(|| self.fault(format!("{sym} is neither a dim nor a variable")))?;
        self.variable(VarId(var as u32))
    }

    /// Whether a pass runs.
    fn runs(&self, pass: Pass) -> bool {
        self.ll.target.runs(pass)
    }

    /// The builder.
    pub(crate) fn ll(&self) -> &'a Ll<'c> {
        self.ll
    }

    /// What is emitted.
    pub(crate) fn prim(&self) -> &'a Prim {
        self.prim
    }

    /// The address of a buffer's first element; of a scalar input, that of a copy.
    pub(crate) fn pointer(&mut self, buf: BufId) -> V<'c> {
        match self.locations[buf.0 as usize] {
            Location::Memory { base, .. } => base.into(),
            Location::Number(v) => {
                let v = self.ll.encode(self.prim.buf(buf).dtype, v);
                self.address_of(v)
            }
        }
    }

    /// The address of a copy of a value.
    pub(crate) fn address_of(&mut self, v: V<'c>) -> V<'c> {
        let cell = self.cell(v.get_type());
        self.ll.write(cell, v);
        cell.into()
    }

    /// Leaves a word where the caller looks for the value of a failed check's message.
    pub(crate) fn note(&self, word: V<'c>) {
        self.ll.store(self.scratch, word, 8);
    }

    /// The value of an expression outside of every loop.
    pub(crate) fn number(&mut self, s: &Scalar) -> Result<V<'c>, Error> {
        Ok(self.scalar(s)?.one())
    }

    /// Leaves the function with the number of a check where `bad` holds.
    pub(crate) fn require(&mut self, bad: V<'c>, message: &str) -> Result<(), Error> {
        let ll = self.ll;
        let number = self.layout.checks.iter().position(|m| m == message);
        let number = number.ok_or_else(|| self.fault(format!("no number for the check `{message}`")))?;
        let (failed, fine) = (ll.block(self.function, "failed"), ll.block(self.function, "fine"));
        ll.branch(bad, failed, fine);
        ll.at(failed);
        self.leave(number as i64 + 1);
        ll.at(fine);
        Ok(())
    }

    fn fault(&self, message: String) -> Error {
        Error::Prim { prim: self.prim.name.clone(), message }
    }
}

/// A scalar input out of the 64 bits in which it comes.
pub(crate) fn number<'c>(ll: &Ll<'c>, d: DType, bits: V<'c>) -> V<'c> {
    match d {
        DType::I64 => bits,
        DType::F64 => ll.bits(bits, Ty::F64),
        DType::F32 | DType::F16 | DType::Bf16 => ll.fptrunc(ll.bits(bits, Ty::F64), Ty::F32),
        DType::Bool => ll.icmp(inkwell::IntPredicate::NE, bits, ll.i64(0)),
        DType::I32 | DType::I16 | DType::I8 | DType::U8 => ll.trunc(bits, crate::format::register(d)),
    }
}
