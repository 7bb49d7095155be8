//! The verifier, whether a module is one: what a pass must keep, looked at after passes that this compiler does not
//! know.
//!
//! In: a module whose functions somebody changed. Out: the first thing that is wrong with it, in words. It looks at
//! names, at what operations are given and give (how many values, their element types and ranks), at values being made
//! once and before they are read, and at dims being those of the function or opened before. Loops, bounds and whether
//! extents are equal it takes on trust: a function that states them wrongly fails in the checks of the machine.

use std::collections::BTreeSet;

use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::graph::{Block, Func, Node, Op, Type, ValId};
use crate::loops::{BufId, Prim};
use crate::{ExternId, FuncId, Module, PrimId};

/// What is wrong with a module that came of another by changing bodies and adding definitions, if anything is.
pub fn changed(before: &Module, after: &Module) -> Result<(), String> {
    let gone = |what: &str, name: &str| Err(format!("{what} `{name}` is gone"));
    for (i, f) in before.funcs.iter().enumerate() {
        let Some(new) = after.funcs.get(i).filter(|new| new.name == f.name) else {
            return gone("function", &f.name);
        };
        let params = |f: &Func| f.params.iter().map(|p| (p.name, p.own)).collect::<Vec<_>>();
        let types = |f: &Func| {
            f.body.params.iter().map(|p| f.vals.get(p.0 as usize).map(|v| v.ty.clone())).collect::<Vec<_>>()
        };
        if new.dims != f.dims
            || params(new) != params(f)
            || types(new) != types(f)
            || new.result_types != f.result_types
        {
            return Err(format!("function `{}` has another signature", f.name));
        }
    }
    for (i, p) in before.prims.iter().enumerate() {
        if after.prims.get(i).is_none_or(|new| new.name != p.name || ends(new) != ends(p)) {
            return gone("primitive", &p.name);
        }
    }
    let (externs, rules) = (before.externs.len(), before.rules.len());
    if (after.externs.len(), after.rules.len()) != (externs, rules) {
        return Err("library functions and rules are the program's".to_owned());
    }
    module(after)
}

/// What is wrong with a module, if anything is.
pub fn module(m: &Module) -> Result<(), String> {
    let mut names = BTreeSet::default();
    for f in &m.funcs {
        if !names.insert(f.name.as_str()) {
            return Err(format!("two functions have the name `{}`", f.name));
        }
        func(m, f).map_err(|why| format!("function `{}`: {why}", f.name))?;
    }
    Ok(())
}

/// What a primitive takes and gives.
fn ends(p: &Prim) -> (Vec<Type>, Vec<Type>) {
    let types = |ids: &[BufId]| {
        ids.iter().map(|&b| Type { dtype: p.buf(b).dtype, shape: p.buf(b).shape.clone() }).collect()
    };
    (types(&p.params), types(&p.outs))
}

fn func(m: &Module, f: &Func) -> Result<(), String> {
    let mut scope =
        Scope { m, f, made: BTreeSet::default(), known: BTreeSet::default(), once: BTreeSet::default() };
    scope.known.extend(f.dims.iter().copied());
    if f.params.len() != f.body.params.len() {
        return Err(format!("{} parameters, and its body has {}", f.params.len(), f.body.params.len()));
    }
    scope.known.extend(f.exists.iter().map(|e| e.0));
    scope.block(&f.body)?;
    let results: Vec<&Type> = f.result_types.iter().collect();
    scope.alike(&f.body.results, &results, "result")
}

/// What is there at a place of a function.
struct Scope<'m> {
    m: &'m Module,
    f: &'m Func,
    /// Values that can be read.
    made: BTreeSet<ValId>,
    /// Every value that was made, in whatever block.
    once: BTreeSet<ValId>,
    /// Dims that can be spoken of.
    known: BTreeSet<Sym>,
}

