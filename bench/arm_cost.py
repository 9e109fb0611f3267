"""Modelled cost of a frame on small Arm cores: the five networks, one core each, for every engine that is installed.

    python bench/arm_cost.py ARMCOST ROOT FOLDER [--cores cortex-a53,cortex-a73] [--networks NAME,...] [--build TREE]

ARMCOST is the pricing tool: it runs a command for two numbers of frames under qemu-aarch64 and prices the difference,
block by block, with llvm-mca's model of the core (no caches, no branch prediction, one core). ROOT is an arm64 root
(tests/arm64/setup). FOLDER holds the .onnx files. ncnn and MNN take part where their aarch64 wheels are in ROOT/site
and bench/peers.py has left their models in FOLDER/peers. pipeall chooses its kernels for the core that is priced
(PIPEALL_CORE) and times nothing (PIPEALL_TUNE=off). It is built from a copy of this tree unless TREE holds a build.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from common import REPOSITORY, Record, mean_line, models, names, parser
from trees import copy_tree

import pipeall

ENGINES = {"pipeall": "pipeall", "ncnn": "ncnn", "mnn": "MNN"}  # name -> the folder of its package
RUNNER = """
import pickle, sys
from pathlib import Path
import numpy as np
import peers, pipeall

engine, model, pickled, frames = sys.argv[1:]
graph = pickle.loads(Path(pickled).read_bytes())
pipeall.load = lambda path: graph  # this Python has no onnx
run = peers.ENGINES[engine][1](Path(model), np.zeros(graph.inputs[0].shape, np.float32), 1)
for _ in range(int(frames)):
    run()
"""


def built(folder: Path, root: Path) -> Path:
    """A copy of the tree in ``folder``, built for aarch64."""
    copy_tree(folder)
    build = [str(REPOSITORY / "tests/arm64/python"), "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=folder, env=os.environ | {"PIPEALL_ARM64_ROOT": str(root)}, check=True)
    return folder


def price(options: argparse.Namespace, engine: str, core: str, model: Path, pickled: Path, tree: Path) -> dict:
    """What ARMCOST prints for one engine, core and network; with --top its hottest blocks go to stdout."""
    path = f"{tree}:{REPOSITORY / 'bench'}:{options.root / 'site'}"
    command = [str(options.armcost), "--root", str(options.root), "--cores", core, "--top", str(options.top)]
    # OpenBLAS (in NumPy): its threads would spin for a while, a wall-clock while
    for setting in (f"PYTHONPATH={path}", f"PIPEALL_CORE={core}", "PIPEALL_TUNE=off", "OPENBLAS_NUM_THREADS=1"):
        command += ["-E", setting]
    python = str(options.root / "usr/bin/python3.11")
    command += ["--", python, "-c", RUNNER, engine, str(model), str(pickled), "{frames}"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)  # not in a folder with another pipeall
    if done.returncode:
        sys.exit(f"{engine}, {core}, {model.name}: {(done.stdout + done.stderr)[-1000:]}")
    first, _, blocks = done.stdout.partition("\n")
    print(blocks, end="")
    return json.loads(first)


def main() -> None:
    options = parser(__doc__, "armcost", "root", "folder")
    options.add_argument("--cores", type=names, default=["cortex-a53", "cortex-a73"])
    options.add_argument("--networks", type=names)
    options.add_argument("--engines", type=names, default=list(ENGINES))
    options.add_argument("--build", type=lambda text: Path(text).resolve(), metavar="TREE", help="built for aarch64")
    options.add_argument("--top", type=int, default=0, help="also print the hottest blocks")
    options = options.parse_args()
    site = options.root / "site"
    engines = [name for name in options.engines if name == "pipeall" or (site / ENGINES[name]).exists()]
    columns = ["network", "core", *(f"{name} [Mcycles] .1f" for name in engines)]
    columns += ["of the best peer [x] .3f"]
    columns += [f"{name} flop per cycle .2f" for name in engines]
    with tempfile.TemporaryDirectory() as scratch, Record(options, *columns, keys=2) as record:
        tree = options.build or built(Path(scratch, "tree"), options.root)
        for core in options.cores:
            gains = []
            for model in models(options.folder, options.networks):
                pickled = Path(scratch, f"{model.stem}.pickle")
                if not pickled.exists():
                    pickled.write_bytes(pickle.dumps(pipeall.load(model)))
                costs = {name: price(options, name, core, model, pickled, tree) for name in engines}
                cycles = {name: cost[f"{core}_Mcycles"] for name, cost in costs.items()}
                peers = [value for name, value in cycles.items() if name != "pipeall"]
                gain = cycles["pipeall"] / min(peers) if "pipeall" in cycles and peers else None
                gains += [gain] if gain else []
                record.add(
                    model.stem, core, *cycles.values(), gain,
                    *(cost[f"{core}_flop_per_cycle"] for cost in costs.values()),
                )  # fmt: skip
            if gains:
                record.say(mean_line(f"the ratios on {core}", gains))


if __name__ == "__main__":
    main()
