"""The boards that have models of pipeall's own kernels: their parts, what these are priced as, and their sources."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.kernels.gpu_times import G52_ONE_CORE, G610, G720
from pipeall.pipeline.boards.models.modelled import Modelled
from tools.board_models.priced_cores import OF_WIRE, STREAM_PI4


@dataclass(frozen=True)
class Gpu:
    """A GPU whose prices are those of another one, but for the starts, which a faster GPU does not shorten.

    source   the board model that has them
    ratios   how many times as long published networks take on this one; none: it is the same GPU
    why      where these come from
    unsure   standard deviation of the logarithm of what they do not say
    halves   the board whose published times in half precision it has; default its own
    """

    source: str
    ratios: np.ndarray | None = None
    why: str = ""
    unsure: float = 0.0
    halves: str = ""

    @property
    def factor(self) -> float:
        """How many times as long it takes as the GPU of the source."""
        return 1.0 if self.ratios is None else float(np.exp(np.log(self.ratios).mean()))

    @property
    def deviation(self) -> float:
        """Standard deviation of the logarithm of the factor, of one network."""
        return 0.0 if self.ratios is None else float(np.hypot(np.std(np.log(self.ratios), ddof=1), self.unsure))


@dataclass(frozen=True)
class BoardParts:
    """socs: component -> the core it is priced as; shared_gb_s: what all cores read and write together."""

    components: Mapping[str, Modelled]
    socs: Mapping[str, str]
    shared_gb_s: float
    gpu: Gpu | None = None
    about: str = ""


BOARDS = {
    "a311d": BoardParts(
        {
            "big": Modelled("Cortex-A73", 4, 2208.0),
            "little": Modelled("Cortex-A53", 2, 1800.0),
            "gpu": Modelled("Mali-G52", 4, 800.0),
        },
        {"big": "a311d-big", "little": "a311d-little"},
        OF_WIRE * 12.9,
        Gpu("a311d-armcl"),
        "Khadas VIM3",
    ),
    "rk3399": BoardParts(
        {
            "big": Modelled("Cortex-A72", 2, 1800.0),
            "little": Modelled("Cortex-A53", 4, 1500.0),
            "gpu": Modelled("Mali-T860", 4, 800.0),
        },
        {"big": "rk3399-big", "little": "rk3399-little"},
        OF_WIRE * 14.9,
        Gpu("rk3399pro"),
        "NanoPC-T4",
    ),
    "rk3588": BoardParts(
        {
            "big": Modelled("Cortex-A76", 4, 2400.0),
            "little": Modelled("Cortex-A55", 4, 1800.0),
            "gpu": Modelled("Mali-G610", 4, 1000.0),
        },
        {"big": "rk3588-big", "little": "rk3588-little"},
        OF_WIRE * 33.8,
        Gpu("a311d-armcl", G610, "as ncnn's Vulkan times"),
        "Orange Pi 5, Rock 5B",
    ),
    "rpi4": BoardParts({"big": Modelled("Cortex-A72", 4, 1800.0)}, {"big": "rpi4"}, STREAM_PI4, about="Raspberry Pi 4"),
    "rpi5": BoardParts(
        {"big": Modelled("Cortex-A76", 4, 2400.0)}, {"big": "rpi5"}, OF_WIRE * 17.1, about="Raspberry Pi 5"
    ),
    "uno-q": BoardParts(
        {"big": Modelled("Cortex-A53", 4, 2000.0)}, {"big": "uno-q"}, OF_WIRE * 14.4,
        about="Arduino UNO Q, Qualcomm QRB2210; its Adreno 702 has no part in it: nobody published times of a network "
        "on it",
    ),
    "rk3566": BoardParts(
        {"big": Modelled("Cortex-A55", 4, 1800.0), "gpu": Modelled("Mali-G52", 1, 800.0)},
        {"big": "rk3566"},
        OF_WIRE * 8.4,
        Gpu("a311d-armcl", G52_ONE_CORE, "as ncnn's Vulkan times"),
        "Orange Pi CM4, Station M2; one core of a Mali-G52 with two execution engines",
    ),
    "rk3576": BoardParts(
        {
            "big": Modelled("Cortex-A72", 4, 2200.0),
            "little": Modelled("Cortex-A53", 4, 2000.0),
            "gpu": Modelled("Mali-G52", 3, 900.0),
        },
        {"big": "rk3576-big", "little": "rk3576-little"},
        OF_WIRE * 16.9,
        Gpu(
            "a311d-armcl",
            G52_ONE_CORE * 800 / 900 / 3,
            "as ncnn's Vulkan times on the RK3566's one core of 800 MHz, by three of 900: nobody published its own",
            0.2,
            "a311d",
        ),
        "Luckfox Omni3576, Rock 4D; with LPDDR4X, of 32 bits",
    ),
    "orion-o6": BoardParts(
        {
            "big": Modelled("Cortex-A720", 4, 2550.0),
            "mid": Modelled("Cortex-A720", 4, 2250.0),
            "little": Modelled("Cortex-A520", 4, 1800.0),
            "gpu": Modelled("Immortalis-G720", 10, 900.0),
        },
        {"big": "orion-o6-big", "mid": "orion-o6-mid", "little": "orion-o6-little"},
        OF_WIRE * 88.0,
        Gpu("a311d-armcl", G720, "as ncnn's Vulkan times without SqueezeNet's, when its clock was still low"),
        "Radxa Orion O6, CIX P1; cores of two clocks are in a cluster, which has their mean",
    ),
}  # fmt: skip
