"""Several pictures as one, and what a chain says written at the boxes."""

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs pipeall[cli]")

from pipeall.media.mosaic import BAR, Mosaic, with_words
from pipeall.tasks import Answer, Box, Text


def flat(colour, height, width):
    return np.full((height, width, 3), colour, np.uint8)


def test_each_picture_has_its_tile():
    """In its proportions, in the middle of the tile, black beside it; the others stay."""
    mosaic = Mosaic(("a", "b", "c"))
    assert mosaic.pixels.shape == (2 * (360 + BAR), 1280, 3)
    mosaic.put("a", flat((200, 0, 0), 36, 64))
    mosaic.put("b", flat((0, 200, 0), 1000, 1000))
    mosaic.put("c", flat((0, 0, 200), 10, 640))
    tiles = [mosaic.pixels[y + BAR : y + BAR + 360, x : x + 640] for y, x in ((0, 0), (0, 640), (360 + BAR, 0))]
    a, b, c = ((tile == np.max(tile, axis=(0, 1))).all(-1) for tile in tiles)
    assert a.all() and b[:, 140:500].all() and not b[:, :140].any() and not b[:, 500:].any()
    assert c[175:185].all() and not c[:175].any() and not c[185:].any()
    mosaic.put("b", flat((0, 100, 0), 360, 640))
    assert (tiles[1] == (0, 100, 0)).all() and (tiles[0] == (200, 0, 0)).all()


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9, 16])
def test_tiles_fit_a_screen(count):
    height, width = Mosaic(tuple(map(str, range(count)))).pixels.shape[:2]
    assert width <= 1920 and height <= 1560


def test_words_at_boxes():
    boxes = tuple(Box(0, 0, 9, 9, 0.9, 0, name) for name in ("bird", "cat"))
    answer = with_words(Answer("detect", (9, 9), boxes=boxes), {0: "robin"})
    assert [box.name for box in answer.boxes] == ["bird: robin", "cat"]
    lines = tuple(Text("", 0.9, ((0, 0), (9, 0), (9, 9), (0, 9))) for _ in range(2))
    assert [line.text for line in with_words(Answer("text", (9, 9), texts=lines), {1: "EXIT"}).texts] == ["", "EXIT"]
