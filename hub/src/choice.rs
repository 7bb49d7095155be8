//! Which files of a repository a checkpoint is made of.

use std::collections::BTreeSet;

use import::INDEX;

use super::{Sibling, is_path, is_plain};

/// The files beside weights that are wanted where they are there.
const SMALL: [&str; 18] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

/// A file that is wanted: what the repository says of it, and its name here.
#[derive(Clone)]
pub(super) struct Wanted<'a> {
    pub(super) sibling: &'a Sibling,
    pub(super) name: &'a str,
}

/// Where the weights are.
pub(super) enum Weights<'a> {
    /// In these files.
    Files(Vec<Wanted<'a>>),
    /// In the files that this index names.
    Index(Wanted<'a>),
}

impl<'a> Weights<'a> {
    /// The files that are known so far.
    pub(super) fn files(&self) -> Vec<Wanted<'a>> {
        match self {
            Weights::Files(files) => files.clone(),
            Weights::Index(index) => vec![index.clone()],
        }
    }

    /// Whether a file is the index, which names more.
    pub(super) fn is_index(&self, file: &Wanted<'_>) -> bool {
        matches!(self, Weights::Index(index) if index.name == file.name)
    }
}

/// The name that a file has here. Weights that a pattern names stand in the folder itself, wherever they were.
pub(super) fn name(s: &Sibling) -> &str {
    if is_of_module(&s.path) { &s.path } else { s.path.rsplit('/').next().unwrap_or(&s.path) }
}

/// Whether a file is the config of a module of sentence-transformers: `1_Pooling/config.json`.
fn is_of_module(path: &str) -> bool {
    let number = |folder: &str| folder.split_once('_').is_some_and(|(n, _)| n.parse::<u8>().is_ok());
    path.split_once('/')
        .is_some_and(|(folder, file)| file == "config.json" && is_plain(folder) && number(folder))
}

/// A file of the repository's own folder by its name.
fn named<'a>(all: &'a [Sibling], name: &str) -> Option<Wanted<'a>> {
    all.iter().find(|s| s.path == name).map(|s| Wanted { sibling: s, name: &s.path })
}

/// Configs and the tokenizer's files.
pub(super) fn small(all: &[Sibling]) -> Vec<Wanted<'_>> {
    let modules = all.iter().filter(|s| is_of_module(&s.path)).map(|s| Wanted { sibling: s, name: &s.path });
    SMALL.iter().filter_map(|name| named(all, name)).chain(modules).collect()
}

/// The weights: by the pattern, or else those that stand for the whole.
pub(super) fn weights<'a>(all: &'a [Sibling], pattern: Option<&str>) -> Result<Weights<'a>, String> {
    if let Some(pattern) = pattern {
        return by_pattern(all, pattern).map(Weights::Files);
    }
    if let Some(index) = named(all, INDEX) {
        return Ok(Weights::Index(index));
    }
    let ending = |end: &str| -> Vec<Wanted<'a>> {
        let own = all.iter().filter(|s| is_plain(&s.path) && s.path.ends_with(end));
        own.map(|s| Wanted { sibling: s, name: &s.path }).collect()
    };
    let files = ending(".safetensors");
    let (model, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| f.name.starts_with("model"));
    let files = if model.is_empty() { others } else { model };
    if !files.is_empty() {
        return Ok(Weights::Files(files));
    }
    let files = ending(".gguf");
    if import::only_one(&files.iter().map(|f| f.name.into()).collect::<Vec<_>>()).is_some() {
        return Ok(Weights::Files(files));
    }
    match listed(all) {
        None => Err("holds neither .safetensors nor .gguf files".into()),
        Some(list) => Err(format!("holds several models; a pattern must say which: {list}")),
    }
}

/// The files that an index names.
pub(super) fn shards(all: &[Sibling], names: BTreeSet<String>) -> Result<Vec<Wanted<'_>>, String> {
    let found = |name: &String| {
        named(all, name)
            .filter(|f| is_plain(f.name))
            .ok_or_else(|| format!("{INDEX} names `{name}`, which is not there"))
    };
    names.iter().map(found).collect()
}

fn by_pattern<'a>(all: &'a [Sibling], pattern: &str) -> Result<Vec<Wanted<'a>>, String> {
    let weights = all.iter().filter(|s| is_weights(&s.path) && is_path(&s.path));
    let fits = weights.filter(|s| matches(pattern.as_bytes(), s.path.as_bytes()));
    let files: Vec<Wanted<'a>> = fits.map(|s| Wanted { sibling: s, name: name(s) }).collect();
    let mut names = BTreeSet::new();
    if let Some(twice) = files.iter().find(|f| !names.insert(f.name)) {
        return Err(format!("the pattern `{pattern}` fits several files of the name {}", twice.name));
    }
    if files.is_empty() {
        let list = listed(all).unwrap_or_else(|| "none".into());
        return Err(format!("the pattern `{pattern}` fits no weights; there are {list}"));
    }
    Ok(files)
}

fn is_weights(path: &str) -> bool {
    path.ends_with(".safetensors") || path.ends_with(".gguf")
}

/// The weights of a repository, by their paths.
fn listed(all: &[Sibling]) -> Option<String> {
    const SHOWN: usize = 60;
    let paths: Vec<&str> = all.iter().map(|s| s.path.as_str()).filter(|p| is_weights(p)).collect();
    match paths.len() {
        0 => None,
        n if n > SHOWN => Some(format!("{} and {} more", paths[..SHOWN].join(", "), n - SHOWN)),
        _ => Some(paths.join(", ")),
    }
}

/// Whether a text fits a pattern, in which `*` is any text and `?` any byte.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star is, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, until)) = star else { return false };
                star = Some((at, until + 1));
                p = at + 1;
                t = until + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        let fits = |p: &str, t: &str| matches(p.as_bytes(), t.as_bytes());
        for (pattern, text) in
            [("*Q4*", "m-Q4_K.gguf"), ("a?c", "abc"), ("*", ""), ("a*b*c", "a-bb-c"), ("", "")]
        {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("Q4*", "m-Q4"), ("a?c", "ac"), ("?", ""), ("a*b", "a-b-"), ("", "x")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
