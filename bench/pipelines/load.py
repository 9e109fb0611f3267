"""Pipelines under load: is a long stream as fast, as small and as right at its end as at its beginning?

    python -m bench.pipelines.load  # all parts: 1,000,000 tiny frames, an hour of SqueezeNet, ...
    python -m bench.pipelines.load tiny --frames 100000  # one: tiny, squeezenet, many, pair, stages, units
    python -m bench.pipelines.load squeezenet --minutes 5
    python -m bench.pipelines.load squeezenet --emulate a311d  # a busy machine disturbs it little

Each stream is cut into tenths, and of each are shown the frames per second, the latency's median, 95th and 99th
percentile, and the memory of the process (RSS). Every result is compared with that of the same frame before the
stream, and so is their order. A shared machine's speed changes by more than 5 % by itself: ``free`` is that of a loop
without pipeall, timed after each tenth, and ``steady`` the last tenth's throughput by the first's after the same
ratio of ``free`` is divided out.
"""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.common import Record, frames, network, parser, resident_bytes
from pipeall import Board, Pipeline, Plan, Schedule, search
from pipeall.graph.ir import Graph, Node, Tensor

TENTHS = 10
KINDS = 7  # different frames: a result in another's place is seen
STREAM = (
    "plan", "tenth", "frames", "throughput [FPS] .1f", "p50 [ms] .3f", "p95 [ms] .3f", "p99 [ms] .3f", "RSS [MB] .1f",
    "free [1/s] .0f", "late",
)  # fmt: skip
MANY = ("round", "pipelines", "opened in [ms] .1f", "closed in [ms] .1f", "threads", "RSS [MB] .1f")


def tiny_net(groups: int = 3) -> Graph:
    """1x1 convolutions of 4 channels on 4 x 4 pixels: the runtime's own cost and nothing else."""
    random = np.random.default_rng(0)
    tensors, nodes, constants = {"t0": Tensor("t0", (1, 4, 4, 4))}, [], {}
    attrs = dict(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1, lo=-np.inf, hi=np.inf)
    for i in range(groups):
        constants[f"w{i}"] = random.standard_normal((4, 4, 1, 1)).astype(np.float32)
        constants[f"b{i}"] = np.zeros(4, np.float32)
        tensors[f"t{i + 1}"] = Tensor(f"t{i + 1}", (1, 4, 4, 4))
        nodes.append(Node(f"conv{i}", "conv", (f"t{i}", f"w{i}", f"b{i}"), f"t{i + 1}", attrs))
    return Graph("tiny", tuple(nodes), tensors, constants, (tensors["t0"],), (tensors[f"t{groups}"],))


def rss_mb() -> float:
    return resident_bytes() / 2**20


def free_speed() -> float:
    """Rounds a second of a loop that is no part of what is measured: its change is the machine's."""
    x = np.ones(4096, np.float32)
    begin = time.perf_counter()
    for _ in range(20_000):
        x.sum()
    return 20_000 / (time.perf_counter() - begin)


def again(inputs: list[np.ndarray], done: int, count: int | None, seconds: float) -> Iterator[np.ndarray]:
    """The inputs in turn, from that of frame ``done`` on: so many, or for so many seconds."""
    begin, i = time.monotonic(), done
    while i - done < count if count else time.monotonic() - begin < seconds:
        yield inputs[i % KINDS]
        i += 1


def stream(
    record: Record,
    graph: Graph,
    plan: Plan | str,
    count: int | None = None,
    seconds: float = 0,
    board: Board | None = None,
) -> None:
    """So many frames, or so many seconds, through a pipeline; on a modelled board no faster than that."""
    with Pipeline(graph, plan, board=board or record.board) as pipe:
        flow(record, pipe, str(plan), count, seconds)


