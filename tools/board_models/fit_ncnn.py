"""Generates the models of boards that run ncnn, pipeall/pipeline/boards/models/*-ncnn.json, from its published times.

    python -m tools.board_models.fit_ncnn [--data DATA]

Run it after fit_prices.py. ncnn's benchmark has whole networks: these are the measured ones, divided among their groups
as pipeall's prices have it. Any other network takes pipeall's prices times one factor for each component, the geometric
mean of published by priced times. Shows how far off that is for each network, by the factor of the others.
DATA is the folder with models/squeezenet1.1.onnx.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.common import DATA, Record, parser
from pipeall import load
from pipeall.graph.ir import Graph
from pipeall.pipeline.boards.models.board_model import FOLDER, HALF_IQR_SHARE, BoardModel
from pipeall.pipeline.boards.models.measured import Measured, borders
from pipeall.pipeline.boards.models.price_list import PriceList
from pipeall.pipeline.boards.models.pricing import Pricing
from pipeall.pipeline.boards.models.regression import Regression
from pipeall.pipeline.planning.profile import Profile, UnitTimes
from pipeall.pipeline.planning.uncertainty import four_of_five
from tools.board_models.fit_boards import network

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50-v1", "squeezenet1.1")
# ncnn's benchmark/README.md, ms: all cores of a cluster, and Vulkan in half precision. CPUs: half precision where the
# core has it, Cortex-A55 and A76. Least times of UNO Q and RK3566, on which other programs ran
PUBLISHED = {
    "a311d": {"big": (60.7, 82.2, 43.0, 186.2, 31.1), "gpu": (69.7, 67.3, 32.4, 159.8, 21.6)},
    "rk3399": {"big": (107.2, 133.2, 65.1, 293.1, 44.0), "gpu": (77.1, 80.8, 36.0, 176.2, 24.6)},
    "rk3588": {
        "big": (12.5, 15.1, 5.5, 27.5, 3.7),
        "little": (32.3, 47.6, 16.1, 78.8, 11.0),
        "gpu": (15.6, 17.7, 9.2, 38.1, 7.1),
    },
    "rpi4": {"big": (76.4, 114.4, 61.2, 262.8, 46.7)},
    "rpi5": {"big": (21.4, 25.4, 9.0, 46.2, 7.4)},
    "uno-q": {"big": (56.8, 105.4, 47.8, 219.9, 35.6)},
    "rk3566": {"big": (49.2, 75.5, 30.7, 135.8, 23.9), "gpu": (168.2, 147.5, 74.6, 372.6, 43.8)},
}  # fmt: skip
ABOUT = {
    "times": ["ncnn's benchmark/README.md: whole networks, divided among their groups as pipeall's prices have them"],
    "prices": [
        "of other networks: pipeall's, times one factor for each component, of published by priced times; "
        "half precision where ncnn has it: Cortex-A55 and A76, GPUs"
    ],
    "error": ["in four cases of five, by networks left out of the factor"],
}
OF_HALVES = (1, 1, 0.5, 0.5, 0.5, 1, 1, 0.5)  # of step_work.FEATURES: a megabyte of floats is half of one in halves
KEPT = ("components", "links", "contention", "half_iqr_share")  # of what pipeall's model of the board says


def graphs(data: Path) -> dict[str, Graph]:
    return {name: network(name) for name in NETWORKS[:-1]} | {
        NETWORKS[-1]: load(data / "models" / f"{NETWORKS[-1]}.onnx")
    }


def whole(graph: Graph, name: str, ms: Mapping[str, float]) -> Measured:
    """A network whose groups nobody timed."""
    spans = (len(graph.groups),)
    units = {unit: UnitTimes((value,), (round(HALF_IQR_SHARE * value, 4),)) for unit, value in ms.items()}
    about = {"source": "ncnn's benchmark/README.md"}
    return Measured.of(graph, Profile(name, ("network",), borders(graph, spans), units, about=about), spans, False)


def factors(priced: np.ndarray, published: np.ndarray) -> tuple[float, list[float]]:
    """The geometric mean of published by priced times, and the error of each network by that of the others."""
    ratios = np.log(published / priced)
    left_out = [float(np.delete(ratios, i).mean() - ratios[i]) for i in range(len(ratios))]
    return float(np.exp(ratios.mean())), np.expm1(left_out).tolist()


def as_ncnn_computes(prices: PriceList) -> PriceList:
    """The prices of what a network of floats is made of, in half precision where the core has it."""
    of_pixels = ("half-gemv", "gemv-halves")
    kernels = {kernel: row for kernel, row in prices.kernels.items() if ":" not in kernel and kernel not in of_pixels}
    if "fp16" in prices.precisions:
        halves = {
            kernel.removeprefix("f16:"): row for kernel, row in prices.kernels.items() if kernel.startswith("f16:")
        }
        halves["gemv"] = prices.price_of("gemv-halves")
        kernels.pop("strassen", None)  # which only floats have
        kernels |= {kernel: tuple(np.multiply(row, OF_HALVES).tolist()) for kernel, row in halves.items()}
    return PriceList(prices.cache_mb, kernels)


def scaled(prices: Pricing, factor: float) -> Pricing:
    if isinstance(prices, Regression):  # whose times are in half precision
        return Regression(tuple(factor * price for price in prices.prices), {"fp16": 1.0})
    kernels = {kernel: tuple(factor * price for price in row) for kernel, row in prices.kernels.items()}
    return PriceList(prices.cache_mb, kernels)


def board(own: BoardModel, nets: Mapping[str, Graph]) -> BoardModel:
    """The model of a board with ncnn, of that with pipeall's kernels."""
    published = PUBLISHED[own.name]
    pricing = {
        unit: as_ncnn_computes(known) if isinstance(known, PriceList) else known
        for unit, known in own.pricing.items()
        if unit in published
    }
    unscaled = BoardModel(own.name, own.components, (), pricing)
    profiles, errors = [unscaled.profile(graph) for graph in nets.values()], {}
    for unit, ms in published.items():
        priced = np.array([sum(profile.units[unit].ms) for profile in profiles])
        factor, left_out = factors(priced, np.array(ms))
        errors[unit] = dict(zip(nets, left_out, strict=True))
        pricing[unit] = scaled(pricing[unit], factor)
    several, kept = len(published) > 1, {key: own.about[key] for key in KEPT if key in own.about}
    return BoardModel(
        f"{own.name}-ncnn",
        {unit: own.components[unit] for unit in published},
        tuple(
            whole(graph, name, {unit: ms[index] for unit, ms in published.items()})
            for index, (name, graph) in enumerate(nets.items())
        ),
        pricing,
        errors,
        contention={
            unit: {other: factor for other, factor in own.contention[unit].items() if other in published}
            for unit in published
        }
        if several
        else {},
        links={ends: link for ends, link in own.links.items() if not set(ends) & set(own.published)} if several else {},
        error={unit: round(four_of_five(row.values()), 3) for unit, row in errors.items()},
        contention_error=own.contention_error if several else 0.0,
        about=ABOUT | kept,
    )


def build(data: Path) -> dict[str, BoardModel]:
    """The models by name."""
    nets = graphs(data)
    found = (board(BoardModel.load(name), nets) for name in PUBLISHED)
    return {model.name: model for model in found}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, default=DATA)
    options = options.parse_args()
    with Record(options, "board", "component", "network", "left out [%] +.1f", keys=3) as record:
        for name, model in build(options.data).items():
            model.save(FOLDER / f"{name}.json")
            for unit, errors in model.errors.items():
                for net, error in errors.items():
                    record.add(name, unit, net, 100 * error)


if __name__ == "__main__":
    main()
