//! Weights as a program wants them: read from a checkpoint, laid out, and kept in a file for the next time.
//!
//! A step takes some weights as they are, and what loads make of the others ([`vm::Loaded`]). Both are written to a
//! file of the user's cache folder once, and mapped from there from then on: they stand in memory once, the checkpoint
//! is not read again, and programs that run beside one another share the pages. Functions of one process share what has
//! the same contents ([`crate::shared`]). A file is for one program, one checkpoint as it was, and one form of this
//! file; any other is not read.
//!
//! ```text
//! "TENONPK2", the bytes of the head as u64, the head as JSON; from page to page the tensors
//! ```

#![expect(clippy::disallowed_methods, reason = "files tell when they were used")]

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::model::{Bound, Reader};
use driver::pipeline::{Compilation, Options};
use driver::progress::Step;
use driver::{Checkpoint, Failure, engine};
use ir::source::SourceMap;
use ir::text::stable_hash;
use serde_json::{Value, json};
use tensor::{Block, DType, Tensor};
use vm::{Context, Executable, Limits, LoadSplit, Loaded};

use crate::shared::{Hash, shared};

const MAGIC: &[u8; 8] = b"TENONPK2";
/// Tensors begin with a page.
const PAGE: u64 = 4096;
/// A head is never as long as this.
const LONGEST: u64 = 1 << 26;
/// How many files there are of one checkpoint: as other options want its weights in other forms.
const FORMS: usize = 3;
/// How many files there are, and how many bytes they have.
const FILES: usize = 100;
const BYTES: u64 = 64 << 30;

/// The weights of a function.
pub(crate) struct Weights {
    /// By the place of the parameter; none for what only loading reads.
    pub(crate) read: Vec<(usize, Option<Arc<Tensor>>)>,
    /// What loading made.
    pub(crate) loaded: Option<Loaded>,
}

/// What decides how weights look: the program, the checkpoint's files, and how they are read.
pub(crate) fn key(compilation: &Compilation, checkpoint: &Checkpoint, bound: &Bound) -> String {
    let mut text = format!("tenon {}\n", env!("CARGO_PKG_VERSION"));
    for w in bound.wanted.iter().enumerate().filter(|(i, _)| bound.is_weight(*i)).map(|(_, w)| w) {
        text += &format!("{}: {} {:?}\n", w.name, w.ty, w.from);
    }
    for (name, value) in &bound.config {
        text += &format!("{name} = {value}\n");
    }
    text += &files(checkpoint);
    // Loads are functions of the program, and kernels are called by their numbers.
    text += &compilation.loops;
    let program = &compilation.program;
    text += &format!("{:?}", program.entries.iter().map(|e| &e.load_split).collect::<Vec<_>>());
    for f in &program.functions {
        text += &vm::asm::function(program, f);
    }
    format!("{:016x}{:016x}", stable_hash(&text), stable_hash(&format!("{text}.")))
}

/// The files of a checkpoint's weights, as they are.
pub(crate) fn files(checkpoint: &Checkpoint) -> String {
    let file = |path: &&Path| {
        let meta = fs::metadata(path).ok();
        let time = meta.map(|m| (m.len(), m.mtime(), m.mtime_nsec(), m.ino()));
        format!("{} {time:?}\n", path.display())
    };
    checkpoint.files().iter().map(file).collect()
}

/// The weights of an entry that were kept under a key.
pub(crate) fn kept(
    exe: &Arc<Executable>,
    entry: &vm::Entry,
    checkpoint: &Checkpoint,
    key: &str,
) -> Option<Weights> {
    let path = driver::cache::weights()?.join(file_name(checkpoint, key));
    let all: Vec<usize> =
        (0..entry.params.len()).filter(|i| driver::model::is_weight(&entry.params[*i].name)).collect();
    Some(Parts::of(exe, entry, &all).whole(open(&path, key).ok()?))
}

/// Which weights a step takes, and what its loads are.
struct Parts<'p> {
    exe: &'p Executable,
    split: LoadSplit,
    /// All weights, by their places.
    all: &'p [usize],
    /// Those that the step takes.
    step: Vec<usize>,
}

