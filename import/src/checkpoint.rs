//! A checkpoint: whatever a path leads to, as tensors, a config and a name.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::folder::{self, MAX_FILE};
use crate::near::nearest;
use crate::{Error, Shown, Tensor, gguf, safetensors, sentence};

/// How weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `.safetensors` files, alone or in a folder of Hugging Face.
    Safetensors,
    /// A `.gguf` file, or its parts.
    Gguf,
}

/// The files of a model.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    format: Format,
    folder: Option<PathBuf>,
    /// Of GGUF the file that holds the metadata.
    head: Option<PathBuf>,
    tensors: IndexMap<String, Tensor>,
    config: Map<String, Value>,
    generation: Option<Map<String, Value>>,
}

impl Checkpoint {
    /// Opens what a path leads to. Weights are mapped, not read. It may be
    ///
    /// - a folder with `.safetensors` files, and mostly a `config.json`;
    /// - a `.safetensors` file, alone: what is beside it is not looked at;
    /// - a `.gguf` file, or one of its parts: all are read;
    /// - a folder without `.safetensors` files and with one `.gguf`, which may be in parts.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
        let path = path.as_ref();
        let found = std::fs::metadata(path).map_err(|e| {
            if e.kind() == ErrorKind::NotFound && is_repository(path) {
                let what = format!("is not here; `tenon pull {}` downloads it", path.display());
                return Error::file(path, what);
            }
            Error::io(path, e)
        });
        if found?.is_dir() {
            return Checkpoint::of_folder(path);
        }
        match path.extension().and_then(|e| e.to_str()) {
            Some("safetensors") => {
                let tensors = safetensors::read(path)?.into_iter().map(|t| (t.name.clone(), t)).collect();
                Ok(Checkpoint {
                    path: path.to_owned(),
                    format: Format::Safetensors,
                    folder: None,
                    head: None,
                    tensors,
                    config: Map::new(),
                    generation: None,
                })
            }
            Some("gguf") => Checkpoint::of_gguf(path),
            _ => Err(Error::file(path, "is no checkpoint: those are folders, .safetensors and .gguf files")),
        }
    }

    /// As [`open`](Checkpoint::open), but of a folder that has a tokenizer no tensors: there may be no weights in it.
    pub fn open_texts(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
        let path = path.as_ref();
        if !path.join("tokenizer.json").is_file() {
            return Checkpoint::open(path);
        }
        Ok(Checkpoint {
            path: path.to_owned(),
            format: Format::Safetensors,
            folder: Some(path.to_owned()),
            head: None,
            tensors: IndexMap::new(),
            config: folder::object(path, "config.json")?.unwrap_or_default(),
            generation: folder::object(path, "generation_config.json")?,
        })
    }

    fn of_folder(path: &Path) -> Result<Checkpoint, Error> {
        let files = folder::with_extension(path, "safetensors")?;
        // Where there is an index its shards are asked for, and those that are missing are named.
        if files.is_empty() && !path.join(folder::INDEX).is_file() {
            let files = folder::with_extension(path, "gguf")?;
            let Some(file) = gguf::only_one(&files) else {
                return Err(Error::file(path, lacking(path, &files)?));
            };
            let opened = Checkpoint::of_gguf(file)?;
            return Ok(Checkpoint { path: path.to_owned(), folder: Some(path.to_owned()), ..opened });
        }
        let mut config = folder::object(path, "config.json")?.unwrap_or_default();
        sentence::describe(path, &mut config)?;
        Ok(Checkpoint {
            path: path.to_owned(),
            format: Format::Safetensors,
            folder: Some(path.to_owned()),
            head: None,
            tensors: text_names(folder::tensors(path, &files)?, &config),
            config,
            generation: folder::object(path, "generation_config.json")?,
        })
    }

    fn of_gguf(path: &Path) -> Result<Checkpoint, Error> {
        let file = gguf::open(path)?;
        let mut tensors: IndexMap<String, Tensor> = IndexMap::with_capacity(file.tensors.len());
        for tensor in file.tensors {
            if let Some(other) = tensors.get(tensor.name()) {
                let what = format!("{} holds it too", other.file().display());
                return Err(Error::tensor(tensor.file(), tensor.name(), what));
            }
            tensors.insert(tensor.name.clone(), tensor);
        }
        Ok(Checkpoint {
            path: path.to_owned(),
            format: Format::Gguf,
            folder: None,
            head: Some(file.path),
            tensors,
            config: file.metadata,
            generation: None,
        })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, if it is one that was opened.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Of GGUF the file that holds the metadata.
    pub(crate) fn head(&self) -> Option<&Path> {
        self.head.as_deref()
    }

    /// The files that hold its tensors, each once.
    pub fn files(&self) -> Vec<&Path> {
        let all: BTreeSet<&Path> = self.tensors.values().map(Tensor::file).collect();
        all.into_iter().collect()
    }

    /// How the weights are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// All tensors by name: by an index in the order of names, else in that of the files.
    pub fn tensors(&self) -> &IndexMap<String, Tensor> {
        &self.tensors
    }

    /// A tensor by its name; the error of one that is not there tells names that are like it.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, Error> {
        self.tensors.get(name).ok_or_else(|| Error::Unknown {
            path: self.path.clone(),
            tensor: name.to_owned(),
            near: nearest(name, self.tensors.keys().map(String::as_str)),
        })
    }

    /// What the checkpoint says of itself: the object of a folder's `config.json`, or the metadata of GGUF by their
    /// keys. Nothing where there is neither. What sentence-transformers says beside it is there as `modules`,
    /// `pooling`, `sentence` and `sentence_transformers`.
    ///
    /// Of GGUF each key `ARCH.x`, where ARCH is the `general.architecture`, is there as `gguf.x` too. Numbers that JSON
    /// cannot say are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// The object of a folder's `generation_config.json`, beside `.safetensors` files.
    pub fn generation_config(&self) -> Option<&Map<String, Value>> {
        self.generation.as_ref()
    }

    /// Who the checkpoint is, the most exact name first: the `architectures` of a config, then its `model_type`. Of
    /// GGUF it is `gguf:` and the architecture, as in `gguf:llama`.
    pub fn classes(&self) -> Vec<String> {
        let text = |key: &str| self.config.get(key).and_then(Value::as_str);
        match self.format {
            Format::Gguf => text("general.architecture").map(|a| format!("gguf:{a}")).into_iter().collect(),
            Format::Safetensors => {
                let listed = self.config.get("architectures").and_then(Value::as_array);
                let listed = listed.into_iter().flatten().filter_map(Value::as_str);
                listed.chain(text("model_type")).map(str::to_owned).collect()
            }
        }
    }

    /// The text of another file of the folder, such as `tokenizer_config.json`. None if there is no such file, or if
    /// what was opened is a file. Files of more than [`MAX_FILE`] bytes are refused.
    pub fn file_text(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.file_bytes(name)? else { return Ok(None) };
        let at = self.folder.as_deref().unwrap_or(&self.path).join(name);
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|e| Error::file(&at, format!("is no UTF-8: {}", e.utf8_error())))
    }

    /// The bytes of another file of the folder, as for [`Checkpoint::file_text`].
    pub fn file_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.folder.as_deref().map_or(Ok(None), |folder| folder::bytes(folder, name, MAX_FILE))
    }
}

