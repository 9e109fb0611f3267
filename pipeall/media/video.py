"""Videos and streams in, videos out. The only file that imports PyAV, the extra ``video``.

PyAV and not OpenCV: it gives a decoder's own planes, which a pipeline reads as they are. OpenCV converts each frame to
BGR first: 3.8 ms a frame of 1920 x 1080 beside 2.9 ms on one core of an AMD EPYC, and more on a board's. PyAV also
gives each frame's time, and writes H.264, which browsers play.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, missing_extra

SUFFIXES = (".avi", ".h264", ".hevc", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm")
WRITTEN = (".mkv", ".mov", ".mp4")
STDIN = "pipe:0"
TIMEOUT_S = 10  # of a stream that gives nothing
TICKS = 90_000  # a second, of videos that are written
HD = 720  # lines: players take a video of so many for BT.709 where it does not say
# Of FFmpeg. SMPTE 170M is BT.601; FCC and SMPTE 240M are so near to one of these that they are taken for it.
LIMITED_RANGE, FULL_RANGE, SMPTE_170M = 1, 2, 6
STANDARDS = {
    1: "BT.709", 4: "BT.601", 5: "BT.601", SMPTE_170M: "BT.601", 7: "BT.709", 9: "BT.2020", 10: "BT.2020",
}  # fmt: skip
SPACES = {"BT.601": SMPTE_170M, "BT.709": 1, "BT.2020": 9}


@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """A frame as I420 with colours and dma-buf, as ``pipeall.Picture`` names them. pixels: uint8 (3 H / 2, W)."""

    pixels: np.ndarray
    yuv: str
    full_range: bool
    dma_buf: tuple[int, int, int] | None = None


def package() -> Any:
    """PyAV. Raises MissingExtraError."""
    try:
        import av
    except ImportError as error:
        raise missing_extra("av", "video", "reading or writing videos, cameras and streams") from error
    return av


def frames(
    name: str, address: str, options: dict[str, str], report: Callable[[Exception], None]
) -> Iterator[tuple[Planes, float | None]]:
    """Frames of a file or a stream, with their time in s.

    Their sides are even. ``report`` gets errors of single frames. Raises ArgumentError where there is no video.
    """
    av = package()
    try:
        container = av.open(_url(address), options=options, timeout=TIMEOUT_S)
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise ArgumentError(f"{name}: expected a video, got {_reason(error)}") from error
    with container:
        if not container.streams.video:
            raise ArgumentError(f"{name}: expected a video, got a file with none")
        stream = container.streams.video[0]
        # threads of whole frames hold some back, which a camera must not
        stream.thread_type = "SLICE" if "://" in address or address == STDIN else "AUTO"
        yield from _decoded(av, name, container, stream, report)


def _decoded(
    av: Any, name: str, container: Any, stream: Any, report: Callable[[Exception], None]
) -> Iterator[tuple[Planes, float | None]]:
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
            frames = packet.decode()
        except (StopIteration, av.error.EOFError):
            return
        except av.error.InvalidDataError as error:  # this packet alone
            report(ArgumentError(f"{name}: a frame cannot be decoded: {_reason(error)}"))
            continue
        except (av.error.FFmpegError, OSError) as error:
            raise ArgumentError(f"{name}: ended by {_reason(error)}") from error
        for frame in frames:
            yield planes(frame), frame.time


def _reason(error: Exception) -> str:
    if isinstance(error, package().error.ExitError):  # FFmpeg's word for what the timeout has ended
        return f"nothing for {TIMEOUT_S} s"
    return getattr(error, "strerror", None) or str(error)


def _url(address: str) -> str:
    """What FFmpeg takes for a file where it is one: "12:30.mp4" would be of the protocol "12"."""
    return address if "://" in address or address == STDIN else str(Path(address).absolute())


def image(form: str, size: tuple[int, int], parts: Sequence[np.ndarray], yuv: str, full_range: bool) -> Planes:
    """As I420, what lies in memory as FFmpeg's pixel format ``form``: width and height, bytes of each plane's rows."""
    frame = package().VideoFrame(*size, form)
    for plane, part in zip(frame.planes, parts, strict=True):
        rows = np.frombuffer(plane, np.uint8)[: plane.line_size * len(part)].reshape(len(part), -1)
        rows[:, : part.shape[1]] = part
    _say(frame, yuv, full_range)
    return planes(frame)


class Decoder:
    """Decodes images that come one by one, and holds none back. codec: mjpeg, h264 or hevc."""

    def __init__(self, codec: str):
        self._av = package()
        self._codec = self._av.CodecContext.create(codec, "r")
        self._codec.thread_type = "SLICE"

    def __call__(self, content: np.ndarray) -> list[Planes]:
        """Raises ArgumentError for what cannot be decoded."""
        try:
            return [planes(frame) for frame in self._codec.decode(self._av.Packet(content.tobytes()))]
        except self._av.error.InvalidDataError as error:
            raise ArgumentError(f"a frame cannot be decoded: {_reason(error)}") from error


def planes(frame: Any) -> Planes:
    """A frame of PyAV as I420, upright; an odd row or column at the end is left out, the only one doubled.

    Its colours are those that it says. Where it says nothing they are what players take them for.
    """
    quarters = round(getattr(frame, "rotation", 0) / 90) % 4  # PyAV has it since 14.2
    yuv = STANDARDS.get(int(frame.colorspace), "BT.709" if frame.height >= HD else "BT.601")
    full_range = frame.color_range == FULL_RANGE or frame.format.name.startswith("yuvj")
    _say(frame, yuv, full_range)
    if frame.width % 2 or frame.height % 2:
        picture = _even(_even(frame.to_ndarray(format="rgb24"), 0), 1)
        frame = package().VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    if frame.format.is_rgb:
        yuv, full_range = "BT.601", False
        frame = frame.reformat(format="yuv420p", dst_colorspace="ITU601", dst_color_range=LIMITED_RANGE)
    elif frame.format.name not in ("yuv420p", "yuvj420p"):
        frame = frame.reformat(format="yuv420p")  # of the same colours
    pixels = frame.to_ndarray()
    return Planes(turned(pixels, quarters) if quarters else pixels, yuv, full_range)


def _even(picture: np.ndarray, axis: int) -> np.ndarray:
    """Without an odd row or column at the end; the only one is there twice."""
    size = picture.shape[axis]
    return picture.repeat(2, axis) if size == 1 else picture.take(range(size // 2 * 2), axis)


def _say(frame: Any, yuv: str, full_range: bool) -> None:
    frame.colorspace, frame.color_range = SPACES[yuv], FULL_RANGE if full_range else LIMITED_RANGE


def turned(pixels: np.ndarray, quarters: int) -> np.ndarray:
    """I420 turned to the left by so many quarters."""
    rows, columns = pixels.shape[0] // 3 * 2, pixels.shape[1]
    flat = pixels.reshape(-1)
    size, small = rows * columns, rows * columns // 4
    parts = [flat[:size].reshape(rows, columns)]
    parts += [flat[at : at + small].reshape(rows // 2, columns // 2) for at in (size, size + small)]
    turned = [np.rot90(part, quarters) for part in parts]
    return np.concatenate([part.reshape(-1) for part in turned]).reshape(-1, turned[0].shape[1])


def i420(picture: np.ndarray) -> Planes:
    """RGB, uint8 (H, W, 3), as I420."""
    return planes(package().VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24"))


def rgb(pixels: np.ndarray, yuv: str, full_range: bool) -> np.ndarray:
    """I420 as RGB, uint8 (H, W, 3)."""
    frame = package().VideoFrame.from_ndarray(pixels, format="yuv420p")
    _say(frame, yuv, full_range)
    return frame.to_ndarray(format="rgb24")


class Writer:
    """A video file of pictures with their times; its size is that of the first one. Use as a context manager."""

    def __init__(self, path: Path):
        self._path, self._av = path, package()
        self._container: Any = None
        self._stream: Any = None
        self._last, self._offset = -1, 0  # in ticks
        self._previous: float | None = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._container is not None:
            with self._named(), self._container as container:
                for packet in self._stream.encode():
                    container.mux(packet)

    def add(self, picture: np.ndarray, time_s: float, period_s: float = 0.04) -> None:
        """uint8 (H, W, 3) in RGB, shown from ``time_s`` on. Where times start anew they go on after ``period_s``."""
        if self._container is None:
            self._open(picture.shape[:2])
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        frame = frame.reformat(
            self._stream.width, self._stream.height, "yuv420p", dst_colorspace="ITU601", dst_color_range=LIMITED_RANGE
        )
        if self._previous is None or time_s <= self._previous:
            begin = self._last + round(period_s * TICKS) if self._previous is not None else 0
            self._offset = begin - round(time_s * TICKS)
        self._previous = time_s
        self._last = max(self._last + 1, round(time_s * TICKS) + self._offset)
        frame.pts, frame.time_base = self._last, Fraction(1, TICKS)
        with self._named():
            for packet in self._stream.encode(frame):
                self._container.mux(packet)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Puts the file's name to what cannot be written."""
        try:
            yield
        except (self._av.error.FFmpegError, OSError, ValueError) as error:
            raise ArgumentError(f"video {self._path}: cannot be written: {_reason(error)}") from error

    def _open(self, size: tuple[int, int]) -> None:
        codec = "libx264" if "libx264" in self._av.codecs_available else "mpeg4"
        with self._named():
            self._container = self._av.open(_url(str(self._path)), "w")
            self._stream = self._container.add_stream(codec, rate=30)
        self._stream.height, self._stream.width = (max(2, side // 2 * 2) for side in size)
        self._stream.pix_fmt = "yuv420p"
        context = self._stream.codec_context
        context.colorspace, context.color_range = SMPTE_170M, LIMITED_RANGE
        self._stream.time_base = context.time_base = Fraction(1, TICKS)
        self._stream.options = {"preset": "ultrafast", "crf": "20"} if codec == "libx264" else {"qscale": "4"}
