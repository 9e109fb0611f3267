"""``pipeall schedule --view``: one page with a picture for each network and source, and the figures of all networks."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import click

from ...media import images
from ...media.crops import Crop
from ...media.draw import drawn
from ...media.mosaic import Mosaic, with_words
from ...media.view import View, parse_view
from ...pipeline.live import LiveResult
from ..run.live_page import WINDOW_S
from ..run.run_text import summary
from .schedule_loop import Network, ScheduleRun
from .schedule_text import used

PERIOD_S = 1 / 15  # from one picture of the page to the next
LAG_NS = 10**9  # a picture whose parts were all answered is shown before a newer one for so long


class Tile:
    """The pictures of one network and source: the newest, and the newest of each chain with what that says of it."""

    def __init__(self) -> None:
        self.newest: LiveResult | None = None
        self.begun: dict[str, tuple[LiveResult, dict[int, str]]] = {}
        self.done: dict[str, tuple[LiveResult, dict[int, str]]] = {}

    def add_part(self, network: str, crop: Crop, words: str) -> None:
        """What a chain says of a part; it is shown once the picture's last part is there."""
        root, said = self.begun.get(network, (None, {}))
        if root is not crop.root:
            said = {}
        number = crop.path[0]
        said[number] = f"{said[number]}, {words}" if number in said else words
        self.begun[network] = crop.root, said
        if crop.last:
            self.done[network] = crop.root, said

    def picture(self) -> tuple[LiveResult, dict[int, str]] | None:
        """What is shown, with the words at its boxes."""
        if self.newest is None:
            return None
        fresh = [one for one in self.done.values() if self.newest.captured_ns - one[0].captured_ns < LAG_NS]
        shown = max((root for root, _ in fresh), key=lambda root: root.number, default=self.newest)
        words: dict[int, str] = {}
        for root, said in fresh:
            for number, text in said.items() if root is shown else ():
                words[number] = f"{words[number]}, {text}" if number in words else text
        return shown, words


class SchedulePage:
    """Shows what all networks see while somebody looks. Drawing has a thread of its own, so that no answer waits.

    ``run`` has to be set before the first answer.
    """

    run: ScheduleRun

    def __init__(self, text: str, networks: Mapping[str, Network]):
        self._view = View(*parse_view(text))
        self._order = list(networks)
        self._chains = {name: _first(networks, name) for name in networks}
        self._wanted = {name: network.table.demand.fps for name, network in networks.items()}
        self._tiles: dict[tuple[str, str], Tile] = {}
        self._answers: dict[str, str] = {}
        self._changed = threading.Condition()
        self._new, self._ended = False, False
        self._figures: dict[str, Any] = {}
        self._since: dict[str, Any] = {}
        self._due = 0.0
        self._thread = threading.Thread(target=self._run, name="pa-page", daemon=True)
        self._thread.start()
        click.echo(f"watch {self._view.address}", err=True)

    def __enter__(self) -> SchedulePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()
        self._view.close()

    def add(self, network: str, seen: LiveResult) -> None:
        """An answer. Nothing is drawn here."""
        crop = seen.frame if isinstance(seen.frame, Crop) else None
        root = crop.root if crop else seen
        first = self._chains[network]
        words = summary(seen.result)
        with self._changed:
            source = root.frame.source
            tile = self._tiles.setdefault((first, "photos" if source.kind == "photo" else source.name), Tile())
            if crop:
                tile.add_part(network, crop, words)
            else:
                tile.newest = seen
            self._answers[network] = words or "nothing"
            self._new = True
            self._changed.notify_all()

    def _run(self) -> None:
        titles: tuple[str, ...] = ()
        mosaic = Mosaic(titles)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._new or self._ended)
                if self._ended and not self._new:
                    return
                self._new = False
                tiles = sorted(self._tiles.items(), key=lambda item: (self._order.index(item[0][0]), item[0][1]))
                pictures = {f"{network}: {name}": tile.picture() for (network, name), tile in tiles}
                lines = [f"{name}: {words}" for name, words in self._answers.items()]
            if self._view.watched:
                if tuple(pictures) != titles:
                    titles = tuple(pictures)
                    mosaic = Mosaic(titles)
                for title, picture in pictures.items():
                    if picture is not None:
                        shown, words = picture
                        mosaic.put(title, drawn(shown.frame.rgb, with_words(shown.result, words)))
                self._view.show(images.jpeg(mosaic.pixels), self._now() | {"answer": lines})
            with self._changed:
                self._changed.wait_for(lambda: self._ended, PERIOD_S)

    def _now(self) -> dict[str, Any]:
        """The figures of the latest seconds."""
        if time.monotonic() < self._due:
            return self._figures
        self._due = time.monotonic() + WINDOW_S
        schedule = self.run.schedule
        stats = {name: schedule[name].stats(self._since.get(name)) for name in schedule}
        self._since = {name: schedule[name].snapshot() for name in schedule}
        networks = [
            {
                "network": name,
                "plan": str(schedule[name].plan),
                "fps": one.fps,
                "fps_wanted": self._wanted[name],
                "latency_p50_ms": one.latency_p50_ms,
                "latency_p99_ms": one.latency_p99_ms,
                "dropped": self.run.dropped(name),
            }
            for name, one in stats.items()
        ]
        units = [{"unit": unit, "use": use} for unit, use in used(stats.values()).items()]
        self._figures = {"network": ", ".join(stats), "networks": networks, "units": units}
        return self._figures


def _first(networks: Mapping[str, Network], name: str) -> str:
    """The network at the beginning of a chain."""
    while (of := networks[name].table.of) is not None:
        name = of
    return name
