"""Pictures as input: how a frame of any size becomes what a network reads, and where its pixels lie there."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from .arguments import Rule, number, one_of, refused, several, shown, switch
from .errors import ArgumentError

FITS = ("stretch", "crop", "letterbox")
FILTERS = ("bilinear", "antialias", "area", "nearest")
CHANNELS = {"RGB": 3, "BGR": 3, "GRAY": 1}  # of the network's input
SHAPES = {  # pixel format -> the shape of a frame
    "RGB": "(H, W, 3)", "BGR": "(H, W, 3)", "GRAY": "(H, W)", "YUYV": "(H, W, 2), W even",
    "NV12": "(3 H / 2, W), H and W even", "I420": "(3 H / 2, W), H and W even",
}  # fmt: skip
PLANES = ("NV12", "I420")
YUV = {  # standard -> what red and blue are of the luma; green is the rest
    "BT.601": (0.299, 0.114), "BT.709": (0.2126, 0.0722), "BT.2020": (0.2627, 0.0593),
}  # fmt: skip
MAX_SIDE = 2**14  # pixels
EXAMPLE = (1080, 1920)  # height and width of what is timed where no frame is at hand
# What a picture step reads of a frame: address, height, width, bytes from row to row, the window of ``Placed`` as
# the bits of four float64, inner, what red and blue are of the luma of YUV as the bits of two, whether that has the
# full range, and of the dma-buf that it lies in the descriptor + 1, the address and the bytes. All 0: the example.
WORDS = 18
EXAMPLE_WORDS = np.zeros(WORDS, np.int64)
RULES: dict[str, Rule] = {  # of the arguments of a Picture, but those of each channel
    "fit": one_of(*FITS),
    "filter": one_of(*FILTERS),
    "channels": one_of(*CHANNELS),
    "scale": number(0, above=True),
    "value": number(0, 255),
    "centered": switch,
    "keep": number(0, 1, above=True),
    "frames": one_of(*SHAPES),
    "apart": switch,
    "yuv": one_of(*YUV),
    "full_range": switch,
}


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a picture lies in a network's input.

    size    height and width of the picture, in pixels
    window  top, left, height, width of what is read of it, in its pixels
    inner   top, left, height, width of where that lies in the input, in pixels of the input
    """

    size: tuple[int, int]
    window: tuple[float, float, float, float]
    inner: tuple[int, int, int, int]

    def to_picture(self, points: np.ndarray) -> np.ndarray:
        """(..., 2) x and y in pixels of the input -> in pixels of the picture, float64; corners of pixels are whole."""
        top, left, h, w = self.window
        y0, x0, rows, columns = self.inner
        points = _pairs(points)
        return (points - (x0, y0)) * (w / columns, h / rows) + (left, top)

    def to_input(self, points: np.ndarray) -> np.ndarray:
        """The way back of ``to_picture``."""
        top, left, h, w = self.window
        y0, x0, rows, columns = self.inner
        points = _pairs(points)
        return (points - (left, top)) * (columns / w, rows / h) + (x0, y0)


