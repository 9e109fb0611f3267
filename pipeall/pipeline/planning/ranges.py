"""Ranges of groups that a unit has compiled ahead of time: what its stages may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...files import JsonReader

Range = tuple[int, int]  # groups [first, last)


@dataclass(frozen=True, slots=True)
class Ranges:
    """What a stage may compute where a unit has files of some ranges only. Cuts beside such a stage do not float.

    groups  every range that it has, files of several one after the other included, in their order
    where   the folders of the files, for people
    """

    groups: tuple[Range, ...]
    where: str

    @classmethod
    def of(cls, files: Iterable[Range], where: str) -> Ranges:
        """The ranges of these files, and of all that follow each other."""
        own = sorted(set(files))
        found = set(own)
        for first, last in reversed(own):  # what begins behind it is complete
            found |= {(first, end) for begin, end in found if begin == last}
        return cls(tuple(sorted(found)), where)

    @classmethod
    def read(cls, read: JsonReader, count: int) -> Ranges:
        """The inverse of ``to_dict``, of a network of so many groups."""
        found = []
        for text in read.words("ranges"):
            first, _, last = text.partition("-")
            if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= count):
                raise read.fail("ranges", f"numbers of groups from 1 to {count}, as 5-11")
            found.append((int(first) - 1, int(last)))
        return cls(tuple(found), read.word("folder"))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"folder": self.where, "ranges": [f"{first + 1}-{last}" for first, last in self.groups]}

    @property
    def pieces(self) -> tuple[Range, ...]:
        """Those that are not others one after the other."""
        every = set(self.groups)
        return tuple(
            (first, last)
            for first, last in self.groups
            if not any((first, cut) in every and (cut, last) in every for cut in range(first + 1, last))
        )

    @property
    def text(self) -> str:
        """For people, who count from 1."""
        return ", ".join(f"{first + 1}-{last}" for first, last in self.groups) or "none"

    def may_be(self, ends: Sequence[int]) -> bool:
        """Whether a stage may have these ends: (first, first_late, last, last_late)."""
        first, first_late, last, last_late = ends
        return (first, last) == (first_late, last_late) and (first, last) in self.groups

    def table(self, count: int) -> np.ndarray:
        """(count + 1, count + 1): whether a stage may have groups [first, last) of so many."""
        found = np.zeros((count + 1, count + 1), bool)
        for one in self.groups:
            found[one] = True
        return found

    def refusal(self, unit: str, ends: Sequence[int], plan: str, network: str) -> str:
        """Why a stage may not have these ends, and the command that makes what is missing."""
        first, first_late, last, last_late = ends
        if (first, last) != (first_late, last_late):
            return f"{unit} has its groups compiled ahead: expected cuts beside it that do not float"
        return (
            f"{unit} has no slice of groups {first + 1} to {last} in {self.where}, which has {self.text}; "
            f"pipeall slice {network}.onnx --plan {plan} --units {unit} -o {self.where.split(':')[0]} writes it"
        )
