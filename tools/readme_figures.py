"""Draws the figures of the README.

python tools/readme_figures.py chart                                       docs/_static/boards.svg, of its record
python tools/readme_figures.py terminal pipeall run yolox_nano.onnx photos/    docs/_static/run.svg, of this run
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "docs" / "_static"
RECORD = ROOT / "docs" / "results" / "records" / "boards-summary.json"
COLUMNS = 88  # of the terminal
TERMINAL = """<svg class="rich-terminal" viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#1e2329" x="1" y="1" width="{terminal_width}" height="{terminal_height}" rx="8"/>
<g transform="translate(14, 2)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""

WIDTH, LEFT, PANEL, TOP, BAR, ROW = 960, 236, 280, 84, 11, 80
WAYS = (
    ("Peak", "#9aa5b1"),
    ("Parallel", "#4f9d69"),
    ("Pipe-All", "#e07b39"),
    ("Best", "#b03a5b"),
    ("best published", "#3b78b8"),
)


def terminal(command: Sequence[str]) -> str:
    """What a command prints, as a picture of a terminal."""
    from rich.console import Console
    from rich.text import Text

    environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-m", *command] if command[0] == "pipeall" else command
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    console = Console(record=True, width=COLUMNS + 2, file=open(os.devnull, "w"))
    console.print(Text(f"$ {' '.join(command)}", style="bold"))
    console.print(Text.from_ansi(done.stdout.strip()))
    return console.export_svg(code_format=TERMINAL, unique_id="run")


def chart(rows: Sequence[Sequence[Any]]) -> str:
    """Throughput and latency of each board, a bar for each way; ``rows`` are those of the record."""
    rates = [row[2:7] for row in rows]
    latencies = [[*row[7:11], row[6] and 1000 / row[6]] for row in rows]  # published are times of one frame
    panels = (
        (LEFT, rates, "throughput, frames per second"),
        (LEFT + PANEL + 84, latencies, "latency of 99 of 100 frames, ms"),
    )
    body = [_text(24, 32, "ResNet-50, by models of boards", 'font-size="18" font-weight="bold" fill="#222"')]
    body += [_text(x, 62, words, 'fill="#555"') for x, _, words in panels]
    for number, row in enumerate(rows):
        top = TOP + number * ROW
        board, _, parts = row[0].partition(": ")
        body.append(_text(24, top + 14, board, 'font-weight="bold" fill="#222"'))
        body += [
            _text(24, top + 29 + 13 * i, part, 'font-size="11" fill="#555"') for i, part in enumerate(_lines(parts))
        ]
        body.append(_text(LEFT - 14, top + 14, row[1], 'text-anchor="end" fill="#555" font-size="12"'))
        for x, values, _ in panels:
            body += _bars(x, top, values[number], PANEL / max(value for group in values for value in group if value))
    height = TOP + len(rows) * ROW + 32
    for number, (way, colour) in enumerate(WAYS):
        body.append(_bar(LEFT + number * 130, height - 30, 12, 12, colour))
        body.append(_text(LEFT + number * 130 + 18, height - 20, way, 'fill="#222" font-size="12"'))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" role="img">\n<title>Throughput and latency of ResNet-50 on nine boards</title>\n'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _bars(x: int, top: int, values: Sequence[float | None], scale: float) -> Iterator[str]:
    for number, ((_, colour), value) in enumerate(zip(WAYS, values, strict=True)):
        if value is not None:
            y, length = top + number * (BAR + 2), max(2, scale * value)
            yield _bar(x, y, length, BAR, colour)
            yield _text(x + length + 5, y + 9, f"{value:.1f}", 'font-size="10" fill="#333"')


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="2" fill="{colour}"/>'


def _lines(parts: str) -> list[str]:
    """The components of a board, two to a line."""
    words = parts.split(", ")
    return [", ".join(words[i : i + 2]) for i in range(0, len(words), 2)]


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(words)}</text>'


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["chart"]:
        sys.path.insert(0, str(ROOT))
        from pipeall.files import read_json

        record = read_json(RECORD, "record")
        (STATIC / "boards.svg").write_text(chart(record["rows"]))
    elif arguments[:1] == ["terminal"] and len(arguments) > 1:
        (STATIC / "run.svg").write_text(terminal(arguments[1:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
