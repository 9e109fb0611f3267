"""The border between Python and slots: arrays of the model's own layout and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentError
from ..steps import SlotTensor

Frame = np.ndarray | Mapping[str, np.ndarray]
Pieces = list[tuple[int, np.ndarray]]


class Border:
    """The tensors that enter and leave a network: ``inputs`` as they lie in a slot, names of ``outputs``."""

    def __init__(self, inputs: Sequence[SlotTensor], outputs: Sequence[str]):
        self._inputs = [(tensor, np.dtype(tensor.dtype), tensor.offset_bytes) for tensor in inputs]
        self._names = [tensor.name for tensor in inputs]
        self._outputs = tuple(outputs)

    def pieces(self, x: Frame) -> Pieces:
        """The arrays of one frame with their offsets in a slot, in bytes.

        Raises ArgumentError unless they have the model's names, shapes and types.
        """
        pieces = []
        for (tensor, dtype, offset), array in zip(self._inputs, self._arrays(x), strict=True):
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"input {tensor.name!r}: expected a NumPy array, got {type(array).__name__}")
            if array.shape != tensor.shape or array.dtype != dtype:
                raise ArgumentError(
                    f"input {tensor.name!r}: expected {dtype} {tensor.shape}, got {array.dtype} {array.shape}"
                )
            pieces.append((offset, array.reshape(-1)))  # a copy, where the array is not contiguous
        return pieces

    def _arrays(self, x: Frame) -> list[np.ndarray]:
        names = self._names
        if not isinstance(x, np.ndarray) and isinstance(x, Mapping):
            if x.keys() != set(names):
                raise ArgumentError(f"frame: expected the inputs {', '.join(names)}, got {', '.join(map(str, x))}")
            return [x[name] for name in names]
        if len(names) == 1:
            return [x]
        raise ArgumentError(f"frame: expected a dict with {', '.join(names)}, got {type(x).__name__}")

    def result(self, arrays: Sequence[np.ndarray]) -> Frame:
        """An array, or a dict by output name where the model has several outputs."""
        return arrays[0] if len(arrays) == 1 else dict(zip(self._outputs, arrays, strict=True))
