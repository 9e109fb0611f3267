"""The blocks of YOLO networks in torch, from v3 to v12. Sizes: c1 channels come, c2 leave, c are inside; n times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, cat, nn


class Conv(nn.Sequential):
    """Convolution, BatchNorm, activation."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act=nn.SiLU):
        convolution = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(c2, eps=1e-3), act() if act else nn.Identity())


def depthwise(c1: int, c2: int, k: int = 3, s: int = 1, act=nn.SiLU) -> Conv:
    return Conv(c1, c2, k, s, g=c1, act=act)


def leaky(c1: int, c2: int, k: int = 1, s: int = 1) -> Conv:
    return Conv(c1, c2, k, s, act=lambda: nn.LeakyReLU(0.1))


def rep(c1: int, c2: int, s: int = 1, act=nn.ReLU) -> nn.Sequential:
    """RepVGG as it is exported: its branches are one convolution with a bias."""
    return nn.Sequential(nn.Conv2d(c1, c2, 3, s, 1), act())


class Add(nn.Module):
    """x + body(x)"""

    def __init__(self, *body: nn.Module):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def bottleneck(c1: int, c2: int, add: bool = True, k: Sequence[int] = (3, 3), e: float = 0.5) -> nn.Module:
    c = int(c2 * e)
    body = Conv(c1, c, k[0]), Conv(c, c2, k[1])
    return Add(*body) if add and c1 == c2 else nn.Sequential(*body)


class C3(nn.Module):
    """Two branches, one through ``inner`` blocks (c -> c), joined (CSP)."""

    def __init__(self, c1: int, c2: int, inner: Callable[[int], nn.Module], n: int = 1, e: float = 0.5):
        super().__init__()
        c = int(c2 * e)
        self.cv1, self.cv2, self.cv3 = Conv(c1, c), Conv(c1, c), Conv(2 * c, c2)
        self.m = nn.Sequential(*(inner(c) for _ in range(n)))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(cat((self.m(self.cv1(x)), self.cv2(x)), 1))


def c3(c1: int, c2: int, n: int = 1, add: bool = True) -> C3:
    return C3(c1, c2, lambda c: bottleneck(c, c, add, (1, 3), 1.0), n)


def c3k(c: int, n: int = 2) -> C3:
    return C3(c, c, lambda inner: bottleneck(inner, inner, True, (3, 3), 1.0), n)


class C2f(nn.Module):
    """A convolution in two halves; the second goes through the blocks, and what each gives is joined."""

    def __init__(self, c1: int, c2: int, inner: Callable[[int], nn.Module], n: int = 1, e: float = 0.5):
        super().__init__()
        c = int(c2 * e)
        self.cv1, self.cv2 = Conv(c1, 2 * c), Conv((2 + n) * c, c2)
        self.m = nn.ModuleList(inner(c) for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        for block in self.m:
            y.append(block(y[-1]))
        return self.cv2(cat(y, 1))


def c2f(c1: int, c2: int, n: int = 1, add: bool = True) -> C2f:
    return C2f(c1, c2, lambda c: bottleneck(c, c, add, (3, 3), 1.0), n)


def c3k2(c1: int, c2: int, inner: bool, e: float = 0.5, n: int = 1) -> C2f:
    return C2f(c1, c2, c3k if inner else lambda c: bottleneck(c, c), n, e)


def cib(c: int) -> Add:
    """Of v10, with the large kernel."""
    return Add(depthwise(c, c), Conv(c, 2 * c), depthwise(2 * c, 2 * c, 7), Conv(2 * c, c), depthwise(c, c))


class SPPF(nn.Module):
    """Poolings of growing windows, joined; ``c`` is the width inside."""

    def __init__(self, c1: int, c2: int, c: int | None = None, conv: Callable[..., nn.Module] = Conv):
        super().__init__()
        c = c or c1 // 2
        self.cv1, self.cv2, self.pool = conv(c1, c), conv(4 * c, c2), nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = [self.cv1(x)]
        for _ in range(3):
            y.append(self.pool(y[-1]))
        return self.cv2(cat(y, 1))


class SPPCSP(nn.Module):
    """Of v7-tiny: three poolings of one tensor."""

    def __init__(self, c1: int, c2: int):
        super().__init__()
        self.cv1, self.cv2, self.cv3, self.cv4 = leaky(c1, c2), leaky(c1, c2), leaky(4 * c2, c2), leaky(2 * c2, c2)
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (5, 9, 13))

    def forward(self, x: Tensor) -> Tensor:
        y = self.cv2(x)
        return self.cv4(cat((self.cv3(cat([pool(y) for pool in reversed(self.pools)] + [y], 1)), self.cv1(x)), 1))


class Elan(nn.Module):
    """Of v7-tiny."""

    def __init__(self, c1: int, c: int, c2: int):
        super().__init__()
        self.cv1, self.cv2, self.cv3, self.cv4 = leaky(c1, c), leaky(c1, c), leaky(c, c, 3), leaky(c, c, 3)
        self.cv5 = leaky(4 * c, c2)

    def forward(self, x: Tensor) -> Tensor:
        y = [self.cv1(x), self.cv2(x)]
        y += [third := self.cv3(y[-1]), self.cv4(third)]
        return self.cv5(cat(y[::-1], 1))


