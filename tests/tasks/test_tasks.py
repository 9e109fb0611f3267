"""Answers of the networks of edge/ on photos: those of an independent decoder, and what one sees in the photos."""

import json
from functools import cache

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
pytest.importorskip("PIL", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")

import edge_networks
import task_decoders as reference
from PIL import Image
from task_images import opened
from task_photos import Seen, only

from pipeall import Engine

PIXELS, SCORE = 0.5, 1e-3
LABELS = {"ssd_mobilenetv2_oidv4_fp16": "edge/oidv4_labelmap.txt"}
FACES = {  # photo: faces that are there
    "jetson_dog_0": 1, "jetson_humans_1": 5, "jetson_humans_6": 4, "keijiro_facelandmark_Test1": 1,
}  # fmt: skip
NO_FACES = ("jetson_airplane_1", "jetson_city_0", "jetson_room_2", "paddleocr_sample")
COCO_THINGS = {
    "jetson_airplane_1": {"airplane": 2},
    "jetson_cat_0": {"cat": 1, "bottle": 1},
    "jetson_city_0": {"car": 3},
    "jetson_dog_0": {"dog": 1, "person": 1},
    "jetson_humans_1": {"person": 4},
    "jetson_humans_4": {"person": 5},
    "jetson_humans_6": {"person": 4},
    "jetson_peds_2": {"person": 2, "motorcycle": 2},
    "jetson_room_2": {"chair": 2},
    "keijiro_facelandmark_Test1": {"person": 1},
}
THINGS = {
    "yolox_nano_416": COCO_THINGS | {"jetson_humans_4": {"person": 5, "sports ball": 1}},
    "nanodet_m_320": COCO_THINGS,
    "fastestdet_352": COCO_THINGS | {"jetson_humans_1": {"person": 5}},
    "ssd_mobilenetv2_oidv4_fp16": {
        "jetson_cat_0": {"Cat": 1, "Bottle": 1}, "jetson_dog_0": {"Dog": 1, "Person": 1}, "jetson_city_0": {"Car": 4},
        "jetson_humans_4": {"Person": 5}, "jetson_room_2": {"Chair": 1, "Table": 1},
    },
    "face_detection_short_range": {"jetson_dog_0": {"face": 1}, "keijiro_facelandmark_Test1": {"face": 1}},
    **{
        name: {photo: {"face": count} for photo, count in FACES.items()}
        for name in ("ultraface_version-RFB-320_simplified", "yunet_n_dynamic", "centerface", "retinaface_mbnet025")
    },
    "face_landmark": {"keijiro_facelandmark_Test1": {"face": 1}},
    "hand_landmark_lite": {"pexels-daria_hand_crop": {"left hand": 1}},
    "pose_landmark_full": {"jetson_dog_0": {"person": 1}},
    "bodypix_mnv1_x050_s16": {"jetson_humans_1": {"person": 5}, "jetson_humans_6": {"person": 4}},
}  # fmt: skip
MASKS = {  # photo: x, y and the class there
    "deeplab_v3_mnv2_257": {
        "jetson_cat_0": [(300, 150, "cat"), (20, 20, "background")],
        "jetson_dog_0": [(330, 250, "dog"), (110, 200, "person"), (450, 60, "background")],
    },
    "road_segmentation_adas_0001": {"jetson_city_0": [(650, 400, "road"), (500, 40, "background")]},
    "selfie_segmentation": {"keijiro_facelandmark_Test1": [(500, 500, "person"), (950, 60, "background")]},
    "prisma_portrait_seg_nchw": {"keijiro_facelandmark_Test1": [(500, 500, "person"), (950, 60, "background")]},
}


@pytest.fixture(scope="module")
def seen(data_dir):
    """Networks with their tasks, each loaded once."""
    networks = {network.name: network for network in edge_networks.networks(data_dir / "edge")}

    @cache
    def load(name):
        labels = {"labels": data_dir / LABELS[name]} if name in LABELS else {}
        return Seen(networks[name], **labels)

    return load


@pytest.fixture(scope="module")
def photo(data_dir):
    files = {path.stem: path for path in edge_networks.photos(data_dir / "scenes")}
    return cache(lambda name: opened(files[name]))


def expected_things(name, outputs, net, photo):
    decode, least, iou = reference.THINGS[name]
    things = reference.suppressed(list(decode(outputs, net.task.size)), least, iou)
    how, size = net.task.picture, (photo.height, photo.width)
    return reference.placed(things, size, reference.in_photo(how.fit, size, net.task.size, how.centered))


def check(answer, things, label):
    """Each thing has a box of its own: the same class, edges and points within half a pixel, scores within 1e-3."""
    assert len(answer.boxes) == len(things), label
    left = list(answer.boxes)
    for *edges, score, label_number, points in things:

        def off(box, edges=edges, number=label_number):
            own = (box.left, box.top, box.right, box.bottom)
            return max(abs(a - b) for a, b in zip(own, edges, strict=True)) + 1e9 * (box.label != number)

        box = min(left, key=off)
        left.remove(box)
        assert off(box) <= PIXELS and abs(box.score - score) <= SCORE, f"{label}: {box} for {edges} {score}"
        if points or box.points:
            assert np.abs(np.array(box.points) - points).max(0) == pytest.approx(0, abs=PIXELS), label
            assert np.abs(np.array(box.points)[:, 2] - np.array(points)[:, 2]).max() <= SCORE, label


@pytest.mark.parametrize("name", reference.THINGS)
def test_things_are_those_of_an_independent_decoder(name, seen, photo, data_dir):
    """On every photo; and those that one sees are found."""
    net, found = seen(name), {}
    for path in edge_networks.photos(data_dir / "scenes"):
        picture = photo(path.stem)
        outputs, placed = net.outputs(picture)
        answer = net.task(outputs, placed)
        check(answer, expected_things(name, outputs, net, picture), f"{name}, {path.stem}")
        found[path.stem] = [box.name for box in answer.boxes]
        assert answer.size == (picture.height, picture.width)
        assert json.loads(answer.to_json())["task"] == net.task.decoder.task
    for where, things in THINGS[name].items():
        for thing, count in things.items():
            assert found[where].count(thing) >= count, f"{name}, {where}: {found[where]}"
    if net.task.labels == ("face",):
        assert all(not found[where] for where in NO_FACES), name


@pytest.mark.parametrize(("name", "size"), [("yunet_n_dynamic", [224, 416]), ("retinaface_mbnet025", [320, 480])])
def test_inputs_need_not_be_square(name, size, photo, data_dir):
    network = next(network for network in edge_networks.networks(data_dir / "edge") if network.name == name)
    network.about["size"] = size
    net, picture = Seen(network), photo("jetson_humans_6")
    outputs, placed = net.outputs(picture)
    things = expected_things(name, outputs, net, picture)
    check(net.task(outputs, placed), things, name)
    assert len(things) == 4


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_the_outputs_at_the_size_of_the_photo(name, seen, photo):
    net = seen(name)
    for where, spots in MASKS[name].items():
        picture = photo(where)
        outputs, placed = net.outputs(picture)
        mask = net.task(outputs, placed).mask
        values = only(net.graph, outputs).reshape(*net.task.size, -1)  # one channel may be in front
        if values.shape[2] == 1:
            enlarged = Image.fromarray(values[..., 0]).resize(picture.size, Image.Resampling.BILINEAR)
            assert np.abs(mask.alpha - np.asarray(enlarged)).max() < 1e-5
            assert np.array_equal(mask.pixels, mask.alpha >= 0.5)
        else:
            (h, w), (rows, columns) = (picture.height, picture.width), net.task.size
            y, x = ((2 * np.arange(n) + 1) * cells // (2 * n) for n, cells in ((h, rows), (w, columns)))
            assert np.array_equal(mask.pixels, values.argmax(2)[y[:, None], x])
        for x, y, thing in spots:
            assert mask.names[mask.pixels[y, x]] == thing, f"{name}, {where}, {x} {y}"


def test_points_lie_on_what_they_are_of(seen, photo):
    """The nose in the face that another network finds; fingers where one sees them."""
    (box,) = seen("pose_landmark_full")(photo("jetson_dog_0")).boxes
    (face,) = seen("yunet_n_dynamic")(photo("jetson_dog_0")).boxes
    assert face.left < box.points[0][0] < face.right and face.top < box.points[0][1] < face.bottom
    people = seen("bodypix_mnv1_x050_s16")(photo("jetson_humans_1"))
    faces = seen("retinaface_mbnet025")(photo("jetson_humans_1")).boxes
    for face in faces:
        noses = [person.points[people.point_names.index("nose")] for person in people.boxes]
        assert sum(face.left < x < face.right and face.top < y < face.bottom for x, y, _ in noses) == 1
    hand = seen("hand_landmark_lite")(photo("pexels-daria_hand_crop"))
    for name, at in {"middle tip": (134, 41), "thumb tip": (168, 128), "pinky tip": (80, 60)}.items():
        x, y, _ = hand.boxes[0].points[hand.point_names.index(name)]
        assert abs(x - at[0]) < 12 and abs(y - at[1]) < 12, (name, x, y)
    (face,) = seen("face_landmark")(photo("keijiro_facelandmark_Test1")).boxes
    x, y, _ = face.points[1]  # the tip of the nose
    assert abs(x - 500) < 60 and abs(y - 560) < 60


@pytest.mark.parametrize("name", ["yolox_nano_416", "yunet_n_dynamic", "hand_landmark_lite"])
def test_outputs_of_an_engine_give_the_same_answers(name, seen, photo, board):
    net = seen(name)
    with Engine(net.graph, "big", board=board) as engine:
        for where in THINGS[name]:
            x, placed = net.input(photo(where))
            outputs = net.outputs(photo(where))[0]
            check(net.task(engine(x), placed), expected_things(name, outputs, net, photo(where)), where)


def test_classes(seen, photo, data_dir):
    net = seen("mlperf_tiny_vww_float")
    outputs, placed = net.outputs(photo("jetson_humans_6"))
    classes = net.task(outputs, placed).classes
    probabilities = only(net.graph, outputs)[0]
    assert [(c.label, c.name) for c in classes] == [(1, "1"), (0, "0")] and not net.task.labels
    assert [c.score for c in classes] == pytest.approx(sorted(probabilities.tolist(), reverse=True), abs=1e-6)


def test_vectors_of_one_person_are_alike(seen, photo):
    """Two crops of a person that differ by some pixels, and another person."""
    net, people = seen("person_reid_retail_0248"), photo("jetson_humans_1")
    one, again, other = (
        net(people.crop(box)).vector for box in ((91, 19, 206, 363), (96, 24, 200, 358), (337, 44, 401, 372))
    )
    assert np.linalg.norm(one) == pytest.approx(1) and one @ again > 0.8 > one @ other


@pytest.mark.parametrize("name", ["superres_x3_d2s", "nanotrackv2_backbone", "nanotrackv2_head"])
def test_networks_of_other_tasks_are_refused(name, data_dir):
    from pipeall import ModelError, tasks

    network = next(n for n in edge_networks.networks(data_dir / "edge") if n.name == name)
    with pytest.raises(ModelError, match="no decoder reads its outputs|is not clear|expected one input"):
        tasks.recognized(network.load())
