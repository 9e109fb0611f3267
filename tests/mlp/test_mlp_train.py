"""Training from files: data, checkpoints, the command, and the trained network in the pipeline and in onnxruntime."""

import json
import warnings

import numpy as np
import pytest
from mlp_nets import HEADS, network

from pipeall import ArgumentError, Pipeline
from pipeall.graph.onnx.write.write import save_onnx
from pipeall.mlp import checkpoint
from pipeall.mlp.checkpoint import Progress
from pipeall.mlp.comm import CommError, Traffic
from pipeall.mlp.data import Split, split
from pipeall.mlp.export import to_graph
from pipeall.mlp.simulator import simulate
from pipeall.mlp.train import DivergedError, Settings, accuracy, report, train

SIZES = (64, 24, 16, 10)


@pytest.fixture(scope="module")
def digits():
    return split("digits")[:2]


def fitted(comm, digits, epochs=3, head=HEADS[2], **options):
    net = network(SIZES, head, comm, **options)
    train(net, Split(*digits), Settings(epochs, batch=16, rate=0.1))
    return net


def test_digits(digits):
    data, test = digits
    assert (len(data) + len(test), data.x.shape[1], data.classes, data.scale) == (1797, 64, 10, 16.0)
    x, target = data.batch(np.arange(5), np.dtype(np.float32))
    assert x.max() <= 1 and (target.argmax(axis=1) == data.labels[:5]).all() and (target.sum(axis=1) == 1).all()


def test_digits_as_well_as_scikit_learn(digits):
    """Equal shape, epochs, batch, rate and momentum; one point of accuracy is 3.6 of the 360 test samples."""
    sklearn = pytest.importorskip("sklearn.neural_network", reason="the reference: pip install scikit-learn")
    data, test = digits
    net = network((64, 64, 10), HEADS[2])
    train(net, Split(data, test), Settings(20, batch=32, rate=0.1, momentum=0.9))
    x, x_test = data.x / data.scale, test.x / test.scale
    theirs = sklearn.MLPClassifier((64,), solver="sgd", batch_size=32, learning_rate_init=0.1, momentum=0.9, alpha=0,
                                   max_iter=20, tol=0, random_state=0)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 20 epochs are not enough for it
        theirs.fit(x, data.labels)
    assert accuracy(net, test) >= theirs.score(x_test, test.labels) - 0.01


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_checkpoint_goes_on_on_other_ranks(tmp_path, digits, ranks):
    """Bit-equal mode: four epochs on three ranks, or two, a file, and two more on others."""
    path = tmp_path / "net.ckpt"

    def first(comm):
        checkpoint.save(path, fitted(comm, digits, 2, bit_equal=True), Progress(2))

    def second(comm):
        net = network(SIZES, HEADS[2], comm, bit_equal=True)
        begin = checkpoint.load(path, net)
        train(net, Split(*digits), Settings(4, batch=16, rate=0.1), begin)
        return net.gather()

    simulate(3, first)
    (whole, *_), expected = simulate(ranks, second), fitted(None, digits, 4).gather()
    for pair, same in zip(whole, expected, strict=True):
        assert all((a == b).all() for a, b in zip(pair, same, strict=True))


@pytest.mark.parametrize("layout", [{}, {"mode": "ghost"}, {"master": True}], ids=str)
def test_gather_and_take_are_inverse(digits, layout):
    def program(comm):
        net = fitted(comm, digits, 1, **layout)
        return net.gather(), net.predict(digits[1].x[:9].astype(np.float32))

    results = simulate(3, program)
    whole = results[0][0]

    def again(comm):
        net = network(SIZES, HEADS[2], comm, **layout)
        net.set_weights(whole)
        return net.predict(digits[1].x[:9].astype(np.float32))

    for (_, before), after in zip(results, simulate(3, again), strict=True):
        assert (before == after).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": (64, 24, 17, 10)}, "sizes: the network has [64, 24, 17, 10], the checkpoint [64, 24, 16, 10]"),
        ({"head": HEADS[1]}, "activations: the network has"),
        ({"mode": "ghost"}, "mode: the network has ghost, the checkpoint None"),
    ],
)
def test_a_checkpoint_of_another_network(tmp_path, digits, change, said):
    path = tmp_path / "net.ckpt"
    checkpoint.save(path, fitted(None, digits, 1), Progress(1))
    sizes, head = change.pop("sizes", SIZES), change.pop("head", HEADS[2])
    with pytest.raises(ArgumentError, match="net.ckpt") as error:
        checkpoint.load(path, network(sizes, head, None, **change))
    assert said in str(error.value)


