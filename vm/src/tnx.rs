//! The `.tnx` file: a compiled program as it is kept.
//!
//! ```text
//! magic "TENONX\r\n" | version u32 | sections u32 | table | crc32 of all before it u32 | sections
//! table row: kind u32 | crc32 of the bytes u32 | start u64 | length u64
//! ```
//!
//! All numbers are little endian; every section starts at a multiple of 64, and zeros fill what is between. A section
//! of a kind that a reader does not know is skipped, so that later versions can add to the file; if the highest bit of
//! its kind is set, what it says is needed, and who does not know it refuses the file. A new version number means that
//! nothing of the file can be read by older readers.
//!
//! - *program* (1): bytecode and metadata, by postcard; needed, always verified by checksum and then by
//!   [`verify`](crate::verify).
//! - *constants* (2): the elements of the program's constants, each at a multiple of 64; used in place. Its row has no
//!   checksum (0): each MiB has its own, in the section *sums*, and is checked when a constant in it is first used, so
//!   that opening a file takes no longer for its weights.
//! - *loops* (3): the text of the kernels as primitives, from which a compiler makes their code again.
//! - *native* (4, any number): objects for one kind of CPU. A cache: who reads the file decides whether they
//!   are trusted, and they are of no use on another CPU.
//! - *work* (5): what a call of each kernel does, for the profiler. A file without it runs as well, and its profile
//!   says less.
//! - *sums* (6): the crc32 of each MiB of the section *constants*, u32.
//! - *kept* (7): what of each entry may be done once for many runs. A file without it runs as well, and does it in
//!   each.
//!
//! Reading believes nothing: sizes are compared with the file before anything is allocated.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::checksums::{self, Checksums, Part};
use crate::program::{Bytes, LoadSplit, Program, Work};

/// What the file of a compiled program begins with.
pub const MAGIC: &[u8; 8] = b"TENONX\r\n";
/// The version this crate writes, and the only one it reads.
pub const VERSION: u32 = 6;
const ALIGN: usize = 64;
const HEADER: usize = 16;
const ROW: usize = 24;
/// A file has a few sections; a table longer than this is not one of ours.
const MAX_SECTIONS: usize = 1024;

const PROGRAM: u32 = 1;
const CONSTANTS: u32 = 2;
const LOOPS: u32 = 3;
const NATIVE: u32 = 4;
const WORK: u32 = 5;
const SUMS: u32 = 6;
const KEPT: u32 = 7;
/// Of the kind of a section without which the others do not mean what they meant.
const REQUIRED: u32 = 1 << 31;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no compiled program.
    #[error("not a compiled program: {0}")]
    NotTnx(&'static str),
    /// It is of another version.
    #[error("the file has version {found}, which is {} than the {VERSION} that this program reads{}",
        if *found > VERSION { "newer" } else { "older" }, if *found > VERSION { "" } else { ": build it again" })]
    Version {
        /// Its version.
        found: u32,
    },
    /// It has a section that it cannot be read without.
    #[error("the file needs a newer program: it has a section of the kind {0}, which this one does not know")]
    Unknown(u32),
    /// It is damaged.
    #[error("the file is damaged: {0}")]
    Damaged(String),
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Package {
    /// Bytecode, metadata, constants.
    pub program: Program,
    /// The text of the kernels' primitives.
    pub loops: String,
    /// Native code, by kind of CPU.
    pub natives: Vec<Native>,
}

/// Native code of all kernels for one kind of CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// Which CPUs can run it.
    pub target: Target,
    /// What each kernel of the program is called in the objects.
    pub symbols: Vec<String>,
    /// Relocatable objects.
    pub objects: Vec<Vec<u8>>,
}

/// A kind of CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `x86_64`
    pub arch: String,
    /// The CPU the code was made for, for display.
    pub cpu: String,
    /// Features the code may use, by LLVM's names: `avx512f`.
    pub features: Vec<String>,
}

impl Target {
    /// Whether a CPU of this architecture that has `features` can run it.
    pub fn runs_on(&self, arch: &str, features: &[String]) -> bool {
        self.arch == arch && self.features.iter().all(|f| features.contains(f))
    }
}

/// A constant's place in its section.
#[derive(Serialize, Deserialize)]
struct Place {
    start: u64,
    len: u64,
}

#[derive(Serialize)]
struct HeadRef<'a>(&'a Program, &'a [Place]);

