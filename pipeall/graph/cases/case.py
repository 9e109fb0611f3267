"""One case of the case table: a node with its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

Shape = tuple[int, ...]

CHANNELS = (1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 96)
# Convolutions with a stride whose phases Winograd computes: their taps are 2 x 2 to 5 x 5
PHASES = (  # channels in and out, image, kernel, stride, pads
    (1, 20, (19, 22), 7, 2, 3), (3, 18, (26, 25), 7, 2, 0), (5, 20, (12, 15), 7, 2, 3), (7, 20, (5, 8), 7, 2, 3),
    (2, 34, (21, 26), 8, 2, (1, 3, 2, 0)), (3, 20, (24, 31), 6, 2, 2), (20, 16, (11, 14), 5, 2, 2),
    (5, 17, (22, 20), 7, 3, (4, 5, 1, 0)), (3, 15, (41, 37), 13, 3, 1), (6, 24, (44, 50), 17, 4, (8, 9, 7, 3)),
    (1, 18, (9, 16), 9, 2, 4), (8, 18, (23, 30), 9, 2, 4), (11, 18, (11, 18), 9, 2, 4), (2, 16, (12, 7), 10, 2, 4),
    (7, 20, (11, 14), 3, 2, 1), (48, 17, (13, 22), 3, 2, 1), (144, 9, (12, 13), 3, 2, 1), (2, 34, (21, 26), 4, 2, 1),
    (80, 18, (9, 11), 3, 2, (0, 0, 1, 1)), (5, 9, (4, 5), 3, 2, 1),
)  # fmt: skip


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
