"""Ranks over MPI; the one file that imports mpi4py."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import missing_extra
from .comm import Comm

try:
    from mpi4py import MPI
except ImportError:
    raise missing_extra("mpi4py", "mpi", "training on several ranks") from None

TAG = 0


class _MpiRequest:
    def __init__(self, request: Any, array: np.ndarray):
        self._request, self._array = request, array  # the array lives as long as MPI may touch it

    def test(self) -> bool:
        return self._request.Test()

    def wait(self) -> None:
        self._request.Wait()


class Mpi(Comm):
    """The rank that ``mpirun`` made this process."""

    def __init__(self) -> None:
        super().__init__()
        self._comm = MPI.COMM_WORLD
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def _send(self, to: int, array: np.ndarray) -> _MpiRequest:
        return _MpiRequest(self._comm.Isend([array, MPI.BYTE], to, TAG), array)

    def _receive(self, source: int, array: np.ndarray) -> _MpiRequest:
        return _MpiRequest(self._comm.Irecv([array, MPI.BYTE], source, TAG), array)

    def abort(self, error: BaseException) -> None:
        """Says why on stderr and ends all processes of the job."""
        print(f"error: rank {self.rank} of {self.size}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        self._comm.Abort(2)
