//! Dims, packs and compile-time attributes: the values that exist only while checking.
//!
//! A dim expression of the text becomes a [`shape::Expr`] over the symbols of the instance being
//! checked. A pack is a list of dims; functions on lists are in [`crate::packs`]. An attribute is an `int`, a
//! list of them (`ints`), a `bool`, a `float` or a `text`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::ast::{BinaryOp, Expr, ExprKind, Ident, IndexArg, TypeExpr, TypeKind, UnaryOp};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Facts, Sym};
use tensor::DType;

use crate::consts::Constant;
use crate::graph::Value;
use crate::types::Elem;

/// A compile-time attribute.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Const {
    Int(i64),
    Ints(Vec<i64>),
    Bool(bool),
    /// A float by its bits, so that constants can be told apart.
    Float(u64),
    Text(String),
}

impl Const {
    pub(crate) fn float(x: f64) -> Const {
        Const::Float(x.to_bits())
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Const::Int(_) => "an integer",
            Const::Ints(_) => "a list of integers",
            Const::Bool(_) => "true or false",
            Const::Float(_) => "a float",
            Const::Text(_) => "a text",
        }
    }

    /// As it is written; a list of one as its item, which is said for all axes.
    pub(crate) fn shown(&self) -> String {
        match self {
            Const::Int(i) => i.to_string(),
            Const::Ints(l) if l.len() == 1 => l[0].to_string(),
            Const::Ints(l) => format!("[{}]", l.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
            Const::Bool(b) => b.to_string(),
            Const::Float(bits) => f64::from_bits(*bits).to_string(),
            Const::Text(t) => format!("\"{t}\""),
        }
    }

    /// This value for a parameter declared with a type; none where it does not fit. A number may be declared
    /// with an element type that holds it.
    pub(crate) fn fit(self, declared: &str) -> Option<Const> {
        let element: Option<DType> = declared.parse().ok();
        let int = declared == "int" || element.is_some_and(DType::is_int);
        let float = declared == "float" || element.is_some_and(DType::is_float);
        match (declared, self) {
            ("ints", Const::Int(i)) => Some(Const::Ints(vec![i])),
            (_, Const::Int(i)) if float => Some(Const::float(i as f64)),
            (_, Const::Int(i)) if int && element.is_none_or(|d| d.wrap(i) == i) => Some(Const::Int(i)),
            (_, c @ Const::Float(_)) if float => Some(c),
            ("ints", c @ Const::Ints(_)) | ("bool", c @ Const::Bool(_)) | ("text", c @ Const::Text(_)) => {
                Some(c)
            }
            _ => None,
        }
    }
}

/// What the generics and attributes of the instance being checked stand for.
#[derive(Clone, Default)]
pub(crate) struct Env {
    pub(crate) dtypes: BTreeMap<Sym, DType>,
    pub(crate) dims: BTreeMap<Sym, Dim>,
    pub(crate) packs: BTreeMap<Sym, Vec<Dim>>,
    pub(crate) consts: BTreeMap<Sym, Const>,
    /// Generic element types that stand for encodings, or for several ways of storage.
    pub(crate) encodings: BTreeMap<Sym, Elem>,
    /// What generics of any kind stand for, `S: value`; no value where that is not known.
    pub(crate) kinds: BTreeMap<Sym, Value>,
    /// Dims that an instance counts in blocks of so many.
    pub(crate) blocks: BTreeMap<Sym, i64>,
    /// The program's constants.
    pub(crate) globals: Rc<BTreeMap<Sym, Constant>>,
    /// Constants that are wrong, which was said already.
    pub(crate) wrong: Rc<BTreeSet<Sym>>,
    pub(crate) facts: Facts,
}

pub(crate) type Answer<T> = Result<T, Box<Diagnostic>>;

/// What is wrong because of something that was said: it is not said again.
fn said_already(span: Span) -> Diagnostic {
    Diagnostic::error("E0201", span, "")
}

pub(crate) fn wrong<T>(span: Span, text: impl Into<String>) -> Answer<T> {
    Err(Box::new(Diagnostic::error("E0307", span, text)))
}

impl Env {
    /// The dtype of a name: a type or a generic.
    pub(crate) fn dtype(&self, name: Sym) -> Option<DType> {
        self.dtypes.get(&name).copied().or_else(|| name.name().parse().ok())
    }

