//! Materialization: what a row would compute again is kept in a buffer.
//!
//! In: loops that stand as they are to run. Out: the same, where a function of many instructions that one pass over a
//! row computes and a later pass over the same range computes again is written to a local buffer before, which both
//! read: the exponentials of a softmax, whose sum comes first and which are divided by it then. To read it costs less
//! than to compute it, also where the row is longer than what is near.

use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::{BTreeMap, BTreeSet};
use tensor::DType;

use super::apply::{local, substituted, variable};
use super::cost::is_heavy;
use super::panels::first_load;
use super::{parts, with_part};

pub(super) fn materialize(prim: &mut Prim) {
    let body = std::mem::take(&mut prim.body);
    prim.body = block(prim, body);
}

fn block(prim: &mut Prim, mut stmts: Vec<Stmt>) -> Vec<Stmt> {
    for s in &mut stmts {
        match s {
            Stmt::For { run: Run::Plain, body, .. } | Stmt::While(_, body) => {
                *body = block(prim, std::mem::take(body));
            }
            Stmt::If(_, a, b) => {
                *a = block(prim, std::mem::take(a));
                *b = block(prim, std::mem::take(b));
            }
            Stmt::For { .. } | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }
    while find(prim, &stmts).and_then(|materialize| materialize.apply(prim, &mut stmts)).is_some() {}
    stmts
}

/// A loop or reduction by lanes that stands right in a block.
struct LaneLoop<'s> {
    /// In which statement.
    at: usize,
    var: VarId,
    lo: &'s Scalar,
    hi: &'s Scalar,
    run: Run,
    values: Vec<&'s Scalar>,
    /// Those of the values that are computed in any case: not what is in a choice, which the condition guards.
    taken: Vec<&'s Scalar>,
}

fn lane_loops(stmts: &[Stmt]) -> Vec<LaneLoop<'_>> {
    let mut list = Vec::new();
    for (at, s) in stmts.iter().enumerate() {
        match s {
            Stmt::For { var, lo, hi, run: Run::Lanes { lanes, vectors }, body, .. } => {
                let run = Run::Lanes { lanes: *lanes, vectors: *vectors };
                let mut taken = Vec::new();
                body.iter().flat_map(Stmt::scalars).for_each(|e| taken_of(e, &mut taken));
                list.push(LaneLoop { at, var: *var, lo, hi, run, values: parts(body), taken });
            }
            Stmt::Set(_, e) | Stmt::Store { value: e, .. } => {
                let mut free = Vec::new();
                taken_of(e, &mut free);
                e.walk(&mut |e| {
                    if let ScalarKind::Reduce { var, lo, hi, run: run @ Run::Lanes { .. }, body, .. } =
                        &e.kind
                    {
                        let (mut values, mut taken) = (Vec::new(), Vec::new());
                        body.walk(&mut |e| values.push(e));
                        if free.iter().any(|f| std::ptr::eq(*f, e)) {
                            taken_of(body, &mut taken);
                        }
                        list.push(LaneLoop { at, var: *var, lo, hi, run: run.clone(), values, taken });
                    }
                });
            }
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {}
        }
    }
    list
}

fn taken_of<'s>(e: &'s Scalar, list: &mut Vec<&'s Scalar>) {
    list.push(e);
    match &e.kind {
        ScalarKind::Op(_, args) => args.iter().for_each(|a| taken_of(a, list)),
        ScalarKind::Cast(a) => taken_of(a, list),
        ScalarKind::Choose(_)
        | ScalarKind::Reduce { .. }
        | ScalarKind::Load { .. }
        | ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_) => {}
    }
}

/// A value that several passes compute.
struct Recomputed {
    value: Scalar,
    /// The pass that is first to compute it: in which statement, its variable, from where to where, how it runs, and
    /// over how much.
    at: usize,
    var: VarId,
    lo: Scalar,
    hi: Scalar,
    run: Run,
    extent: Dim,
    /// Where it is computed: the number among the [`parts`] of the block, and the variable there.
    sites: Vec<(usize, VarId)>,
}

fn find(prim: &Prim, stmts: &[Stmt]) -> Option<Recomputed> {
    let lane_loops = lane_loops(stmts);
    let all = parts(stmts);
    for (i, first) in lane_loops.iter().enumerate() {
        let bounds = (prim.as_dim(first.lo), prim.as_dim(first.hi));
        let (Some(lo), Some(hi)) = bounds else { continue };
        let Some(extent) = prim.trip_count(first.lo, first.hi) else { continue };
        let bounds: Vec<Sym> = [lo, hi].iter().flat_map(Dim::syms).collect();
        for &value in first.taken.iter().filter(|v| is_worth_keeping(v)) {
            let (mut sites, mut last) = (Vec::new(), first.at);
            for p in &lane_loops[i..] {
                let alike = Renamed { prim, of: first.var, to: p.var };
                if !alike.values(first.lo, p.lo) || !alike.values(first.hi, p.hi) {
                    continue;
                }
                for &e in p.values.iter().filter(|e| alike.values(value, e)) {
                    sites.push((all.iter().position(|x| std::ptr::eq(*x, e))?, p.var));
                    last = p.at;
                }
            }
            let several = sites.iter().any(|s| s.1 != first.var);
            if several && stands(prim, value, first.var, &bounds, &stmts[first.at..=last]) {
                let (value, run) = (value.clone(), first.run.clone());
                let (lo, hi) = (first.lo.clone(), first.hi.clone());
                return Some(Recomputed { value, at: first.at, var: first.var, lo, hi, run, extent, sites });
            }
        }
    }
    None
}

