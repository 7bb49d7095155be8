//! A compiled function with the arguments bound so far.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use driver::data::{self, Wanted};
use driver::{Machine, engine};
use ir::origin::Value;
use ir::source::SourceMap;

use vm::{Arg, Context, Executable, Limits, Loaded, Output, Profile};

use crate::packed::Weights;
use crate::{Error, Tensor};

/// What is to be known of a function that was bound to a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The tensors of the checkpoint that the text of its model does not read: what it may lack.
    pub unread: Vec<String>,
    /// The matrices that are not stored as was asked ([`Binding`](crate::Binding)): their rows are no whole blocks.
    pub unencoded: Vec<String>,
    /// Why what loading made of the weights is not kept for the next time, where it was to be.
    pub unkept: Option<String>,
}

/// A function, compiled for every shape. Clones share its code and what is bound; threads share it by reference.
#[derive(Clone)]
pub struct Function {
    exe: Arc<Executable>,
    name: String,
    wanted: Arc<[Wanted]>,
    bound: Vec<Option<Arc<Tensor>>>,
    config: Arc<BTreeMap<String, Value>>,
    notes: Arc<Notes>,
    /// What bound weights make by themselves, if anything, once that is known.
    loaded: Arc<OnceLock<Option<Loaded>>>,
    /// The bytes of machine code of its kernels, where it was compiled here.
    code: u64,
    /// For texts in errors.
    sources: Arc<Sources>,
    /// Registers and memory of calls that have ended, for calls to come.
    idle: Arc<Mutex<Vec<Context>>>,
    /// Where the time of calls goes, while that is noted.
    profile: Arc<Mutex<Option<Profile>>>,
}

/// The texts of a program, read when an error asks for them.
pub(crate) struct Sources(LazyLock<SourceMap, Box<dyn FnOnce() -> SourceMap + Send>>);

impl Sources {
    /// Texts that are read when they are needed, if they still can be.
    pub(crate) fn later(read: impl FnOnce() -> Option<SourceMap> + Send + 'static) -> Sources {
        Sources(LazyLock::new(Box::new(|| read().unwrap_or_default())))
    }
}

impl From<SourceMap> for Sources {
    fn from(sources: SourceMap) -> Sources {
        Sources(LazyLock::new(Box::new(|| sources)))
    }
}

/// What a checkpoint gives of what a function asks, but for its weights.
pub(crate) struct Given {
    pub(crate) wanted: Vec<Wanted>,
    /// The values of the config that it takes.
    pub(crate) given: Vec<Option<Tensor>>,
    pub(crate) config: BTreeMap<String, Value>,
    pub(crate) notes: Notes,
}

/// What a function asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; of a part of a record its path, `w.layers.q`.
    pub name: String,
    /// Its type: `f32[n, 784]`.
    pub ty: String,
    /// True if it is bound already.
    pub bound: bool,
}

/// What a function holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// What is bound, and what was made of it.
    pub weights: u64,
    /// Machine code.
    pub code: u64,
    /// The most that the last calls held at once.
    pub arena: u64,
}

impl Function {
    pub(crate) fn new(
        exe: Arc<Executable>,
        name: String,
        wanted: Vec<Wanted>,
        sources: impl Into<Sources>,
    ) -> Function {
        let bound = vec![None; wanted.len()];
        let idle = Arc::new(Mutex::new(Vec::new()));
        let loaded = Arc::default();
        Function {
            exe,
            name,
            wanted: wanted.into(),
            bound,
            config: Arc::default(),
            notes: Arc::default(),
            loaded,
            code: 0,
            sources: Arc::new(sources.into()),
            idle,
            profile: Arc::default(),
        }
    }

    /// A function whose weights and config are given. Weights that only loading reads are no more: what it gave is
    /// there.
    pub(crate) fn bound(
        exe: Arc<Executable>,
        name: String,
        given: Given,
        weights: Weights,
        sources: impl Into<Sources>,
    ) -> Function {
        let mut f = Function::new(exe, name, given.wanted, sources);
        f.bound = given.given.into_iter().map(|t| t.map(Arc::new)).collect();
        let empty = Arc::new(Tensor::scalar_i(tensor::DType::I64, 0));
        for (at, t) in weights.read {
            f.bound[at] = Some(t.unwrap_or_else(|| Arc::clone(&empty)));
        }
        if let Some(loaded) = weights.loaded {
            f.loaded = Arc::new(OnceLock::from(Some(loaded)));
        }
        f.config = Arc::new(given.config);
        f.notes = Arc::new(Notes { unkept: weights.unkept, ..given.notes });
        f
    }

    /// The same, with the bytes of its machine code.
    pub(crate) fn of_code(self, bytes: u64) -> Function {
        Function { code: bytes, ..self }
    }

