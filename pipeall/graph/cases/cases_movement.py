"""Cases of the ops that move elements (``cases`` says what a case is)."""

from __future__ import annotations

from .case import CHANNELS, Case, Shape

CONCAT = (
    Case("concat", dict(axis=1), ((1, 17, 4, 5),)),
    Case("concat", dict(axis=1), ((1, 3, 4, 5), (1, 8, 4, 5))),
    Case("concat", dict(axis=1), tuple((1, c, 3, 4) for c in CHANNELS)),
    Case("concat", dict(axis=2), ((1, 9, 4, 5), (1, 9, 1, 5), (1, 9, 2, 5))),
    Case("concat", dict(axis=3), ((1, 16, 4, 5), (1, 16, 4, 3))),
    Case("concat", dict(axis=1), ((1, 10), (1, 1), (1, 33))),
    Case("concat", dict(axis=2), ((1, 3, 4), (1, 3, 5))),
    Case("concat", dict(axis=0), ((2, 3, 4, 5), (1, 3, 4, 5))),
)
RESHAPE = (
    Case("reshape", dict(shape=(1, 340)), ((1, 17, 4, 5),)),
    Case("reshape", dict(shape=(1, 17, 4, 5)), ((1, 340),)),
    Case("reshape", dict(shape=(1, 33)), ((1, 33, 1, 1),)),
    Case("reshape", dict(shape=(1, 2, 4, 3, 5)), ((1, 8, 3, 5),)),
    Case("reshape", dict(shape=(1, 8, 3, 5)), ((1, 2, 4, 3, 5),)),
    Case("reshape", dict(shape=(6,)), ((1, 6),)),
    Case("reshape", dict(shape=(1, 17, 4, 5)), ((1, 17, 4, 5),), note="same"),
    Case("reshape", dict(shape=(1, 20, 17, 1)), ((1, 17, 4, 5),)),
    Case("reshape", dict(shape=(3, 4, 2, 5)), ((2, 3, 4, 5),)),
    Case("reshape", dict(shape=(2, 60)), ((2, 3, 4, 5),)),
)
TRANSPOSE = (
    Case("transpose", dict(perm=(0, 2, 3, 1)), ((1, 17, 4, 5),)),
    Case("transpose", dict(perm=(0, 3, 1, 2)), ((1, 4, 5, 17),)),
    Case("transpose", dict(perm=(0, 1, 3, 2)), ((1, 8, 4, 5),)),
    Case("transpose", dict(perm=(0, 2, 1, 3, 4)), ((1, 3, 7, 4, 5),)),
    Case("transpose", dict(perm=(0, 2, 1)), ((1, 9, 16),)),
    Case("transpose", dict(perm=(0, 4, 2, 5, 1, 3)), ((1, 2, 3, 4, 5, 6),)),
)
SLICE = (
    Case("slice", dict(axis=2, start=1, stop=8, step=2), ((1, 17, 9, 5),)),
    Case("slice", dict(axis=1, start=0, stop=17, step=3), ((2, 17, 4, 5),)),
    Case("slice", dict(axis=0, start=1, stop=3, step=1), ((4, 7),)),
    Case("slice", dict(axis=1, start=0, stop=8, step=1), ((1, 17, 4, 5),)),
    Case("slice", dict(axis=1, start=8, stop=17, step=1), ((1, 17, 4, 5),)),
    Case("slice", dict(axis=1, start=3, stop=4, step=1), ((1, 17, 4, 5),)),
    Case("slice", dict(axis=2, start=1, stop=4, step=1), ((1, 9, 4, 5),)),
    Case("slice", dict(axis=3, start=2, stop=3, step=1), ((1, 9, 4, 5),)),
    Case("slice", dict(axis=1, start=5, stop=33, step=1), ((1, 64),)),
    Case("slice", dict(axis=2, start=1, stop=3, step=1), ((1, 5, 4),)),
)


EXPAND = (
    Case("expand", dict(shape=(3, 4, 5)), ((1, 4, 1),)),
    Case("expand", dict(shape=(2, 17, 4, 5)), ((1, 17, 1, 1),)),
)


def _pad(shape: Shape, begin: Shape, end: Shape, value: float = 0.0, mode: str = "constant"):
    return Case("pad", dict(pads_begin=begin, pads_end=end, mode=mode, value=value), (shape,))


PAD = (
    _pad((1, 17, 4, 5), (0, 0, 1, 1), (0, 0, 1, 1)),
    _pad((1, 8, 4, 5), (0, 0, 0, 2), (0, 0, 3, 1), -1.5),
    _pad((1, 8, 4, 5), (0, 2, 0, 0), (0, 7, 0, 0)),
    _pad((1, 9), (0, 2), (0, 1), 0.25),
    _pad((1, 3, 4), (0, 1, 2), (0, 0, 1)),
    *(_pad((1, 8, 4, 5), (0, 0, 1, 3), (0, 0, 2, 1), mode=mode) for mode in ("reflect", "edge", "wrap")),
    _pad((2, 3, 4), (1, 0, 2), (0, 0, 1), mode="reflect"),
    *(_pad((2, 3, 4), (1, 3, 5), (2, 4, 9), mode=mode) for mode in ("edge", "wrap")),
    _pad((2, 3, 4), (1, 2, 3), (1, 1, 3), mode="reflect"),
    _pad((2, 3), (0, 40), (0, 41), mode="wrap"),
)
SHUFFLE = tuple(
    Case("shuffle", dict(groups=groups), ((1, groups * per_group, 4, 5),))
    for groups, per_group in ((1, 8), (2, 1), (2, 8), (2, 29), (3, 5), (4, 17), (8, 12))
)

MOVES = (CONCAT, RESHAPE, TRANSPOSE, SLICE, EXPAND, PAD, SHUFFLE)
