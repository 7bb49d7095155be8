//! A model in a folder of its own: text, weights, config, vocabulary.
//!
//! In goes what can be opened, out comes a folder that can be: `model.tn` with the files it uses, one file of weights
//! in the format they had (`model.safetensors` or `model.gguf`), and of a folder all that is no weights. Tensors keep
//! their names; those that the text does not read are left out, and matrices are stored as was asked. What is opened
//! from there gives the bits that the original gives, opened with the same options.

#![expect(clippy::disallowed_methods, reason = "an import copies files")]

use std::fs;
use std::path::{Path, PathBuf};

use driver::model::{Bound, Kept};
use driver::model_library;
use driver::progress::Step;
use driver::{Checkpoint, Failure, Front};
use ir::source::SourceMap;

use super::library::{self, OWN};
use super::model::{self, Load};
use crate::Error;

/// What an import wrote.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Their bytes.
    pub bytes: u64,
    /// The tensors that were left out: the text does not read them.
    pub unread: Vec<String>,
    /// The matrices, by their paths, and the tensors that are not stored as was asked.
    pub unencoded: Vec<String>,
}

/// The ends of names of files that hold weights, or say where they are.
const WEIGHTS: [&str; 12] = [
    ".safetensors",
    ".safetensors.index.json",
    ".gguf",
    ".bin",
    ".bin.index.json",
    ".pt",
    ".pth",
    ".onnx",
    ".h5",
    ".msgpack",
    ".ot",
    ".npz",
];

/// Writes the model that a path leads to into a folder. `load` says its text and how matrices are stored. A folder in
/// which something is already is filled only where `over` says so.
pub fn import(path: impl AsRef<Path>, load: &Load, into: &Path, over: bool) -> Result<Imported, Error> {
    let (checkpoint, load) = &model::opened(path.as_ref(), load)?;
    let front = library::program(checkpoint, load.model.as_deref())?;
    let name = library::entry(&front)?;
    let how = model::binding(&front, load);
    let (front, bound) = crate::module::deep(move || {
        let mut bound_to = front.clone();
        match driver::model::bind(&mut bound_to, name, checkpoint, &how) {
            Ok(bound) => Ok((front, bound)),
            Err(f) => Err((bound_to.sources, f)),
        }
    })?;
    let texts = texts(&front)?;
    prepared(checkpoint, into, over)?;
    let (weights, unencoded) = weights(checkpoint, &bound, load, into)?;
    let mut files = vec![weights];
    for (name, text) in &texts {
        files.push(written(&into.join(name), text.as_bytes())?);
    }
    if let Some(folder) = checkpoint.folder() {
        for from in others(folder)? {
            let name = from.strip_prefix(folder).unwrap_or(&from);
            let bytes = fs::read(&from).map_err(|e| fault(&from, e))?;
            files.push(written(&into.join(name), &bytes)?);
        }
    }
    check(into, name, load)?;
    files.sort();
    let bytes = files.iter().filter_map(|f| Some(f.metadata().ok()?.len())).sum();
    Ok(Imported { files, bytes, unread: bound.unread, unencoded })
}

fn fault(at: &Path, what: impl std::fmt::Display) -> Error {
    Error::message("E0604", format!("{}: {what}", at.display()))
}

/// The texts of a program, by their places in a folder. The first is the model's.
fn texts(front: &Front) -> Result<Vec<(PathBuf, String)>, Error> {
    let of = |f: &ir::ast::File| {
        let source = front.sources.get(f.source);
        (PathBuf::from(&source.name), source.text.clone())
    };
    let Some((root, text)) = front.files.own.first().map(of) else { return Ok(Vec::new()) };
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    let mut out = vec![(PathBuf::from(OWN), text)];
    for (path, text) in front.files.modules.iter().map(of) {
        // What the library gave has its name there.
        let library = model_library::read(&path).is_some_and(|f| f.text.as_ref() == Ok(&text));
        let from = if library { Path::new(model_library::FOLDER) } else { &folder };
        let inside =
            path.strip_prefix(from).map_err(|_| fault(&path, "lies beside the folder of its model"))?;
        if inside == Path::new(OWN) {
            return Err(fault(&path, format!("a file that a model uses is not named {OWN}")));
        }
        out.push((inside.to_owned(), text));
    }
    Ok(out)
}

