"""Classifiers with trained weights name what is in photos: the way of a picture through an engine, to its classes."""

import json

import pytest

pytest.importorskip("PIL", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")

from task_images import opened, prepared

from pipeall import Engine, load, tasks
from pipeall.picture import Picture

UNIT = Picture(fit="crop", filter="antialias", keep=0.875, mean=127.5, std=127.5)


@pytest.mark.parametrize(
    ("name", "picture", "background"), [("squeezenet1.1", None, 0), ("mobilenet_v1_0.75_192", UNIT, 1)]
)
def test_photos_have_their_names(name, picture, background, data_dir, board):
    pytest.importorskip("onnx", reason="reading models: pip install 'pipeall[onnx]'")
    graph = load(data_dir / "models" / f"{name}.onnx")
    names = data_dir / "models" / "synset_words.txt"
    task = tasks.task(graph, labels=names, picture=picture)
    words = [line.partition(" ")[2] for line in names.read_text().splitlines()]
    first = 0
    photos = json.loads((data_dir / "photos" / "labels.json").read_text())
    with Engine(graph, "big", board=board) as engine:
        for photo, labels in photos.items():
            x, placed = prepared(opened(data_dir / "photos" / photo), task.picture, task.size, True)
            found = task(engine(x), placed).classes
            assert len(found) == 5 and {c.name for c in found} & {words[label] for label in labels}, photo
            assert all(c.name == words[c.label - background] for c in found if c.label >= background)
            first += found[0].label - background in labels
    assert first >= len(photos) - 3
