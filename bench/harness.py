"""What benchmarks share: Tenon through its C library, and interleaved rounds with paired ratios."""

import ctypes
import math
import os
import statistics
import time

import numpy as np

# With CLOCK=processor times are those that this process had a processor, which on one thread is all but the waiting for
# others.
PROCESSOR_TIME = os.environ.get("CLOCK") == "processor"
clock = time.process_time if PROCESSOR_TIME else time.perf_counter

try:
    import ml_dtypes

    BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BF16 = None

# The language's names of element types, by numpy's.
NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
         "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool"}
TYPES = {ours: (BF16 if theirs == "bfloat16" else np.dtype(theirs)) for theirs, ours in NAMES.items()}


class Tenon:
    """A function of a program in text, called as C calls it. Arguments stay tensors between calls."""

    lib = None

    def __init__(self, text, function="main"):
        lib = Tenon.library()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(lib.tenon_load(b"benchmark", text.encode(), ctypes.byref(module)))
        try:
            self.check(lib.tenon_function_of(module, function.encode(), ctypes.byref(self.function)))
        finally:
            lib.tenon_module_free(module)

    def __del__(self):
        if Tenon.lib and self.function:
            Tenon.lib.tenon_function_free(self.function)

    @classmethod
    def library(cls):
        if cls.lib is None:
            cls.lib = ctypes.CDLL(os.environ["TENON_LIBRARY"])
            cls.lib.tenon_last_error.restype = ctypes.c_char_p
            cls.lib.tenon_tensor_dtype.restype = ctypes.c_char_p
            cls.lib.tenon_tensor_data.restype = ctypes.c_void_p
            cls.lib.tenon_tensor_shape.restype = ctypes.POINTER(ctypes.c_int64)
            cls.lib.tenon_tensor_rank.restype = ctypes.c_size_t
            cls.lib.tenon_tensor_bytes.restype = ctypes.c_size_t
        return cls.lib

    @classmethod
    def check(cls, code):
        if code:
            raise RuntimeError(cls.library().tenon_last_error().decode())

    @classmethod
    def tensor(cls, array):
        out, shape = ctypes.c_void_p(), (ctypes.c_int64 * array.ndim)(*array.shape)
        data = np.ascontiguousarray(array)
        pointer = data.ctypes.data_as(ctypes.c_void_p)
        name = NAMES[str(array.dtype)].encode()
        cls.check(cls.library().tenon_tensor_new(name, shape, ctypes.c_size_t(array.ndim), pointer,
                                                 ctypes.c_size_t(data.nbytes), ctypes.byref(out)))
        return out

    @classmethod
    def array(cls, tensor):
        """A copy of what a tensor holds."""
        lib = cls.library()
        shape = tuple(lib.tenon_tensor_shape(tensor)[: lib.tenon_tensor_rank(tensor)])
        data = ctypes.string_at(lib.tenon_tensor_data(tensor), lib.tenon_tensor_bytes(tensor))
        return np.frombuffer(data, TYPES[lib.tenon_tensor_dtype(tensor).decode()]).reshape(shape).copy()

    def bind(self, name, array):
        """Gives a parameter for all calls: a weight, of which what can be made before they come is made now."""
        tensor = self.tensor(array)
        try:
            self.check(self.lib.tenon_bind(self.function, name.encode(), tensor))
        finally:
            self.lib.tenon_tensor_free(tensor)

    def bound(self, *arrays):
        return Bound(self, [arrays])


class Bound:
    """A function of Tenon's with its arguments, of which there may be several sets that take turns: tensors that are
    not shared between sets are then in no cache when their turn comes again. An array that sets share is one tensor."""

    def __init__(self, tenon, sets):
        made = {id(a): Tenon.tensor(a) for arrays in sets for a in arrays}
        self.tenon, self.tensors, self.count = tenon, list(made.values()), len(sets[0])
        self.sets = [(ctypes.c_void_p * len(arrays))(*(made[id(a)] for a in arrays)) for arrays in sets]

    def __del__(self):
        for tensor in self.tensors:
            Tenon.lib.tenon_tensor_free(tensor)

    def __call__(self, read=False):
        """Calls it on the first set; gives its first result as a new array if asked to."""
        lib, out, count = Tenon.library(), (ctypes.c_void_p * 8)(), ctypes.c_size_t()
        Tenon.check(lib.tenon_call(self.tenon.function, self.sets[0], ctypes.c_size_t(self.count), out,
                                   ctypes.c_size_t(8), ctypes.byref(count)))
        results = [ctypes.c_void_p(p) for p in out[: count.value]]
        array = Tenon.array(results[0]) if read else None
        for result in results:
            lib.tenon_tensor_free(result)
        return array


def timed(call):
    """Seconds that a number of calls take, of something to call or of something that times itself."""

    def run(calls):
        start = clock()
        for _ in range(calls):
            call()
        return clock() - start

    return getattr(call, "run", None) or run


def interleaved(competitors, rounds=31, seconds=0.01, chunks=8, pause=0.0, probes=None, longest=8.0):
    """Times competitors in turn: {name: [seconds a call, one a round]}.

    A turn takes about `seconds`, in up to `chunks` equal parts, at least two, of which the quickest counts: on a
    machine with other work, somebody else has the processor in some of them. There are fewer rounds, not below 6, where
    they would take more than `longest` seconds. What `probes` give, {name: measurement}, is asked for in each round too
    and stands in the answer beside the times. After a turn there is a pause, in which threads that wait for more work
    may give up.
    """
    runs = {name: timed(call) for name, call in competitors.items()}
    calls, whole = {}, 0.0
    for name, run in runs.items():
        run(1)
        once = max(run(1), 1e-9)
        calls[name] = max(1, int(seconds / chunks / once))
        whole += max(2 * once, seconds)
    rounds = max(min(rounds, 6), min(rounds, int(longest / whole)))
    times = {name: [] for name in [*competitors, *(probes or {})]}
    for _ in range(rounds):
        for name, run in runs.items():
            best, end = math.inf, time.perf_counter() + seconds
            for part in range(chunks):
                best = min(best, run(calls[name]) / calls[name])
                if (part or best > 0.5) and time.perf_counter() > end:
                    break
            times[name].append(best)
            time.sleep(pause)
        for name, probe in (probes or {}).items():
            times[name].append(probe())
    return times


def middle(values):
    """The median, and the bounds between which that of many more such values lies with 95%: order statistics, so
    nothing is taken for granted of how they are spread."""
    values, n = sorted(values), len(values)
    # The number of values below the median is binomial; `cut` is the most that leaves 2.5% below it.
    below, cut = 0.0, 0
    while below + math.comb(n, cut) / 2**n <= 0.025:
        below += math.comb(n, cut) / 2**n
        cut += 1
    cut = max(cut - 1, 0)
    return statistics.median(values), values[cut], values[n - 1 - cut]


def ratio(times, peer, ours="tenon"):
    """How many times as long as ours the peer takes, in paired rounds: the median and its 95% bounds."""
    return middle([p / o for p, o in zip(times[peer], times[ours])])
