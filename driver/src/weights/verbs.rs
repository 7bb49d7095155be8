//! What verbs make of a tensor of a checkpoint.
//!
//! | verb | gives |
//! |---|---|
//! | `rows(t, from, count)` | so many rows of the first axis |
//! | `columns(t, from, count)` | so many of the second axis |
//! | `transpose(t)` | the two axes exchanged |
//! | `unpermute(t, heads)` | rows in the order of halves, where each head has them in pairs |
//! | `part(t, i)` | one of the first axis, without it |
//! | `flat(t)` | axes of extent 1 left out |
//! | `reshape(t, extent, ..)` | the same elements with other extents |
//! | `plus(t, x)` | a number added to each element |
//! | `field(t, "q4_0", at, bytes, block, ..)` | some bytes of each block, in axes of these extents |
//!
//! Rows of a quantized tensor are whole blocks, so what moves rows goes for any tensor; `transpose` and `plus` are of
//! floats.

use std::borrow::Cow;

use import::Layout;
use ir::origin::Value;
use tensor::DType;

use super::{Made, convert, wrong};

/// The bytes of a tensor as a checkpoint has them, or as verbs made them.
pub(super) struct Raw<'c> {
    pub(super) of: &'c import::Tensor,
    pub(super) kind: String,
    pub(super) layout: Layout,
    pub(super) shape: Vec<i64>,
    /// True if the bytes have the two axes exchanged.
    pub(super) turned: bool,
    /// Those of whole blocks, where it is one field of each.
    pub(super) bytes: Cow<'c, [u8]>,
    /// Where in a block its field begins, the bytes of that, and of a block.
    pub(super) field: Option<[usize; 3]>,
}

impl<'c> Raw<'c> {
    pub(super) fn of(t: &'c import::Tensor) -> Made<Raw<'c>> {
        let (Ok(bytes), Some(layout)) = (t.bytes(), t.layout()) else {
            return wrong(format!("`{}` has the element type {}, which is not known", t.name(), t.kind()));
        };
        Ok(Raw {
            of: t,
            kind: t.kind().to_owned(),
            layout,
            shape: t.shape().to_vec(),
            turned: t.turned(),
            bytes: Cow::Borrowed(bytes),
            field: None,
        })
    }

    /// The name of the tensor that it is, or is made of.
    pub(super) fn name(&self) -> &'c str {
        self.of.name()
    }

    /// Its bytes by themselves, and not in blocks.
    pub(super) fn gathered(self) -> Raw<'c> {
        let Some([at, size, block]) = self.field else { return self };
        let mut bytes = Vec::with_capacity(self.bytes.len() / block * size);
        self.bytes.chunks_exact(block).for_each(|b| bytes.extend_from_slice(&b[at..at + size]));
        Raw { bytes: Cow::Owned(bytes), field: None, ..self }
    }

    fn axis(&self, i: usize) -> usize {
        self.shape.get(i).map_or(1, |n| usize::try_from(*n).unwrap_or(0))
    }

    /// The bytes of one of the first axis.
    fn row_bytes(&self) -> usize {
        self.bytes.len().checked_div(self.axis(0)).unwrap_or(0)
    }

    /// The element type, where each element is by itself.
    fn plain(&self) -> Made<DType> {
        match convert::dtype(&self.kind) {
            Some(d) => Ok(d),
            None => wrong(format!("`{}` is {}, in blocks that stay whole", self.name(), self.kind)),
        }
    }
}

