"""Every engine that is installed, side by side on the same .onnx files: medians of frames taken in turns, and ratios.

    pip install onnxruntime openvino ncnn pnnx MNN
    python bench/peers.py FOLDER [--threads 1,2] [--turns 15] [--engines pipeall,ncnn,...] [--networks NAME,...]

FOLDER holds the .onnx files. All engines live in one process, in float32, and may use the same cores, as many as there
are threads. In a turn each runs one frame that is not timed and FRAMES that are, then everyone's idle threads get REST
to fall asleep: who spins would slow the next.
ncnn and MNN read formats of their own, converted once into FOLDER/peers by their own tools.
"""

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

import pipeall

FRAMES = 3
REST = 0.03
Run = Callable[[], np.ndarray]


def run_pipeall(path: Path, frame: np.ndarray, threads: int) -> Run:
    board = pipeall.Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)
    engine = pipeall.Engine(pipeall.load(path), "big", board=board, threads=threads)
    return lambda: engine(frame)


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

    def run() -> np.ndarray:
        with net.create_extractor() as extractor:
            extractor.input("in0", source)
            return np.array(extractor.extract("out0")[1])

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


def time_in_turns(runs: dict[str, Run], turns: int) -> dict[str, float]:
    """Median ms of a frame."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            run()
            for _ in range(FRAMES):
                begin = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - begin) * 1e3)
            time.sleep(REST)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--networks")
    options = parser.parse_args()
    counts = [int(count) for count in options.threads.split(",")]
    if len(counts) > 1:  # a process for each: libraries look at the cores they may use when they are loaded
        for count in counts:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--threads", str(count)], check=True)
        return
    (threads,) = counts
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    wanted = options.engines.split(",")
    absent = {n for n in wanted for package in ENGINES[n][0] if importlib.util.find_spec(package) is None}
    engines = [name for name in wanted if name not in absent]
    print(f"on {pipeall.Board.detect(gpu=False).component('big').description}; medians of {options.turns * FRAMES}")
    if absent:
        print(f"not installed: {', '.join(sorted(absent))}")
    print(f"\n{threads} thread{'s' * (threads > 1)}, ms a frame")
    print(f"{'':12}" + "".join(f"{name:>12}" for name in engines) + "   of the best peer   largest difference")
    ratios = []
    for path in sorted(options.folder.glob("*.onnx")):
        if options.networks and path.stem not in options.networks.split(","):
            continue
        (source,) = pipeall.load(path).inputs
        frame = np.random.default_rng(0).standard_normal(source.shape).astype(np.float32)
        runs = {name: ENGINES[name][1](path, frame, threads) for name in engines}
        results = [run().reshape(-1) for run in runs.values()]
        difference = max(float(np.abs(result - results[0]).max()) for result in results)
        ms = time_in_turns(runs, options.turns)
        peers = [taken for name, taken in ms.items() if name != "pipeall"]
        row = f"{path.stem:12}" + "".join(f"{ms[name]:12.2f}" for name in engines)
        if "pipeall" in ms and peers:
            ratios.append(ms["pipeall"] / min(peers))
            row += f"{ratios[-1]:19.3f}"
        print(f"{row}   {difference:18.1e}", flush=True)
    if ratios:
        print(f"geometric mean of the ratios {prod(ratios) ** (1 / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
