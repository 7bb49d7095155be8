//! Plans as text: the plan of every program that the suite runs is written out, and what is read back must be a
//! program of the same meaning.

use driver::engine::{self, Engine};
use driver::{Front, Options, pipeline, stage};
use ir::graph::{Block, Op};
use ir::{FuncId, Module};

/// What some entries need of a plan: the functions that they reach. Rules have done their work, but for those that say
/// what a library function means.
pub(crate) fn part(plan: &Module, entries: &[FuncId]) -> Module {
    let mut part = Module { tests: Vec::new(), ..plan.clone() };
    part.rules.retain(|r| r.rhs.body.nodes.iter().any(|n| matches!(n.op, Op::Extern(..))));
    let called = part.rules.iter().flat_map(|r| [&r.lhs, &r.rhs]).flat_map(|side| side.body.calls());
    let reached: Vec<FuncId> = plan.reached(called.chain(entries.iter().copied())).into_iter().collect();
    part.funcs = reached.iter().map(|id| plan.func(*id).clone()).collect();
    let sides = part.rules.iter_mut().flat_map(|r| [&mut r.lhs, &mut r.rhs]);
    part.funcs.iter_mut().chain(sides).for_each(|f| renumber(&mut f.body, &reached));
    part
}

/// Calls by the places that functions have in a list.
fn renumber(block: &mut Block, list: &[FuncId]) {
    for node in &mut block.nodes {
        if let Op::Call(id, _) = &mut node.op {
            let at = list.binary_search(id).expect("what is called is reached");
            *id = FuncId(at as u32);
        }
        node.op.blocks_mut().into_iter().for_each(|b| renumber(b, list));
    }
}

/// The plan written as text and read again.
pub(crate) fn reparse(plan: &Module, front: &Front) -> Result<Front, String> {
    let text = stage::plan_text(plan, &front.files);
    let mut sources = pipeline::sources();
    let id = sources.add("plan.tn", text.as_str());
    pipeline::front(sources, &[id]).map_err(|(sources, failure)| {
        format!("the plan as text does not check:\n{}\n{text}", failure.render(&sources, false))
    })
}

/// The plan with its loops as they are to run on a target.
pub(crate) fn scheduled(plan: &Module, options: &Options) -> Module {
    let compiler = codegen::Compiler::new(options.target.clone());
    let mut made = plan.clone();
    made.prims.iter_mut().for_each(|p| *p = compiler.schedule_prim(p));
    made
}

/// Runs the tests of a program, and those of its plan read back from text: each must end alike. The names are
/// those of tests that passed.
pub fn tests_agree(front: &Front) -> Result<Vec<String>, String> {
    let (plan, _) = pipeline::plan(&front.module, &Options::default());
    let again = reparse(&plan, front)?;
    let run =
        |front: &Front| engine::test(front, Engine::Interp).map_err(|f| f.render(&front.sources, false));
    let (first, second) = (run(front)?, run(&again)?);
    let mut passed = Vec::new();
    if first.len() != second.len() {
        return Err(format!("{} tests, and {} in the plan as text", first.len(), second.len()));
    }
    for (a, b) in first.into_iter().zip(second) {
        let failure = |t: &engine::Tested, front: &Front| {
            t.failure.as_ref().map_or("it passes\n".to_owned(), |f| f.render(&front.sources, false))
        };
        if a.name != b.name || a.failure.is_some() != b.failure.is_some() {
            let text = stage::plan_text(&plan, &front.files);
            let (x, y) = (failure(&a, front), failure(&b, &again));
            return Err(format!("{}: {x}in the plan as text, {}: {y}\n{text}", a.name, b.name));
        }
        passed.extend(a.failure.is_none().then_some(a.name));
    }
    Ok(passed)
}
