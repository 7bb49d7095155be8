//! The instructions on tensors: allocation, views, ownership, single elements.

use half::{bf16, f16};
use tensor::DType;

use super::arena::{Arena, Placements};
use super::error::Trap;
use super::memory::Memory;
use super::value::{Value, bytes, count};
use crate::isa::{Reg, RegionId};
use crate::program::{Constant, Function, MAX_RANK};

/// Reads extents from registers.
fn extents<'a>(regs: &[Reg], ints: &[i64], dims: &'a mut [i64; MAX_RANK]) -> &'a [i64] {
    let mut n = 0;
    for (dim, reg) in dims.iter_mut().zip(regs) {
        if let Reg::I(r) = reg {
            *dim = ints[*r as usize];
            n += 1;
        }
    }
    &dims[..n]
}

#[expect(unsafe_code, reason = "constants are borrowed, not counted")]
pub(crate) fn constant(c: &Constant, memory: &mut Memory) -> Result<Value, Trap> {
    if !c.bytes.intact() {
        return Err(Trap::Damaged);
    }
    // SAFETY: the program is shared and never changes; the context keeps it alive, and empties its slots
    // at the end of each run.
    let slot = unsafe { memory.borrow(c.bytes.bytes()) };
    Ok(Value::new(slot, 0, &c.shape))
}

pub(crate) fn alloc(dtype: DType, regs: &[Reg], ints: &[i64], memory: &mut Memory) -> Result<Value, Trap> {
    let mut dims = [0; MAX_RANK];
    let shape = extents(regs, ints, &mut dims);
    let slot = memory.alloc(bytes(dtype, shape)?)?;
    Ok(Value::new(slot, 0, shape))
}

/// A buffer in a region of the frame's arena or its twin; from the pool where neither is free and large enough.
pub(crate) fn alloc_in_region(
    dtype: DType,
    regs: &[Reg],
    ints: &[i64],
    arena: Option<(Arena, &Placements)>,
    function: &Function,
    region: RegionId,
    memory: &mut Memory,
) -> Result<Value, Trap> {
    let mut dims = [0; MAX_RANK];
    let shape = extents(regs, ints, &mut dims);
    let len = bytes(dtype, shape)?;
    let slot = arena.and_then(|(arena, placements)| {
        let placement = placements.get(arena);
        let part = |r: u32, memory: &mut Memory| {
            let room = placement.room(r, len)?;
            memory.part(arena.slot, r, room.start, room.len())
        };
        let twin = function.regions.get(region.0 as usize).is_some_and(|r| r.twin);
        part(region.0, memory).or_else(|| if twin { part(region.0 + 1, memory) } else { None })
    });
    let slot = match slot {
        Some(slot) => slot,
        None => memory.alloc(len)?,
    };
    Ok(Value::new(slot, 0, shape))
}

pub(crate) fn view(src: &Value, regs: &[Reg], ints: &[i64]) -> Result<Value, Trap> {
    let mut dims = [0; MAX_RANK];
    let shape = extents(regs, ints, &mut dims);
    if count(shape)? != count(src.shape())? {
        return Err(Trap::Dim(format!(
            "a tensor of shape {:?} has not as many elements as shape {shape:?}",
            src.shape()
        )));
    }
    Ok(Value::new(src.slot, src.offset, shape))
}

pub(crate) fn slice(dtype: DType, src: &Value, at: i64, regs: &[Reg], ints: &[i64]) -> Result<Value, Trap> {
    let mut dims = [0; MAX_RANK];
    let shape = extents(regs, ints, &mut dims);
    let fault = || {
        Trap::Dim(format!("elements {at} on under shape {shape:?} are not inside shape {:?}", src.shape()))
    };
    let len = count(shape)?;
    // No element is nowhere: the place is one that nobody looks at.
    let start = if len == 0 { 0 } else { usize::try_from(at).map_err(|_| fault())? };
    let end = start.checked_add(len).ok_or_else(fault)?;
    if end > count(src.shape())? {
        return Err(fault());
    }
    Ok(Value::new(src.slot, src.offset + start * dtype.size(), shape))
}

