"""A simulated camera: how long from capture to result by ``map``, ``stream`` and ``async for``, and what is dropped.

    python -m bench.pipelines.live [NETWORK] [--plan big-gpu-little:5,15] [--rates 2,5,30] [--frames 40] [--soak N]

The pipeline runs at the pace of a board's model (an A311D's), stretched so that it takes 40 frames a second. First the
camera is slower than it: beside each way stands what ``submit`` and ``result`` take for a frame alone. Then the camera
gives --fast frames a second. --soak runs so many more frames through and shows the memory before and after.
"""

import asyncio
import time
from collections.abc import Iterator
from statistics import median

import numpy as np

import pipeall
from bench.common import NETWORKS, Record, names, parser

FPS = 40
COLUMNS = (
    "way",
    "camera [FPS] .0f",
    "frames",
    "capture to result [ms] .2f",
    "alone [ms] .2f",
    "more [ms] .2f",
    "dropped",
)


class Camera:
    """Gives a frame ``rate`` times a second; ``captured``: when, in s."""

    def __init__(self, frame: np.ndarray, rate: float, count: int):
        self.frame, self.rate, self.count = frame, rate, count
        self.captured: list[float] = []

    def __iter__(self) -> Iterator[np.ndarray]:
        due = time.perf_counter()
        for _ in range(self.count):
            due += 1 / self.rate
            time.sleep(max(0, due - time.perf_counter()))
            self.captured.append(time.perf_counter())
            yield self.frame


def alone(pipe: pipeall.Pipeline, frame: np.ndarray, count: int) -> float:
    """Median ms of submit and result, a frame at a time."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        pipe.submit(frame)
        pipe.result()
        taken.append(1e3 * (time.perf_counter() - begin))
    return median(taken)


def by_map(pipe: pipeall.Pipeline, camera: Camera) -> list[float]:
    return [1e3 * (time.perf_counter() - camera.captured[i]) for i, _ in enumerate(pipe.map(camera))]


def by_stream(pipe: pipeall.Pipeline, camera: Camera) -> list[float]:
    return [(time.monotonic_ns() - seen.captured_ns) / 1e6 for seen in pipe.stream(camera)]


def by_async_for(pipe: pipeall.Pipeline, camera: Camera) -> list[float]:
    async def watch() -> list[float]:
        return [(time.monotonic_ns() - seen.captured_ns) / 1e6 async for seen in pipe.stream(camera)]

    return asyncio.run(watch())


def paced(network: str, plan: str) -> pipeall.Pipeline:
    """The network at the pace of the board's model, stretched to FPS."""
    graph, board = getattr(pipeall.zoo, network)(), pipeall.Board.load("a311d-armcl")
    with pipeall.Pipeline(graph, plan, board) as pipe:
        for _ in pipe.map([np.zeros(graph.inputs[0].shape, np.float32)] * 30):
            pass
        scale = pipe.stats().fps / FPS  # frames a second there, and here
    return pipeall.Pipeline(graph, plan, board, time_scale=max(scale, 0.1))


def resident_mb() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--frames", type=int, default=40)
    options.add_argument("network", nargs="?", default="squeezenet", choices=NETWORKS)
    options.add_argument("--plan", default="big-gpu-little:5,15")
    options.add_argument("--rates", type=names, default=["2", "5", "30"])
    options.add_argument("--fast", type=float, default=120.0)
    options.add_argument("--soak", type=int, default=0)
    options = options.parse_args()
    with paced(options.network, options.plan) as pipe, Record(options, *COLUMNS, board=pipe.board) as record:
        frame = np.zeros(pipe.graph.inputs[0].shape, np.float32)
        for rate in (*map(float, options.rates), options.fast):
            unloaded = alone(pipe, frame, 20)
            for way in (by_map, by_stream, by_async_for):
                if way is by_map and rate == options.fast:
                    continue  # it drops nothing: frames wait as long as the source goes on
                before, count = pipe.snapshot(), options.frames * (10 if rate == options.fast else 1)
                ms = median(way(pipe, Camera(frame, rate, count)))
                stats = pipe.stats(before)
                record.add(way.__name__, rate, stats.frames, ms, unloaded, ms - unloaded, stats.dropped)
        if options.soak:
            begin = resident_mb()
            for _ in pipe.stream(Camera(frame, 1e6, options.soak)):
                pass
            record.say(f"{options.soak} frames: {begin:.1f} MB before, {resident_mb():.1f} MB after")


if __name__ == "__main__":
    main()
