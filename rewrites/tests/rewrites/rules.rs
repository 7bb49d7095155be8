//! Rules: types and conditions are proved first, direction is decided by cost, budgets end the growth.

use crate::program;

use crate::program::{Program, binary, broadcast, data, e, matmul, relu, same, silu, unary};
use ir::Module;
use rewrites::{Machine, Options, render, rewrite};
use shape::Pred;

fn options() -> Options {
    Options::new(Machine::reference())
}

fn prims() -> Vec<ir::loops::Prim> {
    let double = unary("double", |x| program::op(ir::Intrinsic::Add, vec![x.clone(), x]));
    vec![
        matmul(),
        broadcast(),
        binary("add", ir::Intrinsic::Add),
        binary("mul", ir::Intrinsic::Mul),
        relu(),
        silu(),
        double,
    ]
}

fn names(module: &Module, o: &Options) -> Vec<Vec<String>> {
    let (_, report) = rewrite(module, o);
    println!("{}", render(&report));
    let regimes = &report.functions[0].regimes;
    regimes.iter().map(|r| r.steps.iter().map(|s| format!("{} {}", s.ty, s.name)).collect()).collect()
}

fn associative(p: &mut Program) -> ir::RuleId {
    let dims = "m, k, n, p";
    let id = p.rule(
        "assoc",
        dims,
        &["m, k", "k, n", "n, p"],
        |b| {
            let ab = b.call("matmul", "m, k, n", &[0, 1]);
            b.call("matmul", "m, n, p", &[ab, 2])
        },
        |b| {
            let bc = b.call("matmul", "k, n, p", &[1, 2]);
            b.call("matmul", "m, k, p", &[0, bc])
        },
    );
    p.module.rules[id.0 as usize].both_ways = true;
    id
}

#[test]
fn an_equation_is_read_in_the_cheaper_direction() {
    let mut p = Program::new(prims());
    associative(&mut p);
    p.func("vector_last", "", &["200, 300", "300, 250", "250, 1"], |b| {
        let ab = b.call("matmul", "200, 300, 250", &[0, 1]);
        vec![b.call("matmul", "200, 250, 1", &[ab, 2])]
    });
    p.func("vector_first", "", &["1, 300", "300, 250", "250, 200"], |b| {
        let bc = b.call("matmul", "300, 250, 200", &[1, 2]);
        vec![b.call("matmul", "1, 300, 200", &[0, bc])]
    });
    let (out, report) = rewrite(&p.module, &options());
    let text = render(&report);
    let ty = |f: usize| report.functions[f].regimes[0].steps[0].ty.clone();
    assert_eq!((ty(0), ty(1)), ("f32[300, 1]".into(), "f32[1, 250]".into()), "{text}");
    // Small numbers, so that three factors stay exact.
    same(&p.module, &out, "vector_last", &[data(&[200, 300], 1), data(&[300, 250], 2), data(&[250, 1], 3)]);
    same(&p.module, &out, "vector_first", &[data(&[1, 300], 1), data(&[300, 250], 2), data(&[250, 200], 3)]);
}

#[test]
fn the_cheaper_direction_may_depend_on_the_dims() {
    let mut p = Program::new(prims());
    associative(&mut p);
    p.func("chain", "n", &["n, 256", "256, 16", "16, 256"], |b| {
        let bc = b.call("matmul", "256, 16, 256", &[1, 2]);
        vec![b.call("matmul", "n, 256, 256", &[0, bc])]
    });
    let plans = names(&p.module, &options());
    assert_eq!(plans.len(), 1, "two thin products beat one wide one at every n: {plans:?}");
    assert_eq!(plans[0][0], "f32[n, 16] matmul");
}

/// `add(x, x) => double(x)`, with a condition on its rows.
fn doubling(when: Option<&str>) -> Module {
    let mut p = Program::new(prims());
    let id = p.rule(
        "doubling",
        "m, n",
        &["m, n"],
        |b| b.call("add", "m, n", &[0, 0]),
        |b| b.call("double", "m, n", &[0]),
    );
    if let Some(limit) = when {
        p.when(id, Pred::Le(e("m"), e(limit)));
    }
    p.func("twice", "n", &["n, 4"], |b| vec![b.call("add", "n, 4", &[0, 0])]);
    p.module
}

#[test]
fn a_rule_fires_where_its_condition_is_proved() {
    assert_eq!(
        names(&doubling(None), &Options { force: vec!["doubling".into()], ..options() }),
        [["f32[n, 4] double"]]
    );
    let (_, report) = rewrite(&doubling(Some("-1")), &options());
    assert!(report.functions[0].rules.iter().all(|r| r.fired == 0));
    assert!(render(&report).contains("does not hold"), "{}", render(&report));
}