class Gelan(nn.Module):
    """Of v9: RepNCSPELAN4, or ELAN1 where ``n`` is 0."""

    def __init__(self, c1: int, c2: int, c3: int, c4: int, n: int):
        super().__init__()
        self.cv1, self.cv4 = Conv(c1, c3), Conv(c3 + 2 * c4, c2)
        self.cv2, self.cv3 = self._branch(c3 // 2, c4, n), self._branch(c4, c4, n)

    @staticmethod
    def _branch(c1: int, c2: int, n: int) -> nn.Module:
        if not n:
            return Conv(c1, c2, 3)
        return nn.Sequential(C3(c1, c2, lambda c: Add(rep(c, c, act=nn.SiLU), Conv(c, c, 3)), n), Conv(c2, c2, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.append(self.cv2(y[-1]))
        y.append(self.cv3(y[-1]))
        return self.cv4(cat(y, 1))


class AConv(nn.Sequential):
    """Of v9: smaller by an average, then by a stride."""

    def __init__(self, c1: int, c2: int):
        super().__init__(nn.AvgPool2d(2, 1), Conv(c1, c2, 3, 2, 1))


class CspSlice(nn.Module):
    """Of v4-tiny; gives the joined halves and the tensor before, which the neck reads."""

    def __init__(self, c: int):
        super().__init__()
        self.c = c // 2
        self.cv1, self.cv2, self.cv3 = leaky(c, c, 3), leaky(self.c, self.c, 3), leaky(self.c, self.c, 3)
        self.cv4, self.pool = leaky(c, c), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.cv1(x)
        y = self.cv2(x[:, self.c :])
        y = self.cv4(cat((self.cv3(y), y), 1))
        return self.pool(cat((x, y), 1)), y


class Attention(nn.Module):
    """Of v10 and 11: heads of 64 channels, keys of half, and a depthwise convolution of the values."""

    def __init__(self, c: int):
        super().__init__()
        self.heads = max(1, c // 64)
        self.c, self.key = c // self.heads, c // self.heads // 2
        self.qkv = Conv(c, c + 2 * self.key * self.heads, act=None)
        self.proj, self.pe = Conv(c, c, act=None), depthwise(c, c, act=None)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = self.qkv(x).view(b, self.heads, -1, h * w).split([self.key, self.key, self.c], 2)
        scores = ((q.transpose(-2, -1) @ k) * self.key**-0.5).softmax(-1)
        y = (v @ scores.transpose(-2, -1)).view(b, c, h, w)
        return self.proj(y + self.pe(v.reshape(b, c, h, w)))


class C2PSA(nn.Module):
    def __init__(self, c: int):
        super().__init__()
        self.c, self.cv1, self.cv2 = c // 2, Conv(c, c), Conv(c, c)
        body = Conv(self.c, c), Conv(c, self.c, act=None)
        self.m = nn.Sequential(Add(Attention(self.c)), Add(*body))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.cv1(x).split((self.c, self.c), 1)
        return self.cv2(cat((a, self.m(b)), 1))


class AreaAttention(nn.Module):
    """Of v12: attention within each of ``area`` strips."""

    def __init__(self, c: int, heads: int, area: int):
        super().__init__()
        self.heads, self.area, self.c = heads, area, c // heads
        self.qkv, self.proj, self.pe = Conv(c, 3 * c, act=None), Conv(c, c, act=None), depthwise(c, c, 7, act=None)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        rows, n = b * self.area, h * w // self.area
        qkv = self.qkv(x).flatten(2).transpose(1, 2).reshape(rows, n, 3 * c)
        q, k, v = qkv.view(rows, n, self.heads, -1).permute(0, 2, 3, 1).split([self.c] * 3, 2)
        y = v @ ((q.transpose(-2, -1) @ k) * self.c**-0.5).softmax(-1).transpose(-2, -1)
        y, v = (t.permute(0, 3, 1, 2).reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous() for t in (y, v))
        return self.proj(y + self.pe(v))


class A2C2f(nn.Module):
    """Of v12: pairs of attention blocks, or C3k blocks where ``area`` is 0, each result joined."""

    def __init__(self, c1: int, c2: int, n: int, area: int = 0):
        super().__init__()
        c = c2 // 2
        self.cv1, self.cv2 = Conv(c1, c), Conv((1 + n) * c, c2)
        self.m = nn.ModuleList(nn.Sequential(*self._blocks(c, area)) if area else c3k(c) for _ in range(n))

    @staticmethod
    def _blocks(c: int, area: int) -> list[nn.Module]:
        pair = Add(AreaAttention(c, c // 32, area)), Add(Conv(c, 2 * c), Conv(2 * c, c, act=None))
        pair += Add(AreaAttention(c, c // 32, area)), Add(Conv(c, 2 * c), Conv(2 * c, c, act=None))
        return list(pair)

    def forward(self, x: Tensor) -> Tensor:
        y = [self.cv1(x)]
        for block in self.m:
            y.append(block(y[-1]))
        return self.cv2(cat(y, 1))


class BiFusion(nn.Module):
    """Of v6: three neighbouring levels, the smallest grown by a transposed convolution."""

    def __init__(self, small: int, here: int, large: int, c: int):
        super().__init__()
        relu = dict(act=nn.ReLU)
        self.up, self.cv1, self.cv2 = nn.ConvTranspose2d(small, c, 2, 2), Conv(here, c, **relu), Conv(large, c, **relu)
        self.down, self.cv3 = Conv(c, c, 3, 2, **relu), Conv(3 * c, c, **relu)

    def forward(self, small: Tensor, here: Tensor, large: Tensor) -> Tensor:
        return self.cv3(cat((self.up(small), self.cv1(here), self.down(self.cv2(large))), 1))
