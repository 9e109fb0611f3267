"""Docstrings of this package as the site shows them: their aligned lists become definition lists.

    groups   names of the network's groups
    idle_w   what the board draws with nothing running,
             or None

A line starts an entry if its name and text are separated by two spaces or more; deeper lines go on with the text. A
line such as ``gpu: list the OpenCL devices`` starts one as well where ``gpu`` is a parameter; then all lines up to an
empty one go on with the text. A unit such as ``gpu@fp16`` is no address of a mail.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

ALIGNED = re.compile(r"(?P<indent> *)(?P<name>\S(?:\S| (?! )){0,40}?) {2,}(?P<text>\S.*)")
OPAQUE = re.compile(r"<(?:factory|function <lambda>)>")
AT = re.compile(r"(?<![`\w])\w+@\w+(?![`\w])")
NAMED = re.compile(r"(?P<indent> *)(?P<name>[`\w, ]+): +(?P<text>\S.*)")


def with_definitions(lines: list[str], parameters: set[str]) -> list[str]:
    """The lines of a docstring with every aligned list as a definition list of reStructuredText."""
    found: list[str] = []
    entry: re.Match | None = None
    literal = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if literal and (depth or not line):
            found.append(line)
            continue
        start = ALIGNED.fullmatch(line) or _parameter(line, parameters)
        if start:
            if entry is None and found and found[-1]:
                found.append("")
            found += _definition(start)
            entry = start
        elif entry and line and (depth > len(entry["indent"]) or entry.re is NAMED):
            found.append(f"{entry['indent']}    {line.lstrip()}")
        else:
            if entry and line:
                found.append("")
            entry = None
            found.append(line)
        literal = line.endswith("::")
    return found


def _definition(start: re.Match) -> list[str]:
    name = start["name"].replace("``", "")
    return [f"{start['indent']}``{name}``", f"{start['indent']}    {start['text']}"]


def _parameter(line: str, parameters: set[str]) -> re.Match | None:
    found = NAMED.fullmatch(line)
    names = found["name"].replace("`", "").split(", ") if found else []
    return found if names and parameters.issuperset(names) else None


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    try:
        parameters = set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):  # a module, an attribute
        parameters = set()
    lines[:] = with_definitions([AT.sub(r"``\g<0>``", line) for line in lines], parameters)


def short(app: Sphinx, what: str, name: str, thing: Any, options: Any, given: str | None, returned: str | None) -> Any:
    """A signature whose defaults can be read: a lambda or a factory has no form in Python."""
    return given and OPAQUE.sub("...", given), returned


def skip(app: Sphinx, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Fields of a named tuple, whose docstrings say nothing."""
    return True if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", short)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
