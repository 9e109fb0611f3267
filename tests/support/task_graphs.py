"""Graphs without nodes, or with one: what a decoder looks at before anything runs."""

from __future__ import annotations

import numpy as np

from pipeall import Graph, tasks
from pipeall.graph.ir import Node, Tensor
from pipeall.picture import Placed

Shapes = dict[str, tuple[int, ...]]


def network(
    outputs: Shapes,
    size: tuple[int, int],
    name: str = "network",
    op: str = "",
    metadata: dict[str, str] | None = None,
    shape: tuple[int, ...] = (),
    dtype: str = "float32",
) -> Graph:
    """A network with these outputs, each made by ``op``, if it is given."""
    tensors = {key: Tensor(key, dims, dtype) for key, dims in outputs.items()}
    entry = Tensor("x", shape or (1, 3, *size))
    nodes = tuple(Node(key, op, ("x",), key) for key in outputs) if op else ()
    return Graph(name, nodes, tensors | {"x": entry}, {}, (entry,), tuple(tensors.values()), metadata=metadata or {})


def placed_whole(size: tuple[int, int]) -> Placed:
    """A picture as large as the input."""
    return tasks.DECODERS["deeplab"].picture.placed(size, size)


def answer(graph: Graph, outputs: dict[str, np.ndarray], **settings) -> tasks.Answer:
    """What outputs mean; the rest of each is zero."""
    task = tasks.task(graph, **settings)
    return task({name: y.astype(np.float32) for name, y in outputs.items()}, placed_whole(task.size))
