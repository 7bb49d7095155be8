//! The e-graph's language: semantic nodes and implementation nodes side by side in one class.
//!
//! - [`Ir::Leaf`]: a value the block is given, or one that a pinned node makes;
//! - [`Ir::Op`]: what is computed: a primitive, a scalar operation, a constant, a library function. Dims are
//!   part of the interned [`OpKey`]; an operation with several results is a tuple, taken apart by [`Ir::Proj`];
//! - [`Ir::Impl`]: how it may be computed: one node is one step of the emitted plan ([`ImplDesc`]).
//!
//! Loop nests, dims and tensors stay outside egg behind the handles of [`Table`]. Types are analysis data. A
//! class whose members' types cannot be proved equal is a fault of this crate: `merge` cannot refuse, so it
//! notes the fault in [`Ctx::faults`] and the function is left as it was. Appliers prove types before they unite.

use std::hash::Hash;

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use indexmap::IndexSet;
use ir::graph::{Type, ValId};
use ir::{ExternId, Intrinsic, PrimId};
use shape::{Expr, Facts, Pred, Sym, Verdict};
use smallvec::SmallVec;
use tensor::{DType, Tensor};

use crate::classify::NumClass;
use crate::cost::{Identity, Work};

/// The e-graph of one block.
pub(crate) type Graph = EGraph<Ir, Ctx>;

/// Children of a node.
pub(crate) type Kids = SmallVec<[Id; 4]>;

/// An index in [`Table::ops`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct OpId(pub(crate) u32);

/// An index in [`Table::impls`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ImplId(pub(crate) u32);

/// An e-node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Ir {
    Leaf(ValId),
    Op(OpId, Kids),
    Proj(u32, [Id; 1]),
    Impl(ImplId, Kids),
}

/// What is computed, without the operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum OpKey {
    Prim(PrimId, Vec<Expr>),
    Extern(ExternId, Vec<Expr>),
    Scalar(Intrinsic),
    Cast(DType),
    /// An index in [`Table::consts`].
    Const(usize),
    Dim(Expr),
}

impl OpKey {
    /// The dims it is given.
    fn dims(&self) -> &[Expr] {
        match self {
            OpKey::Prim(_, dims) | OpKey::Extern(_, dims) => dims,
            OpKey::Dim(e) => std::slice::from_ref(e),
            OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) => &[],
        }
    }
}

/// What an operation is without its dims and operands: where a graph has none of a pattern's, nothing matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Head {
    Prim(PrimId),
    Extern(ExternId),
    Scalar(Intrinsic),
    Cast(DType),
    Const,
    Dim,
}

impl Head {
    pub(crate) fn from_key(key: &OpKey) -> Head {
        match key {
            OpKey::Prim(id, _) => Head::Prim(*id),
            OpKey::Extern(id, _) => Head::Extern(*id),
            OpKey::Scalar(i) => Head::Scalar(*i),
            OpKey::Cast(d) => Head::Cast(*d),
            OpKey::Const(_) => Head::Const,
            OpKey::Dim(_) => Head::Dim,
        }
    }
}

/// How an operation is carried out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Action {
    /// An instruction of the VM.
    Native(OpKey),
    /// The kernel of a primitive of the module.
    Kernel(PrimId, Vec<Expr>),
    /// The kernel of a group: an index in [`crate::fuse::Fused`]. Its dims are its own names.
    Fused(usize),
    /// A library function.
    Library(ExternId, Vec<Expr>),
}

/// One way to compute a class.
#[derive(Clone, Debug)]
pub(crate) struct ImplDesc {
    pub(crate) action: Action,
    /// What `--force` and `--forbid` call it, and reports.
    pub(crate) name: String,
    /// The operations it covers, producers first.
    pub(crate) covers: Vec<String>,
    pub(crate) num: NumClass,
    pub(crate) work: Work,
    /// What measurements are kept under, if anyone asks for them.
    pub(crate) identity: Option<Identity>,
    pub(crate) results: Vec<Type>,
}

/// Handles of what stays outside the e-graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    keys: IndexSet<(OpKey, Vec<Type>)>,
    actions: IndexSet<(Action, Vec<Type>)>,
    impls: Vec<ImplDesc>,
    pub(crate) consts: Vec<Tensor>,
}

impl Table {
    pub(crate) fn op(&mut self, key: OpKey, results: Vec<Type>) -> OpId {
        OpId(self.keys.insert_full((key, results)).0 as u32)
    }

    pub(crate) fn key(&self, op: OpId) -> &OpKey {
        &self.keys[op.0 as usize].0
    }

    pub(crate) fn results(&self, op: OpId) -> &[Type] {
        &self.keys[op.0 as usize].1
    }

    pub(crate) fn implementation(&mut self, desc: ImplDesc) -> ImplId {
        let (at, new) = self.actions.insert_full((desc.action.clone(), desc.results.clone()));
        if new {
            self.impls.push(desc);
        }
        ImplId(at as u32)
    }

    /// All implementations, to be told what measurements of them are kept under.
    pub(crate) fn descs_mut(&mut self) -> &mut [ImplDesc] {
        &mut self.impls
    }

    pub(crate) fn desc(&self, id: ImplId) -> &ImplDesc {
        &self.impls[id.0 as usize]
    }

    /// The handle of a constant; bits decide, so that NaNs and zeros keep theirs.
    pub(crate) fn constant(&mut self, t: &Tensor) -> usize {
        let same = |c: &Tensor| c.dtype() == t.dtype() && c.shape() == t.shape() && c.bytes() == t.bytes();
        self.consts.iter().position(same).unwrap_or_else(|| {
            self.consts.push(t.clone());
            self.consts.len() - 1
        })
    }
}

