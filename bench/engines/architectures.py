"""Networks of timm, torchvision's bodies and the YOLO family: which load, how near to onnxruntime, and where cut.

    pip install torch torchvision timm
    python -m bench.engines.architectures [timm] [torchvision] [yolo] [NETWORK ...] [--files FOLDER] [--json FILE]

Weights are random and BatchNorm is calibrated (tests/support/exported_nets.py). An engine and a pipeline of three
stages are compared with onnxruntime: the largest error of any output, relative to that output's largest absolute value.
Without names everything: an hour on two cores. --files keeps the .onnx files, and takes those that are there.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from edge_networks import error, named
from exported_nets import SOURCES, before_ranking, reference, write
from torch_nets import thirds

from bench.common import Record, parser
from pipeall import Board, Engine, Graph, Pipeline, load
from pipeall.errors import PipeallError

LIMIT = 1e-4
COLUMNS = (
    "network", "parameters [million] .1f", "size", "verdict", "engine [error] .1e", "pipeline [error] .1e", "cuts",
    "most tensors", "reason",
)  # fmt: skip


def wanted(names: list[str]) -> Iterator[tuple[str, str]]:
    """Sources and networks, of these names or all."""
    known = {*SOURCES, *(name for group in SOURCES.values() for name in group)}
    if unknown := set(names) - known:
        sys.exit(f"{', '.join(sorted(unknown))}: expected {', '.join(SOURCES)} or networks of theirs")
    for source, group in SOURCES.items():
        yield from ((source, name) for name in group if not names or source in names or name in names)


def errors(graph: Graph, frame: np.ndarray, expected: dict[str, np.ndarray], board: Board) -> list[float]:
    """Of an engine and of a pipeline."""
    with Engine(graph, "big", board=board) as engine:
        found = [error(named(graph, engine(frame)), expected)]
    with Pipeline(graph, thirds(graph, "gpu-little-big"), board=board) as pipe:
        (result,) = pipe.map([frame])
    return [*found, error(named(graph, result), expected)]


def row(path: Path, board: Board) -> list:
    """The cells of a network's row, but for its name."""
    outputs = before_ranking(path)
    entering = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    frame = np.random.default_rng(0).standard_normal([dim.dim_value for dim in entering]).astype(np.float32)
    expected = reference(path, frame, outputs)
    weights = sum(np.prod(tensor.dims) for tensor in onnx.load(path).graph.initializer)
    about = [weights / 1e6, frame.shape[-1]]
    try:
        graph = load(path, outputs=outputs)
        cuts = [len(graph.cuts), max((len(cut.tensors) for cut in graph.cuts), default=0)]
        found = errors(graph, frame, expected, board)
    except PipeallError as refusal:
        return [*about, "refused", None, None, None, None, str(refusal).removeprefix(f"{path}: ")]
    except Exception as crash:  # anything else is a defect; the sweep goes on
        return [*about, "crashed", None, None, None, None, repr(crash)]
    return [*about, "right" if max(found) <= LIMIT else "wrong", *found, *cuts, None]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="sources or networks; default all")
    options.add_argument("--files", type=Path, metavar="FOLDER", help="where .onnx files are kept")
    options = options.parse_args()
    os.environ.setdefault("PIPEALL_TUNE", "off")
    board, verdicts = Board.detect(), Counter()
    chosen = list(wanted(options.names))
    with tempfile.TemporaryDirectory() as temporary, Record(options, *COLUMNS, board=board) as record:
        for source, name in chosen:
            path = (options.files or Path(temporary)) / f"{name}.onnx"
            if not path.exists():
                write(source, name, path)
            cells = row(path, board)
            if not options.files:
                path.unlink()
            record.add(name, *cells)
            verdicts[cells[2]] += 1
        record.say(", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("right", "refused", "wrong", "crashed")))
    sys.exit(verdicts["wrong"] + verdicts["crashed"] > 0)


if __name__ == "__main__":
    main()
