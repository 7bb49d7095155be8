//! Which function is meant, and calling a primitive as if it were one.

use ir::graph::{Block, Func, Node, Op, Param, Type};
use ir::loops::BufId;
use ir::{FuncId, Module, PrimId};
use shape::{Expr as Dim, Pred};

use crate::Failure;

/// The function named; without a name `main`, or else the only one, or the first of the file.
/// A primitive of that name gets a function that does nothing but call it.
pub(crate) fn find(module: &mut Module, name: Option<&str>) -> Result<FuncId, Failure> {
    let tests: Vec<FuncId> = module.tests.iter().map(|t| t.func).collect();
    let mut names = (0..module.funcs.len() as u32).map(FuncId).filter(|id| !tests.contains(id));
    let found = match name {
        Some(name) => module.find(name).filter(|id| !tests.contains(id)),
        // Functions are entered before their bodies are checked, so those of the file come in its order.
        None => module.find("main").or_else(|| names.next()),
    };
    if let Some(id) = found {
        return Ok(id);
    }
    let prim = |name: &str| module.prims.iter().position(|p| p.name == name).map(|i| PrimId(i as u32));
    let prim = match name {
        Some(name) => prim(name),
        None => (!module.prims.is_empty()).then_some(PrimId(0)),
    };
    if let Some(prim) = prim {
        return Ok(wrap(module, prim));
    }
    // Instances of the library's definitions are there too, and are no answer to a misspelt name.
    let file =
        module.funcs.first().map_or_else(|| module.prims.first().map(|p| p.span.file), |f| Some(f.span.file));
    let mut known: Vec<&str> = module
        .funcs
        .iter()
        .enumerate()
        .filter(|(i, _)| !tests.contains(&FuncId(*i as u32)))
        .map(|(_, f)| f.name.as_str())
        .collect();
    known.extend(module.prims.iter().filter(|p| Some(p.span.file) == file).map(|p| p.name.as_str()));
    let text = match name {
        None => "the file has no function to run".to_owned(),
        Some(name) => match ir::diag::nearest(name, known.iter().copied()) {
            Some(near) => format!("no function `{name}`; did you mean `{near}`?"),
            None => format!("no function `{name}`; the file has {}", known.join(", ")),
        },
    };
    Err(Failure::Message { code: "E0605", text })
}

/// A function that calls a primitive with its own parameters.
pub(crate) fn wrap(module: &mut Module, prim: PrimId) -> FuncId {
    let p = module.prim(prim).clone();
    let ty = |id: &BufId| Type { dtype: p.buf(*id).dtype, shape: p.buf(*id).shape.clone() };
    let mut func = Func {
        name: p.name.clone(),
        def: p.def,
        dims: p.dims.clone(),
        facts: p.facts.clone(),
        requires: Vec::new(),
        params: Vec::new(),
        results: p.outs.iter().map(|o| Some(p.buf(*o).name)).collect(),
        exists: Vec::new(),
        result_types: p.outs.iter().map(ty).collect(),
        vals: Vec::new(),
        body: Block::default(),
        plan: false,
        span: p.span,
    };
    // What the primitive assumes of its dims is asked of whoever calls it from outside.
    func.requires = p.facts.iter().filter(|f| !is_dim_fact(f)).cloned().collect();
    for id in &p.params {
        let val = func.add_val(p.buf(*id).name, ty(id));
        func.body.params.push(val);
        func.params.push(Param { name: p.buf(*id).name, own: p.in_place(*id), from: None });
    }
    let results: Vec<_> = p.outs.iter().map(|o| func.add_val(p.buf(*o).name, ty(o))).collect();
    func.body.nodes.push(Node {
        op: Op::Prim(prim, p.dims.iter().map(|s| Dim::sym(*s)).collect()),
        args: func.body.params.clone(),
        results: results.clone(),
        opens: Vec::new(),
        span: p.span,
    });
    func.body.results = results;
    module.funcs.push(func);
    FuncId(module.funcs.len() as u32 - 1)
}

/// `0 <= n`, which every extent satisfies.
fn is_dim_fact(p: &Pred) -> bool {
    matches!(p, Pred::Le(a, b) if a.as_int() == Some(0) && b.as_sym().is_some())
}
