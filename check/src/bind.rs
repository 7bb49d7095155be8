//! Type inference at a call, arguments against parameters: what the generics of a callee stand for at one call.
//!
//! In this order: brackets give generics that no parameter tells; element types; dims and packs that
//! stand alone in the type of a parameter; shapes that broadcast (`~s`), joined; attributes that were not
//! given, whose defaults may speak of all these; then what is left of the parameter types is solved or
//! compared, and a `_` in brackets is solved from the equations of the `where`. What must be equal is
//! proved, refuted with a diagnostic that names both places, or checked when running.
//!
//! [`Checker::bind`] is this order; its steps are [`attributes`], [`parts`] and [`shapes`], and [`infer`] says
//! which generics the parameters tell.

mod attributes;
mod infer;
mod parts;
mod shapes;

use attributes::listed;
pub(crate) use attributes::misfit;
pub(crate) use infer::names_in;
use infer::{explicit_generics, is_inferable};

use std::collections::BTreeMap;

use ir::ast::{Expr, Generic, GenericKind, Ident, IndexArg, Mode, Param, Signature, TypeExpr};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::env::Env;
use crate::graph::{Body, Value};
use crate::shape_hints;
use crate::types::Arg;
use crate::{Checker, Maybe};

/// A given argument.
#[derive(Clone)]
pub(crate) struct Actual {
    pub(crate) name: Option<Ident>,
    pub(crate) value: Value,
    /// The expression, for attributes.
    pub(crate) expr: Option<Expr>,
    pub(crate) span: Span,
}

/// The generics bound, in the caller's dims, and the tensor arguments in the order of the parameters.
pub(crate) struct Bound {
    pub(crate) env: Env,
    pub(crate) args: Vec<ValId>,
}

/// True if a generic's bounds allow an encoding. Where there are none, `open` says.
pub(crate) fn allows_encoding(g: &Generic, open: bool) -> bool {
    if g.bounds.is_empty() {
        open
    } else {
        g.bounds.iter().any(|b| matches!(b.name.name(), "any" | "encoding"))
    }
}

/// True if a generic is of elements that are only moved ([`crate::graph::fields`]).
pub(crate) fn is_stored(g: &Generic) -> bool {
    g.bounds.iter().any(|b| b.name.name() == "stored")
}

/// Where a generic got its value, for the message when another place disagrees.
#[derive(Clone)]
struct Origin {
    span: Span,
    what: String,
    /// The whole type of what is there, for a person to compare, and the axis meant.
    shown: Option<(Type, Option<usize>)>,
}

impl Origin {
    /// `axis 0 of `a` is 3, in f32[3, 4]`
    fn is(&self, d: &Dim) -> String {
        match &self.shown {
            None => format!("{} is {d}", self.what),
            Some((ty, _)) => format!("{} is {d}, in `{ty}`", self.what),
        }
    }

    /// True if the extent would be `want` with the last two axes exchanged.
    fn transposed(&self, want: &Dim) -> bool {
        matches!(&self.shown, Some((ty, Some(axis))) if shape_hints::transposed(want, &ty.shape, *axis))
    }
}

/// A shape to compare once more is known: its pattern, the extents given, where.
struct Later {
    pattern: Expr,
    spread: bool,
    actual: Vec<Dim>,
    origin: Origin,
}

/// What a bound may be beside an element type: classes of them, of which [`allows`] says the members, encodings,
/// `stored`, which is both, and `value`, which is anything.
pub(crate) const CLASSES: [&str; 7] = ["any", "num", "float", "int", "encoding", "stored", "value"];

/// True if a generic's bounds allow a type.
pub(crate) fn allows(g: &Generic, d: DType) -> bool {
    g.bounds.is_empty()
        || g.bounds.iter().any(|b| match b.name.name() {
            "any" | "stored" => true,
            "encoding" => false,
            "float" => d.is_float(),
            "int" => d.is_int(),
            "num" => d.is_float() || d.is_int(),
            name => d.name() == name,
        })
}

/// One binding in the making.
struct Binder<'b> {
    callee: &'b str,
    sig: &'b Signature,
    env: Env,
    origins: BTreeMap<Sym, Origin>,
    later: Vec<Later>,
    /// What stands for each `_` in brackets.
    holes: Vec<(Sym, Span)>,
    span: Span,
}

