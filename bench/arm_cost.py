"""Modelled cost of a frame on small Arm cores: the five networks, one core each, for every engine that is installed.

    python bench/arm_cost.py ARMCOST ROOT FOLDER [--cores cortex-a53,cortex-a73] [--networks NAME,...] [--build TREE]

ARMCOST is the pricing tool: it runs a command for two numbers of frames under qemu-aarch64 and prices the difference,
block by block, with llvm-mca's model of the core (no caches, no branch prediction, one core). ROOT is an arm64 root
(tests/arm64/setup). FOLDER holds the .onnx files. ncnn and MNN take part where their aarch64 wheels are in ROOT/site
and bench/peers.py has left their models in FOLDER/peers. pipeall chooses its kernels for the core that is priced
(PIPEALL_CORE) and times nothing (PIPEALL_TUNE=off). It is built from a copy of this tree unless TREE holds a build.
"""

import argparse
import copyreg
import json
import os
import pickle
import subprocess
import sys
import tempfile
from math import prod
from pathlib import Path
from types import MappingProxyType

import pipeall

REPOSITORY = Path(__file__).resolve().parents[1]
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

copyreg.pickle(MappingProxyType, lambda view: (dict, (dict(view),)))  # the one part of a graph that pickle lacks


def absolute(text: str) -> Path:
    return Path(text).resolve()


def built(folder: Path, root: Path) -> Path:
    """A copy of the tree in ``folder``, built for aarch64."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from trees import copy_tree

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("armcost", type=absolute)
    parser.add_argument("root", type=absolute)
    parser.add_argument("folder", type=absolute)
    parser.add_argument("--cores", default="cortex-a53,cortex-a73")
    parser.add_argument("--networks")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--build", type=absolute, metavar="TREE", help="a tree that has been built for aarch64")
    parser.add_argument("--top", type=int, default=0, help="also print the hottest blocks")
    options = parser.parse_args()
    engines = [
        name for name in options.engines.split(",")
        if name == "pipeall" or (options.root / "site" / ENGINES[name]).exists()
    ]  # fmt: skip
    models = [
        path for path in sorted(options.folder.glob("*.onnx"))
        if not options.networks or path.stem in options.networks.split(",")
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        tree = options.build or built(Path(scratch, "tree"), options.root)
        for core in options.cores.split(","):
            print(f"\n{core}, Mcycles a frame (flop per cycle of the multiply-adds)")
            print(f"{'':12}" + "".join(f"{name:>16}" for name in engines))
            ratios = []
            for model in models:
                pickled = Path(scratch, f"{model.stem}.pickle")
                if not pickled.exists():
                    pickled.write_bytes(pickle.dumps(pipeall.load(model)))
                costs = {name: price(options, name, core, model, pickled, tree) for name in engines}
                cycles = {name: cost[f"{core}_Mcycles"] for name, cost in costs.items()}
                row = "".join(f"{cycles[name]:9.1f} ({costs[name][f'{core}_flop_per_cycle']:.2f})" for name in engines)
                others = [value for name, value in cycles.items() if name != "pipeall"]
                if "pipeall" in cycles and others:
                    ratios.append(cycles["pipeall"] / min(others))
                    row += f"{ratios[-1]:8.3f} of the best peer"
                print(f"{model.stem:12}{row}", flush=True)
            if ratios:
                print(f"geometric mean of the ratios {prod(ratios) ** (1 / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
