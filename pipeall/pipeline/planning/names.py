"""The words of plans and profiles: components by name or letter, and units: a component with some of its cores."""

from __future__ import annotations

import re

from ...errors import ArgumentError


def component_name(key: str) -> str:
    """The component name of a name or letter of an order string: "B" is "big", "g1@fp16" is "gpu1@fp16".

    Raises ArgumentError on any other word.
    """
    names = r"(b|big|l|little)|(m|mid)([1-9][0-9]*)?|(g|gpu)([1-9][0-9]*)?(@fp16|@mixed)?"
    match = re.fullmatch(names, key.strip().lower())
    if match is None:
        raise ArgumentError(
            f"component: expected big, mid, little or gpu, or a letter of B, M, L, G (gpu@fp16, gpu@mixed); got {key!r}"
        )
    word, number = match[1] or match[2] or match[4], match[3] or match[5] or ""
    return {"b": "big", "m": "mid", "l": "little", "g": "gpu"}[word[0]] + number + (match[6] or "")


def parse_unit(word: str) -> tuple[str, int | None]:
    """Component and number of cores of a unit: "Bx3" is ("big", 3), "little" is ("little", None).

    Raises ArgumentError on any other word, and for cores of a gpu.
    """
    match = re.fullmatch(r"(.+?)x([1-9][0-9]{0,3})", word.strip().lower())
    component, cores = component_name(match[1] if match else word), int(match[2]) if match else None
    if cores is not None and component.startswith("gpu"):
        raise ArgumentError(f"unit {word!r}: expected no number of cores, a gpu has none to choose from")
    return component, cores