/// A tensor of an argument beside the type that the signature gives it.
struct Part<'b> {
    param: &'b Param,
    /// Its path from the parameter.
    what: String,
    /// The name of its element type.
    elem: Ident,
    /// `wide<T>` has arguments.
    args: &'b [TypeExpr],
    pattern: Vec<Pattern<'b>>,
    /// A tensor, a literal, a dim, or an encoded tensor.
    value: Value,
    span: Span,
}

/// A dim, or dims, of a type as written.
#[derive(Clone, Copy)]
enum Pattern<'b> {
    One(&'b Expr),
    Spread(&'b Expr),
    Broadcast(Ident),
}

/// A generic of a record: what the signature says, and what the argument has.
struct Generics<'b> {
    what: String,
    declared: &'b TypeExpr,
    has: Arg,
    span: Span,
}

/// The arguments taken apart: what is compared with what, in the order of the parameters.
#[derive(Default)]
struct Parts<'b> {
    tensors: Vec<Part<'b>>,
    generics: Vec<Generics<'b>>,
    /// Extents of arrays of records.
    extents: Vec<(&'b Expr, Dim, Origin)>,
    /// The leaves in the order of the parameters: one of `tensors`, or a leaf of a record, which is as it is.
    order: Vec<Slot>,
}

enum Slot {
    Part(usize),
    Leaf(ValId, Mode, Span),
}

