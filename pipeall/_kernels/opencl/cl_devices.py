"""OpenCL devices: which there are, which one to use, and kernels built for it. The only module that imports pyopencl.

Without a GPU, the CPU device of PoCL stands in: the same code path, marked ``stand_in`` wherever it is listed.

Compiled programs are kept on disk. A file holds the SHA-256 of a program binary, then the binary; its name is the
SHA-256 of all the binary depends on. It is written once all kernels of the program exist, because Arm's driver
compiles a kernel when it is created, not when its program is built.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ... import env
from ...errors import DeviceError, missing_extra
from . import binaries, caches, drivers

SOURCES = Path(__file__).parent
COMMON = "vector.cl"  # stands before every kernel
PRECISIONS = ("fp32", "mixed", "fp16")  # mixed: stored in half precision, computed in single
OLD_POCL = " (this PoCL is older than the CPU; Debian's package pocl-opencl-icd knows it)"
# PoCL's package on PyPI has wheels for x86-64 alone.
STAND_IN = "pip install 'pyopencl[pocl]'" if os.uname().machine == "x86_64" else "apt-get install pocl-opencl-icd"
HASH_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One OpenCL device; ``index`` counts over all platforms and is what PIPEALL_OPENCL takes."""

    index: int
    platform: str
    name: str
    vendor: str
    driver: str
    compute_units: int
    unified_memory: bool
    fp16: bool
    stand_in: bool  # a CPU, which stands in where there is no GPU

    def __str__(self) -> str:
        return f"{self.name} ({self.platform}{', a CPU standing in for a GPU' if self.stand_in else ''})"


def _pyopencl() -> Any:
    try:
        import pyopencl
    except ImportError as error:
        raise missing_extra("pyopencl", "opencl", "running on a GPU") from error
    return pyopencl


def _handles() -> list[Any]:
    cl = _pyopencl()
    _check_process()
    caches.give_folder()
    drivers.check()
    try:
        platforms = cl.get_platforms()
    except cl.LogicError as error:
        if error.code == cl.status_code.PLATFORM_NOT_FOUND_KHR:
            return []
        raise DeviceError(f"expected a list of OpenCL platforms; got {error}") from error
    return [device for platform in platforms for device in platform.get_devices()]


def devices() -> tuple[DeviceInfo, ...]:
    """All OpenCL devices of this machine.

    Raises MissingExtraError without pyopencl, DeviceError where a driver crashes or hangs (``drivers.py``), and in a
    fork of a process that has used OpenCL.
    """
    cl = _pyopencl()
    return tuple(
        DeviceInfo(
            index=index,
            platform=handle.platform.name.strip(),
            name=handle.name.strip(),
            vendor=handle.vendor.strip(),
            driver=handle.driver_version.strip(),
            compute_units=handle.max_compute_units,
            unified_memory=bool(handle.host_unified_memory),
            fp16="cl_khr_fp16" in handle.extensions.split(),
            stand_in=bool(handle.type & cl.device_type.CPU),
        )
        for index, handle in enumerate(_handles())
    )


def choose(available: tuple[DeviceInfo, ...]) -> DeviceInfo:
    """The device to use: the one PIPEALL_OPENCL names, else a Mali, another GPU, or a CPU as stand-in.

    Raises DeviceError, with what was looked for and what there is, if none fits.
    """
    wanted = env.opencl()
    listed = "; ".join(f"{device.index}: {device}" for device in available) or "none"
    if wanted == "off":
        raise DeviceError(f"OpenCL is switched off by PIPEALL_OPENCL=off; available: {listed}")
    if wanted is None:
        devices = [device for device in available if not device.stand_in] or list(available)
        devices.sort(key=lambda device: "mali" not in device.name.lower())
    elif wanted.isdecimal():
        devices = [device for device in available if device.index == int(wanted)]
    else:
        devices = [d for d in available if wanted in f"{d.vendor}\n{d.name}\n{d.platform}".lower()]
    if not devices:
        looked_for = "an OpenCL device" if wanted is None else f"PIPEALL_OPENCL={wanted} (index, vendor or name)"
        hint = "" if available else f"; {STAND_IN} adds a CPU that stands in"
        raise DeviceError(f"expected {looked_for}; available: {listed}{hint}")
    return devices[0]


