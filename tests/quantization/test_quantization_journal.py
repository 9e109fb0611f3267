"""The journal of a long quantization: it goes on where it stopped, with the same result."""

import zlib
from base64 import b64encode

import numpy as np
import pytest
from commands import small_disk
from graphs import Net, frames
from quantization_nets import small

from pipeall import ArgumentError, quantize
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.quantization.calibration_run import CalibrationRun, open_journal
from pipeall.quantization.histogram import BINS, HistogramObserver
from pipeall.quantization.quantizable import split_residuals
from pipeall.quantization.quantize import observed

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


class Stop:
    """Progress that interrupts after so many parts of what is done; counts them."""

    def __init__(self, after):
        self.after, self.count = after, 0

    def __call__(self, *_):
        self.count += 1
        if self.count > self.after:
            raise KeyboardInterrupt


def lines(path):
    return path.read_bytes().split(b"\n")[:-1]


@pytest.mark.parametrize("step, rounding", [(15, "nearest"), (40, "nearest"), (40, "gptq")])
def test_an_interrupted_run_goes_on(tmp_path, step, rounding):
    """Stopped again and again, each time a little later, the file is that of a run without a stop, byte for byte."""
    graph = small()
    photos = frames(graph, 6)
    given = {"max_drop": 0.01, "layers": True, "rounding": rounding}
    whole, all_of_it = quantize(graph, photos, **given), Stop(10**9)
    quantize(graph, photos, **given, progress=all_of_it)
    path, output = tmp_path / "journal", tmp_path / "small.onnx"
    made, stops, known, last = None, 0, 0, None
    while made is None:
        last = Stop((stops + 1) * step)
        try:
            made = quantize(graph, photos, **given, journal=path, progress=last)
        except KeyboardInterrupt:
            stops += 1
        assert len(lines(path)) >= known
        known = len(lines(path))
    assert stops >= 3 and known > 15 and last.count < all_of_it.count / 2
    made.save(output)
    assert output.read_bytes() == onnx_bytes(whole.written)
    assert not path.exists()
    timed = {"floats_ms", "quantized_ms"}
    for one, other in ((made.report, whole.report), *zip(made.report.layers, whole.report.layers, strict=True)):
        for key in one.__dataclass_fields__.keys() - timed - {"layers"}:
            assert getattr(one, key) == getattr(other, key)


def run_of(path, samples=2):
    graph = split_residuals(small())
    arrays = [{"x0": frame} for frame in frames(graph, samples)]
    return graph, CalibrationRun(arrays, journal=open_journal(path, graph, arrays, {}))


