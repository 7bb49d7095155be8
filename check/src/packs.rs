//! Packs, and the other lists that exist only while checking: packs of dims, packs of indices, and lists of integers in
//! attributes. One text serves every rank because what it says about ranks is said with these:
//!
//! | form | gives |
//! |---|---|
//! | `[0, 2]`, `s`, `axis` | a list as written, a pack, an attribute |
//! | `s[k]`, `s.rank`, `s.size` | one item, how many there are, their product (where a dim or scalar stands) |
//! | `s + t`, `s * 2`, `max(i - low, 0)` | item by item; a single one is taken for each (also `-`, `/`, `%`, `min`) |
//! | `s.axes` | `[0, 1, ..]`, one for each item |
//! | `p.inverse` | of a permutation |
//! | `s.pick(axes)`, `s.without(axes)` | the items at these axes, in their order; the others |
//! | `s.with(axes, d)` | the items at these axes replaced, by one or by a list |
//! | `s.insert(axes, d)` | a longer list, in which these axes are new |
//! | `s.take(k)`, `s.drop(k)`, `s.before(axis)`, `s.after(axis)` | parts |
//! | `s.append(t)`, `s.swap(a, b)` | one behind the other; two exchanged |
//! | `s.given(c)` | the list, or the empty one where the attribute `c` is false |
//! | `at.unravel(s)` | the index in `s` of a row-major position (`i.linear(s)` is the way back) |
//! | `s.spread(map)` | an item for each number of `map`; for -1 the extent 1, or the index 0 |
//!
//! Axes are one number or a list, and count from the end where negative. A text that names labels has
//! functions of its own ([`crate::einsum`]).

use ir::Intrinsic;
use ir::ast::{Arg, Expr, ExprKind};
use ir::diag::Diagnostic;
use shape::{Expr as Dim, Sym};

use crate::bind::names_in;
use crate::einsum;
use crate::env::{Answer, Const, Env, wrong};

/// What a list may hold.
pub(crate) trait Item: Clone {
    /// A dim as an item.
    fn from_dim(d: Dim) -> Self;
    /// `a op b`, for an operation of integers.
    fn operate(op: Intrinsic, a: Self, b: Self) -> Option<Self>;
    /// What stands for a stretched axis.
    fn blank() -> Self;
}

impl Item for Dim {
    fn from_dim(d: Dim) -> Dim {
        d
    }

    fn operate(op: Intrinsic, a: Dim, b: Dim) -> Option<Dim> {
        match op {
            Intrinsic::Add => Some(a + b),
            Intrinsic::Sub => Some(a - b),
            Intrinsic::Mul => Some(a * b),
            Intrinsic::Div => Some(a.floor_div(&b)),
            Intrinsic::Rem => Some(a.modulo(&b)),
            Intrinsic::Min => Some(Dim::min(&a, &b)),
            Intrinsic::Max => Some(Dim::max(&a, &b)),
            _ => None,
        }
    }

    fn blank() -> Dim {
        Dim::int(1)
    }
}

/// Where a list is evaluated: what names mean there, and single items.
pub(crate) struct Scope<'s, T> {
    pub(crate) named: &'s dyn Fn(Sym) -> Option<Vec<T>>,
    pub(crate) item: &'s dyn Fn(&Expr) -> Answer<T>,
}

impl Env {
    /// A list of dims.
    pub(crate) fn pack(&self, e: &Expr) -> Answer<Vec<Dim>> {
        self.list(e, &Scope { named: &|name| self.packs.get(&name).cloned(), item: &|e| self.dim(e) })
    }

    /// A list of integers, or one of them, known when compiling.
    pub(crate) fn ints(&self, e: &Expr) -> Answer<Vec<i64>> {
        let dims = if self.is_list(e) { self.pack(e)? } else { vec![self.dim(e)?] };
        dims.iter()
            .map(|d| d.as_int().map_or_else(|| wrong(e.span, format!("{d} is not known when compiling")), Ok))
            .collect()
    }

