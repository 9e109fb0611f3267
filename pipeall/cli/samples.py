"""Samples that a command is given: pictures, or arrays of what the network reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import read_npy, read_npz
from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..media import sources
from ..media.images import read
from ..picture import Picture
from ..tasks.decoder import signature
from .picture_options import preprocessing, reader

ARRAYS = (".npy", ".npz")


def samples_given(
    graph: Graph, words: tuple[str, ...], recursive: bool, pixels: dict[str, Any]
) -> tuple[Iterator[Any], Picture | None]:
    """Frames, and how the network reads them where they are pictures."""
    files = [Path(word) for word in words if word.lower().endswith(ARRAYS)]
    if files and (len(files) < len(words) or pixels):
        raise ArgumentError("PHOTO: expected pictures, or arrays alone without --preprocess, got both")
    if files:
        return (frame for file in files for frame in _frames(graph, file)), None
    photos = sources.find(words, recursive)
    if strange := [source.name for source in photos if source.kind != "photo"]:
        raise ArgumentError(f"PHOTO: expected pictures, folders or arrays, got {strange[0]}")
    return (read(Path(source.name)) for source in photos), _picture(graph, pixels)


def _frames(graph: Graph, file: Path) -> Iterator[dict[str, np.ndarray]]:
    """Frames of a file: its arrays are frames as they are, or many in a row along the first axis."""
    arrays = read_npz(file) if file.suffix.lower() == ".npz" else {graph.inputs[0].name: read_npy(file)}
    if len(graph.inputs) == len(arrays) == 1:
        arrays = {graph.inputs[0].name: next(iter(arrays.values()))}
    shapes = {tensor.name: tensor.shape for tensor in graph.inputs}
    if all(name in arrays and arrays[name].shape == shape for name, shape in shapes.items()):
        yield {name: arrays[name] for name in shapes}
        return
    counts = {len(array) if array.ndim else 0 for array in arrays.values()}
    fits = set(arrays) == set(shapes) and len(counts) == 1
    if not fits or any(arrays[name].size != max(counts) * np.prod(shape) for name, shape in shapes.items()):
        wanted = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ArgumentError(f"{file}: expected frames of {wanted}, or many in a row, got {got:.300}")
    for place in range(max(counts)):
        yield {name: arrays[name][place].reshape(shape) for name, shape in shapes.items()}


def _picture(graph: Graph, pixels: dict[str, Any]) -> Picture:
    """As ``pipeall run`` reads pictures; of a network that it does not know, as --preprocess says."""
    try:
        return reader(graph, {}, pixels).picture
    except ModelError:
        if not pixels:
            raise ModelError(f"{graph.name}: how it wants pictures is not known: give --preprocess") from None
        seen = signature(graph)
        return preprocessing(seen.size, Picture(), seen.channels == 1, pixels)