def test_a_run_reads_back_what_was_measured(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    graph, run = run_of(path)
    first = observed(graph, run).resolve().qparams
    monkeypatch.setattr("pipeall.quantization.calibration_run.histograms_of", None)  # a call would fail
    assert observed(*run_of(path)).resolve().qparams == first
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(TypeError):
        observed(*run_of(path))


def test_another_network_other_samples_or_options_are_refused(tmp_path):
    graph = small()
    samples = [{"x0": frame} for frame in frames(graph, 2)]
    path = tmp_path / "journal"
    net = Net((1, 3, 16, 16), seed=1)
    open_journal(path, graph, samples, {"method": "a"})
    open_journal(path, small(), [dict(sample) for sample in samples], {"method": "a"})
    for other, data, method, what in (
        (graph, samples[:1], "a", "samples"),
        (graph, samples[::-1], "a", "samples"),
        (graph, samples, "b", "method"),
        (net.graph(net.conv("x0", 2)), samples, "a", "network"),
    ):
        with pytest.raises(ArgumentError, match=f"journal: belongs to another {what}: "):
            open_journal(path, other, data, {"method": method})


THREE = b64encode(zlib.compress(np.arange(3.0).tobytes())).decode()


@pytest.mark.parametrize(
    "values", [None, 3, [], {}, {"x0": 3}, {"x0": "?"}, {"x0": "AAAA"}, {"x0": THREE}, {"x0": "", "more": ""}, ""]
)
def test_entries_that_hold_something_else(tmp_path, values):
    graph, run = run_of(tmp_path / "journal")
    run.journal.add({"what": "histograms", "values": values})
    with pytest.raises(ArgumentError, match="journal: line 2: expected histograms of 1 vectors"):
        run.histograms(graph, ["x0"])


def test_an_entry_of_another_measurement(tmp_path):
    graph, run = run_of(tmp_path / "journal")
    run.histograms(graph, ["x0"])
    graph, again = run_of(tmp_path / "journal")
    with pytest.raises(ArgumentError, match="journal: line 2: expected channel maxima of 1 vectors"):
        again.channel_maxima(graph, ["x0"])


def test_no_more_is_unpacked_than_expected(tmp_path):
    """64 MB of zeros, in 87 KB of base64."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 6)) + packer.flush()
    graph, run = run_of(tmp_path / "journal")
    run.journal.add({"what": "channel maxima", "values": {"x0": b64encode(bomb).decode()}})
    with pytest.raises(ArgumentError, match="expected channel maxima"):
        run.channel_maxima(graph, ["x0"])


def test_values_come_back_as_they_were():
    for arrays in ([-3.7, 0.0, 2.2], [0.0], [5e-324, 3e38], [1.0, 2.0]), [[0.0, 0.0]], [[-1e-3], [40.0, 1.0]]:
        seen = HistogramObserver("x")
        for array in arrays:
            seen.add(np.array(array, np.float32))
        other = HistogramObserver.of("x", seen.vector)
        assert len(seen.vector) == HistogramObserver.size(len(arrays))
        assert (other.low, other.high, other.zeros, other.peaks) == (seen.low, seen.high, seen.zeros, seen.peaks)
        assert np.array_equal(other.values, seen.values) and np.array_equal(other.counts, seen.counts)
        for one in (seen, other):
            one.add(np.array([-7.0, 9.0], np.float32))
        assert np.array_equal(other.vector, seen.vector) and other.counts.dtype == seen.counts.dtype


@pytest.mark.parametrize(
    "place, value", [(0, 1.0), (0, -1e300), (1, -1.0), (2, -1.0), (2, 0.5), (3, 0.0), (3, 0.3), (9, -1.0), (9, 1e300)]
)
def test_values_that_cannot_be(place, value):
    seen = HistogramObserver("x")
    seen.add(np.array([-1.0, 2.0], np.float32))
    vector = seen.vector
    vector[place] = value
    assert len(vector) == 4 + BINS + 1
    with pytest.raises(ArgumentError, match="tensor 'x': expected a histogram"):
        HistogramObserver.of("x", vector)


def test_command(tmp_path):
    from commands import invoke

    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 3)))
    output = tmp_path / "out.onnx"
    journal = tmp_path / "out.onnx.journal"
    words = ["quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", output, "--method", "minmax"]
    journal.write_text("something else\n")
    result = invoke(*words)
    assert result.exit_code == 2 and "out.onnx.journal: expected format" in result.stderr
    assert result.stderr.count("\n") == 1 and journal.exists() and not output.exists()
    assert invoke(*words, "--again").exit_code == 0 and output.exists() and not journal.exists()
    journal.mkdir()
    result = invoke(*words, "--again")
    assert result.exit_code == 2 and "out.onnx.journal: cannot be removed: " in result.stderr


def test_a_full_disk_costs_the_journal_alone(tmp_path):
    """The network is made all the same, with one warning; the file that does not fit is named."""
    graph, path = small(), tmp_path / "journal"
    photos = frames(graph, 3)
    with small_disk(), pytest.warns(RuntimeWarning, match="journal: cannot be written: File too large") as warned:
        made = quantize(graph, photos, method="minmax", journal=path)
        with pytest.raises(ArgumentError, match="^[^:]*small.onnx: cannot be written: File too large$"):
            made.save(tmp_path / "small.onnx")
    assert len(warned) == 1
    made.save(tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx").read_bytes() == onnx_bytes(quantize(graph, photos, method="minmax").written)
    assert not path.exists()


def test_the_command_goes_on(tmp_path, monkeypatch):
    """Interrupted ahead of the file, the next run has nothing left to measure."""
    from commands import invoke

    from pipeall.quantization import calibrate
    from pipeall.quantization import quantize as module

    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 3)))
    words = ["quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", tmp_path / "out.onnx"]
    assert invoke(*words).exit_code == 0
    expected = (tmp_path / "out.onnx").read_bytes()
    (tmp_path / "out.onnx").unlink()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "report_of", interrupt)
        assert invoke(*words).exit_code == 130
    assert (tmp_path / "out.onnx.journal").exists() and not (tmp_path / "out.onnx").exists()
    monkeypatch.setattr(calibrate, "Engine", interrupt)
    assert invoke(*words).exit_code == 0
    assert (tmp_path / "out.onnx").read_bytes() == expected
    assert [path.name for path in tmp_path.iterdir() if "journal" in path.name] == []
