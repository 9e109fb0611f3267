"""Genomes: coding, decoding, pruning to a fixed point, and what makes two genomes the same network."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nas_landscapes import UNTIMED

from pipeall import ArgumentError
from pipeall.nas.spaces.conv_space import ConvSpace
from pipeall.nas.spaces.genome import (
    LEVELS,
    SOURCE,
    STATES,
    Block,
    Candidate,
    hyper_bits,
    hyper_levels,
    hyper_of,
    prune,
)
from pipeall.nas.spaces.tree_space import TreeSpace

bits31 = st.lists(st.integers(0, 1), min_size=31, max_size=31).map(tuple)
levels5 = st.lists(st.integers(0, 2), min_size=5, max_size=5).map(tuple)


@st.composite
def block_lists(draw):
    """Acyclic blocks in order, some of them dead ends, some without inputs or neurons."""
    count = draw(st.integers(1, 12))
    return tuple(
        Block(
            index,
            tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=3)))),
            draw(st.sampled_from([0, 1, 4, 4, 4])),
        )
        for index in range(1, count + 1)
    )


def on_a_path(blocks):
    """The blocks on a path from the input to the last one: of all paths, those of which every block has neurons."""
    by_index = {block.index: block for block in blocks}

    def paths(index):
        if index == SOURCE:
            return [()]
        inputs = by_index[index].inputs if by_index[index].neurons else ()
        return [(*path, index) for before in inputs for path in paths(before)]

    return set(itertools.chain(*paths(blocks[-1].index)))


@UNTIMED
@given(block_lists())
def test_prune_keeps_paths_from_input_to_output(blocks):
    pruned = prune(blocks)
    expected = on_a_path(blocks)
    assert {block.index for block in pruned} == expected
    before = {block.index: block for block in blocks}
    for block in pruned:
        assert block.inputs == tuple(i for i in before[block.index].inputs if i in expected or i == SOURCE)
    assert prune(pruned) == pruned


@UNTIMED
@given(block_lists(), st.randoms(use_true_random=False))
def test_prune_is_order_free(blocks, random):
    """Dropping one block after the other, in any order, ends with the same."""
    alive = {block.index: block for block in blocks}
    last = blocks[-1].index
    while True:
        dead = [
            index
            for index, block in alive.items()
            if not block.neurons
            or not any(i == SOURCE or i in alive for i in block.inputs)
            or (index != last and not any(index in other.inputs for other in alive.values()))
        ]
        if not dead:
            break
        del alive[random.choice(dead)]
    assert {block.index for block in prune(blocks)} == set(alive)


def encode(architecture, space):
    """Bits of a tree that decode to this architecture: those of its blocks."""
    present = {block.index for block in architecture.blocks}
    return tuple(int(k in present) for k in range(1, space.loci + 1))


@UNTIMED
@given(bits31)
def test_decoding_a_tree_is_idempotent(bits):
    space = TreeSpace()
    once = space.decode(bits)
    assert space.decode(encode(once, space)) == once
    assert prune(once.blocks) == once.blocks


@UNTIMED
@given(bits31)
def test_a_tree_reads_as_its_bits_say(bits):
    """A block counts if its ancestors and itself are connected and it has a whole path down."""

    def alive(k):
        return bits[k - 1] and (k >= 16 or alive(2 * k) or alive(2 * k + 1))

    def count(k):
        return (1 + (0 if k >= 16 else count(2 * k) + count(2 * k + 1))) if alive(k) else 0

    blocks = TreeSpace().decode(bits).blocks
    assert len(blocks) == count(1)
    seen = {SOURCE}
    for block in blocks:
        assert set(block.inputs) <= seen and block.neurons == 33
        assert block.inputs == (SOURCE,) if block.index >= 16 else SOURCE not in block.inputs
        seen.add(block.index)
    assert not blocks or blocks[-1].index == 1


def networks(depth):
    """One genome of every different network, the trees below a root combined in all ways."""
    if depth == 1:
        return [(0,), (1,)]
    found = {}
    for left, right in itertools.product(networks(depth - 1), repeat=2):
        levels = [(left[2**d - 1 : 2 ** (d + 1) - 1], right[2**d - 1 : 2 ** (d + 1) - 1]) for d in range(depth - 1)]
        bits = (1, *itertools.chain(*itertools.chain(*levels)))
        found[TreeSpace(depth).decode(bits)] = bits
    return list(found.values())


def test_the_networks_of_a_tree():
    """Unordered trees: n(d) = (n(d-1) + 1) (n(d-1) + 2) / 2 - 1 and the empty one; the paper's 2^31 genomes are 231."""
    for depth in (1, 2, 3):
        space = TreeSpace(depth)
        everything = {space.decode(bits) for bits in itertools.product((0, 1), repeat=space.loci)}
        assert len(everything) == len(networks(depth)) == (2, 3, 6)[depth - 1]
    assert len(networks(5)) == 231


