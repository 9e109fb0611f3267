"""The units that plans may have where nobody names any: components, and single cores where all are equal."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.units import Unit, core_counts, traits_of
from .board import WHOLE, Board

SMALL = (1, 2)  # cores of a unit beside those of whole components: with them no division of four cores is missing
CLUSTERS = 2  # at most, that a search divides in all ways; of more it takes single cores: there are thousands of ways


def real_components(board: Board) -> list[str]:
    """Names of the components that are no stand-in, and of a model those of which it knows more than whole networks."""
    published = board.model.published if board.model else ()
    return [one.name for one in board.components.values() if not one.stand_in and one.name not in published]


def default_units(board: Board) -> list[Unit]:
    """All real components; on a machine of equal cores also all cores at once, one, and of four or more also two.
    Of a model also all cores at once, where it knows them as one team.

    Copies or stages of single cores may gain more there than threads do. Two components of one core each are the single
    ones themselves.
    """
    real = real_components(board)
    if board.all_cores is None:
        return [Unit.parse(name) for name in (*real, *([WHOLE] if board.model and board.model.team else []))]
    whole = Unit.parse(board.all_cores)
    count, clusters = board.component(whole).device.width, sum(traits_of(name).cores for name in real)
    some = [Unit(whole.component, cores) for cores in SMALL if 2 * cores <= count and count > clusters]
    return list(dict.fromkeys([*map(Unit.parse, real), whole, *some]))


def cores_of(board: Board) -> dict[str, int]:
    """How many cores each component has, where it has cores to choose from."""
    names = dict.fromkeys([*board.components, *filter(None, [board.all_cores])])
    return {name: board.component(name).device.width for name in names if traits_of(name).cores}


def units_to_search(board: Board, precision: str = "") -> list[Unit] | None:
    """What a search on a modelled board takes by itself: every component, and some cores of each that has times of
    them; None where there is no model. Of many clusters single cores are all that is taken.

    precision: of those that have it; default: each in its own.
    """
    if board.model is None:
        return None
    whole = [unit for unit in board.model.default_units() if unit.cores is None]
    if precision:
        names = dict.fromkeys(unit.component for unit in whole if precision in board.model.precisions(unit.component))
        whole = [Unit(name, None, precision) for name in names]
    return with_some_cores(board, whole)


def with_some_cores(board: Board, whole: Sequence[Unit]) -> list[Unit]:
    """Whole units of a modelled board, and some cores of each that has times of them."""
    cores = board.model.cores
    return [
        *whole,
        *(
            Unit(unit.component, count, unit.precision)
            for unit in whole
            if unit.component in cores
            for count in core_counts(board.model.components[unit.component].count)
            if count == 1 or len(cores) <= CLUSTERS
        ),
    ]
