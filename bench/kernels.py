"""Kernels beside the peers' best, and beside what the machine can do: medians of interleaved rounds, paired ratios.

    scripts/bench kernels            one thread
    THREADS=2 scripts/bench kernels
    ROWS=gemm scripts/bench kernels  the rows whose name begins so

A row is a program of Tenon, compiled once, and the same by peers: OpenBLAS and oneDNN called through C, onnxruntime with
bound buffers, OpenVINO with its request's own tensors. What bounds a row, fused multiply-adds or bytes moved, is
measured beside it in the same rounds: a loop of products that stays in registers' reach (OpenBLAS at 1024, the best
that was seen), and a copy of 64 MB. Results are compared before the clock starts. A peer that is not installed is
left out, and said to be.
"""

import os

THREADS = os.environ.get("THREADS", "1")
for name in ["TENON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]:
    os.environ[name] = THREADS
# Without it OpenBLAS takes this CPU for one without AVX-512.
os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

import ctypes
import statistics
import sys

import numpy as np

from harness import Tenon, interleaved, ratio

RNG = np.random.default_rng(7)


def randn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# Peers: each takes the arguments of a row and gives something to call, or None.


def openblas(a, b):
    import scipy_openblas64

    lib = ctypes.CDLL(os.path.join(scipy_openblas64.get_lib_dir(), "libscipy_openblas64_.so"))
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    i64, f32 = ctypes.c_int64, ctypes.c_float
    p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    (m, k), n = a.shape, b.shape[1]
    args = (101, 111, 111, i64(m), i64(n), i64(k), f32(1), p(a), i64(k), p(b), i64(n), f32(0), p(out), i64(n))
    sgemm = lib.scipy_cblas_sgemm64_

    def call(read=False):
        sgemm(*args)
        return out.copy() if read else None

    return call


def onednn(a, b):
    lib = ctypes.CDLL("libdnnl.so.2")
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    i64, f32 = ctypes.c_int64, ctypes.c_float
    p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    (m, k), n = a.shape, b.shape[1]
    letter = ctypes.c_char(b"N")
    args = (letter, letter, i64(m), i64(n), i64(k), f32(1), p(a), i64(k), p(b), i64(n), f32(0), p(out), i64(n))

    def call(read=False):
        lib.dnnl_sgemm(*args)
        return out.copy() if read else None

    return call


def graph(nodes, inputs, constants=()):
    from onnx import TensorProto, helper, numpy_helper

    value = lambda name, a: helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, "g", [value(n, a) for n, a in inputs.items()], [out],
                             [numpy_helper.from_array(v, n) for n, v in constants])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def onnxruntime(model, inputs, shape):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = [ort.OrtValue.ortvalue_from_numpy(a) for a in inputs.values()]
    out = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
    for name, v in zip(inputs, values):
        binding.bind_ortvalue_input(name, v)
    binding.bind_ortvalue_output("y", out)

    def call(read=False):
        session.run_with_iobinding(binding)
        return out.numpy().copy() if read else None

    return call


def openvino(model, inputs):
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": int(THREADS), "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", config)
    request = compiled.create_infer_request()
    for i, a in enumerate(inputs.values()):
        request.set_input_tensor(i, ov.Tensor(a, shared_memory=True))

    def call(read=False):
        request.infer()
        return request.get_output_tensor(0).data.copy() if read else None

    return call


class Row:
    def __init__(self, name, text, args, peers, flops=0, bytes=0):
        self.name, self.text, self.args, self.peers, self.flops, self.bytes = name, text, args, peers, flops, bytes


PRODUCT = """
prim product<m, k, n>(a: f32[m, k], b: f32[k, n]) -> y: f32[m, n] {
    for i in m, j in n { y[i, j] = sum(q in k) a[i, q] * b[q, j] }
}
fn main<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { product(a, b) }
"""


