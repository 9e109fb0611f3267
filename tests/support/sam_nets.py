"""The image encoder of Segment Anything (ViTDet), of its published blocks with random weights.

Patches, absolute positions, blocks of attention in padded windows or over the whole picture with relative positions by
row and column (einsum), and a neck of convolutions. Pictures (1, 3, SIDE, SIDE), sides that 16 divides.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

PATCH = 16


class Attention(nn.Module):
    """Over pictures of tokens (batch, rows, columns, channels), with biases by relative rows and columns."""

    def __init__(self, width: int, heads: int, size: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        rows, columns = (torch.randn(2 * size - 1, width // heads) for _ in range(2))
        self.rows, self.columns = nn.Parameter(rows), nn.Parameter(columns)
        index = torch.arange(size)
        self.register_buffer("distance", index[:, None] - index[None, :] + size - 1)

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, width = x.shape
        qkv = self.qkv(x).reshape(n, h * w, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, n * self.heads, h * w, -1).unbind(0)
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        by_place = q.reshape(n * self.heads, h, w, -1)
        rows = torch.einsum("bhwc,hkc->bhwk", by_place, self.rows[self.distance])
        columns = torch.einsum("bhwc,wkc->bhwk", by_place, self.columns[self.distance])
        scores = scores.view(-1, h, w, h, w) + rows[:, :, :, :, None] + columns[:, :, :, None, :]
        mixed = scores.view(-1, h * w, h * w).softmax(-1) @ v
        return self.proj(mixed.view(n, self.heads, h, w, -1).permute(0, 2, 3, 1, 4).reshape(n, h, w, width))


class Block(nn.Module):
    """``window``: side of the windows, or 0 for attention over all ``size`` x ``size`` tokens."""

    def __init__(self, width: int, heads: int, size: int, window: int):
        super().__init__()
        self.window = window
        self.before, self.after = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attention = Attention(width, heads, window or size)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.before(x)
        x = x + (self.in_windows(normed) if self.window else self.attention(normed))
        return x + self.mlp(self.after(x))

    def in_windows(self, x: Tensor) -> Tensor:
        n, h, w, width = x.shape
        side = self.window
        more_h, more_w = -h % side, -w % side
        x = functional.pad(x, (0, 0, 0, more_w, 0, more_h))
        high, wide = (h + more_h) // side, (w + more_w) // side
        x = x.view(n, high, side, wide, side, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, side, side, width)
        x = self.attention(x).view(n, high, wide, side, side, width).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(n, high * side, wide * side, width)[:, :h, :w]


class ChannelNorm(nn.Module):
    """Of the channels at each place, by its formula, as published."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        x = centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Encoder(nn.Module):
    """``whole``: the blocks whose attention is over the whole picture."""

    def __init__(
        self,
        side: int,
        width: int,
        depth: int,
        heads: int,
        window: int = 14,
        whole: tuple[int, ...] = (),
        out: int = 256,
    ):
        super().__init__()
        size = side // PATCH
        self.patches = nn.Conv2d(3, width, PATCH, PATCH)
        self.positions = nn.Parameter(torch.zeros(1, size, size, width))
        self.blocks = nn.Sequential(
            *(Block(width, heads, size, 0 if index in whole else window) for index in range(depth))
        )
        self.neck = nn.Sequential(
            nn.Conv2d(width, out, 1, bias=False),
            ChannelNorm(out),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            ChannelNorm(out),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1) + self.positions
        return self.neck(self.blocks(x).permute(0, 3, 1, 2))
