"""The largest batch that fits a memory, from the exact function of the batch: nothing is tried until it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import ArgumentError

SHARE = 0.8  # of a memory, which one program may fill (paper 004): beyond it a machine starts paging
MAX_BATCH = 2**40  # where so many samples fit, a sample takes no memory


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """A batch and what it fills: ``used`` of ``limits``, bytes of each memory.

    binding  the memory that one sample more would overfill
    """

    batch: int
    binding: str
    used: Mapping[str, int]
    limits: Mapping[str, int]


def largest_batch(
    needs: Mapping[str, Callable[[int], float]], sizes: Mapping[str, float], share: float = SHARE
) -> LargestBatch:
    """The largest batch with which every memory stays within ``share`` of its size; 0 where not even one sample fits.

    needs  memory, such as "gpu" -> bytes as a function of the batch, which never falls
    sizes  memory -> bytes it has

    Raises ArgumentError for a share outside of (0, 1], for sizes that are not positive or that name other memories, and
    where a batch of 2^40 still fits.
    """
    if not 0 < share <= 1:
        raise ArgumentError(f"share of the memory: expected above 0 and at most 1, got {share}")
    if needs.keys() != sizes.keys() or not needs:
        raise ArgumentError(f"memories: expected sizes of {', '.join(needs)}, got {', '.join(sizes)}")
    if bad := [name for name, size in sizes.items() if not size > 0]:
        raise ArgumentError(f"memory {bad[0]}: expected a positive size in bytes, got {sizes[bad[0]]}")
    # rounded, because 0.8 has no exact binary form: 0.8 x 8 GB must hold 6.4 GB
    limits = {name: round(share * size) for name, size in sizes.items()}

    def overfilled(batch: int) -> str | None:
        return next((name for name, need in needs.items() if need(batch) > limits[name]), None)

    low, high = 0, 1
    while overfilled(high) is None:
        low, high = high, 2 * high
        if high > MAX_BATCH:
            raise ArgumentError(f"batch: {MAX_BATCH} samples fit: expected a network that needs memory for each")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if overfilled(middle) is None else (low, middle)
    return LargestBatch(low, overfilled(low + 1), {name: int(need(low)) for name, need in needs.items()}, limits)


def needs_of(
    space: Callable[[int], float], model: float, data: float, on_gpu: bool
) -> dict[str, Callable[[int], float]]:
    """Memory -> bytes that it holds at a batch (paper 004). ``space``: batch -> bytes of training.

    Without a GPU everything lies in the CPU's memory. With one, the CPU's memory holds the model and one batch of data,
    and the GPU's memory holds all that training needs.
    """
    if not on_gpu:
        return {"cpu": space}
    return {"cpu": lambda batch: model + batch * data, "gpu": space}
