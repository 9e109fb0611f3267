"""From a model file to the first result, each engine in a process of its own: seconds, and the most memory it held.

    python -m bench.engines.start_up MODEL.onnx [--rounds 5]

The clock starts when the packages are imported; the first run of pipeall times its algorithms, the others find these
timings on disk. Memory is the process's peak resident set, which holds Python and all packages; the bound beside it is
1.3 times the weights and 60 MB.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from bench.common import Record, in_turns, network, parser

ENGINE = """
import resource, sys, time
from pathlib import Path
import numpy as np
from bench.engines import peers
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
    options = parser(__doc__, "model", rounds=5).parse_args()
    path, graph = options.model, network(str(options.model))
    shape = ",".join(map(str, graph.inputs[0].shape))
    weights = sum(array.nbytes for array in graph.constants.values()) / 1e6
    with (
        Record(options, "engine", "first result [s] .2f", "memory [MB] .0f") as record,
        tempfile.TemporaryDirectory() as cache,
    ):
        record.say(f"{path.name}: {weights:.0f} MB of weights, bound {1.3 * weights + 60:.0f} MB")
        os.environ["PIPEALL_CACHE"] = cache
        record.add("pipeall, first", *run("pipeall", path, shape))
        found = in_turns({name: partial(run, name, path, shape) for name in IMPORTS}, options.rounds)
        for name, runs in found.items():
            record.add(name, *map(median, zip(*runs, strict=True)))


if __name__ == "__main__":
    main()
