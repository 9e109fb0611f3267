"""What evaluates the candidates of a search: processes here, ranks of MPI, workers of Dask; by any executor of
``concurrent.futures``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib import import_module
from multiprocessing import get_context

from ..errors import ArgumentError, PipeallError, missing_extra

ANSWER_S = 10  # that Dask's scheduler has to answer


def executor(workers: int = 1, factory: str | None = None) -> Executor | nullcontext:
    """Worker processes on this machine, none for one worker; or an executor by name: "mpi4py.futures:MPIPoolExecutor".

    Raises ArgumentError for a name of another form, MissingExtraError where its package is absent.
    """
    if factory is None:
        return ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else nullcontext()
    module, _, name = factory.partition(":")
    try:
        return getattr(import_module(module), name)()
    except ImportError:
        raise missing_extra(module.split(".")[0], "mpi", f"executor {factory!r}") from None
    except (AttributeError, TypeError, ValueError):
        raise ArgumentError(f"executor: expected MODULE:CLASS of an Executor, got {factory!r}") from None


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers that Dask's scheduler has or will have: they may join, leave and die while a search runs.

    Raises ArgumentError where it is no address, PipeallError where nobody answers there, MissingExtraError without
    ``distributed``.
    """
    try:
        from distributed import Client
    except ImportError:
        raise missing_extra("distributed", "dask", "a search by Dask") from None
    try:
        client = Client(address, timeout=ANSWER_S)
    except ValueError as error:
        raise ArgumentError(f"--dask: expected an address such as tcp://192.168.0.2:8786, got {address!r}") from error
    except OSError:
        raise PipeallError(f"--dask: no scheduler answers at {address} within {ANSWER_S} s") from None
    with client:
        try:
            yield client.get_executor()
        except CancelledError:
            raise PipeallError(f"--dask: the scheduler at {address} is gone; the same command goes on") from None
