//! Graphs as large as models are: what planning holds grows as they do, and never without end.

use std::fmt::Write as _;

use driver::{Options, pipeline};
use rewrites::FuncReport;

/// The plan of `main` of a text.
fn planned(text: &str) -> FuncReport {
    all(text).remove(0)
}

/// The same, and those of its parts.
fn all(text: &str) -> Vec<FuncReport> {
    let mut sources = pipeline::sources();
    let id = sources.add("large.tn", text);
    let front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false));
    let module = front.unwrap_or_else(|said| panic!("{said}")).module;
    let (_, report) = pipeline::plan(&module, &Options::default());
    report.functions.into_iter().filter(|f| f.is_of("main")).collect()
}

/// A decoder with each layer written out, over weights of their own.
fn decoder(layers: usize) -> String {
    let mut params = String::from("x: f32[t, 256]");
    let mut body = String::from("    let x0 = x\n");
    for i in 0..layers {
        let _ = write!(
            params,
            ", n{i}: f32[256], q{i}: f32[256, 256], k{i}: f32[128, 256], v{i}: f32[128, 256], o{i}: f32[256, 256], \
             m{i}: f32[256], g{i}: f32[688, 256], u{i}: f32[688, 256], d{i}: f32[256, 688]"
        );
        let next = i + 1;
        let _ = write!(
            body,
            "    let h{i} = rms_norm(x{i}, n{i}, 1e-5)
    let turn{i} = rope_frequencies[16](10000.0)
    let qs{i} = rope(reshape[t, 8, 32](h{i} @ q{i}.T), arange[i32, t], turn{i})
    let ks{i} = rope(reshape[t, 4, 32](h{i} @ k{i}.T), arange[i32, t], turn{i})
    let a{i} = attention(qs{i}, ks{i}, reshape[t, 4, 32](h{i} @ v{i}.T), causal=true)
    let y{i} = x{i} + reshape[t, 256](a{i}) @ o{i}.T
    let z{i} = rms_norm(y{i}, m{i}, 1e-5)
    let x{next} = y{i} + (silu(z{i} @ g{i}.T) * (z{i} @ u{i}.T)) @ d{i}.T
"
        );
    }
    format!("fn main<t>({params}) -> f32[t, 256] {{\n{body}    x{layers}\n}}\n")
}

#[test]
fn what_a_decoder_takes_does_not_grow_with_its_layers() {
    let nodes = |layers| -> Vec<usize> { all(&decoder(layers)).iter().map(|f| f.nodes).collect() };
    let (one, some, many) = (nodes(1), nodes(32), nodes(128));
    assert!(one[0] < 20_000, "{one:?}");
    // The part is a layer; the caller has its arguments alone.
    assert_eq!((some.len(), many.len(), some[1]), (2, 2, many[1]), "{some:?}, {many:?}");
    assert!(some[1] < 20_000 && many[0] <= 4 * some[0] && many[0] <= 128 * 16, "{some:?}, {many:?}");
}

/// What ResNet-50 is: a stem, stages of 3, 4, 6 and 3 bottlenecks, of which the first changes the extents, and a
/// classifier.
fn resnet() -> String {
    let (mut params, mut body) = (String::from("x: f32[n, 3, 224, 224]"), String::new());
    let mut made = 0;
    let mut unit = |body: &mut String, of: &str, i: usize, o: usize, size: usize, stride: usize| {
        let k = made;
        made += 1;
        let _ = write!(
            params,
            ", w{k}: f32[{o}, {i}, {size}, {size}], s{k}: f32[{o}], b{k}: f32[{o}], m{k}: f32[{o}], v{k}: f32[{o}]"
        );
        let pad = size / 2;
        let _ = writeln!(
            body,
            "    let c{k} = batch_norm(conv({of}, w{k}, stride={stride}, low={pad}, high={pad}), s{k}, b{k}, m{k}, v{k})"
        );
        format!("c{k}")
    };
    let stem = unit(&mut body, "x", 3, 64, 7, 2);
    let _ = writeln!(body, "    let y0 = max_pool(relu({stem}), size=3, stride=2, low=1, high=1)");
    let (mut y, mut wide) = (0, 64);
    for (stage, blocks) in [3, 4, 6, 3].into_iter().enumerate() {
        let inner = 64 << stage;
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let of = format!("y{y}");
            let a = unit(&mut body, &of, wide, inner, 1, 1);
            let b = unit(&mut body, &format!("relu({a})"), inner, inner, 3, stride);
            let c = unit(&mut body, &format!("relu({b})"), inner, 4 * inner, 1, 1);
            let around = if block == 0 { unit(&mut body, &of, wide, 4 * inner, 1, stride) } else { of };
            wide = 4 * inner;
            y += 1;
            let _ = writeln!(body, "    let y{y} = relu({c} + {around})");
        }
    }
    params.push_str(", w: f32[2048, 1000], b: f32[1000]");
    format!("fn main<n>({params}) -> f32[n, 1000] {{\n{body}    softmax(global_avg_pool(y{y}) @ w + b)\n}}\n")
}

