//! What random programs are made of: expressions over parameters of given types.
//!
//! The left sides of all rules of `std/rules/*.tn`, and the right sides of those that hold both ways, read from the
//! library's text; and the operators of `operators.tn` around them. Each says what it takes by the signature it stands
//! under, so a new rule or a new line of that file is all that is needed to have it in the programs.

use std::path::Path;

use ir::ast::{
    self, BinaryOp, Expr, ExprKind, GenericKind, Ident, IndexArg, ItemKind, Mode, Signature, StmtKind,
    TypeKind,
};
use ir::source::SourceId;
use tensor::DType;

/// The operators that stand around the rules' patterns.
const OPERATORS: &str = include_str!("operators.tn");

/// An expression and what it is over.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// The generics that are element types, with the types that each may be.
    pub(super) types: Vec<(String, Vec<DType>)>,
    pub(super) params: Vec<Param>,
    /// Dims that stand in no type: bounds of slices.
    pub(super) untold: Vec<String>,
    /// The values it makes.
    pub(super) values: usize,
    /// Its text, as words and what stands between them.
    pub(super) text: Vec<String>,
}

/// A parameter of a form.
#[derive(Debug, Clone)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What a parameter takes.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A tensor of an element type or an encoding, by name, and axes; made of weights alone, if the flag is set.
    Tensor(String, Vec<Axis>, bool),
    /// A number, a list of numbers, or true or false that is known when compiling.
    Attribute(String),
}

/// An axis of a parameter, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Axis {
    /// `..s`
    Pack(String),
    /// `n`
    Dim(String),
    /// `32 * n`, by its text, or `32`
    Blocks(String),
}

/// All forms.
#[derive(Debug)]
pub struct Forms {
    pub(super) patterns: Vec<Form>,
    pub(super) operators: Vec<Form>,
    /// The families of rules of one value.
    pub(super) families: Vec<String>,
    /// The names of the library's rules, those too whose patterns take what no form says.
    rules: Vec<String>,
}

impl Forms {
    /// The names of the library's rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(String::as_str)
    }

    /// Reads the library's rules.
    pub fn read() -> Result<Forms, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std/rules");
        let mut paths = Vec::new();
        crate::collect(&root, &mut paths).map_err(|e| format!("{}: {e}", root.display()))?;
        paths.sort();
        let (mut patterns, mut families, mut rules) = (Vec::new(), vec!["own".to_owned()], Vec::new());
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let file = parsed(&text)?;
            let forms = of_file(&file, &text);
            if forms.iter().any(|f| f.values == 1) {
                families.extend(path.file_stem().map(|s| s.to_string_lossy().into_owned()));
            }
            patterns.extend(forms);
            rules.extend(file.items.iter().filter_map(|item| {
                let ItemKind::Rule(def) = &item.kind else { return None };
                Some(def.sig.name.name.to_string())
            }));
        }
        let operators = of_file(&parsed(OPERATORS)?, OPERATORS);
        Ok(Forms { patterns, operators, families, rules })
    }
}

fn parsed(text: &str) -> Result<ast::File, String> {
    let (file, faults) = parser::parse(SourceId(0), text);
    faults.first().map_or(Ok(file), |f| Err(f.message.clone()))
}

fn of_file(file: &ast::File, text: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    for item in &file.items {
        if let ItemKind::Rule(def) = &item.kind {
            forms.extend(form(&def.sig, &def.lhs, text));
            forms.extend(form(&def.sig, &def.rhs, text).filter(|_| def.both_ways));
        } else if let ItemKind::Fn(def) = &item.kind
            && let Some(StmtKind::Expr(value)) = def.body.stmts.first().map(|s| &s.kind)
        {
            forms.extend(form(&def.sig, value, text));
        }
    }
    forms
}

fn form(sig: &Signature, side: &Expr, text: &str) -> Option<Form> {
    let named = |kind| sig.generics.iter().filter(move |g| g.kind == kind);
    let name = |g: &ast::Generic| g.name.name.to_string();
    let types = named(GenericKind::DType).map(|g| (name(g), allowed(&g.bounds))).collect();
    let params: Vec<Param> = sig.params.iter().map(param).collect::<Option<_>>()?;
    let told = |n: &str| {
        params.iter().any(|p| match &p.kind {
            Kind::Tensor(_, axes, _) => axes.contains(&Axis::Dim(n.to_owned())),
            Kind::Attribute(_) => false,
        })
    };
    let untold = named(GenericKind::Dim).map(name).filter(|n| !told(n)).collect();
    let values = if let ExprKind::Tuple(parts) = &side.kind { parts.len() } else { 1 };
    let text = &text[side.span.lo as usize..side.span.hi as usize];
    Some(Form { types, params, untold, values, text: words(text) })
}

fn param(p: &ast::Param) -> Option<Param> {
    let TypeKind::Named { name, dims, .. } = &p.ty.as_ref()?.kind else { return None };
    let element = name.name.to_string();
    let attribute = p.mode == Mode::Const && ["int", "ints", "bool"].contains(&element.as_str());
    let kind = if attribute && dims.is_none() {
        Kind::Attribute(element)
    } else {
        let axes = dims.iter().flatten().map(axis).collect::<Option<Vec<_>>>()?;
        Kind::Tensor(element, axes, p.mode == Mode::Const)
    };
    Some(Param { name: p.name.name.to_string(), kind })
}

fn axis(arg: &IndexArg) -> Option<Axis> {
    let name = |e: &Expr| if let ExprKind::Name(n) = &e.kind { Some(n.to_string()) } else { None };
    let block = |e: &Expr| matches!(e.kind, ExprKind::Int(32));
    match arg {
        IndexArg::Spread(e) => name(e).map(Axis::Pack),
        IndexArg::Expr(e) if block(e) => Some(Axis::Blocks("32".to_owned())),
        IndexArg::Expr(e) => {
            if let ExprKind::Binary(BinaryOp::Mul, left, many) = &e.kind {
                let many = name(many).filter(|_| block(left))?;
                return Some(Axis::Blocks(format!("32 * {many}")));
            }
            name(e).map(Axis::Dim)
        }
        IndexArg::Broadcast(_) | IndexArg::Range(_) | IndexArg::Full(_) => None,
    }
}

/// The element types that bounds allow.
fn allowed(bounds: &[Ident]) -> Vec<DType> {
    let allows = |bound: &Ident, d: DType| match bound.name.name() {
        "float" => d.is_float(),
        "int" => d.is_int(),
        "num" => d.is_float() || d.is_int(),
        name => d.name() == name,
    };
    DType::all().filter(|d| bounds.is_empty() || bounds.iter().any(|b| allows(b, *d))).collect()
}

/// A text as words and what stands between them; lines are joined.
fn words(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut within = false;
    for c in text.chars() {
        let word = c.is_alphanumeric() || c == '_';
        match out.last_mut() {
            Some(last) if word == within => last.push(c),
            _ => out.push(c.to_string()),
        }
        within = word;
    }
    out.iter().map(|w| w.replace('\n', " ")).collect()
}
