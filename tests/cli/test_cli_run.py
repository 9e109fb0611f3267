"""``pipeall run`` on photos: plans, pictures and classes, against the reference and onnxruntime."""

import json
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from commands import BOARD, COLOUR, invoke, lines_of, picture, ran, two_clusters
from PIL import Image
from task_images import by_the_letter

from pipeall import ArgumentError, Plan, zoo
from pipeall.cli.picture_options import reader
from pipeall.cli.plans import chosen_plan
from pipeall.graph.ops import macs, run_graph
from pipeall.media import images, sources
from pipeall.pipeline.boards.default_plan import default_plan
from pipeall.pipeline.planning.plan import balanced_cuts
from pipeall.tasks.preset import preset_picture

# ---- plans ----


@pytest.mark.parametrize(
    "speeds", [(1.0,), (1.0, 1.0), (1.0, 3.0, 2.0), (5.0, 1.0, 1.0), (2.0, 3.0, 1.0, 4.0)], ids=str
)
def test_balanced_cuts_are_the_best_of_all(speeds):
    graph = zoo.squeezenet()
    costs = [sum(macs(node, graph) for node in group.nodes) for group in graph.groups]

    def slowest(cuts):
        borders = [0, *cuts, len(costs)]
        return max(sum(costs[a:b]) / speed for a, b, speed in zip(borders, borders[1:], speeds, strict=False))

    best = min(slowest(cuts) for cuts in combinations(range(1, len(costs)), len(speeds) - 1))
    assert slowest(balanced_cuts(graph, speeds)) == pytest.approx(best)


def plan_text(plan: str | None = None) -> str:
    return str(chosen_plan(zoo.squeezenet(), BOARD, plan))


def test_a_plan_with_cuts_or_without():
    assert plan_text("G-B-L:3,5") == "gpu-big-little:3,5"
    assert plan_text("G-Bx1-L") == str(Plan.balanced(["gpu", "bigx1", "little"], zoo.squeezenet()))
    assert plan_text("big") == plan_text("B") == "big"
    with pytest.raises(ArgumentError):
        plan_text("B-L+G")


@two_clusters
def test_default_plan_uses_all_clusters():
    plan, _ = default_plan(zoo.squeezenet(), BOARD)
    assert plan.components == tuple(BOARD.components) and str(plan) == plan_text()


# ---- pictures and classes ----


def levels_to_inputs(picture, colour):
    factors, offsets = picture.affine
    return [level * factor + offset for level, factor, offset in zip(colour, factors, offsets, strict=True)]


def test_presets_for_one_channel():
    """The preset's three means and deviations become one."""
    mean, std = np.mean([0.485, 0.456, 0.406]), np.mean([0.229, 0.224, 0.225])
    plain, imagenet = (preset_picture((8, 8), preset, grey=True) for preset in ("plain", "imagenet"))
    assert plain.channels == imagenet.channels == "GRAY"
    assert levels_to_inputs(plain, [51]) == pytest.approx([51 / 255])
    assert levels_to_inputs(imagenet, [51]) == pytest.approx([(51 / 255 - mean) / std])
    with pytest.raises(ArgumentError, match="expected one number each"):
        preset_picture((8, 8), "plain", grey=True, mean=(1.0, 2.0, 3.0))
    with pytest.raises(ArgumentError, match="^channels: expected none for a model of one channel"):
        preset_picture((8, 8), "plain", grey=True, channels="RGB")


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("imagenet", [(10 / 255 - 0.485) / 0.229, (20 / 255 - 0.456) / 0.224, (30 / 255 - 0.406) / 0.225]),
        ("caffe", [30 - 104, 20 - 117, 10 - 123]),
        ("tf", [(10 - 127.5) / 127.5, (20 - 127.5) / 127.5, (30 - 127.5) / 127.5]),
    ],
)
def test_presets(preset, expected):
    found = preset_picture((64, 96), preset)
    assert levels_to_inputs(found, COLOUR[:: -1 if found.channels == "BGR" else 1]) == pytest.approx(expected)


