"""pipeall: one CNN on every processor of an Arm board at once.

    graph = pipeall.load("resnet50.onnx")           # or pipeall.zoo.resnet50()
    with pipeall.Pipeline(graph, "G-B-L:8,15") as pipe:
        for y in pipe.map(frames): ...

A public name is imported when it is first used, so that ``import pipeall`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {  # module -> its public names
    ".diagnosis.doctor": "doctor",
    ".diagnosis.findings": "Diagnosis",
    ".errors": "ArgumentError DeviceError MissingExtraError ModelError PipeallError PipelineError PipelineTimeoutError",
    ".graph.passes.fp16": "keep_float32",
    ".graph.ir": "Graph Tensor",
    ".graph.onnx.read.read": "load",
    ".graph.onnx.write.write": "save_onnx",
    ".graph.passes.picture_input": "with_picture",
    ".media.crops": "Crops",
    ".media.model": "Model",
    ".media.picture_answer": "PictureAnswer",
    ".media.tee": "Tee",
    ".media.view": "View",
    ".picture": "Picture",
    ".pipeline.boards.board": "Board",
    ".pipeline.boards.models.board_model": "BoardModel",
    ".pipeline.engine": "Engine",
    ".pipeline.measuring.comparison": "compare_modes",
    ".pipeline.measuring.exhaustive": "measure_all",
    ".pipeline.measuring.footprint": "footprint",
    ".pipeline.measuring.joint_profile": "profile_together",
    ".pipeline.measuring.profiler": "profile",
    ".pipeline.measuring.precision": "allowed_precisions mixed_precision",
    ".pipeline.measuring.trial": "compare",
    ".pipeline.measuring.verify": "Verification verify",
    ".pipeline.merge": "Merged",
    ".pipeline.pipeline": "Pipeline",
    ".pipeline.planning.explain": "explain",
    ".pipeline.planning.plan": "Plan",
    ".pipeline.planning.profile": "Profile",
    ".pipeline.planning.schedule_plan": "Demand SchedulePlan",
    ".pipeline.planning.schedule_search": "ScheduleSearch schedule_search",
    ".pipeline.planning.search": "SearchResult search",
    ".pipeline.planning.simulate": "Simulation simulate",
    ".pipeline.planning.simulate_schedule": "ScheduleSimulation simulate_schedule",
    ".pipeline.schedule": "Schedule",
    ".pipeline.stats": "Stats",
    ".pruning.prune_network": "Pruned prune",
    ".quantization.quantize": "Quantized quantize",
    ".quantization.record_slices": "write_slices",
    ".sizing.size": "Size cost",
}
_ROOMS = {"demo": ".graph.onnx.demo", "tasks": ".tasks", "testing": ".testing", "zoo": ".graph.zoo"}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted({*_HOME, *_ROOMS})

if TYPE_CHECKING:  # the same names for type checkers: tests compare them
    from . import tasks as tasks
    from . import testing as testing
    from .diagnosis.doctor import doctor as doctor
    from .diagnosis.findings import Diagnosis as Diagnosis
    from .errors import ArgumentError as ArgumentError
    from .errors import DeviceError as DeviceError
    from .errors import MissingExtraError as MissingExtraError
    from .errors import ModelError as ModelError
    from .errors import PipeallError as PipeallError
    from .errors import PipelineError as PipelineError
    from .errors import PipelineTimeoutError as PipelineTimeoutError
    from .graph import zoo as zoo
    from .graph.ir import Graph as Graph
    from .graph.ir import Tensor as Tensor
    from .graph.onnx import demo as demo
    from .graph.onnx.read.read import load as load
    from .graph.onnx.write.write import save_onnx as save_onnx
    from .graph.passes.fp16 import keep_float32 as keep_float32
    from .graph.passes.picture_input import with_picture as with_picture
    from .media.crops import Crops as Crops
    from .media.model import Model as Model
    from .media.picture_answer import PictureAnswer as PictureAnswer
    from .media.tee import Tee as Tee
    from .media.view import View as View
    from .picture import Picture as Picture
    from .pipeline.boards.board import Board as Board
    from .pipeline.boards.models.board_model import BoardModel as BoardModel
    from .pipeline.engine import Engine as Engine
    from .pipeline.measuring.comparison import compare_modes as compare_modes
    from .pipeline.measuring.exhaustive import measure_all as measure_all
    from .pipeline.measuring.footprint import footprint as footprint
    from .pipeline.measuring.joint_profile import profile_together as profile_together
    from .pipeline.measuring.precision import allowed_precisions as allowed_precisions
    from .pipeline.measuring.precision import mixed_precision as mixed_precision
    from .pipeline.measuring.profiler import profile as profile
    from .pipeline.measuring.trial import compare as compare
    from .pipeline.measuring.verify import Verification as Verification
    from .pipeline.measuring.verify import verify as verify
    from .pipeline.merge import Merged as Merged
    from .pipeline.pipeline import Pipeline as Pipeline
    from .pipeline.planning.explain import explain as explain
    from .pipeline.planning.plan import Plan as Plan
    from .pipeline.planning.profile import Profile as Profile
    from .pipeline.planning.schedule_plan import Demand as Demand
    from .pipeline.planning.schedule_plan import SchedulePlan as SchedulePlan
    from .pipeline.planning.schedule_search import ScheduleSearch as ScheduleSearch
    from .pipeline.planning.schedule_search import schedule_search as schedule_search
    from .pipeline.planning.search import SearchResult as SearchResult
    from .pipeline.planning.search import search as search
    from .pipeline.planning.simulate import Simulation as Simulation
    from .pipeline.planning.simulate import simulate as simulate
    from .pipeline.planning.simulate_schedule import ScheduleSimulation as ScheduleSimulation
    from .pipeline.planning.simulate_schedule import simulate_schedule as simulate_schedule
    from .pipeline.schedule import Schedule as Schedule
    from .pipeline.stats import Stats as Stats
    from .pruning.prune_network import Pruned as Pruned
    from .pruning.prune_network import prune as prune
    from .quantization.quantize import Quantized as Quantized
    from .quantization.quantize import quantize as quantize
    from .quantization.record_slices import write_slices as write_slices
    from .sizing.size import Size as Size
    from .sizing.size import cost as cost
else:  # or every name would be an Any, whether it exists or not

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return import_module(_ROOMS[name], __name__)
        if name not in _HOME:
            raise AttributeError(f"module 'pipeall' has no attribute {name!r}")
        try:
            value = getattr(import_module(_HOME[name], __name__), name)
        except ImportError as error:
            if error.name is not None:
                raise
            raise ImportError(str(error)) from None  # the package is not built: said without the way there
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
