"""YOLO as exporters leave it: one row or column of numbers for each cell or anchor, most of it decoded already."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer, Box, Mask
from .boxes import corners, select_boxes
from .decoder import Outputs, Scene, Signature, decoder
from .labels import COCO, COCO_POINTS, PERSON, from_metadata

STRIDES = (8, 16, 32)
STRIDE_SETS = (STRIDES, (8, 16, 32, 64), (4, 8, 16, 32), (16, 32))
YOLOX = Picture(fit="letterbox", value=114, channels="BGR", centered=False)
ULTRALYTICS = Picture(fit="letterbox", value=114, scale=255)
MASKS = 32  # coefficients of a mask
POSE = 17 * 3


def _rows(signature: Signature, anchors: int) -> bool:
    """Whether there is one output (1, rows, 5 or more) with so many rows for each cell."""
    shapes = signature.shapes
    if len(shapes) != 1 or len(shapes[0]) != 3 or shapes[0][2] < 6:
        return False
    return any(shapes[0][1] == anchors * boxes.cells(signature.size, strides) for strides in STRIDE_SETS)


def _columns(signature: Signature) -> bool:
    """Whether the first output is (1, 5 or more, cells); of other cells where the file names as many classes."""
    shape = signature.shapes[0]
    if len(shape) != 3 or shape[1] < 5:
        return False
    if signature.metadata.get("task") == "detect" and len(from_metadata(signature.metadata)) == shape[1] - 4:
        return True
    return any(shape[2] == boxes.cells(signature.size, strides) for strides in STRIDE_SETS)


def _prototypes(signature: Signature) -> bool:
    """Whether the second of two outputs has the masks: (1, 32, H / 4, W / 4)."""
    h, w = signature.size
    return len(signature.shapes) == 2 and signature.shapes[1] == (1, MASKS, -(-h // 4), -(-w // 4))


def _raw(signature: Signature) -> bool:
    """Whether nothing but a sigmoid comes behind the last convolutions."""
    return signature.sources() <= {"conv", "sigmoid"}


def _said(signature: Signature, task: str) -> bool:
    """Whether this is what the file says of itself, or it says nothing."""
    return signature.metadata.get("task", task) == task


def _with_objectness(y: np.ndarray, least: float, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of (rows, 4 + 1 + classes + ...) that count, their scores and classes. Class scores are at most 1."""
    rows = np.flatnonzero(y[:, 4] >= least)
    of_classes = y[rows, 5 : 5 + classes]
    labels = of_classes.argmax(1)
    scores = y[rows, 4].astype(np.float64) * of_classes[np.arange(len(rows)), labels]
    good = scores >= least
    return rows[good], scores[good], labels[good]


