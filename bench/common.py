"""What the benches share: networks by name, turns, and a record that is printed as a table and kept as a JSON file.

The record of a bench ("pipeall.record/1") has these keys:

bench, command    the script, with the part of it where it has several, and the command line
version, commit   of pipeall; the commit is null outside of a git repository
date              when the bench began, UTC
machine           model, architecture, cores, components; load, clocks and temperatures before and after
columns           [{"name", "unit"}], in the order of the cells of a row
rows              lists of numbers, words and nulls, rounded as in the table
about             what is said under the table, a line each; absent where nothing is
"""

import argparse
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pipeall import Board, Graph, PipeallError, Pipeline, load, zoo
from pipeall.files import write_json
from pipeall.pipeline.boards import machine

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PIPEALL_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
PUBLISHED = tuple(name.replace("resnet50", "resnet50-slim") for name in NETWORKS)  # as boards were measured
EXPORTED = {"yolov8n": 640, "yolov10n": 640, "yolo11n": 640, "yolov4-tiny": 416}  # by torch, random weights: pixels
EDGE = ("yolox_nano_416", "nanodet_m_320", "fastestdet_352")  # files of DATA
DETECTORS = ("yolov8n", "yolov10n", "yolo11n", *EDGE)
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
WIDTH = 80  # of a table, in characters
WIDEST = 34  # a cell; longer text takes several lines

Key = TypeVar("Key")
Result = TypeVar("Result")


# ---- the command line ----


def parser(
    doc: str, *paths: str, networks: Sequence[str] = (), rounds: int | None = None, seconds: float | None = None
) -> argparse.ArgumentParser:
    """A parser of these paths, of the networks, --rounds and --seconds that have a default here, and of --json."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in paths:
        made.add_argument(name, type=lambda text: Path(text).resolve(), metavar=name.upper())
    if networks:
        made.add_argument(
            "networks", nargs="*", default=networks, metavar="NETWORK", help="zoo's, detectors, .onnx files"
        )
    if rounds is not None:
        made.add_argument("--rounds", "--turns", type=int, default=rounds, help="default %(default)s")
    if seconds is not None:
        made.add_argument("--seconds", type=float, default=seconds, help="of each turn; default %(default)s")
    made.add_argument("--json", type=_new_file, metavar="FILE", help="write the record there as well")
    return made


def names(text: str) -> list[str]:
    """Words between commas, for an option."""
    return text.split(",")


def _new_file(text: str) -> Path:
    """Said at once, not after minutes of measuring."""
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return Path(text)


def one_blas_thread() -> None:
    """Runs this script again where BLAS may use several threads: it reads their number when it is loaded."""
    if not os.environ.items() >= ONE_THREAD.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | ONE_THREAD)


# ---- networks and boards ----


def network(name: str) -> Graph:
    """A network of the zoo, "resnet50-slim" included, one of DETECTORS, or of an .onnx file.

    Ends the script where there is none.
    """
    if name in EXPORTED:
        from exported_nets import write

        with tempfile.TemporaryDirectory() as folder:
            write("yolo", name, path := Path(folder, f"{name}.onnx"), EXPORTED[name])
            return load(path)
    name = str(DATA / "edge" / f"{name}.onnx") if name in EDGE else name
    base, _, variant = name.partition("-")
    if base in NETWORKS and variant in ("", "slim"):
        return getattr(zoo, base)(**({"variant": variant} if variant else {}))
    if not name.endswith(".onnx"):
        sys.exit(f"network {name!r}: expected an .onnx file or one of {', '.join(NETWORKS)}, resnet50-slim")
    try:
        return load(name)
    except PipeallError as error:
        sys.exit(str(error))


def models(folder: Path, wanted: Sequence[str] | None) -> list[Path]:
    """The .onnx files of a folder, or those of them that are wanted, by their names without the suffix."""
    found = {path.stem: path for path in sorted(folder.glob("*.onnx"))}
    missing = set(wanted or ()) - found.keys()
    if missing or not found:
        got = ", ".join(found) or "none"
        sys.exit(f"{folder}: expected {', '.join(sorted(missing)) or 'models'} as .onnx files, got {got}")
    return [path for name, path in found.items() if not wanted or name in wanted]


def frames(graph: Graph, count: int) -> list[np.ndarray]:
    """Noise for a network of one input, float32, the same each time."""
    random = np.random.default_rng(0)
    return [random.standard_normal(graph.inputs[0].shape).astype(np.float32) for _ in range(count)]


def frame(graph: Graph) -> np.ndarray:
    return frames(graph, 1)[0]


def two_cores() -> Board:
    """The first two cores of this process as big and little."""
    return Board.detect(clusters=[[core] for core in sorted(os.sched_getaffinity(0))[:2]], gpu=False)


def one_cluster(cores: Iterable[int] | None = None) -> Board:
    """These cores, or all of this process, as the one component big, whatever their kinds."""
    return Board.detect(clusters=[sorted(cores or os.sched_getaffinity(0))], gpu=False)


def resident_bytes() -> int:
    """Memory that this process really has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# ---- turns ----


