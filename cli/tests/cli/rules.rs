//! `tenon rules --check`: right rules pass, wrong ones are refused with a case, conditions are tried.

use crate::program::run;
use serde_json::{Value, json};

/// A function whose operators the rules below speak of.
const USE: &str =
    "fn f<n>(x: f32[n, n], y: f32[n]) -> f32[n, n] { relu(relu(transpose(x @ x) - x)) + sum(y) }\n";

fn verdicts(rules: &str) -> (Option<i32>, Vec<Value>) {
    let said = run(&[("f.tn", format!("{rules}{USE}"))], &["rules", "f.tn", "--check", "--json"]);
    let answer: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    let list = answer["rules"].as_array().expect("a list").clone();
    (said.exit, list)
}

#[test]
fn right_rules_pass() {
    let (exit, list) = verdicts(concat!(
        "rule once<n>(x: f32[n]) { relu(relu(x)) => relu(x) }\n",
        "rule turned<n, m, k>(a: f32[n, m], b: f32[m, k]) { transpose(a @ b) => transpose(b) @ transpose(a) }\n",
        "rule totals<..s>(x: f32[..s], y: f32[..s]) { sum(x + y) => sum(x) + sum(y) }\n",
        "rule assoc<n>(a: f32[n, n], b: f32[n, n], c: f32[n, n]) { (a @ b) @ c <=> a @ (b @ c) }\n",
        "rule nothing<n>(x: f32[n]) { x - x => zeros[n] }\n",
    ));
    assert_eq!(exit, Some(0));
    for r in &list {
        assert_eq!((&r["status"], &r["proven"]), (&json!("proven"), &json!("of the reals")), "{r}");
        assert!(r["cases"].as_u64() >= Some(30), "{r}");
    }
    assert_eq!(list.len(), 5, "{list:?}");
    // Equality is that of the reals; where it is no more than that, it is said.
    assert!(list[0]["beyond"].is_null() && list[4]["beyond"].is_object(), "{list:?}");
}

#[test]
fn every_value_of_a_rule_is_compared() {
    let (exit, list) = verdicts(concat!(
        "rule both<n>(x: f32[n]) { (relu(x), relu(-x)) => { let a = abs(x); ((a + x) / 2.0, (a - x) / 2.0) } }\n",
        "rule turned<n>(x: f32[n]) { (relu(x), relu(-x)) => { let a = abs(x); ((a - x) / 2.0, (a + x) / 2.0) } }\n",
        "rule last<n>(x: f32[n]) { (relu(x), sum(x)) => (relu(x), sum(abs(x))) }\n",
    ));
    assert_eq!(exit, Some(1));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!(said, ["tested", "refused", "refused"], "{list:?}");
    let text = list[2]["counter_example"]["text"].as_str().expect("a case");
    assert!(text.contains("result 1: "), "{text}");
}

#[test]
fn a_wrong_rule_is_refused_with_a_case_that_shows_it() {
    // Wrong for negative numbers, but for two elements, for the ends of types, for halves, beyond 2^53.
    let (exit, list) = verdicts(concat!(
        "rule sign<n>(x: f32[n]) { relu(relu(x)) => abs(x) }\n",
        "rule pair<n>(x: f32[n]) when n >= 1 { sum(x) => x[0] + x[n - 1] }\n",
        "rule ends<n>(x: i16[n]) { min(x, 1000) => x }\n",
        "rule least<n>(x: i8[n]) { abs(x) => max(x, 0 - max(x, -127)) }\n",
        "rule wraps<n>(x: i32[n]) { x * 65536 / 65536 => x }\n",
        "rule halves<n>(x: f32[n]) { floor(x + 0.5) => round(x) }\n",
        "rule wide<n>(x: i64[n]) { min(x, 9223372036854775806) => x }\n",
    ));
    assert_eq!(exit, Some(1));
    for r in &list {
        assert_eq!(r["status"], "refused", "{r}");
        let text = r["counter_example"]["text"].as_str().expect("a case");
        assert!(text.contains("the left side gives"), "{text}");
    }
    // The smallest case comes first.
    assert_eq!(list[1]["counter_example"]["dims"]["n"], 1);
    assert_eq!(list.len(), 7);
}

