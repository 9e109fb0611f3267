"""Kernels that check themselves: on a core that is met for the first time each chosen kernel is compared with the
reference, which is plain C, on small cases. One that differs is left out, and the next row takes its place.

What was found is kept in the cache folder, for each core type, build and version.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from time import perf_counter

import numpy as np

from ...cache import cached_path, read_cached, write_cached
from ...errors import ArgumentError
from .cluster import Cluster
from .cores import own_isas
from .kernels import __file__ as BUILD
from .kernels import features
from .self_check_cases import CASES, Case
from .self_check_steps import Steps
from .table import OPS, ROWS, KernelRow, Kernels, choose, fitting

CHECKED = "kernels-checked"

log = logging.getLogger(__name__)


def checked(cluster: Cluster) -> Kernels:
    """The kernels of a cluster, without those that are wrong on its cores."""
    return choose(cluster.isas, cluster.core_type, wrong_on(cluster))


def wrong_on(cluster: Cluster) -> tuple[str, ...]:
    """The kernels that are left out on a cluster; the first call on a core type takes some 30 ms, and warns of each.

    Cores whose instruction sets this machine lacks, those of a recorded board, are not checked.
    """
    if not set(cluster.isas) <= set(own_isas(features())):
        return ()
    cores = {cluster.cores[0], cluster.cores[-1]} if cluster.uneven else {cluster.cores[0]}
    unknown = cluster.why.split(";")[0]  # the ID of a core without a name
    return tuple(name for core in sorted(cores) for name in known_wrong(cluster.isas, cluster.core_type, unknown, core))


@lru_cache
def known_wrong(isas: tuple[str, ...], core_type: str, identity: str, core: int) -> tuple[str, ...]:
    """What the cache folder says of this core, or else the check; it warns."""
    build = os.stat(BUILD)
    where = cached_path(CHECKED, core_type, isas, identity, features(), build.st_size, build.st_mtime_ns)
    wrong = _known((read_cached(where, CHECKED) or {}).get("wrong"))
    if wrong is None:
        wrong = check(isas, core_type, core)
        try:
            write_cached(where, CHECKED, {"wrong": wrong})
        except ArgumentError as error:
            log.info("kernels are checked again in the next process: %s", error)
    kernels = choose(isas, core_type, wrong)
    for row in (row for row in ROWS if row.name in wrong):
        warnings.warn(
            f"kernel {row.name}: wrong results on {core_type} ({identity}): {kernels[row.op, row.type]} takes its "
            "place; please report what `pipeall doctor` prints",
            RuntimeWarning,
            stacklevel=4,
        )
    return wrong


def _known(names: object) -> tuple[str, ...] | None:
    """Names out of a file, if they are of kernels that may be left out."""
    left_out = {row.name for row in ROWS if row.isa != "ref"}
    if not isinstance(names, list) or not all(isinstance(name, str) and name in left_out for name in names):
        return None
    return tuple(names)


def check(isas: Sequence[str], core_type: str, core: int) -> tuple[str, ...]:
    """The kernels for these instruction sets that differ from the reference on a core, which a thread is pinned to."""
    begin = perf_counter()
    with ThreadPoolExecutor(1, "pa-check") as threads:
        wrong = threads.submit(_wrong, isas, core_type, core).result()
    log.debug("kernels for %s took %.0f ms to check", core_type, 1e3 * (perf_counter() - begin))
    return wrong


def rows_that_differ(isas: Sequence[str], core_type: str, core: int) -> tuple[int, list[str]]:
    """How many kernels these instruction sets have beside the reference, chosen or not, and which of them differ."""
    wrong = check(isas, core_type, core)
    rows = [row for key in OPS for row in fitting(key, isas, core_type) if row.isa != "ref" and row.name not in wrong]
    table = choose(isas, core_type, wrong)
    with ThreadPoolExecutor(1, "pa-check") as threads:
        runs = [_Run(case, choose(("ref",), core_type), core) for case in CASES]
        alike = [*threads.map(lambda row: _agree(runs, {**table, (row.op, row.type): row.name}, row), rows)]
    differ = [row.name for row, same in zip(rows, alike, strict=True) if not same]
    return len(rows) + len(wrong), [*wrong, *differ]


def _wrong(isas: Sequence[str], core_type: str, core: int) -> tuple[str, ...]:
    """Where any differs, kernels take the place of the reference one after the other, as long as all cases agree."""
    reference = choose(("ref",), core_type)
    runs = [_Run(case, reference, core) for case in CASES]
    if _agree(runs, choose(isas, core_type)):
        return ()
    table, wrong = dict(reference), []
    for key in OPS:
        for row in fitting(key, isas, core_type):
            if _agree(runs, {**table, key: row.name}, row):  # other cases run what agreed before
                table[key] = row.name
                break
            wrong.append(row.name)
    return tuple(wrong)


class _Run:
    """A case with the results of the reference, once they are asked for."""

    def __init__(self, case: Case, reference: Kernels, core: int):
        self.case, self.reference, self.core = case, reference, core
        self.steps: Steps | None = None
        self.expected: list[np.ndarray] = []

    def agrees(self, kernels: Kernels) -> bool:
        if all(kernels[key] == self.reference[key] for key in self.case.keys):
            return True
        if self.steps is None:
            self.steps = self.case.steps()
            self.expected = self.steps.run(self.reference, self.core)
        return all(map(self._near, self.steps.run(kernels, self.core), self.expected))

    def _near(self, found: np.ndarray, expected: np.ndarray) -> bool:
        found, exact = found.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - exact) <= self.case.within * (1 + np.abs(exact))
        return bool((near | (found == exact) | (np.isnan(found) & np.isnan(exact))).all())


def _agree(runs: Iterable[_Run], kernels: Kernels, row: KernelRow | None = None) -> bool:
    """Whether all cases come out alike, or all of those that are about one row."""
    return all(run.agrees(kernels) for run in runs if row is None or (row.op, row.type) in run.case.keys)
