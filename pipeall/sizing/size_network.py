"""A network as shapes: layers and the sizes of what they read and write, no weights.

Two sources give it: an ONNX file as it was exported (``onnx_shapes.read``: BatchNorm, activations and dropout are
layers of their own, and models that no device computes are welcome), or a ``Graph`` as it runs (``of_graph``: BatchNorm
folded). Layers bear the names of ONNX operators; what other modules know of an operator is a table over these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from types import MappingProxyType
from typing import Any

from ..graph.ir import Graph, Node
from ..graph.pointwise import BY_OPERATOR

Shape = tuple[int, ...]

FLOAT_BYTES = 4
ALIASES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity")  # another shape for the same memory
STATISTICS = {"BatchNormalization": (3, 4)}  # inputs that are measured in training, not learnt: mean and variance


@dataclass(frozen=True, slots=True)
class Saved:
    """What autograd saves for the backward step of one layer.

    tensors  names of activations; one that several layers save lies in memory once
    extra    bytes of each sample that are the layer's own
    fixed    bytes that are the layer's own, whatever the batch
    """

    tensors: tuple[str, ...] = ()
    extra: int = 0
    fixed: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator. ``inputs`` are in ONNX order, activations and weights alike; an absent optional one is empty.

    ``module`` is False where torch's exporter shows that a function was called, not a module (see ``onnx_shapes``).
    ``saved`` is what torch saves, where a torch module was traced; None: by the operator.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    module: bool = True
    saved: Saved | None = None


@dataclass(frozen=True, eq=False)
class Network:
    """Layers in the order of execution.

    shapes      name -> shape of every activation and weight
    inputs      names of what enters
    outputs     names of what leaves, the main output first
    parameters  names of the weights that are learnt, each once
    statistics  names of the running means and variances: stored with the weights, not learnt
    file_types  float types other than float32 that the file's weights, inputs or outputs have
    integers    names of the tensors that hold 8-bit integers
    notes       remarks on the figures, a sentence each
    float_bytes  of a number that is no 8-bit integer, in all that is counted in bytes
    """

    name: str
    layers: tuple[Layer, ...]
    shapes: Mapping[str, Shape]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    statistics: tuple[str, ...] = ()
    file_types: tuple[str, ...] = ()
    integers: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    float_bytes: int = FLOAT_BYTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", MappingProxyType(dict(self.shapes)))

    def elements(self, names: str | Iterable[str]) -> int:
        """How many elements one tensor has, or several together; an operand that is absent has none."""
        names = (names,) if isinstance(names, str) else names
        return sum(prod(self.shapes[name]) for name in names if name)

    def nbytes(self, names: str | Iterable[str]) -> int:
        """The bytes of one tensor, or of several together: float32 but for integers."""
        names = (names,) if isinstance(names, str) else names
        return sum(prod(self.shapes[name]) * (1 if name in self.integers else self.float_bytes) for name in names)

    def activations(self, layer: Layer) -> tuple[str, ...]:
        """Names of the computed inputs of a layer, without learnt ones."""
        return tuple(name for name in layer.inputs if name and name not in self.weights)

    def weights_of(self, layer: Layer) -> tuple[str, ...]:
        return tuple(name for name in layer.inputs if name in self.weights)

    @cached_property
    def weights(self) -> frozenset[str]:
        """Names of parameters and statistics."""
        return self.learnt | frozenset(self.statistics)

    @cached_property
    def learnt(self) -> frozenset[str]:
        """Names of the parameters."""
        return frozenset(self.parameters)


def of_graph(graph: Graph) -> Network:
    """A graph as a network. Fused residual additions and clamps are layers of their own; BatchNorm is folded."""
    shapes = {name: tensor.shape for name, tensor in graph.tensors.items()}
    shapes |= {name: array.shape for name, array in graph.constants.items()}
    layers = []
    for node in graph.nodes:
        for layer in layers_of(node, graph):
            shapes.setdefault(layer.outputs[0], shapes[node.output])
            layers.append(layer)
    inputs, outputs = (tuple(tensor.name for tensor in tensors) for tensors in (graph.inputs, graph.outputs))
    integers = {name for name, tensor in graph.tensors.items() if tensor.dtype in ("int8", "uint8")}
    integers |= {name for name, array in graph.constants.items() if array.dtype.itemsize == 1}
    integers |= {
        layer.outputs[0] for node in graph.nodes if node.output in integers for layer in layers_of(node, graph)
    }
    named = (graph.name, tuple(layers), shapes, inputs, outputs, tuple(graph.constants))
    return Network(*named, integers=frozenset(integers))


OPERATORS = {  # canonical op -> ONNX operator
    "conv": "Conv", "fc": "Gemm", "maxpool": "MaxPool", "avgpool": "AveragePool", "lrn": "LRN", "softmax": "Softmax",
    "layernorm": "LayerNormalization",
    **{op: operator for operator, op in BY_OPERATOR.items()}, "clip": "Clip", "concat": "Concat", "reshape": "Reshape",
    "gelu_tanh": "Gelu", "swish": "Swish", "fakequant": "QuantizeLinear", "quantize": "QuantizeLinear",
    "dequantize": "DequantizeLinear", "isinf": "IsInf", "fmod": "Mod",
    "shiftleft": "BitShift", "shiftright": "BitShift",
    "transpose": "Transpose", "slice": "Slice", "pad": "Pad", "shuffle": "Transpose", "cast": "Cast",
    "where": "Where", "deconv": "ConvTranspose", "expand": "Expand", "matmul": "MatMul", "attention": "Attention",
    "logsoftmax": "LogSoftmax", "cumsum": "CumSum", "gather": "Gather", "gather_elements": "GatherElements",
    "gather_nd": "GatherND", "scatter_elements": "ScatterElements", "scatter_nd": "ScatterND", "topk": "TopK",
    "resize": "Resize", "picture": "Resize", "grid_sample": "GridSample", "roi_align": "RoiAlign",
    "nms": "NonMaxSuppression", "maxpool_indices": "MaxPool", "max_unpool": "MaxUnpool", "col2im": "Col2Im",
    "lstm": "LSTM", "gru": "GRU", "rnn": "RNN",
}  # fmt: skip
REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "l1": "ReduceL1", "l2": "ReduceL2", "sumsquare": "ReduceSumSquare", "logsum": "ReduceLogSum",
    "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def layers_of(node: Node, graph: Graph) -> Iterator[Layer]:
    """A node as layers: itself, the addition of its residual and its clamp."""
    inputs, residual = node.inputs, ()
    if node.op == "conv":
        inputs, residual = inputs[:3], inputs[3:]
    attrs = {to: node.attrs[name] for name, to in _ATTRS.items() if name in node.attrs}
    if node.op == "fc":
        attrs["transB"] = 1
    chain: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [(_operator(node, graph), inputs, attrs)]
    if residual:
        chain.append(("Add", residual, {}))
    if node.op != "clip" and _bounds(node) != (-inf, inf):
        chain.append((_clamp(node), (), {}))
    before = ""
    for index, (operator, read, extra) in enumerate(chain):
        last = index == len(chain) - 1
        output = node.output if last else f"{node.output}/{operator.lower()}"
        name = node.name if index == 0 else f"{node.name}/{operator.lower()}"
        read = (before, *read) if index else read
        yield Layer(name, operator, read, (output,), extra)
        before = output


def _bounds(node: Node) -> tuple[float, float]:
    return node.attrs.get("lo", -inf), node.attrs.get("hi", inf)


def _clamp(node: Node) -> str:
    return "Relu" if _bounds(node) == (0, inf) else "Clip"


def _operator(node: Node, graph: Graph) -> str:
    """The ONNX operator of the node itself, without its residual and clamp."""
    if node.op == "avgpool" and node.attrs["kernel"] == graph.tensors[node.inputs[0]].shape[2:]:
        return "GlobalAveragePool"
    match node.op:
        case "clip":
            return _clamp(node)
        case "reduce":
            return REDUCTIONS[node.attrs["how"]]
        case "arg":
            return "ArgMax" if node.attrs["how"] == "max" else "ArgMin"
    return OPERATORS[node.op]


_ATTRS = {
    "kernel": "kernel_shape",
    "strides": "strides",
    "pads": "pads",
    "dilations": "dilations",
    "groups": "group",
    "size": "size",
}
