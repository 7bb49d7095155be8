//! Control, checks and memory: data-dependent bounds, accesses that are checked, updates in place, local
//! buffers on the stack and in scratch memory, conditions and loops that end by their data.

use crate::harness::build::{
    E, P, choose, f, for_, int, loop_, op, reduce, serial, store, store_with, sum, var,
};
use crate::harness::{Case, Near, Numbers};
use ir::loops::{Mark, Stmt};
use ir::{Combine, Intrinsic};
use tensor::{DType, Tensor};

const F32: DType = DType::F32;
const I64: DType = DType::I64;

fn ints(shape: &[i64], data: &[i64]) -> Tensor {
    Tensor::from_i64(shape, data).expect("a small tensor")
}

#[test]
fn sparse_matrix_by_vector_with_bounds_out_of_the_data() {
    let mut p = P::new("csr", &["m", "n", "nnz"]);
    let ptr = p.input("indptr", I64, &["m + 1"]);
    let (idx, val) = (p.input("idx", I64, &["nnz"]), p.input("val", F32, &["nnz"]));
    let (x, y) = (p.input("x", F32, &["n"]), p.out("y", F32, &["m"]));
    let (i, q) = (p.index("i"), p.index("p"));
    let at = p.checked(idx, [q.into()]);
    let v = reduce(
        Combine::Add,
        q,
        p.load(ptr, [i.into()]),
        p.load(ptr, [E::from(i) + 1]),
        p.checked(val, [q.into()]) * p.checked(x, [at]),
    );
    let case = Case::new(p.done(vec![for_(i, "m", vec![store(y, [i.into()], v)])]));
    for (_, k) in &case.kernels {
        assert_eq!(
            k.kernel.checks,
            ["val", "x", "idx"].map(|buf| {
                format!("an index is out of bounds: index {{}} of axis {{}} of `{buf}`, whose extent is {{}}")
            })
        );
    }
    let mut r = Numbers(1);
    let (m, n) = (9i64, 40i64);
    let mut ptr = vec![0i64];
    for i in 0..m {
        ptr.push(ptr[i as usize] + [0, 1, 3, 8, 9, 17, 40, 2, 0][i as usize]);
    }
    let nnz = ptr[m as usize];
    let idx: Vec<i64> = (0..nnz).map(|_| (r.next() % n as u64) as i64).collect();
    let args = |ptr: &[i64], idx: &[i64], r: &mut Numbers| {
        vec![ints(&[m + 1], ptr), ints(&[nnz], idx), r.small(F32, &[nnz], -3, 4), r.small(F32, &[n], -3, 4)]
    };
    case.check(&[m, n, nnz], &args(&ptr, &idx, &mut r), Near::Exact);
    for (place, wrong) in [(nnz - 1, n), (5, -1), (30, i64::MIN)] {
        let mut bad = idx.clone();
        bad[place as usize] = wrong;
        case.check(&[m, n, nnz], &args(&ptr, &bad, &mut r), Near::Exact);
    }
    let mut long = ptr.clone();
    long[m as usize] = nnz + 1;
    case.check(&[m, n, nnz], &args(&long, &idx, &mut r), Near::Exact);
}

#[test]
fn checks_stop_before_anything_is_written_out_of_bounds() {
    let mut p = P::new("scatter", &["n", "m"]);
    let (at, x, y) = (p.input("at", I64, &["n"]), p.input("x", F32, &["n"]), p.out("y", F32, &["m"]));
    let i = p.index("i");
    let to = p.load(at, [i.into()]);
    let v = p.load(x, [i.into()]);
    let case = Case::new(p.done(vec![serial(i, "n", vec![store_with(y, [to], None, true, v)])]));
    let x = Numbers(4).tensor(F32, &[4]);
    case.check(&[4, 6], &[ints(&[4], &[5, 0, 3, 3]), x.clone()], Near::Exact);
    for bad in [6, -1, i64::MAX, i64::MIN] {
        case.check(&[4, 6], &[ints(&[4], &[5, 0, bad, 3]), x.clone()], Near::Exact);
    }
}

