//! Tensors of a checkpoint: where in which file their bytes are.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::layout::{Layout, layout};
use crate::map::Mapped;
use crate::{Error, error::Shown};

/// A tensor in a file. It keeps the file mapped, and may outlive its checkpoint.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) name: String,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) shape: Vec<i64>,
    /// True if the bytes have the two axes exchanged.
    pub(crate) turned: bool,
    /// Where its bytes are. None where the type is unknown.
    pub(crate) range: Option<Range<usize>>,
    pub(crate) file: Arc<Mapped>,
}

impl Tensor {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements as the format names it, in lower case: `f32`, `bf16`, `q4_k`, `f8_e4m3`. A type of
    /// GGUF that is not known is `type N`, N its number.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its extents, the outermost first. Their product is no larger than an `i64`.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// True for a matrix whose bytes have its two axes exchanged: so many rows as [`shape`](Tensor::shape) has columns.
    /// Blocks then lie along the first axis. Only files that [`write`](crate::write) made have such.
    pub fn turned(&self) -> bool {
        self.turned
    }

    /// How its type stores elements; none if it is not known.
    pub fn layout(&self) -> Option<Layout> {
        layout(&self.kind)
    }

    /// Its bytes, in the file's order of bytes, which is little endian. There are as many as shape and type say.
    ///
    /// They are aligned as the file aligns them: safetensors promise nothing. A tensor of unknown type has none.
    pub fn bytes(&self) -> Result<&[u8], Error> {
        let bytes = self.range.clone().and_then(|r| self.file.bytes().get(r));
        bytes.ok_or_else(|| {
            let what = format!("elements of type `{}` are not known", Shown(&self.kind));
            Error::tensor(self.file.path(), &self.name, what)
        })
    }

    /// Lets go of the memory that its bytes are in: it is no more than it was before they were first looked at.
    pub fn forget(&self) {
        self.range.iter().for_each(|r| self.file.forget(r.clone()));
    }

    /// The same for some of its [`bytes`](Tensor::bytes). Bytes that are not of its file stay.
    pub fn forget_part(&self, bytes: &[u8]) {
        let at = (bytes.as_ptr() as usize).checked_sub(self.file.bytes().as_ptr() as usize);
        let part = at.map(|at| at..at + bytes.len());
        part.filter(|p| p.end <= self.file.bytes().len()).into_iter().for_each(|p| self.file.forget(p));
    }

    /// The file that it is in.
    pub fn file(&self) -> &Path {
        self.file.path()
    }
}
