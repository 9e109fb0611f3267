"""One camera for several networks: each reader gets every frame."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from ..arguments import checked, gone_through, whole


class Tee:
    """The frames of one source for several readers, each on a thread of its own: ``near, far = Tee(camera, 2)``.

    A thread takes a frame from the source once all readers have the one before it. So a reader that waits lets the
    others wait; one that drops old frames, as ``stream`` does, never waits long. ``close`` a reader that is left before
    its end, once no thread reads it: the others wait for it otherwise.

    Parameters
    ----------
    source : iterable of frames
    readers : int
        How many there are.

    Raises
    ------
    ArgumentError
        For a bad argument.
    """

    @checked(source=gone_through, readers=whole(1))
    def __init__(self, source: Iterable[Any], readers: int):
        self._changed = threading.Condition()
        self._frame: Any = None
        self._turn = 0  # of the frame, from 1
        self._taken = dict.fromkeys(range(readers), 0)  # the turn of the latest frame of each reader
        self._ended = False
        self._broken: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(source,), name="pa-tee", daemon=True)
        self._readers = [self._read(reader) for reader in range(readers)]

    def __iter__(self) -> Iterator[Iterator[Any]]:
        return iter(self._readers)

    def _read(self, reader: int) -> Iterator[Any]:
        try:
            with self._changed:
                if self._thread.ident is None:
                    self._thread.start()
            while True:
                with self._changed:
                    while self._turn == self._taken[reader] and not self._ended:
                        self._changed.wait()
                    if self._turn == self._taken[reader]:
                        break
                    self._taken[reader], frame = self._turn, self._frame
                    self._changed.notify_all()
                yield frame
            if self._broken:
                raise self._broken
        finally:
            with self._changed:
                del self._taken[reader]
                self._changed.notify_all()

    def _run(self, source: Iterable[Any]) -> None:
        try:
            for frame in source:
                with self._changed:
                    while any(turn < self._turn for turn in self._taken.values()):
                        self._changed.wait()
                    if not self._taken:
                        return
                    self._frame, self._turn = frame, self._turn + 1
                    self._changed.notify_all()
        except BaseException as error:  # raised where the frames are read
            self._broken = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
