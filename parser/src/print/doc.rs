//! Pretty printing by documents: text with places where a line may end, and their layout.
//!
//! In: a [`Doc`]. Out: lines of at most [`WIDTH`] columns where that can be had. The algorithm is
//! Wadler's as prettier runs it: a group that fits on the rest of the line is printed flat, another
//! has all its own lines broken; inner groups decide for themselves. A group that holds something
//! that must break is broken. A comment at the end of a line ([`Doc::Suffix`]) waits until the line
//! ends and takes no width.
//!
//! Invariants: the layout keeps its own stack, and how far it looks ahead is bounded by the width,
//! so time is linear in the document; no line ends with a blank.

/// The columns of a line.
pub(super) const WIDTH: usize = 110;
/// Where indentation ends: a thousand calls in each other must not make a million spaces.
const DEEPEST: usize = 80;
/// The columns of a level of indentation.
const INDENT: usize = 4;

/// A document.
#[derive(Clone, Debug)]
pub(super) enum Doc {
    /// Text without a newline.
    Text(String),
    /// Text without a newline.
    Static(&'static str),
    /// A blank, or a newline in a broken group.
    Line,
    /// Nothing, or a newline in a broken group.
    Soft,
    /// A blank, or in a broken group a newline if what follows up to the next such place does not fit.
    Wrap,
    /// A newline; breaks its groups.
    Hard,
    /// An empty line, then a new one; breaks its groups.
    Blank,
    /// A comment for the end of the line; breaks its groups.
    Suffix(String),
    /// One after the other.
    Concat(Vec<Doc>),
    /// Newlines inside are indented by one more level.
    Nest(Box<Doc>),
    /// Flat if it fits; `true`: must break.
    Group(Box<Doc>, bool),
    /// The first in a broken group, the second in a flat one.
    IfBreak(&'static str, &'static str),
}

impl From<&'static str> for Doc {
    fn from(text: &'static str) -> Doc {
        Doc::Static(text)
    }
}

impl From<String> for Doc {
    fn from(text: String) -> Doc {
        Doc::Text(text)
    }
}

/// One after the other.
macro_rules! docs {
    ($($part:expr),* $(,)?) => { $crate::print::doc::Doc::Concat(vec![$($crate::print::doc::Doc::from($part)),*]) };
}
pub(super) use docs;

/// Indented.
pub(super) fn nest(doc: Doc) -> Doc {
    Doc::Nest(Box::new(doc))
}

/// Flat if it fits.
pub(super) fn group(doc: Doc) -> Doc {
    let broken = doc.must_break();
    Doc::Group(Box::new(doc), broken)
}

impl Doc {
    /// Whether a group of this must break. Groups inside answer for themselves, so each part of a
    /// document is looked at once for each group directly around it.
    pub(super) fn must_break(&self) -> bool {
        let mut stack = vec![self];
        while let Some(doc) = stack.pop() {
            match doc {
                Doc::Hard | Doc::Blank | Doc::Suffix(_) | Doc::Group(_, true) => return true,
                Doc::Concat(parts) => stack.extend(parts),
                Doc::Nest(inner) => stack.push(inner),
                Doc::Text(_)
                | Doc::Static(_)
                | Doc::Line
                | Doc::Soft
                | Doc::Wrap
                | Doc::Group(_, false)
                | Doc::IfBreak(..) => {}
            }
        }
        false
    }

    /// The columns it takes flat.
    pub(super) fn flat_width(&self) -> usize {
        let mut width = 0;
        let mut stack = vec![self];
        while let Some(doc) = stack.pop() {
            match doc {
                Doc::Text(text) => width += columns(text),
                Doc::Static(text) | Doc::IfBreak(_, text) => width += columns(text),
                Doc::Line | Doc::Wrap => width += 1,
                Doc::Concat(parts) => stack.extend(parts),
                Doc::Nest(inner) | Doc::Group(inner, _) => stack.push(inner),
                Doc::Soft | Doc::Hard | Doc::Blank | Doc::Suffix(_) => {}
            }
        }
        width
    }
}

fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// A document to lay out: its indentation, whether its group is broken, and itself.
type Step<'d> = (usize, bool, &'d Doc);

/// Lays a document out.
pub(super) fn layout(doc: &Doc) -> String {
    let mut out = String::new();
    let mut column = 0;
    let mut suffixes: Vec<&str> = Vec::new();
    let mut stack: Vec<Step> = vec![(0, true, doc)];
    while let Some((indent, broken, doc)) = stack.pop() {
        match doc {
            Doc::Text(text) => {
                out.push_str(text);
                column += columns(text);
            }
            Doc::Static(text) => {
                out.push_str(text);
                column += columns(text);
            }
            Doc::IfBreak(yes, no) => {
                let text = if broken { yes } else { no };
                out.push_str(text);
                column += columns(text);
            }
            Doc::Concat(parts) => stack.extend(parts.iter().rev().map(|p| (indent, broken, p))),
            Doc::Nest(inner) => stack.push(((indent + INDENT).min(DEEPEST), broken, inner)),
            Doc::Group(inner, must) => {
                let flat = !must && fits(WIDTH.saturating_sub(column), (indent, false, inner), &stack);
                stack.push((indent, !flat, inner));
            }
            Doc::Suffix(text) => suffixes.push(text),
            Doc::Line | Doc::Wrap if !broken => {
                out.push(' ');
                column += 1;
            }
            Doc::Soft if !broken => {}
            Doc::Wrap
                if suffixes.is_empty()
                    && fits(WIDTH.saturating_sub(column + 1), (indent, false, &NOTHING), &stack) =>
            {
                out.push(' ');
                column += 1;
            }
            Doc::Line | Doc::Soft | Doc::Wrap | Doc::Hard | Doc::Blank => {
                end_line(&mut out, &mut suffixes);
                if matches!(doc, Doc::Blank) {
                    out.push('\n');
                }
                out.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            }
        }
    }
    end_line(&mut out, &mut suffixes);
    out
}

const NOTHING: Doc = Doc::Static("");

fn end_line(out: &mut String, suffixes: &mut Vec<&str>) {
    for suffix in suffixes.drain(..) {
        if !out.ends_with([' ', '\n']) {
            out.push(' ');
        }
        out.push_str(suffix);
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// Whether `first` and what follows it, up to the first place where a line may end, fit in `room`.
fn fits<'d>(room: usize, first: Step<'d>, rest: &[Step<'d>]) -> bool {
    let mut room = room as isize;
    let mut rest = rest.iter().rev();
    let mut stack: Vec<Step> = vec![first];
    loop {
        let Some((indent, broken, doc)) = stack.pop().or_else(|| rest.next().copied()) else { return true };
        match doc {
            Doc::Text(text) => room -= columns(text) as isize,
            Doc::Static(text) => room -= columns(text) as isize,
            Doc::IfBreak(yes, no) => room -= columns(if broken { yes } else { no }) as isize,
            Doc::Concat(parts) => stack.extend(parts.iter().rev().map(|p| (indent, broken, p))),
            Doc::Nest(inner) => stack.push((indent, broken, inner)),
            Doc::Group(inner, must) => stack.push((indent, broken || *must, inner)),
            Doc::Line | Doc::Soft | Doc::Wrap if broken => return true,
            Doc::Hard | Doc::Blank => return true,
            Doc::Line | Doc::Wrap => room -= 1,
            Doc::Soft | Doc::Suffix(_) => {}
        }
        if room < 0 {
            return false;
        }
    }
}
