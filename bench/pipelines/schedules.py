"""Several networks on one board: what planning them together gains over turns, and whether the runtime does it.

    python -m bench.pipelines.schedules [--boards a311d,rk3588,rpi5] [--sets small,street,yolo] [--pace] [--frames 24]

Networks without a rate each do the same share of what they do alone. With a rate, the first does a quarter of what it
does alone, by priority 2 and with 99 of 100 frames done within LIMIT times its soonest time. A network's rates are
counted as shares of what it does alone by its own best plan; "together" is their sum, simulated. It is given by two
baselines: slices, in which the board belongs to each network in turn long enough for its own best plan to be at its
full rate, so that the sum is 1; and turns, in which a frame of each is computed after the other, by the plan with which
it is done soonest. "random" is the same sum of the best of eight random choices that are simulated, from 100 times as
many as the search evaluated; none where it keeps no rate. "bound" is what no plans can do
as long as all units compute all the time. The CPU time of the search is in "searched in".

With --pace the real runtime runs each schedule at the board's pace, slowed down until this machine need not matter:
"off" is the furthest that a network's rate is from what a simulation at that pace says.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from threading import Thread

import numpy as np

from bench.common import DATA, Record, mean_line, names, network, parser
from pipeall import (
    ArgumentError,
    Board,
    Demand,
    Engine,
    Graph,
    Profile,
    Schedule,
    SchedulePlan,
    ScheduleSearch,
    load,
    schedule_search,
    search,
    simulate_schedule,
)
from pipeall.pipeline.measuring.trial import random_frame
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.schedule_division import Candidate, Division, Networks
from pipeall.pipeline.planning.units import Unit, unit_sets

SETS = {
    "small": ("alexnet", "mobilenet", "squeezenet"),
    "street": ("nanodet_m_320", "ch_PP-OCRv4_rec_infer", "resnet50"),
    "yolo": ("yolo11n", "deeplab_v3_mnv2_257"),  # the second for a depth network: as dense
}
SHAPES = {"ch_PP-OCRv4_rec_infer": (1, 3, 48, 320)}
FOLDERS = {"resnet50": "models"}  # of DATA; others are in "edge", or of the zoo
CORES = {"rpi5": ("bigx1", "bigx2")}  # of boards with one cluster, whose cores are units, too
SHARE, LIMIT = 0.25, 10  # of the first network's rate alone; times its soonest time
MOST_UNITS = 9
AGREED = 5.0  # percent
TIMES, SIMULATED, LANES = 100, 8, 2000  # as many evaluations; random choices that are simulated; random lanes a network
BUSY, AT_ONCE = 0.3, 6.0  # cores of this machine that computing may take at the board's pace; frames a second, in all
COLUMNS = (
    "board", "networks", "rates", "plans", "FPS", "p99 [ms]", "together [x slices] .3f", "by turns [x] .2f",
    "bound [x slices] .3f", "random [x slices] .3f", "searched in [s] .1f", "as slow [x] .0f", "at pace [FPS]",
    "off [%] +.1f",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Networks of a board, and what is known of each alone."""

    board: Board
    graphs: Mapping[str, Graph]
    profiles: Mapping[str, Profile]
    cores: Mapping[str, int] | None
    soonest_ms: Mapping[str, float]

    @classmethod
    def of(cls, name: str, graphs: Mapping[str, Graph]) -> "Case":
        board, some = Board.load(name), CORES.get(name, ())
        known = {net: board.model.profile(graph) for net, graph in graphs.items()}
        profiles = {net: board.model.profile(graph, [*known[net].units, *some]) for net, graph in graphs.items()}
        cores = {"big": board.model.components["big"].count} if some else None
        soonest = {
            net: search(graph, profiles[net], "latency", cores=cores, top=1).ranked[0].prediction.alone_ms
            for net, graph in graphs.items()
        }
        return cls(board, graphs, profiles, cores, soonest)

    def turns(self, demands: Mapping[str, Demand], alone: Mapping[str, float]) -> float:
        """The sum of shares with a frame of each after the other; those with a rate come at it."""
        given = {net: demand.fps for net, demand in demands.items() if demand.fps}
        left = 1 - sum(fps * self.soonest_ms[net] / 1e3 for net, fps in given.items())
        fps = left * 1e3 / sum(ms for net, ms in self.soonest_ms.items() if net not in given)
        return sum(given.get(net, max(fps, 0.0)) / alone[net] for net in self.graphs)

    def random(self, found: ScheduleSearch) -> float | None:
        """The sum of shares of the best random choice."""
        demands, alone = found.plan.demands, found.alone
        rates = [demand.fps or alone[net] for net, demand in demands.items()]
        fixed = tuple(bool(demand.fps) for demand in demands.values())
        count = len(rates)
        networks = Networks(
            tuple(self.profiles.values()), tuple(rate / 1e3 for rate in rates), fixed, (inf,) * count, (0,) * count
        )
        every = unit_sets(next(iter(self.profiles.values())).units, MOST_UNITS, self.cores)
        sets = [one for one in every if not any(Counter(one) < Counter(other) for other in every)]
        generator = np.random.default_rng(0)
        best: list[tuple[float, tuple[Plan, ...]]] = []
        for one in sets:
            division = Division(networks, one, 5)
            lanes = [random_lanes(division, number, generator) for number in range(count)]
            best += random_choices(lanes, fixed, TIMES * found.evaluated // len(sets), generator)
        sums = [
            self.simulated(plans, level, found) for level, plans in sorted(best, key=lambda row: -row[0])[:SIMULATED]
        ]
        return max((one for one in sums if one), default=None)

    def simulated(self, plans: tuple[Plan, ...], level: float, found: ScheduleSearch) -> float | None:
        demands, alone = found.plan.demands, found.alone
        if level <= 0:
            return None
        rates = {net: demands[net].fps or level * alone[net] for net in self.graphs}
        plan = SchedulePlan(dict(zip(self.graphs, plans, strict=True)), demands, rates)
        did = simulate_schedule(self.profiles, plan, found.simulated.seconds).networks
        kept = all(
            did[net].fps >= 0.98 * (demand.fps or 0) and did[net].latency_p99_ms <= (demand.max_latency_ms or inf)
            for net, demand in demands.items()
        )
        return sum(did[net].fps / alone[net] for net in self.graphs) if kept else None


def random_lanes(division: Division, number: int, generator: np.random.Generator) -> list[Candidate]:
    """Lanes of one network with random units in up to five stages, and random cuts."""
    groups, found = division.paths[number].groups, []
    whole = [unit for unit in division.units if unit.cores is None]
    for _ in range(LANES):
        stages = int(generator.integers(1, min(division.stages, groups) + 1))
        order: list[Unit] = []
        for _ in range(stages):
            able = [unit for unit in division.units if unit not in order[-1:] and (unit in whole or unit not in order)]
            if able:
                order.append(able[generator.integers(len(able))])
        cuts = sorted(generator.choice(np.arange(1, groups), len(order) - 1, replace=False).tolist())
        lane = Plan.pipeline(order, cuts)
        copies = division.units.count(order[0]) if len(order) == 1 else 1
        candidate = division.candidate(number, Plan(lane.lanes * copies))
        found += [candidate] if candidate else []
    return found


def random_choices(
    lanes: list[list[Candidate]], fixed: tuple[bool, ...], count: int, generator: np.random.Generator
) -> Iterator[tuple[float, tuple[Plan, ...]]]:
    """The best of so many choices of a lane for each network, by their level."""
    if not all(lanes):
        return
    loads = [np.vstack([one.loads for one in row]) for row in lanes]
    picks = [generator.integers(len(row), size=count) for row in lanes]
    given, free = np.zeros((2, count, loads[0].shape[1]))
    for row, pick, one in zip(loads, picks, fixed, strict=True):
        (given if one else free)[:] += row[pick]
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.where(free > 0, (1 - given) / free, np.where(given <= 1, inf, -inf)).min(axis=1)
    for index in np.argsort(-levels)[:SIMULATED].tolist():
        yield float(levels[index]), tuple(row[pick[index]].plan for row, pick in zip(lanes, picks, strict=True))


# ---- at the board's pace


def at_pace(
    case: Case, found: ScheduleSearch, frames: int, slower: float = 1.0
) -> tuple[float, dict[str, float], float]:
    """How many times as slow, the rates as if at the board's own pace, and by how many percent the furthest is off.

    What is off by more runs again at half the pace.
    """
    taken = sum(fps * engine_s(case.graphs[net]) for net, fps in found.rates.items())
    scale = slower * max(1.0, taken / BUSY, sum(found.rates.values()) / AT_ONCE)
    plan = scaled(found.plan, scale)
    seconds = frames * scale / min(found.rates.values())
    ends: dict[str, list[float]] = {}
    with Schedule(case.graphs, case.board, plan, time_scale=scale) as schedule:
        begin = time.monotonic()

        def feed(net: str) -> None:
            fps, x, pipe = plan.demands[net].fps, random_frame(case.graphs[net]), schedule[net]
            for _ in pipe.map(source(x, fps, begin, 1.25 * seconds)):
                pass
            ends[net] = [one.end_ns[-1] / 1e9 for one in pipe.times]

        threads = [Thread(target=feed, args=(net,)) for net in case.graphs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    window = begin + 0.25 * seconds, begin + 1.25 * seconds
    rates = {
        net: scale * sum(window[0] < end <= window[1] for end in row) / seconds for net, row in sorted(ends.items())
    }
    expected = simulate_schedule(case.profiles, found.plan, found.simulated.seconds, jitter=False, paced=True).networks
    off = max((100 * (rates[net] / expected[net].fps - 1) for net in case.graphs), key=abs)
    if abs(off) > AGREED and slower == 1.0:
        return at_pace(case, found, frames, 2.0)
    return scale, {net: rates[net] for net in case.graphs}, off


def scaled(plan: SchedulePlan, scale: float) -> SchedulePlan:
    """The plan for a board that is so many times as slow."""
    demands = {net: Demand(demand.fps and demand.fps / scale, demand.priority) for net, demand in plan.demands.items()}
    return SchedulePlan(plan.plans, demands, {net: rate and rate / scale for net, rate in plan.rates.items()})


def source(x: np.ndarray, fps: float | None, begin: float, seconds: float) -> Iterator[np.ndarray]:
    """Frames until the time is over: one always ready, or at a rate."""
    number = 0
    while (now := time.monotonic()) < begin + seconds:
        if fps and (due := begin + number / fps) > now:
            time.sleep(due - now)
        yield x
        number += 1


def engine_s(graph: Graph) -> float:
    """How long a frame takes here on one core: the shortest of three."""
    engine, x = Engine(graph, threads=1), random_frame(graph)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        engine(x)
        times.append(time.perf_counter() - begin)
    return min(times)


def demanded(case: Case, alone: Mapping[str, float]) -> dict[str, Demand]:
    """The first network with a rate, priority and limit."""
    first = next(iter(case.graphs))
    given = Demand(round(SHARE * alone[first], 2), 2, round(LIMIT * case.soonest_ms[first], 1))
    return {net: given if net == first else Demand() for net in case.graphs}


def graphs_of(names: tuple[str, ...]) -> dict[str, Graph]:
    found = {}
    for name in names:
        path = DATA / FOLDERS.get(name, "edge") / f"{name}.onnx"
        found[name] = load(path, input_shape=SHAPES.get(name)) if path.exists() else network(name)
    return found


def shown(values: Mapping[str, float]) -> str:
    return " / ".join(f"{value:.3g}" for value in values.values())


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--boards", type=names, default=["a311d", "rk3588", "rpi5"])
    options.add_argument("--sets", type=names, default=list(SETS))
    options.add_argument("--pace", action="store_true", help="also at the boards' pace")
    options.add_argument("--frames", type=int, default=24, help="of the slowest network at pace; default %(default)s")
    options = options.parse_args()
    with Record(options, *COLUMNS, keys=3) as record:
        for which in options.sets:
            graphs = graphs_of(SETS[which])
            for name in options.boards:
                case, alone, demands = Case.of(name, graphs), None, None
                for rates in ("none", "the first's"):
                    if alone:
                        demands = demanded(case, alone)
                    begin = time.process_time()
                    try:
                        found = schedule_search(case.graphs, case.profiles, demands, cores=case.cores)
                    except ArgumentError as error:
                        record.say(f"{name}, {', '.join(graphs)}: {error}")
                        continue
                    took, alone = time.process_time() - begin, found.alone
                    asked = found.plan.demands
                    turns = case.turns(asked, alone)
                    most = sum(demand.fps / alone[net] if demand.fps else found.bound for net, demand in asked.items())
                    pace = at_pace(case, found, options.frames) if options.pace else (None, {}, None)
                    record.add(
                        name, ", ".join(graphs), rates, "; ".join(map(str, found.plan.plans.values())),
                        shown(found.rates), shown(found.latencies_ms), found.gain, found.gain / turns,
                        most, case.random(found), took, pace[0], shown(pace[1]) or None, pace[2],
                    )  # fmt: skip
        free = [row for row in record.rows if row[2] == "none"]
        record.say(mean_line("together by turns", [row[7] for row in free]))
        if paced := [row[-1] for row in record.rows if row[-1] is not None]:
            record.say(f"At pace within {AGREED:.0f} %: {sum(abs(off) <= AGREED for off in paced)} of {len(paced)}.")


if __name__ == "__main__":
    main()
