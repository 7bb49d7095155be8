//! The loop over instructions, and frames.
//!
//! Registers of all frames lie in three stacks; a frame is a window of each. A call pushes a frame and a
//! return pops it without recursion in Rust, so that the depth of calls is limited by [`CALLS`] and by the run's
//! budget of memory, in which frames count ([`Stacks::bytes`]). Indexing is checked: a hole in the verifier is an error
//! or a panic, never a stray write.

use super::arena::{self, Arena};
use super::error::{Error, Trap, filled};
use super::memory::Memory;
use super::profile::Observe;
use super::value::{self, Value};
use super::{Executable, State, kernel, tensors};
use tensor::limits::CALLS;

use crate::isa::{Instr, List, Reg};
use crate::program::{Function, Program, Type};
use crate::scalar::{to_float, to_int};

/// Frames and their registers.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) frames: Vec<Frame>,
    pub(crate) ints: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) tensors: Vec<Value>,
    /// What the outermost function returned.
    pub(crate) results: Vec<Output>,
}

/// A value given back by the outermost function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    Int(i64),
    Float(f64),
    Tensor(Value),
}

/// A call in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) function: usize,
    /// Where to go on.
    pc: usize,
    /// Where its registers start in each stack.
    ints: usize,
    floats: usize,
    tensors: usize,
    /// The operands of the call that made it.
    args: List,
    /// The memory that its regions lie in.
    pub(crate) arena: Option<Arena>,
}

impl Frame {
    /// Where its `i` registers start.
    pub(crate) fn ints(&self) -> usize {
        self.ints
    }
}

/// Why the loop over one frame's instructions stopped.
enum Exit {
    Call(usize, List),
    Return(List),
}

impl Stacks {
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.ints.clear();
        self.floats.clear();
        self.tensors.clear();
        self.results.clear();
    }

    /// Bytes of the frames and their registers.
    pub(crate) fn bytes(&self) -> usize {
        self.frames.len() * size_of::<Frame>()
            + (self.ints.len() + self.floats.len()) * size_of::<i64>()
            + self.tensors.len() * size_of::<Value>()
    }

    /// Makes a frame whose registers are all empty.
    pub(crate) fn push(&mut self, index: usize, function: &Function, args: List) -> Result<(), Trap> {
        let frame = Frame {
            function: index,
            pc: 0,
            ints: self.ints.len(),
            floats: self.floats.len(),
            tensors: self.tensors.len(),
            args,
            arena: None,
        };
        let ints = frame.ints + function.ints as usize;
        let floats = frame.floats + function.floats as usize;
        let tensors = frame.tensors + function.tensors.len();
        // The first frame is the entry's, which nobody calls.
        if self.frames.len() > CALLS {
            return Err(Trap::StackOverflow);
        }
        self.ints.resize(ints, 0);
        self.floats.resize(floats, 0.0);
        self.tensors.resize(tensors, Value::EMPTY);
        self.frames.push(frame);
        Ok(())
    }
}

/// Runs until the outermost frame returns.
pub(crate) fn run<O: Observe>(exe: &Executable, state: &mut State, observer: &mut O) -> Result<(), Error> {
    let program = &exe.program;
    while let Some(&frame) = state.stacks.frames.last() {
        let mut pc = frame.pc;
        let exit = execute(exe, state, frame, &mut pc, observer).and_then(|exit| match exit {
            Exit::Call(callee, args) => {
                if let Some(top) = state.stacks.frames.last_mut() {
                    top.pc = pc + 1;
                }
                observer.enter(callee);
                call(exe, state, frame, callee, args)
            }
            Exit::Return(values) => {
                leave(program, state, frame, values);
                observer.leave(program);
                Ok(())
            }
        });
        exit.map_err(|trap| trap.at(program, frame.function, pc))?;
    }
    Ok(())
}

/// Pushes the frame of a function and hands it its arguments.
fn call(exe: &Executable, state: &mut State, caller: Frame, callee: usize, args: List) -> Result<(), Trap> {
    state.meter.step()?;
    let program = &exe.program;
    let function = &program.functions[callee];
    state.stacks.push(callee, function, args)?;
    state.memory.frames(state.stacks.bytes())?;
    let stacks = &mut state.stacks;
    let (mut int, mut float, mut tensor) = top(stacks);
    for (reg, param) in program.functions[caller.function].list(args).iter().zip(&function.params) {
        match *reg {
            Reg::I(r) => {
                stacks.ints[int] = stacks.ints[caller.ints + r as usize];
                int += 1;
            }
            Reg::F(r) => {
                stacks.floats[float] = stacks.floats[caller.floats + r as usize];
                float += 1;
            }
            Reg::T(r) => {
                let from = &mut stacks.tensors[caller.tensors + r as usize];
                let value = *from;
                if param.own {
                    *from = Value::EMPTY;
                } else {
                    state.memory.share(value.slot);
                }
                stacks.tensors[tensor] = value;
                tensor += 1;
            }
        }
    }
    arena::open(exe, state)
}

