"""Slices: run one after the other in onnxruntime they are the whole network's file, byte for byte of int8."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from graphs import Net, frames, inputs_of, small_net

import pipeall
from pipeall import ArgumentError, Picture, load, quantize, save_onnx, write_slices
from pipeall.graph.partition import subgraph
from pipeall.pipeline.devices.network_slices import Slices, ranges_worth_having

onnxruntime = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")

NETWORKS = ["squeezenet1.1", "mobilenet_v1_0.75_192"]
MORE = ["googlenet", "resnet50", "squeezenet1.0"]
EDGE = ["mlperf_tiny_ic_resnet8_int8", "mlperf_tiny_vww_int8", "nanodet_m_320_int8_qdq"]
MORE_EDGE = ["ultraface_version-RFB-320_simplified_int8_qdq", "yolox_nano_416", "fastestdet_352", "centerface",
             "pose_landmark_full", "deeplab_v3_mnv2_257", "nanotrackv2_head", "selfie_segmentation"]  # fmt: skip
CASES = [
    *(f"models/{name}" for name in NETWORKS),
    *(f"edge/{name}" for name in EDGE),
    *(pytest.param(f"models/{name}", marks=pytest.mark.full) for name in MORE),
    *(pytest.param(f"edge/{name}", marks=pytest.mark.full) for name in MORE_EDGE),
]


def run(file, given, fused=False):
    """Without fusions, which compute int8 otherwise than the file says, unless ``fused``."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if fused else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {x.name: given[x.name] for x in session.get_inputs()}), strict=True))


def one_after_the_other(manifest, given, fused=False):
    """All tensors that slices make, where each reads what those before have made."""
    made = dict(given)
    for one in json.loads(manifest.read_text())["slices"]:
        made |= run(manifest.parent / one["file"], made, fused)
    return made


def in_parts(graph, count):
    places = sorted({round(len(graph.groups) * part / count) for part in range(count + 1)})
    return list(pairwise(places))


def compare(graph, made, expected):
    for tensor in graph.outputs:
        found, wanted = made[tensor.name].astype(float), expected[tensor.name].astype(float)
        quantum = 1 if tensor.dtype == "int8" else 1e-5 * max(1, np.abs(wanted).max())
        assert wanted.any() and np.abs(found - wanted).max() <= quantum


@pytest.mark.parametrize("name", CASES)
def test_together_they_are_the_whole_network(name, data_dir, tmp_path):
    file = data_dir / f"{name}.onnx"
    graph = load(file)
    given = {t.name: (60 * x).clip(-128, 127).astype(t.dtype) if t.dtype == "int8" else x
             for t, x in zip(graph.inputs, inputs_of(graph).values(), strict=True)}  # fmt: skip
    manifest = write_slices(graph, in_parts(graph, 4), tmp_path)
    compare(graph, one_after_the_other(manifest, given), run(file, given))


def test_those_of_a_file_of_integer_operators(data_dir, tmp_path):
    """QLinearConv adds integers. A slice has levels around its layers (QDQ), which runtimes fuse to the same; one that
    adds floats rounds some sums near halfway otherwise, and layer after layer makes more of that."""
    file = data_dir / "edge" / "ultraface_version-RFB-320_simplified_int8_qoperator.onnx"
    graph = load(file)
    manifest = write_slices(graph, in_parts(graph, 4), tmp_path)
    made, expected = one_after_the_other(manifest, inputs_of(graph), fused=True), run(file, inputs_of(graph))
    for tensor in graph.outputs:
        np.testing.assert_array_equal(made[tensor.name], expected[tensor.name])


def branched():
    """A tensor that crosses the second cut, which no node of the second group reads."""
    net = Net((1, 4, 8, 8))
    early = net.conv("x0", 8, k=3)
    x = net.conv(net.conv(early, 8, k=3), 8, k=3)
    return net.graph(net.conv(net.op("add", x, early), 5, k=3), net.op("sigmoid", early)).finer(2)


def test_what_only_passes_is_not_theirs(tmp_path):
    graph = branched()
    save_onnx(graph, tmp_path / "net.onnx")
    ranges = [(i, i + 1) for i in range(len(graph.groups))]
    manifest = write_slices(graph, ranges, tmp_path / "slices")
    entries = json.loads(manifest.read_text())["slices"]
    assert any(one["passes"] for one in entries)
    assert not any({t["name"] for t in one["inputs"]} & {t["name"] for t in one["outputs"]} for one in entries)
    compare(graph, one_after_the_other(manifest, inputs_of(graph)), run(tmp_path / "net.onnx", inputs_of(graph)))


def test_integers_cross_as_they_are(tmp_path):
    """What is recorded of them too: the bytes that the runtime hands over."""
    floats = small_net()
    graph = quantize(floats, frames(floats, 8), method="minmax")
    graph.save(tmp_path / "net.onnx")
    graph = load(tmp_path / "net.onnx")
    (made,) = graph.cuts[1].tensors
    manifest = write_slices(graph, [(0, 2), (2, 4)], tmp_path / "slices", frames(floats, 3))
    first, second = json.loads(manifest.read_text())["slices"]
    scale, zero = made.quantization.single
    expected = {"name": made.name, "shape": list(made.shape), "type": "int8", "layout": "NCHW"}
    assert first["outputs"] == second["inputs"] == [expected | {"scale": scale, "zero_point": zero}]
    recorded = np.load(manifest.parent / second["npz"])[made.name]
    (raw,) = second["raw"].values()
    for sample, frame in enumerate(frames(floats, 3)):
        found = one_after_the_other(manifest, {floats.inputs[0].name: frame})[made.name]
        assert found.dtype == recorded.dtype == np.int8 and np.abs(found - recorded[sample].astype(int)).max() <= 1
        assert (manifest.parent / raw.format(sample=sample)).read_bytes() == recorded[sample].tobytes()
    again = load(manifest.parent / second["file"])
    assert [node.op for node in again.nodes if again.tensors[node.output].dtype == "int8"]


