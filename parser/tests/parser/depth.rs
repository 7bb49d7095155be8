//! Long chains are read, printed, copied and dropped on the stack of a test's thread (2 MB); deep
//! nesting is refused in every form it can take.

use ir::ast::{Expr, ExprKind, StmtKind};
use ir::diag::Diagnostic;
use ir::source::SourceId;
use parser::{Line, parse, parse_repl, print, print_expr};

/// The expression that a line of the REPL is, if it is one.
fn parse_expr(text: &str) -> (Option<Expr>, Vec<Diagnostic>) {
    let (line, faults) = parse_repl(SourceId::default(), text);
    let Line::Stmts(mut stmts) = line else { return (None, faults) };
    let expr = stmts.pop().and_then(|s| if let StmtKind::Expr(e) = s.kind { Some(e) } else { None });
    (expr.filter(|_| stmts.is_empty()), faults)
}

fn expr(text: &str) -> Expr {
    let (expr, faults) = parse_expr(text);
    assert!(faults.is_empty(), "{:?}", &faults[..1]);
    expr.expect("an expression")
}

#[test]
fn a_chain_of_a_hundred_thousand_operators() {
    for (first, step) in
        [("x", " + x"), ("x", " * y - z @ w"), ("f(x)[0]", " && g(y).T <= -z"), ("a", " - (b)")]
    {
        let text = first.to_string() + &step.repeat(100_000);
        let tree = expr(&text);
        let copy = tree.clone();
        drop(tree);
        let printed = print_expr(&copy);
        let again = expr(&printed);
        assert_eq!(print_expr(&again), printed);
        assert_eq!(again.spine().1.len(), copy.spine().1.len());
    }
}

#[test]
fn a_chain_in_a_file() {
    let text = format!("fn f(x: f32) -> f32 {{ x{} }}", " + x".repeat(20_000));
    let (file, faults) = parse(SourceId::default(), &text);
    assert!(faults.is_empty());
    assert!(print(&file).len() > 80_000);
    assert!(parser::format(&text).is_ok());
}

#[test]
fn deep_nesting_is_refused_in_every_form() {
    let n = 100_000;
    let forms = [
        ("(", "x", ")"),
        ("[", "x", "]"),
        ("{ ", "x", " }"),
        ("f(", "x", ")"),
        ("x[", "x", "]"),
        ("", "x", "[0]"),
        ("", "x", "(0)"),
        ("", "x", ".a"),
        ("-", "x", ""),
        ("!", "x", ""),
        ("- -", "x", ""),
        ("sum(i in n) ", "x", ""),
        ("a * sum(i in n, j in m) ", "x", ""),
        ("|x| ", "x", ""),
        ("|x, y| ", "x", ""),
        ("|x: f32[n], y| ", "x", ""),
        ("|| ", "x", ""),
        ("if a { b } else ", "{ c }", ""),
        ("if ", "x", " { a }"),
        ("|x: exists k, j. ", "f32", "| x"),
        ("|x: A<B, ", "f32", ">| x"),
        ("|x: fn(A) -> ", "B", ""),
        ("|x: (A, ", "B", ")| x"),
        ("x[..", "x", "]"),
        ("x[0..1 by ", "x", "]"),
    ];
    for (before, middle, after) in forms {
        // Nested well within the limit: the form is a form (a type at the end of a lambda aside).
        let text = before.repeat(n) + middle + &after.repeat(n);
        let (_, faults) = parse_expr(&text);
        assert!(faults.iter().any(|f| f.code == "E0105" || f.code == "E0102"), "{before}..{after}");
        let small = before.repeat(20) + middle + &after.repeat(20);
        let (_, faults) = parse_expr(&small);
        assert!(faults.iter().all(|f| f.code != "E0105"), "{before}..{after}");
    }
    for (before, after) in
        [("exists k, j. ", ""), ("fn(A) -> ", ""), ("[", "; n]"), ("A<B, ", ">"), ("(A, ", ")")]
    {
        let make = |n: usize| format!("fn f(x: {}A{}) {{ x }}", before.repeat(n), after.repeat(n));
        assert!(
            parse(SourceId::default(), &make(n)).1.iter().any(|f| f.code == "E0105"),
            "{before}..{after}"
        );
        let (file, faults) = parse(SourceId::default(), &make(100));
        assert!(faults.is_empty(), "{before}..{after}: {:?}", faults[0]);
        assert!(parser::same_program(&file, &parse(SourceId::default(), &print(&file)).0));
    }
}

#[test]
fn what_is_accepted_can_be_printed_and_dropped() {
    for n in [100, 240, 490] {
        for (before, middle, after) in
            [("(", "x", ")"), ("{ ", "x", " }"), ("f(|x| { ", "x", " })"), ("if a { b } else ", "{ c }", "")]
        {
            let text = before.repeat(n) + middle + &after.repeat(n);
            let (tree, faults) = parse_expr(&text);
            if let Some(tree) = tree.filter(|_| faults.is_empty()) {
                let printed = print_expr(&tree.clone());
                assert!(parse_expr(&printed).1.is_empty());
            } else {
                assert!(n > 100, "{before}");
            }
        }
    }
}

#[test]
fn a_chain_keeps_precedence() {
    let tree = expr("a + b * c - d == e && !f || -g @ h.T > 0");
    let shown = |e: &Expr| print_expr(e);
    let ExprKind::Binary(op, left, right) = &tree.kind else { panic!("{tree:?}") };
    assert_eq!(
        (op.token(), shown(left).as_str(), shown(right).as_str()),
        ("||", "a + b * c - d == e && !f", "-g @ h.T > 0")
    );
    let ExprKind::Binary(op, left, _) = &left.kind else { panic!("{left:?}") };
    assert_eq!((op.token(), shown(left).as_str()), ("&&", "a + b * c - d == e"));
}
