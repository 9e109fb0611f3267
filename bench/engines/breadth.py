"""What pipeall reads and whether it is right: ONNX's own operator cases, its light models, torchvision's classifiers.

    pip install torch torchvision onnxscript
    python -m bench.engines.breadth [cases] [light] [NETWORK ...] [--size 224] [--refused]

Without names everything: an hour on two cores. A network has random weights and goes through one of torch's two
exporters at one of several opsets, in turns; one engine and a pipeline of three stages are compared with onnxruntime,
errors relative to the largest output. --refused lists the cases that were refused, and why.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
from onnx_backend import VERDICTS, cases, light_models, run_case
from torch_nets import Export, errors, expected, write

from bench.common import Record, parser
from pipeall import Board, Engine, load
from pipeall.errors import PipeallError
from pipeall.graph.onnx.read.convert import OPERATORS

LIMIT = 1e-4
FILE_BYTES = 2**31  # protobuf's limit; larger networks have no single file
FIXED = {"alexnet": 224, "vgg": 224, "vit": 224, "swin": 256, "maxvit": 224, "inception": 299}  # what they are made for
FORMS = (  # exporter, opset
    ("torchscript", 11), ("torchscript", 13), ("torchscript", 9), ("torchscript", 17), ("torchscript", 15),
    ("torchscript", 18), ("dynamo", 20),
)  # fmt: skip
NORMED = ("convnext", "maxvit", "swin", "vit")  # LayerNormalization is an operator from opset 17 on


def networks(size: int) -> Iterator[Export]:
    """Every classifier of torchvision that fits one file; the same form for each in every run."""
    from torchvision import models

    forms = cycle(FORMS)
    for name in models.list_models(module=models):
        weights = max(entry.meta["num_params"] for entry in models.get_model_weights(name))
        form = next(forms) if not name.startswith(NORMED) else ("torchscript", 17)
        if 4 * weights < FILE_BYTES:
            fixed = (pixels for start, pixels in FIXED.items() if name.startswith(start))
            yield Export(name, next(fixed, size), *form)


CASES = ("operator", *VERDICTS)
LIGHT = ("model", "error .1e")
EXPORTS = (
    "network", "exporter", "opset", "verdict", "nodes", "groups", "engine [error] .1e", "pipeline [error] .1e",
    "took [s] .0f",
)  # fmt: skip


def run_cases(record: Record, refused: bool) -> bool:
    found = [run_case(case, "cpu") for case in cases()]
    for operator in sorted(OPERATORS):
        counts = Counter(outcome.verdict for outcome in found if operator in outcome.case.operators)
        record.add(operator, *(counts[verdict] for verdict in VERDICTS))
    for outcome in found:
        if outcome.verdict in ("wrong", "crashed") or (refused and outcome.verdict == "refused"):
            record.say(f"{outcome.case.name}: {outcome.verdict}: {outcome.detail}")
    return _good(record, [outcome.verdict for outcome in found])


def run_light(record: Record) -> bool:
    """The light models give one number a thousand times: what matters is that they are read and run."""
    worst = 0.0
    for path, frame, result in light_models():
        with Engine(load(path), "big", board=record.board) as engine:
            error = np.abs(engine(frame) - result).max() / np.abs(result).max()
        record.add(path.stem, error)
        worst = max(worst, error)
    return worst <= LIMIT


def run_networks(record: Record, wanted: Collection[str], size: int) -> bool:
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        for export in networks(size):
            if not wanted or export.network in wanted:
                begin, frame = time.perf_counter(), write(export, path)
                try:
                    graph = load(path)
                    found = errors(graph, frame, expected(path, frame), record.board)
                    verdicts.append("right" if max(found) <= LIMIT else "wrong")
                    cells = [len(graph.nodes), len(graph.groups), *found]
                except PipeallError as error:
                    verdicts.append("refused")
                    cells = [None] * 4
                    record.say(f"{export.network}: refused: {str(error).removeprefix(f'{path}: ')}")
                took = time.perf_counter() - begin
                record.add(export.network, export.exporter, export.opset, verdicts[-1], *cells, took)
    return _good(record, verdicts)


def _good(record: Record, verdicts: list[str]) -> bool:
    counts = Counter(verdicts)
    record.say(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS))
    return not counts["wrong"] + counts["crashed"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="cases, light, or networks of torchvision; default all")
    options.add_argument("--refused", action="store_true", help="list the cases that were refused")
    options.add_argument(
        "--size", type=int, default=224, help="of the pictures, where a network takes any; default 224"
    )
    options = options.parse_args()
    os.environ.setdefault("PIPEALL_TUNE", "off")
    board, wanted, good = Board.detect(), set(options.names), []
    parts = {
        "cases": (CASES, lambda record: run_cases(record, options.refused)),
        "light": (LIGHT, run_light),
        "networks": (EXPORTS, lambda record: run_networks(record, wanted - parts.keys(), options.size)),
    }
    for part, (columns, run) in parts.items():
        if not wanted or part in wanted or (part == "networks" and wanted - parts.keys()):
            with Record(options, *columns, board=board, part=part) as record:
                good.append(run(record))
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
