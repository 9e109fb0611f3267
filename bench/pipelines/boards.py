"""Networks and detectors on the models of boards: one component, a copy on each, pipelines, and the best plan of all.

    python -m bench.pipelines.boards [NETWORK ...] [--boards rk3588,rpi5]

The five networks of the zoo, three detectors as trained, and three of torch with random weights, 640 x 640.

Their latency until a frame is delivered in its turn, without queueing (as many frames under way as there are units),
and their memory, by the kernels of this machine. Then networks in half precision, of those components that have prices
of it, and on integers. GPUs take no part in 8 bits: they compute floats. Networks of integers are quantized on noise,
which makes no difference to times.

Simulated, with the interval that holds four of five cases, beside the best time that anybody published of the board,
with any engine, processor and precision of floats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.common import DETECTORS, NETWORKS, Record, frames, mean_line, names, network, parser
from bench.pipelines.published import FLOATS, published
from pipeall import Board, Graph, Plan, quantize
from pipeall.pipeline.boards.default_units import cores_of, with_some_cores
from pipeall.pipeline.boards.models.all_cores import AllCores
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.boards.models.price_list import PriceList
from pipeall.pipeline.measuring.comparison import MODES, SEARCHES, baselines
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.simulate import Simulation, simulate
from pipeall.pipeline.planning.uncertainty import interval
from pipeall.pipeline.planning.units import Unit

FRAMES = 500
RATES = ("Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "Floating [FPS] .1f", "Best [FPS] .1f")
COLUMNS = (
    "board", "network", *RATES, "Best by Parallel [x] .2f", "Best, in 4 of 5 cases [FPS]", "Best",
    "best published [FPS] .1f",
)  # fmt: skip
SHOWN = ("Peak", "Parallel", "Pipe-All", "Best")  # of which latency and memory are told
DELIVERY = (
    "board", "network", *(f"{mode}, p50 [ms] .1f" for mode in SHOWN), *(f"{mode}, p99 [ms] .1f" for mode in SHOWN),
    *(f"{mode} [MB] .0f" for mode in SHOWN),
)  # fmt: skip
PRECISE = (
    "board", "network", "precision", *RATES, "Best, in 4 of 5 cases [FPS]", "Best, p99 [ms] .1f", "Best",
    "by Best in float32 [x] .2f", "best published [FPS] .1f",
)  # fmt: skip
SUMMED_UP = "resnet50"
SUMMARY = (
    "board", "precision", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "Best [FPS] .1f",
    "best published [FPS] .1f", *(f"{mode}, p99 [ms] .1f" for mode in SHOWN), "Best",
)  # fmt: skip
BOARDS = ("a311d", "a311d-armcl", *list(FLOATS)[1:])


def best_published(name: str, net: str, precision: str = "") -> float | None:
    """FPS of any engine."""
    known = published(name, net, precision)
    return known and known.fps


def short(part: Modelled) -> str:
    return part.core_type if part.core_type.startswith("Mali") else f"{part.count} {part.core_type}"


def precise(model: BoardModel, graph: Graph, quantized: Graph) -> dict[str, tuple[Graph, list[str]]]:
    """precision -> the network and the units, where a component has prices of halves, or all CPUs of integers."""
    units = model.default_units()
    cpus = [unit for unit in units if isinstance(model.pricing[unit], PriceList | AllCores)]
    halves = {unit: f"{unit}@fp16" for unit in units if "fp16" in model.precisions(unit)}
    found = {"fp16": (graph, [halves.get(unit, unit) for unit in units])} if halves else {}
    whole = all("int8" in model.precisions(unit) for unit in cpus)
    return found | ({"int8": (quantized, cpus)} if whole else {})


def on_noise(graph: Graph) -> Graph:
    return quantize(graph, frames(graph, 2), method="minmax").graph


@dataclass(frozen=True)
class Ways:
    """The plan of each mode, None where there is none: its FPS at full load, and its latency without queueing."""

    profile: Profile
    plans: Mapping[str, Plan | None]

    @classmethod
    def of(cls, graph: Graph, board: Board, units: Sequence[str]) -> "Ways":
        """Of whole units; where there is one the best plan may have some of its cores. With several components plans
        of single cores make yet more frames, and are late."""
        whole = list(map(Unit.parse, units))
        profile = board.model.profile(graph, with_some_cores(board, whole) if len(whole) == 1 else whole)
        found = baselines(graph, profile, units, cores=cores_of(board))
        searched = {mode: found.searched.get(mode, found.searched["pipe-all"])[0].plan for mode in SEARCHES}
        plans = {"peak": found.single[0], "parallel": found.parallel} | searched
        return cls(profile, {MODES[mode]: plan for mode, plan in plans.items()})

    @property
    def best(self) -> Plan:
        return self.plans["Best"]

    @property
    def likely(self) -> str | None:
        known = interval(self.profile, self.best)
        return f"{known.fps[0]:.0f} to {known.fps[1]:.0f}" if known else None

    @cached_property
    def fps(self) -> dict[str, float | None]:
        return {mode: plan and self._simulated(plan, None).fps for mode, plan in self.plans.items()}

    def latency(self, percentile: str) -> dict[str, float | None]:
        return {mode: run and getattr(run, f"latency_{percentile}_ms") for mode, run in self._waiting.items()}

    @cached_property
    def _waiting(self) -> dict[str, Simulation | None]:
        return {mode: self.plans[mode] and self._simulated(self.plans[mode], 0) for mode in SHOWN}

    def _simulated(self, plan: Plan, depth: int | None) -> Simulation:
        return simulate(self.profile, plan, FRAMES, depth=depth, jitter=False)


def megabytes(graph: Graph, board: Board, plan: Plan | None) -> float | None:
    return plan and sum(stage.total for stage in footprint(graph, plan, board)) / 1e6


def say_gains(gains: Sequence[tuple[str, float, bool]], record: Record, delivery: Record) -> None:
    """gains: network, times the throughput of Parallel, and whether 99 of 100 frames are delivered sooner."""
    for what, nets in (("networks", NETWORKS), ("detectors", DETECTORS)):
        if some := [row for row in gains if row[0] in nets]:
            _, found, sooner = zip(*some, strict=True)
            record.say(mean_line(f"Best by Parallel, {what}", found) + f"; least {min(found):.3f}")
            delivery.say(
                f"{what.capitalize()}: Best delivers sooner than Parallel at the 99th percentile in {sum(sooner)} "
                f"of {len(sooner)}."
            )


def main() -> None:
    options = parser(__doc__, networks=(*NETWORKS, *DETECTORS))
    options.add_argument("--boards", type=names, default=list(BOARDS))
    options = options.parse_args()
    graphs = {net: network(net) for net in options.networks}
    quantized = {net: on_noise(graph) for net, graph in graphs.items() if net not in DETECTORS}
    gains = []
    with (
        Record(options, *COLUMNS, keys=2) as record,
        Record(options, *DELIVERY, part="delivery", keys=2) as delivery,
        Record(options, *SUMMARY, part="summary") as summary,
        Record(options, *PRECISE, part="precisions", keys=3) as precisions,
    ):
        for name in options.boards:
            board = Board.load(name)
            for net, graph in graphs.items():
                ways = Ways.of(graph, board, board.model.default_units())
                known = best_published(name, net)
                rates, p99 = ways.fps, ways.latency("p99")
                gain = rates["Parallel"] and rates["Best"] / rates["Parallel"]
                record.add(name, net, *rates.values(), gain, ways.likely, str(ways.best), known)
                memory = [megabytes(graph, board, ways.plans[mode]) for mode in SHOWN]
                delivery.add(name, net, *ways.latency("p50").values(), *p99.values(), *memory)
                if gain:
                    gains.append((net, gain, p99["Best"] < p99["Parallel"]))
                forms = {"float32": (ways, known)}
                others = precise(board.model, graph, quantized[net]) if name in FLOATS and net in quantized else {}
                for precision, (form, units) in others.items():
                    own = Ways.of(form, board, units)
                    known = best_published(name, net, precision)
                    last = own.latency("p99")["Best"]
                    precisions.add(
                        name, net, precision, *own.fps.values(), own.likely, last, str(own.best),
                        own.fps["Best"] / rates["Best"], known,
                    )  # fmt: skip
                    forms[precision] = own, known
                if net == SUMMED_UP and name in FLOATS:
                    precision, (ways, _) = max(forms.items(), key=lambda form: form[1][0].fps["Best"])
                    what = f"{name}: {', '.join(map(short, board.model.components.values()))}"
                    rates = [ways.fps[mode] for mode in SHOWN]
                    known = max((value for _, value in forms.values() if value), default=None)
                    summary.add(what, precision, *rates, known, *ways.latency("p99").values(), str(ways.best))
        say_gains(gains, record, delivery)


if __name__ == "__main__":
    main()
