"""How the command ends: at a signal, and with standard streams that are closed or lead nowhere."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C; kill, docker, systemd; a terminal that is closed

_received: int | None = None  # of ENDING, the first
_reload: Callable[[], None] | None = None  # what SIGHUP does in place of ending, while its terminal is there


def end_as_by_ctrl_c() -> None:
    """Lets the signals ENDING raise KeyboardInterrupt, but for those that the caller has ignored, as nohup does."""
    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The first one only, as systemd sends two, and what is being closed has to be closed to its end; Ctrl-C always."""
    global _received
    if number == signal.SIGHUP and _reload is not None:
        _reload()
    elif _received is None or number == signal.SIGINT:
        _received = _received or number
        raise KeyboardInterrupt


@contextmanager
def reloading(reload: Callable[[], None]) -> Iterator[None]:
    """Meanwhile SIGHUP calls ``reload``, as services expect, unless it comes because the terminal was closed."""
    global _reload
    had_terminal = _has_terminal()

    def hung_up() -> None:
        global _reload
        if had_terminal and not _has_terminal():
            _reload = None
            _interrupt(signal.SIGHUP, None)
        else:
            reload()

    _reload = hung_up
    try:
        yield
    finally:
        _reload = None


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def interrupted() -> int:
    """Exit status of a command that was interrupted: 128 and the signal, as a shell reports it."""
    return 128 + (signal.SIGINT if _received is None else _received)


def signalled() -> bool:
    """Whether one of ENDING came."""
    return _received is not None


def open_streams() -> None:
    """Closed standard streams lead nowhere; else the next file that is opened would have their number.

    What cannot be written to stderr is lost: it says how work goes, and is no part of it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if not _is_open(number):
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))
    sys.stderr = _Unfailing(open(2, "wb", buffering=0, closefd=False), sys.stderr.encoding, "backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


class _Unfailing(io.TextIOWrapper):
    def __init__(self, file: io.FileIO, encoding: str, errors: str):
        super().__init__(file, encoding, errors, line_buffering=True, write_through=True)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return
