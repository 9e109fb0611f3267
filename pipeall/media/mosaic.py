"""Several annotated pictures as one: tiles side by side, each with its title."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, sqrt

import numpy as np

from ..tasks import Answer
from .fonts import font
from .images import Image, ImageDraw

WIDTH, MOST_WIDTH = 640, 1920  # of a tile where there is room, and of all tiles of a row
LETTERS, BAR = 14, 20  # height of a title's letters, and of the bar that has them


def with_words(answer: Answer, words: Mapping[int, str]) -> Answer:
    """The answer with words behind the names of some of its boxes, or as some of its lines of text, by number."""
    boxes = tuple(replace(b, name=f"{b.name}: {words[i]}") if i in words else b for i, b in enumerate(answer.boxes))
    if answer.boxes:
        return replace(answer, boxes=boxes)
    return replace(answer, texts=tuple(replace(t, text=words.get(i, t.text)) for i, t in enumerate(answer.texts)))


class Mosaic:
    """Tiles in a grid as near to a square as can be, in the order of their titles.

    Pictures are shrunk to their tile when they come, and stay there until the next one.
    """

    def __init__(self, titles: tuple[str, ...]):
        self._columns = max(1, ceil(sqrt(len(titles))))
        rows = ceil(len(titles) / self._columns)
        self._side = min(WIDTH, MOST_WIDTH // self._columns)
        self._height = self._side * 9 // 16 + BAR
        self._places = {title: divmod(number, self._columns) for number, title in enumerate(titles)}
        whole = Image.new("RGB", (self._columns * self._side, rows * self._height))
        pen = ImageDraw.Draw(whole)
        for title, (row, column) in self._places.items():
            at = column * self._side + 4, row * self._height + 1
            pen.text(at, title, fill=(255, 255, 255), font=font(LETTERS, title))
        self._pixels = np.array(whole)

    def put(self, title: str, picture: np.ndarray) -> None:
        """Replaces the picture of a tile: uint8 (height, width, 3), in its proportions, black beside it."""
        row, column = self._places[title]
        top, left = row * self._height + BAR, column * self._side
        tile = self._pixels[top : top + self._height - BAR, left : left + self._side]
        height, width = picture.shape[:2]
        shrink = min(tile.shape[0] / height, tile.shape[1] / width)
        size = max(1, round(width * shrink)), max(1, round(height * shrink))
        reducing = 2.0 if shrink < 0.5 else None
        small = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, reducing_gap=reducing))
        y, x = (tile.shape[0] - size[1]) // 2, (tile.shape[1] - size[0]) // 2
        tile[...] = 0
        tile[y : y + size[1], x : x + size[0]] = small

    @property
    def pixels(self) -> np.ndarray:
        """uint8 (height, width, 3): all tiles, which the next ``put`` changes."""
        return self._pixels
