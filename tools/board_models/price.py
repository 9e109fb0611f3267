"""Prices of pipeall's own steps on small Arm cores: each step of many networks, by its instructions and cache misses.

    python -m tools.board_models.price ARMCOST ROOT PRICES FILE.onnx [...] --socs a311d-big,... [--unit big]

ARMCOST prices instructions that ran under emulation (see arm_cost.py); ROOT is an arm64 root (tests/arm64/setup).
PRICES is the table that fit_prices.py makes board models of: what is priced here is added to it, or replaces what it
had of a network and a core. Names of cores joined by + share a run, of which the first is what pipeall sees.

A frame runs first, so that the caches hold what a frame leaves in them. Of the second, each step runs between two marks
in a process of its own: the one before it forks, leaves its counts as it ends, and the next goes on from there.
"""

import argparse
import importlib.util
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np

import pipeall
from bench.common import names, parser
from bench.engines.arm_cost import built
from bench.kernels.sparse_networks import pruned
from pipeall import Graph
from pipeall.pipeline.boards.models import step_work
from tools.board_models import price_table
from tools.board_models.price_grid import GRIDS
from tools.board_models.price_table import Row
from tools.board_models.priced_cores import BFLOATS_ON, CORES

GUEST = """
import ctypes, json, os, pickle, sys
from pathlib import Path
import numpy as np
from pipeall import Board
from pipeall._kernels.buffers import aligned
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph

pickled, unit, out = sys.argv[1:]


class Slot(ctypes.Structure):  # pa_slot_memory, as program.h has it
    _fields_ = [("data", ctypes.c_void_p), ("mem", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Program(ctypes.Structure):  # pa_program: its first two members
    _fields_ = [
        ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("start", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Slot), ctypes.POINTER(Slot),
                                   ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int))),
    ]


def slot(size):
    memory = aligned(max(1, size), np.uint8)
    memory[:] = 0
    return memory, Slot(memory.ctypes.data, None, memory.nbytes)


def run(first, last):
    if native.start(program.handle, source, target, first, last, running):
        sys.exit(f"steps {first} to {last} failed")


graph = pickle.loads(Path(pickled).read_bytes())
device = Board.detect(clusters=[[0]], gpu=False).component(unit).device
lowered = lower(subgraph(graph, 0, len(graph.groups)), int8=device.int8, fp16=device.fp16, silu=device.silu)
program = device.compile(lowered, "price")
native, running = Program.from_address(program.handle), ctypes.c_int(0)
(read, source), (written, target) = slot(lowered.slot_in_bytes), slot(lowered.slot_out_bytes)
count = len(program.labels)
if native.open(program.handle):
    sys.exit("the program does not open")
algorithms = [str(algorithm or "") for algorithm in program.algorithms]
print(json.dumps([[node for _, node in program.labels], algorithms]), flush=True)
os.getppid()
run(0, count)
for step in range(-1, count):  # of the first, which is none, what a mark itself costs
    os.getppid()
    run(max(step, 0), step + 1)
    os.getppid()
    ended, ends = os.pipe()
    if os.fork():
        os._exit(0)
    os.close(ends)
    os.read(ended, 1)  # nothing: the process before is gone, and its counts are there
    os.close(ended)
    os.rename(out, f"{out}.{step}")
"""


# What ARMCOST does not have: a Cortex-A720 as llvm prices a Neoverse N2, at no factors, with the caches of an Orion O6
A720 = {"mca": ["-mcpu=neoverse-n2"], "cycles": 1.0, "hit": 1.1, "part": 0xD81, "qemu": "max"}
CACHES = [(64, 4, 1), (512, 8, 1), (12288, 12, 12)]
ORION_O6 = {"core": "cortex-a720", "ghz": 2.55, "caches": CACHES, "tlb": 1024, "ns": 150}


def loaded(path: Path) -> ModuleType:
    """ARMCOST, a script without a suffix, as a module; with one core more."""
    loader = SourceFileLoader("armcost", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("armcost", loader))
    loader.exec_module(module)
    module.CORES["cortex-a720"] = module.Core(**A720)
    module.SOCS[BFLOATS_ON] = module.Soc(**ORION_O6, read=CORES["orion-o6-big"].read, write=CORES["orion-o6-big"].write)
    return module


def counted(armcost: ModuleType, options: argparse.Namespace, socs: list[str], graph: Graph, tree: Path, folder: Path):
    """Runs a network in the guest; counts lie in out.-1, out.0 and on. Returns its steps' nodes and algorithms."""
    first = armcost.SOCS[socs[0]]
    (folder / "root").mkdir()
    root, out, net = (
        armcost.board_root(socs[0], str(options.root), str(folder / "root")),
        folder / "out",
        folder / "net",
    )
    if first.core == "cortex-a720":  # of which ARMCOST does not know what it has more than an Armv8.0
        cpus = Path(root, "proc/cpuinfo")
        cpus.write_text(cpus.read_text().replace(" crc32", " crc32 fphp asimdhp asimddp i8mm bf16"))
    net.write_bytes(pickle.dumps(graph))
    plugin = f"{armcost.HERE}/libtbcount.so,out={out},marked=on"
    for name in socs:
        soc = armcost.SOCS[name]
        plugin += f",cache={name}:{soc.tlb}" + "".join(f":{size}x{ways}" for size, ways, _ in soc.caches)
    command = ["qemu-aarch64", "-cpu", armcost.CORES[first.core].qemu, "-L", root, "-plugin", plugin]
    for setting in (f"PYTHONPATH={tree}:{options.root / 'site'}", "PIPEALL_TUNE=off", "OPENBLAS_NUM_THREADS=1"):
        command += ["-E", setting]
    command += [str(options.root / "usr/bin/python3.11"), "-c", GUEST, str(net), options.unit, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)  # until the last of its processes ends
    if done.returncode or done.stderr:
        sys.exit(f"{graph.name} on {socs[0]}: {(done.stdout + done.stderr)[-1000:]}")
    return json.loads(done.stdout)


