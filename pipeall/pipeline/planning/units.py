"""Units, what stages of a plan run on: a component or some of its cores, in a precision; and sets to run at once.

``COMPONENTS`` is the list of what a board may have. A new device is a folder in ``pipeline/devices`` and a line here,
or a package outside with an entry point in the group "pipeall.devices" that gives such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from itertools import chain, combinations, islice, product

from ...arguments import shown, text
from ...errors import ArgumentError

MAX_UNIT_SETS = 5_000  # four components of four cores each, split in all ways, make 28,560: nobody waits for those


@dataclass(frozen=True, slots=True)
class Traits:
    """What plans may ask of a component of some name, known without opening a device.

    device      what runs it: a folder of ``pipeline/devices``, or the dotted name of a module outside
    cores       a stage may have some of its cores: "bigx3"
    batch       most frames that a stage may take together: "bigx1*2"
    precisions  those it can compute in beside the default: "gpu@fp16"
    several     there may be more than one: "mid1", "gpu1"
    neighbours  two of the device's components may stand beside each other in a pipeline: no memory is of one alone
    all         it is all components of its device at once: no plan has it beside one of them
    """

    device: str
    cores: bool = False
    batch: int = 1
    precisions: tuple[str, ...] = ()
    several: bool = False
    neighbours: bool = True
    all: bool = False


CPU_PRECISIONS = ("fp32", "fp16", "bf16", "int8", "mixed")
COMPONENTS: dict[str, Traits] = {  # name, whose first letter stands for it in plans
    "big": Traits("cpu", cores=True, batch=4, precisions=CPU_PRECISIONS),
    "mid": Traits("cpu", cores=True, batch=4, precisions=CPU_PRECISIONS, several=True),
    "little": Traits("cpu", cores=True, batch=4, precisions=CPU_PRECISIONS),
    "gpu": Traits("opencl", precisions=("fp16", "mixed"), several=True, neighbours=False),
    "npu": Traits("npu", several=True),
    "cpu": Traits("cpu", cores=True, batch=4, precisions=CPU_PRECISIONS, all=True),
}
PLUG_INS = "pipeall.devices"  # entry points: each gives a dict like COMPONENTS


def components() -> Mapping[str, Traits]:
    """``COMPONENTS``, and the components of packages outside."""
    return COMPONENTS | plug_ins()


@cache
def plug_ins() -> dict[str, Traits]:
    """The components that packages outside bring."""
    return {name: traits for point in entry_points(group=PLUG_INS) for name, traits in point.load().items()}


class Unit(str):
    """What a stage runs on. It is its own text, as plans, profiles, statistics and files have it.

    "big", "bigx3" for three of its cores, "gpu@fp16" and "big@fp16x3" in another precision than its device's default,
    "bigx1*2" where it takes up to two frames together: times of it in a profile are those of a frame of two.

    Parameters
    ----------
    component
        Its name: "big", "gpu1".
    cores
        How many of the component's cores; None for the whole component.
    precision
        "" for the device's default.
    batch
        Frames that a stage takes together, where as many wait: weights are then read once for them.
    """

    __slots__ = ("component", "cores", "precision", "batch")
    component: str
    cores: int | None
    precision: str
    batch: int

    def __new__(cls, component: str, cores: int | None = None, precision: str = "", batch: int = 1) -> Unit:
        word = component + (f"@{precision}" if precision else "") + ("" if cores is None else f"x{cores}")
        unit = super().__new__(cls, word + (f"*{batch}" if batch > 1 else ""))
        unit.component, unit.cores, unit.precision, unit.batch = component, cores, precision, batch
        return unit

    def __getnewargs__(self) -> tuple[str, int | None, str, int]:
        return self.component, self.cores, self.precision, self.batch

    @property
    def whole(self) -> Unit:
        """Its component with all cores, in its precision, a frame at a time."""
        return Unit(self.component, None, self.precision)

    @property
    def single(self) -> Unit:
        """The same, a frame at a time."""
        return Unit(self.component, self.cores, self.precision)

    @classmethod
    def parse(cls, word: str) -> Unit:
        """The unit of a word: "Bx3" is "bigx3", "B*2" takes two frames together, "little" is itself.

        Raises ArgumentError on any other word, for cores of a component that has none to choose from, and for more
        frames than it takes.
        """
        if isinstance(word, Unit):
            return word
        word = text("unit", word).strip()
        if swapped := re.fullmatch(r"([a-z]+[0-9]*)(x[0-9]+)(@[a-z0-9]+)(.*)", word, re.IGNORECASE):
            component, cores, precision, rest = swapped.groups()
            raise ArgumentError(f"unit {word!r}: expected the precision first, as {component}{precision}{cores}{rest}")
        match = re.fullmatch(r"(.+?)(?:x([1-9][0-9]{0,3}))?(?:\*([1-9]))?", word.lower())
        whole = cls.parse_whole(match[1] if match else word)
        cores, batch = (match[2] and int(match[2]), int(match[3] or 1)) if match else (None, 1)
        traits, kind = traits_of(whole.component), re.match("[a-z]+", whole)[0]
        if cores is not None and not traits.cores:
            raise ArgumentError(f"unit {word!r}: expected no number of cores, a {kind} has none to choose from")
        if batch > traits.batch:
            most = f"at most {traits.batch} frames together" if traits.batch > 1 else "a frame at a time"
            raise ArgumentError(f"unit {word!r}: expected {most} on a {kind}")
        return Unit(whole.component, cores, whole.precision, batch)

    @classmethod
    def parse_whole(cls, word: str) -> Unit:
        """A whole component of a name or letter: "B" is "big", "g1@fp16" is "gpu1@fp16".

        Raises ArgumentError on any other word.
        """
        known, word = components(), text("component", word)
        match = re.fullmatch(r"([a-z]+)([1-9][0-9]*)?(?:@([a-z0-9]+))?", word.strip().lower())
        for name, traits in known.items() if match else ():
            stem, number, precision = match.groups()
            if stem in (name, name[0]) and (traits.several or not number) and precision in (None, *traits.precisions):
                return cls(name + (number or ""), None, precision or "")
        *names, last = known
        letters = ", ".join(name[0].upper() for name in known)
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, traits in known.items():
            alike.setdefault(tuple(traits.precisions), []).append(name)
        precise = "; ".join(f"{', '.join(of)} with @{', @'.join(words)}" for words, of in alike.items() if words)
        raise ArgumentError(
            f"component: expected {', '.join(names)} or {last}, or a letter of {letters} ({precise}); got {shown(word)}"
        )


def traits_of(component: str) -> Traits:
    """The traits of a component by its name."""
    return components()[re.match("[a-z]+", component)[0]]


def unit_numbers(units: Sequence[str]) -> tuple[int, ...]:
    """The number of the unit that serves each stage of a plan. A component that comes several times whole is one unit.

    ``units``: what each stage runs on, in the plan's order.
    """
    keys = [unit.component if unit.cores is None else index for index, unit in enumerate(map(Unit.parse, units))]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return tuple(numbers[key] for key in keys)


def may_be_neighbours(one: str, other: str) -> bool:
    """Whether two components may stand beside each other in a pipeline."""
    first, second = traits_of(one), traits_of(other)
    return first.device != second.device or (first.neighbours and not overlap(one, other))


def overlap(one: str, other: str) -> bool:
    """Whether two different components have the same cores: one is all components of the other's device."""
    first, second = traits_of(one), traits_of(other)
    return one != other and first.device == second.device and (first.all or second.all)


def core_counts(cores: int) -> range:
    """How many cores of a component units have that a search takes by itself: single cores and more, but not all.

    Of many cores only multiples of an eighth: otherwise there are too many ways to divide them.
    """
    step = -(-cores // 8)
    return range(step, cores, step)


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
