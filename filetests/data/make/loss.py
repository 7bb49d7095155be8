"""std/loss.tn against numpy and onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *

pairs = [[randn(3, 5), randn(3, 5)], [randn(1, 1), randn(1, 1)], [randn(7, 13), randn(7, 13)]]
entry("t_mse", lambda a, b: ((a - b) ** 2).mean(), *pairs, [randn(0, 3), randn(0, 3)])
entry("t_mse_bf16", lambda a, b: ((a - b) ** 2).mean(), [randn(40, 50, dtype=bf16), randn(40, 50, dtype=bf16)], out=f32)
entry("t_l1", lambda a, b: abs(a - b).mean(), *pairs)
entry("t_huber", lambda a, b: np.where(abs(a - b) <= 0.5, 0.5 * (a - b) ** 2, 0.5 * (abs(a - b) - 0.25)).mean(), *pairs)


def cross(x, t, ignore=-100):
    log = x - x.max(axis=-1, keepdims=True)
    log = log - np.log(np.exp(log).sum(axis=-1, keepdims=True))
    rows = -np.take_along_axis(log, np.where(t == ignore, 0, t)[..., None], axis=-1)[..., 0]
    return np.where(t == ignore, 0, rows)


def mean_cross(x, t):
    return np.float64(cross(x, t).sum() / (t != -100).sum())


entry("t_cross_entropy", mean_cross, [randn(5, 7), randint(0, 7, 5)], [randn(1, 1), randint(0, 1, 1)], [randn(3, 4), values([1, -100, 3], dtype=i64)], [values([[1e4, -1e4], [500, 500]]), values([1, 0], dtype=i64)])
entry("t_cross_entropy_ort", lambda x, t: ort("SoftmaxCrossEntropyLoss", x.astype(f32), t, ignore_index=-100), [randn(5, 7), randint(0, 7, 5)], [randn(3, 4), values([1, -100, 3], dtype=i64)])
entry("t_cross_entropy_rows", lambda x, t: cross(x, t, 1), [randn(2, 3, 5), randint(0, 5, 2, 3, dtype=i32)], [randn(0, 3, 5), randint(0, 5, 0, 3, dtype=i32)])
entry("t_bce", lambda x, t: (np.maximum(x, 0) - x * t + np.log1p(np.exp(-abs(x)))).mean(), [randn(7), rand(0, 1, 7)], [values([200, -200]), values([0, 1])])
entry("t_kl", lambda p, q: np.where(p > 0, p * (np.log(np.where(p > 0, p, 1)) - q), 0).sum(axis=-1), [rand(0, 1, 3, 5), randn(3, 5)], [values([[0, 1, 0]]), randn(1, 3)])
entry("t_cosine", lambda a, b: (a * b).sum(-1) / np.maximum(np.sqrt((a * a).sum(-1)), 1e-8) / np.maximum(np.sqrt((b * b).sum(-1)), 1e-8), *pairs, [values([[0, 0]]), values([[1, 2]])])
