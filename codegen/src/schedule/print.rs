//! Schedules as text, for `tenon dis`.

use ir::loops::{Mark, Prim, Scalar, ScalarKind, Stmt, VarId};
use std::fmt::Write;

use super::{Schedule, Wide};
use crate::Target;

/// One line a loop or reduction, indented as they nest.
pub(crate) fn print(prim: &Prim, schedule: &Schedule, grid: Option<VarId>, target: &Target) -> String {
    let mut out = format!("schedule {} for {target}\n", prim.name);
    let printer = Printer { prim, schedule, grid };
    printer.block(&prim.body, 1, &mut out);
    out
}

struct Printer<'a> {
    prim: &'a Prim,
    schedule: &'a Schedule,
    grid: Option<VarId>,
}

fn wide_text(w: Wide) -> String {
    let tail = if w.masked { "masked tail" } else { "scalar tail" };
    format!("lanes {} x {}, {tail}", w.lanes, w.vectors)
}

fn sizes_text(sizes: &[u32]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    sizes.join(" ")
}

impl Printer<'_> {
    fn block(&self, stmts: &[Stmt], depth: usize, out: &mut String) {
        for s in stmts {
            match s {
                Stmt::For { var, mark, body, .. } => {
                    let order = if *mark == Mark::Independent { "" } else { ", serial" };
                    let _ = writeln!(out, "{}for {}{order}{}", pad(depth), self.name(*var), self.role(*var));
                    self.block(body, depth + 1, out);
                }
                Stmt::While(c, body) => {
                    let _ = writeln!(out, "{}while, serial", pad(depth));
                    self.scalar(c, depth + 1, out);
                    self.block(body, depth + 1, out);
                }
                Stmt::If(_, a, b) => {
                    self.block(a, depth, out);
                    self.block(b, depth, out);
                }
                Stmt::Set(v, value) => {
                    let _ = writeln!(out, "{}{} =", pad(depth), self.name(*v));
                    self.scalar(value, depth + 1, out);
                }
                Stmt::Alloc(b) => {
                    let _ = writeln!(out, "{}local {}", pad(depth), self.prim.buf(*b).name);
                }
                Stmt::Store { buf, value, .. } => {
                    let _ = writeln!(out, "{}{}[..] =", pad(depth), self.prim.buf(*buf).name);
                    self.scalar(value, depth + 1, out);
                }
            }
        }
    }

    fn name(&self, v: VarId) -> shape::Sym {
        self.prim.var(v).name
    }

    fn role(&self, var: VarId) -> String {
        let mut text = String::new();
        if self.grid == Some(var) {
            text += ", grid";
        }
        for nest in self.schedule.nests.values() {
            if let Some((v, w)) = nest.lanes
                && v == var
            {
                let _ = write!(text, ", {}", wide_text(w));
            }
            if let Some((v, sizes)) = &nest.rows
                && *v == var
            {
                let _ = write!(text, ", rows {}", sizes_text(sizes));
                if let Some((least, few)) = &nest.few {
                    let _ = write!(text, " with {} panels from {least} rows on", nest.panels.len());
                    let _ = match (&few.lanes, &few.rows) {
                        (Some((v, w)), rows) => {
                            let rows = rows
                                .as_ref()
                                .map_or(String::new(), |r| format!(", rows {}", sizes_text(&r.1)));
                            write!(text, ", else {} {}{rows}", self.name(*v), wide_text(*w))
                        }
                        (None, Some((v, sizes))) => {
                            write!(text, ", else rows {} of {}", sizes_text(sizes), self.name(*v))
                        }
                        (None, None) => write!(text, ", else one by one"),
                    };
                }
            }
        }
        text
    }

    fn scalar(&self, s: &Scalar, depth: usize, out: &mut String) {
        if let ScalarKind::Reduce { combine, var, .. } = &s.kind {
            let how = self.schedule.reductions.get(var).map_or("in order".to_string(), |w| {
                format!("{} where nothing around has lanes", wide_text(*w))
            });
            let _ = writeln!(out, "{}{} over {}, {how}", pad(depth), combine.name(), self.name(*var));
            super::cost::children(s).into_iter().for_each(|c| self.scalar(c, depth + 1, out));
            return;
        }
        super::cost::children(s).into_iter().for_each(|c| self.scalar(c, depth, out));
    }
}

fn pad(depth: usize) -> String {
    "  ".repeat(depth)
}
