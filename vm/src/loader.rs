//! A loader for ELF relocatable objects: what the compiler wrote becomes code at an address.
//!
//! All sections of all objects lie in one mapping, in three parts: code (with the stubs that reach far
//! symbols), constants (with the table of addresses), data. It is written while it is private and
//! writable, then the first part becomes read-execute and the second read-only: nothing is ever writable
//! and executable (W^X).
//!
//! A symbol is looked for in the objects, then in a short table of runtime symbols, then in the shared
//! libraries the kernels name. Nothing an object says is believed: every offset is compared with the
//! section it is in. Loading runs nothing of the objects; asking for a [`KernelCode`] is what is unsafe.
#![expect(unsafe_code, reason = "mapping memory and finding symbols of shared libraries")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::machine::KernelCode;
use crate::threads::library::{self, Number};

mod link;

/// Why objects cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not an object this machine can load.
    #[error("object {object}: {what}")]
    Object {
        /// Which of those given.
        object: usize,
        /// What is wrong.
        what: String,
    },
    /// A symbol is defined nowhere.
    #[error("symbol `{0}` is defined nowhere")]
    Undefined(String),
    /// A symbol is in none of the libraries that may have it.
    #[error("symbol `{symbol}` is not in {libraries}")]
    Lacking {
        /// The symbol.
        symbol: String,
        /// The libraries' names.
        libraries: String,
    },
    /// A shared library cannot be opened.
    #[error("library `{library}` is not available: {reason}")]
    Library {
        /// Its name.
        library: String,
        /// What the system says.
        reason: String,
    },
    /// The system gives no memory for code.
    #[error("no memory for code: {0}")]
    Memory(String),
    /// Code is for another kind of machine.
    #[error("native code can be loaded on x86-64 Linux only so far")]
    Architecture,
}

/// What compiled code may call without naming a library.
const RUNTIME: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "acos",
    "acosf",
    "acosh",
    "asin",
    "asinf",
    "asinh",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "atanh",
    "cbrt",
    "cbrtf",
    "ceil",
    "ceilf",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "erf",
    "erfc",
    "erfcf",
    "erff",
    "exp",
    "exp2",
    "exp2f",
    "expf",
    "expm1",
    "expm1f",
    "fabs",
    "fabsf",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmax",
    "fmaxf",
    "fmin",
    "fminf",
    "fmod",
    "fmodf",
    "ldexp",
    "ldexpf",
    "log",
    "log10",
    "log10f",
    "log1p",
    "log1pf",
    "log2",
    "log2f",
    "logf",
    "nearbyint",
    "nearbyintf",
    "pow",
    "powf",
    "rint",
    "rintf",
    "round",
    "roundeven",
    "roundevenf",
    "roundf",
    "sin",
    "sincos",
    "sincosf",
    "sinf",
    "sinh",
    "sinhf",
    "sqrt",
    "sqrtf",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "trunc",
    "truncf",
];

/// Mapped code.
#[derive(Debug)]
pub struct Code {
    map: Mapping,
    /// Addresses of the functions that the objects define.
    functions: BTreeMap<String, usize>,
}

/// Pages of memory; freed when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: after loading, the mapping is only executed and read.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private, zeroed, writable pages.
    fn new(len: usize) -> Result<Mapping, Error> {
        // SAFETY: a fresh anonymous mapping; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        NonNull::new(at.cast())
            .filter(|_| at != libc::MAP_FAILED)
            .map(|start| Mapping { start, len })
            .ok_or_else(|| Error::Memory(std::io::Error::last_os_error().to_string()))
    }

    /// The bytes, before they are protected.
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes that nothing else refers to; `protect` has not been called yet, or the caller's
        // write faults in the kernel, not in Rust's rules.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Takes the right to write away from pages, and gives that to execute.
    fn protect(&mut self, from: usize, to: usize, execute: bool) -> Result<(), Error> {
        if from >= to || to > self.len {
            return Ok(());
        }
        let rights = libc::PROT_READ | if execute { libc::PROT_EXEC } else { 0 };
        // SAFETY: a range of this mapping.
        let answer = unsafe { libc::mprotect(self.start.as_ptr().add(from).cast(), to - from, rights) };
        if answer == 0 { Ok(()) } else { Err(Error::Memory(std::io::Error::last_os_error().to_string())) }
    }

    fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping; whoever runs code in it keeps it alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Loads objects whose undefined symbols may be in `libraries`.
