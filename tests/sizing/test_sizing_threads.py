"""``pipeall cost threads``: the report of given times, and a short run."""

import pytest
from commands import document, invoke, quick_net
from PIL import Image

from pipeall import ArgumentError
from pipeall.cli.cost import threads_command as threads
from pipeall.cli.cost.cost_plot import draw_threads
from pipeall.sizing.scalability import Law
from pipeall.sizing.size_report import threads_report


def test_a_report_names_the_best_number_of_threads():
    law = Law(10.0, 0.2, 0.05)  # most at sqrt(0.8 / 0.05) = 4 threads
    found = threads_report("quick", {n: [1e3 / law.throughput(n)] * 3 for n in range(1, 9)})
    assert found["best_threads"] == 4 and found["law"]["peak_threads"] == pytest.approx(4.0)
    assert found["law"]["serial"] == pytest.approx(0.2) and len(found["rows"]) == 8
    assert found["rows"][1]["fps"] == pytest.approx(law.throughput(2))


def test_two_numbers_make_no_law():
    found = threads_report("quick", {1: [2.0, 4.0, 3.0], 2: [2.0, 2.0, 1.0]})
    assert found["law"] is None and found["best_threads"] == 2
    assert found["rows"][0] == {"threads": 1, "median_ms": 3.0, "least_ms": 2.0, "fps": pytest.approx(1e3 / 3)}


def test_a_short_run(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "load_model", lambda net, finer=None: quick_net())
    found = document("cost", "threads", "quick", "--seconds", "0.01")
    (network,) = found["networks"]
    assert found["others_cores"] >= 0 and found["training_batch"] is None
    assert found["format"] == "pipeall.threads/1" and network["network"] == "quick"
    cores = len(threads.one_cluster().component("big").device.cluster.cores)
    assert [row["threads"] for row in network["rows"]] == list(range(1, cores + 1))
    assert all(row["least_ms"] <= row["median_ms"] for row in network["rows"])
    plot = tmp_path / "threads.png"
    result = invoke("cost", "threads", "quick", "--seconds", "0.01", "--plot", plot)
    assert "by number of threads" in result.stdout
    with Image.open(plot) as drawn:
        assert drawn.format == "PNG" and drawn.getextrema() != ((255, 255),) * len(drawn.getbands())


def test_busy_cores_are_told(monkeypatch):
    monkeypatch.setattr(threads, "load_model", lambda net, finer=None: quick_net())
    for cores, said in ((0.0, False), (0.7, True)):
        monkeypatch.setattr(
            threads.BackgroundLoad, "__exit__", lambda self, *error, cores=cores: setattr(self, "cores", cores)
        )
        result = invoke("cost", "threads", "quick", "--seconds", "0.01")
        assert ("BUSY: while threads were measured, other programs took the time of up to 0.7" in result.stdout) == said


def test_the_law_is_drawn_where_there_is_one(tmp_path):
    law = Law(10.0, 0.2, 0.05)
    found = [threads_report("quick", {n: [1e3 / law.throughput(n)] * 3 for n in range(1, most)}) for most in (3, 33)]
    draw_threads(tmp_path / "threads.png", found, "$ title")
    assert (tmp_path / "threads.png").stat().st_size > 10_000
    with pytest.raises(ArgumentError, match="absent/threads.png: cannot be written"):
        draw_threads(tmp_path / "absent" / "threads.png", found, "title")


def test_an_epoch_with_and_without_the_library(monkeypatch):
    """An epoch of so many samples at the best rate; steps run with oneDNN, or without it, which is on again behind."""
    torch = pytest.importorskip("torch", reason="needs pipeall[nas]")
    from pipeall.sizing.torch_network import TorchNetwork

    seen, enabled = [], torch.backends.mkldnn.enabled
    monkeypatch.setattr(TorchNetwork, "step", lambda self, x: seen.append((torch.backends.mkldnn.enabled, len(x))))
    for more, library in ((["--samples", "100"], True), (["--no-library"], False)):
        found = document("cost", "threads", "squeezenet", "--training", "2", "--seconds", "0.01", *more)
        assert set(seen) == {(library, 2)} and torch.backends.mkldnn.enabled == enabled
        seen.clear()
        (network,) = found["networks"]
        best = max(row["fps"] for row in network["rows"])
        assert network.get("epoch_s") == (pytest.approx(100 / best) if library else None)


def test_threads_are_measured_here():
    result = invoke("cost", "threads", "squeezenet", "--board", "a311d-armcl")
    assert result.exit_code == 2 and "No such option '--board'" in result.stderr
