"""What the lists of cases are written with; see scripts/refdata.

An argument is drawn when its entry is entered, from a generator seeded with the entry's name: a new entry or
case leaves the data of the others as it was.

A reference function gets floats as float64, so that what it computes is right to the last place of the type
under test, and its float results are rounded to the type of the first float argument (`out` says another).
`wide=False` gives it the arguments as they are.
"""

import json
import runpy
import struct
import zlib

import ml_dtypes
import numpy as np

f64, f32, f16, bf16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
i64, i32, i16, i8, u8, bool_ = np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_

NAMES = {f64: "F64", f32: "F32", f16: "F16", bf16: "BF16", i64: "I64", i32: "I32", i16: "I16", i8: "I8", u8: "U8", bool_: "BOOL"}
FLOATS = (f64, f32, f16, bf16)
BOUNDS = {f64: (1e-12, 1e-13), f32: (1e-5, 1e-6), f16: (2e-3, 1e-4), bf16: (1.6e-2, 1e-3)}

nan, inf = float("nan"), float("inf")

_tensors = {}


def randn(*shape, dtype=f32):
    """Normally distributed."""
    return lambda rng: rng.standard_normal(shape).astype(dtype)


def rand(lo, hi, *shape, dtype=f32):
    """Uniform in lo..hi."""
    return lambda rng: rng.uniform(lo, hi, shape).astype(dtype)


def randint(lo, hi, *shape, dtype=i64):
    """Integers in lo..hi, without hi; of any type, f32 too."""
    return lambda rng: rng.integers(lo, hi, shape).astype(dtype)


def bools(*shape):
    """Coins."""
    return lambda rng: rng.integers(0, 2, shape).astype(bool_)


def permutation(n, dtype=i64):
    """0..n in some order."""
    return lambda rng: rng.permutation(n).astype(dtype)


def values(list_, dtype=f32):
    """As given: a number or nested lists."""
    return lambda rng: np.array(list_, dtype=dtype)


def entry(name, reference, *cases, rtol=None, atol=None, wide=True, out=None):
    """The cases of one function. `cases`: lists of arguments. `out`: the dtype of float results."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    bound = None
    for number, case in enumerate(cases):
        arguments = [draw(rng) for draw in case]
        floats = [a.dtype.type for a in arguments if a.dtype.type in FLOATS]
        narrow = out or (floats[0] if floats else None)
        given = [a.astype(f64) if wide and a.dtype.type in FLOATS else a for a in arguments]
        with np.errstate(all="ignore"):
            results = reference(*given)
        results = results if isinstance(results, (tuple, list)) else (results,)
        for i, a in enumerate(arguments):
            _tensors[f"{name}.{number}.in.{i}"] = a
        for i, r in enumerate(results):
            r = r.detach().numpy() if hasattr(r, "detach") else np.asarray(r)
            if r.dtype.type in FLOATS:
                if narrow is None:
                    raise ValueError(f"{name}: no argument tells the type of result {i}; give out=")
                with np.errstate(over="ignore"):
                    r = r.astype(narrow)
                bound = BOUNDS[narrow] if bound is None else max(bound, BOUNDS[narrow])
            _tensors[f"{name}.{number}.out.{i}"] = r
    usual = bound or (0.0, 0.0)
    _tensors[f"{name}.bound"] = np.array(
        [usual[0] if rtol is None else rtol, usual[1] if atol is None else atol], dtype=f64
    )


def run(path):
    """The tensors of a list."""
    _tensors.clear()
    import sys

    # The list imports this module by its name; both must see one `_tensors`.
    sys.modules["ref"] = sys.modules[__name__]
    runpy.run_path(str(path))
    return dict(_tensors)


def safetensors(tensors):
    """The bytes of a file; the same tensors give the same bytes."""
    header, data = {}, []
    at = 0
    for name in sorted(tensors):
        t = np.ascontiguousarray(tensors[name]).reshape(np.shape(tensors[name]))
        raw = t.tobytes()
        header[name] = {"dtype": NAMES[t.dtype.type], "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)
