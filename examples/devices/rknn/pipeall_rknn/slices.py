"""The slices of a stage that the vendor's tool has compiled, and what moves between them, the slots and the NPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import NamedTuple

from pipeall.errors import DeviceError
from pipeall.graph.ir import Tensor
from pipeall.pipeline.devices.network_parts import Part, Place
from pipeall.pipeline.devices.network_slices import Slice
from pipeall.pipeline.devices.stage_slices import SliceFiles
from pipeall.steps import Lowered

FOLDERS = "PIPEALL_RKNN_SLICES"
SUFFIX = ".rknn"
RANK = 4


class Compiled(NamedTuple):
    """A network of a stage, and the slice that computes it, with its file; None where it only copies."""

    part: Part
    slice: Slice | None

    @property
    def file(self) -> Path | None:
        return self.slice and self.slice.file.with_suffix(SUFFIX)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """In the order of the file."""
        return tuple(self.part.graph.tensors[name] for name in self.slice.inputs) if self.slice else ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.part.graph.tensors[name] for name in self.slice.outputs) if self.slice else ()


class View(NamedTuple):
    """A tensor in memory: how many elements there are along each axis of its shape, and how far apart."""

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
        return cls.of(place.tensor.shape, place.nhwc, place.stride)


def folders() -> tuple[Path, ...]:
    """Where slices lie. Raises DeviceError where the environment does not say."""
    if not (text := os.environ.get(FOLDERS)):
        raise DeviceError(f"{FOLDERS}: expected folders of slices with their .rknn files, got none")
    return tuple(map(Path, text.split(os.pathsep)))


def files() -> SliceFiles:
    """What the vendor's tool has made of them. Raises DeviceError or ArgumentError naming what is wrong."""
    return SliceFiles(folders(), SUFFIX)


def compiled(lowered: Lowered, by_group: bool) -> list[Compiled]:
    """The files of a stage, in turn. Raises DeviceError naming the first node that no file computes."""
    return [Compiled(*one) for one in files().of(lowered, by_group)]
