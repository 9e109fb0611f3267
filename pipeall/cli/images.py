"""Photos: found in folders, read as they are to be seen, written. With draw.py the only file that imports Pillow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ..errors import ArgumentError
from ..files import write_whole
from ..picture import MAX_SIDE

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")  # looked for in folders
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)  # what Pillow raises
QUALITY = 90  # of JPEG


def read(path: Path) -> np.ndarray:
    """The photo as uint8 (height, width, 3), RGB, turned as its EXIF says; ArgumentError if it cannot be read."""
    try:
        with Image.open(path) as file:
            image = ImageOps.exif_transpose(file)
            deep = image.mode.startswith(("F", "I"))  # Pillow would clip these to 255
            pixels = None if deep else np.asarray(image.convert("RGB"))
    except BROKEN as error:
        raise ArgumentError(f"image {path}: expected a picture, got {error}") from error
    if pixels is None:
        raise ArgumentError(f"image {path}: expected 8 bits per channel, got mode {image.mode}")
    if max(pixels.shape) > MAX_SIDE:
        raise ArgumentError(f"image {path}: expected sides up to {MAX_SIDE}, got {image.width} x {image.height}")
    return pixels


def inside(folder: Path, recursive: bool) -> Iterator[Path]:
    """The pictures of a folder in alphabetical order; with ``recursive`` also those of the folders in it."""
    for path in sorted(folder.rglob("*") if recursive else folder.iterdir()):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            yield path


def save(picture: np.ndarray, path: Path) -> None:
    """Writes uint8 (height, width, 3) as the suffix says, .png or .jpg. Raises ArgumentError where that cannot be."""
    kind, options = ("PNG", {}) if path.suffix == ".png" else ("JPEG", {"quality": QUALITY})
    write_whole(path, lambda file: Image.fromarray(picture).save(file, kind, **options))


def jpeg(picture: np.ndarray, quality: int = QUALITY) -> bytes:
    """uint8 (height, width, 3) as the bytes of a JPEG file."""
    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return file.getvalue()