def in_turns(runs: Mapping[Key, Callable[[], Result]], rounds: int, rest_s: float = 0.0) -> dict[Key, list[Result]]:
    """What each run returned in each round.

    All take part in every round, one after the other: what else happens on the machine then befalls all of them. Every
    second round goes backwards, so that none always follows the same one. ``rest_s`` passes after each turn.
    """
    found: dict[Key, list[Result]] = {key: [] for key in runs}
    for number in range(rounds):
        for key in reversed(runs) if number % 2 else runs:
            found[key].append(runs[key]())
            time.sleep(rest_s)
    return found


def milliseconds(call: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - begin) * 1e3


def wall_fps(pipe: Pipeline, frame: np.ndarray, count: int) -> float:
    """Frames a second of ``count`` frames through a pipeline, filling and draining included."""
    ms = milliseconds(lambda: [None for _ in pipe.map(frame for _ in range(count))])
    return 1e3 * count / ms


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Lower quartile, median and upper quartile of first / second, round by round.

    What disturbs both of a round leaves their ratio as it is.
    """
    return np.percentile(np.divide(first, second), (25, 50, 75)).tolist()


def mean_line(what: str, values: Sequence[float]) -> str:
    return f"geometric mean of {what}, {len(values)} rows: {geometric_mean(values):.3f}"


# ---- the record ----


class Column(NamedTuple):
    """``digits`` is the format of a number in the table, such as ".2f"; without it a number is a whole one."""

    name: str
    unit: str
    digits: str

    @classmethod
    def parse(cls, text: str) -> "Column":
        """From "name [unit] digits", of which unit and digits may be absent."""
        return cls(*(part or "" for part in re.fullmatch(r"(.+?)(?: \[(.+)\])?(?: (\+?\.\S+))?", text).groups()))

    def rounded(self, cell: Any) -> Any:
        """A cell as JSON has it: a number as it is shown, null where there is none."""
        if cell is None or isinstance(cell, str):
            return cell
        if not np.isfinite(cell):
            return None
        return float(format(cell, self.digits)) if self.digits else index(cell)

    def shown(self, cell: Any) -> str:
        if cell is None or isinstance(cell, str):
            return cell or "-"
        return format(cell, self.digits or ",")


class Record:
    """The rows of a bench; a column is given as "name [unit] digits", such as "latency [ms] .2f".

    Each row goes to stderr when it is there, and with all before it to the file of --json; a bench that is stopped has
    lost nothing. The table follows on stdout when the record is closed. ``part`` names one of several records of a
    bench: its file has the part's name before the suffix. ``keys`` is how many columns name a row.
    """

    def __init__(
        self, options: argparse.Namespace, *columns: str, board: Board | None = None, part: str = "", keys: int = 1
    ):
        self.columns, self.keys, self.rows, self.about = list(map(Column.parse, columns)), keys, [], []
        self.board = board or Board.detect(gpu=False)
        self.path = options.json
        if self.path and part:
            self.path = self.path.with_stem(f"{self.path.stem}-{part.replace(' ', '-')}")
        self.bench = " ".join([Path(sys.argv[0]).stem, *part.split()])
        self.machine = machine.describe(self.board)
        self.version, self.date = self.machine.pop("pipeall"), self.machine.pop("date")
        self.commit, self.before = commit(), machine.state(self.board)

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        """Prints the table. An error of pipeall's ends the script with its one line."""
        if self.rows:
            if self.path:
                self._write()
            head = f"{self.bench}: {'; '.join(self.machine['components'].values())}"
            about = [part for line in self.about for part in textwrap.wrap(line, WIDTH)]
            lines = ["", *textwrap.wrap(head, WIDTH), *table(self.columns, self.rows, self.keys), *about]
            print("\n".join(lines), flush=True)
        if isinstance(error, PipeallError):
            sys.exit(f"{self.bench}: {error}")

    def add(self, *cells: Any) -> None:
        """Words, numbers, and None where there is no figure."""
        row = [column.rounded(cell) for column, cell in zip(self.columns, cells, strict=True)]
        self.rows.append(row)
        print("  ".join(column.shown(cell) for column, cell in zip(self.columns, row, strict=True)), file=sys.stderr)
        if self.path:
            self._write()

    def say(self, line: str) -> None:
        """A line under the table."""
        self.about.append(line)

    def _write(self) -> None:
        states = {"before": self.before, "after": machine.state(self.board)}
        content = {
            "bench": self.bench,
            "command": shlex.join(["python", *sys.orig_argv[1:]]),
            "version": self.version,
            "commit": self.commit,
            "date": self.date,
            "machine": self.machine | states,
            "columns": [{"name": column.name, "unit": column.unit} for column in self.columns],
            "rows": self.rows,
        }
        write_json(self.path, "record", content | ({"about": self.about} if self.about else {}))


