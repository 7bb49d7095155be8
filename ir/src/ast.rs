//! The program as it was written.
//!
//! One set of types carries both levels: a dim in a type, a scalar in a primitive and a tensor in a
//! graph function are all [`Expr`]s; what an expression means is decided by the checker from where
//! it stands. Parentheses are kept, so that printing gives back what was written.

use shape::Sym;

use crate::source::{SourceId, Span};

/// A file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Which text it came from.
    pub source: SourceId,
    /// `//!` lines at the top.
    pub doc: Vec<String>,
    /// The definitions, in order.
    pub items: Vec<Item>,
    /// Every `//` comment that is not documentation, in order, for the formatter.
    pub comments: Vec<Comment>,
    /// What the library calls the rules of this file together.
    pub family: Option<Sym>,
    /// What definitions that could not be read define, which has been said: uses of these are not reported.
    pub unread: Vec<Ident>,
}

/// A comment, kept for the formatter.
#[derive(Clone, Debug)]
pub struct Comment {
    /// Where it stands.
    pub span: Span,
    /// Its text, with the slashes, without the end of the line.
    pub text: String,
    /// True where only blanks stand before it on its line.
    pub own_line: bool,
}

/// A name where it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The name.
    pub name: Sym,
    /// Where.
    pub span: Span,
}

/// `#[name(args)]` before an item or a loop.
#[derive(Clone, Debug)]
pub struct Attr {
    /// The name.
    pub name: Ident,
    /// The arguments: `#[tile(8)]`, `#[config(hidden = 8)]`.
    pub args: Vec<Arg>,
}

/// A definition.
#[derive(Clone, Debug)]
pub struct Item {
    /// `///` lines before it, without the slashes.
    pub doc: Vec<String>,
    /// Attributes before it.
    pub attrs: Vec<Attr>,
    /// What it is.
    pub kind: ItemKind,
    /// From its first keyword to its end.
    pub span: Span,
}

/// The kinds of definitions.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// `use a.b`
    Use(Vec<Ident>),
    /// `const NAME: T = e`
    Const(Ident, Option<TypeExpr>, Expr),
    /// A graph-level function.
    Fn(FnDef),
    /// A tensor-level primitive.
    Prim(PrimDef),
    /// A binding of a C function.
    Extern(ExternDef),
    /// A rewrite rule.
    Rule(RuleDef),
    /// A schedule of a primitive.
    Schedule(ScheduleDef),
    /// The passes of rewriting, in order.
    Pipeline(PipelineDef),
    /// A storage encoding.
    Encoding(EncodingDef),
    /// `config { .. }`: dims and numbers that a checkpoint binds.
    Config(Vec<ConfigField>),
    /// A record of weights.
    Record(RecordDef),
    /// A test.
    Test(TestDef),
}

/// Name, generics and parameters: what every callable has.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The name.
    pub name: Ident,
    /// `<n, ..s, T: float>`
    pub generics: Vec<Generic>,
    /// `(x: f32[n], own kv: Cache, const axis: int)`
    pub params: Vec<Param>,
    /// `where n <= 4096, m % 4 == 0` (`when` of a rule).
    pub wheres: Vec<Expr>,
}

/// A generic parameter.
#[derive(Clone, Debug)]
pub struct Generic {
    /// `n`: a dim; `..s`: a pack of dims; `T`: an element type (it begins with a capital).
    pub kind: GenericKind,
    /// The name.
    pub name: Ident,
    /// `T: float | int`: the classes or types allowed; empty: any.
    pub bounds: Vec<Ident>,
}

/// What a generic parameter stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GenericKind {
    /// One dim.
    Dim,
    /// A list of dims.
    Pack,
    /// An element type or an encoding.
    DType,
}

/// How a parameter is passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Read.
    Plain,
    /// Consumed: the callee may update it in place.
    Own,
    /// Known when compiling (an axis, a permutation) or, in a rule, when loading (a weight).
    Const,
}

/// A parameter or a named output.
#[derive(Clone, Debug)]
pub struct Param {
    /// How it is passed.
    pub mode: Mode,
    /// The name.
    pub name: Ident,
    /// The type; only a parameter of a lambda may lack it.
    pub ty: Option<TypeExpr>,
    /// `= e`
    pub default: Option<Expr>,
    /// The whole.
    pub span: Span,
}

/// `fn name<..>(..) -> T where .. { .. }`
#[derive(Clone, Debug)]
pub struct FnDef {
    /// Name, generics, parameters, `where`.
    pub sig: Signature,
    /// The result.
    pub ret: Option<TypeExpr>,
    /// The body.
    pub body: Block,
}