@dataclass(frozen=True, slots=True)
class Picture:
    """What becomes of a picture on its way into a network: fitted, resampled, normalized.

    fit       ``stretch`` to the input's size; ``crop`` the largest middle part of its proportions (or ``keep`` of it);
              ``letterbox``: all of the picture in its proportions, ``value`` beside it
    filter    ``bilinear`` of the nearest four pixels; ``antialias``: as wide as the shrinking asks, as Pillow does;
              ``area``: means of what each pixel covers; ``nearest``
    channels  what the network expects: RGB, BGR or GRAY
    scale     0 to 255 are divided by this,
    mean, std then mean is subtracted and the rest divided by std: a number, or one for each of ``channels``
              An input of integers gets the grey levels themselves (int8: less 128) where none of these is given, else
              the level that stands for the number
    value     of the letterbox's border, 0 to 255
    centered  the letterbox's picture is in the middle; else above and left
    keep      of the largest crop: 0.875 for most classifiers
    frames    pixel format of the frames: RGB, BGR, GRAY as (H, W, 3) or (H, W); NV12 and I420 (3 H / 2, W);
              YUYV (H, W, 2)
    apart     the step is a group of its own, so that a plan may cut behind it
    yuv       standard of the frames' colours: BT.601, BT.709 or BT.2020 (without constant luminance)
    full_range  their levels are 0 to 255, as in JPEG; else luma is 16 to 235 and chroma 16 to 240, as in most videos

    A frame that has attributes ``yuv`` and ``full_range`` itself is read by these. One in a dma-buf may say so by
    ``dma_buf``: descriptor, address of its mapping and bytes. A GPU that can import it reads the frame there.
    Raises ArgumentError for anything else.
    """

    fit: str = "stretch"
    filter: str = "bilinear"
    channels: str = "RGB"
    scale: float = 1.0
    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    value: int = 0
    centered: bool = True
    keep: float = 1.0
    frames: str = "RGB"
    apart: bool = False
    yuv: str = "BT.601"
    full_range: bool = False

    def __post_init__(self) -> None:
        rules = RULES | {"mean": self._per_channel, "std": self._per_channel}  # in the order of what needs what
        for name, rule in rules.items():
            object.__setattr__(self, name, rule(name, getattr(self, name)))
        if min(map(abs, self.std)) == 0:
            raise ArgumentError(f"std: expected numbers other than 0, got {self.std}")

    def _per_channel(self, name: str, given: Any) -> tuple[float, ...]:
        count = CHANNELS[self.channels]
        expected = f"one finite number or {count}"
        given = given.tolist() if isinstance(given, np.ndarray) else given
        values = (given,) * count if isinstance(given, Real) else several(number(), expected)(name, given)
        if len(values) != count:
            raise refused(name, expected, given)
        return tuple(float(number()(name, value)) for value in values)

    @property
    def normalizes(self) -> bool:
        """Whether ``scale``, ``mean`` or ``std`` change grey levels."""
        return self.scale != 1 or any(self.mean) or set(self.std) != {1.0}

    @property
    def affine(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Factor and offset of each channel: grey level * factor + offset is what the network reads."""
        factors = tuple(1 / (self.scale * std) for std in self.std)
        return factors, tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))

    def colours(self, frame: Any) -> tuple[str, bool]:
        """``yuv`` and ``full_range`` of a frame: what it says itself, else what this says. Raises ArgumentError."""
        yuv = getattr(frame, "yuv", self.yuv)
        RULES["yuv"]("yuv of a frame", yuv)
        return yuv, bool(getattr(frame, "full_range", self.full_range))

    def placed(self, picture: tuple[int, int], size: tuple[int, int]) -> Placed:
        """Where a picture of this height and width lies in an input of that height and width. Raises ArgumentError."""
        try:
            return self._placed(picture, size)
        except (TypeError, ValueError, ArithmeticError):
            given = f"{shown(picture)} and {shown(size)}"
            raise ArgumentError(f"picture, size: expected two heights and widths in pixels, got {given}") from None

    def _placed(self, picture: tuple[int, int], size: tuple[int, int]) -> Placed:
        (h, w), (rows, columns) = picture, size
        if self.fit == "crop":
            shrink = max(rows / h, columns / w) / self.keep
            part_h, part_w = rows / shrink, columns / shrink
            return Placed((h, w), ((h - part_h) / 2, (w - part_w) / 2, part_h, part_w), (0, 0, rows, columns))
        if self.fit == "stretch":
            return Placed((h, w), (0.0, 0.0, h, w), (0, 0, rows, columns))
        shrink = min(rows / h, columns / w)
        inner_h, inner_w = (min(max(round(side * shrink), 1), most) for side, most in ((h, rows), (w, columns)))
        top, left = ((rows - inner_h) // 2, (columns - inner_w) // 2) if self.centered else (0, 0)
        return Placed((h, w), (0.0, 0.0, h, w), (top, left, inner_h, inner_w))


def _pairs(points: Any) -> np.ndarray:
    """(..., 2) float64."""
    try:
        array = np.asarray(points, np.float64)
    except Exception:  # of whatever is no array of numbers
        array = np.empty(0)
    if array.shape[-1:] != (2,):
        raise refused("points", "pairs of x and y, (..., 2)", points)
    return array


def _dma_buf(frame: Any) -> tuple[int, int, int] | None:
    """Descriptor, address and bytes of the dma-buf that a frame says it lies in. Raises ArgumentError."""
    given = getattr(frame, "dma_buf", None)
    if given is None:
        return None
    try:
        descriptor, address, nbytes = map(operator.index, given)
    except (TypeError, ValueError):
        descriptor = address = nbytes = -1
    if not 0 <= descriptor < 2**31 or not 0 < address < 2**63 or not 0 < nbytes < 2**63:
        raise refused("dma_buf of a frame", "a descriptor, an address and a number of bytes", given)
    return descriptor, address, nbytes


def frame_of(x: Any, frames: str) -> tuple[np.ndarray, tuple[int, int]]:
    """A frame as the bytes that a step reads, in place where they lie row by row, and the picture's height and width.

    x: uint8 of the shape that ``Picture`` says for the pixel format ``frames``; an array, or whatever NumPy sees as one
    (the buffer protocol, ``__array_interface__``). Raises ArgumentError for anything else.
    """
    try:
        array = np.asarray(x)
    except Exception as error:  # of rows of different lengths, and of whatever a class does to become an array
        raise ArgumentError(
            f"frame: expected {frames} as uint8 {SHAPES[frames]}, got no array: {error!s:.100}"
        ) from None
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    pixel = {"RGB": (3,), "BGR": (3,), "YUYV": (2,)}.get(frames, ())
    fits = array.dtype == np.uint8 and array.ndim == 2 + len(pixel) and array.shape[2:] == pixel
    fits = fits and 1 <= min(array.shape) and max(array.shape) <= MAX_SIDE
    if not fits or (array.shape[0] % 3 and frames in PLANES) or (array.shape[1] % 2 and frames in (*PLANES, "YUYV")):
        raise ArgumentError(
            f"frame: expected {frames} as uint8 {SHAPES[frames]}, sides up to {MAX_SIDE}, "
            f"got {array.dtype} {array.shape}"
        )
    row_bytes = array.nbytes // array.shape[0]
    in_rows = array.strides[1:] == (*pixel, 1) and abs(array.strides[0]) >= row_bytes and frames not in PLANES
    rows = array if in_rows else np.ascontiguousarray(array)
    return rows, (array.shape[0] // 3 * 2 if frames in PLANES else array.shape[0], array.shape[1])


def described(
    rows: np.ndarray,
    size: tuple[int, int],
    placed: Placed,
    yuv: str = "BT.601",
    full_range: bool = False,
    dma_buf: tuple[int, int, int] | None = None,
) -> np.ndarray:
    """The WORDS int64 that a picture step reads of a frame; ``rows`` has to live as long as it may run."""
    window, luma = (np.array(values, np.float64).view(np.int64).tolist() for values in (placed.window, YUV[yuv]))
    words = [rows.ctypes.data, *size, rows.strides[0], *window, *placed.inner, *luma, full_range]
    words += [0, 0, 0] if dma_buf is None else [dma_buf[0] + 1, *dma_buf[1:]]
    return np.array(words, np.int64)


def words_of(picture: Picture, frame: Any, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The bytes that a step reads of a frame, and the WORDS that tell it of them, for an input of that height and
    width. Frame and bytes have to live as long as the step may run. Raises ArgumentError."""
    rows, seen = frame_of(frame, picture.frames)
    return rows, described(rows, seen, picture.placed(seen, size), *picture.colours(frame), _dma_buf(frame))


def is_example(x: Any) -> bool:
    """Whether it stands for the example: the words of a frame, all 0."""
    return isinstance(x, np.ndarray) and x.dtype == np.int64 and x.shape == (WORDS,) and not x.any()


@lru_cache(maxsize=4)
def example(frames: str, size: tuple[int, int] = EXAMPLE) -> np.ndarray:
    """A picture for timing and tests: slopes with some texture, in the bytes of a pixel format."""
    h, w = size
    y, x = (axis.astype(np.uint16) for axis in np.ogrid[: h * 3 // 2 if frames in ("NV12", "I420") else h, :w])
    pattern = x * y  # modulo 2^16: what becomes a byte is the same, in a quarter of the memory
    pattern >>= 4
    pattern += y * 5 + x * 3
    pattern = pattern.astype(np.uint8)
    count = {"RGB": 3, "BGR": 3, "YUYV": 2}.get(frames, 1)
    return pattern if count == 1 else np.stack([pattern + np.uint8(50 * c) for c in range(count)], 2)
