"""std/rng.tn against Philox 4x32-10 as published: the Python below gives Random123's known answers."""

import numpy as np
from ref import *

M = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q & M, (p >> 32) ^ c[3] ^ k[1], p & M]
        k = [(k[0] + 0x9E3779B9) & M, (k[1] + 0xBB67AE85) & M]
    return c


# kat_vectors of Random123.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([M] * 4, [M] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def bits(key, counter, n):
    key, words = int(key) & (2**64 - 1), []
    for block in range((n + 3) // 4):
        at = (int(counter) + block) & (2**64 - 1)
        words += philox([at & M, at >> 32, 0, 0], [key & M, key >> 32])
    return np.array(words[:n], dtype=i64)


seeds = [[values(0, dtype=i64), values(0, dtype=i64)], [values(7, dtype=i64), values(5, dtype=i64)], [values(-1, dtype=i64), values(2**40 + 3, dtype=i64)]]
entry("t_bits", lambda k, c: bits(k, c, 15).reshape(3, 5), *seeds)
words = lambda *s: randint(0, 2**32, *s)
entry("t_unit", lambda b: (b >> 8) / 2**24, [words(3, 5)], [words(0, 2)], [values([[0, M]], dtype=i64)], out=f32, atol=0, rtol=0)
entry("t_normal", lambda a, b: np.sqrt(-2 * np.log(((a >> 8) + 1) / 2**24)) * np.cos(2 * np.pi * (b >> 8) / 2**24), [words(23), words(23)], [values([0, M, 0], dtype=i64), values([0, M, 5], dtype=i64)], out=f32, atol=3e-6)
entry("t_int", lambda b: -5 + (b * 1005 >> 32), [words(23)], [words(0)], [values([0, M], dtype=i64)])


def permutation_of(b):
    y = np.zeros(len(b), dtype=i64)
    for i, w in enumerate(b):
        j = int(w) * (i + 1) >> 32
        y[i] = y[j]
        y[j] = i
    assert sorted(y) == list(range(len(b)))
    return y


entry("t_permutation", permutation_of, [words(17)], [words(0)], [words(1)])


def draws(seed):
    unit = lambda b: (b >> 8) / 2**24
    a = unit(bits(seed, 0, 6)).reshape(2, 3)
    first, second = bits(seed, 2, 5), bits(seed, 4, 5)
    b = np.sqrt(-2 * np.log(((first >> 8) + 1) / 2**24)) * np.cos(2 * np.pi * unit(second))
    c = -3 + (bits(seed, 6, 4) * 103 >> 32)
    d = unit(bits(seed, 7, 6)) < 0.5
    return a, b, c, d, permutation_of(bits(seed, 9, 7)), np.array(11)


one = [[values(3, dtype=i64)], [values(-8, dtype=i64)], [values(2**50 + 1, dtype=i64)]]
entry("t_draws", draws, *one, out=f32, atol=3e-6)


def dropout(x, seed):
    u = (bits(seed, 0, x.size) >> 8).reshape(x.shape) / 2**24
    return np.where(u < 0.25, 0, x / 0.75)


def categorical(x, seed):
    u = ((bits(seed, 0, x.size) >> 9).reshape(x.shape) + 0.5) / 2**23
    return np.argmax(x - np.log(-np.log(u)), axis=-1)


entry("t_dropout", dropout, [randn(3, 5), one[0][0]], [randn(0, 5), one[0][0]], [randn(1, 1), one[1][0]])
entry("t_categorical", categorical, [randn(7, 5), one[0][0]], [randn(1, 1), one[1][0]], [values([[-inf, 0, -inf]]), one[1][0]], [randn(0, 3), one[0][0]])
