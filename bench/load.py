"""Pipelines under load: is a long stream as fast, as small and as right at its end as at its beginning?

    python bench/load.py                          # all parts: 1,000,000 tiny frames, an hour of SqueezeNet, ...
    python bench/load.py tiny --frames 100000     # one: tiny, squeezenet, many, pair, stages
    python bench/load.py squeezenet --minutes 5
    python bench/load.py squeezenet --twin a311d  # at the pace of a board: a busy machine disturbs it little

Each stream is cut into tenths, and of each are printed the frames per second, the latency's median, 95th and 99th
percentile, and the memory of the process (RSS). Every result is compared with that of the same frame before the
stream, and so is their order. A shared machine's speed changes by more than 5 % by itself: ``free`` is that of a loop
without pipeall, timed after each tenth, and ``steady`` the last tenth's throughput by the first's after the same
ratio of ``free`` is divided out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeall import Board, Pipeline, Plan, search, zoo
from pipeall.graph.ir import Graph, Node, Tensor
from pipeall.graph.ops import attributes
from pipeall.pipeline.devices.component import Component
from pipeall.pipeline.devices.cpu.device import Cpu

TENTHS = 10
KINDS = 7  # different frames: a result in another's place is seen


def tiny_net(groups: int = 3) -> Graph:
    """1x1 convolutions of 4 channels on 4 x 4 pixels: the runtime's own cost and nothing else."""
    random = np.random.default_rng(0)
    tensors, nodes, constants = {"t0": Tensor("t0", (1, 4, 4, 4))}, [], {}
    for i in range(groups):
        constants[f"w{i}"] = random.standard_normal((4, 4, 1, 1)).astype(np.float32)
        constants[f"b{i}"] = np.zeros(4, np.float32)
        tensors[f"t{i + 1}"] = Tensor(f"t{i + 1}", (1, 4, 4, 4))
        nodes.append(Node(f"conv{i}", "conv", (f"t{i}", f"w{i}", f"b{i}"), f"t{i + 1}", attributes("conv")))
    return Graph("tiny", tuple(nodes), tensors, constants, (tensors["t0"],), (tensors[f"t{groups}"],))


def inputs_of(graph: Graph) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(graph.inputs[0].shape).astype(np.float32) for _ in range(KINDS)]


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def free_speed() -> float:
    """Rounds a second of a loop that is no part of what is measured: its change is the machine's."""
    x = np.ones(4096, np.float32)
    begin = time.perf_counter()
    for _ in range(20_000):
        x.sum()
    return 20_000 / (time.perf_counter() - begin)


