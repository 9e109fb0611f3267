"""What is cut out of a detector's pictures, what is dropped, and that nothing is lost or left behind."""

import threading
import time

import numpy as np
import pytest

from pipeall import ArgumentError, Crops
from pipeall.pipeline.live import LiveResult
from pipeall.tasks import Answer, Box, Text

SIZE = (60, 80)


def box(left, top, right, bottom, name="cat", score=0.9):
    return Box(left, top, right, bottom, score, 0, name)


def seen(*parts, number=0, frame=None):
    """A result with boxes or lines of text; each pixel of its picture says where it is."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    frame = np.stack([x, y, np.full_like(x, number)], 2).astype(np.uint8) if frame is None else frame
    boxes = tuple(part for part in parts if isinstance(part, Box))
    texts = tuple(part for part in parts if isinstance(part, Text))
    return LiveResult(number, frame, Answer("detect", SIZE, boxes=boxes, texts=texts), None, 0, 0)


def cut(*parts, **options):
    """The crops of one picture."""
    crops = Crops(**options)
    crops.add(seen(*parts))
    crops.close()
    return list(crops)


def spans(crops):
    """Of each: first and last x, then y, by its pixels."""
    return [(c.pixels[0, 0, 0], c.pixels[0, -1, 0], c.pixels[0, 0, 1], c.pixels[-1, 0, 1]) for c in crops]


def test_what_is_cut_out():
    """Whole pixels that a part touches; outside of the picture there is nothing."""
    crops = cut(box(10.2, 5.0, 19.5, 30.0), box(70, 50, 99, 70), box(-20, -9, 6, 3))
    assert spans(crops) == [(10, 19, 5, 29), (70, 79, 50, 59), (0, 5, 0, 2)]
    assert [c.area for c in crops] == [(10, 5, 20, 30), (70, 50, 80, 60), (0, 0, 6, 3)]
    assert [(c.number, c.last, c.part.left) for c in crops] == [(0, False, 10.2), (1, False, 70), (2, True, -20)]
    assert np.asarray(crops[0]).shape == crops[0].rgb.shape == (25, 10, 3)
    assert np.shares_memory(crops[0].pixels, crops[0].origin.frame)


def test_a_margin_is_a_share_of_each_side():
    assert spans(cut(box(20, 10, 40, 50), margin=0.1)) == [(18, 41, 6, 53)]
    assert spans(cut(box(2, 10, 22, 50), margin=0.5)) == [(0, 31, 0, 59)]


def test_which_are_cut_out():
    parts = box(0, 0, 9, 9), box(0, 0, 30, 30, "dog"), box(0, 0, 20, 20), box(70, 0, 99, 50), box(0, 0, np.nan, 9)
    assert [c.number for c in cut(*parts)] == [0, 1, 2, 3]
    assert [c.number for c in cut(*parts, min_size=10)] == [1, 2, 3]
    assert [c.number for c in cut(*parts, min_size=11)] == [1, 2]  # of the one at the edge 10 pixels are in the picture
    assert [(c.number, c.last) for c in cut(*parts, labels=["cat"], at_most=2)] == [(0, False), (2, True)]
    assert cut(*parts, labels=["bird"]) == []


def test_lines_of_text_are_cut_out_upright():
    """Corners of pixels are whole: the middle of the first pixel of a level line is half a pixel within."""
    level = Text("", 0.8, ((10, 20), (50, 20), (50, 30), (10, 30)))
    (crop,) = cut(level)
    assert spans([crop]) == [(10, 49, 20, 29)] and crop.part is level and crop.area == (10, 20, 50, 30)
    (crop,) = cut(level, margin=0.1)
    assert spans([crop]) == [(6, 53, 19, 30)] and crop.area == (6, 19, 54, 31)
    tilted = Text("", 0.8, ((20, 10), (50, 50), (42, 56), (12, 16)))  # 50 long and 10 high
    (crop,) = cut(tilted)
    assert crop.pixels.shape == (10, 50, 3) and crop.area == (12, 10, 50, 56)
    first, last = crop.pixels[5, 0, :2].astype(int), crop.pixels[5, -1, :2].astype(int)
    assert abs(first - (15.9, 12.9)).max() <= 1 and abs(last - (45.9, 52.9)).max() <= 1
    assert cut(Text("read already", 0.8)) == cut(Text("", 0.8, ((0, 0), (9, 0), (9, np.nan), (0, 9)))) == []


def taken(crops, count):
    """So many crops, of which the rest is left."""
    it = iter(crops)
    return it, [next(it) for _ in range(count)]


def test_a_picture_that_waits_gives_way_to_the_next():
    """The one that was begun is gone through; of those behind it the newest comes."""
    crops = Crops()
    for number in range(2):
        crops.add(seen(box(0, 0, 9, 9), box(0, 0, 8, 8), number=number))
    it, first = taken(crops, 1)
    assert (first[0].origin.number, crops.dropped) == (1, 2)
    for number in range(2, 5):
        crops.add(seen(*[box(0, 0, 9, 9)] * number, number=number))
    crops.add(seen(number=5))  # has none, and drops none
    crops.close()
    assert [(c.origin.number, c.number) for c in it] == [(1, 1), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert crops.dropped == 2 + 2 + 3 and crops.cut == 2 + 2 + 2 + 3 + 4
    assert repr(crops) == "<Crops: 13 cut out, 7 dropped>"


def test_a_detector_waits_where_none_is_dropped():
    crops, added = Crops(drop="none"), []

    def add():
        for number in range(6):
            crops.add(seen(box(0, 0, 9, 9), number=number))
            added.append(number)
        crops.close()

    thread = threading.Thread(target=add)
    thread.start()
    it, got = taken(crops, 1)
    time.sleep(0.1)
    assert len(added) <= 2  # the one that was taken, and one that waits
    got += list(it)
    thread.join()
    assert [c.origin.number for c in got] == [0, 1, 2, 3, 4, 5] and crops.dropped == 0


def test_closing_frees_both_sides():
    crops = Crops(drop="none")
    crops.add(seen(box(0, 0, 9, 9)))
    thread = threading.Thread(target=crops.add, args=[seen(box(0, 0, 9, 9), number=1)])
    thread.start()
    crops.close()
    thread.join(5)
    assert not thread.is_alive() and [c.origin.number for c in crops] == [0]
    assert crops.add(seen(box(0, 0, 9, 9))) == 0 and list(crops) == []


def test_an_end_and_an_error_on_the_way_end_the_crops():
    def broken():
        yield seen(box(0, 0, 9, 9))
        raise RuntimeError("the lens fell off")

    crops = Crops()
    stream = crops.of(broken())
    assert next(stream).number == 0
    with pytest.raises(RuntimeError, match="lens"):
        next(stream)
    assert [c.number for c in crops] == [0]
    crops = Crops()
    assert list(crops.of([])) == list(crops) == []
    crops = Crops()
    crops.of([seen()]).close()
    assert list(crops) == []


def test_a_picture_in_a_picture():
    """A crop is a frame as any other."""
    (crop,) = cut(box(20, 10, 60, 50))
    inner = Answer("detect", (40, 40), boxes=(box(5, 5, 15, 25),))
    crops = Crops()
    crops.add(LiveResult(0, crop, inner, None, 0, 0))
    crops.close()
    (within,) = crops
    assert spans([within]) == [(25, 34, 15, 34)]
    assert crop.root is within.root is crop.origin and (crop.path, within.path) == ((0,), (0, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "cat"}, "labels: expected a list of names, got 'cat'"),
        ({"margin": -0.1}, "margin: expected a number from 0 to 10, got -0.1"),
        ({"min_size": 0}, "min_size: expected a whole number of at least 1, got 0"),
        ({"at_most": 1.5}, "at_most: expected a whole number of at least 1, got 1.5"),
        ({"drop": "newest"}, "drop: expected one of oldest, none, got 'newest'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ArgumentError, match=f"^{message}$"):
        Crops(**options)


def test_what_cannot_be_cut():
    part = box(0, 0, 9, 9)
    with pytest.raises(ArgumentError, match=r"^result: expected the answer of a task, with its boxes, got array"):
        Crops().add(LiveResult(0, None, np.zeros(3), None, 0, 0))
    with pytest.raises(ArgumentError, match=r"^frame: expected RGB as uint8 \(H, W, 3\), .* got float32"):
        Crops().add(seen(part, frame=np.zeros((*SIZE, 3), np.float32)))
    with pytest.raises(ArgumentError, match=r"^frame: expected the picture of its answer, \(60, 80\), got \(9, 9\)"):
        Crops().add(seen(part, frame=np.zeros((9, 9, 3), np.uint8)))
