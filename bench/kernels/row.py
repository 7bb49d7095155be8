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


class Ours:
    """Tenon as a competitor."""

    def __init__(self, text, sets):
        self.bound = Bound(Tenon(text), sets)
        self.sets = (ctypes.c_void_p * len(sets))(*(ctypes.addressof(s) for s in self.bound.sets))
        self.turn = ctypes.c_size_t(0)

    def run(self, calls):
        lib, b = Tenon.lib, self.bound
        took = drive().drive_tenon(lib.tenon_call, lib.tenon_tensor_free, b.tenon.function, self.sets,
                                   ctypes.c_size_t(b.count), ctypes.c_size_t(len(b.sets)), ctypes.byref(self.turn),
                                   ctypes.c_int64(calls))
        if took < 0:
            Tenon.check(1)
        return took

    def result(self):
        return self.bound(read=True)
