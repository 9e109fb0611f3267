"""Writes slices of a network with what they read of samples: what tools that quantize and compile them ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..arguments import path as as_path
from ..errors import ArgumentError
from ..files import read_json, write_json, write_whole
from ..graph.ir import Graph, Tensor
from ..graph.onnx.write.write import save_onnx
from ..graph.partition import subgraph
from ..picture import Picture
from ..pipeline.devices.network_slices import KIND, MANIFEST, Slices, checked_ranges, entry, slice_of, weights_digest
from ..progress import Progress, silent
from .calibrate import Arrays, outputs_of, samples_of


def write_slices(
    graph: Graph,
    ranges: Iterable[tuple[int, int]],
    folder: str | Path,
    samples: Iterable[np.ndarray | Mapping[str, np.ndarray]] = (),
    *,
    input: Picture | None = None,
    progress: Progress = silent,
) -> Path:
    """Writes parts of a network as ONNX files, with what they read of some samples, for tools that compile them.

    A slice reads and makes tensors in the model's own layout: real numbers, or int8 where a quantized tensor crosses.
    Slices of the same network that the folder already has stay in its manifest.
    What it reads of the samples is in an .npz, all samples along the first axis, and in one .raw file for each sample
    and tensor, elements in C order.

    Parameters
    ----------
    graph
        The network.
    ranges
        Of each slice the cuts where it begins and ends: (0, 4) is groups 1 to 4.
    folder
        Where the files go; it is made where there is none.
    samples
        Arrays as the network reads them, or pictures (height, width, 3) of uint8 where ``input`` is given.
    input
        How pictures become an input.
    progress
        Called with what is done, how many samples of that, and how many there are.

    Returns
    -------
    Path
        The manifest: for every slice its file, the shapes, layouts, types and scales of its ends, the tensors that only
        pass, and the files of its calibration data.

    Raises
    ------
    ArgumentError
        For a range that the network does not have, a node that cannot be written as ONNX, samples that do not fit, and
        a folder that cannot be written.
    """
    chosen, folder = checked_ranges(graph, ranges), as_path("folder", folder)
    if not chosen:
        raise ArgumentError("ranges: expected at least one, got none")
    samples = list(samples)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"{folder}: cannot be made: {error.strerror}") from None
    stem = re.sub(r"[^\w.-]", "_", graph.name)
    recorded = _recorded(graph, chosen, folder, stem, samples_of(graph, samples, input), progress) if samples else {}
    entries = []
    for first, last in chosen:
        file = f"{stem}.{first + 1}-{last}.onnx"
        save_onnx(slice_of(subgraph(graph, first, last)), folder / file)
        entries.append(entry(graph, first, last, file) | recorded.get(first, {}))
    entries += _earlier(graph, folder, chosen)
    write_json(folder / MANIFEST, KIND, {"network": graph.name, "groups": len(graph.groups), "slices": entries})
    return folder / MANIFEST


def _earlier(graph: Graph, folder: Path, written: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """The entries of a manifest that is there, of the same network with the same weights."""
    if not (folder / MANIFEST).exists():
        return []
    known = Slices.load(folder)
    if (known.network, known.groups) != (graph.name, len(graph.groups)):
        return []
    rows = zip(known.slices, read_json(folder / MANIFEST, KIND)["slices"], strict=True)
    others = ((one, row) for one, row in rows if (one.first, one.last) not in written)
    return [row for one, row in others if one.weights == weights_digest(slice_of(subgraph(graph, one.first, one.last)))]


def _recorded(
    graph: Graph,
    ranges: Sequence[tuple[int, int]],
    folder: Path,
    stem: str,
    samples: Sequence[Arrays],
    progress: Progress,
) -> dict[int, dict[str, Any]]:
    """Writes what crosses where slices begin; the entry of each such cut in the manifest."""
    starts = {first: _crossing(graph, first) for first, _ in ranges}
    computed = {tensor.name: tensor for tensors in starts.values() for tensor in tensors}
    made = {name: tensor for name, tensor in computed.items() if tensor not in graph.inputs}
    kept: dict[str, list[np.ndarray]] = {name: [] for name in computed}
    prefix = replace(graph, outputs=tuple(made.values()), lengths={}, declared={})
    for arrays in outputs_of(prefix, samples, "samples", progress) if made else [{}] * len(samples):
        for name in made:
            kept[name].append(arrays[name])
    for tensor in graph.inputs:
        if tensor.name in kept:
            kept[tensor.name] = [sample[tensor.name] for sample in samples]
    return {first: _write(folder, f"{stem}.{first + 1}", tensors, kept) for first, tensors in starts.items()}


def _crossing(graph: Graph, cut: int) -> tuple[Tensor, ...]:
    return graph.cuts[cut - 1].tensors if cut else graph.inputs


def _write(
    folder: Path, stem: str, tensors: Sequence[Tensor], kept: Mapping[str, Sequence[np.ndarray]]
) -> dict[str, Any]:
    """The files of one cut."""
    stacked = {tensor.name: np.stack(kept[tensor.name]) for tensor in tensors}
    write_whole(folder / f"{stem}.npz", lambda file: np.savez(file, **stacked))
    raw: dict[str, str] = {}
    for place, (name, arrays) in enumerate(stacked.items()):
        raw[name] = f"{stem}.{place}.{{sample}}.raw"
        for sample, array in enumerate(arrays):
            write_whole(folder / raw[name].format(sample=sample), partial(_write_elements, array))
    return {"npz": f"{stem}.npz", "raw": raw, "samples": len(next(iter(stacked.values())))}


def _write_elements(array: np.ndarray, file: IO[bytes]) -> None:
    file.write(array.tobytes())
