"""Quantization after training: each step against NumPy, small networks through the file and onnxruntime."""

import json
from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames
from quantization_nets import quiet, small

from pipeall import ArgumentError, Engine, ModelError, Picture, load, quantize, save_onnx
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.rewrite import rewrite
from pipeall.quantization.calibrate import channel_maxima, mean_errors, outputs_of
from pipeall.quantization.calibration_run import CalibrationRun
from pipeall.quantization.equalize import MOST, equalized, half_way, of_convolutions
from pipeall.quantization.quantizable import never_clipped, quantizable, split_residuals
from pipeall.quantization.quantize import observed, observed_equalized

pytest.importorskip("onnx", reason="needs pipeall[onnx]")
BOUND = 40.0  # of a clamp
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def made():
    graph = small()
    return graph, quantize(graph, frames(graph, 40))


# ---- what is done to the network ----


def test_which_tensors_are_quantized():
    """Moved values keep their parameters where a layer of integers reads them."""
    net = Net((1, 4, 8, 8))
    a, b = net.conv("x0", 4), net.conv("x0", 4)
    joined = net.op("concat", a, b)
    c = net.conv(joined, 4)
    d = net.op("sigmoid", c)
    leaving = net.op("concat", d, net.op("sigmoid", net.conv(d, 2)))
    graph = net.graph(leaving, c)
    of = quantizable(graph)
    sources = {frozenset(names) for names in of.sources.values()}
    assert sources == {frozenset({"x0"}), frozenset({a, b}), frozenset({c}), frozenset({d})}
    assert of.root[a] == of.root[joined] and len(of.layers) == 4
    assert not {leaving, *graph.nodes[-1].inputs[1:]} & of.root.keys()  # behind the last layer
    assert never_clipped(graph, of) == {c, d}  # which leave too
    kept = quantizable(graph, {node.name for node in graph.nodes if node.op == "sigmoid"})
    assert {*kept.sources} == {"x0", of.root[a], d} and len(kept.layers) == 4


def test_residuals_are_split():
    graph = small()
    x = frames(graph, 1)[0].astype(np.float64)
    other = split_residuals(graph)
    (expected,), (found,) = (run_graph(g, {"x0": x}).values() for g in (graph, other))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert all(len(node.inputs) == 3 for node in other.nodes if node.op == "conv")


