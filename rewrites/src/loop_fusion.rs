//! Loop fusion: two loop nests as one, by substitution.
//!
//! Everything works on *placed* primitives: their dims have been replaced by the dims of the function around
//! ([`instantiate_dims`]), so that two of them speak of the same symbols. Two moves make one primitive of a consumer
//! and the producer of one of its inputs, a third of any two:
//!
//! - [`prologue`]: the producer is a map; each load of it becomes its expression at that place.
//! - [`epilogue`]: the consumer is a map that reads the producer only where it writes; each store of the
//!   producer becomes the consumer's expression of the stored value. The producer's loops stay as they
//!   are, so it may be anything: a matrix product, a softmax.
//! - [`horizontal`]: the loops of both that go over the same range become one, so what both read is read once, and what
//!   the second reads of the first is near or held in a variable. Both results are stored.
//!
//! **Invariant: a fused primitive gives the same bits as its parts one after the other.** What a part stored
//! was rounded to its element type; the fused primitive rounds at the same place, by a cast ([`prologue`]) or by
//! a variable of that type ([`epilogue`]). For f32 both cost nothing in machine code.

use ir::loops::{Buf, BufId, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};
use tensor::DType;

use crate::clone::fresh;
use crate::fusible::{MapForm, each_load};

/// Expressions grow by substitution; beyond this many nodes a primitive is not grown further.
pub(crate) const MAX_NODES: usize = 600;

/// The primitive with its dims replaced; its variables are renamed where they would capture a symbol.
pub(crate) fn instantiate_dims(prim: &Prim, dims: &[Expr]) -> Prim {
    let map = |s: Sym| prim.dims.iter().position(|&d| d == s).and_then(|i| dims.get(i).cloned());
    let mut placed = prim.clone();
    placed.dims = dims.iter().flat_map(Expr::syms).collect();
    placed.dims.sort_unstable();
    placed.dims.dedup();
    for buf in &mut placed.bufs {
        buf.shape.iter_mut().for_each(|d| *d = d.subst(&map));
    }
    let mut taken: FxHashSet<Sym> = placed.dims.iter().copied().collect();
    for var in &mut placed.vars {
        var.name = fresh(var.name, &mut taken);
    }
    let mut keep = |e: &mut Scalar| {
        if let ScalarKind::Dim(d) = &mut e.kind {
            *d = d.subst(&map);
        }
    };
    placed.body.iter_mut().for_each(|s| edit_stmt(s, &mut keep));
    placed
}

/// Calls `f` on every scalar of a statement, the innermost first.
pub(crate) fn edit_stmt(stmt: &mut Stmt, f: &mut dyn FnMut(&mut Scalar)) {
    match stmt {
        Stmt::For { lo, hi, body, .. } => {
            edit(lo, f);
            edit(hi, f);
            body.iter_mut().for_each(|s| edit_stmt(s, f));
        }
        Stmt::While(c, body) => {
            edit(c, f);
            body.iter_mut().for_each(|s| edit_stmt(s, f));
        }
        Stmt::If(c, a, b) => {
            edit(c, f);
            a.iter_mut().chain(b).for_each(|s| edit_stmt(s, f));
        }
        Stmt::Set(_, v) => edit(v, f),
        Stmt::Alloc(_) => {}
        Stmt::Store { index, value, .. } => {
            index.iter_mut().for_each(|i| edit(i, f));
            edit(value, f);
        }
    }
}

fn edit(s: &mut Scalar, f: &mut dyn FnMut(&mut Scalar)) {
    match &mut s.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
            args.iter_mut().for_each(|a| edit(a, f));
        }
        ScalarKind::Choose(parts) => parts.iter_mut().for_each(|a| edit(a, f)),
        ScalarKind::Cast(a) => edit(a, f),
        ScalarKind::Reduce { lo, hi, body, .. } => {
            edit(lo, f);
            edit(hi, f);
            edit(body, f);
        }
    }
    f(s);
}

/// The number of nodes of a primitive's expressions and statements.
pub(crate) fn nodes(prim: &Prim) -> usize {
    let mut n = 0;
    for s in &prim.body {
        s.walk(&mut |s| {
            n += 1;
            s.scalars().iter().for_each(|e| e.walk(&mut |_| n += 1));
        });
    }
    n
}

/// A primitive under construction: where the other's buffers and variables have gone.
struct Merge {
    prim: Prim,
    bufs: FxHashMap<BufId, BufId>,
    taken_vars: FxHashSet<Sym>,
    taken_bufs: FxHashSet<Sym>,
}

