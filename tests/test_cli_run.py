"""``pipeall run``: plans, pictures and classes, against the reference and onnxruntime."""

import json
import resource
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from commands import BOARD, COLOUR, document, invoke, picture, two_clusters
from PIL import Image

from pipeall import ArgumentError, Plan, zoo
from pipeall.cli.classes import Classes
from pipeall.cli.images import Preprocess, preprocessing
from pipeall.cli.plans import chosen_plan
from pipeall.graph.ops import macs, run_graph
from pipeall.pipeline.boards.default_plan import default_plan
from pipeall.pipeline.planning.plan import balanced_cuts

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


def plan_text(**options: object) -> str:
    names = ("plan", "order", "cuts", "partition_point", "partition_point2")
    return str(chosen_plan(zoo.squeezenet(), BOARD, **dict.fromkeys(names) | options))


def test_ways_to_say_the_same_plan():
    assert plan_text(plan="G-B-L:3,5") == "gpu-big-little:3,5"
    assert plan_text(order="G-B-L", cuts=(3, 5)) == "gpu-big-little:3,5"
    assert plan_text(order="G-B-L", partition_point=3, partition_point2=5) == "gpu-big-little:3,5"
    assert plan_text(order="big") == "big"


@two_clusters
def test_default_plan_uses_all_clusters():
    plan, _ = default_plan(zoo.squeezenet(), BOARD)
    assert plan.components == tuple(BOARD.components) and str(plan) == plan_text()


# ---- pictures and classes ----


def test_preprocessing_for_one_channel(tmp_path):
    """Brightness by ITU-R BT.601, rounded; the preset's three means and deviations become one."""
    path = picture(tmp_path)
    luma = round(np.dot(COLOUR, (0.299, 0.587, 0.114)))
    plain = preprocessing((1, 1, 8, 8), "plain")(path)
    assert plain.shape == (1, 1, 8, 8) and plain == pytest.approx(luma / 255)
    mean, std = np.mean([0.485, 0.456, 0.406]), np.mean([0.229, 0.224, 0.225])
    assert preprocessing((1, 1, 8, 8), "imagenet")(path) == pytest.approx((luma / 255 - mean) / std)
    with pytest.raises(ArgumentError, match="expected one number each"):
        preprocessing((1, 1, 8, 8), "plain", mean=(1.0, 2.0, 3.0))
    with pytest.raises(ArgumentError, match="--preprocess channels: expected none for a model of one channel"):
        preprocessing((1, 1, 8, 8), "plain", channels="RGB")


def test_preprocessing_of_one_colour(tmp_path):
    """Every pixel is (10, 20, 30), so each plane is one number, whatever resizing does."""
    shape = (1, 3, 64, 96)
    planes = {
        "imagenet": [(10 / 255 - 0.485) / 0.229, (20 / 255 - 0.456) / 0.224, (30 / 255 - 0.406) / 0.225],
        "caffe": [30 - 104, 20 - 117, 10 - 123],
        "tf": [(10 - 127.5) / 127.5, (20 - 127.5) / 127.5, (30 - 127.5) / 127.5],
    }
    for preset, expected in planes.items():
        x = preprocessing(shape, preset)(picture(tmp_path))
        assert x.shape == shape and x.dtype == np.float32 and x.flags.c_contiguous
        # three float32 roundings of values below 255, divided by at least 0.22 after scaling to 1
        np.testing.assert_allclose(x, np.broadcast_to(np.reshape(expected, (1, 3, 1, 1)), shape), rtol=1e-5, atol=1e-5)


def test_the_centre_is_cropped(tmp_path):
    """Short side already at ``resize``: no pixel changes, so the crop is exact."""
    pixels = np.arange(40 * 60, dtype=np.uint8).reshape(40, 60, 1).repeat(3, axis=2)
    Image.fromarray(pixels).save(tmp_path / "ramp.png")
    prepare = preprocessing((1, 3, 20, 30), "tf", resize=40, mean=(0, 0, 0), std=(1, 1, 1))
    np.testing.assert_array_equal(prepare(tmp_path / "ramp.png")[0, 0], pixels[10:30, 15:45, 0])


def test_the_crop_alone_has_the_pixels_of_the_whole_photo_resized(data_dir):
    for path in sorted((data_dir / "photos").glob("*_*.*[gp]")):
        settings = {"size": 224, "resize": 256, "order": "RGB", "scale": 1.0, "mean": [0] * 3, "std": [1] * 3}
        got = preprocessing((1, 3, 224, 224), "tf", resize=256, mean=(0, 0, 0), std=(1, 1, 1))(path)
        # Pillow rounds twice to 8 bits, and takes the crop's place in float32: one grey level
        np.testing.assert_allclose(got, independent(path, settings), rtol=0, atol=1, err_msg=path.name)


