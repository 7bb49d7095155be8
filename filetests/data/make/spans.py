"""std/spans.tn against numpy."""

import numpy as np
from ref import *


def attention(q, k, v, sequence, first, count, scale=None):
    """Of each row to all rows of its sequence."""
    group = q.shape[1] // k.shape[1]
    k, v = [np.repeat(x, group, axis=1) for x in (k, v)]
    s = np.einsum("ihd,jhd->hij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    j = np.arange(len(k))
    seen = (j >= first[sequence][:, None]) & (j < (first + count)[sequence][:, None])
    s = np.where(seen, s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True, initial=-1e300))
    return np.einsum("hij,jhd->ihd", e / e.sum(axis=-1, keepdims=True), v)


def spans(*counts, dtype=i32):
    """The sequence of each row, and of each sequence its first row and how many it has."""
    first = np.cumsum([0, *counts])[:-1]
    return [values(list(x), dtype=dtype) for x in (np.repeat(np.arange(len(counts)), counts), first, counts)]


def qkv(n, heads, ends, dtype=f32):
    return [randn(n, h, e, dtype=dtype) for h, e in zip(heads, ends)]


# One sequence, several of a tile, some of several tiles, one without rows, none.
cases = [(5,), (3, 1, 4), (66, 70, 9), (2, 0, 3), (64, 64), ()]
entry("t_spans", attention, *[qkv(sum(c), (4, 2, 2), (8, 8, 6)) + spans(*c) for c in cases], atol=1e-5)
entry("t_spans_scaled", lambda *x: attention(*x, scale=0.25), qkv(7, (3, 3, 3), (5, 5, 5)) + spans(3, 4, dtype=i64), atol=1e-5)
entry("t_spans_bf16", attention, qkv(70, (2, 1, 1), (8, 8, 8), bf16) + spans(66, 4), atol=1e-2)
entry("t_attend_all", lambda q, k, v, s, p, f, c: attention(q, k, v, s, f, c, scale=0.5), qkv(6, (2, 1, 1), (8, 8, 8)) + [spans(2, 4)[0], values([0, 1, 0, 1, 2, 3], dtype=i32), *spans(2, 4)[1:]], atol=1e-5)


def each(f, none):
    def run(x, first, count):
        rows = [f(x[a : a + n], axis=0) if n else np.full(x.shape[1], none) for a, n in zip(first, count)]
        return np.stack(rows) if rows else x[:0]

    return run


pooled = [[randn(sum(c), 7), *spans(*c)[1:]] for c in cases]
entry("t_mean", each(np.mean, 0.0), *pooled, atol=1e-5)
entry("t_mean_f16", each(np.mean, 0.0), [randn(9, 5, dtype=f16), *spans(4, 5, dtype=i64)[1:]])
entry("t_max", each(np.max, -np.inf), *pooled)
