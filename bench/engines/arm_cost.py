"""Modelled cost of a frame on small Arm cores: the five networks, one core each, for every engine that is installed.

    python -m bench.engines.arm_cost ARMCOST ROOT FOLDER --socs a311d-little,a311d-big,rpi5 [--peers RECORD]
    python -m bench.engines.arm_cost ARMCOST ROOT FOLDER --cores cortex-a73 [--networks NAME,...] [--build TREE]

ARMCOST is the pricing tool: it runs a command under qemu-aarch64 and prices the second frame, of which calls of getppid
tell it, block by block. For a SoC it gives milliseconds: cycles of the core by a model fitted to measured boards,
simulated caches, latency and bandwidth of the memory. For a core it gives cycles of llvm-mca's model, without these.
ROOT is an arm64 root (tests/arm64/setup). FOLDER holds the .onnx files. ncnn and MNN take part where their aarch64
wheels are in ROOT/site and peers.py has left their models in FOLDER/peers, or by their figures in RECORD, an earlier
record of SoCs. pipeall chooses its kernels for the core that is priced and times nothing (PIPEALL_TUNE=off). It
is built from a copy of this tree unless TREE holds a build.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from build_trees import copy_tree

import pipeall
from bench.common import REPOSITORY, Record, mean_line, models, names, parser

ENGINES = {"pipeall": "pipeall", "ncnn": "ncnn", "mnn": "MNN"}  # name -> the folder of its package
PEERS = ("ncnn", "mnn")
RUNNER = """
import os, pickle, sys
from pathlib import Path
import numpy as np
import pipeall
from bench.engines import peers

engine, model, pickled, unit, frames = sys.argv[1:]
graph = pickle.loads(Path(pickled).read_bytes())
pipeall.load = lambda path: graph  # this Python has no onnx
units = [unit] if engine == "pipeall" else []
run = peers.ENGINES[engine][1](Path(model), np.zeros(graph.inputs[0].shape, np.float32), 1, *units)
for _ in range(int(frames)):
    os.getppid()
    run()
os.getppid()
"""


def built(folder: Path, root: Path) -> Path:
    """A copy of the tree in ``folder``, built for aarch64."""
    copy_tree(folder)
    build = [str(REPOSITORY / "tests/arm64/python"), "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=folder, env=os.environ | {"PIPEALL_ARM64_ROOT": str(root)}, check=True)
    return folder


def price(options: argparse.Namespace, engine: str, place: str, model: Path, pickled: Path, tree: Path) -> dict:
    """What ARMCOST prints for one engine, SoC or core, and network; with --top its hottest blocks go to stdout."""
    path = f"{tree}:{options.root / 'site'}"
    command = [str(options.armcost), "--marked", "--root", str(options.root), "--top", str(options.top)]
    command += ["--soc", place] if options.socs else ["--cores", place]
    # OpenBLAS (in NumPy): its threads would spin for a while, a wall-clock while
    settings = [f"PYTHONPATH={path}", "PIPEALL_TUNE=off", "OPENBLAS_NUM_THREADS=1"]
    if not options.socs:  # else it finds the board's cores in the files that ARMCOST shows it
        settings.append(f"PIPEALL_CORE={place}")
    for setting in settings:
        command += ["-E", setting]
    python = str(options.root / "usr/bin/python3.11")
    command += ["--", python, "-c", RUNNER, engine, str(model), str(pickled), options.unit, "{frames}"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)  # not in a folder with another pipeall
    if done.returncode:
        sys.exit(f"{engine}, {place}, {model.name}: {(done.stdout + done.stderr)[-1000:]}")
    first, _, blocks = done.stdout.partition("\n")
    cost = json.loads(first)
    if options.socs:
        line, _, blocks = blocks.partition("\n")
        cost |= json.loads(line)
    print(blocks, end="")
    return cost


def recorded(path: Path | None) -> dict[tuple[str, str], dict[str, float]]:
    """(network, SoC) -> engine -> milliseconds of the peers in a record of this bench."""
    if not path:
        return {}
    record = json.loads(path.read_text())
    columns = [column["name"] if column["unit"] == "ms" else None for column in record["columns"]]
    return {
        tuple(row[:2]): {name: cell for name, cell in zip(columns, row, strict=True) if name in PEERS and cell}
        for row in record["rows"]
    }


def main() -> None:
    options = parser(__doc__, "armcost", "root", "folder")
    options.add_argument("--socs", type=names, default=[], help="boards' cores by ARMCOST's names: milliseconds")
    options.add_argument("--cores", type=names, default=["cortex-a53", "cortex-a73"], help="without --socs: cycles")
    options.add_argument("--peers", type=Path, metavar="RECORD", help="an earlier record, for the peers' milliseconds")
    options.add_argument("--networks", type=names)
    options.add_argument("--unit", default="big", help="pipeall's: big, big@fp16, big@mixed")
    options.add_argument("--engines", type=names, default=list(ENGINES))
    options.add_argument("--build", type=lambda text: Path(text).resolve(), metavar="TREE", help="built for aarch64")
    options.add_argument("--top", type=int, default=0, help="also print the hottest blocks")
    options = options.parse_args()
    site = options.root / "site"
    engines = [name for name in options.engines if name == "pipeall" or (site / ENGINES[name]).exists()]
    unit, known = "ms" if options.socs else "Mcycles", recorded(options.peers if options.socs else None)
    shown = [name for name in ENGINES if name in engines or any(name in peers for peers in known.values())]
    columns = ["network", "soc" if options.socs else "core", *(f"{name} [{unit}] .1f" for name in shown)]
    columns += ["of the best peer [x] .3f"]
    with tempfile.TemporaryDirectory() as scratch, Record(options, *columns, keys=2) as record:
        tree = options.build or built(Path(scratch, "tree"), options.root)
        for place in options.socs or options.cores:
            gains = []
            for model in models(options.folder, options.networks):
                pickled = Path(scratch, f"{model.stem}.pickle")
                if not pickled.exists():
                    pickled.write_bytes(pickle.dumps(pipeall.load(model)))
                costs = dict(known.get((model.stem, place), {}))
                for name in engines:
                    found = price(options, name, place, model, pickled, tree)
                    costs[name] = found["ms" if options.socs else f"{place}_Mcycles"]
                peers = [costs[name] for name in PEERS if name in costs]
                gain = costs["pipeall"] / min(peers) if "pipeall" in costs and peers else None
                gains += [gain] if gain else []
                record.add(model.stem, place, *(costs.get(name) for name in shown), gain)
            if gains:
                record.say(mean_line(f"the ratios on {place}", gains))


if __name__ == "__main__":
    main()
