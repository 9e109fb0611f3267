"""Launches of conv.cl: convolutions, and the products of Winograd's."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from ...steps import Step
from .methods import block
from .recorder import Recorder, at, blocked


def direct(recorder: Recorder, step: Step, residual: tuple, clamp: tuple) -> None:
    x, out, p = step.src[0], step.dst, step.params
    groups, cin = p["groups"], step.weight.shape[1]
    taps = step.weight.reshape(groups, -1, cin, prod(p["kernel"])).swapaxes(2, 3)
    window = (*p["kernel"], *p["strides"], *p["pads"][:2], *p["dilations"])
    memories = (*at(x), x.h, x.w, *at(out), out.h * out.w, out.w, *residual)
    multiply(recorder, step, memories, taps.reshape(groups, taps.shape[1], -1), step.bias, cin, window, clamp)


def multiply(
    recorder: Recorder,
    step: Step,
    memories: tuple,
    weight: np.ndarray,
    bias: np.ndarray,
    cin: int,
    window: tuple,
    clamp: tuple,
    transform: np.ndarray | None = None,
) -> None:
    """conv.cl; weight: (groups, cout of one, taps x cin), bias: one number for each output channel."""
    groups, cout = len(weight if transform is None else transform), weight.shape[1]
    method, pixels = recorder.methods[id(step)], memories[8]
    tile = recorder.family.conv | dict(VECTOR=method.vector, PIXELS=method.pixels)
    if pixels == 1:
        tile |= dict(PIXELS=1, LOCAL_PIXELS=1, LOCAL_BLOCKS=tile["LOCAL_PIXELS"] * tile["LOCAL_BLOCKS"])
    blocks = ceil(cout / tile["VECTOR"])
    packed = (
        recorder.weights(step, weight, tile["VECTOR"], transform),
        blocked(bias.reshape(groups, cout, 1), tile["VECTOR"]),
    )
    tile |= recorder.types(X=memories[0], Y=memories[5], R=memories[10]) | dict(BLOCK=block(cin * prod(window[:2])))
    items = (ceil(pixels / tile["PIXELS"]), groups * blocks)
    counts = (groups, cin, cout, blocks)
    recorder.launch(
        step, "conv.cl", "conv", items, *memories, *packed, recorder.zeros, *counts, *window, *clamp, **tile
    )
