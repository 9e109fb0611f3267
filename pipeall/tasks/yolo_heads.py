"""YOLO without its decoding: what the last convolutions give, map by map."""

from __future__ import annotations

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer
from .boxes import corners, logit, select_boxes, sigmoid
from .decoder import Outputs, Scene, Signature, decoder
from .labels import COCO
from .yolo import STRIDES, ULTRALYTICS

# Width and height of the anchors in pixels: stride -> three
V3 = {8: ((10, 13), (16, 30), (33, 23)), 16: ((30, 61), (62, 45), (59, 119)), 32: ((116, 90), (156, 198), (373, 326))}
V4 = {8: ((12, 16), (19, 36), (40, 28)), 16: ((36, 75), (76, 55), (72, 146)), 32: ((142, 110), (192, 243), (459, 401))}
TINY3 = {16: ((10, 14), (23, 27), (37, 58)), 32: ((81, 82), (135, 169), (344, 319))}
TINY4 = {16: ((23, 27), (37, 58), (81, 82)), 32: ((81, 82), (135, 169), (344, 319))}
SPREAD = {8: 1.2, 16: 1.1, 32: 1.05}  # of YOLO v4: how far a middle may leave its cell
DARKNET = Picture(fit="letterbox", value=128, scale=255)
BINS = 16  # of each distance of YOLO v8


def maps_of(shapes: list[tuple[int, ...]], size: tuple[int, int], strides: tuple[int, ...]) -> list[int] | None:
    """Which output is the map of each stride; None where they are no such maps. Layouts: see ``_anchored``."""
    order = []
    for field in boxes.fields(size, strides):
        fitting = [i for i, shape in enumerate(shapes) if field in _field(shape)]
        order += fitting[:1]
    return order if len(order) == len(shapes) == len(strides) == len(set(order)) else None


