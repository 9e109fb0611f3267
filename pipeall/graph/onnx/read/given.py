"""The network that a caller gives: a graph, or the model that it is read from."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ....errors import ArgumentError
from ...ir import Graph
from .source import Message


def network(name: str, value: Any) -> Graph:
    """A rule for arguments (``arguments.py``): the graph itself, or that of a model; errors as for ``load``."""
    if isinstance(value, Graph):
        return value
    if isinstance(value, (str, PathLike, bytes, bytearray, memoryview)) or (
        isinstance(value, Message) and not isinstance(value, type)
    ):
        from .read import load  # takes a while

        return load(value)
    expected = "one of pipeall.load or pipeall.zoo, or a model's path, bytes or ModelProto"
    raise ArgumentError(f"{name}: expected {expected}, got {type(value).__name__}")
