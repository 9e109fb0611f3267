"""Pages that are written while the site is built: a directive says its content in Markdown."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """A directive whose content is what ``markdown`` returns. Where that has headings, it begins with one."""

    def markdown(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)
