"""Pruned networks beside dense ones: classes that stay on photos that were not seen, and the time of a frame.

    python -m bench.engines.pruned_classes [NETWORK ...] [--sparsities 0.3,0.5,0.7] [--fine-tune MINUTES] [--json FILE]

Blocks are chosen by the twelve scenes of the test data and 116 parts of them, which the command takes. The photos
judge: their own labels, and 260 parts of them: whether they keep the dense network's class, and how its answers ahead
of softmax correlate with the pruned one's. Times are the CPU time of one core, dense and pruned in turns.
"""

import json
from functools import partial
from statistics import median

import numpy as np

from bench.common import DATA, Record, in_turns, one_cluster, parser, ratios
from bench.engines.quantize import folder, picture_of
from bench.kernels.sparse_networks import cpu_ms
from pipeall import Engine, load, prune
from pipeall.media import images
from pipeall.progress import silent
from pipeall.pruning.picture_parts import crops
from pipeall.quantization.calibrate import outputs_of, samples_of, with_logits

PARTS = 260
COLUMNS = (
    "network", "sparsity .2f", "fine-tuned [min] .0f", "zeros [%] .1f", "photos right", "of",
    "parts of the same class [%] .1f", "among five [%] .1f", "correlation .2f", "dense [ms] .2f",
    "pruned [ms] .2f", "dense / pruned [x] .2f",
)  # fmt: skip


def answers(graph, frames):
    """Ahead of softmax: (frames, classes)."""
    run = outputs_of(with_logits(graph), frames, "", silent)
    return np.array([next(iter(outputs.values())).ravel() for outputs in run])


def main() -> None:
    options = parser(__doc__, networks=("mobilenet_v1_0.75_192",), rounds=20)
    options.add_argument("--sparsities", default="0.3,0.5,0.7", help="default %(default)s")
    options.add_argument("--fine-tune", type=float, help="minutes")
    options = options.parse_args()
    labels = json.loads((DATA / "photos" / "labels.json").read_text())
    photos = [images.read(DATA / "photos" / name) for name in labels]
    given = folder("scenes")
    with Record(options, *COLUMNS, board=one_cluster([0])) as record:
        for name in options.networks:
            graph, picture = load(DATA / "models" / f"{name}.onnx"), picture_of(name)
            first = json.loads((DATA / "models" / "models.json").read_text())[f"{name}.onnx"]["first_class"]
            frames, parts = (samples_of(graph, some, picture) for some in (photos, crops(photos, PARTS, seed=9)))
            dense = answers(graph, parts)
            wanted = dense.argmax(1)
            for sparsity in map(float, options.sparsities.split(",")):
                made = prune(graph, given, sparsity=sparsity, input=picture, fine_tune=options.fine_tune)
                found = answers(made.graph, frames).argmax(1) - first
                right = sum(int(index) in known for index, known in zip(found, labels.values(), strict=True))
                pruned = answers(made.graph, parts)
                same = (pruned.argmax(1) == wanted).mean()
                near = np.mean([of in row.argsort()[-5:] for of, row in zip(wanted, pruned, strict=True)])
                alike = np.mean([np.corrcoef(*rows)[0, 1] for rows in zip(dense, pruned, strict=True)])
                board, x = one_cluster([0]), next(iter(frames[0].values()))
                with Engine(graph, "big", board) as slow, Engine(made.graph, "big", board) as fast:
                    taken = in_turns(
                        {"dense": partial(cpu_ms, slow, x), "pruned": partial(cpu_ms, fast, x)}, options.rounds
                    )
                record.add(
                    name, sparsity, options.fine_tune or 0, 100 * made.report.zeros, right, len(labels), 100 * same,
                    100 * near, alike,
                    median(taken["dense"]), median(taken["pruned"]), ratios(taken["dense"], taken["pruned"])[1],
                )  # fmt: skip
        record.say("photos and their parts were not among what blocks were chosen by; one core")


if __name__ == "__main__":
    main()
