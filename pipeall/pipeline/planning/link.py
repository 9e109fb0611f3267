"""What handing a tensor on costs, by its size."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ...files import JsonReader
from .units import Unit

HOST = "host"  # in links: whoever submits frames and takes results


@dataclass(frozen=True, slots=True)
class Link:
    """What handing a tensor on costs beyond computing, at some sizes (increasing), straight lines between and beyond.

    send_ms is time of the sending stage, receive_ms of the receiving one; map_ms is the part of both that is mapping,
    the rest is copying and fetching from the other's cache.
    """

    bytes: tuple[int, ...]
    send_ms: tuple[float, ...]
    receive_ms: tuple[float, ...]
    map_ms: tuple[float, ...]

    def at(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(send_ms, receive_ms) for tensors of ``sizes`` bytes."""
        return _line(sizes, self.bytes, self.send_ms), _line(sizes, self.bytes, self.receive_ms)


def link_to_dict(ends: tuple[str, str], link: Link) -> dict[str, Any]:
    return {
        "from": ends[0],
        "to": ends[1],
        "bytes": list(link.bytes),
        "send_ms": rounded(link.send_ms),
        "receive_ms": rounded(link.receive_ms),
        "map_ms": rounded(link.map_ms),
    }


def link_from(row: JsonReader) -> tuple[tuple[str, str], Link]:
    """The ends and the link of one row of a file."""
    sizes = row.sizes("bytes")
    if not sizes or any(second <= first for first, second in zip(sizes, sizes[1:], strict=False)):
        raise row.fail("bytes", "increasing sizes")
    ends = tuple(word if word == HOST else Unit.parse(word).whole for word in (row.word("from"), row.word("to")))
    if ends[0] == ends[1]:
        raise row.fail("to", f"another end than {ends[0]!r}")
    times = [tuple(row.numbers(key, len(sizes))) for key in ("send_ms", "receive_ms", "map_ms")]
    return (ends[0], ends[1]), Link(sizes, *times)


def rounded(values: tuple[float, ...]) -> list[float]:
    """Nanoseconds are beyond any clock's truth, and noise in a diff."""
    return [round(value, 6) if isfinite(value) else value for value in values]


def _line(x: np.ndarray, xs: tuple[int, ...], ys: tuple[float, ...]) -> np.ndarray:
    """Straight lines through the points, the last one extended; constant before the first point; never negative."""
    values = np.interp(x, xs, ys)
    if len(xs) > 1:
        slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
        values = np.where(x > xs[-1], ys[-1] + slope * (x - xs[-1]), values)
    return np.maximum(values, 0.0)
