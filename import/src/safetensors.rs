//! Tensors of a `.safetensors` file.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use tensor::safetensors::{Entry, File};

use crate::layout::{count, layout};
use crate::map::Mapped;
use crate::{Error, Tensor};

/// The tensors of a file, in the order of its header.
pub(crate) fn read(path: &Path) -> Result<Vec<Tensor>, Error> {
    let file = Arc::new(Mapped::open(path)?);
    let bytes = file.bytes();
    let read = File::read(bytes).map_err(|e| Error::file(path, e.to_string()))?;
    // The header's length comes first, in 8 bytes; all that is behind the header is data.
    let data = bytes.len() - read.entries().iter().map(|e| e.end).max().unwrap_or(0);
    read.entries().iter().map(|e| tensor(&file, e, data)).collect()
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
        range,
        file: file.clone(),
    })
}
