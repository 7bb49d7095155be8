//! Types as messages show them.

use std::fmt;

use shape::Expr as Dim;

use super::{Arg, Ty};

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        match self {
            Ty::Tensor(t) => t.fmt(f),
            Ty::Encoded(e) => write!(f, "{}[{}]", e.name, list(e.shape.iter().map(Dim::to_string).collect())),
            Ty::Several(s) => {
                let dims = s.front.iter().chain(&s.shape);
                write!(f, "({})[{}]", s.name, list(dims.map(Dim::to_string).collect()))
            }
            Ty::Tuple(parts) => write!(f, "({})", list(parts.iter().map(Ty::to_string).collect())),
            Ty::Record(r) if r.args.is_empty() => write!(f, "{}", r.name),
            Ty::Record(r) => {
                let arg = |a: &Arg| match a {
                    Arg::Dim(d) => d.to_string(),
                    Arg::Elem(_, name) => name.to_string(),
                };
                write!(f, "{}<{}>", r.name, list(r.args.iter().map(arg).collect()))
            }
            Ty::Array(k, of) => write!(f, "[{of}; {k}]"),
            Ty::Fn => write!(f, "fn"),
        }
    }
}
