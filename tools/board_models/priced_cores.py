"""The cores that steps are priced on: their memory, and what ncnn published of one thread and of all of a cluster.

A core whose steps nobody ran under emulation has those of one that is alike, at its own clock and memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeall.pipeline.planning.uncertainty import DEVIATIONS
from tools.board_models.price_table import Row

# Share of the wires' rate that STREAM reaches: 67 to 79 % on TI's AM64x and AM62x (SPRACV1B, SPRAD45A). The wires, in
# GB/s: 32 bits of LPDDR4 at 3224 MT/s (VIM3), 64 of LPDDR3 at 1866 (RK3399), 64 of LPDDR4X at 4224 (RK3588), 32 of
# LPDDR4X at 4267 (Pi 5), at 3608 (UNO Q) and at 4224 (RK3576), 32 of LPDDR4 at 2112 (RK3566), 128 of LPDDR5 at 5500
# (Orion O6). On a Pi 4 STREAM itself was published (sci-pi.org.uk/bench/stream.html)
OF_WIRE, STREAM_PI4 = 0.72, 5.5
MEMORY = 0.41  # of the time that bytes take at a core's bandwidth: what armcost counts


@dataclass(frozen=True)
class Alike:
    """A core that was priced, and how many times as fast this one computes floats and integers.

    unsure  standard deviation of the logarithm of a network's time by these
    bfloats the core whose priced steps tell how long bfloat16 takes by float32, where this one computes in it
    """

    soc: str
    floats: float
    integers: float
    unsure: float
    bfloats: str = ""

    def factor(self, unit: str) -> float:
        return self.integers if unit.endswith("@int8") else self.floats


@dataclass(frozen=True)
class Engine:
    """What another engine than ncnn tells of several threads of a cluster.

    speedups  of all threads over one, of networks whose memory takes as much of the time as that of ``network``
    least     share of the peak of all cores that it reaches, of products that no algorithm saves
    """

    name: str
    network: str = ""
    speedups: Sequence[float] = ()
    least: float = 0.0


@dataclass(frozen=True)
class Core:
    """read and write: GB/s of one core from and to memory (ThomasKaiser/sbc-bench, as armcost has them).

    RK3576: results/8Qwk; Orion O6: results/88LE.

    cache_mb  size of the last cache, of the core that was priced
    speedups  network -> how many times as fast all cores of the cluster are as one, by ncnn's published times
    unit      the precision that ncnn had there, as rows name it
    engines   others with published times of several threads there
    like      the cluster that has them, where nobody published this one's
    integers  instruction set of its GEMM of integers
    alike     the core whose priced steps it has, where its own were not priced
    """

    read: float
    write: float
    cache_mb: float
    threads: int
    speedups: Mapping[str, float] = field(default_factory=dict)
    unit: str = "big"
    engines: Sequence[Engine] = ()
    like: str | None = None
    integers: str = "neon"
    alike: Alike | None = None

    def memory_ms(self, rows: Iterable[Row]) -> np.ndarray:
        """What the bytes of each step take."""
        return np.array([MEMORY * (row.read_mb / self.read + row.written_mb / self.write) for row in rows])


def _ratios(one: Sequence[float], many: Sequence[float]) -> dict[str, float]:
    names = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
    return {name: a / b for name, a, b in zip(names, one, many, strict=True)}


# ncnn's benchmark/README.md: one thread, all threads of the cluster. SqueezeNet is 1.1 there. The A55 has its one
# thread on an RK3566 at the same clock, the RK3588's A76 on a Raspberry Pi 5. Least times of UNO Q and RK3566, on which
# other programs ran
VIM3 = _ratios((141.2, 229.9, 113.3, 531.9, 68.7), (60.7, 82.2, 43.0, 186.2, 31.1))
RK3399 = _ratios((165.3, 228.6, 112.0, 504.2, 71.8), (107.2, 133.2, 65.1, 293.1, 44.0))
PI4 = _ratios((139.4, 235.9, 124.3, 534.1, 74.0), (76.4, 114.4, 61.2, 262.8, 46.7))
PI5 = _ratios((35.6, 48.7, 20.3, 89.4, 11.9), (21.4, 25.4, 9.0, 46.2, 7.4))
RK3588_BIG = _ratios((35.6, 48.7, 20.3, 89.4, 11.9), (12.5, 15.1, 5.5, 27.5, 3.7))
RK3588_LITTLE = _ratios((116.3, 185.4, 68.8, 332.1, 47.7), (32.3, 47.6, 16.1, 78.8, 11.0))
UNO_Q = _ratios((196.1, 337.1, 146.5, 739.4, 94.2), (56.8, 105.4, 47.8, 219.9, 35.6))
RK3566 = _ratios((115.0, 179.4, 68.2, 327.2, 47.3), (49.2, 75.5, 30.7, 135.8, 23.9))
# A Raspberry Pi 5. LiteRT in float32: YOLO26n and s before and after it took all cores (ultralytics/ultralytics, pull
# request 25564). ExecuTorch in 8 bits: wide ResNet-50-2 in 49.43 ms (Arm's model card), 11.4 G products, at 32 a cycle
PI5_ENGINES = (
    Engine("LiteRT", "yolo26n", (245.5 / 123.3, 795.0 / 360.0)),
    Engine("ExecuTorch", least=11.4e9 / 49.43e-3 / (4 * 2.4e9 * 32)),
)
# How many times as fast one A720 of the Orion O6, at 2.6 GHz, is as one A76 of a Raspberry Pi 5, by ncnn's least times
# of one thread: AlexNet, GoogLeNet, MobileNet v1, v2, v3, ResNet-50, SqueezeNet 1.1, EfficientNet-B0, NanoDet-m,
# FastestDet, YOLOv4-tiny, ViT; in 8 bits GoogLeNet, MobileNet, ResNet-18, ResNet-50, SqueezeNet
A720 = np.divide(
    (35.24, 48.62, 20.24, 16.21, 11.64, 89.04, 11.77, 24.12, 19.63, 7.33, 67.61, 1249.1),
    (23.94, 35.36, 15.56, 9.67, 8.05, 68.07, 8.52, 18.67, 13.05, 4.65, 42.96, 1001.7),
)
A720_INT8 = np.divide((49.07, 14.38, 36.4, 80.0, 11.67), (27.86, 8.68, 19.07, 39.99, 6.49))
# Of two cores of one kind that were both priced, one by the other's steps at its own clock and memory: 4 of 5 networks
# within 7 % on an A53, whose memories differ in latency, within 2 % on A72 and A76
CLOCK_IN_ORDER, CLOCK = 0.055, 0.015
# Nobody published a Cortex-A520: as fast as an A55 at its clock. Arm says that the A510 between them is a third faster,
# but two of them may share one vector unit
A520 = float(np.log(1.35) / DEVIATIONS)


BFLOATS_ON = "a720"  # what price.py calls a modelled Cortex-A720, priced in float32 and bfloat16


def _a720(mhz: float) -> Alike:
    speeds = (float(np.exp(np.log(ratios).mean())) * mhz / 2600 for ratios in (A720, A720_INT8))
    return Alike("rpi5", *speeds, float(np.std(np.log(A720), ddof=1)), BFLOATS_ON)


CORES = {
    "a311d-big": Core(9.92, 9.24, 1.0, 4, VIM3),
    "a311d-little": Core(3.67, 7.97, 0.25, 2, like="rk3588-little"),
    "rk3399-big": Core(6.6, 4.89, 1.0, 2, RK3399),
    "rk3399-little": Core(2.0, 4.78, 0.5, 4, like="rk3588-little"),
    "rk3588-big": Core(21.4, 29.9, 3.0, 4, RK3588_BIG, "big@fp16", integers="dotprod"),
    "rk3588-little": Core(7.17, 22.0, 3.0, 4, RK3588_LITTLE, "big@fp16", integers="dotprod"),
    "rpi4": Core(9.1, 3.12, 1.0, 4, PI4),
    "rpi5": Core(14.9, 10.0, 2.0, 4, PI5, "big@fp16", PI5_ENGINES, integers="dotprod"),
    # Memory of one of the UNO Q's cores: as of other A53 with LPDDR4, nobody published it
    "uno-q": Core(3.5, 8.0, 0.25, 4, UNO_Q, alike=Alike("a311d-little", 2.0 / 1.8, 2.0 / 1.8, CLOCK_IN_ORDER)),
    "rk3566": Core(
        6.29, 8.15, 3.0, 4, RK3566, "big@fp16", integers="dotprod",
        alike=Alike("rk3588-little", 1.0, 1.0, CLOCK_IN_ORDER),
    ),
    "rk3576-big": Core(7.7, 15.8, 1.0, 4, like="a311d-big", alike=Alike("rpi4", 2.2 / 1.8, 2.2 / 1.8, CLOCK)),
    "rk3576-little": Core(
        3.83, 14.4, 0.25, 4, like="uno-q", alike=Alike("a311d-little", 2.0 / 1.8, 2.0 / 1.8, CLOCK_IN_ORDER)
    ),
    "orion-o6-big": Core(22.0, 31.4, 2.0, 4, like="rk3588-big", integers="i8mm", alike=_a720(2550)),
    "orion-o6-mid": Core(22.7, 44.4, 2.0, 4, like="rk3588-big", integers="i8mm", alike=_a720(2250)),
    "orion-o6-little": Core(
        10.9, 28.4, 3.0, 4, like="rk3588-little", integers="i8mm", alike=Alike("rk3588-little", 1.0, 1.0, A520)
    ),
}  # fmt: skip


def steps(soc: str, rows: Iterable[Row]) -> Iterator[Row]:
    """The priced steps of a core; where they are another's, arithmetic and caches are at its clock, with its memory.

    Steps in bfloat16 are ``Alike.bfloats``'s, made longer by what both cores take for the same networks in float32.
    """
    core, alike, rows = CORES[soc], CORES[soc].alike, list(rows)
    if alike is None:
        yield from (row for row in rows if row.soc == soc)
        return
    own = [row for row in rows if row.soc == alike.soc]
    there, here = CORES[alike.soc].memory_ms(own), core.memory_ms(own)
    known = [
        row._replace(soc=soc, ms=(row.ms - min(row.ms, before)) / alike.factor(row.unit) + after)
        for row, before, after in zip(own, there.tolist(), here.tolist(), strict=True)
    ]
    yield from known
    rounded = [row for row in rows if row.soc == alike.bfloats]
    same = {row.network for row in rounded if row.unit == "big"}
    ours, theirs = (
        sum(row.ms for row in part if row.unit == "big" and row.network in same) for part in (known, rounded)
    )
    yield from (row._replace(soc=soc, ms=row.ms * ours / theirs) for row in rounded if row.unit == "big@bf16")
