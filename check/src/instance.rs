//! Monomorphization, templates made concrete: one instance for each choice of element types, ranks and attributes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use ir::ast::{
    Expr, FnDef, Generic, GenericKind, Ident, Item, Mode, Param, PrimDef, Signature, TypeExpr, TypeKind,
};
use ir::diag::{Diagnostic, Label};
use ir::graph::{Func, Type};
use ir::loops::Prim;
use ir::source::Span;
use ir::{ExternId, FuncId, PrimId};
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use crate::bind::{CLASSES, names_in};
use crate::conditions::condition_text;
use crate::defs::Def;
use crate::encoding::Layout;
use crate::env::{Const, Env};
use crate::graph::Value;
use crate::types::{Elem, EncodingId, Ty};
use crate::{Checker, Maybe};

/// The most axes that a tensor may have: what the machine's registers hold.
pub(crate) const MAX_RANK: usize = 8;

/// What tells one instance of a definition from another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    def: Span,
    elems: Vec<Elem>,
    ranks: Vec<usize>,
    consts: Vec<Const>,
}

/// The instances made so far; `None` where the body had errors (said once).
#[derive(Default)]
pub(crate) struct Instances<'a> {
    pub(crate) prims: HashMap<Key, Maybe<PrimId>>,
    pub(crate) funcs: HashMap<Key, Maybe<FuncId>>,
    /// The instances of each primitive, in the order in which they were made.
    made: HashMap<Span, Vec<(Key, PrimId)>>,
    /// What no instance is like, of so many.
    missed: HashMap<Key, usize>,
    pub(crate) externs: HashMap<Span, Maybe<ExternId>>,
    /// What a function gives, over its own dims.
    pub(crate) results: HashMap<FuncId, Rc<Ty>>,
    /// What a primitive gives, over its own dims.
    pub(crate) outs: HashMap<PrimId, Rc<Ty>>,
    pub(crate) layouts: HashMap<EncodingId, Maybe<Rc<Layout>>>,
    /// Primitives that no text has: those that decode, by rank, with the element type they give.
    pub(crate) decoders: HashMap<(EncodingId, usize), Maybe<PrimId>>,
    /// The element types of what is decoded.
    pub(crate) decoded: HashMap<EncodingId, Maybe<DType>>,
    /// Those that stack, by how many, of what type and rank.
    pub(crate) stacks: HashMap<(usize, DType, usize), PrimId>,
    /// The names of functions in use.
    names: HashSet<String>,
    /// The names of primitives in use, with how many instances of that name there were.
    prim_names: HashMap<String, usize>,
    /// How many each definition has.
    counts: HashMap<Span, usize>,
    /// The call that asked for the body being checked.
    asked: Option<Span>,
    /// Functions whose heads are done and whose bodies are not.
    pending: VecDeque<Pending<'a>>,
}

/// A function whose callers know its head, and whose body is still to be checked.
struct Pending<'a> {
    id: FuncId,
    def: &'a FnDef,
    head: Head,
    env: Env,
    /// The call that asked for it, in the file of the first that did.
    call: Option<Span>,
}

/// Instances that one definition may have. A library's operator over all types, ranks and axes has a few
/// hundred; one that calls itself with ever new attributes would go on for ever.
const MAX_INSTANCES: usize = 1024;

impl Instances<'_> {
    /// The instances of a primitive so far.
    pub(crate) fn prims_of(&self, sig: &Signature) -> &[(Key, PrimId)] {
        self.made.get(&sig.name.span).map_or(&[], Vec::as_slice)
    }

    /// A name like `base` that no other primitive has.
    fn prim_name(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let mut n = self.prim_names.get(base).copied().unwrap_or(0);
        while self.prim_names.contains_key(&name) {
            n += 1;
            name = format!("{base}_{}", n + 1);
        }
        self.prim_names.insert(base.to_owned(), n);
        self.prim_names.entry(name.clone()).or_default();
        name
    }
}

/// A function without its body.
pub(crate) struct Head {
    pub(crate) func: Func,
    /// The parameters by name, as trees of those of `func`.
    pub(crate) names: Vec<(Sym, Value)>,
    /// What it gives.
    pub(crate) result: Maybe<Rc<Ty>>,
}

