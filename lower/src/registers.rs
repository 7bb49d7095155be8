//! Registers for variables: linear scan over the lifetimes of a function's variables.
//!
//! Statements are numbered in the order of the text, uses before definitions. A variable lives from its first to its
//! last mention; one that is older than a loop and mentioned in it lives to the loop's end, since the next round
//! may need it. Variables whose lives do not meet may share a register of their type.

use std::collections::{BTreeMap, BTreeSet};

use ir::source::Span;
use vm::isa::Reg;
use vm::{TensorType, Type};

use crate::error::Error;
use crate::rt::{Func, Kind, Stmt, Var};

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

/// When variables live, in half steps: even for uses, odd for definitions.
struct Lives {
    lives: Vec<Option<(usize, usize)>>,
    now: usize,
}

impl Lives {
    fn mention(&mut self, v: Var, at: usize) {
        let life = &mut self.lives[v.0 as usize];
        *life = Some(life.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
    }

    fn uses(&mut self, vars: &[Var]) {
        vars.iter().for_each(|v| self.mention(*v, self.now));
    }

    fn defines(&mut self, v: Var) {
        self.mention(v, self.now + 1);
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.now += 2;
            match &s.kind {
                Kind::Let(v, value) => {
                    self.uses(&value.vars());
                    self.defines(*v);
                }
                Kind::Alloc(v, dims) => {
                    self.uses(dims);
                    self.defines(*v);
                }
                Kind::Const(v, _) => self.defines(*v),
                Kind::Share(v, from) | Kind::Own(v, from) => {
                    self.uses(&[*from]);
                    self.defines(*v);
                }
                Kind::View(v, from, dims) => {
                    self.uses(&[*from]);
                    self.uses(dims);
                    self.defines(*v);
                }
                Kind::Release(v) => self.uses(&[*v]),
                Kind::Store(t, v) => self.uses(&[*t, *v]),
                Kind::Check(c, _, values) => {
                    self.uses(&c.vars());
                    self.uses(values);
                }
                Kind::Fail(_, values) => self.uses(values),
                Kind::Kernel(_, scalars, bufs) => {
                    self.uses(scalars);
                    self.uses(bufs);
                }
                Kind::Call(_, args, results) => {
                    self.uses(args);
                    results.iter().for_each(|r| self.defines(*r));
                }
                Kind::If(c, then, other) => {
                    self.uses(&c.vars());
                    self.block(then);
                    self.block(other);
                }
                Kind::While { head, cond, body } => {
                    let start = self.now;
                    let before: Vec<bool> = self.lives.iter().map(Option::is_some).collect();
                    self.block(head);
                    self.now += 2;
                    self.uses(&cond.vars());
                    self.block(body);
                    self.now += 2;
                    let end = self.now;
                    for (life, before) in self.lives.iter_mut().zip(before) {
                        if let Some((_, to)) = life
                            && before
                            && *to >= start
                        {
                            *to = end;
                        }
                    }
                }
            }
        }
    }
}

/// Gives every variable that is mentioned a register; parameters get the first ones of their kind.
pub(crate) fn allocate(func: &Func) -> Result<Registers, Error> {
    let mut lives = Lives { lives: vec![None; func.vars.len()], now: 0 };
    func.params.iter().for_each(|p| lives.defines(p.0));
    lives.block(&func.body);
    lives.now += 2;
    lives.uses(&func.results);

    let mut order: Vec<(usize, usize, Var)> = lives
        .lives
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
