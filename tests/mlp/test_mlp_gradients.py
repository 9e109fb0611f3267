"""Training against torch's float64 autograd, full and masked, on ranks of the simulator; the same at every P."""

import mlp_nets
import numpy as np
import pytest
from mlp_nets import HEADS, RANKS, SIZES, assembled, gradients, network, samples

from pipeall.mlp.layer import bound_for, uniform
from pipeall.mlp.layout import bounds_of, shares
from pipeall.mlp.simulator import simulate

FLOAT64 = {"dtype": "float64", "engine": "numpy"}


def initial_weights(sizes, hidden, output):
    names = [hidden] * (len(sizes) - 2) + [output]
    return [
        bound_for(name, a, b) * uniform(0, index, np.arange(b), np.arange(a))
        for index, (a, b, name) in enumerate(zip(sizes, sizes[1:], names, strict=False))
    ]


def masks(sizes, ranks, width):
    """What the paper's ring keeps, told by neighbourhood: own inputs and ``width`` nearest of both neighbours."""
    kept = [np.ones((sizes[1], sizes[0]), bool)]
    for a, b in zip(sizes[1:], sizes[2:], strict=False):
        mask, rows, columns = np.zeros((b, a), bool), bounds_of(b, ranks), bounds_of(a, ranks)
        for rank in range(ranks):
            own = slice(rows[rank], rows[rank + 1])
            mask[own, columns[rank] : columns[rank + 1]] = True
            before, after = (rank - 1) % ranks, (rank + 1) % ranks
            mask[own, [*range(columns[before], columns[before + 1])][::-1][:width]] = True
            mask[own, [*range(columns[after], columns[after + 1])][:width]] = True
        kept.append(mask)
    return kept


def torch_gradients(sizes, head, x, t, kept=None, detached=None):
    """(loss, weight gradients, bias gradients). ``detached``: masks of weights whose inputs get no gradient."""
    torch = pytest.importorskip("torch", reason="the reference: pip install torch")
    hidden, output, loss_name = head
    weights = [torch.tensor(w, requires_grad=True) for w in initial_weights(sizes, hidden, output)]
    biases = [torch.zeros(n, dtype=torch.float64, requires_grad=True) for n in sizes[1:]]
    apply = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "softmax": lambda z: z.softmax(1)}
    y = torch.tensor(x)
    for index, (w, b) in enumerate(zip(weights, biases, strict=True)):
        if kept is None:
            z = y @ w.T
        else:
            mask = torch.tensor(kept[index], dtype=torch.float64)
            ghost = torch.tensor(detached[index], dtype=torch.float64)
            z = y @ (w * (mask - ghost)).T + y.detach() @ (w * ghost).T
        y = apply[output if index == len(weights) - 1 else hidden](z + b)
    target = torch.tensor(t)
    if loss_name == "squared":
        loss = ((y - target) ** 2).sum() / 2
    elif output == "softmax":
        loss = -(target * y.log()).sum()
    else:
        loss = torch.nn.functional.binary_cross_entropy(y, target, reduction="sum")
    loss = loss / len(x)
    loss.backward()
    return loss.item(), [w.grad.numpy() for w in weights], [b.grad.numpy() for b in biases]


def loss_and_gradients(sizes, head, ranks, x, t, **layout):
    def program(comm):
        net = network(sizes, head, comm, **FLOAT64, **layout)
        net.forward(x)
        loss = net.loss(t)
        net.backward()
        return loss, gradients(net)

    results = simulate(ranks, program)
    assert len({loss for loss, _ in results}) == 1, "every rank knows the same loss"
    return results[0][0], *assembled(sizes, [found for _, found in results])


def relative(a, b):
    return np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-300)


@pytest.mark.parametrize("head", HEADS, ids="-".join)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_full_gradients_are_autograds(sizes, head, ranks):
    x, t = samples(sizes)
    loss, weights, biases = loss_and_gradients(sizes, head, ranks, x, t)
    expected, dense, bias = torch_gradients(sizes, head, x, t)
    assert relative(np.array(loss), np.array(expected)) < 1e-12
    for got, want in zip(weights + biases, dense + bias, strict=True):
        assert relative(got, want) < 1e-12


@pytest.mark.parametrize("gradient", ["drop", "exchange"])
@pytest.mark.parametrize("width", [1, 2, 100])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 8, 32])
def test_ghost_gradients_are_those_of_the_masked_network(sizes, ranks, width, gradient):
    x, t = samples(sizes)
    kept, own = masks(sizes, ranks, width), masks(sizes, ranks, 0)
    ghosts = [mask & ~mine if gradient == "drop" else np.zeros_like(mask) for mask, mine in zip(kept, own, strict=True)]
    expected, dense, bias = torch_gradients(sizes, HEADS[0], x, t, kept, ghosts)
    loss, weights, biases = loss_and_gradients(
        sizes, HEADS[0], ranks, x, t, mode="ghost", ghost_width=width, ghost_gradient=gradient
    )
    assert relative(np.array(loss), np.array(expected)) < 1e-12
    for got, mask in zip(weights, kept, strict=True):
        assert (np.isnan(got) == ~mask).all(), "which weights there are"
    for got, want in zip(weights + biases, dense + bias, strict=True):
        assert relative(np.nan_to_num(got), want) < 1e-12