#[test]
fn conditions_that_few_dims_satisfy_are_solved_and_long_dims_are_tried() {
    // The smallest cases with elements are m = 11 and n = 77; n = 5 and m = 25; 7 * 8 * 9 * 10; and a million.
    let (exit, list) = verdicts(concat!(
        "rule multiple<n, m>(x: f32[n, m]) when n == 7*m, m % 11 == 0 { relu(x) => abs(x) }\n",
        "rule square<n, m>(x: f32[n, m]) when n * n == m, n >= 5 { relu(x) => abs(x) }\n",
        "rule factors<a, b, c, d>(x: f32[a, b, c, d]) when a * b * c * d == 5040 { relu(x) => abs(x) }\n",
        "rule large<n>(x: f32[n]) when n >= 1000003 { relu(x) => abs(x) }\n",
        "rule long<n>(x: f32[n], y: f32[n]) { sum(x * y) => sum(x * y) + f32(n / 65) }\n",
        "rule longer<n, m>(x: f32[n, m]) { sum(x) => sum(x) + f32(m / 4097) }\n",
        "rule named<n>(x: f32[n]) { sum(x) => sum(x) + f32(n / 9001) }\n",
        "rule blocks<n>(x: f32[n]) when n % 64 == 0 { sum(x) => sum(x) + f32(n / 128) }\n",
        "rule long_multiple<n, m>(x: f32[n], y: f32[m]) when n == 7*m { sum(x) => sum(x) + f32(m / 65) }\n",
        "rule wraps<n>(x: i8[n]) { sum(i32(x)) => i32(sum(i16(x))) }\n",
    ));
    assert_eq!(exit, Some(1));
    assert!(other_than("refused", &list).is_empty(), "{list:#?}");
    assert_eq!(list[0]["counter_example"]["dims"], json!({"m": 11, "n": 77}));
    assert_eq!(list[1]["counter_example"]["dims"], json!({"m": 25, "n": 5}));
    assert_eq!(list[4]["counter_example"]["dims"], json!({"n": 65}));
    assert_eq!(list[7]["counter_example"]["dims"], json!({"n": 128}));
    assert_eq!(list[8]["counter_example"]["dims"], json!({"m": 65, "n": 455}));
}

/// A primitive of a matrix or a vector that changes some elements, and the rule that leaves it out.
fn left_out(name: &str, dims: &str, each: &str, dtype: &str, some: &str) -> String {
    let (at, x) = (each.replace(" in m", "").replace(" in n", ""), format!("{dtype}[{dims}]"));
    format!(
        "prim p_{name}<{dims}>(x: {x}) -> y: {x} {{\n    for {each} {{ y[{at}] = if {some} {{ x[{at}] + 1 }} else {{ x[{at}] }} }}\n}}\n\
         rule {name}<{dims}>(x: {x}) {{ p_{name}(x) => x }}\n"
    )
}

#[test]
fn several_dims_are_tried_at_the_numbers_of_the_primitives_together() {
    let matrix = |name, some| left_out(name, "m, n", "i in m, j in n", "f32", some);
    let (exit, list) = verdicts(
        &[
            matrix("corner", "i >= 40 && j >= 40"),
            matrix("one", "i == 37 && j == 53"),
            matrix("diagonal", "i + j == 20 && m == 11"),
            matrix("blocks", "i / 16 == 3 && j / 16 == 3"),
            matrix("short", "m == 13 && n == 9"),
        ]
        .concat(),
    );
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!(list[1]["counter_example"]["dims"], json!({"m": 38, "n": 54}));
    assert_eq!((exit, list.len()), (Some(1), 5));
}

#[test]
fn a_long_dim_is_tried_at_the_numbers_of_the_primitives() {
    let vector = |name, some| left_out(name, "n", "i in n", "f32", some);
    let rules = [vector("far", "i >= 5000"), vector("further", "i == 123456"), vector("dim", "n == 50000")];
    let (exit, list) = verdicts(&rules.concat());
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!(list[0]["counter_example"]["dims"], json!({"n": 5001}));
    assert_eq!((exit, list.len()), (Some(1), 3));
}

#[test]
fn values_are_tried_that_the_primitives_name_and_what_lies_between() {
    let ints = |name, some| left_out(name, "n", "i in n", "i32", some);
    let floats = |name, some| left_out(name, "n", "i in n", "f32", some);
    let (exit, list) = verdicts(
        &[
            ints("rest", "x[i] % 1000 == 777"),
            ints("square", "x[i] * x[i] == 1764"),
            ints("least", "x[i] < -12345"),
            floats("window", "x[i] > 50.0 && x[i] < 51.0"),
            floats("narrow", "x[i] > 20.0 && x[i] < 20.125"),
            floats("negative", "-x[i] > 1000.5 && -x[i] < 1000.75"),
            floats("whole", "x[i] * x[i] == 1764.0"),
        ]
        .concat(),
    );
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!((exit, list.len()), (Some(1), 7));
}

#[test]
fn where_only_large_cases_can_be_run_some_are() {
    // Three million elements, equal dims that no number of the rule names, 22 million products.
    let (exit, list) = verdicts(concat!(
        "rule far<n>(x: f32[n]) when n >= 3000001 { relu(x) => abs(x) }\n",
        "rule equal<a, b, c>(x: f32[a, b, c]) when a + b + c == 150, a == b, b == c { relu(x) => abs(x) }\n",
        "rule product<m, k, n>(a: f32[m, k], b: f32[k, n]) when m >= 280, k >= 280, n >= 280 { (a @ b) * 2 => a @ b }\n",
        "rule right<n>(x: f32[n]) when n >= 3000001 { x * 2 => x * 1.9999999 }\n",
        "rule never<n>(x: f32[n]) when n >= 1000000000 { relu(x) => abs(x) }\n",
    ));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!(
        (exit, &said[..]),
        (Some(1), &["refused", "refused", "refused", "tested", "trusted"][..]),
        "{list:#?}"
    );
    assert_eq!(list[1]["counter_example"]["dims"], json!({"a": 50, "b": 50, "c": 50}));
    assert_eq!(list[2]["counter_example"]["dims"], json!({"k": 280, "m": 280, "n": 280}));
}

