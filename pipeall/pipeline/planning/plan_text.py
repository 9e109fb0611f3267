"""The text of plans: which units may be in one, orders and cuts read and written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from ...arguments import whole
from ...errors import ArgumentError
from ...files import shown
from .units import Unit, overlap

GRAMMAR = (
    "expected ORDER[:CUTS] such as G-B-L:3,5, B-G-B:2,9, Bx3-Bx1-G:3,5 or B-L:3~4, one component such as big, "
    "B+L+G for Parallel, (B-G:4)+L, or 2*(Bx2-Lx2:9)"
)

Cut = int | tuple[int, int] | tuple[int, int, int]  # a pair floats between the two; the third is the share, in percent
Cuts = Sequence[Cut]
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


def lanes_of(text: str) -> list[tuple[list[str], list[Cut]]]:
    """Order and cuts of each lane of the text of one, or of lanes that are alike: "2*(B-L:3)"."""
    count, lane = re.fullmatch(r"\s*(?:([1-9][0-9]{0,2})\s*\*)?(.*)", text, re.DOTALL).groups()
    order, _, cuts = re.sub(r"^\s*\((.*)\)\s*$", r"\1", lane).partition(":")
    try:
        return [(order.split("-"), [_cut(word) for word in cuts.split(",")] if cuts.strip() else [])] * int(count or 1)
    except ValueError:
        raise ArgumentError(f"plan {shown(text)}: {GRAMMAR}") from None


def units_of(lanes: Sequence[Sequence[str]]) -> list[list[Unit]]:
    """The units of lanes of words. Raises ArgumentError for units that cannot be in one plan."""
    text = "+".join("-".join(words) for words in lanes)
    parsed = [[Unit.parse(word) for word in words] for words in lanes]
    if not all(parsed):
        raise ArgumentError(f"order {text!r}: expected components, got none")
    for lane in parsed:
        for one, next_one in pairwise(lane):
            if one.component == next_one.component and None in (one.cores, next_one.cores):
                raise ArgumentError(f"order {text!r}: expected another component behind {one}, got {next_one}")
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