impl<'p> Parts<'p> {
    fn of(exe: &'p Executable, entry: &vm::Entry, all: &'p [usize]) -> Parts<'p> {
        let split = entry.load_split.clone().unwrap_or_default();
        let stays = |i: &usize| split.loads.is_empty() || split.takes.contains(&(*i as u32));
        let step = all.iter().copied().filter(stays).collect();
        Parts { exe, split, all, step }
    }

    /// The weights, of the tensors that the step takes and, behind them, those that loads make.
    fn whole(&self, mut tensors: Vec<Arc<Tensor>>) -> Weights {
        let kept = tensors.split_off(self.step.len());
        let mut read: Vec<(usize, Option<Arc<Tensor>>)> =
            self.step.iter().copied().zip(tensors.into_iter().map(Some)).collect();
        read.extend(self.all.iter().filter(|i| !self.step.contains(i)).map(|i| (*i, None)));
        let takes = self.split.takes.iter().map(|i| *i as usize).collect();
        let step = || self.exe.program().entries[self.split.step as usize].name.clone();
        let loaded = (!self.split.loads.is_empty()).then(|| Loaded { step: step(), takes, kept });
        Weights { read, loaded }
    }
}

/// The weights of an entry that is bound to a checkpoint, from the cache or else from the checkpoint.
pub(crate) fn weights(
    exe: &Arc<Executable>,
    entry: &str,
    bound: &Bound,
    checkpoint: &Checkpoint,
    key: &str,
    options: &Options,
) -> Result<Weights, Failure> {
    let all: Vec<usize> = (0..bound.wanted.len()).filter(|i| bound.is_weight(*i)).collect();
    let found = exe.program().entries.iter().find(|e| e.name == entry);
    let parts = Parts::of(exe, found.expect("a program has the entry it was compiled for"), &all);
    let (watch, bytes) = (&options.watch, bound.weights());
    watch.tell(Step::Load, 0, bytes);
    let path = driver::cache::weights().map(|folder| folder.join(file_name(checkpoint, key)));
    if let Some(tensors) = path.as_deref().and_then(|p| open(p, key).ok()) {
        watch.tell(Step::Load, bytes, bytes);
        return Ok(parts.whole(tensors));
    }
    let reader = bound.reader(checkpoint, options)?;
    let made = made(exe, &reader, &parts.split, &parts.step).or_else(|f| {
        // All that does not fit is said at once.
        reader.read(&all).and(Err(f))
    })?;
    watch.tell(Step::Load, bytes, bytes);
    let hashes: Vec<Hash> = made.iter().map(Hash::of).collect();
    if let Some(path) = path
        && write(&path, key, &made, &hashes).is_ok()
        && let Ok(mapped) = open(&path, key)
    {
        drop(made);
        make_room(&path);
        return Ok(parts.whole(mapped));
    }
    Ok(parts.whole(
        made.into_iter().zip(hashes).map(|(t, hash)| shared(&hash, || Ok(t))).collect::<Result<_, _>>()?,
    ))
}

/// What the step takes of the weights, and behind it what loads make. What a load reads is forgotten before the next
/// one reads, unless that needs it.
fn made(
    exe: &Arc<Executable>,
    reader: &Reader<'_>,
    split: &LoadSplit,
    step: &[usize],
) -> Result<Vec<Tensor>, Failure> {
    let mut context = Context::new(Arc::clone(exe));
    let mut kept = Vec::new();
    let mut held: Vec<(usize, Tensor)> = Vec::new();
    for (k, load) in split.loads.iter().enumerate() {
        let wanted: Vec<usize> = load.args.iter().map(|i| *i as usize).collect();
        let lacking: Vec<usize> =
            wanted.iter().copied().filter(|i| held.iter().all(|(h, _)| h != i)).collect();
        held.extend(lacking.iter().copied().zip(reader.read(&lacking)?));
        let of = |i: &usize| held.iter().find(|(h, _)| h == i).map(|(_, t)| t);
        let args: Vec<&Tensor> = wanted.iter().filter_map(of).collect();
        let name = &exe.program().entries[load.entry as usize].name;
        let made = context.run(name, &args, &Limits::default());
        kept.extend(made.map_err(|e| engine::vm_failure(&e, &SourceMap::default()))?);
        let later = |i: &usize| split.loads[k + 1..].iter().any(|l| l.args.contains(&(*i as u32)));
        held.retain(|(i, _)| later(i) || step.contains(i));
    }
    let lacking: Vec<usize> = step.iter().copied().filter(|i| held.iter().all(|(h, _)| h != i)).collect();
    held.extend(lacking.iter().copied().zip(reader.read(&lacking)?));
    held.sort_by_key(|(i, _)| step.iter().position(|s| s == i));
    Ok(held.into_iter().map(|(_, t)| t).chain(kept).collect())
}

/// A file's name begins with a hash of the checkpoint's path.
fn file_name(checkpoint: &Checkpoint, key: &str) -> String {
    let path = fs::canonicalize(checkpoint.path()).unwrap_or_else(|_| checkpoint.path().to_owned());
    format!("{:016x}-{key}.weights", stable_hash(&path.display().to_string()))
}

