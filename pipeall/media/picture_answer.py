"""An answer with its picture: it draws and saves itself."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import path as as_path
from ..errors import ArgumentError
from ..tasks import Answer

WRITTEN = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, eq=False)
class PictureAnswer(Answer):
    """An ``Answer`` of ``Model`` that has its picture.

    frame  the picture as the source gave it; a frame of a file or a camera says where it comes from: ``frame.source``,
           ``frame.number``, ``frame.time_s``
    """

    frame: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, answer: Answer, frame: Any) -> PictureAnswer:
        """An answer with its picture."""
        return cls(**{one.name: getattr(answer, one.name) for one in fields(answer)}, frame=frame)

    @property
    def picture(self) -> np.ndarray:
        """uint8 (H, W, 3), RGB."""
        return self.frame.rgb if hasattr(self.frame, "rgb") else np.asarray(self.frame)

    def draw(self) -> np.ndarray:
        """A copy of the picture, uint8 (H, W, 3) in RGB, with boxes, names, points, masks and text drawn in.

        Raises MissingExtraError without Pillow.
        """
        from .draw import drawn

        return drawn(self.picture, self)

    def save(self, path: str | Path) -> None:
        """Writes the picture that ``draw`` gives as .jpg or .png.

        Raises ArgumentError for another ending and where the file cannot be written, MissingExtraError without Pillow.
        """
        target = as_path("path", path)
        if target.suffix.lower() not in WRITTEN:
            raise ArgumentError(f"path: expected a name that ends in {', '.join(WRITTEN)}, got {target}")
        from . import images

        images.save(self.draw(), target)
