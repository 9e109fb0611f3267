"""Every case of the table, as an engine runs it on the CPU: lowered, on the kernels, within the bounds of its op."""

import numpy as np
import pytest
from bounds import bound

from pipeall import Board, Engine
from pipeall._kernels.cpu.algorithms import GEMM
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.pipeline.devices.cpu import tune_cpu


@pytest.fixture
def cpu(monkeypatch):
    """Convolutions are sums of products: Winograd's and Strassen's have bounds and tests of their own."""
    monkeypatch.setattr(tune_cpu, "modelled", lambda *_: GEMM)
    return Board.detect(gpu=False)


def on_threads(device, graph, inputs, threads):
    """The output's bytes from that many threads, which need no cores of their own."""
    lowered = lower(graph)
    program = device.with_cores((-1,) * threads).compile(lowered, "cases")
    slot = np.zeros(lowered.slot_in_bytes, np.uint8)
    for tensor in lowered.slot_in:
        content = np.ascontiguousarray(inputs[tensor.name]).reshape(-1).view(np.uint8)
        slot[tensor.offset_bytes : tensor.offset_bytes + content.size] = content
    (tensor,) = lowered.slot_out
    return program.run(slot)[tensor.offset_bytes :][: graph.outputs[0].nbytes].tobytes()


@pytest.mark.parametrize("op", CASES)
def test_engine_agrees_with_reference(op, cpu):
    for case in CASES[op]:
        graph, inputs = case_graph(case)
        with Engine(graph, "big", board=cpu, threads=1) as engine:
            found = engine(inputs)
        assert str(found.dtype) == graph.outputs[0].dtype, case
        assert found.tobytes() == on_threads(cpu.components["big"].device, graph, inputs, 3), (
            f"{case}: 3 threads give another result"
        )
        with np.errstate(all="ignore"):
            expected = run_graph(graph, inputs)["y"]
            error, allowed = np.abs(found.astype(np.float64) - expected), bound(graph, inputs, expected)
        assert found.shape == expected.shape, case
        same = (found == expected) | (np.isnan(expected) & np.isnan(found)) | (error <= allowed)
        assert same.all(), f"{case}: error {error[~same].max():.3g}, allowed {allowed[~same].min():.3g}"
