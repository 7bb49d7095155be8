"""std/pool.tn against onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *


def pool(kind, **attributes):
    return lambda x: ort(kind, x.astype(f32), opset=22, **attributes)


flat = [[randn(2, 3, 7)], [randn(1, 3, 2)], [randn(2, 3, 13)]]
square = [[randn(2, 3, 5, 6)], [randn(1, 3, 3, 3)], [randn(1, 3, 7, 11)]]
entry("t_max1", pool("MaxPool", kernel_shape=[2], strides=[2]), *flat)
entry("t_max2", pool("MaxPool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2]), *square)
entry("t_max_ceil", pool("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), *square)
entry("t_max_ceil_padded", pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1), *square)
entry("t_avg", pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1), *square)
entry("t_avg_out", pool("AveragePool", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4), *square)
entry("t_avg_ceil", pool("AveragePool", kernel_shape=[2], strides=[2], ceil_mode=1), *flat)
entry("t_avg_bf16", lambda x: ort("AveragePool", x.astype(f32), kernel_shape=[2], strides=[2]), [randn(2, 3, 7, dtype=bf16)], out=bf16)
entry("t_global", lambda x: (x.mean(axis=(2, 3)), x.max(axis=(2, 3))), *square)


def adaptive(x, *sizes):
    for axis, t in enumerate(sizes, 2):
        n = x.shape[axis]
        x = np.stack([x.take(range(i * n // t, -(-(i + 1) * n // t)), axis=axis).mean(axis=axis) for i in range(t)], axis=axis)
    return x


# Windows are of one extent along an axis, so that the mean of means is the mean.
entry("t_adaptive1", lambda x: adaptive(x, 3), *[[randn(2, 2, n)] for n in (1, 2, 3, 7, 13)])
entry("t_adaptive2", lambda x: adaptive(x, 3, 2), *[[randn(2, 2, h, w)] for h, w in ((1, 1), (7, 5), (6, 4))])
entry("t_adaptive_bf16", lambda x: adaptive(x, 3), [randn(2, 2, 7, dtype=bf16)], out=bf16)