    /// The dtype that a type's name and arguments say: `f32`, `T`, `wide<T>`, which is what sums of values of
    /// type `T` are kept in.
    pub(crate) fn element(&self, name: Sym, args: &[TypeExpr]) -> Option<DType> {
        match args {
            [] => self.dtype(name),
            [TypeExpr { kind: TypeKind::Named { name: of, args, dims: None }, .. }]
                if name.name() == "wide" =>
            {
                self.element(of.name, args).map(DType::wide)
            }
            _ => None,
        }
    }

    /// Lets a generic element type stand for something.
    pub(crate) fn bind_elem(&mut self, name: Sym, e: Elem) {
        match e {
            Elem::Plain(d) => {
                self.dtypes.insert(name, d);
            }
            Elem::Encoded(_) | Elem::Several(_) => {
                self.encodings.insert(name, e);
            }
        }
    }

    /// What a generic element type stands for.
    pub(crate) fn bound_elem(&self, name: Sym) -> Option<Elem> {
        let encoded = self.encodings.get(&name).copied();
        encoded.or_else(|| self.dtypes.get(&name).map(|d| Elem::Plain(*d)))
    }

    /// An attribute, or a constant of the program.
    pub(crate) fn known(&self, name: Sym) -> Option<&Const> {
        self.consts.get(&name).or_else(|| self.globals.get(&name).map(|k| &k.value))
    }

    /// The element type that a constant of the program is declared with.
    pub(crate) fn declared(&self, name: Sym) -> Option<DType> {
        if self.consts.contains_key(&name) { None } else { self.globals.get(&name)?.dtype }
    }

