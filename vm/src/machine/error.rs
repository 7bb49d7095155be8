//! How a run ends when it does not return: values that name the place in the source.

use crate::loader;
use crate::program::{Program, SourceLocation};
use crate::verify::Fault;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A check of the program failed.
    #[error("{message}{site}")]
    Check {
        /// The message, values filled in.
        message: String,
        /// Where.
        site: Site,
    },
    /// A check inside a kernel failed.
    #[error("{kernel}: {message}{site}")]
    Kernel {
        /// The kernel's name.
        kernel: Box<str>,
        /// The message, values filled in.
        message: Box<str>,
        /// Where it was called.
        site: Site,
        /// Where in the kernel's text the check is written, if that is known.
        written: Option<Box<Site>>,
    },
    /// A dim overflowed, was divided by zero, or an extent is negative.
    #[error("{message}{site}")]
    Dim {
        /// What.
        message: String,
        /// Where.
        site: Site,
    },
    /// The memory budget or the system's memory was exhausted.
    #[error("out of memory: {bytes} bytes more are needed, {held} are held{}{site}", allowed(*.limit))]
    OutOfMemory {
        /// What was asked for last.
        bytes: usize,
        /// What the run held by then.
        held: usize,
        /// What it may hold, if it was told.
        limit: Option<usize>,
        /// Where.
        site: Site,
    },
    /// Calls nest too deeply.
    #[error("calls nest too deeply{site}")]
    StackOverflow {
        /// Where.
        site: Site,
    },
    /// The step budget is used up.
    #[error("the run took more steps than it may{site}")]
    Fuel {
        /// Where.
        site: Site,
    },
    /// The deadline passed.
    #[error("the deadline passed{site}")]
    Deadline {
        /// Where.
        site: Site,
    },
    /// Someone cancelled the run.
    #[error("the run was cancelled{site}")]
    Cancelled {
        /// Where.
        site: Site,
    },
    /// The program is at fault, in a way that the compiler should not let happen.
    #[error("{message}{site}")]
    Program {
        /// What.
        message: String,
        /// Where.
        site: Site,
    },
    /// A constant in the program's file is not what was written.
    #[error("the file is damaged: a constant has another checksum{site}")]
    Damaged {
        /// Where it is used.
        site: Site,
    },
    /// An argument does not fit the entry.
    #[error("{0}")]
    BadArgument(String),
    /// There is no such entry.
    #[error("no entry is called `{0}`")]
    NoEntry(String),
    /// The bytecode was refused.
    #[error("{0}")]
    Verify(#[from] Fault),
    /// Native code could not be attached.
    #[error("{0}")]
    Load(#[from] loader::Error),
    /// The number of kernels and of their codes differ.
    #[error("the program has {want} kernels, got code for {got}")]
    KernelCount {
        /// Kernels of the program.
        want: usize,
        /// Codes given.
        got: usize,
    },
}

/// Where in a program something happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// The function.
    pub function: String,
    /// The instruction.
    pub pc: usize,
    /// The source file; empty if the code does not say.
    pub file: String,
    /// 1-based; 0 if the code does not say.
    pub line: u32,
    /// 1-based.
    pub col: u32,
    /// Bytes of the source file.
    pub span: (u32, u32),
}

fn allowed(limit: Option<usize>) -> String {
    limit.map_or_else(String::new, |l| format!(", the limit is {l}"))
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, " (at {}:{}:{})", self.file, self.line, self.col)
        } else {
            write!(f, " (in {} at {})", self.function, self.pc)
        }
    }
}

impl Error {
    /// Where it happened, for those that happen while running.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Error::Check { site, .. }
            | Error::Kernel { site, .. }
            | Error::Dim { site, .. }
            | Error::OutOfMemory { site, .. }
            | Error::StackOverflow { site }
            | Error::Fuel { site }
            | Error::Deadline { site }
            | Error::Cancelled { site }
            | Error::Damaged { site }
            | Error::Program { site, .. } => Some(site),
            Error::BadArgument(_)
            | Error::NoEntry(_)
            | Error::Verify(_)
            | Error::Load(_)
            | Error::KernelCount { .. } => None,
        }
    }
}

/// An error before its site is known: what an instruction answers.
#[derive(Debug)]
pub(crate) enum Trap {
    Check(String),
    /// The last: where the check is written.
    Kernel {
        kernel: String,
        message: String,
        written: Option<SourceLocation>,
    },
    Dim(String),
    OutOfMemory {
        bytes: usize,
        held: usize,
        limit: usize,
    },
    StackOverflow,
    Fuel,
    Deadline,
    Cancelled,
    Damaged,
    Program(String),
}

/// A message with values in its holes: `{}` is one, `{{` is a brace.
#[cold]
pub(crate) fn filled(text: &str, values: &mut dyn Iterator<Item = String>) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('{', Some('{')) => {
                chars.next();
                out.push('{');
            }
            ('{', Some('}')) => {
                chars.next();
                out.push_str(values.next().as_deref().unwrap_or("?"));
            }
            _ => out.push(c),
        }
    }
    out
}

impl From<super::memory::OutOfMemory> for Trap {
    fn from(e: super::memory::OutOfMemory) -> Trap {
        Trap::OutOfMemory { bytes: e.bytes, held: e.held, limit: e.limit }
    }
}

impl Trap {
    pub(crate) fn at(self, program: &Program, function: usize, pc: usize) -> Error {
        let f = &program.functions[function];
        let at = |place: Option<&SourceLocation>| Site {
            function: f.name.clone(),
            pc,
            file: place.and_then(|p| program.files.get(p.file as usize)).cloned().unwrap_or_default(),
            line: place.map_or(0, |p| p.line),
            col: place.map_or(0, |p| p.col),
            span: place.map_or((0, 0), |p| (p.lo, p.hi)),
        };
        let site = at(f.source_location(pc));
        match self {
            Trap::Check(message) => Error::Check { message, site },
            Trap::Kernel { kernel, message, written } => {
                let written = written.filter(|p| p.line > 0).map(|p| Box::new(at(Some(&p))));
                Error::Kernel { kernel: kernel.into(), message: message.into(), site, written }
            }
            Trap::Dim(message) => Error::Dim { message, site },
            Trap::OutOfMemory { bytes, held, limit } => {
                Error::OutOfMemory { bytes, held, limit: (limit < usize::MAX).then_some(limit), site }
            }
            Trap::StackOverflow => Error::StackOverflow { site },
            Trap::Fuel => Error::Fuel { site },
            Trap::Deadline => Error::Deadline { site },
            Trap::Cancelled => Error::Cancelled { site },
            Trap::Damaged => Error::Damaged { site },
            Trap::Program(message) => Error::Program { message, site },
        }
    }
}
