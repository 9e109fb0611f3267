"""What ``pipeall run`` looks at: photos, folders, video files, cameras, streams, one frame after the other."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..files import check_file
from . import camera, images, video

CAMERA = re.compile(r"camera:(\d+)(?::(\d+)x(\d+))?")
CAMERAS = "camera:"  # lists them
CAMERA_DEVICE = re.compile(r"/dev/video(\d+)")
STDIN = "-"
STREAMS = ("rtsp://", "rtsps://", "http://", "https://", "tcp://", "udp://", "rtp://", "srt://", "rtmp://")
KINDS = "photos, folders, videos, camera:0, rtsp://... or -"
FINITE = (STDIN, "http://", "https://")  # of live sources; another that gives no more frames has failed
# Of FFmpeg. A stream with a beginning of its own is read from that on; the default before its format is settled, 1 MB,
# would be seconds of a small camera. Others begin anywhere.
WHOLE = {"formatprobesize": str(1 << 16)}
LIVE = {"rtsp_transport": "tcp", "fflags": "nobuffer", "overrun_nonfatal": "1"}
RETRY_S, MOST_RETRY_S = 1.0, 30.0  # a live source that has failed is tried again, at last twice a minute


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
    yuv, full_range, dma_buf  of I420, as ``pipeall.Picture`` names them
    """

    pixels: np.ndarray
    source: Source
    number: int = 0
    time_s: float | None = None
    again: bool = False
    yuv: str = "BT.601"
    full_range: bool = False
    dma_buf: tuple[int, int, int] | None = None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.pixels.__array_interface__

    @cached_property
    def rgb(self) -> np.ndarray:
        """uint8 (H, W, 3)."""
        return self.pixels if self.pixels.ndim == 3 else video.rgb(self.pixels, self.yuv, self.full_range)


def find(words: Iterable[str], recursive: bool) -> list[Source]:
    """The sources that words name, pictures of folders in alphabetical order. Raises ArgumentError where there is none,
    and MissingExtraError for videos without their package."""
    sources: list[Source] = []
    for word in words:
        path = Path(word)
        if CAMERA.fullmatch(word) or word.startswith(STREAMS) or word == STDIN or _is_camera(path):
            sources.append(Source(word, "live"))
        elif word == CAMERAS:
            raise ArgumentError(f"source {word}: expected a number behind it; {camera.listed()}")
        elif path.is_dir():
            inside = [Source(str(file), "photo") for file in images.inside(path, recursive)]
            if not inside:
                raise ArgumentError(f"folder {path}: expected pictures ({' '.join(images.SUFFIXES)}), got none")
            sources += inside
        elif path.is_file():
            sources.append(Source(word, "video" if path.suffix.lower() in video.SUFFIXES else "photo"))
        else:
            raise ArgumentError(f"image {path}: {_what_is_there(path)}; expected {KINDS}")
    names = [source.name for source in sources if source.kind != "photo"]
    if any(source.kind == "live" for source in sources) and (twice := [n for n in names if names.count(n) > 1]):
        raise ArgumentError(f"source {twice[0]}: expected each once beside a camera or a stream, got it twice")
    if any(source.kind != "photo" for source in sources):
        video.package()
    return sources


def _is_camera(path: Path) -> bool:
    return CAMERA_DEVICE.fullmatch(str(path)) is not None and path.is_char_device()


def _what_is_there(path: Path) -> str:
    try:
        check_file(path)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except ArgumentError as error:
        return str(error).rpartition(", ")[2]
    return "no file"


def layout(sources: Sequence[Source]) -> str:
    """The pixel format of all frames: planes where there are videos alone, as their decoders give them."""
    return "RGB" if any(source.kind == "photo" for source in sources) else "I420"


def opened(
    source: Source, report: Callable[[Exception], None], in_place: bool = False
) -> Iterator[tuple[np.ndarray | video.Planes, float | None]]:
    """Frames of one source with their times. Raises ArgumentError where it cannot be read."""
    if source.kind == "photo":
        return iter([(images.read(Path(source.name)), None)])
    word = CAMERA.fullmatch(source.name)
    if word or _is_camera(Path(source.name)):
        size = (int(word[2]), int(word[3])) if word and word[2] else None
        return camera.frames(source.name, f"/dev/video{word[1]}" if word else source.name, size, report, in_place)
    options: dict[str, str] = {}
    if source.kind == "live":
        options = WHOLE if source.name.startswith((STDIN, "tcp://")) else LIVE
    address = video.STDIN if source.name == STDIN else source.name
    return video.frames(f"video {source.name}", address, options, report)


