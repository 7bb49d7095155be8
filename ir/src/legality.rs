//! Legality of loop attributes: which loops can be vectorized (SIMD), unrolled or streamed as they are told ([`Run`]).
//!
//! In: a primitive whose loops are marked. Out: what is in the way, in words. The checker asks it of text,
//! transformations of what they made, so that both accept the same.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use tensor::DType;

use crate::depend::Carried;
use crate::loops::{Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use crate::{Combine, Intrinsic, Literal};

/// Lanes of a vector.
const LANES: std::ops::RangeInclusive<u32> = 2..=64;
/// Vectors done at once.
const VECTORS: std::ops::RangeInclusive<u32> = 1..=8;
/// KiB from which on stores go past the caches.
const LARGE: u32 = 1 << 30;
/// Rounds ahead.
const AHEAD: std::ops::RangeInclusive<u32> = 1..=1024;
/// Rounds done at once.
const ROWS: u32 = 16;
/// The most rounds that are written out.
const UNROLLED: i64 = 64;

/// Why a loop cannot run as it is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl Misfit {
    fn new(what: impl Into<String>, help: impl Into<String>) -> Misfit {
        Misfit { what: what.into(), help: help.into() }
    }
}

impl Run {
    /// Whether its numbers are in range.
    pub fn in_range(&self) -> Result<(), Misfit> {
        match self {
            Run::Plain | Run::Unrolled | Run::Dot => Ok(()),
            Run::Lanes { lanes, .. } | Run::Stream { lanes, .. }
                if !lanes.is_power_of_two() || !LANES.contains(lanes) =>
            {
                let help = "the lanes of a vector are 2, 4, 8, 16, 32 or 64";
                Err(Misfit::new(format!("no vector has {lanes} lanes"), help))
            }
            Run::Lanes { vectors, .. } | Run::Stream { vectors, .. } if !VECTORS.contains(vectors) => {
                let help = "1 to 8 vectors are done at once";
                Err(Misfit::new(format!("{vectors} vectors are not done at once"), help))
            }
            Run::Stream { from, .. } if *from > LARGE => {
                let help = format!("it is at most {LARGE}");
                Err(Misfit::new(format!("no tensor has {from} KiB"), help))
            }
            Run::Ahead(rounds) if !AHEAD.contains(rounds) => {
                let help = "it is 1 to 1024 rounds";
                Err(Misfit::new(format!("nothing is asked for {rounds} rounds ahead"), help))
            }
            Run::Lanes { .. } | Run::Stream { .. } | Run::Ahead(_) => Ok(()),
            Run::Rows(rows) => {
                let down = rows.windows(2).all(|w| w[0] > w[1]) && rows.last() == Some(&1);
                if down && rows[0] <= ROWS {
                    return Ok(());
                }
                let help = "they go down from at most 16 to 1: `#[rows(6, 2, 1)]`";
                Err(Misfit::new("these numbers of rounds do not go down to 1", help))
            }
        }
    }

    /// Whether a loop of statements can run so, whatever its body.
    pub fn in_loop(&self) -> Result<(), Misfit> {
        if *self != Run::Dot {
            return Ok(());
        }
        let help = "it stands in a reduction: `sum(#[dot] t in 4) i32(a[t]) * i32(b[t])`";
        Err(Misfit::new("a loop of statements is no dot product", help))
    }

    /// Whether a reduction can run so, whatever its body.
    pub fn in_reduction(&self) -> Result<(), Misfit> {
        let help = "rounds of a reduction are lanes: `sum(#[lanes(16, 1)] k in n)`";
        match self {
            Run::Stream { .. } => Err(Misfit::new("a reduction stores nothing", help)),
            Run::Plain | Run::Lanes { .. } | Run::Rows(_) | Run::Unrolled | Run::Ahead(_) | Run::Dot => {
                Ok(())
            }
        }
    }
}

