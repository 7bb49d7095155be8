//! The table of scalar operations: what primitives and scalar code are made of.
//!
//! A new intrinsic needs one row here, one arm in the interpreter and one lowering.

use tensor::DType;

/// What an intrinsic takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Numbers of one type, giving that type.
    Number,
    /// Floats of one type, giving that type.
    Float,
    /// Integers of one type, giving that type.
    Integer,
    /// `bool`s, giving `bool`.
    Logic,
    /// Two values of one type, giving `bool`.
    Compare,
    /// `bool`, then two values of one type, giving that type.
    Select,
}

macro_rules! intrinsics {
    ($($variant:ident $name:literal $arity:literal $class:ident $doc:literal;)*) => {
        /// A scalar operation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Intrinsic { $(#[doc = $doc] $variant,)* }

        impl Intrinsic {
            /// Every intrinsic, in the order of the table.
            pub const ALL: &'static [Intrinsic] = &[$(Intrinsic::$variant,)*];

            /// Its name in the language.
            pub fn name(self) -> &'static str {
                match self { $(Intrinsic::$variant => $name,)* }
            }

            /// The intrinsic of a name.
            pub fn named(name: &str) -> Option<Intrinsic> {
                match name {
                    $($name => Some(Intrinsic::$variant),)*
                    _ => None,
                }
            }

            /// The number of arguments.
            pub fn arity(self) -> usize {
                match self { $(Intrinsic::$variant => $arity,)* }
            }

            /// What it takes and gives.
            pub fn class(self) -> Class {
                match self { $(Intrinsic::$variant => Class::$class,)* }
            }
        }
    };
}

intrinsics! {
    Add   "add"   2 Number  "Sum; integers wrap.";
    Sub   "sub"   2 Number  "Difference; integers wrap.";
    Mul   "mul"   2 Number  "Product; integers wrap.";
    Div   "div"   2 Number  "Quotient; integers round down, and dividing by 0 gives 0.";
    Rem   "rem"   2 Number  "What is left of `a` after division by `b` rounded down: exact, with the sign of `b`; an integer modulo 0 is 0.";
    Min   "min"   2 Number  "The smaller; NaN if either is; -0 is below +0.";
    Max   "max"   2 Number  "The larger; NaN if either is; +0 is above -0.";
    Neg   "neg"   1 Number  "Negation; integers wrap.";
    Abs   "abs"   1 Number  "Magnitude; integers wrap.";
    Sign  "sign"  1 Number  "-1, 0 or 1; zeros and NaN are themselves.";
    Floor "floor" 1 Float   "Rounds down.";
    Ceil  "ceil"  1 Float   "Rounds up.";
    Round "round" 1 Float   "Rounds to nearest, ties to even.";
    Trunc "trunc" 1 Float   "Rounds to zero.";
    Sqrt  "sqrt"  1 Float   "Square root, correctly rounded.";
    Rsqrt "rsqrt" 1 Float   "1 / sqrt(x).";
    Exp   "exp"   1 Float   "e to the power x.";
    Log   "log"   1 Float   "Natural logarithm.";
    Sin   "sin"   1 Float   "Sine of radians.";
    Cos   "cos"   1 Float   "Cosine of radians.";
    Tanh  "tanh"  1 Float   "Hyperbolic tangent.";
    Erf   "erf"   1 Float   "Error function.";
    Sigmoid "sigmoid" 1 Float "1 / (1 + exp(-x)).";
    Expm1 "expm1" 1 Float   "exp(x) - 1, exact near 0.";
    Exp2  "exp2" 1 Float   "2 to the power x.";
    Log1p "log1p" 1 Float   "log(1 + x), exact near 0.";
    Log2  "log2" 1 Float   "Logarithm to base 2.";
    Tan   "tan" 1 Float   "Tangent of radians.";
    Asin  "asin" 1 Float   "The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1..1.";
    Acos  "acos" 1 Float   "The angle from 0 to pi whose cosine is x; NaN beyond -1..1.";
    Atan  "atan" 1 Float   "The angle from -pi/2 to pi/2 whose tangent is x.";
    Sinh  "sinh" 1 Float   "Hyperbolic sine.";
    Cosh  "cosh" 1 Float   "Hyperbolic cosine.";
    Asinh "asinh" 1 Float   "The number whose hyperbolic sine is x.";
    Acosh "acosh" 1 Float   "The number at or above 0 whose hyperbolic cosine is x; NaN below 1.";
    Atanh "atanh" 1 Float   "The number whose hyperbolic tangent is x; NaN beyond -1..1.";
    Pow   "pow"   2 Float   "Power, with the special cases of IEEE 754.";
    Eq    "eq"    2 Compare "Equal; NaN is not equal to itself.";
    Ne    "ne"    2 Compare "Not equal; true for NaN.";
    Lt    "lt"    2 Compare "Less; false for NaN.";
    Le    "le"    2 Compare "Less or equal; false for NaN.";
    Gt    "gt"    2 Compare "Greater; false for NaN.";
    Ge    "ge"    2 Compare "Greater or equal; false for NaN.";
    And   "and"   2 Logic   "Both.";
    Or    "or"    2 Logic   "Either.";
    Not   "not"   1 Logic   "Neither.";
    BitAnd "bit_and" 2 Integer "Bitwise and.";
    BitOr  "bit_or"  2 Integer "Bitwise or.";
    BitXor "bit_xor" 2 Integer "Bitwise exclusive or.";
    Shl    "shl"     2 Integer "Shift left; the count is taken modulo the width.";
    Shr    "shr"     2 Integer "Shift right, arithmetic for signed types; the count is taken modulo the width.";
    Select "select"  3 Select  "`select(c, a, b)`: a where c, else b; both are evaluated.";
}

