//! The structured runtime IR as bytecode.
//!
//! Statement by statement: each becomes one to three instructions; a branch and a loop become labels and jumps, with
//! `fuel` at the head of a loop. Constants and messages are collected on the way.

use std::collections::BTreeMap;

use ir::Intrinsic;
use ir::source::{SourceMap, Span};
use shape::Op as DimOp;
use tensor::DType;
use vm::isa::{
    Axis, ConstId, F, Float, FuncId, I, Instr, Int, KernelId, Label, List, MessageId, Reg, RegionId, T,
};
use vm::scalar::{Compare, FloatBinary, FloatUnary, IntBinary, IntUnary};
use vm::{Constant, Function, Param, Program, SourceLocation};

use crate::KernelOf;
use crate::error::Error;
use crate::registers::{self, Registers};
use crate::rt::{self, Cond, Func, Kind, Stmt, Value, Var};

/// A program without entries and kernels, which are not this step's to say, and the places of each kernel's checks.
pub(crate) fn program(
    module: &rt::Module,
    definitions: &ir::Module,
    sources: &SourceMap,
) -> Result<(Program, Vec<Vec<SourceLocation>>), Error> {
    let mut shared =
        Shared { sources, program: Program::default(), messages: BTreeMap::new(), files: BTreeMap::new() };
    for func in &module.funcs {
        let f = function(&mut shared, func)?;
        shared.program.functions.push(f);
    }
    shared.program.constants = module.constants.iter().map(Constant::new).collect();
    let places = module.kernels.iter().map(|&of| match of {
        KernelOf::Prim(id) => definitions
            .prim(id)
            .checked()
            .iter()
            .map(|access| shared.source_location(0, access.span))
            .collect(),
        KernelOf::Extern(_) => Vec::new(),
    });
    let places = places.collect();
    Ok((shared.program, places))
}

/// What all functions add to.
struct Shared<'s> {
    sources: &'s SourceMap,
    program: Program,
    messages: BTreeMap<String, u32>,
    files: BTreeMap<u32, u32>,
}

impl Shared<'_> {
    fn message(&mut self, text: &str) -> MessageId {
        let messages = &mut self.program.messages;
        MessageId(*self.messages.entry(text.to_owned()).or_insert_with(|| {
            messages.push(text.to_owned());
            messages.len() as u32 - 1
        }))
    }

    /// A place, where the span has one.
    fn source_location(&mut self, pc: usize, span: Span) -> SourceLocation {
        let nowhere = SourceLocation { pc: pc as u32, file: 0, line: 0, col: 0, lo: 0, hi: 0 };
        if span == Span::default() || span.file.0 as usize >= self.sources.len() {
            return nowhere;
        }
        let files = &mut self.program.files;
        let file = *self.files.entry(span.file.0).or_insert_with(|| {
            files.push(self.sources.get(span.file).name.clone());
            files.len() as u32 - 1
        });
        let (line, col) = self.sources.line_col(span);
        SourceLocation { file, line: line as u32, col: col as u32, lo: span.lo, hi: span.hi, ..nowhere }
    }
}

fn function(shared: &mut Shared<'_>, func: &Func) -> Result<Function, Error> {
    let regs = registers::allocate(func)?;
    let mut e = Emitter { shared, func, regs, out: Function::default(), span: func.span };
    e.block(&func.body)?;
    let values = e.list(&func.results)?;
    e.span = func.span;
    e.push(Instr::Ret { values });
    let Emitter { out, regs, .. } = e;
    Ok(Function {
        name: func.name.clone(),
        params: func.params.iter().map(|&(v, own)| Param { ty: func.ty(v), own }).collect(),
        results: func.result_types.clone(),
        ints: regs.ints,
        floats: regs.floats,
        tensors: regs.tensors,
        regions: func.regions.iter().map(|r| region(func, r)).collect::<Result<_, _>>()?,
        ..out
    })
}

fn region(func: &Func, r: &rt::Region) -> Result<vm::Region, Error> {
    let bytes = crate::entry::steps(&r.bytes, func.span, &|s| func.known.get(&s).copied())?;
    Ok(vm::Region { bytes, from: r.from, to: r.to, twin: r.twin })
}

