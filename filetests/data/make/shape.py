"""std/shape.tn against numpy."""

import numpy as np
from ref import *

some = [(2, 3), (1, 1), (0, 3), (5, 7)]
squares = [[randn(*s)] for s in some]

entry(
    "reshaped",
    lambda x: (x.reshape(*x.shape[:2], 2, 3), x.reshape(x.shape[1], x.shape[0], 6), x.reshape(6, -1) if x.size else x.reshape(6, 0), x.reshape(-1)),
    *[[randn(*s, 6)] for s in some],
)
entry("heads", lambda x, n: x.reshape(*x.shape[:2], len(n), -1), [randn(2, 3, 12), randn(4)], [randn(1, 5, 7), randn(7)])
entry("flattened", lambda x: (x.reshape(-1), x.reshape(x.shape[0], -1) if x.size else x.reshape(x.shape[0], 0)), [randint(-9, 9, 2, 3, 4)], [randint(-9, 9, 3, 0, 2)])
entry(
    "transposed",
    lambda x: (x.swapaxes(1, 2), x.transpose(2, 0, 1), x.swapaxes(0, 2), np.moveaxis(x, 1, 0)),
    [randn(2, 3, 4)],
    [randn(1, 5, 1)],
    [randn(3, 0, 2)],
    [randn(13, 7, 11)],
)
entry(
    "ones_in_and_out",
    lambda x: (x[None], x[..., None], x[None, :, None], x, x),
    [bools(2, 3)],
    [bools(1, 1)],
    [bools(0, 3)],
)
entry(
    "expanded",
    lambda x, y: (np.broadcast_to(x, (4, len(x))), np.broadcast_to(y, (len(x), 3)), np.broadcast_to(y, (2, len(x), 5))),
    [randn(3), randn(3, 1)],
    [randn(1), randn(1, 1)],
    [randn(0), randn(0, 1)],
)
entry(
    "sliced",
    lambda x: (x[:, 2:6], x[:, 1:8:3], x[:, 8::-4], x[:, ::-1], x[:, 4:4]),
    [randn(3, 9)],
    [randn(1, 9)],
    [randn(0, 9)],
)
entry(
    "sliced_by_dims",
    lambda x, like: x[len(x) - len(like) :][::-1],
    [randn(5, 3), randn(2)],
    [randn(5, 3), randn(5)],
    [randn(5, 3), randn(0)],
    [randn(0, 3), randn(0)],
)
entry(
    "joined",
    lambda x, y, z: (np.concatenate([x, y], 1), np.concatenate([x, x]), np.concatenate([z, z])),
    [randn(2, 3), randn(2, 4), randn(3)],
    [randn(2, 0), randn(2, 1), randn(0)],
    [randn(0, 3), randn(0, 4), randn(3)],
    [randn(7, 1), randn(7, 13), randn(1)],
)
entry(
    "parted",
    lambda x: (*np.split(x, 2, 1), np.stack(np.split(x, 2, 1)), x[:, :1], x[:, 1:]),
    [randn(3, 6)],
    [randn(1, 2)],
    [randn(0, 4)],
    [randn(7, 26)],
)
entry(
    "stacked",
    lambda x, y: (np.stack([x, y]), np.stack([x, y], 1), np.stack([x, y], -1), x.T),
    *[[randn(*s), randn(*s)] for s in some],
)
entry(
    "padded",
    lambda x: (np.pad(x, ((1, 2), (0, 0))), np.pad(x, ((0, 0), (1, 1)), constant_values=0.5), np.pad(x, ((1, 1), (1, 2)), mode="edge")),
    *[[randn(*s)] for s in [(2, 3), (1, 1), (5, 7)]],
)
entry(
    "mirrored",
    lambda x: (np.pad(x, ((1, 1), (1, 2)), mode="reflect"), np.pad(x, ((2, 1), (0, 1)), mode="wrap")),
    *[[randint(-99, 99, *s)] for s in [(2, 3), (3, 4), (5, 7)]],
)
entry(
    "repeated",
    lambda x: (np.tile(x, (2, 3)), np.repeat(x, 2, 0), np.repeat(x, 3, 1)),
    *[[randint(-99, 99, *s, dtype=i32)] for s in some],
)
entry("turned", lambda x: (np.flip(x), np.flip(x, 0), np.flip(x, 1), np.roll(x, 2, 1), np.roll(x, -3, 0)), *squares)
entry("triangles", lambda x: (np.tril(x), np.tril(x, 1), np.triu(x, -1)), [randn(2, 3, 4)], [randn(1, 1, 1)], [randn(2, 0, 3)], [randn(2, 7, 5)])
entry("square", lambda x, y: (np.diagonal(x, axis1=1, axis2=2), np.diag(y)), [randn(2, 3, 3), randn(3)], [randn(1, 1, 1), randn(1)], [randn(2, 0, 0), randn(0)])
entry("diagonals", lambda x: (np.diagonal(x), np.diagonal(x, 2), np.diagonal(x, -2)), [randn(3, 5)])
