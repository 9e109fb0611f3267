"""A network of 8-bit integers as a .tflite file. Layout is TFLite's: NHWC; weights have a scale for each output."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from pipeall.errors import DeviceError
from pipeall.graph.ir import Graph, Node, Quantization

TYPES = {"int8": schema.TensorType.INT8, "uint8": schema.TensorType.UINT8, "float32": schema.TensorType.FLOAT32,
         "int32": schema.TensorType.INT32}  # fmt: skip
OP = schema.BuiltinOperator
NONE, RELU, RELU6 = (getattr(schema.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU6"))
PIXELS = (0, 2, 3, 1)  # the axes of an image, as TFLite has them
PLANES = (0, 3, 1, 2)  # back
VERSION = 3  # of the schema
LOWEST = -128  # what a maximum never takes
PROBABILITY = Quantization((1 / 256,), (-128,))  # what softmax and sigmoid make


def nhwc(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in PIXELS) if len(shape) == 4 else tuple(shape)


class TfliteFile:
    """The file in the making.

    Raises DeviceError naming a node for which there is no operator.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.net, self.file = schema.SubGraphT(), schema.ModelT()
        self.net.name = graph.name.encode()
        self.net.tensors, self.net.operators = [], []
        self.file.version, self.file.subgraphs, self.file.operatorCodes = VERSION, [self.net], []
        self.file.buffers = [schema.BufferT()]  # the first is empty: of what is computed
        ends = {"quantize": lambda node: node.output, "dequantize": lambda node: node.inputs[0]}
        self._levels = {  # of all tensors of integers: at the model's ends those of the nodes there
            ends[node.op](node): Quantization((node.attrs["scale"],), (node.attrs["zero"],))
            for node in graph.nodes
            if node.op in ends
        } | {name: tensor.quantization for name, tensor in graph.tensors.items() if tensor.quantization}
        self._index: dict[str, int] = {}
        self._codes: dict[int, int] = {}
        for tensor in graph.inputs:
            self.activation(tensor.name)
        for node in graph.nodes:
            try:
                if node.op not in RULES:
                    raise DeviceError(f"expected one of {', '.join(RULES)} of int8, got {node.op!r}")
                RULES[node.op](self, node)
            except DeviceError as error:
                raise DeviceError(f"node {node.name!r}: {error}") from None
        self.net.inputs = [self._index[tensor.name] for tensor in graph.inputs]
        self.net.outputs = [self._index[tensor.name] for tensor in graph.outputs]

    def content(self) -> bytes:
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.file.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    # ---- tensors ----

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str, levels: Quantization | None = None,
               array: np.ndarray | None = None, axis: int = 0) -> int:  # fmt: skip
        """A new tensor, in TFLite's layout: its number."""
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name.encode(), list(shape), TYPES[dtype], 0
        if levels is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = list(levels.scale), list(levels.zero_point)
            made.quantization.quantizedDimension = axis
        if array is not None:
            made.buffer = len(self.file.buffers)
            stored = schema.BufferT()
            stored.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            self.file.buffers.append(stored)
        self.net.tensors.append(made)
        return len(self.net.tensors) - 1

    def activation(self, name: str) -> int:
        if name not in self._index:
            tensor = self.graph.tensors[name]
            self._index[name] = self.tensor(name, nhwc(tensor.shape), tensor.dtype, self._levels.get(name))
        return self._index[name]

    def like(self, name: str, part: str, levels: Quantization, shape: tuple[int, ...] | None = None) -> int:
        """A tensor between two operators that a node becomes."""
        return self.tensor(f"{name}/{part}", nhwc(shape or self.graph.tensors[name].shape), "int8", levels)

    def operand(self, name: str) -> int:
        """An activation, or a constant of integers."""
        if name in self.graph.tensors:
            return self.activation(name)
        array = self.graph.constants[name]
        array = array.transpose(PIXELS) if array.ndim == 4 else array
        return self.tensor(name, array.shape, "int8", self.graph.qparams[name], array)

    def numbers(self, name: str, values: Any) -> int:
        array = np.asarray(values, np.int32)
        return self.tensor(name, array.shape, "int32", None, array)

    # ---- operators ----

    def emit(self, op: int, inputs: list[int], output: int, kind: str = "", **options: Any) -> int:
        """Adds an operator with its options, such as those of "Conv2D"."""
        if op not in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = op, min(op, 127), VERSIONS.get(op, 1)
            self._codes[op] = len(self.file.operatorCodes)
            self.file.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self._codes[op], inputs, [output]
        if kind:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, f"{kind}Options")
            made.builtinOptions = getattr(schema, f"{kind}OptionsT")()
            for name, value in options.items():
                setattr(made.builtinOptions, name, value)
        self.net.operators.append(made)
        return output

    def levels(self, name: str) -> Quantization:
        if name not in self._levels:
            raise DeviceError(f"tensor {name!r}: expected integers with a scale, got {self.graph.tensors[name].dtype}")
        return self._levels[name]

    def clamp(self, node: Node) -> int:
        """The activation behind a layer. Its levels end no further than these, where they end at all."""
        low, high = node.attrs.get("lo", -inf), node.attrs.get("hi", inf)
        known = {(-inf, inf): NONE, (0, inf): RELU, (0, 6): RELU6}
        if (low, high) not in known:
            raise DeviceError("expected a result that is clamped at 0, or 0 and 6, or not at all")
        return known[low, high]

    def padded(
        self, node: Node, x: int, shape: tuple[int, ...], kernel: tuple[int, ...]
    ) -> tuple[int, int, tuple[int, ...]]:
        """The input of a window with what is padded that TFLite cannot say: the tensor, its padding, and its shape."""
        top, left, bottom, right = node.attrs["pads"]
        if not any((top, left, bottom, right)):
            return x, schema.Padding.VALID, shape
        same = []
        for axis, side in enumerate(shape[2:]):
            stride, reach = (
                node.attrs["strides"][axis],
                (kernel[axis] - 1) * node.attrs.get("dilations", (1, 1))[axis] + 1,
            )
            total = max((-(-side // stride) - 1) * stride + reach - side, 0)
            same.append((total // 2, total - total // 2))
        if [(top, bottom), (left, right)] == same:
            return x, schema.Padding.SAME, shape
        images, channels, height, width = shape
        grown = (images, channels, height + top + bottom, width + left + right)
        paddings = self.numbers(f"{node.output}/paddings", [[0, 0], [top, bottom], [left, right], [0, 0]])
        out = self.like(node.output, "padded", self.levels(node.inputs[0]), grown)
        levels = self.levels(node.inputs[0])
        value = LOWEST if node.op == "maxpool" else levels.zero_point[0]
        fill = self.tensor(f"{node.output}/fill", (1,), "int8", levels, np.array([value], np.int8))
        return self.emit(OP.PADV2, [x, paddings, fill], out, "PadV2"), schema.Padding.VALID, grown


def _layer(f: TfliteFile, node: Node) -> tuple[np.ndarray, Quantization, int]:
    """Weights, their levels, and the number of the bias, whose integers stand for sums of products."""
    f.levels(node.output)  # no layer of TFLite makes real numbers of integers
    weight, bias = (f.graph.constants[name] for name in node.inputs[1:3])
    levels, (scale, _) = f.graph.qparams.get(node.inputs[1]), f.levels(node.inputs[0]).single
    if weight.dtype != np.int8 or levels is None or len(node.inputs) > 3:
        raise DeviceError("expected weights of int8 and no residual")
    scales = scale * np.broadcast_to(np.asarray(levels.scale, np.float64), len(weight))
    whole = Quantization(tuple(levels.scale), (0,) * len(levels.scale))
    sums = Quantization(tuple(scales.tolist()), (0,) * len(scales))
    stored = np.clip(np.rint(bias / scales), -(2**31), 2**31 - 1).astype(np.int32)
    return weight, whole, f.tensor(f"{node.output}/bias", stored.shape, "int32", sums, stored)


def _conv(f: TfliteFile, node: Node) -> None:
    weight, levels, bias = _layer(f, node)
    shape, attrs, (height, width) = f.graph.tensors[node.inputs[0]].shape, node.attrs, weight.shape[2:]
    x, padding, shape = f.padded(node, f.activation(node.inputs[0]), shape, (height, width))
    common = {"padding": padding, "strideH": attrs["strides"][0], "strideW": attrs["strides"][1],
              "dilationHFactor": attrs["dilations"][0], "dilationWFactor": attrs["dilations"][1],
              "fusedActivationFunction": f.clamp(node)}  # fmt: skip
    groups, out = attrs["groups"], f.activation(node.output)
    if groups == 1:
        filters = f.tensor(f"{node.output}/weight", nhwc(weight.shape), "int8", levels, weight.transpose(PIXELS))
        f.emit(OP.CONV_2D, [x, filters, bias], out, "Conv2D", **common)
    elif groups == shape[1]:
        turned = weight.transpose(1, 2, 3, 0)  # one channel in: (1, h, w, out)
        filters = f.tensor(f"{node.output}/weight", turned.shape, "int8", levels, turned, axis=3)
        f.emit(OP.DEPTHWISE_CONV_2D, [x, filters, bias], out, "DepthwiseConv2D", **common,
               depthMultiplier=len(weight) // groups)  # fmt: skip
    else:
        raise DeviceError(f"expected one group or as many as channels, got {groups}")


def _fc(f: TfliteFile, node: Node) -> None:
    weight, levels, bias = _layer(f, node)
    shape = f.graph.tensors[node.inputs[0]].shape
    if node.attrs["axis"] != 1:
        raise DeviceError(f"expected axis 1, got {node.attrs['axis']}")
    if len(shape) == 4:  # features come pixel by pixel here
        weight = weight.reshape(-1, *shape[1:]).transpose(PIXELS).reshape(len(weight), -1)
    filters = f.tensor(f"{node.output}/weight", weight.shape, "int8", levels, weight)
    f.emit(OP.FULLY_CONNECTED, [f.activation(node.inputs[0]), filters, bias], f.activation(node.output),
           "FullyConnected", fusedActivationFunction=f.clamp(node))  # fmt: skip


def _sum(op: int, kind: str) -> Callable[[TfliteFile, Node], None]:
    def rule(f: TfliteFile, node: Node) -> None:
        inputs = [f.operand(name) for name in node.inputs]
        f.emit(op, inputs, f.activation(node.output), kind, fusedActivationFunction=f.clamp(node))

    return rule


def _pool(op: int) -> Callable[[TfliteFile, Node], None]:
    def rule(f: TfliteFile, node: Node) -> None:
        x, attrs = node.inputs[0], node.attrs
        shape, kernel = f.graph.tensors[x].shape, tuple(attrs["kernel"])
        whole = kernel == shape[2:] and not any(attrs["pads"])
        if op == OP.AVERAGE_POOL_2D and whole:
            axes = f.numbers(f"{node.output}/axes", [1, 2])
            f.emit(OP.MEAN, [f.activation(x), axes], f.activation(node.output), "Reducer", keepDims=True)
            return
        average = op == OP.AVERAGE_POOL_2D
        exact = attrs.get("dilations", (1, 1)) == (1, 1) and not attrs["ceil"]
        exact &= not (average and any(attrs["pads"]) and attrs["count_include_pad"])
        source, padding, grown = f.padded(node, f.activation(x), shape, kernel)
        if not exact or (average and grown != shape):
            raise DeviceError("expected a window that TFLite has, without ceil or dilations")
        own = f.levels(x)
        last = f.activation(node.output) if own == f.levels(node.output) else f.like(node.output, "pooled", own)
        f.emit(op, [source], last, "Pool2D", padding=padding, strideH=attrs["strides"][0], strideW=attrs["strides"][1],
               filterHeight=kernel[0], filterWidth=kernel[1], fusedActivationFunction=NONE)  # fmt: skip
        _onto(f, node, last)

    return rule


def _onto(f: TfliteFile, node: Node, made: int) -> None:
    """Takes integers to the levels of a node's output, where they are on others."""
    if made != f.activation(node.output):
        f.emit(OP.QUANTIZE, [made], f.activation(node.output), "Quantize")


def _probability(op: int, kind: str, **options: Any) -> Callable[[TfliteFile, Node], None]:
    def rule(f: TfliteFile, node: Node) -> None:
        rank = len(f.graph.tensors[node.output].shape)
        if node.op == "softmax" and node.attrs["axis"] not in (-1, rank - 1 if rank != 4 else 1):
            raise DeviceError(f"expected softmax over channels, got axis {node.attrs['axis']}")
        fits = f.levels(node.output) == PROBABILITY
        last = f.activation(node.output) if fits else f.like(node.output, "probability", PROBABILITY)
        _onto(f, node, f.emit(op, [f.activation(node.inputs[0])], last, kind, **options))

    return rule


def _concat(f: TfliteFile, node: Node) -> None:
    axis = node.attrs["axis"]
    axis = PIXELS.index(axis) if len(f.graph.tensors[node.output].shape) == 4 else axis
    inputs = [f.operand(name) for name in node.inputs]
    f.emit(
        OP.CONCATENATION, inputs, f.activation(node.output), "Concatenation", axis=axis, fusedActivationFunction=NONE
    )


def _resize(f: TfliteFile, node: Node) -> None:
    attrs, op = node.attrs, {"nearest": "NearestNeighbor", "linear": "Bilinear"}.get(node.attrs["mode"])
    pixel = {"half_pixel": (False, True), "align_corners": (True, False), "asymmetric": (False, False)}
    if op is None or attrs["coordinates"] not in pixel or attrs["antialias"]:
        raise DeviceError("expected nearest or linear by half_pixel, align_corners or asymmetric")
    corners, half = pixel[attrs["coordinates"]]
    size = f.numbers(f"{node.output}/size", attrs["sizes"][2:])
    code = OP.RESIZE_BILINEAR if op == "Bilinear" else OP.RESIZE_NEAREST_NEIGHBOR
    own = f.levels(node.inputs[0])
    last = f.activation(node.output) if own == f.levels(node.output) else f.like(node.output, "resized", own)
    f.emit(code, [f.activation(node.inputs[0]), size], last, f"Resize{op}", alignCorners=corners, halfPixelCenters=half)
    _onto(f, node, last)


def _reshape(f: TfliteFile, node: Node) -> None:
    """Elements are first in the model's order, where that is another than pixels have."""
    before, after = (f.graph.tensors[name].shape for name in (node.inputs[0], node.output))
    moved = [len(shape) == 4 and min(shape[1], shape[2] * shape[3]) > 1 for shape in (before, after)]
    x, levels, given = f.activation(node.inputs[0]), f.levels(node.inputs[0]), nhwc(after)
    if before != after and moved[0]:
        x = _transposed(f, x, f.tensor(f"{node.output}/planes", before, "int8", levels), PLANES)
    last = f.activation(node.output) if levels == f.levels(node.output) else f.like(node.output, "shaped", levels)
    if before != after and moved[1]:
        shaped, given = f.tensor(f"{node.output}/rows", after, "int8", levels), after
    else:
        shaped = last
    shape = f.numbers(f"{node.output}/shape", given)
    f.emit(OP.RESHAPE, [x, shape], shaped, "Reshape", newShape=list(given))
    if shaped != last:
        _transposed(f, shaped, last, PIXELS)
    _onto(f, node, last)


def _transpose(f: TfliteFile, node: Node) -> None:
    """By the axes that TFLite has."""
    perm, own = tuple(node.attrs["perm"]), f.levels(node.inputs[0])
    perm = tuple(PIXELS.index(perm[axis]) for axis in PIXELS) if len(perm) == 4 else perm
    last = f.activation(node.output) if own == f.levels(node.output) else f.like(node.output, "turned", own)
    _onto(f, node, _transposed(f, f.activation(node.inputs[0]), last, perm))


def _transposed(f: TfliteFile, x: int, out: int, perm: tuple[int, ...]) -> int:
    return f.emit(OP.TRANSPOSE, [x, f.numbers(f"{out}/perm", perm)], out, "Transpose")


def _clip(f: TfliteFile, node: Node) -> None:
    op = {NONE: OP.QUANTIZE, RELU: OP.RELU, RELU6: OP.RELU6}[f.clamp(node)]
    f.emit(op, [f.activation(node.inputs[0])], f.activation(node.output), "Quantize" if op == OP.QUANTIZE else "")


def _quantize(f: TfliteFile, node: Node) -> None:
    f.emit(OP.QUANTIZE, [f.activation(node.inputs[0])], f.activation(node.output), "Quantize")


def _dequantize(f: TfliteFile, node: Node) -> None:
    f.levels(node.inputs[0])
    f.emit(OP.DEQUANTIZE, [f.activation(node.inputs[0])], f.activation(node.output), "Dequantize")


VERSIONS = {OP.CONV_2D: 3, OP.DEPTHWISE_CONV_2D: 3, OP.FULLY_CONNECTED: 4, OP.ADD: 2, OP.MUL: 2, OP.PADV2: 2,
            OP.MEAN: 2, OP.AVERAGE_POOL_2D: 2, OP.MAX_POOL_2D: 2, OP.SOFTMAX: 2, OP.LOGISTIC: 2, OP.CONCATENATION: 2,
            OP.RESIZE_BILINEAR: 3, OP.RESIZE_NEAREST_NEIGHBOR: 3, OP.QUANTIZE: 2, OP.DEQUANTIZE: 2, OP.RELU: 2,
            OP.RELU6: 2, OP.TRANSPOSE: 2}  # fmt: skip
RULES: dict[str, Callable[[TfliteFile, Node], None]] = {
    "conv": _conv,
    "fc": _fc,
    "add": _sum(OP.ADD, "Add"),
    "mul": _sum(OP.MUL, "Mul"),
    "avgpool": _pool(OP.AVERAGE_POOL_2D),
    "maxpool": _pool(OP.MAX_POOL_2D),
    "softmax": _probability(OP.SOFTMAX, "Softmax", beta=1.0),
    "sigmoid": _probability(OP.LOGISTIC, ""),
    "concat": _concat,
    "resize": _resize,
    "reshape": _reshape,
    "transpose": _transpose,
    "clip": _clip,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
