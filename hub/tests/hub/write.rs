//! Writers of small checkpoints.

use std::path::Path;

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
