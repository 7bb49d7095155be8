//! Tensors of a `.safetensors` file.
//!
//! The format has no types of blocks. A tensor of those is stored as the bytes of its rows (`U8`), and the file's
//! metadata say what they are: [`BLOCKS`] is an object with the type for each name, `{"a.weight": "q8_0"}`. Behind the
//! type may stand `turned`: then the bytes are those of the matrix with its axes exchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tensor::safetensors::{Entry, File};

use crate::error::Shown;
use crate::layout::{blocks, count, layout};
use crate::map::Mapped;
use crate::{Error, Tensor};

/// The key of the metadata that says which tensors are in blocks.
pub(crate) const BLOCKS: &str = "blocks";

/// What says that the axes of a matrix are exchanged.
pub(crate) const TURNED: &str = " turned";

/// The tensors of a file, in the order of its header.
pub(crate) fn read(path: &Path) -> Result<Vec<Tensor>, Error> {
    let file = Arc::new(Mapped::open(path)?);
    let bytes = file.bytes();
    let read = File::read(bytes).map_err(|e| Error::file(path, e.to_string()))?;
    // The header's length comes first, in 8 bytes; all that is behind the header is data.
    let data = bytes.len() - read.entries().iter().map(|e| e.end).max().unwrap_or(0);
    let said = read.metadata().iter().find(|(key, _)| key == BLOCKS);
    let kinds: BTreeMap<String, String> = match said {
        Some((_, text)) => serde_json::from_str(text)
            .map_err(|e| Error::file(path, format!("the metadata `{BLOCKS}`: {e}")))?,
        None => BTreeMap::new(),
    };
    let made = |e: &Entry| {
        let t = tensor(&file, e, data)?;
        kinds.get(&e.name).map_or(Ok(t.clone()), |kind| in_blocks(t, kind))
    };
    read.entries().iter().map(made).collect()
}

fn tensor(file: &Arc<Mapped>, e: &Entry, data: usize) -> Result<Tensor, Error> {
    let wrong = |what: String| Error::tensor(file.path(), &e.name, what);
    let kind = e.type_name.to_ascii_lowercase();
    let Some(elements) = count(&e.shape) else {
        return Err(wrong(format!("the shape {:?} has too many elements", e.shape)));
    };
    let known = layout(&kind);
    if let Some(layout) = known
        && layout.size(elements) != Some(e.end - e.begin)
    {
        return Err(wrong(format!("{kind}{:?} does not fit in {} bytes", e.shape, e.end - e.begin)));
    }
    let range = known.map(|_| data + e.begin..data + e.end);
    Ok(Tensor {
        name: e.name.clone(),
        kind: Cow::Owned(kind),
        shape: e.shape.clone(),
        turned: false,
        range,
        file: file.clone(),
    })
}

/// A tensor of bytes as one of blocks.
fn in_blocks(t: Tensor, said: &str) -> Result<Tensor, Error> {
    let (kind, turned) = said.strip_suffix(TURNED).map_or((said, false), |kind| (kind, true));
    let row = t.shape.last().copied().unwrap_or(0);
    let bytes = t.kind == "u8" && !t.shape.is_empty();
    let fits = blocks(kind).filter(|l| bytes && row % l.bytes as i64 == 0);
    let Some(layout) = fits.filter(|_| !turned || t.shape.len() == 2) else {
        let what = format!("is {}{:?}, and `{}` is said of it", t.kind, t.shape, Shown(said));
        return Err(Error::tensor(t.file.path(), &t.name, what));
    };
    let mut shape = t.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = *last / layout.bytes as i64 * layout.elements as i64;
    }
    if count(&shape).is_none() {
        return Err(Error::tensor(t.file.path(), &t.name, format!("{shape:?} has too many elements")));
    }
    if turned {
        shape.reverse();
    }
    Ok(Tensor { kind: Cow::Owned(kind.to_owned()), shape, turned, ..t })
}
