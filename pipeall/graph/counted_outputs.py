"""Outputs whose sizes depend on data: whole tensors, cut to the counts that leave beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

Lengths = Mapping[str, tuple[tuple[int, str], ...]]  # as in Graph


def cut(outputs: Iterable[str], lengths: Lengths, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs as they are meant, by name, of all arrays that leave."""
    results = {}
    for name in outputs:
        array = arrays[name]
        for axis, count in lengths.get(name, ()):
            array = array[(slice(None),) * axis + (slice(int(arrays[count][0])),)]
        results[name] = array
    return results
