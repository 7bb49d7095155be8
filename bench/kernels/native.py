"""The C parts of the benchmark, compiled when it starts: limits of the machine, and calls in a loop."""

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path

from harness import PROCESSOR_TIME

SOURCES = Path(__file__).resolve().parent / "native"
BUILT = Path(os.environ.get("TENON_TARGET", Path(__file__).resolve().parents[2] / "target")) / "bench"


def compiler():
    """clang-22, so that C and Tenon have the same LLVM; else the clang there is, which the first line says."""
    return next((c for c in ["clang-22", "clang"] if shutil.which(c)), None)


@functools.cache
def build(name, *flags):
    """A shared object of one C file."""
    found = compiler()
    if not found:
        raise OSError("no clang-22: apt-get install clang-22")
    BUILT.mkdir(parents=True, exist_ok=True)
    # Each process its own file: two of them may build at once.
    out = BUILT / f"{name}.{os.getpid()}.so"
    subprocess.check_call([found, "-O3", "-march=native", "-shared", "-fPIC", "-pthread", *flags,
                           str(SOURCES / f"{name}.c"), "-lm", "-o", str(out)])
    try:
        return clocked(ctypes.CDLL(str(out)))
    finally:
        out.unlink()


def clocked(lib):
    """The library, with the clock of this run if it has one."""
    if PROCESSOR_TIME and hasattr(lib, "use_processor_time"):
        lib.use_processor_time()
    return lib


@functools.cache
def drive():
    lib = build("drive")
    for name in ["tenon", "cblas", "dnnl", "rust", "loops"]:
        getattr(lib, f"drive_{name}").restype = ctypes.c_double
    return lib


class Limits:
    """Rates of the machine on some threads, measured when asked for: operations or bytes a second."""

    PEAKS, MEMORY = ("f32", "bf16", "int8"), ("read", "copy", "triad")

    def __init__(self, threads):
        self.threads, self.lib, self.rounds = threads, build("limits"), {}
        for name in [f"peak_{p}" for p in self.PEAKS] + [f"{m}_rate" for m in self.MEMORY]:
            getattr(self.lib, name).restype = ctypes.c_double

    def peak(self, kind, tries=6):
        """The best of some tries of a third of a millisecond each, short enough to fall between two slices of others."""
        f = getattr(self.lib, f"peak_{kind}")
        rounds = self.rounds.setdefault(kind, 100_000)
        return max(f(self.threads, ctypes.c_int64(rounds)) for _ in range(tries))

    def memory(self, kind, tries=3):
        f = getattr(self.lib, f"{kind}_rate")
        return max(f(self.threads) for _ in range(tries))

    def probes(self, row):
        """What bounds a row, as measurements for `interleaved`."""
        probes = {f"peak {kind}": lambda kind=kind: self.peak(kind) for kind in row.work}
        if row.writes:
            probes["write"] = lambda: max(self.memory("copy"), self.memory("triad"))
        elif row.reads:
            probes["read"] = lambda: self.memory("read")
        return probes

    @staticmethod
    def seconds(row, rates):
        """The least time that a row can take, and what it is that takes it."""
        bounds = [(work / rates[f"peak {kind}"], kind) for kind, work in row.work.items()]
        if row.writes:
            bounds.append(((row.reads + row.writes) / rates["write"], "memory"))
        elif row.reads:
            bounds.append((row.reads / rates["read"], "memory"))
        return max(bounds, default=(0.0, ""))
