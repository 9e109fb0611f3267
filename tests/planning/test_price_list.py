"""The price list of pipeall's own steps: what it is fitted to, how far off it is, and what plans make of its error."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import small_net, zoo_net

from pipeall import Board, Plan
from pipeall.pipeline.boards.models import price_list, step_work
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.uncertainty import DEVIATIONS, interval, share_ahead
from tools.board_models import fit_prices, price_table

BOARDS = tuple(fit_prices.BOARDS)
# precision -> networks at least that are left out in turn
LEFT_OUT = {"": 14, "fp16": 9, "bf16": 3, "int8": 9}
# (core, precision) -> ms of ResNet-50 on one core, and how far off its price may be
WHOLE_FRAMES = {("rpi5", "fp16"): (87.5, 0.05), ("rk3588-little", "fp16"): (265.3, 0.10)}
# ncnn's benchmark/README.md, ms with all cores of the cluster: true float32 on these (an A76 computes there in halves)
NCNN = {
    ("a311d", "big"): {"alexnet": 60.7, "googlenet": 82.2, "mobilenet": 43.0},
    ("rk3399", "big"): {"alexnet": 107.2, "googlenet": 133.2, "mobilenet": 65.1},
    ("rpi4", "big"): {"alexnet": 76.4, "googlenet": 114.4, "mobilenet": 61.2},
    ("uno-q", "big"): {"alexnet": 56.8, "googlenet": 105.4, "mobilenet": 47.8},
}


@pytest.fixture(scope="module")
def rows():
    return price_table.load(fit_prices.PRICES)


@pytest.fixture(scope="module")
def clusters(rows):
    return fit_prices.clusters_of(rows)


@pytest.mark.parametrize("soc, unit", [("a311d-big", "big"), ("rk3588-little", "big@fp16")])
def test_steps_are_told_as_the_priced_machine_ran_them(rows, soc, unit):
    """The kernels and figures of the table were taken from the algorithms that an emulated Arm core chose."""
    for name in ("alexnet", "mobilenet", "squeezenet"):
        priced = [row for row in rows if (row.network, row.soc, row.unit) == (name, soc, unit)]
        works = step_work.works(zoo_net(name), precision=unit.partition("@")[2])
        assert [work.kernel for work in works] == [row.kernel for row in priced]
        np.testing.assert_allclose([work.features for work in works], [row.features for row in priced])
        assert works[0].group == 0 and works[-1].group == len(zoo_net(name).groups) - 1


def test_shipped_prices_are_those_of_the_table(clusters):
    for name in BOARDS:
        model = BoardModel.load(name)
        for unit, soc in fit_prices.BOARDS[name].socs.items():
            samples = clusters[soc].samples()
            fitted = price_list.PriceList.fit(samples.values(), clusters[soc].core.cache_mb)
            assert model.pricing[unit].kernels.keys() == fitted.kernels.keys()
            for kernel, row in fitted.kernels.items():
                assert model.pricing[unit].kernels[kernel] == pytest.approx(row, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", BOARDS)
def test_networks_left_out_are_priced_within_15_percent(name):
    """In every precision that it has prices of, half of them within 5 %."""
    found = {unit: row for unit, row in BoardModel.load(name).errors.items() if not unit.startswith("gpu")}
    assert {f"{unit}{end}" for unit in fit_prices.BOARDS[name].socs for end in ("", "@int8")} <= found.keys()
    for unit, errors in found.items():
        off = np.abs(list(errors.values()))
        assert len(off) >= LEFT_OUT[unit.partition("@")[2]] and np.median(off) <= 0.05 and off.max() <= 0.15


@pytest.mark.parametrize("soc, precision", WHOLE_FRAMES)
def test_a_network_left_out_takes_what_its_whole_frame_was_priced_at(clusters, soc, precision):
    """ResNet-50, by another run and another program than those of the steps (bench/engines/arm_cost.py)."""
    cluster, (ms, limit) = clusters[soc], WHOLE_FRAMES[soc, precision]
    known = {name: rows for name, rows in cluster.networks.items() if name.partition("@")[0] != "resnet50"}
    assert f"resnet50@{precision}" in cluster.networks.keys() - known.keys()
    steps = {name: [step_work.Work(row.node, row.kernel, 0, row.features) for row in rows]
             for name, rows in known.items()}  # fmt: skip
    one = [price_list.Sample(works, [row.ms for row in known[name]]) for name, works in steps.items()]
    prices = price_list.PriceList.fit(one, cluster.core.cache_mb)
    graph = zoo_net("resnet50")
    found = prices.group_ms(prices.work(graph, precision)).sum()
    assert found == pytest.approx(ms, rel=limit)


def test_prices_that_made_the_times_are_found_again():
    random = np.random.default_rng(0)
    truth = {"gemm": random.random(8), "other": random.random(8)}
    works = [
        step_work.Work("node", kernel, 0, tuple(random.random(7))) for kernel in ("gemm", "maxpool") for _ in range(30)
    ]
    made = price_list.PriceList(1.0, {kernel: tuple(row) for kernel, row in truth.items()})
    ms = [float(made.group_ms(step_work.GroupWork([work], 1))[0]) for work in works]
    found = price_list.PriceList.fit([price_list.Sample(works, ms)], 1.0)
    np.testing.assert_allclose(found.kernels["gemm"], truth["gemm"], rtol=1e-6)
    np.testing.assert_allclose(found.kernels["maxpool"], truth["other"], rtol=1e-6)
    assert found.price_of("winograd 4") == found.kernels["gemm"]  # kernels that nothing priced
    assert found.price_of("softmax") == found.kernels["other"]
    assert found.group_ms(step_work.GroupWork(works, 1)) == pytest.approx(sum(ms))


@pytest.mark.parametrize("board, unit", NCNN)
def test_modelled_times_are_of_the_order_of_another_librarys(board, unit):
    """ncnn on the same cores: nothing here is fitted to these engines' ratio. pipeall must not look 3 x as fast."""
    model = BoardModel.load(board)
    for name, ms in NCNN[board, unit].items():
        found = sum(model.profile(zoo_net(name)).units[unit].ms)
        assert ms / 3 < found < 1.3 * ms


