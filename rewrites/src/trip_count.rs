//! Trip counts: how often the loops of a primitive run, as expressions of its dims.
//!
//! Bounds that are dims give the rounds exactly; those that depend on an outer loop's variable are taken at its middle,
//! so that a triangle counts half. Bounds that depend on data are taken as far as anything limits them
//! ([`Ranges::limit`]): `min(data, e)` is at most `e`, `max(data, e)` at least. Where two neighbouring elements of an
//! index are the bounds (`start[i]..start[i + 1]`), the rounds of all `i` share the axis that the loop walks; where
//! nothing else is known, the loop walks all of the shortest axis that its variable indexes. A `while` that counts up
//! to a bound by a known step has the rounds that it takes; where the step is not known, what loops inside walk from
//! the counter on is a share of the way. What is left runs [`GUESS`] rounds.

use ir::Intrinsic;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use rustc_hash::FxHashMap;
use shape::{Expr, Sym};

/// Rounds of a loop of which nothing is known.
pub(crate) const GUESS: i64 = 16;

/// What a loop runs.
pub(crate) enum Body<'a> {
    /// Statements.
    Stmts(&'a [Stmt]),
    /// What a reduction adds up.
    Scalar(&'a Scalar),
}

/// What is known about the variables of a primitive on the way through its loops.
pub(crate) struct Ranges<'a> {
    prim: &'a Prim,
    /// The middle of the range of a loop's variable, by its name.
    middle: FxHashMap<Sym, Expr>,
    trips: FxHashMap<VarId, Expr>,
    /// What loops that begin at the counter of a `while` walk in one of its rounds.
    strides: FxHashMap<VarId, Expr>,
    /// What a variable is given, where it is given but once.
    given: FxHashMap<VarId, Option<&'a Scalar>>,
    /// True once the rounds of a loop were not exact.
    pub(crate) guessed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Most,
    Least,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Most { Side::Least } else { Side::Most }
    }
}

