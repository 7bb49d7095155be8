//! Encoders: whole sequences in, a row of numbers for each out. Nothing is kept between steps.
//!
//! The entry of a model's text is named by who asks: `encode` for vectors, `score` for scores. A step takes sequences
//! one behind the other, without padding, so many rows at most; a longer sequence has a step of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensor::{DType, Tensor};
use text::{Tokenizer, Whole};
use vm::{Arg, Limits, Output};

use super::library;
use super::model::{self, Load};
use crate::{Checkpoint, Error, Function, Notes};

/// Rows of a step.
pub(crate) const ROWS: usize = 1024;

/// A model that takes whole sequences.
#[derive(Debug)]
pub(crate) struct Encoder {
    path: PathBuf,
    entry: Function,
    inputs: Vec<Input>,
    tokenizer: Result<Arc<Tokenizer>, Error>,
    /// The most tokens of a sequence.
    pub(crate) context: usize,
    /// Whether longer ones are cut.
    pub(crate) truncate: bool,
}

/// A parameter of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    Tokens,
    Sequence,
    Position,
    Segment,
    First,
    Count,
}

impl Encoder {
    /// Opens a checkpoint for an entry of its model's text, which is to give `what`.
    pub(crate) fn open(path: &Path, load: &Load, entry: &str, what: &str) -> Result<Encoder, Error> {
        let (checkpoint, load) = &model::opened(path, load)?;
        known_modules(checkpoint)?;
        let tokenizer = model::tokenizer(checkpoint)?.map(Arc::new);
        let tokenizer = tokenizer.ok_or_else(|| model::no_tokenizer(checkpoint));
        // What the model does not give at all is said first, when it is looked for.
        if let (true, Err(e)) = (load.texts, &tokenizer)
            && crate::module::defines(&library::program(checkpoint, load.model.as_deref())?, entry)
        {
            return Err(e.clone());
        }
        super::estimate::affordable(checkpoint, load)?;
        let entry = model::entry(checkpoint, load, entry, what)?;
        let input = |w: &driver::data::Wanted| match w.name.as_str() {
            "tokens" => Ok(Input::Tokens),
            "at.sequence" => Ok(Input::Sequence),
            "at.position" => Ok(Input::Position),
            "segment" => Ok(Input::Segment),
            "spans.first" => Ok(Input::First),
            "spans.count" => Ok(Input::Count),
            _ => Err(unknown(entry.name(), &w.name, &w.ty.to_string())),
        };
        let inputs = entry.open().map(input).collect::<Result<_, _>>()?;
        let context = model::context(&entry, load);
        Ok(Encoder { path: checkpoint.path().to_owned(), entry, inputs, tokenizer, context, truncate: false })
    }

    pub(crate) fn notes(&self) -> &Notes {
        self.entry.notes()
    }

    /// A text, or two as one.
    pub(crate) fn tokens(&self, first: &str, second: Option<&str>) -> Result<Whole, Error> {
        let tokenizer = self.tokenizer.as_ref().map_err(Clone::clone)?;
        let made = tokenizer.whole(first, second, self.context);
        made.map_err(|e| Error::message("E0604", format!("{}: {e}", self.path.display())))
    }

    /// Tokens as a sequence of one segment.
    pub(crate) fn sequence(&self, ids: &[u32]) -> Whole {
        let left = &ids[..ids.len().min(self.context)];
        Whole { ids: left.to_vec(), segments: vec![0; left.len()], length: ids.len() }
    }

    /// What the entry gives for each sequence, in their order.
    pub(crate) fn run(&self, all: &[Whole], limits: &Limits) -> Result<Vec<Vec<f32>>, Error> {
        for sequence in all {
            if sequence.length > self.context && !self.truncate {
                return Err(long(sequence.length, self.context));
            }
            if sequence.ids.is_empty() {
                return Err(Error::message("E0601", "at least one token is needed".to_owned()));
            }
        }
        let vocab = self.entry.config().get("vocab").and_then(ir::origin::Value::as_i64);
        let all_ids = || all.iter().flat_map(|s| &s.ids);
        if let Some(n) = vocab
            && let Some(id) = all_ids().find(|id| i64::from(**id) >= n)
        {
            return Err(Error::message("E0601", format!("token {id} is not in the vocabulary of {n}")));
        }
        let mut out = Vec::new();
        let mut rest = all;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = |s: &&Whole| {
                rows += s.ids.len();
                rows <= ROWS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            out.extend(self.step(now, limits)?);
            rest = later;
        }
        Ok(out)
    }

    fn step(&self, batch: &[Whole], limits: &Limits) -> Result<Vec<Vec<f32>>, Error> {
        let by_row = |f: &dyn Fn(usize, usize) -> i32| -> Vec<i32> {
            let rows = batch.iter().enumerate();
            rows.flat_map(|(s, w)| (0..w.ids.len()).map(move |k| (s, k))).map(|(s, k)| f(s, k)).collect()
        };
        let mut first = Vec::new();
        let mut next = 0;
        for s in batch {
            first.push(next);
            next += s.ids.len() as i32;
        }
        let given = self.inputs.iter().map(|input| {
            let values = match input {
                Input::Tokens => by_row(&|s, k| batch[s].ids[k] as i32),
                Input::Sequence => by_row(&|s, _| s as i32),
                Input::Position => by_row(&|_, k| k as i32),
                Input::Segment => by_row(&|s, k| batch[s].segments[k] as i32),
                Input::First => first.clone(),
                Input::Count => batch.iter().map(|s| s.ids.len() as i32).collect(),
            };
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Ok(Arg::Given(Tensor::from_bytes(DType::I32, &[values.len() as i64], &bytes)?))
        });
        let given = given.collect::<Result<Vec<_>, Error>>()?;
        let result = self.entry.update(given, limits)?.into_iter().next();
        let Some(Output::New(made)) = result else { return Err(self.shapeless()) };
        match (made.as_f32(), made.shape()) {
            (Some(all), &[count, width]) if count == batch.len() as i64 => {
                let width = usize::try_from(width).unwrap_or(0);
                Ok((0..batch.len()).map(|s| all[s * width..(s + 1) * width].to_vec()).collect())
            }
            _ => Err(self.shapeless()),
        }
    }

    fn shapeless(&self) -> Error {
        let text = format!("{} gives a row of f32 for each sequence: f32[s, ..]", self.entry.name());
        Error::message("E0605", text)
    }
}

/// Refuses modules of sentence-transformers that nobody knows: without them vectors would be others.
fn known_modules(checkpoint: &Checkpoint) -> Result<(), Error> {
    // Of those that a model's text does not serve it says so itself.
    const KNOWN: [&str; 4] = ["Transformer", "Pooling", "Normalize", "Dense"];
    let listed = checkpoint.config().get("modules").and_then(serde_json::Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(serde_json::Value::as_str);
    let Some(other) = listed.into_iter().find(|m| !KNOWN.contains(m)) else { return Ok(()) };
    let path = checkpoint.path().join("modules.json");
    let text = format!("{}: a module `{}` is not known", path.display(), import::Shown(other));
    Err(Error::message("E0605", text))
}

fn unknown(entry: &str, name: &str, ty: &str) -> Error {
    let text = format!(
        "{entry} asks for {name}: {ty}; it is given tokens, at.sequence, at.position, segment, spans.first and \
         spans.count"
    );
    Error::message("E0605", text)
}

fn long(length: usize, context: usize) -> Error {
    let text = format!(
        "a text has {length} tokens, and the model takes {context} at most; --truncate cuts it there"
    );
    Error::message("E0601", text)
}
