//! Types while checking: trees whose leaves are tensors.
//!
//! A module holds tensors only. A record, a tuple, an array or an encoded tensor is a [`Ty`], and a value of
//! it is as many tensors as the tree has leaves, in the order of [`Ty::leaves`]. An array `[T; k]` is no
//! list: each leaf of `T` has one more axis at the front, so `[f32[n]; k]` *is* `f32[k, n]`. An encoded
//! tensor has the fields of its blocks as leaves, with the last axis cut into blocks.
//!
//! Here stand the tree, what can be asked of it, and how a written type becomes one ([`Checker::ty`]).
//! Records are equal by name and by what their generics are; whether a declared one makes sense is [`record`]'s to say.

mod display;
mod origin;
mod record;
mod several;

use std::collections::{BTreeSet, HashMap};

use ir::ast::{
    EncodingDef, Exist, ExprKind, File, Generic, GenericKind, ItemKind, RecordDef, TypeExpr, TypeKind,
};
use ir::diag::Diagnostic;
use ir::graph::Type;
use ir::origin::Origin;
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::config::is_config;
use crate::env::Env;
use crate::graph::Storage;
use crate::{Checker, Maybe};

pub(crate) use several::{Several, SeveralId};

/// A record by its place among the declared ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct RecordId(u32);

/// An encoding by its place among the declared ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct EncodingId(u32);

/// What a generic element type stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Elem {
    Plain(DType),
    Encoded(EncodingId),
    /// One of these or another in each place of an array.
    Several(SeveralId),
}

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ty {
    Tensor(Type),
    Encoded(Encoded),
    Several(Several),
    Tuple(Vec<Ty>),
    Record(Record),
    /// What holds functions: no tensors, and known only where it is a value.
    Fn,
    /// As many of a record or a tuple; of a tensor it is a tensor, see [`Ty::stacked`].
    Array(Dim, Box<Ty>),
}

/// An encoded tensor.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Encoded {
    pub(crate) id: EncodingId,
    pub(crate) name: Sym,
    /// The shape of the numbers it holds.
    pub(crate) shape: Vec<Dim>,
    /// The fields of its blocks: the leaves.
    pub(crate) fields: Vec<(Sym, Type)>,
}

/// A record with its generics fixed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    pub(crate) id: RecordId,
    pub(crate) name: Sym,
    /// In the order of the declaration's generics.
    pub(crate) args: Vec<Arg>,
    pub(crate) fields: Vec<Field>,
}

/// What a generic of a record is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Arg {
    Dim(Dim),
    /// The element type, with its name.
    Elem(Elem, Sym),
}

/// A field of a record.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Field {
    pub(crate) name: Sym,
    pub(crate) ty: Ty,
    /// Where a checkpoint has it.
    pub(crate) from: Option<Origin>,
    /// Of a state, how it is kept: `by token`.
    pub(crate) kept: Option<String>,
}

/// A tensor of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// The names that lead to it: `w.layers.q`.
    pub(crate) path: String,
    pub(crate) ty: Type,
    /// Where a checkpoint has it, as text. The k-th `{..}` of a name counts along the k-th axis at the front, which an
    /// array put there. Of a state, how it is kept.
    pub(crate) from: Option<String>,
}

impl Ty {
    /// `[self; k]`
    pub(crate) fn stacked(self, k: Dim) -> Ty {
        let front = |mut shape: Vec<Dim>| {
            shape.insert(0, k.clone());
            shape
        };
        match self {
            Ty::Tensor(t) => Ty::Tensor(Type { dtype: t.dtype, shape: front(t.shape) }),
            Ty::Encoded(e) => {
                let fields = e.fields.into_iter();
                let fields = fields.map(|(n, t)| (n, Type { dtype: t.dtype, shape: front(t.shape) }));
                Ty::Encoded(Encoded { shape: front(e.shape), fields: fields.collect(), ..e })
            }
            Ty::Several(s) => Ty::Several(Several { front: front(s.front), ..s }),
            of @ (Ty::Tuple(_) | Ty::Record(_) | Ty::Array(..) | Ty::Fn) => Ty::Array(k, Box::new(of)),
        }
    }