/// `prim name<..>(..) -> y: T where .. { .. }`. An output named as an `own` parameter is that
/// parameter, updated in place, and needs no type.
#[derive(Clone, Debug)]
pub struct PrimDef {
    /// Name, generics, parameters, `where`.
    pub sig: Signature,
    /// The named outputs.
    pub outs: Vec<Param>,
    /// The body.
    pub body: Block,
}

/// `extern "lib" name<..>(..) -> (c: T = bias) where .. = symbol(args) == 0`
#[derive(Clone, Debug)]
pub struct ExternDef {
    /// The shared library.
    pub library: String,
    /// Name, generics, parameters, `where`.
    pub sig: Signature,
    /// The named outputs.
    pub outs: Vec<Param>,
    /// The C symbol.
    pub symbol: Ident,
    /// The C arguments.
    pub args: Vec<Expr>,
    /// What the C function, which gives an int, gives where it did its work; none: nothing is asked of what it gives.
    pub success: Option<i64>,
}

/// `rule name<..>(..) when .. { lhs => rhs }`
#[derive(Clone, Debug)]
pub struct RuleDef {
    /// Name, generics, parameters, `when`. Dims that the parameters name need not be listed.
    pub sig: Signature,
    /// The pattern.
    pub lhs: Expr,
    /// `<=>` instead of `=>`.
    pub both_ways: bool,
    /// What equals it.
    pub rhs: Expr,
}

/// `schedule prim for x86.avx512 { tile i 8, j 48; vectorize j.i }`
#[derive(Clone, Debug)]
pub struct ScheduleDef {
    /// The primitive.
    pub prim: Ident,
    /// The class of targets.
    pub target: Vec<Ident>,
    /// The directives, in order.
    pub steps: Vec<Directive>,
}

/// `pipeline quick { inline; saturate recognition, algebra, 2; fuse }`
#[derive(Clone, Debug)]
pub struct PipelineDef {
    /// The name.
    pub name: Ident,
    /// The passes, in order.
    pub steps: Vec<Directive>,
}

/// One directive of a schedule or pipeline.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The transformation, or the pass.
    pub verb: Ident,
    /// Loops, or rules, by path, each with an optional number; a number alone has an empty path.
    pub args: Vec<(Vec<Ident>, Option<i64>)>,
}

/// `encoding q8_0 { block 32 { scale: f16, q: i8[32] } decode(b, i) = e }`
#[derive(Clone, Debug)]
pub struct EncodingDef {
    /// The name.
    pub name: Ident,
    /// `<n>`, where a block is the whole axis: its extent.
    pub generics: Vec<Generic>,
    /// Elements a block.
    pub block: Expr,
    /// The fields of a block.
    pub fields: Vec<Param>,
    /// The parameters of `decode`: the block and the index in it.
    pub decode: (Ident, Ident),
    /// The value of an element.
    pub value: Expr,
}

/// A line of `config`: `hidden, heads: dim`, `head = hidden / heads` or `assert hidden % heads == 0`.
#[derive(Clone, Debug)]
pub enum ConfigField {
    /// Names of one type; one alone may say where a checkpoint's config has it.
    Declare(Vec<Ident>, TypeExpr, Source),
    /// A derived value.
    Define(Ident, Expr),
    /// What holds of every checkpoint.
    Assert(Expr),
}

/// `from "name" | verb("other", n) = default`: where a checkpoint has a value. Empty where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Names, or calls of verbs on names. The first that is there is taken.
    pub tried: Vec<Expr>,
    /// What it is where none is.
    pub default: Option<Expr>,
}

/// `by token within window`: how long a sequence keeps a part of its state.
#[derive(Clone, Debug)]
pub struct Kept {
    /// `token` or `sequence`.
    pub by: Ident,
    /// How many of the last tokens are looked at.
    pub within: Option<Expr>,
}

/// `record Layer<E> { q: E[n, m] from "path" }`, or `state Cache { full: Kv<f32, layers, g, d> by token }`
#[derive(Clone, Debug)]
pub struct RecordDef {
    /// True for what sequences keep between steps.
    pub state: bool,
    /// The name.
    pub name: Ident,
    /// Generics.
    pub generics: Vec<Generic>,
    /// The fields.
    pub fields: Vec<RecordField>,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct RecordField {
    /// Documentation lines.
    pub doc: Vec<String>,
    /// The name.
    pub name: Ident,
    /// The type.
    pub ty: TypeExpr,
    /// The tensor of a checkpoint it is read from.
    pub from: Source,
    /// Of a state, how it is kept.
    pub kept: Option<Kept>,
}

/// `test "name" { .. }`
#[derive(Clone, Debug)]
pub struct TestDef {
    /// The name.
    pub name: String,
    /// The body.
    pub body: Block,
}

/// A type as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// What it is.
    pub kind: TypeKind,
    /// Where.
    pub span: Span,
}

