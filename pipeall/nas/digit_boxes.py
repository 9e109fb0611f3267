"""Pictures of digits at random places and of random sizes, and the box of each: a data set to search detectors for."""

from __future__ import annotations

from functools import cache

import numpy as np

MOST = 4  # digits of a picture
SIDES = (14, 32)  # of a digit, in pixels: its longer one
NOISE = 12.0  # standard deviation of a pixel, of 255
CONTRAST = (90.0, 160.0)  # between the ink and what is behind it
PLACES = 20  # tries to place a digit where no other is

NO_BOX = (-1.0, 0.0, 0.0, 0.0, 0.0)


def draw(
    digits: np.ndarray, labels: np.ndarray, pictures: int, seed: int, side: int = 64
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of one to ``MOST`` digits that do not overlap; the same for the same arguments.

    digits  (samples, height, width), ink above 0; ``labels``: (samples,)

    Returns uint8 pictures (pictures, side, side), and float32 boxes (pictures, ``MOST``, 5): class, left, top, right
    and bottom in pixels. The edges are where the ink of a digit ends. The class is -1 where there is no box.
    """
    random = np.random.default_rng(seed)
    x = np.zeros((pictures, side, side), np.uint8)
    y = np.tile(np.array(NO_BOX, np.float32), (pictures, MOST, 1))
    for picture, boxes in zip(x, y, strict=True):
        scene = _background(side, random)
        count = 0
        for _ in range(random.integers(1, MOST + 1)):
            chosen = int(random.integers(len(digits)))
            ink = _sized(_inked(digits[chosen]), int(random.integers(SIDES[0], SIDES[1] + 1)))
            place = _place(ink.shape, side, boxes[:count, 1:], random)
            if place is None:
                continue
            top, left = place
            height, width = ink.shape
            scene[top : top + height, left : left + width] += ink * random.uniform(*CONTRAST)
            boxes[count] = labels[chosen], left, top, left + width, top + height
            count += 1
        picture[:] = np.clip(np.round(scene + NOISE * random.standard_normal(scene.shape)), 0, 255)
    return x, y


def _background(side: int, random: np.random.Generator) -> np.ndarray:
    """A slope of grey in a random direction."""
    low, right, down = random.uniform(0, 60), *random.uniform(-30, 30, 2)
    steps = np.linspace(-1, 1, side)
    return 30 + low + right * steps + down * steps[:, None]


def _inked(digit: np.ndarray) -> np.ndarray:
    """The part with ink, from 0 to 1."""
    rows, columns = np.flatnonzero(digit.any(1)), np.flatnonzero(digit.any(0))
    return digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / digit.max()


def _sized(ink: np.ndarray, longer: int) -> np.ndarray:
    """Bilinearly resized, the longer side to so many pixels."""
    scale = longer / max(ink.shape)
    rows, columns = (_line(size, max(1, round(scale * size))) for size in ink.shape)
    return rows @ ink @ columns.T


@cache
def _line(size: int, new: int) -> np.ndarray:
    """(new, size): what resizes a line."""
    places = (np.arange(new) + 0.5) * size / new - 0.5
    return np.stack([np.interp(places, np.arange(size), one) for one in np.eye(size)], 1)


def _place(shape: tuple[int, int], side: int, boxes: np.ndarray, random: np.random.Generator) -> tuple[int, int] | None:
    """Top and left of a rectangle that overlaps none of the boxes; None where no try found one."""
    for _ in range(PLACES):
        top, left = (int(random.integers(side - length + 1)) for length in shape)
        right, bottom = left + shape[1], top + shape[0]
        apart = (boxes[:, 0] >= right) | (boxes[:, 2] <= left) | (boxes[:, 1] >= bottom) | (boxes[:, 3] <= top)
        if apart.all():
            return top, left
    return None
