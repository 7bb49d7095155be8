"""Primitives that nobody tuned for, written as a user writes them, beside the same loops in C (native/primitives.c) by
clang-22 `-O3 -march=native` on one thread. Tenon sums in an order of its own, so where a loop is a sum C gets
`-ffast-math` (the peer is called `c-fast`); elsewhere both keep the order (`c`)."""

import ctypes
import functools

import numpy as np

from .native import build, drive
from .products import RNG, randn
from .row import Row

CSR_VECTOR = """
prim times<m, n, k>(start: i64[m + 1], col: i64[k], val: f32[k], x: f32[n]) -> y: f32[m] {
    for i in m { y[i] = sum(p in start[i]..start[i + 1]) val[p] * x[col[p]] }
}
fn main<m, n, k>(start: i64[m + 1], col: i64[k], val: f32[k], x: f32[n]) -> f32[m] { times(start, col, val, x) }
"""
CSR_MATRIX = """
prim times<m, n, d, k>(start: i64[m + 1], col: i64[k], val: f32[k], x: f32[n, d]) -> y: f32[m, d] {
    for i in m {
        for p in start[i]..start[i + 1] {
            for j in d { y[i, j] += val[p] * x[col[p], j] }
        }
    }
}
fn main<m, n, d, k>(start: i64[m + 1], col: i64[k], val: f32[k], x: f32[n, d]) -> f32[m, d] { times(start, col, val, x)
}
"""
STENCIL = """
prim stencil<m, n>(x: f32[m, n]) -> y: f32[m, n] {
    for i in m, j in n {
        y[i, j] = if i > 0 && i < m - 1 && j > 0 && j < n - 1 {
            0.5 * x[i, j] + 0.125 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
        } else {
            x[i, j]
        }
    }
}
fn main<m, n>(x: f32[m, n]) -> f32[m, n] { stencil(x) }
"""
PAIRWISE = """
prim pairwise<m, n, k>(x: f32[m, k], z: f32[n, k]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = sqrt(sum(l in k) (x[i, l] - z[j, l]) * (x[i, l] - z[j, l])) }
}
fn main<m, n, k>(x: f32[m, k], z: f32[n, k]) -> f32[m, n] { pairwise(x, z) }
"""
SEGMENTS = """
prim segments<m, n, s>(x: f32[m, n], at: i64[m]) -> y: f32[s, n] {
    for i in m, j in n { y[at[i], j] += x[i, j] }
}
fn main<m, n>(x: f32[m, n], at: i64[m]) -> f32[1000, n] { segments[1000](x, at) }
"""
LOOKUP = """
prim lookup<v, n, m>(table: f32[v, n], at: i64[m]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = if at[i] >= 0 && at[i] < v { table[at[i], j] } else { 0.0 } }
}
fn main<v, n, m>(table: f32[v, n], at: i64[m]) -> f32[m, n] { lookup(table, at) }
"""
PREFIX = """
prim prefix<m, n>(x: f32[m, n]) -> y: f32[m, n] {
    for i in m {
        var total = 0.0
        for j in n {
            total += x[i, j]
            y[i, j] = total
        }
    }
}
fn main<m, n>(x: f32[m, n]) -> f32[m, n] { prefix(x) }
"""
HISTOGRAM = """
prim histogram<n, bins>(x: f32[n]) -> y: i64[bins] {
    for i in n { y[min(max(i64(x[i] * f32(bins)), 0), bins - 1)] += 1 }
}
fn main<n>(x: f32[n]) -> i64[256] { histogram[256](x) }
"""
OUTER = """
prim update<m, n>(a: f32[m, n], u: f32[m], v: f32[n], mask: bool[m, n]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = a[i, j] + (if mask[i, j] { u[i] * v[j] } else { 0.0 }) }
}
fn main<m, n>(a: f32[m, n], u: f32[m], v: f32[n], mask: bool[m, n]) -> f32[m, n] { update(a, u, v, mask) }
"""
BANDED = """
prim banded<n, m>(a: f32[n, n], x: f32[n, m], w: i64) -> y: f32[n, m] {
    for i in n, j in m { y[i, j] = sum(k in max(i - w, 0)..min(i + w + 1, n)) a[i, k] * x[k, j] }
}
fn main<n, m>(a: f32[n, n], x: f32[n, m]) -> f32[n, m] { banded(a, x, 20) }
"""
ARGMAX = """
prim argmax_rows<m, n>(x: f32[m, n]) -> y: i64[m] {
    for i in m {
        var best = -1e999
        var at = 0
        for j in n {
            if x[i, j] > best {
                best = x[i, j]
                at = j
            }
        }
        y[i] = at
    }
}
fn main<m, n>(x: f32[m, n]) -> i64[m] { argmax_rows(x) }
"""
BILINEAR = """
prim sample<h, w, c, m>(x: f32[h, w, c], at: f32[m, 2]) -> y: f32[m, c] {
    for i in m {
        let r = at[i, 0] * f32(h - 1)
        let s = at[i, 1] * f32(w - 1)
        let top = i64(r)
        let left = i64(s)
        let below = min(top + 1, h - 1)
        let right = min(left + 1, w - 1)
        let p = r - f32(top)
        let q = s - f32(left)
        for k in c {
            y[i, k] = (1 - p) * ((1 - q) * x[top, left, k] + q * x[top, right, k])
                + p * ((1 - q) * x[below, left, k] + q * x[below, right, k])
        }
    }
}
fn main<h, w, c, m>(x: f32[h, w, c], at: f32[m, 2]) -> f32[m, c] { sample(x, at) }
"""
SOLVE = """
prim solve<n>(l: f32[n, n], x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = (x[i] - (sum(j in 0..i) l[i, j] * y[j])) / l[i, i] }
}
fn main<n>(l: f32[n, n], x: f32[n]) -> f32[n] { solve(l, x) }
"""