impl Checker<'_> {
    /// Binds the generics of `sig` at a call, and gives the arguments as values.
    pub(crate) fn bind(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        explicit: &[IndexArg],
        actuals: Vec<Actual>,
        span: Span,
    ) -> Maybe<Bound> {
        let env = self.env();
        self.bind_rest(body, sig, explicit, actuals, span, env)
    }

    /// The same where `env` has some of what the signature speaks of.
    pub(crate) fn bind_rest(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        explicit: &[IndexArg],
        actuals: Vec<Actual>,
        span: Span,
        env: Env,
    ) -> Maybe<Bound> {
        let callee = sig.name.name.name();
        let slots = self.slots(body, sig, actuals, span)?;
        let mut b = Binder { callee, sig, env, origins: BTreeMap::new(), later: vec![], holes: vec![], span };
        self.configured(body, &mut b)?;
        self.attributes(body, &mut b, &slots)?;
        // What attributes alone decide, before extents are solved for with them.
        for clause in sig.wheres.iter().filter(|e| b.env.decided(e) == Some(false)) {
            self.clause(sig, clause, &b.env, Some(span))?;
        }
        self.explicit(body, &mut b, explicit)?;
        let mut parts = self.take_apart(body, &b, &slots)?;
        self.generics(&mut b, &parts)?;
        self.element_types(body, &mut b, &mut parts.tensors)?;
        let joined = self.shapes(body, &mut b, &parts)?;
        self.defaults(&mut b)?;
        self.solve_rest(body, &mut b)?;
        self.all_bound(&b)?;
        self.fill_holes(body, &mut b)?;
        for clause in &sig.wheres {
            for pred in self.clause(sig, clause, &b.env, Some(span))? {
                let d = self.broken(sig, clause, &b.env, span);
                let text = format!("{callee}: `{pred}` does not hold");
                self.require(body, pred, span, &text, d)?;
            }
        }
        for g in sig.generics.iter().filter(|g| g.kind != GenericKind::DType) {
            let name = g.name.name;
            let what = || match g.kind {
                GenericKind::Pack => format!("{callee}: an extent of `..{name}`"),
                GenericKind::Dim | GenericKind::DType => format!("{callee}: `{name}`"),
            };
            for d in b.env.dims.get(&name).into_iter().chain(b.env.packs.get(&name).into_iter().flatten()) {
                self.not_negative(body, d, &what, span)?;
            }
        }
        // The arguments themselves: literals and dims become values, and shapes are stretched.
        let mut args = Vec::new();
        for slot in &parts.order {
            let (val, mode, at) = match slot {
                Slot::Leaf(v, mode, at) => {
                    let dtype = body.func.ty(*v).dtype;
                    (self.materialize(body, &Value::Val(*v), dtype, *at)?, *mode, *at)
                }
                Slot::Part(i) => {
                    let part = &parts.tensors[*i];
                    if let (Value::Tree(t), Some(_)) =
                        (&part.value, self.encoding_named(&b.env, part.elem.name))
                    {
                        for leaf in &t.leaves {
                            let dtype = body.func.ty(*leaf).dtype;
                            args.push(self.materialize(body, &Value::Val(*leaf), dtype, part.span)?);
                            if part.param.mode == Mode::Own {
                                self.consume(body, *leaf, part.span, callee)?;
                            }
                        }
                        continue;
                    }
                    let dtype = self.part_dtype(&b.env, part.elem, part.args)?;
                    let mut val = self.materialize(body, &part.value, dtype, part.span)?;
                    let got = body.func.ty(val).dtype;
                    if got != dtype {
                        let text =
                            format!("{callee}: `{}` needs elements of `{dtype}`, got `{got}`", part.what);
                        let d = Diagnostic::error("E0303", part.span, text)
                            .here(body.func.ty(val).to_string())
                            .label(part.param.span, "the parameter");
                        return self.fail(d.help(format!("convert it: `{dtype}(..)`")));
                    }
                    if joined.contains_key(i) {
                        let mut target = Vec::new();
                        for pattern in &part.pattern {
                            let dims = match pattern {
                                Pattern::One(e) => b.env.dim(e).map(|d| vec![d]),
                                Pattern::Spread(e) => b.env.pack(e),
                                Pattern::Broadcast(name) => Ok(b.env.packs[&name.name].clone()),
                            };
                            match dims {
                                Ok(dims) => target.extend(dims),
                                Err(d) => return self.fail(*d),
                            }
                        }
                        val = self.stretch(body, val, &target, part.span)?;
                    }
                    (val, part.param.mode, part.span)
                }
            };
            if mode == Mode::Own {
                self.consume(body, val, at, callee)?;
            }
            args.push(val);
        }
        Some(Bound { env: b.env, args })
    }

    /// Arguments in the order of the parameters, defaults filled in.
    fn slots(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        actuals: Vec<Actual>,
        span: Span,
    ) -> Maybe<Vec<Option<Actual>>> {
        let callee = sig.name.name;
        let mut slots: Vec<Option<Actual>> = vec![None; sig.params.len()];
        let given = actuals.len();
        let mut next = 0;
        for a in actuals {
            let at = match a.name {
                Some(name) => match sig.params.iter().position(|p| p.name.name == name.name) {
                    Some(at) => at,
                    None => {
                        let d = Diagnostic::error(
                            "E0305",
                            name.span,
                            format!("{callee} has no parameter `{}`", name.name),
                        );
                        return self.fail(d.help(other_name(name.name.name(), sig)));
                    }
                },
                None => {
                    next += 1;
                    next - 1
                }
            };
            match slots.get_mut(at) {
                Some(slot @ None) => *slot = Some(a),
                Some(Some(_)) => {
                    let name = sig.params[at].name.name;
                    return self.fail(
                        Diagnostic::error("E0304", a.span, format!("{callee}: `{name}` is given twice"))
                            .help("arguments without a name fill the parameters in order"),
                    );
                }
                None => {
                    let want = sig.params.len();
                    let d = Diagnostic::error(
                        "E0304",
                        span,
                        format!("{callee}: takes {}, got {given}", ir::diag::count(want, "argument")),
                    );
                    let d = d.label(sig.name.span, "defined here");
                    let in_brackets =
                        |g: &Generic| g.kind != GenericKind::DType && !is_inferable(sig, g.name.name);
                    return self.fail(if sig.generics.iter().any(in_brackets) {
                        d.help(format!("its extents are given in brackets: `{callee}[2, 3]`"))
                    } else {
                        d
                    });
                }
            }
        }
        for (slot, p) in slots.iter_mut().zip(&sig.params) {
            if slot.is_some() {
                continue;
            }
            match &p.default {
                // Evaluated once the generics are known.
                Some(_) if p.mode == Mode::Const => {}
                Some(e) => {
                    let value = self.default_of(body, p, e, span)?;
                    *slot = Some(Actual { name: None, value, expr: None, span: e.span });
                }
                None => {
                    let d = Diagnostic::error(
                        "E0304",
                        span,
                        format!("{callee}: argument `{}` is missing", p.name.name),
                    );
                    return self.fail(d.label(p.span, "this parameter"));
                }
            }
        }
        Some(slots)
    }

    fn all_bound(&mut self, b: &Binder<'_>) -> Maybe<()> {
        for g in &b.sig.generics {
            let name = g.name.name;
            let (bound, form) = match g.kind {
                GenericKind::Dim => (b.env.dims.contains_key(&name), format!("{}[{name}](..)", b.callee)),
                GenericKind::Pack => (b.env.packs.contains_key(&name), format!("{}[..{name}](..)", b.callee)),
                GenericKind::DType => (b.env.bound_elem(name).is_some(), format!("{}[{name}](..)", b.callee)),
            };
            if !bound {
                let text = format!("{}: the dim `{name}` cannot be inferred from the arguments", b.callee);
                let d = Diagnostic::error("E0203", b.span, text).label(g.name.span, "declared here");
                // All that brackets must give with it.
                let lists = explicit_generics(b.sig);
                let least = lists.first().filter(|l| l.iter().any(|x| x.name.name == name));
                let form = least.map_or(form, |l| format!("{}[{}](..)", b.callee, listed(l)));
                let alone = if is_inferable(b.sig, name) { "let it stand alone" } else { "use it" };
                let text = format!("give it in brackets: `{form}`, or {alone} in the type of a parameter");
                return self.fail(d.help(text));
            }
        }
        Some(())
    }
}

