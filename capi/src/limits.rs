//! What a call may use up, as C says it, and the flag by which it is ended.
#![expect(clippy::disallowed_methods, reason = "a deadline begins with the call")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Done, give, guard, read, take, wrong};

/// A flag that ends runs.
pub struct Flag(pub(crate) Arc<AtomicBool>);

/// `tenon_limits` of the header.
#[repr(C)]
pub struct Limits {
    memory: u64,
    fuel: u64,
    seconds: f64,
    cancel: *const Flag,
}

/// Longer than anyone waits, and still a time that a clock can show.
const LONGEST: f64 = 1e9;

/// The limits of a call that begins now.
pub(crate) fn from_raw(at: *const Limits) -> Done<tenon::Limits> {
    // SAFETY: by the header a pointer that is not null is one to limits.
    let Some(said) = (unsafe { at.as_ref() }) else { return Ok(tenon::Limits::default()) };
    if !said.seconds.is_finite() || said.seconds < 0.0 {
        return Err(wrong(format!("`seconds` is {}, which is no time", said.seconds)));
    }
    let some = |n: u64| (n > 0).then_some(n);
    let deadline = || Instant::now().checked_add(Duration::from_secs_f64(said.seconds.min(LONGEST)));
    // SAFETY: by the header the flag is null, or one that was handed out and that was not freed.
    let cancel = unsafe { said.cancel.as_ref() };
    Ok(tenon::Limits {
        fuel: some(said.fuel),
        memory: some(said.memory).map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        deadline: if said.seconds > 0.0 { deadline() } else { None },
        cancel: cancel.map(|f| Arc::clone(&f.0)),
    })
}

/// Makes a flag.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_flag_new(out: *mut *mut Flag) -> c_int {
    guard(|| {
        read(out, "out")?;
        give(out, Flag(Arc::default()));
        Ok(())
    })
}

fn set(flag: *const Flag, up: bool) -> c_int {
    guard(|| {
        read(flag, "flag")?.0.store(up, Ordering::Relaxed);
        Ok(())
    })
}

/// Ends the calls that have it.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_flag_raise(flag: *const Flag) -> c_int {
    set(flag, true)
}

/// Lets calls run again.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_flag_lower(flag: *const Flag) -> c_int {
    set(flag, false)
}

/// Frees a flag.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_flag_free(flag: *mut Flag) {
    take(flag);
}
