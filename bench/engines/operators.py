"""Single operators and small graphs on one core, beside onnxruntime in CPU time.

    pip install onnxruntime
    python -m bench.engines.operators [FILE.onnx | FOLDER ...] [--rounds 15] [--cases lstm,gru] [--json FILE]

Without files: the slow ones of the test data, and the graphs of ``operator_cases``. A file's inputs come from the
.npz beside it (in0, in1...), else they are noise. Both engines live in one process, with one thread each. A turn calls
one of them for about TURN_MS. What counts is the CPU time of a call, Python's part of it included: other programs on
the machine lengthen it little. The ratio is the median over the rounds, with its quartiles; the difference is relative
to the largest value.
"""

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnxruntime

from bench.common import DATA, Record, in_turns, mean_line, names, one_cluster, parser, ratios
from bench.engines.operator_cases import cases
from pipeall import Engine

TURN_MS = 20
Frame = dict[str, np.ndarray]


def inputs(path: Path) -> Frame:
    """By name: of the .npz beside the file, or noise of the file's shapes."""
    stored, random = path.with_suffix(".npz"), np.random.default_rng(0)
    made: Frame = {}
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    arrays = np.load(stored) if stored.exists() else {}
    for i, value in enumerate(given for given in graph.input if given.name not in constants):
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        noise = random.standard_normal(shape) * (1 if dtype.kind == "f" else 3)
        made[value.name] = arrays[f"in{i}"] if f"in{i}" in arrays else noise.astype(dtype)
    return made


def calls(path: Path, frame: Frame) -> dict:
    """Each engine's call, which returns all outputs in order."""
    engine = Engine(path, "big", board=one_cluster(), threads=1)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    alone = next(iter(frame.values())) if len(frame) == 1 else frame
    return {"pipeall": partial(engine, alone), "onnxruntime": partial(session.run, None, frame)}


def error(mine: object, theirs: list[np.ndarray]) -> float:
    results = list(mine.values()) if isinstance(mine, dict) else [mine]
    return max(
        float(np.abs(a.astype(float) - b).max() / max(np.abs(b).max(), 1e-30))
        for a, b in zip(results, theirs, strict=True)
    )


def cpu_us(call: partial, count: int) -> float:
    """CPU time of one of ``count`` calls."""
    call()
    begin = time.process_time_ns()
    for _ in range(count):
        call()
    return (time.process_time_ns() - begin) / count / 1e3


def compare(record: Record, path: Path, rounds: int) -> None:
    runs = calls(path, inputs(path))
    off = error(*(call() for call in runs.values()))
    turns = {name: partial(cpu_us, call, max(3, int(TURN_MS * 1e3 / cpu_us(call, 3)))) for name, call in runs.items()}
    found = in_turns(turns, rounds)
    low, middle, high = ratios(found["pipeall"], found["onnxruntime"])
    record.add(path.stem, *(median(taken) for taken in found.values()), middle, low, high, off)


def main() -> None:
    options = parser(__doc__, rounds=15)
    options.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options.add_argument("--cases", type=names, help="those whose names begin with one of these; default all")
    options = options.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    wanted = tuple(options.cases or ("",))
    files = [found for path in options.files for found in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    columns = ("pipeall [us] .1f", "onnxruntime [us] .1f", "ratio [x] .2f", "lower quartile .2f", "upper quartile .2f")
    with (
        Record(options, "graph", *columns, "error .0e", board=one_cluster()) as record,
        tempfile.TemporaryDirectory() as folder,
    ):
        if not options.files:
            slow = sorted((DATA / "strangers" / "slow").glob("*.onnx"))
            files = [path for path in slow if path.stem.startswith(wanted)]
            for name, model in cases().items():
                if name.startswith(wanted):
                    onnx.save(model, path := Path(folder, f"{name}.onnx"))
                    files.append(path)
        if not files:
            sys.exit(f"expected .onnx files, or cases, of {', '.join(wanted)}")
        for path in files:
            compare(record, path, options.rounds)
        record.say(f"CPU time of a call, medians of {options.rounds} rounds in turns; one thread each")
        record.say(mean_line("ratios", [row[3] for row in record.rows]))


if __name__ == "__main__":
    main()
