//! Arguments in, results out: an entry's dims are solved from the extents of its arguments, and every
//! extent, element type and rank is compared before the first instruction runs.

use tensor::{DType, Tensor};

use super::error::{Error, Trap};
use super::interp::Output;
use super::value::{Arg, Array, Value, bytes};
use super::{Executable, State, arena, kernel, tensors};
use crate::isa::List;
use crate::program::{Entry, EntryParam, MAX_RANK, Type};

fn bad(message: String) -> Error {
    Error::BadArgument(message)
}

fn type_of(dtype: DType, shape: &[impl std::fmt::Display]) -> String {
    if shape.is_empty() {
        return dtype.to_string();
    }
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("{dtype}[{}]", dims.join(", "))
}

impl EntryParam {
    /// The type as text: `f32[n, 784]`.
    pub fn type_text(&self) -> String {
        let dims: Vec<&str> = self.shape.iter().map(|e| e.text.as_str()).collect();
        type_of(self.dtype, &dims)
    }
}

impl Arg<'_> {
    fn dtype(&self) -> DType {
        match self {
            Arg::Tensor(t) => t.dtype(),
            Arg::Array(a) => a.dtype,
        }
    }

    fn shape(&self) -> &[i64] {
        match self {
            Arg::Tensor(t) => t.shape(),
            Arg::Array(a) => &a.shape,
        }
    }
}

