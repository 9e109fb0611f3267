"""Launches of copy.cl: elements that move as they are."""

from __future__ import annotations

import numpy as np

from ...steps import Step, item_bytes
from .recorder import Base, Define, Kind, Recorder, at

# Elements that are moved as bits, by their bytes.
INTEGERS = {1: (np.uint8, "uchar"), 2: (np.uint16, "ushort"), 4: (np.uint32, "uint"), 8: (np.uint64, "ulong")}


def copy(recorder: Recorder, step: Step) -> None:
    x, out = step.src[0], step.dst
    axes = zip(*(step.params[key] for key in ("dims", "src_strides", "dst_strides")), strict=True)
    # Neighbouring work items go along an axis that is dense on one side: the longer one, if there are two.
    dims, src_strides, dst_strides = zip(*sorted(axes, key=lambda axis: (min(axis[1:]), -axis[0])), strict=True)
    args = (Base(x.base), x.offset, src_strides, Base(out.base), out.offset, dst_strides, dims)
    types = _moved(recorder, step, X=Base(x.base), Y=Base(out.base))
    recorder.launch(step, "copy.cl", "copy", dims[:3], *args, RANK=max(len(dims), 3), **types)


def fill(recorder: Recorder, step: Step) -> None:
    out = step.dst
    element = np.array(step.params["value"], out.dtype)
    value = float(element) if out.dtype == "float32" else element.view(INTEGERS[element.itemsize][0])[()]
    args = (*at(out), out.c, value)
    recorder.launch(step, "copy.cl", "fill", (out.c, out.h * out.w), *args, **_moved(recorder, step, Y=Base(out.base)))


def _moved(recorder: Recorder, step: Step, **memories: Base) -> dict[str, Define]:
    """The parameters of copy.cl: floats change their type between memories, all else moves as bits."""
    if step.dst.dtype == "float32":
        return recorder.types(**memories)
    integer = INTEGERS[item_bytes(step.dst.dtype)][1]
    return dict.fromkeys(memories, integer) | {"BITS": integer}


KINDS = {"copy": Kind(copy), "fill": Kind(fill)}
