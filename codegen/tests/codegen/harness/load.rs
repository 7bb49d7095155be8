//! A loader for tests: the system's linker makes a shared library of the object.

use std::ffi::CString;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use codegen::Compiled;
use ir::loops::Prim;
use tensor::abi::{Access, Entry, Kernel, Step, StepOp};
use tensor::{DType, Tensor};

/// A kernel that can be called.
pub struct Loaded {
    pub kernel: Kernel,
    entry: Entry,
    _dir: tempfile::TempDir,
}

impl Loaded {
    pub fn new(compiled: &Compiled) -> Loaded {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let (object, library) = (dir.path().join("k.o"), dir.path().join("k.so"));
        std::fs::write(&object, &compiled.object).expect("write the object");
        let mut link = Command::new("cc");
        link.arg("-shared").arg("-o").arg(&library).arg(&object);
        for l in &compiled.kernel.libraries {
            link.arg(if l.contains('/') { l.clone() } else { format!("-l:{l}") });
        }
        assert!(link.arg("-lm").status().expect("cc runs").success());
        let path = CString::new(library.to_str().expect("a plain path")).expect("no zero byte");
        let symbol = CString::new(compiled.kernel.symbol.as_str()).expect("no zero byte");
        // SAFETY: the library was just made from a kernel, whose symbol has the type of an entry.
        let entry = unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null(), "the object loads");
            let address = libc::dlsym(handle, symbol.as_ptr());
            assert!(!address.is_null(), "{} is defined", compiled.kernel.symbol);
            std::mem::transmute::<*mut libc::c_void, Entry>(address)
        };
        Loaded { kernel: compiled.kernel.clone(), entry, _dir: dir }
    }

    /// Runs the grid in pieces, with either end of its buffers at a wall; the answer of a failed check is its message.
    pub fn run(
        &self,
        prim: &Prim,
        dims: &[i64],
        args: &[Tensor],
        pieces: i64,
    ) -> Result<Vec<Tensor>, String> {
        let [one, other] =
            [Wall::Before, Wall::Behind].map(|wall| self.at_wall(prim, dims, args, (pieces, wall)));
        let bytes = |r: &Result<Vec<Tensor>, String>| {
            r.as_ref()
                .map(|o| o.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>())
                .map_err(String::clone)
        };
        assert_eq!(bytes(&one), bytes(&other), "where buffers lie changes what comes out");
        one
    }

    fn at_wall(
        &self,
        prim: &Prim,
        dims: &[i64],
        args: &[Tensor],
        (pieces, wall): (i64, Wall),
    ) -> Result<Vec<Tensor>, String> {
        let (mut ints, mut pages, mut outs) = (dims.to_vec(), Vec::new(), Vec::new());
        let shape = |b| -> Vec<i64> {
            let of = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
            prim.buf(b).shape.iter().map(|d| d.eval(&of).expect("a size")).collect()
        };
        for (&p, t) in prim.params.iter().zip(args) {
            if t.rank() > 0 || prim.in_place(p) && prim.outs.contains(&p) {
                if prim.outs.contains(&p) {
                    outs.push((p, pages.len()));
                }
                pages.push(Page::new(t.bytes(), wall));
            } else {
                let float = t.dtype().is_float();
                ints.push(if float { t.get_f64(0).to_bits() as i64 } else { t.get_i64(0) });
            }
        }
        for &o in prim.outs.iter().filter(|o| !prim.in_place(**o)) {
            outs.push((o, pages.len()));
            let n = Tensor::zeros(prim.buf(o).dtype, &shape(o)).expect("a small tensor").bytes().len();
            pages.push(Page::new(&vec![0xcd; n], wall));
        }
        assert_eq!(pages.len(), self.kernel.bufs.len());
        assert_eq!(ints.len(), self.kernel.ints as usize);
        self.call(&pages, &ints, pieces)?;
        outs.sort_by_key(|o| prim.outs.iter().position(|p| *p == o.0));
        let tensor = |&(b, i): &(ir::loops::BufId, usize)| {
            Tensor::from_bytes(prim.buf(b).dtype, &shape(b), pages[i].bytes()).expect("the right size")
        };
        Ok(outs.iter().map(tensor).collect())
    }

    pub fn call(&self, pages: &[Page], ints: &[i64], pieces: i64) -> Result<(), String> {
        let before: Vec<Vec<u8>> = pages.iter().map(|p| p.bytes().to_vec()).collect();
        let shared = Page::new(&vec![0xcd; eval(&self.kernel.shared, ints) as usize], Wall::Behind);
        let bufs = pages.iter().map(|p| p.start()).chain(onwards()).chain([shared.start()]);
        let bufs: Vec<*mut u8> = bufs.collect();
        let grid = eval(&self.kernel.grid, ints);
        let scratch = eval(&self.kernel.scratch, ints);
        let scratch = Page::new(&vec![0xab; scratch as usize], Wall::Behind);
        let (mut failed, mut values) = (0, Vec::new());
        for piece in 0..pieces {
            let (lo, hi) = (grid * piece / pieces, grid * (piece + 1) / pieces);
            // SAFETY: the buffers are those that the kernel describes.
            let answer = unsafe { (self.entry)(bufs.as_ptr(), ints.as_ptr(), scratch.start(), lo, hi) };
            if failed == 0 && answer != 0 {
                failed = answer;
                let words = scratch.bytes().chunks_exact(8).take(3);
                values = words.map(|w| i64::from_ne_bytes(w.try_into().expect("eight bytes"))).collect();
            }
        }
        for ((page, before), buf) in pages.iter().zip(before).zip(&self.kernel.bufs) {
            assert!(buf.access != Access::In || page.bytes() == before, "an input was written");
            assert!(page.is_whole(), "a write beside the buffer");
        }
        if failed == 0 {
            return Ok(());
        }
        // The values of the holes, as a runtime says them.
        let message = &self.kernel.checks[failed as usize - 1];
        let mut values = values.iter();
        let mut parts = message.split("{}");
        let first = parts.next().unwrap_or_default().to_owned();
        Err(parts.fold(first, |text, part| match values.next() {
            Some(v) => format!("{text}{v}{part}"),
            None => text,
        }))
    }

    /// For measuring: one call of a slice.
    pub fn slice(&self, bufs: &[*mut u8], ints: &[i64], lo: i64, hi: i64) -> i64 {
        let bytes = eval(&self.kernel.scratch, ints);
        let mut scratch = Vec::<u8>::with_capacity(bytes as usize);
        let mut shared = Vec::<u64>::with_capacity(eval(&self.kernel.shared, ints) as usize / 8);
        let bufs = bufs.iter().copied().chain(onwards()).chain([shared.as_mut_ptr().cast()]);
        let bufs: Vec<*mut u8> = bufs.collect();
        // SAFETY: the caller hands buffers that the kernel describes.
        unsafe { (self.entry)(bufs.as_ptr(), ints.as_ptr(), scratch.as_mut_ptr(), lo, hi) }
    }
}

