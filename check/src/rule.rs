//! Rules and library bindings.

use std::collections::btree_map::Entry;

use ir::ast::{Expr, ExprKind, ExternDef, GenericKind, Mode, Param, RuleDef, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Func, Op, Type};
use ir::loops::{BufId, Scalar, ScalarKind};
use ir::{CArg, CType, Extern, ExternId, Literal, Rule, RuleId};
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use crate::bind::names_in;
use crate::env::{Const, Env};
use crate::graph::{Body, Value};
use crate::rule_matches::{attributes, attributes_known, fitting, values};
use crate::{Checker, Maybe};

/// When an instance of a rule is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Always,
    /// Without being told what is wrong with it: [`Rule::more`].
    More,
    /// If the operators of its pattern stand in functions.
    IfMatched,
    /// It is only checked.
    Never,
}

/// The left side of a rule.
struct Pattern {
    env: Env,
    dims: Vec<Sym>,
    when: Vec<Pred>,
    head: Head,
    lhs: Func,
}

/// A rule's parameters.
struct Head {
    /// A function of their tensors, without a body.
    func: Func,
    /// Each as a value of those.
    names: Vec<(Sym, Value)>,
    /// Of each tensor, whether it must be what weights and constants make.
    constant: Vec<bool>,
}

impl<'a> Checker<'a> {
    /// A library function. Its element types are fixed: C has no others.
    pub(crate) fn extern_instance(&mut self, def: &'a ExternDef) -> Maybe<ExternId> {
        if let Some(known) = self.instances.externs.get(&def.sig.name.span) {
            return *known;
        }
        let id = self.extern_body(def).map(|e| {
            self.module.externs.push(e);
            ExternId(self.module.externs.len() as u32 - 1)
        });
        self.instances.externs.insert(def.sig.name.span, id);
        id
    }

    fn extern_body(&mut self, def: &'a ExternDef) -> Maybe<Extern> {
        self.signature(&def.sig);
        if !self.outputs(&def.sig, &def.outs) {
            return None;
        }
        if let Some(g) = def.sig.generics.iter().find(|g| g.kind != GenericKind::Dim) {
            return self.fail(Diagnostic::error(
                "E0204",
                g.name.span,
                "a C function is generic over dims only",
            ));
        }
        let none = self.env();
        let (env, dims) = self.inside(&def.sig, &none);
        let mut b = crate::prim::Body::new(def.sig.name, env, dims.clone());
        let mut params = Vec::new();
        let mut outs = Vec::new();
        for p in &def.sig.params {
            let ty = self.param_type(&b.env, p)?;
            params.push(b.buffer(p.name.name, ty, false));
        }
        let mut begins = Vec::new();
        for p in &def.outs {
            let owned = |q: &&Param| q.mode == Mode::Own && q.name.name == p.name.name;
            if let Some(i) = def.sig.params.iter().position(|q| owned(&q)) {
                if let Some(e) = &p.default {
                    let text = format!("`{}` is owned: it begins as what it is given", p.name.name);
                    return self.fail(Diagnostic::error("E0505", e.span, text));
                }
                outs.push(params[i]);
                continue;
            }
            let ty = self.param_type(&b.env, p)?;
            let out = b.buffer(p.name.name, ty, false);
            outs.push(out);
            if let Some(e) = &p.default {
                begins.push((out, self.begins_as(&b, &params, out, e)?));
            }
        }
        let mut args = Vec::new();
        for e in &def.args {
            args.push(self.c_arg(&mut b, e)?);
        }
        let success = match def.success {
            None => None,
            Some(value) => match i32::try_from(value) {
                Ok(value) => Some(value),
                Err(_) => {
                    let text = format!("{value} does not fit in a C int, which is what the function gives");
                    return self.fail(Diagnostic::error("E0505", def.symbol.span, text));
                }
            },
        };
        Some(Extern {
            name: Sym::new(&self.instance_name(def.sig.name)),
            library: def.library.clone(),
            symbol: def.symbol.name.name().to_owned(),
            dims,
            facts: b.env.facts.clone(),
            params,
            outs,
            bufs: b.prim.bufs,
            args,
            begins,
            success,
            meaning: None,
            span: def.sig.name.span,
        })
    }

