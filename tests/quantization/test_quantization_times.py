"""What layers gain in time: steps of both networks joined to layers, the table and the plot."""

from dataclasses import replace

import numpy as np
import pytest
from commands import document, invoke
from graphs import Net, frames
from PIL import Image
from quantization_nets import small

from pipeall import quantize
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.graph.ops import macs
from pipeall.pipeline.measuring import layers
from pipeall.quantization import sensitivity
from pipeall.quantization.quantize_report import LayerRow

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


@pytest.fixture(scope="module")
def report():
    graph = small()
    return quantize(graph, frames(graph, 3), method="minmax", layers=True).report


def test_each_layer_has_its_times(report):
    assert len(report.layers) == 7
    for row in report.layers:
        assert row.floats_ms > 0 and row.quantized_ms > 0 and row.gain == row.floats_ms / row.quantized_ms
    assert report.floats_ms > 0 and report.quantized_ms > 0
    graph = small()
    assert [row.macs for row in report.layers] == [macs(node, graph) for node in graph.nodes if macs(node, graph)]


def test_only_where_measured():
    graph = small()
    report = quantize(graph, frames(graph, 3), method="minmax").report
    assert {(row.floats_ms, row.quantized_ms, row.gain) for row in report.layers} == {(None, None, None)}
    row = LayerRow("a", "conv", 1, False, None, 0.5, 0.0)
    assert row.gain is None and replace(row, quantized_ms=0.25).gain == 2


def test_activations_and_residuals_count_as_the_layer(monkeypatch):
    """A millisecond for each step: activations are steps of their own in floats, a sum behind a layer that stays floats
    is one in the quantized network."""
    graph = small()
    (fused,) = [node.name for node in graph.nodes if len(node.inputs) == 4]
    made = quantize(graph, frames(graph, 3), method="minmax", keep=[fused])
    steps = layers.step_times
    monkeypatch.setattr(
        sensitivity, "step_times", lambda *given, **more: [(s, a, 1.0) for s, a, _ in steps(*given, **more)]
    )
    found = sensitivity.layer_times(graph, made.graph, lambda *_: None)
    activations = [node for node in graph.nodes if node.op in ("hardswish", "leakyrelu")]
    for layer in (node for node in graph.nodes if node.op in ("conv", "fc")):
        activated = any(layer.output in node.inputs for node in activations)
        assert found.floats[layer.name] == (2 if activated else 1)
        assert found.quantized[layer.name] == (2 if layer.name == fused else 1)
    others = {*(node.name for node in activations), f"{fused}/add"}
    assert not others & {*found.floats, *found.quantized}


def test_a_layer_that_stays_floats_is_timed_too():
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.conv(net.conv("x0", 8, k=3, lo=0.0), 2))
    name = graph.nodes[0].name
    report = quantize(graph, frames(graph, 2), method="minmax", keep=[name], layers=True).report
    (row,) = [row for row in report.layers if row.floats]
    assert row.name == name and row.quantized_ms > 0


# ---- the command ----


@pytest.fixture
def words(tmp_path):
    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 3)))
    output = tmp_path / "out.onnx"
    return ["quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", output, "--method", "minmax"]


def test_the_table(words):
    said = document(*words, "--layers")
    assert said["floats_ms"] > 0 and all(row["quantized_ms"] > 0 for row in said["layers"])
    text = invoke(*words, "--layers").stdout
    assert "ms in floats" in text and "ms quantized" in text and "alone is quantized" in text
    assert "alone is quantized" not in invoke(*words).stdout


def test_the_plot(words, tmp_path, monkeypatch):
    """It measures layers by itself, and is drawn a line for each."""
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    from pipeall.cli.quantize import quantize_plot as plot_quantize

    drawn = []
    monkeypatch.setattr(
        plot_quantize, "save", lambda *given, own=plot_quantize.save: (drawn.append(given[0]), own(*given))
    )
    path = tmp_path / "layers.png"
    said = document(*words, "--plot", path)
    with Image.open(path) as image:
        assert image.format == "PNG" and len(image.convert("L").getcolors()) > 10
    left, right = drawn[0].axes
    assert [label.get_text() for label in left.get_yticklabels()] == [row["name"] for row in said["layers"]]
    assert [bar.get_width() for bar in left.containers[0]] == [row["error"] for row in said["layers"]]
    bars = {bars.get_label(): [bar.get_width() for bar in bars] for bars in right.containers}
    keys = {"in floats": "floats_ms", "quantized": "quantized_ms"}
    assert bars == {label: [row[key] for row in said["layers"]] for label, key in keys.items()}
    assert len(right.texts) == len(said["layers"])


@pytest.mark.parametrize("count, highest", [(1, 200), (100, 200), (100, 10)])
def test_the_plot_of_many_layers(report, tmp_path, monkeypatch, count, highest):
    """Lines are as high for a hundred layers as for one; names and figures that are not there do no harm."""
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    from pipeall.cli import figures as plot
    from pipeall.cli.quantize import quantize_plot as plot_quantize

    monkeypatch.setattr(plot_quantize, "HIGHEST", highest)
    row = replace(report.layers[0], name="a/long/path/to/a/layer/$of$/a/network/conv", error=None, quantized_ms=None)
    many = replace(report, layers=(row, *report.layers[1:2] * (count - 1)))
    plot_quantize.draw_layers(tmp_path / "many.png", many)
    with Image.open(tmp_path / "many.png") as image:
        height = plot_quantize.REST + plot_quantize.LAYER * max(count, 8)
        assert image.size[1] == int(plot.DPI * min(height, highest))


def test_a_plot_needs_matplotlib_before_anything_is_measured(words, tmp_path, monkeypatch):
    import sys

    for name in ("pipeall.cli.figures", "pipeall.cli.quantize.quantize_plot"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke(*words, "--plot", tmp_path / "x.png")
    assert result.exit_code == 2 and "pip install 'pipeall[plot]'" in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out.onnx.journal").exists()


def test_a_plot_that_cannot_be_written_leaves_the_journal(words, tmp_path):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    result = invoke(*words, "--plot", "/dev/full")
    assert result.exit_code == 2 and "/dev/full: cannot be written" in result.stderr
    assert (tmp_path / "out.onnx.journal").exists()
