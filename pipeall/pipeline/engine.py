"""Engine: a whole network on one component, one frame at a time."""

from __future__ import annotations

import threading

from ..graph.ir import Graph
from ..picture import Picture
from .boards.board import Board
from .border import Frame
from .pipeline import Pipeline
from .planning.plan import Plan
from .stats import Stats


class Engine:
    """A whole network on one component, one frame at a time: ``y = engine(x)``, from any thread.

    threads: how many of the component's cores to use; default all. input: as for Pipeline. Errors as for Pipeline.
    """

    def __init__(
        self,
        graph: Graph,
        component: str = "big",
        board: Board | None = None,
        threads: int | None = None,
        input: Picture | None = None,
    ):
        plan = Plan.single(component)
        limits = None if threads is None else {plan.components[0]: threads}
        self._pipeline = Pipeline(graph, plan, board=board, slots=1, threads=limits, input=input)
        self._lock = threading.Lock()  # a call is a submit and the result of that very frame

    def __call__(self, x: Frame) -> Frame:
        """The result of one frame: an array, or a dict by name where the model has several outputs.

        x: an array of the model's own layout and type, or a dict of them by input name. Errors as of ``submit`` and
        ``result`` of Pipeline.
        """
        self._pipeline.check_open()
        with self._lock:
            while self._pipeline.pending:  # a call that was interrupted left its frame
                self._pipeline.result()
            self._pipeline.submit(x)
            return self._pipeline.result()

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