impl Key {
    /// The instance that a binding of the generics asks for.
    pub(crate) fn new(sig: &Signature, bound: &Env) -> Key {
        let mut key = Key { def: sig.name.span, elems: vec![], ranks: vec![], consts: vec![] };
        for g in &sig.generics {
            match g.kind {
                GenericKind::Dim => {}
                GenericKind::Pack => key.ranks.push(bound.packs.get(&g.name.name).map_or(0, Vec::len)),
                GenericKind::DType => key.elems.extend(bound.bound_elem(g.name.name)),
            }
        }
        for p in sig.params.iter().filter(|p| p.mode == Mode::Const) {
            key.consts.extend(bound.consts.get(&p.name.name).cloned());
        }
        key
    }

    /// The ranks of its packs.
    pub(crate) fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// The attributes.
    pub(crate) fn consts(&self) -> &[Const] {
        &self.consts
    }

    /// True where there was no choice: the definition has one instance.
    pub(crate) fn is_plain(&self) -> bool {
        self.elems.is_empty() && self.ranks.is_empty() && self.consts.is_empty()
    }
}

/// The dims of a binding in the order of the instance's own: packs in place, spread.
pub(crate) fn dims_of(sig: &Signature, bound: &Env) -> Vec<Dim> {
    let mut dims = Vec::new();
    for g in &sig.generics {
        match g.kind {
            GenericKind::Dim => {
                let d = bound.dims.get(&g.name.name).cloned();
                dims.extend(d.map(|d| match bound.blocks.get(&g.name.name) {
                    Some(n) => d.floor_div(&Dim::int(*n)),
                    None => d,
                }));
            }
            GenericKind::Pack => dims.extend(bound.packs.get(&g.name.name).into_iter().flatten().cloned()),
            GenericKind::DType => {}
        }
    }
    dims
}

impl<'a> Checker<'a> {
    /// The generics of an instance, as seen from inside: each dim is a symbol of its own.
    pub(crate) fn inside(&mut self, sig: &'a Signature, bound: &Env) -> (Env, Vec<Sym>) {
        let mut env = Env {
            dtypes: bound.dtypes.clone(),
            encodings: bound.encodings.clone(),
            consts: bound.consts.clone(),
            ..self.env()
        };
        let taken: Vec<&str> = sig.generics.iter().map(|g| g.name.name.name()).collect();
        let mut syms = Vec::new();
        for g in &sig.generics {
            match g.kind {
                GenericKind::Dim => match bound.blocks.get(&g.name.name) {
                    Some(n) => {
                        // Who knows a config's value knows that of its blocks.
                        let name = g.name.name;
                        let blocks = Sym::new(&match crate::config::is_config(g) {
                            true => ir::blocks_of(name.name(), *n),
                            false => format!("{name}.blocks"),
                        });
                        syms.push(blocks);
                        env.dims.insert(g.name.name, Dim::int(*n) * Dim::sym(blocks));
                    }
                    None => {
                        syms.push(g.name.name);
                        env.dims.insert(g.name.name, Dim::sym(g.name.name));
                    }
                },
                GenericKind::Pack => {
                    let rank = bound.packs.get(&g.name.name).map_or(0, Vec::len);
                    let name = |k: usize| {
                        let mut name = format!("{}{k}", g.name.name);
                        while taken.contains(&name.as_str()) {
                            name.push('_');
                        }
                        Sym::new(&name)
                    };
                    let own: Vec<Sym> = (0..rank).map(name).collect();
                    env.packs.insert(g.name.name, own.iter().map(|&s| Dim::sym(s)).collect());
                    syms.extend(own);
                }
                GenericKind::DType => {}
            }
        }
        syms.iter().for_each(|&s| env.facts.assume_dim(s));
        for p in self.wheres(sig, &env) {
            env.facts.assume(p);
        }
        if env.facts.is_contradictory() {
            let span = sig.wheres.last().map_or(sig.name.span, |e| e.span);
            let shown: Vec<String> = env.facts.iter().map(Pred::to_string).collect();
            let d = Diagnostic::error("E0320", span, "no dims satisfy these conditions");
            self.report(
                d.label(sig.name.span, "this can never be called")
                    .note(format!("known: {}", shown.join(", "))),
            );
        }
        (env, syms)
    }

