"""Products of short numbers: bf16, bytes, and f32 by weights in blocks (q8_0, q4_0), activations quantized by each
call.

Where there are few rows, weights take turns so that they come from memory; from M = 128 on they may stay where they
are."""

import functools

import numpy as np

from harness import BF16

from . import peers
from .products import COLD, RNG, WEIGHTS, randn, rounding
from .row import Row

BF16_PRODUCT = """
prim product<m, k, n>(a: bf16[m, k], b: bf16[k, n]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = sum(q in k) f32(a[i, q]) * f32(b[q, j]) }
}
fn main<m, k, n>(a: bf16[m, k], b: bf16[k, n]) -> f32[m, n] { product(a, b) }
"""
INT8 = """
prim product<m, k, n>(a: u8[m, k], b: i8[k, n]) -> y: i32[m, n] {
    for i in m, j in n { y[i, j] = sum(q in k) i32(a[i, q]) * i32(b[q, j]) }
}
fn main<m, k, n>(a: u8[m, k], b: i8[k, n]) -> i32[m, n] { product(a, b) }
"""
GEMV = """
record Weights {{ w: {kind}[{n}, {k}] from "w" }}
fn main(x: {kind}[{k}], w: Weights) -> f32[{n}] {{ {body} }}
"""


def bf16(m, k, n, transposed=False, cold=False):
    a = randn(m, k).astype(BF16)
    bs = [randn(*((n, k) if transposed else (k, n))).astype(BF16)]
    while cold and len(bs) * bs[0].nbytes < COLD:
        bs.append(np.roll(bs[0], len(bs), 1))
    wide_a, wide = a.astype(np.float32), bs[0].astype(np.float32)
    b = wide.T if transposed else wide
    want = wide_a.astype(np.float64) @ b.astype(np.float64)
    allowed = rounding(wide_a, b, k)

    def torch(torch):
        tensor = lambda x: torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        x, ws = tensor(a), [tensor(each) for each in bs]
        return [functools.partial(torch.matmul, x, w.T if transposed else w) for w in ws]

    def openvino():
        nodes = [peers.node("Gemm", "a", "b", transB=1) if transposed else peers.node("MatMul", "a", "b")]
        inputs = {"a": wide_a}
        sets = [[("b", each.astype(np.float32))] for each in bs]
        return peers.openvino(lambda c: peers.graph(nodes, inputs, c), inputs, sets, "bf16")

    by_weights = WEIGHTS.format(kind="bf16", of="bf16", rows=n, columns=k, k=k, n=n, body="f32(a) @ f32(w.w).T")
    return Row(by_weights if transposed else BF16_PRODUCT, [[a, b] for b in bs], want, allowed,
               {"torch": lambda: peers.torch_calls(torch), "openvino": openvino}, {"bf16": 2 * m * k * n},
               bs[0].nbytes if cold else 0, weights=("w.w",) if transposed else (),
               # Their results are rounded to bf16.
               tolerances=dict.fromkeys(["torch", "openvino"], allowed + np.abs(want) / 128))


def int8(m, k, n):
    a, b = RNG.integers(0, 256, (m, k), np.uint8), RNG.integers(-128, 128, (k, n), np.int8)
    want = a.astype(np.float64) @ b.astype(np.float64)

    def onnxruntime():
        nodes = [peers.node("MatMulInteger", "a", "b")]
        return peers.onnxruntime(lambda c: peers.graph(nodes, {"a": a}, c), {"a": a}, want.astype(np.int32), [[("b", b)]])

    return Row(INT8, [[a, b]], want, 0.5, {"onednn": lambda: peers.onednn_int8(a, b), "onnxruntime": onnxruntime},
               {"int8": 2 * m * k * n})


def quantized(x):
    """What `quantize_q8_0` makes of activations, as numbers."""
    blocks = x.reshape(x.shape[0], -1, 32)
    scale = np.abs(blocks).max(2, keepdims=True) / np.float32(127)
    q = np.round(blocks / scale)
    return (scale.astype(np.float16).astype(np.float64) * q).reshape(x.shape), float(scale.max())


def blocks_text(kind, k, n, integers=True):
    """The program of a product by weights in blocks."""
    body = f"matmul_{kind}(quantize_q8_0(a), w.w)" if integers else "a @ w.w.T"
    return WEIGHTS.format(kind=kind, of="f32", rows=n, columns=k, k=k, n=n, body=body)


