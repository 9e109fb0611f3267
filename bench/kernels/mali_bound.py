"""What bounds the OpenCL kernels on a Mali-G52: per kernel and tile, per layer, and per network beside published times.

    python -m bench.kernels.mali_bound [NETWORK ...] [--layers] [--half] [--clock 800] [--engines 6] [--cores 2]

Static: nothing runs. A G52 engine does 8 multiply-adds a cycle in single precision, 16 in half; a core loads or stores
16 bytes a cycle, what the 8 threads of a warp share counting once; memory gives --memory GB/s. A kernel takes the
longest of the three, so that latency, conflicts and the start of a kernel are left out: these are lower bounds. The
defaults are an Amlogic A311D's (two cores of three engines at 800 MHz). Registers are of 32 bits; a thread has 64.
Who has a board replaces all of this by `pipeall profile NETWORKS --units gpu --save-board FILE`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from bench.common import NETWORKS, Record, network, parser
from pipeall import Board, Graph
from pipeall._kernels.opencl.methods import DEPTHWISE_PIXELS, GPU, winograd
from pipeall.graph.lower.lower import lower
from pipeall.steps import Step, View

# ncnn's benchmark on a Khadas VIM3 (A311D), Vulkan, ms; SqueezeNet there is 1.1.
NCNN_VULKAN_MS = {"alexnet": 69.7, "googlenet": 67.3, "mobilenet": 32.4, "resnet50": 159.8}
WARP, ENGINE_MACS, CORE_BYTES = 8, 8, 16


@dataclass(frozen=True)
class Kernel:
    """A launch: multiply-adds, bytes through load and store units, bytes from and to memory, registers of a thread."""

    node: str
    name: str
    macs: float
    moved: float
    memory: float
    registers: int


@dataclass(frozen=True)
class Device:
    clock: float
    engines: int
    cores: int
    memory: float

    def bounds_ms(self, kernel: Kernel, half: bool) -> dict[str, float]:
        return {
            "arithmetic": 1e3 * kernel.macs / (self.engines * ENGINE_MACS * (1 + half)) / self.clock,
            "load/store": 1e3 * kernel.moved / (self.cores * CORE_BYTES) / self.clock,
            "memory": 1e3 * kernel.memory / self.memory,
        }


def elements(view: View) -> int:
    return view.h * view.w * view.c


def multiply(node: str, name: str, pixels: int, k: int, cout: int, groups: int, memory: float, size: int) -> Kernel:
    """conv.cl: a thread loads its own inputs; a warp runs over pixels and shares the weights."""
    vector, tile = GPU.conv["VECTOR"], GPU.conv["PIXELS"] if pixels > 1 else 1
    threads = ceil(pixels / tile) * groups * ceil(cout / vector)
    shared = min(WARP, GPU.conv["LOCAL_PIXELS"]) if pixels > 1 else 1
    moved = threads * size * (tile * k + vector * k / shared + tile * vector)
    registers = tile * vector + tile * GPU.conv["INPUTS"] + vector
    return Kernel(node, name, threads * tile * vector * k, moved, memory, registers)


def kernels(step: Step, half: bool) -> Iterator[Kernel]:
    size = 2 if half else 4
    source, target = sum(map(elements, step.src)), elements(step.dst)
    through = size * (source + target)
    if step.kind != "conv":
        window = prod(step.params.get("kernel", (1, 1)))
        yield Kernel(step.node, step.kind, target * window, size * target * (window + 1), through, 16)
        return
    cout, cin, *kernel = step.weight.shape
    weights, pixels, groups = size * step.weight.size, step.dst.h * step.dst.w, step.params["groups"]
    m = winograd(step, 2 if half else 4)
    if groups == step.src[0].c == cout:
        vector, stride = GPU.window["VECTOR"], step.params["strides"][1]
        threads = ceil(cout / vector) * ceil(step.dst.w / DEPTHWISE_PIXELS) * step.dst.h
        columns = (DEPTHWISE_PIXELS - 1) * stride + kernel[1]
        loads = kernel[0] * (columns + kernel[1]) + DEPTHWISE_PIXELS
        macs = threads * vector * DEPTHWISE_PIXELS * prod(kernel)
        registers = vector * (DEPTHWISE_PIXELS + columns + 1)
        yield Kernel(step.node, "depthwise", macs, threads * loads * vector * size, through + weights, registers)
    elif m:
        points, tiles = (m + 2) ** 2, ceil(step.dst.h / m) * ceil(step.dst.w / m)
        inputs, products = size * tiles * points * cin, size * tiles * points * cout
        registers = GPU.winograd[m]["VECTOR"] * (points + 2 * (m + 2))
        source, target = size * source, size * target
        yield Kernel(step.node, f"winograd_input {m}", tiles * points * cin, 2 * inputs, source + inputs, registers)
        memory = inputs + products + weights * points / 9
        yield multiply(step.node, f"conv, {points} points", tiles, cin, cout, points, memory, size)
        yield Kernel(
            step.node, f"winograd_output {m}", tiles * points * cout, 2 * products, products + target, registers
        )
    else:
        name = f"conv {kernel[0]}x{kernel[1]}"
        yield multiply(step.node, name, pixels, cin * prod(kernel), cout // groups, groups, through + weights, size)


def rows(graph: Graph, device: Device, half: bool) -> Iterator[tuple[Kernel, dict[str, float], str]]:
    """Each kernel with its bounds in ms, and the name of the largest."""
    for step in lower(graph).steps:
        for kernel in kernels(step, half):
            bounds = device.bounds_ms(kernel, half)
            yield kernel, bounds, max(bounds, key=bounds.__getitem__)


def total_ms(graph: Graph, device: Device, half: bool) -> float:
    return sum(bounds[name] for _, bounds, name in rows(graph, device, half))


LAYERS = (
    "network", "node", "kernel", "arithmetic [ms] .3f", "load/store [ms] .3f", "memory [ms] .3f", "bound by",
    "registers",
)  # fmt: skip
TOTALS = ("network", "bound fp32 [ms] .1f", "bound fp16 [ms] .1f", "ARM-CL fp32 [ms] .1f", "ncnn Vulkan fp16 [ms] .1f")


def main() -> None:
    options = parser(__doc__, networks=NETWORKS)
    options.add_argument("--layers", action="store_true", help="each kernel as well")
    options.add_argument("--half", action="store_true", help="the layers in half precision")
    options.add_argument("--clock", type=float, default=800, help="MHz")
    options.add_argument("--engines", type=int, default=6)
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--memory", type=float, default=10, help="GB/s")
    options = options.parse_args()
    device = Device(options.clock * 1e6, options.engines, options.cores, options.memory * 1e9)
    board = Board.load("a311d-armcl")
    graphs = {name: network(name) for name in options.networks}
    if options.layers:
        with Record(options, *LAYERS, board=board, part="layers", keys=3) as record:
            for name, graph in graphs.items():
                for kernel, bounds, most in rows(graph, device, options.half):
                    record.add(name, kernel.node, kernel.name, *bounds.values(), most, kernel.registers)
    with Record(options, *TOTALS, board=board) as record:
        for name, graph in graphs.items():
            published = sum(board.model.profile(graph).units["gpu"].ms)
            bounds = (total_ms(graph, device, half) for half in (False, True))
            record.add(name, *bounds, published, NCNN_VULKAN_MS.get(name))


if __name__ == "__main__":
    main()
