//! The verifier: whether bytecode may run. Programs come from files: nothing in one is believed.
//!
//! A program that passes holds these invariants:
//!
//! Program
//! - an entry's function exists; it takes the entry's dims as ints, then one register of the right kind,
//!   dtype, rank and ownership for each parameter, and gives one for each result;
//! - every step program (of entries and kernels) reads only earlier steps and numbers that exist;
//! - a constant's rank is at most [`MAX_RANK`], and it has as many bytes as its shape says;
//! - a kernel has one shape for each buffer, of the buffer's rank; its float ints are among its ints.
//!
//! Function
//! - parameters fit in the registers; a tensor register's rank is at most [`MAX_RANK`];
//! - every register, list, message, constant, kernel and function that an instruction names exists;
//! - every jump leads to an instruction; control never runs past the last one;
//! - a jump backwards leads to `fuel`, so that every loop can be ended from outside (calls count by themselves);
//! - registers are read only where every path from the start has written them and none has taken them since;
//! - integer operations have an integer dtype or bool, roundings a float dtype;
//! - places are those of instructions and of files that exist, in order;
//! - a region's size reads ints that the function is given, its life ends after it begins, its twin exists;
//! - `alloc`, `place`, `view`, `slice` give as many extents as their register has axes, all in `i` registers; `view`,
//!   `slice`, `move`, `own`, `const` keep the dtype; `move`, `own`, `const` keep the rank; `dim` names an axis that
//!   exists; loads and stores have a rank-0 tensor of a dtype of their kind;
//! - a kernel's operands are its ints (each in a register of its kind), then its buffers (dtype and rank of each
//!   as stated); a buffer that is written is no other operand of the call;
//! - a call's operands are its arguments, then its results, each of the type the callee says; a tensor that
//!   is taken is given once;
//! - `ret` gives what the function says.
//!
//! What cannot be known before running is compared while running: extents against a kernel's shapes,
//! and that a written buffer has one holder.

mod flow;

use tensor::DType;
use tensor::abi::{Access, Step};

use crate::isa::{FuncId, Instr, KernelId, Label, List, Operand, Reg, T};
use crate::machine::signature;
use crate::program::{
    Entry, EntryParam, EntryResult, Extent, Function, Kernel, LoadSplit, MAX_RANK, Program, SourceLocation,
    TensorType, Type,
};

/// Why a program is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// What is at fault.
    pub part: Part,
    /// The same in words.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// A part of a program, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A constant.
    Constant(usize),
    /// A kernel.
    Kernel(usize),
    /// A function as a whole.
    Function(usize),
    /// An instruction of a function.
    Instr(usize, usize),
    /// An entry.
    Entry(usize),
}

type Result<T = ()> = std::result::Result<T, String>;

/// A program that was verified.
#[derive(Clone, Debug)]
pub struct Verified(Program);

impl Verified {
    /// Verifies a program.
    pub fn new(program: Program) -> std::result::Result<Verified, Fault> {
        verify(&program)?;
        Ok(Verified(program))
    }

    /// The program.
    pub fn into_program(self) -> Program {
        self.0
    }
}

