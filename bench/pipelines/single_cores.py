"""Boards of equal cores, as modelled: all cores on one frame, a copy on each core, or a stage on each core.

    python -m bench.pipelines.single_cores [--boards rpi5,rpi4,uno-q]

Five networks of the zoo and six detectors in each precision that the board has prices of. Copies: the faster of one
core and of two cores each. Stages: the fastest pipeline of single cores, with cuts that may float. All are simulated:
frames a second at full load, and the median latency of a frame without queueing; memory by the kernels of this machine.
8 bits are quantized on noise, where up to a tenth of a detector's multiply-accumulates stay floats for the boxes that
it finds in it, as they do on photos. The YOLO networks have the layers of the published
ones and random weights, which needs torch. Records go to a file for each board.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import geometric_mean

from bench.common import EDGE, NETWORKS, Record, names, network, parser
from bench.pipelines.boards import FRAMES, megabytes, on_noise
from bench.pipelines.published import published
from pipeall import Board, Graph, Plan
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.uncertainty import interval

BOARDS = ("rpi5", "rpi4", "uno-q")
DETECTORS = ("yolo11n", "yolov8n", "yolov4-tiny", *EDGE)  # of those that were published
TYPES = {"": "fp32", "fp16": "fp16", "int8": "int8"}
COLUMNS = (
    "network", "precision", "all cores [FPS] .1f", "copies [FPS] .1f", "stages [FPS] .1f", "best by all cores [x] .2f",
    "best, in 4 of 5 cases [FPS]", "all cores [ms] .0f", "copies [ms] .0f", "stages [ms] .0f", "all cores [MB] .0f",
    "copies [MB] .0f", "stages [MB] .0f", "copies", "stages", "best published [FPS] .1f", "by",
)  # fmt: skip
SHOWN = ("resnet50", "yolo11n")
SUMMARY = (
    "board", "network", "precision", "all cores [FPS] .1f", "copies [FPS] .1f", "stages [FPS] .1f",
    "all cores [ms] .0f", "copies [ms] .0f", "stages [ms] .0f", "best published [FPS] .1f", "by",
)  # fmt: skip


def copies(profile: Profile, unit: str) -> Plan:
    """The faster one of four copies on a core each and of two on two."""
    plans = [Plan.parse(f"{4 // cores}*{unit}x{cores}") for cores in (1, 2)]
    return max(plans, key=lambda plan: simulate(profile, plan, FRAMES, jitter=False).fps)


def stages(graph: Graph, profile: Profile, unit: str) -> Plan:
    """The fastest pipeline of single cores."""
    found = search(graph, profile, units=[f"{unit}x1"], cores={"big": 4}, plans="pipelines", floating=True, top=1)
    return found.best


@dataclass(frozen=True)
class Ways:
    """Plans of all cores on one frame, of copies and of stages: FPS at full load, latency without queueing."""

    graph: Graph
    board: Board
    profile: Profile
    plans: Mapping[str, Plan]

    @classmethod
    def of(cls, graph: Graph, board: Board, precision: str) -> "Ways":
        unit = "big@fp16" if precision == "fp16" else "big"  # a network of integers takes their prices by itself
        profile = board.model.profile(graph, [unit, f"{unit}x1", f"{unit}x2"])
        plans = {
            "all cores": Plan.single(unit), "copies": copies(profile, unit), "stages": stages(graph, profile, unit)
        }  # fmt: skip
        return cls(graph, board, profile, plans)

    def fps(self) -> dict[str, float]:
        return {way: simulate(self.profile, plan, FRAMES, jitter=False).fps for way, plan in self.plans.items()}

    def latency_ms(self) -> list[float]:
        runs = (simulate(self.profile, plan, FRAMES, depth=0, jitter=False) for plan in self.plans.values())
        return [run.latency_p50_ms for run in runs]

    def memory_mb(self) -> list[float]:
        return [megabytes(self.graph, self.board, plan) for plan in self.plans.values()]

    def likely(self, way: str) -> str:
        low, high = interval(self.profile, self.plans[way]).fps
        return f"{low:.0f} to {high:.0f}"


def precisions(model: BoardModel) -> list[str]:
    """Of ``TYPES``, those that the board's cores have prices of."""
    return ["", *(precision for precision in ("fp16", "int8") if precision in model.precisions("big"))]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--boards", type=names, default=list(BOARDS))
    options = options.parse_args()
    graphs = {net: network(net) for net in (*NETWORKS, *DETECTORS)}
    quantized = {net: on_noise(graph) for net, graph in graphs.items()}
    with Record(options, *SUMMARY, part="summary", keys=3) as summary:
        for name in options.boards:
            board, fastest = Board.load(name), {}
            with Record(options, *COLUMNS, part=name, keys=2) as record:
                gains: dict[str, list[float]] = {}
                for net, graph in graphs.items():
                    for precision in precisions(board.model):
                        ways = Ways.of(quantized[net] if precision == "int8" else graph, board, precision)
                        known = published(name, net, precision)
                        said = (known.fps, known.by) if known else (None, None)
                        rates, delays = ways.fps(), ways.latency_ms()
                        best = max(rates, key=rates.get)
                        gain = rates[best] / rates["all cores"]
                        gains.setdefault(TYPES[precision], []).append(gain)
                        plans = (str(ways.plans[way]) for way in ("copies", "stages"))
                        record.add(
                            net, TYPES[precision], *rates.values(), gain, ways.likely(best), *delays,
                            *ways.memory_mb(), *plans, *said,
                        )  # fmt: skip
                        if net not in fastest or rates[best] > max(fastest[net][1:4]):
                            fastest[net] = (TYPES[precision], *rates.values(), *delays, *said)
                for precision, row in gains.items():
                    record.say(f"{precision}: the best is {geometric_mean(row):.2f} times all cores in the mean.")
            for net in SHOWN:
                summary.add(name, net, *fastest[net])


if __name__ == "__main__":
    main()
