"""ONNX operators on constants, evaluated while a model is read: how exporters compute shapes and prepare weights.

``RESHAPE`` holds the operators that only give the elements another shape, ``FOLD`` the rest. The functions without an
underscore say what an operator does to a shape; ``convert`` applies them to activations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from math import ceil, prod
from typing import Any

import numpy as np

from ....errors import ModelError
from ...ir import Quantization
from .build import Builder, OnnxNode
from .element_types import FEW_BITS, LEVELS, TYPES, few_bits, limits

Shape = tuple[int, ...]

# ---- another shape for the same elements: f(g, node, shape) -> shape ----


def _reshaped(g: Builder, n: OnnxNode, shape: Shape) -> Shape:
    target = list(g.ints(n, 1))
    if not n.get("allowzero", int, 0):
        if any(size == 0 and i >= len(shape) for i, size in enumerate(target)):
            n.fail(f"shape {target} copies a dimension that {shape} does not have")
        target = [shape[i] if size == 0 else size for i, size in enumerate(target)]
    known = prod(size for size in target if size != -1)
    if target.count(-1) > 1 or min(target, default=1) < -1 or (-1 in target and known == 0):
        n.fail(f"cannot reshape {shape} to {target}")
    return tuple(prod(shape) // known if size == -1 else size for size in target)


def _flattened(g: Builder, n: OnnxNode, shape: Shape) -> Shape:
    axis = n.get("axis", int, 1)
    axis = axis if axis == len(shape) else n.axis(axis, len(shape))
    return (prod(shape[:axis]), prod(shape[axis:]))


def _squeezed(g: Builder, n: OnnxNode, shape: Shape) -> Shape:
    axes = g.attr_or_ints(n, "axes", 1)
    if not axes:  # as onnxruntime takes an empty list
        return tuple(size for size in shape if size != 1)
    axes = {n.axis(axis, len(shape)) for axis in axes}
    if any(shape[axis] != 1 for axis in axes):
        n.fail(f"cannot squeeze axes {sorted(axes)} of {shape}")
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _unsqueezed(g: Builder, n: OnnxNode, shape: Shape) -> Shape:
    axes = g.attr_or_ints(n, "axes", 1)
    if axes is None:
        n.fail("axes are missing")
    rank = len(shape) + len(axes)
    axes = {n.axis(axis, rank) for axis in axes}
    if len(axes) + len(shape) != rank:
        n.fail("axes repeat")
    sizes = iter(shape)
    return tuple(1 if axis in axes else next(sizes) for axis in range(rank))


def _kept(g: Builder, n: OnnxNode, shape: Shape) -> Shape:
    """Dropout changes nothing but in training: attribute is_test in opset 6, input 2 from opset 12 on."""
    training = g.constant(n, 2).any() if g.has(n, 2) else n.opset < 7 and not n.get("is_test", int, 0)
    if training:
        n.fail("only inference is supported, got training mode")
    return shape


RESHAPE: dict[str, Callable[[Builder, OnnxNode, Shape], Shape]] = {
    "Reshape": _reshaped,
    "Flatten": _flattened,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Identity": lambda g, n, shape: shape,
    "Dropout": _kept,
}

# ---- what operators do to any tensor, constant or not ----


def permutation(n: OnnxNode, rank: int) -> tuple[int, ...]:
    """Transpose's axes."""
    return n.ints("perm", rank, range(rank)[::-1])


def shape_of(n: OnnxNode, shape: Shape) -> np.ndarray:
    """What Shape yields."""
    return np.array(shape[n.get("start", int, 0) : n.get("end", int, len(shape))], np.int64)


