"""What a detector has seen, cut out of its pictures: a source of pictures for the network that comes next."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, isfinite, nan
from typing import Any

import numpy as np

from ..arguments import a, checked, number, one_of, optional, several, text, whole
from ..errors import ArgumentError
from ..picture import MAX_SIDE, frame_of
from ..pipeline.live import DROPS, LiveResult
from ..tasks import Answer, Box, Text, cut_out

MOST_MARGIN = 10.0
Area = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Crop:
    """A part of a picture. NumPy takes it for its pixels.

    pixels  uint8 (height, width, 3): of a box those of the picture itself, not a copy; of a line of text upright, as
            ``tasks.cut_out`` turns it
    origin  what came of the picture: ``origin.frame`` is the picture, ``origin.result`` the answer
    part    the box, or the line of text, of that answer
    number  of the part in ``boxes``, or in ``texts``, from 0
    area    left, top, right and bottom of what it spans in the picture, in whole pixels
    last    whether no other part of the picture follows
    """

    pixels: np.ndarray
    origin: LiveResult
    part: Box | Text
    number: int
    area: Area
    last: bool

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.pixels.__array_interface__

    @property
    def rgb(self) -> np.ndarray:
        """The pixels."""
        return self.pixels

    @property
    def root(self) -> LiveResult:
        """What came of the picture of the source: ``origin``, unless that was cut out itself."""
        return self.origin.frame.root if isinstance(self.origin.frame, Crop) else self.origin

    @property
    def path(self) -> tuple[int, ...]:
        """The number of the part in each answer on the way from the source: of a crop of its pictures one."""
        before = self.origin.frame.path if isinstance(self.origin.frame, Crop) else ()
        return (*before, self.number)


class Crops:
    """The boxes of a detector's answers, and its lines of text, one ``Crop`` after the other: a source for ``stream``.

    One thread adds answers while another goes through the crops. At most two pictures are held: the one whose parts
    are being taken, and one that waits.

    Parameters
    ----------
    labels : list of str, optional
        Names of the boxes that are cut out; default all.
    margin : float
        What is added on each side, as a share of the box's width and height.
    min_size : int
        Least width and height of the part of a box that is within its picture, in pixels. Others are left out.
    at_most : int, optional
        Parts of one picture, the surest first.
    drop : str
        Where the next network is slower. ``oldest``: the parts of a picture that waits are dropped when those of the
        next are there, and counted; a picture whose first part has been taken is gone through to its end. ``none``:
        ``add`` waits, and so does whoever calls it.

    Raises
    ------
    ArgumentError
        For a bad argument.
    """

    @checked(
        labels=optional(several(text, "a list of names")),
        margin=number(0, MOST_MARGIN),
        min_size=whole(1),
        at_most=optional(whole(1)),
        drop=one_of(*DROPS),
    )
    def __init__(
        self,
        labels: Iterable[str] | None = None,
        margin: float = 0.0,
        min_size: int = 1,
        at_most: int | None = None,
        drop: str = "oldest",
    ):
        self.cut = self.dropped = 0  # parts of all pictures, and those of them that nobody took
        self._labels, self._margin, self._min_size, self._at_most = labels, margin, min_size, at_most
        self._waits = drop == "none"
        self._changed = threading.Condition()
        self._waiting: list[Crop] = []  # of one picture
        self._closed = False

    def __repr__(self) -> str:
        return f"<Crops: {self.cut} cut out, {self.dropped} dropped>"

    def add(self, seen: LiveResult) -> int:
        """Cuts out the parts of a picture; how many. After ``close`` none.

        Raises ArgumentError where the result is no ``Answer`` or the frame no picture, uint8 (height, width, 3).
        """
        crops = self._crops(seen)
        with self._changed:
            while self._waits and self._waiting and crops and not self._closed:
                self._changed.wait()
            if not crops or self._closed:
                return 0
            self.dropped += len(self._waiting)
            self.cut += len(crops)
            self._waiting = crops
            self._changed.notify_all()
        return len(crops)

    def of(self, stream: Iterable[LiveResult]) -> CutStream:
        """The results of a detector's ``stream`` as they come, each after its parts were added; closed after the last.

        Its ``close`` ends the stream too.
        """
        return CutStream(self, stream)

    def close(self) -> None:
        """No picture follows. The parts that wait still come. Any thread may call it, also twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Crop]:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                crops, self._waiting = self._waiting, []
                self._changed.notify_all()
            yield from crops

    def _crops(self, seen: LiveResult) -> list[Crop]:
        answer = a(Answer, "the answer of a task, with its boxes")("result", seen.result)
        areas = [
            (number, part, area)
            for number, part in enumerate(answer.boxes or answer.texts)
            if self._labels is None or (isinstance(part, Box) and part.name in self._labels)
            if (area := self._area(part, answer.size))
        ][: self._at_most]
        if not areas:
            return []
        picture, size = frame_of(getattr(seen.frame, "rgb", seen.frame), "RGB")
        if size != answer.size:
            raise ArgumentError(f"frame: expected the picture of its answer, {answer.size}, got {size}")
        return [
            Crop(self._pixels(picture, part, area), seen, part, number, area, place == len(areas))
            for place, (number, part, area) in enumerate(areas, 1)
        ]

    def _pixels(self, picture: np.ndarray, part: Box | Text, area: Area) -> np.ndarray:
        if isinstance(part, Box):
            left, top, right, bottom = area
            return picture[top:bottom, left:right]
        corners = np.array(part.corners)
        wider = corners + 2 * self._margin * (corners - corners.mean(0))
        return np.ascontiguousarray(cut_out(picture, np.clip(wider, -MAX_SIDE, MAX_SIDE)))

    def _area(self, part: Box | Text, size: tuple[int, int]) -> Area | None:
        """None for a part that is too small, or nowhere (NaN)."""
        spans = []
        for along, side in zip(_corners(part), reversed(size), strict=True):
            low, high = (min(max(end, 0.0), float(side)) for end in (min(along), max(along)))
            if not all(map(isfinite, along)) or high - low < self._min_size:
                return None
            more = self._margin * (high - low)
            spans.append((max(floor(low - more), 0), min(ceil(high + more), side)))
        (left, right), (top, bottom) = spans
        return left, top, right, bottom


def _corners(part: Box | Text) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The x of its corners, and the y; a line of text that has none is nowhere."""
    if isinstance(part, Box):
        return (part.left, part.right), (part.top, part.bottom)
    return tuple(x for x, _ in part.corners) or (nan,), tuple(y for _, y in part.corners) or (nan,)


class CutStream:
    """Results of a detector on their way through ``Crops.of``."""

    def __init__(self, crops: Crops, stream: Iterable[LiveResult]):
        self._crops, self._stream, self._results = crops, stream, iter(stream)

    def __iter__(self) -> Iterator[LiveResult]:
        return self

    def __next__(self) -> LiveResult:
        try:
            seen = next(self._results)
            self._crops.add(seen)
        except BaseException:  # its end too
            self._crops.close()
            raise
        return seen

    def close(self) -> None:
        """Ends the crops and, where it can be ended, the stream. Any thread may call it."""
        self._crops.close()
        if hasattr(self._stream, "close"):
            self._stream.close()
