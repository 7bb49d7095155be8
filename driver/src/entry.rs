//! Which function is meant, and calling a primitive as if it were one.

use std::collections::{BTreeMap, BTreeSet};

use ir::ast::{ItemKind, Mode, TypeKind};
use ir::graph::{Block, Func, Node, Op, Param, Type, ValId};
use ir::loops::Prim;
use ir::source::Span;
use ir::{ExternId, FuncId, Module, PrimId};
use shape::{Expr as Dim, Facts, Pred, Sym, System, Verdict};
use tensor::DType;

use crate::{Failure, Front};

/// The function named; without a name `main`, or else the first of the file. A primitive of that name gets
/// a function that does nothing but call it. What modules and the library define is reached by calls only.
pub(crate) fn find(front: &mut Front, name: Option<&str>) -> Result<FuncId, Failure> {
    let own = own(front);
    let found = match name {
        Some(name) => own.funcs.iter().find(|id| front.module.func(**id).name == name),
        // Functions are entered before their bodies are checked, so those of the file come in its order.
        None => {
            let main = own.funcs.iter().find(|id| front.module.func(**id).name == "main");
            main.or(own.funcs.first())
        }
    };
    if let Some(&id) = found {
        return Ok(id);
    }
    let prim = match name {
        Some(name) => own.prims.iter().find(|id| front.module.prim(**id).name == name),
        None => own.prims.first(),
    };
    if let Some(&prim) = prim {
        return Ok(wrap(&mut front.module, prim));
    }
    let mut known: Vec<&str> = own.funcs.iter().map(|id| front.module.func(*id).name.as_str()).collect();
    known.extend(own.prims.iter().map(|id| front.module.prim(*id).name.as_str()));
    if let Some(text) = no_instance(front, name) {
        return Err(Failure::Message { code: "E0605", text });
    }
    let text = match name {
        None => "the file has no function to run".to_owned(),
        Some(name) => match ir::diag::nearest(name, known.iter().copied()) {
            Some(near) => format!("no function `{name}`; did you mean `{near}`?"),
            None => format!("no function `{name}`; the file has {}", known.join(", ")),
        },
    };
    Err(Failure::Message { code: "E0605", text })
}

/// Why a definition of the program has no instance of its own: its signature asks for what only a call gives.
fn no_instance(front: &Front, name: Option<&str>) -> Option<String> {
    let items = front.files.own.iter().flat_map(|f| &f.items);
    let sig = items
        .filter_map(|i| {
            if let ItemKind::Fn(d) = &i.kind {
                Some(&d.sig)
            } else if let ItemKind::Prim(d) = &i.kind {
                Some(&d.sig)
            } else {
                None
            }
        })
        .find(|s| name.is_none_or(|n| s.name.name.name() == n))?;
    let shown = sig.name.name;
    let (mut attributes, mut functions) = (Vec::new(), Vec::new());
    for p in &sig.params {
        let is_function = matches!(p.ty.as_ref().map(|t| &t.kind), Some(TypeKind::Fn(..)));
        match (p.mode, is_function) {
            (Mode::Const, _) => attributes.push(format!("`{}`", p.name.name)),
            (_, true) => functions.push(format!("`{}`", p.name.name)),
            (_, false) => {}
        }
    }
    let what = match (attributes.as_slice(), functions.as_slice()) {
        ([], []) => "its signature is not one of tensors, dims and records".to_owned(),
        (list, []) => format!("{} must be known when compiling", list.join(", ")),
        ([], list) => format!("{} must be given as a function", list.join(", ")),
        (list, more) => {
            let (list, more) = (list.join(", "), more.join(", "));
            format!("{list} must be known when compiling, and {more} given as a function")
        }
    };
    Some(format!("`{shown}` cannot be entered: {what}; write a function that calls it, and enter that"))
}

/// What the program's own files define, tests left out.
pub(crate) struct Own {
    pub(crate) funcs: Vec<FuncId>,
    pub(crate) prims: Vec<PrimId>,
}

pub(crate) fn own(front: &Front) -> Own {
    let (module, files) = (&front.module, &front.files);
    let tests: BTreeSet<FuncId> = module.tests.iter().map(|t| t.func).collect();
    let here = |span: Span| files.own.iter().any(|f| f.source == span.file);
    let funcs = (0..module.funcs.len() as u32).map(FuncId);
    let prims = (0..module.prims.len() as u32).map(PrimId);
    Own {
        funcs: funcs.filter(|id| here(module.func(*id).span) && !tests.contains(id)).collect(),
        prims: prims.filter(|id| here(module.prim(*id).span)).collect(),
    }
}

