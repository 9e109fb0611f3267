"""The board every benchmark runs on: the CPU clusters of this machine."""

import pytest

from pipeall import Board


@pytest.fixture(scope="session")
def board() -> Board:
    return Board.detect(gpu=False)
