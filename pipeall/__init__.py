"""pipeall: one CNN on every processor of an Arm board at once.

    graph = pipeall.load("resnet50.onnx")           # or pipeall.zoo.resnet50()
    with pipeall.Pipeline(graph, "G-B-L:8,15") as pipe:
        for y in pipe.map(frames): ...

A public name is imported when it is first used, so that ``import pipeall`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import tasks
    from .cost.size import cost
    from .errors import (
        ArgumentError,
        DeviceError,
        MissingExtraError,
        ModelError,
        PipeallError,
        PipelineError,
        PipelineTimeoutError,
    )
    from .graph import zoo
    from .graph.halves import keep_float32
    from .graph.ir import Graph, Tensor
    from .graph.onnx import demo
    from .graph.onnx.read import load
    from .picture import Picture
    from .pipeline.boards.board import Board
    from .pipeline.engine import Engine
    from .pipeline.measuring.measure import profile
    from .pipeline.measuring.verify import Verification, verify
    from .pipeline.pipeline import Pipeline
    from .pipeline.planning.plan import Plan
    from .pipeline.planning.profile import Profile
    from .pipeline.planning.search import Found, search
    from .pipeline.planning.simulate import Simulation, simulate
    from .pipeline.stats import Stats
    from .quantization.quantize import Quantized, quantize

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Board",
    "DeviceError",
    "Engine",
    "Found",
    "Graph",
    "MissingExtraError",
    "ModelError",
    "Picture",
    "PipeallError",
    "Pipeline",
    "PipelineError",
    "PipelineTimeoutError",
    "Plan",
    "Profile",
    "Quantized",
    "Simulation",
    "Stats",
    "Tensor",
    "Verification",
    "cost",
    "demo",
    "keep_float32",
    "load",
    "profile",
    "quantize",
    "search",
    "simulate",
    "tasks",
    "verify",
    "zoo",
]

_HOME = {
    "Board": ".pipeline.boards.board",
    "Engine": ".pipeline.engine",
    "Found": ".pipeline.planning.search",
    "Graph": ".graph.ir",
    "Picture": ".picture",
    "Pipeline": ".pipeline.pipeline",
    "Plan": ".pipeline.planning.plan",
    "Profile": ".pipeline.planning.profile",
    "Quantized": ".quantization.quantize",
    "Simulation": ".pipeline.planning.simulate",
    "Stats": ".pipeline.stats",
    "Tensor": ".graph.ir",
    "Verification": ".pipeline.measuring.verify",
    "keep_float32": ".graph.halves",
    "load": ".graph.onnx.read",
    "profile": ".pipeline.measuring.measure",
    "quantize": ".quantization.quantize",
    "search": ".pipeline.planning.search",
    "simulate": ".pipeline.planning.simulate",
    "verify": ".pipeline.measuring.verify",
}
_ROOMS = {"cost": ".cost", "demo": ".graph.onnx.demo", "tasks": ".tasks", "zoo": ".graph.zoo"}


if not TYPE_CHECKING:  # or every name would be an Any, whether it exists or not

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'pipeall' has no attribute {name!r}")
        if name in _ROOMS:
            return import_module(_ROOMS[name], __name__)
        try:
            value = getattr(import_module(_HOME.get(name, ".errors"), __name__), name)
        except ImportError as error:
            if error.name is not None:
                raise
            raise ImportError(str(error)) from None  # the package is not built: said without the way there
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
