"""The peers as competitors: `run(calls)` gives the seconds that so many calls take, `result()` what the first set of
operands gives. Libraries with an interface in C are called from C; the way from Python is in the times of the others.
What is not installed raises ImportError or OSError when it is made, and is then left out."""

import ctypes
import functools
import os
import subprocess
from pathlib import Path

import numpy as np

from harness import timed

from .native import BUILT, clocked, drive

THREADS = int(os.environ.get("THREADS", "1"))
pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
i64 = ctypes.c_int64


class Called:
    """A competitor made of functions of Python, one a set of operands, and one that reads the first's result."""

    def __init__(self, calls, read):
        self.calls, self.read, self.turn = calls, read, 0
        self.run = timed(self.step)

    def step(self):
        self.calls[self.turn]()
        self.turn = (self.turn + 1) % len(self.calls)

    def result(self):
        self.calls[0]()
        return self.read()


# Products of matrices in f32, through C.


class Product:
    """A library's sgemm: `a` by each of some `bs` in turn, [k, n] or, transposed, [n, k]."""

    def __init__(self, driver, function, a, bs, transposed, *more):
        (self.m, self.k), self.n = a.shape, bs[0].shape[0 if transposed else 1]
        self.driver, self.function, self.a, self.bs, self.more = driver, function, a, bs, more
        self.transposed, self.turn = transposed, ctypes.c_size_t(0)
        self.out = np.zeros((self.m, self.n), np.float32)
        self.pointers = (ctypes.c_void_p * len(bs))(*(b.ctypes.data for b in bs))

    def run(self, calls):
        return self.driver(self.function, int(self.transposed), i64(self.m), i64(self.k), i64(self.n), pointer(self.a),
                           self.pointers, pointer(self.out), *self.more, ctypes.c_size_t(len(self.bs)),
                           ctypes.byref(self.turn), i64(calls))

    def result(self):
        self.turn.value = 0
        self.run(1)
        return self.out.copy()


@functools.cache
def openblas_library():
    import scipy_openblas64

    lib = ctypes.CDLL(os.path.join(scipy_openblas64.get_lib_dir(), "libscipy_openblas64_.so"))
    lib.scipy_openblas_get_corename64_.restype = ctypes.c_char_p
    return lib


def openblas_core():
    return openblas_library().scipy_openblas_get_corename64_().decode()


def openblas(a, bs, transposed=False):
    return Product(drive().drive_cblas, openblas_library().scipy_cblas_sgemm64_, a, bs, transposed)


def onednn(a, bs, transposed=False):
    return Product(drive().drive_dnnl, ctypes.CDLL("libdnnl.so.2").dnnl_sgemm, a, bs, transposed)


@functools.cache
def gemm_library():
    """The crate `gemm` behind one C function, built by cargo."""
    folder = Path(__file__).resolve().parent / "gemm"
    command = ["cargo", "build", "--release", "-q", "--manifest-path", str(folder / "Cargo.toml"), "--target-dir",
               str(BUILT / "gemm")]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as why:
        raise OSError(why.stderr.strip().splitlines()[-1]) from why
    return ctypes.CDLL(str(BUILT / "gemm" / "release" / "libgemm_peer.so"))


def gemm_crate(a, bs, transposed=False):
    return Product(drive().drive_rust, gemm_library().gemm_peer, a, bs, transposed, ctypes.c_int(THREADS))


# Graphs of ONNX. Constants are packed when a session is made, so each set of them has a session.


def graph(nodes, inputs, constants=()):
    from onnx import helper, numpy_helper

    value = lambda name, a: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
    out = helper.make_empty_tensor_value_info("y")
    made = helper.make_graph(nodes, "g", [value(n, a) for n, a in inputs.items()], [out],
                             [numpy_helper.from_array(v, n) for n, v in constants])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def node(operator, *inputs, to="y", **attributes):
    from onnx import helper

    return helper.make_node(operator, list(inputs), [to], **attributes)


