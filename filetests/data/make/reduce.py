"""std/reduce.tn against numpy."""

import numpy as np
from ref import *

cubes = [[randn(2, 3, 4)], [randn(2, 0, 4)], [randn(1, 1, 1)], [randn(7, 13, 5)]]
squares = [[randn(3, 4)], [randn(1, 1)], [randn(13, 7)], [randn(1, 17)], [randn(17, 1)]]
strange = [values([[1, nan, 3], [inf, 2, -inf], [-1, -inf, 5]])]


def of(dtype, cases):
    return [[randn(*shape, dtype=dtype)] for shape in cases]


some = [(3, 4), (1, 1), (13, 7)]

entry("sum_first", lambda x: x.sum(0), *cubes)
entry("sum_ends", lambda x: x.sum((0, 2)), *cubes, [values([[[1, nan], [inf, 2], [-inf, 3]]])])
entry("sum_kept", lambda x: x.sum(1, keepdims=True), *cubes)
entry("sum_whole", lambda x: (x.sum(), x.sum(keepdims=True)), *cubes)
entry(
    "sum_integers",
    lambda x: (x.sum(1, dtype=i32), x.sum(0, dtype=i32), x.sum(dtype=i32)),
    [randint(-9, 9, 3, 4, dtype=i32)],
    [randint(-9, 9, 0, 4, dtype=i32)],
    [values([[2**31 - 1, 1], [-(2**31), -1]], i32)],
)
entry("sum_halves", lambda x: (x.sum(1), x.sum(0)), *of(f16, some), [values([[60000, 60000, -60000]], f16)])
entry("prod_each", lambda x: (x.prod(1), x.prod(0), x.prod()), *of(f64, some), [randn(0, 3, dtype=f64)])
entry(
    "extremes",
    lambda x: (x.max(1), x.max(0, keepdims=True), x.max(), x.min(-1), x.min(0), x.min(keepdims=True)),
    *squares,
    strange,
)
entry("extremes_of_nothing", lambda x: (np.full(x.shape[0], -inf), np.full(x.shape[0], inf)), [randn(3, 0)], [randn(0, 0)])
entry("extremes_of_integers", lambda x: (x.max(1), x.min(0)), [randint(-9, 9, 3, 4)], [values([[-(2**63)], [2**63 - 1]], i64)])
entry(
    "logic",
    lambda x: (x.all(1), x.all(0), x.all(), x.any(1), x.any(0, keepdims=True), x.any()),
    [bools(3, 4)],
    [bools(1, 1)],
    [bools(0, 4)],
    [values([[True, True], [True, True]], bool_)],
    [values([[False, False], [False, False]], bool_)],
)
entry(
    "counts",
    lambda x, c, f: tuple(np.asarray(r, dtype=i64) for r in (np.count_nonzero(x, axis=1), np.count_nonzero(c, axis=0, keepdims=True), np.count_nonzero(f))),
    [randint(-1, 2, 3, 4), bools(3, 4), randint(-1, 2, 3, 4, dtype=f32)],
    [randint(-1, 2, 0, 4), bools(0, 4), randn(0, 4)],
    [randint(-1, 2, 1, 3), bools(1, 3), values([[nan, -0.0, 1]])],
)
entry("means", lambda x: (x.mean(2), x.mean((0, 2)), x.mean(keepdims=True)), *cubes)
entry("means_of_halves", lambda x: (x.mean(1), x.mean()), *of(bf16, some))
entry("variances", lambda x: (x.var(2), x.var((0, 2)), x.var(ddof=1)), *cubes, [rand(1000, 1001, 2, 3, 17)], rtol=1e-3)
entry(
    "deviations",
    lambda x: (x.std(1), x.std(0, ddof=1, keepdims=True), x.std()),
    *of(f64, [(3, 4), (13, 7), (1, 5)]),
)


def logsumexp(x, **k):
    top = x.max(initial=-inf, **{**k, "keepdims": True})
    top = np.where(np.isfinite(top), top, 0)
    s = np.log(np.exp(x - top).sum(**{**k, "keepdims": True})) + top
    return s if k.get("keepdims") else (s.squeeze(k["axis"]) if "axis" in k else s.squeeze())