    /// What it holds, in bytes: of weights, of machine code, and of what calls that have ended left for others. Weights
    /// with the same contents stand in memory once, whatever functions have them.
    pub fn memory(&self) -> Memory {
        let bytes = |t: &Arc<Tensor>| t.bytes().len() as u64;
        let bound: u64 = self.bound.iter().flatten().map(bytes).sum();
        let loaded = self.loaded.get().and_then(Option::as_ref);
        let kept: u64 = loaded.map_or(0, |l| l.kept.iter().map(bytes).sum());
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = idle.iter().map(|c| c.peak() as u64).sum();
        Memory { weights: bound + kept, code: self.code, arena }
    }

    /// How many kernels it has.
    pub fn kernels(&self) -> usize {
        self.exe.program().kernels.len()
    }

    /// The values of its config, by name, where it was bound to a checkpoint.
    pub fn config(&self) -> &BTreeMap<String, Value> {
        &self.config
    }

    /// What is to be known of how it was bound to a checkpoint.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it asks, in order. A dim that no argument tells is a parameter too: a number, `i64`.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |(w, b): (&Wanted, &Option<Arc<Tensor>>)| Parameter {
            name: w.name.clone(),
            ty: w.ty.to_string(),
            bound: b.is_some(),
        };
        self.wanted.iter().zip(&self.bound).map(parameter).collect()
    }

    /// What it asks that is not bound, in order.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Wanted> {
        self.wanted.iter().zip(&self.bound).filter(|(_, b)| b.is_none()).map(|(w, _)| w)
    }

    /// How many results it has.
    pub fn results(&self) -> usize {
        let entry = self.exe.program().entries.iter().find(|e| e.name == self.name);
        entry.map_or(0, |e| e.results.len())
    }

    /// Gives a parameter its value for all calls to come.
    pub fn bind(mut self, name: &str, value: impl Into<Arc<Tensor>>) -> Result<Function, Error> {
        let at = self.position(name)?;
        let value = value.into();
        let want = &self.wanted[at].ty;
        if value.dtype() != want.dtype || value.rank() != want.shape.len() {
            let text = format!("argument {name}: is {}{:?}, expected {want}", value.dtype(), value.shape());
            return Err(Error::message("E0601", text));
        }
        self.bound[at] = Some(value);
        self.loaded = Arc::default();
        Ok(self)
    }

    /// Gives every part of the record `name` that is not bound yet its value, from a `.safetensors` file or a folder of
    /// them, by the names that the record's fields say (`from`), or else by their paths in it. What is bound stays as
    /// it is; where all parts are, nothing is read.
    pub fn bind_weights(mut self, name: &str, path: impl AsRef<std::path::Path>) -> Result<Function, Error> {
        let within = format!("{name}.");
        let mut parts = self.wanted.iter().zip(&self.bound).filter(|(w, _)| w.name.starts_with(&within));
        if parts.clone().next().is_some() && parts.all(|(_, b)| b.is_some()) {
            return Ok(self);
        }
        let (wanted, given): (Vec<Wanted>, Vec<Tensor>) = self
            .wanted
            .iter()
            .zip(&self.bound)
            .filter_map(|(w, b)| Some((w.clone(), Tensor::clone(b.as_ref()?))))
            .unzip();
        let open: Vec<usize> = (0..self.wanted.len()).filter(|&i| self.bound[i].is_none()).collect();
        let parts: Vec<&Wanted> = open.iter().map(|&i| &self.wanted[i]).collect();
        let known = data::dims(&wanted, &given);
        let read = data::weights(name, &parts, &known, &path.as_ref().display().to_string());
        for (i, t) in read.map_err(|f| Error::new(&f, &self.sources.0))? {
            self.bound[open[i]] = Some(Arc::new(t));
        }
        self.loaded = Arc::default();
        Ok(self)
    }

    fn position(&self, name: &str) -> Result<usize, Error> {
        self.wanted.iter().position(|w| w.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.wanted.iter().map(|w| w.name.as_str()).collect();
            let text = format!("{} has no parameter `{name}`; it takes {}", self.name, names.join(", "));
            Error::message("E0601", text)
        })
    }

    /// Calls it with the parameters that are not bound, in their order.
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
        self.call_within(args.iter().map(|t| Arg::Lent(t)).collect(), &Limits::default())
    }

    /// Calls it with the parameters that are not bound, by name.
    pub fn call_named(&self, args: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, Error> {
        let mut all: Vec<Option<&Tensor>> = self.bound.iter().map(Option::as_deref).collect();
        for (name, value) in args {
            all[self.position(name)?] = Some(value);
        }
        let lacking = self.wanted.iter().zip(&all).filter(|(_, a)| a.is_none());
        let lacking: Vec<String> = lacking.map(|(w, _)| format!("{}: {}", w.name, w.ty)).collect();
        if !lacking.is_empty() {
            let text = format!("{} needs {}", self.name, lacking.join(", "));
            return Err(Error::message("E0603", text));
        }
        let mut results = Vec::new();
        let args = all.into_iter().flatten().map(Arg::Lent);
        self.run(args, &Limits::default(), &mut |r| results.extend(r.into_tensor()))?;
        Ok(results)
    }

    /// As [`call`](Function::call), with a deadline, a budget of memory, or a flag that ends the run. A tensor that is
    /// given ([`Arg::Given`]) is updated in place where the program consumes it: a cache goes in and comes out as it
    /// is.
    pub fn call_within(&self, args: Vec<Arg<'_>>, limits: &Limits) -> Result<Vec<Tensor>, Error> {
        let results = self.update(args, limits)?;
        Ok(results.into_iter().filter_map(Output::into_tensor).collect())
    }

    /// As [`call_within`](Function::call_within), with arguments that are updated where they are ([`Arg::Updated`]) and
    /// stay the caller's, also when the call fails. A result that is one of those is told by its place among the
    /// arguments that are not bound.
    pub fn update(&self, args: Vec<Arg<'_>>, limits: &Limits) -> Result<Vec<Output>, Error> {
        let mut results = Vec::new();
        self.update_each(args.into_iter(), limits, &mut |r| results.push(r))?;
        Ok(results)
    }

    /// As [`update`](Function::update), without lists: each result is handed to `take`.
    pub fn update_each<'a>(
        &self,
        mut args: impl ExactSizeIterator<Item = Arg<'a>>,
        limits: &Limits,
        take: &mut dyn FnMut(Output),
    ) -> Result<(), Error> {
        let count = self.open().count();
        if count != args.len() {
            let asked: Vec<String> = self.open().map(|w| format!("{}: {}", w.name, w.ty)).collect();
            let asked = if asked.is_empty() { String::new() } else { format!(": {}", asked.join(", ")) };
            let text = format!("{} takes {count} arguments{asked}; got {}", self.name, args.len());
            return Err(Error::message("E0601", text));
        }
        let all = self.bound.iter().filter_map(|b| match b {
            Some(t) => Some(Arg::Lent(t)),
            None => args.next(),
        });
        self.run(all, limits, &mut |result| {
            take(match result {
                Output::Updated(at) => {
                    Output::Updated(self.bound[..at].iter().filter(|b| b.is_none()).count())
                }
                new => new,
            });
        })
    }

    /// Frees what calls that have ended left for calls to come: registers, frames, pooled memory.
    pub fn trim(&self) {
        let kept = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        // Freed where nobody waits for it.
        drop(kept);
    }

    fn run<'a>(
        &'a self,
        args: impl Iterator<Item = Arg<'a>>,
        limits: &Limits,
        take: &mut dyn FnMut(Output),
    ) -> Result<(), Error> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Not held while the call runs.
        let kept = idle().pop();
        let mut context = kept.unwrap_or_else(|| Context::new(Arc::clone(&self.exe)));
        let done = self.load(&mut context, limits).and_then(|loaded| match loaded {
            Some(loaded) => self.observed(&mut context, &loaded.step, loaded.args(args), limits, &mut |r| {
                take(match r {
                    Output::Updated(at) => Output::Updated(loaded.takes.get(at).copied().unwrap_or(at)),
                    new => new,
                });
            }),
            None => self.observed(&mut context, &self.name, args, limits, take),
        });
        idle().push(context);
        done.map_err(|e| Error::new(&engine::vm_failure(&e, &self.sources.0), &self.sources.0))
    }
}