    /// How many tensors it is.
    pub(crate) fn count(&self) -> usize {
        match self {
            Ty::Tensor(_) => 1,
            Ty::Fn => 0,
            Ty::Encoded(e) => e.fields.len(),
            Ty::Several(s) => Several::PLACED + s.stacks.iter().map(Ty::count).sum::<usize>(),
            Ty::Tuple(parts) => parts.iter().map(Ty::count).sum(),
            Ty::Record(r) => r.fields.iter().map(|f| f.ty.count()).sum(),
            Ty::Array(_, of) => of.count(),
        }
    }

    /// Its tensors, in order, under a name.
    pub(crate) fn leaves(&self, name: &str) -> Vec<Leaf> {
        let mut out = Vec::new();
        self.gather(name.to_owned(), &mut Vec::new(), None, &mut out);
        out
    }

    fn gather(&self, path: String, front: &mut Vec<Dim>, from: Option<&Origin>, out: &mut Vec<Leaf>) {
        let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let whole = |front: &[Dim], t: &Type| Type {
            dtype: t.dtype,
            shape: front.iter().chain(&t.shape).cloned().collect(),
        };
        match self {
            Ty::Tensor(t) => {
                let ty = whole(front, t);
                out.push(Leaf { path, ty, from: from.map(ToString::to_string) });
            }
            Ty::Fn => {}
            Ty::Encoded(e) => {
                for (name, t) in &e.fields {
                    let from = from.map(|f| e.origin_of_field(name.name(), f).to_string());
                    out.push(Leaf { path: under(name.name()), ty: whole(front, t), from });
                }
            }
            Ty::Several(s) => s.gather(&path, front, from, out),
            Ty::Tuple(parts) => {
                for (i, t) in parts.iter().enumerate() {
                    t.gather(under(&i.to_string()), front, None, out);
                }
            }
            Ty::Record(r) => {
                for f in &r.fields {
                    let before = out.len();
                    let from = f.origin_under(from);
                    f.ty.gather(under(f.name.name()), front, from.as_ref(), out);
                    if let Some(kept) = &f.kept {
                        out[before..].iter_mut().for_each(|leaf| leaf.from = Some(kept.clone()));
                    }
                }
            }
            Ty::Array(k, of) => {
                front.push(k.clone());
                of.gather(path, front, from, out);
                front.pop();
            }
        }
    }

    /// A field by name (of a tuple by number), and how many tensors stand before it. That of an array is the
    /// array of those.
    pub(crate) fn field(&self, name: &str) -> Option<(Ty, usize)> {
        let find = |parts: &mut dyn Iterator<Item = (&str, &Ty)>| {
            let mut before = 0;
            for (n, ty) in parts {
                if n == name {
                    return Some((ty.clone(), before));
                }
                before += ty.count();
            }
            None
        };
        match self {
            Ty::Tensor(_) | Ty::Several(_) | Ty::Fn => None,
            Ty::Encoded(e) => {
                let at = e.fields.iter().position(|f| f.0.name() == name)?;
                Some((Ty::Tensor(e.fields[at].1.clone()), at))
            }
            Ty::Tuple(parts) => {
                let names: Vec<String> = (0..parts.len()).map(|i| i.to_string()).collect();
                find(&mut names.iter().map(String::as_str).zip(parts))
            }
            Ty::Record(r) => find(&mut r.fields.iter().map(|f| (f.name.name(), &f.ty))),
            Ty::Array(k, of) => of.field(name).map(|(ty, before)| (ty.stacked(k.clone()), before)),
        }
    }

