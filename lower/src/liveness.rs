//! Liveness: when the variables of a function live.
//!
//! Statements are numbered in the order of the text, uses before definitions. A variable lives from its first to its
//! last mention; one that is older than a loop and mentioned in it lives to the loop's end, since the next round
//! may need it.

use crate::rt::{Func, Kind, Stmt, Var};

/// When variables live, in half steps: even for uses, odd for definitions.
pub(crate) struct Liveness {
    /// By variable; none for one that is never mentioned.
    pub(crate) vars: Vec<Option<(usize, usize)>>,
    /// The first and last moment of each loop, outer ones before those inside.
    pub(crate) loops: Vec<(usize, usize)>,
    /// The moment at which each statement that takes memory does so, in the order of the text.
    pub(crate) allocs: Vec<(Var, usize)>,
    /// The moment of each statement, in the order of the text.
    pub(crate) moments: Vec<usize>,
    /// The last moment, when results are given back.
    pub(crate) now: usize,
}

impl Liveness {
    pub(crate) fn new(func: &Func) -> Liveness {
        let vars = vec![None; func.vars.len()];
        let mut liveness =
            Liveness { vars, loops: Vec::new(), allocs: Vec::new(), moments: Vec::new(), now: 0 };
        func.params.iter().for_each(|p| liveness.defines(p.0));
        liveness.block(&func.body);
        liveness.now += 2;
        liveness.uses(&func.results);
        liveness
    }

    fn mention(&mut self, v: Var, at: usize) {
        let life = &mut self.vars[v.0 as usize];
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
            self.moments.push(self.now);
            match &s.kind {
                Kind::Let(v, value) => {
                    self.uses(&value.vars());
                    self.defines(*v);
                }
                Kind::Alloc(v, dims, _) | Kind::Place(v, dims, _) => {
                    self.uses(dims);
                    self.defines(*v);
                    self.allocs.push((*v, self.now + 1));
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
                Kind::Slice(v, from, at, dims) => {
                    self.uses(&[*from, *at]);
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
                    let number = self.loops.len();
                    self.loops.push((start, start));
                    let before: Vec<bool> = self.vars.iter().map(Option::is_some).collect();
                    self.block(head);
                    self.now += 2;
                    self.uses(&cond.vars());
                    self.block(body);
                    self.now += 2;
                    let end = self.now;
                    self.loops[number].1 = end;
                    for (life, before) in self.vars.iter_mut().zip(before) {
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