/// What is wrong with a folder without `.safetensors` files and with these `.gguf` files.
fn lacking(path: &Path, files: &[PathBuf]) -> Result<String, Error> {
    if !files.is_empty() {
        return Ok(format!("holds several models; say which: {}", listed(files)));
    }
    if path.join("model_index.json").is_file() {
        return Ok("is a pipeline of diffusers (model_index.json); what is read is a model".to_owned());
    }
    for extension in ["bin", "pt", "pth", "ckpt", "h5", "msgpack", "onnx"] {
        let files = folder::with_extension(path, extension)?;
        let weights = |f: &&PathBuf| {
            let name = f.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            extension != "bin" || ["model", "weights", "adapter"].iter().any(|w| name.contains(w))
        };
        if let Some(name) = files.iter().find(weights).and_then(|f| f.file_name()) {
            let name = name.to_string_lossy();
            let name = Shown(&name);
            return Ok(format!("has only {name}, which is not read; convert it to safetensors"));
        }
    }
    Ok("holds neither .safetensors nor .gguf files".to_owned())
}

/// True for `ORG/NAME`.
fn is_repository(path: &Path) -> bool {
    let plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let model = |e: &std::ffi::OsStr| e == "gguf" || e == "safetensors";
    path.components().count() == 2
        && path.components().all(|p| plain(&p))
        && !path.extension().is_some_and(model)
}

/// The names of some files.
fn listed(files: &[PathBuf]) -> String {
    const SHOWN: usize = 12;
    let names: BTreeSet<String> =
        files.iter().filter_map(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned()).collect();
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// Tensors by the names that a model of texts has for them. One of texts and pictures has that inside, and says so in
/// its config: `language_model.model.norm.weight` or, as it is written today, `model.language_model.norm.weight`.
fn text_names(tensors: IndexMap<String, Tensor>, config: &Map<String, Value>) -> IndexMap<String, Tensor> {
    const OUTER: [(&str, &str); 2] = [("language_model.", ""), ("model.language_model.", "model.")];
    if !config.get("text_config").is_some_and(Value::is_object) {
        return tensors;
    }
    let inner = |name: &String| {
        let found = OUTER.iter().find_map(|(outer, own)| Some(format!("{own}{}", name.strip_prefix(outer)?)));
        found.unwrap_or_else(|| name.clone())
    };
    let mut spellings: IndexMap<String, usize> = IndexMap::new();
    tensors.keys().for_each(|n| *spellings.entry(inner(n)).or_default() += 1);
    // Two spellings of one name are not one tensor: neither is lost.
    let named = |(own, t): (String, Tensor)| {
        let name = Some(inner(&own)).filter(|n| spellings[n] == 1).unwrap_or(own);
        (name.clone(), Tensor { name, ..t })
    };
    tensors.into_iter().map(named).collect()
}
