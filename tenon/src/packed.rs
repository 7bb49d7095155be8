//! Weights as a program wants them: read from a checkpoint, laid out, and kept in a file for the next time.
//!
//! A step takes some weights as they are, and what loads make of the others ([`vm::Loaded`]). Both are written to a
//! file of the user's cache folder once, and mapped from there from then on: they stand in memory once, the checkpoint
//! is not read again, and programs that run beside one another share the pages. Functions of one process share what has
//! the same contents ([`crate::shared`]). A file is for one program, one checkpoint as it was, and one form of this
//! file; any other is not read.
//!
//! ```text
//! "TENONPK3", where the head is and its bytes, as u64; from page to page the tensors; the head as JSON
//! ```
//!
//! A tensor is written as soon as it is made, and forgotten: what was read of the checkpoint and what was made of it
//! are never in memory as a whole.

#![expect(clippy::disallowed_methods, reason = "files tell when they were used")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

const MAGIC: &[u8; 8] = b"TENONPK3";
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
    /// Why they are not kept for the next time, where they were to be.
    pub(crate) unkept: Option<String>,
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
        Weights { read, loaded, unkept: None }
    }

    /// Makes what the step takes of the weights, and behind it what loads make: each is handed over with its place as
    /// soon as nothing more is made of it. What a load reads is forgotten before the next one reads, unless that needs
    /// it.
    fn make(
        &self,
        exe: &Arc<Executable>,
        reader: &Reader<'_>,
        take: &mut dyn FnMut(usize, Tensor) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut context = Context::new(Arc::clone(exe));
        let mut held: BTreeMap<usize, Tensor> = BTreeMap::new();
        let mut place = self.step.len();
        let loads = &self.split.loads;
        // All that does not fit is said at once.
        let read = |these: &[usize]| reader.read(these).or_else(|f| reader.read(self.all).and(Err(f)));
        for (k, load) in loads.iter().enumerate() {
            let wanted: Vec<usize> = load.args.iter().map(|i| *i as usize).collect();
            let lacking: Vec<usize> = wanted.iter().copied().filter(|i| !held.contains_key(i)).collect();
            held.extend(lacking.iter().copied().zip(read(&lacking)?));
            let args: Vec<&Tensor> = wanted.iter().filter_map(|i| held.get(i)).collect();
            let name = &exe.program().entries[load.entry as usize].name;
            let made = context.run(name, &args, &Limits::default());
            for t in made.map_err(|e| engine::vm_failure(&e, &SourceMap::default()))? {
                take(place, t)?;
                place += 1;
            }
            context.trim();
            let later = |i: &usize| loads[k + 1..].iter().any(|l| l.args.contains(&(*i as u32)));
            for (i, t) in std::mem::take(&mut held) {
                if later(&i) {
                    held.insert(i, t);
                } else if let Some(at) = self.step.iter().position(|s| *s == i) {
                    take(at, t)?;
                }
            }
        }
        for (at, i) in self.step.iter().enumerate() {
            if !loads.iter().any(|l| l.args.contains(&(*i as u32))) {
                read(&[*i])?.into_iter().try_for_each(|t| take(at, t))?;
            }
        }
        Ok(())
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
    // A model was just compiled, and its weights come now.
    tensor::give_back();
    let mut unkept = None;
    if let Some(path) = path {
        match write(&parts, exe, &reader, &path, key)? {
            Ok(mapped) => {
                watch.tell(Step::Load, bytes, bytes);
                make_room(&path);
                return Ok(parts.whole(mapped));
            }
            Err(e) => unkept = Some(format!("{}: {e}", path.display())),
        }
    }
    let mut all: BTreeMap<usize, Arc<Tensor>> = BTreeMap::new();
    parts.make(exe, &reader, &mut |place, t| {
        all.insert(place, shared(&Hash::of(&t), || Ok(t))?);
        Ok(())
    })?;
    watch.tell(Step::Load, bytes, bytes);
    Ok(Weights { unkept, ..parts.whole(all.into_values().collect()) })
}

/// Makes the file of weights, and maps it. A fault of the file's is another than one of the weights.
fn write(
    parts: &Parts<'_>,
    exe: &Arc<Executable>,
    reader: &Reader<'_>,
    path: &Path,
    key: &str,
) -> Result<io::Result<Vec<Arc<Tensor>>>, Failure> {
    let mut file = match Writer::new(path) {
        Ok(file) => file,
        Err(e) => return Ok(Err(e)),
    };
    let mut written = Ok(());
    let made = parts.make(exe, reader, &mut |place, t| {
        written = file.add(place, &t);
        written.as_ref().map_err(|e| Failure::data(e.to_string())).copied()
    });
    if let Err(e) = written {
        return Ok(Err(e));
    }
    made?;
    Ok(file.finish(path, key).and_then(|()| open(path, key)))
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

/// A file of tensors that is being written. It has its name when it is whole.
struct Writer {
    file: File,
    temporary: PathBuf,
    /// Where the next tensor begins.
    at: u64,
    /// What the head says of each tensor, by its place.
    tensors: BTreeMap<usize, Value>,
}

impl Writer {
    fn new(path: &Path) -> io::Result<Writer> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(folder)?;
        sweep(folder);
        // Several threads may write the same.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}", std::process::id()));
        Ok(Writer { file: File::create(&temporary)?, temporary, at: PAGE, tensors: BTreeMap::new() })
    }

    fn add(&mut self, place: usize, t: &Tensor) -> io::Result<()> {
        let Hash { dtype, shape, digits } = Hash::of(t);
        let says = json!({ "dtype": dtype, "shape": shape, "at": self.at, "sha256": digits });
        self.tensors.insert(place, says);
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.write_all(t.bytes())?;
        self.at = (self.at + t.bytes().len() as u64).next_multiple_of(PAGE);
        Ok(())
    }

    fn finish(mut self, path: &Path, key: &str) -> io::Result<()> {
        let tensors: Vec<&Value> = self.tensors.values().collect();
        let head = json!({ "key": key, "tensors": tensors }).to_string();
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.write_all(head.as_bytes())?;
        self.file.rewind()?;
        self.file.write_all(MAGIC)?;
        self.file.write_all(&self.at.to_le_bytes())?;
        self.file.write_all(&(head.len() as u64).to_le_bytes())?;
        fs::rename(&self.temporary, path)
    }
}

/// Removes files that a process was writing which is no more.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let writer = path.extension().and_then(|e| e.to_str()?.split_once('-')?.0.parse().ok());
        if writer.is_some_and(|pid| !vm::temp_files::lives(pid)) {
            drop(fs::remove_file(path));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // There is none any more where it was finished.
        drop(fs::remove_file(&self.temporary));
    }
}

/// The tensors of a file that is whole and has this key.
fn open(path: &Path, key: &str) -> io::Result<Vec<Arc<Tensor>>> {
    let other = || io::Error::from(io::ErrorKind::InvalidData);
    let mut file = File::open(path)?;
    let (mut magic, mut end, mut long) = ([0; 8], [0; 8], [0; 8]);
    for part in [&mut magic, &mut end, &mut long] {
        file.read_exact(part)?;
    }
    let (end, long) = (u64::from_le_bytes(end), u64::from_le_bytes(long));
    if magic != *MAGIC || long > LONGEST || Some(file.metadata()?.len()) != end.checked_add(long) {
        return Err(other());
    }
    let mut text = vec![0; long as usize];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut text)?;
    let head: Value = serde_json::from_slice(&text)?;
    if head["key"].as_str() != Some(key) {
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
