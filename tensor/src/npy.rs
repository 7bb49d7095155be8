//! The `.npy` format of numpy: one tensor a file.
//!
//! Read: versions 1 to 3, either byte order, C and Fortran order, every dtype of the table that numpy
//! has (bf16 has none). Written: version 1, little endian, C order. Malformed bytes give an
//! [`Error::Format`] that says what is wrong; nothing is allocated before the bytes are known to be there.

use crate::{DType, Error, MAX_RANK, Tensor};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Data begins at a multiple of this, so that it can be mapped.
const ALIGN: usize = 64;

fn wrong<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Format(format!("npy: {}", what.into())))
}

/// Reads a file's bytes.
pub fn read(bytes: &[u8]) -> Result<Tensor, Error> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return wrong("the file does not begin with \\x93NUMPY");
    };
    let (&[major, _minor], rest) = rest.split_first_chunk::<2>().map_or((&[0, 0], rest), |x| x);
    let (len, rest) = match major {
        1 => match rest.split_first_chunk::<2>() {
            Some((n, rest)) => (u16::from_le_bytes(*n) as usize, rest),
            None => return wrong("the file ends inside its header"),
        },
        2 | 3 => match rest.split_first_chunk::<4>() {
            Some((n, rest)) => (u32::from_le_bytes(*n) as usize, rest),
            None => return wrong("the file ends inside its header"),
        },
        _ => return wrong(format!("version {major} is not known")),
    };
    let Some((header, data)) = rest.split_at_checked(len) else {
        return wrong(format!("the header has {len} bytes, the file only {}", rest.len()));
    };
    let header = Header::parse(header)?;
    // Empty files with huge other extents cannot ask for memory; others are compared with the bytes first.
    let want = header.shape.iter().try_fold(header.dtype.size(), |n, &d| n.checked_mul(d as usize));
    let shape: Vec<i64> = header.shape.iter().map(|&d| d as i64).collect();
    if want != Some(data.len()) && !(header.shape.contains(&0) && data.is_empty()) {
        let want = want.map_or("more than any".into(), |n| n.to_string());
        return wrong(format!("{}{shape:?} needs {want} bytes, the file has {}", header.dtype, data.len()));
    }
    let mut t = Tensor::from_bytes(header.dtype, &shape, data)?;
    if header.dtype == DType::Bool {
        t.bytes_mut().iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    if header.big_endian {
        let size = header.dtype.size();
        t.bytes_mut().chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if header.fortran { transposed(&t) } else { Ok(t) }
}

/// The tensor in row-major order, of bytes that came with the first axis running fastest.
fn transposed(t: &Tensor) -> Result<Tensor, Error> {
    let (shape, size) = (t.shape(), t.dtype().size());
    let mut out = Tensor::zeros(t.dtype(), shape)?;
    let mut steps = vec![1usize; shape.len()];
    for axis in 1..shape.len() {
        steps[axis] = steps[axis - 1].wrapping_mul(shape[axis - 1] as usize);
    }
    let mut index = vec![0i64; shape.len()];
    let from = t.bytes();
    for element in out.bytes_mut().chunks_exact_mut(size) {
        let at: usize = index.iter().zip(&steps).map(|(&i, &s)| i as usize * s).sum();
        element.copy_from_slice(&from[at * size..(at + 1) * size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(out)
}

/// The bytes of a file that holds the tensor.
pub fn write(t: &Tensor) -> Result<Vec<u8>, Error> {
    let Some(descr) = t.dtype().npy() else {
        return wrong(format!("the format has no {}; write .safetensors, or convert to f32", t.dtype()));
    };
    let dims: String = t.shape().iter().map(|d| format!("{d}, ")).collect();
    // Python writes a tuple of one with a comma, longer ones without.
    let dims = if t.rank() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let before = MAGIC.len() + 4;
    let header = (before + dict.len() + 1).next_multiple_of(ALIGN) - before;
    let Ok(len) = u16::try_from(header) else { return wrong("the shape is too long for a version 1 header") };
    let mut out = Vec::with_capacity(before + header + t.bytes().len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(dict.as_bytes());
    out.resize(before + header - 1, b' ');
    out.push(b'\n');
    out.extend_from_slice(t.bytes());
    Ok(out)
}

struct Header {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let Ok(text) = std::str::from_utf8(bytes) else { return wrong("the header is not text") };
        let mut p = Parser { rest: text };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        p.expect("{")?;
        while !p.take("}") {
            let key = p.string()?;
            p.expect(":")?;
            match key {
                "descr" => descr = Some(p.descr()?),
                "fortran_order" => fortran = Some(p.boolean()?),
                "shape" => shape = Some(p.tuple()?),
                _ => return wrong(format!("the header has the unknown key {key:?}")),
            }
            if !p.take(",") {
                p.expect("}")?;
                break;
            }
        }
        if !p.rest.trim().is_empty() {
            return wrong("the header goes on after its dictionary");
        }
        let Some((dtype, big_endian)) = descr else { return wrong("the header has no 'descr'") };
        let Some(fortran) = fortran else { return wrong("the header has no 'fortran_order'") };
        let Some(shape) = shape else { return wrong("the header has no 'shape'") };
        Ok(Header { dtype, big_endian, fortran, shape })
    }
}

/// Reads the Python literals that occur in headers.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(12).collect();
        wrong(format!("the header should have {token:?} at {found:?}"))
    }

    fn string(&mut self) -> Result<&'a str, Error> {
        let quote = if self.take("\"") { '"' } else { '\'' };
        if quote == '\'' {
            self.expect("'")?;
        }
        let Some((text, rest)) = self.rest.split_once(quote) else {
            return wrong("a text of the header is not closed");
        };
        self.rest = rest;
        Ok(text)
    }

    /// The element type, and whether it is big endian.
    fn descr(&mut self) -> Result<(DType, bool), Error> {
        if self.take("[") {
            return wrong("elements of several fields are not supported");
        }
        let text = self.string()?;
        let (big, kind) = match text.as_bytes().first() {
            Some(b'>') => (true, &text[1..]),
            Some(b'<' | b'=' | b'|') => (false, &text[1..]),
            _ => (false, text),
        };
        let found = DType::all().find(|d| d.npy().is_some_and(|own| &own[1..] == kind));
        match found {
            Some(d) => Ok((d, big && d.size() > 1)),
            None => wrong(format!("the element type {text:?} is not supported")),
        }
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        if self.take("True") {
            return Ok(true);
        }
        self.expect("False")?;
        Ok(false)
    }

    fn tuple(&mut self) -> Result<Vec<u64>, Error> {
        let mut dims = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            let Some(d) = digits.parse().ok().filter(|d| i64::try_from(*d).is_ok()) else {
                return wrong(format!(
                    "an extent is not a number below 2^63: {:?}",
                    self.rest.chars().take(24).collect::<String>()
                ));
            };
            self.rest = rest;
            // Python 2 wrote long integers with a suffix.
            self.take("L");
            dims.push(d);
            if dims.len() > MAX_RANK {
                return wrong(format!("more than {MAX_RANK} axes"));
            }
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(dims)
    }
}
