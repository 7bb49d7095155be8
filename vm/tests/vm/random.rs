//! Random registers, operands, instructions and programs, from a seed.

use tensor::DType;
use tensor::abi::{Access, Step};
use vm::Program;
use vm::isa::{
    Axis, ConstId, F, Float, FuncId, I, Instr, Int, KernelId, Kind, Label, List, MessageId, Operand, Reg,
    RegionId, T,
};
use vm::scalar::{Compare, FloatBinary, FloatUnary, IntBinary, IntUnary};

use crate::build::*;

/// Marsaglia's xorshift: the tests need no more.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(crate) fn reg(&mut self) -> Reg {
        let n = self.below(5) as u16;
        self.pick(&[Reg::I(n), Reg::F(n), Reg::T(n)])
    }

    pub(crate) fn operand(&mut self, kind: Kind) -> Operand {
        let small = self.below(6) as u16;
        let dtypes: Vec<DType> = DType::all().collect();
        match kind {
            Kind::I => Operand::I(I(small)),
            Kind::F => Operand::F(F(small)),
            Kind::T => Operand::T(T(small)),
            Kind::Int => {
                let n = [small as i64, -1, i64::MAX, i64::MIN, 1 << 40];
                Operand::Int(Int(self.pick(&n)))
            }
            Kind::Float => Operand::Float(Float(self.pick(&[0.0, -1.5, f64::NAN, f64::INFINITY]).to_bits())),
            Kind::Label => Operand::Label(Label(self.below(25) as u32)),
            Kind::Message => Operand::Message(MessageId(small.into())),
            Kind::Const => Operand::Const(ConstId(small.into())),
            Kind::Kernel => Operand::Kernel(KernelId(small.into())),
            Kind::Func => Operand::Func(FuncId(small.into())),
            Kind::Region => Operand::Region(RegionId(small.into())),
            Kind::Axis => Operand::Axis(Axis(small as u8)),
            Kind::List => Operand::List(List { start: self.below(30) as u32, len: self.below(5) as u16 }),
            Kind::DType => Operand::DType(self.pick(&dtypes)),
            Kind::IntUnary => Operand::IntUnary(self.pick(IntUnary::ALL)),
            Kind::IntBinary => Operand::IntBinary(self.pick(IntBinary::ALL)),
            Kind::FloatUnary => Operand::FloatUnary(self.pick(FloatUnary::ALL)),
            Kind::FloatBinary => Operand::FloatBinary(self.pick(FloatBinary::ALL)),
            Kind::Compare => Operand::Compare(self.pick(Compare::ALL)),
        }
    }

    /// An instruction of the table with random operands.
    pub(crate) fn instr(&mut self) -> Instr {
        let (mnemonic, ..) = self.pick(Instr::TABLE);
        let built = Instr::build(mnemonic, &mut |kind| Ok::<_, ()>(self.operand(kind)));
        built.unwrap().unwrap()
    }

    /// The same instruction with one operand changed.
    pub(crate) fn change(&mut self, instr: Instr) -> Instr {
        let mut operands = Vec::new();
        instr.operands(&mut |_, o| operands.push(o));
        let (change, mut i) = (self.below(operands.len()), 0);
        let built = Instr::build(instr.mnemonic(), &mut |kind| {
            i += 1;
            Ok::<_, ()>(if i - 1 == change { self.operand(kind) } else { operands[i - 1] })
        });
        built.unwrap().unwrap()
    }

    pub(crate) fn steps(&mut self, steps: &mut Vec<Step>) {
        let n = self.below(4) as u32;
        let step = self.pick(&[Step::Int(n), Step::Const(i64::from(n) - 1), Step::Const(i64::MAX)]);
        if self.below(3) == 0 {
            steps.push(step);
        } else if let Some(last) = steps.last_mut() {
            *last = step;
        }
    }

    pub(crate) fn mutate(&mut self, p: &mut Program) {
        let function = self.below(p.functions.len());
        let f = &mut p.functions[function];
        let pc = self.below(f.code.len());
        match self.below(18) {
            0..=3 => f.code[pc] = self.change(f.code[pc]),
            4 | 5 => f.code[pc] = self.instr(),
            6 => f.code.insert(pc, self.instr()),
            7 => {
                f.code.remove(pc);
            }
            8 => {
                let other = self.below(f.code.len());
                f.code.swap(pc, other);
            }
            9 | 10 => {
                let at = self.below(f.pool.len());
                if let Some(r) = f.pool.get_mut(at) {
                    *r = self.reg();
                }
            }
            11 => {
                f.ints = self.below(5) as u16;
                f.floats = self.below(4) as u16;
            }
            12 => {
                let at = self.below(f.tensors.len());
                f.tensors[at] = t(self.pick(&[F32, I64]), self.below(10) as u8);
            }
            13 => {
                let k = self.below(p.kernels.len());
                let k = &mut p.kernels[k];
                match self.below(3) {
                    0 => k.abi.bufs[0].rank = self.below(4) as u8,
                    1 => k.abi.ints = self.below(4) as u32,
                    // A kernel that claims to read what it writes is beyond what a verifier can know; the other way is
                    // refused.
                    _ => k.abi.bufs[0].access = Access::InOut,
                }
            }
            14 => {
                let e = &mut p.entries[0];
                match self.below(3) {
                    0 => self.steps(&mut e.dims[0].steps),
                    1 => self.steps(&mut e.params[0].shape[0].steps),
                    _ => e.function = self.below(3) as u32,
                }
            }
            15 | 16 => {
                let region = self.below(f.regions.len());
                let (n, twin) = (self.below(12) as u32, self.below(3) == 0);
                if let Some(r) = f.regions.get_mut(region) {
                    match self.below(4) {
                        0 => r.from = n,
                        1 => r.to = n,
                        2 => r.twin = twin,
                        _ => self.steps(&mut r.bytes),
                    }
                }
            }
            _ => {
                let param = self.below(f.params.len());
                if let Some(q) = f.params.get_mut(param) {
                    q.own = !q.own;
                }
            }
        }
    }
}