#[derive(Deserialize)]
struct Head(Program, Vec<Place>);

/// A package as the bytes of a file. The same package gives the same bytes.
pub fn encode(package: &Package) -> Result<Vec<u8>, Error> {
    let fail = |e: postcard::Error| Error::Damaged(e.to_string());
    let mut constants = Vec::new();
    let mut places = Vec::new();
    for c in &package.program.constants {
        constants.resize(constants.len().next_multiple_of(ALIGN), 0);
        places.push(Place { start: constants.len() as u64, len: c.bytes.bytes().len() as u64 });
        constants.extend_from_slice(c.bytes.bytes());
    }
    let mut sections: Vec<(u32, Vec<u8>)> = vec![
        (PROGRAM, postcard::to_stdvec(&HeadRef(&package.program, &places)).map_err(fail)?),
        (SUMS, checksums::sums(&constants).iter().flat_map(|s| s.to_le_bytes()).collect()),
        (CONSTANTS, constants),
        (LOOPS, package.loops.clone().into_bytes()),
    ];
    for native in &package.natives {
        sections.push((NATIVE, postcard::to_stdvec(native).map_err(fail)?));
    }
    let work: Vec<&Option<Work>> = package.program.kernels.iter().map(|k| &k.work).collect();
    if work.iter().any(|w| w.is_some()) {
        sections.push((WORK, postcard::to_stdvec(&work).map_err(fail)?));
    }
    let kept: Vec<&Option<LoadSplit>> = package.program.entries.iter().map(|e| &e.load_split).collect();
    if kept.iter().any(|k| k.is_some()) {
        sections.push((KEPT, postcard::to_stdvec(&kept).map_err(fail)?));
    }

    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    let mut at = (HEADER + sections.len() * ROW + 4).next_multiple_of(ALIGN);
    for (kind, bytes) in &sections {
        out.extend_from_slice(&kind.to_le_bytes());
        let sum = if *kind == CONSTANTS { 0 } else { crc32fast::hash(bytes) };
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&(at as u64).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        at = (at + bytes.len()).next_multiple_of(ALIGN);
    }
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    for (_, bytes) in &sections {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

/// Reads a package; constants stay where they are in `file`.
pub fn decode(file: &Arc<Blob>) -> Result<Package, Error> {
    let bytes = file.bytes();
    let damaged = |what: &str| Error::Damaged(what.to_owned());
    if bytes.get(..8) != Some(MAGIC) {
        return Err(Error::NotTnx(if MAGIC.starts_with(&bytes[..bytes.len().min(8)]) {
            "it is cut off"
        } else {
            "it does not begin like one"
        }));
    }
    let u32_at = |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b));
    let u64_at = |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map(|b| u64::from_le_bytes(*b));
    let cut = || damaged("it is cut off in the table of sections");
    let version = u32_at(8).ok_or_else(cut)?;
    if version != VERSION {
        return Err(Error::Version { found: version });
    }
    let count = u32_at(12).ok_or_else(cut)? as usize;
    if count > MAX_SECTIONS {
        return Err(damaged("the table of sections is too long"));
    }
    let table = HEADER + count * ROW;
    let sum = u32_at(table).ok_or_else(cut)?;
    if crc32fast::hash(&bytes[..table]) != sum {
        return Err(damaged("the table of sections has another checksum"));
    }

    let mut package = Package::default();
    let mut head = None;
    let mut constants = None;
    let mut work: Option<Vec<Option<Work>>> = None;
    let mut kept: Option<Vec<Option<LoadSplit>>> = None;
    let mut sums = Vec::new();
    let mut used: Vec<Range<usize>> = Vec::new();
    used.push(0..table + 4);
    for row in 0..count {
        let at = HEADER + row * ROW;
        let (Some(kind), Some(sum), Some(start), Some(len)) =
            (u32_at(at), u32_at(at + 4), u64_at(at + 8), u64_at(at + 16))
        else {
            return Err(cut());
        };
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        used.extend(range.clone());
        let name = match kind {
            PROGRAM => "program",
            CONSTANTS => "constants",
            LOOPS => "loops",
            NATIVE => "native",
            WORK => "work",
            SUMS => "sums",
            KEPT => "kept",
            _ if kind & REQUIRED != 0 => return Err(Error::Unknown(kind & !REQUIRED)),
            _ => continue,
        };
        let content = range.clone().and_then(|r| bytes.get(r));
        let (Some(content), Some(range)) = (content, range) else {
            return Err(Error::Damaged(format!("it is cut off in section `{name}`")));
        };
        if kind != CONSTANTS && crc32fast::hash(content) != sum {
            return Err(Error::Damaged(format!("section `{name}` has another checksum")));
        }
        let fail = |e: postcard::Error| Error::Damaged(format!("section `{name}`: {e}"));
        match kind {
            PROGRAM => head = Some(postcard::from_bytes::<Head>(content).map_err(fail)?),
            CONSTANTS => constants = Some(range),
            LOOPS => {
                let text = std::str::from_utf8(content).map_err(|_| damaged("section `loops` is no text"))?;
                package.loops = text.to_owned();
            }
            SUMS => sums = content.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect(),
            WORK => work = Some(postcard::from_bytes(content).map_err(fail)?),
            KEPT => kept = Some(postcard::from_bytes(content).map_err(fail)?),
            _ => package.natives.push(postcard::from_bytes(content).map_err(fail)?),
        }
    }
    if !is_filled(bytes, used) {
        return Err(damaged("there are bytes between its sections, or behind them"));
    }
    let Head(program, places) = head.ok_or_else(|| damaged("it has no section `program`"))?;
    package.program = program;
    if places.len() != package.program.constants.len() {
        return Err(damaged("not every constant has a place"));
    }
    if let Some(kept) = kept {
        if kept.len() != package.program.entries.len() {
            return Err(damaged("not every entry says what it keeps"));
        }
        package.program.entries.iter_mut().zip(kept).for_each(|(e, k)| e.load_split = k);
    }
    if let Some(work) = work {
        if work.len() != package.program.kernels.len() {
            return Err(damaged("not every kernel has its work"));
        }
        package.program.kernels.iter_mut().zip(work).for_each(|(k, w)| k.work = w);
    }
    if package.natives.iter().any(|n| n.symbols.len() != package.program.kernels.len()) {
        return Err(damaged("not every kernel has a symbol in section `native`"));
    }
    let range = constants.unwrap_or(0..0);
    let chunks =
        Checksums::new(file, range.clone(), sums).ok_or_else(|| damaged("not every chunk has a sum"))?;
    let chunks = Arc::new(chunks);
    for (constant, place) in package.program.constants.iter_mut().zip(places) {
        let inside = usize::try_from(place.start).ok().zip(usize::try_from(place.len).ok()).and_then(
            |(start, len)| {
                let end = start.checked_add(len)?;
                (end <= range.len() && start.is_multiple_of(ALIGN)).then_some((start, len))
            },
        );
        let (start, len) = inside.ok_or_else(|| damaged("a constant is outside of its section"))?;
        let part = Part::new(&chunks, start..start + len);
        constant.bytes = Bytes::mapped(file, range.start + start, len, part)
            .ok_or_else(|| damaged("a constant is outside of the file"))?;
    }
    Ok(package)
}