def why(device: DeviceInfo, chosen: DeviceInfo) -> str:
    """Why ``choose`` took a device, or another one."""
    if device != chosen:
        return f"{chosen.name} comes first; PIPEALL_OPENCL={device.index} takes this one"
    if env.opencl():
        return f"named by PIPEALL_OPENCL={env.opencl()}"
    if device.stand_in:
        return "no GPU: a CPU stands in for one"
    return "a Mali comes first" if "mali" in device.name.lower() else "the first GPU"


def opened(info: DeviceInfo) -> Device:
    """The device, opened once per process, so that all programs share its compiled kernels.

    Raises DeviceError in a fork of a process that has used OpenCL.
    """
    _check_process()
    return _opened(info)


_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def own(owner: Any) -> None:
    """Says that an object has some of OpenCL's in its attributes: in a fork it is never freed.

    To release them would wait for locks that a driver's thread may have held, and that thread is in the parent only.
    """
    _owners.add(owner)


def _keep_owners() -> None:
    for owner in _owners:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_keep_owners)


def _check_process() -> None:
    """Raises DeviceError in a fork of a process that has used OpenCL, if only to list devices: a driver's threads and
    locks stay behind."""
    if _first_process() != os.getpid():
        raise DeviceError(
            f"OpenCL was used in process {_first_process()}, and a fork cannot use it: fork first, or start processes "
            "by multiprocessing's 'spawn'"
        )


@cache
def _first_process() -> int:
    return os.getpid()


@cache
def _opened(info: DeviceInfo) -> Device:
    return Device(info)


