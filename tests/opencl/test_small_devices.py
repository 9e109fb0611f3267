"""Devices that can do little, emulated by a library in between: networks are right there, or refused in a line."""

import pytest
from build_trees import REPOSITORY, WITH_TESTS, run
from preload import built

SCRIPT = """
from dataclasses import replace
from math import prod
import numpy as np
import pyopencl as cl
from pipeall import Board, DeviceError, Engine, zoo
from pipeall._kernels.opencl import cl_devices
from pipeall._kernels.opencl.launches import record
from pipeall.graph.lower.lower import lower
from graphs import Net

board = Board.detect()
device = cl_devices.opened(board.components["gpu"].device.info)
seen = [one for platform in cl.get_platforms() for one in platform.get_devices()][device.info.index]
assert seen.max_work_group_size == 64 and seen.extensions == "cl_khr_byte_addressable_store"
graph = zoo.squeezenet()
x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
with Engine(graph, "gpu", board) as gpu, Engine(graph, "big", board) as big:
    print(float(np.abs(gpu(x) - big(x)).max()))
as_gpu = cl_devices.Device(replace(device.info, stand_in=False))
groups = {prod(group) for of in (device, as_gpu) for *_, group in record(lower(graph, int8=False), of).commands}
print(max(groups))
net = Net((1, 2100))
try:
    Engine(net.graph(net.fc("x0", 8000)), "gpu", board)
except DeviceError as error:
    print(error)
"""


def test_a_device_without_extensions_and_with_little_of_all(opencl_info, tmp_path):
    library = built("small_device", tmp_path, "-ldl")
    variables = WITH_TESTS | {"LD_PRELOAD": str(library), "PIPEALL_CACHE": str(tmp_path / "cache")}
    off, largest, refused = run(REPOSITORY, "-W", "ignore", "-c", SCRIPT, **variables).splitlines()
    assert float(off) == pytest.approx(0, abs=1e-4) and int(largest) <= 64
    assert "expected a buffer of at most 67108864 bytes" in refused