/// The dims of an entry from the arguments' types, all of which are checked.
fn solve(entry: &Entry, args: &[Arg<'_>]) -> Result<Vec<i64>, Error> {
    if args.len() != entry.params.len() {
        return Err(bad(format!(
            "{}: takes {} arguments, got {}",
            entry.name,
            entry.params.len(),
            args.len()
        )));
    }
    // Known numbers: the extents of all arguments, then the dims.
    let mut known = Vec::new();
    for (param, arg) in entry.params.iter().zip(args) {
        if arg.dtype() != param.dtype || arg.shape().len() != param.shape.len() {
            let (got, want) = (type_of(arg.dtype(), arg.shape()), param.type_text());
            return Err(bad(format!("argument {}: is {got}, expected {want}", param.name)));
        }
        known.extend_from_slice(arg.shape());
    }
    let extents = known.len();
    let mut steps = Vec::new();
    for dim in &entry.dims {
        let value = kernel::eval(&dim.steps, &known, &mut steps).map_err(|_| {
            bad(format!("{}: dim {} cannot be computed from the arguments", entry.name, dim.name))
        })?;
        known.push(value);
    }
    let dims = known.split_off(extents);
    for (param, arg) in entry.params.iter().zip(args) {
        for (axis, (want, &got)) in param.shape.iter().zip(arg.shape()).enumerate() {
            let value = kernel::eval(&want.steps, &dims, &mut steps).map_err(|_| {
                bad(format!("argument {}: axis {axis}: {} cannot be computed", param.name, want.text))
            })?;
            if value != got {
                let expected = if want.text == value.to_string() {
                    want.text.clone()
                } else {
                    let named = |name: &str| {
                        want.text
                            .split(|c: char| !c.is_alphanumeric() && !"_.".contains(c))
                            .any(|word| word == name)
                    };
                    let dims = entry.dims.iter().zip(&dims).filter(|(d, _)| named(&d.name));
                    let with: Vec<String> = dims.map(|(d, v)| format!("{} = {v}", d.name)).collect();
                    match with.as_slice() {
                        [] => format!("{} = {value}", want.text),
                        [one] if *one == format!("{} = {value}", want.text) => one.clone(),
                        _ => format!("{} = {value} ({})", want.text, with.join(", ")),
                    }
                };
                return Err(bad(format!(
                    "argument {}: axis {axis} is {got}, expected {expected}",
                    param.name
                )));
            }
        }
    }
    // After the axes were compared, so that a wrong extent is blamed rather than the dim made from it.
    if let Some((dim, value)) = entry.dims.iter().zip(&dims).find(|(_, v)| **v < 0) {
        return Err(bad(format!("{}: dim {} would be {value}", entry.name, dim.name)));
    }
    Ok(dims)
}

/// Makes the frame of an entry's function and puts dims and arguments into its registers.
#[expect(unsafe_code, reason = "arguments are read in place")]
pub(crate) fn enter(
    exe: &Executable,
    state: &mut State,
    index: usize,
    args: Vec<Arg<'_>>,
) -> Result<(), Error> {
    let entry = &exe.program.entries[index];
    let dims = solve(entry, &args)?;
    let number = entry.function as usize;
    let function = &exe.program.functions[number];
    state
        .stacks
        .push(number, function, List { start: 0, len: 0 })
        .map_err(|trap| trap.at(&exe.program, number, 0))?;
    let State { stacks, memory, .. } = state;
    stacks.ints[..dims.len()].copy_from_slice(&dims);
    let (mut int, mut float, mut tensor) = (dims.len(), 0, 0);
    for (arg, param) in args.into_iter().zip(&entry.params) {
        let (dtype, shape) = (arg.dtype(), arg.shape());
        let len = bytes(dtype, shape).map_err(|trap| trap.at(&exe.program, number, 0))?;
        let value = match arg {
            Arg::Tensor(t) => {
                // SAFETY: the caller lends the tensor for the whole run, and `end` empties every slot.
                let slot = unsafe { memory.borrow(t.bytes()) };
                Value::new(slot, 0, t.shape())
            }
            Arg::Array(a) => {
                debug_assert!(len <= a.len, "an array holds its elements");
                Value::new(memory.adopt(a.block), 0, &a.shape)
            }
        };
        let scalar = param.shape.is_empty();
        if scalar && dtype.is_float() {
            stacks.floats[float] = tensors::load_float(dtype, &value, memory)
                .map_err(|trap| trap.at(&exe.program, number, 0))?;
            float += 1;
        } else if scalar {
            stacks.ints[int] =
                tensors::load_int(dtype, &value, memory).map_err(|trap| trap.at(&exe.program, number, 0))?;
            int += 1;
        } else {
            stacks.tensors[tensor] = value;
            tensor += 1;
            continue;
        }
        memory.release(value.slot);
    }
    arena::open(exe, state).map_err(|trap| trap.at(&exe.program, number, 0))
}

fn dtype_of(entry: &Entry, i: usize) -> DType {
    entry.results.get(i).map_or(DType::F32, |r| r.dtype)
}

fn host(e: &tensor::Error) -> Error {
    bad(format!("a result cannot be handed over: {e}"))
}

/// The results of the run that ended, copied to the host.
pub(crate) fn tensors(exe: &Executable, state: &mut State, index: usize) -> Result<Vec<Tensor>, Error> {
    let entry = &exe.program.entries[index];
    let State { stacks, memory, .. } = state;
    let convert = |(i, output): (usize, &Output)| {
        let dtype = dtype_of(entry, i);
        Ok(match output {
            Output::Int(x) => Tensor::scalar_i(dtype, *x),
            Output::Float(x) => Tensor::scalar_f(dtype, *x),
            Output::Tensor(v) => {
                let len =
                    bytes(dtype, v.shape()).map_err(|t| t.at(&exe.program, entry.function as usize, 0))?;
                let data = memory.bytes(v.slot).get(v.offset..v.offset + len).unwrap_or_default();
                Tensor::from_bytes(dtype, v.shape(), data).map_err(|e| host(&e))?
            }
        })
    };
    stacks.results.iter().enumerate().map(convert).collect()
}

/// The results of the run that ended, moved where they have their buffer to themselves.
pub(crate) fn arrays(exe: &Executable, state: &mut State, index: usize) -> Result<Vec<Array>, Error> {
    let entry = &exe.program.entries[index];
    let site = |t: Trap| t.at(&exe.program, entry.function as usize, 0);
    let State { stacks, memory, .. } = state;
    let mut out = Vec::with_capacity(stacks.results.len());
    for i in 0..stacks.results.len() {
        let dtype = dtype_of(entry, i);
        let value = match stacks.results[i] {
            Output::Int(_) | Output::Float(_) => {
                let slot = memory.alloc(dtype.size()).map_err(|e| site(e.into()))?;
                let value = Value::new(slot, 0, &[]);
                match stacks.results[i] {
                    Output::Int(x) => tensors::store_int(dtype, &value, x, memory),
                    Output::Float(x) => tensors::store_float(dtype, &value, x, memory),
                    Output::Tensor(_) => Ok(()),
                }
                .map_err(site)?;
                value
            }
            // A part of a larger buffer is copied: an array has a block, and starts at its first byte.
            Output::Tensor(v) if v.offset == 0 && memory.movable(v.slot) => v,
            Output::Tensor(v) => {
                memory.share(v.slot);
                tensors::own(dtype, v, memory).map_err(site)?
            }
        };
        let len = bytes(dtype, value.shape()).map_err(site)?;
        let block = memory.take(value.slot).ok_or_else(|| bad("a result is held by others".to_owned()))?;
        let mut shape = Vec::with_capacity(MAX_RANK);
        shape.extend_from_slice(value.shape());
        out.push(Array { dtype, shape, block, len });
    }
    Ok(out)
}

/// The types of the values an entry's function takes, by what the entry says.
pub(crate) fn signature(entry: &Entry) -> impl Iterator<Item = (Type, bool)> + '_ {
    let dims = entry.dims.iter().map(|_| (Type::Int, false));
    dims.chain(entry.params.iter().map(|p| {
        let ty =
            if p.shape.is_empty() { Type::scalar(p.dtype) } else { Type::tensor(p.dtype, p.shape.len()) };
        (ty, p.own && !p.shape.is_empty())
    }))
}
