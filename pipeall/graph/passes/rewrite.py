"""Rewrites a graph into fewer nodes with the same results: folded weights, fused clamps and residuals, no idle moves.

A rule looks at one node of a editor and returns whether it changed something; ``RULES`` is applied until none does.
Rules only remove nodes or merge neighbours, so cuts that one tensor crosses stay cuts. The names of the model's inputs
and outputs stay, the order stays topological, and equal graphs always give equal results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import Graph, Node
from ..ops import OPS, unclamped
from .editor import GraphEditor
from .rewrite_attention import fuse_attention, turn_attention
from .rewrite_division import multiplied
from .rewrite_linear import fold_normalization, merge_branches
from .rewrite_movement import join_slices, nest_concat, normalize_as_it_is
from .rewrite_pointwise import add_to_gate, make_activation
from .rewrite_quantized import drop_fakequant, read_what_was_stored, store_later, take_maxima_of_floats

CLAMPED = tuple(op for op, spec in OPS.items() if "lo" in spec.attrs)  # end in clamp(lo, hi)
FLOAT_MAX = np.finfo(np.float32).max


def rewrite(graph: Graph) -> Graph:
    """The simplified graph. Folding rounds weights, biases and 1 + gate once more to float32; all else is exact.
    A graph that computes with integers (``integers``) is as simple as it can be."""
    if graph.quantized:
        return graph
    editor = GraphEditor(multiplied(graph))
    changed = True
    while changed:
        changed = False
        for output in editor.ordered():
            changed |= any(output in editor.nodes and rule(editor, editor.nodes[output]) for rule in RULES)
    return editor.graph()


def _clamp(node: Node) -> dict[str, float]:
    return {"lo": node.attrs["lo"], "hi": node.attrs["hi"]}


# ---- rules ----


def drop_idle(editor: GraphEditor, node: Node) -> bool:
    """Removes nodes that copy their input, multiply it by 1 or add 0 (which makes zeros positive)."""
    if node.inputs[0] in editor.constants:
        return False
    attrs, shape = node.attrs, editor.shapes[node.inputs[0]]
    match node.op:
        case "reshape":
            idle = attrs["shape"] == shape
        case "transpose":
            idle = attrs["perm"] == tuple(range(len(shape)))
        case "slice":
            idle = attrs["stop"] - attrs["start"] == shape[attrs["axis"]] and attrs["step"] == 1
        case "expand":
            idle = attrs["shape"] == shape
        case "pad":
            idle = not any(attrs["pads_begin"] + attrs["pads_end"])
        case "shuffle":
            idle = attrs["groups"] in (1, shape[1])
        case "concat":
            idle = len(node.inputs) == 1
        case "clip":
            idle = unclamped(node)
        case "mul" | "add":
            other = editor.constants.get(node.inputs[1])
            same = editor.shapes[node.output] == shape
            idle = same and unclamped(node) and other is not None and bool((other == (node.op == "mul")).all())
        case _:
            idle = False
    return idle and editor.bypass(node)


def merge_moves(editor: GraphEditor, node: Node) -> bool:
    """Makes one of reshape(reshape(x)), and of transpose(transpose(x))."""
    first = editor.producer(node.inputs[0], node.op) if node.op in ("reshape", "transpose") else None
    if first is None:
        return False
    if node.op == "transpose":
        perm = tuple(first.attrs["perm"][axis] for axis in node.attrs["perm"])
        return editor.put(node, inputs=first.inputs, attrs={"perm": perm})
    return editor.put(node, inputs=first.inputs)


def make_shuffle(editor: GraphEditor, node: Node) -> bool:
    """Makes one node of a channel shuffle: (1, C, H, W) -> (1, g, C/g, ...) -> (1, C/g, g, ...) -> (1, C, H, W)."""
    swap = editor.producer(editor.before_reshapes(node.inputs[0]), "transpose") if node.op == "reshape" else None
    if swap is None:
        return False
    source, split = editor.before_reshapes(swap.inputs[0]), editor.shapes[swap.inputs[0]]
    shape, rest = editor.shapes[source], tuple(range(3, len(split)))
    is_shuffle = (
        len(shape) == 4
        and shape == editor.shapes[node.output]
        and swap.attrs["perm"] == (0, 2, 1, *rest)
        and split[0] == 1
        and split[1] * split[2] == shape[1]
    )
    return is_shuffle and editor.put(node, op="shuffle", inputs=(source,), attrs={"groups": split[1]})


def flatten_in_fc(editor: GraphEditor, node: Node) -> bool:
    """Removes a reshape before fc, which reads its input in row-major order, whatever the shape."""
    flat = editor.producer(node.inputs[0], "reshape") if node.op == "fc" and node.attrs["axis"] == 1 else None
    same = flat is not None and editor.shapes[flat.inputs[0]][:1] == editor.shapes[node.output][:1]
    return same and editor.put(node, inputs=(*flat.inputs, *node.inputs[1:]))


def fold_pad(editor: GraphEditor, node: Node) -> bool:
    """Makes zeros around an image the padding of the convolution, or of the average pooling that counts them."""
    pad = editor.producer(node.inputs[0], "pad") if node.op in ("conv", "avgpool") else None
    if pad is None or pad.attrs["mode"] != "constant" or pad.attrs["value"] != 0:
        return False
    begin, end, own = pad.attrs["pads_begin"], pad.attrs["pads_end"], node.attrs["pads"]
    pads = tuple(a + b for a, b in zip(own, begin[2:] + end[2:], strict=True))
    attrs = dict(node.attrs, pads=pads)
    if any(begin[:2] + end[:2]):
        return False
    if node.op == "avgpool":
        counted = node.attrs["count_include_pad"] or not any(own)
        small = all(size < kernel for size, kernel in zip(pads, node.attrs["kernel"] * 2, strict=True))
        if not counted or not small or node.attrs["ceil"]:  # ceil: where the last window may start would change
            return False
        attrs["count_include_pad"] = True
    return editor.put(node, inputs=(*pad.inputs, *node.inputs[1:]), attrs=attrs)


def crop_kernel(editor: GraphEditor, node: Node) -> bool:
    """Removes the outer rows and columns of a convolution's kernel that only ever see padding, as dilated ones may."""
    weight = editor.constants.get(node.inputs[1]) if node.op == "conv" else None
    if weight is None:
        return False
    attrs, shape, out = node.attrs, editor.shapes[node.inputs[0]][2:], editor.shapes[node.output][2:]
    pads, window = list(attrs["pads"]), [slice(None)] * weight.ndim
    for axis, size in enumerate(shape):
        step, reach = attrs["dilations"][axis], (out[axis] - 1) * attrs["strides"][axis]
        first, last = 0, weight.shape[2 + axis] - 1
        begin, end = axis, len(shape) + axis  # of pads
        while first < last and reach < pads[begin] >= step:  # the first row is before the image for every output
            first, pads[begin] = first + 1, pads[begin] - step
        while first < last and (last - first) * step - pads[begin] >= size and pads[end] >= step:
            last, pads[end] = last - 1, pads[end] - step
        window[2 + axis] = slice(first, last + 1)
    cropped = weight[tuple(window)]
    if cropped.shape == weight.shape:
        return False
    name = editor.constant(f"{node.inputs[1]}.cropped", cropped)
    if levels := editor.qparams.get(node.inputs[1]):
        editor.qparams[name] = levels
    inputs = (node.inputs[0], name, *node.inputs[2:])
    return editor.put(node, inputs=inputs, attrs=attrs | {"pads": tuple(pads)})


