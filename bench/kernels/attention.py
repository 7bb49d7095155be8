"""Attention: prefill, decoding over a cache, and decoding for sequences of several lengths. 16 heads of 64, of which 4
share a head of keys; keys and values as [tokens, heads, 64], which torch and onnxruntime get transposed as they like
it."""

import functools

import numpy as np

from . import peers
from .products import COLD, randn
from .row import Row

HEADS, SHARED, HEAD = 16, 4, 64
KEYS = HEADS // SHARED

PREFILL = """
fn main<m, g, r, d>(q: f32[m, g * r, d], k: f32[m, g, d], v: f32[m, g, d]) -> f32[m, g * r, d] {
    attention(q, k, v, causal=true)
}
"""
DECODE = """
fn main<s, n, t, g, r, d>(
    q: f32[t, g * r, d],
    k: f32[s, n, g, d],
    v: f32[s, n, g, d],
    sequence: i32[t],
    position: i32[t],
) -> f32[t, g * r, d] {
    attention_cached(q, k, v, sequence, position)
}
"""


def reference(q, k, v, at):
    """Attention in double of queries [t, heads, d], of which the i-th sees `at[i] + 1` keys of k[i]."""
    out = np.zeros(q.shape)
    for i, last in enumerate(at):
        keys, values = (np.repeat(x[i, : last + 1].astype(np.float64), SHARED, 1) for x in (k, v))
        scores = np.einsum("hd,nhd->hn", q[i].astype(np.float64), keys) / HEAD**0.5
        e = np.exp(scores - scores.max(1, keepdims=True))
        out[i] = np.einsum("hn,nhd->hd", e / e.sum(1, keepdims=True), values)
    return out


def onnx_attention(inputs, causal):
    """The operator of ONNX, on [batch, tokens, heads * d]."""
    return lambda constants: peers.graph(
        [peers.node("Attention", "q", "k", "v", q_num_heads=HEADS, kv_num_heads=KEYS, is_causal=int(causal))], inputs)


def sdpa(torch, q, k, v, causal):
    """torch's, of [tokens, heads, d]."""
    heads = lambda x: torch.from_numpy(x).transpose(0, 1)[None]
    a, b, c = heads(q), heads(k), heads(v)
    f = torch.nn.functional.scaled_dot_product_attention
    return lambda: f(a, b, c, is_causal=causal, enable_gqa=True)[0].transpose(0, 1)


def prefill(m):
    q, k, v = randn(m, HEADS, HEAD), randn(m, KEYS, HEAD), randn(m, KEYS, HEAD)
    every = lambda x: np.broadcast_to(x, (m, *x.shape))
    want = reference(q, every(k), every(v), range(m))
    flat = {"q": q.reshape(1, m, -1), "k": k.reshape(1, m, -1), "v": v.reshape(1, m, -1)}
    return Row(PREFILL, [[q, k, v]], want, 2e-5, {
        "torch": lambda: peers.torch_calls(lambda torch: [sdpa(torch, q, k, v, True)]),
        "onnxruntime": lambda: peers.onnxruntime(onnx_attention(flat, True), flat, flat["q"]),
    }, {"f32": 4 * HEADS * HEAD * m * (m + 1) // 2})


def decode(capacity, lengths):
    """A token for each sequence, whose cache of some capacity is so full."""
    s = len(lengths)
    q = randn(s, HEADS, HEAD)
    sequence, position = np.arange(s, dtype=np.int32), np.array(lengths, np.int32) - 1
    caches = [(randn(s, capacity, KEYS, HEAD), randn(s, capacity, KEYS, HEAD))]
    while len(caches) * 2 * caches[0][0].nbytes < COLD:
        caches.append(tuple(np.roll(x, len(caches), 1) for x in caches[0]))
    want = reference(q, *caches[0], position)

    def torch(torch):
        def step(cache):
            each = [sdpa(torch, q[i : i + 1], *(x[i, :n] for x in cache), False) for i, n in enumerate(lengths)]
            return lambda: torch.cat([f() for f in each])

        return [step(cache) for cache in caches]

    made = {"torch": lambda: peers.torch_calls(torch)}
    if s == 1:
        flat = [{"q": q.reshape(1, 1, -1), "k": k.reshape(1, capacity, -1), "v": v.reshape(1, capacity, -1)}
                for k, v in caches]
        made["onnxruntime"] = lambda: peers.onnxruntime(onnx_attention(flat[0], False), flat, flat[0]["q"])
    seen = sum(lengths)
    return Row(DECODE, [[q, k, v, sequence, position] for k, v in caches], want, 2e-5, made,
               {"f32": 4 * HEADS * HEAD * seen}, seen * 2 * KEYS * HEAD * 4)


def rows(quick):
    for m in [64] if quick else [512, 2048]:
        yield f"attention prefill {m}", functools.partial(prefill, m)
    n = 256 if quick else 4096
    yield f"attention decode {n}", functools.partial(decode, n, [n])
    ragged = [n * part // 32 for part in [32, 24, 16, 12, 8, 4, 2, 1]]
    yield "attention ragged 8", functools.partial(decode, n, ragged)
