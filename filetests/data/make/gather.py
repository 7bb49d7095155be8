"""std/gather.tn against numpy."""

import numpy as np
from ref import *


entry(
    "taken",
    lambda x, at, grid: (np.take(x, at, 0), np.take(x, grid, 0)),
    [randn(5, 3), randint(-5, 5, 4), randint(-5, 5, 4, 2, dtype=i32)],
    [randn(1, 1), randint(0, 1, 1), randint(0, 1, 1, 1, dtype=i32)],
    [randn(3, 0), randint(0, 3, 2), randint(0, 3, 2, 2, dtype=i32)],
    [randn(3, 4), randint(0, 3, 0), randint(0, 3, 0, 2, dtype=i32)],
    [randn(13, 17), randint(-13, 13, 11), randint(-13, 13, 11, 7, dtype=i32)],
)
entry("taken_columns", lambda x, at: (np.take(x, at, 1), np.take(x, at, 1)), [randn(3, 5), randint(-5, 5, 4, dtype=i32)], [randn(3, 1), randint(-1, 1, 7, dtype=i32)])
entry("taken_one", lambda x, at: x[at], [randn(3, 5), values(2, i64)], [randn(3, 5), values(-1, i64)])
entry("embedded", lambda t, ids: t[ids], [randn(11, 5, dtype=bf16), randint(0, 11, 2, 3)], [randn(11, 5, dtype=bf16), randint(0, 11, 0, 3)])
entry(
    "taken_along",
    lambda x, r, c: (np.take_along_axis(x, r.astype(i64), 1), np.take_along_axis(x, c.astype(i64), 0)),
    [randn(5, 3), randint(-3, 3, 5, 4), randint(-5, 5, 4, 3, dtype=i32)],
    [randn(1, 1), randint(0, 1, 1, 1), randint(0, 1, 1, 1, dtype=i32)],
    [randn(2, 3), randint(0, 3, 2, 0), randint(0, 2, 0, 3, dtype=i32)],
)

UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def put(x, at, u, axis, mode):
    y = np.moveaxis(x.copy(), axis, 0)
    u = np.moveaxis(u, axis, 0)
    for j, a in enumerate(at):
        y[a] = u[j] if mode == "set" else UFUNCS[mode](y[a], u[j])
    return np.moveaxis(y, 0, axis)


def put_along(x, at, u, axis, mode):
    y = x.copy()
    for i in np.ndindex(*at.shape):
        to = list(i)
        to[axis] = at[i]
        to = tuple(to)
        y[to] = u[i] if mode == "set" else UFUNCS[mode](y[to], u[i])
    return y


MODES = ["set", "add", "mul", "min", "max"]
entry(
    "put_rows",
    lambda x, at, u: [put(x, at, u, 0, m) for m in MODES],
    [randn(5, 3), randint(-5, 5, 4), randn(4, 3)],
    [randn(5, 3), values([1, 1, 1, -4], i64), randn(4, 3)],
    [randn(5, 3), randint(0, 5, 0), randn(0, 3)],
    [randn(1, 1), values([0], i64), randn(1, 1)],
)
entry(
    "put_columns",
    lambda x, at, u: [put(x, at, u, 1, m) for m in ["set", "add"]],
    [randint(-9, 9, 3, 5), randint(-5, 5, 7, dtype=i32), randint(-9, 9, 3, 7)],
    [randint(-9, 9, 0, 5), randint(-5, 5, 2, dtype=i32), randint(-9, 9, 0, 2)],
)
entry(
    "put_elements",
    lambda x, at, u: [put_along(x, at, u, 1, m) for m in MODES],
    [randn(3, 5), randint(-5, 5, 3, 4), randn(3, 4)],
    [randn(2, 2), randint(0, 2, 2, 7), randn(2, 7)],
    [randn(2, 2), randint(0, 2, 2, 0), randn(2, 0)],
)
entry(
    "hot",
    lambda at: ((at[:, None] == np.arange(5)).astype(f32), (at[:, None] == np.arange(5)).astype(i64)),
    [values([0, 4, 2, 2], i64)],
    [values([-1, 5, 1], i64)],
    [randint(0, 5, 0)],
    out=f32,
)
entry("found", lambda x: np.nonzero(x > 0)[0], [randn(7)], [randn(0)], [values([-1, -2])], [values([1, 2])], [values([nan, inf])])
entry("placed", lambda x, like: np.nonzero(x)[0], [values([1, 0, 1, 1, 0], bool_), randint(0, 1, 3)])
entry("kept", lambda x, m: x[m], [randn(7, 3), bools(7)], [randn(0, 3), bools(0)], [randn(3, 0), bools(3)], [randn(1, 1), values([False], bool_)])


def pick(x, *ats):
    return [x[tuple(np.moveaxis(at.astype(i64), -1, 0))] for at in ats]


entry(
    "picked",
    pick,
    [randn(4, 5, 3), randint(-4, 4, 6, 1), randint(-4, 4, 6, 2, dtype=i32), randint(-3, 3, 6, 2, 3)],
    [randn(4, 5, 3), randint(0, 1, 0, 1), randint(0, 1, 0, 2, dtype=i32), randint(0, 1, 0, 2, 3)],
    [randn(4, 5, 3), values([[-4]], i64), values([[3, -5]], i32), values([[[3, 4, 2], [-4, -5, -3]]], i64)],
)


def scatter(x, at, u, mode):
    y = x.copy()
    for j in np.ndindex(*at.shape[:-1]):
        to = tuple(at[j].astype(i64))
        y[to] = u[j] if mode == "set" else UFUNCS[mode](y[to], u[j])
    return y


entry(
    "scattered",
    lambda x, at, u: [scatter(x, at, u, m) for m in MODES],
    [randn(4, 5), randint(-4, 4, 7, 2), randn(7)],
    [randn(4, 5), values([[1, 1], [1, 1], [-3, -4], [3, 4]], i64), randn(4)],
    [randn(4, 5), randint(0, 1, 0, 2), randn(0)],
)
entry(
    "scattered_rows",
    lambda x, at, u: scatter(x, at, u, "add"),
    [randint(-9, 9, 5, 3), randint(-5, 5, 2, 4, 1, dtype=i32), randint(-9, 9, 2, 4, 3)],
    [randint(-9, 9, 1, 0), randint(0, 1, 2, 1, 1, dtype=i32), randint(-9, 9, 2, 1, 0)],
)
entry("scattered_deep", lambda x, at, u: scatter(x, at, u, "set"), [randn(2, 3, 4, 2), randint(-2, 2, 5, 3), randn(5, 2)])
