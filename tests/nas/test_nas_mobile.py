"""The mobile space: published sizes, training against torch's own modules, exports against torch and onnxruntime."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commands import BOARD, document, invoke
from nas_nets import blobs

from pipeall import ArgumentError, Engine, load
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.nas.datasets import Samples
from pipeall.nas.spaces.genome import HYPER_GENES, SOURCE, Architecture, Candidate, Hyper
from pipeall.nas.spaces.mobile_space import MobileSpace, mobilenet_v2, resnet20
from pipeall.nas.spaces.modern_space import ModernSpace
from pipeall.nas.spaces.network_blocks import Builder
from pipeall.nas.training import weighted_network as networks
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.weighted_network import HEAD, create, folded, to_graph

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")
pytest.importorskip("onnx", reason="needs pipeall[onnx]")

from pipeall.nas.training.training_loop import predict, train  # noqa: E402

STAGED = (MobileSpace, ModernSpace)
SPACE = MobileSpace(2, (4, 6, 8, 10), side=8)
HYPER = Hyper(0.05, 0.9, 3, 0.0, 0.0)
RECIPE = TrainingRecipe(batch=8, decay=0.01, smoothing=0.1)


def small():
    """One inverted residual with a gate that adds its input, then a residual block of stride 2."""
    build = Builder()
    x = build.conv((0, 0), SOURCE, 4, 3, side=6)
    x = build.inverted((1, 0), x, 4, 4, 5, 1, 2, True)
    build.residual((2, 0), x, 4, 6, 3, 2)
    return Architecture("mobile", tuple(build.blocks))


class Small(torch.nn.Module):
    """The same in torch's modules."""

    def __init__(self):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.stem, self.stem_norm = conv(1, 4, 3, padding=1, bias=False), norm(4)
        self.wide, self.wide_norm = conv(4, 8, 1, bias=False), norm(8)
        self.depthwise, self.depthwise_norm = conv(8, 8, 5, padding=2, groups=8, bias=False), norm(8)
        self.squeeze, self.excite = conv(8, 1, 1), conv(1, 8, 1)
        self.narrow, self.narrow_norm = conv(8, 4, 1, bias=False), norm(4)
        self.first, self.first_norm = conv(4, 6, 3, stride=2, padding=1, bias=False), norm(6)
        self.shortcut, self.shortcut_norm = conv(4, 6, 1, stride=2, bias=False), norm(6)
        self.second, self.second_norm = conv(6, 6, 3, padding=1, bias=False), norm(6)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        x = torch.nn.functional.interpolate(x, scale_factor=0.75, mode="bilinear")
        x = self.stem_norm(self.stem(x)).relu()
        inner = self.depthwise_norm(self.depthwise(self.wide_norm(self.wide(x)).relu())).relu()
        gate = self.excite(self.squeeze(inner.mean((2, 3), keepdim=True)).relu())
        x = x + self.narrow_norm(self.narrow(inner * torch.clamp(gate / 6 + 0.5, 0, 1)))
        inner = self.second_norm(self.second(self.first_norm(self.first(x)).relu()))
        return self.head((inner + self.shortcut_norm(self.shortcut(x))).relu().mean((2, 3)))

    def layers(self):
        """In the order of the blocks: convolution and normalization."""
        names = ("stem", "wide", "depthwise", "squeeze", "excite", "narrow", "first", "shortcut", "second", "head")
        return [(getattr(self, name), getattr(self, f"{name}_norm", None)) for name in names]


def arrays(layer, norm):
    if norm is None:
        return layer.weight, layer.bias
    return layer.weight, norm.bias, norm.weight, norm.running_mean, norm.running_var


def trained(samples=60):
    """A network of the architecture above whose normalization has seen samples."""
    data = blobs(pictures=True, samples=samples)
    return train(create(small(), data, 3), data.train, HYPER, 0, RECIPE)[0], data


# ---- architectures ----


@pytest.mark.parametrize(
    ("architecture", "outputs", "published"),
    [(mobilenet_v2(), 1000, 3_504_872), (resnet20(), 10, 272_474)],  # torchvision's; option A has 269,722
    ids=["mobilenet_v2", "resnet20"],
)
def test_parameters_as_published(architecture, outputs, published):
    """With the factors of batch normalization, which folding removes."""
    data = blobs(pictures=True)
    colours = Samples(np.repeat(data.train.x, 3, axis=1), data.train.y)
    network = create(architecture, replace(data, train=colours, outputs=outputs), 0)
    assert network.parameters + sum(layer[2].size for layer in network.weights.values() if len(layer) > 2) == published


@pytest.mark.parametrize(("kind", "blocks"), [(kind, blocks) for kind in STAGED for blocks in kind.FIELDS])
def test_all_ones_have_the_most_weights(kind, blocks):
    space, data = kind(blocks=blocks), blobs(pictures=True)
    most = create(space.decode((1,) * space.loci), data, 0).parameters
    random = np.random.default_rng(0)
    assert all(create(space.decode(space.random(random)), data, 0).parameters <= most for _ in range(20))
    assert sorted(locus for level in space.levels for locus in level) == list(range(space.loci))


def test_what_bits_say():
    """Two stages of inverted residuals, read off the convolutions."""
    space = MobileSpace(2, blocks="inverted")
    code = "011" + "100101101" + "001011000"
    stem, *rest = space.decode(tuple(map(int, code))).blocks
    assert (stem.neurons, stem.stride, stem.side) == (32, 1, 24)
    depthwise = [block for block in rest if block.depthwise]
    shape = [(block.neurons, block.kernel, block.stride) for block in depthwise]
    assert shape == [(128, 5, 1)] * 2 + [(32, 7, 2)] + [(32, 7, 1)] * 2
    gates = [block for block in rest if block.activation == "hardsigmoid"]
    assert [block.factor for block in gates] == [block.index for block in depthwise[:2]]
    ends = [block for block in rest if block.activation == "none"]
    assert [(block.neurons, block.added is not None) for block in ends] == [
        (32, True), (32, True), (32, False), (32, True), (32, True)
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match="bits: expected 21, got 3"):
        space.decode((0, 1, 1))


def test_presets_are_known_networks():
    """ResNet-20 itself, inverted residuals as MobileNet v2's; a space of one kind has its own."""
    space = MobileSpace()
    resnet, mobile, *wider = [space.decode(bits).blocks for bits in space.presets]
    assert resnet == resnet20().blocks
    expansions = [block.neurons for block in mobile if block.kernel == 1 and block.activation == "relu"]
    assert expansions == [6 * neurons for neurons in (16, 16, 16, 16, 32, 32, 32, 64, 64)]
    assert all(block.kernel == 3 for block in mobile if block.depthwise)
    assert len(wider) == 6 and [blocks[0].neurons for blocks in wider] == [24, 24, 32, 32, 48, 48]
    for kind, first in (("residual", resnet), ("inverted", mobile)):
        alone = MobileSpace(blocks=kind)
        assert len(alone.presets) == 4 and alone.decode(alone.presets[0]).blocks == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": 0}, "expected stages"),
        ({"widths": (8, 4, 8, 8)}, "expected 4 ascending"),
        ({"kernels": (2,)}, "ascending odd"),
        ({"kernels": ()}, "ascending odd"),
        ({"blocks": "dense"}, "expected both, inverted, residual"),
    ],
)
def test_spaces_that_are_none(changes, message):
    with pytest.raises(ArgumentError, match=message):
        replace(SPACE, **changes)


# ---- training ----


def test_training_is_that_of_torchs_modules():
    """BatchNorm2d, SGD with decay of weights alone, label smoothing, a cosine; 21 samples: the last is left out."""
    data = blobs(pictures=True, samples=63)
    network = create(small(), data, 1)
    model = Small()
    names = [block.index for block in network.architecture.blocks] + [HEAD]
    with torch.no_grad():
        for name, pair in zip(names, model.layers(), strict=True):
            for own, array in zip(arrays(*pair), network.weights[name], strict=True):
                own.copy_(torch.tensor(array))
    found, losses = train(network, data.train, HYPER, 5, replace(RECIPE, batch=10))

    matrices = [array for array in model.parameters() if array.ndim > 1]
    others = [array for array in model.parameters() if array.ndim == 1]
    groups = [{"params": matrices, "weight_decay": RECIPE.decay}, {"params": others}]
    optimizer = torch.optim.SGD(groups, lr=HYPER.learning_rate, momentum=HYPER.momentum)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * HYPER.cycles)
    random, x, y = np.random.default_rng(5), torch.tensor(data.train.x), torch.tensor(data.train.y)
    for cycle in range(HYPER.cycles):
        order, total = random.permutation(21), 0.0
        for start in (0, 10):
            chosen = order[start : start + 10]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen], label_smoothing=RECIPE.smoothing)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * 10
        assert losses[cycle] == pytest.approx(total / 21, rel=1e-4)
    model.eval()
    with torch.no_grad():
        expected = model(torch.tensor(data.test.x)).softmax(1)
    np.testing.assert_allclose(predict(found, data.test.x), expected, atol=1e-4)
    for name, pair in zip(names, model.layers(), strict=True):
        for own, array in zip(arrays(*pair), found.weights[name], strict=True):
            np.testing.assert_allclose(array, own.detach(), atol=1e-3)


def test_folding():
    """Against torch's own."""
    network, _ = trained()
    block = network.architecture.blocks[0]
    conv, norm = torch.nn.Conv2d(1, 4, 3, bias=False), torch.nn.BatchNorm2d(4)
    with torch.no_grad():
        for own, array in zip(arrays(conv, norm), network.weights[block.index], strict=True):
            own.copy_(torch.tensor(array))
    whole = torch.nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), norm.eval())
    for own, array in zip((whole.weight, whole.bias), folded(network.weights[block.index]), strict=True):
        np.testing.assert_allclose(array, own.detach(), rtol=1e-5, atol=1e-7)


def test_what_networks_have_in_common_is_inherited():
    """Another first stage: the last stage's weights, means and variances are the parent's, new ones are not."""
    data, bits = blobs(pictures=True), [0] * SPACE.loci
    parent = train(create(SPACE.decode(bits), data, 0), data.train, HYPER, 0, TrainingRecipe(8))[0]
    bits[SPACE.levels[1][4]] = bits[SPACE.levels[1][5]] = 1  # the kernel of stage 1
    child = create(SPACE.decode(bits), data, 1, parent)
    kernels = {block.index for block in child.architecture.blocks if block.kernel == 7}
    assert kernels < set(child.weights) == set(parent.weights)
    assert all(child.weights[index][0].shape != parent.weights[index][0].shape for index in kernels)
    for index in set(child.weights) - kernels:
        assert all((a == b).all() for a, b in zip(child.weights[index], parent.weights[index], strict=True))


def test_saved_and_loaded(tmp_path):
    network, data = trained()
    networks.save(tmp_path / "a.npz", network)
    again = networks.load(tmp_path / "a.npz", data)
    assert again.architecture == network.architecture
    assert (predict(again, data.test.x) == predict(network, data.test.x)).all()


# ---- exports ----


@pytest.mark.parametrize("seed", range(4))
def test_an_export_computes_what_was_trained(tmp_path, seed):
    """Through the file, on pipeall's engine and on onnxruntime: a random network of the space, with no normalization.

    Probabilities of float32 sums: of thousands of terms each rounded by 2^-24, in some twenty layers.
    """
    onnxruntime = pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    data, random = blobs(pictures=True), np.random.default_rng(seed)
    architecture = SPACE.decode(SPACE.random(random)) if seed else small()
    network = train(create(architecture, data, seed), data.train, HYPER, seed, RECIPE)[0]
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx_bytes(to_graph(network, data)))
    graph = load(path)
    expected = predict(network, data.test.x[:5])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert not {"batchnorm", "BatchNormalization"} & {node.op for node in graph.nodes}
    engine = Engine(graph, "big", board=BOARD)
    for x, wanted in zip(data.test.x[:5], expected, strict=True):
        np.testing.assert_allclose(engine(x[None])[0], wanted, atol=2e-5)
        np.testing.assert_allclose(session.run(None, {"input": x[None]})[0][0], wanted, atol=2e-5)


# ---- recipes ----


def pictures(count=64):
    return np.random.default_rng(0).uniform(1, 2, (count, 3, 6, 8)).astype(np.float32)


def test_flips_mirror_about_half():
    x = pictures(200)
    found = TrainingRecipe(flip=True).changed(x, np.random.default_rng(1))
    mirrored = [(a == b[:, :, ::-1]).all() for a, b in zip(found, x, strict=True)]
    same = [(a == b).all() for a, b in zip(found, x, strict=True)]
    assert all(np.logical_xor(mirrored, same)) and 70 <= sum(mirrored) <= 130  # 100 +- 4 deviations


def test_crops_move_by_all_distances():
    """Every place in the padded picture, as slices of torch's own padding."""
    x = pictures(300)
    found = TrainingRecipe(crop=1).changed(x, np.random.default_rng(1))
    padded = torch.nn.functional.pad(torch.tensor(x), (1, 1, 1, 1)).numpy()
    places = [(i, j) for i in range(3) for j in range(3)]
    seen = set()
    for a, b in zip(found, padded, strict=True):
        (place,) = [(i, j) for i, j in places if (a == b[:, i : i + 6, j : j + 8]).all()]
        seen.add(place)
    assert seen == set(places)


def test_cutouts_are_squares_that_may_hang_over():
    x = pictures(400)
    found = TrainingRecipe(cutout=4).changed(x, np.random.default_rng(1))
    gone = found == 0
    assert (gone == gone[:, :1]).all() and (found == np.where(gone, 0, x)).all()
    shapes = {(int(rows.any(1).sum()), int(rows.any(0).sum())) for rows in gone[:, 0]}
    assert shapes == {(i, j) for i in (2, 3, 4) for j in (2, 3, 4)}
    assert all(rows.sum() == rows.any(1).sum() * rows.any(0).sum() for rows in gone[:, 0])


