//! One file of a repository, brought into a folder.

use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiRepo, Metadata};

use super::choice::Wanted;
use super::record::Record;
use super::{Error, PLACE, Progress, at, is_plain, said};

/// How often a file is asked for before the call gives up.
const TRIES: usize = 3;

/// Where files that are complete wait for the others, in the place of what is not complete.
pub(super) const READY: &str = "ready";

/// A file that is here.
pub(super) struct Fetched {
    name: String,
    /// Its path in the folder.
    path: PathBuf,
    /// Where it waits to be put there; none if it is there.
    ready: Option<PathBuf>,
}

impl Fetched {
    /// Where it can be read now.
    pub(super) fn now(&self) -> &Path {
        self.ready.as_deref().unwrap_or(&self.path)
    }
}

/// Puts what is ready into the folder. What it replaces goes first, and what is not `current` any more: a folder never
/// holds a mixture of commits that looks whole.
pub(super) fn settle(
    record: &mut Record,
    into: &Path,
    all: &[Fetched],
    current: &dyn Fn(&str, &str) -> bool,
) -> Result<(), Error> {
    let waiting = || all.iter().filter_map(|f| Some((f, f.ready.as_ref()?)));
    let replaced: Vec<String> = waiting().map(|(f, _)| f.name.clone()).collect();
    let stale = record.take_stale(current);
    for path in replaced.iter().chain(&stale).map(|name| into.join(name)) {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(at(&path, e)),
            _ => {}
        }
    }
    record.settle(&replaced)?;
    for (f, ready) in waiting() {
        std::fs::rename(ready, &f.path).map_err(|e| at(&f.path, e))?;
    }
    record.none_is_ready()
}

/// The files' paths in the folder.
pub(super) fn paths(all: Vec<Fetched>) -> Vec<PathBuf> {
    all.into_iter().map(|f| f.path).collect()
}

/// What all files have in common.
pub(super) struct Fetch<'a> {
    pub(super) api: &'a Api,
    /// The repository at the commit.
    pub(super) repo: &'a ApiRepo,
    pub(super) name: &'a str,
    pub(super) into: &'a Path,
    pub(super) commit: &'a str,
    pub(super) progress: &'a dyn Fn(Progress<'_>),
}

impl Fetch<'_> {
    fn wrong(&self, file: &Wanted<'_>, what: impl std::fmt::Display) -> Error {
        Error::Hub { repo: self.name.to_owned(), what: format!("{}: {what}", file.sibling.path) }
    }

    /// Sees that a file is in the folder, or ready to be put there. `place` is its number, and the number of all.
    pub(super) fn file(
        &self,
        record: &mut Record,
        file: &Wanted<'_>,
        place: (usize, usize),
    ) -> Result<Fetched, Error> {
        let contents = file.sibling.contents(self.commit);
        let whole = |len: u64| file.sibling.size.is_none_or(|size| size == len);
        let path = self.into.join(file.name);
        let ready = self.into.join(PLACE).join(READY).join(file.name);
        if let Ok(here) = std::fs::symlink_metadata(&path) {
            let Some(known) = record.contents(file.name) else {
                return Err(at(&path, format!("is there, and did not come from {}", self.name)));
            };
            if known == contents && whole(here.len()) {
                self.tell(file, (here.len(), here.len()), place);
                return Ok(Fetched { name: file.name.to_owned(), path, ready: None });
            }
        }
        match std::fs::metadata(&ready) {
            Ok(m) if record.ready(file.name) == Some(contents) && whole(m.len()) => {
                self.tell(file, (m.len(), m.len()), place);
            }
            found => {
                let from = self.download(file, place)?;
                // Whenever this is cut off, the name is either free or that of a complete file with these contents.
                if found.is_ok() {
                    std::fs::remove_file(&ready).map_err(|e| at(&ready, e))?;
                }
                record.set_ready(file.name, contents)?;
                std::fs::rename(&from, &ready).map_err(|e| at(&ready, e))?;
            }
        }
        Ok(Fetched { name: file.name.to_owned(), path, ready: Some(ready) })
    }

    fn tell(&self, file: &Wanted<'_>, (done, total): (u64, u64), (number, files): (usize, usize)) {
        (self.progress)(Progress { file: file.name, done, total, number, files });
    }

    /// Downloads all of a file, beside the folder's files; where it then is.
    fn download(&self, file: &Wanted<'_>, place: (usize, usize)) -> Result<PathBuf, Error> {
        let folder = self.into.join(PLACE);
        if file.sibling.size == Some(0) {
            let empty = folder.join("empty");
            std::fs::write(&empty, "").map_err(|e| at(&empty, e))?;
            self.tell(file, (0, 0), place);
            return Ok(empty);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let e = match self.attempt(file, place) {
                Ok(whole) => return Ok(whole),
                Err(e) => e,
            };
            if tries == TRIES {
                return Err(e);
            }
        }
    }

    /// Asks once, behind what is already there.
    fn attempt(&self, file: &Wanted<'_>, place: (usize, usize)) -> Result<PathBuf, Error> {
        let path = &file.sibling.path;
        let metadata = self.api.metadata(&self.repo.url(path));
        let metadata = metadata.map_err(|e| self.wrong(file, said(&e, self.commit)))?;
        let size = metadata.size() as u64;
        // These become names of files. `W/` says that the bytes may come compressed.
        let etag = metadata.etag();
        if !is_plain(etag.strip_prefix("W/").unwrap_or(etag)) || !is_plain(metadata.commit_hash()) {
            return Err(self.wrong(file, "the answer's `etag` or commit is no name"));
        }
        if let Some(said) = file.sibling.size.filter(|said| *said != size) {
            return Err(self.wrong(file, format!("has {size} bytes, and {said} in the list of files")));
        }
        let folder = self.into.join(PLACE);
        let part = part(&folder, self.name, &metadata);
        // One that is whole, or longer, was cut off before it was renamed, or is not what it should be.
        if part.metadata().is_ok_and(|m| m.len() >= size) {
            std::fs::remove_file(&part).map_err(|e| at(&part, e))?;
        }
        let steps = Steps { tell: &|done| self.tell(file, (done, size), place), done: 0 };
        let pointer = self.repo.download_with_progress(path, steps);
        let pointer = pointer.map_err(|e| self.wrong(file, said(&e, self.commit)))?;
        let whole = pointer.canonicalize().map_err(|e| at(&pointer, e))?;
        std::fs::remove_file(&pointer).map_err(|e| at(&pointer, e))?;
        let len = whole.metadata().map_err(|e| at(&whole, e))?.len();
        if len == size {
            return Ok(whole);
        }
        std::fs::remove_file(&whole).map_err(|e| at(&whole, e))?;
        Err(self.wrong(file, format!("{len} bytes came, of {size}")))
    }
}

/// Where hf-hub keeps what it has of a file.
fn part(folder: &Path, repo: &str, metadata: &Metadata) -> PathBuf {
    let cache = folder.join(format!("models--{}", repo.replace('/', "--")));
    cache.join("blobs").join(metadata.etag()).with_extension("part")
}

/// Adds up what has come.
struct Steps<'a> {
    tell: &'a dyn Fn(u64),
    done: u64,
}

impl hf_hub::api::Progress for Steps<'_> {
    fn init(&mut self, _size: usize, _filename: &str) {
        self.done = 0;
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        (self.tell)(self.done);
    }

    fn finish(&mut self) {}
}
