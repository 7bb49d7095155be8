//! Source texts and places in them.

use std::sync::Arc;

/// A file of the [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct SourceId(pub u32);

/// A half-open range of bytes of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Span {
    /// The file.
    pub file: SourceId,
    /// The first byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

impl Span {
    /// The smallest span that holds both; they must be of one file.
    pub fn to(self, other: Span) -> Span {
        Span { file: self.file, lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

/// One source text.
#[derive(Debug)]
pub struct Source {
    /// The name diagnostics show: a path, `std/nn.tn`, `<repl>`.
    pub name: String,
    /// The text.
    pub text: String,
    lines: Vec<u32>,
}

/// Every text that takes part, by [`SourceId`].
#[derive(Debug, Default, Clone)]
pub struct SourceMap {
    files: Vec<Arc<Source>>,
}

impl SourceMap {
    /// Adds a text.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i as u32 + 1)).collect();
        self.files.push(Arc::new(Source { name: name.into(), text, lines }));
        SourceId(self.files.len() as u32 - 1)
    }

    /// The number of texts; their ids count from 0.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The text of an id this map gave out.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.files[id.0 as usize]
    }

    /// The 1-based line and column (in characters) of a span's start.
    pub fn line_col(&self, span: Span) -> (usize, usize) {
        let source = self.get(span.file);
        let line = source.lines.partition_point(|&start| start <= span.lo) - 1;
        let start = source.lines[line] as usize;
        let end = (span.lo as usize).min(source.text.len());
        (line + 1, source.text.get(start..end).map_or(0, |s| s.chars().count()) + 1)
    }

    /// The 1-based line and column (in characters) one past a span's end.
    pub fn line_col_end(&self, span: Span) -> (usize, usize) {
        self.line_col(Span { lo: span.hi, ..span })
    }

    /// The text a span covers.
    pub fn snippet(&self, span: Span) -> &str {
        self.get(span.file).text.get(span.lo as usize..span.hi as usize).unwrap_or("")
    }
}
