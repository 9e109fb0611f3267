"""What a long computation has found so far, in a file: one that was interrupted goes on where it stopped.

Each line is a checksum (CRC-32, hexadecimal), a space, and JSON. The first says what the notes are of, every other has
a part: vectors by name, of float64, compressed, in base64. A last line that was cut off is dropped. The file is not
trusted: what a part has to hold is known to who asks for it, and nothing else is taken.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from .. import __version__
from ..errors import ArgumentError
from ..files import open_whole, write_text
from ..graph.ir import Graph
from .photos import Arrays

FORMAT = "pipeall.quantization-notes/1"
MAX_BYTES = 256 << 20  # the values of a thousand tensors have some 20 MB
NUMBER = np.dtype("<f8")


class Notes:
    """
    path  of the file, which is begun where it is absent; None: nothing is noted
    of    a digest of all that the parts follow from
    Raises ArgumentError for a file that is of something else, damaged, or cannot be read or begun.
    """

    def __init__(self, path: str | Path | None = None, of: str = ""):
        self.path = None if path is None else Path(path)
        self._parts: dict[str, Mapping[str, str]] = {}
        self._full = False  # a line was cut off, behind which none can be read
        if self.path is None:
            return
        head = _line({"format": FORMAT, "of": of})
        if not self.path.exists():
            write_text(self.path, head)
            return
        try:
            with open_whole(self.path) as file:
                content = file.read(MAX_BYTES + 1)
            self._parts = self._read(content, head.encode())
            os.truncate(self.path, content.rfind(b"\n") + 1)
        except OSError as error:
            raise ArgumentError(f"{self.path}: cannot be opened: {error.strerror}") from None

    def vectors(
        self, part: str, sizes: Mapping[str, int], compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Vectors of float64, of these sizes: noted ones, or what ``compute`` gives, which is noted.

        Values that are not finite are computed anew each time.
        """
        if part not in self._parts:
            found = dict(compute())
            if self.path is not None and all(np.isfinite(vector).all() for vector in found.values()):
                self._add(part, found)
            return found
        noted = self._parts[part]
        try:
            if not isinstance(noted, dict) or noted.keys() != sizes.keys():
                raise ValueError
            return {name: _unpacked(noted[name], size) for name, size in sizes.items()}
        except (TypeError, ValueError, zlib.error):
            raise self._wrong(f"vectors of {len(sizes)} sizes for {part!r}, got others") from None

    def number(self, part: str, compute: Callable[[], float]) -> float:
        """The same for one number."""
        return float(self.vectors(part, {"": 1}, lambda: {"": np.array([compute()])})[""][0])

    def remove(self) -> None:
        """Removes the file, as ``forget`` does."""
        if self.path is not None:
            forget(self.path)

    def _add(self, part: str, found: Mapping[str, np.ndarray]) -> None:
        """Where no more can be written, a warning says so once: what is computed counts more than its notes."""
        packed = self._parts[part] = {name: _packed(vector) for name, vector in found.items()}
        line = _line({"part": part, "found": packed}).encode()
        try:
            if not self._full and self.path.stat().st_size + len(line) <= MAX_BYTES:
                with self.path.open("ab") as file:
                    file.write(line)
        except OSError as error:
            self._full = True
            message = f"{self.path}: cannot be written: {error.strerror}; what is found from here on is not noted"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _read(self, content: bytes, head: bytes) -> dict[str, Mapping[str, str]]:
        if len(content) > MAX_BYTES or not content.startswith(head):
            raise self._wrong("notes on this network, these photos and options by this version, got something else")
        found = {}
        for number, line in enumerate(content[: content.rfind(b"\n")].split(b"\n"), 1):
            try:
                checksum, _, text = line.partition(b" ")
                if checksum != _checksum(text):
                    raise ValueError
                if number > 1:
                    entry = json.loads(text)
                    found[str(entry["part"])] = entry["found"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise self._wrong(f"a part and its checksum in line {number}, got something else") from None
        return found

    def _wrong(self, expected: str) -> ArgumentError:
        return ArgumentError(f"{self.path}: expected {expected}; remove it (--again) to start over")


def forget(path: Path) -> None:
    """Removes notes, if there are any. Raises ArgumentError where that cannot be."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be removed: {error.strerror}") from None


def digest(graph: Graph, frames: Sequence[Arrays], options: object) -> str:
    """Of a network, photos, options with a repr, and the version of this package."""
    nodes = [(node.name, node.op, node.inputs, node.output, dict(node.attrs)) for node in graph.nodes]
    found = sha256(repr((__version__, options, graph.name, graph.inputs, graph.outputs, nodes)).encode())
    for arrays in (graph.constants, *frames):
        for name, array in arrays.items():
            found.update(repr((name, array.dtype.str, array.shape)).encode())
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _line(entry: Mapping[str, object]) -> str:
    text = json.dumps(entry)
    return f"{_checksum(text.encode()).decode()} {text}\n"


def _checksum(text: bytes) -> bytes:
    return f"{zlib.crc32(text):08x}".encode()


def _packed(vector: np.ndarray) -> str:
    return b64encode(zlib.compress(vector.astype(NUMBER).tobytes(), 1)).decode()


def _unpacked(text: str, size: int) -> np.ndarray:
    """Raises TypeError, ValueError or zlib.error for what is not a vector of this size; no more is unpacked."""
    content = zlib.decompressobj().decompress(b64decode(text, validate=True), size * NUMBER.itemsize + 1)
    if len(content) != size * NUMBER.itemsize:
        raise ValueError
    vector = np.frombuffer(content, NUMBER).astype(np.float64)
    if not np.isfinite(vector).all():
        raise ValueError
    return vector
