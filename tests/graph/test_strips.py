"""Steps in strips: what is cut gives what it gives whole, and no band meets another."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, inputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from step_reference import run_steps
from strip_graphs import DEVICE, blocks, cache_of, image_graph

from pipeall import Pipeline
from pipeall.graph.ir import Graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.lower.tiling import segments
from pipeall.graph.ops import run_graph
from pipeall.graph.partition import border, subgraph
from pipeall.pipeline.devices.cpu import tune_cpu
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.steps import LOCAL, SLOT_IN, SLOT_OUT, Lowered, Step, View


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


def chain(make) -> Graph:
    """What ``make`` adds between two 1x1 convolutions on 40 x 24 pixels of 16 channels, 61 KB."""
    net = Net((1, 8, 40, 24))
    x = make(net, net.conv("x0", 16))
    return net.graph(net.conv(x, 8), name="chain")


def full_size(net: Net, x: str) -> str:
    return net.op("mul", x, net.constant((1, 16, 40, 24)))


def pad_alone(net: Net, x: str) -> str:
    weight = net.constant((16, 16, 1, 1))
    return net.op("conv", x, weight, net.constant((16,)), pads=(1, 0, 2, 0))


WINDOW = dict(kernel=(3, 3), strides=(1, 2), pads=(1, 1, 1, 1))
CHAINS = {  # name -> what stands between, and whether it is cut
    "nothing": (lambda net, x: x, True),
    "average with padding": (lambda net, x: net.op("avgpool", x, **WINDOW, count_include_pad=True), True),
    "average without padding": (lambda net, x: net.op("avgpool", x, **WINDOW, count_include_pad=False), True),
    "rounded up": (
        lambda net, x: net.op("maxpool", x, **WINDOW | {"pads": (0, 0, 0, 0), "strides": (2, 2)}, ceil=True),
        False,
    ),
    "constant of a row": (lambda net, x: net.op("mul", x, net.constant((1, 16, 1, 24))), True),
    "constant of all rows": (full_size, False),
    "windows of padding alone": (pad_alone, False),
    "gate of all rows": (lambda net, x: net.op("mul", x, net.op("sigmoid", net.global_pool(x))), True),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_what_stands_between_two_convolutions(name, threads):
    make, cut = CHAINS[name]
    graph = chain(make)
    lowered = lower(graph, cache=cache_of(20_000, threads))
    assert bool(lowered.strips) == cut
    for found, want in float64_results(graph, lowered):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-10 * max(1, np.abs(want).max()))


def test_bands_do_not_write_rows_of_one_another():
    """Each would compute the rows ahead of its own for the window, of a tensor that leaves too."""
    net = Net((1, 8, 40, 24))
    wide = net.conv("x0", 16)
    inner = net.conv(wide, 16)
    last = net.conv(net.conv(inner, 16, k=3, groups=16), 16, residual=wide)
    graph = net.graph(last, net.op("reshape", inner, shape=(1, 16, 960)))
    spans = {}
    for threads in (1, 2):
        lowered = lower(graph, cache=cache_of(40_000, threads))
        spans[threads] = [some.last - some.first for some in lowered.strips]
        for found, want in float64_results(graph, lowered):
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-10 * max(1, np.abs(want).max()))
    assert spans == {1: [3], 2: [1]}


# ---- steps by hand: storages 3, 4 and 5 of 64 rows of 8 pixels of 16 channels, 32 KB ----

ROW = dict(h=64, w=8, c=16, stride=16)
SIZES = dict.fromkeys((3, 4, 5), 4 * 64 * 8 * 16)
SMALL = cache_of(16_000)


def unary(src: View, dst: View) -> Step:
    return Step("unary", "u", (src,), dst, {"op": "abs", "p0": 0.0, "p1": 0.0})


def numbered(base: int, **changes: int) -> View:
    return View(base, **{"offset": 0, **ROW, **changes})


SLOTS = numbered(SLOT_IN), numbered(SLOT_OUT)


def test_steps_that_hand_on_a_storage_are_cut():
    steps = [unary(SLOTS[0], numbered(3)), unary(numbered(3), numbered(4)), unary(numbered(4), SLOTS[1])]
    (segment,) = segments(steps, SIZES, (0, 3), SMALL)
    assert (segment.first, segment.last, set(segment.local)) == (0, 2, {3, 4})


def test_nothing_is_cut_across_an_end():
    steps = [unary(SLOTS[0], numbered(3)), unary(numbered(3), numbered(4)), unary(numbered(4), SLOTS[1])]
    (segment,) = segments(steps, SIZES, (0, 2, 3), SMALL)
    assert (segment.first, segment.last) == (0, 1)


def test_what_is_overwritten_while_it_may_be_read_stays_whole():
    back = [unary(numbered(3), numbered(4)), unary(numbered(4), numbered(3)), unary(numbered(3), SLOTS[1])]
    assert not segments([unary(SLOTS[0], numbered(3)), *back], SIZES, (), SMALL)
    twice = [unary(SLOTS[0], numbered(3)), unary(SLOTS[0], numbered(3)), unary(numbered(3), SLOTS[1])]
    assert not segments(twice, SIZES, (), SMALL)
    in_place = [unary(SLOTS[0], numbered(3)), unary(numbered(3), numbered(3)), unary(numbered(3), SLOTS[1])]
    assert segments(in_place, SIZES, (), SMALL)


def test_a_constant_of_all_rows_is_not_cut():
    plus = Step("binary", "b", (numbered(3),), SLOTS[1], {"op": "add"}, np.ones((1, 8, 16), np.float32))
    first = unary(SLOTS[0], numbered(3))
    assert segments([first, plus], SIZES, (), SMALL)
    assert not segments([first, replace(plus, weight=np.ones((64, 1, 1), np.float32))], SIZES, (), SMALL)


def test_a_storage_of_several_shapes_is_not_local():
    halves = [numbered(3, h=32), numbered(3, h=32, offset=32 * 8 * 16)]
    steps = [unary(numbered(SLOT_IN, h=32), halves[0]), unary(numbered(SLOT_IN, h=32), halves[1])]
    found = segments([*steps, unary(numbered(3), numbered(4)), unary(numbered(4), SLOTS[1])], SIZES, (), SMALL)
    assert [set(segment.local) for segment in found] == [{4}]


def test_what_the_device_computes_together_stays_whole():
    assert not lower(blocks(), cache=CACHE._replace(apart=lambda step: False)).strips
    tiles, strassen, own = (
        lower(replace(net, receives=True, transmits=True)).steps[0]
        for net in (net_of(3, 16, 3), net_of(512, 512, 1), net_of(8, 48, 1))
    )
    assert [CACHE.apart(step) for step in (tiles, strassen, own)] == [False, False, True]


def net_of(channels: int, outputs: int, k: int) -> Graph:
    net = Net((1, channels, 56, 56))
    return net.graph(net.conv("x0", outputs, k=k))


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
    lowered = lower(blocks(), cache=CACHE._replace(bands=3))
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

        monkeypatch.setattr(tune_cpu, "in_turns", in_turns)
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
    neon, halves = ("neon", "ref"), ("asimdhp", "neon", "ref")
    for isas, cores, core_type, last_bytes, cut in (
        (("avx2", "ref"), 1, "zen3", 2_000_000, True),
        (halves, 1, "cortex-a76", 1_000_000, False),  # a core alone does not wait for the memory
        (halves, 4, "cortex-a76", 1_000_000, True),  # inner tensors of 1.6 MB
        (halves, 4, "cortex-a76", 2_000_000, False),
        (halves, 4, "cortex-a76", None, True),  # the second-level cache is the last
        (halves, 4, "cortex-a55", None, False),  # nor do slow cores
        (neon, 4, "cortex-a73", None, False),
    ):
        caches = dict(l2_bytes=300_000, l2_cores=None, l3_bytes=last_bytes)
        cluster = replace(DEVICE.cluster, isas=isas, core_type=core_type, **caches)
        told = replace(DEVICE, cluster=cluster).with_cores((-1,) * cores)
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