class Pricer:
    """Milliseconds of counted blocks on a core; what llvm-mca says of a block is asked once of each type of core."""

    _known: ClassVar[dict[str, dict[tuple[str, ...], tuple[list[str], float]]]] = {}

    def __init__(self, armcost: ModuleType, soc: str):
        self.armcost, self.soc = armcost, soc
        core = armcost.SOCS[soc].core
        self.mca, self.known = armcost.CORES[core].mca, self._known.setdefault(core, {})

    def price(self, path: Path) -> dict[str, float]:
        """What ARMCOST's ``milliseconds`` gives for the counts of a file."""
        blocks = self.armcost.per_frame({}, self.armcost.read_counts(str(path)), 1)
        self._learn([code for code, _, _ in blocks if code not in self.known])
        rows = [(self.known[code][0], self.known[code][1] * n, events.get(self.soc, {})) for code, n, events in blocks]
        scaled = [(lines, 1e3 * cycles, {key: 1e3 * n for key, n in events.items()}) for lines, cycles, events in rows]
        found = self.armcost.milliseconds(self.soc, scaled)  # rounds to 0.01 ms: of a thousand times the counts
        return {key: found[key] / 1e3 for key in ("ms", "dram_read_MB", "dram_write_MB")}

    def _learn(self, codes: list[tuple[str, ...]]) -> None:
        text = self.armcost.disassemble({word for code in codes for word in code}) if codes else {}
        blocks = [[text[word] for word in code if word in text] for code in codes]
        if self.mca:
            cycles = self.armcost.cycles(blocks, [*self.mca, "-call-latency=2"]) if blocks else []
        else:
            cycles = [self.armcost.in_order_cycles(lines) for lines in blocks]
        self.known.update({code: found for code, *found in zip(codes, blocks, cycles, strict=True)})


def rows(pricers: dict[str, Pricer], graph: Graph, unit: str, found: tuple[list, list], out: Path) -> Iterator[Row]:
    """What the table has of a network: a row for each core and step, less what a mark costs."""
    nodes, algorithms = found
    works = step_work.works(graph, algorithms, integers=step_work.ISA, precision=unit.partition("@")[2])
    if nodes != [work.node for work in works]:
        sys.exit(f"{graph.name}: expected the steps that it has here, got {nodes}")
    for soc, pricer in pricers.items():
        mark = pricer.price(Path(f"{out}.-1"))
        for index, work in enumerate(works):
            cost = pricer.price(Path(f"{out}.{index}"))
            figures = (round(max(0.0, cost[key] - mark[key]), 5) for key in mark)
            yield Row(soc, unit, graph.name, index, work.node, work.kernel, *figures, *work.features[:-1])


def grid(name: str, unit: str) -> Graph:
    """A network of the grid, in 8 bits where a unit computes on integers."""
    graph = GRIDS[name]()
    if not unit.endswith("@int8"):
        return graph
    shape, random = graph.inputs[0].shape, np.random.default_rng(0)
    inputs = [random.standard_normal(shape, np.float32) for _ in range(4)]
    return pipeall.quantize(graph, inputs, method="minmax").graph


def main() -> None:
    options = parser(__doc__, "armcost", "root", "prices")
    options.add_argument("models", nargs="+", metavar="FILE", help=f".onnx files, or of {', '.join(GRIDS)}")
    options.add_argument("--socs", type=names, required=True, help=f"cores by ARMCOST's names, or {BFLOATS_ON}")
    options.add_argument("--unit", default="big", help="big, big@fp16, big@bf16, big@int8")
    options.add_argument("--zeros", type=float, default=0.0, help="share of the blocks of 1x1 layers that become zeros")
    options.add_argument("--build", type=lambda text: Path(text).resolve(), metavar="TREE", help="built for aarch64")
    options = options.parse_args()
    armcost = loaded(options.armcost)
    with tempfile.TemporaryDirectory() as scratch:
        tree = options.build or built(Path(scratch, "tree"), options.root)
        for model in options.models:
            graph = grid(model, options.unit) if model in GRIDS else pipeall.load(model)
            if options.zeros:
                graph = replace(pruned(graph, options.zeros)[0], name=f"{graph.name}-sparse")
            for joined in options.socs:
                pricers = {soc: Pricer(armcost, soc) for soc in joined.split("+")}
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    found = counted(armcost, options, list(pricers), graph, tree, Path(folder))
                    priced = list(rows(pricers, graph, options.unit, found, Path(folder, "out")))
                price_table.save(options.prices, price_table.replaced(price_table.load(options.prices), priced))
                for soc in pricers:
                    total = sum(row.ms for row in priced if row.soc == soc)
                    print(f"{graph.name} on {soc}, {options.unit}: {total:.2f} ms in {len(found[0])} steps", flush=True)


if __name__ == "__main__":
    main()
