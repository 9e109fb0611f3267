"""Pruning: weights against least squares in float64, choices against trying each one, files by onnxruntime."""

import numpy as np
import pytest
from commands import document, invoke
from graphs import Net, frames, picture_net, small_net
from pruning_nets import by_onnxruntime, classifier, samples

from pipeall import ArgumentError, Engine, ModelError, load, prune, quantize
from pipeall.graph.onnx.write.write import save_onnx
from pipeall.progress import silent
from pipeall.pruning import refit
from pipeall.pruning.blocks import Moments, fitted, layers_of, matrix_of, removal, with_matrices
from pipeall.pruning.moments import moments_of
from pipeall.pruning.picture_parts import crops
from pipeall.pruning.refit import clipped, refitted
from pipeall.pruning.shares import zeros_of
from pipeall.quantization import sensitivity
from pipeall.quantization.calibrate import with_logits
from pipeall.quantization.calibration_run import Reference


@pytest.fixture(autouse=True)
def moments(monkeypatch):
    """Frames are timed for a moment: the figures of these tests depend on no time."""
    monkeypatch.setattr(sensitivity, "SECONDS", 0.01)


def rows(channels, count=400, seed=0):
    """What a dense network and a pruned one give a layer, with a 1 behind."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((count, 3)) @ random.standard_normal((3, channels))
    z += 0.3 * random.standard_normal(z.shape)
    x = z + 0.1 * random.standard_normal(z.shape)
    return [np.column_stack((rows, np.ones(count))) for rows in (z, x)]


def least_squares(matrix, z, x, held, kept):
    """By LAPACK on the rows themselves: |M x - W z|^2 + held |M - W|^2 of each filter, the bias not held."""
    made = np.zeros_like(matrix)
    for row in range(len(matrix)):
        at = np.append(np.flatnonzero(kept[row // 8]), matrix.shape[1] - 1)
        springs = np.sqrt(held * len(x)) * np.eye(matrix.shape[1])[:-1]
        a = np.vstack((x, springs))[:, at]
        b = np.concatenate((z @ matrix[row], springs @ matrix[row]))
        made[row, at] = np.linalg.lstsq(a, b, rcond=None)[0]
    return made


def held_of(x):
    return 0.01 * np.square(x[:, :-1]).mean()


def test_weights_are_those_of_least_squares():
    """The tolerance: the condition of the moments, about 1e5, times float64's rounding of them."""
    z, x = rows(17)
    random = np.random.default_rng(1)
    matrix, kept = random.standard_normal((21, 18)), random.random((3, 17)) < 0.4
    kept[1] = False  # a panel of nothing but biases
    moments = Moments(x.T @ x / len(x), z.T @ x / len(x)).damped
    made = fitted(matrix, moments, kept)
    expected = least_squares(matrix, z, x, held_of(x), kept)
    np.testing.assert_allclose(made, expected, atol=1e-9)
    assert not made[:, :-1][~np.repeat(kept, 8, axis=0)[:21]].any() and made[8:16, -1].any()


def behind_clips(matrix, made, z, x, low, high):
    """Which outputs are wrong behind the activation, what they should be, and the mean of the squares with the term
    that holds weights: in float64, each output by its own."""
    wanted, given = z @ matrix.T, x @ made.T
    alike = ((wanted <= low) & (given <= low)) | ((wanted >= high) & (given >= high))
    wanted = np.clip(wanted, low, high)
    error = np.square(np.where(alike, 0, given - wanted)).sum() / len(x)
    return ~alike, wanted, error + held_of(x) * np.square(made - matrix)[:, :-1].sum()


