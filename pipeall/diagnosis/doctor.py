"""``doctor``: what this machine has, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..arguments import checked, optional, path, switch
from ..errors import ArgumentError, PipeallError
from .clocks_and_heat import clocks, heat
from .examined_machine import Machine
from .findings import Diagnosis, Section
from .nodes import cameras, npus
from .opencl import opencl
from .processors import clusters, memory, shares
from .self_test import self_test
from .software import cache, versions

Examine = Callable[[Machine, Section], None]
TOPICS: tuple[tuple[str, tuple[Examine, ...]], ...] = (
    ("Software", (versions, cache)),
    ("Processors", (clusters, shares, memory)),
    ("Clocks", (clocks,)),
    ("Heat", (heat,)),
    ("GPU and OpenCL", (opencl,)),
    ("Cameras and NPUs", (cameras, npus)),
)
SELF_TEST = ("Self-test", (self_test,))


@checked(self_test=switch, root=optional(path))
def doctor(self_test: bool = True, *, root: str | Path | None = None) -> Diagnosis:
    """What this machine has for pipeall, and what is wrong with it.

    It writes nothing but what the cache keeps of the networks that it runs, and takes some 20 s.

    Parameters
    ----------
    self_test
        Whether to try kernels, memory, a pipeline of three stages and a picture through the GPU.
    root
        Folder with sys/, proc/, dev/ and etc/ of another machine, which is read only. Default: PIPEALL_SYSFS, else "/".

    Returns
    -------
    Diagnosis
        ``ok``, ``faults``, ``sections``; ``str`` of it is a page without names of users, machines or home folders.

    Raises
    ------
    ArgumentError
        Where the root is no folder.
    """
    if root is not None and not Path(root).is_dir():
        raise ArgumentError(f"root: expected a folder with sys/ and proc/; got {str(root)!r}")
    machine = Machine(None if root is None else Path(root))
    topics = (*TOPICS, SELF_TEST) if self_test else TOPICS
    return Diagnosis(tuple(_examined(machine, title, parts) for title, parts in topics))


def _examined(machine: Machine, title: str, parts: tuple[Examine, ...]) -> Section:
    """A part that cannot go on is a fault, and the others follow."""
    section = Section(title)
    for part in parts:
        try:
            part(machine, section)
        except (PipeallError, OSError) as error:
            section.fault(f"{title}: {error}", "put that right, or report this page")
    return section
