//! Writers, for tests alone: they write whatever they are told, wrong or right.

use std::path::Path;

/// A value of GGUF's metadata.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    /// The type of the values, then these.
    Array(u32, Vec<Value>),
    U64(u64),
    I64(i64),
    F64(f64),
    /// A type and bytes, as they are.
    Raw(u32, Vec<u8>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    pub(crate) fn texts(texts: &[&str]) -> Value {
        Value::Array(8, texts.iter().map(|t| Value::text(t)).collect())
    }

    fn kind(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::Text(_) => 8,
            Value::Array(..) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
            Value::Raw(kind, _) => *kind,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::U8(x) => out.push(*x),
            Value::I8(x) => out.extend(x.to_le_bytes()),
            Value::U16(x) => out.extend(x.to_le_bytes()),
            Value::I16(x) => out.extend(x.to_le_bytes()),
            Value::U32(x) => out.extend(x.to_le_bytes()),
            Value::I32(x) => out.extend(x.to_le_bytes()),
            Value::F32(x) => out.extend(x.to_le_bytes()),
            Value::Bool(x) => out.push(u8::from(*x)),
            Value::Text(x) => text(out, x),
            Value::Array(kind, values) => {
                out.extend(kind.to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|v| v.write(out));
            }
            Value::U64(x) => out.extend(x.to_le_bytes()),
            Value::I64(x) => out.extend(x.to_le_bytes()),
            Value::F64(x) => out.extend(x.to_le_bytes()),
            Value::Raw(_, bytes) => out.extend(bytes),
        }
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A tensor of GGUF: its shape outermost first, and where it begins if not behind the one before it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: Option<u64>,
}

/// A GGUF file.
#[derive(Clone, Debug)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    pub(crate) alignment: usize,
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Entry>,
}

impl Gguf {
    pub(crate) fn new() -> Gguf {
        Gguf { version: 3, alignment: 32, keys: Vec::new(), tensors: Vec::new() }
    }

    pub(crate) fn key(mut self, key: &str, value: Value) -> Gguf {
        self.keys.push((key.to_owned(), value));
        self
    }

    pub(crate) fn tensor(mut self, name: &str, kind: u32, shape: &[u64], bytes: &[u8]) -> Gguf {
        let (shape, bytes) = (shape.to_vec(), bytes.to_vec());
        self.tensors.push(Entry { name: name.to_owned(), shape, kind, bytes, offset: None });
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            text(&mut out, key);
            out.extend(value.kind().to_le_bytes());
            value.write(&mut out);
        }
        let mut data: Vec<u8> = Vec::new();
        for t in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            text(&mut out, &t.name);
            out.extend((t.shape.len() as u32).to_le_bytes());
            t.shape.iter().rev().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(t.kind.to_le_bytes());
            out.extend(t.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&t.bytes);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(data);
        out
    }

    pub(crate) fn save(&self, path: &Path) {
        save(path, self.bytes());
    }
}

/// The bytes of a `.safetensors` file: names, types as the format names them, shapes, data.
pub(crate) fn safetensors(tensors: &[(&str, &str, &[i64], &[u8])]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let (begin, end) = (data.len(), data.len() + bytes.len());
        header.push(format!(
            "{name:?}:{{\"dtype\":{dtype:?},\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}"
        ));
        data.extend_from_slice(bytes);
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// The text of an index: each tensor with its file.
pub(crate) fn index(files: &[(&str, &str)]) -> String {
    let map: Vec<String> = files.iter().map(|(name, file)| format!("{name:?}: {file:?}")).collect();
    format!("{{\"metadata\": {{\"total_size\": 1}}, \"weight_map\": {{{}}}}}", map.join(", "))
}

pub(crate) fn save(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::write(path, bytes).expect("the folder is writable");
}

/// So many bytes that are not all alike.
pub(crate) fn some_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}
