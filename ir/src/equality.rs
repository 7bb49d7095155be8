//! Structural equality of loops: statements and expressions are equal, and hash alike, where they compute the same in
//! the same words.
//!
//! Spans are left out: where something is written changes the message of a failed check, not what is computed. Who
//! keeps one of several equal primitives compares [`Prim::check_spans`] too, or a fault is shown in the wrong place.
//!
//! *Weighed:* a span that equals every other would break the maps that have spans as keys. Two fields of a type that
//! does would be named wherever a load or store is made; here a new field that is forgotten does not compile.

use std::hash::{Hash, Hasher};

use shape::{Expr as Dim, Facts, Sym};

use crate::intrinsic::{Combine, Intrinsic, Literal};
use crate::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};

/// What a primitive is, but for where.
#[derive(PartialEq, Eq, Hash)]
struct PrimKey<'a> {
    name: (&'a str, Sym),
    dims: (&'a [Sym], &'a Facts),
    ends: [&'a [BufId]; 2],
    bufs: &'a [Buf],
    vars: &'a [Var],
    body: &'a [Stmt],
    invariant: bool,
}

impl Prim {
    fn key(&self) -> PrimKey<'_> {
        let Prim { name, def, dims, facts, params, outs, bufs, vars, body, invariant, span: _ } = self;
        let (name, dims, ends) = ((name.as_str(), *def), (&dims[..], facts), [&params[..], &outs[..]]);
        PrimKey { name, dims, ends, bufs, vars, body, invariant: *invariant }
    }
}

/// What a statement says, but for where.
#[derive(PartialEq, Eq, Hash)]
enum StmtKey<'a> {
    For(VarId, &'a Scalar, &'a Scalar, Mark, &'a Run, &'a [Stmt]),
    While(&'a Scalar, &'a [Stmt]),
    If(&'a Scalar, &'a [Stmt], &'a [Stmt]),
    Set(VarId, &'a Scalar),
    Alloc(BufId),
    Store(BufId, &'a [Scalar], bool, Option<Combine>, &'a Scalar),
}

impl Stmt {
    fn key(&self) -> StmtKey<'_> {
        match self {
            Stmt::For { var, lo, hi, mark, run, body } => StmtKey::For(*var, lo, hi, *mark, run, body),
            Stmt::While(c, body) => StmtKey::While(c, body),
            Stmt::If(c, yes, no) => StmtKey::If(c, yes, no),
            Stmt::Set(v, value) => StmtKey::Set(*v, value),
            Stmt::Alloc(buf) => StmtKey::Alloc(*buf),
            Stmt::Store { buf, index, checked, combine, value, span: _ } => {
                StmtKey::Store(*buf, index, *checked, *combine, value)
            }
        }
    }
}

/// What an expression says, but for where.
#[derive(PartialEq, Eq, Hash)]
enum ScalarKey<'a> {
    Const(Literal),
    Var(VarId),
    Dim(&'a Dim),
    Load(BufId, &'a [Scalar], bool),
    Op(Intrinsic, &'a [Scalar]),
    Choose(&'a [Scalar; 3]),
    Cast(&'a Scalar),
    Reduce(Combine, &'a Run, VarId, [&'a Scalar; 3]),
}

impl ScalarKind {
    fn key(&self) -> ScalarKey<'_> {
        match self {
            ScalarKind::Const(c) => ScalarKey::Const(*c),
            ScalarKind::Var(v) => ScalarKey::Var(*v),
            ScalarKind::Dim(d) => ScalarKey::Dim(d),
            ScalarKind::Load { buf, index, checked, span: _ } => ScalarKey::Load(*buf, index, *checked),
            ScalarKind::Op(op, args) => ScalarKey::Op(*op, args),
            ScalarKind::Choose(parts) => ScalarKey::Choose(parts),
            ScalarKind::Cast(a) => ScalarKey::Cast(a),
            ScalarKind::Reduce { combine, run, var, lo, hi, body } => {
                ScalarKey::Reduce(*combine, run, *var, [lo, hi, body])
            }
        }
    }
}

impl Literal {
    fn key(&self) -> (bool, u64) {
        match self {
            Literal::Int(i) => (false, *i as u64),
            Literal::Float(x) => (true, x.to_bits()),
        }
    }
}

macro_rules! equal_by_key {
    ($($ty:ty),*) => {$(
        impl PartialEq for $ty {
            fn eq(&self, other: &$ty) -> bool {
                self.key() == other.key()
            }
        }

        impl Eq for $ty {}

        impl Hash for $ty {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.key().hash(state);
            }
        }
    )*};
}

equal_by_key!(Prim, Stmt, ScalarKind, Literal);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{SourceId, Span};
    use std::hash::BuildHasher;
    use tensor::DType;

    fn load(buf: u32, lo: u32) -> Scalar {
        let span = Span { file: SourceId(0), lo, hi: lo + 1 };
        let kind = ScalarKind::Load { buf: BufId(buf), index: vec![Scalar::int(0)], checked: true, span };
        Scalar { kind, dtype: DType::F32 }
    }

    #[test]
    fn what_is_written_elsewhere_is_equal_and_hashes_alike() {
        let hasher = std::hash::RandomState::new();
        let (a, b) = (load(0, 3), load(0, 7));
        assert_eq!(a, b);
        assert_eq!(hasher.hash_one(&a), hasher.hash_one(&b));
        assert_ne!(a, load(1, 3));
        assert_ne!(a, Scalar { dtype: DType::F64, ..a.clone() });
    }

    #[test]
    fn floats_are_equal_where_their_bits_are() {
        let constant = |x: f64| Scalar::constant(Literal::Float(x), DType::F32);
        assert_eq!(constant(f64::NAN), constant(f64::NAN));
        assert_ne!(constant(0.0), constant(-0.0));
        assert_ne!(Literal::Float(0.0), Literal::Int(0));
    }
}
