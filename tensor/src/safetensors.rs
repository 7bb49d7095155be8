//! The `.safetensors` format: named tensors in one file, with a JSON header.
//!
//! [`File::read`] checks the whole header against the bytes before anything is handed out: offsets in
//! order, inside the file, without overlaps or holes, each as long as its shape and dtype say. Tensors
//! are then fetched one by one. Element types this program does not know are listed and refused on fetch.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::{DType, Error, MAX_RANK, Tensor};

/// One row a type: its name in the format.
const NAMES: [(&str, DType); 10] = [
    ("F64", DType::F64),
    ("F32", DType::F32),
    ("F16", DType::F16),
    ("BF16", DType::Bf16),
    ("I64", DType::I64),
    ("I32", DType::I32),
    ("I16", DType::I16),
    ("I8", DType::I8),
    ("U8", DType::U8),
    ("BOOL", DType::Bool),
];

/// The longest header that is read, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

const METADATA: &str = "__metadata__";

fn wrong<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Format(format!("safetensors: {}", what.into())))
}

/// A file's bytes, understood.
#[derive(Debug)]
pub struct File<'a> {
    entries: Vec<Entry>,
    metadata: Vec<(String, String)>,
    data: &'a [u8],
}

/// A tensor of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The element type as the file names it.
    pub type_name: String,
    /// The element type, if this program knows it.
    pub dtype: Option<DType>,
    /// The extents.
    pub shape: Vec<i64>,
    /// The first byte of its data, counted from the end of the header.
    pub begin: usize,
    /// One past its last byte.
    pub end: usize,
}

impl<'a> File<'a> {
    /// Reads and checks the header.
    pub fn read(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        let Some((len, rest)) = bytes.split_first_chunk::<8>() else { return wrong("shorter than 8 bytes") };
        let len = u64::from_le_bytes(*len);
        if len > MAX_HEADER || len > rest.len() as u64 {
            return wrong(format!(
                "the header has {len} bytes, after its length the file has {}",
                rest.len()
            ));
        }
        let (header, data) = rest.split_at(len as usize);
        let header: Header = match serde_json::from_slice(header) {
            Ok(h) => h,
            Err(e) => return wrong(format!("the header: {e}")),
        };
        let entries = header.entries.into_iter().map(Entry::new).collect::<Result<Vec<_>, _>>()?;
        covers(&entries, data.len())?;
        Ok(File { entries, metadata: header.metadata, data })
    }

    /// The tensors, in the order of the header.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The names, in the order of the header.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// The bytes of a tensor.
    pub fn bytes(&self, entry: &Entry) -> &'a [u8] {
        self.data.get(entry.begin..entry.end).unwrap_or(&[])
    }

    /// A tensor by its name.
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let Some(e) = self.entries.iter().find(|e| e.name == name) else {
            return wrong(format!("there is no tensor {name:?}; there are {}", listed(self.names())));
        };
        let Some(dtype) = e.dtype else {
            return wrong(format!("{name}: the element type {} is not supported", e.type_name));
        };
        let mut t = Tensor::from_bytes(dtype, &e.shape, self.bytes(e))?;
        if dtype == DType::Bool {
            t.bytes_mut().iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        Ok(t)
    }
}

/// The first names, and how many more.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let names: Vec<&str> = names.collect();
    match names.len() {
        0 => "none".into(),
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

/// Compares the tensors' ranges with the data: all of it, each byte once.
fn covers(entries: &[Entry], len: usize) -> Result<(), Error> {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|e| (e.begin, e.end));
    let mut at = 0;
    for e in order {
        if e.begin < at {
            return wrong(format!("{}: its data, from byte {}, overlaps another's", e.name, e.begin));
        }
        if e.begin > at {
            return wrong(format!("bytes {at} to {} belong to no tensor", e.begin));
        }
        if e.end > len {
            return wrong(format!("{}: its data ends at byte {}, the file's at {len}", e.name, e.end));
        }
        at = e.end;
    }
    if at != len {
        return wrong(format!("bytes {at} to {len} belong to no tensor"));
    }
    Ok(())
}

impl Entry {
    fn new((name, raw): (String, RawEntry)) -> Result<Entry, Error> {
        let dtype = NAMES.iter().find(|n| n.0 == raw.dtype).map(|n| n.1);
        if raw.shape.len() > MAX_RANK {
            return wrong(format!("{name}: more than {MAX_RANK} axes"));
        }
        let Some(shape) = raw.shape.iter().map(|&d| i64::try_from(d).ok()).collect::<Option<Vec<i64>>>()
        else {
            return wrong(format!("{name}: an extent is larger than 2^63"));
        };
        let [begin, end] = raw.data_offsets;
        let (Ok(begin), Ok(end)) = (usize::try_from(begin), usize::try_from(end)) else {
            return wrong(format!("{name}: an offset is too large"));
        };
        if begin > end {
            return wrong(format!("{name}: its data ends at {end}, before it begins at {begin}"));
        }
        if let Some(dtype) = dtype {
            let empty = shape.contains(&0);
            let want = shape.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d as usize));
            let want = if empty { Some(0) } else { want };
            if want != Some(end - begin) {
                let want = want.map_or("more than any".into(), |n| n.to_string());
                return wrong(format!("{name}: {dtype}{shape:?} needs {want} bytes, got {}", end - begin));
            }
        }
        Ok(Entry { name, type_name: raw.dtype, dtype, shape, begin, end })
    }
}

/// The bytes of a file that holds the tensors. They are laid out by falling element size, so that each is
/// aligned, and otherwise in the order given.
pub fn write<'t>(tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>) -> Result<Vec<u8>, Error> {
    let mut order: Vec<(&str, &Tensor)> = tensors.into_iter().collect();
    order.sort_by_key(|(_, t)| std::cmp::Reverse(t.dtype().size()));
    let mut header = String::from("{");
    let mut at = 0;
    for (i, (name, t)) in order.iter().enumerate() {
        if *name == METADATA || order[..i].iter().any(|(other, _)| other == name) {
            return wrong(format!("the name {name:?} is taken"));
        }
        let end = at + t.bytes().len();
        let ty = NAMES.iter().find(|n| n.1 == t.dtype()).map_or("", |n| n.0);
        let name = serde_json::Value::from(*name);
        let comma = if i == 0 { "" } else { "," };
        header += &format!(
            "{comma}{name}:{{\"dtype\":\"{ty}\",\"shape\":{:?},\"data_offsets\":[{at},{end}]}}",
            t.shape()
        );
        at = end;
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut out = Vec::with_capacity(8 + header.len() + at);
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    order.iter().for_each(|(_, t)| out.extend_from_slice(t.bytes()));
    Ok(out)
}

#[derive(Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The header as a list: a map would lose the order, and hide a name that comes twice.
#[derive(Default)]
struct Header {
    entries: Vec<(String, RawEntry)>,
    metadata: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header::default();
                let mut seen = std::collections::HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("the name {name:?} comes twice")));
                    }
                    if name == METADATA {
                        let map: std::collections::BTreeMap<String, String> = map.next_value()?;
                        header.metadata = map.into_iter().collect();
                    } else {
                        header.entries.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        d.deserialize_map(Entries)
    }
}
