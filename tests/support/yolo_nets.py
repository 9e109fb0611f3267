"""Networks of the YOLO family in torch, built of the blocks of the published ones, with random weights.

The same layers in the same order as their exporters write them, decoding of boxes included, non-maximum suppression
not. Branches that are merged before an export (RepVGG, RepConv) are one convolution. Pictures (1, 3, H, W) have sides
that 32 divides.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, cat, nn
from yolo_blocks import (
    C2PSA,
    SPPCSP,
    SPPF,
    A2C2f,
    AConv,
    BiFusion,
    C2f,
    Conv,
    CspSlice,
    Elan,
    Gelan,
    c2f,
    c3,
    c3k2,
    cib,
    depthwise,
    leaky,
    rep,
)  # fmt: skip
from yolo_heads import ANCHORS, TINY_ANCHORS, AnchorHead, Head, LevelHead


class Layers(nn.Module):
    """Rows of (where from, module): an earlier row's number, -1 for the row before, several for their join.

    A row without a module joins only. The last row gets its inputs as a list.
    """

    def __init__(self, *rows: tuple[int | tuple[int, ...], nn.Module | None]):
        super().__init__()
        self.sources = [row[0] for row in rows]
        self.m = nn.ModuleList(row[1] or nn.Identity() for row in rows)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        done: list[Tensor] = []
        for number, (source, module) in enumerate(zip(self.sources, self.m, strict=True)):
            if isinstance(source, int):
                x = module(done[source] if done else x)
            else:
                parts = [done[index] for index in source]
                x = module(parts if number == len(self.m) - 1 else cat(parts, 1))
            done.append(x)
        return x


def chain(*modules: nn.Module) -> list[tuple[int, nn.Module]]:
    return [(-1, module) for module in modules]


def up() -> nn.Upsample:
    return nn.Upsample(scale_factor=2.0, mode="nearest")


def v3_tiny() -> nn.Module:
    rows = chain(Conv(3, 16, 3), nn.MaxPool2d(2), Conv(16, 32, 3), nn.MaxPool2d(2), Conv(32, 64, 3), nn.MaxPool2d(2))
    rows += chain(Conv(64, 128, 3), nn.MaxPool2d(2), Conv(128, 256, 3), nn.MaxPool2d(2), Conv(256, 512, 3))  # 8: 256
    rows += chain(
        nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(2, 1), Conv(512, 1024, 3), Conv(1024, 256), Conv(256, 512, 3)
    )
    rows += [(14, Conv(256, 128)), (-1, up()), ((-1, 8), Conv(384, 256, 3))]
    return Layers(*rows, ((18, 15), AnchorHead((256, 512), TINY_ANCHORS)))


class V4Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(leaky(3, 32, 3, 2), leaky(32, 64, 3, 2))
        self.csp = nn.ModuleList(CspSlice(c) for c in (64, 128, 256))
        self.top, self.large = nn.Sequential(leaky(512, 512, 3), leaky(512, 256)), leaky(256, 512, 3)
        self.grow, self.small = nn.Sequential(leaky(256, 128), up()), leaky(384, 256, 3)
        self.head = AnchorHead((256, 512), TINY_ANCHORS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for csp in self.csp:
            x, middle = csp(x)
        x = self.top(x)
        large = self.large(x)
        return self.head((self.small(cat((self.grow(x), middle), 1)), large))


def v5n() -> nn.Module:
    rows = chain(Conv(3, 16, 6, 2, 2), Conv(16, 32, 3, 2), c3(32, 32), Conv(32, 64, 3, 2), c3(64, 64, 2))
    rows += chain(Conv(64, 128, 3, 2), c3(128, 128, 3), Conv(128, 256, 3, 2), c3(256, 256), SPPF(256, 256))
    rows += [*chain(Conv(256, 128), up()), ((-1, 6), c3(256, 128, add=False))]  # 12
    rows += [*chain(Conv(128, 64), up()), ((-1, 4), c3(128, 64, add=False))]  # 15
    rows += [(-1, Conv(64, 64, 3, 2)), ((-1, 13), c3(128, 128, add=False))]  # 17
    rows += [(-1, Conv(128, 128, 3, 2)), ((-1, 10), c3(256, 256, add=False))]  # 19
    return Layers(*rows, ((15, 17, 19), AnchorHead((64, 128, 256), ANCHORS)))


def stack(c1: int, c2: int, n: int) -> nn.Sequential:
    return nn.Sequential(rep(c1, c2), *(rep(c2, c2) for _ in range(n - 1)))


class V6(nn.Module):
    def __init__(self):
        super().__init__()
        widths, depths = (16, 32, 64, 128, 256), (2, 4, 6, 2)
        levels = zip(widths, widths[1:], depths, strict=False)
        self.stem = rep(3, 16, 2)
        self.levels = nn.ModuleList(nn.Sequential(rep(a, b, 2), stack(b, b, n)) for a, b, n in levels)
        relu = dict(act=nn.ReLU)
        self.pool = SPPF(256, 256, conv=lambda a, b: Conv(a, b, **relu))
        self.reduce4, self.fuse4, self.p4 = Conv(256, 64, **relu), BiFusion(64, 128, 64, 64), stack(64, 64, 4)
        self.reduce3, self.fuse3, self.p3 = Conv(64, 32, **relu), BiFusion(32, 64, 32, 32), stack(32, 32, 4)
        self.down3, self.n4 = Conv(32, 32, 3, 2, **relu), stack(64, 64, 4)
        self.down4, self.n5 = Conv(64, 64, 3, 2, **relu), stack(128, 128, 4)
        self.head = LevelHead((32, 64, 128))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        c2, c3, c4, c5 = [x := level(x) for level in self.levels]
        top = self.reduce4(self.pool(c5))
        p4 = self.reduce3(self.p4(self.fuse4(top, c4, c3)))
        p3 = self.p3(self.fuse3(p4, c3, c2))
        n4 = self.n4(cat((self.down3(p3), p4), 1))
        return self.head((p3, n4, self.n5(cat((self.down4(n4), top), 1))))


def v7_tiny() -> nn.Module:
    rows = chain(leaky(3, 32, 3, 2), leaky(32, 64, 3, 2), Elan(64, 32, 64), nn.MaxPool2d(2), Elan(64, 64, 128))  # 4
    rows += chain(nn.MaxPool2d(2), Elan(128, 128, 256), nn.MaxPool2d(2), Elan(256, 256, 512), SPPCSP(512, 256))  # 6, 9
    rows += [*chain(leaky(256, 128), up()), (6, leaky(256, 128)), ((-1, -2), Elan(256, 64, 128))]  # 13
    rows += [*chain(leaky(128, 64), up()), (4, leaky(128, 64)), ((-1, -2), Elan(128, 32, 64))]  # 17
    rows += [(-1, leaky(64, 128, 3, 2)), ((-1, 13), Elan(256, 64, 128))]  # 19
    rows += [(-1, leaky(128, 256, 3, 2)), ((-1, 9), Elan(512, 128, 256))]  # 21
    rows += [(17, leaky(64, 128, 3)), (19, leaky(128, 256, 3)), (21, leaky(256, 512, 3))]
    return Layers(*rows, ((22, 23, 24), AnchorHead((128, 256, 512), ANCHORS)))


def v8n(extra: str = "") -> nn.Module:
    rows = chain(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), c2f(32, 32), Conv(32, 64, 3, 2), c2f(64, 64, 2))
    rows += chain(Conv(64, 128, 3, 2), c2f(128, 128, 2), Conv(128, 256, 3, 2), c2f(256, 256), SPPF(256, 256))
    rows += [(-1, up()), ((-1, 6), c2f(384, 128, add=False)), (-1, up()), ((-1, 4), c2f(192, 64, add=False))]  # 11, 13
    rows += [(-1, Conv(64, 64, 3, 2)), ((-1, 11), c2f(192, 128, add=False))]  # 15
    rows += [(-1, Conv(128, 128, 3, 2)), ((-1, 9), c2f(384, 256, add=False))]  # 17
    return Layers(*rows, ((13, 15, 17), Head((64, 128, 256), False, extra)))


def v9t() -> nn.Module:
    def block(c1: int, c2: int) -> Gelan:
        return Gelan(c1, c2, c2, c2 // 2, 3)

    rows = chain(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), Gelan(32, 32, 32, 16, 0), AConv(32, 64), block(64, 64))
    rows += chain(AConv(64, 96), block(96, 96), AConv(96, 128), block(128, 128), SPPF(128, 128, 64))
    rows += [(-1, up()), ((-1, 6), block(224, 96)), (-1, up()), ((-1, 4), block(160, 64))]  # 11, 13
    rows += [(-1, AConv(64, 48)), ((-1, 11), block(144, 96)), (-1, AConv(96, 64)), ((-1, 9), block(192, 128))]  # 15, 17
    return Layers(*rows, ((13, 15, 17), Head((64, 96, 128), False)))


def v10n() -> nn.Module:
    def down(c1: int, c2: int) -> nn.Sequential:
        return nn.Sequential(Conv(c1, c2), depthwise(c2, c2, 3, 2, act=None))

    rows = chain(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), c2f(32, 32), Conv(32, 64, 3, 2), c2f(64, 64, 2))
    rows += chain(down(64, 128), c2f(128, 128, 2), down(128, 256), c2f(256, 256), SPPF(256, 256), C2PSA(256))  # 6, 10
    rows += [(-1, up()), ((-1, 6), c2f(384, 128, add=False)), (-1, up()), ((-1, 4), c2f(192, 64, add=False))]  # 12, 14
    rows += [(-1, Conv(64, 64, 3, 2)), ((-1, 12), c2f(192, 128, add=False))]  # 16
    rows += [(-1, down(128, 128)), ((-1, 10), C2f(384, 256, cib))]  # 18
    return Layers(*rows, ((14, 16, 18), Head((64, 128, 256), True, top=True)))


def v11n() -> nn.Module:
    rows = chain(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), c3k2(32, 64, False, 0.25), Conv(64, 64, 3, 2))
    rows += chain(c3k2(64, 128, False, 0.25), Conv(128, 128, 3, 2), c3k2(128, 128, True), Conv(128, 256, 3, 2))  # 4, 6
    rows += chain(c3k2(256, 256, True), SPPF(256, 256), C2PSA(256))  # 10
    rows += [(-1, up()), ((-1, 6), c3k2(384, 128, False)), (-1, up()), ((-1, 4), c3k2(256, 64, False))]  # 12, 14
    rows += [(-1, Conv(64, 64, 3, 2)), ((-1, 12), c3k2(192, 128, False))]  # 16
    rows += [(-1, Conv(128, 128, 3, 2)), ((-1, 10), c3k2(384, 256, True))]  # 18
    return Layers(*rows, ((14, 16, 18), Head((64, 128, 256), True)))


def v12n() -> nn.Module:
    rows = chain(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), c3k2(32, 64, False, 0.25), Conv(64, 64, 3, 2))
    rows += chain(c3k2(64, 128, False, 0.25), Conv(128, 128, 3, 2), A2C2f(128, 128, 2, 4), Conv(128, 256, 3, 2))  # 4, 6
    rows += chain(A2C2f(256, 256, 2, 1))  # 8
    rows += [(-1, up()), ((-1, 6), A2C2f(384, 128, 1)), (-1, up()), ((-1, 4), A2C2f(256, 64, 1))]  # 10, 12
    rows += [(-1, Conv(64, 64, 3, 2)), ((-1, 10), A2C2f(192, 128, 1))]  # 14
    rows += [(-1, Conv(128, 128, 3, 2)), ((-1, 8), c3k2(384, 256, True))]  # 16
    return Layers(*rows, ((12, 14, 16), Head((64, 128, 256), True)))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "yolov3-tiny": v3_tiny, "yolov4-tiny": V4Tiny, "yolov5n": v5n, "yolov6n": V6, "yolov7-tiny": v7_tiny,
    "yolov8n": v8n, "yolov8n-seg": lambda: v8n("seg"), "yolov8n-pose": lambda: v8n("pose"), "yolov9t": v9t,
    "yolov10n": v10n, "yolo11n": v11n, "yolo12n": v12n,
}  # fmt: skip


def build(name: str, seed: int = 0) -> nn.Module:
    """A network of NETWORKS; its output is (1, numbers, cells) or (1, cells, numbers), of "seg" also the masks."""
    torch.manual_seed(seed)
    return NETWORKS[name]()
