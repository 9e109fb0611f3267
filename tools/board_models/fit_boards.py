"""Generates the models of boards that run Arm's library, a311d-armcl and rk3399pro, from its published timings.

    python -m tools.board_models.fit_boards [DATA]

DATA is the folder with boards/vim3_armcl_groups.csv and boards/rk3399pro_layers.csv.gz; default PIPEALL_TEST_DATA, or
../shared/data. Shows the leave-one-network-out errors and the pipelines that contention is calibrated on.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np

from bench import common
from bench.common import DATA, NETWORKS, Record, parser
from bench.kernels.gpu_halves import ARMCL, halves
from pipeall import Board, Plan
from pipeall.graph.ir import Graph, Tensor
from pipeall.pipeline.boards.models import regression
from pipeall.pipeline.boards.models.board_model import FOLDER, HALF_IQR_SHARE, BoardModel
from pipeall.pipeline.boards.models.measured import Measured, borders
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.boards.models.regression import Sample
from pipeall.pipeline.planning.operating_points import Points
from pipeall.pipeline.planning.predict import Prediction, predict
from pipeall.pipeline.planning.profile import Link, Profile, UnitTimes
from pipeall.pipeline.planning.uncertainty import four_of_five
from tools.board_models import operating_points

UNITS = ("big", "little", "gpu")
VIM3_CSV, RK_CSV = "boards/vim3_armcl_groups.csv", "boards/rk3399pro_layers.csv.gz"

# How many of our groups each published group has
SPANS = {
    "alexnet": (1,) * 8,
    "googlenet": (1, 2, *(1,) * 8, 2),
    "mobilenet": (1, *(2,) * 12, 3),
    "resnet50-slim": (1,) * 18,
    "resnet50-v1": (1,) * 18,
    "squeezenet": (1, *(2,) * 9),
}
VIM3_NAMES = {"Alex": "alexnet", "Google": "googlenet", "MobileV1": "mobilenet", "ResV1_50": "resnet50-slim"}
RK_NAMES = {
    "alex": "alexnet",
    "google": "googlenet",
    "mobile": "mobilenet",
    "res50": "resnet50-v1",
    "squeeze": "squeezenet",
}
VIM3_PARTS = {
    "big": Modelled("Cortex-A73", 4, 2208.0),
    "little": Modelled("Cortex-A53", 2, 1800.0),
    "gpu": Modelled("Mali-G52", 4, 800.0),
}
RK_PARTS = {
    "big": Modelled("Cortex-A72", 2, 1800.0),
    "little": Modelled("Cortex-A53", 4, 1416.0),
    "gpu": Modelled("Mali-T860", 4, 800.0),
}

# Clocks in MHz by the index that the table gives; a GPU's host thread runs on a big core
RK_CLOCKS = {
    "little": (408, 600, 816, 1008, 1200, 1416),
    "big": (408, 600, 816, 1008, 1200, 1416, 1608, 1800),
    "gpu": (200, 297, 400, 600, 800),
}
RK_TOP = {unit: clocks[-1] for unit, clocks in RK_CLOCKS.items()}

# Three-stage pipelines of GoogLeNet that were measured on the RK3399Pro: plan, clocks, period in ms
RK_PIPELINES = (
    ("B-L-G:4,9", {"little": 1200, "big": 1608, "gpu": 600}, 86.3),
    ("G-B-L:4,8", {"little": 1008, "big": 1416, "gpu": 600}, 88.1),
    ("G-B-L:4,8", {"little": 600, "big": 1416, "gpu": 600}, 93.1),
)
RK_PIPELINE_W = 7.25  # of the first one

# The shortest of many small kernels on a Mali-T628, once warm (sowson/darknet, issue 2): 64 us.
# Regression alone puts it at 85 us on the T860, and at nothing on the G52, whose smallest published group takes 2 ms.
FLOORS = {"gpu": 0.064}

# VIM3, SqueezeNet, whole network, task time in ms: nobody published its groups there
VIM3_SQUEEZENET = {"big": 59.7, "gpu": 80.5}


@cache
def network(name: str) -> Graph:
    """The zoo's network; resnet50-v1 is the original one, with stride 2 in the first convolution of a block."""
    return _resnet50_v1() if name == "resnet50-v1" else common.network(name)


def _resnet50_v1() -> Graph:
    graph = common.network("resnet50")
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        unit, _, layer = node.name.rpartition("/")
        if unit in ("block2/unit_1", "block3/unit_1", "block4/unit_1") and layer in ("conv1", "conv2"):
            stride = 2 if layer == "conv1" else 1
            node = replace(node, attrs={**node.attrs, "strides": (stride, stride)})
            tensors[node.output] = Tensor(node.output, (1, tensors[node.output].shape[1], *_half(graph, unit)))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _half(graph: Graph, unit: str) -> tuple[int, ...]:
    """Height and width of what a unit makes."""
    return graph.tensors[f"{unit}/conv3"].shape[2:]


