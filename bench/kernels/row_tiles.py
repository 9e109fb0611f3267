"""Networks with their steps whole and in tiles of rows (graph/lower/tiling.py): time of a frame, memory of its tensors.

    python -m bench.kernels.row_tiles mobilenetv2.onnx mobilenetv2.onnx@512x512 [--threads 1,2]

@HxW gives the size of a network's one picture. Which steps are cut is timed here, as an engine does it. In each round
either form runs a few frames, and the fastest counts; the time of a form is the median of its rounds.
"""

from functools import partial
from statistics import median

import pipeall
from bench.common import Record, in_turns, mean_line, names, one_cluster, parser, ratios
from pipeall import Graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph

FRAMES = 5  # of a round


def sized(text: str) -> Graph:
    """A file's network, for a picture of the size behind @."""
    path, _, size = text.partition("@")
    graph = pipeall.load(path)
    if not size:
        return graph
    return pipeall.load(path, input_shape=(*graph.inputs[0].shape[:2], *map(int, size.split("x"))))


def main() -> None:
    options = parser(__doc__, rounds=20)
    options.add_argument("files", nargs="+", metavar="FILE[@HxW]")
    options.add_argument("--threads", type=names, default=["1", "2"], help="numbers of them; default 1,2")
    options = options.parse_args()
    board = one_cluster()
    cores = board.component("big").device.cores
    columns = ("network", "input", "threads", "whole [ms] .2f", "tiles [ms] .2f", "of whole [x] .3f",
               "tensors, whole [MB] .1f", "tensors, tiles [MB] .1f")  # fmt: skip
    found = []
    with Record(options, *columns, board=board, keys=3) as record:
        for text in options.files:
            graph = sized(text)
            stage = subgraph(graph, 0, len(graph.groups))
            for threads in map(int, options.threads):
                device = board.component("big").device.with_cores(cores[:threads])
                cut = lower(stage, cache=device.cache(timed=True))
                programs = {name: device.compile(lowered, name) for name, lowered in
                            (("whole", lower(stage)), ("tiles", cut))}  # fmt: skip
                runs = {name: partial(lambda program: program.time(FRAMES).min() / 1e6, program)
                        for name, program in programs.items()}  # fmt: skip
                ms = in_turns(runs, options.rounds)
                found.append(ratios(ms["tiles"], ms["whole"])[1])
                memory = [programs[name].nbytes["arena"] / 1e6 for name in programs]
                size = "x".join(map(str, graph.inputs[0].shape))
                record.add(graph.name, size, threads, median(ms["whole"]), median(ms["tiles"]), found[-1], *memory)
        record.say(mean_line("tiles by whole", found))


if __name__ == "__main__":
    main()
