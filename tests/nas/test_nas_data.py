"""Data sets of every format, and files that are none."""

import gzip
import json

import numpy as np
import pytest

from pipeall import ArgumentError
from pipeall.nas.datasets import load

SHARED = {  # file -> shape of a sample, outputs, samples in all, task
    "mnist.npz": ((1, 28, 28), 10, 70_000, "classes"),
    "cifar10_10k.npz": ((3, 32, 32), 10, 11_000, "classes"),
    "boston_housing.csv": ((13,), 1, 506, "numbers"),
    "imdb_3k.json.gz": ((1000,), 2, 3000, "classes"),
    "reuters_r8_train.txt.gz": ((1000,), 8, 7674, "classes"),
}


def test_digits():
    data = load("digits")
    assert (data.shape, data.outputs, data.targets, data.scale) == ((1, 8, 8), 10, "classes", 16.0)
    assert sum(map(len, (data.train, data.validation, data.test))) == 1797
    assert data.train.x.dtype == np.float32 and data.train.x.max() == 1 and data.train.x.min() == 0
    again = load("digits")
    assert all(
        (a == b).all()
        for one, other in ((data.validation, again.validation), (data.test, again.test))
        for a, b in zip(one, other, strict=True)
    )


def test_parts_share_no_sample(tmp_path):
    """Every sample is in one part, with its own target."""
    x = np.arange(60.0).reshape(20, 3)
    np.savez(tmp_path / "a.npz", x=x, y=x[:, 0] / 3 + 0.5)
    data = load(str(tmp_path / "a.npz"))
    found = np.concatenate([part.x * data.spread + data.centre for part in (data.train, data.validation, data.test)])
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], x, atol=1e-4)
    assert (len(data.test), len(data.validation), len(data.train)) == (4, 3, 13)
    for part in (data.train, data.validation, data.test):
        target = part.y * data.target_width + data.target_low
        np.testing.assert_allclose(target, (part.x * data.spread + data.centre)[:, 0] / 3 + 0.5, atol=1e-4)


@pytest.mark.parametrize("shape", [(20, 4, 6), (20, 4, 6, 3), (20, 3, 4, 6), (20, 4, 6, 1)], ids=str)
def test_layouts_of_pictures(tmp_path, shape):
    x = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(20) % 2, x_test=x, y_test=np.arange(20) % 2)
    data = load(str(tmp_path / "a.npz"))
    planes = x.reshape(20, 1, 4, 6) if len(shape) == 3 or shape[3] == 1 else x
    planes = planes.transpose(0, 3, 1, 2) if shape[3:] == (3,) else planes
    np.testing.assert_allclose(data.test.x, planes / 255, rtol=1e-6)


def test_texts(tmp_path):
    pytest.importorskip("sklearn", reason="needs pipeall[nas]")
    rows = [{"text": f"good film number{i}" if i % 2 else "bad film", "label": i % 2} for i in range(30)]
    path = tmp_path / "reviews.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"train": rows, "test": rows[:5]}).encode()))
    data = load(str(path))
    assert data.outputs == 2 and list(data.test.y) == [0, 1, 0, 1, 0]
    np.testing.assert_allclose(np.linalg.norm(data.test.x, axis=1), 1, rtol=1e-6)  # TF-IDF rows have length 1
    for part, count in (("train", 20), ("test", 6)):
        (tmp_path / f"news_{part}.txt").write_text(
            "".join(f"{'ab'[i % 2]}\tstory {'x' if i % 2 else 'y z'}\n" for i in range(count))
        )
    data = load(str(tmp_path / "news_train.txt"))
    assert len(data.test) == 6 and list(data.test.y) == [0, 1] * 3
    data = load(str(tmp_path / "news_test.txt"))  # no other file: its own fifth
    assert len(data.test) == 1


def test_as_many_classes_as_the_paper_has(tmp_path):
    """Files in the form of CIFAR-100 and of Reuters' 46 topics: the network has an output for each class."""
    pytest.importorskip("sklearn", reason="needs pipeall[nas]")
    pictures = np.zeros((300, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "cifar100.npz", x_train=pictures, y_train=np.arange(300) % 100, x_test=pictures[:100],
             y_test=np.arange(100))  # fmt: skip
    rows = [{"text": f"topic{i % 46} news", "label": i % 46} for i in range(460)]
    (tmp_path / "reuters.json").write_text(json.dumps({"train": rows, "test": rows[:46]}))
    for name, outputs in (("cifar100.npz", 100), ("reuters.json", 46)):
        data = load(str(tmp_path / name))
        assert data.outputs == outputs and data.targets == "classes" and set(data.test.y) == set(range(outputs))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"no zip", "cannot be read as .npz"),
        ("a.csv", b"1,2\n3\n", "expected numbers separated by commas"),
        ("a.csv", b"1,2\n" * 3, "expected 10 or more samples"),
        ("a.json", b"[", "expected JSON"),
        ("a.json", b"[1]", "expected an object with lists"),
        ("a.json", b'{"train": [{"text": 1}]}', r"train\[0\]: expected a text and a label"),
        ("a.json.gz", b"no gzip", "cannot be read"),
        ("a.txt", b"no tab", "line 1: expected LABEL, a tab"),
        ("a.txt", b"\xff\tx", "expected UTF-8"),
        ("a.txt", b"", "expected lines of LABEL"),
        ("a.pkl", b"", "expected digits, digit-boxes or a file ending in"),
    ],
)
def test_files_that_are_no_data(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=message):
        load(str(path))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((20, 2)), "y": np.arange(19)}, "expected 20 finite targets"),
        ({"x": np.full((20, 2), np.nan), "y": np.arange(20)}, "finite numbers"),
        ({"x": np.zeros((20, 2)), "y": np.arange(20) - 1}, "expected classes from 0"),
        ({"x": np.zeros((20, 4, 4, 2)), "y": np.arange(20)}, "expected pictures of 1 or 3 channels"),
        ({"z": np.zeros(3)}, "expected arrays x_train"),
    ],
)
def test_arrays_that_are_no_data(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ArgumentError, match=message):
        load(str(tmp_path / "a.npz"))


def test_a_text_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeall.nas.datasets.MAX_TEXT_BYTES", 1000)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a\t" + 2000 * b"x"))
    with pytest.raises(ArgumentError, match="expected at most 1000 bytes"):
        load(str(path))


@pytest.mark.parametrize("name", SHARED)
def test_data_sets_of_the_paper(data_dir, name):
    path = data_dir / "datasets" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    if name.endswith(".gz"):
        pytest.importorskip("sklearn", reason="needs pipeall[nas]")
    data = load(str(path))
    found = (data.shape, data.outputs, sum(map(len, (data.train, data.validation, data.test))), data.targets)
    assert found == SHARED[name]
