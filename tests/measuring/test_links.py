"""What hand-over costs: the parts that are told apart in made-up traces, and what comes out on this machine."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from pipeall import DeviceError
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.pipeline.devices.device import ring_slots
from pipeall.pipeline.devices.opencl.opencl_device import OpenCl
from pipeall.pipeline.measuring import links
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.profile import crossing_bytes
from pipeall.pipeline.planning.units import Unit
from pipeall.pipeline.trace import StageTrace


def test_there_are_links_between_neighbours_and_to_memory_of_their_own():
    kinds = {"big": Cpu, "little": Cpu, "gpu": OpenCl, "gpu1": OpenCl}
    board = SimpleNamespace(component=lambda name: SimpleNamespace(device=kinds[name]))
    assert list(links.ends(board, [Unit("big")])) == []
    assert set(links.ends(board, [Unit("big"), Unit("little")])) == {("big", "little"), ("little", "big")}
    found = list(links.ends(board, list(map(Unit.parse, kinds))))
    between = set(permutations(kinds, 2)) - {("gpu", "gpu1"), ("gpu1", "gpu")}  # Pipeline has no ring for those
    host = {pair for name in ("gpu", "gpu1") for pair in permutations(["host", name])}
    assert set(found) == between | host and len(found) == len(set(found))


@pytest.mark.parametrize("nbytes", links.SIZES)
def test_the_stream_is_one_tensor_of_that_size_in_two_steps(nbytes):
    graph = links.stream(nbytes)
    assert len(graph.groups) == 2 and crossing_bytes(graph) == (nbytes,) * 3
    for first in (0, 1):
        steps = lower(subgraph(graph, first, first + 1)).steps
        assert [step.kind for step in steps if step.kind != "copy"] == ["conv"]


# ---- made-up traces: which part of a stage's time is put where


class Played:
    """Stands for Pipeline: every frame takes ``cost(unit, stages of the plan, part)`` ms, and now and then much longer.

    part  "in" and "out", the hand-over, or 0 and 1, the group; copies at the model's borders take nothing
    """

    def __init__(self, cost, delay_ms=0.0):
        self.cost, self.delay_ms = cost, delay_ms

    def __call__(self, graph, plan, board, *, depth, trace):
        assert depth == 1 and trace is True
        self.graph, self.stages, self.trace = graph, plan.lanes[0], []
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def map(self, source):
        frames = list(source)
        random = np.random.default_rng(0)
        for number, stage in enumerate(self.stages):
            groups = (stage.first, len(self.graph.groups) if stage.last is None else stage.last)
            labels = tuple((step.kind, step.node) for step in lower(subgraph(self.graph, *groups)).steps)
            parts = ["in", *(name == "second" if kind == "conv" else None for kind, name in labels), "out"]
            ms = [0.0 if part is None else self.cost(stage.unit, len(self.stages), part) for part in parts]
            late = random.permuted(np.tile(np.arange(len(frames)) % 3 == 0, (len(ms), 1)), axis=1).T * self.delay_ms
            begin = 100.0 * np.arange(len(frames))[:, None]
            ends = begin + np.cumsum(np.array(ms) + late, axis=1)
            rows = np.rint(1e6 * np.hstack([begin, begin, begin, begin, ends, ends[:, -1:]])).astype(np.int64)
            self.trace.append(StageTrace(0, number, stage.unit, False, groups, labels, rows))
        return iter(frames)


COST = {  # (unit, stages, part) -> ms
    ("big", 1, "in"): 0.5, ("big", 1, 0): 2.0, ("big", 1, 1): 3.0, ("big", 1, "out"): 0.25,
    ("gpu", 1, "in"): 0.625, ("gpu", 1, 0): 1.0, ("gpu", 1, 1): 1.5, ("gpu", 1, "out"): 0.375,
    ("big", 2, "in"): 9.0, ("big", 2, 0): 2.25, ("big", 2, "out"): 0.125,
    ("gpu", 2, "in"): 0.75, ("gpu", 2, 1): 2.5, ("gpu", 2, "out"): 9.0,
}  # fmt: skip


@pytest.mark.parametrize("delay_ms", [0.0, 5.0])
def test_what_takes_longer_than_alone_and_what_is_mapped(delay_ms, monkeypatch):
    """Also with one frame in three late, in each part: that leaves the lower quartile as it is."""
    monkeypatch.setattr(links, "Pipeline", Played(lambda *key: COST[key], delay_ms))
    link = links.measure(None, "big", "gpu")
    assert link.bytes == links.SIZES
    for size in range(len(links.SIZES)):
        parts = link.send_ms[size], link.receive_ms[size], link.map_ms[size]
        assert parts == pytest.approx((2.25 - 2 + 0.125, 2.5 - 1.5 + 0.75, 0.125 + 0.75), abs=1e-9)


def test_to_and_from_the_host_it_is_the_mapping_of_the_whole_network(monkeypatch):
    monkeypatch.setattr(links, "Pipeline", Played(lambda *key: COST[key]))
    to, back = links.measure(None, "host", "gpu"), links.measure(None, "gpu", "host")
    count, none = len(links.SIZES), (0.0,) * len(links.SIZES)
    assert to.send_ms == none and to.receive_ms == to.map_ms == pytest.approx((0.625,) * count)
    assert back.receive_ms == none and back.send_ms == back.map_ms == pytest.approx((0.375,) * count)


def test_less_than_alone_is_noise(monkeypatch):
    quicker = COST | {("big", 2, 0): 1.0, ("gpu", 2, 1): 0.5}
    monkeypatch.setattr(links, "Pipeline", Played(lambda *key: quicker[key]))
    link = links.measure(None, "big", "gpu")
    assert (link.send_ms[0], link.receive_ms[0], link.map_ms[0]) == pytest.approx((0.125, 0.75, 0.875))


# ---- on this machine


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(links, "SIZES", (16 << 10, 64 << 10))


def check(link):
    parts = np.array([link.send_ms, link.receive_ms, link.map_ms])
    assert link.bytes == links.SIZES and parts.shape == (3, len(links.SIZES))
    assert np.isfinite(parts).all() and (parts >= 0).all() and (parts[2] <= parts[0] + parts[1] + 1e-12).all()


def test_a_cpu_maps_nothing(few, board):
    """What there is are two readings of the clock: under 1 us each, where mapping takes some."""
    for ends in permutations(["big", "little"]):
        link = links.measure(board, *ends)
        check(link)
        assert max(link.map_ms) < 0.05


def test_an_opencl_device_maps(few, board_with_gpu):
    for ends in [("big", "gpu"), ("gpu", "big"), ("host", "gpu"), ("gpu", "host")]:
        link = links.measure(board_with_gpu, *ends)
        check(link)
        assert min(link.map_ms) > 0


def test_stages_are_measured_with_their_own_groups(few, board):
    graph = links.stream(4096)
    for plan in (Plan.single("big"), Plan.pipeline(["big", "little"], [1])):
        found = links.stage_costs(graph, plan, board)
        groups = [len(graph.groups)] if len(found) == 1 else [1, 1]
        assert [len(parts) for parts in found] == [2 + count for count in groups]
        assert all(ms > 0 for parts in found for ms in parts[1:-1])


def test_the_runtime_has_no_ring_between_two_opencl_devices():
    """Why there is no link between them."""
    device = SimpleNamespace(slot=lambda nbytes: None)
    with pytest.raises(DeviceError, match="at most one stage at each cut that owns the memory of slots"):
        ring_slots([device, device], 4, 2)