    /// What one element of it is; none where it has none.
    pub(crate) fn element(&self) -> Option<Ty> {
        let rest = |shape: &[Dim]| shape[1..].to_vec();
        match self {
            Ty::Array(_, of) => Some((**of).clone()),
            Ty::Tensor(t) if !t.shape.is_empty() => {
                Some(Ty::Tensor(Type { dtype: t.dtype, shape: rest(&t.shape) }))
            }
            // The last axis is cut into blocks, which are not taken apart.
            Ty::Encoded(e) if e.shape.len() > 1 => {
                let field = |(n, t): &(Sym, Type)| (*n, Type { dtype: t.dtype, shape: rest(&t.shape) });
                let fields = e.fields.iter().map(field).collect();
                Some(Ty::Encoded(Encoded { shape: rest(&e.shape), fields, ..*e }))
            }
            Ty::Several(s) if !s.front.is_empty() => {
                Some(Ty::Several(Several { front: rest(&s.front), ..s.clone() }))
            }
            Ty::Tensor(_) | Ty::Encoded(_) | Ty::Several(_) | Ty::Tuple(_) | Ty::Record(_) | Ty::Fn => None,
        }
    }

    /// This type with what its leaves turned out to be, where two branches gave this one and `other`: a dim
    /// that differs between them is what the leaves have in its place.
    pub(crate) fn with_leaves(&self, other: &Ty, leaves: &[Type]) -> Ty {
        let mut changed: Vec<(Dim, Dim, Dim)> = Vec::new();
        for ((a, b), new) in self.leaves("").iter().zip(other.leaves("")).zip(leaves) {
            for ((x, y), z) in a.ty.shape.iter().zip(&b.ty.shape).zip(&new.shape) {
                changed.push((x.clone(), y.clone(), z.clone()));
            }
        }
        let pick = |a: &Dim, b: &Dim| match changed.iter().find(|(x, y, _)| x == a && y == b) {
            Some((.., z)) => z.clone(),
            None => a.clone(),
        };
        self.joined(other, &pick)
    }

    fn joined(&self, other: &Ty, pick: &dyn Fn(&Dim, &Dim) -> Dim) -> Ty {
        let all = |a: &[Dim], b: &[Dim]| -> Vec<Dim> { a.iter().zip(b).map(|(a, b)| pick(a, b)).collect() };
        let ty = |a: &Type, b: &Type| Type { dtype: a.dtype, shape: all(&a.shape, &b.shape) };
        match (self, other) {
            (Ty::Tensor(a), Ty::Tensor(b)) => Ty::Tensor(ty(a, b)),
            (Ty::Encoded(a), Ty::Encoded(b)) => Ty::Encoded(Encoded {
                shape: all(&a.shape, &b.shape),
                fields: a.fields.iter().zip(&b.fields).map(|(x, y)| (x.0, ty(&x.1, &y.1))).collect(),
                ..*a
            }),
            (Ty::Tuple(a), Ty::Tuple(b)) => {
                Ty::Tuple(a.iter().zip(b).map(|(a, b)| a.joined(b, pick)).collect())
            }
            (Ty::Record(a), Ty::Record(b)) => {
                let arg = |(x, y): (&Arg, &Arg)| match (x, y) {
                    (Arg::Dim(x), Arg::Dim(y)) => Arg::Dim(pick(x, y)),
                    _ => x.clone(),
                };
                let field = |(x, y): (&Field, &Field)| Field { ty: x.ty.joined(&y.ty, pick), ..x.clone() };
                Ty::Record(Record {
                    args: a.args.iter().zip(&b.args).map(arg).collect(),
                    fields: a.fields.iter().zip(&b.fields).map(field).collect(),
                    ..*a
                })
            }
            (Ty::Array(k, a), Ty::Array(l, b)) => Ty::Array(pick(k, l), Box::new(a.joined(b, pick))),
            _ => self.clone(),
        }
    }

    /// The names of its fields.
    pub(crate) fn field_names(&self) -> Vec<String> {
        match self {
            Ty::Tensor(_) | Ty::Several(_) | Ty::Fn => vec![],
            Ty::Encoded(e) => e.fields.iter().map(|f| f.0.to_string()).collect(),
            Ty::Tuple(parts) => (0..parts.len()).map(|i| i.to_string()).collect(),
            Ty::Record(r) => r.fields.iter().map(|f| f.name.to_string()).collect(),
            Ty::Array(_, of) => of.field_names(),
        }
    }