def test_equalized_networks_compute_the_same():
    """Through pooling, a concat, leaky ReLU and groups; in float64 but for weights, rounded to float32 once more."""
    net = Net((1, 3, 16, 16))
    a, b = net.conv("x0", 6, k=3, lo=0.0), net.op("leakyrelu", net.conv("x0", 6), alpha=0.125)
    joined = net.op("concat", net.op("maxpool", a), net.op("avgpool", b))
    inside = net.conv(joined, 12, k=3, groups=4, lo=0.0, hi=BOUND)
    graph = net.graph(net.conv(inside, 12, groups=12), net.conv(joined, 3))
    photos = [{"x0": frame} for frame in frames(graph, 5)]
    run, channels = CalibrationRun(photos), of_convolutions(graph)
    assert {*channels.made} >= {a, graph.nodes[1].output, inside} and channels.free.sum() == 6 + 6 + 12
    other = equalized(graph, channels, half_way(observed(graph, run), channels, run)[0])
    inputs = {"x0": photos[0]["x0"].astype(np.float64)}
    for expected, found in zip(*(run_graph(g, inputs).values() for g in (graph, other)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    pooled = net.nodes[4].output
    maxima = channel_maxima(graph, [a, b, inside, pooled], photos, quiet)
    largest = {a: max(maxima[a].max(), maxima[pooled].max()), b: maxima[b].max(), inside: maxima[inside].max()}
    for name, sizes in channel_maxima(other, list(largest), photos, quiet).items():
        wanted = np.sqrt(largest[name] * maxima[name])
        np.testing.assert_allclose(sizes, np.minimum(wanted, BOUND) if name == inside else wanted, rtol=1e-4)
        assert sizes.min() > 1.05 * maxima[name].min()


def test_factors_follow_channels_that_are_moved():
    """Through blocks of a ShuffleNet: split, half of it convolved, joined, shuffled. All channels share one range, and
    those that are added keep their size."""
    net = Net((1, 3, 12, 12))
    x = net.op("concat", *(net.op("leakyrelu", net.conv("x0", 4, k=3), alpha=0.125) for _ in range(2)))
    for _ in range(2):
        old, new = (net.op("slice", x, start=first, stop=first + 4, step=1) for first in (0, 4))
        new = net.op("leakyrelu", net.conv(net.conv(new, 4, k=3, groups=4), 4), alpha=0.125)
        by_half = net.op("reshape", net.op("concat", old, new), shape=(1, 2, 4, 12, 12))
        x = net.op("reshape", net.op("transpose", by_half, perm=(0, 2, 1, 3, 4)), shape=(1, 8, 12, 12))
    last = net.op("slice", x, start=0, stop=6, step=1)
    rest = net.op("slice", x, start=6, stop=8, step=1)
    graph = net.graph(net.conv(last, 3), net.op("add", rest, net.conv(last, 2)))
    layers = [node for node in graph.nodes if node.op == "conv"]
    for size, node in zip((1, 50, 1, 8, 1, 3), layers, strict=False):
        for name in node.inputs[1:]:
            net.constants[name] *= np.float32(size)
    photos = [{"x0": frame} for frame in frames(graph, 5)]
    run, channels = CalibrationRun(photos), of_convolutions(graph)
    factors, _ = half_way(observed(graph, run), channels, run)
    other = equalized(graph, channels, factors)
    inputs = {"x0": photos[0]["x0"].astype(np.float64)}
    for expected, found in zip(*(run_graph(g, inputs).values() for g in (graph, other)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    ends = [node.output for node in graph.nodes if node.op == "leakyrelu"]
    maxima, sizes = (channel_maxima(each, ends, photos, quiet) for each in (graph, other))
    largest = max(each.max() for each in maxima.values())
    for name in ends:
        wanted = np.clip(np.sqrt(largest / maxima[name]), 1, MOST)
        if name in ends[2:]:
            wanted[{ends[2]: 1, ends[3]: 3}[name]] = 1  # the last two channels of eight, after two shuffles
        np.testing.assert_allclose(sizes[name], wanted * maxima[name], rtol=1e-5)


def test_ranges_reach_as_far_as_channels_may():
    """Four standard deviations above the mean of the largest values of each photo, of any channel; at least as far as
    the photos go."""
    net = Net((1, 3, 12, 12))
    x = net.op("leakyrelu", net.conv("x0", 6, k=3), alpha=0.125)
    graph = net.graph(net.conv(x, 4))
    photos = [{"x0": size * frame} for size, frame in zip((0.1, 0.2, 0.1, 1.0, 0.1), frames(graph, 5), strict=True)]
    run = CalibrationRun(photos)
    plain = observed(graph, run)
    config = observed_equalized(plain, run, beyond=4.0)
    watched = replace(config.graph, outputs=(config.graph.tensors[x],))
    peaks = np.array([np.abs(y[x]).max((0, 2, 3)) for y in outputs_of(watched, photos, "", quiet)])
    expected = np.maximum(peaks.max(0), peaks.mean(0) + 4 * peaks.std(0)).max()
    assert expected > 1.1 * peaks.max()
    level = 2 / 255
    np.testing.assert_allclose(config.resolve().qparams[x].largest, expected, rtol=level)
    without = observed_equalized(plain, run)
    peak = max(
        np.abs(y[x]).max() for y in outputs_of(replace(watched, constants=without.graph.constants), photos, "", quiet)
    )
    np.testing.assert_allclose(without.resolve().qparams[x].largest, peak, rtol=level)


def test_mean_errors_are_those_of_numpy():
    net = Net((1, 3, 6, 6))
    graph = net.graph(net.conv("x0", 4, k=3, lo=0.0))
    photos = [{"x0": frame} for frame in frames(graph, 3)]
    resolved = observed(graph, CalibrationRun(photos)).resolve()
    (node,) = graph.nodes
    weights = resolved.weights[node.name][0]
    errors = mean_errors(resolved, photos, quiet)[node.name]
    total = np.zeros(4)
    for photo in photos:
        x = photo["x0"].astype(np.float64)
        spec = {**graph.constants, node.inputs[1]: weights}
        exact = run_conv(x, graph.constants, node)
        rounded = run_conv(resolved.qparams["x0"](x), spec, node)
        total += (rounded - exact).mean((0, 2, 3)) / len(photos)
    assert np.abs(total).max() > 1e-4
    np.testing.assert_allclose(errors, total, atol=1e-6)


def run_conv(x, constants, node):
    """float64, stride 1, padding 1."""
    weight, bias = (constants[name].astype(np.float64) for name in node.inputs[1:])
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]


def test_correction_makes_the_mean_right():
    """Of a layer alone, over the photos that it was corrected by: but for the rounding of the bias itself."""
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.conv("x0", 4, k=3))
    photos = [{"x0": frame + 0.5} for frame in frames(graph, 8)]
    plain = observed(graph, CalibrationRun(photos))
    corrected = replace(plain, corrections=mean_errors(plain.resolve(), photos, quiet))

    def error(tried):
        pairs = zip(
            outputs_of(tried.resolve().build(), photos, "", quiet), outputs_of(graph, photos, "", quiet), strict=True
        )
        return np.abs(
            np.mean([(*one.values(),)[0] - (*other.values(),)[0] for one, other in pairs], (0, 1, 3, 4))
        ).max()

    quantum = max(plain.resolve().qparams["x0"].scale * np.abs(graph.constants["k0"]).max() / 127, 1e-9)
    assert error(corrected) <= quantum and error(corrected) < 0.2 * error(plain)


# ---- whole networks ----


def test_integers_are_what_the_contract_says(made):
    """Weights within 127 quanta of one scale for each output; biases whole quanta of the sums."""
    graph = made[1].written
    layers = [node for node in graph.nodes if node.op in ("conv", "fc")]
    makers = {node.output: node for node in graph.nodes}
    assert len(layers) == 7
    for node in layers:
        weight, levels = graph.constants[node.inputs[1]], graph.qparams[node.inputs[1]]
        assert levels.axis == 0 and set(levels.zero_point) == {0} and len(node.inputs) == 3
        scales = np.array(levels.scale)
        quanta = weight.astype(np.float64) / scales.reshape(-1, *(1,) * (weight.ndim - 1))
        np.testing.assert_allclose(quanta, np.rint(quanta), atol=1e-4)
        assert np.abs(quanta).max() <= 127.001
        x = node.inputs[0]
        while makers[x].op != "fakequant":
            x = makers[x].inputs[0]
        quanta = graph.constants[node.inputs[2]] / (makers[x].attrs["scale"] * scales)
        np.testing.assert_allclose(quanta, np.rint(quanta), atol=1e-6 * np.abs(quanta).max() + 1e-4)
        reader = [other for other in graph.nodes if node.output in other.inputs]
        assert [other.op for other in reader] == ["softmax" if node is layers[-1] else "fakequant"]


def test_a_network_of_integers_is_written_again(made, board, tmp_path):
    """As it was made, and as it was read: each file computes the same."""
    made[1].save(tmp_path / "first.onnx")
    save_onnx(made[1].graph, tmp_path / "made.onnx")
    save_onnx(load(tmp_path / "first.onnx"), tmp_path / "read.onnx")
    (frame,) = frames(small(), 1)
    results = []
    for name in ("first", "made", "read"):
        graph = load(tmp_path / f"{name}.onnx")
        assert graph.quantized
        with Engine(graph, "big", board=board) as engine:
            results.append(engine(frame))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_the_file_is_the_network(made, tmp_path):
    graph = made[1].written
    made[1].save(tmp_path / "small.onnx")
    content = (tmp_path / "small.onnx").read_bytes()
    read, whole = load(content), made[1].graph
    assert [(n.op, n.output) for n in read.nodes] == [(n.op, n.output) for n in whole.nodes]
    assert read.tensors == whole.tensors
    again = rewrite(load(content, rewrite=False))
    assert [(n.op, n.inputs, n.output, n.attrs) for n in again.nodes] == [
        (n.op, n.inputs, n.output, n.attrs) for n in graph.nodes
    ]
    assert again.qparams == graph.qparams and again.constants.keys() == graph.constants.keys()
    assert all(np.array_equal(again.constants[name], array) for name, array in graph.constants.items())


@pytest.mark.parametrize("optimized", [False, True])
def test_onnxruntime_gives_the_same_answers(made, tmp_path, optimized):
    """Probabilities: where a value between two levels goes the other way, by less than a hundredth."""
    ort = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    made[1].save(tmp_path / "small.onnx")
    options = ort.SessionOptions()
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(tmp_path / "small.onnx", options, providers=["CPUExecutionProvider"])
    with Engine(made[1].graph) as engine:
        for frame in frames(made[0], 8):
            (expected,) = session.run(None, {"x0": frame})
            assert np.abs(engine(frame) - expected).max() <= 0.01


def test_answers_stay(made):
    graph, result = made
    assert result.report.agreement >= 0.85 and result.report.error <= 0.1 and result.report.integer_macs == 1
    with Engine(graph) as floats, Engine(result.graph) as integers:
        errors = [np.abs(floats(x) - integers(x)).max() for x in frames(graph, 10)]
    assert 0 < max(errors) < 0.1


def test_a_budget_keeps_layers_in_floats():
    graph = small()
    photos = frames(graph, 8)
    free = quantize(graph, photos, method="minmax", layers=True)
    assert all(row.error > 0 and not row.floats for row in free.report.layers)
    assert free.report.agreement is not None
    named = free.report.layers[0].name
    kept = quantize(graph, photos, method="minmax", keep=[named])
    assert [row.name for row in kept.report.layers if row.floats] == [named]
    net = Net((1, 3, 8, 8))
    x = net.conv(net.conv("x0", 8, k=3, lo=0.0), 8, lo=0.0)
    images = net.graph(net.conv(x, 2), net.conv(x, 5))  # which are no task's
    photos = frames(images, 10)
    before = quantize(images, photos, method="minmax").report.error
    within = quantize(images, photos, method="minmax", max_drop=0.9 * before).report
    assert within.error <= 0.9 * before and 0 < sum(row.floats for row in within.layers) <= 3
    with pytest.raises(ArgumentError, match="max_drop: expected .* at least, .* got 1e-09"):
        quantize(images, photos, method="minmax", max_drop=1e-9)


def test_pictures():
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.conv("x0", 4))
    pictures = [RANDOM.integers(0, 256, (20, 30, 3), np.uint8) for _ in range(3)]
    report = quantize(graph, pictures, input=Picture(scale=255)).report
    (row,) = [row for row in report.tensors if row.names == ("x0",)]
    assert report.samples == 3 and row.least >= 0 and 0.5 < row.greatest <= 1


# ---- refusals ----


def test_refusals(made):
    graph, result = made
    (photo,) = frames(graph, 1)
    wrong = np.full_like(photo, np.nan)
    for given, words in (
        ({"samples": []}, "samples: expected some"),
        ({"samples": [photo[0]]}, r"sample 1: expected float32 \(1, 3, 16, 16\) for 'x0', got float32 \(3, 16, 16\)"),
        ({"samples": [photo, photo.astype(np.float64)]}, "sample 2: .* got float64"),
        ({"samples": [wrong]}, "sample 1: expected finite values"),
        ({"samples": [photo], "method": "best"}, "method: expected one of auto, minmax"),
        ({"samples": [photo], "keep": ["conv99"]}, "keep: expected layers .* got 'conv99'"),
        ({"samples": [photo], "max_drop": 2}, "max_drop: expected a number from 0 to 1"),
    ):
        with pytest.raises(ArgumentError, match=words):
            quantize(graph, **given)
    with pytest.raises(ModelError, match="small: expected a network of floats, got one that is quantized"):
        quantize(result.graph, [photo])
    for op in ("softmax", "sigmoid"):  # no kernel, and one that only layers around it would call for
        net = Net((1, 3, 4, 4))
        with pytest.raises(ModelError, match="expected layers to quantize"):
            quantize(net.graph(net.op(op, "x0")), [photo[:, :, :4, :4]])
    net = Net((1, 3, 4, 4))
    boundless = net.graph(net.conv(net.op("log", net.conv("x0", 2)), 2))
    with pytest.raises(ArgumentError, match="^tensor 'log1': expected finite values"):
        quantize(boundless, [photo[:, :, :4, :4]])


# ---- the command ----


def test_command(tmp_path):
    from commands import document, invoke, picture

    from pipeall.graph.onnx.write.write import onnx_bytes

    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    photo, output = picture(tmp_path), tmp_path / "out.onnx"
    report = tmp_path / "report.json"
    said = document(
        "quantize",
        tmp_path / "small.onnx",
        photo,
        "-o",
        output,
        "--preprocess",
        "plain",
        "--report",
        report,
        "--layers",
    )
    assert said["format"] == "pipeall.quantize/1" and said["samples"] == 1 and len(said["layers"]) == 7
    assert json.loads(report.read_text())["layers"] == said["layers"]
    assert load(output).qparams
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 6)))
    result = invoke("quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", output, "--method", "mse")
    assert result.exit_code == 0 and "7 of 7 layers of integers, 100.0 % of the MACs; levels by mse" in result.stdout
    assert "6 samples" in result.stdout
    np.save(tmp_path / "odd.npy", np.zeros((2, 5), np.float32))
    result = invoke("quantize", tmp_path / "small.onnx", tmp_path / "odd.npy", "-o", output)
    assert result.exit_code == 2 and "expected frames of x0 (1, 3, 16, 16)" in result.stderr
