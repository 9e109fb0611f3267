"""Small ONNX graphs whose time is one operator's, or that of starting operators at all."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, np.ndarray]
RECURRENT = {  # name's end -> steps, sequences, inputs, hidden, direction
    "16": (50, 1, 16, 16, "forward"),
    "32": (50, 1, 32, 32, "forward"),
    "64": (50, 1, 64, 64, "forward"),
    "96-both-ways": (40, 1, 288, 96, "bidirectional"),  # a reader of text lines
    "128": (100, 1, 128, 128, "forward"),
    "128-both-ways": (50, 1, 128, 128, "bidirectional"),
    "128-8": (50, 8, 128, 128, "forward"),
    "128-one-step": (1, 1, 128, 128, "forward"),  # a step of a stream, such as of a detector of speech
    "256": (100, 1, 256, 256, "forward"),
    "256-both-ways": (26, 1, 512, 256, "bidirectional"),  # CRNN
    "512": (75, 1, 512, 512, "forward"),  # EnCodec
}
POOLS = {  # name's end -> shape, window, stride, pads
    "2x2-s2": (2, 2, 0),
    "3x3-s2": (3, 2, 1),
    "3x3-s1": (3, 1, 1),
    "5x5-s1": (5, 1, 2),
    "4x4-s4": (4, 4, 0),
}


def model(nodes: Sequence[onnx.NodeProto], inputs: dict[str, tuple], constants: Arrays, kind: int = TensorProto.FLOAT):
    """Of the last node's first output."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def recurrent(kind: str, gates: int, steps: int, batch: int, width: int, hidden: int, direction: str):
    random, ways = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    shapes = {"w": (ways, gates * hidden, width), "r": (ways, gates * hidden, hidden), "b": (ways, 2 * gates * hidden)}
    weights = {n: (random.standard_normal(s) / hidden**0.5).astype(np.float32) for n, s in shapes.items()}
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, direction=direction)
    return model([node], {"x": (steps, batch, width)}, weights)


def pool(kind: str, channels: int, window: int, stride: int, pad: int):
    sides = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return model([helper.make_node(kind, ["x"], ["y"], **sides)], {"x": (1, channels, 224, 224)}, {})


def one(kind: str, shape: tuple, constants: Arrays, **attributes):
    return model([helper.make_node(kind, ["x", *constants], ["y"], **attributes)], {"x": shape}, constants)


def chain(length: int, width: int, make: Callable[[str, str, int], onnx.NodeProto], constants: Arrays):
    nodes = [make(f"t{i}" if i else "x", f"t{i + 1}", i) for i in range(length)]
    return model(nodes, {"x": (1, width)}, constants)


def small() -> dict[str, onnx.ModelProto]:
    """Few elements: the time of a call and of starting steps."""
    random = np.random.default_rng(0)
    steps = ("Sigmoid", "Neg", "Softmax", "Abs", "Tanh", "Exp", "ReduceMax", "Relu", "Softmax", "Sqrt")
    layers = {f"w{i}": (random.standard_normal((16, 16)) / 4).astype(np.float32) for i in range(8)}
    eight = np.arange(8, dtype=np.float32)
    return {
        "small-add-8": one("Add", (8,), {"k": eight}),
        "small-softmax-10": one("Softmax", (1, 10), {}),
        "small-transpose-64": one("Transpose", (8, 8), {}),
        "small-concat-16": model([helper.make_node("Concat", ["x", "k"], ["y"], axis=0)], {"x": (8,)}, {"k": eight}),
        "small-conv-8x8": one("Conv", (1, 1, 8, 8), {"w": random.standard_normal((2, 1, 3, 3)).astype(np.float32)}),
        "small-chain-10": chain(10, 16, lambda x, y, i: helper.make_node(steps[i], [x], [y]), {}),
        "small-perceptron-8": chain(
            16, 16, lambda x, y, i: helper.make_node(*(("Relu", [x]) if i % 2 else ("MatMul", [x, f"w{i // 2}"])), [y]),
            layers,
        ),
    }  # fmt: skip


def cases() -> dict[str, onnx.ModelProto]:
    random, made = np.random.default_rng(0), {}
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        for name, sizes in RECURRENT.items():
            made[f"{kind.lower()}-{name}"] = recurrent(kind, gates, *sizes)
    for kind in ("MaxPool", "AveragePool"):
        for channels in (1, 3):
            for name, sizes in POOLS.items():
                made[f"{kind[:3].lower()}pool-{channels}-{name}"] = pool(kind, channels, *sizes)
    made |= small()
    for shape in ((100, 100), (600, 640), (1024, 1024)):
        for axis in (0, 1):
            at = random.integers(0, shape[axis], shape)
            made[f"gather-{shape[0]}x{shape[1]}-{axis}"] = one("GatherElements", shape, {"i": at}, axis=axis)
    for mode in ("reflect", "edge", "constant"):
        made[f"pad-{mode}-3x224x224"] = one("Pad", (1, 3, 224, 224), {"p": np.array([0, 0, 3, 3] * 2)}, mode=mode)
        made[f"pad-{mode}-64x56x56"] = one("Pad", (1, 64, 56, 56), {"p": np.array([0, 0, 1, 1] * 2)}, mode=mode)
        made[f"pad-{mode}-8x9600"] = one("Pad", (1, 8, 9600), {"p": np.array([0, 0, 6, 0, 0, 6])}, mode=mode)
        made[f"pad-{mode}-1x512"] = one("Pad", (1, 512), {"p": np.array([0, 64, 0, 64])}, mode=mode)
    return made
