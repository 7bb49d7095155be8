//! Arguments in, results out: an entry's dims are solved from the extents of its arguments, and every
//! extent, element type and rank is compared before the first instruction runs.

use tensor::{DType, Tensor};

use super::error::{Error, Trap};
use super::interp::Output as Register;
use super::value::{Arg, Output, Value};
use super::{Executable, State, arena, kernel, tensors};
use crate::isa::List;
use crate::program::{Entry, EntryParam, Type};

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

/// Vectors that runs reuse.
#[derive(Debug, Default)]
pub(crate) struct Solving {
    /// The extents of all arguments, then the dims.
    known: Vec<i64>,
    steps: Vec<i64>,
}

/// Takes the arguments of a run, whose element types and ranks are compared.
#[expect(unsafe_code, reason = "arguments are read in place")]
pub(crate) fn take<'a>(
    exe: &Executable,
    state: &mut State,
    index: usize,
    args: impl IntoIterator<Item = Arg<'a>>,
) -> Result<(), Error> {
    let entry = &exe.program.entries[index];
    let State { memory, given, .. } = state;
    given.clear();
    let mut args = args.into_iter();
    let mut count = 0;
    for (param, arg) in entry.params.iter().zip(args.by_ref()) {
        let (dtype, shape) = (arg.tensor().dtype(), arg.tensor().shape());
        if dtype != param.dtype || shape.len() != param.shape.len() {
            let (got, want) = (type_of(dtype, shape), param.type_text());
            return Err(bad(format!("argument {}: is {got}, expected {want}", param.name)));
        }
        let mut value = Value::new(0, 0, shape);
        value.slot = match arg {
            // SAFETY: the caller lends the tensor for the whole run, and `end` empties every slot.
            Arg::Lent(t) => unsafe { memory.borrow(t.bytes()) },
            Arg::Given(t) => {
                let len = t.bytes().len();
                memory.adopt(t.into_block(), len)
            }
            // SAFETY: the caller lends the tensor alone for the whole run, and `end` empties every slot.
            Arg::Updated(t) => unsafe { memory.host(t.bytes_mut(), count) },
        };
        given.push(value);
        count += 1;
    }
    count += args.count();
    if count != entry.params.len() {
        let want = entry.params.len();
        return Err(bad(format!("{}: takes {want} arguments, got {count}", entry.name)));
    }
    Ok(())
}

/// The dims of an entry from the arguments' extents, all of which are checked.
fn solve<'a>(entry: &Entry, args: &[Value], of: &'a mut Solving) -> Result<&'a [i64], Error> {
    let Solving { known, steps } = of;
    known.clear();
    args.iter().for_each(|arg| known.extend_from_slice(arg.shape()));
    let extents = known.len();
    for dim in &entry.dims {
        let value = kernel::eval(&dim.steps, known, steps).map_err(|_| {
            bad(format!("{}: dim {} cannot be computed from the arguments", entry.name, dim.name))
        })?;
        known.push(value);
    }
    let dims = &known[extents..];
    for (param, arg) in entry.params.iter().zip(args) {
        for (axis, (want, &got)) in param.shape.iter().zip(arg.shape()).enumerate() {
            let value = kernel::eval(&want.steps, dims, steps).map_err(|_| {
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
                    let dims = entry.dims.iter().zip(dims).filter(|(d, _)| named(&d.name));
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
    if let Some((dim, value)) = entry.dims.iter().zip(dims).find(|(_, v)| **v < 0) {
        return Err(bad(format!("{}: dim {} would be {value}", entry.name, dim.name)));
    }
    Ok(dims)
}

/// Makes the frame of an entry's function and puts dims and the arguments that were taken into its registers.
pub(crate) fn enter(exe: &Executable, state: &mut State, index: usize) -> Result<(), Error> {
    let entry = &exe.program.entries[index];
    let State { stacks, memory, solving, given, .. } = state;
    let dims = solve(entry, given, solving)?;
    let number = entry.function as usize;
    let function = &exe.program.functions[number];
    stacks
        .push(number, function, List { start: 0, len: 0 })
        .map_err(|trap| trap.at(&exe.program, number, 0))?;
    stacks.ints[..dims.len()].copy_from_slice(dims);
    let (mut int, mut float, mut tensor) = (dims.len(), 0, 0);
    for (value, param) in given.drain(..).zip(&entry.params) {
        let dtype = param.dtype;
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

/// Notes the results of the run that ended, moved where they have their block to themselves.
pub(crate) fn results(exe: &Executable, state: &mut State, index: usize) -> Result<(), Error> {
    let entry = &exe.program.entries[index];
    let site = |t: Trap| t.at(&exe.program, entry.function as usize, 0);
    let State { stacks, memory, outputs: results, .. } = state;
    for (i, output) in stacks.results.iter().enumerate() {
        let dtype = dtype_of(entry, i);
        let own;
        let value = match output {
            Register::Int(x) => {
                results.push(Output::New(Tensor::scalar_i(dtype, *x)));
                continue;
            }
            Register::Float(x) => {
                results.push(Output::New(Tensor::scalar_f(dtype, *x)));
                continue;
            }
            Register::Tensor(v) if memory.guest(v.slot).is_some() && v.offset == 0 => {
                results.extend(memory.guest(v.slot).map(Output::Updated));
                continue;
            }
            Register::Tensor(v) if v.offset == 0 && memory.movable(v.slot) => v,
            // A part of a larger block, or one that others hold, is copied: a tensor starts at its block's first byte.
            Register::Tensor(v) => {
                memory.share(v.slot);
                own = tensors::own(dtype, *v, memory).map_err(site)?;
                &own
            }
        };
        let block = memory.take(value.slot).ok_or_else(|| bad("a result is held by others".to_owned()))?;
        results.push(Output::New(Tensor::from_block(dtype, value.shape(), block).map_err(|e| host(&e))?));
    }
    Ok(())
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