    /// The same type with dims replaced.
    pub(crate) fn subst(&self, f: &dyn Fn(Sym) -> Option<Dim>) -> Ty {
        match self {
            Ty::Tensor(t) => Ty::Tensor(t.subst(f)),
            Ty::Fn => Ty::Fn,
            Ty::Encoded(e) => Ty::Encoded(Encoded {
                shape: e.shape.iter().map(|d| d.subst(f)).collect(),
                fields: e.fields.iter().map(|(n, t)| (*n, t.subst(f))).collect(),
                ..*e
            }),
            Ty::Several(s) => Ty::Several(Several {
                front: s.front.iter().map(|d| d.subst(f)).collect(),
                shape: s.shape.iter().map(|d| d.subst(f)).collect(),
                stacks: s.stacks.iter().map(|t| t.subst(f)).collect(),
                ..*s
            }),
            Ty::Tuple(parts) => Ty::Tuple(parts.iter().map(|t| t.subst(f)).collect()),
            Ty::Record(r) => Ty::Record(Record {
                args: r
                    .args
                    .iter()
                    .map(|a| match a {
                        Arg::Dim(d) => Arg::Dim(d.subst(f)),
                        Arg::Elem(e, n) => Arg::Elem(*e, *n),
                    })
                    .collect(),
                fields: r.fields.iter().map(|x| Field { ty: x.ty.subst(f), ..x.clone() }).collect(),
                ..*r
            }),
            Ty::Array(k, of) => Ty::Array(k.subst(f), Box::new(of.subst(f))),
        }
    }

    /// True if a value of it holds functions.
    pub(crate) fn has_function(&self) -> bool {
        match self {
            Ty::Fn => true,
            Ty::Tensor(_) | Ty::Encoded(_) | Ty::Several(_) => false,
            Ty::Tuple(parts) => parts.iter().any(Ty::has_function),
            Ty::Record(r) => r.fields.iter().any(|f| f.ty.has_function()),
            Ty::Array(_, of) => of.has_function(),
        }
    }

    /// True for types that differ in dims alone.
    pub(crate) fn like(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::Tensor(a), Ty::Tensor(b)) => a.dtype == b.dtype && a.shape.len() == b.shape.len(),
            (Ty::Encoded(a), Ty::Encoded(b)) => a.id == b.id && a.shape.len() == b.shape.len(),
            (Ty::Several(a), Ty::Several(b)) => a.id == b.id && a.front.len() == b.front.len(),
            (Ty::Tuple(a), Ty::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.like(b)),
            (Ty::Record(a), Ty::Record(b)) => {
                let same = |(a, b): (&Arg, &Arg)| match (a, b) {
                    (Arg::Elem(a, _), Arg::Elem(b, _)) => a == b,
                    (Arg::Dim(_), Arg::Dim(_)) => true,
                    (Arg::Elem(..), Arg::Dim(_)) | (Arg::Dim(_), Arg::Elem(..)) => false,
                };
                a.id == b.id && a.args.iter().zip(&b.args).all(same)
            }
            (Ty::Array(_, a), Ty::Array(_, b)) => a.like(b),
            (Ty::Fn, Ty::Fn) => true,
            _ => false,
        }
    }

    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Ty::Tensor(_) => "a tensor",
            Ty::Encoded(_) => "an encoded tensor",
            Ty::Several(_) => "a tensor that is stored in several ways",
            Ty::Tuple(_) => "a tuple",
            Ty::Record(_) => "a record",
            Ty::Array(..) => "an array",
            Ty::Fn => "a function",
        }
    }
}

/// A name of a type that the program declares.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    Record(RecordId),
    Encoding(EncodingId),
}

/// The declared records and encodings. Those of the program stand before those of the library.
#[derive(Default)]
pub(crate) struct Types<'a> {
    records: Vec<&'a RecordDef>,
    encodings: Vec<&'a EncodingDef>,
    /// Ways of storage that places of an array differ in, in use so far.
    pub(crate) several: Vec<Storage>,
    by_name: HashMap<Sym, Named>,
    /// Records that cannot be laid out: said once, and no type.
    broken: BTreeSet<RecordId>,
    /// Records that hold functions, themselves or in what they hold.
    functional: BTreeSet<RecordId>,
}

