"""Pages that are written while the site is built: a directive says its content in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """A directive whose content is what ``markdown`` returns. Where that has headings, it begins with one."""

    def markdown(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> str:
    """A Markdown table; the columns ``numbers`` (from 0) are set to the right."""
    right = set(numbers)
    marks = ["---:" if index in right else "---" for index in range(len(head))]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in (head, marks, *rows)) + "\n"


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
