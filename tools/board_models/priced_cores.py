"""The cores that steps are priced on: their memory, and what ncnn published of one thread and of all of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Share of the wires' rate that STREAM reaches: 67 to 79 % on TI's AM64x and AM62x (SPRACV1B, SPRAD45A). The wires, in
# GB/s: 32 bits of LPDDR4 at 3224 MT/s (VIM3), 64 of LPDDR3 at 1866 (RK3399), 64 of LPDDR4X at 4224 (RK3588), 32 of
# LPDDR4X at 4267 (Pi 5). On a Pi 4 STREAM itself was published (sci-pi.org.uk/bench/stream.html)
OF_WIRE, STREAM_PI4 = 0.72, 5.5


@dataclass(frozen=True)
class Core:
    """read and write: GB/s of one core from and to memory (ThomasKaiser/sbc-bench, as armcost has them).

    cache_mb  size of the last cache
    speedups  network -> how many times as fast all cores of the cluster are as one, by ncnn's published times
    unit      the precision that ncnn had there, as rows name it
    like      the cluster that has them, where nobody published this one's
    integers  instruction set of its GEMM of integers
    """

    read: float
    write: float
    cache_mb: float
    threads: int
    speedups: Mapping[str, float] = field(default_factory=dict)
    unit: str = "big"
    like: str | None = None
    integers: str = "neon"


def _ratios(one: Sequence[float], many: Sequence[float]) -> dict[str, float]:
    names = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
    return {name: a / b for name, a, b in zip(names, one, many, strict=True)}


# ncnn's benchmark/README.md: one thread, all threads of the cluster. SqueezeNet is 1.1 there. The A55 has its one
# thread on an RK3566 at the same clock, the RK3588's A76 on a Raspberry Pi 5. Nobody published a cluster of A53.
VIM3 = _ratios((141.2, 229.9, 113.3, 531.9, 68.7), (60.7, 82.2, 43.0, 186.2, 31.1))
RK3399 = _ratios((165.3, 228.6, 112.0, 504.2, 71.8), (107.2, 133.2, 65.1, 293.1, 44.0))
PI4 = _ratios((139.4, 235.9, 124.3, 534.1, 74.0), (76.4, 114.4, 61.2, 262.8, 46.7))
PI5 = _ratios((35.6, 48.7, 20.3, 89.4, 11.9), (21.4, 25.4, 9.0, 46.2, 7.4))
RK3588_BIG = _ratios((35.6, 48.7, 20.3, 89.4, 11.9), (12.5, 15.1, 5.5, 27.5, 3.7))
RK3588_LITTLE = _ratios((116.3, 185.4, 68.8, 332.1, 47.7), (32.3, 47.6, 16.1, 78.8, 11.0))
CORES = {
    "a311d-big": Core(9.92, 9.24, 1.0, 4, VIM3),
    "a311d-little": Core(3.67, 7.97, 0.25, 2, like="rk3588-little"),
    "rk3399-big": Core(6.6, 4.89, 1.0, 2, RK3399),
    "rk3399-little": Core(2.0, 4.78, 0.5, 4, like="rk3588-little"),
    "rk3588-big": Core(21.4, 29.9, 3.0, 4, RK3588_BIG, "big@fp16", integers="dotprod"),
    "rk3588-little": Core(7.17, 22.0, 3.0, 4, RK3588_LITTLE, "big@fp16", integers="dotprod"),
    "rpi4": Core(9.1, 3.12, 1.0, 4, PI4),
    "rpi5": Core(14.9, 10.0, 2.0, 4, PI5, "big@fp16", integers="dotprod"),
}
