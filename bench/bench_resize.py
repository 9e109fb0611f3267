"""Resizing on one core: median time natively measured, and the share of what the memory allows.

    pytest bench/bench_resize.py --benchmark-only --benchmark-json=resize.json

The bound is the time that its bytes, read and written, take at the speed of a copy of as many as it writes; the share
is bound / median: what lies in cache may exceed 1.
"""

from math import prod

import numpy as np
import pytest
from alone import big, on_axes, program, strided_program

from pipeall.graph.ops import attributes
from pipeall.graph.ops.sampling import taps
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ROUNDS = 30
RESIZED = {  # (channels, height, width) to (height, width), order of the axes in memory
    "yolo-neck-2x": ((64, 80, 80), (160, 160), (0, 2, 3, 1)),
    "yolo-top-2x": ((128, 20, 20), (40, 40), (0, 2, 3, 1)),
    "yolo-neck-2x-planes": ((64, 80, 80), (160, 160), (0, 1, 2, 3)),
    "classes-4x": ((19, 64, 64), (256, 256), (0, 2, 3, 1)),
    "classes-513": ((21, 65, 65), (513, 513), (0, 2, 3, 1)),
    "mask-4x": ((1, 160, 160), (640, 640), (0, 1, 2, 3)),
}


def one_run(kind: str, elements: int) -> float:
    """Nanoseconds of a copy from slot to slot, or a fill, of so many float32."""
    source, target = (View(base, 0, 1, 1, elements, elements) for base in (SLOT_IN, SLOT_OUT))
    params = {"copy": {"dims": (elements,), "src_strides": (1,), "dst_strides": (1,)}, "fill": {"value": 1.0}}[kind]
    step = Step(kind, kind, (source,) if kind == "copy" else (), target, params)
    return float(np.median(program(step, big()).time(ROUNDS)))


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
    median_ns = float(np.median(benchmark.pedantic(made.time, (ROUNDS,), rounds=1, warmup_rounds=1)))
    read, written = prod(shape), prod(sizes)
    copy_ns = one_run("copy", written) * (read + written) / (2 * written)
    fill_ns = one_run("fill", written) + one_run("copy", read) / 2
    benchmark.extra_info.update(
        median_us=round(median_ns / 1e3, 1),
        copy_share=round(copy_ns / median_ns, 2),
        fill_share=round(fill_ns / median_ns, 2),
    )