impl Function {
    /// Notes from now on where the time of calls goes: of one at a time, of others beside it nothing.
    pub fn begin_profile(&self) {
        *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = Some(Profile::new(self.exe.program()));
    }

    /// Where the time of calls went since [`begin_profile`](Function::begin_profile), which ends.
    pub fn end_profile(&self, machine: &Machine) -> Option<driver::profile::Report> {
        let profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(driver::profile::report(&self.exe, &self.name, &profile, machine, &self.sources.0))
    }

    fn observed<'a>(
        &self,
        context: &mut Context,
        entry: &str,
        args: impl Iterator<Item = Arg<'a>>,
        limits: &Limits,
        take: &mut dyn FnMut(Output),
    ) -> Result<(), vm::Error> {
        let noted = || self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut profile) = noted().take() else {
            context.outputs(entry, args, limits)?.for_each(take);
            return Ok(());
        };
        let results = context.profile(entry, args, limits, &mut profile);
        *noted() = Some(profile);
        results.map(|all| all.into_iter().for_each(take))
    }

    /// What the bound weights make by themselves, made by the first call.
    fn load(&self, context: &mut Context, limits: &Limits) -> Result<Option<&Loaded>, vm::Error> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded.as_ref());
        }
        let bound: Vec<Option<&Tensor>> = self.bound.iter().map(Option::as_deref).collect();
        let loaded = context.load(&self.name, &bound, limits)?;
        Ok(self.loaded.get_or_init(|| loaded).as_ref())
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = self.parameters().into_iter().map(|p| format!("{}: {}", p.name, p.ty));
        write!(f, "fn {}({})", self.name, list.collect::<Vec<_>>().join(", "))
    }
}
