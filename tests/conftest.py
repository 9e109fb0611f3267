"""Shared fixtures: where the test data lies."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of trained models, photos and published outputs; tests that need it skip where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PIPEALL_TEST_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set PIPEALL_TEST_DATA to the folder with models/ and photos/")
    return folder
