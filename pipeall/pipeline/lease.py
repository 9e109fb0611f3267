"""Leases: which pipelines, of this process and of others, hold which cores and devices; and what comes of an overlap.

What is compared are ids of cores and names of devices (``Device.resources``), never names of components. An emulated
board's stages are free threads that keep another board's pace: they hold nothing of this machine.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path

from .._kernels.cpu.cluster import format_cores
from ..errors import DeviceError
from .boards.board import Board
from .devices.device import Component
from .lease_folder import Claims, Holder, LeaseFile, Resource, guarded, holders
from .planning.units import Unit

CORES = ("share", "refuse", "free")  # what to do where others hold some of them
SLOWER = "they are shared, and both are slower while both run"
WRONG = "what is measured now is the figure of both"

_COVERED: ContextVar[frozenset[Resource]] = ContextVar("pipeall_covered", default=frozenset())


class Lease:
    """What a pipeline, or several that belong together, holds until ``close``.

    cores   share: where others hold something of it, a warning says who, and it is held all the same; refuse, and free:
            DeviceError says who, and nothing changes
    effect  of sharing, in words, for the warning

    What a lease ``covers`` is not asked for again by the leases that the same thread makes meanwhile. Any thread may
    call the methods; in a fork they do nothing.
    """

    def __init__(self, cores: str = "share", effect: str = SLOWER):
        self._cores, self._effect, self._covered = cores, effect, _COVERED.get()
        self._parts: dict[Hashable, Claims] = {}
        self._file: LeaseFile | None = None
        self._free: Callable[[], object] = bool  # closes the file
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), False

    def hold(self, part: Hashable, components: Iterable[Component], about: str) -> None:
        """Holds these components for a part of what runs, in place of those it had.

        ``about``: network and plan, for others to read. Raises DeviceError as ``cores`` says.
        """
        self._change({part: _claims(components, self._covered)}, about)

    def drop(self, part: Hashable) -> None:
        """Frees what only this part had."""
        self._change({part: {}})

    def close(self) -> None:
        """Frees everything. Safe to call twice."""
        if self._process == os.getpid():
            with self._lock:
                self._closed = True
                self._free()

    @contextmanager
    def covers(self) -> Iterator[None]:
        """Pipelines that this thread makes meanwhile are part of this lease, as far as it has what they run on."""
        token = _COVERED.set(self._covered | _resources(_joined(self._parts.values())))
        try:
            yield
        finally:
            _COVERED.reset(token)

    def _change(self, parts: dict[Hashable, Claims], about: str | None = None) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            after = self._parts | parts
            before, claims = _joined(self._parts.values()), _joined(after.values())
            try:
                if more := _resources(claims) - _resources(before):
                    with guarded() as place:
                        self._check(place, claims, more)
                        self._write(place, claims, about)
                elif self._file and claims:
                    self._file.write(claims, about)
                elif self._file:
                    self._free()
                    self._file = None
            except OSError as error:
                if self._cores != "share":
                    raise _unknown(error) from None
                warnings.warn(f"{_unknown(error)}; others are not told of this program", RuntimeWarning, stacklevel=2)
            self._parts = {part: claims for part, claims in after.items() if claims}

    def _check(self, place: Path, claims: Claims, more: frozenset[Resource]) -> None:
        """Tells of those who hold some of what is wanted in addition."""
        others = (holder for path, holder in holders(place).items() if not self._file or path != self._file.path)
        told = [text for holder in others if (text := _overlap(claims, more, holder))]
        if told and self._cores == "share":
            warnings.warn(f"{'; '.join(told)}: {self._effect}", RuntimeWarning, stacklevel=2)
        elif told:
            raise DeviceError(f"cores: expected those that nobody holds; {'; '.join(told)}; share runs beside it")

    def _write(self, place: Path, claims: Claims, about: str | None) -> None:
        if self._file is None:
            self._file = LeaseFile(place)
            self._free = weakref.finalize(self, self._file.close)
        self._file.write(claims, about)


def take(components: Iterable[Component], about: str, cores: str = "share", effect: str = SLOWER) -> Lease:
    """A lease of these components; errors as of ``Lease.hold``."""
    lease = Lease(cores, effect)
    lease.hold(about, components, about)
    return lease


@contextmanager
def leased(
    board: Board, units: Iterable[str], about: str, cores: str = "share", effect: str = SLOWER
) -> Iterator[None]:
    """A lease of the components of units, which covers the pipelines inside; errors as of ``Lease.hold``."""
    components = [] if board.model else [board.component(Unit.parse(unit).whole) for unit in units]
    with closing(take(components, about, cores, effect)) as lease, lease.covers():
        yield


def board_for(board: Board, cores: str) -> Board:
    """The board itself, or with "free" what nobody holds of it.

    Raises DeviceError where nothing is left of it, or nobody can tell.
    """
    if cores != "free" or board.model:
        return board
    try:
        with guarded() as place:
            known = holders(place)
    except OSError as error:
        raise _unknown(error) from None
    held = {resource: holder for holder in known.values() for resource in _resources(holder.claims)}
    left = board.without({resource: str(held[resource]) for resource in held.keys() - _COVERED.get()})
    if not left.components:
        told = "; ".join(
            filter(None, (_overlap(_claims(board.components.values()), held, one) for one in known.values()))
        )
        raise DeviceError(f"cores: expected some that nobody holds; {told}")
    return left


def _claims(components: Iterable[Component], without: frozenset[Resource] = frozenset()) -> Claims:
    """What components take, by their names without numbers of cores and precisions."""
    return _joined(
        {Unit.parse(component.name).component: frozenset(component.device.resources) - without}
        for component in components
    )


def _joined(parts: Iterable[Claims]) -> Claims:
    joined: dict[str, frozenset[Resource]] = {}
    for name, resources in chain.from_iterable(part.items() for part in parts):
        if resources:
            joined[name] = joined.get(name, frozenset()) | resources
    return joined


def _resources(claims: Claims) -> frozenset[Resource]:
    return frozenset(chain.from_iterable(claims.values()))


def _overlap(claims: Claims, of: Collection[Resource], holder: Holder) -> str | None:
    """ "big (core 0) and gpu are held by pipeall run, PID 4711 (squeezenet on B-G:3)"; None where nothing is."""
    both, names = _resources(holder.claims).intersection(of), []
    for name, resources in claims.items():
        if resources & both:
            names.append(_named(name, resources & both))
            both -= resources  # "cpu" has the cores of "big" too
    if not names:
        return None
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} held by {holder}"


def _named(name: str, resources: Iterable[Resource]) -> str:
    cores = [resource for resource in resources if isinstance(resource, int)]
    return f"{name} (core{'s'[: len(cores) - 1]} {format_cores(cores)})" if cores else name


def _unknown(error: OSError) -> DeviceError:
    """Where there is no folder."""
    why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return DeviceError(f"cores: nobody can tell who uses them: {why}")
