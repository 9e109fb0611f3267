"""The benches: each can be imported with what the tests need, takes turns fairly, and keeps what it prints."""

import argparse
from importlib import import_module
from pathlib import Path

import pytest

from bench import common
from pipeall import Board
from pipeall.errors import ArgumentError
from pipeall.files import read_json

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    path.relative_to(ROOT).with_suffix("") for folder in ("bench", "tools") for path in (ROOT / folder).rglob("*.py")
]
TORCHVISION = {"cost_exports", "cost_references"}  # need it
COLUMNS = ("network", "time of a frame [ms] .2f", "frames", "why", "never measured [s] .1f")


@pytest.mark.parametrize("name", sorted(".".join(path.parts) for path in SCRIPTS if path.name not in TORCHVISION))
def test_every_script_can_be_imported(name):
    stem = name.rpartition(".")[2]
    if stem == "architectures":
        pytest.importorskip("torch", reason="networks to export: pip install torch timm torchvision")
    if not stem.startswith(("bench_", "conftest")):
        assert import_module(name).__doc__


def test_all_take_part_in_every_round_and_none_always_comes_first():
    seen = []
    found = common.in_turns({key: lambda key=key: seen.append(key) or len(seen) for key in "abc"}, 3)
    assert "".join(seen) == "abccbaabc"
    assert found == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}


def test_a_ratio_is_taken_round_by_round():
    assert common.ratios([2, 40, 6], [1, 20, 3]) == [2, 2, 2]


def test_a_record_keeps_what_the_table_shows(tmp_path, capsys):
    options = argparse.Namespace(json=tmp_path / "found.json")
    with common.Record(options, *COLUMNS, part="one part") as record:
        record.add("squeezenet", 10.0049, 1500, "because", None)
        record.add("resnet50", float("nan"), 3, None, None)
        record.say("a line below")
    found = read_json(tmp_path / "found-one-part.json", "record")
    assert found["columns"][1] == {"name": "time of a frame", "unit": "ms"}
    assert found["rows"] == [["squeezenet", 10.0, 1500, "because", None], ["resnet50", None, 3, None, None]]
    assert found["about"] == ["a line below"]
    assert found["machine"]["components"] == {
        p.name: p.description for p in Board.detect(gpu=False).components.values()
    }
    assert {"command", "version", "commit", "date"} < found.keys()
    text = capsys.readouterr().out
    shown = [line.split() for line in text.splitlines()]
    assert ["squeezenet", "10.00", "1,500", "because"] in shown
    assert ["resnet50", "-", "3", "-"] in shown
    assert "a line below" in text and "never" not in text


def test_a_table_folds_at_80_columns():
    columns = [common.Column.parse(text) for text in ("network", *(f"engine {i} [ms] .3f" for i in range(20)))]
    lines = common.table(columns, [["squeezenet", *range(20)], ["a name of many words, " * 3, *range(20)]])
    assert max(map(len, lines)) <= common.WIDTH
    assert sum(line.startswith("squeezenet") for line in lines) == sum(line.startswith("network") for line in lines) > 1
    assert all(any(f"{i}.000" in line for line in lines) for i in range(20))


def test_an_error_ends_a_bench_in_one_line():
    with pytest.raises(SystemExit, match="expected something else"):
        with common.Record(argparse.Namespace(json=None), *COLUMNS):
            raise ArgumentError("expected something else")


def test_an_unknown_network_and_a_folder_without_models_are_named(tmp_path):
    with pytest.raises(SystemExit, match="network 'lenet': expected an .onnx file or one of alexnet"):
        common.network("lenet")
    with pytest.raises(SystemExit, match="expected models as .onnx files, got none"):
        common.models(tmp_path, None)
