"""One case of the case table: a node with its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

Shape = tuple[int, ...]

CHANNELS = (1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 96)


@dataclass(frozen=True)
class Case:
    """One node: the shapes of its activations and of its constants (a node reads x, constants, other activations)."""

    op: str
    attrs: Mapping[str, Any]
    shapes: tuple[Shape, ...]
    constants: tuple[Shape, ...] = ()
    note: str = field(default="", kw_only=True)
    types: tuple[str, ...] = field(default=(), kw_only=True)  # of shapes, then constants; float32 where there are none
    draws: tuple[int, int] | None = field(default=None, kw_only=True)  # integers are drawn from here up to below there

    def __str__(self) -> str:
        def text(value: Any) -> str:
            if isinstance(value, str):
                return value
            if isinstance(value, tuple):
                return "x".join(map(str, value))
            return f"{value:g}" if isinstance(value, Real) else str(value)

        shapes = "+".join(map(text, (*self.shapes, *self.constants)))
        attrs = " ".join(f"{name}={text(value)}" for name, value in self.attrs.items())
        return " ".join(filter(None, (self.op, shapes, attrs, self.note)))
