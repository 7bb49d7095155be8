//! Schedules as text, for `tenon dis`.

use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use std::fmt::Write;

use crate::Target;
use crate::layout::Grid;

/// One line a loop or reduction, indented as they nest.
pub(crate) fn print(prim: &Prim, grid: Option<&Grid>, target: &Target) -> String {
    let mut out = format!("schedule {} for {target}\n", prim.name);
    let printer = Printer { prim, grid };
    printer.block(&prim.body, 1, &mut out);
    out
}

struct Printer<'a> {
    prim: &'a Prim,
    grid: Option<&'a Grid>,
}

fn run_text(run: &Run) -> String {
    match run {
        Run::Plain => String::new(),
        Run::Lanes { lanes, vectors } => format!(", lanes {lanes} x {vectors}"),
        Run::Rows(sizes) => {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!(", rows {}", sizes.join(" "))
        }
        Run::Unrolled => ", written out".to_string(),
        Run::Dot => ", by dot products".to_string(),
    }
}

impl Printer<'_> {
    fn block(&self, stmts: &[Stmt], depth: usize, out: &mut String) {
        for s in stmts {
            match s {
                Stmt::For { var, lo, hi, mark, run, body } => {
                    let order = if *mark == Mark::Independent { "" } else { ", serial" };
                    let grid = if self.grid.is_some_and(|g| g.loops.contains(var)) { ", grid" } else { "" };
                    let (lo, hi) = (self.text(lo), self.text(hi));
                    let range = if lo == "0" { hi } else { format!("{lo}..{hi}") };
                    let name = self.name(*var);
                    let run = run_text(run);
                    let _ = writeln!(out, "{}for {name} in {range}{grid}{order}{run}", pad(depth));
                    self.block(body, depth + 1, out);
                }
                Stmt::While(c, body) => {
                    let _ = writeln!(out, "{}while, serial", pad(depth));
                    self.scalar(c, depth + 1, out);
                    self.block(body, depth + 1, out);
                }
                Stmt::If(c, a, b) => {
                    let _ = writeln!(out, "{}if {}", pad(depth), self.text(c));
                    self.block(a, depth + 1, out);
                    if !b.is_empty() {
                        let _ = writeln!(out, "{}else", pad(depth));
                        self.block(b, depth + 1, out);
                    }
                }
                Stmt::Set(v, value) => {
                    let _ = writeln!(out, "{}{} =", pad(depth), self.name(*v));
                    self.scalar(value, depth + 1, out);
                }
                Stmt::Alloc(b) => {
                    let _ = writeln!(out, "{}local {}", pad(depth), self.prim.buf(*b).name);
                }
                Stmt::Store { buf, combine, value, .. } => {
                    let sign = combine.map_or("=", ir::Combine::token);
                    let _ = writeln!(out, "{}{}[..] {sign}", pad(depth), self.prim.buf(*buf).name);
                    self.scalar(value, depth + 1, out);
                }
            }
        }
    }

    fn text(&self, s: &Scalar) -> String {
        crate::text::scalar_text(self.prim, s)
    }

    fn name(&self, v: VarId) -> shape::Sym {
        self.prim.var(v).name
    }

    fn scalar(&self, s: &Scalar, depth: usize, out: &mut String) {
        let mut deeper = depth;
        if let ScalarKind::Reduce { combine, run, var, .. } = &s.kind {
            let how = match run {
                Run::Plain => ", in order".to_string(),
                Run::Lanes { .. } => format!("{} where nothing around has lanes", run_text(run)),
                Run::Rows(_) | Run::Unrolled | Run::Dot => run_text(run),
            };
            let _ = writeln!(out, "{}{} over {}{how}", pad(depth), combine.name(), self.name(*var));
            deeper += 1;
        }
        super::cost::children(s).into_iter().for_each(|c| self.scalar(c, deeper, out));
    }
}

fn pad(depth: usize) -> String {
    "  ".repeat(depth)
}