/// The kinds of types.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `f32`, `f32[n, 4*m]`, `T[..s]`, `dim`, `Layer<bf16>`, `Cache[n]`.
    Named {
        /// The name.
        name: Ident,
        /// `<..>`
        args: Vec<TypeExpr>,
        /// `[..]`; none: no brackets were written.
        dims: Option<Vec<IndexArg>>,
    },
    /// `(A, B)`
    Tuple(Vec<TypeExpr>),
    /// `[Layer; layers]`
    Array(Box<TypeExpr>, Box<Expr>),
    /// A generic that is a dim and no name: `3` and `n + 1` of `Layer<f32, 3, n + 1>`.
    Dim(Box<Expr>),
    /// `fn(A, B) -> C`
    Fn(Vec<TypeExpr>, Box<TypeExpr>),
    /// `exists k <= n, k % 2 == 0, j. f32[k, j]`
    Exists(Vec<Exist>, Box<TypeExpr>),
}

/// A dim of an `exists`, or what holds of such dims: `k`, `k <= n`, `0 == k % 2`.
#[derive(Clone, Debug)]
pub struct Exist {
    /// The dim that it names: what its condition begins with, unless that is a number.
    pub name: Option<Ident>,
    /// What holds, as in a `where`.
    pub fact: Option<Expr>,
}

impl Exist {
    /// The dims that an `exists` names, in order.
    pub fn names(all: &[Exist]) -> Vec<Ident> {
        let mut names: Vec<Ident> = Vec::new();
        for name in all.iter().filter_map(|e| e.name) {
            if names.iter().all(|n| n.name != name.name) {
                names.push(name);
            }
        }
        names
    }
}

/// An argument in brackets: of an index, a slice, a shape, or explicit generics.
#[derive(Clone, Debug)]
pub enum IndexArg {
    /// `e`
    Expr(Expr),
    /// `..e`: a pack spread in place; in an index of a tensor, the positions before `e`.
    Spread(Expr),
    /// `~s`: in a type, a shape that broadcasts to the pack `s`.
    Broadcast(Ident),
    /// `a..b`, `a..`, `a..b by s`, `.. by s`; `..` alone, the axes that no other argument names.
    Range(Range),
    /// `:`, a whole axis.
    Full(Span),
}

/// `lo..hi by step`, or an extent `hi` alone (from 0).
#[derive(Clone, Debug)]
pub struct Range {
    /// The first; none: 0.
    pub lo: Option<Box<Expr>>,
    /// One past the last; none: the end of the axis.
    pub hi: Option<Box<Expr>>,
    /// The step; none: 1.
    pub step: Option<Box<Expr>>,
    /// The whole.
    pub span: Span,
}

/// An expression.
///
/// The parser bounds how deeply expressions nest, except for one thing: a chain of infix operators
/// is as long as the file says, and its tree leans to the left just as deep. So dropping and cloning
/// walk that left spine in a loop ([`Expr::spine`] lets others do the same); for the sake of the
/// drop, the parts of an `Expr` cannot be moved out of it ([`Expr::into_kind`] does).
#[derive(Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

impl Expr {
    /// The name that its text begins with.
    pub fn first_name(&self) -> Option<Ident> {
        let (first, _) = self.spine();
        let ExprKind::Name(name) = first.kind else { return None };
        Some(Ident { name, span: first.span })
    }

    /// The kind, by value.
    pub fn into_kind(mut self) -> ExprKind {
        std::mem::replace(&mut self.kind, ExprKind::Error)
    }

    /// The left spine of infix operators: the innermost left operand, then each operation that has it
    /// on its left, from the inside out, with its right operand. `a + b * c - d` gives `a`, then
    /// `(.., +, b * c)` and `(.., -, d)`.
    pub fn spine(&self) -> (&Expr, Vec<(&Expr, BinaryOp, &Expr)>) {
        let mut steps = Vec::new();
        let mut at = self;
        while let ExprKind::Binary(op, left, right) = &at.kind {
            steps.push((at, *op, &**right));
            at = left;
        }
        steps.reverse();
        (at, steps)
    }
}

impl Drop for Expr {
    fn drop(&mut self) {
        if !matches!(self.kind, ExprKind::Binary(..)) {
            return;
        }
        let mut kind = std::mem::replace(&mut self.kind, ExprKind::Error);
        while let ExprKind::Binary(_, left, _right) = kind {
            kind = left.into_kind();
        }
    }
}