impl<'a> Types<'a> {
    pub(crate) fn declare(&mut self, file: &'a File) {
        for item in &file.items {
            match &item.kind {
                ItemKind::Record(d) => {
                    self.records.push(d);
                    let id = RecordId(self.records.len() as u32 - 1);
                    self.by_name.insert(d.name.name, Named::Record(id));
                }
                ItemKind::Encoding(d) => {
                    self.encodings.push(d);
                    let id = EncodingId(self.encodings.len() as u32 - 1);
                    self.by_name.insert(d.name.name, Named::Encoding(id));
                }
                _ => {}
            }
        }
    }

    /// The records that the fields of one name.
    fn held_by(&self, record: usize) -> Vec<usize> {
        fn go(t: &TypeExpr, out: &mut Vec<Sym>) {
            match &t.kind {
                TypeKind::Named { name, .. } => out.push(name.name),
                TypeKind::Tuple(parts) => parts.iter().for_each(|p| go(p, out)),
                TypeKind::Array(of, _) | TypeKind::Exists(_, of) => go(of, out),
                TypeKind::Fn(args, ret) => {
                    args.iter().for_each(|p| go(p, out));
                    go(ret, out);
                }
                TypeKind::Dim(_) => {}
            }
        }
        let mut names = Vec::new();
        self.records[record].fields.iter().for_each(|f| go(&f.ty, &mut names));
        let held = names.into_iter().filter_map(|n| match self.get(n) {
            Some(Named::Record(id)) => Some(id.0 as usize),
            Some(Named::Encoding(_)) | None => None,
        });
        held.collect()
    }

    /// Finds the records that hold functions.
    pub(crate) fn find_functional(&mut self) {
        loop {
            let holds = |id: &RecordId| {
                !self.functional.contains(id)
                    && self.record(*id).fields.iter().any(|f| self.holds_function(&f.ty))
            };
            let more: Vec<RecordId> = (0..self.records.len() as u32).map(RecordId).filter(holds).collect();
            if more.is_empty() {
                return;
            }
            self.functional.extend(more);
        }
    }

    /// True for a record that holds functions.
    pub(crate) fn is_functional(&self, id: RecordId) -> bool {
        self.functional.contains(&id)
    }

    /// True for a type as written whose values hold functions.
    pub(crate) fn holds_function(&self, t: &TypeExpr) -> bool {
        match &t.kind {
            TypeKind::Fn(..) => true,
            TypeKind::Named { name, .. } => {
                matches!(self.get(name.name), Some(Named::Record(id)) if self.is_functional(id))
            }
            TypeKind::Tuple(parts) => parts.iter().any(|p| self.holds_function(p)),
            TypeKind::Array(of, _) | TypeKind::Exists(_, of) => self.holds_function(of),
            TypeKind::Dim(_) => false,
        }
    }

    pub(crate) fn get(&self, name: Sym) -> Option<Named> {
        self.by_name.get(&name).copied()
    }

    pub(crate) fn record(&self, id: RecordId) -> &'a RecordDef {
        self.records[id.0 as usize]
    }

    /// What a generic of a record is.
    pub(crate) fn generic<'r>(&self, r: &'r Record, name: Sym) -> Option<&'r Arg> {
        let at = self.record(r.id).generics.iter().position(|g| g.name.name == name)?;
        r.args.get(at)
    }

    pub(crate) fn encoding(&self, id: EncodingId) -> &'a EncodingDef {
        self.encodings[id.0 as usize]
    }

    /// The names, in the order of the text.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        let records = self.records.iter().map(|d| d.name.name.name());
        records.chain(self.encodings.iter().map(|d| d.name.name.name()))
    }
}

