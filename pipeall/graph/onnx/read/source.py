"""Where a model comes from: a file, its bytes, or a ModelProto."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ....arguments import path
from ....errors import ArgumentError, ModelError

MAX_NAME = 80  # characters of a graph's name
UNNAMED = "model"


@runtime_checkable
class Message(Protocol):
    """An ``onnx.ModelProto``; as a protocol, so that nothing but reading a model needs the onnx package."""

    def SerializeToString(self) -> bytes: ...


ModelSource = str | os.PathLike[str] | bytes | Message


@dataclass(frozen=True, slots=True)
class Source:
    """A model to be read.

    content  the file's path, or the bytes of one
    label    what errors call it
    values   inputs that have their value, by name
    """

    content: Path | bytes = field(repr=False)
    label: str
    values: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model: ModelSource, values: Mapping[str, np.ndarray] | None = None) -> Source:
        """Raises ArgumentError for what is no model, ModelError for a message that cannot be written as bytes."""
        if isinstance(model, (str, os.PathLike)):
            file = path("model", model)
            return cls(file, str(file), values or {})
        if isinstance(model, (bytes, bytearray, memoryview)):
            return cls(bytes(model), f"model of {len(model)} bytes", values or {})
        if not isinstance(model, Message) or isinstance(model, type):
            raise ArgumentError(f"model: expected a path, bytes or an onnx.ModelProto, got {type(model).__name__}")
        try:
            return cls(model.SerializeToString(), type(model).__name__, values or {})
        except Exception as error:  # protobuf's own, of more than 2 GB or an incomplete message
            raise ModelError(f"{type(model).__name__}: cannot be written as bytes: {error!s:.200}") from None

    @property
    def path(self) -> Path | None:
        """Of the file, beside which external data lies. Bytes have none."""
        return self.content if isinstance(self.content, Path) else None

    def name(self, graph: Any) -> str:
        """What the network is called: as the file, or as the GraphProto in the bytes."""
        if isinstance(self.content, Path):
            return self.content.stem
        return "".join(c for c in graph.name if c.isprintable())[:MAX_NAME].strip() or UNNAMED
