"""What a task's answers cost, as a share of the frame: decoding boxes out of a network's outputs.

    pytest bench/pipelines/bench_tasks.py --benchmark-only

One core. In extra_info: ``frame_ms``, the network's least time, and ``share``, decoding's of it. Needs the test data.
"""

import time

import numpy as np
import pytest

from bench.common import DATA
from pipeall import Engine, load, tasks
from pipeall.media import images
from pipeall.quantization.calibrate import samples_of

PHOTO, TURNS = "jetson_humans_4.jpg", 20


@pytest.mark.parametrize("name", ["yolox_nano_416", "nanodet_m_320"])
def bench_decoding(benchmark, name, where):
    board, _ = where
    graph = load(DATA / "edge" / f"{name}.onnx")
    task = tasks.task(graph)
    photo = images.read(DATA / "scenes" / PHOTO)
    (frame,), placed = samples_of(graph, [photo], task.picture), task.picture.placed(photo.shape[:2], task.size)
    with Engine(graph, "big", board=board, threads=1) as engine:
        outputs, times = engine(frame), []
        for _ in range(TURNS):
            begin = time.perf_counter()
            engine(frame)
            times.append(time.perf_counter() - begin)
    if isinstance(outputs, np.ndarray):
        outputs = {graph.outputs[0].name: outputs}
    else:
        outputs = {key: value.copy() for key, value in outputs.items()}
    found = benchmark.pedantic(task, (outputs, placed), rounds=TURNS, warmup_rounds=2)
    assert found.boxes
    benchmark.extra_info["frame_ms"] = round(min(times) * 1e3, 2)
    benchmark.extra_info["share"] = round(benchmark.stats["min"] / min(times), 3)
