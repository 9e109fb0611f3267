"""What SIGHUP does to ``pipeall run``: its model and plan are read again, and run from the next frame on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ...errors import PipeallError
from ..ends import reloading
from ..tables import plain


class Reload:
    """Calls ``change`` on a thread of its own after each SIGHUP, once where several came meanwhile.

    It gives in words what runs now, which stderr gets. Where it raises, the run goes on as it was.
    """

    def __init__(self, change: Callable[[], str]):
        self._change = change
        self._asked, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="pa-reload", daemon=True)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Meanwhile SIGHUP reloads."""
        self._thread.start()
        try:
            with reloading(self._asked.set):
                yield
        finally:
            self._ended = True
            self._asked.set()
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._ended:
                return
            try:
                told = f"now {self._change()}"
            except PipeallError as error:
                told = f"error: {error}; the run goes on as it was"
            click.echo(plain(f"SIGHUP: {told}"), err=True)
