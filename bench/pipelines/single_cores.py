"""Boards of equal cores, as modelled: all cores on one frame, a copy on each core, or a stage on each core.

    python -m bench.pipelines.single_cores [--boards rpi5,rpi4,uno-q] [--edge FOLDER]

Five networks of the zoo and six detectors in each precision that the board has prices of. Copies: the faster of one
core and of two cores each. Stages: the fastest pipeline of single cores, with cuts that may float. All are simulated:
frames a second at full load, and the median latency of a frame without queueing; memory by the kernels of this machine.
8 bits are quantized on noise, which makes no difference to times. FOLDER has three of the detectors; the YOLO networks
have the layers of the published ones and random weights, which needs torch. Records go to a file for each board.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from bench.common import DATA, NETWORKS, Record, names, network, parser
from bench.pipelines.boards import FRAMES, megabytes, on_noise
from pipeall import Board, Graph, Plan, load
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.uncertainty import interval

BOARDS = ("rpi5", "rpi4", "uno-q")
YOLO = {"yolo11n": 640, "yolov8n": 640, "yolov4-tiny": 416}  # pixels
EDGE = ("yolox_nano_416", "nanodet_m_320", "fastestdet_352")
TYPES = {"": "fp32", "fp16": "fp16", "int8": "int8"}
# The least published ms of any engine that is as precise, and which: ncnn's benchmark/README.md; on a Raspberry Pi 5
# ExecuTorch (Arm's model cards), OpenVINO (ultralytics' guide) and YOLOX by visionanalysis.org; YOLOv8n by Qengineering
PUBLISHED = {
    "rpi5": {
        "alexnet": (21.2, "ncnn, fp16"), "googlenet": (25.1, "ncnn, fp16"), "mobilenet": (9.0, "ncnn, fp16"),
        "resnet50": (45.9, "ncnn, fp16"), "squeezenet": (20.2, "ExecuTorch, fp32"), "yolo11n": (81.2, "OpenVINO, fp32"),
        "yolov8n": (50.0, "ncnn, fp16, at 2.9 GHz"), "yolov4-tiny": (44.5, "ncnn, fp16"),
        "yolox_nano_416": (32.6, "ncnn, fp16"), "nanodet_m_320": (11.0, "ncnn, fp16"),
        "fastestdet_352": (4.8, "ncnn, fp16"),
    },
    "rpi4": {
        "alexnet": (75.8, "ncnn"), "googlenet": (113.7, "ncnn"), "mobilenet": (60.7, "ncnn"),
        "resnet50": (261.9, "ncnn"), "yolov8n": (322.6, "ncnn, at 1.95 GHz"), "yolov4-tiny": (206.0, "ncnn"),
        "nanodet_m_320": (68.1, "ncnn"), "fastestdet_352": (38.4, "ncnn"),
    },
    "uno-q": {
        "alexnet": (56.8, "ncnn"), "googlenet": (105.4, "ncnn"), "mobilenet": (47.8, "ncnn"),
        "resnet50": (219.9, "ncnn"), "yolov4-tiny": (191.2, "ncnn"), "nanodet_m_320": (57.7, "ncnn"),
        "fastestdet_352": (28.1, "ncnn"),
    },
}  # fmt: skip
PUBLISHED_INT8 = {
    "rpi5": {
        "googlenet": (24.0, "ncnn"), "mobilenet": (8.7, "ncnn"), "resnet50": (20.6, "ExecuTorch"),
        "squeezenet": (5.1, "ExecuTorch"),
    },
    "rpi4": {"googlenet": (100.9, "ncnn"), "mobilenet": (34.2, "ncnn"), "resnet50": (195.6, "ncnn")},
    "uno-q": {"googlenet": (89.7, "ncnn"), "mobilenet": (34.0, "ncnn"), "resnet50": (177.1, "ncnn")},
}  # fmt: skip
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


def detectors(edge: Path, folder: Path) -> Iterator[tuple[str, Graph]]:
    """Written to ``folder`` where they are made here."""
    from exported_nets import write

    for name, size in YOLO.items():
        write("yolo", name, folder / f"{name}.onnx", size)
        yield name, load(folder / f"{name}.onnx")
    for name in EDGE:
        yield name, load(edge / f"{name}.onnx")


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
    options.add_argument("--edge", type=Path, default=DATA / "edge", metavar="FOLDER")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        graphs = {net: network(net) for net in NETWORKS} | dict(detectors(options.edge, Path(folder)))
    quantized = {net: on_noise(graph) for net, graph in graphs.items()}
    with Record(options, *SUMMARY, part="summary", keys=3) as summary:
        for name in options.boards:
            board, fastest = Board.load(name), {}
            with Record(options, *COLUMNS, part=name, keys=2) as record:
                gains: dict[str, list[float]] = {}
                for net, graph in graphs.items():
                    for precision in precisions(board.model):
                        ways = Ways.of(quantized[net] if precision == "int8" else graph, board, precision)
                        known = (PUBLISHED_INT8 if precision == "int8" else PUBLISHED)[name].get(net)
                        said = (1000 / known[0], known[1]) if known else (None, None)
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