def gemm(m, k, n):
    from onnx import helper

    a, b = randn(m, k), randn(k, n)
    model = lambda: graph([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b})
    peers = {
        "openblas": lambda: openblas(a, b),
        "onednn": lambda: onednn(a, b),
        "onnxruntime": lambda: onnxruntime(model(), {"a": a, "b": b}, (m, n)),
        "openvino": lambda: openvino(model(), {"a": a, "b": b}),
    }
    return Row(f"gemm {m} x {k} x {n}", PRODUCT, [a, b], peers, 2 * m * k * n, 4 * (m * k + k * n + m * n))


def rows_of(name, text, node, x, extra=(), passes=2):
    """An operator on one tensor of rows, with vectors besides."""
    inputs = {"x": x}
    model = lambda: graph([node], inputs, extra)
    peers = {
        "onnxruntime": lambda: onnxruntime(model(), inputs, x.shape),
        "openvino": lambda: openvino(model(), inputs),
    }
    return Row(name, text, [x, *(v for _, v in extra)], peers, 0, passes * x.nbytes)


def all_rows():
    from onnx import helper

    for n in [64, 128, 256, 512, 1024, 2048]:
        yield gemm(n, n, n)
    for m, k, n in [(127, 131, 137), (257, 521, 263), (1000, 333, 777), (31, 2048, 1021), (2048, 17, 2048)]:
        yield gemm(m, k, n)
    for m in [1, 2, 4, 8, 16, 32]:
        yield gemm(m, 4096, 4096)
    x = randn(4096, 4096)
    yield rows_of("softmax 4096", "fn main<n, m>(x: f32[n, m]) -> f32[n, m] { softmax(x) }",
                  helper.make_node("Softmax", ["x"], ["y"], axis=-1), x)
    g, b = randn(4096), randn(4096)
    yield rows_of("layer norm 4096",
                  "fn main<n, m>(x: f32[n, m], g: f32[m], b: f32[m]) -> f32[n, m] { layer_norm(x, g, b) }",
                  helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1, epsilon=1e-5), x,
                  [("g", g), ("b", b)])
    z = randn(1 << 26)
    yield rows_of("gelu 64M", "fn main<n>(x: f32[n]) -> f32[n] { gelu(x) }",
                  helper.make_node("Gelu", ["x"], ["y"]), z)


def main():
    only = os.environ.get("ROWS", "")
    n = 1024
    peak = openblas(randn(n, n), randn(n, n))
    source, sink = np.zeros(1 << 24, np.float32), np.zeros(1 << 24, np.float32)
    copy = lambda: np.copyto(sink, source)
    print(f"{THREADS} thread(s). Ratios: the peer's time over Tenon's, the median and 95% of rounds; above 1 Tenon is ahead.")
    for row in all_rows():
        if not row.name.startswith(only):
            continue
        made = {"tenon": Tenon(row.text, "main").bound(*row.args)}
        want, left = made["tenon"](read=True), []
        for name, peer in row.peers.items():
            try:
                made[name] = peer()
            except (ImportError, OSError) as why:
                left.append(f"{name}: {why}")
                continue
            got = made[name](read=True)
            off = np.abs(got - want).max() / max(1.0, np.abs(want).max())
            assert off < 1e-4, f"{row.name}: {name} differs by {off}"
        times = interleaved({**made, "(peak)": peak, "(copy)": copy}, rounds=15, seconds=0.02)
        middle = {k: statistics.median(t) for k, t in times.items()}
        ours = middle["tenon"]
        flops = 2 * n**3 / middle["(peak)"]
        moved = 2 * source.nbytes / middle["(copy)"]
        limit = max(row.flops / flops, row.bytes / moved)
        rate = f"{row.flops / ours / 1e9:.0f} GFLOP/s" if row.flops / flops > row.bytes / moved else f"{row.bytes / ours / 1e9:.1f} GB/s"
        print(f"{row.name:<24} {ours * 1e3:>9.3f} ms {rate:>14}  limit {100 * limit / ours:>4.0f}%", end="")
        for name in made:
            if name != "tenon":
                m, low, high = ratio(times, name)
                print(f"  {name} {m:.2f} ({low:.2f}-{high:.2f})", end="")
        print("".join(f"  [{l}]" for l in left))
        sys.stdout.flush()


main()
