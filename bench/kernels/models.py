"""Whole models in f32: BERT-base over one sequence, and a block of a Llama decoder, at several lengths. Peers get each
length as a program of its own; Tenon has one for all. Weights are constants for all, bound before the clock starts.

onnxruntime and OpenVINO get the operators that exporters write, weights as constants; torch and jax a function of
weights."""

import functools
import re

import numpy as np

from . import peers
from .products import RNG
from .row import Row

EPS = 1e-6
BERT = {"hidden": 768, "heads": 12, "ffn": 3072, "layers": 12}
LLAMA = {"hidden": 2048, "heads": 32, "kv": 8, "ffn": 5632, "theta": 10000.0}

BERT_TEXT = """
record Linear<o, i> { weight: W[o, i] from "weight", bias: f32[o] from "bias" }
record Norm { weight: f32[768] from "weight", bias: f32[768] from "bias" }
record Layer {
    q: Linear<768, 768>   from "layer.{i}.q."
    k: Linear<768, 768>   from "layer.{i}.k."
    v: Linear<768, 768>   from "layer.{i}.v."
    o: Linear<768, 768>   from "layer.{i}.o."
    norm1: Norm           from "layer.{i}.norm1."
    up: Linear<3072, 768>   from "layer.{i}.up."
    down: Linear<768, 3072> from "layer.{i}.down."
    norm2: Norm           from "layer.{i}.norm2."
}
fn linear<t, i, o>(x: f32[t, i], w: Linear<o, i>) -> f32[t, o] { product(x, w.weight) + w.bias }
fn norm<t>(x: f32[t, 768], w: Norm) -> f32[t, 768] { layer_norm(x, w.weight, w.bias, 0.000001) }
fn layer<t>(x: f32[t, 768], w: Layer) -> f32[t, 768] {
    let q = reshape[t, 12, 64](linear(x, w.q))
    let k = reshape[t, 12, 64](linear(x, w.k))
    let v = reshape[t, 12, 64](linear(x, w.v))
    let x = norm(x + linear(reshape[t, 768](attention(q, k, v)), w.o), w.norm1)
    norm(x + linear(gelu(linear(x, w.up)), w.down), w.norm2)
}
fn main<t>(x: f32[t, 768], w: [Layer; 12]) -> f32[t, 768] {
    var x = x
    for i in 12 { x = layer(x, w[i]) }
    x
}
"""

LLAMA_TEXT = """
record Block {
    norm1: f32[2048]      from "norm1"
    q: W[2048, 2048]    from "q"
    k: W[512, 2048]     from "k"
    v: W[512, 2048]     from "v"
    o: W[2048, 2048]    from "o"
    norm2: f32[2048]      from "norm2"
    gate: W[5632, 2048] from "gate"
    up: W[5632, 2048]   from "up"
    down: W[2048, 5632] from "down"
}
fn main<t>(x: f32[t, 2048], position: i64[t], w: Block) -> f32[t, 2048] {
    let frequency = rope_frequencies[32](10000.0)
    let h = rms_norm(x, w.norm1, 0.000001)
    let q = rope(reshape[t, 32, 64](product(h, w.q)), position, frequency)
    let k = rope(reshape[t, 8, 64](product(h, w.k)), position, frequency)
    let v = reshape[t, 8, 64](product(h, w.v))
    let x = x + product(reshape[t, 2048](attention(q, k, v, causal=true)), w.o)
    let h = rms_norm(x, w.norm2, 0.000001)
    x + product(silu(product(h, w.gate)) * product(h, w.up), w.down)
}
"""


# How far off results may be.
OFF = {"f32": 2e-3, "bf16": 0.1, "tolerant": 0.1}
# What products are of: with weights in bf16 they are of bf16, summed in f32; the rest stays f32. A tolerant program
# says f32, and what may be lost.
TOLERANCE = "#[tolerance(0.01)]\n"
PRODUCTS = {
    "f32": "fn product<t, i, o>(x: f32[t, i], w: f32[o, i]) -> f32[t, o] { x @ w.T }\n",
    "bf16": "fn product<t, i, o>(x: f32[t, i], w: bf16[o, i]) -> f32[t, o] { f32(bf16(x)) @ f32(w).T }\n",
}


