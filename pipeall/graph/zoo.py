"""The five networks of paper 001 with seeded random weights: AlexNet, GoogLeNet, MobileNet, ResNet-50, SqueezeNet.

Batch normalization is folded, activations and residual additions are fused, as ``rewrite`` does in imported models.
Weights are normal with variance gain / fan-in, gain 2 before a ReLU (He et al. 2015), so that activations neither
explode nor vanish for inputs of deviation 1. Every function takes a seed and returns a graph with the input "data"
(1, 3, H, W) and the output "prob" (1, 1000).
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from ..arguments import checked, one_of, whole
from .builder import GraphBuilder
from .ir import Graph, Tensor

CLASSES = 1000
RELU, RELU6, LINEAR = (0.0, inf), (0.0, 6.0), (-inf, inf)
SAME = (0, 0, 1, 1)  # TensorFlow's padding of a 3 x 3 window with stride 2 on an even size: below and right


@checked(seed=whole(0))
def alexnet(seed: int = 0) -> Graph:
    """AlexNet as in Caffe: conv2, conv4 and conv5 in two groups, LRN before pooling; input 227 x 227."""
    net = _NetBuilder("alexnet", 227, seed)
    x = net.maxpool("pool1", net.lrn("norm1", net.conv("conv1", "data", 96, 11, stride=4)))
    x = net.maxpool("pool2", net.lrn("norm2", net.conv("conv2", x, 256, 5, pad=2, groups=2)))
    x = net.conv("conv3", x, 384, 3, pad=1)
    x = net.conv("conv4", x, 384, 3, pad=1, groups=2)
    x = net.maxpool("pool5", net.conv("conv5", x, 256, 3, pad=1, groups=2))
    x = net.fc("fc7", net.fc("fc6", x, 4096), 4096)
    return net.classified(net.fc("fc8", x, CLASSES, LINEAR))


@checked(seed=whole(0))
def googlenet(seed: int = 0) -> Graph:
    """GoogLeNet (Inception v1) as in Caffe, without the two auxiliary classifiers; input 224 x 224."""
    net = _NetBuilder("googlenet", 224, seed)

    def inception(name: str, x: str, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> str:
        name = f"inception_{name}/"
        pooled = net.maxpool(name + "pool", x, stride=1, pad=1)
        branches = (
            net.conv(name + "1x1", x, one, 1),
            net.conv(name + "3x3", net.conv(name + "3x3_reduce", x, three[0], 1), three[1], 3, pad=1),
            net.conv(name + "5x5", net.conv(name + "5x5_reduce", x, five[0], 1), five[1], 5, pad=2),
            net.conv(name + "pool_proj", pooled, pool, 1),
        )
        return net.concat(name + "output", *branches)

    x = net.maxpool("pool1/3x3_s2", net.conv("conv1/7x7_s2", "data", 64, 7, stride=2, pad=3), ceil=True)
    x = net.conv("conv2/3x3_reduce", net.lrn("pool1/norm1", x), 64, 1)
    x = net.maxpool("pool2/3x3_s2", net.lrn("conv2/norm2", net.conv("conv2/3x3", x, 192, 3, pad=1)), ceil=True)
    x = inception("3a", x, 64, (96, 128), (16, 32), 32)
    x = inception("3b", x, 128, (128, 192), (32, 96), 64)
    x = inception("4a", net.maxpool("pool3/3x3_s2", x, ceil=True), 192, (96, 208), (16, 48), 64)
    x = inception("4b", x, 160, (112, 224), (24, 64), 64)
    x = inception("4c", x, 128, (128, 256), (24, 64), 64)
    x = inception("4d", x, 112, (144, 288), (32, 64), 64)
    x = inception("4e", x, 256, (160, 320), (32, 128), 128)
    x = inception("5a", net.maxpool("pool4/3x3_s2", x, ceil=True), 256, (160, 320), (32, 128), 128)
    x = inception("5b", x, 384, (192, 384), (48, 128), 128)
    return net.classified(net.fc("loss3/classifier", net.global_avgpool("pool5/7x7_s1", x), CLASSES, LINEAR))


@checked(seed=whole(0))
def mobilenet(seed: int = 0) -> Graph:
    """MobileNet v1 of width 1.0 as in TensorFlow: ReLU6, logits by a 1 x 1 convolution; input 224 x 224."""
    net = _NetBuilder("mobilenet", 224, seed)
    x = net.conv("Conv2d_0", "data", 32, 3, stride=2, pad=SAME, clamp=RELU6)
    units = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *5 * [(512, 1)], (1024, 2), (1024, 1)]
    for index, (channels, stride) in enumerate(units, 1):
        own, pad = net.shape(x)[1], SAME if stride == 2 else 1
        x = net.conv(f"Conv2d_{index}_depthwise", x, own, 3, stride, pad, groups=own, clamp=RELU6)
        x = net.conv(f"Conv2d_{index}_pointwise", x, channels, 1, clamp=RELU6)
    return net.classified(net.logits("Conv2d_1c_1x1", net.global_avgpool("AvgPool_1a", x)))


@checked(seed=whole(0), variant=one_of("v1.5", "slim"))
def resnet50(seed: int = 0, variant: str = "v1.5") -> Graph:
    """ResNet-50, input 224 x 224.

    variant "v1.5" (torchvision): stride 2 in the 3 x 3 convolution of the first unit of blocks 2 to 4. "slim" (TF-slim
    v1, which paper 001 ran): stride 2 in the last unit of blocks 1 to 3, whose shortcut is a 1 x 1 max-pooling of
    stride 2; logits by a 1 x 1 convolution. Raises ArgumentError for any other.
    """
    slim = variant == "slim"
    net = _NetBuilder("resnet50", 224, seed)
    x = net.maxpool("pool1", net.conv("conv1", "data", 64, 7, stride=2, pad=3), pad=SAME if slim else 1)
    for block, (width, units) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 1):
        strided = (units if block < 4 else None) if slim else (1 if block > 1 else None)
        for unit in range(1, units + 1):
            name, stride = f"block{block}/unit_{unit}/", 2 if unit == strided else 1
            shortcut = x
            if unit == 1:
                shortcut = net.conv(name + "shortcut", x, 4 * width, 1, stride, clamp=LINEAR)
            elif stride == 2:
                shortcut = net.maxpool(name + "shortcut", x, kernel=1)
            x = net.conv(name + "conv2", net.conv(name + "conv1", x, width, 1), width, 3, stride, pad=1)
            x = net.conv(name + "conv3", x, 4 * width, 1, residual=shortcut)
    x = net.global_avgpool("pool5", x)
    return net.classified(net.logits("logits", x) if slim else net.fc("fc", x, CLASSES, LINEAR))


@checked(seed=whole(0))
def squeezenet(seed: int = 0) -> Graph:
    """SqueezeNet 1.0; input 224 x 224, poolings round up."""
    net = _NetBuilder("squeezenet", 224, seed)
    x = net.maxpool("pool1", net.conv("conv1", "data", 96, 7, stride=2), ceil=True)
    for index, width in enumerate([16, 16, 32, 32, 48, 48, 64, 64], 2):
        name = f"fire{index}/"
        x = net.conv(name + "squeeze1x1", x, width, 1)
        expanded = (net.conv(name + "expand1x1", x, 4 * width, 1), net.conv(name + "expand3x3", x, 4 * width, 3, pad=1))
        x = net.concat(name + "concat", *expanded)
        if index in (4, 8):
            x = net.maxpool(f"pool{index}", x, ceil=True)
    x = net.global_avgpool("pool10", net.conv("conv10", x, CLASSES, 1))
    return net.classified(net.flatten("flatten", x))


class _NetBuilder(GraphBuilder):
    """A network in the making: every method adds a node and returns its output, which bears the node's name."""

    def __init__(self, name: str, size: int, seed: int) -> None:
        data = Tensor("data", (1, 3, size, size))
        super().__init__(Graph(name, (), {"data": data}, {}, (data,), ()))
        self.random = np.random.default_rng(seed)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def node(self, op: str, name: str, *inputs: str, **attrs: Any) -> str:
        return self.add(op, name, inputs, name, **attrs)

    def weights(self, name: str, shape: tuple[int, ...], gain: float) -> tuple[str, str]:
        """Names of the weight and the bias of a node."""
        weight = self.random.standard_normal(shape, np.float32)
        weight *= np.float32(np.sqrt(gain / prod(shape[1:])))
        bias = self.random.standard_normal(shape[0], np.float32)
        bias *= np.float32(0.1)
        self.constants |= {f"{name}/weight": weight, f"{name}/bias": bias}
        return f"{name}/weight", f"{name}/bias"

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int | tuple[int, int, int, int] = 0,
        groups: int = 1,
        clamp: tuple[float, float] = RELU,
        residual: str | None = None,
    ) -> str:
        """A convolution. ``pad``: all sides, or top, left, bottom, right; ``residual`` is added before the clamp."""
        gain = 1 if clamp == LINEAR else 2
        if residual is not None:
            gain = 0.25  # of the variance of the shortcut: a sum of two equals would double it from unit to unit
        shape = (channels, self.shape(x)[1] // groups, kernel, kernel)
        inputs = (x, *self.weights(name, shape, gain), *([residual] if residual else []))
        attrs = {"strides": (stride, stride), "pads": _sides(pad), "groups": groups}
        return self.node("conv", name, *inputs, lo=clamp[0], hi=clamp[1], **attrs)

    def fc(self, name: str, x: str, features: int, clamp: tuple[float, float] = RELU) -> str:
        weights = self.weights(name, (features, prod(self.shape(x))), 1 if clamp == LINEAR else 2)
        return self.node("fc", name, x, *weights, lo=clamp[0], hi=clamp[1])

    def maxpool(
        self,
        name: str,
        x: str,
        kernel: int = 3,
        stride: int = 2,
        pad: int | tuple[int, int, int, int] = 0,
        ceil: bool = False,
    ) -> str:
        attrs = {"strides": (stride, stride), "pads": _sides(pad), "ceil": ceil}
        return self.node("maxpool", name, x, kernel=(kernel, kernel), **attrs)

    def global_avgpool(self, name: str, x: str) -> str:
        return self.node("avgpool", name, x, kernel=self.shape(x)[2:])

    def lrn(self, name: str, x: str) -> str:
        return self.node("lrn", name, x, size=5)

    def concat(self, name: str, *inputs: str) -> str:
        return self.node("concat", name, *inputs, axis=1)

    def flatten(self, name: str, x: str) -> str:
        return self.node("reshape", name, x, shape=(1, prod(self.shape(x))))

    def logits(self, name: str, x: str) -> str:
        """A classifier: a 1 x 1 convolution of one pixel."""
        return self.flatten(f"{name}/flatten", self.conv(name, x, CLASSES, 1, clamp=LINEAR))

    def classified(self, x: str) -> Graph:
        return self.graph([self.node("softmax", "prob", x)])


def _sides(pad: int | tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return (pad,) * 4 if isinstance(pad, int) else pad
