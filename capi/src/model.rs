//! Language models for C: opened with options, asked with tokens, heard token by token.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use tenon::llm::{Finish, Load, Model, Sampling};

use crate::{Done, Flag, Handle, give, guard, list, read, take, text, wrong};

/// `tenon_model_options` of the header.
#[repr(C)]
pub struct Options {
    text: *const c_char,
    quant: *const c_char,
    kv: *const c_char,
    config: *const c_char,
    context: usize,
    sequences: usize,
    threads: usize,
    memory: u64,
    exact: c_int,
}

/// `tenon_request` of the header.
#[repr(C)]
pub struct Request {
    max_tokens: usize,
    temperature: f32,
    top_p: f32,
    min_p: f32,
    top_k: usize,
    seed: u64,
    ignore_end: c_int,
    stops: *const *const c_char,
    stop_count: usize,
    cancel: *const Flag,
}

/// `tenon_generated` of the header.
#[repr(C)]
pub struct Generated {
    prompt_tokens: usize,
    tokens: usize,
    finish: c_int,
    prefill_seconds: f64,
    decode_seconds: f64,
}

/// `tenon_statistics` of the header.
#[repr(C)]
pub struct Statistics {
    prefilled: u64,
    reused: u64,
    decoded: u64,
    steps: u64,
    failed: u64,
    seconds: f64,
    sequences: u64,
    pages: u64,
    pages_free: u64,
    pages_cached: u64,
    weights: u64,
    state: u64,
    arena: u64,
    code: u64,
    kernels: u64,
    compilations: u64,
}

/// What is told of each token: whose it is, the token, the text. An answer that is not 0 ends the generation.
type Heard = unsafe extern "C" fn(*mut c_void, i64, *const c_char) -> c_int;

fn some(at: *const c_char, name: &str) -> Done<Option<String>> {
    if at.is_null() { Ok(None) } else { text(at, name).map(|t| Some(t.to_owned())) }
}

fn load(at: *const Options) -> Done<Load> {
    let mut load = Load::default();
    // SAFETY: by the header a pointer that is not null is one to options.
    let Some(said) = (unsafe { at.as_ref() }) else { return Ok(load) };
    load.model = some(said.text, "text")?.map(Into::into);
    load.quant = some(said.quant, "quant")?;
    if let Some(kv) = some(said.kv, "kv")? {
        load.kv = kv;
    }
    for line in some(said.config, "config")?.unwrap_or_default().lines().filter(|l| !l.trim().is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            return Err(wrong(format!("`config`: `{line}` is not NAME=VALUE")));
        };
        load.config.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    load.context = (said.context > 0).then_some(said.context);
    load.sequences = if said.sequences > 0 { said.sequences } else { load.sequences };
    load.options.threads = (said.threads > 0).then_some(said.threads);
    load.memory = (said.memory > 0).then_some(said.memory);
    load.options.compile.plan.exact = said.exact != 0;
    Ok(load)
}

fn request(at: *const Request) -> Done<tenon::llm::Request> {
    // SAFETY: by the header a pointer that is not null is one to a request.
    let Some(said) = (unsafe { at.as_ref() }) else { return Ok(tenon::llm::Request::default()) };
    let part = |x: f32, name: &str| match x {
        _ if (0.0..=1.0).contains(&x) => Ok(x),
        _ => Err(wrong(format!("`{name}` is {x}, and no part of 1"))),
    };
    if !said.temperature.is_finite() || said.temperature < 0.0 {
        return Err(wrong(format!("`temperature` is {}, and none", said.temperature)));
    }
    let top_p = part(said.top_p, "top_p")?;
    let stops = list(said.stops, said.stop_count, "stops")?.iter().map(|s| Ok(text(*s, "stops")?.to_owned()));
    // SAFETY: by the header the flag is null, or one that was handed out and that was not freed.
    let cancel = unsafe { said.cancel.as_ref() };
    Ok(tenon::llm::Request {
        sampling: Sampling {
            temperature: said.temperature,
            top_k: said.top_k,
            top_p: if top_p > 0.0 { top_p } else { 1.0 },
            min_p: part(said.min_p, "min_p")?,
            seed: said.seed,
            ..Sampling::default()
        },
        max_tokens: (said.max_tokens > 0).then_some(said.max_tokens),
        stop: stops.collect::<Done<_>>()?,
        ignore_end: said.ignore_end != 0,
        cancel: cancel.map(|f| Arc::clone(&f.0)),
        logprobs: None,
    })
}

/// Writes a list where there is room for it, and how long it is in any case.
fn deliver<T: Copy>(all: &[T], to: *mut T, room: usize, count: *mut usize) -> Done {
    read(count, "count")?;
    // SAFETY: `count` is not null, and by the header a place for a number.
    unsafe { *count = all.len() };
    if all.len() > room {
        return Err(wrong(format!("there are {}, and room for {room}", all.len())));
    }
    if !all.is_empty() {
        read(to, "the place for them")?;
        // SAFETY: by the header there is room for so many.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), all.len()) };
    }
    Ok(())
}