/// The dims of a function that the extents of its arguments tell. A dim of a config stands alone or is not told.
pub(crate) fn inferable_dims(module: &Module, func: &Func) -> BTreeSet<Sym> {
    let extents: Vec<&Dim> = func.body.params.iter().flat_map(|v| &func.ty(*v).shape).collect();
    let is_setting = |s: Sym| module.settings.iter().any(|x| x.dtype.is_none() && x.name == s);
    let stands = |s: Sym| !is_setting(s) || extents.iter().any(|e| e.as_sym() == Some(s));
    let telling = extents.iter().enumerate().filter(|(_, e)| e.syms().into_iter().all(stands));
    let equations = telling.map(|(i, e)| ((*e).clone(), Dim::sym(Sym::new(&format!("#{i}")))));
    let unknown: BTreeSet<Sym> = extents.iter().flat_map(|e| e.syms()).collect();
    System::solve(unknown, equations).found.iter().map(|f| f.sym).collect()
}

/// The function as it is called from outside. A dim that no argument tells is asked for as a number, under its name,
/// unless the config says what it is; an extent that speaks of it is compared when running.
pub(crate) fn callable(module: &mut Module, id: FuncId) -> FuncId {
    let inner = module.func(id).clone();
    let inferable = inferable_dims(module, &inner);
    let open: Vec<Sym> = inner.dims.iter().copied().filter(|s| !inferable.contains(s)).collect();
    let setting = |s: Sym| module.settings.iter().find(|x| x.name == s)?.is.clone();
    let number = |s: Sym| setting(s).filter(|is| is.as_int().is_some());
    let defined = |s: Sym| Some(setting(s)?.subst(&number));
    if open.is_empty() {
        return id;
    }
    let speaks = |d: &Dim| d.syms().iter().any(|s| open.contains(s));
    let dims: Vec<Sym> = inner.dims.iter().copied().filter(|s| !open.contains(s)).collect();
    let mut func = Func {
        dims: dims.clone(),
        facts: Facts::default(),
        requires: inner
            .requires
            .iter()
            .filter(|p| p.syms().iter().all(|s| dims.contains(s)))
            .cloned()
            .collect(),
        params: Vec::new(),
        exists: Vec::new(),
        vals: Vec::new(),
        body: Block::default(),
        plan: true,
        pins: Vec::new(),
        pipeline: None,
        ..inner.clone()
    };
    let check = |pred: Pred, text: String| (Op::Check(pred, text), vec![], vec![]);
    let mut checks = Vec::new();
    for p in inner.requires.iter().filter(|p| !p.syms().iter().all(|s| dims.contains(s))) {
        checks.push(check(p.clone(), format!("{}: `{p}` does not hold", inner.name)));
    }
    for (p, v) in inner.params.iter().zip(&inner.body.params) {
        let mut ty = inner.ty(*v).clone();
        for (axis, e) in ty.shape.iter_mut().enumerate().filter(|(_, e)| speaks(e)) {
            // An extent of its own: what it must be is known once the config's dims are.
            let own = Sym::new(&format!("{}.{axis}", p.name));
            let pred = Pred::Eq(Dim::sym(own), e.clone());
            checks.push(check(pred, format!("axis {axis} of {} must be {e}", p.name)));
            func.dims.push(own);
            *e = Dim::sym(own);
        }
        let val = func.add_val(p.name, ty);
        func.body.params.push(val);
        func.params.push(p.clone());
    }
    let args = func.body.params.clone();
    let mut nodes: Vec<(Op, Vec<ValId>, Vec<ValId>)> = Vec::new();
    let (given, computed): (Vec<Sym>, Vec<Sym>) = open.iter().partition(|s| defined(**s).is_none());
    // A definition speaks of what stands before it, which has its place before it among the dims.
    for &s in given.iter().chain(&computed) {
        let val = func.add_val(s, Type::scalar(DType::I64));
        match defined(s) {
            Some(e) => nodes.push((Op::Dim(e), vec![], vec![val])),
            None => {
                func.body.params.push(val);
                func.params.push(Param { name: s, own: false, from: None });
            }
        }
        nodes.push((Op::BindDim(s, vec![Pred::Le(Dim::int(0), Dim::sym(s))]), vec![val], vec![]));
    }
    nodes.extend(checks);
    let results: Vec<ValId> =
        inner.result_types.iter().map(|t| func.add_val(Sym::new("v"), t.clone())).collect();
    let call = Op::Call(id, inner.dims.iter().map(|s| Dim::sym(*s)).collect());
    nodes.push((call, args, results.clone()));
    let opens: Vec<Sym> = inner.exists.iter().map(|e| e.0).collect();
    let last = nodes.len() - 1;
    for (i, (op, args, results)) in nodes.into_iter().enumerate() {
        let opens = if i == last { opens.clone() } else { Vec::new() };
        func.body.nodes.push(Node { op, args, results, opens, span: inner.span });
    }
    func.body.results = results;
    func.dims.iter().for_each(|s| func.facts.assume_dim(*s));
    // A result's extent that is not told by the arguments is found when running.
    for (k, ty) in func.result_types.iter_mut().enumerate() {
        for (axis, e) in ty.shape.iter_mut().enumerate() {
            if e.syms().iter().all(|s| dims.contains(s)) {
                continue;
            }
            let own = Sym::new(&format!("result.{k}.{axis}"));
            *e = Dim::sym(own);
            func.exists.push((own, vec![Pred::Le(Dim::int(0), Dim::sym(own))]));
        }
    }
    module.funcs[id.0 as usize].name = module.unused(&format!("{}_configured", inner.name));
    module.funcs.push(func);
    FuncId(module.funcs.len() as u32 - 1)
}

