"""Cameras as sources: which there are, in which format one gives its images, and these as I420."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..errors import ArgumentError
from . import video
from .v4l2 import Device, Image, Layout

DEVICES = Path("/sys/class/video4linux")
TIMEOUT_S = 10.0  # of a camera that gives nothing
# V4L2's fourcc -> FFmpeg's pixel format, and for each of its planes bytes of a row by pixel and rows by row of pixels.
# Those that end in M have a plane of memory for each.
YUV_420, SEMI_420, SEMI_422 = ((1, 1), (0.5, 0.5), (0.5, 0.5)), ((1, 1), (1, 0.5)), ((1, 1), (1, 1))
RAW = {
    "NV12": ("nv12", SEMI_420), "NM12": ("nv12", SEMI_420), "NV21": ("nv21", SEMI_420), "NM21": ("nv21", SEMI_420),
    "YU12": ("yuv420p", YUV_420), "YM12": ("yuv420p", YUV_420), "NV16": ("nv16", SEMI_422), "NM16": ("nv16", SEMI_422),
    "YUYV": ("yuyv422", ((2, 1),)), "UYVY": ("uyvy422", ((2, 1),)), "YVYU": ("yvyu422", ((2, 1),)),
    "RGB3": ("rgb24", ((3, 1),)), "BGR3": ("bgr24", ((3, 1),)), "GREY": ("gray", ((1, 1),)),
    "XR24": ("bgr0", ((4, 1),)), "XB24": ("rgb0", ((4, 1),)),
}  # fmt: skip
CODED = {"MJPG": "mjpeg", "JPEG": "mjpeg", "H264": "h264", "HEVC": "hevc"}
# Numbers of V4L2. An encoding or a range of 0 is what the colour space says.
ENCODINGS = {1: "BT.601", 2: "BT.709", 3: "BT.601", 4: "BT.709", 6: "BT.2020"}
SPACES = {3: "BT.709", 10: "BT.2020", 12: "BT.709"}  # the others have BT.601
JPEG, FULL = 7, 1
HELP = {errno.EACCES: "members of the group video may read it", errno.EBUSY: "another program has it"}
SENSOR = "a camera that needs libcamera comes by rpicam-vid -t 0 --codec mjpeg -o - | pipeall run MODEL -"


def frames(
    name: str, path: str, size: tuple[int, int] | None, report: Callable[[Exception], None], in_place: bool = False
) -> Iterator[tuple[video.Planes, float]]:
    """Images of a camera from now on, with their times in s since the first.

    name    in messages
    path    of the device
    size    width and height that it is asked for; None: as it is set
    report  gets errors of single images
    in_place  I420 stays in the dma-buf of a camera that exports it

    Raises ArgumentError where there is no such camera, and once it is gone.
    """
    try:
        device = Device(path)
    except FileNotFoundError as error:
        raise ArgumentError(f"{name}: there is no camera {path}; {listed()}") from error
    except OSError as error:
        raise ArgumentError(f"{name}: expected a camera, got {_reason(error)}") from error
    with device:
        try:
            yield from _frames(device, name, size, report, in_place)
        except TimeoutError as error:
            raise ArgumentError(f"{name}: gave no image for {TIMEOUT_S:g} s") from error
        except OSError as error:
            raise ArgumentError(f"{name}: ended by {_reason(error)}") from error


def _reason(error: OSError) -> str:
    why = f"; {HELP[error.errno]}" if error.errno in HELP else ""
    return os.strerror(error.errno).lower() + why


def _frames(
    device: Device, name: str, size: tuple[int, int] | None, report: Callable[[Exception], None], in_place: bool
) -> Iterator[tuple[video.Planes, float]]:
    layout = chosen(device, name, size)
    decoder = video.Decoder(CODED[layout.fourcc]) if layout.fourcc in CODED else None
    begin_s: float | None = None
    for image in device.images(TIMEOUT_S):
        begin_s = image.time_s if begin_s is None else begin_s
        try:
            if image.damaged:
                raise ArgumentError("an image came damaged")
            found = decoder(image.planes[0]) if decoder else [as_planes(layout, image, in_place)]
        except ArgumentError as error:
            report(ArgumentError(f"{name}: {error}"))
            continue
        time_s = image.time_s - begin_s
        del image  # its buffer is the camera's again when the caller has let go
        while found:
            yield found.pop(0), time_s


def chosen(device: Device, name: str, size: tuple[int, int] | None) -> Layout:
    """The format that gives most images a second of this size, by what the camera says; else the one that it is set to,
    else one that needs no decoding. Raises ArgumentError where none can be read."""
    present, offered = device.layout(), device.formats()
    known = read_of(offered)
    width, height = size or (present.width, present.height)
    if size is None and present.fourcc in known:
        known = [present.fourcc]
    order = sorted(known, key=lambda fourcc: (fourcc in CODED, fourcc != present.fourcc))
    best = max(order, key=lambda fourcc: device.fps(fourcc, width, height), default=present.fourcc)
    layout = device.set(best, width, height) if known else present
    if layout.fourcc not in known:
        got = " ".join(offered if not known else [layout.fourcc])
        raise ArgumentError(f"{name}: expected a format such as NV12, YUYV or MJPG, got {got}; {SENSOR}")
    return layout


def read_of(offered: Sequence[str]) -> list[str]:
    """Those of a camera's formats that can be read."""
    return [fourcc for fourcc in offered if fourcc in RAW or fourcc in CODED]


