//! The compiler with its cache: the crate's front door.
//!
//! In: primitives and library bindings, from any number of threads. Out: [`Compiled`] kernels. Equal
//! primitives are compiled once, whoever asks first; the others wait for it. The key is the text of the
//! primitive with that of the target, which hold all that the code depends on; each compilation has an LLVM
//! context of its own, so nothing is shared but the cache. What is not in memory may be in a [`Store`].
//!
//! What a runtime must know of a kernel is settled before LLVM sees it ([`Compiler::describe_prim`]): a program can be
//! lowered first, and its kernels compiled afterwards, many at once. The key is that of the primitive as it came, so
//! what is in the store is found before anything is scheduled, and what is not is scheduled once.

use dashmap::DashMap;
use inkwell::context::Context;
use inkwell::targets::FileType;
use ir::Extern;
use ir::loops::Prim;
use ir::text::{extern_text, prim_text, stable_hash};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use tensor::abi::Kernel;

use crate::layout::Layout;
use crate::ll::Ll;
use crate::prepare::prepare;
use crate::schedule::schedule;
use crate::store::Store;
use crate::sum_order::{SumOrder, sum_orders};
use crate::{Error, Target, binding, emit, object};

/// A kernel and its machine code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Compiled {
    /// How to call it.
    pub kernel: Kernel,
    /// An ELF relocatable object that defines the kernel's symbol. It asks the loader for relocations within
    /// itself, for the functions of [`crate::LIBRARY`] and for symbols of the kernel's libraries.
    pub object: Vec<u8>,
}

/// What is known of a kernel so far.
#[derive(Debug, Default)]
struct Entry {
    begun: OnceLock<Result<Begun, Error>>,
    made: OnceLock<Result<Arc<Compiled>, Error>>,
}

/// A kernel whose outside is known.
#[derive(Debug)]
enum Begun {
    /// It was in the store.
    Found(Arc<Compiled>),
    /// It is to be compiled: its loops as they are to run, and how it is called.
    Scheduled(Box<(Prim, Layout, Kernel)>),
}

/// Compiles for one target, and remembers.
#[derive(Debug)]
pub struct Compiler {
    target: Target,
    store: Option<Store>,
    cache: DashMap<String, Arc<Entry>>,
}

/// The symbol of a kernel: readable, and different for different contents.
fn symbol(name: &str, text: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("tenon_{plain}_{:016x}", stable_hash(text))
}

impl Compiler {
    /// A compiler with an empty cache.
    pub fn new(target: Target) -> Compiler {
        Compiler { target, store: None, cache: DashMap::new() }
    }

    /// The compiler, looking for kernels in a store first and leaving there what it compiles.
    pub fn storing(self, store: Option<Store>) -> Compiler {
        Compiler { store, ..self }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How the kernel of a primitive is called.
    pub fn describe_prim(&self, prim: &Prim) -> Result<Kernel, Error> {
        let key = self.prim_key(prim);
        let entry = self.entry(&key);
        let begun = entry.begun.get_or_init(|| self.begin(prim, &key));
        Ok(match begun.as_ref().map_err(Clone::clone)? {
            Begun::Found(compiled) => compiled.kernel.clone(),
            Begun::Scheduled(all) => all.2.clone(),
        })
    }

    /// How the kernel of a library function is called.
    pub fn describe_extern(&self, ext: &Extern) -> Result<Kernel, Error> {
        let name = symbol(ext.name.name(), &self.key(extern_text(ext)));
        binding::describe(ext, name)
    }

    /// The number of kernels made so far, compiled or found.
    pub fn compiled(&self) -> usize {
        self.cache.iter().filter(|entry| entry.made.get().is_some()).count()
    }

    /// The kernel of a primitive.
    pub fn compile_prim(&self, prim: &Prim) -> Result<Arc<Compiled>, Error> {
        let key = self.prim_key(prim);
        let entry = self.entry(&key);
        let make = || {
            let begun = entry.begun.get_or_init(|| self.begin(prim, &key));
            match begun.as_ref().map_err(Clone::clone)? {
                Begun::Found(compiled) => Ok(Arc::clone(compiled)),
                Begun::Scheduled(all) => Ok(self.put(&key, self.build(&all.0, &all.1, &all.2)?)),
            }
        };
        entry.made.get_or_init(make).clone()
    }

    /// The kernel of a library function: its call, behind the ABI of every other kernel.
    pub fn compile_extern(&self, ext: &Extern) -> Result<Arc<Compiled>, Error> {
        let key = self.key(extern_text(ext));
        let make = || {
            if let Some(found) = self.find(&key) {
                return Ok(found);
            }
            let context = Context::create();
            let ll = Ll::new(&context, ext.name.name(), &self.target);
            let name = symbol(ext.name.name(), &key);
            binding::emit(&ll, ext, &name)?;
            let kernel = binding::describe(ext, name)?;
            let machine = self.target.machine()?;
            object::optimise(&ll, &machine)?;
            let object = object::write(&ll, &machine, FileType::Object)?;
            Ok(self.put(&key, Compiled { kernel, object }))
        };
        self.entry(&key).made.get_or_init(make).clone()
    }

    /// The optimised LLVM text of a primitive's kernel.
    pub fn llvm_text(&self, prim: &Prim) -> Result<String, Error> {
        self.with_module(prim, |ll, _| Ok(ll.module.print_to_string().to_string()))
    }

    /// The assembly of a primitive's kernel.
    pub fn asm_text(&self, prim: &Prim) -> Result<String, Error> {
        self.with_module(prim, |ll, machine| {
            let bytes = object::write(ll, machine, FileType::Assembly)?;
            Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string())
        })
    }

