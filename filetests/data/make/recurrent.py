"""std/recurrent.tn against onnxruntime, whose gates stand in another order."""

import numpy as np
from peer.ort import ort
from ref import *


def gates(w, order, h):
    return np.concatenate([w[k * h : (k + 1) * h] for k in order])


def lstm(x, s, c, w, r, b):
    h = s.shape[1]
    w, r, b = [gates(t, (0, 3, 1, 2), h)[None] for t in (w, r, b)]
    y, s, c = ort("LSTM", x, w, r, np.concatenate([b, 0 * b], axis=1), None, s[None], c[None], outputs=3, hidden_size=h)
    return y[:, 0], s[0], c[0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_lstm(x, s, c, w, r, b):
    out = []
    for row in x:
        i, f, g, o = np.split(row @ w.T + s @ r.T + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        s = sigmoid(o) * np.tanh(c)
        out.append(s)
    return np.stack(out) if out else np.zeros((0, *s.shape)), s, c


def gru(x, s, w, r, b, rb):
    h = s.shape[1]
    w, r, b, rb = [gates(t, (1, 0, 2), h)[None] for t in (w, r, b, rb)]
    y, s = ort("GRU", x, w, r, np.concatenate([b, rb], axis=1), None, s[None], outputs=2, hidden_size=h, linear_before_reset=1)
    return y[:, 0], s[0]


def state(t, n, d, h, k, cells, biases, dtype=f32):
    more = [randn(n, h, dtype=dtype) for _ in range(cells)]
    return [randn(t, n, d, dtype=dtype), *more, randn(k * h, d, dtype=dtype), randn(k * h, h, dtype=dtype), *[randn(k * h, dtype=dtype) for _ in range(biases)]]


entry("t_lstm", lstm, state(3, 2, 4, 5, 4, 2, 1), state(1, 1, 1, 1, 4, 2, 1), state(7, 3, 2, 3, 4, 2, 1), atol=1e-5)
entry("t_lstm_f64", plain_lstm, state(3, 2, 4, 5, 4, 2, 1, f64), state(0, 2, 4, 5, 4, 2, 1, f64))
entry("t_gru", gru, state(3, 2, 4, 5, 3, 1, 2), state(1, 1, 1, 1, 3, 1, 2), state(7, 3, 2, 3, 3, 1, 2), atol=1e-5)