def fold_constant(editor: GraphEditor, node: Node) -> bool:
    """Folds a sum or product with one constant per channel (BatchNormalization is both) into weights and bias."""
    main = editor.producer(node.inputs[0], "conv", "deconv", "fc") if node.op in ("add", "sub", "mul") else None
    operand = editor.constants.get(node.inputs[1]) if main is not None else None
    if operand is None or not editor.single_use(main) or len(main.inputs) != 3 or not unclamped(main):
        return False
    x, weight_name, bias_name = main.inputs
    weight, bias = (editor.constants[name].astype(np.float64) for name in (weight_name, bias_name))
    shape = editor.shapes[main.output]
    channels = 1 if main.op != "fc" else len(shape) - 1
    per_channel = operand.size == 1 or operand.shape[channels] == operand.size == shape[channels]
    if not per_channel or editor.shapes[node.output] != shape:
        return False  # differs between pixels
    values = np.broadcast_to(operand.reshape(-1).astype(np.float64), bias.shape)
    match node.op, node.attrs["swapped"]:
        case "mul", _:
            scale, shift = values, np.zeros_like(bias)
        case "add", _:
            scale, shift = np.ones_like(bias), values
        case "sub", False:
            scale, shift = np.ones_like(bias), -values
        case _:
            scale, shift = -np.ones_like(bias), values
    if main.op == "deconv":  # (Cin, Cout / groups, kh, kw)
        groups = main.attrs["groups"]
        scales = np.repeat(scale.reshape(groups, -1), len(weight) // groups, 0)[..., None, None]
    else:
        scales = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    weight, bias = weight * scales, bias * scale + shift
    if max(np.abs(weight).max(), np.abs(bias).max()) > FLOAT_MAX:
        return False
    if np.any(scale != 1):
        weight_name = editor.constant(f"{main.name}.weight", weight)
    bias_name = editor.constant(f"{main.name}.bias", bias)
    return editor.absorb(main, node, inputs=(x, weight_name, bias_name), attrs=main.attrs | _clamp(node))


def fuse_clamp(editor: GraphEditor, node: Node) -> bool:
    """Merges a clamp into a node that ends in one: clamp(clamp(x, a, b), lo, hi) has the bounds a and b, clamped."""
    inner = editor.producer(node.inputs[0], *CLAMPED) if node.op == "clip" else None
    if inner is None or not editor.single_use(inner):
        return False
    lo, hi = node.attrs["lo"], node.attrs["hi"]
    bounds = {name: min(max(inner.attrs[name], lo), hi) for name in ("lo", "hi")}
    return editor.absorb(inner, node, attrs=inner.attrs | bounds)


def fuse_residual(editor: GraphEditor, node: Node) -> bool:
    """Makes a sum of two tensors of equal shape the residual of the convolution that makes the later of them."""
    if node.op != "add" or any(name in editor.constants for name in node.inputs):
        return False
    a, b = node.inputs
    later, other = (a, b) if editor.positions.get(a, -1) > editor.positions.get(b, -1) else (b, a)
    conv = editor.producer(later, "conv")
    if conv is None or editor.shapes[a] != editor.shapes[b] or not editor.single_use(conv):
        return False
    if len(conv.inputs) != 3 or not unclamped(conv):
        return False
    return editor.absorb(conv, node, inputs=(*conv.inputs, other), attrs=conv.attrs | _clamp(node))


RULES: tuple[Callable[[GraphEditor, Node], bool], ...] = (
    drop_idle,
    merge_moves,
    make_shuffle,
    flatten_in_fc,
    fold_pad,
    crop_kernel,
    fold_constant,
    merge_branches,
    fold_normalization,
    make_activation,
    add_to_gate,
    join_slices,
    nest_concat,
    fuse_clamp,
    fuse_residual,
    turn_attention,
    fuse_attention,
    read_what_was_stored,
    store_later,
    take_maxima_of_floats,
    drop_fakequant,
    normalize_as_it_is,
)
