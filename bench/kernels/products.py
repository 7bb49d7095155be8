"""Products of matrices in f32: square and awkward ones that stay in the caches, and few rows by weights that stream."""

import functools

import numpy as np

from . import peers
from .row import Row

RNG = np.random.default_rng(7)
# Weights are held as often as it takes that none is in the last cache when its turn comes.
COLD = 160 << 20

PRODUCT = """
prim product<m, k, n>(a: f32[m, k], b: f32[k, n]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = sum(q in k) a[i, q] * b[q, j] }
}
fn main<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { product(a, b) }
"""
TRANSPOSED = """
prim product<m, k, n>(a: f32[m, k], b: f32[n, k]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = sum(q in k) a[i, q] * b[j, q] }
}
fn main<m, k, n>(a: f32[m, k], b: f32[n, k]) -> f32[m, n] { product(a, b) }
"""

# By weights, as a model says it.
WEIGHTS = """
record Weights {{ w: {kind}[{rows}, {columns}] from "w" }}
fn main<m>(a: {of}[m, {k}], w: Weights) -> f32[m, {n}] {{ {body} }}
"""


def randn(*shape):
    return RNG.standard_normal(shape, np.float32)


def rounding(a, b, k, epsilon=2.0**-24):
    """What the sums of products may be off: a few standard deviations of the roundings of k sums of such magnitudes."""
    return 8 * epsilon * np.sqrt(k) * (np.abs(a) @ np.abs(b)) + 1e-30


def product(m, k, n, transposed=False, cold=False):
    a = randn(m, k)
    bs = [randn(*((n, k) if transposed else (k, n)))]
    while cold and len(bs) * bs[0].nbytes < COLD:
        bs.append(bs[0] + np.float32(len(bs)))
    b = bs[0].T if transposed else bs[0]
    want = a.astype(np.float64) @ b.astype(np.float64)
    inputs = {"a": a} if cold else {"a": a, "b": bs[0]}
    # Weights are constants to a graph, which may pack them when it is loaded.
    constants = [[("b", each)] for each in bs] if cold else ((),)
    nodes = [peers.node("Gemm", "a", "b", transB=1) if transposed else peers.node("MatMul", "a", "b")]
    model = lambda constants: peers.graph(nodes, inputs, constants)
    rows, columns = bs[0].shape
    by_weights = WEIGHTS.format(kind="f32", of="f32", rows=rows, columns=columns, k=k, n=n,
                                body="a @ w.w.T" if transposed else "a @ w.w")
    return Row(
        by_weights if cold else TRANSPOSED if transposed else PRODUCT,
        [[a, each] for each in bs],
        want,
        rounding(a, b, k),
        {
            "openblas": lambda: peers.openblas(a, bs, transposed),
            "onednn": lambda: peers.onednn(a, bs, transposed),
            "gemm": lambda: peers.gemm_crate(a, bs, transposed),
            "onnxruntime": lambda: peers.onnxruntime(model, inputs, want, constants),
            "openvino": lambda: peers.openvino(model, inputs, constants),
        },
        {"f32": 2 * m * k * n},
        bs[0].nbytes + a.nbytes if cold else 0,
        weights=("w.w",) if cold else (),
    )


def f32(quick):
    sizes = [64, 256] if quick else [64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048]
    for n in sizes:
        yield f"gemm {n}", functools.partial(product, n, n, n)
    awkward = [(31, 31, 31), (127, 131, 137), (257, 521, 263), (511, 509, 503), (1021, 1019, 1031), (1000, 333, 777),
               (31, 2048, 1021), (2048, 17, 2048), (64, 2048, 64), (3, 1000, 1000), (1000, 1000, 3)]
    for m, k, n in awkward[1:2] if quick else awkward:
        yield f"gemm {m}x{k}x{n}", functools.partial(product, m, k, n)


def skinny(quick):
    size = 1024 if quick else 4096
    for transposed in [False, True]:
        for m in [1] if quick else [1, 2, 4, 8, 16, 32]:
            name = f"skinny {'nk' if transposed else 'kn'} M={m}"
            yield name, functools.partial(product, m, size, size, transposed, not quick)
