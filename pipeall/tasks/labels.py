"""Names of classes and of key points, of well-known data sets or given; and which points are joined by lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from os import PathLike
from pathlib import Path

from ..arguments import path as as_path
from ..arguments import refused, several, text
from ..errors import ArgumentError
from ..files import open_whole

COCO = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
_UNUSED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}  # numbers of COCO's files of which no box exists
COCO_IDS = dict(enumerate(number for number in range(1, 91) if number not in _UNUSED))

VOC = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
ROAD = ("background", "road", "kerb", "mark")
FACE = ("face",)
PERSON = ("person",)

COCO_POINTS = (
    "nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow",
    "right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle",
    "right ankle",
)  # fmt: skip
POSE_POINTS = (
    "nose", "left eye (inner)", "left eye", "left eye (outer)", "right eye (inner)", "right eye", "right eye (outer)",
    "left ear", "right ear", "mouth (left)", "mouth (right)", "left shoulder", "right shoulder", "left elbow",
    "right elbow", "left wrist", "right wrist", "left pinky", "right pinky", "left index", "right index", "left thumb",
    "right thumb", "left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle", "left heel",
    "right heel", "left foot index", "right foot index",
)  # fmt: skip
HAND_POINTS = (
    "wrist", *(f"{finger} {joint}" for finger, joints in (
        ("thumb", ("cmc", "mcp", "ip", "tip")),
        *((name, ("mcp", "pip", "dip", "tip")) for name in ("index", "middle", "ring", "pinky")),
    ) for joint in joints),
)  # fmt: skip
FACE_POINTS = ("right eye", "left eye", "nose", "right mouth corner", "left mouth corner")
BLAZE_POINTS = ("right eye", "left eye", "nose", "mouth", "right ear", "left ear")

NAMES = "a file, a list or a dict of names"
MAX_BYTES = 2**22  # of a file of names


def read(path: str | Path) -> tuple[str, ...]:
    """The names in a file, one a line; the numbers of ImageNet's ``synset_words.txt`` are left out.

    Raises ArgumentError.
    """
    path = as_path("labels", path)
    try:
        with open_whole(path) as file:
            content = file.read(MAX_BYTES + 1)
        lines = content.decode().removesuffix("\n").split("\n")
    except OSError as error:
        raise ArgumentError(f"labels: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"labels: {path} is no text in UTF-8") from None
    if len(content) > MAX_BYTES:
        raise ArgumentError(f"labels: {path} has more than {MAX_BYTES} bytes")
    return tuple(re.sub(r"^n\d{8} ", "", line.removesuffix("\r")) for line in lines)


def given(labels: str | Path | Sequence[str] | Mapping[int, str]) -> tuple[str, ...]:
    """Names from a file, a list or a mapping by number. Raises ArgumentError."""
    if isinstance(labels, (str, PathLike)):
        return read(labels)
    if isinstance(labels, Mapping):
        if set(labels) != set(range(len(labels))):
            raise ArgumentError(f"labels: expected names for 0 to {len(labels) - 1}, got {list(labels)!r:.100}")
        labels = [labels[number] for number in range(len(labels))]
    names = several(text, NAMES)("labels", labels)
    if not names:
        raise refused("labels", NAMES, labels)
    return names


def from_metadata(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names that a file says of itself, as Ultralytics writes them: "{0: 'person', 1: 'bicycle'}"; or none."""
    try:
        names = ast.literal_eval(metadata.get("names", ""))
        names = names if isinstance(names, Mapping) else dict(enumerate(names))
        return given({int(number): str(name) for number, name in names.items()})
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):  # ArgumentError is a ValueError
        return ()


BODY = (  # as in COCO's files
    ("left ankle", "left knee"), ("left knee", "left hip"), ("right ankle", "right knee"), ("right knee", "right hip"),
    ("left hip", "right hip"), ("left shoulder", "left hip"), ("right shoulder", "right hip"),
    ("left shoulder", "right shoulder"), ("left shoulder", "left elbow"), ("right shoulder", "right elbow"),
    ("left elbow", "left wrist"), ("right elbow", "right wrist"), ("left eye", "right eye"), ("nose", "left eye"),
    ("nose", "right eye"), ("left eye", "left ear"), ("right eye", "right ear"), ("left ear", "left shoulder"),
    ("right ear", "right shoulder"),
)  # fmt: skip
ENDS = tuple(  # what MediaPipe's pose has beyond these
    (f"{side} {first}", f"{side} {second}")
    for side in ("left", "right")
    for first, second in (
        ("wrist", "thumb"), ("wrist", "index"), ("wrist", "pinky"), ("index", "pinky"), ("ankle", "heel"),
        ("ankle", "foot index"), ("heel", "foot index"),
    )
)  # fmt: skip
FINGERS = ("index", "middle", "ring", "pinky")
HAND = (
    *pairwise(("wrist", *(f"thumb {joint}" for joint in ("cmc", "mcp", "ip", "tip")))),
    *(pair for name in FINGERS for pair in pairwise(f"{name} {joint}" for joint in ("mcp", "pip", "dip", "tip"))),
    *pairwise(f"{name} mcp" for name in FINGERS),
    ("wrist", "index mcp"),
    ("wrist", "pinky mcp"),
)


@cache
def limbs(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of indices of the points of these names; none for faces and for points without names."""
    if "nose" in names and "left hip" not in names:  # of a face
        return ()
    place = {name: index for index, name in enumerate(names)}
    pairs = (*BODY, *ENDS, *HAND)
    return tuple((place[one], place[other]) for one, other in pairs if one in place and other in place)
