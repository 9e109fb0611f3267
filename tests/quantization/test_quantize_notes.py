"""Notes of a long quantisation: it goes on where it stopped, with the same result; files that are not such notes."""

import json
import zlib

import numpy as np
import pytest
from graphs import Net, frames
from quantize_nets import small

from pipeall import ArgumentError, quantize
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.quantization import gain
from pipeall.quantization.notes import MAX_BYTES, Notes, digest
from pipeall.quantization.observe import BINS, Observed

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


@pytest.fixture(autouse=True)
def fixed(monkeypatch):
    """Which algorithms compute the floats decides their last bits."""
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    monkeypatch.setattr(gain, "SECONDS", 0.01)


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


@pytest.mark.parametrize("step, rounding", [(7, "nearest"), (40, "nearest"), (40, "learned")])
def test_an_interrupted_run_goes_on(tmp_path, step, rounding):
    """Stopped again and again, each time a little later, the file is that of a run without a stop, byte for byte."""
    graph = small()
    photos = frames(graph, 6)
    given = {"max_drop": 0.01, "layers": True, "rounding": rounding}
    whole, all_of_it = quantize(graph, photos, **given), Stop(10**9)
    quantize(graph, photos, **given, progress=all_of_it)
    path, output = tmp_path / "notes", tmp_path / "small.onnx"
    made, stops, known, last = None, 0, 0, None
    while made is None:
        last = Stop((stops + 1) * step)
        try:
            made = quantize(graph, photos, **given, notes=path, progress=last)
        except KeyboardInterrupt:
            stops += 1
        assert len(lines(path)) >= known
        known = len(lines(path))
    assert stops >= 3 and known > 15 and last.count < all_of_it.count / 2
    made.save(output)
    assert output.read_bytes() == onnx_bytes(whole.written)
    assert not path.exists()
    timed = {"floats_ms", "quantised_ms"}
    for one, other in ((made.report, whole.report), *zip(made.report.layers, whole.report.layers, strict=True)):
        for key in one.__dataclass_fields__.keys() - timed - {"layers"}:
            assert getattr(one, key) == getattr(other, key)


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    path = tmp_path / "notes"
    notes = Notes(path, "x")
    assert notes.number("one", lambda: 0.1) == 0.1 and notes.number("two", lambda: 1 / 3) == 1 / 3
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    notes = Notes(path, "x")
    assert notes.number("one", lambda: 7.0) == 0.1 and notes.number("two", lambda: 1 / 3) == 1 / 3
    assert path.read_bytes() == whole
    notes.remove()
    notes.remove()
    assert not path.exists()


def test_what_is_not_finite_is_computed_anew(tmp_path):
    path = tmp_path / "notes"
    assert Notes(path, "x").number("one", lambda: np.inf) == np.inf
    assert Notes(path, "x").number("one", lambda: 2.0) == 2.0


def test_a_digest_is_of_all_that_counts():
    graph = small()
    photos = [{"x0": frame} for frame in frames(graph, 2)]
    net = Net((1, 3, 16, 16), seed=1)
    other = net.graph(net.conv("x0", 2))
    given = [(graph, photos, "a"), (graph, photos[:1], "a"), (graph, photos[::-1], "a"), (graph, photos, "b")]
    assert len({digest(*arguments) for arguments in (*given, (other, photos, "a"))}) == 5
    assert digest(*given[0]) == digest(small(), [dict(photo) for photo in photos], "a")


def line(entry):
    text = json.dumps(entry).encode()
    return f"{zlib.crc32(text):08x} ".encode() + text + b"\n"


