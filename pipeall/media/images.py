"""Photos: found in folders, read as they are to be seen, written. The only file that imports Pillow."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from io import BytesIO
from math import inf
from pathlib import Path

import numpy as np

from ..errors import ArgumentError, missing_extra
from ..files import write_whole
from ..picture import MAX_SIDE

try:
    from PIL import Image, ImageDraw, ImageFont, ImageOps
except ImportError as error:
    raise missing_extra("pillow", "cli", "reading, drawing and writing pictures") from error

__all__ = ["Image", "ImageDraw", "ImageFont"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")  # looked for in folders
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)  # what Pillow raises
DECODING_BYTES = 14  # of a pixel: as it is decoded, as RGB, and twice as an array
warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ``read`` looks at sizes and memory
QUALITY = 90  # of JPEG


def read(path: Path) -> np.ndarray:
    """The photo as uint8 (height, width, 3), RGB, turned as its EXIF says; ArgumentError if it cannot be read."""
    try:
        with Image.open(path) as file:
            if max(file.size) > MAX_SIDE:
                raise ArgumentError(f"image {path}: expected sides up to {MAX_SIDE}, got {_size(file)}")
            if file.mode.startswith(("F", "I")):  # Pillow would clip these to 255
                raise ArgumentError(f"image {path}: expected 8 bits per channel, got mode {file.mode}")
            return _pixels(file)
    except MemoryError:
        raise ArgumentError(f"image {path}: no memory for {_size(file)} pixels") from None
    except ArgumentError:
        raise
    except BROKEN as error:
        raise ArgumentError(f"image {path}: expected a picture, got {error}") from error


def _pixels(image: Image.Image) -> np.ndarray:
    """RGB, turned. Raises MemoryError, before anything is decoded where the system has no room."""
    if DECODING_BYTES * image.width * image.height > free_bytes():
        raise MemoryError
    ImageOps.exif_transpose(image, in_place=True)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def free_bytes() -> float:
    """What the system can give; infinite where it does not say."""
    try:
        match = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        match = None
    return int(match[1]) * 1024 if match else inf


def _size(image: Image.Image) -> str:
    return f"{image.width} x {image.height}"


def inside(folder: Path, recursive: bool) -> Iterator[Path]:
    """The pictures of a folder in alphabetical order; with ``recursive`` also those of the folders in it."""
    for path in sorted(folder.rglob("*") if recursive else folder.iterdir()):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            yield path


def square(picture: np.ndarray, side: int) -> np.ndarray:
    """uint8 (side, side, 3): scaled so that it fills the square, and cut on both sides where it stands over."""
    return np.asarray(ImageOps.fit(Image.fromarray(picture), (side, side)))


def save(picture: np.ndarray, path: Path) -> None:
    """Writes uint8 (height, width, 3) as the suffix says, .png or .jpg. Raises ArgumentError where that cannot be.

    Pillow itself does not notice when a disk takes a part only.
    """
    content = png(picture) if path.suffix == ".png" else jpeg(picture)
    write_whole(path, lambda file: file.write(content))


def png(picture: np.ndarray) -> bytes:
    """uint8 (height, width, 3) as the bytes of a PNG file."""
    file = BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def jpeg(picture: np.ndarray, quality: int = QUALITY) -> bytes:
    """uint8 (height, width, 3) as the bytes of a JPEG file."""
    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return file.getvalue()
