//! The compiler with its cache: the crate's front door.
//!
//! In: primitives and library bindings, from any number of threads. Out: [`Compiled`] kernels. Equal
//! primitives are compiled once, whoever asks first; the others wait for it. The key is the text of the
//! primitive with that of the target, which hold all that the code depends on; each compilation has an LLVM
//! context of its own, so nothing is shared but the cache.

use dashmap::DashMap;
use inkwell::context::Context;
use inkwell::targets::FileType;
use ir::Extern;
use ir::loops::Prim;
use std::sync::{Arc, OnceLock};
use tensor::abi::Kernel;

use crate::layout::Layout;
use crate::ll::Ll;
use crate::prepare::prepare;
use crate::schedule::{Order, print, schedule};
use crate::{Error, Target, binding, emit, object, text};

/// A kernel and its machine code.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// How to call it.
    pub kernel: Kernel,
    /// An ELF relocatable object that defines the kernel's symbol. It asks the loader for relocations within
    /// itself, for the functions of [`crate::LIBRARY`] and for symbols of the kernel's libraries.
    pub object: Vec<u8>,
}

type Entry = Arc<OnceLock<Result<Arc<Compiled>, Error>>>;

/// Compiles for one target, and remembers.
#[derive(Debug)]
pub struct Compiler {
    target: Target,
    order: Order,
    cache: DashMap<String, Entry>,
}

/// FNV-1a: a hash that is the same in every run and on every machine.
fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The symbol of a kernel: readable, and different for different contents.
fn symbol(name: &str, text: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("tenon_{plain}_{:016x}", stable_hash(text))
}

impl Compiler {
    /// A compiler with an empty cache.
    pub fn new(target: Target) -> Compiler {
        Compiler::with_order(target, Order::default())
    }

    /// A compiler that says what the order of reductions may depend on.
    pub fn with_order(target: Target, order: Order) -> Compiler {
        Compiler { target, order, cache: DashMap::new() }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The number of kernels compiled so far.
    pub fn compiled(&self) -> usize {
        self.cache.len()
    }

    /// The kernel of a primitive.
    pub fn compile_prim(&self, prim: &Prim) -> Result<Arc<Compiled>, Error> {
        self.cached(self.key(text::prim_text(prim)), |key| self.build(prim, key))
    }

    /// The kernel of a library function: its call, behind the ABI of every other kernel.
    pub fn compile_extern(&self, ext: &Extern) -> Result<Arc<Compiled>, Error> {
        self.cached(self.key(binding::text(ext)), |key| {
            let context = Context::create();
            let ll = Ll::new(&context, ext.name.name(), &self.target);
            let kernel = binding::emit(&ll, ext, &symbol(ext.name.name(), key))?;
            let machine = self.target.machine()?;
            object::optimise(&ll, &machine)?;
            Ok(Compiled { kernel, object: object::write(&ll, &machine, FileType::Object)? })
        })
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

    /// What the schedule decides for a primitive.
    pub fn schedule_text(&self, prim: &Prim) -> Result<String, Error> {
        let prim = prepare(prim);
        let schedule = schedule(&prim, &self.target, self.order);
        let grid = Layout::new(&prim, &schedule).grid.map(|g| g.0);
        Ok(print(&prim, &schedule, grid, &self.target))
    }

    /// All that the bytes depend on: the text, the target and the order.
    fn key(&self, text: String) -> String {
        format!("{} {} {:?}\n{text}", self.target.cpu, self.target.features, self.order)
    }

    fn cached(
        &self,
        key: String,
        build: impl FnOnce(&str) -> Result<Compiled, Error>,
    ) -> Result<Arc<Compiled>, Error> {
        // The map's lock is held only to find the entry, never while compiling.
        let entry = Arc::clone(&self.cache.entry(key.clone()).or_default());
        entry.get_or_init(|| build(&key).map(Arc::new)).clone()
    }

    fn build(&self, prim: &Prim, key: &str) -> Result<Compiled, Error> {
        let name = symbol(&prim.name, key);
        let prim = prepare(prim);
        let schedule = schedule(&prim, &self.target, self.order);
        let layout = Layout::new(&prim, &schedule);
        let kernel = layout.kernel(&prim, name.clone())?;
        let context = Context::create();
        let ll = Ll::new(&context, &prim.name, &self.target);
        emit::emit(&ll, &prim, &layout, &schedule, &name)?;
        let machine = self.target.machine()?;
        object::optimise(&ll, &machine)?;
        Ok(Compiled { kernel, object: object::write(&ll, &machine, FileType::Object)? })
    }

    fn with_module(
        &self,
        prim: &Prim,
        f: impl FnOnce(&Ll<'_>, &inkwell::targets::TargetMachine) -> Result<String, Error>,
    ) -> Result<String, Error> {
        let name = symbol(&prim.name, &self.key(text::prim_text(prim)));
        let prim = prepare(prim);
        let context = Context::create();
        let ll = Ll::new(&context, &prim.name, &self.target);
        let schedule = schedule(&prim, &self.target, self.order);
        emit::emit(&ll, &prim, &Layout::new(&prim, &schedule), &schedule, &name)?;
        let machine = self.target.machine()?;
        object::optimise(&ll, &machine)?;
        f(&ll, &machine)
    }
}
