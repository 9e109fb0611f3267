"""More pictures out of few: parts of them, mirrored or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST = 0.6  # of both sides


def crops(pictures: Sequence[np.ndarray], count: int, seed: int = 0) -> list[np.ndarray]:
    """So many parts, each picture in its turn: uint8 (height, width, 3)."""
    random, made = np.random.default_rng(seed), []
    for index in range(count):
        picture = pictures[index % len(pictures)]
        height, width = (max(1, round(side * random.uniform(LEAST, 1))) for side in picture.shape[:2])
        top, left = (
            random.integers(0, side - part + 1) for side, part in zip(picture.shape, (height, width), strict=False)
        )
        part = picture[top : top + height, left : left + width]
        made.append(np.ascontiguousarray(part[:, ::-1] if random.random() < 0.5 else part))
    return made
