"""What several networks do on one board, frame by frame, from a profile of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...arguments import by_name, checked, number, optional, switch, whole
from ...errors import ArgumentError
from .profile import Profile, profile_of
from .rings import MAX_DEPTH, MAX_SLOTS
from .schedule_plan import SchedulePlan, schedule_plan_of
from .simulate import Simulation, summary
from .simulated_board import Source, networks_of, run, used

MAX_SECONDS = 1e6  # eleven days
WARM_UP = 0.25  # of the time that counts, before it


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """What the networks of a schedule did, in the steady state: in the time after a warm-up.

    networks  of each, by name
    use       unit -> the share of the time that it computed
    power_w   what the board drew, None where a profile knows no power
    """

    seconds: float
    networks: Mapping[str, Simulation]
    use: Mapping[str, float]
    power_w: float | None

    def __repr__(self) -> str:
        rates = ", ".join(f"{name} {found.fps:.1f} FPS" for name, found in self.networks.items())
        return f"<ScheduleSimulation of {self.seconds:g} s: {rates}>"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        networks = {name: found.to_dict() for name, found in self.networks.items()}
        return {"seconds": self.seconds, "networks": networks, "use": dict(self.use), "power_w": self.power_w}


@checked(
    profiles=by_name(profile_of, "a dict of profiles by network"),
    plan=schedule_plan_of,
    seconds=number(0, MAX_SECONDS, above=True),
    slots=whole(1, MAX_SLOTS),
    depth=optional(whole(0, MAX_DEPTH)),
    jitter=switch,
    paced=switch,
    seed=whole(0),
)
def simulate_schedule(
    profiles: Mapping[str, Profile | str | Path],
    plan: SchedulePlan | str | Path,
    seconds: float = 10.0,
    slots: int = 2,
    depth: int | None = None,
    jitter: bool = True,
    paced: bool = False,
    seed: int = 0,
) -> ScheduleSimulation:
    """A simulated run of several networks on one board, after a warm-up.

    Each network has a source of its own: a frame comes at the ``fps`` of its demand, or one is always ready. Frames
    that wait for a unit take it in the order of ``Schedule``.

    Parameters
    ----------
    profiles
        The times of each network, by name.
    plan
        What runs.
    seconds
        How long to count, on the board's clock; a quarter as long goes before.
    slots, depth, jitter, paced, seed
        As for ``simulate``, of each network.

    Returns
    -------
    ScheduleSimulation
        Throughput and latency of each network, and how busy the units were.

    Raises
    ------
    ArgumentError
        Where profiles and plans are not of the same networks, a plan does not fit its profile or cannot run, and for a
        number out of its range.
    """
    if set(profiles) != set(plan):
        raise ArgumentError(f"profiles: expected those of {', '.join(plan)}, got {', '.join(profiles) or 'none'}")
    sources = []
    for name in plan:
        demand = plan.demands[name]
        sources.append(Source(1e3 / demand.fps if demand.fps else 0.0, plan.rates[name], demand.priority))
    what = [profiles[name] for name in plan], list(plan.plans.values()), sources
    networks = networks_of(*what, slots=slots, depth=depth, paced=paced, seed=seed if jitter else None)
    energy_known = all(network.costs.energy_known for network in networks)
    begin_ms, end_ms = 1e3 * seconds * WARM_UP, 1e3 * seconds * (1 + WARM_UP)
    run(networks, lambda now: now < end_ms, what[0][0].idle_w if energy_known else 0.0)
    found = {}
    for name, network in zip(plan, networks, strict=True):
        counted = slice(bisect_right(network.delivered, begin_ms), bisect_right(network.delivered, end_ms))
        found[name] = summary(network, counted, begin_ms, end_ms, None)
    drawn = sorted(one for network in networks for one in network.done if begin_ms < one[0] <= end_ms)
    power_w = None
    if energy_known and len(drawn) > 1 and drawn[-1][0] > drawn[0][0]:
        power_w = (drawn[-1][1] - drawn[0][1]) / (drawn[-1][0] - drawn[0][0])
    use = {str(unit): share for unit, share in used(networks, begin_ms, end_ms).items()}
    return ScheduleSimulation(seconds, found, use, power_w)
