//! The work of what became a kernel, over its own dims: the counts that plans are chosen by, for whoever measures.

use ir::loops::Prim;
use ir::{ExternId, Module};
use shape::Expr;
use tensor::DType;

use crate::classify::profile;
use crate::pattern::meaning;

/// What one call does.
#[derive(Clone, Debug)]
pub struct KernelWork {
    /// Operations on values.
    pub flops: Expr,
    /// Bytes read and written: of each operand at most its size, and no more than the loops touch.
    pub bytes: Expr,
    /// Of what type the elements are that it multiplies and adds up, if that is what it does.
    pub product: Option<DType>,
    /// True if the rounds of a loop depend on data, and were guessed.
    pub guessed: bool,
}

impl KernelWork {
    fn from_profile(p: &crate::classify::Profile) -> KernelWork {
        KernelWork {
            flops: p.flops.clone(),
            bytes: &p.read_bytes + &p.write_bytes,
            product: p.contraction.as_ref().map(|c| c.dtype),
            guessed: p.guessed,
        }
    }
}

/// The work of a primitive.
pub fn prim_work(prim: &Prim) -> KernelWork {
    KernelWork::from_profile(&profile(prim))
}

/// The work of a library function that says what it computes.
pub fn extern_work(module: &Module, id: ExternId) -> Option<KernelWork> {
    let dims: Vec<Expr> = module.extern_(id).dims.iter().map(|s| Expr::sym(*s)).collect();
    meaning(&|p| profile(module.prim(p)), module, id, &dims).map(|p| KernelWork::from_profile(&p))
}