/// Where the registers of the newest frame start.
fn top(stacks: &Stacks) -> (usize, usize, usize) {
    stacks.frames.last().map_or((0, 0, 0), |f| (f.ints, f.floats, f.tensors))
}

/// Pops a frame: its results go to the caller's registers, or out.
fn leave(program: &Program, state: &mut State, frame: Frame, values: List) {
    let State { stacks, memory, .. } = state;
    stacks.frames.pop();
    let function = &program.functions[frame.function];
    let values = function.list(values);
    match stacks.frames.last().copied() {
        None => {
            for (reg, ty) in values.iter().zip(&function.results) {
                stacks.results.push(match (*reg, ty) {
                    (Reg::I(r), _) => Output::Int(stacks.ints[frame.ints + r as usize]),
                    (Reg::F(r), _) => Output::Float(stacks.floats[frame.floats + r as usize]),
                    (Reg::T(r), Type::Int | Type::Float | Type::Tensor(_)) => {
                        let value = stacks.tensors[frame.tensors + r as usize];
                        memory.share(value.slot);
                        Output::Tensor(value)
                    }
                });
            }
        }
        Some(caller) => {
            let args = program.functions[caller.function].list(frame.args);
            for (from, to) in values.iter().zip(args.iter().skip(function.params.len())) {
                match (*from, *to) {
                    (Reg::I(from), Reg::I(to)) => {
                        stacks.ints[caller.ints + to as usize] = stacks.ints[frame.ints + from as usize];
                    }
                    (Reg::F(from), Reg::F(to)) => {
                        stacks.floats[caller.floats + to as usize] =
                            stacks.floats[frame.floats + from as usize];
                    }
                    (Reg::T(from), Reg::T(to)) => {
                        let value = stacks.tensors[frame.tensors + from as usize];
                        memory.share(value.slot);
                        set(&mut stacks.tensors[caller.tensors + to as usize], value, memory);
                    }
                    // The verifier has compared the types.
                    (Reg::I(_) | Reg::F(_) | Reg::T(_), _) => {}
                }
            }
        }
    }
    for value in &stacks.tensors[frame.tensors..] {
        if !value.is_empty() {
            memory.release(value.slot);
        }
    }
    if let Some(arena) = frame.arena {
        memory.release(arena.slot);
    }
    stacks.ints.truncate(frame.ints);
    stacks.floats.truncate(frame.floats);
    stacks.tensors.truncate(frame.tensors);
    // There are fewer now, for which there was room.
    let _ = memory.frames(stacks.bytes());
}

/// Writes a tensor register, releasing what it held.
pub(crate) fn set(register: &mut Value, value: Value, memory: &mut Memory) {
    let old = std::mem::replace(register, value);
    if !old.is_empty() {
        memory.release(old.slot);
    }
}

