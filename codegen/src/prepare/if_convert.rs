//! If-conversion: conditions of statements as conditions of values.
//!
//! In: a primitive. Out: one of the same meaning in which `if c { y[i] = a } else { y[i] = b }` is
//! `y[i] = if c { a } else { b }` where the rounds of an independent loop may take either way, so that they can be
//! lanes. A variable that one branch sets keeps its value where the other is taken. What only one branch writes stays
//! as it is: in the other its place may be none.

use ir::Combine;
use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::Sym;
use std::collections::BTreeSet;
use tensor::DType;

use super::assigned;

/// Makes values of such statements.
pub(crate) fn if_convert(prim: &mut Prim) {
    let body = std::mem::take(&mut prim.body);
    let mut set = BTreeSet::new();
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Set(v, _) = s {
                set.insert(*v);
            }
        });
    });
    let mut conversion = IfConversion { vars: &mut prim.vars, set, known: Vec::new(), around: Vec::new() };
    let body = conversion.block(body);
    prim.body = body;
}

struct IfConversion<'a> {
    vars: &'a mut Vec<Var>,
    /// The variables that statements set.
    set: BTreeSet<VarId>,
    /// Those that have a value where we are.
    known: Vec<VarId>,
    /// The innermost loop around, and the innermost independent one.
    around: Vec<VarId>,
}

/// What a branch does, in order.
enum Step {
    Set(VarId, Scalar),
    /// A store, by its number among those of the branch, and what it writes.
    Store(usize, Scalar),
}

/// Where a store goes.
type Destination<'s> = (BufId, &'s [Scalar], Option<Combine>);

