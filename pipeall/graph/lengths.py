"""Outputs whose sizes depend on data: whole tensors, cut to the counts that leave beside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def cut(lengths: Mapping[str, tuple[tuple[int, str], ...]], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs as they are meant, by name, of all that leaves; ``lengths`` as in Graph."""
    if not lengths:
        return dict(arrays)
    counts = {name for axes in lengths.values() for _, name in axes}
    found = {}
    for name, array in arrays.items():
        if name not in counts:
            for axis, count in lengths.get(name, ()):
                array = array[(slice(None),) * axis + (slice(int(arrays[count][0])),)]
            found[name] = array
    return found
