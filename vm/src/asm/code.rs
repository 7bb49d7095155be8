//! The instructions of a function, read by the table of [`isa`](crate::isa).

use std::collections::BTreeMap;
use std::ops::Range;

use tensor::DType;

use super::Error;
use super::token::{Cursor, Result, Token};
use crate::isa::{
    Axis, ConstId, F, Float, FuncId, I, Instr, Int, KernelId, Kind, Label, List, MessageId, Operand, Reg,
    RegionId, Row, T,
};
use crate::program::SourceLocation;
use crate::scalar::{Compare, FloatBinary, FloatUnary, IntBinary, IntUnary};

/// What stands between the braces of a function, after its registers and regions.
#[derive(Default)]
pub(super) struct Code {
    pub(super) code: Vec<Instr>,
    pub(super) pool: Vec<Reg>,
    pub(super) places: Vec<SourceLocation>,
    /// Where each instruction stands in the text.
    pub(super) spans: Vec<Range<usize>>,
}

/// Reads instructions alone: what stands between the braces of a function. The instructions and the pool of their
/// lists, or the first fault.
pub fn code(text: &str) -> Result<(Vec<Instr>, Vec<Reg>)> {
    let mut faults = Vec::new();
    let mut cursor = Cursor::new(text, &mut faults);
    let words = faults.len();
    let code = read(&mut cursor, &mut faults);
    if let Some(t) = cursor.peek() {
        faults.push(Error::new(t.span.clone(), "`}` closes nothing"));
    }
    match super::in_order(text, faults, words).into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok((code.code, code.pool)),
    }
}

/// Reads lines up to `}` or the end.
pub(super) fn read(c: &mut Cursor<'_>, faults: &mut Vec<Error>) -> Code {
    let labels = labels(c, faults);
    let mut out = Code::default();
    loop {
        c.skip_blank();
        if c.peek().is_none() || c.is("}") {
            return out;
        }
        if is_label(c, 0) {
            c.skip_line();
            continue;
        }
        let start = c.here().start;
        let pool = out.pool.len();
        match instruction(c, &labels, &mut out) {
            Ok(instr) => {
                out.code.push(instr);
                out.spans.push(start..c.before().end);
                if let Err(fault) = places(c, &mut out).and_then(|()| c.line_end()) {
                    faults.push(fault);
                    c.skip_line();
                }
            }
            Err(fault) => {
                faults.push(fault);
                out.pool.truncate(pool);
                // What follows keeps its number.
                out.code.push(Instr::Fuel {});
                out.spans.push(start..start);
                c.skip_line();
            }
        }
    }
}

/// `name:` alone on a line, `n` words ahead.
fn is_label(c: &Cursor<'_>, n: usize) -> bool {
    c.ahead(n).is_some_and(|t| t.token == Token::Word)
        && c.ahead(n + 1).is_some_and(|t| t.text == ":")
        && c.ahead(n + 2).is_none_or(|t| t.token == Token::Line || t.text == "}")
}

/// The labels of the code ahead, with the numbers of the instructions they stand before.
fn labels<'t>(c: &Cursor<'t>, faults: &mut Vec<Error>) -> BTreeMap<&'t str, u32> {
    let mut labels = BTreeMap::new();
    let (mut at, mut pc) = (0, 0);
    while let Some(t) = c.ahead(at) {
        if t.text == "}" {
            break;
        }
        if t.token == Token::Line {
            at += 1;
            continue;
        }
        if is_label(c, at) {
            if labels.insert(t.text, pc).is_some() {
                faults.push(Error::new(t.span.clone(), format!("the label `{}` stands twice", t.text)));
            }
        } else {
            pc += 1;
        }
        while c.ahead(at).is_some_and(|t| t.token != Token::Line) {
            at += 1;
        }
    }
    labels
}

/// How an instruction is written, and its meaning.
fn usage((mnemonic, operands, doc): &Row) -> String {
    let list: Vec<String> =
        operands.iter().map(|(name, _, kind)| format!("{name}: {}", kind.short())).collect();
    format!("`{mnemonic} {}`: {doc}", list.join(", "))
}

fn instruction(c: &mut Cursor<'_>, labels: &BTreeMap<&str, u32>, out: &mut Code) -> Result<Instr> {
    let word = c.take(Token::Word, "an instruction, a label or `}`")?;
    let Some(row) = Instr::TABLE.iter().find(|r| r.0 == word.text) else {
        let known = Instr::TABLE.iter().map(|r| r.0);
        return Err(Error::new(word.span, format!("no instruction `{}`", word.text)).among(word.text, known));
    };
    let mut n = 0;
    let built = Instr::build(word.text, &mut |kind| {
        if n > 0 {
            c.expect(",")?;
        }
        n += 1;
        operand(c, kind, labels, &mut out.pool)
    });
    let instr = built.map_err(|e| if e.help.is_none() { e.help(usage(row)) } else { e })?;
    if c.is(",") {
        return Err(Error::new(c.here(), "an operand too many").help(usage(row)));
    }
    // Each operand that is read is of the kind that was asked for.
    instr.ok_or_else(|| Error::new(word.span, "an operand is of another kind").help(usage(row)))
}

/// Where an instruction is written: none or more places.
fn places(c: &mut Cursor<'_>, out: &mut Code) -> Result {
    let pc = (out.code.len() - 1) as u32;
    while let Some(found) = source_location(c, pc)? {
        out.places.push(found);
    }
    Ok(())
}

