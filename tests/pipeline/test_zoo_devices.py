"""Every network of the zoo, whole, on a CPU cluster and on the GPU, against float64."""

from functools import cache

import numpy as np
import pytest
from bounds import classifier_bound
from graphs import ZOO, inputs_of, zoo_net

from pipeall import Board, Engine
from pipeall.errors import DeviceError
from pipeall.graph.ops import run_graph


@pytest.fixture(scope="module")
def detected():
    """The board as it is: also of one core, or without a GPU."""
    return Board.detect()


@cache
def reference(name: str) -> tuple[np.ndarray, float]:
    """Probabilities in float64, and how far from them a device may be: seconds of work, shared by the devices."""
    graph = zoo_net(name)
    values = run_graph(graph, inputs_of(graph), all_tensors=True)
    return values["prob"], classifier_bound(graph, values)


@pytest.mark.parametrize("component", ["big", "gpu"])
@pytest.mark.parametrize("name", ZOO)
def test_zoo_on_every_device(name, component, detected):
    if component == "gpu":
        try:
            detected.component("gpu")
        except DeviceError as error:
            pytest.skip(f"{error}; `pip install pyopencl[pocl]` gives a stand-in for the GPU")
    graph = zoo_net(name)
    with Engine(graph, component, board=detected) as engine:
        got = engine(inputs_of(graph)["data"])
    expected, error = reference(name)
    np.testing.assert_allclose(got, expected, rtol=error)
