"""Trained networks on photos through three-stage pipelines, against onnxruntime and against published outputs."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from task_images import photos

import pipeall
from pipeall import Engine, Pipeline

MODELS = ("googlenet", "mobilenet_v1_0.75_192", "resnet50", "squeezenet1.0", "squeezenet1.1")
ORDERS = ["-".join(order) for order in permutations(("big", "little", "gpu"))]


def three_cut_pairs(groups):
    """Even thirds, as early and as late as possible."""
    return [(groups // 3, 2 * groups // 3), (1, 2), (groups - 2, groups - 1)]


@pytest.mark.parametrize("model", MODELS)
def test_photos_through_every_order(model, data_dir, board_with_gpu, some):
    ort = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
    path = data_dir / "models" / f"{model}.onnx"
    inputs = photos(data_dir, model)
    assert len(inputs) == 13
    inputs = some(inputs)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = [session.run(None, {"input": x})[0] for x in inputs]
    graph = pipeall.load(path)
    for order in ORDERS:
        for first, second in three_cut_pairs(len(graph.groups)):
            plan = f"{order}:{first},{second}"
            with Pipeline(graph, plan, board=board_with_gpu) as pipe:
                for i, (result, reference) in enumerate(zip(pipe.map(inputs), expected, strict=True)):
                    assert result.argmax() == reference.argmax(), f"{plan}, photo {i}"
                    assert np.abs(result - reference).max() <= 1e-4, f"{plan}, photo {i}"


@pytest.mark.parametrize("model", MODELS)
def test_half_precision_on_the_gpu_keeps_the_classes(model, data_dir, board_with_gpu):
    """Stored in half, computed in single: onnxruntime's first class; its first five on all photos but one."""
    ort = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
    path = data_dir / "models" / f"{model}.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with Engine(pipeall.load(path), "gpu@mixed", board=board_with_gpu) as engine:
        same = 0
        for i, x in enumerate(photos(data_dir, model)):
            result, expected = engine(x).reshape(-1), session.run(None, {"input": x})[0].reshape(-1)
            # No bound that is derived: the largest seen was 6.4e-3.
            assert np.abs(result - expected).max() <= 0.01, f"photo {i}"
            assert result.argmax() == expected.argmax(), f"photo {i}"
            same += set(np.argsort(result)[-5:]) == set(np.argsort(expected)[-5:])
    assert same >= 12  # of 13: one photo's fifth class changes in MobileNet and in SqueezeNet 1.1


def run_on(graph, x, component, board):
    with Engine(graph, component, board=board) as engine:
        return engine(x)


@pytest.mark.parametrize("component", ["big", "gpu"])
def test_googlenet_reproduces_the_published_blobs(component, data_dir, board_with_gpu):
    """15 blobs of BVLC GoogLeNet for one 227 x 227 input, each within 1e-3 of its largest value."""
    blobs = np.load(data_dir / "reference" / "googlenet_blobs_chw.npz")
    graph = pipeall.load(data_dir / "models" / "googlenet.onnx", input_shape=(1, 3, 227, 227))
    by_shape = {}
    for node in graph.nodes:  # the published names are Caffe's; a shape and an order name a blob as well
        by_shape.setdefault(graph.tensors[node.output].shape[1:], []).append(node)
    pairs = {}
    for name in blobs.files[1:]:
        shape = blobs[name].shape
        candidates = [n for n in by_shape[shape] if n.op == wanted_op(name)]
        taken = [n for n in candidates if n.output not in pairs.values()]
        pairs[name] = taken[0].output
    whole = replace(graph, outputs=tuple(graph.tensors[output] for output in pairs.values()))
    results = run_on(whole, blobs["data"][np.newaxis], component, board_with_gpu)
    for name, output in pairs.items():
        expected = blobs[name]
        error = np.abs(results[output].reshape(expected.shape) - expected).max()
        assert error <= 1e-3 * np.abs(expected).max(), f"{name}: {error / np.abs(expected).max():.2e}"


def wanted_op(blob):
    if blob.startswith("inception"):
        return "concat"
    if blob.startswith("pool"):
        return "avgpool" if "s1" in blob else "maxpool"
    return {"loss3_classifier": "fc", "prob": "softmax"}[blob]


@pytest.mark.parametrize("component", ["big", "gpu"])
def test_squeezenet_reproduces_the_published_logits(component, data_dir, board_with_gpu):
    """Three inputs with the logits another engine gave for them; within 1e-3 of the largest."""
    pairs = np.load(data_dir / "reference" / "squeezenet1.1_pairs.npz")
    graph = pipeall.load(data_dir / "models" / "squeezenet1.1.onnx")
    softmax = graph.nodes[-1]
    assert softmax.op == "softmax"
    logits = graph.tensors[softmax.inputs[0]]
    before = replace(graph, nodes=graph.nodes[:-1], outputs=(logits,))
    for i in range(3):
        expected = pairs[f"logits_{i}"]
        result = run_on(before, pairs[f"input_{i}"], component, board_with_gpu).reshape(expected.shape)
        assert np.abs(result - expected).max() <= 1e-3 * np.abs(expected).max()
