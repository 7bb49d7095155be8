"""std/quantize.tn against onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *


def ort32(op, x, *rest, **more):
    return ort(op, x.astype(f32), *rest, **more)


def quantize(x, scale, zero, **more):
    return ort("QuantizeLinear", x.astype(f32), np.asarray(scale, dtype=f32), zero, **more)


halves = values([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.35, 1e9, -1e9]])
entry("t_quantize_i8", quantize, [randn(3, 5), values(0.02), values(3, dtype=i8)], [halves, values(1.0), values(0, dtype=i8)], [randn(0, 2), values(0.5), values(0, dtype=i8)], [values([[0.35, 0.25, 0.15]]), values(0.1), values(0, dtype=i8)])
entry("t_quantize_u8", quantize, [randn(7, 11), values(0.01), values(128, dtype=u8)], [halves, values(1.0), values(1, dtype=u8)], [randn(1, 1), values(0.5), values(255, dtype=u8)])
entry("t_quantize_bf16", quantize, [randn(3, 5, dtype=bf16), values(0.03), values(100, dtype=u8)])
entry("t_quantize_axis", lambda x, s, z: quantize(x, s, z, axis=1), [randn(2, 3, 5), rand(0.01, 0.1, 3), randint(-9, 9, 3, dtype=i8)], [randn(1, 1, 1), rand(0.01, 0.1, 1), randint(-9, 9, 1, dtype=i8)], [randn(2, 7, 0), rand(0.01, 0.1, 7), randint(-9, 9, 7, dtype=i8)])
entry("t_dequantize", lambda q, s, z: ort("DequantizeLinear", q, np.asarray(s, dtype=f32), z), [randint(0, 256, 3, 5, dtype=u8), values(0.03), values(7, dtype=u8)], [randint(0, 256, 0, 5, dtype=u8), values(0.03), values(7, dtype=u8)])
entry("t_dequantize_f16", lambda q, s, z: (q.astype(i64) - z) * s, [randint(-128, 128, 3, 5, dtype=i8), values(0.03125, dtype=f16), values(-3, dtype=i8)])
entry("t_dequantize_axis", lambda q, s, z: ort("DequantizeLinear", q, s.astype(f32), z, axis=2), [randint(-128, 128, 2, 3, 5, dtype=i8), rand(0.1, 1, 5), randint(-9, 9, 5, dtype=i8)])
entry("t_dynamic", lambda x: ort("DynamicQuantizeLinear", x.astype(f32), outputs=3), [randn(3, 5)], [rand(1, 2, 7, 3)], [rand(-2, -1, 1, 1)])
entry("t_matmul", lambda *a: ort("MatMulInteger", *a), [randint(0, 256, 3, 5, dtype=u8), randint(-128, 128, 5, 4, dtype=i8), values(7, dtype=u8), values(-3, dtype=i8)], [randint(0, 256, 1, 1, dtype=u8), randint(-128, 128, 1, 1, dtype=i8), values(0, dtype=u8), values(0, dtype=i8)], [randint(0, 256, 13, 17, dtype=u8), randint(-128, 128, 17, 11, dtype=i8), values(255, dtype=u8), values(127, dtype=i8)])


# The reference quantizers of ggml (ggml-quants.c), in single precision, byte for byte.


def q8_0(x):
    b = x.reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    d = np.abs(b).max(axis=-1, keepdims=True, initial=0) / f32(127)
    v = b * np.where(d == 0, f32(0), f32(1) / d)
    whole = np.floor(np.abs(v))
    size = whole + (np.abs(v) - whole >= f32(0.5))  # roundf: halves away from zero
    return d[..., 0].astype(f16), np.copysign(size, v).astype(i8)


def q4_0(x):
    b = x.reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    top = np.take_along_axis(b, np.abs(b).argmax(axis=-1)[..., None], -1) if b.size else b[..., :1]
    d = top / f32(-8)
    v = b * np.where(d == 0, f32(0), f32(1) / d) + f32(8.5)
    n = np.minimum(15, v.astype(i8)).astype(u8)
    return d[..., 0].astype(f16), n[..., :16] | (n[..., 16:] << 4)


def q8_row(x):
    d = np.abs(x).max(axis=-1, keepdims=True, initial=0) / f32(127)
    v = np.rint(x / np.where(d == 0, f32(1), d))
    return d, v.astype(i8)[..., None, :]


def spread(*blocks):
    return lambda rng: np.array([[*b] for b in blocks], dtype=f32)


ties = [k / 2 for k in range(-15, 16)] + [127]
zeros = [0.0] * 32
first = [-2.0, 2.0] * 16
half = [8 * k / 32 for k in range(-16, 15)] + [-8.0]
just_below = [0.49999997, -0.49999997, 1.4999999, 126.99999] + [0.5, -0.5] * 13 + [127.0, 0]
cases = [[randn(3, 64)], [randn(0, 32)], [randn(2, 0)], [spread(ties, zeros, first, half, just_below)], [rand(-1e4, 1e4, 5, 96)], [rand(-1e-6, 1e-6, 2, 32)]]
entry("t_q8_0", q8_0, *cases, wide=False, out=f16, rtol=0, atol=0)
entry("t_q4_0", q4_0, *cases, wide=False, out=f16, rtol=0, atol=0)
entry("t_decode_q8_0", lambda d, q: (d[..., None] * q).reshape(d.shape[0], -1), [rand(0, 1, 3, 2, dtype=f16), randint(-128, 128, 3, 2, 32, dtype=i8)], out=f32, rtol=0, atol=0)
entry("t_decode_q4_0", lambda d, q: (d[..., None] * (np.concatenate([q & 15, q >> 4], -1).astype(f64) - 8)).reshape(d.shape[0], -1), [rand(0, 1, 3, 2, dtype=f16), randint(0, 256, 3, 2, 16, dtype=u8)], out=f32, rtol=0, atol=0)
rows = [[randn(3, 80)], [randn(0, 5)], [spread(ties, zeros, first)], [rand(-1e4, 1e4, 5, 7)]]
entry("t_q8_row", q8_row, *rows, wide=False, out=f32, rtol=0, atol=0)
entry("t_decode_q8_row", lambda d, q: (d * q[..., 0, :]).astype(f32), [rand(0, 1, 3, 1, dtype=f32), randint(-127, 128, 3, 1, 50, dtype=i8)], wide=False, out=f32, rtol=0, atol=0)
