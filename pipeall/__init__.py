"""pipeall: one CNN on every processor of an Arm board at once.

    graph = pipeall.load("resnet50.onnx")           # or pipeall.zoo.resnet50()
    with pipeall.Pipeline(graph, "G-B-L:8,15") as pipe:
        for y in pipe.map(frames): ...
"""

from .errors import ArgumentError, DeviceError, MissingExtraError, ModelError, PipeallError, PipelineError
from .graph import zoo
from .graph.ir import Graph
from .graph.onnx_import import load
from .pipeline.board import Board
from .pipeline.pipeline import Engine, Pipeline
from .pipeline.plan import Plan

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Board",
    "DeviceError",
    "Engine",
    "Graph",
    "MissingExtraError",
    "ModelError",
    "PipeallError",
    "Pipeline",
    "PipelineError",
    "Plan",
    "load",
    "zoo",
]
