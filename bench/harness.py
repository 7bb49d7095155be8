"""What benchmarks share: Tenon through its C library, and interleaved rounds with paired ratios."""

import ctypes
import os
import statistics
import time

import numpy as np


class Tenon:
    """A function of a program in text, called as C calls it. Arguments stay tensors between calls."""

    lib = None

    def __init__(self, text, function):
        lib = Tenon.library()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(lib.tenon_load(b"benchmark", text.encode(), ctypes.byref(module)))
        self.check(lib.tenon_function_of(module, function.encode(), ctypes.byref(self.function)))

    @classmethod
    def library(cls):
        if cls.lib is None:
            cls.lib = ctypes.CDLL(os.environ["TENON_LIBRARY"])
            cls.lib.tenon_last_error.restype = ctypes.c_char_p
            cls.lib.tenon_tensor_data.restype = ctypes.c_void_p
            cls.lib.tenon_tensor_shape.restype = ctypes.POINTER(ctypes.c_int64)
            cls.lib.tenon_tensor_rank.restype = ctypes.c_size_t
        return cls.lib

    @classmethod
    def check(cls, code):
        if code:
            raise RuntimeError(cls.library().tenon_last_error().decode())

    @classmethod
    def tensor(cls, array):
        names = {"float32": b"f32", "int64": b"i64"}
        out, shape = ctypes.c_void_p(), (ctypes.c_int64 * array.ndim)(*array.shape)
        data = np.ascontiguousarray(array)
        pointer = data.ctypes.data_as(ctypes.c_void_p)
        name = names[str(array.dtype)]
        cls.check(cls.library().tenon_tensor_new(name, shape, ctypes.c_size_t(array.ndim), pointer,
                                                 ctypes.c_size_t(data.nbytes), ctypes.byref(out)))
        return out

    def bound(self, *arrays):
        """Something to call that runs the function on these; it gives its one result as a new array if asked to."""
        lib, tensors = Tenon.library(), [Tenon.tensor(a) for a in arrays]
        args = (ctypes.c_void_p * len(tensors))(*tensors)
        out, count = (ctypes.c_void_p * 1)(), ctypes.c_size_t()

        def call(read=False):
            Tenon.check(lib.tenon_call(self.function, args, ctypes.c_size_t(len(tensors)), out,
                                       ctypes.c_size_t(1), ctypes.byref(count)))
            result = ctypes.c_void_p(out[0])
            array = None
            if read:
                shape = lib.tenon_tensor_shape(result)[: lib.tenon_tensor_rank(result)]
                data = ctypes.cast(lib.tenon_tensor_data(result), ctypes.POINTER(ctypes.c_float))
                array = np.ctypeslib.as_array(data, shape=tuple(shape)).copy()
            lib.tenon_tensor_free(result)
            return array

        return call


def interleaved(competitors, rounds=31, seconds=0.01):
    """Times competitors in turn, each for about `seconds` a round: {name: [seconds a call, one a round]}."""
    calls = {}
    for name, call in competitors.items():
        call()
        start = time.perf_counter()
        call()
        calls[name] = max(1, int(seconds / (time.perf_counter() - start)))
    times = {name: [] for name in competitors}
    for _ in range(rounds):
        for name, call in competitors.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                call()
            times[name].append((time.perf_counter() - start) / calls[name])
    return times


def ratio(times, peer, ours="tenon"):
    """How many times as long as ours the peer takes: the median of paired rounds, and the bounds of the middle 95%."""
    pairs = sorted(p / o for p, o in zip(times[peer], times[ours]))
    cut = round(len(pairs) * 0.025)
    return statistics.median(pairs), pairs[cut], pairs[-1 - cut]