def test_the_middle_is_cut_out():
    """Short side already at ``resize``: the crop has the input's size."""
    assert preset_picture((20, 30), "tf", resize=40).placed((40, 60), (20, 30)).window == (10, 15, 20, 30)
    assert preset_picture((224, 224), "tf").placed((256, 300), (224, 224)).window == (16, 38, 224, 224)


def test_a_turned_photo_is_turned_back(tmp_path):
    """EXIF orientation 6: the stored rows are the columns, from the right, of what is to be seen."""
    stored = np.zeros((40, 20, 3), np.uint8)
    stored[:20] = 200  # the stored top half is the right half of the upright photo
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(stored).save(tmp_path / "turned.png", exif=exif)
    upright = images.read(tmp_path / "turned.png")
    assert upright.shape == (20, 40, 3) and (upright[:, :20] == 0).all() and (upright[:, 20:] == 200).all()


def test_a_photo_that_is_too_long_is_an_error(tmp_path):
    Image.new("L", (1, 60_000)).save(tmp_path / "strip.png")
    with pytest.raises(ArgumentError, match="expected sides up to 16384, got 1 x 60000"):
        images.read(tmp_path / "strip.png")


def test_classes_behind_a_background_class(tmp_path):
    (tmp_path / "labels.txt").write_text("n01440764 tench, Tinca tinca\ngoldfish\nshark\n")
    graph = zoo.squeezenet()
    outputs = {"prob": np.zeros((1, 1000), np.float32)}
    outputs["prob"][0, [2, 997, 999, 998]] = 0.4, 0.3, 0.2, 0.1
    named = reader(graph, {"first_class": 997, "top": 2, "labels": str(tmp_path / "labels.txt")}, {})
    found = named(outputs, named.picture.placed((8, 8), (224, 224))).classes
    assert [(best.label, best.name) for best in found] == [(0, "tench, Tinca tinca"), (2, "shark")]
    plain = reader(graph, {"first_class": 1}, {})
    found = plain(outputs, plain.picture.placed((8, 8), (224, 224))).classes
    assert [(best.label, best.name) for best in found][:2] == [(1, "1"), (996, "996")] and len(found) == 5


def test_an_output_that_is_no_number_is_an_error():
    read = reader(zoo.squeezenet(), {}, {})
    with pytest.raises(ArgumentError, match="expected finite numbers, got NaN"):
        read({"prob": np.full((1, 1000), np.nan, np.float32)}, read.picture.placed((8, 8), (224, 224)))


# ---- run ----


def test_run_agrees_with_the_reference(tmp_path):
    (answer,), _ = ran("squeezenet", picture(tmp_path), "--plan", "B", "--preprocess", "tf", "--top", "3")
    graph = zoo.squeezenet()
    x = np.broadcast_to(np.reshape([(v - 127.5) / 127.5 for v in COLOUR], (1, 3, 1, 1)), (1, 3, 224, 224))
    expected = run_graph(graph, {"data": x})["prob"][0]
    assert [best["category_id"] for best in answer["classes"]] == list(np.argsort(-expected)[:3])
    for best in answer["classes"]:
        # acceptance bound of the project for probabilities against another implementation
        assert best["score"] == pytest.approx(expected[best["category_id"]], abs=1e-4)
        assert best["category"] == str(best["category_id"])


def test_run_as_text(tmp_path):
    path = picture(tmp_path)
    result = invoke("run", "squeezenet", tmp_path, "--plan", "B", "--repeat", "3", "--slots", "1", "--plan", "Bx1")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count(str(path)) == 1  # answers of the first pass alone
    assert "bigx1: 3 frames in" in result.stdout and "latency p50" in result.stdout and "MB at most" in result.stdout
    assert "1 to 19" in result.stdout and "probability" in result.stdout
    assert result.stderr == ""  # no progress bar unless stderr is a terminal


