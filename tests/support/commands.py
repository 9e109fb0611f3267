"""Runs a command in this process, for the tests of the command line."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs pipeall[cli]")
pytest.importorskip("PIL", reason="needs pipeall[cli]")

from click.testing import CliRunner, Result
from graphs import Net
from PIL import Image

from pipeall import Board, Graph, Profile
from pipeall.cli import output
from pipeall.cli.app import app
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.measured import Measured
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.planning.profile import UnitTimes, crossing_bytes

output.EVERY_S = 3600.0  # on a slow machine, lines of progress would stand among those that are looked at

BOARD = Board.detect(gpu=False)
COLOUR = (10, 20, 30)
two_clusters = pytest.mark.skipif(len(BOARD.components) < 2, reason="needs two clusters, this machine has one core")


def invoke(*arguments: object) -> Result:
    """What the command gave; an exception that it does not report as an error is raised here."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def document(*arguments: object) -> dict:
    """The JSON a command prints, which is all it prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def ran(*arguments: object) -> tuple[list[dict], dict]:
    """What ``pipeall run --json`` prints: the lines of its answers, and the last one, with the figures."""
    result = invoke("run", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return lines_of(result)


def lines_of(result: Result) -> tuple[list[dict], dict]:
    *answers, figures = map(json.loads, result.stdout.splitlines())
    assert {answer["format"] for answer in answers} <= {"pipeall.answer/1"} and figures["format"] == "pipeall.run/1"
    return answers, figures


def picture(folder: Path) -> Path:
    """A picture of one colour, wider than high."""
    path = folder / "plain.png"
    Image.new("RGB", (320, 240), COLOUR).save(path)
    return path


@contextmanager
def small_disk(size: int = 300) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk refuses, this does; also of what pytest prints, ahead of
    the end of a fixture."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def quick_net() -> Graph:
    """Four groups, under a millisecond a frame: enough for two lanes to share the frames of a short run."""
    net = Net((1, 16, 32, 32))
    x = net.conv("x0", 32, k=3)
    x = net.conv(x, 32)
    x = net.conv(x, 32, k=3)
    return net.graph(net.conv(x, 16), name="quick")


def toy_board(path: Path, scale: float = 1.0) -> Path:
    """Writes a board model on which ``quick_net`` is measured: ms of its four groups, on big and on little."""
    graph = quick_net()
    units = {
        unit: UnitTimes(tuple(scale * value for value in ms), (0.0,) * 4, (watts,) * 4)
        for unit, ms, watts in (("big", (4.0, 1.0, 3.0, 2.0), 5.0), ("little", (9.0, 2.0, 7.0, 3.0), 3.0))
    }
    names = tuple(group.name for group in graph.groups)
    profile = Profile(graph.name, names, crossing_bytes(graph), units, about={"source": "made up"})
    parts = {"big": Modelled("Cortex-A73", 4, 2208.0), "little": Modelled("Cortex-A53", 2)}
    contention = {"big": {"little": 1.1}, "little": {"big": 1.2}}
    networks = [(graph, Measured.of(graph, profile))]
    BoardModel.fit("toy", parts, networks, contention=contention, idle_w=2.0).save(path)
    return path
