//! Programs called from Rust: by order and by name, by many threads, from compiled files, and what is said of faults.

#![expect(clippy::disallowed_methods, reason = "the tests write programs and start threads")]

use tenon::{DType, Limits, Module, Options, Tensor};

const TEXT: &str = "record Layer<k, m> { w: f32[k, m], b: f32[m] }\n\n\
    fn layer<n, k, m>(x: f32[n, k], l: Layer<k, m>) -> f32[n, m] { relu(x @ l.w + l.b) }\n";

fn floats(shape: &[i64], data: &[f32]) -> Tensor {
    Tensor::from_f32(shape, data).expect("they fit")
}

fn layer(module: &Module) -> tenon::Function {
    let f = module.function("layer").expect("it compiles");
    let f = f.bind("l.w", floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).expect("it fits");
    f.bind("l.b", floats(&[2], &[0.5, -100.0])).expect("it fits")
}

#[test]
fn threads_share_a_function_at_shapes_of_their_own() {
    let module = Module::from_text("layer.tn", TEXT).expect("it is right");
    let f = layer(&module);
    std::thread::scope(|scope| {
        for n in 1..=8_i64 {
            let f = &f;
            scope.spawn(move || {
                for _ in 0..50 {
                    let x = floats(&[n, 2], &vec![n as f32; 2 * n as usize]);
                    let y = f.call(&[&x]).expect("it runs").remove(0);
                    assert_eq!(y.shape(), [n, 2]);
                    let row = [4.0 * n as f32 + 0.5, (6.0 * n as f32 - 100.0).max(0.0)];
                    assert_eq!(y.as_f32(), Some(&row.repeat(n as usize)[..]));
                }
            });
        }
    });
}

#[test]
fn what_bound_weights_make_by_themselves_is_made_anew_for_others() {
    // Two products side by side: sixteen rows are cheaper by both weights in one.
    let text = "record W { a: f32[256, 64] from \"a\", b: f32[256, 64] from \"b\" }\n\
        fn f<n>(x: f32[n, 64], w: W) -> f32[n, 256] { relu(x @ w.a.T) * (x @ w.b.T) }\n";
    let filled = |rows: i64, x: f32| floats(&[rows, 64], &vec![x; 64 * rows as usize]);
    let f = Module::from_text("f.tn", text).and_then(|m| m.function("f")).expect("it is right");
    let f = f.bind("w.a", filled(256, 1.0)).and_then(|f| f.bind("w.b", filled(256, 2.0))).expect("they fit");
    let other = f.clone().bind("w.b", filled(256, 3.0)).expect("it fits");
    for _ in 0..2 {
        for (f, want) in [(&f, 64.0 * 128.0), (&other, 64.0 * 192.0)] {
            let y = f.call(&[&filled(16, 1.0)]).expect("it runs").remove(0);
            assert!(y.as_f32().is_some_and(|y| y.iter().all(|v| *v == want)), "{want}");
        }
    }
    // Weights that are given at each call are those of that call.
    let open = Module::from_text("f.tn", text).and_then(|m| m.function("f")).expect("it is right");
    let y = open.call(&[&filled(16, 1.0), &filled(256, 1.0), &filled(256, 0.5)]).expect("it runs").remove(0);
    assert!(y.as_f32().is_some_and(|y| y.iter().all(|v| *v == 64.0 * 32.0)));
}

#[test]
fn weights_come_from_a_file_by_the_paths_of_a_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("l.safetensors");
    let (w, b) = (floats(&[2, 1], &[1.0, 2.0]), floats(&[1], &[0.25]));
    let bytes = tensor::safetensors::write([("w", &w), ("b", &b)]).expect("it can be written");
    std::fs::write(&path, bytes).expect("a file");
    let f = Module::from_text("layer.tn", TEXT).and_then(|m| m.main()).expect("it is right");
    let bound = f.clone().bind_weights("l", &path).expect("the file has them");
    let open: Vec<String> = bound
        .parameters()
        .into_iter()
        .filter(|p| !p.bound)
        .map(|p| format!("{}: {}", p.name, p.ty))
        .collect();
    assert_eq!(open, ["x: f32[n, k]"]);
    let y = bound.call_named(&[("x", &floats(&[1, 2], &[1.0, 2.0]))]).expect("it runs");
    assert_eq!(y[0].as_f32(), Some(&[5.25][..]));
    let e = f.bind_weights("nobody", &path).expect_err("there is no such record");
    assert_eq!((e.codes(), e.to_string().contains("no record `nobody`")), (&["E0601"][..], true), "{e}");
}

#[test]
fn a_compiled_program_answers_as_its_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("layer.tnx");
    let mut sources = driver::pipeline::sources();
    let id = sources.add("layer.tn", TEXT);
    let mut front = driver::pipeline::front(sources, &[id]).expect("it is right");
    let options = driver::Options::default();
    let entry = driver::pipeline::entry(&mut front, None).expect("there is one");
    let compilation = driver::pipeline::compile(&front, &[entry], &options).expect("it compiles");
    let package = driver::pipeline::package(&compilation);
    vm::tnx::write(&path, &vm::tnx::encode(&package).expect("it has a form")).expect("a file");
    for trust_native in [false, true] {
        let module =
            Module::open_with(&path, Options { trust_native, threads: Some(1), ..Options::default() });
        let f = layer(&module.expect("it loads"));
        let y = f.call(&[&floats(&[1, 2], &[1.0, 1.0])]).expect("it runs");
        assert_eq!(y[0].as_f32(), Some(&[4.5, 0.0][..]), "trusted: {trust_native}");
    }
    std::fs::write(&path, "TENONX").expect("a file");
    let e = Module::open(&path).expect_err("it is cut off");
    assert!(e.to_string().contains("cut off"), "{e}");
}

#[test]
fn faults_are_values_and_leave_a_function_as_it_was() {
    let module = Module::from_text("layer.tn", TEXT).expect("it is right");
    let f = layer(&module);
    let x = floats(&[1, 2], &[1.0, 1.0]);
    let said = |e: tenon::Error| (e.codes().to_vec(), e.to_string());
    let (codes, text) = said(f.call(&[&floats(&[1, 3], &[0.0; 3])]).expect_err("3 is not 2"));
    assert_eq!(codes, ["E0601"], "{text}");
    let (codes, text) = said(f.call(&[]).expect_err("x is needed"));
    assert!(codes == ["E0601"] && text.contains("x: f32[n, k]"), "{text}");
    let (codes, text) = said(f.call_named(&[]).expect_err("x is needed"));
    assert!(codes == ["E0603"] && text.contains("layer needs x"), "{text}");
    let (codes, text) = said(f.clone().bind("x", Tensor::scalar_i(DType::I64, 1)).expect_err("no matrix"));
    assert_eq!(codes, ["E0601"], "{text}");
    let limits = Limits { memory: Some(1), ..Limits::default() };
    let (codes, text) = said(f.call_within(vec![(&x).into()], &limits).expect_err("one byte is too few"));
    assert!(codes == ["E0602"] && text.contains("memory"), "{text}");
    let (codes, text) = said(module.function("nobody").expect_err("there is none"));
    assert_eq!(codes, ["E0605"], "{text}");
    assert_eq!(f.call(&[&x]).expect("it runs")[0].as_f32(), Some(&[4.5, 0.0][..]));
}
