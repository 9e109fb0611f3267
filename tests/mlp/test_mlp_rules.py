"""Optimizer steps against torch.optim in float64, and trainings that go on as if they had not been interrupted."""

import numpy as np
import pytest
from mlp_nets import HEADS, network, samples

from pipeall import ArgumentError
from pipeall.mlp import checkpoint
from pipeall.mlp.checkpoint import Progress
from pipeall.mlp.data import Split, split
from pipeall.mlp.rules import Rule, Schedule
from pipeall.mlp.simulator import simulate
from pipeall.mlp.train import Settings, train

SIZES = (5, 13, 7, 3)
STEPS, RATE = 30, 0.03
RULES = [
    Rule("sgd", decay=0.01),
    Rule("sgd", 0.9),
    Rule("sgd", 0.9, decay=0.01, clip=0.1),
    Rule("adam"),
    Rule("adam", beta1=0.7, beta2=0.9, epsilon=1e-4, decay=0.01),
    Rule("adamw", decay=0.05),
    Rule("adamw", decay=0.05, clip=0.1),
]


def torchs(rule, x, t, layers):
    """Weights and biases after the same steps by torch, of tanh layers, a softmax and cross-entropy."""
    torch = pytest.importorskip("torch", reason="the reference: pip install torch")
    arrays = [torch.tensor(array, requires_grad=True) for pair in layers for array in pair]
    if rule.name == "sgd":
        optimizer = torch.optim.SGD(arrays, RATE, rule.momentum, weight_decay=rule.decay)
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[rule.name]
        optimizer = kind(arrays, RATE, (rule.beta1, rule.beta2), rule.epsilon, rule.decay)
    for _ in range(STEPS):
        y = torch.tensor(x)
        for place in range(0, len(arrays), 2):
            z = y @ arrays[place].T + arrays[place + 1]
            y = torch.tanh(z)
        optimizer.zero_grad()
        (-(torch.tensor(t) * z.log_softmax(1)).sum() / len(x)).backward()
        if rule.clip:
            torch.nn.utils.clip_grad_norm_(arrays, rule.clip)
        optimizer.step()
    return [array.detach().numpy() for array in arrays]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_steps_are_torchs(rule, ranks):
    """30 steps in float64. A step divides by roots of squares, at least 1e-8: rounding grows to 1e-16 / 1e-8 at most
    where a gradient vanishes, and stays near 1e-15 elsewhere."""
    x, t = samples(SIZES)
    head = ("tanh", "softmax", "cross-entropy")

    def program(comm):
        net = network(SIZES, head, comm, dtype="float64", engine="numpy", rule=rule)
        before = net.gather()
        for _ in range(STEPS):
            net.step(x, t, RATE)
        return before, net.gather()

    before, after = simulate(ranks, program)[0]
    expected = torchs(rule, x, t, before)
    for got, want in zip([array for pair in after for array in pair], expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    assert max(np.abs(a - b).max() for (a, _), (b, _) in zip(before, after, strict=True)) > 1e-3, "it has moved"


@pytest.mark.parametrize(
    ("schedule", "name", "options"),
    [
        (Schedule("cosine"), "CosineAnnealingLR", {"T_max": 12}),
        (Schedule("step", 5, 0.3), "StepLR", {"step_size": 5, "gamma": 0.3}),
    ],
    ids=["cosine", "step"],
)
def test_schedules_are_torchs(schedule, name, options):
    torch = pytest.importorskip("torch", reason="the reference: pip install torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    theirs = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
    for epoch in range(12):
        assert 0.5 * schedule.share(epoch, 12) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        theirs.step()


@pytest.fixture(scope="module")
def digits():
    return split("digits")[:2]


LONG = [Rule("sgd", 0.9), Rule("adam", clip=1.0), Rule("adamw", decay=0.01)]


@pytest.mark.parametrize("layout", [{"bit_equal": True}, {}, {"mode": "ghost"}], ids=str)
@pytest.mark.parametrize("rule", LONG, ids=lambda rule: rule.name)
def test_a_break_changes_no_bit(tmp_path, digits, rule, layout):
    """Four epochs at once, and two, a file, two more: equal weights, biases and what is kept, on 1, 2 and 3 ranks.
    In bit-equal mode the file of three ranks is what goes on, on any."""
    data, test = digits
    sizes, path = (64, 16, 12, 10), tmp_path / "net.ckpt"

    def fitted(comm, epochs, resume=False):
        net = network(sizes, HEADS[2], comm, rule=rule, **layout)
        made = checkpoint.load(path, net) if resume else Progress()
        settings = Settings(epochs, 64, 0.01, schedule=Schedule("step", 3))
        train(net, Split(data, test), settings, made, save=path)
        return [net.gather(name) for name in (None, *rule.kept)], net.steps

    whole = {ranks: simulate(ranks, lambda comm: fitted(comm, 4))[0] for ranks in (1, 2, 3)}
    for ranks in (1, 2, 3):
        simulate(3 if layout.get("bit_equal") else ranks, lambda comm: fitted(comm, 2))
        groups, steps = simulate(ranks, lambda comm: fitted(comm, 4, resume=True))[0]
        assert steps == whole[ranks][1]
        for got, want in zip(groups, whole[ranks][0], strict=True):
            assert all((a == b).all() for g, w in zip(got, want, strict=True) for a, b in zip(g, w, strict=True))
        if layout.get("bit_equal"):
            assert all(
                (a == b).all()
                for mine, first in zip(whole[ranks][0], whole[1][0], strict=True)
                for g, w in zip(mine, first, strict=True)
                for a, b in zip(g, w, strict=True)
            )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed: the network has 1, the checkpoint 0"),
        ({"rule": Rule("sgd")}, "rule: the network has sgd, the checkpoint adam"),
    ],
)
def test_another_training_is_refused(tmp_path, change, said):
    path = tmp_path / "net.ckpt"
    net = network(SIZES, rule=Rule("adam"))
    net.step(*samples(SIZES, 4, np.float32), 0.1)
    checkpoint.save(path, net, Progress(1))
    with pytest.raises(ArgumentError, match=said):
        checkpoint.load(path, network(SIZES, **{"rule": Rule("adam")} | change))


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ('{"format": "pipeall.mlp/1", "epoch": 1}', "has neither seed nor step nor momentum; train anew"),
        ('{"format": "pipeall.mlp/3", "epoch": 1, "steps": 1, "best": null, "best_epoch": 0, "kept": []}', "got"),
        ("[1]", "expected a checkpoint of format 'pipeall.mlp/2'"),
    ],
)
def test_other_formats_are_refused(tmp_path, meta, said):
    np.savez(tmp_path / "net.npz", meta=np.array(meta))
    with pytest.raises(ArgumentError, match="net.npz") as error:
        checkpoint.load(tmp_path / "net.npz", network(SIZES))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "lion"}, "rule: expected one of sgd, adam, adamw"),
        ({"name": "adam", "momentum": 0.9}, "momentum: expected none with adam"),
        ({"name": "adam", "beta2": 1.0}, "beta2: expected a number in"),
        ({"decay": -1.0}, "decay: expected"),
        ({"clip": 0.0}, "clip: expected"),
        ({"epsilon": 0.0}, "epsilon: expected"),
    ],
)
def test_bad_rules(options, said):
    with pytest.raises(ArgumentError, match=said):
        Rule(**options)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--optimizer", "adam", "--momentum", "0.9"], "adam has no momentum"),
        (["--optimizer", "sgd", "--beta1", "0.5"], "--optimizer: sgd has no beta1"),
        (["--optimizer", "adam", "--step-epochs", "3"], "schedule constant has no every"),
        (["--optimizer", "adam", "--lr", "-1"], "-1.0 is not in the range x>0"),
    ],
)
def test_options_that_do_not_go_together(arguments, said):
    from commands import invoke

    done = invoke("train", "digits", *arguments)
    assert done.exit_code == 2 and said in done.stderr
