"""Convolutions and pools of com.microsoft.nchwc, which onnxruntime writes where it optimizes for one processor.

Their tensors are (samples, channels, rows, columns) whose channels are filled up with zeros to whole blocks of the
processor. In what order they lie in memory is its own matter, but the file holds the weights of convolutions so:

    (O / b, I / b, rows, columns, b of I, b of O)    of tensors in blocks
    (O / b, I, rows, columns, b of O)                of images with fewer channels than b, and where a group has one

b is 8 or 16, as the processor has it, and is not in the file: it is what fits the sizes and the zeros of the weights,
else what makes them likely. Source: onnxruntime, core/optimizer/nchwc_transformer.cc.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .microsoft import CONV, convolved, renamed

DOMAIN = "com.microsoft.nchwc."
BLOCKS = (8, 16)
CERTAIN = 4.0  # standard deviations
POOL = "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"


def block_of(nodes: Sequence[OnnxNode], constants: Mapping[str, np.ndarray]) -> int:
    """Channels of a block in these nodes, in the order in which they run; 0 where none has weights.

    Warns where nothing in the file tells, and takes 16, which processors with AVX-512 have.
    """
    layers = list(_layers(nodes, constants))
    possible = [block for block in BLOCKS if all(_fits(*layer, block) for layer in layers)]
    if not layers or len(possible) < 2:
        return possible[0] if layers and possible else 0
    readings = [[_plain(weight, group, block) for block in BLOCKS] for weight, group, _ in layers]
    readings = [pair for pair in readings if not np.array_equal(*pair)]
    zeros = sum(_filled(wide) - _filled(narrow) for narrow, wide in readings)
    if zeros or not readings:
        return BLOCKS[0] if zeros < 0 else BLOCKS[1]
    gain = sum(_likelihood(wide) - _likelihood(narrow) for narrow, wide in readings)
    gain /= sqrt(sum(len(wide) for _, wide in readings))
    if abs(gain) < CERTAIN:
        message = (
            "its weights of com.microsoft.nchwc may lie in blocks of 8 or 16 channels, and nothing in the file says"
        )
        way_on = "should results be wrong, optimize it again with ORT_ENABLE_EXTENDED"
        warnings.warn(f"{message} which: 16 is taken, as of processors with AVX-512; {way_on}", stacklevel=2)
    return BLOCKS[0] if gain <= -CERTAIN else BLOCKS[1]


def _layers(nodes: Sequence[OnnxNode], constants: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, int, bool]]:
    """Weight, number of groups, and whether the input is in blocks, of every convolution."""
    blocked: set[str] = set()
    for node in nodes:
        weight = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.op == f"{DOMAIN}Conv" and weight is not None and weight.ndim == 4 and weight.size:
            yield weight, node.get("group", int, 1), node.inputs[0] in blocked
        if node.op.startswith(DOMAIN) or not blocked.isdisjoint(node.inputs):
            blocked.update(node.outputs if node.op != f"{DOMAIN}ReorderOutput" else ())


def _outputs_only(weight: np.ndarray, group: int, block: int) -> bool:
    """Whether only the output channels are in blocks."""
    outputs, inputs = weight.shape[:2]
    return inputs < block if group == 1 else inputs == 1 and outputs == group


def _fits(weight: np.ndarray, group: int, blocked: bool, block: int) -> bool:
    outputs, inputs = weight.shape[:2]
    if group < 1 or outputs % block:
        return False
    if _outputs_only(weight, group, block):
        return group > 1 or not blocked
    return inputs % block == 0 and outputs % (group * block) == 0 and (group > 1 or blocked)


def _plain(weight: np.ndarray, group: int, block: int) -> np.ndarray:
    """A weight as Conv has it: (outputs, inputs of a group, rows, columns)."""
    outputs, inputs, *kernel = weight.shape
    if _outputs_only(weight, group, block):
        whole = weight.reshape(outputs // block, inputs, *kernel, block).transpose(0, 4, 1, 2, 3)
    else:
        parts = weight.reshape(outputs // block, inputs // block, *kernel, block, block)
        whole = parts.transpose(0, 5, 1, 4, 2, 3)
    return np.ascontiguousarray(whole).reshape(weight.shape)


def _filled(weight: np.ndarray) -> int:
    """How many channels at the end are empty, of outputs and of inputs."""
    used = (weight.any(axis=(1 - axis, 2, 3)) for axis in (0, 1))
    return sum(len(some) - int(np.flatnonzero(some).max(initial=-1)) - 1 for some in used)


def _likelihood(weight: np.ndarray) -> float:
    """Logarithm of the likelihood, where every output channel is a normal distribution of its own."""
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    return float(-0.5 * rows.shape[1] * np.log(np.square(rows).mean(1) + np.finfo(np.float32).tiny).sum())


@operator(f"{DOMAIN}Conv", f"{CONV} activation activation_params", "as Conv; blocks of 8 or 16 channels")
def _conv(g: Builder, n: OnnxNode) -> None:
    weight, group = g.floats(n, 1), n.get("group", int, 1)
    if weight.ndim != 4 or not g.block or not any(_fits(weight, group, blocked, g.block) for blocked in (False, True)):
        n.fail(f"a weight {weight.shape} of {group} groups does not lie in blocks of 8 or 16 channels, as all others")
    plain = g.named(n, _plain(weight, group, g.block), "weight")
    convolved(g, replace(n, inputs=(n.inputs[0], plain, *n.inputs[2:])))


for _op in ("MaxPool", "GlobalMaxPool", "GlobalAveragePool", "AveragePool"):
    renamed(f"{DOMAIN}{_op}", _op, POOL + " count_include_pad" * (_op == "AveragePool"))


@operator(f"{DOMAIN}Upsample", "coordinate_transformation_mode mode scales")
def _upsample(g: Builder, n: OnnxNode) -> None:
    scales = g.named(n, np.array(n.ints("scales", 4), np.float32), "scales")
    mode, places = n.get("mode", str, "nearest"), n.get("coordinate_transformation_mode", str, "asymmetric")
    attrs = dict(mode=mode, coordinate_transformation_mode=places, nearest_mode="floor")
    g.apply(n, "Resize", [n.inputs[0], "", scales], **attrs)


def _image(g: Builder, n: OnnxNode) -> tuple[int, ...]:
    shape = g.shape_of(g.value(n, 0))
    return shape if len(shape) == 4 else n.fail(f"expected an image, got {shape}")


@operator(f"{DOMAIN}ReorderInput", "channels_last")
def _reorder_input(g: Builder, n: OnnxNode) -> None:
    shape, x, last = _image(g, n), n.inputs[0], bool(n.get("channels_last", int, 0))
    missing = -shape[3 if last else 1] % (g.block or 1)
    if last:
        x = g.apply(n, "Transpose", [x], "channels" if missing else "", perm=[0, 3, 1, 2])
    if missing:
        g.apply(n, "Pad", [x, g.named(n, np.array([0, 0, 0, 0, 0, missing, 0, 0]), "pads")])
    elif not last:
        g.bind(n, g.value(n, 0))


@operator(f"{DOMAIN}ReorderOutput", "channels channels_last")
def _reorder_output(g: Builder, n: OnnxNode) -> None:
    channels, last = n.get("channels", int), bool(n.get("channels_last", int, 0))
    cut = [g.named(n, np.array([value]), name) for name, value in (("start", 0), ("stop", channels), ("axis", 1))]
    if not 1 <= channels <= _image(g, n)[1]:
        n.fail(f"cannot take {channels} channels of {_image(g, n)}")
    x = g.apply(n, "Slice", [n.inputs[0], *cut], "channels" if last else "")
    if last:
        g.apply(n, "Transpose", [x], perm=[0, 2, 3, 1])
