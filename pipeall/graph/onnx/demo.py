"""Trained networks to try: PP-OCR's finder and reader of text, in the wheel of rapidocr, the extra ``demo``.

The wheel is looked up, not imported: it would load OpenCV. Networks and wheel: Apache-2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...errors import MissingExtraError, missing_extra
from ..ir import Graph
from .read.inputs import Shapes
from .read.read import load

PACKAGE = "rapidocr"


@dataclass(frozen=True, slots=True)
class Trained:
    """A file of the package, and the input it gets where none is named: (1, 3, height, width)."""

    file: str
    shape: tuple[int, int, int, int]

    def path(self) -> Path:
        """Raises MissingExtraError where the package is absent, or of a version with other networks."""
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise missing_extra(PACKAGE, "demo", f"the trained network {Path(self.file).stem}")
        path = Path(spec.submodule_search_locations[0], self.file)
        if not path.is_file():
            raise MissingExtraError(
                f"{path}: not in this version of the package {PACKAGE!r}: pip install 'pipeall[demo]' has the right one"
            )
        return path


TRAINED = {
    "text-finder": Trained("models/PP-OCRv6_det_small.onnx", (1, 3, 448, 640)),
    "text-reader": Trained("models/PP-OCRv6_rec_small.onnx", (1, 3, 48, 640)),
}


def text_finder(input_shape: Shapes | None = None) -> Graph:
    """PP-OCRv6 small, trained: where lines of text are, (1, 3, 448, 640) or other multiples of 32.

    Its task is "text" by "dbnet". Raises MissingExtraError without the extra ``demo``.
    """
    return _trained("text-finder", input_shape)


def text_reader(input_shape: Shapes | None = None) -> Graph:
    """PP-OCRv6 small, trained: what a line of text says, (1, 3, 48, 640) or of another width.

    Latin, Chinese, Japanese letters and more, 18,708 in all. Its task is "text" by "ctc". Raises MissingExtraError
    without the extra ``demo``.
    """
    return _trained("text-reader", input_shape)


def _trained(name: str, input_shape: Shapes | None) -> Graph:
    trained = TRAINED[name]
    return load(trained.path(), trained.shape if input_shape is None else input_shape)
