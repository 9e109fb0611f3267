"""Numbers to learn: targets of any width, units, validation and early stopping, the exported network."""

import numpy as np
import pytest
from commands import document, invoke

from pipeall import ArgumentError
from pipeall.mlp.data import split


def plane(tmp_path, count=300, outputs=2):
    """A .csv of which the last columns are linear in the first three, in units far from 1."""
    random = np.random.default_rng(0)
    x = random.normal((5, -300, 0.02), (1, 40, 0.001), (count, 3))
    y = 1000 + (x / (1, 40, 0.001)) @ random.normal(size=(3, outputs)) * 50
    path = tmp_path / "plane.csv"
    np.savetxt(path, np.hstack([x, y]), delimiter=",", header="a,b,c" + ",y" * outputs, comments="")
    return path, x, y


def test_a_linear_function_is_found(tmp_path):
    """A linear output can be exact: least squares leave nothing, so that the error has to vanish beside the
    deviation; and the exported network takes and gives the file's units."""
    path, x, y = plane(tmp_path)
    arguments = (
        "--output",
        "linear",
        "--targets",
        "2",
        "--hidden",
        "16",
        "--optimizer",
        "adam",
        "--lr",
        "0.02",
        "--schedule",
        "cosine",
    )
    got = document("train", path, *arguments, "--epochs", 60, "--onnx", tmp_path / "net.onnx")
    last = got["epochs"][-1]
    assert got["sizes"] == [3, 16, 2] and last["accuracy"] is None and last["error"] < 0.05 * y.std()
    runtime = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    theirs = np.concatenate([session.run(None, {name: row[None].astype(np.float32)})[0] for row in x])
    assert np.sqrt(np.square(theirs - y).mean()) < 0.06 * y.std()


def test_units_and_parts(tmp_path):
    path, x, y = plane(tmp_path)
    train, test, held = split(str(path), "linear", "squared", targets=2, validation=0.25)
    assert len(train) + len(test) + len(held) == len(x) and 30 < len(held) < 90
    features, targets = train.batch(np.arange(len(train)), np.dtype(np.float64))
    for columns in (features, targets):
        np.testing.assert_allclose(columns.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(columns.std(axis=0), 1, rtol=1e-4)
    np.testing.assert_allclose(train.in_units(targets), train.y, rtol=1e-12)
    assert held.x_units is train.x_units, "the held out take no part in the units"


def test_targets_of_an_npz(tmp_path):
    """Several independent answers of 0 or 1 for each sample: a sigmoid each, with cross-entropy."""
    random = np.random.default_rng(1)
    x = random.normal(size=(400, 4)).astype(np.float32)
    np.savez(tmp_path / "many.npz", x=x, y=(x[:, :3] > 0).astype(np.float32))
    got = document("train", tmp_path / "many.npz", "--output", "sigmoid", "--epochs", 40, "--momentum", 0.9)
    assert got["sizes"][-1] == 3 and got["epochs"][-1]["error"] < 0.25, "a coin's is 0.5"


def test_the_best_epoch_is_kept_and_patience_ends(tmp_path):
    """Labels of noise cannot be learned: the validation loss soon grows, and its least epoch is what is exported."""
    random = np.random.default_rng(2)
    np.savez(tmp_path / "noise.npz", x=random.normal(size=(200, 20)), y=random.normal(size=200))
    command = (
        "train",
        tmp_path / "noise.npz",
        "--output",
        "linear",
        "--optimizer",
        "adam",
        "--lr",
        "0.01",
    )
    full = document(
        *command, "--epochs", "40", "--validation", "0.3", "--patience", "5", "--save", tmp_path / "net.ckpt"
    )
    losses = [epoch["validation"] for epoch in full["epochs"]]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 5 < 40
    first = document(*command, "--epochs", best + 1, "--validation", "0.3", "--onnx", tmp_path / "best.onnx")
    document(*command, "--epochs", "40", "--validation", "0.3", "--patience", "5", "--onnx", tmp_path / "last.onnx")
    assert [epoch["validation"] for epoch in first["epochs"]] == losses[: best + 1]
    assert (tmp_path / "best.onnx").read_bytes() == (tmp_path / "last.onnx").read_bytes()
    done = invoke(
        *command, "--epochs", "40", "--validation", "0.3", "--patience", "5", "--resume", tmp_path / "net.ckpt"
    )
    assert done.exit_code == 2 and "--patience: training has ended" in done.stderr


def test_the_best_epoch_survives_a_break(tmp_path):
    """With validation too a run that goes on ends with the network of one without a break."""
    command = ("train", "digits", "--hidden", "16", "--optimizer", "adam")
    document(*command, "--epochs", "4", "--validation", "0.2", "--onnx", tmp_path / "whole.onnx")
    document(*command, "--epochs", "2", "--validation", "0.2", "--save", tmp_path / "net.ckpt")
    document(
        *command,
        "--epochs",
        "4",
        "--validation",
        "0.2",
        "--resume",
        tmp_path / "net.ckpt",
        "--onnx",
        tmp_path / "broken.onnx",
    )
    assert (tmp_path / "whole.onnx").read_bytes() == (tmp_path / "broken.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--onnx", "x.onnx", "--output", "tanh", "--loss", "squared"], "--onnx: expected an output of"),
        (["--epochs", "9", "--patience", "3"], "--patience: expected --validation"),
        (["--output", "relu"], "--output: cross-entropy needs softmax or sigmoid"),
        (["--output", "linear", "--loss", "cross-entropy"], "--output: cross-entropy needs softmax or sigmoid"),
    ],
)
def test_refused_before_training(arguments, said):
    """The data do not even exist."""
    done = invoke("train", "absent.npz", *arguments)
    assert done.exit_code == 2 and said in done.stderr


@pytest.mark.parametrize(
    ("y", "output", "said"),
    [
        (np.full((4, 2), 2.0), "sigmoid", "expected targets from 0 to 1, got 2 to 2"),
        (np.full((4, 2), 0.9), "softmax", "with the sum 1"),
        (np.full((4, 2), np.nan), "linear", "expected 4 finite labels or rows of targets"),
        (np.zeros((4, 2, 2)), "linear", "expected 4 finite labels or rows of targets"),
        (np.full(4, 0.5), "softmax", "--output linear learns other numbers"),
    ],
)
def test_targets_that_do_not_go(tmp_path, y, output, said):
    np.savez(tmp_path / "a.npz", x_train=np.ones((4, 3)), y_train=y, x_test=np.ones((4, 3)), y_test=y)
    with pytest.raises(ArgumentError, match="a.npz") as error:
        split(str(tmp_path / "a.npz"), output, "squared" if output == "linear" else "cross-entropy")
    assert said in str(error.value)
