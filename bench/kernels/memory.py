"""What memory bounds: softmax and norms of 4096 x 4096, and gelu with an addition over 64M elements."""

import functools

import numpy as np

from . import peers
from .products import randn
from .row import Row


def row(text, inputs, operands, want, tolerance, nodes, torch, moved):
    """`nodes` are of ONNX, on `inputs`, a letter each; `torch(torch, operands)` says the same to torch, plain and compiled."""
    names = dict(zip(inputs, operands))
    model = lambda constants: peers.graph(nodes, names, constants)

    def eager(module):
        values = [module.from_numpy(a) for a in operands]
        return [lambda: torch(module, *values)]

    def compiled(module):
        values = [module.from_numpy(a) for a in operands]
        made = module.compile(functools.partial(torch, module), dynamic=False)
        return [lambda: made(*values)]

    return Row(text, [operands], want, tolerance, {
        "onnxruntime": lambda: peers.onnxruntime(model, names, want),
        "openvino": lambda: peers.openvino(model, names),
        "torch": lambda: peers.torch_calls(eager),
        "torch.compile": lambda: peers.torch_calls(compiled),
    }, {}, *moved)


def softmax(n):
    x = randn(n, n)
    e = np.exp(x.astype(np.float64))
    text = "fn main<n, m>(x: f32[n, m]) -> f32[n, m] { softmax(x) }"
    return row(text, "x", [x], e / e.sum(1, keepdims=True), 1e-7, [peers.node("Softmax", "x", axis=-1)],
               lambda t, x: t.softmax(x, -1), (x.nbytes, x.nbytes))


def layer_norm(n):
    x, g, b = randn(n, n) + 1, randn(n), randn(n)
    wide = x.astype(np.float64)
    mean = wide.mean(1, keepdims=True)
    want = (wide - mean) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * g + b
    text = "fn main<n, m>(x: f32[n, m], g: f32[m], b: f32[m]) -> f32[n, m] { layer_norm(x, g, b) }"
    return row(text, "xgb", [x, g, b], want, 2e-5, [peers.node("LayerNormalization", "x", "g", "b", axis=-1, epsilon=1e-5)],
               lambda t, x, g, b: t.nn.functional.layer_norm(x, (n,), g, b), (x.nbytes, x.nbytes))


def rms_norm(n):
    x, g = randn(n, n), randn(n)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * g
    text = "fn main<n, m>(x: f32[n, m], g: f32[m]) -> f32[n, m] { rms_norm(x, g) }"
    return row(text, "xg", [x, g], want, 2e-5, [peers.node("RMSNormalization", "x", "g", axis=-1, epsilon=1e-5)],
               lambda t, x, g: t.nn.functional.rms_norm(x, (n,), g, 1e-5), (x.nbytes, x.nbytes))


def gelu_add(n):
    from scipy.special import erf

    x, r = randn(n), randn(n)
    want = 0.5 * x * (1 + erf(x * np.float32(0.5**0.5))) + r
    text = "fn main<n>(x: f32[n], r: f32[n]) -> f32[n] { gelu(x) + r }"
    nodes = [peers.node("Gelu", "x", to="t"), peers.node("Add", "t", "r")]
    return row(text, "xr", [x, r], want, 2e-6, nodes, lambda t, x, r: t.nn.functional.gelu(x) + r, (2 * x.nbytes, x.nbytes))


def rows(quick):
    n = 512 if quick else 4096
    for name, build in [("softmax", softmax), ("layer norm", layer_norm), ("rms norm", rms_norm)]:
        yield f"{name} {n}", functools.partial(build, n)
    yield "gelu + add", functools.partial(gelu_add, 1 << (18 if quick else 26))