impl Merge {
    /// Starts from `base` and brings in the buffers of `other` that `keep` names.
    fn new(base: &Prim, other: &Prim, keep: &dyn Fn(BufId) -> bool) -> Merge {
        let mut prim = base.clone();
        prim.dims.extend(&other.dims);
        prim.dims.sort_unstable();
        prim.dims.dedup();
        let mut merge = Merge {
            prim,
            bufs: FxHashMap::default(),
            taken_vars: FxHashSet::default(),
            taken_bufs: FxHashSet::default(),
        };
        // The other's dims may capture a variable of the base.
        merge.taken_vars.extend(&merge.prim.dims);
        for var in &mut merge.prim.vars {
            var.name = fresh(var.name, &mut merge.taken_vars);
        }
        merge.taken_bufs.extend(merge.prim.bufs.iter().map(|b| b.name));
        for (i, buf) in other.bufs.iter().enumerate() {
            let from = BufId(i as u32);
            if keep(from) {
                let name = fresh(buf.name, &mut merge.taken_bufs);
                merge.prim.bufs.push(Buf { name, ..buf.clone() });
                merge.bufs.insert(from, BufId(merge.prim.bufs.len() as u32 - 1));
            }
        }
        merge
    }

    fn add_var(&mut self, name: Sym, dtype: DType) -> VarId {
        let name = fresh(name, &mut self.taken_vars);
        self.prim.vars.push(Var { name, dtype });
        VarId(self.prim.vars.len() as u32 - 1)
    }

    /// An expression of `other` in terms of the merged primitive. Variables become what `env` says; those of
    /// reductions become new ones.
    fn import(&mut self, other: &Prim, s: &Scalar, env: &FxHashMap<VarId, Scalar>) -> Scalar {
        let kind = match &s.kind {
            ScalarKind::Const(_) | ScalarKind::Dim(_) => s.kind.clone(),
            ScalarKind::Var(v) => return env[v].clone(),
            ScalarKind::Load { buf, index, checked, span } => {
                let index = index.iter().map(|i| self.import(other, i, env)).collect();
                ScalarKind::Load { buf: self.bufs[buf], index, checked: *checked, span: *span }
            }
            ScalarKind::Op(op, args) => {
                ScalarKind::Op(*op, args.iter().map(|a| self.import(other, a, env)).collect())
            }
            ScalarKind::Choose(parts) => {
                ScalarKind::Choose(Box::new(parts.each_ref().map(|a| self.import(other, a, env))))
            }
            ScalarKind::Cast(a) => ScalarKind::Cast(Box::new(self.import(other, a, env))),
            ScalarKind::Reduce { combine, run, var, lo, hi, body } => {
                let (lo, hi) = (self.import(other, lo, env), self.import(other, hi, env));
                let old = other.var(*var);
                let new = self.add_var(old.name, old.dtype);
                let mut env = env.clone();
                env.insert(*var, variable(new, old.dtype));
                let body = self.import(other, body, &env);
                ScalarKind::Reduce {
                    combine: *combine,
                    run: run.clone(),
                    var: new,
                    lo: Box::new(lo),
                    hi: Box::new(hi),
                    body: Box::new(body),
                }
            }
        };
        Scalar { kind, dtype: s.dtype }
    }

    /// Drops the buffers nothing names any more.
    fn finish(mut self) -> Prim {
        let live: FxHashSet<BufId> = self.prim.params.iter().chain(&self.prim.outs).copied().collect();
        let mut map: FxHashMap<BufId, BufId> = FxHashMap::default();
        let mut bufs = Vec::new();
        for (i, buf) in self.prim.bufs.iter().enumerate() {
            let id = BufId(i as u32);
            if buf.local || live.contains(&id) {
                map.insert(id, BufId(bufs.len() as u32));
                bufs.push(buf.clone());
            }
        }
        self.prim.bufs = bufs;
        rename_bufs(&mut self.prim, &|b| map[&b]);
        self.prim
    }
}

fn variable(v: VarId, dtype: DType) -> Scalar {
    Scalar { kind: ScalarKind::Var(v), dtype }
}

fn rename_bufs(prim: &mut Prim, map: &dyn Fn(BufId) -> BufId) {
    prim.params.iter_mut().chain(&mut prim.outs).for_each(|b| *b = map(*b));
    rename_body(&mut prim.body, map);
}