HEAD = line({"format": "pipeall.quantization-notes/1", "of": "x"})
PACKED = "eJxjYACBD/YMEAAAC5IBXg=="  # of three numbers


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"my letters",
        b"my letters\n" * 9,
        HEAD[:-1],
        line({"format": "pipeall.quantization-notes/1", "of": "y"}),
        HEAD + b"00000000 {}\n",
        HEAD + line({"part": "one", "found": {}}).replace(b"one", b"two"),
        HEAD + line([]),
        HEAD + line({"found": {}}),
        HEAD + b"[" * 100_000 + b"\n",
        HEAD + b"\0" * 100 + b"\n",
    ],
)
def test_files_that_are_no_notes(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=r"notes: expected .*; remove it \(--again\) to start over$"):
        Notes(path, "x")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "found",
    [
        None, 3, [], {}, {"": 3}, {"": "?"}, {"": "AAAA"}, {"": PACKED}, {"": "", "more": ""},
        {"": "eJxjYAABBwYGAAEDAIE="}, "",
    ],
)  # fmt: skip
def test_parts_that_hold_something_else(tmp_path, found):
    path = tmp_path / "notes"
    path.write_bytes(HEAD + line({"part": "one", "found": found}))
    with pytest.raises(ArgumentError, match="notes: expected vectors of 1 sizes for 'one', got others"):
        Notes(path, "x").number("one", lambda: 1.0)


def test_no_more_is_unpacked_than_expected(tmp_path):
    """64 MB of zeros, in 87 KB of base64."""
    from base64 import b64encode

    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 6)) + packer.flush()
    path = tmp_path / "notes"
    path.write_bytes(HEAD + line({"part": "one", "found": {"": b64encode(bomb).decode()}}))
    with pytest.raises(ArgumentError, match="expected vectors"):
        Notes(path, "x").number("one", lambda: 1.0)


def test_a_file_that_is_too_long_or_cannot_be_opened(tmp_path):
    path = tmp_path / "notes"
    with path.open("wb") as file:
        file.write(HEAD)
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ArgumentError, match="notes: expected notes"):
        Notes(path, "x")
    with pytest.raises(ArgumentError, match="expected a file, got a folder"):
        Notes(tmp_path, "x")
    with pytest.raises(ArgumentError, match="cannot be written"):
        Notes(tmp_path / "absent" / "notes", "x")


def test_values_come_back_as_they_were():
    for arrays in ([-3.7, 0.0, 2.2], [0.0], [5e-324, 3e38], [1.0, 2.0]), [[0.0, 0.0]], [[-1e-3], [40.0, 1.0]]:
        seen = Observed("x")
        for array in arrays:
            seen.add(np.array(array, np.float32))
        other = Observed.of("x", seen.vector)
        assert len(seen.vector) == Observed.size(len(arrays))
        assert (other.low, other.high, other.zeros, other.peaks) == (seen.low, seen.high, seen.zeros, seen.peaks)
        assert np.array_equal(other.values, seen.values) and np.array_equal(other.counts, seen.counts)
        for one in (seen, other):
            one.add(np.array([-7.0, 9.0], np.float32))
        assert np.array_equal(other.vector, seen.vector) and other.counts.dtype == seen.counts.dtype


@pytest.mark.parametrize(
    "place, value", [(0, 1.0), (0, -1e300), (1, -1.0), (2, -1.0), (2, 0.5), (3, 0.0), (3, 0.3), (9, -1.0), (9, 1e300)]
)
def test_values_that_cannot_be(place, value):
    seen = Observed("x")
    seen.add(np.array([-1.0, 2.0], np.float32))
    vector = seen.vector
    vector[place] = value
    assert len(vector) == 4 + BINS + 1
    with pytest.raises(ArgumentError, match="tensor 'x': expected what values give"):
        Observed.of("x", vector)


def test_command(tmp_path):
    from commands import invoke

    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 3)))
    output = tmp_path / "out.onnx"
    notes = tmp_path / "out.onnx.notes"
    words = ["quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", output, "--method", "minmax"]
    notes.write_text("something else\n")
    result = invoke(*words)
    assert result.exit_code == 2 and "out.onnx.notes: expected notes on this network" in result.stderr
    assert result.stderr.count("\n") == 1 and notes.exists() and not output.exists()
    assert invoke(*words, "--again").exit_code == 0 and output.exists() and not notes.exists()
    notes.mkdir()
    result = invoke(*words, "--again")
    assert result.exit_code == 2 and "out.onnx.notes: cannot be removed: " in result.stderr


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
    assert (tmp_path / "out.onnx.notes").exists() and not (tmp_path / "out.onnx").exists()
    monkeypatch.setattr(calibrate, "Engine", interrupt)
    assert invoke(*words).exit_code == 0
    assert (tmp_path / "out.onnx").read_bytes() == expected
    assert [path.name for path in tmp_path.iterdir() if "notes" in path.name] == []