impl<'a> Checker<'a> {
    /// A type as written, in terms of an environment.
    pub(crate) fn ty(&mut self, env: &Env, t: &TypeExpr) -> Maybe<Ty> {
        match &t.kind {
            TypeKind::Named { name, args, dims } => {
                if let Some(id) = self.encoding_named(env, name.name) {
                    if let Some(a) = args.first() {
                        return self.fail(no_generics(name.name, a.span));
                    }
                    return self.encoded(env, id, dims.as_deref().unwrap_or(&[]), t.span);
                }
                if let Some(Elem::Several(id)) = env.encodings.get(&name.name) {
                    return match env.dims(dims.as_deref().unwrap_or(&[])) {
                        Ok(shape) => self.several_of(*id, shape, t.span),
                        Err(d) => self.fail(*d),
                    };
                }
                match self.types.get(name.name) {
                    Some(Named::Record(id)) if env.dtype(name.name).is_none() => {
                        if dims.is_some() {
                            let text = format!("`{}` is a record, and has no axes of its own", name.name);
                            let d = Diagnostic::error("E0306", t.span, text);
                            return self.fail(d.help(format!("an array of them is `[{}; n]`", name.name)));
                        }
                        self.record(env, id, args, t.span)
                    }
                    _ => self.tensor_type(env, t).map(Ty::Tensor),
                }
            }
            TypeKind::Tuple(parts) => {
                let parts: Vec<Maybe<Ty>> = parts.iter().map(|p| self.ty(env, p)).collect();
                parts.into_iter().collect::<Maybe<Vec<_>>>().map(Ty::Tuple)
            }
            TypeKind::Array(of, k) => {
                let of = self.ty(env, of);
                match env.dim(k) {
                    Ok(k) => Some(of?.stacked(k)),
                    Err(d) => self.fail(*d),
                }
            }
            TypeKind::Dim(_) => self.fail(no_type(t.span)),
            TypeKind::Fn(..) => {
                let d = Diagnostic::error("E0306", t.span, "a tensor is needed here, and this is a function");
                self.fail(d.help("a `fn`, a record and a `let` may hold functions"))
            }
            TypeKind::Exists(..) => self.fail(
                Diagnostic::error("E0306", t.span, "`exists` stands only around the result of a function")
                    .help("name the dim: `let y: f32[k] = ..` binds `k`"),
            ),
        }
    }

    /// Says what is wrong with the types that a type of functions speaks of.
    pub(crate) fn parts_of(&mut self, env: &Env, t: &TypeExpr) -> Maybe<()> {
        match &t.kind {
            TypeKind::Fn(takes, gives) => {
                let all: Vec<Maybe<()>> =
                    takes.iter().chain([&**gives]).map(|t| self.parts_of(env, t)).collect();
                all.into_iter().collect()
            }
            TypeKind::Tuple(parts) => {
                let all: Vec<Maybe<()>> = parts.iter().map(|t| self.parts_of(env, t)).collect();
                all.into_iter().collect()
            }
            TypeKind::Array(of, k) => {
                self.parts_of(env, of)?;
                env.dim(k).map(|_| ()).or_else(|d| self.fail(*d).ok_or(())).ok()
            }
            TypeKind::Exists(vars, of) => {
                let mut env = env.clone();
                env.dims.extend(Exist::names(vars).iter().map(|n| (n.name, Dim::sym(n.name))));
                self.parts_of(&env, of)
            }
            TypeKind::Named { name, dims: None, .. } if env.kinds.contains_key(&name.name) => Some(()),
            TypeKind::Named { .. } | TypeKind::Dim(_) => self.ty(env, t).map(|_| ()),
        }
    }

    /// True for a written type that may hold an encoded tensor.
    pub(crate) fn may_be_encoded(&self, env: &Env, t: &TypeExpr) -> bool {
        match &t.kind {
            TypeKind::Named { name, .. } => {
                env.encodings.contains_key(&name.name)
                    || self.encoding_named(env, name.name).is_some()
                    || matches!(self.types.get(name.name), Some(Named::Record(_)))
            }
            TypeKind::Tuple(parts) => parts.iter().any(|t| self.may_be_encoded(env, t)),
            TypeKind::Array(of, _) | TypeKind::Exists(_, of) => self.may_be_encoded(env, of),
            TypeKind::Dim(_) | TypeKind::Fn(..) => false,
        }
    }

