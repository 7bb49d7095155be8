//! The module: every definition of a program, both levels side by side.

use std::collections::BTreeSet;

use shape::{Facts, Pred, Sym};
use tensor::DType;

use crate::graph::Func;
use crate::loops::{Buf, BufId, Prim, Scalar};
use crate::pipeline::{Pipeline, PipelineId};
use crate::source::Span;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);
    )*};
}

id! {
    /// An index in [`Module::funcs`].
    FuncId;
    /// An index in [`Module::prims`].
    PrimId;
    /// An index in [`Module::externs`].
    ExternId;
    /// An index in [`Module::rules`].
    RuleId;
}

/// A checked program.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Graph functions.
    pub funcs: Vec<Func>,
    /// Instances of primitives.
    pub prims: Vec<Prim>,
    /// Library functions.
    pub externs: Vec<Extern>,
    /// Rewrite rules.
    pub rules: Vec<Rule>,
    /// Tests, in the order of the text.
    pub tests: Vec<Test>,
    /// What its configs declare, in the order of the text.
    pub settings: Vec<Setting>,
    /// Pipelines: the library's, then those of modules and the program's own.
    pub pipelines: Vec<Pipeline>,
}

/// A dim or number that a checkpoint's config gives. A function has it among its dims or parameters, under the
/// same name, if it needs it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub name: Sym,
    /// The type of a number; none: a dim.
    pub dtype: Option<DType>,
    /// Its name in the checkpoint's config, where it is another: `rope.theta` for a value in a value.
    pub from: Option<String>,
    /// What it is, where those before it tell: `hidden / heads`. It is asked of nobody.
    pub is: Option<shape::Expr>,
}

/// The dim that counts a config's dim in blocks of so many.
pub fn blocks_of(dim: &str, elements: i64) -> String {
    format!("{dim}.blocks.{elements}")
}

/// What such a dim counts: a config's dim, and how many elements a block has.
pub fn counted_in_blocks(name: &str) -> Option<(&str, i64)> {
    let (dim, elements) = name.split_once(".blocks.")?;
    Some((dim, elements.parse().ok().filter(|n| *n > 0)?))
}

/// A test: a function without parameters that asserts.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Its body.
    pub func: FuncId,
}

/// A library function bound in text.
#[derive(Clone, Debug)]
pub struct Extern {
    /// The name in the language.
    pub name: Sym,
    /// The shared library.
    pub library: String,
    /// The C symbol.
    pub symbol: String,
    /// The dims it is generic over.
    pub dims: Vec<Sym>,
    /// What its `where` says.
    pub facts: Facts,
    /// The inputs.
    pub params: Vec<BufId>,
    /// The outputs.
    pub outs: Vec<BufId>,
    /// Inputs and outputs.
    pub bufs: Vec<Buf>,
    /// The C arguments.
    pub args: Vec<CArg>,
    /// Outputs that begin as an input, whose axes are their last: what a function that adds to its output adds to.
    pub begins: Vec<(BufId, BufId)>,
    /// The C function gives an int, which is this one unless it failed.
    pub success: Option<i32>,
    /// What it computes, in Tenon's own words: the left side of a rule whose right side is just its call.
    pub meaning: Option<RuleId>,
    /// The definition in the source.
    pub span: Span,
}

impl Extern {
    /// The binding as a primitive without a body: the same arguments, and the same text for each number.
    pub fn shell(&self) -> Prim {
        Prim {
            name: self.name.name().to_string(),
            def: self.name,
            dims: self.dims.clone(),
            facts: self.facts.clone(),
            params: self.params.clone(),
            outs: self.outs.clone(),
            bufs: self.bufs.clone(),
            vars: Vec::new(),
            body: Vec::new(),
            invariant: false,
            span: self.span,
        }
    }
}

/// An argument of a C function.
#[derive(Clone, Debug)]
pub enum CArg {
    /// The address of a buffer's first element.
    Buf(BufId),
    /// A number; its range is checked where the C type is narrower than the value's.
    Number(CType, Scalar),
    /// The address of such a number, as Fortran's functions want each.
    Address(CType, Scalar),
}

/// The C types of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of C")]
pub enum CType {
    Char,
    Int8,
    UInt8,
    Int32,
    Int,
    Long,
    SizeT,
    Float,
    Double,
}

impl CType {
    /// The C type of a name in the language: `c_int`.
    pub fn named(name: &str) -> Option<CType> {
        Some(match name {
            "c_char" => CType::Char,
            "i8" => CType::Int8,
            "u8" => CType::UInt8,
            "i32" => CType::Int32,
            "c_int" => CType::Int,
            "c_long" | "i64" => CType::Long,
            "c_size_t" => CType::SizeT,
            "f32" | "c_float" => CType::Float,
            "f64" | "c_double" => CType::Double,
            _ => return None,
        })
    }

