"""This process, as the kernel sees it: its threads and its memory."""

import resource
from pathlib import Path


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