class Device:
    """An opened device: buffers, queues and kernels on it."""

    def __init__(self, info: DeviceInfo):
        self.info = info
        self._cl = _pyopencl()
        self._handle = _handles()[info.index]
        self._context = self._cl.Context([self._handle])
        self._programs: dict[tuple[str, str], Any] = {}
        own(self)

    @property
    def library(self) -> str:
        """Path of the shared library through which this process reaches OpenCL."""
        return self._cl._cl.__file__

    @property
    def recording_platform(self) -> int | None:
        """The platform's handle, where a GPU has cl_khr_command_buffer. PoCL launches faster one by one."""
        has = "cl_khr_command_buffer" in self._handle.extensions.split()
        return self._handle.platform.int_ptr if has and not self.info.stand_in else None

    @property
    def importing_platform(self) -> int | None:
        """The platform's handle, where the device reads a dma-buf of a camera in place: a Mali."""
        has = "cl_arm_import_memory_dma_buf" in self._handle.extensions.split()
        return self._handle.platform.int_ptr if has else None

    @property
    def context(self) -> int:
        """The handle of its context."""
        return self._context.int_ptr

    def queue(self, profile: bool = False) -> Any:
        """A new in-order command queue; ``profile``: its events tell when their commands ran."""
        properties = self._cl.command_queue_properties.PROFILING_ENABLE if profile else 0
        return self._cl.CommandQueue(self._context, self._handle, properties)

    @cached_property
    def _transfer_queue(self) -> Any:
        return self.queue()

    def allocate(self, nbytes: int, host: bool = False) -> Any:
        """A buffer of at least one byte, writable by both sides; ``host``: in memory the CPU can map without a copy.

        Raises DeviceError if the device has no room for it.
        """
        flags = self._cl.mem_flags.READ_WRITE
        limit = self._handle.max_mem_alloc_size
        if nbytes > limit:
            raise DeviceError(f"{self.info}: expected a buffer of at most {limit} bytes; needed {nbytes}")
        try:
            if host:
                flags |= self._cl.mem_flags.ALLOC_HOST_PTR
            return self._cl.Buffer(self._context, flags, size=max(nbytes, 1))
        except self._cl.Error as error:
            raise DeviceError(f"{self.info}: no buffer of {nbytes} bytes: {error}") from error

    def upload(self, array: np.ndarray, dtype: Any = np.float32, transform: np.ndarray | None = None) -> Any:
        """A buffer with a copy of the array as dtype; ``transform`` (m, len(array)) is multiplied with it on the way.

        Weights are large: they are written where they shall be, straight from where they lie, in whatever order.
        """
        shape = array.shape if transform is None else (len(transform), *array.shape[1:])
        buffer = self.allocate(prod(shape) * np.dtype(dtype).itemsize)
        queue, flags = self._transfer_queue, self._cl.map_flags.WRITE_INVALIDATE_REGION
        mapped, _ = self._cl.enqueue_map_buffer(queue, buffer, flags, 0, shape, dtype)
        if transform is None:
            mapped[...] = array
        else:
            np.matmul(transform, array.reshape(len(array), -1), out=mapped.reshape(len(transform), -1))
        mapped.base.release(queue)
        return buffer

    def kernel(self, file: str, name: str, **defines: int | str) -> tuple[Any, tuple[int, ...]]:
        """A new kernel object of ``file`` and its work-group size; ``defines`` set the file's parameters.

        Raises DeviceError with the compiler's log if the file does not build.
        """
        options = _options(defines)
        if (file, options) not in self._programs:
            self._programs[file, options] = self._program(file, options)
        kernel = self._cl.Kernel(self._programs[file, options], name)
        size = self._cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE
        return kernel, tuple(kernel.get_work_group_info(size, self._handle))

    def _program(self, file: str, options: str) -> Any:
        text = source(COMMON) + source(file)
        platform = self._handle.platform
        key = (text, options, self.info.name, self.info.driver, platform.name, platform.version)
        path = env.cache_dir() / "opencl" / (hashlib.sha256("\0".join(key).encode()).hexdigest() + ".bin")
        program = self._load(path, options)
        if program is None:
            program = self.build(file, text, options)
            program.all_kernels()
            (binary,) = program.get_info(self._cl.program_info.BINARIES)
            _write(path, hashlib.sha256(binary).digest() + binary)
        return program

    def build(self, file: str, text: str, options: str) -> Any:
        """The compiled program, past the cache. Raises DeviceError with the compiler's log."""
        try:
            return self._quietly(self._cl.Program(self._context, text), options, cache_dir=False)
        except self._cl.Error as error:
            hint = OLD_POCL if "unknown target CPU" in str(error) else ""
            raise DeviceError(
                f"{file} does not build for {self.info} with options {options!r}{hint}: {error}"
            ) from error

    def _load(self, path: Path, options: str) -> Any | None:
        """The program in a cache file; None if there is no such file, it is damaged, or the driver refuses it."""
        try:
            content = path.read_bytes()
        except OSError:
            return None
        binary = content[HASH_BYTES:]
        if not binary or hashlib.sha256(binary).digest() != content[:HASH_BYTES]:
            return None
        device = (self.info.name, self.info.driver, self.info.platform, self._handle.platform.version)
        if not binaries.taken_back(device, self.info.index, path, HASH_BYTES, options):
            return None
        try:
            return self._quietly(self._cl.Program(self._context, [self._handle], [binary]), options)
        except self._cl.Error:
            return None

    def _quietly(self, program: Any, options: str, **arguments: Any) -> Any:
        """Builds without pyopencl's warning that the compiler said something: PoCL does so when all is well."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._cl.CompilerWarning)
            return program.build(options, **arguments)


@cache
def source(file: str) -> str:
    """The text of a file of kernels, with that of the files it includes."""
    text = (SOURCES / file).read_text()
    return re.sub(r'^#include "(\w+\.cl)"$', lambda match: source(match[1]), text, flags=re.MULTILINE)


def _options(defines: Mapping[str, int | str]) -> str:
    return " ".join(["-cl-std=CL1.2", "-w", *(f"-D{name}={value}" for name, value in sorted(defines.items()))])


def _write(path: Path, content: bytes) -> None:
    """Writes a cache file so that readers see it whole or not at all; a folder that cannot be written is a warning."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.stem, suffix=".tmp", delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError as error:
        warnings.warn(f"compiled OpenCL programs are not kept: {error}", RuntimeWarning, stacklevel=2)
