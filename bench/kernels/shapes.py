"""Dims known only when running: what they cost beside dims fixed in the text, and that no shape compiles anything."""

import functools
import re
import time

import numpy as np

from harness import Bound, Tenon

from .products import PRODUCT, TRANSPOSED, randn, rounding
from .row import Ours, Row

SOFTMAX = """
prim soft<m, n>(x: f32[m, n]) -> y: f32[m, n] {
    for i in m {
        let top = max(j in n) x[i, j]
        let total = sum(j in n) exp(x[i, j] - top)
        for j in n { y[i, j] = exp(x[i, j] - top) / total }
    }
}
fn main<m, n>(x: f32[m, n]) -> f32[m, n] { soft(x) }
"""
STENCIL = """
prim blur<m, n>(x: f32[m, n]) -> y: f32[m, n] {
    for i in m, j in n {
        y[i, j] = (x[max(i - 1, 0), j] + x[i, j] + x[min(i + 1, m - 1), j]) / 3.0
    }
}
fn main<m, n>(x: f32[m, n]) -> f32[m, n] { blur(x) }
"""


def fixed(text, dims):
    """The text with numbers for its dims."""
    text = re.sub("<" + ", ".join(dims) + ">", "", text)
    return re.sub(r"\b(" + "|".join(dims) + r")\b", lambda found: str(dims[found[0]]), text)


def beside_fixed(text, arrays, want, tolerance, dims, work):
    peers = {"fixed": lambda: Ours(fixed(text, dims), [arrays])}
    return Row(text, [arrays], want, tolerance, peers, work)


def product(text, m, k, n):
    a, b = randn(m, k), randn(*((n, k) if text is TRANSPOSED else (k, n)))
    right = b.T if text is TRANSPOSED else b
    return beside_fixed(text, [a, b], a.astype(np.float64) @ right, rounding(a, right, k), {"m": m, "k": k, "n": n},
                        {"f32": 2 * m * k * n})


def softmax(m, n):
    x = randn(m, n)
    e = np.exp(x.astype(np.float64))
    return beside_fixed(SOFTMAX, [x], e / e.sum(1, keepdims=True), 1e-6, {"m": m, "n": n}, {})


def blur(m, n):
    x = randn(m, n).astype(np.float64)
    i = np.arange(m)
    want = (x[np.maximum(i - 1, 0)] + x + x[np.minimum(i + 1, m - 1)]) / 3
    return beside_fixed(STENCIL, [x.astype(np.float32)], want, 1e-5, {"m": m, "n": n}, {})


def executable():
    """Bytes of this process's memory that may run and belong to no library: where compiled kernels lie."""
    total = 0
    for entry in open("/proc/self/maps"):
        fields = entry.split()
        if "x" in fields[1] and not (len(fields) > 5 and (fields[5].endswith(".so") or ".so." in fields[5])):
            low, high = fields[0].split("-")
            total += int(high, 16) - int(low, 16)
    return total


def random_shapes(count, limits):
    """Many shapes, each once, of a product and a softmax compiled before: nothing new that can run may appear."""
    rng = np.random.default_rng(3)
    nothing = executable()
    made, soft = Tenon(PRODUCT), Tenon(SOFTMAX)
    buffer = randn(200 * 200)
    before, slowest, wrong = executable(), 0.0, []
    started = time.perf_counter()
    for i in range(count):
        m, k, n = (int(x) for x in np.exp(rng.uniform(0, np.log(200), 3)))
        a, b = buffer[: m * k].reshape(m, k), buffer[: k * n].reshape(k, n)
        product, row = Bound(made, [[a, b]]), Bound(soft, [[b]])
        begun = time.perf_counter()
        y, z = product(read=True), row(read=True)
        slowest = max(slowest, time.perf_counter() - begun)
        if np.any(np.abs(y - a @ b) > 2 * rounding(a, b, k)) or np.any(np.abs(z.sum(1) - 1) > 1e-4):
            wrong.append(f"{m} x {k} x {n}")
    if before == nothing:
        wrong.append("the code of kernels is not found in the memory of this process")
    grown = executable() - before
    if grown:
        wrong.append(f"{grown} bytes of code appeared after loading")
    return {"name": f"shapes {count} at random", "seconds": (time.perf_counter() - started) / count, "peers": {}, "left": [],
            "wrong": wrong[:5], "grown": grown, "more": [f"{grown} bytes of code appeared; slowest {slowest * 1e3:.2f} ms"]}


def rows(quick):
    sizes = [(127, 131, 137)] if quick else [(31, 33, 65), (127, 131, 137), (257, 521, 263), (1, 1021, 1031), (17, 1000, 1)]
    for m, k, n in sizes:
        yield f"dynamic kn {m}x{k}x{n}", functools.partial(product, PRODUCT, m, k, n)
    for m, k, n in [] if quick else [(127, 131, 137), (7, 1021, 513)]:
        yield f"dynamic nk {m}x{k}x{n}", functools.partial(product, TRANSPOSED, m, k, n)
    for m, n in [] if quick else [(127, 131), (33, 1021), (1000, 17), (100, 1)]:
        yield f"dynamic softmax {m}x{n}", functools.partial(softmax, m, n)
    for m, n in [] if quick else [(127, 131), (513, 1021)]:
        yield f"dynamic blur {m}x{n}", functools.partial(blur, m, n)
    yield "shapes", lambda: functools.partial(random_shapes, 500 if quick else 10_000)
