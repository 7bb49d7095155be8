//! Tenon from C, as `include/tenon.h` says: the crate `tenon` behind pointers and codes.
//!
//! Every function that can fail goes through [`guard`]: a panic ends there as a code, and what went wrong is kept for
//! the thread ([`tenon_last_error`]). Pointers are compared with null; beyond that a C caller is believed.
#![expect(unsafe_code, reason = "pointers of C")]

mod limits;
mod model;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::LazyLock;

use tenon::{Arg, DType, Function, Module, Tensor};

pub use limits::{Flag, Limits, tenon_flag_free, tenon_flag_lower, tenon_flag_new, tenon_flag_raise};
pub use model::{
    Generated, Options, Request, Statistics, tenon_model_config, tenon_model_conversation, tenon_model_free,
    tenon_model_generate, tenon_model_logits, tenon_model_open, tenon_model_statistics, tenon_model_tokens,
};

/// A tensor.
pub struct Handle {
    tensor: Tensor,
}

/// The names of element types as C reads them.
static NAMES: LazyLock<BTreeMap<&str, CString>> =
    LazyLock::new(|| DType::all().map(|d| (d.name(), CString::new(d.name()).unwrap_or_default())).collect());

/// Why a call did not do what it was asked.
struct Fault {
    code: c_int,
    text: String,
}

const NULL: c_int = 1;
const ARGUMENT: c_int = 2;
const DIAGNOSTIC: c_int = 3;
const BUG: c_int = 4;

type Done<T = ()> = Result<T, Fault>;

impl From<tenon::Error> for Fault {
    fn from(e: tenon::Error) -> Fault {
        Fault { code: DIAGNOSTIC, text: e.to_string() }
    }
}

fn wrong(text: impl Into<String>) -> Fault {
    Fault { code: ARGUMENT, text: text.into() }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a call: 0, or a code whose text is kept.
fn guard(body: impl FnOnce() -> Done) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body));
    let fault = match done {
        Ok(Ok(())) => return 0,
        Ok(Err(fault)) => fault,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let text = said.unwrap_or_else(|| "it panicked".to_owned());
            Fault { code: BUG, text: format!("tenon has a bug: {text}") }
        }
    };
    // A text for C ends at its first zero.
    let text = fault.text.replace('\0', " ");
    LAST.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    fault.code
}

fn null(name: &str) -> Fault {
    Fault { code: NULL, text: format!("`{name}` is NULL") }
}

/// What a pointer leads to.
fn read<'a, T>(at: *const T, name: &str) -> Done<&'a T> {
    // SAFETY: by the header a pointer that is not null is one that this library handed out and that was not freed.
    unsafe { at.as_ref() }.ok_or_else(|| null(name))
}

fn text<'a>(at: *const c_char, name: &str) -> Done<&'a str> {
    if at.is_null() {
        return Err(null(name));
    }
    // SAFETY: by the header it is a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map_err(|_| wrong(format!("`{name}` is not UTF-8")))
}

fn list<'a, T>(at: *const T, len: usize, name: &str) -> Done<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(wrong(format!("`{name}` cannot have {len} elements")));
    }
    // SAFETY: by the header there are `len` elements.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// Hands a value out. `at` was compared with null.
fn give<T>(at: *mut *mut T, value: T) {
    // SAFETY: by the header `at` is a place for a pointer; it is not null.
    unsafe { at.write(Box::into_raw(Box::new(value))) };
}

fn take<T>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: by the header it was handed out by `give` and was not freed before.
        let value = unsafe { Box::from_raw(at) };
        // A panic while freeing must not reach C.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

/// What went wrong last in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn tenon_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// A program from a file.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_open(path: *const c_char, out: *mut *mut Module) -> c_int {
    guard(|| {
        let path = text(path, "path")?;
        read(out, "out")?;
        give(out, Module::open(path)?);
        Ok(())
    })
}

/// A program from its text.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_load(
    name: *const c_char,
    program: *const c_char,
    out: *mut *mut Module,
) -> c_int {
    guard(|| {
        let (name, program) = (text(name, "name")?, text(program, "text")?);
        read(out, "out")?;
        give(out, Module::from_text(name, program)?);
        Ok(())
    })
}

/// Frees a module.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_module_free(module: *mut Module) {
    take(module);
}

/// A function of a program.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_function_of(
    module: *const Module,
    name: *const c_char,
    out: *mut *mut Function,
) -> c_int {
    guard(|| {
        let module = read(module, "module")?;
        read(out, "out")?;
        let function = if name.is_null() { module.main()? } else { module.function(text(name, "name")?)? };
        give(out, function);
        Ok(())
    })
}

/// Replaces a function by what is made of it.
fn change(function: *mut Function, make: impl FnOnce(Function) -> Result<Function, tenon::Error>) -> Done {
    let new = make(read(function, "function")?.clone())?;
    // SAFETY: it is not null, and by the header no other thread uses it now.
    unsafe { *function = new };
    Ok(())
}

/// Binds a parameter.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_bind(
    function: *mut Function,
    name: *const c_char,
    value: *const Handle,
) -> c_int {
    guard(|| {
        let (name, value) = (text(name, "name")?, read(value, "value")?);
        change(function, |f| f.bind(name, value.tensor.clone()))
    })
}

/// Binds the parts of a record.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_bind_weights(
    function: *mut Function,
    record: *const c_char,
    path: *const c_char,
) -> c_int {
    guard(|| {
        let (record, path) = (text(record, "record")?, text(path, "path")?);
        change(function, |f| f.bind_weights(record, Path::new(path)))
    })
}

