"""What all plots share: a blank figure, and writing it as PNG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from ..errors import missing_extra
from ..files import write_whole

try:
    from matplotlib import patches  # noqa: F401, for bench_plot: matplotlib is imported here alone
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise missing_extra("matplotlib", "plot", "--plot") from None

INCHES, DPI = (11.0, 4.2), 150


def blank(title: str, inches: tuple[float, float] = INCHES) -> Figure:
    """A figure with a title and nothing else yet."""
    drawn = Figure(figsize=inches, dpi=DPI, layout="constrained")
    drawn.suptitle(title, fontsize=10, parse_math=False)
    return drawn


def finish(axes: Any, across: str = "", up: str = "", title: str = "") -> None:
    """What its axes are, small and without a frame; and a legend where curves have labels."""
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=7)


def save(drawn: Figure, path: str | Path) -> None:
    """Writes a figure as PNG. Raises ArgumentError naming the file where it cannot be written."""
    content = BytesIO()  # Pillow, which writes it, does not notice when a disk takes a part only
    drawn.savefig(content, format="png")
    write_whole(path, lambda file: file.write(content.getbuffer()))
