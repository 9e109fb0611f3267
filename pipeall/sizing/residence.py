"""Where a network and its data lie, and how long an epoch takes to load, to move and to compute (paper 004).

A run on the CPU has everything in the CPU's memory. A run on a GPU has the model on disk, in the CPU's memory and in
the GPU's. The CPU's memory then holds one batch of data too, and the GPU's the data, activations and gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ArgumentError

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
}


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
class Residence:
    """Bytes on disk, in the CPU's memory and in the GPU's (0 without one)."""

    disk: int
    cpu: int
    gpu: int


def residence(model: int, data: int, working: int, batch: int, on_gpu: bool) -> Residence:
    """Where the bytes lie: ``model``, ``data`` of each sample, ``working`` of all training or inference at ``batch``.

    The data set on disk is not counted.
    """
    return Residence(model, model + batch * data, working) if on_gpu else Residence(model, working, 0)


@dataclass(frozen=True, slots=True)
class EpochTime:
    """Seconds of one pass over the samples. ``total_s`` is the sum of the parts; with ``prefetch`` the slowest part."""

    load_s: float
    transfer_s: float
    compute_s: float
    prefetch: bool

    @property
    def total_s(self) -> float:
        parts = self.load_s, self.transfer_s, self.compute_s
        return max(parts) if self.prefetch else sum(parts)

    @property
    def bottleneck(self) -> str:
        parts = {"disk": self.load_s, "bus": self.transfer_s, "compute": self.compute_s}
        return max(parts, key=parts.__getitem__)


def epoch(
    samples: int,
    sample_bytes: float,
    macs: int,
    *,
    moved_bytes: float | None = None,
    disk_rate: float,
    bus_rate: float | None,
    mac_rate: float,
    parallel: int = 1,
    prefetch: bool = False,
    decode_s: float = 0.0,
    cached: bool = False,
    training: bool = True,
) -> EpochTime:
    """An epoch of ``samples`` of ``sample_bytes`` each on disk through a network of ``macs`` each.

    moved_bytes  of a sample as it crosses the bus; None: as it lies on disk
    disk_rate    bytes a second of one channel; ``parallel`` of them at once (``channels``); ``cached``: nothing is read
    bus_rate     bytes a second to the GPU; None: computed where the data is loaded to
    mac_rate     MACs a second that the device reaches, as measured
    decode_s     seconds a worker takes for one sample, ``parallel`` at once

    Raises ArgumentError where a rate or a number is not positive.
    """
    for name, value in (("samples", samples), ("disk_rate", disk_rate), ("mac_rate", mac_rate), ("parallel", parallel)):
        if not value > 0:
            raise ArgumentError(f"epoch: expected {name} above 0, got {value}")
    if bus_rate is not None and not bus_rate > 0:
        raise ArgumentError(f"epoch: expected bus_rate above 0, got {bus_rate}")
    read = 0.0 if cached else samples * sample_bytes / (parallel * disk_rate)
    crossing = sample_bytes if moved_bytes is None else moved_bytes
    transfer = samples * crossing / bus_rate if bus_rate else 0.0
    computed = samples * macs * (TRAINING if training else 1) / mac_rate
    return EpochTime(read + samples * decode_s / parallel, transfer, computed, prefetch)