struct Emitter<'a, 's> {
    shared: &'a mut Shared<'s>,
    func: &'a Func,
    regs: Registers,
    out: Function,
    span: Span,
}

impl Emitter<'_, '_> {
    fn push(&mut self, instr: Instr) -> usize {
        let pc = self.out.code.len();
        let place = self.shared.source_location(pc, self.span);
        let same = self.out.places.last().is_some_and(|p| SourceLocation { pc: place.pc, ..*p } == place);
        if !same && (place.line > 0 || !self.out.places.is_empty()) {
            self.out.places.push(place);
        }
        self.out.code.push(instr);
        pc
    }

    fn here(&self) -> Label {
        Label(self.out.code.len() as u32)
    }

    fn reg(&self, v: Var) -> Result<Reg, Error> {
        self.regs.get(v).ok_or_else(|| self.fault("a variable without a register"))
    }

    fn fault(&self, what: &str) -> Error {
        Error::internal(format!("{}: {what}", self.func.name), self.span)
    }

    fn int(&self, v: Var) -> Result<I, Error> {
        match self.reg(v)? {
            Reg::I(n) => Ok(I(n)),
            Reg::F(_) | Reg::T(_) => Err(self.fault("an integer is needed")),
        }
    }

    fn float(&self, v: Var) -> Result<F, Error> {
        match self.reg(v)? {
            Reg::F(n) => Ok(F(n)),
            Reg::I(_) | Reg::T(_) => Err(self.fault("a float is needed")),
        }
    }

    fn tensor(&self, v: Var) -> Result<T, Error> {
        match self.reg(v)? {
            Reg::T(n) => Ok(T(n)),
            Reg::I(_) | Reg::F(_) => Err(self.fault("a tensor is needed")),
        }
    }