/// What is known of a class.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Data {
    /// One type; for a tuple, one a component.
    pub(crate) types: Vec<Type>,
    pub(crate) stage: Stage,
}

/// When a value is known. What a later stage adds never makes it known later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// When compiling.
    Compile,
    /// When weights are loaded: made of them and of constants.
    Load,
    /// A part of such a value, or copies of it; which one, or how many, only running tells.
    Part,
    /// When running.
    Step,
}

/// The analysis: handles, what is known of the dims, and faults.
///
/// What is known depends on what has run: a symbol that a node of the block opened comes with facts that may
/// say something about earlier symbols too. A question that names no symbol of level `i` is answered from the
/// facts of the levels below, so that no answer is used before the node that makes it true has run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ctx {
    pub(crate) table: Table,
    /// For each level everything known from there on; the first: when the block begins.
    pub(crate) levels: Vec<Facts>,
    /// The level of symbols opened in the block; 0 for all others.
    pub(crate) level_of: rustc_hash::FxHashMap<Sym, usize>,
    /// The types of leaves.
    pub(crate) leaves: rustc_hash::FxHashMap<ValId, Type>,
    /// The leaves that are known before the run, and the dims that they tell.
    pub(crate) loaded: rustc_hash::FxHashMap<ValId, Stage>,
    pub(crate) entry_dims: rustc_hash::FxHashSet<Sym>,
    pub(crate) faults: Vec<String>,
}

impl Ctx {
    pub(crate) fn level(&self, syms: impl IntoIterator<Item = Sym>) -> usize {
        syms.into_iter().filter_map(|s| self.level_of.get(&s).copied()).max().unwrap_or(0)
    }

    fn stage_of(&self, dim: &Expr) -> Stage {
        match dim.syms() {
            syms if syms.is_empty() => Stage::Compile,
            syms if syms.iter().all(|s| self.entry_dims.contains(s)) => Stage::Load,
            _ => Stage::Step,
        }
    }

    pub(crate) fn prove(&self, pred: &Pred) -> Verdict {
        self.levels[self.level(pred.syms())].prove(pred)
    }

    pub(crate) fn equal(&self, a: &Expr, b: &Expr) -> bool {
        a == b || self.prove(&Pred::Eq(a.clone(), b.clone())) == Verdict::Proved
    }

    pub(crate) fn same_type(&self, a: &Type, b: &Type) -> bool {
        a.dtype == b.dtype
            && a.shape.len() == b.shape.len()
            && a.shape.iter().zip(&b.shape).all(|(a, b)| self.equal(a, b))
    }
}

impl Analysis<Ir> for Ctx {
    type Data = Data;

    fn make(graph: &mut Graph, node: &Ir, _: Id) -> Data {
        match node {
            Ir::Leaf(v) => Data {
                types: vec![graph.analysis.leaves[v].clone()],
                stage: graph.analysis.loaded.get(v).copied().unwrap_or(Stage::Step),
            },
            Ir::Op(op, kids) => {
                let ctx = &graph.analysis;
                let dims = ctx.table.key(*op).dims().iter().map(|d| ctx.stage_of(d)).max();
                let operands = kids.iter().map(|&k| graph[k].data.stage).max().unwrap_or(Stage::Compile);
                let stage = match (operands, dims.unwrap_or(Stage::Compile)) {
                    (Stage::Load | Stage::Part, Stage::Step) => Stage::Part,
                    (operands, dims) => operands.max(dims),
                };
                Data { types: ctx.table.results(*op).to_vec(), stage }
            }
            Ir::Proj(i, [tuple]) => {
                let data = &graph[*tuple].data;
                Data { types: data.types.get(*i as usize).cloned().into_iter().collect(), stage: data.stage }
            }
            Ir::Impl(id, _) => {
                Data { types: graph.analysis.table.desc(*id).results.clone(), stage: Stage::Step }
            }
        }
    }

    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        let same =
            a.types.len() == b.types.len() && a.types.iter().zip(&b.types).all(|(x, y)| self.same_type(x, y));
        if !same {
            let show = |d: &Data| d.types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            self.faults.push(format!("united values of types {} and {}", show(a), show(&b)));
        }
        let before = a.clone();
        // Equal types may be written in two ways; the smaller text is as good a choice as any, and the
        // same in every run.
        let key = |d: &Data| d.types.iter().map(Type::to_string).map(|s| (s.len(), s)).collect::<Vec<_>>();
        if key(&b) < key(a) {
            a.types.clone_from(&b.types);
        }
        a.stage = a.stage.min(b.stage);
        DidMerge(*a != before, *a != b)
    }
}

impl Language for Ir {
    type Discriminant = (u8, u32);

    fn discriminant(&self) -> (u8, u32) {
        match self {
            Ir::Leaf(v) => (0, v.0),
            Ir::Op(op, _) => (1, op.0),
            Ir::Proj(i, _) => (2, *i),
            Ir::Impl(id, _) => (3, id.0),
        }
    }

    fn matches(&self, other: &Ir) -> bool {
        self.discriminant() == other.discriminant() && self.children().len() == other.children().len()
    }

    fn children(&self) -> &[Id] {
        match self {
            Ir::Leaf(_) => &[],
            Ir::Op(_, kids) | Ir::Impl(_, kids) => kids,
            Ir::Proj(_, kid) => kid,
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Ir::Leaf(_) => &mut [],
            Ir::Op(_, kids) | Ir::Impl(_, kids) => kids,
            Ir::Proj(_, kid) => kid,
        }
    }
}
