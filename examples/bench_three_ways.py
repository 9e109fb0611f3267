"""Peak, Parallel and Pipe-All on this machine: paper 001's comparison, as benchmarks of pytest.

    pytest examples/bench_three_ways.py --benchmark-group-by=param:network

NETWORKS names networks of the zoo or .onnx files. A round is 20 results of a pipeline that is full.
"""

import functools
import itertools
import os

import numpy as np
import pytest

import pipeall

NETWORKS = os.environ.get("NETWORKS", "squeezenet mobilenet").split()
SECONDS = float(os.environ.get("SECONDS", "1"))  # of measuring before the plans are chosen
FRAMES = 20


@functools.cache
def plans(network):
    """The network's graph, and its plan for each way; None where there is only one component."""
    graph = pipeall.load(network) if network.endswith(".onnx") else getattr(pipeall.zoo, network)()
    profile = pipeall.profile(graph, seconds=SECONDS)
    best = pipeall.search(graph, profile, plans="pipelines")
    single = [pipeall.search(graph, profile, units=[unit]).ranked[0] for unit in profile.units]
    peak = max(single, key=lambda choice: choice.prediction.fps)
    pipelines = [choice.plan for choice in best.ranked if len(choice.plan.units) > 1]
    return graph, {
        "Peak": peak.plan,
        "Parallel": best.parallel and best.parallel.plan,
        "Pipe-All": pipelines[0] if pipelines else None,
    }


@pytest.mark.parametrize("way", ["Peak", "Parallel", "Pipe-All"])
@pytest.mark.parametrize("network", NETWORKS)
def test_way(network, way, benchmark):
    graph, chosen = plans(network)
    if chosen[way] is None:
        pytest.skip("one component: there is nothing to run beside it")
    frame = np.zeros(graph.inputs[0].shape, graph.inputs[0].dtype)
    with pipeall.Pipeline(graph, chosen[way]) as pipe:
        results = pipe.map(itertools.repeat(frame))
        benchmark.pedantic(lambda: [next(results) for _ in range(FRAMES)], rounds=5, warmup_rounds=1)
        stats = pipe.stats()
    fps = FRAMES / benchmark.stats.stats.median
    benchmark.extra_info.update(plan=str(chosen[way]), fps=round(fps, 2), latency_ms=round(stats.latency_p50_ms, 2))
    print(f"\n{network} {way}: {fps:.1f} FPS, median latency {stats.latency_p50_ms:.1f} ms, {chosen[way]}")
