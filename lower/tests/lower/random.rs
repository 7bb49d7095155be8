//! Random graphs: what the machine gives equals what an evaluator on values gives.
//!
//! The graphs update in place whatever they like, needed later or not, in branches, loops and calls: they are about
//! liveness, ownership, registers and jumps. Values are small integers, so that every result is exact.

use ir::graph::{Block, Func, Node, Op, Type, ValId};
use ir::{FuncId, Intrinsic, PrimId};
use shape::Pred;
use std::collections::BTreeMap;
use tensor::{DType, Tensor};

use crate::build::*;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

fn vector_type() -> Type {
    ty(F32, &["n"])
}

/// Adds nodes to the open block; `vectors` and `ints` are what may be used.
fn fill_block(r: &mut Random, b: &mut Build, vectors: &mut Vec<ValId>, ints: &mut Vec<ValId>, depth: usize) {
    let n = || vec![dim("n")];
    for _ in 0..1 + r.below(5) {
        let x = vectors[r.below(vectors.len())];
        let i = ints[r.below(ints.len())];
        match r.below(if depth < 3 { 10 } else { 5 }) {
            0 => vectors.push(b.one(Op::Prim(ADD_ONE, n()), &[x], vector_type())),
            1 | 2 => vectors.push(b.one(Op::Prim(DOUBLE, n()), &[x], vector_type())),
            3 => {
                let y = vectors[r.below(vectors.len())];
                vectors.push(b.one(Op::Prim(ADD, n()), &[x, y], vector_type()));
            }
            4 => {
                let one = b.int(1 + r.below(3) as i64);
                ints.push(b.one(Op::Scalar(Intrinsic::Add), &[i, one], Type::scalar(I64)));
            }
            5 | 6 => {
                let j = ints[r.below(ints.len())];
                let cond = b.one(Op::Scalar(Intrinsic::Lt), &[i, j], Type::scalar(DType::Bool));
                let arm = |r: &mut Random, b: &mut Build| branch(r, b, vectors, ints, depth);
                let (then, other) = (arm(r, b), arm(r, b));
                let types = [vector_type(), vector_type(), Type::scalar(I64)];
                let out = b.node(Op::If(then, other), &[cond], &types);
                vectors.extend([out[0], out[1]]);
                ints.push(out[2]);
            }
            7 => {
                let arm = |r: &mut Random, b: &mut Build| branch(r, b, vectors, ints, depth);
                let few = vec![Pred::Le(dim("n"), dim("2")), Pred::Divides(dim("2"), dim("n + 1"))];
                let arms = vec![
                    (few, arm(r, b)),
                    (vec![Pred::Lt(dim("n"), dim("3"))], arm(r, b)),
                    (vec![], arm(r, b)),
                ];
                let types = [vector_type(), vector_type(), Type::scalar(I64)];
                let out = b.node(Op::Switch(arms), &[], &types);
                vectors.extend([out[0], out[1]]);
                ints.push(out[2]);
            }
            8 => {
                // Three rounds at most: a counter, two vectors and an int are carried.
                let types = [Type::scalar(I64), vector_type(), vector_type(), Type::scalar(I64)];
                let y = vectors[r.below(vectors.len())];
                let zero = b.int(0);
                let p = b.open(&types);
                let top = b.int(r.below(4) as i64);
                let go = b.one(Op::Scalar(Intrinsic::Lt), &[p[0], top], Type::scalar(DType::Bool));
                let cond = b.close(&[go]);
                let p = b.open(&types);
                let (mut vs, mut is) = (vectors.clone(), ints.clone());
                vs.extend([p[1], p[2], p[1], p[2]]);
                is.push(p[3]);
                fill_block(r, b, &mut vs, &mut is, depth + 1);
                let one = b.int(1);
                let next = b.one(Op::Scalar(Intrinsic::Add), &[p[0], one], Type::scalar(I64));
                let pick = |r: &mut Random, all: &[ValId]| all[all.len() - 1 - r.below(all.len().min(4))];
                let body = b.close(&[next, pick(r, &vs), pick(r, &vs), pick(r, &is)]);
                let out = b.node(Op::While { cond, body }, &[zero, x, y, i], &types);
                vectors.extend([out[1], out[2]]);
                ints.push(out[3]);
            }
            _ => {
                let y = vectors[r.below(vectors.len())];
                let types = [vector_type(), Type::scalar(I64)];
                let out = b.node(Op::Call(FuncId(1), n()), &[x, y, i], &types);
                vectors.push(out[0]);
                ints.push(out[1]);
            }
        }
    }
}

fn branch(r: &mut Random, b: &mut Build, vectors: &[ValId], ints: &[ValId], depth: usize) -> Block {
    b.open(&[]);
    let (mut vs, mut is) = (vectors.to_vec(), ints.to_vec());
    if r.below(4) > 0 {
        fill_block(r, b, &mut vs, &mut is, depth + 1);
    }
    let pick = |r: &mut Random, all: &[ValId]| all[all.len() - 1 - r.below(all.len().min(3))];
    let results = [pick(r, &vs), pick(r, &vs), pick(r, &is)];
    b.close(&results)
}

