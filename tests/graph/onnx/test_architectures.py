"""Networks of the YOLO family and of timm, exported by torch; the sweep over all is bench/engines/architectures.py."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks to export: pip install torch timm torchvision")

import exported_nets
from edge_networks import error, named
from torch_nets import thirds

from pipeall import Engine, Pipeline, load
from pipeall.graph import ops

YOLO = tuple(exported_nets.SOURCES["yolo"])
RUN = ("yolov3-tiny", "yolov6n", "yolov8n-seg", "yolov8n-pose", "yolov10n", "yolo12n")
TIMM = ("mobilevit_xxs", "efficientvit_m0", "mobileone_s0", "edgenext_xx_small")
SIZE = 64


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """File and input of a network, written once."""
    folder, written = tmp_path_factory.mktemp("exported"), {}

    def write(source, name):
        if name not in written:
            path = folder / f"{name}.onnx"
            written[name] = path, exported_nets.write(source, name, path, SIZE).frame.numpy()
        return written[name]

    return write


@pytest.mark.parametrize("name", YOLO)
def test_detectors_are_cut_in_backbone_neck_and_head(name, exported):
    graph = load(exported("yolo", name)[0])
    assert len(graph.cuts) > 10
    assert max(len(cut.tensors) for cut in graph.cuts) <= 6
    work = np.cumsum([0, *(sum(ops.macs(node, graph) for node in group.nodes) for group in graph.groups)])
    largest = max(ops.macs(node, graph) for node in graph.nodes)
    assert max(b - a for a, b in pairwise(work)) <= max(work[-1] / 4, 1.01 * largest)


@pytest.mark.parametrize(("source", "name"), [*(("yolo", name) for name in RUN), *(("timm", name) for name in TIMM)])
def test_exported_networks_give_what_onnxruntime_gives(source, name, exported, board_with_gpu):
    if source == "timm":
        pytest.importorskip("torchvision", reason="networks to export: pip install torch timm torchvision")
        pytest.importorskip("timm", reason="networks to export: pip install torch timm torchvision")
    path, frame = exported(source, name)
    outputs = exported_nets.before_ranking(path)
    expected, graph = exported_nets.reference(path, frame, outputs), load(path, outputs=outputs)
    with Engine(graph, "big", board=board_with_gpu) as engine:
        assert error(named(graph, engine(frame)), expected) <= 1e-4
    with Pipeline(graph, thirds(graph, "gpu-little-big"), board=board_with_gpu) as pipe:
        for result in pipe.map([frame, frame]):
            assert error(named(graph, result), expected) <= 1e-4