impl std::ops::Deref for Verified {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

/// Checks every invariant; the first that does not hold is the answer.
pub fn verify(program: &Program) -> std::result::Result<(), Fault> {
    let at = |part: Part, place: String| move |what: String| Fault { part, place, what };
    for (i, c) in program.constants.iter().enumerate() {
        constant(c).map_err(at(Part::Constant(i), format!("constant {i}")))?;
    }
    for (i, k) in program.kernels.iter().enumerate() {
        kernel(k).map_err(at(Part::Kernel(i), format!("kernel {}", k.name)))?;
    }
    for (i, f) in program.functions.iter().enumerate() {
        header(program, f).map_err(at(Part::Function(i), f.name.clone()))?;
    }
    for (i, f) in program.functions.iter().enumerate() {
        for (pc, instr) in f.code.iter().enumerate() {
            let check = Check { program, f, pc };
            check.instr(instr).map_err(|what| Fault {
                part: Part::Instr(i, pc),
                place: format!("{} at {pc}", f.name),
                what: format!("{}: {what}", instr.mnemonic()),
            })?;
        }
        flow::assigned(program, f).map_err(|(pc, what)| Fault {
            part: Part::Instr(i, pc),
            place: format!("{} at {pc}", f.name),
            what,
        })?;
    }
    for (i, e) in program.entries.iter().enumerate() {
        entry(program, e).map_err(at(Part::Entry(i), format!("entry {}", e.name)))?;
    }
    Ok(())
}

/// The most regions of a function: fitting them takes time that grows faster than their number.
const MAX_REGIONS: usize = 1 << 14;

fn ensure(ok: bool, what: impl FnOnce() -> String) -> Result {
    if ok { Ok(()) } else { Err(what()) }
}

fn steps(steps: &[Step], ints: usize) -> Result {
    for (i, step) in steps.iter().enumerate() {
        let ok = match *step {
            Step::Const(_) => true,
            Step::Int(n) => (n as usize) < ints,
            Step::Bin(_, a, b) => (a as usize) < i && (b as usize) < i,
        };
        ensure(ok, || format!("step {i} reads what does not exist"))?;
    }
    Ok(())
}

fn constant(c: &crate::program::Constant) -> Result {
    ensure(c.shape.len() <= MAX_RANK, || format!("rank {} is over {MAX_RANK}", c.shape.len()))?;
    let mut want = Some(c.dtype.size());
    for &d in &c.shape {
        want = usize::try_from(d).ok().and_then(|d| want?.checked_mul(d));
    }
    let got = c.bytes.bytes().len();
    ensure(want == Some(got), || format!("{got} bytes for {} {:?}", c.dtype, c.shape))
}

fn kernel(k: &Kernel) -> Result {
    let ints = k.abi.ints as usize;
    ensure(ints + k.abi.bufs.len() <= usize::from(u16::MAX), || "too many operands".to_owned())?;
    ensure(k.shapes.len() == k.abi.bufs.len(), || {
        format!("{} shapes for {} buffers", k.shapes.len(), k.abi.bufs.len())
    })?;
    for (shape, buf) in k.shapes.iter().zip(&k.abi.bufs) {
        ensure(buf.rank as usize <= MAX_RANK && shape.len() == buf.rank as usize, || {
            format!("a shape of {} extents for a buffer of rank {}", shape.len(), buf.rank)
        })?;
        for e in shape {
            match e {
                Extent::Const(_) => {}
                Extent::Int(i) => ensure((*i as usize) < ints, || format!("an extent is int {i} of {ints}"))?,
                Extent::Steps(s) => steps(s, ints)?,
            }
        }
    }
    ensure(k.floats.is_sorted() && k.floats.iter().all(|&i| (i as usize) < ints), || {
        "the list of float ints is wrong".to_owned()
    })?;
    steps(&k.abi.grid, ints)?;
    ensure(!k.abi.grid.is_empty(), || "no grid".to_owned())?;
    k.abi.stops.iter().chain([&k.abi.shared, &k.abi.scratch]).try_for_each(|s| steps(s, ints))?;
    let work = k.work.iter().flat_map(|w| [&w.flops, &w.bytes]);
    work.into_iter().try_for_each(|w| steps(w, ints))
}

fn header(program: &Program, f: &Function) -> Result {
    ensure(!f.code.is_empty(), || "no code".to_owned())?;
    ensure(f.code.len() < u32::MAX as usize, || "too much code".to_owned())?;
    ensure(f.tensors.len() <= usize::from(u16::MAX), || "too many tensor registers".to_owned())?;
    if let Some(t) = f.tensors.iter().find(|t| t.rank as usize > MAX_RANK) {
        return Err(format!("a register of rank {} is over {MAX_RANK}", t.rank));
    }
    let (mut ints, mut floats, mut tensors) = (0usize, 0usize, 0usize);
    for p in &f.params {
        match p.ty {
            Type::Int => ints += 1,
            Type::Float => floats += 1,
            Type::Tensor(t) => {
                ensure(f.tensors.get(tensors) == Some(&t), || {
                    format!("parameter tensor {tensors} and its register differ")
                })?;
                tensors += 1;
            }
        }
        ensure(!p.own || matches!(p.ty, Type::Tensor(_)), || "a scalar is owned".to_owned())?;
    }
    ensure(ints <= f.ints as usize && floats <= f.floats as usize, || {
        "there are more parameters than registers".to_owned()
    })?;
    ensure(f.regions.len() <= MAX_REGIONS, || "too many regions".to_owned())?;
    for (i, r) in f.regions.iter().enumerate() {
        steps(&r.bytes, ints).map_err(|what| format!("region {i}: {what}"))?;
        ensure(r.from <= r.to, || format!("region {i} ends before it begins"))?;
        ensure(!r.twin || i + 1 < f.regions.len(), || format!("region {i} has no twin"))?;
    }
    ensure(f.places.is_sorted_by(|a, b| a.pc < b.pc), || "places are not sorted".to_owned())?;
    let known =
        |p: &SourceLocation| (p.pc as usize) < f.code.len() && (p.file as usize) < program.files.len().max(1);
    ensure(f.places.iter().all(known), || "a place is of no file or no instruction".to_owned())
}

fn entry(program: &Program, e: &Entry) -> Result {
    let f = program.functions.get(e.function as usize).ok_or("its function does not exist")?;
    let same = f.params.len() == e.dims.len() + e.params.len()
        && f.params.iter().zip(signature(e)).all(|(p, (ty, own))| p.ty == ty && p.own == own);
    ensure(same, || format!("{} takes other parameters", f.name))?;
    let results = f.results.len() == e.results.len()
        && f.results.iter().zip(&e.results).all(|(ty, r)| {
            *ty == if r.shape.is_empty() {
                Type::scalar(r.dtype)
            } else {
                Type::tensor(r.dtype, r.shape.len())
            }
        });
    ensure(results, || format!("{} gives other results", f.name))?;
    let extents: usize = e.params.iter().map(|p| p.shape.len()).sum();
    for (i, d) in e.dims.iter().enumerate() {
        steps(&d.steps, extents + i)?;
        ensure(!d.steps.is_empty(), || format!("dim {} is not computed", d.name))?;
    }
    for x in e.params.iter().flat_map(|p| &p.shape) {
        steps(&x.steps, e.dims.len())?;
        ensure(!x.steps.is_empty(), || format!("extent {} is not computed", x.text))?;
    }
    e.load_split.as_ref().map_or(Ok(()), |k| load_split(program, e, k))
}

/// What an entry keeps fits those that make it and the one that takes it.
fn load_split(program: &Program, e: &Entry, kept: &LoadSplit) -> Result {
    let entry = |at: u32| program.entries.get(at as usize).ok_or_else(|| format!("there is no entry {at}"));
    let param = |p: &EntryParam| (p.dtype, p.shape.len(), p.own);
    let step = entry(kept.step)?;
    ensure(kept.takes.is_sorted_by(|a, b| a < b), || format!("{} takes parameters out of order", step.name))?;
    let taken = kept.takes.iter().map(|&a| e.params.get(a as usize).map(param));
    let taken: Option<Vec<_>> = taken.collect();
    let mut takes =
        taken.ok_or_else(|| format!("{} takes a parameter that {} has not", step.name, e.name))?;
    for load in &kept.loads {
        let made = entry(load.entry)?;
        let given = load.args.iter().map(|&a| e.params.get(a as usize).map(param));
        let same = given.eq(made.params.iter().map(|p| Some((p.dtype, p.shape.len(), false))));
        ensure(same, || format!("{} is given other parameters than it takes", made.name))?;
        takes.extend(made.results.iter().map(|r| (r.dtype, r.shape.len(), false)));
    }
    let same = takes.iter().copied().eq(step.params.iter().map(param));
    ensure(same, || format!("{} takes other parameters than {} and what is kept", step.name, e.name))?;
    let result = |r: &EntryResult| (r.dtype, r.shape.len());
    let same = e.results.iter().map(result).eq(step.results.iter().map(result));
    ensure(same, || format!("{} gives other results than {}", step.name, e.name))
}

/// One instruction and where it stands.
struct Check<'a> {
    program: &'a Program,
    f: &'a Function,
    pc: usize,
}