def test_a_tree_that_grows():
    """From block 1 alone to any unordered tree: t(d) = (t(d-1) + 1) (t(d-1) + 2) / 2 and the empty one."""
    for depth, trees in enumerate((1, 3, 10), 1):
        space = TreeSpace(depth, grow=True)
        everything = {space.decode(bits).blocks for bits in itertools.product((0, 1), repeat=space.loci)}
        assert len(everything) == trees + 1
        assert all(SOURCE in blocks[0].inputs and blocks[-1].index == 1 for blocks in everything if blocks)
    (block,) = space.decode(first := space.random(np.random.default_rng(0))).blocks
    assert block.inputs == (SOURCE,) and sum(first) == 1
    second = space.decode((1, 1, 0, 0, 0, 0, 0)).blocks
    assert [block.inputs for block in second] == [(SOURCE,), (2,)]


@UNTIMED
@given(bits31, st.integers(1, 15))
def test_children_may_trade_places(bits, block):
    space, swapped = TreeSpace(), list(bits)

    def swap(a, b):
        if a <= 31:
            swapped[a - 1], swapped[b - 1] = bits[b - 1], bits[a - 1]
            swap(2 * a, 2 * b)
            swap(2 * a + 1, 2 * b + 1)

    swap(2 * block, 2 * block + 1)
    assert space.decode(tuple(swapped)) == space.decode(bits)


def test_the_paper_tree():
    space = TreeSpace()
    assert space.loci == 31 and sum(block.neurons for block in space.decode((1,) * 31).blocks) == 1023
    assert [len(level) for level in space.levels] == [1, 2, 4, 8, 16]
    assert sorted(itertools.chain(*space.levels)) == list(range(31))
    assert space.decode((0,) + (1,) * 30).blocks == () == space.decode((1,) * 15 + (0,) * 16).blocks
    with pytest.raises(ArgumentError, match="at most 1024 neurons, got 31 blocks of 34"):
        TreeSpace(neurons=34)
    with pytest.raises(ArgumentError, match="expected 31, got 3"):
        space.decode((1, 0, 1))


@pytest.mark.parametrize(
    "space", [TreeSpace(), TreeSpace(3, 8), TreeSpace(grow=True), ConvSpace(), ConvSpace((1, 2))], ids=repr
)
def test_random_networks_are_not_empty(space):
    random = np.random.default_rng(0)
    assert all(space.decode(space.random(random)).blocks for _ in range(200))
    assert pickle.loads(pickle.dumps(space)) == space


def test_stages():
    """K = 3, connections 1 to 2 and 2 to 3 with 1 to 3 absent; behind it a stage without connections."""
    space = ConvSpace((3, 2), widths=(4, 6, 8, 10))
    assert space.loci == 10 and space.levels == ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9))
    blocks = space.decode((0, 1, 1, 1, 0, 1, 1, 1, 0, 0)).blocks
    assert blocks == (
        Block(1, (0,), 6, 5),
        Block(2, (1,), 6, 5),
        Block(3, (2,), 6, 5),
        Block(4, (3,), 6, 5),
        Block(5, (4,), 6, 5, pool=True),
        Block(6, (5,), 20, 3),
        Block(7, (6,), 20, 3),
    )
    fork = space.decode((0, 0, 0, 1, 1, 0, 0, 0, 0, 0)).blocks  # 1 to 2 and 1 to 3: the output reads 2 and 3
    assert [block.inputs for block in fork[:5]] == [(0,), (1,), (2,), (2,), (3, 4)]


