"""What a Pipeline takes for granted: a model is loaded, a plan is chosen."""

from __future__ import annotations

from os import PathLike

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.onnx.source import Message, ModelSource
from .boards.board import Board
from .boards.default_plan import default_plan
from .planning.plan import Plan
from .planning.profile import Profile


def as_graph(model: Graph | ModelSource) -> Graph:
    """The network itself, or that of a model. Raises ArgumentError for anything else; errors as for ``load``."""
    if isinstance(model, Graph):
        return model
    if isinstance(model, (str, PathLike, bytes, bytearray, memoryview, Message)):
        from ..graph.onnx.read import load  # takes a while

        return load(model)
    raise ArgumentError(
        "graph: expected one of pipeall.load or pipeall.zoo, or a model's path, bytes or ModelProto, "
        f"got {type(model).__name__}"
    )


def chosen(graph: Graph, board: Board, plan: Plan | str | None, profile: bool | Profile) -> tuple[Plan, str]:
    """The plan, and who chose it, in words. Raises ArgumentError for one that was made for another network."""
    if plan is None:
        return default_plan(graph, board, profile if isinstance(profile, Profile) else None)
    if isinstance(plan, str):
        return Plan.parse(plan), "given"
    plan.check_network(graph)
    return plan, "given"