impl Prim {
    /// The loops and reductions that cannot run as they are told, given what loops carry.
    pub fn misfits(&self, carried: &[(VarId, Carried)]) -> Vec<(VarId, Misfit)> {
        let mut found = Vec::new();
        let mut add = |var: VarId, fits: Result<(), Misfit>| found.extend(fits.err().map(|m| (var, m)));
        for s in &self.body {
            s.walk(&mut |s| {
                if let Stmt::For { var, lo, hi, run, body, .. } = s {
                    add(*var, run.in_range().and_then(|()| run.in_loop()));
                    let carries = carried.iter().find(|c| c.0 == *var).map(|c| c.1);
                    match (run, carries) {
                        (Run::Unrolled, _) => add(*var, self.can_unroll(*var, lo, hi)),
                        (Run::Lanes { .. }, Some(Carried::Buf(_))) if self.puts_in_turn(body) => {}
                        (Run::Lanes { .. } | Run::Stream { .. } | Run::Rows(_), Some(c)) => {
                            add(*var, Err(self.dependent(*var, c)))
                        }
                        (Run::Lanes { .. } | Run::Stream { .. }, None) => {
                            add(*var, self.together(*var, body))
                        }
                        _ => {}
                    }
                }
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        let ScalarKind::Reduce { combine, run, var, lo, hi, body } = &e.kind else { return };
                        add(*var, run.in_range().and_then(|()| run.in_reduction()));
                        match run {
                            Run::Unrolled => add(*var, self.can_unroll(*var, lo, hi)),
                            Run::Dot
                                if *combine != Combine::Add
                                    || !is_dot(self.constant_trip_count(lo, hi), body) =>
                            {
                                add(*var, Err(no_dot()));
                            }
                            _ => {}
                        }
                    });
                }
            });
        }
        found
    }

    /// What the rounds of a loop share, in words.
    pub fn says(&self, carried: Carried) -> String {
        match carried {
            Carried::Var(v) => format!("`{}` passes from one to the next", self.var(v).name),
            Carried::Buf(b) => format!("one may touch what another writes of `{}`", self.buf(b).name),
        }
    }

    /// Whether each round of a loop puts one number at a place of its own finding, of which rounds read nothing: lanes
    /// are computed together then, and put there one after the other. At most one access is checked, so that the first
    /// that fails is the first of all.
    pub fn puts_in_turn(&self, body: &[Stmt]) -> bool {
        let Some((Stmt::Store { buf, index, checked, .. }, sets)) = body.split_last() else { return false };
        let mut unset = Vec::new();
        for s in sets {
            let Stmt::Set(v, _) = s else { return false };
            unset.push(*v);
        }
        let own: Vec<_> = unset.iter().map(|v| self.var(*v).name).collect();
        let found = |i: &Scalar| self.as_dim(i).is_none_or(|d| own.iter().any(|v| d.syms().contains(v)));
        let (mut checks, mut fits) = (usize::from(*checked), index.iter().any(found));
        for s in body {
            for e in s.scalars() {
                e.walk(&mut |e| match &e.kind {
                    ScalarKind::Load { buf: read, checked, .. } => {
                        fits &= read != buf;
                        checks += usize::from(*checked);
                    }
                    // It would be what another round has set.
                    ScalarKind::Var(v) => fits &= !unset.contains(v),
                    ScalarKind::Reduce { .. } => fits = false,
                    _ => {}
                });
            }
            unset.retain(|v| !matches!(s, Stmt::Set(set, _) if set == v));
        }
        fits && checks <= 1
    }

    /// Whether all lanes of a loop do the same statements equally often.
    fn together(&self, var: VarId, body: &[Stmt]) -> Result<(), Misfit> {
        // A variable that is set twice may be the same in all lanes where it is read.
        let mut sets: Vec<VarId> = Vec::new();
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Set(v, _) = s {
                    sets.push(*v);
                }
            });
        });
        let once = |v: &VarId| sets.iter().filter(|s| *s == v).count() == 1;
        let mut moved = vec![var];
        let name = self.var(var).name;
        let mut found = None;
        for s in body {
            s.walk(&mut |s| {
                let moves = |e: &Scalar| self.mentions(e, &moved);
                let mut apart = |what: &str| {
                    found.get_or_insert_with(|| {
                        format!("the lanes of `{name}` would not stay together: {what}")
                    });
                };
                match s {
                    Stmt::While(_, body) if !lanes_wait(body) => {
                        apart("a `while` that does more than set variables may be of its own length in each");
                    }
                    Stmt::For { lo, hi, .. } if moves(lo) || moves(hi) => {
                        apart("the loop inside has other bounds in each");
                    }
                    Stmt::Alloc(_) => apart("each has a buffer of its own"),
                    _ => {}
                }
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Reduce { lo, hi, .. } = &e.kind
                            && (moves(lo) || moves(hi))
                        {
                            apart("the reduction inside has other bounds in each");
                        }
                    });
                }
                if let Stmt::Set(v, value) = s
                    && once(v)
                    && moves(value)
                {
                    moved.push(*v);
                }
            });
        }
        let help = "leave the mark out: the compiler finds what such a loop can be";
        found.map_or(Ok(()), |what| Err(Misfit::new(what, help)))
    }

    /// Whether an expression reads one of some variables.
    pub fn mentions(&self, e: &Scalar, vars: &[VarId]) -> bool {
        let mut found = false;
        e.walk(&mut |e| match &e.kind {
            ScalarKind::Var(v) => found |= vars.contains(v),
            ScalarKind::Dim(d) => {
                let syms = d.syms();
                found |= vars.iter().any(|v| syms.contains(&self.var(*v).name));
            }
            _ => {}
        });
        found
    }

    fn dependent(&self, var: VarId, carried: Carried) -> Misfit {
        let what = self.says(carried);
        let help = "a loop whose rounds depend on each other runs one after the other, or is a reduction";
        Misfit::new(format!("the rounds of `{}` are not independent: {what}", self.var(var).name), help)
    }

    fn can_unroll(&self, var: VarId, lo: &Scalar, hi: &Scalar) -> Result<(), Misfit> {
        let name = self.var(var).name;
        let what = match self.constant_trip_count(lo, hi) {
            Some(n) if n <= UNROLLED => return Ok(()),
            Some(n) => format!("`{name}` has {n} rounds, too many to write out"),
            None => format!("the number of rounds of `{name}` is not known when compiling"),
        };
        Err(Misfit::new(what, format!("a loop over a constant of at most {UNROLLED} is unrolled")))
    }
}