impl<'a> Ranges<'a> {
    pub(crate) fn new(prim: &'a Prim) -> Ranges<'a> {
        let mut given: FxHashMap<VarId, Option<&'a Scalar>> = FxHashMap::default();
        for stmt in &prim.body {
            stmt.walk(&mut |s| {
                if let Stmt::Set(var, value) = s {
                    given.entry(*var).and_modify(|g| *g = None).or_insert(Some(value));
                }
            });
        }
        Ranges {
            prim,
            middle: FxHashMap::default(),
            trips: FxHashMap::default(),
            strides: FxHashMap::default(),
            given,
            guessed: false,
        }
    }

    /// The rounds of a loop that was entered.
    pub(crate) fn trip(&self, var: VarId) -> Option<&Expr> {
        self.trips.get(&var)
    }

    /// Enters a loop and says how often it runs.
    pub(crate) fn enter(&mut self, var: VarId, lo: &Scalar, hi: &Scalar, body: &Body<'_>) -> Expr {
        let trip = match (self.exact(lo), self.exact(hi)) {
            (Some(lo), Some(hi)) => {
                self.middle.insert(self.prim.var(var).name, (&lo + &hi).floor_div(&Expr::int(2)));
                hi - lo
            }
            _ => {
                self.guessed = true;
                self.bounded(var, lo, hi, body)
            }
        };
        self.trips.insert(var, trip.clone());
        trip
    }

    /// Enters a `while` and says how often it may run.
    pub(crate) fn repeat(&mut self, cond: &Scalar, body: &[Stmt]) -> Expr {
        self.guessed = true;
        let Some((counter, bound, step)) = self.counted(cond, body) else { return Expr::int(GUESS) };
        if let Some(step) = self.exact(step).and_then(|e| e.as_int()).filter(|s| *s > 0) {
            return bound.ceil_div(&Expr::int(step));
        }
        self.strides.insert(counter, bound.ceil_div(&Expr::int(GUESS)));
        Expr::int(GUESS)
    }

    /// `while i < bound { ..; i = i + step }`
    fn counted<'s>(&self, cond: &'s Scalar, body: &'s [Stmt]) -> Option<(VarId, Expr, &'s Scalar)> {
        let ScalarKind::Op(Intrinsic::Lt, sides) = &cond.kind else { return None };
        let counter = sides.first()?.as_var()?;
        let bound = self.exact(sides.get(1)?)?;
        let mut steps = body.iter().filter_map(|s| match s {
            Stmt::Set(v, value) if *v == counter => Some(value),
            Stmt::Set(..) | Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) => None,
            Stmt::Alloc(_) | Stmt::Store { .. } => None,
        });
        let (Some(ScalarKind::Op(Intrinsic::Add, parts)), None) =
            (steps.next().map(|s| &s.kind), steps.next())
        else {
            return None;
        };
        match parts.as_slice() {
            [a, step] | [step, a] if a.as_var() == Some(counter) => Some((counter, bound, step)),
            _ => None,
        }
    }

    /// Rounds that depend on data.
    fn bounded(&mut self, var: VarId, lo: &Scalar, hi: &Scalar, body: &Body<'_>) -> Expr {
        if let Some(share) = self.meant(lo).as_var().and_then(|v| self.strides.get(&v)) {
            return share.clone();
        }
        if let (Some(least), Some(most)) = (self.limit(lo, Side::Least), self.limit(hi, Side::Most)) {
            self.middle.insert(self.prim.var(var).name, (&least + &most).floor_div(&Expr::int(2)));
            return Expr::max(&(most - least), &Expr::int(0));
        }
        let Some(walked) = self.walked(var, body) else { return Expr::int(GUESS) };
        self.middle.insert(self.prim.var(var).name, walked.floor_div(&Expr::int(2)));
        match self.segments(lo, hi) {
            Some(all) => walked.ceil_div(&Expr::max(&all, &Expr::int(1))),
            None => walked,
        }
    }

    fn exact(&self, s: &Scalar) -> Option<Expr> {
        let e = self.prim.as_dim(s)?;
        self.in_dims(e)
    }

    /// The same over dims alone: variables of loops at their middle, others as what they were given.
    fn in_dims(&self, e: Expr) -> Option<Expr> {
        let of = |s: Sym| {
            let given = || {
                let var = self.prim.vars.iter().position(|v| v.name == s)?;
                *self.given.get(&VarId(var as u32))?
            };
            self.middle.get(&s).cloned().or_else(|| self.exact(given()?))
        };
        let e = e.subst(&of);
        self.prim.is_of_dims(&e).then_some(e)
    }

    /// What a scalar is at most or at least, where dims tell it.
    fn limit(&self, s: &Scalar, side: Side) -> Option<Expr> {
        if let Some(e) = self.exact(s) {
            return Some(e);
        }
        match &s.kind {
            ScalarKind::Var(v) => self.limit((*self.given.get(v)?)?, side),
            ScalarKind::Op(op, args) => {
                let of = |i: usize, side: Side| args.get(i).and_then(|a| self.limit(a, side));
                #[expect(
                    clippy::wildcard_enum_match_arm,
                    reason = "nothing else is monotone in what it is given"
                )]
                match op {
                    Intrinsic::Add => Some(of(0, side)? + of(1, side)?),
                    Intrinsic::Sub => Some(of(0, side)? - of(1, side.other())?),
                    Intrinsic::Min | Intrinsic::Max => {
                        // One of the two is a limit by itself on one side only.
                        let alone = (*op == Intrinsic::Min) == (side == Side::Most);
                        match (of(0, side), of(1, side)) {
                            (Some(a), Some(b)) if *op == Intrinsic::Min => Some(Expr::min(&a, &b)),
                            (Some(a), Some(b)) => Some(Expr::max(&a, &b)),
                            (one, other) if alone => one.or(other),
                            _ => None,
                        }
                    }
                    // By a number of steps, or into blocks of so many.
                    Intrinsic::Mul | Intrinsic::Div => {
                        let by = self.exact(args.get(1)?)?.as_int().filter(|n| *n > 0)?;
                        let of = of(0, side)?;
                        Some(if *op == Intrinsic::Mul { of * by } else { of.floor_div(&Expr::int(by)) })
                    }
                    Intrinsic::Select => Some(either(&of(1, side)?, &of(2, side)?, side)),
                    _ => None,
                }
            }
            ScalarKind::Choose(parts) => {
                Some(either(&self.limit(&parts[1], side)?, &self.limit(&parts[2], side)?, side))
            }
            ScalarKind::Const(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } => None,
            ScalarKind::Cast(_) | ScalarKind::Reduce { .. } => None,
        }
    }

    /// The shortest axis that a loop's variable indexes by itself.
    fn walked(&self, var: VarId, body: &Body<'_>) -> Option<Expr> {
        let mut found: Option<Expr> = None;
        let mut access = |buf: BufId, index: &[Scalar]| {
            for (i, e) in index.iter().zip(&self.prim.buf(buf).shape) {
                if i.as_var() == Some(var)
                    && let Some(e) = self.in_dims(e.clone())
                {
                    found = Some(found.as_ref().map_or_else(|| e.clone(), |f| Expr::min(f, &e)));
                }
            }
        };
        let mut scalar = |s: &Scalar| {
            s.walk(&mut |s| {
                if let ScalarKind::Load { buf, index, .. } = &s.kind {
                    access(*buf, index);
                }
            });
        };
        match body {
            Body::Scalar(s) => scalar(s),
            Body::Stmts(stmts) => {
                for s in *stmts {
                    s.walk(&mut |s| s.scalars().into_iter().for_each(&mut scalar));
                }
            }
        }
        if let Body::Stmts(stmts) = body {
            for s in *stmts {
                s.walk(&mut |s| {
                    if let Stmt::Store { buf, index, .. } = s {
                        access(*buf, index);
                    }
                });
            }
        }
        found
    }

    /// The number of segments, where the bounds are the begin and the end of one: two neighbouring elements.
    fn segments(&self, lo: &Scalar, hi: &Scalar) -> Option<Expr> {
        let (ScalarKind::Load { buf: a, index: first, .. }, ScalarKind::Load { buf: b, index: next, .. }) =
            (&self.meant(lo).kind, &self.meant(hi).kind)
        else {
            return None;
        };
        let ((last, first), (end, next)) = (first.split_last()?, next.split_last()?);
        let dim = |s: &Scalar| self.prim.as_dim(s);
        let same = a == b && first.iter().zip(next).all(|(x, y)| dim(x).is_some() && dim(x) == dim(y));
        let neighbours = (dim(end)? - dim(last)?).as_int() == Some(1);
        if same && neighbours { self.trips.get(&last.as_var()?).cloned() } else { None }
    }

    /// What a variable was given, or the scalar itself.
    fn meant<'s>(&self, s: &'s Scalar) -> &'s Scalar
    where
        'a: 's,
    {
        s.as_var().and_then(|v| *self.given.get(&v)?).unwrap_or(s)
    }
}

fn either(a: &Expr, b: &Expr, side: Side) -> Expr {
    if side == Side::Most { Expr::max(a, b) } else { Expr::min(a, b) }
}
