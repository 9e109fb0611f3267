"""Photos as a task's network wants them, by Pillow, and what onnxruntime makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from edge_networks import Arrays, Network, Reference
from PIL import Image

from pipeall import Graph, tasks
from pipeall.picture import Picture, Placed


def prepared(photo: Image.Image, picture: Picture, size: tuple[int, int], nchw: bool) -> tuple[np.ndarray, Placed]:
    """float32 (1, C, H, W) or (1, H, W, C), and where the photo lies in it."""
    placed = picture.placed((photo.height, photo.width), size)
    (top, left, h, w), (y, x, rows, columns) = placed.window, placed.inner
    inner = photo.resize((columns, rows), Image.Resampling.BILINEAR, (left, top, left + w, top + h))
    whole = Image.new("RGB", size[::-1], (picture.value,) * 3)
    whole.paste(inner, (x, y))
    if picture.channels == "GRAY":
        whole = whole.convert("L")
    levels = np.atleast_3d(np.asarray(whole, np.float32))
    levels = levels[..., ::-1] if picture.channels == "BGR" else levels
    factor, offset = picture.affine
    levels = (levels * factor + offset).astype(np.float32)
    return np.ascontiguousarray((levels.transpose(2, 0, 1) if nchw else levels)[None]), placed


class Seen:
    """A network of edge/ with its task: what it says of photos."""

    def __init__(self, network: Network, **settings) -> None:
        self.network, self.graph = network, network.load()
        self.task = tasks.task(self.graph, **settings)
        self.reference = Reference(network)

    def input(self, photo: Image.Image) -> tuple[np.ndarray, Placed]:
        return prepared(photo, self.task.picture, self.task.size, self.network.about["layout"] == "NCHW")

    def outputs(self, photo: Image.Image) -> tuple[Arrays, Placed]:
        x, placed = self.input(photo)
        return self.reference({self.graph.inputs[0].name: x}), placed

    def __call__(self, photo: Image.Image) -> tasks.Answer:
        return self.task(*self.outputs(photo))


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def only(graph: Graph, outputs: Arrays) -> np.ndarray | Arrays:
    """As an Engine gives them: the array alone if there is one."""
    return outputs if len(graph.outputs) > 1 else outputs[graph.outputs[0].name]