    /// True for an expression that gives a list of dims or integers, as opposed to one.
    pub(crate) fn is_list(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Array(_) => true,
            ExprKind::Paren(e) => self.is_list(e),
            ExprKind::Name(n) => self.packs.contains_key(n) || matches!(self.known(*n), Some(Const::Ints(_))),
            ExprKind::Field(_, f) => matches!(f.name.name(), "axes" | "inverse"),
            ExprKind::Call(f, args) => match &f.kind {
                ExprKind::Field(..) => true,
                _ => item_by_item(e).is_some() && args.iter().any(|a| self.is_list(&a.value)),
            },
            ExprKind::Binary(_, a, b) => self.is_list(a) || self.is_list(b),
            _ => false,
        }
    }

    /// Evaluates a list.
    pub(crate) fn list<T: Item>(&self, e: &Expr, scope: &Scope<'_, T>) -> Answer<Vec<T>> {
        match &e.kind {
            ExprKind::Paren(e) => self.list(e, scope),
            ExprKind::Array(items) => items.iter().map(scope.item).collect(),
            ExprKind::Name(name) => {
                let of_dims = |list: &[Dim]| list.iter().cloned().map(T::from_dim).collect();
                if let Some(list) = (scope.named)(*name) {
                    return Ok(list);
                }
                match (self.packs.get(name), self.known(*name)) {
                    (Some(list), _) => Ok(of_dims(list)),
                    (None, Some(Const::Ints(list))) => {
                        Ok(list.iter().map(|&i| T::from_dim(Dim::int(i))).collect())
                    }
                    _ if self.dims.contains_key(name) => Err(Box::new(
                        Diagnostic::error("E0204", e.span, format!("`{name}` is one dim, not a pack"))
                            .help(format!("write `{name}` for one axis, or declare a pack: `<..{name}>`")),
                    )),
                    _ => Err(Box::new(Diagnostic::error("E0201", e.span, format!("unknown pack `{name}`")))),
                }
            }
            ExprKind::Field(base, field) => match field.name.name() {
                "axes" => {
                    let count = self.list(base, scope)?.len() as i64;
                    Ok((0..count).map(|k| T::from_dim(Dim::int(k))).collect())
                }
                "inverse" => {
                    let perm = self.ints(base)?;
                    let axes = self.axes_of(&perm, perm.len(), base)?;
                    let mut inverse = vec![0; axes.len()];
                    axes.iter().enumerate().for_each(|(k, &to)| inverse[to] = k as i64);
                    Ok(inverse.into_iter().map(|k| T::from_dim(Dim::int(k))).collect())
                }
                other => wrong(
                    field.span,
                    format!("lists have no `{other}` (rank, size, axes, inverse are theirs)"),
                ),
            },
            _ if item_by_item(e).is_some() => self.item_by_item(e, scope),
            ExprKind::Call(f, args) => {
                let ExprKind::Field(base, method) = &f.kind else {
                    return wrong(e.span, "not a pack of dims");
                };
                if let ExprKind::Name(name) = &base.kind
                    && let Some(Const::Text(text)) = self.known(*name)
                {
                    let numbers = args.iter().map(|a| self.ints(&a.value)).collect::<Answer<Vec<_>>>()?;
                    let axes = einsum::function(text, method.name.name(), &numbers.concat(), e.span)?;
                    return Ok(axes.into_iter().map(|k| T::from_dim(Dim::int(k))).collect());
                }
                self.method(base, method.name.name(), args, e, scope)
            }
            _ => wrong(e.span, "not a pack of dims"),
        }
    }

    /// A chain of operators along its left spine, which may be thousands of operators long.
    fn item_by_item<T: Item>(&self, e: &Expr, scope: &Scope<'_, T>) -> Answer<Vec<T>> {
        let (mut spine, mut left) = (vec![], e);
        while let Some((op, a, b)) = item_by_item(left) {
            spine.push((left, op, a, b));
            left = a;
        }
        spine.reverse();
        // What stands before the first list is one item.
        let first = if self.gives_list(left, scope) {
            0
        } else {
            spine.iter().position(|s| self.gives_list(s.3, scope)).unwrap_or(0)
        };
        let Some(&(_, _, start, _)) = spine.get(first) else { return wrong(e.span, "not a list") };
        let mut value = self.one_or_list(start, scope)?;
        for &(whole, op, left, right) in &spine[first..] {
            let list = self.operate(whole, (op, left, right), value, scope)?;
            let rank = list.len();
            value = (list, Some(rank));
        }
        Ok(value.0)
    }

    /// `left op right`, where the left side has been evaluated.
    fn operate<T: Item>(
        &self,
        e: &Expr,
        (op, left, right): (Intrinsic, &Expr, &Expr),
        a: (Vec<T>, Option<usize>),
        scope: &Scope<'_, T>,
    ) -> Answer<Vec<T>> {
        let b = self.one_or_list(right, scope)?;
        let rank = a.1.max(b.1).unwrap_or(1);
        // An attribute that is said once for all axes is a list of one; a pack has the axes that it has.
        let is_pack =
            |e| names_in(e).into_iter().any(|n| self.packs.contains_key(&n) || (scope.named)(n).is_some());
        let full = |e, (list, known): (Vec<T>, Option<usize>)| match known {
            None => vec![list[0].clone(); rank],
            Some(1) if !is_pack(e) => vec![list[0].clone(); rank],
            Some(_) => list,
        };
        let (a, b) = (full(left, a), full(right, b));
        if a.len() != b.len() {
            let text = |e| crate::conditions::condition_text(e);
            let items = |n| ir::diag::count(n, "item");
            return wrong(
                e.span,
                format!(
                    "`{}` has {}, and `{}` has {}",
                    text(left),
                    items(a.len()),
                    text(right),
                    items(b.len())
                ),
            );
        }
        let one = |(x, y)| {
            T::operate(op, x, y).map_or_else(|| wrong(e.span, format!("`{}` gives no dim", op.name())), Ok)
        };
        a.into_iter().zip(b).map(one).collect()
    }

    /// True for what is a list where these names stand for something.
    fn gives_list<T>(&self, e: &Expr, scope: &Scope<'_, T>) -> bool {
        let named = |e: &Expr| matches!(&e.kind, ExprKind::Name(n) if (scope.named)(*n).is_some());
        fn any(e: &Expr, named: &dyn Fn(&Expr) -> bool) -> bool {
            match &e.kind {
                ExprKind::Paren(e) => any(e, named),
                _ => match item_by_item(e) {
                    Some((_, a, b)) => any(a, named) || any(b, named),
                    None => named(e),
                },
            }
        }
        any(e, &named) || self.is_list(e)
    }

    /// A list with its length, or one item to be taken for each.
    fn one_or_list<T: Item>(&self, e: &Expr, scope: &Scope<'_, T>) -> Answer<(Vec<T>, Option<usize>)> {
        if self.gives_list(e, scope) {
            let list = self.list(e, scope)?;
            let len = list.len();
            return Ok((list, Some(len)));
        }
        Ok((vec![(scope.item)(e)?], None))
    }

    fn method<T: Item>(
        &self,
        base: &Expr,
        method: &str,
        args: &[Arg],
        e: &Expr,
        scope: &Scope<'_, T>,
    ) -> Answer<Vec<T>> {
        let arg = |i: usize| match args.get(i) {
            Some(a) => Ok(&a.value),
            None => wrong(e.span, format!("`{method}` needs {}", ir::diag::count(i + 1, "argument"))),
        };
        if method == "unravel" {
            let mut at = (scope.item)(base)?;
            let mut index = Vec::new();
            for (k, extent) in self.pack(arg(0)?)?.into_iter().enumerate().rev() {
                let extent = T::from_dim(extent);
                let part = |op, at: &T| {
                    T::operate(op, at.clone(), extent.clone())
                        .map_or_else(|| wrong(e.span, "not a position"), Ok)
                };
                // The first axis takes what is left, so that a position past the end is seen to be one.
                index.push(if k == 0 { at.clone() } else { part(Intrinsic::Rem, &at)? });
                at = part(Intrinsic::Div, &at)?;
            }
            index.reverse();
            return Ok(index);
        }
        let mut list = self.list(base, scope)?;
        let rank = list.len();
        match method {
            "without" => {
                let axes = self.axes(arg(0)?, rank)?;
                list = select_items(list, |k| !axes.contains(&k));
            }
            "pick" => {
                // One item may be picked more than once: `pick` makes diagonals and broadcasts.
                let e = arg(0)?;
                let axis = |k: i64| Ok(list[self.axes_of(&[k], rank, e)?[0]].clone());
                list = self.ints(e)?.into_iter().map(axis).collect::<Answer<_>>()?;
            }
            "with" | "insert" => {
                let longer = if method == "insert" { self.count(arg(0)?)? } else { 0 };
                let axes = self.axes(arg(0)?, rank + longer)?;
                let (items, many) = self.one_or_list(arg(1)?, scope)?;
                if many.is_some_and(|n| n != axes.len()) {
                    return wrong(
                        e.span,
                        format!(
                            "`{method}` has {} and {}",
                            ir::diag::count_of(axes.len(), "axis", "axes"),
                            ir::diag::count(items.len(), "item")
                        ),
                    );
                }
                let new = |k: usize| {
                    let at = axes.iter().position(|&a| a == k)?;
                    Some(items[if many.is_some() { at } else { 0 }].clone())
                };
                let mut old = list.into_iter();
                let mut out = Vec::new();
                for k in 0..rank + longer {
                    let kept = if longer == 0 || new(k).is_none() { old.next() } else { None };
                    out.extend(new(k).or(kept));
                }
                list = out;
            }
            "take" => list.truncate(self.axis(arg(0)?, rank + 1)?),
            "drop" => {
                list.drain(..self.axis(arg(0)?, rank + 1)?);
            }
            "before" => list.truncate(self.axis(arg(0)?, rank)?),
            "after" => {
                list.drain(..=self.axis(arg(0)?, rank)?);
            }
            "append" => list.extend(self.list(arg(0)?, scope)?),
            "swap" => {
                let (a, b) = (self.axis(arg(0)?, rank)?, self.axis(arg(1)?, rank)?);
                list.swap(a, b);
            }
            "given" => match self.constant(arg(0)?)? {
                Const::Bool(true) => {}
                Const::Bool(false) => list.clear(),
                _ => return wrong(e.span, "`given` needs an attribute that is true or false"),
            },
            "spread" => {
                let place = |&k: &i64| match usize::try_from(k) {
                    Err(_) => Ok(T::blank()),
                    Ok(k) => list.get(k).cloned().map_or_else(
                        || wrong(e.span, format!("axis {k} is out of range for rank {rank}")),
                        Ok,
                    ),
                };
                return self.ints(arg(0)?)?.iter().map(place).collect();
            }
            other => {
                return wrong(
                    e.span,
                    format!(
                        "lists have no function `{other}` (pick, without, with, insert, take, drop, before, after, \
                         append, swap, given, unravel, spread are theirs)"
                    ),
                );
            }
        }
        Ok(list)
    }

    /// How many axes an expression gives.
    fn count(&self, e: &Expr) -> Answer<usize> {
        Ok(if self.is_list(e) { self.pack(e)?.len() } else { 1 })
    }

    /// An axis of a list of `rank`, counted from the end where negative.
    pub(crate) fn axis(&self, e: &Expr, rank: usize) -> Answer<usize> {
        let k = match self.dim(e)?.as_int() {
            Some(k) => k,
            None => return wrong(e.span, "an axis is a number known when compiling"),
        };
        Ok(self.axes_of(&[k], rank, e)?[0])
    }

    /// Axes of a list of `rank`, each once.
    fn axes(&self, e: &Expr, rank: usize) -> Answer<Vec<usize>> {
        self.axes_of(&self.ints(e)?, rank, e)
    }

    fn axes_of(&self, axes: &[i64], rank: usize, e: &Expr) -> Answer<Vec<usize>> {
        // Where the attribute is called otherwise, its name tells which one is meant.
        let named = match &e.kind {
            ExprKind::Name(n) if n.name() != "axis" => format!("`{n}`: "),
            _ => String::new(),
        };
        let mut out: Vec<usize> = Vec::new();
        for &k in axes {
            let at = if k < 0 { k + rank as i64 } else { k };
            match usize::try_from(at) {
                Ok(at) if at < rank && out.contains(&at) => {
                    return wrong(e.span, format!("{named}axis {k} is given twice"));
                }
                Ok(at) if at < rank => out.push(at),
                _ => return wrong(e.span, format!("{named}axis {k} is out of range for rank {rank}")),
            }
        }
        Ok(out)
    }
}

/// An operation of two, written as an operator or as `min(a, b)`.
fn item_by_item(e: &Expr) -> Option<(Intrinsic, &Expr, &Expr)> {
    match &e.kind {
        ExprKind::Binary(op, a, b) => Some((Intrinsic::named(op.callee())?, a, b)),
        ExprKind::Call(f, args) => match (&f.kind, args.as_slice()) {
            (ExprKind::Name(name), [a, b]) if matches!(name.name(), "min" | "max") => {
                Some((Intrinsic::named(name.name())?, &a.value, &b.value))
            }
            _ => None,
        },
        _ => None,
    }
}

fn select_items<T>(list: Vec<T>, wanted: impl Fn(usize) -> bool) -> Vec<T> {
    list.into_iter().enumerate().filter(|(k, _)| wanted(*k)).map(|(_, x)| x).collect()
}