fn rename_body(body: &mut [Stmt], map: &dyn Fn(BufId) -> BufId) {
    for s in body {
        edit_stmt(s, &mut |e| {
            if let ScalarKind::Load { buf, .. } = &mut e.kind {
                *buf = map(*buf);
            }
        });
        rename_stores(s, map);
    }
}

fn rename_stores(stmt: &mut Stmt, map: &dyn Fn(BufId) -> BufId) {
    match stmt {
        Stmt::For { body, .. } | Stmt::While(_, body) => body.iter_mut().for_each(|s| rename_stores(s, map)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| rename_stores(s, map)),
        Stmt::Alloc(buf) | Stmt::Store { buf, .. } => *buf = map(*buf),
        Stmt::Set(..) => {}
    }
}

/// True if the value of an expression already has the precision of its type.
fn rounded(s: &Scalar) -> bool {
    match &s.kind {
        ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } | ScalarKind::Cast(_) => true,
        ScalarKind::Choose(parts) => parts[1..].iter().all(rounded),
        ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Reduce { .. } => {
            !s.dtype.is_float() || s.dtype == DType::F64
        }
    }
}

/// The consumer with each load of its parameter `at` replaced by the producer's expression at that place.
/// The parameters of the result are the consumer's without `at`, then the producer's.
pub(crate) fn prologue(consumer: &Prim, at: BufId, producer: &Prim, map: &MapForm) -> Prim {
    let mut merge = Merge::new(consumer, producer, &|b| b != map.out);
    let mut body = std::mem::take(&mut merge.prim.body);
    for stmt in &mut body {
        edit_stmt(stmt, &mut |e| {
            let ScalarKind::Load { buf, index, .. } = &e.kind else { return };
            if *buf != at {
                return;
            }
            let mut env: FxHashMap<VarId, Scalar> =
                map.index.iter().copied().zip(index.iter().cloned()).collect();
            for (v, def) in &map.lets {
                let mut value = merge.import(producer, def, &env);
                let dtype = producer.var(*v).dtype;
                if !rounded(&value) {
                    value = Scalar { kind: ScalarKind::Cast(Box::new(value)), dtype };
                }
                env.insert(*v, value);
            }
            let value = merge.import(producer, &map.value, &env);
            *e = if rounded(&value) {
                value
            } else {
                Scalar { dtype: e.dtype, kind: ScalarKind::Cast(Box::new(value)) }
            };
        });
    }
    merge.prim.body = body;
    merge.prim.params.retain(|&p| p != at);
    merge.prim.params.extend(producer.params.iter().map(|p| merge.bufs[p]));
    merge.finish()
}

/// The producer with each store to its output replaced by the consumer's expression of the stored value, for
/// a consumer that reads its parameter `at` only at the place it writes ([`crate::fusible::pointwise_at`]).
/// The parameters of the result are the producer's, then the consumer's without `at`.
pub(crate) fn epilogue(producer: &Prim, consumer: &Prim, at: BufId, map: &MapForm) -> Prim {
    let out = producer.outs[0];
    let mut merge = Merge::new(producer, consumer, &|b| b != at);
    let mut body = std::mem::take(&mut merge.prim.body);
    replace_stores(&mut body, out, &mut |index, value, span| {
        let stored = producer.buf(out);
        let mut stmts = Vec::new();
        let held = merge.add_var(stored.name, stored.dtype);
        stmts.push(Stmt::Set(held, value));
        // A load of the producer is the held value; every place the consumer writes is the place stored to.
        let mut env: FxHashMap<VarId, Scalar> =
            map.index.iter().copied().zip(index.iter().cloned()).collect();
        let place = |merge: &mut Merge, s: &Scalar, env: &FxHashMap<VarId, Scalar>| {
            let mut s = s.clone();
            edit(&mut s, &mut |e| {
                if matches!(&e.kind, ScalarKind::Load { buf, .. } if *buf == at) {
                    e.kind = ScalarKind::Var(HELD);
                }
            });
            let mut env = env.clone();
            env.insert(HELD, variable(held, stored.dtype));
            merge.import(consumer, &s, &env)
        };
        for (v, def) in &map.lets {
            let value = place(&mut merge, def, &env);
            let var = consumer.var(*v);
            let new = merge.add_var(var.name, var.dtype);
            stmts.push(Stmt::Set(new, value));
            env.insert(*v, variable(new, var.dtype));
        }
        let value = place(&mut merge, &map.value, &env);
        let buf = merge.bufs[&map.out];
        stmts.push(Stmt::Store { buf, index, checked: false, combine: None, value, span });
        stmts
    });
    merge.prim.body = body;
    merge.prim.outs = vec![merge.bufs[&map.out]];
    merge.prim.params.extend(consumer.params.iter().filter(|&&p| p != at).map(|p| merge.bufs[p]));
    merge.finish()
}