def vim3_profiles(data: Path) -> dict[str, Profile]:
    """network -> its published groups at the highest clocks."""
    rows: dict[str, list[Mapping[str, str]]] = {}
    with open(data / VIM3_CSV) as file:
        for row in csv.DictReader(file):
            rows.setdefault(VIM3_NAMES[row["network"]], []).append(row)
    columns = {"big": ("big4_ms", "big_mW"), "little": ("little2_ms", "little_mW"), "gpu": ("gpu_ms", "gpu_mW")}
    profiles = {}
    for name, groups in rows.items():
        units = {
            unit: unit_times([float(row[ms]) for row in groups], [float(row[mw]) for row in groups])
            for unit, (ms, mw) in columns.items()
        }
        labels = [row["group_name"].partition(" (")[0] for row in groups]
        profiles[name] = published(name, labels, units, groups[0]["source"])
    return profiles


def rk3399pro_profiles(data: Path, clocks: Mapping[str, int]) -> dict[str, Profile]:
    """network -> its published groups at these clocks, in MHz by unit; of the table's ``task`` times."""
    index = {unit: RK_CLOCKS[unit].index(mhz) for unit, mhz in clocks.items()}
    wanted = {
        ("B", index["big"], -1): "big",
        ("L", index["little"], -1): "little",
        ("G", index["gpu"], index["big"]): "gpu",
    }
    found: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    with gzip.open(data / RK_CSV, "rt") as file:
        for row in csv.DictReader(file):
            unit = wanted.get((row["Component"], int(row["Freq"]), int(row["Freq_Host"])))
            if unit and row["Metric"] == "task":
                layers = found.setdefault(RK_NAMES[row["Graph"]], {}).setdefault(unit, {})
                layers[int(row["Layer"])] = float(row["Time"]), float(row["Power"])
    profiles = {}
    for name, by_unit in found.items():
        units = {
            unit: unit_times(*zip(*(layers[i] for i in range(len(layers))), strict=True))
            for unit, layers in sorted(by_unit.items(), key=lambda item: UNITS.index(item[0]))
        }
        labels = [f"layer {i}" for i in range(len(SPANS[name]))]
        profiles[name] = published(name, labels, units, "LW-GA, layers of ARM-CO-UP's networks, task times")
    return profiles


def unit_times(ms: list[float], mw: list[float]) -> UnitTimes:
    return UnitTimes(
        tuple(round(t, 4) for t in ms),
        tuple(round(HALF_IQR_SHARE * t, 4) for t in ms),
        tuple(round(p / 1000, 4) for p in mw),
    )


def published(name: str, groups: list[str], units: Mapping[str, UnitTimes], source: str) -> Profile:
    about = {"source": source}
    return Profile(name, tuple(groups), borders(network(name), SPANS[name]), units, about=about)


def measured(profile: Profile, fitted: bool = True) -> tuple[Graph, Measured]:
    graph = network(profile.network)
    return graph, Measured.of(graph, profile, SPANS[profile.network], fitted)


def vim3_squeezenet(vim3: Mapping[str, Profile], rk: Profile) -> Profile:
    """The shape of the RK3399Pro's groups at the VIM3's totals; the LITTLE total by the other networks' mean ratio."""
    ratio = np.mean([sum(p.units["little"].ms) / sum(p.units["big"].ms) for p in vim3.values()])
    totals = VIM3_SQUEEZENET | {"little": VIM3_SQUEEZENET["big"] * ratio}
    units = {}
    for unit in UNITS:
        ms = [totals[unit] * t / sum(rk.units[unit].ms) for t in rk.units[unit].ms]
        units[unit] = replace(unit_times(ms, ms), power_w=None)
    source = (
        "inferred: totals 59.7 (big) and 80.5 ms (gpu) of ARMCL-Khadas, ARM-CL v21.02 of 2021; the LITTLE total by the "
        "mean ratio of LITTLE to big of the other networks; divided like the RK3399Pro's groups"
    )
    return replace(rk, units=units, about={"source": source})


