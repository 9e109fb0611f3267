"""The help of commands as the site shows it: lines that click keeps as they are become blocks of code."""

from __future__ import annotations

import click
from sphinx.application import Sphinx

KEPT = "| "  # what sphinx-click puts before such lines


def process(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    found: list[str] = []
    inside = False
    for line in lines:
        kept = line.startswith(KEPT)
        if kept and not inside:
            found += ["", ".. code-block:: text", ""]
        elif inside and not kept:
            found.append("")
        found.append(f"   {line[len(KEPT) :]}" if kept else line)
        inside = kept
    lines[:] = found


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx_click")
    app.connect("sphinx-click-process-description", process)
    return {"parallel_read_safe": True}
