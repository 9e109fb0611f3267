"""Ranks inside one process: threads with mailboxes, or one rank that talks to nobody and counts what it says."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .comm import Comm, CommError


class _Mailbox:
    """The messages for one rank: (source, number of the message) -> a copy of its array. ``gone``: ranks that ended."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.mail: dict[tuple[int, int], np.ndarray] = {}
        self.gone: set[int] = set()


class _Sent:
    def test(self) -> bool:
        return True

    def wait(self) -> None:
        pass


class _Expected:
    def __init__(self, mailbox: _Mailbox, key: tuple[int, int], array: np.ndarray):
        self._mailbox, self._key, self._array = mailbox, key, array
        self._done = False

    def test(self) -> bool:
        with self._mailbox.news:
            return self._take()

    def wait(self) -> None:
        with self._mailbox.news:
            self._mailbox.news.wait_for(self._take)

    def _take(self) -> bool:
        if self._done:
            return True
        if self._key in self._mailbox.mail:
            self._array[...] = self._mailbox.mail.pop(self._key)
            self._done = True
        elif self._key[0] in self._mailbox.gone:
            raise CommError(f"rank {self._key[0]} has ended, a message of it is waited for")
        return self._done


class Simulated(Comm):
    """One of the ranks that ``simulate`` runs."""

    def __init__(self, mailboxes: list[_Mailbox], rank: int):
        super().__init__()
        self.rank, self.size, self._mailboxes = rank, len(mailboxes), mailboxes
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def _send(self, to: int, array: np.ndarray) -> _Sent:
        mailbox = self._mailboxes[to]
        with mailbox.news:
            mailbox.mail[self.rank, self._sent[to]] = array.copy()
            mailbox.news.notify()
        self._sent[to] += 1
        return _Sent()

    def _receive(self, source: int, array: np.ndarray) -> _Expected:
        self._received[source] += 1
        return _Expected(self._mailboxes[self.rank], (source, self._received[source] - 1), array)


class Counting(Comm):
    """Rank ``rank`` of ``size`` alone: what it sends is counted, what it would receive stays as it is in memory."""

    def __init__(self, rank: int, size: int):
        super().__init__()
        self.rank, self.size = rank, size

    def _send(self, to: int, array: np.ndarray) -> _Sent:
        return _Sent()

    def _receive(self, source: int, array: np.ndarray) -> _Sent:
        array[...] = 0
        return _Sent()


def simulate(size: int, program: Callable[[Comm], Any]) -> list[Any]:
    """Runs ``program(comm)`` on ``size`` ranks, a thread each, and gives what each returned.

    The results equal MPI's bit for bit, and are the same in every run: a message waits for its receiver, and each
    receiver names its sender. Raises the error of the lowest rank that failed by itself.
    """
    if size < 1:
        raise ArgumentError(f"ranks: expected at least 1, got {size}")
    mailboxes = [_Mailbox() for _ in range(size)]
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = program(Simulated(mailboxes, rank))
        except BaseException as error:  # raised again below, in the caller's thread
            errors[rank] = error
        finally:
            for mailbox in mailboxes:
                with mailbox.news:
                    mailbox.gone.add(rank)
                    mailbox.news.notify()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [error for error in errors if error is not None]
    if failed:
        raise next((error for error in failed if not isinstance(error, CommError)), failed[0])
    return results
