"""The text of plans: which units may be in one, orders and cuts read and written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from ...arguments import several, whole
from ...arguments import text as as_text
from ...errors import ArgumentError
from ...files import shown
from .units import Unit, overlap

GRAMMAR = (
    "expected ORDER[:CUTS] such as G-B-L:3,5, B-G-B:2,9, Bx3-Bx1-G:3,5 or B-L:3~4, one component such as big, "
    "B+L+G for Parallel, (B-G:4)+L, 2*(Bx2-Lx2:9), B-(B|G)-B:3,4,6 for branches side by side, or Bx1-Bx1*2:5 for two "
    "frames together"
)

Cut = int | tuple[int, int] | tuple[int, int, int]  # a pair floats between the two; the third is the share, in percent
Cuts = Sequence[Cut]
Order = Sequence[str | tuple[str, ...]]  # a tuple has the units of branches, which run side by side
WORDS = "a list of units, such as ['big', 'Lx3']"


def cut_of(name: str, value: Any) -> Cut:
    """A rule: a group count, or two that a cut floats between, with or without the share."""
    count = whole(0)
    if isinstance(value, (tuple, list)) and len(value) in (2, 3):
        ends = count(name, value[0]), count(name, value[1])
        return ends if len(value) == 2 else (*ends, whole(0, 100)(name, value[2]))
    return count(name, value)


def _cut(word: str) -> Cut:
    """Raises ValueError."""
    early, floats, late = word.partition("~")
    if not floats:
        return int(early)
    late, shared, share = late.partition("@")
    return (int(early), int(late), int(share)) if shared else (int(early), int(late))


def word_of(name: str, value: Any) -> str | tuple[str, ...]:
    """A rule: the word of a unit, or those of branches."""
    return as_text(name, value) if isinstance(value, str) else several(as_text, WORDS)(name, value)


def levels_of(order: Order) -> list[tuple[str, ...]]:
    """Of an order, the words of each stage, or of all branches that run side by side."""
    return [(word,) if isinstance(word, str) else word for word in order]


def _order(text: str) -> Order:
    words = re.split(r"-(?![^(]*\))", text)
    forks = [re.fullmatch(r"\s*\((.*)\)\s*", word, re.DOTALL) for word in words]
    return [tuple(fork[1].split("|")) if fork else word for word, fork in zip(words, forks, strict=True)]


def lanes_of(text: str) -> list[tuple[Order, list[Cut]]]:
    """Order and cuts of each lane of the text of one, or of lanes that are alike: "2*(B-L:3)"."""
    count, lane = re.fullmatch(r"\s*(?:([1-9][0-9]{0,2})\s*\*)?(.*)", text, re.DOTALL).groups()
    order, _, cuts = re.sub(r"^\s*\((.*)\)\s*$", r"\1", lane).partition(":")
    try:
        return [(_order(order), [_cut(word) for word in cuts.split(",")] if cuts.strip() else [])] * int(count or 1)
    except ValueError:
        raise ArgumentError(f"plan {shown(text)}: {GRAMMAR}") from None


def order_text(order: Order) -> str:
    return "-".join(word if isinstance(word, str) else f"({'|'.join(word)})" for word in order)


def units_of(lanes: Sequence[Order]) -> list[list[Unit]]:
    """The units of lanes of words. Raises ArgumentError for units that cannot be in one plan."""
    text = "+".join(map(order_text, lanes))
    levels = [[tuple(map(Unit.parse, words)) for words in levels_of(order)] for order in lanes]
    if not all(levels):
        raise ArgumentError(f"order {text!r}: expected components, got none")
    for lane in levels:
        _check_neighbours(lane, text)
    parsed = [[unit for units in lane for unit in units] for lane in levels]
    whole = [{unit.component for unit in lane if unit.cores is None} for lane in parsed]
    some = {unit.component for lane in parsed for unit in lane if unit.cores is not None}
    taken = [component for components in whole for component in components]
    for component in taken:
        if component in some or taken.count(component) > 1:
            raise ArgumentError(f"order {text!r}: expected all of {component} in one lane, or some of its cores")
    for one, other in combinations(sorted({*taken, *some}), 2):
        if overlap(one, other):
            raise ArgumentError(f"order {text!r}: expected no cores in common, got {one} and {other}")
    return parsed


def _check_neighbours(levels: Sequence[tuple[Unit, ...]], text: str) -> None:
    """Raises ArgumentError for a whole component beside itself, and for branches without a stage around them."""
    forks = [len(units) > 1 for units in levels]
    if forks[0] or forks[-1] or any(one and other for one, other in pairwise(forks)) or not all(levels):
        raise ArgumentError(f"order {text!r}: expected one stage before branches, and one behind them")
    rows = [*(pairwise(units) for units in levels)]
    rows.append([(one[0], other[0]) for one, other in pairwise(levels) if len(one) == len(other) == 1])
    for one, next_one in (pair for row in rows for pair in row):
        if one.component == next_one.component and None in (one.cores, next_one.cores):
            raise ArgumentError(f"order {text!r}: expected another component behind {one}, got {next_one}")
