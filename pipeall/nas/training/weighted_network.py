"""An architecture with its weights: made new, inherited from a parent, saved in a file, and as a graph.

A block reads the concatenation of its inputs, so some columns of its weights belong to each input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from ...arrays import read_npz
from ...errors import ArgumentError
from ...files import write_whole
from ...graph.builder import GraphBuilder
from ...graph.ir import Graph, Tensor
from ..datasets import DataSet, Targets
from ..spaces.genome import SOURCE, Architecture, Block, Convolution
from . import detection

FORMAT = "pipeall.nas-network/2"
HEAD = -1  # index of the output layer among the weights
INPUT, OUTPUT = "input", "output"
ARRAYS = "wbgmv"  # names in a file: weights, biases, factors, means, variances

NORM_EPSILON = 1e-5  # of batch normalization, as PyTorch's

# weights (neurons, inputs) or (neurons, channels, kernel, kernel), biases (neurons,). The biases of a normed block are
# added behind the normalization; its factors, mean and variance follow, (neurons,) each
LayerWeights = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class WeightedNetwork:
    """An architecture with its weights.

    shape       of a sample
    outputs     of the head
    targets     what it predicts: classes, of which the softmax of the head's outputs is the probabilities; a number; or
                boxes, with a head on each cell (``detection``)
    weights     index of a block, or HEAD -> its weights and biases, float32
    """

    architecture: Architecture
    shape: tuple[int, ...]
    outputs: int
    targets: Targets
    weights: Mapping[int, LayerWeights]

    @property
    def classifies(self) -> bool:
        return self.targets == "classes"

    @property
    def parameters(self) -> int:
        """Trained numbers, biases included, once batch normalization is folded."""
        return sum(weight.size + bias.size for weight, bias, *_ in self.weights.values())

    def widths(self) -> dict[int, int]:
        """Index -> neurons or channels that it gives: of each block, and of the input under SOURCE."""
        dense = self.architecture.kind == "dense"
        return {SOURCE: prod(self.shape) if dense else self.shape[0]} | {
            block.index: block.neurons for block in self.architecture.blocks
        }

    def columns_of(self, block: Block) -> dict[int, slice]:
        """The columns of a block's weights that read each of its inputs."""
        widths, columns, start = self.widths(), {}, 0
        for index in block.inputs:
            columns[index] = slice(start, start + widths[index])
            start += widths[index]
        return columns


def create(
    architecture: Architecture, data: DataSet, seed: int, parent: WeightedNetwork | None = None
) -> WeightedNetwork:
    """A network for the data: weights are the parent's where blocks, inputs and shapes agree, else new.

    New weights are normal with variance 2 / fan-in, 1 / fan-in in the head: at the edge of chaos for ReLU, where the
    mean-field chi_1 is 1 (He et al. 2015, Schoenholz et al. 2017). They are a function of seed and block.

    Raises ArgumentError for boxes and an architecture that is not "mobile".
    """
    if data.targets == "boxes" and architecture.kind != "mobile":
        raise ArgumentError(f"{data.name}: expected a mobile architecture for boxes, got {architecture.kind}")
    network = WeightedNetwork(architecture, data.shape, data.outputs, data.targets, {})
    blocks, widths = architecture.blocks, network.widths()
    weights = {}
    for block in blocks:
        channels = sum(widths[index] for index in block.inputs)
        kernel = () if architecture.kind == "dense" else (block.kernel, block.kernel)
        weights[block.index] = _new(block, channels, kernel, seed)
    weights[HEAD] = _drawn((data.outputs, blocks[-1].neurons if blocks else 0), 1.0, seed, 0)
    if data.targets == "boxes":
        weights[HEAD][1][:] = detection.first_biases(data.outputs)
    if parent is not None:
        for block in blocks:
            _inherit(network, block, weights[block.index], parent)
        if parent.weights[HEAD][0].shape == weights[HEAD][0].shape:
            weights[HEAD] = parent.weights[HEAD]
    return replace(network, weights=weights)


def save(path: str | Path, network: WeightedNetwork) -> None:
    """Writes architecture and weights as .npz. Raises ArgumentError naming the file where it cannot be written."""
    meta = {"format": FORMAT, **asdict(network.architecture)}
    arrays = {}
    for index, layer in network.weights.items():
        arrays |= {f"{name}{index}": array for name, array in zip(ARRAYS, layer, strict=False)}
    write_whole(path, lambda file: np.savez(file, meta=np.array(json.dumps(meta)), **arrays))