def commit() -> str | None:
    """The commit of this tree, "-dirty" where files of it were changed since."""
    git = shutil.which("git")
    done = git and subprocess.run(
        [git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=REPOSITORY, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip() if done and not done.returncode else None


def table(columns: Sequence[Column], rows: Sequence[Sequence[Any]], keys: int = 1) -> list[str]:
    """Lines of at most WIDTH characters: columns that do not fit follow below, after the first ``keys`` again.

    A column without any figure is left out.
    """
    filled = [i for i in range(len(columns)) if i < keys or any(row[i] is not None for row in rows)]
    blocks = [_block(columns[i], [row[i] for row in rows]) for i in filled]
    lines: list[str] = []
    rest = blocks[keys:]
    while rest or not lines:
        shown = blocks[:keys]
        while rest and (len(shown) == keys or sum(len(block[0][0]) + 2 for block in (*shown, rest[0])) <= WIDTH + 2):
            shown.append(rest.pop(0))
        for cells in zip(*shown, strict=True):
            height = max(map(len, cells))
            padded = [[*cell, *[" " * len(cell[0])] * (height - len(cell))] for cell in cells]
            lines += ["  ".join(parts).rstrip() for parts in zip(*padded, strict=True)]
        lines.append("")
    return lines


def _block(column: Column, cells: Sequence[Any]) -> list[list[str]]:
    """A column's heading and cells, each as lines of the column's width."""
    texts = [textwrap.wrap(column.shown(cell), WIDEST) for cell in cells]
    heads = textwrap.wrap(column.name, 10, break_long_words=False)
    width = max(len(line) for lines in (heads, [column.unit], *texts) for line in lines)
    align = str.ljust if any(isinstance(cell, str) for cell in cells) else str.rjust
    heading = [*textwrap.wrap(column.name, width), *filter(None, [column.unit])]
    return [[align(line, width) for line in text] for text in (heading, *texts)]
