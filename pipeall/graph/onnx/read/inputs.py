"""What a caller gives a model's inputs: their shapes and, where they are to be constants, their values.

Given sizes win over what the file declares. A size that the file only names is what another input, whose shape is
given, has under that name; an open batch is 1. An input with a value becomes an initializer, and what depends on it is
constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np

from ....arguments import refused, several, whole
from ....errors import ArgumentError, ModelError
from ...ir import Tensor
from ...ops import MAX_ELEMENTS, MAX_RANK
from .element_types import BFLOAT16, FLOAT, INPUT_TYPES, STORED
from .tensors import package, type_name

# ---- shapes ----

Shape = tuple[int, ...]
Shapes = Sequence[int] | Mapping[str, Sequence[int]]

OPEN = 224  # the side of most pictures, as an example
EXAMPLE = f"(1, 3, {OPEN}, {OPEN})"


def checked(input_shape: Shapes | None) -> Shape | dict[str, Shape] | None:
    """``input_shape`` as ``load`` takes it, in plain integers; ArgumentError where it is anything else."""
    if input_shape is None:
        return None
    if isinstance(input_shape, Mapping):
        return {str(name): _checked(shape) for name, shape in input_shape.items()}
    return _checked(input_shape)


def _checked(shape: Sequence[int]) -> Shape:
    expected = f"at most {MAX_RANK} positive integers, e.g. {EXAMPLE}, or a dict of such by input name"
    sizes = several(whole(1, MAX_ELEMENTS), expected)("input_shape", shape)
    if len(sizes) > MAX_RANK:
        raise refused("input_shape", expected, shape)
    return sizes


def named(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """ArgumentError where a name is not known, with those that are alike."""
    known = dict.fromkeys(known)
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), known, 5) or list(known)[:5]
            raise ArgumentError(f"{what}: there is no tensor {name!r:.100}, near it: {', '.join(near)}")


def by_name(given: Shape | dict[str, Shape] | None, inputs: Sequence[str], others: Sequence[str] = ()) -> dict:
    """The given shapes by name: one shape is that of the only input. ``others`` may be named as well."""
    if given is None:
        return {}
    if isinstance(given, dict):
        named(given, (*inputs, *others), "input_shape")
        return given
    if len(inputs) != 1:
        raise ModelError(
            f"input_shape {given} suits a model with one input, this one has {len(inputs)}: give a dict by name, of "
            f"{', '.join(inputs)}"
        )
    return {inputs[0]: given}


def elem_type(value: Any) -> int:
    """TensorProto.DataType of a ValueInfoProto."""
    return value.type.tensor_type.elem_type


def floats(name: str) -> Any:
    """The ValueInfoProto of a float32 tensor whose shape is not known."""
    value = package().ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = FLOAT
    return value


def tensors(values: Sequence[Any], given: Mapping[str, Shape]) -> list[Tensor]:
    """The tensors of inputs (ValueInfoProtos), every size known; ModelError naming the input where one is not."""
    sizes: dict[str, int] = {}  # of those that are only named
    for value in values:
        dims = value.type.tensor_type.shape.dim
        if value.name in given and len(given[value.name]) == len(dims):
            for dim, size in zip(dims, given[value.name], strict=True):
                if dim.dim_param:
                    sizes.setdefault(dim.dim_param, size)
    return [_tensor(value, given.get(value.name), sizes) for value in values]


def _example(sizes: Sequence[int | None]) -> str:
    """A shape for open sizes in the layout of the file, as Python and as a command have it."""
    shape = [size or OPEN for size in sizes] or [1, 3, OPEN, OPEN]
    return f"e.g. ({', '.join(map(str, shape))}); of a command --input-shape {'x'.join(map(str, shape))}"


def _tensor(value: Any, given: Shape | None, named_sizes: Mapping[str, int]) -> Tensor:
    kind, what = value.type.tensor_type, f"input {value.name!r}"
    if value.type.WhichOneof("value") not in ("tensor_type", None):
        raise ModelError(f"{what} is a {value.type.WhichOneof('value').removesuffix('_type')}, expected a tensor")
    if kind.elem_type not in INPUT_TYPES:
        expected = ", ".join(map(type_name, INPUT_TYPES))
        raise ModelError(f"{what} has element type {type_name(kind.elem_type)}, expected one of {expected}")
    dtype, dims = INPUT_TYPES[kind.elem_type], kind.shape.dim
    if given is not None:
        if kind.HasField("shape") and len(dims) != len(given):
            raise ModelError(f"{what} has {len(dims)} dimensions, input_shape {given} does not fit")
        shape = given
    else:
        sizes = [dim.dim_value if dim.HasField("dim_value") else named_sizes.get(dim.dim_param) for dim in dims]
        sizes = [size if size is None or size >= 0 else None for size in sizes]
        sizes[:1] = [size or 1 for size in sizes[:1]]
        if not kind.HasField("shape") or None in sizes:
            shown = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in dims)
            raise ModelError(f"{what} has open sizes ({shown}): give input_shape, {_example(sizes)}")
        shape = tuple(sizes)
    if len(shape) > MAX_RANK:
        raise ModelError(f"{what} has {len(shape)} dimensions, expected at most {MAX_RANK}")
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"{what} of {shape} has more than {MAX_ELEMENTS} elements")
    return Tensor(value.name, shape, dtype)


# ---- values ----

Values = Mapping[str, Any]  # numbers or arrays by input name


def checked_values(values: Values | None) -> dict[str, np.ndarray]:
    """``values`` as ``load`` takes them, as arrays; ArgumentError where they are anything else."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise refused("values", "a dict of numbers by input name", values)
    return {str(name): _numbers(str(name), value) for name, value in values.items()}


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except Exception:  # of lists of different lengths, and of whatever a class does to become an array
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise refused(f"values: input {name!r}", "numbers", value)
    return array


def give(graph: Any, values: Mapping[str, np.ndarray]) -> None:
    """Adds an initializer to a GraphProto for each input that has a value; ArgumentError where one does not fit."""
    entering = {value.name: value.type.tensor_type for value in graph.input}
    named(values, entering, "values")
    for name, array in values.items():
        tensor = package().numpy_helper.from_array(_fitting(name, array, entering[name]), name)
        graph.initializer.append(tensor)


def _fitting(name: str, array: np.ndarray, kind: Any) -> np.ndarray:
    """The array in the input's type and shape; a single number takes any shape, of open sizes 1."""
    elem_type = FLOAT if kind.elem_type == BFLOAT16 else kind.elem_type
    if elem_type not in STORED:
        raise ArgumentError(f"values: input {name!r} has element type {type_name(elem_type)}, which takes no numbers")
    dtype = np.dtype(STORED[elem_type])
    with np.errstate(all="ignore"):
        typed = array.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(typed.astype(array.dtype), array):
        raise ArgumentError(f"values: input {name!r}: expected {dtype}, got {array.tolist()!r:.100}")
    if not kind.HasField("shape"):
        return typed
    sizes = [dim.dim_value for dim in kind.shape.dim]
    if typed.size == 1 and max(sizes, default=1) <= 1:
        return typed.reshape((1,) * len(sizes))
    if typed.ndim == 0:
        return np.full([max(size, 1) for size in sizes], typed)
    if len(sizes) != typed.ndim or any(0 < want != got for want, got in zip(sizes, typed.shape, strict=True)):
        shown = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in kind.shape.dim)
        raise ArgumentError(f"values: input {name!r}: expected shape ({shown}), got {typed.shape}")
    return typed
