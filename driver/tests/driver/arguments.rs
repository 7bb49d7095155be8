//! Arguments from outside: configs and weights by name, values for any type, and what is said where they do not fit.

#![expect(clippy::disallowed_methods, reason = "the tests write files to be read")]

use std::path::PathBuf;

use driver::data::{Wanted, arguments};
use ir::Setting;
use ir::graph::Type;
use shape::{Expr as Dim, Sym};
use tensor::{DType, Tensor, safetensors};

fn dim(text: &str) -> Dim {
    text.parse().expect("a dim")
}

fn wanted(name: &str, dtype: DType, shape: &[&str], from: Option<&str>) -> Wanted {
    let shape: Vec<Dim> = shape.iter().map(|d| dim(d)).collect();
    let (ty, extents) = (Type { dtype, shape: shape.clone() }, shape);
    Wanted { name: name.to_owned(), ty, from: from.map(str::to_owned), extents }
}

/// A decoder's weights in small: an array of layers, a norm, and an index that no `from` names.
fn weights() -> Vec<Wanted> {
    vec![
        wanted("x", DType::F32, &["t", "h"], None),
        wanted("w.layers.q", DType::F32, &["l", "h", "h"], Some("model.layers.{i}.q.weight")),
        wanted("w.norm", DType::F32, &["h"], Some("model.norm.weight")),
        wanted("w.table", DType::I64, &["t"], None),
    ]
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tenon-arguments-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn write(path: &std::path::Path, tensors: &[(&str, Tensor)]) {
    let bytes = safetensors::write(tensors.iter().map(|(n, t)| (*n, t))).expect("they fit");
    std::fs::write(path, bytes).expect("it is written");
}

fn halves(shape: &[i64], first: f64) -> Tensor {
    let mut t = Tensor::zeros(DType::Bf16, shape).expect("it fits");
    (0..t.len()).for_each(|i| t.set_f64(i, first + i as f64));
    t
}

fn given(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| (*t).to_owned()).collect()
}

fn said(result: Result<Vec<Tensor>, driver::Failure>) -> String {
    result.expect_err("it does not fit").render(&ir::source::SourceMap::default(), false)
}

