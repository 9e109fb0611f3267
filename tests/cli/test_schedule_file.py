"""The file of ``pipeall schedule``: what it may say, and that each wrong entry is told in one line with its place."""

from pathlib import Path

import pytest
from commands import invoke, picture

from pipeall import ArgumentError, Demand
from pipeall.cli.schedule.schedule_file import ScheduleFile

DET = '[networks.det]\nmodel = "a.onnx"\nsource = "plain.png"\n'
PLACE = "s.toml: [networks.det]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """With a picture, which is the working directory."""
    picture(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(text: str, path: str = "s.toml") -> ScheduleFile:
    Path(path).write_text(text)
    return ScheduleFile.load(path)


def test_all_keys():
    file = loaded(
        'board = "rk3588"\nseconds = 2.5\nframes = 10\noutput = "answers.jsonl"\n'
        + DET
        + 'fps = 15\npriority = 2\nmax_latency_ms = 80\ndrop = "oldest"\nplan = "B-L:1"\n'
        'task = "detect"\nlabels = "names.txt"\ndecoder = "yolox"\nthreshold = 0.4\niou = 0.5\ntop = 9\n'
        "first_class = 0\n"
        'preprocess = "tf"\nsize = 64\nmean = [1, 2.5, 3]\nstd = "4,5,6"\nchannels = "BGR"\n'
        "input_shape = [1, 3, 64, 64]\nfiner = 2\nvalue = {sr = 16000, on = true, size = [1, 2]}\n"
        '[networks.rec]\nmodel = "squeezenet"\nfiner = "branches"\n'
        '[networks.rec.from]\nnetwork = "det"\nlabels = ["cat"]\nmargin = 0.1\nmin_size = 8\nat_most = 3\n'
        'drop = "none"\n'
        '[networks.text]\nmodel = "b.onnx"\nfrom = "det"\n'
    )
    assert (file.board, file.seconds, file.frames, file.output) == ("rk3588", 2.5, 10, "answers.jsonl")
    assert list(file.networks) == ["det", "rec", "text"]
    det, rec, text = file.networks.values()
    assert (det.model, [source.name for source in det.sources]) == ("a.onnx", ["plain.png"])
    assert (det.demand, det.drop, det.plan) == (Demand(15, 2, 80), "oldest", "B-L:1")
    assert det.task == {
        "task": "detect", "labels": "names.txt", "decoder": "yolox", "threshold": 0.4, "iou": 0.5, "top": 9,
        "first_class": 0,
    }  # fmt: skip
    assert det.pixels == {
        "preprocess": "tf", "size": 64, "mean": (1.0, 2.5, 3.0), "std": (4.0, 5.0, 6.0), "channels": "BGR"
    }  # fmt: skip
    values = {"sr": 16000, "on": True, "size": [1, 2]}
    assert det.reading == {"input_shape": (1, 3, 64, 64), "finer": 2, "value": values}
    assert rec.of == text.of == "det" and rec.demand == Demand() and rec.reading == {"finer": "branches"}
    assert rec.crops == {"labels": ("cat",), "margin": 0.1, "min_size": 8, "at_most": 3, "drop": "none"}
    assert text.crops == {} and text.sources == ()


def test_paths_are_those_beside_the_file(folder):
    (folder / "deep").mkdir()
    picture(folder / "deep").rename(folder / "deep" / "one.png")
    file = loaded(
        'board = "mine.json"\noutput = "out.jsonl"\n[networks.a]\nmodel = "a.onnx"\nsource = ["one.png"]\n'
        'labels = "names.txt"\nplan = "plan.json"\n[networks.b]\nmodel = "squeezenet"\nsource = "rtsp://host/live"\n',
        "deep/s.toml",
    )
    a, b = file.networks.values()
    assert (a.model, a.sources[0].name, a.task["labels"]) == ("deep/a.onnx", "deep/one.png", "deep/names.txt")
    assert (a.plan, file.board, file.output) == ("deep/plan.json", "deep/mine.json", "deep/out.jsonl")
    assert (b.model, b.sources[0].name) == ("squeezenet", "rtsp://host/live")


WRONG = [
    ("x = ", "s.toml: expected TOML; Invalid value"),
    ("", "s.toml: networks: expected a table for each network, such as [networks.det], got None"),
    ("networks = 3", "s.toml: networks: expected a table for each network, such as [networks.det], got 3"),
    ('boad = "x"', "s.toml: expected one of the keys board, seconds, frames, output, networks, got 'boad'"),
    ("seconds = 0\n" + DET, "s.toml: seconds: expected a number above 0, got 0"),
    ("frames = 1.5\n" + DET, "s.toml: frames: expected a whole number of at least 1, got 1.5"),
    (DET + "labls = 3", f"{PLACE} expected one of the keys model, source, from, "),
    (DET + "threshold = 2", f"{PLACE} threshold: expected a number from 0 to 1, got 2"),
    (DET + "threshold = nan", f"{PLACE} threshold: expected a number from 0 to 1, got nan"),
    (DET + 'task = "see"', f"{PLACE} task: expected one of classify, detect, segment, points, text, embed, got 'see'"),
    (DET + "labels = 3", f"{PLACE} labels: expected text, got 3"),
    (DET + 'labels = ""', f"{PLACE} labels: expected text, got ''"),
    (DET + 'mean = "x"', f"{PLACE} mean: expected finite numbers such as 0.485,0.456,0.406, got 'x'"),
    (DET + "mean = [[1]]", f"{PLACE} mean: expected text, a number or a list of numbers, got [[1]]"),
    (DET + "size = 4", f"{PLACE} size: expected preprocess beside it"),
    (DET + "finer = 0", f"{PLACE} finer: expected a number of at least 1, or branches; got '0'"),
    (DET + "first_class = -1", f"{PLACE} first_class: expected a whole number of at least 0, got -1"),
    (DET + 'value = {a = "b"}', f"{PLACE} value of a: expected a finite number, got 'b'"),
    (DET + "fps = 0", f"{PLACE} fps: expected a number above 0, at most 1e+06, got 0"),
    (DET + "priority = 10", f"{PLACE} priority: expected a whole number from 0 to 9, got 10"),
    (DET + "max_latency_ms = true", f"{PLACE} max_latency_ms: expected a number above 0, got True"),
    (DET + 'drop = "new"', f"{PLACE} drop: expected one of oldest, none, got 'new'"),
    (DET + 'from = "det"', f"{PLACE} source: expected either it or from, got both"),
    ('[networks.det]\nmodel = "a.onnx"', f"{PLACE} source: expected either it or from, got none"),
    (
        '[networks.det]\nsource = "plain.png"',
        f"{PLACE} model: expected an .onnx file or a network of the zoo, got none",
    ),
    ('[networks.det]\nmodel = "a.onnx"\nsource = []', f"{PLACE} source: expected a source such as camera:0, or a list"),
    ('[networks.det]\nmodel = "a.onnx"\nsource = "a\\u0000"', f"{PLACE} source: expected a source such as camera:0"),
    ('[networks.det]\nmodel = "a.onnx"\nsource = "' + "x" * 5000 + '"', f"{PLACE} source: expected a source such as"),
    ('[networks.det]\nmodel = "a.onnx"\nsource = "no.png"', f"{PLACE} image no.png: no such file"),
    (
        '[networks.det]\nmodel = "a.onnx"\nfrom = "det"',
        f"{PLACE} from: expected a chain that begins with a source, got d",
    ),
    ('[networks.det]\nmodel = "a.onnx"\nfrom = "two"', f"{PLACE} from: expected one of det, got 'two'"),
    (
        '[networks.det]\nmodel = "a.onnx"\nfrom = {margin = 1}',
        f"{PLACE} from: network: expected the name of a network, g",
    ),
    (
        '[networks.det]\nmodel = "a.onnx"\nfrom = {network = "det", margin = -1}',
        f"{PLACE} from: margin: expected a numbe",
    ),
    ('[networks.det]\nmodel = "a.onnx"\nfrom = "b"\ndrop = "none"', f"{PLACE} drop: expected it in from"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_a_wrong_entry_is_told_with_its_place(text, message):
    with pytest.raises(ArgumentError) as raised:
        loaded(text)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


def test_what_the_models_say_is_told_with_the_table():
    """After the file itself is right: the model, and what its outputs are."""
    rec = '[networks.rec]\nmodel = "squeezenet"\nfrom = {network = "det"'
    ends = {
        DET: "s.toml: [networks.det] a.onnx: cannot read: No such file",
        DET.replace(
            "a.onnx", "a.txt"
        ): "s.toml: [networks.det] model 'a.txt': expected an .onnx file or one of alexnet",
        DET.replace("a.onnx", "squeezenet") + "first_class = 2000": "first_class: expected 0 to 999, got 2000",
        DET.replace("a.onnx", "squeezenet") + 'task = "detect"': "s.toml: [networks.det] ",
        DET.replace("a.onnx", "squeezenet") + 'plan = "B-X:3"': "s.toml: [networks.det] ",
        DET.replace("a.onnx", "squeezenet")
        + rec
        + "}": "[networks.rec] from: expected a network that gives boxes, got det",
    }
    for text, message in ends.items():
        Path("s.toml").write_text(text)
        done = invoke("schedule", "s.toml")
        assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "no such file" in invoke("schedule", "none.toml").stderr.lower()
