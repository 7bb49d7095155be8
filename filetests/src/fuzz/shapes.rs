//! Random questions about dims: every answer against brute force, and the work for it below a bound.
//!
//! A seed decides some facts, a predicate and an expression over a few symbols: small ones that resemble what programs
//! ask, wide and deep ones, numbers near the ends of i64. Each is kept as the tree that was made, whose value at a
//! point is what the normal form, the verdict and the bounds are held against. Work is counted by the crate itself
//! ([`shape::work`]), so that a query costs the same everywhere; it may grow with the square of the query's size, and
//! no faster.

use shape::{EvalError, Expr, Facts, Op, Pred, Sym, Verdict, work};
use tensor::generate::Rng;

/// An expression as it was made, not normalised.
enum Tree {
    Int(i64),
    Var(usize),
    Bin(Op, Box<Tree>, Box<Tree>),
}

/// A relation of two trees.
struct Relation {
    kind: u64,
    sides: [Tree; 2],
}

/// What one seed asks.
struct Question {
    facts: Vec<Relation>,
    query: Relation,
    tree: Tree,
    /// How many symbols there are.
    syms: usize,
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

const OPS: [Op; 12] = [
    Op::Add,
    Op::Add,
    Op::Add,
    Op::Sub,
    Op::Sub,
    Op::Mul,
    Op::Mul,
    Op::FloorDiv,
    Op::CeilDiv,
    Op::Mod,
    Op::Min,
    Op::Max,
];

impl Tree {
    /// A tree of so many leaves.
    fn random(rng: &mut Rng, leaves: u64, syms: usize) -> Tree {
        if leaves <= 1 {
            return match rng.below(5) {
                0..=2 => Tree::Var(rng.below(syms as u64) as usize),
                _ => Tree::Int(number(rng)),
            };
        }
        let left = 1 + rng.below(leaves - 1);
        let op = OPS[rng.below(OPS.len() as u64) as usize];
        let [a, b] = [left, leaves - left].map(|n| Box::new(Tree::random(rng, n, syms)));
        Tree::Bin(op, a, b)
    }

    fn size(&self) -> u64 {
        match self {
            Tree::Int(_) | Tree::Var(_) => 1,
            Tree::Bin(_, a, b) => 1 + a.size() + b.size(),
        }
    }

    fn eval(&self, at: &[i64]) -> Result<i64, EvalError> {
        match self {
            Tree::Int(c) => Ok(*c),
            Tree::Var(v) => Ok(at[*v]),
            Tree::Bin(op, a, b) => op.apply(a.eval(at)?, b.eval(at)?),
        }
    }

    fn expr(&self) -> Expr {
        match self {
            Tree::Int(c) => Expr::int(*c),
            Tree::Var(v) => Expr::sym(Sym::new(NAMES[*v])),
            Tree::Bin(op, a, b) => Expr::of(*op, &a.expr(), &b.expr()),
        }
    }
}

/// Mostly the small numbers of shapes, now and then one that does not fit into products.
fn number(rng: &mut Rng) -> i64 {
    match rng.below(24) {
        0 => 1 << rng.below(40),
        1 => [i64::MAX, i64::MIN, i64::MIN + 1][rng.below(3) as usize],
        2..=4 => rng.below(130) as i64,
        _ => rng.below(13) as i64 - 3,
    }
}

impl Relation {
    fn random(rng: &mut Rng, leaves: u64, syms: usize) -> Relation {
        let left = 1 + rng.below(leaves);
        Relation { kind: rng.below(6), sides: [left, leaves].map(|n| Tree::random(rng, n, syms)) }
    }

    fn size(&self) -> u64 {
        self.sides.iter().map(Tree::size).sum()
    }

    fn pred(&self) -> Pred {
        let [a, b] = self.sides.each_ref().map(Tree::expr);
        self.relate(a, b, [Pred::Le, Pred::Lt, Pred::Eq, Pred::Ne, Pred::Divides])
    }

    fn relate<T, R>(&self, a: T, b: T, make: [fn(T, T) -> R; 5]) -> R {
        let at = match self.kind {
            0 | 1 => 0,
            kind => kind as usize - 1,
        };
        make[at](a, b)
    }

    /// Whether it holds at a point, where both sides have values.
    fn holds(&self, at: &[i64]) -> Option<bool> {
        let [a, b] = self.sides.each_ref().map(|t| t.eval(at).ok());
        let divides: fn(i64, i64) -> Option<bool> =
            |a, b| (a != 0).then(|| b.checked_rem(a).unwrap_or(0) == 0);
        let plain: [fn(i64, i64) -> Option<bool>; 5] =
            [|a, b| Some(a <= b), |a, b| Some(a < b), |a, b| Some(a == b), |a, b| Some(a != b), divides];
        self.relate(a?, b?, plain)
    }
}

impl Question {
    fn new(seed: u64) -> Question {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        // How many symbols, how many facts, and how large each part may be.
        let (syms, facts, leaves) = match rng.below(20) {
            0 => (8, 24, 12),
            1 => (8, 4, 60),
            2 => (2, 6, 40),
            3..=6 => (4, 6, 6),
            _ => (3, 4, 4),
        };
        let dims = rng.below(3) > 0;
        let mut given: Vec<Relation> = Vec::new();
        if dims {
            let least = rng.below(2) as i64;
            let at_least = |v| Relation { kind: 0, sides: [Tree::Int(least), Tree::Var(v)] };
            given.extend((0..syms).map(at_least));
        }
        for _ in 0..rng.below(facts + 1) {
            let size = 1 + rng.below(leaves.min(6));
            given.push(Relation::random(rng, size, syms));
        }
        let size = 1 + rng.below(leaves);
        let query = Relation::random(rng, size, syms);
        let size = 1 + rng.below(leaves * 2);
        Question { facts: given, query, tree: Tree::random(rng, size, syms), syms }
    }

