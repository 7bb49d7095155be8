"""std/norm.tn against numpy and onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *


def standardize(x, axes=-1, eps=1e-5):
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def batch(x, w, b, m, v, eps=1e-5):
    at = [-1] + [1] * (x.ndim - 2)
    w, b, m, v = [t.reshape(at) for t in (w, b, m, v)]
    return (x - m) / np.sqrt(v + eps) * w + b


def group(groups):
    def run(x, w, b):
        y = standardize(x.reshape(x.shape[0], groups, -1)).reshape(x.shape)
        at = [-1] + [1] * (x.ndim - 2)
        return y * w.reshape(at) + b.reshape(at)

    return run


def rms(eps, offset=0):
    return lambda x, w: x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * (offset + w)


three = [[randn(2, 3, 8)], [randn(1, 1, 1)], [randn(0, 3, 5)], [randn(2, 5, 13)]]
affine = [[c[0], randn(n), randn(n)] for c, n in zip(three, [8, 1, 5, 13])]
entry("t_standardize", standardize, *three, [values([[[1e4, 1e4 + 1, 1e4 + 2, 1e4 - 3]]])], atol=1e-5)
entry("t_layer_norm", lambda x, w, b: standardize(x) * w + b, *affine, atol=1e-5)
entry("t_layer_norm_ort", lambda x, w, b: ort("LayerNormalization", x, w, b), *affine[:2], affine[3], atol=1e-5)
entry("t_layer_norm_bf16", lambda x, w, b: standardize(x, eps=1e-6) * w + b, [randn(3, 300, dtype=bf16), randn(300), randn(300)], [randn(1, 1, dtype=bf16), randn(1), randn(1)], atol=2e-2)
entry("t_layer_norm_f64", lambda x, w, b: standardize(x, eps=1e-12) * w + b, [randn(3, 17, dtype=f64), randn(17, dtype=f64), randn(17, dtype=f64)])
rows = [[randn(4, 16), randn(16)], [randn(1, 1), randn(1)], [randn(0, 4), randn(4)], [randn(3, 7), randn(7)]]
entry("t_rms_norm", rms(1e-5), *rows)
entry("t_rms_norm_ort", lambda x, w: ort("RMSNormalization", x, w, epsilon=1e-5), *rows[:2], rows[3])
entry("t_rms_norm_f16", rms(1e-5), [randn(3, 64, dtype=f16), randn(64, dtype=f16)])
entry("t_rms_norm_gemma", rms(1e-6, 1), *rows)
entry("t_l2_normalize", lambda x: x / np.maximum(np.sqrt((x * x).sum(axis=-1, keepdims=True)), 1e-12), [randn(3, 5)], [randn(0, 2)], [values([[0, 0], [3, 4]])], [randn(1, 1)])


def channels(shape, dtype=f32, own=f32):
    c = shape[1]
    return [randn(*shape, dtype=dtype), randn(c, dtype=own), randn(c, dtype=own), randn(c, dtype=own), rand(0.1, 2, c, dtype=own)]


entry("t_batch_norm", batch, channels((2, 3, 4, 5)), channels((1, 1, 1, 1)), channels((0, 3, 2, 2)), channels((2, 7, 3, 1)), atol=1e-5)
entry("t_batch_norm_ort", lambda *a: ort("BatchNormalization", *a), channels((2, 3, 4, 5)), atol=1e-5)
entry("t_batch_norm_flat", lambda *a: batch(*a, eps=1e-3), channels((4, 3)), atol=1e-5)
entry("t_batch_norm_bf16", batch, channels((2, 3, 5), bf16), atol=2e-2)
entry("t_group_norm", group(3), channels((2, 6, 4, 5))[:3], channels((1, 6, 1, 1))[:3], channels((2, 6, 7, 3))[:3], atol=1e-5)
entry("t_group_norm_ort", lambda *a: ort("GroupNormalization", *a, num_groups=3), channels((2, 6, 4, 5))[:3], atol=1e-5)
entry("t_group_norm_dims", group(2), channels((2, 4, 5))[:3], channels((3, 2, 7))[:3], atol=1e-5)
entry("t_instance_norm", lambda x, w, b: ort("InstanceNormalization", x, w, b), channels((2, 3, 4, 5))[:3], channels((1, 1, 3, 2))[:3], channels((2, 5, 1, 7))[:3], atol=1e-5)
entry("t_lrn", lambda x: ort("LRN", x, alpha=0.0002, beta=0.5, bias=2.0, size=3), [randn(2, 5, 3, 2)], [randn(1, 1, 1, 1)])


def lrn(x):
    y = np.empty_like(x)
    for k in range(x.shape[1]):
        part = x[:, max(0, k - 1) : k + 3]
        y[:, k] = x[:, k] / (1 + 1e-4 / 4 * (part * part).sum(axis=1)) ** 0.75
    return y


entry("t_lrn_even", lrn, [randn(2, 7, 3)], [randn(1, 1, 1)])
