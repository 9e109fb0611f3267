"""Steps over operands that lie side by side in two slots, to be run on the kernels of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ...steps import CONSTANT, SLOT_IN, SLOT_OUT, Step, Strided, View, item_bytes
from .table import ROWS, Kernels

LINE = 64  # bytes between operands, at least
HASH = np.uint32(2654435761)  # Knuth's multiplicative hash; NumPy's generators would take 20 ms to import
MEASURED = 4096  # elements of a measure: three rounds of the largest tile, and two vectors


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass
class Steps:
    """What one check runs."""

    given: list[np.ndarray] = field(default_factory=list)  # bytes of the input slot, one operand after the other
    in_bytes: int = 0
    out_bytes: int = 0
    steps: list[tuple[Step, Any]] = field(default_factory=list)  # with their algorithms
    probes: list[tuple[tuple[str, str], np.ndarray]] = field(default_factory=list)
    drawn: int = 0

    def whole(self, *shape: int, most: int = 4, dtype: str = "float32") -> np.ndarray:
        """Whole numbers up to ``most``: sums of their products are exact in every element type."""
        count = prod(shape)
        scattered = (np.arange(self.drawn + 1, self.drawn + 1 + count, dtype=np.uint32) * HASH) >> 15
        self.drawn += count
        return ((scattered % (2 * most + 1)).astype(np.int32).reshape(shape) - most).astype(dtype)

    def pixels(self, array: np.ndarray) -> View:
        """An operand of (h, w, c)."""
        h, w, c = array.shape
        return View(SLOT_IN, self._place(array), h, w, c, c, array.dtype.name)

    def tensor(self, array: np.ndarray) -> Strided:
        return Strided(SLOT_IN, self._place(array), array.shape, strides_of(array.shape), array.dtype.name)

    def constant(self, array: np.ndarray) -> Strided:
        return Strided(CONSTANT, 0, array.shape, strides_of(array.shape), array.dtype.name, array)

    def of_pixels(
        self, kind: str, src: View | tuple[View, ...], size: tuple[int, int, int], params: Mapping[str, Any], *,
        algorithm: Any = None, weight: np.ndarray | None = None, bias: np.ndarray | None = None, dtype: str = "",
    ) -> None:  # fmt: skip
        """A step on pixels, with a result of ``size`` (h, w, c)."""
        src = src if isinstance(src, tuple) else (src,)
        dtype = dtype or src[0].dtype
        h, w, c = size
        dst = View(SLOT_OUT, self._room(prod(size), dtype), h, w, c, c, dtype)
        self.steps.append((Step(kind, kind, src, dst, params, weight, bias), algorithm))

    def of_tensors(
        self, kind: str, src: tuple[Strided, ...], shape: tuple[int, ...], params: Mapping[str, Any], dtype: str = ""
    ) -> None:
        dtype = dtype or src[0].dtype
        dst = Strided(SLOT_OUT, self._room(prod(shape), dtype), shape, strides_of(shape), dtype)
        self.steps.append((Step(kind, kind, src, dst, params), None))

    def probe(self, op: str, type_: str, dtype: str) -> None:
        """A measure of the core, on ones: of every kernel the same for each element of its tile."""
        self.probes.append(((op, type_), np.ones(MEASURED, dtype)))

    def run(self, kernels: Kernels, core: int) -> list[np.ndarray]:
        """The result of each step, flat, on a thread that may be pinned to the core."""
        from .kernels import CpuProgram

        slot = np.zeros(max(LINE, self.in_bytes), np.uint8)
        at = 0
        for array in self.given:
            slot[at : at + array.nbytes] = array
            at += _padded(array.nbytes)
        program = CpuProgram(kernels, (core,), "pa-check", (LINE, slot.nbytes, max(LINE, self.out_bytes)))
        for step, algorithm in self.steps:
            program.add(step, algorithm)
        out = program.run(slot)
        found = [self._result(out, step.dst) for step, _ in self.steps]
        return found + [_probed(kernels[key], x) for key, x in self.probes]

    def _result(self, out: np.ndarray, dst: View | Strided) -> np.ndarray:
        begin = dst.offset * item_bytes(dst.dtype)
        return out[begin : begin + dst.nbytes].view(dst.dtype)

    def _place(self, array: np.ndarray) -> int:
        """Where it lies in the input slot, in elements."""
        begin = self.in_bytes
        self.given.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        self.in_bytes += _padded(array.nbytes)
        return begin // array.itemsize

    def _room(self, count: int, dtype: str) -> int:
        begin = self.out_bytes
        self.out_bytes += _padded(count * item_bytes(dtype))
        return begin // item_bytes(dtype)


def _probed(name: str, x: np.ndarray) -> np.ndarray:
    from .kernels import probe

    row = next(row for row in ROWS if row.name == name)
    return np.array([probe(name, 3, x) / (row.mr * row.nr)])


def _padded(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE
