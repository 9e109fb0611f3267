"""Inputs that have their value when a model is read: they become initializers, and what depends on them is constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....arguments import refused
from ....errors import ArgumentError
from .shapes import named
from .tensors import STORED, package, type_name

Values = Mapping[str, Any]  # numbers or arrays by input name
OTHER_FLOATS = {16: 1}  # element types that NumPy has not -> what takes their place


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
    elem_type = OTHER_FLOATS.get(kind.elem_type, kind.elem_type)
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