    /// The encoding that a name means: one declared, or what a generic stands for.
    pub(crate) fn encoding_named(&self, env: &Env, name: Sym) -> Option<EncodingId> {
        match env.encodings.get(&name) {
            Some(Elem::Encoded(id)) => return Some(*id),
            Some(Elem::Plain(_) | Elem::Several(_)) => return None,
            None => {}
        }
        if env.dtypes.contains_key(&name) {
            return None;
        }
        match self.types.get(name) {
            Some(Named::Encoding(id)) => Some(id),
            Some(Named::Record(_)) | None => None,
        }
    }

    /// The element type that a name means.
    pub(crate) fn elem(&self, env: &Env, name: Sym) -> Option<Elem> {
        match (env.encodings.get(&name), self.encoding_named(env, name)) {
            (Some(elem), _) => Some(*elem),
            (None, Some(id)) => Some(Elem::Encoded(id)),
            (None, None) => env.dtype(name).map(Elem::Plain),
        }
    }

    /// The name of an element type, for messages.
    pub(crate) fn elem_name(&self, e: Elem) -> Sym {
        match e {
            Elem::Plain(d) => Sym::new(d.name()),
            Elem::Encoded(id) => self.types.encoding(id).name.name,
            Elem::Several(id) => self.types.several[id.0 as usize].name,
        }
    }

    fn record(&mut self, env: &Env, id: RecordId, args: &[TypeExpr], span: Span) -> Maybe<Ty> {
        let def = self.types.record(id);
        if self.types.broken.contains(&id) {
            return None;
        }
        let name = def.name.name;
        if args.len() != def.generics.len() {
            // Those of a config are not written.
            let (ours, want): (Vec<&Generic>, Vec<&Generic>) =
                def.generics.iter().partition(|g| is_config(g));
            let want: Vec<&str> = want.iter().map(|g| g.name.name.name()).collect();
            let d = if want.is_empty() {
                no_generics(name, span)
            } else {
                let got = args.len().saturating_sub(ours.len());
                let text =
                    format!("`{name}` needs {} here, got {got}", ir::diag::count(want.len(), "generic"));
                Diagnostic::error("E0306", span, text).label(def.name.span, "declared here").help(format!(
                    "write `{name}<{}>`; a parameter may leave out all of them",
                    want.join(", ")
                ))
            };
            return self.fail(d);
        }
        let mut given = Vec::new();
        for (g, a) in def.generics.iter().zip(args) {
            given.push(self.record_arg(env, g, a));
        }
        self.record_of(id, given.into_iter().collect::<Maybe<Vec<_>>>()?)
    }

    /// What stands for a generic of a record in angle brackets.
    fn record_arg(&mut self, env: &Env, g: &Generic, a: &TypeExpr) -> Maybe<Arg> {
        if let (TypeKind::Dim(e), GenericKind::Dim) = (&a.kind, g.kind) {
            return match env.dim(e) {
                Ok(d) => Some(Arg::Dim(d)),
                Err(d) => self.fail(*d),
            };
        }
        if let TypeKind::Dim(_) = a.kind {
            let text = format!("`{}` is an element type, and this is a dim", g.name.name);
            let d = Diagnostic::error("E0204", a.span, text);
            return self.fail(d.label(g.name.span, "declared here"));
        }
        let TypeKind::Named { name, args, dims: None } = &a.kind else {
            return self.fail(Diagnostic::error(
                "E0306",
                a.span,
                "a generic is a dim or the name of an element type",
            ));
        };
        if let Some(first) = args.first() {
            return self.fail(no_generics(name.name, first.span));
        }
        match g.kind {
            GenericKind::DType => match self.elem(env, name.name) {
                Some(e) => {
                    self.allowed(g, e, a.span)?;
                    Some(Arg::Elem(e, self.elem_name(e)))
                }
                None => {
                    let text = format!("`{}` is an element type, and `{}` is none", g.name.name, name.name);
                    self.fail(Diagnostic::error("E0204", a.span, text).label(g.name.span, "declared here"))
                }
            },
            GenericKind::Dim | GenericKind::Pack => {
                if self.elem(env, name.name).is_some() {
                    let text = format!("`{}` is a dim, and `{}` an element type", g.name.name, name.name);
                    let d = Diagnostic::error("E0204", a.span, text);
                    return self.fail(d.label(g.name.span, "declared here"));
                }
                match env.dim(&name_expr(name.name, a.span)) {
                    Ok(d) => Some(Arg::Dim(d)),
                    Err(d) => self.fail(*d),
                }
            }
        }
    }

