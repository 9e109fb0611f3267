"""Errors of every algorithm of a convolution against float64: layer by layer, and in the probabilities of networks.

    python -m bench.kernels.winograd_accuracy [--data FOLDER] [--photos 3]

layers         the convolutions of the zoo's networks that Strassen or Winograd computes, on the activations that a
               random frame gives: max |error| / max |result|, of the worst layer
probabilities  trained networks on photos, every layer that fits computed by that algorithm: the largest difference
               from float64 and from onnxruntime; a line below says where the most probable class is another

FOLDER holds models/ and photos/. "modelled" is the choice made without timing. The lazy variants give the same bits as
those that keep their transformed weights (tests/kernels/test_winograd.py): no column. Needs onnxruntime and Pillow.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from pipeall._kernels.cpu.kernels import CpuProgram

import pipeall
from bench.common import DATA, NETWORKS, Record, models, network, parser
from bench.common import frame as noise
from bench.kernels.single_step import big, gemm_kernel, kernels
from pipeall._kernels.cpu.algorithms import GEMM, Algorithm, candidates, modelled
from pipeall.graph.ir import Graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.media.images import inside, read
from pipeall.steps import Step

ALGORITHMS = ("gemm", "strassen", "winograd2", "winograd4", "winograd5", "winograd6", "modelled")
Choice = Callable[[Step], Algorithm]
LabelledRow = tuple[str, list[float], list[str]]  # of which algorithms the most probable class is another


def choice(column: str) -> Choice:
    """The algorithm of a step that has candidates, GEMM where the column's does not fit."""
    if column != "modelled":
        return lambda step: next((found for found in candidates(step) if str(found) == column), GEMM)
    gemm = gemm_kernel(big())
    return lambda step: modelled(step, gemm.nr, gemm.isa)


def run(graph: Graph, frame: np.ndarray, choice: Choice) -> np.ndarray:
    """The result of a graph of one input and one output, which lie in their slots as the model has them."""
    lowered = lower(graph)
    program = CpuProgram(
        kernels(big()), (-1,), "accuracy", (lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes)
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


def layer_rows(name: str) -> Iterator[LabelledRow]:
    graph = network(name)
    frame = noise(graph)
    values = run_graph(graph, {graph.inputs[0].name: frame}, np.float32, all_tensors=True)
    errors = defaultdict(list)
    for step, layer in layers(graph):
        x = values[layer.inputs[0].name]
        (expected,) = run_graph(layer, {layer.inputs[0].name: x}).values()
        fits = [column in (*map(str, candidates(step)), "modelled") for column in ALGORITHMS]
        worst = [
            np.abs(run(layer, x, choice(column)) - expected).max() if fit else np.nan
            for column, fit in zip(ALGORITHMS, fits, strict=True)
        ]
        errors[step.params["kernel"][0]].append(np.array(worst) / np.abs(expected).max())
    for size, found in sorted(errors.items()):
        yield f"{size} x {size}, {len(found)} layers", list(np.max(found, axis=0)), []


def prepared(photo: Path, how: dict) -> np.ndarray:
    """The middle of a photo as models.json says, float32 (1, 3, size, size)."""
    image = Image.fromarray(read(photo))
    size, shrink = how["size"], how["resize"] / min(image.size)
    left, top = ((side - size / shrink) / 2 for side in image.size)
    box = (left, top, left + size / shrink, top + size / shrink)
    levels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box), np.float32)
    levels = levels[..., :: -1 if how["order"] == "BGR" else 1]
    x = (levels / np.float32(how["scale"]) - np.float32(how["mean"])) / np.float32(how["std"])
    return np.ascontiguousarray(x.transpose(2, 0, 1)[np.newaxis])


def probability_rows(path: Path, photos: list[Path]) -> Iterator[LabelledRow]:
    how = json.loads((path.parent / "models.json").read_text())[path.name]
    frames = [prepared(photo, how) for photo in photos]
    graph = pipeall.load(path)
    if not any(layers(graph)):
        return
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = graph.inputs[0].name
    references = {
        "float64": [next(iter(run_graph(graph, {name: frame}).values())) for frame in frames],
        "onnxruntime": [session.run(None, {name: frame})[0] for frame in frames],
    }
    results = {column: [run(graph, frame, choice(column)) for frame in frames] for column in ALGORITHMS}
    for reference, expected in references.items():
        pairs = {column: list(zip(found, expected, strict=True)) for column, found in results.items()}
        cells = [max(np.abs(y - target.reshape(y.shape)).max() for y, target in row) for row in pairs.values()]
        other = [column for column, row in pairs.items() if any(y.argmax() != target.argmax() for y, target in row)]
        yield f"from {reference}", cells, other


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--photos", type=int, default=3)
    options = options.parse_args()
    photos = list(inside(options.data / "photos", recursive=False))[: options.photos]
    tables = {name: layer_rows(name) for name in NETWORKS}
    tables |= {path.name: probability_rows(path, photos) for path in models(options.data / "models", None)}
    columns = [f"{name} .1e" for name in ALGORITHMS]
    with Record(options, "network", "what", *columns, keys=2) as record:
        for name, rows in tables.items():
            for label, cells, other in rows:
                record.add(name, label, *cells)
                for column in other:
                    record.say(f"{name}, {column}: another top class on a photo, {label}")


if __name__ == "__main__":
    main()
