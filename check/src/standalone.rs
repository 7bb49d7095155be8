//! Templates checked standalone, whether or not anything instantiates them.
//!
//! One that is generic over dims, packs and element types alone has an instance with the usual ones, which stays in the
//! module. One that takes attributes, functions or values of any kind is only *tried*, in a module that is forgotten:
//! with [`Checker::stand_in`]s for its arguments, of a function one of its type, and with attributes that satisfy its
//! conditions. What depends on an attribute, a rank or an element type is wrong for some and right for others, and is
//! said where they are chosen; so of several choices tried, that is said which all have in common, and what no choice
//! can change: names, numbers of arguments, ownership. What a definition is guilty of is said once, and its instances
//! say no more.
//!
//! A value of any kind (`S: value`) is not known here: what is done with it is checked where the kind is. Nothing is
//! tried where no attributes are found that the conditions allow.

use ir::ast::{FnDef, GenericKind, Item, Mode, Param, PrimDef, Signature, TypeKind};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::conditions::texts_in;
use crate::env::{Const, Env};
use crate::graph::{is_template, is_value_generic};
use crate::instance::{USUAL_SHAPE, usual_type};
use crate::{Checker, Maybe};

/// How many choices of attributes, ranks and element types are tried.
const CHOICES: usize = 8;
/// How many are looked at for some that the conditions allow.
const LOOKED_AT: usize = 4096;

/// Faults that no attribute, rank or element type mends: names, numbers of arguments, ownership.
const WHATEVER: [&str; 8] = ["E0201", "E0202", "E0304", "E0305", "E0306", "E0404", "E0501", "E0502"];

impl<'a> Checker<'a> {
    /// Generics to check an unused template with: `f32`, or the first type allowed, and rank 2.
    pub(crate) fn sample_env(&mut self, sig: &'a Signature) -> Maybe<Env> {
        let mut env = self.env();
        for g in &sig.generics {
            match g.kind {
                GenericKind::Dim => {
                    env.dims.insert(g.name.name, Dim::sym(g.name.name));
                }
                GenericKind::Pack => {
                    env.packs.insert(g.name.name, USUAL_SHAPE.map(Dim::int).to_vec());
                }
                GenericKind::DType if is_value_generic(g) => {}
                GenericKind::DType => {
                    env.dtypes.insert(g.name.name, usual_type(g)?);
                }
            }
        }
        Some(env)
    }

    /// A function that is generic over dims, packs and element types at most.
    pub(crate) fn instantiate_sample_fn(&mut self, def: &'a FnDef, item: &'a Item) {
        if self.is_tried(def) {
            return;
        }
        self.signature(&def.sig);
        if let Some(mut env) = self.sample_env(&def.sig) {
            self.count_blocks(&def.sig, &[], &mut env);
            self.func_instance(def, item, &env, None);
            self.bodies();
        }
    }

    /// A primitive without attributes.
    pub(crate) fn instantiate_sample_prim(&mut self, def: &'a PrimDef) {
        if takes_attributes(&def.sig) || !self.outputs(&def.sig, &def.outs) {
            return;
        }
        self.signature(&def.sig);
        if let Some(mut env) = self.sample_env(&def.sig) {
            self.count_blocks(&def.sig, &def.outs, &mut env);
            self.prim_instance(def, &env);
        }
    }

    fn is_tried(&self, def: &FnDef) -> bool {
        takes_attributes(&def.sig) || is_template(&self.types, def)
    }

    /// A function that takes attributes, functions or values of any kind.
    pub(crate) fn try_fn(&mut self, def: &'a FnDef, item: &'a Item) {
        if !self.is_tried(def) {
            return;
        }
        self.signature(&def.sig);
        let whole = def.sig.name.span.to(def.body.span);
        self.tries(&def.sig, whole, |c, mut env| {
            if is_template(&c.types, def) {
                c.template_alone(def, &env);
            } else {
                c.count_blocks(&def.sig, &[], &mut env);
                c.func_instance(def, item, &env, None);
            }
            c.bodies();
        });
    }

    /// A primitive that takes attributes.
    pub(crate) fn try_prim(&mut self, def: &'a PrimDef) {
        if !takes_attributes(&def.sig) || !self.outputs(&def.sig, &def.outs) {
            return;
        }
        self.signature(&def.sig);
        let whole = def.sig.name.span.to(def.body.span);
        self.tries(&def.sig, whole, |c, mut env| {
            c.count_blocks(&def.sig, &def.outs, &mut env);
            c.prim_instance(def, &env);
        });
    }

