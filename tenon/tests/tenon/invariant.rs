//! What `#[invariant]` promises: the bits of a row of a result do not depend on how many rows there are, on how a batch
//! is cut, or on threads. Each program takes rows as `x` (or as what is called so); all rows in one call on one thread
//! are what other batches are held against.

use rewrites::Choose;
use tenon::{DType, Function, Module, Options, Tensor};
use tensor::generate::random;

/// Rows of a batch, from the first to behind the last.
const BATCHES: [(i64, i64); 14] = [
    (0, 1),
    (1, 2),
    (0, 2),
    (5, 8),
    (0, 7),
    (8, 16),
    (0, 23),
    (3, 27),
    (0, 25),
    (100, 149),
    (0, 64),
    (7, 136),
    (299, 300),
    (250, 300),
];
const ALL: i64 = 300;

fn function(text: &str, invariant: bool, threads: usize) -> Function {
    chosen(text, invariant, threads, Choose::Cheapest)
}

/// The same by a plan of other equal terms.
fn chosen(text: &str, invariant: bool, threads: usize, choose: Choose) -> Function {
    let mut options = Options { threads: Some(threads), ..Options::default() };
    options.compile.invariant = invariant;
    options.compile.plan.choose = choose;
    let module = Module::from_text_with("f.tn", text, options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module.function("f").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Some rows of a tensor.
fn rows(t: &Tensor, (from, to): (i64, i64)) -> Tensor {
    let mut shape = t.shape().to_vec();
    let row = t.bytes().len() / shape[0].max(1) as usize;
    shape[0] = to - from;
    let bytes = &t.bytes()[from as usize * row..to as usize * row];
    Tensor::from_bytes(t.dtype(), &shape, bytes).expect("they are rows")
}

fn call(f: &Function, args: &[(String, Tensor)]) -> Vec<Tensor> {
    let args: Vec<(&str, &Tensor)> = args.iter().map(|(n, t)| (n.as_str(), t)).collect();
    f.call_named(&args).unwrap_or_else(|e| panic!("{e}"))
}

/// Random arguments for the parameters that are not bound. Those that begin with `x` have a row for each of the batch.
fn arguments(given: &[(&str, DType, &[i64])]) -> Vec<(String, Tensor)> {
    let one = |(i, (name, dtype, shape)): (usize, &(&str, DType, &[i64]))| {
        let t = random(*dtype, shape, i as u64 + 1).expect("it has a shape");
        ((*name).to_owned(), t)
    };
    given.iter().enumerate().map(one).collect()
}

/// Where the first row differs, of all batches on one, two and three threads; and of all rows by other plans of those
/// that regimes may be made of.
fn differs(text: &str, invariant: bool, given: &[(&str, DType, &[i64])]) -> Option<String> {
    let all = arguments(given);
    let (own, weights): (Vec<_>, Vec<_>) = all.into_iter().partition(|(n, _)| n.starts_with('x'));
    let bound = |threads, choose| {
        let f = chosen(text, invariant, threads, choose);
        weights.iter().fold(f, |f, (n, t)| f.bind(n, t.clone()).unwrap_or_else(|e| panic!("{e}\n{text}")))
    };
    let want = call(&bound(1, Choose::Cheapest), &own);
    let others = [Choose::Dearest, Choose::Random(1)].into_iter();
    for choose in others.filter(|_| invariant || text.contains("#[invariant]")) {
        let got = call(&bound(2, choose), &own);
        if got.iter().zip(&want).any(|(got, want)| got.bytes() != want.bytes()) {
            return Some(format!("a plan of {choose:?}"));
        }
    }
    for threads in [1, 2, 3] {
        let f = bound(threads, Choose::Cheapest);
        for batch in BATCHES {
            let part: Vec<_> = own.iter().map(|(n, t)| (n.clone(), rows(t, batch))).collect();
            for (got, want) in call(&f, &part).iter().zip(&want) {
                if got.bytes() != rows(want, batch).bytes() {
                    return Some(format!("rows {batch:?} on {threads} threads"));
                }
            }
        }
    }
    None
}

fn holds(text: &str, given: &[(&str, DType, &[i64])]) {
    let marked = format!("#[invariant]\n{text}");
    for (text, all) in [(text, true), (&marked, false)] {
        assert_eq!(differs(text, all, given), None, "{text}");
    }
}

use DType::{Bf16, F16, F32, I8};

#[test]
fn products_by_matrices_that_are_given() {
    let given: [(&str, DType, &[i64]); 2] = [("x", F32, &[ALL, 100]), ("w", F32, &[100, 72])];
    holds("fn f<n, k, m>(x: f32[n, k], w: f32[k, m]) -> f32[n, m] { x @ w }", &given);
    let given: [(&str, DType, &[i64]); 2] = [("x", F32, &[ALL, 100]), ("w", F32, &[72, 100])];
    holds("fn f<n, k, m>(x: f32[n, k], w: f32[m, k]) -> f32[n, m] { x @ w.T }", &given);
    let given: [(&str, DType, &[i64]); 3] = [("x", F32, &[ALL, 100]), ("w", F32, &[100]), ("u", F32, &[])];
    holds("fn f<n, k>(x: f32[n, k], w: f32[k], u: f32) -> f32[n] { x @ w * u + 1.0 }", &given);
}

#[test]
fn products_by_weights_in_panels() {
    let text = "record W { a: f32[64, 700] from \"a\", b: f32[96, 64] from \"b\", c: f32[64] from \"c\" }\n";
    let own = "fn f<n>(x: f32[n, 700], w: W) -> f32[n, 96] { relu(x @ w.a.T + w.c) @ w.b.T }";
    let given: [(&str, DType, &[i64]); 4] =
        [("x", F32, &[ALL, 700]), ("w.a", F32, &[64, 700]), ("w.b", F32, &[96, 64]), ("w.c", F32, &[64])];
    assert_eq!(differs(&format!("{text}{own}"), true, &given), None);
    assert_eq!(differs(&format!("{text}#[invariant]\n{own}"), false, &given), None);
}

#[test]
fn products_of_halves() {
    let given: [(&str, DType, &[i64]); 2] = [("x", Bf16, &[ALL, 90]), ("w", Bf16, &[90, 64])];
    holds("fn f<n, k, m>(x: bf16[n, k], w: bf16[k, m]) -> bf16[n, m] { x @ w }", &given);
    holds("fn f<n, k, m>(x: bf16[n, k], w: bf16[k, m]) -> f32[n, m] { f32(x) @ f32(w) }", &given);
    let given: [(&str, DType, &[i64]); 2] = [("x", Bf16, &[ALL, 90]), ("w", Bf16, &[64, 90])];
    holds("fn f<n, k, m>(x: bf16[n, k], w: bf16[m, k]) -> f32[n, m] { f32(x) @ f32(w.T) }", &given);
    let text = "record W { a: bf16[64, 900] from \"a\" }\nfn f<n>(x: bf16[n, 900], w: W) -> f32[n, 64] { f32(x) @ f32(w.a).T }";
    let given: [(&str, DType, &[i64]); 2] = [("x", Bf16, &[ALL, 900]), ("w.a", Bf16, &[64, 900])];
    assert_eq!(differs(text, true, &given), None);
}

#[test]
fn products_by_weights_of_few_bits() {
    let given: [(&str, DType, &[i64]); 3] =
        [("x", F32, &[ALL, 640]), ("w.scale", F16, &[64, 20]), ("w.q", I8, &[64, 20, 32])];
    let product = "fn f<n, m, k>(x: f32[n, k], w: q8_0[m, k]) -> f32[n, m] { x @ w.T }";
    holds(product, &given);
    holds(
        "fn f<n, m, k>(x: f32[n, k], w: q8_0[m, k]) -> f32[n, m] { matmul_q8_0(quantize_q8_0(x), w) }",
        &given,
    );
    let of_weights = |kind: &str, value: &str| {
        format!(
            "record W {{ a: {kind}[64, 640] from \"a\" }}\nfn f<n>(x: f32[n, 640], w: W) -> f32[n, 64] {{ {value} }}"
        )
    };
    let four = DType::U8;
    for (kind, q, dtype) in [("q8_0", &[64_i64, 20, 32], I8), ("q4_0", &[64, 20, 16], four)] {
        let given: [(&str, DType, &[i64]); 3] =
            [("x", F32, &[ALL, 640]), ("w.a.scale", F16, &[64, 20]), ("w.a.q", dtype, q)];
        assert_eq!(differs(&of_weights(kind, "x @ w.a.T"), true, &given), None, "{kind}");
        let by_blocks = format!("matmul_{kind}(quantize_q8_0(x), w.a)");
        assert_eq!(differs(&of_weights(kind, &by_blocks), true, &given), None, "{kind}");
    }
}

#[test]
fn what_is_done_along_rows() {
    let given: [(&str, DType, &[i64]); 2] = [("x", F32, &[ALL, 130]), ("w", F32, &[130])];
    for value in [
        "rms_norm(x, w, 0.00001)",
        "layer_norm(x, w, w)",
        "softmax(x * w)",
        "sum(x, axis=1, keepdims=true) * w",
        "mean(exp(x) * w, axis=1, keepdims=true) + x",
        "sigmoid(x * w) * tanh(x) + gelu(x)",
        "logsumexp(x * w, axis=1)[:, newaxis] * w",
    ] {
        holds(&format!("fn f<n, k>(x: f32[n, k], w: f32[k]) -> f32[n, k] {{ {value} }}"), &given);
    }
}

#[test]
fn layers_of_a_network() {
    let given: [(&str, DType, &[i64]); 6] = [
        ("x", F32, &[ALL, 40]),
        ("norm", F32, &[40]),
        ("gate", F32, &[112, 40]),
        ("up", F32, &[112, 40]),
        ("down", F32, &[40, 112]),
        ("bias", F32, &[40]),
    ];
    holds(
        "fn f<n, k, h>(x: f32[n, k], norm: f32[k], gate: f32[h, k], up: f32[h, k], down: f32[k, h], bias: f32[k]) -> f32[n, k] {\n\
         let y = rms_norm(x, norm, 0.00001)\n\
         x + (silu(y @ gate.T) * (y @ up.T)) @ down.T + bias\n}",
        &given,
    );
}

/// A function of rows that are put through random steps.
fn random_rows(seed: u64) -> String {
    const STEPS: [&str; 12] = [
        "rms_norm(y, w, 0.00001)",
        "layer_norm(y, w, w)",
        "softmax(y)",
        "y @ m",
        "y @ m.T",
        "relu(y @ m + w)",
        "silu(y @ m.T) * (y @ m)",
        "y * w + x",
        "y - mean(y, axis=1, keepdims=true)",
        "tanh(y) * x - y",
        "y / (1.0 + sum(abs(y * w), axis=1, keepdims=true))",
        "exp(y - max(y, axis=1, keepdims=true))",
    ];
    let mut r = tensor::generate::Rng::new(seed);
    let steps = 3 + r.below(4);
    let lines: String = (0..steps).map(|_| format!("let y = {}\n", STEPS[r.below(12) as usize])).collect();
    format!("fn f<n, k>(x: f32[n, k], w: f32[k], m: f32[k, k]) -> f32[n, k] {{\nlet y = x\n{lines}y\n}}")
}

#[test]
fn random_functions_of_rows() {
    let given: [(&str, DType, &[i64]); 3] =
        [("x", F32, &[ALL, 45]), ("w", F32, &[45]), ("m", F32, &[45, 45])];
    for seed in 0..10 {
        let text = random_rows(seed);
        assert_eq!(differs(&text, true, &given), None, "seed {seed}\n{text}");
    }
}

#[test]
fn rows_differ_where_nothing_is_promised() {
    // So the comparison can fail: a tree for few rows, a sum in order for many.
    let given: [(&str, DType, &[i64]); 2] = [("x", F32, &[ALL, 100]), ("w", F32, &[72, 100])];
    let text = "fn f<n, k, m>(x: f32[n, k], w: f32[m, k]) -> f32[n, m] { x @ w.T }";
    assert!(differs(text, false, &given).is_some());
}

#[test]
fn plans_as_text_and_compiled_files_keep_the_promise() {
    let text = "#[invariant]\nfn f<n, k, m>(x: f32[n, k], w: f32[m, k]) -> f32[n, m] { softmax(x @ w.T) }";
    let mut sources = driver::pipeline::sources();
    let id = sources.add("f.tn", text);
    let mut front = driver::pipeline::front(sources, &[id]).expect("it is right");
    let options = driver::Options::default();
    let (plan, _) = driver::pipeline::plan(&front.module, &options);
    let plan = driver::stage::plan_text(&plan, &front.files);
    // The function, the product and the softmax.
    assert_eq!(plan.matches("#[invariant]").count(), 3, "{plan}");
    let given: [(&str, DType, &[i64]); 2] = [("x", F32, &[ALL, 100]), ("w", F32, &[72, 100])];
    assert_eq!(differs(&plan, false, &given), None, "{plan}");

    let entry = driver::pipeline::entry(&mut front, None).expect("there is one");
    let compilation = driver::pipeline::compile(&front, &[entry], &options).expect("it compiles");
    let package = driver::pipeline::package(&compilation);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.tnx");
    vm::tnx::write(&path, &vm::tnx::encode(&package).expect("it has a form")).expect("a file");
    let module = Module::open_with(&path, Options { threads: Some(2), ..Options::default() });
    let again = module.and_then(|m| m.main()).expect("it loads");
    let args = arguments(&given);
    let want = call(&function(text, false, 1), &args);
    for batch in BATCHES {
        let part = [("x".to_owned(), rows(&args[0].1, batch)), args[1].clone()];
        assert_eq!(call(&again, &part)[0].bytes(), rows(&want[0], batch).bytes(), "{batch:?}");
    }
}

/// Queries in chunks against the keys so far.
fn chunked(text: &str, invariant: bool, kv: [i64; 2]) -> Option<String> {
    let [heads, d] = kv;
    let all = arguments(&[
        ("q", F32, &[ALL, 4 * heads, d]),
        ("k", F32, &[ALL, heads, d]),
        ("v", F32, &[ALL, heads, d]),
    ]);
    let want = call(&function(text, invariant, 1), &all);
    for threads in [1, 2, 3] {
        let f = function(text, invariant, threads);
        for chunk in [1, 7, 64] {
            let mut from = 0;
            while from < ALL {
                let to = (from + chunk).min(ALL);
                let part: Vec<_> = all
                    .iter()
                    .map(|(n, t)| (n.clone(), rows(t, (if n == "q" { from } else { 0 }, to))))
                    .collect();
                if call(&f, &part)[0].bytes() != rows(&want[0], (from, to)).bytes() {
                    return Some(format!("queries {from}..{to} on {threads} threads"));
                }
                from = to;
            }
        }
    }
    None
}

#[test]
fn queries_of_a_prefill_are_those_of_its_chunks() {
    let text =
        "fn f<m, n, h, g, d>(q: f32[m, 4 * g, d], k: f32[n, g, d], v: f32[n, g, d]) -> f32[m, 4 * g, d] {\n\
                attention(q, k, v, causal=true)\n}"
            .replace("h, ", "");
    for kv in [[2, 32], [1, 24]] {
        assert_eq!(chunked(&text, true, kv), None);
        assert_eq!(chunked(&format!("#[invariant]\n{text}"), false, kv), None);
    }
    assert!(chunked(&text, false, [2, 32]).is_some(), "tiles and rows add up alike");
}

const LLAMA: &str = include_str!("../../../examples/06_llama.tn");

/// A decoder's step over a pool of pages: arguments for rows `from..to` of one sequence.
fn step(
    f: &Function,
    weights: &[(String, Tensor)],
    pool: [Tensor; 2],
    (from, to): (i64, i64),
) -> Vec<Tensor> {
    let numbers = |dtype: DType, x: &dyn Fn(i64) -> i64| {
        let mut t = Tensor::zeros(dtype, &[to - from]).expect("it fits");
        (from..to).for_each(|i| t.set_i64((i - from) as usize, x(i)));
        t
    };
    let mut table = Tensor::zeros(DType::I32, &[1, 6]).expect("it fits");
    (0..6).for_each(|i| table.set_i64(i, (5 - i) as i64));
    let [k, v] = pool;
    let mut args = weights.to_vec();
    args.extend([
        ("tokens".to_owned(), numbers(DType::I64, &|i| (i * 7) % 31)),
        ("at.sequence".to_owned(), numbers(DType::I32, &|_| 0)),
        ("at.position".to_owned(), numbers(DType::I32, &|i| i)),
        ("cache.full.table".to_owned(), table),
        ("cache.full.k".to_owned(), k),
        ("cache.full.v".to_owned(), v),
    ]);
    call(f, &args)
}

/// Where a prefill in chunks, the last of them single tokens, differs from one in a single call.
fn decoded(invariant: bool) -> Option<String> {
    const ROWS: i64 = 44;
    let [hidden, heads, kv, head, ffn, layers, vocab] = [32_i64, 4, 2, 8, 64, 2, 31];
    let mut weights = arguments(&[
        ("w.words", F32, &[vocab, hidden]),
        ("w.layers.norm1", F32, &[layers, hidden]),
        ("w.layers.q", F32, &[layers, heads * head, hidden]),
        ("w.layers.k", F32, &[layers, kv * head, hidden]),
        ("w.layers.v", F32, &[layers, kv * head, hidden]),
        ("w.layers.o", F32, &[layers, hidden, heads * head]),
        ("w.layers.norm2", F32, &[layers, hidden]),
        ("w.layers.gate", F32, &[layers, ffn, hidden]),
        ("w.layers.up", F32, &[layers, ffn, hidden]),
        ("w.layers.down", F32, &[layers, hidden, ffn]),
        ("w.norm", F32, &[hidden]),
        ("w.out", F32, &[vocab, hidden]),
    ]);
    let pool = || [(); 2].map(|()| Tensor::zeros(F32, &[layers, 6, 8, kv, head]).expect("it fits"));
    let mut want = None;
    for threads in [1, 2, 3] {
        let mut options = Options { threads: Some(threads), ..Options::default() };
        options.compile.invariant = invariant;
        let module = Module::from_text_with("llama.tn", LLAMA, options).expect("the example is right");
        let f = module.function("step").expect("it compiles");
        // What the checkpoint's config says, where it is asked.
        let config = [("heads", heads), ("kv_heads", kv), ("head", head)];
        if threads == 1 {
            let asked: Vec<String> = f.parameters().into_iter().map(|p| p.name).collect();
            let known = config.iter().filter(|(n, _)| asked.iter().any(|a| a == n));
            weights.extend(known.map(|(n, x)| ((*n).to_owned(), Tensor::scalar_i(DType::I64, *x))));
            weights.push(("eps".to_owned(), Tensor::scalar_f(F32, 1e-5)));
            weights.push(("theta".to_owned(), Tensor::scalar_f(F32, 100.0)));
        }
        let want = want.get_or_insert_with(|| step(&f, &weights, pool(), (0, ROWS)).remove(0));
        for chunks in
            [&[(0, 1), (1, 8), (8, 40), (40, 41), (41, 42), (42, 44)][..], &[(0, 33), (33, 34), (34, 44)]]
        {
            let mut kept = pool();
            for &chunk in chunks {
                let mut got = step(&f, &weights, kept, chunk);
                if got[0].bytes() != rows(want, chunk).bytes() {
                    return Some(format!("rows {chunk:?} on {threads} threads"));
                }
                let v = got.remove(2);
                kept = [got.remove(1), v];
            }
        }
    }
    None
}

#[test]
fn decoding_goes_on_as_a_prefill_of_all() {
    assert_eq!(decoded(true), None);
    assert!(decoded(false).is_some(), "the example's kernels are those of any batch");
}

/// Sequences that an encoder takes as a whole, alone and beside others, in tiles and across them.
#[test]
fn sequences_as_a_whole() {
    const LENGTHS: [i64; 9] = [1, 3, 64, 65, 130, 7, 70, 16, 5];
    let text = "#[invariant]\nfn f<t, s>(x: f32[t, 3, 40], sequence: i32[t], first: i32[s], count: i32[s]) \
                -> (f32[t, 3, 40], f32[s, 120], f32[s, 120]) {\n\
                let y = attention_spans(x, x * 0.5, x + 1.0, sequence, first, count)\nlet z = reshape[t, 120](y)\n\
                (y, span_mean(z, first, count), span_max(z, first, count))\n}";
    let all = random(F32, &[LENGTHS.iter().sum(), 3, 40], 5).expect("it has a shape");
    let ints = |values: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect();
        Tensor::from_bytes(DType::I32, &[values.len() as i64], &bytes).expect("they fit")
    };
    let first = |at: usize| LENGTHS[..at].iter().sum::<i64>();
    // Of some sequences one behind the other.
    let run = |f: &Function, from: usize, to: usize| {
        let x = rows(&all, (first(from), first(to)));
        let of: Vec<i64> = (from..to).flat_map(|s| vec![(s - from) as i64; LENGTHS[s] as usize]).collect();
        let begins: Vec<i64> = (from..to).map(|s| first(s) - first(from)).collect();
        f.call(&[&x, &ints(&of), &ints(&begins), &ints(&LENGTHS[from..to])]).unwrap_or_else(|e| panic!("{e}"))
    };
    let want = run(&function(text, false, 1), 0, LENGTHS.len());
    for threads in [1, 2, 3] {
        let f = function(text, false, threads);
        for (from, to) in [(0, 1), (2, 3), (3, 5), (4, 5), (5, 9), (0, 9), (1, 8), (8, 9)] {
            let got = run(&f, from, to);
            assert_eq!(got[0].bytes(), rows(&want[0], (first(from), first(to))).bytes(), "{from}..{to}");
            for pooled in [1, 2] {
                assert_eq!(got[pooled].bytes(), rows(&want[pooled], (from as i64, to as i64)).bytes());
            }
        }
    }
}
