"""Text: where its lines are (DBNet), what one says (CTC), and a line cut out of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import refused
from ..picture import MAX_SIDE, Picture, frame_of
from .answer import Answer, Text
from .contours import Runs, clockwise, connected, grown, outline, rectangle
from .decoder import Outputs, Scene, Signature, decoder
from .segment import TEXT, channels_first

PIXEL = 0.3  # probability from which on a pixel is text's
GROWN = 1.6  # a line is larger than the middle part that DBNet marks: by area x this / circumference on each side
SMALLEST = 3.0  # pixels of the shorter side of what is marked


def _is_map(signature: Signature) -> bool:
    h, w = signature.size
    return signature.shapes in (((1, 1, h, w),), ((1, h, w, 1),))


@decoder(
    "dbnet",
    "text",
    "DBNet (PP-OCR's detector): the probability of each pixel that it is text's",
    Picture(
        fit="letterbox",
        value=127,
        channels="BGR",
        centered=False,
        scale=255,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),  # fmt: skip
    _is_map,
    likely=lambda s: s.channels == 3 and (s.called(*TEXT) or s.names[0] in ("sigmoid_0.tmp_0", "maps", "fetch_name_0")),
    threshold=0.5,
    most=1000,
)
def dbnet(outputs: Outputs, scene: Scene) -> Answer:
    values = channels_first(outputs[0], scene.size)[0]
    marked = values > PIXEL
    runs = connected(marked)
    order = np.argsort(runs.part, kind="stable")
    ends = np.cumsum(np.bincount(runs.part, minlength=runs.parts))
    of = np.repeat(runs.part, runs.end - runs.begin)  # the part of each marked pixel, row by row
    total, area = np.bincount(of, values[marked], runs.parts), np.bincount(of, minlength=runs.parts)
    lines = []
    for part in np.flatnonzero(total >= scene.threshold * area).tolist():
        begin = ends[part - 1] if part else 0
        corners = _line(runs, order[begin : ends[part]])
        if corners is not None:
            lines.append((float(total[part] / area[part]), corners))
    return scene.answer("text", texts=_ordered(scene, lines))


def _line(runs: Runs, chosen: np.ndarray) -> np.ndarray | None:
    """The rectangle around some runs, grown; None where they are too small."""
    corners, width, height = rectangle(outline(runs.row[chosen], runs.begin[chosen], runs.end[chosen]))
    if min(width, height) < SMALLEST:
        return None
    return grown(corners, width * height * GROWN / (2 * (width + height)))


def _ordered(scene: Scene, lines: list[tuple[float, np.ndarray]]) -> tuple[Text, ...]:
    """In the picture and cut at its edges; from above to below, and from left to right where their rows meet."""
    height, width = scene.placed.size
    texts = []
    for score, corners in lines:
        spots = np.clip(scene.placed.to_picture(corners), 0, (width, height))
        texts.append(Text("", score, tuple(map(tuple, spots.tolist()))))
    texts.sort(key=lambda text: min(y for _, y in text.corners))
    rows: list[list[Text]] = []
    for text in texts[: scene.most]:
        middle = sum(y for _, y in text.corners) / 4
        if rows and middle < max(y for _, y in rows[-1][0].corners):
            rows[-1].append(text)
        else:
            rows.append([text])
    return tuple(text for row in rows for text in sorted(row, key=lambda text: min(x for x, _ in text.corners)))


def _is_line(signature: Signature) -> bool:
    return signature.size[0] <= 64 and signature.sources() == {"softmax"}


def characters(metadata: dict[str, str]) -> tuple[str, ...]:
    """What the classes of a recognizer stand for, from its file: blank first, a space last."""
    listed = metadata.get("character", "")
    return ("", *listed.removesuffix("\n").split("\n"), " ") if listed else ()


@decoder(
    "ctc",
    "text",
    "CTC recognizers (PP-OCR's): (1, steps, characters), probabilities; the first is the blank, the last the space",
    Picture(fit="letterbox", value=127, channels="BGR", centered=False, mean=127.5, std=127.5),
    lambda s: len(s.shapes) == 1 and len(s.shapes[0]) == 3 and s.shapes[0][2] > 2,
    likely=_is_line,
    classes=lambda s: s.shapes[0][2],
)
def ctc(outputs: Outputs, scene: Scene) -> Answer:
    steps = outputs[0][0]
    best = steps.argmax(1)
    kept = np.flatnonzero((best != 0) & np.concatenate(([True], best[1:] != best[:-1])))
    if not len(kept):
        return scene.answer("text")
    score = float(steps[kept, best[kept]].astype(np.float64).mean())
    text = "".join(scene.name(label) for label in best[kept].tolist())
    return scene.answer("text", texts=(Text(text, score),) if score >= scene.threshold else ())


def _corners(corners: Any) -> np.ndarray:
    """(4, 2) float64. Raises ArgumentError."""
    try:
        array = np.array(corners, np.float64)
    except Exception:  # of whatever is no array of numbers
        array = np.empty(0)
    if array.shape != (4, 2) or not np.abs(array).max() <= MAX_SIDE:
        raise refused("corners", f"four pairs of x and y of at most {MAX_SIDE} pixels", corners)
    return array


def cut_out(picture: np.ndarray, corners: tuple[tuple[float, float], ...]) -> np.ndarray:
    """A line of text, upright: (H, W, 3) uint8 of a picture (H, W, 3) between four corners, bilinear.

    A line more than one and a half times as high as it is wide is turned by a quarter, to the left. Raises
    ArgumentError for another picture, and for what is no four corners on it or near it.
    """
    picture, ends = frame_of(picture, "RGB")[0], _corners(corners)
    a, b, c, d = clockwise(ends)
    width, height = (max(np.hypot(*side) for side in pair) for pair in ((b - a, c - d), (d - a, c - b)))
    w, h = max(round(width), 1), max(round(height), 1)
    u, v = ((np.arange(n) + 0.5) / n for n in (w, h))
    u, v = u[None, :, None], v[:, None, None]
    spots = (a * (1 - u) + b * u) * (1 - v) + (d * (1 - u) + c * u) * v - 0.5
    rows, columns = picture.shape[:2]
    spots = np.clip(spots, 0, (columns - 1, rows - 1))
    x, y = (np.minimum(spots[..., i].astype(int), max(n - 2, 0)) for i, n in ((0, columns), (1, rows)))
    right, below = spots[..., :1] - x[..., None], spots[..., 1:] - y[..., None]
    x1, y1 = np.minimum(x + 1, columns - 1), np.minimum(y + 1, rows - 1)
    upper = picture[y, x] * (1 - right) + picture[y, x1] * right
    lower = picture[y1, x] * (1 - right) + picture[y1, x1] * right
    line = np.rint(upper * (1 - below) + lower * below).astype(np.uint8)
    return np.rot90(line) if h > 1.5 * w else line
