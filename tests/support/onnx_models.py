"""ONNX models for tests, and onnxruntime to run them: the independent opinion on what an op computes."""

from math import ceil, floor, isfinite, prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_forms import emit_form

from pipeall.errors import ModelError
from pipeall.graph.ir import Graph, Node
from pipeall.graph.onnx.read.read import load
from pipeall.graph.pointwise import BINARY, UNARY

OPSET = 21
FLOAT = TensorProto.FLOAT
X = "float[1,6,8,9] x"  # the usual input, in ONNX text form


def model(nodes, inputs, outputs, constants=(), opset=OPSET, types=None) -> onnx.ModelProto:
    """A model of ``nodes``; ``inputs`` maps names to shapes, ``constants`` names to arrays, ``outputs`` lists names.

    ``types`` maps names of inputs and outputs to NumPy types; float32 where it has none.
    """
    kinds = {name: helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for name, dtype in (types or {}).items()}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()],
    )
    # the ir_version that opset 21 came with
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def parsed(body: str, inputs: str, outputs: str, constants, opset: int) -> onnx.ModelProto:
    """A model from nodes in ONNX text form; ``inputs`` e.g. "float[1,3,8,8] x", ``outputs`` "y", or "y, z"."""
    results = ", ".join(f"float {name.strip()}" for name in outputs.split(","))
    graph = onnx.parser.parse_graph(f"test ({inputs}) => ({results}) {{ {body} }}")
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name, from onnxruntime on the CPU, float32, one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # as written: its fusions are not what is compared (1.31 even moves zeros into a MaxPool's padding)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def of_graph(graph: Graph) -> onnx.ModelProto:
    """The ONNX model of a graph of canonical nodes, at opset 21."""
    constants = dict(graph.constants)
    nodes = []
    for node in graph.nodes:
        nodes += _onnx_nodes(node, graph, constants)
    types = {tensor.name: tensor.dtype for tensor in (*graph.inputs, *graph.outputs)}
    shapes = {tensor.name: tensor.shape for tensor in graph.inputs}
    return model(nodes, shapes, [tensor.name for tensor in graph.outputs], constants, types=types)


