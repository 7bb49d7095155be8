//! Reading a listing: its items one after the other, each fault noted and the rest read all the same.
//!
//! What takes lines of its own is in `items`, what stands within a line in `parts`.

use std::ops::Range;

use super::parts::{constant, count, setting};
use super::token::{Cursor, Lexed, Result};
use super::{Error, in_order};
use crate::tnx::{Package, VERSION};

/// What a text says, and where.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// What it says. It has not been verified, and has no native code.
    pub package: Package,
    /// Where.
    pub places: Places,
}

/// Where the parts of a program stand in the text, in bytes.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The entries.
    pub entries: Vec<Range<usize>>,
    /// The constants.
    pub constants: Vec<Range<usize>>,
    /// The kernels.
    pub kernels: Vec<Range<usize>>,
    /// The functions: their first lines, and their instructions.
    pub functions: Vec<(Range<usize>, Vec<Range<usize>>)>,
    /// The loops.
    pub loops: Range<usize>,
}

const ITEMS: &[&str] = &["file", "message", "const", "setting", "entry", "kernel", "function", "loops"];

/// Reads a listing; every fault of it.
pub fn read(text: &str) -> std::result::Result<Read, Vec<Error>> {
    let (head, loops) = split(text);
    let mut faults = Vec::new();
    let mut c = Cursor::new(head, &mut faults);
    let words = faults.len();
    let mut out = Read::default();
    if let Some(at) = loops {
        out.package.loops = text[at..].to_owned();
        out.places.loops = at..text.len();
    }
    let mut reader = Reader { c: &mut c, faults: &mut faults, out: &mut out };
    reader.c.skip_blank();
    match reader.header() {
        // Of a text of another kind one fault is enough.
        Err(fault) => Err(vec![fault]),
        Ok(()) => {
            reader.items();
            if faults.is_empty() { Ok(out) } else { Err(in_order(head, faults, words)) }
        }
    }
}

/// The listing proper, and where the loops begin, if there are any.
fn split(text: &str) -> (&str, Option<usize>) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "loops" {
            return (&text[..at], Some(at + line.len()));
        }
        at += line.len();
    }
    (text, None)
}

/// A listing that is being read.
pub(super) struct Reader<'a, 't> {
    pub(super) c: &'a mut Cursor<'t>,
    pub(super) faults: &'a mut Vec<Error>,
    pub(super) out: &'a mut Read,
}

impl<'t> Reader<'_, 't> {
    fn header(&mut self) -> Result {
        let first = "the first line says what this is: `tenon bytecode 6`";
        let start = self.c.here();
        if !(self.c.eat("tenon") && self.c.eat("bytecode")) {
            return Err(Error::new(start, "not a listing of bytecode").help(first));
        }
        let at = self.c.here();
        let version: u32 = self.c.number("a version")?;
        if version != VERSION {
            let text = format!("the listing has version {version}, this program reads version {VERSION}");
            return Err(Error::new(at, text));
        }
        self.c.line_end()
    }

    fn items(&mut self) {
        loop {
            self.c.skip_blank();
            let Some(word) = self.c.peek().cloned() else { return };
            if let Err(fault) = self.item(&word) {
                self.faults.push(fault);
                self.skip_item();
            }
        }
    }

    /// To what begins after this item: a line that begins like one.
    fn skip_item(&mut self) {
        loop {
            self.c.skip_line();
            self.c.skip_blank();
            // Of code, `const t0` and `kernel k0, [` begin alike.
            let begins = self.c.peek().is_none_or(|t| ITEMS.contains(&t.text));
            let code = self.c.ahead(2).is_some_and(|t| t.text == ",");
            if begins && !code {
                return;
            }
        }
    }

    fn item(&mut self, word: &Lexed<'t>) -> Result {
        self.c.next();
        let program = &mut self.out.package.program;
        match word.text {
            "file" => {
                count(self.c, "", program.files.len())?;
                program.files.push(self.c.text("the name of a file in quotes")?);
                self.c.line_end()
            }
            "message" => {
                count(self.c, "m", program.messages.len())?;
                program.messages.push(self.c.text("a message in quotes")?);
                self.c.line_end()
            }
            "const" => {
                count(self.c, "c", program.constants.len())?;
                let constant = constant(self.c)?;
                program.constants.push(constant);
                self.out.places.constants.push(word.span.start..self.c.before().end);
                self.c.line_end()
            }
            "setting" => {
                let setting = setting(self.c)?;
                program.settings.push(setting);
                self.c.line_end()
            }
            "entry" => self.entry(word.span.start),
            "kernel" => self.kernel(word.span.start),
            "function" => self.function(word.span.start),
            other => {
                let fault =
                    Error::new(word.span.clone(), format!("expected {}, found `{other}`", list(ITEMS)));
                Err(fault.among(other, ITEMS.iter().copied()))
            }
        }
    }

    /// The lines between braces; each begins with one of `words`.
    pub(super) fn block(
        &mut self,
        words: &[&str],
        mut line: impl FnMut(&mut Cursor<'t>, &str) -> Result,
    ) -> Result {
        self.c.expect("{")?;
        loop {
            self.c.skip_blank();
            if self.c.eat("}") {
                return self.c.line_end();
            }
            let Some(word) = self.c.next() else { return Err(self.c.fault("`}`")) };
            let read = if words.contains(&word.text) {
                line(self.c, word.text).and_then(|()| self.c.line_end())
            } else {
                let fault =
                    Error::new(word.span, format!("expected {} or `}}`, found `{}`", list(words), word.text));
                Err(fault.among(word.text, words.iter().copied()))
            };
            if let Err(fault) = read {
                self.faults.push(fault);
                self.c.skip_line();
            }
        }
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}
