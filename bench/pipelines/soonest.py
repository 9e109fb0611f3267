"""The plan with which one frame is done soonest on each modelled board, beside the best component, and at its pace.

    python -m bench.pipelines.soonest [NETWORK ...] [--boards a311d,rk3588] [--frame-ms 400] [--frames 5]

The best component is one of big, LITTLE and GPU alone. The emulator computes for real; it is slowed down until a frame
takes --frame-ms, so that this machine need not matter. The median of --frames is told as if the board ran at its pace.
"""

from statistics import median

from bench.common import NETWORKS, Record, frame, mean_line, milliseconds, names, network, parser
from pipeall import Board, Graph, Pipeline, search
from pipeall.pipeline.planning.plan_table import PredictedPlan

BOARDS = ("a311d", "rk3588", "rk3399")
COLUMNS = (
    "board", "network", "component", "alone [ms] .2f", "plan", "modelled [ms] .2f", "by the component [x] .3f",
    "emulated [ms] .2f", "off [%] +.1f",
)  # fmt: skip


def emulated(graph: Graph, board: Board, found: PredictedPlan, frame_ms: float, frames: int) -> float:
    """The median latency of frames that come singly, the first left out, in the board's own time."""
    scale = max(1.0, frame_ms / found.latency_ms)
    with Pipeline(graph, found.plan, board=board, depth=1, time_scale=scale) as pipe:

        def run() -> None:
            pipe.submit(given)
            pipe.result()

        given = frame(graph)
        run()
        return median(milliseconds(run) for _ in range(frames)) / scale


def main() -> None:
    options = parser(__doc__, networks=(*NETWORKS, "yolo11n"))
    options.add_argument("--boards", type=names, default=list(BOARDS))
    options.add_argument("--frame-ms", type=float, default=400.0, help="of a frame; default %(default)s")
    options.add_argument("--frames", type=int, default=5, help="default %(default)s")
    options = options.parse_args()
    graphs = {net: network(net) for net in options.networks}
    with Record(options, *COLUMNS, keys=2) as record:
        for name in options.boards:
            board, gains = Board.load(name), []
            for net, graph in graphs.items():
                profile = board.model.profile(graph)
                alone = {unit: sum(profile.units[unit].ms) for unit in board.components}
                best = min(alone, key=alone.__getitem__)
                found = search(graph, profile, "latency", top=1).ranked[0]
                ms = emulated(graph, board, found, options.frame_ms, options.frames)
                gains.append(found.latency_ms / alone[best])
                record.add(
                    name, net, best, alone[best], str(found.plan), found.latency_ms, gains[-1], ms,
                    100 * (ms / found.latency_ms - 1),
                )  # fmt: skip
            record.say(mean_line(f"{name}, by the component", gains))


if __name__ == "__main__":
    main()