#[test]
fn an_undecided_condition_fires_only_where_it_holds() {
    let module = doubling(Some("8"));
    let o = Options { force: vec!["doubling".into()], ..options() };
    let (out, report) = rewrite(&module, &o);
    assert!(render(&report).contains("n <= 8 is not known here"), "{}", render(&report));
    // Without anything to gain the plans are alike, and the one that runs everywhere stays.
    for n in [1, 8, 9, 30] {
        same(&module, &out, "twice", &[data(&[n, 4], 7)]);
    }
    // Where the operator is dear, the condition becomes a regime.
    let mut p = Program::new(prims());
    let id = p.rule(
        "cheat",
        "m, n",
        &["m, n"],
        |b| b.call("matmul", "m, n, n", &[0, 0]),
        |b| b.call("double", "m, n", &[0]),
    );
    p.when(id, Pred::Eq(e("m"), e("n")));
    p.when(id, Pred::Le(e("n"), e("32")));
    p.func("square", "n", &["n, n"], |b| vec![b.call("matmul", "n, n, n", &[0, 0])]);
    let plans = names(&p.module, &options());
    assert_eq!(plans, [["f32[n, n] double"], ["f32[n, n] matmul"]]);
}

#[test]
fn dims_that_are_not_proved_equal_do_not_match() {
    let mut p = Program::new(prims());
    p.rule(
        "square_only",
        "n",
        &["n, n"],
        |b| b.call("relu", "n, n", &[0]),
        |b| b.call("double", "n, n", &[0]),
    );
    p.func("wide", "n, m", &["n, m"], |b| vec![b.call("relu", "n, m", &[0])]);
    let (_, report) = rewrite(&p.module, &options());
    assert!(report.functions[0].rules.iter().all(|r| r.fired == 0));
    assert!(render(&report).contains("is not proved"), "{}", render(&report));
}

#[test]
fn a_constant_parameter_asks_for_a_constant() {
    let mut module = doubling(None);
    module.rules[0].constant = vec![true];
    let (_, report) = rewrite(&module, &options());
    assert!(render(&report).contains("must be constant"), "{}", render(&report));
}

#[test]
fn a_rule_that_makes_a_value_equal_to_its_own_part_gives_no_cycle() {
    let mut p = Program::new(prims());
    // relu(relu(x)) = relu(x): one class that reads itself.
    p.rule(
        "idempotent",
        "m, n",
        &["m, n"],
        |b| {
            let y = b.call("relu", "m, n", &[0]);
            b.call("relu", "m, n", &[y])
        },
        |b| b.call("relu", "m, n", &[0]),
    );
    p.func("f", "n", &["n, 4"], |b| {
        let y = b.call("relu", "n, 4", &[0]);
        let y = b.call("relu", "n, 4", &[y]);
        vec![b.call("relu", "n, 4", &[y])]
    });
    let (out, report) = rewrite(&p.module, &options());
    assert_eq!(report.functions[0].regimes[0].steps.len(), 1, "{}", render(&report));
    same(&p.module, &out, "f", &[data(&[3, 4], 1)]);
}

#[test]
fn growth_ends_with_a_note() {
    let mut p = Program::new(prims());
    // x + y => (x + y) under a relu that relu undoes: grows for ever.
    p.rule(
        "grow",
        "m, n",
        &["m, n"],
        |b| b.call("relu", "m, n", &[0]),
        |b| {
            let y = b.call("add", "m, n", &[0, 0]);
            b.call("relu", "m, n", &[y])
        },
    );
    p.func("f", "n", &["n, 4"], |b| vec![b.call("relu", "n, 4", &[0])]);
    let mut o = options();
    o.budget.iterations = 5;
    let (_, report) = rewrite(&p.module, &o);
    let f = &report.functions[0];
    assert!(!f.saturated && f.notes.iter().any(|n| n.contains("5 iterations")), "{}", render(&report));
    o.budget.iterations = 1000;
    o.budget.nodes = 60;
    let (_, report) = rewrite(&p.module, &o);
    assert!(report.functions[0].notes.iter().any(|n| n.contains("60 nodes")), "{}", render(&report));
    // What a search compares is bounded too, whether it leads to matches or not.
    o.budget.steps = 3;
    let (_, report) = rewrite(&p.module, &o);
    let f = &report.functions[0];
    assert!(
        !f.saturated && f.notes.iter().any(|n| n.contains("more than 3 operations")),
        "{}",
        render(&report)
    );
}
