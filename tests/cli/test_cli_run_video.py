"""``pipeall run`` on videos and cameras, what it draws, and answers of every task."""

import json
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import invoke, lines_of, picture, ran
from PIL import Image
from task_images import opened

from pipeall import ArgumentError
from pipeall.cli.model_argument import ZOO
from pipeall.cli.picture_options import reader
from pipeall.cli.run.run_text import summary
from pipeall.media import camera, sources, video
from pipeall.media.draw import drawn
from pipeall.tasks import Answer, Box, Class, Mask, Text
from pipeall.tasks.preset import preset_picture

SIZE = (96, 128)
NEAR = 6  # grey levels: YUV, and the loss of a video


def frame(number: int) -> np.ndarray:
    """A frame of one colour, another one for each number."""
    colours = np.array([(200, 40, 40), (40, 200, 40), (40, 40, 200)], np.uint8)
    return np.broadcast_to(colours[number % 3], (*SIZE, 3)).copy()


@pytest.fixture(scope="module")
def av():
    return pytest.importorskip("av", reason="needs pipeall[video]")


@pytest.fixture(scope="module")
def clip(av, tmp_path_factory):
    """Seven frames, ten a second."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with video.Writer(path) as writer:
        for number in range(7):
            writer.add(frame(number), number / 10)
    return path


def shots(*words, **options):
    return list(sources.Frames(sources.find(map(str, words), False), **options))


# ---- sources ----


def test_a_video_comes_back_with_its_times(clip):
    found = shots(clip)
    assert [shot.number for shot in found] == list(range(7))
    assert [shot.time_s for shot in found] == pytest.approx([number / 10 for number in range(7)])
    for shot in found:
        assert np.asarray(shot).shape == (SIZE[0] * 3 // 2, SIZE[1])  # planes, as the decoder gives them
        assert np.asarray(shot) is not None and np.shares_memory(np.asarray(shot), shot.pixels)
        np.testing.assert_allclose(shot.rgb.astype(int), frame(shot.number), atol=NEAR)


def test_beside_photos_videos_are_rgb(clip, tmp_path):
    found = shots(picture(tmp_path), clip, repeat=2)
    assert [shot.pixels.ndim for shot in found] == [3] * 16 and [shot.again for shot in found] == [False] * 8 + [
        True
    ] * 8


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_turned_planes(av, quarters):
    upright = np.zeros((64, 96, 3), np.uint8)
    upright[:32, :48] = 200
    upright[32:, :48] = 100
    planes = video.planes(av.VideoFrame.from_ndarray(upright, format="rgb24"))
    turned = video.turned(planes.pixels, quarters)
    np.testing.assert_allclose(
        video.rgb(turned, planes.yuv, planes.full_range).astype(int), np.rot90(upright, quarters), atol=3
    )


def test_a_phone_held_upright(av, tmp_path):
    """The file says that its frames are to be turned by a quarter to the right, as phones write it."""
    path, stored = tmp_path / "phone.mp4", np.zeros((96, 128, 3), np.uint8)
    stored[:48] = 200
    with video.Writer(path) as writer:
        writer.add(stored, 0.0)
    content = bytearray(path.read_bytes())
    matrix = content.index(b"tkhd") + 44
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 96 << 16, 0, 1 << 30)
    path.write_bytes(content)
    (shot,) = shots(path)
    np.testing.assert_allclose(shot.rgb.astype(int), np.rot90(stored, -1), atol=NEAR)


def test_full_range_and_odd_sizes(av):
    grey = np.full((64, 64, 3), 200, np.uint8)
    full = video.planes(av.VideoFrame.from_ndarray(grey, format="rgb24").reformat(format="yuvj420p"))
    assert full.full_range
    np.testing.assert_allclose(video.rgb(full.pixels, full.yuv, full.full_range).astype(int), 200, atol=2)
    odd = np.full((33, 47, 3), 200, np.uint8)
    assert video.planes(av.VideoFrame.from_ndarray(odd, format="rgb24")).pixels.shape == (48, 46)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere.mp4"], "image nowhere.mp4: no such file or directory; expected photos, folders, videos"),
        (["camera:0", "camera:1", "camera:0"], "source camera:0: expected each once"),
        (["camera:"], "source camera:: expected a number behind it; "),
        (["/dev/video77"], "no such file"),
        (["/dev/null"], "got a device; expected photos"),
    ],
)
def test_sources_that_are_none(av, words, expected):
    with pytest.raises(ArgumentError, match=expected):
        sources.find(words, False)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("camera:99", "there is no camera /dev/video99; there are camera:2 (USB \\x1b[31m), camera:10 (Integrated)"),
        ("camera:99:640x480", "there is no camera /dev/video99; there are camera:2"),
        ("rtsp://127.0.0.1:9/none", "expected a video, got Connection refused"),
    ],
)
def test_a_camera_that_is_absent_is_one_line(av, word, expected, monkeypatch, tmp_path):
    monkeypatch.setattr(camera, "DEVICES", tmp_path)
    for folder, name in (("video10", "Integrated"), ("video2", "USB \x1b[31m\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "name").write_text(name)
    result = invoke("run", "squeezenet", word, "--plan", "B")
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ") and word in result.stderr and expected in result.stderr


def test_cameras_are_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(camera, "DEVICES", tmp_path)
    result = invoke("run", "squeezenet", "camera:")
    assert result.exit_code == 0 and result.stdout.startswith("no camera found; ") and "rpicam-vid" in result.stdout
    (tmp_path / "video99").mkdir()
    (tmp_path / "video99" / "name").write_text("USB\x1b[31m\n")
    shown = invoke("run", "squeezenet", "camera:").stdout
    assert shown == "camera:99  USB\\x1b[31m: no such file or directory\n"


def test_a_video_that_is_cut_off(clip, tmp_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(clip.read_bytes()[:600])
    result = invoke("run", "squeezenet", cut, picture(tmp_path), "--plan", "B", "--json")
    answers, figures = lines_of(result)
    assert [Path(answer["source"]).name for answer in answers] == ["plain.png"] and figures["unread"] == 1
    assert "cut.mp4: expected a video" in result.stderr and result.exit_code == 0


def test_without_the_extra(clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    result = invoke("run", "squeezenet", clip, "--plan", "B")
    assert result.exit_code == 2 and "pip install 'pipeall[video]'" in result.stderr
    assert "pip install 'pipeall[video]'" in invoke("run", "squeezenet", "camera:0", "--plan", "B").stderr


# ---- the command ----


def test_run_on_a_video(clip):
    answers, figures = ran("squeezenet", clip, "--plan", "B")
    assert [answer["number"] for answer in answers] == list(range(7)) and figures["frames"] == 7
    assert [answer["time_s"] for answer in answers] == pytest.approx([number / 10 for number in range(7)])
    assert all(answer["size"] == list(SIZE) and answer["latency_ms"] > 0 for answer in answers)
    assert all(answer["ready_ns"] > answer["captured_ns"] for answer in answers)
    tops = [[best["category_id"] for best in answer["classes"]] for answer in answers]
    assert tops[0] == tops[3] == tops[6] and figures["stats"]["dropped"] == 0


def test_run_on_a_video_as_text(clip):
    shown = invoke("run", "squeezenet", clip, "--plan", "B").stdout
    assert f"{clip} 0.00 s frame 0: " in shown and "after 2 of warm-up 5 in" in shown


class Camera:
    """In the place of V4L2: a frame every ``period_s``, ``count`` in all; Ctrl-C before the one ``interrupted``."""

    def __init__(self, count: int, period_s: float, interrupted: int | None = None):
        self.count, self.period_s, self.interrupted, self.opened = count, period_s, interrupted, []

    def __call__(self, name, path, size, report, in_place=False):
        self.opened.append((path, size))
        for number in range(self.count):
            time.sleep(self.period_s)
            if number == self.interrupted:
                signal.raise_signal(signal.SIGINT)
            yield video.i420(frame(number)), number * self.period_s


def test_run_on_a_camera(av, monkeypatch):
    one = Camera(12, 0.03)
    monkeypatch.setattr(camera, "frames", one)
    answers, figures = ran("squeezenet", "camera:3:128x96", "--plan", "B")
    assert one.opened == [("/dev/video3", (128, 96))]
    numbers = [answer["number"] for answer in answers]
    assert numbers[-1] == 11 and figures["each_ms"]["read"] is None
    # The figures begin with the second result, when at most two more frames are under way
    later = numbers[4:] or numbers[-1:]
    assert 12 - later[0] - len(later) <= figures["stats"]["dropped"] <= 12 - len(answers)
    assert answers[0]["source"] == "camera:3:128x96"
    shown = invoke("run", "squeezenet", "camera:3", "--plan", "B").stdout
    assert "From capture to answer p50" in shown and "frames dropped" in shown


def test_a_camera_that_is_faster_than_the_network_drops_frames(av, monkeypatch):
    monkeypatch.setattr(camera, "frames", Camera(150, 0.001))
    answers, figures = ran("squeezenet", "camera:0", "--plan", "B")
    numbers = [answer["number"] for answer in answers]
    assert figures["stats"]["dropped"] > 0 and numbers == sorted(set(numbers)) and numbers[-1] == 149
    answers, figures = ran("squeezenet", "camera:0", "--plan", "B", "--drop", "none")
    assert len(answers) == 150 and figures["stats"]["dropped"] == 0


def test_ctrl_c_shows_the_statistics(av, monkeypatch, tmp_path, ctrl_c):
    monkeypatch.setattr(camera, "frames", Camera(10_000, 0.02, interrupted=50))
    seen = tmp_path / "seen.mp4"
    result = invoke("run", "squeezenet", "camera:0", "--plan", "B", "--json", "--draw", seen)
    answers, figures = lines_of(result)
    assert result.exit_code == 130 and figures["interrupted"] and len(answers) > 5
    monkeypatch.undo()
    # all are whole, but for a frame on its way
    assert {figures["frames"], len(shots(seen))} <= {len(answers), len(answers) - 1}


def test_ctrl_c_of_the_program(clip, ctrl_c):
    """Exit status 130, the statistics, and nothing on stderr."""
    command = ["run", "squeezenet", str(clip), "--plan", "B", "--repeat", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeall", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline().startswith(str(clip).encode())
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and b"FPS with decoding" in shown and errors == b""


# ---- what is drawn ----


@pytest.fixture
def scene():
    return np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8)


def test_a_box_changes_the_picture_where_it_is(scene):
    before = scene.copy()
    box = Box(40.0, 50.0, 100.0, 90.0, 0.8, 16, "dog", points=((70.0, 70.0, 0.9), (10.0, 110.0, 0.1)))
    seen = drawn(scene, Answer("detect", (120, 160), boxes=(box,)))
    changed = (seen != before).any(2)
    assert (scene == before).all() and seen.shape == scene.shape and seen.dtype == np.uint8
    assert changed[50:91, 40].mean() > 0.9 and changed[50:91, 100].mean() > 0.9 and changed[90, 40:101].mean() > 0.9
    assert changed[70, 70] and changed[34:49, 41:60].mean() > 0.9  # the point, the name above
    assert not changed[55:65, 45:95].any() and not changed[95:].any()  # inside, and the point that is not sure


def test_masks_texts_and_classes(scene):
    values = np.zeros((6, 8), np.uint8)
    values[:3] = 2
    names = ("", "sky", "road")
    mask = Mask(values, (0.0, 0.0, 160.0, 120.0), (120, 160), names)
    changed = (drawn(scene, Answer("segment", (120, 160), mask=mask)) != scene).any(2)
    assert changed[:58].mean() > 0.9 and not changed[62:].any()
    alpha = Mask((values > 0).astype(np.float32), mask.region, mask.size)
    assert ((drawn(scene, Answer("segment", (120, 160), mask=alpha)) != scene).any(2)[:50]).mean() > 0.9
    line = Text("exit", 0.9, ((20.0, 60.0), (80.0, 60.0), (80.0, 80.0), (20.0, 80.0)))
    assert (drawn(scene, Answer("text", (120, 160), texts=(line,))) != scene).any(2)[80, 20:80].mean() > 0.9
    best = Answer("classify", (120, 160), classes=(Class(0.9, 3, "owl"), Class(0.1, 4, "cat")))
    changed = (drawn(scene, best) != scene).any(2)
    assert changed[:32, :30].mean() > 0.9 and not changed[32:].any()
    assert summary(best) == "owl" and summary(Answer("segment", (120, 160), mask=mask)) == "road"


def test_drawn_photos_keep_their_names(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir(), second.mkdir()
    sources_of = [picture(first), picture(second)]
    ran("squeezenet", *sources_of, "--plan", "B", "--draw", tmp_path / "out" / "seen")
    files = sorted((tmp_path / "out" / "seen").iterdir())
    assert [file.name for file in files] == ["plain-2.png", "plain.png"]
    assert all(Image.open(file).size == (320, 240) for file in files)
    assert all((np.asarray(opened(file)) != np.asarray(opened(sources_of[0]))).any() for file in files)
    result = invoke("run", "squeezenet", sources_of[0], "--plan", "B", "--draw", first)
    assert result.exit_code == 2 and "expected another place than that of" in result.stderr


def test_a_drawn_video(clip, tmp_path):
    ran("squeezenet", clip, clip, "--plan", "B", "--draw", tmp_path / "seen.mp4")
    found = shots(tmp_path / "seen.mp4")
    times = [shot.time_s for shot in found]
    assert len(found) == 14 and times == sorted(set(times)) and times[6] == pytest.approx(0.6, abs=1e-3)
    for number, shot in enumerate(found):  # names are on the left
        off = np.abs(shot.rgb.astype(int) - frame(number % 7))
        assert off[:40, :40].mean() > 5 * NEAR and off[:, 112:].mean() < NEAR
    ran("squeezenet", clip, "--plan", "B", "--draw", tmp_path / "frames")
    assert [file.name for file in sorted((tmp_path / "frames").iterdir())][::6] == [
        "clip-000000.jpg",
        "clip-000006.jpg",
    ]


# ---- tasks ----


def test_options_of_the_task():
    plain = ["run", "squeezenet", "examples", "--plan", "B", "--json"]
    assert (
        "no decoder of the task segment reads its outputs: prob (1, 1000)" in invoke(*plain, "--task", "segment").stderr
    )
    assert "expected it with a classifier" in invoke(*plain, "--decoder", "embed", "--first-class", "1").stderr
    answers, _ = ran("squeezenet", "examples", "--plan", "B", "--task", "classify", "--top", "2")
    assert [len(answer["classes"]) for answer in answers] == [2, 2, 2]
    answers, _ = ran("squeezenet", "examples", "--plan", "B", "--decoder", "embed")
    assert {len(answer["vector"]) for answer in answers} == {1000}


def test_preprocessing_of_other_tasks_replaces_parts():
    read = reader(ZOO["squeezenet"](), {"decoder": "embed"}, {"preprocess": "tf", "channels": "BGR"})
    assert read.picture.fit == "stretch" and read.picture.channels == "BGR" and read.picture.mean == (127.5,) * 3
    assert preset_picture((8, 8), "plain", read.picture, resize=16).fit == "crop"
    assert preset_picture((8, 8), "plain", read.picture, fit="letterbox").fit == "letterbox"


FOUND = {"jetson_dog_0.jpg": {"dog": 1, "person": 1}, "jetson_humans_1.jpg": {"person": 5}}


def test_a_detector_finds_what_is_to_be_seen(data_dir, tmp_path):
    model, photos = data_dir / "edge" / "yolox_nano_416.onnx", [data_dir / "scenes" / name for name in FOUND]
    answers, _ = ran(model, *photos, "--plan", "B", "--draw", tmp_path)
    for photo, answer in zip(photos, answers, strict=True):
        names = [box["category"] for box in answer["boxes"]]
        assert {name: names.count(name) for name in names} == FOUND[photo.name]
        before, after = (np.asarray(opened(path), int) for path in (photo, tmp_path / photo.name))
        left, top, width, height = map(round, answer["boxes"][0]["bbox"])
        edge = np.abs(after - before)[top + 20 : top + height - 20, left]
        assert edge.max(1).mean() > 50 and np.abs(after - before)[-5:, :5].mean() < 5
    few, _ = ran(model, *photos, "--plan", "B", "--decoder", "yolox", "--threshold", "0.9")
    assert [len(answer["boxes"]) for answer in few] == [1, 0]
    shown = invoke("run", model, photos[0], "--plan", "B").stdout
    assert "dog" in shown and "left" in shown


@pytest.mark.parametrize(
    ("model", "scene", "part"),
    [
        ("deeplab_v3_mnv2_257.onnx", "jetson_humans_1.jpg", "person"),
        ("pose_landmark_full.onnx", "jetson_humans_1.jpg", "person"),
        ("yunet_n_dynamic.onnx", "jetson_humans_1.jpg", "face"),
    ],
)
def test_other_tasks_are_recognized_and_shown(data_dir, tmp_path, model, scene, part):
    about = json.loads((data_dir / "edge" / "edge.json").read_text())[model]
    (h, w), channels = about["size"], (1 if about["layout"] == "NCHW" else 4)
    shape = f"1,3,{h},{w}" if channels == 1 else f"1,{h},{w},3"
    arguments = ("run", data_dir / "edge" / model, data_dir / "scenes" / scene, "--plan", "B", "--input-shape", shape)
    result = invoke(*arguments, "--draw", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert part in result.stdout and list(tmp_path.iterdir())
