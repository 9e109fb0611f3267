"""Launches of winograd.cl: Winograd's transforms around the products of conv.cl."""

from __future__ import annotations

from math import ceil, inf

import numpy as np

from ...steps import Step
from .conv_cl import multiply
from .methods import WINOGRAD_WEIGHT
from .recorder import Base, Recorder, at, blocked


def winograd(recorder: Recorder, step: Step, residual: tuple, clamp: tuple) -> None:
    x, out, m = step.src[0], step.dst, recorder.m(step)
    cout, cin = step.weight.shape[:2]
    down, across, points = ceil(out.h / m), ceil(out.w / m), (m + 2) ** 2
    known = dict(recorder.family.winograd[m]) | dict(M=m)
    vector, (inputs, products) = known["VECTOR"], recorder.transformed
    args = (*at(x), x.h, x.w, cin, inputs, *step.params["pads"][:2])
    types = recorder.types(X=Base(x.base), Y=inputs)
    recorder.launch(step, "winograd.cl", "winograd_input", (ceil(cin / vector), across, down), *args, **known, **types)

    memories = (inputs, 0, points * cin, down, across, products, 0, points * cout, down * across, across, None, 0, 0)
    nothing = np.zeros(points * cout, np.float32)
    once = (1, 1, 1, 1, 0, 0, 1, 1)
    g, taps = np.array(WINOGRAD_WEIGHT[m]), step.weight.reshape(cout, cin, -1).transpose(2, 0, 1)
    transform = np.kron(g, g).astype(np.float32)  # of the 9 taps: G g G^T
    multiply(recorder, step, memories, taps, nothing, cin, once, (-inf, inf), transform)

    bias = blocked(step.bias.reshape(1, cout, 1), ceil(cout / vector) * vector)
    args = (products, cout, *at(out), out.h, out.w, *residual, bias, *clamp)
    types = recorder.types(X=products, Y=Base(out.base), R=residual[0])
    recorder.launch(
        step, "winograd.cl", "winograd_output", (ceil(cout / vector), across, down), *args, **known, **types
    )
