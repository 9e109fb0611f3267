"""Steps in strips: what is cut gives what it gives whole, and no band meets another."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, inputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from step_reference import run_steps
from strip_graphs import DEVICE, cache_of, image_graph

from pipeall import Pipeline
from pipeall.graph.ir import Graph
from pipeall.graph.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.graph.partition import border, subgraph
from pipeall.pipeline.devices.cpu import tune
from pipeall.pipeline.devices.cpu.device import Cpu
from pipeall.steps import LOCAL, Lowered


def float64_results(graph: Graph, lowered: Lowered) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the steps give in NumPy, and what the ops of the graph do."""
    inputs = inputs_of(graph)
    slot = np.full(lowered.slot_in_bytes // 4, np.nan)
    for tensor in lowered.slot_in:
        slot[tensor.offset :][: inputs[tensor.name].size] = inputs[tensor.name].reshape(-1)
    out, expected = run_steps(lowered, slot), run_graph(graph, inputs, np.float64)
    return [
        (out[tensor.offset :][: expected[tensor.name].size].reshape(tensor.shape), expected[tensor.name])
        for tensor in lowered.slot_out
    ]


@given(st.integers(0, 10**6), st.sampled_from([3000, 6000, 12_000, 30_000]), st.integers(1, 3))
@settings(max_examples=150)
def test_steps_in_strips_give_what_the_graph_gives(seed, nbytes, threads):
    graph = image_graph(seed)
    lowered = lower(graph, cache=cache_of(nbytes, threads))
    for found, want in float64_results(graph, lowered):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-10 * max(1, np.abs(want).max()))


def test_a_third_of_these_graphs_are_cut():
    cut = [len(lower(image_graph(seed), cache=cache_of(6000, 1 + seed % 3)).strips) for seed in range(60)]
    assert sum(map(bool, cut)) >= 20 and max(cut) > 1


def blocks(shape: tuple[int, ...] = (1, 8, 64, 64)) -> Graph:
    """Two inverted residuals."""
    net = Net(shape)
    x = net.conv("x0", 8)
    for _ in range(2):
        inner = net.conv(net.conv(x, 48, lo=0.0, hi=6.0), 48, k=3, groups=48, lo=0.0, hi=6.0)
        x = net.conv(inner, 8, residual=x)
    return net.graph(x, name="blocks")


CACHE = cache_of(200_000, 1)  # an inner tensor of blocks() takes 800 KB


def test_what_fits_the_cache_and_what_computes_much_stays_whole():
    assert not lower(blocks((1, 8, 16, 16)), cache=CACHE).strips
    net = Net((1, 32, 64, 64))
    assert not lower(net.graph(net.conv(net.conv("x0", 48, k=3), 48, k=3)), cache=CACHE).strips
    assert lower(blocks(), cache=CACHE).strips and not lower(blocks()).strips


def test_weights_count_as_what_strips_fill():
    net = Net((1, 250, 64, 16))
    graph = net.graph(net.conv(net.conv("x0", 250), 250))
    assert not lower(graph, cache=CACHE).strips and lower(graph, cache=CACHE._replace(nbytes=1_000_000)).strips


def test_nothing_is_cut_across_a_floating_cut():
    graph = blocks()
    groups = len(graph.groups)
    for last in range(1, groups):
        lowered = lower(subgraph(graph, 0, groups, last), None, border(graph, 0, last), cache=CACHE)
        assert lowered.strips and all(not some.first < lowered.last_early <= some.last for some in lowered.strips)


def test_bands_compute_every_row_of_what_leaves_once():
    lowered = lower(blocks(), cache=CACHE._replace(threads=3))
    for some in lowered.strips:
        last = lowered.steps[some.last].dst
        rows = sorted(
            (step.dst.offset, step.dst.h)
            for band in some.bands
            for number, step in band
            if number == some.last and step.dst.base != LOCAL
        )
        assert len(some.bands) == 3 and sum(h for _, h in rows) == last.h
        assert all(b - a == h * last.w * last.stride for (a, h), (b, _) in zip(rows, rows[1:], strict=False))


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """timed(whole us, strips us): what the tuner measures; its list has what it measured."""
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))

    def take(whole: float, strips: float) -> list:
        asked = []

        def in_turns(programs, evict=None):
            asked.append(sorted(programs))
            return dict(zip(("whole", "strips"), (whole, strips), strict=True)) if "whole" in programs else {
                name: 1.0 for name in programs
            }  # fmt: skip

        monkeypatch.setattr(tune, "in_turns", in_turns)
        return asked

    return take


@pytest.mark.parametrize(("whole", "strips", "cut"), [(100, 90, True), (100, 100.5, True), (100, 103, False)])
def test_strips_are_taken_where_they_are_no_slower(timed, whole, strips, cut):
    asked = timed(whole, strips)
    for _ in range(2):
        assert bool(lower(blocks(), cache=DEVICE.cache(timed=True)).strips) == cut
    assert asked.count(["strips", "whole"]) == 1  # two blocks alike, known the second time


def test_without_timing_the_model_decides(monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    for isas, cut in ((("avx2", "ref"), True), (("neon", "ref"), False)):
        told = replace(DEVICE, cluster=replace(DEVICE.cluster, isas=isas))
        assert bool(lower(blocks(), cache=told.cache(timed=True)).strips) == cut
    unknown = replace(DEVICE, cluster=replace(DEVICE.cluster, l2_bytes=None))
    assert unknown.cache(timed=False) is None


def test_threads_that_share_a_cache_share_what_they_fill():
    device = DEVICE.with_cores((-1,) * 4)
    own = replace(device, cluster=replace(device.cluster, l2_cores=1))
    pairs = replace(device, cluster=replace(device.cluster, l2_cores=2))
    sizes = [found.cache(timed=False).nbytes for found in (own, pairs, device)]
    assert sizes == [300_000, 150_000, 75_000]


def test_steps_of_strips_have_their_times(monkeypatch):
    monkeypatch.setattr(Cpu, "cache", lambda device, timed: CACHE)
    graph = blocks()
    with Pipeline(graph, "big", trace=True) as pipe:
        outputs = [np.array(y) for y in pipe.map(frames(graph, 3))]
    (trace,) = pipe.trace
    assert len(outputs) == 3 and lower(graph, cache=CACHE).strips
    assert trace.labels == tuple((step.kind, step.node) for step in lower(graph).steps)
    times = np.diff(trace.marks, axis=1)
    assert (times >= 0).all() and (times > 0).mean() > 0.8
