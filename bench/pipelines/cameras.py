"""Several cameras into one pipeline that is slower than all of them: does each get its share, and how old are answers?

    python -m bench.pipelines.cameras [--network squeezenet] [--cameras 4] [--camera-fps 30] [--pipeline-fps 40]
        [--seconds 60]

The network runs on an emulated A311D, whose time is stretched until it makes ``pipeline-fps``. After a third
of the time one camera gives nothing for a sixth of it, and comes back. A frame's delay is from capture to result;
``bound`` is 1.3 times the delay of a frame that nobody disturbs, and the time between two frames of a camera.
``grown``: resident memory at the end of a phase, less that after the first one. For 100,000 frames in minutes multiply
both rates: ``--network tiny --camera-fps 150 --pipeline-fps 200 --seconds 560``. Tiny computes next to nothing.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np

from bench.common import Record, network, parser, resident_bytes
from bench.pipelines.load import tiny_net
from pipeall import Board, Pipeline, search
from pipeall.pipeline.live import Stream

COLUMNS = (
    "cameras", "camera", "frames", "FPS .2f", "share [FPS] .2f", "dropped", "delay p50 [ms] .1f", "p95 [ms] .1f",
    "bound [ms] .1f", "grown [MB] .1f",
)  # fmt: skip
PHASES = {"all": 1 / 3, "one away": 1 / 2, "all again": 1.0}  # each until this part of the time


def camera(x: np.ndarray, fps: float, seconds: float, away: tuple[float, float]) -> Iterator[np.ndarray]:
    """A frame every 1 / ``fps`` seconds, but for the time that it is away."""
    begin = time.monotonic()
    for number in range(int(seconds * fps)):
        due = begin + number / fps
        time.sleep(max(0.0, due - time.monotonic()))
        if not away[0] <= due - begin < away[1]:
            yield x


def watch(pipe: Pipeline, stream: Stream, given: argparse.Namespace, bound_ms: float, record: Record) -> None:
    """Takes what comes, and adds a row for each camera at the end of each phase."""
    begin, since = time.monotonic(), pipe.snapshot()
    resident = grown = None
    for phase, until in PHASES.items():
        while time.monotonic() - begin < until * given.seconds and next(stream, None):
            pass
        if resident is not None:
            grown = (resident_bytes() - resident) / 1e6
        taking = given.cameras - (phase == "one away")
        for name, of in pipe.stats(since).sources.items():
            share = None if taking < given.cameras and name == "0" else given.pipeline_fps / taking
            delays = of.live_p50_ms, of.live_p95_ms, bound_ms
            record.add(phase, name, of.frames, of.fps, share, of.dropped, *delays, grown)
        since, resident = pipe.snapshot(), resident or resident_bytes()


def main() -> None:
    options = parser(__doc__, seconds=60)
    options.add_argument("--network", default="squeezenet")
    options.add_argument("--cameras", type=int, default=4)
    options.add_argument("--camera-fps", type=float, default=30)
    options.add_argument("--pipeline-fps", type=float, default=40)
    given = options.parse_args()
    graph, board = tiny_net() if given.network == "tiny" else network(given.network), Board.load("a311d")
    profile = board.model.profile(graph)
    best = search(graph, profile, plans="pipelines").ranked[0]
    plan, scale = best.plan, best.prediction.fps / given.pipeline_fps
    x = np.zeros(graph.inputs[0].shape, np.float32)
    away = given.seconds * PHASES["all"], given.seconds * PHASES["one away"]
    with Record(given, *COLUMNS) as record, Pipeline(graph, plan, board, time_scale=scale) as pipe:
        for _ in range(5):
            pipe.compute(x)
        alone_ms = float(np.median([(one.end_ns[-1] - one.submitted_ns) / 1e6 for one in pipe.times]))
        sources = {
            str(number): camera(x, given.camera_fps, given.seconds, away if number == 0 else (0, 0))
            for number in range(given.cameras)
        }
        watch(pipe, pipe.stream(sources), given, 1.3 * alone_ms + 1e3 / given.camera_fps, record)


if __name__ == "__main__":
    main()
