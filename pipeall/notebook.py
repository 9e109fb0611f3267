"""Tables as notebooks show them: ``_repr_html_`` of what this package gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 60  # a page; the rest is a line that says how many there are


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A small table in HTML; all text is escaped. Numbers stand at the right."""
    rows = list(rows)
    shown = rows[:MAX_ROWS]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    if len(rows) > len(shown):
        body += f'<tr><td colspan="{len(head)}">and {len(rows) - len(shown)} more</td></tr>'
    heads = "".join(f"<th>{escape(word)}</th>" for word in head)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td style="text-align:right">{value:,.3f}</td>'
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