    /// Notes which dims of an instance are counted in blocks.
    pub(crate) fn count_blocks(&mut self, sig: &Signature, outs: &[Param], bound: &mut Env) {
        // Only a name of a type that is no number can be, or hold, an encoded tensor.
        let params = || sig.params.iter().filter(|p| p.mode != Mode::Const).chain(outs);
        let holds = |p: &Param| p.ty.as_ref().is_some_and(|t| self.may_be_encoded(bound, t));
        if !params().any(holds) {
            return;
        }
        let mut env = Env { globals: Rc::clone(&bound.globals), ..bound.clone() };
        for g in &sig.generics {
            if g.kind == GenericKind::Dim {
                env.dims.insert(g.name.name, Dim::sym(g.name.name));
            }
        }
        let mut types = Vec::new();
        for p in params() {
            if let Some(t) = &p.ty
                && self.may_be_encoded(&env, t)
            {
                types.extend(self.ty(&env, t));
            }
        }
        bound.blocks = self.blocked(&types);
        bound.blocks.retain(|s, _| sig.generics.iter().any(|g| g.name.name == *s));
    }

    /// The conditions of a `where`, in terms of an environment.
    pub(crate) fn wheres(&mut self, sig: &Signature, env: &Env) -> Vec<Pred> {
        sig.wheres.iter().filter_map(|e| self.clause(sig, e, env, None)).flatten().collect()
    }

    /// What a clause of a `where` comes to, of a signature or at a call of it.
    pub(crate) fn clause(
        &mut self,
        sig: &Signature,
        e: &Expr,
        env: &Env,
        call: Option<Span>,
    ) -> Maybe<Vec<Pred>> {
        let mut preds = Vec::new();
        let Err(mut d) = env.preds(e, &mut preds) else { return Some(preds) };
        if let Some(p) = sig.params.iter().find(|p| d.code == "E0201" && names_in(e).contains(&p.name.name)) {
            d.message = format!("`{}` is a value, and a `where` speaks of dims", p.name.name);
            d.labels.push(Label { span: p.span, text: "the parameter".to_owned() });
            d.help = Some("check values while running: `assert` in the body".to_owned());
        }
        match d.code {
            "E0308" => {
                let said = self.broken(sig, e, env, call.unwrap_or(e.span));
                (d.message, d.labels) = (said.message, said.labels);
            }
            "E0302" => d.message = format!("{}: {}: {}", sig.name.name, d.message, env.described(e)),
            "E0310" if let Some(call) = call => {
                let text = format!(
                    "{}: in `{}` {}: {}",
                    sig.name.name,
                    condition_text(e),
                    d.message,
                    env.described(e)
                );
                let at = d.span();
                *d = Diagnostic::error("E0310", call, text);
                if !self.defs.in_library(at) {
                    *d = d.label(at, "here");
                }
            }
            _ => {}
        }
        self.fail(*d)
    }

    /// A clause of a `where` that does not hold. One of the library is said in full and not shown.
    pub(crate) fn broken(&self, sig: &Signature, e: &Expr, env: &Env, at: Span) -> Diagnostic {
        let d = env.broken(sig.name.name.name(), e, at);
        let shown = at != e.span && !self.defs.in_library(e.span);
        if shown { d.label(e.span, "required here") } else { d }
    }

    /// Says what is wrong with a signature itself: names given twice.
    pub(crate) fn signature(&mut self, sig: &'a Signature) {
        self.distinct(sig.generics.iter().map(|g| g.name).chain(sig.params.iter().map(|p| p.name)));
        self.bounds_of_generics(&sig.generics);
        self.own_defaults(sig);
    }

    /// Says which generics have bounds that there are not, or the name of something else.
    pub(crate) fn bounds_of_generics(&mut self, generics: &[Generic]) {
        for g in generics.iter().filter(|g| !crate::config::is_config(g)) {
            if g.name.name.name().parse::<DType>().is_ok() {
                let text = format!("`{}` is an element type, and no name for a generic", g.name.name);
                self.report(Diagnostic::error("E0202", g.name.span, text));
            }
            if let (GenericKind::Dim | GenericKind::Pack, Some(first)) = (g.kind, g.bounds.first()) {
                let text = format!("`{}` is a dim, and a bound is of an element type", g.name.name);
                let d = Diagnostic::error("E0204", first.span, text);
                self.report(d.help("what holds of a dim stands in a `where`"));
                continue;
            }
            for b in &g.bounds {
                let known = || CLASSES.into_iter().chain(DType::all().map(DType::name));
                let name = b.name.name();
                if !known().any(|k| k == name) {
                    let d = Diagnostic::error("E0306", b.span, format!("unknown type `{name}`"));
                    self.report(match ir::diag::nearest(name, known()) {
                        Some(near) => d.help(format!("did you mean `{near}`?")),
                        None => {
                            d.help(format!("a bound is an element type, or one of {}", CLASSES.join(", ")))
                        }
                    });
                }
            }
        }
    }

