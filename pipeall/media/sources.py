"""What ``pipeall run`` looks at: photos, folders, video files, cameras, streams, one frame after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..files import check_file
from . import images, video

CAMERA = re.compile(r"camera:(\d+)(?::(\d+x\d+))?")
CAMERA_DEVICE = re.compile(r"/dev/video(\d+)")
STREAMS = ("rtsp://", "rtsps://", "http://", "https://")
KINDS = "photos, folders, videos, camera:0 or rtsp://..."


@dataclass(frozen=True, slots=True)
class Source:
    """A word of the command line, or a photo of a folder. kind: photo, video or live."""

    name: str
    kind: str


@dataclass(frozen=True, eq=False)
class MediaFrame:
    """A frame with where it comes from; NumPy takes it for its pixels.

    pixels   uint8: RGB (H, W, 3), or I420 (3 H / 2, W)
    number   of the frame in its source, from 0
    time_s   since the source began; None where it does not say
    again    it was there before: ``Frames`` repeats
    yuv, full_range  colours of I420, as ``pipeall.Picture`` names them
    """

    pixels: np.ndarray
    source: Source
    number: int = 0
    time_s: float | None = None
    again: bool = False
    yuv: str = "BT.601"
    full_range: bool = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.pixels.__array_interface__

    @property
    def rgb(self) -> np.ndarray:
        """uint8 (H, W, 3)."""
        return self.pixels if self.pixels.ndim == 3 else video.rgb(self.pixels, self.yuv, self.full_range)


def find(words: Iterable[str], recursive: bool) -> list[Source]:
    """The sources that words name, pictures of folders in alphabetical order. Raises ArgumentError where there is none,
    and MissingExtraError for videos without their package."""
    sources: list[Source] = []
    for word in words:
        path = Path(word)
        if CAMERA.fullmatch(word) or word.startswith(STREAMS):
            sources.append(Source(word, "live"))
        elif path.is_dir():
            inside = [Source(str(file), "photo") for file in images.inside(path, recursive)]
            if not inside:
                raise ArgumentError(f"folder {path}: expected pictures ({' '.join(images.SUFFIXES)}), got none")
            sources += inside
        elif path.is_file():
            sources.append(Source(word, "video" if path.suffix.lower() in video.SUFFIXES else "photo"))
        else:
            raise ArgumentError(f"image {path}: {_what_is_there(path)}; expected {KINDS}")
    if len(sources) > 1 and any(source.kind == "live" for source in sources):
        raise ArgumentError(f"sources: expected a camera or a stream alone, got {len(sources)}; they do not end")
    if any(source.kind != "photo" for source in sources):
        video.package()
    return sources


def _what_is_there(path: Path) -> str:
    try:
        check_file(path)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except ArgumentError as error:
        number = CAMERA_DEVICE.fullmatch(str(path))
        return f"a camera is camera:{number[1]}" if number else str(error).rpartition(", ")[2]
    return "no file"


def layout(sources: Sequence[Source]) -> str:
    """The pixel format of all frames: planes where there are videos alone, as their decoders give them."""
    return "RGB" if any(source.kind == "photo" for source in sources) else "I420"


def opened(
    source: Source, report: Callable[[Exception], None]
) -> Iterator[tuple[np.ndarray | video.Planes, float | None]]:
    """Frames of one source with their times. Raises ArgumentError where it cannot be read."""
    if source.kind == "photo":
        return iter([(images.read(Path(source.name)), None)])
    camera = CAMERA.fullmatch(source.name)
    if camera:
        size = {"video_size": camera[2]} if camera[2] else {}
        return video.frames(source.name, f"/dev/video{camera[1]}", "v4l2", size, report)
    live = {"rtsp_transport": "tcp", "fflags": "nobuffer"} if source.kind == "live" else {}
    return video.frames(f"video {source.name}", source.name, None, live, report)


def _media_frame(picture: np.ndarray | video.Planes, *where: Any) -> MediaFrame:
    if isinstance(picture, video.Planes):
        return MediaFrame(picture.pixels, *where, picture.yuv, picture.full_range)
    return MediaFrame(picture, *where)


class Clock:
    """Lets the frames of a video come at its own speed, from the first one on."""

    def __init__(self) -> None:
        self._begin_s: float | None = None

    def wait(self, time_s: float) -> None:
        """Until a frame of this time is due."""
        now_s = time.monotonic()
        if self._begin_s is None:
            self._begin_s = now_s - time_s
        time.sleep(max(0.0, self._begin_s + time_s - now_s))


class Frames:
    """The frames of all sources, ``repeat`` times; read on whichever thread iterates.

    tell    gets the errors of sources that cannot be read, the first ones when there is a frame; without it they are
            raised, and so is the last one where there is no frame at all
    unread  how many they were
    paced   a video's frames come when its times say, as a camera's do
    read_ms mean time that a frame took to be read, but for live sources, which are waited for
    """

    def __init__(
        self,
        sources: Sequence[Source],
        repeat: int = 1,
        tell: Callable[[str], None] | None = None,
        paced: bool = False,
    ):
        self.sources, self.unread, self.paced = sources, 0, paced
        self.layout = layout(sources)
        self._repeat, self._tell = repeat, tell
        self._held: list[Exception] = []
        self._count = self._spent_ns = 0

    @property
    def live(self) -> bool:
        """Whether frames come when they come."""
        return any(source.kind == "live" for source in self.sources)

    @property
    def total(self) -> int | None:
        """How many will come, where that is known."""
        photos = all(source.kind == "photo" for source in self.sources)
        return len(self.sources) * self._repeat if photos else None

    @property
    def read_ms(self) -> float | None:
        return None if self.live or self.paced or not self._count else self._spent_ns / self._count / 1e6

    def __iter__(self) -> Iterator[MediaFrame]:
        for turn in range(self._repeat):
            for source in self.sources:
                yield from self._of(source, turn > 0)
        if not self._count and self._held:
            for error in self._held[:-1]:
                self._say(error)
            raise self._held[-1]

    def _of(self, source: Source, again: bool) -> Iterator[MediaFrame]:
        number, begin_ns = 0, time.perf_counter_ns()
        clock = Clock() if self.paced and source.kind == "video" else None
        try:
            for picture, time_s in opened(source, self._report):
                if clock is not None and time_s is not None:
                    clock.wait(time_s)
                frame = _media_frame(picture, source, number, time_s, again)
                if frame.pixels.ndim == 2 and self.layout == "RGB":
                    frame = replace(frame, pixels=frame.rgb)
                self._count += 1
                self._spent_ns += time.perf_counter_ns() - begin_ns
                self._flush()
                yield frame
                number, begin_ns = number + 1, time.perf_counter_ns()
        except ArgumentError as error:
            if source.kind == "live":
                raise
            self._report(error)

    def _report(self, error: Exception) -> None:
        if self._tell is None:
            raise error
        self.unread += 1
        self._held.append(error)
        if self._count:
            self._flush()

    def _flush(self) -> None:
        for error in self._held:
            self._say(error)
        self._held.clear()

    def _say(self, error: Exception) -> None:
        if self._tell is not None:
            self._tell(" ".join(str(error).split()))