#[test]
fn a_function_of_a_library_is_called_where_it_is_to_see_what_it_does() {
    let externs = concat!(
        "extern \"libc.so.6\" copy<n>(x: f32[n]) -> y: f32[n] = memcpy(y, x, c_long(4 * n))\n",
        "extern \"libc.so.6\" half<n>(x: f32[n]) -> y: f32[n] = memcpy(y, x, c_long(4 * (n / 2)))\n",
        "extern \"libc.so.6\" first<n>(x: f32[n], y: f32[n]) -> z: f32[n] = memcpy(z, x, c_long(4 * n))\n",
        "extern \"libc.so.6\" fails<n>(x: f32[n]) -> y: f32[n] = memcmp(y, x, c_long(4 * n)) == 0\n",
        "extern \"libtenon-nowhere.so.1\" nowhere<n>(x: f32[n]) -> y: f32[n] = f(i64(n), x, y)\n",
    );
    let rules = concat!(
        "rule right<n>(x: f32[n]) { x * 1.0 => copy(x) }\n",
        "rule inside<n>(x: f32[n]) { exp(x) + x => exp(x) + copy(x) }\n",
        "rule wrong<n>(x: f32[n]) { abs(x) => copy(x) }\n",
        "rule cut<n>(x: f32[n]) when n >= 3 { x * 1.0 => half(x) }\n",
        "rule swapped<n>(x: f32[n], y: f32[n]) { x + y * 0.0 => first(y, x) }\n",
        "rule failing<n>(x: f32[n]) { x * 3.0 => fails(x) }\n",
        "rule missing<n>(x: f32[n]) { abs(x) => nowhere(x) }\n",
    );
    let (exit, list) = verdicts(&[externs, rules].concat());
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    let want = ["tested", "tested", "refused", "refused", "refused", "refused", "trusted"];
    assert_eq!((exit, &said[..]), (Some(1), &want[..]), "{list:#?}");
    assert!(list[0]["cases"].as_u64() >= Some(20), "{}", list[0]);
    assert_eq!(list[3]["counter_example"]["dims"], json!({"n": 3}));
    let text = list[5]["counter_example"]["text"].as_str().expect("a case");
    assert!(text.contains("memcmp of libc.so.6 gave"), "{text}");
    // Its plan does not run either.
    let program = format!("{externs}{rules}fn f<n>(x: f32[n]) -> f32[n] {{ abs(x) }}\n");
    let said = run(&[("f.tn", program)], &["run", "f.tn", "-i", "x=randn[4]", "--force", "copy"]);
    assert_eq!(said.exit, Some(1), "{}", said.stdout);
    assert!(said.stderr.contains("rule `wrong` does not hold"), "{}", said.stderr);
}

#[test]
fn cases_of_empty_tensors_alone_say_nothing() {
    let (exit, list) =
        verdicts("rule none<n, m>(x: f32[n, m]) when n == 30000001 * m { relu(x) => abs(x) }\n");
    assert_eq!((exit, &list[0]["status"]), (Some(0), &json!("trusted")), "{list:?}");
    assert!(list[0]["why"].as_str().is_some_and(|why| why.contains("empty")), "{list:?}");
    // Where there is nothing else, they are all there is to say.
    let (exit, list) = verdicts("rule zero<m>(x: f32[0, m]) { sum(x, axis=0) => zeros[m] }\n");
    assert_eq!((exit, list[0]["cases"].as_u64() > Some(0)), (Some(0), true), "{list:?}");
}

#[test]
fn a_proof_without_a_case_says_so() {
    let rule = "rule both<n>(x: f32[n], i: i64) { x[i..][0..1] => x[i..i+1] }\n";
    let said = run(&[("f.tn", format!("{rule}{USE}"))], &["rules", "f.tn", "--check"]);
    let line = said.stdout.lines().find(|l| l.starts_with("both")).expect("the rule").trim_end();
    assert!(!line.contains(" 0 cases") && !line.ends_with(" of"), "{line}");
}

