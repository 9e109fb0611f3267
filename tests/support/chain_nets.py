"""Two small networks that follow each other: one that sees things in any picture, one that says what a thing is."""

from pathlib import Path

import numpy as np
from docs_pages import FILES
from graphs import Net

import pipeall


def detector(folder: Path) -> Path:
    """A YOLOX of COCO's classes for 96 x 96; it sees some ninety things in noise."""
    path = folder / "yolox_nano.onnx"
    FILES[path.name](path)
    return path


def classifier(folder: Path, classes: int = 6, layers: int = 1) -> Path:
    """Of 32 x 32; with more layers slower."""
    net = Net((1, 3, 32, 32))
    x = "x0"
    for _ in range(layers):
        x = net.conv(x, 24, k=3)
    scores = net.op("softmax", net.fc(net.global_pool(x), classes), axis=1)
    path = folder / "species.onnx"
    pipeall.save_onnx(net.graph(scores, name="species"), path)
    return path


def photos(count: int, size: tuple[int, int] = (120, 160)) -> list[np.ndarray]:
    """Noise, each other."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), np.uint8) for _ in range(count)]