/// `main` may call `callee`, which takes its first argument; the callee calls nothing.
fn program(r: &mut Random) -> Vec<Func> {
    let mut make = |name: &str, own: [bool; 2], depth: usize| {
        let mut b = Build::new(name, &["n"]);
        let x = b.param("x", vector_type(), own[0]);
        let y = b.param("y", vector_type(), own[1]);
        let i = b.param("i", Type::scalar(I64), false);
        let (mut vs, mut is) = (vec![x, y], vec![i]);
        fill_block(r, &mut b, &mut vs, &mut is, depth);
        let (v, i) = (vs[vs.len() - 1 - r.below(vs.len().min(3))], is[r.below(is.len())]);
        b.done(&[v, i])
    };
    vec![make("main", [true, false], 0), make("callee", [true, false], 3)]
}

/// The evaluator: values are copied wherever they go.
struct Eval<'a> {
    funcs: &'a [Func],
    n: i64,
}

#[derive(Clone)]
enum Value {
    Vector(Vec<f32>),
    Int(i64),
}

impl Value {
    fn int(&self) -> i64 {
        if let Value::Int(i) = self { *i } else { panic!("an int is needed") }
    }

    fn vector(&self) -> Vec<f32> {
        if let Value::Vector(v) = self { v.clone() } else { panic!("a vector is needed") }
    }
}

impl Eval<'_> {
    fn call(&self, f: &Func, args: &[Value]) -> Vec<Value> {
        self.block(&f.body, args, &mut BTreeMap::new())
    }

    fn block(&self, b: &Block, given: &[Value], vals: &mut BTreeMap<ValId, Value>) -> Vec<Value> {
        vals.extend(b.params.iter().copied().zip(given.iter().cloned()));
        for node in &b.nodes {
            let out = self.node(node, vals);
            vals.extend(node.results.iter().copied().zip(out));
        }
        b.results.iter().map(|r| vals[r].clone()).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not generated is not evaluated")]
    fn node(&self, node: &Node, vals: &mut BTreeMap<ValId, Value>) -> Vec<Value> {
        let args: Vec<Value> = node.args.iter().map(|a| vals[a].clone()).collect();
        let map = |f: &dyn Fn(f32) -> f32| vec![Value::Vector(args[0].vector().into_iter().map(f).collect())];
        match &node.op {
            Op::Const(t) => vec![Value::Int(t.get_i64(0))],
            Op::Scalar(Intrinsic::Add) => vec![Value::Int(args[0].int() + args[1].int())],
            Op::Scalar(Intrinsic::Lt) => vec![Value::Int(i64::from(args[0].int() < args[1].int()))],
            Op::Prim(ADD_ONE, _) => map(&|x| x + 1.0),
            // Kept small, so that sums stay exact; the stand-in doubles, and so does this.
            Op::Prim(DOUBLE, _) => map(&|x| x * 2.0),
            Op::Prim(PrimId(5), _) => {
                let pairs = args[0].vector().into_iter().zip(args[1].vector());
                vec![Value::Vector(pairs.map(|(x, y)| x + y).collect())]
            }
            Op::Call(id, _) => self.call(&self.funcs[id.0 as usize], &args),
            Op::If(then, other) => self.block(if args[0].int() != 0 { then } else { other }, &[], vals),
            Op::Switch(arms) => {
                let holds = |p: &Pred| p.eval(&|_| Some(self.n)) == Ok(true);
                let arm = arms.iter().find(|a| a.0.iter().all(holds)).unwrap();
                self.block(&arm.1, &[], vals)
            }
            Op::While { cond, body } => {
                let mut carried = args;
                while self.block(cond, &carried, vals)[0].int() != 0 {
                    carried = self.block(body, &carried, vals);
                }
                carried
            }
            other => panic!("{other:?} is not generated"),
        }
    }
}

#[test]
fn five_hundred_random_graphs_give_what_the_evaluator_gives() {
    let mut r = Random(0x1234_5678_9abc_def1);
    for round in 0..500 {
        let funcs = program(&mut r);
        let mut context = context(funcs.clone());
        for n in [0usize, 1, 2, 5] {
            let x = vector(&(0..n).map(|i| i as f32).collect::<Vec<_>>());
            let y = vector(&(0..n).map(|i| (i * i) as f32 - 3.0).collect::<Vec<_>>());
            let i = Tensor::scalar_i(I64, (round % 5) as i64);
            let given = [
                Value::Vector(x.as_f32().unwrap().to_vec()),
                Value::Vector(y.as_f32().unwrap().to_vec()),
                Value::Int(i.get_i64(0)),
            ];
            let want = Eval { funcs: &funcs, n: n as i64 }.call(&funcs[0], &given);
            let got =
                context.run("main", &[&x, &y, &i], &vm::Limits::default()).unwrap_or_else(|e| panic!("{e}"));
            let shown = || {
                let rt = lower::structure(&module(funcs.clone()), &[FuncId(0)]).unwrap();
                format!("round {round}, n = {n}\n{rt}")
            };
            assert_eq!(got[0].as_f32().unwrap(), want[0].vector(), "{}", shown());
            assert_eq!(got[1].get_i64(0), want[1].int(), "{}", shown());
            // Arguments are never written.
            assert_eq!(x.as_f32().unwrap(), given[0].vector(), "{}", shown());
            assert_eq!(y.as_f32().unwrap(), given[1].vector(), "{}", shown());
        }
    }
}