#[test]
fn a_rule_of_f16_keeps_to_its_range_where_the_program_does() {
    let (exit, list) = verdicts(concat!(
        "rule late<T: f16, m, k, n>(x: T[m, k], w: T[k, n], a: T) { (x * a) @ w => (x @ w) * a }\n",
        "rule lost<T: f16, n>(x: T[n], a: T, b: T) { x * a * b => x * (a * b) }\n",
        "rule apart<T: f16, n>(x: T[n], y: T[n]) { sum(x + y) => sum(x) + sum(y) }\n",
        "rule taken<T: f16, n>(x: T[n], y: T[n], a: T[n]) { x * a - y * a => (x - y) * a }\n",
        "rule wide<T: f32 | bf16, m, k, n>(x: T[m, k], w: T[k, n], a: T) { (x * a) @ w => (x @ w) * a }\n",
        "rule same<T: f16, n>(x: T[n], y: T[n]) { x - (-y) => x + y }\n",
    ));
    assert_eq!(exit, Some(1));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!(said, ["refused", "refused", "refused", "refused", "proven", "proven"], "{list:?}");
    for r in &list[..4] {
        let text = r["counter_example"]["text"].as_str().expect("a case");
        assert!(text.contains("of f16 on the way"), "{text}");
    }
}

#[test]
fn digits_and_range_are_kept_where_the_program_keeps_them() {
    let (exit, list) = verdicts(concat!(
        "rule plain<T: f32 | bf16 | f64, m, n>(x: T[m, n]) when n >= 1 { softmax(x, axis=-1) => exp(x) / sum(exp(x), axis=-1, keepdims=true) }\n",
        "rule apart<n>(x: f32[n], y: f32[n]) { exp(x + y) => exp(x) * exp(y) }\n",
        "rule swish<n>(x: f32[n]) { x * sigmoid(x) => x * exp(x) / (1.0 + exp(x)) }\n",
        "rule logs<n>(x: f32[n]) { log_softmax(x) => log(softmax(x)) }\n",
        "rule shifted<n>(x: f32[n]) { log(sum(exp(x - 30.0))) => log(sum(exp(x))) - 30.0 }\n",
        "rule halves<n>(x: f16[n]) { f16(f32(x) * f32(x) / 1024.0) => x * x / 1024.0 }\n",
        "rule below<n>(x: f32[n]) { asinh(x) => log(x + sqrt(x * x + 1.0)) }\n",
        "rule squares<n, m>(x: f32[n, m]) { variance(x, axis=1) => mean(x * x, axis=1) - mean(x, axis=1) * mean(x, axis=1) }\n",
        "rule added<n>(x: bf16[n], y: bf16[n]) { exp(x) * exp(y) => exp(x + y) }\n",
        "rule kept<T: f32 | bf16 | f64, m, n>(x: T[m, n]) when n >= 1 { softmax(x, axis=-1) => exp(x - max(x, axis=-1, keepdims=true)) / sum(exp(x - max(x, axis=-1, keepdims=true)), axis=-1, keepdims=true) }\n",
    ));
    assert_eq!(exit, Some(1));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!(said[..9], ["refused"; 9], "{list:#?}");
    assert_eq!(said[9..], ["proven"], "{list:#?}");
}

#[test]
fn integers_lose_nothing_in_floats_or_narrow_sums() {
    let (exit, list) = verdicts(concat!(
        "rule halves<n>(x: i8[n], y: i8[n]) { i32(x) * i32(y) => i32(f16(x) * f16(y)) }\n",
        "rule singles<n>(x: i8[n], y: i8[n]) { i32(x) * i32(y) => i32(f32(x) * f32(y)) }\n",
        "rule words<n>(x: i8[n], y: i8[n]) { sum(i64(x) * i64(y)) => i64(sum(i32(x) * i32(y))) }\n",
        "rule wide<n>(x: i8[n]) { sum(i64(x)) => sum(i64(i32(x))) }\n",
    ));
    assert_eq!(exit, Some(1));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!(said, ["refused", "tested", "refused", "tested"], "{list:#?}");
}

#[test]
fn a_rule_may_name_a_function_that_nothing_else_calls() {
    let (exit, list) = verdicts(
        "rule sign<m, n, d>(q: f32[m, 2, d], k: f32[n, 2, d], v: f32[n, 2, d]) { -attention(q, k, v) => attention(q, k, -v) }\n",
    );
    assert_eq!((exit, list[0]["status"].as_str()), (Some(0), Some("tested")), "{list:#?}");
}

#[test]
fn a_condition_is_needed_where_a_case_that_it_excludes_fails() {
    let (exit, list) = verdicts(concat!(
        "rule one<n>(x: f32[n]) when n == 1 { sum(x) => x[0] }\n",
        "rule idle<n>(x: f32[n]) when n >= 5 { relu(x) => max(x, 0.0) }\n",
    ));
    assert_eq!(exit, Some(0));
    assert!(list[0]["conditions"][0]["without"].is_object(), "{}", list[0]);
    assert!(list[1]["conditions"][0]["without"].is_null(), "{}", list[1]);
}