impl Recomputed {
    fn apply(self, prim: &mut Prim, stmts: &mut Vec<Stmt>) -> Option<()> {
        let from = prim.as_dim(&self.lo)?;
        let (buffer, span) = first_load(&self.value)?;
        let name = format!("{}.kept", prim.buf(buffer).name);
        let to = local(prim, &name, self.value.dtype, vec![self.extent]);
        let var = variable(prim, "k", DType::I64);

        let place = |v: VarId| vec![Scalar::dim(Dim::sym(prim.var(v).name) - &from)];
        // The last first: what is put in its place does not change the numbers of those before.
        for (number, of) in self.sites.into_iter().rev() {
            let load = ScalarKind::Load { buf: to, index: place(of), checked: false, span };
            with_part(stmts, number, &mut |e| e.kind = load.clone());
        }
        let new = Dim::sym(prim.var(var).name);
        let value = substituted(prim, &self.value, &BTreeMap::from([(self.var, new)]));
        let store = Stmt::Store { buf: to, index: place(var), checked: false, combine: None, value, span };
        let (lo, hi, mark) = (self.lo, self.hi, Mark::Independent);
        let fill = Stmt::For { var, lo, hi, mark, run: self.run, body: vec![store] };
        stmts.splice(self.at..self.at, [Stmt::Alloc(to), fill]);
        Some(())
    }
}

/// A function of many instructions of what lies in memory, whose numbers a buffer holds as they are.
fn is_worth_keeping(value: &Scalar) -> bool {
    let mut plain = true;
    value.walk(&mut |e| {
        plain &= !matches!(e.kind, ScalarKind::Reduce { .. } | ScalarKind::Load { checked: true, .. });
    });
    let heavy = matches!(&value.kind, ScalarKind::Op(op, _) if is_heavy(*op));
    heavy && plain && matches!(value.dtype, DType::F32 | DType::F64) && first_load(value).is_some()
}

/// Whether a value that changes with `var` is the same wherever the statements compute it: they neither set what it and
/// its bounds are made of nor write what it reads.
fn stands(prim: &Prim, value: &Scalar, var: VarId, bounds: &[Sym], stmts: &[Stmt]) -> bool {
    let (mut set, mut written) = (BTreeSet::new(), BTreeSet::new());
    for s in stmts {
        s.walk(&mut |s| {
            match s {
                Stmt::Set(v, _) | Stmt::For { var: v, .. } => drop(set.insert(prim.var(*v).name)),
                Stmt::Store { buf, .. } | Stmt::Alloc(buf) => drop(written.insert(*buf)),
                Stmt::While(..) | Stmt::If(..) => {}
            }
            for e in parts(std::slice::from_ref(s)) {
                if let ScalarKind::Reduce { var, .. } = &e.kind {
                    set.insert(prim.var(*var).name);
                }
            }
        });
    }
    let own = prim.var(var).name;
    set.remove(&own);
    let (mut changes, mut stands) = (false, !bounds.iter().any(|s| set.contains(s)));
    value.walk(&mut |e| {
        let names = match &e.kind {
            ScalarKind::Var(v) => vec![prim.var(*v).name],
            ScalarKind::Dim(d) => d.syms().into_iter().collect(),
            ScalarKind::Load { buf, .. } => {
                stands &= !written.contains(buf);
                Vec::new()
            }
            ScalarKind::Const(_)
            | ScalarKind::Op(..)
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_)
            | ScalarKind::Reduce { .. } => Vec::new(),
        };
        changes |= names.contains(&own);
        stands &= !names.iter().any(|n| set.contains(n));
    });
    changes && stands
}

/// What is alike but for the name of one variable.
struct Renamed<'a> {
    prim: &'a Prim,
    of: VarId,
    to: VarId,
}

impl Renamed<'_> {
    fn dim(&self, d: &Dim) -> Dim {
        let (of, to) = (self.prim.var(self.of).name, self.prim.var(self.to).name);
        d.subst(&|s| (s == of).then(|| Dim::sym(to)))
    }

    fn values(&self, a: &Scalar, b: &Scalar) -> bool {
        if a.dtype != b.dtype {
            return false;
        }
        if let (Some(a), Some(b)) = (self.prim.as_dim(a), self.prim.as_dim(b)) {
            return self.dim(&a) == b;
        }
        let all = |a: &[Scalar], b: &[Scalar]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.values(a, b))
        };
        match (&a.kind, &b.kind) {
            (ScalarKind::Const(a), ScalarKind::Const(b)) => a == b,
            (ScalarKind::Var(a), ScalarKind::Var(b)) => {
                if *a == self.of {
                    *b == self.to
                } else {
                    a == b
                }
            }
            (ScalarKind::Dim(a), ScalarKind::Dim(b)) => self.dim(a) == *b,
            (
                ScalarKind::Load { buf: a, index: i, checked: false, .. },
                ScalarKind::Load { buf: b, index: j, checked: false, .. },
            ) => a == b && all(i, j),
            (ScalarKind::Op(f, a), ScalarKind::Op(g, b)) => f == g && all(a, b),
            (ScalarKind::Choose(a), ScalarKind::Choose(b)) => all(&a[..], &b[..]),
            (ScalarKind::Cast(a), ScalarKind::Cast(b)) => self.values(a, b),
            _ => false,
        }
    }
}