/// The variable of a consumer that stands for the value being stored; no primitive has as many.
const HELD: VarId = VarId(u32::MAX);

type Replace<'a> = dyn FnMut(Vec<Scalar>, Scalar, ir::source::Span) -> Vec<Stmt> + 'a;

fn replace_stores(body: &mut Vec<Stmt>, out: BufId, f: &mut Replace<'_>) {
    let mut new = Vec::with_capacity(body.len());
    for mut stmt in std::mem::take(body) {
        match &mut stmt {
            Stmt::For { body, .. } | Stmt::While(_, body) => replace_stores(body, out, f),
            Stmt::If(_, a, b) => {
                replace_stores(a, out, f);
                replace_stores(b, out, f);
            }
            Stmt::Store { buf, index, value, span, .. } if *buf == out => {
                new.extend(f(std::mem::take(index), value.clone(), *span));
                continue;
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        new.push(stmt);
    }
    *body = new;
}

/// What a parameter of the second of two primitives is given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Given {
    /// Something that the first does not know.
    Other,
    /// What a parameter of the first is.
    Param(usize),
    /// An output of the first.
    Out(usize),
}

/// One primitive of two, of which the second may read what the first writes: the outputs of both, the parameters of the
/// first and those of the second that are [`Given::Other`]. `same` says whether two extents are equal. None where no
/// outermost loop is shared in which both go along the same axis of something.
pub(crate) fn horizontal(
    first: &Prim,
    second: &Prim,
    given: &[Given],
    same: &dyn Fn(&Expr, &Expr) -> bool,
) -> Option<Prim> {
    let twin = |b: BufId| {
        let at = second.params.iter().position(|&p| p == b)?;
        match given[at] {
            Given::Other => None,
            Given::Param(i) => Some(first.params[i]),
            Given::Out(i) => Some(first.outs[i]),
        }
    };
    let mut merge = Merge::new(first, second, &|b| twin(b).is_none());
    merge.bufs.extend(second.params.iter().filter_map(|&p| Some((p, twin(p)?))));
    let body = std::mem::take(&mut merge.prim.body);
    let made = second.params.iter().zip(given).filter(|(_, g)| matches!(g, Given::Out(_)));
    let made: Vec<(BufId, BufId)> = made.filter_map(|(&p, _)| Some((p, twin(p)?))).collect();
    let mut join =
        Join { merge, first, second, same, made, env: FxHashMap::default(), outermost: Vec::new() };
    let body = join.bodies(body, &second.body, true);
    let Join { mut merge, outermost, made, .. } = join;
    let along = |prim: &Prim, var: VarId| {
        let mut found: Vec<(BufId, usize)> = Vec::new();
        each_load(&prim.body, &mut |buf, index, _| {
            let axes = index.iter().enumerate().filter(|(_, i)| i.as_var() == Some(var));
            found.extend(axes.map(|(axis, _)| (buf, axis)));
        });
        found
    };
    let shares = |&(mine, theirs): &(VarId, VarId)| {
        let mine = along(first, mine);
        along(second, theirs).iter().any(|&(buf, axis)| twin(buf).is_some_and(|b| mine.contains(&(b, axis))))
    };
    // Where the second reads what the first made, every loop that became one goes along it.
    if outermost.is_empty() || made.is_empty() && !outermost.iter().any(shares) {
        return None;
    }
    merge.prim.body = body;
    for (&p, given) in second.params.iter().zip(given) {
        if *given == Given::Other {
            merge.prim.params.push(merge.bufs[&p]);
        }
    }
    merge.prim.outs.extend(second.outs.iter().map(|o| merge.bufs[o]));
    Some(merge.finish())
}

/// Two bodies on their way to become one.
struct Join<'a> {
    merge: Merge,
    first: &'a Prim,
    second: &'a Prim,
    same: &'a dyn Fn(&Expr, &Expr) -> bool,
    /// The second's parameters that the first makes, each beside the first's output.
    made: Vec<(BufId, BufId)>,
    /// What the second's variables have become.
    env: FxHashMap<VarId, Scalar>,
    /// The variables of each outermost loop that is now one.
    outermost: Vec<(VarId, VarId)>,
}

