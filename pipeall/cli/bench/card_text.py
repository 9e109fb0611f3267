"""A model's card as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = ("precision", "threads", "unit", "p50 ms", "p90 ms", "p99 ms", "first answer ms", "peak MB", "mean MB",
            "top-1 %")  # fmt: skip
PARTS = ("weights", "arena", "scratch", "slots", "python", "rest")


def markdown(model: str, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """The card of a model on this machine: a table of its figures, then one of its memory."""
    where = f"{about['model'] or 'unknown CPU'}, {about['cores']} cores; pipeall {about['pipeall']}, {about['date']}"
    figures = [
        (
            row["precision"],
            row["threads"] or "-",
            row["unit"],
            *(f"{row[key]:.2f}" for key in ("p50_ms", "p90_ms", "p99_ms")),
            f"{row['first_ms']:.0f}",
            *(f"{row[key] / 1e6:.1f}" for key in ("peak_bytes", "mean_bytes")),
            "-" if row["accuracy"] is None else f"{100 * row['accuracy']:.2f}",
        )
        for row in rows
    ]
    memory = [(row["unit"], *(f"{row['memory'][part] / 1e6:.1f}" for part in PARTS)) for row in rows]
    return "\n".join(
        [
            f"# {model}",
            "",
            where,
            "",
            *_table(HEADINGS, figures),
            "",
            "Of the peak, MB:",
            "",
            *_table(("unit", *PARTS), memory),
        ]
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]
