"""The loop of ``pipeall schedule``: the networks of a file side by side, with their sources and chains."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from ...errors import ArgumentError, PipeallError
from ...graph.ir import Graph
from ...media.crops import Crops
from ...media.sources import Frames, layout
from ...media.tee import Tee
from ...pipeline.live import LiveResult
from ...pipeline.merge import Merged
from ...pipeline.schedule import Schedule
from ...pipeline.stats import Stats, latencies_ms
from ...tasks.text_reader import Reader
from ..output import progress
from ..picture_options import read_model
from .schedule_file import NetworkTable, ScheduleFile, in_table

BOXLESS = ("classify", "embed")  # tasks whose answers have nothing to cut out
Show = Callable[[str, LiveResult], None]


class Network(NamedTuple):
    """What runs of a table: the graph, and what reads its outputs."""

    table: NetworkTable
    graph: Graph
    reader: Reader

    def given(self, **more: Any) -> tuple[Graph, dict[str, Any]]:
        """As ``Schedule`` takes it."""
        return self.graph, self.table.demand.to_dict() | more


def read_networks(file: ScheduleFile) -> dict[str, Network]:
    """The networks of a file. Raises ArgumentError and ModelError, which name the table."""
    networks = {}
    for name, table in file.networks.items():
        with in_table(table.where):
            reading = table.reading
            shape, finer, values = (reading.get(key) for key in ("input_shape", "finer", "value"))
            graph, reader = read_model(table.model, shape, finer, table.task, table.pixels, values)
            networks[name] = Network(table, graph, reader)
    for table in file.networks.values():
        if table.of is not None:
            _check_cut(table, networks[table.of].reader)
    return networks


def _check_cut(table: NetworkTable, seeing: Reader) -> None:
    task, names = seeing.task.decoder.task, seeing.task.labels
    if task in BOXLESS:
        raise ArgumentError(
            f"{table.where} from: expected a network that gives boxes, got {table.of} of the task {task}"
        )
    for label in table.crops.get("labels", ()):
        if label not in names:
            known = (
                f"names of {table.of} such as {', '.join(names[:3])}" if names else f"none, as {table.of} has no names"
            )
            raise ArgumentError(f"{table.where} from: labels: expected {known}, got {label!r}")


@dataclass(frozen=True, slots=True)
class NetworkRan:
    """What came of one network. ``late``: frames that took longer than its cap, of the latest; None without a cap.
    ``crops``: of one that looks at what another has seen: parts cut out, and dropped."""

    frames: int
    fps_wanted: float | None
    fps_planned: float | None
    late: int | None
    crops: dict[str, int] | None
    stats: Stats

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        content: dict[str, Any] = {name: getattr(self, name) for name in ("frames", "fps_wanted", "fps_planned")}
        for name in ("late", "crops"):
            content |= {} if getattr(self, name) is None else {name: getattr(self, name)}
        return content | {"stats": self.stats.to_dict()}


@dataclass(frozen=True, slots=True)
class ScheduleRan:
    """What came of all; ``broken``: what ended it early, ``interrupted``: whether Ctrl-C did."""

    networks: dict[str, NetworkRan]
    unread: int
    broken: PipeallError | None
    interrupted: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        content: dict[str, Any] = {"unread": self.unread}
        content |= {"networks": {name: ran.to_dict() for name, ran in self.networks.items()}}
        content |= {"interrupted": True} if self.interrupted else {}
        return content | ({"error": str(self.broken)} if self.broken else {})


class Sources:
    """The sources of all networks. A camera or a stream of several networks is opened once, and each gets its frames.

    ``layout``: the pixel format of all frames.
    """

    def __init__(self, file: ScheduleFile, tell: Callable[[str], None]):
        tables = [table for table in file.networks.values() if table.sources]
        self.layout = layout([source for table in tables for source in table.sources])
        live = Counter(source.name for table in tables for source in table.sources if source.kind == "live")
        self._readers: dict[str, list[Iterator[Any]]] = {}  # of each source that several networks look at: who is left
        self._count, self._limit = live, file.frames
        self.drops = {table.name: _drop(table) for table in tables}
        self._frames: list[Frames] = []
        self._of: dict[str, Any] = {}
        for table in tables:
            frames = Frames(table.sources, tell=tell, paced=self.drops[table.name] == "oldest")
            frames.layout = self.layout
            self._frames.append(frames)
            self._of[table.name] = self._shared(frames, others=len(tables) > 1)

    def of(self, network: str) -> Any:
        """As ``Pipeline.stream`` takes them."""
        return self._of[network]

    @property
    def unread(self) -> int:
        return sum(frames.unread for frames in self._frames)

    def close(self) -> None:
        """No source that has failed is tried again."""
        for frames in self._frames:
            frames.close()

    def _shared(self, frames: Frames, others: bool) -> Any:
        apart = frames.apart(others)
        if not isinstance(apart, dict):
            return self._limited(apart)
        return {name: self._limited(self._reader(name, one)) for name, one in apart.items()}

    def _reader(self, name: str, frames: Frames) -> Iterable[Any]:
        if self._count[name] < 2:
            return frames
        if name not in self._readers:
            self._readers[name] = list(Tee(frames, self._count[name]))
        return self._readers[name].pop()

    def _limited(self, frames: Iterable[Any]) -> Iterable[Any]:
        return frames if self._limit is None else islice(frames, self._limit)


def _drop(table: NetworkTable) -> str:
    return table.drop or ("oldest" if any(source.kind == "live" for source in table.sources) else "none")


def crops_of(networks: Mapping[str, Network], drops: Mapping[str, str]) -> dict[str, Crops]:
    """What each network that follows another looks at. It drops old pictures where the first one does, by default."""
    found = {}
    for name, (table, *_) in networks.items():
        if table.of is not None:
            first = table.of
            while (before := networks[first].table.of) is not None:
                first = before
            found[name] = Crops(**{"drop": drops[first], **table.crops})
    return found


class ScheduleRun:
    """Networks at work. Called, it goes through all that their sources give."""

    def __init__(self, schedule: Schedule, networks: Mapping[str, Network], sources: Sources):
        self.schedule, self._networks, self._sources = schedule, networks, sources
        self._crops = crops_of(networks, sources.drops)
        self._frames = dict.fromkeys(networks, 0)

    def __call__(self, show: Show, seconds: float | None, quiet: bool) -> ScheduleRan:
        """``show`` gets each answer with its network's name. An error after the first answer, and Ctrl-C, end the run
        and are told."""
        broken, interrupted = None, False
        merged = Merged({name: self._stream(name) for name in self._networks})
        try:
            with _until(seconds, merged.close), progress(quiet) as bar:
                rows = {
                    name: bar.add_task(f"{name} on {self.schedule[name].plan}", total=None) for name in self._networks
                }
                for name, seen in merged:
                    show(name, seen)
                    self._frames[name] += 1
                    bar.advance(rows[name])
        except KeyboardInterrupt:
            interrupted = True
        except PipeallError as error:
            if not any(self._frames.values()):
                raise
            broken = error
        finally:
            self._sources.close()
        ran = {name: self._ran(name) for name in self._networks}
        return ScheduleRan(ran, self._sources.unread, broken, interrupted)

    def dropped(self, name: str) -> int:
        """Frames of its sources that a network has dropped; parts of pictures of one that takes these."""
        crops = self._crops.get(name)
        return crops.dropped if crops else self.schedule[name].stats().dropped

    def _stream(self, name: str) -> Any:
        table, _, reader = self._networks[name]
        pipe = self.schedule[name]
        if table.of is None:
            stream: Any = pipe.stream(self._sources.of(name), self._sources.drops[name], reader)
        else:
            stream = pipe.stream(self._crops[name], "none", reader)
        for other, crops in self._crops.items():
            if self._networks[other].table.of == name:
                stream = crops.of(stream)
        return stream

    def _ran(self, name: str) -> NetworkRan:
        demand, pipe = self._networks[name].table.demand, self.schedule[name]
        cap, crops = demand.max_latency_ms, self._crops.get(name)
        return NetworkRan(
            self._frames[name],
            demand.fps,
            self.schedule.plan.rates[name],
            None if cap is None else sum(ms > cap for ms in latencies_ms(pipe.times)),
            None if crops is None else {"cut": crops.cut, "dropped": crops.dropped},
            pipe.stats(),
        )


@contextmanager
def _until(seconds: float | None, end: Callable[[], None]) -> Iterator[None]:
    """Calls ``end`` after so many seconds, unless it is over before."""
    timer = threading.Timer(seconds or 0.0, end)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
