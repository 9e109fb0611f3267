"""The threads of this process, as the kernel sees them."""

from pathlib import Path


def statuses() -> dict[int, dict[str, str]]:
    """/proc's status of each, by its id; a thread may end while they are read, and is then left out."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(task.name)] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return found
