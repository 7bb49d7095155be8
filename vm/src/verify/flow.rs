//! Definite assignment: a register is read only where every path has written it.

use std::collections::BTreeSet;

use crate::isa::{I, Instr, Mode, Operand, Reg, T};
use crate::program::{Function, Program, Type};

/// Calls `f` with the registers of an instruction in the order it uses them: what it reads and takes first.
/// The instruction has been checked.
#[expect(clippy::wildcard_enum_match_arm, reason = "only instructions with lists matter")]
fn registers(program: &Program, f: &Function, instr: &Instr, visit: &mut dyn FnMut(Mode, Reg)) {
    let mut written = None;
    instr.operands(&mut |mode, o| {
        let reg = match o {
            Operand::I(I(r)) => Reg::I(r),
            Operand::F(r) => Reg::F(r.0),
            Operand::T(T(r)) => Reg::T(r),
            Operand::Int(_)
            | Operand::Float(_)
            | Operand::Label(_)
            | Operand::Message(_)
            | Operand::Const(_)
            | Operand::Kernel(_)
            | Operand::Func(_)
            | Operand::Region(_)
            | Operand::Axis(_)
            | Operand::List(_)
            | Operand::DType(_)
            | Operand::IntUnary(_)
            | Operand::IntBinary(_)
            | Operand::FloatUnary(_)
            | Operand::FloatBinary(_)
            | Operand::Compare(_) => return,
        };
        if mode == Mode::set { written = Some(reg) } else { visit(mode, reg) }
    });
    match *instr {
        Instr::Alloc { dims: l, .. }
        | Instr::Place { dims: l, .. }
        | Instr::View { dims: l, .. }
        | Instr::Slice { dims: l, .. }
        | Instr::Check { values: l, .. }
        | Instr::Fail { values: l, .. }
        | Instr::Kernel { args: l, .. }
        | Instr::Ret { values: l } => f.list(l).iter().for_each(|&r| visit(Mode::get, r)),
        Instr::Call { func, args } => {
            let callee = &program.functions[func.0 as usize];
            let (given, back) = f.list(args).split_at(callee.params.len());
            // Reads first: what is taken is no longer there to be read.
            given.iter().for_each(|&r| visit(Mode::get, r));
            given.iter().zip(&callee.params).filter(|(_, p)| p.own).for_each(|(&r, _)| visit(Mode::take, r));
            back.iter().for_each(|&r| visit(Mode::set, r));
        }
        _ => {}
    }
    if let Some(r) = written {
        visit(Mode::set, r);
    }
}

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    /// Keeps what both have; true if that is less than before.
    fn meet(&mut self, other: &Set) -> bool {
        let mut less = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            less |= *a & !b != 0;
            *a &= b;
        }
        less
    }
}

/// More words of sets than this for one function are refused: a hostile file cannot make verification huge.
const MAX_SET_WORDS: usize = 1 << 26;

/// Definite assignment: a forward flow over basic blocks; where paths meet, what all have written.
pub(super) fn assigned(program: &Program, f: &Function) -> std::result::Result<(), (usize, String)> {
    let (ints, floats) = (f.ints as usize, f.floats as usize);
    let number = |r: Reg| match r {
        Reg::I(i) => i as usize,
        Reg::F(i) => ints + i as usize,
        Reg::T(i) => ints + floats + i as usize,
    };
    let words = (ints + floats + f.tensors.len()).div_ceil(64);

    let mut starts = BTreeSet::from([0]);
    for (pc, instr) in f.code.iter().enumerate() {
        if let Some(to) = target(instr) {
            starts.insert(to);
            starts.insert(pc + 1);
        }
    }
    starts.remove(&f.code.len());
    let starts: Vec<usize> = starts.into_iter().collect();
    if starts.len().saturating_mul(words) > MAX_SET_WORDS {
        return Err((0, "the function is too large to be verified".to_owned()));
    }
    let mut before: Vec<Option<Set>> = vec![None; starts.len()];
    let mut entry = Set(vec![0; words]);
    let (mut i, mut fl, mut t) = (0, 0, 0);
    for p in &f.params {
        let n = match p.ty {
            Type::Int => &mut i,
            Type::Float => &mut fl,
            Type::Tensor(_) => &mut t,
        };
        entry.insert(match p.ty {
            Type::Int => *n,
            Type::Float => ints + *n,
            Type::Tensor(_) => ints + floats + *n,
        });
        *n += 1;
    }
    before[0] = Some(entry);

    // Sets only shrink, so a block is visited at most once for each register; in order it is a few times.
    let mut work = BTreeSet::from([0]);
    while let Some(block) = work.pop_first() {
        let Some(mut set) = before[block].clone() else { continue };
        let end = starts.get(block + 1).copied().unwrap_or(f.code.len());
        let mut next = Vec::new();
        for pc in starts[block]..end {
            let instr = &f.code[pc];
            let mut fault = None;
            registers(program, f, instr, &mut |mode, r| match mode {
                Mode::set => set.insert(number(r)),
                Mode::get | Mode::take => {
                    if !set.has(number(r)) && fault.is_none() {
                        fault = Some(r);
                    }
                    if mode == Mode::take {
                        set.remove(number(r));
                    }
                }
                Mode::imm => {}
            });
            if let Some(r) = fault {
                let name = crate::asm::reg(r);
                return Err((pc, format!("{}: {name} is read where it may be empty", instr.mnemonic())));
            }
            if let Some(to) = target(instr) {
                next.push(to);
            }
            if pc + 1 == end && !matches!(instr, Instr::Jump { .. } | Instr::Ret { .. } | Instr::Fail { .. })
            {
                next.push(end);
            }
            if matches!(instr, Instr::Ret { .. } | Instr::Fail { .. }) {
                // What follows in this block cannot be reached.
                break;
            }
        }
        for to in next {
            let Ok(to) = starts.binary_search(&to) else { continue };
            let changed = match &mut before[to] {
                Some(old) => old.meet(&set),
                none => {
                    *none = Some(set.clone());
                    true
                }
            };
            if changed {
                work.insert(to);
            }
        }
    }
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only jumps matter")]
fn target(instr: &Instr) -> Option<usize> {
    match *instr {
        Instr::Jump { to }
        | Instr::JumpIf { to, .. }
        | Instr::JumpNot { to, .. }
        | Instr::JumpCmp { to, .. } => Some(to.0 as usize),
        _ => None,
    }
}
