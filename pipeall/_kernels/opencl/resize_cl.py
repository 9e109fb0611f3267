"""Launches of resize.cl."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...steps import Step
from .axes import filled, grid
from .recorder import Kind, Recorder, whole


def resize(recorder: Recorder, step: Step) -> None:
    (x,), out, taps = step.src, step.dst, step.params["taps"]
    moves = _moves(taps)
    x_strides = tuple(0 if axis in taps else stride for axis, stride in enumerate(x.strides))
    order = sorted(range(len(out.shape)), key=lambda axis: (abs(out.strides[axis]), -out.shape[axis]))
    order = [axis for axis in order if out.shape[axis] != 1 or axis in taps] or [0]
    shape, steps, to = (tuple(row[axis] for axis in order) for row in (out.shape, x_strides, out.strides))
    items, rank = grid(shape)
    args = [recorder.memory(x), x.offset, filled(steps), recorder.memory(out), out.offset, filled(to), shape]
    known = dict(X=recorder.stored(x), Y=recorder.stored(out), WHOLE=whole((x,)), RANK=rank, NEAREST=int(moves))
    for number, (axis, (indices, weights)) in enumerate(taps.items()):
        args += [recorder.table(indices, np.int32), recorder.table(weights, np.float32), weights.shape[1]]
        args += [x.strides[axis]]
        known[f"AXIS{number}"] = f"s{order.index(axis)}"
    args += [None, None, 0, 0] * (3 - len(taps))
    recorder.launch(step, "resize.cl", "resize", items, *args, AXES=len(taps), **known)


def _moves(taps: Any) -> bool:
    """Every element is one of the input."""
    return all(weights.shape[1] == 1 and (weights == 1).all() for _, weights in taps.values())


def _refusal(step: Step) -> str | None:
    taps = step.params["taps"]
    if not 1 <= len(taps) <= 3:
        return f"resizes 1 to 3 axes, got {len(taps)}"
    if whole(step.src) and not _moves(taps):
        return f"has no interpolation of {step.src[0].dtype}"
    for axis, (indices, _) in taps.items():
        if indices.min() < 0 or indices.max() >= step.src[0].shape[axis]:
            return f"expected indices below {step.src[0].shape[axis]} along axis {axis}, got others"
    return None


KINDS = {"resize": Kind(resize, (_refusal,))}
