"""The op table: of every op its inputs, attributes, output shape, NumPy reference and MACs.

A new op is one entry of ``OPS`` and a list of cases in ``cases.py``; that makes it correct everywhere (import, costs,
tests), and native code can follow. A pointwise op is an entry of ``pointwise.py`` instead.

``ir.py`` defines Node and Tensor. Semantics are those of the ONNX op of the same name, with batch 1, every default
spelled out, and a clamp [lo, hi] fused into the ops that compute sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ModelError
from . import reference
from .ir import Graph, Node
from .pointwise import BINARY, UNARY

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

# Refuse absurd models before anything is allocated
MAX_ELEMENTS = 2**31 - 1  # of one tensor
MAX_RANK = 8
MAX_WINDOW = 2**20  # sizes of kernels, strides, dilations, paddings

MAY_BE_INFINITE = ("lo", "hi", "value")


class _Misfit(ValueError):
    """What is wrong with a node; ``infer_shape`` adds which node."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Misfit(message)


def _ints(attrs: Attrs, name: str, count: int, least: int) -> tuple[int, ...]:
    values = attrs[name]
    fits = isinstance(values, tuple) and len(values) == count
    fits = fits and all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in values)
    _require(fits, f"{name} must be {count} integers >= {least}, got {values!r}")
    return values


def _window(attrs: Attrs, name: str, count: int = 2, least: int = 1) -> tuple[int, ...]:
    values = _ints(attrs, name, count, least)
    _require(max(values) <= MAX_WINDOW, f"{name} must be at most {MAX_WINDOW}, got {values}")
    return values


def _int(attrs: Attrs, name: str, least: int, most: int) -> int:
    value = attrs[name]
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    _require(fits, f"{name} must be an integer from {least} to {most}, got {value!r}")
    return value


def _numbers(attrs: Attrs, *names: str) -> None:
    for name in names:
        value = attrs[name]
        fits = isinstance(value, int | float) and (isfinite(value) or (name in MAY_BE_INFINITE and not isnan(value)))
        _require(fits, f"{name} must be a number, got {value!r}")


def _flags(attrs: Attrs, *names: str) -> None:
    for name in names:
        _require(isinstance(attrs[name], bool), f"{name} must be True or False, got {attrs[name]!r}")


def _clamp(attrs: Attrs) -> None:
    _numbers(attrs, "lo", "hi")
    _require(attrs["lo"] <= attrs["hi"], f"lo must not exceed hi, got {attrs['lo']} and {attrs['hi']}")


def _image(x: Shape) -> None:
    _require(len(x) == 4, f"input must be (1, C, H, W), got {x}")


# ---- output shapes: f(attrs, *input shapes) -> shape ----


def _windows(attrs: Attrs, x: Shape, kernel: tuple[int, int], dilations: tuple[int, int], ceil: bool) -> Shape:
    """Output height and width of windows sliding over x."""
    strides, pads = _window(attrs, "strides"), _window(attrs, "pads", 4, 0)
    sizes = []
    for axis, side in enumerate(("height", "width")):
        size, before, after = x[2 + axis], pads[axis], pads[axis + 2]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        padded = size + before + after
        _require(reach <= padded, f"kernel {side} {reach} (dilated) exceeds the padded input {padded}")
        sizes.append(reference.window_count(size, before, after, reach, strides[axis], ceil))
    return tuple(sizes)