def test_the_first_frames_are_not_in_the_figures(tmp_path):
    (_,), figures = ran("squeezenet", picture(tmp_path), "--plan", "B", "--repeat", "9")
    assert figures["frames"] == 9 and figures["warm_up"] == 2 and figures["stats"]["frames"] == 7
    memory = figures["memory"]
    assert memory["weights"] > 4e6 and memory["peak"] == sum(memory.values()) - memory["peak"] and memory["rest"] > 0
    assert figures["with_decoding"]["fps"] == pytest.approx(7 / figures["with_decoding"]["seconds"])
    assert "after 2 of warm-up 7 in" in invoke("run", "squeezenet", tmp_path, "--plan", "B", "--repeat", "9").stdout


def broken_after(count: int, folder: Path) -> list[Path]:
    (folder / "broken.png").write_text("no picture\n")
    return [picture(folder)] * count + [folder / "broken.png", picture(folder)]


def test_a_broken_picture_is_told_and_left_out(tmp_path):
    result = invoke("run", "squeezenet", *broken_after(2, tmp_path), "--plan", "B", "--json")
    answers, figures = lines_of(result)
    assert result.exit_code == 0 and len(answers) == 3 and figures["unread"] == 1 and "error" not in figures
    assert result.stderr.startswith("error: image ") and result.stderr.count("\n") == 1
    assert "broken.png: expected a picture" in result.stderr
    assert "1 could not be read" in invoke("run", "squeezenet", *broken_after(1, tmp_path), "--plan", "B").stdout


def test_what_came_before_a_broken_picture_is_shown(tmp_path):
    result = invoke("run", "squeezenet", *broken_after(3, tmp_path), "--plan", "B", "--json", "--strict")
    answers, figures = lines_of(result)
    assert result.exit_code == 2
    assert [Path(answer["source"]).name for answer in answers] == ["plain.png"] * 3
    assert figures["stats"]["frames"] == 3 and "broken.png: expected a picture" in figures["error"]
    assert result.stderr == f"error: {figures['error']}\n"


def test_what_came_before_a_broken_picture_is_shown_as_text(tmp_path):
    result = invoke("run", "squeezenet", *broken_after(2, tmp_path), "--plan", "B", "--strict")
    assert result.exit_code == 2 and result.stdout.count("plain.png") == 2 and "big: 2 frames in" in result.stdout
    assert "broken.png: expected a picture" in result.stderr and result.stderr.count("\n") == 1


def test_where_no_picture_can_be_read_the_last_error_ends_the_run(tmp_path):
    _, broken, _ = broken_after(1, tmp_path)
    result = invoke("run", "squeezenet", broken, broken, "--plan", "B")
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("broken.png: expected a picture") == 2


def test_what_came_before_a_failed_stage_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:1")
    result = invoke("run", "squeezenet", *[picture(tmp_path)] * 3, "--plan", "B", "--json")
    answers, figures = lines_of(result)
    assert result.exit_code == 2 and len(answers) == 1 and "big" in figures["error"]


def test_fps_with_decoding_counts_the_first_picture_too(tmp_path, monkeypatch):
    seconds = 0.5  # what decoding takes here: far more than this network on this picture

    def slow(path, own=images.read):
        time.sleep(seconds)
        return own(path)

    monkeypatch.setattr(images, "read", slow)
    _, figures = ran("squeezenet", picture(tmp_path), "--plan", "B")
    assert figures["with_decoding"]["seconds"] >= figures["stats"]["seconds"] + seconds
    assert figures["with_decoding"]["fps"] == pytest.approx(1 / figures["with_decoding"]["seconds"])
    assert figures["each_ms"]["read"] >= 1e3 * seconds and figures["stages_fps"] > 1 / seconds


