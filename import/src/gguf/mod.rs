//! GGUF files: metadata and tensors in one file, or in numbered parts.
//!
//! Versions 2 and 3 are read, little endian. Tensors begin at multiples of the alignment that the file says, lie inside
//! the file and do not overlap; bytes that belong to no tensor are padding.

mod cursor;
mod metadata;
mod parts;
mod write;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use self::cursor::Cursor;
use crate::error::Shown;
use crate::layout::{count, numbered};
use crate::map::Mapped;
use crate::{Error, Tensor};

pub use self::metadata::MAX_VALUES;
pub use self::parts::only_one;
pub(crate) use self::parts::open;
pub(crate) use self::write::head;

/// Where tensors begin if the file does not say.
const ALIGNMENT: u64 = 32;

/// The largest alignment that a file may ask for.
const LARGEST_ALIGNMENT: u64 = 1 << 20;

/// The fewest bytes of a tensor's entry: the lengths of name and shape, the type and the offset.
const SMALLEST: usize = 24;

/// A file, understood.
pub(crate) struct File {
    /// The file that holds the metadata.
    pub(crate) path: PathBuf,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) tensors: Vec<Tensor>,
}

/// A tensor's entry in the header.
struct Entry<'a> {
    name: &'a str,
    shape: Vec<i64>,
    kind: u32,
    offset: u64,
}

/// Reads one file.
fn read(path: &Path) -> Result<File, Error> {
    let file = Arc::new(Mapped::open(path)?);
    let mut c = Cursor::new(path, file.bytes());
    version(path, &mut c)?;
    let tensors = c.count("tensors", SMALLEST)?;
    let keys = c.u64()?;
    let mut metadata = metadata::read(&mut c, keys)?;
    let alignment = alignment(path, &metadata)?;
    let tensors = c.fits(tensors as u64, "tensors", SMALLEST)?;
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for _ in 0..tensors {
        let entry = entry(path, &mut c)?;
        if !names.insert(entry.name) {
            return Err(Error::tensor(path, entry.name, "the name comes twice"));
        }
        entries.push(entry);
    }
    // The data begin at the next multiple of the alignment.
    let data = (c.at() as u64).next_multiple_of(alignment);
    let tensors =
        entries.into_iter().map(|e| placed(&file, e, data, alignment)).collect::<Result<Vec<_>, _>>()?;
    apart(path, &tensors)?;
    metadata::general_names(&mut metadata);
    Ok(File { path: path.to_owned(), metadata, tensors })
}

/// What a file begins with.
fn version(path: &Path, c: &mut Cursor<'_>) -> Result<(), Error> {
    if c.take(4)? != b"GGUF" {
        return Err(Error::file(path, "does not begin with `GGUF`"));
    }
    match c.u32()? {
        2 | 3 => Ok(()),
        1 => Err(Error::file(path, "is of version 1 of GGUF, which is not read; convert it")),
        v if matches!(v.swap_bytes(), 1..=99) => {
            Err(Error::file(path, "is big endian, which is not read; gguf-convert-endian converts it"))
        }
        v => Err(Error::file(path, format!("is of version {v} of GGUF; 2 and 3 are read"))),
    }
}

fn alignment(path: &Path, metadata: &Map<String, Value>) -> Result<u64, Error> {
    let Some(said) = metadata.get("general.alignment") else { return Ok(ALIGNMENT) };
    let fits = |n: &u64| n.is_power_of_two() && *n <= LARGEST_ALIGNMENT;
    said.as_u64().filter(fits).ok_or_else(|| {
        let said = said.to_string();
        let what =
            format!("the alignment is {}; powers of 2 up to {LARGEST_ALIGNMENT} are read", Shown(&said));
        Error::file(path, what)
    })
}

/// The next entry. The file has the innermost extent first.
fn entry<'a>(path: &Path, c: &mut Cursor<'a>) -> Result<Entry<'a>, Error> {
    let name = c.text()?;
    let wrong = |what: String| Error::tensor(path, name, what);
    let rank = c.u32()? as usize;
    if rank > tensor::MAX_RANK {
        return Err(wrong(format!("has {rank} axes; at most {} are read", tensor::MAX_RANK)));
    }
    let mut shape = Vec::with_capacity(rank);
    for _ in 0..rank {
        let extent = c.u64()?;
        shape.push(i64::try_from(extent).map_err(|_| wrong(format!("the extent {extent} is too large")))?);
    }
    shape.reverse();
    Ok(Entry { name, shape, kind: c.u32()?, offset: c.u64()? })
}

/// The tensor of an entry, its place compared with the file.
fn placed(file: &Arc<Mapped>, e: Entry<'_>, data: u64, alignment: u64) -> Result<Tensor, Error> {
    let path = file.path();
    let wrong = |what: String| Error::tensor(path, e.name, what);
    let Some(elements) = count(&e.shape) else {
        return Err(wrong(format!("the shape {:?} has too many elements", e.shape)));
    };
    if !e.offset.is_multiple_of(alignment) {
        return Err(wrong(format!("begins at {}, which is no multiple of {alignment}", e.offset)));
    }
    let Some((kind, layout)) = numbered(e.kind) else {
        let kind = Cow::Owned(format!("type {}", e.kind));
        return Ok(Tensor {
            name: e.name.to_owned(),
            kind,
            shape: e.shape,
            turned: false,
            range: None,
            file: file.clone(),
        });
    };
    // Blocks lie along the innermost axis.
    let row = e.shape.last().copied().unwrap_or(1);
    if row % layout.elements as i64 != 0 {
        return Err(wrong(format!(
            "rows of {row} elements are no whole blocks of {kind}, which are of {}",
            layout.elements
        )));
    }
    let size = layout.size(elements).and_then(|s| u64::try_from(s).ok());
    let begin = data.checked_add(e.offset);
    let end = begin.and_then(|b| b.checked_add(size?));
    let len = file.bytes().len();
    match (begin.map(usize::try_from), end.map(usize::try_from)) {
        (Some(Ok(begin)), Some(Ok(end))) if end <= len || elements == 0 => Ok(Tensor {
            name: e.name.to_owned(),
            kind: Cow::Borrowed(kind),
            shape: e.shape,
            turned: false,
            range: Some(if elements == 0 { 0..0 } else { begin..end }),
            file: file.clone(),
        }),
        _ => {
            let size = size.map_or("too many".into(), |s| s.to_string());
            let (shape, offset) = (&e.shape, e.offset);
            let what = format!(
                "{kind}{shape:?} has {size} bytes from byte {offset} of the data; the file ends before"
            );
            Err(wrong(what))
        }
    }
}

/// Refuses tensors that share bytes: what is made of each would be more than the file.
fn apart(path: &Path, tensors: &[Tensor]) -> Result<(), Error> {
    let mut order: Vec<(usize, usize, &str)> = Vec::new();
    for t in tensors {
        order.extend(t.range.as_ref().filter(|r| !r.is_empty()).map(|r| (r.start, r.end, t.name())));
    }
    order.sort_unstable();
    for pair in order.windows(2) {
        if pair[0].1 > pair[1].0 {
            return Err(Error::tensor(path, pair[1].2, format!("shares bytes with `{}`", Shown(pair[0].2))));
        }
    }
    Ok(())
}
