//! What a folder holds of a repository: which contents each file has.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use import::Shown;

use super::{Error, at, is_path};

/// The record's file, in the place of what is not complete.
const NAME: &str = "record.json";

/// The file that a call holds locked, so that no other fills the folder.
const LOCK: &str = "lock";

/// The contents of a folder's files, and of those that are ready to be put there.
pub(super) struct Record {
    place: PathBuf,
    /// Unlocked when it is closed.
    _lock: File,
    text: Text,
}

#[derive(Serialize, Deserialize)]
struct Text {
    repo: String,
    /// Each file of the folder with the name that its contents have in the repository.
    files: BTreeMap<String, String>,
    /// The same of each file that is ready.
    #[serde(default)]
    ready: BTreeMap<String, String>,
}

/// How often a lock is asked for.
const PATIENCE: u32 = 5;

impl Record {
    /// The record in a place; a new one if there is none. One of another repository is refused, and one that is open.
    pub(super) fn open(place: &Path, repo: &str) -> Result<Record, Error> {
        let lock = place.join(LOCK);
        let lock = File::create(&lock).map_err(|e| at(&lock, e))?;
        // A process that is being started has what is open here for a moment, and with it a lock that was given up.
        let is_free = (0..PATIENCE).any(|_| {
            let free = lock.try_lock().is_ok();
            if !free {
                std::thread::sleep(Duration::from_millis(20));
            }
            free
        });
        if !is_free {
            return Err(at(place, "another download into this folder goes on"));
        }
        let path = place.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Text>(&bytes).map_err(|e| at(&path, e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Text { repo: repo.to_owned(), files: BTreeMap::new(), ready: BTreeMap::new() }
            }
            Err(e) => return Err(at(&path, e)),
        };
        if text.repo != repo {
            return Err(at(place, format!("the folder is filled from {}, not from {repo}", text.repo)));
        }
        // What is replaced is taken away: names that lead elsewhere would take away other things.
        if let Some(name) = text.files.keys().chain(text.ready.keys()).find(|name| !is_path(name)) {
            return Err(at(&path, format!("`{}` is no name of a file", Shown(name))));
        }
        Ok(Record { place: place.to_owned(), _lock: lock, text })
    }

    /// The contents of a file of the folder, if it came from the repository.
    pub(super) fn contents(&self, name: &str) -> Option<&str> {
        self.text.files.get(name).map(String::as_str)
    }

    /// The contents of a file that is ready.
    pub(super) fn ready(&self, name: &str) -> Option<&str> {
        self.text.ready.get(name).map(String::as_str)
    }

    /// Says what the contents of a file that is ready will be.
    pub(super) fn set_ready(&mut self, name: &str, contents: &str) -> Result<(), Error> {
        self.text.ready.insert(name.to_owned(), contents.to_owned());
        self.write()
    }

    /// Takes out the files of the folder whose contents are not current any more; their names. It is not written yet.
    pub(super) fn take_stale(&mut self, current: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        let stale = |(name, contents): &(&String, &String)| !current(name, contents);
        let names: Vec<String> = self.text.files.iter().filter(stale).map(|f| f.0.clone()).collect();
        names.iter().for_each(|name| drop(self.text.files.remove(name)));
        names
    }

    /// Says that these files of the folder have the contents of those that are ready.
    pub(super) fn settle(&mut self, names: &[String]) -> Result<(), Error> {
        for name in names {
            if let Some(contents) = self.text.ready.get(name) {
                self.text.files.insert(name.to_owned(), contents.clone());
            }
        }
        self.write()
    }

    /// Says that nothing is ready.
    pub(super) fn none_is_ready(&mut self) -> Result<(), Error> {
        self.text.ready.clear();
        self.write()
    }

    fn write(&self) -> Result<(), Error> {
        let (path, beside) = (self.place.join(NAME), self.place.join("record.new"));
        let text = serde_json::to_vec_pretty(&self.text).map_err(|e| at(&path, e))?;
        std::fs::write(&beside, text).map_err(|e| at(&beside, e))?;
        std::fs::rename(&beside, &path).map_err(|e| at(&path, e))
    }
}

/// Takes away all that is left of downloads. Only the record and the lock stay.
pub(super) fn tidy(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name() != NAME && entry.file_name() != LOCK {
            // What cannot be taken away does no harm: the next call tries again.
            let _ = std::fs::remove_dir_all(entry.path()).or_else(|_| std::fs::remove_file(entry.path()));
        }
    }
}