def _onnx_nodes(node: Node, graph: Graph, constants: dict) -> list[onnx.NodeProto]:
    a = node.attrs
    nodes: list[onnx.NodeProto] = []

    def constant(value, dtype) -> str:
        name = f"{node.output}/k{len(constants)}"
        constants[name] = np.array(value, dtype)
        return name

    def emit(op: str, inputs, final: bool = True, outputs=(True,), **attrs) -> str:
        """``outputs`` marks the one that is read, where an operator has several."""
        output = node.output if final else f"{node.output}/{len(nodes)}"
        names = [output if read else f"{output}/unread{i}" for i, read in enumerate(outputs)]
        nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return output

    clamped = a.get("lo", -np.inf) > -np.inf or a.get("hi", np.inf) < np.inf
    plain = not clamped
    window = {"strides": a.get("strides"), "pads": a.get("pads")}
    match node.op:
        case "conv":
            x, weight, bias, *residual = node.inputs
            conv = dict(window, dilations=a["dilations"], group=a["groups"])
            last = emit("Conv", (x, weight, bias), plain and not residual, **conv)
            if residual:
                last = emit("Add", (last, *residual), plain)
        case "deconv":
            conv = dict(window, dilations=a["dilations"], group=a["groups"], output_padding=a["output_padding"])
            last = emit("ConvTranspose", node.inputs, plain, **conv)
        case "fc":
            shape = graph.tensors[node.inputs[0]].shape
            columns = (prod(shape[: a["axis"]]), prod(shape[a["axis"] :]))
            flat = emit("Reshape", (node.inputs[0], constant(columns, np.int64)), False)
            product = emit("Gemm", (flat, *node.inputs[1:]), False, transB=1)
            last = emit("Reshape", (product, constant(graph.tensors[node.output].shape, np.int64)), plain)
        case "matmul":
            product = emit("MatMul", node.inputs, False)
            emit("Mul", (product, constant(a["alpha"], np.float32)))
        case "maxpool":
            emit(
                "MaxPool",
                node.inputs,
                kernel_shape=a["kernel"],
                ceil_mode=a["ceil"],
                dilations=a["dilations"],
                **window,
            )
        case "avgpool":
            count = a["count_include_pad"]
            emit(
                "AveragePool",
                node.inputs,
                kernel_shape=a["kernel"],
                ceil_mode=a["ceil"],
                count_include_pad=count,
                **window,
            )
        case "lrn" if a["size"] % 2:
            emit("LRN", node.inputs, **a)
        case "lrn":  # onnxruntime refuses even sizes: the formula of the standard, the window as a banded 1x1 Conv
            c = np.arange(graph.tensors[node.output].shape[1])
            ahead = c[None] - c[:, None]  # of channel j seen from channel i
            band = (ahead >= -((a["size"] - 1) // 2)) & (ahead <= a["size"] // 2)
            squares = emit("Mul", (*node.inputs, *node.inputs), False)
            scaled = constant(band[..., None, None] * a["alpha"] / a["size"], np.float32)
            total = emit("Conv", (squares, scaled, constant(np.full(len(c), a["bias"]), np.float32)), False)
            power = emit("Pow", (total, constant(a["beta"], np.float32)), False)
            emit("Div", (*node.inputs, power))
        case "softmax" | "logsoftmax":
            emit("Softmax" if node.op == "softmax" else "LogSoftmax", node.inputs, axis=a["axis"])
        case "attention":
            q, k, v, *mask = node.inputs
            scores_shape = (*graph.tensors[q].shape[:-1], graph.tensors[k].shape[-2])
            axes = tuple(range(len(scores_shape)))
            last = emit("Transpose", (k,), False, perm=(*axes[:-2], axes[-1], axes[-2]))
            last = emit("MatMul", (q, last), False)
            last = emit("Mul", (last, constant(a["scale"], np.float32)), False)
            if mask:
                last = emit("Add", (last, *mask), False)
            if a["causal"]:
                later = np.where(np.tri(*scores_shape[-2:], dtype=bool), 0, -np.inf)
                last = emit("Add", (last, constant(later, np.float32)), False)
            emit("MatMul", (emit("Softmax", (last,), False, axis=-1), v))
        case "reduce":
            name = {"sumsquare": "SumSquare", "logsum": "LogSum", "logsumexp": "LogSumExp"}.get(a["how"])
            axes = constant(a["axes"], np.int64)
            emit(f"Reduce{name or a['how'].title()}", (*node.inputs, axes), keepdims=a["keepdims"])
        case "arg":
            op = f"Arg{a['how'].title()}"
            emit(op, node.inputs, axis=a["axis"], keepdims=a["keepdims"], select_last_index=a["last"])
        case "cumsum":
            axis = constant(a["axis"], np.int64)
            emit("CumSum", (*node.inputs, axis), exclusive=a["exclusive"], reverse=a["reverse"])
        case "layernorm":
            mean = emit("ReduceMean", (node.inputs[0], constant(a["axes"], np.int64)), False)
            centred = emit("Sub", (node.inputs[0], mean), False) if a["center"] else node.inputs[0]
            squares = emit("ReduceMean", (emit("Mul", (centred, centred), False), constant(a["axes"], np.int64)), False)
            spread = emit("Sqrt", (emit("Add", (squares, constant(a["epsilon"], np.float32)), False),), False)
            emit("Div", (centred, spread))
        case op if op in BINARY:
            more = {"fmod": {"fmod": 1}, "shiftleft": {"direction": "LEFT"}, "shiftright": {"direction": "RIGHT"}}
            name = BINARY[op].onnx or ("Mod" if op == "fmod" else "BitShift")
            last = emit(name, node.inputs[::-1] if a.get("swapped") else node.inputs, plain, **more.get(op, {}))
        case "clip":
            last = node.inputs[0]
        case "fakequant":  # uint8 where its levels begin at 0
            kind = np.uint8 if a["low"] == 0 else np.int8
            scale, zero = constant(a["scale"], np.float32), constant(np.iinfo(kind).min - a["low"], kind)
            emit("DequantizeLinear", (emit("QuantizeLinear", (*node.inputs, scale, zero), False), scale, zero))
        case "quantize" | "dequantize":
            kind = a["to"] if node.op == "quantize" else graph.tensors[node.inputs[0]].dtype
            given = constant(a["scale"], np.float32), constant(a["zero"], np.dtype(kind))
            emit("QuantizeLinear" if node.op == "quantize" else "DequantizeLinear", (*node.inputs, *given))
        case "swish":
            scaled = emit("Mul", (*node.inputs, constant(a["alpha"], np.float32)), False)
            emit("Mul", (*node.inputs, emit("Sigmoid", (scaled,), False)))
        case "gelu_tanh":
            emit("Gelu", node.inputs, approximate="tanh")
        case "isinf":
            emit("IsInf", node.inputs, detect_negative=int(a["negative"]), detect_positive=int(a["positive"]))
        case op if op in UNARY:
            emit(UNARY[op].onnx, node.inputs, **a)
        case "cast":
            emit("Cast", node.inputs, to=helper.np_dtype_to_tensor_dtype(np.dtype(a["to"])))
        case "where":
            emit("Where", node.inputs)
        case "concat":
            emit("Concat", node.inputs, axis=a["axis"])
        case "reshape":
            emit("Reshape", (*node.inputs, constant(a["shape"], np.int64)))
        case "transpose":
            emit("Transpose", node.inputs, perm=a["perm"])
        case "slice":
            limits = [constant([a[name]], np.int64) for name in ("start", "stop", "axis", "step")]
            emit("Slice", (*node.inputs, *limits))
        case "pad":
            pads = constant(a["pads_begin"] + a["pads_end"], np.int64)
            emit("Pad", (*node.inputs, pads, constant(a["value"], np.float32)), mode=a["mode"])
        case "expand":
            emit("Expand", (*node.inputs, constant(a["shape"], np.int64)))
        case "shuffle":
            shape = graph.tensors[node.output].shape
            split = (1, a["groups"], shape[1] // a["groups"], *shape[2:])
            parts = emit("Reshape", (*node.inputs, constant(split, np.int64)), False)
            mixed = emit("Transpose", (parts,), False, perm=(0, 2, 1, 3, 4))
            emit("Reshape", (mixed, constant(shape, np.int64)))
        case _ if not emit_form(node, constant, emit):
            raise AssertionError(f"no ONNX form of {node.op}")
    if clamped:
        dtype = graph.tensors[node.output].dtype
        exact = dtype == "float32"
        limits = [
            constant(a[side] if exact else rounded(a[side]), dtype) if isfinite(a[side]) else ""
            for side, rounded in (("lo", ceil), ("hi", floor))
        ]
        emit("Clip", (last, *limits))
    return nodes


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    """Weights that keep the deviation of what they multiply."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def norm(prefix: str, channels: int) -> dict[str, np.ndarray]:
    """The four constants of a BatchNormalization."""
    rng = np.random.default_rng(channels)
    parts = {name: rng.standard_normal(channels).astype(np.float32) for name in ("scale", "bias", "mean")}
    parts["var"] = rng.uniform(0.5, 2, channels).astype(np.float32)
    return {f"{prefix}_{name}": array for name, array in parts.items()}


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refusal(path, **args) -> str:
    """The one line with which a model is refused; it names the file."""
    with pytest.raises(ModelError) as error:
        load(path, **args)
    message = str(error.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))