/// `@FILE LINE:COLUMN FIRST..END`, if it is there.
pub(super) fn source_location(c: &mut Cursor<'_>, pc: u32) -> Result<Option<SourceLocation>> {
    if !c.eat("@") {
        return Ok(None);
    }
    let file = c.number("the number of a file")?;
    let line = c.number("a line")?;
    c.expect(":")?;
    let col = c.number("a column")?;
    let lo = c.number("the first byte")?;
    c.expect("..")?;
    let hi = c.number("the end of the bytes")?;
    Ok(Some(SourceLocation { pc, file, line, col, lo, hi }))
}

fn operand(
    c: &mut Cursor<'_>,
    kind: Kind,
    labels: &BTreeMap<&str, u32>,
    pool: &mut Vec<Reg>,
) -> Result<Operand> {
    let what = kind.long();
    Ok(match kind {
        Kind::I => Operand::I(I(c.numbered("i", what)?)),
        Kind::F => Operand::F(F(c.numbered("f", what)?)),
        Kind::T => Operand::T(T(c.numbered("t", what)?)),
        Kind::Int => Operand::Int(Int(c.number(what)?)),
        Kind::Float => Operand::Float(Float(float(c)?)),
        Kind::Label => {
            let word = c.take(Token::Word, what)?;
            let to = labels.get(word.text).ok_or_else(|| {
                let fault = Error::new(word.span, format!("no label `{}` in this function", word.text));
                fault.among(word.text, labels.keys().copied())
            })?;
            Operand::Label(Label(*to))
        }
        Kind::Message => Operand::Message(MessageId(c.numbered("m", what)?)),
        Kind::Const => Operand::Const(ConstId(c.numbered("c", what)?)),
        Kind::Kernel => Operand::Kernel(KernelId(c.numbered("k", what)?)),
        Kind::Func => Operand::Func(FuncId(c.numbered("fn", what)?)),
        Kind::Region => Operand::Region(RegionId(c.numbered("r", what)?)),
        Kind::Axis => Operand::Axis(Axis(c.number(what)?)),
        Kind::List => {
            let from = c.here().start;
            c.expect("[")?;
            let start = pool.len();
            while !c.eat("]") {
                pool.push(register(c)?);
            }
            let len = u16::try_from(pool.len() - start)
                .map_err(|_| Error::new(from..c.before().end, "a list has at most 65535 registers"))?;
            Operand::List(List { start: start as u32, len })
        }
        Kind::DType => Operand::DType(dtype(c)?),
        Kind::IntUnary => Operand::IntUnary(named(c, what, IntUnary::named, IntUnary::ALL, IntUnary::name)?),
        Kind::IntBinary => {
            Operand::IntBinary(named(c, what, IntBinary::named, IntBinary::ALL, IntBinary::name)?)
        }
        Kind::FloatUnary => {
            Operand::FloatUnary(named(c, what, FloatUnary::named, FloatUnary::ALL, FloatUnary::name)?)
        }
        Kind::FloatBinary => {
            Operand::FloatBinary(named(c, what, FloatBinary::named, FloatBinary::ALL, FloatBinary::name)?)
        }
        Kind::Compare => Operand::Compare(named(c, what, Compare::named, Compare::ALL, Compare::name)?),
    })
}

fn register(c: &mut Cursor<'_>) -> Result<Reg> {
    let wanted = "a register (`i0`, `f0`, `t0`) or `]`";
    match c.peek().and_then(|t| t.text.chars().next()) {
        Some('i') => c.numbered("i", wanted).map(Reg::I),
        Some('f') => c.numbered("f", wanted).map(Reg::F),
        _ => c.numbered("t", wanted).map(Reg::T),
    }
}

/// An element type.
pub(super) fn dtype(c: &mut Cursor<'_>) -> Result<DType> {
    let word = c.take(Token::Word, Kind::DType.long())?;
    word.text.parse().map_err(|_| {
        let fault = Error::new(word.span, format!("no element type `{}`", word.text));
        let names: Vec<String> = DType::all().map(|d| d.to_string()).collect();
        fault.among(word.text, names.iter().map(String::as_str))
    })
}

/// The bits of a number: decimal, or the bits themselves in hexadecimal.
fn float(c: &mut Cursor<'_>) -> Result<u64> {
    let fault = c.fault(Kind::Float.long());
    let Some(t) = c.peek() else { return Err(fault) };
    let bits = match (t.token, t.text.strip_prefix("0x")) {
        (Token::Hex, Some(digits)) => u64::from_str_radix(digits, 16).ok(),
        (Token::Int | Token::Float, _) => t.text.parse::<f64>().ok().map(f64::to_bits),
        (Token::Word, _) if t.text == "inf" => Some(f64::INFINITY.to_bits()),
        _ => None,
    };
    let bits = bits.ok_or(fault)?;
    c.next();
    Ok(bits)
}

/// An operation by its name.
fn named<O: Copy>(
    c: &mut Cursor<'_>,
    what: &str,
    find: fn(&str) -> Option<O>,
    all: &[O],
    name: fn(O) -> &'static str,
) -> Result<O> {
    let word = c.take(Token::Word, what)?;
    find(word.text).ok_or_else(|| {
        let fault = Error::new(word.span, format!("`{}` is not {what}", word.text));
        fault.among(word.text, all.iter().map(|o| name(*o)))
    })
}
