"""Models of boards that are not at hand: what is published comes out unaltered, the rest as well as is stated."""

import csv
import gzip
import json
from dataclasses import replace
from itertools import accumulate
from math import inf

import pytest
from graphs import Net, zoo_net
from profiles import profile_of
from recorded_boards import recorded_files, write_tree

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.errors import ArgumentError, DeviceError
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.boards.models.board_model import FOLDER, BoardModel
from pipeall.pipeline.boards.models.measured import Measured
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Link, Profile, UnitTimes, crossing_bytes
from tools.board_models import fit_boards, fit_ncnn, fit_prices, price_table

UNITS = ("big", "little", "gpu")
VIM3 = {"Alex": "alexnet", "Google": "googlenet", "MobileV1": "mobilenet", "ResV1_50": "resnet50-slim"}
# Sums of the published groups and what follows from them without contention and hand-over (two decimals are printed)
IDEAL_FPS = {
    "alexnet": (10.29, 24.59, "B-G-L:4,6", 24.43),
    "googlenet": (9.97, 21.97, "L-G-B:1,6", 22.45),
    "mobilenet": (15.70, 36.27, "G-B-L:11,25", 36.54),
    "resnet50-slim": (4.32, 9.43, "G-B-L:8,15", 10.57),
}


@pytest.fixture(scope="module")
def a311d():
    return Board.load("a311d-armcl")


@pytest.fixture(scope="module")
def rk3399pro():
    return Board.load("rk3399pro")


@pytest.fixture(scope="module")
def fitted(data_dir, some):
    """The models that are fitted here, some of those of priced steps: most of the time goes into networks left out."""
    clusters = fit_prices.clusters_of(price_table.load(fit_prices.PRICES))
    own = fit_prices.boards(clusters, data_dir, some(fit_prices.BOARDS))
    return fit_boards.build(data_dir) | own | fit_ncnn.build(data_dir)


# ---- measured networks ----


