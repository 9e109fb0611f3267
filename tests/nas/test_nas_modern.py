"""The modern space: networks against torch's own modules, exports against onnxruntime, training in bfloat16."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from commands import BOARD, document, invoke
from nas_nets import blobs

from pipeall import ArgumentError, Engine, load
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.nas.placement import Limits, Target, place
from pipeall.nas.spaces.genome import SOURCE, Architecture, Hyper, identity
from pipeall.nas.spaces.mobile_space import resnet20
from pipeall.nas.spaces.modern_space import ModernSpace
from pipeall.nas.spaces.network_blocks import PARTS, Builder
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.weighted_network import HEAD, create, to_graph

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")
pytest.importorskip("onnx", reason="needs pipeall[onnx]")

from pipeall.nas.training import training_loop  # noqa: E402
from pipeall.nas.training.training_loop import calibrated, predict, train  # noqa: E402

SPACE = ModernSpace(2, (4, 6, 8, 10), side=8)
HYPER = Hyper(0.05, 0.9, 3, 0.0, 0.0)
RECIPE = TrainingRecipe(batch=8)


def small():
    """A block of each kind: residual in two groups with a gate, ConvNeXt's, and CPUBone's of 2 x 2 and stride 2."""
    build = Builder(PARTS)
    x = build.conv((0, 0), SOURCE, 4, 3)
    x = build.residual((1, 0), x, 4, 4, 3, 1, 2, True)
    x = build.convnext((2, 0), x, 4, 4, 5, 1, 3)
    build.grouped((3, 0), x, 4, 6, 2, 2, 4, 2, True)
    return Architecture("mobile", tuple(build.blocks))


class Small(torch.nn.Module):
    """The same in torch's modules, batch normalization as in predictions."""

    def __init__(self):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.layers = torch.nn.ModuleDict(
            {
                "stem": conv(1, 4, 3, padding=1, bias=False),
                "first": conv(4, 4, 3, padding=1, groups=2, bias=False),
                "squeeze": conv(4, 1, 1),
                "excite": conv(1, 4, 1),
                "second": conv(4, 4, 3, padding=1, bias=False),
                "depthwise": conv(4, 4, 5, padding=2, groups=4, bias=False),
                "expand": conv(4, 12, 1, bias=False),
                "narrow": conv(12, 4, 1, bias=False),
                "grouped": conv(4, 16, 2, stride=2, groups=2, bias=False),
                "squeeze2": conv(16, 1, 1),
                "excite2": conv(1, 16, 1),
                "project": conv(16, 6, 1, bias=False),
                "head": torch.nn.Linear(6, 3),
            }
        )
        self.norms = torch.nn.ModuleDict(
            {name: norm(layer.out_channels) for name, layer in self.layers.items() if layer.bias is None}
        )

    def __getitem__(self, name):
        layer = self.layers[name]
        return lambda x: self.norms[name](layer(x)) if name in self.norms else layer(x)

    def gated(self, x, squeeze, excite):
        gate = self[excite](self[squeeze](x.mean((2, 3), keepdim=True)).relu())
        return x * torch.clamp(gate / 6 + 0.5, 0, 1)

    def forward(self, x):
        x = self["stem"](x).relu()
        inner = self.gated(self["first"](x).relu(), "squeeze", "excite")
        x = (self["second"](inner) + x).relu()
        x = x + self["narrow"](self["expand"](self["depthwise"](x)).relu())
        padded = torch.nn.functional.pad(x, (0, 1, 0, 1))  # one pixel behind each row and column
        x = self["project"](self.gated(self["grouped"](padded).relu(), "squeeze2", "excite2"))
        return self["head"](x.mean((2, 3)))


def test_networks_compute_what_torchs_modules_do():
    """After a training, with the weights copied. Float32 sums of some hundred terms: 1e-5 of probabilities."""
    data = blobs(pictures=True)
    network = calibrated(train(create(small(), data, 1), data.train, HYPER, 0, RECIPE)[0], data.train.x)
    model = Small().eval()
    with torch.no_grad():
        indices = [block.index for block in network.architecture.blocks] + [HEAD]
        for (name, layer), index in zip(model.layers.items(), indices, strict=True):
            weight, bias, *norm = map(torch.tensor, network.weights[index])
            layer.weight.copy_(weight)
            if not norm:
                layer.bias.copy_(bias)
                continue
            own = model.norms[name]
            for target, value in zip(
                (own.bias, own.weight, own.running_mean, own.running_var), (bias, *norm), strict=True
            ):
                target.copy_(value)
        expected = model(torch.tensor(data.test.x)).softmax(1)
    np.testing.assert_allclose(predict(network, data.test.x), expected, atol=1e-5)


def test_presets_are_known_networks():
    """ResNet-20's convolutions, ConvNeXt's 7 x 7 and CPUBone's 2 x 2 in two groups; a space of one kind has its own."""
    space = ModernSpace()
    resnet, convnext, cpubone, *wider = [space.decode(bits).blocks for bits in space.presets]
    assert [replace(block, index=0, inputs=(), added=None) for block in resnet] == [
        replace(block, index=0, inputs=(), added=None) for block in resnet20().blocks
    ]
    assert {block.kernel for block in convnext if block.depthwise} == {7}
    assert [(block.kernel, block.groups) for block in cpubone[1::2]] == [(2, 2)] * 9
    assert len(wider) == 9
    for kind, first in (("residual", resnet), ("convnext", convnext), ("grouped", cpubone)):
        alone = ModernSpace(blocks=kind)
        assert len(alone.presets) == 4 and alone.decode(alone.presets[0]).blocks == first


