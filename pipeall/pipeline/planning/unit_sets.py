"""Sets of units that could run at once on one board. A component is in a set whole, in some of its cores, or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product

from ...errors import ArgumentError
from .units import Unit, overlap, traits_of

MAX_UNIT_SETS = 5_000  # four components of four cores each, split in all ways, make 28,560: nobody waits for those


def unit_sets(units: Iterable[str], most: int, cores: Mapping[str, int] | None = None) -> list[tuple[Unit, ...]]:
    """All sets of at most ``most`` units, those of fewer units first.

    A component runs whole ("big"), or several units of some of its cores run side by side ("bigx3" and "bigx1"), as
    many as its cores allow; each in any of the precisions that are given. ``cores`` says how many cores a component
    has; unless it does, its largest unit counts.
    Raises ArgumentError where there are more than MAX_UNIT_SETS sets.
    """
    given = {Unit.parse_whole(name): count for name, count in (cores or {}).items()}
    by_component: dict[str, list[Unit]] = {}
    for unit in sorted(set(map(Unit.parse, units))):
        by_component.setdefault(unit.component, []).append(unit)
    options = []  # what each component can contribute to a set
    for component, known in by_component.items():
        some = [unit for unit in known if unit.cores is not None]
        most_cores = given.get(component) or max((unit.cores for unit in some), default=0)
        whole = ((unit,) for unit in known if unit.cores is None)
        options.append(_at_most(chain(whole, _side_by_side(some, most_cores, most))))
    possible = (tuple(chain(*unit_set)) for unit_set in product(*options))
    if any(traits_of(component).all for component in by_component):
        possible = (unit_set for unit_set in possible if not _overlaps(unit_set))
    found = _at_most(possible)
    if len(found) > MAX_UNIT_SETS:
        raise ArgumentError(
            f"units {', '.join(sorted(set(units)))}: expected at most {MAX_UNIT_SETS} sets to run at once"
        )
    return sorted((units for units in found if 0 < len(units) <= most), key=lambda units: (len(units), units))


def _side_by_side(some: Sequence[Unit], cores: int, most: int) -> Iterator[tuple[Unit, ...]]:
    """All multisets of units of one component that fit into its ``cores``, the empty one included."""
    yield ()
    if most:
        for i, unit in enumerate(some):
            if unit.cores <= cores:
                for others in _side_by_side(some[i:], cores - unit.cores, most - 1):
                    yield (unit, *others)


def _overlaps(unit_set: Sequence[Unit]) -> bool:
    components = {unit.component for unit in unit_set}
    return any(overlap(one, other) for one, other in combinations(components, 2))


def _at_most(sets: Iterator[tuple[Unit, ...]]) -> list[tuple[Unit, ...]]:
    """All sets, but no more than MAX_UNIT_SETS and one."""
    return list(islice(sets, MAX_UNIT_SETS + 1))
