"""The slices of a stage that the vendor's tool has compiled, and what moves between them, the slots and the NPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import NamedTuple

from pipeall.errors import DeviceError
from pipeall.graph.ir import Tensor
from pipeall.pipeline.devices.network_parts import Part, Place, network_parts
from pipeall.pipeline.devices.network_slices import Slice, Slices
from pipeall.steps import Lowered

FOLDERS = "PIPEALL_RKNN_SLICES"
RANK = 4


class Compiled(NamedTuple):
    """A network of a stage, and the slice that computes it, with its file; None where it only copies."""

    part: Part
    slice: Slice | None

    @property
    def file(self) -> Path | None:
        return self.slice and self.slice.file.with_suffix(".rknn")

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """In the order of the file."""
        return tuple(self.part.graph.tensors[name] for name in self.slice.inputs) if self.slice else ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.part.graph.tensors[name] for name in self.slice.outputs) if self.slice else ()


class View(NamedTuple):
    """A tensor of floats in memory: how many elements there are along each axis of its shape, and how far apart."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], nhwc: bool, stride: int = 0) -> View:
        """``stride``: of pixels, where there are gaps between them. The axes are those of the model's shape."""
        if nhwc:
            images, channels, height, width = shape
            pixel = stride or channels
            return cls((images, channels, height, width), (height * width * pixel, 1, width * pixel, pixel))
        strides = tuple(accumulate(reversed(shape[1:]), int.__mul__, initial=1))[::-1]
        if len(shape) == RANK:
            return cls(tuple(shape), strides)
        return cls((1,) * (RANK - 1) + (prod(shape),), (0,) * (RANK - 1) + (1,))

    @classmethod
    def in_slot(cls, place: Place) -> View:
        if place.tensor.dtype != "float32":
            raise DeviceError(f"npu: expected float32 across a cut, got {place.tensor.dtype} of {place.tensor.name}")
        return cls.of(place.tensor.shape, place.nhwc, place.stride)


def folders() -> tuple[Path, ...]:
    """Where slices lie. Raises DeviceError where the environment does not say."""
    if not (text := os.environ.get(FOLDERS)):
        raise DeviceError(f"{FOLDERS}: expected folders of slices with their .rknn files, got none")
    return tuple(map(Path, text.split(os.pathsep)))


def compiled(lowered: Lowered, by_group: bool) -> list[Compiled]:
    """The slices of a stage: one, or where it has no file those of its groups, which are also what can be timed.

    Raises DeviceError naming the first node that no file computes.
    """
    known = [Slices.load(folder) for folder in folders()]
    if not by_group and None not in (whole := list(_files(network_parts(lowered), known))):
        return whole
    parts = network_parts(lowered, by_group=True)
    for part, one in zip(parts, found := list(_files(parts, known)), strict=True):
        if one is None:
            raise DeviceError(f"{part.name}: expected a .rknn file of its slice in {FOLDERS}, got none")
    return found


def _files(parts: Sequence[Part], known: Sequence[Slices]) -> Iterator[Compiled | None]:
    for part in parts:
        if not part.graph.nodes:
            yield Compiled(part, None)
            continue
        slices = filter(None, (one.find(part.graph) for one in known))
        ready = (found for found in (Compiled(part, one) for one in slices) if found.file.exists())
        yield next(ready, None)
