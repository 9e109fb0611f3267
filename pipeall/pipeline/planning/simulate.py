"""What a plan will do, frame by frame, from a profile: a discrete-event model of the runtime's threads and rings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

import numpy as np

from ...arguments import checked, number, optional, switch, whole
from .plan import Plan, plan_of
from .profile import Profile, profile_of
from .rings import MAX_DEPTH, MAX_SLOTS, FrameTimes
from .simulated_board import NetworkState, Source, networks_of, run
from .simulated_lane import SimulatedStage

MAX_FRAMES = 1_000_000  # some minutes
MAX_PERIOD_MS = 1e9  # eleven days
WARM_UP = 200  # frames before those that count: the rings fill and find their rhythm


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated run did, as ``Stats`` of a run, in the steady state: for the frames after a warm-up.

    latency    from submit to when the result can be taken: in the order of frames, after those of slower lanes
    energy_mj  of the board per frame, None where the profile knows no power, and of one network of several
    times      of every frame that was finished, those of the warm-up too, in the order of frames
    """

    frames: int
    seconds: float
    fps: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    energy_mj: float | None
    stages: tuple[SimulatedStage, ...]
    times: tuple[FrameTimes, ...] = field(repr=False)

    def __repr__(self) -> str:
        use = ", ".join(f"{stage.unit} {stage.use:.0%}" for stage in self.stages)
        return (
            f"<Simulation of {self.frames} frames: {self.fps:.1f} FPS, latency p50 {self.latency_p50_ms:.2f} ms; {use}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, without ``times``."""
        content = asdict(self)
        del content["times"]
        return content


@checked(
    profile=profile_of,
    plan=plan_of,
    frames=whole(1, MAX_FRAMES),
    slots=whole(1, MAX_SLOTS),
    depth=optional(whole(0, MAX_DEPTH)),
    period_ms=number(0, MAX_PERIOD_MS),
    jitter=switch,
    paced=switch,
    seed=whole(0),
)
def simulate(
    profile: Profile,
    plan: Plan,
    frames: int = 1000,
    slots: int = 2,
    depth: int | None = None,
    period_ms: float = 0.0,
    jitter: bool = True,
    paced: bool = False,
    seed: int = 0,
) -> Simulation:
    """A simulated run of a plan, after a warm-up.

    Parameters
    ----------
    profile, plan
        The times, and what runs.
    frames
        How many to count.
    slots
        Per ring, as in Pipeline.
    depth
        Frames under way in one lane, from submit to result; default one more than the lane has stages and floating
        cuts. 0: as many as it has units, so that a frame hardly waits.
    period_ms
        Time between two frames of the source (a camera); 0: one is always ready. A frame that finds no room waits
        outside: its latency counts from its submit, as in a run.
    jitter
        Whether each stage's time varies from frame to frame as the profile says: log-normal with the same mean; groups
        vary independently.
    paced
        Every stage takes the time that ``predict`` says, as on an emulated board: all others always slow it down,
        unless frames come in turn (one lane, ``depth`` 1).
    seed
        The same seed gives the same run.

    Returns
    -------
    Simulation
        Throughput, latency and energy, and when each stage ran each frame.

    Raises
    ------
    ArgumentError
        Where the plan does not fit the profile or cannot run, and for a number out of its range.
    """
    states = networks_of(
        [profile], [plan], [Source(period_ms)], slots=slots, depth=depth, paced=paced, seed=seed if jitter else None
    )
    (network,) = states
    energy_known = network.costs.energy_known
    run(states, lambda _: len(network.latencies) < WARM_UP + frames, profile.idle_w if energy_known else 0.0)
    (begin_ms, begin_mj), (end_ms, end_mj) = network.done[WARM_UP - 1], network.done[WARM_UP + frames - 1]
    energy_mj = (end_mj - begin_mj) / frames if energy_known else None
    return summary(network, slice(WARM_UP, WARM_UP + frames), begin_ms, end_ms, energy_mj)


def summary(
    network: NetworkState, counted: slice, begin_ms: float, end_ms: float, energy_mj: float | None
) -> Simulation:
    """What a network did in the time (begin, end], in which the frames that are ``counted`` were finished."""
    latencies = network.latencies[counted]
    p50, p95, p99 = np.percentile(latencies, (50, 95, 99)) if latencies else (inf, inf, inf)
    return Simulation(
        frames=len(latencies),
        seconds=(end_ms - begin_ms) / 1e3,
        fps=1e3 * len(latencies) / (end_ms - begin_ms),
        latency_p50_ms=float(p50),
        latency_p95_ms=float(p95),
        latency_p99_ms=float(p99),
        energy_mj=energy_mj,
        stages=tuple(stage.stats(begin_ms, end_ms) for stage in network.stages),
        times=tuple(sorted((times for lane in network.lanes for times in lane.times()), key=lambda one: one.frame)),
    )