@pytest.mark.parametrize("soc", [soc for soc, core in fit_prices.CORES.items() if core.speedups])
def test_speed_ups_of_threads_are_those_that_were_published(clusters, soc):
    cluster = clusters[soc]
    off = [np.log(found / cluster.core.speedups[name]) for name, found in cluster.speedups().items()]
    if cluster.core.engines:  # a mean of engines' efficiencies: each of one that has published times is in the interval
        assert np.abs(off).max() <= DEVIATIONS * cluster.spread()
        return
    assert np.sqrt(np.mean(np.square(off))) < 0.15 and cluster.spread() > np.std(off)  # left out they are further off
    for name, found in cluster.speedups().items():
        assert found == pytest.approx(cluster.core.speedups[name], rel=0.25)


def test_several_engines_tell_how_threads_of_a_raspberry_pi_5_share_arithmetic(clusters):
    """Each by hand: what threads at its share take for the same networks, and who reaches which part of the peak."""
    cluster = clusters["rpi5"]
    found = cluster.efficiencies()
    assert found.keys() == {"ncnn", "LiteRT", "ExecuTorch"} and all(0 < share <= 1 for share in found.values())
    assert cluster.efficiency == pytest.approx(np.prod(list(found.values())) ** (1 / 3))
    rows = cluster.networks["yolo26n"]
    ms, memory = (
        sum(row.ms for row in rows),
        sum(min(row.ms, 0.41 * (row.read_mb / 14.9 + row.written_mb / 10.0)) for row in rows),
    )
    threads_ms = (ms - memory) / (4 * found["LiteRT"]) + memory / cluster.bandwidth
    assert (ms / threads_ms) ** 2 == pytest.approx(245.5 / 123.3 * 795 / 360)
    assert found["ExecuTorch"] == pytest.approx(0.75, abs=0.01)  # 231 of 307 G products a second
    assert np.expm1(DEVIATIONS * cluster.spread()) > max(found.values()) / cluster.efficiency - 1


