"""The help of commands as the site shows it: all are loaded, and lines that click keeps become blocks of code."""

from __future__ import annotations

import click
from sphinx.application import Sphinx

from pipeall.cli.app import app as pipeall

KEPT = "| "  # what sphinx-click puts before such lines


def process(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    shown: list[str] = []
    inside = False
    for line in lines:
        kept = line.startswith(KEPT)
        if kept and not inside:
            shown += ["", ".. code-block:: text", ""]
        elif inside and not kept:
            shown.append("")
        shown.append(f"   {line[len(KEPT) :]}" if kept else line)
        inside = kept
    lines[:] = shown


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx_click")
    for name in pipeall.list_commands(click.Context(pipeall)):  # else they would be loaded when they are called
        pipeall.get_command(click.Context(pipeall), name)
    app.connect("sphinx-click-process-description", process)
    return {"parallel_read_safe": True}
