"""Engine: a whole network on one component, one frame at a time."""

from __future__ import annotations

from pathlib import Path

from ..arguments import checked, one_of, optional, text, whole
from ..graph.ir import Graph
from ..graph.onnx.read.source import ModelSource
from ..picture import Picture
from .boards.board import Board, board_of
from .border import Frame
from .lease import CORES, board_for
from .pipeline import Pipeline
from .planning.plan import Plan
from .stats import Stats


class Engine:
    """A whole network on one component, one frame at a time: ``y = engine(x)``, from any thread.

    Parameters
    ----------
    graph : Graph or model
        The network, or the model that it is read from, as for ``load``.
    component : str, optional
        Such as "big", "gpu" or "cpu", which is all clusters of cores. Default: "cpu" where all cores are equal, else
        the fastest cluster.
    board : Board, str or path, optional
        As for Pipeline.
    threads : int, optional
        How many of the component's cores to use; default all.
    input, cores : optional
        As for Pipeline.

    Raises
    ------
    PipeallError
        As ``load`` and Pipeline.
    """

    @checked(component=optional(text), board=board_of, threads=optional(whole(1)), cores=one_of(*CORES))
    def __init__(
        self,
        graph: Graph | ModelSource,
        component: str | None = None,
        board: Board | str | Path | None = None,
        threads: int | None = None,
        input: Picture | None = None,
        cores: str = "share",
    ):
        board = board_for(board, cores)
        plan = Plan.single(board.default_component if component is None else component)
        if threads is not None:
            plan = plan.with_cores({plan.components[0]: threads})
        self._pipeline = Pipeline(graph, plan, board=board, slots=1, input=input, cores=cores)

    def __repr__(self) -> str:
        return f"<Engine of {self._pipeline.about}>" if "_pipeline" in vars(self) else "<Engine, not started>"

    @property
    def graph(self) -> Graph:
        """The network."""
        return self._pipeline.graph

    def __call__(self, x: Frame) -> Frame:
        """The result of one frame: an array, or a dict by name where the model has several outputs.

        x: an array of the model's own layout and type, or a dict of them by input name. Errors as of ``submit`` and
        ``result`` of Pipeline.
        """
        return self._pipeline.host.call(x)

    def stats(self) -> Stats:
        """As ``Pipeline.stats``."""
        return self._pipeline.stats()

    def close(self) -> None:
        """Ends its threads. Safe to call twice."""
        self._pipeline.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
