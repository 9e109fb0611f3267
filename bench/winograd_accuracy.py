"""Errors of every algorithm of a convolution against float64: layer by layer, and in the probabilities of networks.

    python bench/winograd_accuracy.py [--data FOLDER] [--photos 3]

layers         the convolutions of the zoo's networks that Strassen or Winograd computes, on the activations that a
               random frame gives: max |error| / max |result|, of the worst layer
probabilities  trained networks on photos, every layer that fits computed by that algorithm: the largest difference
               from float64 and from onnxruntime, with a ! where the most probable class is another

FOLDER holds models/ and photos/. "modelled" is the choice made without timing. The lazy variants give the same bits as
those that keep their transformed weights (tests/test_winograd.py): no column. Needs onnxruntime and Pillow.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
from pipeall._kernels.cpu.kernels import Program

import pipeall
from pipeall import zoo
from pipeall._kernels.cpu.algorithms import GEMM, STRASSEN, Algorithm, candidates, modelled
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.cli.images import Preprocess, find_images
from pipeall.graph.ir import Graph
from pipeall.graph.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.steps import Step

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
COLUMNS = {str(a): a for a in (GEMM, STRASSEN, *(Algorithm("winograd", m) for m in (2, 4, 6)))} | {"modelled": None}
Choice = Callable[[Step], Algorithm]


def kernels() -> dict[str, str]:
    cluster = pipeall.Board.detect(gpu=False).component("big").device.cluster
    return choose(cluster.isas, cluster.core_type)


def choice(column: Algorithm | None) -> Choice:
    """The algorithm of a step that has candidates, GEMM where the column's does not fit; None: the modelled one."""
    if column:
        return lambda step: column if column in candidates(step) else GEMM
    gemm = next(row for row in ROWS if row.name == kernels()["gemm", "f32"])
    return lambda step: modelled(step, gemm.nr, gemm.isa)


def run(graph: Graph, frame: np.ndarray, choice: Choice) -> np.ndarray:
    """The result of a graph of one input and one output, which lie in their slots as the model has them."""
    lowered = lower(graph)
    program = Program(
        kernels(), (-1,), "accuracy", (lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes)
    )
    for step in lowered.steps:
        program.add(step, choice(step) if candidates(step) else None)
    (target,) = graph.outputs
    return program.run(frame)[: target.elements].reshape(target.shape)


def layers(graph: Graph) -> Iterator[tuple[Step, Graph]]:
    """The step and the one-node graph, without clamp and residual, of each conv that more than GEMM computes."""
    for node in graph.nodes:
        if node.op != "conv":
            continue
        open_ended = replace(node, inputs=node.inputs[:3], attrs={**node.attrs, "lo": -np.inf, "hi": np.inf})
        source, target = graph.tensors[node.inputs[0]], graph.tensors[node.output]
        layer = replace(graph, nodes=(open_ended,), inputs=(source,), outputs=(target,))
        for step in lower(layer).steps:
            if len(candidates(step)) > 1:
                yield step, layer


def layer_rows(name: str) -> Iterator[tuple[str, list[str]]]:
    graph = getattr(zoo, name)()
    frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape)
    values = run_graph(graph, {graph.inputs[0].name: frame}, np.float32, all_tensors=True)
    errors = defaultdict(list)
    for step, layer in layers(graph):
        x = values[layer.inputs[0].name]
        (expected,) = run_graph(layer, {layer.inputs[0].name: x}).values()
        fits = [column in (*candidates(step), None) for column in COLUMNS.values()]
        worst = [
            np.abs(run(layer, x, choice(column)) - expected).max() if fit else np.nan
            for column, fit in zip(COLUMNS.values(), fits, strict=True)
        ]
        errors[step.params["kernel"][0]].append(np.array(worst) / np.abs(expected).max())
    for size, found in sorted(errors.items()):
        cells = ["-" if np.isnan(error) else f"{error:.1e}" for error in np.max(found, axis=0)]
        yield f"{size} x {size}, {len(found)} layers", cells


def probability_rows(path: Path, photos: list[Path]) -> Iterator[tuple[str, list[str]]]:
    how = json.loads((path.parent / "models.json").read_text())[path.name]
    preprocess = Preprocess(
        (how["size"],) * 2, how["resize"], how["order"], how["scale"], tuple(how["mean"]), tuple(how["std"])
    )
    frames = [preprocess(photo) for photo in photos]
    graph = pipeall.load(path)
    if not any(layers(graph)):
        return
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = graph.inputs[0].name
    references = {
        "float64": [next(iter(run_graph(graph, {name: frame}).values())) for frame in frames],
        "onnxruntime": [session.run(None, {name: frame})[0] for frame in frames],
    }
    results = {name: [run(graph, frame, choice(column)) for frame in frames] for name, column in COLUMNS.items()}
    for reference, expected in references.items():
        cells = []
        for found in results.values():
            pairs = list(zip(found, expected, strict=True))
            difference = max(np.abs(y - target.reshape(y.shape)).max() for y, target in pairs)
            other = any(y.argmax() != target.argmax() for y, target in pairs)
            cells.append(f"{difference:.1e}{'!' * other}")
        yield f"from {reference}", cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--photos", type=int, default=3)
    options = parser.parse_args()
    photos = find_images([str(options.data / "photos")])[: options.photos]
    print(f"{'':42}" + "".join(f"{column:>12}" for column in COLUMNS))
    tables = {name: layer_rows(name) for name in NETWORKS}
    tables |= {path.name: probability_rows(path, photos) for path in sorted((options.data / "models").glob("*.onnx"))}
    for name, rows in tables.items():
        for label, cells in rows:
            print(f"{name:24}{label:18}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