impl Clone for Expr {
    fn clone(&self) -> Expr {
        let (first, steps) = self.spine();
        let mut out = Expr { kind: first.kind.clone(), span: first.span };
        for (whole, op, right) in steps {
            out =
                Expr { kind: ExprKind::Binary(op, Box::new(out), Box::new(right.clone())), span: whole.span };
        }
        out
    }
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `42`
    Int(i64),
    /// `1.5`, with the text as written.
    Float(f64, String),
    /// `true`
    Bool(bool),
    /// `"text"`
    Str(String),
    /// `x`
    Name(Sym),
    /// `(e)`
    Paren(Box<Expr>),
    /// `()`, `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `x.T`
    Field(Box<Expr>, Ident),
    /// `f(x, axis=1)`
    Call(Box<Expr>, Vec<Arg>),
    /// `x[i, j]`, `ones[3]`, `reshape[n, 4]`
    Index(Box<Expr>, Vec<IndexArg>),
    /// `-x`, `!x`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `sum(i in m, j in n) e`: the body reaches as far to the right as it can.
    Reduce(Ident, Vec<Binder>, Box<Expr>),
    /// `if c { a } else { b }`
    If(Box<Expr>, Block, Option<Block>),
    /// `{ .. }`
    Block(Block),
    /// `|x, y| e`
    Lambda(Vec<Param>, Box<Expr>),
    /// What the parser left behind after a syntax error it reported.
    Error,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// `name=`
    pub name: Option<Ident>,
    /// The value.
    pub value: Expr,
}

/// `i in n`, `p in a..b`, `..i in ..s`, `#[lanes(16, 4)] j in n`
#[derive(Clone, Debug)]
pub struct Binder {
    /// How the loop runs.
    pub attrs: Vec<Attr>,
    /// A pack of variables over a pack of extents (`..s` stands in `range.hi`).
    pub pack: bool,
    /// The variable.
    pub name: Ident,
    /// Its range.
    pub range: Range,
}

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum UnaryOp {
    Neg,
    Not,
}

/// Infix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BinaryOp {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    MatMul,
}

impl BinaryOp {
    /// One row an operator: its token, its precedence (higher binds tighter), the operator of `std` it calls.
    pub const TABLE: [(BinaryOp, &'static str, u8, &'static str); 14] = [
        (BinaryOp::Or, "||", 1, "or"),
        (BinaryOp::And, "&&", 2, "and"),
        (BinaryOp::Eq, "==", 3, "eq"),
        (BinaryOp::Ne, "!=", 3, "ne"),
        (BinaryOp::Lt, "<", 3, "lt"),
        (BinaryOp::Le, "<=", 3, "le"),
        (BinaryOp::Gt, ">", 3, "gt"),
        (BinaryOp::Ge, ">=", 3, "ge"),
        (BinaryOp::Add, "+", 4, "add"),
        (BinaryOp::Sub, "-", 4, "sub"),
        (BinaryOp::Mul, "*", 5, "mul"),
        (BinaryOp::Div, "/", 5, "div"),
        (BinaryOp::Rem, "%", 5, "rem"),
        (BinaryOp::MatMul, "@", 5, "matmul"),
    ];

    fn row(self) -> &'static (BinaryOp, &'static str, u8, &'static str) {
        &Self::TABLE[Self::TABLE.iter().position(|r| r.0 == self).expect("every operator has a row")]
    }

    /// The token.
    pub fn token(self) -> &'static str {
        self.row().1
    }

    /// Higher binds tighter; every level associates to the left, comparisons not at all.
    pub fn precedence(self) -> u8 {
        self.row().2
    }

    /// The operator it calls: `+` is `add`.
    pub fn callee(self) -> &'static str {
        self.row().3
    }
}

/// Statements between braces; the last one, if it is an expression, is the value.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `let (a, b): T = e`
    Let(Pattern, Option<TypeExpr>, Expr),
    /// `var x: T = e`: may be assigned; in a primitive without a value, a local buffer of zeros.
    Var(Ident, Option<TypeExpr>, Option<Expr>),
    /// `dim k = e where k <= n`: an integer computed at run time becomes a dim, checked.
    Dim(Ident, Expr, Vec<Expr>),
    /// `y[i] = e`, `y[i] += e`, `y[i] max= e`
    Assign(Expr, AssignOp, Expr),
    /// `for i in m, j in n { .. }`
    For(Vec<Binder>, Block),
    /// `while c { .. }`
    While(Expr, Block),
    /// `assert c, "message"`
    Assert(Expr, Option<String>),
    /// An expression: the block's value when it is the last.
    Expr(Expr),
}

/// How an assignment combines with what was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignOp {
    /// `=`
    Set,
    /// `+=`, `*=`, `min=`, `max=`: the name of the combiner (`add`, `mul`, `min`, `max`, `and`, `or`).
    Combine(Ident),
}

/// What a `let` binds.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A name; `_` binds nothing.
    Name(Ident),
    /// `(a, b)`
    Tuple(Vec<Pattern>, Span),
}

impl Pattern {
    /// The names it gives a meaning, in order.
    pub fn names(&self) -> Vec<Ident> {
        match self {
            Pattern::Name(name) => vec![*name],
            Pattern::Tuple(parts, _) => parts.iter().flat_map(Pattern::names).collect(),
        }
    }
}
