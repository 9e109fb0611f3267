"""What is drawn: labels within the picture that hide no other, skeletons of key points, letters that a font has."""

from pathlib import Path

import numpy as np
import pytest
from build_trees import REPOSITORY, WITH_TESTS, run

from pipeall.media.draw import COLOURS, drawn
from pipeall.tasks import Answer, Box, Text
from pipeall.tasks.labels import BLAZE_POINTS, COCO_POINTS, FACE_POINTS, HAND_POINTS, POSE_POINTS, limbs

H, W = 400, 600
GREY = np.full((H, W, 3), 90, np.uint8)
# Of COCO's annotations, person_keypoints: from 1.
COCO_SKELETON = [
    (16, 14), (14, 12), (17, 15), (15, 13), (12, 13), (6, 12), (7, 13), (6, 7), (6, 8), (7, 9), (8, 10), (9, 11),
    (2, 3), (1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7),
]  # fmt: skip
# Of MediaPipe's hand landmarks.
HAND_SKELETON = [
    (0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 6), (6, 7), (7, 8), (5, 9), (9, 10), (10, 11), (11, 12), (9, 13),
    (13, 14), (14, 15), (15, 16), (13, 17), (0, 17), (17, 18), (18, 19), (19, 20),
]  # fmt: skip


def painted(image, colour):
    return (image == np.array(colour)).all(2)


def as_set(pairs):
    return {tuple(sorted(pair)) for pair in pairs}


def test_skeletons_are_those_of_the_data_sets():
    assert as_set(limbs(COCO_POINTS)) == as_set((one - 1, other - 1) for one, other in COCO_SKELETON)
    assert as_set(limbs(HAND_POINTS)) == as_set(HAND_SKELETON)
    assert {("left wrist", "left thumb"), ("right heel", "right ankle")} <= {
        (POSE_POINTS[one], POSE_POINTS[other])
        if POSE_POINTS[one][-5:] == "wrist"
        else (POSE_POINTS[other], POSE_POINTS[one])
        for one, other in limbs(POSE_POINTS)
    }
    assert limbs(FACE_POINTS) == limbs(BLAZE_POINTS) == limbs(()) == ()


@pytest.mark.parametrize("names", [COCO_POINTS, HAND_POINTS])
def test_lines_join_the_points_that_are_sure(names):
    """Their middles have the box's colour; of a point that is not sure there is no line."""
    places = np.random.default_rng(1).uniform((40, 40), (W - 40, H - 40), (len(names), 2))

    def seen(score, unsure=None, point_names=names):
        points = tuple((x, y, 0.1 if index == unsure else score) for index, (x, y) in enumerate(places))
        box = Box(20.0, 30.0, W - 20.0, H - 10.0, 0.9, 0, "", points)
        return drawn(GREY, Answer("points", (H, W), boxes=(box,), point_names=point_names))

    lines = painted(seen(0.9), COLOURS[0])
    for pair in limbs(names):
        x, y = map(round, places[list(pair)].mean(0))
        assert lines[y - 1 : y + 2, x - 1 : x + 2].any()
    assert lines.sum() > painted(seen(0.9, unsure=3), COLOURS[0]).sum() > painted(seen(0.9, None, ()), COLOURS[0]).sum()
    assert (seen(0.1) == seen(0.1, None, ())).all()


def labels_of(boxes):
    return drawn(GREY, Answer("detect", (H, W), boxes=tuple(boxes)))


def test_labels_stay_inside_the_picture():
    """At every side, also of boxes that lie beyond it; as much is painted as of the same label in the middle."""

    def area(left, top, right, bottom):
        return painted(labels_of([Box(left, top, right, bottom, 0.5, 1, "traffic light")]), COLOURS[1])

    middle = area(200, 200, 205, 205)
    for corner in ((W - 6, 200), (W - 6, 2), (2, 2), (2, H - 6), (W - 6, H - 6), (W + 20, 100), (-40, H + 30)):
        found = area(*corner, corner[0] + 5, corner[1] + 5)
        assert found.sum() > 0.93 * middle.sum(), corner


def test_labels_do_not_hide_each_other():
    """Six boxes at nearly the same place, in six colours: each label is there as whole as it is alone."""
    boxes = [Box(200.0 + i, 200.0 + 2 * i, 203.0 + i, 203.0 + 2 * i, 0.9 - i / 10, i, "person") for i in range(6)]
    together = labels_of(boxes)
    for box in boxes:
        alone = painted(labels_of([box]), COLOURS[box.label]).sum()
        assert painted(together, COLOURS[box.label]).sum() > 0.9 * alone


def test_a_label_that_is_wider_than_the_picture_is_shortened():
    line = Text("a" * 500, 0.9, ((20.0, 60.0), (80.0, 60.0), (80.0, 80.0), (20.0, 80.0)))
    seen = drawn(GREY, Answer("text", (H, W), texts=(line,)))
    assert painted(seen, COLOURS[0])[:, : W // 2].any() and (seen[:, -2:] == 90).all()


LETTERS = """
import sys
import numpy as np
from pipeall.media.draw import drawn
from pipeall.tasks import Answer, Text
def seen(text):
    line = Text(text, 0.9, ((20.0, 60.0), (80.0, 60.0), (80.0, 80.0), (20.0, 80.0)))
    return drawn(np.zeros((200, 400, 3), np.uint8), Answer("text", (200, 400), texts=(line,)))
one, other = "\\u16a0\\u16a1" if sys.argv[1] == "nowhere" else "\\u0416\\u0429"
print((seen(one * 3) == seen(other * 3)).all(), (seen("A" * 3) == seen("B" * 3)).all())
"""


def test_letters_that_pillows_font_lacks_come_from_one_that_has_them(tmp_path):
    import matplotlib

    fonts = Path(matplotlib.get_data_path(), "fonts/ttf")
    (tmp_path / "fonts/some").mkdir(parents=True)
    (tmp_path / "fonts/some/broken.ttf").write_bytes(b"no font")
    (tmp_path / "fonts/some/DejaVuSans.ttf").write_bytes((fonts / "DejaVuSans.ttf").read_bytes())
    own = WITH_TESTS | {"XDG_DATA_HOME": str(tmp_path), "XDG_DATA_DIRS": str(tmp_path), "HOME": str(tmp_path)}
    assert run(REPOSITORY, "-c", LETTERS, "there", **own).splitlines() == ["False False"]
    *told, found = run(REPOSITORY, "-c", LETTERS, "nowhere", **own).splitlines()  # runes are in no font here
    assert found == "True False" and "UserWarning: no font here has 'ᚠ': it is drawn as boxes" in told[0]
