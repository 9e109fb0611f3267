"""The board that networks run on: this machine, or the emulated ``--board``."""

import pytest

from pipeall import Board


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--board", help="run networks at the pace of this board: a311d, rk3399pro or a .json file")
    parser.addoption("--time-scale", type=float, default=1.0, help="with --board: so many times as slow")


@pytest.fixture(scope="session")
def where(request: pytest.FixtureRequest) -> tuple[Board, dict]:
    """The board that networks run on, and the options of Pipeline that it needs."""
    name, time_scale = request.config.getoption("--board"), request.config.getoption("--time-scale")
    if name is None:
        return Board.detect(), {}
    return Board.load(name), {"time_scale": time_scale}