entry(
    "log_sums",
    lambda x: (logsumexp(x, axis=1), logsumexp(x, axis=0, keepdims=True), logsumexp(x)),
    *squares,
    [randn(0, 3)],
    [values([[1e4, 1e4], [-1e4, -1e4], [-inf, -inf], [inf, 0], [nan, 0]])],
)
entry(
    "lengths",
    lambda x: (abs(x).sum(1), abs(x).sum(0), np.sqrt((x * x).sum(1, keepdims=True)), np.sqrt((x * x).sum())),
    *squares,
    [randn(0, 3)],
)
entry("length_of_integers", lambda x: abs(x).sum(), [randint(-9, 9, 7)], [randint(-9, 9, 0)])
entry(
    "winners",
    lambda x: (x.argmax(1), x.argmax(0, keepdims=True), x.argmax(), x.argmin(1), x.argmin(0), x.argmin()),
    *squares,
    strange,
    [randint(0, 3, 5, 6, dtype=f32)],
    [values([[0.0, -0.0], [-0.0, 0.0]])],
)
entry("winners_of_integers", lambda x: (x.argmax(1), x.argmin(0)), [randint(-2, 3, 5, 6, dtype=i32)])


def reverse(f, axis):
    return lambda x: np.flip(f(np.flip(x, axis), axis=axis), axis)


def exclusive(f, axis, first):
    def run(x):
        y = f(x, axis=axis)
        head = np.full_like(np.take(y, [0], axis), first)
        return np.concatenate([head, np.delete(y, -1, axis)], axis)

    return run


entry(
    "running",
    lambda x: (np.cumsum(x, -1), np.cumsum(x, 0), reverse(np.cumsum, 1)(x), exclusive(np.cumsum, 0, 0)(x)),
    *squares,
    atol=1e-5,
)
entry(
    "running_integers",
    lambda x: (
        np.flip(exclusive(np.cumsum, 1, 0)(np.flip(x, 1)), 1),
        np.cumprod(x, 1),
        exclusive(np.cumprod, 0, 1)(x),
        np.maximum.accumulate(x, 1),
    ),
    [randint(-3, 4, 3, 5)],
    [randint(-3, 4, 1, 1)],
)
entry("running_products", lambda x: (np.cumprod(x, 0), reverse(np.cumprod, 1)(x)), *of(f64, some), [randn(0, 3, dtype=f64)])
entry(
    "running_extremes",
    lambda x: (
        np.maximum.accumulate(x, 1),
        reverse(np.maximum.accumulate, 0)(x),
        np.minimum.accumulate(x, 0),
        reverse(np.minimum.accumulate, 1)(x),
    ),
    *squares,
    strange,
    [randn(3, 0)],
)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True, initial=-inf))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis):
    y = x - x.max(axis, keepdims=True, initial=-inf)
    return y - np.log(np.exp(y).sum(axis, keepdims=True))


wild = [values([[1e4, -1e4, 0], [-inf, 0, -inf], [nan, 0, 1], [-inf, -inf, -inf]])]
entry("softmaxes", lambda x: (softmax(x, -1), softmax(x, 1), softmax(x, 0)), *cubes)
entry("softmax_of_doubles", lambda x: softmax(x, -1), *of(f64, some), [lambda rng: wild[0](rng).astype(f64)])
entry("log_softmaxes", lambda x: (log_softmax(x, -1), log_softmax(x, 0)), *squares, wild, [randn(0, 3)])
entry(
    "closeness",
    lambda x, y: (np.all(abs(x - y) <= 1e-5 + 1e-5 * abs(y)), np.array_equal(x, y)),
    [values([1, 2]), values([1, 2])],
    [values([1, 2]), values([1, 2.00001])],
    [values([1, 2]), values([1, 2.1])],
    [values([]), values([])],
    [values([nan]), values([nan])],
)
