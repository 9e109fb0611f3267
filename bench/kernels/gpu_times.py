"""The GPUs of boards with pipeall's own kernels: what was published of them, by which libraries."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.kernels.core_errors import deviation, interval_of
from bench.kernels.gpu_halves import ARMCL, Halves, halves
from pipeall.pipeline.boards.models.board_model import BoardModel
from tools.board_models.fit_boards import FLOORS, network, samples_of
from tools.board_models.fit_ncnn import PUBLISHED, graphs

# ncnn's Vulkan times on the RK3588's Mali-G610 by those on the A311D's Mali-G52: AlexNet, GoogLeNet, MobileNet,
# ResNet-18, ResNet-50, SqueezeNet 1.1, YOLOv4-tiny
G610 = np.array((15.6, 17.7, 9.2, 16.3, 38.1, 7.1, 50.1)) / (69.7, 67.3, 32.4, 61.4, 159.8, 21.6, 153.9)
# The same networks by another library on the same GPU, ms: ncnn's Vulkan, in half precision
VULKAN = {
    "a311d-armcl": {"alexnet": 69.7, "googlenet": 67.3, "mobilenet": 32.4, "resnet50-slim": 159.8},
    "rk3399pro": {"alexnet": 77.1, "googlenet": 80.8, "mobilenet": 36.0, "resnet50-v1": 176.2},
}

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
        known = dict(zip(nets, PUBLISHED[name]["gpu"], strict=True))
    return halves(samples_of(source), FLOORS, nets, known, speed)


def halves_error(errors: Iterable[float], source: BoardModel) -> float:
    """The error of a GPU in half precision, by those of networks left out of factor and prices.

    With the distance of two libraries, which a factor between ncnn's times and another library's prices has in it.
    """
    return interval_of(deviation(errors), gpu_spread(source) if source.name in OWN_LIBRARY else 0.0)