def program(text, kind):
    if kind == "tolerant":
        return program(text, "f32").replace("fn main", TOLERANCE + "fn main")
    return re.sub(r"\bW(?=\[)", kind, text) + PRODUCTS[kind]


def stored(weights, kind):
    """Weights as the program has them: matrices have the most axes."""
    from harness import BF16

    most = max(v.ndim for v in weights.values())
    return [v.astype(BF16) if kind == "bf16" and v.ndim == most else v for v in weights.values()]


def matrix(o, i):
    return (RNG.standard_normal((o, i)) / np.sqrt(i)).astype(np.float32)


def vector(n, around):
    return (RNG.standard_normal(n) * 0.1 + around).astype(np.float32)


def exporter(constants):
    """A list of operators, and what adds to it and to the constants; both give the name of what they add."""
    nodes = []

    def constant(name, value):
        constants.append((name, value))
        return name

    def emit(operator, *inputs, **attributes):
        to = f"v{len(nodes)}"
        nodes.append(peers.node(operator, *inputs, to=to, **attributes))
        return to

    return nodes, constant, emit


# BERT. Weights of all layers: [layers, ..].


@functools.cache
def bert_weights():
    h, f, n = BERT["hidden"], BERT["ffn"], BERT["layers"]
    shapes = {"q": (h, h), "k": (h, h), "v": (h, h), "o": (h, h), "norm1": None, "up": (f, h), "down": (h, f), "norm2": None}
    out = {}
    for name, shape in shapes.items():
        if shape:
            out[f"{name}.weight"] = np.stack([matrix(*shape) for _ in range(n)])
            out[f"{name}.bias"] = np.stack([vector(shape[0], 0) for _ in range(n)])
        else:
            out[f"{name}.weight"] = np.stack([vector(h, 1) for _ in range(n)])
            out[f"{name}.bias"] = np.stack([vector(h, 0) for _ in range(n)])
    return out


