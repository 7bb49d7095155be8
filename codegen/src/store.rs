//! Kernels kept on disk between runs: a folder with a file a kernel; beside them whole programs, and notes, short texts
//! that others found out.
//!
//! In and out: kernels, programs and notes by their key, which holds all that the code depends on; the store adds what
//! made the code of a kernel, this crate's sources and LLVM. A file is named by a hash of the key and holds the whole
//! of it, so that two keys of one hash are a miss and no confusion.
//!
//! Invariants: a file appears by renaming, whole or not at all, so any number of processes may use a folder; whatever
//! is wrong with a file (short, changed, of another version) is a miss; whatever is wrong with the folder (full, read
//! only) costs only that nothing is kept. Native code is trusted: a folder that somebody else can write is not used.
#![allow(clippy::disallowed_methods, reason = "a store reads and writes files")]

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ir::text::stable_hash;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::compiler::Compiled;

/// What begins a file: the format, then a checksum of what follows.
const MAGIC: &[u8; 8] = b"TENONK1\n";
const KERNEL: &str = "kernel";
const NOTE: &str = "note";
const PROGRAM: &str = "program";

/// Kernels on disk. Clones share a folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: Arc<PathBuf>,
    limit: u64,
    used: Arc<AtomicBool>,
}

impl Store {
    /// The store in a folder, made if it is not there; why there is none, if it cannot be made or written to, or if
    /// others may write to it. It is kept to about `limit` bytes: the oldest kernels go first.
    pub fn open(folder: &Path, limit: u64) -> Result<Store, String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let about = made.and_then(|()| fs::metadata(folder)).map_err(|e| e.to_string())?;
        #[expect(unsafe_code, reason = "std does not tell the user")]
        // SAFETY: it takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        if about.uid() != user || about.mode() & 0o022 != 0 {
            return Err("others may write to it: it is to be the user's own (chmod 700)".to_owned());
        }
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        #[expect(unsafe_code, reason = "std does not tell who may write")]
        // SAFETY: the path ends with a zero and lives.
        if unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) } != 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        Ok(Store { folder: Arc::new(folder.to_owned()), limit, used: Arc::default() })
    }

    /// The kernel of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Compiled> {
        self.read(KERNEL, &versioned(key))
    }

    /// Keeps a kernel, if that can be done.
    pub(crate) fn put(&self, key: &str, kernel: &Compiled) {
        self.write(KERNEL, &versioned(key), kernel);
    }

    /// What was noted under a key, which holds all that it depends on, whoever found it out among that.
    pub fn note(&self, key: &str) -> Option<String> {
        self.read(NOTE, key)
    }

    /// Keeps a note, if that can be done.
    pub fn put_note(&self, key: &str, note: &str) {
        self.write(NOTE, key, &note);
    }

    /// The program that was kept under a key, which holds all that it depends on, with what was said of it.
    pub fn program(&self, key: &str) -> Option<(String, Vec<u8>)> {
        self.read(PROGRAM, key)
    }

    /// Keeps a program, if that can be done.
    pub fn put_program(&self, key: &str, about: &str, file: &[u8]) {
        self.write(PROGRAM, key, &(about, file));
    }

    fn read<T: DeserializeOwned>(&self, kind: &str, key: &str) -> Option<T> {
        let place = self.place(kind, key);
        // Somebody's pipe of that name would have us wait.
        fs::metadata(&place).ok().filter(fs::Metadata::is_file)?;
        let bytes = fs::read(place).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (sum, rest) = rest.split_first_chunk::<4>()?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (found, value) = postcard::from_bytes::<(String, T)>(rest).ok()?;
        (found == key).then_some(value)
    }

    fn write<T: Serialize>(&self, kind: &str, key: &str, value: &T) {
        let Ok(rest) = postcard::to_allocvec(&(key, value)) else { return };
        let place = self.place(kind, key);
        if !self.used.swap(true, Ordering::Relaxed) {
            self.prune();
        }
        let bytes = [MAGIC.as_slice(), &crc32fast::hash(&rest).to_le_bytes(), &rest].concat();
        // Who writes a file of more than is allowed is killed, not told.
        if bytes.len() as u64 > most_of_a_file() {
            return;
        }
        let Some((mut file, draft)) = self.draft() else { return };
        let whole = || {
            file.write_all(&bytes)?;
            drop(file);
            fs::rename(&draft, &place)
        };
        if whole().is_err() {
            let _ = fs::remove_file(&draft);
        }
    }

    /// A file that nobody else writes: not another store of this process, nor a process of this number elsewhere.
    fn draft(&self) -> Option<(fs::File, PathBuf)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const TRIES: usize = 100;
        (0..TRIES).find_map(|_| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("{}-{number}.draft", std::process::id()));
            fs::File::create_new(&path).ok().map(|file| (file, path))
        })
    }

    /// Removes the oldest files until half the limit is left, if it is passed.
    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&*self.folder) else { return };
        let mut files: Vec<_> = entries
            .filter_map(|e| e.ok().and_then(|e| Some((e.metadata().ok()?, e.path()))))
            .filter(|(about, path)| {
                let ours = path
                    .extension()
                    .is_some_and(|e| [KERNEL, NOTE, PROGRAM, "draft"].iter().any(|k| e == *k));
                ours && about.is_file()
            })
            .collect();
        let mut total: u64 = files.iter().map(|f| f.0.len()).sum();
        if total <= self.limit {
            return;
        }
        files.sort_by_key(|f| (f.0.mtime(), f.0.mtime_nsec()));
        for (about, path) in files {
            if total <= self.limit / 2 {
                return;
            }
            if fs::remove_file(path).is_ok() {
                total -= about.len();
            }
        }
    }

    fn place(&self, kind: &str, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.{kind}", stable_hash(key)))
    }
}

/// The most bytes that this process may write to a file.
#[expect(unsafe_code, reason = "std does not tell limits")]
fn most_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes to what it is given.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if told == 0 { limit.rlim_cur } else { u64::MAX }
}

/// The key, and what makes code of it here.
fn versioned(key: &str) -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{} llvm {major}.{minor}.{patch}\n{key}", env!("TENON_CODEGEN"))
}
