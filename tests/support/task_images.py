"""Photos as a task's network wants them, by Pillow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipeall.picture import Picture, Placed


def prepared(photo: Image.Image, picture: Picture, size: tuple[int, int], nchw: bool) -> tuple[np.ndarray, Placed]:
    """float32 (1, C, H, W) or (1, H, W, C), and where the photo lies in it."""
    placed = picture.placed((photo.height, photo.width), size)
    (top, left, h, w), (y, x, rows, columns) = placed.window, placed.inner
    inner = photo.resize((columns, rows), Image.Resampling.BILINEAR, (left, top, left + w, top + h))
    whole = Image.new("RGB", size[::-1], (picture.value,) * 3)
    whole.paste(inner, (x, y))
    if picture.channels == "GRAY":
        whole = whole.convert("L")
    levels = np.atleast_3d(np.asarray(whole, np.float32))
    levels = levels[..., ::-1] if picture.channels == "BGR" else levels
    factor, offset = picture.affine
    levels = (levels * factor + offset).astype(np.float32)
    return np.ascontiguousarray((levels.transpose(2, 0, 1) if nchw else levels)[None]), placed


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def by_the_letter(path: Path, settings: dict[str, Any]) -> np.ndarray:
    """models.json read by the letter: short side to ``resize``, centre crop, (x / scale - mean) / std, in float64."""
    image = Image.open(path).convert("RGB")
    w, h = image.size
    w, h = (
        (settings["resize"], h * settings["resize"] / w) if w < h else (w * settings["resize"] / h, settings["resize"])
    )
    image = image.resize((round(w), round(h)), Image.Resampling.BILINEAR)
    size = settings["size"]
    left, top = (image.width - size) // 2, (image.height - size) // 2
    x = np.asarray(image.crop((left, top, left + size, top + size)), np.float64)
    x = x[..., ::-1] if settings["order"] == "BGR" else x
    x = (x / settings["scale"] - settings["mean"]) / settings["std"]
    return x.transpose(2, 0, 1)[None].astype(np.float32)


def photos(data_dir, model):
    """Every photo preprocessed as models.json says, float32 (1, 3, size, size)."""
    from pipeall.media.images import inside

    how = json.loads((data_dir / "models" / "models.json").read_text())[f"{model}.onnx"]
    return [by_the_letter(path, how) for path in inside(data_dir / "photos", recursive=False)]