impl Check<'_> {
    fn tensor(&self, t: T) -> Result<TensorType> {
        self.f.tensors.get(t.0 as usize).copied().ok_or_else(|| format!("no register t{}", t.0))
    }

    fn reg(&self, r: Reg) -> Result<Type> {
        match r {
            Reg::I(i) => ensure(i < self.f.ints, || format!("no register i{i}")).map(|()| Type::Int),
            Reg::F(i) => ensure(i < self.f.floats, || format!("no register f{i}")).map(|()| Type::Float),
            Reg::T(i) => self.tensor(T(i)).map(Type::Tensor),
        }
    }

    fn list(&self, l: List) -> Result<&[Reg]> {
        let end = l.start as usize + l.len as usize;
        let regs = self.f.pool.get(l.start as usize..end).ok_or("its list leaves the pool")?;
        regs.iter().try_for_each(|&r| self.reg(r).map(|_| ()))?;
        Ok(regs)
    }

    /// Every operand exists; then what the instruction itself asks for.
    fn instr(&self, instr: &Instr) -> Result {
        let mut all = Ok(());
        instr.operands(&mut |_, o| {
            if all.is_ok() {
                all = self.operand(o);
            }
        });
        all?;
        if self.pc + 1 == self.f.code.len() {
            let ends = matches!(instr, Instr::Jump { .. } | Instr::Fail { .. } | Instr::Ret { .. });
            ensure(ends, || "the code runs past its end".to_owned())?;
        }
        self.meaning(instr)
    }

    fn operand(&self, o: Operand) -> Result {
        let exists = |n: u32, all: usize, what: &str| ensure((n as usize) < all, || format!("no {what} {n}"));
        match o {
            Operand::I(r) => self.reg(Reg::I(r.0)).map(|_| ()),
            Operand::F(r) => self.reg(Reg::F(r.0)).map(|_| ()),
            Operand::T(r) => self.reg(Reg::T(r.0)).map(|_| ()),
            Operand::List(l) => self.list(l).map(|_| ()),
            Operand::Label(l) => self.label(l),
            Operand::Message(m) => exists(m.0, self.program.messages.len(), "message"),
            Operand::Const(c) => exists(c.0, self.program.constants.len(), "constant"),
            Operand::Kernel(k) => exists(k.0, self.program.kernels.len(), "kernel"),
            Operand::Func(f) => exists(f.0, self.program.functions.len(), "function"),
            Operand::Region(r) => exists(r.0, self.f.regions.len(), "region"),
            Operand::Int(_)
            | Operand::Float(_)
            | Operand::Axis(_)
            | Operand::DType(_)
            | Operand::IntUnary(_)
            | Operand::IntBinary(_)
            | Operand::FloatUnary(_)
            | Operand::FloatBinary(_)
            | Operand::Compare(_) => Ok(()),
        }
    }

    fn label(&self, l: Label) -> Result {
        let to = self.f.code.get(l.0 as usize).ok_or_else(|| format!("no instruction {}", l.0))?;
        let back = l.0 as usize <= self.pc;
        ensure(!back || matches!(to, Instr::Fuel {}), || format!("jumps back to {}, which is not fuel", l.0))
    }

    fn dims(&self, l: List, t: TensorType) -> Result {
        let regs = self.list(l)?;
        ensure(regs.len() == t.rank as usize, || format!("{} extents for rank {}", regs.len(), t.rank))?;
        ensure(regs.iter().all(|r| matches!(r, Reg::I(_))), || "an extent is no int".to_owned())
    }

    fn meaning(&self, instr: &Instr) -> Result {
        let whole = |d: DType| ensure(!d.is_float(), || format!("{d} is no integer dtype"));
        let float = |d: DType| ensure(d.is_float(), || format!("{d} is no float dtype"));
        match *instr {
            Instr::IntUn { dtype, .. }
            | Instr::IntBin { dtype, .. }
            | Instr::Wrap { dtype, .. }
            | Instr::ToInt { dtype, .. } => whole(dtype),
            Instr::Round { dtype, .. } | Instr::ToFloat { dtype, .. } => float(dtype),
            Instr::Dim { src, axis, .. } => {
                let rank = self.tensor(src)?.rank;
                ensure(axis.0 < rank, || format!("axis {} of rank {rank}", axis.0))
            }
            Instr::Const { dst, constant } => {
                let (t, c) = (self.tensor(dst)?, &self.program.constants[constant.0 as usize]);
                ensure(t.dtype == c.dtype && t.rank as usize == c.shape.len(), || "types differ".to_owned())
            }
            Instr::Move { dst, src } | Instr::Own { dst, src } => {
                ensure(self.tensor(dst)? == self.tensor(src)?, || "types differ".to_owned())
            }
            Instr::Alloc { dst, dims } | Instr::Place { dst, dims, .. } => self.dims(dims, self.tensor(dst)?),
            Instr::View { dst, src, dims } | Instr::Slice { dst, src, dims, .. } => {
                ensure(self.tensor(dst)?.dtype == self.tensor(src)?.dtype, || "dtypes differ".to_owned())?;
                self.dims(dims, self.tensor(dst)?)
            }
            Instr::IntLoad { src: t, .. } | Instr::IntStore { dst: t, .. } => {
                ensure(self.tensor(t)?.rank == 0, || "the tensor is no scalar".to_owned())?;
                whole(self.tensor(t)?.dtype)
            }
            Instr::FloatLoad { src: t, .. } | Instr::FloatStore { dst: t, .. } => {
                ensure(self.tensor(t)?.rank == 0, || "the tensor is no scalar".to_owned())?;
                float(self.tensor(t)?.dtype)
            }
            Instr::Check { values, .. } | Instr::Fail { values, .. } => {
                let tensors = self.list(values)?.iter().any(|r| matches!(r, Reg::T(_)));
                ensure(!tensors, || "a tensor cannot be shown in a message".to_owned())
            }
            Instr::Kernel { kernel, args } => self.kernel(kernel, args),
            Instr::Call { func, args } => self.call(func, args),
            Instr::Ret { values } => {
                let regs = self.list(values)?;
                ensure(regs.len() == self.f.results.len(), || {
                    format!("{} values for {} results", regs.len(), self.f.results.len())
                })?;
                for (i, (&r, want)) in regs.iter().zip(&self.f.results).enumerate() {
                    ensure(self.reg(r)? == *want, || format!("result {i} has another type"))?;
                }
                Ok(())
            }
            Instr::IntConst { .. }
            | Instr::FloatConst { .. }
            | Instr::IntMove { .. }
            | Instr::FloatMove { .. }
            | Instr::FloatUn { .. }
            | Instr::FloatBin { .. }
            | Instr::IntCmp { .. }
            | Instr::FloatCmp { .. }
            | Instr::IntSel { .. }
            | Instr::FloatSel { .. }
            | Instr::DimAdd { .. }
            | Instr::DimSub { .. }
            | Instr::DimMul { .. }
            | Instr::DimFloor { .. }
            | Instr::DimCeil { .. }
            | Instr::DimMod { .. }
            | Instr::DimMin { .. }
            | Instr::DimMax { .. }
            | Instr::Release { .. }
            | Instr::Jump { .. }
            | Instr::JumpIf { .. }
            | Instr::JumpNot { .. }
            | Instr::JumpCmp { .. }
            | Instr::Fuel {} => Ok(()),
        }
    }

    fn kernel(&self, id: KernelId, args: List) -> Result {
        let k = &self.program.kernels[id.0 as usize];
        let regs = self.list(args)?;
        let ints = k.abi.ints as usize;
        let want = ints + k.abi.bufs.len();
        ensure(regs.len() == want, || format!("{} operands for {want} of {}", regs.len(), k.name))?;
        for (i, &r) in regs[..ints].iter().enumerate() {
            let float = k.floats.binary_search(&(i as u32)).is_ok();
            let want = if float { Type::Float } else { Type::Int };
            ensure(self.reg(r)? == want, || format!("int {i} of {} has another type", k.name))?;
        }
        for (i, (&r, buf)) in regs[ints..].iter().zip(&k.abi.bufs).enumerate() {
            let want = Type::Tensor(TensorType { dtype: buf.dtype, rank: buf.rank });
            ensure(self.reg(r)? == want, || format!("buffer {i} of {} has another type", k.name))?;
            if buf.access != Access::In {
                let uses = regs[ints..].iter().filter(|&&other| other == r).count();
                ensure(uses == 1, || format!("buffer {i} of {} is written and given twice", k.name))?;
            }
        }
        Ok(())
    }

    fn call(&self, id: FuncId, args: List) -> Result {
        let callee = &self.program.functions[id.0 as usize];
        let regs = self.list(args)?;
        let want = callee.params.len() + callee.results.len();
        ensure(regs.len() == want, || format!("{} operands for {want} of {}", regs.len(), callee.name))?;
        let (given, back) = regs.split_at(callee.params.len());
        for (i, (&r, p)) in given.iter().zip(&callee.params).enumerate() {
            ensure(self.reg(r)? == p.ty, || format!("argument {i} of {} has another type", callee.name))?;
            let uses = given.iter().filter(|&&other| other == r).count();
            ensure(!p.own || uses == 1, || {
                format!("argument {i} of {} is taken and given twice", callee.name)
            })?;
        }
        for (i, (&r, ty)) in back.iter().zip(&callee.results).enumerate() {
            ensure(self.reg(r)? == *ty, || format!("result {i} of {} has another type", callee.name))?;
        }
        Ok(())
    }
}