/// Calls a function.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_call(
    function: *const Function,
    args: *const *const Handle,
    n: usize,
    results: *mut *mut Handle,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: what holds of these pointers holds there.
    unsafe { tenon_call_within(function, std::ptr::null(), args, n, results, room, count) }
}

/// Calls a function within limits.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_call_within(
    function: *const Function,
    limits: *const Limits,
    args: *const *const Handle,
    n: usize,
    results: *mut *mut Handle,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let handles = list(args, n, "args")?;
        let mut args = Vec::with_capacity(n);
        for a in handles {
            args.push(Arg::Lent(&read(*a, "args[i]")?.tensor));
        }
        call(function, limits, || args, results, room, count)
    })
}

/// Calls a function and gives it arguments.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_call_giving(
    function: *const Function,
    limits: *const Limits,
    args: *mut *mut Handle,
    given: *const u8,
    n: usize,
    results: *mut *mut Handle,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let (handles, given) = (list(args, n, "args")?, list(given, n, "given")?);
        for (i, a) in handles.iter().enumerate() {
            read(*a, "args[i]")?;
            let again = |(b, gives): (&*mut Handle, &u8)| *b == *a && (*gives != 0 || given[i] != 0);
            if handles.iter().zip(given).skip(i + 1).any(again) {
                return Err(wrong("a tensor is given away that is another argument too".to_owned()));
            }
        }
        let taken = || {
            let arg = |i: usize| {
                // SAFETY: there are `n` places, each of which leads to a tensor of its own where that is given.
                let place = unsafe { &mut *args.add(i) };
                if given[i] == 0 {
                    // SAFETY: it is not null.
                    return Arg::Lent(unsafe { &(**place).tensor });
                }
                // SAFETY: by the header it was handed out by `give` and was not freed before.
                let handle = unsafe { Box::from_raw(std::mem::replace(place, std::ptr::null_mut())) };
                Arg::Given(handle.tensor)
            };
            (0..n).map(arg).collect()
        };
        call(function, limits, taken, results, room, count)
    })
}

/// Calls a function with arguments that are asked for where nothing else is wrong with the call.
fn call<'a>(
    function: *const Function,
    limits: *const Limits,
    args: impl FnOnce() -> Vec<Arg<'a>>,
    results: *mut *mut Handle,
    room: usize,
    count: *mut usize,
) -> Done {
    let function = read(function, "function")?;
    let limits = limits::from_raw(limits)?;
    read(count, "count")?;
    if room > 0 {
        read(results, "results")?;
    }
    let many = function.results();
    // SAFETY: `count` is not null, and by the header a place for a number.
    unsafe { *count = many };
    if many > room {
        return Err(wrong(format!("there are {many} results, and room for {room}")));
    }
    for (i, t) in function.call_within(args(), &limits)?.into_iter().enumerate() {
        // SAFETY: by the header `results` has `room` places, which is more than `i`.
        give(unsafe { results.add(i) }, Handle { tensor: t });
    }
    Ok(())
}

/// Frees what calls that have ended left behind.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_trim(function: *const Function) -> c_int {
    guard(|| {
        read(function, "function")?.trim();
        Ok(())
    })
}

/// Frees a function.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_function_free(function: *mut Function) {
    take(function);
}

/// Makes a tensor.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_new(
    dtype: *const c_char,
    shape: *const i64,
    rank: usize,
    data: *const c_void,
    bytes: usize,
    out: *mut *mut Handle,
) -> c_int {
    guard(|| {
        let name = text(dtype, "dtype")?;
        let dtype = name.parse::<DType>().map_err(|_| wrong(format!("`{name}` is no element type")))?;
        let shape = list(shape, rank, "shape")?;
        let data = list(data.cast::<u8>(), bytes, "data")?;
        read(out, "out")?;
        if dtype == DType::Bool
            && let Some(at) = data.iter().position(|b| *b > 1)
        {
            return Err(wrong(format!("element {at} of a bool tensor is {}, neither 0 nor 1", data[at])));
        }
        let tensor = Tensor::from_bytes(dtype, shape, data).map_err(|e| wrong(e.to_string()))?;
        give(out, Handle { tensor });
        Ok(())
    })
}

/// What a tensor says of itself, or what stands for nothing.
fn property<T>(at: *const Handle, none: T, what: impl FnOnce(&Handle) -> T) -> T {
    // SAFETY: by the header a pointer that is not null is one that this library handed out and that was not freed.
    unsafe { at.as_ref() }.map_or(none, what)
}

/// The element type.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_dtype(tensor: *const Handle) -> *const c_char {
    property(tensor, std::ptr::null(), |h| NAMES[h.tensor.dtype().name()].as_ptr())
}

/// The number of axes.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_rank(tensor: *const Handle) -> usize {
    property(tensor, 0, |h| h.tensor.rank())
}

/// The extents.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_shape(tensor: *const Handle) -> *const i64 {
    property(tensor, std::ptr::null(), |h| h.tensor.shape().as_ptr())
}

/// The elements.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_data(tensor: *const Handle) -> *const c_void {
    property(tensor, std::ptr::null(), |h| h.tensor.bytes().as_ptr().cast())
}

/// The number of bytes of the elements.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_bytes(tensor: *const Handle) -> usize {
    property(tensor, 0, |h| h.tensor.bytes().len())
}

/// Frees a tensor.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_tensor_free(tensor: *mut Handle) {
    take(tensor);
}