def links(units: Sequence[str] = UNITS) -> dict[tuple[str, str], Link]:
    """Who copies pays: of two CPUs the receiver, of a CPU and the GPU the CPU. LITTLE takes twice as long as others."""
    sizes = (4096, 200704, 3211264)  # MobileNet's smallest output, and the smallest and largest tensor between groups
    zero, mapped = (0.0,) * 3, (0.11,) * 3
    of_cpu, of_gpu = (0.07, 0.15, 1.65), (0.18, 0.4, 3.7)
    cpus = [unit for unit in units if unit != "gpu"]

    def by(unit: str, copied: Sequence[float]) -> tuple[float, ...]:
        return tuple((2 if unit == "little" else 1) * ms for ms in copied)

    found = {(giver, taker): Link(sizes, zero, by(taker, of_cpu), zero) for giver, taker in permutations(cpus, 2)}
    if "gpu" in units:
        for cpu in cpus:
            found[cpu, "gpu"] = Link(sizes, by(cpu, of_gpu), zero, mapped)
            found["gpu", cpu] = Link(sizes, zero, by(cpu, of_gpu), mapped)
        found["host", "gpu"] = Link(sizes, zero, of_gpu, mapped)  # no stage of the host could pay
        found["gpu", "host"] = Link(sizes, of_gpu, zero, mapped)
    return found


def at_clocks(model: BoardModel, data: Path, clocks: Mapping[str, int]) -> BoardModel:
    """The RK3399Pro's model with GoogLeNet's groups as measured at these clocks."""
    return replace(model, networks=(measured(rk3399pro_profiles(data, clocks)["googlenet"])[1],))


def pipelines(model: BoardModel, data: Path) -> list[Prediction]:
    """What the model says of ``RK_PIPELINES``."""
    graph = network("googlenet")
    slower = [(at_clocks(model, data, clocks), plan) for plan, clocks, _ in RK_PIPELINES]
    return [predict(board.profile(graph), Plan.parse(plan)) for board, plan in slower]


def contention(factor: float, units: Sequence[str] = UNITS) -> dict[str, dict[str, float]]:
    """The same for all pairs."""
    return {unit: {other: factor for other in units if other != unit} for unit in units}


def calibrated(model: BoardModel, data: Path) -> BoardModel:
    """The model with contention and idle power set by the measured pipelines.

    Contention: least squares of the logarithm of the period. Idle power: the prediction is linear in it.
    """
    measured_ms = np.array([ms for _, _, ms in RK_PIPELINES])

    def error(factor: float) -> float:
        found = pipelines(replace(model, contention=contention(factor)), data)
        return float(np.sum(np.log([p.period_ms for p in found] / measured_ms) ** 2))

    factor = min((round(1 + step / 100, 2) for step in range(30)), key=error)
    model = replace(model, contention=contention(factor))
    at_0, at_1 = (power_w(pipelines(replace(model, idle_w=idle), data)[0]) for idle in (0.0, 1.0))
    return replace(model, idle_w=round((RK_PIPELINE_W - at_0) / (at_1 - at_0), 2))


def samples_of(model: BoardModel) -> dict[str, Sample]:
    """network -> what the model's regression was fitted on."""
    known = [measured for measured in model.networks if measured.fitted]
    return {measured.profile.network: measured.sample(network(measured.profile.network)) for measured in known}


def in_halves(model: BoardModel) -> BoardModel:
    """The RK3399Pro's model with its GPU in half precision, too."""
    found = halves(samples_of(model), FLOORS, {name: network(name) for name in ARMCL}, ARMCL)
    return replace(
        model,
        pricing={**model.pricing, "gpu": replace(model.pricing["gpu"], factors={"fp16": round(found.factor, 4)})},
        errors={**model.errors, "gpu@fp16": found.errors},
        error={"gpu@fp16": round(four_of_five(found.errors.values()), 3)},
    )


def power_w(prediction: Prediction) -> float:
    return prediction.energy_mj / prediction.period_ms


def least_power(profiles: Mapping[str, Profile]) -> float:
    return min(min(times.power_w) for profile in profiles.values() for times in profile.units.values())


