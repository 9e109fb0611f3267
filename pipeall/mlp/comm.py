"""Messages between ranks, and the collectives made of them: one small interface over MPI, a simulator, or nothing.

A transport gives two calls, ``_send`` and ``_receive``; everything else is here, so that a collective adds in the
same order and sends the same bytes on every transport. Both collectives are circulant (Traeff, "Optimal, non-pipelined
reduce-scatter and allreduce algorithms", 2024): a rank sends ceil(log2 P) messages and n - n/P of the n values of a
vector. That is the least there can be, for any P and for blocks of any sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from ..errors import PipeallError

MAX_ERROR = 400  # characters of an error that every rank gets


class CommError(PipeallError):
    """Another rank failed, or left."""


class Request(Protocol):
    """A message under way. ``wait`` returns when it is complete; a buffer belongs to it until then."""

    def test(self) -> bool: ...
    def wait(self) -> None: ...


@dataclass
class Traffic:
    """What a rank has sent. ``seconds``: some exchange was under way; ``exposed``: of these, the rank only waited."""

    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    exposed: float = 0.0
    under_way: int = 0  # exchanges at this moment, since ``_since``
    _since: float = 0.0

    def begin(self) -> None:
        """An exchange begins."""
        if self.under_way == 0:
            self._since = perf_counter()
        self.under_way += 1

    def end(self) -> None:
        """An exchange has ended. Several that were under way at once count once."""
        self.under_way -= 1
        if self.under_way == 0:
            self.seconds += perf_counter() - self._since


class Collective:
    """An exchange under way, in rounds. It goes on whenever ``test`` or ``wait`` is called: MPI does not by itself."""

    def __init__(self, rounds: Iterator[Sequence[Request]], traffic: Traffic):
        self._rounds, self._traffic = rounds, traffic
        traffic.begin()
        self._open: Sequence[Request] | None = next(rounds, None)
        if self._open is None:
            traffic.end()

    def test(self) -> bool:
        """Whether it is complete, after doing what can be done without waiting."""
        while self._open is not None and all(request.test() for request in self._open):
            self._open = next(self._rounds, None)
            if self._open is None:
                self._traffic.end()
        return self._open is None

    def wait(self) -> None:
        if self._open is None:
            return
        begin = perf_counter()
        while self._open is not None:
            for request in self._open:
                request.wait()
            self._open = next(self._rounds, None)
        self._traffic.exposed += perf_counter() - begin
        self._traffic.end()


class Comm:
    """One of ``size`` ranks. This class itself is a single rank that has nobody to talk to."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.traffic = Traffic()

    def _send(self, to: int, array: np.ndarray) -> Request:
        raise NotImplementedError

    def _receive(self, source: int, array: np.ndarray) -> Request:
        raise NotImplementedError

    def send(self, to: int, array: np.ndarray) -> Request:
        """Starts to send a contiguous array. Messages between two ranks arrive in the order they were sent."""
        self.traffic.messages += 1
        self.traffic.bytes += array.nbytes
        return self._send(to, array)

    def receive(self, source: int, array: np.ndarray) -> Request:
        """Starts to receive into a contiguous array of the sender's size."""
        return self._receive(source, array)

    def collective(self, rounds: Iterator[Sequence[Request]]) -> Collective:
        return Collective(rounds, self.traffic)

    # ---- collectives: along the first axis, rank r has rows [bounds[r], bounds[r + 1])

    def allgather(self, array: np.ndarray, bounds: Sequence[int]) -> Collective:
        """Fills every other rank's rows of ``array``."""
        return self.collective(self._allgather(array, bounds))

    def reduce_scatter(self, array: np.ndarray, bounds: Sequence[int]) -> Collective:
        """Leaves in this rank's rows their sum over the ranks; spoils the other rows."""
        return self.collective(self._reduce_scatter(array, bounds))

    def allreduce(self, values: np.ndarray, op: np.ufunc = np.add) -> np.ndarray:
        """``values`` of all ranks combined in the order of the ranks, so that every rank has the same bits.

        For few values: each rank receives all of them.
        """
        gathered = np.zeros((self.size, *values.shape), values.dtype)
        gathered[self.rank] = values
        self.allgather(gathered, range(self.size + 1)).wait()
        return op.reduce(gathered, axis=0)

    def agree(self, error: BaseException | None) -> None:
        """Raises on every rank if one has an error: that error on its rank, a CommError that quotes it elsewhere."""
        text = b"" if error is None else str(error).encode()[:MAX_ERROR]
        texts = np.zeros((self.size, MAX_ERROR), np.uint8)
        texts[self.rank, : len(text)] = np.frombuffer(text, np.uint8)
        self.allgather(texts, range(self.size + 1)).wait()
        if error is not None:
            raise error
        for rank, row in enumerate(texts):
            if row.any():
                raise CommError(f"rank {rank}: {row.tobytes().rstrip(bytes(1)).decode(errors='replace')}")

    def abort(self, error: BaseException) -> None:
        """Ends every rank, where the others may be waiting for this one."""

    def _rows(self, array: np.ndarray, bounds: Sequence[int], first: int, count: int) -> list[np.ndarray]:
        """The rows of ``count`` ranks from ``first`` on, cyclic: one or two views."""
        first %= self.size
        end = min(first + count, self.size)
        rest = first + count - end
        views = [array[bounds[first] : bounds[end]], array[: bounds[rest]] if rest else array[:0]]
        return [view for view in views if view.size]

    def _exchange(
        self, to: int, sent: list[np.ndarray], source: int, into: list[np.ndarray]
    ) -> tuple[list, np.ndarray]:
        """Starts one message each way; what comes is in the array once the requests are complete."""
        size = sum(map(len, into))
        like = (into or sent)[0]
        buffer = np.empty((size, *like.shape[1:]), like.dtype)
        requests = [self.receive(source % self.size, buffer)] if size else []
        if sent:
            requests.append(self.send(to % self.size, np.concatenate(sent)))
        return requests, buffer

    def _skips(self) -> list[tuple[int, int]]:
        """(from, to) block ranges of the rounds: each gives away half of what is left, the smaller one."""
        skips, left = [], self.size
        while left > 1:
            skips.append(((left + 1) // 2, left))
            left = (left + 1) // 2
        return skips

    def _reduce_scatter(self, array: np.ndarray, bounds: Sequence[int]) -> Iterator[Sequence[Request]]:
        for skip, end in self._skips():
            away = self._rows(array, bounds, self.rank + skip, end - skip)
            own = self._rows(array, bounds, self.rank, end - skip)
            if away or own:
                requests, buffer = self._exchange(self.rank + skip, away, self.rank - skip, own)
                yield requests
                for rows, come in zip(own, _split(buffer, own), strict=True):
                    rows += come

    def _allgather(self, array: np.ndarray, bounds: Sequence[int]) -> Iterator[Sequence[Request]]:
        for skip, end in reversed(self._skips()):
            given = self._rows(array, bounds, self.rank, end - skip)
            wanted = self._rows(array, bounds, self.rank + skip, end - skip)
            if given or wanted:
                requests, buffer = self._exchange(self.rank - skip, given, self.rank + skip, wanted)
                yield requests
                for rows, come in zip(wanted, _split(buffer, wanted), strict=True):
                    rows[...] = come


def _split(buffer: np.ndarray, like: list[np.ndarray]) -> Iterator[np.ndarray]:
    begin = 0
    for rows in like:
        yield buffer[begin : begin + len(rows)]
        begin += len(rows)
