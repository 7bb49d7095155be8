//! Where a checkpoint has a value: origins as text, verbs on tensors, configs with lists and alternatives.

#![expect(clippy::disallowed_methods, reason = "the tests write checkpoints")]

use std::collections::BTreeMap;

use driver::model::{self, Binding};
use driver::{Checkpoint, Front, Options};
use ir::origin::{Origin, Term, Value};
use tensor::{DType, Tensor, generate, safetensors};

fn folder(config: &str, tensors: &[(&str, Tensor)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("there is room");
    std::fs::write(dir.path().join("config.json"), config).expect("it is written");
    let bytes = safetensors::write(tensors.iter().map(|(n, t)| (*n, t))).expect("they fit");
    std::fs::write(dir.path().join("model.safetensors"), bytes).expect("it is written");
    dir
}

fn front(text: &str) -> Front {
    let mut sources = driver::pipeline::sources();
    let id = sources.add("m.tn", text);
    driver::pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)))
}

/// What a checkpoint gives to the entry `f`, by parameter; or what is wrong.
fn bound(text: &str, config: &str, tensors: &[(&str, Tensor)]) -> Result<BTreeMap<String, Tensor>, String> {
    let dir = folder(config, tensors);
    let checkpoint = Checkpoint::open(dir.path()).expect("it is one");
    let mut front = front(text);
    let bound = model::bind(&mut front, "f", &checkpoint, &Binding::default());
    let bound = bound.map_err(|f| f.render(&front.sources, false))?;
    let places: Vec<usize> = (0..bound.wanted.len()).filter(|i| bound.is_weight(*i)).collect();
    let reader = bound.reader(&checkpoint, &Options::default());
    let read = reader.and_then(|r| r.read(&places)).map_err(|f| f.render(&front.sources, false))?;
    let given = bound.given.into_iter().enumerate().filter_map(|(i, t)| Some((i, t?)));
    let named = given.chain(places.into_iter().zip(read)).map(|(i, t)| (bound.wanted[i].name.clone(), t));
    Ok(named.collect())
}

fn random(shape: &[i64], seed: u64) -> Tensor {
    generate::random(DType::F32, shape, seed).expect("it is made")
}

fn floats(t: &Tensor) -> &[f32] {
    t.as_f32().expect("floats")
}

