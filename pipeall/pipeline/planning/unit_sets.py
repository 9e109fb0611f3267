"""Teams: sets of units that could run at once on one board. A component is in a team whole, in some cores, or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product

from ...errors import ArgumentError
from .units import Unit, component_name, overlap, traits_of

MAX_UNIT_SETS = 5_000  # four components of four cores each, split in all ways, make 28,560: nobody waits for those


def unit_sets(units: Iterable[str], most: int, cores: Mapping[str, int] | None = None) -> list[tuple[str, ...]]:
    """All sets of at most ``most`` units, those of fewer units first.

    A component runs whole ("big"), or several units of some of its cores run side by side ("bigx3" and "bigx1"), as
    many as its cores allow; each in any of the precisions that are given. ``cores`` says how many cores a component
    has; unless it does, its largest unit counts.
    Raises ArgumentError where there are more than MAX_UNIT_SETS sets.
    """
    given = {component_name(name): count for name, count in (cores or {}).items()}
    by_component: dict[str, tuple[list[str], list[tuple[str, int]]]] = {}
    for unit in sorted(set(units)):
        asked = Unit.parse(unit)
        whole, partial = by_component.setdefault(asked.component, ([], []))
        if asked.cores is None:
            whole.append(unit)
        else:
            partial.append((unit, asked.cores))
    options = []  # what each component can contribute to a team
    for component, (whole, partial) in by_component.items():
        splits = _side_by_side(partial, given.get(component) or _largest(partial), most)
        options.append(_at_most(chain(((unit,) for unit in whole), splits)))
    possible = (tuple(chain(*team)) for team in product(*options))
    if any(traits_of(component).all for component in by_component):
        possible = (team for team in possible if not _overlaps(team))
    found = _at_most(possible)
    if len(found) > MAX_UNIT_SETS:
        raise ArgumentError(
            f"units {', '.join(sorted(set(units)))}: expected at most {MAX_UNIT_SETS} sets to run at once"
        )
    return sorted((team for team in found if 0 < len(team) <= most), key=lambda team: (len(team), team))


def _side_by_side(partial: list[tuple[str, int]], cores: int, most: int) -> Iterator[tuple[str, ...]]:
    """All multisets of ``partial`` (unit, its cores) that fit into ``cores``, the empty one included."""
    yield ()
    if most:
        for i, (unit, count) in enumerate(partial):
            if count <= cores:
                for others in _side_by_side(partial[i:], cores - count, most - 1):
                    yield (unit, *others)


def _overlaps(team: Sequence[str]) -> bool:
    components = {Unit.parse(unit).name for unit in team}
    return any(overlap(one, other) for one, other in combinations(components, 2))


def _at_most(sets: Iterator[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """All sets, but no more than MAX_UNIT_SETS and one."""
    return list(islice(sets, MAX_UNIT_SETS + 1))


def _largest(partial: list[tuple[str, int]]) -> int:
    return max((count for _, count in partial), default=0)