/// Whether lanes that are done with a loop can wait for others that are not: it does nothing but set variables.
pub fn lanes_wait(body: &[Stmt]) -> bool {
    body.iter().all(|s| match s {
        Stmt::Set(..) => true,
        Stmt::While(_, body) => lanes_wait(body),
        Stmt::If(_, yes, no) => lanes_wait(yes) && lanes_wait(no),
        Stmt::For { .. } | Stmt::Alloc(_) | Stmt::Store { .. } => false,
    })
}

fn no_dot() -> Misfit {
    let help = "4 products of 8-bit integers (`i32(a[t]) * i32(b[t])`), or 2 of 16-bit integers or of bf16 (`f32(..)`)";
    Misfit::new("this is no sum of products of two narrow numbers", help)
}

/// The type of a constant that is multiplied by narrow numbers, where it fits: a byte is multiplied by one of the other
/// kind.
pub fn dot_constant_type(other: DType, constant: i64) -> Option<DType> {
    let (dtype, range) = match other {
        DType::U8 => (DType::I8, -128..=127),
        DType::I8 => (DType::U8, 0..=255),
        DType::I16 => (DType::I16, i16::MIN.into()..=i16::MAX.into()),
        _ => return None,
    };
    range.contains(&constant).then_some(dtype)
}

/// The products that one instruction adds up, where `body` is one of them.
pub fn dot_width(body: &Scalar) -> Option<i64> {
    let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return None };
    let (x, y) = (args.first()?, args.get(1)?);
    if body.dtype == DType::Bf16 && x.dtype == DType::Bf16 && y.dtype == DType::Bf16 {
        return Some(2);
    }
    let (x, y) = match (&x.kind, &y.kind) {
        (ScalarKind::Cast(x), ScalarKind::Cast(y)) => (x.dtype, y.dtype),
        (ScalarKind::Cast(x), ScalarKind::Const(Literal::Int(c)))
        | (ScalarKind::Const(Literal::Int(c)), ScalarKind::Cast(x)) => {
            (x.dtype, dot_constant_type(x.dtype, *c)?)
        }
        _ => return None,
    };
    let both = |of: &[DType]| of.contains(&x) && of.contains(&y);
    match body.dtype {
        DType::I32 if both(&[DType::I8, DType::U8]) => Some(4),
        DType::I32 if both(&[DType::I16]) => Some(2),
        DType::F32 if both(&[DType::Bf16]) => Some(2),
        _ => None,
    }
}

fn is_dot(rounds: Option<i64>, body: &Scalar) -> bool {
    rounds.is_some() && rounds == dot_width(body)
}
