"""``pipeall.cost``: torch modules against what torch itself counts and keeps; files and graphs by the same name."""

import pytest
from test_cost_exports import Attention, exported, kept, network, nn, torch, unit
from torch.utils.flop_counter import FlopCounterMode

import pipeall
from pipeall import ArgumentError, ModelError
from pipeall.cost.training import saved_bytes

MODULES = {
    "residual": (network, (3, 32, 32)),
    "attention": (lambda: nn.Sequential(nn.Conv2d(3, 16, 2, 2), Attention()), (3, 16, 16)),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (9, 16)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 8, 2, 2), nn.GELU(), nn.GroupNorm(2, 8)), (3, 8, 8)),
    "dropout": (lambda: nn.Sequential(unit(3, 8, 5), nn.Flatten(), nn.Dropout(), nn.Linear(512, 4)), (3, 8, 8)),
    "meta": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.AvgPool2d(2)), (3, 8, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_what_torch_says_of_it(name):
    """Multiply-accumulates by torch's counter, saved bytes by its hooks, parameters."""
    build, shape = MODULES[name]
    module = build()
    traced = module if name != "meta" else build().to("meta")
    size = pipeall.cost(traced.eval(), (1, *shape))
    assert not any(part.training for part in traced.modules())
    with FlopCounterMode(display=False) as counter:
        module.train()(torch.zeros(2, *shape))
    assert size.total.macs * 2 * 2 == counter.get_total_flops()
    assert saved_bytes(size.network) == kept(module, *shape) and size.saved_bytes == kept(module, *shape)[0]
    assert size.total.parameters == sum(tensor.numel() for tensor in module.parameters())


def test_a_module_and_its_exports_agree(tmp_path):
    module = network()
    size = pipeall.cost(module, (1, 3, 32, 32))
    file = pipeall.cost(exported(module, tmp_path / "net.onnx"))
    assert file.saved_bytes == size.saved_bytes and file.notes and not size.notes
    assert (file.total.parameters, file.total.macs) == (size.total.parameters, size.total.macs)
    largest = size.largest_batch(1e9)
    assert size.memory(largest).total <= 0.8e9 < size.memory(largest + 1).total


def test_memory_of_training_is_that_of_the_file(tmp_path):
    """By what torch keeps, and by the tables over a file: the same, peak of the backward pass included."""
    module = nn.Sequential(unit(3, 8), nn.MaxPool2d(2), unit(8, 16), nn.Flatten(), nn.Linear(4096, 4))
    file, size = pipeall.cost(exported(module, tmp_path / "net.onnx")), pipeall.cost(module, (1, 3, 32, 32))
    for batch in (1, 64):
        assert size.memory(batch, "adam") == file.memory(batch, "adam")


def test_graphs_have_shapes_of_their_own():
    graph = pipeall.zoo.squeezenet()
    assert pipeall.cost(graph).total.parameters == 1_248_424
    with pytest.raises(ArgumentError, match="a Graph has shapes of its own"):
        pipeall.cost(graph, (1, 3, 227, 227))


class Fickle(nn.Module):
    def forward(self, x):
        return torch.relu(x) if len(x) == 2 else x


@pytest.mark.parametrize(
    "module, shape, kind, words",
    [
        (3, None, ArgumentError, "expected a path, a Graph or a torch.nn.Module, got int"),
        (nn.Linear(4, 4), None, ArgumentError, "a torch module needs it"),
        (nn.Linear(4, 4), (1, 0), ArgumentError, "expected positive sizes"),
        (nn.Linear(4, 4), (1, 5), ArgumentError, "Linear with input_shape .* cannot be traced"),
        (Fickle(), (1, 5), ModelError, "does other things at another batch"),
    ],
)
def test_what_cannot_be_sized(module, shape, kind, words):
    with pytest.raises(kind, match=words):
        pipeall.cost(module, shape)
    with pytest.raises(ArgumentError, match="batch: expected at least 1"):
        pipeall.cost(nn.Linear(4, 4), (1, 4)).memory(0)