def test_a_long_strip_takes_little_memory(tmp_path):
    """Resized whole it would be 256 x 15,360,000 pixels, 11.8 GB: more than the limit set here."""
    strip = np.arange(60_000, dtype=np.uint16).reshape(-1, 1).astype(np.uint8)
    Image.fromarray(strip).save(tmp_path / "strip.png")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, limits[1]))
    try:
        x = preprocessing((1, 3, 224, 224), "tf", mean=(0, 0, 0), std=(1, 1, 1))(tmp_path / "strip.png")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    # the crop is 0.875 pixels in the middle: between the two neighbours there
    assert strip[29_999] - 1 <= x.min() <= x.max() <= strip[30_000] + 1


def test_a_turned_photo_is_turned_back(tmp_path):
    """EXIF orientation 6: the stored rows are the columns, from the right, of what is to be seen."""
    stored = np.zeros((40, 20, 3), np.uint8)
    stored[:20] = 200  # the stored top half is the right half of the upright photo
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(stored).save(tmp_path / "turned.png", exif=exif)
    prepare = preprocessing((1, 3, 20, 40), "tf", resize=20, mean=(0, 0, 0), std=(1, 1, 1))
    upright = prepare(tmp_path / "turned.png")[0, 0]
    assert (upright[:, :20] == 0).all() and (upright[:, 20:] == 200).all()


def test_top_classes_skip_a_background_class(tmp_path):
    (tmp_path / "labels.txt").write_text("n01440764 tench, Tinca tinca\ngoldfish\nshark\n")
    classes = Classes(first=1, labels=None, score="probability")
    assert [best["class"] for best in classes.top(np.array([[0.5, 0.1, 0.3, 0.2]]), 2)] == [1, 2]
    graph = zoo.squeezenet()
    named = Classes.of(graph, str(tmp_path / "labels.txt"), first=997)
    assert named.labels == ("tench, Tinca tinca", "goldfish", "shark") and named.score == "probability"


def test_an_output_that_is_no_number_is_an_error():
    with pytest.raises(ArgumentError, match="expected finite numbers, got NaN"):
        Classes(first=0, labels=None, score="score").top(np.array([1.0, np.nan]), 1)


# ---- run ----


def test_run_agrees_with_the_reference(tmp_path):
    found = document("run", "squeezenet", picture(tmp_path), "--plan", "B", "--preprocess", "tf", "--top", "3")
    graph = zoo.squeezenet()
    x = np.broadcast_to(np.reshape([(v - 127.5) / 127.5 for v in COLOUR], (1, 3, 1, 1)), (1, 3, 224, 224))
    expected = run_graph(graph, {"data": x})["prob"][0]
    assert [best["class"] for best in found["images"][0]["top"]] == list(np.argsort(-expected)[:3])
    for best in found["images"][0]["top"]:
        # acceptance bound of the project for probabilities against another implementation
        assert best["probability"] == pytest.approx(expected[best["class"]], abs=1e-4)
        assert best["label"] is None


def test_run_as_text(tmp_path):
    path = picture(tmp_path)
    result = invoke("run", "squeezenet", tmp_path, "--plan", "B", "--repeat", "3", "--slots", "1", "--threads", "B=1")
    assert result.exit_code == 0, result.stderr
    assert str(path) in result.stdout and "bigx1: 3 frames in" in result.stdout and "latency p50" in result.stdout
    assert "1 to 19" in result.stdout and "probability" in result.stdout
    assert result.stderr == ""  # no progress bar unless stderr is a terminal


def broken_after(count: int, folder: Path) -> list[Path]:
    (folder / "broken.png").write_text("no picture\n")
    return [picture(folder)] * count + [folder / "broken.png", picture(folder)]


