"""Samples made of a folder of pictures: each folder in it is a class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...errors import ArgumentError

LEAST_CLASSES = 2


def picture_samples(folder: str, side: int) -> dict[str, np.ndarray]:
    """x (pictures, 3, side, side) uint8, RGB, and y (pictures,) int64: the folder's number in alphabetical order.

    Raises ArgumentError naming the folder, or a picture that cannot be read.
    """
    from ...media.images import inside, read, square

    classes = sorted(path for path in Path(folder).iterdir() if path.is_dir()) if Path(folder).is_dir() else []
    found = [(path, label) for label, kind in enumerate(classes) for path in inside(kind, recursive=True)]
    if len({label for _, label in found}) < max(LEAST_CLASSES, len(classes)):
        raise ArgumentError(
            f"--pictures: expected a folder with at least {LEAST_CLASSES} folders, each with pictures of its class; "
            f"got {folder}"
        )
    x = np.stack([square(read(path), side).transpose(2, 0, 1) for path, _ in found])
    return {"x": x, "y": np.array([label for _, label in found])}
