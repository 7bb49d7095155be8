//! The crate against brute force: everything it says of an expression is compared with the values of the naive tree at
//! every point of a small grid around zero, negative values included.

use proptest::prelude::*;
use shape::{EvalError, Expr, Facts, Op, Pred, Step, Sym, Verdict, solve};

/// An expression as it was written, not normalised.
#[derive(Clone, Debug)]
enum Tree {
    Int(i64),
    Var(usize),
    Bin(Op, Box<Tree>, Box<Tree>),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
type Point = [i64; 3];

impl Tree {
    fn eval(&self, at: &Point) -> Result<i64, EvalError> {
        match self {
            Tree::Int(c) => Ok(*c),
            Tree::Var(v) => Ok(at[*v]),
            Tree::Bin(op, a, b) => op.apply(a.eval(at)?, b.eval(at)?),
        }
    }

    fn expr(&self) -> Expr {
        match self {
            Tree::Int(c) => Expr::int(*c),
            Tree::Var(v) => Expr::sym(Sym::new(NAMES[*v])),
            Tree::Bin(op, a, b) => Expr::of(*op, &a.expr(), &b.expr()),
        }
    }
}

fn env(at: &Point) -> impl Fn(Sym) -> Option<i64> {
    let at = *at;
    move |sym| NAMES.iter().position(|n| *n == sym.name()).map(|v| at[v])
}

fn points(reach: std::ops::RangeInclusive<i64>) -> impl Iterator<Item = Point> {
    let all = move || reach.clone();
    let two = all();
    all().flat_map(move |a| {
        let three = two.clone();
        two.clone().flat_map(move |b| three.clone().map(move |c| [a, b, c]))
    })
}

fn op() -> impl Strategy<Value = Op> {
    use Op::{Add, CeilDiv, FloorDiv, Max, Min, Mod, Mul, Sub};
    prop::sample::select(vec![Add, Add, Sub, Sub, Mul, FloorDiv, FloorDiv, CeilDiv, Mod, Min, Max])
}

fn tree(depth: u32) -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (-5i64..=9).prop_map(Tree::Int),
        (0..3usize).prop_map(Tree::Var),
        (0..3usize).prop_map(Tree::Var)
    ];
    leaf.prop_recursive(depth, 24, 2, |inner| {
        (op(), inner.clone(), inner).prop_map(|(op, a, b)| Tree::Bin(op, Box::new(a), Box::new(b)))
    })
}

/// Predicates of the kinds that programs state.
fn pred(depth: u32) -> impl Strategy<Value = Pred> {
    (0..6u8, tree(depth), tree(depth)).prop_map(|(kind, a, b)| {
        let (a, b) = (a.expr(), b.expr());
        match kind {
            0 | 1 => Pred::Le(a, b),
            2 => Pred::Lt(a, b),
            3 => Pred::Eq(a, b),
            4 => Pred::Ne(a, b),
            _ => Pred::Divides(a, b),
        }
    })
}

fn run(steps: &[Step], at: &Point) -> Result<i64, EvalError> {
    let mut values: Vec<i64> = Vec::new();
    for step in steps {
        values.push(match step {
            Step::Const(c) => *c,
            Step::Sym(sym) => env(at)(*sym).ok_or(EvalError::Unbound(*sym))?,
            Step::Bin(op, a, b) => op.apply(values[*a as usize], values[*b as usize])?,
        });
    }
    Ok(*values.last().unwrap())
}

