"""Two threads against one while another process keeps a core busy: two workers of Tenon with their own pools take turns."""

import functools
import os
import statistics
import subprocess
import sys

SIZES = {"gemm": (384, 384, 384), "softmax": (1024, 1024), "small": (64, 64, 64)}


def worker():
    """Answers each number on its input with the best seconds of so many calls."""
    from .products import PRODUCT, randn
    from .row import Ours
    from .shapes import SOFTMAX

    kind = sys.argv[1]
    sizes = SIZES[kind]
    arrays = [randn(*sizes)] if kind == "softmax" else [randn(*sizes[:2]), randn(*sizes[1:])]
    made = Ours(SOFTMAX if kind == "softmax" else PRODUCT, [arrays])
    for line in sys.stdin:
        calls = int(line)
        print(made.run(calls) / calls, flush=True)


def figures(kind, limits):
    from harness import ratio

    command = [sys.executable, "-c", "from kernels.busy import worker; worker()", kind]
    workers = {}
    for threads in ["1", "2"]:
        env = {**os.environ, "TENON_THREADS": threads}
        workers[threads] = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def ask(threads, calls):
        worker = workers[threads]
        worker.stdin.write(f"{calls}\n")
        worker.stdin.flush()
        return float(worker.stdout.readline())

    try:
        for threads in workers:
            ask(threads, 3)
        calls = max(1, int(0.05 / ask("1", 10)))
        # Means over a while, not the best: it is the waiting for the other that counts.
        times = {threads: [] for threads in workers}
        for _ in range(15):
            for threads in workers:
                times[threads].append(ask(threads, calls))
    finally:
        for process in [burner, *workers.values()]:
            process.kill()
            process.wait()
    slower = ratio(times, "2", "1")
    return {"name": f"busy {kind}", "seconds": statistics.median(times["2"]), "peers": {}, "left": [], "wrong": [],
            "slower": slower, "more": [f"2 threads take {slower[0]:.2f} ({slower[1]:.2f}-{slower[2]:.2f}) of 1 thread's time"]}


def rows(quick):
    if os.environ["THREADS"] == "2" and not quick:
        for kind in SIZES:
            yield f"busy {kind}", functools.partial(lambda kind: functools.partial(figures, kind), kind)