impl Join<'_> {
    /// The statements of each stay in their order, and what reads something stays behind what makes it; no other order
    /// matters.
    fn bodies(&mut self, mut mine: Vec<Stmt>, theirs: &[Stmt], top: bool) -> Vec<Stmt> {
        let (mut out, mut held) = (Vec::with_capacity(mine.len() + theirs.len()), Vec::new());
        // What is read by those that are held.
        let mut read: Vec<BufId> = Vec::new();
        for stmt in theirs {
            let partner = (0..mine.len()).find(|&at| {
                let later = |buf: &BufId| mine[at..].iter().any(|s| stores(s, *buf));
                !read.iter().any(later) && self.same_range(&mine[at], stmt) && self.in_step(&mine[at..], stmt)
            });
            let (Some(at), Stmt::For { var: other, body: theirs, .. }) = (partner, stmt) else {
                read.extend(self.reads(stmt));
                held.push(self.stmt(stmt));
                continue;
            };
            out.extend(mine.drain(..at));
            out.append(&mut held);
            read.clear();
            let mut stmt = mine.remove(0);
            if let Stmt::For { var, body, .. } = &mut stmt {
                self.env.insert(*other, variable(*var, DType::I64));
                if top {
                    self.outermost.push((*var, *other));
                }
                *body = self.bodies(std::mem::take(body), theirs, false);
            }
            out.push(stmt);
        }
        out.extend(mine);
        out.append(&mut held);
        self.hold(out)
    }

    /// The outputs of the first that a statement of the second reads.
    fn reads(&self, stmt: &Stmt) -> Vec<BufId> {
        let mut found = Vec::new();
        each_load(std::slice::from_ref(stmt), &mut |buf, _, _| {
            found.extend(self.made.iter().filter(|m| m.0 == buf).map(|m| m.1));
        });
        found
    }

    /// True if each round of a loop of the second reads only what the same round of the first of some statements made
    /// by then, and what comes behind that loop makes nothing of it.
    fn in_step(&self, mine: &[Stmt], theirs: &Stmt) -> bool {
        let (Some(Stmt::For { var, body, .. }), Stmt::For { var: other, body: reader, .. }) =
            (mine.first(), theirs)
        else {
            return false;
        };
        let made = self.made.iter().filter(|m| self.reads(theirs).contains(&m.1));
        let one = |&(param, out): &(BufId, BufId)| {
            let axes = 0..self.first.buf(out).shape.len();
            let is = |index: &[Scalar], axis: usize, var: VarId| index[axis].as_var() == Some(var);
            let along = |axis: usize| {
                let mut fits = true;
                each_load(reader, &mut |buf, index, _| fits &= buf != param || is(index, axis, *other));
                body.iter().for_each(|s| {
                    s.walk(&mut |s| {
                        if let Stmt::Store { buf, index, .. } = s {
                            fits &= *buf != out || is(index, axis, *var);
                        }
                    });
                });
                fits
            };
            !mine[1..].iter().any(|s| stores(s, out)) && axes.into_iter().any(along)
        };
        made.into_iter().all(one)
    }

    /// Statements in which what the first stores and the second reads at the same place is held in a variable.
    fn hold(&mut self, mut stmts: Vec<Stmt>) -> Vec<Stmt> {
        for out in self.made.iter().map(|m| m.1).collect::<Vec<_>>() {
            let own = |s: &Stmt| matches!(s, Stmt::Store { buf, combine: None, .. } if *buf == out);
            let (Some(at), 1) = (stmts.iter().position(own), stmts.iter().filter(|s| stores(s, out)).count())
            else {
                continue;
            };
            let Stmt::Store { index: place, value, .. } = stmts[at].clone() else { continue };
            let place: Vec<Option<Expr>> = place.iter().map(|i| self.merge.prim.as_dim(i)).collect();
            // A variable that is set again tells another place then.
            let mut moves = false;
            let indexes = |v: VarId| {
                let name = self.merge.prim.var(v).name;
                place.iter().flatten().any(|p| p.syms().contains(&name))
            };
            stmts[at..]
                .iter()
                .for_each(|s| s.walk(&mut |s| moves |= matches!(s, Stmt::Set(v, _) if indexes(*v))));
            if moves {
                continue;
            }
            let Buf { name, dtype, .. } = *self.merge.prim.buf(out);
            let mut held: Option<VarId> = None;
            for s in &mut stmts[at + 1..] {
                edit_stmt(s, &mut |e| {
                    if let ScalarKind::Load { buf, index, .. } = &e.kind
                        && *buf == out
                        && index
                            .iter()
                            .zip(&place)
                            .all(|(i, p)| p.is_some() && self.merge.prim.as_dim(i) == *p)
                    {
                        let var = *held.get_or_insert_with(|| self.merge.add_var(name, dtype));
                        e.kind = ScalarKind::Var(var);
                    }
                });
            }
            if let (Some(var), Stmt::Store { value: stored, .. }) = (held, &mut stmts[at]) {
                *stored = variable(var, dtype);
                stmts.insert(at, Stmt::Set(var, value));
            }
        }
        stmts
    }

    /// True for loops over the same range that run alike.
    fn same_range(&self, mine: &Stmt, theirs: &Stmt) -> bool {
        let (
            Stmt::For { lo, hi, mark, run, .. },
            Stmt::For { lo: other_lo, hi: other_hi, mark: other_mark, run: other_run, .. },
        ) = (mine, theirs)
        else {
            return false;
        };
        let equal = |a: &Scalar, b: &Scalar| match (self.first.as_dim(a), self.second.as_dim(b)) {
            (Some(a), Some(b)) => {
                self.first.is_of_dims(&a) && self.second.is_of_dims(&b) && (self.same)(&a, &b)
            }
            (Some(_) | None, _) => false,
        };
        mark == other_mark && run == other_run && equal(lo, other_lo) && equal(hi, other_hi)
    }

    /// A statement of the second's alone.
    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::For { var, lo, hi, mark, run, body } => {
                let (lo, hi) = (self.scalar(lo), self.scalar(hi));
                let var = self.var(*var);
                let body = body.iter().map(|s| self.stmt(s)).collect();
                Stmt::For { var, lo, hi, mark: *mark, run: run.clone(), body }
            }
            Stmt::While(c, body) => {
                let c = self.scalar(c);
                Stmt::While(c, body.iter().map(|s| self.stmt(s)).collect())
            }
            Stmt::If(c, a, b) => {
                let c = self.scalar(c);
                let mut part = |part: &[Stmt]| part.iter().map(|s| self.stmt(s)).collect();
                Stmt::If(c, part(a), part(b))
            }
            Stmt::Set(v, value) => {
                let value = self.scalar(value);
                Stmt::Set(self.var(*v), value)
            }
            Stmt::Alloc(buf) => Stmt::Alloc(self.merge.bufs[buf]),
            Stmt::Store { buf, index, checked, combine, value, span } => Stmt::Store {
                buf: self.merge.bufs[buf],
                index: index.iter().map(|i| self.scalar(i)).collect(),
                checked: *checked,
                combine: *combine,
                value: self.scalar(value),
                span: *span,
            },
        }
    }

    fn scalar(&mut self, s: &Scalar) -> Scalar {
        self.merge.import(self.second, s, &self.env)
    }

    /// What a variable of the second's has become.
    fn var(&mut self, v: VarId) -> VarId {
        if let Some(known) = self.env.get(&v).and_then(Scalar::as_var) {
            return known;
        }
        let old = self.second.var(v);
        let new = self.merge.add_var(old.name, old.dtype);
        self.env.insert(v, variable(new, old.dtype));
        new
    }
}

