"""How commands end: by the signals of supervisors, with closed streams, on full disks, with hostile words and names."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from clips import grey_clip
from commands import COLOUR, invoke, lines_of, picture, ran, small_disk
from graphs import Net
from PIL import Image

from pipeall import ArgumentError, Plan, save_onnx
from pipeall.cli.tables import plain
from pipeall.media import images, video
from pipeall.media.draw import Drawing
from pipeall.media.sources import Frames, Source, find

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Twenty frames, ten a second."""
    return grey_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", 10)


def small_classifier(classes):
    net = Net((1, 3, 16, 16))
    return net.graph(net.op("softmax", net.fc(net.conv("x0", 8, k=3), classes)))


def program(*arguments: object, before: str = "", **options) -> subprocess.Popen:
    """The program by a shell, which does ``before`` first, with pipes for its streams."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    environment = os.environ | {"PIPEALL_OPENCL": "off"}
    command = [sys.executable, "-m", "pipeall", *map(str, arguments)]
    return subprocess.Popen(["sh", "-c", f'{before} exec "$0" "$@"', *command], env=environment, **options)


# ---- signals ----


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_run_that_is_ended_keeps_video_trace_and_figures(clip, tmp_path, ctrl_c, number):
    drawn, trace = tmp_path / "seen.mp4", tmp_path / "trace.json"
    words = ("--repeat", 1_000_000, "--plan", "B", "--json", "--draw", drawn, "--trace", trace)
    process = program("run", "squeezenet", clip, *words)
    for _ in range(20):  # an answer for each frame of the first turn
        assert json.loads(process.stdout.readline())["format"] == "pipeall.answer/1"
    process.send_signal(number)
    process.send_signal(number if number != signal.SIGINT else signal.SIGTERM)  # systemd sends two
    shown, errors = process.communicate(timeout=30)
    figures = json.loads(shown.splitlines()[-1])
    assert process.returncode in {SIGNALS[number], 143} and "Traceback" not in errors
    assert figures["interrupted"] and figures["frames"] >= 19  # one may be on its way
    assert len(list(Frames([Source(str(drawn), "video")]))) in (19, 20)
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_command_that_only_computes_ends_too(tmp_path):
    process = program("train", "digits", "--epochs", 100_000)
    assert process.stdout.readline().startswith("epoch 1:")
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 143 and "Traceback" not in errors


def test_what_nohup_ignores_stays_ignored(tmp_path):
    process = program("train", "digits", "--epochs", 100_000, before="trap '' HUP;")
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    for _ in range(3):
        assert process.stdout.readline().startswith("epoch")
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_terminal_that_is_closed_ends_a_run(clip):
    """What its figures are written to is gone with it."""
    terminal, its = pty.openpty()
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-m", "pipeall", "run", "squeezenet", clip, "--repeat", "1000000", "--plan", "B"]
    environment = os.environ | {"PIPEALL_OPENCL": "off"}
    process = subprocess.Popen(
        [sys.executable, "-c", take, *command],
        env=environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    os.read(terminal, 1)
    os.close(terminal)
    assert process.wait(timeout=30) == 129


def reloaded(process):
    """What stderr says of the next SIGHUP."""
    process.send_signal(signal.SIGHUP)
    return next(line for line in process.stderr if line.startswith("SIGHUP: "))


def test_a_service_reads_model_and_plan_again(clip, tmp_path):
    """SIGHUP between two frames: none is lost, and a file that is wrong changes nothing."""
    model, plan, later_model, later_plan = (tmp_path / name for name in ("net.onnx", "plan.json", "2.onnx", "2.json"))
    for units, classes, files in (("B", 4, (model, plan)), ("L", 6, (later_model, later_plan))):
        save_onnx(small_classifier(classes), files[0])
        Plan.parse(units).save(files[1])
    process = program("run", model, clip, "--repeat", 1000000, "--drop", "oldest", "--plan", plan, "--json")
    answers = [json.loads(process.stdout.readline()) for _ in range(20)]
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout))
    reader.start()
    later_model.replace(model)
    later_plan.replace(plan)
    assert reloaded(process) == "SIGHUP: now net on little\n"
    model.write_bytes(b"no model")
    assert "error: " in (told := reloaded(process)) and told.endswith("the run goes on as it was\n")
    process.terminate()
    process.wait(timeout=30)
    reader.join()
    figures = json.loads(lines[-1])
    assert [plan for _, plan in figures["plans"]] == ["big", "little"]
    assert figures["moves"][0]["why"] == "replaced" and figures["interrupted"] and len(answers) == 20


# ---- streams ----


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_are_no_error(tmp_path, closed):
    """A file that is opened must not get the number of a stream: what is printed would be in it."""
    (tmp_path / "broken.png").write_bytes(b"none")
    trace = tmp_path / "trace.json"
    words = (tmp_path / "broken.png", picture(tmp_path), "--plan", "B", "--trace", trace)
    process = program("run", "squeezenet", *words, before=f"exec {closed};")
    shown, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in errors
    assert ("FPS" in shown) == (">&-" not in closed.replace("2>&-", ""))
    assert json.loads(trace.read_text())["traceEvents"]


# ---- disks ----


@pytest.mark.parametrize("option, name", [("--trace", "t.json"), ("--draw", "o.mp4"), ("--draw", "out")])
def test_a_full_disk_names_the_file_and_keeps_the_figures(clip, tmp_path, option, name):
    with small_disk():
        result = invoke("run", "squeezenet", clip, "--plan", "B", option, tmp_path / name, "--json")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert str(tmp_path / name) in result.stderr and "cannot be written: File too large" in result.stderr
    if name != "out":  # where the first picture does not fit there are none
        answers, figures = lines_of(result)
        assert figures["frames"] == len(answers) == 20


# ---- sources that would be written over ----


@pytest.mark.parametrize("name", ["clip.mp4", "link.mp4", "other.mp4", "folder/../clip.mp4"])
def test_a_video_is_not_drawn_over_its_source(clip, tmp_path, name):
    source = tmp_path / "clip.mp4"
    source.write_bytes(clip.read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.mp4").symlink_to(source)
    (tmp_path / "other.mp4").hardlink_to(source)
    for option in ("--draw", "--trace"):
        result = invoke("run", "squeezenet", source, option, tmp_path / name)
        assert result.exit_code == 2 and f"{option} {tmp_path / name}: expected another" in result.stderr
    assert source.read_bytes() == clip.read_bytes()


def test_a_photo_is_not_drawn_over_by_whatever_name(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    photo, other = picture(tmp_path), Source("clip.mp4", "video")
    for made in (lambda: (out / "plain.png").symlink_to(photo), lambda: (out / "plain.png").hardlink_to(photo)):
        made()
        with pytest.raises(ArgumentError, match="expected another place than that of the source .*plain.png"):
            Drawing(str(out), [Source(str(photo), "photo"), other])
        (out / "plain.png").unlink()
    Drawing(str(out), [Source(str(photo), "photo"), other])


def test_a_frame_is_not_drawn_over_a_photo(clip, tmp_path):
    photo = tmp_path / "clip-000003.jpg"
    Image.new("RGB", (64, 64), COLOUR).save(photo)
    content = photo.read_bytes()
    result = invoke("run", "squeezenet", clip, photo, "--plan", "B", "--draw", tmp_path)
    assert result.exit_code == 2 and f"the source {photo}" in result.stderr and photo.read_bytes() == content


def test_names_with_colons(clip, tmp_path, monkeypatch):
    """FFmpeg takes what stands before a colon for a protocol."""
    source, drawn = tmp_path / "12:30.mp4", tmp_path / "out:1.mp4"
    source.write_bytes(clip.read_bytes())
    picture(tmp_path).rename(tmp_path / "12:31.png")
    monkeypatch.chdir(tmp_path)
    answers, _ = ran("squeezenet", "12:30.mp4", "--plan", "B", "--draw", "out:1.mp4")
    ran("squeezenet", "12:31.png", "--plan", "B", "--draw", "out")
    assert len(answers) == len(list(Frames([Source(str(drawn), "video")]))) == 20
    assert (tmp_path / "out" / "12:31.png").exists()


# ---- drops ----


def test_a_video_that_may_drop_plays_at_its_own_speed_and_says_what_it_dropped(clip):
    """Two seconds: a network of milliseconds keeps up. What is read as fast as it can be loses nearly all of them."""
    begin = time.monotonic()
    answers, figures = ran("squeezenet", clip, "--plan", "B", "--drop", "oldest")
    assert time.monotonic() - begin > 1.9
    assert len(answers) + figures["dropped"] == 20 == figures["frames"] + figures["dropped"]
    shown = invoke("run", "squeezenet", clip, "--plan", "B", "--drop", "oldest").stdout
    assert "frames dropped" in shown
    assert ran("squeezenet", clip, "--plan", "B")[1]["dropped"] == 0


# ---- words and names ----


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--threshold", "nan"], "'--threshold': expected a finite number, got nan"),
        (["--threshold", "inf"], "'--threshold'"),
        (["--draw", ""], "'--draw': expected a word, got an empty one"),
        (["--view", ""], "'--view': expected a word, got an empty one"),
        (["--rebalance", ""], "'--rebalance': expected a word, got an empty one"),
        (["--labels", ""], "'--labels': expected a word, got an empty one"),
        ([""], "expected a word, got an empty one"),
        (["--trace", "FOLDER"], "'--trace': expected a file, got the folder"),
    ],
)
def test_empty_words_and_numbers_that_are_none(tmp_path, words, expected):
    words = [str(tmp_path) if word == "FOLDER" else word for word in words]
    result = invoke("run", "squeezenet", picture(tmp_path), *words)
    assert result.exit_code == 2 and result.stdout == "" and expected in result.stderr


def test_a_folder_of_results_that_is_a_file(tmp_path):
    result = invoke("nas", "--data", "digits", "-o", picture(tmp_path))
    assert result.exit_code == 2 and "plain.png: expected a folder to write into, got a file" in result.stderr


HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb\n"
SHOWN = r"a\x1b]0;title\x07\x9b31m\u202eb"


def test_what_a_terminal_would_obey_is_written_out():
    assert plain(HOSTILE) == SHOWN + r"\n" and plain("größe 日本 [red]") == "größe 日本 [red]"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A network whose file, nodes, tensors and labels have such names, and a picture that has."""
    pytest.importorskip("onnx", reason="needs pipeall[onnx]")
    from onnx import helper, numpy_helper

    weight = numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), f"w{HOSTILE}")
    names = [f"{letter}{HOSTILE}" for letter in "xcgfy"]
    nodes = [
        helper.make_node(op, [given, *more], [made], name=f"{op}{HOSTILE}", **options)
        for op, given, made, more, options in zip(
            ("Conv", "GlobalAveragePool", "Flatten", "Softmax"), names[:-1], names[1:], ([weight.name], [], [], []),
            ({"pads": [1, 1, 1, 1]}, {}, {}, {"axis": 1}), strict=True,
        )
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, f"g{HOSTILE}", [value(names[0], 1, (1, 3, 32, 32))], [value(names[-1], 1, (1, 4))], initializer=[weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", str({number: f"{number}{HOSTILE}" for number in range(4)})
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / f"{HOSTILE.strip().replace('/', '')}.onnx"
    path.write_bytes(model.SerializeToString())
    photo = picture(folder).rename(folder / f"{HOSTILE.strip()}.png")
    (folder / "labels").write_text("\n".join(f"{number}\x1b[31m\x9b" for number in range(4)))
    return path, photo, folder / "labels"


@pytest.mark.parametrize(
    "words",
    ["info MODEL --plan B", "info MODEL", "cost MODEL --layers", "run MODEL PHOTO --plan B --repeat 3",
     "run MODEL PHOTO --plan B --labels LABELS", "search MODEL --board rk3588", "simulate MODEL --board rk3588",
     "profile MODEL --units B --seconds 0.01", "run MODEL MODEL", "info MODEL.onnx",
     "run MODEL PHOTO --labels MODEL"],
)  # fmt: skip
def test_hostile_names_are_shown(hostile, words, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    model, photo, labels = map(str, hostile)
    places = {"MODEL": model, "PHOTO": photo, "LABELS": labels, "MODEL.onnx": f"{model}.onnx"}
    result = invoke(*(places.get(word, word) for word in words.split()))
    shown = result.stdout + result.stderr
    assert shown and shown == "\n".join(map(plain, shown.split("\n")))
    assert r"\x1b" in shown


# ---- pictures that are too large ----


def test_a_picture_that_memory_has_no_room_for_is_left_out(tmp_path, monkeypatch):
    """A file of some KB: its decoding takes what the system says that it has not."""
    picture(tmp_path).rename(tmp_path / "a.png")
    Image.new("RGBA", (4000, 3000)).save(tmp_path / "b.png")
    picture(tmp_path).rename(tmp_path / "c.png")
    monkeypatch.setattr(images, "free_bytes", lambda: 4000 * 3000 * images.DECODING_BYTES - 1)
    result = invoke("run", "squeezenet", tmp_path, "--plan", "B", "--json")
    answers, figures = lines_of(result)
    assert [Path(answer["source"]).name for answer in answers] == ["a.png", "c.png"] and figures["unread"] == 1
    assert result.stderr == f"error: image {tmp_path / 'b.png'}: no memory for 4000 x 3000 pixels\n"


def test_memory_that_runs_out_while_a_picture_is_decoded(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(Image.Image, "convert", refuse)
    Image.new("L", (30, 20)).save(tmp_path / "grey.png")
    with pytest.raises(ArgumentError, match="grey.png: no memory for 30 x 20 pixels"):
        images.read(tmp_path / "grey.png")


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 1), (3, 2)], ids=str)
def test_frames_of_a_pixel(size):
    av = pytest.importorskip("av", reason="needs pipeall[video]")
    found = video.planes(av.VideoFrame.from_ndarray(np.full((*size, 3), 200, np.uint8), format="rgb24"))
    assert np.abs(video.rgb(found.pixels, found.yuv, found.full_range) - 200.0).max() < 3
    assert found.pixels.shape == (3, 2)


def test_a_video_of_a_pixel(tmp_path):
    av = pytest.importorskip("av", reason="needs pipeall[video]")
    with av.open(str(tmp_path / "tiny.mkv"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 1
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(np.full((1, 1, 3), 200, np.uint8), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    assert ran("squeezenet", tmp_path / "tiny.mkv", "--plan", "B")[1]["frames"] == 3


def test_words_of_sources(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for word, expected in (
        (tmp_path / "absent.jpg", "absent.jpg: no such file or directory; expected photos"),
        (tmp_path / "pipe.png", "pipe.png: got a pipe; expected photos"),
    ):
        with pytest.raises(ArgumentError, match=expected):
            find([str(word)], False)


# ---- what to do instead ----


def test_a_network_that_no_decoder_reads(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs pipeall[onnx]")
    value, path = onnx.helper.make_tensor_value_info, tmp_path / "larger.onnx"
    nodes = [
        onnx.helper.make_node("Concat", ["x"] * 9, ["many"], axis=1),
        onnx.helper.make_node("DepthToSpace", ["many"], ["y"], blocksize=3),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, (1, 1, 90, 90))], [value("y", 1, (1, 1, 270, 270))])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    result = invoke("run", path, picture(tmp_path))
    assert result.exit_code == 2 and "larger: no decoder reads its outputs: y (1, 1, 270, 270)" in result.stderr
