//! The models of the library: `models/*.tn`, inside the binary. A new file there is a new model.

use std::path::{Path, PathBuf};

use driver::model_library;
use driver::{Failure, Front, pipeline};
use ir::ast::{ExprKind, File, ItemKind};
use ir::source::{SourceId, SourceMap};

use import::Format;

use crate::{Checkpoint, Error};

/// The text of a model in its folder: what `tenon import` writes.
pub(crate) const OWN: &str = "model.tn";

/// What names the classes that a file serves.
const SERVES: &str = "serves";

/// The text of a model for one of these classes, of the library or a file of the user's.
pub(crate) fn program(checkpoint: &Checkpoint, file: Option<&Path>) -> Result<Front, Error> {
    front(checkpoint, file).map_err(|(sources, failure)| Error::new(&failure, &sources))
}

/// The function of a model's text that is run: of several the first of these.
pub(crate) fn entry(front: &Front) -> Result<&'static str, Error> {
    let entries = ["step", "encode", "score"];
    entries.into_iter().find(|name| crate::module::defines(front, name)).ok_or_else(|| {
        let text = format!("the model's text has no function of {}", entries.join(", "));
        Error::message("E0605", text)
    })
}

/// The text of a model in the folder of its checkpoint, if there is one.
pub(crate) fn own(checkpoint: &Checkpoint) -> Option<PathBuf> {
    checkpoint.folder().map(|f| f.join(OWN)).filter(|p| p.is_file())
}

/// The same, with the texts that a fault is about. Without a file of the user's it is that in the folder of the
/// checkpoint, if there is one.
pub fn front(checkpoint: &Checkpoint, file: Option<&Path>) -> Result<Front, (SourceMap, Failure)> {
    if let Some(path) = file {
        return crate::module::on_deep_stack(|| driver::open(path));
    }
    if let Some(path) = own(checkpoint) {
        let front = crate::module::on_deep_stack(|| driver::open(&path))?;
        return if calls_libraries(&front) { Err(unnamed(front, &path)) } else { Ok(front) };
    }
    if let Some(how) = quantized(checkpoint) {
        let text = format!("{}: {how}", checkpoint.path().display());
        return Err((SourceMap::default(), Failure::Message { code: "E0605", text }));
    }
    let classes = checkpoint.classes();
    let mut known: Vec<String> = Vec::new();
    // A file that asks for more than the class goes before one that does not.
    let mut best: Option<(usize, SourceMap, SourceId)> = None;
    for (path, text) in model_library::models() {
        let mut sources = pipeline::sources();
        let id = sources.add(path.display().to_string(), text);
        for class in served(&parser::parse(id, text).0) {
            let fits = fit(&class, &classes, checkpoint);
            if fits > best.as_ref().map_or(0, |b| b.0) {
                best = Some((fits, sources.clone(), id));
            }
            known.push(class);
        }
    }
    if let Some((_, sources, id)) = best {
        return crate::module::on_deep_stack(|| pipeline::front_with(sources, &[id], &model_library::read));
    }
    let text = format!("{}; --model FILE.tn gives a text of your own", unserved(checkpoint, &classes, known));
    Err((SourceMap::default(), Failure::Message { code: "E0605", text }))
}

/// True if a text of a program calls functions of shared libraries, which may do anything.
fn calls_libraries(front: &Front) -> bool {
    let files = front.files.own.iter().chain(&front.files.modules);
    files.flat_map(|f| &f.items).any(|i| matches!(i.kind, ItemKind::Extern(_)))
}

/// Whoever opens a folder may not know what its text does.
fn unnamed(front: Front, path: &Path) -> (SourceMap, Failure) {
    let path = path.display();
    let text = format!(
        "{path} calls functions of shared libraries: name it, in the place of its folder, to trust it"
    );
    (front.sources, Failure::Message { code: "E0605", text })
}

