//! The values of dims: a scoped environment, and finding them from the shapes of tensors.

use shape::{EvalError, Expr as Dim, Pred, Sym};

/// Dims and their values; the latest binding of a name is the one in force.
#[derive(Clone, Default)]
pub(crate) struct Dims(Vec<(Sym, i64)>);

impl Dims {
    /// The value of a dim.
    pub(crate) fn get(&self, sym: Sym) -> Option<i64> {
        self.0.iter().rev().find(|b| b.0 == sym).map(|b| b.1)
    }

    /// Gives a dim a value, until [`Dims::back_to`] an earlier mark.
    pub(crate) fn bind(&mut self, sym: Sym, value: i64) {
        self.0.push((sym, value));
    }

    /// A mark of the bindings so far.
    pub(crate) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Forgets what was bound since the mark.
    pub(crate) fn back_to(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// The value of an expression.
    pub(crate) fn eval(&self, e: &Dim) -> Result<i64, EvalError> {
        e.eval(&|s| self.get(s))
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, p: &Pred) -> Result<bool, EvalError> {
        p.eval(&|s| self.get(s))
    }

    /// `n = 5, k = 3`: the values of some dims, for a message.
    /// ` (n = 3)`, to stand behind a message; nothing where no value is known.
    pub(crate) fn behind(values: &str) -> String {
        if values.is_empty() { String::new() } else { format!(" ({values})") }
    }

    pub(crate) fn describe(&self, syms: impl IntoIterator<Item = Sym>) -> String {
        let known = syms.into_iter().filter_map(|s| self.get(s).map(|v| format!("{s} = {v}")));
        known.collect::<Vec<_>>().join(", ")
    }

    /// Binds those of `unknown` that the equations `expression = extent` determine: one that stands alone
    /// directly, others by solving what is linear in a single unknown. Repeats until nothing new is found
    /// and returns what is left. The equations themselves are for the caller to compare afterwards.
    pub(crate) fn solve(&mut self, equations: &[(&Dim, i64)], mut unknown: Vec<Sym>) -> Vec<Sym> {
        let bound = |dims: &mut Dims, unknown: &mut Vec<Sym>, sym: Sym, value: i64| {
            dims.bind(sym, value);
            unknown.retain(|s| *s != sym);
        };
        for (e, extent) in equations {
            if let Some(sym) = e.as_sym().filter(|s| unknown.contains(s)) {
                bound(self, &mut unknown, sym, *extent);
            }
        }
        loop {
            let before = unknown.len();
            for (e, extent) in equations {
                let open: Vec<Sym> = e.syms().into_iter().filter(|s| unknown.contains(s)).collect();
                let &[sym] = open.as_slice() else { continue };
                if let Some(value) = self.solve_one(e, sym, *extent) {
                    bound(self, &mut unknown, sym, value);
                }
            }
            if unknown.is_empty() || unknown.len() == before {
                return unknown;
            }
        }
    }

    /// The value of `sym` at which the expression is `extent`, if the expression is linear in it there.
    fn solve_one(&self, e: &Dim, sym: Sym, extent: i64) -> Option<i64> {
        let at = |x: i64| e.eval(&|s| if s == sym { Some(x) } else { self.get(s) }).ok();
        let (zero, one) = (at(0)?, at(1)?);
        let slope = one.checked_sub(zero)?;
        let rise = extent.checked_sub(zero)?;
        let value = if slope == 0 { return None } else { rise.checked_div(slope)? };
        // Two points say nothing about a division in between: the value must give the extent, and the line go on beyond
        // it.
        let linear = at(2)?.checked_sub(one)? == slope && at(value)? == extent;
        linear.then_some(value)
    }
}
