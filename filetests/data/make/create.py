"""std/create.tn against numpy."""

import numpy as np
from ref import *

counts = [4, 1, 0, 7]
entry("filled", lambda x, v: (np.zeros(len(x)), np.ones((2, len(x))), np.full((len(x), 3), v)), *[[randn(n), randn()] for n in counts])
entry(
    "ranges",
    lambda x, a, s: (np.arange(len(x)), np.arange(float(len(x))), a + s * np.arange(len(x)), 10 - 2 * np.arange(len(x))),
    *[[randn(n), randn(), randn()] for n in counts],
)
entry("spaced", lambda x, a, b: (np.linspace(a, b, len(x)), np.eye(len(x))), *[[randn(n), randn(), randn()] for n in counts])