    /// A primitive with its loops as they are to run.
    pub fn schedule_prim(&self, prim: &Prim) -> Prim {
        self.scheduled(prim).0
    }

    /// In which order its kernel adds up floats, sum by sum.
    pub fn sum_orders(&self, prim: &Prim) -> Vec<SumOrder> {
        sum_orders(&self.schedule_prim(prim))
    }

    /// The primitive as its loops are to run, and the outside of its kernel.
    fn scheduled(&self, prim: &Prim) -> (Prim, Layout) {
        let before = prepare(prim, self.target.passes);
        // What says itself how its loops run is left as it is.
        let prim = if prim.is_scheduled() { before.clone() } else { schedule(&before, &self.target) };
        let layout = Layout::new(&before, &prim, self.target.passes);
        (prim, layout)
    }

    /// The same of a primitive, whose checks are numbered by where they are written: what has one place has one number.
    fn prim_key(&self, prim: &Prim) -> String {
        let checked = prim.checked();
        let places: Vec<_> = checked.iter().map(|a| (a.buf, a.span)).collect();
        let first = |p: &_| places.iter().position(|q| q == p);
        let numbers: Vec<_> = places.iter().filter_map(first).collect();
        let text = prim_text(prim);
        // Mostly each has its own.
        let own = numbers.iter().enumerate().all(|(i, n)| i == *n);
        self.key(if own { text } else { format!("{text}checks {numbers:?}") })
    }

    /// All that the bytes depend on: the text, which says of a primitive that it is invariant, and the target.
    fn key(&self, text: String) -> String {
        format!("{}\n{text}", self.target.key())
    }

    /// The entry of a key. The map's lock is held only to find it, never while compiling.
    fn entry(&self, key: &str) -> Arc<Entry> {
        if let Some(known) = self.cache.get(key) {
            return Arc::clone(&known);
        }
        Arc::clone(&self.cache.entry(key.to_owned()).or_default())
    }

    /// What the store has under a key.
    fn find(&self, key: &str) -> Option<Arc<Compiled>> {
        self.store.as_ref().and_then(|s| s.get(key)).map(Arc::new)
    }

    fn put(&self, key: &str, made: Compiled) -> Arc<Compiled> {
        if let Some(store) = &self.store {
            store.put(key, &made);
        }
        Arc::new(made)
    }

    fn begin(&self, prim: &Prim, key: &str) -> Result<Begun, Error> {
        if let Some(found) = self.find(key) {
            return Ok(Begun::Found(found));
        }
        let (scheduled, layout) = self.scheduled(prim);
        let kernel = layout.kernel(&scheduled, symbol(&prim.name, key))?;
        Ok(Begun::Scheduled(Box::new((scheduled, layout, kernel))))
    }

    fn build(&self, prim: &Prim, layout: &Layout, kernel: &Kernel) -> Result<Compiled, Error> {
        let context = Context::create();
        let ll = Ll::new(&context, &prim.name, &self.target);
        emit::emit(&ll, prim, layout, &kernel.symbol)?;
        let machine = self.target.machine()?;
        object::optimise(&ll, &machine)?;
        let object = object::write(&ll, &machine, FileType::Object)?;
        Ok(Compiled { kernel: kernel.clone(), object })
    }

    fn with_module(
        &self,
        prim: &Prim,
        f: impl FnOnce(&Ll<'_>, &inkwell::targets::TargetMachine) -> Result<String, Error>,
    ) -> Result<String, Error> {
        let name = symbol(&prim.name, &self.prim_key(prim));
        let (prim, layout) = self.scheduled(prim);
        let context = Context::create();
        let ll = Ll::new(&context, &prim.name, &self.target);
        emit::emit(&ll, &prim, &layout, &name)?;
        let machine = self.target.machine()?;
        object::optimise(&ll, &machine)?;
        f(&ll, &machine)
    }
}
