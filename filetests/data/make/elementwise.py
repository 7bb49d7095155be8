"""std/elementwise.tn against numpy: every operator in f32 and f64, those that need care in the half types;
integers of the widest and the narrow types."""

import numpy as np
import ref
from ref import *

sampled = {"floor", "exp2", "expm1", "sinh", "atan", "asin", "log1p", "acosh", "add", "div", "fmod", "clip"}


def entry(name, *rest):
    stem, _, kind = name.removeprefix("t_").rpartition("_")
    if kind in ("f16", "bf16") and stem not in sampled:
        return
    ref.entry(name, *rest)

small = values([0.0, 1e-7, -1e-7, 1e-3, -1e-3, 0.25, -0.25, 0.7, -0.7, 0.999, -0.999])
wide_ = values([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e6, -1e6, 1e30, -1e30, inf, -inf, nan])
for half in ["", "_f16", "_bf16", "_f64"]:
    d = {"": f32, "_f16": f16, "_bf16": bf16, "_f64": f64}[half]
    one = [[randn(31, dtype=d)], [randn(0, dtype=d)], [randn(1, dtype=d)]]
    ends = [[wide_]] if half == "" else []
    near = [[small]] if half == "" else [[rand(-0.9, 0.9, 9, dtype=d)]]
    for name, f in [
        ("sign", np.sign), ("square", np.square), ("floor", np.floor), ("ceil", np.ceil), ("round", np.round),
        ("trunc", np.trunc), ("abs", np.abs), ("neg", np.negative),
    ]:  # fmt: skip
        entry("t_" + name + half, f, *one, *ends)
    entry("t_reciprocal" + half, lambda x: 1 / x, *one, *ends)
    for name, f in [
        ("exp2", np.exp2), ("expm1", np.expm1), ("sinh", np.sinh), ("cosh", np.cosh), ("tanh", np.tanh), ("asinh", np.arcsinh),
        ("atan", np.arctan), ("exp", np.exp),
    ]:  # fmt: skip
        big = [[values([0.0, 20, -20, 80, -80, 88.9, -88.9, inf, -inf, nan])]] if half == "" else []
        entry("t_" + name + half, f, *one, *near, *big)
    for name, f in [("tan", np.tan), ("sin", np.sin), ("cos", np.cos)]:
        entry("t_" + name + half, f, *one, *near)
    for name, f in [("log", np.log), ("log2", np.log2), ("log10", np.log10), ("sqrt", np.sqrt), ("rsqrt", lambda x: 1 / np.sqrt(x))]:
        entry("t_" + name + half, f, [rand(0.01, 9, 23, dtype=d)], [rand(0, 1, 0, dtype=d)], *([[values([0.0, 1, inf, -1, nan, 1e-30, 1e30])]] if half == "" else []))
    entry("t_log1p" + half, np.log1p, [rand(-0.9, 9, 23, dtype=d)], *near, *([[values([-1.0, -2, inf, 1e30, nan])]] if half == "" else []))
    for name, f in [("asin", np.arcsin), ("acos", np.arccos), ("atanh", np.arctanh)]:
        entry("t_" + name + half, f, [rand(-0.95, 0.95, 23, dtype=d)], *near, *([[values([-1.0, 1, 1.5, nan])]] if half == "" else []))
    entry("t_acosh" + half, np.arccosh, [rand(1, 30, 23, dtype=d)], *([[values([1.0, 1.0001, 0.5, 1e20, inf])]] if half == "" else []))
    two = [[randn(29, dtype=d), randn(29, dtype=d)], [randn(1, dtype=d), randn(1, dtype=d)], [randn(0, dtype=d), randn(0, dtype=d)]]
    for name, f in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("min", np.minimum), ("max", np.maximum)]:
        entry("t_" + name + half, f, *two, *([[values([nan, 1, inf, 0.0]), values([1, nan, -inf, -0.0])]] if half == "" else []))
    entry("t_fmod" + half, np.fmod, [rand(-9, 9, 29, dtype=d), rand(0.5, 2, 29, dtype=d)], [values([7, -7, 7.5, -7.5], dtype=d), values([2, 2, -2, -2], dtype=d)])
    entry("t_rem" + half, np.mod, [rand(-9, 9, 29, dtype=d), rand(0.5, 2, 29, dtype=d)], [values([7, -7, 7.5, -7.5], dtype=d), values([2, 2, -2, -2], dtype=d)])
    entry("t_clip" + half, lambda x: np.clip(x, -0.5, 0.75), *one)

