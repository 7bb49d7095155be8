"""How long compiling takes: single kernels, and those of a Llama layer, into an empty cache on disk and from a full one."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LLAMA = ROOT / "examples" / "06_llama.tn"
# Of the library, each a kernel or the few that a fused function has.
OPERATORS = ["softmax(x)", "gelu(x)", "silu(x) * x", "sum(x, axis=0)", "sum(x, axis=1)", "max(x, axis=1)", "x.T + 0.0",
             "exp(x)", "tanh(x)", "cumsum(x, axis=1)", "x @ x.T", "sort(x)", "concat(x, x)", "relu(x + 1.0)", "argmax(x, axis=1)"]


def texts():
    from . import primitives, products, shapes, short

    blocks = [short.blocks_text(kind, 256, 256) for kind in ["q8_0", "q4_0"]]
    found = [products.PRODUCT, products.TRANSPOSED, short.BF16_PRODUCT, short.INT8, *blocks, shapes.SOFTMAX]
    found += [v for k, v in sorted(vars(primitives).items()) if k.isupper() and isinstance(v, str)]
    results = {"sum(x, axis=0)": "f32[n]", "sum(x, axis=1)": "f32[m]", "max(x, axis=1)": "f32[m]", "x.T + 0.0": "f32[n, m]",
               "x @ x.T": "f32[m, m]", "concat(x, x)": "f32[2 * m, n]", "argmax(x, axis=1)": "i64[m]"}
    return found + [f"fn main<m, n>(x: f32[m, n]) -> {results.get(o, 'f32[m, n]')} {{ {o} }}" for o in OPERATORS]


def child():
    """Compiles all of them once in the cache that the environment names; prints seconds and how many objects came."""
    from harness import Tenon, clock

    folder = Path(os.environ["TENON_CACHE"])
    count = lambda: sum(1 for p in folder.rglob("*") if p.is_file())
    Tenon("fn main(x: f32[3]) -> f32[3] { x + 1.0 }")
    out = []
    for text, function in [*((t, "main") for t in texts()), (LLAMA.read_text(), "layer")]:
        before, begun = count(), clock()
        made = Tenon(text, function)
        out.append({"seconds": clock() - begun, "objects": count() - before})
        del made
    print(json.dumps(out))


def steps():
    """Seconds of each step of compiling the layer, in one process, and how many kernels it has."""
    build = ["cargo", "build", "--release", "-q", "-p", "driver", "--example", "compile_time"]
    subprocess.check_call(build, cwd=ROOT)
    built = Path(os.environ.get("TENON_TARGET", ROOT / "target")) / "release" / "examples" / "compile_time"
    return json.loads(subprocess.check_output([str(built), str(LLAMA), "layer", "--json"]))


def figures(limits):
    rounds = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            command = [sys.executable, "-c", "from kernels.compiling import child; child()"]
            env = {**os.environ, "TENON_CACHE": folder}
            rounds.append([json.loads(subprocess.check_output(command, env=env)) for _ in ["empty", "full"]])
    # The best of the rounds for each text: others use the machine too. What is left with a full cache is the front end,
    # and looking kernels up; what is more with an empty one is compiling them.
    best = lambda which, i: min(r[which][i]["seconds"] for r in rounds)
    several = range(len(rounds[0][0]))
    objects = [rounds[0][0][i]["objects"] for i in several]
    cold = [best(0, i) - best(1, i) for i in several]
    each = [cold[i] / objects[i] for i in several[:-1] if objects[i]]
    slowest = max((cold[i] / objects[i], i) for i in several[:-1] if objects[i])
    first = texts()[slowest[1]].strip().splitlines()[0]
    own = steps()
    return {"name": "compile", "seconds": statistics.median(each), "peers": {}, "left": [], "wrong": [], "kernels": each,
            "layer": {"objects": objects[-1], "cold": best(0, -1), "disk": best(1, -1), "steps": own},
            "more": [f"a kernel, median of {len(each)} (slowest {slowest[0] * 1e3:.0f} ms: {first[:60]});",
                     f"a Llama layer from text to callable, {objects[-1]} kernels: {best(0, -1) * 1e3:.0f} ms cold,",
                     f"{best(1, -1) * 1e3:.0f} ms with them on disk; of it, in a process that has begun, reading and checking "
                     f"{own['read and check'] * 1e3:.1f} ms, planning {own['plan'] * 1e3:.1f} ms, lowering with kernels "
                     f"compiled {own['lower, compile'] * 1e3:.0f} ms, from disk {own['lower, from disk'] * 1e3:.1f} ms; the "
                     f"kernels alone, from their primitives to mapped code, {own['kernels from disk, callable'] * 1e3:.1f} ms"]}


def rows(quick):
    if not quick:
        yield "compile", lambda: figures