/// The function for dims that are known when compiling, as a config gives them: its types have the numbers, and so has
/// what it calls. Numbers that its conditions rule out are a fault.
pub(crate) fn settled(
    module: &mut Module,
    id: FuncId,
    known: &BTreeMap<Sym, i64>,
) -> Result<FuncId, Failure> {
    let inner = module.func(id).clone();
    let mut known = known.clone();
    for &d in &inner.dims {
        let Some((name, elements)) = ir::counted_in_blocks(d.name()) else { continue };
        let Some(n) = known.get(&Sym::new(name)).copied() else { continue };
        if n % elements != 0 {
            let text = format!("{}: {name} is {n}, which is no number of blocks of {elements}", inner.name);
            return Err(Failure::Message { code: "E0601", text });
        }
        known.insert(d, n / elements);
    }
    if !inner.dims.iter().any(|d| known.contains_key(d)) {
        return Ok(id);
    }
    let value = |s: Sym| known.get(&s).map(|n| Dim::int(*n));
    let refuted = |p: &&Pred| matches!(Facts::default().prove(&p.subst(&value)), Verdict::Refuted);
    if let Some(p) = inner.requires.iter().find(refuted) {
        let numbers = p.syms().into_iter().filter_map(|s| Some(format!("{s} = {}", known.get(&s)?)));
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        let text = format!("{}: `{p}` does not hold for {numbers}", inner.name);
        return Err(Failure::Message { code: "E0601", text });
    }
    let mut func = Func {
        dims: inner.dims.iter().copied().filter(|d| !known.contains_key(d)).collect(),
        facts: Facts::default(),
        requires: inner.requires.iter().map(|p| p.subst(&value)).collect(),
        exists: Vec::new(),
        result_types: inner.result_types.iter().map(|t| t.subst(&value)).collect(),
        vals: Vec::new(),
        body: Block::default(),
        pins: Vec::new(),
        pipeline: inner.pipeline,
        ..inner.clone()
    };
    for p in inner.facts.iter() {
        func.facts.assume(p.subst(&value));
    }
    for (s, facts) in &inner.exists {
        func.exists.push((*s, facts.iter().map(|p| p.subst(&value)).collect()));
    }
    for v in &inner.body.params {
        let val = func.add_val(inner.val(*v).name, inner.ty(*v).subst(&value));
        func.body.params.push(val);
    }
    let types = func.result_types.clone();
    func.body.results = types.into_iter().map(|t| func.add_val(Sym::new("v"), t)).collect();
    let dims = inner.dims.iter().map(|s| value(*s).unwrap_or(Dim::sym(*s))).collect();
    func.body.nodes.push(Node {
        op: Op::Call(id, dims),
        args: func.body.params.clone(),
        results: func.body.results.clone(),
        opens: inner.exists.iter().map(|e| e.0).collect(),
        span: inner.span,
    });
    module.funcs[id.0 as usize].name = module.unused(&format!("{}_of_any", inner.name));
    // The pipeline is that of the function that is planned: the one for these numbers, into which the other goes.
    module.funcs[id.0 as usize].pipeline = None;
    module.funcs.push(func);
    Ok(FuncId(module.funcs.len() as u32 - 1))
}

/// A function that calls a primitive with its own parameters.
pub(crate) fn wrap(module: &mut Module, prim: PrimId) -> FuncId {
    let p = module.prim(prim).clone();
    let dims = p.dims.iter().map(|s| Dim::sym(*s)).collect();
    wrapped(module, &p, Op::Prim(prim, dims))
}

/// A function that calls a library function with its own parameters.
pub(crate) fn wrap_extern(module: &mut Module, id: ExternId) -> FuncId {
    let p = module.extern_(id).shell();
    let dims = p.dims.iter().map(|s| Dim::sym(*s)).collect();
    wrapped(module, &p, Op::Extern(id, dims))
}

fn wrapped(module: &mut Module, p: &Prim, call: Op) -> FuncId {
    let mut func = Func::around(p);
    // What the primitive assumes of its dims is asked of whoever calls it from outside.
    func.requires = p.facts.iter().filter(|f| !is_dim_fact(f)).cloned().collect();
    let outs: Vec<_> = p.outs.iter().zip(func.result_types.clone()).collect();
    let results: Vec<_> = outs.into_iter().map(|(o, ty)| func.add_val(p.buf(*o).name, ty)).collect();
    func.body.nodes.push(Node {
        op: call,
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