# The functions beyond `exp`, within some places of f32 over its whole range: tiny, huge, signed zeros, infinities, NaN.
edges = values([0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 1e-20, 1e-7, -1e-7, 1e-4, 0.03, -0.031, 0.032, 0.24, 0.41421357, 0.66, 0.67, -0.67,
    0.99999994, -0.99999994, 1.0, -1.0, 1.0000001, 1.5, 2.4142137, -2.4142137, 8.0, 10, -10, 88, -88, 89.4, -103, 127.5, -149, 1e4, 1e10, -1e10,
    1e30, 3.4e38, -3.4e38, inf, -inf, nan])  # fmt: skip
for name, f in [
    ("exp2", np.exp2), ("expm1", np.expm1), ("log1p", np.log1p), ("log2", np.log2), ("atan", np.arctan), ("asin", np.arcsin), ("acos", np.arccos),
    ("sinh", np.sinh), ("cosh", np.cosh), ("tanh", np.tanh), ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh), ("sin", np.sin),
    ("cos", np.cos), ("tan", np.tan),
]:  # fmt: skip
    ref.entry(f"e_{name}", lambda x, f=f: f(x), [edges], rtol=2.4e-7, atol=2e-45)
    ref.entry(f"e_{name}_f64", lambda x, f=f: f(x), [values([0.0, -0.0, 1e-300, 1e-9, -1e-9, 0.3, -0.7, 1.0000000001, 2.5, 20, inf, -inf, nan], dtype=f64)], rtol=1e-14, atol=0)

entry("t_pow", np.power, [rand(0.1, 3, 29), rand(-3, 3, 29)], [values([0, -2, -2, 2, 0, 1]), values([0, 3, 2, 10, 2, nan])])
entry("t_tests", lambda x: (np.isnan(x), np.isinf(x), np.isfinite(x)), [wide_], [randn(0)], [randn(7)])


def whole(kind):
    lo, hi = (0, 200) if kind is u8 else (-100, 100)
    return [[randint(lo, hi, 23, dtype=kind), randint(1, 9, 23, dtype=kind)], [randint(lo, hi, 0, dtype=kind), randint(1, 9, 0, dtype=kind)]]


def powi(a, b):
    out = []
    for x, y in zip(a, b):
        if y >= 0:
            wide = int(x) ** int(y)
        else:
            wide = int(x) ** (int(-y) % 2 + 2) if abs(int(x)) == 1 else 0
        out.append(np.array([wide & (2**64 - 1)], dtype=np.uint64).astype(a.dtype)[0])
    return np.array(out, dtype=a.dtype)


for kind in [i64, i8, u8]:
    n = np.dtype(kind).name.replace("uint", "u").replace("int", "i")
    cases = whole(kind)
    for name, f in [
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum), ("div", np.floor_divide),
        ("rem", np.mod), ("fmod", np.fmod), ("bit_and", np.bitwise_and), ("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor),
    ]:  # fmt: skip
        entry(f"t_{name}_{n}", f, *cases)
    entry(f"t_powi_{n}", powi, *cases)
    entry(f"t_bit_not_{n}", np.bitwise_not, *[c[:1] for c in cases])
    entry(f"t_sign_{n}", np.sign, *[c[:1] for c in cases])
    entry(f"t_square_{n}", np.square, *[c[:1] for c in cases])
    entry(f"t_clip_{n}", lambda x: np.clip(x, 3, 50).astype(x.dtype), *[c[:1] for c in cases])
    shifts = [[a, randint(0, np.dtype(kind).itemsize * 8, 23, dtype=kind)] for a, _ in cases[:1]]
    entry(f"t_shl_{n}", np.left_shift, *shifts)
    entry(f"t_shr_{n}", np.right_shift, *shifts)
entry("t_powi_negative", powi, [values([2, -1, 1, -1, 0, 7], dtype=i64), values([-1, -3, -8, -2, -1, -2], dtype=i64)])
entry("t_logic", lambda a, b: (a & b, a | b, a ^ b, ~a), [bools(9), bools(9)], [bools(0), bools(0)], [bools(1), bools(1)])
entry("t_choice", lambda c, a, b: np.where(c, a, b), [bools(4, 1), randn(4, 5), randn(5)])
entry("t_stretch", lambda a, b: a + b, [randn(4, 1, 3), randn(5, 1)], [randn(0, 1, 3), randn(5, 1)])