def test_mixup_mixes_samples_and_losses():
    """A step on mixed samples is a step on soft targets: cross-entropy is linear in these."""
    data = blobs(pictures=True)
    network = create(small(), data, 0)
    recipe, hyper = TrainingRecipe(batch=20, mixup=0.4), HYPER._replace(cycles=1)
    _, (loss,) = train(network, data.train, hyper, 7, recipe)
    random = np.random.default_rng(7)
    order = random.permutation(20)
    share, other = recipe.mixing(20, random)
    assert 0 < share < 1 and sorted(other) == list(range(20))
    x, y = data.train.x[order], np.eye(3, dtype=np.float32)[data.train.y[order]]
    mixed, soft = (share * values + (1 - share) * values[other] for values in (x, y))
    model = Small()
    with torch.no_grad():
        for pair, layer in zip(model.layers(), network.weights.values(), strict=True):
            for own, array in zip(arrays(*pair), layer, strict=True):
                own.copy_(torch.tensor(array))
        output = model(torch.tensor(mixed, dtype=torch.float32))
        expected = torch.nn.functional.cross_entropy(output, torch.tensor(soft, dtype=torch.float32))
    assert loss == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"smoothing": 1.0}, {"crop": -1}, {"mixup": -0.1}])
def test_recipes_that_are_none(wrong):
    with pytest.raises(ArgumentError, match="recipe: expected"):
        TrainingRecipe(**wrong)


# ---- the command ----


def test_a_search_of_mobile_networks(tmp_path):
    """With every change of pictures; the history says with which."""
    recipe = "--crop 1 --flip --cutout 2 --mixup 0.2 --label-smoothing 0.1 --weight-decay 0.0005"
    arguments = (
        f"--space mobile --widths 4,4,8,8 --stages 2 --kernels 3,5 --samples 60 --cycles 1,1,2 --batch 16 {recipe} "
        "--population 2 --generations 1 --guided 0 --budget 3 --start random --presets --board rpi5 "
        "--min-fps 200"
    )
    found = document("nas", "--data", "digits", *arguments.split(), "-o", tmp_path)
    assert found["search"]["training"]["recipe"] == {
        "batch": 16, "decay": 0.0005, "smoothing": 0.1, "crop": 1, "flip": True, "cutout": 2, "mixup": 0.2,
        "bfloat16": False, "until": 0.0, "steady": False,
    }  # fmt: skip
    assert found["winner"]["fps"] > 200 and len(Candidate.from_code(found["winner"]["candidate"]).hyper) == HYPER_GENES
    assert load(tmp_path / "winner.onnx").inputs[0].shape == (1, 1, 8, 8)
    entries = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    tried = [entry["candidate"].partition(":")[0] for entry in entries if "candidate" in entry]
    space = MobileSpace(2, (4, 4, 8, 8), (3, 5), side=8)
    assert tried[:2] == ["".join(map(str, bits)) for bits in space.presets[:2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--space mobile --nodes 3", "--space mobile: expected stages, widths, kernels, blocks, got nodes"),
        ("--space conv --blocks both", "--space conv: expected nodes, widths, kernels, got blocks"),
        ("--space mobile --kernels 4", "kernels: expected 1 to 4 ascending odd numbers"),
        ("--space mobile --prune 0.5", "--prune: expected --space conv or tree"),
        ("--space modern --blocks inverted", "blocks: expected all, residual, convnext, grouped, got 'inverted'"),
        ("--space modern --supernet 3", "--supernet: expected --space mobile"),
        ("--space modern --prune 0.5", "--prune: expected --space conv or tree"),
        ("--board rpi5 --pareto --halving 3", "--halving: expected no --pareto"),
        ("--space mobile --label-smoothing 1", "1.0 is not in the range 0<=x<1"),
        ("--space conv --supernet 3", "--supernet: expected --space mobile"),
        ("--space conv --presets", "--presets: expected --space mobile or modern"),
        ("--space mobile --supernet 3 --halving 3", "supernet: expected no halving"),
        ("--space mobile --supernet 0", "0 is not in the range x>=1"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("nas", "--data", "digits", *arguments.split())
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_features_are_not_cropped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt(tmp_path / "rows.csv", np.arange(60).reshape(20, 3), delimiter=",")
    result = invoke("nas", "--data", "rows.csv", "--flip")
    assert result.exit_code == 2 and "--crop, --flip, --cutout: expected pictures" in result.stderr