def stream(graph: Graph, plan: Plan | str, board: Board, count: int | None, seconds: float, pace: bool = False) -> dict:
    """So many frames, or so many seconds, through a pipeline; ``pace``: no faster than the modelled board."""
    inputs = inputs_of(graph)
    tenths = []
    with Pipeline(graph, plan, board=board, pace=pace) as pipe:
        expected = list(pipe.map(inputs))
        done = 0
        for _ in range(TENTHS):
            begin, snapshot, before = time.monotonic(), pipe.snapshot(), done

            def frames(begin: float = begin, before: int = before):
                i = before
                while (i - before < count // TENTHS) if count else (time.monotonic() - begin < seconds / TENTHS):
                    yield inputs[i % KINDS]
                    i += 1

            for result in pipe.map(frames()):
                if not np.array_equal(result, expected[done % KINDS]):
                    raise SystemExit(f"{graph.name} by {plan}: result {done} is not that of its frame")
                done += 1
            stats = pipe.stats(since=snapshot)
            tenths.append(
                dict(
                    frames=done - before,
                    fps=round((done - before) / (time.monotonic() - begin), 1),
                    p50_ms=round(stats.latency_p50_ms, 3),
                    p95_ms=round(stats.latency_p95_ms, 3),
                    p99_ms=round(stats.latency_p99_ms, 3),
                    rss_mb=round(rss_mb(), 1),
                    free=round(free_speed()),
                    **(dict(late=sum(stage.late for stage in stats.stages)) if pace else {}),
                )
            )
            print("  " + "  ".join(f"{key} {value}" for key, value in tenths[-1].items()), flush=True)
    first, last = tenths[0], tenths[-1]
    return dict(
        network=graph.name,
        plan=str(plan),
        frames=done,
        last_by_first=round(last["fps"] / first["fps"], 3),
        steady=round(last["fps"] / first["fps"] * first["free"] / last["free"], 3),
        rss_growth_mb=round(
            last["rss_mb"] - tenths[TENTHS // 2]["rss_mb"], 1
        ),  # by then all times are kept that will be
        tenths=tenths,
    )


def left() -> tuple[int, int]:
    """Threads and descriptors of the process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def many(board: Board, count: int) -> dict:
    """``count`` pipelines opened one beside the other, all used, all closed; twice, so that a leak shows."""
    graph = tiny_net()
    inputs = inputs_of(graph)
    seen, before = [], left()
    for _ in range(2):
        begin = time.monotonic()
        pipes = [Pipeline(graph, "big-little:1", board=board) for _ in range(count)]
        opened = time.monotonic()
        results = [list(pipe.map(inputs)) for pipe in pipes]
        if not all(np.array_equal(a, b) for row in results for a, b in zip(row, results[0], strict=True)):
            raise SystemExit("pipelines side by side give different results")
        at_once = len(os.listdir("/proc/self/task"))
        closing = time.monotonic()
        for pipe in pipes:
            pipe.close()
        closed = time.monotonic()
        del pipes, pipe
        seen.append(
            dict(open_ms=1e3 * (opened - begin), close_ms=1e3 * (closed - closing), threads=at_once, rss_mb=rss_mb())
        )
    if left() != before:
        raise SystemExit(f"threads and descriptors: {before} before, {left()} after")
    return dict(pipelines=count, rounds=[{key: round(value, 1) for key, value in row.items()} for row in seen])


def pair(board: Board, count: int) -> dict:
    """Two pipelines at once, each fed and emptied by a thread of its own."""
    found: dict[str, dict] = {}

    def run(plan: str) -> None:
        found[plan] = stream(tiny_net(), plan, board, count, 0)

    threads = [threading.Thread(target=run, args=(plan,)) for plan in ("big-little:1", "little-big:2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) != 2:
        raise SystemExit("one of two pipelines at once failed")
    return dict(streams=list(found.values()))


def eight(board: Board, count: int) -> dict:
    """Eight stages of one core each; threads are not pinned, since few machines have eight cores of a kind."""
    cluster = replace(board.component("big").device.cluster, cores=(-1,) * 8)
    board._known["big"] = Component("big", Cpu(cluster))
    return stream(tiny_net(8), "-".join(["bigx1"] * 8) + ":1,2,3,4,5,6,7", board, count, 0)


def twin(name: str, seconds: float) -> dict:
    """SqueezeNet by a board's best plan, at that board's pace."""
    graph, board = zoo.squeezenet(), Board.load(name)
    plan = search(graph, board.model.profile(graph)).ranked[0].plan
    return stream(graph, plan, board, None, seconds, pace=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["tiny", "many", "pair", "stages", "squeezenet"])
    parser.add_argument("--frames", type=int, default=1_000_000, help="of tiny; a tenth of it in pair and stages")
    parser.add_argument("--minutes", type=float, default=60, help="of squeezenet")
    parser.add_argument("--plan", default="big-little:9", help="of squeezenet")
    parser.add_argument("--twin", metavar="BOARD", help="squeezenet at the pace of a board, by its best plan")
    parser.add_argument("-o", "--output", type=Path, help="the figures as JSON")
    arguments = parser.parse_args()
    runs = {
        "tiny": lambda: stream(tiny_net(), "big-little:1", Board.detect(gpu=False), arguments.frames, 0),
        "squeezenet": lambda: (
            twin(arguments.twin, 60 * arguments.minutes)
            if arguments.twin
            else stream(zoo.squeezenet(), arguments.plan, Board.detect(), None, 60 * arguments.minutes)
        ),
        "many": lambda: many(Board.detect(gpu=False), 64),
        "pair": lambda: pair(Board.detect(gpu=False), arguments.frames // 10),
        "stages": lambda: eight(Board.detect(gpu=False), arguments.frames // 10),
    }
    found = {}
    for part in arguments.parts:
        if part not in runs:
            parser.error(f"part: expected some of {', '.join(runs)}; got {part}")
        print(part, flush=True)
        found[part] = runs[part]()
        print("  " + ", ".join(f"{key} {value}" for key, value in found[part].items() if key != "tenths"), flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