    /// Checks a definition with several choices, and says what is wrong with it whatever is chosen.
    fn tries(&mut self, sig: &'a Signature, whole: Span, mut check: impl FnMut(&mut Self, Env)) {
        let mut found: Vec<Vec<Diagnostic>> = Vec::new();
        for env in self.made_up(sig) {
            let faults = self.in_a_trial(|c| check(c, env));
            // What is wrong with another definition is its own business.
            let ours = |at: Span| at.file == whole.file && whole.lo <= at.lo && at.hi <= whole.hi;
            found.push(faults.into_iter().filter(|d| d.labels.iter().any(|l| ours(l.span))).collect());
        }
        let has = |list: &[Diagnostic], d: &Diagnostic| {
            list.iter().any(|x| x.code == d.code && x.span() == d.span() && x.message == d.message)
        };
        // A text that no condition lists is a guess.
        let is_text = |p: &Param| match p.ty.as_ref().map(|t| &t.kind) {
            Some(TypeKind::Named { name, .. }) => name.name.name() == "text",
            _ => false,
        };
        let guessed = sig.params.iter().any(|p| p.mode == Mode::Const && is_text(p));
        let whatever = |d: &Diagnostic| WHATEVER.contains(&d.code);
        // What no choice mends may follow from what this one does not mend.
        let certain = |list: &[Diagnostic], d: &Diagnostic| {
            list.iter().all(whatever) || ((whatever(d) || !guessed) && found.iter().all(|list| has(list, d)))
        };
        let mut said: Vec<&Diagnostic> = Vec::new();
        for (d, _) in found
            .iter()
            .flat_map(|list| list.iter().map(move |d| (d, list)))
            .filter(|(d, list)| certain(list, d))
        {
            if !said.iter().any(|x| x.code == d.code && x.span() == d.span() && x.message == d.message) {
                said.push(d);
            }
        }
        if said.iter().any(|d| d.severity == ir::diag::Severity::Error) {
            self.unsound.insert(sig.name.span);
        }
        said.into_iter().cloned().for_each(|d| self.report(d));
    }

    /// Does something in a module of its own, and gives what it says.
    fn in_a_trial(&mut self, inside: impl FnOnce(&mut Self)) -> Vec<Diagnostic> {
        let (module, instances) = std::mem::take(&mut self.trial);
        let module = std::mem::replace(&mut self.module, module);
        let instances = std::mem::replace(&mut self.instances, instances);
        let diagnostics = std::mem::take(&mut self.diagnostics);
        let said = std::mem::take(&mut self.reported);
        let lost = self.lost;
        inside(self);
        self.lost = lost;
        self.reported = said;
        let faults = std::mem::replace(&mut self.diagnostics, diagnostics);
        let instances = std::mem::replace(&mut self.instances, instances);
        let module = std::mem::replace(&mut self.module, module);
        // An instance with a fault is silent when it is asked for again.
        if faults.is_empty() {
            self.trial = (module, instances);
        }
        faults
    }