    /// Says which defaults are not of the type of their parameter, whether or not a call leaves the argument out.
    fn own_defaults(&mut self, sig: &'a Signature) {
        if sig.params.iter().all(|p| p.default.is_none()) {
            return;
        }
        let Some(env) = self.sample_env(sig) else { return };
        for p in &sig.params {
            let (Some(e), Some(TypeKind::Named { name, dims: None, .. })) =
                (&p.default, p.ty.as_ref().map(|t| &t.kind))
            else {
                continue;
            };
            let declared = name.name.name();
            let element: Option<DType> = declared.parse().ok();
            // One that speaks of what only a call tells is looked at there.
            let Ok(value) = env.constant(e) else { continue };
            if (p.mode == Mode::Const || element.is_some()) && value.clone().fit(declared).is_none() {
                let d = crate::bind::misfit(sig, p, declared, &value, e.span);
                self.report(d);
            }
        }
    }

    /// Says which of the names that one place gives a meaning it gives two; `_` is none.
    pub(crate) fn distinct(&mut self, names: impl Iterator<Item = Ident>) {
        let mut seen: HashMap<Sym, Span> = HashMap::new();
        for name in names.filter(|n| n.name.name() != "_") {
            if let Some(first) = seen.insert(name.name, name.span) {
                let d = Diagnostic::error("E0202", name.span, format!("`{}` is given twice", name.name));
                self.report(d.label(first, "first here"));
            }
        }
    }

    /// True if the names of outputs are right; says what is wrong with them: two of one name, or one of an input that
    /// is not updated in place.
    pub(crate) fn outputs(&mut self, sig: &Signature, outs: &[Param]) -> bool {
        let said = self.diagnostics.len();
        let mut seen: HashMap<Sym, Span> = HashMap::new();
        for name in outs.iter().map(|p| p.name) {
            if let Some(first) = seen.insert(name.name, name.span) {
                let text = format!("the output `{}` is named twice", name.name);
                self.report(Diagnostic::error("E0202", name.span, text).label(first, "first here"));
                continue;
            }
            let taken = sig.generics.iter().map(|g| g.name);
            let params = sig.params.iter().filter(|p| p.mode != Mode::Own).map(|p| p.name);
            if let Some(other) = taken.chain(params).find(|n| n.name == name.name) {
                let text = format!("the output `{}` has the name of another", name.name);
                let d = Diagnostic::error("E0202", name.span, text).label(other.span, "this one");
                self.report(
                    d.help(format!("rename it, or declare `own {}` to update it in place", name.name)),
                );
            }
        }
        self.diagnostics.len() == said
    }