/// True if something in a statement stores to a buffer.
fn stores(stmt: &Stmt, to: BufId) -> bool {
    let mut found = false;
    stmt.walk(&mut |s| found |= matches!(s, Stmt::Store { buf, .. } if *buf == to));
    found
}

/// Makes one parameter of two that are given the same value.
pub(crate) fn merge_params(prim: &Prim, keep: usize, drop: usize) -> Prim {
    let (kept, dropped) = (prim.params[keep], prim.params[drop]);
    let mut prim = prim.clone();
    prim.params.remove(drop);
    rename_body(&mut prim.body, &|b| if b == dropped { kept } else { b });
    let none = Prim { bufs: Vec::new(), ..prim.clone() };
    Merge::new(&prim, &none, &|_| false).finish()
}

/// The dims a placed primitive really mentions, sorted: what it becomes generic over.
pub(crate) fn close(mut prim: Prim) -> Prim {
    let mut dims: Vec<Sym> = prim.bufs.iter().flat_map(|b| b.shape.iter().flat_map(Expr::syms)).collect();
    let mut note = |e: &mut Scalar| {
        if let ScalarKind::Dim(d) = &e.kind {
            dims.extend(d.syms());
        }
    };
    prim.body.iter_mut().for_each(|s| edit_stmt(s, &mut note));
    dims.sort_unstable();
    dims.dedup();
    prim.dims = dims;
    prim
}