    fn list(&mut self, vars: &[Var]) -> Result<List, Error> {
        let regs = vars.iter().map(|v| self.reg(*v)).collect::<Result<Vec<_>, _>>()?;
        let start = self.out.pool.len() as u32;
        let len = u16::try_from(regs.len()).map_err(|_| self.fault("too many operands"))?;
        self.out.pool.extend(regs);
        Ok(List { start, len })
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<(), Error> {
        for s in stmts {
            self.span = s.span;
            self.stmt(s)?;
        }
        Ok(())
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Error> {
        match &s.kind {
            Kind::Let(v, value) => self.value(*v, value)?,
            Kind::Place(v, dims, region) => {
                let (dst, dims) = (self.tensor(*v)?, self.list(dims)?);
                self.push(Instr::Place { dst, region: RegionId(*region), dims });
            }
            Kind::Alloc(v, dims, _) => {
                let (dst, dims) = (self.tensor(*v)?, self.list(dims)?);
                self.push(Instr::Alloc { dst, dims });
            }
            Kind::Const(v, number) => {
                let dst = self.tensor(*v)?;
                self.push(Instr::Const { dst, constant: ConstId(*number as u32) });
            }
            Kind::Share(v, from) => {
                let (dst, src) = (self.tensor(*v)?, self.tensor(*from)?);
                self.push(Instr::Move { dst, src });
            }
            Kind::Own(v, from) => {
                let (dst, src) = (self.tensor(*v)?, self.tensor(*from)?);
                self.push(Instr::Own { dst, src });
            }
            Kind::View(v, from, dims) => {
                let (dst, src, dims) = (self.tensor(*v)?, self.tensor(*from)?, self.list(dims)?);
                self.push(Instr::View { dst, src, dims });
            }
            Kind::Slice(v, from, at, dims) => {
                let (dst, src, at) = (self.tensor(*v)?, self.tensor(*from)?, self.int(*at)?);
                let dims = self.list(dims)?;
                self.push(Instr::Slice { dst, src, at, dims });
            }
            Kind::Release(v) => {
                let src = self.tensor(*v)?;
                self.push(Instr::Release { src });
            }
            Kind::Store(t, v) => {
                let dst = self.tensor(*t)?;
                let instr = match self.reg(*v)? {
                    Reg::I(n) => Instr::IntStore { dst, src: I(n) },
                    Reg::F(n) => Instr::FloatStore { dst, src: F(n) },
                    Reg::T(_) => return Err(self.fault("a tensor is stored as an element")),
                };
                self.push(instr);
            }
            Kind::Check(cond, message, values) => {
                let message = self.shared.message(message);
                let values = self.list(values)?;
                match *cond {
                    Cond::Var(v) => {
                        let cond = self.int(v)?;
                        self.push(Instr::Check { cond, message, values });
                    }
                    Cond::Compare(op, a, b) => {
                        let (a, b) = (self.int(a)?, self.int(b)?);
                        let to = Label(self.here().0 + 2);
                        self.push(Instr::JumpCmp { op, a, b, to });
                        self.push(Instr::Fail { message, values });
                    }
                }
            }
            Kind::Fail(message, values) => {
                let message = self.shared.message(message);
                let values = self.list(values)?;
                self.push(Instr::Fail { message, values });
            }
            Kind::Kernel(number, scalars, bufs) => {
                let all: Vec<Var> = scalars.iter().chain(bufs).copied().collect();
                let args = self.list(&all)?;
                self.push(Instr::Kernel { kernel: KernelId(*number as u32), args });
            }
            Kind::Call(callee, args, results) => {
                let all: Vec<Var> = args.iter().chain(results).copied().collect();
                let args = self.list(&all)?;
                self.push(Instr::Call { func: FuncId(*callee), args });
            }
            Kind::If(cond, then, other) => {
                let to_other = self.unless(*cond)?;
                self.block(then)?;
                if other.is_empty() {
                    self.land(to_other);
                } else {
                    let to_end = self.push(Instr::Jump { to: Label(0) });
                    self.land(to_other);
                    self.block(other)?;
                    self.land(to_end);
                }
            }
            Kind::While { head, cond, body } => {
                let start = self.here();
                self.push(Instr::Fuel {});
                self.block(head)?;
                self.span = s.span;
                let to_end = self.unless(*cond)?;
                self.block(body)?;
                self.span = s.span;
                self.push(Instr::Jump { to: start });
                self.land(to_end);
            }
        }
        Ok(())
    }

    /// A jump, yet without a target, that is taken where the condition does not hold.
    fn unless(&mut self, cond: Cond) -> Result<usize, Error> {
        let to = Label(0);
        let instr = match cond {
            Cond::Var(v) => Instr::JumpNot { cond: self.int(v)?, to },
            Cond::Compare(op, a, b) => {
                let op = match op {
                    Compare::Eq => Compare::Ne,
                    Compare::Ne => Compare::Eq,
                    Compare::Lt => Compare::Ge,
                    Compare::Le => Compare::Gt,
                    Compare::Gt => Compare::Le,
                    Compare::Ge => Compare::Lt,
                };
                Instr::JumpCmp { op, a: self.int(a)?, b: self.int(b)?, to }
            }
        };
        Ok(self.push(instr))
    }

    /// Makes a jump lead to the next instruction. There always is one: a function ends with `ret`.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only jumps are landed")]
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.out.code[jump] {
            Instr::Jump { to }
            | Instr::JumpIf { to, .. }
            | Instr::JumpNot { to, .. }
            | Instr::JumpCmp { to, .. } => {
                *to = here;
            }
            _ => {}
        }
    }

    fn value(&mut self, v: Var, value: &Value) -> Result<(), Error> {
        let instr = match *value {
            Value::Int(i) => Instr::IntConst { dst: self.int(v)?, value: Int(i) },
            Value::Float(x) => Instr::FloatConst { dst: self.float(v)?, value: Float(x.to_bits()) },
            Value::Copy(from) => match self.reg(from)? {
                Reg::I(n) => Instr::IntMove { dst: self.int(v)?, src: I(n) },
                Reg::F(n) => Instr::FloatMove { dst: self.float(v)?, src: F(n) },
                Reg::T(_) => return Err(self.fault("a tensor is copied as a scalar")),
            },
            Value::Dim(op, a, b) => {
                let (dst, a, b) = (self.int(v)?, self.int(a)?, self.int(b)?);
                match op {
                    DimOp::Add => Instr::DimAdd { dst, a, b },
                    DimOp::Sub => Instr::DimSub { dst, a, b },
                    DimOp::Mul => Instr::DimMul { dst, a, b },
                    DimOp::FloorDiv => Instr::DimFloor { dst, a, b },
                    DimOp::CeilDiv => Instr::DimCeil { dst, a, b },
                    DimOp::Mod => Instr::DimMod { dst, a, b },
                    DimOp::Min => Instr::DimMin { dst, a, b },
                    DimOp::Max => Instr::DimMax { dst, a, b },
                }
            }
            Value::Extent(t, axis) => {
                Instr::Dim { dst: self.int(v)?, src: self.tensor(t)?, axis: Axis(axis) }
            }
            Value::Load(t) => {
                let src = self.tensor(t)?;
                match self.reg(v)? {
                    Reg::I(n) => Instr::IntLoad { dst: I(n), src },
                    Reg::F(n) => Instr::FloatLoad { dst: F(n), src },
                    Reg::T(_) => return Err(self.fault("an element is loaded as a tensor")),
                }
            }
            Value::Cast { from, to, arg } => return self.cast(v, from, to, arg),
            Value::Scalar { op, dtype, ref args } => return self.scalar(v, op, dtype, args),
        };
        self.push(instr);
        Ok(())
    }

    fn cast(&mut self, v: Var, from: DType, to: DType, arg: Var) -> Result<(), Error> {
        let instr = match (from.is_float(), to.is_float()) {
            (true, true) => Instr::Round { dst: self.float(v)?, src: self.float(arg)?, dtype: to },
            (true, false) => Instr::ToInt { dst: self.int(v)?, src: self.float(arg)?, dtype: to },
            (false, true) => Instr::ToFloat { dst: self.float(v)?, src: self.int(arg)?, dtype: to },
            (false, false) => Instr::Wrap { dst: self.int(v)?, src: self.int(arg)?, dtype: to },
        };
        self.push(instr);
        Ok(())
    }

    fn scalar(&mut self, v: Var, op: Intrinsic, dtype: DType, args: &[Var]) -> Result<(), Error> {
        let name = op.name();
        let unknown = || Error::unsupported(format!("{name} of a {dtype} scalar"), self.span);
        let arg = |i: usize| args.get(i).copied().ok_or_else(|| self.fault("an operand is missing"));
        if op == Intrinsic::Select {
            let cond = self.int(arg(0)?)?;
            let instr = if dtype.is_float() {
                Instr::FloatSel {
                    dst: self.float(v)?,
                    cond,
                    a: self.float(arg(1)?)?,
                    b: self.float(arg(2)?)?,
                }
            } else {
                Instr::IntSel { dst: self.int(v)?, cond, a: self.int(arg(1)?)?, b: self.int(arg(2)?)? }
            };
            self.push(instr);
            return Ok(());
        }
        if let Some(op) = Compare::named(name) {
            let dst = self.int(v)?;
            let instr = if dtype.is_float() {
                Instr::FloatCmp { dst, op, a: self.float(arg(0)?)?, b: self.float(arg(1)?)? }
            } else {
                Instr::IntCmp { dst, op, a: self.int(arg(0)?)?, b: self.int(arg(1)?)? }
            };
            self.push(instr);
            return Ok(());
        }
        if !dtype.is_float() {
            let dst = self.int(v)?;
            let instr = if op.arity() == 1 {
                Instr::IntUn {
                    dst,
                    op: IntUnary::named(name).ok_or_else(unknown)?,
                    dtype,
                    a: self.int(arg(0)?)?,
                }
            } else {
                let (a, b) = (self.int(arg(0)?)?, self.int(arg(1)?)?);
                Instr::IntBin { dst, op: IntBinary::named(name).ok_or_else(unknown)?, dtype, a, b }
            };
            self.push(instr);
            return Ok(());
        }
        let dst = self.float(v)?;
        let instr = if op.arity() == 1 {
            Instr::FloatUn { dst, op: FloatUnary::named(name).ok_or_else(unknown)?, a: self.float(arg(0)?)? }
        } else {
            let (a, b) = (self.float(arg(0)?)?, self.float(arg(1)?)?);
            Instr::FloatBin { dst, op: FloatBinary::named(name).ok_or_else(unknown)?, a, b }
        };
        self.push(instr);
        if dtype != DType::F64 {
            self.push(Instr::Round { dst, src: dst, dtype });
        }
        Ok(())
    }
}
