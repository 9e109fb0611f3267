"""The border between Python and slots: arrays of the model's own layout and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..graph.ir import Graph, Node, cut_to_lengths
from ..picture import Placed, frame_of, is_example, words_of
from ..steps import SlotTensor

Frame = Any  # an array, or a dict of arrays by input name; where a picture enters whatever NumPy sees as an array


class Entry(NamedTuple):
    """A frame on its way in: arrays with their offsets in a slot, in bytes, and what has to live until its result."""

    pieces: Sequence[tuple[int, np.ndarray]]
    alive: tuple[np.ndarray, ...]
    frame: Frame = None
    border: Border | None = None

    def at(self, border: Border) -> Entry:
        """The same frame at the border of the network that takes it."""
        return self if border is self.border else border.entry(self.frame)


class Border:
    """The tensors that enter and leave a network: ``inputs`` as they lie in a slot.

    pictures  the nodes that read pictures, by the name of their input
    """

    def __init__(self, inputs: Sequence[SlotTensor], graph: Graph, pictures: Mapping[str, Node]):
        self._inputs = [(tensor, np.dtype(tensor.dtype), tensor.offset_bytes) for tensor in inputs]
        self._names = [tensor.name for tensor in inputs]
        self._outputs = tuple(tensor.name for tensor in graph.outputs)
        self._leaving, self._lengths = tuple(tensor.name for tensor in graph.leaving), graph.lengths
        self._pictures = {name: node.attrs for name, node in pictures.items()}
        self._declared = {name: np.dtype(dtype) for name, dtype in graph.declared.items()}
        self._converted = [(i, self._declared[name]) for i, name in enumerate(self._leaving) if name in self._declared]
        alone = len(self._inputs) == 1 and not pictures
        self._alone = (inputs[0].shape, *self._inputs[0][1:]) if alone else ((), None, 0)

    def entry(self, x: Frame) -> Entry:
        """One frame. Pictures are not copied: they are read when their frame is computed.

        Raises ArgumentError unless the arrays have the model's names, shapes and types: those of the file, or those
        that it is computed in.
        """
        shape, alone, at = self._alone
        if type(x) is np.ndarray and x.dtype == alone and x.shape == shape:  # what follows takes a microsecond
            return Entry(((at, x),), (), x, self)
        pieces, alive = [], []
        for (tensor, dtype, offset), array in zip(self._inputs, self._arrays(x), strict=True):
            if tensor.name in self._pictures and not is_example(array):
                attrs = self._pictures[tensor.name]
                rows, words = words_of(attrs["picture"], array, attrs["size"])
                pieces.append((offset, words))
                alive += [rows, array]  # what is no array may own its memory
                continue
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"input {tensor.name!r}: expected a NumPy array, got {type(array).__name__}")
            own = self._declared.get(tensor.name, dtype)
            if array.shape != tensor.shape or array.dtype not in (own, dtype):
                raise ArgumentError(
                    f"input {tensor.name!r}: expected {own} {tensor.shape}, got {array.dtype} {array.shape}"
                )
            if array.dtype != dtype:
                with np.errstate(over="ignore"):  # beyond float32 is infinite
                    array = array.astype(dtype)
            pieces.append((offset, array))
        return Entry(pieces, tuple(alive), x, self)

    def _arrays(self, x: Frame) -> list[np.ndarray]:
        names = self._names
        if len(names) == 1 and isinstance(x, np.ndarray):  # the check for a mapping takes longer than all the others
            return [x]
        if isinstance(x, Mapping):
            if x.keys() != set(names):
                raise ArgumentError(
                    f"frame: expected the inputs {', '.join(names)}, got {', '.join(map(str, x))!s:.200}"
                )
            return [x[name] for name in names]
        if len(names) == 1:
            return [x]
        raise ArgumentError(f"frame: expected a dict with {', '.join(names)}, got {type(x).__name__}")

    @property
    def pictured(self) -> bool:
        """Whether a picture enters."""
        return bool(self._pictures)

    def placed(self, x: Frame) -> Placed | None:
        """Where the picture of a frame lies in the network's input; None where no picture enters."""
        for name, attrs in self._pictures.items():
            array = x[name] if isinstance(x, Mapping) else x
            if not is_example(array):
                return attrs["picture"].placed(frame_of(array, attrs["picture"].frames)[1], attrs["size"])
        return None

    def named(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """By output name."""
        named = dict(zip(self._leaving, self._typed(arrays), strict=True))
        return cut_to_lengths(self._outputs, self._lengths, named) if self._lengths else named

    def result(self, arrays: Sequence[np.ndarray]) -> Frame:
        """An array, or a dict by output name where the model has several outputs."""
        if len(arrays) == 1:
            return self._typed(arrays)[0] if self._converted else arrays[0]
        named = self.named(arrays)
        return named[self._outputs[0]] if len(self._outputs) == 1 else named

    def _typed(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """In the file's types."""
        if not self._converted:
            return arrays
        arrays = list(arrays)
        for i, dtype in self._converted:
            arrays[i] = arrays[i].astype(dtype)
        return arrays