    /// The input that an output begins as. Its axes are the output's last, so it is copied row by row.
    fn begins_as(&mut self, b: &crate::prim::Body, params: &[BufId], out: BufId, e: &Expr) -> Maybe<BufId> {
        let (bufs, out) = (&b.prim.bufs, &b.prim.bufs[out.0 as usize]);
        let named = |id: &&BufId| matches!(&e.kind, ExprKind::Name(n) if bufs[id.0 as usize].name == *n);
        let Some(&from) = params.iter().find(named) else {
            let d = Diagnostic::error("E0505", e.span, "an output begins as an input of the function");
            return self.fail(d.help("name one: `-> (y: f32[m, n] = bias)`"));
        };
        let x = &bufs[from.0 as usize];
        let same = |(a, b): (&Dim, &Dim)| a == b;
        let is_last = x.shape.iter().rev().zip(out.shape.iter().rev()).all(same);
        if x.shape.is_empty() || x.dtype != out.dtype || x.shape.len() > out.shape.len() || !is_last {
            let ty = |b: &ir::loops::Buf| Type { dtype: b.dtype, shape: b.shape.clone() }.to_string();
            let text =
                format!("`{}`, a `{}`, cannot begin as `{}`, a `{}`", out.name, ty(out), x.name, ty(x));
            let d = Diagnostic::error("E0505", e.span, text);
            return self.fail(d.help("what it begins as has its element type and its last axes"));
        }
        Some(from)
    }

    fn c_arg(&mut self, b: &mut crate::prim::Body, e: &Expr) -> Maybe<CArg> {
        match &e.kind {
            ExprKind::Name(n) => {
                let at = b.prim.bufs.iter().position(|buf| buf.name == *n);
                if let Some(i) = at.filter(|&i| !b.prim.bufs[i].shape.is_empty()) {
                    return Some(CArg::Buf(BufId(i as u32)));
                }
            }
            ExprKind::Call(f, inner) => {
                if let (ExprKind::Name(n), [value]) = (&f.kind, inner.as_slice()) {
                    if let Some(c) = CType::named(n.name()) {
                        return Some(CArg::Number(c, self.c_number(b, c, &value.value)?));
                    }
                    if n.name() == "c_ptr"
                        && let CArg::Number(c, s) = self.c_arg(b, &value.value)?
                    {
                        return Some(CArg::Address(c, s));
                    }
                }
            }
            _ => {}
        }
        let text = "a C argument is a buffer or a number with its C type";
        let d = Diagnostic::error("E0505", e.span, text);
        self.fail(d.help("say the type: `c_int(n)`, `f32(1)`; `c_ptr(f32(1))` is the address of a number"))
    }

    fn c_number(&mut self, b: &mut crate::prim::Body, c: CType, e: &Expr) -> Maybe<Scalar> {
        let want = c.value();
        if c == CType::Char {
            if let ExprKind::Str(text) = &e.kind
                && let [one] = text.as_bytes()
                && one.is_ascii()
            {
                return Some(Scalar::constant(Literal::Int(i64::from(*one)), want));
            }
            let d = Diagnostic::error("E0505", e.span, "a C char is a text of one ASCII character");
            return self.fail(d.help("write `c_char(\"N\")`"));
        }
        let s = self.scalar(b, e, Some(want))?;
        if let ScalarKind::Const(Literal::Int(i)) = s.kind
            && c == CType::Int
            && i32::try_from(i).is_err()
        {
            return self.fail(Diagnostic::error("E0505", e.span, format!("{i} does not fit in a C int")));
        }
        if s.dtype == want {
            Some(s)
        } else {
            self.fail(Diagnostic::error(
                "E0505",
                e.span,
                format!("`{want}` is needed, and this is `{}`", s.dtype),
            ))
        }
    }

