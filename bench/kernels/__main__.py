"""Kernels beside the peers' best, the limits of the machine, and the same loops in C.

    scripts/bench kernels                        all rows, on 1 thread and then on 2
    THREADS=1 ROWS=gemm,softmax scripts/bench kernels    the rows whose names begin so, on one thread
    QUICK=1 scripts/bench kernels                a smoke run of under a minute: a row of each kind, few rounds
    scripts/bench kernels --json FILE            and the figures as JSON: {threads, rows: [{name, ..}]}

A row is a program of Tenon, compiled once, and the same by peers. Results are compared before the clock starts, with
a tolerance of the row's; one that is off ends the run with an error at its end. Rounds are interleaved: in each, every
competitor has its turn, and what bounds the row is measured beside it (native/limits.c: products in registers, memory).
Of a turn the quickest of a few parts counts, so that little of what others do on the machine is in it.

A line: Tenon's time and rate; how much of the limit that is (the time that the work needs at the measured rates, by
Tenon's); for each peer its time by Tenon's, so above 1 Tenon is ahead, with the 95% bounds of the median of paired
rounds. On several threads also the best time of the peer's by the best of Tenon's: where somebody else has a core,
threads that wait for each other take many times as long, and only that says what a quiet machine would.

Peers are what bench/requirements.txt installs, oneDNN (`libdnnl-dev`), the crate gemm and, where GGML names the folder
of its sources, ggml; one that is not there is left out, and said to be.

Each number of threads is a process of its own: libraries read such settings once. On one thread the clock is the
processor time of that process, so that a machine with other work measures much the same as a quiet one; CLOCK=wall is
the one on the wall.
"""

import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

QUICK = os.environ.get("QUICK", "0") not in ("", "0")


def environment(threads):
    """What libraries must find when they are loaded."""
    env = {**os.environ, "THREADS": str(threads), "KERNELS_CHILD": "1"}
    for name in ["TENON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"]:
        env[name] = str(threads)
    # On one thread, what others take of a busy machine is not counted; on several it is the wall that matters.
    env.setdefault("CLOCK", "processor" if threads == "1" else "wall")
    # What is freed stays with the process: fresh pages cost several times what most kernels do.
    env.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_TOP_PAD_=str(64 << 20))
    # Without it OpenBLAS takes a Zen 5 for a CPU without AVX-512.
    if "avx512f" in open("/proc/cpuinfo").read():
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    return env


