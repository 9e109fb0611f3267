"""Two small networks that follow each other: one that sees things in any picture, one that says what a thing is."""

from pathlib import Path

import numpy as np
from docs_pages import FILES


def detector(folder: Path) -> Path:
    """A YOLOX of COCO's classes for 96 x 96; it sees some ninety things in noise."""
    return _made(folder / "yolox_nano.onnx")


def classifier(folder: Path) -> Path:
    """Of six classes, for 32 x 32."""
    return _made(folder / "species.onnx")


def _made(path: Path) -> Path:
    FILES[path.name](path)
    return path


def photos(count: int, size: tuple[int, int] = (120, 160)) -> list[np.ndarray]:
    """Noise, each other."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), np.uint8) for _ in range(count)]
