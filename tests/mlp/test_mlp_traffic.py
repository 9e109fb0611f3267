"""Messages, bytes and work against the formulas: of the simulator's ranks, and of one rank of up to 1,024."""

from itertools import product

import numpy as np
import pytest
from mlp_nets import HEADS, SIZES, network, samples

from pipeall.mlp.layout import shares
from pipeall.mlp.simulator import Counting, simulate
from pipeall.mlp.traffic import (
    PAPER,
    dense_weights,
    flops,
    ghost_weights,
    ghost_weights_of,
    least_values,
)

WIDE = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def column_values(sizes):
    """Values sent with every layer split by columns, before the factor (P - 1) / P."""
    return sum(2 * n for n in sizes[1:-1])


def megatron_values(sizes):
    """Values sent with layers in pairs, column then row (Shoeybi et al., 2019), before the factor (P - 1) / P.

    An allreduce sends twice its values. There is one behind every row layer on the way forward, and one before every
    column layer but the first on the way back.
    """
    layers = range(len(sizes) - 1)
    return sum(2 * sizes[i + 1] for i in layers if i % 2) + sum(2 * sizes[i] for i in layers if i and i % 2 == 0)


def mirror_values(sizes):
    """Values sent where no bit depends on the ranks, before the factor (P - 1) / P.

    Inputs are gathered on the way forward, gradients on the way back, and the outputs.
    """
    return sum(a + b for a, b in zip(sizes[1:], sizes[2:], strict=False)) + sizes[-1]


def counted(sizes, ranks, rank=0, **layout):
    """What rank ``rank`` sends for an iteration of one sample, the loss left out; nothing is computed."""
    comm = Counting(rank, ranks)
    net = network(sizes, HEADS[0], comm, engine="none", **layout)
    zeros = np.zeros((1, sizes[0]), np.float32), np.zeros((1, sizes[-1]), np.float32)
    net.step(*zeros, rate=0.1)
    return comm.traffic


@pytest.mark.parametrize("ranks", WIDE)
@pytest.mark.parametrize("model", PAPER)
def test_bytes_of_the_papers_models(model, ranks):
    sizes = PAPER[model]
    if ranks > min(sizes[1:]):
        pytest.skip("fewer neurons than ranks: the parts are not equal")
    full = counted(sizes, ranks)
    assert full.bytes == 4 * least_values(sizes) * (ranks - 1) // ranks
    assert full.messages == 2 * (len(sizes) - 2) * (ranks - 1).bit_length()
    assert full.bytes <= 4 * megatron_values(sizes) * (ranks - 1) // ranks
    ghost = counted(sizes, ranks, mode="ghost")
    assert (ghost.messages, ghost.bytes) == (6, 24)
    returned = counted(sizes, ranks, mode="ghost", ghost_gradient="exchange")
    assert (returned.messages, returned.bytes) == (12, 48)
    mirror = counted(sizes, ranks, bit_equal=True)
    assert mirror.bytes == 4 * mirror_values(sizes) * (ranks - 1) // ranks


@pytest.mark.parametrize(  # facts: bytes that each rank sends on two ranks
    ("model", "column", "megatron", "least"),
    [("S", 1792, 1280, 1024), ("M", 49152, 40960, 40960), ("L", 180224, 73728, 57344)],
)
def test_published_values_of_the_plans(model, column, megatron, least):
    sizes = PAPER[model]
    assert [4 * f(sizes) // 2 for f in (column_values, megatron_values, least_values)] == [column, megatron, least]


@pytest.mark.parametrize("layout", [{}, {"mode": "ghost"}, {"mode": "ghost", "ghost_gradient": "exchange"},
                                    {"bit_equal": True}], ids=str)  # fmt: skip
@pytest.mark.parametrize("ranks", [2, 3, 7, 32])
def test_a_rank_alone_counts_what_it_sends_among_others(ranks, layout):
    sizes = SIZES[1]
    x, t = samples(sizes, 1, np.float32)

    def program(comm):
        network(sizes, HEADS[0], comm, **layout).step(x, t, 0.1)
        return comm.traffic

    for rank, traffic in enumerate(simulate(ranks, program)):
        alone = counted(sizes, ranks, rank, **layout)
        assert (traffic.messages, traffic.bytes) == (alone.messages, alone.bytes)


@pytest.mark.parametrize("ranks", [2, 3, 5, 7, 32])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_unequal_parts_send_no_more_in_total(sizes, ranks):
    total = sum(counted(sizes, ranks, rank).bytes for rank in range(ranks))
    assert total == 4 * least_values(sizes) * (ranks - 1)


def test_no_plan_sends_less():
    """Every way to split every layer by rows or columns, its outputs left in parts or made whole on every rank."""

    def values(sizes, plan):
        """Sent forward and back: a column needs its input whole, and its gradient sums over ranks."""
        sent, whole = 0, True
        for index, (kind, keeps) in enumerate(plan):
            n_in, n_out = sizes[index], sizes[index + 1]
            first = index == 0
            if kind == "column":
                sent += 0 if whole else n_in  # gathered
                sent += 0 if first else (2 if whole else 1) * n_in  # its gradient reduced: to all, or to its owner
                sent += n_out if keeps else 0  # made whole; its gradient is whole already
            else:
                sent += 0 if first or not whole else n_in  # the gradients of the own inputs are gathered
                sent += 2 * n_out if keeps else n_out  # reduced to all, or to its owner
                sent += 0 if keeps else n_out  # the gradient is gathered
            whole = keeps
        return sent

    choices = list(product(("column", "row"), (False, True)))
    random = np.random.default_rng(0)
    shapes = [*PAPER.values(), *(tuple(random.integers(1, 200, 5)) for _ in range(30))]
    for sizes in shapes:
        assert min(values(sizes, plan) for plan in product(choices, repeat=len(sizes) - 1)) == least_values(sizes)
        kinds = [share.kind for share in shares(sizes, 0, 2)]
        taken = [("column" if kind == "whole" else kind, False) for kind in kinds]
        assert values(sizes, taken) == least_values(sizes)


def test_weights_of_the_papers_models():
    assert [dense_weights(sizes) for sizes in PAPER.values()] == [57_536, 50_331_648, 377_487_360]


@pytest.mark.parametrize(
    ("ranks", "weights", "speed_up"),
    [(1, 57_536, 1), (4, 3_856, 14.9), (8, 1_032, 55.8), (16, 292, 197.0), (32, 90, 639.3)],
)
def test_work_of_a_rank_in_ghost_mode(ranks, weights, speed_up):
    assert ghost_weights_of(PAPER["S"], 0, ranks) == weights
    assert round(dense_weights(PAPER["S"]) / weights, 1) == speed_up


def test_ghost_weights():
    assert ghost_weights(PAPER["S"], 32) == 2_880
    assert ghost_weights(PAPER["M"], 1024) == 8_450_048
    assert ghost_weights(PAPER["L"], 1024) == 67_440_640
    assert [ghost_weights_of(PAPER["M"], 0, p) for p in (32, 64, 128, 256, 512, 1024)] == [
        303_744,
        141_632,
        68_256,
        33_488,
        16_584,
        8_252,
    ]


def test_flops_of_the_papers_models():
    """2 W forward, 2 W for dW, 2 W to update, 2 (W - W1) for dX."""
    assert [flops(shares(sizes, 0, 1)) for sizes in PAPER.values()] == [459_904, 385_875_968, 2_885_681_152]
