"""A network of floats computed by torch, so that its weights can be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ModelError, missing_extra
from ..graph.ir import Graph, Node

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise missing_extra("torch", "nas", "fine-tuning") from None

Run = Callable[..., Any]  # (attributes of the node, shape of its output, what it reads) -> its output


def computed(graph: Graph, constants: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """All tensors of a graph by name, for inputs of any batch. Raises ModelError naming a node that is not known."""
    values = {**constants, **inputs}
    for node in graph.nodes:
        if node.op not in RUN:
            raise ModelError(f"{graph.name}: node {node.name!r}: {node.op} is not among what is fine-tuned")
        run, shape = RUN[node.op], graph.tensors[node.output].shape
        values[node.output] = _clamped(node, run(node.attrs, shape, *(values[name] for name in node.inputs)))
    return values


def constants_of(graph: Graph) -> dict[str, Any]:
    return {name: torch.tensor(array) for name, array in graph.constants.items()}


def _clamped(node: Node, x: Any) -> Any:
    low, high = node.attrs.get("lo", -np.inf), node.attrs.get("hi", np.inf)
    return x if (low, high) == (-np.inf, np.inf) else x.clamp(low, high)


def _padded(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any, kernel: Any, value: float) -> Any:
    """With all that the windows of the output read around the image."""
    strides, dilations, (top, left, _, _) = attrs["strides"], attrs.get("dilations", (1, 1)), attrs["pads"]
    below, right = (
        max(0, (out - 1) * stride + (taps - 1) * dilation + 1 - before - size)
        for out, stride, taps, dilation, before, size in zip(
            shape[2:], strides, kernel, dilations, (top, left), x.shape[2:], strict=True
        )
    )
    return functional.pad(x, (left, right, top, below), value=value)


def _conv(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any, weight: Any, bias: Any, *residual: Any) -> Any:
    x = _padded(attrs, shape, x, weight.shape[2:], 0.0)
    y = functional.conv2d(x, weight, bias, attrs["strides"], 0, attrs["dilations"], attrs["groups"])
    y = y[:, :, : shape[2], : shape[3]]
    return y + residual[0] if residual else y


def _maxpool(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any) -> Any:
    x = _padded(attrs, shape, x, attrs["kernel"], -np.inf)
    return functional.max_pool2d(x, attrs["kernel"], attrs["strides"], 0, attrs["dilations"])[
        :, :, : shape[2], : shape[3]
    ]


def _avgpool(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any) -> Any:
    ones = x.new_ones(1, 1, *x.shape[2:])
    if attrs["count_include_pad"]:
        top, left, below, right = attrs["pads"]
        ones = functional.pad(ones, (left, right, top, below), value=1.0)
        attrs = {**attrs, "pads": (0, 0, 0, 0)}
        x = functional.pad(x, (left, right, top, below))
    total, count = (
        functional.avg_pool2d(_padded(attrs, shape, each, attrs["kernel"], 0.0), attrs["kernel"], attrs["strides"])
        for each in (x, ones)
    )
    return (total / count)[:, :, : shape[2], : shape[3]]


def _fc(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any, weight: Any, bias: Any) -> Any:
    return functional.linear(x.flatten(attrs["axis"]), weight, bias)


def _concat(attrs: Mapping[str, Any], shape: tuple[int, ...], *xs: Any) -> Any:
    return torch.cat(xs, attrs["axis"])


def _shuffle(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any) -> Any:
    return functional.channel_shuffle(x, attrs["groups"])


def _slice(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any) -> Any:
    axis = attrs["axis"]
    places = np.arange(x.shape[axis])[attrs["start"] : attrs["stop"] : attrs["step"]]
    return x.index_select(axis, torch.from_numpy(places.copy()))


def _resize(attrs: Mapping[str, Any], shape: tuple[int, ...], x: Any) -> Any:
    return functional.interpolate(x, shape[2:], mode="nearest" if attrs["mode"] == "nearest" else "bilinear")


def _binary(call: Callable[[Any, Any], Any]) -> Run:
    return lambda attrs, shape, a, b: call(b, a) if attrs["swapped"] else call(a, b)


def _of(call: Callable[..., Any], *names: str) -> Run:
    """A function of what a node reads, and of these of its attributes."""
    return lambda attrs, shape, *xs: call(*xs, *(attrs[name] for name in names))


RUN: Mapping[str, Run] = {
    "conv": _conv,
    "maxpool": _maxpool,
    "avgpool": _avgpool,
    "fc": _fc,
    "concat": _concat,
    "shuffle": _shuffle,
    "slice": _slice,
    "resize": _resize,
    "reshape": lambda attrs, shape, x: x.reshape(len(x), *shape[1:]),
    "transpose": _of(torch.permute, "perm"),
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "div": _binary(torch.div),
    "softmax": _of(torch.softmax, "axis"),
    "clip": lambda attrs, shape, x: x,  # its bounds follow
    "sigmoid": _of(torch.sigmoid),
    "tanh": _of(torch.tanh),
    "swish": lambda attrs, shape, x: x * torch.sigmoid(attrs["alpha"] * x),
    "hardswish": _of(functional.hardswish),
    "hardsigmoid": lambda attrs, shape, x: (attrs["alpha"] * x + attrs["beta"]).clamp(0, 1),
    "leakyrelu": _of(functional.leaky_relu, "alpha"),
    "gelu": _of(functional.gelu),
}