/// 256 cases, or as many as the variable PROPTEST_CASES says, as in the soak tier.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_normal_form_has_the_value_of_the_tree(tree in tree(5)) {
        let expr = tree.expr();
        let steps = expr.steps();
        for at in points(-3..=4) {
            if let Ok(value) = tree.eval(&at) {
                prop_assert_eq!(expr.eval(&env(&at)), Ok(value), "{} at {:?}", expr, at);
                prop_assert_eq!(run(&steps, &at), Ok(value), "{:?} at {:?}", steps, at);
            }
        }
    }

    #[test]
    fn reading_what_was_written_is_the_identity(tree in tree(6)) {
        let expr = tree.expr();
        let text = expr.to_string();
        prop_assert_eq!(text.parse::<Expr>().map_err(|e| format!("{text}: {e}")), Ok(expr));
    }

    #[test]
    fn substitution_commutes_with_evaluation(tree in tree(4), by in tree(3)) {
        let (expr, by_expr) = (tree.expr(), by.expr());
        let replaced = expr.subst(&|sym| (sym.name() == "a").then(|| by_expr.clone()));
        // A remainder of remainders of products may be too large to be represented.
        prop_assume!(!replaced.is_poison());
        for at in points(-2..=3) {
            let Ok(a) = by.eval(&at) else { continue };
            if let Ok(value) = tree.eval(&[a, at[1], at[2]]) {
                prop_assert_eq!(replaced.eval(&env(&at)), Ok(value), "{} at {:?}", replaced, at);
            }
        }
    }

    #[test]
    fn solutions_solve(param in tree(3), arg in tree(3)) {
        let (param, arg, a) = (param.expr(), arg.expr(), Sym::new("a"));
        let Some(found) = solve(&param, &arg, a) else { return Ok(()) };
        for at in points(-3..=4) {
            let holds = found.requires.iter().all(|p| p.eval(&env(&at)) == Ok(true));
            let (true, Ok(value)) = (holds, found.value.eval(&env(&at))) else { continue };
            let solved = param.eval(&env(&[value, at[1], at[2]]));
            if let (Ok(left), Ok(right)) = (solved, arg.eval(&env(&at))) {
                prop_assert_eq!(left, right, "{} == {} at {:?}", param, arg, at);
            }
        }
    }
}

/// The tree of what a query was made from is gone, so that verdicts are compared with the values of normal forms.
fn check(given: &[Pred], query: &Pred, expr: &Expr) -> Result<(), TestCaseError> {
    let mut facts = Facts::new();
    given.iter().for_each(|p| facts.assume(p.clone()));
    let verdict = facts.prove(query);
    let (lo, hi) = facts.bounds(expr);
    let simple = facts.simplify(expr);
    let explained = facts.explain(query);
    for at in points(-4..=7) {
        if !given.iter().all(|p| p.eval(&env(&at)) == Ok(true)) {
            continue;
        }
        prop_assert!(!facts.is_contradictory(), "{given:?} hold at {at:?}");
        match query.eval(&env(&at)) {
            Ok(true) => {
                prop_assert!(verdict != Verdict::Refuted, "{given:?} |- {query} at {at:?}: {explained}")
            }
            Ok(false) => {
                prop_assert!(verdict != Verdict::Proved, "{given:?} |- {query} at {at:?}: {explained}")
            }
            Err(_) => {}
        }
        if let Ok(value) = expr.eval(&env(&at)) {
            prop_assert!(lo.is_none_or(|lo| lo <= value), "{given:?} |- {lo:?} <= {expr} at {at:?}");
            prop_assert!(hi.is_none_or(|hi| hi >= value), "{given:?} |- {hi:?} >= {expr} at {at:?}");
            prop_assert_eq!(
                simple.eval(&env(&at)),
                Ok(value),
                "{:?} |- {} = {} at {:?}",
                given,
                expr,
                simple,
                at
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_proved_from_any_facts_holds(
        given in prop::collection::vec(pred(2), 0..4), query in pred(3), expr in tree(4),
    ) {
        check(&given, &query, &expr.expr())?;
    }

    #[test]
    fn what_is_proved_about_dims_holds(
        least in 0i64..=2, given in prop::collection::vec(pred(1), 0..4), query in pred(3), expr in tree(4),
    ) {
        let dims = NAMES.iter().map(|n| Pred::Le(Expr::int(least), Expr::sym(Sym::new(n))));
        check(&dims.chain(given).collect::<Vec<_>>(), &query, &expr.expr())?;
    }

    #[test]
    fn what_is_proved_about_exact_quotients_holds(
        least in 0i64..=2, given in prop::collection::vec(pred(1), 0..3), query in pred(3), expr in tree(4),
    ) {
        // An exact quotient becomes a symbol of its own, whose range is read from that of the product.
        let dim = |i: usize| Expr::sym(Sym::new(NAMES[i]));
        let dims = (0..NAMES.len()).map(|i| Pred::Le(Expr::int(least), dim(i)));
        let exact = [Pred::Divides(dim(1), dim(0))];
        check(&exact.into_iter().chain(dims).chain(given).collect::<Vec<_>>(), &query, &expr.expr())?;
    }
}
