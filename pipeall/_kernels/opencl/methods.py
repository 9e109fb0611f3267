"""How each convolution can be computed on an OpenCL device: tiles, and Winograd F(m x m, 3 x 3), by modelled work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from ...steps import Step, is_depthwise, item_bytes
from . import cl_devices as opencl

INDICES = 2**31  # kernels count elements in 32 bits
# Lines of G of F(m x m, 3 x 3), by m (Lavin and Gray 2016): at the points of winograd.cl.
WINOGRAD_WEIGHT = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (256 / 225, 0, 0),
        (-2048 / 2975, -256 / 595, -32 / 119),
        (-2048 / 2975, 256 / 595, -32 / 119),
        (128 / 1071, 64 / 357, 32 / 119),
        (128 / 1071, -64 / 357, 32 / 119),
        (0, 0, 1),
    ),
}
BLOCK = 192  # products, at least, that a longer sum adds by themselves (decision 003)
TRANSFORM = 24  # multiply-adds that a transformed input or output is worth: its way to memory and back


@dataclass(frozen=True, slots=True)
class Family:
    """The parameters of the kernels for a kind of device, as their files define them."""

    conv: Mapping[str, int]
    tiles: tuple[tuple[int, int], ...]  # other (VECTOR, PIXELS) of conv.cl worth a try
    window: Mapping[str, int]  # depthwise.cl and pool.cl
    winograd: Mapping[int, Mapping[str, int]]  # by M, the outputs of a tile along one side


# A Bifrost thread has 64 registers of 32 bits: 8 x 4 sums, 4 x 4 inputs, 8 weights as they pass.
GPU = Family(
    conv=dict(VECTOR=8, PIXELS=4, INPUTS=4, LOCAL_PIXELS=8, LOCAL_BLOCKS=4),
    tiles=((4, 4), (8, 2), (4, 8), (4, 2), (16, 2)),
    window=dict(VECTOR=4, LOCAL_CHANNELS=8, LOCAL_COLUMNS=8),
    winograd={2: dict(VECTOR=2, LOCAL_CHANNELS=32), 4: dict(VECTOR=1, LOCAL_CHANNELS=32)},
)
# A CPU core has 16 vectors of 8 floats (AVX2): 12 sums, 2 weights, an input spread over a vector as it is loaded.
# Kernels that call functions stay below 16 (vector.cl).
CPU = Family(
    conv=dict(VECTOR=16, PIXELS=6, INPUTS=1, LOCAL_PIXELS=4, LOCAL_BLOCKS=1),
    tiles=((16, 4), (8, 12), (8, 8), (16, 3)),
    window=dict(VECTOR=8, LOCAL_CHANNELS=1, LOCAL_COLUMNS=1),
    winograd={2: dict(VECTOR=8, LOCAL_CHANNELS=1), 4: dict(VECTOR=8, LOCAL_CHANNELS=1)},
)
DEPTHWISE_PIXELS = 4


@dataclass(frozen=True, slots=True)
class Method:
    """How a convolution that is not depthwise is computed.

    m       by Winograd's F(m x m, 3 x 3), directly where 0
    vector  output channels of a work item of conv.cl
    pixels  its output pixels
    """

    m: int
    vector: int
    pixels: int

    def __str__(self) -> str:
        return f"{f'winograd{self.m}' if self.m else 'direct'} {self.vector}x{self.pixels}"

    def products(self, step: Step) -> int:
        """Multiply-adds of a convolution without what transforms and blocks add."""
        return products(step, self.m)

    def inner_bytes(self, step: Step) -> int:
        """Bytes of a convolution's weights as they are kept, and twice of what lies between its kernels."""
        elements = step.weight.size
        if self.m:
            elements = prod(step.weight.shape[:2]) * (self.m + 2) ** 2 + 2 * sum(transformed(step, self.m))
        return item_bytes(step.dst.dtype) * elements


Choose = Callable[[Step, Sequence[Method]], Method]


def modelled(step: Step, candidates: Sequence[Method]) -> Method:
    """The first."""
    return candidates[0]


def family(info: opencl.DeviceInfo) -> Family:
    """The kernels' parameters for a device."""
    return CPU if info.stand_in else GPU


def methods(step: Step, info: opencl.DeviceInfo, precision: str) -> tuple[Method, ...]:
    """Every way to compute a convolution on a device, the modelled one first; none for a depthwise one."""
    if is_depthwise(step):
        return ()
    known, largest = family(info), 4 if precision == "fp32" else 2  # half precision loses too much in the largest
    tiles = ((known.conv["VECTOR"], known.conv["PIXELS"]), *known.tiles)
    if step.dst.h * step.dst.w == 1:
        tiles = tuple(dict.fromkeys((vector, 1) for vector, _ in tiles))
    default = winograd(step, largest)
    others = (m for m in winograd_tiles(step) if m <= largest and m != default)
    return tuple(Method(m, *tile) for m in (default, *others) for tile in tiles)


def winograd_tiles(step: Step) -> tuple[int, ...]:
    """Every M of which F(M x M, 3 x 3) can compute a convolution; 0 stands for the direct one."""
    p = step.params
    if (step.weight.shape[2:], p["groups"], *p["strides"], *p["dilations"]) != ((3, 3), 1, 1, 1, 1, 1):
        return (0,)
    return (0, *(m for m in WINOGRAD_WEIGHT if sum(transformed(step, m)) < INDICES))


def winograd(step: Step, largest: int) -> int:
    """The M of ``winograd_tiles`` up to ``largest`` that costs least."""

    def cost(m: int) -> int:
        return products(step, m) + (TRANSFORM * sum(transformed(step, m)) if m else 0)

    return min((m for m in winograd_tiles(step) if m <= largest), key=cost)


def block(length: int) -> int:
    """BLOCK of the kernels that sum so many products: 0 where they are one block."""
    return BLOCK if length > BLOCK else 0


def products(step: Step, m: int) -> int:
    """Multiply-adds of F(m x m, 3 x 3), or of the direct convolution where m is 0."""
    cout, cin = step.weight.shape[:2]
    return transformed(step, m)[0] * cout if m else step.weight.size * step.dst.h * step.dst.w


def transformed(step: Step, m: int) -> tuple[int, int]:
    """Elements of the transformed input, and of the products, of F(m x m, 3 x 3)."""
    cout, cin = step.weight.shape[:2]
    points = ceil(step.dst.h / m) * ceil(step.dst.w / m) * (m + 2) ** 2
    return points * cin, points * cout
