"""Memory of programs: aligned arrays, large ones in huge pages of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
MAPPED = 2**20  # bytes: arrays with a mapping of their own


def aligned(count: int, dtype: Any = np.float32) -> np.ndarray:
    """A zeroed array of ``count`` elements on a 64-byte border, with 64 bytes to spare behind it."""
    size = count * np.dtype(dtype).itemsize
    nbytes = size + 128
    memory = np.zeros(nbytes, np.uint8) if nbytes < MAPPED else np.frombuffer(mapped(nbytes), np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size].view(dtype)


def mapped(nbytes: int) -> mmap:
    """Zeroed memory of its own, in huge pages where the system has them: a frame reads all weights once, and would
    else look up each 4 KB of them; it takes real memory only where it is written. Raises MemoryError."""
    try:
        memory = mmap(-1, nbytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"expected {nbytes} bytes for weights and activations: {error.strerror}") from None
    with suppress(OSError):  # a kernel built without huge pages
        memory.madvise(MADV_HUGEPAGE)
    return memory


def mapped_page_bytes() -> int:
    """Size of the pages that ``mapped`` gets: huge ones, unless the system has none."""
    try:
        if "[never]" not in (HUGE_PAGES / "enabled").read_text():
            return int((HUGE_PAGES / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        pass
    return PAGESIZE


def packable(array: np.ndarray | None, shape: Sequence[int], name: str) -> np.ndarray:
    """``array`` as contiguous float32 of ``shape``, aligned or not, or an ArgumentError naming it."""
    if array is None or tuple(array.shape) != tuple(shape):
        raise ArgumentError(f"{name}: expected shape {tuple(shape)}, got {None if array is None else array.shape}")
    return np.ascontiguousarray(array, np.float32)
