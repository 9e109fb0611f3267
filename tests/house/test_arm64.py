"""The aarch64 build, cross-compiled from a copy of the tree and run under user-mode emulation."""

import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from bounds import classifier_bound
from build_trees import REPOSITORY, copy_tree
from graphs import inputs_of, zoo_net
from integer_nets import chain, levels_between

from pipeall import Graph, load
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.dequantize import dequantized
from pipeall.graph.passes.int8 import to_int8

PYTHON = REPOSITORY / "tests" / "arm64" / "python"
ROOT = Path(os.environ.get("PIPEALL_ARM64_ROOT", "~/.cache/pipeall-arm64")).expanduser()

TWO_STAGES = """
import os, pickle, sys
import numpy as np
import pipeall
from pipeall._kernels.cpu.self_check import checked, wrong_on

board = pipeall.Board.detect(clusters=[[core] for core in sorted(os.sched_getaffinity(0))[:2]], gpu=False)
for component in board.components.values():
    kernels = checked(component.device.cluster)
    assert wrong_on(component.device.cluster) == ()
    halves = "asimdhp" in component.device.cluster.isas
    lacking = ("bf16w",) * ("bf16" not in component.device.cluster.isas) + ("f16", "f16acc") * (not halves)
    others = ("unsign", "depthwise_rows")  # of some instruction sets alone
    native = [name for (op, type_), name in kernels.items() if op not in others and not type_.endswith(lacking)]
    assert not any("_ref" in name for name in native), kernels
    assert sys.argv[1] in kernels["gemm", "s8"], kernels
for precision in map(str.strip, sys.stdin):
    with open("graph.pickle", "rb") as file:
        graph = pickle.load(file)
    plan = f"big{precision}-little{precision}:{len(graph.groups) // 2}"
    with pipeall.Pipeline(graph, plan, board=board) as pipe:
        (y,) = pipe.map([np.load("x.npy")])
    np.save("y.npy", y)
    print("done", flush=True)
"""