def test_boards_say_where_times_are_from_and_how_far_off_they_may_be(tmp_path):
    profile = Board.load("rk3588").model.profile(small_net())
    assert profile.about["times"] == price_list.PriceList.source
    assert list(profile.units) == ["big", "little", "gpu", "cpu"]
    assert profile.error.keys() == profile.units.keys() and all(0.1 < error < 0.7 for error in profile.error.values())
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json").error == profile.error
    assert Board.load("a311d", library="armcl").model.name == "a311d-armcl"
    assert interval(Board.load("a311d-armcl").model.profile(small_net()), Plan.parse("B")) is None


def test_an_interval_holds_the_prediction_and_grows_with_the_error():
    profile = Board.load("a311d").model.profile(zoo_net("squeezenet"))
    for text in ("B", "G", "B-L:9", "G-B-L:3,14"):
        plan = Plan.parse(text)
        found, prediction = interval(profile, plan), predict(profile, plan)
        assert found.latency_ms[0] < prediction.latency_ms < found.latency_ms[1]
        assert found.fps[0] < prediction.fps
    single = interval(profile, Plan.parse("B"))
    error = profile.error["big"]  # of one unit: the quantiles of its own factor, by 41 draws
    assert single.fps[1] / single.fps[0] == pytest.approx((1 + error) ** 2, rel=0.15)


@pytest.mark.parametrize("objective", ["throughput", "latency", "energy"])
@pytest.mark.parametrize("min_fps", [None, 3.0])
def test_the_best_prediction_comes_first_and_how_sure_that_is_follows_from_the_error(objective, min_fps):
    graph = zoo_net("mobilenet")
    profile = Board.load("a311d").model.profile(graph)
    found = search(graph, profile, objective, min_fps=None if objective == "throughput" else min_fps, top=1000,
                   plans="pipelines")  # fmt: skip
    goal = found.best.goal

    def value(choice):
        return goal.value(choice.period_ms, choice.latency_ms, choice.prediction.energy_at(goal.min_fps))

    values = [value(choice) for choice in found.ranked]
    assert values == pytest.approx(sorted(values), rel=1e-9)  # sums in another order
    if not found.simpler:
        assert len(found.best.units) == 1 and found.sure is None
        return
    fewer = [choice for choice in found.ranked if len(choice.plan.units) < len(found.best.units)]
    assert value(found.simpler) == pytest.approx(min(map(value, fewer), default=value(found.simpler)), rel=1e-9)
    assert 0.5 < found.sure <= 1
    exact = replace(profile, error={unit: 1e-9 for unit in profile.error}, contention_error=1e-9)
    assert share_ahead(exact, found.best, found.simpler.plan, goal) == 1
    assert share_ahead(profile, found.simpler.plan, found.best, goal) == pytest.approx(1 - found.sure)
    assert share_ahead(profile, found.best, found.best, goal) == 0.5


def test_energy_at_a_slower_rate_adds_what_the_idle_board_draws():
    graph = zoo_net("mobilenet")
    prediction = predict(Board.load("a311d").model.profile(graph), Plan.parse("B"))
    assert prediction.energy_at(None) == prediction.energy_at(10 * prediction.fps) == prediction.energy_mj
    waited_ms = 1000 / (prediction.fps / 2) - prediction.period_ms
    idle_mj = prediction.energy_at(prediction.fps / 2) - prediction.energy_mj
    assert idle_mj == pytest.approx(prediction.idle_w * waited_ms)
