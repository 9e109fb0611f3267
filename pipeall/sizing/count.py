"""Parameters, operations and bytes of layers, and of groups, stages and networks as their sums.

1 MAC = 2 FLOP. MACs are those of convolutions, fully connected layers and matrix products; what other layers compute
is counted apart, in element operations (``ELEMENT_OPS``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod

from ..errors import ModelError
from ..graph.pointwise import BY_OPERATOR
from .size_network import Layer, Network


@dataclass(frozen=True, slots=True)
class Cost:
    """What a layer, or several together, cost for a frame (paper 004).

    Attributes
    ----------
    parameters : int
        Learnt numbers.
    macs : int
        Multiply-accumulates of convolutions, fully connected layers and products, without the bias.
    element_ops : int
        What other layers compute, one for each element and step of their formula.
    weight_bytes : int
        Of parameters and statistics.
    read_bytes, written_bytes : int
        Of activations.
    """

    parameters: int = 0
    macs: int = 0
    element_ops: int = 0
    weight_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate."""
        return 2 * self.macs

    @property
    def intensity(self) -> float:
        """FLOP for each byte of weights and activations, each moved once: the x axis of a roofline."""
        moved = self.weight_bytes + self.read_bytes + self.written_bytes
        return (self.flops + self.element_ops) / moved if moved else 0.0


def cost_of(network: Network, layer: Layer) -> Cost:
    """The cost of one layer. Raises ModelError for an operator whose operations are not known."""
    weights = network.weights_of(layer)
    return Cost(
        parameters=network.elements(name for name in weights if name in network.learnt),
        macs=macs(network, layer),
        element_ops=element_ops(network, layer),
        weight_bytes=network.nbytes(weights),
        read_bytes=network.nbytes(network.activations(layer)),
        written_bytes=network.nbytes(layer.outputs),
    )


def total(costs: Iterable[Cost]) -> Cost:
    return sum(costs, Cost())


def network_cost(network: Network) -> Cost:
    """The cost of all layers; a weight that several layers share counts once."""
    layers = total(cost_of(network, layer) for layer in network.layers)
    return replace(
        layers,
        parameters=network.elements(network.parameters),
        weight_bytes=network.nbytes((*network.parameters, *network.statistics)),
    )


def macs(network: Network, layer: Layer) -> int:
    """Multiply-accumulates of a layer, without the bias."""
    rule = MACS.get(layer.op)
    return rule(network, layer) if rule else 0


def _conv(network: Network, layer: Layer) -> int:
    return network.elements(layer.outputs) * prod(network.shapes[layer.inputs[1]][1:])


def _conv_transpose(network: Network, layer: Layer) -> int:
    return network.elements(layer.inputs[0]) * prod(network.shapes[layer.inputs[1]][1:])


def _gemm(network: Network, layer: Layer) -> int:
    return network.elements(layer.outputs) * network.shapes[layer.inputs[1]][1 if layer.attrs.get("transB") else 0]


def _matmul(network: Network, layer: Layer) -> int:
    return network.elements(layer.outputs) * network.shapes[layer.inputs[0]][-1]


def _attention(network: Network, layer: Layer) -> int:
    """The scores of queries and keys, and the sums of values."""
    q, k, v = (network.shapes[name] for name in layer.inputs[:3])
    return prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _recurrent(network: Network, layer: Layer) -> int:
    """Input and state times their weights, for every step and sequence."""
    return prod(network.shapes[layer.inputs[0]][:2]) * network.elements(layer.inputs[1:3])


def _einsum(network: Network, layer: Layer) -> int:
    """For every combination of the equation's letters, one for each operand beyond the first."""
    terms, sizes = layer.attrs.get("equation", "").replace(" ", "").split("->")[0].split(","), {}
    for term, name in zip(terms, layer.inputs, strict=False):
        shape = network.shapes.get(name, ())
        before, dots, after = term.partition("...")
        middle = range(len(shape) - len(before) - len(after), 0, -1) if dots else ()  # counted from the right
        for letter, size in zip((*before, *middle, *after), shape, strict=False):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return prod(sizes.values()) * (len(terms) - 1)


MACS: dict[str, Callable[[Network, Layer], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Attention": _attention,
    "Einsum": _einsum,
    "DeformConv": _conv,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}


def element_ops(network: Network, layer: Layer) -> int:
    """What a layer computes besides MACs: one operation for each element and step of its formula."""
    if layer.op in MACS:
        return 0
    rule = ELEMENT_OPS.get(layer.op)
    if rule is None:
        raise ModelError(f"node {layer.name!r}: what operator {layer.op} computes is not known")
    return rule(network, layer)


def _each(times: int) -> Callable[[Network, Layer], int]:
    return lambda network, layer: times * network.elements(layer.outputs)


def _window(network: Network, layer: Layer) -> int:
    return network.elements(layer.outputs) * prod(layer.attrs["kernel_shape"])


def _reduction(network: Network, layer: Layer) -> int:
    return network.elements(layer.inputs[0])


def _lrn(network: Network, layer: Layer) -> int:
    """A square, the sum over the window, a scale, a power and a quotient for each element."""
    return network.elements(layer.outputs) * (layer.attrs["size"] + 4)


ELEMENT_OPS: dict[str, Callable[[Network, Layer], int]] = {
    **dict.fromkeys(BY_OPERATOR, _each(1)),
    **dict.fromkeys(
        "Relu Clip Sum Mean Where Resize Upsample Swish QuantizeLinear DequantizeLinear CumSum BitShift IsInf "
        "GridSample RoiAlign Col2Im RMSNormalization Hardmax CumProd Bernoulli RandomNormal RandomNormalLike "
        "RandomUniform RandomUniformLike".split(),
        _each(1),
    ),
    **dict.fromkeys(
        "Concat Reshape Flatten Squeeze Unsqueeze Transpose Slice Split Gather Expand Tile Pad Identity Dropout Cast "
        "DepthToSpace SpaceToDepth ConstantOfShape Constant Shape Range GatherElements GatherND ScatterElements "
        "ScatterND OneHot MaxUnpool ReverseSequence Trilu EyeLike CastLike CenterCropPad Compress Scatter Size "
        "TensorScatter".split(),
        _each(0),
    ),
    **dict.fromkeys("MaxPool AveragePool".split(), _window),
    **dict.fromkeys(
        "GlobalAveragePool GlobalMaxPool ReduceMean ReduceSum ReduceMax ReduceMin ReduceL2 ReduceL1 ReduceProd "
        "ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin TopK NonMaxSuppression LpPool GlobalLpPool NonZero "
        "Unique".split(),
        _reduction,
    ),
    "BatchNormalization": _each(2),  # scale and shift
    "LayerNormalization": _each(5),  # mean, variance, difference, scale and shift
    "InstanceNormalization": _each(5),
    "GroupNormalization": _each(5),
    "MeanVarianceNormalization": _each(4),  # mean, variance, difference and scale
    "LpNormalization": _each(2),  # norm and quotient
    "RotaryEmbedding": _each(3),  # two products and their sum
    "Softmax": _each(3),  # exponential, sum, quotient
    "LogSoftmax": _each(3),
    "LRN": _lrn,
    "Torch": _each(1),  # of a traced module: whatever has no name in ONNX
}  # fmt: skip
