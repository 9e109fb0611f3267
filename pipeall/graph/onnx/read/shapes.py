"""Shapes and element types of a model's inputs: what the file declares, what the caller gives, what follows for others.

Given sizes win. A size that the file only names is what another input, whose shape is given, has under that name; an
open batch is 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

from ....arguments import refused, several, whole
from ....errors import ArgumentError, ModelError
from ...ir import Tensor
from ...ops import MAX_ELEMENTS, MAX_RANK
from .tensors import package, type_name

Shape = tuple[int, ...]
Shapes = Sequence[int] | Mapping[str, Sequence[int]]

FLOAT, FLOAT16 = 1, 10
# TensorProto.DataType of an input -> its type here: where no device has it, the next one that holds its values
INPUT_TYPES = {
    FLOAT: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", FLOAT16: "float16", 11: "float32",
    16: "float32", 4: "int32", 5: "int32", 12: "int64", 13: "int64",
}  # fmt: skip
WIDENED = {4: "uint16", 5: "int16", 11: "float64", 12: "uint32", 13: "uint64"}  # of those, what NumPy has
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
