"""Steps in strips: what is cut gives what it gives whole, and no band meets another."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, inputs_of, zoo_net
from hypothesis import given, settings
from hypothesis import strategies as st
from step_reference import run_steps

from pipeall import Board, Pipeline
from pipeall.graph.ir import Graph
from pipeall.graph.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.graph.partition import border, subgraph
from pipeall.graph.strips import Cache
from pipeall.pipeline.devices.cpu import tune
from pipeall.pipeline.devices.cpu.device import Cpu
from pipeall.steps import LOCAL, Lowered

DEVICE = Board.detect(gpu=False).component("big").device
DEVICE = replace(DEVICE, cluster=replace(DEVICE.cluster, l2_bytes=300_000, l2_cores=None))  # whatever is published


def cache_of(nbytes: int, threads: int = 1) -> Cache:
    """Strips wherever they fit so much."""
    return Cache(nbytes, threads, DEVICE.cache(timed=False).apart, lambda whole, strips: True)


def image_graph(seed: int, nodes: int = 9) -> Graph:
    """Images of a few channels by ops whose rows need few rows: a chain with sums, concats and a second output."""
    net = Net((1, 3, 61, 13), seed=seed)
    random = net.random
    made = [net.conv("x0", 8, k=3, strides=(int(random.integers(1, 3)),) * 2)]

    def depthwise(x: str) -> str:
        k, dilation = int(random.choice([1, 3, 5])), int(random.integers(1, 3))
        pads = tuple(int(n) for n in random.integers(0, dilation * (k - 1) + 1, 4))
        channels = net.shape(x)[1]
        weight = net.constant((channels, 1, k, k), 1 / k)
        attrs = dict(strides=(int(random.integers(1, 3)), 1), dilations=(dilation, dilation), groups=channels)
        return net.op("conv", x, weight, net.constant((channels,)), pads=pads, **attrs)

    def window(x: str) -> str:
        attrs = dict(kernel=(3, 3), strides=(int(random.integers(1, 3)), 1), pads=(1, 1, int(random.integers(2)), 1))
        if random.integers(2):
            return net.op("avgpool", x, count_include_pad=bool(random.integers(2)), **attrs)
        return net.op("maxpool", x, **attrs)

    def alike(x: str) -> str:
        return str(random.choice([name for name in made if net.shape(name) == net.shape(x)]))

    def wide(x: str) -> str:
        return str(random.choice([name for name in made if net.shape(name)[2:] == net.shape(x)[2:]]))

    makers = [
        depthwise,
        depthwise,
        window,
        lambda x: net.conv(x, int(random.integers(4, 13)), lo=0.0),
        lambda x: net.conv(x, net.shape(x)[1], residual=alike(x)),
        lambda x: net.op("leakyrelu", x),
        lambda x: net.op("add", x, alike(x)),
        lambda x: net.op("mul", x, net.constant((1, net.shape(x)[1], 1, 1))),
        lambda x: net.op("mul", x, net.global_pool(x)),
        lambda x: net.op("concat", x, wide(x)),
        lambda x: net.op("softmax", x),
        lambda x: net.op("lrn", x),
    ]
    while len(made) < nodes:
        x = made[-1] if random.integers(6) else str(random.choice(made))
        if min(net.shape(x)[2:]) < 9:
            break
        made.append(random.choice(makers)(x))
    second = [made[len(made) // 2]] if random.integers(2) else []
    return net.graph(*dict.fromkeys((made[-1], *second)), name=f"images{seed}")


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


def programs(graph: Graph, cache: Cache, **traits) -> list[np.ndarray]:
    """The outputs of a program, whole and in strips, as bytes."""
    device = DEVICE.with_cores((-1,) * cache.threads)
    found = []
    for lowered in (lower(graph, **traits), lower(graph, cache=cache, **traits)):
        program = device.compile(lowered, "test")
        slot = np.random.default_rng(0).standard_normal(lowered.slot_in_bytes // 4).astype(np.float32)
        out = program.run(slot).view(np.uint8)
        found.append(np.concatenate([out[t.offset_bytes :][: t.nbytes] for t in lowered.slot_out]))
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(30))
def test_kernels_give_the_same_bits_in_strips(seed, threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    whole, strips = programs(image_graph(seed), cache_of(6000, threads))
    assert np.array_equal(whole, strips)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_in_strips_gives_the_same_bits_in_less_memory(threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    graph, cache = zoo_net("mobilenet"), cache_of(600_000, threads)
    whole, strips = programs(graph, cache)
    assert np.array_equal(whole, strips)
    lowered = lower(graph, cache=cache)
    local = max(some.local_bytes for some in lowered.strips)
    assert local <= cache.nbytes and lowered.arena_bytes + threads * local < 0.7 * lower(graph).arena_bytes


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
