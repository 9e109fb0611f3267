"""Plans run for real, side by side: figures of each while it is full, as medians over rounds in turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, repeat
from statistics import median, quantiles
from typing import Any

import numpy as np

from ...graph.ir import Graph, Tensor
from ...graph.passes.picture_input import pictures_of
from ...picture import EXAMPLE_WORDS
from ...progress import Progress, silent
from ..boards.board import Board
from ..lease import WRONG, leased
from ..pipeline import Frame, Pipeline
from ..planning.plan import Plan
from ..stats import NO_GROUPS, StageStats, Stats
from .background_load import BackgroundLoad

WARM_UP = 2  # frames per stage after start, and at the begin of each turn while the pipeline fills
LEAST = 4  # times the stages of a lane: frames that every stage runs in a turn at least


@dataclass(frozen=True, slots=True)
class Trial:
    """What one plan did in each of its turns.

    others_cores  cores whose time other programs took while it ran, median over its turns; None: not known
    """

    plan: Plan
    turns: tuple[Stats, ...]
    others_cores: float | None = None

    def __repr__(self) -> str:
        return f"<Trial of {self.plan}, {len(self.turns)} turns: {self.median('fps'):.1f} FPS>"

    def median(self, key: str) -> float:
        """The median of a field of Stats, such as "fps" or "latency_p95_ms", over the turns."""
        return median(getattr(turn, key) for turn in self.turns)

    @property
    def period_ms(self) -> float:
        """Between two results."""
        return 1000 / self.median("fps")

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles of FPS over the turns, as a share of the median."""
        rates = [turn.fps for turn in self.turns]
        low, middle, high = quantiles(rates, n=4) if len(rates) > 1 else rates * 3
        return (high - low) / 2 / middle

    @property
    def stages(self) -> tuple[StageStats, ...]:
        """Each stage's figures in the turn whose FPS is the median, or next above it."""
        turns = sorted(self.turns, key=lambda turn: turn.fps)
        return turns[len(turns) // 2].stages

    @property
    def late_share(self) -> float:
        """On an emulated board, how many times per frame a stage's computing took longer than the model says."""
        late = sum(stage.late for turn in self.turns for stage in turn.stages)
        return late / max(1, sum(turn.frames for turn in self.turns))

    def to_dict(self) -> dict[str, Any]:
        fields = ("fps", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms")
        figures = {key: self.median(key) for key in fields}
        frames = sum(turn.frames for turn in self.turns)
        return {"plan": str(self.plan), "frames": frames, **figures, "fps_spread": self.spread} | {
            "others_cores": self.others_cores,
            "stages": [asdict(stage) for stage in self.stages],
        }


def compare(
    graph: Graph,
    plans: Sequence[Plan],
    board: Board,
    *,
    turns: int = 5,
    seconds: float = 0.3,
    queue: bool = True,
    singly: Collection[Plan] = (),
    what: str = "plans run",
    progress: Progress = silent,
    **options: Any,
) -> list[Trial]:
    """Runs the plans in turn, ``turns`` times each, for ``seconds`` or at least a few frames of every stage.

    All are open at once and take turns, so that what disturbs the machine disturbs all. What a turn counts begins when
    the pipeline has filled and ends before it drains.

    Parameters
    ----------
    graph, plans, board
        The network, on a frame of noise; how it runs, and where.
    turns, seconds
        Of each plan, and of each turn.
    queue
        True: at full load, one frame more under way than there are stages and floating cuts, which hides jitter. False:
        as many as units, so that latency has no waiting in it but for the slowest unit.
    singly
        Those of the plans that have one frame under way.
    what, progress
        ``progress`` is called after each turn with ``what``, how many turns are done, and how many there are.
    **options
        Of Pipeline, such as ``time_scale``.

    Returns
    -------
    list of Trial
        In the order of the plans.

    Raises
    ------
    PipeallError
        As Pipeline.
    """
    frame = random_frame(graph)
    measured: list[list[Stats]] = [[] for _ in plans]
    others: list[list[float]] = [[] for _ in plans]
    done = 0
    units = {unit for plan in plans for unit in plan.units}
    with leased(board, units, f"{graph.name}, {what}", effect=WRONG), ExitStack() as stack:
        pipes = []
        for plan in plans:
            depth = 1 if plan in singly else None if queue else 0
            pipes.append(stack.enter_context(Pipeline(graph, plan, board, depth=depth, **options)))
            deque(pipes[-1].map(repeat(frame, WARM_UP * len(plan.components))), maxlen=0)
        for _ in range(turns):
            for pipe, stats, taken in zip(pipes, measured, others, strict=True):
                with BackgroundLoad() as beside:
                    deque(pipe.map(_turn(pipe, frame, seconds, stats.append)), maxlen=0)
                taken += [] if beside.cores is None else [beside.cores]
                done += 1
                progress(what, done, turns * len(plans))
    return [
        Trial(plan, tuple(stats), median(taken) if taken else None)
        for plan, stats, taken in zip(plans, measured, others, strict=True)
    ]


def random_frame(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """One frame of noise, the same each time; where a picture enters, the example."""
    random = np.random.default_rng(seed)
    pictures = pictures_of(graph)
    return {
        tensor.name: EXAMPLE_WORDS if tensor.name in pictures else _noise(random, tensor) for tensor in graph.inputs
    }


def _noise(random: np.random.Generator, tensor: Tensor) -> np.ndarray:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return random.standard_normal(tensor.shape, np.float32).astype(dtype, copy=False)
    if dtype.kind == "b":
        return random.integers(0, 2, tensor.shape).astype(bool)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True)


def for_seconds(pipe: Pipeline, frame: Frame, seconds: float, least: int) -> Iterator[Frame]:
    """The frame again and again for so long, and for ``least`` rounds in each of which every stage has run it."""
    end = time.monotonic() + seconds
    for _ in range(least):
        before = {(row.lane, row.stage): row.frames for row in pipe.counters()}
        while any(row.frames == before.get((row.lane, row.stage)) for row in pipe.counters()):
            yield frame
    while time.monotonic() < end:
        yield frame


def _turn(pipe: Pipeline, frame: Frame, seconds: float, keep: Callable[[Stats], None]) -> Iterator[Frame]:
    """The frames of one turn; the pipeline is full whenever it asks for the next."""
    yield from repeat(frame, WARM_UP * len(pipe.plan.components) + 1)
    yield from for_seconds(pipe, frame, 0.0, WARM_UP * max(map(len, pipe.plan.lanes)))  # slow lanes too
    since = pipe.snapshot()
    yield from for_seconds(pipe, frame, seconds, LEAST * max(map(len, pipe.plan.lanes)))
    keep(_steady(pipe.stats(since), pipe.plan))


def _steady(stats: Stats, plan: Plan) -> Stats:
    """Of the plan's stages alone.

    Results of several lanes come out in bursts, whenever the slowest has one: their rate is the sum of the lanes'.

    A lane's is one frame in what the unit of its last stage computes and waits for it, in all stages that it serves.
    """
    stats = replace(stats, stages=tuple(row for row in stats.stages if row.groups != NO_GROUPS))
    if len(plan.lanes) == 1:
        return stats
    took_ms = dict.fromkeys(plan.unit_of, 0.0)
    for number, row in zip(plan.unit_of, stats.stages, strict=True):
        took_ms[number] += row.busy_ms + row.wait_in_ms + row.wait_out_ms
    last = [plan.unit_of[end - 1] for end in accumulate(map(len, plan.lanes))]
    return replace(stats, fps=sum(1000 / took_ms[number] for number in last))