def blocks(q4, m, k, n, cold, integers=True):
    """f32 activations by weights in blocks."""
    x = randn(m, k)
    scale = RNG.uniform(0.005, 0.01, (n, k // 32)).astype(np.float16)
    q = RNG.integers(0, 256, (n, k // 32, 16), np.uint8) if q4 else RNG.integers(-127, 128, (n, k // 32, 32), np.int8)
    numbers = np.concatenate([q & 15, q >> 4], 2).astype(np.float32) - 8 if q4 else q
    weights = (scale.astype(np.float32)[:, :, None] * numbers).reshape(n, k)
    sets = [(scale, q)]
    size = scale.nbytes + q.nbytes
    while cold and len(sets) * size < COLD:
        sets.append((np.roll(scale, len(sets), 0), np.roll(q, len(sets), 0)))
    values, step = quantized(x) if integers else (x.astype(np.float64), 0.0)
    want = values @ weights.T.astype(np.float64)
    # Where an activation lies between two numbers, either will do.
    allowed = rounding(x, weights.T, k) + 2 * step * np.abs(weights).max()
    # As far as the rounding of activations to 8 bits goes: half a step each, of k that fall where they will.
    loose = allowed + 6 * (step or 0.03) * np.sqrt(k) * np.sqrt(np.mean(weights**2))

    def torch(torch):
        a, w = torch.from_numpy(x).bfloat16(), torch.from_numpy(weights).bfloat16()
        ws = [w] + [w.roll(i, 0) for i in range(1, COLD // w.nbytes if cold else 1)]
        return [functools.partial(torch.matmul, a, each.T) for each in ws]

    made = {
        "ggml": lambda: peers.Ggml(q4, x, sets),
        "openvino": lambda: peers.openvino_blocks(q4, x, sets),
        "torch-bf16": lambda: peers.torch_calls(torch),
    }
    kind = "q4_0" if q4 else "q8_0"
    text = blocks_text(kind, k, n, integers)
    return Row(text, [[x, *each] for each in sets], want, allowed, made, {"int8" if integers else "f32": 2 * m * k * n},
               size if cold else 0, weights=("w.w.scale", "w.w.q"),
               tolerances={"ggml": loose, "openvino": loose, "torch-bf16": loose + np.abs(want) / 128})


def gemv(kind, k, n):
    dtype = np.float32 if kind == "f32" else BF16
    ws = [randn(n, k).astype(dtype)]
    while len(ws) * ws[0].nbytes < COLD:
        ws.append(np.roll(ws[0], len(ws), 0))
    x = randn(k).astype(dtype)
    wide, wide_x = ws[0].astype(np.float32), x.astype(np.float32)
    want = wide.astype(np.float64) @ wide_x.astype(np.float64)
    allowed = rounding(wide, wide_x, k)

    def torch(torch):
        tensor = lambda a: torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if dtype == BF16 else torch.from_numpy(a)
        v = tensor(x)
        return [functools.partial(torch.mv, tensor(w), v) for w in ws]

    made = {"torch": lambda: peers.torch_calls(torch)}
    if kind == "f32":
        made["openblas"] = lambda: peers.openblas(x[None], ws, True)
        made["onednn"] = lambda: peers.onednn(x[None], ws, True)
    text = GEMV.format(kind=kind, n=n, k=k, body="w.w @ x" if kind == "f32" else "f32(w.w) @ f32(x)")
    return Row(text, [[x, w] for w in ws], want, allowed, made, {"f32": 2 * k * n}, ws[0].nbytes, weights=("w.w",),
               tolerances={"torch": allowed + (np.abs(want) / 128 if kind == "bf16" else 0)})


def rows(quick):
    size = 1024 if quick else 4096
    for n in [256] if quick else [256, 512, 1024]:
        yield f"bf16 {n}", functools.partial(bf16, n, n, n)
    for m in [] if quick else [1, 8, 32, 128, 512]:
        yield f"bf16 nk M={m}", functools.partial(bf16, m, size, size, True, m <= 32)
    for n in [256] if quick else [512, 1024]:
        yield f"int8 {n}", functools.partial(int8, n, n, n)
    for q4 in [False, True]:
        for m in [4] if quick else [1, 4, 8, 16, 128, 512]:
            name = f"{'q4_0' if q4 else 'q8_0'} M={m}"
            yield name, functools.partial(blocks, q4, m, size, size, m <= 16 and not quick)
    for q4 in [] if quick else [False, True]:
        name = f"{'q4_0' if q4 else 'q8_0'} decoded M=8"
        yield name, functools.partial(blocks, q4, 8, size, size, True, False)
    for kind in ["f32"] if quick else ["f32", "bf16"]:
        yield f"gemv {kind}", functools.partial(gemv, kind, size, size)
