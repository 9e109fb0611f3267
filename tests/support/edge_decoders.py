"""What the outputs of the networks of edge/ mean, as edge.json says: boxes and classes, key points, masks, text.

``same`` compares two results. Detections, classes and characters must be identical. So must masks, but for pixels that
stand within the tolerance of the threshold or between two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

Arrays = dict[str, np.ndarray]
Decoder = Callable[[Arrays], Iterable[np.ndarray]]
OVERLAP = 0.45


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def cells(h: int, w: int) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of each cell, row by row."""
    rows, columns = np.divmod(np.arange(h * w), w)
    return columns.astype(float), rows.astype(float)


def suppressed(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, least: float) -> list[np.ndarray]:
    """Indices and classes of the boxes (N, 4: left, top, right, bottom) that are left, the best first."""
    left = [i for i in np.argsort(-scores, kind="stable") if scores[i] > least]
    kept: list[int] = []
    while left:
        best = left.pop(0)
        kept.append(best)
        left = [i for i in left if classes[i] != classes[best] or overlap(boxes[i], boxes[best]) <= OVERLAP]
    return [np.array(kept, int), classes[kept]]


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = np.prod(np.maximum(sides, 0))
    return common / max(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common, 1e-12)


def around(x: np.ndarray, y: np.ndarray, w: np.ndarray, h: np.ndarray) -> np.ndarray:
    return np.stack((x - w / 2, y - h / 2, x + w / 2, y + h / 2), 1)


# ---- boxes and classes ----


