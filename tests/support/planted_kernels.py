"""Kernels of this process that are wrong: the first instructions of one are replaced, in memory alone."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from platform import machine

from pipeall._kernels.cpu import kernels

RETURN = {"x86_64": b"\xc3", "aarch64": bytes.fromhex("c0035fd6")}[machine()]  # at once: nothing is computed
READ, WRITE, EXECUTE = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC


def jump(address: int) -> bytes:
    """To a function of the same type."""
    if machine() == "x86_64":
        return b"\x48\xb8" + address.to_bytes(8, "little") + b"\xff\xe0"  # mov rax, address; jmp rax
    return bytes.fromhex("5000005800021fd6") + address.to_bytes(8, "little")  # ldr x16, 8; br x16; address


@contextmanager
def planted(kernel: str, code: bytes = RETURN) -> Iterator[None]:
    """Inside of it the kernel of a line of kernels.inc runs ``code``."""
    begin = ctypes.cast(getattr(ctypes.CDLL(kernels.__file__), f"pa_{kernel}"), ctypes.c_void_p).value
    before = ctypes.string_at(begin, len(code))
    _write(begin, code)
    try:
        yield
    finally:
        _write(begin, before)


def _write(begin: int, code: bytes) -> None:
    """Memory that becomes executable again is fetched anew by the processor."""
    page = begin // mmap.PAGESIZE * mmap.PAGESIZE
    size = begin + len(code) - page
    _protect(page, size, READ | WRITE)
    ctypes.memmove(begin, code, len(code))
    _protect(page, size, READ | EXECUTE)


def _protect(page: int, size: int, protection: int) -> None:
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(size), protection):
        raise OSError(ctypes.get_errno(), "mprotect")
