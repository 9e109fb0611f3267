"""Convolutions with strides as ones of stride 1, for Winograd: s x s pixels of C channels are one of s * s * C.

A kernel of k x k taps at stride s is one of ceil(k / s) x ceil(k / s) taps of such pixels, where the taps beyond k are
zeros. The first layer of a ResNet, of 7 x 7 taps, 3 channels and stride 2, is of 4 x 4 taps and 12 channels. It has
more products than before until Winograd saves most of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...steps import Step

MOST_STRIDE = 4
PART = 128  # channels of all phases whose sums Winograd makes in one part (drivers/winograd.c)
LANES = 16  # of more, parts are of a row of phases, in vectors of any kernel


def phases_of(step: Step) -> int:
    """The stride of a convolution that has phases; 1 of any other."""
    p = step.params
    (down, right), alike = p["strides"], p["groups"] == 1 and p["dilations"] == (1, 1)
    channels = step.src[0].c * down
    fits = alike and 1 < down == right <= MOST_STRIDE and (channels * down <= PART or channels % LANES == 0)
    return down if fits and step.src[0].dtype == step.dst.dtype != "int8" else 1


def phased(step: Step) -> Step:
    """The shapes of the convolution of stride 1; the weights stay. Its input is no view of that of the step."""
    s = phases_of(step)
    if s == 1:
        return step
    kernel = tuple(-(-k // s) for k in step.params["kernel"])
    x = replace(step.src[0], c=step.src[0].c * s * s)
    return replace(step, src=(x, *step.src[1:]), params=step.params | {"kernel": kernel, "strides": (1, 1)})


def phased_weight(step: Step) -> np.ndarray:
    """Its weights: (channels out, s * s * channels in, taps, taps), the phases down slowest."""
    s, (cout, cin, *kernel) = phases_of(step), step.weight.shape
    taps = [-(-k // s) for k in kernel]
    ends = [(0, s * t - k) for t, k in zip(taps, kernel, strict=True)]
    whole = np.pad(step.weight, ((0, 0), (0, 0), *ends)).reshape(cout, cin, taps[0], s, taps[1], s)
    return np.ascontiguousarray(whole.transpose(0, 3, 5, 1, 2, 4).reshape(cout, -1, *taps))
