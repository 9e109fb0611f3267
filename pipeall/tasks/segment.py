"""A class for each pixel, or foreground."""

from __future__ import annotations

import numpy as np

from ..picture import Picture
from .answer import Answer
from .boxes import mask
from .classify import IMAGENET
from .decoder import Outputs, Scene, Signature, decoder
from .labels import PERSON, ROAD, VOC

MOST_CLASSES = 256
LINES = 32
TEXT = ("ocr", "dbnet", "text")  # in the names of files whose maps are of text


def channels_first(y: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(channels, rows, columns) of (1, ...) in either layout: that whose proportions are more like the input's."""
    h, w = size
    _, a, b, c = y.shape
    last = abs(a / h - b / w) < abs(b / h - c / w) or (a / h == b / w and c < a)
    return np.moveaxis(y[0], 2, 0) if last else y[0]


def _maps(signature: Signature) -> int:
    """How many maps the only output has, at least an eighth as fine as the input; else 0."""
    shapes = signature.shapes
    integers = "int" in signature.outputs[0].dtype
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][0] != 1 or integers:
        return 0
    channels, rows, columns = channels_first(np.empty(shapes[0], bool), signature.size).shape
    h, w = signature.size
    fine = h <= 8 * rows + 7 <= 9 * h and w <= 8 * columns + 7 <= 9 * w
    return channels if fine and channels <= MOST_CLASSES else 0


def highest(maps: np.ndarray) -> np.ndarray:
    """The number of the highest of (maps, rows, columns), uint8: the first of equal ones."""
    classes = np.zeros(maps.shape[1:], np.uint8)
    for first in range(0, maps.shape[1], LINES):  # so that what is compared stays in the cache
        part, numbers = maps[:, first : first + LINES], classes[first : first + LINES]
        best = part[0].copy()
        for number in range(1, len(maps)):
            higher = (part[number] > best).view(np.uint8)
            np.maximum(numbers, higher * np.uint8(number), out=numbers)
            np.maximum(best, part[number], out=best)
    return classes


def _classes(outputs: Outputs, scene: Scene) -> Answer:
    return scene.answer("segment", mask=mask(scene, highest(channels_first(outputs[0], scene.size)), scene.labels))


decoder(
    "deeplab",
    "segment",
    "DeepLab on the 21 classes of Pascal VOC: logits of each pixel",
    Picture(mean=127.5, std=127.5),
    lambda s: _maps(s) == len(VOC),
    classes=_maps,
    labels=VOC,
)(_classes)
decoder(
    "road",
    "segment",
    "Road segmentation (road-segmentation-adas): background, road, kerb, mark",
    Picture(channels="BGR"),
    lambda s: _maps(s) == len(ROAD),
    likely=lambda s: s.called("road"),
    classes=_maps,
    labels=ROAD,
)(_classes)
decoder(
    "segment",
    "segment",
    "Networks with a map of logits or scores for each class",
    Picture(scale=255, mean=IMAGENET.mean, std=IMAGENET.std),
    lambda s: _maps(s) > 1,
    likely=lambda s: _maps(s) != len(VOC) and not s.called("road"),
    classes=_maps,
)(_classes)


def _is_class_map(signature: Signature) -> bool:
    """Whether the only output is one integer for each pixel, whatever the order of its axes of one."""
    (tensor, *others) = signature.outputs
    h, w = signature.size
    return not others and "int" in tensor.dtype and [n for n in tensor.shape if n > 1] == [n for n in (h, w) if n > 1]


@decoder(
    "class-map",
    "segment",
    "Networks that end in ArgMax: the number of each pixel's class, as integers",
    Picture(scale=255, mean=IMAGENET.mean, std=IMAGENET.std),
    _is_class_map,
)
def class_map(outputs: Outputs, scene: Scene) -> Answer:
    values = np.clip(outputs[0].reshape(scene.size), 0, MOST_CLASSES - 1).astype(np.uint8)
    return scene.answer("segment", mask=mask(scene, values, scene.labels))


@decoder(
    "foreground",
    "segment",
    "Selfie and portrait segmentation: the probability that a pixel is foreground",
    Picture(scale=255),
    lambda s: _maps(s) == 1,
    likely=lambda s: s.channels == 3 and s.sources() == {"sigmoid"} and not s.called(*TEXT),
    threshold=0.5,
    labels=("background", *PERSON),
)
def foreground(outputs: Outputs, scene: Scene) -> Answer:
    values = channels_first(outputs[0], scene.size)[0].astype(np.float32)
    return scene.answer("segment", mask=mask(scene, values, scene.labels))