def follow():
    """Asks the system to end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def parent(arguments):
    """A process for each number of threads; the JSON of each is collected."""
    tables, failed = [], False
    for threads in os.environ.get("THREADS", "1,2").split(","):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "rows.json")
            code = subprocess.call([sys.executable, "-m", "kernels", "--json", out], env=environment(threads),
                                   preexec_fn=follow)
            failed |= code != 0
            if os.path.exists(out):
                with open(out) as file:
                    tables.append(json.load(file))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(tables, file, indent=1)
    sys.exit(1 if failed else 0)


def off(got, row, tolerance):
    """How far a result is off, as a fraction of what is allowed; infinity where it is not even of the shape."""
    want = np.asarray(row.want)
    got = np.asarray(got)
    if got.size != want.size:
        return float("inf")
    distance = np.abs(got.reshape(want.shape).astype(np.float64) - want)
    worst = float(np.max(distance / tolerance, initial=0.0))
    return worst if worst == worst else float("inf")


def measure(name, row, limits):
    """One row: its figures, as JSON has them."""
    from harness import interleaved, middle, ratio

    from .row import Ours

    figures = {"name": name, "threads": limits.threads, "peers": {}, "best": {}, "left": [], "wrong": []}
    made = {}
    try:
        made["tenon"] = Ours(row.text, row.sets, row.weights)
        worst = off(made["tenon"].result(), row, row.tolerance)
        if worst > 1:
            figures["wrong"].append(f"tenon: {worst:.3g} times what is allowed")
    except RuntimeError as why:
        figures["failed"] = str(why)
        return figures
    for peer, make in row.peers.items():
        if QUICK and peer == "torch.compile":  # It takes longer than all the rest.
            continue
        try:
            competitor = make()
            result = competitor.result()
        except Exception as why:  # Whatever a peer cannot do is its own affair, and said.
            figures["left"].append(f"{peer}: {(str(why).strip() or repr(why)).splitlines()[0][:120]}")
            continue
        worst = off(result, row, row.tolerances.get(peer, row.tolerance))
        if worst > 1:
            figures["wrong"].append(f"{peer}: {worst:.3g} times what is allowed")
        made[peer] = competitor
    rounds, seconds = (3, 0.002) if QUICK else (15, 0.02)
    times = interleaved(made, rounds, seconds, pause=0.002 if limits.threads > 1 else 0.0, probes=limits.probes(row))
    figures["seconds"] = ours = statistics.median(times["tenon"])
    parts, bound = [], ""
    for i, took in enumerate(times["tenon"]):
        least, bound = limits.seconds(row, {k: v[i] for k, v in times.items()})
        parts.append(least / took)
    if bound:
        figures["bound"], figures["limit"] = bound, middle(parts)
    if bound == "memory":
        figures["rate"], figures["unit"] = (row.reads + row.writes) / ours / 1e9, "GB/s"
    elif row.work:
        kind, work = max(row.work.items(), key=lambda kw: kw[1])
        figures["rate"], figures["unit"] = work / ours / 1e9, "GFLOP/s" if kind != "int8" else "GOP/s"
    for peer in made:
        if peer != "tenon":
            figures["peers"][peer] = ratio(times, peer)
            figures["best"][peer] = min(times[peer]) / min(times["tenon"])
    return figures


def line(f):
    """The line of a row."""
    if "failed" in f:
        return f"{f['name']:<28} FAILED: {f['failed'].strip()}"
    text = f"{f['name']:<28} {f['seconds'] * 1e3:>9.3f} ms"
    text += f" {f['rate']:>8.1f} {f['unit']:<7}" if "rate" in f else " " * 17
    if "limit" in f:
        text += f"  {100 * f['limit'][0]:>4.0f}% of {f['bound']:<6}"
    for peer, (mid, low, high) in f["peers"].items():
        best = f"; best {f['best'][peer]:.2f}" if f["threads"] > 1 else ""
        text += f"  {peer} {mid:.2f} ({low:.2f}-{high:.2f}{best})"
    for more in f.get("more", []):
        text += f"  {more}"
    text += "".join(f"  [{l}]" for l in f["left"])
    return text + "".join(f"\n    WRONG {w}" for w in f["wrong"])


def child(arguments):
    from . import peers
    from .native import Limits, compiler
    from .table import table

    threads = int(os.environ["THREADS"])
    limits = Limits(threads)
    rates = [f"{k} {limits.peak(k) / 1e9:.0f}" for k in limits.PEAKS]
    rates += [f"{k} {limits.memory(k) / 1e9:.1f} GB/s" for k in limits.MEMORY]
    try:
        core = peers.openblas_core()
    except (ImportError, OSError) as why:
        core = str(why)
    print(f"\n{threads} thread(s); now: {', '.join(rates)}; OpenBLAS runs as {core}; C by {compiler()}")
    only = tuple(os.environ.get("ROWS", "").split(","))
    rows, started = [], time.time()
    for name, build in table(QUICK):
        if name.startswith(only):
            row = build()
            figures = row(limits) if callable(row) else measure(name, row, limits)
            rows.append(figures)
            print(line(figures), flush=True)
            # After each row, so that a run that is ended leaves those it has.
            with open(arguments.json, "w") as file:
                json.dump({"threads": threads, "rows": rows}, file)
    print(f"{len(rows)} rows in {time.time() - started:.0f} s")
    bad = [f["name"] for f in rows if f.get("wrong") or "failed" in f]
    if bad:
        sys.exit(f"wrong or failed: {', '.join(bad)}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="where the figures go as JSON")
    arguments = parser.parse_args()
    child(arguments) if os.environ.get("KERNELS_CHILD") else parent(arguments)


main()