/// Removes the files that were not used for longest: of a checkpoint where it has many forms, and of all.
fn make_room(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
        return;
    };
    let Some((checkpoint, _)) = name.split_once('-') else { return };
    let Ok(files) = fs::read_dir(folder) else { return };
    let mut all: Vec<(std::time::SystemTime, u64, PathBuf)> = files
        .filter_map(|f| {
            let file = f.ok()?;
            let meta = file.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), file.path()))
        })
        .collect();
    all.sort_by_key(|(used, ..)| std::cmp::Reverse(*used));
    let (mut forms, mut count, mut bytes) = (0, 0, 0);
    for (_, size, file) in all {
        let same = file.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(checkpoint));
        forms += usize::from(same);
        count += 1;
        bytes += size;
        if file != path && (same && forms > FORMS || count > FILES || bytes > BYTES) {
            drop(fs::remove_file(file));
        }
    }
}

/// Writes a file of tensors. It has its name when it is whole.
fn write(path: &Path, key: &str, tensors: &[Tensor], hashes: &[Hash]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let head = |first: u64| {
        let mut at = first;
        let mut all: Vec<Value> = Vec::new();
        for (t, hash) in tensors.iter().zip(hashes) {
            let hash = &hash.digits;
            all.push(json!({ "dtype": t.dtype().name(), "shape": t.shape(), "at": at, "sha256": hash }));
            at = (at + t.bytes().len() as u64).next_multiple_of(PAGE);
        }
        (json!({ "key": key, "end": at, "tensors": all }).to_string(), at)
    };
    // Places have as many digits as the head may make them have.
    let room = (head(1 << 60).0.len() as u64 + 16).next_multiple_of(PAGE);
    let (text, end) = head(room);
    let temporary = folder.join(format!("{}.{}", key, std::process::id()));
    let made = (|| {
        let mut out = BufWriter::new(File::create(&temporary)?);
        out.write_all(MAGIC)?;
        out.write_all(&(text.len() as u64).to_le_bytes())?;
        out.write_all(text.as_bytes())?;
        let mut at = room;
        for t in tensors {
            out.seek(SeekFrom::Start(at))?;
            out.write_all(t.bytes())?;
            at = (at + t.bytes().len() as u64).next_multiple_of(PAGE);
        }
        out.into_inner()?.set_len(end)?;
        fs::rename(&temporary, path)
    })();
    if made.is_err() {
        drop(fs::remove_file(&temporary));
    }
    made
}

/// The tensors of a file that is whole and has this key.
fn open(path: &Path, key: &str) -> io::Result<Vec<Arc<Tensor>>> {
    let other = || io::Error::from(io::ErrorKind::InvalidData);
    let mut file = File::open(path)?;
    let mut begin = [0; 16];
    file.read_exact(&mut begin)?;
    let long = u64::from_le_bytes(begin[8..].try_into().map_err(|_| other())?);
    if begin[..8] != MAGIC[..] || long > LONGEST {
        return Err(other());
    }
    let mut text = vec![0; long as usize];
    file.read_exact(&mut text)?;
    let head: Value = serde_json::from_slice(&text)?;
    let end = head["end"].as_u64().ok_or_else(other)?;
    if head["key"].as_str() != Some(key) || file.metadata()?.len() != end {
        return Err(other());
    }
    // Used just now.
    drop(file.set_modified(std::time::SystemTime::now()));
    let list = head["tensors"].as_array().ok_or_else(other)?;
    let tensor = |v: &Value| -> Option<Arc<Tensor>> {
        let dtype: DType = v["dtype"].as_str()?.parse().ok()?;
        let shape: Vec<i64> = v["shape"].as_array()?.iter().map(Value::as_i64).collect::<Option<_>>()?;
        let at = v["at"].as_u64()?;
        let count = shape.iter().try_fold(dtype.size(), |n, d| n.checked_mul(usize::try_from(*d).ok()?))?;
        if !at.is_multiple_of(PAGE) || at.checked_add(count as u64)? > end {
            return None;
        }
        let hash = Hash::known(dtype, &shape, v["sha256"].as_str()?);
        let made = || {
            let wrong = |e: &dyn std::fmt::Display| Failure::data(e.to_string());
            let block = Block::of_file(&file, at, count).map_err(|e| wrong(&e))?;
            Tensor::from_block(dtype, &shape, block).map_err(|e| wrong(&e))
        };
        shared(&hash, made).ok()
    };
    list.iter().map(tensor).collect::<Option<Vec<_>>>().ok_or_else(other)
}
