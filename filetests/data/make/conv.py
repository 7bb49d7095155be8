"""std/conv.tn against onnxruntime."""

import numpy as np
from peer.ort import ort
from ref import *


def conv(x, w, *b, **attributes):
    return ort("Conv", x, w, *b, **attributes)


entry("t_conv1", lambda x, w: conv(x, w, pads=[1, 1]), [randn(2, 3, 7), randn(4, 3, 3)], [randn(1, 3, 1), randn(4, 3, 3)], [randn(2, 3, 13), randn(4, 3, 3)], atol=1e-5)
two = dict(strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2], group=2)
entry("t_conv2", lambda x, w: conv(x, w, **two), [randn(2, 4, 5, 6), randn(6, 2, 3, 3)], [randn(1, 4, 1, 4), randn(6, 2, 3, 3)], [randn(1, 4, 11, 7), randn(6, 2, 3, 3)], atol=1e-5)
entry("t_conv_plain", conv, [randn(2, 3, 5, 6), randn(4, 3, 3, 3)], [randn(1, 1, 1, 1), randn(1, 1, 1, 1)], [randn(2, 2, 7, 7), randn(5, 2, 7, 7)], atol=1e-5)
entry("t_conv_bias", lambda x, w, b: conv(x, w, b, pads=[1] * 4), [randn(1, 3, 5, 4, dtype=bf16), randn(5, 3, 3, 3, dtype=bf16), randn(5, dtype=bf16)], atol=6e-2)
entry("t_conv3", conv, [randn(2, 2, 3, 4, 5, dtype=f64), randn(4, 2, 1, 2, 3, dtype=f64)], rtol=1e-5, atol=1e-5)


def whole(x, w):
    return conv(x.astype(f32), w.astype(f32), strides=[2]).astype(np.int32)


entry("t_conv_int", whole, [randint(-9, 9, 2, 2, 7, dtype=i32), randint(-9, 9, 3, 2, 2, dtype=i32)])
entry("t_depthwise", lambda x, w: conv(x, w, pads=[1] * 4, group=6), [randn(2, 6, 5, 4), randn(6, 1, 3, 3)], [randn(1, 6, 1, 1), randn(6, 1, 3, 3)], atol=1e-5)
entry("t_dilated", lambda x, w: conv(x, w, pads=[3, 3], dilations=[2]), [randn(2, 2, 9), randn(3, 2, 4)], [randn(1, 2, 1), randn(3, 2, 4)], atol=1e-5)
entry("t_same", lambda x, w: conv(x, w, auto_pad="SAME_UPPER"), [randn(2, 2, 9), randn(3, 2, 4)], [randn(1, 2, 1), randn(3, 2, 4)], atol=1e-5)
entry("t_twice", lambda x, a, b: conv(np.maximum(conv(x, a, strides=[2, 2], pads=[1] * 4), 0), b.astype(f32), strides=[2, 2], pads=[1] * 4), [randn(1, 3, 9, 6), randn(4, 3, 3, 3), randn(2, 4, 3, 3)], [randn(2, 3, 1, 2), randn(4, 3, 3, 3), randn(2, 4, 3, 3)], atol=2e-5)
entry("t_spread", lambda x, w: ort("ConvTranspose", x, w, strides=[2, 2], group=2), [randn(2, 4, 3, 5), randn(4, 3, 3, 2)], [randn(1, 4, 1, 1), randn(4, 3, 3, 2)], atol=1e-5)
entry("t_same_stride", lambda x, w: conv(x, w, auto_pad="SAME_UPPER", strides=[2]), *[[randn(2, 2, n), randn(3, 2, 4)] for n in (1, 2, 8, 9, 13)], atol=1e-5)
entry("t_same_lower", lambda x, w: conv(x, w, auto_pad="SAME_LOWER", strides=[2, 3]), *[[randn(2, 2, h, v), randn(3, 2, 2, 3)] for h, v in ((1, 1), (2, 3), (7, 5), (8, 11))], atol=1e-5)


def transposed(x, w, **attributes):
    return ort("ConvTranspose", x, w, **attributes)


entry("t_transpose1", lambda x, w: transposed(x, w, strides=[3], pads=[1, 1], output_padding=[1]), *[[randn(2, 2, n), randn(2, 3, 4)] for n in (1, 2, 7)], atol=1e-5)
entry("t_transpose2", lambda x, w: transposed(x, w, strides=[2, 2], group=2, pads=[1, 0, 1, 1], output_padding=[1, 1]), *[[randn(2, 4, h, v), randn(4, 3, 3, 2)] for h, v in ((1, 1), (3, 5))], atol=1e-5)
entry("t_transpose_dilated", lambda x, w: transposed(x, w, pads=[2] * 4, dilations=[2, 2]), *[[randn(1, 2, h, v), randn(2, 2, 3, 3)] for h, v in ((1, 1), (4, 3))], atol=1e-5)
