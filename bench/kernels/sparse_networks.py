"""Networks whose 1x1 convolutions are pruned by blocks, beside the dense ones: how much faster a frame is.

    python -m bench.kernels.sparse_networks [NETWORK ...] [--share 0.7] [--rounds 40]

In each 1x1 convolution the blocks of 8 filters x 1 channel of least norm become zeros. Both networks take turns on one
core; a time is the CPU time of the process.
"""

import time
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

from bench.common import Record, frame, in_turns, network, one_cluster, parser, ratios
from pipeall import Engine, Graph
from pipeall._kernels.cpu.sparse_panels import SPARSE_COLUMNS

COLUMNS = ("network", "1x1 layers", "dense [ms] .2f", "sparse [ms] .2f", "dense / sparse [x] .2f",
           "lower quartile .2f", "upper quartile .2f")  # fmt: skip


def pruned(graph: Graph, share: float) -> tuple[Graph, int]:
    """The graph with zeros, and how many layers have them."""
    constants, names = dict(graph.constants), set()
    for node in graph.nodes:
        weight = graph.constants.get(node.inputs[1]) if node.op == "conv" else None
        if weight is None or weight.shape[2:] != (1, 1) or node.attrs["groups"] != 1:
            continue
        filters, channels = weight.shape[:2]
        blocks = np.zeros((-(-filters // SPARSE_COLUMNS) * SPARSE_COLUMNS, channels), np.float32)
        blocks[:filters] = weight[:, :, 0, 0]
        norms = np.square(blocks.reshape(-1, SPARSE_COLUMNS, channels)).sum(axis=1)
        kept = np.repeat(norms > np.quantile(norms, share), SPARSE_COLUMNS, axis=0)[:filters]
        constants[node.inputs[1]] = weight * kept[:, :, None, None]
        names.add(node.name)
    return replace(graph, constants=constants), len(names)


def main() -> None:
    options = parser(__doc__, networks=("mobilenet", "resnet50", "squeezenet"), rounds=40)
    options.add_argument("--share", type=float, default=0.7, help="of the blocks of a layer; default %(default)s")
    options = options.parse_args()
    with Record(options, *COLUMNS, board=one_cluster([0])) as record:
        for name in options.networks:
            graph = network(name)
            sparse, layers = pruned(graph, options.share)
            x, board = frame(graph), one_cluster([0])
            with Engine(graph, "big", board) as dense, Engine(sparse, "big", board) as faster:
                runs = {"dense": partial(cpu_ms, dense, x), "sparse": partial(cpu_ms, faster, x)}
                found = in_turns(runs, options.rounds)
            low, middle, high = ratios(found["dense"], found["sparse"])
            record.add(
                name.rpartition("/")[2], layers, median(found["dense"]), median(found["sparse"]), middle, low, high
            )
        record.say(f"{100 * options.share:.0f} % of the blocks of each 1x1 layer are zeros; one core")


def cpu_ms(engine: Engine, x: np.ndarray) -> float:
    begin = time.process_time()
    engine(x)
    return 1e3 * (time.process_time() - begin)


if __name__ == "__main__":
    main()
