"""Resizing on one core: median time natively measured, and its share of what the core allows (attainable.py).

    pytest bench/kernels/bench_resize.py --benchmark-only --benchmark-json=resize.json

An image is read once and written once. Of each pass an output has a product less than taps, since their weights add up
to 1: x0 + w (x1 - x0) has one. Both passes are counted in the order in which they have fewer.
"""

from math import prod

import numpy as np
import pytest

from bench.kernels.attainable import judge
from bench.kernels.single_step import big, on_axes, strided_program
from pipeall.graph.ops import attributes
from pipeall.graph.ops.sampling_ops import taps

RESIZED = {  # (channels, height, width) to (height, width), order of the axes in memory
    "yolo-neck-2x": ((64, 80, 80), (160, 160), (0, 2, 3, 1)),
    "yolo-top-2x": ((128, 20, 20), (40, 40), (0, 2, 3, 1)),
    "yolo-neck-2x-planes": ((64, 80, 80), (160, 160), (0, 1, 2, 3)),
    "classes-4x": ((19, 64, 64), (256, 256), (0, 2, 3, 1)),
    "classes-513": ((21, 65, 65), (513, 513), (0, 2, 3, 1)),
    "mask-4x": ((1, 160, 160), (640, 640), (0, 1, 2, 3)),
}


def products(before: tuple[int, int], after: tuple[int, int], taps: int) -> int:
    """Of one channel."""
    across_first, down_first = before[0] * after[1], after[0] * before[1]
    return (taps - 1) * (min(across_first, down_first) + prod(after))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("name", RESIZED)
def bench_resize(name, mode, benchmark):
    (channels, *before), after, order = RESIZED[name]
    benchmark.group = "resize"
    shape, sizes = (1, channels, *before), (1, channels, *after)
    scales = tuple(out / size for out, size in zip(sizes, shape, strict=True))
    attrs = attributes("resize", sizes=sizes, scales=scales, mode=mode)
    given = {
        axis: (i.astype(np.int32), w.astype(np.float32)) for axis in (2, 3) for i, w in [taps(attrs, axis, shape[axis])]
    }
    made = strided_program(on_axes("resize", {"taps": given}, (shape, sizes), (order, order)), big())
    count = channels * products(before, after, given[2][0].shape[1])
    arguments = {"read": 4 * prod(shape), "written": 4 * prod(sizes), "products": count}
    found = benchmark.pedantic(judge, (made, big()), arguments, rounds=1)
    benchmark.extra_info.update(found)
