"""What is tried on this machine: every kernel, memory, a pipeline of three stages, a picture through the GPU."""

from __future__ import annotations

from math import prod
from time import perf_counter

import numpy as np

from .._kernels.cpu.self_check import rows_that_differ
from ..errors import PipeallError
from ..graph.ir import Graph, Node, Tensor
from ..graph.ops import attributes, infer_shape, run_graph
from ..picture import Picture, example
from ..pipeline.boards.board import Board
from ..pipeline.devices.device import Device
from ..pipeline.pipeline import Pipeline
from .examined_machine import Machine
from .findings import Section

SIDE, CHANNELS, LAYERS = 64, 24, 3
FRAMES = 30
NEAR = 1e-4  # of the largest result: three sums of up to 216 products in float32
PICTURE_NEAR = 1e-3  # levels of a picture are rounded on the way
REPORT = "please report this page: a kernel is wrong on this machine"


def self_test(machine: Machine, section: Section) -> None:
    if not machine.live:
        section.fact("self-test", "not run: these are files of another machine")
        return
    board = Board.detect()
    clusters = {name: one.device for name, one in board.components.items() if one.device.kind == "cpu"}
    for name, device in clusters.items():
        _kernels(section, name, device)
        peak = device.peak()
        section.fact(f"{name}: rates", f"{peak.flops / 1e9:.1f} GFLOP/s, memory {peak.bytes / 1e9:.1f} GB/s read")
    graph = _network()
    names = [*clusters]
    gpu = next((name for name, one in board.components.items() if name.startswith("gpu")), None)
    middle = gpu if gpu and not board.components[gpu].stand_in else names[-1]
    order = (names[0], middle, names[-1] if middle != names[-1] else names[0])
    if len({*order}) == 1:
        section.fact("pipeline", "one core alone: nothing to share a network among")
    else:
        _pipeline(section, board, graph, f"{'-'.join(order)}:1,2")
    if gpu:
        _picture(section, board, graph, gpu)


def _kernels(section: Section, name: str, device: Device) -> None:
    """All that the cores can run, not only those that are chosen."""
    cluster = device.cluster
    begin = perf_counter()
    count, wrong = rows_that_differ(cluster.isas, cluster.core_type, cluster.cores[0])
    section.fact(f"{name}: kernels", f"{count - len(wrong)} of {count} agree with the reference, {_took(begin)}")
    for kernel in wrong:
        section.fault(
            f"kernel {kernel} gives wrong results on {name} ({cluster.core_type})", f"it is left out; {REPORT}"
        )


def _network() -> Graph:
    """A chain of convolutions with random weights, a group each."""
    random = np.random.default_rng(0)
    tensors = {"x": Tensor("x", (1, 3, SIDE, SIDE))}
    constants: dict[str, np.ndarray] = {}
    nodes = []
    for layer in range(LAYERS):
        source = f"y{layer - 1}" if layer else "x"
        shape = (CHANNELS, tensors[source].shape[1], 3, 3)
        weight, bias = f"w{layer}", f"b{layer}"
        constants[weight] = (random.standard_normal(shape) / np.sqrt(prod(shape[1:]))).astype(np.float32)
        constants[bias] = random.standard_normal(CHANNELS).astype(np.float32)
        attrs = attributes("conv", pads=(1, 1, 1, 1), lo=0.0)
        inputs = (source, weight, bias)
        made = Tensor(f"y{layer}", infer_shape("conv", attrs, [tensors[source].shape, shape, (CHANNELS,)], "conv"))
        tensors[made.name] = made
        nodes.append(Node(f"conv{layer}", "conv", inputs, made.name, attrs))
    return Graph("self-test", tuple(nodes), tensors, constants, (tensors["x"],), (made,))


def _pipeline(section: Section, board: Board, graph: Graph, plan: str) -> None:
    frames = [np.random.default_rng(n).standard_normal((1, 3, SIDE, SIDE)).astype(np.float32) for n in range(2)]
    expected = [run_graph(graph, {"x": frame})[graph.outputs[0].name] for frame in frames]
    begin = perf_counter()
    try:
        with Pipeline(graph, plan, board=board) as pipe:
            found = list(pipe.map(frames[n % 2] for n in range(FRAMES)))
            fps = pipe.stats().fps
    except PipeallError as error:
        section.fault(f"a pipeline {plan} does not run: {error}", "please report this page")
        return
    off = max(np.abs(y - expected[n % 2]).max() / np.abs(expected[n % 2]).max() for n, y in enumerate(found))
    section.fact("pipeline", f"{plan}: {FRAMES} frames, {fps:.0f} FPS, off by {off:.1e} of the largest, {_took(begin)}")
    if not off <= NEAR:
        section.fault(f"a pipeline {plan} gives wrong results, off by {off:.1e} of the largest", REPORT)


def _picture(section: Section, board: Board, graph: Graph, gpu: str) -> None:
    """A picture through the GPU, against the same through the first cluster."""
    frame, results = example("RGB", (90, 120)), []
    begin = perf_counter()
    try:
        for name in (gpu, next(iter(board.components))):
            with Pipeline(graph, name, board=board, input=Picture(std=64.0)) as pipe:
                results.append(pipe.compute(frame))
    except PipeallError as error:
        section.fault(f"a picture does not pass through {gpu}: {error}", f"PIPEALL_OPENCL=off runs without; {REPORT}")
        return
    off = np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()
    section.fact(
        f"a picture through {gpu}",
        f"off by {off:.1e} of the largest from {next(iter(board.components))}, {_took(begin)}",
    )
    if not off <= PICTURE_NEAR:
        section.fault(f"a picture through {gpu} comes out wrong, off by {off:.1e} of the largest", REPORT)


def _took(begin: float) -> str:
    return f"{perf_counter() - begin:.1f} s"
