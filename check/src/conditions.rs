//! Constraints: what a `where` says, as predicates over dims, and in words where it does not hold.
//!
//! A condition on attributes and ranks alone is decided while checking: it adds no predicate, or is an error. `a || b`
//! is a condition where one side is decided: `mode != "reflect" || low < s` asks for the second in that mode only.

use ir::ast::{BinaryOp, Expr, ExprKind, IndexArg, UnaryOp};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};

use crate::bind::names_in;
use crate::env::{Answer, Const, Env};

/// What is wrong with a condition that compares nothing.
fn no_condition(e: &Expr) -> Diagnostic {
    let d = Diagnostic::error("E0307", e.span, "a condition on dims compares two of them");
    if let ExprKind::Binary(BinaryOp::Or, ..) = &e.kind {
        return d.help("only `&&` and commas join conditions; choose between cases with `if` in the body");
    }
    d.help("write a comparison: `n % 4 == 0`, `n <= 4096`")
}

impl Env {
    /// The answer of a condition that speaks of attributes and ranks alone. A branch on one is taken while checking.
    pub(crate) fn decided(&self, e: &Expr) -> Option<bool> {
        match &e.kind {
            ExprKind::Paren(e) => self.decided(e),
            ExprKind::Name(name) => match self.known(*name) {
                Some(Const::Bool(b)) => Some(*b),
                _ => None,
            },
            ExprKind::Unary(UnaryOp::Not, a) => Some(!self.decided(a)?),
            ExprKind::Binary(op, a, b) => match op {
                BinaryOp::And => Some(self.decided(a)? && self.decided(b)?),
                BinaryOp::Or => Some(self.decided(a)? || self.decided(b)?),
                BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                    if !self.is_of_attributes(a) && !self.is_of_attributes(b) {
                        return None;
                    }
                    let (a, b) = (self.constant(a).ok()?, self.constant(b).ok()?);
                    let order = match (&a, &b) {
                        (Const::Int(a), Const::Int(b)) => a.cmp(b),
                        (Const::Text(a), Const::Text(b)) => a.cmp(b),
                        _ => return None,
                    };
                    Some(match op {
                        BinaryOp::Eq => order.is_eq(),
                        BinaryOp::Ne => order.is_ne(),
                        BinaryOp::Lt => order.is_lt(),
                        BinaryOp::Le => order.is_le(),
                        BinaryOp::Gt => order.is_gt(),
                        _ => order.is_ge(),
                    })
                }
                BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::Mul
                | BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::MatMul => None,
            },
            _ => None,
        }
    }

    fn is_of_attributes(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Paren(e) | ExprKind::Unary(_, e) => self.is_of_attributes(e),
            ExprKind::Name(name) => self.known(*name).is_some(),
            ExprKind::Field(_, f) => f.name.name() == "rank",
            ExprKind::Binary(_, a, b) => self.is_of_attributes(a) || self.is_of_attributes(b),
            _ => false,
        }
    }

    /// `pad: `low >= 0` does not hold: low is -1`
    pub(crate) fn broken(&self, callee: &str, e: &Expr, at: Span) -> Diagnostic {
        let known = self.described(e);
        let colon = if known.is_empty() { "" } else { ": " };
        let text = format!("{callee}: `{}` does not hold{colon}{known}", condition_text(e));
        Diagnostic::error("E0308", at, text)
    }

    /// `k is 5, s is [2, 4]`: what the names in a condition stand for.
    pub(crate) fn described(&self, e: &Expr) -> String {
        let mut names: Vec<Sym> = Vec::new();
        for name in names_in(e) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let list =
            |items: &mut dyn Iterator<Item = String>| format!("[{}]", items.collect::<Vec<_>>().join(", "));
        let value = |name: &Sym| match (self.consts.get(name), self.dims.get(name), self.packs.get(name)) {
            (Some(c), ..) => Some(c.shown()),
            (None, Some(d), _) => Some(d.to_string()),
            (None, None, Some(p)) => Some(list(&mut p.iter().map(Dim::to_string))),
            (None, None, None) => None,
        };
        let known =
            names.iter().filter_map(|n| value(n).filter(|v| v != n.name()).map(|v| format!("{n} is {v}")));
        known.collect::<Vec<_>>().join(", ")
    }

    /// A condition that is decided not to hold.
    fn refused(&self, e: &Expr) -> Diagnostic {
        let d = Diagnostic::error("E0308", e.span, format!("`{}` does not hold", condition_text(e)));
        if let ExprKind::Binary(BinaryOp::Eq, a, b) = &e.kind
            && let (Ok(x), Ok(y)) = (self.dim(a), self.dim(b))
        {
            return d.note(format!("`{}` cannot hold", Pred::Eq(x, y)));
        }
        let given = names_in(e).into_iter().find_map(|n| match self.consts.get(&n) {
            Some(Const::Text(t)) => Some(t),
            _ => None,
        });
        let near = given.and_then(|t| ir::diag::nearest(t, texts_in(e)));
        match near {
            Some(near) => d.help(format!("did you mean `\"{near}\"`?")),
            None => d,
        }
    }

    /// A condition of a `where`: conjunctions of comparisons of dims.
    pub(crate) fn preds(&self, e: &Expr, out: &mut Vec<Pred>) -> Answer<()> {
        match self.decided(e) {
            Some(true) => return Ok(()),
            Some(false) => {
                return Err(Box::new(self.refused(e)));
            }
            None => {}
        }
        match &e.kind {
            ExprKind::Paren(e) => self.preds(e, out),
            ExprKind::Binary(BinaryOp::And, a, b) => {
                self.preds(a, out)?;
                self.preds(b, out)
            }
            ExprKind::Binary(BinaryOp::Or, a, b) => match (self.decided(a), self.decided(b)) {
                (Some(true), _) | (_, Some(true)) => Ok(()),
                (Some(false), _) => self.preds(b, out),
                (_, Some(false)) => self.preds(a, out),
                (None, None) => Err(Box::new(no_condition(e))),
            },
            ExprKind::Binary(op, a, b) => {
                let make: fn(Dim, Dim) -> Pred = match op {
                    BinaryOp::Eq => Pred::Eq,
                    BinaryOp::Ne => Pred::Ne,
                    BinaryOp::Lt => Pred::Lt,
                    BinaryOp::Le => Pred::Le,
                    BinaryOp::Gt => |a, b| Pred::Lt(b, a),
                    BinaryOp::Ge => |a, b| Pred::Le(b, a),
                    BinaryOp::Or
                    | BinaryOp::And
                    | BinaryOp::Add
                    | BinaryOp::Sub
                    | BinaryOp::Mul
                    | BinaryOp::Div
                    | BinaryOp::Rem
                    | BinaryOp::MatMul => return Err(Box::new(no_condition(e))),
                };
                if self.is_list(a) || self.is_list(b) {
                    return self.preds_of_lists(make, a, b, e.span, out);
                }
                out.push(make(self.dim(a)?, self.dim(b)?));
                Ok(())
            }
            _ => Err(Box::new(no_condition(e))),
        }
    }

    /// `s.without(axis) == t.without(axis)`: a condition for each item.
    fn preds_of_lists(
        &self,
        make: fn(Dim, Dim) -> Pred,
        a: &Expr,
        b: &Expr,
        span: Span,
        out: &mut Vec<Pred>,
    ) -> Answer<()> {
        let rank = self.pack(if self.is_list(a) { a } else { b })?.len();
        let of = |e: &Expr| if self.is_list(e) { self.pack(e) } else { Ok(vec![self.dim(e)?; rank]) };
        let (x, y) = (of(a)?, of(b)?);
        if x.len() != y.len() {
            let items = |n| ir::diag::count_of(n, "axis", "axes");
            let text = format!(
                "`{}` has {}, and `{}` has {}",
                condition_text(a),
                items(x.len()),
                condition_text(b),
                items(y.len())
            );
            return Err(Box::new(Diagnostic::error("E0302", span, text)));
        }
        out.extend(x.into_iter().zip(y).map(|(x, y)| make(x, y)));
        Ok(())
    }
}