SOURCES = {
    "links": [
        "inferred: 0.1 ms map, 0.07 ms copy, 0.01 ms unmap, whatever the size",
        "MobileNet's borders on the RK3399Pro: 0.3 to 3.3 ms between CPUs, 0.8 to 7.4 ms between CPU and GPU "
        "(CO-UP-Profiling, TODAES_TransferMobilenet.csv)",
        "the direction makes a factor of 2 there: who copies pays, LITTLE twice as much as big",
    ],
    "half_iqr_share": ["assumed, nobody published the spread"],
    "mean_power_w": ["of the board, mean over the running time of the fitted networks; where a network has none"],
    "prices": [
        "fitted to the relative times of the groups of the networks marked fitted",
        "its form: of some eighty tried, the simplest with all leave-one-network-out errors below 20 %",
        "ms_per_op of the GPU at least 0.064: the shortest kernels timed on a Mali-T628 (sowson/darknet, issue 2); "
        "inferred for other Malis",
    ],
}
RK_SOURCES = SOURCES | {
    "components": ["Rock Pi N10; the host thread of the GPU on a big core"],
    "times": [
        "ARM Compute Library fp32, task times and board power at the highest clocks (Ehsan-aghapour, LW-GA)",
        "its ResNet-50 is the original v1: all units of a block but the first take equally long",
    ],
    "contention": ["one factor for all pairs, calibrated on three measured pipelines of GoogLeNet (PipeAll-GA)"],
    "idle_w": ["calibrated on the 7.25 W of the first of these pipelines"],
    "precision_factors": [
        "gpu@fp16: the geometric mean of five networks' published times in half precision (ARMCL-RockPi) by the prices",
    ],
}
VIM3_SOURCES = SOURCES | {
    "components": ["Khadas VIM3; clocks as set by the scripts of CO-UP-Profiling"],
    "times": ["ARM Compute Library fp32, board power, the faster of two runs (Ehsan-aghapour, CO-UP-Profiling)"],
    "contention": ["carried over from the RK3399Pro"],
    "idle_w": ["upper bound: the least that the board drew in any group"],
}


def build(data: Path) -> dict[str, BoardModel]:
    """Both boards' models by name."""
    vim3, rk = vim3_profiles(data), rk3399pro_profiles(data, RK_TOP)
    networks = [measured(rk[name]) for name in RK_NAMES.values()]
    rk3399pro = calibrated(
        BoardModel.fit("rk3399pro", RK_PARTS, networks, FLOORS, links=links(), about=RK_SOURCES), data
    )
    rk3399pro = in_halves(rk3399pro)
    known = operating_points.published(at_each_clock(data), rk3399pro.idle_w)
    rk3399pro = with_points(rk3399pro, operating_points.as_published(known))
    networks = [measured(vim3[name]) for name in VIM3_NAMES.values()]
    networks.append(measured(vim3_squeezenet(vim3, rk["squeezenet"]), fitted=False))
    a311d = BoardModel.fit(
        "a311d-armcl",
        VIM3_PARTS,
        networks,
        FLOORS,
        contention=rk3399pro.contention,
        links=links(),
        idle_w=least_power(vim3),
        about=VIM3_SOURCES,
    )
    a311d = with_points(a311d, operating_points.by_law(operating_points.A311D_VOLTS, known))
    return {model.name: model for model in (a311d, rk3399pro)}


def at_each_clock(data: Path) -> dict[tuple[str, float], list[Profile]]:
    """(component, its clock in MHz) -> the networks' groups, others at their highest clocks."""
    clocks = [(unit, mhz) for unit, row in RK_CLOCKS.items() for mhz in row]
    return {(unit, mhz): list(rk3399pro_profiles(data, RK_TOP | {unit: mhz}).values()) for unit, mhz in clocks}


def with_points(model: BoardModel, points: Points) -> BoardModel:
    about = {**model.about, "operating_points": operating_points.SOURCES[model.name]}
    return replace(model, points=points, about=about)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", nargs="?", type=Path, default=DATA)
    options = options.parse_args()
    models = build(options.data)
    with Record(options, "board", "component", *(f"{name} [%] +.1f" for name in NETWORKS), keys=2) as record:
        for name, model in models.items():
            model.save(FOLDER / f"{name}.json")
            for unit, errors in model.errors.items():
                percent = {known.partition("-")[0]: 100 * error for known, error in errors.items()}
                record.add(name, unit, *(percent.get(known) for known in NETWORKS))
        record.say("Errors of whole networks, each left out of the fit. They chose the form of the regression.")
        row = regression.features(network("squeezenet")).sum(axis=0)
        for unit, ms in VIM3_SQUEEZENET.items():
            found = row @ np.array(models["a311d-armcl"].pricing[unit].prices)
            record.say(f"SqueezeNet on the A311D's {unit}, by an older library: {ms} ms, predicted {found:.1f}.")
    columns = (
        "plan", "big [MHz]", "little [MHz]", "gpu [MHz]", "predicted [ms] .1f", "measured [ms] .1f", "power [W] .2f",
    )  # fmt: skip
    with Record(options, *columns, board=Board.load("rk3399pro"), part="pipelines", keys=4) as record:
        for (plan, clocks, ms), found in zip(RK_PIPELINES, pipelines(models["rk3399pro"], options.data), strict=True):
            record.add(plan, *(clocks[unit] for unit in UNITS), found.period_ms, ms, power_w(found))
        factor = models["rk3399pro"].contention["big"]["little"]
        record.say(f"One factor of contention, {factor:.2f}, and the idle power were calibrated on these.")


if __name__ == "__main__":
    main()
