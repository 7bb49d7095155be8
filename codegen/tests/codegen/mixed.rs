//! Forms in which several decisions of the schedule meet: convolutions, gated products, stencils, gathers with
//! checks in vectors, conditions that all lanes share.

use crate::harness;

use crate::harness::build::{E, P, f, for_, loop_, op, reduce, serial, store, sum, var};
use crate::harness::{Case, Near, Numbers};
use ir::loops::{Mark, Stmt};
use ir::{Combine, Intrinsic};
use tensor::{DType, Tensor};

const F32: DType = DType::F32;

#[test]
fn convolution_with_three_sums_inside_each_other() {
    let mut p = P::new("conv", &["c", "o", "h", "w", "kh", "kw"]);
    let x = p.input("x", F32, &["c", "h + kh - 1", "w + kw - 1"]);
    let k = p.input("k", F32, &["o", "c", "kh", "kw"]);
    let y = p.out("y", F32, &["o", "h", "w"]);
    let [o, i, j, c, a, b] = ["oo", "i", "j", "cc", "a", "b"].map(|n| p.index(n));
    let at = [c.into(), E::from(i) + a, E::from(j) + b];
    let v = p.load(x, at) * p.load(k, [o.into(), c.into(), a.into(), b.into()]);
    let v = sum(c, "c", sum(a, "kh", sum(b, "kw", v)));
    let inner = for_(i, "h", vec![for_(j, "w", vec![store(y, [o.into(), i.into(), j.into()], v)])]);
    let case = Case::new(p.done(vec![for_(o, "o", vec![inner])]));
    for dims in [[2, 3, 4, 5, 3, 3], [1, 1, 1, 40, 1, 5], [0, 2, 2, 2, 1, 1], [3, 7, 9, 17, 2, 1]] {
        let [c, o, h, w, kh, kw] = dims;
        let mut r = Numbers(3);
        let args = [r.small(F32, &[c, h + kh - 1, w + kw - 1], -2, 3), r.small(F32, &[o, c, kh, kw], -2, 3)];
        case.check(&dims, &args, Near::Exact);
    }
}

#[test]
fn two_products_gated_and_normalised_in_one_nest() {
    let mut p = P::new("gated", &["m", "k", "n"]);
    let (x, g) = (p.input("x", F32, &["m", "k"]), p.input("g", F32, &["k", "n"]));
    let (u, y) = (p.input("u", DType::Bf16, &["k", "n"]), p.out("y", F32, &["m", "n"]));
    let [i, j, a, b, c] = ["i", "j", "a", "b", "c"].map(|n| p.index(n));
    let gate = p.var("gate", F32);
    let product = |p: &P, w, k| p.load(x, [i.into(), E::from(k)]) * p.load(w, [E::from(k), j.into()]);
    // The last sum reads what differs in every row and not in the lanes.
    let size = sum(c, "k", p.load(x, [i.into(), c.into()]) * p.load(x, [i.into(), c.into()])) + f(F32, 1.0);
    let v = op(Intrinsic::Max, [var(gate, F32), f(F32, 0.0)]) * sum(b, "k", product(&p, g, b)) / size;
    let up = {
        let w = harness::build::cast(F32, p.load(u, [a.into(), j.into()]));
        sum(a, "k", p.load(x, [i.into(), a.into()]) * w)
    };
    let body = vec![Stmt::Set(gate, up.0), store(y, [i.into(), j.into()], v)];
    let case = Case::new(p.done(vec![for_(i, "m", vec![for_(j, "n", body)])]));
    for [m, k, n] in [[1, 3, 5], [13, 20, 33], [40, 7, 70], [30, 0, 9]] {
        let mut r = Numbers(6);
        let args = [
            r.small(F32, &[m, k], -2, 3),
            r.small(F32, &[k, n], -2, 3),
            r.small(DType::Bf16, &[k, n], -2, 3),
        ];
        case.check(&[m, k, n], &args, Near::Within(1e-6));
    }
}

#[test]
fn a_stencil_whose_grid_begins_at_one() {
    let mut p = P::new("stencil", &["n"]);
    let x = p.input("x", F32, &["n"]);
    p.0.outs.push(p.0.params[0]);
    let y = p.input("y", F32, &["n"]);
    let i = p.index("i");
    let v = p.load(y, [E::from(i) - 1]) + p.load(y, [i.into()]) + p.load(y, [E::from(i) + 1]);
    let body = vec![store(x, [i.into()], v)];
    let case = Case::new(p.done(vec![loop_(i, 1, E::from("n") - 1, Mark::Independent, body)]));
    for n in [0, 1, 2, 3, 12, 100] {
        let mut r = Numbers(3);
        case.check(&[n], &[r.small(F32, &[n], -9, 9), r.small(F32, &[n], -9, 9)], Near::Exact);
    }
}