#[test]
fn where_neither_side_has_a_value_a_proof_decides() {
    let (exit, list) = verdicts(concat!(
        "rule proven<n>(x: f32[n], y: f32[n]) { 1.0 / (x - y) => -1.0 / (y - x) }\n",
        "rule least<n>(x: f32[n], y: f32[n]) { select(x < y, x, -1.0 / f32(0)) => select(x < y, x, f32(0) / f32(0)) }\n",
        "rule logarithm<n>(x: f32[n]) { log(abs(x)) => log(x * x / abs(x)) }\n",
        "rule one_side<n>(x: f32[n]) { abs(x) => x * x / abs(x) }\n",
    ));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!((exit, &said[..]), (Some(1), &["proven", "refused", "refused", "refused"][..]), "{list:#?}");
}

#[test]
fn rounded_literals_excuse_what_is_made_of_their_rounding() {
    let (exit, list) = verdicts(concat!(
        // 1 + tanh cancels far below 0, which makes much of the digits of 0.79788 that bf16 has not.
        "rule gelu<n>(x: bf16[n]) { x * 0.5 * (1.0 + tanh((x + x * 0.044715 * x * x) * 0.7978845608028654)) => gelu_tanh(x) }\n",
        "rule other<n>(x: bf16[n]) { x * 0.5 * (1.0 + tanh((x + x * 0.044715 * x * x) * 0.75)) => gelu_tanh(x) }\n",
        "rule digits<n>(x: bf16[n]) { x * 0.3 => x * 0.304 }\n",
        "rule small<n>(x: bf16[n]) { sigmoid(x) * 0.00001 => sigmoid(x) * 0.00002 }\n",
    ));
    let said: Vec<&str> = list.iter().filter_map(|r| r["status"].as_str()).collect();
    assert_eq!((exit, &said[..]), (Some(1), &["tested", "refused", "refused", "refused"][..]), "{list:#?}");
}

/// The names of those that have another status, each with its case; what is proven was tested too.
fn other_than(status: &str, list: &[Value]) -> Vec<String> {
    let is = |r: &&Value| r["status"] == status || status == "tested" && r["status"] == "proven";
    let others = list.iter().filter(|r| !is(r));
    others.map(|r| format!("{}: {}", r["name"], r["counter_example"]["text"])).collect()
}

#[test]
fn what_holds_for_the_reals_is_not_refused() {
    // Associativity, cancellation, what leaves the range of a type, literals of few digits, casts that lose nothing.
    let (exit, list) = verdicts(concat!(
        "rule a01<n>(x: f32[n], y: f32[n]) { x + y => y + x }\n",
        "rule a02<n>(x: f32[n], y: f32[n], z: f32[n]) { (x + y) + z <=> x + (y + z) }\n",
        "rule a03<n>(a: f32[n, n], b: f32[n, n], c: f32[n, n]) { (a @ b) @ c <=> a @ (b @ c) }\n",
        "rule a04<n, m, k>(a: f64[n, m], b: f64[m, k], c: f64[m, k]) { a @ (b + c) => a @ b + a @ c }\n",
        "rule a05<n>(x: f32[n], y: f32[n]) { exp(x) * exp(y) => exp(x + y) }\n",
        "rule a06<n>(x: f32[n]) { relu(relu(x)) => relu(x) }\n",
        "rule a08<n>(x: f32[n]) { x * sigmoid(x) => silu(x) }\n",
        "rule a09<n>(x: f32[n]) { x / (1.0 + exp(-x)) => silu(x) }\n",
        "rule a10<n>(x: f32[n]) { 0.5 * x * (1.0 + erf(x * 0.70710678)) => gelu(x) }\n",
        "rule a11<n>(x: f32[n]) { sum(3.5 * x) => 3.5 * sum(x) }\n",
        "rule a12<n, m>(x: f32[n, m]) { softmax(x + 1.0, axis=-1) => softmax(x, axis=-1) }\n",
        "rule a14<n>(x: f64[n], y: f64[n]) { (x + y) * (x - y) => x * x - y * y }\n",
        "rule a15<n>(x: f32[n]) { sqrt(x * x) => abs(x) }\n",
        "rule a16<n>(x: f32[n]) { exp(x) => exp2(x * 1.442695) }\n",
        "rule a17<n>(x: f32[n]) { log(exp(x)) => x }\n",
        "rule a18<n>(x: f32[n]) { 1.0 / (1.0 / x) => x }\n",
        "rule a19<n>(x: f16[n]) { cast[f16](cast[f32](x)) => x }\n",
        "rule a20<n>(x: i32[n]) { cast[i32](cast[f64](x)) => x }\n",
        "rule a21<n>(x: i16[n]) { cast[i16](cast[f32](x)) => x }\n",
        "rule a22<n>(x: bf16[n], y: bf16[n]) { sum(x + y) => sum(x) + sum(y) }\n",
        "rule a23<n>(x: bf16[n], y: bf16[n], z: bf16[n]) { (x + y) * z => x * z + y * z }\n",
        "rule a24<n>(x: i32[n]) { x / 2 => shr(x, 1) }\n",
        "rule a25(x: f32, y: f32) { x + y => y + x }\n",
        "rule a26<n>(x: f32[n]) { tanh(x) => 2.0 * sigmoid(2.0 * x) - 1.0 }\n",
        "rule a28<n>(x: f64[n]) { sin(x) => sin(x + 6.283185307179586) }\n",
        "rule a29<n, m>(x: f32[n, m]) { sum(sum(x, axis=0)) => sum(x) }\n",
        "rule a31<n>(x: f32[n]) { abs(x) * sign(x) => x }\n",
        "rule a32<n>(x: f64[n], y: f64[n], z: f64[n]) { (x + y) + z <=> x + (y + z) }\n",
        "rule a33<n>(x: f64[n]) { (x + 1.0) - 1.0 => x }\n",
    ));
    assert_eq!(other_than("tested", &list), Vec::<String>::new());
    assert_eq!(exit, Some(0));
    assert_eq!(list.len(), 29);
}