impl IfConversion<'_> {
    fn block(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let outer = self.known.len();
        let mut done = Vec::new();
        for s in stmts {
            match s {
                Stmt::For { var, lo, hi, mark, run, body } => {
                    let independent = self.around.last().copied().filter(|_| mark != Mark::Independent);
                    let around = match (mark, independent) {
                        (Mark::Independent, _) => vec![var],
                        (Mark::Serial, Some(outside)) => vec![var, outside],
                        (Mark::Serial, None) => Vec::new(),
                    };
                    let around = std::mem::replace(&mut self.around, around);
                    let body = self.block(body);
                    self.around = around;
                    done.push(Stmt::For { var, lo, hi, mark, run, body });
                }
                Stmt::While(c, body) => done.push(Stmt::While(c, self.block(body))),
                Stmt::If(c, a, b) => {
                    let (a, b) = (self.block(a), self.block(b));
                    match self.converted(&c, &a, &b) {
                        Some(list) => done.extend(list),
                        None => done.push(Stmt::If(c, a, b)),
                    }
                }
                Stmt::Set(v, value) => {
                    self.known.push(v);
                    done.push(Stmt::Set(v, value));
                }
                Stmt::Alloc(_) | Stmt::Store { .. } => done.push(s),
            }
        }
        self.known.truncate(outer);
        done
    }

    /// Whether rounds that go together may find a condition different.
    fn differs(&self, c: &Scalar) -> bool {
        let mut differs = false;
        c.walk(&mut |e| {
            differs |= match &e.kind {
                ScalarKind::Load { .. } => true,
                ScalarKind::Var(v) => self.set.contains(v) || self.around.contains(v),
                ScalarKind::Dim(d) => {
                    let syms = d.syms();
                    self.around.iter().any(|v| syms.contains(&self.vars[v.0 as usize].name))
                }
                ScalarKind::Const(_)
                | ScalarKind::Op(..)
                | ScalarKind::Choose(_)
                | ScalarKind::Cast(_)
                | ScalarKind::Reduce { .. } => false,
            };
        });
        differs && !self.around.is_empty()
    }

    /// The statements of both branches as one list.
    fn converted(&mut self, c: &Scalar, a: &[Stmt], b: &[Stmt]) -> Option<Vec<Stmt>> {
        if !self.differs(c) || reduces(c) {
            return None;
        }
        let (yes, places) = self.steps(a, b)?;
        let (no, others) = self.steps(b, a)?;
        // A condition of which nothing follows may fail all the same.
        if yes.is_empty() && no.is_empty() {
            return None;
        }
        if places != others {
            return None;
        }
        let stores = || a.iter().filter(|s| matches!(s, Stmt::Store { .. }));
        if let ([Step::Store(_, a)], [Step::Store(_, b)]) = (&yes[..], &no[..]) {
            let converted = Scalar::choose(c.clone(), a.clone(), b.clone());
            return Some(stores().map(|s| storing(s, converted.clone())).collect());
        }
        let mut list = Vec::new();
        // What is asked once needs no name, nor does a position.
        let c = if yes.len() + no.len() > 1 && !self.is_position(c) {
            let t = self.variable("taken", DType::Bool);
            list.push(Stmt::Set(t, c.clone()));
            self.read(t)
        } else {
            c.clone()
        };
        let mut values: Vec<Option<VarId>> = vec![None; places.len()];
        for (steps, holds) in [(yes, true), (no, false)] {
            for step in steps {
                let (value, old, to) = match step {
                    Step::Set(v, value) => (value, self.known.contains(&v).then_some(v), v),
                    Step::Store(n, value) => {
                        let v = self.variable("stored", value.dtype);
                        (value, values[n].replace(v), v)
                    }
                };
                let old = match old {
                    Some(v) => self.read(v),
                    None => Scalar::constant(Combine::Add.identity(value.dtype), value.dtype),
                };
                let (yes, no) = if holds { (value, old) } else { (old, value) };
                list.push(Stmt::Set(to, Scalar::choose(c.clone(), yes, no)));
            }
        }
        let all = stores().zip(values).filter_map(|(s, v)| Some(storing(s, self.read(v?))));
        list.extend(all);
        Some(list)
    }

    /// What a branch does and where it stores, if it does nothing else, and in no other order than this: everything is
    /// computed, then all is stored.
    fn steps<'s>(&self, branch: &'s [Stmt], other: &[Stmt]) -> Option<(Vec<Step>, Vec<Destination<'s>>)> {
        let (mut steps, mut places): (Vec<Step>, Vec<Destination<'s>>) = (Vec::new(), Vec::new());
        let mut changed = assigned(branch);
        changed.append(&mut assigned(other));
        let names: Vec<Sym> = changed.iter().map(|v| self.vars[v.0 as usize].name).collect();
        for s in branch {
            match s {
                Stmt::Set(v, value) => steps.push(Step::Set(*v, value.clone())),
                Stmt::Store { buf, index, checked: false, combine, value, .. } => {
                    let mut moves = false;
                    index.iter().for_each(|i| {
                        i.walk(&mut |e| {
                            moves |= match &e.kind {
                                ScalarKind::Var(v) => changed.contains(v),
                                ScalarKind::Dim(d) => d.syms().iter().any(|s| names.contains(s)),
                                ScalarKind::Load { .. } | ScalarKind::Reduce { .. } => true,
                                ScalarKind::Const(_)
                                | ScalarKind::Op(..)
                                | ScalarKind::Choose(_)
                                | ScalarKind::Cast(_) => false,
                            };
                        });
                    });
                    // What is added to a half is not rounded before.
                    let is_half = value.dtype.is_float() && value.dtype.size() < 4;
                    if moves || (is_half && combine.is_some()) {
                        return None;
                    }
                    steps.push(Step::Store(places.len(), value.clone()));
                    places.push((*buf, index, *combine));
                }
                Stmt::Store { .. } | Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {
                    return None;
                }
            }
        }
        let stored: BTreeSet<BufId> = places.iter().map(|p| p.0).collect();
        let mut fits = places.len() < 2 || stored.len() == places.len();
        let mut behind = false;
        for s in branch {
            for e in s.scalars() {
                fits &= !reduces(e);
                e.walk(&mut |e| {
                    let reads = matches!(&e.kind, ScalarKind::Load { buf, .. } if stored.contains(buf));
                    fits &= !(behind && reads);
                });
            }
            behind |= matches!(s, Stmt::Store { .. });
        }
        fits.then_some((steps, places))
    }

    /// Whether a condition compares positions alone.
    fn is_position(&self, c: &Scalar) -> bool {
        let mut plain = true;
        c.walk(&mut |e| {
            plain &= match &e.kind {
                ScalarKind::Var(v) => !self.set.contains(v),
                ScalarKind::Load { .. } => false,
                ScalarKind::Const(_)
                | ScalarKind::Dim(_)
                | ScalarKind::Op(..)
                | ScalarKind::Choose(_)
                | ScalarKind::Cast(_)
                | ScalarKind::Reduce { .. } => true,
            };
        });
        plain
    }

    fn read(&self, v: VarId) -> Scalar {
        Scalar { kind: ScalarKind::Var(v), dtype: self.vars[v.0 as usize].dtype }
    }

    fn variable(&mut self, name: &str, dtype: DType) -> VarId {
        let id = VarId(self.vars.len() as u32);
        self.vars.push(Var { name: Sym::new(&format!("{name}.{}", id.0)), dtype });
        self.set.insert(id);
        id
    }
}

/// A store, of another value.
fn storing(s: &Stmt, new: Scalar) -> Stmt {
    let mut s = s.clone();
    if let Stmt::Store { value, .. } = &mut s {
        *value = new;
    }
    s
}

/// Whether an expression has a reduction, which lanes that go their own way do not share.
fn reduces(e: &Scalar) -> bool {
    let mut reduces = false;
    e.walk(&mut |e| reduces |= matches!(e.kind, ScalarKind::Reduce { .. }));
    reduces
}
