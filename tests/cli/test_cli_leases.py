"""``--cores``: what commands do where another pipeline has the cores."""

import json

import pytest
from commands import document, invoke, picture, two_clusters

from pipeall import Board, Engine, zoo

pytestmark = [two_clusters, pytest.mark.usefixtures("tiny")]
QUICK = ("--seconds", "0.01")


@pytest.fixture(autouse=True)
def held(tmp_path, monkeypatch):
    """Another pipeline has the first component."""
    monkeypatch.setenv("PIPEALL_LEASES", str(tmp_path / "leases"))
    with Engine(zoo.squeezenet(), "big", Board.detect(gpu=False)):
        yield r"big (core 0) is held by another pipeline of this process (squeezenet on big)"


def test_run(tmp_path, held):
    words = "run", "squeezenet", picture(tmp_path), "--task", "classify", "--plan", "big", "--json"
    with pytest.warns(RuntimeWarning) as told:
        assert invoke(*words).exit_code == 0
    assert [str(row.message).partition(": ")[0] for row in told] == [held]
    refused = f"cores: expected those that nobody holds; {held}; share"
    for cores, error in (("refuse", refused), ("free", "no component 'big'")):
        result = invoke(*words, "--cores", cores)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {error}") and result.stderr.count("\n") == 1
    result = invoke(*(word for word in words if word not in ("--plan", "big")), "--cores", "free")
    assert json.loads(result.stdout.splitlines()[-1])["plan"] == "little"


@pytest.mark.parametrize("command", ["profile", "bench"])
def test_what_is_measured_says_so_or_is_not_measured(command, held):
    with pytest.warns(RuntimeWarning) as told:
        document(command, "tiny", *QUICK)
    assert [str(row.message) for row in told] == [f"{held}: what is measured now is the figure of both"]
    result = invoke(command, "tiny", *QUICK, "--cores", "refuse")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: cores: expected those that nobody holds; {held}; share runs beside it\n"
