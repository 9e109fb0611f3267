"""What a network costs before anything runs: operations, memory, batch, time, precision, algorithms, threads.

Paper 004 defines the terms. Everything is computed from shapes (``network.Network``), whose weights are never read but
where a file is quantised.
``pipeall.cost(network)`` is this room, called: ``size.cost``.
"""

import sys
from types import ModuleType
from typing import Any

from .size import Size, cost

__all__ = ["Size", "cost"]


class _Callable(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Size:
        return cost(*args, **options)


sys.modules[__name__].__class__ = _Callable
