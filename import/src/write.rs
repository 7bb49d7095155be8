//! A checkpoint written anew: its tensors under the names that they have, some in other types.
//!
//! One file comes of all parts, in the format that they had. Of GGUF the metadata stay as they are; safetensors say in
//! their own which tensors are blocks (`safetensors.rs`). A file has its name when it is whole.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::layout::{blocks, count, layout};
use crate::safetensors::{BLOCKS, TURNED};
use crate::{Checkpoint, Error, Format, Tensor, gguf};

/// A tensor that is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub kind: String,
    /// Its extents.
    pub shape: Vec<i64>,
    /// True if its bytes have the two axes exchanged ([`Tensor::turned`]).
    pub turned: bool,
}

impl Place {
    /// A tensor as it is.
    pub fn of(t: &Tensor) -> Place {
        let (name, kind, shape) = (t.name().to_owned(), t.kind().to_owned(), t.shape().to_vec());
        Place { name, kind, shape, turned: t.turned() }
    }
}

/// The name that a file of a format has in a folder of a model.
pub fn file_name(format: Format) -> &'static str {
    match format {
        Format::Safetensors => "model.safetensors",
        Format::Gguf => "model.gguf",
    }
}

/// Writes tensors of a checkpoint to a file of its format. `bytes` gives those of each, or says why it has none.
pub fn write<'b>(
    checkpoint: &Checkpoint,
    to: &Path,
    places: &[Place],
    bytes: &mut dyn FnMut(usize) -> Result<Cow<'b, [u8]>, String>,
) -> Result<(), Error> {
    let (head, alignment) = match (checkpoint.format(), checkpoint.head()) {
        (Format::Gguf, Some(of)) => {
            let same = |p: &Place| checkpoint.tensor(&p.name).is_ok_and(|t| t.kind() == p.kind);
            gguf::head(of, to, places, !places.iter().all(same))?
        }
        _ => (header(to, places)?, 1),
    };
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = to.with_file_name(name);
    let made = whole(&part, (&head, alignment), places, bytes)
        .and_then(|()| std::fs::rename(&part, to).map_err(|e| Error::io(to, e)));
    if made.is_err() {
        // There may be none.
        drop(std::fs::remove_file(&part));
    }
    made
}

fn whole<'b>(
    path: &Path,
    (head, alignment): (&[u8], u64),
    places: &[Place],
    bytes: &mut dyn FnMut(usize) -> Result<Cow<'b, [u8]>, String>,
) -> Result<(), Error> {
    let wrong = |e| Error::io(path, e);
    let mut out = BufWriter::new(File::create(path).map_err(wrong)?);
    out.write_all(head).map_err(wrong)?;
    let mut at = head.len() as u64;
    for (i, p) in places.iter().enumerate() {
        let gap = at.next_multiple_of(alignment) - at;
        out.write_all(&vec![0; gap as usize]).map_err(wrong)?;
        let these = bytes(i).map_err(|e| Error::tensor(path, &p.name, e))?;
        if these.len() as u64 != size(path, p)? {
            let what = format!("{}{:?} does not have {} bytes", p.kind, p.shape, these.len());
            return Err(Error::tensor(path, &p.name, what));
        }
        out.write_all(&these).map_err(wrong)?;
        at += gap + these.len() as u64;
    }
    out.flush().map_err(wrong)
}

/// The bytes of a tensor.
pub(crate) fn size(path: &Path, p: &Place) -> Result<u64, Error> {
    let size = layout(&p.kind).and_then(|l| l.size(count(&p.shape)?));
    let known = size.and_then(|n| u64::try_from(n).ok());
    known.ok_or_else(|| Error::tensor(path, &p.name, format!("{}{:?} has no size", p.kind, p.shape)))
}

/// The header of a safetensors file, with its length.
fn header(path: &Path, places: &[Place]) -> Result<Vec<u8>, Error> {
    let mut all = Map::new();
    let kinds: BTreeMap<&str, String> = places
        .iter()
        .filter(|p| blocks(&p.kind).is_some())
        .map(|p| (p.name.as_str(), format!("{}{}", p.kind, if p.turned { TURNED } else { "" })))
        .collect();
    let mut metadata = Map::from_iter([("format".to_owned(), Value::from("pt"))]);
    if !kinds.is_empty() {
        metadata.insert(BLOCKS.to_owned(), json!(kinds).to_string().into());
    }
    all.insert("__metadata__".to_owned(), metadata.into());
    let mut at = 0;
    for p in places {
        let end = at + size(path, p)?;
        let mut shape = p.shape.clone();
        let dtype = match blocks(&p.kind) {
            Some(layout) => {
                if p.turned {
                    shape.reverse();
                }
                if let Some(last) = shape.last_mut() {
                    *last = *last / layout.elements as i64 * layout.bytes as i64;
                }
                "U8".to_owned()
            }
            None => p.kind.to_ascii_uppercase(),
        };
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [at, end] });
        if all.insert(p.name.clone(), entry).is_some() {
            return Err(Error::tensor(path, &p.name, "the name comes twice"));
        }
        at = end;
    }
    let mut text = Value::from(all).to_string().into_bytes();
    // Data begin at a multiple of 64.
    let padded = (text.len() + 8).next_multiple_of(64) - 8;
    text.resize(padded, b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}
