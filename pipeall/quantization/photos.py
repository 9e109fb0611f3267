"""Photos to calibrate with: what a network reads of each, checked and held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ..errors import ArgumentError
from ..graph.ir import Graph, Node
from ..graph.ops import attributes
from ..picture import Picture
from ..pipeline.engine import Engine

Arrays = dict[str, np.ndarray]


def frames_of(
    graph: Graph, photos: Iterable[np.ndarray | Mapping[str, np.ndarray]], input: Picture | None
) -> list[Arrays]:
    """The inputs of a network by name, for each photo.

    Raises ArgumentError where there is no photo, or one has another shape or type than the network reads, or values
    that are not finite.
    """
    if input is not None:
        return _made_of_pictures(graph, photos, input)
    frames = [_checked(graph, photo, place) for place, photo in enumerate(photos, 1)]
    return frames or _none()


def _none() -> list[Arrays]:
    raise ArgumentError("photos: expected some to calibrate with, got none")


def _checked(graph: Graph, photo: np.ndarray | Mapping[str, np.ndarray], place: int) -> Arrays:
    if not isinstance(photo, Mapping):
        if len(graph.inputs) != 1:
            names = ", ".join(tensor.name for tensor in graph.inputs)
            raise ArgumentError(
                f"photo {place}: expected arrays by name for the inputs {names}, got {type(photo).__name__}"
            )
        photo = {graph.inputs[0].name: photo}
    frame = {}
    for tensor in graph.inputs:
        array = photo.get(tensor.name)
        if not isinstance(array, np.ndarray) or array.shape != tensor.shape or array.dtype != tensor.dtype:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise ArgumentError(f"photo {place}: expected {tensor.dtype} {tensor.shape} for {tensor.name!r}, got {got}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArgumentError(f"photo {place}: expected finite values for {tensor.name!r}, got NaN or infinity")
        frame[tensor.name] = array
    return frame


def _made_of_pictures(graph: Graph, photos: Iterable[np.ndarray], input: Picture) -> list[Arrays]:
    """By the step that a pipeline would begin with: a network of it alone."""
    (tensor,) = graph.inputs if len(graph.inputs) == 1 else (None,)
    if tensor is None:
        raise ArgumentError(f"{graph.name}: expected one input for pictures, got {len(graph.inputs)}")
    made = replace(tensor, name=f"{tensor.name}/copy")
    node = Node(made.name, "reshape", (tensor.name,), made.name, attributes("reshape", shape=tensor.shape))
    tensors = {tensor.name: tensor, made.name: made}
    copy = Graph(graph.name, (node,), tensors, {}, (tensor,), (made,))
    with Engine(copy, input=input) as engine:
        return [{tensor.name: np.array(engine(photo))} for photo in photos] or _none()
