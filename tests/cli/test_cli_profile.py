"""``pipeall profile``: documents, what is kept, and boards that are saved."""

import json
from dataclasses import replace

import pytest
from commands import document, invoke, quick_net, two_clusters

from pipeall import Board, Profile
from pipeall.cli.model_argument import ZOO
from pipeall.files import read_json
from pipeall.pipeline.boards.default_units import default_units
from pipeall.pipeline.measuring import profiler

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--seconds", "0.01")


@pytest.fixture
def counted(monkeypatch):
    """What was measured: units alone, pairs, links."""
    calls = []
    for module, name in ((profiler, "times_alone"), (profiler, "with_contention"), (profiler.links, "measure")):
        monkeypatch.setattr(module, name, _counting(getattr(module, name), name, calls))
    return calls


def _counting(function, name, calls):
    def counting(*arguments):
        calls.append(name)
        return function(*arguments)

    return counting


@two_clusters
def test_profile_is_the_file_and_is_not_measured_again(tmp_path, counted):
    path = tmp_path / "profile.json"
    first = document("profile", "tiny", "-o", path, "--units", "B,L", *QUICK)
    assert sorted(counted) == ["measure"] * 2 + ["times_alone"] * 2 + ["with_contention"]
    assert read_json(path, "profile") == first
    assert list(first["units"]) == ["big", "little"] and len(first["groups"]) == 4 and not first["modelled"]
    assert all(ms > 0 for times in first["units"].values() for ms in times["ms"])
    assert {(link["from"], link["to"]) for link in first["links"]} == {("big", "little"), ("little", "big")}
    assert first["about"]["before"]["load"] >= 0 and first["about"]["after"]["load"] >= 0
    counted.clear()
    second = document("profile", "tiny", "-o", path, "--units", "B,L", *QUICK)
    assert counted == [] and {**second, "about": None} == {**first, "about": None}
    document("profile", "tiny", "-o", path, "--again", "--units", "B", *QUICK)
    assert counted == ["times_alone"] and list(read_json(path, "profile")["units"]) == ["big"]


def test_profiles_of_several_networks_go_to_a_folder_and_make_one_board(tmp_path, monkeypatch):
    monkeypatch.setitem(ZOO, "other", lambda: replace(quick_net(), name="other"))
    folder, board = tmp_path / "profiles", tmp_path / "board.json"
    found = document("profile", "tiny", "other", "--units", "B", "-o", folder, "--save-board", board, *QUICK)
    assert found["format"] == "pipeall.profiles/1" and len(found["profiles"]) == 2
    for profile in found["profiles"]:
        assert Profile.load(folder / f"{profile['network']}.json").to_dict() == profile
    assert {network.profile.network for network in Board.load(board).model.networks} == {quick_net().name, "other"}
    assert f"{quick_net().name}.json twice" in invoke("profile", "tiny", "tiny", "-o", folder, *QUICK).stderr


@two_clusters
def test_profile_goes_on_after_an_interrupt(tmp_path, counted, monkeypatch):
    path = tmp_path / "profile.json"

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(profiler, "with_contention", interrupt)
        assert invoke("profile", "tiny", "-o", path, *QUICK).exit_code == 130
    kept = read_json(path, "profile")
    assert list(kept["units"]) == default_units(Board.detect(gpu=False))
    assert kept["contention"] == {} and kept["links"] == []
    counted.clear()
    found = document("profile", "tiny", "-o", path, *QUICK)
    assert sorted(counted) == ["measure", "measure", "with_contention"]
    assert found["units"] == kept["units"] and found["contention"] != {}


def test_profile_of_some_cores_as_text():
    text = invoke("profile", "tiny", "--units", "Bx1", *QUICK).stdout
    assert "quick, 4 groups, measured" in text and "bigx1" in text and "Hand-over of 131,072 bytes" in text


def test_profile_tells_what_a_unit_cannot_run(tmp_path):
    path = tmp_path / "profile.json"
    document("profile", "tiny", "-o", path, "--units", "B", *QUICK)
    content = json.loads(path.read_text())
    content["units"]["big"] |= {"ms": [1.0, None, 2.0, 3.0], "refused": {"2": "out of memory"}}
    path.write_text(json.dumps(content))
    text = invoke("profile", "tiny", "-o", path, "--units", "B").stdout
    assert "6.00 (3 of 4 groups)" in text and "Groups that a unit cannot run" in text and "out of memory" in text


def test_profile_of_a_model_is_the_models():
    found = document("profile", "squeezenet", "--board", "a311d-armcl")
    expected = Board.load("a311d-armcl").model.profile(ZOO["squeezenet"]())
    assert found["modelled"] and found["units"] == expected.to_dict()["units"]
    assert found["about"]["board"] == "a311d-armcl"


@pytest.mark.parametrize("first", [("--units", "B"), ("--board", "a311d-armcl")], ids=str)
def test_a_measured_and_a_modelled_profile_do_not_replace_each_other(first, tmp_path):
    path = tmp_path / "profile.json"
    document("profile", "tiny", "-o", path, *first, *QUICK)
    before = path.read_text()
    other = ("--units", "B") if first[0] == "--board" else ("--board", "a311d-armcl")
    result = invoke("profile", "tiny", "-o", path, *other, *QUICK)
    assert result.exit_code == 2 and "--again starts over" in result.stderr and path.read_text() == before
    found = document("profile", "tiny", "-o", path, "--again", *other, *QUICK)
    assert found["modelled"] == (other[0] == "--board") == read_json(path, "profile")["modelled"]


def test_where_modelled_times_are_from_is_told():
    model = Board.load("a311d-armcl").model
    alone = ("tiny", "--board", "a311d-armcl")
    for command in ("profile", "search", "simulate"):
        text = invoke(command, *alone).stdout
        assert "times of a311d-armcl: regression; off by" in text
        for unit, row in model.errors.items():
            assert f"{unit} {sum(map(abs, row.values())) / len(row):.0%}" in text
    source = model.profile(ZOO["squeezenet"]()).about["times"]
    assert (
        source != "regression"
        and f"times of a311d-armcl: {source}" in invoke("profile", "squeezenet", *alone[1:]).stdout
    )
    assert "times of" not in invoke("profile", "tiny", "--units", "B", *QUICK).stdout


def test_a_saved_board_gives_the_profile_back(tmp_path):
    path = tmp_path / "mine.json"
    found = document("profile", "tiny", "--units", "B", "--save-board", path, *QUICK)
    again = document("profile", "tiny", "--board", path)
    assert again["units"]["big"]["ms"] == found["units"]["big"]["ms"] and again["about"]["board"] == "mine"
