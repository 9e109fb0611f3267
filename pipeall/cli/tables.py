"""Tables and text in the columns of a terminal: long cells fold, columns beyond its width go on in a block below."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
# C0 and C1 controls, and those that turn the direction of text; as Python writes them.
CONTROLS = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
GAP = 2  # columns of the terminal between those of a table
TEXT_LEAST = 16  # columns that a folded text keeps while there is another way to fit
LEAST = 4  # columns of anything, at worst


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
    """The lines of a table of text, an empty one after each block; ``width`` as of ``screen_width``."""
    texts = zip(*rows, strict=True) if rows else [()] * len(headings)
    columns = [TableColumn.of(heading, cells) for heading, cells in zip(headings, texts, strict=True)]
    lines: list[str] = []
    for block in _blocks(columns, width):
        lines += [*_block_lines(block, len(rows), width), ""]
    return lines or [""]


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


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its heading, its cells, and whether they are set to the right, as numbers are."""

    heading: str
    cells: tuple[str, ...]
    right: bool

    @classmethod
    def of(cls, heading: str, cells: Sequence[str]) -> TableColumn:
        return cls(heading.removeprefix(">"), tuple(cells), heading.startswith(">"))

    @property
    def full(self) -> int:
        """Columns of the terminal with nothing folded."""
        return max(map(cell_len, (self.heading, *self.cells)))

    @property
    def folded_heading(self) -> int:
        """With the heading alone folded, between its words."""
        return max(map(cell_len, (*self.heading.split(), *self.cells)), default=0)

    @property
    def least(self) -> int:
        """With texts folded too; numbers are not."""
        return self.folded_heading if self.right else min(self.folded_heading, TEXT_LEAST)


def _blocks(columns: Sequence[TableColumn], width: int | None) -> list[list[TableColumn]]:
    """The columns in blocks that fit; each begins with the first texts, which tell the rows apart."""
    if width is None or _total([column.least for column in columns]) <= width:
        return [list(columns)]
    texts = next((place for place, column in enumerate(columns) if column.right), len(columns))
    keys = [
        column
        for place, column in enumerate(columns[:texts])
        if place == 0 or _total([key.least for key in columns[: place + 1]]) <= width // 2
    ]
    blocks = [list(keys)]
    for column in columns[len(keys) :]:
        wider = [*blocks[-1], column]
        if len(wider) > len(keys) + 1 and _total([part.least for part in wider]) > width:
            blocks.append([*keys, column])
        else:
            blocks[-1] = wider
    return blocks


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(block: Sequence[TableColumn], width: int | None) -> list[int]:
    """Columns of the terminal for each: headings fold first, then texts, and numbers only where nothing else helps."""
    widths = [column.full for column in block]
    for floors in (
        [column.folded_heading for column in block],
        [column.least for column in block],
        [LEAST] * len(block),
    ):
        while width is not None and _total(widths) > width:
            places = [place for place, floor in enumerate(floors) if widths[place] > floor]
            if not places:
                break
            widths[max(places, key=widths.__getitem__)] -= 1
    return widths


def _block_lines(block: Sequence[TableColumn], rows: int, width: int | None) -> list[str]:
    widths = _widths(block, width)
    lines = []
    if any(column.heading for column in block):
        lines += _row_lines(block, widths, [column.heading for column in block])
        lines.append((" " * GAP).join(RULE * width for width in widths))
    for row in range(rows):
        lines += _row_lines(block, widths, [column.cells[row] for column in block])
    return lines


def _row_lines(block: Sequence[TableColumn], widths: Sequence[int], texts: Sequence[str]) -> list[str]:
    """The lines of one row: as many as its longest cell has."""
    folded = [fold(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for pieces in zip_longest(*folded, fillvalue=""):
        padded = [
            _padded(piece, width, column.right) for column, width, piece in zip(block, widths, pieces, strict=True)
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _padded(text: str, width: int, right: bool) -> str:
    spaces = " " * (width - cell_len(text))
    return spaces + text if right else text + spaces
