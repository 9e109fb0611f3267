"""A network that reads pictures: what makes its input of one becomes its first node.

Whatever the network itself does first to normalize its input, one number for each channel, is done there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import ModelError
from ...picture import CHANNELS, EXAMPLE, WORDS, Picture
from ..builder import fresh, with_nodes
from ..ir import Graph, Node, Tensor
from ..ops import attributes, unclamped

IMAGES = ("float32", "uint8", "int8")  # what elements of an image may be
LOWEST = {"int8": -128}  # what grey level 0 is
NHWC_TO_NCHW, NCHW_TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def with_picture(graph: Graph, picture: Picture, example: tuple[int, int] = EXAMPLE) -> Graph:
    """The same network, whose image is made of a picture of any size by its first node.

    Parameters
    ----------
    graph
        A network with one input that is an image, (1, C, H, W) or (1, H, W, C). One of integers gets the grey levels,
        those of int8 less 128, where ``picture`` does not normalize; where it does, the real number that the integers
        stand for.
    picture
        How a picture becomes that image.
    example
        Height and width of the picture that profiles are timed with, in pixels.

    Returns
    -------
    Graph
        Its input is a picture.

    Raises
    ------
    ModelError
        Unless just one input is an image of batch 1 and ``picture``'s channels.
    """
    count = CHANNELS[picture.channels]
    images = [tensor for tensor in graph.inputs if _layout(tensor, count)]
    if len(images) != 1:
        given = ", ".join(f"{tensor.name} {tensor.dtype} {tensor.shape}" for tensor in graph.inputs)
        raise ModelError(
            f"{graph.name}: expected one input for a picture, (1, {count}, H, W) or (1, H, W, {count}) of "
            f"{', '.join(IMAGES)}, got {given}"
        )
    (image,) = images
    pixels = Tensor(fresh(f"{image.name}/pixels", graph.tensors, graph.constants), image.shape, image.dtype)
    nodes = [_renamed(node, image.name, pixels.name) for node in graph.nodes]
    tensors = dict(graph.tensors) | {pixels.name: pixels}
    layout = _layout(image, count)
    factors, offsets = (np.array(values) for values in picture.affine)
    if not picture.normalizes:
        offsets = offsets + LOWEST.get(image.dtype, 0)
    while (step := _next(graph, nodes, pixels.name)) is not None:
        step_of = _folded(graph, step, pixels.name, layout, picture)
        if step_of is None:
            break
        layout, factor, offset = step_of
        factors, offsets = factors * factor, offsets * factor + offset
        nodes.remove(step)
        pixels = tensors[step.output]
    if pixels.dtype != "float32":
        raise ModelError(
            f"{graph.name}: expected an input {image.name!r} of float32, or a Cast or DequantizeLinear of it first, "
            f"got {pixels.dtype}"
        )
    size = pixels.shape[2:] if layout == "NCHW" else pixels.shape[1:3]
    attrs = attributes("picture", picture=picture, factors=tuple(factors.tolist()), offsets=tuple(offsets.tolist()),
                       size=size, layout=layout, example=example)  # fmt: skip
    words = Tensor(image.name, (WORDS,), "int64")
    first = Node(fresh("picture", graph.tensors, graph.constants), "picture", (words.name,), pixels.name, attrs)
    inputs = tuple(words if tensor is image else tensor for tensor in graph.inputs)
    there = tensors | {tensor.name: tensor for tensor in inputs}
    return with_nodes(graph, (first, *nodes), there, graph.constants, graph.qparams, inputs=inputs)


def pictures_of(graph: Graph) -> dict[str, Node]:
    """The nodes that read pictures, by the name of the input."""
    return {node.inputs[0]: node for node in graph.nodes if node.op == "picture"}


def _layout(tensor: Tensor, channels: int) -> str:
    """Of an image of batch 1; empty for anything else."""
    if len(tensor.shape) != 4 or tensor.shape[0] != 1 or tensor.dtype not in IMAGES:
        return ""
    return "NCHW" if tensor.shape[1] == channels else "NHWC" if tensor.shape[3] == channels else ""


def _renamed(node: Node, old: str, new: str) -> Node:
    return (
        replace(node, inputs=tuple(new if name == old else name for name in node.inputs))
        if old in node.inputs
        else node
    )


def _next(graph: Graph, nodes: Sequence[Node], name: str) -> Node | None:
    """The only node that reads the image, if what it makes does not leave the network."""
    consumers = [node for node in nodes if name in node.inputs]
    leaves = {tensor.name for tensor in (*graph.leaving, *graph.leaves)}
    return consumers[0] if len(consumers) == 1 and not {name, consumers[0].output} & leaves else None


def _folded(
    graph: Graph, node: Node, name: str, layout: str, picture: Picture
) -> tuple[str, np.ndarray, np.ndarray] | None:
    """The layout behind a node, and the factor and offset of each channel that it is; None for any other node."""
    channels = CHANNELS[picture.channels]
    one, none = np.ones(channels), np.zeros(channels)
    if node.op == "cast" and node.attrs["to"] == "float32":
        return layout, one, none
    if node.op == "dequantize":
        scale, zero = node.attrs["scale"], node.attrs["zero"]
        return (layout, one, none) if picture.normalizes else (layout, scale * one, -scale * zero * one)
    if node.op == "transpose":
        turned = {("NHWC", NHWC_TO_NCHW): "NCHW", ("NCHW", NCHW_TO_NHWC): "NHWC"}.get(
            (layout, tuple(node.attrs["perm"]))
        )
        return (turned, one, none) if turned else None
    other = [array for array in node.inputs if array != name]
    if node.op not in ("add", "sub", "mul", "div") or len(other) != 1 or other[0] not in graph.constants:
        return None
    if not unclamped(node):
        return None
    values = _per_channel(graph.constants[other[0]], layout, channels)
    if values is None:
        return None
    first = (node.inputs[0] == name) != node.attrs["swapped"]
    if node.op in ("add", "sub"):
        sign = 1 if node.op == "add" or first else -1
        return layout, sign * one, values if node.op == "add" or not first else -values
    if node.op == "mul":
        return layout, values, none
    return (layout, 1 / values, none) if first and np.abs(values).min() > 0 else None


def _per_channel(array: np.ndarray, layout: str, channels: int) -> np.ndarray | None:
    """One number for each channel, in float64; None where it holds more."""
    if array.ndim != 4 or array.dtype.kind != "f":
        return None
    axis = 1 if layout == "NCHW" else 3
    if array.shape[axis] not in (1, channels) or array.size != array.shape[axis]:
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), channels)