def load(path: str | Path, data: DataSet) -> WeightedNetwork:
    """A network for the data, from a file that ``save`` wrote. Raises ArgumentError naming any other file."""
    arrays = read_npz(Path(path))
    try:
        meta = json.loads(str(arrays.pop("meta")))
        if meta.pop("format") != FORMAT:
            raise ValueError
        kind = Convolution if meta["kind"] == "mobile" else Block
        blocks = tuple(kind(**{**block, "inputs": tuple(block["inputs"])}) for block in meta["blocks"])
        network = create(Architecture(meta["kind"], blocks), data, 0)
        weights = {
            index: tuple(arrays[f"{name}{index}"] for name, _ in zip(ARRAYS, layer, strict=False))
            for index, layer in network.weights.items()
        }
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"{path}: expected a network of format {FORMAT!r}") from None
    for index, layer in weights.items():
        for array, own in zip(layer, network.weights[index], strict=True):
            if array.shape != own.shape or array.dtype != own.dtype:
                raise ArgumentError(f"{path}: block {index}: expected {own.dtype} {own.shape}, got {array.shape}")
    return replace(network, weights=weights)


def to_graph(network: WeightedNetwork, data: DataSet) -> Graph:
    """The network as a graph.

    It reads raw features, or pictures divided by ``data.scale``. A classifier gives probabilities, a detector
    ``detection.decoded``, which its metadata says; another network gives the predicted number in the unit of the data.

    Raises ModelError where a picture is too small for the poolings.
    """
    build = _NetworkBuilder(network, data)
    values = {SOURCE: INPUT}
    for block in network.architecture.blocks:
        values[block.index] = build.block(block, values)
    return build.finish(values[network.architecture.blocks[-1].index] if network.architecture.blocks else None)