def test_a_ghost_checkpoint_on_other_ranks(tmp_path, digits):
    path = tmp_path / "net.ckpt"
    simulate(3, lambda comm: checkpoint.save(path, fitted(comm, digits, 1, mode="ghost"), Progress(1)))
    with pytest.raises(ArgumentError, match="workers: the network has 2, the checkpoint 3"):
        simulate(2, lambda comm: checkpoint.load(path, network(SIZES, HEADS[2], comm, mode="ghost")))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip at all"])
def test_a_broken_checkpoint(tmp_path, content):
    path = tmp_path / "net.ckpt"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match="net.ckpt"):
        checkpoint.load(path, network(SIZES))


def test_divergence_leaves_the_checkpoint(tmp_path, digits):
    path = tmp_path / "net.ckpt"
    checkpoint.save(path, fitted(None, digits, 1), Progress(1))
    before = path.read_bytes()

    def program(comm):
        net = network(SIZES, ("relu", "relu", "squared"), comm)
        with pytest.raises(DivergedError, match="epoch 1: expected a finite loss"):
            train(net, Split(*digits), Settings(2, batch=16, rate=1e20), save=path)

    simulate(2, program)
    assert path.read_bytes() == before


def test_an_error_of_one_rank_is_told_to_all():
    def program(comm):
        with pytest.raises(ArgumentError if comm.rank == 2 else CommError, match="no such thing"):
            comm.agree(ArgumentError("no such thing") if comm.rank == 2 else None)

    simulate(5, program)


def test_a_rank_that_ends_is_not_waited_for():
    def program(comm):
        if comm.rank == 0:
            raise ArgumentError("gone")
        comm.allreduce(np.zeros(1))

    with pytest.raises(ArgumentError, match="gone"):
        simulate(3, program)


@pytest.mark.parametrize("head", [HEADS[0], HEADS[1], HEADS[2]], ids="-".join)
def test_the_exported_network_gives_the_same_outputs(tmp_path, digits, board, head):
    """Through onnxruntime and through a pipeline of two stages; sums of 64 terms in another order, float32."""
    _, test = digits
    net = fitted(None, digits, head=head)
    graph = to_graph(net.gather(), net.activations)
    x, _ = test.batch(np.arange(40), np.dtype(np.float32))
    expected = net.predict(x)
    with Pipeline(graph, "B-L:1", board=board) as pipe:
        got = np.concatenate(list(pipe.map(x[:, None])))
    np.testing.assert_allclose(got, expected, atol=64 * 2**-24)
    assert (got.argmax(axis=1) == expected.argmax(axis=1)).all()
    path = tmp_path / "net.onnx"
    save_onnx(graph, path)
    onnx = pytest.importorskip("onnx", reason="pip install onnx")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    runtime = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    theirs = np.concatenate([session.run(None, {"input": row[None]})[0] for row in x])
    np.testing.assert_allclose(theirs, expected, atol=64 * 2**-24)


def test_a_report(digits):
    def program(comm):
        net = network(SIZES, HEADS[2], comm)
        return report(net, train(net, Split(*digits), Settings(1, batch=1, rate=0.1)), len(digits[0]))

    cost = simulate(2, program)[0]
    assert cost["weights"] == 64 * 24 + 24 * 16 + 16 * 10 and cost["weights_kept"] == 1
    assert cost["bytes"] == 4 * (16 + 10) + 2 * 4  # two row layers forward and back; maximum and sum of the softmax
    assert cost["messages"] == 2 * 2 + 2
    way = cost["communication_seconds"]
    assert 0 < way["exposed"] <= way["mean"] <= way["max"] < cost["iteration_seconds"]
    assert 0 <= cost["overlap"] < 1


def test_the_command(tmp_path):
    from commands import document, invoke

    arguments = ("train", "digits", "--hidden", "24-16", "--save", tmp_path / "c", "--onnx", tmp_path / "n.onnx")
    got = document(*arguments, "--epochs", 2, "--report")
    assert got["format"] == "pipeall.training/1" and got["sizes"] == list(SIZES) and len(got["epochs"]) == 2
    assert got["report"]["weights_kept"] == 1 and (tmp_path / "n.onnx").stat().st_size > 4 * 2000
    more = document("train", "digits", "--hidden", "24-16", "--resume", tmp_path / "c", "--epochs", 3)
    assert [epoch["epoch"] for epoch in more["epochs"]] == [3]
    again = document(*arguments, "--epochs", 3)
    same = [{key: value for key, value in run["epochs"][-1].items() if key != "seconds"} for run in (more, again)]
    assert same[0] == same[1]
    done = invoke("train", "digits", "--resume", tmp_path / "c", "--hidden", "24")
    assert done.exit_code == 2 and "sizes: the network has [64, 24, 10]" in done.stderr
    assert "epoch 1: loss" in invoke("train", "digits", "--epochs", 1, "--report").stdout


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"a,b\n1,x\n", "expected numbers separated by commas"),
        ("a.csv", b"1\n2\n", "expected features and a label"),
        ("a.csv", b"1,0\n2,-1\n3,1\n4,1\n", "expected labels from 0"),
        ("a.csv", b"nan,0\n2,1\n3,1\n4,1\n", "expected samples of finite numbers"),
        ("a.npz", b"PK", "cannot be read as .npz"),
        ("a.txt", b"1 2\n", "expected inputs.txt,outputs.txt"),
        ("a.dat", b"", "expected digits, a .npz or a .csv"),
    ],
)
def test_bad_data(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=name) as error:
        split(str(path))[:2]
    assert said in str(error.value)