def test_groups_divide_what_channels_there_are():
    """Eight groups of 4 and 12 channels are four, of 5 none."""
    for channels, groups in ((4, 4), (12, 4), (5, 1)):
        build = Builder(PARTS)
        x = build.conv((0, 0), SOURCE, channels, 3)
        build.grouped((1, 0), x, channels, channels, 2, 1, 2, 8, False)
        build.residual((2, 0), build.blocks[-1].index, channels, channels, 3, 1, 8)
        assert [block.groups for block in build.blocks if block.kernel > 1] == [1, groups, groups, 1]


def test_of_a_mobile_network_the_identity_is_as_before():
    """Seeds and names of files follow from it: the digest is of the text when convolutions had no groups yet."""
    digest = sha256(identity(resnet20(), (1, 1, 1)).encode()).hexdigest()
    assert digest.startswith("f46dd08096b7ab2e") and "groups=2" in identity(small(), (1, 1, 1))


@pytest.mark.parametrize("seed", range(4))
def test_an_export_computes_what_was_trained(tmp_path, seed):
    """As of mobile networks: on pipeall's engine and on onnxruntime, within float32 rounding of some twenty layers."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    data, random = blobs(pictures=True), np.random.default_rng(seed)
    architecture = SPACE.decode(SPACE.random(random)) if seed else small()
    network = train(create(architecture, data, seed), data.train, HYPER, seed, RECIPE)[0]
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx_bytes(to_graph(network, data)))
    graph, expected = load(path), predict(network, data.test.x[:5])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    engine = Engine(graph, "big", board=BOARD)
    for x, wanted in zip(data.test.x[:5], expected, strict=True):
        np.testing.assert_allclose(engine(x[None])[0], wanted, atol=2e-5)
        np.testing.assert_allclose(session.run(None, {"input": x[None]})[0][0], wanted, atol=2e-5)


def test_a_board_prices_every_kind_of_block():
    """Convolutions in groups among them; fewer blocks are faster."""
    data, target = blobs(pictures=True), Target("rpi5", limits=Limits(min_fps=1.0))
    for bits in SPACE.presets[:3]:
        shallow = list(bits)
        for level in SPACE.levels[1:]:
            shallow[level[2]] = 0
        fps = [
            place(to_graph(create(SPACE.decode(code), data, 0), data), target).choice.prediction.fps
            for code in (bits, shallow)
        ]
        assert fps[0] < fps[1]


def test_of_other_groups_nothing_is_inherited():
    data = blobs(pictures=True)
    parent = create(small(), data, 0)
    blocks = tuple(replace(block, groups=1) if block.groups > 1 else block for block in small().blocks)
    child, fresh = (create(Architecture("mobile", blocks), data, 1, old) for old in (parent, None))
    for old, new in zip(small().blocks, blocks, strict=True):
        expected = fresh if old.groups > 1 else parent
        assert (child.weights[new.index][0] == expected.weights[new.index][0]).all()


# ---- bfloat16 ----


def test_bfloat16_trains_nearly_as_float32():
    """A number rounded to 8 bits is off by 2^-9: by far less than 5 %, and by more than nothing."""
    data = blobs(pictures=True, samples=60)
    network = create(small(), data, 0)
    exact, rounded = (
        train(network, data.train, HYPER, 0, replace(RECIPE, bfloat16=choice)) for choice in (False, True)
    )
    assert rounded[1][0] != exact[1][0] and rounded[1] == pytest.approx(exact[1], rel=0.05)
    assert all(array.dtype == np.float32 for layer in rounded[0].weights.values() for array in layer)


def test_a_cpu_without_bfloat16_is_told(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : avx2 avx512f avx512_bf16\n")
    monkeypatch.setattr(training_loop, "CPUINFO", cpuinfo)
    assert training_loop.has_bfloat16()
    cpuinfo.write_text("flags : avx2 avx512f\n")
    result = invoke("nas", "--data", "digits", "--bfloat16", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2 and "--bfloat16: expected a CPU that has" in result.stderr


# ---- the command ----


def test_a_search_of_modern_networks(tmp_path):
    arguments = (
        "--space modern --widths 4,4,8,8 --stages 2 --kernels 2,3 --samples 60 --cycles 1,1,2 --batch 16 "
        "--population 2 --generations 1 --guided 0 --budget 3 --start random --presets --board rpi5 --min-fps 200"
    )
    found = document("nas", "--data", "digits", *arguments.split(), "-o", tmp_path)
    assert found["winner"]["fps"] > 200 and "ModernSpace" in found["search"]["training"]["space"]
    assert load(tmp_path / "winner.onnx").inputs[0].shape == (1, 1, 8, 8)


def test_spaces_that_are_none():
    with pytest.raises(ArgumentError, match="kernels: expected 1 to 4 ascending numbers"):
        ModernSpace(kernels=(3, 2))
