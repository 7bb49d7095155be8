//! How far the results of a program move when its literals do, by what their types round them.
//!
//! A literal of a narrow type may stand for a number that the type has not: `1.702` of bf16 is 1.703125, where an operator of the
//! library computes with more digits. A rule may exchange the one for the other, and what follows may amplify the
//! difference without end, as a sine of something large does. What may be the literals' doing is told by the program itself, run with its
//! literals moved.

use ir::Module;
use ir::graph::{Block, Op};
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::bound::{movement, nudge, unit};
use super::difference::rounded;
use super::wide::{self, Casts};

/// How far each element of each result moves, of a program in its own types; `run` runs one in double.
pub(super) fn moved(
    module: &Module,
    want: &[Tensor],
    run: &dyn Fn(&Module) -> Option<Vec<Tensor>>,
) -> Option<Vec<Vec<f64>>> {
    let mut types = Vec::new();
    module.funcs.iter().for_each(|f| {
        f.body.walk(&mut |n| {
            if let Op::Const(t) = &n.op {
                types.push(rounded(t).then(|| t.dtype()));
            }
        });
    });
    if types.iter().all(Option::is_none) {
        return None;
    }
    let double = wide::module(module, Casts::Keep)?;
    let trial = |seed| {
        let (mut rng, mut types) = (Rng::new(seed), types.iter().copied());
        let mut moved = double.clone();
        moved.funcs.iter_mut().for_each(|f| block(&mut f.body, &mut rng, &mut types));
        run(&moved)
    };
    Some(movement(want, &trial))
}

/// Moves the constants of a block, in the order in which a walk meets them.
fn block(b: &mut Block, rng: &mut Rng, types: &mut dyn Iterator<Item = Option<DType>>) {
    for node in &mut b.nodes {
        match &mut node.op {
            Op::Const(t) => {
                if let Some(Some(dtype)) = types.next() {
                    nudge(t, unit(dtype), rng);
                }
            }
            Op::If(then, other) => {
                block(then, rng, types);
                block(other, rng, types);
            }
            Op::While { cond, body } => {
                block(cond, rng, types);
                block(body, rng, types);
            }
            Op::Switch(arms) => arms.iter_mut().for_each(|(_, arm)| block(arm, rng, types)),
            Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) | Op::Call(..) => {}
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
    }
}
