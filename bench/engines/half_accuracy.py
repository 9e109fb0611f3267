"""What half precision on an Arm core does to trained networks: emulated, beside onnxruntime in float32, on photos.

    python -m bench.engines.half_accuracy ROOT [NETWORK ...] [--build TREE] [--cpu cortex-a76] [--unit big@fp16]
        [--max-error 0.003]

classifiers  on photos/: how many photos have another most probable class, and how many a class among the first five
             that float32 has more than TIE below its fifth; the largest change of a probability
detectors    on every scene of scenes/: of each box the largest change of an edge, in pixels of the network's input, and
             of its score; boxes that only one of the two has, though their score is more than TIE above the threshold.
             A box is compared with the nearest of its class that the other side has before boxes suppress each other:
             of two whose scores are a tie, which one is left is chance

With --max-error some layers stay in float32, so that the network errs by that much at most (``mixed_precision``) on
TRIED pictures of the folder that it is not judged on.

ROOT is an arm64 root (tests/arm64/setup). The package is built for aarch64 from a copy of this tree unless TREE holds a
build, and runs under qemu-aarch64, one thread, its algorithms chosen by the model. With ``--cpu ref`` it runs here, by
its reference kernels, in any precision. Needs onnxruntime and Pillow.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from edge_networks import Reference, networks, photos
from edge_networks import frames as frames_of
from task_images import by_the_letter

from bench.common import DATA, REPOSITORY, Record, parser
from bench.engines.arm_cost import built
from pipeall import Graph, load, tasks
from pipeall.media import images
from pipeall.picture import Placed
from pipeall.tasks.boxes import overlaps

CLASSIFIERS = ("squeezenet1.1", "mobilenet_v1_0.75_192", "squeezenet1.0", "googlenet", "resnet50")
DETECTORS = (
    "face_detection_short_range", "ultraface_version-RFB-320_simplified", "yunet_n_dynamic", "nanodet_m_320",
    "fastestdet_352", "retinaface_mbnet025", "centerface", "ssd_mobilenetv2_oidv4_fp16", "yolox_nano_416",
)  # fmt: skip
TIE = 0.01
TRIED = 2
EVERY = 10_000  # more boxes than a decoder finds
PARTS = {"cortex-a55": "0xd05", "cortex-a76": "0xd0b"}
HERE = "ref"
CPUINFO = "processor : {core}\nFeatures : fp asimd asimdhp asimddp\nCPU implementer : 0x41\nCPU part : {part}\n\n"
RUNNER = """
import pickle, sys
from pathlib import Path
import numpy as np
import pipeall
from pipeall.pipeline.measuring.precision import mixed_precision

folder, unit = Path(sys.argv[1]), sys.argv[2]
graph, tried, frames = pickle.loads((folder / "given").read_bytes())
board, kept = pipeall.Board.detect(gpu=False), ()
if tried:
    mixed = mixed_precision(graph, tried, unit, board, max_error=float(sys.argv[3]))
    graph, kept = mixed.graph, mixed.layers
with pipeall.Engine(graph, unit, board=board, threads=1) as engine:
    found = [engine(frame) for frame in frames]
