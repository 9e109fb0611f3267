"""Every engine that is installed, side by side on the same .onnx files: medians of frames taken in turns, and ratios.

    pip install onnxruntime openvino ncnn pnnx MNN
    python -m bench.engines.peers FOLDER [--threads 1,2] [--rounds 15] [--engines pipeall,ncnn,...] [--networks ...]

FOLDER holds the .onnx files. All engines live in one process, in float32, and may use the same cores, as many as there
are threads. In a round each runs one frame that is not timed and FRAMES that are, then everyone's idle threads get REST
to fall asleep: who spins would slow the next.
ncnn and MNN read formats of their own, converted once into FOLDER/peers by their own tools.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import pipeall
from bench.common import Record, frame, in_turns, mean_line, milliseconds, models, names, one_cluster, parser

FRAMES = 3
REST = 0.03
Run = Callable[[], np.ndarray]  # one frame; computes all outputs and returns the first


def run_pipeall(path: Path, frame: np.ndarray, threads: int, unit: str = "big") -> Run:
    engine = pipeall.Engine(pipeall.load(path), unit, board=one_cluster(), threads=threads)

    def run() -> np.ndarray:
        made = engine(frame)
        return next(iter(made.values())) if isinstance(made, dict) else made

    return run


def run_onnxruntime(path: Path, frame: np.ndarray, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: frame})[0]


def run_openvino(path: Path, frame: np.ndarray, threads: int) -> Run:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    return lambda: request.infer([frame])[0]


def run_ncnn(path: Path, frame: np.ndarray, threads: int) -> Run:
    import ncnn

    param = converted(path, ".ncnn.param", "pnnx", path.name, "fp16=0")
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_storage = False
    net.load_param(str(param))
    net.load_model(str(param.with_suffix(".bin")))
    source = ncnn.Mat(np.ascontiguousarray(frame[0]))
    outputs = net.output_names()

    def run() -> np.ndarray:
        with net.create_extractor() as extractor:
            extractor.input("in0", source)
            return [np.array(extractor.extract(name)[1]) for name in outputs][0]

    return run


def run_mnn(path: Path, frame: np.ndarray, threads: int) -> Run:
    import MNN

    file = converted(
        path, ".mnn", "mnnconvert", "-f", "ONNX", "--modelFile", path.name, "--MNNModel", f"{path.stem}.mnn",
        "--bizCode", "none",
    )  # fmt: skip
    interpreter = MNN.Interpreter(str(file))
    session = interpreter.createSession({"backend": "CPU", "numThread": threads, "precision": "high"})
    source, target = interpreter.getSessionInput(session), interpreter.getSessionOutput(session)
    given = MNN.Tensor(frame.shape, MNN.Halide_Type_Float, frame, MNN.Tensor_DimensionType_Caffe)
    shape = target.getShape()
    taken = MNN.Tensor(shape, MNN.Halide_Type_Float, np.zeros(shape, np.float32), MNN.Tensor_DimensionType_Caffe)

    def run() -> np.ndarray:
        source.copyFrom(given)
        interpreter.runSession(session)
        target.copyToHostTensor(taken)
        return np.array(taken.getNumpyData())

    return run


ENGINES = {  # name -> the packages it needs, and how to make one
    "pipeall": (("pipeall",), run_pipeall),
    "onnxruntime": (("onnxruntime",), run_onnxruntime),
    "openvino": (("openvino",), run_openvino),
    "ncnn": (("ncnn", "pnnx"), run_ncnn),
    "mnn": (("MNN",), run_mnn),
}


def converted(path: Path, suffix: str, tool: str, *arguments: str) -> Path:
    """The file that ``tool``, run in FOLDER/peers on a copy of the model, makes there."""
    folder = path.parent / "peers"
    folder.mkdir(exist_ok=True)
    file = folder / f"{path.stem}{suffix}"
    if not file.exists() or file.stat().st_mtime < path.stat().st_mtime:
        shutil.copy(path, folder)
        command = [str(Path(sys.executable).parent / tool), *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode or not file.exists():
            raise RuntimeError(f"{tool} could not convert {path.name}: {(done.stdout + done.stderr)[-500:]}")
    return file


def reason(error: Exception) -> str:
    """The last line of its message, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def turn(run: Run) -> list[float]:
    """ms of each frame after the first."""
    run()
    return [milliseconds(run) for _ in range(FRAMES)]


def compare(options: argparse.Namespace, threads: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    absent = {n for n in options.engines for package in ENGINES[n][0] if importlib.util.find_spec(package) is None}
    engines = [name for name in options.engines if name not in absent]
    columns = ["network", *(f"{name} [ms] .2f" for name in engines)]
    columns += ["of the best peer [x] .3f", "largest difference .1e"]
    part, gains = f"{threads} thread{'s' * (threads > 1)}", []
    with Record(options, *columns, board=one_cluster(), part=part) as record:
        record.say(f"medians of {options.rounds * FRAMES} frames")
        if absent:
            record.say(f"not installed: {', '.join(sorted(absent))}")
        for path in models(options.folder, options.networks):
            given = frame(pipeall.load(path))
            runs, results = {}, []
            for name in engines:
                try:
                    run = ENGINES[name][1](path, given, threads)
                    results.append(run().reshape(-1))
                    runs[name] = run
                except Exception as error:  # a peer's converter or engine; the others go on without it
                    if name == "pipeall":
                        raise
                    record.say(f"{path.stem}: not by {name}: {reason(error):.100}")
            alike = [result for result in results if result.size == results[0].size]
            difference = max(float(np.abs(result - results[0]).max()) for result in alike)
            turns = in_turns({name: partial(turn, run) for name, run in runs.items()}, options.rounds, REST)
            ms = dict.fromkeys(engines) | {name: median(sum(found, [])) for name, found in turns.items()}
            peers = [taken for name, taken in ms.items() if name != "pipeall" and taken is not None]
            gain = ms["pipeall"] / min(peers) if "pipeall" in ms and peers else None
            gains += [gain] if gain else []
            record.add(path.stem, *ms.values(), gain, difference)
        if gains:
            record.say(mean_line("pipeall's ms by the best peer's", gains))


def main() -> None:
    options = parser(__doc__, "folder", rounds=15)
    options.add_argument("--threads", type=names, default=["1", "2"], help="default 1,2")
    options.add_argument("--engines", type=names, default=list(ENGINES), help=f"default {','.join(ENGINES)}")
    options.add_argument("--networks", type=names)
    options = options.parse_args()
    if len(options.threads) == 1:
        compare(options, int(options.threads[0]))
        return
    for count in options.threads:  # a process for each: libraries look at the cores they may use when they are loaded
        subprocess.run([sys.executable, *sys.orig_argv[1:], "--threads", count], check=True)


if __name__ == "__main__":
    main()
