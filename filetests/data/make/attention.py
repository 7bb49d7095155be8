"""std/attention.tn and std/cache.tn against numpy and onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *


def softmax(s):
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(np.isinf(s), 0, np.exp(s - np.where(np.isinf(top), 0, top)))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attention(q, k, v, bias=0.0, scale=None, cap=0.0, causal=False, window=10**9):
    """Of [.., tokens, heads, d]."""
    q, k, v = [np.moveaxis(x, -2, -3) for x in (q, k, v)]
    group = q.shape[-3] // k.shape[-3]
    k, v = [np.repeat(x, group, axis=-3) for x in (k, v)]
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if cap:
        s = cap * np.tanh(s / cap)
    s = s + bias
    m, n = s.shape[-2:]
    if causal:
        at = np.arange(m)[:, None] + n - m
        j = np.arange(n)[None, :]
        s = np.where((j <= at) & (j > at - window), s, -np.inf)
    return np.moveaxis(softmax(s) @ v, -3, -2)


def qkv(m, n, d=f32, heads=(4, 2, 2), ends=(8, 8, 8), batch=()):
    return [randn(*batch, t, h, e, dtype=d) for t, h, e in zip((m, n, n), heads, ends)]


b2 = dict(batch=(2,), ends=(8, 8, 6))
entry("t_attention", attention, qkv(3, 5, **b2), qkv(1, 1, **b2), qkv(0, 3, **b2), qkv(3, 0, **b2), qkv(7, 13, **b2), qkv(17, 70, **b2), atol=1e-5)
entry("t_generic", attention, qkv(3, 5), qkv(2, 2, heads=(3, 1, 1)), qkv(2, 3, heads=(5, 5, 5), ends=(7, 7, 7)), qkv(70, 66, heads=(1, 1, 1), ends=(3, 3, 3)), atol=1e-5)
entry("t_causal", lambda q, k, v: attention(q, k, v, causal=True), qkv(5, 5), qkv(3, 8), qkv(1, 7), qkv(5, 3), qkv(0, 0), qkv(66, 130), qkv(20, 3), qkv(3, 129), atol=1e-5)
entry("t_causal_bf16", lambda q, k, v: attention(q, k, v, causal=True, window=2, scale=0.5, cap=3.0), qkv(4, 6, bf16, (4, 1, 1)), qkv(18, 80, bf16, (4, 1, 1)), atol=1e-2)
entry("t_window", lambda q, k, v: attention(q, k, v, causal=True, window=3, cap=2.0), qkv(5, 9, heads=(2, 2, 2)), qkv(1, 2, heads=(2, 2, 2)), qkv(20, 150, heads=(2, 2, 2)), qkv(2, 150, heads=(2, 2, 2)), atol=1e-5)
entry("t_biased", attention, qkv(3, 5) + [randn(4, 3, 5)], qkv(2, 2) + [lambda rng: np.full((4, 2, 2), -np.inf, dtype=f32)], qkv(17, 70) + [lambda rng: np.where(rng.random((4, 17, 70)) < 0.5, -np.inf, rng.standard_normal((4, 17, 70))).astype(f32)], atol=1e-5)
entry("t_masked", lambda q, k, v, b: attention(q, k, v, np.where(b, 0, -np.inf), scale=0.25), qkv(3, 5) + [bools(4, 3, 5)], qkv(3, 1) + [bools(4, 3, 1)], qkv(16, 65) + [bools(4, 16, 65)], atol=1e-5)


def ort_attention(q, k, v):
    q, k, v = [np.moveaxis(x, -2, -3) for x in (q, k, v)]
    return np.moveaxis(ort("Attention", q, k, v, softcap=2.0), -3, -2)


entry("t_attention_ort", ort_attention, qkv(3, 5, batch=(2,)), qkv(7, 11, batch=(2,)), atol=1e-5)


def append(pool, table, sequence, position, rows):
    pool = pool.copy()
    page = pool.shape[1]
    for s, p, row in zip(sequence, position, rows):
        pool[table[s, p // page], p % page] = row
    return pool


ints = lambda *x: values(list(x), dtype=i32)
longs = lambda *x: values(list(x), dtype=i64)
tables = values([[2, 0, 1], [5, 3, 4]], dtype=i32)
entry("t_append", append, [randn(6, 4, 2, 3, dtype=f16), tables, ints(0, 0, 1, 1), ints(3, 4, 0, 11), randn(4, 2, 3)], [randn(6, 4, 2, 3, dtype=f16), tables, ints(), ints(), randn(0, 2, 3)])
entry("t_append_c", lambda c, s, p, r: append(c, np.arange(len(c))[:, None], s, p, r), [randn(2, 5, 2, 3), longs(0, 1, 1), longs(4, 0, 1), randn(3, 2, 3)])


def paged(q, k, v, table, sequence, position, **more):
    page, out = k.shape[1], []
    for i, (s, p) in enumerate(zip(sequence, position)):
        at = [(table[s, j // page], j % page) for j in range(p + 1)]
        rows = [np.stack([x[a, b] for a, b in at]) for x in (k, v)]
        out.append(attention(q[i][None], *rows, causal=True, **more)[0])
    return np.stack(out) if out else q[:, :, : v.shape[-1]]


shared = values([[2, 0, 1], [2, 3, 4]], dtype=i32)
pools = lambda pages, page: [randn(pages, page, 2, 8, dtype=f16), randn(pages, page, 2, 8, dtype=f16)]
# Two sequences of which the first page is one; a prefill beside a decoding step; a page of one row; runs of several sequences,
# also such that take turns, and pages longer than a block.
many = [randn(19, 4, 8), *pools(5, 4), shared, ints(*[0] * 10, *[1] * 9), ints(*range(2, 12), *range(9))]
turns = [randn(16, 4, 8), *pools(5, 4), shared, ints(*[0, 1] * 8), ints(*range(11, 3, -1), *range(8))]
long = [randn(20, 4, 8), *pools(3, 70), values([[2, 0]], dtype=i32), ints(*[0] * 20), ints(*range(60, 80))]
entry("t_paged", paged, [randn(5, 4, 8), *pools(5, 4), shared, ints(0, 0, 0, 1, 1), ints(0, 1, 2, 10, 3)], [randn(2, 4, 8), *pools(5, 1), shared, ints(1, 0), ints(2, 0)], [randn(0, 4, 8), *pools(5, 3), shared, ints(), ints()], many, turns, long, out=f32, atol=1e-5)
entry("t_cached", lambda q, k, v, s, p: paged(q, k, v, np.arange(len(k))[:, None], s, p, window=3), [randn(4, 4, 8), randn(2, 7, 2, 8), randn(2, 7, 2, 8), longs(0, 1, 1, 0), longs(6, 0, 1, 3)], [randn(17, 4, 8), randn(2, 70, 2, 8), randn(2, 70, 2, 8), longs(*[1] * 17), longs(*range(53, 70))], atol=1e-5)


def rope(x, position, r, theta=10000.0, interleaved=False, factor=1.0):
    f = theta ** -(np.arange(r) / r) / factor
    a = position[..., None, None] * f
    c, s = np.cos(a), np.sin(a)
    y = x.copy()
    u, w = (x[..., 0 : 2 * r : 2], x[..., 1 : 2 * r : 2]) if interleaved else (x[..., :r], x[..., r : 2 * r])
    first, second = u * c - w * s, w * c + u * s
    if interleaved:
        y[..., 0 : 2 * r : 2], y[..., 1 : 2 * r : 2] = first, second
    else:
        y[..., :r], y[..., r : 2 * r] = first, second
    return y


entry("t_rope", lambda x, p: rope(x, p, 4), [randn(3, 2, 8), longs(0, 1, 2)], [randn(2, 3, 8), longs(7, 1000)], [randn(0, 3, 8), longs()], [randn(1, 1, 8), longs(131)], atol=2e-4)
entry("t_rope_partial", lambda x, p: rope(x, p, 3, 500.0), [randn(2, 3, 2, 8), values([[0, 1, 2], [5, 6, 7]], dtype=i32)], atol=1e-5)
entry("t_rope_interleaved", lambda x, p: rope(x, p, 4, interleaved=True), [randn(3, 2, 8), longs(0, 1, 2)], [randn(2, 3, 8), longs(7, 100)], atol=1e-5)
entry("t_rope_bf16", lambda x, p: rope(x, p, 2, interleaved=True, factor=2.0), [randn(3, 2, 8, dtype=bf16), longs(0, 1, 9)])


def ort_rope(r, interleaved):
    def run(x, p):
        a = np.arange(64)[:, None] * 10000.0 ** -(np.arange(r) / r)
        more = {} if 2 * r == x.shape[-1] else {"rotary_embedding_dim": 2 * r, "num_heads": x.shape[2]}
        y = ort("RotaryEmbedding", np.moveaxis(x, 2, 1).astype(f32), np.cos(a).astype(f32), np.sin(a).astype(f32), p, interleaved=interleaved, **more)
        return np.moveaxis(y, 1, 2)

    return run


entry("t_rope_ort", ort_rope(3, 0), [randn(2, 3, 2, 8), values([[0, 1, 2], [5, 6, 7]], dtype=i64)], atol=1e-5)
entry("t_rope_interleaved_ort", ort_rope(4, 1), [randn(2, 3, 2, 8), values([[0, 1, 2], [50, 6, 7]], dtype=i64)], atol=1e-5)


def llama3():
    f = 500000.0 ** -(np.arange(32) / 32)
    out = []
    for x in f:
        length = 2 * np.pi / x
        if length < 8192 / 4.0:
            out.append(x)
        elif length > 8192 / 1.0:
            out.append(x / 8.0)
        else:
            s = (8192 / length - 1.0) / (4.0 - 1.0)
            out.append((1 - s) * x / 8.0 + s * x)
    return np.array(out)


entry("t_llama3", llama3, [], out=f32)


def pool(k, v, sequence, position, table, q, new_k, new_v):
    k, v = [append(c, table, sequence, position, rows) for c, rows in ((k, new_k), (v, new_v))]
    return paged(q, k, v, table, sequence, position), k, v


# Sequence 0 is prefilled, sequence 1 goes on behind the page it shares with it.
rows = lambda t, *heads: [randn(t, h, 8) for h in heads]
entry("t_pool", pool, [randn(5, 4, 2, 8), randn(5, 4, 2, 8), ints(0, 0, 0, 1), ints(4, 5, 6, 4), shared, *rows(4, 4, 2, 2)], atol=1e-5)