def flow(record: Record, pipe: Pipeline, label: str, count: int | None = None, seconds: float = 0) -> None:
    """So many frames, or so many seconds, through an open pipeline."""
    graph, pace = pipe.graph, pipe.board.model is not None
    inputs, rows = frames(graph, KINDS), []
    expected, done = list(pipe.map(inputs)), 0
    for tenth in range(1, TENTHS + 1):
        begin, snapshot, before = time.monotonic(), pipe.snapshot(), done
        for result in pipe.map(again(inputs, done, count and count // TENTHS, seconds / TENTHS)):
            if not np.array_equal(result, expected[done % KINDS]):
                raise SystemExit(f"{graph.name} by {label}: result {done} is not that of its frame")
            done += 1
        fps, stats = (done - before) / (time.monotonic() - begin), pipe.stats(since=snapshot)
        late = sum(stage.late for stage in stats.stages) if pace else None
        latency = stats.latency_p50_ms, stats.latency_p95_ms, stats.latency_p99_ms
        rows.append((fps, rss_mb(), free_speed()))
        record.add(label, tenth, done - before, fps, *latency, *rows[-1][1:], late)
    (first_fps, _, first_free), (last_fps, last_rss, last_free) = rows[0], rows[-1]
    gain, growth = last_fps / first_fps, last_rss - rows[TENTHS // 2][1]  # by then all times are kept that will be
    record.say(
        f"{graph.name} by {label}: {done} frames right, in order; last tenth by first {gain:.3f}, "
        f"steady {gain * first_free / last_free:.3f}; RSS grew by {growth:.1f} MB"
    )


def left() -> tuple[int, int]:
    """Threads and descriptors of the process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def many(record: Record, count: int) -> None:
    """``count`` pipelines opened one beside the other, all used, all closed; twice, so that a leak shows."""
    graph = tiny_net()
    inputs, before = frames(graph, KINDS), left()
    for number in (1, 2):
        begin = time.monotonic()
        pipes = [Pipeline(graph, "big-little:1", board=record.board) for _ in range(count)]
        opened = time.monotonic()
        results = [list(pipe.map(inputs)) for pipe in pipes]
        if not all(np.array_equal(a, b) for row in results for a, b in zip(row, results[0], strict=True)):
            raise SystemExit("pipelines side by side give different results")
        at_once, closing = left()[0], time.monotonic()
        for pipe in pipes:
            pipe.close()
        closed = time.monotonic()
        del pipes, pipe
        record.add(number, count, 1e3 * (opened - begin), 1e3 * (closed - closing), at_once, rss_mb())
    if left() != before:
        raise SystemExit(f"threads and descriptors: {before} before, {left()} after")
    record.say("no thread and no descriptor left")


def pair(record: Record, count: int) -> None:
    """Two pipelines at once, each fed and emptied by a thread of its own."""
    plans = ("big-little:1", "little-big:2")
    at_once(record, [(stream, record, tiny_net(), plan, count) for plan in plans])


def schedule(record: Record, count: int) -> None:
    """Three networks on the same two units, with priorities and a rate."""
    networks = {
        "a": (tiny_net(3), {"plan": "big-little:1", "priority": 2, "fps": 1000}),
        "b": (tiny_net(4), {"plan": "little-big:2"}),
        "c": (tiny_net(5), {"plan": "big-little-big:1,3", "priority": 0}),
    }
    with Schedule(networks, record.board) as running:
        at_once(record, [(flow, record, running[name], f"{name}: {running[name].plan}", count) for name in running])


def at_once(record: Record, streams: list[tuple]) -> None:
    """Each (function, arguments ...) in a thread of its own."""
    threads = [threading.Thread(target=function, args=arguments) for function, *arguments in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(record.rows) != TENTHS * len(streams):
        raise SystemExit(f"one of {len(streams)} streams at once failed")


def eight(record: Record, count: int) -> None:
    """Eight stages of one core each; threads are not pinned, since few machines have eight cores of a kind."""
    cluster = replace(record.board.component("big").device.cluster, cores=(-1,) * 8)
    board = Board([cluster], gpu=False)
    stream(record, tiny_net(8), "-".join(["bigx1"] * 8) + ":1,2,3,4,5,6,7", count, board=board)


def units(record: Record, count: int) -> None:
    """Units that serve several stages, of two clusters and with the GPU; copies on single cores."""
    for plan in ("big-little-big:1,2", "big-gpu-big-little:1,2,3"):
        stream(record, tiny_net(4), plan, count, board=Board.detect())
    cores = sorted(os.sched_getaffinity(0))[:2]
    stream(record, tiny_net(4), f"{len(cores)}*bigx1", count, board=Board.detect([cores], gpu=False))


def squeezenet(record: Record, plan: str, seconds: float) -> None:
    """By this plan; on a modelled board by its best one."""
    graph, board = network("squeezenet"), record.board
    plan = search(graph, board.model.profile(graph)).best if board.model else plan
    stream(record, graph, plan, seconds=seconds)


PARTS = ("tiny", "many", "pair", "schedule", "stages", "units", "squeezenet")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"some of {', '.join(PARTS)}")
    options.add_argument(
        "--frames", type=int, default=1_000_000, help="of tiny and units; a tenth of it in pair, schedule and stages"
    )
    options.add_argument("--minutes", type=float, default=60, help="of squeezenet")
    options.add_argument("--plan", default="big-little:9", help="of squeezenet")
    options.add_argument("--emulate", metavar="BOARD", help="squeezenet at the pace of a board, by its best plan")
    options = options.parse_args()
    runs = {
        "tiny": lambda record: stream(record, tiny_net(), "big-little:1", options.frames),
        "many": lambda record: many(record, 64),
        "pair": lambda record: pair(record, options.frames // TENTHS),
        "schedule": lambda record: schedule(record, options.frames // TENTHS),
        "stages": lambda record: eight(record, options.frames // TENTHS),
        "units": lambda record: units(record, options.frames),
        "squeezenet": lambda record: squeezenet(record, options.plan, 60 * options.minutes),
    }
    for part in options.parts:
        if part not in runs:
            raise SystemExit(f"part: expected some of {', '.join(PARTS)}; got {part}")
        columns = MANY if part == "many" else STREAM
        board = Board.load(options.emulate) if part == "squeezenet" and options.emulate else Board.detect(gpu=False)
        with Record(options, *columns, board=board, part=part, keys=1 if part == "many" else 2) as record:
            runs[part](record)


if __name__ == "__main__":
    main()
