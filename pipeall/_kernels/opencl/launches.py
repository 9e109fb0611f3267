"""From steps to launches of OpenCL kernels: which kernel computes a step, with which parameters and arguments."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, prod
from typing import Any

import numpy as np

from ...errors import DeviceError
from ...steps import ARENA, CONSTANT, SLOT_IN, SLOT_OUT, Lowered, Step, Strided, View, is_depthwise, item_bytes
from . import devices as opencl
from .methods import DEPTHWISE_PIXELS, WINOGRAD_WEIGHT, Choose, Method, block, family, methods, modelled, transformed
from .queue import PICTURE_FORMATS, picture_table_bytes
from .strided_launches import SCRATCH, STRIDED_KINDS, formula, layernorm_along, refusal, scores, softmax_along

# Elements that are moved as bits, by their bytes.
INTEGERS = {1: (np.uint8, "uchar"), 2: (np.uint16, "ushort"), 4: (np.uint32, "uint"), 8: (np.uint64, "ulong")}
C_TYPES = {  # element type -> how OpenCL C names it
    "float32": "float",
    "float16": "half",
    "int8": "char",
    "uint8": "uchar",
    "int32": "int",
    "int64": "long",
    "bool": "uchar",
}
Define = int | str  # value of a -D parameter


class Base(int):
    """A kernel argument that is the memory of this base."""


SLOT = Base(SLOT_IN)  # stands for memory of float32


class Recorder:
    """Turns steps into the launches of a ``queue.LaunchProgram``, and keeps all that they refer to alive.

    precision: one of opencl.PRECISIONS. In half precision lie the arena, what lies between Winograd's kernels, and the
    weights; slots stay float32, so that whoever first reads one and last writes one converts.
    choose: picks one of the ``methods`` of a convolution.
    """

    def __init__(
        self,
        lowered: Lowered,
        device: opencl.Device,
        precision: str = "fp32",
        choose: Choose = modelled,
    ):
        self.commands: list[tuple] = []
        self.labels: list[tuple[str, str]] = []  # of each command
        self.algorithms: list[Method | None] = []  # likewise
        self.step_of: list[int] = []  # likewise: the number of its step
        self.patches: list[tuple] = []
        self.reads: tuple | None = None  # how frames are read (``queue.LaunchProgram``, picture)
        self._kept: list[Any] = []  # kernels and arguments: OpenCL does not keep a kernel's buffers alive
        self._device = device
        self._family = family(device.info)
        self._precision = precision
        self._stored = np.dtype(np.float32 if precision == "fp32" else np.float16)
        if reason := unsupported(lowered, precision):
            raise DeviceError(reason)
        self._arena = device.allocate(lowered.arena_bytes * self._stored.itemsize // item_bytes("float32"))
        convs = [step for step in lowered.steps if step.kind == "conv"]
        self._zeros = device.upload(np.zeros(max([1, *(step.weight.shape[1] for step in convs)]), np.float32))
        candidates = ((step, methods(step, device.info, precision)) for step in convs)
        self._methods = {id(step): choose(step, found) for step, found in candidates if found}
        self._packed: dict[tuple[int, ...], Any] = {}  # weights that are uploaded: a batch's steps share them
        sizes = [transformed(step, m) for step in convs if (m := self._m(step))]
        self._transformed = [device.allocate(self._stored.itemsize * max(side)) for side in zip(*sizes, strict=True)]
        between = [prod(scores(step).shape) for step in lowered.steps if step.kind == "attention"]
        self._scratch = device.allocate(item_bytes("float32") * max(between, default=0))
        self._uploaded: dict[int, tuple[np.ndarray, Any]] = {}  # id -> a constant, and its buffer
        for number, step in enumerate(lowered.steps):
            KINDS[step.kind](self, step)
            launched = len(self.commands) - len(self.step_of)
            method = self._methods.get(id(step))
            self.labels += [(step.kind, step.node)] * launched
            self.algorithms += [method] * launched
            self.step_of += [number] * launched

    @property
    def stand_in(self) -> bool:
        """A CPU runs the kernels."""
        return self._device.info.stand_in

    @property
    def half(self) -> int:
        """HALF_ARITHMETIC of vector.cl."""
        return int(self._precision == "fp16")

    def stored(self, operand: Strided) -> str:
        """How OpenCL C names the type of an operand as it lies in memory."""
        halved = operand.dtype == "float32" and operand.base == ARENA and self._precision != "fp32"
        return "half" if halved else C_TYPES[operand.dtype]

    def memory(self, operand: Strided) -> Any:
        """The kernel argument that is the memory of an operand: constants are uploaded once."""
        if operand.base == SCRATCH:
            return self._scratch
        return self.table(operand.array, operand.dtype) if operand.base == CONSTANT else Base(operand.base)

    def table(self, array: np.ndarray, dtype: Any) -> Any:
        """A buffer of the elements of an array, as dtype."""
        if id(array) not in self._uploaded:
            elements = array.reshape(-1) if array.size else np.zeros(1, dtype)
            self._uploaded[id(array)] = array, self._device.upload(elements, dtype)
        return self._uploaded[id(array)][1]

    def _m(self, step: Step) -> int:
        return self._methods[id(step)].m if id(step) in self._methods else 0

    def _types(self, **memories: Any) -> dict[str, Define]:
        """The parameters of vector.cl for where X, Y and R of a kernel lie: a ``Base``, a buffer, or None."""
        if self._precision == "fp32":
            return {}
        types = {name: "float" if isinstance(at, Base) and at != ARENA else "half" for name, at in memories.items()}
        return types | dict(W="half", HALF_ARITHMETIC=int(self._precision == "fp16"))

    def _moved(self, step: Step, **memories: Base) -> dict[str, Define]:
        """The parameters of copy.cl: floats change their type between memories, all else moves as bits."""
        if step.dst.dtype == "float32":
            return self._types(**memories)
        integer = INTEGERS[item_bytes(step.dst.dtype)][1]
        return dict.fromkeys(memories, integer) | {"BITS": integer}

    def _weights(self, step: Step, rows: np.ndarray, width: int, transform: np.ndarray | None = None) -> Any:
        """A buffer of a step's weights, as they are stored; ``transform`` makes other groups of those in ``rows``."""
        key = (id(step.weight), width, 0 if transform is None else len(transform), *rows.shape)
        if key not in self._packed:
            self._packed[key] = self._device.upload(_blocks(rows, width), self._stored, transform)
        return self._packed[key]

    def launch(self, step: Step, file: str, name: str, items: tuple[int, ...], *args: Any, **defines: Define) -> None:
        """Records a kernel over ``items`` work items, in up to three dimensions, rounded up to whole groups; 0: none.

        Arguments: int and float (32 bits), a tuple of up to 8 ints (int8, filled up with ones), an array (uploaded),
        a buffer, a ``Base``, None (NULL).
        """
        if not all(items):
            return
        kernel, group = self._device.kernel(file, name, **defines)
        for index, arg in enumerate(args):
            if isinstance(arg, Base) and arg != ARENA:
                self.patches.append((kernel.int_ptr, step.node, index, int(arg)))
            else:
                value = self._value(arg)
                kernel.set_arg(index, value)
                self._kept.append(value)
        sizes = tuple(ceil(count / size) * size for count, size in zip((*items, 1, 1)[:3], group, strict=True))
        self._kept.append(kernel)
        self.commands.append((kernel.int_ptr, step.node, sizes, group))

    def _value(self, arg: Any) -> Any:
        if isinstance(arg, Base):
            return self._arena
        if arg is None:
            return np.uintp(0)  # pyopencl takes no None before 2026.1.4
        if isinstance(arg, np.integer):
            return arg
        if isinstance(arg, int):
            return np.int32(arg)
        if isinstance(arg, float):
            return np.float32(arg)
        if isinstance(arg, tuple):
            return np.array(arg + (1,) * (8 - len(arg)), np.int32)
        return self._device.upload(arg) if isinstance(arg, np.ndarray) else arg

    def conv(self, step: Step) -> None:
        p = step.params
        residual = _at(step.src[1]) if len(step.src) > 1 else (None, 0, 0)
        clamp = float(p["lo"]), float(p["hi"])
        if is_depthwise(step):
            self._depthwise(step, residual, clamp)
        elif self._m(step):
            self._winograd(step, residual, clamp)
        else:
            self._direct(step, residual, clamp)

    def _depthwise(self, step: Step, residual: tuple, clamp: tuple) -> None:
        x, out, p = step.src[0], step.dst, step.params
        blocks = ceil(x.c / self._family.window["VECTOR"])
        width = blocks * self._family.window["VECTOR"]
        weight, bias = (
            self._weights(step, step.weight.reshape(1, x.c, -1), width),
            _blocks(step.bias.reshape(1, x.c, 1), width),
        )
        args = (*_at(x), x.h, x.w, x.c, *_at(out), out.w, *residual, weight, bias)
        rows = (p["kernel"][0], p["strides"][0], *p["pads"][:2], p["dilations"][0])
        columns = dict(KW=p["kernel"][1], STRIDE_X=p["strides"][1], DILATION_X=p["dilations"][1])
        items = (blocks, ceil(out.w / DEPTHWISE_PIXELS), out.h)
        known = dict(self._family.window) | columns | dict(PIXELS=DEPTHWISE_PIXELS)
        known |= self._types(X=Base(x.base), Y=Base(out.base), R=residual[0])
        self.launch(step, "depthwise.cl", "depthwise", items, *args, *rows, *clamp, **known)

    def _direct(self, step: Step, residual: tuple, clamp: tuple) -> None:
        x, out, p = step.src[0], step.dst, step.params
        groups, cin = p["groups"], step.weight.shape[1]
        taps = step.weight.reshape(groups, -1, cin, prod(p["kernel"])).swapaxes(2, 3)
        window = (*p["kernel"], *p["strides"], *p["pads"][:2], *p["dilations"])
        places = (*_at(x), x.h, x.w, *_at(out), out.h * out.w, out.w, *residual)
        self._multiply(step, places, taps.reshape(groups, taps.shape[1], -1), step.bias, cin, window, clamp)

    def _multiply(
        self,
        step: Step,
        places: tuple,
        weight: np.ndarray,
        bias: np.ndarray,
        cin: int,
        window: tuple,
        clamp: tuple,
        transform: np.ndarray | None = None,
    ) -> None:
        """conv.cl; weight: (groups, cout of one, taps x cin), bias: one number for each output channel."""
        groups, cout = len(weight if transform is None else transform), weight.shape[1]
        method, pixels = self._methods[id(step)], places[8]
        tile = self._family.conv | dict(VECTOR=method.vector, PIXELS=method.pixels)
        if pixels == 1:
            tile |= dict(PIXELS=1, LOCAL_PIXELS=1, LOCAL_BLOCKS=tile["LOCAL_PIXELS"] * tile["LOCAL_BLOCKS"])
        blocks = ceil(cout / tile["VECTOR"])
        packed = (
            self._weights(step, weight, tile["VECTOR"], transform),
            _blocks(bias.reshape(groups, cout, 1), tile["VECTOR"]),
        )
        tile |= self._types(X=places[0], Y=places[5], R=places[10]) | dict(BLOCK=block(cin * prod(window[:2])))
        items = (ceil(pixels / tile["PIXELS"]), groups * blocks)
        counts = (groups, cin, cout, blocks)
        self.launch(step, "conv.cl", "conv", items, *places, *packed, self._zeros, *counts, *window, *clamp, **tile)

    def _winograd(self, step: Step, residual: tuple, clamp: tuple) -> None:
        x, out, m = step.src[0], step.dst, self._m(step)
        cout, cin = step.weight.shape[:2]
        down, across, points = ceil(out.h / m), ceil(out.w / m), (m + 2) ** 2
        known = dict(self._family.winograd[m]) | dict(M=m)
        vector, (inputs, products) = known["VECTOR"], self._transformed
        args = (*_at(x), x.h, x.w, cin, inputs, *step.params["pads"][:2])
        types = self._types(X=Base(x.base), Y=inputs)
        self.launch(step, "winograd.cl", "winograd_input", (ceil(cin / vector), across, down), *args, **known, **types)

        places = (inputs, 0, points * cin, down, across, products, 0, points * cout, down * across, across, None, 0, 0)
        nothing = np.zeros(points * cout, np.float32)
        once = (1, 1, 1, 1, 0, 0, 1, 1)
        g, taps = np.array(WINOGRAD_WEIGHT[m]), step.weight.reshape(cout, cin, -1).transpose(2, 0, 1)
        transform = np.kron(g, g).astype(np.float32)  # of the 9 taps: G g G^T
        self._multiply(step, places, taps, nothing, cin, once, (-inf, inf), transform)

        bias = _blocks(step.bias.reshape(1, cout, 1), ceil(cout / vector) * vector)
        args = (products, cout, *_at(out), out.h, out.w, *residual, bias, *clamp)
        types = self._types(X=products, Y=Base(out.base), R=residual[0])
        self.launch(
            step, "winograd.cl", "winograd_output", (ceil(cout / vector), across, down), *args, **known, **types
        )

    def pool(self, step: Step) -> None:
        x, out, p = step.src[0], step.dst, step.params
        window = (*p["kernel"], *p["strides"], *p["pads"][:2])
        if step.kind == "maxpool":
            window += p["dilations"]
        else:
            window += p["pads"] if p["count_include_pad"] else (0, 0, 0, 0)
        args = (*_at(x), x.h, x.w, x.c, *_at(out), out.w, *window)
        items = (ceil(x.c / self._family.window["VECTOR"]), out.w, out.h)
        types = self._types(X=Base(x.base), Y=Base(out.base))
        self.launch(step, "pool.cl", step.kind, items, *args, **self._family.window, **types)

    def lrn(self, step: Step) -> None:
        x, p = step.src[0], step.params
        args = (*_at(x), x.c, *_at(step.dst), p["size"], float(p["alpha"]), float(p["beta"]), float(p["bias"]))
        known = {name: self._family.window[name] for name in ("VECTOR", "LOCAL_CHANNELS")}
        known |= self._types(X=Base(x.base), Y=Base(step.dst.base))
        self.launch(step, "channels.cl", "lrn", (ceil(x.c / known["VECTOR"]), x.h * x.w), *args, **known)

    def softmax(self, step: Step) -> None:
        softmax_along(self, step, _pixels(step.src[0]), _pixels(step.dst), axis=1)

    def layernorm(self, step: Step) -> None:
        x, out, epsilon = _pixels(step.src[0]), _pixels(step.dst), float(step.params["epsilon"])
        layernorm_along(self, step, x, out, axes=(1,), epsilon=epsilon, center=True)

    def binary(self, step: Step) -> None:
        a, p = step.src[0], step.params
        if len(step.src) > 1:
            b, memory = step.src[1], Base(step.src[1].base)
        else:
            h, w, c = step.weight.shape
            b, memory = View(ARENA, 0, h, w, c, c), step.weight
        strides = (b.w * b.stride * (b.h > 1), b.stride * (b.w > 1), int(b.c > 1))
        args = (*_at(a), memory, b.offset, *strides, *_at(step.dst), a.c, a.w, float(p["lo"]), float(p["hi"]))
        types = self._types(X=Base(a.base), Y=Base(step.dst.base), R=memory if isinstance(memory, Base) else SLOT)
        self.launch(step, "elementwise.cl", "binary", (a.c, a.w, a.h), *args, BINARY=formula(step), **types)

    def unary(self, step: Step) -> None:
        x, p = step.src[0], step.params
        args = (*_at(x), *_at(step.dst), x.c, float(p["p0"]), float(p["p1"]))
        types = self._types(X=Base(x.base), Y=Base(step.dst.base))
        self.launch(step, "elementwise.cl", "unary", (x.c, x.h * x.w), *args, UNARY=formula(step), **types)

    def copy(self, step: Step) -> None:
        x, out = step.src[0], step.dst
        axes = zip(*(step.params[key] for key in ("dims", "src_strides", "dst_strides")), strict=True)
        # Neighbouring work items go along an axis that is dense on one side: the longer one, if there are two.
        dims, src_strides, dst_strides = zip(*sorted(axes, key=lambda axis: (min(axis[1:]), -axis[0])), strict=True)
        args = (Base(x.base), x.offset, src_strides, Base(out.base), out.offset, dst_strides, dims)
        types = self._moved(step, X=Base(x.base), Y=Base(out.base))
        self.launch(step, "copy.cl", "copy", dims[:3], *args, RANK=max(len(dims), 3), **types)

    def picture(self, step: Step) -> None:
        """The kernel's first argument, a frame's bytes, is set when the frame comes (picture_cl.h)."""
        (words,), out, p = step.src, step.dst, step.params
        seen, (rows, columns, channels) = p["picture"], out.shape
        if words.base not in (SLOT_IN, SLOT_OUT):
            raise DeviceError(f"step {step.node} (picture): expected what describes a frame in a slot")
        table = self._device.allocate(picture_table_bytes(rows, columns))
        affine = np.array([*p["factors"], *p["offsets"]], np.float32)
        args = (None, table, Base(out.base), out.offset, *out.strides, rows, columns, float(seen.value), affine)
        backwards = (seen.frames == "BGR") != (seen.channels == "BGR")
        known = dict(FORMAT=PICTURE_FORMATS[seen.frames], CHANNELS=channels, BACKWARDS=int(backwards))
        self.launch(step, "picture.cl", "picture", (columns, rows), *args, **known, Y=self.stored(out))
        frame, example = p["example"]
        self._kept.append(frame)
        where = words.base, words.offset * item_bytes(words.dtype)
        how = (rows, columns), seen.filter, seen.frames, example, table.int_ptr
        self.reads = (self.commands[-1][0], step.node, self._device.context, *where, *how)

    def fill(self, step: Step) -> None:
        out = step.dst
        element = np.array(step.params["value"], out.dtype)
        value = float(element) if out.dtype == "float32" else element.view(INTEGERS[element.itemsize][0])[()]
        args = (*_at(out), out.c, value)
        self.launch(step, "copy.cl", "fill", (out.c, out.h * out.w), *args, **self._moved(step, Y=Base(out.base)))