pub(super) fn apply<'c>(verb: &str, raw: Raw<'c>, args: &[Value]) -> Made<Raw<'c>> {
    if raw.turned {
        return turned(verb, raw, args);
    }
    let raw = raw.gathered();
    let ints: Vec<usize> =
        args.iter().filter_map(|v| v.as_i64().and_then(|n| usize::try_from(n).ok())).collect();
    match (verb, ints.as_slice(), args) {
        ("rows", &[from, count], [_, _]) => rows(raw, from, count),
        ("columns", &[from, count], [_, _]) => columns(raw, from, count),
        ("transpose", [], []) => transpose(raw),
        ("unpermute", &[heads], [_]) => unpermute(raw, heads),
        ("part", &[at], [_]) => {
            let mut one = rows(raw, at, 1)?;
            one.shape.remove(0);
            Ok(one)
        }
        ("flat", [], []) => {
            let shape = raw.shape.iter().copied().filter(|n| *n != 1).collect();
            Ok(Raw { shape, ..raw })
        }
        ("reshape", [_, ..], extents) if extents.len() == ints.len() => reshape(raw, &ints),
        ("plus", _, [x]) if x.as_f64().is_some() => plus(raw, x.as_f64().unwrap_or_default()),
        ("field", &[at, bytes, block, ref extents @ ..], [Value::Text(kind), ..]) => {
            field(raw, kind, [at, bytes, block], extents)
        }
        (
            "rows" | "columns" | "transpose" | "unpermute" | "part" | "flat" | "reshape" | "plus" | "field",
            ..,
        ) => wrong(format!("`{verb}` does not take {}", Value::List(args.to_vec()))),
        _ => wrong(format!(
            "there is no verb `{verb}`; there are rows, columns, transpose, unpermute, part, flat, reshape, plus"
        )),
    }
}

/// A verb on a matrix whose bytes have the axes exchanged: its rows are columns there.
fn turned<'c>(verb: &str, mut raw: Raw<'c>, args: &[Value]) -> Made<Raw<'c>> {
    raw.turned = false;
    raw.shape.reverse();
    let verb = match verb {
        "transpose" if args.is_empty() => return Ok(raw),
        "rows" => "columns",
        "columns" => "rows",
        _ => {
            return wrong(format!("`{}` is stored with its axes exchanged: no `{verb}` of that", raw.name()));
        }
    };
    let mut made = apply(verb, raw, args)?;
    made.turned = true;
    made.shape.reverse();
    Ok(made)
}

fn reshape<'c>(raw: Raw<'c>, extents: &[usize]) -> Made<Raw<'c>> {
    let shape: Vec<i64> = extents.iter().filter_map(|n| i64::try_from(*n).ok()).collect();
    let count = |shape: &[i64]| shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d));
    let whole = extents.last().is_some_and(|n| n.is_multiple_of(raw.layout.elements));
    if !whole || count(&shape).is_none() || count(&shape) != count(&raw.shape) {
        return wrong(format!("`{}` is {}{:?}, and has no form {shape:?}", raw.name(), raw.kind, raw.shape));
    }
    Ok(Raw { shape, ..raw })
}

