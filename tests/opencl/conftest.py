"""Devices of the tests of OpenCL."""

from dataclasses import replace

import pytest

from pipeall._kernels.opencl import cl_devices as opencl


@pytest.fixture(scope="module")
def device(opencl_info):
    return opencl.Device(opencl_info)


@pytest.fixture(scope="module")
def tiled_as_gpu(opencl_info):
    """The same device under the kernel parameters of a GPU."""
    return opencl.Device(replace(opencl_info, stand_in=False))