KINDS: dict[str, Callable[[Recorder, Step], None]] = {
    "conv": Recorder.conv,
    "maxpool": Recorder.pool,
    "avgpool": Recorder.pool,
    "lrn": Recorder.lrn,
    "softmax": Recorder.softmax,
    "layernorm": Recorder.layernorm,
    "binary": Recorder.binary,
    "unary": Recorder.unary,
    "copy": Recorder.copy,
    "fill": Recorder.fill,
    "picture": Recorder.picture,
    **STRIDED_KINDS,
}


ANY_TYPE = ("copy", "fill")  # kinds that move elements as they are


def unsupported(lowered: Lowered, precision: str) -> str | None:
    """The first thing that OpenCL has no kernels for in a precision, in one line; None where it has all."""
    for step in lowered.steps:
        operands = (step.dst,) if step.kind == "picture" else (*step.src, step.dst)
        if step.kind not in KINDS:
            return f"step {step.node}: OpenCL has no {step.kind} kernel"
        if reason := refusal(step):
            return f"step {step.node} ({step.kind}): OpenCL {reason}"
        if step.kind not in STRIDED_KINDS and step.dst.dtype != "float32" and step.kind not in ANY_TYPE:
            return f"step {step.node} ({step.kind}): OpenCL has no {step.kind} kernel for {step.dst.dtype}"
        foreign = sorted({x.dtype for x in operands if x.base != CONSTANT} - {"float32"})
        if precision != "fp32" and foreign:
            expected = f"{precision}: expected float32 tensors alone, which it stores in half"
            return f"step {step.node} ({step.kind}): {expected}; got {', '.join(foreign)}"
    return None


def _at(view: View) -> tuple[Base, int, int]:
    return Base(view.base), view.offset, view.stride


def _pixels(view: View) -> Strided:
    """Pixels by channels."""
    return Strided(view.base, view.offset, (view.h * view.w, view.c), (view.stride, 1), view.dtype)


def _blocks(rows: np.ndarray, width: int) -> np.ndarray:
    """(groups, n, k) as [group][block of n][k][width], float32; zeros fill a group's last block."""
    groups, n, k = rows.shape
    count = ceil(n / width)
    if n % width:
        rows = np.concatenate([rows, np.zeros((groups, count * width - n, k), rows.dtype)], axis=1)
    return rows.reshape(groups, count, width, k).swapaxes(2, 3).astype(np.float32, copy=False)
