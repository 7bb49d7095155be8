//! A model from its files: text, weights, vocabulary, template.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use driver::Front;
use driver::model::Binding;
use driver::progress::{Progress, Watch};
use ir::origin::Value;
use text::{Extra, Template, Tokenizer};

use super::engine::Engine;
use super::statistics::Statistics;
use super::{kept, library};
use crate::{Checkpoint, Error, Function, Module, Notes, Options};

/// How a model is loaded.
#[derive(Clone, Debug)]
pub struct Load {
    /// How its program is compiled. It is invariant: a row's logits do not depend on what is computed beside it.
    pub options: Options,
    /// A text of one's own for it, in the place of the library's.
    pub model: Option<PathBuf>,
    /// Values of the config that stand before the checkpoint's.
    pub config: BTreeMap<String, String>,
    /// The element type of keys and values: `f32`, `bf16`, `f16`, or `int8`, which is 8 bits and scales. An encoding of
    /// the library or of the model's text is one too.
    pub kv: String,
    /// How matrices are stored, if not as the checkpoint has them: `f32`, `bf16`, `q8_0`, `q4_0`, `q4_k`.
    pub quant: Option<String>,
    /// The most tokens of all sequences together; none: what the model was made for.
    pub context: Option<usize>,
    /// The most sequences.
    pub sequences: usize,
    /// The most bytes of weights, of what sequences keep, and of a step. A model that needs more is not loaded; a step
    /// that would is ended. None: what the system gives.
    pub memory: Option<u64>,
    /// It will be given texts: without a vocabulary a model is not loaded.
    pub texts: bool,
}

impl Load {
    /// The same, with who is told how far loading is.
    pub fn watched(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Load {
        self.options.compile.watch = Watch::new(tell);
        self
    }
}

impl Default for Load {
    fn default() -> Load {
        let mut options = Options::default();
        options.compile.invariant = true;
        Load {
            options,
            model: None,
            config: BTreeMap::new(),
            kv: "f32".to_owned(),
            quant: None,
            context: None,
            sequences: 8,
            memory: None,
            texts: false,
        }
    }
}

/// A language model, ready to answer.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    engine: Mutex<Engine>,
    tokenizer: Result<Arc<Tokenizer>, Error>,
    template: Result<Template, String>,
    config: BTreeMap<String, Value>,
    context: usize,
    notes: Notes,
}

/// What a model whose config says nothing of it was made for.
const CONTEXT: usize = 2048;

impl Model {
    /// A model from a folder of Hugging Face, a `.gguf` file, or a text (`.tn`) beside either.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::open_with(path, &Load::default())
    }

    /// As [`open`](Model::open), with options.
    pub fn open_with(path: impl AsRef<Path>, load: &Load) -> Result<Model, Error> {
        let (checkpoint, load) = &opened(path.as_ref(), load)?;
        let tokenizer = tokenizer(checkpoint)?.map(Arc::new).ok_or_else(|| no_tokenizer(checkpoint));
        if let (true, Err(e)) = (load.texts, &tokenizer) {
            return Err(e.clone());
        }
        super::estimate::affordable(checkpoint, load)?;
        let step = entry(checkpoint, load, "step", "tokens that go on behind a text")?;
        let config = step.config().clone();
        let notes = step.notes().clone();
        let context = context(&step, load);
        let engine = Engine::new(step, context, load.sequences)?.within(load.memory);
        let path = checkpoint.path().to_owned();
        let template = template(checkpoint).map_err(|e| format!("{}: {e}", path.display()));
        Ok(Model { path, engine: Mutex::new(engine), tokenizer, template, config, context, notes })
    }

    /// What runs its steps.
    pub fn engine(&self) -> std::sync::MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What it did, and what it holds.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// How many tokens there are.
    pub fn vocab(&self) -> usize {
        self.engine().vocab()
    }

    /// The tokens that end an answer; none where there is no vocabulary.
    pub fn ends(&self) -> &[u32] {
        self.tokenizer.as_ref().map_or(&[], |t| t.ends())
    }

    /// Its vocabulary.
    pub fn tokenizer(&self) -> Result<&Arc<Tokenizer>, Error> {
        self.tokenizer.as_ref().map_err(Clone::clone)
    }

    /// The folder or file that it is from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokens of a text, with what begins one.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.tokenizer()?
            .encode(text, true, true)
            .map_err(|e| fault(&format!("{}: {e}", self.path.display())))
    }

    /// The tokens of a conversation, up to where the model answers.
    pub fn conversation(&self, turns: &[(&str, &str)]) -> Result<Vec<u32>, Error> {
        let turns: Vec<(String, String)> =
            turns.iter().map(|(r, c)| ((*r).to_owned(), (*c).to_owned())).collect();
        super::chat::prompt(self, &turns)
    }

    /// How a conversation is written for it.
    pub fn template(&self) -> Result<&Template, Error> {
        self.template.as_ref().map_err(|e| Error::message("E0604", e.clone()))
    }

    /// The values of its config, by the names of its text.
    pub fn config(&self) -> &BTreeMap<String, Value> {
        &self.config
    }

    /// What is to be known of how it was loaded.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The most tokens of a sequence.
    pub fn context(&self) -> usize {
        self.context
    }
}