MASKED = """
prim masked_mean<m, n>(x: f32[m, n], mask: bool[m, n]) -> y: f32[m] {
    for i in m {
        var total = 0.0
        var count = 0
        for j in n {
            if mask[i, j] {
                total += x[i, j]
                count += 1
            }
        }
        y[i] = if count > 0 { total / f32(count) } else { 0.0 }
    }
}
fn main<m, n>(x: f32[m, n], mask: bool[m, n]) -> f32[m] { masked_mean(x, mask) }
"""
RUNNING = """
prim running<m, n>(x: f32[m, n]) -> y: f32[m, n] {
    for i in m {
        var most = -1e999
        for j in n {
            most = max(most, x[i, j])
            y[i, j] = most
        }
    }
}
fn main<m, n>(x: f32[m, n]) -> f32[m, n] { running(x) }
"""
EIGHTS = """
prim eights<m>(x: f32[m, 8]) -> y: f32[m, 8] {
    for i in m {
        var p: f32[8]
        for j in 8 { p[j] = x[i, j] }
        for r in 7 {
            for j in 0..7 - r {
                let a = p[j]
                let b = p[j + 1]
                p[j] = min(a, b)
                p[j + 1] = max(a, b)
            }
        }
        for j in 8 { y[i, j] = p[j] }
    }
}
fn main<m>(x: f32[m, 8]) -> f32[m, 8] { eights(x) }
"""
TORUS = """
prim torus<h, w>(x: f32[h, w]) -> y: f32[h, w] {
    for i in h, j in w {
        y[i, j] = 0.25 * (x[(i + h - 1) % h, j] + x[(i + 1) % h, j] + x[i, (j + w - 1) % w] + x[i, (j + 1) % w])
    }
}
fn main<h, w>(x: f32[h, w]) -> f32[h, w] { torus(x) }
"""
DEPTHWISE = """
prim depthwise<c, h, w>(x: f32[c, h, w], f: f32[c, 3, 3]) -> y: f32[c, h, w] {
    for k in c, i in h, j in w {
        y[k, i, j] = sum(p in 3, q in 3)
            if i + p >= 1 && i + p <= h && j + q >= 1 && j + q <= w {
                x[k, i + p - 1, j + q - 1] * f[k, p, q]
            } else {
                0.0
            }
    }
}
fn main<c, h, w>(x: f32[c, h, w], f: f32[c, 3, 3]) -> f32[c, h, w] { depthwise(x, f) }
"""
AVERAGE = """
prim average<t, n>(x: f32[t, n]) -> y: f32[t, n] {
    for s in t, j in n { y[s, j] = if s == 0 { x[0, j] } else { 0.1 * x[s, j] + 0.9 * y[s - 1, j] } }
}
fn main<t, n>(x: f32[t, n]) -> f32[t, n] { average(x) }
"""


