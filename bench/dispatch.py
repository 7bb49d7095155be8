"""What a kernel call costs: a chain of 1,000 products of 8 x 8 matrices, which nobody can fuse, on one thread.

Every competitor gets the same chain as a program of its own, compiled before the clock starts, and is called from
Python: onnxruntime with bound buffers, TVM's Relax VM with tensors of its own, jax with arrays on its device, Tenon
through its C interface. The results must agree. The time of an empty program of each, the way from Python and back,
is printed beside, and so is the time that the arithmetic alone takes in numpy's loop of products (it calls a library
for each, so it is no limit).
"""

import os

THREADS = "1"
for name in ["TENON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"]:
    os.environ[name] = THREADS
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import statistics

import numpy as np

from harness import Tenon, interleaved, ratio

STEPS = 1000


def tenon(steps, x, w):
    lines = [f"    let x{i + 1} = x{i} @ w" for i in range(steps)]
    body = "\n".join(["    let x0 = x", *lines, f"    x{steps}" if steps else "    x0"])
    text = f"fn chain<n>(x: f32[n, 8], w: f32[8, 8]) -> f32[n, 8] {{\n{body}\n}}\n"
    return Tenon(text, "chain").bound(x, w)


def onnxruntime(steps, x, w):
    import onnxruntime as ort
    from onnx import TensorProto, helper

    nodes = [helper.make_node("MatMul", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(steps)]
    nodes = nodes or [helper.make_node("Identity", ["x0"], ["y"])]
    last = f"x{steps}" if steps else "y"
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "chain", [value("x0", ["n", 8]), value("w", [8, 8])], [value(last, ["n", 8])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding, out = session.io_binding(), np.zeros_like(x)
    for name, array in [("x0", x), ("w", w)]:
        binding.bind_cpu_input(name, array)
    out = ort.OrtValue.ortvalue_from_numpy(out)
    binding.bind_ortvalue_output(last, out)

    def call(read=False):
        session.run_with_iobinding(binding)
        return out.numpy().copy() if read else None

    return call


def tvm(steps, x, w):
    import tvm
    from tvm import relax

    n = tvm.tirx.Var("n", "int64")
    bb = relax.BlockBuilder()
    a = relax.Var("x", relax.TensorType((n, 8), "float32"))
    b = relax.Var("w", relax.TensorType((8, 8), "float32"))
    with bb.function("main", [a, b]):
        with bb.dataflow():
            y = a
            for _ in range(steps):
                y = bb.emit(relax.op.matmul(y, b))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    vm = relax.VirtualMachine(relax.build(bb.get(), target="llvm"), tvm.cpu())
    args = [tvm.runtime.tensor(v) for v in (x, w)]
    main = vm["main"]

    def call(read=False):
        y = main(*args)
        return y.numpy() if read else None

    return call


def jax(steps, x, w):
    import jax

    def chain(y, w):
        for _ in range(steps):
            y = y @ w
        return y

    compiled = jax.jit(chain).lower(x, w).compile()
    args = [jax.device_put(v) for v in (x, w)]

    def call(read=False):
        y = compiled(*args)
        y.block_until_ready()
        return np.asarray(y) if read else None

    return call


def main():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 8)).astype(np.float32)
    # An orthogonal matrix: the chain neither grows nor fades.
    w = np.linalg.qr(rng.standard_normal((8, 8)))[0].astype(np.float32)
    want = x.astype(np.float64)
    for _ in range(STEPS):
        want = want @ w
    makers = {"tenon": tenon, "onnxruntime": onnxruntime, "tvm": tvm, "jax": jax}
    chain = {name: make(STEPS, x, w) for name, make in makers.items()}
    for name, call in chain.items():
        worst = np.abs(call(read=True) - want).max()
        assert worst < 1e-3, f"{name} is {worst} off"
    empty = {f"{name}, empty": make(0, x, w) for name, make in makers.items()}
    times = interleaved({**chain, **empty})
    print(f"{STEPS} products of 8 x 8, one thread      us a run    ns a kernel   empty, us   times Tenon's (95% bounds)")
    for name in chain:
        run, nothing = (statistics.median(times[k]) * 1e6 for k in (name, f"{name}, empty"))
        times_ours, low, high = ratio(times, name)
        print(f"{name:<38} {run:>9.1f} {run * 1e3 / STEPS:>13.1f} {nothing:>11.2f} {times_ours:>10.2f} ({low:.2f} to {high:.2f})")


main()