    /// Its name in the language.
    pub fn name(self) -> &'static str {
        match self {
            CType::Char => "c_char",
            CType::Int8 => "i8",
            CType::UInt8 => "u8",
            CType::Int32 => "i32",
            CType::Int => "c_int",
            CType::Long => "c_long",
            CType::SizeT => "c_size_t",
            CType::Float => "f32",
            CType::Double => "f64",
        }
    }

    /// The type of the values that become it. An int and a size come from dims, which are longer, and are checked.
    pub fn value(self) -> DType {
        match self {
            CType::Char | CType::UInt8 => DType::U8,
            CType::Int8 => DType::I8,
            CType::Int32 => DType::I32,
            CType::Int | CType::Long | CType::SizeT => DType::I64,
            CType::Float => DType::F32,
            CType::Double => DType::F64,
        }
    }
}

/// A rule: two functions of the same parameters that give the same values wherever the condition holds.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: Sym,
    /// The name in the source, which all instances of a generic rule have.
    pub written: Sym,
    /// The pattern. Its body uses only calls, constants and dims.
    pub lhs: Func,
    /// What equals it; same dims, same parameters.
    pub rhs: Func,
    /// Also from right to left.
    pub both_ways: bool,
    /// The condition; unknown means that the rule does not fire.
    pub when: Vec<Pred>,
    /// Which parameters must be known when loading (`const w`).
    pub constant: Vec<bool>,
    /// By what its right side may be off, as a part of the propagated magnitude of what it is computed from
    /// (`#[tolerance(t)]`); none: the sides are equal.
    pub tolerance: Option<f64>,
    /// What it is called together with others: a file of the library's rules, or `own` for those of the program.
    pub family: Sym,
    /// True for an instance with another rank or attribute than those that are tried: for a proof to be of these too.
    pub more: bool,
    /// The definition in the source.
    pub span: Span,
}

impl Module {
    /// A function.
    pub fn func(&self, id: FuncId) -> &Func {
        &self.funcs[id.0 as usize]
    }

    /// A primitive.
    pub fn prim(&self, id: PrimId) -> &Prim {
        &self.prims[id.0 as usize]
    }

    /// A library function.
    pub fn extern_(&self, id: ExternId) -> &Extern {
        &self.externs[id.0 as usize]
    }

    /// A rule.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.0 as usize]
    }

    /// Some functions and all that they call.
    pub fn reached(&self, from: impl IntoIterator<Item = FuncId>) -> BTreeSet<FuncId> {
        let mut open: Vec<FuncId> = from.into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(id) = open.pop() {
            if found.insert(id) {
                open.extend(self.func(id).body.calls());
            }
        }
        found
    }

    /// The function of a name.
    pub fn find(&self, name: &str) -> Option<FuncId> {
        self.funcs.iter().position(|f| f.name == name).map(|i| FuncId(i as u32))
    }

    /// A pipeline.
    pub fn pipeline(&self, id: PipelineId) -> &Pipeline {
        &self.pipelines[id.0 as usize]
    }

    /// The pipeline of a name. One of the library has that of the module `std` besides, and no other where a definition
    /// of the program hides it.
    pub fn find_pipeline(&self, name: &str) -> Option<PipelineId> {
        let find = |name: &str| self.pipelines.iter().position(|p| p.name.name() == name);
        let other = || match name.strip_prefix("std.") {
            Some(plain) => find(plain),
            None => find(&format!("std.{name}")),
        };
        find(name).or_else(other).map(|i| PipelineId(i as u32))
    }

    /// A name that no function has: this one, or one like it.
    pub fn unused(&self, name: &str) -> String {
        let mut name = name.to_owned();
        while self.find(&name).is_some() {
            name.push('_');
        }
        name
    }

    /// Adds a primitive; `name` is made unique.
    pub fn add_prim(&mut self, mut prim: Prim) -> PrimId {
        prim.name = numbered(&prim.name, |name| self.prims.iter().any(|p| p.name == name));
        self.prims.push(prim);
        PrimId(self.prims.len() as u32 - 1)
    }

    /// Adds a rule; `name` is made unique, as plans and what is known of rules go by it.
    pub fn add_rule(&mut self, mut rule: Rule) -> RuleId {
        let name = numbered(rule.name.name(), |name| self.rules.iter().any(|r| r.name.name() == name));
        rule.name = Sym::new(&name);
        self.rules.push(rule);
        RuleId(self.rules.len() as u32 - 1)
    }
}

/// The name, or the first of `name_2`, `name_3` .. that is free.
fn numbered(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = base.to_owned();
    let mut n = 1;
    while taken(&name) {
        n += 1;
        name = format!("{base}_{n}");
    }
    name
}
