//! Passes of whoever embeds the compiler: a pipeline names them, on functions before the graph and on plans behind it,
//! and what they make is verified.

use std::sync::{Arc, Mutex};

use driver::{Failure, Front, Options, PlanOptions, engine, pipeline};
use ir::graph::{Op, ValId};
use ir::{FuncId, Module};
use rewrites::OwnPass;
use tensor::Tensor;

const PROGRAM: &str = "pipeline early { pass once; fuse }
pipeline late { inline; saturate; fuse; regimes; pass once }
pipeline neither { fuse }
fn f<n>(x: f32[n]) -> f32[n] { relu(relu(x + 1.0)) }
#[pipeline(neither)]
fn g<n>(x: f32[n]) -> f32[n] { relu(relu(x + 1.0)) }
";

fn front() -> Front {
    let mut sources = pipeline::sources();
    let id = sources.add("passes.tn", PROGRAM);
    pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)))
}

fn options(
    by: &str,
    run: impl Fn(&Module, &[FuncId]) -> Result<Module, String> + Send + Sync + 'static,
) -> Options {
    Options::from(PlanOptions {
        pipeline: Some(by.to_owned()),
        passes: vec![OwnPass::new("once", run)],
        ..PlanOptions::default()
    })
}

/// What the functions of a pipeline say twice they say once: `relu(relu(x))`.
fn once(module: &Module, mine: &[FuncId]) -> Result<Module, String> {
    let mut out = module.clone();
    for f in mine {
        let is_relu = |op: &Op| matches!(op, Op::Prim(id, _) if module.prim(*id).def.name() == "relu");
        let body = &mut out.funcs[f.0 as usize].body;
        let made: Vec<ValId> =
            body.nodes.iter().filter(|n| is_relu(&n.op)).flat_map(|n| n.results.clone()).collect();
        let again = body.nodes.iter().position(|n| is_relu(&n.op) && made.contains(&n.args[0]));
        let Some(again) = again else { continue };
        let gone = body.nodes.remove(again);
        let reads = body.nodes.iter_mut().flat_map(|n| &mut n.args).chain(&mut body.results);
        reads.filter(|v| **v == gone.results[0]).for_each(|v| *v = gone.args[0]);
    }
    Ok(out)
}

/// What the steps of a function's plan cover.
fn covered(front: &Front, func: &str, options: &Options) -> Vec<String> {
    let (plan, report) = pipeline::plan(&front.module, options);
    assert_eq!(report.faults, Vec::<String>::new());
    assert_eq!(ir::verify::module(&plan), Ok(()));
    let found = report.functions.iter().find(|f| f.name == func).expect("it is planned");
    found.regimes.iter().flat_map(|r| &r.steps).flat_map(|s| s.covers.clone()).collect()
}

fn refused(options: &Options) -> String {
    let mut front = front();
    let id = pipeline::entry(&mut front, Some("f")).expect("it is there");
    match pipeline::compile(&front, &[id], options) {
        Err(Failure::Message { code: "E0511", text }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pass_before_the_graph_changes_what_is_planned_of_the_functions_of_its_pipeline() {
    let front = front();
    let options = options("early", once);
    let relus = |func| covered(&front, func, &options).iter().filter(|c| *c == "relu").count();
    assert_eq!(relus("f"), 1);
    assert_eq!(relus("g"), 2);
    let mut front = front.clone();
    let entry = pipeline::entry(&mut front, Some("f")).expect("it is there");
    let (plan, _) = pipeline::plan(&front.module, &options);
    let x = || vec![Tensor::from_f32(&[3], &[-3.0, 0.0, 2.0]).expect("three numbers")];
    let run = |m: &Module| engine::interpret(&front, m, entry, x()).expect("it runs");
    assert_eq!(run(&plan)[0].1.as_f32(), run(&front.module)[0].1.as_f32());
}

#[test]
fn a_pass_behind_the_graph_is_given_plans() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = seen.clone();
    let options = options("late", move |m, mine| {
        for f in mine {
            m.func(*f).body.walk(&mut |n| {
                if let Op::Prim(id, _) = n.op {
                    notes.lock().expect("one thread").push(m.prim(id).name.clone());
                }
            });
        }
        Ok(m.clone())
    });
    let front = front();
    covered(&front, "f", &options);
    let seen = seen.lock().expect("one thread").clone();
    assert!(matches!(&seen[..], [one] if one.starts_with("fused_")), "{seen:?}");
}

#[test]
fn a_pass_that_goes_wrong_is_an_error_that_names_it() {
    let said = refused(&options("early", |_, _| Err("not today".to_owned())));
    assert_eq!(said, "pass `once` of pipeline `early`: not today");
    // A value that is read and no longer made.
    for by in ["early", "late"] {
        let said = refused(&options(by, |m, mine| {
            let mut out = m.clone();
            mine.iter().for_each(|f| drop(out.funcs[f.0 as usize].body.nodes.pop()));
            Ok(out)
        }));
        let start = format!("pass `once` of pipeline `{by}`: what it made is no module: function `f`: value");
        assert!(said.starts_with(&start) && said.ends_with("is read before it is made"), "{said}");
    }
    // Another signature.
    let said = refused(&options("early", |m, mine| {
        let mut out = m.clone();
        mine.iter().for_each(|f| out.funcs[f.0 as usize].result_types.clear());
        Ok(out)
    }));
    assert!(said.ends_with("function `f` has another signature"), "{said}");
    // Too few arguments.
    let said = refused(&options("early", |m, mine| {
        let mut out = m.clone();
        for f in mine {
            out.funcs[f.0 as usize].body.nodes.last_mut().expect("it has some").args.clear();
        }
        Ok(out)
    }));
    assert!(said.ends_with("a call of `relu`: 0 arguments where there are 1"), "{said}");
    // Nobody gives it.
    let options = Options::from(PlanOptions { pipeline: Some("early".to_owned()), ..PlanOptions::default() });
    let said = refused(&options);
    assert_eq!(said, "pass `once` of pipeline `early`: whoever embeds the compiler gives no such pass");
}