    /// A rule: both sides become functions of the same parameters. One over element types, packs or attributes is a
    /// template too: it has an instance for each choice whose pattern some function's operators can match.
    /// `tolerance`: by what it may be off.
    pub(crate) fn rule(&mut self, def: &'a RuleDef, tolerance: Option<f64>) {
        self.signature(&def.sig);
        let name = def.sig.name.name;
        let library = self.defs.in_library(def.sig.name.span);
        if !library
            && attributes(&def.sig).is_empty()
            && def.sig.generics.iter().all(|g| g.kind == GenericKind::Dim)
        {
            let none = self.env();
            let _ = self.rule_instance((def, tolerance), &none, name, Wanted::Always);
            return;
        }
        let types = |env: &Env| -> Vec<DType> {
            def.sig.generics.iter().filter_map(|g| env.dtypes.get(&g.name.name).copied()).collect()
        };
        let mut tried: Vec<Vec<DType>> = Vec::new();
        for (env, suffix) in self.choices(def) {
            let name = Sym::new(&format!("{name}{suffix}"));
            let said = self.diagnostics.len();
            if self.rule_instance((def, tolerance), &env, name, Wanted::IfMatched).is_some() {
                tried.push(types(&env));
            }
            // A program is not told what is wrong with the library.
            if library && !self.every_rule {
                self.retract_after(said);
            }
        }
        // A test tries those of the library; a program has no use for what it does not match.
        if library && !self.every_rule {
            return;
        }
        let Some(env) = self.alone(def) else { return };
        if tried.is_empty() {
            let wanted = if self.every_rule { Wanted::Always } else { Wanted::Never };
            let _ = self.rule_instance((def, tolerance), &env, name, wanted);
            tried.push(types(&env));
        }
        if !self.every_rule {
            return;
        }
        // Each type that a generic may be, the others being usual ones.
        for g in def.sig.generics.iter().filter(|g| g.kind == GenericKind::DType) {
            for d in DType::all().filter(|d| crate::bind::allows(g, *d)) {
                let mut env = env.clone();
                env.dtypes.insert(g.name.name, d);
                if tried.contains(&types(&env)) {
                    continue;
                }
                tried.push(types(&env));
                // The bounds may allow what an operator does not take.
                let said = self.diagnostics.len();
                let name = Sym::new(&format!("{name}_{d}"));
                let _ = self.rule_instance((def, tolerance), &env, name, Wanted::Always);
                self.retract_after(said);
            }
        }
        for (k, env) in self.more(def, &env).into_iter().enumerate() {
            let said = self.diagnostics.len();
            let _ = self.rule_instance(
                (def, tolerance),
                &env,
                Sym::new(&format!("{name}_more{k}")),
                Wanted::More,
            );
            self.retract_after(said);
        }
    }

    /// What a rule is checked with where nothing in the program tells.
    fn alone(&mut self, def: &'a RuleDef) -> Option<Env> {
        let mut env = self.sample_env(&def.sig)?;
        // An attribute that nothing has is checked with one that most operators take.
        for p in attributes(&def.sig) {
            let usual = fitting(p, [Const::Int(0), Const::Bool(false)].iter()).pop();
            env.consts.extend(usual.map(|c| (p.name.name, c)));
        }
        let usual = attributes_known(&def.sig, &env).then_some(env);
        if !self.every_rule || attributes(&def.sig).is_empty() {
            return usual;
        }
        // Where those do not fit, such as permutations: the first that the conditions and operators allow.
        let all = usual.iter().cloned().chain(self.made_up(&def.sig)).collect::<Vec<_>>();
        let fits = |env: &&Env| {
            let said = self.diagnostics.len();
            let fits = self.rule_pattern(def, env).is_some() && self.diagnostics.len() == said;
            self.retract_after(said);
            fits
        };
        all.iter().find(fits).cloned().or(usual)
    }

