//! The text of primitives in the forms that transformations are made for: products, windows, stages, tiles of sums.

use super::{Numbers, program};

/// The text of a random primitive of one of the forms.
pub fn random(r: &mut Numbers) -> String {
    let t = r.pick(&["f32", "f64", "f16", "i32", "i64", "i8", "i16"]);
    let leaf = |r: &mut Numbers, places: &[&str]| {
        let a = r.pick(places);
        match r.below(6) {
            0 => format!("abs({a})"),
            1 => format!("max({a}, {t}(1))"),
            2 => format!("(if {a} > {t}(0) {{ {a} }} else {{ {t}(2) }})"),
            3 => format!("select({a} < {t}(1), {a}, {t}(-1))"),
            _ => a.to_owned(),
        }
    };
    let two = |r: &mut Numbers, a: &[&str], b: &[&str]| {
        let sign = r.pick(&["+", "*", "-"]);
        format!("{} {sign} {}", leaf(r, a), leaf(r, b))
    };
    let way = r.pick(&["sum", "max", "min"]);
    let (body, params, out) = match r.below(14) {
        0 => {
            let e = two(r, &["x[i, j]", "w[j]"], &["x[i, j]", "v[i]"]);
            (
                format!("for i in m, j in n {{ y[i, j] = {e} }}"),
                format!("x: {t}[m, n], w: {t}[n], v: {t}[m]"),
                "[m, n]",
            )
        }
        1 | 2 => {
            let range = r.pick(&["k", "0..k", "i..k", "0..min(k, 5)", "0..j", "0..12"]);
            let wide = if range == "0..12" || range == "0..j" { "12" } else { "k" };
            let limit = if range == "0..j" { "12" } else { "n" };
            let sum = format!("{way}(p in {range}) a[i, p] * b[p, j]");
            let e = match r.below(3) {
                0 => sum,
                1 => format!("abs({sum}) + {t}(1)"),
                _ => format!("max(c[j], ({sum}))"),
            };
            let (a, b) = if range == "i..k" { ("k".to_owned(), wide) } else { (wide.to_owned(), wide) };
            let body = format!("for i in m, j in {limit} {{ y[i, j] = {e} }}");
            let shape = if limit == "12" { "[m, 12]" } else { "[m, n]" };
            (body, format!("a: {t}[m, {a}], b: {t}[{b}, {limit}], c: {t}[{limit}]"), shape)
        }
        3 | 4 => {
            let order =
                r.pick(&["i in m, p in k, j in n", "p in k, i in m, j in n", "j in n, i in m, p in k"]);
            let by = r.pick(&["+=", "max="]);
            let body = format!("for {order} {{ y[i, j] {by} a[i, p] * b[p, j] }}");
            (body, format!("a: {t}[m, k], b: {t}[k, n]"), "[m, n]")
        }
        5 | 6 => {
            let first = two(r, &["x[u]", "w[u]"], &["x[u]", "w[u]"]);
            let read = r.pick(&["near[j]", "near[min(j + 1, n - 1)]", "near[j] + near[n - 1 - j]"]);
            let second = r.pick(&["i in m, j in n", "j in n, i in m"]);
            let body = format!(
                "var near: {t}[n]\n    for u in n {{ near[u] = {first} }}\n    for {second} {{ y[i, j] = {read} + v[i] }}"
            );
            (body, format!("x: {t}[n], w: {t}[n], v: {t}[m]"), "[m, n]")
        }
        7 => {
            let test = r.pick(&["i >= j", "i < j + 2", "x[i, j] > w[j]"]);
            let other = leaf(r, &["x[i, j]", "w[j]"]);
            let body = format!(
                "for i in m, j in n {{\n        if {test} {{ y[i, j] = x[i, j] }} else {{ y[i, j] = {other} }}\n    }}"
            );
            (body, format!("x: {t}[m, n], w: {t}[n]"), "[m, n]")
        }
        8 => {
            let body = if r.below(2) == 0 {
                format!("for i in m {{ y[i] = {way}(q in at_n[i]..at_n[i + 1]) x[q] }}")
            } else {
                "for i in m {\n        for q in at_n[i]..at_n[i + 1] { y[i] += x[q] }\n    }".to_owned()
            };
            (body, format!("at_n: i64[m + 1], x: {t}[n]"), "[m]")
        }
        9 => {
            let body = "for i in m { y[i, 0] = x[i, 0] }\n    for i in m, j in 1..n + 1 { y[i, j] = y[i, j - 1] + x[i, j] }";
            (body.to_owned(), format!("x: {t}[m, n + 1]"), "[m, n + 1]")
        }
        10 => {
            let order = r.pick(&["i in m, j in n, a in 3, b in 2", "a in 3, i in m, b in 2, j in n"]);
            let body = format!("for {order} {{ y[i, j] += x[i + a, j + b] * w[a, b] }}");
            (body, format!("x: {t}[m + 2, n + 1], w: {t}[3, 2]"), "[m, n]")
        }
        11 => {
            let narrow = r.pick(&["i8", "i16"]);
            let k = r.pick(&["k", "4*k", "7"]);
            let body =
                format!("for i in m, j in n {{ y[i, j] = sum(p in {k}) i32(a[i, p]) * i32(b[p, j]) }}");
            return finish(&body, &format!("a: {narrow}[m, {k}], b: {narrow}[{k}, n]"), "i32", "[m, n]");
        }
        12 => {
            let body = format!(
                "for i in m {{\n        var best: {t} = {t}(0)\n        for j in n {{ best = max(best, x[i, j]) }}\n        y[i] = best + {t}(1)\n    }}"
            );
            (body, format!("x: {t}[m, n]"), "[m]")
        }
        _ => {
            let body = format!(
                "for i in n {{\n        for j in 0..i + 1 {{ y[i] += x[j] * w[i] }}\n        y[i] += {way}(q in i..n) x[q]\n    }}"
            );
            let body =
                if way == "sum" { body } else { "for i in n, j in i..n { y[i] += x[j] * w[i] }".to_owned() };
            (body, format!("x: {t}[n], w: {t}[n]"), "[n]")
        }
    };
    finish(&body, &params, t, out)
}

fn finish(body: &str, params: &str, t: &str, out: &str) -> String {
    let dims: Vec<&str> = ["m", "k", "n"]
        .into_iter()
        .filter(|d| {
            let word = |c: char| !c.is_alphanumeric() && c != '_';
            format!("{params} {out}").split(word).any(|w| w == *d)
        })
        .collect();
    program(&dims, params, &[("y".to_owned(), format!("{t}{out}"))], &format!("    {body}"))
}
