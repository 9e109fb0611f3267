"""Networks of edge/ with their tasks: photos in, onnxruntime's outputs and the answers out."""

from __future__ import annotations

import numpy as np
from edge_networks import Arrays, Network, Reference
from PIL import Image
from task_images import prepared

from pipeall import Graph, tasks
from pipeall.picture import Placed


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


def only(graph: Graph, outputs: Arrays) -> np.ndarray | Arrays:
    """As an Engine gives them: the array alone if there is one."""
    return outputs if len(graph.outputs) > 1 else outputs[graph.outputs[0].name]
