"""What the plan that is found gains over an engine with a thread on each core, on this machine.

    python -m bench.pipelines.all_cores [NETWORK ...] [--seconds 0.5] [--rounds 9]

Networks of the zoo and of the test data, on this machine's cores as they are detected. The plan is that of ``profile``
of the default units, of ``search`` among all plans and of ``verify``, which runs the best of them. It then runs in turn
with the engine, and the ratio is that of a round. Its results have to be the engine's, in order. RSS is of a process
that runs nothing else; that of copies is of one on each component.
"""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from bench.common import DATA, NETWORKS, Record, mean_line, network, parser, ratios
from bench.pipelines.load import rss_mb
from pipeall import Board, Graph, Pipeline, Plan, profile, search, verify
from pipeall.pipeline.boards.default_units import cores_of
from pipeall.pipeline.border import Frame
from pipeall.pipeline.measuring.trial import compare, random_frame

FILES = {  # of the test data's folders
    "models": ("mobilenet_v1_0.75_192", "squeezenet1.1"),
    "edge": (
        "deeplab_v3_mnv2_257", "face_landmark", "fastestdet_352", "hand_landmark_lite", "nanodet_m_320",
        "nanodet_m_320_int8_qdq", "person_reid_retail_0248", "pose_landmark_full", "prisma_portrait_seg_nchw",
        "road_segmentation_adas_0001", "selfie_segmentation", "ultraface_version-RFB-320_simplified_int8_qdq",
        "yolox_nano_416",
    ),
}  # fmt: skip
TWENTY = [*NETWORKS, *(str(DATA / folder / f"{name}.onnx") for folder, names in FILES.items() for name in names)]
COLUMNS = (
    "network", "groups", "plan", "engine [FPS] .1f", "plan [FPS] .1f", "plan by engine [x] .3f",
    "lower quartile [x] .3f", "upper quartile [x] .3f", "RSS of engine [MB] .0f", "plan's RSS by that [x] .2f",
    "RSS of copies by that [x] .2f", "profiled in [s] .1f", "planned in [s] .1f", "others took [cores] .1f",
)  # fmt: skip
GAIN, HIGH = COLUMNS.index("plan by engine [x] .3f"), COLUMNS.index("upper quartile [x] .3f")
SHORT_S = 0.5  # each part of a profile, and each plan that a search ranks first
KINDS, FRAMES = 5, 60  # different frames, and how many in all
LIMIT = 1e-4  # how far a result may be off the engine's, as a share of the largest value: kernels may differ by team


def row(name: str, board: Board, rounds: int, seconds: float) -> list[float | str | None]:
    """The cells of a network but its name."""
    graph, engine = network(name), Plan.single(board.default_component)
    begin = time.perf_counter()
    known = profile(graph, board, seconds=SHORT_S)
    profiled = time.perf_counter()
    best = verify(search(graph, known, cores=cores_of(board)), board, seconds=SHORT_S).best
    planned = time.perf_counter()
    check(graph, engine, best, board)
    one, found = compare(graph, [engine, best], board, turns=rounds, seconds=seconds)
    low, gain, high = ratios([turn.fps for turn in found.turns], [turn.fps for turn in one.turns])
    copies = Plan.parallel(board.components)
    held = {plan: rss_of(name, plan) for plan in dict.fromkeys((engine, best, copies))}
    cells = [len(graph.groups), str(best), one.median("fps"), found.median("fps"), gain, low, high]
    cells += [held[engine], held[best] / held[engine], held[copies] / held[engine]]
    return [*cells, profiled - begin, planned - profiled, found.others_cores]


def check(graph: Graph, engine: Plan, plan: Plan, board: Board) -> None:
    """Ends the script unless a plan's results are the engine's, in order."""
    inputs = [random_frame(graph, seed) for seed in range(KINDS)]
    with Pipeline(graph, engine, board) as pipe:
        expected = list(pipe.map(inputs))
    with Pipeline(graph, plan, board) as pipe:
        for number, result in enumerate(pipe.map(islice(cycle(inputs), FRAMES))):
            if (off := error(result, expected[number % KINDS])) > LIMIT:
                raise SystemExit(f"{graph.name} by {plan}: result {number} is off the engine's by {off:.2g}")


def error(result: Frame, expected: Frame) -> float:
    """The largest difference of an output from what is expected, as a share of the largest value there."""
    pairs = zip(arrays(result), arrays(expected), strict=True)
    return max(float(np.abs(a.astype(float) - b).max() / (np.abs(b).max() or 1)) for a, b in pairs)


def arrays(result: Frame) -> Sequence[np.ndarray]:
    return list(result.values()) if isinstance(result, Mapping) else [result]


def rss_of(name: str, plan: Plan) -> float:
    """MB of a process that runs a network by a plan and nothing else."""
    code = f"from bench.pipelines import all_cores; all_cores.run_alone({name!r}, {str(plan)!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def run_alone(name: str, plan: str) -> None:
    """Prints the RSS after some frames."""
    graph = network(name)
    with Pipeline(graph, plan, Board.detect(gpu=False)) as pipe:
        for _ in pipe.map([random_frame(graph)] * FRAMES):
            pass
        print(rss_mb())


def main() -> None:
    options = parser(__doc__, networks=TWENTY, rounds=9, seconds=0.5).parse_args()
    with Record(options, *COLUMNS) as record:
        for name in options.networks:
            record.add(Path(name).stem, *row(name, record.board, options.rounds, options.seconds))
        record.say(mean_line("plan by engine", [cells[GAIN] for cells in record.rows]))
        slower = [cells[0] for cells in record.rows if cells[HIGH] < 1]
        record.say(f"slower than the engine by more than the quartiles: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