/// The value as the only holder of its buffer. On failure the caller still holds it.
pub(crate) fn own(dtype: DType, value: Value, memory: &mut Memory) -> Result<Value, Trap> {
    if memory.unique(value.slot) {
        return Ok(value);
    }
    let len = bytes(dtype, value.shape())?;
    let slot = memory.alloc(len)?;
    memory.copy(value.slot, value.offset, slot, len);
    memory.release(value.slot);
    Ok(Value::new(slot, 0, value.shape()))
}

/// The bytes of the element of a rank-0 tensor.
fn element<'a, const N: usize>(value: &Value, memory: &'a Memory) -> Result<&'a [u8; N], Trap> {
    memory
        .bytes(value.slot)
        .get(value.offset..)
        .and_then(|b| b.first_chunk::<N>())
        .ok_or_else(|| Trap::Program("a scalar is read outside of its buffer".to_owned()))
}

pub(crate) fn load_int(dtype: DType, value: &Value, memory: &Memory) -> Result<i64, Trap> {
    Ok(match dtype {
        DType::I64 => i64::from_le_bytes(*element(value, memory)?),
        DType::I32 => i64::from(i32::from_le_bytes(*element(value, memory)?)),
        DType::I16 => i64::from(i16::from_le_bytes(*element(value, memory)?)),
        DType::I8 => i64::from(i8::from_le_bytes(*element(value, memory)?)),
        DType::U8 => i64::from(u8::from_le_bytes(*element(value, memory)?)),
        DType::Bool => i64::from(u8::from_le_bytes(*element(value, memory)?) != 0),
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => load_float(dtype, value, memory)? as i64,
    })
}

pub(crate) fn load_float(dtype: DType, value: &Value, memory: &Memory) -> Result<f64, Trap> {
    Ok(match dtype {
        DType::F64 => f64::from_le_bytes(*element(value, memory)?),
        DType::F32 => f64::from(f32::from_le_bytes(*element(value, memory)?)),
        DType::F16 => f16::from_le_bytes(*element(value, memory)?).to_f64(),
        DType::Bf16 => bf16::from_le_bytes(*element(value, memory)?).to_f64(),
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => {
            load_int(dtype, value, memory)? as f64
        }
    })
}

/// Writes the element of a rank-0 tensor whose register is the only holder of its buffer.
fn store(value: &Value, memory: &mut Memory, element: &[u8]) -> Result<(), Trap> {
    let bytes = memory
        .bytes_mut(value.slot)
        .ok_or_else(|| Trap::Program("a scalar is written to a buffer that others hold".to_owned()))?;
    let end = value.offset + element.len();
    bytes
        .get_mut(value.offset..end)
        .ok_or_else(|| Trap::Program("a scalar is written outside of its buffer".to_owned()))?
        .copy_from_slice(element);
    Ok(())
}

pub(crate) fn store_int(dtype: DType, value: &Value, x: i64, memory: &mut Memory) -> Result<(), Trap> {
    match dtype {
        DType::I64 => store(value, memory, &x.to_le_bytes()),
        DType::I32 => store(value, memory, &(x as i32).to_le_bytes()),
        DType::I16 => store(value, memory, &(x as i16).to_le_bytes()),
        DType::I8 | DType::U8 => store(value, memory, &[x as u8]),
        DType::Bool => store(value, memory, &[u8::from(x != 0)]),
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => store_float(dtype, value, x as f64, memory),
    }
}

pub(crate) fn store_float(dtype: DType, value: &Value, x: f64, memory: &mut Memory) -> Result<(), Trap> {
    match dtype {
        DType::F64 => store(value, memory, &x.to_le_bytes()),
        DType::F32 => store(value, memory, &(x as f32).to_le_bytes()),
        DType::F16 => store(value, memory, &tensor::f16_from(x).to_le_bytes()),
        DType::Bf16 => store(value, memory, &tensor::bf16_from(x).to_le_bytes()),
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => {
            store_int(dtype, value, x as i64, memory)
        }
    }
}
