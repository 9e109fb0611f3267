"""What pipeall reads and whether it is right: ONNX's own operator cases, its light models, torchvision's classifiers.

    pip install torch torchvision onnxscript
    python bench/breadth.py [cases] [light] [NETWORK ...] [--size 224] [--refused]

Without names everything: an hour on two cores. A network has random weights and goes through one of torch's two
exporters at one of several opsets, in turns; one engine and a pipeline of three stages are compared with onnxruntime,
errors relative to the largest output. --refused lists the cases that were refused, and why.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np

from pipeall import Board, Engine, load
from pipeall.errors import PipeallError
from pipeall.graph.onnx.build import OPERATORS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import onnx_cases  # noqa: E402
import torch_nets  # noqa: E402

LIMIT = 1e-4
FILE_BYTES = 2**31  # protobuf's limit; larger networks have no single file
FIXED = {"alexnet": 224, "vgg": 224, "vit": 224, "swin": 256, "maxvit": 224, "inception": 299}  # what they are made for
FORMS = (  # exporter, opset
    ("torchscript", 11), ("torchscript", 13), ("torchscript", 9), ("torchscript", 17), ("torchscript", 15),
    ("torchscript", 18), ("dynamo", 20),
)  # fmt: skip
NORMED = ("convnext", "maxvit", "swin", "vit")  # LayerNormalization is an operator from opset 17 on


def networks(size: int) -> Iterator[torch_nets.Export]:
    """Every classifier of torchvision that fits one file; the same form for each in every run."""
    from torchvision import models

    forms = cycle(FORMS)
    for name in models.list_models(module=models):
        weights = max(entry.meta["num_params"] for entry in models.get_model_weights(name))
        form = next(forms) if not name.startswith(NORMED) else ("torchscript", 17)
        if 4 * weights < FILE_BYTES:
            fixed = (pixels for start, pixels in FIXED.items() if name.startswith(start))
            yield torch_nets.Export(name, next(fixed, size), *form)


def run_networks(wanted: set[str], size: int, board: Board, path: Path) -> bool:
    print("| network | exporter | opset | nodes | groups | engine | pipeline | s |\n|---|---|---|---|---|---|---|---|")
    counts: Counter[str] = Counter()
    for export in networks(size):
        if wanted and export.network not in wanted:
            continue
        begin, head = time.perf_counter(), f"| {export.network} | {export.exporter} | {export.opset}"
        frame = torch_nets.write(export, path)
        try:
            graph = load(path)
            errors = torch_nets.errors(graph, frame, torch_nets.expected(path, frame), board)
        except PipeallError as error:
            verdict, cells = "refused", f"refused: {str(error).removeprefix(f'{path}: '):.150}"
        else:
            verdict = "right" if max(errors) <= LIMIT else "wrong"
            cells = f"{len(graph.nodes)} | {len(graph.groups)} | {errors[0]:.1e} | {errors[1]:.1e}"
        counts[verdict] += 1
        print(f"{head} | {cells} | {time.perf_counter() - begin:.0f} |", flush=True)
    print(f"networks: {_counted(counts)}")
    return not counts["wrong"]


def run_cases(board: Board, folder: Path, refused: bool) -> bool:
    outcomes = list(onnx_cases.outcomes(board, folder))
    print("| operator | right | refused | wrong | crashed |\n|---|---|---|---|---|")
    for operator in sorted(OPERATORS):
        found = Counter(outcome.verdict for outcome in outcomes if operator in outcome.operators)
        print(f"| {operator} | {found['right']} | {found['refused']} | {found['wrong']} | {found['crashed']} |")
    for outcome in outcomes:
        if outcome.verdict in ("wrong", "crashed") or (refused and outcome.verdict == "refused"):
            print(f"{outcome.case}: {outcome.verdict}: {outcome.detail}")
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"cases: {_counted(counts)}")
    return not counts["wrong"] + counts["crashed"]


def run_light(board: Board) -> bool:
    """The light models give one number a thousand times: what matters is that they are read and run."""
    worst = 0.0
    for path, frame, expected in onnx_cases.light_models():
        with Engine(load(path), "big", board=board) as engine:
            error = np.abs(engine(frame) - expected).max() / np.abs(expected).max()
        print(f"{path.stem}: {error:.1e}")
        worst = max(worst, error)
    return worst <= LIMIT


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in onnx_cases.VERDICTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases, light, or networks of torchvision; default all")
    parser.add_argument("--refused", action="store_true", help="list the cases that were refused")
    parser.add_argument("--size", type=int, default=224, help="of the pictures, where a network takes any; default 224")
    options = parser.parse_args()
    os.environ.setdefault("PIPEALL_TUNE", "off")
    board, names = Board.detect(), set(options.names)
    wanted, good = names - {"cases", "light"}, True
    with tempfile.TemporaryDirectory() as folder:
        if not names or "cases" in names:
            good &= run_cases(board, Path(folder), options.refused)
        if not names or "light" in names:
            good &= run_light(board)
        if not names or wanted:
            good &= run_networks(wanted, options.size, board, Path(folder) / "network.onnx")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
