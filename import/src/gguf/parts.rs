//! GGUF in numbered parts: `NAME-00001-of-00003.gguf` and so on, each a file with tensors of its own.
//!
//! The first part holds the metadata. Whichever part is opened, all are read.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{File, read};
use crate::Error;

/// What the name of a part says.
#[derive(PartialEq, Eq, Debug)]
struct Part<'a> {
    stem: &'a str,
    number: u64,
    of: u64,
}

/// The part that a name stands for, if it does.
fn part(path: &Path) -> Option<Part<'_>> {
    let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, of) = name.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits =
        |s: &str| if s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit()) { s.parse().ok() } else { None };
    Some(Part { stem, number: digits(number)?, of: digits(of)? })
}

/// Reads a file, and where it is a part all others with it.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    let opened = read(path)?;
    let Some(count) = whole(path, &opened.metadata, "split.count")?.filter(|n| *n > 1) else {
        return Ok(opened);
    };
    let Some(named) = part(path).filter(|p| p.of == count) else {
        let what = format!("is one of {count} parts, and its name does not end in -00001-of-{count:05}.gguf");
        return Err(Error::file(path, what));
    };
    let mut opened = Some(opened);
    let mut all: Option<File> = None;
    for number in 1..=count {
        let at = path.with_file_name(format!("{}-{number:05}-of-{count:05}.gguf", named.stem));
        let file = match opened.take_if(|_| number == named.number) {
            Some(file) => file,
            None => read(&at)?,
        };
        for (key, want) in [("split.count", count), ("split.no", number - 1)] {
            let said = whole(&at, &file.metadata, key)?;
            if said != Some(want) {
                let said = said.map_or("missing".into(), |n| n.to_string());
                return Err(Error::file(&at, format!("`{key}` is {said}; by its name it is {want}")));
            }
        }
        match &mut all {
            None => all = Some(file),
            Some(all) => all.tensors.extend(file.tensors),
        }
    }
    let Some(all) = all else { return Err(Error::file(path, "has no parts")) };
    let said = whole(path, &all.metadata, "split.tensors.count")?;
    if let Some(n) = said.filter(|n| *n != all.tensors.len() as u64) {
        let what = format!("its parts should hold {n} tensors, and hold {}", all.tensors.len());
        return Err(Error::file(path, what));
    }
    Ok(all)
}

/// A whole number of the metadata, if the key is there.
fn whole(path: &Path, metadata: &Map<String, Value>, key: &str) -> Result<Option<u64>, Error> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    match value.as_u64() {
        Some(n) => Ok(Some(n)),
        None => Err(Error::file(path, format!("`{key}` is no whole number"))),
    }
}

/// The file to open of several, if they are one model: there is only one, or they are all parts of one.
pub fn only_one(files: &[PathBuf]) -> Option<&Path> {
    let first = files.first()?;
    let one = part(first);
    let same = |f: &PathBuf| match (&one, part(f)) {
        (Some(a), Some(b)) => a.stem == b.stem && a.of == b.of,
        _ => false,
    };
    (files.len() == 1 || files.iter().all(same)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_understood() {
        let path = Path::new("a/m-q4-00002-of-00003.gguf");
        assert_eq!(part(path), Some(Part { stem: "m-q4", number: 2, of: 3 }));
        for other in
            ["m.gguf", "m-2-of-3.gguf", "m-00002-of-00003.bin", "-of-00001.gguf", "m-+0002-of-00003.gguf"]
        {
            assert_eq!(part(Path::new(other)), None, "{other}");
        }
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert!(only_one(&files(&["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])).is_some());
        assert!(only_one(&files(&["m-00001-of-00002.gguf", "n-00002-of-00002.gguf"])).is_none());
        assert!(only_one(&files(&["a.gguf", "b.gguf"])).is_none());
        assert!(only_one(&files(&["a.gguf"])).is_some());
    }
}
