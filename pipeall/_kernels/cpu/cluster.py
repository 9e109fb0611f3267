"""Clusters: which cores there are, which of them are equal, and what they can do.

Only cores that are online and allowed to this process count, one thread per physical core. Cores are of
one kind when their type is the same and their speeds are close. Two or more kinds: the fastest becomes
"big", the slowest "little", those between "mid", "mid1", ... One kind: its cores are split into halves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ... import env
from ...errors import ArgumentError, DeviceError
from .cores import CORE_TYPES, UNKNOWN, Core, Tree, read_cores
from .kernels import features

# Speeds this close make one kind. Arm: the big pairs of an RK3588 differ by a few per cent (binning), the prime
# and gold cores of a phone by 13 % and more. x86: some drivers report boost clocks of equal cores 17 % apart.
TOLERANCE = {"aarch64": 0.10, "x86_64": 0.25}
GIVEN = "given explicitly"  # why a cluster is one


@dataclass(frozen=True, slots=True)
class Cluster:
    """A set of cores. ``isas`` is fastest first and ends in "ref"; sizes in bytes; None is "not published".

    ``capacity`` is the kernel's (1024: the fastest core at its highest clock); ``l2_bytes`` and ``l3_bytes``
    are of one cache, whoever shares it; ``l2_cores`` of these cores share one. ``why`` says in one line how the
    cluster was recognized. Cores are equal, but those of several clusters may be ``uneven``.
    """

    name: str
    cores: tuple[int, ...]
    core_type: str
    isas: tuple[str, ...]
    capacity: int | None
    max_mhz: float | None
    l1d_bytes: int | None
    l2_bytes: int | None
    l2_cores: int | None
    l3_bytes: int | None
    why: str
    uneven: bool = False


def detect(
    clusters: Sequence[Sequence[int]] | None = None,
    *,
    root: str | Path | None = None,
    allowed: Iterable[int] | None = None,
    machine: str | None = None,
) -> tuple[Cluster, ...]:
    """The clusters of this machine, fastest first, or the given ones (core ids) in the given order.

    Given clusters are called big; big, little; big, mid, little; and so on, and may hold SMT siblings.
    root     tree with sys/ and proc/ (default PIPEALL_SYSFS, else "/"); a file that is missing there is no error
    allowed  cores that may be used: by default this process's affinity, on a recorded tree every online core
    machine  architecture as in ``uname -m``: by default the running one, on a recorded tree its own

    Raises DeviceError where no core is left or PIPEALL_ISA is not supported, ArgumentError for given cores
    that are absent, repeated or not allowed, and for an unknown PIPEALL_CORE.
    """
    tree = Tree(env.sysfs() if root is None else Path(root))
    live = tree.root == Path("/")
    own = features() if live and machine in (None, os.uname().machine) else ""
    machine = machine or (None if live else tree.text("proc/sys/kernel/arch")) or os.uname().machine
    online = tree.online()
    if allowed is None:
        allowed = os.sched_getaffinity(0) if live else online
        online |= (
            set(allowed) if live else set()
        )  # the kernel allows none that is offline; a container numbers them anew
    allowed = set(allowed)
    usable = sorted(allowed & online if online else allowed)
    if not usable:
        raise DeviceError(f"no CPU core to run on: online {format_cores(online)}, allowed {format_cores(allowed)}")

    if clusters is not None:
        _check_given(clusters, online or allowed, allowed)
        groups = [read_cores(tree, ids, machine, own) for ids in clusters]
        reasons = [GIVEN] * len(groups)
        spare: set[int] = set()
    else:
        physical = [i for i in usable if i == min({i, *tree.siblings(i)} & set(usable))]
        spare = set(usable) - set(physical)
        groups = _kinds(read_cores(tree, physical, machine, own), TOLERANCE.get(machine, 0.10))
        reasons = [f"kind {place} of {len(groups)}, fastest first" for place in range(1, len(groups) + 1)]
        if len(groups) == 1:
            groups, reasons = _halves(groups[0])
    return tuple(
        _cluster(tree, name, group, reason, spare)
        for name, group, reason in zip(names(len(groups)), groups, reasons, strict=True)
    )


def names(count: int) -> list[str]:
    """What so many clusters are called, fastest first: big; big, little; big, mid, little; big, mid, mid1, little."""
    if count == 1:
        return ["big"]
    return ["big", *(f"mid{i or ''}" for i in range(count - 2)), "little"]


def equal(clusters: Sequence[Cluster]) -> bool:
    """Whether all cores are of one kind, as far as the machine tells: the halves that ``detect`` makes are."""
    tolerance = max(TOLERANCE.values())
    first = clusters[0]
    return all(
        (other.core_type, other.isas) == (first.core_type, first.isas)
        and _close(other.capacity, first.capacity, tolerance)
        and _close(other.max_mhz, first.max_mhz, tolerance)
        for other in clusters
    )


def joined(clusters: Sequence[Cluster]) -> Cluster:
    """All their cores as one cluster, "cpu", with what all of them can do. Of unequal ones it has the first's type,
    the fastest's: those cores do most of the work.

    Clusters that are given explicitly count as uneven, whatever their kind.
    """
    first = clusters[0]
    uneven = not equal(clusters) or (len(clusters) > 1 and first.why.endswith(GIVEN))
    isas = tuple(isa for isa in first.isas if all(isa in other.isas for other in clusters))
    cores = tuple(dict.fromkeys(core for cluster in clusters for core in cluster.cores))
    parts = ", ".join(f"{cluster.name} {format_cores(cluster.cores)}" for cluster in clusters)
    return replace(first, name="cpu", cores=cores, isas=isas, why=f"all clusters: {parts}", uneven=uneven)


def format_cores(cores: Iterable[int]) -> str:
    """Core ids as the kernel writes them: (0, 1, 2, 5) is "0-2,5"; nothing is "none"."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges) or "none"


