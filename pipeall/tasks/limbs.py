"""Which key points are joined by lines: skeletons, by the names of points."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

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
