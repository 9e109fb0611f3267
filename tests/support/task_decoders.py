"""What the outputs of the networks of edge/ mean, in pixels of the photo: simple loops, one thing at a time.

Independent of ``pipeall.tasks``, which must say the same of the same outputs. A thing is (left, top, right, bottom,
score, class, points); points are (x, y, score).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

Arrays = dict[str, np.ndarray]
Size = tuple[int, int]  # height, width
Point = tuple[float, float, float]
Thing = tuple[float, float, float, float, float, int, list[Point]]
Frame = Callable[[float, float], tuple[float, float]]  # a position of the input -> of the photo


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def in_photo(fit: str, photo: Size, size: Size, centered: bool) -> Frame:
    """Where a position of the input lies in the photo, both with x first."""
    (photo_h, photo_w), (h, w) = photo, size
    if fit == "stretch":
        return lambda x, y: (x * photo_w / w, y * photo_h / h)
    shrink = min(h / photo_h, w / photo_w)
    inner_h, inner_w = round(photo_h * shrink), round(photo_w * shrink)
    top, left = ((h - inner_h) // 2, (w - inner_w) // 2) if centered else (0, 0)
    return lambda x, y: ((x - left) * photo_w / inner_w, (y - top) * photo_h / inner_h)


def placed(things: list[Thing], photo: Size, frame: Frame) -> list[Thing]:
    """In the photo and cut at its edges."""
    found = []
    for left, top, right, bottom, score, label, points in things:
        (left, top), (right, bottom) = frame(left, top), frame(right, bottom)
        left, right = (min(max(x, 0), photo[1]) for x in (left, right))
        top, bottom = (min(max(y, 0), photo[0]) for y in (top, bottom))
        if right > left and bottom > top:
            spots = [(*frame(x, y), sure) for x, y, sure in points]
            found.append((left, top, right, bottom, score, label, spots))
    return found


def overlap(a: Thing, b: Thing) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(w, 0) * max(h, 0)
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return common / (area - common)


def suppressed(things: list[Thing], least: float, iou: float) -> list[Thing]:
    kept: list[Thing] = []
    for thing in sorted((thing for thing in things if thing[4] >= least), key=lambda thing: -thing[4]):
        if all(thing[5] != other[5] or overlap(thing, other) <= iou for other in kept):
            kept.append(thing)
    return kept


def around(x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def grid(size: Size, *strides: int) -> Iterator[tuple[int, int, int]]:
    """Column, row and stride of each cell."""
    for stride in strides:
        for row in range(math.ceil(size[0] / stride)):
            for column in range(math.ceil(size[1] / stride)):
                yield column, row, stride


def best(scores: np.ndarray) -> tuple[float, int]:
    label = int(scores.argmax())
    return float(scores[label]), label


# ---- boxes ----


def yolox(y: Arrays, size: Size) -> Iterator[Thing]:
    for row, (column, line, stride) in zip(y["output"][0], grid(size, 8, 16, 32), strict=True):
        score, label = best(row[5:])
        if (score := score * float(row[4])) > 0.1:
            x, z, w, h = map(float, row[:4])
            box = around((x + column) * stride, (z + line) * stride, math.exp(w) * stride, math.exp(h) * stride)
            yield *box, score, label, []


def expected_distance(bins: np.ndarray) -> float:
    weights = [math.exp(float(b)) for b in bins]
    return sum(i * weight for i, weight in enumerate(weights)) / sum(weights)


def nanodet(y: Arrays, size: Size) -> Iterator[Thing]:
    for stride in (8, 16, 32):
        scores, bins = y[f"cls_pred_stride_{stride}"][0], y[f"dis_pred_stride_{stride}"][0]
        for (column, row, _), own, distances in zip(grid(size, stride), scores, bins, strict=True):
            score, label = best(own)
            if score > 0.1:
                sides = [expected_distance(distances[i : i + 8]) * stride for i in (0, 8, 16, 24)]
                x, z = (column + 0.5) * stride, (row + 0.5) * stride
                yield x - sides[0], z - sides[1], x + sides[2], z + sides[3], score, label, []


def fastestdet(y: Arrays, size: Size) -> Iterator[Thing]:
    cells, (h, w) = y["758"][0], size
    for column, row, stride in grid(size, 16):
        cell = cells[:, row, column]
        score, label = best(cell[5:])
        score = float(cell[0]) ** 0.6 * score**0.4
        x, z = (math.tanh(cell[1]) + column) * stride, (math.tanh(cell[2]) + row) * stride
        yield *around(x, z, sigmoid(cell[3]) * w, sigmoid(cell[4]) * h), score, label, []


def ssd(y: Arrays, size: Size) -> Iterator[Thing]:
    anchors = []
    for layer, side in enumerate((19, 10, 5, 3, 2, 1)):
        scale, after = 0.2 + 0.15 * layer, 0.35 + 0.15 * layer if layer < 5 else 1.0
        kinds = [(scale, 1.0), (scale, 2.0), (scale, 0.5), (scale, 3.0), (scale, 1 / 3), ((scale * after) ** 0.5, 1.0)]
        for row in range(side):
            for column in range(side):
                for s, ratio in kinds if layer else [(0.1, 1.0), (0.2, 2.0), (0.2, 0.5)]:
                    anchors.append(((column + 0.5) / side, (row + 0.5) / side, s * ratio**0.5, s / ratio**0.5))
    rows = zip(y["raw_outputs/box_encodings"][0], y["raw_outputs/class_predictions"][0], anchors, strict=True)
    for raw, logits, (x, z, w, h) in rows:
        logit, label = best(logits[1:])
        if logit > -2:
            middle = (raw[1] / 10 * w + x) * size[1], (raw[0] / 10 * h + z) * size[0]
            sides = math.exp(raw[3] / 5) * w * size[1], math.exp(raw[2] / 5) * h * size[0]
            yield *around(*middle, *sides), sigmoid(logit), label + 1, []


# ---- faces ----


def yunet(y: Arrays, size: Size) -> Iterator[Thing]:
    for stride in (8, 16, 32):
        kinds = (y[f"{kind}_{stride}"][0] for kind in ("cls", "obj", "bbox", "kps"))
        for (column, row, _), face, thing, box, points in zip(grid(size, stride), *kinds, strict=True):
            score = math.sqrt(face[0] * thing[0])
            if score > 0.1:
                x, z = (box[0] + column) * stride, (box[1] + row) * stride
                spots = [((points[i] + column) * stride, (points[i + 1] + row) * stride, 1.0) for i in range(0, 10, 2)]
                yield *around(x, z, math.exp(box[2]) * stride, math.exp(box[3]) * stride), score, 0, spots


def centerface(y: Arrays, size: Size) -> Iterator[Thing]:
    heat, sides, offsets, points = (y[name][0] for name in ("537", "538", "539", "540"))
    for column, row, stride in grid(size, 4):
        score = float(heat[0, row, column])
        if score > 0.1:
            h, w = (math.exp(side) * stride for side in sides[:, row, column])
            x, z = (column + offsets[1, row, column] + 0.5) * stride, (row + offsets[0, row, column] + 0.5) * stride
            left, top, right, bottom = around(x, z, w, h)
            own = points[:, row, column]
            yield (
                left,
                top,
                right,
                bottom,
                score,
                0,
                [(left + own[i + 1] * w, top + own[i] * h, 1.0) for i in range(0, 10, 2)],
            )


def priors(size: Size, sizes: dict[int, tuple[int, ...]], whole: bool) -> Iterator[tuple[float, ...]]:
    """x, y, w, h of the anchors in pixels; ``whole``: cells divide the input, and anchors end at its sides."""
    h, w = size
    for stride, sides in sizes.items():
        rows, columns = math.ceil(h / stride), math.ceil(w / stride)
        for column, row, _ in grid(size, stride):
            x, z = (column + 0.5) / columns * w if whole else (column + 0.5) * stride, (row + 0.5) * stride
            z = (row + 0.5) / rows * h if whole else z
            for side in sides:
                yield (min(x, w), min(z, h), min(side, w), min(side, h)) if whole else (x, z, side, side)


def of_prior(raw: np.ndarray, prior: tuple[float, ...]) -> tuple[float, float, float, float]:
    x, z, w, h = prior
    return around(x + raw[0] / 10 * w, z + raw[1] / 10 * h, math.exp(raw[2] / 5) * w, math.exp(raw[3] / 5) * h)


def ultraface(y: Arrays, size: Size) -> Iterator[Thing]:
    anchors = priors(size, {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}, True)
    for scores, raw, prior in zip(y["scores"][0], y["boxes"][0], anchors, strict=True):
        if scores[1] > 0.1:
            yield *of_prior(raw, prior), float(scores[1]), 0, []


def retinaface(y: Arrays, size: Size) -> Iterator[Thing]:
    anchors = priors(size, {8: (16, 32), 16: (64, 128), 32: (256, 512)}, False)
    for scores, raw, points, prior in zip(y["conf"][0], y["loc"][0], y["iou"][0], anchors, strict=True):
        if scores[1] > 0.1:
            x, z, w, h = prior
            spots = [(x + points[i] / 10 * w, z + points[i + 1] / 10 * h, 1.0) for i in range(0, 10, 2)]
            yield *of_prior(raw, prior), float(scores[1]), 0, spots


def blazeface(y: Arrays, size: Size) -> Iterator[Thing]:
    cells = [*(cell for cell in grid(size, 8) for _ in range(2)), *(cell for cell in grid(size, 16) for _ in range(6))]
    for raw, (logit,), (column, row, stride) in zip(y["regressors"][0], y["classificators"][0], cells, strict=True):
        if logit > -2:
            x, z = (column + 0.5) * stride, (row + 0.5) * stride
            spots = [(x + raw[i], z + raw[i + 1], 1.0) for i in range(4, 16, 2)]
            yield *around(x + raw[0], z + raw[1], raw[2], raw[3]), sigmoid(logit), 0, spots


# ---- points ----


def spanned(points: list[Point], score: float, label: int = 0) -> Thing:
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    return min(xs), min(ys), max(xs), max(ys), score, label, points


def face_mesh(y: Arrays, size: Size) -> Iterator[Thing]:
    flat = y["conv2d_21"].ravel().tolist()
    yield spanned([(flat[3 * i], flat[3 * i + 1], 1.0) for i in range(468)], sigmoid(y["conv2d_31"].item()))


def hand(y: Arrays, size: Size) -> Iterator[Thing]:
    flat = y["Identity"][0].tolist()
    points = [(flat[3 * i], flat[3 * i + 1], 1.0) for i in range(21)]
    yield spanned(points, y["Identity_1"].item(), 1 if y["Identity_2"].item() > 0.5 else 0)


def pose(y: Arrays, size: Size) -> Iterator[Thing]:
    flat = y["Identity"][0].tolist()
    points = [(flat[5 * i], flat[5 * i + 1], sigmoid(flat[5 * i + 3])) for i in range(33)]
    yield spanned(points, y["Identity_1"].item())


PARENTS = {
    1: 0, 3: 1, 2: 0, 4: 2, 5: 0, 7: 5, 9: 7, 11: 5, 13: 11, 15: 13, 6: 0, 8: 6, 10: 8, 12: 6, 14: 12, 16: 14,
}  # fmt: skip


def bodypix(y: Arrays, size: Size, least: float = 0.5) -> list[Thing]:
    heat, offsets = y["heatmaps"][0], y["short_offsets"][0]
    forward, backward = y["displacement_fwd"][0], y["displacement_bwd"][0]
    rows, columns, parts = heat.shape
    step_y, step_x = (size[0] - 1) / (rows - 1), (size[1] - 1) / (columns - 1)

    def cell(x: float, z: float) -> tuple[int, int]:
        return min(max(round(z / step_y), 0), rows - 1), min(max(round(x / step_x), 0), columns - 1)

    def position(row: int, column: int, part: int) -> tuple[float, float]:
        return column * step_x + float(offsets[row, column, part + 17]), row * step_y + float(
            offsets[row, column, part]
        )

    def along(x: float, z: float, edge: int, ways: np.ndarray, to: int) -> Point:
        row, column = cell(x, z)
        x, z = x + float(ways[row, column, edge + 16]), z + float(ways[row, column, edge])
        for _ in range(2):
            x, z = position(*cell(x, z), to)
        return x, z, sigmoid(float(heat[(*cell(x, z), to)]))

    seeds = []
    for row in range(rows):
        for column in range(columns):
            near = heat[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
            for part in range(parts):
                value = float(heat[row, column, part])
                if sigmoid(value) >= least and value == near[..., part].max():
                    seeds.append((value, row, column, part))
    poses: list[tuple[float, dict[int, Point]]] = []
    for value, row, column, part in sorted(seeds, key=lambda seed: -seed[0]):
        x, z = position(row, column, part)
        if any(math.dist(other[part][:2], (x, z)) <= 20 for _, other in poses):
            continue
        found = {part: (x, z, sigmoid(value))}
        for edge, (child, parent) in reversed(list(enumerate(PARENTS.items()))):
            if child in found and parent not in found:
                found[parent] = along(*found[child][:2], edge, backward, parent)
        for edge, (child, parent) in enumerate(PARENTS.items()):
            if parent in found and child not in found:
                found[child] = along(*found[parent][:2], edge, forward, child)
        new = [p[2] for k, p in found.items() if all(math.dist(other[k][:2], p[:2]) > 20 for _, other in poses)]
        if sum(new) / 17 >= least / 2:
            poses.append((sum(new) / 17, found))
    things = []
    for score, found in poses:
        points = [(found[part][0] + 0.5, found[part][1] + 0.5, found[part][2]) for part in range(17)]
        sure = spanned([point for point in points if point[2] >= least], score)
        things.append((*sure[:6], points))
    return things


# ---- text ----


def text_lines(heat: np.ndarray) -> list[tuple[float, list[tuple[float, float]]]]:
    """Score and corners of each line of a map: flood fill, and the smallest rectangle along a side of the hull."""
    left, found = {tuple(pixel) for pixel in np.argwhere(heat > 0.3).tolist()}, []
    while left:
        part, waiting = [], [left.pop()]
        while waiting:
            row, column = waiting.pop()
            part.append((row, column))
            for i in (-1, 0, 1):
                for j in (-1, 0, 1):
                    if (near := (row + i, column + j)) in left:
                        left.remove(near)
                        waiting.append(near)
        score = float(np.mean([heat[pixel] for pixel in part], dtype=np.float64))
        ends = [(column + j, row + i) for row, column in part for i in (0, 1) for j in (0, 1)]
        width, height, middle, angle = smallest_rectangle(ends)
        if score >= 0.5 and min(width, height) >= 3:
            more = width * height * 1.6 / (2 * (width + height))
            a, b = width / 2 + more, height / 2 + more
            turned = [(u * math.cos(angle) - v * math.sin(angle), u * math.sin(angle) + v * math.cos(angle))
                      for u, v in ((-a, -b), (a, -b), (a, b), (-a, b))]  # fmt: skip
            found.append((score, [(middle[0] + x, middle[1] + z) for x, z in turned]))
    return found


def smallest_rectangle(points: list[tuple[float, float]]) -> tuple[float, float, tuple[float, float], float]:
    """Width, height, middle and angle, over all sides of the hull, which is found by wrapping."""
    points = list(set(points))
    start = at = min(points)
    best: tuple[float, ...] | None = None
    while True:
        ahead = points[0] if points[0] != at else points[1]
        for point in points:
            turn = (ahead[0] - at[0]) * (point[1] - at[1]) - (ahead[1] - at[1]) * (point[0] - at[0])
            if turn < 0 or (turn == 0 and math.dist(at, point) > math.dist(at, ahead)):
                ahead = point
        angle = math.atan2(ahead[1] - at[1], ahead[0] - at[0])
        c, s = math.cos(angle), math.sin(angle)
        us, vs = [x * c + z * s for x, z in points], [z * c - x * s for x, z in points]
        width, height = max(us) - min(us), max(vs) - min(vs)
        if best is None or width * height < best[0] - 1e-9:
            u, v = (max(us) + min(us)) / 2, (max(vs) + min(vs)) / 2
            best = (width * height, width, height, u * c - v * s, u * s + v * c, angle)
        if (at := ahead) == start:
            return best[1], best[2], (best[3], best[4]), best[5]


def spoken(steps: np.ndarray, characters: str) -> tuple[str, float]:
    """CTC: the likeliest character of each step; repeats and blanks (0) are left out."""
    text, scores, before = "", [], 0
    names = ["", *characters.splitlines(), " "]
    for step in steps:
        score, label = best(step)
        if label not in (0, before):
            text, scores = text + names[label], [*scores, score]
        before = label
    return text, sum(scores) / max(len(scores), 1)


THINGS: dict[str, tuple[Callable[[Arrays, Size], Iterator[Thing]], float, float]] = {  # least score, overlap
    "yolox_nano_416": (yolox, 0.3, 0.45),
    "nanodet_m_320": (nanodet, 0.35, 0.45),
    "fastestdet_352": (fastestdet, 0.65, 0.45),
    "ssd_mobilenetv2_oidv4_fp16": (ssd, 0.4, 0.45),
    "ultraface_version-RFB-320_simplified": (ultraface, 0.7, 0.3),
    "yunet_n_dynamic": (yunet, 0.6, 0.3),
    "centerface": (centerface, 0.5, 0.3),
    "retinaface_mbnet025": (retinaface, 0.6, 0.4),
    "face_detection_short_range": (blazeface, 0.5, 0.3),
    "face_landmark": (face_mesh, 0.5, 1.0),
    "hand_landmark_lite": (hand, 0.5, 1.0),
    "pose_landmark_full": (pose, 0.5, 1.0),
    "bodypix_mnv1_x050_s16": (bodypix, 0.0, 1.0),
}
