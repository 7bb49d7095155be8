//! Bytes of a checkpoint as elements of a type: as they are, or as another type of floats that holds every number.

use bytemuck::{AnyBitPattern, NoUninit, pod_read_unaligned};
use half::{bf16, f16};
use tensor::DType;

use super::verbs::Raw;

/// The element type of a kind whose elements are each by itself.
pub(super) fn dtype(kind: &str) -> Option<DType> {
    kind.parse().ok()
}

/// Bytes that are taken at once, but for rows that are longer.
const AT_ONCE: usize = 1 << 24;

/// Writes a tensor's elements, some rows at once, and lets go of each part before the next; an error is what it is
/// instead.
pub(super) fn into(raw: &Raw<'_>, to: DType, out: &mut [u8]) -> Result<(), String> {
    let rows = raw.shape.first().and_then(|n| usize::try_from(*n).ok()).unwrap_or(1).max(1);
    let (from, each) = (raw.bytes.len() / rows, out.len() / rows);
    let count = AT_ONCE.checked_div(from).unwrap_or(rows).clamp(1, rows);
    // What has other bytes than its shape says is said of the whole.
    if count == rows || from * rows != raw.bytes.len() || each * rows != out.len() {
        return part(raw, &raw.bytes, to, out);
    }
    for (bytes, out) in raw.bytes.chunks(from * count).zip(out.chunks_mut((each * count).max(1))) {
        part(raw, bytes, to, out)?;
        raw.of.forget_part(bytes);
    }
    Ok(())
}

/// Writes the elements of some rows, which these bytes are.
fn part(raw: &Raw<'_>, bytes: &[u8], to: DType, out: &mut [u8]) -> Result<(), String> {
    // Fields of blocks are what their encoding says.
    let from = if raw.kind == "bytes" { Some(to) } else { dtype(&raw.kind) };
    let Some(from) = from else { return Err(format!("{}, which is in blocks", raw.kind)) };
    match (from, to) {
        _ if from == to => {
            let [at, size, block] = raw.field.unwrap_or([0, bytes.len().max(1), bytes.len().max(1)]);
            let want = bytes.len() / block * size;
            if out.len() != want {
                return Err(format!("{want} bytes and not {}", out.len()));
            }
            let blocks = bytes.chunks_exact(block).zip(out.chunks_exact_mut(size.max(1)));
            blocks.for_each(|(b, out)| out.copy_from_slice(&b[at..at + size]));
            if to == DType::Bool {
                out.iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
        }
        (DType::Bf16, DType::F32) => each(bytes, out, bf16::to_f32),
        (DType::F16, DType::F32) => each(bytes, out, f16::to_f32),
        (DType::Bf16, DType::F64) => each(bytes, out, bf16::to_f64),
        (DType::F16, DType::F64) => each(bytes, out, f16::to_f64),
        (DType::F32, DType::F64) => each(bytes, out, |x: f32| f64::from(x)),
        _ => return Err(format!("{from}, which would lose digits")),
    }
    Ok(())
}

fn each<A: AnyBitPattern, B: NoUninit>(from: &[u8], to: &mut [u8], f: impl Fn(A) -> B) {
    let pairs = from.chunks_exact(size_of::<A>()).zip(to.chunks_exact_mut(size_of::<B>()));
    for (a, b) in pairs {
        b.copy_from_slice(bytemuck::bytes_of(&f(pod_read_unaligned(a))));
    }
}
