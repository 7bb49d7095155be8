//! Monomorphization of entries, instances that a call from outside asks for: no call in the program tells their types
//! and ranks.
//!
//! In: a definition of the program, what is known of the arguments, and what was chosen by hand. Out: the instance, and
//! which generics nobody told; those are taken as where a definition that nothing calls is checked
//! ([`Checker::sample`]).

use std::collections::BTreeMap;

use ir::ast::{FnDef, GenericKind, IndexArg, Item, Mode, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::source::Span;
use ir::{FuncId, PrimId};
use shape::{Expr as Dim, Sym};

use crate::Checker;
use crate::defs::Def;
use crate::types::{Elem, Named};

/// What is known of an argument: the name of its element type or encoding, and how many axes it has. The name may be
/// that of several, [`crate::ways`].
pub type KnownArg = (Option<Sym>, Option<usize>);

/// What was chosen for a generic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Of an element type: its name, or that of an encoding, or of several.
    Elem(Sym),
    /// Of a pack.
    Rank(usize),
}

/// An instance to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the definition has its name.
    pub at: Span,
    /// Arguments by path: `x`, `w.norm`.
    pub args: BTreeMap<String, KnownArg>,
    /// `f<i32, 3>`: for the element types and packs of the definition, in order.
    pub listed: Vec<Choice>,
}

/// The instance made.
#[derive(Clone, Debug)]
pub struct EntryInstance {
    /// What it is.
    pub id: Instance,
    /// The generics that nothing told, and what they were taken for.
    pub open: Vec<(Sym, Choice)>,
}

/// A definition of either level.
#[derive(Clone, Copy, Debug)]
pub enum Instance {
    /// A function.
    Func(FuncId),
    /// A primitive.
    Prim(PrimId),
}

