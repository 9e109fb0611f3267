"""What other algorithms would make of each convolution: operations and memory, direct, by GEMM, Winograd and FFT.

The lecture (paper 004) says that convolutions by FFT take less time and about double the space. That holds for the
activations of layers with stride 1. The spectra of the kernels take far more, and transforming them costs more than it
saves where they are used once, as in training with small batches. Counts are for one frame, batch 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import ceil, log2, prod

from .count import macs
from .size_network import FLOAT_BYTES, Layer, Network

# F(m x m, 3 x 3): operations to transform a tile of input, a kernel, a tile of output (Lavin and Gray 2015, section 4)
WINOGRAD = {2: (32, 28, 24), 4: (156, 72, 90)}
COMPLEX_BYTES = 8  # complex64
COMPLEX_MAC = 8  # real operations


@dataclass(frozen=True, slots=True)
class AlgorithmCost:
    """What one algorithm makes of one convolution.

    flops        operations for a frame, with the kernels transformed beforehand
    prepare      operations to transform the kernels
    activations  bytes of input and output as the algorithm holds them: as they are, or transformed
    weights      bytes of the weights as the algorithm holds them
    """

    algorithm: str
    flops: float
    prepare: float
    activations: int
    weights: int


def algorithm_costs(network: Network, layer: Layer) -> list[AlgorithmCost]:
    """The algorithms that can compute a Conv layer of images; direct comes first. Empty for any other layer."""
    shapes = network.shapes
    if layer.op != "Conv" or len(shapes[layer.inputs[0]]) != 4:
        return []
    image, weight, out = shapes[layer.inputs[0]], shapes[layer.inputs[1]], shapes[layer.outputs[0]]
    pads = layer.attrs.get("pads", (0, 0, 0, 0))
    sides = FLOAT_BYTES * (prod(image) + prod(out))
    kernel, direct = FLOAT_BYTES * prod(weight), 2.0 * macs(network, layer)
    columns = FLOAT_BYTES * layer.attrs.get("group", 1) * prod(weight[1:]) * prod(out[2:])
    costs = [
        AlgorithmCost("direct", direct, 0, sides, kernel),
        AlgorithmCost("im2col", direct, 0, sides + (columns if prod(weight[2:]) > 1 else 0), kernel),
    ]
    dense = set(layer.attrs.get("dilations", ())) <= {1}
    unit_stride = set(layer.attrs.get("strides", ())) <= {1}
    if dense and unit_stride and weight[2:] == (3, 3) and weight[1] > 1:
        costs += [_winograd(m, image, weight, out) for m in WINOGRAD]
    if dense:
        costs.append(_fft(image, weight, out, pads))
    return costs


def _winograd(m: int, image: tuple, weight: tuple, out: tuple) -> AlgorithmCost:
    points, tiles = (m + 2) ** 2, ceil(out[2] / m) * ceil(out[3] / m)
    of_input, of_kernel, of_output = WINOGRAD[m]
    kernels = prod(weight[:2])
    flops = tiles * (2 * points * kernels + of_input * image[1] + of_output * out[1])
    activations = FLOAT_BYTES * tiles * points * (image[1] + out[1])
    return AlgorithmCost(f"winograd{m}", flops, of_kernel * kernels, activations, FLOAT_BYTES * points * kernels)


def _fft(image: tuple, weight: tuple, out: tuple, pads: tuple) -> AlgorithmCost:
    """By FFT: whole padded planes, the half of the spectrum that a real plane needs, 5/2 n log2 n operations each."""
    height, width = smooth(image[2] + pads[0] + pads[2]), smooth(image[3] + pads[1] + pads[3])
    transform = 2.5 * height * width * log2(height * width) if height * width > 1 else 0.0
    points, kernels, planes = height * (width // 2 + 1), prod(weight[:2]), image[1] + out[1]
    flops = planes * transform + COMPLEX_MAC * points * kernels
    spectrum = COMPLEX_BYTES * points
    return AlgorithmCost("fft", flops, kernels * transform, planes * spectrum, kernels * spectrum)


def smooth(size: int) -> int:
    """The least number from ``size`` on that has no prime factor above 5: the sizes that FFTs are fast for."""
    return next(n for n in count(max(size, 1)) if _is_smooth(n))


def _is_smooth(n: int) -> bool:
    for factor in (2, 3, 5):
        while n % factor == 0:
            n //= factor
    return n == 1
