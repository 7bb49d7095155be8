//! Comments, and the lists between which they stand.
//!
//! Comments are not part of the tree; they are found by their place. A [`Printer`] walks the tree in
//! the order of the text with the comments that are still to come; whatever is printed as a list
//! (statements, fields, parameters, arguments, operands of a chain) takes, before each element, the
//! comments that stand before it. A comment on its own line goes on its own line before the element;
//! one behind other text goes to the end of the line of the element before. Both break the list. A
//! comment anywhere else waits for the next list, so none is lost.

use ir::ast::Comment;

use super::doc::{Doc, docs, group, nest};

/// What a walk over a tree knows.
pub(super) struct Printer<'a> {
    /// The text that the tree was read from.
    pub(super) source: Option<&'a str>,
    comments: &'a [Comment],
    /// The first comment not yet printed.
    next: usize,
}

/// How the elements of a list are set when it does not fit on a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Each on its own line.
    Lines,
    /// As many on a line as fit.
    Fill,
}

impl<'a> Printer<'a> {
    pub(super) fn new(source: Option<&'a str>, comments: &'a [Comment]) -> Printer<'a> {
        Printer { source, comments, next: 0 }
    }

    /// The comments before a place that were not yet taken.
    pub(super) fn take(&mut self, before: u32) -> &'a [Comment] {
        let rest = &self.comments[self.next..];
        let taken = &rest[..rest.iter().take_while(|c| c.span.lo < before).count()];
        self.next += taken.len();
        taken
    }

    /// Whether a comment that was not yet taken stands before a place.
    pub(super) fn pending(&self, before: u32) -> bool {
        self.comments.get(self.next).is_some_and(|c| c.span.lo < before)
    }

    /// Whether a comment stands between two places.
    pub(super) fn any_between(&self, lo: u32, hi: u32) -> bool {
        let first = self.comments.partition_point(|c| c.span.lo < lo);
        self.comments.get(first).is_some_and(|c| c.span.lo < hi)
    }

    /// Whether what stands at a place begins its line.
    pub(super) fn begins_line(&self, at: u32) -> bool {
        let before = self.source.and_then(|s| s.get(..at as usize));
        before.is_some_and(|b| b.trim_end_matches([' ', '\t']).ends_with('\n'))
    }

    /// Whether an empty line stands before the line that begins at a place. Documentation and
    /// attributes are skipped: they belong to what they stand before. Documentation of nothing is a
    /// comment like others.
    pub(super) fn blank_before(&self, at: u32) -> bool {
        if !self.begins_line(at) {
            return false;
        }
        let Some(before) = self.source.and_then(|s| s.get(..at as usize)) else { return false };
        let mut end = before.len() as u32;
        for (i, line) in before.rsplit('\n').enumerate() {
            let start = end - line.len() as u32;
            let text = line.trim();
            let belongs = text.starts_with("#[") || text.starts_with("///") && !self.any_between(start, end);
            if i > 0 && !belongs {
                return text.is_empty();
            }
            end = start.saturating_sub(1);
        }
        false
    }

    /// Where a list ends whose last element ends at a place: behind blanks, separators and comments.
    fn closer(&self, after: u32) -> u32 {
        let Some(mut rest) = self.source.and_then(|s| s.get(after as usize..)) else { return after };
        let length = rest.len();
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            match rest.strip_prefix("//") {
                Some(comment) => rest = comment.find('\n').map_or("", |n| &comment[n..]),
                None => return after + (length - rest.len()) as u32,
            }
        }
    }

    /// Where the braces around fields end; `before` bounds it where the text is not at hand.
    pub(super) fn closer_of_fields(&self, fields: &[ir::ast::Param], before: u32) -> u32 {
        fields.last().map_or(before, |f| self.closer(f.span.hi)).min(before)
    }

    /// A list in brackets, separated by commas. `at` gives the place of an element.
    pub(super) fn list<T>(
        &mut self,
        (open, close): (&'static str, &'static str),
        items: &[T],
        at: impl Fn(&T) -> (u32, u32),
        style: Style,
        mut each: impl FnMut(&mut Self, &T) -> Doc,
    ) -> Doc {
        if items.is_empty() {
            return docs![open, close];
        }
        let line = || if style == Style::Fill { Doc::Wrap } else { Doc::Line };
        let mut inner = Vec::new();
        let last = items.len() - 1;
        for (i, item) in items.iter().enumerate() {
            let comments = self.take(at(item).0);
            inner.extend(comments.iter().filter(|c| !c.own_line).map(|c| Doc::Suffix(c.text.clone())));
            inner.push(if i == 0 { Doc::Soft } else { line() });
            for comment in comments.iter().filter(|c| c.own_line) {
                inner.extend([Doc::Text(comment.text.clone()), Doc::Hard]);
            }
            inner.push(each(self, item));
            inner.push(if i == last { Doc::IfBreak(",", "") } else { Doc::Static(",") });
        }
        let end = self.closer(at(&items[last]).1);
        for comment in self.take(end) {
            inner.push(match comment.own_line {
                true => docs![Doc::Hard, comment.text.clone()],
                false => Doc::Suffix(comment.text.clone()),
            });
        }
        group(docs![open, nest(Doc::Concat(inner)), Doc::Soft, close])
    }

    /// Elements separated by commas, without brackets: further lines are indented. Comments before
    /// an element break the line.
    pub(super) fn series<T>(
        &mut self,
        items: &[T],
        at: impl Fn(&T) -> u32,
        mut each: impl FnMut(&mut Self, &T) -> Doc,
    ) -> Doc {
        let mut parts = Vec::new();
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                parts.push(Doc::Static(","));
                let comments = self.take(at(item));
                parts.extend(comments.iter().filter(|c| !c.own_line).map(|c| Doc::Suffix(c.text.clone())));
                parts.push(Doc::Line);
                for comment in comments.iter().filter(|c| c.own_line) {
                    parts.extend([Doc::Text(comment.text.clone()), Doc::Hard]);
                }
            }
            parts.push(each(self, item));
        }
        group(nest(Doc::Concat(parts)))
    }

    /// Braces around statements or fields, not yet a group. `end` is the place of the `}`; on one
    /// line the elements are separated by `separator`. `guard` says of an element that the newline
    /// before it would not end the element before, so that `;` is needed.
    #[expect(clippy::too_many_arguments, reason = "the one place where braces are printed")]
    pub(super) fn braces<T>(
        &mut self,
        items: &[T],
        end: u32,
        separator: &'static str,
        on_lines: bool,
        at: impl Fn(&T) -> u32,
        guard: impl Fn(&T) -> bool,
        mut each: impl FnMut(&mut Self, &T) -> Doc,
    ) -> Doc {
        if items.is_empty() && !self.pending(end) {
            return Doc::Static("{}");
        }
        let mut inner = Vec::new();
        let mut first = true;
        let mut after_item = false;
        let line = |p: &Self, place: u32, first: bool| match (first, p.blank_before(place)) {
            (true, _) if on_lines => Doc::Hard,
            (false, true) => Doc::Blank,
            _ => Doc::Line,
        };
        for place in items.iter().map(Some).chain([None]) {
            let start = place.map_or(end, &at);
            let comments = self.take(start);
            let guarded = after_item && place.is_some_and(&guard);
            if guarded {
                inner.push(Doc::Static(";"));
            }
            for comment in comments {
                if comment.own_line {
                    inner.extend([line(self, comment.span.lo, first), Doc::Text(comment.text.clone())]);
                    first = false;
                    // Whatever follows a comment begins a line: nothing that must break.
                    inner.push(Doc::Group(Box::new(Doc::Static("")), true));
                } else {
                    inner.push(Doc::Suffix(comment.text.clone()));
                }
            }
            let Some(item) = place else { break };
            if after_item && !guarded {
                inner.push(Doc::IfBreak("", separator));
            }
            inner.push(line(self, start, first));
            inner.push(each(self, item));
            first = false;
            after_item = true;
        }
        docs!["{", nest(Doc::Concat(inner)), Doc::Line, "}"]
    }
}