#[test]
fn an_origin_is_the_same_when_its_text_is_read() {
    for text in [
        "model.layers.{i}.q",
        "\"a.b\" | \"c\"",
        "rows(\"qkv\", 0, (heads * head)) | \"q\" = 0.0",
        "\"x\" = if (a == 3) { 1e-5 } else { -1e999 }",
        "\"x\" = each(layers, |i| (((i + 1) % 6) != 0))",
        "index(\"act\", [\"silu\", \"a \\\"b\\\"\"])",
        "\"x\" = !((a && b[(i - 1)]))",
        "by token within (window / 2)",
    ] {
        let origin: Origin = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let again: Origin = origin.to_string().parse().unwrap_or_else(|e| panic!("{origin}: {e}"));
        assert_eq!(origin, again, "{text} is {origin}");
    }
    // A part of a text, or one with a sign too many, is an error and no panic.
    let text =
        "rows(\"qkv\", 0, (heads * head)) | \"q\" = if (a < 3) { [1, -2.5] } else { each(n, |i| x[i]) }";
    for (i, _) in text.char_indices() {
        let _ = text[..i].parse::<Origin>();
        for sign in ["(", "\"", "|", "9e", "\\"] {
            let _ = format!("{}{sign}{}", &text[..i], &text[i..]).parse::<Origin>();
        }
    }
    let deep = format!("\"x\" = {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    deep.parse::<Origin>().expect_err("it is too deep");
}

#[test]
fn numbers_of_a_config_follow_each_other() {
    struct None;
    impl ir::origin::Meaning for None {
        fn name(&self, name: &str) -> Option<Value> {
            (name == "n").then_some(Value::Int(-7))
        }
        fn call(&self, _: &str, _: &[Term]) -> Result<Option<Value>, String> {
            Ok(Option::None)
        }
    }
    let value = |t: &str| t.parse::<Term>().and_then(|t| t.eval(&None));
    assert_eq!(value("n / 2"), Ok(Some(Value::Int(-4))), "it rounds down");
    assert_eq!(value("n % 2"), Ok(Some(Value::Int(1))));
    assert_eq!(value("max(n, 3) * 2.0"), Ok(Some(Value::Float(6.0))));
    assert_eq!(value("other + 1"), Ok(Option::None), "what is not there makes nothing");
    assert!(value("9223372036854775807 + 1").is_err() && value("1 / 0").is_err());
    assert_eq!(value("each(3, |i| (i * 2) == 2)"), {
        let list = [false, true, false].map(Value::Bool);
        Ok(Some(Value::List(list.to_vec())))
    });
    assert!(value("each(99999999, 0)").is_err(), "a list has an end");
}

#[test]
fn a_config_has_lists_alternatives_and_defaults() {
    let text = r#"
        config {
            hidden: dim from "n_embd" | "hidden_size"
            heads: dim from "text.heads"
            head: dim from "head_dim" = hidden / heads
            layers: dim
            eps: f32 = 1e-5
            local: bool[layers] from is("kinds", ["near", "close"]) = false
            kind: i64[layers] from index("kinds", ["far", "near"])
            near: dim from count("kinds", "near")
            where_near: i64[near] from places("kinds", "near")
            factors: f32[layers] from "rope.factors" = |i| pow(2.0, i)
            tied: bool from holds("out") = true
            words: dim from "vocab" | extent("out", 0)
            limit: f32 from "limit"
            theta: f32 from "rope.theta" = 1.0
        }
        fn f(x: f32[hidden, head]) -> f32[layers] {
            var y = f32(kind) + factors + eps + f32(near) + f32(words) + limit + theta
            if tied { y = y + f32(where_near[0]) }
            if local[0] { y } else { y * 2.0 }
        }
    "#;
    let config = r#"{ "hidden_size": 12, "text": { "heads": 3 }, "head_dim": null, "layers": 3,
        "kinds": ["near", "far", "near"], "limit": Infinity,
        "text_config": { "rope": { "theta": 5.0 } } }"#;
    let given = bound(text, config, &[("out", random(&[5, 2], 1))]).expect("it fits");
    assert_eq!(given["local"].bytes(), [1, 0, 1]);
    assert_eq!(given["kind"].as_i64(), Some(&[1, 0, 1][..]));
    assert_eq!(given["where_near"].as_i64(), Some(&[0, 2][..]));
    assert_eq!(floats(&given["factors"]), [1.0, 2.0, 4.0]);
    assert_eq!(given["tied"].bytes(), [1]);
    assert_eq!(floats(&given["limit"]), [f32::INFINITY]);
    assert_eq!(floats(&given["theta"]), [5.0]);
    let e = bound(text, &config.replace("\"far\"", "\"odd\""), &[]).expect_err("a kind is unknown");
    assert!(e.contains("\"odd\"") && e.contains("\"far\""), "{e}");
    let e = bound(text, &config.replace("\"layers\": 3", "\"layers\": 2.5"), &[]).expect_err("it is no dim");
    assert!(e.contains("layers") && e.contains("2.5"), "{e}");
    let e = bound(text, &config.replace("\"hidden_size\"", "\"hidden\""), &[]).expect_err("it is not there");
    assert!(e.contains("hidden"), "{e}");
}

