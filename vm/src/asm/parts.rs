//! What stands within a line of a listing: types, extents, constants, buffers, settings, registers.

use tensor::abi::{Access, Buf};

use super::token::{Cursor, Result, Token};
use super::{Error, code, steps};
use crate::program::{Bytes, Constant, Extent, Function, Region, Setting, TensorType, Type};

/// The number of a thing: they are counted.
pub(super) fn count(c: &mut Cursor<'_>, prefix: &str, next: usize) -> Result {
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
pub(super) fn extents<T>(
    c: &mut Cursor<'_>,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
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
pub(super) fn types<T>(
    c: &mut Cursor<'_>,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
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

pub(super) fn ty(c: &mut Cursor<'_>) -> Result<Type> {
    if c.eat("int") {
        Ok(Type::Int)
    } else if c.eat("float") {
        Ok(Type::Float)
    } else {
        tensor_type(c).map(Type::Tensor)
    }
}

/// `from "a.b"`, if it stands there.
pub(super) fn from(c: &mut Cursor<'_>) -> Result<Option<String>> {
    if c.eat("from") { c.text("a name in quotes").map(Some) } else { Ok(None) }
}

/// `heads from "num_heads"`, `eps: f32`, `head = "hidden/heads"`
pub(super) fn setting(c: &mut Cursor<'_>) -> Result<Setting> {
    let name = c.name("the name of a setting")?;
    let dtype = if c.eat(":") { Some(code::dtype(c)?) } else { None };
    let is = if c.eat("=") { Some(c.text("an expression in quotes")?) } else { None };
    Ok(Setting { name, dtype, is, from: from(c)? })
}

/// `f32/2`
pub(super) fn tensor_type(c: &mut Cursor<'_>) -> Result<TensorType> {
    let dtype = code::dtype(c)?;
    c.expect("/")?;
    Ok(TensorType { dtype, rank: c.number("a number of axes")? })
}

/// `registers ints 2, floats 0, tensors f32/1 f32/1` and `region r0 STEPS bytes, 0..2, twin`
pub(super) fn registers(c: &mut Cursor<'_>, f: &mut Function) -> Result {
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
pub(super) fn buffer(c: &mut Cursor<'_>) -> Result<(Buf, Vec<Extent>)> {
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
pub(super) fn constant(c: &mut Cursor<'_>) -> Result<Constant> {
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
