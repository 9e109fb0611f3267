"""What ``pipeall.doctor`` found: facts by topic, and faults with what to do. Nothing personal is in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

HOMES = re.compile(r"(/home|/Users)/[^/\s:,;'\"]+")


@dataclass(frozen=True)
class Fault:
    """``what`` is wrong, and the ``remedy``: a sentence or a command line each."""

    what: str
    remedy: str


@dataclass
class Section:
    """One topic. Home folders are written as ~."""

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def fact(self, name: str, value: object) -> None:
        self.facts.append((name, without_home(str(value))))

    def fault(self, what: str, remedy: str) -> None:
        self.faults.append(Fault(without_home(what), without_home(remedy)))


@dataclass(frozen=True)
class Diagnosis:
    """What a machine has and what is wrong with it; ``str`` of it is a page to paste into a report.

    ``sections`` are topics with their facts and faults.
    """

    sections: tuple[Section, ...]

    @property
    def faults(self) -> list[Fault]:
        """All that is wrong."""
        return [fault for section in self.sections for fault in section.faults]

    @property
    def ok(self) -> bool:
        """Whether nothing is."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        sections = [
            {"title": section.title, "facts": [{"name": name, "value": value} for name, value in section.facts]}
            for section in self.sections
        ]
        faults = [
            {"topic": section.title, "what": fault.what, "remedy": fault.remedy}
            for section in self.sections
            for fault in section.faults
        ]
        return {"ok": self.ok, "faults": faults, "sections": sections}

    def __str__(self) -> str:
        lines = []
        for section in self.sections:
            lines += [section.title, *(f"  {name}: {value}" for name, value in section.facts), ""]
        if self.ok:
            return "\n".join([*lines, "OK: nothing is wrong here."])
        lines.append("What to do")
        for number, fault in enumerate(self.faults, 1):
            lines += [f"  {number}. {fault.what}", f"     -> {fault.remedy}"]
        return "\n".join(lines)


def without_home(text: str) -> str:
    """Home folders, which have names of users in them, as ~."""
    home = os.path.expanduser("~")
    if home not in ("/", "~", ""):
        text = re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
    return HOMES.sub("~", text)
