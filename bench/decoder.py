"""A decoder of the shape of Qwen2.5-0.5B, written in Tenon: a step of decoding behind 256 tokens, and the prefill of
256.

    scripts/bench decoder                        bf16, q8_0 and q8_0 by bytes, on 1 thread and then on 2
    THREADS=2 WEIGHTS=bf16 scripts/bench decoder

24 layers of 896 with 14 heads, 2 of keys, a gated unit of 4864, an embedding of 151936 words that is also the last
product; weights are random, and laid out when they are loaded. Keys and values lie in a paged pool of bf16, which each
step is given and gives back. With weights in bf16 products are of bf16, with q8_0 of f32; where a tolerance is declared
for those, of bytes.

What is printed: the time; the sum of the contractions' rooflines, each the larger of its bytes over the rate at which
memory is read and its operations over the peak of its numbers, both measured in the same rounds; and, of `tenon
profile`, how much of the time is outside of contractions and which instructions take most. Before the clock starts, a
step behind a prefill must say what the longer prefill does. At the end, how long compiling takes, beside jax.
"""

import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LAYERS, HIDDEN, HEADS, KV, HEAD, FFN, WORDS = 24, 896, 14, 2, 64, 4864, 151936
CACHE, PAGES = 256, 320
# The rows: what weights are in, what products are of as the text says it, of what numbers the peak is, and what is
# tolerated.
KINDS = {
    "bf16": ("bf16", "bf16", "bf16", None),
    "q8_0": ("q8_0", "f32", "f32", None),
    "bytes": ("q8_0", "f32", "int8", 0.02),
}

TEXT = """
record Layer {
    norm1: f32[896] from "layers.{i}.norm1"
    q: W[896, 896] from "layers.{i}.q"
    qb: f32[896] from "layers.{i}.qb"
    k: W[128, 896] from "layers.{i}.k"
    kb: f32[128] from "layers.{i}.kb"
    v: W[128, 896] from "layers.{i}.v"
    vb: f32[128] from "layers.{i}.vb"
    o: W[896, 896] from "layers.{i}.o"
    norm2: f32[896] from "layers.{i}.norm2"
    gate: W[4864, 896] from "layers.{i}.gate"
    up: W[4864, 896] from "layers.{i}.up"
    down: W[896, 4864] from "layers.{i}.down"
}
record Model {
    words: W[151936, 896] from "words"
    layers: [Layer; 24]
    norm: f32[896] from "norm"
}
prim looked_up<E: float | encoding, n, k, t>(words: E[n, k], tokens: i64[t]) -> y: f32[t, k] {
    for i in t, j in k { y[i, j] = f32(words[tokens[i], j]) }
}
fn product<t, k, n>(x: A[t, k], w: W[n, k]) -> A[t, n] { x @ w.T }
record Where<t, s, p> {
    sequence: i32[t]
    position: i32[t]
    table: i32[s, p]
}
record Pool<pages, page> {
    k: bf16[24, pages, page, 2, 64]
    v: bf16[24, pages, page, 2, 64]
}
fn layer<t>(
    x: f32[t, 896],
    w: Layer,
    i: i64,
    frequency: f32[32],
    at: Where,
    own pool: Pool,
) -> (f32[t, 896], Pool)
where at.t == t
{
    let h = A(rms_norm(x, w.norm1, 0.000001))
    let q = rope(reshape[t, 14, 64](f32(product(h, w.q)) + w.qb), at.position, frequency)
    let k = rope(reshape[t, 2, 64](f32(product(h, w.k)) + w.kb), at.position, frequency)
    let v = reshape[t, 2, 64](f32(product(h, w.v)) + w.vb)
    let k = append(pool.k, i, at.table, at.sequence, at.position, k)
    let v = append(pool.v, i, at.table, at.sequence, at.position, v)
    let a = A(reshape[t, 896](attention_paged(q, k, v, i, at.table, at.sequence, at.position)))
    let x = x + f32(product(a, w.o))
    let h = A(rms_norm(x, w.norm2, 0.000001))
    let g = A(silu(f32(product(h, w.gate))) * f32(product(h, w.up)))
    (x + f32(product(g, w.down)), Pool(k=k, v=v))
}
fn step<t>(tokens: i64[t], at: Where, w: Model, own pool: Pool) -> (f32[151936], Pool)
where t >= 1, at.t == t
{
    let frequency = rope_frequencies[32](1000000.0)
    var x = looked_up(w.words, tokens)
    var kv = pool
    for i in 24 {
        let (y, next) = layer(x, w.layers[i], i, frequency, at, kv)
        x = y
        kv = next
    }
    let last = A(rms_norm(x[t - 1..t], w.norm, 0.000001))
    (f32(product(last, w.words))[0], kv)
}
"""


def program(row):
    weights, products, _, tolerated = KINDS[row]
    text = re.sub(r"\bW(?=\[)", weights, TEXT)
    if tolerated:
        text = re.sub(r"^(?=fn )", f"#[tolerance({tolerated})]\n", text, flags=re.M)
    return re.sub(r"\bA(?=[\[(])", products, text)


