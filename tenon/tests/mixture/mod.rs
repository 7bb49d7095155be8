//! A model of no library, in a folder that is made: it has a part kept by token, one of a window, and one kept by
//! sequence.

#![expect(clippy::disallowed_methods, reason = "the tests write models")]

use std::path::PathBuf;

use tenon::Tensor;
use tenon::llm::{Load, Model};
use tensor::safetensors;

pub(crate) const TEXT: &str = r#"
#[serves("Mixture")]
config {
    hidden: dim from "hidden_size"
    heads: dim
    head = hidden / heads
    vocab: dim from "vocab_size"
    layers: dim from "num_layers"
    window: dim from "sliding_window" = 0
    context: i64 from "context" = 4096
    decay: f32 = 0.5
}

record Layer {
    q: any[hidden, hidden] from "q.{i}"
    k: any[hidden, hidden] from "k.{i}"
}

record Model {
    words: any[vocab, hidden] from "words"
    layers: [Layer; layers]
}

/// A running mean of each sequence.
record Mean<n, d, slots, s> {
    mean: f32[n, slots, d]
    from: i32[s]
    to: i32[s]
}

state Cache<C: float | encoding> {
    full: Kv<C, layers, heads, head> by token
    near: Kv<C, layers, heads, head> by token within window
    past: Mean<layers, hidden> by sequence
}

/// Each row sees the mean of the rows before it, and is added to it.
prim averaged<t, n, slots, d, s>(
    x: f32[t, d],
    sequence: i32[t],
    own mean: f32[n, slots, d],
    from: i32[s],
    to: i32[s],
    layer: i64,
) -> (mean, y: f32[t, d]) {
    for q in s, j in d {
        let begun = i64(from[q])
        mean[layer, i64(to[q]), j] = if begun >= 0 && begun < slots { mean[layer, begun, j] } else { 0.0 }
    }
    for i in t, j in d {
        let at = i64(to[i64(sequence[i])])
        y[i, j] = x[i, j] + mean[layer, at, j]
        mean[layer, at, j] = mean[layer, at, j] * decay + x[i, j]
    }
}

fn layer<t>(x: f32[t, hidden], w: Layer, i: i64, at: Rows<t>, own cache: Cache) -> (f32[t, hidden], Cache)
where heads >= 1
{
    let q = reshape[t, heads, head](project(x, w.q))
    let k = reshape[t, heads, head](project(x, w.k))
    let full = append_kv(cache.full, i, at, k, q)
    let near = append_kv(cache.near, i, at, k, q)
    let far = reshape[t, heads * head](attend(q, full, i, at))
    let close = reshape[t, heads * head](attend(q, near, i, at, window=window))
    let past = cache.past
    let (mean, y) = averaged(far + close, at.sequence, past.mean, past.from, past.to, i)
    (tanh(y), Cache(full=full, near=near, past=Mean(mean=mean, from=past.from, to=past.to)))
}

fn step<t, r>(tokens: i32[t], at: Rows<t>, last: i32[r], w: Model, own cache: Cache) -> (f32[r, vocab], Cache)
where heads >= 1
{
    var x = embed(w.words, tokens)
    var cache = cache
    for i in layers {
        let (y, next) = layer(x, w.layers[i], i, at, cache)
        x = y
        cache = next
    }
    (project(x[last], w.words), cache)
}
"#;

pub(crate) const VOCAB: usize = 40;

/// A folder that removes itself, with the model and its text.
pub(crate) struct Files(tempfile::TempDir);

pub(crate) fn files() -> Files {
    files_of(16)
}

/// The same with so many numbers a row, half of them a head's.
pub(crate) fn files_of(hidden: i64) -> Files {
    let dir = tempfile::tempdir().expect("there is room");
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("mixture.tn"), TEXT).expect("it is written");
    let config = r#"{ "architectures": ["Mixture"], "hidden_size": HIDDEN, "heads": 2, "vocab_size": 40,
        "num_layers": 2, "sliding_window": 5 }"#;
    let config = config.replace("HIDDEN", &hidden.to_string());
    std::fs::write(at("config.json"), config).expect("it is written");
    let random = |shape: &[i64], seed| {
        let mut t = tensor::generate::random(tenon::DType::F32, shape, seed).expect("it is made");
        // Products are as large whatever the extent of a row.
        let size = 1.6 / (hidden as f64).sqrt();
        (0..t.len()).for_each(|i| t.set_f64(i, t.get_f64(i) * size));
        t
    };
    let names = ["q.0", "q.1", "k.0", "k.1"];
    let mut tensors: Vec<(&str, Tensor)> =
        names.iter().enumerate().map(|(i, n)| (*n, random(&[hidden, hidden], i as u64))).collect();
    tensors.push(("words", random(&[VOCAB as i64, hidden], 9)));
    let bytes = safetensors::write(tensors.iter().map(|(n, t)| (*n, t))).expect("they fit");
    std::fs::write(at("model.safetensors"), bytes).expect("it is written");
    Files(dir)
}

impl Files {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    pub(crate) fn model(&self) -> Model {
        self.keeping("f32").expect("it loads")
    }

    /// The model with keys and values kept so.
    pub(crate) fn keeping(&self, kv: &str) -> Result<Model, tenon::Error> {
        let model = Some(self.path().join("mixture.tn"));
        Model::open_with(self.path(), &Load { model, sequences: 6, kv: kv.to_owned(), ..Load::default() })
    }
}