    /// Generics and attributes that the conditions of a definition allow: one choice, and some that differ from it in
    /// one.
    pub(crate) fn made_up(&mut self, sig: &'a Signature) -> Vec<Env> {
        let Some(env) = self.sample_env(sig) else { return vec![] };
        let texts: Vec<&str> = sig.wheres.iter().flat_map(texts_in).collect();
        let attributes: Vec<&Param> = sig.params.iter().filter(|p| p.mode == Mode::Const).collect();
        let packs: Vec<Sym> =
            sig.generics.iter().filter(|g| g.kind == GenericKind::Pack).map(|g| g.name.name).collect();
        // By place: the attributes, then the rank of the packs, then each element type.
        let mut lists: Vec<Vec<Choice>> = Vec::new();
        for p in &attributes {
            lists.push(
                candidates(p, &env, &texts).into_iter().map(|c| Choice::Attribute(p.name.name, c)).collect(),
            );
        }
        if !packs.is_empty() {
            lists.push([2, 1, 3, 0, 4].map(Choice::Rank).to_vec());
        }
        for g in sig.generics.iter().filter(|g| g.kind == GenericKind::DType && !is_value_generic(g)) {
            let usual = env.dtypes.get(&g.name.name).copied();
            let others = [DType::F32, DType::I64, DType::Bool].into_iter();
            let types =
                usual.into_iter().chain(others.filter(|d| Some(*d) != usual && crate::bind::allows(g, *d)));
            lists.push(types.map(|d| Choice::Type(g.name.name, d)).collect());
        }
        if lists.iter().any(Vec::is_empty) {
            return vec![];
        }
        let made = |at: &[usize]| {
            let mut env = env.clone();
            for (list, i) in lists.iter().zip(at) {
                match &list[*i] {
                    Choice::Attribute(name, value) => {
                        env.consts.insert(*name, value.clone());
                    }
                    Choice::Rank(rank) => {
                        for p in &packs {
                            let dims = (0..*rank).map(|k| Dim::sym(Sym::new(&format!("{p}{k}"))));
                            env.packs.insert(*p, dims.collect());
                        }
                    }
                    Choice::Type(name, d) => {
                        env.dtypes.insert(*name, *d);
                    }
                }
            }
            allowed(sig, &env).then_some(env)
        };
        let mut at = vec![0; lists.len()];
        let mut first = None;
        for _ in 0..LOOKED_AT {
            first = made(&at);
            if first.is_some() {
                break;
            }
            let Some(k) = (0..at.len()).rev().find(|&k| at[k] + 1 < lists[k].len()) else { break };
            at[k] += 1;
            at[k + 1..].fill(0);
        }
        let Some(first) = first else { return vec![] };
        let mut all = vec![first];
        // One thing differs at a time, each thing in turn.
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        for i in 0..longest {
            for k in (0..lists.len()).filter(|&k| i < lists[k].len() && i != at[k]) {
                let mut other = at.clone();
                other[k] = i;
                if all.len() < CHOICES {
                    all.extend(made(&other));
                }
            }
        }
        all
    }
}

/// One thing that a caller chooses.
#[derive(Clone)]
enum Choice {
    Attribute(Sym, Const),
    Rank(usize),
    Type(Sym, DType),
}

fn takes_attributes(sig: &Signature) -> bool {
    sig.params.iter().any(|p| p.mode == Mode::Const)
}

/// True where no condition is known not to hold.
fn allowed(sig: &Signature, env: &Env) -> bool {
    let mut preds = Vec::new();
    let mut facts = shape::Facts::default();
    env.dims
        .values()
        .chain(env.packs.values().flatten())
        .filter_map(Dim::as_sym)
        .for_each(|s| facts.assume_dim(s));
    for e in &sig.wheres {
        if env.preds(e, &mut preds).is_err() {
            return false;
        }
    }
    for p in preds {
        if let shape::Verdict::Refuted = facts.prove(&p) {
            return false;
        }
        facts.assume(p);
    }
    !facts.is_contradictory()
}

/// Values that an attribute may have, its default first.
fn candidates(p: &Param, env: &Env, texts: &[&str]) -> Vec<Const> {
    let Some(TypeKind::Named { name, .. }) = p.ty.as_ref().map(|t| &t.kind) else { return vec![] };
    let declared = name.name.name();
    let mut all: Vec<Const> = Vec::new();
    let given = p.default.as_ref().and_then(|e| env.constant(e).ok());
    all.extend(given.and_then(|c| c.fit(declared)));
    let element: Option<DType> = declared.parse().ok();
    let more: Vec<Const> = match declared {
        "bool" => [true, false].map(Const::Bool).to_vec(),
        "text" => texts.iter().chain(&["", "a"]).map(|t| Const::Text((*t).to_owned())).collect(),
        "ints" => {
            let lists: [&[i64]; 10] =
                [&[0, 1], &[1, 1], &[0], &[1], &[1, 0], &[0, 1, 2], &[1, 1, 1], &[0, 0], &[2, 2], &[-1]];
            lists.map(|l| Const::Ints(l.to_vec())).to_vec()
        }
        _ if declared == "float" || element.is_some_and(DType::is_float) => {
            [1.0, 0.5, 0.0, -1.0].map(Const::float).to_vec()
        }
        _ if declared == "int" || element.is_some_and(DType::is_int) => {
            [1, 0, 2, 3, 4, 8, 16, 32, 64, -1].map(Const::Int).to_vec()
        }
        _ => vec![],
    };
    for c in more.into_iter().filter_map(|c| c.fit(declared)) {
        if !all.contains(&c) {
            all.push(c);
        }
    }
    all
}
