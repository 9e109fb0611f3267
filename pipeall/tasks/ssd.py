"""Detectors of boxes relative to anchors (priors): SSD and the face detectors made like it."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer
from .boxes import above, corners, logit, select_boxes, sigmoid
from .decoder import Outputs, Scene, Signature, decoder
from .labels import BLAZE_POINTS, FACE, FACE_POINTS

UNIT = Picture(mean=127.5, std=127.5)
ULTRA_SIZES = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}  # pixels of its anchors
RETINA_SIZES = {8: (16, 32), 16: (64, 128), 32: (256, 512)}
SSD_STRIDES = (16, 32, 64, 128, 256, 512)
BLAZE_STRIDES = (8, 16)  # with 2 and 6 anchors a cell
BLAZE_ANCHORS = (2, 6)


@lru_cache(maxsize=8)
def ssd_anchors(size: tuple[int, int]) -> np.ndarray:
    """(anchors, 4) x, y, width, height as shares of the input, as TensorFlow's detection API makes them.

    Scales 0.2 to 0.95 over six maps; proportions 1, 2, 1/2, 3, 1/3 and one between two scales; three in the first map.
    """
    scales = [0.2 + 0.75 * i / 5 for i in range(6)] + [1.0]
    parts = []
    for i, (rows, columns) in enumerate(boxes.fields(size, SSD_STRIDES)):
        kinds = [(1.0, scales[i]), (2.0, scales[i]), (0.5, scales[i]), (3.0, scales[i]), (1 / 3, scales[i])]
        kinds.append((1.0, sqrt(scales[i] * scales[i + 1])))
        if i == 0:
            kinds = [(1.0, 0.1), (2.0, 0.2), (0.5, 0.2)]
        sides = np.array([(scale * sqrt(ratio), scale / sqrt(ratio)) for ratio, scale in kinds])
        parts.append(_around(rows, columns, (1 / columns, 1 / rows), sides))
    return _frozen(np.concatenate(parts))


@lru_cache(maxsize=8)
def face_anchors(size: tuple[int, int], retina: bool) -> np.ndarray:
    """(anchors, 4) as ``ssd_anchors``: squares of fixed sizes; UltraFace has them clipped at 1."""
    h, w = size
    parts = []
    for stride, sizes in (RETINA_SIZES if retina else ULTRA_SIZES).items():
        ((rows, columns),) = boxes.fields(size, (stride,))
        steps = (stride / w, stride / h) if retina else (1 / columns, 1 / rows)
        parts.append(_around(rows, columns, steps, np.array([(side / w, side / h) for side in sizes])))
    anchors = np.concatenate(parts)
    return _frozen(anchors if retina else np.clip(anchors, 0, 1))


@lru_cache(maxsize=8)
def blaze_anchors(size: tuple[int, int]) -> np.ndarray:
    """(anchors, 2) x and y as shares of the input; all boxes are relative to its whole size."""
    parts = []
    for (rows, columns), count in zip(boxes.fields(size, BLAZE_STRIDES), BLAZE_ANCHORS, strict=True):
        parts.append(_around(rows, columns, (1 / columns, 1 / rows), np.ones((count, 2)))[:, :2])
    return _frozen(np.concatenate(parts))


def _around(rows: int, columns: int, steps: tuple[float, float], sides: np.ndarray) -> np.ndarray:
    """For each cell, row by row, an anchor of each width and height around its middle."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    middles = (np.stack((x, y), 1) + 0.5) * steps
    return np.concatenate((np.repeat(middles, len(sides), 0), np.tile(sides, (rows * columns, 1))), 1)


def _frozen(anchors: np.ndarray) -> np.ndarray:
    anchors.setflags(write=False)
    return anchors


def _pair(signature: Signature, count: int, width: int = 4) -> int | None:
    """Which of two outputs has the boxes, (1, count, width); the other one has as many rows. None: neither."""
    shapes = signature.shapes
    if len(shapes) != 2 or {shape[:2] for shape in shapes} != {(1, count)} or {len(shape) for shape in shapes} != {3}:
        return None
    return next((i for i in (0, 1) if shapes[i][2] == width), None)


def _ssd(signature: Signature) -> int | None:
    return _pair(signature, len(ssd_anchors(signature.size)))


@decoder(
    "ssd",
    "detect",
    "SSD of TensorFlow (MobileNet v1, v2): (1, anchors, 4) raw boxes and logits of classes, the first the background",
    UNIT,
    lambda s: _ssd(s) == 0 and s.shapes[1][2] > 1,
    likely=lambda s: not s.sources(1) & {"softmax", "sigmoid"},
    classes=lambda s: s.shapes[1][2],
    threshold=0.4,
)
def ssd(outputs: Outputs, scene: Scene) -> Answer:
    raw, logits = outputs[0][0], outputs[1][0]
    rows, labels = above(logits[:, 1:], logit(scene.threshold))
    anchors, raw = ssd_anchors(scene.size)[rows], raw[rows].astype(np.float64)
    y, x = (raw[:, :2] / 10 * anchors[:, :1:-1] + anchors[:, 1::-1]).T
    h, w = np.exp(np.minimum(raw[:, 2:] / 5, 50)).T * anchors[:, :1:-1].T
    scores = sigmoid(logits[rows, labels + 1])
    return _shares(scene, corners(x, y, w, h), scores, labels + 1)