class Loops:
    """A function of primitives.c as a competitor."""

    def __init__(self, name, arrays, out, dims, fast):
        self.function = getattr(build("primitives", *(["-ffast-math"] if fast else [])), name)
        self.arrays, self.out = arrays, out
        self.buffers = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in [*arrays, out]))
        self.dims = (ctypes.c_int64 * len(dims))(*dims)

    def run(self, calls):
        return drive().drive_loops(self.function, self.buffers, self.dims, ctypes.c_int64(calls))

    def result(self):
        self.run(1)
        return self.out.copy()


def row(name, text, arrays, want, dims, fast, tolerance):
    out = np.zeros(want.shape, np.int64 if want.dtype.kind == "i" else np.float32)
    peer = lambda: Loops(name, arrays, out, dims, fast)
    return Row(text, [arrays], want, tolerance, {"c-fast" if fast else "c": peer})


def csr(columns):
    m, n = 20_000, 20_000
    counts = RNG.integers(0, 32, m)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    k = int(start[-1])
    col, val = RNG.integers(0, n, k), randn(k)
    x = randn(n, columns) if columns else randn(n)
    rows = np.repeat(np.arange(m), counts)
    want = np.zeros((m, columns) if columns else m)
    np.add.at(want, rows, (val * x[col].T).T.astype(np.float64))
    name = "csr_matrix" if columns else "csr_vector"
    return row(name, CSR_MATRIX if columns else CSR_VECTOR, [start, col, val, x], want, [m, columns], not columns, 1e-4)


def stencil(m, n):
    x = randn(m, n)
    want = x.astype(np.float64)
    want[1:-1, 1:-1] = 0.5 * x[1:-1, 1:-1] + 0.125 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return row("stencil", STENCIL, [x], want, [m, n], False, 1e-5)


def pairwise(m, n, k):
    x, z = randn(m, k), randn(n, k)
    want = np.sqrt(((x[:, None].astype(np.float64) - z) ** 2).sum(2))
    return row("pairwise", PAIRWISE, [x, z], want, [m, n, k], True, 1e-4)


def segments(m, n):
    x, at = randn(m, n), RNG.integers(0, 1000, m)
    want = np.zeros((1000, n))
    np.add.at(want, at, x)
    return row("segments", SEGMENTS, [x, at], want, [m, n, 1000], False, 1e-3)


