"""Photos as a classifier wants them: decoded, resized, cropped, normalised. The only file that imports Pillow."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ..errors import ArgumentError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")  # looked for in folders
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)  # what Pillow raises


@dataclass(frozen=True, slots=True)
class Preprocess:
    """Short side to ``resize`` (bilinear), centre crop to ``size`` (height, width), then (x / scale - mean) / std.

    x is 0 to 255; ``channels`` is RGB or BGR, the order that ``mean`` and ``std`` are in too, or L: brightness alone.
    """

    size: tuple[int, int]
    resize: int
    channels: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, path: Path) -> np.ndarray:
        """The image as float32 (1, channels, height, width); ArgumentError if it cannot be read or is too narrow."""
        try:
            with Image.open(path) as file:
                image = ImageOps.exif_transpose(file)
                deep = image.mode.startswith(("F", "I"))  # Pillow would clip these to 255
                image = image if deep else image.convert("L" if self.channels == "L" else "RGB")
        except BROKEN as error:
            raise ArgumentError(f"image {path}: expected a picture, got {error}") from error
        if deep:
            raise ArgumentError(f"image {path}: expected 8 bits per channel, got mode {image.mode}")
        factor = self.resize / min(image.size)
        width, height = (max(self.resize, round(side * factor)) for side in image.size)
        left, top = (width - self.size[1]) // 2, (height - self.size[0]) // 2
        if left < 0 or top < 0:
            raise ArgumentError(
                f"image {path}: {width} x {height} resized, {self.size[1]} x {self.size[0]} needed; "
                "use --preprocess with resize"
            )
        # The crop in pixels of the picture, so that only it is computed: a long strip resized whole takes gigabytes.
        box = (
            left * image.width / width,
            top * image.height / height,
            (left + self.size[1]) * image.width / width,
            (top + self.size[0]) * image.height / height,
        )
        pixels = np.asarray(image.resize(self.size[::-1], Image.Resampling.BILINEAR, box), np.float32)
        pixels = np.atleast_3d(pixels)[..., :: -1 if self.channels == "BGR" else 1]
        values = (pixels / np.float32(self.scale) - np.float32(self.mean)) / np.float32(self.std)
        return np.ascontiguousarray(values.transpose(2, 0, 1)[np.newaxis])


# channels, scale, mean, std
PRESETS = {
    "imagenet": ("RGB", 255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "caffe": ("BGR", 1.0, (104.0, 117.0, 123.0), (1.0, 1.0, 1.0)),
    "plain": ("RGB", 255.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "tf": ("RGB", 1.0, (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
}


def preprocessing(
    input_shape: tuple[int, ...],
    preset: str,
    resize: int | None = None,
    channels: str | None = None,
    scale: float | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Preprocess:
    """A preset for a model's input (1, 3, H, W), with what is given replaced; resize is 256/224 of the larger side.

    A model of one channel, (1, 1, H, W), gets the brightness, and the mean of a preset's three means and of its stds.
    Raises ArgumentError where the input is no picture or a number is out of range.
    """
    if len(input_shape) != 4 or input_shape[1] not in (1, 3):
        raise ArgumentError(f"model input: expected a picture (1, 3 or 1, height, width), got {input_shape}")
    size = input_shape[2:]
    given, own = (channels, scale, mean, std), PRESETS[preset]
    if input_shape[1] == 1:
        own = ("L", own[1], *((sum(values) / 3,) for values in own[2:]))
    channels, scale, mean, std = (own if new is None else new for new, own in zip(given, own, strict=True))
    resize = round(max(size) * 256 / 224) if resize is None else resize
    if (channels == "L") != (input_shape[1] == 1):
        raise ArgumentError(f"--preprocess channels: expected none for a model of one channel, got {channels}")
    if len(mean) != input_shape[1] or len(std) != input_shape[1]:
        count = "three numbers" if input_shape[1] == 3 else "one number"
        raise ArgumentError(f"--preprocess mean and std: expected {count} each, got {mean} and {std}")
    if not np.isfinite([scale, *mean, *std]).all() or scale == 0 or 0 in std:
        raise ArgumentError(
            f"--preprocess scale, mean, std: expected finite, no zero divisor, got {scale}, {mean}, {std}"
        )
    if resize < min(size):
        raise ArgumentError(f"--preprocess resize: expected at least {min(size)}, the model's input, got {resize}")
    return Preprocess(size, resize, channels, scale, mean, std)


def find_images(paths: Iterable[str]) -> list[Path]:
    """The given files, and the pictures of the given folders in alphabetical order; ArgumentError where none is."""
    found = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
            if not inside:
                raise ArgumentError(f"folder {path}: expected pictures ({' '.join(SUFFIXES)}), got none")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise ArgumentError(f"image {path}: expected a file or a folder, found none")
    return found