impl<'a> Checker<'a> {
    pub(crate) fn entry_instance(&mut self, request: &Request, items: &[&'a Item]) -> Option<EntryInstance> {
        let def = items.iter().filter_map(|i| Def::from_item(i)).find(|d| d.sig().name.span == request.at)?;
        let sig = def.sig();
        let mut told = BTreeMap::new();
        for p in sig.params.iter().filter(|p| p.mode != Mode::Const) {
            if let Some(t) = &p.ty {
                let same = |n: Sym| sig.generics.iter().any(|g| g.name.name == n).then_some(n);
                self.infer_from_argument(t, p.name.name.name(), &same, request, &mut told);
            }
        }
        // What is said by hand stands before what arguments say. Generics that a signature leaves out have a dot.
        let by_hand = |g: &&ir::ast::Generic| g.kind != GenericKind::Dim && !g.name.name.name().contains('.');
        let mut slots = sig.generics.iter().filter(by_hand);
        for choice in &request.listed {
            let Some(g) = slots.next() else {
                let text = format!("`{}` has fewer element types and packs than are chosen", sig.name.name);
                return self.fail(Diagnostic::error("E0304", sig.name.span, text));
            };
            let fits = matches!(
                (g.kind, choice),
                (GenericKind::DType, Choice::Elem(_)) | (GenericKind::Pack, Choice::Rank(_))
            );
            if !fits {
                let what = if g.kind == GenericKind::Pack { "a number of axes" } else { "an element type" };
                let text = format!("{}: {what} is needed for `{}`", sig.name.name, g.name.name);
                return self.fail(Diagnostic::error("E0304", g.name.span, text));
            }
            told.insert(g.name.name, *choice);
        }
        let mut env = self.sample_env(sig)?;
        let mut open = Vec::new();
        for g in &sig.generics {
            let name = g.name.name;
            match (g.kind, told.get(&name)) {
                (GenericKind::DType, Some(Choice::Elem(chosen))) => {
                    let elem = match self.several_ways(chosen.name()) {
                        Some(id) => Some(Elem::Several(id)),
                        None => self.elem(&self.env(), *chosen),
                    };
                    let fits = elem.is_some_and(|e| match e {
                        Elem::Plain(d) => crate::bind::allows(g, d),
                        Elem::Encoded(_) | Elem::Several(_) => crate::bind::allows_encoding(g, true),
                    });
                    let Some(elem) = elem.filter(|_| fits) else {
                        return self.fail(crate::bind::refused(
                            sig.name.name.name(),
                            chosen.name(),
                            g,
                            sig.name.span,
                        ));
                    };
                    env.dtypes.remove(&name);
                    env.bind_elem(name, elem);
                }
                (GenericKind::Pack, Some(Choice::Rank(r))) => {
                    if *r > crate::instance::MAX_RANK {
                        let most = crate::instance::MAX_RANK;
                        let text = format!("a tensor of {r} axes; {most} are the most");
                        return self.fail(Diagnostic::error("E0313", g.name.span, text));
                    }
                    env.packs.insert(name, vec![Dim::int(2); *r]);
                }
                (GenericKind::DType, _) => {
                    open.extend(env.dtypes.get(&name).map(|d| (name, Choice::Elem(Sym::new(d.name())))))
                }
                (GenericKind::Pack, _) => {
                    open.push((name, Choice::Rank(env.packs.get(&name).map_or(0, Vec::len))))
                }
                (GenericKind::Dim, _) => {}
            }
        }
        let id = match def {
            Def::Fn(f, item) => self.entered_fn(f, item, env)?,
            Def::Prim(p) => {
                self.count_blocks(sig, &p.outs, &mut env);
                Instance::Prim(self.prim_instance(p, &env)?)
            }
            Def::Extern(_) => return None,
        };
        Some(EntryInstance { id, open })
    }

    fn entered_fn(&mut self, def: &'a FnDef, item: &'a Item, mut env: crate::env::Env) -> Option<Instance> {
        if crate::graph::is_template(&self.types, def) {
            return None;
        }
        self.count_blocks(&def.sig, &[], &mut env);
        let id = self.func_instance(def, item, &env, None)?;
        self.bodies();
        Some(Instance::Func(id))
    }

    /// What arguments tell of the generics in a parameter's type. `known` gives the generic of the definition that
    /// a name in the type is.
    fn infer_from_argument(
        &self,
        t: &TypeExpr,
        path: &str,
        known: &dyn Fn(Sym) -> Option<Sym>,
        request: &Request,
        out: &mut BTreeMap<Sym, Choice>,
    ) {
        match &t.kind {
            TypeKind::Tuple(parts) => {
                for (i, p) in parts.iter().enumerate() {
                    self.infer_from_argument(p, &format!("{path}.{i}"), known, request, out);
                }
            }
            TypeKind::Array(of, _) => self.infer_from_argument(of, path, known, request, out),
            TypeKind::Named { name, args, dims } => {
                if let Some(Named::Record(id)) = self.types.get(name.name)
                    && known(name.name).is_none()
                {
                    let def = self.types.record(id);
                    let inner = |n: Sym| {
                        let at = def.generics.iter().position(|g| g.name.name == n)?;
                        match &args.get(at)?.kind {
                            TypeKind::Named { name, .. } => known(name.name),
                            _ => None,
                        }
                    };
                    for f in &def.fields {
                        self.infer_from_argument(
                            &f.ty,
                            &format!("{path}.{}", f.name.name),
                            &inner,
                            request,
                            out,
                        );
                    }
                    return;
                }
                let Some((dtype, rank)) = request.args.get(path) else { return };
                if let (Some(g), Some(d)) = (known(name.name), dtype) {
                    out.entry(g).or_insert(Choice::Elem(*d));
                }
                let dims = dims.as_deref().unwrap_or(&[]);
                let packs: Vec<&IndexArg> =
                    dims.iter().filter(|d| matches!(d, IndexArg::Spread(_))).collect();
                if let ([IndexArg::Spread(e)], Some(rank)) = (packs.as_slice(), rank)
                    && let ir::ast::ExprKind::Name(n) = &e.kind
                    && let Some(g) = known(*n)
                    && let Some(many) = rank.checked_sub(dims.len() - 1)
                {
                    out.entry(g).or_insert(Choice::Rank(many));
                }
            }
            TypeKind::Fn(..) | TypeKind::Dim(_) | TypeKind::Exists(..) => {}
        }
    }
}
