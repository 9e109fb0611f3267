"""From a model file to the first result, each engine in a process of its own: seconds, and the most memory it held.

    python bench/start_up.py MODEL.onnx [--rounds 5]

The clock starts when the packages are imported; the
first run of pipeall times its algorithms, the others find these timings on disk. Memory is the process's peak resident
set, which holds Python and all packages; the bound beside it is 1.3 times the weights and 60 MB.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ENGINE = """
import resource, sys, time
from pathlib import Path
import numpy as np
import peers
name, path = sys.argv[1], Path(sys.argv[2])
frame = np.zeros(tuple(map(int, sys.argv[3].split(","))), np.float32)
{imports}
begin = time.perf_counter()
peers.ENGINES[name][1](path, frame, 1)()
taken = time.perf_counter() - begin
print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
"""
IMPORTS = {"pipeall": "import pipeall, onnx", "onnxruntime": "import onnxruntime"}


def run(name: str, path: Path, shape: str) -> tuple[float, float]:
    code = ENGINE.format(imports=IMPORTS[name])
    command = [sys.executable, "-c", code, name, str(path), shape]
    folder = str(Path(__file__).parent)
    out = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, out.split())
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import pipeall

    graph = pipeall.load(options.model)
    shape = ",".join(map(str, graph.inputs[0].shape))
    weights = sum(array.nbytes for array in graph.constants.values()) / 1e6
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PIPEALL_CACHE"] = cache
        first = run("pipeall", options.model.resolve(), shape)
        found = {name: [run(name, options.model.resolve(), shape) for _ in range(options.rounds)] for name in IMPORTS}
    print(f"{options.model.name}: {weights:.0f} MB of weights, bound {1.3 * weights + 60:.0f} MB")
    print(f"{'pipeall, first':16}{first[0]:7.2f} s {first[1]:7.0f} MB")
    for name, runs in found.items():
        seconds, megabytes = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{name:16}{seconds:7.2f} s {megabytes:7.0f} MB")


if __name__ == "__main__":
    main()