impl Intrinsic {
    /// Whether it is a transcendental function: many instructions, where others are one or a few.
    pub fn is_transcendental(self) -> bool {
        matches!(
            self,
            Intrinsic::Exp
                | Intrinsic::Log
                | Intrinsic::Sin
                | Intrinsic::Cos
                | Intrinsic::Tanh
                | Intrinsic::Erf
                | Intrinsic::Sigmoid
                | Intrinsic::Expm1
                | Intrinsic::Exp2
                | Intrinsic::Log1p
                | Intrinsic::Log2
                | Intrinsic::Tan
                | Intrinsic::Asin
                | Intrinsic::Acos
                | Intrinsic::Atan
                | Intrinsic::Sinh
                | Intrinsic::Cosh
                | Intrinsic::Asinh
                | Intrinsic::Acosh
                | Intrinsic::Atanh
                | Intrinsic::Pow
        )
    }

    /// The type of the result, given the types of the arguments, or why there is none.
    pub fn result(self, args: &[DType]) -> Result<DType, String> {
        let name = self.name();
        if args.len() != self.arity() {
            return Err(format!("{name}: takes {} arguments, got {}", self.arity(), args.len()));
        }
        let values = if self == Intrinsic::Select { &args[1..] } else { args };
        if let Some(other) = values.iter().find(|&&d| d != values[0]) {
            return Err(format!("{name}: element types differ: {} vs {other}", values[0]));
        }
        let d = values[0];
        let ok = match self.class() {
            Class::Number => d != DType::Bool,
            Class::Float => d.is_float(),
            Class::Integer => d.is_int(),
            Class::Logic => d == DType::Bool,
            Class::Compare => true,
            Class::Select => args[0] == DType::Bool,
        };
        if !ok {
            return Err(format!("{name}: not defined for {}", args[0]));
        }
        Ok(if self.class() == Class::Compare { DType::Bool } else { d })
    }
}

/// How values are combined: by a reduction, or by an accumulating write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "each combines as the intrinsic of the same name")]
pub enum Combine {
    Add,
    Mul,
    Min,
    Max,
    And,
    Or,
}

impl Combine {
    /// One row a combiner: as a reduction, as an assignment, the intrinsic it folds with.
    pub const TABLE: [(Combine, &'static str, &'static str, Intrinsic); 6] = [
        (Combine::Add, "sum", "+=", Intrinsic::Add),
        (Combine::Mul, "prod", "*=", Intrinsic::Mul),
        (Combine::Min, "min", "min=", Intrinsic::Min),
        (Combine::Max, "max", "max=", Intrinsic::Max),
        (Combine::And, "all", "and=", Intrinsic::And),
        (Combine::Or, "any", "or=", Intrinsic::Or),
    ];

    fn row(self) -> &'static (Combine, &'static str, &'static str, Intrinsic) {
        &Combine::TABLE[Combine::TABLE.iter().position(|r| r.0 == self).expect("every combiner has a row")]
    }

    /// The combiner of a reduction's name: `sum`.
    pub fn reduction(name: &str) -> Option<Combine> {
        Combine::TABLE.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// The combiner of an assignment's: `add` for `+=`.
    pub fn assignment(name: &str) -> Option<Combine> {
        Combine::TABLE.iter().find(|r| r.3.name() == name).map(|r| r.0)
    }

    /// `sum`
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// `+=`
    pub fn token(self) -> &'static str {
        self.row().2
    }

    /// What it folds with.
    pub fn intrinsic(self) -> Intrinsic {
        self.row().3
    }

    /// The value of an empty reduction: 0, 1, the largest, the smallest, true, false.
    pub fn identity(self, dtype: DType) -> Literal {
        let extreme = |largest: bool| {
            if dtype.is_float() {
                return Literal::Float(if largest { f64::INFINITY } else { f64::NEG_INFINITY });
            }
            if dtype == DType::U8 {
                return Literal::Int(if largest { 255 } else { 0 });
            }
            let top = i64::MAX >> (64 - 8 * dtype.size());
            Literal::Int(if largest { top } else { -top - 1 })
        };
        let number = |i: i64| if dtype.is_float() { Literal::Float(i as f64) } else { Literal::Int(i) };
        match self {
            Combine::Add => number(0),
            Combine::Mul => number(1),
            Combine::Min => extreme(true),
            Combine::Max => extreme(false),
            Combine::And => Literal::Int(1),
            Combine::Or => Literal::Int(0),
        }
    }
}

/// A scalar constant: an integer or `bool` (0, 1), or a float.
///
/// Floats are equal where their bits are: a NaN is itself, and -0 is not 0.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// Of an integer type or bool.
    Int(i64),
    /// Of a float type.
    Float(f64),
}