def _new(block: Block, channels: int, kernel: tuple[int, ...], seed: int) -> LayerWeights:
    conv = block if isinstance(block, Convolution) else None
    gain = 1.0 if conv and conv.activation != "relu" else 2.0
    layer = _drawn((block.neurons, channels // (conv.parts if conv else 1), *kernel), gain, seed, block.index)
    if conv is None or not conv.normed:
        return layer
    return *layer, *(np.full(block.neurons, value, np.float32) for value in (1, 0, 1))


def _drawn(shape: tuple[int, ...], gain: float, seed: int, index: int) -> LayerWeights:
    fan_in = prod(shape[1:])
    random = np.random.default_rng([seed, index])
    weight = random.standard_normal(shape, np.float32) * np.float32((gain / max(fan_in, 1)) ** 0.5)
    return weight, np.zeros(shape[0], np.float32)


def _inherit(network: WeightedNetwork, block: Block, layer: LayerWeights, parent: WeightedNetwork) -> None:
    """Copies from the parent the columns of inputs that both have, and the rest of the layer, where blocks agree."""
    own = {other.index: other for other in parent.architecture.blocks}.get(block.index)
    if own is None or network.architecture.kind != parent.architecture.kind:
        return
    weight, *others = parent.weights[block.index]
    if (len(weight), *weight.shape[2:]) != (block.neurons, *layer[0].shape[2:]) or len(others) != len(layer) - 1:
        return
    if isinstance(block, Convolution) and block.parts != own.parts:
        return
    theirs = parent.columns_of(own)
    for index, columns in network.columns_of(block).items():
        if index in theirs and theirs[index].stop - theirs[index].start == columns.stop - columns.start:
            layer[0][:, columns] = weight[:, theirs[index]]
    for array, inherited in zip(layer[1:], others, strict=True):
        array[:] = inherited


def folded(layer: LayerWeights) -> LayerWeights:
    """Weights and biases of a layer without its batch normalization, float64 where it had one."""
    if len(layer) == 2:
        return layer
    weight, bias, factor, mean, variance = (array.astype(np.float64) for array in layer)
    scale = factor / np.sqrt(variance + NORM_EPSILON)
    return weight * scale.reshape(-1, *(1,) * (weight.ndim - 1)), bias - mean * scale


class _NetworkBuilder(GraphBuilder):
    """Every method adds nodes and returns the name of the last one's output."""

    def __init__(self, network: WeightedNetwork, data: DataSet):
        self.network, self.data = network, data
        x = Tensor(INPUT, (1, *network.shape))
        said = {}
        if network.targets == "boxes":
            names = {label: str(label) for label in range(network.outputs - detection.EDGES)}
            said = {"task": "detect", "names": repr(names)}
        super().__init__(Graph(f"nas-{data.name}", (), {INPUT: x}, {}, (x,), (), metadata=said))

    def layer(self, name: str, layer: LayerWeights) -> tuple[str, str]:
        weight, bias = layer
        return self.constant(f"{name}/weight", weight), self.constant(f"{name}/bias", bias)

    def block(self, block: Block, values: Mapping[int, str]) -> str:
        name, inputs = f"block{block.index}", [values[index] for index in block.inputs]
        x = self.add("concat", f"{name}/inputs", inputs, axis=1) if len(inputs) > 1 else inputs[0]
        weights = self.layer(name, self._on_raw_features(block))
        if self.network.architecture.kind == "dense":
            return self.add("fc", name, [x, *weights], lo=0.0)
        if isinstance(block, Convolution):
            return self.convolution(block, name, x, weights, values)
        x = self.add("conv", name, [x, *weights], pads=(block.kernel // 2,) * 4, lo=0.0)
        if block.pool:
            x = self.add("maxpool", f"{name}/pool", [x], kernel=(2, 2), strides=(2, 2))
        return x

    def mean(self, name: str, x: str) -> str:
        return self.add("avgpool", name, [x], kernel=self.tensors[x].shape[2:])

    def convolution(
        self, block: Convolution, name: str, x: str, weights: tuple[str, str], values: Mapping[int, str]
    ) -> str:
        if block.side:
            shape = self.tensors[x].shape
            sizes = (*shape[:2], block.side, block.side)
            scales = tuple(size / old for size, old in zip(sizes, shape, strict=True))
            x = self.add("resize", f"{name}/resized", [x], sizes=sizes, scales=scales, mode="linear")
        if block.averaged:
            x = self.mean(f"{name}/mean", x)
        clamp = {"lo": 0.0} if block.activation == "relu" else {}
        own = {} if block.added is not None else clamp
        (before, after), strides = block.pads, (block.stride,) * 2
        pads = before, before, after, after
        x = self.add("conv", name, [x, *weights], groups=block.parts, pads=pads, strides=strides, **own)
        if block.added is not None:
            x = self.add("add", f"{name}/sum", [x, values[block.added]], **clamp)
        if block.activation == "hardsigmoid":
            x = self.add("hardsigmoid", f"{name}/gate", [x], alpha=1 / 6, beta=0.5)
        if block.factor is not None:
            x = self.add("mul", f"{name}/product", [values[block.factor], x])
        return x

    def finish(self, x: str | None) -> Graph:
        weight, bias = self.network.weights[HEAD]
        if self.network.targets == "boxes":
            return self.graph([self.boxes(x, weight, bias)])
        if x is None:  # a bias alone
            x, weight = INPUT, np.zeros((self.network.outputs, prod(self.network.shape)), np.float32)
        elif self.network.architecture.kind != "dense":
            x = self.mean("mean", x)
        if not self.network.classifies:
            weight = weight * self.data.target_width
            bias = bias * self.data.target_width + self.data.target_low
        name = "logits" if self.network.classifies else OUTPUT
        x = self.add("fc", name, [x, *self.layer(name, (weight, bias))])
        if self.network.classifies:
            x = self.add("softmax", OUTPUT, [x])
        return self.graph([x])

    def boxes(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        field, outputs = self.tensors[x].shape[2:], self.network.outputs
        matrix, middles = detection.mixing(self.network.shape[1:], field, outputs)
        x = self.add("conv", "cells", [x, *self.layer("cells", (weight[..., None, None], bias))])
        x = self.add("sigmoid", "shares", [x])
        mixed = matrix[..., None, None], np.zeros(outputs)
        x = self.add("conv", "boxes", [x, *self.layer("boxes", mixed)])
        x = self.add("add", "placed", [x, self.constant("middles", middles)])
        return self.add("reshape", OUTPUT, [x], shape=(1, outputs, field[0] * field[1]))

    def _on_raw_features(self, block: Block) -> LayerWeights:
        """The weights of a block that reads features, for features as they are instead of centred and scaled ones."""
        weight, bias = folded(self.network.weights[block.index])
        if SOURCE not in block.inputs or self.data.spread is None:
            return weight, bias
        columns = self.network.columns_of(block)[SOURCE]
        scaled = weight.astype(np.float64)
        scaled[:, columns] /= self.data.spread
        return scaled, bias - scaled[:, columns] @ self.data.centre