def matrices():
    """The products of a layer, as (outputs, inputs) by name."""
    return {"q": (HIDDEN, HIDDEN), "k": (KV * HEAD, HIDDEN), "v": (KV * HEAD, HIDDEN), "o": (HIDDEN, HIDDEN),
            "gate": (FFN, HIDDEN), "up": (FFN, HIDDEN), "down": (HIDDEN, FFN)}


def model(row):
    """Random parameters by name, one at a time."""
    weights = KINDS[row][0]
    from harness import BF16

    rng = np.random.default_rng(1)
    pool = rng.standard_normal(1 << 22).astype(np.float32)

    def matrix(name, shape):
        many = (LAYERS, *shape) if name.startswith("layers.") else shape
        size = 1 / np.sqrt(shape[1]) if name.startswith("layers.") else 0.02
        if weights == "bf16":
            yield f"w.{name}", np.resize((pool * size).astype(BF16), many)
        else:
            blocks = (*many[:-1], many[-1] // 32)
            yield f"w.{name}.scale", np.full(blocks, size / 40, np.float16)
            yield f"w.{name}.q", np.resize((pool * 40).clip(-127, 127).astype(np.int8), (*blocks, 32))

    yield from matrix("words", (WORDS, HIDDEN))
    for name, shape in matrices().items():
        yield from matrix(f"layers.{name}", shape)
    for name, n, around in [("norm1", HIDDEN, 1), ("norm2", HIDDEN, 1), ("qb", HIDDEN, 0), ("kb", 128, 0), ("vb", 128, 0)]:
        yield f"w.layers.{name}", np.resize(pool[: n * LAYERS] * 0.1 + around, (LAYERS, n)).astype(np.float32)
    yield "w.norm", (pool[:HIDDEN] * 0.1 + 1).astype(np.float32)


class Decoder:
    """The program with its weights bound. Only one set of arguments is at work at a time."""

    def __init__(self, weights):
        from harness import BF16, Tenon

        self.tenon = Tenon(program(weights), "step")
        for name, array in model(weights):
            self.tenon.bind(name, array)
        empty = np.zeros((LAYERS, 1, PAGES, KV, HEAD), BF16)
        self.pool = [Tenon.tensor(empty), Tenon.tensor(empty)]

    def arguments(self, tokens, first):
        from harness import Tenon

        t = len(tokens)
        rows = [np.asarray(tokens, np.int64), np.zeros(t, np.int32), np.arange(first, first + t, dtype=np.int32),
                np.zeros((1, 1), np.int32)]
        return [Tenon.tensor(a) for a in rows]

    def call(self, rows, read=False):
        """A step: the pool goes in and comes out. The logits, if asked for."""
        from harness import Tenon

        args, given = (ctypes.c_void_p * 6)(*rows, *self.pool), (ctypes.c_ubyte * 6)(0, 0, 0, 0, 1, 1)
        out, count = (ctypes.c_void_p * 3)(), ctypes.c_size_t()
        Tenon.check(Tenon.lib.tenon_call_giving(self.tenon.function, None, args, given, ctypes.c_size_t(6), out,
                                                ctypes.c_size_t(3), ctypes.byref(count)))
        logits, *self.pool = [ctypes.c_void_p(p) for p in out]
        array = Tenon.array(logits) if read else None
        Tenon.lib.tenon_tensor_free(logits)
        return array


def roofline(weights, t, rates):
    """The least seconds of each contraction, added up; and how many bytes and operations they are."""
    kind = KINDS[weights][2]
    element = 2.0 if weights == "bf16" else 34 / 32
    peak, read = rates[f"peak {kind}"], rates["read"]
    parts = [(LAYERS, o * i * element, 2 * t * o * i) for o, i in matrices().values()]
    parts.append((1, WORDS * HIDDEN * element, 2 * WORDS * HIDDEN))
    seen = CACHE + 1 if t == 1 else (t + 1) / 2
    held = CACHE + 1 if t == 1 else t
    parts.append((LAYERS, 2 * held * KV * HEAD * 2, 4 * t * seen * HEADS * HEAD))
    seconds = sum(n * max(b / read, f / peak) for n, b, f in parts)
    return seconds, sum(n * b for n, b, _ in parts), sum(n * f for n, _, f in parts)


def is_contraction(instruction):
    name = instruction.get("calls_what") or ""
    return "matmul" in name or "attention" in name


def profile(weights, t, first, threads):
    """Where the time goes: the part outside of contractions, and what takes most of it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "decoder.tn"
        file.write_text(program(weights))
        position = Path(folder) / "position.npy"
        np.save(position, np.arange(first, first + t, dtype=np.int32))
        pool = f"zeros[{LAYERS},1,{PAGES},{KV},{HEAD}]:bf16"
        given = {"w": "random@1", "tokens": f"zeros[{t}]:i64", "at.sequence": f"zeros[{t}]:i32", "at.position": position,
                 "at.table": "zeros[1,1]:i32", "pool.k": pool, "pool.v": pool}
        inputs = [part for name, value in given.items() for part in ("-i", f"{name}={value}")]
        tenon = Path(os.environ["TENON_TARGET"]) / "release" / "tenon"
        runs = ["--runs", "10", "--threads", str(threads), "--json"]
        found = json.loads(subprocess.check_output([tenon, "profile", file, "-e", "step", *inputs, *runs]))
    steps = found["instructions"]
    inside = sum(i["total_us"] for i in steps if is_contraction(i))
    whole = sum(i["total_us"] for i in steps) + found["outside_us"]
    most = [(i.get("calls_what") or i["instruction"], i["total_us"] / whole) for i in steps if not is_contraction(i)]
    return 1 - inside / whole, sorted(most, key=lambda m: -m[1])[:4], found["outside_us"] / whole


def measure(weights, limits):
    from harness import Tenon, interleaved, middle

    made = Decoder(weights)
    tokens = np.random.default_rng(2).integers(0, WORDS, CACHE)
    behind, token = made.arguments(tokens[:-1], 0), made.arguments(tokens[-1:], CACHE - 1)
    whole, step = made.arguments(tokens, 0), made.arguments(tokens[:1], CACHE)
    made.call(behind)
    got, want = made.call(token, read=True), made.call(whole, read=True)
    off = float(np.abs(got - want).max() / np.abs(want).max())
    calls = {"decode": lambda: made.call(step), "prefill": lambda: made.call(whole)}
    kind = KINDS[weights][2]
    probes = {"read": lambda: limits.memory("read"), f"peak {kind}": lambda: limits.peak(kind)}
    times = interleaved(calls, rounds=9, seconds=0.02, probes=probes, longest=60.0)
    for name, t, first in [("decode", 1, CACHE), ("prefill", CACHE, 0)]:
        rounds = [{k: v[i] for k, v in times.items()} for i in range(len(times[name]))]
        ratio = middle([r[name] / roofline(weights, t, r)[0] for r in rounds])
        rates = {k: statistics.median(v) for k, v in times.items()}
        least, size, work = roofline(weights, t, rates)
        outside, most, ends = profile(weights, t, first, limits.threads)
        print(f"{weights:5} {name:8} {statistics.median(times[name]) * 1e3:9.2f} ms   rooflines {least * 1e3:8.2f} ms "
              f"({size / 1e6:.0f} MB, {work / 1e9:.2f} GFLOP)   {ratio[0]:.2f} of them ({ratio[1]:.2f}-{ratio[2]:.2f})   "
              f"outside of contractions {100 * outside:.1f}%", flush=True)
        print("    " + ", ".join(f"{what} {100 * share:.1f}%" for what, share in most)
              + f"; outside of instructions {100 * ends:.1f}%", flush=True)
    if off > 0.05:
        sys.exit(f"{weights}: a step behind a prefill is {off:.3f} off the longer prefill")


COLD = """
import sys, time
from harness import Tenon
Tenon("fn main(x: f32[3]) -> f32[3] { x + 1.0 }")
begun = time.perf_counter()
Tenon(sys.argv[1], "step")
print(time.perf_counter() - begun)
"""


def cold():
    """Seconds from text to callable with an empty cache on disk, for all lengths; beside it jax, for a step alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        made = [sys.executable, "-c", COLD, program("bf16")]
        ours = float(subprocess.check_output(made, env={**os.environ, "TENON_CACHE": folder}))
    try:
        theirs = json.loads(subprocess.check_output([sys.executable, "-m", "decoder_jax"]))
    except subprocess.CalledProcessError:
        theirs = {}
    print(f"compiled cold: {ours:.2f} s; " + ", ".join(f"jax, {k}: {v:.2f} s" for k, v in theirs.items()), flush=True)


def child():
    from kernels.native import Limits

    limits = Limits(int(os.environ["THREADS"]))
    print(f"\n{limits.threads} thread(s); now: read {limits.memory('read') / 1e9:.1f} GB/s, "
          + ", ".join(f"{k} {limits.peak(k) / 1e9:.0f} GFLOP/s" for k in ["f32", "bf16", "int8"]), flush=True)
    for weights in os.environ.get("WEIGHTS", ",".join(KINDS)).split(","):
        measure(weights, limits)
    cold()


def main():
    if os.environ.get("DECODER_CHILD"):
        return child()
    subprocess.check_call(["cargo", "build", "--release", "-q", "-p", "cli"], cwd=Path(__file__).resolve().parent.parent)
    for threads in os.environ.get("THREADS", "1,2").split(","):
        # What is freed stays with the process, as in `kernels`.
        env = {**os.environ, "THREADS": threads, "TENON_THREADS": threads, "DECODER_CHILD": "1", "CLOCK": "wall",
               "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
        subprocess.check_call([sys.executable, "-m", "decoder"], env=env)


if __name__ == "__main__":
    main()