#[test]
fn gathered_rows_with_a_checked_index() {
    let mut p = P::new("gather", &["n", "v", "d"]);
    let (id, w) = (p.input("id", I64, &["n"]), p.input("w", F32, &["v", "d"]));
    let y = p.out("y", F32, &["n", "d"]);
    let (i, j) = (p.index("i"), p.index("j"));
    let row = p.load(id, [i.into()]);
    let v = p.checked(w, [row, j.into()]);
    let case =
        Case::new(p.done(vec![for_(i, "n", vec![for_(j, "d", vec![store(y, [i.into(), j.into()], v)])])]));
    let w = Numbers(4).tensor(F32, &[5, 19]);
    case.check(&[3, 5, 19], &[ints(&[3], &[4, 0, 2]), w.clone()], Near::Exact);
    case.check(&[3, 5, 19], &[ints(&[3], &[4, 5, 2]), w], Near::Exact);
    case.check(&[2, 5, 0], &[ints(&[2], &[4, 9]), Numbers(4).tensor(F32, &[5, 0])], Near::Exact);
}

#[test]
fn a_row_is_written_in_place() {
    let mut p = P::new("put_row", &["s", "d"]);
    let cache = p.input("cache", F32, &["s", "d"]);
    p.0.outs.push(cache);
    let (row, at) = (p.input("row", F32, &["d"]), p.input("at", I64, &[]));
    let j = p.index("j");
    let pos = p.load(at, []);
    let v = p.load(row, [j.into()]);
    let write = store_with(cache, [pos, j.into()], None, true, v);
    let case = Case::new(p.done(vec![for_(j, "d", vec![write])]));
    for (_, k) in &case.kernels {
        assert_eq!(k.kernel.bufs[0].access, tensor::abi::Access::InOut);
        assert_eq!(k.kernel.bufs.len(), 2);
    }
    let mut r = Numbers(8);
    let (cache, row) = (r.tensor(F32, &[4, 21]), r.tensor(F32, &[21]));
    for at in [0, 3, 4, -1] {
        let at = Tensor::scalar_i(I64, at);
        case.check(&[4, 21], &[cache.clone(), row.clone(), at], Near::Exact);
    }
}

#[test]
fn in_place_arithmetic_in_vectors() {
    let mut p = P::new("twice", &["n"]);
    let x = p.input("x", F32, &["n"]);
    p.0.outs.push(x);
    let i = p.index("i");
    let v = p.load(x, [i.into()]);
    let case =
        Case::new(p.done(vec![for_(i, "n", vec![store_with(x, [i.into()], Some(Combine::Add), false, v)])]));
    for n in [0, 5, 8, 77] {
        case.check(&[n], &[Numbers(8).tensor(F32, &[n])], Near::Exact);
    }
}

#[test]
fn local_buffers_begin_as_zeros_on_the_stack_and_in_scratch_memory() {
    for size in ["24", "n"] {
        let mut p = P::new("local", &["m", "n"]);
        let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["m", "n"]));
        let t = p.local("t", F32, &[size]);
        let [i, j, k, l] = ["i", "j", "k", "l"].map(|n| p.index(n));
        let bump = store_with(t, [j.into()], Some(Combine::Add), false, p.load(x, [i.into(), j.into()]));
        let twice = serial(l, 2, vec![for_(j, "n", vec![bump])]);
        let v = p.load(t, [k.into()]) + p.load(t, [E::from("n") - 1 - E::from(k)]);
        let body = vec![Stmt::Alloc(t), twice, for_(k, "n", vec![store(y, [i.into(), k.into()], v)])];
        let case = Case::new(p.done(vec![for_(i, "m", body)]));
        for (_, kernel) in &case.kernels {
            assert_eq!(kernel.kernel.scratch.is_empty(), size == "24");
        }
        for [m, n] in [[0, 3], [3, 0], [4, 24], [2, 9]] {
            case.check(&[m, n], &[Numbers(8).small(F32, &[m, n], -9, 9)], Near::Exact);
        }
    }
}

