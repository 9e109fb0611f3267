"""This process, as the kernel sees it: its threads, its memory and its time."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROMPT_S = (
    10.0  # what ends at once does so by then, however busy the machine is; what it must not wait for lasts longer
)


@contextmanager
def promptly() -> Iterator[None]:
    """The block ends within PROMPT_S."""
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < PROMPT_S


def no_longer(threads: set[int]) -> bool:
    """Whether they end; one that was joined has ended, but Linux lists it until it is taken apart."""
    deadline = time.monotonic() + PROMPT_S
    while threads & statuses().keys() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not threads & statuses().keys()


def statuses() -> dict[int, dict[str, str]]:
    """/proc's status of each thread, by its id; one may end while they are read, and is then left out."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(task.name)] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return found


def address_space_bytes() -> int:
    """What RLIMIT_AS limits."""
    return _pages()[0] * resource.getpagesize()


def resident_bytes() -> int:
    """Memory that it really has."""
    return _pages()[1] * resource.getpagesize()


def _pages() -> list[int]:
    return [int(count) for count in Path("/proc/self/statm").read_text().split()]