#[test]
fn digits_that_a_program_converts_for_are_not_given_away() {
    let (exit, list) = verdicts(concat!(
        "rule b01<n>(x: bf16[n], y: bf16[n]) { f32(x) * f32(y) => f32(x * y) }\n",
        "rule b02<n>(x: bf16[n], y: bf16[n], z: bf16[n]) { bf16(f32(x) * f32(y) + f32(z)) => x * y + z }\n",
        "rule b03<..s>(x: bf16[..s]) { softmax(f32(x), axis=-1) => f32(softmax(x, axis=-1)) }\n",
        "rule b04<m, k, n>(x: bf16[m, k], y: bf16[k, n]) { matmul_wide(x, y) => f32(x @ y) }\n",
        "rule b05<m, k, n>(x: f32[m, k], y: f32[k, n]) { f64(x) @ f64(y) => f64(x @ y) }\n",
        "rule b06<n>(x: f16[n]) { sqrt(f32(x)) => f32(sqrt(x)) }\n",
    ));
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!(exit, Some(1));
    // The very same numbers, and what a tolerance says.
    let (exit, list) = verdicts(concat!(
        "rule a01<n>(x: bf16[n], y: bf16[n]) { bf16(f32(x) * f32(y)) => x * y }\n",
        "rule a02<..s>(x: bf16[..s]) { bf16(softmax(f32(x), axis=-1)) => softmax(x, axis=-1) }\n",
        "rule a03<n>(x: f16[n]) { abs(f32(x)) => f32(abs(x)) }\n",
        "#[tolerance(0.01)]\nrule a04<n>(x: bf16[n], y: bf16[n]) { f32(x) * f32(y) => f32(x * y) }\n",
    ));
    assert_eq!(other_than("tested", &list), Vec::<String>::new());
    assert_eq!(exit, Some(0));
}

#[test]
fn a_comparison_does_not_call_given_digits_rounding() {
    let text = "rule d<n>(x: bf16[n], y: bf16[n], z: bf16[n]) { bf16(f32(x) * f32(y) + f32(z)) => x * y + z }\n\
                fn f<n>(x: bf16[n], y: bf16[n], z: bf16[n]) -> bf16[n] { bf16(f32(x) * f32(y) + f32(z)) }\n\
                fn t<n>(s: f32[n]) -> bf16[n] { let x = bf16(s * 1.0078125)\n f(x, x, bf16(s * 0.0 - 1.015625)) }\n";
    let said = run(&[("f.tn", text.to_owned())], &["run", "f.tn", "-e", "t", "-i", "s=ones[1]", "--compare"]);
    assert_eq!(said.codes(), ["E0609"], "{}{}", said.stdout, said.stderr);
}

#[test]
fn lengths_that_a_rule_computes_are_tried() {
    let (exit, list) = verdicts(concat!(
        "rule b01<n>(x: f32[n]) { sum(x) => sum(x[0..min(n, 60 * 90 + 17)]) }\n",
        "rule b02<n>(x: f32[n]) { sum(x) => sum(x[0..min(n, 100000)]) }\n",
    ));
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!(exit, Some(1));
}

#[test]
fn a_side_that_runs_without_end_is_given_up() {
    let (exit, list) = verdicts(concat!(
        "prim circles<n>(x: f32[n]) -> y: f32[n] {\n    for i in n {\n        var a = x[i]\n",
        "        while a < 200.0 { a = a * 1.0 }\n        y[i] = a\n    }\n}\n",
        "rule a01<n>(x: f32[n]) { circles(x) => x }\n",
    ));
    assert_eq!(list[0]["status"], "trusted");
    assert_eq!(exit, Some(0));
}