#[test]
fn a_loop_that_ends_by_its_data_and_nested_conditions() {
    // Steps of Collatz, for odd and even and small numbers each another way.
    let mut p = P::new("collatz", &["n"]);
    let (x, y) = (p.input("x", I64, &["n"]), p.out("y", I64, &["n"]));
    let i = p.index("i");
    let (v, steps) = (p.index("v"), p.index("steps"));
    let odd = op(Intrinsic::Eq, [E::from(v) % 2, 1.into()]);
    let small = op(Intrinsic::Lt, [v.into(), 10.into()]);
    let up = |by: i64| vec![Stmt::Set(v, (E::from(v) * 3 + by).0)];
    let round = vec![
        Stmt::If(odd.0, vec![Stmt::If(small.0, up(1), up(1))], vec![Stmt::Set(v, (E::from(v) / 2).0)]),
        Stmt::Set(steps, (E::from(steps) + 1).0),
    ];
    let more = op(Intrinsic::Gt, [v.into(), 1.into()]);
    let body = vec![
        Stmt::Set(v, p.load(x, [i.into()]).0),
        Stmt::Set(steps, E::from(0).0),
        Stmt::While(more.0, round),
        store(y, [i.into()], steps.into()),
    ];
    let case = Case::new(p.done(vec![for_(i, "n", body)]));
    let data: Vec<i64> = (0..50).collect();
    case.check(&[50], &[ints(&[50], &data)], Near::Exact);
}

#[test]
fn triangles_and_bounds_that_are_empty_or_backwards() {
    let mut p = P::new("triangle", &["n"]);
    let (x, y) = (p.input("x", F32, &["n", "n"]), p.out("y", F32, &["n", "n"]));
    let (i, j) = (p.index("i"), p.index("j"));
    let v = p.load(x, [i.into(), j.into()]);
    let rows = vec![
        loop_(j, 0, E::from(i) + 1, Mark::Independent, vec![store(y, [i.into(), j.into()], v)]),
        loop_(j, E::from(i) + 1, "n", Mark::Independent, vec![store(y, [i.into(), j.into()], f(F32, -1.0))]),
        loop_(j, 5, 2, Mark::Independent, vec![store(y, [i.into(), j.into()], f(F32, 9.0))]),
    ];
    let case = Case::new(p.done(vec![for_(i, "n", rows)]));
    for n in [0, 1, 2, 17] {
        case.check(&[n], &[Numbers(8).tensor(F32, &[n, n])], Near::Exact);
    }
}

#[test]
fn prefix_sums_with_a_bound_that_is_the_row() {
    let mut p = P::new("prefix", &["n"]);
    let (x, y) = (p.input("x", F32, &["n"]), p.out("y", F32, &["n"]));
    let (i, k) = (p.index("i"), p.index("k"));
    let v = sum(k, E::from(i) + 1, p.load(x, [k.into()]));
    let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
    for n in [0, 1, 9, 50] {
        case.check(&[n], &[Numbers(8).small(F32, &[n], -5, 6)], Near::Exact);
    }
}

#[test]
fn scalars_of_every_type_come_through() {
    for dtype in DType::all() {
        let mut p = P::new("scalar", &["n"]);
        let (s, y) = (p.input("s", dtype, &[]), p.out("y", dtype, &["n"]));
        let t = p.var("t", dtype);
        let i = p.index("i");
        let set = Stmt::Set(t, p.load(s, []).0);
        let case = Case::new(p.done(vec![set, for_(i, "n", vec![store(y, [i.into()], var(t, dtype))])]));
        let s = if dtype.is_float() { Tensor::scalar_f(dtype, -1.375) } else { Tensor::scalar_i(dtype, 77) };
        case.check(&[5], &[s], Near::Exact);
    }
}

#[test]
fn several_outputs_and_one_without_axes() {
    let mut p = P::new("stats", &["n"]);
    let (x, y, total) = (p.input("x", F32, &["n"]), p.out("y", F32, &["n"]), p.out("total", F32, &[]));
    let (i, k) = (p.index("i"), p.index("k"));
    let all = sum(k, "n", p.load(x, [k.into()]));
    let v = p.load(x, [i.into()]) * f(F32, 2.0);
    let case = Case::new(p.done(vec![store(total, [], all), for_(i, "n", vec![store(y, [i.into()], v)])]));
    for n in [0, 3, 30] {
        case.check(&[n], &[Numbers(8).small(F32, &[n], -5, 6)], Near::Exact);
    }
}