def test_a_csv(tmp_path):
    path = tmp_path / "a.csv"
    rows = np.random.default_rng(0).integers(0, 9, (50, 3))
    path.write_text("a,b,label\n" + "\n".join(",".join(map(str, row)) for row in rows))
    data, test = split(str(path))[:2]
    assert len(data) + len(test) == 50 and 0 < len(test) < 25
    assert sorted(map(tuple, np.vstack([data.x, test.x]).tolist())) == sorted(map(tuple, rows[:, :2].tolist()))
    assert json.dumps(data.scale) == "8.0"


def test_files_of_text(tmp_path):
    """Training and testing, separated by blanks or commas; a file of several columns of outputs is of numbers."""
    random = np.random.default_rng(0)
    x, y = random.standard_normal((9, 4)).astype(np.float32), random.integers(0, 3, 9)
    for name, values in (("x", x[:6]), ("tx", x[6:])):
        np.savetxt(tmp_path / f"{name}.txt", values, fmt="%.9g", delimiter=", " if name == "x" else " ")
    for name, values in (("y", y[:6]), ("ty", y[6:]), ("two", x[:6, :2])):
        np.savetxt(tmp_path / f"{name}.txt", values, fmt="%.9g")

    def named(*names):
        return ",".join(str(tmp_path / f"{name}.txt") for name in names)

    data, test, _ = split(named("x", "y", "tx", "ty"))
    assert (data.x == x[:6]).all() and (test.x == x[6:]).all()
    assert (data.labels == y[:6]).all() and (test.labels == y[6:]).all()
    numbers, held, _ = split(named("x", "two"), "linear", "squared")
    assert len(numbers) + len(held) == 6 and numbers.outputs == 2
    (tmp_path / "ragged.txt").write_text("1 2\n3\n")
    for names, said in (
        (("x", "y", "tx"), "expected inputs.txt,outputs.txt"),
        (("x", "ty"), "expected 6 finite labels"),
        (("ragged", "y"), "expected as many numbers in each line"),
    ):
        with pytest.raises(ArgumentError, match=said):
            split(named(*names))


def test_pictures_of_two_classes(tmp_path):
    """Bright and dark pictures of any size are told apart; classes are folders in alphabetical order."""
    from commands import document, invoke
    from PIL import Image

    from pipeall.cli.train.train_pictures import picture_samples

    random = np.random.default_rng(0)
    for folder, least in (("bright", 128), ("dark", 0)):
        (tmp_path / folder).mkdir()
        for number, height in enumerate(range(8, 28)):
            pixels = random.integers(least, least + 128, (height, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / folder / f"{number}.png")
    found = picture_samples(str(tmp_path), 16)
    assert found["x"].shape == (40, 3, 16, 16) and found["y"].tolist() == [0] * 20 + [1] * 20
    place = sorted(f"{number}.png" for number in range(20)).index("8.png")
    with Image.open(tmp_path / "bright" / "8.png") as exact:  # 16 x 16 already
        assert (found["x"][place] == np.asarray(exact).transpose(2, 0, 1)).all()
    got = document("train", "--pictures", tmp_path, "--picture-size", 8, "--batch", 4, "--lr", 0.05)
    assert got["sizes"] == [3 * 8 * 8, 128, 2] and got["epochs"][-1]["accuracy"] == 1
    (tmp_path / "dark" / "x.png").write_bytes(b"no picture")
    for arguments, said in (
        (("--pictures", tmp_path), "x.png: expected a picture"),
        (("--pictures", tmp_path / "dark"), "expected a folder with at least 2 folders"),
        (("digits", "--pictures", tmp_path), "expected DATA or --pictures"),
        ((), "expected DATA or --pictures"),
    ):
        done = invoke("train", "model", *arguments)
        assert done.exit_code == 2 and said in done.stderr


def test_time_under_way_counts_once(monkeypatch):
    """Of two exchanges that overlap; a clock of our own says when."""
    now = iter([0.0, 3.0, 5.0, 6.0])
    monkeypatch.setattr("pipeall.mlp.comm.perf_counter", lambda: next(now))
    traffic = Traffic()
    traffic.begin()
    traffic.begin()
    traffic.end()
    traffic.end()
    traffic.begin()
    traffic.end()
    assert traffic.seconds == 3.0 + 1.0