#[test]
fn roundings_clamps_wraps_and_corners_are_found() {
    // Casts round; large and small numbers, integers about the root of their range, what the rule names itself;
    // scalars.
    let (exit, list) = verdicts(concat!(
        "rule a01<n>(x: f64[n]) { cast[f64](cast[f32](x)) => x }\n",
        "rule a02<n>(x: f16[n]) { cast[f16](cast[bf16](x)) => x }\n",
        "rule a03<n>(x: f64[n]) { x * 1.0000001 => x }\n",
        "rule a04<n>(x: f32[n]) { cast[f32](cast[f16](x)) => x }\n",
        "rule a05<n>(x: i32[n]) { cast[i32](cast[f32](x)) => x }\n",
        "rule a06<n>(x: f32[n]) { min(x, 100.0) => x }\n",
        "rule a07<n>(x: f32[n]) { max(x, -1000.0) => x }\n",
        "rule a08<n>(x: f32[n]) { clip(x, -1e10, 1e10) => x }\n",
        "rule a09<n>(x: f32[n]) { min(x, 1e30) => x }\n",
        "rule a10<n>(x: f16[n]) { min(x, 1000.0) => x }\n",
        "rule a11<n>(x: f64[n]) { min(x, 1e300) => x }\n",
        "rule a12<n>(x: f32[n]) { max(x, 1e-12) => max(x, 0.0) }\n",
        "rule a13<n>(x: f32[n]) { exp(min(x, 80.0)) => exp(x) }\n",
        "rule a14<n>(x: i16[n]) { abs(x * x) => x * x }\n",
        "rule a15<n>(x: i8[n]) { abs(x * x) => x * x }\n",
        "rule a16<n>(x: i64[n]) { abs(x * x) => x * x }\n",
        "rule a17<n>(x: f32[n]) { select(x == 7.0, 1.0, x) => x }\n",
        "rule a18<n>(x: i32[n]) { select(x == 100, 1, x) => x }\n",
        "rule b2(x: u8, y: u8) { x * y / y => x }\n",
        "rule b3(x: f32) { floor(x + 0.5) => round(x) }\n",
        "rule b8(x: u8) { min(x, 200) => x }\n",
        "rule b9(x: f64) { cast[f64](cast[f32](x)) => x }\n",
        "rule c2<n>(x: f32[n]) { exp(log(x)) => x }\n",
        "rule c3<n>(x: f32[n]) { x / x => ones[n] }\n",
        "rule c4<n>(x: f32[n]) { gelu(x) => gelu_tanh(x) }\n",
        "rule c5<n, m>(x: f32[n, m]) { softmax(softmax(x, axis=-1), axis=-1) => softmax(x, axis=-1) }\n",
        "rule c6<n>(x: f32[n]) { tanh(x) => x / (1.0 + abs(x)) }\n",
        "rule c7<n>(x: i32[n]) { x + 1 > x => full[n](true) }\n",
    ));
    assert_eq!(other_than("refused", &list), Vec::<String>::new());
    assert_eq!(exit, Some(1));
    assert_eq!(list.len(), 28);
}

#[test]
fn a_case_says_what_is_wrong_in_words() {
    let (_, list) = verdicts(concat!(
        "rule cut<n>(x: f32[n]) when n >= 1 { sum(x) => sum(x[1..]) + sum(x[..1]) }\n",
        "rule both<n>(x: bool[n], y: bool[n]) { !(x && y) => !x || y }\n",
    ));
    let without = list[0]["conditions"][0]["without"]["text"].as_str().expect("a case");
    assert!(without.contains("an extent would be negative: -1"), "{without}");
    let text = list[1]["counter_example"]["text"].as_str().expect("a case");
    assert!(text.contains("x: bool[1] = [true]"), "{text}");
}

