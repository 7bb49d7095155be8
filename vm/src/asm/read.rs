//! Reading a listing.

use std::ops::Range;

use tensor::abi::{self, Access, Buf};

use super::token::{Cursor, Lexed, Result, Token};
use super::{Error, code, in_order, steps};
use crate::program::{
    Bytes, Constant, Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Extent, Function, Kernel, Param,
    Region, Setting, TensorType, Type, Work,
};
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

struct Reader<'a, 't> {
    c: &'a mut Cursor<'t>,
    faults: &'a mut Vec<Error>,
    out: &'a mut Read,
}

impl<'t> Reader<'_, 't> {
    fn header(&mut self) -> Result {
        let first = "the first line says what this is: `tenon bytecode 3`";
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
    fn block(&mut self, words: &[&str], mut line: impl FnMut(&mut Cursor<'t>, &str) -> Result) -> Result {
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

    fn entry(&mut self, start: usize) -> Result {
        let name = self.c.name("the name of an entry")?;
        self.c.expect("=")?;
        let function = self.c.numbered("fn", "a function (`fn0`)")?;
        let place = start..self.c.before().end;
        let mut entry = Entry { name, function, ..Entry::default() };
        self.block(&["dim", "param", "result"], |c, word| {
            match word {
                "dim" => {
                    let name = c.name("the name of a dim")?;
                    c.expect("=")?;
                    entry.dims.push(EntryDim { name, steps: steps::read(c, "#")? });
                }
                "param" => {
                    let own = c.is("own") && c.ahead(1).is_none_or(|t| t.text != ":");
                    if own {
                        c.next();
                    }
                    let name = c.name("the name of a parameter")?;
                    c.expect(":")?;
                    let dtype = code::dtype(c)?;
                    let shape = extents(c, |c| {
                        let text = c.text("an extent in quotes")?;
                        c.expect("=")?;
                        Ok(EntryExtent { text, steps: steps::read(c, "#")? })
                    })?;
                    entry.params.push(EntryParam { name, dtype, shape, own, from: from(c)? });
                }
                _ => {
                    let named = c.ahead(1).is_some_and(|t| t.text == ":");
                    let name = if named { Some(c.name("the name of a result")?) } else { None };
                    if named {
                        c.expect(":")?;
                    }
                    let dtype = code::dtype(c)?;
                    let shape = extents(c, |c| c.text("an extent in quotes"))?;
                    entry.results.push(EntryResult { name, dtype, shape });
                }
            }
            Ok(())
        })?;
        self.out.package.program.entries.push(entry);
        self.out.places.entries.push(place);
        Ok(())
    }

    fn kernel(&mut self, start: usize) -> Result {
        count(self.c, "k", self.out.package.program.kernels.len())?;
        let name = self.c.name("the name of a kernel")?;
        self.c.expect("(")?;
        let ints = self.c.number("how many ints it has")?;
        self.c.expect("ints")?;
        let (mut bufs, mut shapes) = (Vec::new(), Vec::new());
        while self.c.eat(",") {
            let (buf, shape) = buffer(self.c)?;
            bufs.push(buf);
            shapes.push(shape);
        }
        self.c.expect(")")?;
        let place = start..self.c.before().end;
        let mut kernel = Kernel {
            name,
            abi: abi::Kernel {
                symbol: String::new(),
                bufs,
                ints,
                grid: Vec::new(),
                scratch: Vec::new(),
                checks: Vec::new(),
                libraries: Vec::new(),
            },
            floats: Vec::new(),
            shapes,
            places: Vec::new(),
            work: None,
        };
        let words = ["symbol", "grid", "scratch", "floats", "library", "check", "work"];
        self.block(&words, |c, word| {
            match word {
                "symbol" => kernel.abi.symbol = c.text("a symbol in quotes")?,
                "grid" => kernel.abi.grid = steps::read(c, "#")?,
                "scratch" => kernel.abi.scratch = steps::read(c, "#")?,
                "floats" => {
                    while !c.at_line_end() {
                        kernel.floats.push(c.number("the number of an int that is a float")?);
                    }
                }
                "library" => kernel.abi.libraries.push(c.text("a library in quotes")?),
                "check" => {
                    kernel.abi.checks.push(c.text("a message in quotes")?);
                    kernel.places.extend(code::place(c, 0)?);
                }
                _ => {
                    c.expect("flops")?;
                    let flops = steps::read(c, "#")?;
                    c.expect(",")?;
                    c.expect("bytes")?;
                    let bytes = steps::read(c, "#")?;
                    let guessed = c.eat(",");
                    if guessed {
                        c.expect("guessed")?;
                    }
                    kernel.work = Some(Work { flops, bytes, guessed });
                }
            }
            Ok(())
        })?;
        self.out.package.program.kernels.push(kernel);
        self.out.places.kernels.push(place);
        Ok(())
    }

    fn function(&mut self, start: usize) -> Result {
        count(self.c, "fn", self.out.package.program.functions.len())?;
        let mut f = Function { name: self.c.name("the name of a function")?, ..Function::default() };
        f.params = types(self.c, |c| {
            let own = c.eat("own");
            Ok(Param { ty: ty(c)?, own })
        })?;
        if self.c.take(Token::Arrow, "`->`").is_ok() {
            f.results = types(self.c, ty)?;
        } else {
            return Err(self.c.fault("`->`"));
        }
        let place = start..self.c.before().end;
        self.c.expect("{")?;
        self.c.line_end()?;
        self.c.skip_blank();
        while self.c.is("registers") || self.c.is("region") {
            if let Err(fault) = registers(self.c, &mut f).and_then(|()| self.c.line_end()) {
                self.faults.push(fault);
                self.c.skip_line();
            }
            self.c.skip_blank();
        }
        let body = code::read(self.c, self.faults);
        self.c.expect("}")?;
        self.c.line_end()?;
        self.out.package.program.functions.push(Function {
            code: body.code,
            pool: body.pool,
            places: body.places,
            ..f
        });
        self.out.places.functions.push((place, body.spans));
        Ok(())
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// The number of a thing: they are counted.
fn count(c: &mut Cursor<'_>, prefix: &str, next: usize) -> Result {
    let wanted = format!("`{prefix}{next}`");
    let at = c.here();
    let found: usize = c.numbered(prefix, &wanted)?;
    if found == next {
        return Ok(());
    }
    Err(Error::new(at, format!("expected {wanted}, found `{prefix}{found}`"))
        .help("they are counted from 0, in order"))
}

/// `[a, b]`; without brackets none.
fn extents<T>(c: &mut Cursor<'_>, mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut out = Vec::new();
    if !c.eat("[") {
        return Ok(out);
    }
    while !c.eat("]") {
        out.push(one(c)?);
        if !c.is("]") {
            c.expect(",")?;
        }
    }
    Ok(out)
}

/// `(a, b)`
fn types<T>(c: &mut Cursor<'_>, mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut out = Vec::new();
    c.expect("(")?;
    while !c.eat(")") {
        out.push(one(c)?);
        if !c.is(")") {
            c.expect(",")?;
        }
    }
    Ok(out)
}

fn ty(c: &mut Cursor<'_>) -> Result<Type> {
    if c.eat("int") {
        Ok(Type::Int)
    } else if c.eat("float") {
        Ok(Type::Float)
    } else {
        tensor_type(c).map(Type::Tensor)
    }
}

/// `from "a.b"`, if it stands there.
fn from(c: &mut Cursor<'_>) -> Result<Option<String>> {
    if c.eat("from") { c.text("a name in quotes").map(Some) } else { Ok(None) }
}

/// `heads from "num_heads"`, `eps: f32`, `head = "hidden/heads"`
fn setting(c: &mut Cursor<'_>) -> Result<Setting> {
    let name = c.name("the name of a setting")?;
    let dtype = if c.eat(":") { Some(code::dtype(c)?) } else { None };
    let is = if c.eat("=") { Some(c.text("an expression in quotes")?) } else { None };
    Ok(Setting { name, dtype, is, from: from(c)? })
}

/// `f32/2`
fn tensor_type(c: &mut Cursor<'_>) -> Result<TensorType> {
    let dtype = code::dtype(c)?;
    c.expect("/")?;
    Ok(TensorType { dtype, rank: c.number("a number of axes")? })
}

/// `registers ints 2, floats 0, tensors f32/1 f32/1` and `region r0 STEPS bytes, 0..2, twin`
fn registers(c: &mut Cursor<'_>, f: &mut Function) -> Result {
    if c.eat("registers") {
        c.expect("ints")?;
        f.ints = c.number("how many `i` registers there are")?;
        c.expect(",")?;
        c.expect("floats")?;
        f.floats = c.number("how many `f` registers there are")?;
        c.expect(",")?;
        c.expect("tensors")?;
        while !c.at_line_end() {
            f.tensors.push(tensor_type(c)?);
        }
        return Ok(());
    }
    c.expect("region")?;
    count(c, "r", f.regions.len())?;
    let bytes = steps::read(c, "i")?;
    c.expect("bytes")?;
    c.expect(",")?;
    let from = c.number("the first moment of its life")?;
    c.expect("..")?;
    let to = c.number("the last moment of its life")?;
    let twin = c.eat(",");
    if twin {
        c.expect("twin")?;
    }
    f.regions.push(Region { bytes, from, to, twin });
    Ok(())
}

/// `in f32[#0, 4]`
fn buffer(c: &mut Cursor<'_>) -> Result<(Buf, Vec<Extent>)> {
    let accesses = [("in", Access::In), ("out", Access::Out), ("inout", Access::InOut)];
    let Some(&(_, access)) = accesses.iter().find(|(word, _)| c.eat(word)) else {
        return Err(c.fault("`in`, `out` or `inout`"));
    };
    let dtype = code::dtype(c)?;
    let from = c.here().start;
    let shape = extents(c, |c| {
        Ok(match c.peek() {
            Some(t) if t.token == Token::Int => Extent::Const(c.number("an extent")?),
            Some(t) if t.text == "#" => {
                c.next();
                Extent::Int(c.number("the number of an int")?)
            }
            _ => Extent::Steps(steps::read(c, "#")?),
        })
    })?;
    let rank = u8::try_from(shape.len())
        .map_err(|_| Error::new(from..c.before().end, "a buffer has at most 255 axes"))?;
    Ok((Buf { dtype, rank, access }, shape))
}

/// `f32[2, 3] { 0x.. }`
fn constant(c: &mut Cursor<'_>) -> Result<Constant> {
    let dtype = code::dtype(c)?;
    let shape = extents(c, |c| c.number("an extent"))?;
    c.expect("{")?;
    let mut bytes = Vec::new();
    loop {
        c.skip_blank();
        if c.eat("}") {
            return Ok(Constant { dtype, shape, bytes: Bytes::copy(&bytes) });
        }
        let piece = c.take(Token::Hex, "bytes (`0x0000803f`) or `}`")?;
        let digits = &piece.text.as_bytes()[2..];
        if !digits.len().is_multiple_of(2) {
            return Err(Error::new(piece.span, "a byte is two digits; there is an odd number of them"));
        }
        let digit = |d: u8| char::from(d).to_digit(16).unwrap_or(0) as u8;
        bytes.extend(digits.chunks_exact(2).map(|d| digit(d[0]) << 4 | digit(d[1])));
    }
}
