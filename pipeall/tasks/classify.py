"""Answers on a whole picture: its class, or a vector that stands for it."""

from __future__ import annotations

import numpy as np

from ..picture import Picture
from .answer import Answer, Class
from .decoder import Outputs, Scene, Signature, decoder

IMAGENET = Picture(
    fit="crop", filter="antialias", keep=0.875, scale=255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)
EMBEDDERS = ("reid", "embed", "arcface", "facenet", "sface", "feature")


def _one_row(signature: Signature) -> int:
    """How many numbers the only output has, a row of them; else 0."""
    (shape, *others) = signature.shapes
    longest = max(shape)
    return longest if not others and np.prod(shape) == longest and len(shape) <= 4 else 0


def _is_classifier(signature: Signature) -> bool:
    said = signature.sources() == {"softmax"} or signature.metadata.get("task") == "classify"
    return said or _one_row(signature) in (1000, 1001)


@decoder(
    "classify",
    "classify",
    "Classifiers: one score or logit for each class",
    IMAGENET,
    lambda s: _one_row(s) > 1,
    likely=_is_classifier,
    classes=_one_row,
    most=5,
)
def classify(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0].reshape(-1).astype(np.float64)
    if y.min() < 0 or abs(y.sum() - 1) > 1e-2:  # logits
        y = np.exp(y - y.max())
        y /= y.sum()
    best = np.argsort(-y, kind="stable")[: scene.most].tolist()
    classes = tuple(Class(float(y[i]), i, scene.name(i)) for i in best if y[i] >= scene.threshold)
    return scene.answer("classify", classes=classes)


@decoder(
    "embed",
    "embed",
    "Networks whose output is a vector that stands for a person, a face or a thing",
    Picture(channels="BGR"),
    lambda s: _one_row(s) > 1,
    likely=lambda s: s.called(*EMBEDDERS),
)
def embed(outputs: Outputs, scene: Scene) -> Answer:
    y = outputs[0].reshape(-1).astype(np.float64)
    return scene.answer("embed", vector=(y / max(np.sqrt(y @ y), 1e-12)).astype(np.float32))