    fn size(&self) -> u64 {
        self.facts.iter().map(Relation::size).sum::<u64>() + self.query.size() + self.tree.size()
    }

    /// Points around zero: all of them where there are few symbols, as many at random where there are more.
    fn points(&self, rng: &mut Rng) -> Vec<Vec<i64>> {
        const REACH: [i64; 9] = [0, 1, 2, 3, 4, 5, 7, -1, -2];
        if self.syms > 3 {
            let one = |rng: &mut Rng| (0..self.syms).map(|_| REACH[rng.below(9) as usize]).collect();
            return (0..300).map(|_| one(rng)).collect();
        }
        let all = REACH.len().pow(self.syms as u32);
        let digit = |i: usize, v: usize| REACH[i / REACH.len().pow(v as u32) % REACH.len()];
        (0..all).map(|i| (0..self.syms).map(|v| digit(i, v)).collect()).collect()
    }
}

/// The work that an answer to a question of this size may take.
fn allowed(size: u64) -> u64 {
    200_000 + 40 * size * size
}

/// Nodes as written, and instructions of the normal form: a product of sums is written out, up to the size that the
/// crate allows an expression, so that the second may be much more than the first.
fn size_of(q: &Question, given: &[Pred], query: &Pred, expr: &Expr) -> u64 {
    let exprs = given.iter().chain([query]).flat_map(Pred::exprs).chain([expr]);
    q.size() + exprs.map(|e| e.steps().len() as u64).sum::<u64>()
}

/// Asks what a seed says. Gives the most work that an answer took, as a part of what is allowed, or what is wrong.
pub fn ask(seed: u64) -> Result<f64, String> {
    let q = Question::new(seed);
    let before = work();
    let given: Vec<Pred> = q.facts.iter().map(Relation::pred).collect();
    let (query, expr) = (q.query.pred(), q.tree.expr());
    let made = work() - before;
    let size = size_of(&q, &given, &query, &expr);
    let limit = allowed(size);
    let mut most = 0;
    let mut over = None;
    let mut note = |what: String, took: u64| {
        most = most.max(took);
        if took > limit {
            over.get_or_insert(format!(
                "{what} takes {took} steps, {limit} are allowed for a size of {size}"
            ));
        }
    };
    note("the normal form".to_owned(), made);
    macro_rules! counted {
        ($what:expr, $work:expr) => {{
            let before = work();
            let answer = $work;
            note($what, work() - before);
            answer
        }};
    }
    let mut facts = Facts::new();
    for p in &given {
        counted!(format!("assuming {p}"), facts.assume(p.clone()));
    }
    let verdict = counted!("prove".to_owned(), facts.prove(&query));
    let (lo, hi) = counted!("bounds".to_owned(), facts.bounds(&expr));
    let simple = counted!("simplify".to_owned(), facts.simplify(&expr));
    let shown = counted!("explain".to_owned(), facts.explain(&query));
    let about = || {
        let given: Vec<String> = given.iter().map(Pred::to_string).collect();
        format!("{} |- {query}\nexpression {expr}\n{shown}", given.join(", "))
    };
    if let Some(text) = over {
        return Err(format!("{text}\n{}", about()));
    }
    let mut rng = Rng::new(!seed);
    for at in q.points(&mut rng) {
        let wrong = |text: String| Err(format!("{text} at {at:?}\n{}", about()));
        let env = |s: Sym| NAMES.iter().position(|n| *n == s.name()).and_then(|v| at.get(v)).copied();
        let value = q.tree.eval(&at).ok();
        // What grew too large, or whose expanded form does not fit, has no value; any other value is that of the tree.
        if let (Some(v), Ok(got)) = (value, expr.eval(&env))
            && v != got
        {
            return wrong(format!("the normal form is {got}, not {v}"));
        }
        if !q.facts.iter().all(|r| r.holds(&at) == Some(true)) {
            continue;
        }
        if facts.is_contradictory() {
            return wrong("the facts are called contradictory, and hold".to_owned());
        }
        match (q.query.holds(&at), verdict) {
            (Some(true), Verdict::Refuted) => return wrong("refuted, and true".to_owned()),
            (Some(false), Verdict::Proved) => return wrong("proved, and false".to_owned()),
            _ => {}
        }
        let Some(v) = value else { continue };
        if expr.is_poison() {
            continue;
        }
        if lo.is_some_and(|lo| v < lo) || hi.is_some_and(|hi| v > hi) {
            return wrong(format!("{v} is not within {lo:?}..={hi:?}"));
        }
        if let Ok(got) = simple.eval(&env)
            && got != v
        {
            return wrong(format!("simplified to {simple}, which is {got}, not {v}"));
        }
    }
    Ok(most as f64 / limit as f64)
}