def test_what_pictures_become_is_recorded(tmp_path):
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.conv(net.conv("x0", 8, k=3), 4))
    pictures = [np.full((9, 12, 3), value, np.uint8) for value in (10, 200)]
    manifest = write_slices(graph, [(0, 1), (1, 2)], tmp_path, pictures, input=Picture(scale=255.0))
    first, second = json.loads(manifest.read_text())["slices"]
    pixels = np.load(tmp_path / first["npz"])["x0"]
    np.testing.assert_allclose(pixels, np.stack([np.full((1, 3, 8, 8), v / 255, np.float32) for v in (10, 200)]))
    (name,) = (tensor["name"] for tensor in second["inputs"])
    for sample in range(2):
        expected = run(tmp_path / first["file"], {"x0": pixels[sample]})[name]
        np.testing.assert_allclose(np.load(tmp_path / second["npz"])[name][sample], expected, atol=1e-5)


def test_a_device_finds_its_own(tmp_path):
    graph = small_net()
    slices = Slices.load(write_slices(graph, [(1, 3), (0, 4)], tmp_path).parent)
    found = slices.find(subgraph(graph, 1, 3))
    assert (found.first, found.last, found.file) == (1, 3, tmp_path / "net.2-3.onnx")
    assert slices.find(subgraph(graph, 0, 4)).first == 0 and slices.find(subgraph(graph, 0, 3)) is None


def test_slices_are_added_to_those_of_before(tmp_path):
    """Of the same network with the same weights; the same ones are written anew."""
    graph = small_net()
    for ranges in ([(1, 3), (0, 1)], [(1, 3), (2, 4)]):
        write_slices(graph, ranges, tmp_path)
    assert [(one.first, one.last) for one in Slices.load(tmp_path).slices] == [(1, 3), (2, 4), (0, 1)]
    other = replace(graph, constants={name: 2 * array for name, array in graph.constants.items()})
    write_slices(other, [(1, 3)], tmp_path)
    assert len(Slices.load(tmp_path).slices) == 1


def test_ranges_of_a_network_and_of_a_part_of_it(tmp_path):
    """Found by what slices compute: in a sub-graph groups count from its first."""
    graph = branched()
    slices = Slices.load(write_slices(graph, [(0, 1), (1, 3), (2, 3), (0, 3)], tmp_path).parent)
    assert set(slices.ranges(graph, lambda one: True)) == {(0, 1), (1, 3), (2, 3), (0, 3)}
    assert set(slices.ranges(graph, lambda one: one.first == 2)) == {(2, 3)}
    assert set(slices.ranges(subgraph(graph, 1, 3), lambda one: True)) == {(0, 2), (1, 2)}
    other = replace(graph, constants={name: 2 * array for name, array in graph.constants.items()})
    assert not set(slices.ranges(other, lambda one: True))


def test_a_network_trained_anew_has_other_slices(tmp_path):
    graph = small_net()
    slices = Slices.load(write_slices(graph, [(1, 3)], tmp_path).parent)
    other = replace(graph, constants={name: 2 * array for name, array in graph.constants.items()})
    assert slices.find(subgraph(graph, 1, 3)) and slices.find(subgraph(other, 1, 3)) is None


def test_ranges_worth_having():
    graph = pipeall.zoo.squeezenet()
    ranges = ranges_worth_having(graph)
    assert (0, len(graph.groups)) in ranges and len(ranges) == len(set(ranges)) <= 28
    assert all(0 <= first < last <= len(graph.groups) for first, last in ranges)


@pytest.mark.parametrize("ranges", [[], [(0, 5)], [(2, 2)], [(0, 1.0)], ["ab"]])
def test_ranges_that_are_none(ranges, tmp_path):
    with pytest.raises(ArgumentError, match="ranges: expected "):
        write_slices(small_net(), ranges, tmp_path)


def test_a_manifest_that_is_wrong(tmp_path):
    manifest = write_slices(small_net(), [(1, 3)], tmp_path)
    manifest.write_text(manifest.read_text().replace("[2, 3]", "[2, 9]"))
    with pytest.raises(ArgumentError, match=r"manifest.json: slices\[0\]: groups: expected numbers of groups from 1"):
        Slices.load(tmp_path)


def test_a_manifest_that_names_files_elsewhere(tmp_path):
    manifest = write_slices(small_net(), [(1, 3)], tmp_path)
    manifest.write_text(manifest.read_text().replace('"net.2-3.onnx"', '"../net.2-3.onnx"'))
    with pytest.raises(ArgumentError, match=r"slices\[0\]: file: expected a file beside the manifest"):
        Slices.load(tmp_path)