#[test]
fn verbs_undo_what_a_file_did() {
    let text = r#"
        config {
            heads, first, layers: dim
            picked: i64[layers] from "picked"
        }
        record Layer {
            q: f32[6, 4] from rows("qkv.{i + first}", 0, 6)
            v: f32[2, 4] from rows("qkv.{i + first}", 6, 2)
            turned: f32[4, 6] from unpermute("turned.{picked[i]}", heads) | "nowhere.{i}"
            conv: f32[5, 3] from transpose("conv.{i}")
            left: f32[3, 2] from columns("conv.{i}", 0, 2)
            one: f32[4] from part("stack.{i}", 1)
            thin: f32[2, 3] from flat("thin.{i}")
            formed: f32[3, 2] from reshape("thin.{i}", 3, 2)
            norm: f32[4] from plus("norm.{i}", -1.0)
            bias: f32[2, 2] from "bias.{i}" = 0.5
        }
        record Model { layers: [Layer; layers] from "h" | "deep.h" }
        fn f(w: Model) -> f32[layers, 6, 4] { w.layers.q * f32(heads + first) + f32(picked[0]) }
    "#;
    let config = r#"{ "heads": 2, "first": 3, "layers": 2, "picked": [7, 5] }"#;
    let (q, v) = (random(&[2, 6, 4], 1), random(&[2, 2, 4], 2));
    let (turned, conv) = (random(&[2, 4, 6], 3), random(&[2, 5, 3], 4));
    let mut tensors: Vec<(String, Tensor)> = Vec::new();
    for i in 0..2 {
        let part = |t: &Tensor| floats(t)[t.len() / 2 * i..t.len() / 2 * (i + 1)].to_vec();
        let mut put = |name: String, shape: &[i64], data: &[f32]| {
            let t = Tensor::from_f32(shape, data).expect("it fits");
            tensors.push((format!("deep.h.{name}"), t));
        };
        // Rows put together, rows in pairs, axes exchanged, one added.
        put(format!("qkv.{}", i + 3), &[8, 4], &[part(&q), part(&v)].concat());
        let rows: Vec<Vec<f32>> = part(&turned).chunks(6).map(<[f32]>::to_vec).collect();
        // Two heads of two rows: each is its first half, then its second.
        put(format!("turned.{}", [7, 5][i]), &[4, 6], &rows.concat());
        let c = part(&conv);
        let exchanged: Vec<f32> = (0..15).map(|k| c[k % 5 * 3 + k / 5]).collect();
        put(format!("conv.{i}"), &[3, 5], &exchanged);
        put(format!("stack.{i}"), &[3, 4], &(0..12).map(|k| k as f32 + i as f32).collect::<Vec<_>>());
        put(format!("thin.{i}"), &[2, 1, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        put(format!("norm.{i}"), &[4], &[1.0, 1.5, 2.0, 0.0]);
    }
    let tensors: Vec<(&str, Tensor)> = tensors.iter().map(|(n, t)| (n.as_str(), t.clone())).collect();
    let given = bound(text, config, &tensors).expect("it fits");
    assert_eq!(floats(&given["w.layers.q"]), floats(&q));
    assert_eq!(floats(&given["w.layers.v"]), floats(&v));
    assert_eq!(floats(&given["w.layers.turned"]), floats(&turned), "heads of two rows are halves already");
    assert_eq!(floats(&given["w.layers.conv"]), floats(&conv));
    assert_eq!(given["w.layers.left"].shape(), [2, 3, 2]);
    assert_eq!(floats(&given["w.layers.one"])[..4], [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(given["w.layers.thin"].shape(), [2, 2, 3]);
    assert_eq!(given["w.layers.formed"].shape(), [2, 3, 2]);
    assert_eq!(floats(&given["w.layers.formed"]), floats(&given["w.layers.thin"]));
    let e = bound(&text.replace("\"thin.{i}\", 3, 2)", "\"thin.{i}\", 4, 2)"), config, &tensors);
    assert!(e.expect_err("there are 6 elements").contains("has no form [4, 2]"));
    assert_eq!(floats(&given["w.layers.norm"])[..4], [0.0, 0.5, 1.0, -1.0]);
    assert_eq!(floats(&given["w.layers.bias"]), [0.5; 8]);
    let e = bound(
        &text.replace("rows(\"qkv.{i + first}\", 6, 2)", "rows(\"qkv.{i + first}\", 7, 2)"),
        config,
        &tensors,
    );
    assert!(e.expect_err("there are 8 rows").contains("has 8 rows"));
    let e = bound(&text.replace("transpose(\"conv", "transposed(\"conv"), config, &tensors);
    assert!(e.expect_err("there is no such verb").contains("there is no verb `transposed`"));
    let e = bound(&text.replace("\"qkv.{i + first}\"", "\"qkw.{i + first}\""), config, &tensors);
    let e = e.expect_err("there is no such tensor");
    assert!(e.contains("deep.h.qkw.3") && e.contains("did you mean `deep.h.qkv.3`"), "{e}");
}
