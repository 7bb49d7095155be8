//! The head of a GGUF file that is written anew: the metadata of another file as they are, and where tensors will be.

use std::path::Path;

use super::cursor::Cursor;
use super::{ALIGNMENT, alignment, metadata, version};
use crate::layout::number;
use crate::map::Mapped;
use crate::write::{Place, size};
use crate::{Error, error::Shown};

/// Keys that say how a file is cut in parts, which the new one is not.
const SPLIT: &str = "split.";

/// The key that says which types most tensors have.
const FILE_TYPE: &str = "general.file_type";

/// All that stands before the data: metadata of the file `of`, and an entry for each tensor. Then the alignment of
/// tensors. `new`: some have another type than they had.
pub(crate) fn head(of: &Path, to: &Path, places: &[Place], new: bool) -> Result<(Vec<u8>, u64), Error> {
    let file = Mapped::open(of)?;
    let mut c = Cursor::new(of, file.bytes());
    version(of, &mut c)?;
    let (_, keys) = (c.u64()?, c.u64()?);
    let mut pairs: Vec<&[u8]> = Vec::new();
    let mut all = serde_json::Map::new();
    for _ in 0..keys {
        let from = c.at();
        let (key, value) = metadata::pair(&mut c)?;
        if !(key.starts_with(SPLIT) || new && key == FILE_TYPE) {
            pairs.push(&file.bytes()[from..c.at()]);
        }
        if key == "general.alignment" {
            all.insert(key.to_owned(), value);
        }
    }
    let alignment = alignment(of, &all)?.max(ALIGNMENT);
    let mut out: Vec<u8> = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((places.len() as u64).to_le_bytes());
    out.extend((pairs.len() as u64).to_le_bytes());
    pairs.iter().for_each(|p| out.extend_from_slice(p));
    let mut at = 0u64;
    for p in places {
        let Some(kind) = number(&p.kind).filter(|_| !p.turned) else {
            return Err(Error::tensor(to, &p.name, format!("GGUF has no `{}`", Shown(&p.kind))));
        };
        out.extend((p.name.len() as u64).to_le_bytes());
        out.extend_from_slice(p.name.as_bytes());
        out.extend((p.shape.len() as u32).to_le_bytes());
        p.shape.iter().rev().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(kind.to_le_bytes());
        out.extend(at.to_le_bytes());
        at = (at + size(to, p)?).next_multiple_of(alignment);
    }
    Ok((out, alignment))
}
