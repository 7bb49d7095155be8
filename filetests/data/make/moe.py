"""std/moe.tn against numpy."""

import numpy as np
from ref import *


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-inf))
    return e / e.sum(axis=-1, keepdims=True)


def route(x):
    order = np.argsort(-x, axis=-1, kind="stable")[:, :2]
    return order, softmax(np.take_along_axis(x, order, -1)), np.take_along_axis(softmax(x), order, -1)


entry("t_route", route, [randn(5, 8)], [randn(1, 2)], [randn(0, 4)], [values([[1, 1, 1], [2, 3, 3], [0, -1, 0]])], [values([[-inf, 1, -inf], [inf, 2, 3]])])
entry("t_starts", lambda e: (np.searchsorted(np.sort(e), np.arange(5)), np.argsort(e, kind="stable")), [randint(0, 4, 11)], [randint(0, 4, 0)], [randint(2, 3, 5)])
entry("t_moe", lambda x, w, e, g: (np.einsum("nk,nkm->nm", np.repeat(x, 2, axis=0), w[e]).reshape(len(x), 2, 5) * g[:, :, None]).sum(axis=1), [randn(4, 3), randn(4, 3, 5), randint(0, 4, 8), rand(0, 1, 4, 2)], [randn(0, 3), randn(4, 3, 5), randint(0, 4, 0), rand(0, 1, 0, 2)], atol=1e-5)