pub(crate) fn refused(callee: &str, d: &str, g: &Generic, span: Span) -> Diagnostic {
    let bounds: Vec<&str> = g.bounds.iter().map(|b| b.name.name()).collect();
    Diagnostic::error("E0303", span, format!("{callee}: not defined for {d}"))
        .label(g.name.span, format!("`{}` is one of: {}", g.name.name, bounds.join(", ")))
}

fn is_generic(sig: &Signature, name: Sym) -> bool {
    sig.generics.iter().any(|g| g.name.name == name && g.kind != GenericKind::DType)
}

/// What torch, numpy and ONNX call a parameter, and what it is called here, where there is one of that name.
const NAMES_ELSEWHERE: &[(&str, &[&str])] = &[
    ("dim", &["axis"]),
    ("dims", &["axis", "perm"]),
    ("axes", &["axis", "perm"]),
    ("keepdim", &["keepdims"]),
    ("keep_dims", &["keepdims"]),
    ("kernel_size", &["size"]),
    ("kernel_shape", &["size"]),
    ("window", &["size"]),
    ("strides", &["stride"]),
    ("dilations", &["dilation"]),
    ("padding", &["low", "high"]),
    ("pads", &["low", "high"]),
    ("pad", &["low", "high"]),
    ("pad_width", &["low", "high"]),
    ("output_padding", &["more"]),
    ("count_include_pad", &["padded"]),
    ("group", &["groups"]),
    ("num_groups", &["groups"]),
    ("unbiased", &["correction"]),
    ("ddof", &["correction"]),
    ("repeats", &["times", "reps"]),
    ("shifts", &["shift"]),
    ("diagonal", &["k"]),
    ("offset", &["k"]),
    ("chunks", &["parts"]),
    ("sections", &["parts"]),
    ("num_splits", &["parts"]),
    ("is_causal", &["causal"]),
    ("attn_mask", &["mask", "bias"]),
    ("softmax_scale", &["scale"]),
    ("weight", &["w"]),
    ("bias", &["b"]),
    ("min", &["lo"]),
    ("max", &["hi"]),
    ("epsilon", &["eps"]),
    ("negative_slope", &["alpha"]),
    ("index", &["at"]),
    ("indices", &["at", "rows"]),
    ("ignore_index", &["ignore"]),
];

/// What a parameter may have been meant by a name that there is none of; or which there are.
fn other_name(name: &str, sig: &Signature) -> String {
    let names = || sig.params.iter().map(|p| p.name.name.name());
    let row = NAMES_ELSEWHERE.iter().find(|row| row.0 == name);
    let same: Vec<String> = row
        .iter()
        .flat_map(|r| r.1)
        .filter(|n| names().any(|p| p == **n))
        .map(|n| format!("`{n}`"))
        .collect();
    if !same.is_empty() {
        return format!("it is called {} here", same.join(" and "));
    }
    if sig.generics.iter().any(|g| g.kind == GenericKind::Dim && g.name.name.name() == name) {
        return format!("a dim is given in brackets: `{}[{name}](..)`", sig.name.name);
    }
    match ir::diag::nearest(name, names()) {
        Some(n) => format!("did you mean `{n}`?"),
        None if sig.params.is_empty() => "it has no parameters".to_owned(),
        None => format!("it has {}", names().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")),
    }
}
