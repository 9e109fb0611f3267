"""``pipeall run --view``: the live page of a run, fed with what is drawn and with the pipeline's figures."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import click
import numpy as np

from ...media import images
from ...media.view import View, parse_view
from ...pipeline.live import LiveResult
from ...pipeline.pipeline import Pipeline
from .run_text import summary

WINDOW_S = 2.0  # of the figures


class LivePage:
    """Shows frames on the page while somebody looks. Its address is told as soon as it is there, on standard error.

    ``pipe`` has to be set before the first frame.
    """

    def __init__(self, text: str):
        self._view = View(*parse_view(text))
        self.pipe: Pipeline | None = None
        self._figures: dict[str, Any] = {}
        self._since: Any = None
        self._due = 0.0
        click.echo(f"watch {self._view.address}", err=True)

    def __enter__(self) -> LivePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._view.close()

    @property
    def wanted(self) -> bool:
        """Whether a picture would be seen."""
        return self._view.watched

    def add(self, picture: np.ndarray, seen: LiveResult) -> None:
        """A drawn picture and what it was made of."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + WINDOW_S
            self._figures, self._since = self._now(), self.pipe.snapshot()
        self._view.show(images.jpeg(picture), self._figures | {"answer": [summary(seen.result) or "nothing"]})

    def _now(self) -> dict[str, Any]:
        stats = self.pipe.stats(self._since)
        return {
            "network": self.pipe.graph.name,
            "plan": str(self.pipe.plan),
            "fps": stats.fps,
            "latency_p50_ms": stats.live_p50_ms,
            "latency_p95_ms": stats.live_p95_ms,
            "dropped": self.pipe.stats().dropped,
            "units": [{"unit": row.unit, "use": row.use, "busy_ms": row.busy_ms} for row in stats.units],
        }