def _media_frame(picture: np.ndarray | video.Planes, *where: Any) -> MediaFrame:
    if isinstance(picture, video.Planes):
        return MediaFrame(picture.pixels, *where, picture.yuv, picture.full_range, picture.dma_buf)
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
    paced   a video's frames come when its times say, as a camera's do
    in_place  a camera's frames stay in its dma-buf where they can: for a plan whose first units read them there
    read_ms mean time that a frame took to be read, but for live sources, which are waited for

    A camera or a stream that fails beside other sources is tried again until ``close``, and they go on (``apart``).
    """

    def __init__(
        self,
        sources: Sequence[Source],
        repeat: int = 1,
        tell: Callable[[str], None] | None = None,
        paced: bool = False,
    ):
        self.sources, self.paced = sources, paced
        self.layout, self.in_place = layout(sources), False
        self._repeat, self._tell = repeat, tell
        self._held: list[Exception] = []
        self._unread = self._count = self._spent_ns = 0
        self._beside: list[Frames] = []  # where each source is read by itself
        self._closed = threading.Event()

    def apart(self, others: bool = False) -> Frames | dict[str, Frames]:
        """For ``Pipeline.stream``: where a camera or a stream is among several sources each by its name, photos
        together; else all, one after the other. ``others``: there are more sources than these."""
        if not self.live or (len(self.sources) == 1 and not others):
            return self
        parts = {source.name: [source] for source in self.sources if source.kind != "photo"}
        photos = [source for source in self.sources if source.kind == "photo"]
        parts |= {"photos": photos} if photos else {}
        frames = {name: Frames(part, self._repeat, self._tell, self.paced) for name, part in parts.items()}
        self._beside = list(frames.values())
        for one in self._beside:
            one.layout, one.in_place = self.layout, self.in_place
            one._closed, one._beside = self._closed, self._beside
        return frames

    def close(self) -> None:
        """What has failed is not tried again. Any thread may call it."""
        self._closed.set()

    @property
    def unread(self) -> int:
        """How many sources, or frames in them, could not be read."""
        return sum(frames._unread for frames in self._beside or [self])

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
        number = failures = 0  # failures in a row
        while True:
            failed = None
            try:
                for frame in self._opened(source, number, again):
                    if failures:
                        self._say(f"{source.name} is back")
                    failures, number = 0, number + 1
                    yield frame
                if source.kind != "live" or not self._beside or source.name.startswith(FINITE):
                    return
            except ArgumentError as error:
                failed = error
            failed = failed or ArgumentError(f"{source.name}: gives no more frames")
            failures += 1
            if source.kind != "live":
                self._report(failed)
                return
            if self._tell is None or not self._beside:
                self._flush()
                raise failed
            if failures == 1:
                self._say(f"{failed}; it is tried again")
            if self._closed.wait(min(RETRY_S * 2 ** min(failures - 1, 10), MOST_RETRY_S)):
                return

    def _opened(self, source: Source, number: int, again: bool) -> Iterator[MediaFrame]:
        """The frames of a source until it ends, numbered from ``number`` on."""
        clock, begin_ns = Clock(), time.perf_counter_ns()
        for at, (picture, time_s) in enumerate(opened(source, self._report, self.in_place), number):
            if self.paced and source.kind == "video" and time_s is not None:
                clock.wait(time_s)
            frame = _media_frame(picture, source, at, time_s, again)
            if frame.pixels.ndim == 2 and self.layout == "RGB":
                frame = replace(frame, pixels=frame.rgb)
            self._count += 1
            self._spent_ns += time.perf_counter_ns() - begin_ns
            self._flush()
            yield frame
            begin_ns = time.perf_counter_ns()

    def _report(self, error: Exception) -> None:
        if self._tell is None:
            raise error
        self._unread += 1
        self._held.append(error)
        if self._count:
            self._flush()

    def _flush(self) -> None:
        for error in self._held:
            self._say(error)
        self._held.clear()

    def _say(self, error: Exception | str) -> None:
        if self._tell is not None:
            self._tell(" ".join(str(error).split()))