def test_central_differences():
    """The gradient without anybody's autograd: h = 1e-6, whose error is h^2 and rounding over h, 1e-10."""
    sizes = (4, 5, 6, 3)
    x, t = samples(sizes)
    net = network(sizes, HEADS[1], **FLOAT64)
    net.forward(x)
    net.loss(t)
    net.backward()
    for layer in net.layers:
        gradient, _ = layer.gradients()
        for place in [(0, 0), (1, 2)]:
            sides = []
            for h in (1e-6, -1e-6):
                layer.weight[place] += h
                net.forward(x)
                sides.append(net.loss(t))
                layer.weight[place] -= h
            difference = (sides[0] - sides[1]) / 2e-6
            assert abs(difference - gradient[place]) < 1e-9


@pytest.mark.parametrize(("count", "momentum"), [(1, 0.0), (5, 0.9)])
@pytest.mark.parametrize("head", HEADS[::2], ids="-".join)
def test_full_mode_is_the_serial_network_after_many_steps(head, count, momentum):
    sizes = SIZES[1]
    x, t = samples(sizes, 30)

    def program(comm):
        net = network(sizes, head, comm, **FLOAT64)
        for begin in range(30):
            at = np.arange(begin, begin + count) % 30
            net.step(x[at], t[at], 0.05, momentum)
        return net.predict(x)

    (serial,) = simulate(1, program)
    for ranks in RANKS[1:]:
        for y in simulate(ranks, program):
            assert np.abs(y - serial).max() < 1e-12


@pytest.mark.parametrize(("count", "momentum"), [(1, 0.0), (5, 0.0), (5, 0.9)])
@pytest.mark.parametrize("head", HEADS, ids="-".join)
def test_bit_equal_mode_is_the_serial_network(head, count, momentum):
    sizes = SIZES[0]
    x, t = samples(sizes, 20, np.float32)

    def program(comm, bit_equal=True):
        net = network(sizes, head, comm, bit_equal=bit_equal)
        for begin in range(0, 20, count):
            net.step(x[begin : begin + count], t[begin : begin + count], 0.05, momentum)
        y = net.predict(x)
        return net.loss(t), y

    loss, serial = program(None, bit_equal=False)
    for ranks in (2, 3, 5, 32):
        for some_loss, y in simulate(ranks, program):
            assert some_loss == loss and (y == serial).all()


@pytest.mark.parametrize("mode", ["full", "ghost"])
def test_a_master_changes_nothing_but_who_computes(mode):
    sizes, head = SIZES[1], HEADS[0]
    x, t = samples(sizes)
    loss, weights, _ = loss_and_gradients(sizes, head, 3, x, t, mode=mode)
    with_master, same, _ = loss_and_gradients(sizes, head, 4, x, t, mode=mode, master=True)
    assert relative(np.array(with_master), np.array(loss)) < 1e-12
    assert all(relative(np.nan_to_num(a), np.nan_to_num(b)) < 1e-12 for a, b in zip(same, weights, strict=True))


def test_the_kernels_train_as_numpy_does():
    """float32 beside float64: 30 steps with sums of up to 256 terms, each rounded to 2^-24."""
    sizes = SIZES[0]
    x, t = samples(sizes, 30)
    ours, theirs = network(sizes), network(sizes, **FLOAT64)
    for begin in range(0, 30, 6):
        for net, dtype in ((ours, np.float32), (theirs, np.float64)):
            net.step(x[begin : begin + 6].astype(dtype), t[begin : begin + 6].astype(dtype), 0.1, 0.5)
            net.step(x[begin : begin + 1].astype(dtype), t[begin : begin + 1].astype(dtype), 0.1)
    assert np.abs(ours.predict(x.astype(np.float32)) - theirs.predict(x)).max() < 256 * 2**-24


def test_threads_change_no_bit():
    sizes = (300, 700, 500)
    x, t = samples(sizes, 40, np.float32)
    results = []
    for threads in (1, 3):
        net = network(sizes, threads=threads)
        net.step(x, t, 0.1)
        net.step(x[:1], t[:1], 0.1)
        results.append(net.predict(x))
    assert (results[0] == results[1]).all()


def test_shares_cover_the_network_once():
    for sizes in mlp_nets.SIZES:
        for ranks in RANKS:
            parts = [shares(sizes, rank, ranks) for rank in range(ranks)]
            for index, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False)):
                count = np.zeros((b, a), int)
                for part in parts:
                    for columns in part[index].columns:
                        count[slice(*part[index].rows), slice(*columns)] += 1
                assert (count == 1).all()
