"""Launches of index.cl."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from ...steps import Step
from .axes import RANK_MAX, filled, grid, joined
from .recorder import C_TYPES, Kind, Recorder, whole


def gather(recorder: Recorder, step: Step) -> None:
    (x, index), out, axis = step.src, step.dst, step.params["axis"]
    if step.kind == "gather":
        inner = len(x.shape) - axis - 1
        x_strides = (*x.strides[:axis], *(0,) * len(index.shape), *x.strides[axis + 1 :])
        index_strides = (*(0,) * axis, *index.strides, *(0,) * inner)
    else:
        x_strides = tuple(0 if i == axis else stride for i, stride in enumerate(x.strides))
        index_strides = index.strides
    shape, strides = joined(out.shape, x_strides, index_strides, out.strides)
    items, rank = grid(shape)
    args = [recorder.memory(x), x.offset, filled(strides[0]), x.strides[axis], x.shape[axis]]
    args += [recorder.memory(index), index.offset, filled(strides[1])]
    args += [recorder.memory(out), out.offset, filled(strides[2]), shape]
    types = dict(X=recorder.stored(x), I=recorder.stored(index), Y=recorder.stored(out), WHOLE=whole((x,)))
    recorder.launch(step, "index.cl", "gather", items, *args, RANK=rank, **types)


def pad(recorder: Recorder, step: Step) -> None:
    (x,), out = step.src, step.dst
    axes = (axis for axis, size in enumerate(out.shape) if size > 1)
    order = sorted(axes, key=lambda axis: abs(out.strides[axis])) or [0]
    shape, to = (tuple(row[axis] for axis in order) for row in (out.shape, out.strides))
    items, rank = grid(shape)
    places = [np.where(row < 0, -1, row * x.strides[axis]) for axis in order for row in [step.params["places"][axis]]]
    *starts, end = accumulate(map(len, places), initial=0)
    starts += [end] * (RANK_MAX - len(starts))  # axes that are not there find 0
    value = np.full(1, step.params["value"], out.dtype)
    args = [recorder.memory(x), x.offset, recorder.table(np.concatenate([*places, [0]]), np.int32), tuple(starts)]
    args += [recorder.table(value, out.dtype), recorder.memory(out), out.offset, filled(to), shape]
    types = dict(X=recorder.stored(x), V=C_TYPES[out.dtype], Y=recorder.stored(out), WHOLE=whole((x,)))
    recorder.launch(step, "index.cl", "pad", items, *args, RANK=rank, **types)


KINDS = dict.fromkeys(("gather", "gather_elements"), Kind(gather)) | {"pad": Kind(pad)}
