"""Parameters of tensors: histograms, and each method of calibration against NumPy on the values themselves."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import frames
from quantization_nets import small

from pipeall.quantization.calibration_run import CalibrationRun
from pipeall.quantization.histogram import BINS, HistogramObserver
from pipeall.quantization.qparams import METHODS, SHARES, QuantParams, behind, divergence, minmax, mse, percentile
from pipeall.quantization.quantizable import split_residuals
from pipeall.quantization.quantize import ALIKE, choose_methods, observed

RANDOM = np.random.default_rng(0)


def values(kind):
    drawn = {
        "both signs": RANDOM.standard_normal(5000) * 3,
        "rectified": np.maximum(RANDOM.standard_normal(5000), 0),
        "an outlier": np.append(RANDOM.uniform(0, 1, 4999), 40.0),
        "below zero": -RANDOM.uniform(1, 2, 5000),
    }[kind]
    return drawn.astype(np.float32)


def histogram_of(*arrays):
    seen = HistogramObserver("x")
    for array in arrays:
        seen.add(array)
    return seen


KINDS = ("both signs", "rectified", "an outlier", "below zero")


@pytest.mark.parametrize("kind", KINDS)
def test_histograms(kind):
    """Whatever comes first, the bins hold every value but zeros, each less than a bin's width from its bin's middle."""
    x = values(kind)
    small_first, merged = histogram_of(x[:100] / 100, x), histogram_of(x[:100] / 100)
    merged.merge(histogram_of(x))
    for seen in (small_first, merged):
        every = np.sort(np.concatenate([x[:100] / 100, x]))
        expected = every[every != 0]
        found = np.repeat(seen.values, seen.counts)
        assert seen.total == len(every) and len(found) == len(expected)
        assert (seen.low, seen.high) == (min(every.min(), 0), max(every.max(), 0))
        width = 4 * np.abs(every).max() / BINS  # the reach is less than twice the largest
        assert np.abs(found - expected).max() <= width


def error_of(qparams, x):
    x = x.astype(np.float64)
    return np.square(np.clip(np.rint(x / qparams.scale), qparams.low, qparams.low + 255) * qparams.scale - x).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_minmax_clips_nothing(kind):
    x = values(kind)
    qparams = minmax(histogram_of(x))
    assert np.abs(qparams(x.astype(np.float64)) - x).max() <= qparams.scale * 1.01  # half, and what 0 as a level takes
    assert qparams.scale == pytest.approx((max(x.max(), 0) - min(x.min(), 0)) / 255)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [90.0, 99.0])
def test_percentile_is_numpys(kind, share):
    x = values(kind)
    qparams = percentile(histogram_of(x), share)
    low, high = np.percentile(x, [(100 - share) / 2, (100 + share) / 2], method="nearest")
    bins = 4 * np.abs(x).max() / BINS
    assert qparams.scale * 255 == pytest.approx(
        max(high, 0) - min(low, 0), abs=float(3 * bins + 0.01 * np.abs(x).max())
    )


@pytest.mark.parametrize("kind", KINDS)
def test_mse_has_the_least_error(kind):
    """Of all the ranges on a grid, by the values themselves and not their histogram."""
    x = values(kind)
    found = error_of(mse(histogram_of(x)), x)
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    grid = np.linspace(0.02, 1, 50)
    best = min(
        error_of(QuantParams.of_range(a * low, b * high), x)
        for a in grid
        for b in (grid if low and high else [1])
        if a * low or b * high
    )
    assert found <= 1.03 * best
    assert QuantParams.of_range(low, high).error(histogram_of(x)) == pytest.approx(
        error_of(QuantParams.of_range(low, high), x), rel=0.02
    )


@pytest.mark.parametrize("kind", ["both signs", "an outlier"])
def test_entropy_has_the_least_divergence(kind):
    """Computed bin by bin."""
    seen = histogram_of(values(kind))

    def brute(qparams):
        low, high = (qparams.low - 0.5) * qparams.scale, (qparams.low + 255.5) * qparams.scale
        inside = [(v, float(c)) for v, c in zip(seen.values, seen.counts, strict=True) if low <= v <= high]
        p = [c for _, c in inside]
        p[0] += sum(c for v, c in zip(seen.values, seen.counts, strict=True) if v < low)
        p[-1] += sum(c for v, c in zip(seen.values, seen.counts, strict=True) if v > high)
        at = [min(max(round(v / qparams.scale), qparams.low), qparams.low + 255) for v, _ in inside]
        shares = {level: [c for (_, c), a in zip(inside, at, strict=True) if a == level] for level in set(at)}
        q = [sum(shares[a]) / len(shares[a]) for a in at]
        return sum(a / sum(p) * np.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True))

    tried = [QuantParams.of_range(seen.low * s, seen.high * s) for s in SHARES[::12]]
    assert [divergence(qparams, seen) for qparams in tried] == pytest.approx([brute(qparams) for qparams in tried])
    assert divergence(METHODS["entropy"](seen), seen) <= min(map(brute, tried)) + 1e-12


@pytest.mark.parametrize("name", METHODS)
def test_nothing_but_zeros(name):
    qparams = METHODS[name](histogram_of(np.zeros(10, np.float32)))
    assert qparams == QuantParams(1.0, -128)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: x / (1 + np.exp(-x)), (-5, -4), (27, 29)),  # swish, below half a level from -4.6 on
        (lambda x: np.clip(x, 0, 6), (-1, 0), (6, 7)),
        (lambda x: np.maximum(x, x / 4), (-29, -27), (27, 29)),  # flattens nothing
    ],
)
def test_what_an_activation_flattens_takes_no_levels(function, low, high):
    """Of values from -28 to 28. What it does not flatten is not clipped."""
    seen = histogram_of(np.random.default_rng(0).normal(0, 8, 100_000).clip(-28, 28).astype(np.float32))
    qparams = behind("minmax", seen, function)
    ends = qparams.low * qparams.scale, (qparams.low + 255) * qparams.scale
    assert low[0] <= ends[0] <= low[1] and high[0] <= ends[1] <= high[1]
    x = np.linspace(-28, 28, 1000)
    lost = np.abs(function(np.clip(x, *ends)) - function(x)).max()
    assert lost <= 0.55 * np.ptp(np.append(function(x), 0)) / 255 + qparams.scale / 2  # 0 is a level: half a level off
    assert behind("mse", seen, function) == mse(seen, function)


def test_each_tensor_has_the_method_that_errs_least():
    """Where the error says how far each tensor's scale is from that of a method drawn for it, that method is found, or
    one of nearly the same qparams; nothing is tried twice, nor what would hardly differ, nor what is worse at a
    glance."""
    graph = split_residuals(small())
    run = CalibrationRun([{"x0": frame} for frame in frames(graph, 10)])
    start = observed(graph, run)
    found = start.resolve().quantizable
    drawn = dict(zip(found.sources.values(), np.resize(list(METHODS), len(found.sources)).tolist(), strict=True))
    wanted = replace(start, own_methods=drawn).resolve().qparams
    glanced, tried = [], []

    def error(choice, seen=tried):
        seen.append(tuple(sorted(choice.own_methods.items())))
        return sum(abs(qparams.scale / wanted[name].scale - 1) for name, qparams in choice.resolve().qparams.items())

    made = choose_methods(start, error, lambda choice: error(choice, glanced), run)
    assert len(glanced) == len(set(glanced)) <= 1 + 4 * len(found.sources)
    assert set(tried) < set(glanced)
    assert error(start) > 2 * ALIKE * len(found.sources)
    for name, qparams in made.resolve().qparams.items():
        assert qparams.scale == pytest.approx(wanted[name].scale, rel=2 * ALIKE)


def test_ranges_reach_beyond_what_was_seen():
    """By half a standard deviation of the samples' greatest values; tensors of one range by the greatest of any."""
    graph = split_residuals(small())
    photos = [{"x0": frame} for frame in frames(graph, 10)]
    start = observed(graph, CalibrationRun(photos))
    (name,) = (tensor.name for tensor in graph.inputs)
    peaks = np.array([np.abs(photo[name]).max() for photo in photos], np.float64)
    seen, wider = (replace(start, margin=margin, known={}).resolve().qparams for margin in (0.0, 0.5))
    assert wider[name].scale == pytest.approx((1 + peaks.std() / peaks.max() / 2) * seen[name].scale)
    assert all(wider[root].scale >= seen[root].scale for root in seen)  # the same where all reach a bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_no_wider_is_the_same(name, kind):
    qparams = METHODS[name](histogram_of(values(kind)))
    assert qparams.wider(1.0) == qparams