    /// Refuses an element type that the bounds of a record's generic leave out.
    fn allowed(&mut self, g: &Generic, e: Elem, span: Span) -> Maybe<()> {
        let fits = match e {
            Elem::Plain(d) => crate::bind::allows(g, d),
            Elem::Encoded(_) | Elem::Several(_) => crate::bind::allows_encoding(g, true),
        };
        if fits {
            return Some(());
        }
        let bounds: Vec<&str> = g.bounds.iter().map(|b| b.name.name()).collect();
        let text = format!("`{}` cannot be {}", g.name.name, self.elem_name(e));
        let d = Diagnostic::error("E0303", span, text);
        self.fail(d.label(g.name.span, format!("one of: {}", bounds.join(", "))))
    }

    /// A record whose generics are these.
    pub(crate) fn record_of(&mut self, id: RecordId, args: Vec<Arg>) -> Maybe<Ty> {
        let def = self.types.record(id);
        if self.types.broken.contains(&id) {
            return None;
        }
        let mut env = self.env();
        for (g, a) in def.generics.iter().zip(&args) {
            match a {
                Arg::Dim(d) => {
                    env.dims.insert(g.name.name, d.clone());
                }
                Arg::Elem(e, _) => env.bind_elem(g.name.name, *e),
            }
        }
        let mut fields = Vec::new();
        for f in &def.fields {
            let ty = match self.types.holds_function(&f.ty) {
                true => self.parts_of(&env, &f.ty).map(|()| Ty::Fn),
                false => self.ty(&env, &f.ty),
            };
            let from = self.origin(f);
            let kept = f.kept.as_ref().map(|k| self.kept(k));
            fields.push(ty.map(|ty| Field { name: f.name.name, ty, from, kept }));
        }
        let fields = fields.into_iter().collect::<Maybe<Vec<Field>>>()?;
        let leaves: usize = fields.iter().map(|f| f.ty.count()).sum();
        if leaves > MOST_LEAVES {
            self.types.broken.insert(id);
            let text =
                format!("the record `{}` is {leaves} tensors; {MOST_LEAVES} are the most", def.name.name);
            let d = Diagnostic::error("E0306", def.name.span, text);
            return self.fail(d.help("make an array of the parts that are alike: `[Layer; n]`"));
        }
        Some(Ty::Record(Record { id, name: def.name.name, args, fields }))
    }
}

/// How many tensors a record or a tuple may be.
pub(crate) const MOST_LEAVES: usize = 4096;

fn no_generics(name: Sym, span: Span) -> Diagnostic {
    Diagnostic::error("E0306", span, format!("`{name}` has no generics"))
}

/// What is wrong with a dim where a type is needed: `Layer<3>` has one as a generic, `wide<3>` none.
pub(crate) fn no_type(span: Span) -> Diagnostic {
    Diagnostic::error("E0306", span, "a type is needed here, and this is a dim")
}

/// A generic of a record as a dim expression, where it can be one.
pub(crate) fn dim_said(t: &TypeExpr) -> Option<ir::ast::Expr> {
    match &t.kind {
        TypeKind::Named { name, .. } => Some(name_expr(name.name, name.span)),
        TypeKind::Dim(e) => Some((**e).clone()),
        TypeKind::Tuple(_) | TypeKind::Array(..) | TypeKind::Fn(..) | TypeKind::Exists(..) => None,
    }
}

/// A name as a dim expression.
pub(crate) fn name_expr(name: Sym, span: Span) -> ir::ast::Expr {
    ir::ast::Expr { kind: ExprKind::Name(name), span }
}
