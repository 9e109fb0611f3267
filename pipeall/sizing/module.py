"""A torch module as a network: traced in training mode on tensors without numbers, with what autograd says it saves.

The module is run twice, at two and at three times the batch, so that what is of each sample and what is fixed come
apart, and BatchNorm has more than one value a channel. Parameters count as float32, whatever they are. The
module is left as it was.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ArgumentError, ModelError
from .size_network import ALIASES, Layer, Network, Saved, Shape

if TYPE_CHECKING:
    import torch

Input: TypeAlias = "Sequence[int] | torch.Tensor"  # a shape, or a tensor for its shape and type
Trace = tuple[list[tuple[Layer, dict[str, Shape]]], list[tuple[int, int, str]], list[str]]

OPERATORS = {  # of aten, without the underscore of what works in place -> operator of ONNX
    "native_batch_norm": "BatchNormalization",
    "_native_batch_norm_legit": "BatchNormalization",
    "native_layer_norm": "LayerNormalization", "native_group_norm": "GroupNormalization",
    "hardtanh": "Clip",
    "relu": "Relu", "silu": "Swish", "gelu": "Gelu", "hardswish": "HardSwish", "hardsigmoid": "HardSigmoid",
    "elu": "Elu",
    "leaky_relu": "LeakyRelu", "sigmoid": "Sigmoid", "tanh": "Tanh", "_softmax": "Softmax",
    "_log_softmax": "LogSoftmax",
    "max_pool2d_with_indices": "MaxPool", "avg_pool2d": "AveragePool", "_adaptive_avg_pool2d": "GlobalAveragePool",
    "mean": "ReduceMean", "sum": "ReduceSum", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "cat": "Concat",
    "clone": "Transpose", "embedding": "Gather", "bernoulli": "Dropout", "upsample_nearest2d": "Resize",
    "upsample_bilinear2d": "Resize", "_scaled_dot_product_flash_attention_for_cpu": "Attention",
    "mm": "MatMul", "bmm": "MatMul", "addmm": "MatMul", "baddbmm": "MatMul", "convolution": "Conv",
}  # fmt: skip
WITH_SUM = ("addmm", "baddbmm")  # what is added comes first
OUTPUT_KEPT = ("Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax")  # by autograd


def of_module(module: torch.nn.Module, input_shape: Input | Mapping[str, Input]) -> Network:
    """The network of a module for inputs of ``input_shape``, batch first: one shape, or one for each input by name.

    An input that is not float32 is given by a tensor: its shape and type count, its numbers do not. Raises
    ArgumentError for a shape that the module does not take and for a course that depends on numbers, ModelError for a
    module that does other things at another batch. Errors of the module's own code come as they are.
    """
    import torch

    names = list(inspect.signature(module.forward).parameters)
    given = dict(input_shape) if isinstance(input_shape, Mapping) else {names[0] if names else "x": input_shape}
    types = {name: value.dtype for name, value in given.items() if isinstance(value, torch.Tensor)}
    shapes = {name: tuple(value.shape if name in types else value) for name, value in given.items()}
    if not shapes or not all(shape and min(shape) >= 1 for shape in shapes.values()):
        raise ArgumentError(f"input_shape: expected positive sizes, the batch first, got {input_shape!r}")
    try:
        inspect.signature(module.forward).bind(**shapes)
    except TypeError as error:
        raise ArgumentError(f"input_shape: {type(module).__name__}.forward takes {', '.join(names)}: {error}") from None
    with _training(module):
        (few, few_saved, outputs), (more, more_saved, _) = (_traced(module, shapes, types, times) for times in (2, 3))
    if [layer for layer, _ in few] != [layer for layer, _ in more] or len(few_saved) != len(more_saved):
        raise ModelError(f"{type(module).__name__} does other things at another batch: it cannot be sized")
    sizes: dict[str, Shape] = {name: tuple(shape) for name, shape in shapes.items()}
    for (_, a), (_, b) in zip(few, more, strict=True):
        for name in a:
            sizes.setdefault(name, tuple(2 * m - n for m, n in zip(a[name], b[name], strict=True)))
    own = {name: tuple(tensor.shape) for name, tensor in module.named_parameters()}
    statistics = {name: tuple(t.shape) for name, t in module.named_buffers() if t.is_floating_point()}
    kept: dict[int, Saved] = {}
    for (index, low, entered), (_, high, _) in zip(few_saved, more_saved, strict=True):
        each, before = high - low, kept.get(index, Saved())
        if entered:
            kept[index] = Saved((*before.tensors, entered), before.extra, before.fixed)
        else:
            kept[index] = Saved(before.tensors, before.extra + each, before.fixed + low - 2 * each)
    layers = tuple(_with_saved(layer, kept.get(i, Saved())) for i, (layer, _) in enumerate(few))
    return Network(
        type(module).__name__,
        layers,
        sizes | own | statistics,
        tuple(shapes),
        tuple(outputs),
        tuple(own),
        tuple(statistics),
    )


def _with_saved(layer: Layer, saved: Saved) -> Layer:
    return Layer(layer.name, layer.op, layer.inputs, layer.outputs, layer.attrs, layer.module, saved)


@contextmanager
def _training(module: torch.nn.Module) -> Iterator[None]:
    """In training mode, and afterwards every part as it was."""
    modes = {part: part.training for part in module.modules()}
    module.train()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _traced(
    module: torch.nn.Module, shapes: Mapping[str, Sequence[int]], types: Mapping[str, torch.dtype], times: int
) -> Trace:
    """Layers with the shapes of what they read and write, what is saved (layer, bytes, input), names of outputs."""
    import torch
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.call(func, args, kwargs or {})

    with FakeTensorMode(allow_non_fake_inputs=True):  # modules make constants on their way
        state = {name: torch.empty(t.shape, requires_grad=True) for name, t in module.named_parameters()}
        for name, buffer in module.named_buffers():
            state[name] = torch.empty(buffer.shape, dtype=torch.float32 if buffer.is_floating_point() else buffer.dtype)
        inputs = {
            name: torch.empty(times * shape[0], *shape[1:], dtype=types.get(name, torch.float32))
            for name, shape in shapes.items()
        }
        floats = {name for name, tensor in inputs.items() if tensor.is_floating_point()}
        recorder = _Recorder({**state, **inputs}, set(state), floats)
        try:
            with Mode(), torch.autograd.graph.saved_tensors_hooks(recorder.keep, lambda tensor: tensor):
                result = torch.func.functional_call(module, state, kwargs=inputs)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            if not _is_torchs(error):
                raise
            message = " ".join(str(error).split())
            if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
                message = f"its course depends on numbers ({message}), which an ONNX file of it does not"
            raise ArgumentError(
                f"{type(module).__name__} with input_shape {dict(shapes)} cannot be traced: {message:.200}"
            ) from error
        return recorder.layers, list(recorder.saved.values()), [recorder.name_of(t) for t in _tensors(result)]


def _is_torchs(error: Exception) -> bool:
    """Whether torch raised it, such as for a shape. What the module's own code raises tells more as it is.

    Functions of torch that are no Python leave no frame; they raise RuntimeError.
    """
    import torch

    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return isinstance(error, RuntimeError) or Path(frame.f_code.co_filename).is_relative_to(Path(torch.__file__).parent)


def _tensors(value: Any) -> list[Any]:
    import torch

    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class _Recorder:
    """Writes down what is called, and what autograd saves."""

    def __init__(self, named: Mapping[str, Any], weights: set[str], inputs: set[str]):
        """``named``: tensors that are there before; ``weights`` and ``inputs``, of floats, say which are what."""
        self.weights, self.inputs = weights, inputs
        self.layers: list[tuple[Layer, dict[str, Shape]]] = []
        self.saved: dict[int, tuple[int, int, str]] = {}
        self.names = {_key(tensor): name for name, tensor in named.items()}
        self.roots = {_memory(tensor): name for name, tensor in named.items()}
        self.alive: list[Any] = list(named.values())  # or another tensor could lie where one was

    def name_of(self, tensor: Any) -> str:
        root = self.roots.get(_memory(tensor), "")
        return root if root in self.weights else self.names.get(_key(tensor), root)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator, and write it down unless it is a view of a weight."""
        read = _tensors((args, kwargs))
        names, known = [self.name_of(t) for t in read], {_memory(t) for t in read}
        result = func(*args, **kwargs)
        made = [t for t in _tensors(result) if t.is_floating_point()]
        self.alive += made
        aliases = func.is_view if hasattr(func, "is_view") else False
        aliases = aliases or (bool(made) and not func._schema.is_mutable and _memory(made[0]) in known)
        if made and names and not (aliases and self.roots.get(_memory(made[0])) in self.weights):
            self._layer(func, args, read, names, made if aliases else made[:1], aliases)
        for tensor in made:
            self.roots.setdefault(_memory(tensor), self.name_of(tensor))
        return result

    def _layer(self, func: Any, args: Any, read: list[Any], names: list[str], made: list[Any], alias: bool) -> None:
        operator = func._schema.name.removeprefix("aten::").removesuffix("_")
        shapes = {name: tuple(t.shape) for name, t in zip(names, read, strict=True) if name not in self.weights}
        outputs = []
        for position, tensor in enumerate(made):
            name = f"{operator}_{len(self.layers)}.{position}"
            self.names[_key(tensor)] = name
            self.roots.setdefault(_memory(tensor), name)
            shapes[name] = tuple(tensor.shape)
            outputs.append(name)
        inputs = tuple(name if t.is_floating_point() else "" for name, t in zip(names, read, strict=True))
        if operator in WITH_SUM:
            inputs = (*inputs[1:], inputs[0])
        op = ALIASES[1] if alias else OPERATORS.get(operator, "Torch")
        attrs: dict[str, Any] = {}
        if op == "Conv":
            op = "ConvTranspose" if args[6] else op
            attrs = {
                "strides": tuple(args[3]),
                "pads": 2 * tuple(args[4]),
                "dilations": tuple(args[5]),
                "group": args[8],
            }
        elif op in ("MaxPool", "AveragePool"):
            attrs = {"kernel_shape": tuple(args[1])}
        self.layers.append((Layer(outputs[0], op, inputs, tuple(outputs), attrs), shapes))

    def keep(self, tensor: Any) -> Any:
        """For a hook of what autograd saves: which layer does, how many bytes, and whether it is an input."""
        memory, storage = _memory(tensor), tensor.untyped_storage()
        root = self.roots.get(memory, "")
        if memory not in self.saved and root not in self.weights:
            self.alive.append(tensor)
            last = self.layers[-1][0] if self.layers else None
            by_last = last is not None and (last.op in OUTPUT_KEPT and self.name_of(tensor) in last.outputs or not root)
            index = len(self.layers) - by_last
            self.saved[memory] = index, storage.nbytes(), root if root in self.inputs else ""
        return tensor


def _memory(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _key(tensor: Any) -> tuple[Any, ...]:
    """Which elements of a memory a tensor has: equal for equal views."""
    return _memory(tensor), tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
