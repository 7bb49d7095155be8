"""The decoder of `decoder.py` in jax, to be compiled: a step behind a cache of so many tokens, with weights in bf16.

Prints the seconds from function to callable as JSON: with the layers written out, as a loop of Python gives them, and
as one `scan` over stacked layers. Nothing runs, so weights need no memory.
"""

import json
import time

import jax
import jax.numpy as jnp

from decoder import CACHE, FFN, HEAD, HEADS, HIDDEN, KV, LAYERS, WORDS

ROOM = CACHE + 64


def norm(x, gain):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def product(x, w):
    return (x.astype(jnp.bfloat16) @ w.T).astype(jnp.float32)


def turned(x, position):
    angle = position[:, None] * 1e6 ** (-jnp.arange(HEAD // 2) / (HEAD / 2))
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    low, high = jnp.split(x, 2, -1)
    return jnp.concatenate([low * c - high * s, high * c + low * s], -1)


def layer(x, w, cache, position):
    t = x.shape[0]
    h = norm(x, w["norm1"])
    cut = lambda y, heads: y.reshape(t, heads, HEAD)
    q, k = (turned(cut(product(h, w[n]) + w[n + "b"], heads), position) for n, heads in [("q", HEADS), ("k", KV)])
    v = cut(product(h, w["v"]) + w["vb"], KV)
    cache = [jax.lax.dynamic_update_slice(c, new.astype(c.dtype), (position[0], 0, 0)) for c, new in zip(cache, (k, v))]
    keys, values = (jnp.repeat(c, HEADS // KV, 1).astype(jnp.float32) for c in cache)
    seen = jnp.arange(ROOM) <= position[None, :, None]
    a = jax.nn.softmax(jnp.where(seen, jnp.einsum("thd,shd->hts", q, keys) / 8.0, -1e30), -1)
    x = x + product(jnp.einsum("hts,shd->thd", a, values).reshape(t, HIDDEN), w["o"])
    h = norm(x, w["norm2"])
    return x + product(jax.nn.silu(product(h, w["gate"])) * product(h, w["up"]), w["down"]), tuple(cache)


def step(token, position, w, cache, written_out):
    x = w["words"][token].astype(jnp.float32)
    if written_out:
        of = lambda tree, i: jax.tree.map(lambda a: a[i], tree)
        kept = []
        for i in range(LAYERS):
            x, c = layer(x, of(w["layers"], i), of(cache, i), position)
            kept.append(c)
    else:
        x, kept = jax.lax.scan(lambda x, each: layer(x, *each, position), x, (w["layers"], cache))
    return product(norm(x[-1:], w["norm"]), w["words"])[0], kept


def main():
    half, full = (lambda *shape, d=d: jax.ShapeDtypeStruct(shape, d) for d in (jnp.bfloat16, jnp.float32))
    narrow = KV * HEAD
    layers = {"norm1": full(LAYERS, HIDDEN), "norm2": full(LAYERS, HIDDEN), "qb": full(LAYERS, HIDDEN), "kb": full(LAYERS, narrow),
              "vb": full(LAYERS, narrow), "q": half(LAYERS, HIDDEN, HIDDEN), "k": half(LAYERS, narrow, HIDDEN),
              "v": half(LAYERS, narrow, HIDDEN), "o": half(LAYERS, HIDDEN, HIDDEN), "gate": half(LAYERS, FFN, HIDDEN),
              "up": half(LAYERS, FFN, HIDDEN), "down": half(LAYERS, HIDDEN, FFN)}
    weights = {"words": half(WORDS, HIDDEN), "layers": layers, "norm": full(HIDDEN)}
    cache = (half(LAYERS, ROOM, KV, HEAD),) * 2
    number = jax.ShapeDtypeStruct((1,), jnp.int32)
    # What is begun once is not counted.
    jax.jit(lambda x: x + 1).lower(full(3)).compile()
    seconds = {}
    for name, written_out in [("written out", True), ("scan", False)]:
        begun = time.perf_counter()
        jax.jit(step, static_argnums=4).lower(number, number, weights, cache, written_out).compile()
        seconds[name] = time.perf_counter() - begun
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
