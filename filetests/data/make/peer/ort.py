"""One ONNX operator, run by onnxruntime."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

TYPES = {
    np.float64: TensorProto.DOUBLE,
    np.float32: TensorProto.FLOAT,
    np.float16: TensorProto.FLOAT16,
    ml_dtypes.bfloat16: TensorProto.BFLOAT16,
    np.int64: TensorProto.INT64,
    np.int32: TensorProto.INT32,
    np.int8: TensorProto.INT8,
    np.uint8: TensorProto.UINT8,
    np.bool_: TensorProto.BOOL,
}


def _run(op, inputs, outputs, opset, domain, attributes):
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    outs = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, outs, domain=domain, **attributes)
    given = {n: a for n, a in zip(names, inputs) if n}
    ins = [helper.make_tensor_value_info(n, TYPES[a.dtype.type], a.shape) for n, a in given.items()]
    graph = helper.make_graph([node], "one", ins, [onnx.ValueInfoProto(name=o) for o in outs])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def ort(op, *inputs, outputs=1, opset=23, domain="", **attributes):
    """The outputs of an operator; doubles become floats where onnxruntime has no kernel for them."""
    inputs = [None if a is None else np.ascontiguousarray(a).reshape(np.shape(a)) for a in inputs]
    try:
        found = _run(op, inputs, outputs, opset, domain, attributes)
    except Exception as e:
        if not any(a is not None and a.dtype == np.float64 for a in inputs):
            raise e
        narrow = [a.astype(np.float32) if a is not None and a.dtype == np.float64 else a for a in inputs]
        found = _run(op, narrow, outputs, opset, domain, attributes)
    return found[0] if outputs == 1 else found