/// Runs a frame's instructions from `pc` until it calls or returns; leaves `pc` at the last one.
#[expect(clippy::too_many_lines, reason = "one arm for each row of the table")]
fn execute<O: Observe>(
    exe: &Executable,
    state: &mut State,
    frame: Frame,
    at: &mut usize,
    observer: &mut O,
) -> Result<Exit, Trap> {
    let program = &exe.program;
    let function = &program.functions[frame.function];
    let code = function.code.as_slice();
    let State { stacks, memory, meter, scratch, placements, .. } = state;
    let ints = &mut stacks.ints[frame.ints..];
    let floats = &mut stacks.floats[frame.floats..];
    let tensors = &mut stacks.tensors[frame.tensors..];
    let mut pc = *at;

    macro_rules! i {
        ($r:expr) => {
            ints[$r.0 as usize]
        };
    }
    macro_rules! f {
        ($r:expr) => {
            floats[$r.0 as usize]
        };
    }
    macro_rules! t {
        ($r:expr) => {
            tensors[$r.0 as usize]
        };
    }
    // The place of an instruction is stored only when it fails.
    macro_rules! attempt {
        ($e:expr) => {
            match $e {
                Ok(x) => x,
                Err(trap) => {
                    *at = pc;
                    return Err(Trap::from(trap));
                }
            }
        };
    }
    macro_rules! dim {
        ($dst:expr, $value:expr, $op:literal, $a:expr, $b:expr) => {
            i!($dst) = match $value {
                Some(x) => x,
                None => {
                    *at = pc;
                    return Err(dim_fault($op, i!($a), i!($b)));
                }
            }
        };
    }

    loop {
        let Some(instr) = code.get(pc) else {
            *at = pc;
            return Err(Trap::Program("the code has run past its end".to_owned()));
        };
        observer.step(frame.function, pc);
        match *instr {
            Instr::IntConst { dst, value } => i!(dst) = value.0,
            Instr::FloatConst { dst, value } => f!(dst) = f64::from_bits(value.0),
            Instr::IntMove { dst, src } => i!(dst) = i!(src),
            Instr::FloatMove { dst, src } => f!(dst) = f!(src),
            Instr::IntUn { dst, op, dtype, a } => i!(dst) = op.eval(dtype, i!(a)),
            Instr::IntBin { dst, op, dtype, a, b } => i!(dst) = op.eval(dtype, i!(a), i!(b)),
            Instr::FloatUn { dst, op, a } => f!(dst) = op.eval(f!(a)),
            Instr::FloatBin { dst, op, a, b } => f!(dst) = op.eval(f!(a), f!(b)),
            Instr::Round { dst, src, dtype } => f!(dst) = dtype.round(f!(src)),
            Instr::Wrap { dst, src, dtype } => i!(dst) = dtype.wrap(i!(src)),
            Instr::ToFloat { dst, src, dtype } => f!(dst) = to_float(dtype, i!(src)),
            Instr::ToInt { dst, src, dtype } => i!(dst) = to_int(dtype, f!(src)),
            Instr::IntCmp { dst, op, a, b } => i!(dst) = i64::from(op.eval(i!(a), i!(b))),
            Instr::FloatCmp { dst, op, a, b } => i!(dst) = i64::from(op.eval(f!(a), f!(b))),
            Instr::IntSel { dst, cond, a, b } => i!(dst) = if i!(cond) != 0 { i!(a) } else { i!(b) },
            Instr::FloatSel { dst, cond, a, b } => f!(dst) = if i!(cond) != 0 { f!(a) } else { f!(b) },

            Instr::DimAdd { dst, a, b } => dim!(dst, i!(a).checked_add(i!(b)), "+", a, b),
            Instr::DimSub { dst, a, b } => dim!(dst, i!(a).checked_sub(i!(b)), "-", a, b),
            Instr::DimMul { dst, a, b } => dim!(dst, i!(a).checked_mul(i!(b)), "*", a, b),
            Instr::DimFloor { dst, a, b } => dim!(dst, dims::floor(i!(a), i!(b)), "/", a, b),
            Instr::DimCeil { dst, a, b } => dim!(dst, dims::ceil(i!(a), i!(b)), "/", a, b),
            Instr::DimMod { dst, a, b } => dim!(dst, dims::modulo(i!(a), i!(b)), "%", a, b),
            Instr::DimMin { dst, a, b } => i!(dst) = i!(a).min(i!(b)),
            Instr::DimMax { dst, a, b } => i!(dst) = i!(a).max(i!(b)),
            Instr::Dim { dst, src, axis } => {
                i!(dst) = t!(src).shape().get(axis.0 as usize).copied().unwrap_or(0)
            }

            Instr::Const { dst, constant } => {
                let value = attempt!(tensors::constant(&program.constants[constant.0 as usize], memory));
                set(&mut t!(dst), value, memory);
            }
            Instr::Move { dst, src } => {
                let value = t!(src);
                memory.share(value.slot);
                set(&mut t!(dst), value, memory);
            }
            Instr::Alloc { dst, dims } => {
                let dtype = function.tensors[dst.0 as usize].dtype;
                let value = attempt!(tensors::alloc(dtype, function.list(dims), ints, memory));
                set(&mut t!(dst), value, memory);
            }
            Instr::Place { dst, region, dims } => {
                let dtype = function.tensors[dst.0 as usize].dtype;
                let (dims, at) = (function.list(dims), frame.arena.map(|a| (a, &*placements)));
                let value =
                    attempt!(tensors::alloc_in_region(dtype, dims, ints, at, function, region, memory));
                set(&mut t!(dst), value, memory);
            }
            Instr::Release { src } => set(&mut t!(src), Value::EMPTY, memory),
            Instr::View { dst, src, dims } => {
                let value = attempt!(tensors::view(&t!(src), function.list(dims), ints));
                memory.share(value.slot);
                set(&mut t!(dst), value, memory);
            }
            Instr::Slice { dst, src, at: from, dims } => {
                let dtype = function.tensors[src.0 as usize].dtype;
                let value = attempt!(tensors::slice(dtype, &t!(src), i!(from), function.list(dims), ints));
                memory.share(value.slot);
                set(&mut t!(dst), value, memory);
            }
            Instr::Own { dst, src } => {
                let dtype = function.tensors[src.0 as usize].dtype;
                let value = std::mem::replace(&mut t!(src), Value::EMPTY);
                let lent = value.slot;
                let value = match tensors::own(dtype, value, memory) {
                    Ok(value) => {
                        if value.slot != lent {
                            observer.copied(value::bytes(dtype, value.shape()).unwrap_or(0));
                        }
                        value
                    }
                    Err(trap) => {
                        memory.release(value.slot);
                        *at = pc;
                        return Err(trap);
                    }
                };
                set(&mut t!(dst), value, memory);
            }
            Instr::IntLoad { dst, src } => {
                let dtype = function.tensors[src.0 as usize].dtype;
                i!(dst) = attempt!(tensors::load_int(dtype, &t!(src), memory));
            }
            Instr::FloatLoad { dst, src } => {
                let dtype = function.tensors[src.0 as usize].dtype;
                f!(dst) = attempt!(tensors::load_float(dtype, &t!(src), memory));
            }
            Instr::IntStore { dst, src } => {
                let dtype = function.tensors[dst.0 as usize].dtype;
                attempt!(tensors::store_int(dtype, &t!(dst), i!(src), memory));
            }
            Instr::FloatStore { dst, src } => {
                let dtype = function.tensors[dst.0 as usize].dtype;
                attempt!(tensors::store_float(dtype, &t!(dst), f!(src), memory));
            }

            Instr::Jump { to } => {
                pc = to.0 as usize;
                continue;
            }
            Instr::JumpIf { cond, to } => {
                if i!(cond) != 0 {
                    pc = to.0 as usize;
                    continue;
                }
            }
            Instr::JumpNot { cond, to } => {
                if i!(cond) == 0 {
                    pc = to.0 as usize;
                    continue;
                }
            }
            Instr::JumpCmp { op, a, b, to } => {
                if op.eval(i!(a), i!(b)) {
                    pc = to.0 as usize;
                    continue;
                }
            }
            Instr::Fuel {} => attempt!(meter.step()),
            Instr::Check { cond, message, values } => {
                if i!(cond) == 0 && !memory.rehearses() {
                    *at = pc;
                    return Err(failed(program, message.0, function.list(values), ints, floats));
                }
            }
            Instr::Fail { message, values } => {
                *at = pc;
                return Err(failed(program, message.0, function.list(values), ints, floats));
            }
            Instr::Kernel { kernel, args } => {
                attempt!(meter.step());
                let args = kernel::Args { regs: function.list(args), ints, floats, tensors };
                attempt!(kernel::call(exe, kernel.0 as usize, &args, memory, scratch, meter));
                observer.kernel(&program.kernels[kernel.0 as usize], &args);
            }
            Instr::Call { func, args } => {
                *at = pc;
                return Ok(Exit::Call(func.0 as usize, args));
            }
            Instr::Ret { values } => {
                *at = pc;
                return Ok(Exit::Return(values));
            }
        }
        pc += 1;
    }
}

