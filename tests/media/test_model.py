"""``pipeall.Model``: its answers are those of an engine, a task and the command; sources of every kind; its end."""

import pickle
import threading

import numpy as np
import pytest
from commands import ran
from PIL import Image

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs onnx: pip install 'pipeall[onnx]'")
from onnx import helper, numpy_helper  # noqa: E402

import pipeall  # noqa: E402
from pipeall.media import images, sources  # noqa: E402

CLASSES = 10
RNG = np.random.default_rng(5)
PHOTOS = [RNG.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((40, 60), (33, 20), (64, 64), (50, 31))]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A classifier of three layers that nothing says is one."""
    weights = {
        "w": RNG.standard_normal((8, 3, 3, 3)) / 5,
        "v": RNG.standard_normal((8, 8, 3, 3)) / 8,
        "u": RNG.standard_normal((CLASSES, 8)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "u"], ["y"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 32, 32))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, CLASSES))
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    graph = helper.make_graph(nodes, "small", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def model(file, board):
    with pipeall.Model(file, board=board) as model:
        yield model


@pytest.fixture(scope="module")
def expected(file, board):
    """What an engine and the task say of each of ``PHOTOS``."""
    graph = pipeall.load(file)
    task = pipeall.tasks.task(graph, "classify")
    with pipeall.Engine(graph, "big", board=board, input=task.picture) as engine:
        return [task(engine(photo), task.picture.placed(photo.shape[:2], task.size)) for photo in PHOTOS]


@pytest.fixture
def folder(tmp_path):
    for number, photo in enumerate(PHOTOS):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    return tmp_path


def same(answers, expected):
    """Scores to the rounding of another plan's sums; a classifier without labels numbers its classes."""
    answers = list(answers)
    assert len(answers) == len(expected) > 0
    for answer, other in zip(answers, expected, strict=True):
        assert answer.size == other.size and [c.name for c in answer.classes] == [str(c.label) for c in other.classes]
        scores = [[found.score for found in some.classes] for some in (answer, other)]
        np.testing.assert_allclose(*scores, rtol=1e-5)


def test_every_kind_of_source(model, expected, folder):
    paths = [folder / f"{number}.png" for number in range(len(PHOTOS))]
    same([model(PHOTOS[0]), model(paths[1]), model(str(paths[2])), model(Image.fromarray(PHOTOS[3]))], expected)
    for several in (PHOTOS, paths, tuple(map(str, paths)), [paths[0], *PHOTOS[1:]]):
        answers = model(several)
        assert isinstance(answers, list)
        same(answers, expected)
    for source in (folder, str(folder), iter(PHOTOS), (photo for photo in paths)):
        answers = model(source)
        assert iter(answers) is answers
        same(answers, expected)
    assert model([]) == []


def test_a_video(model, tmp_path):
    pytest.importorskip("av", reason="needs pipeall[video]")
    from pipeall.media import video

    with video.Writer(tmp_path / "clip.mp4") as writer:
        for number in range(5):
            writer.add(np.full((48, 64, 3), 40 * number, np.uint8), number / 25)
    answers = list(model(tmp_path / "clip.mp4"))
    assert [answer.frame.number for answer in answers] == list(range(5)) and answers[3].draw().shape == (48, 64, 3)
    assert [answer.size for answer in answers] == [(48, 64)] * 5
    again = model([answer.picture for answer in answers])  # as RGB: after a conversion that rounds
    for one, other in zip(answers, again, strict=True):
        best = {found.name: found.score for found in other.classes}
        assert max(abs(best.get(found.name, 0) - found.score) for found in one.classes[:2]) < 0.05
    assert len(list(model([tmp_path / "clip.mp4", PHOTOS[0]]))) == 6


def test_each_answer_comes_as_soon_as_it_is_ready(model):
    def camera():
        for photo in PHOTOS:
            yield photo
            assert asked.acquire(timeout=10)

    asked = threading.Semaphore(0)
    answers = model(camera())
    for photo in PHOTOS:
        assert next(answers).size == photo.shape[:2]
        asked.release()
    assert list(answers) == []


def test_the_command_says_the_same(file, folder):
    answers, _ = ran(file, folder, "--plan", "big")
    with pipeall.Model(file, "big") as model:
        for said, answer in zip(answers, model(folder), strict=True):
            assert answer.to_dict().items() <= said.items()


def test_a_detector_says_what_the_command_says(data_dir, tmp_path):
    path, scenes = data_dir / "edge/yolox_nano_416.onnx", data_dir / "scenes"
    names = ["jetson_dog_0.jpg", "jetson_humans_1.jpg"]
    answers, _ = ran(path, *(scenes / name for name in names), "--plan", "big", "--draw", tmp_path)
    with pipeall.Model(path, "big") as model:
        for name, said, answer in zip(names, answers, model([scenes / name for name in names]), strict=True):
            assert answer.boxes and answer.to_dict().items() <= said.items()
            answer.save(tmp_path / "seen.jpg")
            assert (tmp_path / "seen.jpg").read_bytes() == (tmp_path / name).read_bytes()


