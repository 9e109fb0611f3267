"""Teams: the units that could run at once on one board, every component whole or in parts, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, product

from ...errors import ArgumentError
from .names import component_name, parse_unit

MAX_TEAMS = 5_000  # four components of four cores each, in all parts, make 28,560: nobody waits for those


def teams(units: Iterable[str], most: int, cores: Mapping[str, int] | None = None) -> list[tuple[str, ...]]:
    """All sets of units that can run at once, each at most ``most`` units, fewer first.

    A component runs whole ("big"), or any of its parts run side by side, each as often as its cores allow ("bigx3",
    "bigx1"). ``cores`` says how many cores a component has; where it does not, the largest part of ``units`` counts.
    Raises ArgumentError where there are more than MAX_TEAMS of them.
    """
    given = {component_name(name): count for name, count in (cores or {}).items()}
    shares: dict[str, tuple[list[str], list[tuple[str, int]]]] = {}
    for unit in sorted(set(units)):
        component, count = parse_unit(unit)
        whole, parts = shares.setdefault(component, ([], []))
        if count is None:
            whole.append(unit)
        else:
            parts.append((unit, count))
    choices = [
        _at_most(chain(((unit,) for unit in whole), _side_by_side(parts, given.get(name) or _largest(parts), most)))
        for name, (whole, parts) in shares.items()
    ]
    found = _at_most(tuple(chain(*team)) for team in product(*choices))
    if len(found) > MAX_TEAMS:
        raise ArgumentError(f"units {', '.join(sorted(set(units)))}: expected at most {MAX_TEAMS} sets to run at once")
    return sorted((team for team in found if 0 < len(team) <= most), key=lambda team: (len(team), team))


def _side_by_side(parts: list[tuple[str, int]], cores: int, most: int) -> Iterator[tuple[str, ...]]:
    """Every multiset of ``parts`` (unit, its cores) that fits into ``cores``, the empty one included."""
    yield ()
    if most:
        for i, (unit, count) in enumerate(parts):
            if count <= cores:
                for others in _side_by_side(parts[i:], cores - count, most - 1):
                    yield (unit, *others)


def _at_most(teams: Iterator[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """All of them, or one more than MAX_TEAMS."""
    return list(islice(teams, MAX_TEAMS + 1))


def _largest(parts: list[tuple[str, int]]) -> int:
    return max((count for _, count in parts), default=0)