def bert_layer(lib, x, w, erf):
    """A layer with the functions of numpy, or of what is like it."""
    t, heads = x.shape[0], BERT["heads"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        mean = x.mean(-1)[:, None]
        variance = ((x - mean) ** 2).mean(-1)[:, None]
        return (x - mean) / lib.sqrt(variance + EPS) * w[f"{name}.weight"] + w[f"{name}.bias"]

    q, k, v = (lib.swapaxes(linear(x, n).reshape(t, heads, -1), 0, 1) for n in "qkv")
    s = q @ lib.swapaxes(k, 1, 2) / 8.0
    e = lib.exp(s - s.max(-1)[:, :, None])
    a = lib.swapaxes((e / e.sum(-1)[:, :, None]) @ v, 0, 1).reshape(t, -1)
    x = norm(x + linear(a, "o"), "norm1")
    up = linear(x, "up")
    return norm(x + linear(0.5 * up * (1 + erf(up / 2**0.5)), "down"), "norm2")


def layer_of(weights, i):
    return {name: w[i] for name, w in weights.items()}


def bert_nodes(constants):
    """What an exporter writes for the encoder; constants are gathered on the way."""
    nodes, constant, emit = exporter(constants)
    heads = BERT["heads"]
    constant("cut", np.int64([1, -1, heads, 64]))
    constant("join", np.int64([1, -1, heads * 64]))
    constant("root", np.float32(8.0))
    x = "x"
    for i in range(BERT["layers"]):
        w = layer_of(bert_weights(), i)

        def linear(x, name):
            product = emit("MatMul", x, constant(f"{name}.w{i}", np.ascontiguousarray(w[f"{name}.weight"].T)))
            return emit("Add", product, constant(f"{name}.b{i}", w[f"{name}.bias"]))

        def norm(x, name):
            parts = [constant(f"{name}.{p}{i}", w[f"{name}.{p}"]) for p in ["weight", "bias"]]
            return emit("LayerNormalization", x, *parts, axis=-1, epsilon=EPS)

        def cut(x, perm):
            return emit("Transpose", emit("Reshape", x, "cut"), perm=perm)

        q, k, v = (cut(linear(x, n), [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv")
        a = emit("MatMul", emit("Softmax", emit("Div", emit("MatMul", q, k), "root"), axis=-1), v)
        a = emit("Reshape", emit("Transpose", a, perm=[0, 2, 1, 3]), "join")
        x = norm(emit("Add", x, linear(a, "o")), "norm1")
        x = norm(emit("Add", x, linear(emit("Gelu", linear(x, "up")), "down")), "norm2")
    nodes.append(peers.node("Identity", x))
    return nodes


def bert(t, kind="f32"):
    import math

    x = RNG.standard_normal((t, BERT["hidden"])).astype(np.float32)
    weights = bert_weights()
    want = x.astype(np.float64)
    for i in range(BERT["layers"]):
        w = {k: v.astype(np.float64) for k, v in layer_of(weights, i).items()}
        want = bert_layer(np, want, w, np.vectorize(math.erf))
    h, f = BERT["hidden"], BERT["ffn"]
    flops = BERT["layers"] * (2 * t * (4 * h * h + 2 * h * f) + 4 * t * t * h)
    others = models(x, bert_nodes, want, functools.partial(bert_torch, weights), functools.partial(bert_jax, weights), kind)
    return Row(program(BERT_TEXT, kind), [[x, *stored(weights, kind)]], want, OFF[kind], others, {"f32" if kind == "f32" else "bf16": flops},
               weights=tuple(f"w.{name}" for name in weights))


def bert_torch(weights, torch):
    f = torch.nn.functional
    layers = [{k: torch.from_numpy(v[i]) for k, v in weights.items()} for i in range(BERT["layers"])]

    def run(x):
        t = x.shape[0]
        for w in layers:
            linear = lambda x, n: f.linear(x, w[f"{n}.weight"], w[f"{n}.bias"])
            norm = lambda x, n: f.layer_norm(x, (BERT["hidden"],), w[f"{n}.weight"], w[f"{n}.bias"], EPS)
            q, k, v = (linear(x, n).view(1, t, BERT["heads"], 64).transpose(1, 2) for n in "qkv")
            a = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(t, -1)
            x = norm(x + linear(a, "o"), "norm1")
            x = norm(x + linear(f.gelu(linear(x, "up")), "down"), "norm2")
        return x

    return run


def bert_jax(weights, jax):
    import jax.numpy as jnp

    layers = [{k: jnp.asarray(v[i]) for k, v in weights.items()} for i in range(BERT["layers"])]

    def run(x, layers):
        for w in layers:
            x = bert_layer(jnp, x, w, jax.scipy.special.erf)
        return x

    return run, layers


# A block of Llama.


@functools.cache
def llama_weights():
    h, f, q, k = LLAMA["hidden"], LLAMA["ffn"], LLAMA["heads"] * 64, LLAMA["kv"] * 64
    return {"norm1": vector(h, 1), "q": matrix(q, h), "k": matrix(k, h), "v": matrix(k, h), "o": matrix(h, q),
            "norm2": vector(h, 1), "gate": matrix(f, h), "up": matrix(f, h), "down": matrix(h, f)}


def turns(t):
    """The cosines and sines of positions, on [t, 64]."""
    angles = np.outer(np.arange(t), LLAMA["theta"] ** (-np.arange(32) / 32.0))
    return [np.concatenate([f(angles)] * 2, 1).astype(np.float32) for f in (np.cos, np.sin)]


def llama_block(lib, x, w, cosine, sine, hidden_keys):
    t, heads, kv = x.shape[0], LLAMA["heads"], LLAMA["kv"]
    norm = lambda x, g: x / lib.sqrt((x * x).mean(-1)[:, None] + EPS) * g

    def turned(x):
        low, high = x[..., :32], x[..., 32:]
        return x * cosine + lib.concatenate([-high, low], -1) * sine

    h = norm(x, w["norm1"])
    cut = lambda y, n: lib.swapaxes(y.reshape(t, n, 64), 0, 1)
    q, k, v = turned(cut(h @ w["q"].T, heads)), turned(cut(h @ w["k"].T, kv)), cut(h @ w["v"].T, kv)
    k, v = (lib.repeat(y, heads // kv, 0) for y in (k, v))
    s = q @ lib.swapaxes(k, 1, 2) / 8.0 + hidden_keys
    e = lib.exp(s - s.max(-1)[:, :, None])
    a = lib.swapaxes((e / e.sum(-1)[:, :, None]) @ v, 0, 1).reshape(t, -1)
    x = x + a @ w["o"].T
    h = norm(x, w["norm2"])
    gate = h @ w["gate"].T
    return x + (gate / (1 + lib.exp(-gate)) * (h @ w["up"].T)) @ w["down"].T


def causal(t):
    return np.triu(np.full((t, t), -1e9, np.float32), 1)


def llama_nodes(t, constants):
    w = llama_weights()
    nodes, constant, emit = exporter(constants)
    for name, value in zip(["cosine", "sine"], turns(t)):
        constant(name, value)
    constant("mask", causal(t))
    for name, value in {"two": 2.0, "eps": EPS, "root": 8.0}.items():
        constant(name, np.float32(value))
    for name, value in {"last": [-1], "zero": [0], "half": [32], "whole": [64], "third": [2], "axis": [3],
                        "join": [1, -1, LLAMA["heads"] * 64]}.items():
        constant(name, np.int64(value))
    linear = lambda x, n: emit("MatMul", x, constant(f"w.{n}", np.ascontiguousarray(w[n].T)))

    def norm(x, n):
        mean = emit("ReduceMean", emit("Pow", x, "two"), "last", keepdims=1)
        scaled = emit("Div", x, emit("Sqrt", emit("Add", mean, "eps")))
        return emit("Mul", scaled, constant(n, w[n]))

    def cut(x, heads):
        shape = constant(f"cut{len(nodes)}", np.int64([1, -1, heads, 64]))
        return emit("Transpose", emit("Reshape", x, shape), perm=[0, 2, 1, 3])

    def turned(x):
        low, high = emit("Slice", x, "zero", "half", "axis"), emit("Slice", x, "half", "whole", "axis")
        other = emit("Concat", emit("Neg", high), low, axis=-1)
        return emit("Add", emit("Mul", x, "cosine"), emit("Mul", other, "sine"))

    def shared(x):
        """Each head of keys for all that read it."""
        shape = constant(f"each{len(nodes)}", np.int64([1, LLAMA["kv"], LLAMA["heads"] // LLAMA["kv"], t, 64]))
        wide = emit("Expand", emit("Unsqueeze", x, "third"), shape)
        return emit("Reshape", wide, constant(f"all{len(nodes)}", np.int64([1, LLAMA["heads"], t, 64])))

    h = norm("x", "norm1")
    q, k = turned(cut(linear(h, "q"), LLAMA["heads"])), shared(turned(cut(linear(h, "k"), LLAMA["kv"])))
    v = shared(cut(linear(h, "v"), LLAMA["kv"]))
    s = emit("Add", emit("Div", emit("MatMul", q, emit("Transpose", k, perm=[0, 1, 3, 2])), "root"), "mask")
    a = emit("Reshape", emit("Transpose", emit("MatMul", emit("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3]), "join")
    x = emit("Add", "x", linear(a, "o"))
    h = norm(x, "norm2")
    gate = linear(h, "gate")
    inner = emit("Mul", emit("Mul", gate, emit("Sigmoid", gate)), linear(h, "up"))
    nodes.append(peers.node("Add", x, linear(inner, "down")))
    return nodes


def llama(t, kind="f32"):
    x = RNG.standard_normal((t, LLAMA["hidden"])).astype(np.float32)
    w = llama_weights()
    wide = {k: v.astype(np.float64) for k, v in w.items()}
    cosine, sine = turns(t)
    want = llama_block(np, x.astype(np.float64), wide, cosine, sine, causal(t))
    h, f, q, k = LLAMA["hidden"], LLAMA["ffn"], LLAMA["heads"] * 64, LLAMA["kv"] * 64
    flops = 2 * t * (2 * h * q + 2 * h * k + 3 * h * f) + 2 * t * (t + 1) * q

    def jax_block(jax):
        import jax.numpy as jnp

        weights = [{k: jnp.asarray(v) for k, v in w.items()}, jnp.asarray(cosine), jnp.asarray(sine), jnp.asarray(causal(t))]
        run = lambda x, weights: llama_block(jnp, x, *weights)
        return run, weights

    others = models(x, functools.partial(llama_nodes, t), want, functools.partial(llama_torch, w, t), jax_block, kind)
    return Row(program(LLAMA_TEXT, kind), [[x, np.arange(t), *stored(w, kind)]], want, OFF[kind], others, {kind: flops},
               weights=tuple(f"w.{name}" for name in w))


def llama_torch(weights, t, torch):
    f = torch.nn.functional
    w = {k: torch.from_numpy(v) for k, v in weights.items()}
    cosine, sine = (torch.from_numpy(x) for x in turns(t))

    def turned(x):
        low, high = x.chunk(2, -1)
        return x * cosine + torch.cat([-high, low], -1) * sine

    def run(x):
        h = f.rms_norm(x, (LLAMA["hidden"],), w["norm1"], EPS)
        q, k, v = (f.linear(h, w[n]).view(1, t, -1, 64).transpose(1, 2) for n in "qkv")
        a = f.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + f.linear(a.transpose(1, 2).reshape(t, -1), w["o"])
        h = f.rms_norm(x, (LLAMA["hidden"],), w["norm2"], EPS)
        return x + f.linear(f.silu(f.linear(h, w["gate"])) * f.linear(h, w["up"]), w["down"])

    return run


def models(x, nodes, want, torch_model, jax_model, kind):
    """The peers of a model of `x`, whose constants are gathered where its operators are listed. In bf16: who has it."""

    def model():
        constants = []
        made = nodes(constants)
        return lambda given: peers.graph(made, {"x": x[None]}, constants)

    def compiled(torch):
        run, tensor = torch.compile(torch_model(torch), dynamic=False), torch.from_numpy(x)
        return [lambda: run(tensor)]

    def jax():
        import jax

        run, weights = jax_model(jax)
        made = jax.jit(run).lower(x, weights).compile()
        given = jax.device_put(x)
        last = [None]

        def call():
            last[0] = made(given, weights)
            last[0].block_until_ready()

        return peers.Called([call], lambda: np.asarray(last[0]))

    if kind != "f32":
        return {"openvino": lambda: peers.openvino(model(), {"x": x[None]}, precision="bf16")}
    return {
        "onnxruntime": lambda: peers.onnxruntime(model(), {"x": x[None]}, want[None]),
        "openvino": lambda: peers.openvino(model(), {"x": x[None]}),
        "torch.compile": lambda: peers.torch_calls(compiled),
        "jax": jax,
    }


def rows(quick):
    for t in [16] if quick else [128, 37, 16, 211, 384]:
        yield f"bert {t}", functools.partial(bert, t)
    for t in [16] if quick else [1, 7, 33, 128, 512]:
        yield f"llama block {t}", functools.partial(llama, t)
    for t in [16] if quick else [128, 16]:
        yield f"bf16 bert {t}", functools.partial(bert, t, "bf16")
        yield f"tolerant bert {t}", functools.partial(bert, t, "tolerant")
    for t in [16] if quick else [1, 128]:
        yield f"bf16 llama block {t}", functools.partial(llama, t, "bf16")
