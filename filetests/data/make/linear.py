"""std/linear.tn against numpy."""

import numpy as np
from ref import *

loose = {"rtol": 1e-5, "atol": 1e-5}
entry(
    "products",
    lambda a, b, v: (a @ b, a @ v, v @ b, v @ v),
    *[[randn(m, k), randn(k, n), randn(k)] for m, k, n in [(3, 5, 4), (1, 1, 1), (3, 0, 4), (13, 7, 19), (1, 17, 1)]],
    **loose,
)
entry(
    "stacks",
    lambda a, b, w, v: (a @ b, a @ w, a @ v, v @ b, (a.swapaxes(1, 2) @ a) @ b),
    *[[randn(s, m, k), randn(s, k, n), randn(k, n), randn(k)] for s, m, k, n in [(2, 3, 5, 4), (1, 1, 1, 1), (0, 2, 3, 4), (3, 7, 11, 5)]],
    rtol=1e-4,
    atol=1e-4,
)
entry(
    "broadcast_stacks",
    lambda a, b, c: (a @ b, c @ b),
    *[[randn(s, 1, m, k), randn(t, k, n), randn(m, k)] for s, t, m, k, n in [(2, 3, 4, 5, 6), (1, 1, 1, 1, 1), (2, 3, 0, 5, 1)]],
    **loose,
)
entry("of_integers", lambda a, b: a @ b, [randint(-9, 9, 3, 5, dtype=i32), randint(-9, 9, 5, 4, dtype=i32)])
entry("of_doubles", lambda a, b: a @ b, [randn(3, 5, dtype=f64), randn(5, 4, dtype=f64)])
entry(
    "others",
    lambda a, b, x: (np.outer(a, b), np.dot(a, a), np.trace(x, axis1=1, axis2=2)),
    *[[randn(m), randn(n), randn(2, m, n)] for m, n in [(3, 4), (1, 1), (0, 3), (7, 5)]],
)
e = np.einsum
entry(
    "sums_of_one",
    lambda x: (e("bii->bi", x), e("bii->b", x), e("bij->", x), e("bij->jbi", x), e("bii", x)),
    *[[randn(b, i, i)] for b, i in [(2, 3), (1, 1), (0, 3), (3, 7)]],
    **loose,
)
entry(
    "sums_of_two",
    lambda x, y: (e("bij,bjk->bik", x, y), e("bij,bjk", x, y), e("...ij,...jk->...ik", x, y), e("bij,bjk->ib", x, y), e("bij,bjk->ik", x, y)),
    *[[randn(b, i, j), randn(b, j, k)] for b, i, j, k in [(2, 3, 4, 5), (1, 1, 1, 1), (2, 3, 0, 2), (3, 5, 7, 2)]],
    **loose,
)
entry(
    "sums_of_three",
    lambda x, m, y: (e("bi,ij,bj->b", x, m, y), e("bi,ij,bj->ij", x, m, y)),
    *[[randn(b, i), randn(i, j), randn(b, j)] for b, i, j in [(2, 3, 4), (1, 1, 1), (0, 3, 2), (3, 7, 5)]],
    **loose,
)