#[test]
fn each_element_type_that_a_rule_allows_is_tried() {
    let (exit, list) = verdicts(concat!(
        "rule doubled<T: num, ..s>(x: T[..s]) { x + x => x * 2 }\n",
        "rule root<T: float, n>(x: T[n]) { sqrt(x * x) => abs(x) }\n",
        "rule one<T: f32 | f64, n>(x: T[n]) { x + x => x * 2 }\n",
        // Right for numbers with a sign, and where the sum of two does not wrap.
        "rule magnitude<T: num, n>(x: T[n]) { max(x, -x) => abs(x) }\n",
        "rule halved<T: num, n>(x: T[n]) { (x + x) / 2 => x }\n",
    ));
    let types = |k: usize| -> Vec<&str> {
        list[k]["types"].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
    };
    assert_eq!(types(0), ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"]);
    assert_eq!(types(1), ["f64", "f32", "f16", "bf16"]);
    assert_eq!(types(2), ["f64", "f32"]);
    assert_eq!(list[3]["status"], "refused", "{}", list[3]);
    assert!(list[3]["counter_example"]["text"].as_str().is_some_and(|t| t.contains("u8[")), "{}", list[3]);
    assert_eq!(list[4]["status"], "refused", "{}", list[4]);
    assert_eq!((exit, list.len()), (Some(1), 5));
}

#[test]
fn a_program_in_whose_plan_a_wrong_rule_fires_does_not_run() {
    let program = concat!(
        "rule wrong<n>(x: f32[n]) { relu(x) => abs(x) }\n",
        "fn f<n>(x: f32[n]) -> f32[n] { relu(x) }\n",
        "fn g<n>(x: f32[n]) -> f32[n] { exp(x) }\n",
    );
    let go = |args: &[&str]| run(&[("f.tn", program.to_owned())], args);
    for args in [
        &["run", "f.tn", "-e", "f", "-i", "x=ones[3]"][..],
        &["build", "f.tn", "-o", "f.tnx"],
        &["bench", "f.tn", "-e", "f", "-i", "x=ones[3]"],
        &["opt", "f.tn", "-o", "plan.tn"],
        &["dis", "f.tn", "--stage", "plan"],
    ] {
        let said = go(args);
        assert_eq!(said.exit, Some(1), "{args:?}: {}{}", said.stdout, said.stderr);
        assert!(
            said.stderr.contains("error[E0609]: rule `wrong` does not hold"),
            "{args:?}: {}",
            said.stderr
        );
        assert!(said.stderr.contains("the left side gives 0, the right side"), "{args:?}: {}", said.stderr);
    }
    // Where it does not fire, or nothing is rewritten, it is nobody's concern.
    for args in [
        &["run", "f.tn", "-e", "g", "-i", "x=ones[3]"][..],
        &["run", "f.tn", "-e", "f", "-i", "x=ones[3]", "--no-rewrites"],
        &["run", "f.tn", "-e", "f", "-i", "x=ones[3]", "--engine", "interp"],
    ] {
        let said = go(args);
        assert_eq!(said.exit, Some(0), "{args:?}: {}{}", said.stdout, said.stderr);
    }
}

#[test]
fn the_status_stands_where_a_rule_is_named() {
    let program = concat!(
        "rule right<n>(x: f32[n]) { x + x => x * 2 }\n",
        "rule far<n>(x: f32[n]) { x * 2 => x * 1.9999999 }\n",
        "rule wrong<n>(x: f32[n]) { relu(x) => abs(x) }\n",
        "fn f<n>(x: f32[n]) -> f32[n] { relu(x + x) }\n",
        "fn g<n>(x: f32[n, n], y: f32[n, n]) -> f32[n, n] { (y.T @ x.T).T }\n",
    );
    let said = |args: &[&str]| run(&[("f.tn", program.to_owned())], args).stdout;
    let list = said(&["rules", "f.tn"]);
    for (rule, status) in [("right", "proven"), ("far", "tested"), ("wrong", "refused")] {
        let line = list.lines().find(|l| l.starts_with(rule)).unwrap_or_default();
        assert!(line.contains(status), "{list}");
    }
    let library = said(&["rules"]);
    let count = |status: &str| library.lines().filter(|l| l.contains(status)).count();
    assert_eq!(count(" proven ") + count(" tested "), library.lines().count(), "{library}");
    assert!(count(" proven ") >= 90, "{library}");

    let plan = said(&["opt", "f.tn"]);
    for named in [
        "by rule wrong (refused)",
        "rule right (proven) fired",
        "rule far (tested) fired",
        "rule matmul_transposed_f32 (proven)",
    ] {
        assert!(plan.contains(named), "{named}: {plan}");
    }
    let named = |line: &str| {
        line.matches("rule ").count()
            == [" (proven)", " (tested)", " (refused)"].iter().map(|s| line.matches(s).count()).sum::<usize>()
    };
    assert!(plan.lines().all(named), "{plan}");
    // The same bytes whatever was known before.
    assert_eq!(plan, said(&["opt", "f.tn"]));
    let json: Value = serde_json::from_str(&said(&["opt", "f.tn", "--json"])).expect("JSON");
    assert_eq!(json["statuses"]["rule wrong"], "refused", "{}", json["statuses"]);
    assert!(said(&["opt", "f.tn", "--why", "g"]).is_empty());
    assert!(said(&["opt", "f.tn", "--why-not", "wrong"]).contains("rule wrong (refused)"));
}

#[test]
fn rules_of_one_name_are_told_apart() {
    let program = concat!(
        "prim lin<m, k, n>(x: f32[m, k], w: f32[n, k]) -> y: f32[m, n] {\n",
        "    for i in m, j in n { y[i, j] = sum(l in k) x[i, l] * w[j, l] }\n}\n",
        "rule lin_is_product<n, m>(x: f32[n, m]) { relu(x) => abs(x) }\n",
        "fn f<m>(x: f32[m, 16], w: f32[8, 16]) -> f32[m, 8] { relu(lin(x, w)) }\n",
    );
    let said =
        run(&[("f.tn", program.to_owned())], &["run", "f.tn", "-i", "x=randn[3,16]", "-i", "w=randn[8,16]"]);
    assert_eq!((said.exit, said.codes()), (Some(1), vec!["E0609"]), "{}", said.stdout);
    assert!(said.stderr.contains("f.tn:4"), "{}", said.stderr);
}
