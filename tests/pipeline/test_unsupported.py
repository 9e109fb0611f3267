"""What a unit has no kernels for: known before anything is compiled, marked, never planned, named in errors."""

from math import inf

import pytest
from graphs import Net, frames, small_net
from toy_board import chain_net, toy_board

from pipeall import ArgumentError, DeviceError, Engine, Pipeline, Plan, profile, search
from pipeall._kernels.opencl import launches
from pipeall.graph.lower.lower import lower
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.pipeline.devices.device import unsupported_groups
from pipeall.pipeline.devices.opencl.opencl_device import unsupported
from pipeall.pipeline.measuring import links
from pipeall.pipeline.planning.predict import check_runs, predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.simulate import simulate

SECONDS = 0.01


@pytest.fixture(autouse=True)
def short_links(monkeypatch):
    monkeypatch.setattr(links, "SIZES", (4096, 16384))
    monkeypatch.setattr(links, "FRAMES", 4)


@pytest.fixture
def lacking(board, monkeypatch):
    """The board's little cluster lacks what the third group of ``small_net`` needs, and compiles nothing with it."""
    little, bad = board.component("little").device.cores, small_net().groups[2].nodes[0].name
    compile_all = Cpu.compile

    def asked(self, lowered):
        found = self.cores == little and bad in {step.node for step in lowered.steps}
        return f"step {bad}: no conv kernel" if found else None

    def compile(self, lowered, name, *, record=False, **shared):
        assert asked(self, lowered) is None, "compiled what it says it cannot"
        return compile_all(self, lowered, name, record=record)

    monkeypatch.setattr(Cpu, "unsupported", asked)
    monkeypatch.setattr(Cpu, "compile", compile)
    return f"step {bad}: no conv kernel"


def groups_of(plan, unit, count):
    """The groups, from 1, that some stage of a unit may compute."""
    ((lane),) = plan.lanes
    found = set()
    for stage in lane:
        last = (count if stage.last is None else stage.last) + stage.floating
        found |= set(range(stage.first + 1, last + 1)) if stage.unit == unit else set()
    return found


def test_a_profile_marks_it_and_nothing_is_compiled(lacking, board, tmp_path):
    graph = small_net()
    found = profile(graph, board, seconds=SECONDS)
    assert found.units["little"].refused == {3: lacking} and found.units["big"].refused == {}
    assert [ms == inf for ms in found.units["little"].ms] == [False, False, True, False]
    found.save(tmp_path / "profile.json")
    kept = Profile.load(tmp_path / "profile.json")
    assert kept.units["little"].refused == {3: lacking} and kept.units["little"].ms[2] == inf


def test_no_plan_has_it_there(lacking, board):
    graph = small_net()
    found = profile(graph, board, seconds=SECONDS)
    for objective in ("throughput", "latency"):
        ranked = search(graph, found, objective, top=100).ranked
        assert len(ranked) > 2 and any("little" in choice.plan.units for choice in ranked)
        assert not any(3 in groups_of(choice.plan, "little", 4) for choice in ranked)


@pytest.mark.parametrize("plan", ["little", "B-L:2", "L-B:3", "B-L:2~3"])
def test_a_users_plan_is_refused_in_one_line(plan, lacking, board):
    graph, plan = small_net(), Plan.parse(plan)
    found = profile(graph, board, seconds=SECONDS)
    named = f"group 3, {found.groups[2]}: {lacking}"
    assert predict(found, plan).period_ms == inf
    for refuse in (lambda: check_runs(found, plan), lambda: simulate(found, plan, frames=2)):
        with pytest.raises(ArgumentError, match=f"expected groups that little can run, got {named}$"):
            refuse()
    with pytest.raises(DeviceError, match=f"^stage little: expected groups that it can run; {lacking}$"):
        Pipeline(graph, plan, board)
    check_runs(found, Plan.parse("B-L:3"))
    with Pipeline(graph, "B-L:3", board) as pipe:
        assert len(list(pipe.map(frames(graph, 2)))) == 2


# ---- OpenCL


def two_heads(groups=2):
    """Convolutions, the last with a softmax, which the tests take away from OpenCL."""
    net = Net((1, 4, 8, 8))
    x = "x0"
    for _ in range(groups):
        x = net.conv(x, 4)
    return net.graph(net.op("softmax", x, axis=1))


@pytest.fixture
def without_softmax(monkeypatch):
    monkeypatch.delitem(launches.KINDS, "softmax")
    (step,) = (step for step in lower(two_heads()).steps if step.kind == "softmax")
    return f"step {step.node}: OpenCL has no softmax kernel"


def test_opencl_names_the_groups(without_softmax):
    graph = two_heads()
    assert unsupported_groups(graph, lambda lowered: unsupported(lowered, "fp32")) == {2: without_softmax}
    assert unsupported_groups(small_net(), lambda lowered: unsupported(lowered, "fp32")) == {}


def test_opencl_is_profiled_without_them(without_softmax, board_with_gpu):
    graph = two_heads()
    found = profile(graph, board_with_gpu, ["big", "gpu"], seconds=SECONDS)
    assert found.units["gpu"].refused == {2: without_softmax} and 0 < found.units["gpu"].ms[0] < inf
    assert found.units["gpu"].ms[1] == inf and not found.units["big"].refused
    with pytest.raises(DeviceError, match=f"stage gpu: expected groups that it can run; {without_softmax}"):
        Engine(graph, "gpu", board_with_gpu)
    with Pipeline(graph, "G-B:1", board_with_gpu) as pipe:
        assert len(list(pipe.map(frames(graph, 2)))) == 2


def test_a_modelled_board_lacks_what_its_devices_lack(without_softmax):
    """A network that was measured there keeps its times."""
    graph = two_heads(9)
    board = toy_board(chain_net(), {"big": [0.3] * 10, "gpu": [0.2] * 10})
    reason = {9: without_softmax.replace("softmax2", "softmax9")}
    found = board.model.profile(graph)
    assert found.units["gpu"].refused == reason and found.units["gpu"].ms[8] == inf
    assert not found.units["big"].refused and max(found.units["gpu"].ms[:8]) < inf
    with pytest.raises(ArgumentError, match=f"plan big-gpu:5: expected groups that gpu can run, .*: {reason[9]}"):
        Pipeline(graph, "B-G:5", board)
    graph = two_heads(10)
    measured = toy_board(graph, {"big": [0.3] * 10, "gpu": [0.2] * 10}).model.profile(graph)
    assert not measured.units["gpu"].refused and measured.units["gpu"].ms == pytest.approx((0.2,) * 10)