def test_outputs_that_both_clip_alike_do_not_count(monkeypatch):
    """The least: with the outputs that are wrong known, LAPACK's least squares of those alone give the same weights.

    1,000 steps come within 1e-4, what float32 leaves of rows whose moments have a condition of 1e3; none goes back.
    """
    z, x = rows(17)
    random = np.random.default_rng(1)
    matrix, kept = random.standard_normal((11, 18)), random.random((2, 17)) < 0.5
    linear = least_squares(matrix, z, x, held_of(x), kept)
    low, high = np.quantile(z @ matrix.T, (0.5, 0.9))

    def made(steps):
        monkeypatch.setattr(refit, "STEPS", steps)
        return clipped(matrix, linear, *(each.astype(np.float32) for each in (z, x)), kept, (low, high))

    errors = [behind_clips(matrix, made(steps), z, x, low, high)[2] for steps in range(10)]
    assert all(after < before for before, after in zip(errors, errors[1:], strict=False))
    found = made(1000)
    wrong, wanted, error = behind_clips(matrix, found, z, x, low, high)
    assert error < errors[8] < 0.95 * errors[0] and 0.2 < wrong.mean() < 0.8
    springs = np.sqrt(held_of(x) * len(x)) * np.eye(18)[:-1]
    for row, rows_in in enumerate(wrong.T):
        at = np.append(np.flatnonzero(kept[row // 8]), 17)
        a = np.vstack((x[rows_in], springs))[:, at]
        b = np.concatenate((wanted[rows_in, row], springs @ matrix[row]))
        np.testing.assert_allclose(found[row, at], np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-4)
    assert not found[:, :-1][~np.repeat(kept, 8, axis=0)[:11]].any()
    assert np.array_equal(clipped(matrix, linear, z, x, kept, (-np.inf, np.inf)), linear)


def test_layers_that_lose_nothing_make_up_for_others():
    """A depthwise one, against LAPACK on its windows: what it gave before pruning, of what it reads now."""
    net = Net((1, 4, 8, 8))  # fewer pixels than count of a picture
    graph = net.graph(net.conv(net.conv("x0", 8), 8, k=3, groups=8))
    first, node = (node for node in graph.nodes if node.op == "conv")
    given = [{"x0": x} for x in frames(graph, 6)]
    matrix = matrix_of(graph, first)
    pruned = with_matrices(graph, {first.name: matrix * (np.arange(5) != 2)})
    made = refitted(graph, pruned, node, given, 0.0)

    def windows(changed):
        weights = changed.constants[first.inputs[1]][:, :, 0, 0].astype(np.float64)
        bias = changed.constants[first.inputs[2]][:, None, None]
        for sample in given:
            padded = np.pad(np.einsum("oi,ihw->ohw", weights, sample["x0"][0]) + bias, ((0, 0), (1, 1), (1, 1)))
            yield np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).reshape(8, -1, 9)

    z, x = (np.concatenate([*windows(each)], 1) for each in (graph, pruned))
    for channel, row in enumerate(matrix_of(graph, node)):
        before, after = (np.column_stack((each[channel], np.ones(len(each[channel])))) for each in (z, x))
        springs = np.sqrt(held_of(after) * len(after)) * np.eye(10)[:-1]
        expected = np.linalg.lstsq(
            np.vstack((after, springs)), np.concatenate((before @ row, springs @ row)), rcond=None
        )[0]
        np.testing.assert_allclose(made[channel], expected, atol=1e-4)
    assert np.array_equal(refitted(graph, graph, node, given, 0.0), matrix_of(graph, node))


def test_the_channel_that_leaves_adds_least():
    """Each time the one whose absence costs least when the others are fitted anew; and what it adds is told."""
    z, x = rows(7)
    matrix = np.random.default_rng(2).standard_normal((8, 8))
    moments = Moments(x.T @ x / len(x), z.T @ x / len(x)).damped
    found = removal(matrix, moments)

    def loss(kept):
        made = least_squares(matrix, z, x, held_of(x), kept[None])
        return np.square(x @ made.T - z @ matrix.T).sum() / len(x) + held_of(x) * np.square(made - matrix)[:, :-1].sum()

    kept, added = np.ones(7, bool), []
    for channel in found.order[0]:
        losses = {k: loss(kept & (np.arange(7) != k)) for k in np.flatnonzero(kept)}
        assert min(losses, key=losses.get) == channel
        added.append((losses[channel] - loss(kept)) / 8)
        kept[channel] = False
    np.testing.assert_allclose(found.errors[0], np.maximum.accumulate(added), rtol=1e-6)


def test_blocks_leave_in_the_order_of_their_errors():
    """By weight: a block of the last panel, of four filters, counts by half."""
    z, x = rows(6)
    found = removal(np.random.default_rng(3).standard_normal((20, 7)), Moments(x.T @ x, z.T @ x).damped)
    for zeros in range(0, 121, 4):
        stays = np.take_along_axis(found.kept(zeros), found.order, 1)
        assert zeros <= found.sizes[~stays].sum() < zeros + 8
        assert stays.all() or not stays.any() or found.errors[~stays].max() <= found.errors[stays].min()


def test_shares_of_layers_are_just_enough():
    """Of the weights and of the multiply-adds; one block less of any layer is not enough of one of them."""
    graph = classifier()
    given = [{"x0": x} for x in samples(graph)]
    nodes = layers_of(graph)
    moments = {name: each.damped for name, each in moments_of(graph, nodes, given).items()}
    removals = {node.name: removal(matrix_of(graph, node), moments[node.name]) for node in nodes}
    zeros = zeros_of(nodes, moments, removals, 0.6, Reference(with_logits(graph), given), silent)
    pixels = np.array([64, 64, 16])
    weights = np.array([removals[node.name].sizes.sum() for node in nodes])

    def shares(gone):
        return min(gone.sum() / weights.sum(), gone @ pixels / (weights @ pixels))

    gone = np.array([zeros[node.name] for node in nodes])
    assert weights.tolist() == [24 * 32, 32 * 32, 32 * 20]
    assert min(shares(gone - 8 * row) for row in np.eye(3)) < 0.6 <= shares(gone) < 0.65
    assert (np.abs(gone / weights - 0.6) <= 0.1 + 8 / weights).all() and len({*(gone / weights)}) > 1


def smallest_blocks_gone(graph, share):
    """The same blocks by their norm, with nothing made up for."""
    from dataclasses import replace

    constants = dict(graph.constants)
    for node in layers_of(graph):
        weight = constants[node.inputs[1]]
        panels = -(-len(weight) // 8)
        padded = np.zeros((panels * 8, *weight.shape[1:]), np.float32)
        padded[: len(weight)] = weight
        norms = np.square(padded.reshape(panels, 8, -1)).sum(1)
        kept = np.repeat(norms > np.quantile(norms, share), 8, axis=0)[: len(weight)]
        constants[node.inputs[1]] = weight * kept.reshape(weight.shape)
    return replace(graph, constants=constants)


def test_a_file_that_others_read(tmp_path):
    """onnx sees the zeros in blocks, onnxruntime computes the same, and new samples are nearer than by norms."""
    onnx = pytest.importorskip("onnx", reason="needs pipeall[onnx]")
    graph = classifier()
    made = prune(graph, samples(graph), sparsity=0.6)
    made.save(tmp_path / "pruned.onnx")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "pruned.onnx").graph.initializer}
    zeros = total = 0
    for node in layers_of(graph):
        weight = weights[node.inputs[1]].reshape(len(graph.constants[node.inputs[1]]), -1)
        for first in range(0, len(weight), 8):
            block = weight[first : first + 8] == 0
            assert np.array_equal(block.all(0), block.any(0)), f"{node.name}: zeros that are no block"
        zeros, total = zeros + (weight == 0).sum(), total + weight.size
    assert zeros / total >= 0.6 and made.report.zeros == pytest.approx(zeros / total)
    new = [np.roll(x, 2, axis=3) for x in samples(graph)]
    dense = np.array([Engine(graph)(x) for x in new])
    pruned = by_onnxruntime(tmp_path / "pruned.onnx", new)
    here = np.array([Engine(made.graph)(x) for x in new])
    np.testing.assert_allclose(here, pruned, rtol=0, atol=2e-6 * np.abs(pruned).max())
    save_onnx(smallest_blocks_gone(graph, 0.6), tmp_path / "norms.onnx")
    by_norms = by_onnxruntime(tmp_path / "norms.onnx", new)
    assert np.square(pruned - dense).sum() < 0.5 * np.square(by_norms - dense).sum()


def test_products_of_rows_and_weights_that_two_layers_share():
    """What one of two readers loses stays for the other."""
    net = Net((1, 6, 24))
    weight, bias = net.constant((16, 24), 0.2), net.constant((16,))
    x, y = (net.op("fc", each, weight, bias, axis=2) for each in ("x0", net.op("tanh", "x0")))
    graph = net.graph(net.op("add", x, y))
    made = prune(graph, frames(graph, 20), sparsity=0.5)
    first, second = (made.graph.constants[node.inputs[1]] for node in made.graph.nodes if node.op == "fc")
    assert [row.op for row in made.report.layers] == ["fc", "fc"] and made.report.zeros >= 0.5
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("make, message", [
    (lambda: quantize(small_net(), frames(small_net(), 2), method="minmax").graph, "a network of floats, got one"),
    (lambda: picture_net((8, 8)), "expected 1x1 convolutions or products of several rows to prune, got none"),
], ids=("quantized", "few filters"))  # fmt: skip
def test_networks_that_have_nothing_to_prune(make, message):
    graph = make()
    with pytest.raises(ModelError, match=message):
        prune(graph, frames(graph, 2))


@pytest.mark.parametrize("given, message", [
    ({"sparsity": 1.0}, "sparsity: expected a number from 0.01 to 0.99, got 1.0"),
    ({"sparsity": 0}, "sparsity: expected a number from 0.01"),
    ({"fine_tune": 0}, "fine_tune: expected a number above 0"),
    ({"samples": []}, "samples: expected some to calibrate with, got none"),
    ({"samples": [np.zeros((1, 3, 8, 8), np.float32)]}, r"sample 1: expected float32 \(1, 3, 16, 16\)"),
], ids=str)  # fmt: skip
def test_bad_arguments(given, message):
    graph = classifier()
    with pytest.raises(ArgumentError, match=message):
        prune(graph, **{"samples": samples(graph, 2)} | given)


def test_crops_are_parts():
    """Of the pictures in turns, within them, at least three fifths of each side; the same by the same seed."""
    pictures = [np.arange(60 * 40 * 3).reshape(60, 40, 3).astype(np.uint8), np.zeros((1, 1, 3), np.uint8)]
    made = crops(pictures, 9, seed=4)
    assert [part.shape for part in made[1::2]] == [(1, 1, 3)] * 4
    for part in made[::2]:
        assert 36 <= part.shape[0] <= 60 and 24 <= part.shape[1] <= 40
        windows = np.lib.stride_tricks.sliding_window_view(pictures[0], part.shape)[:, :, 0]
        assert any((windows == each).all((2, 3, 4)).any() for each in (part, part[:, ::-1]))
    assert all(map(np.array_equal, made, crops(pictures, 9, seed=4)))


def test_the_command(tmp_path):
    graph = classifier()
    save_onnx(graph, tmp_path / "net.onnx")
    np.save(tmp_path / "frames.npy", np.concatenate(samples(graph)))
    written = tmp_path / "pruned.onnx"
    run = ("prune", tmp_path / "net.onnx", tmp_path / "frames.npy", "-o", written, "--sparsity", "0.5")
    found = document(*run)
    assert found["format"] == "pipeall.prune/1" and found["zeros"] >= 0.5 and found["samples"] == 24
    x, made = samples(graph)[0], prune(tmp_path / "net.onnx", samples(graph), sparsity=0.5)
    np.testing.assert_allclose(Engine(load(written))(x), Engine(made.graph)(x), rtol=1e-5)
    text = invoke(*run, "--layers").stdout
    assert "of the weights of 3 layers are zeros; 24 samples" in text and "Zeros of each layer" in text
    refused = invoke(*run[:-1], "1.5")
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1 and "--sparsity" in refused.stderr


def test_pictures_give_parts_and_few_samples_none_apart(monkeypatch):
    """Large pictures are kept thinned out, and no more than so many; every sample is compared all the same."""
    from pipeall import Picture
    from pipeall.pruning import prune_network

    given, asked = [np.full((900, 500, 3), number, np.uint8) for number in range(20)], []
    monkeypatch.setattr(prune_network, "KEPT", 18)
    real = prune_network.crops

    def noted(pictures, count, seed=0):
        asked.append((sorted(int(picture[0, 0, 0]) for picture in pictures), pictures[0].shape, count))
        return real(pictures, count, seed)

    monkeypatch.setattr(prune_network, "crops", noted)
    made = prune(classifier(), iter(given), sparsity=0.4, input=Picture())
    apart = {0, 8, 16}
    assert asked == [([n for n in range(18) if n not in apart], (129, 72, 3), 128 - 17)]  # every 7th of 500 // 64
    assert made.report.samples == 20
