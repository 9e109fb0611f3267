"""Videos of known content."""

from pathlib import Path

import numpy as np
import pytest


def grey_clip(path: Path, fps: float) -> Path:
    """Writes twenty frames, each of one grey. Skips the test where nothing can write videos."""
    pytest.importorskip("av", reason="needs pipeall[video]")
    from pipeall.media import video

    with video.Writer(path) as writer:
        for number in range(20):
            writer.add(np.full((64, 96, 3), 10 + 12 * number, np.uint8), number / fps)
    return path