def as_planes(layout: Layout, image: Image, in_place: bool = False) -> video.Planes:
    """An image that is not coded. Raises ArgumentError where it is too short."""
    form, shapes = RAW[layout.fourcc]
    separate = len(image.planes) > 1
    parts, at = [], 0
    for number, (columns, lines) in enumerate(shapes):
        rows, bytes_ = round(layout.height * lines), round(layout.width * columns)
        apart = layout.row_bytes[number] if separate else round(layout.row_bytes[0] * columns / shapes[0][0])
        memory = image.planes[number] if separate else image.planes[0][at:]
        if apart < bytes_ or memory.size < (rows - 1) * apart + bytes_:
            got = sum(plane.size for plane in image.planes)
            raise ArgumentError(f"expected {rows} rows of {bytes_} bytes, {apart} apart, got {got} bytes")
        parts.append(np.lib.stride_tricks.as_strided(memory, (rows, bytes_), (apart, 1)))
        at += rows * apart
    width, height = layout.width, layout.height
    whole = layout.fourcc == "YU12" and layout.row_bytes == (width,) and not width % 2 and not height % 2
    if in_place and image.dma_buf and whole:
        pixels = image.planes[0][: width * height * 3 // 2].reshape(-1, width)
        return video.Planes(pixels, *colours(layout), image.dma_buf)
    return video.image(form, (layout.width, layout.height), parts, *colours(layout))


def colours(layout: Layout) -> tuple[str, bool]:
    """The standard of an image's YUV, and whether it has the full range."""
    space, encoding, quantization = layout.colours
    full = quantization == FULL or (not quantization and space == JPEG)
    return ENCODINGS.get(encoding) or SPACES.get(space, "BT.601"), full


def numbers() -> dict[int, str]:
    """The video devices of this machine with their names, also those that are no cameras."""
    found = {}
    for folder in DEVICES.glob("video*"):
        number = folder.name.removeprefix("video")
        if number.isdecimal() and (folder / "name").is_file():
            found[int(number)] = (folder / "name").read_text(errors="replace").strip()
    return dict(sorted(found.items()))


def listed() -> str:
    """The video devices of this machine in a line, as words of the command line."""
    words = ", ".join(f"camera:{number} ({name})" for number, name in numbers().items())
    return f"there are {words}" if words else "this machine has none"


def table() -> list[str]:
    """The cameras of this machine, a line each: the word of the command line, the name, size and formats; or why one
    cannot be used. Without any, what to do."""
    lines = [line for number, name in numbers().items() if (line := _line(number, name))]
    return lines or [f"no camera found; a USB camera is one as soon as it is plugged in, {SENSOR}"]


def _line(number: int, name: str) -> str:
    word = f"camera:{number}"
    try:
        with Device(f"/dev/video{number}") as device:
            layout, offered = device.layout(), device.formats()
    except OSError as error:
        if error.errno == errno.ENODEV:  # what else a driver has: metadata, an encoder
            return ""
        return f"{word}  {name}: {_reason(error)}"
    known = read_of(offered)
    if not known:
        return f"{word}  {name}: gives {' '.join(offered)} only, which pipeall does not read; {SENSOR}"
    return f"{word}  {name}: {layout.width}x{layout.height}, {' '.join(known)}"
