"""Rules of ``rewrite`` on what scales and shifts channels: before a convolution it goes into the weights, and parallel
linear branches become one convolution (RepVGG, MobileOne, FastViT as trained)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ir import Node
from ..ops import attributes, unclamped
from .editor import GraphEditor


@dataclass(frozen=True)
class Branch:
    """scale * x + shift per channel of the image x, or a convolution of it."""

    x: str
    conv: Node | None = None
    scale: np.ndarray | float = 1.0
    shift: np.ndarray | float = 0.0


def merge_branches(editor: GraphEditor, node: Node) -> bool:
    """Makes one convolution of the sum or difference of two branches of one image, at least one of them a convolution.

    The smaller kernel's taps are added to those of the larger that meet the same pixels.
    """
    if node.op not in ("add", "sub") or len(editor.shapes[node.output]) != 4:
        return False
    if any(name in editor.constants or editor.shapes[name] != editor.shapes[node.output] for name in node.inputs):
        return False
    a, b = (_branch(editor, name) for name in node.inputs)
    signs = (1, 1) if node.op == "add" else (-1, 1) if node.attrs["swapped"] else (1, -1)
    if a.x != b.x or (a.conv is None and b.conv is None):
        return False
    large, small = (0, 1) if _size(editor, a) >= _size(editor, b) else (1, 0)
    merged = _merged(editor, (a, b)[large], (a, b)[small], signs[large], signs[small])
    if merged is None:
        return False
    weight, bias = merged
    conv = (a, b)[large].conv
    if max(np.abs(weight).max(), np.abs(bias).max()) > np.finfo(np.float32).max:
        return False
    names = editor.constant(f"{conv.name}.weight", weight), editor.constant(f"{conv.name}.bias", bias)
    attrs = {**conv.attrs, "lo": node.attrs["lo"], "hi": node.attrs["hi"]}
    return editor.put(node, op="conv", inputs=(conv.inputs[0], *names), attrs=attrs)


def fold_normalization(editor: GraphEditor, node: Node) -> bool:
    """Folds a scale and a shift of each channel ahead of a convolution into weights and bias. Ahead of padding, which
    they do not change, the shift stays a sum."""
    if node.op != "conv" or any(name not in editor.constants for name in node.inputs[1:3]):
        return False
    branch = _branch(editor, node.inputs[0])
    padded, scaled = any(node.attrs["pads"]), np.any(branch.scale != 1)
    if branch.conv is not None or branch.x in editor.constants or not (scaled or (np.any(branch.shift) and not padded)):
        return False
    weight, bias = (editor.constants[name].astype(np.float64) for name in node.inputs[1:3])
    groups, channels = node.attrs["groups"], editor.shapes[branch.x][1]
    scale, shift = (
        np.broadcast_to(values, channels).reshape(groups, 1, -1, 1, 1) for values in (branch.scale, branch.shift)
    )
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    ahead = padded and shift.any()
    if ahead and (scale == 0).any():
        return False
    if not ahead:
        bias = bias + (by_group * shift).sum((2, 3, 4)).reshape(-1)
    weight = (by_group * scale).reshape(weight.shape)
    sums = (shift / scale if ahead else shift).reshape(1, -1, 1, 1)
    if max(np.abs(values).max() for values in (weight, bias, sums)) > np.finfo(np.float32).max:
        return False
    x = branch.x
    if ahead:
        operand = editor.constant(f"{node.name}.shift", sums)
        x = editor.insert("add", f"{node.name}.shifted", (x, operand), attributes("add"), node)
    names = editor.constant(f"{node.inputs[1]}.scaled", weight), editor.constant(f"{node.inputs[2]}.shifted", bias)
    return editor.put(node, inputs=(x, *names, *node.inputs[3:]))


def _branch(editor: GraphEditor, name: str) -> Branch:
    conv = editor.producer_for_one(name, "conv")
    if conv is not None and len(conv.inputs) == 3 and unclamped(conv):
        return Branch(conv.inputs[0], conv)
    scale, shift = np.float64(1), np.float64(0)
    while (node := editor.producer_for_one(name, "mul", "add", "sub")) is not None and unclamped(node):
        values = _per_channel(editor, node)
        if values is None:
            break
        if node.op == "mul":
            scale, shift = scale * values, shift
        elif node.op == "sub" and node.attrs["swapped"]:
            scale, shift = -scale, shift + scale * values
        else:
            shift = shift + scale * (values if node.op == "add" else -values)
        name = node.inputs[0]
    return Branch(name, None, scale, shift)


def _per_channel(editor: GraphEditor, node: Node) -> np.ndarray | None:
    """A constant second operand with one number per channel, or one in all."""
    operand, shape = editor.constants.get(node.inputs[1]), editor.shapes[node.output]
    if operand is None or editor.shapes.get(node.inputs[0]) != shape or len(shape) != 4:
        return None
    fits = operand.size == 1 or operand.shape[1] == operand.size == shape[1]
    return operand.reshape(-1).astype(np.float64) if fits else None


def _size(editor: GraphEditor, branch: Branch) -> int:
    return 0 if branch.conv is None else editor.constants[branch.conv.inputs[1]][0, 0].size


def _merged(
    editor: GraphEditor, large: Branch, small: Branch, sign: int, small_sign: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Weight and bias of both; None where their pixels do not meet."""
    attrs = large.conv.attrs
    weight, bias = (sign * editor.constants[name].astype(np.float64) for name in large.conv.inputs[1:])
    if small.conv is None:
        channels = editor.shapes[large.x][1]
        if attrs["strides"] != (1, 1) or len(weight) != channels:
            return None
        other = np.zeros((*weight.shape[:2], 1, 1))
        index = np.arange(channels)
        other[index, index % weight.shape[1], 0, 0] = small.scale
        other_bias, pads, dilations = np.broadcast_to(small.shift, bias.shape), (0, 0), None
    else:
        inner = small.conv.attrs
        other, other_bias = (editor.constants[name].astype(np.float64) for name in small.conv.inputs[1:])
        if inner["strides"] != attrs["strides"] or inner["groups"] != attrs["groups"]:
            return None
        pads, dilations = inner["pads"][:2], inner["dilations"]
    at = []
    for axis in (0, 1):
        apart, size = attrs["pads"][axis] - pads[axis], other.shape[2 + axis]
        alike = size == 1 or dilations[axis] == attrs["dilations"][axis]
        first = apart // attrs["dilations"][axis]
        if apart % attrs["dilations"][axis] or not alike or not 0 <= first <= weight.shape[2 + axis] - size:
            return None
        at.append(slice(first, first + size))
    weight[:, :, at[0], at[1]] += small_sign * other
    return weight, bias + small_sign * other_bias
