"""Transposed convolutions as convolutions: one for every phase of the stride, whose results are then interleaved.

Output row q = stride * j + r, counted before the pads crop, meets the taps k with k * dilation = r + stride * t, on
input row j - t. Of one r these t are evenly spaced, so that the rows of one phase are a convolution with every (stride
/ gcd)-th tap, flipped. All phases compute the same rows j, in channels side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

import numpy as np

from ...errors import ModelError
from ...steps import View
from ..ir import Node
from ..ops import attributes
from .lowering import Lowering
from .strides import of_view, place

MOST_PHASES = 64  # more of them are one convolution, some of whose taps are 0
MOST_WEIGHTS = 2**28  # of that


@dataclass(frozen=True)
class Phase:
    """The taps of an axis that meet output rows of one remainder.

    first, every, taps  which of the kernel's rows: first, first + every, ...
    least, spacing      t of the first tap, and from each to the next
    """

    first: int
    every: int
    taps: int
    least: int
    spacing: int

    @property
    def most(self) -> int:
        return self.least + (self.taps - 1) * self.spacing


NONE = Phase(0, 1, 1, 0, 1)  # a tap of weight 0


def phases(kernel: int, stride: int, dilation: int) -> list[Phase]:
    """Of every remainder of an axis. One that meets no tap gets one, of weight 0, as ``taps`` = 0."""
    shared = gcd(stride, dilation)
    every, spacing = stride // shared, dilation // shared
    phases = []
    for r in range(stride):
        met = [k for k in range(min(every, kernel)) if k * dilation % stride == r]
        first = met[0] if met else 0
        taps = len(range(first, kernel, every)) if met else 0
        phases.append(Phase(first, every, taps, (first * dilation - r) // stride if met else 0, spacing))
    return phases


def rows_of(phases: list[Phase], size: int, out: int, pad: int) -> tuple[int, int]:
    """The rows j that all phases compute: those that are wanted, and as many more as leave no pad negative."""
    stride = len(phases)
    begin = min(-(-(pad - r) // stride) for r in range(stride))
    end = max((out - 1 + pad - r) // stride for r in range(stride))
    met = [phase if phase.taps else NONE for phase in phases]
    begin = min(begin, *(phase.most for phase in met))
    end = max(end, *(size - 1 + phase.least for phase in met))
    return begin, end + 1


def deconv(to: Lowering, node: Node) -> None:
    attrs, weight, bias = node.attrs, to.constant(node, 1), to.constant(node, 2)
    x, (n, cout, out_h, out_w) = to.pixels(node), to.shape(node.output)
    in_h = x.h // n
    axes = [phases(weight.shape[2 + a], attrs["strides"][a], attrs["dilations"][a]) for a in (0, 1)]
    spans = [rows_of(axes[a], (in_h, x.w)[a], (out_h, out_w)[a], attrs["pads"][a]) for a in (0, 1)]
    (top, bottom), (left, right) = spans
    all_phases = list(product(*axes))
    by_phase = weight.reshape(attrs["groups"], -1, *weight.shape[1:]).swapaxes(1, 2)  # (g, cout / g, cin / g, kh, kw)
    made = to.storage((n, len(all_phases) * cout, bottom - top, right - left), x.dtype)
    convs = _together(node, by_phase, all_phases) if _even(axes, by_phase) else _apart(by_phase, all_phases)
    begin = 0
    for taps, (least, spacing) in convs:
        count = len(taps)
        kernel = taps.shape[2:]
        pads = [least[a] + (kernel[a] - 1) * spacing[a] - spans[a][0] for a in (0, 1)]
        ends = [spans[a][1] - 1 - least[a] - ((in_h, x.w)[a] - 1) for a in (0, 1)]
        params = attributes("conv", pads=(*pads, *ends), dilations=spacing, groups=attrs["groups"], lo=attrs["lo"],
                            hi=attrs["hi"])  # fmt: skip
        many = np.repeat(bias.reshape(attrs["groups"], 1, -1), count // cout, 1).reshape(-1)
        for i in range(n):
            rows_in = replace(x, offset=x.offset + i * in_h * x.w * x.stride, h=in_h)
            part = made.h // n
            offset = made.offset + i * part * made.w * made.stride + begin
            target = replace(made, offset=offset, h=part, c=count)
            to.step("conv", node, (rows_in,), target, {"kernel": kernel, **params}, taps, many)
        begin += count
    _interleave(to, node, made, (top, left), len(convs) == 1 and len(all_phases) > 1)


def _even(axes: list[list[Phase]], weight: np.ndarray) -> bool:
    """Whether one convolution computes all phases: their taps meet the same inputs, or there are too many phases. By
    itself each phase of a depthwise one is depthwise."""
    alike = all(len({(phase.taps, phase.least) for phase in axis}) == 1 and axis[0].taps for axis in axes)
    depthwise = len(weight) > 1 and weight.shape[2] == 1
    return (alike and not depthwise) or len(axes[0]) * len(axes[1]) > MOST_PHASES


def _taps_of(weight: np.ndarray, phase: tuple[Phase, Phase]) -> np.ndarray:
    """(g, cout / g, cin / g, taps, taps), flipped."""
    down, across = phase
    rows = weight[..., down.first :: down.every, :][..., : down.taps, :]
    return rows[..., across.first :: across.every][..., : across.taps][..., ::-1, ::-1]


def _apart(weight: np.ndarray, all_phases: list[tuple[Phase, Phase]]) -> list[tuple[np.ndarray, tuple]]:
    parts = []
    for phase in all_phases:
        taps = _taps_of(weight, phase)
        if 0 in taps.shape:
            taps = np.zeros((*weight.shape[:3], *(max(p.taps, 1) for p in phase)), weight.dtype)
            phase = tuple(p if p.taps else NONE for p in phase)
        flat = np.ascontiguousarray(taps.reshape(-1, *taps.shape[2:]))
        parts.append((flat, (tuple(p.least for p in phase), tuple(p.spacing for p in phase))))
    return parts


def _together(node: Node, weight: np.ndarray, all_phases: list[tuple[Phase, Phase]]) -> list[tuple[np.ndarray, tuple]]:
    """All phases as the output channels of one convolution: (g, phase, cout / g, ...).

    Its taps lie where those of any phase do; where two phases begin at other distances than taps have, some are 0.
    """
    met = [[p[a] for p in all_phases if p[a].taps] for a in (0, 1)]
    least = tuple(min(phase.least for phase in axis) for axis in met)
    spacing = tuple(gcd(*(p.least - least[a] for p in axis), axis[0].spacing) for a, axis in enumerate(met))
    size = [(max(p.most for p in axis) - least[a]) // spacing[a] + 1 for a, axis in enumerate(met)]
    g, cout, cin = weight.shape[:3]
    count = prod((g, len(all_phases), cout, cin, *size))
    if count > MOST_WEIGHTS:
        what = f"at most {MOST_WEIGHTS} weights, of all phases of its strides, got {count}"
        raise ModelError(f"node {node.name!r} ({node.op}): expected {what}")
    whole = np.zeros((g, len(all_phases), cout, cin, *size), weight.dtype)
    for number, phase in enumerate(all_phases):
        if all(p.taps for p in phase):
            rows, columns = (_places(p, least[a], spacing[a], size[a]) for a, p in enumerate(phase))
            whole[:, number, :, :, rows, columns] = _taps_of(weight, phase)
    return [(whole.reshape(-1, cin, *size), (least, spacing))]


def _places(phase: Phase, least: int, spacing: int, size: int) -> slice:
    """Where the taps of a phase are among flipped ones that begin at ``least``."""
    step, last = phase.spacing // spacing, size - 1 - (phase.least - least) // spacing
    return slice(last - (phase.taps - 1) * step, last + 1, step)


def _interleave(to: Lowering, node: Node, made: View, begin: tuple[int, int], together: bool) -> None:
    """Copies every phase's rows to those of the output that it computes: all of them at once where they are alike."""
    (sy, sx), (top, left) = node.attrs["strides"], node.attrs["pads"][:2]
    out, groups = to.target(node), node.attrs["groups"] if together else 1
    n, cout, out_h, out_w = out.shape
    each = cout // groups
    source = of_view(made, (n, made.c, made.h // n, made.w))
    (by_n, _, by_h, by_w), (image, channel, line, pixel) = source.strides, out.strides
    down, across = _rows(sy, top, out_h), _rows(sx, left, out_w)
    alike = groups == 1 and len(set(down)) == len(set(across)) == 1
    for ry, rx in product(range(1 if alike else sy), range(1 if alike else sx)):
        (first_y, count_y), (first_x, count_x) = down[ry], across[rx]
        if min(count_y, count_x) < 1:
            continue
        offset = (first_y - begin[0]) * by_h + (first_x - begin[1]) * by_w + (ry * sx + rx) * each
        at = (first_y * sy + ry - top) * line + (first_x * sx + rx - left) * pixel
        if alike:
            dims = (n, count_y, sy, count_x, sx, each)
            given = (by_n, by_h, sx * each, by_w, each, 1)
            strides = (image, sy * line, line, sx * pixel, pixel, channel)
        else:
            dims = (n, count_y, count_x, groups, each)
            given = (by_n, by_h, by_w, sy * sx * each, 1)
            strides = (image, sy * line, sx * pixel, each * channel, channel)
        moved = place(made.base, made.offset + offset, dims, given, made.dtype)
        to.copy(node.name, moved, place(out.base, out.offset + at, dims, strides, out.dtype))


def _rows(stride: int, pad: int, out: int) -> list[tuple[int, int]]:
    """Of every remainder of an axis: the first row j that is wanted, and how many."""
    first = [-(-(pad - r) // stride) for r in range(stride)]
    return [(j, (out - 1 + pad - r) // stride - j + 1) for r, j in enumerate(first)]
