"""Tables and text in the columns of a terminal: long cells fold, columns beyond its width go on in a table below."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.cells import cell_len, chop_cells

RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
# C0 and C1 controls, and those that turn the direction of text; as Python writes them.
CONTROLS = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
GAP = 2  # columns of the terminal between those of a table
TEXT_LEAST = 16  # columns that a folded text keeps while there is another way to fit
UNBOUNDED = 100_000  # columns of a file or a pipe


def plain(text: str) -> str:
    """Text with what a terminal would obey written out: names come out of files."""
    return text.translate(CONTROLS)


def screen_width() -> int | None:
    """Columns to fit into: COLUMNS, or those of the terminal; None for a file or a pipe, where nothing is folded."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def print_text(text: str = "", hang: int = 2) -> None:
    """A line; where it is too wide for the screen, the rest below it is moved in by ``hang``."""
    _print(fold(plain(text), screen_width(), hang))


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table under a title. None is shown as "-"; columns whose heading starts with ">" are set to the right."""
    cells = [["-" if cell is None else plain(str(cell).replace("\n", " ")) for cell in row] for row in rows]
    print_text(title)
    _print(table_lines(headings, cells, screen_width()))


def _print(lines: Iterable[str]) -> None:
    """In the terminal's own encoding, which click would take for wrong where it is ASCII."""
    text = "\n".join(lines)
    try:
        RULE.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = text.replace(RULE, "-")
    print(text, flush=True)


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The lines of a table of text, an empty one at its end; ``width`` as of ``screen_width``."""
    columns = list(zip(headings, *rows, strict=True))
    lines: list[str] = []
    for block in _blocks(columns, width):
        lines += [*_block_lines(block, width), ""]
    return lines


def _blocks(columns: Sequence[Sequence[str]], width: int | None) -> list[list[Sequence[str]]]:
    """The columns in blocks that fit, as far as numbers need not be folded; each begins with the first column."""
    blocks = [list(columns[:1])]
    for column in columns[1:]:
        wider = [*blocks[-1], column]
        if width is not None and len(wider) > 2 and sum(_least(one) + GAP for one in wider) - GAP > width:
            wider = [columns[0], column]
            blocks.append(wider)
        blocks[-1] = wider
    return blocks


def _least(column: Sequence[str]) -> int:
    """Columns of the terminal where the heading is folded between its words, and texts are too, but no number."""
    heading, *cells = column
    least = max(map(cell_len, (*heading.removeprefix(">").split(), *cells)), default=0)
    return least if heading.startswith(">") else min(least, TEXT_LEAST)


def _block_lines(columns: Sequence[Sequence[str]], width: int | None) -> list[str]:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    table.show_header = any(heading for heading, *_ in columns)
    full = sum(max(cell_len(cell) for cell in column) + GAP for column in columns) - GAP
    for column in columns:
        heading, right = column[0].removeprefix(">"), column[0].startswith(">")
        least = _least(column) if right and width is not None and full > width else None
        table.add_column(Text(heading), justify="right" if right else "left", width=least, overflow="fold")
    for row in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(Text, row))
    console = Console(file=StringIO(), width=width or UNBOUNDED, color_system=None)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def fold(text: str, width: int | None, hang: int = 0) -> list[str]:
    """The text in lines of at most ``width``, broken at spaces where it can be; all but the first moved by ``hang``."""
    if width is None or cell_len(text) <= width:
        return [text]
    head = chop_cells(text, width)[0]
    space = head.rfind(" ")
    if text[len(head)] != " " and head[: max(space, 0)].strip():
        head = head[:space]
    margin = " " * min(hang, width // 2)
    rest = fold(text[len(head) :].lstrip(), width - len(margin))
    return [head.rstrip(), *(margin + line for line in rest)]