impl Loaded {
    /// The whole grid in one call, with scratch memory that is kept between calls.
    pub fn whole(&self, bufs: &[*mut u8], ints: &[i64], scratch: &mut Vec<[u64; 8]>) -> i64 {
        let bytes = eval(&self.kernel.scratch, ints);
        scratch.reserve(bytes as usize / 64 + 2);
        let at = scratch.as_mut_ptr().cast::<u8>();
        // SAFETY: what was reserved is one line longer than what is asked for.
        let at = unsafe { at.add(at.align_offset(64)) };
        let mut shared = Vec::<u64>::with_capacity(eval(&self.kernel.shared, ints) as usize / 8);
        let bufs = bufs.iter().copied().chain(onwards()).chain([shared.as_mut_ptr().cast()]);
        let bufs: Vec<*mut u8> = bufs.collect();
        // SAFETY: the caller hands buffers that the kernel describes.
        unsafe { (self.entry)(bufs.as_ptr(), ints.as_ptr(), at, 0, eval(&self.kernel.grid, ints)) }
    }
}

/// The flags of a call that nobody ends.
fn onwards() -> [*mut u8; 2] {
    static NEVER: AtomicBool = AtomicBool::new(false);
    [NEVER.as_ptr().cast(); 2]
}

pub fn eval(steps: &[Step], ints: &[i64]) -> i64 {
    let mut values: Vec<i64> = Vec::new();
    for s in steps {
        values.push(match *s {
            Step::Const(c) => c,
            Step::Int(i) => ints[i as usize],
            Step::Bin(op, a, b) => {
                let (a, b) = (values[a as usize], values[b as usize]);
                match op {
                    StepOp::Add => a + b,
                    StepOp::Sub => a - b,
                    StepOp::Mul => a * b,
                    StepOp::FloorDiv => a.div_euclid(b),
                    StepOp::CeilDiv => -(-a).div_euclid(b),
                    StepOp::Mod => a.rem_euclid(b),
                    StepOp::Min => a.min(b),
                    StepOp::Max => a.max(b),
                }
            }
        });
    }
    values.last().copied().unwrap_or(0)
}

/// Which end of a buffer lies at a page that no one may touch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wall {
    Before,
    Behind,
}

/// Bytes between two pages that no one may touch, right at one of them. What lies between them and the other is
/// watched.
pub struct Page {
    map: *mut u8,
    total: usize,
    at: usize,
    len: usize,
}

const PAGE: usize = 4096;
/// What lies beside the bytes.
const BESIDE: u8 = 0x5a;

impl Page {
    pub fn new(bytes: &[u8], wall: Wall) -> Page {
        let room = (bytes.len() + 64).next_multiple_of(PAGE);
        let total = PAGE + room + PAGE;
        // SAFETY: a fresh private mapping, of which all but the first and last page gains rights.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let inside = map.cast::<u8>().add(PAGE).cast();
            assert_eq!(libc::mprotect(inside, room, libc::PROT_READ | libc::PROT_WRITE), 0);
            map.cast::<u8>()
        };
        let at = if wall == Wall::Before { PAGE } else { PAGE + room - bytes.len() };
        let p = Page { map, total, at, len: bytes.len() };
        // SAFETY: inside the mapping.
        unsafe {
            std::ptr::write_bytes(p.map.add(PAGE), BESIDE, room);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), p.start(), bytes.len());
        }
        p
    }

    pub fn start(&self) -> *mut u8 {
        // SAFETY: inside the mapping.
        unsafe { self.map.add(self.at) }
    }

    pub fn bytes(&self) -> &[u8] {
        self.inside(self.at, self.at + self.len)
    }

    /// Whether nothing beside the bytes was written.
    fn is_whole(&self) -> bool {
        let beside = [(PAGE, self.at), (self.at + self.len, self.total - PAGE)];
        beside.iter().all(|(from, to)| self.inside(*from, *to).iter().all(|b| *b == BESIDE))
    }

    fn inside(&self, from: usize, to: usize) -> &[u8] {
        assert!(PAGE <= from && from <= to && to <= self.total - PAGE);
        // SAFETY: between the walls, written at the start.
        unsafe { std::slice::from_raw_parts(self.map.add(from), to - from) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.map.cast(), self.total) };
    }
}

/// The element types that the tests of arithmetic go through.
pub const INTS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];