names = [tensor.name for tensor in graph.outputs]
found = [y if isinstance(y, dict) else {names[0]: y} for y in found]
made = [{name: np.array(y) for name, y in made.items()} for made in found]
(folder / "found").write_bytes(pickle.dumps((kept, made)))
"""
COLUMNS = (
    "network", "in float32 [layers]", "pictures", "another first class", "first five", "change of probability .4f",
    "boxes", "of one alone", "change of edges [px] .2f", "change of scores .4f",
)  # fmt: skip
Arrays = dict[str, np.ndarray]


def emulated(
    graph: Graph, tried: Sequence[np.ndarray], frames: Sequence[np.ndarray], options: argparse.Namespace, tree: Path
) -> tuple[int | None, list[Arrays]]:
    """How many layers stay in float32, and what the graph makes of the frames on the emulated core."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "given").write_bytes(pickle.dumps((graph, tried, frames)))  # this Python has no onnx
        Path(folder, "proc").mkdir()
        cores = [CPUINFO.format(core=core, part=PARTS.get(options.cpu)) for core in sorted(os.sched_getaffinity(0))]
        Path(folder, "proc", "cpuinfo").write_text("".join(cores))
        settings = {"QEMU_CPU": options.cpu, "PIPEALL_TUNE": "off", "PIPEALL_SYSFS": folder}
        settings |= {"PIPEALL_ARM64_ROOT": str(options.root)}
        python = str(REPOSITORY / "tests/arm64/python")
        if options.cpu == HERE:
            settings, python = {"PIPEALL_ISA": "ref", "PIPEALL_TUNE": "off"}, sys.executable
        command = [python, "-c", RUNNER, folder, options.unit, str(options.max_error)]
        done = subprocess.run(command, cwd=tree, env=os.environ | settings, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{graph.name}: {(done.stdout + done.stderr)[-1000:]}")
        kept, made = pickle.loads(Path(folder, "found").read_bytes())
        return len(kept) if tried else None, made


def trials(options: argparse.Namespace) -> int:
    """Pictures that layers are chosen by."""
    return 0 if options.max_error is None else TRIED


def classifier(name: str, options: argparse.Namespace, tree: Path) -> tuple:
    path = DATA / "models" / f"{name}.onnx"
    how = json.loads((DATA / "models" / "models.json").read_text())[path.name]
    frames = [by_the_letter(photo, how) for photo in images.inside(DATA / "photos", False)]
    tried = [by_the_letter(photo, how) for photo in photos(DATA / "scenes")[: trials(options)]]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    first = fives = 0
    change = 0.0
    singles, results = emulated(load(path), tried, frames, options, tree)
    for x, made in zip(frames, results, strict=True):
        expected, found = session.run(None, {"input": x})[0].reshape(-1), next(iter(made.values())).reshape(-1)
        first += int(found.argmax() != expected.argmax())
        fives += int((expected[np.argsort(-found)[:5]] < np.sort(expected)[-5] - TIE).any())
        change = max(change, float(np.abs(found - expected).max()))
    return name, singles, len(frames), first, fives, change, None, None, None, None


def detector(name: str, options: argparse.Namespace, tree: Path) -> tuple:
    network = next(n for n in networks(DATA / "edge") if n.name == name)
    graph, reference = network.load(), Reference(network)
    (h, w), count, alone = network.about["size"], 0, 0
    left, every = tasks.task(graph), tasks.task(graph, iou=1.0, most=EVERY)
    whole = Placed((h, w), (0, 0, h, w), (0, 0, h, w))  # boxes in pixels of the input
    least = left.decoder.threshold + TIE
    frames = frames_of(network, photos(DATA / "scenes"))
    tried = frames_of(network, [*images.inside(DATA / "photos", False)][: trials(options)])
    arrays = ([next(iter(x.values())) for x in part] for part in (tried, frames))
    singles, results = emulated(graph, *arrays, options, tree)
    changes = [(0.0, 0.0)]
    for x, made in zip(frames, results, strict=True):
        sides = reference(x), made
        kept, all_of = ([task(outputs, whole).boxes for outputs in sides] for task in (left, every))
        count += len(kept[0])
        for boxes, others in zip(kept, reversed(all_of), strict=True):
            for box in boxes:
                near = nearest(box, others)
                alone += int(near is None and box.score > least)
                changes += [] if near is None else [(edge_change(box, near), abs(box.score - near.score))]
    edges, scores = (max(column) for column in zip(*changes, strict=True))
    return name, singles, len(frames), None, None, None, count, alone, edges, scores


def corners(box: tasks.Box) -> np.ndarray:
    return np.array([box.left, box.top, box.right, box.bottom])


def edge_change(one: tasks.Box, other: tasks.Box) -> float:
    return float(np.abs(corners(one) - corners(other)).max())


def nearest(box: tasks.Box, others: Sequence[tasks.Box]) -> tasks.Box | None:
    """The one of the same class that overlaps most, by at least a half."""
    alike = [other for other in others if other.label == box.label]
    if not alike:
        return None
    shares = overlaps(corners(box)[None], np.stack([corners(other) for other in alike]))[0]
    return alike[shares.argmax()] if shares.max() >= 0.5 else None


def main() -> None:
    options = parser(__doc__, "root", networks=(*CLASSIFIERS, *DETECTORS))
    options.add_argument("--build", type=lambda text: Path(text).resolve(), metavar="TREE", help="built for aarch64")
    options.add_argument("--cpu", default="cortex-a76", choices=(*PARTS, HERE), help="the core; default %(default)s")
    options.add_argument("--unit", default="big@fp16")
    options.add_argument("--max-error", type=float, help="as a share of an output's largest value; default any")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, Record(options, *COLUMNS) as record:
        here = REPOSITORY if options.cpu == HERE else None
        tree = options.build or here or built(Path(scratch, "tree"), options.root)
        for name in options.networks:
            record.add(*(classifier if name in CLASSIFIERS else detector)(name, options, tree))


if __name__ == "__main__":
    main()
