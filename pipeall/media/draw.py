"""Answers drawn into their pictures: boxes, names, scores, key points, masks, text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..files import same_file
from ..pipeline.live import LiveResult
from ..tasks import Answer, Box, Mask
from ..tasks.labels import limbs
from . import images, video
from .fonts import font
from .images import Image, ImageDraw
from .sources import MediaFrame, Source

COLOURS = (  # told apart by most eyes: Okabe and Ito
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
)  # fmt: skip
BLENDED = 0.5  # share of a mask's colour
SURE = 0.3  # least score of a key point that is drawn


def drawn(picture: np.ndarray, answer: Answer) -> np.ndarray:
    """A copy of a picture, uint8 (H, W, 3) in RGB, with what is said of it; lines and letters grow with its size."""
    pixels = picture
    if answer.mask is not None:
        pixels = _tinted(pixels, answer.mask)
    for box in answer.boxes:
        if box.mask is not None:
            pixels = _tinted(pixels, box.mask, box.label + 1)
    image = Image.fromarray(pixels)
    pen = _Pen(image)
    for box in answer.boxes[::-1]:  # the surest on top
        pen.box(box, limbs(answer.point_names))
    for box in answer.boxes:  # and the first to choose where its name is
        pen.name(box)
    for line in answer.texts:
        if line.corners:
            pen.draw.polygon([tuple(corner) for corner in line.corners], outline=COLOURS[0], width=pen.width)
        if line.text:
            left, top = line.corners[0] if line.corners else (0, 0)
            bottom = max((y for _, y in line.corners), default=top)
            pen.label(left, top, bottom, f"{line.text} {line.score:.2f}", COLOURS[0])
    for place, one in enumerate(answer.classes):
        pen.text((0, place * pen.line), f"{one.name} {one.score:.2f}", COLOURS[place % len(COLOURS)])
    return np.asarray(image)


def _tinted(pixels: np.ndarray, mask: Mask, colour: int = 1) -> np.ndarray:
    """The pixels with the colour of each class but the background, or with one colour for what is foreground."""
    if mask.values.dtype.kind == "f":
        share = BLENDED * (mask.alpha >= mask.least)[..., None]
        tint: Any = np.array(COLOURS[(colour - 1) % len(COLOURS)], np.float32)
    else:
        share = BLENDED * (mask.pixels > 0)[..., None]
        tint = np.array(COLOURS, np.float32)[(mask.pixels.astype(np.intp) - 1) % len(COLOURS)]
    return np.round(pixels * (1 - share) + tint * share).astype(np.uint8)


class _Pen:
    """What draws into an image.

    width   of lines, in pixels; height: of letters; line: of a line of them
    taken   where labels are: left, top, right, bottom
    """

    def __init__(self, image: Image.Image):
        self.draw, self.size = ImageDraw.Draw(image), image.size
        self.taken: list[tuple[float, float, float, float]] = []
        self.width = max(2, round(max(image.size) / 500))
        self.height = max(12, round(max(image.size) / 50))
        self.line = self.height + 4

    def box(self, box: Box, joined: Sequence[tuple[int, int]]) -> None:
        """Its edges, its key points and, of these, the lines between those that are ``joined``."""
        colour = COLOURS[box.label % len(COLOURS)]
        self.draw.rectangle(_edges(box), outline=colour, width=self.width)
        for pair in joined if box.points else ():
            if all(box.points[index][2] >= SURE for index in pair):
                self.draw.line([box.points[index][:2] for index in pair], fill=colour, width=self.width)
        for x, y, score in box.points:
            if score >= SURE:
                reach = 1.5 * self.width
                self.draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=colour)

    def name(self, box: Box) -> None:
        left, top, _, bottom = _edges(box)
        self.label(left, top, bottom, f"{box.name} {box.score:.2f}", COLOURS[box.label % len(COLOURS)])

    def label(self, left: float, top: float, bottom: float, text: str, colour: tuple[int, int, int]) -> None:
        """Text where it is within the picture and hides no other: above a thing, within it, below it, or near by."""
        text = self._short(text)
        width = self._width(text)
        x = max(0.0, min(left, self.size[0] - width))
        near = (top + step * self.line for step in (1, -2, 2, -3, 3, -4))
        places = [max(0.0, min(y, self.size[1] - self.line)) for y in (top - self.line, top, bottom, *near)]
        areas = [(x, y, x + width, y + self.line) for y in places]
        free = (area for area in areas if not any(_meet(area, other) for other in self.taken))
        area = next(free, areas[0])
        self.taken.append(area)
        self.text(area[:2], text, colour)

    def _width(self, text: str) -> float:
        return self.draw.textlength(text, font(self.height, text)) + 5

    def _short(self, text: str) -> str:
        """As much of a text as fits the picture."""
        while len(text) > 1 and self._width(text) > self.size[0]:
            text = f"{text[: len(text) * 7 // 8 - 1]}…"
        return text

    def text(self, at: tuple[float, float], text: str, colour: tuple[int, int, int]) -> None:
        """Text on its colour, its corner above and left at a place."""
        (x, y), letters = at, font(self.height, text)
        self.draw.rectangle((x, y, x + self._width(text) - 1, y + self.line - 1), fill=colour)
        dark = sum(colour) > 380
        self.draw.text((x + 2, y), text, fill=(0, 0, 0) if dark else (255, 255, 255), font=letters)


def _edges(box: Box) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    return (
        min(box.left, box.right), min(box.top, box.bottom), max(box.left, box.right), max(box.top, box.bottom),
    )  # fmt: skip


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


class Drawing:
    """``--draw``: a folder of pictures, or a video where the name ends in .mp4. Use as a context manager.

    Photos keep their name; frames of a video have its name and their number.
    """

    def __init__(self, path: str, sources: Sequence[Source]):
        """Raises ArgumentError where nothing can be written there, or where it would be written over a source."""
        self._path = Path(path)
        self._files = [source.name for source in sources if source.kind != "live"]
        self._video = video.Writer(self._path) if self._path.suffix.lower() in video.WRITTEN else None
        self._photos = self._places([source for source in sources if source.kind == "photo"])
        for target in (self._path, *(place for places in self._photos.values() for place in places)):
            self._check(target)
        if self._video is None:
            try:
                self._path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                got = "a file" if isinstance(error, FileExistsError) else error.strerror
                raise ArgumentError(f"--draw {path}: expected a folder or a video, got {got}") from error
        elif not self._path.parent.is_dir():
            raise ArgumentError(f"--draw {path}: expected a file in a folder that exists")

    def __enter__(self) -> Drawing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._video is not None:
            self._video.__exit__(kind, error, trace)

    @property
    def wanted(self) -> bool:
        """Every picture is."""
        return True

    def add(self, picture: np.ndarray, seen: LiveResult) -> None:
        """A drawn picture and what it was made of. Raises ArgumentError where it cannot be written."""
        frame: MediaFrame = seen.frame
        if self._video is not None:
            at = frame.time_s if frame.source.kind == "video" and frame.time_s is not None else seen.captured_ns / 1e9
            # photos are shown for a second each
            photo = frame.source.kind == "photo"
            self._video.add(picture, 0.0 if photo else at, 1.0 if photo else 0.04)
            return
        if frame.source.kind == "photo":
            path = self._photos[frame.source].pop(0)
        else:
            path = self._path / f"{_stem(frame.source)}-{frame.number:06}.jpg"
            self._check(path)
        images.save(picture, path)

    def _check(self, target: Path) -> None:
        """Links and other names of a file are that file."""
        if source := same_file(target, self._files):
            raise ArgumentError(f"--draw {self._path}: expected another place than that of the source {source}")

    def _places(self, photos: Sequence[Source]) -> dict[Source, list[Path]]:
        """Where the pictures of photos go, none over another; as many for each as it is given times."""
        targets: dict[Source, list[Path]] = {}
        taken: set[Path] = set()
        for photo in photos:
            suffix = Path(photo.name).suffix.lower()
            suffix = suffix if suffix in (".png", ".jpeg") else ".jpg"
            path, copy = self._path / f"{_stem(photo)}{suffix}", 1
            while path in taken:
                copy += 1
                path = self._path / f"{_stem(photo)}-{copy}{suffix}"
            taken.add(path)
            targets.setdefault(photo, []).append(path)
        return targets


def _stem(source: Source) -> str:
    """A name without folder and ending; of a camera or stream all of it, but for what names of files lack."""
    if source.kind != "live":
        return Path(source.name).stem
    return Path(source.name.replace("://", "-").replace(":", "-")).stem