fn rows(raw: Raw<'_>, from: usize, count: usize) -> Made<Raw<'_>> {
    let (all, each) = (raw.axis(0), raw.row_bytes());
    let Some(end) = from.checked_add(count).filter(|end| *end <= all && !raw.shape.is_empty()) else {
        return wrong(format!("`{}` has {all} rows, and {count} from {from} on are needed", raw.name()));
    };
    let bytes = match raw.bytes {
        Cow::Borrowed(b) => Cow::Borrowed(&b[from * each..end * each]),
        Cow::Owned(b) => Cow::Owned(b[from * each..end * each].to_vec()),
    };
    let mut shape = raw.shape;
    shape[0] = count as i64;
    Ok(Raw { shape, bytes, ..raw })
}

fn columns(raw: Raw<'_>, from: usize, count: usize) -> Made<Raw<'_>> {
    let (all, block) = (raw.axis(1), raw.layout.elements);
    let whole = |n: usize| raw.shape.len() != 2 || n.is_multiple_of(block);
    let Some(end) = from.checked_add(count).filter(|end| *end <= all && raw.shape.len() >= 2) else {
        return wrong(format!("`{}` has {all} columns, and {count} from {from} on are needed", raw.name()));
    };
    if !whole(from) || !whole(end) {
        return wrong(format!(
            "`{}` is {}, and columns {from} to {end} are no whole blocks",
            raw.name(),
            raw.kind
        ));
    }
    let each = raw.row_bytes();
    let one = |n: usize| each / all.max(1) * n + each % all.max(1) * n / all.max(1);
    let mut bytes = Vec::new();
    for row in raw.bytes.chunks_exact(each.max(1)) {
        bytes.extend_from_slice(&row[one(from)..one(end)]);
    }
    let mut shape = raw.shape;
    shape[1] = count as i64;
    Ok(Raw { shape, bytes: Cow::Owned(bytes), ..raw })
}

pub(super) fn transpose(raw: Raw<'_>) -> Made<Raw<'_>> {
    let size = raw.plain()?.size();
    let [m, n] = raw.shape[..] else {
        return wrong(format!("`{}` has {} axes, and two are exchanged", raw.name(), raw.shape.len()));
    };
    let (m, n) = (m as usize, n as usize);
    let mut bytes = vec![0; raw.bytes.len()];
    for i in 0..m {
        for j in 0..n {
            bytes[(j * m + i) * size..][..size].copy_from_slice(&raw.bytes[(i * n + j) * size..][..size]);
        }
    }
    Ok(Raw { shape: vec![n as i64, m as i64], bytes: Cow::Owned(bytes), ..raw })
}

/// Files of llama.cpp have the rows of a head in the order 0, d/2, 1, d/2 + 1, ..: each with the one it turns with.
fn unpermute(raw: Raw<'_>, heads: usize) -> Made<Raw<'_>> {
    let (all, each) = (raw.axis(0), raw.row_bytes());
    if heads == 0 || !all.is_multiple_of(2 * heads) {
        return wrong(format!("`{}` has {all} rows, which are not {heads} heads of pairs", raw.name()));
    }
    let half = all / heads / 2;
    let mut bytes = Vec::with_capacity(raw.bytes.len());
    for h in 0..heads {
        for side in 0..2 {
            for k in 0..half {
                let at = (h * half + k) * 2 + side;
                bytes.extend_from_slice(&raw.bytes[at * each..(at + 1) * each]);
            }
        }
    }
    Ok(Raw { bytes: Cow::Owned(bytes), ..raw })
}

fn plus(raw: Raw<'_>, x: f64) -> Made<Raw<'_>> {
    // A sum of halves may be none.
    let wide = if raw.plain()? == DType::F64 { DType::F64 } else { DType::F32 };
    let fault = |e: &dyn std::fmt::Display| super::Fault::Wrong(format!("`{}`: {e}", raw.name()));
    let mut t = tensor::Tensor::zeros(wide, &raw.shape).map_err(|e| fault(&e))?;
    convert::into(&raw, wide, t.bytes_mut()).map_err(|e| fault(&e))?;
    (0..t.len()).for_each(|i| t.set_f64(i, t.get_f64(i) + x));
    Ok(Raw { bytes: Cow::Owned(t.bytes().to_vec()), kind: wide.name().to_owned(), ..raw })
}

/// One field of each block: the last axis counts blocks, and what the field holds of each comes behind.
fn field<'c>(raw: Raw<'c>, kind: &str, [at, size, block]: [usize; 3], extents: &[usize]) -> Made<Raw<'c>> {
    if raw.kind != kind || raw.layout.bytes != block || block == 0 || at + size > block {
        return wrong(format!("`{}` is {}, and {kind} is needed", raw.name(), raw.kind));
    }
    let mut shape = raw.shape;
    if let Some(last) = shape.last_mut() {
        *last /= raw.layout.elements as i64;
    }
    shape.extend(extents.iter().map(|n| *n as i64));
    Ok(Raw { kind: "bytes".to_owned(), shape, field: Some([at, size, block]), ..raw })
}
