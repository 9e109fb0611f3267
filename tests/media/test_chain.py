"""A detector and a recognizer as a chain: against both by hand, with a slow recognizer, and with faults."""

import threading
from math import ceil, floor

import numpy as np
import pytest
from chain_nets import classifier, detector, photos

from pipeall import Crops, Engine, Merged, Pipeline, PipelineError, load, tasks

AT_MOST, MARGIN = 3, 0.2


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """Of each network the graph and its task."""
    folder = tmp_path_factory.mktemp("chain")
    det, rec = load(detector(folder)), load(classifier(folder))
    return (det, tasks.task(det)), (rec, tasks.task(rec, task="classify"))


@pytest.fixture
def pipes(nets, board):
    """The detector on one cluster, the recognizer on the other."""
    (det, see), (rec, name) = nets
    with Pipeline(det, "B", board, input=see.picture) as first, Pipeline(rec, "L", board, input=name.picture) as second:
        yield first, second


def by_hand(nets, board, pictures):
    """What the recognizer says of the first boxes of each picture, cut out here."""
    (det, see), (rec, name) = nets
    told = {}
    with (
        Engine(det, "big", board, 1, input=see.picture) as first,
        Engine(rec, "big", board, 1, input=name.picture) as second,
    ):
        for number, picture in enumerate(pictures):
            height, width = picture.shape[:2]
            answer = see(first(picture), see.picture.placed((height, width), see.size))
            for place, box in enumerate(answer.boxes[:AT_MOST]):
                left, right = max(box.left, 0), min(box.right, width)
                top, bottom = max(box.top, 0), min(box.bottom, height)
                more_x, more_y = MARGIN * (right - left), MARGIN * (bottom - top)
                rows = slice(max(floor(top - more_y), 0), ceil(bottom + more_y))
                columns = slice(max(floor(left - more_x), 0), ceil(right + more_x))
                part = picture[rows, columns].copy()
                said = name(second(part), name.picture.placed(part.shape[:2], name.size))
                told[number, place] = [(one.name, one.score) for one in said.classes]
    return told


def test_a_chain_says_what_both_networks_say_by_hand(nets, pipes, board):
    pictures, told, seen_by = photos(12), {}, {"det": [], "rec": []}
    crops = Crops(margin=MARGIN, at_most=AT_MOST, drop="none")
    detected = crops.of(pipes[0].stream(pictures, "none", nets[0][1]))
    recognized = pipes[1].stream(crops, "none", nets[1][1])
    for name, seen in Merged({"det": detected, "rec": recognized}):
        seen_by[name].append(seen.number)
        if name == "rec":
            crop = seen.frame
            assert np.array_equal(crop.origin.frame, pictures[crop.origin.number])
            told[crop.origin.number, crop.number] = [(one.name, one.score) for one in seen.result.classes]
    expected = by_hand(nets, board, pictures)
    assert list(told) == list(expected) and len(expected) == crops.cut == 12 * AT_MOST and crops.dropped == 0
    for key, classes in expected.items():
        for (got, score), (name, exact) in zip(told[key], classes, strict=True):
            assert got == name and score == pytest.approx(exact, rel=1e-4), key  # kernels of another number of threads
    assert seen_by == {"det": list(range(12)), "rec": list(range(12 * AT_MOST))}


def test_a_slow_recognizer_gets_whole_pictures_and_the_rest_is_counted(nets, pipes):
    """The detector is not held up: while the recognizer stands still, all its answers come."""
    go, detected_all, told = threading.Event(), [], []

    def slow(outputs, placed):
        go.wait(20)
        return nets[1][1](outputs, placed)

    crops = Crops(at_most=AT_MOST)
    detected = crops.of(pipes[0].stream(photos(20), "none", nets[0][1]))
    for name, seen in Merged({"det": detected, "rec": pipes[1].stream(crops, "none", slow)}):
        if name == "det":
            detected_all.append(seen.number)
            if seen.number == 19:
                go.set()
        else:
            told.append((seen.frame.origin.number, seen.frame.number))
    assert detected_all == list(range(20)) and crops.cut == 20 * AT_MOST
    pictures = [number for number, _ in told[::AT_MOST]]
    assert told == [(picture, part) for picture in pictures for part in range(AT_MOST)]
    assert pictures == sorted(set(pictures)) and pictures[-1] == 19 and len(pictures) < 10
    assert crops.dropped == (20 - len(pictures)) * AT_MOST


def test_a_fault_of_the_recognizer_names_it_after_what_the_detector_said(nets, pipes, board, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:4")
    broken = Pipeline(nets[1][0], "L", board, input=nets[1][1].picture)
    monkeypatch.delenv("PIPEALL_FAULT")
    crops, got = Crops(at_most=AT_MOST, drop="none"), {"det": 0, "rec": 0}
    detected = crops.of(pipes[0].stream(photos(50), "none", nets[0][1]))
    with broken, pytest.raises(PipelineError, match="^rec: .*frame 4"):
        for name, _ in Merged({"det": detected, "rec": broken.stream(crops, "none", nets[1][1])}):
            got[name] += 1
    assert got["rec"] == 4 and 2 <= got["det"] < 50
    assert pipes[0].pending == 0  # the detector has ended in order, and goes on with other frames
    assert len(list(pipes[0].stream(photos(2), "none", nets[0][1]))) == 2