/// The texts that a condition compares with.
pub(crate) fn texts_in(e: &Expr) -> Vec<&str> {
    match &e.kind {
        ExprKind::Str(s) => vec![s],
        ExprKind::Paren(e) | ExprKind::Unary(_, e) => texts_in(e),
        ExprKind::Binary(_, a, b) => [texts_in(a), texts_in(b)].concat(),
        _ => vec![],
    }
}

/// A condition, or a dim or list in it, as it is written.
pub(crate) fn condition_text(e: &Expr) -> String {
    let all = |items: Vec<String>| items.join(", ");
    match &e.kind {
        ExprKind::Int(i) => i.to_string(),
        ExprKind::Float(_, text) => text.clone(),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Str(s) => format!("\"{s}\""),
        ExprKind::Name(n) => n.to_string(),
        ExprKind::Paren(e) => format!("({})", condition_text(e)),
        ExprKind::Array(items) => format!("[{}]", all(items.iter().map(condition_text).collect())),
        ExprKind::Field(base, f) => format!("{}.{}", condition_text(base), f.name),
        ExprKind::Call(f, args) => {
            format!("{}({})", condition_text(f), all(args.iter().map(|a| condition_text(&a.value)).collect()))
        }
        ExprKind::Index(base, args) => {
            let arg = |a: &IndexArg| match a {
                IndexArg::Expr(e) => condition_text(e),
                IndexArg::Spread(e) => format!("..{}", condition_text(e)),
                IndexArg::Broadcast(n) => format!("~{}", n.name),
                IndexArg::Range(_) | IndexArg::Full(_) => ":".to_owned(),
            };
            format!("{}[{}]", condition_text(base), all(args.iter().map(arg).collect()))
        }
        ExprKind::Unary(UnaryOp::Neg, e) => format!("-{}", condition_text(e)),
        ExprKind::Unary(UnaryOp::Not, e) => format!("!{}", condition_text(e)),
        ExprKind::Binary(op, a, b) => {
            format!("{} {} {}", condition_text(a), op.token(), condition_text(b))
        }
        _ => "..".to_owned(),
    }
}
