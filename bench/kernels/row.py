"""A row of the table: a program of Tenon with its arguments, what it must give, what bounds it, and who else does it."""

import ctypes
import dataclasses
import typing

from harness import Bound, Tenon

from .native import drive


@dataclasses.dataclass
class Row:
    text: str
    # Sets of arguments that take turns; arrays that stay are in each of them.
    sets: list
    # What it must give on the first set, and by how much results may be off it: a number or an array.
    want: typing.Any
    tolerance: typing.Any
    # {name: a function that makes a competitor: something with `run(calls)` and `result()`}
    peers: dict = dataclasses.field(default_factory=dict)
    # Operations by the unit that does them, {"f32": n}: of a product that is added, two.
    work: dict = dataclasses.field(default_factory=dict)
    # Bytes that must come from memory and go there; 0 where all may be in a cache.
    reads: int = 0
    writes: int = 0
    # Peers that compute in another way, in shorter numbers say, and how far off they may be.
    tolerances: dict = dataclasses.field(default_factory=dict)
    # The last arrays of each set by these names are weights: bound before the clock starts, as peers have them for
    # constants.
    weights: tuple = ()


class Ours:
    """Tenon as a competitor."""

    def __init__(self, text, sets, weights=()):
        first = len(sets[0]) - len(weights)
        # A set of weights has a function of its own.
        made = [Tenon(text) for _ in (sets if weights else sets[:1])]
        for tenon, arrays in zip(made, sets):
            for name, array in zip(weights, arrays[first:]):
                tenon.bind(name, array)
        self.bounds = [Bound(tenon, [s[:first] for s in (sets if len(made) == 1 else [sets[i]])])
                       for i, tenon in enumerate(made)]
        functions = [b.tenon.function.value for b in self.bounds for _ in b.sets]
        self.functions = (ctypes.c_void_p * len(functions))(*functions)
        self.sets = (ctypes.c_void_p * len(functions))(*(ctypes.addressof(s) for b in self.bounds for s in b.sets))
        self.turn = ctypes.c_size_t(0)
        # The first call makes what weights make.
        for bound in self.bounds:
            bound()

    def run(self, calls):
        lib, b = Tenon.lib, self.bounds[0]
        took = drive().drive_tenon(lib.tenon_call, lib.tenon_tensor_free, self.functions, self.sets,
                                   ctypes.c_size_t(b.count), ctypes.c_size_t(len(self.functions)),
                                   ctypes.byref(self.turn), ctypes.c_int64(calls))
        if took < 0:
            Tenon.check(1)
        return took

    def result(self):
        return self.bounds[0](read=True)
