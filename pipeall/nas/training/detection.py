"""Detectors: what the numbers of each cell mean, the loss that trains them, and mean average precision.

The output layer gives 4 + classes numbers for each cell of one map. The sigmoids of the first four are the distances
from the cell's middle to the left, top, right and bottom edge of a box, as shares of the picture's longer side; the
others' are how sure each class is (as in YOLO from v6 on, and in FCOS: Tian et al. 2019).

Boxes of samples are float32 (samples, most, 5): class, left, top, right, bottom in pixels; class -1 where there is
none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tasks.boxes import above, corners, overlaps, sigmoid, suppressed

EDGES = 4
RARE, NEAR = 0.01, 0.1  # what a new network says: classes are rare (Lin et al. 2017), edges near
BOX_WEIGHT = 2.0  # of the loss of boxes
IOU = 0.5  # from which on a box is right
LEAST, SUPPRESSED, MOST = 0.01, 0.45, 100  # score, overlap and number of boxes that mean average precision looks at


def first_biases(outputs: int) -> np.ndarray:
    """Of the output layer."""
    return np.log([p / (1 - p) for p in (NEAR,) * EDGES + (RARE,) * (outputs - EDGES)]).astype(np.float32)


def cells(picture: tuple[int, int], field: tuple[int, int]) -> np.ndarray:
    """(2, rows, columns): x and y of the middles of a map's cells, in pixels of the picture (height, width)."""
    y, x = ((np.arange(count) + 0.5) * length / count for length, count in zip(picture, field, strict=True))
    return np.stack(np.meshgrid(x, y)).astype(np.float32)


def mixing(picture: tuple[int, int], field: tuple[int, int], outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """What makes of sigmoids the rows of ``decoded``: a matrix (outputs, outputs), and the cells' middles (1, outputs,
    rows, columns), which are added."""
    matrix, added = np.eye(outputs), np.zeros((1, outputs, *field))
    half = max(picture) / 2
    matrix[:EDGES, :EDGES] = half * np.array([[-1, 0, 1, 0], [0, -1, 0, 1], [2, 0, 2, 0], [0, 2, 0, 2]])
    added[0, :2] = cells(picture, field)
    return matrix, added


def decoded(logits: np.ndarray, picture: tuple[int, int]) -> np.ndarray:
    """(samples, 4 + classes, cells): x and y of a box's middle, its width and height in pixels, scores of classes. The
    layout of YOLO v8."""
    shares = sigmoid(logits).reshape(*logits.shape[:2], -1)
    x, y = cells(picture, logits.shape[2:]).reshape(2, -1)
    left, top, right, bottom = np.moveaxis(max(picture) * shares[:, :EDGES], 1, 0)
    boxes = [x + (right - left) / 2, y + (bottom - top) / 2, left + right, top + bottom]
    return np.concatenate((np.stack(boxes, 1), shares[:, EDGES:]), 1).astype(np.float32)


def loss(torch: Any, logits: Any, y: Any, picture: tuple[int, int]) -> Any:
    """Binary cross-entropy of all classes in all cells, and ``BOX_WEIGHT`` times 1 - IoU of the boxes of cells that
    have one; the sum over all samples, divided by how many such cells there are.

    A cell has the smallest box of those in whose central half its middle lies, or that have their middle in the cell.

    torch      the module
    logits, y  tensors: maps (samples, 4 + classes, rows, columns), boxes
    """
    points = torch.tensor(cells(picture, logits.shape[2:]), device=logits.device).flatten(1)  # (2, cells)
    size = torch.tensor([picture[1] / logits.shape[3], picture[0] / logits.shape[2]], device=logits.device)
    low, high = y[..., 1:3], y[..., 3:5]  # (samples, most, 2)
    reach = torch.maximum((high - low) / 4, size / 2)[..., None]
    near = ((points - ((low + high) / 2)[..., None]).abs() <= reach).all(2) & (y[..., :1] >= 0)
    area = torch.where(near, (high - low).prod(-1, keepdim=True), torch.inf)
    sample, cell = near.any(1).nonzero(as_tuple=True)
    box = y[sample, area.argmin(1)[sample, cell]]  # of each cell that has one
    values = logits.flatten(2)
    wanted = torch.zeros_like(values[:, EDGES:])
    wanted[sample, box[:, 0].long(), cell] = 1
    of_classes = torch.nn.functional.binary_cross_entropy_with_logits(values[:, EDGES:], wanted, reduction="sum")
    distances = max(picture) * values[sample, :EDGES, cell].sigmoid()
    own, at = distances.unflatten(1, (2, 2)), points.T[cell]
    own_low, own_high = at - own[:, 0], at + own[:, 1]
    common = (torch.minimum(own_high, box[:, 3:]) - torch.maximum(own_low, box[:, 1:3])).clamp(min=0).prod(1)
    areas = (own_high - own_low).prod(1) + (box[:, 3:] - box[:, 1:3]).prod(1)
    of_boxes = (1 - common / (areas - common).clamp(min=1e-6)).sum()
    return (of_classes + BOX_WEIGHT * of_boxes) / max(1, len(cell))


def found(output: np.ndarray) -> np.ndarray:
    """(boxes, 6): edges, score and class of the boxes that one sample of ``decoded`` has, each thing once."""
    scores = output[EDGES:].T
    rows, labels = above(scores, LEAST)
    edges, scores = corners(*output[:EDGES, rows].astype(np.float64)), scores[rows, labels].astype(np.float64)
    kept = suppressed(edges, scores, labels, SUPPRESSED, MOST)
    return np.column_stack((edges, scores, labels))[kept]


def average_precision(output: np.ndarray, y: np.ndarray, iou: float = IOU) -> float:
    """The mean over classes of the area under precision against recall (every point, as in PASCAL VOC from 2010 on).

    The surest box comes first. It is right if it overlaps a box of its class by ``iou``, which no surer one has taken.

    output  of ``predict`` (samples, 4 + classes, cells); ``y``: the boxes
    """
    boxes = [found(each) for each in output]
    sample = np.repeat(np.arange(len(boxes)), [len(each) for each in boxes])
    rows = np.concatenate(boxes)
    areas = []
    for label in np.unique(y[..., 0][y[..., 0] >= 0]):
        of_class = rows[:, 5] == label
        order = np.argsort(-rows[of_class, 4], kind="stable")
        truths = [each[each[:, 0] == label, 1:].astype(np.float64) for each in y]
        right = _right(rows[of_class][order, :4], sample[of_class][order], truths, iou)
        areas.append(_area(right, sum(map(len, truths))))
    return float(np.mean(areas)) if areas else 0.0


def _right(edges: np.ndarray, sample: np.ndarray, truths: list[np.ndarray], iou: float) -> np.ndarray:
    """Which boxes are right, the surest first."""
    taken = [np.zeros(len(each), bool) for each in truths]
    right = np.zeros(len(edges), bool)
    for place, (edge, index) in enumerate(zip(edges, sample, strict=True)):
        shares = np.where(taken[index], 0.0, overlaps(edge[None], truths[index])[0])
        if len(shares) and shares.max() >= iou:
            right[place] = taken[index][shares.argmax()] = True
    return right


def _area(right: np.ndarray, count: int) -> float:
    """Under the curve of precision, made to fall, against recall of ``count`` boxes."""
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[right].sum() / count)
