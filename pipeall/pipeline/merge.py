"""Results of several streams in one loop, each as soon as it is there."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping

from ..arguments import by_name, checked, gone_through
from ..errors import ArgumentError, PipeallError
from .live import CLOSE_S, LiveResult

Arrived = tuple[str, LiveResult | None, BaseException | None]  # of which stream; None: its end, and what ended it early


class Merged:
    """Streams side by side: ``for name, seen in Merged({"det": ..., "rec": ...})``.

    A thread of its own takes the results of each stream, in order; no more than one of each waits here. Ends when all
    have ended, and ends all at the first error, whose message then begins with the name of the stream. ``close``, or
    leaving the loop by an error, ends it before.

    Parameters
    ----------
    streams : dict of Stream
        By name: what ``Pipeline.stream`` and ``Crops.of`` give.

    Raises
    ------
    ArgumentError
        For anything else than a dict of at least one stream.
    """

    @checked(streams=by_name(gone_through, "a dict of streams by name"))
    def __init__(self, streams: Mapping[str, Iterable[LiveResult]]):
        if not streams:
            raise ArgumentError("streams: expected one at least, got none")
        self._streams = streams
        self._changed = threading.Condition()
        self._arrived: deque[Arrived] = deque()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._take, args=entry, name="pa-merge", daemon=True) for entry in streams.items()
        ]

    def __iter__(self) -> Iterator[tuple[str, LiveResult]]:
        for thread in self._threads:
            thread.start()
        left = len(self._threads)
        try:
            while left and (arrived := self._next()):
                name, seen, error = arrived
                if error is not None:
                    raise _named(name, error)
                if seen is None:
                    left -= 1
                else:
                    yield name, seen
        finally:
            self.close()
            for thread in self._threads:
                thread.join(CLOSE_S)

    def close(self) -> None:
        """Ends all streams. Any thread may call it, also twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for stream in self._streams.values():
            if not isinstance(stream, Generator):  # which its own thread alone may close
                _close(stream)

    def _next(self) -> Arrived | None:
        """None once it is closed."""
        with self._changed:
            while not self._arrived and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._changed.notify_all()
            return self._arrived.popleft()

    def _take(self, name: str, stream: Iterable[LiveResult]) -> None:
        error = None
        try:
            for seen in stream:
                if not self._put((name, seen, None)):
                    return _close(stream)
        except BaseException as raised:  # by whoever takes the results
            error = raised
        self._put((name, None, error))

    def _put(self, arrived: Arrived) -> bool:
        """False once it is closed."""
        with self._changed:
            while len(self._arrived) >= len(self._threads) and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._arrived.append(arrived)
                self._changed.notify_all()
            return not self._closed


def _close(stream: Iterable[LiveResult]) -> None:
    if hasattr(stream, "close"):
        stream.close()


def _named(name: str, error: BaseException) -> BaseException:
    if isinstance(error, PipeallError):
        error.args = (f"{name}: {error}",)
    return error