/// True if all that is in none of the ranges is zero, and less than the room to the next multiple: no changed byte goes
/// unseen.
fn is_filled(bytes: &[u8], mut used: Vec<Range<usize>>) -> bool {
    used.sort_by_key(|r| r.start);
    let mut end = 0;
    let filled = used.iter().all(|r| {
        let between = bytes.get(end..r.start).unwrap_or_default();
        end = end.max(r.end);
        between.len() < ALIGN && between.iter().all(|b| *b == 0)
    });
    filled && end >= bytes.len()
}

impl Package {
    /// Reads all constants; who shows or copies them asks first, runs find out by themselves.
    pub fn check_constants(&self) -> Result<(), Error> {
        match self.program.constants.iter().position(|c| !c.bytes.intact()) {
            Some(i) => Err(Error::Damaged(format!("constant {i} has another checksum"))),
            None => Ok(()),
        }
    }
}

/// Maps a file and reads it.
pub fn open(path: &Path) -> Result<Package, Error> {
    decode(&Arc::new(Blob::map(path)?))
}

/// Writes a file so that at every moment there is either the old one or the new one: to a temporary file
/// beside it, flushed to the disk, then renamed. What writers that were killed left of theirs is removed.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    crate::temp_files::sweep(path);
    let temporary = path.with_file_name(crate::temp_files::name(name));
    let written = (|| {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // What is left is of no use; that it cannot be removed would not add to the first error.
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}
