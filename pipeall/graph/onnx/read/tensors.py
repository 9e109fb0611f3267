"""Arrays out of an ONNX file: of initializers, of attributes, of files beside the model; and the package that reads it.

Sizes are checked before anything is allocated. Floats are float32, which is what kernels compute in, or float64.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import ModelError, missing_extra
from ...ops import MAX_ELEMENTS, MAX_RANK
from .element_types import BFLOAT16, FEW_BITS, STORED, TYPES, from_bytes

EXTERNAL = 1  # TensorProto.DataLocation


def package() -> Any:
    """The onnx package; MissingExtraError without it."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "reading .onnx files") from None
    return onnx


def type_name(elem_type: int) -> str:
    types = package().TensorProto.DataType
    return types.Name(elem_type) if elem_type in types.values() else str(elem_type)


def array(what: str, proto: Any, model: Path | None, raw: memoryview | None = None) -> np.ndarray:
    """Values of a TensorProto: raw bytes (``raw`` where they stayed in the file), typed fields, or a file by ``model``.

    ``what`` names it in errors, all of which are ModelErrors.
    """
    if proto.data_type not in STORED:
        raise ModelError(f"{what} has element type {type_name(proto.data_type)}, expected floats or integers")
    dims, stored = tuple(proto.dims), np.dtype(STORED[proto.data_type])
    elements = prod(dims)
    largest = prod(max(size, 1) for size in dims)  # NumPy bounds this one, also where there are no elements
    if min(dims, default=1) < 0 or len(dims) > MAX_RANK or largest > MAX_ELEMENTS:
        raise ModelError(f"{what} has an absurd shape: {dims!s:.80}")
    packed = 8 // FEW_BITS[proto.data_type][1] if proto.data_type in FEW_BITS else 1  # elements in one that is stored
    count = -(-elements // packed)
    if proto.data_location == EXTERNAL:
        raw = _external(what, proto, model, count * stored.itemsize)
    elif raw is None and proto.HasField("raw_data"):
        raw = proto.raw_data
    if raw is not None:
        if len(raw) != count * stored.itemsize:
            raise ModelError(f"{what} of shape {dims} needs {count * stored.itemsize} bytes, has {len(raw)}")
        values = np.frombuffer(raw, stored)
        if proto.data_type == BFLOAT16:  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
    else:
        field = getattr(proto, package().helper.tensor_dtype_to_field(proto.data_type))
        if len(field) != count:
            raise ModelError(f"{what} of shape {dims} needs {count} values, has {len(field)}")
        values = np.array(field).astype("u1") if packed > 1 else package().numpy_helper.to_array(proto)
    if packed > 1:
        return from_bytes(values, proto.data_type, elements).reshape(dims)
    return values.reshape(dims).astype(TYPES[proto.data_type], copy=False)


def sparse_array(what: str, proto: Any, model: Path | None) -> np.ndarray:
    """The whole array of a SparseTensorProto, zeros included; its indices count elements, or give a row for each."""
    dims = tuple(proto.dims)
    values = array(what, proto.values, model)
    indices = array(f"{what}, its indices,", proto.indices, model)
    if min(dims, default=1) < 0 or len(dims) > MAX_RANK or prod(max(size, 1) for size in dims) > MAX_ELEMENTS:
        raise ModelError(f"{what} has an absurd shape: {dims!s:.80}")
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in ((values.size,), (values.size, len(dims))):
        raise ModelError(f"{what}: expected an index for each of {values.shape} values, got {indices.shape}")
    most = np.array(dims if indices.ndim == 2 else prod(dims))
    if ((indices < 0) | (indices >= most)).any():
        raise ModelError(f"{what}: an index lies outside of {dims}")
    whole = np.zeros(dims, values.dtype)
    whole[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, dims)] = values
    return whole


def _external(what: str, proto: Any, model: Path | None, nbytes: int) -> bytes:
    """The bytes of a tensor stored in another file of the model's folder, no more than it needs and one."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if model is None:
        raise ModelError(f"{what}: external data {location!r:.200}: expected the model's path, bytes have no folder")
    try:
        file = _beside(model, location)
        if file is None:
            outside = str((model.parent / location).resolve())
            raise ModelError(f"{what}: external data {outside!r} lies outside of the model's folder")
        if not file.is_file():  # a pipe would be waited for
            raise ModelError(f"{what}: external data {str(file)!r}: expected a file beside the model")
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(min(length, nbytes + 1) if length >= 0 else nbytes + 1)
    except (OSError, ValueError, OverflowError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{what}: external data {location!r:.200} cannot be read: {error!s:.200}") from None


def _beside(model: Path, location: str) -> Path | None:
    """The real file of a location in the model's folder; None where it lies elsewhere.

    A link in the folder may lead out of it where the model itself is a link, to beside what the model leads to: so are
    models kept in Hugging Face's cache. Whoever can put the model there has that folder.
    """
    folder, file = model.parent.resolve(), (model.parent / location).resolve()
    if file.is_relative_to(folder):
        return file
    linked = model.is_symlink() and not Path(location).is_absolute() and ".." not in Path(location).parts
    return file if linked and file.parent == model.resolve().parent else None
