"""Fine-tuning: torch computes what NumPy's references do, learns, and keeps the zeros."""

from dataclasses import replace

import numpy as np
import pytest
from pruning_nets import by_onnxruntime, classifier, samples

from pipeall import Engine, ModelError, prune
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.ops import run_graph

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")

from pipeall.pruning import fine_tune, torch_graph  # noqa: E402


@pytest.mark.parametrize("op", sorted({*torch_graph.RUN} - {"resize"}))
def test_torch_computes_as_numpy(op):
    """Both in float64, for one sample: the tolerance is a thousand roundings of the largest result."""
    cases = [case for case in CASES[op] if {*case.types} <= {"float32"} and case.shapes[0][:1] == (1,)]
    assert cases
    for case in cases:
        graph, inputs = case_graph(case)
        wide, constants = (
            {name: array.astype(np.float64) for name, array in arrays.items()} for arrays in (inputs, graph.constants)
        )
        graph = replace(graph, constants=constants)
        given = {name: torch.from_numpy(array) for name, array in (wide | constants).items()}
        if graph.outputs[0].shape[:1] != (1,):
            continue  # samples of a batch are mixed: such networks are refused by what they answer
        made = torch_graph.computed(graph, {}, given)[graph.outputs[0].name].numpy()
        (expected,) = run_graph(graph, wide).values()
        allowed = 2e-13 * max(1, np.abs(expected).max())
        np.testing.assert_allclose(made, expected, rtol=0, atol=allowed, err_msg=str(case))


@pytest.fixture
def one_thread():
    """Small layers are computed sooner so, above all where other tests run beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_it_learns_and_keeps_the_zeros(tmp_path, monkeypatch):
    """150 steps, whatever they take, bring the answers nearer to those of the dense network."""
    graph, times = classifier(), iter(range(10**6))
    monkeypatch.setattr(fine_tune, "monotonic", lambda: next(times))
    before = prune(graph, samples(graph), sparsity=0.7)
    after = prune(graph, samples(graph), sparsity=0.7, fine_tune=150 / 60)
    dense = np.array([Engine(graph)(x) for x in samples(graph)])
    errors = []
    for made in (before, after):
        made.save(tmp_path / "net.onnx")
        errors.append(np.square(by_onnxruntime(tmp_path / "net.onnx", samples(graph)) - dense).sum())
    assert errors[1] < 0.7 * errors[0]
    for node in before.graph.nodes:
        for name in node.inputs[1:2]:
            assert np.array_equal(before.graph.constants[name] == 0, after.graph.constants[name] == 0)


def test_networks_that_torch_computes_otherwise(monkeypatch):
    monkeypatch.setitem(torch_graph.RUN, "fc", lambda attrs, shape, x, weight, bias: x.flatten(1) @ weight.T)
    graph = classifier()
    with pytest.raises(ModelError, match=r"torch differs by [\d.]+: it cannot be fine-tuned"):
        prune(graph, samples(graph), fine_tune=0.1)
    monkeypatch.delitem(torch_graph.RUN, "fc")
    with pytest.raises(ModelError, match="node 'fc6': fc is not among what is fine-tuned"):
        prune(graph, samples(graph), fine_tune=0.1)