def yolox(outputs: Arrays, size: int = 416) -> list[np.ndarray]:
    rows = outputs["output"][0].astype(float)
    grids = [(stride, *cells(size // stride, size // stride)) for stride in (8, 16, 32)]
    strides = np.concatenate([np.full(len(x), stride) for stride, x, _ in grids])
    columns, lines = (np.concatenate([grid[k] for grid in grids]) for k in (1, 2))
    sides = np.exp(rows[:, 2:4]) * strides[:, None]
    boxes = around((rows[:, 0] + columns) * strides, (rows[:, 1] + lines) * strides, *sides.T)
    classes = rows[:, 5:].argmax(1)
    return suppressed(boxes, rows[:, 4] * rows[:, 5:].max(1), classes, 0.3)


def nanodet(outputs: Arrays, size: int = 320) -> list[np.ndarray]:
    boxes, scores = [], []
    for stride in (8, 16, 32):
        bins = outputs[f"dis_pred_stride_{stride}"].reshape(-1, 4, 8).astype(float)
        bins = np.exp(bins - bins.max(2, keepdims=True))
        left, top, right, bottom = (bins / bins.sum(2, keepdims=True) @ np.arange(8)).T * stride
        x, y = ((grid + 0.5) * stride for grid in cells(size // stride, size // stride))
        boxes.append(np.stack((x - left, y - top, x + right, y + bottom), 1))
        scores.append(outputs[f"cls_pred_stride_{stride}"].reshape(-1, 80))
    scores = np.concatenate(scores)
    return suppressed(np.concatenate(boxes), scores.max(1), scores.argmax(1), 0.35)


def fastestdet(outputs: Arrays) -> list[np.ndarray]:
    rows = outputs["758"][0].astype(float)
    side, rows = rows.shape[1], rows.reshape(len(rows), -1)
    x, y = cells(side, side)
    boxes = around((np.tanh(rows[1]) + x) / side, (np.tanh(rows[2]) + y) / side, *sigmoid(rows[3:5]))
    return suppressed(boxes, rows[0] ** 0.6 * rows[5:].max(0) ** 0.4, rows[5:].argmax(0), 0.65)


def passed(scores: np.ndarray, least: float) -> list[np.ndarray]:
    """Which rows of (N, classes) have a score above, and their classes."""
    rows = np.flatnonzero(scores.max(1) > least)
    return [rows, scores[rows].argmax(1)]


def yunet(outputs: Arrays) -> Iterable[np.ndarray]:
    for stride in (8, 16, 32):
        product = outputs[f"cls_{stride}"].astype(float) * outputs[f"obj_{stride}"]
        yield from passed(np.sqrt(product.reshape(-1, 1)), 0.6)


def peaks(heat: np.ndarray, least: float) -> list[np.ndarray]:
    """Pixels of (H, W) above that are no smaller than their neighbours."""
    padded = np.pad(heat, 1, constant_values=-np.inf)
    h, w = heat.shape
    highest = np.max([padded[i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=0)
    return [np.flatnonzero((heat == highest) & (heat > least))]


# ---- masks ----


def classes_of(logits: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """The class of each pixel of (..., classes), and whether it is clear."""
    if logits.shape[-1] == 1:
        return logits[..., 0] > 0.5, np.abs(logits[..., 0] - 0.5) > tolerance
    ranked = np.sort(logits, -1)
    return logits.argmax(-1), ranked[..., -1] - ranked[..., -2] > 2 * tolerance * np.abs(logits).max()


def last(y: np.ndarray, layout: str) -> np.ndarray:
    return np.moveaxis(y, 1, -1) if layout == "NCHW" else y


# ---- text ----


def spoken(steps: np.ndarray) -> list[np.ndarray]:
    """CTC of (1, steps, characters): the likeliest of each step, repeats and blanks (0) left out."""
    best = steps[0].argmax(1)
    new = np.concatenate(([True], best[1:] != best[:-1]))
    return [best[new & (best != 0)]]


def likeliest(*names: str) -> Decoder:
    """The class of each row of these outputs, or of all."""
    return lambda y: [y[name].reshape(len(y[name]), -1).argmax(1) for name in names or y]


DECODERS: dict[str, Decoder] = {
    "yolox_nano_416": yolox,
    "nanodet_m_320": nanodet,
    "fastestdet_352": fastestdet,
    "ssd_mobilenetv2_oidv4_fp16": lambda y: passed(sigmoid(y["raw_outputs/class_predictions"][0])[:, 1:], 0.4),
    "ultraface_version-RFB-320_simplified": lambda y: passed(y["scores"][0, :, 1:], 0.7),
    "yunet_n_dynamic": yunet,
    "centerface": lambda y: peaks(y["537"][0, 0], 0.35),
    "retinaface_mbnet025": lambda y: passed(y["conf"][0, :, 1:], 0.6),
    "face_detection_short_range": lambda y: passed(sigmoid(y["classificators"][0]), 0.5),
    "face_landmark": lambda y: [y["conv2d_31"].ravel() > 0],
    "hand_landmark_lite": lambda y: [y["Identity_1"].ravel() > 0.5, y["Identity_2"].ravel() > 0.5],
    "pose_landmark_full": lambda y: [y["Identity_1"].ravel() > 0.5],
    "bodypix_mnv1_x050_s16": lambda y: [y["heatmaps"].reshape(-1, 17).argmax(0)],
    "ch_PP-OCRv4_rec_infer": lambda y: spoken(y["softmax_11.tmp_0"]),
    "ch_ppocr_mobile_v2.0_cls_infer": likeliest(),
    "nanotrackv2_head": likeliest("output1"),
    "mlperf_tiny_ic_resnet8_float": likeliest(),
    "mlperf_tiny_vww_float": likeliest(),
}
MASKS: dict[str, tuple[str, str]] = {  # output, layout
    "deeplab_v3_mnv2_257": ("ResizeBilinear_3", "NHWC"),
    "road_segmentation_adas_0001": ("tf.identity", "NHWC"),
    "selfie_segmentation": ("activation_10", "NHWC"),
    "prisma_portrait_seg_nchw": ("permute_2", "NCHW"),
    "ch_PP-OCRv4_det_infer": ("sigmoid_0.tmp_0", "NCHW"),
}


def same(name: str, found: Arrays, expected: Arrays, tolerance: float) -> bool:
    """Whether two results of a network say the same. True of those that say nothing but numbers (an embedding)."""
    if name in MASKS:
        output, layout = MASKS[name]
        ours, theirs = (classes_of(last(y[output], layout), tolerance) for y in (found, expected))
        return bool(np.array_equal(ours[0][theirs[1]], theirs[0][theirs[1]]))
    decode = DECODERS.get(name)
    return decode is None or equal(list(decode(found)), list(decode(expected)))


def equal(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