def onnxruntime(model, inputs, want, constants=((),)):
    """`model(constants)` for each set of constants, on the inputs, or on a list of them that take turns in one session;
    results go to a buffer that stays."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    calls, kept, session = [], [], None
    several = isinstance(inputs, list)
    for inputs, each in [(i, ()) for i in inputs] if several else [(inputs, each) for each in constants]:
        if session is None or not several:
            text = model(each).SerializeToString()
            session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        values = [ort.OrtValue.ortvalue_from_numpy(a) for a in inputs.values()]
        out = ort.OrtValue.ortvalue_from_numpy(np.zeros(want.shape, want.dtype if want.dtype.kind == "i" else np.float32))
        for name, v in zip(inputs, values):
            binding.bind_ortvalue_input(name, v)
        binding.bind_ortvalue_output("y", out)
        kept.append((session, values, out))
        calls.append(functools.partial(session.run_with_iobinding, binding))
    return Called(calls, lambda: kept[0][2].numpy().copy())


def openvino(model, inputs, constants=((),), precision="f32"):
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": 1}
    calls, kept = [], []
    for each in constants:
        read = core.read_model(model(each).SerializeToString())
        request = core.compile_model(read, "CPU", config).create_infer_request()
        tensors = [ov.Tensor(a, shared_memory=True) for a in inputs.values()]
        for i, t in enumerate(tensors):
            request.set_input_tensor(i, t)
        kept.append((request, tensors))
        calls.append(request.infer)
    return Called(calls, lambda: kept[0][0].get_output_tensor(0).data.copy())


@functools.cache
def torch_module():
    import torch

    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    return torch


def torch_calls(make):
    """`make(torch)` gives functions, one a set of operands, each of which returns a tensor."""
    torch = torch_module()
    calls = make(torch)
    return Called(calls, lambda: calls[0]().float().numpy().copy())


def onednn_int8(a, b):
    """Products of bytes with and without sign, sums in i32."""
    (m, k), n = a.shape, b.shape[1]
    out, zero = np.zeros((m, n), np.int32), np.zeros(1, np.int32)
    f = ctypes.CDLL("libdnnl.so.2").dnnl_gemm_u8s8s32
    letter, f32 = lambda c: ctypes.c_char(c), ctypes.c_float
    args = (letter(b"N"), letter(b"N"), letter(b"F"), i64(m), i64(n), i64(k), f32(1), pointer(a), i64(k),
            ctypes.c_uint8(0), pointer(b), i64(n), ctypes.c_int8(0), f32(0), pointer(out), i64(n), pointer(zero))
    return Called([lambda: f(*args)], lambda: out.copy())


# Products by weights in blocks.


@functools.cache
def ggml_library():
    """ggml behind a few C functions, built by cmake from the sources in the folder that GGML names:
    `vendor/llama.cpp/ggml` of the source package of llama-cpp-python."""
    folder, sources = BUILT / "ggml", os.environ.get("GGML")
    if not (folder / "libggml_peer.so").exists():
        if not sources:
            raise OSError("GGML names no folder with its sources")
        here = Path(__file__).resolve().parent / "ggml"
        configure = ["cmake", "-S", str(here), "-B", str(folder), f"-DGGML={sources}", "-DCMAKE_BUILD_TYPE=Release"]
        try:
            subprocess.run(configure, check=True, capture_output=True, text=True)
            subprocess.run(["cmake", "--build", str(folder), "-j", "2"], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as why:
            raise OSError((why.stderr or why.stdout).strip().splitlines()[-1]) from why
    lib = clocked(ctypes.CDLL(str(folder / "libggml_peer.so")))
    lib.ggml_peer_new.restype, lib.ggml_peer_run.restype = ctypes.c_void_p, ctypes.c_double
    return lib


class Ggml:
    def __init__(self, q4, x, sets):
        self.lib, (m, k), n = ggml_library(), x.shape, sets[0][0].shape[0]
        # A block of ggml is its scale and its numbers, side by side.
        blocks = [np.concatenate([s.view(np.uint8).reshape(n, -1, 2), q.view(np.uint8)], 2).copy() for s, q in sets]
        pointers = (ctypes.c_void_p * len(blocks))(*(b.ctypes.data for b in blocks))
        self.shape = m, n
        self.peer = ctypes.c_void_p(self.lib.ggml_peer_new(int(q4), i64(m), i64(k), i64(n), pointer(x), pointers,
                                                           ctypes.c_size_t(len(blocks)), ctypes.c_int(THREADS)))

    def run(self, calls):
        return self.lib.ggml_peer_run(self.peer, i64(calls))

    def result(self):
        out = np.zeros(self.shape, np.float32)
        self.lib.ggml_peer_result(self.peer, pointer(out))
        return out

    def __del__(self):
        if getattr(self, "peer", None):
            self.lib.ggml_peer_free(self.peer)


def openvino_blocks(q4, x, sets):
    """Weights in blocks as OpenVINO compresses them, its activations quantized as it likes."""
    import openvino as ov
    from openvino import opset13 as op

    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
              "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32}
    calls, kept = [], []
    for scale, q in sets:
        n, blocks = scale.shape
        if q4:
            # Two neighbours a byte, where ours are 16 apart.
            numbers = np.concatenate([q & 15, q >> 4], 2)
            packed = np.ascontiguousarray(numbers[:, :, 0::2] | (numbers[:, :, 1::2] << 4))
            weights = op.constant(ov.Tensor(packed, [n, blocks, 32], ov.Type.u4))
            wide = op.subtract(op.convert(weights, "f16"), op.constant(np.float16([[[8]]])))
        else:
            wide = op.convert(op.constant(q), "f16")
        scaled = op.multiply(wide, op.constant(scale[:, :, None]))
        w = op.convert(op.reshape(scaled, op.constant(np.int64([n, blocks * 32])), False), "f32")
        inputs = op.parameter(list(x.shape), ov.Type.f32)
        model = ov.Model([op.matmul(inputs, w, False, True)], [inputs])
        request = core.compile_model(model, "CPU", config).create_infer_request()
        tensor = ov.Tensor(x, shared_memory=True)
        request.set_input_tensor(0, tensor)
        kept.append((request, tensor))
        calls.append(request.infer)
    return Called(calls, lambda: kept[0][0].get_output_tensor(0).data.copy())
