//! Which functions tolerate what lossy rules lose.
//!
//! A function's own `#[tolerance(t)]` goes before what the options say of all. What it calls is part of it where that
//! says nothing itself: a call that is taken apart ([`mod@crate::inline`]) gets the caller's by being in its body, and
//! a callee that is not is copied for the callers of each tolerance. So whether a rule may fire does not depend on how
//! large a function is, and who calls it without a tolerance gets what it was. What says another tolerance keeps its
//! own: where it is taken apart its values do ([`ir::graph::Val::tolerance`]).

use std::borrow::Cow;

use egg::Id;
use ir::graph::{Block, Func, Op, Tolerance};
use ir::{FuncId, Module};

use crate::egraph::BlockGraph;
use crate::pattern::Pattern;

/// Gives the tolerance of the options to all functions that say nothing and are no plan.
pub(crate) fn declare(module: &mut Module, tolerance: Option<f64>) {
    for f in module.funcs.iter_mut().filter(|f| !f.plan) {
        f.tolerance = f.tolerance.take().or(tolerance.map(Tolerance::from));
    }
}

/// Has no function tolerate anything.
pub(crate) fn lift(module: &mut Module) {
    for f in &mut module.funcs {
        f.tolerance = None;
        f.vals.iter_mut().for_each(|v| v.tolerance = None);
    }
}

/// Has functions call copies that tolerate what they do, of what says nothing. The copies come behind all others; gives
/// what each is of.
pub(crate) fn inherit(module: &mut Module) -> Vec<FuncId> {
    let mut copies: Vec<(FuncId, Tolerance, FuncId)> = Vec::new();
    let mut next = 0;
    while next < module.funcs.len() {
        let f = &module.funcs[next];
        if let Some(t) = f.tolerance.clone().filter(|_| !f.plan) {
            let mut body = std::mem::take(&mut module.funcs[next].body);
            redirect(&mut body, &mut |id| copy(module, &mut copies, id, &t));
            module.funcs[next].body = body;
        }
        next += 1;
    }
    copies.into_iter().map(|c| c.0).collect()
}

/// The function that a caller of a tolerance calls for another.
fn copy(
    module: &mut Module,
    copies: &mut Vec<(FuncId, Tolerance, FuncId)>,
    id: FuncId,
    t: &Tolerance,
) -> FuncId {
    let callee = module.func(id);
    if callee.tolerance.is_some() || callee.plan {
        return id;
    }
    if let Some(known) = copies.iter().find(|c| c.0 == id && c.1 == *t) {
        return known.2;
    }
    let name = module.unused(&format!("{}_within", callee.name));
    let func = Func { name, tolerance: Some(t.clone()), ..callee.clone() };
    module.funcs.push(func);
    let new = FuncId(module.funcs.len() as u32 - 1);
    copies.push((id, t.clone(), new));
    new
}

fn redirect(block: &mut Block, to: &mut dyn FnMut(FuncId) -> FuncId) {
    for node in &mut block.nodes {
        if let Op::Call(id, _) = &mut node.op {
            *id = to(*id);
        }
        node.op.blocks_mut().into_iter().for_each(|b| redirect(b, to));
    }
}

/// The patterns as they are in a function: those of rules that may not fire in it say why.
pub(crate) fn withhold_lossy<'p>(patterns: &'p [Pattern], func: &Func) -> Cow<'p, [Pattern]> {
    if patterns.iter().all(|p| withheld(p, func).is_none()) {
        return Cow::Borrowed(patterns);
    }
    patterns.iter().map(|p| Pattern { withheld: withheld(p, func), ..p.clone() }).collect()
}

/// Whether a pattern may make something equal to classes.
pub(crate) fn allows(pattern: &Pattern, classes: &[Id], b: &BlockGraph) -> Result<(), String> {
    let Some(lost) = pattern.tolerance else { return Ok(()) };
    let here = |class: Id| classes.iter().any(|c| b.graph.find(*c) == b.graph.find(class));
    let own = b.tolerances.iter().filter(|(class, _)| here(*class)).map(|(_, t)| t);
    match own.min_by(|a, b| a.by.total_cmp(&b.by)) {
        Some(t) if t.allows(lost, pattern.family) => Ok(()),
        Some(t) => Err(format!("it needs a tolerance of {lost}, and what computes it tolerates {t}")),
        None => pattern.withheld.clone().map_or(Ok(()), Err),
    }
}

/// Why a rule may not fire in a function, if it loses more than that tolerates.
fn withheld(pattern: &Pattern, func: &Func) -> Option<String> {
    let lost = pattern.tolerance?;
    let said = match &func.tolerance {
        Some(t) if t.allows(lost, pattern.family) => return None,
        Some(t) => format!("{} tolerates {t}", func.name),
        None => format!("{} says none", func.name),
    };
    Some(format!("it needs a tolerance of {lost}, and {said}"))
}
