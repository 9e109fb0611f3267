"""A program whose frames a thread of Python computes (native.c)."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipeall.pipeline.devices.network_parts import Place
from pipeall.steps import SLOT_IN

Run = Callable[[dict[int, int]], None]  # a network on slots: the address of each base's memory


class Bridge:
    """``handle``: of a pa_program. ``runs`` are called in turn on a thread of their own; what they raise is the frame's
    error. ``segments``: of each, as parts have them."""

    def __init__(self, runs: Sequence[Run], segments: Sequence[int]):
        self._memory = ctypes.create_string_buffer(native().bridge_bytes())
        self.handle = ctypes.addressof(self._memory)
        ways = (sum(segment < 1 for segment in segments), sum(segment < 2 for segment in segments))
        native().bridge_init(ctypes.c_void_p(self.handle), len(runs), *ways)
        thread = threading.Thread(target=_work, args=(self._memory, list(runs)), name="pa-litert", daemon=True)
        thread.start()
        weakref.finalize(self, _quit, self._memory, thread, os.getpid())


def _work(memory: Any, runs: Sequence[Run]) -> None:
    """The thread: it knows the memory, not the program, which ends it."""
    handle = ctypes.c_void_p(ctypes.addressof(memory))
    bases = [ctypes.c_void_p(), ctypes.c_void_p()]
    ends = [ctypes.c_int32(), ctypes.c_int32()]
    while native().bridge_wait(handle, *map(ctypes.byref, (*bases, *ends))):
        try:
            for number in range(ends[0].value, ends[1].value):
                runs[number]({SLOT_IN + i: base.value for i, base in enumerate(bases)})
                native().bridge_mark(handle, number)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            native().bridge_done(handle, lines[0].encode())
        else:
            native().bridge_done(handle, None)


def _quit(memory: Any, thread: threading.Thread, process: int) -> None:
    """In a fork there is no such thread."""
    if os.getpid() == process:
        native().bridge_quit(ctypes.c_void_p(ctypes.addressof(memory)))
        thread.join()


def view(place: Place, bases: dict[int, int]) -> np.ndarray:
    """A tensor where it lies in a slot, with the axes that TFLite has: NHWC."""
    dtype = np.dtype(place.tensor.dtype)
    memory = (ctypes.c_char * place.nbytes).from_address(bases[place.base] + place.offset_bytes)
    array = np.frombuffer(memory, dtype).reshape(place.stored_shape)
    if place.nhwc:
        return array[..., : place.tensor.shape[1]]
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


@cache
def native() -> ctypes.CDLL:
    (path,) = Path(__file__).parent.glob("_native*.so")
    made = ctypes.CDLL(str(path))
    made.bridge_bytes.restype = ctypes.c_size_t
    made.bridge_done.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    made.bridge_mark.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return made
