"""The networks and reference numbers that ``bench/sizing/cost_references.py`` wrote, for the tests of costs."""

import json
import lzma
import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeall.sizing import onnx_shapes
from pipeall.sizing.size_network import Network

DATA = Path(__file__).parents[1] / "data"
REFERENCES = json.loads((DATA / "cost_references.json").read_text())


@cache
def _folder() -> TemporaryDirectory:
    folder = TemporaryDirectory(prefix="pipeall-cost-")
    with tarfile.open(fileobj=lzma.open(DATA / "cost_graphs.tar.xz")) as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def path(name: str) -> Path:
    """The ONNX file of a network; it has no weights."""
    return Path(_folder().name) / f"{name}.onnx"


@cache
def network(name: str, size: int | None = None) -> Network:
    """A network exported in training mode; ``size`` of the image: by default the one of the export."""
    return onnx_shapes.read(path(name), None if size is None else (1, 3, size, size))


def main_part(network: Network) -> Network:
    """The layers that the main output depends on."""
    read, layers = set(network.outputs[:1]), []
    for layer in reversed(network.layers):
        if not read.isdisjoint(layer.outputs):
            layers.append(layer)
            read.update(layer.inputs)
    return replace(network, layers=tuple(reversed(layers)), outputs=network.outputs[:1])
