"""``pipeall.cost``: torch modules against what torch itself counts and keeps; files and graphs by the same name."""

import warnings

import pytest

pytest.importorskip("torch", reason="the reference: pip install torch")

from sam_nets import Encoder
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch_modules import Attention, exported, kept, network, nn, torch, unit

import pipeall
from pipeall import ArgumentError, ModelError
from pipeall.sizing.training import saved_bytes

MODULES = {
    "residual": (network, (3, 32, 32)),
    "attention": (lambda: nn.Sequential(nn.Conv2d(3, 16, 2, 2), Attention()), (3, 16, 16)),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (9, 16)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 8, 2, 2), nn.GELU(), nn.GroupNorm(2, 8)), (3, 8, 8)),
    "dropout": (lambda: nn.Sequential(unit(3, 8, 5), nn.Flatten(), nn.Dropout(), nn.Linear(512, 4)), (3, 8, 8)),
    "sam": (lambda: Encoder(64, 16, 2, 2, 3, whole=(1,), out=8), (3, 64, 64)),
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


class Words(nn.Module):
    """Integers in, and a constant that is made on the way and belongs to no part."""

    def __init__(self):
        super().__init__()
        self.embedding, self.scale = nn.Embedding(50, 16), torch.full((16,), 2.0)
        self.rest = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 50))

    def forward(self, ids):
        return self.rest(self.embedding(ids) * self.scale)


@pytest.mark.parametrize("given", [torch.zeros(1, 9, dtype=torch.long), {"ids": torch.zeros(1, 9, dtype=torch.long)}])
def test_a_text_is_given_by_a_tensor(given):
    module = Words()
    size = pipeall.cost(module, given)
    with FlopCounterMode(display=False) as counter:
        module.train()(torch.zeros(2, 9, dtype=torch.long))
    assert size.total.macs * 2 * 2 == counter.get_total_flops()
    assert saved_bytes(size.network) == kept(module, 9, dtype=torch.long)
    with pytest.raises(ArgumentError, match="cannot be traced"):
        pipeall.cost(module, (1, 9))  # floats are no words


def test_a_module_and_its_exports_agree(tmp_path):
    module = network()
    size = pipeall.cost(module, (1, 3, 32, 32))
    file = pipeall.cost(exported(module, tmp_path / "net.onnx"))
    assert file.saved_bytes == size.saved_bytes and file.notes and not size.notes
    assert (file.total.parameters, file.total.macs) == (size.total.parameters, size.total.macs)
    largest = size.largest_batch(1e9)
    assert size.memory(largest).total <= 0.8e9 < size.memory(largest + 1).total


def test_attention_in_windows_is_counted_by_file_too(tmp_path):
    """SAM's encoder: padded windows, relative positions by einsum; 4 x 4 tokens in windows of 3 x 3."""
    module = Encoder(64, 16, 2, 2, 3, whole=(1,), out=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (torch.zeros(1, 3, 64, 64),), tmp_path / "sam.onnx", dynamo=False)
    file, size = pipeall.cost(tmp_path / "sam.onnx"), pipeall.cost(module, (1, 3, 64, 64))
    assert file.total.macs == size.total.macs
    assert abs(file.saved_bytes / size.saved_bytes - 1) < 0.1 or file.notes


def test_fused_attention_is_counted():
    """As torch's counter does where it is taken apart; what CPUs run else that does not count."""
    module = nn.MultiheadAttention(16, 2, batch_first=True)
    attention = Acting(lambda x: module(x, x, x, need_weights=False)[0])
    attention.module = module
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        attention(torch.zeros(2, 9, 16))
    products = 9 * 16 * (48 + 16) + 2 * 2 * 9 * 9 * 8
    assert pipeall.cost(attention, (1, 9, 16)).total.macs == counter.get_total_flops() // 2 // 2 == products


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


class Acting(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


def refuses(x):
    raise AssertionError("the module's own")


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (refuses, AssertionError, "^the module's own$"),
        (lambda x: x + len(3), TypeError, "^object of type 'int' has no len"),
        (lambda x: [][1], IndexError, "out of range"),
        (lambda x: x if x.sum() > 0 else -x, ArgumentError, "Acting with input_shape .* course depends on numbers"),
        (lambda x: x[x.nonzero()], ArgumentError, r"its course depends on numbers \(aten.nonzero"),
        (lambda x: x.numpy(), ArgumentError, "cannot be traced: .*numpy"),
        (lambda x: torch.zeros(2).view(3), ArgumentError, "cannot be traced: shape"),
        (lambda x: nn.BatchNorm2d(4)(x), ArgumentError, "cannot be traced: expected 4D input"),
    ],
)
def test_errors_of_a_module_are_its_own_and_those_of_torch_are_named(act, kind, words):
    with pytest.raises(kind, match=words) as caught:
        pipeall.cost(Acting(act), (1, 4))
    assert kind is not ArgumentError or caught.value.__cause__ is not None


def test_inputs_that_forward_does_not_take():
    for shapes in ({"x": (1, 4), "z": (1, 4)}, {"y": (1, 4)}):
        with pytest.raises(ArgumentError, match="input_shape: Acting.forward takes x: "):
            pipeall.cost(Acting(torch.relu), shapes)


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
    with pytest.raises(ArgumentError, match="batch: expected a whole number from 1"):
        pipeall.cost(nn.Linear(4, 4), (1, 4)).memory(0)
