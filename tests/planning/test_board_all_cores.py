"""All cores of a modelled board as one team: its times against the runtime's rule played out, and plans that use it."""

import heapq
import json
from itertools import count

import numpy as np
import pytest
from graphs import zoo_net

import pipeall
from pipeall.errors import ArgumentError
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.boards.models.all_cores import least_ms
from pipeall.pipeline.boards.models.board_model import FOLDER, BoardModel
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.uncertainty import four_of_five
from tools.board_models import price_table, shared_steps
from tools.board_models.fit_boards import build

BOARDS = ("a311d", "rk3399", "rk3588")  # whose clusters have prices or published times of their own
ALIKE = ("orion-o6", "rk3576")  # whose clusters have those of others
NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")


def played_out(chunks: int, pieces: int, speeds: np.ndarray, believed: np.ndarray) -> float:
    """When the last thread of a team is done with a job, by the rule of _kernels/cpu/team.c: shares, claims, leaving.

    speeds    pieces a ms of each thread
    believed  what the team has learned of them, as parts of all
    """
    size, all_ = len(speeds), chunks * pieces
    ends = [round(all_ * believed[: i + 1].sum()) for i in range(size - 1)] + [all_]
    next_ = [0, *ends[:-1]]
    order = count()
    waiting = [(0.0, i, next(order)) for i in range(size)]
    heapq.heapify(waiting)
    last = 0.0
    while waiting:
        now, me, _ = heapq.heappop(waiting)
        for owner in ((me + i) % size for i in range(size)):
            left = sum(max(0, end - at) for end, at in zip(ends, next_, strict=True))
            if next_[owner] >= ends[owner]:
                continue
            slow = me > 0 and believed[me] * 1.5 < believed.max() and believed[me] * (left + 1) < 1
            if slow:
                continue
            claimed = max(1, int(believed[me] * left / 2))
            chunk_end = (next_[owner] // pieces + 1) * pieces
            claimed = min(claimed, chunk_end - next_[owner], ends[owner] - next_[owner])
            next_[owner] += claimed
            done = now + claimed / speeds[me]
            last = max(last, done)
            heapq.heappush(waiting, (done, me, next(order)))
            break
    return last


def brute(pieces: int, piece_ms: np.ndarray, cores: np.ndarray) -> float:
    """``least_ms``, by trying every moment at which a core may be done with a piece."""
    moments = sorted({n * ms for ms in piece_ms for n in range(1, pieces + 1)})
    return next(
        t for t in moments if sum(k * int(t / ms + 1e-9) for ms, k in zip(piece_ms, cores, strict=True)) >= pieces
    )


def test_a_step_ends_when_all_cores_can_be_done_with_whole_pieces():
    random = np.random.default_rng(1)
    for _ in range(300):
        cores = random.integers(1, 5, 2)
        piece_ms = random.uniform(0.1, 3, 2)
        pieces = int(random.integers(1, 60))
        found = least_ms(np.array([pieces]), piece_ms[:, None], cores)[0]
        assert found == pytest.approx(brute(pieces, piece_ms, cores), rel=1e-6)


def test_the_runtimes_rule_is_done_then_or_little_later():
    """Drawn steps and clusters, with speeds that the team has learned from other steps, too."""
    random = np.random.default_rng(2)
    late, more = [], []
    for _ in range(400):
        cores = random.integers(1, 5, 2)
        piece_ms = np.array([1.0, random.uniform(1, 6)])
        chunks, pieces = int(random.integers(8, 40)), int(random.integers(1, 17))
        speeds = np.repeat(1 / piece_ms, cores)
        believed = speeds * np.repeat([1.0, random.uniform(0.8, 1.25)], cores)
        ms = played_out(chunks, pieces, speeds, believed / believed.sum())
        least = least_ms(np.array([chunks * pieces]), piece_ms[:, None], cores)[0]
        late.append((ms - least) / piece_ms.max())
        more.append(ms / least - 1)
    assert min(late) > -1e-9 and max(late) < 2.5  # pieces of a slow core
    assert np.median(more) == pytest.approx(0, abs=1e-9) and np.mean(more) < 0.02


@pytest.mark.parametrize("name", (*BOARDS, *ALIKE))
def test_all_cores_are_a_default_unit_between_the_fastest_cluster_and_the_sum_of_speeds(name):
    model = Board.load(name).model
    for network in NETWORKS:
        profile = model.profile(zoo_net(network))
        assert list(profile.units) == [*model.components, "cpu"]
        ms = {unit: sum(times.ms) for unit, times in profile.units.items()}
        clusters = [ms[unit] for unit in model.cores]
        assert 1 / sum(1 / alone for alone in clusters) < ms["cpu"] < min(clusters)
        assert min(profile.units["cpu"].ms) > 0


def by_hand(name: str, network: str) -> float:
    """The same in plain sums: step by step, of each one what each cluster takes alone, and the rule by brute force."""
    model, graph = Board.load(name).model, zoo_net(network)
    steps = model.team.work(graph, "").steps
    clusters = [(model.pricing[unit], model.components[unit].count) for unit in ("big", "little")]
    total = 0.0
    for step in steps:
        alone, starts = [], []
        for prices, _ in clusters:
            row = prices.price_of(step.kernel)
            far = max(0.0, step.features[3] + step.features[4] - prices.cache_mb / 2)
            alone.append(sum(price * does for price, does in zip(row, (*step.features, far), strict=True)))
            starts.append(row[6])
        least, most = step.pieces
        pieces = min(max(least, 3 * sum(count for _, count in clusters)), most)
        slower = model.contention["big"]["little"]
        piece_ms = [
            slower * count * (ms - start) / pieces
            for (_, count), ms, start in zip(clusters, alone, starts, strict=True)
        ]
        divided = brute(pieces, piece_ms, [count for _, count in clusters]) if min(piece_ms) > 0 else 0.0
        shared = sum(step.features[2:5]) / model.cores["big"].shared_gb_s
        total += min(max(max(starts) + divided, shared) + model.barrier_ms, alone[0])
    return total


@pytest.mark.parametrize("name, network", [("a311d", "squeezenet"), ("rk3588", "mobilenet")])
def test_a_networks_time_is_the_sum_over_its_steps(name, network):
    cpu = Board.load(name).model.profile(zoo_net(network), ["cpu"]).units["cpu"]
    assert sum(cpu.ms) == pytest.approx(by_hand(name, network), rel=1e-6)


def test_pieces_are_those_of_the_drivers():
    """MobileNet, by the sizes in conv.c, parallel_for.h and depthwise.c: 104 rows, 8 channels, 16384 elements."""
    steps = Board.load("a311d").model.team.work(zoo_net("mobilenet"), "").steps
    pointwise = [step.pieces for step in steps if step.kernel == "gemm 1x1"]
    assert pointwise[0] == (121 * 8, 121 * 8)  # 112 x 112 pixels, 64 channels
    assert pointwise[-1] == (1 * 128, 1 * 128)  # 7 x 7 pixels, 1024 channels
    windows = [step.pieces for step in steps if step.kernel == "depthwise 3x3"]
    assert windows[0] == (56, 56) and windows[-1] == (7, 7)  # 112 x 112 x 32 and 7 x 7 x 1024, nine products each


def test_published_times_of_all_cores_beside_an_error_of_the_other_networks(data_dir):
    """With equal shares, as ncnn and ARM Compute Library give them: the slowest core's share decides. The error holds
    four of five of those it was made of, and 11 of 14 that it was not made of: the documentation says so."""
    known = shared_steps.pairs(price_table.load(price_table.PRICES), build(data_dir)["rk3399pro"])
    inside = []
    for network in {pair.network for pair in known}:
        others = [pair for pair in known if pair.network != network]
        wide, barrier = four_of_five(shared_steps.left_out(others)), shared_steps.barrier_ms(others)
        for name, own in shared_steps.PUBLISHED.items():
            for steps in [pair.steps for pair in known if (pair.source, pair.network) == (name, network)]:
                alone, all_ = own.ms[network]
                shares = 1.1 * alone * own.alone / own.together
                inside.append(1 / (1 + wide) <= (shares + barrier * steps) / all_ <= 1 + wide)
    assert (sum(inside), len(inside)) == (11, 14)
    assert four_of_five(shared_steps.left_out(known)) < 0.09


def test_errors_of_all_cores_are_no_less_than_those_of_their_clusters():
    for name in BOARDS:
        error = Board.load(name).model.error
        for word in ("", "@int8"):
            assert error[f"cpu{word}"] > min(error[f"big{word}"], error[f"little{word}"])
    profile = Board.load("rk3588").model.profile(zoo_net("mobilenet"), ["cpu", "cpu@fp16"])
    assert profile.error["cpu@fp16"] == Board.load("rk3588").model.error["cpu@fp16"]
    assert sum(profile.units["cpu@fp16"].ms) < sum(profile.units["cpu"].ms)


def test_beside_a_gpu_all_cores_are_as_their_clusters_are():
    model, graph = Board.load("a311d").model, zoo_net("squeezenet")
    profile = model.profile(graph)
    assert profile.slowdown("cpu", "gpu")[0] == model.contention["big"]["gpu"]
    assert profile.slowdown("gpu", "cpu")[0] == model.contention["gpu"]["big"] * model.contention["gpu"]["little"]
    for one, other in (("cpu", "gpu"), ("gpu", "cpu")):
        first, second = (name.replace("cpu", "big") for name in (one, other))
        np.testing.assert_array_equal(profile.handover(one, other), profile.handover(first, second))
    power = {unit: times.power_w[0] for unit, times in profile.units.items()}
    assert power["cpu"] == pytest.approx(power["big"] + power["little"] - profile.idle_w)


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("network", NETWORKS)
def test_one_frame_is_done_sooner_than_on_the_best_component(name, network):
    graph = zoo_net(network)
    profile = Board.load(name).model.profile(graph)
    best = search(graph, profile, "latency").ranked[0]
    single = min(predict(profile, Plan.parse(unit)).alone_ms for unit in ("big", "little", "gpu"))
    assert best.latency_ms < 0.95 * single


def test_a_plan_has_all_cores_beside_a_gpu_and_never_beside_a_cluster():
    graph, board = zoo_net("googlenet"), Board.load("rk3399")
    profile = board.model.profile(graph)
    found = search(graph, profile, "latency", top=200)
    units = {frozenset(choice.plan.units) for choice in found.ranked}
    assert {frozenset({"cpu"}), frozenset({"cpu", "gpu"})} <= units
    assert all(len(unit_set & {"big", "little"}) == 0 for unit_set in units if "cpu" in unit_set)
    best = search(graph, profile, top=200).ranked
    assert any("cpu" in choice.plan.units for choice in best)


def test_a_stage_on_all_cores_runs_at_the_boards_pace():
    graph = zoo_net("squeezenet")
    board = Board.load("a311d")
    expected = predict(board.model.profile(graph, ["cpu"]), Plan.parse("cpu")).period_ms
    with pipeall.Pipeline(graph, "cpu", board=board, time_scale=10) as pipe:
        for _ in pipe.map([np.zeros(graph.inputs[0].shape, np.float32)] * 4):
            pass
        busy = pipe.stats().stages[0].busy_ms
    assert 0.98 * 10 * expected < busy


def test_boards_without_clusters_of_their_own_prices_have_no_times_of_all_cores(tmp_path):
    graph = zoo_net("squeezenet")
    for name, library in (("rpi5", "pipeall"), ("a311d", "armcl"), ("rk3588", "ncnn")):
        board = Board.load(name, library)
        with pytest.raises(ArgumentError, match="unit 'cpu': expected one of the model"):
            board.model.profile(graph, ["cpu"])
    content = json.loads((FOLDER / "rpi4.json").read_text())
    content["barrier_ms"] = 0.01
    with pytest.raises(ArgumentError, match="barrier_ms: expected several clusters in cores"):
        BoardModel.from_dict(content, "own.json")
    content = json.loads((FOLDER / "a311d.json").read_text())
    content["barrier_ms"] = -1
    with pytest.raises(ArgumentError, match="barrier_ms: expected a number"):
        BoardModel.from_dict(content, "own.json")


def test_a_model_with_a_team_is_saved_as_it_was(tmp_path):
    model = Board.load("rk3588").model
    model.save(tmp_path / "own.json")
    assert BoardModel.load(tmp_path / "own.json").to_dict() == model.to_dict()