/// Opens a model.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_open(
    path: *const c_char,
    options: *const Options,
    out: *mut *mut Model,
) -> c_int {
    guard(|| {
        let (path, load) = (text(path, "path")?, load(options)?);
        read(out, "out")?;
        give(out, Model::open_with(path, &load)?);
        Ok(())
    })
}

/// Frees a model.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_free(model: *mut Model) {
    take(model);
}

/// The tokens of a text.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_tokens(
    model: *const Model,
    words: *const c_char,
    ids: *mut u32,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let made = read(model, "model")?.tokens(text(words, "text")?)?;
        deliver(&made, ids, room, count)
    })
}

/// The tokens of a conversation.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_conversation(
    model: *const Model,
    roles: *const *const c_char,
    contents: *const *const c_char,
    turns: usize,
    ids: *mut u32,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let model = read(model, "model")?;
        let (roles, contents) = (list(roles, turns, "roles")?, list(contents, turns, "contents")?);
        let turn = |(r, c): (&*const c_char, &*const c_char)| Ok((text(*r, "roles")?, text(*c, "contents")?));
        let all: Vec<(&str, &str)> = roles.iter().zip(contents).map(turn).collect::<Done<_>>()?;
        deliver(&model.conversation(&all)?, ids, room, count)
    })
}

/// Goes on behind tokens.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_generate(
    model: *const Model,
    ids: *const u32,
    count: usize,
    asked: *const Request,
    heard: Option<Heard>,
    user: *mut c_void,
    out: *mut Generated,
) -> c_int {
    guard(|| {
        let model = read(model, "model")?;
        let (ids, asked) = (list(ids, count, "ids")?, request(asked)?);
        let made = model.generate_each(ids, &asked, &mut |token, piece| {
            let Some(heard) = heard else { return true };
            let piece = CString::new(piece.replace('\0', " ")).unwrap_or_default();
            // SAFETY: by the header it may be called so, with what came with it.
            unsafe { heard(user, token.map_or(-1, i64::from), piece.as_ptr()) == 0 }
        })?;
        let finish = match made.finish {
            Finish::End => 0,
            Finish::Stop => 1,
            Finish::Length => 2,
            Finish::Cancelled => 3,
        };
        if !out.is_null() {
            let told = Generated {
                prompt_tokens: made.prompt_tokens,
                tokens: made.ids.len(),
                finish,
                prefill_seconds: made.prefill.as_secs_f64(),
                decode_seconds: made.decode.as_secs_f64(),
            };
            // SAFETY: by the header it is a place for one.
            unsafe { out.write(told) };
        }
        Ok(())
    })
}

/// The logits behind each of some tokens.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_logits(
    model: *const Model,
    ids: *const u32,
    count: usize,
    out: *mut *mut Handle,
) -> c_int {
    guard(|| {
        let (model, ids) = (read(model, "model")?, list(ids, count, "ids")?);
        read(out, "out")?;
        give(out, Handle { tensor: model.logits(ids)? });
        Ok(())
    })
}

/// A value of the config.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_config(
    model: *const Model,
    name: *const c_char,
    value: *mut c_char,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let (model, name) = (read(model, "model")?, text(name, "name")?);
        let Some(found) = model.config().get(name) else {
            let names: Vec<&str> = model.config().keys().map(String::as_str).collect();
            return Err(wrong(format!("the config has no `{name}`; it has {}", names.join(", "))));
        };
        let text = CString::new(found.to_string().replace('\0', " ")).unwrap_or_default();
        let bytes: Vec<c_char> = text.as_bytes_with_nul().iter().map(|b| *b as c_char).collect();
        deliver(&bytes, value, room, count)
    })
}

/// What a model did, and what it holds.
///
/// # Safety
/// Its pointers are what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tenon_model_statistics(model: *const Model, out: *mut Statistics) -> c_int {
    guard(|| {
        let model = read(model, "model")?;
        read(out, "out")?;
        let s = model.statistics();
        // Of several parts the one that has the fewest left.
        let pages = s.pools.iter().filter(|p| p.tokens.is_some()).min_by_key(|p| p.free + p.cached);
        let of = |f: &dyn Fn(&tenon::llm::Pool) -> usize| pages.map_or(0, |p| f(p) as u64);
        let told = Statistics {
            prefilled: s.prefilled,
            reused: s.reused,
            decoded: s.decoded,
            steps: s.steps,
            failed: s.failed,
            seconds: s.time.as_secs_f64(),
            sequences: s.sequences as u64,
            pages: of(&|p| p.all),
            pages_free: of(&|p| p.free),
            pages_cached: of(&|p| p.cached),
            weights: s.weights,
            state: s.state,
            arena: s.arena,
            code: s.code,
            kernels: s.kernels as u64,
            compilations: s.compilations,
        };
        // SAFETY: it is not null, and by the header a place for one.
        unsafe { out.write(told) };
        Ok(())
    })
}
