"""Who multiplies: pipeall's kernels (float32), NumPy (float32, float64), or nobody, where only messages are counted.

A dense engine allocates a matrix and binds a fully connected layer to its arrays, as ``Dense`` of the kernels does:
weight (m, k), x and dx (k, samples), z and dz (m, samples).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError

CHUNK = 2**22  # elements of a temporary product


class DenseEngine(Protocol):
    """Computes dense layers. ``name``: of the engine; ``dtype``: of its arrays."""

    name: str
    dtype: np.dtype

    def zeros(self, *shape: int) -> np.ndarray: ...

    def dense(
        self, weight: np.ndarray, bias: np.ndarray | None, x: np.ndarray, z: np.ndarray, dz: np.ndarray, dx: np.ndarray
    ) -> Any: ...


class Kernels:
    """pipeall's own kernels on ``threads`` threads."""

    name = "pipeall"
    dtype = np.dtype(np.float32)

    def __init__(self, threads: int = 1):
        from .._kernels.cpu import cluster
        from .._kernels.cpu.kernels import Crew
        from .._kernels.cpu.self_check import checked

        self._crew = Crew(checked(cluster.detect()[0]), threads)

    def zeros(self, *shape: int) -> np.ndarray:
        from .._kernels.buffers import aligned

        return aligned(int(np.prod(shape))).reshape(shape)

    def dense(self, weight, bias, x, z, dz, dx):
        from .._kernels.cpu.kernels import Dense

        return Dense(self._crew, weight, bias, x, z, dz, dx)


class Numpy:
    """NumPy's BLAS."""

    name = "numpy"

    def __init__(self, dtype: np.dtype):
        self.dtype = np.dtype(dtype)

    def zeros(self, *shape: int) -> np.ndarray:
        return np.zeros(shape, self.dtype)

    def dense(self, weight, bias, x, z, dz, dx):
        return _NumpyDense(weight, bias, x, z, dz, dx)


class _NumpyDense:
    def __init__(self, weight, bias, x, z, dz, dx):
        self.weight, self.bias, self.x, self.z, self.dz, self.dx = weight, bias, x, z, dz, dx

    def forward(self) -> None:
        np.matmul(self.weight, self.x, out=self.z)
        if self.bias is not None:
            self.z += self.bias[:, None]

    def input_gradient(self) -> None:
        np.matmul(self.weight.T, self.dz, out=self.dx)

    def accumulate(self, target: np.ndarray, alpha: float, begin: int, end: int) -> None:
        step = max(1, CHUNK // max(1, target.shape[1]))
        for row in range(begin, end, step):
            rows = slice(row, min(row + step, end))
            target[rows] += (self.weight.dtype.type(alpha) * self.dz[rows]) @ self.x.T

    def backward(self, alpha: float) -> None:
        self.input_gradient()
        self.accumulate(self.weight, alpha, 0, len(self.weight))


class Nobody:
    """Shapes alone: a matrix takes no memory and no product is made, so that a network of any size can be counted."""

    name = "none"
    dtype = np.dtype(np.float32)

    def zeros(self, *shape: int) -> np.ndarray:
        return np.broadcast_to(self.dtype.type(0), shape) if len(shape) == 2 else np.zeros(shape, self.dtype)

    def dense(self, weight, bias, x, z, dz, dx):
        return self

    def forward(self) -> None:
        pass

    def input_gradient(self) -> None:
        pass

    def accumulate(self, target: np.ndarray, alpha: float, begin: int, end: int) -> None:
        pass

    def backward(self, alpha: float) -> None:
        pass


def engine_of(name: str, dtype: str, threads: int) -> DenseEngine:
    """The engine of that name. Raises ArgumentError for an unknown name or element type, or a pair that does not go."""
    if dtype not in ("float32", "float64"):
        raise ArgumentError(f"dtype: expected float32 or float64, got {dtype!r}")
    if name == "pipeall":
        if dtype != "float32":
            raise ArgumentError(
                f"dtype: expected float32, which pipeall's kernels compute; got {dtype} (engine numpy has it)"
            )
        return Kernels(threads)
    if name == "numpy":
        return Numpy(np.dtype(dtype))
    if name == "none":
        return Nobody()
    raise ArgumentError(f"engine: expected pipeall, numpy or none; got {name!r}")
