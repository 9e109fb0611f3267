"""How a training goes on, to look at: numbers of every epoch, the plot, event files."""

import struct
import sys

import numpy as np
import pytest
from commands import document, invoke
from mlp_nets import HEADS, network
from PIL import Image

from pipeall.mlp.checkpoint import Progress
from pipeall.mlp.data import Split, split
from pipeall.mlp.train import EpochResult, Settings, curves, train

COMMAND = ("train", "digits", "--hidden", "16", "--epochs")
HELD_OUT = ("--validation", "0.2")


def test_numbers_of_an_epoch_are_those_of_the_exported_network(tmp_path):
    """Accuracy on training and validation samples and the validation loss, by onnxruntime in float32.

    The loss is a mean of logarithms of probabilities whose relative error is at most 1e-5; no sample lies so near to
    the border of two classes that its label differs.
    """
    runtime = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
    path, plot = tmp_path / "net.onnx", tmp_path / "net.png"
    found = document(*COMMAND, "4", *HELD_OUT, "--onnx", path, "--plot", plot)
    last = found["epochs"][-1]
    assert last["validation"] == min(epoch["validation"] for epoch in found["epochs"]), "the weights are of this epoch"
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    data = split("digits", "softmax", "cross-entropy", 1, 0.2)
    for samples, accuracy, loss in (
        (data.train, last["on_training"], None),
        (data.validation, last["on_validation"], last["validation"]),
        (data.test, last["accuracy"], None),
    ):
        x, target = samples.batch(np.arange(len(samples)), np.dtype(np.float32))
        y = np.concatenate([session.run(None, {"input": row[None]})[0] for row in x])
        assert accuracy == np.mean(y.argmax(axis=1) == samples.labels)
        if loss is not None:
            assert loss == pytest.approx(-np.log(y[target == 1]).mean(), abs=2e-5)
    with Image.open(plot) as drawn:
        assert drawn.format == "PNG" and drawn.getextrema() != ((255, 255),) * len(drawn.getbands())


@pytest.mark.parametrize("batch", [1437, 64, 1])
def test_an_epoch_tells_how_far_it_is(batch):
    data, test = split("digits")[:2]
    net, done = network((64, 8, 10), HEADS[2]), []
    train(net, Split(data, test), Settings(3, batch, 0.01), Progress(1), on_progress=done.append)
    iterations = -(-len(data) // batch)
    assert done == sorted(done) and done[0] == 1.0 and 2.0 in done and max(done) < 3
    assert min(iterations, 11) <= len(done) // 2 <= 20, "no more, as an iteration may take microseconds"


def test_training_samples_are_looked_at_only_where_asked():
    (epoch,) = document(*COMMAND, "1")["epochs"]
    assert epoch["on_training"] is None and epoch["on_validation"] is None


def test_curves():
    epoch = EpochResult(1, 2.0, None, 1.0, 1, 0.1, validation=3.0, error=5.0, on_training=4.0, on_validation=6.0)
    assert curves([epoch]) == {
        "loss": {"training": [2.0], "validation": [3.0]},
        "error": {"training": [4.0], "validation": [6.0], "test": [5.0]},
    }
    assert curves([EpochResult(1, 2.0, 0.5, 1.0, 1, 0.1)]) == {"loss": {"training": [2.0]}, "accuracy": {"test": [0.5]}}


def events(folder):
    """(step, tag, value) of all event files, by TensorFlow's format of records: length, its sum, bytes, their sum."""
    from tensorboardX.proto.event_pb2 import Event

    for file in sorted(folder.iterdir()):
        content, at = file.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack_from("<Q", content, at)
            event = Event.FromString(content[at + 12 : at + 12 + size])
            yield from ((event.step, value.tag, value.simple_value) for value in event.summary.value)
            at += 16 + size


def test_event_files(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs pipeall[tensorboard]")
    folder = tmp_path / "events"
    first = document(*COMMAND, "2", *HELD_OUT, "--tensorboard", folder, "--save", tmp_path / "net.ckpt")
    more = document(*COMMAND, "3", *HELD_OUT, "--tensorboard", folder, "--resume", tmp_path / "net.ckpt")
    fields = {
        "loss/training": "loss",
        "loss/validation": "validation",
        "accuracy/training": "on_training",
        "accuracy/validation": "on_validation",
        "accuracy/test": "accuracy",
        "rate": "rate",
    }
    expected = {
        (epoch["epoch"], tag): epoch[field]
        for epoch in first["epochs"] + more["epochs"]
        for tag, field in fields.items()
    }
    found = {(step, tag): value for step, tag, value in events(folder)}
    assert found == pytest.approx(expected, rel=2**-24), "event files have float32"
    (tmp_path / "file").touch()
    done = invoke(*COMMAND, "2", "--tensorboard", tmp_path / "file")
    assert done.exit_code == 2 and "--tensorboard:" in done.stderr and "cannot be written" in done.stderr


def test_event_files_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.delitem(sys.modules, "pipeall.cli.train.train_log", raising=False)
    done = invoke(*COMMAND, "1", "--tensorboard", tmp_path / "events")
    assert done.exit_code == 2 and "needs the package 'tensorboardX': pip install 'pipeall[tensorboard]'" in done.stderr
    assert not (tmp_path / "events").exists()
