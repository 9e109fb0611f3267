"""Layers and frames are timed for a moment: the figures of these tests depend on no time."""

import pytest

from pipeall.quantization import sensitivity


@pytest.fixture(scope="session", autouse=True)
def moments():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sensitivity, "SECONDS", 0.01)
        yield
