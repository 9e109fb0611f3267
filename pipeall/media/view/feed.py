"""The newest picture and its figures: one writer that never waits, readers that take what is newest."""

from __future__ import annotations

import json
import math
import secrets
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Update:
    """What a page gets: ``head`` has the length of its JSON (4 bytes, big-endian) and the JSON, then the JPEG follows.

    ``number`` names it: that of another run, or of another picture, is another one.
    """

    number: str
    ended: bool
    head: bytes
    picture: bytes


class Feed:
    """Holds one update, whatever the number of readers and however slow they are."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._run = secrets.token_hex(4)
        self._count = 0
        self._picture, self._figures = b"", "{}"
        self._newest: Update | None = None
        self._ended = False

    def put(self, picture: bytes, figures: Mapping[str, Any]) -> None:
        """Takes the place of what was there; nothing after ``end``."""
        text = json.dumps(plain(figures), allow_nan=False)
        with self._changed:
            if not self._ended:
                self._picture, self._figures = picture, text
                self._publish()

    def end(self) -> None:
        """The last update: what was newest, and that it stays so."""
        with self._changed:
            if not self._ended:
                self._ended = True
                self._publish()

    def newer(self, seen: str, timeout: float) -> Update | None:
        """The newest update if it is not the one ``seen``; waits for one up to ``timeout`` seconds, else None."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest and self._newest.number != seen, timeout)
            return self._newest if self._newest and self._newest.number != seen else None

    def _publish(self) -> None:
        self._count += 1
        number = f"{self._run}-{self._count}"
        text = f'{{"number": "{number}", "ended": {json.dumps(self._ended)}, "figures": {self._figures}}}'.encode()
        self._newest = Update(number, self._ended, struct.pack(">I", len(text)) + text, self._picture)
        self._changed.notify_all()


def plain(value: Any) -> Any:
    """A value as JSON has it: no NaN or infinity, scalars of NumPy as numbers, anything else as its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return plain(value.item()) if hasattr(value, "item") else str(value)