def slices(g: Builder, n: OnnxNode, rank: int, bounds: Sequence | None = None) -> list[tuple[int, Any, Any, int]]:
    """Axis, start, end and step of what Slice cuts; ``bounds`` are starts and ends where they are computed."""
    starts, ends = bounds or [g.attr_or_ints(n, name, i) for i, name in enumerate(("starts", "ends"), 1)]
    if starts is None or ends is None:
        n.fail("starts or ends are missing")
    axes = g.attr_or_ints(n, "axes", 3) or tuple(range(len(starts)))
    steps = g.ints(n, 4) if g.has(n, 4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        n.fail(f"expected as many starts, ends, axes and steps, got {starts}, {ends}, {axes}, {steps}")
    return [(n.axis(axis, rank), *cut) for axis, *cut in zip(axes, starts, ends, steps, strict=True)]


def parts(g: Builder, n: OnnxNode, shape: Shape) -> list[tuple[int, int, int]]:
    """(axis, start, stop) of each output of Split; a part may be empty."""
    axis, count = n.axis_of(len(shape), 0), len(n.outputs)
    sizes = g.attr_or_ints(n, "split", 1)
    if sizes is None:
        each = -(-shape[axis] // count)
        sizes = tuple(min(each, shape[axis] - i * each) for i in range(count))
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != shape[axis]:
        n.fail(f"cannot split {shape[axis]} into {count} parts of {sizes}")
    stops = list(accumulate(sizes))
    return [(axis, stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


# ---- constants: f(g, node, *arrays) -> array, or a list for several outputs ----


def _concat(g: Builder, n: OnnxNode, *arrays: np.ndarray) -> np.ndarray:
    g.afford(n, sum(array.size for array in arrays))
    return np.concatenate(arrays, axis=n.get("axis", int))


def _gather(g: Builder, n: OnnxNode, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis = n.axis_of(x.ndim, 0)
    g.afford(n, indices.size * (x.size // max(1, x.shape[axis])))
    return np.take(x, indices, axis=axis)


def _gather_elements(g: Builder, n: OnnxNode, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis = n.axis_of(x.ndim, 0)
    g.afford(n, indices.size)
    if any(size > most for i, (size, most) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != axis):
        n.fail(f"expected indices of at most {x.shape}, but for axis {axis}, got {indices.shape}")
    met = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))
    return np.take_along_axis(x[met], indices, axis)


def _log_softmax(g: Builder, n: OnnxNode, x: np.ndarray) -> np.ndarray:
    """Of the elements from the axis on, before opset 13."""
    axis = n.axis_of(x.ndim, -1 if n.opset >= 13 else 1)
    axes = axis if n.opset >= 13 else tuple(range(axis, x.ndim))
    g.afford(n, x.size)
    less = x - x.max(axes, keepdims=True)
    return less - np.log(np.exp(less).sum(axes, keepdims=True))


def _along(axis: int, cut: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (cut,)


def _slice(g: Builder, n: OnnxNode, x: np.ndarray, *_: np.ndarray) -> np.ndarray:
    for axis, *cut in slices(g, n, x.ndim):
        x = x[_along(axis, slice(*cut))]
    return x


def _split(g: Builder, n: OnnxNode, x: np.ndarray, *_: np.ndarray) -> list[np.ndarray]:
    return [x[_along(axis, slice(start, stop))] for axis, start, stop in parts(g, n, x.shape)]


def _cast(g: Builder, n: OnnxNode, x: np.ndarray) -> np.ndarray:
    to = n.get("to", int)
    return x.astype(TYPES[to] if to in TYPES else n.fail(f"cannot cast to element type {to}"))


def _constant(g: Builder, n: OnnxNode) -> np.ndarray:
    for name, kind, dtype in _CONSTANT_FORMS:
        if name in n.attrs:
            return np.asarray(n.get(name, kind), dtype)
    n.fail(f"expected one of the attributes {', '.join(name for name, *_ in _CONSTANT_FORMS)}")


def _filled(g: Builder, n: OnnxNode, shape: np.ndarray) -> np.ndarray:
    sizes = g.ints(n, 0)
    return np.broadcast_to(n.get("value", np.ndarray, np.zeros(1, np.float32)).reshape(()), sizes)


def _expand(g: Builder, n: OnnxNode, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, g.ints(n, 1)))


def _range(g: Builder, n: OnnxNode, *limits: np.ndarray) -> np.ndarray:
    start, stop, step = (limit.item() for limit in limits)
    g.afford(n, ceil((stop - start) / step))
    return np.arange(start, stop, step, limits[0].dtype)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.divide(a, b)
    if (b == 0).any():
        raise ZeroDivisionError("division by 0")
    return np.sign(a) * np.sign(b) * np.floor_divide(np.abs(a), np.abs(b))  # ONNX truncates, NumPy floors


def _pointwise(function: Callable[..., np.ndarray]) -> Callable[..., Any]:
    def evaluate(g: Builder, n: OnnxNode, *arrays: np.ndarray) -> np.ndarray:
        g.afford(n, prod(np.broadcast_shapes(*(array.shape for array in arrays))))
        return function(*arrays)

    return evaluate


_CONSTANT_FORMS = (
    ("value", np.ndarray, None),
    ("sparse_value", np.ndarray, None),
    ("value_float", float, np.float32),
    ("value_floats", list, np.float32),
    ("value_int", int, np.int64),
    ("value_ints", list, np.int64),
)

# ---- quantized constants ----

QUANTIZED = ("int8", "uint8")  # what levels may be stored as, and what is computed with


def levels_of(n: OnnxNode, elem_type: int, zero: np.dtype | None) -> np.dtype:
    """The type that QuantizeLinear makes: its zero point's, else that of its attribute, else uint8."""
    if zero is None and elem_type in FEW_BITS:
        return few_bits(elem_type)
    dtype = zero if zero is not None else np.dtype(LEVELS.get(elem_type or 2, object))
    return dtype if dtype.name in LEVELS.values() else n.fail(f"integers of at most 16 bits are supported, got {dtype}")


def check_scale(n: OnnxNode, scale: np.ndarray) -> None:
    """A scale of 0 is that of a channel of nothing but zeros."""
    if scale.dtype.kind != "f" or not (np.isfinite(scale) & (scale >= 0)).all():
        n.fail(f"scales must be finite floats from 0 on, got {scale.dtype} {scale.min():g} to {scale.max():g}")


def parameter_shape(n: OnnxNode, i: int, shape: Shape, of: Shape) -> Shape:
    """How the scale or zero point in input i lies in a tensor: a single one, or one for each place on the axis."""
    if prod(shape) == 1 and len(shape) <= 1:
        return (1,) * len(of)
    axis = n.axis_of(len(of), 1)
    if shape != (of[axis],):
        n.fail(f"input {i} of shape {shape} fits no axis {axis} of {of}, expected one element or ({of[axis]},)")
    return tuple(size if k == axis else 1 for k, size in enumerate(of))


def _in_place(n: OnnxNode, i: int, value: np.ndarray, of: Shape) -> np.ndarray:
    """The scale or zero point of input i as it broadcasts to a constant; those of blocks are repeated."""
    block = n.get("block_size", int, 0)
    if not block:
        return value.reshape(parameter_shape(n, i, value.shape, of))
    axis = n.axis_of(len(of), 1)
    blocks = tuple(-(-size // block) if k == axis else size for k, size in enumerate(of))
    if block < 0 or value.shape != blocks:
        n.fail(f"input {i} has shape {value.shape}, expected {blocks} for blocks of {block} on axis {axis} of {of}")
    return value.repeat(block, axis).take(range(of[axis]), axis)


def _dequantized(
    g: Builder, n: OnnxNode, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None
) -> np.ndarray:
    """(x - zero point) * scale"""
    check_scale(n, scale)
    if x.dtype.kind not in "iu" or (zero is not None and zero.dtype != x.dtype):
        n.fail(f"expected integers and a zero point of their type, got {x.dtype} and {zero and zero.dtype}")
    g.afford(n, x.size)
    centred = x.astype(np.float32) if zero is None else (x - _in_place(n, 2, zero, x.shape).astype(np.int64))
    made = centred.astype(np.float32) * _in_place(n, 1, scale, x.shape).astype(np.float32)
    if x.dtype.name in QUANTIZED and not n.get("block_size", int, 0) and scale.any():
        g.on_levels(made, _levels(n, x, scale, zero))
    return made


def _levels(n: OnnxNode, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None) -> Quantization:
    """What int8 integers in place of these mean: those of unsigned ones are less 128."""
    shift = 128 if x.dtype.name == "uint8" else 0
    zeros = (np.zeros(scale.shape) if zero is None else zero).reshape(-1).astype(int) - shift
    axis = n.axis_of(x.ndim, 1) if scale.size > 1 else None
    scale = np.where(scale > 0, scale, scale[scale > 0].min())  # where that is 0, any is right
    return Quantization(tuple(scale.reshape(-1).astype(np.float32).tolist()), tuple(zeros.tolist()), axis)


def _quantized(g: Builder, n: OnnxNode, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None) -> np.ndarray:
    """x / scale + zero point, rounded half to even, saturated"""
    check_scale(n, scale)
    dtype = levels_of(n, n.get("output_dtype", int, 0), zero.dtype if zero is not None else None)
    steps = np.nan_to_num(np.rint(x / _in_place(n, 1, scale, x.shape)))
    levels = steps if zero is None else steps + _in_place(n, 2, zero, x.shape)
    return np.clip(levels, *limits(dtype)).astype(dtype)


FOLD: dict[str, Callable[..., Any]] = {
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Shape": lambda g, n, x: shape_of(n, x.shape),
    "Size": lambda g, n, x: np.array(x.size),
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "LogSoftmax": _log_softmax,
    "Slice": _slice,
    "Split": _split,
    "Cast": _cast,
    "Expand": _expand,
    "Range": _range,
    "Transpose": lambda g, n, x: x.transpose(permutation(n, x.ndim)),
    "Add": _pointwise(np.add),
    "Sub": _pointwise(np.subtract),
    "Mul": _pointwise(np.multiply),
    "Div": _pointwise(_divide),
    "Pow": _pointwise(lambda a, b: np.power(a, b).astype(a.dtype)),
    "Min": _pointwise(lambda *arrays: reduce(np.minimum, arrays)),
    "Max": _pointwise(lambda *arrays: reduce(np.maximum, arrays)),
    "Neg": _pointwise(np.negative),
    "Abs": _pointwise(np.abs),
    "Floor": _pointwise(np.floor),
    "Ceil": _pointwise(np.ceil),
    "Sqrt": _pointwise(np.sqrt),
    "Exp": _pointwise(np.exp),
    "Reciprocal": _pointwise(np.reciprocal),
    "Equal": _pointwise(np.equal),
    "Greater": _pointwise(np.greater),
    "Less": _pointwise(np.less),
    "Not": _pointwise(np.logical_not),
    "And": _pointwise(np.logical_and),
    "Or": _pointwise(np.logical_or),
    "Where": _pointwise(np.where),
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _dequantized,
    "com.microsoft.QuantizeLinear": _quantized,
    "com.microsoft.DequantizeLinear": _dequantized,
}


def fold(g: Builder, n: OnnxNode) -> None:
    """Evaluate a node whose inputs are all constant and whose operator is in one of the two tables."""
    arrays = [g.constant(n, i) for i, name in enumerate(n.inputs) if name]
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it is kept
            if n.op in RESHAPE:
                results = arrays[0].reshape(RESHAPE[n.op](g, n, arrays[0].shape))
            else:
                results = FOLD[n.op](g, n, *arrays)
    except ModelError:
        raise
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        n.fail(f"cannot evaluate on constants: {error}")
    for i, array in enumerate(results if isinstance(results, list) else [results]):
        g.bind(n, np.asarray(array), i)
