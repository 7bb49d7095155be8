//! The values of dims: a scoped environment, and finding them from the shapes of tensors.

use shape::{EvalError, Expr as Dim, Pred, Sym, System};

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

    /// Binds those of `unknown` that the equations `expression = extent` determine, and returns what is left. The
    /// equations themselves are for the caller to compare afterwards.
    pub(crate) fn solve(&mut self, equations: &[(&Dim, i64)], mut unknown: Vec<Sym>) -> Vec<Sym> {
        if unknown.is_empty() {
            return unknown;
        }
        let known = |s: Sym| if unknown.contains(&s) { None } else { self.get(s).map(Dim::int) };
        let equations = equations.iter().map(|(e, extent)| (e.subst(&known), Dim::int(*extent)));
        let system = System::solve(unknown.iter().copied(), equations);
        for f in &system.found {
            let solves = f.requires.iter().all(|p| p.eval(&|_| None) == Ok(true));
            if let Some(value) = f.value.as_int().filter(|_| solves) {
                self.bind(f.sym, value);
                unknown.retain(|s| *s != f.sym);
            }
        }
        unknown
    }
}