/// `if guard { x[..] } else { 0 }` in lanes, rows, reductions and under checks; `x` ends at a page no one may touch.
#[test]
fn what_is_guarded_is_not_read_where_the_guard_fails() {
    for dtype in [DType::F32, DType::U8] {
        let zero = || if dtype.is_float() { f(dtype, 0.0) } else { int(dtype, 0) };
        let within = |a: E, lo: E, hi: E| {
            op(Intrinsic::And, [op(Intrinsic::Le, [lo, a.clone()]), op(Intrinsic::Lt, [a, hi])])
        };
        // A shift: y[i] = x[i - 5], and its mirror image, whose lanes are apart.
        let mut p = P::new("shift", &["n", "m"]);
        let (x, y) = (p.input("x", dtype, &["m"]), p.out("y", dtype, &["n"]));
        let i = p.index("i");
        let at = || E::from(i) - 5;
        let back = || E::from("m") - E::from(i) * 2;
        let v = choose(
            within(at(), 0.into(), "m".into()),
            p.load(x, [at()]),
            choose(within(back(), 0.into(), "m".into()), p.load(x, [back()]), zero()),
        );
        let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
        let mut r = Numbers(7);
        for (n, m) in [(0, 0), (3, 0), (64, 0), (64, 1), (7, 40), (70, 33), (100, 100), (65, 200)] {
            let args = vec![r.small(dtype, &[m], 0, 9)];
            case.check(&[n, m], &args, Near::Exact);
        }
        // Rows by lanes, with a sum whose every term is guarded by the row and by the lane.
        let mut p = P::new("window", &["n", "m", "k"]);
        let (x, w) = (p.input("x", dtype, &["n", "m"]), p.input("w", dtype, &["k", "m"]));
        let y = p.out("y", dtype, &["n", "m"]);
        let (i, j, q) = (p.index("i"), p.index("j"), p.index("q"));
        let (a, b) = (|| E::from(i) + q - 1, || E::from(j) + q - 1);
        let inside =
            op(Intrinsic::And, [within(a(), 0.into(), "n".into()), within(b(), 0.into(), "m".into())]);
        let v = sum(q, "k", choose(inside, p.load(x, [a(), b()]) * p.load(w, [q.into(), j.into()]), zero()));
        let case = Case::new(p.done(vec![for_(
            i,
            "n",
            vec![for_(j, "m", vec![store(y, [i.into(), j.into()], v)])],
        )]));
        for (n, m, k) in [(1, 1, 1), (2, 3, 3), (13, 70, 3), (6, 33, 5), (3, 64, 0)] {
            let args = vec![r.small(dtype, &[n, m], 0, 3), r.small(dtype, &[k, m], 0, 3)];
            case.check(&[n, m, k], &args, Near::Exact);
        }
        // A causal product: the sum itself is guarded, its bound too is read only where a lane wants it.
        let mut p = P::new("causal", &["n", "d"]);
        let (x, y) = (p.input("x", dtype, &["n", "d"]), p.out("y", dtype, &["n", "n"]));
        let (i, j, c) = (p.index("i"), p.index("j"), p.index("c"));
        let dot = sum(c, "d", p.load(x, [i.into(), c.into()]) * p.load(x, [j.into(), c.into()]));
        let v = choose(op(Intrinsic::Le, [j.into(), i.into()]), dot, zero());
        let case = Case::new(p.done(vec![for_(
            i,
            "n",
            vec![for_(j, "n", vec![store(y, [i.into(), j.into()], v)])],
        )]));
        for (n, d) in [(1, 1), (37, 3), (20, 0)] {
            case.check(&[n, d], &[r.small(dtype, &[n, d], 0, 3)], Near::Exact);
        }
    }
}

/// A checked access looks only at the lanes that take the branch.
#[test]
fn a_check_in_a_branch_is_of_the_lanes_that_take_it() {
    let mut p = P::new("picked", &["n", "m"]);
    let (x, at) = (p.input("x", F32, &["m"]), p.input("at", I64, &["n"]));
    let y = p.out("y", F32, &["n"]);
    let i = p.index("i");
    let index = p.load(at, [i.into()]);
    let v = choose(
        op(Intrinsic::Ge, [index.clone(), 0.into()]),
        p.checked(x, [index]) + f(F32, 1.0),
        f(F32, -1.0),
    );
    let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
    let mut r = Numbers(3);
    for place in [0i64, 17, 40, 66] {
        let mut list = vec![-9i64; 67];
        list[place as usize] = 4;
        for bad in [4, 5, i64::MAX] {
            list[place as usize] = bad;
            case.check(&[67, 5], &[r.small(F32, &[5], 0, 9), ints(&[67], &list)], Near::Exact);
        }
    }
}