#[test]
fn a_checkpoint_of_shards_binds_a_record_by_its_names() {
    let folder = folder("shards");
    let norm = Tensor::from_f32(&[2], &[5.0, 6.0]).expect("two");
    let table = Tensor::from_i64(&[3], &[7, 8, 9]).expect("three");
    write(
        &folder.join("a.safetensors"),
        &[("model.layers.0.q.weight", halves(&[2, 2], 1.0)), ("table", table)],
    );
    write(
        &folder.join("b.safetensors"),
        &[("model.layers.1.q.weight", halves(&[2, 2], 10.0)), ("model.norm.weight", norm)],
    );
    let w = format!("w={}", folder.display());
    let args = arguments("f", &weights(), &[], &given(&["x=ones", &w]));
    let args = args.unwrap_or_else(|f| panic!("{}", f.render(&ir::source::SourceMap::default(), false)));
    assert_eq!(args[0].shape(), [3, 2], "the weights tell the dims");
    assert_eq!(args[1].shape(), [2, 2, 2]);
    assert_eq!(args[1].as_f32(), Some(&[1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 12.0, 13.0][..]));
    assert_eq!(args[2].as_f32(), Some(&[5.0, 6.0][..]));
    assert_eq!(args[3].as_i64(), Some(&[7, 8, 9][..]));
    std::fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn all_that_does_not_fit_a_record_is_said_at_once() {
    let folder = folder("faults");
    let path = folder.join("one.safetensors");
    let norm = Tensor::from_bytes(DType::F64, &[2], &[0; 16]).expect("two");
    write(&path, &[("model.layers.0.q.weight", halves(&[2, 3], 1.0)), ("model.norm.weight", norm)]);
    let w = format!("w={}", path.display());
    let text = said(arguments("f", &weights(), &[], &given(&["x=ones", "h=2", "t=1", &w])));
    assert!(
        text.contains("w.layers.q: f32[l, h, h] is needed, and `model.layers.0.q.weight` is bf16[2, 3]"),
        "{text}"
    );
    assert!(text.contains("`model.norm.weight` is f64, which would lose digits"), "{text}");
    assert!(text.contains("w.table: i64[t] is not there: `table`"), "{text}");
    std::fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn one_seed_makes_every_part_and_the_parts_differ() {
    let given = given(&["x=zeros", "w=random@7", "t=2", "h=2", "l=3"]);
    let args = arguments("f", &weights(), &[], &given).expect("they fit");
    assert_eq!(args[1].shape(), [3, 2, 2]);
    assert!(args[0].as_f32().expect("floats").iter().all(|x| *x == 0.0));
    let (q, norm) = (args[1].as_f32().expect("floats"), args[2].as_f32().expect("floats"));
    assert_ne!(q[..2], *norm);
    let again = arguments("f", &weights(), &[], &given).expect("they fit");
    assert_eq!(again[1].bytes(), args[1].bytes());
}

fn settings() -> Vec<Setting> {
    let setting = |name: &str, dtype, from: Option<&str>| Setting {
        is: None,
        name: Sym::new(name),
        dtype,
        from: from.map(str::to_owned),
    };
    vec![
        setting("h", None, Some("hidden_size")),
        setting("heads", None, None),
        setting("theta", Some(DType::F32), Some("rope.theta")),
        setting("unused", None, None),
    ]
}

#[test]
fn a_config_file_gives_dims_and_numbers_by_their_names() {
    let folder = folder("config");
    let path = folder.join("config.json");
    std::fs::write(&path, r#"{ "hidden_size": 4, "heads": 2, "rope": { "theta": 1e4 }, "more": [1] }"#)
        .expect("written");
    let wanted = vec![
        wanted("x", DType::F32, &["h"], None),
        wanted("heads", DType::I64, &[], None),
        wanted("theta", DType::F32, &[], None),
    ];
    let config = format!("config={}", path.display());
    let args = arguments("f", &wanted, &settings(), &given(&["x=random@1", &config])).expect("they fit");
    assert_eq!((args[0].shape(), args[1].get_i64(0), args[2].get_f64(0)), (&[4][..], 2, 1e4));
    // What is given by hand comes first, and an argument that tells a dim must agree.
    let args =
        arguments("f", &wanted, &settings(), &given(&["x=ones", "heads=8", &config])).expect("they fit");
    assert_eq!(args[1].get_i64(0), 8);
    let text = said(arguments("f", &wanted, &settings(), &given(&["x=ones[5]", &config])));
    assert!(text.contains("h is given as 4, and axis 0 of x is 5"), "{text}");
    std::fs::write(&path, r#"{ "hidden_size": -4 }"#).expect("written");
    let text = said(arguments("f", &wanted, &settings(), &given(&["x=ones", &config])));
    assert!(text.contains("`hidden_size` is -4; a whole number from 0 on is needed for h"), "{text}");
    std::fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn what_no_entry_takes_is_wrong_usage() {
    let wanted = vec![wanted("weight", DType::F32, &["n"], None)];
    for (text, part) in [
        ("wieght=ones[3]", "did you mean `weight`?"),
        ("weight", "is not NAME=VALUE"),
        ("=3", "is not NAME=VALUE"),
        ("config=c.json", "the program has no config"),
    ] {
        let failure = arguments("f", &wanted, &[], &given(&[text])).expect_err("it is wrong");
        assert!(matches!(&failure, driver::Failure::Usage(t) if t.contains(part)), "{failure:?}");
    }
}

#[test]
fn what_only_a_call_gives_is_no_argument() {
    let text = "fn window<n>(x: f32[n], const k: int) -> f32[k] where k <= n { x[..k] }

fn newton(f: fn(f32) -> f32, x: f32) -> f32 { x - f(x) }

prim both<n>(x: f32[n], const k: int, const m: int = 1) -> y: f32[n] { for i in n { y[i] = x[i] * f32(k + m) } }

fn main(x: f32) -> f32 { newton(|v| v * v, x) }
";
    let mut sources = driver::pipeline::sources();
    let id = sources.add("f.tn", text);
    let mut front = driver::pipeline::front(sources, &[id]).expect("it checks");
    let mut why = |name: &str| {
        let failure = driver::pipeline::entry(&mut front, Some(name)).expect_err("it is no entry");
        failure.render(&ir::source::SourceMap::default(), false).trim_end().to_owned()
    };
    let end = "; write a function that calls it, and enter that";
    assert_eq!(
        why("window"),
        format!("error[E0605]: `window` cannot be entered: `k` must be known when compiling{end}")
    );
    assert_eq!(
        why("newton"),
        format!("error[E0605]: `newton` cannot be entered: `f` must be given as a function{end}")
    );
    assert_eq!(
        why("both"),
        format!("error[E0605]: `both` cannot be entered: `k`, `m` must be known when compiling{end}")
    );
    assert_eq!(why("nobody"), "error[E0605]: no function `nobody`; the file has main");
}
