"""The blocks of networks that boards run well, as convolutions: what the staged spaces build their networks of."""

from __future__ import annotations

from math import gcd

from .genome import SOURCE, Block, Convolution

SQUEEZE = 4  # so many times fewer channels has a gate than its block reads
MOBILE_PARTS = 8  # convolutions of the kinds of block of MobileNet and ResNet: five of the one, three of the other
PARTS = 32  # of all kinds of block

Place = tuple[int, int]  # a stage, and the number of a block in it


class Builder:
    """Convolutions in the making. Every method adds some and returns the index of the last.

    An index is a function of the place and of the part of the block, so that networks of one space inherit from each
    other what they have in common.

    parts  how many convolutions the kinds of block have that are used
    """

    def __init__(self, parts: int = MOBILE_PARTS) -> None:
        self.parts = parts
        self.blocks: list[Block] = []

    def conv(self, place: Place, x: int, neurons: int, kernel: int, part: int = 0, **more: object) -> int:
        stage, number = place
        index = 1 + part + self.parts * (number + 64 * stage)
        self.blocks.append(Convolution(index, (x,), neurons, kernel, **more))
        return index

    def side(self, index: int, of_picture: int) -> int:
        """Of what a convolution gives, in pixels."""
        block = next(block for block in self.blocks if block.index == index)
        before = block.side or (of_picture if block.inputs[0] == SOURCE else self.side(block.inputs[0], of_picture))
        return -(-before // block.stride)

    def gate(self, place: Place, x: int, few: int, neurons: int, part: int) -> int:
        """Squeeze-and-excitation with MobileNet v3's hard sigmoid: two convolutions of the mean, the second one
        multiplied with what was read."""
        few = self.conv(place, x, max(1, few // SQUEEZE), 1, part, normed=False, averaged=True)
        return self.conv(place, few, neurons, 1, part + 1, normed=False, activation="hardsigmoid", factor=x)

    def inverted(
        self, place: Place, x: int, channels: int, neurons: int, kernel: int, stride: int, expansion: int, gate: bool
    ) -> int:
        """Expansion, depthwise convolution, its gate and projection; the input is added where it has the shape of the
        result."""
        wide, inner = expansion * channels, x
        if expansion > 1:
            inner = self.conv(place, x, wide, 1, 0)
        inner = self.conv(place, inner, wide, kernel, 1, stride=stride, depthwise=True)
        if gate:
            inner = self.gate(place, inner, channels, wide, 2)
        return self._projected(place, inner, x, channels, neurons, stride, 4)

    def residual(
        self,
        place: Place,
        x: int,
        channels: int,
        neurons: int,
        kernel: int,
        stride: int,
        groups: int = 1,
        gate: bool = False,
    ) -> int:
        """Two convolutions, the first one in groups, and the input added ahead of the last ReLU; projected where it has
        another shape. A gate is ahead of the last convolution, as in RegNetY."""
        groups = gcd(groups, channels, neurons)
        inner = self.conv(place, x, neurons, kernel, 5, stride=stride, groups=groups)
        if gate:
            inner = self.gate(place, inner, neurons, neurons, 8)
        if stride > 1 or channels != neurons:
            x = self.conv(place, x, neurons, 1, 6, stride=stride, activation="none")
        return self.conv(place, inner, neurons, kernel, 7, added=x)

    def convnext(
        self, place: Place, x: int, channels: int, neurons: int, kernel: int, stride: int, expansion: int
    ) -> int:
        """A depthwise convolution, then expansion and projection, with one activation (Liu et al. 2022). ReLU and batch
        normalization, which costs a board nothing, take the places of GELU and layer normalization."""
        inner = self.conv(place, x, channels, kernel, 10, stride=stride, depthwise=True, activation="none")
        inner = self.conv(place, inner, expansion * channels, 1, 11)
        return self._projected(place, inner, x, channels, neurons, stride, 12)

    def grouped(
        self,
        place: Place,
        x: int,
        channels: int,
        neurons: int,
        kernel: int,
        stride: int,
        expansion: int,
        groups: int,
        gate: bool,
    ) -> int:
        """A convolution in groups that expands, its gate and projection: the fused block of CPUBone (Nottebaum et al.
        2026), there of kernel 2, expansion 4 and two groups."""
        wide = expansion * channels
        inner = self.conv(place, x, wide, kernel, 13, stride=stride, groups=gcd(groups, channels))
        if gate:
            inner = self.gate(place, inner, channels, wide, 14)
        return self._projected(place, inner, x, channels, neurons, stride, 16)

    def _projected(self, place: Place, inner: int, x: int, channels: int, neurons: int, stride: int, part: int) -> int:
        added = x if stride == 1 and channels == neurons else None
        return self.conv(place, inner, neurons, 1, part, activation="none", added=added)