def _conv(attrs: Attrs, x: Shape, weight: Shape, bias: Shape, residual: Shape | None = None) -> Shape:
    _image(x)
    _require(len(weight) == 4, f"weight must be (Cout, Cin/groups, kh, kw), got {weight}")
    groups = _int(attrs, "groups", 1, x[1])
    _require(x[1] % groups == 0 and weight[0] % groups == 0, f"{groups} groups do not divide {x[1]} and {weight[0]}")
    _require(weight[1] == x[1] // groups, f"weight {weight} needs {weight[1] * groups} input channels, got {x[1]}")
    _require(bias == weight[:1], f"bias must be {weight[:1]}, got {bias}")
    _clamp(attrs)
    out = (1, weight[0], *_windows(attrs, x, weight[2:], _window(attrs, "dilations"), ceil=False))
    _require(residual in (None, out), f"residual must be {out}, got {residual}")
    return out


def _fc(attrs: Attrs, x: Shape, weight: Shape, bias: Shape) -> Shape:
    _require(len(weight) == 2, f"weight must be (out, in), got {weight}")
    _require(weight[1] == prod(x), f"weight {weight} needs {weight[1]} input elements, got {prod(x)} of {x}")
    _require(bias == weight[:1], f"bias must be {weight[:1]}, got {bias}")
    _clamp(attrs)
    return (1, weight[0])


def _pool(attrs: Attrs, x: Shape, dilations: tuple[int, int]) -> Shape:
    _image(x)
    kernel = _window(attrs, "kernel")
    _flags(attrs, "ceil")
    out = _windows(attrs, x, kernel, dilations, attrs["ceil"])
    for axis in (0, 1):  # together: no window lies in the padding alone
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        widest = max(attrs["pads"][axis::2])
        _require(widest < reach, f"padding {widest} must be smaller than the kernel {reach} (dilated)")
        _require(kernel[axis] == 1 or dilations[axis] <= x[2 + axis], f"dilation {dilations[axis]} exceeds the input")
    return (*x[:2], *out)


def _maxpool(attrs: Attrs, x: Shape) -> Shape:
    return _pool(attrs, x, _window(attrs, "dilations"))


def _avgpool(attrs: Attrs, x: Shape) -> Shape:
    _flags(attrs, "count_include_pad")
    return _pool(attrs, x, (1, 1))


def _lrn(attrs: Attrs, x: Shape) -> Shape:
    _image(x)
    _int(attrs, "size", 1, 2**15)
    _numbers(attrs, "alpha", "beta", "bias")
    return x


def _softmax(attrs: Attrs, x: Shape) -> Shape:
    _require(len(x) == 4 or (len(x) == 2 and x[0] == 1), f"input must be (1, C, H, W) or (1, N), got {x}")
    _int(attrs, "axis", 1, 1)
    return x


def _layernorm(attrs: Attrs, x: Shape) -> Shape:
    _image(x)
    _numbers(attrs, "epsilon")
    _require(attrs["epsilon"] > 0, f"epsilon must be positive, got {attrs['epsilon']}")
    return x


def _binary(attrs: Attrs, a: Shape, b: Shape) -> Shape:
    _require(len(a) == len(b), f"operands must have the same rank, got {a} and {b}")
    fits = all(n in (1, m) for m, n in zip(a, b, strict=True)) and (len(a) == 4 or b == a or prod(b) == 1)
    _require(fits, f"second operand {b} does not broadcast to {a} within an image or as one number")
    _clamp(attrs)
    _flags(attrs, "swapped")
    return a


def _elementwise(*numbers: str) -> Callable[..., Shape]:
    def shape(attrs: Attrs, x: Shape) -> Shape:
        _numbers(attrs, *numbers)
        if "lo" in numbers:
            _clamp(attrs)
        return x

    return shape


def _concat(attrs: Attrs, *inputs: Shape) -> Shape:
    first = inputs[0]
    axis = _int(attrs, "axis", 0, len(first) - 1)
    rest = {shape[:axis] + shape[axis + 1 :] for shape in inputs}
    _require({len(shape) for shape in inputs} == {len(first)} and len(rest) == 1, f"shapes differ: {list(inputs)}")
    return (*first[:axis], sum(shape[axis] for shape in inputs), *first[axis + 1 :])


def _reshape(attrs: Attrs, x: Shape) -> Shape:
    shape = _ints(attrs, "shape", len(attrs["shape"]), 1)
    _require(prod(shape) == prod(x), f"cannot reshape {x} to {shape}")
    _require(len(x) != 4 or len(shape) != 4 or x == shape, f"reshape of {x} to {shape} must pass through (1, N)")
    return shape


def _transpose(attrs: Attrs, x: Shape) -> Shape:
    perm = _ints(attrs, "perm", len(x), 0)
    _require(sorted(perm) == list(range(len(x))), f"perm {perm} does not permute the axes of {x}")
    return tuple(x[axis] for axis in perm)


def _slice(attrs: Attrs, x: Shape) -> Shape:
    axis = _int(attrs, "axis", 0, len(x) - 1)
    start = _int(attrs, "start", 0, x[axis] - 1)
    stop = _int(attrs, "stop", start + 1, x[axis])
    return (*x[:axis], stop - start, *x[axis + 1 :])


def _pad(attrs: Attrs, x: Shape) -> Shape:
    begin, end = _ints(attrs, "pads_begin", len(x), 0), _ints(attrs, "pads_end", len(x), 0)
    _numbers(attrs, "value")
    return tuple(b + n + e for b, n, e in zip(begin, x, end, strict=True))


def _shuffle(attrs: Attrs, x: Shape) -> Shape:
    _image(x)
    groups = _int(attrs, "groups", 1, x[1])
    _require(x[1] % groups == 0, f"{groups} groups do not divide {x[1]} channels")
    return x


# ---- the table ----


def _conv_macs(out: Shape, weight: Shape) -> int:
    return prod(out) * prod(weight[1:])


def _fc_macs(out: Shape, weight: Shape) -> int:
    return prod(weight)


@dataclass(frozen=True)
class OpSpec:
    """One op.

    inputs   least and most number of inputs; constants trail: conv and fc have weight and bias at 1 and 2
    attrs    name -> default of what every node of this op carries, no more and no less
    shape    (attrs, *input shapes) -> output shape; raises on anything that does not fit
    compute  (attrs, *arrays) -> array, NCHW, in the arrays' own float type
    macs     (output shape, weight shape) -> multiply-accumulates; None for ops without weights, which count as 0
    """

    inputs: tuple[int, int]
    attrs: Attrs
    shape: Callable[..., Shape]
    compute: Callable[..., np.ndarray]
    macs: Callable[[Shape, Shape], int] | None = None


_ANY = (1, 2**15)
_GIVEN = object()  # in place of a default: the attribute must be given
_FREE = {"lo": -inf, "hi": inf}
_WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
_DILATED = _WINDOW | {"dilations": (1, 1)}
_POOL = {"kernel": _GIVEN, "ceil": False}
_LRN = {"size": _GIVEN, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
_AXIS = {"axis": _GIVEN}

OPS: dict[str, OpSpec] = {
    "conv": OpSpec((3, 4), _DILATED | {"groups": 1} | _FREE, _conv, reference.conv, _conv_macs),
    "fc": OpSpec((3, 3), _FREE, _fc, reference.fc, _fc_macs),
    "maxpool": OpSpec((1, 1), _POOL | _DILATED, _maxpool, reference.maxpool),
    "avgpool": OpSpec((1, 1), _POOL | _WINDOW | {"count_include_pad": False}, _avgpool, reference.avgpool),
    "lrn": OpSpec((1, 1), _LRN, _lrn, reference.lrn),
    "softmax": OpSpec((1, 1), {"axis": 1}, _softmax, reference.softmax),
    "layernorm": OpSpec((1, 1), {"epsilon": 1e-5}, _layernorm, reference.layernorm),
    **{op: OpSpec((2, 2), _FREE | {"swapped": False}, _binary, reference.binary(b)) for op, b in BINARY.items()},
    **{op: OpSpec((1, 1), u.parameters, _elementwise(*u.parameters), reference.unary(u)) for op, u in UNARY.items()},
    "concat": OpSpec(_ANY, _AXIS, _concat, reference.concat),
    "reshape": OpSpec((1, 1), {"shape": _GIVEN}, _reshape, reference.reshape),
    "transpose": OpSpec((1, 1), {"perm": _GIVEN}, _transpose, reference.transpose),
    "slice": OpSpec((1, 1), _AXIS | {"start": _GIVEN, "stop": _GIVEN}, _slice, reference.slice_),
    "pad": OpSpec((1, 1), {"pads_begin": _GIVEN, "pads_end": _GIVEN, "value": 0.0}, _pad, reference.pad),
    "shuffle": OpSpec((1, 1), {"groups": _GIVEN}, _shuffle, reference.shuffle),
}


def attributes(op: str, **given: Any) -> dict[str, Any]:
    """The attributes of a node of ``op``: those given, and the defaults of ONNX for the others."""
    return {name: value for name, value in OPS[op].attrs.items() if value is not _GIVEN} | given


def infer_shape(op: str, attrs: Attrs, input_shapes: Sequence[Shape], node_name: str) -> Shape:
    """Output shape of a node; ``input_shapes`` covers constants too, in the node's order.

    Checks all that can be wrong with attributes and shapes; raises ModelError naming the node.
    """
    spec = OPS.get(op)
    if spec is None:
        raise ModelError(f"node {node_name!r}: unknown op {op!r}; known: {', '.join(OPS)}")
    try:
        least, most = spec.inputs
        _require(least <= len(input_shapes) <= most, f"expected {least} to {most} inputs, got {len(input_shapes)}")
        expected = ", ".join(spec.attrs) or "none"
        _require(set(attrs) == set(spec.attrs), f"expected attributes {expected}, got {', '.join(attrs) or 'none'}")
        for shape in input_shapes:
            _require(all(n >= 1 for n in shape), f"input shape {shape} has a size below 1")
            _require(len(shape) != 4 or op in ("conv", "fc") or shape[0] == 1, f"batch must be 1, got {shape}")
        out = spec.shape(attrs, *map(tuple, input_shapes))
        _require(len(out) != 4 or out[0] == 1, f"batch must be 1, got output {out}")
        _require(len(out) <= MAX_RANK, f"output {out} has more than {MAX_RANK} dimensions")
        _require(prod(out) <= MAX_ELEMENTS, f"output {out} has more than {MAX_ELEMENTS} elements")
    except _Misfit as error:
        raise ModelError(f"node {node_name!r} ({op}): {error}") from None
    return out


def macs(node: Node, graph: Graph) -> int:
    """Multiply-accumulates of one node (1 MAC = 2 FLOP); 0 for all but conv and fc."""
    spec = OPS[node.op]
    if spec.macs is None:
        return 0
    return spec.macs(graph.tensors[node.output].shape, graph.constants[node.inputs[1]].shape)


# ---- execution ----


def run_graph(
    graph: Graph, inputs: Mapping[str, np.ndarray], dtype: Any = np.float64, all_tensors: bool = False
) -> dict[str, np.ndarray]:
    """Execute a graph with the NumPy references, in ``dtype``.

    ``inputs`` maps each input tensor's name to an array of its shape. Returns the outputs by name, or every activation
    with ``all_tensors``. ArgumentError where an input is missing, unknown or of another shape.
    """
    expected = {tensor.name: tensor.shape for tensor in graph.inputs}
    given = {name: np.shape(array) for name, array in inputs.items()}
    if given != expected:
        raise ArgumentError(f"graph {graph.name!r}: expected inputs {expected}, got {given}")
    values = {name: np.asarray(array, dtype) for name, array in inputs.items()}
    for node in graph.nodes:
        arrays = [values[name] if name in values else np.asarray(graph.constants[name], dtype) for name in node.inputs]
        values[node.output] = OPS[node.op].compute(node.attrs, *arrays)
    return values if all_tensors else {tensor.name: values[tensor.name] for tensor in graph.outputs}
