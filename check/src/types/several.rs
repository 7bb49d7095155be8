//! Tensors that each place of an array stores in one of several ways, as types.

use ir::graph::Type;
use ir::origin::{Origin, Term};
use shape::{Expr as Dim, Sym};
use tensor::DType;

use super::{Leaf, Ty};

/// Ways of storage that places of an array differ in, by their place among those in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SeveralId(pub(crate) u32);

/// A tensor that each place of an array stores in one of several ways: `q4_k` in some layers, `q6_k` in the others.
///
/// Its leaves are which way a place is stored in, where it is among those, and the stacks of all ways. An array puts
/// its axis before the first two only, so an element has all of the stacks, and takes from one of them where it is used
/// ([`Checker::each_way`]).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Several {
    pub(crate) id: SeveralId,
    pub(crate) name: Sym,
    /// The axes that arrays put at the front.
    pub(crate) front: Vec<Dim>,
    /// The shape of one place.
    pub(crate) shape: Vec<Dim>,
    /// For each way those that are stored in it.
    pub(crate) stacks: Vec<Ty>,
}

impl Several {
    /// How many leaves have the axes at the front.
    pub(crate) const PLACED: usize = 2;

    /// The type of those leaves.
    pub(super) fn placed_type(&self) -> Type {
        Type { dtype: DType::I64, shape: self.front.clone() }
    }

    /// Its tensors, in order: each is read from the places that are stored in its way.
    pub(super) fn gather(&self, path: &str, front: &[Dim], from: Option<&Origin>, out: &mut Vec<Leaf>) {
        let names: Vec<&str> = self.stacks.iter().map(stored_as).collect();
        let under = |name: &str| format!("{path}.{name}");
        let all = |f: &dyn Fn(&Term) -> Term| {
            let tried = from?.tried.iter().map(f).collect();
            Some(Origin { tried, default: None }.to_string())
        };
        for verb in ["way", "place"] {
            let kinds = || names.iter().map(|n| Term::Text((*n).to_owned()));
            let from =
                all(&|t| Term::Call(verb.to_owned(), std::iter::once(t.clone()).chain(kinds()).collect()));
            let mut ty = self.placed_type();
            ty.shape.splice(0..0, front.iter().cloned());
            out.push(Leaf { path: under(verb), ty, from });
        }
        // Of one array the ways tell how many places it has.
        let places = self.stacks.iter().map(|s| s.stack_size().unwrap_or_default()).sum();
        let counts: Vec<Term> = match front.len() + self.front.len() {
            1 => vec![Term::Int(places)],
            _ => front.iter().chain(&self.front).filter_map(|d| d.to_string().parse().ok()).collect(),
        };
        for (stack, kind) in self.stacks.iter().zip(names) {
            let stored = |t: &Term| {
                let mut args = vec![t.clone(), Term::Text(kind.to_owned())];
                args.extend(counts.iter().cloned());
                Term::Call("stored".to_owned(), args)
            };
            let before = out.len();
            stack.gather(under(kind), &mut Vec::new(), None, out);
            for (k, leaf) in out[before..].iter_mut().enumerate() {
                leaf.from = all(&|t| match stack {
                    Ty::Encoded(e) => stored(&e.field_of(k, t)),
                    _ => stored(t),
                });
            }
        }
    }
}

impl Ty {
    /// How many there are in a stack.
    fn stack_size(&self) -> Option<i64> {
        match self {
            Ty::Tensor(t) => t.shape.first()?.as_int(),
            Ty::Encoded(e) => e.shape.first()?.as_int(),
            Ty::Several(_) | Ty::Tuple(_) | Ty::Record(_) | Ty::Array(..) | Ty::Fn => None,
        }
    }
}

/// The name of an element type or an encoding.
fn stored_as(ty: &Ty) -> &str {
    match ty {
        Ty::Tensor(t) => t.dtype.name(),
        Ty::Encoded(e) => e.name.name(),
        Ty::Several(_) | Ty::Tuple(_) | Ty::Record(_) | Ty::Array(..) | Ty::Fn => "",
    }
}

impl Ty {
    /// Which of its leaves have the axis that an array puts at the front; the others are the same in all its elements.
    pub(crate) fn placed(&self) -> Vec<bool> {
        match self {
            Ty::Tensor(_) | Ty::Encoded(_) | Ty::Fn => vec![true; self.count()],
            Ty::Several(_) => (0..self.count()).map(|i| i < Several::PLACED).collect(),
            Ty::Tuple(parts) => parts.iter().flat_map(Ty::placed).collect(),
            Ty::Record(r) => r.fields.iter().flat_map(|f| f.ty.placed()).collect(),
            Ty::Array(_, of) => of.placed(),
        }
    }
}
