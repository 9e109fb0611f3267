"""NPUs of board models: whole networks that were published, only where they are asked for."""

import numpy as np
import pytest
from commands import invoke
from graphs import zoo_net

from pipeall import ArgumentError, Board, Plan, search
from pipeall.pipeline.boards.default_units import default_units, real_components
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.predict import predict

FPS = {"rk3588": 110, "rk3576": 99}  # of one core with ResNet-50: airockchip/rknn_model_zoo


@pytest.mark.parametrize("name", FPS)
def test_a_whole_network_takes_what_was_published(name):
    graph, model = zoo_net("resnet50"), Board.load(name).model
    profile = model.profile(graph, ["big", "npu"])
    assert sum(profile.units["npu"].ms) == pytest.approx(1000 / FPS[name], rel=1e-4)
    assert profile.about["whole_network_published"] == {"npu": "ResNet-50"} and profile.error["npu"] == 0.5
    shares = np.array(profile.units["npu"].ms) / sum(profile.units["npu"].ms)
    one = model.pricing["big"]
    int8 = one.group_ms(one.work(graph, "int8"), "int8")
    assert shares == pytest.approx(int8 / int8.sum(), rel=1e-6)
    alone = predict(profile, Plan.single("npu")).alone_ms
    assert 1000 / FPS[name] <= alone <= 1000 / FPS[name] + 3  # the picture has to get there, and the answer back


def test_mobilenet_is_the_one_that_teflon_runs():
    profile = Board.load("a311d").model.profile(zoo_net("mobilenet"), ["npu"])
    assert sum(profile.units["npu"].ms) == pytest.approx(15.0)


@pytest.mark.parametrize("name", ["rk3588", "rk3576", "a311d"])
def test_nobody_gets_an_npu_who_does_not_ask(name):
    board, graph = Board.load(name), zoo_net("resnet50")
    assert "npu" in board.components and "npu" not in real_components(board)
    assert not any("npu" in unit for unit in default_units(board))
    assert not any("npu" in unit for unit in board.model.profile(graph).units)


def test_another_network_is_refused_with_those_that_there_are():
    with pytest.raises(
        ArgumentError, match=r"whose time on it was published \(MobileNetV2, ResNet-50, .*\), got alexnet"
    ):
        Board.load("rk3588").model.profile(zoo_net("alexnet"), ["npu"])


def test_a_search_uses_the_cores_that_are_named():
    graph, model = zoo_net("resnet50"), Board.load("rk3588").model
    units = ["big", "gpu", "npu", "npu1", "npu2"]
    best = search(graph, model.profile(graph, units), top=1).ranked[0]
    assert {"npu", "npu1", "npu2"} <= {unit.component for unit in best.plan.units}
    one = search(graph, model.profile(graph, ["npu"]), top=1).ranked[0]
    assert 1.5 < best.prediction.fps / one.prediction.fps < 3.5


def test_the_command_tells_what_is_known():
    said = invoke("search", "resnet50", "--board", "rk3588", "--units", "big,npu", "--top", "1")
    assert said.exit_code == 0 and "whole network published: npu of ResNet-50" in said.output


def test_a_file_keeps_it(tmp_path):
    model = BoardModel.load("rk3588")
    model.save(tmp_path / "board.json")
    assert BoardModel.load(tmp_path / "board.json") == model


@pytest.mark.parametrize(
    "change, told",
    [
        (dict(divided_as="gpu1"), "published: expected further components"),
        (dict(networks=[{"network": "x", "gmacs": 0, "size": [1, 1], "ms": 1}]), "gmacs"),
        (dict(networks=[{"network": "x", "gmacs": 1, "size": [1], "ms": 1}]), "size"),
    ],
)
def test_a_wrong_entry_is_told(change, told):
    content = BoardModel.load("rk3588").to_dict()
    content["published"]["npu"] |= change
    with pytest.raises(ArgumentError, match=told):
        BoardModel.from_dict(content, "board.json")
