//! One file of a repository, brought into a folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::choice::Wanted;
use super::client::Client;
use super::record::Record;
use super::{Error, PLACE, Progress, at, said};

/// How often a file is asked for before the call gives up.
const TRIES: usize = 3;

/// Where files that are complete wait for the others, in the place of what is not complete.
pub(super) const READY: &str = "ready";

/// Where files are that are not complete, in folders named by their contents.
const PARTS: &str = "parts";

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
        make_folder_of(&f.path)?;
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
    pub(super) client: &'a Client,
    /// The address of the repository at the commit.
    pub(super) from: &'a str,
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
                make_folder_of(&ready)?;
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
        let part = self.into.join(PLACE).join(PARTS).join(file.sibling.contents(self.commit)).join(file.name);
        make_folder_of(&part)?;
        if file.sibling.size == Some(0) {
            std::fs::write(&part, "").map_err(|e| at(&part, e))?;
            self.tell(file, (0, 0), place);
            return Ok(part);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(file, &part, place) {
                Err(e) if tries == TRIES => return Err(e),
                Err(_) => {}
                Ok(()) => return Ok(part),
            }
        }
    }

    /// Asks once, behind what is already there.
    fn attempt(&self, file: &Wanted<'_>, part: &Path, place: (usize, usize)) -> Result<(), Error> {
        let here = |e| at(part, e);
        let mut to = OpenOptions::new().append(true).create(true).open(part).map_err(here)?;
        let mut done = to.metadata().map_err(here)?.len();
        // One that is whole, or longer, was cut off before it was renamed, or is not what it should be.
        if file.sibling.size.is_some_and(|size| done >= size) {
            to.set_len(0).map_err(here)?;
            done = 0;
        }
        let url = format!("{}/{}", self.from, file.sibling.path);
        let answer = self.client.file(&url, done);
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(e) => {
                // There is nothing behind what is here.
                if e.starts_with("416") {
                    to.set_len(0).map_err(here)?;
                }
                return Err(self.wrong(file, said(&e, self.commit)));
            }
        };
        let Some(size) = answer.total.or(file.sibling.size) else {
            return Err(self.wrong(file, "nobody says how many bytes it has"));
        };
        if let Some(said) = file.sibling.size.filter(|said| *said != size) {
            return Err(self.wrong(file, format!("has {size} bytes, and {said} in the list of files")));
        }
        match answer.from {
            0 => {
                to.set_len(0).map_err(here)?;
                done = 0;
            }
            from if from == done => {}
            from => {
                return Err(
                    self.wrong(file, format!("was asked for from {done} on, and comes from {from} on"))
                );
            }
        }
        let mut bytes = vec![0; 1 << 16];
        while done <= size {
            self.tell(file, (done, size), place);
            let count = answer.body.read(&mut bytes).map_err(|e| self.wrong(file, e))?;
            if count == 0 {
                break;
            }
            to.write_all(&bytes[..count]).map_err(here)?;
            done += count as u64;
        }
        if done == size {
            let said = file.sibling.sha256().map(str::to_ascii_lowercase).or(answer.sha256);
            let is = sha256(part)?;
            return match said.filter(|said| *said != is) {
                None => Ok(()),
                Some(said) => {
                    // What is wrong is not continued.
                    to.set_len(0).map_err(here)?;
                    Err(self.wrong(file, format!("came with the SHA-256 {is}, and has {said} by the Hub")))
                }
            };
        }
        if done > size {
            to.set_len(0).map_err(here)?;
        }
        Err(self.wrong(file, format!("{done} bytes came, of {size}")))
    }
}

/// The hash of a file's contents, as digits.
fn sha256(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(|e| at(path, e))?;
    let mut sum = Sha256::new();
    let mut bytes = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut bytes).map_err(|e| at(path, e))?;
        if count == 0 {
            return Ok(sum.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        sum.update(&bytes[..count]);
    }
}

/// Makes the folder that a file is to be in.
fn make_folder_of(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|e| at(folder, e))
}