def _check_given(clusters: Sequence[Sequence[int]], online: set[int], allowed: set[int]) -> None:
    seen: set[int] = set()
    if not isinstance(clusters, Sequence) or not clusters:
        raise ArgumentError(f"clusters: expected lists of core ids, e.g. [[0, 1], [2, 3]]; got {clusters!r}")
    for ids in clusters:
        if not isinstance(ids, Sequence) or not ids or not all(type(i) is int for i in ids):
            raise ArgumentError(f"clusters: expected a list of core ids for each cluster; got {ids!r}")
        for i in ids:
            if i not in online:
                raise ArgumentError(f"clusters: core {i} does not exist or is offline (online: {format_cores(online)})")
            if i not in allowed:
                raise ArgumentError(f"clusters: core {i} is not allowed here (allowed: {format_cores(allowed)})")
            if i in seen:
                raise ArgumentError(f"clusters: core {i} is given twice")
            seen.add(i)


def _kinds(cores: list[Core], tolerance: float) -> list[list[Core]]:
    """Cores of one type and speed together, the fastest kind first; by capacity, then type, then clock."""
    have_capacity = all(core.capacity is not None for core in cores)
    have_type = all(core.core_type in CORE_TYPES for core in cores)

    def speed(core: Core) -> tuple[float, int, float]:
        rank = CORE_TYPES.index(core.core_type) if have_type else 0
        return core.capacity if have_capacity else 0, rank, core.max_mhz or 0

    kinds: list[list[Core]] = []
    for core in sorted(cores, key=speed, reverse=True):
        for kind in kinds:
            first = kind[0]
            same_type = (first.core_type, first.evidence) == (core.core_type, core.evidence)
            alike = ((first.capacity, core.capacity), (first.max_mhz, core.max_mhz))
            if same_type and all(_close(*speeds, tolerance) for speeds in alike):
                kind.append(core)
                break
        else:
            kinds.append([core])
    return [sorted(kind, key=lambda core: core.id) for kind in kinds]


def _close(a: float | None, b: float | None, tolerance: float) -> bool:
    return a is None or b is None or min(a, b) >= (1 - tolerance) * max(a, b)


def _halves(cores: list[Core]) -> tuple[list[list[Core]], list[str]]:
    if len(cores) == 1:
        return [cores], ["the only core"]
    middle = (len(cores) + 1) // 2
    return [cores[:middle], cores[middle:]], ["one kind of core: first half", "one kind of core: second half"]


def _cluster(tree: Tree, name: str, cores: list[Core], reason: str, spare: set[int]) -> Cluster:
    """``spare``: SMT siblings that were left out of all clusters."""
    types = {core.core_type for core in cores}
    forced_type = env.core()
    if forced_type is not None and forced_type not in CORE_TYPES:
        raise ArgumentError(f"PIPEALL_CORE: expected one of {', '.join(CORE_TYPES)}; got {forced_type!r}")
    isas = tuple(isa for isa in cores[0].isas if all(isa in core.isas for core in cores))
    forced_isa = env.isa()
    if forced_isa is not None:
        if forced_isa not in isas:
            raise DeviceError(f"PIPEALL_ISA={forced_isa}: the cores of {name} have {', '.join(isas)} only")
        isas = isas[isas.index(forced_isa) :]

    capacity = max((core.capacity for core in cores if core.capacity is not None), default=None)
    max_mhz = max((core.max_mhz for core in cores if core.max_mhz is not None), default=None)
    why = [" / ".join(sorted({core.evidence for core in cores}))]
    if capacity is not None:
        why.append(f"capacity {capacity}")
    if max_mhz is not None:
        why.append(f"{max_mhz:.0f} MHz")
    why.append(reason)
    left_out = spare & {sibling for core in cores for sibling in tree.siblings(core.id)}
    if left_out:
        why.append(f"SMT siblings {format_cores(left_out)} left out")
    if forced_type is not None:
        why.append("core type forced by PIPEALL_CORE")
    if forced_isa is not None:
        why.append("instruction set forced by PIPEALL_ISA")
    (l1d_bytes, _), (l2_bytes, l2_users), (l3_bytes, _) = (tree.cache(cores[0].id, level) for level in (1, 2, 3))
    return Cluster(
        name=name,
        cores=tuple(core.id for core in cores),
        core_type=forced_type or (types.pop() if len(types) == 1 else UNKNOWN),
        isas=isas,
        capacity=capacity,
        max_mhz=max_mhz,
        l1d_bytes=l1d_bytes,
        l2_bytes=l2_bytes,
        l2_cores=sum(core.id in l2_users for core in cores) or None,
        l3_bytes=l3_bytes,
        why="; ".join(why),
    )
