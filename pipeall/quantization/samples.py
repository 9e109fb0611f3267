"""Calibration data: what a network reads of each sample, checked and held in memory."""

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


def samples_of(
    graph: Graph, samples: Iterable[np.ndarray | Mapping[str, np.ndarray]], input: Picture | None
) -> list[Arrays]:
    """The inputs of a network by name, for each sample.

    Raises ArgumentError where there is no sample, or one has another shape or type than the network reads, or values
    that are not finite.
    """
    if input is not None:
        arrays = _of_pictures(graph, samples, input)
    else:
        arrays = [_checked(graph, sample, number) for number, sample in enumerate(samples, 1)]
    if not arrays:
        raise ArgumentError("samples: expected some to calibrate with, got none")
    return arrays


def _checked(graph: Graph, sample: np.ndarray | Mapping[str, np.ndarray], number: int) -> Arrays:
    if not isinstance(sample, Mapping):
        if len(graph.inputs) != 1:
            names, got = ", ".join(tensor.name for tensor in graph.inputs), type(sample).__name__
            raise ArgumentError(f"sample {number}: expected arrays by name for the inputs {names}, got {got}")
        sample = {graph.inputs[0].name: sample}
    arrays = {}
    for tensor in graph.inputs:
        array = sample.get(tensor.name)
        if not isinstance(array, np.ndarray) or array.shape != tensor.shape or array.dtype != tensor.dtype:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            expected = f"{tensor.dtype} {tensor.shape} for {tensor.name!r}"
            raise ArgumentError(f"sample {number}: expected {expected}, got {got}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArgumentError(f"sample {number}: expected finite values for {tensor.name!r}, got NaN or infinity")
        arrays[tensor.name] = array
    return arrays


def _of_pictures(graph: Graph, pictures: Iterable[np.ndarray], input: Picture) -> list[Arrays]:
    """By the step that a pipeline would begin with: a network of it alone."""
    (tensor,) = graph.inputs if len(graph.inputs) == 1 else (None,)
    if tensor is None:
        raise ArgumentError(f"{graph.name}: expected one input for pictures, got {len(graph.inputs)}")
    copied = replace(tensor, name=f"{tensor.name}/copy")
    node = Node(copied.name, "reshape", (tensor.name,), copied.name, attributes("reshape", shape=tensor.shape))
    tensors = {tensor.name: tensor, copied.name: copied}
    copy = Graph(graph.name, (node,), tensors, {}, (tensor,), (copied,))
    with Engine(copy, input=input) as engine:
        return [{tensor.name: np.array(engine(picture))} for picture in pictures]