#[test]
fn elements_gathered_lane_by_lane_are_checked_in_the_lanes_that_exist() {
    let mut p = P::new("take", &["n", "m"]);
    let (at, x, y) = (p.input("at", DType::I32, &["n"]), p.input("x", F32, &["m"]), p.out("y", F32, &["n"]));
    let i = p.index("i");
    let index = harness::build::cast(DType::I64, p.load(at, [i.into()]));
    let v = p.checked(x, [index]) * f(F32, 2.0);
    let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
    for n in [1i64, 8, 13, 50] {
        let mut r = Numbers(n as u64);
        let x = r.tensor(F32, &[6]);
        let good = r.small(DType::I32, &[n], 0, 6);
        case.check(&[n, 6], &[good.clone(), x.clone()], Near::Exact);
        for (place, wrong) in [(0, 6), (n - 1, -1), (n / 2, i64::from(i32::MIN))] {
            let mut bad = good.clone();
            bad.set_i64(place as usize, wrong);
            case.check(&[n, 6], &[bad, x.clone()], Near::Exact);
        }
    }
}

#[test]
fn a_condition_that_all_lanes_share() {
    let mut p = P::new("either", &["m", "n"]);
    let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["m", "n"]));
    let way = p.input("way", DType::Bool, &["m"]);
    let (i, j) = (p.index("i"), p.index("j"));
    let t = p.var("t", F32);
    let v = p.load(x, [i.into(), j.into()]);
    let body = vec![
        Stmt::Set(t, f(F32, 0.0).0),
        Stmt::If(
            p.load(way, [i.into()]).0,
            vec![Stmt::Set(t, (v.clone() * f(F32, 3.0)).0)],
            vec![Stmt::If(op(Intrinsic::Gt, [i.into(), 2.into()]).0, vec![Stmt::Set(t, v.0)], vec![])],
        ),
        store(y, [i.into(), j.into()], var(t, F32) + f(F32, 1.0)),
    ];
    let case = Case::new(p.done(vec![for_(i, "m", vec![for_(j, "n", body)])]));
    for [m, n] in [[5, 3], [6, 41]] {
        let mut r = Numbers(5);
        case.check(&[m, n], &[r.small(F32, &[m, n], -4, 5), r.small(DType::Bool, &[m], 0, 2)], Near::Exact);
    }
}

#[test]
fn attention_of_one_head_with_a_mask() {
    // Scores, a causal mask by selection, the largest, the sum and the mixture, with a local row.
    let mut p = P::new("attend", &["t", "d"]);
    let [q, k, v] = ["q", "k", "v"].map(|n| p.input(n, F32, &["t", "d"]));
    let y = p.out("y", F32, &["t", "d"]);
    let s = p.local("s", F32, &["t"]);
    let [i, a, b, c, e, g, h] = ["i", "a", "b", "c", "e", "g", "h"].map(|n| p.index(n));
    let (top, all) = (p.var("top", F32), p.var("all", F32));
    let dot = sum(b, "d", p.load(q, [i.into(), b.into()]) * p.load(k, [a.into(), b.into()]));
    let masked =
        op(Intrinsic::Select, [op(Intrinsic::Le, [a.into(), i.into()]), dot, f(F32, f64::NEG_INFINITY)]);
    let weight = op(Intrinsic::Exp, [p.load(s, [e.into()]) - var(top, F32)]);
    let mix = sum(h, "t", p.load(s, [h.into()]) * p.load(v, [h.into(), g.into()]));
    let body = vec![
        Stmt::Alloc(s),
        for_(a, "t", vec![store(s, [a.into()], masked)]),
        Stmt::Set(top, reduce(Combine::Max, c, 0, "t", p.load(s, [c.into()])).0),
        Stmt::Set(all, f(F32, 0.0).0),
        serial(
            e,
            "t",
            vec![store(s, [e.into()], weight), Stmt::Set(all, (var(all, F32) + p.load(s, [e.into()])).0)],
        ),
        for_(g, "d", vec![store(y, [i.into(), g.into()], mix / var(all, F32))]),
    ];
    let case = Case::new(p.done(vec![for_(i, "t", body)]));
    for [t, d] in [[1, 1], [9, 16], [33, 20]] {
        let mut r = Numbers(9);
        let args: Vec<Tensor> = (0..3).map(|_| r.tensor(F32, &[t, d])).collect();
        case.check(&[t, d], &args, Near::Within(2e-5));
    }
}
