"""Key points of one thing that fills the picture: a face, a hand, a person (MediaPipe's networks)."""

from __future__ import annotations

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer, Box
from .boxes import sigmoid
from .decoder import Outputs, Scene, Signature, decoder
from .labels import FACE, HAND_POINTS, PERSON, POSE_POINTS

UNIT = Picture(fit="letterbox", scale=255)
FACE_MESH, BODY = 468, 39  # points; those of a body beyond the 33 with names are for tracking


def _sizes(signature: Signature) -> tuple[int, ...]:
    return tuple(tensor.elements for tensor in signature.outputs)


def _one(scene: Scene, points: np.ndarray, score: float, names: tuple[str, ...] = (), label: int = 0) -> Answer:
    """``points``: (points, 2 or 3). The box is what they span of the picture."""
    if not score >= scene.threshold:
        return scene.answer("points", point_names=names)
    (spots,) = boxes.placed_points(scene, points[None].astype(np.float64))
    box = Box(*boxes.extent(scene, spots), score, label, scene.name(label), spots)
    return scene.answer("points", boxes=(box,), point_names=names)


@decoder(
    "face-mesh",
    "points",
    "MediaPipe face landmarks: 468 x 3 numbers in pixels of the input, and the logit that there is a face",
    UNIT,
    lambda s: _sizes(s) == (3 * FACE_MESH, 1),
    classes=lambda s: 1,
    threshold=0.5,
    labels=FACE,
)
def face_mesh(outputs: Outputs, scene: Scene) -> Answer:
    return _one(scene, outputs[0].reshape(-1, 3)[:, :2], float(sigmoid(outputs[1].item())))


@decoder(
    "hand",
    "points",
    "MediaPipe hand landmarks: 21 x 3 numbers in pixels of the input, presence, handedness, points in metres",
    UNIT,
    lambda s: _sizes(s) == (63, 1, 1, 63),
    classes=lambda s: 2,
    threshold=0.5,
    labels=("left hand", "right hand"),
)
def hand(outputs: Outputs, scene: Scene) -> Answer:
    points = outputs[0].reshape(-1, 3)[:, :2]
    return _one(scene, points, outputs[1].item(), HAND_POINTS, int(outputs[2].item() > 0.5))


@decoder(
    "pose",
    "points",
    "MediaPipe pose landmarks: 39 x 5 numbers in pixels of the input, presence, mask, heat maps, points in metres",
    UNIT,
    lambda s: len(s.outputs) == 5 and _sizes(s)[:2] == (5 * BODY, 1),
    classes=lambda s: 1,
    threshold=0.5,
    labels=PERSON,
)
def pose(outputs: Outputs, scene: Scene) -> Answer:
    points = outputs[0].reshape(-1, 5)[: len(POSE_POINTS)].astype(np.float64)
    spots = np.concatenate((points[:, :2], sigmoid(points[:, 3:4])), 1)
    return _one(scene, spots, outputs[1].item(), POSE_POINTS)
