"""What a run may leave behind."""

from __future__ import annotations

import ctypes
import gc
import os
import time
import weakref
from collections import Counter
from contextlib import ExitStack

import pytest
from cl_faults import in_between
from process import statuses

from pipeall.pipeline.devices.opencl import opencl_program


class Watched:
    """Threads, descriptors, and what OpenCL holds for us, of the runs in its ``with`` block."""

    def __init__(self) -> None:
        self._objects = weakref.WeakSet()
        self._stack = ExitStack()

    def _noting(self, init):
        def noted(made, *args, **kwargs):
            self._objects.add(made)
            init(made, *args, **kwargs)

        return noted

    def __enter__(self) -> Watched:
        self.shim = self._stack.enter_context(in_between())
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        for owner in (opencl_program.Slot, opencl_program.ClProgram):
            patch.setattr(owner, "__init__", self._noting(owner.__init__))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def left(self) -> Counter[str]:
        """How many of each there are."""
        gc.collect()
        alive = {name: ctypes.c_int.in_dll(self.shim, f"cl_faults_{name}").value for name in ("events", "mappings")}
        threads = Counter(f"thread {status['Name']}" for status in statuses().values())
        return threads + Counter(
            alive | {"descriptors": len(os.listdir("/proc/self/fd")), "objects": len(self._objects)}
        )

    def check(self, before: Counter[str]) -> None:
        """Nothing more is left than before; the kernel takes a moment to bury a thread that has been joined."""
        for _ in range(100):
            more = self.left() - before
            if not more:
                return
            time.sleep(0.01)
        raise AssertionError(f"left behind: {dict(more)}")
