"""std/sort.tn against numpy."""

import numpy as np
from ref import *

squares = [[randn(3, 4)], [randn(1, 1)], [randn(0, 3)], [randn(3, 0)], [randn(5, 31)], [randint(0, 4, 4, 17, dtype=f32)]]
strange = [values([[1, nan, 3, -inf], [inf, 2, nan, nan], [-1, 0.0, -0.0, 5]])]


def rank(x):
    """Ascending ranks with NaN last, of which the negation can be sorted too."""
    return np.unique(np.where(np.isnan(x), inf, x), return_inverse=True)[1].reshape(x.shape) + np.isnan(x)


def argsort(x, axis, descending=False):
    r = rank(x) if x.dtype.kind == "f" else x
    return np.argsort(-r if descending else r, axis=axis, kind="stable")


def sort(x, axis, descending=False):
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


entry("sorted", lambda x: (sort(x, 1), np.sort(x, axis=0), sort(x, 1, True), sort(x, 0, True)), *squares, strange)
entry("sorted_integers", lambda x: (np.sort(x), np.sort(x)[::-1], np.argsort(x, kind="stable")), [randint(-9, 9, 101)], [randint(-9, 9, 0)], [randint(-9, 9, 64)])
entry("order", lambda x: (argsort(x, 1), np.argsort(x, axis=0, kind="stable"), argsort(x, 1, True)), *squares, strange)


def topk(x, k, axis, largest=True):
    at = np.take(argsort(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, at, axis), at


entry("top", lambda x: (*topk(x, 2, 1), *topk(x, 3, 0, False)), [randn(3, 4)], [randn(7, 2)], [randint(0, 3, 9, 13, dtype=f32)], strange)
entry(
    "searched",
    lambda l, v: (np.searchsorted(l, v), np.searchsorted(l, v, side="right")),
    [values([1, 2, 2, 3, 7]), values([0, 1, 2, 2.5, 7, 8, nan])],
    [values([]), values([1, 2])],
    [values([1, 2, nan]), values([0, 2, nan, inf])],
    [values([1]), values([])],
)
entry("changed", lambda x: np.concatenate([[True], x[1:] != x[:-1]])[: len(x)], [values([1, 1, 2, 2, 1], i64)], [values([], i64)], [values([3], i64)])
entry("distinct", lambda x: np.unique(x), [randint(-3, 3, 20)], [randint(-3, 3, 0)], [values([5], i64)], [values([2, 2, 2], i64)])
