//! Random programs as trees, every production of the grammar among them.
//!
//! A program is decided by a string of bytes: each choice eats one. So proptest's shrinking of bytes
//! shrinks programs, and when the bytes run out every choice is the first, which ends all recursion.

use ir::ast::*;
use ir::source::Span;
use shape::Sym;

/// Choices to come.
pub struct Choices<'a>(pub &'a [u8]);

const NAMES: [&str; 16] = [
    "x", "y", "scale", "block", "from", "min", "max", "sum", "config", "test", "rule", "record", "T",
    "decode", "_", "n1",
];

impl Choices<'_> {
    fn pick(&mut self, n: usize) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first as usize % n
            }
            None => 0,
        }
    }

    fn flag(&mut self) -> bool {
        self.pick(2) == 1
    }

    fn some<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    /// `least` or a few more.
    fn many<T>(&mut self, least: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let n = least + self.pick(4);
        (0..n).map(|_| make(self)).collect()
    }

    fn ident(&mut self) -> Ident {
        ident(NAMES[self.pick(NAMES.len())])
    }

    fn text(&mut self) -> String {
        ["", "plain", "a \"quote\"", "tab\tline\n\\", "// no comment"][self.pick(5)].to_string()
    }

    /// A file.
    pub fn file(&mut self) -> File {
        let items = self.many(1, Self::item);
        let doc = if self.flag() { vec!["About.".into(), String::new(), "More.".into()] } else { vec![] };
        File { doc, items, ..File::default() }
    }

    fn item(&mut self) -> Item {
        let doc = if self.flag() { vec!["Says what it is.".into()] } else { vec![] };
        let attrs = if self.pick(4) == 3 { self.many(1, Self::attr) } else { vec![] };
        let kind = match self.pick(12) {
            0 => ItemKind::Use(self.many(1, Self::ident)),
            1 => ItemKind::Const(self.ident(), self.some(Self::ty), self.expr()),
            2 => ItemKind::Fn(FnDef { sig: self.signature(), ret: self.some(Self::ty), body: self.block() }),
            3 => ItemKind::Prim(PrimDef {
                sig: self.signature(),
                outs: self.many(1, Self::out),
                body: self.block(),
            }),
            4 => ItemKind::Extern(ExternDef {
                library: self.text(),
                sig: self.signature(),
                outs: self.many(1, Self::out),
                symbol: self.ident(),
                args: self.many(0, Self::expr),
                success: self.some(|g| i64::from(g.flag())),
            }),
            5 => ItemKind::Rule(RuleDef {
                sig: self.signature(),
                lhs: self.expr(),
                both_ways: self.flag(),
                rhs: self.expr(),
            }),
            6 => ItemKind::Schedule(ScheduleDef {
                prim: self.ident(),
                target: self.many(0, Self::ident),
                steps: self.many(0, |c| Directive {
                    verb: c.ident(),
                    args: c.many(0, |c| match c.pick(4) {
                        3 => (vec![], Some(7)),
                        _ => (c.many(1, Self::ident), c.some(|c| c.pick(100) as i64)),
                    }),
                }),
            }),
            10 => ItemKind::Pipeline(PipelineDef {
                name: self.ident(),
                steps: self.many(0, |c| Directive {
                    verb: c.ident(),
                    args: c.many(0, |c| match c.pick(4) {
                        3 => (vec![], Some(7)),
                        _ => (c.many(1, Self::ident), None),
                    }),
                }),
            }),
            7 => ItemKind::Encoding(EncodingDef {
                name: self.ident(),
                generics: self.many(0, Self::generic),
                block: self.expr(),
                fields: self.many(0, |c| Param { ty: Some(c.ty()), ..c.out() }),
                decode: (self.ident(), self.ident()),
                value: self.expr(),
            }),
            8 => ItemKind::Config(self.many(0, |c| match c.pick(4) {
                0 => {
                    let source = Source { tried: vec![], default: c.some(Self::expr) };
                    ConfigField::Declare(c.many(1, Self::ident), c.ty(), source)
                }
                1 => ConfigField::Declare(vec![c.ident()], c.ty(), c.source()),
                2 => ConfigField::Define(c.ident(), c.expr()),
                _ => ConfigField::Assert(c.expr()),
            })),
            9 => {
                let state = self.flag();
                ItemKind::Record(RecordDef {
                    state,
                    name: self.ident(),
                    generics: self.many(0, Self::generic),
                    fields: self.many(0, |c| RecordField {
                        doc: if c.flag() { vec!["A field.".into()] } else { vec![] },
                        name: c.ident(),
                        ty: c.ty(),
                        from: if state { Source::default() } else { c.source() },
                        kept: state.then(|| Kept { by: c.ident(), within: c.some(Self::expr) }),
                    }),
                })
            }
            _ => ItemKind::Test(TestDef { name: self.text(), body: self.block() }),
        };
        Item { doc, attrs, kind, span: Span::default() }
    }

    /// `from "a" | verb("b") = e`
    fn source(&mut self) -> Source {
        let tried = self.many(0, |c| {
            let name = Expr { kind: ExprKind::Str(c.text()), span: Span::default() };
            if c.flag() {
                return name;
            }
            let verb = Expr { kind: ExprKind::Name(c.ident().name), span: Span::default() };
            let args = [name].into_iter().chain(c.many(0, Self::expr));
            let args = args.map(|value| Arg { name: None, value }).collect();
            Expr { kind: ExprKind::Call(Box::new(verb), args), span: Span::default() }
        });
        Source { tried, default: self.some(Self::expr) }
    }

    fn attr(&mut self) -> Attr {
        Attr { name: self.ident(), args: self.many(0, Self::arg) }
    }

    fn signature(&mut self) -> Signature {
        Signature {
            name: self.ident(),
            generics: self.many(0, Self::generic),
            params: self.many(0, |c| Param {
                mode: [Mode::Plain, Mode::Own, Mode::Const][c.pick(3)],
                name: c.ident(),
                ty: Some(c.ty()),
                default: c.some(Self::expr),
                span: Span::default(),
            }),
            wheres: self.many(0, Self::expr),
        }
    }

    fn generic(&mut self) -> Generic {
        match self.pick(3) {
            0 => Generic { kind: GenericKind::Dim, name: ident("n"), bounds: vec![] },
            1 => Generic { kind: GenericKind::Pack, name: ident("s"), bounds: vec![] },
            _ => Generic { kind: GenericKind::DType, name: ident("T"), bounds: self.many(0, Self::ident) },
        }
    }

    fn out(&mut self) -> Param {
        Param {
            mode: Mode::Plain,
            name: self.ident(),
            ty: self.some(Self::ty),
            default: None,
            span: Span::default(),
        }
    }

    fn ty(&mut self) -> TypeExpr {
        let kind = match self.pick(8) {
            0..=2 => TypeKind::Named {
                name: self.ident(),
                args: vec![],
                dims: self.some(|c| c.many(0, Self::index)),
            },
            3 => TypeKind::Named {
                name: self.ident(),
                args: self.many(1, Self::type_arg),
                dims: self.some(|c| c.many(0, Self::index)),
            },
            4 => TypeKind::Tuple(self.many(0, Self::ty)),
            5 => TypeKind::Array(Box::new(self.ty()), Box::new(self.expr())),
            6 => TypeKind::Fn(self.many(0, Self::ty), Box::new(self.ty())),
            _ => TypeKind::Exists(self.many(1, Self::exist), Box::new(self.ty())),
        };
        TypeExpr { kind, span: Span::default() }
    }

    /// A dim of an `exists`, alone or at the head of a condition.
    fn exist(&mut self) -> Exist {
        let name = self.ident();
        let left = Box::new(Expr { kind: ExprKind::Name(name.name), span: Span::default() });
        let fact = self.some(|c| {
            let op = [BinaryOp::Le, BinaryOp::Eq, BinaryOp::Rem, BinaryOp::And][c.pick(4)];
            Expr { kind: ExprKind::Binary(op, left, c.boxed()), span: Span::default() }
        });
        Exist { name: Some(name), fact }
    }

    /// What stands between `<` and `>`: a type, or a dim that is no name.
    fn type_arg(&mut self) -> TypeExpr {
        let kind = match self.pick(4) {
            0 => TypeKind::Dim(Box::new(Expr { kind: ExprKind::Int(7), span: Span::default() })),
            1 => {
                let name = ExprKind::Name(self.ident().name);
                let left = Box::new(Expr { kind: name, span: Span::default() });
                let right = Box::new(Expr { kind: ExprKind::Int(2), span: Span::default() });
                let op = if self.pick(2) == 0 { BinaryOp::Add } else { BinaryOp::Mul };
                let sum = ExprKind::Binary(op, left, right);
                TypeKind::Dim(Box::new(Expr { kind: sum, span: Span::default() }))
            }
            _ => return self.ty(),
        };
        TypeExpr { kind, span: Span::default() }
    }

    fn arg(&mut self) -> Arg {
        Arg { name: self.some(Self::ident), value: self.expr() }
    }

    fn index(&mut self) -> IndexArg {
        match self.pick(7) {
            5 => IndexArg::Range(Range {
                lo: None,
                hi: None,
                step: self.some(|c| Box::new(c.expr())),
                span: Span::default(),
            }),
            0 | 1 => IndexArg::Expr(self.expr()),
            2 => IndexArg::Spread(self.expr()),
            3 => IndexArg::Broadcast(self.ident()),
            4 => IndexArg::Full(Span::default()),
            _ => IndexArg::Range(Range {
                lo: Some(Box::new(self.expr())),
                hi: self.some(|c| Box::new(c.expr())),
                step: self.some(|c| Box::new(c.expr())),
                span: Span::default(),
            }),
        }
    }

    fn binder(&mut self) -> Binder {
        let pack = self.pick(4) == 3;
        let range = Range {
            lo: if pack { None } else { self.some(|c| Box::new(c.expr())) },
            hi: Some(Box::new(self.expr())),
            step: if pack { None } else { self.some(|c| Box::new(c.expr())) },
            span: Span::default(),
        };
        let attrs = if self.flag() { self.many(0, Self::attr) } else { vec![] };
        Binder { attrs, pack, name: self.ident(), range }
    }

    fn block(&mut self) -> Block {
        Block { stmts: self.many(0, Self::stmt), span: Span::default() }
    }

    fn pattern(&mut self) -> Pattern {
        match self.pick(4) {
            3 => Pattern::Tuple(self.many(0, Self::pattern), Span::default()),
            _ => Pattern::Name(self.ident()),
        }
    }

    fn stmt(&mut self) -> Stmt {
        let kind = match self.pick(9) {
            0 | 1 => StmtKind::Expr(self.expr()),
            2 => StmtKind::Let(self.pattern(), self.some(Self::ty), self.expr()),
            3 => StmtKind::Var(self.ident(), self.some(Self::ty), self.some(Self::expr)),
            4 => StmtKind::Dim(self.ident(), self.expr(), self.many(0, Self::expr)),
            5 => {
                let op = match self.pick(7) {
                    0 => AssignOp::Set,
                    n => AssignOp::Combine(ident(["add", "mul", "min", "max", "and", "or"][n - 1])),
                };
                StmtKind::Assign(self.expr(), op, self.expr())
            }
            6 => StmtKind::For(self.many(1, Self::binder), self.block()),
            7 => StmtKind::While(self.expr(), self.block()),
            _ => StmtKind::Assert(self.expr(), self.some(Self::text)),
        };
        Stmt { kind, span: Span::default() }
    }

    fn boxed(&mut self) -> Box<Expr> {
        Box::new(self.expr())
    }

    /// An expression.
    pub fn expr(&mut self) -> Expr {
        let kind = match self.pick(20) {
            0 | 1 => ExprKind::Name(self.ident().name),
            2 => ExprKind::Int([0, 1, 42, i64::MAX][self.pick(4)]),
            3 => {
                let text = ["0.5", "1e-5", "2.0", "1_0.25E+3"][self.pick(4)];
                ExprKind::Float(text.replace('_', "").parse().expect("a float"), text.into())
            }
            4 => ExprKind::Bool(self.flag()),
            5 => ExprKind::Str(self.text()),
            6 => ExprKind::Tuple(self.many(0, Self::expr)),
            7 => ExprKind::Array(self.many(0, Self::expr)),
            8 => ExprKind::Field(self.boxed(), self.ident()),
            9 => ExprKind::Call(self.boxed(), self.many(0, Self::arg)),
            10 => ExprKind::Index(self.boxed(), self.many(0, Self::index)),
            11 => ExprKind::Unary([UnaryOp::Neg, UnaryOp::Not][self.pick(2)], self.boxed()),
            12..=14 => {
                let op = BinaryOp::TABLE[self.pick(BinaryOp::TABLE.len())].0;
                ExprKind::Binary(op, self.boxed(), self.boxed())
            }
            15 => ExprKind::Reduce(self.ident(), self.many(1, Self::binder), self.boxed()),
            16 | 17 => {
                let (c, then) = (self.boxed(), self.block());
                let other = self.some(|c| match c.flag() {
                    true => c.block(),
                    false => {
                        let e = ExprKind::If(c.boxed(), c.block(), None);
                        let e = Expr { kind: e, span: Span::default() };
                        Block {
                            stmts: vec![Stmt { kind: StmtKind::Expr(e), span: Span::default() }],
                            span: Span::default(),
                        }
                    }
                });
                ExprKind::If(c, then, other)
            }
            18 => ExprKind::Block(self.block()),
            _ => ExprKind::Lambda(self.many(0, Self::out), self.boxed()),
        };
        Expr { kind, span: Span::default() }
    }
}

fn ident(name: &str) -> Ident {
    Ident { name: Sym::new(name), span: Span::default() }
}