@decoder(
    "yolox",
    "detect",
    "YOLOX (raw): (1, cells, 5 + classes), middles in cells, logarithms of sizes, objectness",
    YOLOX,
    lambda s: _rows(s, 1),
    likely=lambda s: _raw(s) and not s.called("nanodet"),
    classes=lambda s: s.shapes[0][2] - 5,
    threshold=0.3,
    labels=COCO,
)
def yolox(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    strides = next(each for each in STRIDE_SETS if boxes.cells(scene.size, each) == len(y))
    rows, scores, labels = _with_objectness(y, scene.threshold, y.shape[1] - 5)
    cells, y = boxes.grid(scene.size, strides)[rows], y[rows, :4].astype(np.float64)
    middles, sides = (y[:, :2] + cells[:, :2]) * cells[:, 2:], np.exp(np.minimum(y[:, 2:], 50)) * cells[:, 2:]
    return scene.answer("detect", boxes=select_boxes(scene, corners(*middles.T, *sides.T), scores, labels)[1])


def _decoded(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    rows, scores, labels = _with_objectness(y, scene.threshold, y.shape[1] - 5)
    edges = corners(*y[rows, :4].astype(np.float64).T)
    return scene.answer("detect", boxes=select_boxes(scene, edges, scores, labels)[1])


decoder(
    "yolov5",
    "detect",
    "YOLO v3, v5, v7 as Ultralytics and its like export them: (1, 3 cells, 5 + classes), boxes in pixels, objectness",
    ULTRALYTICS,
    lambda s: _rows(s, 3),
    likely=lambda s: _said(s, "detect"),
    classes=lambda s: s.shapes[0][2] - 5,
    threshold=0.25,
    labels=COCO,
)(_decoded)
decoder(
    "yolov6",
    "detect",
    "YOLO v6: (1, cells, 5 + classes), boxes in pixels, objectness",
    ULTRALYTICS,
    lambda s: _rows(s, 1),
    likely=lambda s: not _raw(s) and not s.called("nanodet", "yolox"),
    classes=lambda s: s.shapes[0][2] - 5,
    threshold=0.25,
    labels=COCO,
)(_decoded)


decoder(
    "yolox-decoded",
    "detect",
    "YOLOX exported with its decoding: (1, cells, 5 + classes), boxes in pixels, objectness",
    YOLOX,
    lambda s: _rows(s, 1),
    likely=lambda s: not _raw(s) and s.called("yolox"),
    classes=lambda s: s.shapes[0][2] - 5,
    threshold=0.3,
    labels=COCO,
)(_decoded)


@decoder(
    "yolov5-seg",
    "segment",
    "YOLO v5 with masks: (1, 3 cells, 5 + classes + 32) and (1, 32, H / 4, W / 4)",
    ULTRALYTICS,
    lambda s: (
        len(s.shapes[0]) == 3
        and s.shapes[0][1] == 3 * boxes.cells(s.size, STRIDES)
        and s.shapes[0][2] > 5 + MASKS
        and _prototypes(s)
    ),
    classes=lambda s: s.shapes[0][2] - 5 - MASKS,
    threshold=0.25,
    labels=COCO,
)
def yolov5_seg(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    rows, scores, labels = _with_objectness(y, scene.threshold, y.shape[1] - 5 - MASKS)
    edges = corners(*y[rows, :4].astype(np.float64).T)
    kept, things = select_boxes(scene, edges, scores, labels)
    masks = _masks(scene, edges[kept], y[rows[kept], -MASKS:], outputs[1][0])
    return scene.answer("segment", boxes=_masked(things, masks))


def _anchor_free(y: np.ndarray, least: float, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns of (4 + classes + ..., cells) that count, their boxes, scores and classes."""
    of_classes = y[4 : 4 + classes]
    columns = np.unique(np.flatnonzero(of_classes.reshape(-1) >= least) % y.shape[1])
    chosen = of_classes[:, columns]
    labels = chosen.argmax(0)
    scores = chosen[labels, np.arange(len(columns))].astype(np.float64)
    return columns, corners(*y[:4, columns].astype(np.float64)), scores, labels


@decoder(
    "yolov8",
    "detect",
    "YOLO v8, v9, 11, 12: (1, 4 + classes, cells), boxes in pixels",
    ULTRALYTICS,
    lambda s: len(s.shapes) == 1 and _columns(s),
    likely=lambda s: _said(s, "detect") and not _is_pose(s),
    classes=lambda s: s.shapes[0][1] - 4,
    threshold=0.25,
    labels=COCO,
)
def yolov8(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    _, edges, scores, labels = _anchor_free(y, scene.threshold, len(y) - 4)
    return scene.answer("detect", boxes=select_boxes(scene, edges, scores, labels)[1])


@decoder(
    "yolov8-seg",
    "segment",
    "YOLO v8, v9, 11, 12 with masks: (1, 4 + classes + 32, cells) and (1, 32, H / 4, W / 4)",
    ULTRALYTICS,
    lambda s: _columns(s) and s.shapes[0][1] > 4 + MASKS and _prototypes(s),
    classes=lambda s: s.shapes[0][1] - 4 - MASKS,
    threshold=0.25,
    labels=COCO,
)
def yolov8_seg(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    columns, edges, scores, labels = _anchor_free(y, scene.threshold, len(y) - 4 - MASKS)
    kept, things = select_boxes(scene, edges, scores, labels)
    masks = _masks(scene, edges[kept], y[-MASKS:, columns[kept]].T, outputs[1][0])
    return scene.answer("segment", boxes=_masked(things, masks))


def _is_pose(signature: Signature) -> bool:
    metadata = signature.metadata
    return metadata.get("task") == "pose" or ("task" not in metadata and signature.shapes[0][1] == 5 + POSE)


@decoder(
    "yolov8-pose",
    "points",
    "YOLO v8, 11, 12 with key points: (1, 4 + 1 + 3 x points, cells), points in pixels, as a person's 17 or others",
    ULTRALYTICS,
    lambda s: len(s.shapes) == 1 and _columns(s) and s.shapes[0][1] % 3 == 2 and s.shapes[0][1] > 5,
    likely=_is_pose,
    classes=lambda s: 1,
    threshold=0.25,
    labels=PERSON,
)
def yolov8_pose(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    columns, edges, scores, labels = _anchor_free(y, scene.threshold, 1)
    points = y[5:, columns].T.reshape(len(columns), -1, 3).astype(np.float64)
    things = select_boxes(scene, edges, scores, labels, points)[1]
    return scene.answer("points", boxes=things, point_names=COCO_POINTS if len(y) == 5 + POSE else ())


def _named(signature: Signature) -> int:
    """As many classes as the file names; else COCO's."""
    return len(from_metadata(signature.metadata)) or len(COCO)


@decoder(
    "yolov10",
    "detect",
    "YOLO v10, 26 and others end to end: (1, boxes, 6), edges in pixels, score, class; nothing left to suppress",
    ULTRALYTICS,
    lambda s: len(s.shapes) == 1 and len(s.shapes[0]) == 3 and s.shapes[0][2] == 6 and s.shapes[0][1] <= 1000,
    likely=lambda s: not _rows(s, 3) and _said(s, "detect"),
    classes=_named,
    threshold=0.25,
    labels=COCO,
)
def yolov10(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0][0]
    y = y[y[:, 4] >= scene.threshold].astype(np.float64)
    kept = np.argsort(-y[:, 4], kind="stable")[: scene.most]
    things = boxes.placed(scene, kept, y[:, :4], y[:, 4], np.maximum(y[:, 5], 0).astype(int), None)[1]
    return scene.answer("detect", boxes=things)


def _masks(scene: Scene, edges: np.ndarray, coefficients: np.ndarray, prototypes: np.ndarray) -> list[Mask]:
    """Of each box: sigmoid(coefficients x prototypes) in the cells that it touches."""
    _, rows, columns = prototypes.shape
    h, w = scene.size
    scaled = edges * (columns / w, rows / h, columns / w, rows / h)
    low = np.clip(np.floor(scaled[:, :2]), 0, (columns - 1, rows - 1)).astype(int)
    high = np.clip(np.ceil(scaled[:, 2:]), low + 1, (columns, rows)).astype(int)
    masks = []
    for (left, top), (right, bottom), factors in zip(low.tolist(), high.tolist(), coefficients, strict=True):
        values = boxes.sigmoid(np.tensordot(factors, prototypes[:, top:bottom, left:right], 1)).astype(np.float32)
        region = boxes.region(scene, left / columns, top / rows, right / columns, bottom / rows)
        masks.append(Mask(values, region, scene.placed.size))
    return masks


def _masked(things: tuple[Box, ...], masks: list[Mask]) -> tuple[Box, ...]:
    return tuple(replace(thing, mask=mask) for thing, mask in zip(things, masks, strict=True))
