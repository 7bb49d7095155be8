//! Register allocation: linear scan over the lifetimes of a function's variables.
//!
//! Variables whose lives do not meet may share a register of their type.

use std::collections::{BTreeMap, BTreeSet};

use ir::source::Span;
use vm::isa::Reg;
use vm::{TensorType, Type};

use crate::error::Error;
use crate::liveness::Liveness;
use crate::rt::{Func, Var};

/// The registers of a function.
pub(crate) struct Registers {
    /// By variable; none for one that is never mentioned.
    of: Vec<Option<Reg>>,
    pub(crate) ints: u16,
    pub(crate) floats: u16,
    pub(crate) tensors: Vec<TensorType>,
}

impl Registers {
    pub(crate) fn get(&self, v: Var) -> Option<Reg> {
        self.of[v.0 as usize]
    }
}

/// Gives every variable that is mentioned a register; parameters get the first ones of their kind.
pub(crate) fn allocate(func: &Func) -> Result<Registers, Error> {
    let liveness = Liveness::new(func);
    let mut order: Vec<(usize, usize, Var)> = liveness
        .vars
        .iter()
        .enumerate()
        .filter_map(|(i, life)| life.map(|(from, to)| (from, to, Var(i as u32))))
        .collect();
    // Parameters begin at the same moment: their order is that of the signature, which is that of their numbers.
    order.sort_by_key(|&(from, _, v)| {
        (from, func.params.iter().position(|p| p.0 == v).unwrap_or(usize::MAX), v)
    });

    let mut out = Registers { of: vec![None; func.vars.len()], ints: 0, floats: 0, tensors: Vec::new() };
    let mut free: BTreeMap<Class, BTreeSet<u16>> = BTreeMap::new();
    let mut ends: BTreeMap<usize, Vec<(Class, Reg)>> = BTreeMap::new();
    for (from, to, v) in order {
        // What ended before this begins is free again.
        let open = ends.split_off(&from);
        for (class, reg) in std::mem::replace(&mut ends, open).into_values().flatten() {
            free.entry(class).or_default().insert(number(reg));
        }
        let class = class(func.ty(v));
        let reused = free.get_mut(&class).and_then(BTreeSet::pop_first);
        let reg = match (func.ty(v), reused) {
            (Type::Int, n) => Reg::I(fresh(n, &mut out.ints, func.span)?),
            (Type::Float, n) => Reg::F(fresh(n, &mut out.floats, func.span)?),
            (Type::Tensor(t), n) => {
                let mut count = u16::try_from(out.tensors.len()).map_err(|_| too_many(func.span))?;
                let n = fresh(n, &mut count, func.span)?;
                if count as usize > out.tensors.len() {
                    out.tensors.push(t);
                }
                Reg::T(n)
            }
        };
        out.of[v.0 as usize] = Some(reg);
        ends.entry(to).or_default().push((class, reg));
    }
    Ok(out)
}

fn fresh(reused: Option<u16>, count: &mut u16, span: Span) -> Result<u16, Error> {
    if let Some(n) = reused {
        return Ok(n);
    }
    let n = *count;
    *count = count.checked_add(1).ok_or_else(|| too_many(span))?;
    Ok(n)
}

fn too_many(span: Span) -> Error {
    Error::unsupported("a function with more than 65535 live values of a kind", span)
}

/// Registers that may be exchanged: a kind, and for tensors dtype and rank.
type Class = (u8, &'static str, u8);

fn class(ty: Type) -> Class {
    match ty {
        Type::Int => (0, "", 0),
        Type::Float => (1, "", 0),
        Type::Tensor(t) => (2, t.dtype.name(), t.rank),
    }
}

fn number(reg: Reg) -> u16 {
    match reg {
        Reg::I(n) | Reg::F(n) | Reg::T(n) => n,
    }
}