def run_arm(folder: Path, *arguments: str, cpu: str = "max", timeout: int = 3600, **env: str) -> str:
    """Runs the emulated Python in a folder and returns its output, which is the message where it fails."""
    done = subprocess.run(
        [PYTHON, *arguments], cwd=folder, env=os.environ | {"QEMU_CPU": cpu} | env, text=True, timeout=timeout,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the package and its tests, built for aarch64."""
    tools = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not (ROOT / "site" / "pytest").is_dir():
        missing.append(str(ROOT))
    if missing:
        pytest.skip(f"no emulated aarch64 Python (missing: {', '.join(missing)}): run tests/arm64/setup as root")
    folder = tmp_path_factory.mktemp("arm64")
    copy_tree(folder)
    run_arm(folder, "setup.py", "-q", "build_ext", "--inplace")
    built = {path.name.split(".")[0] for path in folder.rglob("*.cpython-311-aarch64-linux-gnu.so")}
    assert built == {"kernels", "queue", "runtime"}
    return folder


CORES = {  # core -> what /proc/cpuinfo says of it, and the GEMM kernel of integers that it then takes
    "cortex-a53": ("fp asimd", "_neon"),
    "cortex-a76": ("fp asimd asimdhp asimddp", "_dotprod"),
    "max": ("fp asimd asimdhp asimddp i8mm bf16", "_i8mm"),
}
# of an instruction set's name, to what /proc/cpuinfo calls it
EXTENSIONS = {"asimdhp": "asimdhp", "dotprod": "asimddp", "i8mm": "i8mm", "bf16": "bf16"}


def features(tree: Path, cpu: str) -> str:
    """A folder that says so: the emulator shows the host's /proc/cpuinfo."""
    folder = tree / cpu / "proc"
    folder.mkdir(parents=True, exist_ok=True)
    cores = [f"processor: {core}\nFeatures: {CORES[cpu][0]}\n" for core in sorted(os.sched_getaffinity(0))[:2]]
    (folder / "cpuinfo").write_text("\n".join(cores))
    return str(folder.parent)


ARITHMETIC = "kernels pack_pixels staged gemm_tiles winograd strassen sparse"
OTHER = (  # plain C, and vectors that others test
    "matmul_kernels resize_kernels recurrent_kernels index_kernels picture_kernels copy_kernels pad_kernels"
    " strided_kernels strided_rows tiling_kernels lrn_types"
)
INTEGERS = "s8_vectors first_layers_s8 convolutions_s8"
HALVES = "bfloats halves silu f16_steps half_convolutions gemv_halves"
REFERENCE = ("_ref_", "ref-", "ref]")  # in the ids of tests of kernels in plain C: those run on the host


# Several processes: the emulator keeps some 0.5 MB of each thread that has ended, 11 GB in all of them.
@pytest.mark.parametrize(
    ("cpu", "names", "every"),
    [
        *(("cortex-a53", *some) for some in ((ARITHMETIC, 3), (f"{INTEGERS} {HALVES}", 1))),
        *(("max", *some) for some in ((ARITHMETIC, 1), (HALVES, 3), (OTHER, 9))),
    ],
)
def test_every_kernel(tree, cpu, names, every, thinned):
    """Those of plain NEON on the first core. Of the same files the second one runs what that one has not."""
    tests = [f"tests/kernels/test_{name}.py" for name in names.split()]
    has = [isa for isa, feature in EXTENSIONS.items() if feature in CORES[cpu][0].split()]
    chosen = " and ".join(f"not {name}" for name in ("onnxruntime", *REFERENCE, *(set(EXTENSIONS) - set(has))))
    if (cpu, names) == ("max", ARITHMETIC):
        chosen += f" and ({' or '.join(has)})"
    pytest_of = ("-m", "pytest", "-rs", "-p", "no:cacheprovider", *thinned(every), "-k", chosen)
    printed = run_arm(tree, *pytest_of, *tests, cpu=cpu, PIPEALL_SYSFS=features(tree, cpu))
    assert "skipped" not in printed and "passed" in printed, printed


@pytest.fixture(scope="module")
def sums(tmp_path_factory) -> Path:
    """native/kernels_s8.c for aarch64."""
    missing = [tool for tool in ("aarch64-linux-gnu-gcc", "qemu-aarch64") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no emulated aarch64 (missing: {', '.join(missing)}): run tests/arm64/setup as root")
    binary = tmp_path_factory.mktemp("native") / "kernels_s8"
    sources = [REPOSITORY / "tests/native/kernels_s8.c", *(REPOSITORY / "pipeall/_kernels/cpu/s8").glob("*.c")]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O3", "-static", f"-I{REPOSITORY}/pipeall"]
    subprocess.run(["aarch64-linux-gnu-gcc", *flags, *sources, "-o", binary, "-lm"], check=True)
    return binary


@pytest.mark.parametrize(
    ("cpu", "isas"), [("cortex-a53", ["neon"]), ("cortex-a76", ["neon", "dotprod"]), ("max", ["i8mm"])]
)
def test_sums_of_integers(cpu, isas, sums):
    """The 8-bit kernels of a core's instruction sets against exact sums."""
    ran = subprocess.run(["qemu-aarch64", "-cpu", cpu, sums, *isas], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr[-5000:]
    assert all(any(isa in name for name in ran.stdout.split()) for isa in isas), ran.stdout


@pytest.fixture(scope="module")
def two_stages(tree) -> Iterator[Callable[..., np.ndarray | dict[str, np.ndarray]]]:
    """A frame through the NEON kernels of a core, cut in the middle, in a precision such as "@fp16".

    Its Python starts once for each core: that takes longer than most of the networks.
    """
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only: a two-stage CPU pipeline needs two")
    started: dict[str, subprocess.Popen] = {}

    def start(cpu: str) -> subprocess.Popen:
        variables = os.environ | {"QEMU_CPU": cpu, "PIPEALL_SYSFS": features(tree, cpu)}
        return subprocess.Popen(
            ["timeout", "3600", PYTHON, "-c", TWO_STAGES, CORES[cpu][1]], cwd=tree, env=variables, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def through(
        graph: Graph, x: np.ndarray, cpu: str = "cortex-a53", precision: str = ""
    ) -> np.ndarray | dict[str, np.ndarray]:
        np.save(tree / "x.npy", x)
        (tree / "graph.pickle").write_bytes(pickle.dumps(graph))  # this Python has no onnx
        answer = tree / "y.npy"
        answer.unlink(missing_ok=True)
        if cpu not in started:
            started[cpu] = start(cpu)
        print(precision, file=started[cpu].stdin, flush=True)
        said = list(takewhile(lambda line: line != "done\n", started[cpu].stdout))
        if not answer.exists():
            started.pop(cpu).communicate()
            pytest.fail("".join(said)[-5000:])
        return np.load(answer, allow_pickle=True)[()]

    yield through
    for process in started.values():
        process.communicate()


def test_two_stage_pipeline(two_stages):
    """SqueezeNet against float64."""
    graph = zoo_net("squeezenet")
    inputs = inputs_of(graph)
    y = two_stages(graph, inputs["data"])
    values = run_graph(graph, inputs, all_tensors=True)
    np.testing.assert_allclose(y, values["prob"], rtol=classifier_bound(graph, values))


@pytest.mark.full
def test_detector_in_two_stages(two_stages, data_dir):
    """YOLOX on a photo, against float64."""
    pytest.importorskip("onnxruntime", reason="edge_networks.py compares with it: pip install onnxruntime")
    import edge_networks

    network = next(n for n in edge_networks.networks(data_dir / "edge") if n.name == "yolox_nano_416")
    graph = network.load()
    (inputs,) = edge_networks.frames(network, [data_dir / "scenes" / "jetson_humans_4.jpg"])
    y = two_stages(graph, next(iter(inputs.values())))
    assert edge_networks.error({graph.outputs[0].name: y}, run_graph(graph, inputs)) <= edge_networks.LIMIT


@pytest.mark.parametrize(
    ("cpu", "precision", "most"), [("cortex-a76", "@fp16", 0.01), ("max", "@fp16", 0.01), ("max", "@bf16", 8 * 0.01)]
)
def test_halves_in_two_stages(two_stages, cpu, precision, most):
    """SqueezeNet's probabilities, by sums in half precision, and by products of bfloat16: 8 bits instead of 11."""
    graph = zoo_net("squeezenet")
    inputs = inputs_of(graph)
    y = two_stages(graph, inputs["data"], cpu, precision)
    (expected,) = run_graph(graph, inputs).values()
    assert 0 < np.abs(y - expected).max() <= most * expected.max()


@pytest.mark.full
def test_a_detector_on_halves(two_stages, data_dir):
    """NanoDet on a photo, every output against float64: scores within 0.01, distances within 1 % of the largest."""
    pytest.importorskip("onnxruntime", reason="edge_networks.py compares with it: pip install onnxruntime")
    import edge_networks

    network = next(n for n in edge_networks.networks(data_dir / "edge") if n.name == "nanodet_m_320")
    graph = network.load()
    (inputs,) = edge_networks.frames(network, [data_dir / "scenes" / "jetson_humans_4.jpg"])
    found = two_stages(graph, next(iter(inputs.values())), "cortex-a76", "@fp16")
    for name, expected in run_graph(graph, inputs).items():
        assert 0 < np.abs(found[name] - expected).max() <= 0.01 * max(1, np.abs(expected).max()), name


@pytest.mark.parametrize("cpu", CORES)
def test_integers_in_two_stages(two_stages, cpu):
    """Every op on integers, against float64: the same levels, or next to one where a tie went astray."""
    graph = to_int8(chain())
    x = np.random.default_rng(0).uniform(-3, 3, graph.inputs[0].shape).astype(np.float32)
    (expected,) = run_graph(dequantized(graph), {"x0": x}).values()
    y = two_stages(graph, x, cpu)
    assert levels_between(graph, y, expected) <= 1


@pytest.mark.parametrize("cpu", CORES)
def test_trained_integers_in_two_stages(two_stages, cpu, data_dir):
    """ResNet-8 on pictures that it was not trained on, against float64."""
    graph = load(data_dir / "edge" / "mlperf_tiny_ic_resnet8_int8.onnx")
    with np.load(data_dir / "datasets" / "cifar10_10k.npz") as data:
        (picture,) = (data["x_test"][:1].astype(int) - 128).astype(np.int8)
    (expected,) = run_graph(dequantized(graph), {graph.inputs[0].name: picture[None]}).values()
    y = two_stages(graph, picture[None], cpu)
    assert np.abs(y.astype(int) - expected).max() <= 1
