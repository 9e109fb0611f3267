"""The file of ``pipeall schedule``: a table for each network, with what it runs on and what becomes of its outputs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...arguments import Rule, by_name, number, one_of, refused, several, whole
from ...errors import ArgumentError, PipeallError, missing_extra
from ...files import open_whole
from ...media.crops import MOST_MARGIN
from ...media.sources import STDIN, Source, find
from ...pipeline.live import DROPS
from ...pipeline.planning.schedule_plan import MAX_PRIORITY, MAX_RATE, Demand
from ..model_argument import NAMES
from ..option_rules import filled, rules_of
from ..options import given, model_options
from ..picture_options import TASK, picture_options, pixels_given, task_options

MAX_BYTES = 2**20
MAX_NETWORKS = 64


def _source(name: str, value: Any) -> tuple[str, ...]:
    """A rule: a word of the command line, or several."""
    expected = "a source such as camera:0, or a list of them"
    words = several(filled, expected)(name, value if isinstance(value, list) else [value])
    if not words:
        raise refused(name, expected, value)
    return words


def _inputs(name: str, value: Any) -> dict[str, Any]:
    """A rule: values of inputs."""
    return by_name(_number_or_several, "a table of numbers such as {sr = 16000}")(name, value)


def _number_or_several(name: str, value: Any) -> Any:
    if type(value) is bool:
        return value
    return list(several(number(), "numbers")(name, value)) if isinstance(value, list) else number()(name, value)


def _table_or_name(name: str, value: Any) -> Any:
    """A rule: a network's name, or a table with it and with what is cut out; read as the table."""
    if not isinstance(value, (str, dict)) or not value:
        raise refused(name, 'a network such as "det", or a table such as {network = "det", margin = 0.1}', value)
    return {"network": value} if isinstance(value, str) else value


CUT = {  # keys of ``from``: of Crops, and whose boxes they are
    "network": filled,
    "labels": several(filled, "a list of names"),
    "margin": number(0, MOST_MARGIN),
    "min_size": whole(1),
    "at_most": whole(1),
    "drop": one_of(*DROPS),
}
DEMAND = {
    "fps": number(0, MAX_RATE, above=True),
    "priority": whole(0, MAX_PRIORITY),
    "max_latency_ms": number(0, above=True),
}
NETWORK: dict[str, Rule] = {
    "model": filled,
    "source": _source,
    "from": _table_or_name,
    "drop": one_of(*DROPS),
    "plan": filled,
    **DEMAND,
    **rules_of(task_options, picture_options, model_options),
    "value": _inputs,
}
TOP: dict[str, Rule] = {
    "board": filled,
    "seconds": number(0, above=True),
    "frames": whole(1),
    "output": filled,
    "networks": lambda name, value: value,  # read table by table
}


@dataclass(frozen=True)
class NetworkTable:
    """A network of the file. ``where`` begins its errors; paths are those from here.

    sources  what it looks at; empty for one that looks at what another has seen, ``of``, cut out as ``crops`` says
    drop     where it is slower; None: as ``pipeall run``
    task, pixels, reading   the keys that were given, as the options of these names
    """

    name: str
    where: str
    model: str
    sources: tuple[Source, ...]
    of: str | None
    crops: Mapping[str, Any]
    drop: str | None
    plan: str | None
    demand: Demand
    task: Mapping[str, Any]
    pixels: Mapping[str, Any]
    reading: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleFile:
    """What runs, in the order of the file. ``seconds``, ``frames``: how long, and frames of each source; None: all."""

    path: str
    networks: Mapping[str, NetworkTable]
    board: str | None
    seconds: float | None
    frames: int | None
    output: str | None

    @classmethod
    def load(cls, path: str) -> ScheduleFile:
        """Raises ArgumentError, which names the file, the table and the key, and says what was expected and what came.

        Sources and other files have to be there; no model is read yet.
        """
        content = _checked(path, _read(path), TOP)
        folder = Path(path).parent
        tables = content.get("networks")
        if not isinstance(tables, dict) or not tables or not all(isinstance(one, dict) for one in tables.values()):
            raise refused(f"{path}: networks", "a table for each network, such as [networks.det]", tables)
        if len(tables) > MAX_NETWORKS:
            raise ArgumentError(f"{path}: networks: expected at most {MAX_NETWORKS}, got {len(tables)}")
        networks = {name: _network(path, name, table, folder) for name, table in tables.items()}
        _check_chains(path, networks)
        board, output = content.get("board"), content.get("output")
        if board and board.lower().endswith(".json"):
            board = str(folder / board)
        output = str(folder / output) if output else None
        return cls(path, networks, board, content.get("seconds"), content.get("frames"), output)