/// Makes the folder, or asks whether it may be filled. An earlier import in it gives way.
fn prepared(checkpoint: &Checkpoint, into: &Path, over: bool) -> Result<(), Error> {
    fs::create_dir_all(into).map_err(|e| fault(into, e))?;
    let here = fs::canonicalize(into).map_err(|e| fault(into, e))?;
    let same = |p: &Path| fs::canonicalize(p).is_ok_and(|p| p == here);
    let inside = checkpoint.files().iter().any(|f| f.parent().is_some_and(same));
    if inside || checkpoint.folder().is_some_and(same) {
        return Err(fault(into, "the checkpoint itself is there: an import needs a folder of its own"));
    }
    if fs::read_dir(into).map_err(|e| fault(into, e))?.next().is_none() {
        return Ok(());
    }
    if !over {
        return Err(fault(into, "is not empty; --force writes into it all the same"));
    }
    let names =
        [::import::file_name(::import::Format::Gguf), ::import::file_name(::import::Format::Safetensors)];
    for old in names.into_iter().chain([::import::INDEX, OWN]).map(|n| into.join(n)) {
        match fs::remove_file(&old) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fault(&old, e)),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the tensors; gives the file, and what is not stored as was asked.
fn weights(
    checkpoint: &Checkpoint,
    bound: &Bound,
    load: &Load,
    into: &Path,
) -> Result<(PathBuf, Vec<String>), Error> {
    crate::module::deep(|| {
        let options = &load.options.compile;
        let go = || -> Result<(PathBuf, Vec<String>), Failure> {
            let (kept, left) = bound.kept(checkpoint, options)?;
            let reader = bound.reader(checkpoint, options)?;
            let of = |k: &Kept| {
                let shape = checkpoint.tensor(&k.name).map_or_else(|_| Vec::new(), |t| t.shape().to_vec());
                let (name, kind) = (k.name.clone(), k.kind.clone());
                ::import::Place { name, kind, shape, turned: k.turned }
            };
            let places: Vec<::import::Place> = kept.iter().map(of).collect();
            let (mut done, total) = (0, places.iter().map(size).sum());
            let to = into.join(::import::file_name(checkpoint.format()));
            let written = ::import::write(checkpoint, &to, &places, &mut |i| {
                options.watch.tell(Step::Write, done, total);
                done += size(&places[i]);
                reader.bytes(&kept[i])
            });
            written.map_err(|e| Failure::data(e.to_string()))?;
            options.watch.tell(Step::Write, total, total);
            let unencoded = bound.unencoded.iter().cloned().chain(left).collect();
            Ok((to, unencoded))
        };
        go().map_err(|f| (SourceMap::default(), f))
    })
}

fn size(p: &::import::Place) -> u64 {
    let count: i64 = p.shape.iter().product();
    let size = ::import::layout(&p.kind).and_then(|l| l.size(usize::try_from(count).ok()?));
    size.map_or(0, |n| n as u64)
}

/// The files of a folder that hold no weights and no text of a model: configs, vocabularies, licences. Those of the
/// modules of sentence-transformers lie in folders of their own.
fn others(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = |at: &Path| -> Result<Vec<PathBuf>, Error> {
        let all = fs::read_dir(at).map_err(|e| fault(at, e))?;
        let mut all: Vec<PathBuf> =
            all.map(|f| f.map(|f| f.path())).collect::<Result<_, _>>().map_err(|e| fault(at, e))?;
        all.sort();
        Ok(all)
    };
    let mut out = Vec::new();
    for path in list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let config = path.join("config.json");
            if folder.join("modules.json").is_file() && config.is_file() {
                out.push(config);
            }
            continue;
        }
        let is_text = path.extension().is_some_and(|e| e == "tn");
        let is_small = path.metadata().is_ok_and(|m| m.is_file() && m.len() <= ::import::MAX_FILE);
        if !name.starts_with('.') && !is_text && is_small && !WEIGHTS.iter().any(|end| name.ends_with(end)) {
            out.push(path);
        }
    }
    Ok(out)
}

fn written(path: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| fault(path, e))?;
    fs::write(path, bytes).map_err(|e| fault(path, e))?;
    Ok(path.to_owned())
}

/// Binds what was written, as whoever opens it will.
fn check(into: &Path, name: &str, load: &Load) -> Result<(), Error> {
    let checkpoint = Checkpoint::open(into).map_err(|e| Error::message("E0604", e.to_string()))?;
    let front = library::program(&checkpoint, Some(&into.join(OWN)))?;
    let how = model::binding(&front, &Load { quant: None, ..load.clone() });
    crate::module::deep(move || {
        let mut front = front;
        let made = driver::model::bind(&mut front, name, &checkpoint, &how);
        made.map(|_| ()).map_err(|f| (front.sources, f))
    })
}
