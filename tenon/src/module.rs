//! A program, loaded: from text, from a file, or compiled already.

use std::path::Path;
use std::sync::Arc;

use driver::Checkpoint;
use driver::model::{Binding, Bound};
use driver::{Compilation, Failure, Front, Options as Compile, data, engine, kernels, pipeline, programs};
use ir::ast::ItemKind;
use ir::source::SourceMap;
use vm::Executable;
use vm::threads::Pool;

use crate::function::Given;
use crate::{Error, Function, Notes, packed};

/// How a program is loaded.
#[derive(Clone, Debug)]
pub struct Options {
    /// How its functions are compiled. By default kernels are kept in the user's cache folder (`TENON_CACHE`).
    pub compile: Compile,
    /// The most threads a kernel runs on; none: what `TENON_THREADS` says, or else all cores.
    pub threads: Option<usize>,
    /// Use the machine code of a `.tnx` file, if it was made for this CPU. It is trusted as a program is.
    pub trust_native: bool,
}

impl Default for Options {
    fn default() -> Options {
        let mut compile = Compile { store: driver::cache::user(), ..Compile::default() };
        if let Ok(machine) = driver::at_hand::machine(None, &compile.target) {
            compile.plan.machine = machine;
        }
        Options { compile, threads: None, trust_native: false }
    }
}

/// A program that was read and checked without an error.
#[derive(Clone, Debug)]
pub struct Module {
    form: Form,
    options: Options,
    threads: Arc<Pool>,
}

#[derive(Clone, Debug)]
enum Form {
    Text(Arc<Front>),
    Compiled(Arc<Executable>),
}

impl Module {
    /// A program from its text, which is all of it. `name` stands for a file in diagnostics.
    pub fn from_text(name: &str, text: &str) -> Result<Module, Error> {
        Module::from_text_with(name, text, Options::default())
    }

    /// As [`from_text`](Module::from_text), with options.
    pub fn from_text_with(name: &str, text: &str, options: Options) -> Result<Module, Error> {
        let front = deep(|| {
            let mut sources = pipeline::sources();
            let id = sources.add(name, text);
            pipeline::front(sources, &[id])
        })?;
        Module::new(front, options)
    }

    /// A program file, with the files that it uses; or a compiled one (`.tnx`), which is compiled again from its loops
    /// unless its machine code is trusted.
    pub fn open(path: impl AsRef<Path>) -> Result<Module, Error> {
        Module::open_with(path, Options::default())
    }

