"""std/reduce.tn against numpy."""

import numpy as np
from ref import *


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-inf))
    return e / e.sum(axis=-1, keepdims=True)


shapes = [[randn(2, 3, 4)], [randn(2, 0, 4)], [randn(1, 1, 1)], [randn(7, 13, 5)]]
entry("sum_first", lambda x: x.sum(axis=0), *shapes)
entry("sum_middle", lambda x: x.sum(axis=1), *shapes, [values([[[1, nan], [inf, 2], [-inf, 3]]])])
entry("softmax_last", softmax, *shapes, [values([[[1e4, -1e4, 0], [-inf, 0, -inf]]])])