#[test]
fn a_convolution_network_of_fifty_layers_is_planned() {
    let report = planned(&resnet());
    let convolutions =
        report.regimes[0].steps.iter().filter(|s| s.covers.iter().any(|c| c.starts_with("conv")));
    assert_eq!(convolutions.count(), 53, "{:?}", report.notes);
    assert!(report.nodes < 20_000, "{}", report.nodes);
}

/// A graph of so many operators, each of values shortly before it.
fn chain(operators: usize) -> String {
    let forms = [
        "relu(A)",
        "A + B",
        "A * B",
        "tanh(A)",
        "A @ w",
        "A + b",
        "softmax(A)",
        "layer_norm(A, b, b)",
        "sigmoid(A) * B",
        "exp(-abs(A))",
    ];
    let mut random = 1u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut text = String::from(
        "fn main<n>(x: f32[n, 64], w: f32[64, 64], b: f32[64]) -> f32[n, 64] {\n    let v0 = x\n",
    );
    for i in 0..operators {
        let form = forms[below(forms.len() as u64) as usize];
        let before = (i as u64).saturating_sub(below(8) + 1);
        let form = form.replace('A', &format!("v{i}")).replace('B', &format!("v{before}"));
        let _ = writeln!(text, "    let v{} = {form}", i + 1);
    }
    let _ = writeln!(text, "    v{operators}\n}}");
    text
}

#[test]
fn a_flat_graph_of_five_thousand_operators_is_planned_within_the_budget() {
    let report = planned(&chain(5_000));
    assert!(report.regimes.iter().all(|r| r.steps.len() > 1_000), "{:?}", report.notes);
    assert!(report.saturated || !report.notes.is_empty(), "what was given up is said");
    println!("{} nodes, {:?}", report.nodes, report.notes);
}

/// A function of so many products of `x` and a matrix each: side by side in a sum, or one after the other.
fn products(many: usize, side_by_side: bool) -> String {
    let params: String = (0..many).map(|i| format!(", w{i}: f32[64, 64]")).collect();
    let each = (0..many).map(|i| if side_by_side { format!("x @ w{i}") } else { format!("@ w{i}") });
    let body = each.collect::<Vec<_>>().join(if side_by_side { " + " } else { " " });
    let body = if side_by_side { body } else { format!("x {body}") };
    format!("fn main<n>(x: f32[n, 64]{params}) -> f32[n, 64] {{ {body} }}\n")
}

// Each of these values can be said in hundreds of ways, and three of them in hundreds of thousands.
#[test]
fn rules_of_several_values_do_not_look_at_all_ways_to_say_them() {
    for text in [products(10, true), products(20, false), products(60, false)] {
        let report = planned(&text);
        let merge = report.rules.iter().find(|r| r.rule.starts_with("rule merge_three_products"));
        let why = "parameter 2 must be constant and is known only while running";
        assert_eq!(merge.map(|r| &r.refused[..]), Some(&[why.to_owned()][..]), "{:?}", report.rules);
    }
    let own = "rule never<n>(x: f32[n, 64], a: f32[64, 64], b: f32[64, 64], c: f32[64, 64]) when n * n == 7 {
        (x @ a, x @ b, x @ c) => (x @ a, x @ c, x @ b)
    }\n";
    let report = planned(&format!("{own}{}", products(9, true)));
    let note = "stopped merging by a rule after 1000 matches";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
}