    /// The type of a tensor parameter or result as written, in terms of an environment.
    pub(crate) fn tensor_type(&mut self, env: &Env, ty: &TypeExpr) -> Maybe<Type> {
        let TypeKind::Named { name, args, dims } = &ty.kind else {
            return match self.ty(env, ty)? {
                Ty::Tensor(t) => Some(t),
                other => {
                    let text = format!("a tensor is needed here, and `{other}` is {}", other.kind());
                    self.fail(Diagnostic::error("E0306", ty.span, text))
                }
            };
        };
        let dtype = match env.element(name.name, args) {
            Some(d) => d,
            None => {
                if env.dtype(name.name).is_some() {
                    let text = format!("`{}` is an element type, and takes no generics", name.name);
                    return self.fail(Diagnostic::error("E0306", ty.span, text));
                }
                if self.types.get(name.name).is_some() {
                    let what = self.ty(env, ty)?;
                    let text = format!("a tensor of numbers is needed here, and `{what}` is {}", what.kind());
                    return self.fail(Diagnostic::error("E0306", ty.span, text));
                }
                if self.defs.is_missing(name.name, name.span) {
                    return None;
                }
                let mut names: Vec<&str> = DType::all().map(DType::name).collect();
                names.extend(self.types.names());
                let near = env.dtypes.keys().map(|s| s.name()).chain(names.iter().copied());
                let d = Diagnostic::error("E0306", name.span, format!("unknown type `{}`", name.name));
                if let Some(hint) = ir::diag::elsewhere(name.name.name()) {
                    return self.fail(d.help(hint));
                }
                return match ir::diag::nearest(name.name.name(), near) {
                    Some(guess) => self.fail(d.help(format!("did you mean `{guess}`?"))),
                    None => {
                        let names: Vec<&str> = DType::all().map(DType::name).collect();
                        self.fail(d.help(format!("the element types are {}", names.join(", "))))
                    }
                };
            }
        };
        match env.dims(dims.as_deref().unwrap_or(&[])) {
            Ok(shape) if shape.iter().any(|d| d.as_int().is_some_and(|i| i < 0)) => {
                let d = Diagnostic::error("E0310", ty.span, "an extent is negative");
                let shape: Vec<String> = shape.iter().map(Dim::to_string).collect();
                self.fail(d.here(format!("this is [{}]", shape.join(", "))))
            }
            Ok(shape) if shape.len() > MAX_RANK => {
                let text = format!("a tensor of {} axes; {MAX_RANK} are the most", shape.len());
                let d = Diagnostic::error("E0313", ty.span, text);
                self.fail(d.help("join axes, or give the tensor in parts"))
            }
            Ok(shape) => Some(Type { dtype, shape }),
            Err(d) => self.fail(*d),
        }
    }

    /// The type of a parameter that is a tensor.
    pub(crate) fn param_type(&mut self, env: &Env, p: &Param) -> Maybe<Type> {
        match &p.ty {
            Some(ty) => self.tensor_type(env, ty),
            None => self.fail(Diagnostic::error("E0306", p.span, format!("`{}` needs a type", p.name.name))),
        }
    }

    /// The type of a parameter.
    pub(crate) fn param_ty(&mut self, env: &Env, p: &Param) -> Maybe<Ty> {
        match &p.ty {
            Some(t) => {
                let ty = self.ty(env, t)?;
                if ty.has_function() {
                    let text =
                        format!("`{}` holds functions, and a primitive computes with numbers", p.name.name);
                    let d = Diagnostic::error("E0306", t.span, text);
                    return self.fail(d.help("give it the fields that are tensors, or make it a `fn`"));
                }
                Some(ty)
            }
            None => self.fail(Diagnostic::error("E0306", p.span, format!("`{}` needs a type", p.name.name))),
        }
    }

    /// The instance of a primitive that a binding asks for.
    pub(crate) fn prim_instance(&mut self, def: &'a PrimDef, bound: &Env) -> Maybe<PrimId> {
        let key = Key::new(&def.sig, bound);
        if let Some(known) = self.instances.prims.get(&key) {
            return *known;
        }
        if self.only_known {
            return self.alike(def, bound, key);
        }
        self.instances.prims.insert(key.clone(), None);
        // What is wrong with it, whatever it is called with, was said.
        if self.unsound.contains(&def.sig.name.span) {
            return None;
        }
        let errors = self.diagnostics.len();
        let prim = self.prim_body(def, bound);
        let name = self.instance_name(def.sig.name);
        let id = (self.diagnostics.len() == errors).then_some(prim).flatten().map(|(mut p, ty)| {
            p.name = name;
            let id = self.add_prim(p);
            self.instances.outs.insert(id, Rc::new(ty));
            self.instances.made.entry(key.def).or_default().push((key.clone(), id));
            id
        });
        self.instances.prims.insert(key, id);
        id
    }