/// The checkpoint that a path leads to. A text is that of the model in its folder, and is loaded in the place of any
/// other.
pub(crate) fn opened(path: &Path, load: &Load) -> Result<(Checkpoint, Load), Error> {
    let mut load = load.clone();
    let at = place(path, &mut load)?;
    Ok((Checkpoint::open(at).map_err(|e| fault(&e))?, load))
}

/// Where the checkpoint is that a path leads to, which may be a text beside it.
fn place<'p>(path: &'p Path, load: &mut Load) -> Result<&'p Path, Error> {
    Ok(if path.extension().is_some_and(|e| e == "tn") {
        // What is missing is said of the text, and not of its folder.
        if !path.is_file() {
            return Err(fault(&format!("{}: there is no such file", path.display())));
        }
        load.model.get_or_insert_with(|| path.to_owned());
        path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
    } else {
        path
    })
}

/// An entry of the text of a checkpoint's model, bound to it. It is for models that give `what`.
pub(crate) fn entry(checkpoint: &Checkpoint, load: &Load, name: &str, what: &str) -> Result<Function, Error> {
    let key = kept::key(checkpoint, load, name);
    if let Some(key) = &key
        && let Some(function) = kept::find(key, checkpoint, load, &crate::module::pool(&load.options)?)
    {
        return biases_known(checkpoint, function);
    }
    let front = library::program(checkpoint, load.model.as_deref())?;
    let how = binding(&front, load);
    let module = Module::from_front(front, load.options.clone())?;
    if !module.defines(name) {
        let classes = checkpoint.classes();
        let who = classes.first().map_or("the model", String::as_str);
        let other = [
            ("step", "`tenon generate` goes on behind a text"),
            ("encode", "`tenon embed` makes vectors of texts"),
            ("score", "`tenon rerank` scores pairs of texts"),
        ];
        let other = other.iter().find(|(entry, _)| module.defines(entry)).map_or("", |(_, says)| *says);
        let hint = if other.is_empty() { String::new() } else { format!("; {other} with it") };
        let text = format!("{who} gives no {what}: its text has no function `{name}`{hint}");
        return Err(Error::message("E0605", text));
    }
    let function = module.model_with(name, checkpoint, &how, |made| {
        if let Some(key) = &key {
            kept::keep(key, checkpoint, load, made);
        }
    })?;
    biases_known(checkpoint, function)
}

/// The function, unless the checkpoint has biases that it does not read.
fn biases_known(checkpoint: &Checkpoint, function: Function) -> Result<Function, Error> {
    if let Some(bias) = function.notes().unread.iter().find(|t| is_bias(t)) {
        let path = checkpoint.path().display();
        let text =
            format!("{path}: the model's text does not know `{bias}`, without which results are others");
        return Err(Error::message("E0605", text));
    }
    Ok(function)
}

/// True for a bias of a product in a layer.
fn is_bias(tensor: &str) -> bool {
    const ENDS: [&str; 8] = [
        "_proj.bias",
        "attn_q.bias",
        "attn_k.bias",
        "attn_v.bias",
        "attn_output.bias",
        "ffn_gate.bias",
        "ffn_up.bias",
        "ffn_down.bias",
    ];
    let in_layer = ["model.layers.", "blk."].iter().any(|begin| tensor.starts_with(begin));
    in_layer && ENDS.iter().any(|end| tensor.ends_with(end))
}

/// How a program is bound to a checkpoint.
pub(crate) fn binding(front: &Front, load: &Load) -> Binding {
    let mut config = load.config.clone();
    // What a model makes of its context (which factors its positions have) is for the one it will have.
    let known = front.module.settings.iter().any(|s| s.name.name() == "context");
    if let (Some(n), true) = (load.context, known) {
        config.insert("context".to_owned(), n.to_string());
    }
    Binding { config, kept: load.kv.clone(), quant: load.quant.clone(), threads: load.options.threads }
}