def _field(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Rows and columns, as either layout has them."""
    if len(shape) == 5:  # (1, 3, H, W, numbers) or (1, H, W, 3, numbers)
        return [shape[2:4], shape[1:3]]
    return [shape[2:4], shape[1:3]] if len(shape) == 4 else []


def _anchored(y: np.ndarray, field: tuple[int, int]) -> np.ndarray:
    """(3, rows, columns, 5 + classes) of any layout: the numbers in front, last, or with anchors apart."""
    y = y[0]
    if y.ndim == 4:
        return y if y.shape[1:3] == field else np.moveaxis(y, 2, 0)
    if y.shape[1:] == field:
        return np.moveaxis(y.reshape(3, -1, *field), 1, 3)
    return np.moveaxis(y.reshape(*field, 3, -1), 2, 0)


def _numbers(shape: tuple[int, ...], field: tuple[int, int]) -> int:
    """How many each anchor has; 0 where the output is no such map."""
    if len(shape) == 5:
        anchors = shape[1] if shape[2:4] == field else shape[3]
        return shape[4] if anchors == 3 else 0
    channels = shape[1] if shape[2:] == field else shape[3]
    return channels // 3 if channels % 3 == 0 else 0


def _classes(signature: Signature) -> int:
    """How many each of three anchors has, the same in all outputs; 0 where they are no maps of anchors."""
    shapes = list(signature.shapes)
    strides = STRIDES if len(shapes) == 3 else STRIDES[1:]
    order = maps_of(shapes, signature.size, strides)
    if order is None:
        return 0
    numbers = {
        _numbers(shapes[i], field) for i, field in zip(order, boxes.fields(signature.size, strides), strict=True)
    }
    return max(numbers.pop() - 5, 0) if len(numbers) == 1 else 0


def _decoded(outputs: Outputs, scene: Scene, anchors: dict[int, tuple], box: str) -> Answer:
    """``box``: how a box comes of four numbers: exp (v3), spread (v4) or square (v5, v7)."""
    strides = tuple(anchors)
    order = maps_of([y.shape for y in outputs], scene.size, strides)
    least, parts = logit(scene.threshold), []
    for stride, index, field in zip(strides, order, boxes.fields(scene.size, strides), strict=True):
        y = _anchored(outputs[index], field)
        anchor, row, column = np.nonzero(y[..., 4] >= least)
        y = y[anchor, row, column].astype(np.float64)
        labels = y[:, 5:].argmax(1)
        scores = sigmoid(y[:, 4]) * sigmoid(y[np.arange(len(y)), 5 + labels])
        cell, sides = np.stack((column, row), 1), np.array(anchors[stride], np.float64)[anchor]
        near = sigmoid(y[:, :2])
        if box == "square":
            middles, sides = (2 * near - 0.5 + cell) * stride, (2 * sigmoid(y[:, 2:4])) ** 2 * sides
        else:
            spread = SPREAD[stride] if box == "spread" else 1.0
            middles = (near * spread - (spread - 1) / 2 + cell) * stride
            sides = np.exp(np.minimum(y[:, 2:4], 50)) * sides
        parts.append((corners(*middles.T, *sides.T), scores, labels))
    edges, scores, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    good = scores >= scene.threshold
    return scene.answer("detect", boxes=select_boxes(scene, edges[good], scores[good], labels[good])[1])


def _family(name: str, words: tuple[str, ...], about: str, picture: Picture, large: dict, tiny: dict, box: str) -> None:
    decoder(
        f"{name}-heads",
        "detect",
        f"{about}: maps of 3 anchors x (5 + classes) at a 32nd, 16th (and 8th) of the size, before the sigmoid",
        picture,
        lambda s: _classes(s) > 0,
        likely=lambda s: s.called(*words) and s.sources() <= {"conv"},
        classes=_classes,
        threshold=0.25,
        labels=COCO,
    )(lambda outputs, scene: _decoded(outputs, scene, large if len(outputs) == 3 else tiny, box))


_family("yolov3", ("yolov3", "yolo-v3", "yolo3"), "YOLO v3, v3 tiny", DARKNET, V3, TINY3, "exp")
_family("yolov4", ("yolov4", "yolo-v4", "yolo4"), "YOLO v4, v4 tiny", DARKNET, V4, TINY4, "spread")
_family("yolov5", ("yolov5",), "YOLO v5", ULTRALYTICS, V3, TINY3, "square")
_family("yolov7", ("yolov7",), "YOLO v7, v7 tiny", ULTRALYTICS, V4, TINY4, "square")


@decoder(
    "yolov4",
    "detect",
    "YOLO v4 as its PyTorch version exports it: (1, boxes, 1, 4) edges as shares of the sides, (1, boxes, classes)",
    Picture(scale=255),
    lambda s: len(s.shapes) == 2 and s.shapes[0][2:] == (1, 4) and s.shapes[1][:2] == s.shapes[0][:2],
    classes=lambda s: s.shapes[1][2],
    threshold=0.4,
    iou=0.6,
    labels=COCO,
)
def yolov4(outputs: Outputs, scene: Scene) -> Answer:
    shares, of_classes = outputs[0][0, :, 0], outputs[1][0]
    rows, labels = boxes.above(of_classes, scene.threshold)
    h, w = scene.size
    edges = shares[rows].astype(np.float64) * (w, h, w, h)
    return scene.answer(
        "detect", boxes=select_boxes(scene, edges, of_classes[rows, labels].astype(np.float64), labels)[1]
    )


def _v8_maps(signature: Signature) -> bool:
    shapes = signature.shapes
    order = maps_of(list(shapes), signature.size, STRIDES) if {len(shape) for shape in shapes} == {4} else None
    return order is not None and {shape[1] for shape in shapes} == {shapes[0][1]} and shapes[0][1] > 4 * BINS


@decoder(
    "yolov8-heads",
    "detect",
    "YOLO v8, v9, 11, 12 without their decoding: maps of 4 x 16 bins of distances and logits of classes",
    ULTRALYTICS,
    _v8_maps,
    likely=lambda s: not s.called("yolov3", "yolov4", "yolov5", "yolov7"),
    classes=lambda s: s.shapes[0][1] - 4 * BINS,
    threshold=0.25,
    labels=COCO,
)
def yolov8_heads(outputs: Outputs, scene: Scene) -> Answer:
    order = maps_of([y.shape for y in outputs], scene.size, STRIDES)
    y = np.concatenate([outputs[i].reshape(outputs[i].shape[1], -1) for i in order], 1)
    flat = np.flatnonzero(y[4 * BINS :].reshape(-1) >= logit(scene.threshold))
    cells = np.unique(flat % y.shape[1])
    logits = y[4 * BINS :, cells]
    labels = logits.argmax(0)
    edges = distances(y[: 4 * BINS, cells].T, boxes.grid(scene.size, STRIDES)[cells], 0.5)
    return scene.answer("detect", boxes=select_boxes(scene, edges, sigmoid(logits.max(0, initial=-np.inf)), labels)[1])


def distances(bins: np.ndarray, cells: np.ndarray, middle: float) -> np.ndarray:
    """Boxes of (cells, 4 x bins): how likely each distance to the four edges is, in strides from a cell's point.

    Source: generalized focal loss, arXiv 2006.04388.
    """
    bins = bins.reshape(len(bins), 4, bins.shape[1] // 4).astype(np.float64)
    bins = np.exp(bins - bins.max(2, keepdims=True))
    sides = (bins @ np.arange(bins.shape[2])) / bins.sum(2)
    points = cells[:, :2] + middle
    return np.concatenate((points - sides[:, :2], points + sides[:, 2:]), 1) * cells[:, 2:]
