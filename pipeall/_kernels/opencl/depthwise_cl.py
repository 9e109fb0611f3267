"""Launches of depthwise.cl."""

from __future__ import annotations

from math import ceil

from ...steps import Step
from .methods import DEPTHWISE_PIXELS
from .recorder import Base, Recorder, at, blocked


def depthwise(recorder: Recorder, step: Step, residual: tuple, clamp: tuple) -> None:
    x, out, p = step.src[0], step.dst, step.params
    blocks = ceil(x.c / recorder.family.window["VECTOR"])
    width = blocks * recorder.family.window["VECTOR"]
    weight, bias = (
        recorder.weights(step, step.weight.reshape(1, x.c, -1), width),
        blocked(step.bias.reshape(1, x.c, 1), width),
    )
    args = (*at(x), x.h, x.w, x.c, *at(out), out.w, *residual, weight, bias)
    rows = (p["kernel"][0], p["strides"][0], *p["pads"][:2], p["dilations"][0])
    columns = dict(KW=p["kernel"][1], STRIDE_X=p["strides"][1], DILATION_X=p["dilations"][1])
    items = (blocks, ceil(out.w / DEPTHWISE_PIXELS), out.h)
    known = dict(recorder.family.window) | columns | dict(PIXELS=DEPTHWISE_PIXELS)
    known |= recorder.types(X=Base(x.base), Y=Base(out.base), R=residual[0])
    recorder.launch(step, "depthwise.cl", "depthwise", items, *args, *rows, *clamp, **known)
