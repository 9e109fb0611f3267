"""Detectors of a box in each cell of their maps: NanoDet, PicoDet, FastestDet, YuNet, CenterFace."""

from __future__ import annotations

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer
from .boxes import above, corners, select_boxes, sigmoid
from .decoder import Outputs, Scene, Signature, decoder
from .labels import COCO, FACE, FACE_POINTS
from .yolo import STRIDES
from .yolo_heads import distances

NANODET = Picture(channels="BGR", mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395))
IMAGENET = Picture(scale=255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
PLUS = (8, 16, 32, 64)  # strides of NanoDet-Plus and PicoDet
PLUS_BINS = 8


def _per_stride(signature: Signature, kinds: int, strides: tuple[int, ...]) -> list[int] | None:
    """Widths of the outputs (1, cells, width), ``kinds`` of each stride, ordered by kind; None where they are none."""
    shapes = signature.shapes
    if len(shapes) != kinds * len(strides) or {len(shape) for shape in shapes} != {3}:
        return None
    expected = [rows * columns for rows, columns in boxes.fields(signature.size, strides)]
    return [shape[2] for shape in shapes] if [shape[1] for shape in shapes] == expected * kinds else None


def _has_bins(signature: Signature, strides: tuple[int, ...]) -> bool:
    """Whether there are the scores of each stride, then the bins of each."""
    widths, count = _per_stride(signature, 2, strides), len(strides)
    return widths is not None and len({*widths[:count]}) == len({*widths[count:]}) == 1 and widths[count] % 4 == 0


def _of_bins(outputs: Outputs, scene: Scene, strides: tuple[int, ...]) -> Answer:
    count = len(strides)
    cells = np.split(boxes.grid(scene.size, strides), np.cumsum([y.shape[1] for y in outputs[: count - 1]]))
    parts = []
    for scores, bins, cell in zip(outputs[:count], outputs[count:], cells, strict=True):
        rows, labels = above(scores[0], scene.threshold)
        parts.append((distances(bins[0, rows], cell[rows], 0.5), scores[0, rows, labels], labels))
    edges, scores, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return scene.answer("detect", boxes=select_boxes(scene, edges, scores.astype(np.float64), labels)[1])


decoder(
    "nanodet",
    "detect",
    "NanoDet: for strides 8, 16, 32 the scores of classes, then bins of distances (GFL)",
    NANODET,
    lambda s: _has_bins(s, STRIDES),
    classes=lambda s: s.shapes[0][2],
    threshold=0.35,
    labels=COCO,
)(lambda outputs, scene: _of_bins(outputs, scene, STRIDES))
decoder(
    "picodet",
    "detect",
    "PicoDet: for strides 8, 16, 32, 64 the scores of classes, then bins of distances (GFL)",
    IMAGENET,
    lambda s: _has_bins(s, PLUS),
    classes=lambda s: s.shapes[0][2],
    threshold=0.4,
    labels=COCO,
)(lambda outputs, scene: _of_bins(outputs, scene, PLUS))


@decoder(
    "nanodet-plus",
    "detect",
    "NanoDet-Plus: (1, cells, classes + 4 x 8), scores and bins of distances, strides 8, 16, 32, 64",
    NANODET,
    lambda s: (
        len(s.shapes) == 1
        and len(s.shapes[0]) == 3
        and s.shapes[0][1] == boxes.cells(s.size, PLUS)
        and s.shapes[0][2] > 4 * PLUS_BINS
    ),
    likely=lambda s: s.called("nanodet"),
    classes=lambda s: s.shapes[0][2] - 4 * PLUS_BINS,
    threshold=0.35,
    labels=COCO,
)
def nanodet_plus(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    classes = y.shape[1] - 4 * PLUS_BINS
    rows, labels = above(y[:, :classes], scene.threshold)
    edges = distances(y[rows, classes:], boxes.grid(scene.size, PLUS)[rows], 0.0)
    return scene.answer("detect", boxes=select_boxes(scene, edges, y[rows, labels].astype(np.float64), labels)[1])


@decoder(
    "fastestdet",
    "detect",
    "FastestDet: (1, 5 + classes, H / 16, W / 16), objectness first; score = objectness^0.6 x class^0.4",
    Picture(channels="BGR", scale=255),
    lambda s: (
        len(s.shapes) == 1
        and len(s.shapes[0]) == 4
        and s.shapes[0][1] > 5
        and s.shapes[0][2:] == boxes.fields(s.size, (16,))[0]
    ),
    likely=lambda s: s.called("fastestdet") or s.shapes[0][1] == 5 + len(COCO),
    classes=lambda s: s.shapes[0][1] - 5,
    threshold=0.65,
    labels=COCO,
)
def fastestdet(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    rows, columns = np.nonzero(y[0] >= scene.threshold ** (1 / 0.6))
    chosen = y[:, rows, columns].astype(np.float64)
    labels = chosen[5:].argmax(0)
    scores = chosen[0] ** 0.6 * chosen[5 + labels, np.arange(len(rows))] ** 0.4
    good = scores >= scene.threshold
    chosen, (h, w) = chosen[:, good], scene.size
    x, y = (np.tanh(chosen[1]) + columns[good]) / y.shape[2], (np.tanh(chosen[2]) + rows[good]) / y.shape[1]
    sides = sigmoid(chosen[3:5])
    edges = corners(x * w, y * h, sides[0] * w, sides[1] * h)
    return scene.answer("detect", boxes=select_boxes(scene, edges, scores[good], labels[good])[1])


def _is_yunet(signature: Signature) -> bool:
    widths = _per_stride(signature, 4, STRIDES)
    return widths is not None and widths == [1] * 6 + [4] * 3 + [10] * 3


@decoder(
    "yunet",
    "detect",
    "YuNet faces: for strides 8, 16, 32 class, objectness, box, five points; score = sqrt(class x objectness)",
    Picture(channels="BGR"),
    _is_yunet,
    classes=lambda s: 1,
    threshold=0.6,
    iou=0.3,
    labels=FACE,
)
def yunet(outputs: Outputs, scene: Scene) -> Answer:
    classes, objects, edges, points = (np.concatenate(outputs[i : i + 3], 1)[0] for i in range(0, 12, 3))
    scores = np.sqrt(np.clip(classes[:, 0], 0, 1) * np.clip(objects[:, 0], 0, 1), dtype=np.float64)
    rows = np.flatnonzero(scores >= scene.threshold)
    cells, edges = boxes.grid(scene.size, STRIDES)[rows], edges[rows].astype(np.float64)
    middles, sides = (edges[:, :2] + cells[:, :2]) * cells[:, 2:], np.exp(np.minimum(edges[:, 2:], 50)) * cells[:, 2:]
    spots = (points[rows].reshape(-1, 5, 2) + cells[:, None, :2]) * cells[:, None, 2:]
    edges = corners(*middles.T, *sides.T)
    things = select_boxes(scene, edges, scores[rows], np.zeros(len(rows), int), spots)[1]
    return scene.answer("detect", boxes=things, point_names=FACE_POINTS)


def _is_centerface(signature: Signature) -> bool:
    return signature.shapes == tuple((1, n, *boxes.fields(signature.size, (4,))[0]) for n in (1, 2, 2, 10))


@decoder(
    "centerface",
    "detect",
    "CenterFace: at a quarter of the size a heat map, logarithms of height and width, offsets, five points",
    Picture(),
    _is_centerface,
    classes=lambda s: 1,
    threshold=0.5,
    iou=0.3,
    labels=FACE,
)
def centerface(outputs: Outputs, scene: Scene) -> Answer:
    heat, sizes, offsets, points = (y[0] for y in outputs)
    rows, columns = np.nonzero(heat[0] >= scene.threshold)
    h, w = np.exp(np.minimum(sizes[:, rows, columns].astype(np.float64), 50)) * 4
    top, left = offsets[:, rows, columns].astype(np.float64)
    edges = corners((columns + left + 0.5) * 4, (rows + top + 0.5) * 4, w, h)
    spots = points[:, rows, columns].T.reshape(-1, 5, 2)[..., ::-1] * np.stack((w, h), 1)[:, None] + edges[:, None, :2]
    scores = heat[0, rows, columns].astype(np.float64)
    things = select_boxes(scene, edges, scores, np.zeros(len(rows), int), spots)[1]
    return scene.answer("detect", boxes=things, point_names=FACE_POINTS)
