"""Runs a command in this process, for the tests of the command line."""

import json
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs pipeall[cli]")
pytest.importorskip("PIL", reason="needs pipeall[cli]")

from click.testing import CliRunner, Result
from PIL import Image

from pipeall import Board
from pipeall.cli.app import app

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


def picture(folder: Path) -> Path:
    """A picture of one colour, wider than high."""
    path = folder / "plain.png"
    Image.new("RGB", (320, 240), COLOUR).save(path)
    return path