/// Why no text serves a checkpoint.
fn unserved(checkpoint: &Checkpoint, classes: &[String], mut known: Vec<String>) -> String {
    const SHOWN: usize = 8;
    let path = checkpoint.path();
    if classes.is_empty() {
        let is_file = path.is_file();
        return match (is_file, checkpoint.format(), path.join("config.json").is_file()) {
            (_, Format::Gguf, _) => format!("{}: `general.architecture` names no model", path.display()),
            (true, ..) => format!("{}: a file alone says no architecture; its folder does", path.display()),
            (.., false) if path.join("model_index.json").is_file() => {
                format!("{} is a pipeline of diffusers (model_index.json), and no model", path.display())
            }
            (.., true) => format!("{}/config.json names no `architectures`", path.display()),
            (.., false) => {
                format!("{} has no config.json, which names the architecture{}", path.display(), inside(path))
            }
        };
    }
    known.sort();
    known.retain(|k| !k.contains('?') && k.starts_with("gguf:") == (checkpoint.format() == Format::Gguf));
    let mut near: Vec<String> = Vec::new();
    for class in classes {
        let found = import::nearest(class, known.iter().map(String::as_str));
        // A kind of model is a part of the name of its class.
        let kind = class.replace('_', "").to_ascii_lowercase();
        let of_kind = known.iter().filter(|k| k.to_ascii_lowercase().contains(&kind)).take(3).cloned();
        let found: Vec<String> = found.into_iter().chain(of_kind).filter(|n| !near.contains(n)).collect();
        near.extend(found);
    }
    let others = known.iter().filter(|k| !near.contains(k)).count();
    let named: Vec<String> = classes.iter().map(|c| import::Shown(c).to_string()).collect();
    let first: Vec<&str> = match near.is_empty() {
        true => known.iter().take(SHOWN).map(String::as_str).collect(),
        false => near.iter().map(String::as_str).collect(),
    };
    let others = if near.is_empty() { others.saturating_sub(SHOWN) } else { others };
    let like = if near.is_empty() { "there are" } else { "names like it are" };
    let path = path.display();
    format!("{path}: no model serves {}; {like} {} and {others} more", named.join(", "), first.join(", "))
}

/// The files of GGUF in a folder, each of which is a model by itself.
fn inside(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|f| f.path());
    let mut gguf: Vec<String> = files
        .filter(|f| f.extension().is_some_and(|e| e == "gguf"))
        .map(|f| f.display().to_string())
        .collect();
    gguf.sort();
    gguf.first().map_or_else(String::new, |f| format!("; {f} is a model by itself"))
}

/// What is said of weights that are stored in a way of their own, which the config names.
fn quantized(checkpoint: &Checkpoint) -> Option<String> {
    const ENDS: [&str; 7] =
        [".qweight", ".qzeros", ".weight_packed", ".absmax", ".weight_scale", ".weight_scale_inv", "_scales"];
    let config = checkpoint.config().get("quantization_config").filter(|c| !c.is_null())?;
    let tensor = checkpoint.tensors().keys().find(|name| ENDS.iter().any(|end| name.ends_with(end)))?;
    let how = config.get("quant_method").and_then(serde_json::Value::as_str).unwrap_or("a way of their own");
    Some(format!(
        "weights are stored as {} (`quantization_config`, `{}`), which is not read; take floats or a GGUF file",
        import::Shown(how),
        import::Shown(tensor)
    ))
}

/// How well a class that is served fits: not at all, or the more, the more is asked. `gguf:llama?gguf.expert_count`
/// asks for a value of the config besides.
fn fit(served: &str, classes: &[String], checkpoint: &Checkpoint) -> usize {
    let (class, key) = served.split_once('?').map_or((served, None), |(c, k)| (c, Some(k)));
    let is_there =
        |k: &str| checkpoint.config().get(k).is_some_and(|v| !v.is_null() && v.as_i64() != Some(0));
    match (classes.iter().any(|c| c == class), key) {
        (false, _) => 0,
        (true, None) => 1,
        (true, Some(key)) => {
            if is_there(key) {
                2
            } else {
                0
            }
        }
    }
}

/// The classes that a file serves.
fn served(file: &File) -> Vec<String> {
    let attrs = file.items.iter().flat_map(|i| &i.attrs).filter(|a| a.name.name.name() == SERVES);
    let text = |a: &ir::ast::Arg| if let ExprKind::Str(s) = &a.value.kind { Some(s.clone()) } else { None };
    attrs.flat_map(|a| &a.args).filter_map(text).collect()
}
