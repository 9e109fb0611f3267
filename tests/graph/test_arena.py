"""Where storages lie in the arena: never over one another while both live, and in few bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeall.graph.memory import LINE_BYTES, padded, plan_arena

LINE = LINE_BYTES // 4  # in floats


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 12), st.integers(0, 4)), max_size=20),
)
def test_arena_plan_never_overlaps_what_lives_together(storages):
    sizes = {number: size for number, (size, _, _) in enumerate(storages)}
    lifetimes = {number: (first, first + length) for number, (_, first, length) in enumerate(storages)}
    offsets, total = plan_arena(sizes, lifetimes)
    for a, start in offsets.items():
        assert start % LINE == 0 and start + sizes[a] + LINE <= total
        for b in range(a):
            together = lifetimes[a][0] <= lifetimes[b][1] and lifetimes[b][0] <= lifetimes[a][1]
            apart = start + padded(sizes[a]) <= offsets[b] or offsets[b] + padded(sizes[b]) <= start
            assert apart or not together
    assert total <= sum(map(padded, sizes.values()))


def test_arena_plan_uses_the_smallest_gap():
    """Storages 1 and 3 leave gaps between those that stay; 5 comes later and fits both."""
    sizes = {0: 512, 1: 480, 2: 448, 3: 416, 4: 384, 5: 100}
    lifetimes = {0: (0, 9), 1: (0, 2), 2: (0, 9), 3: (0, 2), 4: (0, 9), 5: (3, 9)}
    offsets, total = plan_arena(sizes, lifetimes)
    assert offsets[5] == offsets[3] and total == sum(padded(sizes[number]) for number in range(5))