def _shares(scene: Scene, edges: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Answer:
    h, w = scene.size
    return scene.answer("detect", boxes=select_boxes(scene, edges * (w, h, w, h), scores, labels)[1])


def _from_anchors(raw: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Boxes of rows of x, y and logarithms of sizes, in variances 0.1 and 0.2."""
    raw = raw.astype(np.float64)
    middles = raw[:, :2] * 0.1 * anchors[:, 2:] + anchors[:, :2]
    sides = np.exp(np.minimum(raw[:, 2:] * 0.2, 50)) * anchors[:, 2:]
    return corners(*middles.T, *sides.T)


ULTRA = Picture(mean=127, std=128)


def _ultra(signature: Signature) -> bool:
    count = len(face_anchors(signature.size, False))
    return _pair(signature, count) == 1 and signature.shapes[0][2] == 2


def _is_raw(signature: Signature) -> bool:
    return signature.sources(1) <= {"conv"}


@decoder(
    "ultraface",
    "detect",
    "UltraFace: (1, anchors, 2) scores, (1, anchors, 4) edges as shares of the sides",
    ULTRA,
    _ultra,
    likely=lambda s: not _is_raw(s),
    classes=lambda s: 1,
    threshold=0.7,
    iou=0.3,
    labels=FACE,
)
def ultraface(outputs: Outputs, scene: Scene) -> Answer:
    rows = np.flatnonzero(outputs[0][0, :, 1] >= scene.threshold)
    scores, edges = (y[0, rows].astype(np.float64) for y in outputs)
    return _shares(scene, edges, scores[:, 1], np.zeros(len(rows), int))


@decoder(
    "ultraface-raw",
    "detect",
    "UltraFace (raw): (1, anchors, 2) scores, (1, anchors, 4) boxes relative to anchors",
    ULTRA,
    _ultra,
    likely=_is_raw,
    classes=lambda s: 1,
    threshold=0.7,
    iou=0.3,
    labels=FACE,
)
def ultraface_raw(outputs: Outputs, scene: Scene) -> Answer:
    rows = np.flatnonzero(outputs[0][0, :, 1] >= scene.threshold)
    edges = _from_anchors(outputs[1][0, rows], face_anchors(scene.size, False)[rows])
    return _shares(scene, edges, outputs[0][0, rows, 1].astype(np.float64), np.zeros(len(rows), int))


def _is_retinaface(signature: Signature) -> bool:
    count = len(face_anchors(signature.size, True))
    return signature.shapes == tuple((1, count, n) for n in (4, 2, 10))


@decoder(
    "retinaface",
    "detect",
    "RetinaFace: (1, anchors, 4) raw boxes, (1, anchors, 2) scores, (1, anchors, 10) five points",
    Picture(channels="BGR", mean=(104, 117, 123)),
    _is_retinaface,
    classes=lambda s: 1,
    threshold=0.6,
    iou=0.4,
    labels=FACE,
)
def retinaface(outputs: Outputs, scene: Scene) -> Answer:
    raw, scores, points = (y[0] for y in outputs)
    rows = np.flatnonzero(scores[:, 1] >= scene.threshold)
    anchors, (h, w) = face_anchors(scene.size, True)[rows], scene.size
    edges = _from_anchors(raw[rows], anchors) * (w, h, w, h)
    spots = points[rows].reshape(-1, 5, 2).astype(np.float64) * 0.1 * anchors[:, None, 2:] + anchors[:, None, :2]
    scores = scores[rows, 1].astype(np.float64)
    things = select_boxes(scene, edges, scores, np.zeros(len(rows), int), spots * (w, h))[1]
    return scene.answer("detect", boxes=things, point_names=FACE_POINTS)


@decoder(
    "blazeface",
    "detect",
    "BlazeFace, short range: (1, 896, 16) box and six points relative to anchors, (1, 896, 1) logits",
    Picture(fit="letterbox", mean=127.5, std=127.5),
    lambda s: _pair(s, len(blaze_anchors(s.size)), 16) == 0 and s.shapes[1][2] == 1,
    classes=lambda s: 1,
    threshold=0.5,
    iou=0.3,
    labels=FACE,
)
def blazeface(outputs: Outputs, scene: Scene) -> Answer:
    raw, logits = outputs[0][0], outputs[1][0, :, 0]
    rows = np.flatnonzero(logits >= logit(scene.threshold))
    h, w = scene.size
    raw = raw[rows].astype(np.float64).reshape(-1, 8, 2)  # middle, size, six points, in pixels
    middles = blaze_anchors(scene.size)[rows] * (w, h)
    spots = raw[:, 2:] + middles[:, None]
    edges = corners(*(raw[:, 0] + middles).T, *raw[:, 1].T)
    things = select_boxes(scene, edges, sigmoid(logits[rows]), np.zeros(len(rows), int), spots)[1]
    return scene.answer("detect", boxes=things, point_names=BLAZE_POINTS)
