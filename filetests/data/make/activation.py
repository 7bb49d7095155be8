"""std/activation.tn against onnxruntime; what ONNX lacks against numpy and the standard library."""

import math

import numpy as np
import ref
from peer.ort import ort
from ref import *

# Left out, as others of the same form are there.
spared = set("relu_f16 leaky_f16 sigmoid_f16 silu_bf16 selu_f16 celu_bf16 hard_sigmoid_f16 log_sigmoid_f16 softsign_f16 softsign_bf16 relu_f64 leaky_f64 gelu_f16 mish_bf16".split())


def entry(name, *rest, **more):
    if name.removeprefix("t_") not in spared:
        ref.entry(name, *rest, **more)


ends = values([0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 10, -10, 30, -30, 88, -88, 200, -200, 1e4, -1e4])
flat = [[randn(17)], [ends], [randn(0)]]
# Far from 0 in both directions: what must neither overflow nor vanish.
erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-np.maximum(x, 0))))


def softplus(x):
    return np.logaddexp(0, x)


for half in ["", "_f16", "_bf16", "_f64"]:
    d = {"": f32, "_f16": f16, "_bf16": bf16, "_f64": f64}[half]
    at = [[randn(33, dtype=d)], [values([0, 0.25, -0.25, 4, -4, 12, -12], dtype=d)]]
    more = flat if half == "" else at
    entry("t_relu" + half, lambda x: np.maximum(x, 0), *more)
    entry("t_leaky" + half, lambda x: np.where(x < 0, 0.125 * x, x), *more)
    entry("t_elu" + half, lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)), *more)
    entry("t_selu" + half, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), *more)
    entry("t_celu" + half, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2)), *more)
    entry("t_sigmoid" + half, sigmoid, *more)
    entry("t_silu" + half, lambda x: x * sigmoid(x), *more)
    entry("t_gelu" + half, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), *more, atol=None if half else 1e-6)
    entry("t_gelu_tanh" + half, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), *more)
    entry("t_softplus" + half, softplus, *more)
    entry("t_log_sigmoid" + half, lambda x: -softplus(-x), *more)
    entry("t_mish" + half, lambda x: x * np.tanh(softplus(x)), *more)
    entry("t_softsign" + half, lambda x: x / (1 + abs(x)), *more)
    entry("t_hard_sigmoid" + half, lambda x: np.clip(x / 6 + 0.5, 0, 1), *more)

# The same again by another's hand, in float.
entry("t_ort_leaky", lambda x: ort("LeakyRelu", x, alpha=0.125), *flat)
entry("t_ort_softsign", lambda x: ort("Softsign", x), *flat)
entry("t_ort_elu", lambda x: ort("Elu", x, alpha=1.5), *flat)
entry("t_ort_selu", lambda x: ort("Selu", x), *flat)
entry("t_ort_celu", lambda x: ort("Celu", x.astype(f32), alpha=2.0), *flat)
entry("t_ort_gelu", lambda x: ort("Gelu", x), *flat)
entry("t_ort_gelu_tanh", lambda x: ort("Gelu", x, approximate="tanh"), *flat)
entry("t_ort_softplus", lambda x: ort("Softplus", x), *flat)
entry("t_ort_mish", lambda x: ort("Mish", x), *flat)
entry("t_ort_hard_sigmoid", lambda x: ort("HardSigmoid", x, alpha=0.25, beta=0.4), *flat)
entry("t_hard_swish", lambda x: ort("HardSwish", x), *flat)
entry("t_relu6", lambda x: np.clip(x, 0, 6), *flat)
entry("t_prelu", lambda x, s: ort("PRelu", x, s), [randn(2, 3, 4), randn(3, 1)], [randn(1, 1, 1), randn(1, 1)], [randn(0, 3, 5), randn(3, 1)])
entry("t_thresholded", lambda x: ort("ThresholdedRelu", x, alpha=0.75), *flat)
entry("t_hard_tanh", lambda x: np.clip(x, -1, 1), *flat)
entry("t_tanh_shrink", lambda x: x - np.tanh(x), *flat, atol=1e-6)
entry("t_softcap", lambda x: 30 * np.tanh(x / 30), *flat)
entry("t_quick_gelu", lambda x: x * sigmoid(1.702 * x), *flat)
two = [[randn(3, 5), randn(3, 5)], [randn(0, 2), randn(0, 2)], [randn(1, 1), randn(1, 1)], [values([[-200, 200, 3]]), values([[1, 2, -3]])]]
entry("t_swiglu", lambda g, u: g * sigmoid(g) * u, *two)
entry("t_geglu", lambda g, u: 0.5 * g * (1 + erf(g / math.sqrt(2))) * u, *two)
entry("t_geglu_tanh", lambda g, u: 0.5 * g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))) * u, *two)
entry("t_glu", lambda x, g: x * sigmoid(g), *two)
entry("t_relu_int", lambda x: np.maximum(x, 0), [randint(-9, 9, 7)], [randint(-9, 9, 0)])