    /// Forgets the diagnostics after the first few.
    pub(crate) fn retract_after(&mut self, kept: usize) {
        for d in self.diagnostics.split_off(kept) {
            self.reported.remove(&(d.code, d.span(), d.message.clone()));
        }
    }

    fn rule_instance(
        &mut self,
        (def, tolerance): (&'a RuleDef, Option<f64>),
        bound: &Env,
        name: Sym,
        wanted: Wanted,
    ) -> Maybe<()> {
        let said = self.diagnostics.len();
        // An operator that would be new here stands in no function.
        self.only_known = wanted == Wanted::IfMatched;
        let pattern = self.rule_pattern(def, bound);
        self.only_known = false;
        // Where the pattern has no type (a scalar has no last axis) or a condition excludes an attribute, nothing can
        // match: no instance, and no fault either, unless no choice at all has one.
        let excused = wanted == Wanted::IfMatched || !attributes(&def.sig).is_empty();
        if excused && self.diagnostics.len() > said {
            self.retract_after(said);
            return None;
        }
        let Pattern { env, dims, when, head, lhs } = pattern?;
        let rhs = self.side(&head, &env, &def.rhs)?;
        let call = |n: &ir::graph::Node| {
            matches!(n.op, Op::Prim(..) | Op::Extern(..) | Op::Call(..) | Op::Scalar(_) | Op::Cast)
        };
        let called = |v| lhs.body.nodes.iter().any(|n| call(n) && n.results.contains(v));
        if !lhs.body.results.iter().all(called) {
            let text = match lhs.body.results.len() {
                1 => "the left side of a rule is a call",
                _ => "each value of the left side of a rule is a call",
            };
            return self.fail(Diagnostic::error("E0504", def.lhs.span, text));
        }
        let missing = |from: &Func, to: &Func| {
            let used =
                |f: &Func, v| f.body.nodes.iter().any(|n| n.args.contains(&v)) || f.body.results.contains(&v);
            from.body
                .params
                .iter()
                .zip(&from.params)
                .find(|(v, _)| !used(from, **v) && used(to, **v))
                .map(|(_, p)| p.name)
        };
        if let Some(p) = missing(&lhs, &rhs) {
            let text = format!("the left side does not name `{p}`, and the right side uses it");
            return self.fail(Diagnostic::error("E0504", def.lhs.span, text));
        }
        self.same_sides(def, &env, &lhs, &rhs)?;
        if wanted == Wanted::Never {
            return None;
        }
        let id = RuleId(self.module.rules.len() as u32);
        // A rule that gives an extern for something says what the extern means, unless it is but near to that.
        if tolerance.is_none()
            && let [node] = rhs.body.nodes.as_slice()
            && let Op::Extern(ext, ext_dims) = &node.op
            && node.args == rhs.body.params
            && node.results == rhs.body.results
            && ext_dims.iter().map(Dim::as_sym).collect::<Option<Vec<Sym>>>().is_some_and(|d| d == dims)
        {
            self.module.externs[ext.0 as usize].meaning.get_or_insert(id);
        }
        self.module.add_rule(Rule {
            name,
            written: def.sig.name.name,
            lhs,
            rhs,
            both_ways: def.both_ways,
            when,
            constant: head.constant,
            tolerance,
            family: self.family(def.sig.name.span),
            more: wanted == Wanted::More,
            span: def.sig.name.span,
        });
        Some(())
    }

    /// The left side of an instance, with what holds where it matches.
    fn rule_pattern(&mut self, def: &'a RuleDef, bound: &Env) -> Maybe<Pattern> {
        let (mut env, mut dims) = self.inside(&def.sig, bound);
        // Dims need not be listed: a rule has no other names to confuse them with.
        for p in &def.sig.params {
            let Some(TypeKind::Named { dims: Some(args), .. }) = p.ty.as_ref().map(|t| &t.kind) else {
                continue;
            };
            for a in args {
                let ir::ast::IndexArg::Expr(e) = a else { continue };
                for n in names_in(e) {
                    if let Entry::Vacant(free) = env.dims.entry(n) {
                        free.insert(Dim::sym(n));
                        env.facts.assume_dim(n);
                        dims.push(n);
                    }
                }
            }
        }
        let mut when = Vec::new();
        for e in &def.sig.wheres {
            if let Err(d) = env.preds(e, &mut when) {
                return self.fail(*d);
            }
        }
        when.iter().for_each(|p: &Pred| env.facts.assume(p.clone()));
        let mut head = self.rule_side(def, &env, &dims)?;
        let mut lhs = self.side(&head, &env, &def.lhs)?;
        // What the left side itself needs holds wherever it matches: the program asks for it.
        for pred in checks(&lhs) {
            env.facts.assume(pred.clone());
            head.func.facts.assume(pred.clone());
            lhs.facts.assume(pred);
        }
        lhs.body.nodes.retain(|n| !matches!(n.op, Op::Check(..)));
        Some(Pattern { env, dims, when, head, lhs })
    }

    fn rule_side(&mut self, def: &'a RuleDef, env: &Env, dims: &[Sym]) -> Maybe<Head> {
        let mut func = Func {
            dims: dims.to_vec(),
            facts: env.facts.clone(),
            results: vec![None],
            plan: true,
            ..Func::named(def.sig.name.name.name(), def.sig.name.span)
        };
        let (mut names, mut constant) = (Vec::new(), Vec::new());
        for p in values(&def.sig) {
            names.push((p.name.name, self.parameter(&mut func, env, p)?));
            constant.resize(func.params.len(), p.mode == Mode::Const);
        }
        Some(Head { func, names, constant })
    }

    fn side(&mut self, head: &Head, env: &Env, e: &Expr) -> Maybe<Func> {
        let mut body = Body::new(head.func.clone(), env.clone(), head.names.to_vec());
        let parts = match self.expr(&mut body, e)? {
            Value::Tuple(parts) => parts,
            one => vec![one],
        };
        let mut vals = Vec::new();
        for part in &parts {
            vals.push(self.materialize(&mut body, part, DType::F32, e.span)?);
        }
        let types = vals.iter().map(|v| body.func.ty(*v).clone()).collect();
        let results = vec![None; vals.len()];
        Some(Func { result_types: types, results, ..body.finish(vals) })
    }

    fn same_sides(&mut self, def: &RuleDef, env: &Env, lhs: &Func, rhs: &Func) -> Maybe<()> {
        let same = |(l, r): (&Type, &Type)| {
            l.dtype == r.dtype
                && l.shape.len() == r.shape.len()
                && l.shape.iter().zip(&r.shape).all(|(a, b)| env.facts.prove_eq(a, b).is_proved())
        };
        let (left, right) = (&lhs.result_types, &rhs.result_types);
        if left.len() == right.len() && left.iter().zip(right).all(same) {
            let Some(pred) = checks(rhs).into_iter().next() else { return Some(()) };
            let text = format!(
                "the right side of `{}` needs `{pred}`, and the left side does not",
                def.sig.name.name
            );
            let d = Diagnostic::error("E0503", def.rhs.span, text);
            return self.fail(d.help(format!("let it stand for these alone: `when {pred}`")));
        }
        let [l, r] = [left, right].map(|types| match &types[..] {
            [one] => one.to_string(),
            many => format!("({})", many.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")),
        });
        let text = format!("the sides of `{}` differ: `{l}` and `{r}`", def.sig.name.name);
        let d = Diagnostic::error("E0503", def.sig.name.span, text);
        self.fail(d.label(def.lhs.span, l).label(def.rhs.span, r))
    }
}

/// What a side needs of its dims when it runs.
fn checks(side: &Func) -> Vec<Pred> {
    let asked = |n: &ir::graph::Node| if let Op::Check(pred, _) = &n.op { Some(pred.clone()) } else { None };
    side.body.nodes.iter().filter_map(asked).collect()
}