def test_which_nodes_of_a_stage_are_dropped_is_no_part_of_the_network():
    space = ConvSpace((3,))
    one_edge = {space.decode((0, 0, 0, *bits)) for bits in ((1, 0, 0), (0, 1, 0), (0, 0, 1))}
    assert len(one_edge) == 1 and len(one_edge.pop().blocks) == 4


@UNTIMED
@given(st.lists(st.integers(0, 1), min_size=24, max_size=24).map(tuple))
def test_stages_are_pruned_and_in_order(bits):
    blocks = ConvSpace().decode(bits).blocks
    assert prune(blocks) == blocks and [block.index for block in blocks] == list(range(1, len(blocks) + 1))
    assert all(max(block.inputs) < block.index for block in blocks)
    assert sum(block.pool for block in blocks) == 2


def _weights(blocks, channels=3):
    neurons = {SOURCE: channels} | {block.index: block.neurons for block in blocks}
    return sum(block.neurons * (sum(neurons[i] for i in block.inputs) * block.kernel**2 + 1) for block in blocks)


@UNTIMED
@given(st.lists(st.integers(0, 1), min_size=24, max_size=24).map(tuple))
def test_all_ones_have_the_most_weights(bits):
    space = ConvSpace()
    assert _weights(space.decode(bits).blocks) <= _weights(space.decode((1,) * 24).blocks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": ()}, "stages: expected"),
        ({"nodes": (3, 0)}, "stages: expected"),
        ({"widths": (8, 4, 16, 32)}, "widths: expected 4 ascending"),
        ({"kernels": (3, 4)}, "kernels: expected two ascending odd"),
        ({"growth": 0}, "growth: expected"),
    ],
)
def test_bad_stages(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        ConvSpace(**arguments)


@UNTIMED
@given(levels5)
def test_hyper_round_trip(levels):
    assert hyper_levels(hyper_bits(levels)) == levels


def test_hyper_codes():
    assert len({hyper_of(state) for state in range(STATES)}) == STATES == 243
    assert hyper_levels((0, 0, 0, 1, 1, 0, 1, 1, 0, 0)) == (0, 1, 2, 1, 0)  # 11 is invalid: the middle
    ranges = ((1e-4, 1), (0, 0.9), (1, 49), (0, 1), (0.001, 1))  # table I
    for values, (low, high) in zip(LEVELS, ranges, strict=True):
        assert len(values) == 3 and list(values) == sorted(values) and low <= values[0] and values[2] <= high
    assert Candidate((1,), (0, 1, 2, 0, 2)).hyperparameters() == (1e-4, 0.45, 49, 0.0, 1.0)


@UNTIMED
@given(bits31, levels5)
def test_code_round_trip(bits, levels):
    candidate = Candidate(bits, levels)
    assert Candidate.from_code(candidate.code) == candidate


@pytest.mark.parametrize("code", ["", "01", "01:", "0x:00000", "02:00000", "01:0000", "01:00003", ":00000"])
def test_bad_codes(code):
    with pytest.raises(ArgumentError, match=r"candidate: expected|bits: expected|hyper: expected"):
        Candidate.from_code(code)


def test_the_matrix_of_connections():
    """Bits 1, 2, 4, 5 of a tree of three levels: block 1 reads 2, which reads 4 and 5, which read the input."""
    architecture = TreeSpace(depth=3, neurons=1).decode((1, 1, 0, 1, 1, 0, 0))
    assert [block.index for block in architecture.blocks] == [5, 4, 2, 1]
    assert architecture.connections == [
        [0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]
