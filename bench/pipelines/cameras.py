"""Several cameras into one pipeline that is slower than all of them: does each get its share, and how old are answers?

    python -m bench.pipelines.cameras [--cameras 4] [--camera-fps 30] [--pipeline-fps 40] [--seconds 30]

The pipeline is SqueezeNet on an emulated A311D, whose time is stretched until it makes ``pipeline-fps``. After a third
of the time one camera gives nothing for a sixth of it. A frame's delay is from capture to result; ``bound`` is 1.3
times the delay of a frame that nobody disturbs, and the time between two frames of a camera.
"""

import time
from collections.abc import Iterator

import numpy as np

from bench.common import Record, network, parser
from pipeall import Board, Pipeline, search

COLUMNS = ("camera", "frames", "FPS .2f", "dropped", "p50 [ms] .1f", "p95 [ms] .1f", "bound [ms] .1f")


def camera(x: np.ndarray, fps: float, seconds: float, away: tuple[float, float]) -> Iterator[np.ndarray]:
    """A frame every 1 / ``fps`` seconds, but for the time that it is away."""
    begin = time.monotonic()
    for number in range(int(seconds * fps)):
        due = begin + number / fps
        time.sleep(max(0.0, due - time.monotonic()))
        if not away[0] <= due - begin < away[1]:
            yield x


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--cameras", type=int, default=4)
    options.add_argument("--camera-fps", type=float, default=30)
    options.add_argument("--pipeline-fps", type=float, default=40)
    options.add_argument("--seconds", type=float, default=30)
    given = options.parse_args()
    graph, board = network("squeezenet"), Board.load("a311d")
    profile = board.model.profile(graph)
    best = search(graph, profile, plans="pipelines").ranked[0]
    plan, scale = best.plan, best.prediction.fps / given.pipeline_fps
    x = np.zeros(graph.inputs[0].shape, np.float32)
    with Record(given, *COLUMNS) as record, Pipeline(graph, plan, board, time_scale=scale) as pipe:
        for _ in range(5):
            pipe.compute(x)
        times = [(one.end_ns[-1] - one.submitted_ns) / 1e6 for one in pipe.times]
        bound = 1.3 * float(np.median(times)) + 1e3 / given.camera_fps
        since = pipe.snapshot()
        away = given.seconds / 3, given.seconds / 2
        sources = {
            f"camera {number}": camera(x, given.camera_fps, given.seconds, away if number == 0 else (0, 0))
            for number in range(given.cameras)
        }
        for _ in pipe.stream(sources):
            pass
        for name, of in pipe.stats(since).sources.items():
            record.add(name, of.frames, of.fps, of.dropped, of.live_p50_ms, of.live_p95_ms, bound)


if __name__ == "__main__":
    main()
