"""The networks of a stage as ONNX models that read and write slots as they lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from pipeall.graph.ir import Graph, Node, Tensor
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.graph.ops import attributes
from pipeall.graph.passes.dequantize import on_levels
from pipeall.pipeline.devices.network_parts import Part, Place

NHWC_TO_NCHW, NCHW_TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


class End(NamedTuple):
    """A tensor of a model, and where it lies: in a slot, or (None) in memory of the program's own."""

    tensor: Tensor
    place: Place | None


class Model(NamedTuple):
    content: bytes
    inputs: tuple[End, ...]
    outputs: tuple[End, ...]


def model_of(part: Part) -> Model:
    """Raises ArgumentError naming a node that cannot be written as ONNX."""
    return _Adapted(part).model()


class _Adapted:
    """A network with nodes at its ends that turn pixels into planes and back, gaps between pixels left out."""

    def __init__(self, part: Part):
        self.core = core = on_levels(part.graph)
        self.nodes: list[Node] = []
        self.tensors = dict(core.tensors)
        self.inputs: dict[str, End] = {}
        self.outputs: list[End] = []
        for tensor in core.inputs:
            self._enter(tensor, part.reads.get(tensor.name))
        for place, _ in part.passes:
            self._enter(place.tensor, place)
        self.nodes += core.nodes
        self.outputs += [End(tensor, None) for tensor in core.outputs if tensor.name in part.keeps]
        for name, place in part.writes:
            self._leave(name, place)
        for place, target in part.passes:
            self._leave(place.tensor.name, target)

    def model(self) -> Model:
        ends = [tuple(end.tensor for end in ends) for ends in (self.inputs.values(), self.outputs)]
        graph: Graph = replace(self.core, nodes=tuple(self.nodes), tensors=self.tensors, inputs=ends[0],
                               outputs=ends[1], metadata={})  # fmt: skip
        return Model(onnx_bytes(graph), tuple(self.inputs.values()), tuple(self.outputs))

    def _put(self, op: str, x: str, out: Tensor, **attrs: Any) -> Tensor:
        self.nodes.append(Node(out.name, op, (x,), out.name, attributes(op, **attrs)))
        self.tensors[out.name] = out
        return out

    def _fresh(self, tensor: Tensor, shape: tuple[int, ...], part: str) -> Tensor:
        name = f"{tensor.name}/{part}"
        while name in self.tensors or name in self.core.constants:
            name += "'"
        return Tensor(name, shape, tensor.dtype)

    def _enter(self, tensor: Tensor, place: Place | None) -> None:
        if tensor.name in self.inputs:
            return
        plain = replace(tensor, quantization=None)
        self.tensors[tensor.name] = plain
        if place is None or not place.nhwc:
            self.inputs[tensor.name] = End(plain, place)
            return
        stored = self._fresh(tensor, place.stored_shape, "stored")
        self.tensors[stored.name] = stored
        self.inputs[tensor.name] = End(stored, place)
        images, channels, height, width = tensor.shape
        pixels = stored
        if place.stride > channels:
            pixels = self._fresh(tensor, (images, height, width, channels), "pixels")
            self._put("slice", stored.name, pixels, axis=3, start=0, stop=channels, step=1)
        self._put("transpose", pixels.name, plain, perm=NHWC_TO_NCHW)

    def _leave(self, name: str, place: Place) -> None:
        tensor = self.tensors[name]
        if not place.nhwc:
            taken = name in self.inputs or any(end.tensor.name == name for end in self.outputs)
            if taken:
                tensor = self._put("reshape", name, self._fresh(tensor, tensor.shape, "copy"), shape=tensor.shape)
            self.outputs.append(End(tensor, place))
            return
        images, channels, height, width = tensor.shape
        pixels = self._fresh(tensor, (images, height, width, channels), "left")
        self._put("transpose", name, pixels, perm=NCHW_TO_NHWC)
        if place.stride > channels:
            gap = (0, 0, 0, place.stride - channels)
            spaced = self._fresh(tensor, place.stored_shape, "spaced")
            pixels = self._put("pad", pixels.name, spaced, pads_begin=(0,) * 4, pads_end=gap)
        self.outputs.append(End(pixels, place))