@pytest.mark.parametrize("label", VIM3)
def test_measured_groups_add_up_to_the_published_times(label, a311d, data_dir):
    with open(data_dir / "boards/vim3_armcl_groups.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["network"] == label]
    profile = a311d.model.profile(fit_boards.network(VIM3[label]))
    ends = list(accumulate(fit_boards.SPANS[VIM3[label]]))
    for unit, column in zip(UNITS, ("big4_ms", "little2_ms", "gpu_ms"), strict=True):
        times = profile.units[unit].ms
        assert min(times) > 0
        ours = [sum(times[start:stop]) for start, stop in zip([0, *ends], ends, strict=False)]
        assert ours == pytest.approx([float(row[column]) for row in rows], rel=1e-12)
    assert profile.modelled and profile.about["times"].startswith("CO-UP-Profiling")
    watts = profile.units["big"].power_w
    assert [watts[end - 1] for end in ends] == pytest.approx([float(row["big_mW"]) / 1000 for row in rows])


@pytest.mark.parametrize("name", IDEAL_FPS)
def test_ideal_throughput_is_that_computed_from_the_published_groups(name, a311d):
    profile = replace(a311d.model.profile(fit_boards.network(name)), contention={}, links={})
    peak, parallel, plan, pipelined = IDEAL_FPS[name]
    # Half a unit of the last digit printed; the inputs are rounded to 1e-3 ms or better, which moves less than 1e-3
    assert max(predict(profile, Plan.single(unit)).fps for unit in UNITS) == pytest.approx(peak, abs=0.006)
    assert predict(profile, Plan.parallel(UNITS)).fps == pytest.approx(parallel, abs=0.006)
    assert predict(profile, Plan.parse(plan)).fps == pytest.approx(pipelined, abs=0.006)


def test_rk3399pro_times_are_those_at_the_highest_clocks(rk3399pro, data_dir):
    with gzip.open(data_dir / "boards/rk3399pro_layers.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["Metric"] == "task"]
    top = {"B": ("7", "-1"), "L": ("5", "-1"), "G": ("4", "7")}
    totals = {}
    for row in rows:
        if (row["Freq"], row["Freq_Host"]) == top[row["Component"]]:
            key = row["Graph"], row["Component"]
            totals[key] = totals.get(key, 0) + float(row["Time"])
    assert len(totals) == 15
    for (label, letter), total in totals.items():
        profile = rk3399pro.model.profile(fit_boards.network(fit_boards.RK_NAMES[label]))
        unit = rk3399pro.component(letter).name
        assert sum(profile.units[unit].ms) == pytest.approx(total, abs=18 * 5e-5)  # 4 decimals of at most 18 layers
        # and the clock index is read in the right direction: it is the fastest of all
        same = [row for row in rows if (row["Graph"], row["Component"]) == (label, letter)]
        sums = {}
        for row in same:
            key = row["Freq"], row["Freq_Host"]
            sums[key] = sums.get(key, 0) + float(row["Time"])
        assert total <= 1.002 * min(sums.values())  # the host's two highest clocks differ by noise


def test_squeezenet_of_the_vim3_has_the_published_totals(a311d):
    profile = a311d.model.profile(zoo_net("squeezenet"))
    assert sum(profile.units["big"].ms) == pytest.approx(59.7, abs=1e-3)
    assert sum(profile.units["gpu"].ms) == pytest.approx(80.5, abs=1e-3)
    assert "inferred" in profile.about["times"]
    assert "squeezenet" not in a311d.model.errors["big"]  # nothing was fitted on it
    assert set(profile.units["gpu"].power_w) == {a311d.model.mean_power_w["gpu"]}


def test_a_network_is_recognized_by_its_sizes_not_its_name(a311d):
    graph = replace(zoo_net("alexnet"), name="other")
    assert a311d.model.profile(graph).units == a311d.model.profile(zoo_net("alexnet")).units
    assert a311d.model.profile(zoo_net("resnet50")).about["times"] == "regression"  # v1.5; slim was measured
    assert fit_boards.network("resnet50-v1").name == "resnet50"
    assert crossing_bytes(fit_boards.network("resnet50-v1")) == crossing_bytes(zoo_net("resnet50"))
    model = Board.load("rk3399pro").model
    assert model.profile(zoo_net("resnet50")).about["times"] == "regression"  # other MACs than the measured v1
    assert model.profile(fit_boards.network("resnet50-v1")).about["times"] != "regression"


# ---- contention, power, links ----


def test_measured_pipelines_of_the_rk3399pro_are_predicted(rk3399pro, data_dir):
    found = fit_boards.pipelines(rk3399pro.model, data_dir)
    for prediction, published_ms in zip(found, (86.3, 88.1, 93.1), strict=True):
        assert prediction.period_ms == pytest.approx(published_ms, rel=0.10)
    assert fit_boards.power_w(found[0]) == pytest.approx(7.25, abs=0.02)
    bare = fit_boards.pipelines(replace(rk3399pro.model, contention={}, links={}), data_dir)
    assert [p.period_ms for p in bare] == pytest.approx([69.0, 70.4, 80.2], abs=0.05)  # isolated, as published


def test_boards_have_links_contention_and_idle_power(a311d, rk3399pro):
    for board in (a311d, rk3399pro):
        model = board.model
        pairs = {(a, b) for a in UNITS for b in UNITS if a != b}
        assert set(model.links) == pairs | {(HOST, "gpu"), ("gpu", HOST)}
        assert {(unit, other) for unit, row in model.contention.items() for other in row} == pairs
        watts = [w for n in model.networks for t in n.profile.units.values() for w in t.power_w or ()]
        assert 0 < model.idle_w <= min(watts)
        assert set(model.about) >= {"components", "times", "prices", "contention", "links", "idle_w", "half_iqr_share"}


# ---- boards and files ----


def test_loaded_board_lists_its_components(a311d):
    assert list(a311d.components) == list(UNITS)
    assert a311d.component("G").description == "4 x Mali-G52 at 800 MHz"
    row = a311d.describe()[0]
    assert row == {
        "component": "big",
        "letter": "B",
        "kind": "model",
        "description": "4 x Cortex-A73 at 2208 MHz",
        "core_type": "Cortex-A73",
        "count": 4,
        "max_mhz": 2208.0,
        "stand_in": False,
    }
    with pytest.raises(DeviceError, match="no component 'gpu1'.*the model of a311d-armcl has none"):
        a311d.component("gpu1")


def test_shipped_models_are_what_the_published_data_give(fitted):
    def numbers(value):
        if isinstance(value, dict):
            return [n for key, entry in value.items() for n in (key, *numbers(entry))]
        return [n for entry in value for n in numbers(entry)] if isinstance(value, list) else [value]

    assert {path.stem for path in FOLDER.glob("*.json")} == {*fitted, *fit_prices.BOARDS}
    for name, model in fitted.items():
        shipped = json.loads((FOLDER / f"{name}.json").read_text())
        made = json.loads(json.dumps({"format": "pipeall.board/1", **model.to_dict()}))
        # Solvers differ in the last digits from machine to machine; prices are written with six
        for one, other in zip(numbers(shipped), numbers(made), strict=True):
            assert one == (pytest.approx(other, rel=1e-4, abs=1e-4) if isinstance(other, float) else other)


def test_a_saved_model_is_the_same_when_loaded(tmp_path, fitted):
    path = tmp_path / "own.json"
    fitted["a311d-armcl"].save(path)
    loaded = Board.load(path).model
    assert loaded.to_dict() == fitted["a311d-armcl"].to_dict()
    again = tmp_path / "again.json"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


def small_graph(width: int):
    net = Net((1, 3, 16, 16))
    x = net.conv(net.conv(net.conv("x0", width, 3), 2 * width), width, 3)
    return net.graph(net.fc(net.global_pool(x), 10), name=f"small{width}")


def small_profile(graph, refused: bool = False) -> Profile:
    count = len(graph.groups)
    ms = tuple(1.0 + index for index in range(count))
    units = {
        "big": UnitTimes(ms, (0.1,) * count, (4.0,) * count),
        "bigx1": UnitTimes(tuple(3 * t for t in ms), (0.3,) * count),
        "gpu": UnitTimes((inf, *ms[1:]) if refused else ms, (0.2,) * count, refused={1: "too wide"} if refused else {}),
    }
    contention = {"big": {"gpu": (1.2,) * count}, "gpu": {"big": (1.4,) * count}}
    links = {("big", "gpu"): Link((4096,), (0.1,), (0.2,), (0.05,))}
    return profile_of(graph, units, contention=contention, links=links, idle_w=2.0)


def test_a_model_of_ones_own_board(tmp_path, monkeypatch):
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    gpu = opencl.DeviceInfo(0, "Platform", "Mali", "Vendor", "1.0", 4, True, False, False)
    monkeypatch.setattr(opencl, "devices", lambda: (gpu,))
    tree = write_tree(recorded_files("vim3"), tmp_path)
    board = Board.detect(root=tree, machine="aarch64")
    graphs = [small_graph(4), small_graph(8)]
    profiles = [(graphs[0], small_profile(graphs[0], refused=True)), (graphs[1], small_profile(graphs[1]))]
    model = BoardModel.from_profiles("mine", board.components, profiles)
    model.save(tmp_path / "mine.json")
    loaded = Board.load(tmp_path / "mine.json").model
    big = board.component("big").device.cluster
    assert loaded.components["big"] == Modelled(big.core_type, len(big.cores), big.max_mhz)
    assert loaded.components["gpu"] == Modelled("Mali", 4)
    for graph, profile in profiles:
        got = loaded.profile(graph)
        for unit in ("big", "bigx1", "gpu"):
            assert got.units[unit].ms == pytest.approx(profile.units[unit].ms)
            assert got.units[unit].half_iqr_ms == pytest.approx(profile.units[unit].half_iqr_ms)
            assert got.units[unit].refused == profile.units[unit].refused
        for same_pipeline in (False, True):
            assert got.slowdown("gpu", "big", same_pipeline=same_pipeline).tolist() == [1.4] * len(graph.groups)
        assert got.links == profile.links and got.idle_w == 2.0
    assert set(loaded.errors["big"]) == {"small4", "small8"} and set(loaded.errors["gpu"]) == {"small8"}
    assert set(loaded.mean_power_w) == {"big"}
    other = loaded.profile(small_graph(16))
    assert other.about["times"] == "regression" and all(0 <= ms < inf for ms in other.units["gpu"].ms)


def test_what_was_not_profiled_is_no_part_and_a_stand_in_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    cpu = opencl.DeviceInfo(0, "Platform", "pocl", "Vendor", "1.0", 4, True, False, True)
    monkeypatch.setattr(opencl, "devices", lambda: (cpu,))
    monkeypatch.setattr(opencl, "choose", lambda devices: devices[0])
    board = Board.detect(root=write_tree(recorded_files("vim3"), tmp_path), machine="aarch64")
    graph = small_graph(4)
    profile = small_profile(graph)
    assert board.component("gpu").stand_in
    with pytest.raises(ArgumentError, match="component 'gpu': expected no stand-in"):
        BoardModel.from_profiles("mine", board.components, [(graph, profile)])
    alone = replace(profile, units={"bigx1": profile.units["bigx1"]}, contention={}, links={})
    model = BoardModel.from_profiles("mine", board.components, [(graph, alone)])
    assert list(model.components) == ["big"]
    model.save(tmp_path / "mine.json")
    assert list(Board.load(tmp_path / "mine.json").components) == ["big"]


def test_a_profile_of_another_network_is_refused():
    with pytest.raises(ArgumentError, match="tensor sizes of small8"):
        Measured.of(small_graph(8), small_profile(small_graph(4)))
    with pytest.raises(ArgumentError, match="expected one of small8, spans"):
        Measured.of(small_graph(8), small_profile(small_graph(8)), spans=(1, 1))
    with pytest.raises(ArgumentError, match="'small8': expected one profile of it"):
        BoardModel.fit("x", {}, [(small_graph(8), Measured.of(small_graph(8), small_profile(small_graph(8))))] * 2)
    with pytest.raises(ArgumentError, match="unit 'big': expected one of the board's components, little"):
        parts = {"little": Modelled("Cortex-A53", 4)}
        BoardModel.fit("x", parts, [(small_graph(8), Measured.of(small_graph(8), small_profile(small_graph(8))))])
    with pytest.raises(ArgumentError, match="times of at least one group"):
        BoardModel.fit("x", {}, [])


def test_unknown_boards_are_refused_by_name(tmp_path):
    with pytest.raises(
        ArgumentError, match="board 'vim4': expected one of a311d, a311d-armcl, .*, uno-q-ncnn, or a file"
    ):
        Board.load("vim4")
    with pytest.raises(ArgumentError, match="none.json: cannot be read"):
        Board.load(tmp_path / "none.json")


HOSTILE = {
    "components": ({}, "components: expected names of components"),
    "components.cpu": ({"core_type": "x", "count": 1}, "components: expected names of components"),
    "components.big.count": (2.5, "count: expected a whole number"),
    "components.big.core_type": (7, "core_type: expected text"),
    "prices": ({}, "prices: expected units"),
    "prices.npu": ({}, "prices: expected units"),
    "prices.big.ms_per_op": (-1, "ms_per_op: expected a number from 0 "),
    "prices.gpu": ([], "prices.gpu: expected an object"),
    "precision_factors": ([], "precision_factors: expected an object"),
    "precision_factors.gpu": (0.5, "precision_factors: expected components that have prices, in another precision"),
    "precision_factors.big@fp32x2": (0.5, "precision_factors: expected components that have prices"),
    "precision_factors.gpu@fp16": ("half", "gpu@fp16: expected a number"),
    "contention.big.little": (0, "little: expected a number from 0.1 "),
    "contention.big.npu": (1, "contention: expected units"),
    "contention.big": (1.1, "contention.big: expected an object"),
    "links": ({}, None),
    "links.0.bytes": ([5, 4, 3], "bytes: expected increasing sizes"),
    "mean_power_w": ([1], "mean_power_w: expected an object"),
    "mean_power_w.big": ("5", "big: expected a number"),
    "idle_w": (True, "idle_w: expected a number"),
    "half_iqr_share": (None, "half_iqr_share: expected a number"),
    "about": ("x", "about: expected an object"),
    "networks": ("x", "networks: expected a list"),
    "networks.0": (3, r"networks\[0\]: expected an object"),
    "networks.0.spans": ([1], "spans: expected a list of 8 numbers"),
    "networks.0.spans.0": (1.5, "spans: expected whole numbers"),
    "networks.0.spans.1": (0, "spans: expected numbers from 1 "),
    "networks.0.macs": ("many", "macs: expected a number"),
    "networks.0.fitted": ("yes", "fitted: expected true or false"),
    "networks.0.profile": (None, "profile: expected an object"),
    "networks.0.profile.units.big.ms": ([1, 2], "ms: expected a list of 8 numbers"),
    "networks.0.profile.units.big.ms.0": (-1, "ms: expected numbers"),
    "networks.0.profile.crossing_bytes": ([1], "crossing_bytes: expected a list of 9 numbers"),
    "leave_one_out_errors.big.alexnet": ("small", "alexnet: expected a number"),
    "name": (None, "name: expected text"),
    "format": ("pipeall.board/2", "expected format 'pipeall.board/1'"),
}


@pytest.mark.parametrize("entry", HOSTILE)
def test_hostile_files_are_refused_with_the_entry(entry, tmp_path):
    content = json.loads((FOLDER / "a311d-armcl.json").read_text())
    content["precision_factors"] = {}
    value, message = HOSTILE[entry]
    *path, last = (int(word) if word.isdecimal() else word for word in entry.split("."))
    inside = content
    for word in path:
        inside = inside[word]
    inside[last] = value
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(content))
    if message is None:  # an empty object where an empty list is meant
        assert Board.load(file).model.links == {}
        return
    with pytest.raises(ArgumentError, match=message) as caught:
        Board.load(file)
    assert "hostile.json" in str(caught.value) and "\n" not in str(caught.value)