    /// An instance with the loops that are asked for: attributes said in two ways, `axis=-1` and `axis=1`, come to the
    /// same.
    fn alike(&mut self, def: &'a PrimDef, bound: &Env, key: Key) -> Maybe<PrimId> {
        let made = self.instances.prims_of(&def.sig);
        let near = |k: &Key| k.elems == key.elems && k.ranks == key.ranks && !k.consts.is_empty();
        let near: Vec<PrimId> = made.iter().filter(|(k, _)| near(k)).map(|(_, id)| *id).collect();
        if near.is_empty() || self.instances.missed.get(&key) == Some(&near.len()) {
            return None;
        }
        let wanted = self.prim_body(def, bound).map(|(p, _)| p);
        let found = wanted.and_then(|mut w| {
            near.iter().copied().find(|id| {
                let made = self.module.prim(*id);
                w.name.clone_from(&made.name);
                w.invariant = made.invariant;
                w == *made
            })
        });
        match found {
            Some(_) => drop(self.instances.prims.insert(key, found)),
            None => drop(self.instances.missed.insert(key, near.len())),
        }
        found
    }

    /// Says of what is wrong with an instance in the caller's own file which call made it, where it may be right for
    /// others: with element types, ranks or attributes that it was not tried with.
    pub(crate) fn made_by(&mut self, said: usize, sig: &Signature, env: &Env, call: Span) {
        let mut made: Vec<String> = Vec::new();
        for g in &sig.generics {
            let name = g.name.name;
            match (g.kind, env.dtypes.get(&name), env.packs.get(&name)) {
                (GenericKind::DType, Some(&d), _) if usual_type(g) != Some(d) => {
                    made.push(format!("`{name}` is {d}"))
                }
                (GenericKind::Pack, _, Some(dims)) if dims.len() != USUAL_SHAPE.len() => {
                    made.push(format!("`{name}` has {}", ir::diag::count_of(dims.len(), "axis", "axes")));
                }
                _ => {}
            }
        }
        let attributes = sig.params.iter().filter(|p| p.mode == Mode::Const);
        made.extend(attributes.filter_map(|p| {
            let value = env.consts.get(&p.name.name)?;
            Some(format!("`{}` is {}", p.name.name, value.shown()))
        }));
        if made.is_empty() {
            return;
        }
        for d in &mut self.diagnostics[said..] {
            let elsewhere = d.labels.iter().all(|l| l.span != call);
            if d.span().file == call.file && elsewhere {
                let text = format!("in this call {}", made.join(", "));
                d.labels.push(ir::diag::Label { span: call, text });
            }
        }
    }

    /// Enters a primitive under a name that no other has.
    pub(crate) fn add_prim(&mut self, mut prim: Prim) -> PrimId {
        prim.name = self.instances.prim_name(&prim.name);
        self.module.prims.push(prim);
        PrimId(self.module.prims.len() as u32 - 1)
    }

    /// The instance of a function that a binding asks for. Callers need its head alone; its body is checked
    /// when the one that asks is done ([`Checker::bodies`]), so that a function may call itself, and
    /// thousands each other.
    pub(crate) fn func_instance(
        &mut self,
        def: &'a FnDef,
        item: &'a Item,
        bound: &Env,
        call: Option<Span>,
    ) -> Maybe<FuncId> {
        let key = Key::new(&def.sig, bound);
        if let Some(known) = self.instances.funcs.get(&key) {
            return *known;
        }
        if self.only_known {
            return None;
        }
        let plain = key.is_plain();
        self.count(&def.sig, call)?;
        self.instances.funcs.insert(key.clone(), None);
        // What is wrong with it, whatever it is called with, was said.
        if self.unsound.contains(&def.sig.name.span) {
            return None;
        }
        let (env, dims) = self.inside(&def.sig, bound);
        let mut head = self.func_head(def, item, &env, dims)?;
        let id = FuncId(self.module.funcs.len() as u32);
        // The first instance of a function of the program has its name, by which it is entered.
        let named = plain || !self.defs.is_library(Def::Fn(def, item));
        head.func.name = self.instance_name(def.sig.name);
        if !named || !self.instances.names.insert(head.func.name.clone()) {
            head.func.name = format!("{}_{}", head.func.name, id.0);
            self.instances.names.insert(head.func.name.clone());
        }
        self.module.funcs.push(head.func.clone());
        self.instances.funcs.insert(key, Some(id));
        if let Some(result) = &head.result {
            self.instances.results.insert(id, Rc::clone(result));
        }
        let call = self.instances.asked.or(call);
        self.instances.pending.push_back(Pending { id, def, head, env, call });
        Some(id)
    }