#[cold]
fn dim_fault(op: &str, a: i64, b: i64) -> Trap {
    let what =
        if b == 0 && matches!(op, "/" | "%") { "is a division by zero" } else { "does not fit in 64 bits" };
    Trap::Dim(format!("the dim {a} {op} {b} {what}"))
}

/// A failed check: its message with the values in its holes.
#[cold]
fn failed(program: &Program, message: u32, values: &[Reg], ints: &[i64], floats: &[f64]) -> Trap {
    let text = program.messages.get(message as usize).map_or("a check failed", String::as_str);
    let mut values = values.iter().map(|value| match *value {
        Reg::I(r) => ints[r as usize].to_string(),
        Reg::F(r) => floats[r as usize].to_string(),
        Reg::T(_) => "?".to_owned(),
    });
    Trap::Check(filled(text, &mut values))
}

/// The arithmetic of dims where it is more than a method of i64; `None` where there is no value.
pub(crate) mod dims {
    pub(crate) fn floor(a: i64, b: i64) -> Option<i64> {
        let q = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
    }

    pub(crate) fn ceil(a: i64, b: i64) -> Option<i64> {
        let q = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) == (b < 0) { q + 1 } else { q })
    }

    pub(crate) fn modulo(a: i64, b: i64) -> Option<i64> {
        // i64::MIN % -1 has no quotient but a remainder.
        if b == -1 {
            return Some(0);
        }
        let r = a.checked_rem(b)?;
        Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
    }
}