    /// As [`open`](Module::open), with options.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Module, Error> {
        let path = path.as_ref();
        if path.extension().is_none_or(|e| e != "tnx") {
            return Module::new(deep(|| driver::open(path))?, options);
        }
        let threads = pool(&options)?;
        let exe = deep(|| {
            let wrong = |e: vm::tnx::Error| Failure::data(format!("{}: {e}", path.display()));
            let package = vm::tnx::open(path).map_err(wrong);
            let exe = package.and_then(|p| {
                kernels::load(p, options.trust_native, Arc::clone(&threads), options.compile.store.clone())
            });
            exe.map_err(|f| (SourceMap::default(), f))
        })?;
        Ok(Module { form: Form::Compiled(exe), options, threads })
    }

    /// A program that was read and checked.
    pub(crate) fn from_front(front: Front, options: Options) -> Result<Module, Error> {
        Module::new(front, options)
    }

    fn new(front: Front, options: Options) -> Result<Module, Error> {
        let threads = pool(&options)?;
        Ok(Module { form: Form::Text(Arc::new(front)), options, threads })
    }

    /// A function, compiled for every shape.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        self.find(Some(name))
    }

    /// The function that `tenon run` runs: `main`, or else the first.
    pub fn main(&self) -> Result<Function, Error> {
        self.find(None)
    }

    /// True if its text defines a function of this name itself.
    pub(crate) fn defines(&self, name: &str) -> bool {
        matches!(&self.form, Form::Text(front) if defines(front, name))
    }

    /// An entry of a model, compiled for a checkpoint: its config, and its weights in the record `w`, are bound.
    /// Entries that take the same weights share them.
    pub fn model(&self, name: &str, checkpoint: &Checkpoint, how: &Binding) -> Result<Function, Error> {
        self.model_with(name, checkpoint, how, |_| {})
    }

    /// As [`model`](Module::model), with who is shown what was made.
    pub(crate) fn model_with(
        &self,
        name: &str,
        checkpoint: &Checkpoint,
        how: &Binding,
        show: impl FnOnce(&Made<'_>) + Send,
    ) -> Result<Function, Error> {
        let Form::Text(front) = &self.form else {
            return Err(Error::message(
                "E0605",
                "a compiled program is for one checkpoint already".to_owned(),
            ));
        };
        deep(|| {
            let mut front = Front::clone(front);
            let options = &self.options.compile;
            let bound = driver::model::bind(&mut front, name, checkpoint, how);
            let made = bound.and_then(|bound| {
                let compilation = pipeline::compile(&front, &[bound.entry], &self.options.compile)?;
                let exe = engine::load(&compilation, Arc::clone(&self.threads))?;
                let code = kernels::code_bytes(&compilation.kernels);
                let name = front.module.func(bound.entry).name.clone();
                let key = packed::key(&compilation, checkpoint, &bound);
                let weights = packed::weights(&exe, &name, &bound, checkpoint, &key, options)?;
                let Bound { wanted, given, config, unread, unencoded, .. } = bound;
                let notes = Notes { unread, unencoded, unkept: None };
                let given = Given { wanted, given, config, notes };
                show(&Made {
                    front: &front,
                    compilation: &compilation,
                    name: &name,
                    given: &given,
                    weights: &key,
                });
                Ok(Function::bound(exe, name, given, weights, front.sources.clone()).of_code(code))
            });
            made.map_err(|f| (front.sources, f))
        })
    }

    fn find(&self, name: Option<&str>) -> Result<Function, Error> {
        match &self.form {
            Form::Text(front) => deep(|| {
                let compiled = compile(front, name, &self.options.compile, &self.threads);
                compiled.map_err(|f| (front.sources.clone(), f))
            }),
            Form::Compiled(exe) => {
                let found = kernels::entry(exe.program(), name);
                let found = found.and_then(|entry| Ok((kernels::wanted(&entry)?, entry.name)));
                let (wanted, name) = found.map_err(|f| Error::new(&f, &SourceMap::default()))?;
                Ok(Function::new(Arc::clone(exe), name, wanted, SourceMap::default()))
            }
        }
    }
}

/// An entry of a model, as it was compiled for a checkpoint.
pub(crate) struct Made<'m> {
    pub(crate) front: &'m Front,
    pub(crate) compilation: &'m Compilation,
    pub(crate) name: &'m str,
    pub(crate) given: &'m Given,
    /// What its weights are kept under.
    pub(crate) weights: &'m str,
}

/// True if the text of a program defines a function of this name itself.
pub(crate) fn defines(front: &Front, name: &str) -> bool {
    let mut items = front.files.own.iter().flat_map(|f| &f.items);
    items.any(|i| matches!(&i.kind, ItemKind::Fn(f) if f.sig.name.name.name() == name))
}

/// The pipeline, for one function.
fn compile(
    front: &Front,
    name: Option<&str>,
    options: &Compile,
    threads: &Arc<Pool>,
) -> Result<Function, Failure> {
    // What calls an entry from outside may be a function of its own, beside those of the program.
    let mut front = front.clone();
    let entry = pipeline::entry(&mut front, name)?;
    let func = front.module.func(entry);
    let (name, wanted) = (func.name.clone(), data::wanted(func));
    let found = programs::executable(&front, entry, options, threads)?;
    Ok(Function::new(found.exe, name, wanted, front.sources).of_code(found.code))
}

pub(crate) fn pool(options: &Options) -> Result<Arc<Pool>, Error> {
    match options.threads {
        Some(n) => Ok(Pool::new(n.max(1))),
        None => kernels::threads().map_err(|f| Error::new(&f, &SourceMap::default())),
    }
}

/// Runs a part of the pipeline on a thread with a deep stack: programs nest as deeply as their authors like.
pub(crate) fn deep<T: Send>(
    run: impl FnOnce() -> Result<T, (SourceMap, Failure)> + Send,
) -> Result<T, Error> {
    on_deep_stack(run).map_err(|(sources, failure)| Error::new(&failure, &sources))
}

/// [`deep`], with the texts that a fault is about.
pub(crate) fn on_deep_stack<T: Send>(
    run: impl FnOnce() -> Result<T, (SourceMap, Failure)> + Send,
) -> Result<T, (SourceMap, Failure)> {
    const STACK: usize = 1 << 30;
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        thread.map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let text = |e| format!("cannot start a thread: {e}");
    done.map_err(|e| (SourceMap::default(), Failure::Message { code: "E0604", text: text(e) }))?
}
