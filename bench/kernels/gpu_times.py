"""The GPUs of boards with pipeall's own kernels: what was published of them, by which libraries."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.kernels.core_errors import deviation, interval_of
from bench.kernels.gpu_halves import ARMCL, Halves, halves
from pipeall.pipeline.boards.models.board_model import BoardModel
from tools.board_models.fit_boards import FLOORS, network, samples_of
from tools.board_models.fit_ncnn import PUBLISHED, graphs

# ncnn's Vulkan times by those on the A311D's Mali-G52: AlexNet, GoogLeNet, MobileNet, ResNet-18, ResNet-50, SqueezeNet
# 1.1, YOLOv4-tiny; on the RK3588, on the RK3566, and the least times on the Orion O6, without SqueezeNet: it was the
# first to run, and took 16.3 to 16.6 ms, as others did there while the GPU was not clocked up
G52 = np.array((69.7, 67.3, 32.4, 61.4, 159.8, 21.6, 153.9))
G610 = np.array((15.6, 17.7, 9.2, 16.3, 38.1, 7.1, 50.1)) / G52
G52_ONE_CORE = np.array((168.2, 147.5, 74.6, 138.2, 372.6, 43.8, 240.0)) / G52
G720 = np.array((7.76, 9.03, 3.45, 6.47, 14.06, 26.7)) / np.delete(G52, 5)
# The same networks by another library on the same GPU, ms: ncnn's Vulkan, in half precision
VULKAN = {
    "a311d-armcl": {"alexnet": 69.7, "googlenet": 67.3, "mobilenet": 32.4, "resnet50-slim": 159.8},
    "rk3399pro": {"alexnet": 77.1, "googlenet": 80.8, "mobilenet": 36.0, "resnet50-v1": 176.2},
}

# By ncnn in half precision, ms, in the order of its tables
HALVES = {name: row["gpu"] for name, row in PUBLISHED.items() if "gpu" in row}
HALVES["orion-o6"] = (7.76, 9.03, 3.45, 14.06, None)

OWN_LIBRARY = ("rk3399pro",)  # models whose own library has published times in half precision


def gpu_spread(model: BoardModel) -> float:
    """Standard deviation of the logarithm between two libraries' times on a GPU, both of published networks."""
    times = {known.profile.network: sum(known.profile.units["gpu"].ms) for known in model.networks}
    ratios = [np.log(times[name] / ms) for name, ms in VULKAN[model.name].items()]
    return float(np.std(ratios, ddof=1))


def gpu_halves(name: str, source: BoardModel, speed: float, data: Path) -> Halves:
    """A board's GPU in half precision: by the library that its prices are of where that was published, else by ncnn.

    source  the model that its prices are of, at this speed
    """
    if source.name in OWN_LIBRARY:
        known, nets = ARMCL, {net: network(net) for net in ARMCL}
    else:
        nets = graphs(data)
        known = {net: ms for net, ms in zip(nets, HALVES[name], strict=True) if ms}
        nets = {net: nets[net] for net in known}
    return halves(samples_of(source), FLOORS, nets, known, speed)


def halves_error(errors: Iterable[float], source: BoardModel, lent: float = 0.0) -> float:
    """The error of a GPU in half precision, by those of networks left out of factor and prices.

    With the distance of two libraries, which a factor between ncnn's times and another library's prices has in it.

    lent  standard deviation of the logarithm of its speed, where the published times are another GPU's
    """
    return interval_of(deviation(errors), gpu_spread(source) if source.name in OWN_LIBRARY else 0.0, lent)