@contextmanager
def in_table(where: str) -> Iterator[None]:
    """Puts the file and the table before an error, in which options of the command line are keys."""
    try:
        yield
    except PipeallError as error:
        text = re.sub(r"--([a-z][a-z-]*)", lambda option: option[1].replace("-", "_"), str(error))
        raise (error if text.startswith(where) else type(error)(f"{where} {text}")) from None


def _read(path: str) -> dict[str, Any]:
    try:
        with open_whole(path) as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise ArgumentError(f"{path}: expected at most {MAX_BYTES} bytes, got more")
    try:
        return _loads()(text.decode())
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{path}: expected TOML; {error!s:.200}") from None


def _loads() -> Callable[[str], dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise missing_extra("tomli", "cli", "reading TOML files") from None
    return tomllib.loads


def _checked(where: str, table: Mapping[str, Any], rules: Mapping[str, Rule], mark: str = ":") -> dict[str, Any]:
    """The values of a table as its rules read them."""
    for key in table:
        if key not in rules:
            raise ArgumentError(f"{where}{mark} expected one of the keys {', '.join(rules)}, got {key!r}")
    return {key: rules[key](f"{where}{mark} {key}", value) for key, value in table.items()}


def _network(path: str, name: str, table: Mapping[str, Any], folder: Path) -> NetworkTable:
    where = f"{path}: [networks.{name}]"
    keys = _checked(where, table, NETWORK, mark="")
    if "model" not in keys:
        raise ArgumentError(f"{where} model: expected an .onnx file or a network of the zoo, got none")
    if ("source" in keys) == ("from" in keys):
        got = "both" if "source" in keys else "none"
        raise ArgumentError(f"{where} source: expected either it or from, got {got}")
    if "from" in keys and "drop" in keys:
        raise ArgumentError(f"{where} drop: expected it in from, where one network takes the boxes of another")
    cut = _checked(f"{where} from", keys.get("from", {}), CUT, mark=":")
    if "from" in keys and "network" not in cut:
        raise ArgumentError(f"{where} from: network: expected the name of a network, got none")
    for key in ("labels", "plan"):
        if key in keys and (key == "labels" or keys[key].lower().endswith(".json")):
            keys[key] = str(folder / keys[key])
    model = keys["model"] if keys["model"] in NAMES else str(folder / keys["model"])
    with in_table(where):
        sources = tuple(find(_words(keys.get("source", ()), folder), recursive=False))
        pixels = pixels_given(keys)
    return NetworkTable(
        name,
        where,
        model,
        sources,
        cut.pop("network", None),
        cut,
        keys.get("drop"),
        keys.get("plan"),
        Demand(**given(keys, tuple(DEMAND))),
        given(keys, TASK),
        pixels,
        given(keys, ("input_shape", "finer", "value")),
    )


def _words(words: tuple[str, ...], folder: Path) -> list[str]:
    """Sources as ``pipeall run`` has them; a file or a folder that lies beside the schedule's file by its path."""
    return [str(folder / word) if word != STDIN and (folder / word).exists() else word for word in words]


def _check_chains(path: str, networks: Mapping[str, NetworkTable]) -> None:
    """Raises ArgumentError where a chain does not begin with a source."""
    for name, table in networks.items():
        way = [name]
        while (of := networks[way[-1]].of) is not None:
            if of not in networks:
                raise ArgumentError(
                    f"{networks[way[-1]].where} from: expected one of {', '.join(networks)}, got {of!r}"
                )
            if of in way:
                circle = ", ".join([*way, of])
                raise ArgumentError(f"{table.where} from: expected a chain that begins with a source, got {circle}")
            way.append(of)
