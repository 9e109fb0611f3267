"""Import of the ONNX operators that resize, slide windows, move, index, sample and remember: against onnxruntime."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx_models
import pytest
from bounds import U
from onnx import helper, numpy_helper

from pipeall import load
from pipeall.graph.ops import run_graph

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Model:
    """One ONNX node: the shapes of its inputs and its constants (None where an input is left out), in their order.

    ``terms`` of a sum of products bounds the error; 0 where elements only move.
    """

    op: str
    inputs: tuple
    attrs: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1
    terms: int = 0
    dtype: str = "float32"

    def __str__(self) -> str:
        shapes = "+".join("-" if i is None else "x".join(map(str, np.shape(i) if isinstance(i, np.ndarray) else i))
                          for i in self.inputs)  # fmt: skip
        attrs = " ".join(f"{name}={str(value).replace(' ', '')}" for name, value in self.attrs.items())
        return f"{self.op}-{self.opset} {shapes} {attrs}".strip()


def proto(m: Model) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    names, values, constants, feeds = [], [], [], {}
    rng = np.random.default_rng(1)
    for i, given in enumerate(m.inputs):
        names.append("" if given is None else f"i{i}")
        if isinstance(given, np.ndarray):
            constants.append(numpy_helper.from_array(given, names[-1]))
        elif given is not None:
            array = 4 * rng.standard_normal(given)
            feeds[names[-1]] = array.astype(m.dtype if m.dtype != "uint8" else np.float32).astype(m.dtype)
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(m.dtype))
            values.append(helper.make_tensor_value_info(names[-1], kind, given))
    outputs = [f"o{i}" for i in range(m.outputs)]
    node = helper.make_node(m.op, names, outputs, **m.attrs)
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "structure", values, results, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", m.opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made), feeds


def weight(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


IMAGE = (1, 6, 7, 9)


def resized(*last: float, opset=19, x=IMAGE, terms=64, **attrs):
    scales = floats(*(1,) * (len(x) - len(last)), *last)
    return Model("Resize", (x, floats() if opset < 13 else None, scales), attrs, opset, terms=terms)


def sized(*last: int, opset=19, x=IMAGE, terms=64, **attrs):
    return Model("Resize", (x, None, None, ints(*x[: len(x) - len(last)], *last)), attrs, opset, terms=terms)


COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
RESIZE = (
    *(sized(11, 5, mode=mode, coordinate_transformation_mode=c) for mode in ("nearest", "linear", "cubic")
      for c in COORDINATES),
    *(resized(1.7, 0.6, mode=mode, coordinate_transformation_mode=c) for mode in ("nearest", "linear", "cubic")
      for c in ("half_pixel", "pytorch_half_pixel", "asymmetric")),
    *(resized(2, 2, opset=opset, mode="linear") for opset in (11, 13, 18, 19)),
    *(resized(2, 1.5, nearest_mode=how, coordinate_transformation_mode="asymmetric")
      for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    *(resized(*by, nearest_mode=how, coordinate_transformation_mode="tf_half_pixel_for_nn", opset=11)
      for how in ("floor", "round_prefer_floor") for by in ((2, 2), (0.6, 0.45))),
    resized(2.4, 2.4, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    sized(3, 4, mode="linear", antialias=1), sized(3, 4, mode="cubic", antialias=1),
    resized(1, 1, mode="linear"),
    *(Model("Resize", (IMAGE, None, None, ints(5, 13)), dict(mode="linear", axes=[2, 3],
            keep_aspect_ratio_policy=policy), 19, terms=64) for policy in ("stretch", "not_larger", "not_smaller")),
    Model("Resize", (IMAGE, floats(1, 1, 2, 3)), dict(mode="nearest"), 10),
    Model("Resize", (IMAGE, floats(1, 1, 0.5, 0.7)), dict(mode="nearest"), 10),
    Model("Resize", (IMAGE, floats(1, 1, 2, 0.5)), dict(mode="nearest"), 10),
    Model("Resize", (IMAGE, floats(1, 1, 2, 1.5)), dict(mode="linear"), 10, terms=64),
    *(Model("Upsample", (IMAGE, floats(1, 1, 2, 3)), dict(mode=m), 9, terms=64) for m in ("nearest", "linear")),
    *(Model("Upsample", (IMAGE,), dict(mode=m, scales=[1.0, 1.0, 2.0, 3.0]), 7, terms=64)
      for m in ("nearest", "linear")),
)  # fmt: skip


def conv(spatial, kernel, *, out=4, groups=1, bias=True, **attrs):
    inputs = ((2, 6, *spatial), weight(out * groups, 6 // groups, *kernel), *([weight(out * groups)] * bias))
    return Model("Conv", inputs, dict(group=groups, **attrs), terms=6 * int(np.prod(kernel)))


def deconv(spatial, kernel, *, out=4, groups=1, bias=True, opset=21, **attrs):
    inputs = ((2, 6, *spatial), weight(6, out, *kernel), *([weight(out * groups)] * bias))
    return Model("ConvTranspose", inputs, dict(group=groups, **attrs), opset, terms=6 * int(np.prod(kernel)))


CONV = (
    conv((13,), (3,)), conv((13,), (3,), strides=[2], pads=[1, 2], dilations=[2], groups=2),
    conv((12,), (4,), auto_pad="SAME_UPPER", strides=[2]), conv((12,), (4,), auto_pad="SAME_LOWER"),
    conv((9, 8), (3, 2), auto_pad="VALID", bias=False), conv((9, 8), (3, 2), auto_pad="SAME_LOWER", strides=[2, 3]),
    conv((5, 7, 6), (3, 3, 3), pads=[1] * 6), conv((5, 7, 6), (2, 3, 1), groups=3),
    conv((7, 7, 6), (3, 2, 3), strides=[2, 1, 2], dilations=[2, 1, 1], pads=[1, 0, 1, 2, 1, 0], bias=False),
    conv((4, 5, 6), (2, 2, 2), auto_pad="SAME_UPPER", strides=[2, 2, 2]),
    deconv((9,), (3,)), deconv((9,), (3,), strides=[2], pads=[1, 0], output_padding=[1], groups=2),
    deconv((5, 6), (2, 2), strides=[2, 2]), deconv((5, 6), (3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    deconv((5, 6), (3, 4), strides=[2, 3], dilations=[2, 1], output_padding=[1, 2], bias=False),
    *(deconv((5, 6), (3, 4), strides=[2, 3], auto_pad=mode) for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    *(deconv((5, 6), (4, 3), strides=[2, 2], output_shape=shape) for shape in ([10, 12], [9, 11], [11, 13])),
    deconv((5, 6), (4, 3), strides=[2, 2], output_shape=[9, 11], auto_pad="SAME_UPPER"),
    deconv((5, 6), (3, 3), groups=6, out=1, opset=11), deconv((5, 6), (3, 3), groups=3, out=2),
    deconv((3, 4, 5), (2, 2, 2), strides=[2, 2, 2]),
    deconv((3, 4, 5), (3, 2, 3), strides=[2, 1, 2], dilations=[2, 1, 1], pads=[1, 0, 1, 2, 0, 1],
           output_padding=[1, 0, 1], groups=2),
)  # fmt: skip


def pool(op, spatial, kernel, *, opset=21, outputs=1, **attrs):
    terms = 0 if op == "MaxPool" else 8 * int(np.prod(kernel))
    return Model(op, ((2, 3, *spatial),), dict(kernel_shape=kernel, **attrs), opset, outputs, terms)


POOL = (
    *(pool(op, (13,), [3], strides=[2], pads=[1, 1]) for op in ("MaxPool", "AveragePool", "LpPool")),
    *(pool(op, (7, 8), [3, 2], strides=[2, 2], auto_pad=mode) for op in ("MaxPool", "AveragePool")
      for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    *(pool(op, (7, 8, 9), [3, 2, 3], strides=[2, 1, 2], pads=[1, 0, 1, 1, 1, 0]) for op in
      ("MaxPool", "AveragePool", "LpPool")),
    pool("AveragePool", (7, 8, 9), [3, 2, 3], pads=[1, 0, 1, 1, 1, 0], count_include_pad=1),
    pool("MaxPool", (7, 8, 9), [2, 2, 2], strides=[2, 2, 2], ceil_mode=1, dilations=[2, 1, 1]),
    *(pool("AveragePool", (9, 10), [3, 2], dilations=[2, 3], pads=[1, 1, 2, 1], count_include_pad=c) for c in (0, 1)),
    pool("AveragePool", (11,), [3], dilations=[2], strides=[2]),
    pool("MaxPool", (7, 8), [2, 2], strides=[2, 2], outputs=2),
    pool("MaxPool", (7, 8), [3, 3], pads=[1, 1, 1, 1], outputs=2, storage_order=1),
    pool("MaxPool", (13,), [3], strides=[2], outputs=2),
    *(pool("LpPool", (7, 8), [3, 2], p=p, pads=[1, 0, 1, 1]) for p in (1, 2, 3)),
    pool("LpPool", (7, 8), [2, 2], strides=[2, 2], ceil_mode=1, dilations=[2, 2]),
    Model("MaxPool", ((1, 2, 7, 8),), dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1]), dtype="uint8"),
    Model("MaxUnpool", ((1, 1, 2, 2), ints(5, 7, 13, 15).reshape(1, 1, 2, 2)), dict(kernel_shape=[2, 2],
          strides=[2, 2]), 11),
    Model("Col2Im", ((1, 8, 20), ints(5, 6), ints(2, 2)), terms=8),
    Model("Col2Im", ((2, 12, 16), ints(6, 6), ints(2, 2)), dict(strides=[2, 2], pads=[1, 1, 1, 1]), terms=8),
)  # fmt: skip

X5 = (2, 8, 6, 9)
MOVES = (
    *(Model("DepthToSpace", (X5,), dict(blocksize=2, mode=mode)) for mode in ("DCR", "CRD")),
    Model("SpaceToDepth", ((2, 3, 6, 9),), dict(blocksize=3), 13),
    Model("Slice", (X5, ints(1, 0), ints(7, 100), ints(1, 3), ints(2, 3))),
    Model("Slice", (X5, ints(-1, 5), ints(-100, 1), ints(1, -1), ints(-1, -2))),
    Model("Slice", (X5, ints(-1), ints(-(2**63)), ints(2), ints(-1))),
    Model("Slice", (X5, ints(0), ints(2**63 - 1), ints(2), ints(100))),
    Model("Slice", (X5,), dict(axes=[1, 2], starts=[1, -3], ends=[5, 100]), 9),
    Model("Concat", (X5, weight(2, 3, 6, 9), X5), dict(axis=1)),
    Model("Concat", (weight(2, 3, 6, 9), X5), dict(axis=-3)),
    *(Model("Pad", (X5, ints(0, 0, 2, 1, 0, 0, 1, 3)), dict(mode=mode)) for mode in
      ("constant", "reflect", "edge", "wrap")),
    Model("Pad", (X5, ints(0, -2, 2, 0, 0, -1, -3, 1), floats(1.5)), dict(mode="constant")),
    Model("Pad", (X5, ints(-1, -2, 0, 0, 0, -1, -3, 0)), dict(mode="edge")),
    Model("Pad", (X5, ints(1, 2, 0, 3), floats(-2), ints(1, -1))),
    Model("Pad", ((2, 3), ints(1, 0, 2, 1), ints(7)), dtype="int64"),
    Model("Pad", (X5,), dict(mode="reflect", pads=[0, 0, 1, 2, 0, 0, 1, 0]), 10),
    Model("Expand", ((3, 1, 5), ints(2, 1, 4, 1))), Model("Expand", ((3, 4), ints(1,))),
    Model("Tile", ((2, 3, 4), ints(1, 3, 2))), Model("Tile", ((1, 3, 1), ints(4, 1, 2))),
    Model("Tile", ((2, 3), ints(1, 1))),
    *(Model("Split", ((2, 9), *sizes), dict(axis=1, **attrs), outputs=3) for sizes, attrs in
      (((), dict(num_outputs=3)), ((ints(2, 3, 4),), {}))),
    Model("Split", ((2, 8),), dict(axis=-1, num_outputs=3), outputs=3),
    *(Model("Trilu", ((2, 4, 5), *([ints(k).reshape(())] if k else [])), dict(upper=up)) for k in (0, 1, -2, 9)
      for up in (0, 1)),
    Model("ReverseSequence", ((4, 3, 2), ints(4, 1, 3)), dict(time_axis=0, batch_axis=1)),
    Model("ReverseSequence", ((3, 4), ints(4, 0, 3)), dict(time_axis=1, batch_axis=0)),
    Model("CenterCropPad", ((7, 8, 3), ints(4, 11)), dict(axes=[0, 1])),
    Model("CenterCropPad", ((7, 8), ints(10, 5))),
    Model("Transpose", ((2, 3, 4, 5, 2),), dict(perm=[4, 0, 3, 1, 2])),
    Model("Squeeze", ((1, 3, 1), ints(0))), Model("Unsqueeze", ((3, 2), ints(0, -1))),
)  # fmt: skip


def box(*ranges: tuple[int, int]) -> np.ndarray:
    """The indices that exporters make of ``x[a:b, c:d] = y``."""
    return np.stack(np.meshgrid(*(np.arange(*ends, dtype=np.int64) for ends in ranges), indexing="ij"), -1)


BOXES = (  # shape, constant indices, and how often a concat then puts something around the updates
    ((2, 5, 6), box((0, 2), (2, 4)), 1), ((2, 5, 6), box((-2, 0), (-3, -1)), 1), ((7,), box((2, 5)), 1),
    ((1, 4, 6, 6), box((0, 1), (0, 4), (1, 6), (1, 6)), 2), ((3, 4, 5), box((1, 2), (0, 3), (4, 5)), 3),
    ((2, 5, 6), box((0, 2), (0, 5)), 0),
)  # fmt: skip


def updates(shape: tuple[int, ...], indices: np.ndarray) -> tuple[int, ...]:
    return (*indices.shape[:-1], *shape[indices.shape[-1] :])


INDEX = (
    *(Model("Gather", ((5, 6, 4), np.array(i)), dict(axis=axis)) for axis in (0, -1)
      for i in (2, -1, [1], [0, 2], [3, 1], [[0, 1], [3, -2]], [1, 2, 3], [0, 1, 2, 3])),
    Model("GatherElements", ((3, 4), ints(0, 2, -1, 1).reshape(1, 4)), dict(axis=0)),
    Model("GatherND", ((3, 4, 2), ints(0, 1, 2, -1).reshape(2, 2))),
    Model("GatherND", ((2, 4, 2), ints(0, 3).reshape(2, 1)), dict(batch_dims=1)),
    *(Model("ScatterElements", ((3, 4), ints(0, 2, 1, 1).reshape(1, 4), (1, 4)), dict(axis=0, reduction=how), 18)
      for how in ("none", "max")),
    Model("Scatter", ((3, 4), ints(0, 2, 1, 1).reshape(1, 4), (1, 4)), dict(axis=0), 9),
    Model("ScatterND", ((5, 4), ints(1, 3).reshape(2, 1), (2, 4))),
    *(Model("ScatterND", (shape, indices, updates(shape, indices))) for shape, indices, _ in BOXES),
    *(Model("ScatterND", (shape, indices, weight(*updates(shape, indices)))) for shape, indices, _ in BOXES),
    *(Model("ScatterND", (weight(*shape), indices, updates(shape, indices))) for shape, indices, _ in BOXES),
    Model("ScatterND", ((5, 4), ints(1, 3).reshape(2, 1), weight(2, 4)), dict(reduction="min"), 18),
    Model("Compress", ((3, 4), np.array([True, False, True])), dict(axis=1)),
    Model("Compress", ((3, 4), np.array([False, True, True, False, True]))),
    Model("OneHot", ((3, 4), np.array(5), floats(0.5, 2)), dtype="int64"),
    Model("OneHot", ((3, 4), np.array(3), ints(0, 1)), dict(axis=0), dtype="int64"),
    *(Model("TopK", ((3, 9, 2), ints(4)), dict(axis=1, largest=big), outputs=2) for big in (0, 1)),
    Model("TopK", ((3, 9),), dict(k=2), 9, 2),
    *(Model("GridSample", ((1, 3, 5, 6), (weight(1, 4, 4, 2))), dict(mode=mode), 20, terms=200)
      for mode in ("linear", "nearest", "cubic")),
    Model("GridSample", ((1, 3, 5, 6), (weight(1, 4, 4, 2))), dict(mode="bicubic", align_corners=1), 16, terms=200),
    *(Model("RoiAlign", ((2, 3, 9, 9), floats(1, 1, 6, 7, 0, 2, 9, 9).reshape(2, 4), ints(1, 0)), dict(
        output_height=3, output_width=2, spatial_scale=0.75, mode=mode), opset, terms=200)
      for mode in ("avg", "max") for opset in (10, 16)),
    Model("NonMaxSuppression", ((1, 7, 4), (1, 2, 7), ints(3), floats(0.9), floats(-100))),
)  # fmt: skip


def recurrent(op, gates, *, ways=1, batch_first=False, states=0, outputs=2, peepholes=False, **attrs):
    x, hidden = ((2, 5, 3) if batch_first else (5, 2, 3)), 4
    state = (2, ways, hidden) if batch_first else (ways, 2, hidden)
    rows = gates * hidden
    inputs = [x, weight(ways, rows, 3), weight(ways, rows, hidden), weight(ways, 2 * rows)]
    rest = [None, *[weight(*state)] * states, *[None] * (2 - states), weight(ways, 3 * hidden)]
    inputs += rest[: 4 if peepholes else 1 + states]
    if batch_first:
        attrs["layout"] = 1
    direction = attrs.pop("direction", "bidirectional" if ways == 2 else "forward")
    return Model(op, tuple(inputs), dict(hidden_size=hidden, direction=direction, **attrs), 14, outputs, terms=200)


GATES = (("RNN", 1), ("GRU", 3), ("LSTM", 4))
RECURRENT = (
    *(recurrent(op, gates) for op, gates in GATES),
    *(recurrent(op, gates, ways=2, states=1) for op, gates in GATES),
    *(recurrent(op, gates, direction="reverse", outputs=2 + (gates == 4)) for op, gates in GATES),
    recurrent("LSTM", 4, ways=2, states=2, outputs=3), recurrent("LSTM", 4, states=2, outputs=3, peepholes=True),
    recurrent("LSTM", 4, activations=["HardSigmoid", "Softsign", "Elu"], activation_alpha=[0.3, 0.9],
              activation_beta=[0.4]),
    recurrent("LSTM", 4, clip=0.4), recurrent("GRU", 3, linear_before_reset=1),
    recurrent("RNN", 1, activations=["LeakyRelu"], activation_alpha=[0.2]),
    recurrent("RNN", 1, activations=["LeakyRelu"]),
)  # fmt: skip
MODELS = (*RESIZE, *CONV, *POOL, *MOVES, *INDEX, *RECURRENT)


@pytest.mark.parametrize("m", MODELS, ids=str)
def test_operator_agrees_with_onnxruntime(m, tmp_path):
    model, feeds = proto(m)
    expected = onnx_models.run(model, feeds)
    got = run_graph(load(onnx_models.saved(model, tmp_path)), feeds)
    for name, value in expected.items():
        mine = got[name]
        assert mine.shape == value.shape and mine.dtype.kind == value.dtype.kind
        size = np.abs(value.astype(np.float64)).max(initial=1)
        # every term errs by a few roundings of the largest value, and so do the weights that are computed
        assert np.abs(value.astype(np.float64) - mine).max(initial=0) <= 4 * m.terms * U * 4 * size


@pytest.mark.parametrize(("shape", "indices", "concats"), BOXES, ids=lambda value: str(np.shape(value)))
def test_updates_of_a_box_are_put_between_slices(shape, indices, concats, tmp_path):
    def ops(indices: np.ndarray) -> list[str]:
        model, _ = proto(Model("ScatterND", (shape, indices, updates(shape, indices))))
        return [node.op for node in load(onnx_models.saved(model, tmp_path)).nodes]

    found = ops(indices)
    assert "scatter_nd" not in found and found.count("concat") == concats
    backwards = np.flip(indices, tuple(range(indices.ndim - 1))).copy()
    assert ("scatter_nd" in ops(backwards)) == (indices[..., 0].size > 1)


def test_batch_first_recurrent_layers_equal_steps_first(tmp_path):
    """onnxruntime has no layout of 1."""
    for op, gates in GATES:
        first = recurrent(op, gates, ways=2, batch_first=True, states=1, outputs=2 + (gates == 4))
        model, feeds = proto(first)
        inputs = [i if i is None or k not in (0, 5) else i.swapaxes(0, 1) if isinstance(i, np.ndarray) else (5, 2, 3)
                  for k, i in enumerate(first.inputs)]  # fmt: skip
        attrs = {name: value for name, value in first.attrs.items() if name != "layout"}
        other, _ = proto(Model(op, tuple(inputs), attrs, 14, first.outputs))
        mine = run_graph(load(onnx_models.saved(model, tmp_path)), feeds)
        expected = onnx_models.run(other, {"i0": feeds["i0"].swapaxes(0, 1)})
        assert len(expected) == first.outputs
        for name, value in expected.items():
            turned = value.transpose(2, 0, 1, 3) if name == "o0" else value.swapaxes(0, 1)
            assert np.abs(mine[name] - turned).max() < 800 * U


def test_a_recurrent_layer_is_computed_once_whatever_is_read(tmp_path):
    for read, direction in product(((0, 1, 2), (0, 2), (1, 2), (0, 1)), ("forward", "reverse", "bidirectional")):
        ways = 1 + (direction == "bidirectional")
        model, feeds = proto(recurrent("LSTM", 4, ways=ways, states=2, outputs=3, direction=direction))
        for i in sorted({0, 1, 2} - set(read), reverse=True):
            model.graph.node[0].output[i] = ""
            del model.graph.output[i]
        loaded = load(onnx_models.saved(model, tmp_path))
        assert [node.op for node in loaded.nodes].count("lstm") == 1
        expected, mine = onnx_models.run(model, feeds), run_graph(loaded, feeds)
        assert list(expected) == [f"o{i}" for i in read]
        for name, value in expected.items():
            assert np.abs(mine[name] - value).max() < 800 * U


REFUSED = {
    "roi": (resized(2, 2, coordinate_transformation_mode="tf_crop_and_resize"), "tf_crop_and_resize is not supported"),
    "scales": (resized(2, 0.0), "positive scales"),
    "sizes": (resized(2, 3e38), "expected finite sizes"),
    "rank": (Model("Conv", ((1, 2, 3, 3, 3, 3), weight(4, 2, 1, 1, 1, 1))), "windows over 1 to 3 axes"),
    "indices of volumes": (pool("MaxPool", (4, 4, 4), [2, 2, 2], outputs=2), "Indices of windows over 1 or 2"),
    "axes": (Model("Slice", ((4,), ints(0), ints(3), (1,)), dtype="int64"), "must be a constant"),
    "step": (Model("Slice", ((4,), ints(0), ints(3), ints(0), ints(0))), "a step is 0"),
    "pads": (Model("Pad", ((3,), ints(-2, -1))), "leave nothing of 3 elements"),
    "index": (Model("Gather", ((4, 3), ints(4, 1))), "index 4 is outside"),
    "unique": (Model("Unique", ((4, 3),)), "depends on the data"),
    "grid": (Model("GridSample", ((1, 2, 3, 3, 3, 3), weight(1, 3, 3, 3, 3, 4))), "only images and volumes"),
    "lengths": (
        Model("LSTM", ((5, 2, 3), weight(1, 16, 3), weight(1, 16, 4), None, np.array([5, 3], np.int32)),
              dict(hidden_size=4)),
        "only whole sequences of 5 steps",
    ),
    "k": (Model("TopK", ((3, 4), ints(5)), outputs=2), "k must be an integer from 1 to 4"),
    "blocks": (Model("DepthToSpace", ((1, 6, 2, 2),), dict(blocksize=2)), "do not divide 6 channels"),
    "no boxes": (Model("NonMaxSuppression", ((1, 7, 4), (1, 2, 7))), "nothing is selected"),
}  # fmt: skip


@pytest.mark.parametrize("m, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_by_name(m, message, tmp_path):
    try:
        model, _ = proto(m)
    except onnx.shape_inference.InferenceError:
        pytest.fail("shape inference refused first")
    assert message in onnx_models.refusal(onnx_models.saved(model, tmp_path))