def test_what_came_before_a_broken_picture_is_shown(tmp_path):
    result = invoke("run", "squeezenet", *broken_after(3, tmp_path), "--plan", "B", "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert [Path(image["image"]).name for image in found["images"]] == ["plain.png"] * 3
    assert found["stats"]["frames"] == 3 and "broken.png: expected a picture" in found["error"]
    assert result.stderr == f"error: {found['error']}\n"


def test_what_came_before_a_broken_picture_is_shown_as_text(tmp_path):
    result = invoke("run", "squeezenet", *broken_after(2, tmp_path), "--plan", "B")
    assert result.exit_code == 2 and result.stdout.count("plain.png") == 2 and "big: 2 frames in" in result.stdout
    assert "broken.png: expected a picture" in result.stderr and result.stderr.count("\n") == 1


def test_what_came_before_a_failed_stage_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:1")
    result = invoke("run", "squeezenet", *[picture(tmp_path)] * 3, "--plan", "B", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 2 and len(found["images"]) == 1 and "big" in found["error"]


def test_fps_with_decoding_counts_the_first_picture_too(tmp_path, monkeypatch):
    seconds = 0.5  # what decoding takes here: far more than this network on this picture

    def slow(self, path, own=Preprocess.__call__):
        time.sleep(seconds)
        return own(self, path)

    monkeypatch.setattr(Preprocess, "__call__", slow)
    found = document("run", "squeezenet", picture(tmp_path), "--plan", "B")
    assert found["with_decoding"]["seconds"] >= found["stats"]["seconds"] + seconds
    assert found["with_decoding"]["fps"] == pytest.approx(1 / found["with_decoding"]["seconds"])


def names_right(images: list[dict], labels: dict[str, list[int]]) -> int:
    return sum(image["top"][0]["class"] in labels[Path(image["image"]).name] for image in images)


@two_clusters
def test_run_names_photos_through_a_two_stage_pipeline(data_dir):
    models, photos = data_dir / "models", data_dir / "photos"
    synsets = models / "synset_words.txt"
    found = document("run", models / "squeezenet1.1.onnx", photos, "--order", "big-little", "--labels", synsets)
    assert found["plan"].startswith("big-little:") and len(found["stats"]["stages"]) == 2
    assert found["stats"]["frames"] == len(found["images"]) == 13
    assert names_right(found["images"], json.loads((photos / "labels.json").read_text())) >= 12
    bird = next(image for image in found["images"] if image["image"].endswith("coral_bird.bmp"))
    assert bird["top"][0]["label"] == "chickadee"


PRESET = {"RGB": {255.0: "imagenet", 1.0: "tf"}, "BGR": {1.0: "caffe"}}


def independent(path, settings) -> np.ndarray:
    """models.json read by the letter: short side to ``resize``, centre crop, (x / scale - mean) / std, in float64."""
    image = Image.open(path).convert("RGB")
    w, h = image.size
    w, h = (
        (settings["resize"], h * settings["resize"] / w) if w < h else (w * settings["resize"] / h, settings["resize"])
    )
    image = image.resize((round(w), round(h)), Image.Resampling.BILINEAR)
    size = settings["size"]
    left, top = (image.width - size) // 2, (image.height - size) // 2
    x = np.asarray(image.crop((left, top, left + size, top + size)), np.float64)
    x = x[..., ::-1] if settings["order"] == "BGR" else x
    x = (x / settings["scale"] - settings["mean"]) / settings["std"]
    return x.transpose(2, 0, 1)[None].astype(np.float32)


@two_clusters
@pytest.mark.parametrize("model", ["googlenet", "squeezenet1.0", "squeezenet1.1", "resnet50", "mobilenet_v1_0.75_192"])
def test_run_agrees_with_onnxruntime(data_dir, model):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    path = data_dir / "models" / f"{model}.onnx"
    settings = json.loads((data_dir / "models" / "models.json").read_text())[path.name]
    labels = json.loads((data_dir / "photos" / "labels.json").read_text())
    photos = [data_dir / "photos" / name for name in ("glow_zebra_340.png", "skimage_coffee.png", "wonnx_pelican.jpeg")]
    preset = PRESET[settings["order"]][settings["scale"]]
    options = ["--preprocess", f"{preset}:resize={settings['resize']}", "--first-class", settings["first_class"]]
    found = document("run", path, *photos, "--order", "L-B", *options)
    assert names_right(found["images"], labels) == len(photos)
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for photo, image in zip(photos, found["images"], strict=True):
        x = preprocessing((1, 3, settings["size"], settings["size"]), preset, settings["resize"])(photo)
        level = 1 / settings["scale"] / min(settings["std"])  # one grey level, as above; 1e-4 of it for float32
        np.testing.assert_allclose(x, independent(photo, settings), rtol=0, atol=1.0001 * level)
        expected = peer.run(None, {"input": x})[0].reshape(-1)[settings["first_class"] :]
        best = image["top"][0]
        assert best["class"] == int(expected.argmax())
        # acceptance bound of the project for probabilities against another implementation
        assert best["probability"] == pytest.approx(float(expected.max()), abs=1e-4)


def test_parallel_through_the_command_line(tmp_path):
    plan = Plan.parallel(BOARD.components)
    found = document("run", "squeezenet", *[picture(tmp_path)] * 3, "--plan", plan)
    tops = [[best["class"] for best in image["top"]] for image in found["images"]]
    assert found["plan"] == str(plan) and tops[0] == tops[1] == tops[2]