/// The most tokens of a sequence: what was asked for, or else what the model was made for.
pub(crate) fn context(entry: &Function, load: &Load) -> usize {
    context_of(entry.config(), load)
}

/// The same, by the values of a config.
pub(crate) fn context_of(config: &BTreeMap<String, Value>, load: &Load) -> usize {
    let made_for = config.get("context").and_then(Value::as_i64).and_then(|n| usize::try_from(n).ok());
    load.context.or(made_for).unwrap_or(CONTEXT)
}

fn fault(e: &dyn std::fmt::Display) -> Error {
    Error::message("E0604", e.to_string())
}

/// The tokens of a text, as the vocabulary of a checkpoint has them.
pub fn tokenize(path: impl AsRef<Path>, text: &str) -> Result<Vec<u32>, Error> {
    let at = place(path.as_ref(), &mut Load::default())?;
    let checkpoint = Checkpoint::open_texts(at).map_err(|e| fault(&e))?;
    let path = checkpoint.path().display();
    let tokenizer = tokenizer(&checkpoint)?.ok_or_else(|| no_tokenizer(&checkpoint))?;
    tokenizer.encode(text, true, true).map_err(|e| fault(&format!("{path}: {e}")))
}

/// What is said where a vocabulary is needed.
pub(crate) fn no_tokenizer(checkpoint: &Checkpoint) -> Error {
    let path = checkpoint.path();
    let other = ["tokenizer.model", "spiece.model", "vocab.txt", "vocab.json"];
    let other = other.into_iter().find(|name| path.join(name).is_file());
    let text = match other {
        Some(name) => format!("{name} is not read; tokenizer.json is needed"),
        None if path.is_file() => {
            "it has no vocabulary, which texts need; --ids takes tokens themselves".to_owned()
        }
        None => "there is no tokenizer.json, which texts need; --ids takes tokens themselves".to_owned(),
    };
    Error::message("E0604", format!("{}: {text}", path.display()))
}

/// The vocabulary of a checkpoint; none where it has none.
pub(crate) fn tokenizer(checkpoint: &Checkpoint) -> Result<Option<Tokenizer>, Error> {
    let path = checkpoint.path().display().to_string();
    let wrong = |e: text::Error| Error::message("E0604", format!("{path}: {e}"));
    if checkpoint.config().contains_key(GGUF_VOCABULARY) {
        if has_none(checkpoint) {
            return Ok(None);
        }
        return Tokenizer::from_gguf(checkpoint.config()).map(Some).map_err(wrong);
    }
    let Some(bytes) = checkpoint.file_bytes("tokenizer.json").map_err(|e| fault(&e))? else {
        return Ok(None);
    };
    let json = |name: &str| -> Result<Option<serde_json::Value>, Error> {
        let Some(text) = checkpoint.file_text(name).map_err(|e| fault(&e))? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|e| fault(&format!("{path}: {name}: {e}")))
    };
    let config = json("tokenizer_config.json")?;
    let special = json("special_tokens_map.json")?;
    let generation = checkpoint.generation_config().cloned().map(serde_json::Value::Object);
    // What ends an answer is said by the model's own config too.
    let generation = generation.or_else(|| Some(serde_json::Value::Object(checkpoint.config().clone())));
    let extra = Extra {
        config: config.as_ref(),
        special_tokens_map: special.as_ref(),
        generation_config: generation.as_ref(),
    };
    Tokenizer::from_json(&bytes, &extra).map(Some).map_err(wrong)
}

/// The key of GGUF that says which kind of vocabulary there is.
const GGUF_VOCABULARY: &str = "tokenizer.ggml.model";

/// True of a file that says of itself that it has none.
fn has_none(checkpoint: &Checkpoint) -> bool {
    let kind = checkpoint.config().get(GGUF_VOCABULARY).and_then(serde_json::Value::as_str);
    matches!(kind, Some("none" | "no_vocab"))
}

fn template(checkpoint: &Checkpoint) -> Result<Template, String> {
    if checkpoint.config().contains_key(GGUF_VOCABULARY) {
        return Template::from_gguf(checkpoint.config()).map_err(|e| e.to_string());
    }
    if let Some(text) = checkpoint.file_text("chat_template.jinja").map_err(|e| e.to_string())? {
        return Template::new(&text).map_err(|e| e.to_string());
    }
    let text = checkpoint.file_text("tokenizer_config.json").map_err(|e| e.to_string())?;
    let text = text.ok_or("the checkpoint has no chat template")?;
    let config: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    Template::from_config(&config, None).map_err(|e| e.to_string())
}
