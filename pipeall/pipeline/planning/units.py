"""Units: what the stages of a plan run on. A unit is a component, or some of its cores, in a precision.

``COMPONENTS`` is the list of what a board may have. A new device is a folder in ``pipeline/devices`` and a line here,
or a package outside with an entry point in the group "pipeall.devices" that gives such lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from ...arguments import shown, text
from ...errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Traits:
    """What plans may ask of a component of some name, known without opening a device.

    device      what runs it: a folder of ``pipeline/devices``, or the dotted name of a module outside
    cores       a stage may have some of its cores: "bigx3"
    precisions  those it can compute in beside the default: "gpu@fp16"
    several     there may be more than one: "mid1", "gpu1"
    neighbours  two of the device's components may stand beside each other in a pipeline: no memory is of one alone
    all         it is all components of its device at once: no plan has it beside one of them, and only who asks for it
                by name gets it
    """

    device: str
    cores: bool = False
    precisions: tuple[str, ...] = ()
    several: bool = False
    neighbours: bool = True
    all: bool = False


COMPONENTS: dict[str, Traits] = {  # name, whose first letter stands for it in plans
    "big": Traits("cpu", cores=True, precisions=("fp32", "fp16", "int8", "mixed")),
    "mid": Traits("cpu", cores=True, precisions=("fp32", "fp16", "int8", "mixed"), several=True),
    "little": Traits("cpu", cores=True, precisions=("fp32", "fp16", "int8", "mixed")),
    "gpu": Traits("opencl", precisions=("fp16", "mixed"), several=True, neighbours=False),
    "cpu": Traits("cpu", cores=True, precisions=("fp32", "fp16", "int8", "mixed"), all=True),
}
PLUG_INS = "pipeall.devices"  # entry points: each gives a dict like COMPONENTS


def components() -> Mapping[str, Traits]:
    """``COMPONENTS`` and those of packages outside."""
    return COMPONENTS | plug_ins()


@cache
def plug_ins() -> dict[str, Traits]:
    """The components that packages outside bring."""
    return {name: traits for point in entry_points(group=PLUG_INS) for name, traits in point.load().items()}


@dataclass(frozen=True, slots=True)
class Unit:
    """A component, the number of its cores that are used (None: all), and a precision (None: the component's own).

    As text, in plans, profiles and boards: "big", "bigx3", "gpu@fp16", "big@fp16x3".
    """

    component: str
    cores: int | None = None
    precision: str | None = None

    @classmethod
    def parse(cls, word: str) -> Unit:
        """The unit of a text, by name or letter: "Bx3" is three cores of "big".

        Raises ArgumentError on any other word, and for cores of a component that has none to choose from.
        """
        match = re.fullmatch(r"(.+?)x([1-9][0-9]{0,3})", text("unit", word).strip().lower())
        name, cores = component_name(match[1] if match else word), int(match[2]) if match else None
        if cores is not None and not traits_of(name).cores:
            kind = re.match("[a-z]+", name)[0]
            raise ArgumentError(f"unit {word!r}: expected no number of cores, a {kind} has none to choose from")
        component, _, precision = name.partition("@")
        return cls(component, cores, precision or None)

    @property
    def name(self) -> str:
        """The component in the unit's precision, with all of its cores: "big@fp16"."""
        return f"{self.component}@{self.precision}" if self.precision else self.component

    def __str__(self) -> str:
        return self.name if self.cores is None else f"{self.name}x{self.cores}"


def component_name(key: str) -> str:
    """The component name of a name or letter of an order string: "B" is "big", "g1@fp16" is "gpu1@fp16".

    Raises ArgumentError on any other word.
    """
    known, key = components(), text("component", key)
    match = re.fullmatch(r"([a-z]+)([1-9][0-9]*)?(?:@([a-z0-9]+))?", key.strip().lower())
    for name, traits in known.items() if match else ():
        word, number, precision = match.groups()
        if word in (name, name[0]) and (traits.several or not number) and precision in (None, *traits.precisions):
            return name + (number or "") + (f"@{precision}" if precision else "")
    *names, last = known
    letters = ", ".join(name[0].upper() for name in known)
    precise = ", ".join(f"{name}@{precision}" for name, traits in known.items() for precision in traits.precisions)
    raise ArgumentError(
        f"component: expected {', '.join(names)} or {last}, or a letter of {letters} ({precise}); got {shown(key)}"
    )


def traits_of(component: str) -> Traits:
    """The traits of a component by its name, as ``component_name`` gives it."""
    return components()[re.match("[a-z]+", component)[0]]


def may_be_neighbours(one: str, other: str) -> bool:
    """Whether two components may stand beside each other in a pipeline."""
    first, second = traits_of(one), traits_of(other)
    return first.device != second.device or (first.neighbours and not overlap(one, other))


def overlap(one: str, other: str) -> bool:
    """Whether two different components have the same cores: one is all components of the other's device."""
    first, second = traits_of(one), traits_of(other)
    return one != other and first.device == second.device and (first.all or second.all)
