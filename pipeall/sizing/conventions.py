"""Why tools disagree on one network: each is a weighted sum of the same few quantities.

Checked against torch 2.15 (FlopCounterMode), fvcore 0.1.5, torchinfo 1.8, thop 0.1.1 and ptflops 0.7.5 (backends
pytorch, its default, and aten), in evaluation mode and batch 1. nn.ReLU is a "module", F.relu a "function": tools that
hook modules do not see functions. ptflops hooks both, so it counts a module and then the function inside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ..errors import ArgumentError
from ..graph.pointwise import UNARY
from .count import MACS, macs
from .size_network import Layer, Network

Count = Callable[[Network, Layer], int]
DENSE = ("Gemm", "MatMul")
NORMS = ("LayerNormalization", "InstanceNormalization", "GroupNormalization")
RECTIFIERS = ("Relu", "PRelu", *(entry.onnx for entry in UNARY.values() if entry.rectifier))
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")


@dataclass(frozen=True, slots=True)
class Term:
    """A quantity of a layer: ``count`` gives it, 0 where the layer has none."""

    name: str
    meaning: str
    count: Count


def _out(network: Network, layer: Layer) -> int:
    return network.elements(layer.outputs)


def _in(network: Network, layer: Layer) -> int:
    return network.elements(layer.inputs[0])


def _learnt(network: Network, layer: Layer) -> int:
    return network.elements(name for name in layer.inputs if name in network.learnt)


def _of(ops: tuple[str, ...], count: Count, module: bool | None = None) -> Count:
    """``count`` for layers of these operators; ``module``: True for modules alone, False for functions alone."""

    def counted(network: Network, layer: Layer) -> int:
        return count(network, layer) if layer.op in ops and module in (None, layer.module) else 0

    return counted


def _has_weight(network: Network, layer: Layer) -> bool:
    return len(layer.inputs) > 1 and layer.inputs[1] in network.weights


def _dense_macs(network: Network, layer: Layer) -> int:
    return macs(network, layer) if layer.op in DENSE and _has_weight(network, layer) else 0


def _dense_weights(network: Network, layer: Layer) -> int:
    return network.elements(layer.inputs[1]) if layer.op in DENSE and _has_weight(network, layer) else 0


def _products(network: Network, layer: Layer) -> int:
    return macs(network, layer) if layer.op in DENSE and not _has_weight(network, layer) else 0


def _bias(network: Network, layer: Layer) -> int:
    return _out(network, layer) if layer.op in MACS and len(layer.inputs) > 2 and layer.inputs[2] else 0


def _is_adaptive(network: Network, layer: Layer) -> bool:
    """Whether adaptive pooling was exported. ONNX has none: it becomes a global pooling, or windows of 1 x 1."""
    return layer.op == "GlobalAveragePool" or (layer.op == "AveragePool" and prod(layer.attrs["kernel_shape"]) == 1)


def _adaptive_in(network: Network, layer: Layer) -> int:
    return _in(network, layer) if _is_adaptive(network, layer) else 0


def _adaptive_module(network: Network, layer: Layer) -> int:
    """One addition for each input element and a division for each output element."""
    if not (layer.module and _is_adaptive(network, layer)):
        return 0
    return _in(network, layer) + _out(network, layer)


def _average_module(network: Network, layer: Layer) -> int:
    if layer.op != "AveragePool" or not layer.module or _is_adaptive(network, layer):
        return 0
    return _out(network, layer)


TERMS = (
    Term("conv", "multiply-accumulates of convolutions", _of(("Conv", "ConvTranspose"), macs)),
    Term("fc", "multiply-accumulates of fully connected layers", _dense_macs),
    Term("fc-weights", "weights of fully connected layers, once", _dense_weights),
    Term("products", "multiply-accumulates of products of two activations", _products),
    Term("bias", "additions of a bias, one for each output element", _bias),
    Term("bn", "output elements of BatchNorm", _of(("BatchNormalization",), _out)),
    Term("bn-weights", "weights of BatchNorm, once", _of(("BatchNormalization", *NORMS), _learnt)),
    Term("norm", "output elements of other normalizations", _of(NORMS, _out)),
    Term("relu-module", "elements of ReLU modules", _of(RECTIFIERS, _out, True)),
    Term("relu-function", "elements of ReLU functions", _of(RECTIFIERS, _out, False)),
    Term("relu6-module", "elements of ReLU6 modules", _of(("Clip",), _out, True)),
    Term("relu6-function", "elements of ReLU6 functions", _of(("Clip",), _out, False)),
    Term("pool-module", "input elements of pooling modules", _of(POOLS, _in, True)),
    Term("pool-function", "input elements of pooling functions", _of(POOLS, _in, False)),
    Term("adaptive-in", "input elements of adaptive average pooling", _adaptive_in),
    Term("adaptive-module", "input and output elements of adaptive average pooling modules", _adaptive_module),
    Term("average-module", "output elements of average pooling modules", _average_module),
)

CONVENTIONS: dict[str, dict[str, int]] = {  # tool -> term -> factor
    "macs": {"conv": 1, "fc": 1},
    "torch": {"conv": 2, "fc": 2, "products": 2},
    "fvcore": {"conv": 1, "fc": 1, "products": 1, "bn": 2, "norm": 5, "adaptive-in": 1},
    "torchinfo": {"conv": 1, "fc-weights": 1, "bias": 1, "bn-weights": 1},
    "thop": {"conv": 1, "fc": 1, "bn": 4, "norm": 4, "adaptive-module": 1, "average-module": 1},
    "ptflops": {
        "conv": 1, "fc": 1, "products": 1, "bias": 1, "bn": 2, "norm": 2, "relu-module": 2, "relu-function": 1,
        "relu6-module": 1, "relu6-function": 1, "pool-module": 2, "pool-function": 1,
    },
    "ptflops-aten": {"conv": 1, "fc": 1, "products": 1, "bias": 1},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A term that a convention or ``macs`` counts: ``beyond_macs`` is what it adds to the count of ``macs``."""

    term: str
    meaning: str
    quantity: int
    factor: int
    beyond_macs: int

    @property
    def value(self) -> int:
        return self.quantity * self.factor


def quantities(network: Network) -> dict[str, int]:
    """Term -> its quantity, summed over the network."""
    return {term.name: sum(term.count(network, layer) for layer in network.layers) for term in TERMS}


def counted(network: Network, convention: str) -> int:
    """What the tool of that name prints for the network. ArgumentError for an unknown name."""
    factors, sums = _factors(convention), quantities(network)
    return sum(factor * sums[term] for term, factor in factors.items())


def explained(network: Network, convention: str) -> list[Difference]:
    """The terms that the tool or ``macs`` counts; their ``beyond_macs`` add up to the difference of the two."""
    factors, plain, sums = _factors(convention), CONVENTIONS["macs"], quantities(network)
    differences = []
    for term in TERMS:
        quantity = sums[term.name]
        if quantity and (term.name in factors or term.name in plain):
            factor = factors.get(term.name, 0)
            beyond_macs = quantity * (factor - plain.get(term.name, 0))
            differences.append(Difference(term.name, term.meaning, quantity, factor, beyond_macs))
    return differences


def _factors(convention: str) -> dict[str, int]:
    if convention not in CONVENTIONS:
        raise ArgumentError(f"convention: expected one of {', '.join(CONVENTIONS)}, got {convention!r}")
    return CONVENTIONS[convention]
