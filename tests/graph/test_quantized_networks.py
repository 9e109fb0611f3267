"""Trained quantized networks against onnxruntime: each node alone, and whole, on engines and in stages."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper

pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
pytest.importorskip("PIL", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")

from edge_decoders import overlap
from edge_networks import picture
from quantized_files import I8, F, reference
from task_images import opened, prepared

from pipeall import Engine, Pipeline, load, tasks

CLASSIFIERS = ("mlperf_tiny_ic_resnet8_int8", "mlperf_tiny_kws_int8", "mlperf_tiny_vww_int8")
DETECTORS = (
    "nanodet_m_320_int8_qdq", "ultraface_version-RFB-320_simplified_int8_qdq",
    "ultraface_version-RFB-320_simplified_int8_qoperator",
)  # fmt: skip
EVERY = CLASSIFIERS + DETECTORS
TIES = 1e-3  # of a network's levels: sums in another order end on the other side of a half, where there is one
CLEAR = 0.5  # scores, above the least that the tasks show: what has one is seen by both
SAME = 0.75  # intersection over union of two boxes of a thing, as COCO's strict metric has it
PHOTO = "jetson_dog_0.jpg"  # a person, a dog and a backpack, and what looks like faces


def noise(tensor):
    x = np.random.default_rng(0).uniform(-2, 2, tensor.shape).astype(F)
    return np.rint(64 * x).clip(-128, 127).astype(I8) if tensor.dtype == "int8" else x


def arrays(graph, made):
    """What an engine or a pipeline gave, by name."""
    return {graph.outputs[0].name: made} if isinstance(made, np.ndarray) else made


# ---- each node alone ----


def quantized_nodes(model):
    """{an output of integers that a node rounds to: the computed ones that it reads, or what is fed}"""
    makers = {name: node for node in model.graph.node for name in node.output}
    rounding = {name for name, node in makers.items() if node.op_type.startswith("Q")}
    constants = {array.name for array in model.graph.initializer}
    ends = rounding | {value.name for value in model.graph.input} - constants

    @cache
    def read(name):
        """Of a tensor: itself, or what it is computed of, through what moves integers or computes in floats."""
        if name in ends:
            return frozenset([name])
        return reads(makers[name]) if name in makers else frozenset()

    def reads(node):
        return frozenset().union(*map(read, node.input))

    return {name: found for name in rounding if (found := reads(makers[name]))}


def side_by_side(nodes):
    """Parts of {output: what it is computed of} in which none is computed of another."""
    parts = []
    for name, read in nodes.items():
        for part in parts:
            if not read & part.keys() and not any(name in other for other in part.values()):
                part[name] = read
                break
        else:
            parts.append({name: read})
    return parts


# NanoDet's 242 on cores alone: an OpenCL device builds a program for each shape
ALONE = [*((name, "big") for name in EVERY), *((name, "gpu") for name in EVERY if "nanodet" not in name)]


@pytest.mark.parametrize("name, component", ALONE)
def test_each_node(name, component, data_dir, board_with_gpu):
    """Fed with onnxruntime's own levels a node rounds once: to the same level, or next to it."""
    path = data_dir / "edge" / f"{name}.onnx"
    model = onnx.load(path)
    nodes, (entry,) = quantized_nodes(model), load(path).inputs
    fed = {entry.name: noise(entry)}
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=output) for output in nodes)
    levels = dict(zip(nodes, reference(model.SerializeToString(), *fed.values(), outputs=list(nodes)), strict=True))
    del model.graph.output[:]  # with their types, as not every operator's can be inferred
    model.graph.output.extend(
        helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for output, array in levels.items()
    )
    content, known, otherwise = model.SerializeToString(), fed | levels, 0
    for part in side_by_side(nodes):
        inputs = sorted(frozenset().union(*part.values()))
        graph = load(content, inputs=inputs, outputs=list(part))
        with Engine(graph, component, board=board_with_gpu, threads=1 if component == "big" else None) as engine:
            found = arrays(graph, engine({given: known[given] for given in inputs}))
        for output in part:
            quanta = np.abs(found[output].astype(int) - levels[output])
            assert found[output].dtype == levels[output].dtype and quanta.max() <= 1, output
            otherwise += np.count_nonzero(quanta)
    assert otherwise <= TIES * sum(array.size for array in levels.values())


# ---- whole ----


@pytest.mark.parametrize("name", EVERY)
def test_stages_on_cores_give_the_bits_of_an_engine(name, data_dir, board):
    graph = load(data_dir / "edge" / f"{name}.onnx")
    x, cut = noise(graph.inputs[0]), len(graph.groups) // 2
    with (
        Engine(graph, "big", board=board, threads=1) as engine,
        Pipeline(graph, f"little-big:{cut}", board=board) as pipe,
    ):
        (found,) = pipe.map([x])
        expected = arrays(graph, engine(x))
    for output, array in arrays(graph, found).items():
        np.testing.assert_array_equal(array, expected[output])


def placements(graph, board, x):
    """Of an engine, and of three stages with the OpenCL device."""
    cut = len(graph.groups) // 3
    with Engine(graph, "big", board=board, threads=1) as engine:
        yield arrays(graph, engine(x))
    with Pipeline(graph, f"gpu-little-big:{cut},{2 * cut}", board=board) as pipe:
        (found,) = pipe.map([x])
        yield arrays(graph, found)


def photo_of(entry, data_dir):
    """A photo for a classifier of pictures, noise for one of words."""
    if entry.shape[-1] != 3:
        return noise(entry)
    about = {"preprocess": {"order": "RGB", "scale": 1, "mean": 128}, "layout": "NHWC"}
    return np.rint(picture(data_dir / "scenes" / PHOTO, about, entry.shape[1:3])).astype(I8)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_class(name, data_dir, board_with_gpu):
    graph = load(path := data_dir / "edge" / f"{name}.onnx")
    x = photo_of(graph.inputs[0], data_dir)
    (expected,) = reference(path.read_bytes(), x)
    for found in placements(graph, board_with_gpu, x):
        assert found[graph.outputs[0].name].argmax() == expected.argmax()


def edges(box):
    return np.array((box.left, box.top, box.right, box.bottom))


def missing(boxes, others):
    """Of the clear ones those that are not among the others."""

    def has(box):
        return any(a.label == box.label and overlap(edges(a), edges(box)) >= SAME for a in others)

    return [box for box in boxes if box.score >= CLEAR and not has(box)]


@pytest.mark.parametrize("name", DETECTORS)
def test_the_boxes(name, data_dir, board_with_gpu):
    graph = load(path := data_dir / "edge" / f"{name}.onnx")
    task = tasks.task(graph)
    x, placed = prepared(opened(data_dir / "scenes" / PHOTO), task.picture, task.size, True)
    names = [tensor.name for tensor in graph.outputs]
    expected = task(dict(zip(names, reference(path.read_bytes(), x), strict=True)), placed).boxes
    assert any(box.score >= CLEAR for box in expected)
    for outputs in placements(graph, board_with_gpu, x):
        found = task(outputs, placed).boxes
        assert not missing(expected, found) and not missing(found, expected)