    /// Counts one more instance of a definition.
    fn count(&mut self, sig: &Signature, call: Option<Span>) -> Maybe<()> {
        let count = self.instances.counts.entry(sig.name.span).or_default();
        *count += 1;
        if *count <= MAX_INSTANCES {
            return Some(());
        }
        let name = sig.name.name;
        let text = format!(
            "`{name}` is asked for with more than {MAX_INSTANCES} choices of attributes, types or ranks"
        );
        let d = Diagnostic::error("E0314", call.unwrap_or(sig.name.span), text);
        self.fail(d.label(sig.name.span, "each choice is an instance of this").help(
            "a function that calls itself with another attribute each time has no end; give a dim or a scalar instead",
        ))
    }

    /// Checks the bodies that are still to be checked, and those that they ask for.
    pub(crate) fn bodies(&mut self) {
        while let Some(Pending { id, def, head, env, call }) = self.instances.pending.pop_front() {
            let said = self.diagnostics.len();
            let env_of = env.clone();
            // A call in the same file is followed no further: the fault is there for all to see.
            self.instances.asked = call.filter(|c| c.file != def.sig.name.span.file);
            match self.func_body(def, head, env) {
                Some(done) => self.module.funcs[id.0 as usize] = done,
                None => self.lost = self.lost.or(Some(def.sig.name.span)),
            }
            if let Some(call) = self.instances.asked.take() {
                self.blame(said, call);
            } else if let Some(call) = call {
                self.made_by(said, &def.sig, &env_of, call);
            }
        }
    }

    /// A parameter as a value of the tensors that it is, which the function is given.
    pub(crate) fn parameter(&mut self, func: &mut Func, env: &Env, p: &Param) -> Maybe<Value> {
        let ty = self.param_ty(env, p)?;
        let mut leaves = Vec::new();
        for leaf in ty.leaves(p.name.name.name()) {
            let name = Sym::new(&leaf.path);
            let val = func.add_val(name, leaf.ty);
            func.body.params.push(val);
            func.params.push(ir::graph::Param { name, own: p.mode == Mode::Own, from: leaf.from });
            leaves.push(val);
        }
        Some(Value::from_leaves(&ty, &leaves))
    }

    /// Name, dims, parameters and results of a function: what its callers see.
    fn func_head(&mut self, def: &'a FnDef, item: &'a Item, env: &Env, dims: Vec<Sym>) -> Maybe<Head> {
        let mut func = Func {
            dims,
            facts: env.facts.clone(),
            requires: self.wheres(&def.sig, env),
            plan: item.attrs.iter().any(|a| a.name.name.name() == "plan"),
            pins: crate::pins::from_attributes(item),
            invariant: crate::invariant::from_attributes(item),
            tolerance: crate::tolerance::of_function(item),
            pipeline: self.pipeline_of(item),
            ..Func::named(def.sig.name.name.name(), def.sig.name.span)
        };
        let mut names = Vec::new();
        for p in def.sig.params.iter().filter(|p| p.mode != Mode::Const) {
            names.push((p.name.name, self.parameter(&mut func, env, p)?));
        }
        let mut result = None;
        if let Some(ret) = &def.ret {
            let mut env = env.clone();
            let ret = self.opened(&def.sig, ret, &mut env, &mut func);
            let ty = self.ty(&env, ret)?;
            // The parts of a record have names; those of a tuple go by their place, beside a record by their place in
            // the tuple that was written.
            let is_name = |n: &str| n.parse::<usize>().is_err() && !n.is_empty();
            let leaves = ty.leaves("");
            let named = leaves.iter().any(|leaf| leaf.path.split('.').any(is_name));
            for leaf in leaves {
                func.results.push(named.then(|| Sym::new(&leaf.path)));
                func.result_types.push(leaf.ty);
            }
            result = Some(Rc::new(ty));
        }
        Some(Head { func, names, result })
    }
}

/// What a pack stands for in a template that is checked alone.
pub(crate) const USUAL_SHAPE: [i64; 2] = [2, 3];

/// What a generic element type stands for in a template that is checked alone: `f32`, or the first that it may be.
pub(crate) fn usual_type(g: &Generic) -> Option<DType> {
    std::iter::once(DType::F32).chain(DType::all()).find(|&d| crate::bind::allows(g, d))
}