impl Scope<'_> {
    fn block(&mut self, b: &Block) -> Result<(), String> {
        for &p in &b.params {
            self.make(p)?;
        }
        for n in &b.nodes {
            self.node(n)?;
        }
        b.results.iter().try_for_each(|&r| self.read(r))
    }

    /// A block inside another: what it makes is gone behind it.
    fn inner(&mut self, b: &Block) -> Result<(), String> {
        let (made, known) = (self.made.clone(), self.known.clone());
        let done = self.block(b);
        (self.made, self.known) = (made, known);
        done
    }

    fn name(&self, v: ValId) -> String {
        match self.f.vals.get(v.0 as usize) {
            Some(val) => format!("value `{}` ({})", val.name, v.0),
            None => format!("value {}", v.0),
        }
    }

    fn make(&mut self, v: ValId) -> Result<(), String> {
        let Some(val) = self.f.vals.get(v.0 as usize) else {
            return Err(format!("there is no value {}", v.0));
        };
        if !self.once.insert(v) {
            return Err(format!("{} is made twice", self.name(v)));
        }
        self.made.insert(v);
        val.ty.shape.iter().try_for_each(|d| self.dim(d))
    }

    fn read(&self, v: ValId) -> Result<(), String> {
        match self.made.contains(&v) {
            true => Ok(()),
            false => Err(format!("{} is read before it is made", self.name(v))),
        }
    }

    fn dim(&self, d: &Dim) -> Result<(), String> {
        match d.syms().into_iter().find(|s| !self.known.contains(s)) {
            Some(s) => Err(format!("dim `{s}` is not known where it is spoken of")),
            None => Ok(()),
        }
    }

    /// Values that must have the element types and ranks of some types.
    fn alike(&self, vals: &[ValId], want: &[&Type], what: &str) -> Result<(), String> {
        if vals.len() != want.len() {
            return Err(format!("{} {what}s where there are {}", vals.len(), want.len()));
        }
        for (i, (&v, want)) in vals.iter().zip(want).enumerate() {
            let have = self.ty(v)?;
            if have.dtype != want.dtype || have.shape.len() != want.shape.len() {
                return Err(format!("{what} {} is {have} where {want} is meant", i + 1));
            }
        }
        Ok(())
    }

    fn ty(&self, v: ValId) -> Result<&Type, String> {
        self.f.vals.get(v.0 as usize).map(|v| &v.ty).ok_or_else(|| format!("there is no value {}", v.0))
    }

    fn types(&self, vals: &[ValId]) -> Result<Vec<&Type>, String> {
        vals.iter().map(|&v| self.ty(v)).collect()
    }

    fn scalar(&self, n: &Node, dtype: DType) -> Result<(), String> {
        self.alike(&n.args[..n.args.len().min(1)], &[&Type::scalar(dtype)], "argument")
    }

    fn node(&mut self, n: &Node) -> Result<(), String> {
        n.args.iter().try_for_each(|&a| self.read(a))?;
        self.op(n)?;
        self.known.extend(&n.opens);
        if let Op::BindDim(s, _) = &n.op {
            self.known.insert(*s);
        }
        n.results.iter().try_for_each(|&r| self.make(r))
    }

    fn op(&mut self, n: &Node) -> Result<(), String> {
        match &n.op {
            Op::Const(t) => {
                let ty = Type { dtype: t.dtype(), shape: t.shape().iter().map(|d| Dim::int(*d)).collect() };
                self.alike(&n.args, &[], "argument")?;
                self.alike(&n.results, &[&ty], "result")
            }
            Op::Dim(d) => {
                self.dim(d)?;
                self.alike(&n.results, &[&Type::scalar(DType::I64)], "result")
            }
            Op::Scalar(_) | Op::Cast => {
                let all = self
                    .types(&n.args)?
                    .into_iter()
                    .chain(self.types(&n.results)?)
                    .all(|t| t.shape.is_empty());
                match all && !n.args.is_empty() && n.results.len() == 1 {
                    true => Ok(()),
                    false => Err("an operation on scalars takes and gives something else".to_owned()),
                }
            }
            Op::Prim(PrimId(i), dims) => {
                let p = self.m.prims.get(*i as usize).ok_or_else(|| format!("there is no primitive {i}"))?;
                self.call(n, &p.name, (dims, p.dims.len()), &ends(p))
            }
            Op::Extern(ExternId(i), dims) => {
                let e = self
                    .m
                    .externs
                    .get(*i as usize)
                    .ok_or_else(|| format!("there is no library function {i}"))?;
                self.call(n, e.name.name(), (dims, e.dims.len()), &ends(&e.shell()))
            }
            Op::Call(FuncId(i), dims) => {
                let f = self.m.funcs.get(*i as usize).ok_or_else(|| format!("there is no function {i}"))?;
                let params = f.body.params.iter().map(|p| f.vals.get(p.0 as usize).map(|v| v.ty.clone()));
                let params = params.collect::<Option<Vec<_>>>().ok_or("a call of what is no function")?;
                self.call(n, &f.name, (dims, f.dims.len()), &(params, f.result_types.clone()))
            }
            Op::If(a, b) => {
                self.scalar(n, DType::Bool)?;
                for b in [a, b] {
                    self.inner(b)?;
                    self.alike(&b.results, &self.types(&n.results)?, "result of a branch")?;
                }
                Ok(())
            }
            Op::While { cond, body } => {
                let carried = self.types(&n.args)?;
                for b in [cond, body] {
                    self.alike(&b.params, &carried, "carried value")?;
                }
                self.alike(&n.results, &carried, "carried value")?;
                // What a round may leave with other extents is opened at the head of each.
                let known = self.known.clone();
                self.known.extend(&n.opens);
                self.inner(cond)?;
                self.inner(body)?;
                self.known = known;
                self.alike(&cond.results, &[&Type::scalar(DType::Bool)], "result of a condition")?;
                self.alike(&body.results, &self.types(&n.args)?, "carried value")
            }
            Op::Switch(arms) => {
                if arms.last().is_none_or(|a| !a.0.is_empty()) {
                    return Err("no arm of a switch is for all dims".to_owned());
                }
                for (_, b) in arms {
                    self.inner(b)?;
                    self.alike(&b.results, &self.types(&n.results)?, "result of an arm")?;
                }
                Ok(())
            }
            Op::BindDim(..) => self.scalar(n, DType::I64),
            Op::Assert(_) => self.scalar(n, DType::Bool),
            Op::Check(pred, _) => pred.syms().into_iter().try_for_each(|s| self.dim(&Dim::sym(s))),
        }
    }

    fn call(
        &self,
        n: &Node,
        name: &str,
        (dims, want): (&[Dim], usize),
        (params, results): &(Vec<Type>, Vec<Type>),
    ) -> Result<(), String> {
        let of = |why: String| format!("a call of `{name}`: {why}");
        if dims.len() != want {
            return Err(of(format!("{} dims where there are {want}", dims.len())));
        }
        dims.iter().try_for_each(|d| self.dim(d)).map_err(of)?;
        self.alike(&n.args, &params.iter().collect::<Vec<_>>(), "argument").map_err(of)?;
        self.alike(&n.results, &results.iter().collect::<Vec<_>>(), "result").map_err(of)
    }
}