pub fn load(objects: &[&[u8]], libraries: &[&str]) -> Result<Arc<Code>, Error> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Error::Architecture);
    }
    let opened = libraries.iter().map(|l| Library::open(l)).collect::<Result<Vec<_>, _>>()?;
    let linked = link::link(objects, &opened);
    if let Err(Error::Undefined(symbol)) = &linked
        && !libraries.is_empty()
    {
        return Err(Error::Lacking { symbol: symbol.clone(), libraries: libraries.join(", ") });
    }
    let (map, functions) = linked?;
    Ok(Arc::new(Code { map, functions }))
}

impl Code {
    /// The code of a function that an object defines, as a kernel's.
    ///
    /// # Safety
    /// As for [`KernelCode::new`]: the function must follow the ABI for the kernel it is attached to. That is
    /// so for objects that this installation's compiler made from the kernel; an object from a file is code
    /// of whoever wrote the file.
    pub unsafe fn kernel(self: &Arc<Code>, symbol: &str) -> Result<KernelCode, Error> {
        let at = *self.functions.get(symbol).ok_or_else(|| Error::Undefined(symbol.to_owned()))?;
        let entry = self.map.start.as_ptr().wrapping_add(at);
        // SAFETY: a function's address; its type is the caller's promise.
        let entry = unsafe { std::mem::transmute::<*mut u8, tensor::abi::Entry>(entry) };
        // SAFETY: the caller's promise, and the mapping lives as long as `self`.
        Ok(unsafe { KernelCode::new(entry, self.clone()) })
    }

    /// The functions the objects define.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }
}

/// The numbers of threads of libraries that were opened before; others are not opened for it, as that runs code of
/// theirs.
pub(crate) fn thread_numbers(libraries: &[String]) -> Vec<&'static Number> {
    let opened: Vec<Library> = {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = libraries.iter().filter_map(|l| opened.get(l));
        handles.map(|&h| Library(std::ptr::with_exposed_provenance_mut(h))).collect()
    };
    let mut all: Vec<_> = opened.iter().flat_map(|l| library::numbers(&|symbol| l.find(symbol))).collect();
    all.sort_by_key(|(at, _)| *at);
    all.dedup_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, number)| number).collect()
}

/// Whether a shared library can be opened.
pub fn library_available(name: &str) -> bool {
    Library::open(name).is_ok()
}

/// Whether a shared library can be opened and has a symbol.
pub fn symbol_available(library: &str, symbol: &str) -> bool {
    Library::open(library).is_ok_and(|l| l.find(symbol).is_some())
}

/// A shared library; never closed, for its threads may outlive any use.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

/// Opened libraries by name, as addresses.
static OPENED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

impl Library {
    fn open(name: &str) -> Result<Library, Error> {
        let fail = |reason: String| Error::Library { library: name.to_owned(), reason };
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&handle) = opened.get(name) {
            return Ok(Library(std::ptr::with_exposed_provenance_mut(handle)));
        }
        let c = CString::new(name).ok().filter(|_| !name.is_empty());
        let c = c.ok_or_else(|| fail("not a name".to_owned()))?;
        // SAFETY: a valid string; what the library's constructors do is the named library's business.
        let handle = unsafe { libc::dlopen(c.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: the answer is a string until this thread's next call of the family, or null.
            let reason = unsafe {
                let message = libc::dlerror();
                if message.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(message).to_string_lossy().into_owned()
                }
            };
            return Err(fail(reason));
        }
        opened.insert(name.to_owned(), handle.expose_provenance());
        Ok(Library(handle))
    }

    fn find(self, symbol: &str) -> Option<usize> {
        let c = CString::new(symbol).ok()?;
        // SAFETY: a handle that is never closed, and a valid string.
        let at = unsafe { libc::dlsym(self.0, c.as_ptr()) };
        (!at.is_null()).then(|| at.expose_provenance())
    }
}

/// The address of a symbol of the runtime's own.
fn runtime(symbol: &str) -> Option<usize> {
    RUNTIME.contains(&symbol).then_some(())?;
    Library(libc::RTLD_DEFAULT).find(symbol).or_else(|| Library::open("libm.so.6").ok()?.find(symbol))
}