def test_answers_draw_and_save_themselves(model, tmp_path):
    answer = model(PHOTOS[2])
    drawn = answer.draw()
    assert drawn.shape == PHOTOS[2].shape and (drawn != PHOTOS[2]).any() and (answer.picture == PHOTOS[2]).all()
    answer.save(tmp_path / "seen.png")
    assert (images.read(tmp_path / "seen.png") == drawn).all()
    answer.save(str(tmp_path / "SEEN.JPG"))
    assert Image.open(tmp_path / "SEEN.JPG").format == "JPEG"
    for path, match in ((tmp_path / "seen.gif", "ends in .jpg"), (tmp_path / "none/seen.jpg", "cannot be written")):
        with pytest.raises(pipeall.ArgumentError, match=match):
            answer.save(path)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("nothing.jpg", "nothing.jpg"),
        (3, "source: expected a path, a picture"),
        ({"x": 1}, "source: expected a path, a picture"),
        (b"jpeg", "source: expected a path, a picture"),
        (np.zeros((3, 8, 8), np.float32), r"got float32 \(3, 8, 8\)"),
        ([1, 2], "frame: expected RGB"),
        (["nothing.jpg"], "nothing.jpg"),
    ],
)
def test_what_is_no_source(model, expected, source, match):
    with pytest.raises(pipeall.ArgumentError, match=match):
        model(source)
    same([model(PHOTOS[0])], expected[:1])  # and it goes on


def test_one_source_at_a_time(model, expected):
    answers = model(iter(PHOTOS))
    next(answers)
    with pytest.raises(pipeall.PipelineError, match="a source is under way"):
        model(PHOTOS[0])
    answers.close()
    same([model(PHOTOS[0])], expected[:1])


def test_options(file, board, folder):
    names = [f"name {number}" for number in range(CLASSES - 2)]
    picture = pipeall.Picture("letterbox", scale=255)
    with pipeall.Model(file, "B", board, labels=names, most=2, first_class=2, input=picture) as model:
        assert model.picture == picture and str(model.plan) == "big"
        classes = model(PHOTOS[0]).classes
        assert len(classes) == 2 and all(found.name == names[found.label] for found in classes)
    with pytest.raises(pipeall.ArgumentError, match="first_class: expected 0 to 9, got 10"):
        pipeall.Model(file, first_class=10)
    with pytest.raises(pipeall.ModelError, match="no decoder of the task detect"):
        pipeall.Model(file, task="detect")


def test_it_pickles(model, expected, folder):
    with pickle.loads(pickle.dumps(model)) as copy:
        assert copy.picture == model.picture and copy.plan == model.plan
        same(copy(folder), expected)
    for answer in (model(PHOTOS[0]), model(folder / "0.png")):
        again = pickle.loads(pickle.dumps(answer))
        assert again.to_json() == answer.to_json() and (again.draw() == answer.draw()).all()


def test_plans_boards_and_profiles_pickle(file, board):
    graph = pipeall.load(file)
    plan, modelled = pipeall.Plan.balanced(["big", "little"], graph), pipeall.Board.load("a311d")
    assert pickle.loads(pickle.dumps(plan)) == plan
    profile = pipeall.profile(graph, modelled)
    assert pickle.loads(pickle.dumps(profile)).to_dict() == profile.to_dict()
    assert pickle.loads(pickle.dumps(modelled)).model.to_dict() == modelled.model.to_dict()
    x = RNG.standard_normal((1, 3, 32, 32)).astype(np.float32)
    with (
        pipeall.Engine(graph, "big", board) as one,
        pipeall.Engine(graph, "big", pickle.loads(pickle.dumps(board))) as other,
    ):
        assert (one(x) == other(x)).all()


def test_pictures_to_calibrate_with(model, folder):
    read = list(model.pictures(folder))
    assert all((one == other).all() for one, other in zip(read, PHOTOS, strict=True))
    assert [list(model.pictures(PHOTOS[0]))[0].shape, next(model.pictures(folder / "1.png")).shape] == [
        PHOTOS[0].shape,
        PHOTOS[1].shape,
    ]
    made = pipeall.quantize(model.graph, model.pictures(folder), input=model.picture, method="minmax")
    same = model.quantize(folder, method="minmax")
    assert made.graph.quantized and same.report.tensors == made.report.tensors


def test_close_ends_all_threads(file, board):
    before = set(threading.enumerate())
    model = pipeall.Model(file, board=board)
    answers = model(iter(PHOTOS))
    next(answers)
    model.close()
    model.close()
    assert list(answers) == []
    with pytest.raises(pipeall.PipelineError, match="the model is closed"):
        model(PHOTOS[0])
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before


def test_a_camera_drops_the_oldest(model, monkeypatch):
    """A camera that is faster than the network, in the place of one: fewer answers than frames, in order."""
    frame = sources.video.Planes(np.full((72, 64), 128, np.uint8), "BT.601", False)
    monkeypatch.setattr(sources, "opened", lambda source, report, in_place: ((frame, n / 1e4) for n in range(3000)))
    monkeypatch.setattr(sources.video, "package", lambda: None)
    numbers = [answer.frame.number for answer in model("camera:0")]
    assert numbers == sorted(set(numbers)) and 0 < len(numbers) < 3000
