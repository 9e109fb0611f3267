"""A picture into a network's input: the native step beside OpenCV and beside Pillow with NumPy, in turns on one core.

    pip install opencv-python-headless
    python -m bench.kernels.pictures [--rounds 15]

A 1920 x 1080 uint8 RGB picture to a BGR float32 input: pipeall's step alone, ``cv2.resize`` and ``blobFromImage`` on
one thread, Pillow's ``resize`` and NumPy. Bilinear of four pixels, but for Pillow, whose bilinear is antialiased:
pipeall's stands beside it.
"""

from dataclasses import replace
from functools import partial
from statistics import median

import cv2
import numpy as np
from PIL import Image

from bench.common import Record, in_turns, one_cluster, parser
from bench.kernels.single_step import big, strided_program
from pipeall import Graph, Picture
from pipeall.graph.ir import Node, Tensor
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes
from pipeall.graph.passes.picture_input import with_picture
from pipeall.steps import SLOT_OUT

FRAMES = 5
SIZES = (224, 320, 416, 640)
FROM = (1080, 1920)
COLUMNS = (
    "input", "pipeall [ms] .3f", "OpenCV [ms] .3f", "of OpenCV [x] .2f", "antialias [ms] .3f", "Pillow [ms] .2f",
    "times as fast as Pillow .1f",
)  # fmt: skip


def step_alone(size: int, kind: str):
    """Runs the picture step of a network of that input; ms of a frame."""
    x = Tensor("x", (1, 3, size, size))
    y = Tensor("y", x.shape)
    graph = Graph("any", (Node("n", "abs", ("x",), "y", attributes("abs")),), {"x": x, "y": y}, {}, (x,), (y,))
    pictured = with_picture(graph, Picture(filter=kind, channels="BGR", scale=255), FROM)
    step = lower(pictured).steps[0]
    made = strided_program(replace(step, dst=replace(step.dst, base=SLOT_OUT, offset=0)), big())
    return lambda: median(made.time(FRAMES)) / 1e6


def timed(run):
    def frames() -> float:
        begin = cv2.getTickCount()
        for _ in range(FRAMES):
            run()
        return (cv2.getTickCount() - begin) / cv2.getTickFrequency() / FRAMES * 1e3

    return frames


def with_opencv(frame: np.ndarray, size: int) -> np.ndarray:
    resized = cv2.resize(frame, (size, size), interpolation=cv2.INTER_LINEAR)
    return cv2.dnn.blobFromImage(resized, 1 / 255, swapRB=True)


def with_pillow(frame: np.ndarray, size: int) -> np.ndarray:
    resized = Image.fromarray(frame).resize((size, size), Image.Resampling.BILINEAR)
    levels = np.asarray(resized, np.float32)[..., ::-1] * np.float32(1 / 255)
    return np.ascontiguousarray(levels.transpose(2, 0, 1)[None])


def main() -> None:
    options = parser(__doc__, rounds=15).parse_args()
    cv2.setNumThreads(1)
    frame = np.random.default_rng(0).integers(0, 256, (*FROM, 3), dtype=np.uint8)
    with Record(options, *COLUMNS, board=one_cluster()) as record:
        for size in SIZES:
            runs = {kind: step_alone(size, kind) for kind in ("bilinear", "antialias")}
            runs |= {f.__name__: timed(partial(f, frame, size)) for f in (with_opencv, with_pillow)}
            took = {name: median(ms) for name, ms in in_turns(runs, options.rounds).items()}
            ours, wide, opencv, pillow = took.values()
            record.add(size, ours, opencv, ours / opencv, wide, pillow, pillow / wide)


if __name__ == "__main__":
    main()
