"""The heads of YOLO networks in torch, with the decoding of boxes that their exporters write."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, cat, nn
from torch.nn import functional
from yolo_blocks import Conv, depthwise

CLASSES = 80
STRIDES = (8, 16, 32)
ANCHORS = (((10, 13), (16, 30), (33, 23)), ((30, 61), (62, 45), (59, 119)), ((116, 90), (156, 198), (373, 326)))
TINY_ANCHORS = (((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319)))


def grid(x: Sequence[Tensor], offset: float = 0.5) -> tuple[Tensor, Tensor]:
    """The centres (1, 2, A) of all cells, in cells, and the stride (1, 1, A) of each."""
    centres, strides = [], []
    for stride, level in zip(STRIDES[-len(x) :], x, strict=True):
        h, w = level.shape[-2:]
        rows, columns = torch.meshgrid(torch.arange(h) + offset, torch.arange(w) + offset, indexing="ij")
        centres.append(torch.stack((columns, rows)).view(2, -1))
        strides.append(torch.full((1, h * w), float(stride)))
    return cat(centres, 1)[None], cat(strides, 1)[None]


class AnchorHead(nn.Module):
    """Of v3 to v7: three anchors a cell; (1, cells * 3, 85)."""

    def __init__(self, channels: Sequence[int], anchors: Sequence):
        super().__init__()
        self.m = nn.ModuleList(nn.Conv2d(c, 3 * (CLASSES + 5), 1) for c in channels)
        self.anchors = torch.tensor(anchors, dtype=torch.float32)

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        found = []
        for conv, level, anchors, stride in zip(self.m, x, self.anchors, STRIDES[-len(x) :], strict=True):
            b, _, h, w = level.shape
            y = conv(level).view(b, 3, CLASSES + 5, h, w).permute(0, 1, 3, 4, 2).contiguous()
            centres = grid([level], 0)[0].view(2, h, w).permute(1, 2, 0)[None, None] - 0.5
            xy, wh, rest = y.sigmoid().split((2, 2, CLASSES + 1), 4)
            xy, wh = (xy * 2 + centres) * stride, (wh * 2) ** 2 * anchors.view(1, 3, 1, 1, 2)
            found.append(cat((xy, wh, rest), 4).view(b, 3 * h * w, CLASSES + 5))
        return cat(found, 1)


class Head(nn.Module):
    """Of v8 to v12: boxes as distributions of distances. ``light``: depthwise class branches; ``extra``: "seg", "pose"
    or none; ``top``: the best of v10, without suppression."""

    def __init__(self, channels: Sequence[int], light: bool, extra: str = "", top: bool = False):
        super().__init__()
        self.extra, self.top = extra, top
        wide, c3 = max(16, channels[0] // 4, 64), max(channels[0], CLASSES)
        self.boxes = nn.ModuleList(self._branch(c, wide, 64) for c in channels)
        self.classes = nn.ModuleList(self._light(c, c3) if light else self._branch(c, c3, CLASSES) for c in channels)
        numbers = {"seg": 32, "pose": 51}.get(extra, 0)
        self.more = nn.ModuleList(self._branch(c, max(channels[0] // 4, numbers), numbers) for c in channels)
        self.more = self.more if extra else None
        c = channels[0]
        self.masks = nn.Sequential(Conv(c, c, 3), nn.ConvTranspose2d(c, c, 2, 2), Conv(c, c, 3), Conv(c, 32))
        self.masks = self.masks if extra == "seg" else None

    @staticmethod
    def _branch(c1: int, c: int, out: int) -> nn.Sequential:
        return nn.Sequential(Conv(c1, c, 3), Conv(c, c, 3), nn.Conv2d(c, out, 1))

    @staticmethod
    def _light(c1: int, c: int) -> nn.Sequential:
        separable = depthwise(c1, c1), Conv(c1, c), depthwise(c, c), Conv(c, c)
        return nn.Sequential(*separable, nn.Conv2d(c, CLASSES, 1))

    def forward(self, x: Sequence[Tensor]) -> Tensor | tuple[Tensor, Tensor]:
        b = x[0].shape[0]
        more = (
            cat([m(t).view(b, -1, t.shape[2] * t.shape[3]) for m, t in zip(self.more, x, strict=True)], 2)
            if self.more
            else None
        )
        rows = [cat((box(t), score(t)), 1) for box, score, t in zip(self.boxes, self.classes, x, strict=True)]
        boxes, scores = cat([row.view(b, 64 + CLASSES, -1) for row in rows], 2).split((64, CLASSES), 1)
        bins = torch.arange(16, dtype=torch.float32).view(1, 16, 1, 1)
        distances = functional.conv2d(boxes.view(b, 4, 16, -1).transpose(2, 1).softmax(1), bins).view(b, 4, -1)
        (centres, strides), (near, far) = grid(x), distances.chunk(2, 1)
        low, high = centres - near, centres + far
        sides = (low, high) if self.top else ((low + high) / 2, high - low)
        found = cat((cat(sides, 1) * strides, scores.sigmoid()), 1)
        if self.top:
            return self._best(found.transpose(1, 2))
        if self.extra == "pose":
            points = more.view(b, 17, 3, -1)
            xy = (points[:, :, :2] * 2 + (centres - 0.5)) * strides
            more = cat((xy, points[:, :, 2:].sigmoid()), 2).view(b, 51, -1)
        found = cat((found, more), 1) if self.extra else found
        return (found, self.masks(x[0])) if self.extra == "seg" else found

    @staticmethod
    def _best(found: Tensor, most: int = 300) -> Tensor:
        """(1, k, 6): sides, score, class of the best."""
        boxes, scores = found.split((4, CLASSES), 2)
        k = min(most, found.shape[1])
        index = scores.amax(2).topk(k)[1].unsqueeze(-1)
        boxes, scores = boxes.gather(1, index.repeat(1, 1, 4)), scores.gather(1, index.repeat(1, 1, CLASSES))
        scores, index = scores.flatten(1).topk(k)
        rows = boxes.gather(1, (index // CLASSES).unsqueeze(-1).repeat(1, 1, 4))
        return cat((rows, scores[..., None], (index % CLASSES)[..., None].float()), 2)


class LevelHead(nn.Module):
    """Of v6: a stem and two branches a level, distances without bins; (1, cells, 85)."""

    def __init__(self, channels: Sequence[int]):
        super().__init__()
        parts = [
            [Conv(c, c), Conv(c, c, 3), nn.Conv2d(c, CLASSES, 1), Conv(c, c, 3), nn.Conv2d(c, 4, 1)] for c in channels
        ]
        self.levels = nn.ModuleList(nn.ModuleList(level) for level in parts)

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        scores, boxes = [], []
        for (stem, score, score_out, box, box_out), level in zip(self.levels, x, strict=True):
            y, b = stem(level), level.shape[0]
            scores.append(score_out(score(y)).sigmoid().reshape(b, CLASSES, -1))
            boxes.append(box_out(box(y)).reshape(b, 4, -1))
        (centres, strides), (near, far) = grid(x), cat(boxes, 2).permute(0, 2, 1).chunk(2, -1)
        centres, strides = centres.permute(0, 2, 1), strides.permute(0, 2, 1)
        low, high = centres - near, centres + far
        sides = cat(((low + high) / 2, high - low), -1) * strides
        return cat((sides, torch.ones_like(sides[..., :1]), cat(scores, 2).permute(0, 2, 1)), -1)