def lookup(v, n, m):
    table, at = randn(v, n), RNG.integers(-v // 4, v + v // 4, m)
    inside = (at >= 0) & (at < v)
    want = np.where(inside[:, None], table[np.where(inside, at, 0)], 0)
    return row("lookup", LOOKUP, [table, at], want, [v, n, m], False, 1e-9)


def prefix(m, n):
    x = randn(m, n)
    return row("prefix", PREFIX, [x], np.cumsum(x, 1, np.float64), [m, n], False, 1e-3)


def histogram(n):
    x = RNG.random(n, np.float32)
    want = np.bincount((x * np.float32(256)).astype(np.int64), minlength=256)
    return row("histogram", HISTOGRAM, [x], want, [n, 256], False, 0.5)


def masked_outer(m, n):
    a, u, v, mask = randn(m, n), randn(m), randn(n), RNG.random((m, n)) < 0.5
    want = a + np.where(mask, u[:, None].astype(np.float64) * v, 0)
    return row("masked_outer", OUTER, [a, u, v, mask], want, [m, n], False, 1e-5)


def banded(n, m):
    a, x, i = randn(n, n), randn(n, m), np.arange(n)
    want = np.where(np.abs(i[:, None] - i) <= 20, a, 0).astype(np.float64) @ x
    return row("banded", BANDED, [a, x], want, [n, m, 20], True, 1e-4)


def argmax(m, n):
    x = randn(m, n)
    return row("argmax", ARGMAX, [x], x.argmax(1), [m, n], False, 0.5)


def bilinear(h, w, c, m):
    x, at = randn(h, w, c), RNG.random((m, 2), np.float32)
    r, s = at[:, 0] * np.float32(h - 1), at[:, 1] * np.float32(w - 1)
    i, j = r.astype(np.int64), s.astype(np.int64)
    k, l = np.minimum(i + 1, h - 1), np.minimum(j + 1, w - 1)
    p, q = (r - i)[:, None], (s - j)[:, None]
    want = (1 - p) * ((1 - q) * x[i, j] + q * x[i, l]) + p * ((1 - q) * x[k, j] + q * x[k, l])
    return row("bilinear", BILINEAR, [x, at], want, [h, w, c, m], False, 1e-4)


def solve(n):
    from scipy.linalg import solve_triangular

    l = np.tril(randn(n, n) / np.float32(n), -1) + np.diag(RNG.uniform(1, 2, n).astype(np.float32))
    x = randn(n)
    want = solve_triangular(l.astype(np.float64), x, lower=True)
    return row("solve", SOLVE, [l, x], want, [n], True, 1e-4)


def masked_mean(m, n):
    x, mask = randn(m, n), RNG.random((m, n)) < 0.5
    want = np.where(mask, x, 0).sum(1, dtype=np.float64) / mask.sum(1)
    return row("masked_mean", MASKED, [x, mask], want, [m, n], True, 1e-4)


def running(m, n):
    x = randn(m, n)
    return row("running", RUNNING, [x], np.maximum.accumulate(x, 1), [m, n], False, 1e-9)


def eights(m):
    x = randn(m, 8)
    return row("eights", EIGHTS, [x], np.sort(x, 1), [m], False, 1e-9)


def torus(h, w):
    x = randn(h, w)
    want = 0.25 * sum(np.roll(x.astype(np.float64), by, axis) for by in (-1, 1) for axis in (0, 1))
    return row("torus", TORUS, [x], want, [h, w], False, 1e-5)


def depthwise(c, h, w):
    x, f = randn(c, h, w), randn(c, 3, 3)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    terms = (padded[:, p:p + h, q:q + w] * f[:, p, q, None, None] for p in range(3) for q in range(3))
    return row("depthwise", DEPTHWISE, [x, f], sum(terms), [c, h, w], True, 1e-4)


def average(t, n):
    x = randn(t, n)
    want = x.astype(np.float64)
    for s in range(1, t):
        want[s] = 0.1 * want[s] + 0.9 * want[s - 1]
    return row("average", AVERAGE, [x], want, [t, n], False, 1e-4)


def rows(quick):
    made = [("csr by vector", csr, 0), ("csr by matrix", csr, 32), ("stencil", stencil, 1021, 1027),
            ("pairwise distance", pairwise, 300, 500, 61), ("segmented sum", segments, 50_000, 33),
            ("lookup with guard", lookup, 5_000, 100, 20_000), ("prefix sum", prefix, 1000, 1000),
            ("histogram", histogram, 1_000_000), ("masked outer update", masked_outer, 999, 1001),
            ("banded product", banded, 1000, 65), ("argmax of rows", argmax, 1000, 1003),
            ("bilinear sampling", bilinear, 200, 300, 24, 20_000), ("triangular solve", solve, 1000),
            ("masked mean", masked_mean, 1021, 1027), ("running extreme", running, 1021, 1027),
            ("sorted eights", eights, 50_021), ("torus", torus, 1021, 1027),
            ("depthwise convolution", depthwise, 32, 113, 131), ("moving average", average, 1021, 1027)]
    for name, primitive, *sizes in made[:2] if quick else made:
        yield f"prim {name}", functools.partial(primitive, *sizes)