    /// A dim expression of the text.
    pub(crate) fn dim(&self, e: &Expr) -> Answer<Dim> {
        let d = match &e.kind {
            ExprKind::Int(i) => Dim::int(*i),
            ExprKind::Paren(e) => return self.dim(e),
            ExprKind::Name(name) => match (self.dims.get(name), self.known(*name)) {
                (Some(d), _) => d.clone(),
                (None, Some(Const::Int(i))) => Dim::int(*i),
                _ => return Err(Box::new(self.unknown_dim(*name, e.span))),
            },
            ExprKind::Unary(UnaryOp::Neg, a) => -self.dim(a)?,
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.dim(a)?, self.dim(b)?);
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a.floor_div(&b),
                    BinaryOp::Rem => a.modulo(&b),
                    BinaryOp::Or
                    | BinaryOp::And
                    | BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::MatMul => {
                        return wrong(e.span, format!("`{}` gives no dim", op.token()));
                    }
                }
            }
            ExprKind::Call(f, args) => {
                let ExprKind::Name(f) = &f.kind else { return wrong(e.span, "not a dim expression") };
                let args: Vec<Dim> = args.iter().map(|a| self.dim(&a.value)).collect::<Answer<_>>()?;
                match (f.name(), args.as_slice()) {
                    ("min", [a, b]) => a.min(b),
                    ("max", [a, b]) => a.max(b),
                    ("ceil_div", [a, b]) => a.ceil_div(b),
                    _ => {
                        return wrong(
                            e.span,
                            format!("`{f}` is no function of dims (min, max, ceil_div are)"),
                        );
                    }
                }
            }
            ExprKind::Index(base, args) => {
                let (pack, [IndexArg::Expr(k)]) = (self.pack(base)?, args.as_slice()) else {
                    return wrong(e.span, "one axis of a pack is taken: `s[axis]`");
                };
                pack[self.axis(k, pack.len())?].clone()
            }
            // A generic that a parameter of record type leaves out: see [`crate::generics`].
            ExprKind::Field(base, f) if self.left_out(base, f.name).is_some() => {
                self.left_out(base, f.name).expect("just asked").clone()
            }
            ExprKind::Field(base, f) if f.name.name() == "rank" => Dim::int(self.pack(base)?.len() as i64),
            ExprKind::Field(base, f) if f.name.name() == "size" => {
                self.pack(base)?.into_iter().fold(Dim::int(1), |a, d| a * d)
            }
            ExprKind::Field(base, f) => return Err(Box::new(self.unknown_part(base, f, e.span))),
            // It was said what is wrong with it.
            ExprKind::Error => return Err(Box::new(said_already(e.span))),
            _ => return wrong(e.span, "not a dim expression"),
        };
        if d.is_poison() {
            let zero = d.eval(&|_| Some(1)) == Err(shape::EvalError::DivisionByZero);
            let text = if zero {
                "a dim is divided by zero"
            } else {
                "a dim expression overflows 64 bits or is too large"
            };
            return Err(Box::new(Diagnostic::error("E0310", e.span, text)));
        }
        Ok(d)
    }

    fn left_out(&self, base: &Expr, generic: Sym) -> Option<&Dim> {
        let ExprKind::Name(param) = base.kind else { return None };
        self.dims.get(&Sym::new(&format!("{param}.{generic}")))
    }

    fn unknown_part(&self, base: &Expr, f: &Ident, span: Span) -> Diagnostic {
        let d = Diagnostic::error("E0307", span, "not a dim expression");
        let ExprKind::Name(param) = base.kind else { return d };
        let within = format!("{param}.");
        let known: Vec<&str> = self.dims.keys().filter_map(|s| s.name().strip_prefix(&within)).collect();
        if known.is_empty() {
            return d;
        }
        let d = Diagnostic::error(
            "E0201",
            f.span,
            format!("the type of `{param}` leaves out no dim `{}`", f.name),
        );
        d.help(format!("it leaves out {}", known.join(", ")))
    }

    fn unknown_dim(&self, name: Sym, span: Span) -> Diagnostic {
        let known: Vec<&str> = self.dims.keys().map(|s| s.name()).collect();
        if self.packs.contains_key(&name) {
            return Diagnostic::error("E0204", span, format!("`{name}` is a pack of dims"))
                .help(format!("spread it: `..{name}`"));
        }
        if self.dtypes.contains_key(&name) {
            return Diagnostic::error(
                "E0204",
                span,
                format!("`{name}` is an element type, and a dim is needed"),
            );
        }
        if name.name().parse::<tensor::DType>().is_ok() {
            let text = format!("`{name}` is an element type, and a dim is needed");
            return Diagnostic::error("E0204", span, text).help(format!(
                "brackets give an element type only where no argument tells it; convert the argument: `{name}(..)`"
            ));
        }
        if self.wrong.contains(&name) {
            return said_already(span);
        }
        let d = Diagnostic::error("E0201", span, format!("unknown dim `{name}`"));
        if matches!(name.name(), "None" | "null") {
            return d.help("an extent that may be any is a generic: `fn f<n>(x: f32[n, 3])`");
        }
        let numbers = self.globals.keys().map(|s| s.name());
        match (
            ir::diag::nearest(name.name(), known.iter().copied().chain(numbers)),
            ir::diag::elsewhere(name.name()),
        ) {
            (Some(guess), _) => d.help(format!("did you mean `{guess}`?")),
            (None, Some(hint)) => d.help(hint),
            (None, None) => d.help(format!("declare it as a generic: `<{name}>`")),
        }
    }

    /// A compile-time attribute.
    pub(crate) fn constant(&self, e: &Expr) -> Answer<Const> {
        match &e.kind {
            ExprKind::Bool(b) => Ok(Const::Bool(*b)),
            ExprKind::Float(x, _) => Ok(Const::float(*x)),
            ExprKind::Str(s) => Ok(Const::Text(s.clone())),
            ExprKind::Paren(e) => self.constant(e),
            ExprKind::Unary(UnaryOp::Neg, a) => match self.constant(a)? {
                Const::Float(x) => Ok(Const::float(-f64::from_bits(x))),
                Const::Int(i) => {
                    i.checked_neg().map(Const::Int).map_or_else(|| wrong(e.span, "overflows"), Ok)
                }
                Const::Ints(_) | Const::Bool(_) | Const::Text(_) => wrong(e.span, "a number is needed"),
            },
            ExprKind::Name(name) if !self.dims.contains_key(name) && self.known(*name).is_some() => {
                Ok(self.known(*name).expect("just asked").clone())
            }
            _ if self.is_list(e) => Ok(Const::Ints(self.ints(e)?)),
            _ => match (self.decided(e), self.dim(e)) {
                (Some(b), _) => Ok(Const::Bool(b)),
                (None, d) => match d?.as_int() {
                    Some(i) => Ok(Const::Int(i)),
                    None => wrong(e.span, "an attribute must be known when compiling"),
                },
            },
        }
    }

    /// A list of dims in brackets.
    pub(crate) fn dims(&self, args: &[IndexArg]) -> Answer<Vec<Dim>> {
        let mut dims = Vec::new();
        for arg in args {
            match arg {
                IndexArg::Expr(e) => dims.push(self.dim(e)?),
                IndexArg::Spread(e) => dims.extend(self.pack(e)?),
                IndexArg::Broadcast(name) => match self.packs.get(&name.name) {
                    Some(list) => dims.extend(list.iter().cloned()),
                    None => return Err(Box::new(self.unknown_dim(name.name, name.span))),
                },
                IndexArg::Range(r) => return wrong(r.span, "a range is not a dim"),
                IndexArg::Full(span) => return wrong(*span, "`:` is not a dim"),
            }
        }
        Ok(dims)
    }
}
