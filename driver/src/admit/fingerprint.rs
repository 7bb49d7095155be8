//! What a verdict depends on, as text: a rule's instances, and every definition that their sides come to.
//!
//! In: instances of one rule. Out: a text without places, and in which what is called is numbered as it appears, so
//! that neither edits elsewhere nor the names of other instances change it. Equal texts, tried by the same compiler,
//! have the same verdict.

use std::fmt::Write as _;

use ir::graph::{Block, Func, Op};
use ir::text::{extern_text, prim_text};
use ir::{ExternId, FuncId, Module, PrimId, Rule};
use shape::{Expr as Dim, Pred};

/// The text of some instances.
pub(super) fn text(module: &Module, instances: &[&Rule]) -> String {
    let mut writer = Writer { module, out: String::new(), prims: vec![], externs: vec![], funcs: vec![] };
    for rule in instances {
        let way = if rule.both_ways { "<=>" } else { "=>" };
        let within = rule.tolerance.map_or_else(String::new, |t| format!(" within {t:?}"));
        let (when, constant) = (preds(&rule.when), &rule.constant);
        let _ = writeln!(writer.out, "rule {way} when {when} const {constant:?}{within}");
        writer.func(&rule.lhs);
        writer.func(&rule.rhs);
    }
    writer.called();
    writer.out
}

struct Writer<'m> {
    module: &'m Module,
    out: String,
    prims: Vec<PrimId>,
    externs: Vec<ExternId>,
    funcs: Vec<FuncId>,
}

impl Writer<'_> {
    fn func(&mut self, f: &Func) {
        let known: Vec<Pred> = f.facts.iter().cloned().collect();
        let _ = writeln!(self.out, "fn {:?} where {} asks {}", f.dims, preds(&known), preds(&f.requires));
        for (i, v) in f.vals.iter().enumerate() {
            let dim = v.dim.as_ref().map_or_else(String::new, |d| format!(" = {d}"));
            let _ = writeln!(self.out, "{i}: {}{dim}", v.ty);
        }
        self.block(&f.body);
    }

    fn block(&mut self, block: &Block) {
        let _ = writeln!(self.out, "{:?} {{", block.params);
        for node in &block.nodes {
            let op = self.op(&node.op);
            let _ = writeln!(self.out, "{op} {:?} {:?} {:?}", node.args, node.results, node.opens);
            node.op.blocks().into_iter().for_each(|b| self.block(b));
        }
        let _ = writeln!(self.out, "}} {:?}", block.results);
    }

    fn op(&mut self, op: &Op) -> String {
        match op {
            Op::Const(t) => format!("const {} {:?} {:?}", t.dtype(), t.shape(), t.bytes()),
            Op::Dim(d) => format!("dim {d}"),
            Op::Scalar(i) => i.name().to_owned(),
            Op::Cast => "cast".to_owned(),
            Op::Prim(id, dims) => format!("prim {}{}", numbered(&mut self.prims, *id), list(dims)),
            Op::Extern(id, dims) => format!("extern {}{}", numbered(&mut self.externs, *id), list(dims)),
            Op::Call(id, dims) => format!("call {}{}", numbered(&mut self.funcs, *id), list(dims)),
            Op::If(..) => "if".to_owned(),
            Op::While { .. } => "while".to_owned(),
            Op::Switch(arms) => {
                let arms: Vec<String> = arms.iter().map(|(p, _)| preds(p)).collect();
                format!("switch {}", arms.join("; "))
            }
            Op::BindDim(s, p) => format!("bind {s} {}", preds(p)),
            Op::Check(p, _) => format!("check {p}"),
            Op::Assert(text) => format!("assert {text}"),
        }
    }

    /// What was called, in the order in which it was; functions may call more.
    fn called(&mut self) {
        let module = self.module;
        let mut next = 0;
        while let Some(&id) = self.funcs.get(next) {
            self.func(module.func(id));
            next += 1;
        }
        for id in &self.prims {
            let prim = module.prim(*id);
            let facts: Vec<Pred> = prim.facts.iter().cloned().collect();
            let named = ir::loops::Prim { name: prim.def.to_string(), ..prim.clone() };
            let _ = writeln!(self.out, "where {}\n{}", preds(&facts), prim_text(&named));
        }
        for id in &self.externs {
            let _ = writeln!(self.out, "{}", extern_text(module.extern_(*id)));
        }
    }
}

fn numbered<T: PartialEq>(seen: &mut Vec<T>, id: T) -> usize {
    seen.iter().position(|s| *s == id).unwrap_or_else(|| {
        seen.push(id);
        seen.len() - 1
    })
}

fn list(dims: &[Dim]) -> String {
    format!("[{}]", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "))
}

fn preds(all: &[Pred]) -> String {
    all.iter().map(Pred::to_string).collect::<Vec<_>>().join(" && ")
}
