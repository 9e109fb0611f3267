"""How samples become steps of training, and how pictures are changed on their way: NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import ArgumentError

BATCH = 32


@dataclass(frozen=True)
class TrainingRecipe:
    """Settings of a training, beside the hyperparameters.

    batch      samples of a step
    decay      weight decay (L2) of weights, not of biases and what normalizes
    smoothing  label smoothing: this share of a target is spread over all classes (Szegedy et al. 2016)
    crop       pictures are moved by up to so many pixels in each direction, zeros come in (He et al. 2016)
    flip       half of the pictures are mirrored left to right
    cutout     side of a square of zeros at a random place, in pixels; it may hang over (DeVries and Taylor 2017)
    mixup      alpha: a batch is mixed with itself in another order, by a share from Beta(alpha, alpha), and so is its
               loss (Zhang et al. 2018); 0: not
    until      a training ends after a pass whose mean loss is below
    steady     the learning rate stays what it is, and does not fall along a half cosine
    bfloat16   steps compute convolutions and matrix products in bfloat16, weights stay float32

    Raises ArgumentError for other values than these.
    """

    batch: int = BATCH
    decay: float = 0.0
    smoothing: float = 0.0
    crop: int = 0
    flip: bool = False
    cutout: int = 0
    mixup: float = 0.0
    until: float = 0.0
    steady: bool = False
    bfloat16: bool = False

    def __post_init__(self) -> None:
        numbers = (self.decay, self.crop, self.cutout, self.mixup, self.until)
        if self.batch < 1 or min(numbers) < 0 or not 0 <= self.smoothing < 1:
            raise ArgumentError(
                f"recipe: expected a batch, smoothing from 0 to below 1, others not negative; got {self}"
            )

    @property
    def of_pictures(self) -> bool:
        """Whether it does what only pictures can take."""
        return bool(self.crop or self.flip or self.cutout)

    def changed(self, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """The pictures (samples, channels, height, width) moved, mirrored and cut out; of others a copy."""
        x = x.copy()
        if self.flip:
            mirrored = random.random(len(x)) < 0.5
            x[mirrored] = x[mirrored, :, :, ::-1]
        if self.crop:
            x = _moved(x, random.integers(-self.crop, self.crop + 1, (len(x), 2)))
        if self.cutout:
            height, width = x.shape[2:]
            for row, column, picture in zip(
                random.integers(0, height, len(x)), random.integers(0, width, len(x)), x, strict=True
            ):
                top, left = row - self.cutout // 2, column - self.cutout // 2
                picture[:, max(top, 0) : top + self.cutout, max(left, 0) : left + self.cutout] = 0
        return x

    def mixing(self, samples: int, random: np.random.Generator) -> tuple[float, np.ndarray] | None:
        """The share that samples keep, and of each the place of the sample that it is mixed with; None: no mixing."""
        if not self.mixup:
            return None
        return float(random.beta(self.mixup, self.mixup)), random.permutation(samples)


def _moved(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Each picture moved by (rows, columns); zeros come in."""
    most = int(np.abs(by).max(initial=0))
    padded = np.pad(x, ((0, 0), (0, 0), (most, most), (most, most)))
    height, width = x.shape[2:]
    moved = (
        picture[:, most - row : most - row + height, most - column : most - column + width]
        for picture, (row, column) in zip(padded, by, strict=True)
    )
    return np.stack(list(moved))