def test_folders_in_folders(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    picture(tmp_path), picture(inner)
    (tmp_path / "notes.txt").touch()
    assert len(sources.find([str(tmp_path)], recursive=False)) == 1
    answers, _ = ran("squeezenet", tmp_path, "--plan", "B", "--recursive")
    assert [Path(answer["source"]).parent for answer in answers] == [inner, tmp_path]


def names_right(answers: list[dict], labels: dict[str, list[int]]) -> int:
    return sum(answer["classes"][0]["category_id"] in labels[Path(answer["source"]).name] for answer in answers)


@two_clusters
def test_run_names_photos_through_a_two_stage_pipeline(data_dir):
    models, photos = data_dir / "models", data_dir / "photos"
    synsets = models / "synset_words.txt"
    answers, figures = ran(models / "squeezenet1.1.onnx", photos, "--plan", "big-little", "--labels", synsets)
    assert figures["plan"].startswith("big-little:") and len(figures["stats"]["stages"]) == 2
    assert figures["frames"] == len(answers) == 13
    assert names_right(answers, json.loads((photos / "labels.json").read_text())) >= 12
    bird = next(answer for answer in answers if answer["source"].endswith("coral_bird.bmp"))
    assert bird["classes"][0]["category"] == "chickadee"


PRESET = {"RGB": {255.0: "imagenet", 1.0: "tf"}, "BGR": {1.0: "caffe"}}


def exact(path, wanted, size) -> np.ndarray:
    """The same as ``wanted`` says it, by Pillow, not rounded to grey levels."""
    pixels = np.asarray(Image.open(path).convert("RGB"), np.float32)[..., :: -1 if wanted.channels == "BGR" else 1]
    top, left, h, w = wanted.placed(pixels.shape[:2], size).window
    box = (left, top, left + w, top + h)
    bands = [Image.fromarray(np.ascontiguousarray(pixels[..., i])) for i in range(3)]
    levels = np.stack([band.resize(size[::-1], Image.Resampling.BILINEAR, box) for band in bands])
    factor, offset = np.array(wanted.affine).reshape(2, 3, 1, 1)
    return (levels * factor + offset).astype(np.float32)[None]


@two_clusters
@pytest.mark.parametrize("model", ["googlenet", "squeezenet1.0", "squeezenet1.1", "resnet50", "mobilenet_v1_0.75_192"])
def test_run_agrees_with_onnxruntime(data_dir, model):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    path = data_dir / "models" / f"{model}.onnx"
    settings = json.loads((data_dir / "models" / "models.json").read_text())[path.name]
    labels = json.loads((data_dir / "photos" / "labels.json").read_text())
    photos = [data_dir / "photos" / name for name in ("glow_zebra_340.png", "skimage_coffee.png", "wonnx_pelican.jpeg")]
    preset = PRESET[settings["order"]][settings["scale"]]
    options = ["--preprocess", preset, "--resize", settings["resize"], "--first-class", settings["first_class"]]
    answers, _ = ran(path, *photos, "--plan", "L-B", *options)
    assert names_right(answers, labels) == len(photos)
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    size = (settings["size"],) * 2
    for photo, answer in zip(photos, answers, strict=True):
        wanted = preset_picture(size, preset, resize=settings["resize"])
        best = answer["classes"][0]
        for x, bound in ((exact(photo, wanted, size), 1e-4), (by_the_letter(photo, settings), 0.15)):
            expected = peer.run(None, {"input": x})[0].reshape(-1)[settings["first_class"] :]
            assert best["category_id"] == int(expected.argmax())
            # the project's acceptance bound; a crop that begins half a pixel beside it, in whole grey levels
            assert best["score"] == pytest.approx(float(expected.max()), abs=bound)


def test_parallel_through_the_command_line(tmp_path):
    plan = Plan.parallel(BOARD.components)
    answers, figures = ran("squeezenet", *[picture(tmp_path)] * 3, "--plan", plan)
    tops = [[best["category_id"] for best in answer["classes"]] for answer in answers]
    assert figures["plan"] == str(plan) and tops[0] == tops[1] == tops[2]
