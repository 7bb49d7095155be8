//! How far loading is, told to whoever watches: a bar on a terminal, a server that is not ready yet.

use std::fmt;
use std::sync::Arc;

/// What goes on: the steps of loading a model, in their order, and that of importing one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// The plan is chosen. Nothing is counted.
    Plan,
    /// Kernels are compiled, counted as they are.
    Compile,
    /// Weights are read from their files, encoded if that was asked for, and laid out as kernels read them; counted in
    /// bytes.
    Load,
    /// A checkpoint is written anew, counted in bytes. No model is loaded then.
    Write,
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; 0 where nothing is counted.
    pub total: u64,
}

/// Who watches, if anyone. It is told from several threads, one at a time or not.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl Watch {
    /// Tells each step to a function.
    pub fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> Watch {
        Watch(Some(Arc::new(tell)))
    }

    /// Tells how far a step is.
    pub fn tell(&self, step: Step, done: u64, total: u64) {
        if let Some(tell) = &self.0 {
            tell(Progress { step, done, total });
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Watch(someone)" } else { "Watch(nobody)" })
    }
}
