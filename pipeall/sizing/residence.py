"""Where a network and its data lie, the largest batch that fits there, and how long an epoch takes (paper 004).

A run on the CPU has everything in the CPU's memory. A run on a GPU has the model on disk, in the CPU's memory and in
the GPU's. The CPU's memory then holds one batch of data too, and the GPU's the data, activations and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.lower.lower import storages
from ..graph.memory import live_bytes, padded, plan_arena, slot_layout

SHARE = 0.8  # of a memory, which one program may fill (paper 004): beyond it a machine starts paging
MAX_BATCH = 2**40  # where so many samples fit, a sample takes no memory
TRAINING = 3  # times the MACs of inference: forward, gradients of the activations, gradients of the weights
SAMPLE_TYPES = {"uint8": 1, "float16": 2, "float32": 4, "float64": 8}  # bytes of an element of a sample on disk
PCIE3_LANE, PCIE4_LANE, PCIE5_LANE = 0.985e9, 1.969e9, 3.938e9  # 8, 16, 32 GT/s with 128b/130b
# Bytes a second of named links, after their line code; a device gives less
LINKS = {
    "sd-uhs1": 104e6,
    "emmc5.1": 400e6,
    "sata2": 300e6,
    "sata3": 600e6,  # 6 Gb/s with 8b/10b; drives read at 550e6
    "usb3.0": 500e6,  # 5 Gb/s with 8b/10b
    "nvme3x4": 4 * PCIE3_LANE,
    "nvme4x4": 4 * PCIE4_LANE,
    "pcie3x4": 4 * PCIE3_LANE,
    "pcie3x8": 8 * PCIE3_LANE,
    "pcie3x16": 16 * PCIE3_LANE,
    "pcie4x16": 16 * PCIE4_LANE,
    "pcie5x16": 16 * PCIE5_LANE,
    "ddr3-1600": 12.8e9,  # a channel of 64 bits: what is in memory already
    "ddr4-3200": 25.6e9,
    "ddr5-6400": 51.2e9,
}


@dataclass(frozen=True, slots=True)
class Arena:
    """Bytes of the activations of one frame.

    naive    every storage in memory of its own
    planned  as the runtime lays them out (``memory.plan_arena``)
    least    the most that live at one step: no plan is smaller
    """

    naive: int
    planned: int
    least: int


def arena(graph: Graph) -> Arena:
    """The arena of a graph or sub-graph, lowered as for a device. What lies in ring slots is not part of it."""
    sizes, lifetimes = storages(graph)
    naive = sum(padded(sizes[number]) for number in lifetimes)
    return Arena(naive, plan_arena(sizes, lifetimes)[1], live_bytes(sizes, lifetimes))


def slot_bytes(graph: Graph) -> tuple[int, int]:
    """Bytes of a slot of the ring before a sub-graph, and of one of the ring after it."""
    before = slot_layout(graph.inputs, graph.receives)[1]
    after = slot_layout(graph.leaves, False, slot_layout(graph.leaving, graph.transmits)[1])[1]
    return before, after


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


def link_rate(name: str) -> float:
    """Bytes a second of a named link; ArgumentError for another name."""
    if name not in LINKS:
        raise ArgumentError(f"link: expected one of {', '.join(LINKS)}, got {name!r}")
    return LINKS[name]


def channels(workers: int, disk: int, controller: int) -> int:
    """How many loads run at once, by the lecture's rule. A disk at a SATA port has one channel, whatever its queue."""
    if min(workers, disk, controller) < 1:
        raise ArgumentError(f"channels: expected at least 1 of each, got {workers}, {disk}, {controller}")
    return min(workers, disk, controller)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over a data set, and the seconds that its parts take.

    Attributes
    ----------
    samples : int
        Of the data set.
    sample_bytes : float
        Of a sample on disk.
    macs : int
        Of a sample in inference.
    disk_rate : float
        Bytes a second of one channel; ``parallel`` of them at once (``channels``).
    bus_rate : float or None
        Bytes a second to the GPU. None: computed where the data is loaded to.
    mac_rate : float
        MACs a second that the device reaches, as measured.
    moved_bytes : float or None
        Of a sample as it crosses the bus. None: as it lies on disk.
    prefetch : bool
        Loading, moving and computing overlap: the slowest part counts, not their sum.
    decode_s : float
        Seconds a worker takes for one sample, ``parallel`` at once.
    cached : bool
        Nothing is read.
    training : bool
        Backward passes too, not inference alone.

    Raises
    ------
    ArgumentError
        Where a rate or a number is not positive.
    """

    samples: int
    sample_bytes: float
    macs: int
    disk_rate: float
    bus_rate: float | None
    mac_rate: float
    moved_bytes: float | None = None
    parallel: int = 1
    prefetch: bool = False
    decode_s: float = 0.0
    cached: bool = False
    training: bool = True

    def __post_init__(self) -> None:
        for name in ("samples", "disk_rate", "bus_rate", "mac_rate", "parallel"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ArgumentError(f"epoch: expected {name} above 0, got {value}")

    @property
    def load_s(self) -> float:
        read = 0.0 if self.cached else self.samples * self.sample_bytes / (self.parallel * self.disk_rate)
        return read + self.samples * self.decode_s / self.parallel

    @property
    def transfer_s(self) -> float:
        crossing = self.sample_bytes if self.moved_bytes is None else self.moved_bytes
        return self.samples * crossing / self.bus_rate if self.bus_rate else 0.0

    @property
    def compute_s(self) -> float:
        return self.samples * self.macs * (TRAINING if self.training else 1) / self.mac_rate

    @property
    def total_s(self) -> float:
        parts = self.load_s, self.transfer_s, self.compute_s
        return max(parts) if self.prefetch else sum(parts)

    @property
    def bottleneck(self) -> str:
        parts = {"disk": self.load_s, "bus": self.transfer_s, "compute": self.compute_s}
        return max(parts, key=parts.__getitem__)