#[test]
fn conditions_of_rules_make_so_many_regimes_and_no_more() {
    let mut text = String::from(
        "prim slow<n>(x: f32[n]) -> y: f32[n] { for i in n { y[i] = sum(k in 99) max(x[i], 0.0) / 99.0 } }
fn main<n>(x: f32[n]) -> f32[n] { slow(x) }\n",
    );
    for i in 0..8 {
        let _ =
            writeln!(text, "rule r{i}<n>(x: f32[n]) when n == {} {{ slow(x) => relu(x) }}", 1001 + 10 * i);
    }
    let report = planned(&text);
    let guards: Vec<&str> = report.regimes.iter().map(|r| r.guard.as_str()).collect();
    let six = ["n == 1001", "n == 1011", "n == 1021", "n == 1031", "n == 1041", "n == 1051", "otherwise"];
    assert_eq!(guards, six, "{:?}", report.notes);
    let notes = report.notes.iter().filter(|n| n.ends_with("6 conditions of rules have one"));
    assert_eq!(notes.count(), 2, "{:?}", report.notes);
}

/// Layers of which one takes its weights as they are, and the others transposed.
#[test]
fn a_layer_unlike_the_others_parts_what_is_outlined_and_no_more() {
    let weights: String = (0..80).map(|i| format!("    w{i}: f32[16, 16] from \"w{i}\"\n")).collect();
    let layer = |i: usize| {
        let w = if i == 40 { "m.w40".to_owned() } else { format!("m.w{i}.T") };
        format!("    let h{} = h{i} + tanh(relu(h{i} @ {w}) * 0.5 + 0.25)\n", i + 1)
    };
    let layers: String = (0..80).map(layer).collect();
    let text = format!(
        "record M {{\n{weights}}}\nfn main<n>(h0: f32[n, 16], m: M) -> f32[n, 16] {{\n{layers}    h80\n}}\n"
    );
    let times: Vec<usize> = all(&text).iter().filter_map(|f| Some(f.part.as_ref()?.times)).collect();
    assert_eq!(times, [40, 39]);
}

/// Weights of a long text that repeats nothing.
#[test]
fn what_is_kept_of_many_weights_is_found_in_time() {
    let weights: String = (0..400).map(|i| format!("    w{i}: f32[64, 64] from \"w{i}\"\n")).collect();
    let map = |i: usize| ["relu", "tanh", "sigmoid", "silu", "abs", "cos"][((i * 2_654_435_761) >> 9) % 6];
    let steps: String =
        (0..400).map(|i| format!("    let h{} = {}(h{i} @ m.w{i})\n", i + 1, map(i))).collect();
    let text = format!(
        "record M {{\n{weights}}}\nfn main<n>(h0: f32[n, 64], m: M) -> f32[n, 64] {{\n{steps}    h400\n}}\n"
    );
    let found = planned(&text);
    let panels = found.rules.iter().find(|r| r.rule.contains("panels_of_weight")).expect("it matches");
    assert!(panels.fired >= 400 && found.part.is_none() && !found.regimes.is_empty(), "{panels:?}");
}

/// Rules that add to what they find in each round: growth stops, and so does fusing what they added, both with a note;
/// what is written is fused.
#[test]
fn rules_that_grow_without_end_stop_with_a_note() {
    let report = planned(
        "rule same<n>(x: f32[n]) { tanh(x) => tanh(x * 1.0 + 0.0) }\n\
         rule half<n>(x: f32[n], y: f32[n]) { x + y => (x * 2.0 + y * 2.0) * 0.5 }\n\
         fn main<n>(x: f32[n], y: f32[n]) -> f32[n] { tanh(x + y) }\n",
    );
    assert!(report.notes.iter().any(|n| n.starts_with("fused no more after")), "{:?}", report.notes);
    let steps = &report.regimes[0].steps;
    assert!(steps.len() == 1 && steps[0].covers.len() >= 2, "{steps:?}");
}
