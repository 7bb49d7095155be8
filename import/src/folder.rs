//! Folders as Hugging Face lays them out: a config, weights in one file or in shards, a tokenizer.
//!
//! With `model.safetensors.index.json` each tensor is read from the file that it says, and no other file is looked at.
//! Without it `model*.safetensors` is read, or where there is none, every `.safetensors` file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Shown;
use crate::{Error, Tensor, json, safetensors};

/// The largest file of a folder that is read as a whole: a tokenizer, a template, an index.
pub const MAX_FILE: u64 = 256 << 20;

/// The largest config that is read. Those of models with many labels have one or two million bytes.
const MAX_CONFIG: u64 = 4 << 20;

/// The file that says where each tensor is.
pub const INDEX: &str = "model.safetensors.index.json";

/// The files of a folder with this extension, in the order of their names. Hidden ones are nobody's weights.
pub(crate) fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
        let at = entry.map_err(|e| Error::io(folder, e))?.path();
        let hidden = at.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if at.extension().is_some_and(|e| e == extension) && !hidden && !at.is_dir() {
            files.push(at);
        }
    }
    files.sort();
    Ok(files)
}

/// The bytes of a file in a folder, no more than `most`; none if there is no such file. The name is one of the folder's
/// own: it leads nowhere else.
pub(crate) fn bytes(folder: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let at = folder.join(name);
    if !is_plain(name) {
        return Err(Error::file(folder, format!("`{}` is no name of a file in it", Shown(name))));
    }
    match std::fs::metadata(&at) {
        Ok(m) if m.is_file() => {}
        Ok(_) => return Err(Error::file(&at, "is not a regular file")),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(&at, e)),
    }
    let mut out = Vec::new();
    let file = File::open(&at).map_err(|e| Error::io(&at, e))?;
    file.take(most + 1).read_to_end(&mut out).map_err(|e| Error::io(&at, e))?;
    if out.len() as u64 > most {
        return Err(Error::file(&at, format!("has more than {most} bytes, which are read at most")));
    }
    no_pointer(&at, &out)?;
    Ok(Some(out))
}

/// Refuses the text that git has in the place of a large file until that is fetched.
pub(crate) fn no_pointer(at: &Path, bytes: &[u8]) -> Result<(), Error> {
    match bytes.starts_with(b"version https://git-lfs") {
        true => Err(Error::file(at, "is a pointer of git-lfs; `git lfs pull` fetches the file")),
        false => Ok(()),
    }
}

/// The object of a JSON file in a folder; none if there is no such file.
pub(crate) fn object(folder: &Path, name: &str) -> Result<Option<Map<String, Value>>, Error> {
    let Some(text) = bytes(folder, name, MAX_CONFIG)? else { return Ok(None) };
    json::object(&folder.join(name), &text).map(Some)
}

/// The list of a JSON file in a folder; none if there is no such file.
pub(crate) fn list(folder: &Path, name: &str) -> Result<Option<Vec<Value>>, Error> {
    let Some(text) = bytes(folder, name, MAX_CONFIG)? else { return Ok(None) };
    json::list(&folder.join(name), &text).map(Some)
}

/// A folder in a folder; none if the name leads elsewhere.
pub(crate) fn within(folder: &Path, name: &str) -> Option<PathBuf> {
    is_plain(name).then(|| folder.join(name))
}

fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

/// The tensors of a folder that holds these `.safetensors` files.
pub(crate) fn tensors(folder: &Path, files: &[PathBuf]) -> Result<IndexMap<String, Tensor>, Error> {
    let Some(index) = bytes(folder, INDEX, MAX_FILE)? else { return without_index(files) };
    by_index(folder, &index)
}

/// The part of an index that is read: the file of each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that an index names. The index is in a folder, under its own name.
pub fn shards(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let path = &folder.join(INDEX);
    let text = bytes(folder, INDEX, MAX_FILE)?.unwrap_or_default();
    let index: Index = serde_json::from_slice(&text).map_err(|e| Error::file(path, e.to_string()))?;
    Ok(index.weight_map.into_values().collect())
}

fn by_index(folder: &Path, text: &[u8]) -> Result<IndexMap<String, Tensor>, Error> {
    let at = folder.join(INDEX);
    let index: Index = serde_json::from_slice(text).map_err(|e| Error::file(&at, e.to_string()))?;
    let mut shards: IndexMap<&str, IndexMap<String, Tensor>> = IndexMap::new();
    let mut all = IndexMap::new();
    for (name, file) in &index.weight_map {
        if !shards.contains_key(file.as_str()) {
            let path = folder.join(file);
            if !is_plain(file) {
                let what = format!("`{}`, where the index says it is, is no file of the folder", Shown(file));
                return Err(Error::tensor(&at, name, what));
            }
            if !path.is_file() {
                let what = format!("the shard is missing; {INDEX} says that it holds `{}`", Shown(name));
                return Err(Error::file(&path, what));
            }
            let tensors = safetensors::read(&path)?;
            shards.insert(file, tensors.into_iter().map(|t| (t.name.clone(), t)).collect());
        }
        let Some(tensor) = shards.get_mut(file.as_str()).and_then(|shard| shard.swap_remove(name)) else {
            let what = format!("is not in the file; {INDEX} says that it is");
            return Err(Error::tensor(&folder.join(file), name, what));
        };
        all.insert(name.clone(), tensor);
    }
    Ok(all)
}

/// Files of the model are `model*.safetensors`. Where there are such, no other is looked at.
fn without_index(files: &[PathBuf]) -> Result<IndexMap<String, Tensor>, Error> {
    let is_model = |f: &&PathBuf| f.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"model"));
    let models: Vec<&PathBuf> = files.iter().filter(is_model).collect();
    let read = if models.is_empty() { files.iter().collect() } else { models };
    let mut all: IndexMap<String, Tensor> = IndexMap::new();
    for path in read {
        for tensor in safetensors::read(path)? {
            if let Some(other) = all.get(tensor.name()) {
                let what =
                    format!("{} holds it too, and there is no {INDEX} that decides", other.file().display());
                return Err(Error::tensor(path, tensor.name(), what));
            }
            all.insert(tensor.name.clone(), tensor);
        }
    }
    Ok(all)
}
